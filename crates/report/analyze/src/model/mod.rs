//! The report as data: what its terminal, JSON and HTML forms are drawn from.
//!
//! In JSON the names are those below. Times are nanoseconds since the Unix epoch (`_ns`), durations
//! nanoseconds (`_ns`), sizes bytes (`_bytes`), shares 0 to 1 (`_share`); every other number counts
//! what its name names. `docs/guide/report.md` explains each.

mod assertion;
mod calls;
mod comparison;
mod finding;
mod load_course;
mod monitors;

use std::collections::BTreeMap;

use lineside_trace::{InputFacts, SandboxFacts, State, TwoTaps};
use serde::Serialize;

use crate::emulation::Emulation;
use crate::forwarding::Forwarding;
use crate::load::LoadReport;
use crate::numbers::digits;
use crate::read::filter::Asked;
use crate::read::runs::RunOfMany;
use crate::read::unfinished::Unfinished;
use crate::replaying::Replayed;

pub use assertion::{Assertion, WithAssertions};
pub use calls::{
    CallDifference, CallRule, CallsOfSide, ClientCalls, ComparedCalls, DifferenceKind, DividedTime,
};
pub use comparison::{
    Appearance, Appearances, COMPARE_VERSION, Change, CompareParameters, Compared, Comparison,
    Course, Side, Subject,
};
pub use finding::{Finding, Place};
pub use load_course::{LoadOverTime, LoadQuantile, LoadSteps};
pub use monitors::{
    METRICS, MonitorBin, MonitorDistribution, MonitorEvent, MonitorFlow, MonitorFlows,
    MonitorPlace, MonitorRate, MonitorWindows, MonitoredFlow, Monitors, MonitorsOverTime,
};

/// [`Report::report_version`].
pub const REPORT_VERSION: &str = "3.11";

/// The whole report.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Version of this form: a new field raises the second number, a changed one the first.
    pub report_version: &'static str,
    /// What was asked, and the bounds that hold.
    pub parameters: Parameters,
    /// The trace it is about.
    pub trace: TraceFacts,
    /// What the emulated link did that the frames passed, if `emulate` wrote this.
    pub emulation: Option<Emulation>,
    /// What the forwarder did, if `forward` wrote this.
    pub forwarding: Option<Forwarding>,
    /// What came of the load, if `load` wrote this.
    pub load: Option<LoadReport>,
    /// What came of the replay, if `replay` wrote this.
    pub replay: Option<Replayed>,
    /// What the capture did not see. About the whole trace, whatever the filter.
    pub missing: Missing,
    /// How much of the traffic became operations. About the whole trace, whatever the filter.
    pub understood: Option<Understood>,
    /// Sums over the chosen operations.
    pub totals: Totals,
    /// What stands out: first what clients waited for, longest first; then the rest, most
    /// operations first.
    pub findings: Vec<Finding>,
    /// The chosen operations over time.
    pub over_time: OverTime,
    /// By program, version and operation, most operations first.
    pub operations: Vec<Operation>,
    /// READ.
    pub reads: Direction,
    /// WRITE.
    pub writes: Direction,
    /// The busiest files: what was read or written, or is a regular file by its attributes.
    pub files: Ranking,
    /// The busiest directories: what names were looked up or listed in, or is one by its
    /// attributes.
    pub directories: Ranking,
    /// The busiest other objects: links and the like, and what nothing shows the type of.
    pub objects: Ranking,
    /// The busiest clients.
    pub clients: Ranking,
    /// The busiest servers: of several addresses of a filer, of data servers of pNFS.
    pub servers: Ranking,
    /// The busiest users, by the uid of AUTH_SYS.
    pub users: Ranking,
    /// The busiest pairs of client and file, of `files` alone.
    pub pairs: Ranking,
    /// Clients whose READs and WRITEs are not aligned, most such operations first.
    pub misaligned_clients: Vec<Misaligned>,
    /// Seconds in which a client asked for attributes very often, highest peak first.
    pub getattr_storms: Vec<GetattrStorm>,
    /// Further storms, for which there was no room in `getattr_storms`.
    pub getattr_storms_not_listed: u64,
    /// Failed operations by operation and status, most first.
    pub errors: Vec<ErrorCount>,
    /// Failed operations of further kinds, for which there was no room in `errors`.
    pub errors_not_listed: u64,
    /// The connections with the busiest seconds on the wire, each direction apart, busiest first.
    /// Empty if the trace is older than the columns.
    pub wire: Vec<WireRate>,
    /// What monitors found, in runs that have any; else the field is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitors: Option<Monitors>,
    /// The assertions that were asked for, judged.
    pub assertions: Vec<Assertion>,
}

