//! The client's side of NFSv3: calls by our encoder, replies by our decoders.

use std::borrow::Cow;
use std::sync::Arc;

use lineside_frame::{Cursor, Fault, Piece};
use lineside_nfs::v3::{self, Procedure};
use lineside_nfs_client::header::{CallTemplate, reply_header};
use lineside_nfs_client::records::{Heads, Limits, Records};
use lineside_nfs_client::{Credential, Refusal};
use lineside_rows::OperationRow;
use lineside_rpc::xdr::{pad, padding};

use super::call::{status, with_call};
use super::content;
use super::mix::{Draws, NAMES, NfsMix, NfsRequest, PROCEDURES};
use super::rows;
use super::tree::Tree;
use crate::protocol::{Answer, Broken, Client, Named, Outstanding, Request};

/// Of a reply so much is read: headers with a verifier of 400 bytes, attributes and a handle. What
/// follows is READ's data, or the rest of a list.
const LIMITS: Limits = Limits {
    head: 1_024,
    record: 4 << 20,
};
/// Heads of replies that come in pieces, together: as many as connections can have.
const HEADS_BYTES_MAX: usize = 256 << 20;

impl From<lineside_nfs_client::Broken> for Broken {
    fn from(_: lineside_nfs_client::Broken) -> Self {
        Self
    }
}

/// The status of an answer without results.
fn refused_status(refusal: Refusal) -> u32 {
    match refusal {
        Refusal::Accepted(number) => status::ACCEPTED.wrapping_add(number),
        Refusal::Denied(number) => status::DENIED.wrapping_add(number),
    }
}

/// Calls of a user and group, by AUTH_SYS.
pub(super) fn credential((uid, gid): (u32, u32)) -> Credential {
    Credential::sys(b"lineside", uid, gid, &[gid]).expect("a short name and one group")
}

/// A client of an NFSv3 server, over the files of a tree.
#[derive(Debug)]
pub struct Nfs {
    draws: Draws,
    tree: Arc<Tree>,
    header: CallTemplate,
    heads: Heads,
}

/// A reply that is not over.
#[derive(Debug, Default)]
pub struct NfsReader {
    records: Records,
}

impl Nfs {
    /// Requests of a mix over a tree, which a [preparation](super::prepare()) found or made.
    pub fn new(mix: NfsMix, tree: Arc<Tree>) -> Self {
        let header = CallTemplate::new(&credential(mix.user));
        Self {
            draws: Draws::new(mix, &tree),
            tree,
            header,
            heads: Heads::new(HEADS_BYTES_MAX),
        }
    }

    /// A request by its numbers: what it asks, and of which file.
    pub fn request(&self, ordinal: u64) -> NfsRequest {
        self.draws.request(ordinal, &self.tree)
    }

    /// The files.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
}

/// Appends the arguments of a request.
fn write_arguments(request: NfsRequest, draws: &Draws, tree: &Tree, out: &mut Vec<u8>) {
    with_call(request, draws.mix(), tree, |call| call.encode(out));
    if request.procedure == Procedure::Write {
        append_data(request, out);
    }
}

fn append_data(request: NfsRequest, out: &mut Vec<u8>) {
    let (start, len) = (out.len(), request.count as usize);
    out.resize(start + len, 0);
    content::fill(request.file as u64, request.offset, &mut out[start..]);
    pad(out, len);
}

/// The answer in a reply's results, of which perhaps only the first bytes are there.
fn results(
    asked: &NfsRequest,
    cursor: &mut Cursor<'_>,
    head: usize,
    len: u64,
) -> Result<Answer, Broken> {
    let reply = v3::Reply::decode(asked.procedure, cursor);
    let status = match asked.procedure {
        Procedure::Null => status::SUCCESS,
        _ => reply.status().ok_or(Broken)?,
    };
    let is_whole = head as u64 == len;
    let mut end = cursor.position() as u64;
    let mut content_bytes = 0;
    match (cursor.fault(), &reply) {
        (None, v3::Reply::Read(outcome)) => {
            if let Some(ok) = outcome.ok() {
                let data = ok.data_len.ok_or(Broken)?;
                if ok.count != Some(data) || data > asked.count {
                    return Err(Broken);
                }
                content_bytes = data.into();
                end += u64::from(data) + padding(data as usize) as u64;
            }
        }
        (None, v3::Reply::Write(outcome)) => {
            if let Some(ok) = outcome.ok() {
                let moved = ok.count.filter(|&moved| moved <= asked.count);
                content_bytes = moved.ok_or(Broken)?.into();
            }
        }
        (None, _) => {}
        // The rest of a list is not kept.
        (Some(Fault::End), _) if !is_whole => end = len,
        (Some(_), _) => return Err(Broken),
    }
    if end != len {
        return Err(Broken);
    }
    Ok(Answer {
        status,
        is_success: status == 0 || status == status::SUCCESS,
        content_bytes,
        ..Answer::default()
    })
}

impl Client for Nfs {
    type Reader = NfsReader;

    fn write(&mut self, Request { ordinal, .. }: Request, out: &mut Vec<u8>) {
        let (draws, tree) = (&self.draws, &*self.tree);
        let request = draws.request(ordinal, tree);
        let numbers = [v3::PROGRAM, v3::VERSION, request.procedure.number()];
        self.header.write(ordinal as u32, numbers, out, |out| {
            write_arguments(request, draws, tree, out);
        });
    }

