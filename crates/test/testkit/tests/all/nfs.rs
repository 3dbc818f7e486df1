//! Every NFSv2 message and every NFSv4 compound of the captures, beside tshark's dissection of it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use lineside_frame::{Cursor, Fault, Piece};
use lineside_nfs::v2;
use lineside_nfs::v4::{self, callback};
use lineside_rpc::message::{AcceptStatus, Body, Header, ReplyHeader};
use lineside_rpc::xdr::{Xdr, padding};
use lineside_testkit::oracle::{Message, Oracle};
use lineside_testkit::{capture, captures, tshark};

/// Captures beside the repository of NFSv4 without encryption, in which tshark sees every compound.
const CAPTURES: [&str; 11] = [
    "own/mix-v40.pcap.zst",
    "own/pynfs-v40.pcap.zst",
    "own/pynfs-v40-callbacks.pcap.zst",
    "own/pynfs-v41.pcap.zst",
    "own/pynfs-v42.pcap.zst",
    "public/nfstrace__eth-ipv4-tcp-nfsv41.pcap.zst",
    "public/nfstrace__eth-ipv4-tcp-nfsv4-incorrect_mount.pcap",
    "public/packetbeat__nfs_v4.pcap",
    "public/packetbeat__nfsv42_clone.pcap",
    "public/packetbeat__nfsv42_layoutstats.pcap",
    "public/wireshark__nfsv4.1_pnfs.cap",
];

/// A compound: the numbers of its operations, and of a reply its status and theirs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Compound {
    operations: Vec<u32>,
    statuses: Vec<u32>,
}

#[test]
fn compounds_are_walked_as_tshark_walks_them() {
    if !tshark::available() {
        println!("SKIP: compounds are not compared with tshark: there is none");
        return;
    }
    let mut paths = vec![captures::example("nfs-v4.pcapng.zst")];
    if let Some(folder) = captures::beside() {
        paths.extend(CAPTURES.map(|name| folder.join(name)));
    }
    let mut operations: BTreeMap<u32, usize> = BTreeMap::new();
    for path in paths {
        let name = path.display();
        let frames = capture::read(&path).expect("a whole capture");
        let oracle = Oracle::new(&frames);
        let replies = oracle.messages.iter().filter(|message| !message.call);
        let refused: HashSet<_> = replies
            .filter(|reply| garbage(pieces(&oracle, reply)))
            .filter_map(|reply| reply.answers)
            .collect();
        let mut found: BTreeMap<_, Compound> = BTreeMap::new();
        for (at, message) in oracle.messages.iter().enumerate() {
            let callback = match message.procedure {
                Some((v4::PROGRAM, v4::VERSION, v4::COMPOUND)) => false,
                Some((program, callback::VERSION, callback::COMPOUND)) => {
                    if !callback::PROGRAMS.contains(&program) {
                        continue;
                    }
                    true
                }
                _ => continue,
            };
            let (_, frame) = oracle.frames_of(message);
            let what = format!("{name} frame {} xid {:#x}", frame + 1, message.xid);
            if let Some(compound) = walk(
                &pieces(&oracle, message),
                callback,
                refused.contains(&at),
                &what,
            ) {
                for &operation in &compound.operations {
                    *operations.entry(operation).or_default() += usize::from(!callback);
                }
                found.insert((frame as u64 + 1, message.xid, message.call), compound);
            }
        }
        let mut compared = 0;
        for message in tshark::dissect(&path, true).expect("tshark runs") {
            if message.operations.is_empty() {
                continue;
            }
            let key = (message.frame, message.xid, message.call);
            let ours = found.remove(&key).unwrap_or_default();
            let what = format!("{name} {key:?}");
            let theirs = Compound {
                operations: { message.operations.iter() }
                    .map(|operation| operation.number)
                    .collect(),
                statuses: { message.compound_status.into_iter() }
                    .chain({ message.operations.iter() }.filter_map(|operation| operation.status))
                    .collect(),
            };
            assert_eq!(ours, theirs, "{what}");
            compared += 1;
        }
        found.retain(|_, compound| !compound.operations.is_empty());
        assert!(found.is_empty(), "{name}: only ours: {found:?}");
        println!("{name}: {compared} compounds");
    }
    println!("{} kinds of operations: {operations:?}", operations.len());
    assert!(operations.len() > 25, "{operations:?}");
}

/// What tshark says of an NFSv2 message too.
#[derive(Debug, PartialEq)]
struct Summary {
    procedure: u32,
    status: Option<u32>,
    handles: Vec<Vec<u8>>,
    name: Option<Vec<u8>>,
}

#[test]
fn nfs2_messages_are_read_as_tshark_reads_them() {
    if !tshark::available() {
        println!("SKIP: NFSv2 is not compared with tshark: there is none");
        return;
    }
    assert_nfs2_is_read(
        &captures::example("services.pcapng.zst"),
        2 * 2 * NFS2_CALLS,
    );
    if let Some(folder) = captures::beside() {
        // 73 calls and 73 replies.
        assert_nfs2_is_read(&folder.join("public/wireshark__nfsv2.pcap"), 146);
    }
}

/// The calls of NFSv2 in `crates/test/nfs-lab/services`, which makes them over UDP and over TCP.
const NFS2_CALLS: usize = 22;

