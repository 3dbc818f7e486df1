//! NFSv2 and the programs beside NFS, as `lineside_nfs::ancillary` reads them, against tshark: its
//! names of procedures and statuses, and every field of every call and reply in the captures at
//! hand. The messages come from the oracle, so nothing of the flow engine takes part.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use lineside_frame::{Cursor, Piece, View};
use lineside_nfs::ancillary::{Procedure, Summary, klm, nlm, nsm, portmap, rpcbind, rquota};
use lineside_nfs::{v2, v3};
use lineside_rpc::message::{Body, Header};
use lineside_rpc::xdr::{Optional, Xdr, padding};
use lineside_testkit::oracle::{Message, Oracle};
use lineside_testkit::tshark::{self, Dissected};
use lineside_testkit::{capture, captures};

/// What may be odd with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Odd {
    /// It ends too early or too late, or cannot be what it says.
    Faulty,
    /// tshark takes a reply for one to another call.
    Mispaired,
    /// tshark sees it, the oracle does not.
    NotByOracle,
    /// The oracle sees it, tshark does not.
    NotByTshark,
}

/// How many such messages a capture has, and why.
const ODD: &[(&str, Odd, usize, &str)] = &[
    (
        "nlm-nsm-two-interfaces.pcapng",
        Odd::Mispaired,
        2,
        "the server gives three calls over UDP one xid, and tshark takes every reply for one to \
        the first",
    ),
    (
        "nfstrace__2sessions-tcp-wsize32k-tcp-wsize512k.pcap.zst",
        Odd::Faulty,
        2,
        "the server leaves room for four entries behind an ACL that has none",
    ),
    (
        "tcpdump__nfs-cannot-pad-32-bit.pcap",
        Odd::Faulty,
        1,
        "made to crash a printer",
    ),
    (
        "wireshark__nfs_bad_stalls.cap.zst",
        Odd::Faulty,
        2,
        "frames are cut at 96 bytes, two before the end of a GETPORT call",
    ),
    (
        "wireshark__nfs_bad_stalls.cap.zst",
        Odd::NotByOracle,
        6,
        "frames are cut at 96 bytes, and the oracle follows a TCP stream to its first hole",
    ),
    (
        "zeek__mount-unmount-bad-status.pcap",
        Odd::Faulty,
        1,
        "the status was changed from success to a failure, which nothing follows",
    ),
];

