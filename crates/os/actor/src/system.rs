//! A system of actors from its configuration to its report.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crossbeam_deque::Worker;

use crate::actor::{Actor, Address};
use crate::cell::{AnyCell, CellPtr};
use crate::pool::Pool;
use crate::report::{Cause, Report, RunError, Traffic};
use crate::ring::ring;
use crate::scheduler::{Outgoing, Queue, RING_SLOTS, Scheduler, instant};
use crate::shared::Shared;
use crate::sharing::Sharing;
use crate::sim::{Envelope, World};
use crate::topology::{Cpu, Topology, bind};
use crate::waker::Waker;

/// Messages per activation unless the configuration says otherwise. 16 reach 90 to 96 % of the rate
/// of 100 (docs/decisions/0009-actors.md); twice that is still a burst that fits in a cache.
pub const MESSAGES_PER_ACTIVATION_MAX: usize = 32;
/// Most schedulers: more than any machine at hand has, few enough for a ring between each pair.
pub const SCHEDULERS_MAX: usize = 256;

/// How a system runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// How actors are assigned to schedulers.
    pub schedule: Schedule,
    /// Messages that an actor handles before another one has its turn; at least 1.
    pub messages_per_activation_max: usize,
    /// The home scheduler of actors by their names, under the pinned schedule. An actor that is not
    /// named lives with its creator; those made before the run take turns.
    pub placement: HashMap<String, usize>,
    /// Count messages between each pair of actors, for [`crate::place`]. Costs a look in a hash map
    /// per message.
    pub count_traffic: bool,
}

/// How actors are assigned to schedulers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// One scheduler on each of these CPUs. Every actor has a home among them and stays there.
    /// Fastest where actors are placed well and nothing else wants those CPUs.
    Pinned {
        /// CPU numbers, as `taskset` takes them.
        cpus: Vec<usize>,
    },
    /// Schedulers that take runnable actors from each other. Balances load, also beside other
    /// programs.
    Stealing {
        /// How many.
        schedulers: usize,
        /// Where they may run.
        pin: Pin,
    },
    /// One thread, virtual time, and a seed that decides every interleaving: the same seed repeats
    /// the same run. Messages that a [`Handle`] sends before the run arrive in an order of the
    /// seed's choice; the run does not wait for handles.
    Simulated {
        /// Any number.
        seed: u64,
    },
}

/// Where a stealing scheduler may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pin {
    /// Wherever the kernel puts it.
    #[default]
    Anywhere,
    /// On the CPUs of one package: the nth scheduler on that of the nth CPU. Steals within the
    /// package's nodes first.
    Package,
    /// On one CPU of its own. Steals within its NUMA node first.
    Core,
}

/// A configuration that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No schedulers were asked for, or more than [`SCHEDULERS_MAX`].
    #[error("{0} schedulers asked for; at least 1 and at most {SCHEDULERS_MAX} can run")]
    Schedulers(usize),
    /// More schedulers with a CPU of their own than there are CPUs.
    #[error("{asked} schedulers asked for, but this process may use {cpus} CPUs")]
    TooFewCpus {
        /// Schedulers.
        asked: usize,
        /// CPUs in the process's affinity.
        cpus: usize,
    },
    /// A CPU that this process may not use, or that does not exist.
    #[error("cpu {cpu} is not among those this process may use: {allowed:?}")]
    Cpu {
        /// The one asked for.
        cpu: usize,
        /// The process's affinity.
        allowed: Vec<usize>,
    },
    /// An actor is placed on a scheduler that does not exist.
    #[error("actor '{actor}' is placed on scheduler {scheduler}, but they end at {}", .schedulers - 1)]
    Placement {
        /// The name in the placement.
        actor: String,
        /// Where it is to live.
        scheduler: usize,
        /// How many there are.
        schedulers: usize,
    },
    /// An activation of no message.
    #[error("an activation handles at least 1 message")]
    NoMessages,
    /// The kernel does not say which CPUs there are.
    #[error("cannot read the CPUs of this process: {0}")]
    Topology(#[from] io::Error),
}

impl Config {
    /// This schedule, and otherwise what is usual.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            messages_per_activation_max: MESSAGES_PER_ACTIVATION_MAX,
            placement: HashMap::new(),
            count_traffic: false,
        }
    }
}

