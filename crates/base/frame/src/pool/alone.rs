//! Blocks without a pool: their writer is the only one who knows of them.

use std::sync::atomic::Ordering;

use super::{Block, BlockWriter, give_back};

impl BlockWriter {
    /// A block of `len` bytes of its own, outside any pool: whoever has the writer decides how many
    /// there are, and where they go.
    pub fn alone(len: usize) -> Self {
        Self::new(Block::own(vec![0; len].into(), None))
    }

    /// Bytes of the block.
    pub fn block_len(&self) -> usize {
        self.block.len
    }

    /// Moves what is ready to the front of the block, if no frame of it is referred to any more, so
    /// that all the rest can be filled again. False: nothing changed. The blocks of a pool, which
    /// may give them to others, never move.
    pub fn restart(&mut self) -> bool {
        give_back();
        // Acquire, the release of those who let frames go: what they did with them comes before.
        let references = self.block.references.load(Ordering::Acquire);
        if references != 1 + self.ahead {
            return false;
        }
        // SAFETY: the writer's reference and those that it counted ahead are all there are, so no
        // frame lies in the block; nor can one be made while `self` is borrowed.
        // JUSTIFICATION: as of `Block`: who may reach a part decides what it is.
        let bytes = unsafe { self.block.part_mut(0, self.filled) };
        bytes.copy_within(self.taken.., 0);
        self.filled -= self.taken;
        self.taken = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use lineside_account::Budget;

    use super::*;
    use crate::{Descriptor, Pool};

    #[test]
    fn a_block_restarts_when_its_last_frame_is_gone() {
        let mut writer = BlockWriter::alone(16);
        assert_eq!((writer.block_len(), writer.unfilled().len()), (16, 16));
        writer.unfilled()[..12].copy_from_slice(b"0123456789ab");
        writer.advance(12);
        let one = writer.take(4, Descriptor::default());
        let two = writer.take(4, Descriptor::default());
        assert!(!writer.restart(), "two frames");
        drop(one);
        let held = two.share();
        let again = held.clone();
        drop(held);
        assert!(!writer.restart(), "a reference to one");
        assert_eq!(
            (writer.ready(), again.bytes()),
            (&b"89ab"[..], &b"4567"[..])
        );
        drop(again);
        assert!(writer.restart());
        assert_eq!(writer.ready(), b"89ab");
        assert_eq!(writer.unfilled().len(), 12);
        writer.skip(4);
        assert!(writer.restart());
        assert_eq!((writer.ready().len(), writer.unfilled().len()), (0, 16));
    }

    #[test]
    fn a_block_of_a_pool_never_restarts() {
        let mut pool = Pool::new(16, 2, &Budget::new(32)).expect("fits");
        let mut writer = pool.take().expect("unused");
        writer.advance(8);
        assert!(!writer.restart(), "the pool may look at it");
        let frame = writer.take(4, Descriptor::default());
        drop(pool);
        assert!(!writer.restart(), "one reference less, one frame more");
        assert_eq!(frame.bytes().len(), 4);
    }
}
