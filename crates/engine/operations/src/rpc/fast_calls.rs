//! The calls on the fast path that wait for their replies, and who made them.

use super::connection::RpcConnection;
use crate::fast_call::{CallerRef, FastCall, FastCaller};
use crate::slot::Slot;

/// What such a call costs, to draw on the budget.
pub(super) const FAST_CALL_BYTES: usize = size_of::<FastCall>();

const _: () = assert!(FAST_CALL_BYTES <= 256, "as the specification promises");

/// The calls on the fast path, in slots that are used again.
#[derive(Default)]
pub(crate) struct FastCalls {
    pub(super) calls: Vec<FastCall>,
    pub(super) free: Vec<u32>,
    pub(super) callers: Callers,
}

impl FastCalls {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &FastCall {
        &self.calls[at as usize]
    }

    pub(super) fn waiting(&self) -> usize {
        self.calls.len() - self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &FastCall)> {
        let mut is_free = vec![false; self.calls.len()];
        for &free in &self.free {
            is_free[free as usize] = true;
        }
        let calls = self.calls.iter().enumerate();
        calls
            .filter(move |(at, _)| !is_free[*at])
            .map(|(at, call)| (Slot::of_fast(at as u32), call))
    }

    /// A call whose slot is free from now on.
    #[inline]
    pub(super) fn take(&mut self, at: u32) -> FastCall {
        self.free.push(at);
        self.calls[at as usize]
    }

    /// A connection calls with another header from now on, or ends.
    #[inline]
    pub(super) fn forget_caller(&mut self, rpc: &mut RpcConnection) {
        if let Some(caller) = rpc.fast_caller.take() {
            self.callers.release(caller);
        }
    }
}

/// Callers, each as long as its connection calls with it or a call of it waits.
#[derive(Default)]
pub(super) struct Callers {
    callers: Vec<FastCaller>,
    free: Vec<CallerRef>,
}

impl Callers {
    pub(super) fn add(&mut self, caller: FastCaller) -> CallerRef {
        if let Some(free) = self.free.pop() {
            self.callers[free.0 as usize] = caller;
            return free;
        }
        self.callers.push(caller);
        CallerRef((self.callers.len() - 1) as u32)
    }

    #[inline]
    pub(super) fn get(&self, caller: CallerRef) -> &FastCaller {
        &self.callers[caller.0 as usize]
    }

    #[inline]
    pub(super) fn hold(&mut self, caller: CallerRef) {
        self.callers[caller.0 as usize].uses += 1;
    }

    #[inline]
    pub(super) fn release(&mut self, caller: CallerRef) {
        let uses = &mut self.callers[caller.0 as usize].uses;
        *uses -= 1;
        if *uses == 0 {
            self.free.push(caller);
        }
    }
}