impl Schedule {
    /// Pinned to the first CPUs that this process may use, this many.
    pub fn pinned(schedulers: usize) -> Result<Self, ConfigError> {
        let topology = Topology::read()?;
        enough(schedulers, &topology)?;
        let cpus = topology.cpus.iter().take(schedulers);
        Ok(Self::Pinned {
            cpus: cpus.map(|cpu| cpu.number).collect(),
        })
    }

    /// Stealing, wherever the kernel puts the schedulers.
    pub fn stealing(schedulers: usize) -> Self {
        Self::Stealing {
            schedulers,
            pin: Pin::Anywhere,
        }
    }
}

/// Actors and the schedulers that will run them.
pub struct System {
    shared: Arc<Shared>,
    schedulers: Vec<Scheduler>,
    /// Of actors that are created before the run; `None` once it began.
    pool: Option<Pool>,
    /// For each scheduler, the CPUs it is bound to; none: wherever.
    cpus: Vec<Vec<usize>>,
    /// Where the scheduler of a [`Guest`] comes back.
    guest: Option<Receiver<Scheduler>>,
}

impl System {
    /// A system without actors. Reserves what it can; starts nothing.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        if config.messages_per_activation_max == 0 {
            return Err(ConfigError::NoMessages);
        }
        let count = match &config.schedule {
            Schedule::Pinned { cpus } => cpus.len(),
            Schedule::Stealing { schedulers, .. } => *schedulers,
            Schedule::Simulated { .. } => 1,
        };
        if !(1..=SCHEDULERS_MAX).contains(&count) {
            return Err(ConfigError::Schedulers(count));
        }
        let places = places(&config.schedule)?;
        let pinned = matches!(config.schedule, Schedule::Pinned { .. });
        let misplaced = config.placement.iter().find(|&(_, &home)| home >= count);
        if let Some((actor, &scheduler)) = misplaced.filter(|_| pinned) {
            return Err(ConfigError::Placement {
                actor: actor.clone(),
                scheduler,
                schedulers: count,
            });
        }
        let (queues, stealers, rings) = match config.schedule {
            Schedule::Pinned { .. } => {
                let (queues, rings) = pinned_queues(count);
                (queues, Vec::new(), rings)
            }
            Schedule::Stealing { .. } => {
                let workers: Vec<_> = (0..count).map(|_| Worker::new_fifo()).collect();
                let stealers = workers.iter().map(Worker::stealer).collect();
                let queues = workers.into_iter().enumerate().map(|(index, ready)| {
                    let victims = victims(index, &places);
                    Queue::Stealing {
                        ready,
                        next: None,
                        sharing: Sharing::new(),
                        victims,
                    }
                });
                (queues.collect(), stealers, Vec::new())
            }
            Schedule::Simulated { seed } => {
                let queues = vec![Queue::Simulated(World::new(seed))];
                (queues, Vec::new(), Vec::new())
            }
        };
        let shared = Arc::new(Shared::new(
            config.messages_per_activation_max,
            config.placement,
            (if pinned { count } else { 1 }, count),
            stealers.into(),
            rings.into(),
        ));
        let schedulers = queues.into_iter().enumerate().map(|(index, queue)| {
            Scheduler::new(index, Arc::clone(&shared), queue, config.count_traffic)
        });
        Ok(Self {
            schedulers: schedulers.collect(),
            pool: Some(Pool::new(Arc::clone(&shared.depot))),
            shared,
            cpus: places.into_iter().map(|place| place.cpus).collect(),
            guest: None,
        })
    }

    /// Creates an actor. Its home is where the placement puts its name, else actors take turns.
    pub fn spawn<A: Actor>(&mut self, name: impl Into<String>, actor: A) -> Address<A::Message> {
        let count = self.cpus.len();
        let pool = self.pool.as_mut().expect("the run has not begun");
        self.shared.add(|id| id % count, name.into(), actor, pool)
    }

    /// A way in for other threads, and for the first messages. The run does not end while one
    /// exists, unless an actor or a handle stops it.
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Takes the last scheduler of a stealing schedule that is not bound to CPUs, for a thread that
    /// has other duties, too: [`run`](Self::run) then starts one thread less. `None` under other
    /// schedules.
    pub fn guest(&mut self) -> Option<Guest> {
        let is_stealing = !self.shared.stealers.is_empty();
        if !is_stealing || self.cpus.last().is_none_or(|cpus| !cpus.is_empty()) {
            return None;
        }
        let mut scheduler = self.schedulers.pop()?;
        scheduler.sit();
        let (home, guest) = channel();
        self.guest = Some(guest);
        Some(Guest {
            scheduler: Some(scheduler),
            home,
        })
    }

    /// Runs until no message, timer or handle is left, or the run is stopped; then lets every actor
    /// stop. Starts a thread for each scheduler; a simulated run happens on the calling thread.
    pub fn run(mut self) -> Result<Report, RunError> {
        let started = instant();
        self.pool = None;
        let mut schedulers = self.run_schedulers();
        // A guest gives its scheduler back when it is dropped.
        schedulers.extend(self.guest.iter().flat_map(|guest| guest.recv()));
        self.shared.stop();
        // From here on this is the only thread that runs actors.
        let queue = pinned_queues(1).0.remove(0);
        let mut alone = Scheduler::new(0, Arc::clone(&self.shared), queue, false);
        let (mut known, mut to_stop) = (0, Vec::new());
        loop {
            // Those that stopping actors create, too.
            let created: Vec<_> = self.actors().skip(known).collect();
            known += created.len();
            to_stop.extend(created);
            let Some(cell) = to_stop.pop() else { break };
            // SAFETY: the schedulers have ended; the one we use is alone.
            unsafe { cell.stop(&mut alone) };
            alone.drain();
        }
        let mut report = Report {
            wall: started.elapsed(),
            nodes: self.shared.depot.nodes(),
            ..Report::default()
        };
        // SAFETY: the schedulers have ended.
        report.actors = self.actors().map(|cell| unsafe { cell.report() }).collect();
        self.clear(&mut alone.pool);
        report.stop_messages = alone.report.messages;
        let mut traffic = BTreeMap::new();
        for scheduler in schedulers {
            report.schedulers.push(scheduler.report);
            for ((from, to), messages) in scheduler.traffic.into_iter().flatten() {
                let pair = (from as usize, to as usize);
                *traffic.entry(pair).or_default() += messages;
            }
        }
        let pairs = traffic.into_iter();
        let pairs = pairs.map(|((from, to), messages)| Traffic { from, to, messages });
        report.traffic = pairs.collect();
        match self.shared.take_failure() {
            None => Ok(report),
            Some((actor, cause)) => Err(RunError {
                actor,
                cause,
                report: Box::new(report),
            }),
        }
    }

    fn run_schedulers(&mut self) -> Vec<Scheduler> {
        let mut schedulers = std::mem::take(&mut self.schedulers);
        if self.shared.stealers.is_empty() && self.cpus[0].is_empty() {
            schedulers[0].sit();
            schedulers[0].run();
            return schedulers;
        }
        let cpus = self.cpus.clone();
        let threads = schedulers.into_iter().zip(cpus).enumerate();
        let threads: Vec<_> = threads
            .map(|(index, (mut scheduler, cpus))| {
                let body = move || {
                    if !cpus.is_empty()
                        && let Err(error) = bind(&cpus)
                    {
                        let cause = Cause::Error(Box::new(error));
                        scheduler.shared.fail(&format!("scheduler {index}"), cause);
                    }
                    scheduler.sit();
                    scheduler.run();
                    scheduler
                };
                let thread = thread::Builder::new().name(format!("actors-{index}"));
                thread.spawn(body).map_err(|error| {
                    let cause = Cause::Error(Box::new(error));
                    self.shared.fail(&format!("scheduler {index}"), cause);
                    self.shared.end();
                })
            })
            .collect();
        let ended = threads.into_iter().flatten().map(|thread| {
            // Handlers' panics are caught, so this one is the runtime's own.
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect()
    }

    /// All actors, also those that are created meanwhile.
    fn actors(&self) -> impl Iterator<Item = Arc<dyn AnyCell>> {
        (0..).map_while(|id| self.shared.actor(id))
    }

    /// Drops behaviours and messages, since they hold addresses, and so each other.
    fn clear(&self, pool: &mut Pool) {
        for index in 0..self.shared.inboxes.len() {
            let mut envelopes = Vec::new();
            self.shared.empty_inbox(index, &mut envelopes);
            for Envelope { to, node } in envelopes.into_iter().filter(|e| !e.node.is_null()) {
                // SAFETY: the registry holds the cell; the message was not delivered.
                unsafe { to.discard(node, pool) };
            }
        }
        for cell in self.actors() {
            // SAFETY: no scheduler runs, and none will.
            unsafe { cell.clear(pool) };
        }
    }
}

/// A scheduler of a running system on a thread that has other duties, which is what brings work in:
/// it lends a hand where it would wait for the actors, so that no core has two threads or none.
///
/// Dropped, it runs actors until the run ends, or its system is gone. A [`Handle`] of the same
/// thread has to be dropped before.
pub struct Guest {
    /// Until it is dropped.
    scheduler: Option<Scheduler>,
    home: Sender<Scheduler>,
}

impl Guest {
    /// Runs an actor for one activation. False if none is runnable.
    pub fn work(&mut self) -> bool {
        self.scheduler.as_mut().is_some_and(Scheduler::step)
    }

    /// Waits until there is work, or the [`Waker`] was used and `has_come` says that there is what
    /// it was used for. May return earlier.
    pub fn wait(&mut self, has_come: impl FnMut() -> bool) {
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.wait(true, has_come);
        }
    }

    /// Whether the run has ended: then nothing works any more.
    pub fn has_ended(&self) -> bool {
        let scheduler = self.scheduler.as_ref();
        scheduler.is_none_or(|scheduler| scheduler.shared.is_ended())
    }

    /// What wakes it.
    pub fn waker(&self) -> Option<Waker> {
        self.scheduler.as_ref().map(Scheduler::waker)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(mut scheduler) = self.scheduler.take() {
            scheduler.run();
            // The system waits for it, or was dropped before it ran.
            let _ = self.home.send(scheduler);
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.shared.stop();
        // For the guest of a system that never ran.
        self.shared.end();
        // A system that ran was cleared.
        if let Some(mut pool) = self.pool.take() {
            self.clear(&mut pool);
        }
    }
}

/// The way into a running system for threads that are no schedulers: one that reads a port, one
/// that catches signals. Each clone belongs to one thread.
///
/// The other way out needs nothing of the kind: an actor sends to `std::sync::mpsc` or any other
/// channel that does not block.
pub struct Handle {
    shared: Arc<Shared>,
    pool: Pool,
}

/// The run is stopping and takes no more from outside. Holds the message.
#[derive(thiserror::Error)]
#[error("the run has stopped")]
pub struct Stopped<M>(pub M);

// By hand, because a message need not be `Debug`.
impl<M> fmt::Debug for Stopped<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Stopped(..)")
    }
}

