//! What is noted of a run, in its folder if it has one.

use lineside_host::{RunFolder, SystemClock};
use lineside_path::Certificate;
use lineside_time::Clock;
use lineside_trace::{InputFacts, Manifest};

use super::flags::Arguments;
use crate::link::asked::Asked;
use crate::link::control::Controlled;
use crate::outputs::begin_manifest;

/// What is noted of a run, in its folder if it has one.
pub(super) struct Notes {
    pub(super) folder: Option<RunFolder>,
    pub(super) manifest: Manifest,
    clock: SystemClock,
}

impl Notes {
    /// Makes the folder. `inputs` is what the frames come from.
    pub(super) fn begin(
        arguments: &Arguments,
        inputs: &impl std::fmt::Debug,
    ) -> anyhow::Result<Self> {
        let folder = { arguments.output.as_ref() }
            .map(|output| RunFolder::create(output, arguments.force == Some(true)))
            .transpose()?;
        let clock = SystemClock::default();
        let configuration = arguments.configuration();
        let manifest = begin_manifest(inputs, configuration, clock.now());
        Ok(Self {
            folder,
            manifest,
            clock,
        })
    }

    /// Writes what is known before the first frame, and has changes taken from then on.
    pub(super) fn listen(&self, asked: Asked) -> anyhow::Result<Option<Controlled>> {
        self.write()?;
        let folder = self.folder.as_ref();
        Ok(folder.and_then(|folder| Controlled::listen(folder, asked)))
    }

    pub(super) fn write(&self) -> anyhow::Result<()> {
        if let Some(folder) = &self.folder {
            folder.replace("trace.json", self.manifest.to_json().as_bytes())?;
        }
        Ok(())
    }

    /// Of a run that could not begin: the next try finds the folder as this one did.
    pub(super) fn withdraw(&self) {
        self.folder.iter().for_each(RunFolder::withdraw);
    }

    /// Writes what came of it; `json` is the certificate as it is told.
    pub(super) fn end(
        mut self,
        inputs: Vec<InputFacts>,
        certificate: &Certificate,
        json: &serde_json::Value,
    ) -> anyhow::Result<()> {
        self.manifest.inputs = inputs;
        self.manifest.verdict = certificate.verdict.clone();
        self.manifest.certificate = Some(json.clone());
        self.manifest.ended_ns = Some(self.clock.now());
        self.write()
    }
}
