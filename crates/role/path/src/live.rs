//! A path between live ports: the engine of a polling loop.
//!
//! The loop itself, its ports and its measures of itself are in `lineside-reactor`; what happens to
//! frames is in [`Path`].

use std::sync::mpsc::Sender;

use lineside_filter::Filter;
use lineside_frame::{Burst, Frame};
use lineside_link::Delay;
use lineside_measure::monitor::Point;
use lineside_port::LivePort;
use lineside_reactor::{Account, Engine, Reactor, Sides, Tap, TapCounts, Tapped, Wait};
use lineside_run::MonitorSwitch;
use lineside_time::Nanoseconds;
use lineside_trace::certificate::link::{ClockSteps, Mark};
use lineside_trace::certificate::run::{LoopFacts, TapFacts};
use lineside_words::{exact_time, signed_time};

use crate::monitors::point_of;
use crate::{
    Certificate, Departures, Leaving, MarkError, NoMemory, Patches, Path, SideId, Step, StepError,
};

/// A path between live ports, in a polling loop.
pub type LiveLoop = Reactor<LivePath>;

/// A path as the engine of a polling loop.
pub struct LivePath {
    path: Path,
    out: Departures,
    tap: Option<Tap>,
    tapped: Option<TapCounts>,
    clock_steps: ClockSteps,
    /// Where monitors are switched, and how far the clock of frames is ahead.
    switches: Option<(Sender<MonitorSwitch>, i64)>,
    /// Firings of steps that have been looked at.
    firings: usize,
}

/// A frame that leaves, the side at which it entered, and its copy for the tap.
#[derive(Debug)]
pub struct LiveDeparture {
    side: SideId,
    leaving: Leaving,
    /// When it arrived, which is earlier than when it entered a chain behind a core.
    came_ns: Nanoseconds,
    copy: Option<Frame>,
}

impl LivePath {
    /// A loop with this path between its ports, each with those of its queues.
    pub fn between(
        mut path: Path,
        sides: Vec<Vec<Box<dyn LivePort>>>,
        wait: Wait,
        completes_checksums: bool,
    ) -> LiveLoop {
        path.hurry();
        let live = Self {
            path,
            out: Departures::default(),
            tap: None,
            tapped: None,
            clock_steps: ClockSteps::default(),
            switches: None,
            firings: 0,
        };
        Reactor::new(live, sides, wait, completes_checksums)
    }

    /// The wall clock was set at `now` by `by_ns`, and is `ahead_ns` ahead of the loop's clock from
    /// now on. The loop's own clock goes on: only the stamps of the tap follow.
    pub fn on_clock_set(&mut self, now: Nanoseconds, by_ns: i64, ahead_ns: i64) {
        self.clock_steps.record(self.path.since_begin(now), by_ns);
        if let Some(tap) = &mut self.tap {
            tap.set_wall_ahead(ahead_ns);
        }
        if let Some((_, switches_ahead_ns)) = &mut self.switches {
            *switches_ahead_ns = ahead_ns;
        }
    }

    /// Steps that switch monitors send that to `switches`.
    pub(crate) fn set_switches(&mut self, switches: Option<Sender<MonitorSwitch>>) {
        self.switches = switches.map(|switches| (switches, 0));
    }

    /// Passes the steps that have fired to the monitors.
    #[inline]
    fn switch(&mut self) {
        if self.path.firings().0.len() > self.firings {
            self.switch_all();
        }
    }

