//! The clock of an end, as the timestamps of its segments show it (RFC 7323 3).

/// Two no-operations and a timestamp: what options usually begin with (RFC 7323, appendix A).
const USUAL: u64 = 0x0101_080a << 32;
/// A clock that went on by so much went back.
const HALF: u64 = 1 << 31;

/// The latest timestamp of an end, in order, below the word that usually precedes it; 0: none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock(u64);

impl Clock {
    pub(crate) fn at(value: u32) -> Self {
        Self(USUAL | u64::from(value))
    }

    /// What it shows after a segment with these options. `None`: the segment is older, or its
    /// timestamp lies elsewhere.
    #[inline(always)]
    pub(crate) fn after(self, options: &[u8]) -> Option<Self> {
        let Some(first) = options.first_chunk() else {
            return Some(self);
        };
        let next = u64::from_be_bytes(*first);
        (next.wrapping_sub(self.0) < HALF).then_some(Self(next))
    }

    /// Whether no timestamp was seen.
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether it went on since it showed `before`; without timestamps, always.
    pub(crate) fn is_later(self, before: Self) -> bool {
        let ahead = self.0.wrapping_sub(before.0) & u64::from(u32::MAX);
        self.0 == 0 || (1..HALF).contains(&ahead)
    }

    /// Whether a timestamp is older.
    pub(crate) fn is_after(self, value: u32) -> bool {
        self.0 != 0 && u64::from(value.wrapping_sub(self.0 as u32)) >= HALF
    }
}
