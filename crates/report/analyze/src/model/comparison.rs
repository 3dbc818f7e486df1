//! A comparison of two traces as data: its terminal and JSON forms are made from it.

use lineside_trace::State;
use serde::Serialize;

use super::{Assertion, ComparedCalls};
use crate::numbers::digits;
use crate::read::filter::Asked;

/// [`Comparison::compare_version`].
pub const COMPARE_VERSION: &str = "1.2";

/// A trace that lasts less shows little of what varies: a slice of it is some 40 ms.
const SHORT_NS: u64 = 2_000_000_000;

/// What changed between two traces, A and B.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Version of this form: a new field raises the second number, a changed one the first.
    pub compare_version: &'static str,
    /// The bounds that hold.
    pub parameters: CompareParameters,
    /// The first trace.
    pub a: Side,
    /// The second trace.
    pub b: Side,
    /// Why the figures below are less sure than they look, in sentences.
    pub doubts: Vec<String>,
    /// What changed: what got worse, then what is different, then what got better; in each, what
    /// matters most comes first.
    pub changes: Vec<Change>,
    /// Further figures that were compared and are no news: of all kinds of operations, and of the
    /// busiest clients, servers and files.
    pub unchanged: Vec<Compared>,
    /// Figures that were compared, those that are not listed too.
    pub comparisons: u64,
    /// What only one of the traces has, whether that is news or chance.
    pub only_in_a: Appearances,
    /// The same of B.
    pub only_in_b: Appearances,
    /// The same call by call, where that was asked for.
    pub calls: Option<ComparedCalls>,
    /// The assertions that were asked for, judged.
    pub assertions: Vec<Assertion>,
}

/// The bounds of a comparison.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompareParameters {
    /// The probability, at most, that of all intervals together any misses.
    pub error_share: f64,
    /// A ratio from which on a change matters, either way.
    pub ratio_min: f64,
    /// Slices of time in each trace: the unit of chance.
    pub slices: u64,
    /// Relative error of quantiles, at most.
    pub quantile_error_share: f64,
    /// Pairs of client and operation, and of server and operation, that are told apart.
    pub pairs_max: u64,
    /// Files, by READ, WRITE and other operations, that are told apart.
    pub files_max: u64,
}

/// One of the traces.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Side {
    /// What was asked of it.
    pub asked: Asked,
    /// Its id.
    pub trace_id: String,
    /// The version of its tables.
    pub schema_version: String,
    /// Its verdict; null if `trace.json` cannot be read.
    pub verdict: Option<State>,
    /// Why, in sentences.
    pub reasons: Vec<String>,
    /// Addresses of its servers.
    pub servers: Vec<String>,
    /// The first chosen operation's time.
    pub start_ns: Option<i64>,
    /// From there to the last one.
    pub duration_ns: u64,
    /// From the first call to the last reply; null: one of them was not seen.
    pub elapsed_ns: Option<u64>,
    /// The way from the client past the tap to the server and back: the median, over connections,
    /// of the shortest that was measured; null: none was.
    pub round_trip_ns: Option<u64>,
    /// Chosen operations.
    pub operations: u64,
    /// Of these, failed ones.
    pub failed: u64,
    /// Different clients, as far as they were distinguished.
    pub clients: u64,
    /// Operations that belong to clients or files for which there was no room: they are compared
    /// with no other.
    pub not_compared_operations: u64,
    /// What could not be read, in sentences.
    pub unreadable: Vec<String>,
}

impl Side {
    /// Whether it lasts too short a time to show what varies; one without operations shows nothing
    /// anyway.
    pub fn is_short(&self) -> bool {
        self.operations > 0 && self.duration_ns < SHORT_NS
    }
}

/// Which way a change goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Course {
    /// Slower, or more failures.
    Worse,
    /// More or less of something that is neither good nor bad.
    Different,
    /// Faster, or fewer failures.
    Better,
}

/// What a figure is about. What is absent is not restricted.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subject {
    /// The client's address.
    pub client: Option<String>,
    /// The server's address.
    pub server: Option<String>,
    /// The file, as in the tables, in decimal digits.
    #[serde(serialize_with = "digits")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub file_id: Option<i64>,
    /// Its path as far as it is known.
    pub path: Option<String>,
    /// Kind of operation: program, version and name; of files `READ`, `WRITE` or `other`.
    pub operation: Option<String>,
    /// With which status it failed, or `no reply`, or `sent again`.
    pub outcome: Option<String>,
}

/// Something that changed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Which way.
    pub course: Course,
    /// What it is about.
    pub subject: Subject,
    /// What changed, in words.
    pub what: String,
    /// Since when, in B; null: from its beginning on, or it cannot be told.
    pub since_ns: Option<i64>,
    /// Of what got worse or better: the time that operations of B waited longer (shorter), added
    /// up, where that is what changed.
    pub lost_ns: u64,
    /// The figures.
    pub figures: Vec<Compared>,
}

/// One figure in both traces.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// What it is about.
    pub subject: Subject,
    /// Which figure, with its unit: `latency_p50_ns`, `latency_p99_ns`,
    /// `latency_geometric_mean_ns`, `operations_per_second`, `operations_share`,
    /// `read_bytes_per_second`, `written_bytes_per_second`, `outcome_share`,
    /// `latency_tail_share` (of all kinds of operations, those that took longer than 99 % of their
    /// kind do in both traces, each weighing the same).
    pub measure: &'static str,
    /// In A.
    pub a: Option<f64>,
    /// In B; since `since_ns`, if that is not null.
    pub b: Option<f64>,
    /// When B left what it had been; null: from its beginning on, or it cannot be told.
    pub since_ns: Option<i64>,
    #[serde(skip)]
    pub(crate) since_slice: Option<u32>,
    /// Operations that it rests on, in A and B.
    pub operations: [u64; 2],
    /// B over A.
    pub ratio: Option<f64>,
    /// Where that ratio lies: all intervals together miss with `error_share` at most. Null: the
    /// data do not bound it.
    pub ratio_low: Option<f64>,
    /// Likewise.
    pub ratio_high: Option<f64>,
    /// Whether it is news.
    pub changed: bool,
}

/// What only one of the traces has, most operations first.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Appearances {
    /// Files.
    pub files: u64,
    /// The busiest of these files.
    pub busiest_files: Vec<Appearance>,
    /// Clients.
    pub clients: Vec<Appearance>,
    /// Servers, where there are several.
    pub servers: Vec<Appearance>,
    /// Kinds of operations.
    pub operations: Vec<Appearance>,
    /// Failures.
    pub outcomes: Vec<Appearance>,
}

/// One such.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Appearance {
    /// What.
    pub subject: Subject,
    /// Its operations.
    pub operations: u64,
}

impl Comparison {
    /// What could not be read of either trace, in sentences.
    pub fn unreadable(&self) -> Vec<String> {
        { self.a.unreadable.iter() }
            .chain(&self.b.unreadable)
            .cloned()
            .collect()
    }
}
