//! The frames that come at once, and references to them that go at once.

use std::mem::ManuallyDrop;

use super::{BlockRef, Frame, FrameRef};

/// What a port's queue returns at once. Reused, so that a burst costs no allocation.
pub type Burst = Vec<Frame>;

/// A burst whose frames are shared, and let go together: those of one block cost as much as one.
pub struct SharedBurst<'a> {
    frames: Burst,
    /// Where the memory goes back to.
    burst: &'a mut Burst,
}

impl<'a> SharedBurst<'a> {
    /// Of all frames of `burst`, which is empty afterwards.
    pub fn new(burst: &'a mut Burst) -> Self {
        Self {
            frames: std::mem::take(burst),
            burst,
        }
    }

    /// One frame after the other.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &FrameRef> + Clone {
        self.frames.iter().map(|frame| &frame.bytes)
    }
}

impl SharedBurst<'_> {
    fn let_go(&mut self) {
        let frames = self.frames.drain(..).map(ManuallyDrop::new);
        let mut blocks = frames.map(|frame| frame.bytes.block.0);
        let Some(mut block) = blocks.next() else {
            return;
        };
        let mut count = 1;
        for next in blocks {
            if next == block {
                count += 1;
                continue;
            }
            // SAFETY: the references of frames whose drop does not run.
            unsafe { BlockRef::give_up(block, count) };
            (block, count) = (next, 1);
        }
        // SAFETY: as above.
        unsafe { BlockRef::give_up(block, count) };
    }
}

impl Drop for SharedBurst<'_> {
    fn drop(&mut self) {
        self.let_go();
        *self.burst = std::mem::take(&mut self.frames);
    }
}

#[cfg(test)]
mod tests {
    use lineside_account::Budget;

    use super::*;
    use crate::{Descriptor, Pool};

    #[test]
    fn a_shared_burst_lets_all_its_frames_go_and_no_others() {
        let mut pool = Pool::new(16, 3, &Budget::new(48)).expect("fits");
        let mut burst = Burst::new();
        let mut writers = [(); 2].map(|()| pool.take().expect("unused"));
        for (number, at) in [0, 1, 1, 0, 0].into_iter().enumerate() {
            let writer = &mut writers[at];
            writer.unfilled()[..3].copy_from_slice(&[b'0' + number as u8; 3]);
            writer.advance(3);
            burst.push(writer.cut(1..2, 3, Descriptor::default()));
        }
        drop(writers);
        let capacity = burst.capacity();
        let shared = SharedBurst::new(&mut burst);
        let bytes: Vec<u8> = shared.iter().map(|frame| frame.bytes()[0]).collect();
        assert_eq!(bytes, b"01234");
        let kept = shared.iter().nth(2).expect("five").clone();
        drop(shared);
        assert_eq!((burst.len(), burst.capacity()), (0, capacity));
        let free: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(free.len(), 2, "one is kept");
        assert_eq!(kept.bytes(), b"2");
        drop((free, kept));
        let free: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(free.len(), 3);
    }
}
