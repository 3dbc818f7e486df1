//! `lineside load`: the entrance, and what becomes of the outcome.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use lineside_analyze::{Assert, Assertion, LoadFigures, assert_load};
use lineside_host::{RunClock, Signals, StealCounts, SystemClock};
use lineside_load::Rows;
use lineside_load::certificate::{Certificate, Known, Limits, Machine, Planned};
use lineside_load::client::{DatagramClient, Pace};
use lineside_load::protocol::nfs::{prepare, status_name};
use lineside_load::protocol::{
    Client, DatagramClient as DatagramProtocol, Echo, Http, Memcached, Nfs,
};
use lineside_load::run::{LoadError, Make, Outcome, Part, Watch, run as run_load, run_each};
use lineside_run::Run;
use lineside_time::Clock;
use lineside_trace::State;

use super::flags::{Arguments, Other};
use super::limits::LimitWords;
use super::print::{assertion_lines, lines};
use super::progress::{OnlyStops, Progress};
use super::recording::{OfDatagrams, OfStreams, Recording};
use super::serve::serve;
use super::settings::{Prepared, Requests};
use super::{agent, hosts, other_end, search};
use crate::config::{self, ConfigError};
use crate::exit::Exit;
use crate::print::{print, print_json};

pub(crate) fn run(given: &Arguments) -> anyhow::Result<Exit> {
    if let Some(Other::Serve(arguments)) = &given.other {
        return serve(arguments);
    }
    if given.agent_of_another {
        return agent::serve();
    }
    let arguments = Arguments {
        keys: given.keys.resolved(given.config.as_deref())?,
        ..given.clone()
    };
    let asserts = arguments.asserts()?;
    let limits = LimitWords::resolved(arguments.keys.limits.as_ref())?;
    let every = every(arguments.keys.rows.as_deref().unwrap_or_default())?;
    if arguments.keys.search == Some(true) {
        return search::run(&arguments, &asserts, &limits);
    }
    let hosts = arguments.hosts()?;
    let prepared = arguments.keys.prepare()?;
    let other_end = other_end::settings(&arguments.keys, &prepared)?;
    let signals = Signals::register().context("cannot handle signals")?;
    let mut notes = arguments.begin()?;
    notes.save()?;
    let recording = notes.folder.as_ref().map(|folder| {
        let (workers, budget) = (prepared.settings.workers, &prepared.settings.budget);
        Recording::new(folder, &notes.manifest.trace_id, every, workers, budget)
    });
    let clock = RunClock::start();
    let mut progress = Progress::new(&arguments, recording.as_ref(), &signals, clock);
    let steal = StealCounts::read();
    let mut run = || prepared.run(recording.as_ref(), clock, &mut progress);
    let outcome = match (hosts, &other_end) {
        ([], None) => run(),
        ([], Some(serving)) => {
            other_end::beside(serving, &prepared.requests, clock, arguments.quiet, run)
        }
        (hosts, _) => {
            let (keys, workers) = (&arguments.keys, prepared.settings.workers);
            hosts::run(keys, hosts, workers, clock, &mut progress)
        }
    };
    let outcome = outcome.inspect_err(|_| notes.withdraw())?;
    let machine = Machine {
        steal_share: StealCounts::share_since(steal),
    };
    let was_stopped = progress.stopped_ns.is_some();
    let written = recording.map_or(Ok(Vec::new()), Recording::finish);
    let mut failures = outcome.notes.clone();
    failures.extend(written.as_ref().err().cloned());
    let certificate = prepared.certificate(&outcome, was_stopped, machine, limits, failures);
    let tables = written.iter().flatten();
    let tables = tables.map(|(table, summary)| (table.name().to_owned(), *summary));
    notes.manifest.tables.extend(tables);
    notes.manifest.certificate = Some(serde_json::to_value(&certificate)?);
    notes.end(certificate.verdict.clone(), SystemClock::default().now())?;
    let judged = assert_load(&figures(&certificate, &outcome), &asserts);
    arguments.print(&certificate, &judged)?;
    written.map_err(|why| anyhow!(why))?;
    Ok(match certificate.verdict.state {
        State::Disturbed => Exit::Disturbed,
        _ if judged.iter().any(|assertion| !assertion.holds) => Exit::Assertion,
        _ => Exit::Done,
    })
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
    /// The assertions, read before anything begins.
    fn asserts(&self) -> Result<Vec<Assert>, ConfigError> {
        let texts = self.keys.asserts.iter().flatten();
        let read = |text: &String| {
            let assert: Assert = text.parse()?;
            assert.must_be_of_a_load()?;
            Ok(assert)
        };
        texts
            .map(read)
            .collect::<Result<_, lineside_analyze::AssertError>>()
            .map_err(|error| ConfigError::new(format!("assert: {error}")))
    }

    /// The hosts that make the load, other than this one alone.
    fn hosts(&self) -> Result<&[String], ConfigError> {
        let hosts = self.keys.hosts.as_deref().unwrap_or_default();
        if !hosts.is_empty()
            && self.keys.output.is_some()
            && self.keys.rows.as_deref() != Some("none")
        {
            return Err(ConfigError::usage(
                "rows of requests stay with --hosts: give --rows none with -o",
            ));
        }
        Ok(hosts)
    }

    /// The record of the run, in its folder if it has one.
    fn begin(&self) -> anyhow::Result<Run> {
        let force = self.keys.force == Some(true);
        if self.keys.output.is_none() && force {
            return Err(ConfigError::usage("--force is for -o RUN: leave it out").into());
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

    fn print(&self, certificate: &Certificate, judged: &[Assertion]) -> anyhow::Result<()> {
        if self.json {
            print_json(certificate)?;
        } else if !self.quiet {
            print(&lines(certificate))?;
        }
        assertion_lines(judged, self.json, self.quiet)
    }
}

impl Prepared {
    pub(super) fn run(
        &self,
        recording: Option<&Recording>,
        clock: RunClock,
        progress: &mut impl Watch,
    ) -> anyhow::Result<Outcome> {
        let with = Beside {
            recording,
            clock,
            progress,
        };
        Ok(match &self.requests {
            Requests::Http(template) => self.run_with(&|| Http::new(template.clone()), with)?,
            Requests::Echo { bytes } => self.run_with(&|| Echo::new(*bytes, self.seed), with)?,
            Requests::Memcached(mix) => self.run_with(&|| Memcached::new((**mix).clone()), with)?,
            Requests::Dns(dns) => self.run_datagrams(&|| (**dns).clone(), with)?,
            Requests::Nfs(nfs) => {
                let (mix, preparation) = &**nfs;
                let mut until = OnlyStops(&mut *with.progress);
                let tree = Arc::new(prepare(&self.settings, preparation, clock, &mut until)?);
                self.run_with(&|| Nfs::new(mix.clone(), Arc::clone(&tree)), with)?
            }
        })
    }

    fn run_with<P: Client>(
        &self,
        protocol: &(impl Fn() -> P + Sync),
        with: Beside<'_, impl Watch>,
    ) -> Result<Outcome, LoadError> {
        let Beside {
            recording,
            clock,
            progress,
        } = with;
        let making = Making {
            prepared: self,
            protocol,
            recording,
        };
        let mut load = || run_load(&self.settings, &making, clock, progress);
        match recording {
            Some(recording) => recording.beside(&|| OfStreams(protocol()), load),
            None => load(),
        }
    }

    fn run_datagrams<P: DatagramProtocol>(
        &self,
        protocol: &(impl Fn() -> P + Sync),
        with: Beside<'_, impl Watch>,
    ) -> Result<Outcome, LoadError> {
        let Beside {
            recording,
            clock,
            progress,
        } = with;
        let client = |part: Part| {
            let pace = self.pace.pace(self.seed, part.worker, part.workers);
            let rows = recording.and_then(|recording| recording.rows(part.worker));
            DatagramClient::new(protocol(), part.plan, pace, part.targets, part.locals, rows)
        };
        let mut load = || run_each(&self.settings, &client, clock, progress);
        match recording {
            Some(recording) => recording.beside(&|| OfDatagrams(protocol()), load),
            None => load(),
        }
    }

    pub(super) fn certificate(
        &self,
        outcome: &Outcome,
        was_stopped: bool,
        machine: Machine,
        limits: Limits,
        failures: Vec<String>,
    ) -> Certificate {
        let planned = self.planned(outcome, was_stopped);
        // Of a connection that arrives, the request leaves after its handshake; a schedule that was
        // moved is none of the model's.
        let is_judged = !self.asked.is_of_connections() && outcome.counts.moved == 0;
        let fitness = is_judged.then(|| self.pace.fitness(self.seed, outcome));
        let known = Known {
            planned,
            fitness: fitness.flatten(),
            status_name: &|status| self.status_name(status),
            machine,
            failures,
        };
        Certificate::new(self.asked.clone(), outcome, known, limits)
    }

    fn status_name(&self, status: u32) -> String {
        match &self.requests {
            Requests::Http(_) | Requests::Echo { .. } => status.to_string(),
            Requests::Memcached(mix) => Memcached::new((**mix).clone()).status(status).into_owned(),
            Requests::Dns(dns) => DatagramProtocol::status(&**dns, status).into_owned(),
            Requests::Nfs(_) => status_name(status).into_owned(),
        }
    }

    /// What the schedule held; of a run that a signal ended, what had come of it.
    fn planned(&self, outcome: &Outcome, was_stopped: bool) -> Option<Planned> {
        if was_stopped {
            return self.asked.is_open_loop().then(|| Planned {
                arrivals: outcome.counts.planned,
                span_ns: outcome.wall_ns.max(0).cast_unsigned(),
            });
        }
        let duration_ns = self.settings.timing.duration_ns;
        self.pace
            .planned(self.seed, duration_ns, self.settings.plan.requests)
    }
}

/// What goes on beside a run.
struct Beside<'a, W> {
    recording: Option<&'a Recording>,
    clock: RunClock,
    progress: &'a mut W,
}

/// What makes the parts of each worker.
struct Making<'a, F> {
    prepared: &'a Prepared,
    protocol: &'a F,
    recording: Option<&'a Recording>,
}

impl<P: Client, F: Fn() -> P + Sync> Make<P> for Making<'_, F> {
    fn protocol(&self, _: u32) -> P {
        (self.protocol)()
    }

    fn pace(&self, worker: u32, workers: u32) -> Pace {
        self.prepared.pace.pace(self.prepared.seed, worker, workers)
    }

    fn rows(&self, worker: u32) -> Option<Rows> {
        self.recording?.rows(worker)
    }
}

/// What assertions are about.
pub(super) fn figures<'a>(certificate: &Certificate, outcome: &'a Outcome) -> LoadFigures<'a> {
    let counts = &outcome.counts;
    LoadFigures {
        latency: &outcome.times.latency,
        requests: counts.planned,
        answered: counts.answered,
        not_successful: counts.planned.saturating_sub(counts.succeeded),
        unanswered: counts.planned.saturating_sub(counts.answered),
        answers_per_s: certificate.rates.answered,
        bytes_per_s: certificate.rates.received_bytes,
    }
}
