//! The loop that runs actors, on one thread, and the three ways to queue what is runnable.
//!
//! ```text
//!  pass:  inbox, rings, timers ─► run queue ─► at most 32 activations ─► publish rings ─► again, or wait
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;

use crate::actor::{Actor, Address};
use crate::cell::{Cell, CellPtr};
use crate::pool::Pool;
use crate::report::SchedulerReport;
use crate::ring::{Consumer, Producer};
use crate::shared::Shared;
use crate::sharing::{ACTIVATIONS_PER_PASS, Pass, Sharing};
use crate::sim::{Envelope, Step, World};
use crate::waker::Waker;

/// Slots of a ring between two cores: 16 KiB, a pass of 32 full activations.
pub(crate) const RING_SLOTS: usize = 1_024;
/// How often an idle scheduler looks for work before it sleeps, and pause instructions in between:
/// 30 to 60 µs together, about what it takes to sleep and be woken.
const SPIN_ROUNDS: usize = 32;
const SPIN_PAUSES: usize = 32;
/// Longest sleep. No wake-up is lost; this bounds what a defect can cost.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Longest sleep beside one that shares nothing: what its long activation, or the loss of its CPU,
/// can cost the others that it has.
const STALL_MAX: Duration = Duration::from_millis(10);
/// The sender's id of messages from outside.
const OUTSIDE: u32 = u32::MAX;

pub(crate) struct Scheduler {
    index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: Pool,
    queue: Queue,
    timers: BinaryHeap<Timer>,
    timer_count: u64,
    /// The actor that runs.
    pub(crate) current: u32,
    pub(crate) report: SchedulerReport,
    pub(crate) traffic: Option<HashMap<(u32, u32), u64>>,
    received: Vec<Envelope>,
    started: Instant,
    /// When the last pass was weighed, and how many messages had been handled.
    weighed: (Duration, u64),
}

/// Where runnable actors wait, and how a message gets to its mailbox.
pub(crate) enum Queue {
    /// Every actor has a home, whose thread alone touches its mailbox.
    Pinned {
        ready: VecDeque<CellPtr>,
        /// To each other scheduler; nothing at the own index.
        outgoing: Vec<Option<Outgoing<Envelope>>>,
        incoming: Vec<Consumer<Envelope>>,
    },
    /// Whoever has nothing to do steals from those that share, in the order of `victims`.
    Stealing {
        ready: Worker<CellPtr>,
        /// What became runnable last and runs next, if messages are to gather.
        next: Option<CellPtr>,
        sharing: Sharing,
        victims: Vec<usize>,
    },
    Simulated(World),
}

/// The way to another scheduler: a ring, and what did not fit in it yet.
pub(crate) struct Outgoing<T> {
    ring: Producer<T>,
    waiting: VecDeque<T>,
}

/// The least of them is the greatest in a heap, so that it comes first: the earliest, and among
/// those the one that was set first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    /// Its deadline, and how many were set before it.
    order: Reverse<(Duration, u64)>,
    envelope: Envelope,
}

impl<T: Copy> Outgoing<T> {
    pub(crate) fn new(ring: Producer<T>) -> Self {
        Self {
            ring,
            waiting: VecDeque::new(),
        }
    }

    fn push(&mut self, value: T) {
        if !self.waiting.is_empty() || self.ring.push(value).is_err() {
            self.waiting.push_back(value);
        }
    }

    /// True if the other scheduler has something new to see.
    fn publish(&mut self) -> bool {
        while let Some(&value) = self.waiting.front()
            && self.ring.push(value).is_ok()
        {
            self.waiting.pop_front();
        }
        self.ring.publish()
    }
}

