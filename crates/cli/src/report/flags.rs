//! Flags of `report`, `slow` and `compare`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lineside_analyze::{Assert, Filter, Moment, Per, SlowBy, SlowRequest, Zone};
use lineside_time::parse_duration;

use crate::config::ConfigError;
use crate::confine::Confining;

/// Flags of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    /// Print all of it, not only the first screen
    #[arg(long, conflicts_with_all = ["json", "html", "interval"])]
    pub(super) full: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV with a line of names: a line for each operation's name, or for each interval
    #[arg(long, conflicts_with_all = ["json", "html", "full"])]
    pub(super) csv: bool,
    /// Write a self-contained HTML page (- is standard output)
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(super) html: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "html")]
    pub(super) force: bool,
    /// Print nfsiostat's columns for each interval: seconds, or a time with its unit
    #[arg(long, value_name = "SECONDS", conflicts_with = "html", value_parser = interval_ns)]
    pub(super) interval: Option<u64>,
    /// Exit with 3 unless this holds, such as 'p99(READ) < 10ms' or 'errors < 1%'; several may be
    /// given
    #[arg(long, value_name = "EXPR", conflicts_with = "interval", value_parser = assert_of_one)]
    pub(super) assert: Vec<Assert>,
    /// Write what came of each --assert as JUnit's XML, for Jenkins and GitLab
    #[arg(long, value_name = "FILE", conflicts_with = "interval")]
    pub(super) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(super) confining: Confining,
}

/// Flags of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The folder of a trace: what was before
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// The folder of another: what is now. With --at none is needed
    #[arg(value_name = "B", required_unless_present = "at")]
    pub(crate) b: Option<PathBuf>,
    /// Compare what one trace has before this time with what it has from then on: RFC 3339, or how
    /// long after the start, such as 10s
    #[arg(long, value_name = "TIME", conflicts_with_all = ["b", "since", "until"])]
    pub(super) at: Option<Moment>,
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    /// Print all figures, also those that are no news, and what only one of the traces has
    #[arg(long)]
    pub(super) full: bool,
    /// There is no page of a comparison
    #[arg(long, hide = true, value_name = "FILE", num_args = 0..=1)]
    pub(super) html: Option<Option<PathBuf>>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV with a line of names: a line for each figure of a change; with --full for all
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
    /// Exit with 3 unless this holds, such as 'B.p99(READ) < 10ms' or 'ratio.p50(WRITE) < 1.2';
    /// several may be given
    #[arg(long, value_name = "EXPR")]
    pub(super) assert: Vec<Assert>,
    /// Write what came of each --assert as JUnit's XML, for Jenkins and GitLab
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(super) confining: Confining,
}

/// Flags of `slow`.
#[derive(Debug, Args)]
pub(crate) struct SlowArguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Operations that took at least this long are slow: a number with its unit, milliseconds
    /// without one, as in nfsslower; 10ms if not given, with --top alone any time
    #[arg(value_name = "TIME", value_parser = latency_ns)]
    latency: Option<u64>,
    /// Print how long the operations of each client, file ... took
    #[arg(long, value_parser = one_of(&PER), value_name = "WHAT")]
    pub(super) per: Option<Per>,
    /// Print so many, those that come first by --by [of --per: 25]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Sort by this, the greatest first; by time the first [time; latency with --top or --per]
    #[arg(long, value_parser = one_of(&BY), value_name = "WHAT")]
    by: Option<SlowBy>,
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    /// Print a JSON object for each operation or group, one per line
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV: a line of names, then one for each operation or group
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
    #[command(flatten)]
    pub(super) confining: Confining,
}

/// Operations that take this long are slow, if nothing else is said: nfsslower's.
const LATENCY_MIN_NS: u64 = 10_000_000;

impl SlowArguments {
    pub(super) fn request(&self) -> Result<SlowRequest, ConfigError> {
        if let (None, Some(by @ (SlowBy::Slow | SlowBy::Operations))) = (self.per, self.by) {
            return Err(ConfigError::usage(&format!(
                "--by {} sorts groups: add --per client, file, directory, user, operation, \
                connection or minute",
                if by == SlowBy::Slow {
                    "slow"
                } else {
                    "operations"
                }
            )));
        }
        let all = self.top.is_some() && self.per.is_none();
        Ok(SlowRequest {
            latency_min_ns: { self.latency }.unwrap_or(if all { 0 } else { LATENCY_MIN_NS }),
            top: self.top,
            by: self.by,
        })
    }
}

