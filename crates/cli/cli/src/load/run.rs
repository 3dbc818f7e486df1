//! `lineside load`: the entrance, and what becomes of the outcome.

use anyhow::{Context, anyhow};
use lineside_analyze::{Assertion, WithAssertions, assert_load};
use lineside_host::{RunClock, RunFolder, Signals, StealCounts, SystemClock};
use lineside_load::certificate::{Certificate, Machine};
use lineside_load::run::Outcome;
use lineside_load::serve::ServeSettings;
use lineside_run::Run;
use lineside_time::Clock;
use lineside_trace::State;

use super::assertions::{assertion_lines, figures};
use super::confine::Written;
use super::flags::{Arguments, Other};
use super::hdr::HdrLog;
use super::hosts::Remote;
use super::limits::LimitWords;
use super::progress::Progress;
use super::recording::Recording;
use super::serve::serve;
use super::settings::Prepared;
use super::tap::{self, Tapping};
use super::{agent, hosts, other_end, search};
use crate::config::{self, ConfigError};
use crate::exit::Exit;
use crate::junit::Junit;
use crate::print::{closing, print_json, print_styled};

pub(crate) fn run(given: &Arguments) -> anyhow::Result<Exit> {
    if let Some(Other::Serve(arguments)) = &given.other {
        return serve(arguments);
    }
    if given.agent_of_another {
        return agent::serve();
    }
    let mut keys = given.keys.resolved(given.config.as_deref())?;
    keys.go_behind(given)?;
    let arguments = Arguments {
        keys,
        ..given.clone()
    };
    let asserts = arguments.keys.asserts()?;
    let limits = LimitWords::resolved(arguments.keys.limits.as_ref())?;
    let every = every(arguments.keys.row_sample.as_deref().unwrap_or_default())?;
    if arguments.keys.search == Some(true) {
        if arguments.junit.is_some() {
            let why = "--junit is for one load: leave --search out, or --junit";
            return Err(ConfigError::usage(why).into());
        }
        return search::run(&arguments, &asserts, &limits);
    }
    arguments.hosts_must_fit()?;
    let mut prepared = arguments.keys.prepare()?;
    let tapping = Tapping::new(&arguments.keys, &mut prepared)?;
    let other_end = other_end::settings(&arguments.keys, &prepared)?;
    let signals = Signals::register().context("cannot handle signals")?;
    let mut notes = arguments.begin()?;
    let log = arguments.hdr_log().inspect_err(|_| notes.withdraw())?;
    let junit = Junit::open(arguments.junit.as_deref(), asserts.len());
    let junit = junit.inspect_err(|_| withdraw(&notes, log.as_ref(), None))?;
    notes.save()?;
    let clock = RunClock::start();
    let written = Written {
        capture: tapping.as_ref().and_then(Tapping::file),
        log: log.as_ref(),
        junit: junit.as_ref().map(Junit::file),
    };
    let ends = (&prepared, other_end.as_ref());
    let confined = arguments.confine(ends, &written, &mut notes, clock, || {
        arguments.begin_hosts()
    });
    let hosts = confined.inspect_err(|_| withdraw(&notes, log.as_ref(), junit.as_ref()))?;
    let recording = notes.folder.as_ref().map(|folder| {
        let (workers, budget) = (prepared.settings.workers, &prepared.settings.budget);
        Recording::new(folder, &notes.manifest.trace_id, every, workers, budget)
    });
    let mut progress = Progress::new(&arguments, recording.as_ref(), &signals, clock);
    progress.log = log;
    let steal = StealCounts::read();
    let (outcome, untapped) = tap::beside(tapping, || {
        if let Some(hosts) = hosts {
            let workers = prepared.settings.workers;
            return hosts::run(&arguments.keys, hosts, workers, clock, &mut progress);
        }
        let other_end = other_end.as_ref();
        arguments.make(
            &prepared,
            other_end,
            recording.as_ref(),
            clock,
            &mut progress,
        )
    })?;
    let log = progress.log.take();
    let outcome = outcome.inspect_err(|_| withdraw(&notes, log.as_ref(), junit.as_ref()))?;
    let logged = log.map_or(Ok(()), |log| log.finish(&outcome));
    let machine = Machine {
        steal_share: StealCounts::share_since(steal),
    };
    let was_stopped = progress.stopped_ns.is_some();
    let written = recording.map_or(Ok(Vec::new()), Recording::finish);
    let mut failures = outcome.notes.clone();
    failures.extend(written.as_ref().err().cloned());
    failures.extend(untapped.clone());
    failures.extend(logged.as_ref().err().cloned());
    let certificate = prepared.certificate(&outcome, was_stopped, machine, limits, failures);
    let tables = written.iter().flatten();
    let tables = tables.map(|(table, summary)| (table.name().to_owned(), *summary));
    notes.manifest.tables.extend(tables);
    notes.manifest.certificate = Some(serde_json::to_value(&certificate)?);
    notes.end(certificate.verdict.clone(), SystemClock::default().now())?;
    let judged = assert_load(&figures(&certificate, &outcome), &asserts);
    if let Some(junit) = junit {
        junit.finish("load", &certificate.asked.url, &judged)?;
    }
    arguments.print(&notes, &certificate, &judged)?;
    written.and(logged).map_err(|why| anyhow!(why))?;
    untapped.map_or(Ok(()), |why| Err(anyhow!(why)))?;
    Ok(exit(certificate.verdict.state, &judged))
}

