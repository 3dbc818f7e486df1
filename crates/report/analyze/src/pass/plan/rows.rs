//! Rows of `operations`, as few bytes as a plan needs of them.

use lineside_trace::read::{Column, ReadError};

use crate::read::columns::{Flags, Integers, Lexicon, Shorts, Texts, Word, Words};

/// The columns that are read, in this order.
pub(super) const COLUMNS: [&str; 25] = [
    "operation_id",
    "rpc_id",
    "connection_id",
    "call_time_ns",
    "reply_time_ns",
    "reply_end_ns",
    "client_address",
    "server_address",
    "program",
    "operation",
    "user_id",
    "file_id",
    "file2_id",
    "result_file_id",
    "name",
    "name2",
    "offset",
    "count",
    "transferred",
    "file_type",
    "call_missing",
    "not_executed",
    "repeat",
    "compound_index",
    "reply_missing",
];

/// A row. `NONE` stands for null.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(super) call_ns: i64,
    pub(crate) rpc_id: i64,
    pub(crate) operation_id: i64,
    pub(super) reply_ns: i64,
    pub(super) connection: i64,
    pub(super) user: i64,
    pub(super) file: i64,
    pub(super) file2: i64,
    pub(super) made: i64,
    /// Hashes; 0: none.
    pub(super) name: u64,
    pub(super) name2: u64,
    pub(super) state: u64,
    pub(super) made_state: u64,
    pub(super) offset: i64,
    pub(crate) count: u32,
    pub(super) client: Word,
    pub(super) server: Word,
    pub(crate) operation: Word,
    pub(crate) source: Source,
    pub(super) is_directory: bool,
    pub(super) not_executed: bool,
    pub(crate) is_of_compound: bool,
    /// Where who takes the rows themselves keeps it.
    pub(crate) kept: u64,
}

pub(super) const NONE: i64 = i64::MIN;

/// What a row is to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A call of a client.
    Call,
    /// See [`LeftOut`](super::left_out::LeftOut).
    Repeat,
    Callback,
    Other,
}

/// A name in a directory as a number.
pub(super) fn hash(seed: i64, bytes: &[u8]) -> u64 {
    // FNV-1a, 64 bits.
    let all = seed.to_le_bytes();
    let all = all.iter().chain(bytes);
    let hash = all.fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}

/// Programs whose calls clients make.
const PROGRAMS: [&str; 8] = [
    "nfs", "mount", "portmap", "nlm", "nsm", "rquota", "nfsacl", "klm",
];

fn source(program: &str, operation: &str, is_repeat: bool) -> Source {
    let is_answer = operation.ends_with("_RES") || operation.starts_with("GRANTED");
    match program {
        "nfs_cb" => Source::Callback,
        "nlm" if is_answer => Source::Callback,
        _ if !PROGRAMS.contains(&program) => Source::Other,
        _ if is_repeat => Source::Repeat,
        _ => Source::Call,
    }
}

fn or_none(value: Option<i64>) -> i64 {
    value.unwrap_or(NONE)
}

/// A name of a row, in a directory of it.
fn name_hash(row: usize, directory: &Integers<'_>, name: &Texts<'_>) -> u64 {
    let directory = directory.get(row).unwrap_or_default();
    { name.get(row) }.map_or(0, |name| hash(directory, name.as_bytes()))
}

/// Gives `take` the rows of a batch, and counts those whose call was not seen.
pub(super) fn of_batch(
    batch: &[Column],
    words: &mut Lexicon,
    not_seen: &mut u64,
    mut take: impl FnMut(Row),
) -> Result<(), ReadError> {
    let integers = |at: usize| Integers::of(COLUMNS[at], &batch[at]);
    let (operation_id, rpc_id, connection) = (integers(0)?, integers(1)?, integers(2)?);
    let (call, reply, reply_end) = (integers(3)?, integers(4)?, integers(5)?);
    let mut named = |at: usize| Words::of(COLUMNS[at], &batch[at], words);
    let (clients, servers, operations) = (named(6)?, named(7)?, named(9)?);
    let texts = |at: usize| Texts::of(COLUMNS[at], &batch[at]);
    let (program, operation) = (texts(8)?, texts(9)?);
    let (user, file, file2, made) = (integers(10)?, integers(11)?, integers(12)?, integers(13)?);
    let (name, name2) = (texts(14)?, texts(15)?);
    let (offset, count, transferred) = (integers(16)?, integers(17)?, integers(18)?);
    let file_type = texts(19)?;
    let flags = |at: usize| Flags::of(COLUMNS[at], &batch[at]);
    let (missing, not_executed, repeat) = (flags(20)?, flags(21)?, flags(22)?);
    let index = Shorts::of(COLUMNS[23], &batch[23])?;
    let unanswered = flags(24)?;
    for row in 0..batch[0].len() {
        let word = operation.get(row).unwrap_or_default();
        let source = source(program.get(row).unwrap_or_default(), word, repeat.get(row));
        let id = operation_id.get(row).unwrap_or_default();
        let Some(call_ns) = call.get(row).filter(|_| !missing.get(row)) else {
            // Of other protocols a response alone is none of ours.
            *not_seen += u64::from(source != Source::Other || program.get(row).is_none());
            continue;
        };
        let reply_ns = reply_end.get(row).or_else(|| reply.get(row));
        let reply_ns = reply_ns.filter(|_| !unanswered.get(row));
        // LINK has the new name in its second directory.
        let first = if word == "LINK" { &file2 } else { &file };
        let bytes = count.get(row).max(transferred.get(row)).unwrap_or(0);
        take(Row {
            call_ns,
            rpc_id: rpc_id.get(row).unwrap_or(id),
            operation_id: id,
            // A stamp of another clock may lie before.
            reply_ns: or_none(reply_ns.map(|ns| ns.max(call_ns))),
            connection: connection.get(row).unwrap_or_default(),
            user: or_none(user.get(row)),
            file: or_none(file.get(row)),
            file2: or_none(file2.get(row)),
            made: or_none(made.get(row)),
            name: name_hash(row, first, &name),
            name2: name_hash(row, &file2, &name2),
            state: 0,
            made_state: 0,
            offset: or_none(offset.get(row)),
            count: u32::try_from(bytes.max(0)).unwrap_or(u32::MAX),
            client: clients.get(row),
            server: servers.get(row),
            operation: operations.get(row),
            source,
            is_directory: file_type.get(row) == Some("DIR"),
            not_executed: not_executed.get(row),
            is_of_compound: index.get(row).is_some(),
            kept: 0,
        });
    }
    Ok(())
}
