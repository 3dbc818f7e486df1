//! Frames whose head is new and whose rest lies where it was received.
//!
//! ```text
//!  received:  │ old head │ payload ...... │ ◄─┐ ◄─┐
//!  to send:   │ new head │ rest ─────────────┘   │
//!             │ another head │ rest ─────────────┘
//! ```
//!
//! So a payload goes to several receivers and is not copied. Ports send both in order; an engine
//! that receives frames never sees any with a rest, since ports make none.

//! The two are joined by a block that refers to both, so that a frame is no larger for it, and
//! references to it are counted as others are. A thread keeps such blocks for the next joints: no
//! allocation for a frame.

use std::cell::RefCell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

use super::{Block, BlockRef, Frame, FrameRef, Memory, Part};

/// What a frame of two parts consists of.
pub(super) struct Joint {
    head: Part,
    rest: Part,
}

/// Blocks that a thread keeps: as many as are under way at a port of AF_XDP.
const KEPT_MAX: usize = 4096;

thread_local! {
    #[expect(clippy::vec_box, reason = "it is the boxes that are kept")]
    static KEPT: RefCell<Vec<Box<Block>>> = const { RefCell::new(Vec::new()) };
}

/// Nothing refers to a block any more.
pub(super) fn end(mut block: Box<Block>) {
    if !matches!(block.memory, Memory::Joint(_)) {
        return;
    }
    // The parts are given up last: they may end other blocks.
    let _parts = std::mem::replace(&mut block.memory, Memory::Gone);
    let _ = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.push(block);
        }
    });
}

fn joint(joint: Joint) -> BlockRef {
    let Part { block, start, len } = &joint.head;
    debug_assert!(*start as usize + *len as usize <= block.len);
    // SAFETY: the head lies in its block.
    let start = unsafe { block.start.add(*start as usize) };
    let whole = Block {
        references: AtomicUsize::new(1),
        start,
        len: *len as usize,
        place: None,
        memory: Memory::Joint(joint),
    };
    let kept = KEPT.try_with(|kept| kept.borrow_mut().pop());
    let block = match kept.ok().flatten() {
        Some(mut block) => {
            *block = whole;
            block
        }
        None => Box::new(whole),
    };
    BlockRef(NonNull::from(Box::leak(block)))
}

impl Frame {
    /// This frame followed by `range` of the bytes of another, which are shared: the other one gets
    /// bytes of its own before it changes them. As long as both together are on the wire.
    ///
    /// The other one has no [rest](FrameRef::rest) of its own, nor has this one.
    pub fn with_rest(mut self, other: &mut Self, range: Range<usize>) -> Self {
        debug_assert!(
            self.rest_part().is_none() && other.rest_part().is_none(),
            "a frame has two parts at most"
        );
        assert!(range.start <= range.end, "a range does not run backwards");
        other.bytes.len.share();
        let rest = other.bytes.part(range.start, range.len());
        self.bytes.descriptor.wire_len = (self.bytes.len.bytes() + range.len()) as u32;
        self.joined((!range.is_empty()).then_some(rest))
    }

    /// In front of this rest, if there is one.
    pub(super) fn joined(self, rest: Option<Part>) -> Self {
        let Some(rest) = rest else {
            return self;
        };
        let FrameRef {
            block,
            start,
            len,
            descriptor,
        } = self.bytes;
        let head = Part {
            block,
            start,
            len: len.bytes() as u32,
        };
        Self::of(FrameRef {
            block: joint(Joint { head, rest }),
            start: 0,
            // Others may have the head's bytes as before.
            len,
            descriptor,
        })
    }

    /// Keeps no more than `len` bytes of it.
    pub fn truncate(&mut self, len: usize) {
        let head_len = self.bytes.len.bytes();
        self.bytes.len.truncate(len);
        let Memory::Joint(Joint { head, rest }) = &self.bytes.block.memory else {
            return;
        };
        let kept = (rest.len as usize).min(len.saturating_sub(head_len));
        let rest = (kept > 0).then(|| rest.clone().within(0, kept));
        let bytes = FrameRef {
            block: head.block.clone(),
            start: head.start,
            ..self.bytes.clone()
        };
        *self = Self::of(bytes).joined(rest);
    }
}

