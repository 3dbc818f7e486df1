//! One slow operation: what is kept of a row, and what is shown of it.

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;
use lineside_trace::read::{Column, ReadError};
use serde::Serialize;

use super::best::Best;
use super::frames::Frames;
use super::request::{SlowBy, duration};
use crate::numbers::digits;
use crate::read::batch::Batch;
use crate::read::columns::{Integers, Lexicon, Shorts, Texts, Word, Words};
use crate::read::lexica::Lexica;
use crate::read::names::{Paths, weight};
use crate::read::trace::Trace;

/// Operations with a name in a directory, which is their `file_id`: of NFSv2 to NFSv4.
const NAMING: [&str; 10] = [
    "CREATE", "LOOKUP", "MKDIR", "MKNOD", "OPEN", "REMOVE", "RENAME", "RMDIR", "SECINFO", "SYMLINK",
];

/// A slow operation; of an NFSv4 compound, the one that says most of what it does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlowOperation {
    /// Identifies the row of `operations`.
    pub operation_id: i64,
    /// `operation_id` of the first row of its compound.
    pub rpc_id: i64,
    /// The connection, as in `connections`.
    pub connection_id: i64,
    /// When its call began.
    pub call_time_ns: i64,
    /// The caller.
    pub client_address: String,
    /// The callee.
    pub server_address: String,
    /// The user it was made for.
    pub user_id: Option<i64>,
    /// What.
    pub operation: String,
    /// All operations of its compound, in their order; empty if it is in none.
    pub compound: Vec<String>,
    /// Bytes moved.
    pub transferred_bytes: Option<i64>,
    /// Where in the file.
    pub offset_bytes: Option<u64>,
    /// From the first byte of the call to the last of the reply, as seen on the wire; without a
    /// reply, how long the call waited.
    pub latency_ns: u64,
    /// No reply came in that time: it took longer.
    pub latency_is_bound: bool,
    /// Of that, from the end of the call to the begin of the reply: the way from the tap to the
    /// server and back is in it.
    pub server_time_ns: Option<u64>,
    /// Where the latency went.
    pub divided: Divided,
    /// The file, as in the tables, in decimal digits.
    #[serde(serialize_with = "digits")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub file_id: Option<i64>,
    /// Its path as far as it is known; of operations with a name in a directory, such as REMOVE,
    /// that directory's with the name behind it.
    pub path: Option<String>,
    /// The frames of call and reply.
    #[serde(flatten)]
    pub frames: Frames,
    /// The command that shows these frames; null if they lie in no file.
    pub tshark: Option<String>,
}

/// The latency of an operation, divided: the sum of these is the latency. What the client did
/// before the call and after the reply does not pass the tap. Of a call without a reply only the
/// transfer is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Divided {
    /// Call and reply on their way past the tap, from the first byte to the last.
    pub transfer_ns: u64,
    /// Call and reply waited for bytes that had to be sent again; null: the trace is older than
    /// this, and it is in the other parts.
    pub recovery_ns: Option<u64>,
    /// Of `transfer_ns`: a message paused for so long that a lost last segment, of which no tap
    /// shows that it was sent before, or a sender that stood still explains it better than a slow
    /// link: 200 ms or more beyond four times what as many bytes took at the connection's best.
    /// Null: none did.
    pub pause_ns: Option<u64>,
    /// From the tap to the server and back: the shortest round trip of the connection. Null: none
    /// was measured, and it is in `server_ns`.
    pub way_ns: Option<u64>,
    /// The rest: the server had the call.
    pub server_ns: Option<u64>,
}

/// The least timer of TCP for a segment that nothing acknowledges, in Linux: `TCP_RTO_MIN`.
const PAUSE_NS: u64 = 200_000_000;

/// Columns that a slow operation needs besides those of every pass.
pub(super) struct OwnColumns {
    names: Vec<&'static str>,
}

const OWN: [&str; 6] = [
    "connection_id",
    "compound_index",
    "call_frame",
    "reply_frame",
    "call_input",
    "reply_input",
];
const RECOVERY: [&str; 2] = ["call_recovery_ns", "reply_recovery_ns"];

impl OwnColumns {
    pub(super) fn of(trace: &mut Trace) -> Self {
        let mut names = OWN.to_vec();
        if trace.has_columns(Table::Operations, &RECOVERY) {
            names.extend(RECOVERY);
        }
        Self { names }
    }

    pub(super) fn names(&self) -> &[&'static str] {
        &self.names
    }

