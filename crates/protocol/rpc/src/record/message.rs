//! A message, and what takes it.

use lineside_account::{Claim, Counters};
use lineside_frame::{Cause, Chunk, Descriptor, Piece, Range};

/// What the allocator takes beside each piece, and rounds it up by: held bytes may be copied.
pub(crate) const PIECE_BYTES: usize = 24;
/// The least that a list has places for.
const PLACES_MIN: usize = 4;

/// What a list of held ranges takes beside their bytes. It doubles; one that comes from another
/// message may be longer.
pub(super) fn list_bytes(held: &[Range]) -> usize {
    match held.len() {
        0 => 0,
        len => {
            let places = len.next_power_of_two().max(PLACES_MIN);
            len * PIECE_BYTES + places * size_of::<Range>()
        }
    }
}

/// What is known of a message so far.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// The frame with its first byte (of the record mark, over TCP).
    pub first: Descriptor,
    /// Where in that frame.
    pub first_offset: usize,
    /// The frame whose arrival completed what came so far.
    pub last: Descriptor,
    /// Bytes so far, marks excluded, missing ones included.
    pub len: usize,
    /// Of them missing.
    pub missing: usize,
    /// The frame with its last bytes was seen (a snap length cuts frames, not messages).
    pub ended: bool,
    /// Its rest was lost, and how long it was is not known.
    pub cut: bool,
}

impl Message {
    #[inline]
    pub(super) fn begin(chunk: &Chunk<'_>) -> Self {
        let first = *chunk.descriptor();
        Self {
            first,
            first_offset: chunk.offset_in_frame(),
            last: first,
            len: 0,
            missing: 0,
            ended: true,
            cut: false,
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, chunk: &Chunk<'_>) {
        if chunk.descriptor().ordinal > self.last.ordinal {
            self.last = *chunk.descriptor();
        }
        self.ended = chunk
            .missing()
            .is_none_or(|cause| cause == Cause::SnapLength);
    }
}

/// What a sink wants of a message next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Ask again when this many bytes of it have come, or all.
    More(usize),
    /// Ask again when all of it has come.
    Whole,
    /// Pass this many bytes on as they come, then ask again, of what follows them: all before is
    /// done with.
    Data {
        /// Where they begin in what was given.
        from: usize,
        /// How many; all that follow if it is [`ALL`].
        len: u64,
    },
    /// Nothing but its end.
    End,
    /// This is no RPC message.
    Refuse,
}

/// Data to the end of its message, however long.
pub const ALL: u64 = u64::MAX;

/// Takes the messages of a direction.
pub trait MessageSink {
    /// The message as far as it has come, or what follows the data that was wanted last. `done`:
    /// nothing more will come of it. After [`ALL`] data, [`Want::End`] and [`Want::Refuse`] it is
    /// not called again for the message; only its beginning can be refused.
    fn on_head(
        &mut self,
        message: &Message,
        head: &[Piece<'_>],
        done: bool,
        counters: &mut Counters,
    ) -> Want;
    /// Bytes or a hole of the data that [`Want::Data`] named.
    fn on_data(&mut self, chunk: Chunk<'_>, counters: &mut Counters);
    /// The message has ended.
    fn on_end(&mut self, message: &Message, counters: &mut Counters);
    /// Whether a message of this kind with this xid would find its other half.
    fn agrees(&mut self, xid: u32, is_call: bool) -> bool;
    /// Whether packets of the other direction come as well: then a message whose place was lost is
    /// believed when something outside it agrees.
    fn hears_both(&self) -> bool {
        false
    }
    /// As what its head may be held: [`Claim::Full`] if a call of the connection was answered. What
    /// a call is worth that nobody answers, its sender alone says.
    fn claim(&self) -> Claim {
        Claim::Spare
    }
    /// An empty list, perhaps one that [`MessageSink::recycle`] was given, so that no message
    /// allocates.
    fn spare(&mut self) -> Vec<Range> {
        Vec::new()
    }
    /// A list that is not needed any more.
    fn recycle(&mut self, ranges: Vec<Range>) {
        drop(ranges);
    }
}
