/// Bytes of the heap's beginning that come in huge pages.
#[cfg(target_env = "gnu")]
const HUGE_BYTES: usize = 32 << 20;

/// Lets all threads have one heap: what one of them has freed serves the others. Of glibc each
/// thread has its own otherwise, and a program whose threads need memory in turn takes the most
/// that each of them ever needed, all together. For the start of a program, before its threads.
/// Does nothing with another C library.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only changes where the allocator takes memory from.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// Gives whole pages of the heap's middle that nobody uses back to the kernel: where pieces of all
/// sizes come and go for long they are a fifth of it. Takes milliseconds, in which no other thread
/// allocates. Does nothing with another C library than glibc.
pub fn release_free_pages() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Lets the allocator keep what is freed, and take the first 32 MiB of its heap in huge pages where
/// the kernel gives them on request (`/sys/kernel/mm/transparent_hugepage/enabled`): a program
/// whose buffers grow takes thousands of page faults otherwise, a microsecond each on a virtual
/// machine. For the start of a program, on its main thread, that bears waiting while the kernel
/// makes room for a huge page. Does nothing with another C library than glibc.
pub fn prefer_huge_pages() {
    #[cfg(target_env = "gnu")]
    {
        let set = |parameter, bytes: usize| {
            // SAFETY: it only changes when the allocator asks for memory, and gives it back.
            unsafe { libc::mallopt(parameter, bytes as libc::c_int) };
        };
        // Large buffers come from the heap, too.
        set(libc::M_MMAP_THRESHOLD, HUGE_BYTES);
        set(libc::M_TRIM_THRESHOLD, 2 * HUGE_BYTES);
        set(libc::M_TOP_PAD, HUGE_BYTES);
        // The heap grows, by that much more, where a piece does not fit.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 20)));
        set(libc::M_TOP_PAD, 1 << 20);
        // SAFETY: it moves nothing.
        let end = unsafe { libc::sbrk(0) };
        let begin = end.wrapping_byte_sub(HUGE_BYTES);
        let begin = begin.wrapping_byte_add(begin.align_offset(2 << 20));
        let len = end.addr() - begin.addr();
        // Without huge pages it runs as well.
        // SAFETY: the advice changes the size of pages, not what they hold.
        let _ = unsafe { rustix::mm::madvise(begin, len, rustix::mm::Advice::LinuxHugepage) };
    }
}
