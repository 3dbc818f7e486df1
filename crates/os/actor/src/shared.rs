//! What the schedulers of a system share: inboxes for the outside, stop and end.
//!
//! ## Why the end is the end
//!
//! Only a scheduler that is not idle, a handle or a timer makes work. The last scheduler to become
//! idle looks for all of it, in every inbox, queue and ring; if none ceased to be idle meanwhile
//! (see `seats`), what it saw was all there is.

use std::collections::HashMap;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_deque::Stealer;
use crossbeam_utils::CachePadded;

use crate::actor::{Actor, Address};
use crate::cell::{AnyCell, Cell, CellPtr};
use crate::pool::{Depot, Pool};
use crate::report::Cause;
use crate::ring::Ring;
use crate::seats::Seats;
use crate::sim::Envelope;

pub(crate) struct Shared {
    /// Distinct from that of every other system of this process.
    pub(crate) system: u32,
    /// Most messages per activation.
    pub(crate) limit: usize,
    pub(crate) placement: HashMap<String, usize>,
    pub(crate) depot: Arc<Depot>,
    /// One for each scheduler if actors have a home, else one.
    pub(crate) inboxes: Box<[CachePadded<Inbox>]>,
    pub(crate) seats: Seats,
    /// Whether a scheduler holds timers, as of when it became idle.
    timers: Box<[AtomicBool]>,
    /// The run queues of the stealing schedule.
    pub(crate) stealers: Box<[Stealer<CellPtr>]>,
    /// Whether others may take from them.
    pub(crate) shares: Box<[CachePadded<AtomicBool>]>,
    /// The rings of the pinned schedule.
    pub(crate) rings: Box<[Arc<Ring<Envelope>>]>,
    pub(crate) handles: AtomicUsize,
    stopping: AtomicBool,
    ended: AtomicBool,
    registry: Mutex<Vec<Arc<dyn AnyCell>>>,
    failure: Mutex<Option<(String, Cause)>>,
}

/// Where other threads put messages for a scheduler.
#[derive(Default)]
pub(crate) struct Inbox {
    entry: Mutex<Entry>,
    len: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct Entry {
    pub(crate) closed: bool,
    /// An envelope without a node: the message is in its mailbox, and the actor is to be run.
    pub(crate) envelopes: Vec<Envelope>,
}

impl Shared {
    pub(crate) fn new(
        limit: usize,
        placement: HashMap<String, usize>,
        (inboxes, seats): (usize, usize),
        stealers: Box<[Stealer<CellPtr>]>,
        rings: Box<[Arc<Ring<Envelope>>]>,
    ) -> Self {
        static SYSTEMS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        Self {
            system: SYSTEMS.fetch_add(1, Relaxed),
            limit,
            placement,
            depot: Arc::default(),
            inboxes: (0..inboxes).map(|_| CachePadded::default()).collect(),
            seats: Seats::new(seats),
            timers: (0..seats).map(|_| AtomicBool::new(false)).collect(),
            shares: (stealers
                .iter()
                .map(|_| CachePadded::new(AtomicBool::new(true))))
            .collect(),
            stealers,
            rings,
            handles: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            registry: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// Adds an actor, at home where the placement says, else on `home`.
    pub(crate) fn add<A: Actor>(
        &self,
        home: impl FnOnce(usize) -> usize,
        name: String,
        actor: A,
        pool: &mut Pool,
    ) -> Address<A::Message> {
        let mut registry = lock(&self.registry);
        let id = registry.len();
        let placed = self.placement.get(&name).copied();
        let home = placed.unwrap_or_else(|| home(id)) as u32;
        let id = u32::try_from(id).expect("fewer actors than 2^32");
        let cell = Cell::new(
            (self.system, home, id),
            name,
            Box::new(CachePadded::new(actor)),
            pool,
        );
        registry.push(Arc::clone(&cell) as Arc<dyn AnyCell>);
        Address { cell }
    }

    pub(crate) fn actor(&self, id: usize) -> Option<Arc<dyn AnyCell>> {
        lock(&self.registry).get(id).cloned()
    }

    /// Begins an orderly stop.
    pub(crate) fn stop(&self) {
        for inbox in &self.inboxes {
            lock(&inbox.entry).closed = true;
        }
        // After the inboxes: a scheduler that sees it knows that no more comes from outside.
        self.stopping.store(true, SeqCst);
        self.seats.wake_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Acquire)
    }

    /// Records why, if it is the first failure, and begins to stop.
    pub(crate) fn fail(&self, actor: &str, cause: Cause) {
        lock(&self.failure).get_or_insert_with(|| (actor.to_owned(), cause));
        self.stop();
    }

    pub(crate) fn take_failure(&self) -> Option<(String, Cause)> {
        lock(&self.failure).take()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Acquire)
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, SeqCst);
        self.seats.wake_all();
    }

    /// Runs `put` on inbox `index`, unless it is closed, and wakes a scheduler. `put` says whether
    /// there is something to wake for.
    pub(crate) fn put<T>(
        &self,
        index: usize,
        message: T,
        put: impl FnOnce(T, &mut Entry) -> bool,
    ) -> Result<(), T> {
        let inbox = &self.inboxes[index];
        {
            let mut entry = lock(&inbox.entry);
            if entry.closed {
                return Err(message);
            }
            if !put(message, &mut entry) {
                return Ok(());
            }
            inbox.len.store(entry.envelopes.len(), Release);
        }
        fence(SeqCst);
        if self.inboxes.len() > 1 {
            self.seats.wake(index);
        } else {
            self.seats.wake_one(0);
        }
        Ok(())
    }

    /// Exchanges inbox `index` with `empty`. True if there is something in it now.
    pub(crate) fn empty_inbox(&self, index: usize, empty: &mut Vec<Envelope>) -> bool {
        let inbox = &self.inboxes[index];
        if inbox.len.load(Acquire) == 0 {
            return false;
        }
        let mut entry = lock(&inbox.entry);
        std::mem::swap(&mut entry.envelopes, empty);
        inbox.len.store(0, SeqCst);
        !empty.is_empty()
    }

    pub(crate) fn inbox_is_empty(&self, index: usize) -> bool {
        self.inboxes[index].len.load(SeqCst) == 0
    }

    /// Says that scheduler `index` sleeps. It has to look for work once more before it does. True
    /// if the run ends with this: all are idle and nothing is left to do.
    pub(crate) fn begin_sleep(&self, index: usize, timers: bool) -> bool {
        self.timers[index].store(timers, SeqCst);
        let all = self.seats.begin_sleep(index);
        all.is_some_and(|idle| self.is_quiescent() && self.seats.are_idle_since(idle))
    }

    fn is_quiescent(&self) -> bool {
        (self.handles.load(SeqCst) == 0 || self.stopping.load(SeqCst))
            && self.timers.iter().all(|timers| !timers.load(SeqCst))
            && (0..self.inboxes.len()).all(|index| self.inbox_is_empty(index))
            && self.stealers.iter().all(Stealer::is_empty)
            && self.rings.iter().all(|ring| ring.is_empty())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No user code runs under these locks, so none is ever poisoned.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