impl FrameRef {
    /// What follows [the bytes](Self::bytes) on the wire and lies elsewhere: nothing, in most
    /// frames.
    #[inline]
    pub fn rest(&self) -> &[u8] {
        self.rest_part().map_or(&[], Part::bytes)
    }

    /// All its bytes: those of the head or the whole frame, and the rest.
    #[inline]
    pub fn parts(&self) -> [&[u8]; 2] {
        [self.bytes(), self.rest()]
    }

    /// Bytes of the frame with its rest.
    #[inline]
    pub fn whole_len(&self) -> usize {
        self.len.bytes() + self.rest().len()
    }

    #[inline]
    pub(super) fn rest_part(&self) -> Option<&Part> {
        match &self.block.memory {
            Memory::Joint(joint) => Some(&joint.rest),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::Arc;

    use crate::{Burst, Descriptor, SharedBurst, Slots};

    use super::*;

    fn head(text: &[u8]) -> Frame {
        Frame::copied(text, Descriptor::default())
    }

    #[test]
    fn a_payload_follows_several_heads_where_it_lies() {
        let mut received = head(b"old:payload");
        let place = received.bytes()[4..].as_ptr();
        let one = head(b"one:").with_rest(&mut received, 4..11);
        let mut two = head(b"second:").with_rest(&mut received, 4..8);
        assert_eq!(one.parts(), [&b"one:"[..], b"payload"]);
        assert_eq!((one.rest().as_ptr(), two.rest().as_ptr()), (place, place));
        assert_eq!((one.whole_len(), one.descriptor().wire_len), (11, 11));
        // Neither changes what the others send.
        received.bytes_mut()[4] = b'x';
        two.bytes_mut()[0] = b'S';
        let mut three = two.another();
        three.bytes_mut()[1] = b'E';
        assert_eq!(two.parts(), [&b"Second:"[..], b"payl"]);
        assert_eq!(three.parts(), [&b"SEcond:"[..], b"payl"]);
        assert_eq!(one.rest(), b"payload");
        two.truncate(9);
        assert_eq!(two.parts(), [&b"Second:"[..], b"pa"]);
        two.truncate(7);
        assert_eq!((two.rest(), two.whole_len()), (&b""[..], 7));
        three.truncate(2);
        assert_eq!(three.parts(), [&b"SE"[..], b""]);
        assert_eq!(one.share().clone().rest(), b"payload");
        let none = head(b"all").with_rest(&mut received, 3..3);
        assert_eq!(none.parts(), [&b"all"[..], b""]);
    }

    /// However the frames go.
    #[test]
    fn a_payload_is_free_when_its_last_head_is_gone() {
        let mut memory = vec![0_u8; 16].into_boxed_slice();
        let start = NonNull::new(memory.as_mut_ptr()).expect("not null");
        let owner: Arc<dyn Send + Sync> = Arc::new(());
        // SAFETY: `memory` outlives the slots, and is not touched beside them.
        let mut slots = unsafe { Slots::returning(start, 16, 1, &owner) };
        let mut received = slots.frame(0, 0..16, Descriptor::default()).expect("free");
        let mut burst: Burst = (0..3)
            .map(|_| head(b"head").with_rest(&mut received, 4..16))
            .collect();
        let rest = burst.pop().expect("three").share();
        drop(received);
        let mut count = 0;
        slots.returned(|_| count += 1);
        drop(SharedBurst::new(&mut burst));
        slots.returned(|_| count += 1);
        assert_eq!(count, 0, "one is left");
        drop(rest);
        slots.returned(|_| count += 1);
        assert_eq!(count, 1);
    }

    #[test]
    fn a_frame_is_a_cache_line_and_its_joint_is_used_again() {
        assert_eq!(size_of::<Frame>(), 64);
        let mut received = head(b"payload");
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let mut frame = head(b"head").with_rest(&mut received, 0..7);
            places.insert(frame.bytes.block.0.addr());
            frame.truncate(6);
            assert_eq!(frame.parts(), [&b"head"[..], b"pa"]);
            drop(frame);
            // Held back until then.
            crate::give_back();
        }
        assert!(places.len() <= 2, "{places:?}");
    }
}
