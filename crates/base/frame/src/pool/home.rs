//! How blocks come back to the one that lent them, without anybody looking at those that are still
//! lent.
//!
//! ```text
//!  owner: lends block 7 ──► frames, on any threads ──► the last one is dropped
//!    ▲                                                        │ push
//!    └──── take: all at once ◄── 7 ──► 2 ──► 5 ◄── head ◄─────┘
//! ```
//!
//! * The owner keeps a reference to each block. The thread that lets the last other ones go does
//!   not count them down: it hands them over with the block, and the owner sets the count. So the
//!   block, its home and its owner's reference live while it is pushed.
//! * An owner that goes closes the home first. From then on a block is counted down like others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::Block;

const NONE: u32 = u32::MAX;
const CLOSED: u32 = u32::MAX - 1;

/// A stack of blocks that have come back, by their numbers.
pub(super) struct Home {
    head: AtomicU32,
}

/// Where a block belongs.
pub(super) struct Place {
    home: Arc<Home>,
    index: u32,
    /// The block that came back before it.
    next: AtomicU32,
}

/// Blocks that have come back, from one to the next.
#[derive(Clone, Copy)]
pub(super) struct Chain(u32);

impl Default for Home {
    fn default() -> Self {
        Self {
            head: AtomicU32::new(NONE),
        }
    }
}

impl Home {
    /// All that have come back.
    #[inline]
    pub(super) fn take(&self) -> Chain {
        // Most often there are none, and the line stays shared.
        if self.head.load(Ordering::Relaxed) == NONE {
            return Chain::EMPTY;
        }
        // Acquire, the release of `Place::push`: what was done with the frames comes before.
        Chain(self.head.swap(NONE, Ordering::Acquire))
    }

    /// All that have come back; no more will.
    pub(super) fn close(&self) -> Chain {
        Chain(self.head.swap(CLOSED, Ordering::Acquire))
    }
}

impl Chain {
    pub(super) const EMPTY: Self = Self(NONE);

    /// The next one, which is the owner's alone from now on.
    #[inline]
    pub(super) fn next<'a>(&mut self, block: impl FnOnce(u32) -> &'a Block) -> Option<u32> {
        let index = self.0;
        if index >= CLOSED {
            return None;
        }
        let block = block(index);
        // The references that were handed over with it are given up.
        block.references.store(1, Ordering::Relaxed);
        let place = block.place.as_ref().expect("it has come back");
        self.0 = place.next.load(Ordering::Relaxed);
        Some(index)
    }
}

impl Place {
    pub(super) fn new(home: &Arc<Home>, index: u32) -> Self {
        assert!(index < CLOSED, "a home has fewer blocks");
        Self {
            home: Arc::clone(home),
            index,
            next: AtomicU32::new(NONE),
        }
    }

    /// Gives up `count` of the block's references, which the caller has, and sends the block home
    /// if only its owner's remains. False: they are still to be given up, since the owner is gone.
    #[inline]
    pub(super) fn release(&self, references: &AtomicUsize, count: usize) -> bool {
        // Acquire, the release of the others: what they did with the frames comes before.
        let mut before = references.load(Ordering::Acquire);
        loop {
            if before == count + 1 {
                // Nobody else can make another: the owner makes none of a block that is lent.
                return self.push();
            }
            if before <= count {
                return false;
            }
            let after = before - count;
            match references.compare_exchange_weak(
                before,
                after,
                Ordering::Release,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(now) => before = now,
            }
        }
    }

    fn push(&self) -> bool {
        let mut head = self.home.head.load(Ordering::Relaxed);
        loop {
            if head == CLOSED {
                return false;
            }
            self.next.store(head, Ordering::Relaxed);
            // Release, with the acquire of `Home::take`.
            match self.home.head.compare_exchange_weak(
                head,
                self.index,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }
}