fn assert_nfs2_is_read(path: &Path, messages: usize) {
    let oracle = Oracle::new(&capture::read(path).expect("a whole capture"));
    let mut found = BTreeMap::new();
    for message in &oracle.messages {
        let Some((v2::PROGRAM, v2::VERSION, number)) = message.procedure else {
            continue;
        };
        let procedure = v2::Procedure::from_number(number).expect("of RFC 1094");
        let pieces = pieces(&oracle, message);
        let mut cursor = Cursor::new(&pieces);
        Header::decode(&mut cursor);
        let mut summary = Summary {
            procedure: number,
            status: None,
            handles: vec![],
            name: None,
        };
        let mut data = None;
        if message.call {
            let call = v2::Call::decode(procedure, &mut cursor);
            let handles = [call.file(), call.file2()];
            summary.handles = handles
                .iter()
                .flatten()
                .map(|handle| handle.to_vec())
                .collect();
            summary.name = call.name().map(|name| name.to_vec());
            if let v2::Call::Write(args) = call {
                data = args.data_len;
            }
        } else {
            let reply = v2::Reply::decode(procedure, &mut cursor);
            summary.status = reply.status();
            summary.handles = reply
                .object()
                .iter()
                .map(|handle| handle.to_vec())
                .collect();
            if let v2::Reply::Read(_) = reply {
                data = reply.transferred();
            }
        }
        let data = data.unwrap_or(0) as usize;
        let left = data + padding(data);
        assert_eq!(
            (cursor.fault(), cursor.remaining()),
            (None, left),
            "{summary:?}"
        );
        let (_, frame) = oracle.frames_of(message);
        found.insert((frame as u64 + 1, message.xid, message.call), summary);
    }
    assert_eq!(found.len(), messages, "{}", path.display());
    for message in tshark::dissect(path, true).expect("tshark runs") {
        if (message.program, message.version) != (Some(v2::PROGRAM), Some(v2::VERSION)) {
            continue;
        }
        let theirs = Summary {
            procedure: message.procedure.expect("of a pair"),
            status: message.status,
            handles: message.handles,
            name: message.names.into_iter().next(),
        };
        let ours = found.remove(&(message.frame, message.xid, message.call));
        assert_eq!(ours, Some(theirs), "frame {}", message.frame);
    }
    assert!(found.is_empty(), "only ours: {found:?}");
}

/// A message's bytes where they lie.
fn pieces<'a>(oracle: &'a Oracle, message: &Message) -> Vec<Piece<'a>> {
    let data = &oracle.streams[message.stream].data;
    let parts = message.body.iter().map(|part| &data[part.clone()]);
    parts.map(Piece::bytes).collect()
}

/// A reply that says GARBAGE_ARGS: pynfs sends calls that are not XDR.
fn garbage(pieces: Vec<Piece<'_>>) -> bool {
    let body = Header::decode(&mut Cursor::new(&pieces)).body;
    let Body::Reply(ReplyHeader::Accepted(reply)) = body else {
        return false;
    };
    reply.status == AcceptStatus::GarbageArgs
}

/// Reads a whole message; `None` if it is a reply that carries no results. It must read well unless
/// the server too could not read it.
fn walk(pieces: &[Piece<'_>], callback: bool, refused: bool, what: &str) -> Option<Compound> {
    let mut cursor = Cursor::new(pieces);
    let header = Header::decode(&mut cursor);
    let mut compound = Compound::default();
    let mut unknown = false;
    match (header.body, callback) {
        (Body::Call(_), false) => {
            let header = v4::CallHeader::decode(&mut cursor);
            for _ in 0..header.operation_count? {
                let call = v4::Call::decode(&mut cursor);
                compound.operations.extend(call.number());
                unknown |= matches!(call, v4::Call::Unknown(_));
                if let Some(len) = call.data_len() {
                    v4::skip_data(&mut cursor, len);
                }
            }
        }
        (Body::Call(_), true) => {
            let header = callback::CallHeader::decode(&mut cursor);
            for _ in 0..header.operation_count? {
                let call = callback::Call::decode(&mut cursor);
                compound.operations.extend(call.number());
                unknown |= matches!(call, callback::Call::Unknown(_));
            }
        }
        (Body::Reply(reply), callback) => {
            if !reply.is_success() {
                return None;
            }
            let header = v4::ReplyHeader::decode(&mut cursor);
            compound
                .statuses
                .extend(header.status.map(|status| status.0));
            for _ in 0..header.operation_count? {
                if callback {
                    let reply = callback::Reply::decode(&mut cursor);
                    compound.operations.extend(reply.number());
                    compound.statuses.extend(reply.status());
                    continue;
                }
                let reply = v4::Reply::decode(&mut cursor);
                compound.operations.extend(reply.number());
                compound.statuses.extend(reply.status());
                unknown |= matches!(reply, v4::Reply::Unknown(..));
                if let Some(len) = reply.data_len() {
                    v4::skip_data(&mut cursor, len);
                }
                for _ in 0..reply.segment_count().unwrap_or(0) {
                    if let Some(len) = v4::Segment::decode(&mut cursor).data_len() {
                        v4::skip_data(&mut cursor, len);
                    }
                }
                if let Some(attributes) = reply.attributes() {
                    assert_eq!(attributes.unknown(), None, "{what}: {reply:?}");
                }
            }
        }
        (Body::Unread, _) => return None,
    }
    let whole = (cursor.fault(), cursor.remaining()) == (None, 0);
    let stopped = (unknown || refused) && cursor.fault() == Some(Fault::Malformed);
    let left = cursor.remaining();
    assert!(
        whole || stopped,
        "{what}: {:?}, {left} left, {compound:?}",
        cursor.fault()
    );
    Some(compound)
}
