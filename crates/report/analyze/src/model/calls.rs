//! Two traces compared call by call, as data.

use serde::Serialize;

use crate::numbers::digits;

/// By what calls of two traces correspond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CallRule {
    /// A replay names the call that it repeats; of two replays, both the same call.
    #[serde(rename = "source_operation_id")]
    Source,
    /// Client, transaction id and operation: both have the same traffic.
    #[serde(rename = "xid")]
    Xid,
    /// Client, file, operation and what it asks for, in their order.
    #[serde(rename = "order")]
    Order,
}

/// Two traces, A and B, compared call by call.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedCalls {
    /// What came of it, in one or two sentences.
    pub answer: String,
    /// By what calls correspond.
    pub rule: CallRule,
    /// Calls of each trace that are in memory: one whose partner lies farther away than half of
    /// them may stay without it.
    pub window_calls: u64,
    /// Calls that are later or earlier by no more count as neither.
    pub tolerance_ns: u64,
    /// The calls of A.
    pub a: CallsOfSide,
    /// The calls of B.
    pub b: CallsOfSide,
    /// Calls that correspond.
    pub pairs: u64,
    /// Calls of A without a partner in B.
    pub missing: u64,
    /// Calls of B without a partner in A.
    pub added: u64,
    /// Pairs with another status, of any operation of a compound; no reply is one, too.
    pub other_status: u64,
    /// Pairs that ask for something else, or whose replies have something else in them.
    pub other_content: u64,
    /// Of these: another first byte, or another number of bytes asked for.
    pub other_range: u64,
    /// Of these: another name, or other arguments besides.
    pub other_arguments: u64,
    /// Of these: another number of bytes moved, or another size of the file.
    pub other_size: u64,
    /// Of these: other data, by their checksums; null: one of the traces has none.
    pub other_data: Option<u64>,
    /// Calls of B that come later than in A, since the begin of both.
    pub later: u64,
    /// Likewise earlier.
    pub earlier: u64,
    /// Calls of B that come later after the reply that they waited for than in A.
    pub later_themselves: u64,
    /// Likewise earlier.
    pub earlier_themselves: u64,
    /// Clients with differences, those with most first.
    pub clients: Vec<ClientCalls>,
    /// The first calls that are missing, added, of another status or content, and those that are
    /// later or earlier by most.
    pub differences: Vec<CallDifference>,
    /// From the first call to the last reply, in A and B, divided along the calls that waited for
    /// each other; null: no reply.
    pub elapsed: [Option<DividedTime>; 2],
    /// How long calls with a partner took, added up, in A and B.
    pub response: [DividedTime; 2],
    /// The pairs that this is of: those with both replies.
    pub response_pairs: u64,
}

/// The calls of a trace.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallsOfSide {
    /// Calls that were compared; a compound is one.
    pub calls: u64,
    /// Of these, calls without a reply.
    pub unanswered: u64,
    /// Left out: replies whose call was not seen, or has no time.
    pub calls_not_seen: u64,
    /// Left out: calls that came again, which is the transport's doing.
    pub repeats: u64,
}

/// A time by what took it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DividedTime {
    /// All of it.
    pub total_ns: i64,
    /// The server had the call.
    pub server_ns: i64,
    /// Calls and replies were on their way.
    pub network_ns: i64,
    /// The client thought, or nothing was asked of it.
    pub client_ns: i64,
}

/// What differs of a client.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientCalls {
    /// The client in A; of one that only B has, that in B.
    pub client: String,
    /// Pairs.
    pub pairs: u64,
    /// As in the whole.
    pub missing: u64,
    /// Likewise.
    pub added: u64,
    /// Likewise.
    pub other_status: u64,
    /// Likewise.
    pub other_content: u64,
    /// Likewise.
    pub later: u64,
    /// Likewise.
    pub earlier: u64,
    /// By how much its calls come later in B, in the mean.
    pub later_mean_ns: i64,
}

/// What a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// Only in A.
    Missing,
    /// Only in B.
    Added,
    /// The status is another.
    OtherStatus,
    /// Something else was asked for, or came.
    OtherContent,
    /// It comes later.
    Later,
    /// It comes earlier.
    Earlier,
}

/// A call that differs.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallDifference {
    /// What differs.
    pub kind: DifferenceKind,
    /// The client.
    pub client: String,
    /// Program, version and name; of a compound that which it is made for.
    pub operation: String,
    /// The file's path, as far as it is known.
    pub path: Option<String>,
    /// Its `rpc_id` in A, in decimal digits; null also if A has several runs.
    #[serde(serialize_with = "digits")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub a_operation_id: Option<i64>,
    /// Likewise in B.
    #[serde(serialize_with = "digits")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub b_operation_id: Option<i64>,
    /// When it was made in A.
    pub a_time_ns: Option<i64>,
    /// Likewise in B.
    pub b_time_ns: Option<i64>,
    /// What differs, in words.
    pub what: String,
    /// By how much it comes later: after the reply that it waited for, if that is the same in both,
    /// else since the begin.
    pub later_ns: Option<i64>,
}
