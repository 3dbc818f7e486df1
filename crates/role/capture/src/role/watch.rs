//! What looks after a capture while it runs: signals, the account of a live run, progress,
//! `trace.json`.

use std::sync::Arc;
use std::time::Duration;

use lineside_account::{Budget, Counter, Counters};
use lineside_frame::Burst;
use lineside_host::{ServiceManager, Signals, Stopwatch, SystemClock};
use lineside_measure::SharedTimes;
use lineside_port::{Facts, Live as _, Port as _, Totals, Wrapper as _};
use lineside_rows::LossRow;
use lineside_run::{Consumer, Moment, Progress, Run, Step, inputs_facts, receive_all};
use lineside_time::Clock;
use lineside_trace::{ClockFacts, InMemory, PartWindows, RemovedFacts};

use super::Input;
use super::account::{Account, Relief};
use super::settings::{Follow, Settings, is_pipe};
use super::single_thread::{Ran, Seen};
use super::tally::RowTally;
use crate::arrivals::{Arrivals, Span};

/// Why a run ended.
pub(super) enum Stop {
    End,
    Signal(u8),
    Output(String),
}

/// Rows that are being written, as the watch sees them between two bursts.
pub(super) trait Writing {
    /// Whether the last burst has come.
    fn is_last(&self) -> bool;
    /// What was counted and written so far.
    fn seen(&mut self) -> Seen;
    /// Gives each table a part, if need be an empty one: it can be read.
    fn begin_tables(&mut self);

    /// Takes what the user should know of the output.
    fn take_notes(&mut self) -> Vec<String>;
    /// Ends all open parts.
    fn end_parts(&mut self);
    /// Adds a row to the table `losses`.
    fn loss(&mut self, row: &LossRow);
    /// Whether data that comes from now on goes without checksums.
    fn set_relieved(&mut self, is_relieved: bool);
}

/// Looks after a run.
pub(super) struct Watch<'a> {
    pub(super) run: &'a mut Run,
    pub(super) stop: Stop,
    live: Option<Live>,
    follow: Option<Follow>,
    /// When the end was asked for, where a pipe is read: the same Ctrl-C ends its writer, and the
    /// rest of the writer's output is still to come.
    asked: Option<Duration>,
    reads_pipe: bool,
    /// A full disk is made room on.
    makes_room: bool,
    /// The folder is no longer at its path, and the user has been warned.
    is_elsewhere: bool,
    /// Frames only go into a capture file: nothing looks for operations.
    only_passes: bool,
    /// When parts end by the machine's clock.
    windows: Option<PartWindows>,
    began_ns: i64,
    /// Rows of frames that a port dropped, to be written.
    losses: Vec<LossRow>,
    /// Of the inputs so far.
    lapses: u64,
    is_relieved: bool,
    bursts: u64,
    /// The burst at which the inputs are looked at next.
    looks_next: u64,
    around: Around<'a>,
}

/// What a watch looks at.
pub(super) struct Around<'a> {
    pub(super) signals: &'a Signals,
    pub(super) manager: &'a ServiceManager,
    pub(super) clock: &'a SystemClock,
    pub(super) stopwatch: &'a Stopwatch,
    pub(super) budget: &'a Budget,
    pub(super) progress: &'a mut dyn Progress,
}

/// What only a live run has.
struct Live {
    account: Account,
    /// If checksums may be left out.
    relief: Option<Relief>,
    duration: Option<Duration>,
    /// When no more frames were let in.
    shut: Option<Duration>,
}

/// Frames that have arrived when a live run ends, or are still to come from a pipe, are read for at
/// most this time.
const DRAIN: Duration = Duration::from_millis(1500);

/// Reading the clock and the files' positions costs more than a burst of small frames: files are
/// looked after once in this many bursts.
const BURSTS: u64 = 64;

/// So often free pages go back to the kernel while memory is short.
const TRIM_S: u64 = 4;

