//! Memory: nothing is allocated for a segment, nor for a connection once a table has grown; what a
//! flood can make a stack allocate lies within its budget, and established connections lose nothing
//! by it.

mod allocations;
mod duel;
mod floods;

use std::cell::RefCell;

use lineside_alloc::Allocated;

thread_local! {
    static ALLOCATED: RefCell<Allocated> = RefCell::default();
}

/// Counts what a call allocates.
fn measured<T>(call: impl FnOnce() -> T) -> T {
    ALLOCATED.with_borrow_mut(|allocated| allocated.add(call))
}

/// Allocations of all measured calls of this test, and the bytes that they left.
fn allocated() -> (u64, isize) {
    let Allocated { calls, bytes } = ALLOCATED.with_borrow(Clone::clone);
    (calls, bytes as isize)
}
