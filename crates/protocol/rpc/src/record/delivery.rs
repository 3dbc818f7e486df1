//! A message is given to its sink as far as it has come: its head, the data that the sink wants,
//! what follows, its end.

use lineside_account::{Counter, Counters};
use lineside_frame::{Chunk, Cursor, Piece};
use smallvec::SmallVec;

use super::message::{ALL, Message, MessageSink, Want};
use crate::search::{plausible_call, plausible_reply};

/// A message's head before it is read, on the stack for 64 segments, which is a READDIRPLUS of 90
/// KiB.
pub(super) type Chunks<'a> = SmallVec<[Chunk<'a>; 64]>;
pub(super) type Pieces<'a> = SmallVec<[Piece<'a>; 64]>;

/// Whether a datagram, or what follows a record mark, begins as a call of a program that is
/// registered or as a reply.
pub fn begins_message(chunk: &Chunk<'_>) -> bool {
    is_message(&[chunk.piece()], false)
}

/// A datagram as one message; false if it is none. `any_program`: as in [`Config`](super::Config).
pub fn on_datagram<S: MessageSink>(
    chunks: &[Chunk<'_>],
    any_program: bool,
    sink: &mut S,
    counters: &mut Counters,
) -> bool {
    let Some(first) = chunks.first() else {
        return false;
    };
    let mut message = Message::begin(first);
    for chunk in chunks {
        message.touch(chunk);
        message.len += chunk.len();
        message.missing += if chunk.missing().is_some() {
            chunk.len()
        } else {
            0
        };
    }
    let is_message = match chunks {
        [alone] => is_message(&[alone.piece()], any_program),
        _ => is_message(&pieces(chunks, 0), any_program),
    };
    if !is_message {
        return false;
    }
    if let Delivery::Refused = ask(&message, chunks, true, sink, counters) {
        return false;
    }
    sink.on_end(&message, counters);
    counters.add(Counter::RpcBytes, (message.len - message.missing) as u64);
    true
}

/// What the sink wants that has not come.
pub(super) enum Delivery {
    Refused,
    /// To be asked again, of what follows the first `from` bytes, when that is `need` bytes.
    More {
        from: usize,
        need: usize,
    },
    /// So many bytes of data.
    Data(u64),
    Rest,
}

/// Asks the sink of a message as far as it has come, and gives it the data that it wants, until it
/// wants more than has come.
#[inline]
pub(super) fn ask<S: MessageSink>(
    message: &Message,
    chunks: &[Chunk<'_>],
    done: bool,
    sink: &mut S,
    counters: &mut Counters,
) -> Delivery {
    match on_head(message, chunks, 0, done, sink, counters) {
        Want::End => Delivery::Rest,
        Want::More(need) if !done => Delivery::More { from: 0, need },
        want => serve(want, message, chunks, done, sink, counters),
    }
}

#[inline(never)]
pub(super) fn serve<S: MessageSink>(
    mut want: Want,
    message: &Message,
    chunks: &[Chunk<'_>],
    done: bool,
    sink: &mut S,
    counters: &mut Counters,
) -> Delivery {
    let mut at = 0;
    loop {
        match want {
            Want::Refuse => return Delivery::Refused,
            Want::More(need) if !done => return Delivery::More { from: at, need },
            Want::Whole if !done => {
                let need = usize::MAX;
                return Delivery::More { from: at, need };
            }
            Want::More(_) | Want::Whole | Want::End => return Delivery::Rest,
            Want::Data { from, len } => {
                let mut left = len;
                for chunk in after(chunks.iter().copied(), at + from) {
                    let take = fit(left, chunk.len());
                    if take > 0 {
                        sink.on_data(chunk.part(0, take), counters);
                        left = left_after(left, take);
                    }
                }
                if left > 0 {
                    return Delivery::Data(left);
                }
                at += from + len as usize;
            }
        }
        want = on_head(message, chunks, at, done, sink, counters);
    }
}

/// Asks the sink of what follows the first `skip` bytes.
#[inline]
fn on_head<S: MessageSink>(
    message: &Message,
    chunks: &[Chunk<'_>],
    skip: usize,
    done: bool,
    sink: &mut S,
    counters: &mut Counters,
) -> Want {
    match chunks {
        // Most messages are one piece.
        [alone] if skip < alone.len() => {
            sink.on_head(message, &[alone.from(skip).piece()], done, counters)
        }
        _ => sink.on_head(message, &pieces(chunks, skip), done, counters),
    }
}

/// Gives the sink of a message that lies whole in `chunks` what it wants after it was first asked,
/// and ends the message.
pub fn finish<S: MessageSink>(
    want: Want,
    message: &Message,
    chunks: &[Chunk<'_>],
    sink: &mut S,
    counters: &mut Counters,
) {
    serve(want, message, chunks, true, sink, counters);
    sink.on_end(message, counters);
}

/// What follows the first `skip` bytes.
pub(super) fn after<'a>(
    chunks: impl Iterator<Item = Chunk<'a>>,
    mut skip: usize,
) -> impl Iterator<Item = Chunk<'a>> {
    chunks.filter_map(move |chunk| {
        let skipped = skip.min(chunk.len());
        skip -= skipped;
        (skipped < chunk.len()).then(|| chunk.from(skipped))
    })
}

/// What follows the first `skip` bytes, to read.
pub(super) fn pieces<'a>(chunks: &[Chunk<'a>], skip: usize) -> Pieces<'a> {
    after(chunks.iter().copied(), skip)
        .map(|chunk| chunk.piece())
        .collect()
}

/// The xid of the message that begins with `chunks`.
#[inline]
pub(super) fn xid(chunks: &[Chunk<'_>]) -> Option<u32> {
    match chunks.first()?.bytes().first_chunk() {
        Some(xid) => Some(u32::from_be_bytes(*xid)),
        None => Cursor::new(&pieces(chunks, 0)).u32(),
    }
}

/// How many of `len` bytes are among the `left` that are data.
#[inline]
pub(super) fn fit(left: u64, len: usize) -> usize {
    usize::try_from(left).map_or(len, |left| left.min(len))
}

/// Bytes of data left when `len` have come.
#[inline]
pub(super) fn left_after(left: u64, len: usize) -> u64 {
    if left == ALL { ALL } else { left - len as u64 }
}

/// Whether the first words of a message can be a call's or a reply's.
pub(super) fn is_message(head: &[Piece<'_>], any_program: bool) -> bool {
    let mut cursor = Cursor::new(head);
    let len = cursor.remaining();
    let mut word = || cursor.u32();
    let (Some(_xid), Some(kind)) = (word(), word()) else {
        return false;
    };
    let words = [word(), word(), word(), word()];
    match (kind, words) {
        (
            0,
            [
                Some(rpc_version),
                Some(program),
                Some(version),
                Some(procedure),
            ],
        ) => plausible_call(rpc_version, program, version, procedure, any_program),
        // A rejection may be only five words long.
        (1, [Some(state), Some(third), fourth, fifth]) => plausible_reply(
            kind,
            state,
            third,
            fourth.unwrap_or(0),
            fifth.unwrap_or(0),
            len,
        ),
        _ => false,
    }
}
