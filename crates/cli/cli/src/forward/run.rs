//! `lineside forward` between interfaces: its folder, its requests, and what is printed.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use lineside_account::Budget;
use lineside_balancer::Settings;
use lineside_forward::{
    Controlled, Event, Forward, Outcome, TableFile, Tapping, has_no_table, read_table, settings,
};
use lineside_host::{Signals, SystemClock};
use lineside_measure::monitor::Point;
use lineside_port::CaptureWriter;
use lineside_run::{Run, frame_file, why_frames_miss, write_frames};
use lineside_store::RunFolder;
use lineside_time::Clock;
use lineside_trace::State;

use super::flags::Arguments;
use crate::config::{self, ConfigError, Sandboxing};
use crate::confine;
use crate::exit::Exit;
use crate::forwarder::{Prepared, Section, forward_words};
use crate::inputs::listening_lines;
use crate::outputs::or_warn;
use crate::print::{closing, print, print_json, print_styled, say, talk, warn};

pub(crate) fn run(given: &Arguments) -> anyhow::Result<Exit> {
    let keys = given.keys.resolved(given.config.as_deref())?;
    let prepared = keys.prepare()?;
    if given.check {
        print(&lineside_render::forward_plan(&prepared.settings))?;
        return Ok(Exit::Done);
    }
    if let Some(run) = { &given.resume }
        .as_ref()
        .filter(|run| lineside_store::is_running(run))
    {
        return Err(
            ConfigError::new(format!("{}: that run goes on: end it first", run.display())).into(),
        );
    }
    let resumed = { given.resume.as_deref() }.map(|run| resumed(run, keys.output.as_deref()));
    let resumed = resumed.transpose().map_err(ConfigError::new)?.flatten();
    let writing = writing(&keys, &prepared)?;
    let signals = Signals::register().context("cannot handle signals")?;
    let mut record = begin(&keys)?;
    let sandbox = lineside_run::sandbox(record.folder.as_ref());
    let sandbox = { keys.sandbox.unwrap_or_default() }.applied(sandbox);
    let sandbox = sandbox.ok_or(Sandboxing::NONE);
    let folder = record.folder.clone();
    let mut forward = Forward {
        interfaces: prepared.interfaces,
        settings: prepared.settings,
        method: prepared.method,
        by_driver: prepared.by_driver,
        payloads: prepared.payloads,
        wait: prepared.wait,
        duration: prepared.duration,
        resumed,
        table: None,
        budget: &prepared.budget,
        folder: folder.as_ref(),
        sandbox: None,
        signals: &signals,
    };
    let opened = forward.open()?;
    record.keep_room()?;
    let taken = { forward.resumed.as_ref() }.map(|(_, table)| &table[..]);
    let table = { folder.as_ref() }.map(|folder| TableFile::open(folder, taken));
    forward.table = table.transpose()?;
    let controlled = listen(&record, &keys, &prepared.budget, &forward.settings);
    let missing = Mutex::new(None);
    let tapping = writing.map(|(path, mut writer)| -> Tapping<'_> {
        let missing = &missing;
        Box::new(move |mut port| {
            let counts = port.counts();
            let written = write_frames(&mut writer, &mut port).and_then(|()| writer.finish());
            let why = why_frames_miss(&path, written.map(|()| counts.missed()));
            *missing.lock().unwrap_or_else(PoisonError::into_inner) = why;
        })
    });
    let outcome = record.drive(sandbox, |sandbox, record| {
        let forward = Forward { sandbox, ..forward };
        forward.run(opened, controlled, tapping, record, &mut |event| {
            given.print_event(&event);
        })
    })?;
    let missing = missing.into_inner().unwrap_or_else(PoisonError::into_inner);
    given.end(&mut record, outcome, missing)
}

/// The table of an earlier run, and where it was. The folder of this run, which takes the place of
/// the earlier one, has none at the first start of a service.
fn resumed(run: &Path, output: Option<&Path>) -> Result<Option<(String, Vec<u8>)>, String> {
    match read_table(run) {
        Err(why) if output == Some(run) && has_no_table(run) => {
            say(&format!("{why}; the table begins empty"));
            Ok(None)
        }
        read => Ok(Some((run.display().to_string(), read?))),
    }
}

/// The file of `--write-pcap`.
fn writing(
    keys: &Section,
    prepared: &Prepared,
) -> anyhow::Result<Option<(PathBuf, CaptureWriter)>> {
    let Some(path) = &keys.write_pcap else {
        return Ok(None);
    };
    if path.as_os_str() == "-" {
        return Err(ConfigError::usage("--write-pcap is for a file: name one").into());
    }
    // An input of the tap for each point of a port.
    let names = keys
        .names()
        .iter()
        .flat_map(|name| Point::ALL.iter().map(move |_| name.clone()));
    let comment = "forwarded: stamps are when frames came and left";
    let force = keys.force == Some(true);
    let writer = frame_file(
        path,
        &names.collect::<Vec<_>>(),
        comment,
        force,
        &prepared.budget,
    )?;
    Ok(Some((path.clone(), writer)))
}

/// Makes the folder.
fn begin(keys: &Section) -> anyhow::Result<Run> {
    let (output, force) = (keys.output.as_deref(), keys.force == Some(true));
    let configuration = config::to_json("forward", keys);
    let now = SystemClock::default().now();
    let run = Run::begin(output, force, &keys.names(), configuration, now)?;
    Ok(run)
}

/// Takes requests in the folder, if there is one.
fn listen(run: &Run, keys: &Section, budget: &Budget, settings: &Settings) -> Option<Controlled> {
    let folder = run.folder.as_ref()?;
    or_warn(settings::listen(
        folder,
        budget,
        keys.words(),
        settings,
        forward_words,
    ))
}

impl Arguments {
    fn print_event(&self, event: &Event<'_>) {
        match event {
            Event::Warning(text) => warn(text),
            _ if self.quiet => {}
            Event::Confined(confined) => confine::note(confined),
            Event::Listening(facts) => talk(&listening_lines(facts)),
            Event::Advice(text) => say(text),
        }
    }

    /// Writes and prints the outcome.
    fn end(
        &self,
        record: &mut Run,
        outcome: Outcome,
        missing: Option<String>,
    ) -> anyhow::Result<Exit> {
        let Outcome {
            mut certificate,
            inputs,
            failure,
            ..
        } = outcome;
        if let Some(why) = missing {
            certificate.verdict.state = State::Incomplete;
            certificate.verdict.reasons.push(why);
        }
        for warning in inputs.iter().flat_map(|input| &input.warnings) {
            warn(warning);
        }
        let json = serde_json::to_value(&certificate)?;
        record.manifest.inputs = inputs;
        record.manifest.certificate = Some(json.clone());
        let verdict = certificate.verdict.clone();
        let kept = record.end(verdict, SystemClock::default().now());
        if self.json {
            print_json(&json)?;
        } else if !self.quiet {
            let folder = record.folder.as_ref().map(RunFolder::path);
            print_styled(&closing(folder, &record.manifest))?;
        }
        failure.map_or(Ok(()), Err)?;
        kept?;
        // It has no end of its own: a signal that ends it cuts nothing short.
        let is_strict = self.keys.strict == Some(true);
        Ok(Exit::of_state(certificate.verdict.state, is_strict))
    }
}