// What an actor asks for while it runs.
impl Scheduler {
    #[inline]
    pub(crate) fn send<M: Send + 'static>(&mut self, to: &Cell<M>, message: M) {
        assert!(to.header.system == self.shared.system, "another system's");
        let node = self.pool.fill(message);
        if let Some(traffic) = &mut self.traffic {
            *traffic.entry((self.current, to.header.id)).or_default() += 1;
        }
        let to = CellPtr::new(to);
        // SAFETY: the node holds an `M`, in no mailbox yet; the cell is of this system.
        unsafe { self.deliver(Envelope { to, node }) };
    }

    pub(crate) fn send_after<M: Send + 'static>(
        &mut self,
        delay: Duration,
        to: &Cell<M>,
        message: M,
    ) {
        assert!(to.header.system == self.shared.system, "another system's");
        if self.shared.is_stopping() {
            return;
        }
        self.timer_count += 1;
        self.timers.push(Timer {
            order: Reverse((self.now().saturating_add(delay), self.timer_count)),
            envelope: Envelope {
                to: CellPtr::new(to),
                node: self.pool.fill(message),
            },
        });
    }

    pub(crate) fn spawn<A: Actor>(&mut self, name: String, actor: A) -> Address<A::Message> {
        let home = self.index;
        self.shared.add(|_| home, name, actor, &mut self.pool)
    }

    pub(crate) fn now(&self) -> Duration {
        match &self.queue {
            Queue::Simulated(world) => world.now(),
            _ => self.started.elapsed(),
        }
    }

    /// Most messages of the activation that begins.
    pub(crate) fn limit(&mut self) -> usize {
        match &mut self.queue {
            Queue::Simulated(world) => world.limit(self.shared.limit),
            _ => self.shared.limit,
        }
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.shared), self.index)
    }

    /// Whether other threads send to mailboxes directly.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.queue, Queue::Stealing { .. })
    }
}

