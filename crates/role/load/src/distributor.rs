//! What attends to the workers of a run, by messages alone.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;

use lineside_host::RunClock;
use lineside_time::{Clock, Nanoseconds};

use crate::error::LoadError;
use crate::outcome::{Observer, Outcome, RunSecond};
use crate::results::{Cause, Counts, RecentTimes, RequestTimes};
use crate::settings::Settings;
use crate::worker::{News, Order, Second, WorkerResults};

/// A worker begins this long after all got the order, so that they begin together.
const START_AFTER_NS: i64 = 100_000_000;
/// The distributor looks after signals this often.
const LOOK: Duration = Duration::from_millis(50);

/// Ends of the distributor's messages to a worker.
pub(crate) struct Held {
    pub(crate) orders: Sender<Order>,
    pub(crate) spare: SyncSender<Box<RecentTimes>>,
}

/// What the distributor knows of a run that goes on.
pub(crate) struct Distributor<'a> {
    settings: &'a Settings,
    held: Vec<Held>,
    ready: u32,
    open: u32,
    over: Vec<WorkerResults>,
    /// Workers that have reported the second that goes on, or are over.
    heard: Vec<bool>,
    is_over: Vec<bool>,
    /// The last report of each worker.
    latest: Vec<Option<Counts>>,
    opens: Vec<u32>,
    /// Times of the second that goes on.
    recent: Box<RecentTimes>,
    seconds: Vec<RunSecond>,
    started_ns: Option<Nanoseconds>,
    has_stopped: bool,
}

impl<'a> Distributor<'a> {
    pub(crate) fn new(settings: &'a Settings, held: Vec<Held>) -> Self {
        let count = held.len();
        Self {
            settings,
            held,
            ready: 0,
            open: 0,
            over: Vec::new(),
            heard: vec![false; count],
            is_over: vec![false; count],
            latest: vec![None; count],
            opens: vec![0; count],
            recent: Box::default(),
            seconds: Vec::new(),
            started_ns: None,
            has_stopped: false,
        }
    }

    /// Attends to all workers until the last one is over.
    pub(crate) fn attend(
        mut self,
        reports: &Receiver<(usize, News)>,
        clock: RunClock,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, LoadError> {
        while self.over.len() < self.held.len() {
            if observer.stops() && !self.has_stopped {
                self.has_stopped = true;
                self.tell(Order::Stop);
            }
            let (number, news) = match reports.recv_timeout(LOOK) {
                Ok(report) => report,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(LoadError::Worker {
                        number: self.over.len(),
                        why: "it ended without a word".to_owned(),
                    });
                }
            };
            match news {
                News::Ready(open) => self.on_ready(open, clock, observer),
                News::Second(second) => self.on_second(number, *second, observer),
                News::Over(results) => self.on_over(number, results),
                News::Failed(why) => {
                    self.tell(Order::Stop);
                    return Err(LoadError::Worker { number, why });
                }
            }
        }
        self.outcome()
    }

    fn on_over(&mut self, number: usize, results: Box<WorkerResults>) {
        (self.heard[number], self.is_over[number]) = (true, true);
        (self.latest[number], self.opens[number]) = (Some(results.counts.clone()), 0);
        self.recent.add(&results.recent);
        if results.failure.is_some() && !self.has_stopped {
            // Without one of them it is another load.
            self.has_stopped = true;
            self.tell(Order::Stop);
        }
        self.over.push(*results);
    }

    fn tell(&self, order: Order) {
        for held in &self.held {
            // A worker that is over hears nothing.
            let _ = held.orders.send(order);
        }
    }

    fn on_ready(&mut self, open: u32, clock: RunClock, observer: &mut dyn Observer) {
        self.ready += 1;
        self.open += open;
        if self.ready < self.settings.workers {
            return;
        }
        let is_of_flows = self.settings.plan.opens_on_arrival;
        if self.open == 0 && !is_of_flows {
            self.has_stopped = true;
            return self.tell(Order::Stop);
        }
        let Some(at) = observer.start_at(self.open, clock.now() + START_AFTER_NS) else {
            self.has_stopped = true;
            return self.tell(Order::Stop);
        };
        self.started_ns = Some(at);
        self.tell(Order::Start(at));
    }

