//! `lineside load`: the entrance, and where the outcome goes.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use lineside_analyze::{Assertion, WithAssertions, assert_load};
use lineside_host::{Ender, RunClock, Signals, StealCounts, SystemClock};
use lineside_load::certificate::{Certificate, Machine};
use lineside_load::confine::{Outputs, confine_director};
use lineside_load::directed;
use lineside_load::director::{self, Remote};
use lineside_load::error::LoadError;
use lineside_load::hdr::HdrLog;
use lineside_load::outcome::Outcome;
use lineside_load::peer::Peer;
use lineside_load::prepared::Prepared;
use lineside_load::recording::{Recorded, Recording};
use lineside_load::serve::Served;
use lineside_load::settings::Transport;
use lineside_load::tap::{self, Tapping};
use lineside_load::words::share;
use lineside_run::{Run, not_confined, sandbox_facts};
use lineside_store::RunFolder;
use lineside_time::Clock;
use lineside_trace::certificate::load::Limits;
use lineside_words::{self as words, bytes, grouped};
use serde_json::Value as Json;

use super::assertions::{assertion_lines, figures};
use super::flags::{Arguments, Other, Section};
use super::keeping::Keeping;
use super::progress::Progress;
use super::search;
use super::serve::serve;
use crate::config::{self, ConfigError, Sandboxing, read_keys};
use crate::confine;
use crate::exit::Exit;
use crate::junit::Junit;
use crate::limits::LimitWords;
use crate::print::{closing, print_json, print_styled, say, talk, warn};

pub(crate) fn run(given: &Arguments) -> anyhow::Result<Exit> {
    if let Some(Other::Serve(arguments)) = &given.other {
        return serve(arguments);
    }
    if given.agent_of_another {
        directed::serve(|keys, among, clock| {
            direct(keys, among, clock).map_err(|error| format!("{error:#}"))
        })?;
        return Ok(Exit::Done);
    }
    let mut keys = given.keys.resolved(given.config.as_deref())?;
    keys.go_behind(given)?;
    let arguments = Arguments {
        keys,
        ..given.clone()
    };
    let asserts = arguments.keys.asserts()?;
    let limits = Limits {
        errors: errors_max(arguments.keys.errors_max.as_deref())?,
        ..LimitWords::resolved(arguments.keys.limits.as_ref())?
    };
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
    arguments.keys.must_be_meant(&prepared)?;
    let tapping = arguments.tapping(&mut prepared)?;
    let prepared = prepared;
    let peer = { arguments.keys.serve_on.as_deref() }
        .map(|interface| Peer::new(&prepared, interface))
        .transpose()?;
    let signals = Signals::register().context("cannot handle signals")?;
    let mut notes = arguments.begin()?;
    notes.keep_room()?;
    let log = arguments.hdr_log()?;
    let junit = Junit::open(arguments.junit.as_deref(), asserts.len())?;
    let clock = RunClock::start();
    let capture = tapping.as_ref().and_then(Tapping::file);
    let files = capture.into_iter().chain(log.as_ref().map(HdrLog::file));
    let files = files.chain(junit.as_ref().map(Junit::file)).collect();
    let hosts = arguments.confine(&prepared, peer.as_ref(), files, &mut notes, clock)?;
    let recording = notes.folder.as_ref().map(|folder| {
        let (workers, budget) = (prepared.settings.workers, &prepared.settings.budget);
        Recording::new(folder, &notes.manifest.trace_id, every, workers, budget)
    });
    let mut progress = Progress::new(&arguments, recording.as_ref(), &signals);
    progress.log = log;
    let keeping = Keeping::new(&mut notes, &prepared, recording.as_ref(), every, limits);
    progress.keeping = Some(keeping);
    let steal = StealCounts::read();
    let (outcome, untapped) = tap::beside(tapping, || match hosts {
        Some(hosts) => arguments.direct(hosts, &prepared, clock, &mut progress),
        None => arguments.make(
            &prepared,
            peer.as_ref(),
            recording.as_ref(),
            clock,
            &mut progress,
        ),
    })?;
    let (log, was_stopped) = progress.end()?;
    let outcome = outcome?;
    let logged = log.map_or(Ok(()), |log| log.finish(&outcome));
    let machine = Machine {
        steal_share: StealCounts::share_since(steal),
    };
    let recorded = recording.map_or_else(Recorded::default, Recording::finish);
    recorded.notes.iter().for_each(|note| warn(note));
    let cut = [&outcome.failure, &recorded.failure, &untapped].map(Clone::clone);
    let cut: Vec<_> = { cut.into_iter().flatten() }.chain(logged.err()).collect();
    let failures = outcome.notes.iter().chain(&cut).cloned().collect();
    // What was cut short is judged by what there is of it, as what a signal ended.
    let was_stopped = was_stopped || outcome.failure.is_some();
    let certificate = prepared.certificate(&outcome, was_stopped, machine, limits, failures);
    let kept = keep(&mut notes, &certificate, &recorded);
    let mut judged = assert_load(&figures(&certificate, &outcome), &asserts);
    judged.splice(0..0, too_many_errors(&certificate));
    if let Some(junit) = junit {
        junit.finish("load", &certificate.asked.url, &judged)?;
    }
    arguments.print(&notes, &certificate, &judged)?;
    kept?;
    { cut.into_iter().next() }.map_or(Ok(()), |why| Err(anyhow!(why)))?;
    let is_strict = arguments.keys.strict == Some(true);
    Ok(match judged.iter().any(|assertion| !assertion.holds) {
        true => Exit::Assertion,
        false => Exit::of_state(certificate.verdict.state, is_strict),
    })
}

