//! `lineside emulate` between two interfaces or two commands: the run of `lineside_path::emulate`,
//! its folder, and what is printed of it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use anyhow::Context;
use lineside_account::Budget;
use lineside_host::Signals;
use lineside_path::emulate::{Taken, Taking};
use lineside_path::settings::{LinkSpec, StepContext};
use lineside_path::{Certificate, Path};
use lineside_render::{link_line, nothing_passed};

use super::flags::Arguments;
use super::notes::Notes;
use super::print::lines;
use super::settings::BetweenSettings;
use crate::exit::Exit;
use crate::link::section::COMMAND_SIDES;
use crate::print::{print, print_json, print_styled, say, talk, warn};

impl Arguments {
    /// Between two commands.
    pub(super) fn run_commands(
        &self,
        path: Path,
        (spec, context): (LinkSpec, StepContext),
        budget: &Budget,
    ) -> anyhow::Result<Exit> {
        let signals = Signals::register().context("cannot handle signals")?;
        let mut commands = self.commands(budget, &signals)?;
        let mut notes = Notes::begin(self, &self.keys.client)?;
        let mut taking = self.taking(&notes, &COMMAND_SIDES, budget)?;
        let looks = taking.as_mut().and_then(Taking::looks);
        let controlled = notes.listen(budget, (spec, context), looks)?;
        let sandbox = self.sandbox(notes.run.folder.as_ref());
        let tapping = taking.map(Taking::tapping);
        let ran = notes.run.drive(sandbox, |sandbox, record| {
            commands.sandbox = sandbox;
            commands.run(path, controlled, tapping, record, &mut |event| {
                self.print_event(&event);
            })
        });
        let (outcome, status, taken) = ran?;
        let taken = Taken::note(taken, &mut notes.run, &outcome.certificate, &mut warn);
        let json = serde_json::to_value(&outcome.certificate)?;
        // Between commands, three ports are the client's two and the server's.
        let passes_loopback = outcome.inputs.len() > COMMAND_SIDES.len();
        let beside = (!passes_loopback).then(|| outcome.beside.unwrap_or_default());
        let (_, kept) = notes.end(outcome.inputs, &outcome.certificate, &json);
        // Standard output belongs to the client, except for requested output.
        if self.json {
            print_json(&json)?;
        } else if self.certificate && !self.quiet {
            talk(&lines(&outcome.certificate));
        } else if !self.quiet {
            say(&link_line(&outcome.certificate));
        }
        let sentence = nothing_passed(&outcome.certificate, beside);
        if let Some(sentence) = sentence.filter(|_| !self.quiet) {
            warn(&sentence);
        }
        outcome.failure.map_or(Ok(()), Err)?;
        kept?;
        taken?;
        let held = || self.held(&outcome.certificate);
        Ok(match (outcome.signal, status) {
            // A client that ended well after TERM was not cut short.
            (_, Some(status)) if status.success() => held(),
            (Some(signal), _) => Exit::Signal(signal),
            // A step ended it, and with it the client.
            _ if outcome.is_over => held(),
            (None, Some(status)) => exit(status),
            (None, None) => Exit::Failure,
        })
    }

    /// Between interfaces, or this host and one.
    pub(super) fn run_between(
        &self,
        path: Path,
        (spec, context): (LinkSpec, StepContext),
        budget: &Budget,
    ) -> anyhow::Result<Exit> {
        let settings = BetweenSettings::read(self)?;
        let signals = Signals::register().context("cannot handle signals")?;
        let sides = settings.names();
        let mut notes = Notes::begin(self, &sides)?;
        let folder = notes.run.folder.clone();
        let sides: Vec<_> = sides.iter().map(String::as_str).collect();
        let mut taking = self.taking(&notes, &sides, budget)?;
        let looks = taking.as_mut().and_then(Taking::looks);
        let controlled = notes.listen(budget, (spec, context), looks)?;
        let file = taking.as_ref().map(Taking::file).transpose()?.flatten();
        let sandbox = self.sandbox(folder.as_ref());
        let tapping = taking.map(Taking::tapping);
        let ran = notes.run.drive(sandbox, |sandbox, record| {
            let given = (file, sandbox);
            let between = settings.into_run(budget, folder.as_ref(), given, &signals);
            between.run(path, controlled, tapping, record, &mut |event| {
                self.print_event(&event);
            })
        });
        let (outcome, taken) = ran?;
        for warning in outcome.inputs.iter().flat_map(|input| &input.warnings) {
            warn(warning);
        }
        let mut certificate = outcome.certificate;
        certificate.machine = Some(notes.run.manifest.machine.clone());
        let json = serde_json::to_value(&certificate)?;
        let taken = Taken::note(taken, &mut notes.run, &certificate, &mut warn);
        let (closing, kept) = notes.end(outcome.inputs, &certificate, &json);
        if self.json {
            print_json(&json)?;
        } else if !self.quiet {
            match self.certificate {
                true => print(&lines(&certificate))?,
                false => print_styled(&closing)?,
            }
        }
        outcome.failure.map_or(Ok(()), Err)?;
        kept?;
        taken?;
        // It has no end of its own: a signal that ends it cuts nothing short.
        Ok(self.held(&certificate))
    }
}

impl Arguments {
    /// The status of a run that came to its end.
    pub(super) fn held(&self, certificate: &Certificate) -> Exit {
        Exit::of_state(certificate.verdict.state, self.keys.strict == Some(true))
    }
}

/// The client's status as that of this process.
fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(0), _) => Exit::Done,
        (Some(code), _) => Exit::Program(code as u8),
        (None, Some(signal)) => Exit::Signal(signal as u8),
        (None, None) => Exit::Failure,
    }
}
