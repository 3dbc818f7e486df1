//! How long a frame is, and whether it is the only one of its bytes.

/// The length of a frame, below 2 GiB, and in its highest bit whether several
/// [frames](super::Frame) have the same bytes. It is this crate's alone to set: that a frame may
/// write follows from it.
#[derive(Clone, Copy)]
pub(super) struct Len(u32);

impl Len {
    const SHARED: u32 = 1 << 31;

    #[inline]
    pub(super) fn new(bytes: usize) -> Self {
        debug_assert!(bytes < Self::SHARED as usize, "a frame has less than 2 GiB");
        Self(bytes as u32 & !Self::SHARED)
    }

    #[inline]
    pub(super) fn bytes(self) -> usize {
        (self.0 & !Self::SHARED) as usize
    }

    #[inline]
    pub(super) fn is_shared(self) -> bool {
        self.0 & Self::SHARED != 0
    }

    #[inline]
    pub(super) fn share(&mut self) {
        self.0 |= Self::SHARED;
    }

    pub(super) fn truncate(&mut self, bytes: usize) {
        let kept = self.bytes().min(bytes) as u32;
        self.0 = self.0 & Self::SHARED | kept;
    }
}
