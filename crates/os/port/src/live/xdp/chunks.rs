//! Which of a port's chunks the kernel has, which are held as frames, and which are free.
//!
//! ```text
//!          refill              kernel fills it            taken
//!   free ─────────► kernel ─────────────────► kernel ──────────────► held ─┐
//!    ▲  ▲          (fill ring)              (receive ring)                 │ its frame was dropped
//!    │  └──────────────────────────────────────────────────────────────────┘
//!    └───────────── sending ◄── a frame from elsewhere is copied into it
//! ```
//!
//! Those that are held come back by themselves, whenever their frames are dropped: what is still
//! held is not looked at.

use std::ops::Range;

use lineside_frame::{Descriptor, Frame, Slots};

use super::program::STAMP_LEN;
use super::rings::{Part, Producer};
use super::umem::{ChunkSize, HEADROOM, Request, answered_stamp};

/// The chunks of a port.
pub(super) struct Chunks {
    slots: Slots,
    size: ChunkSize,
    /// The number of its first chunk in the UMEM.
    first: usize,
    states: Vec<State>,
    free: Vec<u32>,
    held: usize,
    sending: usize,
    /// Chunks that are not lent to the kernel for frames to come, but kept to send from.
    reserve: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Kernel,
    Held,
    Sending,
}

impl Chunks {
    /// All of `slots` are free; they are chunks `first..first + count` of the UMEM. Of them
    /// `reserve` are kept to send from.
    pub(super) fn new(
        slots: Slots,
        size: ChunkSize,
        first: usize,
        count: usize,
        reserve: usize,
    ) -> Self {
        Self {
            slots,
            size,
            first,
            states: vec![State::Free; count],
            // The first ones are taken first: from the end.
            free: (0..count as u32).rev().collect(),
            held: 0,
            sending: 0,
            reserve,
        }
    }

    /// Gives the kernel what is free.
    pub(super) fn refill(&mut self, fill: &mut Producer<u64>) {
        let spare = self.free.len().saturating_sub(self.reserve) as u32;
        if spare == 0 {
            return;
        }
        let count = spare.min(fill.free(spare));
        for _ in 0..count {
            let index = self.free.pop().expect("counted");
            self.states[index as usize] = State::Kernel;
            fill.push(self.size.offset(self.first + index as usize) as u64);
        }
        if count > 0 {
            fill.submit();
        }
    }

    /// Where the kernel has put a part of a frame: the chunk, and the first byte in it. `None` if
    /// that makes no sense.
    pub(super) fn locate(&self, part: Part) -> Option<(u32, usize)> {
        let offset = usize::try_from(part.offset).ok()?;
        let (chunk, start) = self.size.locate(offset);
        let index = chunk.checked_sub(self.first)?;
        let is_sound = self.states.get(index) == Some(&State::Kernel)
            && start >= STAMP_LEN
            && part.len as usize <= self.size.len() - start;
        is_sound.then_some((index as u32, start))
    }

    /// Takes a chunk from the kernel as a frame of what it holds.
    pub(super) fn hold(
        &mut self,
        index: u32,
        bytes: Range<usize>,
        descriptor: Descriptor,
    ) -> Frame {
        debug_assert_eq!(self.states[index as usize], State::Kernel);
        self.states[index as usize] = State::Held;
        self.held += 1;
        let frame = self.slots.frame(index as usize, bytes, descriptor);
        frame.expect("no frame lives of a chunk that is not held")
    }

    /// Takes a chunk from the kernel whose bytes are of no use any more.
    pub(super) fn take_back(&mut self, index: u32) {
        debug_assert_eq!(self.states[index as usize], State::Kernel);
        self.free(index);
    }

    /// The bytes of a chunk that the kernel has filled, or of a free one.
    pub(super) fn bytes_mut(&mut self, index: u32) -> &mut [u8] {
        let bytes = self.slots.bytes_mut(index as usize);
        bytes.expect("no frame lives of a chunk that is not held")
    }

    /// Copies a part of a frame into a free chunk, to send it; returns its offset in the UMEM.
    pub(super) fn send(&mut self, part: &[u8]) -> Option<u64> {
        let index = self.free.pop()?;
        self.states[index as usize] = State::Sending;
        self.sending += 1;
        self.bytes_mut(index)[HEADROOM..][..part.len()].copy_from_slice(part);
        Some((self.size.offset(self.first + index as usize) + HEADROOM) as u64)
    }

