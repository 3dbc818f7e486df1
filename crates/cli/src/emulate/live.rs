//! `lineside emulate` between two interfaces or two commands: the run of `lineside_path::emulate`,
//! its folder, and what is printed of it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use anyhow::{Context, anyhow};
use lineside_account::Budget;
use lineside_capture::{Seen, capture_into};
use lineside_host::{RunFolder, Signals};
use lineside_path::{Certificate, Path};
use lineside_reactor::TapPort;
use lineside_trace::{State, Table};

use super::flags::Arguments;
use super::live_print::{line, loop_lines, nothing_passed};
use super::notes::Notes;
use super::print::lines;
use super::settings::BetweenSettings;
use crate::exit::Exit;
use crate::link::spec::LinkSpec;
use crate::print::{print, print_json, say, talk, warn};

impl Arguments {
    /// Between two commands.
    pub(super) fn run_commands(
        &self,
        path: Path,
        spec: LinkSpec,
        budget: &Budget,
    ) -> anyhow::Result<Exit> {
        let signals = Signals::register().context("cannot handle signals")?;
        let commands = self.commands(budget, &signals)?;
        let notes = Notes::begin(self, &self.keys.client)?;
        let controlled = notes.listen(spec)?;
        let ran = commands.run(path, controlled, &mut |event| self.print_event(&event));
        let (outcome, status) = ran.inspect_err(|_| notes.run.withdraw())?;
        let mut json = serde_json::to_value(&outcome.certificate)?;
        json["loop"] = serde_json::to_value(&outcome.facts)?;
        notes.end(outcome.inputs, &outcome.certificate, &json)?;
        // Standard output belongs to the client, except for requested output.
        if self.json {
            print_json(&json)?;
        } else if self.certificate && !self.quiet {
            let certificate = lines(&outcome.certificate);
            talk(&(certificate + &loop_lines(&outcome.facts)));
        } else if !self.quiet {
            say(&line(&outcome.certificate));
        }
        let sentence = nothing_passed(&outcome.certificate, outcome.beside, &self.keys);
        if let Some(sentence) = sentence.filter(|_| !self.quiet) {
            warn(&sentence);
        }
        outcome.failure.map_or(Ok(()), Err)?;
        // A test suite that passed on a busy machine has passed.
        let is_measured = self.keys.server.is_some() || self.keys.strict == Some(true);
        Ok(match (outcome.signal, status) {
            // A client that ended well after TERM was not cut short.
            (_, Some(status)) if status.success() && is_measured => held(&outcome.certificate),
            (_, Some(status)) if status.success() => Exit::Done,
            (Some(signal), _) => Exit::Signal(signal),
            (None, Some(status)) => exit(status),
            (None, None) => Exit::Failure,
        })
    }

    /// Between two interfaces.
    pub(super) fn run_between(
        &self,
        path: Path,
        spec: LinkSpec,
        budget: &Budget,
    ) -> anyhow::Result<Exit> {
        let settings = BetweenSettings::read(self)?;
        let signals = Signals::register().context("cannot handle signals")?;
        let mut notes = Notes::begin(self, &self.keys.between)?;
        let controlled = notes.listen(spec)?;
        let folder = notes.run.folder.clone();
        let trace_id = notes.run.manifest.trace_id.clone();
        let tapped = folder.as_ref().filter(|_| self.keys.tap == Some(true));
        let capture =
            tapped.map(|folder| |port: TapPort| capture_tap(port, folder, &trace_id, budget));
        let between = settings.into_run(budget, folder.as_ref(), &signals);
        let ran = between.run(path, controlled, capture, &mut |event| {
            self.print_event(&event)
        });
        let (outcome, tapped) = ran.inspect_err(|_| notes.run.withdraw())?;
        for warning in outcome.inputs.iter().flat_map(|input| &input.warnings) {
            warn(warning);
        }
        let certificate = outcome.certificate;
        let mut json = serde_json::to_value(&certificate)?;
        json["loop"] = serde_json::to_value(&outcome.facts)?;
        json["machine"] = serde_json::to_value(&notes.run.manifest.machine)?;
        let tapped = tapped.map(|captured| {
            captured.unwrap_or_else(|_| Err(anyhow!("the tap's capture has panicked")))
        });
        let tapped = tapped.transpose();
        if let Ok(Some(seen)) = &tapped {
            notes.run.set_rows(&seen.counters, &seen.summaries);
        }
        notes.end(outcome.inputs, &certificate, &json)?;
        if self.json {
            print_json(&json)?;
        } else if !self.quiet {
            print(&(lines(&certificate) + &loop_lines(&outcome.facts)))?;
        }
        outcome.failure.map_or(Ok(()), Err)?;
        tapped?;
        // It has no end of its own: a signal that ends it cuts nothing short.
        Ok(held(&certificate))
    }
}

/// Captures frames that leave into the run's folder, until the loop drops its end of the tap.
fn capture_tap(
    mut port: TapPort,
    folder: &RunFolder,
    trace_id: &str,
    budget: &Budget,
) -> anyhow::Result<Seen> {
    // As `capture` has it by default.
    let wanted = |table: &Table| *table != Table::Packets && !Table::MONITORS.contains(table);
    let tables: Vec<_> = Table::ALL.iter().copied().filter(wanted).collect();
    let captured = capture_into(folder, &tables, trace_id, &mut port, budget);
    captured.context("the tap's trace cannot be written")
}

/// The status of a run that came to its end: its times hold, or they do not.
fn held(certificate: &Certificate) -> Exit {
    match certificate.verdict.state {
        State::Disturbed => Exit::Disturbed,
        _ => Exit::Done,
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
