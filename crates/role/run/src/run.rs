//! The begin, the ticks and the end of a run: its folder and what `trace.json` records of it. The
//! verdict is decided in `verdict`, from a table.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use lineside_account::Counters;
use lineside_host::{FolderError, MachineFacts};
use lineside_store::RunFolder;
use lineside_trace::{CounterValue, Machine, Manifest, SCHEMA_VERSION, Summaries, Tool, Verdict};
use twox_hash::XxHash3_64;

use crate::own::{TOOL, is_trace};
use crate::{DropInReport, Measuring};

/// How often `trace.json` is rewritten while a run goes on.
const REWRITE: Duration = Duration::from_secs(5);

/// Room that a run keeps for its last `trace.json`: more than the certificate of a forwarder with
/// 600 steps of 64 nodes has.
const ROOM_BYTES: u64 = 512 << 10;

/// A run's record of itself: what its `trace.json` says, in its folder if it has one.
#[derive(Default, Clone)]
pub struct Run {
    /// Where the run writes; `None` if it leaves no folder.
    pub folder: Option<RunFolder>,
    /// What is known of the run so far.
    pub manifest: Manifest,
    /// When `trace.json` was last rewritten, since the start.
    saved: Duration,
}

impl Run {
    /// Makes the folder `output`, if one is wanted, and describes the run. Nothing is in the folder
    /// until [`save`](Self::save).
    ///
    /// `inputs` is what frames come from, and only distinguishes two runs; `configuration` is the
    /// resolved one.
    pub fn begin(
        output: Option<&Path>,
        force: bool,
        inputs: &impl Debug,
        configuration: serde_json::Value,
        now_ns: i64,
    ) -> Result<Self, FolderError> {
        let folder = output.map(|output| RunFolder::create(output, force.then_some(is_trace)));
        Ok(Self::in_folder(
            folder.transpose()?,
            inputs,
            configuration,
            now_ns,
        ))
    }

    /// The same in a folder that is there.
    pub fn in_folder(
        folder: Option<RunFolder>,
        inputs: &impl Debug,
        configuration: serde_json::Value,
        now_ns: i64,
    ) -> Self {
        let machine = MachineFacts::ask();
        // Two runs of one machine differ in when they began and in their process.
        let seed = format!("{now_ns} {} {inputs:?}", std::process::id());
        let manifest = Manifest {
            schema_version: SCHEMA_VERSION.to_owned(),
            tool: Tool {
                name: TOOL.to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            trace_id: format!("{:016x}", XxHash3_64::oneshot(seed.as_bytes())),
            started_ns: Some(now_ns),
            configuration,
            machine: Machine {
                cores: machine.cores,
                memory_bytes: machine.memory_bytes,
                kernel: machine.kernel,
                cpu_model: machine.cpu_model,
                settings: machine.settings,
            },
            ..Manifest::default()
        };
        Self {
            folder,
            manifest,
            saved: Duration::ZERO,
        }
    }

    /// Keeps room on the disk for the last `trace.json`, which a full disk would not take.
    pub fn keep_room(&self) -> Result<(), FolderError> {
        { self.folder.iter() }.try_for_each(|folder| folder.keep_room(ROOM_BYTES))
    }

    /// Writes `trace.json` as it stands. With the first one the run starts, and what was in its
    /// folder goes: to be called when all that can fail has been tried.
    pub fn save(&self) -> Result<(), FolderError> {
        match &self.folder {
            Some(folder) => folder.replace("trace.json", self.manifest.to_json().as_bytes()),
            None => Ok(()),
        }
    }

    /// Writes `trace.json` as it stands, and sees to it that the last one, which may be twice as
    /// long, will have room.
    pub fn keep(&self) -> Result<(), FolderError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let json = self.manifest.to_json();
        folder.replace("trace.json", json.as_bytes())?;
        folder.keep_room(2 * json.len() as u64)
    }

