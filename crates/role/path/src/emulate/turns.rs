//! What an emulated link does between the turns of its loop, and the outcome of a run.

use std::process::ExitStatus;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use lineside_host::Confined;
use lineside_port::{Facts, Port, PortError};
use lineside_run::live::{ClockSet, Live, Next, TICK};
use lineside_run::{Evidence, Record, TapEvidence};
use lineside_time::{Clock, Nanoseconds};
use lineside_trace::InputFacts;

use super::EmulationError;
use super::carrier::Carriers;
use super::control::{Asked, Changes};
use crate::{Certificate, LiveLoop, LivePath, live_certificate, tap_facts};

/// The kernel's counts are read after that long, whatever is due.
const TICK_MAX: Duration = Duration::from_secs(10);

/// What a user should know while a run goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// The ports are open.
    Listening(&'a [&'a Facts]),
    /// The run is in its sandbox.
    Confined(&'a Confined),
    /// A sentence about the loop.
    Note(String),
    /// A sentence about settings or the machine that may be as intended.
    Advice(String),
    /// Something is wrong.
    Warning(String),
    /// Nothing listens at the server after this wait; the client begins all the same.
    NothingListens(Duration),
    /// The server ended before the client.
    ServerEnded(ExitStatus),
    /// `pasta` ended, so nothing outside is reachable.
    OutsideEnded(ExitStatus),
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The path's certificate, judged by all that is known.
    pub certificate: Certificate,
    /// The ports, in the order of their sides.
    pub inputs: Vec<InputFacts>,
    /// The signal that ended the run.
    pub signal: Option<u8>,
    /// The failure that ended the run.
    pub failure: Option<PortError>,
    /// Frames of a command that passed its loopback interface and not the link, where known.
    pub beside: Option<u64>,
    /// Whether a step ended the run.
    pub is_over: bool,
}

impl Outcome {
    /// Reads the kernel's counts a last time, and reports.
    pub(super) fn of(live: &mut LiveLoop, signal: Option<u8>, failure: Option<PortError>) -> Self {
        live.ports_mut().for_each(|port| port.account());
        let facts = live.ports().flat_map(Port::facts);
        let inputs = facts.map(lineside_run::input_facts).collect();
        let mut certificate = live_certificate(live, CLOCK);
        // Frames that the tap dropped belong to the verdict, and ports that are gone or have
        // failed.
        let gone = live.gone().iter().map(|gone| gone.why.clone());
        let failed = failure.iter().map(ToString::to_string);
        certificate.judge(Evidence {
            tap: tap_facts(live).map(|tap| TapEvidence {
                captured: tap.tapped,
                dropped_queue: tap.dropped_queue,
                dropped_memory: tap.dropped_memory,
            }),
            failures: gone.chain(failed).collect(),
            ..Evidence::default()
        });
        Self {
            certificate,
            inputs,
            signal,
            failure,
            beside: None,
            is_over: live.engine().path().is_over(),
        }
    }
}

/// The clock of runs between live ports, for [`Certificate::clock`].
const CLOCK: &str = "monotonic clock, from the wall clock's time at the start";

/// An emulated link in its loop: `next` is what its kind of run does after each turn, the second
/// argument is the time since the start.
pub(super) struct Emulating<'a, F> {
    changes: Changes,
    carriers: &'a mut Carriers,
    record: &'a Record,
    next: F,
}

impl<'a, F> Emulating<'a, F>
where
    F: FnMut(&LiveLoop, Duration) -> Result<Next, EmulationError>,
{
    pub(super) fn new(
        asked: Receiver<Asked>,
        carriers: &'a mut Carriers,
        record: &'a Record,
        next: F,
    ) -> Self {
        Self {
            changes: Changes::new(asked),
            carriers,
            record,
            next,
        }
    }
}

