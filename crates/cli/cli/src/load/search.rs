//! `lineside load --search`: the highest rate that passes, by trials.

use anyhow::Context;
use lineside_analyze::{Assert, assert_load};
use lineside_host::{RunClock, Signals};
use lineside_load::certificate::Certificate;
use lineside_load::error::LoadError;
use lineside_load::prepared::Prepared;
use lineside_load::search::{Connections, Found, Limit, Search, SearchPlan, Trial};
use lineside_load::words::share;
use lineside_trace::certificate::load::Limits;
use lineside_trace::{Manifest, State};
use lineside_words::{rate as per_second, time};

use super::assertions::figures;
use super::flags::{Arguments, Section};
use super::progress::Progress;
use crate::config::{ConfigError, Time};
use crate::exit::Exit;
use crate::print::{closing, print, print_json, print_styled, talk};

/// A trial, unless -d says otherwise.
const TRIAL_NS: i64 = 2_000_000_000;
/// The rate of the first one, unless -R does.
const FIRST: f64 = 1_000.0;

/// A trial close to the limit is this many times as long: what a queue hides from the others.
const CLOSE: i64 = 3;
/// Trials that are void are made again so often: at one rate, and in all.
const VOIDS_MAX: (u32, u32) = (2, 10);

/// Searches, and prints what was found.
pub(super) fn run(
    arguments: &Arguments,
    asserts: &[Assert],
    limits: &Limits,
) -> anyhow::Result<Exit> {
    let keys = &arguments.keys;
    let first = first_rate(keys)?;
    let precision = share(keys.precision.as_deref().unwrap_or_default());
    let precision = precision.map_err(|why| ConfigError::new(format!("precision: {why}")))?;
    if !(PRECISION_MIN..=0.5).contains(&precision) {
        let why = "--precision is from 0.1% to 50%: of shorter trials more cannot be known";
        return Err(ConfigError::usage(why).into());
    }
    let signals = Signals::register().context("cannot handle signals")?;
    let search = Search::new(SearchPlan {
        first,
        precision,
        ..SearchPlan::default()
    });
    // All trials have the interface that is open, and the addresses that were found.
    let keys = Section {
        rate: Some(first.to_string()),
        duration: Some(
            keys.duration
                .clone()
                .unwrap_or_else(|| Time::of_ns(TRIAL_NS)),
        ),
        ..keys.clone()
    };
    let prepared = keys.prepare()?;
    keys.must_be_meant(&prepared)?;
    let clock = RunClock::start();
    keys.confine_alone(&prepared, clock)?;
    let mut searching = Searching {
        arguments,
        connections: Connections::new(prepared.settings.plan.connections),
        trial_ns: prepared.settings.timing.duration_ns.unwrap_or(TRIAL_NS),
        prepared,
        search,
        runs: 0,
        voids: (0, 0),
        best: None,
        last_why: None,
    };
    while let Found::Try(rate) = searching.search.next() {
        let mut progress = Progress::new(arguments, None, &signals);
        progress.is_trial();
        searching.try_at(rate, |prepared| {
            prepared.trial(clock, &mut progress, *limits, |certificate, outcome| {
                let judged = assert_load(&figures(certificate, outcome), asserts);
                let mut failed = judged.into_iter().filter(|assertion| !assertion.holds);
                failed.next().map(|assertion| assertion.what)
            })
        })?;
        if signals.stop().is_some() {
            anyhow::bail!("a signal ended the search after {} trials", searching.runs);
        }
    }
    searching.finish()
}

/// Finer than this, a trial of some seconds cannot be.
const PRECISION_MIN: f64 = 0.001;

fn first_rate(keys: &Section) -> anyhow::Result<f64> {
    if keys.output.is_some() || keys.write_pcap.is_some() || keys.hdr.is_some() {
        return Err(ConfigError::usage(
            "--search makes many runs, and -o, --write-pcap and --hdr keep one: leave them out, \
             and run the rate that was found once more with them",
        )
        .into());
    }
    if keys.requests.is_some() {
        return Err(
            ConfigError::usage("--search has trials of a time: give -d instead of -n").into(),
        );
    }
    match keys.rate.as_deref().map(str::parse::<f64>) {
        None => Ok(FIRST),
        Some(Ok(rate)) if rate.is_finite() && rate > 0.0 => Ok(rate),
        Some(_) => Err(ConfigError::usage(
            "--search begins at one rate, such as -R 1000, and no profile",
        )
        .into()),
    }
}

/// A search under way.
struct Searching<'a> {
    arguments: &'a Arguments,
    prepared: Prepared,
    search: Search,
    connections: Connections,
    trial_ns: i64,
    /// All trials, also those that say nothing.
    runs: u32,
    /// Trials that were void: at this rate, and in all.
    voids: (u32, u32),
    best: Option<(f64, Certificate)>,
    last_why: Option<String>,
}