/// The run failed: there is nothing to keep.
fn withdraw(run: &Run, log: Option<&HdrLog>, junit: Option<&Junit>) {
    run.withdraw();
    log.iter().for_each(|log| log.withdraw());
    junit.iter().for_each(|junit| junit.withdraw());
}

fn exit(state: State, judged: &[Assertion]) -> Exit {
    match state {
        State::Disturbed => Exit::Disturbed,
        _ if judged.iter().any(|assertion| !assertion.holds) => Exit::Assertion,
        _ => Exit::Done,
    }
}

/// The words of `--rows`: every so many requests; `None`: none.
fn every(words: &str) -> Result<Option<u64>, ConfigError> {
    match words {
        "all" => Ok(Some(1)),
        "none" => Ok(None),
        words => match words.parse() {
            Ok(every @ 1..) => Ok(Some(every)),
            _ => Err(ConfigError::new(format!(
                "rows: '{words}' is unknown: write all, none, or N for every Nth request"
            ))),
        },
    }
}

impl Arguments {
    /// Rows stay with the hosts that make a load.
    fn hosts_must_fit(&self) -> Result<(), ConfigError> {
        let hosts = self.keys.hosts.as_deref().unwrap_or_default();
        if !hosts.is_empty()
            && self.keys.output.is_some()
            && self.keys.row_sample.as_deref() != Some("none")
        {
            return Err(ConfigError::usage(
                "rows of requests stay with --hosts: give --row-sample none with -o",
            ));
        }
        Ok(())
    }

    /// Starts the programs of the hosts that make the load, if there are any.
    fn begin_hosts(&self) -> anyhow::Result<Option<Vec<Remote>>> {
        match self.keys.hosts.as_deref().unwrap_or_default() {
            [] => Ok(None),
            hosts => hosts::begin(&self.keys, hosts).map(Some),
        }
    }

    /// Makes the load, from here or beside its other end.
    fn make(
        &self,
        prepared: &Prepared,
        other_end: Option<&ServeSettings>,
        recording: Option<&Recording>,
        clock: RunClock,
        progress: &mut Progress<'_>,
    ) -> anyhow::Result<Outcome> {
        let mut run = || prepared.run(recording, clock, progress);
        match other_end {
            None => run(),
            Some(serving) => other_end::beside(serving, &prepared.requests, clock, self.quiet, run),
        }
    }

    /// The log of `--hdr`.
    fn hdr_log(&self) -> anyhow::Result<Option<HdrLog>> {
        let force = self.keys.force == Some(true);
        let log = self.keys.hdr.as_deref();
        log.map(|path| HdrLog::create(path, force)).transpose()
    }

    /// The record of the run, in its folder if it has one.
    fn begin(&self) -> anyhow::Result<Run> {
        let force = self.keys.force == Some(true);
        let keeps = [&self.keys.output, &self.keys.write_pcap, &self.keys.hdr];
        if force && keeps.iter().all(|kept| kept.is_none()) {
            let why = "--force is for -o RUN, --write-pcap OUT and --hdr FILE: leave it out";
            return Err(ConfigError::usage(why).into());
        }
        let configuration = config::to_json("load", &self.keys);
        let output = self.keys.output.as_deref();
        let now_ns = SystemClock::default().now();
        Ok(Run::begin(
            output,
            force,
            &self.keys.url,
            configuration,
            now_ns,
        )?)
    }

    fn print(
        &self,
        run: &Run,
        certificate: &Certificate,
        judged: &[Assertion],
    ) -> anyhow::Result<()> {
        if self.json {
            print_json(&WithAssertions {
                of: certificate,
                assertions: judged,
            })?;
        } else if !self.quiet {
            let folder = run.folder.as_ref().map(RunFolder::path);
            print_styled(&closing(folder, &run.manifest))?;
        }
        assertion_lines(judged, self.json, self.quiet)
    }
}