#[test]
fn side_programs_equal_what_tshark_dissects() {
    if !tshark::available() {
        println!("SKIP: side programs are not compared with tshark: there is none");
        return;
    }
    let mut failures = String::new();
    let mut compared: HashMap<(Procedure, bool), usize> = HashMap::new();
    for path in captures::all() {
        let differences = compare(&path, &mut compared);
        if !differences.is_empty() {
            let _ = writeln!(
                failures,
                "{}: {} differences",
                path.display(),
                differences.len()
            );
            for difference in differences.iter().take(8) {
                let _ = writeln!(failures, "    {difference}");
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    let total: usize = compared.values().sum();
    println!("{total} messages of {} kinds", compared.len());
    assert!(total >= 300 && compared.len() >= 100, "{compared:?}");
}

/// Compares the messages of a capture, if it has any but MOUNT 3's, which go with NFSv3.
fn compare(path: &Path, compared: &mut HashMap<(Procedure, bool), usize>) -> Vec<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Ok(frames) = capture::read(path) else {
        return vec![];
    };
    let oracle = Oracle::new(&frames);
    let of_side = |message: &&Message| procedure_of(message.procedure).is_some();
    let ours: Vec<&Message> = oracle.messages.iter().filter(of_side).collect();
    let mount3 =
        |message: &&Message| matches!(procedure_of(message.procedure), Some(Procedure::Mount3(_)));
    if ours.iter().all(mount3) {
        return vec![];
    }
    let complete = path
        .parent()
        .is_some_and(|folder| !folder.ends_with("public"));
    let mut theirs: HashMap<(u64, u32, bool), Vec<Dissected>> = HashMap::new();
    for message in tshark::dissect(path, complete).expect("tshark runs") {
        let numbers = message.program.zip(message.version).zip(message.procedure);
        if procedure_of(numbers.map(|((program, version), number)| (program, version, number)))
            .is_some()
        {
            let key = (message.frame, message.xid, message.call);
            theirs.entry(key).or_default().push(message);
        }
    }
    let mut differences = Vec::new();
    let mut odd = Vec::new();
    for message in ours {
        let procedure = procedure_of(message.procedure).expect("filtered");
        let frame = oracle.frames_of(message).1 as u64 + 1;
        let key = (frame, message.xid, message.call);
        let Some(dissected) = theirs.get_mut(&key).and_then(Vec::pop) else {
            odd.push((frame, Odd::NotByTshark));
            continue;
        };
        if dissected.procedure != message.procedure.map(|(.., number)| number) {
            odd.push((frame, Odd::Mispaired));
            continue;
        }
        let bytes = bytes_of(&oracle, message);
        let pieces = [Piece::bytes(&bytes)];
        let mut cursor = Cursor::new(&pieces);
        let mut summary = Summary::default();
        match Header::decode(&mut cursor).body {
            Body::Call(_) => procedure.call(&mut cursor, &mut summary),
            Body::Reply(reply) if reply.is_success() => procedure.reply(&mut cursor, &mut summary),
            _ => continue,
        }
        let data = summary.data_len.unwrap_or(0) as usize;
        if cursor.fault().is_some() || cursor.remaining() != data + padding(data) {
            odd.push((frame, Odd::Faulty));
            continue;
        }
        *compared.entry((procedure, message.call)).or_default() += 1;
        let kind = if message.call { "call" } else { "reply" };
        for difference in differing(procedure, &summary, &dissected) {
            differences.push(format!(
                "frame {frame} {} {kind}: {difference}",
                procedure.name()
            ));
        }
    }
    let left = theirs.values().flatten();
    odd.extend(left.map(|message| (message.frame, Odd::NotByOracle)));
    for kind in [
        Odd::Faulty,
        Odd::Mispaired,
        Odd::NotByOracle,
        Odd::NotByTshark,
    ] {
        let found: Vec<_> = odd.iter().filter(|(_, odd)| *odd == kind).collect();
        let expected = ODD
            .iter()
            .find(|(capture, odd, ..)| *capture == name && *odd == kind);
        let expected = expected.map_or(0, |(_, _, count, _)| *count);
        if found.len() != expected {
            differences.push(format!("{kind:?}: {found:?}, expected {expected}"));
        }
    }
    differences
}

fn bytes_of(oracle: &Oracle, message: &Message) -> Vec<u8> {
    let data = &oracle.streams[message.stream].data;
    let parts = message.body.iter().flat_map(|part| &data[part.clone()]);
    parts.copied().collect()
}

fn procedure_of(numbers: Option<(u32, u32, u32)>) -> Option<Procedure> {
    let (program, version, number) = numbers?;
    Procedure::find(program, version, number)
}

/// A value of a field, ours or tshark's.
#[derive(Debug, PartialEq)]
enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

impl From<View<'_>> for Value {
    fn from(view: View<'_>) -> Self {
        Self::Bytes(view.to_vec())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Number(flag.into())
    }
}

/// What is compared of a message: values with the fields where tshark has them.
struct Comparison<'a> {
    dissected: &'a Dissected,
    differences: Vec<String>,
}

impl Comparison<'_> {
    /// All fields of these names, in the order of the message, against `ours`.
    fn values<T: Into<Value>>(
        &mut self,
        names: &[&str],
        ours: impl IntoIterator<Item = Option<T>>,
    ) {
        let ours: Vec<Value> = ours.into_iter().flatten().map(Into::into).collect();
        let theirs = self
            .dissected
            .fields
            .iter()
            .filter(|field| names.contains(&&*field.name));
        let as_ours =
            |(at, field): (usize, &tshark::Field)| match ours.get(at).or_else(|| ours.first()) {
                Some(Value::Bytes(_)) => Value::Bytes(field.bytes.clone()),
                _ => match &*field.show {
                    "True" => Value::Number(1),
                    "False" => Value::Number(0),
                    _ => field
                        .number()
                        .map_or_else(|| Value::Bytes(field.bytes.clone()), Value::Number),
                },
            };
        let theirs: Vec<Value> = theirs.enumerate().map(as_ours).collect();
        if ours != theirs {
            self.differences
                .push(format!("{names:?}: {ours:?}, tshark {theirs:?}"));
        }
    }

    fn value<T: Into<Value>>(&mut self, names: &[&str], ours: Option<T>) {
        self.values(names, [ours]);
    }

    /// How many fields of a name there are.
    fn count(&mut self, name: &str, ours: Option<u32>) {
        let theirs = self.dissected.fields_of(name).count();
        if ours.unwrap_or(0) as usize != theirs {
            self.differences
                .push(format!("{name}: {ours:?}, tshark {theirs} times"));
        }
    }

    /// A number with a name.
    fn status(&mut self, names: &[&str], summary: &Summary<'_>) {
        self.value(names, summary.status.map(|status| status.number));
        let field = self
            .dissected
            .fields
            .iter()
            .find(|field| names.contains(&&*field.name));
        if let (Some(field), Some(status)) = (field, summary.status) {
            let name = label_name(&field.label);
            if status.name.map(bare) != Some(bare(name)) {
                self.differences.push(format!("{status:?}, tshark {name}"));
            }
        }
    }
}

