//! The record of a live run while it goes on: written when the run starts, and again as it goes
//! on, by a thread of its own. A run that is killed leaves what it had measured by then.
//!
//! ```text
//!  the loop ── each second: what makes a certificate ──► thread ──► trace.json, `unfinished`
//! ```
//!
//! The loop takes a copy of its counts and waits for nothing: while the thread still writes, a
//! second is left out.

use std::cell::OnceCell;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use lineside_host::{Confined, FolderError};
use lineside_time::Nanoseconds;
use lineside_trace::{InMemory, State, Verdict};
use serde::Serialize;

use crate::{Run, sandbox_facts};

/// Makes a certificate, outside the loop.
type Make = Box<dyn FnOnce() -> Option<serde_json::Value> + Send>;

/// A run that goes on, as its folder describes it; by default one without a folder.
#[derive(Default)]
pub struct Record {
    run: Run,
    writing: OnceCell<Writing>,
}

struct Writing {
    sender: SyncSender<(Nanoseconds, Verdict, Make)>,
    thread: JoinHandle<()>,
}

/// The verdict of a run that goes on, or was killed, after so long.
pub fn so_far(elapsed: Duration) -> Verdict {
    Verdict {
        state: State::Unfinished,
        reasons: vec![format!(
            "its counts and times are those of the first {} s",
            elapsed.as_secs()
        )],
        ..Verdict::default()
    }
}

impl Record {
    pub(crate) fn of(run: &Run) -> Self {
        Self {
            run: run.clone(),
            writing: OnceCell::new(),
        }
    }

    /// The run is in its sandbox.
    pub fn on_confined(&mut self, confined: &Confined) {
        self.run.manifest.sandbox = Some(sandbox_facts(confined));
    }

    /// The run starts, as [`Run::save`] has it: to be called once all that can fail has been tried,
    /// in the sandbox.
    pub fn start(&self) -> Result<(), FolderError> {
        self.run.save()?;
        let Some(folder) = &self.run.folder else {
            return Ok(());
        };
        let path = folder.path().to_owned();
        let mut run = self.run.clone();
        // One waits at most: what is older is of no use.
        let (sender, receiver) = sync_channel(1);
        let thread = Builder::new().name("record".to_owned());
        let thread = thread.spawn(move || write_all(&mut run, &receiver));
        let thread = thread
            .map_err(|error| FolderError::io(&path, "start the thread that writes", error))?;
        let is_first = self.writing.set(Writing { sender, thread }).is_ok();
        assert!(is_first, "a run starts once");
        Ok(())
    }

    /// Writes what `certificate` makes of the verdict of a run that has gone on for so long at
    /// `now`. Without a folder it makes nothing.
    pub fn keep<C: Serialize + Send + 'static>(
        &self,
        now: Nanoseconds,
        elapsed: Duration,
        certificate: impl FnOnce(Verdict) -> C,
    ) {
        let Some(Writing { sender, .. }) = self.writing.get() else {
            return;
        };
        let verdict = so_far(elapsed);
        let made = certificate(verdict.clone());
        let make = Box::new(move || serde_json::to_value(made).ok());
        // The thread writes still: a slow disk.
        let _ = sender.try_send((now, verdict, make));
    }

    /// Nothing is written from now on; what holds of the sandbox.
    pub(crate) fn end(mut self) -> Option<lineside_trace::SandboxFacts> {
        self.stop();
        self.run.manifest.sandbox.take()
    }

    fn stop(&mut self) {
        if let Some(Writing { sender, thread }) = self.writing.take() {
            drop(sender);
            // What it had was no more than the end has.
            let _ = thread.join();
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.stop();
    }
}

fn write_all(run: &mut Run, receiver: &Receiver<(Nanoseconds, Verdict, Make)>) {
    while let Ok((time_ns, verdict, make)) = receiver.recv() {
        if let Some(certificate) = make() {
            run.manifest.in_memory = Some(InMemory {
                time_ns,
                ..InMemory::default()
            });
            run.manifest.verdict = verdict;
            run.manifest.certificate = Some(certificate);
            // That it cannot be written is no news before the end, which has room of its own.
            let _ = run.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(out: &Path) -> serde_json::Value {
        let text = std::fs::read_to_string(out.join("trace.json")).expect("there");
        serde_json::from_str(&text).expect("whole")
    }

    #[test]
    fn a_record_has_what_was_measured_while_the_run_goes_on() {
        let parent = tempfile::tempdir().expect("a folder");
        let out = parent.path().join("run");
        let run = Run::begin(Some(&out), false, &"a", serde_json::Value::Null, 5).expect("created");
        let mut record = Record::of(&run);
        record.keep(0, Duration::ZERO, |_| -> () {
            unreachable!("it has not started")
        });
        record.start().expect("started");
        assert!(read(&out)["certificate"].is_null());
        record.keep(9, Duration::from_secs(7), |verdict| (5, verdict.state));
        record.stop();
        let read = read(&out);
        let verdict = &read["verdict"];
        assert_eq!(verdict["state"], "unfinished");
        assert_eq!(
            verdict["reasons"][0],
            "its counts and times are those of the first 7 s"
        );
        assert_eq!(read["in_memory"]["time_ns"], 9);
        assert_eq!(read["certificate"], serde_json::json!([5, "unfinished"]));
        // Without a folder nothing is made.
        let record = Record::default();
        record.start().expect("nothing to write");
        record.keep(0, Duration::ZERO, |_| -> () {
            unreachable!("there is no folder")
        });
    }
}