impl Handle {
    fn new(shared: Arc<Shared>) -> Self {
        shared.handles.fetch_add(1, SeqCst);
        Self {
            pool: Pool::new(Arc::clone(&shared.depot)),
            shared,
        }
    }

    /// Sends `message` to `to`, and wakes a scheduler if need be. Never blocks for longer than
    /// another thread takes to append to a list. What is sent from one thread to one actor arrives
    /// in order; what was taken is handled, also if the run stops next.
    ///
    /// # Panics
    /// If `to` belongs to another system.
    pub fn send<M: Send + 'static>(
        &mut self,
        to: &Address<M>,
        message: M,
    ) -> Result<(), Stopped<M>> {
        let header = &to.cell.header;
        assert!(header.system == self.shared.system, "another system's");
        let cell = CellPtr::new(&*to.cell);
        let Self { shared, pool } = self;
        let put = if shared.stealers.is_empty() {
            let index = header.home as usize % shared.inboxes.len();
            shared.put(index, message, |message, entry| {
                let node = pool.fill(message);
                entry.envelopes.push(Envelope { to: cell, node });
                true
            })
        } else {
            shared.put(0, message, |message, entry| {
                // SAFETY: the node is new and given away. The inbox is open, so the system still
                // runs.
                let idle = unsafe { header.mailbox.push_shared(pool.fill(message)) };
                if idle {
                    let node = ptr::null_mut();
                    entry.envelopes.push(Envelope { to: cell, node });
                }
                idle
            })
        };
        put.map_err(Stopped)
    }

    /// Begins an orderly stop, as [`crate::Context::stop`] does.
    pub fn stop(&self) {
        self.shared.stop();
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.handles.fetch_sub(1, SeqCst) == 1 {
            // A scheduler has to see that this was the last reason to go on.
            self.shared.seats.wake(0);
        }
    }
}

