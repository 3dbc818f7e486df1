//! The memory that all sockets of an interface share with the kernel, in chunks of equal size.
//!
//! ```text
//!  chunk:  0 ......... 248 ..... 256 ........... 2048 or 4096
//!          the kernel's | stamp  | frame, or a part of one
//! ```
//!
//! Before a frame to send there may be a [request](Request) to the kernel in place of the
//! stamp.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lineside_account::{Budget, Lease};
use lineside_frame::Slots;
use rustix::io::Errno;

use super::program::STAMP_LEN;
use crate::live::checksum_offload::ChecksumOffload;
use crate::live::mapping::Mapping;

/// Bytes that the kernel leaves before a frame (`XDP_PACKET_HEADROOM`).
pub(super) const HEADROOM: usize = 256;

/// How long chunks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkSize {
    shift: u32,
}

impl ChunkSize {
    /// Chunks that hold a frame of `len` bytes in one piece, or else as much of it as a page does:
    /// the kernel knows no longer ones. Half a page for what fits there means twice the frames in
    /// the same memory.
    pub(super) fn for_frames(len: usize) -> Self {
        let shift = if len <= 2048 - HEADROOM { 11 } else { 12 };
        Self { shift }
    }

    /// Bytes of a chunk.
    pub(super) fn len(self) -> usize {
        1 << self.shift
    }

    /// Bytes of a frame that a chunk holds.
    pub(super) fn part_len_max(self) -> usize {
        self.len() - HEADROOM
    }

    /// The chunk in which a byte of the memory lies, and where in it.
    pub(super) fn locate(self, offset: usize) -> (usize, usize) {
        (offset >> self.shift, offset & (self.len() - 1))
    }

    /// Where a chunk begins in the memory.
    pub(super) fn offset(self, chunk: usize) -> usize {
        chunk << self.shift
    }
}

/// The memory.
pub(super) struct Umem {
    mapping: Mapping,
    pub(super) chunk: ChunkSize,
    _lease: Lease,
}

