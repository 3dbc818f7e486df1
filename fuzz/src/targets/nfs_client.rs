//! NFS clients: replies of any kind, whole and in pieces; both are heard alike.

use lineside_frame::Piece;
use lineside_nfs::v3;
use lineside_nfs::v4::{self, Call, Claim, Handle, OpenHow, Owner, StateId, StateOwner};
use lineside_nfs_client::{
    Answer, CallError, Client, Config, Connection, Credential, Event, Mount, MountAt, Request,
    Transport, Version,
};
use lineside_rpc::message::encode_record;
use lineside_rpc::xdr::Name;

use super::Bytes;

const REPLY_BYTES_MAX: u32 = 2_000;

/// Calls once the client is ready: READs, then OPENs of one owner.
fn call(client: &mut Client, connection: Connection, is_v3: bool) {
    let owner = [Piece::bytes(b"owner")];
    let by = Credential::none();
    for tag in 0..12 {
        let object = Some(Handle::new(&[]));
        let put = Call::PutFh(v4::PutFhArgs { object });
        let read = Call::Read(v4::ReadArgs {
            stateid: Some(StateId {
                sequence: 0,
                other: [0; 12],
            }),
            offset: Some(tag),
            count: Some(8),
        });
        let open = Call::Open(v4::OpenArgs {
            sequence: Some(0),
            access: Some(1),
            deny: Some(0),
            owner: StateOwner {
                client_id: Some(0),
                owner: Some(Owner::new(&owner)),
            },
            how: OpenHow::NoCreate,
            claim: Claim::Null(Some(Name::new(&[]))),
        });
        let calls = [put, if tag < 8 { read } else { open }];
        let null = v3::Call::Null(());
        let request = match is_v3 {
            true => Request::Nfs3(&null, &[]),
            false => Request::Compound {
                tag: b"",
                calls: &calls,
                data: &[],
            },
        };
        match client.call(0, connection, tag, &by, request) {
            Ok(_) | Err(CallError::Over) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// What is heard of records, each of which comes in pieces of `step` bytes.
fn talk(stream: &[u8], choice: u8, step: usize) -> Vec<String> {
    let version = match choice % 4 {
        3 => Version::V3,
        minor => Version::V4(minor.into()),
    };
    let mut config = Config::new(version, b"a client", [0; 8]);
    config.mount = Some(Mount {
        export: b"/a".to_vec(),
        at: MountAt::Portmap,
    });
    config.reply_bytes_max = REPLY_BYTES_MAX;
    config.timeout_ns = Some(1_000);
    let (mut client, mut log, mut connection) = (Client::new(config), Vec::new(), None);
    client.start(0);
    let mut bytes = Bytes(stream);
    loop {
        while let Some(event) = client.poll() {
            log.push(format!("{event:?}"));
            match (event, connection) {
                (Event::Connect(service, port), _) => {
                    connection = Some(client.opened(0, service, port, Transport::Stream));
                }
                (Event::Ready, Some(at)) => call(&mut client, at, version == Version::V3),
                _ => {}
            }
        }
        let Some(at) = connection.filter(|_| !bytes.is_empty()) else {
            break;
        };
        let len = bytes.u16().into();
        let (message, mut record) = (bytes.take(len), Vec::new());
        encode_record(&[], message, &mut record);
        for piece in record.chunks(step) {
            let heard = client.on_bytes(0, at, piece, |reply| {
                let mut heard = format!("{:?} {}", reply.tag, reply.xid);
                if let Answer::Results(results) = reply.answer
                    && let Ok(compound) = results.compound()
                {
                    compound.for_each(|each| heard += &format!(" {}", each.is_ok()));
                }
                log.push(heard);
            });
            if heard.is_err() {
                log.push("broken".to_owned());
                client.closed(0, at);
                client.reopened(0, at);
                break;
            }
        }
    }
    client.on_time(1_000_000_000_000);
    client.finish(1_000_000_000_000);
    while let Some(event) = client.poll() {
        log.push(format!("{event:?}"));
    }
    assert!(client.outstanding() <= 16, "calls, and the client's own");
    log
}

pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (choice, step) = (bytes.last(), usize::from(bytes.last()) % 64 + 1);
    let whole = talk(bytes.0, choice, usize::MAX);
    assert_eq!(whole, talk(bytes.0, choice, step));
}