/// How much one end of a connection sent at most, frames with their headers.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WireRate {
    /// Address of the client.
    pub client: String,
    /// Its port.
    pub client_port: Option<i32>,
    /// Address of the server.
    pub server: String,
    /// `client_to_server` or `server_to_client`.
    pub direction: &'static str,
    /// In the busiest second.
    pub peak_1s_bytes: u64,
    /// In the busiest millisecond.
    pub peak_1ms_bytes: u64,
    /// The share of the busiest second in what the interface claims to carry; null if nothing says
    /// that, or the inputs claim several speeds.
    pub speed_share: Option<f64>,
}

/// What was asked, and the bounds that hold.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// What was asked.
    #[serde(flatten)]
    pub asked: Asked,
    /// The configuration of the capture, as `trace.json` has it.
    pub configuration: Option<serde_json::Value>,
    /// Entries in lists of the busiest.
    pub top_max: u64,
    /// Steps over time.
    pub steps_max: u64,
    /// Files that are distinguished.
    pub files_max: u64,
    /// Clients that are distinguished.
    pub clients_max: u64,
    /// Users that are distinguished.
    pub users_max: u64,
    /// Pairs of client and file that are distinguished, of files with several clients.
    pub pairs_max: u64,
    /// Kinds of operations that are distinguished.
    pub operations_max: u64,
    /// Relative error of quantiles, at most.
    pub quantile_error_share: f64,
    /// The same for quantiles over time.
    pub quantile_over_time_error_share: f64,
    /// From where on something stands out.
    pub thresholds: Thresholds,
}

/// From where on something stands out. A share is exceeded, the others are reached.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thresholds {
    /// Operations of the report, or READs and WRITEs of a client: fewer are not significant.
    pub operations_min: u64,
    /// Operations that alignment and small sizes are about, of all: fewer do not matter.
    pub notable_share: f64,
    /// GETATTR, ACCESS and LOOKUP, of the calls of NFSv2 and v3.
    pub attributes_share: f64,
    /// READs or WRITEs that do not begin at a multiple of 4096 bytes, of the random ones.
    pub misaligned_share: f64,
    /// READs and WRITEs of one client that do not begin and end at one.
    pub misaligned_client_share: f64,
    /// Small sequential ones, of the READs or WRITEs.
    pub small_sequential_share: f64,
    /// The largest size that is small.
    pub small_size_max_bytes: u64,
    /// Files from which on a few can be hot.
    pub hot_files_min: u64,
    /// The few hottest.
    pub hot_files_first: u64,
    /// Their operations, of all.
    pub hot_files_share: f64,
    /// Clients from which on one can be busy.
    pub busy_client_min: u64,
    /// Its operations, of all.
    pub busy_client_share: f64,
    /// Operations that fail with STALE, or one that lost its state or has to come again, of all.
    pub stale_share: f64,
    /// Operations that fail with another status, of all; those of a server in trouble stand out
    /// from the first on.
    pub failed_share: f64,
    /// Calls that came again, of all operations.
    pub repeated_share: f64,
    /// GETATTRs of one client in one second: a storm.
    pub getattr_storm_client_per_second: u64,
    /// GETATTRs of one client on one file in one second: a storm.
    pub getattr_storm_file_per_second: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        THRESHOLDS
    }
}

/// The thresholds: where a storage engineer would look twice.
pub const THRESHOLDS: Thresholds = Thresholds {
    operations_min: 1_000,
    notable_share: 0.05,
    attributes_share: 0.5,
    misaligned_share: 0.5,
    // Chronicle found clients of which more than 80 % was misaligned.
    misaligned_client_share: 0.8,
    small_sequential_share: 0.5,
    small_size_max_bytes: 8_192,
    hot_files_min: 1_000,
    hot_files_first: 25,
    hot_files_share: 0.25,
    busy_client_min: 10,
    busy_client_share: 0.25,
    stale_share: 0.01,
    failed_share: 0.1,
    repeated_share: 0.01,
    // Linux asks again after acregmin, 3 s: Chronicle's storms were 214/s for one pair, 56,000/s in
    // all.
    getattr_storm_client_per_second: 1_000,
    getattr_storm_file_per_second: 100,
};

