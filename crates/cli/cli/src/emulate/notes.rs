//! The record of a run, in its folder if it has one.

use lineside_account::Budget;
use lineside_host::{FolderError, SystemClock};
use lineside_measure::monitor::Words;
use lineside_path::Certificate;
use lineside_path::emulate::Controlled;
use lineside_path::settings::{LinkSpec, StepContext, listen};
use lineside_run::{DropInSettings, Looks, Measuring, Pace, PartRotation, Run};
use lineside_store::RunFolder;
use lineside_time::Clock;
use lineside_trace::InputFacts;

use super::flags::Arguments;
use crate::outputs::or_warn;
use crate::print::closing;

/// The record of a run, in its folder if it has one.
pub(super) struct Notes {
    pub(super) run: Run,
    clock: SystemClock,
}

impl Notes {
    /// Makes the folder. `inputs` are the sources of frames.
    pub(super) fn begin(
        arguments: &Arguments,
        inputs: &impl std::fmt::Debug,
    ) -> Result<Self, FolderError> {
        let clock = SystemClock::default();
        let output = arguments.keys.output.as_deref();
        let (force, configuration) = (arguments.keys.force == Some(true), arguments.keys.to_json());
        let run = Run::begin(output, force, inputs, configuration, clock.now())?;
        Ok(Self { run, clock })
    }

    /// Keeps room for what is written at the end, and takes requests from now on; `looks` is where
    /// monitors are asked.
    pub(super) fn listen(
        &self,
        budget: &Budget,
        (spec, context): (LinkSpec, StepContext),
        looks: Option<Looks>,
    ) -> Result<Option<Controlled>, FolderError> {
        self.run.keep_room()?;
        let folder = self.run.folder.as_ref();
        let listening = folder.map(|folder| listen(folder, budget, spec, context, looks));
        Ok(listening.and_then(or_warn))
    }

    /// Monitors and drop-ins with tables in the folder; `None` without any. The
    /// parts of monitors' tables end as `rotation` says.
    pub(super) fn measuring(
        &self,
        words: &[Words],
        drop_ins: &DropInSettings,
        pace: Pace,
        rotation: &PartRotation,
        budget: &Budget,
    ) -> Option<Measuring> {
        let folder = self.run.folder.as_ref();
        let folder = folder.filter(|_| !words.is_empty() || !drop_ins.programs.is_empty())?;
        let trace_id = &self.run.manifest.trace_id;
        let measuring = Measuring::new(words, folder, trace_id, rotation, budget);
        Some(measuring.with_drop_ins(drop_ins, pace, folder, trace_id, budget))
    }

    /// Writes the outcome; `json` is the certificate as it is printed. Returns its first screen,
    /// and whether it was written.
    pub(super) fn end(
        mut self,
        inputs: Vec<InputFacts>,
        certificate: &Certificate,
        json: &serde_json::Value,
    ) -> (String, Result<(), FolderError>) {
        self.run.manifest.inputs = inputs;
        self.run.manifest.certificate = Some(json.clone());
        let now_ns = self.clock.now();
        let kept = self.run.end(certificate.verdict.clone(), now_ns);
        let folder = self.run.folder.as_ref().map(RunFolder::path);
        (closing(folder, &self.run.manifest), kept)
    }
}