    pub(super) fn batch<'a>(&self, columns: &'a [Column]) -> Result<RowFacts<'a>, ReadError> {
        let column = |at: usize| (self.names[at], &columns[at]);
        let integers = |at| {
            let (name, column) = column(at);
            Integers::of(name, column)
        };
        let shorts = |at| {
            let (name, column) = column(at);
            Shorts::of(name, column)
        };
        let recovery = match self.names.len() > OWN.len() {
            true => Some([integers(OWN.len())?, integers(OWN.len() + 1)?]),
            false => None,
        };
        Ok(RowFacts {
            connection_id: integers(0)?,
            compound_index: shorts(1)?,
            frames: [integers(2)?, integers(3)?],
            inputs: [shorts(4)?, shorts(5)?],
            recovery,
        })
    }
}

/// [`OwnColumns`] of a batch.
pub(super) struct RowFacts<'a> {
    pub(super) connection_id: Integers<'a>,
    compound_index: Shorts<'a>,
    frames: [Integers<'a>; 2],
    inputs: [Shorts<'a>; 2],
    recovery: Option<[Integers<'a>; 2]>,
}

impl RowFacts<'_> {
    /// How long the call and the reply waited for bytes that were sent again; `None`: the trace
    /// does not have it.
    pub(super) fn recovery_ns(&self, row: usize) -> Option<[u64; 2]> {
        let columns = self.recovery.as_ref()?;
        let of = |column: &Integers<'_>| {
            column
                .get(row)
                .map_or(0, |ns| u64::try_from(ns).unwrap_or(0))
        };
        Some(columns.each_ref().map(of))
    }
}

/// A slow operation as the pass keeps it: a million of them fit into the memory of a report.
#[derive(Debug, Clone, Default)]
pub(super) struct Pick {
    pub(super) operation_id: i64,
    pub(super) rpc_id: i64,
    pub(super) connection_id: i64,
    /// Call, its end, reply, its end.
    pub(super) times: [Option<i64>; 4],
    pub(super) recovery_ns: Option<[u64; 2]>,
    pub(super) user_id: Option<i64>,
    pub(super) file_id: Option<i64>,
    pub(super) transferred: Option<i64>,
    pub(super) offset: Option<i64>,
    pub(super) frames: Frames,
    pub(super) client: Word,
    pub(super) server: Word,
    pub(super) operation: Word,
    pub(super) is_compound: bool,
    pub(super) weight: u8,
    /// It has no reply: how long it waited, and whether even then none came.
    pub(super) wait: Option<(u64, bool)>,
}

impl Pick {
    pub(super) fn of(batch: &Batch<'_>, facts: &RowFacts<'_>, row: usize, lexica: &Lexica) -> Self {
        let operation = batch.operation.get(row);
        let operation_id = batch.operation_id.get(row).unwrap_or_default();
        let weight = match batch.not_executed.get(row) {
            true => 0,
            false => weight(lexica.words.text(operation)),
        };
        Self {
            operation_id,
            rpc_id: batch.rpc_id.get(row).unwrap_or(operation_id),
            connection_id: facts.connection_id.get(row).unwrap_or_default(),
            times: [
                batch.call_time_ns.get(row),
                batch.call_end_ns.get(row),
                batch.reply_time_ns.get(row),
                batch.reply_end_ns.get(row),
            ],
            recovery_ns: facts.recovery_ns(row),
            user_id: batch.user_id.get(row),
            file_id: batch.file_id.get(row),
            transferred: batch.transferred.get(row),
            offset: batch.offset.get(row),
            frames: Frames {
                call_frame: facts.frames[0].get(row),
                reply_frame: facts.frames[1].get(row),
                call_input: facts.inputs[0].get(row),
                reply_input: facts.inputs[1].get(row),
            },
            client: batch.client.get(row),
            server: batch.server.get(row),
            operation,
            is_compound: facts.compound_index.get(row).is_some(),
            weight,
            wait: batch.wait(row).map(|wait| (wait.ns(), wait.is_bound)),
        }
    }

    /// Takes another row of the same compound in: the one that says more stands for it.
    pub(super) fn merge(&mut self, other: Self) {
        if other.weight > self.weight {
            *self = other;
        }
    }

    fn span(&self, from: usize, to: usize) -> Option<u64> {
        duration(self.times[from]?, self.times[to]?)
    }

    pub(super) fn latency_ns(&self) -> u64 {
        let wait = self.wait.map(|(ns, _)| ns);
        wait.or_else(|| self.span(0, 3)).unwrap_or(0)
    }

    fn server_time_ns(&self) -> Option<u64> {
        self.span(1, 2)
    }

    /// The greater, the earlier it comes.
    pub(super) fn rank(&self, by: SlowBy) -> u64 {
        let transfer = || self.span(0, 1).unwrap_or(0) + self.span(2, 3).unwrap_or(0);
        match by {
            SlowBy::Server => self.server_time_ns().unwrap_or(0),
            SlowBy::Transfer => transfer(),
            SlowBy::Recovery => self.recovery_ns.map_or(0, |ns| ns[0].saturating_add(ns[1])),
            SlowBy::Size => self.transferred.map_or(0, |bytes| bytes.max(0) as u64),
            SlowBy::Latency | SlowBy::Time | SlowBy::Slow | SlowBy::Operations => self.latency_ns(),
        }
    }

