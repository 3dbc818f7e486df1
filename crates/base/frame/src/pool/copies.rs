//! Memory for copies of frames, used again.

use std::sync::Arc;

use super::home::{Chain, Home, Place};
use super::{Block, BlockRef, Frame, FrameRef, Len};

/// Sizes from 128 bytes on, four for each power of two.
const CLASSES: usize = 4 * (usize::BITS as usize - 7) + 1;

/// Blocks that come back are looked at in each call: more than one, so that none pile up, and few,
/// so that no call takes long.
const LOOKS: usize = 8;

/// Memory for copies of frames: a block for each, a quarter longer than the frame at most, which is
/// used again when the copy was dropped, on whatever thread.
pub struct Copies {
    blocks: Vec<Option<BlockRef>>,
    /// Numbers without a block.
    vacant: Vec<u32>,
    /// Blocks that are not in use, by the class of their size.
    free: [Vec<u32>; CLASSES],
    home: Arc<Home>,
    /// Those that have come back and were not looked at.
    come_back: Chain,
    bytes: usize,
    bytes_max: usize,
}

impl Copies {
    /// Copies of at most `bytes_max` bytes, which the caller has reserved and which are allocated
    /// as they are needed. What does not fit is allocated by itself, and does not come back.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            blocks: Vec::new(),
            vacant: Vec::new(),
            free: std::array::from_fn(|_| Vec::new()),
            home: Arc::default(),
            come_back: Chain::EMPTY,
            bytes: 0,
            bytes_max,
        }
    }

    /// A copy in memory of its own, in one piece.
    pub fn copy(&mut self, frame: &FrameRef) -> Frame {
        let ([head, rest], descriptor) = (frame.parts(), *frame.descriptor());
        let len = head.len() + rest.len();
        self.look();
        let (class, size) = class_of(len);
        let index = self.free[class].pop().or_else(|| self.grow(size));
        let block = index.and_then(|index| self.blocks[index as usize].clone());
        let Some(block) = block else {
            return Frame::copied(&frame.parts().concat(), descriptor);
        };
        // SAFETY: the block was free: nothing refers to it but `self`, which is borrowed, and this
        // handle, of which there is no other yet.
        let bytes = unsafe { block.part_mut(0, len) };
        bytes[..head.len()].copy_from_slice(head);
        bytes[head.len()..].copy_from_slice(rest);
        Frame::of(FrameRef {
            block,
            start: 0,
            len: Len::new(len),
            descriptor,
        })
    }

    /// Takes back some of what came back.
    fn look(&mut self) {
        let block = |index: u32| lent(&self.blocks, index);
        for _ in 0..LOOKS {
            let Some(index) = self.come_back.next(block) else {
                self.come_back = self.home.take();
                return;
            };
            let (class, _) = class_of(block(index).len);
            self.free[class].push(index);
        }
    }

    /// Another block, in place of others that are not in use if need be; `None` if that is not
    /// enough.
    #[cold]
    fn grow(&mut self, size: usize) -> Option<u32> {
        while self.bytes + size > self.bytes_max {
            let free = self.free.iter_mut().rev().find_map(Vec::pop)?;
            let block = self.blocks[free as usize].take();
            self.bytes -= block.map_or(0, |block| block.len);
            self.vacant.push(free);
        }
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.blocks.push(None);
            self.blocks.len() as u32 - 1
        });
        let place = Place::new(&self.home, index);
        self.blocks[index as usize] = Some(Block::own(vec![0; size].into(), Some(place)));
        self.bytes += size;
        Some(index)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        for mut chain in [self.come_back, self.home.close()] {
            while chain.next(|index| lent(&self.blocks, index)).is_some() {}
        }
    }
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "copies in {} of {} bytes", self.bytes, self.bytes_max)
    }
}

fn lent(blocks: &[Option<BlockRef>], index: u32) -> &Block {
    let block = blocks[index as usize].as_ref();
    block.expect("a block that was lent stays")
}

/// The class of a length, and the size of its blocks.
fn class_of(len: usize) -> (usize, usize) {
    let Some(last) = len.checked_sub(1).filter(|last| *last >= 128) else {
        return (0, 128);
    };
    let power = last.ilog2() as usize;
    let step = power - 2;
    let quarter = (last >> step) & 3;
    (4 * (power - 7) + quarter + 1, (4 + quarter + 1) << step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Descriptor, give_back};

    #[test]
    fn a_copy_is_at_most_a_quarter_longer_than_its_frame() {
        assert_eq!([0, 1, 128].map(class_of), [(0, 128); 3]);
        let mut before = (0, 128);
        for len in 129..20_000 {
            let (class, size) = class_of(len);
            assert!((len..=len + len / 4).contains(&size), "{len} {size}");
            assert_eq!(class_of(size), (class, size));
            match class == before.0 {
                true => assert_eq!(size, before.1),
                false => assert_eq!((class, len), (before.0 + 1, before.1 + 1)),
            }
            before = (class, size);
        }
        assert!(class_of(usize::MAX / 2).0 < CLASSES);
    }

    #[test]
    fn copies_come_back_from_any_thread_and_stay_within_bounds() {
        let frame = |len: usize| Frame::copied(&vec![len as u8; len], Descriptor::default());
        let mut copies = Copies::new(64 << 10);
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Frame>(20);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while let Ok(copy) = receiver.recv() {
                    let len = copy.bytes().len();
                    let shared = copy.share();
                    let another = shared.clone();
                    drop(shared);
                    assert!(another.bytes().iter().all(|&byte| byte == len as u8));
                }
            });
            for number in 0..50_000 {
                let len = 60 + number * 7 % 1_400;
                let copy = copies.copy(&frame(len));
                assert_eq!(copy.bytes(), frame(len).bytes());
                sender.send(copy).expect("it listens");
                assert!(copies.bytes <= 64 << 10);
            }
            drop(sender);
        });
        assert!(copies.blocks.len() < 600, "{}", copies.blocks.len());
    }

    #[test]
    fn copies_outlive_their_memory_and_take_what_another_size_left() {
        let long = Frame::copied(&[7; 1000], Descriptor::default());
        let short = Frame::copied(&[8; 100], Descriptor::default());
        let mut copies = Copies::new(2048);
        let one = copies.copy(&long);
        let own: Vec<_> = (0..9).map(|_| copies.copy(&short)).collect();
        assert_eq!(copies.bytes, 2048, "eight of them fit");
        drop(own);
        give_back();
        copies.look();
        let two = copies.copy(&long);
        let three = copies.copy(&long);
        assert_eq!((copies.bytes, copies.vacant.len()), (2048, 7));
        drop(two);
        drop(copies);
        assert_eq!((one.bytes(), three.bytes()), (long.bytes(), long.bytes()));
    }
}