/// Whether most of the memory is drawn: what the allocator keeps beside it then matters.
fn is_short(budget: &Budget) -> bool {
    budget.used_bytes() > budget.limit_bytes() / 4 * 3
}

impl<'a> Watch<'a> {
    pub(super) fn new(settings: &Settings, run: &'a mut Run, around: Around<'a>) -> Self {
        let rotation = &settings.rotation;
        Self {
            run,
            stop: Stop::End,
            live: settings.live.as_ref().map(|live| Live {
                account: Account::default(),
                relief: live.gives_up_checksums.then(Relief::default),
                duration: live.duration,
                shut: None,
            }),
            follow: settings.follow,
            asked: None,
            // Of other files parts end by their stamps.
            reads_pipe: rotation.by_clock && settings.inputs.iter().any(|path| is_pipe(path)),
            is_elsewhere: false,
            only_passes: false,
            makes_room: rotation.retention.is_limited(),
            windows: { rotation.by_clock }.then(|| PartWindows::new(rotation.part_time_ns())),
            began_ns: around.clock.now(),
            losses: Vec::new(),
            lapses: 0,
            is_relieved: false,
            bursts: 0,
            looks_next: BURSTS,
            around,
        }
    }

    /// Whether frames come whether or not they are read.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Where the latencies of a live run go.
    pub(super) fn latencies(&self) -> Option<Arc<SharedTimes>> {
        let live = self.live.as_ref()?;
        Some(Arc::clone(live.account.latencies()))
    }

    /// Warns the user.
    pub(super) fn warn(&mut self, warning: &str) {
        self.around.progress.warn(warning);
    }

    /// Notes why the run ends, unless the output failed before.
    pub(super) fn stop(&mut self, why: Stop) -> Step {
        if !matches!(self.stop, Stop::Output(_)) {
            self.stop = why;
        }
        Step::Stop
    }

    /// After each burst, and at the end.
    pub(super) fn on_burst(&mut self, port: &mut Input, writing: &mut impl Writing) -> Step {
        if self.around.signals.take_rotation_wanted() || self.has_window_ended() {
            writing.end_parts();
        }
        let step = self.look(port, writing);
        if self.live.is_none() {
            self.look_at_inputs(port, writing.is_last());
        }
        for row in self.losses.drain(..) {
            writing.loss(&row);
        }
        writing.set_relieved(self.is_relieved);
        step
    }

    /// Once in this many bursts, and at the end: how far the files have been read, and a row for
    /// each time that a ring of them lapped its reader.
    fn look_at_inputs(&mut self, port: &Input, is_last: bool) {
        if self.bursts < self.looks_next && !is_last {
            return;
        }
        let inputs = port.port().port().port().port();
        // The look takes time for each that is open.
        let open = inputs.open_count() as u64;
        self.looks_next = self.bursts + BURSTS.max(open / 4);
        let Totals { bytes, lapses } = inputs.totals();
        self.around.progress.set_position(bytes);
        let row = LossRow {
            time_ns: Some(self.around.clock.now()),
            cause: Some("ring_lapped"),
            ..LossRow::default()
        };
        let more = lapses - std::mem::replace(&mut self.lapses, lapses);
        self.losses.extend((0..more).map(|_| row.clone()));
    }

    /// Whether the machine's clock passed the end of a part: frames that stay away, or that come
    /// faster than they were recorded, show no time of their own.
    fn has_window_ended(&mut self) -> bool {
        let Some(windows) = &mut self.windows else {
            return false;
        };
        // From the stopwatch, since the clock may be set.
        let elapsed_ns = self.around.stopwatch.elapsed().as_nanos() as i64;
        windows.is_due(self.began_ns + elapsed_ns)
    }