    /// A call that is sent again may have been lost before the tap, which is in its transfer, or
    /// behind it, which is after its end.
    fn divided(&self, way_ns: Option<u64>, best: &Best) -> Divided {
        let (call, reply) = (self.span(0, 1).unwrap_or(0), self.span(2, 3).unwrap_or(0));
        let recovery = self.recovery_ns.unwrap_or_default();
        let in_call = recovery[0].min(call);
        let in_reply = recovery[1].min(reply);
        let server = self.server_time_ns();
        let behind = (recovery[0] - in_call).min(server.unwrap_or(0));
        let server = server.map(|ns| ns - behind);
        let way_ns = way_ns.zip(server).map(|(way, server)| way.min(server));
        let bytes = self
            .transferred
            .map_or(0, |bytes| bytes.max(0).unsigned_abs());
        let pause = |is_call: bool, took_ns: u64| {
            let expected_ns = best
                .time_ns(self.connection_id, is_call, bytes)
                .saturating_mul(4);
            let pause_ns = took_ns.saturating_sub(expected_ns);
            if pause_ns < PAUSE_NS { 0 } else { pause_ns }
        };
        let pause_ns = pause(true, call - in_call) + pause(false, reply - in_reply);
        Divided {
            transfer_ns: call - in_call + reply - in_reply,
            pause_ns: (pause_ns > 0).then_some(pause_ns),
            recovery_ns: self.recovery_ns.map(|_| in_call + behind + in_reply),
            way_ns,
            server_ns: server.map(|ns| ns - way_ns.unwrap_or(0)),
        }
    }
}

/// What is shown of the picks, in their order.
pub(super) fn operations(
    trace: &mut Trace,
    picks: &[Pick],
    best: &Best,
    lexica: &Lexica,
) -> Vec<SlowOperation> {
    let paths = Paths::of(trace, picks.iter().filter_map(|each| each.file_id));
    let mut texts = RowTexts::of(trace, picks, lexica);
    let connections: HashSet<i64> = picks.iter().map(|each| each.connection_id).collect();
    let ways = ways(trace, &connections);
    let shown = |pick: &Pick| {
        let mut path = pick.file_id.and_then(|id| paths.path(id));
        if let Some(name) = texts.names.get(&pick.operation_id) {
            let directory = path.as_deref().unwrap_or("…").trim_end_matches('/');
            path = Some(format!("{directory}/{name}"));
        }
        SlowOperation {
            operation_id: pick.operation_id,
            rpc_id: pick.rpc_id,
            connection_id: pick.connection_id,
            call_time_ns: pick.times[0].unwrap_or_default(),
            client_address: lexica.clients.text(pick.client).to_owned(),
            server_address: lexica.servers.text(pick.server).to_owned(),
            user_id: pick.user_id,
            operation: lexica.words.text(pick.operation).to_owned(),
            compound: texts.compounds.remove(&pick.rpc_id).unwrap_or_default(),
            transferred_bytes: pick.transferred,
            offset_bytes: pick.offset.map(|bits| bits as u64),
            latency_ns: pick.latency_ns(),
            latency_is_bound: pick.wait.is_some_and(|(_, is_bound)| is_bound),
            server_time_ns: pick.server_time_ns(),
            divided: pick.divided(ways.get(&pick.connection_id).copied(), best),
            file_id: pick.file_id,
            path,
            frames: pick.frames,
            tshark: pick.frames.tshark(trace.manifest.as_ref()),
        }
    };
    picks.iter().map(shown).collect()
}

/// The shortest way from the tap to the server and back, of these connections.
fn ways(trace: &mut Trace, connections: &HashSet<i64>) -> HashMap<i64, u64> {
    let mut ways: HashMap<i64, u64> = HashMap::new();
    let columns = ["connection_id", "server_rtt_min_ns"];
    if !trace.has_columns(Table::Connections, &columns) {
        return ways;
    }
    trace.batches(Table::Connections, &columns, |batch| {
        let [id, rtt] = batch else { return Ok(()) };
        let rows = id.len();
        let (id, rtt) = (
            Integers::of("connection_id", id)?,
            Integers::of("server_rtt_min_ns", rtt)?,
        );
        for row in 0..rows {
            let (Some(id), Some(rtt)) = (id.get(row), rtt.get(row)) else {
                continue;
            };
            if let (true, Ok(rtt)) = (connections.contains(&id), u64::try_from(rtt)) {
                let least = ways.entry(id).or_insert(rtt);
                *least = rtt.min(*least);
            }
        }
        Ok(())
    });
    ways
}

