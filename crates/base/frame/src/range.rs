//! Parts of frames, or holes, that are kept until the rest of their message arrives. What the bytes
//! mean is not known here; reading them is the cursor's.

use crate::cursor::Piece;
use crate::pool::{Descriptor, FrameRef, Part};

/// Why bytes of a stream or a datagram are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The receiver acknowledged them, but the tap never saw them.
    NotSeen,
    /// The receiver did not acknowledge them and asked for them again: they were lost on their way.
    Lost,
    /// They came in segments whose checksums are wrong where others of their direction are right.
    Damaged,
    /// The capture kept only the beginning of each frame.
    SnapLength,
    /// A bound on held bytes was reached before they came.
    GivenUp,
}

/// A part of a frame, or a hole, that is kept until the rest of its message arrives.
///
/// A range of a frame pins the frame's block (it is *bound*); [`Range::spill`] copies the bytes
/// out, so that the block can be used again.
#[derive(Debug, Clone)]
pub struct Range {
    bytes: Bytes,
    len: u32,
    offset_in_frame: u32,
    /// The frame that brought the bytes; of a hole, the frame at which it was given up.
    pub descriptor: Descriptor,
}

#[derive(Debug, Clone)]
enum Bytes {
    Bound(Part),
    Spilled(Box<[u8]>),
    Hole(Cause),
}

impl Range {
    /// `len` bytes from `offset` of `frame`, bound.
    pub fn bound(frame: &FrameRef, offset: usize, len: usize) -> Self {
        Self {
            bytes: Bytes::Bound(frame.part(offset, len)),
            len: len as u32,
            offset_in_frame: offset as u32,
            descriptor: *frame.descriptor(),
        }
    }

    /// `len` bytes that are missing.
    pub fn hole(len: usize, cause: Cause, descriptor: Descriptor) -> Self {
        Self {
            bytes: Bytes::Hole(cause),
            len: len as u32,
            offset_in_frame: 0,
            descriptor,
        }
    }

    /// Bytes spanned, missing ones included.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True if it spans nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Why the bytes are missing, if they are.
    pub fn missing(&self) -> Option<Cause> {
        match self.bytes {
            Bytes::Hole(cause) => Some(cause),
            _ => None,
        }
    }

    /// The bytes; empty for a hole.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Bound(part) => part.bytes(),
            Bytes::Spilled(bytes) => bytes,
            Bytes::Hole(_) => &[],
        }
    }

    /// The part of `len` bytes from `offset`.
    pub fn part(&self, offset: usize, len: usize) -> Self {
        assert!(offset + len <= self.len(), "a part lies within its range");
        let bytes = match &self.bytes {
            Bytes::Bound(whole) => Bytes::Bound(whole.clone().within(offset, len)),
            Bytes::Spilled(bytes) => Bytes::Spilled(bytes[offset..offset + len].into()),
            Bytes::Hole(cause) => Bytes::Hole(*cause),
        };
        Self {
            bytes,
            len: len as u32,
            offset_in_frame: self.offset_in_frame + offset as u32,
            descriptor: self.descriptor,
        }
    }

    /// The whole range, to deliver or to parse.
    pub fn chunk(&self) -> Chunk<'_> {
        let owner = match self.missing() {
            Some(cause) => Owner::Hole(cause, &self.descriptor),
            None => Owner::Range(self),
        };
        Chunk {
            owner,
            offset: 0,
            bytes: self.bytes(),
            len: self.len(),
        }
    }

    /// Copies bound bytes into memory of its own; returns whether there were any.
    pub fn spill(&mut self) -> bool {
        let is_bound = matches!(self.bytes, Bytes::Bound(_));
        if is_bound {
            self.bytes = Bytes::Spilled(self.bytes().into());
        }
        is_bound
    }
}

/// What a flow delivers at once: bytes where they lie, or a hole. Not held: [`Chunk::hold`] does
/// that.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    owner: Owner<'a>,
    /// Where in its owner it begins.
    offset: usize,
    /// Empty for a hole.
    bytes: &'a [u8],
    len: usize,
}