/// Writes the last `trace.json`.
fn keep(run: &mut Run, certificate: &Certificate, recorded: &Recorded) -> anyhow::Result<()> {
    let tables = recorded.tables.iter();
    let tables = tables.map(|(table, summary)| (table.name().to_owned(), *summary));
    run.manifest.tables = tables.collect();
    run.manifest.certificate = Some(serde_json::to_value(certificate)?);
    let now_ns = SystemClock::default().now();
    let kept = run.end(certificate.verdict.clone(), now_ns);
    match &kept {
        // The seconds of a day are longer than the room that was kept.
        Err(error) if error.is_full() => {}
        _ => return Ok(kept?),
    }
    let mut short = certificate.clone();
    short.found.seconds.clear();
    let why = "the disk had no room for the seconds of the run, which the certificate lacks";
    short.verdict.reasons.push(why.to_owned());
    run.manifest.certificate = Some(serde_json::to_value(&short)?);
    Ok(run.end(short.verdict, now_ns)?)
}

/// Prepares a load that another host directs, and enters its sandbox.
fn direct(keys: &Json, among: (u32, u32), clock: RunClock) -> anyhow::Result<Prepared> {
    let keys: Section = read_keys(keys, "load").map_err(ConfigError::new)?;
    let mut prepared = keys.prepare()?;
    // A name may have another address here.
    keys.must_be_meant(&prepared)?;
    prepared.settings.among = among;
    keys.confine_alone(&prepared, clock)?;
    Ok(prepared)
}

impl Section {
    /// Confines a load that writes nothing itself: that of another host, or a search.
    pub(super) fn confine_alone(
        &self,
        prepared: &Prepared,
        clock: RunClock,
    ) -> Result<(), LoadError> {
        let sandboxing = self.sandbox.unwrap_or_default();
        let applied = |sandbox| sandboxing.applied(sandbox);
        let confined = prepared.confine(None, &Outputs::default(), clock, applied)?;
        confined.iter().for_each(confine::note);
        Ok(())
    }
}

/// What the other end of a load counted.
fn peer_line(served: &Served) -> String {
    let counts = &served.counts;
    let again = served.transports.iter().map(|facts| facts.retransmitted);
    format!(
        "the other end took {} connections and {} requests, {} in and {} out, and sent {} frames \
         again",
        grouped(counts.opened),
        grouped(counts.requests),
        bytes(counts.received_bytes),
        bytes(counts.answer_bytes),
        grouped(again.sum())
    )
}

/// The share of `--errors-max`.
fn errors_max(text: Option<&str>) -> Result<f64, ConfigError> {
    let share = share(text.unwrap_or_default());
    share.map_err(|why| ConfigError::new(format!("errors-max: {why}")))
}

/// What every load must keep to: it goes before the assertions if it does not hold.
fn too_many_errors(certificate: &Certificate) -> Option<Assertion> {
    let (ended, failed) = certificate.ended();
    let bound = certificate.limits.errors;
    let share = failed as f64 / ended.max(1) as f64;
    (share > bound).then(|| Assertion {
        assertion: format!("errors <= {}", words::percent(bound)),
        holds: false,
        undecided: false,
        value: Some(share),
        bound,
        operations: ended,
        what: format!(
            "failed: {} of {} requests got no good answer, {} (--errors-max {})",
            grouped(failed),
            grouped(ended),
            words::percent(share),
            words::percent(bound)
        ),
    })
}

