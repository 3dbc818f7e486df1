//! Flags of `report`, `slow`, `failed` and `compare`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lineside_analyze::{Assert, FailedRequest, Moment, Per, SlowBy, SlowRequest};
use lineside_words::parse_duration;

use crate::config::ConfigError;
use crate::confine::Confining;
use crate::filters::FilterArguments;
use crate::print::say;

/// Flags of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    /// Print everything, not only the first screen
    #[arg(long, conflicts_with_all = ["json", "html", "interval"])]
    pub(super) full: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV with a header: a line for each operation name, or for each interval
    #[arg(long, conflicts_with_all = ["json", "html", "full"])]
    pub(super) csv: bool,
    /// Write a self-contained HTML page (- is standard output)
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(super) html: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "html")]
    pub(super) force: bool,
    /// Print nfsiostat's columns for each interval, e.g. 10s or seconds without a unit
    #[arg(long, value_name = "SECONDS", conflicts_with = "html", value_parser = interval_ns)]
    pub(super) interval: Option<u64>,
    /// Exit with 3 unless this holds: 'p99(READ) < 10ms', 'errors < 1%'; can be repeated
    #[arg(long, value_name = "EXPR", conflicts_with = "interval", value_parser = assert_of_one)]
    pub(super) assert: Vec<Assert>,
    /// Write what came of each --assert as JUnit's XML, for Jenkins and GitLab
    #[arg(long, value_name = "FILE", conflicts_with = "interval")]
    pub(super) junit: Option<PathBuf>,
    /// Of a lab: which delay or rate brings a metric so far, e.g. 'answered >= 20000'
    #[arg(long, value_name = "EXPR", conflicts_with = "json")]
    pub(super) target: Option<String>,
    #[command(flatten)]
    pub(super) confining: Confining,
}

/// Calls of each kind that `compare --calls` lists, at most: they are kept in memory.
const CALLS_TOP_MAX: u64 = 10_000;

/// Flags of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The folder of a trace: before
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// The folder of another trace: after; none with --at
    #[arg(value_name = "B", required_unless_present = "at")]
    pub(crate) b: Option<PathBuf>,
    /// Compare one trace before and after this time: RFC 3339, or a time after its start, e.g. 10s
    #[arg(long, value_name = "TIME", conflicts_with_all = ["b", "since", "until"])]
    pub(super) at: Option<Moment>,
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    /// Compare call by call: which are missing, added, of another status or content, later or
    /// earlier, and what the difference of time is made of
    #[arg(long, conflicts_with = "at")]
    pub(super) calls: bool,
    /// With --calls: list N calls of each kind of difference [default: 10]
    #[arg(short = 'n', long, value_name = "N", requires = "calls",
        value_parser = clap::value_parser!(u64).range(..=CALLS_TOP_MAX))]
    pub(super) top: Option<u64>,
    /// Print all figures, also unchanged ones, and what only one of the traces has
    #[arg(long, conflicts_with = "calls")]
    pub(super) full: bool,
    /// There is no page of a comparison
    #[arg(long, hide = true, value_name = "FILE", num_args = 0..=1)]
    pub(super) html: Option<Option<PathBuf>>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV with a header: a line for each figure that changed; with --full for all; with
    /// --calls for each call that is listed
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
    /// Exit with 3 unless this holds: 'B.p99(READ) < 10ms', 'ratio.p50(WRITE) < 1.2',
    /// 'elapsed <= 110%'; can be repeated
    #[arg(long, value_name = "EXPR")]
    pub(super) assert: Vec<Assert>,
    /// Of two labs: exit with 3 if a metric is worse by this share or more, with an interval that
    /// is beyond no change, or cannot be judged [default: 5%, and status 0]
    #[arg(long, value_name = "SHARE", value_parser = one_share)]
    pub(super) threshold: Option<f64>,
    /// Of two labs: another run of A; below what it differs from A nothing is claimed
    #[arg(long, value_name = "RUN")]
    pub(super) control: Option<PathBuf>,
    /// Of two labs: write a table for a pull request to FILE (- is standard output)
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(super) markdown: Option<PathBuf>,
    /// Exit with 4 unless the verdicts of both are complete
    #[arg(long)]
    pub(super) strict: bool,
    /// Write what came of each --assert, or of each metric of two labs, as JUnit's XML, for Jenkins
    /// and GitLab
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
    /// List operations that took at least TIME [default: 10ms; with --top alone 0]
    #[arg(value_name = "TIME", value_parser = Latency::parse)]
    latency: Option<Latency>,
    /// Print how long the operations of each client, file ... took
    #[arg(long, value_parser = one_of(&PER), value_name = "WHAT")]
    pub(super) per: Option<Per>,
    /// Print the first N by --by [default: all; with --per 25]
    #[arg(short = 'n', long, value_name = "N")]
    top: Option<usize>,
    /// Sort by this, the greatest first, by time the first [default: time; with --top or --per
    /// latency]
    #[arg(long, value_parser = one_of(&BY), value_name = "WHAT")]
    by: Option<SlowBy>,
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    /// Print a JSON object for each operation or group, one per line
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV with a header: a line for each operation or group
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
    #[command(flatten)]
    pub(super) confining: Confining,
}