/// Where a scheduler runs.
struct Place {
    /// Empty: wherever.
    cpus: Vec<usize>,
    /// Its NUMA node, if that is known.
    node: Option<usize>,
}

impl Place {
    fn of(cpus: &[Cpu]) -> Self {
        Self {
            cpus: cpus.iter().map(|cpu| cpu.number).collect(),
            node: cpus.first().map(|cpu| cpu.node),
        }
    }
}

fn places(schedule: &Schedule) -> Result<Vec<Place>, ConfigError> {
    let topology = Topology::read()?;
    match schedule {
        Schedule::Pinned { cpus } => cpus
            .iter()
            .map(|&number| match topology.cpu(number) {
                Some(cpu) => Ok(Place::of(&[cpu])),
                None => Err(ConfigError::Cpu {
                    cpu: number,
                    allowed: topology.cpus.iter().map(|cpu| cpu.number).collect(),
                }),
            })
            .collect(),
        &Schedule::Stealing { schedulers, pin } => {
            if pin == Pin::Core {
                enough(schedulers, &topology)?;
            }
            let places = (0..schedulers).map(|index| match pin {
                Pin::Anywhere => Place::of(&[]),
                Pin::Core => Place::of(&topology.cpus[index..=index]),
                Pin::Package => {
                    let package = topology.cpus[index % topology.cpus.len()].package;
                    let cpus = topology.cpus.iter().copied();
                    let cpus: Vec<_> = cpus.filter(|cpu| cpu.package == package).collect();
                    Place::of(&cpus)
                }
            });
            Ok(places.collect())
        }
        Schedule::Simulated { .. } => Ok(vec![Place::of(&[])]),
    }
}