/// The trace that a report is about.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TraceFacts {
    /// Its id.
    pub trace_id: String,
    /// The version of its tables.
    pub schema_version: String,
    /// What wrote it, with the version.
    pub tool: String,
    /// What was captured.
    pub inputs: Vec<InputFacts>,
    /// When it was recorded; null where that is not known, or where a part of the trace was
    /// deleted.
    pub recorded: Option<Recorded>,
    /// Inputs that are two taps of one path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub two_taps: Vec<TwoTaps>,
    /// Whether foreign bytes were read in a sandbox, if it is known.
    pub sandbox: Option<SandboxFacts>,
    /// Columns that the report needs and an older lineside did not write, as `table.column`.
    pub lacks: Vec<String>,
    /// Fields of `trace.json` that a newer lineside wrote, and nothing here knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
    /// The runs in the order of time, if there are several: of what cannot be added up, the above
    /// is that of the newest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunOfMany>,
}

/// When a capture was recorded: from its first frame to its last or, at an interface, to the end of
/// the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recorded {
    /// Its begin.
    pub first_ns: i64,
    /// Its end.
    pub last_ns: i64,
}

impl TraceFacts {
    /// Bits a second that the interfaces of all inputs claim, if they claim the same.
    pub fn speed_bps(&self) -> Option<u64> {
        let mut speeds = self.inputs.iter().map(|input| input.speed_bps);
        let first = speeds.next()??;
        speeds.all(|speed| speed == Some(first)).then_some(first)
    }
}

/// What the capture did not see.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missing {
    /// The trace's verdict; absent if `trace.json` cannot be read.
    pub verdict: Option<State>,
    /// What is in memory, or was lost with it; absent if the trace is finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    /// Why, in sentences.
    pub reasons: Vec<String>,
    /// Shares of what is missing, by name.
    pub shares: BTreeMap<String, f64>,
    /// From the table `losses`.
    pub losses: Vec<Loss>,
    /// Parts of the trace that could not be read, in sentences.
    pub unreadable: Vec<String>,
    /// Files that were renamed on another connection than the one that showed their old name, if
    /// any did: their paths may have it still.
    pub renames_unfollowed: u64,
}

/// What was lost in one direction for one cause.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Loss {
    /// `client_to_server`, `server_to_client`; empty for a port's dropped frames.
    pub direction: String,
    /// As in the table.
    pub cause: String,
    /// Rows: holes in streams, or times that drops were counted.
    pub holes: u64,
    /// Bytes of streams.
    pub lost_bytes: u64,
    /// Frames that a port dropped.
    pub dropped_frames: u64,
}

/// How much of the traffic became operations.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Understood {
    /// Connections.
    pub connections: u64,
    /// Those with RPC.
    pub rpc_connections: u64,
    /// Those with TLS, which cannot be read.
    pub tls_connections: u64,
    /// Payload that came and was understood as RPC, TCP and UDP.
    pub rpc_bytes: u64,
    /// Payload of connections with RPC.
    pub rpc_connections_bytes: u64,
    /// The first of the second.
    pub rpc_connections_share: f64,
    /// TCP payload that was understood as RPC.
    pub tcp_rpc_bytes: u64,
    /// All TCP payload, lost bytes included, those that came twice once.
    pub tcp_bytes: u64,
    /// The first of the second.
    pub tcp_share: f64,
}

