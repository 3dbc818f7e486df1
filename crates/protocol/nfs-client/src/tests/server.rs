//! A server in memory, strict about what clients must not do: slots, owners' numbers, client ids.

use std::collections::HashMap;

use lineside_frame::{Cursor, Piece};
use lineside_nfs::ancillary::portmap;
use lineside_nfs::v4::{
    self, AttributeList, Attributes, Bitmap, Call, ChannelAttributes, Handle, Reply, StateId,
    Status,
};
use lineside_nfs::{mount, v3};
use lineside_rpc::message::{
    AcceptStatus, AcceptedReply, Auth, Body, CallHeader, Header, ReplyHeader, encode_record,
};
use lineside_rpc::xdr::{Array, Counted, Outcome, Xdr, pad};

use crate::header::Broken;
use crate::records::{Heads, Limits, Records};

pub(super) const SESSION: v4::SessionId = [9; 16];
pub(super) const SLOTS: u32 = 4;
pub(super) const LEASE_SECONDS: u32 = 90;
pub(super) const CLIENT_ID: u64 = 0x1234_5678_9abc_def0;
const MOUNT_PORT: u32 = 20_048;
const LIMITS: Limits = Limits {
    head: 1 << 20,
    record: 1 << 20,
};

#[derive(Default)]
pub(super) struct Server {
    /// Records that are not whole, by connection.
    streams: HashMap<usize, (Records, Heads)>,
    /// The last call of each slot, and its reply.
    slots: HashMap<u32, (u32, Vec<u8>)>,
    /// Replies by xid, where there are no slots.
    answered: HashMap<u32, Vec<u8>>,
    /// The next number of each owner, by its state or its name.
    owners: HashMap<Vec<u8>, u32>,
    states: HashMap<[u8; 12], Vec<u8>>,
    /// Offsets of READs, as often as they were executed.
    pub(super) read: Vec<u64>,
    pub(super) renewals: u32,
    pub(super) lone_sequences: u32,
    /// What a client must not do.
    pub(super) wrong: Vec<String>,
    pub(super) credentials: Vec<(u32, Vec<u32>)>,
    /// Answers every SEQUENCE so.
    pub(super) sequence_status: Option<Status>,
}

impl Server {
    /// The connection ended.
    pub(super) fn forget(&mut self, connection: usize) {
        self.streams.remove(&connection);
    }

    /// Replies, each a record, to what comes.
    pub(super) fn hear(&mut self, connection: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
        let stream = self.streams.remove(&connection);
        let (mut records, mut heads) =
            stream.unwrap_or_else(|| (Records::default(), Heads::new(1 << 20)));
        let mut messages = Vec::new();
        let heard = records.push::<Broken>(bytes, &mut heads, LIMITS, |message, _| {
            messages.push(message.to_vec());
            Ok(())
        });
        heard.expect("calls are records");
        self.streams.insert(connection, (records, heads));
        let answers = messages.iter().map(|message| {
            let mut out = Vec::new();
            encode_record(&[], &self.answer(message), &mut out);
            out
        });
        answers.collect()
    }

    /// The reply to a message.
    pub(super) fn answer(&mut self, message: &[u8]) -> Vec<u8> {
        let pieces = [Piece::bytes(message)];
        let mut cursor = Cursor::new(&pieces);
        let header = Header::decode(&mut cursor);
        let (Some(xid), Body::Call(call)) = (header.xid, header.body) else {
            panic!("{header:?}");
        };
        if let Some(sys) = call.credential.sys() {
            let gids = sys.gids.iter().collect();
            self.credentials.push((sys.uid.expect("a user"), gids));
        }
        if let Some(before) = self.answered.get(&xid) {
            return before.clone();
        }
        let mut out = Vec::new();
        let header = Header {
            xid: Some(xid),
            body: Body::Reply(ReplyHeader::Accepted(AcceptedReply {
                verifier: Auth::none(),
                status: AcceptStatus::Success,
            })),
        };
        header.encode(&mut out);
        let numbers = (call.program, call.version, call.procedure);
        let slot = match numbers {
            (Some(v4::PROGRAM), Some(v4::VERSION), Some(v4::COMPOUND)) => {
                match self.compound(&mut cursor, &mut out) {
                    Ok(slot) => slot,
                    Err(before) => return before,
                }
            }
            _ => {
                self.other(&call, &mut cursor, &mut out);
                None
            }
        };
        match slot {
            Some((slot, sequence)) => drop(self.slots.insert(slot, (sequence, out.clone()))),
            None => drop(self.answered.insert(xid, out.clone())),
        }
        out
    }