    #[cold]
    fn switch_all(&mut self) {
        let (firings, _) = self.path.firings();
        if let Some((switches, ahead_ns)) = &self.switches {
            for firing in &firings[self.firings..] {
                for (monitor, is_on) in self.path.step(firing.step).switches(firing.event) {
                    // Whoever measures may have ended.
                    let _ = switches.send(MonitorSwitch {
                        monitor,
                        at_ns: firing.at_ns + ahead_ns,
                        is_on,
                    });
                }
            }
        }
        self.firings = firings.len();
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes settings at `now`, as [`Path::apply`] has it.
    pub fn apply(&mut self, now: Nanoseconds, patches: &Patches) -> Result<bool, NoMemory> {
        self.path.apply(now, patches, &mut self.out)
    }

    /// Classifies frames, as [`Path::add_expression`] has it.
    pub fn add_expression(&mut self, side: SideId, filter: Filter) -> Result<(), NoMemory> {
        self.path.add_expression(side, filter)
    }

    /// Adds a step, as [`Path::arm`] has it.
    pub fn arm(&mut self, now: Nanoseconds, step: Step) -> Result<(), StepError> {
        self.path.arm(step, now)
    }

    /// Works out the report of a change, which takes tens of microseconds.
    pub(crate) fn settle(&mut self) {
        self.path.settle(1);
    }

    /// Begins a path that waits; whether it did.
    pub fn start(&mut self, now: Nanoseconds) -> bool {
        let waits = self.path.waits();
        if waits {
            self.path.start(now);
        }
        waits
    }

    /// Notes a text at `now`, as [`Path::mark`] has it.
    pub fn mark(&mut self, now: Nanoseconds, text: String) -> Result<Mark, MarkError> {
        self.path.mark(now, text)
    }
}

/// What the loop measured of itself, with the counts of the tap.
pub fn loop_facts(live: &LiveLoop) -> LoopFacts {
    LoopFacts {
        tap: tap_facts(live),
        ..live.facts()
    }
}

/// The counts of the tap.
pub(crate) fn tap_facts(live: &LiveLoop) -> Option<TapFacts> {
    live.engine().tapped.as_ref().map(TapCounts::facts)
}

/// The path's certificate, with what the loop knows besides; `clock` as `Link::clock` has
/// it.
pub fn live_certificate(live: &LiveLoop, clock: &'static str) -> Certificate {
    let mut certificate = live.engine().path.certificate(clock);
    certificate.clock_steps = live.engine().clock_steps.clone();
    certificate.polling = Some(loop_facts(live));
    let path = &live.engine().path;
    for side in path.sides() {
        let report = certificate.directions.get_mut(path.name(side));
        if let (Some(report), Some(warning)) = (report, below_floor(live, side)) {
            report.warnings.push(warning);
        }
    }
    certificate
}

/// A warning if the delay that was asked for at a side is shorter than the time that a frame takes
/// without any.
pub fn below_floor(live: &LiveLoop, side: SideId) -> Option<String> {
    let floor_ns = live.floor_ns()?;
    let path = &live.engine().path;
    let link = path.link(side);
    let asked_ns = path.delay_min_ns(side);
    let is_asked = link.settings().delay != Delay::default();
    (is_asked && asked_ns < floor_ns).then(|| {
        format!(
            "delays of {} were asked for and are below the floor: without any, a frame takes {}",
            exact_time(asked_ns as f64),
            signed_time(floor_ns as f64),
        )
    })
}

/// Bytes that are copied out of a port's memory at once: 22 of the longest frames of Ethernet,
/// which takes some microseconds, or some tens of them in memory that is touched for the first
/// time. A port that is short of memory asks each second turn, and as many frames come in one at
/// most.
const SPILL_BYTES: usize = 32 << 10;

impl Account for LiveDeparture {
    #[inline]
    fn entered_ns(&self) -> Nanoseconds {
        self.came_ns
    }

    #[inline]
    fn at_ns(&self) -> Nanoseconds {
        self.leaving.at_ns
    }
}

impl Tapped for LivePath {
    fn set_tap(&mut self, tap: Option<Tap>) {
        if let Some(tap) = &tap {
            self.tapped = Some(tap.counts());
            if tap.wants_drops() {
                self.path.keep_drops();
            }
        }
        self.tap = tap;
    }
}

impl Engine for LivePath {
    type Account = LiveDeparture;

