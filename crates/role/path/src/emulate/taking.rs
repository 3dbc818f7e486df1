//! What takes copies of a live run's frames, in a thread of its own: monitors, a capture file, a
//! capture into the run's tables.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};

use lineside_account::Budget;
use lineside_capture::{CaptureError, Measured, Seen, capture_into};
use lineside_frame::Burst;
use lineside_measure::monitor::{HEAD_LEN, MonitorError, Place, Point, Words};
use lineside_port::{CaptureWriter, PortError, Receive, Received, Recorded, Wrapper};
use lineside_reactor::{TapPoints, TapPort, tap_input};
use lineside_rows::Table;
use lineside_run::{
    Consumer, DropInSettings, Looks, Measuring, MonitorSwitch, Run, Step, receive_all,
};
use lineside_store::RunFolder;
use lineside_trace::certificate::link::{ChangeReport, FiringEvent, SettingsWords};

use super::Tapping;
use crate::Certificate;

/// What is wanted of copies of frames.
pub struct Wanted<'w> {
    /// What monitors measure, and drop-ins.
    pub words: &'w [Words],
    /// The programs that are given heads.
    pub drop_ins: &'w DropInSettings,
    /// Their tables, if there are some.
    pub measuring: Option<Measuring>,
    /// The numbers of monitors that do not measure until a step has them do so.
    pub stopped: Vec<usize>,
    /// The capture file that all frames are written into; its interfaces are [`places`].
    pub writer: Option<CaptureWriter>,
    /// The folder and the id of the trace that departures are captured into.
    pub trace: Option<(RunFolder, String)>,
    /// Those of these two sides alone, which a link of several joins.
    pub link: Option<[usize; 2]>,
}

/// Why the thread beside a run has not done all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakingError {
    /// The thread is gone.
    #[error("the thread that takes frames has panicked")]
    Panic,
    /// A capture into the run's tables failed.
    #[error("the tap's trace cannot be written: {0}")]
    Trace(CaptureError),
    /// The capture file cannot be written, or no frames could be had.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Monitors measured no more.
    #[error("{0}")]
    Measuring(String),
}

/// What is to be done with copies of frames.
pub struct Taking<'a> {
    budget: &'a Budget,
    measuring: Option<Measuring>,
    writer: Option<CaptureWriter>,
    /// The folder and the id of the trace that departures are captured into.
    trace: Option<(RunFolder, String)>,
    link: Option<[usize; 2]>,
    points: TapPoints,
    /// Where steps switch monitors.
    switches: Option<Sender<MonitorSwitch>>,
}

/// What came of it.
pub struct Taken {
    seen: Option<Result<Seen, CaptureError>>,
    written: Result<(), PortError>,
    measuring: Option<Measuring>,
}

impl<'a> Taking<'a> {
    /// Of sides with these names; `None` if nobody wants frames.
    pub fn new(
        wanted: Wanted<'_>,
        sides: &[&str],
        budget: &'a Budget,
    ) -> Result<Option<Self>, MonitorError> {
        let Wanted {
            words,
            drop_ins,
            mut measuring,
            stopped,
            writer,
            trace,
            link,
        } = wanted;
        let mut switches = None;
        if let Some(mut measures) = measuring.take() {
            for (input, place) in places(sides) {
                measures.set_place(input, &place)?;
            }
            measures.stop(&stopped);
            let (sender, receiver) = channel();
            switches = Some(sender);
            measuring = Some(measures.with_switches(receiver));
        }
        let points = points(words, drop_ins, writer.is_some(), trace.is_some());
        let is_wanted = points != TapPoints::default();
        Ok(is_wanted.then_some(Self {
            budget,
            measuring,
            writer,
            trace,
            link,
            points,
            switches,
        }))
    }

