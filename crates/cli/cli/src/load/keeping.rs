//! What a load keeps on the disk while it goes on, for the case that it is killed.

use lineside_host::{FolderError, SystemClock};
use lineside_load::outcome::RunSecond;
use lineside_load::prepared::Prepared;
use lineside_load::recording::Recording;
use lineside_load::so_far::SoFar;
use lineside_run::Run;
use lineside_time::Clock;
use lineside_trace::InMemory;
use lineside_trace::certificate::load::Limits;

use crate::print::warn;

/// Writes what came of the seconds that are over into `trace.json`.
pub(super) struct Keeping<'a> {
    run: &'a mut Run,
    prepared: &'a Prepared,
    recording: Option<&'a Recording>,
    /// Every request has a row.
    has_all_rows: bool,
    limits: Limits,
    so_far: SoFar,
    has_warned: bool,
}

impl<'a> Keeping<'a> {
    /// With a row for each `every`-th request.
    pub(super) fn new(
        run: &'a mut Run,
        prepared: &'a Prepared,
        recording: Option<&'a Recording>,
        every: Option<u64>,
        limits: Limits,
    ) -> Self {
        Self {
            run,
            prepared,
            recording,
            has_all_rows: every == Some(1),
            limits,
            so_far: SoFar::default(),
            has_warned: false,
        }
    }

    /// Requests are about to leave.
    pub(super) fn start(&self) -> Result<(), FolderError> {
        self.run.save()
    }

    /// A second is over.
    pub(super) fn on_second(&mut self, second: &RunSecond) {
        let Some(recording) = self.recording else {
            return;
        };
        if !self.has_warned
            && let Some(why) = recording.failure()
        {
            self.has_warned = true;
            warn(&format!(
                "{why}: the load goes on, and the rows of its requests are missing from now on"
            ));
        }
        self.so_far.on_second(second);
        if self.so_far.is_due() {
            self.keep(recording);
        }
    }

    /// That it cannot be written is no news before the end, which has room of its own.
    fn keep(&mut self, recording: &Recording) {
        let certificate = self.so_far.certificate(self.prepared, self.limits);
        let Ok(json) = serde_json::to_value(&certificate) else {
            return;
        };
        let (tables, in_memory) = recording.so_far();
        let manifest = &mut self.run.manifest;
        manifest.tables = { tables.into_iter() }
            .map(|(table, summary)| (table.name().to_owned(), summary))
            .collect();
        manifest.in_memory = self.has_all_rows.then(|| InMemory {
            time_ns: SystemClock::default().now(),
            operations: in_memory,
            waiting: self.so_far.outstanding(),
            calls_waiting: self.so_far.outstanding(),
            oldest_wait_ns: 0,
        });
        manifest.verdict = certificate.verdict;
        manifest.certificate = Some(json);
        let _ = self.run.keep();
    }
}