    fn read(
        &mut self,
        reader: &mut NfsReader,
        bytes: &[u8],
        outstanding: &mut impl Outstanding,
    ) -> Result<(), Broken> {
        let Self {
            draws, tree, heads, ..
        } = self;
        reader.records.push(bytes, heads, LIMITS, |head, len| {
            let pieces = [Piece::bytes(head)];
            let mut cursor = Cursor::new(&pieces);
            let (xid, refused) = reply_header(&mut cursor)?;
            let request = outstanding.request(xid).ok_or(Broken)?;
            let asked = draws.request(request.ordinal, tree);
            let answer = match refused {
                Some(refusal) => Answer {
                    status: refused_status(refusal),
                    ..Answer::default()
                },
                None => results(&asked, &mut cursor, head.len(), len)?,
            };
            outstanding.answered(Answer {
                request: Some(xid),
                operation: asked.place as u8,
                ..answer
            })
        })
    }

    fn release(&mut self, reader: NfsReader) {
        reader.records.release(&mut self.heads);
    }
}

impl Named for Nfs {
    fn operation(&self, request: Request) -> &'static str {
        NAMES[self.draws.place(request.ordinal)]
    }

    fn operations(&self) -> &'static [&'static str] {
        &NAMES
    }

    fn status(&self, status: u32) -> Cow<'static, str> {
        status_name(status)
    }

    fn describe(&self, request: Request, status: Option<u32>, row: &mut OperationRow) {
        row.xid = Some(i64::from(request.ordinal as u32));
        let asked = self.request(request.ordinal);
        rows::describe(asked, status, self.draws.mix(), &self.tree, row);
    }
}

/// What an answer's status is called: by RFC 1813 or, of a call that was not executed, by RFC 5531.
pub fn status_name(status: u32) -> Cow<'static, str> {
    let name = match status {
        0x8000_0000 => Some("SUCCESS"),
        0x8000_0001..=0x8000_0005 => Some(Refusal::Accepted(status - status::ACCEPTED).name()),
        0x8000_0100..=0x8000_0101 => Some(Refusal::Denied(status - status::DENIED).name()),
        _ => v3::status_name(status),
    };
    name.map_or_else(|| status.to_string().into(), Cow::Borrowed)
}

const _: () = assert!(PROCEDURES.len() <= crate::results::OPERATIONS_MAX);

#[cfg(test)]
mod tests {
    use lineside_rpc::message::LAST_FRAGMENT;
    use lineside_workload::{Sizes, Unit};

    use super::super::mix::Offsets;
    use super::*;

    /// Requests 0 to 2 wait; answers by number, with their statuses.
    #[derive(Default)]
    struct Three(Vec<(u32, u32)>);

    impl Outstanding for Three {
        fn oldest(&mut self) -> Option<Request> {
            self.request(0)
        }

        fn request(&mut self, number: u32) -> Option<Request> {
            let ordinal = (number < 3).then_some(number.into());
            ordinal.map(|ordinal| Request { ordinal, slot: 0 })
        }

        fn answered(&mut self, answer: Answer) -> Result<(), Broken> {
            self.0.push((answer.request.ok_or(Broken)?, answer.status));
            Ok(())
        }
    }

    fn heard(replies: &[&[u32]]) -> (Vec<(u32, u32)>, Result<(), Broken>) {
        let mix = NfsMix {
            shares: "null:100%".parse().expect("shares"),
            keys: "uniform over 1".parse().expect("keys"),
            read_bytes: Sizes::constant(1, Unit::Bytes),
            write_bytes: Sizes::constant(1, Unit::Bytes),
            offsets: Offsets::Random,
            stable: v3::StableHow::UNSTABLE,
            user: (0, 0),
            seed: 1,
        };
        let mut nfs = Nfs::new(mix, Arc::new(Tree::new(b"root")));
        let mut bytes = Vec::new();
        for reply in replies {
            let mark = LAST_FRAGMENT | (4 * reply.len() as u32);
            bytes.extend_from_slice(&mark.to_be_bytes());
            bytes.extend(reply.iter().flat_map(|word| word.to_be_bytes()));
        }
        let mut three = Three::default();
        let read = nfs.read(&mut NfsReader::default(), &bytes, &mut three);
        (three.0, read)
    }

    /// Replies word by word from RFC 5531, 9.
    #[test]
    fn answers_come_in_any_order_and_say_why_not() {
        let replies: [&[u32]; 3] = [
            &[2, 1, 0, 0, 0, 0],
            // The versions that are served follow.
            &[0, 1, 0, 0, 0, 2, 3, 4],
            // AUTH_TOOWEAK.
            &[1, 1, 1, 1, 5],
        ];
        let (answers, read) = heard(&replies);
        assert_eq!(read, Ok(()));
        let answers = answers.into_iter();
        let answers: Vec<_> = answers
            .map(|(xid, status)| (xid, status_name(status)))
            .collect();
        let expected = [(2, "SUCCESS"), (0, "PROG_MISMATCH"), (1, "AUTH_ERROR")];
        assert_eq!(
            answers,
            expected.map(|(xid, name)| (xid, Cow::Borrowed(name)))
        );
    }

    #[test]
    fn what_is_no_reply_to_a_request_is_broken() {
        let wrong: [&[u32]; 6] = [
            // Nobody asked; a call; a state that there is not; cut; more than its results; nothing.
            &[3, 1, 0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0],
            &[0, 1, 0, 0, 0, 6],
            &[0, 1, 0, 0, 0],
            &[0, 1, 0, 0, 0, 0, 0],
            &[],
        ];
        for reply in wrong {
            assert_eq!(heard(&[reply]), (Vec::new(), Err(Broken)), "{reply:?}");
        }
    }
}