    /// What the run needs to know of it.
    pub fn tapping(mut self) -> Tapping<impl FnOnce(TapPort, Vec<u16>) -> Taken + Send + 'a> {
        Tapping {
            points: self.points,
            switches: self.switches.take(),
            take: |port, firsts: Vec<u16>| self.take(port, &firsts),
        }
    }

    /// Where its monitors are asked for what they have found so far.
    pub fn looks(&mut self) -> Option<Looks> {
        self.measuring.as_mut().map(Measuring::looks)
    }

    /// The capture file, to be given to the user that remains once privileges are dropped.
    pub fn file(&self) -> std::io::Result<Option<OwnedFd>> {
        let file = self.writer.as_ref().and_then(CaptureWriter::file);
        file.map(|file| file.try_clone_to_owned()).transpose()
    }

    /// Takes frames until the loop's end.
    fn take(mut self, port: TapPort, firsts: &[u16]) -> Taken {
        // Only now: what the run no longer needs of privileges has been dropped.
        self.measuring.iter_mut().for_each(Measuring::start);
        let counts = port.counts();
        let recorded = Recorded::new(port, self.writer);
        let mut port = Measured::new(recorded, self.measuring);
        let seen = match &self.trace {
            Some((folder, trace_id)) => {
                let mut departures = Departures {
                    port: &mut port,
                    inputs: inputs_by_exit(firsts, self.link),
                };
                let wanted =
                    |table: &Table| *table != Table::Packets && !Table::MONITORS.contains(table);
                let tables: Vec<_> = Table::ALL.iter().copied().filter(wanted).collect();
                let captured = capture_into(
                    folder,
                    &tables,
                    trace_id,
                    &mut departures,
                    self.budget,
                    None,
                );
                Some(captured)
            }
            None => None,
        };
        // Also what a capture that failed has left.
        let mut errors = receive_all(&mut port, &mut Discard, u64::MAX, |_, _, _| Step::Continue);
        let written = port.port_mut().finish();
        let written = errors.pop().map_or(written, Err);
        let mut measuring = port.take();
        let dropped = counts.facts();
        let missed = dropped.dropped_queue + dropped.dropped_memory;
        if let Some(measuring) = measuring.as_mut().filter(|_| missed > 0) {
            measuring.note(None, "unmeasured", Some(missed), "");
        }
        Taken {
            seen,
            written,
            measuring,
        }
    }
}

impl Taken {
    /// Notes what is in the tables of `run`; `warn` takes what a user should know.
    pub fn note(
        taken: Option<std::thread::Result<Self>>,
        run: &mut Run,
        certificate: &Certificate,
        warn: &mut dyn FnMut(&str),
    ) -> Result<(), TakingError> {
        let Some(taken) = taken else {
            return Ok(());
        };
        let taken = taken.map_err(|_| TakingError::Panic)?;
        let seen = taken.seen.transpose();
        if let Ok(Some(seen)) = &seen {
            run.set_rows(&seen.counters, &seen.summaries);
        }
        let mut measuring = taken.measuring;
        if let Some(measuring) = &mut measuring {
            for change in &certificate.changes {
                let text = format!("{}: {}", change.direction, changed_words(change));
                measuring.note(Some(change.at_ns), "change", None, &text);
            }
            note_steps(measuring, certificate);
            for mark in &certificate.marks {
                measuring.note(Some(mark.at_ns), "mark", None, &mark.text);
            }
        }
        // Whatever failed, what monitors found is written.
        let measured = run.end_measuring(measuring, warn);
        seen.map_err(TakingError::Trace)?;
        taken.written?;
        measured.map_err(TakingError::Measuring)
    }
}

/// Notes what steps did.
pub fn note_steps(measuring: &mut Measuring, certificate: &Certificate) {
    for firing in &certificate.firings {
        let step = &certificate.steps[firing.step - 1];
        let (event, why) = match firing.event {
            FiringEvent::Fired => ("step", None),
            FiringEvent::Undone => ("undone", None),
            FiringEvent::Refused => ("refused", firing.why.as_deref()),
        };
        let text = match why {
            Some(why) => format!("{}: {why}", step.words),
            None => step.words.clone(),
        };
        measuring.note(Some(firing.at_ns), event, None, &text);
        if firing.event == FiringEvent::Fired {
            for mark in &step.marks {
                measuring.note(Some(firing.at_ns), "mark", None, mark);
            }
        }
    }
}