/// Sums over the chosen operations.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// Rows of `operations`.
    pub operations: u64,
    /// Calls: of an NFSv4 compound, whose operations have a row each, one.
    pub calls: u64,
    /// Those whose status, or RPC status, is not success.
    pub failed: u64,
    /// Calls whose reply was not seen.
    pub unanswered: u64,
    /// Replies whose call was not seen.
    pub without_call: u64,
    /// Operations some fields or data of which were not seen.
    pub incomplete: u64,
    /// Calls that came again after their reply.
    pub repeated: u64,
    /// Times that a call came again before its reply.
    pub retransmissions: u64,
    /// Replies to a call after the first.
    pub duplicate_replies: u64,
    /// Operations without any time: in no step over time.
    pub without_time: u64,
    /// Operations whose user is not known: without AUTH_SYS, or without call.
    pub without_user: u64,
    /// Times of which the later lies before the earlier: in no quantile.
    pub negative_times: u64,
    /// Answered READs and WRITEs whose bytes moved are unknown: cut, or incomplete.
    pub without_amount: u64,
    /// How long clients waited, added up over the calls: from the first byte of a call to the last
    /// of its reply. Of a call without a reply that waited for 1 s or longer, how long.
    pub waited_ns: u64,
    /// Bytes that READ moved.
    pub read_bytes: u64,
    /// Bytes that WRITE moved.
    pub written_bytes: u64,
    /// The first operation's time.
    pub first_ns: Option<i64>,
    /// The last operation's time.
    pub last_ns: Option<i64>,
    /// Between the two.
    pub duration_ns: u64,
    /// Different files, as far as they were distinguished.
    pub files: u64,
    /// Different directories, likewise.
    pub directories: u64,
    /// Different objects that are neither, or of which nothing shows the type.
    pub objects: u64,
    /// Different clients, as far as they were distinguished.
    pub clients: u64,
    /// Different servers, as far as they were distinguished.
    pub servers: u64,
    /// Different users, as far as they were distinguished.
    pub users: u64,
}

/// Operations by time: lists of equal length, a value for each step.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverTime {
    /// Where the first step begins.
    pub start_ns: i64,
    /// Length of a step.
    pub step_ns: u64,
    /// READ.
    pub reads: Vec<u64>,
    /// WRITE.
    pub writes: Vec<u64>,
    /// Everything else.
    pub others: Vec<u64>,
    /// Bytes that READ moved.
    pub read_bytes: Vec<u64>,
    /// Bytes that WRITE moved.
    pub written_bytes: Vec<u64>,
    /// Failed operations.
    pub failed: Vec<u64>,
    /// Calls without reply.
    pub unanswered: Vec<u64>,
    /// Median server time of what was called in the step.
    pub server_time_p50_ns: Vec<Option<u64>>,
    /// Its 99th percentile.
    pub server_time_p99_ns: Vec<Option<u64>>,
}

/// One kind of operation.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Operation {
    /// As in the table; empty: the call was not seen.
    pub program: String,
    /// As in the table.
    pub version: Option<i32>,
    /// As in the table; empty: the call was not seen.
    pub operation: String,
    /// How many.
    pub operations: u64,
    /// Of all chosen ones.
    pub operations_share: f64,
    /// Failed ones.
    pub failed: u64,
    /// Without reply.
    pub unanswered: u64,
    /// Calls that came again after their reply.
    pub repeated: u64,
    /// Times that a call came again before its reply.
    pub retransmissions: u64,
    /// Bytes moved.
    pub moved_bytes: u64,
    /// `reply_time_ns - call_end_ns`; of a compound, that of the whole compound. Of a call without
    /// a reply that waited for 1 s or longer, how long.
    pub server_time: Quantiles,
    /// `call_end_ns - call_time_ns`.
    pub call_transfer_time: Quantiles,
    /// `reply_end_ns - reply_time_ns`.
    pub reply_transfer_time: Quantiles,
}

/// Quantiles of durations. Minimum, maximum and mean are exact, the others within the stated error.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// Operations that have such a time.
    pub operations: u64,
    /// The least.
    pub min_ns: Option<u64>,
    /// The mean.
    pub mean_ns: Option<u64>,
    /// The median.
    pub p50_ns: Option<u64>,
    /// 90 %.
    pub p90_ns: Option<u64>,
    /// 99 %.
    pub p99_ns: Option<u64>,
    /// 99.9 %.
    pub p999_ns: Option<u64>,
    /// The greatest.
    pub max_ns: Option<u64>,
    /// The least of the times that are bounds, of calls that waited and got no reply: a quantile of
    /// as much or more is a bound too. Null: none is.
    pub bound_min_ns: Option<u64>,
}

impl Quantiles {
    /// Whether one of them is a bound: it took longer.
    pub fn is_bound(&self, ns: Option<u64>) -> bool {
        self.bound_min_ns.is_some_and(|least| ns >= Some(least))
    }
}

