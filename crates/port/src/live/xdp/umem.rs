//! The memory that all sockets of an interface share with the kernel, in chunks of equal size.
//!
//! ```text
//!  chunk:  0 ......... 248 ..... 256 ........... 4096
//!          the kernel's | stamp  | frame, or a part of one
//! ```

use std::ptr::NonNull;
use std::sync::Arc;

use lineside_account::{Budget, Lease};
use lineside_frame::Slots;
use rustix::io::Errno;

use super::mapping::Mapping;
use super::program::STAMP_LEN;

/// Bytes of a chunk: a page. Frames of up to 3,840 bytes lie in one piece; longer ones come in at most 18
/// parts, so that 2 KiB would not do above 30 KB.
pub(super) const CHUNK_LEN: usize = 4096;

/// Bytes that the kernel leaves before a frame (`XDP_PACKET_HEADROOM`).
pub(super) const HEADROOM: usize = 256;

/// Bytes of a frame that a chunk holds.
pub(super) const PART_LEN_MAX: usize = CHUNK_LEN - HEADROOM;

/// The memory.
pub(super) struct Umem {
    mapping: Mapping,
    _lease: Lease,
}

impl Umem {
    /// `chunks` chunks, drawn on `budget`: `Ok(None)` if they do not fit there.
    pub(super) fn new(chunks: usize, budget: &Budget) -> Result<Option<Arc<Self>>, Errno> {
        let len = chunks * CHUNK_LEN;
        let Some(lease) = budget.lease(len) else {
            return Ok(None);
        };
        Ok(Some(Arc::new(Self {
            mapping: Mapping::anonymous(len)?,
            _lease: lease,
        })))
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    pub(super) fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Chunks.
    pub(super) fn chunks(&self) -> usize {
        self.len() / CHUNK_LEN
    }

    /// Chunks `first..first + count` as slots of frames.
    ///
    /// # Safety
    /// No chunk gets two slots; from [`Slots::writer`] until [`Slots::is_free`] of a chunk it is not given to
    /// the kernel to write.
    pub(super) unsafe fn slots(self: &Arc<Self>, first: usize, count: usize) -> Slots {
        let start = self.mapping.at(first * CHUNK_LEN, count * CHUNK_LEN);
        let owner: Arc<dyn Send + Sync> = Arc::clone(self) as _;
        // SAFETY: the range is mapped for reading and writing (checked by `at`) as long as `self` lives; the
        // rest is the caller's duty.
        unsafe { Slots::new(start, CHUNK_LEN, count, &owner) }
    }

    /// Where in this memory `bytes` lie, if they do.
    pub(super) fn offset_of(&self, bytes: &[u8]) -> Option<usize> {
        let offset = bytes
            .as_ptr()
            .addr()
            .checked_sub(self.start().addr().get())?;
        (offset < self.len()).then_some(offset)
    }
}

/// Takes the stamp before the frame at `start` of a chunk: nanoseconds of CLOCK_MONOTONIC. It is zeroed, so
/// that the chunk's next frame does not inherit it.
pub(super) fn take_stamp(chunk: &mut [u8], start: usize) -> Option<u64> {
    let stamp = &mut chunk[start - STAMP_LEN..start];
    let stamp: &mut [u8; STAMP_LEN] = stamp.try_into().expect("as long as a stamp");
    let taken_ns = u64::from_ne_bytes(std::mem::take(stamp));
    (taken_ns != 0).then_some(taken_ns)
}