/// The words of `--per`, each with a help where it is not plain.
const PER: [(&str, &str, Per); 7] = [
    ("client", "", Per::Client),
    ("file", "", Per::File),
    ("directory", "", Per::Directory),
    ("user", "", Per::User),
    ("operation", "", Per::Operation),
    ("connection", "", Per::Connection),
    ("minute", "", Per::Minute),
];

/// Those of `--by`.
const BY: [(&str, &str, SlowBy); 8] = [
    (
        "time",
        "When the call came; of groups, their names",
        SlowBy::Time,
    ),
    (
        "latency",
        "First byte of the call to last of the reply; of groups, the 99th percentile",
        SlowBy::Latency,
    ),
    (
        "server",
        "End of the call to begin of the reply; of groups, the 99th percentile",
        SlowBy::Server,
    ),
    ("transfer", "Transfer of call and reply", SlowBy::Transfer),
    (
        "recovery",
        "Time that waited for bytes sent again",
        SlowBy::Recovery,
    ),
    ("size", "Bytes moved", SlowBy::Size),
    ("slow", "Of groups: how many were slow", SlowBy::Slow),
    ("operations", "Of groups: operations", SlowBy::Operations),
];

/// Reads a word of a table.
fn one_of<T: Copy + Send + Sync + 'static>(
    words: &'static [(&str, &str, T)],
) -> impl TypedValueParser<Value = T> {
    let possible = words.iter().map(|&(word, help, _)| match help {
        "" => PossibleValue::new(word),
        help => PossibleValue::new(word).help(help),
    });
    PossibleValuesParser::new(possible).map(|given| {
        let known = words.iter().find(|(word, ..)| *word == given);
        known.expect("only these words pass").2
    })
}

/// The selected operations.
#[derive(Debug, Args)]
pub(super) struct FilterArguments {
    /// From this time on: RFC 3339, local time such as 13:35, or how long after the start (10s)
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Before this time, written likewise: such as 10s
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Of this client
    #[arg(long, value_name = "ADDRESS")]
    client: Option<String>,
    /// Of the user with this uid
    #[arg(long, value_name = "UID")]
    user: Option<i64>,
    /// About files whose path fits this pattern: '*.o' the last name, '/vfs/a/*' the whole path;
    /// or of this file_id
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    file: Option<String>,
    /// On this connection: its connection_id, or one of its ends as ADDRESS:PORT
    #[arg(long, value_name = "ID|END")]
    connection: Option<String>,
    /// Of this name, such as READ
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Write times in UTC, not in the zone of this machine (TZ)
    #[arg(long)]
    utc: bool,
}

impl FilterArguments {
    pub(super) fn filter(&self) -> Filter {
        Filter {
            since: self.since,
            until: self.until,
            client: self.client.clone(),
            user_id: self.user,
            file: self.file.clone(),
            connection: self.connection.clone(),
            operation: self.operation.clone(),
            zone: self.zone(),
        }
    }

    /// In which times are written, and those that were given without an offset are read.
    pub(super) fn zone(&self) -> Zone {
        if self.utc {
            Zone::default()
        } else {
            Zone::local()
        }
    }
}

/// Nanoseconds of a time with its unit, or of a number of `unit`.
fn duration(text: &str, unit: &str) -> Result<u64, String> {
    let with_unit = if text.parse::<f64>().is_ok() {
        format!("{text}{unit}")
    } else {
        text.to_owned()
    };
    parse_duration(&with_unit).map_err(|error| error.to_string())
}

/// An assertion about the one trace that `report` has.
fn assert_of_one(text: &str) -> Result<Assert, String> {
    let assert: Assert = text.parse().map_err(|error| format!("{error}"))?;
    if assert.is_of_two() {
        return Err("A, B and ratio are of two traces: give it to 'lineside compare'".to_owned());
    }
    Ok(assert)
}

fn interval_ns(text: &str) -> Result<u64, String> {
    match duration(text, "s")? {
        0 => Err("an interval of 0 contains no operations".to_owned()),
        ns => Ok(ns),
    }
}

fn latency_ns(text: &str) -> Result<u64, String> {
    duration(text, "ms")
}