// The loop.
impl Scheduler {
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        queue: Queue,
        count_traffic: bool,
    ) -> Self {
        Self {
            index,
            pool: Pool::new(Arc::clone(&shared.depot)),
            shared,
            queue,
            timers: BinaryHeap::new(),
            timer_count: 0,
            current: OUTSIDE,
            report: SchedulerReport::default(),
            traffic: count_traffic.then(HashMap::new),
            received: Vec::new(),
            started: instant(),
            weighed: (Duration::ZERO, 0),
        }
    }

    /// Takes its seat: the thread that runs it is this one.
    pub(crate) fn sit(&mut self) {
        self.shared.seats.sit(self.index);
        self.started = instant();
    }

    /// Runs actors until the run ends. It has taken its seat.
    pub(crate) fn run(&mut self) {
        if matches!(self.queue, Queue::Simulated(_)) {
            self.simulate();
        }
        while !self.shared.is_ended() {
            self.receive();
            let ran = self.run_pass();
            self.weigh(ran);
            let all_sent = self.publish();
            if ran == 0 {
                self.wait(all_sent, || false);
            }
        }
        self.report.total = self.now();
    }

    /// Runs one actor, if one is runnable, and wakes others for what it sent. For a stealing
    /// scheduler whose thread has other duties.
    pub(crate) fn step(&mut self) -> bool {
        self.receive();
        let Some(cell) = self.next_ready() else {
            return false;
        };
        self.activate(cell);
        // This thread may be long in coming back.
        if let Queue::Stealing { ready, .. } = &self.queue
            && !ready.is_empty()
        {
            // Here nothing looks again, so that no scheduler that falls asleep may be missed.
            fence(SeqCst);
            if self.shared.seats.any_idle() {
                self.shared.seats.wake_one(self.index + 1);
            }
        }
        true
    }

    /// Runs actors until no message is left. For a scheduler that is alone.
    pub(crate) fn drain(&mut self) {
        while let Some(cell) = self.next_ready() {
            self.activate(cell);
        }
    }

    /// Puts a message where its receiver finds it, and makes that runnable.
    ///
    /// # Safety
    /// The envelope's cell is of this system, its node holds a message of the cell's type, and is
    /// in no mailbox.
    #[inline]
    unsafe fn deliver(&mut self, envelope: Envelope) {
        let Envelope { to, node } = envelope;
        // SAFETY: the registry holds the cell while the system runs.
        let header = unsafe { to.header() };
        match &mut self.queue {
            Queue::Pinned { outgoing, .. } => {
                // A single scheduler is the home of every actor.
                if let Some(Some(way)) = outgoing.get_mut(header.home as usize) {
                    self.report.remote_sends += 1;
                    return way.push(envelope);
                }
            }
            Queue::Simulated(world) => return world.send(self.current, header.id, envelope),
            Queue::Stealing { .. } => {}
        }
        // SAFETY: the node is given away. Where mailboxes are not shared, this thread is the
        // receiver's home or the only one.
        let idle = unsafe {
            if self.is_shared() {
                header.mailbox.push_shared(node)
            } else {
                header.mailbox.push_local(node)
            }
        };
        if idle {
            self.make_ready(to);
        }
    }

    #[inline]
    fn make_ready(&mut self, cell: CellPtr) {
        match &mut self.queue {
            Queue::Pinned { ready, .. } => ready.push_back(cell),
            Queue::Stealing {
                ready,
                next,
                sharing,
                ..
            } => {
                let first = if sharing.gathers() {
                    next.replace(cell)
                } else {
                    Some(cell)
                };
                if let Some(cell) = first {
                    ready.push(cell);
                }
            }
            Queue::Simulated(world) => world.make_ready(cell),
        }
    }

    /// Takes in what came from outside and from other cores, and timers that are due.
    fn receive(&mut self) {
        self.receive_inbox();
        if let Queue::Pinned {
            ready, incoming, ..
        } = &mut self.queue
        {
            for ring in incoming {
                while let Some(Envelope { to, node }) = ring.pop() {
                    // SAFETY: sent here because this is its home; else as in `deliver`.
                    if unsafe { to.header().mailbox.push_local(node) } {
                        ready.push_back(to);
                    }
                }
                ring.release();
            }
        }
        if !self.timers.is_empty() {
            self.fire_timers();
        }
    }

    fn receive_inbox(&mut self) {
        let index = self.index.min(self.shared.inboxes.len() - 1);
        let mut received = std::mem::take(&mut self.received);
        if self.shared.empty_inbox(index, &mut received) {
            self.current = OUTSIDE;
            for envelope in received.drain(..) {
                match &self.queue {
                    Queue::Stealing { ready, .. } => ready.push(envelope.to),
                    // SAFETY: a handle checked the system, and filled the node.
                    _ => unsafe { self.deliver(envelope) },
                }
            }
        }
        self.received = received;
    }

    #[cold]
    fn fire_timers(&mut self) {
        if self.shared.is_stopping() {
            return self.discard_timers();
        }
        let now = self.now();
        self.current = OUTSIDE;
        while let Some(timer) = self.timers.peek()
            && timer.order.0.0 <= now
        {
            let envelope = timer.envelope;
            self.timers.pop();
            // SAFETY: `send_after` checked the system, and filled the node.
            unsafe { self.deliver(envelope) };
        }
    }

    fn discard_timers(&mut self) {
        for timer in self.timers.drain() {
            let Envelope { to, node } = timer.envelope;
            // SAFETY: the registry holds the cell; the message was not delivered.
            unsafe { to.discard(node, &mut self.pool) };
        }
    }

    /// Runs actors; how many.
    fn run_pass(&mut self) -> usize {
        let waiting = match &mut self.queue {
            Queue::Pinned { ready, .. } => ready.len(),
            Queue::Stealing { ready, next, .. } => {
                // Nothing runs before others for longer than a pass.
                if let Some(cell) = next.take() {
                    ready.push(cell);
                }
                ready.len()
            }
            Queue::Simulated(world) => world.ready_len(),
        };
        self.report.queue_max = self.report.queue_max.max(waiting);
        for ran in 0..ACTIVATIONS_PER_PASS {
            let Some(cell) = self.next_ready() else {
                return ran;
            };
            self.activate(cell);
        }
        ACTIVATIONS_PER_PASS
    }

    /// Decides how the next pass is run, after one that ran this many actors.
    fn weigh(&mut self, ran: usize) {
        let Queue::Stealing { ready, sharing, .. } = &mut self.queue else {
            return;
        };
        let (now, messages) = (self.started.elapsed(), self.report.messages);
        let (then, messages_then) = std::mem::replace(&mut self.weighed, (now, messages));
        sharing.weigh(&Pass {
            activations: ran as u32,
            messages: messages - messages_then,
            waiting: ready.len() as u32,
            took: now - then,
        });
        self.shared.shares[self.index].store(sharing.is_on(), Relaxed);
    }

    #[inline]
    fn next_ready(&mut self) -> Option<CellPtr> {
        match &mut self.queue {
            Queue::Pinned { ready, .. } => ready.pop_front(),
            Queue::Stealing {
                ready,
                next,
                sharing,
                victims,
            } => {
                let Some(cell) = next.take().or_else(|| ready.pop()) else {
                    let stolen = steal(&self.shared, ready, victims);
                    self.report.steals += u64::from(stolen.is_some());
                    return stolen;
                };
                // What waits here while this one runs could run elsewhere. Without a fence this may
                // miss a scheduler that is just falling asleep; the next activation looks again.
                if sharing.is_on() && self.shared.seats.any_idle() && !ready.is_empty() {
                    self.shared.seats.wake_one(self.index + 1);
                }
                Some(cell)
            }
            Queue::Simulated(_) => None,
        }
    }

    #[inline]
    fn activate(&mut self, cell: CellPtr) {
        self.report.activations += 1;
        // SAFETY: taken from the run queue; the registry holds the cell.
        if unsafe { cell.activate(self) } {
            match &mut self.queue {
                // It has had its turn.
                Queue::Stealing { ready, .. } => ready.push(cell),
                _ => self.make_ready(cell),
            }
        }
    }

    /// Lets other cores see what was sent to them. True if nothing is left to send.
    fn publish(&mut self) -> bool {
        let Queue::Pinned { outgoing, .. } = &mut self.queue else {
            return true;
        };
        let mut all = true;
        for (index, way) in outgoing.iter_mut().enumerate() {
            let Some(way) = way else { continue };
            if way.publish() {
                fence(SeqCst);
                self.shared.seats.wake(index);
            }
            all &= way.waiting.is_empty();
        }
        all
    }

    /// Looks for work for a while, then sleeps until there is some, a timer is due or, woken,
    /// `has_come` says so, unless something is left to send. Ends the run if no scheduler has
    /// anything left to do.
    pub(crate) fn wait(&mut self, all_sent: bool, mut has_come: impl FnMut() -> bool) {
        let began = self.now();
        self.shared.seats.begin_spin();
        let found = (0..SPIN_ROUNDS).any(|_| {
            (0..SPIN_PAUSES).for_each(|_| std::hint::spin_loop());
            has_come() || self.sees_work()
        });
        self.shared.seats.end_spin();
        if found && self.is_shared() {
            // While we looked no one was woken, and there may be more than we can take.
            self.shared.seats.wake_one(self.index + 1);
        }
        if !found && !all_sent {
            // A ring is full, so its reader is awake, or waits for the CPU that we burn.
            thread::yield_now();
        } else if !found {
            let ends = self.shared.begin_sleep(self.index, !self.timers.is_empty());
            if ends {
                self.shared.end();
            }
            let until_timer = self.timers.peek().map_or(SLEEP_MAX, |timer| {
                timer.order.0.0.saturating_sub(self.now())
            });
            if !has_come() && !self.sees_work() && !until_timer.is_zero() {
                self.report.parks += 1;
                thread::park_timeout(until_timer.min(self.ask_to_share()));
            }
            self.report.wakes += u64::from(self.shared.seats.end_sleep(self.index));
        }
        let now = self.now();
        self.report.idle += now - began;
        self.weighed = (now, self.report.messages);
    }

    /// How long to sleep at most. A scheduler that shares nothing confirms it after each pass: one
    /// that has not done so by the end of the sleep is kept from it, and is stolen from.
    fn ask_to_share(&self) -> Duration {
        let mut sleep = SLEEP_MAX;
        for shares in &self.shared.shares {
            if !shares.load(Relaxed) {
                shares.store(true, Relaxed);
                sleep = STALL_MAX;
            }
        }
        sleep
    }

    /// Whether there is something to do but timers.
    fn sees_work(&self) -> bool {
        let shared = &self.shared;
        if shared.is_ended() || (shared.is_stopping() && !self.timers.is_empty()) {
            return true;
        }
        match &self.queue {
            Queue::Stealing { .. } => {
                let stealable = |(stealer, shares): (&Stealer<_>, &CachePadded<AtomicBool>)| {
                    shares.load(Relaxed) && !stealer.is_empty()
                };
                !shared.inbox_is_empty(0)
                    || shared.stealers.iter().zip(&shared.shares).any(stealable)
            }
            Queue::Pinned { incoming, .. } => {
                !shared.inbox_is_empty(self.index) || incoming.iter().any(|ring| !ring.is_empty())
            }
            Queue::Simulated(_) => false,
        }
    }

    /// The whole run, on this thread, as the seed says.
    fn simulate(&mut self) {
        loop {
            self.receive_inbox();
            if !self.timers.is_empty() {
                self.fire_timers();
            }
            let Queue::Simulated(world) = &mut self.queue else {
                unreachable!("only a simulated scheduler simulates")
            };
            match world.step() {
                Step::Run(cell) => self.activate(cell),
                Step::Deliver(Envelope { to, node }) => {
                    // SAFETY: `send` checked the system; there is one thread.
                    if unsafe { to.header().mailbox.push_local(node) } {
                        world.make_ready(to);
                    }
                    self.report.queue_max = self.report.queue_max.max(world.ready_len());
                }
                Step::Idle => match self.timers.peek() {
                    Some(timer) => world.advance_to(timer.order.0.0),
                    // After the inbox has closed, one more look shows all that it will ever hold.
                    None if !self.shared.is_stopping() => self.shared.stop(),
                    None if self.shared.inbox_is_empty(0) => break,
                    None => {}
                },
            }
        }
        self.shared.end();
    }
}