impl<F> Live for Emulating<'_, F>
where
    F: FnMut(&LiveLoop, Duration) -> Result<Next, EmulationError>,
{
    type Engine = LivePath;
    type Error = EmulationError;

    const DRAIN: Duration = Duration::from_secs(1);

    fn answer(&mut self, live: &mut LiveLoop, clock: &impl Clock) {
        self.changes.make_next(live, self.carriers, clock);
    }

    fn watch(&mut self, live: &mut LiveLoop, now: Nanoseconds, set: Option<ClockSet>) {
        self.carriers.follow(live, now);
        if let Some(ClockSet { by_ns, ahead_ns }) = set {
            live.engine_mut().on_clock_set(now, by_ns, ahead_ns);
        }
    }

    /// If possible while nothing is due.
    fn is_tick(&self, live: &LiveLoop, now: Nanoseconds, since: Duration) -> bool {
        since >= TICK && (live.is_calm(now) || since >= TICK_MAX)
    }

    fn on_tick(&mut self, live: &mut LiveLoop, now: Nanoseconds) {
        live.engine_mut().settle();
        let ran_ns = live.engine().path().since_begin(now);
        let elapsed = Duration::from_nanos(ran_ns.max(0).cast_unsigned());
        self.record.keep(now, elapsed, |verdict| {
            let mut certificate = live_certificate(live, CLOCK);
            certificate.verdict = verdict;
            certificate
        });
    }

    fn next(&mut self, live: &mut LiveLoop, elapsed: Duration) -> Result<Next, EmulationError> {
        let is_over = live.engine().path().is_over();
        Ok(match (self.next)(live, elapsed)? {
            Next::Continue if is_over => Next::Drain,
            next => next,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use lineside_account::Budget;
    use lineside_frame::{Burst, Descriptor, Frame};
    use lineside_link::{Settings, words};
    use lineside_port::{LivePort, Receive, Received};
    use lineside_reactor::{TapPoints, Tapped, Wait, tap};
    use lineside_run::live::turns;
    use lineside_testkit::memory::{Ends, Memory};
    use lineside_time::{OffsetReading, SteadyClock};
    use lineside_trace::certificate::link::ClockStep;

    use super::*;
    use crate::emulate::control::ChangeSender;
    use crate::{Direction, Path};

    const MS: i64 = 1_000_000;

    /// Virtual time, which passes with each look at it, and the wall clock beside it.
    #[derive(Clone, Default)]
    struct Time {
        now: Arc<AtomicI64>,
        wall_ahead: Arc<AtomicI64>,
    }

    impl Clock for Time {
        fn now(&self) -> Nanoseconds {
            self.now.fetch_add(500, Ordering::Relaxed)
        }
    }

    impl SteadyClock for Time {
        fn wall_offset(&self) -> OffsetReading {
            OffsetReading {
                at_ns: self.now(),
                ahead_ns: self.wall_ahead.load(Ordering::Relaxed),
                error_ns: 0,
            }
        }
    }

    /// Where frames come at given instants, and are taken one at a time, which takes 2 us.
    struct Wire {
        time: Time,
        to_come: VecDeque<i64>,
    }

    impl Ends for Wire {
        fn take(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
            let now = self.time.now.load(Ordering::Relaxed);
            let has_come = |at: &&i64| **at <= now;
            let count = self.to_come.iter().take_while(has_come).count().min(max);
            for stamp_ns in self.to_come.drain(..count) {
                let descriptor = Descriptor {
                    stamp_ns: Some(stamp_ns),
                    ..Descriptor::default()
                };
                burst.push(Frame::copied(&[0; 60], descriptor));
            }
            Ok(match count {
                0 => Received::Idle { until_ns: now },
                count => Received::Frames(count),
            })
        }

        fn send(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
            let count = burst.drain(..).count();
            self.time
                .now
                .fetch_add(2_000 * count as i64, Ordering::Relaxed);
            Ok(count)
        }

        fn end(&mut self) {
            self.to_come.clear();
        }
    }

    /// 1,000 frames out, three of them each 300 us, with a delay of 10 ms. At 50 ms the wall clock
    /// is set; returns how they left, and the stamps of the tap.
    fn run_with_a_clock_set(by_ns: i64) -> (Outcome, Vec<i64>) {
        run_until(Duration::from_millis(130), by_ns, |_| {})
    }

    /// The same up to `end`, with `ask` in a thread beside it.
    fn run_until(
        end: Duration,
        by_ns: i64,
        ask: impl FnOnce(&ChangeSender<'_>) + Send,
    ) -> (Outcome, Vec<i64>) {
        let time = Time::default();
        let settings = || Settings {
            delay: words::delay("10ms", &mut words::no_files).expect("a delay"),
            ..Settings::default()
        };
        let budget = Budget::new(16 << 20);
        let path = Path::new([settings(), settings()], 7, 1 << 20, &budget);
        let mut path = path.expect("it fits");
        path.begin(0);
        let wire = |to_come| {
            let wire = Wire {
                time: time.clone(),
                to_come,
            };
            vec![Box::new(Memory(wire)) as Box<dyn LivePort>]
        };
        let comes = (0..1_000).map(|number| (number / 3 + 1) * 300_000);
        let sides = vec![wire(comes.collect()), wire(VecDeque::new())];
        let mut live = LivePath::between(path, sides, Wait::Spin, false);
        let points = TapPoints {
            left: Some(usize::MAX),
            ..TapPoints::default()
        };
        let (tap, mut port) = tap(2, points, 2 << 20, &budget).expect("it fits");
        live.engine_mut().set_tap(Some(tap));
        let mut carriers = Carriers::new(&mut live, None, &[], "");
        let record = Record::default();
        let (asking, asked) = lineside_run::control::asking();
        let failure = std::thread::scope(|scope| {
            scope.spawn(move || ask(&ChangeSender(&asking)));
            // With these go the requests that nobody will answer.
            let mut emulating = Emulating::new(asked, &mut carriers, &record, |_, elapsed| {
                if elapsed >= Duration::from_millis(50) {
                    time.wall_ahead.store(by_ns, Ordering::Relaxed);
                }
                Ok(match elapsed >= end {
                    true => Next::Drain,
                    false => Next::Continue,
                })
            });
            turns(&mut live, &time, &mut emulating)
        });
        let failure = failure.expect("it goes on to the end");
        let outcome = Outcome::of(&mut live, None, failure);
        live.engine_mut().set_tap(None);
        let mut burst = Burst::new();
        while port.receive(&mut burst, 9_999).expect("a tap never fails") != Received::End {}
        let stamps = { burst.iter() }.filter_map(|frame| frame.descriptor().stamp_ns);
        (outcome, stamps.collect())
    }

    #[test]
    fn a_wall_clock_that_is_set_moves_no_frame() {
        let (calm, stamps) = run_with_a_clock_set(0);
        let calm_facts = &calm.certificate.directions[Direction::Outbound.name()];
        assert_eq!(calm_facts.counters.released, 1_000);
        assert_eq!(calm.certificate.clock_steps.count, 0);
        // By seconds, an hour, a day back, and to 1970.
        for by_ns in [
            -4_000 * MS,
            3_600_000 * MS,
            -86_400_000 * MS,
            -1_795_000_000_000 * MS,
        ] {
            let (set, stamps_set) = run_with_a_clock_set(by_ns);
            let facts = &set.certificate.directions[Direction::Outbound.name()];
            assert_eq!(facts, calm_facts, "as if nothing had happened");
            let polling = set.certificate.polling.as_ref().expect("a loop");
            assert_eq!(polling.stalls, 0);
            let steps = &set.certificate.clock_steps;
            let [
                ClockStep {
                    after_ns,
                    by_ns: seen,
                },
            ] = steps.first[..]
            else {
                panic!("{steps:?}");
            };
            assert_eq!((steps.count, seen), (1, by_ns));
            assert!((50 * MS..52 * MS).contains(&after_ns), "{after_ns}");
            // A capture's stamps are those of the wall clock.
            let moved = stamps_set.iter().zip(&stamps).map(|(set, calm)| set - calm);
            let moved: Vec<_> = moved.collect();
            let (before, after) = moved.split_at(moved.partition_point(|&moved| moved == 0));
            assert!(before.len() > 350 && after.len() > 500, "{moved:?}");
            assert!(after.iter().all(|&moved| moved == by_ns), "{moved:?}");
        }
    }

    #[test]
    fn looks_move_no_frame_and_find_whole_accounts() {
        let (calm, _) = run_with_a_clock_set(0);
        let calm = &calm.certificate.directions[Direction::Outbound.name()];
        let mut seen = Vec::new();
        let ask = |sender: &ChangeSender<'_>| {
            while let Ok(stats) = sender.stats() {
                seen.push(stats);
            }
        };
        // Long enough for some looks on a machine with other work.
        let (outcome, _) = run_until(Duration::from_secs(20), 0, ask);
        let report = &outcome.certificate.directions[Direction::Outbound.name()];
        assert_eq!(report.counters, calm.counters);
        assert_eq!(report.delays.late.over_100us, calm.delays.late.over_100us);
        let last = seen.last().expect("some are answered");
        for stats in &seen {
            for direction in &stats.directions {
                let gone = direction.released + direction.dropped.total() + direction.held;
                assert_eq!(direction.entered, gone, "{stats:?}");
            }
        }
        let direction = &last.directions[0];
        assert_eq!(direction.entered, 1_000);
        let (delay, realised) = (direction.delay, report.delays.realised.as_ref());
        let (delay, realised) = delay.zip(realised).expect("all have left");
        assert_eq!(delay.count, realised.count);
        assert_eq!(delay.p50_ns as i64, realised.p50_ns);
        assert_eq!(delay.p99_ns as i64, realised.p99_ns);
        assert!(last.tap.is_some_and(|tap| tap.copied > 900), "{last:?}");
    }

    #[test]
    fn frames_under_way_at_the_end_still_leave() {
        let (outcome, stamps) = run_until(Duration::from_millis(40), 0, |_| {});
        let report = &outcome.certificate.directions[Direction::Outbound.name()];
        let counters = &report.counters;
        // Three each 300 us, the last third of them less than 10 ms before the end.
        assert!((390..=420).contains(&counters.entered), "{counters:?}");
        assert_eq!((counters.released, report.held), (counters.entered, 0));
        assert_eq!(stamps.len() as u64, counters.released);
    }

    #[test]
    fn the_tap_stamps_each_frame_as_it_left() {
        let (outcome, stamps) = run_with_a_clock_set(0);
        assert_eq!(stamps.len(), 1_000);
        let residences = { stamps.iter().zip(0..) }
            .map(|(stamp_ns, number)| stamp_ns - (number / 3 + 1) * 300_000);
        let residences: Vec<i64> = residences.collect();
        let facts = &outcome.certificate.directions[Direction::Outbound.name()];
        let realised = facts.delays.realised.as_ref().expect("frames left");
        let mean_ns = residences.iter().sum::<i64>() as f64 / 1e3;
        // The steps of the certificate's table.
        let error_ns = realised.mean_ns / 1e3;
        let distance_ns = (mean_ns - realised.mean_ns).abs();
        assert!(distance_ns < error_ns, "{mean_ns} {}", realised.mean_ns);
        assert!(
            stamps.windows(2).all(|pair| pair[0] < pair[1]),
            "each its own"
        );
    }
}