impl Searching<'_> {
    /// Makes a trial, and reports to the search what it shows.
    fn try_at(
        &mut self,
        rate: f64,
        trial: impl FnOnce(&Prepared) -> Result<Trial, LoadError>,
    ) -> anyhow::Result<()> {
        let times = if self.search.is_close() { CLOSE } else { 1 };
        let trial_ns = self.trial_ns.saturating_mul(times);
        self.prepared.change(rate, trial_ns)?;
        self.prepared.change_connections(self.connections.count);
        let trial = trial(&self.prepared)?;
        self.runs += 1;
        let is_void = trial.is_void && self.voids.0 < VOIDS_MAX.0 && self.voids.1 < VOIDS_MAX.1;
        let why = trial.why.as_deref();
        if is_void {
            self.voids = (self.voids.0 + 1, self.voids.1 + 1);
            self.note(rate, &trial, " (void: this machine stood still)");
            return Ok(());
        }
        let fit = self.prepared.settings.connections_max();
        if self.connections.raise_after(&trial, fit) {
            let more = format!(" (again with -c {})", self.connections.count);
            self.note(rate, &trial, &more);
            return Ok(());
        }
        self.note(rate, &trial, "");
        self.voids.0 = 0;
        self.search.report(why.is_none(), trial.capacity);
        match trial.why {
            Some(why) => self.last_why = Some(why),
            None if self.best.as_ref().is_none_or(|(best, _)| rate >= *best) => {
                self.best = Some((rate, trial.certificate));
            }
            None => {}
        }
        Ok(())
    }

    fn note(&self, rate: f64, trial: &Trial, then: &str) {
        if self.arguments.quiet {
            return;
        }
        let latency = trial.certificate.latency.as_ref();
        let p99 = latency.map_or_else(|| "-".to_owned(), |latency| time(latency.p99_ns));
        let came = trial.why.as_deref();
        let came = came.map_or_else(|| "passes".to_owned(), |why| format!("fails: {why}"));
        talk(&format!(
            "{:>4} {:>12} p99 {p99:>10}  {came}{then}\n",
            self.runs,
            per_second(rate)
        ));
    }

    fn finish(self) -> anyhow::Result<Exit> {
        let found = self.search.next();
        let limit = match found {
            Found::Limit(limit) => Some(limit),
            _ => None,
        };
        let rate = match found {
            Found::Limit(limit) => Some(limit.rate),
            Found::All(rate) => Some(rate),
            Found::Nothing(_) | Found::Try(_) => None,
        };
        let is_sure = limit.is_some_and(|limit| limit.is_narrow) || matches!(found, Found::All(_));
        let best = self.best.as_ref().map(|(_, certificate)| certificate);
        if self.arguments.json {
            print_json(&serde_json::json!({
                "rate": rate,
                "is_confirmed": is_sure,
                "limit": limit,
                "connections": self.connections.count,
                "trials": self.runs,
                "void": self.voids.1,
                "last_failure": self.last_why,
                "certificate": best,
            }))?;
        } else {
            print(&self.words(found))?;
            if let Some(certificate) = best.filter(|_| !self.arguments.quiet) {
                let manifest = Manifest {
                    configuration: serde_json::json!({ "load": {} }),
                    verdict: certificate.verdict.clone(),
                    certificate: Some(serde_json::to_value(certificate)?),
                    ..Manifest::default()
                };
                print_styled(&closing(None, &manifest))?;
            }
        }
        let is_strict = self.arguments.keys.strict == Some(true);
        Ok(match (rate, is_sure) {
            (None, _) => Exit::Failure,
            (Some(_), true) => Exit::Done,
            (Some(_), false) => Exit::of_state(State::Incomplete, is_strict),
        })
    }

    /// What was found, with the counts behind it.
    fn words(&self, found: Found) -> String {
        let why = self.last_why.as_deref().unwrap_or("nothing fails");
        let runs = match self.voids.1 {
            0 => format!("{} trials", self.runs),
            voids => format!("{} trials, {voids} of them void", self.runs),
        };
        let connections = self.connections.count;
        match found {
            Found::Limit(limit) => {
                let Limit { below, above, .. } = limit;
                let how = match limit.is_narrow {
                    true => String::new(),
                    false => "; trials differ too much for less".to_owned(),
                };
                format!(
                    "found        {} to {} (95 %{how}), -c {connections}: {} of {} trials just \
                     below passed, {} of {} just above failed: {why} ({runs})\n",
                    per_second(limit.low),
                    per_second(limit.high),
                    below.passed,
                    below.trials,
                    above.trials - above.passed,
                    above.trials
                )
            }
            Found::All(rate) => format!(
                "found        {} and above, -c {connections}: the greatest that is tried passes \
                 ({runs})\n",
                per_second(rate)
            ),
            Found::Nothing(rate) | Found::Try(rate) => format!(
                "found        no rate passes, down to {}: {why} ({runs})\n",
                per_second(rate)
            ),
        }
    }
}