/// `LOCK` of `V4 Procedure: LOCK (2)`.
fn label_name(label: &str) -> &str {
    let behind = label.split_once(": ").map_or(label, |(_, behind)| behind);
    behind.split_once(" (").map_or(behind, |(name, _)| name)
}

/// A status without its prefix, which tshark writes in its own way, as it does two of the names.
fn bare(name: &str) -> &str {
    match name.split_once('_').map_or(name, |(_, bare)| bare) {
        "ACCESS" => "ACCES",
        "BIG" => "FBIG",
        "ENOENT" => "NOENT",
        bare => bare,
    }
}

fn differing(procedure: Procedure, summary: &Summary<'_>, dissected: &Dissected) -> Vec<String> {
    let mut all = Comparison {
        dissected,
        differences: Vec::new(),
    };
    let field = dissected
        .fields
        .iter()
        .find(|field| field.name.contains(".procedure_v"));
    let name = field.map_or("", |field| label_name(&field.label));
    if name != procedure.name() {
        all.differences
            .push(format!("name {}, tshark {name:?}", procedure.name()));
    }
    let s = summary;
    match procedure {
        Procedure::Nfs2(number) => {
            all.values(&["nfs.fhandle"], [s.file, s.file2, s.object]);
            all.values(&["nfs.name"], [s.name, s.name2]);
            all.value(&["nfs.symlink.to", "nfs.readlink.data"], s.symlink_target);
            all.value(&["nfs.read.offset", "nfs.write.offset"], s.offset);
            all.value(&["nfs.read.count", "nfs.write.totalcount"], s.count);
            let data = dissected
                .field("nfs.data")
                .map(|field| field.bytes.len() as u32);
            assert_eq!((s.data_len, s.transferred.or(s.data_len)), (data, data));
            all.value(&["nfs.readdir.cookie"], s.directory_cookie);
            all.value(&["nfs.readdir.count"], s.bytes_max);
            all.value(&["nfs.readdir.eof"], s.eof);
            all.count("nfs.readdir.entry", s.entries);
            all.status(&["nfs.status2"], s);
            all.value(&["nfs.statfs.tsize"], s.transfer_size);
            let bytes = ["blocks", "bfree", "bavail"].map(|blocks| {
                let field = |name| dissected.field(&format!("nfs.statfs.{name}"))?.number();
                Some(field(blocks)? * field("bsize")?)
            });
            assert_eq!([s.total_bytes, s.free_bytes, s.available_bytes], bytes);
            if let Some(set) = &s.set_attributes {
                let word = |value: Optional<Option<u32>>| value.value().or(Some(u32::MAX));
                all.value(&["nfs.mode"], word(set.mode));
                all.value(&["nfs.fattr.uid"], word(set.uid));
                all.value(&["nfs.fattr.gid"], word(set.gid));
                all.value(
                    &["nfs.fattr.size"],
                    set.size.value().or_else(|| Some(u32::MAX.into())),
                );
                let seconds = |time: v3::SetTime| match time {
                    v3::SetTime::ClientTime(time) => time.seconds,
                    _ => None,
                };
                all.value(&["nfs.atime.sec"], seconds(set.atime));
                // A number of microseconds that is none asks for the server's time.
                match set.mtime {
                    v3::SetTime::ServerTime => all.value(&["nfs.mtime.usec"], Some(1_000_000u32)),
                    time => all.value(&["nfs.mtime.sec"], seconds(time)),
                }
            }
            if let Some(attributes) = &s.attributes {
                let kind = attributes.file_type.map(|kind| kind.0);
                all.value(&["nfs.ftype"], kind);
                let mode = dissected.field("nfs.mode").and_then(|field| field.number());
                assert_eq!(
                    attributes.mode.map(u64::from),
                    mode.map(|mode| mode & 0o7777)
                );
                all.value(&["nfs.fattr.nlink"], attributes.link_count);
                all.value(&["nfs.fattr.uid"], attributes.uid);
                all.value(&["nfs.fattr.gid"], attributes.gid);
                all.value(&["nfs.fattr.size"], attributes.size);
                all.value(&["nfs.fattr.fsid"], attributes.fsid);
                all.value(&["nfs.fattr.fileid"], attributes.fileid);
                for (name, time) in [
                    ("atime", attributes.atime),
                    ("mtime", attributes.mtime),
                    ("ctime", attributes.ctime),
                ] {
                    all.value(&[&format!("nfs.{name}.sec")], time.seconds);
                    all.value(
                        &[&format!("nfs.{name}.usec")],
                        time.nanoseconds.map(|part| part / 1000),
                    );
                }
            }
            let wrote = number == v2::Procedure::Write && !dissected.call && s.attributes.is_some();
            assert_eq!(s.transferred_all, wrote);
        }
        Procedure::NfsAcl2(_) | Procedure::NfsAcl3(_) => {
            all.values(&["nfs.fhandle"], [s.file, s.object]);
            all.value(&["nfsacl.mask"], s.acl_mask);
            all.count(
                "nfsacl.aclent",
                Some(s.acl_entries.unwrap_or(0) + s.acl_default_entries.unwrap_or(0)),
            );
            all.status(&["nfs.status", "nfs.status2"], s);
            all.value(
                &["nfs.fattr.size", "nfs.fattr3.size"],
                s.attributes.and_then(|attributes| attributes.size),
            );
            all.value(
                &["nfs.fattr.fileid", "nfs.fattr3.fileid"],
                s.attributes.and_then(|attributes| attributes.fileid),
            );
            all.value(&["nfsacl.create"], s.create);
        }
        Procedure::Mount1(_) | Procedure::Mount3(_) => {
            all.value(&["mount.path"], s.name);
            all.value(&["nfs.fhandle"], s.object);
            all.status(&["mount.status"], s);
            let flavors = s.flavors.into_iter().flat_map(|flavors| flavors.iter());
            all.values(&["mount.flavor"], flavors.map(|flavor| Some(flavor.0)));
            let entries = ["mount.dump.entry", "mount.export.entry"];
            let theirs: usize = entries
                .iter()
                .map(|name| dissected.fields_of(name).count())
                .sum();
            assert_eq!(s.entries.unwrap_or(0) as usize, theirs);
        }
        Procedure::Nlm1(_) | Procedure::Nlm4(_) => {
            all.value(&["nlm.cookie"], s.cookie);
            all.value(&["nlm.lock.caller_name", "nlm.share.name"], s.name);
            all.value(&["nfs.fhandle"], s.file);
            all.value(&["nlm.lock.owner"], s.lock_owner);
            all.value(&["nlm.lock.svid"], s.svid);
            all.value(&["nlm.lock.l_offset", "nlm.lock.l_offset64"], s.offset);
            all.value(&["nlm.lock.l_len", "nlm.lock.l_len64"], s.count);
            all.value(&["nlm.block"], s.block);
            all.value(&["nlm.exclusive"], s.exclusive);
            all.value(&["nlm.reclaim"], s.reclaim);
            all.value(&["nlm.state"], s.state);
            all.status(&["nlm.stat", "nlm.test_stat.stat"], s);
            all.value(&["nlm.share.mode"], s.share_mode.map(|mode| mode.0));
            all.value(&["nlm.share.access"], s.share_access.map(|access| access.0));
            all.value(&["nlm.sequence"], s.sequence);
        }
        Procedure::Klm(_) => {
            all.value(&["klm.servername"], s.name);
            all.value(&["nfs.fhandle"], s.file);
            all.value(&["klm.pid"], s.svid);
            all.value(&["klm.offset"], s.offset);
            all.value(&["klm.len"], s.count);
            all.value(&["klm.block"], s.block);
            all.value(&["klm.exclusive"], s.exclusive);
            all.status(&["klm.stats"], s);
        }
        Procedure::Nsm(_) => {
            all.value(&["stat.name", "stat.mon_id.name"], s.name);
            all.value(&["stat.my_id.hostname"], s.name2);
            all.value(&["stat.my_id.prog"], s.target_program);
            all.value(&["stat.my_id.vers"], s.target_version);
            all.value(&["stat.my_id.proc"], s.target_procedure);
            all.status(&["stat.stat_res.res"], s);
            // tshark shows no state behind a failure.
            let failed = s.status.is_some_and(|status| status.number != 0);
            all.value(
                &["stat.stat_res.state", "stat.state"],
                s.state.filter(|_| !failed),
            );
        }
        Procedure::Portmap(portmap::Procedure::Dump) => {
            all.count("portmap.prog", s.entries);
        }
        Procedure::Portmap(number) => {
            all.value(&["portmap.prog"], s.target_program);
            all.value(&["portmap.version"], s.target_version);
            all.value(&["portmap.proc"], s.target_procedure);
            all.value(&["portmap.proto"], s.protocol);
            all.value(&["portmap.answer"], s.done);
            // The port in a GETPORT call is not used.
            if number != portmap::Procedure::GetPort || !dissected.call {
                all.value(&["portmap.port"], s.port);
            }
        }
        Procedure::Rpcbind3(rpcbind::Procedure::Dump)
        | Procedure::Rpcbind4(rpcbind::Procedure::Dump) => {
            all.count("portmap.rpcb.prog", s.entries);
        }
        // tshark reads nothing of these.
        Procedure::Rpcbind3(number) | Procedure::Rpcbind4(number) if number as u32 >= 6 => {}
        Procedure::Rpcbind3(_) | Procedure::Rpcbind4(_) => {
            all.value(&["portmap.rpcb.prog"], s.target_program);
            all.value(&["portmap.rpcb.version"], s.target_version);
            all.value(&["portmap.rpcb.netid"], s.netid);
            all.value(&["portmap.rpcb.addr", "portmap.uaddr"], s.address);
            all.value(&["portmap.rpcb.owner"], s.service_owner);
            all.value(&["portmap.answer"], s.done);
        }
        Procedure::Rquota1(_) | Procedure::Rquota2(_) => {
            all.value(&["rquota.pathp"], s.name);
            all.value(&["rquota.uid", "rquota.id"], s.quota_id);
            all.value(&["rquota.type"], s.quota_type);
            all.status(&["rquota.status"], s);
            all.value(&["rquota.bsize"], s.quota_block_size);
            all.value(&["rquota.active"], s.quota_active);
            let limits = s.quota_limits.unwrap_or_default();
            all.value(&["rquota.bhardlimit"], limits.blocks_hard);
            all.value(&["rquota.bsoftlimit"], limits.blocks_soft);
            all.value(&["rquota.curblocks"], limits.blocks_used);
            all.value(&["rquota.fhardlimit"], limits.files_hard);
            all.value(&["rquota.fsoftlimit"], limits.files_soft);
            all.value(&["rquota.curfiles"], limits.files_used);
            all.value(&["rquota.btimeleft"], limits.blocks_seconds_left);
            all.value(&["rquota.ftimeleft"], limits.files_seconds_left);
        }
    }
    all.differences
}