#[derive(Debug, Clone, Copy)]
enum Owner<'a> {
    Frame(&'a FrameRef),
    Range(&'a Range),
    Hole(Cause, &'a Descriptor),
    /// Nobody's frame: bytes that are gone when the callback returns.
    Lent(&'a Descriptor),
}

impl<'a> Chunk<'a> {
    /// `len` bytes from `offset` of `frame`.
    #[inline(always)]
    pub fn of_frame(frame: &'a FrameRef, offset: usize, len: usize) -> Self {
        Self {
            owner: Owner::Frame(frame),
            offset,
            bytes: &frame.bytes()[offset..offset + len],
            len,
        }
    }

    /// Bytes that lie in no frame, such as those that a kernel's socket gave: holding them copies
    /// them.
    pub fn lent(bytes: &'a [u8], descriptor: &'a Descriptor) -> Self {
        Self {
            owner: Owner::Lent(descriptor),
            offset: 0,
            bytes,
            len: bytes.len(),
        }
    }

    /// `len` missing bytes that `descriptor`'s frame made known.
    pub fn hole(len: usize, cause: Cause, descriptor: &'a Descriptor) -> Self {
        Self {
            owner: Owner::Hole(cause, descriptor),
            offset: 0,
            bytes: &[],
            len,
        }
    }

    /// Bytes spanned, missing ones included.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it spans nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes; empty for a hole.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Why the bytes are missing, if they are.
    #[inline]
    pub fn missing(&self) -> Option<Cause> {
        match self.owner {
            Owner::Hole(cause, _) => Some(cause),
            _ => None,
        }
    }

    /// The frame that brought the bytes.
    #[inline]
    pub fn descriptor(&self) -> &'a Descriptor {
        match self.owner {
            Owner::Frame(frame) => frame.descriptor(),
            Owner::Range(range) => &range.descriptor,
            Owner::Hole(_, descriptor) | Owner::Lent(descriptor) => descriptor,
        }
    }

    /// Where in its frame the chunk begins; 0 for a hole.
    #[inline]
    pub fn offset_in_frame(&self) -> usize {
        match self.owner {
            Owner::Frame(_) => self.offset,
            Owner::Range(range) => range.offset_in_frame as usize + self.offset,
            Owner::Hole(..) | Owner::Lent(_) => 0,
        }
    }

    /// The part of `len` bytes from `offset`.
    #[inline]
    pub fn part(&self, offset: usize, len: usize) -> Self {
        assert!(offset + len <= self.len, "a part lies within its chunk");
        Self {
            offset: self.offset + offset,
            // Of a hole nothing.
            bytes: self.bytes.get(offset..offset + len).unwrap_or_default(),
            len,
            ..*self
        }
    }

    /// Everything from `offset` on.
    #[inline]
    pub fn from(&self, offset: usize) -> Self {
        self.part(offset, self.len - offset)
    }

    /// Keeps it: counted, without a copy unless the bytes are lent.
    pub fn hold(&self) -> Range {
        match self.owner {
            Owner::Frame(frame) => Range::bound(frame, self.offset, self.len),
            Owner::Range(range) => range.part(self.offset, self.len),
            Owner::Hole(cause, descriptor) => Range::hole(self.len, cause, *descriptor),
            Owner::Lent(descriptor) => Range {
                bytes: Bytes::Spilled(self.bytes.into()),
                len: self.len as u32,
                offset_in_frame: 0,
                descriptor: *descriptor,
            },
        }
    }

    /// The chunk as a link of a chain that a cursor walks.
    #[inline]
    pub fn piece(&self) -> Piece<'a> {
        match self.missing() {
            Some(_) => Piece::hole(self.len),
            None => Piece::bytes(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Frame;

    #[test]
    fn a_spilled_range_holds_the_same_bytes() {
        let frame = Frame::copied(b"abcdef", Descriptor::default()).share();
        let mut range = Range::bound(&frame, 1, 4);
        assert_eq!(range.bytes(), b"bcde");
        assert!(range.spill() && !range.spill());
        assert_eq!(range.bytes(), b"bcde");
        assert_eq!(range.part(1, 2).bytes(), b"cd");
        let lent = Chunk::lent(b"lent", frame.descriptor()).from(1).hold();
        assert_eq!(lent.bytes(), b"ent");
        assert_eq!(
            Range::hole(3, Cause::NotSeen, Descriptor::default()).bytes(),
            b""
        );
    }
}
