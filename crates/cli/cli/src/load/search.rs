//! `lineside load --search`: the highest rate that passes, by trials.

use anyhow::Context;
use lineside_analyze::{Assert, assert_load};
use lineside_host::{RunClock, Signals};
use lineside_load::certificate::Certificate;
use lineside_load::search::{Found, Search, SearchPlan, Trial};
use lineside_trace::Manifest;
use lineside_trace::certificate::load::Limits;
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

/// The trial that confirms a rate is this many times as long: what a queue hides from the others.
const CONFIRMING: i64 = 5;

/// Searches, and prints what was found.
pub(super) fn run(
    arguments: &Arguments,
    asserts: &[Assert],
    limits: &Limits,
) -> anyhow::Result<Exit> {
    let keys = &arguments.keys;
    if keys.output.is_some() || keys.write_pcap.is_some() || keys.hdr.is_some() {
        return Err(ConfigError::usage(
            "--search makes many runs, and -o, --write-pcap and --hdr keep one: leave them out, \
             and run the rate that was found once more with them",
        )
        .into());
    }
    let first = match keys.rate.as_deref().map(str::parse::<f64>) {
        None => FIRST,
        Some(Ok(rate)) if rate.is_finite() && rate > 0.0 => rate,
        Some(_) => {
            return Err(ConfigError::usage(
                "--search begins at one rate, such as -R 1000, and no profile",
            )
            .into());
        }
    };
    if keys.requests.is_some() {
        return Err(
            ConfigError::usage("--search has trials of a time: give -d instead of -n").into(),
        );
    }
    let signals = Signals::register().context("cannot handle signals")?;
    let mut search = Search::new(SearchPlan {
        first,
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
    let mut prepared = keys.prepare()?;
    keys.must_be_meant(&prepared)?;
    let clock = RunClock::start();
    keys.confine_alone(&prepared, clock)?;
    let trial_ns = prepared.settings.timing.duration_ns.unwrap_or(TRIAL_NS);
    let (mut best, mut last_why) = (None, None);
    while let Found::Try(rate) = search.next() {
        let times = if search.confirms() { CONFIRMING } else { 1 };
        prepared.change(rate, trial_ns.saturating_mul(times))?;
        let mut progress = Progress::new(arguments, None, &signals);
        progress.is_trial();
        let Trial { certificate, why } =
            prepared.trial(clock, &mut progress, *limits, |certificate, outcome| {
                let judged = assert_load(&figures(certificate, outcome), asserts);
                let mut failed = judged.into_iter().filter(|assertion| !assertion.holds);
                failed.next().map(|assertion| assertion.what)
            })?;
        if signals.stop().is_some() {
            anyhow::bail!("a signal ended the search after {} trials", search.trials());
        }
        if !arguments.quiet {
            talk(&trial_line(
                search.trials() + 1,
                rate,
                &certificate,
                why.as_deref(),
            ));
        }
        search.report(why.is_none());
        match why {
            None => best = Some(certificate),
            Some(why) => last_why = Some(why),
        }
    }
    finish(arguments, &search, best, last_why)
}

fn trial_line(number: u32, rate: f64, certificate: &Certificate, why: Option<&str>) -> String {
    let p99 = { certificate.latency.as_ref() }
        .map_or_else(|| "-".to_owned(), |latency| time(latency.p99_ns));
    let came = why.map_or_else(|| "passes".to_owned(), |why| format!("fails: {why}"));
    format!(
        "{number:>4} {:>12} p99 {p99:>10}  {came}\n",
        per_second(rate)
    )
}

fn finish(
    arguments: &Arguments,
    search: &Search,
    best: Option<Certificate>,
    last_why: Option<String>,
) -> anyhow::Result<Exit> {
    let (rate, is_sure) = match search.next() {
        Found::Rate(rate) => (Some(rate), true),
        Found::Unsure(rate) => (rate, false),
        Found::Nothing | Found::Try(_) => (None, false),
    };
    if arguments.json {
        print_json(&serde_json::json!({
            "rate": rate,
            "is_confirmed": is_sure,
            "trials": search.trials(),
            "last_failure": last_why,
            "certificate": best,
        }))?;
    } else {
        let trials = search.trials();
        let found = match (rate, is_sure) {
            (Some(rate), true) => {
                format!("{}, twice; above it: ", per_second(rate))
            }
            (Some(rate), false) => format!("{}, once; trials differ: ", per_second(rate)),
            (None, _) => "no rate passes: ".to_owned(),
        };
        let why = last_why.unwrap_or_else(|| "nothing fails, it is the greatest".to_owned());
        print(&format!("found        {found}{why} ({trials} trials)\n"))?;
        if let Some(certificate) = best.filter(|_| !arguments.quiet) {
            let manifest = Manifest {
                configuration: serde_json::json!({ "load": {} }),
                verdict: certificate.verdict.clone(),
                certificate: Some(serde_json::to_value(&certificate)?),
                ..Manifest::default()
            };
            print_styled(&closing(None, &manifest))?;
        }
    }
    Ok(if is_sure { Exit::Done } else { Exit::Failure })
}