    fn other(&mut self, call: &CallHeader<'_>, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) {
        match call.program {
            Some(portmap::PROGRAM) => {
                let port = Some(MOUNT_PORT);
                portmap::Reply::GetPort(portmap::Port { port }).encode(out);
            }
            Some(mount::PROGRAM) => {
                let handle = [Piece::bytes(b"root")];
                let mounted = mount::Mounted {
                    handle: Some(Handle3::new(&handle)),
                    flavors: Array::new(&[]),
                };
                mount::Reply::Mnt(Outcome::Ok(mounted)).encode(out);
            }
            _ => {
                let procedure = v3::Procedure::from_number(call.procedure.expect("a number"));
                let call = v3::Call::decode(procedure.expect("a procedure"), cursor);
                let v3::Call::Read(args) = call else {
                    return v3::Reply::Null(()).encode(out);
                };
                self.read.push(args.offset.expect("an offset"));
                // NFS3ERR_STALE, and no attributes.
                (70_u32, 0_u32).encode_both(out);
            }
        }
    }

    /// The slot and the number of a compound; an error is the reply to its repetition.
    fn compound(
        &mut self,
        cursor: &mut Cursor<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<(u32, u32)>, Vec<u8>> {
        let header = v4::CallHeader::decode(cursor);
        let count = header.operation_count.expect("operations");
        let (mut slot, mut replies, mut done, mut status) = (None, Vec::new(), 0, 0);
        for operation in 0..count {
            let call = Call::decode(cursor);
            assert_eq!(cursor.fault(), None, "{call:?}");
            if let Call::Sequence(args) = &call {
                if header.minor_version == Some(0) || operation > 0 {
                    self.wrong.push("a SEQUENCE where none belongs".to_owned());
                }
                self.lone_sequences += u32::from(count == 1);
                let (at, number) = (args.slot.expect("a slot"), args.sequence.expect("a number"));
                if let Some((last, before)) = self.slots.get(&at)
                    && *last == number
                {
                    return Err(before.clone());
                }
                slot = Some((at, number));
            }
            let before = replies.len();
            status = self.execute(&call, &mut replies);
            assert!(replies.len() > before, "{call:?}");
            done += 1;
            if status != 0 {
                break;
            }
        }
        let header = v4::ReplyHeader {
            status: Some(Status(status)),
            tag: header.tag,
            operation_count: Some(done),
        };
        header.encode(out);
        out.extend(replies);
        Ok(slot.filter(|_| status == 0))
    }

    fn execute(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> u32 {
        if let Some(reply) = established(call) {
            reply.encode(out);
            return 0;
        }
        let handle = [Piece::bytes(b"root")];
        let lease = Attributes {
            lease_seconds: Some(LEASE_SECONDS),
            ..Attributes::default()
        };
        let reply = match call {
            Call::Sequence(args) => return self.sequence(args, out),
            Call::PutRootFh(()) => Reply::PutRootFh(Outcome::Ok(())),
            Call::PutFh(_) => Reply::PutFh(Outcome::Ok(())),
            Call::Lookup(_) => Reply::Lookup(Outcome::Ok(())),
            Call::GetAttr(_) => Reply::GetAttr(Outcome::Ok(v4::GetAttrOk {
                attributes: AttributeList::new(&lease),
            })),
            Call::GetFh(()) => Reply::GetFh(Outcome::Ok(v4::GetFhOk {
                object: Some(Handle::new(&handle)),
            })),
            Call::Renew(args) => {
                self.renewals += 1;
                if args.client_id != Some(CLIENT_ID) {
                    self.wrong.push(format!("{args:?}"));
                }
                Reply::Renew(Outcome::Ok(()))
            }
            Call::Read(args) => {
                let offset = args.offset.expect("an offset");
                self.read.push(offset);
                let ok = v4::ReadOk {
                    eof: Some(true),
                    data_len: Some(8),
                };
                Reply::Read(Outcome::Ok(ok)).encode(out);
                out.extend(offset.to_be_bytes());
                pad(out, 8);
                return 0;
            }
            Call::Open(_) | Call::Close(_) => return self.numbered(call, out),
            Call::DestroySession(_) => Reply::DestroySession(Outcome::Ok(())),
            Call::DestroyClientId(args) => {
                assert_eq!(args.client_id, Some(CLIENT_ID));
                Reply::DestroyClientId(Outcome::Ok(()))
            }
            other => panic!("{other:?}"),
        };
        reply.encode(out);
        0
    }

    fn sequence(&mut self, args: &v4::SequenceArgs, out: &mut Vec<u8>) -> u32 {
        let slot = args.slot.expect("a slot");
        let next = self.slots.get(&slot).map_or(1, |(last, _)| last + 1);
        if args.session != Some(SESSION) || slot >= SLOTS || args.sequence != Some(next) {
            self.wrong.push(format!("{args:?}, where {next} is next"));
        }
        let reply = match self.sequence_status {
            Some(status) => Reply::Sequence(Outcome::Fail(status.0, ())),
            None => Reply::Sequence(Outcome::Ok(v4::SequenceOk {
                session: args.session,
                sequence: args.sequence,
                slot: args.slot,
                highest_slot: Some(SLOTS - 1),
                target_highest_slot: Some(SLOTS - 1),
                status_flags: Some(0),
            })),
        };
        reply.encode(out);
        reply.status().expect("a status")
    }

    fn numbered(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> u32 {
        let (owner, number) = match call {
            Call::Open(args) => {
                if args.owner.client_id != Some(CLIENT_ID) {
                    self.wrong.push(format!("{args:?}"));
                }
                let owner = args.owner.owner.expect("an owner").to_vec();
                (owner, args.sequence)
            }
            Call::Close(args) => {
                let state = args.stateid.expect("a state").other;
                let owner = self.states.get(&state).expect("an open state");
                (owner.clone(), args.sequence)
            }
            other => panic!("{other:?}"),
        };
        let next = self.owners.entry(owner.clone()).or_default();
        if number != Some(*next) {
            self.wrong.push(format!("{call:?}, where {next} is next"));
        }
        *next += 1;
        let mut other = [0; 12];
        other[..4].copy_from_slice(&(self.states.len() as u32).to_be_bytes());
        let stateid = Some(StateId { sequence: 1, other });
        let reply = match call {
            Call::Open(_) => {
                self.states.insert(other, owner);
                Reply::Open(Outcome::Ok(v4::OpenOk {
                    stateid,
                    directory: Some(v4::ChangeInfo {
                        atomic: true,
                        before: 0,
                        after: 1,
                    }),
                    flags: Some(0),
                    attributes_set: Some(Bitmap::new(&[])),
                    delegation: v4::Delegation::None,
                }))
            }
            _ => Reply::Close(Outcome::Ok(v4::StateIdOk { stateid })),
        };
        reply.encode(out);
        0
    }
}

/// What makes a client known is granted.
fn established<'a>(call: &Call<'a>) -> Option<Reply<'a>> {
    Some(match call {
        Call::ExchangeId(_) => Reply::ExchangeId(Outcome::Ok(v4::ExchangeIdOk {
            client_id: Some(CLIENT_ID),
            sequence: Some(1),
            flags: Some(0),
            protection: v4::ProtectionGranted::None,
            server_minor_id: Some(0),
            server_major_id: Some(v4::Owner::new(&[])),
            server_scope: Some(v4::Owner::new(&[])),
            implementation: Counted::new(&[]),
        })),
        Call::CreateSession(args) => {
            let fore = ChannelAttributes {
                requests_max: Some(SLOTS),
                ..args.fore
            };
            Reply::CreateSession(Outcome::Ok(v4::CreateSessionOk {
                session: Some(SESSION),
                sequence: args.sequence,
                flags: Some(0),
                fore,
                back: args.back,
            }))
        }
        Call::SetClientId(_) => Reply::SetClientId(v4::SetClientIdResult::Ok(v4::SetClientIdOk {
            client_id: Some(CLIENT_ID),
            verifier: Some([1; 8]),
        })),
        Call::SetClientIdConfirm(_) => Reply::SetClientIdConfirm(Outcome::Ok(())),
        Call::ReclaimComplete(_) => Reply::ReclaimComplete(Outcome::Ok(())),
        _ => return None,
    })
}

type Handle3<'a> = lineside_rpc::xdr::Handle<'a>;

/// Two words.
trait EncodeBoth {
    fn encode_both(&self, out: &mut Vec<u8>);
}

impl EncodeBoth for (u32, u32) {
    fn encode_both(&self, out: &mut Vec<u8>) {
        out.extend([self.0, self.1].map(u32::to_be_bytes).as_flattened());
    }
}