/// What tshark does not read is right if it agrees with the rest of the capture.
#[test]
fn rpcbinds_answers_match_their_calls() {
    let example = captures::example("services.pcapng.zst");
    assert_rpcbind_answers(&example, "192.0.2.1.0.111");
    if let Some(folder) = captures::beside() {
        let path = folder.join("own/side-programs.pcap");
        assert_rpcbind_answers(&path, "10.77.0.1.8.1");
    }
}

fn assert_rpcbind_answers(path: &Path, universal_address: &str) {
    let frames = capture::read(path).expect("a whole capture");
    let oracle = Oracle::new(&frames);
    let mut read = 0;
    for reply in oracle.messages.iter().filter(|message| !message.call) {
        let Some(procedure @ (Procedure::Rpcbind3(number) | Procedure::Rpcbind4(number))) =
            procedure_of(reply.procedure)
        else {
            continue;
        };
        let asked = &oracle.messages[reply.answers.expect("its call")];
        let (asked, answered) = (bytes_of(&oracle, asked), bytes_of(&oracle, reply));
        let pieces = [[Piece::bytes(&asked)], [Piece::bytes(&answered)]];
        let [mut call, mut result] = [&pieces[0], &pieces[1]].map(|pieces| {
            let mut cursor = Cursor::new(pieces);
            Header::decode(&mut cursor);
            cursor
        });
        let (mut asked, mut answered) = (Summary::default(), Summary::default());
        procedure.call(&mut call, &mut asked);
        procedure.reply(&mut result, &mut answered);
        let text = |view: Option<View<'_>>| String::from_utf8(view.expect("there").to_vec());
        match number {
            rpcbind::Procedure::GetTime => {
                let stamp = frames[oracle.frames_of(reply).1].stamp_ns.expect("a stamp");
                let seconds = answered.time_seconds.expect("a time");
                assert!(stamp / 1_000_000_000 - i64::from(seconds) < 3600);
            }
            rpcbind::Procedure::UAddr2TAddr => {
                // `10.0.0.1.8.1` as a socket's address: family, port, address.
                let address = text(asked.address).expect("ASCII");
                let numbers = address
                    .split('.')
                    .map(|number| number.parse().expect("a byte"));
                let mut numbers: Vec<u8> = numbers.collect();
                numbers.rotate_right(2);
                let socket = answered.transport_address.expect("there").to_vec();
                assert_eq!(socket[2..8], numbers);
            }
            rpcbind::Procedure::GetVersAddr => {
                assert_eq!(text(answered.address).expect("ASCII"), universal_address);
            }
            rpcbind::Procedure::GetAddrList => assert!(answered.entries > Some(0)),
            _ => continue,
        }
        read += 1;
    }
    assert_eq!(read, 12);
}