    #[inline]
    fn on_burst(&mut self, now: Nanoseconds, side: usize, burst: &mut Burst) {
        if let Some(tap) = &mut self.tap {
            tap.on_arrivals(now, side, burst);
        }
        let side = SideId::new(side);
        self.path.on_burst(now, side, burst, &mut self.out);
        self.switch();
    }

    #[inline]
    fn on_timer(&mut self, now: Nanoseconds, until: Nanoseconds, out: &mut Sides<LiveDeparture>) {
        self.path.on_timer(until, &mut self.out);
        if let Some(tap) = self.tap.as_mut().filter(|tap| tap.wants_drops()) {
            for side in self.path.sides() {
                for dropped in self.out.drops(side) {
                    let (port, point) = (self.path.port(side), point_of(dropped.reason));
                    tap.on_drop(dropped.at_ns, port, point, &dropped.item);
                }
            }
            for dropped in self.out.core_drops() {
                let (port, point) = (dropped.port, Point::DroppedSwitch);
                tap.on_drop(dropped.at_ns, port, point, &dropped.item);
            }
        }
        self.path.observe(now, &mut self.out);
        self.switch();
        for side in self.path.sides() {
            // What goes to a core has gone there.
            let Some(exit) = self.path.exit(side).map(SideId::index) else {
                continue;
            };
            for departure in self.out[side.index()].drain(..) {
                let leaving = Leaving::from(&departure);
                let tap = self.tap.as_mut();
                let copy = tap.and_then(|tap| tap.copy(&departure.item));
                let stamp_ns = departure.item.descriptor().stamp_ns;
                let account = LiveDeparture {
                    side,
                    leaving,
                    came_ns: stamp_ns.map_or(leaving.entered_ns, |stamp_ns| {
                        stamp_ns.min(leaving.entered_ns)
                    }),
                    copy,
                };
                out.send(exit, departure.item, account);
            }
        }
        if let Some(tap) = &mut self.tap {
            tap.on_turn(now);
        }
    }

    #[inline]
    fn next_deadline(&self) -> Option<Nanoseconds> {
        self.path.next_deadline()
    }

    fn held(&self) -> usize {
        self.path.held()
    }

    fn spill(&mut self, side: usize) {
        self.path.spill_step(side, SPILL_BYTES);
    }

    fn on_unsent(&mut self, departure: LiveDeparture, frame: &Frame) {
        self.path.on_unsent(departure.side, frame);
        if let Some(tap) = &mut self.tap {
            let (at_ns, port) = (departure.leaving.at_ns, self.path.port(departure.side));
            tap.on_drop(at_ns, port, Point::DroppedInterface, frame);
        }
    }

    fn on_gone(&mut self, side: usize) {
        self.path.on_port_gone(side);
    }

