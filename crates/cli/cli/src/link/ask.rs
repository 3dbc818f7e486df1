//! Asking a run by the socket of its folder.

use std::io;
use std::path::Path;

use anyhow::{Context, anyhow};
use lineside_run::request::{Answer, Done, Request, read_answer};
use lineside_store::ControlClient;
use lineside_trace::{Manifest, State};

use crate::config::ConfigError;
use crate::confine::{self, Confining};

/// A run that is asked from a sandbox: what it answers, or whoever made its folder, is foreign.
pub(crate) struct Asked<'a> {
    folder: &'a Path,
    caller: ControlClient,
}

impl<'a> Asked<'a> {
    /// The run that writes this folder. To be called when all else that the user named was read.
    pub(crate) fn new(folder: &'a Path, confining: Confining) -> anyhow::Result<Self> {
        let caller = ControlClient::start(folder).context("cannot start a process to connect")?;
        confining.enter(confine::trace(folder), None)?;
        Ok(Self { folder, caller })
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &'a Path {
        self.folder
    }

    /// Asks it, and waits for what it has done; a refusal is an error.
    pub(crate) fn done(&self, request: &Request) -> anyhow::Result<Done> {
        let answer = self.answer(request)?;
        let answer = answer.map_err(|error| anyhow!(why_none(self.folder, &error)))?;
        Ok(answer.map_err(|why| ConfigError::usage(&why))?)
    }

    /// Asks it, and waits for its answer; the inner error is that there is none.
    pub(crate) fn answer(&self, request: &Request) -> anyhow::Result<io::Result<Answer>> {
        let answer = match self.caller.ask(&request.to_json()?) {
            Ok(answer) => read_answer(&answer),
            Err(error) => return Ok(Err(error)),
        };
        let answer = answer.map_err(|why| anyhow!("{}: {why}", self.folder.display()))?;
        Ok(Ok(answer))
    }
}

/// The reason for which a run does not answer.
pub(crate) fn why_none(run: &Path, error: &io::Error) -> String {
    let manifest = lineside_trace::manifest_text(&run.join("trace.json"));
    let manifest = manifest
        .ok()
        .and_then(|text| Manifest::from_json(&text).ok());
    let state = manifest.map(|manifest| manifest.verdict.state);
    let why = match (error.kind(), state) {
        (io::ErrorKind::PermissionDenied, _) => {
            "the run belongs to another user: run ctl as that user, or with sudo".to_owned()
        }
        (io::ErrorKind::NotFound, _) if lineside_store::is_running(run) => {
            "the run there takes no requests now: only 'lineside emulate' between interfaces or \
            commands with -o does, 'lineside forward' with -o, and 'lineside capture -i' with \
            --monitor for stats, until they end"
                .to_owned()
        }
        // It may have ended since: that it still runs is certain, that it had ended is not.
        _ if lineside_store::is_running(run) => {
            format!("the run goes on, but did not answer ({error}): try again")
        }
        (_, Some(State::Unfinished)) => format!(
            "the run was killed before it could finish; 'lineside report {}' prints what it left",
            run.display()
        ),
        (_, Some(_)) => format!(
            "the run has ended; 'lineside report {}' prints what it did",
            run.display()
        ),
        (io::ErrorKind::NotFound, None) => {
            "there is no such run: give the folder of its -o".to_owned()
        }
        (_, None) => error.to_string(),
    };
    format!("{}: {why}", run.display())
}