    fn look(&mut self, port: &mut Input, writing: &mut impl Writing) -> Step {
        self.bursts += 1;
        let is_endless = self.live.is_some() || self.follow.is_some();
        if is_endless {
            let elapsed = self.around.stopwatch.elapsed();
            self.around.manager.beat(elapsed);
        }
        let step = match self.live {
            Some(_) => self.look_live(port, writing),
            None => self.look_at_files(),
        };
        if step == Step::Stop {
            return Step::Stop;
        }
        if self.around.signals.take_counters_wanted() {
            let line = self.live.as_ref().map(|live| live.account.line());
            let seen = with_filtered(writing.seen(), port);
            self.around
                .progress
                .counters(line.as_deref(), &seen.counters);
        }
        if self.live.is_none() && !self.bursts.is_multiple_of(BURSTS) {
            return Step::Continue;
        }
        if !self.run.is_due(self.around.stopwatch.elapsed()) {
            return Step::Continue;
        }
        self.note_live();
        // Not from the start: most runs over files are over by now.
        writing.begin_tables();
        let seen = with_filtered(writing.seen(), port);
        for note in writing.take_notes() {
            self.around.progress.warn(&note);
        }
        note(self.run, port, &seen);
        self.run.manifest.in_memory = Some(InMemory {
            time_ns: self.around.clock.now(),
            operations: seen.open_rows,
            waiting: seen.waiting.operations,
            calls_waiting: seen.waiting.calls,
            oldest_wait_ns: seen.waiting.oldest_ns,
        });
        if let Some(folder) = &self.run.folder
            && !self.is_elsewhere
            && folder.is_elsewhere()
            && !folder.is_removed()
        {
            self.is_elsewhere = true;
            let path = folder.path().display();
            self.around.progress.warn(&format!(
                "{path} was moved, or something else was put there: the run goes on in the folder \
                that it made, wherever that is now"
            ));
        }
        match self.run.keep() {
            Ok(()) => Step::Continue,
            // The oldest parts go before the next time.
            Err(error) if error.is_full() && self.makes_room => Step::Continue,
            Err(error) => self.stop(Stop::Output(error.to_string())),
        }
    }

    /// Ends a run that reads files: by a signal, or when files are no longer to be followed.
    fn look_at_files(&mut self) -> Step {
        let elapsed = || self.around.stopwatch.elapsed();
        if let Some(signal) = self.around.signals.stop() {
            let elapsed = elapsed();
            let asked = *self.asked.get_or_insert(elapsed);
            if !self.reads_pipe || elapsed - asked > DRAIN {
                return self.stop(Stop::Signal(signal));
            }
        } else if let Some(Follow {
            duration: Some(duration),
        }) = self.follow
            && elapsed() >= duration
        {
            return Step::Stop;
        }
        Step::Continue
    }

    /// Ends a live run by letting no more frames in and reading those that have come, and keeps its
    /// account.
    fn look_live(&mut self, port: &mut Input, writing: &mut impl Writing) -> Step {
        let Some(live) = &mut self.live else {
            return Step::Continue;
        };
        let around = &mut self.around;
        live.account.note_backlog(port);
        if let Some(relief) = &mut live.relief {
            self.is_relieved = relief.look(port, around.clock);
        }
        let elapsed = around.stopwatch.elapsed();
        let signal = around.signals.stop();
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
        if live.account.is_due(elapsed) || writing.is_last() || is_drained {
            let seen = with_filtered(writing.seen(), port);
            let now_ns = around.clock.now();
            let account = &mut live.account;
            self.losses = account.tick(elapsed, now_ns, port, &seen.counters, around.budget);
            account.set_waiting(seen.waiting);
            if elapsed.as_secs().is_multiple_of(TRIM_S) && is_short(around.budget) {
                lineside_host::release_free_pages();
            }
            let line = account.line();
            around.manager.status(&line);
            around.progress.set_line(&line);
        }
        match is_drained {
            true => Step::Stop,
            false => Step::Continue,
        }
    }

    fn note_live(&mut self) {
        let Some(live) = &self.live else { return };
        self.run.manifest.seconds = live.account.seconds();
        let reliefs = live.relief.iter().flat_map(|relief| &relief.times);
        self.run.manifest.reliefs = reliefs.copied().collect();
    }

