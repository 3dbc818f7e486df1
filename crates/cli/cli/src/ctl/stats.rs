//! `lineside ctl RUN stats`: what a run has counted so far, once or every so often.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use lineside_host::Stopwatch;
use lineside_render::{forwarder_lines, run_stats_lines};
use lineside_run::request::{Done, ForwardDone, Request};
use lineside_run::stats::RunStats;
use lineside_words::escape_json;

use crate::config::ConfigError;
use crate::exit::Exit;
use crate::link::ask::{Asked, why_none};
use crate::print::print_if_read;

/// The least time between two looks: each takes the loop some microseconds.
const EVERY_MIN: Duration = Duration::from_millis(10);

/// A run that is about to end takes no requests any more, or breaks one off; this long it is asked
/// again, to see which it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// How it is printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) json: bool,
    pub(super) quiet: bool,
    /// The time from one look to the next.
    pub(super) every: Option<Duration>,
}

/// The words of `--interval`.
pub(super) fn every(words: &str) -> Result<Duration, ConfigError> {
    let every = lineside_words::parse_duration(words).map(Duration::from_nanos);
    let every = every.map_err(|error| ConfigError::usage(&format!("interval: {error}")))?;
    if every < EVERY_MIN {
        return Err(ConfigError::usage(&format!(
            "interval: '{words}' is too short: at least 10ms"
        )));
    }
    Ok(every)
}

/// Prints what the run has counted; with `--interval` until it ends, or nobody reads it any more.
pub(super) fn run(asked: &Asked<'_>, form: Form) -> anyhow::Result<Exit> {
    let mut before: Option<RunStats> = None;
    let mut was_seen = false;
    let (watch, mut due) = (Stopwatch::start(), Duration::ZERO);
    loop {
        let text = match look(asked, was_seen)? {
            None => return Ok(Exit::Done),
            Some(Seen::Forwarder(counts)) if form.json => {
                escape_json(&serde_json::to_string(&counts)?) + "\n"
            }
            Some(Seen::Forwarder(counts)) => {
                let counts = serde_json::from_value(counts).map_err(|_| other(asked.folder()))?;
                forwarder_lines(&counts)
            }
            Some(Seen::Run(stats)) => {
                let stats = match &before {
                    Some(before) => stats.with_rates(before),
                    None => *stats,
                };
                let text = match form.json {
                    true => escape_json(&serde_json::to_string(&stats)?) + "\n",
                    false => run_stats_lines(&stats),
                };
                before = Some(stats);
                text
            }
        };
        was_seen = true;
        if !form.quiet && !print_if_read(&text)? {
            return Ok(Exit::Done);
        }
        let Some(every) = form.every else {
            return Ok(Exit::Done);
        };
        // Looks that were missed are not made up for.
        due = (due + every).max(watch.elapsed());
        watch.wait_until(due);
    }
}

fn other(run: &Path) -> anyhow::Error {
    anyhow!("{}: the run answers something else", run.display())
}

/// What a run has counted.
enum Seen {
    Run(Box<RunStats>),
    Forwarder(serde_json::Value),
}

/// Asks once. `None` if the run has ended since it was asked before.
fn look(asked: &Asked<'_>, is_known: bool) -> anyhow::Result<Option<Seen>> {
    let run = asked.folder();
    let since = Stopwatch::start();
    loop {
        let (is_gone, why) = match asked.answer(&Request::Stats {})? {
            Ok(Ok(Done::Stats(stats))) => return Ok(Some(Seen::Run(stats))),
            Ok(Ok(Done::Forward(ForwardDone::Counted(counts)))) => {
                return Ok(Some(Seen::Forwarder(counts)));
            }
            Ok(Ok(_)) => return Err(other(run)),
            Ok(Err(refused)) => (false, anyhow!(ConfigError::usage(&refused))),
            Err(error) => {
                use io::ErrorKind::{ConnectionRefused, NotFound};
                let is_gone = matches!(error.kind(), NotFound | ConnectionRefused);
                (is_gone, anyhow!(why_none(run, &error)))
            }
        };
        if is_known && (is_gone || !lineside_store::is_running(run)) {
            return Ok(None);
        }
        if !is_known || since.elapsed() > PATIENCE {
            return Err(why);
        }
        // It may be about to end.
        let pause = Stopwatch::start();
        pause.wait_until(EVERY_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_short_a_time_between_looks_is_refused() {
        assert_eq!(every("1s").ok(), Some(Duration::from_secs(1)));
        for (words, why) in [
            ("9ms", "at least 10ms"),
            ("0", "interval:"),
            ("1", "interval:"),
        ] {
            let error = every(words).expect_err(words).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
