//! What looks after a run: its signals, its progress, its `trace.json`.

use super::live::{Account, Relief};
use super::settings::Follow;
use crate::inputs::inputs;
use crate::outputs::{Seen, note_rows};
use crate::print::counter_lines;
use crate::tally::RowTally;
use indicatif::ProgressBar;
use lineside_account::Budget;
use lineside_capture::{Filtered, Recorded, Span, Step};
use lineside_host::{RunFolder, Signals, Stopwatch, SystemClock};
use lineside_port::{Facts, Live as _, Merge, Port, PortError};
use lineside_time::Clock;
use lineside_trace::{ClockFacts, LossRow, Manifest, Runtime};
use std::time::Duration;

/// What a run came to.
pub(crate) struct Ran {
    pub(crate) tally: RowTally,
    pub(crate) seen: Seen,
    pub(crate) errors: Vec<PortError>,
    pub(crate) runtime: Option<Runtime>,
}

/// With the frames that the filter took away, whom only the port has seen.
pub(super) fn with_filtered(mut seen: Seen, port: &Input) -> Seen {
    seen.counters.merge(port.port().counters());
    seen
}

/// Looks after a run: its signals, its progress, its `trace.json`.
pub(crate) struct Watch<'a> {
    pub(super) folder: Option<&'a RunFolder>,
    pub(crate) signals: &'a Signals,
    /// Rows of frames that a port dropped, to be written.
    pub(crate) losses: Vec<LossRow>,
    /// Data goes without checksums.
    pub(crate) is_relieved: bool,
    pub(super) live: Option<Live>,
    /// Files that grow are read.
    pub(super) follow: Option<Follow>,
    /// When the end was asked for, where a pipe is read: the same Ctrl-C ends its writer, and what that still has is to come.
    pub(super) asked: Option<Duration>,
    pub(super) reads_pipe: bool,
    pub(super) clock: &'a SystemClock,
    pub(super) budget: &'a Budget,
    pub(super) manifest: &'a mut Manifest,
    pub(super) progress: ProgressBar,
    pub(super) stopwatch: &'a Stopwatch,
    pub(super) written: Duration,
    pub(super) bursts: u64,
    pub(super) stop: Stop,
}

/// What only a live run has.
pub(super) struct Live {
    pub(super) account: Account,
    /// If checksums may be given up.
    pub(super) relief: Option<Relief>,
    pub(super) duration: Option<Duration>,
    /// When no more frames were let in.
    pub(super) shut: Option<Duration>,
}

impl Live {
    pub(super) fn note(&self, manifest: &mut Manifest) {
        manifest.seconds = self.account.seconds();
        let reliefs = self.relief.iter().flat_map(|relief| &relief.times);
        manifest.reliefs = reliefs.copied().collect();
    }
}

/// What has arrived when a live run ends, or is still to come from a pipe, is read for at most so long.
const DRAIN: Duration = Duration::from_millis(1500);

