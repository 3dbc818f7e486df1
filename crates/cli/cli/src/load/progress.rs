//! A line a second while a load runs.

use std::io::IsTerminal;

use lineside_host::{FolderError, Signals};
use lineside_load::hdr::HdrLog;
use lineside_load::outcome::{Observer, RunSecond};
use lineside_load::recording::Recording;
use lineside_time::Nanoseconds;
use lineside_words::{bytes, grouped, time};

use super::flags::Arguments;
use super::keeping::Keeping;
use crate::print::talk;

/// Watches a run for the terminal, and for signals.
pub(super) struct Progress<'a> {
    signals: &'a Signals,
    recording: Option<&'a Recording>,
    pub(super) log: Option<HdrLog>,
    pub(super) keeping: Option<Keeping<'a>>,
    prints: bool,
    failed: u64,
    /// A signal asked for the end.
    pub(super) was_stopped: bool,
    /// The record could not be written, so that nothing began.
    unstarted: Option<FolderError>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(
        arguments: &Arguments,
        recording: Option<&'a Recording>,
        signals: &'a Signals,
    ) -> Self {
        let is_seen = arguments.verbose || std::io::stderr().is_terminal();
        Self {
            signals,
            recording,
            log: None,
            keeping: None,
            prints: is_seen && !arguments.quiet,
            failed: 0,
            was_stopped: false,
            unstarted: None,
        }
    }

    /// The log, and whether a signal ended the run; an error if it did not begin.
    pub(super) fn end(self) -> Result<(Option<HdrLog>, bool), FolderError> {
        { self.unstarted }.map_or(Ok((self.log, self.was_stopped)), Err)
    }

    /// Of many runs, none is shown by seconds.
    pub(super) fn is_trial(&mut self) {
        self.prints = false;
    }
}

impl Observer for Progress<'_> {
    fn start_at(&mut self, open: u32, soon: Nanoseconds) -> Option<Nanoseconds> {
        // The trace of before goes only now: no server may have been there, or no port free.
        if let Some(Err(error)) = self.keeping.as_ref().map(Keeping::start) {
            self.unstarted = Some(error);
            return None;
        }
        if let Some(recording) = self.recording {
            recording.begin();
        }
        if let Some(log) = &mut self.log {
            log.begin(soon);
        }
        if self.prints {
            talk(&format!(
                "{:>6} {:>9} {:>12} {:>12} {:>10} {:>10} {:>10} {:>8}\n",
                "", "open", "answers/s", "bytes/s", "p50", "p99", "max", "failed"
            ));
            talk(&format!("{:>6} {:>9}\n", "0 s", grouped(open.into())));
        }
        Some(soon)
    }

    fn on_second(&mut self, second: &RunSecond) {
        if let Some(log) = &mut self.log {
            log.on_second(second);
        }
        if let Some(keeping) = &mut self.keeping {
            keeping.on_second(second);
        }
        let failed = second.counts.failed.iter().sum::<u64>();
        let failed_now = failed - std::mem::replace(&mut self.failed, failed);
        if !self.prints {
            return;
        }
        let times = second
            .latency_ns
            .map_or_else(|| ["-", "-", "-"].map(str::to_owned), |all| all.map(time));
        let [median, p99, most] = times;
        talk(&format!(
            "{:>4} s {:>9} {:>12} {:>12} {median:>10} {p99:>10} {most:>10} {:>8}\n",
            second.number,
            grouped(second.open.into()),
            grouped(second.answered),
            bytes(second.received_bytes),
            grouped(failed_now)
        ));
    }

    fn stops(&mut self) -> bool {
        let stops = self.signals.stop().is_some();
        self.was_stopped |= stops;
        stops
    }
}