/// Flags of `failed`.
#[derive(Debug, Args)]
pub(crate) struct FailedArguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Only this status, e.g. STALE or NFS4ERR_DELAY; UNANSWERED: calls without a reply
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Count the failures of each client, file, status ...
    #[arg(long, value_parser = one_of(&PER), value_name = "WHAT")]
    pub(super) per: Option<Per>,
    /// Print the first N, of groups those with most failures [default: all]
    #[arg(short = 'n', long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    /// Print a JSON object for each operation or group, one per line
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV with a header: a line for each operation or group
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
    #[command(flatten)]
    pub(super) confining: Confining,
}

impl FailedArguments {
    pub(super) fn request(&self) -> FailedRequest {
        FailedRequest {
            status: self.status.clone(),
            top: self.top,
        }
    }
}

/// Operations that take this long are slow by default: nfsslower's.
const LATENCY_MIN_NS: u64 = 10_000_000;

impl SlowArguments {
    pub(super) fn request(&self) -> Result<SlowRequest, ConfigError> {
        if let Some(note) = self.latency.as_ref().and_then(Latency::note) {
            say(&note);
        }
        if let (None, Some(by @ (SlowBy::Slow | SlowBy::Operations))) = (self.per, self.by) {
            return Err(ConfigError::usage(&format!(
                "--by {} sorts groups: add --per client, server, file, directory, user, \
                operation, connection, minute or status",
                if by == SlowBy::Slow {
                    "slow"
                } else {
                    "operations"
                }
            )));
        }
        let all = self.top.is_some() && self.per.is_none();
        Ok(SlowRequest {
            latency_min_ns: match &self.latency {
                Some(latency) => latency.ns,
                None if all => 0,
                None => LATENCY_MIN_NS,
            },
            top: self.top,
            by: self.by,
        })
    }
}

/// The words of `--per`, each with a help where it is not plain.
const PER: [(&str, &str, Per); 9] = [
    ("client", "", Per::Client),
    ("server", "", Per::Server),
    ("file", "", Per::File),
    ("directory", "", Per::Directory),
    ("user", "", Per::User),
    ("operation", "", Per::Operation),
    ("connection", "", Per::Connection),
    ("minute", "", Per::Minute),
    ("status", "", Per::Status),
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
    if assert.is_of_calls() {
        return Err("it is of two traces: give it to 'lineside compare --calls'".to_owned());
    }
    if assert.is_of_two() {
        return Err(
            "A, B, ratio and a share of a time are of two traces: give it to 'lineside compare'"
                .to_owned(),
        );
    }
    Ok(assert)
}

fn interval_ns(text: &str) -> Result<u64, String> {
    match duration(text, "s")? {
        0 => Err("an interval of 0 contains no operations".to_owned()),
        ns => Ok(ns),
    }
}

/// A latency, as it was given.
#[derive(Debug, Clone)]
struct Latency {
    text: String,
    ns: u64,
}

impl Latency {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self {
            text: text.to_owned(),
            ns: duration(text, "ms")?,
        })
    }

    /// A number without a unit is milliseconds, as in nfsslower; nothing else here is.
    fn note(&self) -> Option<String> {
        let text = &self.text;
        let has_no_unit = text.parse::<f64>().is_ok() && self.ns > 0;
        has_no_unit.then(|| format!("'{text}' is read as {text}ms: write the unit"))
    }
}

/// A share such as `5%` or `0.05`.
fn one_share(word: &str) -> Result<f64, String> {
    let share = lineside_words::parse_share(word).filter(|share| *share > 0.0);
    share.ok_or_else(|| format!("'{word}': give a share above 0, such as 5%"))
}