impl Watch<'_> {
    /// Whether frames come whether or not they are read.
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Notes why the run ends, unless something went wrong before.
    pub(crate) fn stop(&mut self, why: Stop) -> Step {
        if !matches!(self.stop, Stop::Output(_)) {
            self.stop = why;
        }
        Step::Stop
    }

    /// Once a burst, and at the end.
    pub(crate) fn look(
        &mut self,
        port: &mut Input,
        is_last: bool,
        mut seen: impl FnMut() -> Seen,
    ) -> Step {
        self.bursts += 1;
        if self.live.is_some() {
            if self.look_live(port, is_last, &mut seen) == Step::Stop {
                return Step::Stop;
            }
        } else if let Some(signal) = self.signals.stop() {
            let elapsed = self.stopwatch.elapsed();
            let asked = *self.asked.get_or_insert(elapsed);
            if !self.reads_pipe || elapsed - asked > DRAIN {
                return self.stop(Stop::Signal(signal));
            }
        } else if let Some(Follow {
            duration: Some(duration),
        }) = self.follow
            && self.stopwatch.elapsed() >= duration
        {
            return Step::Stop;
        }
        if self.signals.take_counters_wanted() {
            if let Some(live) = &self.live {
                eprintln!("{}", live.account.line());
            }
            eprint!("{}", counter_lines(&with_filtered(seen(), port).counters));
        }
        // Looking at the clock and the files' positions costs more than a burst of small frames.
        if self.live.is_none() {
            if !self.bursts.is_multiple_of(64) {
                return Step::Continue;
            }
            let bytes = port.facts().iter().map(|facts| facts.bytes).sum();
            self.progress.set_position(bytes);
        }
        if (self.stopwatch.elapsed() - self.written).as_secs() < REWRITE_SECONDS {
            return Step::Continue;
        }
        self.written = self.stopwatch.elapsed();
        if let Some(live) = &self.live {
            live.note(self.manifest);
        }
        note(self.manifest, port, &with_filtered(seen(), port));
        let Some(folder) = self.folder else {
            return Step::Continue;
        };
        let text = self.manifest.to_json();
        match folder.replace("trace.json", text.as_bytes()) {
            Ok(()) => Step::Continue,
            Err(error) => self.stop(Stop::Output(error.to_string())),
        }
    }

    /// Ends a live run by letting no more frames in and reading those that have come, and keeps its account.
    fn look_live(
        &mut self,
        port: &mut Input,
        is_last: bool,
        seen: &mut impl FnMut() -> Seen,
    ) -> Step {
        let Some(live) = &mut self.live else {
            return Step::Continue;
        };
        live.account.note_backlog(port);
        if let Some(relief) = &mut live.relief {
            self.is_relieved = relief.look(port, self.clock);
        }
        let elapsed = self.stopwatch.elapsed();
        let signal = self.signals.stop();
        if live.shut.is_none() {
            if let Some(signal) = signal {
                self.stop = Stop::Signal(signal);
            }
            if signal.is_some() || live.duration.is_some_and(|duration| elapsed >= duration) {
                port.shut();
                live.shut = Some(elapsed);
            }
        }
        let is_drained = live.shut.is_some_and(|shut| elapsed - shut > DRAIN);
        if live.account.is_due(elapsed) || is_last || is_drained {
            let counters = with_filtered(seen(), port).counters;
            let now_ns = self.clock.now();
            self.losses = live
                .account
                .tick(elapsed, now_ns, port, &counters, self.budget);
            self.progress.set_message(live.account.line());
            self.progress.tick();
        }
        match is_drained {
            true => Step::Stop,
            false => Step::Continue,
        }
    }
}

pub(super) fn note(manifest: &mut Manifest, port: &Input, seen: &Seen) {
    note_inputs(manifest, port, &seen.spans);
    note_rows(manifest, seen);
}

/// How often `trace.json` is rewritten while the run goes on.
const REWRITE_SECONDS: u64 = 5;

/// All inputs, as far as the filter lets them through, and perhaps written into capture files.
pub(crate) type Input = Recorded<Filtered<Merge>>;

/// Why a run ended.
pub(crate) enum Stop {
    End,
    Signal(u8),
    Output(String),
}

pub(super) fn note_inputs(manifest: &mut Manifest, port: &Input, spans: &[Span]) {
    manifest.inputs = inputs(port);
    let clock = |(input, facts): (usize, &Facts)| {
        let span = spans
            .get(input)
            .filter(|span| span.first_ns <= span.last_ns);
        ClockFacts {
            input: facts.name.clone(),
            resolution_ns: facts.resolution_ns,
            error_ns: None,
            first_ns: span.map(|span| span.first_ns),
            last_ns: span.map(|span| span.last_ns),
        }
    };
    manifest.clocks = port.facts().into_iter().enumerate().map(clock).collect();
}