    /// Why the run ended, and whether it has no end of its own: then its user decides when it is
    /// complete.
    pub(super) fn end(mut self) -> (Stop, bool) {
        self.note_live();
        if let Some(live) = &self.live {
            let elapsed = self.around.stopwatch.elapsed();
            let line = match self.only_passes {
                true => live.account.passed(elapsed),
                false => live.account.whole(elapsed),
            };
            self.around.progress.end_line(&line);
        }
        let is_endless = self.live.is_some() || self.follow.is_some();
        // A pipe came to its end, after its writer was asked to.
        let has_ended = matches!(self.stop, Stop::End) && self.asked.is_some();
        match self.around.signals.stop() {
            Some(signal) if has_ended => (Stop::Signal(signal), true),
            _ => (self.stop, is_endless || has_ended),
        }
    }

    /// Without a trace: frames only go into the capture file, which the port writes.
    pub(super) fn pass(&mut self, port: &mut Input, frames_max: u64) -> Ran {
        self.only_passes = true;
        let mut passing = Passing::default();
        let errors = receive_all(port, &mut passing, frames_max, |port, passing, moment| {
            passing.is_last = moment == Moment::Last;
            self.on_burst(port, passing)
        });
        Ran {
            tally: RowTally::default(),
            seen: passing.seen(),
            errors,
            runtime: None,
            notes: Vec::new(),
            failure: None,
        }
    }
}

/// Counts frames and lets them go.
#[derive(Default)]
struct Passing {
    arrivals: Arrivals,
    counters: Counters,
    is_last: bool,
}

impl Consumer for Passing {
    fn on_burst(&mut self, burst: &mut Burst) -> Step {
        for frame in burst.drain(..) {
            self.arrivals.on_frame(&frame, &mut self.counters);
        }
        Step::Continue
    }
}

impl Writing for Passing {
    fn is_last(&self) -> bool {
        self.is_last
    }

    fn seen(&mut self) -> Seen {
        Seen {
            counters: self.counters.clone(),
            ..Seen::default()
        }
    }

    fn take_notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn begin_tables(&mut self) {}

    fn end_parts(&mut self) {}

    fn loss(&mut self, _: &LossRow) {}

    fn set_relieved(&mut self, _: bool) {}
}

/// With the frames that the filter rejected, which only the port has seen, the tables of monitors,
/// and the rows that were not to be kept, which only the output has.
pub(super) fn with_filtered(mut seen: Seen, port: &Input) -> Seen {
    let (places, measured) = (port.port(), port.port().port());
    if let Some((summaries, removed)) = measured.written() {
        seen.summaries.extend(summaries);
        seen.removed.add(removed);
    }
    seen.counters.merge(measured.port().counters());
    seen.counters.merge(measured.dropped());
    seen.counters.merge(places.counters());
    seen.counters
        .add(Counter::RowsLimit, seen.removed.totals.rows);
    seen
}

/// Describes in `trace.json` what was read, counted and written.
pub(super) fn note(run: &mut Run, port: &Input, seen: &Seen) {
    run.manifest.inputs = inputs_facts(&port.facts());
    let clock = |(input, facts): (usize, &Facts)| {
        let is_stamped = |span: &&Span| span.first_ns <= span.last_ns;
        let span = seen.spans.get(input).filter(is_stamped);
        ClockFacts {
            input: facts.name.clone(),
            resolution_ns: facts.resolution_ns,
            error_ns: None,
            first_ns: span.map(|span| span.first_ns),
            last_ns: span.map(|span| span.last_ns),
        }
    };
    run.manifest.clocks = port.facts().into_iter().enumerate().map(clock).collect();
    run.set_rows(&seen.counters, &seen.summaries);
    run.manifest.removed = (seen.removed.totals.parts > 0).then_some(RemovedFacts {
        kept_since_ns: seen.removed.kept_since_ns,
        rows: seen.removed.totals.rows,
        parts: seen.removed.totals.parts,
        bytes: seen.removed.totals.bytes,
    });
}