    /// Asks something of the kernel for the part at `offset`, which [`send`](Self::send) gave.
    pub(super) fn request(&mut self, offset: u64, request: Request) {
        let (chunk, start) = self.size.locate(offset as usize);
        request.write(self.bytes_mut((chunk - self.first) as u32), start);
    }

    /// The answer, nanoseconds of CLOCK_TAI, once the part was sent and before its chunk is used
    /// again.
    pub(super) fn answered_stamp(&mut self, offset: u64) -> Option<u64> {
        let (chunk, start) = self.size.locate(offset as usize);
        answered_stamp(self.bytes_mut((chunk - self.first) as u32), start)
    }

    /// The part at `offset` of the UMEM was sent; `false` if none of ours was being sent there.
    pub(super) fn sent(&mut self, offset: usize) -> bool {
        let Some(index) = self.size.locate(offset).0.checked_sub(self.first) else {
            return false;
        };
        let is_ours = self.states.get(index) == Some(&State::Sending);
        if is_ours {
            self.sending -= 1;
            self.free(index as u32);
        }
        is_ours
    }

    /// Frees the chunks whose frames are gone; returns how many.
    pub(super) fn recycle(&mut self) -> usize {
        let before = self.free.len();
        self.slots.returned(|index| {
            self.states[index] = State::Free;
            self.free.push(index as u32);
        });
        let count = self.free.len() - before;
        self.held -= count;
        count
    }

    /// Chunks that are free.
    pub(super) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Whether holders have so many that the kernel may soon have none: three quarters, or all but
    /// what is kept to send from and an eighth.
    pub(super) fn are_short(&self) -> bool {
        let count = self.states.len();
        self.held > (count * 3 / 4).min(count - self.reserve - count / 8)
    }

    /// Whether the kernel has none, and only what is held can change that.
    pub(super) fn are_used_up(&self) -> bool {
        let kernel = self.states.len() - self.free.len() - self.held - self.sending;
        kernel == 0 && self.held > 0
    }

    fn free(&mut self, index: u32) {
        self.states[index as usize] = State::Free;
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lineside_account::Budget;
    use lineside_frame::FrameRef;

    use super::super::umem::Umem;
    use super::*;

    #[test]
    fn what_came_back_is_freed_and_what_is_held_is_not() {
        const COUNT: usize = 64;
        const RESERVE: usize = 24;
        let size = ChunkSize::for_frames(1_500);
        let budget = Budget::new(1 << 20);
        let umem = Umem::new(size, COUNT, &budget)
            .expect("mapped")
            .expect("it fits");
        // SAFETY: no kernel has the memory.
        let slots = unsafe { Arc::clone(&umem).slots(0, COUNT) };
        let mut chunks = Chunks::new(slots, size, 0, COUNT, RESERVE);
        let mut held: Vec<FrameRef> = Vec::new();
        for number in 0..32 {
            let index = chunks.free.pop().expect("free");
            chunks.states[index as usize] = State::Kernel;
            let descriptor = Descriptor {
                number,
                ..Descriptor::default()
            };
            held.push(
                chunks
                    .hold(index, HEADROOM..HEADROOM + 60, descriptor)
                    .share(),
            );
        }
        assert_eq!((chunks.recycle(), chunks.free_count()), (0, COUNT - 32));
        // 24 are kept to send from, and 8 are for the kernel.
        assert!(!chunks.are_short());
        let index = chunks.free.pop().expect("free");
        chunks.states[index as usize] = State::Kernel;
        let last = chunks.hold(index, HEADROOM..HEADROOM + 60, Descriptor::default());
        assert!(chunks.are_short());
        // Whatever their order, and once each.
        let kept = held.split_off(20);
        let again = held[3].clone();
        held.drain(..);
        drop(last);
        assert_eq!((chunks.recycle(), chunks.recycle()), (20, 0));
        drop(again);
        assert_eq!((chunks.recycle(), chunks.held), (1, 12));
        drop(kept);
        assert_eq!((chunks.recycle(), chunks.free_count()), (12, COUNT));
        let all: Vec<_> = std::iter::from_fn(|| chunks.send(b"part")).collect();
        assert_eq!(all.len(), COUNT);
        assert!(all.iter().all(|&offset| chunks.sent(offset as usize)));
        assert_eq!(chunks.free_count(), COUNT);
    }
}