/// The clock, which actors' time comes from.
#[expect(
    clippy::disallowed_methods,
    reason = "engines are given what this says"
)]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Takes half of what another scheduler has waiting and shares.
fn steal(shared: &Shared, ready: &Worker<CellPtr>, victims: &[usize]) -> Option<CellPtr> {
    for &victim in victims {
        if !shared.shares[victim].load(Relaxed) {
            continue;
        }
        loop {
            match shared.stealers[victim].steal_batch_and_pop(ready) {
                Steal::Success(cell) => return Some(cell),
                Steal::Empty => break,
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ring::ring;

    #[test]
    fn messages_that_wait_for_a_full_ring_keep_their_order() {
        let (producer, mut consumer) = ring(2);
        let mut outgoing = Outgoing::new(producer);
        (1..=3).for_each(|value| outgoing.push(value));
        assert!(outgoing.publish());
        assert_eq!((consumer.pop(), consumer.pop()), (Some(1), Some(2)));
        consumer.release();
        // There is room now, but 3 comes first.
        outgoing.push(4);
        assert!(outgoing.publish());
        assert_eq!((consumer.pop(), consumer.pop()), (Some(3), Some(4)));
        assert!(outgoing.waiting.is_empty());
    }

    struct Idle;

    impl Actor for Idle {
        type Message = ();

        fn on_message(&mut self, (): (), _: &mut crate::Context<'_, ()>) -> crate::Outcome {
            Ok(())
        }
    }

    /// Two schedulers, the first with two actors to run.
    fn owner_and_thief() -> (Scheduler, Scheduler) {
        let workers = [Worker::new_fifo(), Worker::new_fifo()];
        let stealers = workers.iter().map(Worker::stealer).collect();
        let shared = Shared::new(32, HashMap::new(), (1, 2), stealers, Box::new([]));
        let shared = Arc::new(shared);
        let mut schedulers = workers.into_iter().enumerate().map(|(index, ready)| {
            let queue = Queue::Stealing {
                ready,
                next: None,
                sharing: Sharing::new(),
                victims: vec![1 - index],
            };
            Scheduler::new(index, Arc::clone(&shared), queue, false)
        });
        let (mut owner, thief) = (schedulers.next().unwrap(), schedulers.next().unwrap());
        for name in ["a", "b"] {
            let idle = owner.spawn(name.to_owned(), Idle);
            owner.send(&idle.cell, ());
        }
        (owner, thief)
    }

    #[test]
    fn unshared_actors_are_neither_seen_nor_stolen() {
        let (mut owner, mut thief) = owner_and_thief();
        owner.shared.shares[0].store(false, Relaxed);
        assert!(!thief.sees_work());
        assert!(!thief.step());
        owner.shared.shares[0].store(true, Relaxed);
        assert!(thief.sees_work());
        assert!(thief.step(), "it steals and runs one");
        owner.drain();
        assert_eq!((owner.report.messages, thief.report.messages), (1, 1));
    }

    #[test]
    fn a_stalled_scheduler_is_stolen_from_after_one_sleep() {
        let (owner, mut thief) = owner_and_thief();
        owner.shared.handles.fetch_add(1, SeqCst);
        // It was light so far; what it runs now takes for ever.
        owner.shared.shares[0].store(false, Relaxed);
        thief.sit();
        thief.wait(true, || false);
        assert_eq!(thief.report.parks, 1);
        assert!(thief.report.idle < SLEEP_MAX);
        assert_eq!(thief.run_pass(), 2);
    }

    #[test]
    fn a_scheduler_that_shares_nothing_confirms_it_each_pass() {
        let (mut owner, thief) = owner_and_thief();
        let Queue::Stealing { sharing, .. } = &mut owner.queue else {
            unreachable!("it steals")
        };
        *sharing = Sharing::off();
        owner.shared.shares[0].store(false, Relaxed);
        assert_eq!(thief.ask_to_share(), STALL_MAX);
        assert!(thief.sees_work());
        owner.weigh(ACTIVATIONS_PER_PASS);
        assert!(!thief.sees_work());
    }
}
