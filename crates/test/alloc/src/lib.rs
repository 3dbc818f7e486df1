//! A global allocator that counts, for tests that hold how often code allocates and how much.
//!
//! A test program that uses this crate has the allocator; all memory comes from the system's.
//! Figures of a thread leave out the tests that run in other threads; those of the process take in
//! every thread that the code under test starts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

static PROCESS_CALLS: AtomicU64 = AtomicU64::new(0);
static PROCESS_BYTES: AtomicUsize = AtomicUsize::new(0);
static PROCESS_BYTES_MAX: AtomicUsize = AtomicUsize::new(0);

/// Times that this thread has allocated, or reallocated.
pub fn allocations() -> u64 {
    CALLS.get()
}

/// Bytes that this thread has asked for and not freed; less than 0 if it freed those of others.
pub fn live_bytes() -> i64 {
    BYTES.get()
}

/// Times that all threads have allocated, or reallocated.
pub fn process_allocations() -> u64 {
    PROCESS_CALLS.load(Ordering::Relaxed)
}

/// Bytes that glibc's allocator takes for what all threads hold.
pub fn process_bytes() -> usize {
    PROCESS_BYTES.load(Ordering::Relaxed)
}

/// The most that `call` makes of [`process_bytes`], and its result.
pub fn process_bytes_max<T>(call: impl FnOnce() -> T) -> (usize, T) {
    PROCESS_BYTES_MAX.store(0, Ordering::Relaxed);
    let done = call();
    (PROCESS_BYTES_MAX.load(Ordering::Relaxed), done)
}

/// What this thread has allocated in some calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Times that it has allocated, or reallocated.
    pub calls: u64,
    /// Bytes that the calls left, less those that they freed.
    pub bytes: i64,
}

impl Allocated {
    /// Adds what `call` allocates; returns its result.
    pub fn add<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let (calls, bytes) = (allocations(), live_bytes());
        let done = call();
        self.calls += allocations() - calls;
        self.bytes += live_bytes() - bytes;
        done
    }
}

/// What glibc's allocator takes for a piece.
fn taken(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

fn on_alloc(size: usize) {
    // A thread that ends counts no more.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + size as i64));
    PROCESS_CALLS.fetch_add(1, Ordering::Relaxed);
    let before = PROCESS_BYTES.fetch_add(taken(size), Ordering::Relaxed);
    PROCESS_BYTES_MAX.fetch_max(before + taken(size), Ordering::Relaxed);
}

fn on_dealloc(size: usize) {
    let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() - size as i64));
    PROCESS_BYTES.fetch_sub(taken(size), Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged.
// JUSTIFICATION: only a global allocator sees every allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        on_alloc(layout.size());
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        on_dealloc(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may be there at once.
        on_alloc(size);
        on_dealloc(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
