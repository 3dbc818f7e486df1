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
//! Held chunks stand in a queue, oldest first. Each call looks at a bounded number of them and puts
//! those that are still held at its end, so that long-held frames cost little and short-lived ones
//! come back soon.

use std::collections::VecDeque;
use std::ops::Range;

use lineside_frame::{Descriptor, Frame, Slots};

use super::program::STAMP_LEN;
use super::rings::{Part, Producer};
use super::umem::{ChunkSize, HEADROOM, answered_stamp, request_stamp};

/// The chunks of a port.
pub(super) struct Chunks {
    slots: Slots,
    size: ChunkSize,
    /// The number of its first chunk in the UMEM.
    first: usize,
    states: Vec<State>,
    free: Vec<u32>,
    held: VecDeque<u32>,
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
    /// All of `slots` are free; they are chunks `first..first + count` of the UMEM.
    pub(super) fn new(slots: Slots, size: ChunkSize, first: usize, count: usize) -> Self {
        Self {
            slots,
            size,
            first,
            states: vec![State::Free; count],
            // The first ones are taken first: from the end.
            free: (0..count as u32).rev().collect(),
            held: VecDeque::with_capacity(count),
            sending: 0,
            reserve: RESERVE_MAX.min(count / 8),
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
        self.held.push_back(index);
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

    /// Asks when the part at `offset`, which [`send`](Self::send) gave, is handed to the driver.
    pub(super) fn request_stamp(&mut self, offset: u64) {
        let (chunk, start) = self.size.locate(offset as usize);
        request_stamp(self.bytes_mut((chunk - self.first) as u32), start);
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

    /// Looks at `looks` of the held chunks, the oldest first, and frees those whose frames are
    /// gone.
    pub(super) fn recycle(&mut self, looks: usize) -> usize {
        let before = self.free.len();
        for _ in 0..looks.min(self.held.len()) {
            let index = self.held.pop_front().expect("counted");
            if self.slots.is_free(index as usize) {
                self.free(index);
            } else {
                self.held.push_back(index);
            }
        }
        self.free.len() - before
    }

    /// Chunks that are free.
    pub(super) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Whether holders have so many that the kernel may soon have none.
    pub(super) fn are_short(&self) -> bool {
        self.held.len() * 4 > self.states.len() * 3
    }

    /// Whether the kernel has none, and only what is held can change that.
    pub(super) fn are_used_up(&self) -> bool {
        let kernel = self.states.len() - self.free.len() - self.held.len() - self.sending;
        kernel == 0 && !self.held.is_empty()
    }

    fn free(&mut self, index: u32) {
        self.states[index as usize] = State::Free;
        self.free.push(index);
    }
}

/// A system call sends 256 parts at most; more than that need not wait.
const RESERVE_MAX: usize = 256;