fn enough(schedulers: usize, topology: &Topology) -> Result<(), ConfigError> {
    let (asked, cpus) = (schedulers, topology.cpus.len());
    if asked > cpus {
        return Err(ConfigError::TooFewCpus { asked, cpus });
    }
    Ok(())
}

/// Whom scheduler `thief` steals from: those of its own node first, else the next ones round.
fn victims(thief: usize, places: &[Place]) -> Vec<usize> {
    let count = places.len();
    let mut victims: Vec<_> = (1..count).map(|step| (thief + step) % count).collect();
    victims.sort_by_key(|&victim| places[victim].node != places[thief].node);
    victims
}

/// Queues with a ring between each pair, and the rings.
fn pinned_queues(count: usize) -> (Vec<Queue>, Vec<Arc<crate::ring::Ring<Envelope>>>) {
    let mut rings = Vec::new();
    let mut incoming: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
    let mut outgoing: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
    for (from, ways) in outgoing.iter_mut().enumerate() {
        for (to, arrivals) in incoming.iter_mut().enumerate() {
            if from == to {
                ways.push(None);
                continue;
            }
            let (producer, consumer) = ring(RING_SLOTS);
            rings.push(Arc::clone(producer.ring()));
            ways.push(Some(Outgoing::new(producer)));
            arrivals.push(consumer);
        }
    }
    let queues = outgoing.into_iter().zip(incoming);
    let queues = queues.map(|(outgoing, incoming)| Queue::Pinned {
        ready: Default::default(),
        outgoing,
        incoming,
    });
    (queues.collect(), rings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thief_begins_with_its_own_node() {
        let place = |node| Place {
            cpus: Vec::new(),
            node: Some(node),
        };
        let places: Vec<_> = [0, 1, 0, 1, 0].into_iter().map(place).collect();
        assert_eq!(victims(0, &places), [2, 4, 1, 3]);
        assert_eq!(victims(3, &places), [1, 4, 0, 2]);
    }
}
