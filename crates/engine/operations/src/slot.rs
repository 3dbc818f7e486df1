//! Where an open operation lies.

/// Where an open operation lies: among those of the general path, or of the
/// [fast](crate::fast_call) one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// The bit of one on the fast path.
    const FAST: u32 = 1 << 31;

    #[inline]
    pub(crate) fn new(at: u32) -> Self {
        Self(at)
    }

    pub(crate) fn of_fast(at: u32) -> Self {
        Self(at | Self::FAST)
    }

    /// Its place among the calls on the general path.
    #[inline]
    pub(crate) fn place(self) -> usize {
        self.0 as usize
    }

    /// Its place among the calls on the fast path, if it is one.
    #[inline]
    pub(crate) fn fast(self) -> Option<u32> {
        (self.0 & Self::FAST != 0).then_some(self.0 & !Self::FAST)
    }
}
