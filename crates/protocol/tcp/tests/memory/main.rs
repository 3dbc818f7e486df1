//! Memory: nothing is allocated for a segment, nor for a connection once a table has grown; what a
//! flood can make a stack allocate lies within its budget, and established connections lose nothing
//! by it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

mod allocations;
mod duel;
mod floods;

struct Counting;

thread_local! {
    static IS_MEASURED: Cell<bool> = const { Cell::new(false) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
}

fn note(allocations: u64, bytes: isize) {
    if IS_MEASURED.get() {
        ALLOCATIONS.set(ALLOCATIONS.get() + allocations);
        LIVE_BYTES.set(LIVE_BYTES.get() + bytes);
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
// JUSTIFICATION: only a global allocator sees every allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as isize);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, -(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts what a call allocates.
fn measured<T>(call: impl FnOnce() -> T) -> T {
    IS_MEASURED.set(true);
    let done = call();
    IS_MEASURED.set(false);
    done
}

/// Allocations of all measured calls of this test, and the bytes that they left.
fn allocated() -> (u64, isize) {
    (ALLOCATIONS.get(), LIVE_BYTES.get())
}