/// The settings that a change changed, as they are from then on.
fn changed_words(change: &ChangeReport) -> String {
    let words = |settings: &SettingsWords| {
        let words = serde_json::to_value(settings).expect("texts are JSON");
        words.as_object().cloned().unwrap_or_default()
    };
    let (before, after) = (words(&change.before), words(&change.after));
    let changed = after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(*value));
    let words = changed.map(|(name, value)| match value.as_str() {
        Some(words) => format!("{name} {words}"),
        None => format!("{name} none"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The inputs of a tap, and what they stand for.
pub fn places(sides: &[&str]) -> impl Iterator<Item = (u16, Place)> {
    let points = |(side, port): (usize, &&str)| {
        let port = (*port).to_owned();
        Point::ALL.map(|point| {
            let port = port.clone();
            (tap_input(side, point), Place { port, point })
        })
    };
    sides.iter().enumerate().flat_map(points)
}

/// How much of which frames is copied: heads for monitors, all for a capture.
fn points(
    words: &[Words],
    drop_ins: &DropInSettings,
    has_file: bool,
    has_trace: bool,
) -> TapPoints {
    let has_drop_ins = !drop_ins.programs.is_empty();
    let of = |is_whole: bool, is_measured: bool| match (is_whole, is_measured) {
        (true, _) => Some(usize::MAX),
        (false, true) => Some(HEAD_LEN.max(drop_ins.bytes)),
        (false, false) => has_drop_ins.then_some(HEAD_LEN.max(drop_ins.bytes)),
    };
    let is_at = |wanted: fn(Point) -> bool| {
        let mut points = Point::ALL.into_iter().filter(|point| wanted(*point));
        points.any(|point| words.iter().any(|words| words.is_of(point)))
    };
    TapPoints {
        came: of(has_file, is_at(|point| point == Point::Came)),
        left: of(has_file || has_trace, is_at(|point| point == Point::Left)),
        dropped: of(has_file, is_at(Point::is_drop)),
    }
}

/// The input that frames which leave by each port count to: of two ports the other one, by which
/// they had come; with a switch between, which knows more of them, the port itself. `None` of ports
/// that are not of the link.
fn inputs_by_exit(firsts: &[u16], link: Option<[usize; 2]>) -> Vec<Option<u16>> {
    let of_two = link.or_else(|| (firsts.len() == 2).then_some([0, 1]));
    let input = |exit: usize| match of_two {
        Some([one, other]) if exit == one => Some(firsts[other]),
        Some([one, other]) if exit == other => Some(firsts[one]),
        Some(_) => None,
        None => Some(firsts[exit]),
    };
    (0..firsts.len()).map(input).collect()
}

/// The frames that left.
struct Departures<'a, P> {
    port: &'a mut P,
    /// By the port by which they left.
    inputs: Vec<Option<u16>>,
}

impl<P: Receive> Wrapper for Departures<'_, P> {
    type Port = P;

    fn port(&self) -> &P {
        self.port
    }

    fn port_mut(&mut self) -> &mut P {
        self.port
    }

    fn pass(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let start = burst.len();
        let received = self.port.receive(burst, max);
        let mut kept = start;
        for at in start..burst.len() {
            let input = usize::from(burst[at].descriptor().input);
            let (exit, point) = (input / Point::ALL.len(), input % Point::ALL.len());
            if point == Point::Left as usize
                && let Some(input) = self.inputs[exit]
            {
                burst[at].descriptor_mut().input = input;
                burst.swap(kept, at);
                kept += 1;
            }
        }
        burst.truncate(kept);
        match received {
            Ok(Received::Frames(_)) => Ok(Received::Frames(kept - start)),
            other => other,
        }
    }
}

/// Lets frames go.
struct Discard;

impl Consumer for Discard {
    fn on_burst(&mut self, burst: &mut Burst) -> Step {
        burst.clear();
        Step::Continue
    }
}
