//! What distinguishes a call from another one with its xid: a hash of its first arguments.

use lineside_frame::Cursor;
use twox_hash::XxHash3_64;

/// So many bytes of the arguments are compared, of file data only what of a compound lies among
/// them: two calls with one xid that differ behind them are taken for one. A handle and the longest
/// name that systems allow are 330 bytes.
pub(crate) const ARGUMENTS_MAX: usize = 512;
/// Of arguments that come in parts, this many are remembered beyond their connection: a session,
/// its slot and its sequence are among them (RFC 8881 section 18.46.1).
const BRIEF: usize = 64;

/// The first arguments of a call, as far as they were seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    hash: u32,
    len: u16,
}

impl Arguments {
    /// Of the first `len` bytes of the arguments, or of those before a hole.
    #[inline]
    pub(crate) fn of(start: &Cursor<'_>, len: usize) -> Self {
        let len = len.min(ARGUMENTS_MAX);
        match start.at_hand().get(..len) {
            Some(bytes) => Self::of_bytes(bytes),
            None => Self::of_pieces(*start, len),
        }
    }

    #[cold]
    fn of_pieces(mut start: Cursor<'_>, len: usize) -> Self {
        let mut bytes = [0; ARGUMENTS_MAX];
        let mut filled = 0;
        while filled < len {
            let here = start.at_hand().len().clamp(1, len - filled);
            let Some(view) = start.view(here) else {
                break;
            };
            for slice in view.slices() {
                bytes[filled..filled + slice.len()].copy_from_slice(slice);
                filled += slice.len();
            }
        }
        Self::of_bytes(&bytes[..filled])
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self {
            hash: XxHash3_64::oneshot(bytes) as u32,
            len: bytes.len() as u16,
        }
    }

    /// Whether a call whose arguments begin at `start`, and are `now`, may be the same.
    pub(crate) fn may_be(self, now: Self, start: &Cursor<'_>) -> bool {
        if self.len == now.len {
            return self.hash == now.hash;
        }
        // Where less of this one was seen than of the first, nothing is known of the rest.
        let is_longer = self.len > 0 && self.len < now.len;
        !is_longer || Self::of(start, self.len.into()).hash == self.hash
    }

    /// What is remembered of those that lie whole in one message.
    pub(crate) fn hash(self) -> u32 {
        self.hash
    }

    /// What is remembered of them beyond their connection: of those that come in parts, the first.
    pub(crate) fn to_remember(self, goes_on: bool, start: &Cursor<'_>) -> u32 {
        match goes_on && usize::from(self.len) > BRIEF {
            true => Self::of(start, BRIEF).hash,
            false => self.hash,
        }
    }
}
