//! Lines of memory that will be needed soon.

/// Asks for the cache line in which `value` begins, and does not wait for it. On processors other
/// than x86-64 it does nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        // SAFETY: every x86-64 processor has the instruction, which neither reads nor writes what
        // a program can see, and faults at no address.
        // JUSTIFICATION: a read in its place keeps what follows from being finished until the line
        // has come, which is what this is to avoid: `bench/tcp/run`, "among 1 M connections".
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