    #[inline]
    fn on_sent(&mut self, departure: LiveDeparture, sent_ns: Nanoseconds) {
        self.path
            .on_sent(departure.side, &departure.leaving, sent_ns);
        if let (Some(tap), Some(copy)) = (&mut self.tap, departure.copy) {
            // A frame that went to a core is not sent.
            if let Some(exit) = self.path.exit(departure.side) {
                tap.on_sent(sent_ns, exit.index(), copy);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_account::Budget;
    use lineside_frame::Descriptor;
    use lineside_link::{Settings, words};
    use lineside_testkit::memory::{Memory, SharedWire};

    use super::*;
    use crate::Direction;

    fn end() -> (Box<dyn LivePort>, SharedWire) {
        let wire = SharedWire::default();
        (Box::new(Memory(wire.clone())), wire)
    }

    #[test]
    fn frames_that_came_while_it_started_are_dropped_and_counted() {
        let budget = Budget::new(1 << 20);
        let settings = [Settings::default(), Settings::default()];
        let path = Path::new(settings, 7, 1 << 20, &budget).expect("it fits");
        let ((inside, near), (outside, far)) = (end(), end());
        let sides = vec![vec![inside], vec![outside]];
        let mut live = LivePath::between(path, sides, Wait::Spin, false);
        let come = |stamp_ns| {
            let descriptor = Descriptor {
                stamp_ns: Some(stamp_ns),
                ..Descriptor::default()
            };
            let frame = Frame::copied(&[0; 60], descriptor);
            near.lock().to_come.push_back(frame);
        };
        let mut now = 1_000_000;
        // More than calibrating takes.
        (0..10_000).for_each(|_| come(now));
        live.calibrate(&[None; 2], &mut || {
            now += 1;
            now
        })
        .expect("ports that work");
        come(now);
        come(now + 1);
        while !near.lock().to_come.is_empty() {
            now += 10;
            live.turn(&mut || now).expect("ports that work");
        }
        assert_eq!(live.facts().dropped_at_start, 10_000);
        assert_eq!(far.lock().sent.len(), 2);
        let counters = live.engine().path().link(Direction::Outbound).counters();
        assert_eq!(counters.entered, 2);
    }

    #[test]
    fn frames_that_could_not_leave_are_drops_of_the_certificate() {
        let budget = Budget::new(1 << 20);
        let settings = [Settings::default(), Settings::default()];
        let path = Path::new(settings, 7, 1 << 20, &budget).expect("it fits");
        let ((inside, near), (outside, far)) = (end(), end());
        let mut live =
            LivePath::between(path, vec![vec![inside], vec![outside]], Wait::Spin, false);
        for is_down in [false, true] {
            far.lock().is_down = is_down;
            for now in [1_000, 2_000] {
                let descriptor = Descriptor {
                    stamp_ns: Some(now),
                    ..Descriptor::default()
                };
                let frame = Frame::copied(&[0; 60], descriptor);
                near.lock().to_come.push_back(frame);
                live.turn(&mut || now).expect("ports that work");
            }
        }
        let certificate = live_certificate(&live, "test");
        let counters = certificate.directions["outbound"].counters;
        assert_eq!((counters.entered, counters.released), (4, 2));
        assert_eq!(
            (counters.released_bytes, counters.dropped.interface),
            (120, 2)
        );
        assert!(counters.is_whole(0), "{counters:?}");
        assert_eq!(live.facts().dropped_down, 2);
    }

    #[test]
    fn frames_leave_in_order_when_due_even_by_a_slow_port() {
        let settings = || Settings {
            delay: words::delay("100us", &mut words::no_files).expect("a delay"),
            ..Settings::default()
        };
        let budget = Budget::new(1 << 20);
        let path = Path::new([settings(), settings()], 7, 1 << 20, &budget).expect("it fits");
        let ((inside, near), (outside, far)) = (end(), end());
        let sides = vec![vec![inside], vec![outside]];
        let mut live = LivePath::between(path, sides, Wait::Spin, false);
        let mut now = 1_000_000;
        for number in 0..10 {
            let descriptor = Descriptor {
                number,
                stamp_ns: Some(now + number as i64),
                ..Descriptor::default()
            };
            let frame = Frame::copied(&[number as u8; 60], descriptor);
            near.lock().to_come.push_back(frame);
        }
        while live.held() > 0 || now == 1_000_000 {
            now += 1_000;
            live.turn(&mut || now).expect("ports that work");
            if now < 1_100_000 {
                assert!(far.lock().sent.is_empty(), "{now}");
            }
            assert!(now < 1_200_000, "all have left by then");
        }
        let sent: Vec<u8> = far
            .lock()
            .sent
            .iter()
            .map(|frame| frame.bytes()[0])
            .collect();
        assert_eq!(sent, (0..10).collect::<Vec<u8>>());
        assert!(near.lock().sent.is_empty());
        let report = live.engine().path().certificate("test");
        assert_eq!(report.directions["outbound"].counters.released, 10);
        assert!(live.facts().stalls == 0);
    }
}