/// The words of `--rows`: one request in this many; `None`: none.
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
        let hosts = self.keys.hosts.as_deref().unwrap_or_default();
        if hosts.is_empty() {
            return Ok(None);
        }
        let rsh = self.keys.rsh.as_deref().unwrap_or_default();
        if rsh.trim().is_empty() {
            return Err(ConfigError::usage("--rsh is empty: write 'ssh'").into());
        }
        let program = match &self.keys.agent {
            Some(program) => program.clone(),
            None => std::env::current_exe().context("this program has no path")?,
        };
        // In a sandbox, this process sends no signal.
        let ender = Arc::new(match self.keys.sandbox.unwrap_or_default() {
            Sandboxing::Off => Ender::default(),
            Sandboxing::On | Sandboxing::Require => Ender::start()?,
        });
        let patience = self.keys.patience();
        let begin = |host: &String| Remote::start(rsh, host, &program, &ender, patience);
        let begun = hosts.iter().map(begin);
        Ok(Some(begun.collect::<Result<_, _>>()?))
    }

    /// The capture file, if there is one.
    fn tapping(&self, prepared: &mut Prepared) -> anyhow::Result<Option<Tapping>> {
        let Some(path) = &self.keys.write_pcap else {
            return Ok(None);
        };
        let is_stack = matches!(prepared.settings.transport, Transport::Stack(_));
        if is_stack && (self.keys.hosts.is_some() || path.as_os_str() == "-") {
            return Err(ConfigError::usage(
                "--write-pcap is for a file of a load by one host: leave out --hosts, name a file",
            )
            .into());
        }
        let force = self.keys.force == Some(true);
        Ok(Some(Tapping::new(path, force, &mut prepared.settings)?))
    }

    /// Opens the ports, drops all privileges and enters the sandbox; notes in `trace.json` whether
    /// it holds. The programs of hosts that make the load are started before.
    fn confine(
        &self,
        prepared: &Prepared,
        peer: Option<&Peer<'_>>,
        files: Vec<BorrowedFd<'_>>,
        run: &mut Run,
        clock: RunClock,
    ) -> anyhow::Result<Option<Vec<Remote>>> {
        lineside_host::watch_outputs()?;
        let hosts = self.begin_hosts()?;
        let outputs = Outputs {
            folder: run.folder.as_ref(),
            files,
        };
        let sandboxing = self.keys.sandbox.unwrap_or_default();
        let applied = |sandbox| sandboxing.applied(sandbox);
        let confined = match &hosts {
            Some(_) => confine_director(&outputs, applied)?,
            None => {
                let server = peer.map(|peer| &peer.settings);
                prepared.confine(server, &outputs, clock, applied)?
            }
        };
        confined.iter().for_each(confine::note);
        let facts = confined.as_ref().map(sandbox_facts);
        run.manifest.sandbox = Some(facts.unwrap_or_else(|| not_confined(Sandboxing::NONE)));
        Ok(hosts)
    }

    /// Has hosts make the load.
    fn direct(
        &self,
        hosts: Vec<Remote>,
        prepared: &Prepared,
        clock: RunClock,
        progress: &mut Progress<'_>,
    ) -> anyhow::Result<Outcome> {
        let keys = config::to_json("load", &self.keys);
        let keys = keys.get("load").cloned().unwrap_or_default();
        let workers = prepared.settings.workers;
        Ok(director::run(&keys, hosts, workers, clock, progress, talk)?)
    }

    /// Makes the load, from here or beside its other end.
    fn make(
        &self,
        prepared: &Prepared,
        peer: Option<&Peer<'_>>,
        recording: Option<&Recording>,
        clock: RunClock,
        progress: &mut Progress<'_>,
    ) -> anyhow::Result<Outcome> {
        let mut run = || prepared.run(recording, clock, progress);
        let Some(peer) = peer else {
            return Ok(run()?);
        };
        let (outcome, served) = peer.while_serving(clock, run)?;
        let mut outcome = outcome?;
        match served {
            Ok(served) if !self.quiet => say(&peer_line(&served)),
            Ok(_) => {}
            Err(why) => {
                let why = format!("the other end: {why}");
                outcome.failure = outcome.failure.or(Some(why));
            }
        }
        Ok(outcome)
    }

    /// The log of `--hdr`.
    fn hdr_log(&self) -> Result<Option<HdrLog>, LoadError> {
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