    fn on_second(&mut self, number: usize, second: Second, observer: &mut dyn Observer) {
        let Second {
            counts,
            open,
            mut recent,
            ..
        } = second;
        self.recent.add(&recent);
        recent.clear();
        let _ = self.held[number].spare.try_send(recent);
        (self.latest[number], self.opens[number]) = (Some(counts), open);
        self.heard[number] = true;
        // Workers report at the same instants: the last one ends the second.
        if self.heard.contains(&false) {
            return;
        }
        let over = &self.is_over;
        self.heard.clone_from(over);
        let mut counts = Counts::default();
        for each in self.latest.iter().flatten() {
            counts.add(each);
        }
        let before = self.seconds.last();
        let since = |of: fn(&Counts) -> u64| of(&counts) - before.map_or(0, |b| of(&b.counts));
        let times = std::mem::take(&mut self.recent);
        let quantile = |share| times.latency.quantile_ns(share);
        let latency_ns = (|| Some([quantile(0.5)?, quantile(0.99)?, times.latency.max_ns()?]))();
        let second = RunSecond {
            number: self.seconds.len() as u32 + 1,
            answered: since(|counts| counts.answered),
            received_bytes: since(|counts| counts.received_bytes),
            open: self.opens.iter().sum(),
            latency_ns,
            counts,
            times: Some(times),
        };
        observer.on_second(&second);
        self.seconds.push(RunSecond {
            times: None,
            ..second
        });
    }

    fn outcome(self) -> Result<Outcome, LoadError> {
        let mut counts = Counts::default();
        let mut times = RequestTimes::default();
        let mut outcome = Outcome {
            busiest: (0, 1),
            seconds: self.seconds,
            rest: *self.recent,
            started_ns: self.started_ns.unwrap_or(0),
            ..Outcome::default()
        };
        for worker in self.over {
            counts.add(&worker.counts);
            times.add(&worker.times);
            outcome.departures.extend(worker.departures);
            outcome.transports.push(worker.facts);
            outcome.cpu_ns += worker.cpu_ns;
            outcome.wall_ns = outcome.wall_ns.max(worker.lasted_ns);
            let (cpu, wall) = outcome.busiest;
            if worker.cpu_ns as f64 * wall as f64 > cpu as f64 * worker.wall_ns.max(1) as f64 {
                outcome.busiest = (worker.cpu_ns, worker.wall_ns.max(1));
            }
            outcome.rows_dropped += worker.rows_dropped;
            outcome.allocated_bytes += worker.allocated_bytes;
            let broken = worker.broken_identity.map(str::to_owned);
            outcome.broken_identity = outcome.broken_identity.or(broken);
            outcome.failure = outcome.failure.or(worker.failure);
        }
        if self.started_ns.is_none() && counts.opened == 0 {
            let to = SocketAddr::from(self.settings.targets[0]);
            let why = why_none(&counts);
            return Err(LoadError::NobodyThere { to, why });
        }
        outcome.departures.sort_unstable();
        (outcome.counts, outcome.times) = (counts, times);
        Ok(outcome)
    }
}

/// What came of tries of which none opened a connection.
fn why_none(counts: &Counts) -> String {
    let most = { Cause::ALL.iter() }.max_by_key(|&&cause| counts.refused[cause as usize]);
    let count = counts.refused.iter().sum::<u64>();
    if count == 0 {
        return "the run ended before any try was over".to_owned();
    }
    match most.copied().unwrap_or(Cause::Local) {
        Cause::Reset => "it refuses them; does a server listen there?".to_owned(),
        Cause::Timeout => "it does not answer: is it the right address, does a firewall drop \
                           what comes?"
            .to_owned(),
        Cause::Unreachable => {
            "the network has no way there: 'ip route get' and 'ip neigh' say why".to_owned()
        }
        Cause::Local => "this end has no port, descriptor or memory left".to_owned(),
        cause => format!("{count} tries failed ({})", cause.name()),
    }
}