impl Umem {
    /// `chunks` chunks, drawn on `budget`: `Ok(None)` if they do not fit there.
    pub(super) fn new(
        chunk: ChunkSize,
        chunks: usize,
        budget: &Budget,
    ) -> Result<Option<Arc<Self>>, Errno> {
        let len = chunks * chunk.len();
        let Some(lease) = budget.lease(len) else {
            return Ok(None);
        };
        Ok(Some(Arc::new(Self {
            mapping: Mapping::anonymous(len)?,
            chunk,
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
        self.len() / self.chunk.len()
    }

    /// Chunks `first..first + count` as slots of frames.
    ///
    /// # Safety
    /// No chunk gets two slots; from [`Slots::frame`] of a chunk until [`Slots::returned`] gives
    /// it, it is not given to the kernel to write.
    pub(super) unsafe fn slots(self: &Arc<Self>, first: usize, count: usize) -> Slots {
        let len = self.chunk.len();
        let start = self.mapping.at(first * len, count * len);
        let owner: Arc<dyn Send + Sync> = Arc::clone(self) as _;
        // SAFETY: the range is mapped for reading and writing (checked by `at`) as long as `self`
        // lives; the rest is the caller's duty.
        unsafe { Slots::returning(start, len, count, &owner) }
    }

    /// Asks the processor for a frame's stamp and headers, which the kernel wrote on another core.
    #[inline]
    pub(super) fn prefetch(&self, frame: u64) {
        let offset = usize::try_from(frame).unwrap_or(usize::MAX);
        if offset < STAMP_LEN || offset + 64 > self.len() {
            return;
        }
        let at = self.mapping.at(offset - STAMP_LEN, STAMP_LEN + 64).as_ptr();
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: both addresses lie within the mapping (checked by `at`); a prefetch reads
            // nothing.
            unsafe {
                _mm_prefetch(at.cast(), _MM_HINT_T0);
                _mm_prefetch(at.add(STAMP_LEN).cast(), _MM_HINT_T0);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    /// Whether a [`Request`] can be written before the frame at `offset`, although the frame is
    /// shared: it begins where the kernel put it, and no frame has the bytes before.
    pub(super) fn takes_request(&self, offset: usize) -> bool {
        self.chunk.locate(offset).1 == HEADROOM
    }

    /// Writes a request before a frame that [takes](Self::takes_request) one.
    pub(super) fn write_request(&self, offset: usize, request: Request) {
        assert!(
            self.takes_request(offset),
            "before a frame lies its headroom"
        );
        for (at, word) in request.words().into_iter().enumerate() {
            let to = self.mapping.at(offset - REQUEST_LEN + 8 * at, 8);
            // SAFETY: mapped (checked by `at`) and aligned, since chunks and headroom are. Frames
            // have no bytes there (asserted); several ports that send the same chunk may write at
            // once, each eight bytes at once and the same ones.
            unsafe { AtomicU64::from_ptr(to.cast().as_ptr()) }.store(word, Ordering::Relaxed);
        }
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

/// Bytes before a frame to send that hold a request to the kernel, and its answer: `struct
/// xsk_tx_metadata` of linux/if_xdp.h.
pub(super) const REQUEST_LEN: usize = 24;

/// What the kernel is asked to do with a frame that is sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Request {
    /// To say when it is handed to the driver.
    pub(super) stamps: bool,
    /// To finish its checksum, or have the adapter do that.
    pub(super) checksum: Option<ChecksumOffload>,
}

impl Request {
    /// `XDP_TXMD_FLAGS_TIMESTAMP`, `XDP_TXMD_FLAGS_CHECKSUM`.
    const STAMP: u64 = 1;
    const CHECKSUM: u64 = 2;

    pub(super) fn is_empty(self) -> bool {
        !self.stamps && self.checksum.is_none()
    }

    /// Flags; where the checksum is; no launch time.
    fn words(self) -> [u64; REQUEST_LEN / 8] {
        let flags = [
            (self.stamps, Self::STAMP),
            (self.checksum.is_some(), Self::CHECKSUM),
        ];
        let flags = flags.map(|(is_set, flag)| if is_set { flag } else { 0 });
        let checksum = self.checksum.map_or([0; 2], |it| [it.start, it.offset]);
        let mut place = [0; 8];
        place[..4].copy_from_slice(checksum.map(u16::to_ne_bytes).as_flattened());
        [flags[0] | flags[1], u64::from_ne_bytes(place), 0]
    }

    /// Writes it before the frame at `start` of a chunk. It goes with the frame.
    pub(super) fn write(self, chunk: &mut [u8], start: usize) {
        let request = &mut chunk[start - REQUEST_LEN..start];
        request.copy_from_slice(self.words().map(u64::to_ne_bytes).as_flattened());
    }
}

/// The answer to a [`Request`] for a stamp, nanoseconds of CLOCK_TAI, once the frame was sent;
/// `None` if there is none.
pub(super) fn answered_stamp(chunk: &[u8], start: usize) -> Option<u64> {
    let answer = &chunk[start - REQUEST_LEN + 8..][..8];
    let stamp_ns = u64::from_ne_bytes(answer.try_into().expect("eight bytes"));
    (stamp_ns != 0).then_some(stamp_ns)
}

/// Takes the stamp before the frame at `start` of a chunk: nanoseconds of CLOCK_MONOTONIC. It is
/// zeroed, so that the chunk's next frame does not inherit it.
pub(super) fn take_stamp(chunk: &mut [u8], start: usize) -> Option<u64> {
    let stamp = &mut chunk[start - STAMP_LEN..start];
    let stamp: &mut [u8; STAMP_LEN] = stamp.try_into().expect("as long as a stamp");
    let taken_ns = u64::from_ne_bytes(std::mem::take(stamp));
    (taken_ns != 0).then_some(taken_ns)
}