    /// Whether `trace.json` is due to be rewritten; to be followed by [`save`](Self::save).
    pub fn is_due(&mut self, elapsed: Duration) -> bool {
        let is_due = elapsed - self.saved >= REWRITE;
        if is_due {
            self.saved = elapsed;
        }
        is_due
    }

    /// Writes the last `trace.json`.
    pub fn end(&mut self, verdict: Verdict, now_ns: i64) -> Result<(), FolderError> {
        self.manifest.verdict = verdict;
        self.manifest.ended_ns = Some(now_ns);
        self.manifest.in_memory = None;
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        folder.replace_last(self.manifest.to_json().as_bytes())?;
        folder.sync()
    }

    /// Notes what came of drop-ins.
    pub fn set_drop_ins(&mut self, report: DropInReport) {
        self.manifest.tables.extend(report.tables);
        self.manifest.drop_ins = report.facts;
    }

    /// Ends the tables of monitors, and notes what is in them; `warn` takes what a user should
    /// know. The error is why they measured no more.
    pub fn end_measuring(
        &mut self,
        measuring: Option<Measuring>,
        warn: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let Some(ending) = measuring.map(Measuring::end) else {
            return Ok(());
        };
        ending.warnings.iter().for_each(|warning| warn(warning));
        self.set_drop_ins(ending.drop_ins);
        let tables = ending.tables?.into_iter();
        let tables = tables.map(|(table, summary)| (table.name().to_owned(), summary));
        self.manifest.tables.extend(tables);
        Ok(())
    }

    /// Notes what was counted, and what the tables hold.
    pub fn set_rows(&mut self, counters: &Counters, tables: &Summaries) {
        let counters = counters.iter().map(|(counter, value)| {
            let meaning = counter.meaning().to_owned();
            (counter.name().to_owned(), CounterValue { value, meaning })
        });
        self.manifest.counters = counters.collect();
        let tables = tables.iter();
        let tables = tables.map(|(table, summary)| (table.name().to_owned(), *summary));
        self.manifest.tables = tables.collect();
    }
}

#[cfg(test)]
mod tests {
    use lineside_account::Counter;
    use lineside_trace::State;

    use super::*;

    #[test]
    fn a_run_is_unfinished_until_its_end() {
        let parent = tempfile::tempdir().expect("a folder");
        let out = parent.path().join("run");
        let configuration = serde_json::json!({ "capture": {} });
        let mut run = Run::begin(Some(&out), false, &"a", configuration, 5).expect("created");
        run.save().expect("written");
        let read = || {
            let text = std::fs::read_to_string(out.join("trace.json")).expect("there");
            Manifest::from_json(&text).expect("whole")
        };
        assert_eq!(read().verdict.state, State::Unfinished);
        assert_eq!((read().started_ns, read().ended_ns), (Some(5), None));
        assert!(!run.is_due(Duration::from_secs(4)));
        assert!(run.is_due(Duration::from_secs(6)));
        assert!(!run.is_due(Duration::from_secs(10)));
        let mut counters = Counters::new();
        counters.count(Counter::RpcCalls);
        run.set_rows(&counters, &Summaries::default());
        let verdict = Verdict {
            state: State::Complete,
            ..Verdict::default()
        };
        run.end(verdict, 9).expect("written");
        assert_eq!(read().verdict.state, State::Complete);
        assert_eq!(read().ended_ns, Some(9));
        assert_eq!(read().counters["rpc.calls"].value, 1);
    }

    #[test]
    fn a_run_that_could_not_start_leaves_nothing() {
        let parent = tempfile::tempdir().expect("a folder");
        let out = parent.path().join("run");
        let begin = || Run::begin(Some(&out), false, &"a", serde_json::Value::Null, 5);
        let run = begin().expect("created");
        run.keep_room().expect("there is room");
        drop(run);
        assert!(
            !out.exists() && begin().is_ok(),
            "as if there had been none"
        );
    }
}
