//! Memory from mmap(2).

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A mapping, unmapped when dropped. What lies in it is reached by raw pointers: the kernel writes
/// to it too.
pub(in crate::live) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns an address range, which any thread may unmap; reading and writing go through raw
// pointers, whose users state why they may.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives out addresses only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` zeroed bytes, present in memory, in huge pages where the system has them: the kernel
    /// and we go through all of it in turn, which is more pages than the processor remembers the
    /// places of.
    pub(in crate::live) fn anonymous(len: usize) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address that the kernel chooses touches nothing of ours.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let mapping = Self::owning(start.cast(), len);
        // Wishes: what is refused costs speed only, since the kernel maps what it is given as a
        // UMEM.
        for wish in [Advice::LinuxHugepage, Advice::LinuxPopulateWrite] {
            // SAFETY: the range was mapped above, and neither advice changes its bytes.
            let _ = unsafe { rustix::mm::madvise(start, len, wish) };
        }
        Ok(mapping)
    }

    /// `len` bytes of `descriptor` from `offset` on.
    pub(in crate::live) fn of(
        descriptor: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        protection: ProtFlags,
        flags: MapFlags,
    ) -> Result<Self, Errno> {
        // SAFETY: as above.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                flags,
                descriptor,
                offset,
            )
        }?;
        Ok(Self::owning(start.cast(), len))
    }

    fn owning(start: *mut u8, len: usize) -> Self {
        let start = NonNull::new(start).expect("mmap never returns address 0 unless asked to");
        Self { start, len }
    }

    /// The first byte.
    pub(in crate::live) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub(in crate::live) fn len(&self) -> usize {
        self.len
    }

    /// The address of `offset`, behind which `len` bytes are mapped.
    pub(in crate::live) fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(
            fits,
            "{len} bytes at {offset} lie outside a mapping of {}",
            self.len
        );
        // SAFETY: within the mapping (asserted).
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `self` and no one may use it after `self`: each user
        // keeps the mapping alive.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmapping what was mapped succeeds");
    }
}
