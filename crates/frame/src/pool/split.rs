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

use std::ops::Range;

use super::{Frame, FrameRef, Len};

impl Frame {
    /// This frame followed by `range` of the bytes of another, which are shared: the other one gets
    /// bytes of its own before it changes them. As long as both together are on the wire.
    ///
    /// The other one has no [rest](Self::rest) of its own, nor has this one.
    pub fn with_rest(mut self, other: &mut Self, range: Range<usize>) -> Self {
        debug_assert!(
            self.rest.is_none() && other.rest.is_none(),
            "a frame has two parts at most"
        );
        assert!(range.start <= range.end, "a range does not run backwards");
        other.bytes.len.share();
        if !range.is_empty() {
            self.rest = Some(other.bytes.part(range.start, range.len()));
        }
        self.bytes.descriptor.wire_len = self.whole_len() as u32;
        self
    }

    /// What follows [the bytes](FrameRef::bytes) on the wire and lies elsewhere: nothing, in most
    /// frames.
    #[inline]
    pub fn rest(&self) -> &[u8] {
        self.rest.as_ref().map_or(&[], |rest| rest.bytes())
    }

    /// All its bytes: those of the head or the whole frame, and the rest.
    #[inline]
    pub fn parts(&self) -> [&[u8]; 2] {
        [self.bytes(), self.rest()]
    }

    /// Bytes of the frame with its rest.
    #[inline]
    pub fn whole_len(&self) -> usize {
        self.bytes.len.bytes() + self.rest().len()
    }

    /// Keeps no more than `len` bytes of it.
    pub fn truncate(&mut self, len: usize) {
        let head_len = self.bytes.len.bytes();
        self.bytes.len.truncate(len);
        if let Some(rest) = self.rest.take()
            && len > head_len
        {
            let kept = rest.bytes().len().min(len - head_len);
            self.rest = Some(rest.within(0, kept));
        }
    }

    /// Gives up the right to write, for a reference to the bytes and one to the rest.
    pub fn share_parts(self) -> (FrameRef, Option<FrameRef>) {
        let rest = self.rest.map(|rest| FrameRef {
            block: rest.block,
            start: rest.start,
            len: Len::new(rest.len as usize),
            descriptor: self.bytes.descriptor,
        });
        (self.bytes, rest)
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
        let (bytes, rest) = one.share_parts();
        assert_eq!(
            (bytes.bytes(), rest.expect("one").bytes()),
            (&b"one:"[..], &b"payload"[..])
        );
        assert!(
            head(b"all")
                .with_rest(&mut received, 3..3)
                .share_parts()
                .1
                .is_none()
        );
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
        let (_, rest) = burst.pop().expect("three").share_parts();
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
}
