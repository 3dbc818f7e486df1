//! Which schedulers sleep, and how to wake them.
//!
//! ## Why no wake-up is lost
//!
//! A scheduler that makes work visible to a sleeper does *write work; fence; look whether it
//! sleeps*. One that goes to sleep does *say so; fence; look for work*. The fences are SeqCst, so
//! at least one of the two sees the other. A scheduler that still spins is marked too, and looks
//! again after it was marked as asleep.

use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    Thread, current, fence,
};

const IDLE_COUNT: u64 = 0xffff_ffff;
const IDLE_EPOCH: u64 = 1 << 32;

/// One for each scheduler.
pub(crate) struct Seats {
    seats: Box<[CachePadded<Seat>]>,
    /// How many sleep or are about to, and in the upper half how often one ceased to.
    idle: CachePadded<AtomicU64>,
    /// How many look for work.
    spinning: CachePadded<AtomicUsize>,
}

struct Seat {
    sleeping: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Seats {
    pub(crate) fn new(count: usize) -> Self {
        let seat = || Seat {
            sleeping: AtomicBool::new(false),
            thread: OnceLock::new(),
        };
        Self {
            seats: (0..count).map(|_| CachePadded::new(seat())).collect(),
            idle: CachePadded::new(AtomicU64::new(0)),
            spinning: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// The calling thread is the one of scheduler `index`.
    pub(crate) fn sit(&self, index: usize) {
        // A seat is taken once.
        let _ = self.seats[index].thread.set(current());
    }

    /// Says that scheduler `index` looks for work.
    pub(crate) fn begin_spin(&self) {
        self.spinning.fetch_add(1, SeqCst);
    }

    pub(crate) fn end_spin(&self) {
        self.spinning.fetch_sub(1, SeqCst);
    }

    /// Says that scheduler `index` sleeps. It has to look for work once more before it does. What
    /// all being idle is called, if it is the last one.
    pub(crate) fn begin_sleep(&self, index: usize) -> Option<u64> {
        self.seats[index].sleeping.store(true, SeqCst);
        let idle = self.idle.fetch_add(1, SeqCst) + 1;
        fence(SeqCst);
        (idle & IDLE_COUNT == self.seats.len() as u64).then_some(idle)
    }

    /// Whether all have been idle since `begin_sleep` returned `idle`.
    pub(crate) fn are_idle_since(&self, idle: u64) -> bool {
        self.idle.load(SeqCst) == idle
    }

    /// Marks scheduler `index` as awake. True if another scheduler woke it.
    pub(crate) fn end_sleep(&self, index: usize) -> bool {
        self.idle.fetch_add(IDLE_EPOCH - 1, SeqCst);
        !self.seats[index].sleeping.swap(false, SeqCst)
    }

    /// Wakes scheduler `index` if it sleeps. The work it is woken for was written before a SeqCst
    /// fence.
    pub(crate) fn wake(&self, index: usize) -> bool {
        let seat = &self.seats[index];
        let asleep = seat.sleeping.load(Relaxed) && seat.sleeping.swap(false, SeqCst);
        if asleep && let Some(thread) = seat.thread.get() {
            thread.unpark();
        }
        asleep
    }

    /// Wakes one scheduler, the first that sleeps after `index`, unless one is looking for work.
    pub(crate) fn wake_one(&self, index: usize) {
        if self.spinning.load(Relaxed) > 0 {
            return;
        }
        let count = self.seats.len();
        for next in 0..count {
            if self.wake((index + next) % count) {
                return;
            }
        }
    }

    /// Whether a scheduler sleeps: a hint, cheap enough for every activation.
    pub(crate) fn any_idle(&self) -> bool {
        self.idle.load(Relaxed) & IDLE_COUNT > 0 && self.spinning.load(Relaxed) == 0
    }

    pub(crate) fn wake_all(&self) {
        fence(SeqCst);
        for index in 0..self.seats.len() {
            self.wake(index);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    /// Takes work like a scheduler until it has seen both pieces; `spins` before it sleeps.
    fn serve(seats: &Seats, work: &AtomicUsize, spins: bool) {
        let mut done = 0;
        while done < 2 {
            done += work.swap(0, SeqCst);
            if done == 2 {
                return;
            }
            if spins {
                seats.begin_spin();
                let found = work.load(Relaxed) > 0;
                seats.end_spin();
                if found {
                    continue;
                }
            }
            seats.begin_sleep(0);
            if work.load(Relaxed) == 0 {
                loom::thread::park();
            }
            seats.end_sleep(0);
        }
    }

    /// A wake-up that is lost is a deadlock, which loom reports.
    fn check(spins: bool) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let shared = Arc::new((Seats::new(1), AtomicUsize::new(0)));
            let server = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    shared.0.sit(0);
                    serve(&shared.0, &shared.1, spins);
                })
            };
            for _ in 0..2 {
                shared.1.fetch_add(1, Relaxed);
                fence(SeqCst);
                if spins {
                    shared.0.wake_one(0);
                } else {
                    shared.0.wake(0);
                }
            }
            server.join().unwrap();
        });
    }

    #[test]
    fn no_wake_up_is_lost() {
        check(false);
    }

    #[test]
    fn no_wake_up_of_a_spinning_scheduler_is_lost() {
        check(true);
    }
}
