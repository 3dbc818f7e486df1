//! Frames of one's own making.

use lineside_account::Budget;

use super::{BlockWriter, Descriptor, Frame, Pool};

/// Cuts frames that are to be sent from blocks that are used again: no allocation for a frame, once
/// as many blocks are there as are under way at once.
pub struct Cutter {
    pool: Pool,
    writer: Option<BlockWriter>,
}

impl Cutter {
    /// Frames of at most `block_len` bytes, `blocks_max` blocks of which are drawn on `budget` as
    /// they are first used. `None` if not even two blocks fit.
    pub fn new(block_len: usize, blocks_max: usize, budget: &Budget) -> Option<Self> {
        Some(Self {
            pool: Pool::new(block_len, blocks_max, budget)?,
            writer: None,
        })
    }

    /// A frame of `len` bytes, which the caller is to write: they are those of an earlier frame.
    /// `None` if it is longer than a block, or if all blocks are under way.
    #[inline]
    pub fn cut(&mut self, len: usize, descriptor: Descriptor) -> Option<Frame> {
        let has_room =
            { self.writer.as_mut() }.is_some_and(|writer| writer.unfilled().len() >= len);
        if !has_room {
            self.next_block(len)?;
        }
        let writer = self.writer.as_mut()?;
        writer.advance(len);
        Some(writer.take(len, descriptor))
    }

    #[cold]
    fn next_block(&mut self, len: usize) -> Option<()> {
        if len > self.pool.block_len() {
            return None;
        }
        // What is left of it stays unused; without frames under way it comes back at once.
        self.writer = None;
        self.writer = Some(self.pool.take()?);
        Some(())
    }
}

impl std::fmt::Debug for Cutter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "frames cut from blocks of {} bytes",
            self.pool.block_len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_until_all_blocks_are_under_way() {
        let budget = Budget::new(200);
        let mut cutter = Cutter::new(100, 4, &budget).expect("two fit");
        assert!(
            cutter.cut(101, Descriptor::default()).is_none(),
            "longer than a block"
        );
        let mut frames = Vec::new();
        while let Some(mut frame) = cutter.cut(40, Descriptor::default()) {
            frame.bytes_mut().fill(frames.len() as u8);
            frames.push(frame);
        }
        assert_eq!(
            frames.len(),
            4,
            "two of each block, and two blocks of the budget"
        );
        for (number, frame) in frames.iter().enumerate() {
            assert_eq!(frame.bytes(), [number as u8; 40]);
        }
        frames.drain(..2);
        assert!(
            cutter.cut(100, Descriptor::default()).is_some(),
            "the first block is back"
        );
        assert_eq!(budget.used_bytes(), 200);
        drop((frames, cutter));
        assert_eq!(budget.used_bytes(), 0);
    }
}