/// Texts of single rows: the name that an operation acts on, by id, and the operations of a
/// compound, by that of its first row.
#[derive(Default)]
struct RowTexts {
    names: HashMap<i64, String>,
    compounds: HashMap<i64, Vec<String>>,
}

impl RowTexts {
    fn of(trace: &mut Trace, picks: &[Pick], lexica: &Lexica) -> Self {
        let naming = |pick: &&Pick| NAMING.contains(&lexica.words.text(pick.operation));
        let naming = picks.iter().filter(naming);
        let naming: HashSet<i64> = naming.map(|pick| pick.operation_id).collect();
        let compounds = picks.iter().filter(|pick| pick.is_compound);
        let compounds: HashSet<i64> = compounds.map(|pick| pick.rpc_id).collect();
        let mut found = Self::default();
        if naming.is_empty() && compounds.is_empty() {
            return found;
        }
        let mut words = Lexicon::new(usize::MAX);
        let columns = ["operation_id", "rpc_id", "operation", "name"];
        trace.batches(Table::Operations, &columns, |batch| {
            let [operation_id, rpc_id, operation, name] = batch else {
                return Ok(());
            };
            let rows = name.len();
            let operation_id = Integers::of("operation_id", operation_id)?;
            let rpc_id = Integers::of("rpc_id", rpc_id)?;
            let operation = Words::of("operation", operation, &mut words)?;
            let name = Texts::of("name", name)?;
            for row in 0..rows {
                if let (Some(id), Some(name)) = (operation_id.get(row), name.get(row))
                    && naming.contains(&id)
                {
                    found.names.insert(id, name.to_owned());
                }
                if let Some(id) = rpc_id.get(row)
                    && compounds.contains(&id)
                {
                    let operation = words.text(operation.get(row)).to_owned();
                    found.compounds.entry(id).or_default().push(operation);
                }
            }
            Ok(())
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_latency_sum_up_to_it() {
        let pick = |recovery_ns| Pick {
            times: [Some(0), Some(10), Some(110), Some(140)],
            recovery_ns,
            ..Pick::default()
        };
        let sum = |divided: Divided| {
            let [recovery, way, server] = [divided.recovery_ns, divided.way_ns, divided.server_ns]
                .map(Option::unwrap_or_default);
            divided.transfer_ns + recovery + way + server
        };
        for recovery_ns in [
            None,
            Some([0, 0]),
            Some([5, 20]),
            Some([60, 30]),
            Some([900, 900]),
        ] {
            for way_ns in [None, Some(1), Some(90), Some(1_000)] {
                let divided = pick(recovery_ns).divided(way_ns, &Best::default());
                assert_eq!(sum(divided), 140, "{recovery_ns:?} {way_ns:?} {divided:?}");
            }
        }
        let lost_behind_the_tap = pick(Some([60, 0])).divided(Some(20), &Best::default());
        assert_eq!(lost_behind_the_tap.server_ns, Some(100 - 50 - 20));
    }

    #[test]
    fn a_pause_is_no_slow_link() {
        const MS: i64 = 1_000_000;
        let write = |transferred, took: i64, recovery: i64| Pick {
            times: [0, took, took + MS, took + 2 * MS].map(Some),
            transferred: Some(transferred),
            recovery_ns: Some([recovery.unsigned_abs(), 0]),
            ..Pick::default()
        };
        let mut best = Best::default();
        let pause = |best: &Best, pick: Pick| pick.divided(None, best).pause_ns;
        // 64 KiB pass in 1 ms: a call of 218 ms waited for its last segment.
        best.note(0, true, 65_536, 1_000_000);
        let paused = pause(&best, write(65_536, 218 * MS, 0));
        assert_eq!(paused, Some(214_000_000));
        // TCP showed what it waited for, or it was short.
        assert_eq!(pause(&best, write(65_536, 218 * MS, 217 * MS)), None);
        assert_eq!(pause(&best, write(65_536, 150 * MS, 0)), None);
        // A link on which as many bytes never took less is slow.
        let mut slow = Best::default();
        slow.note(0, true, 65_536, 200_000_000);
        assert_eq!(pause(&slow, write(65_536, 218 * MS, 0)), None);
    }

    #[test]
    fn a_compound_is_named_by_what_it_is_for() {
        let mut pick = Pick::default();
        for (operation_id, name) in ["SEQUENCE", "PUTFH", "OPEN", "READ", "GETATTR"]
            .into_iter()
            .enumerate()
        {
            pick.merge(Pick {
                operation_id: operation_id as i64,
                weight: weight(name),
                ..Pick::default()
            });
        }
        assert_eq!(pick.operation_id, 3);
    }
}