/// READ or WRITE.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Direction {
    /// How many.
    pub operations: u64,
    /// Bytes moved.
    pub moved_bytes: u64,
    /// Those that begin where the one before, of the same file and direction, ended.
    pub sequential: u64,
    /// Those that begin elsewhere.
    pub random: u64,
    /// The first of their file: neither.
    pub first_of_file: u64,
    /// Sequential ones of at most `small_size_max_bytes` asked for.
    pub small_sequential: u64,
    /// Random ones that do not begin at a multiple of 4096 bytes.
    pub random_misaligned: u64,
    /// Sequential of sequential and random.
    pub sequential_share: Option<f64>,
    /// Those whose offset and size are known: the next two count among them.
    pub placed: u64,
    /// Those that begin and end at multiples of 512 bytes.
    pub aligned_512: u64,
    /// Those that begin and end at multiples of 4096 bytes.
    pub aligned_4096: u64,
    /// By size asked for.
    pub sizes: Vec<SizeClass>,
}

/// Operations of about one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeClass {
    /// The largest size in the class: a power of two (or 0); the class begins above half of it.
    pub size_max_bytes: u64,
    /// How many.
    pub operations: u64,
    /// Bytes moved.
    pub moved_bytes: u64,
}

/// The busiest of something.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ranking {
    /// How many there are, as far as they were distinguished.
    pub count: u64,
    /// Operations that belong to none, for lack of room: what is not listed may have that many
    /// more.
    pub not_tracked_operations: u64,
    /// Bytes of those.
    pub not_tracked_bytes: u64,
    /// Most operations first.
    pub by_operations: Vec<Busy>,
    /// Most bytes first.
    pub by_bytes: Vec<Busy>,
    /// Which share of all operations and bytes is with the first few, also of those that are with
    /// none of them.
    pub concentration: Vec<Concentration>,
}

/// A file, a client, a server, a user or a pair of client and file, and what was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Busy {
    /// The path of the file as far as it is known, or the address of the client or server. Empty:
    /// nothing is known.
    pub name: String,
    /// Of files and pairs: as in the tables, in decimal digits.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "digits")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub file_id: Option<i64>,
    /// Of pairs: the client's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Of users: the uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<i64>,
    /// Operations.
    pub operations: u64,
    /// Failed ones.
    pub failed: u64,
    /// Bytes that READ moved.
    pub read_bytes: u64,
    /// Bytes that WRITE moved.
    pub written_bytes: u64,
    /// Of servers: how long clients waited for it, as in `totals`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
}

/// A point of a concentration curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Concentration {
    /// The busiest so many.
    pub first: u64,
    /// Their share of all operations, ranked by operations.
    pub operations_share: f64,
    /// Their share of all bytes that READ and WRITE moved, ranked by bytes.
    pub bytes_share: f64,
    /// Of servers: their share of all that clients waited, ranked by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_share: Option<f64>,
}

/// READs and WRITEs of a client that are not aligned.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Misaligned {
    /// Its address.
    pub client: String,
    /// READs and WRITEs with known offset and size: the next two count among them.
    pub placed: u64,
    /// Those that begin and end at multiples of 512 bytes.
    pub aligned_512: u64,
    /// Those that begin and end at multiples of 4096 bytes.
    pub aligned_4096: u64,
    /// Those that do not, of `placed`.
    pub misaligned_share: f64,
}

/// Seconds, of the clock that stamped the frames, in which a client sent at least so many GETATTRs
/// as the thresholds say: on one file, or on all together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GetattrStorm {
    /// The client's address.
    pub client: String,
    /// The file, as in the tables, in decimal digits; null: all together.
    #[serde(serialize_with = "digits")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub file_id: Option<i64>,
    /// Its path as far as it is known; empty: not known, or all files together.
    pub path: String,
    /// Such seconds.
    pub seconds: u64,
    /// GETATTRs in them.
    pub operations: u64,
    /// The most in one second.
    pub peak_per_second: u64,
    /// When that second began.
    pub peak_ns: i64,
}

/// Failures of one operation with one status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorCount {
    /// As in the table.
    pub program: String,
    /// As in the table.
    pub operation: String,
    /// The protocol's status, or RPC's where there is none.
    pub status: String,
    /// How many.
    pub failed: u64,
    /// The first one's time.
    pub first_ns: Option<i64>,
    /// The last one's time.
    pub last_ns: Option<i64>,
    /// A value for each step of `over_time`.
    pub over_time: Vec<u64>,
}