/// tshark's lists of procedures and statuses, in the captures or not.
#[test]
fn names_equal_tsharks() {
    if !tshark::available() {
        println!("SKIP: names are not compared with tshark: there is none");
        return;
    }
    let output = Command::new("tshark")
        .args(["-G", "values"])
        .output()
        .expect("tshark runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut found = 0;
    let mut differences = String::new();
    for line in text.lines() {
        let [_, field, number, name] = line.split('\t').collect::<Vec<_>>()[..] else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        let ours = match field.split_once(".procedure_v") {
            Some((program, version)) => {
                let program = match program {
                    "nfs" => 100_003,
                    "portmap" => 100_000,
                    "mount" => 100_005,
                    "rquota" => 100_011,
                    "klm" => 100_020,
                    "nlm" => 100_021,
                    "stat" => 100_024,
                    "nfsacl" => 100_227,
                    _ => continue,
                };
                let version: u32 = version.parse().expect("a number");
                // Their descriptions are elsewhere, or there is no such version.
                if matches!(
                    (program, version),
                    (100_003, 3 | 4) | (100_000 | 100_227, 1)
                ) {
                    continue;
                }
                Procedure::find(program, version, number).map(Procedure::name)
            }
            None => match field {
                "nfs.status2" if number < 10_000 => {
                    // NFSERR_NAME of the RFC is NFS2ERR_NAME; it has more than the RFC.
                    let ours = v2::status_name(number);
                    assert!(
                        ours.is_none_or(|ours| bare(ours) == bare(name)),
                        "{ours:?} {name}"
                    );
                    found += 1;
                    continue;
                }
                "nlm.stat" => {
                    let names = [nlm::v1::status_name(number), nlm::v4::status_name(number)];
                    // It has NLM_BIG for what the RFC calls NLM4_FBIG.
                    let theirs = if name == "NLM_BIG" {
                        "FBIG"
                    } else {
                        bare(name)
                    };
                    assert!(
                        names.iter().flatten().all(|ours| bare(ours) == theirs),
                        "{names:?} {name}"
                    );
                    found += 1;
                    continue;
                }
                "klm.stats" => klm::status_name(number),
                "stat.stat_res.res" => nsm::status_name(number),
                "rquota.status" => rquota::status_name(number).map(bare),
                _ => continue,
            },
        };
        found += 1;
        if ours != Some(name) {
            let _ = writeln!(differences, "{field} {number}: {ours:?}, tshark {name}");
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
    assert!(found > 150, "{found} names");
}
