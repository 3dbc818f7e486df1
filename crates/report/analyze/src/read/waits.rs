//! How long calls without a reply waited, as far as the tap can know.
//!
//! ```text
//!  operations ─► calls without a reply, and calls that repeat one ─┐
//!  connections, losses, the inputs' ends ─► until when to look ────┴─► Waits, by rpc_id
//! ```
//!
//! A call without a reply has waited until a side ended its connection by FIN or RST. Where no side
//! did, it has waited as long as the tap would have seen the reply: over TCP until the end of the
//! input that has the call, over UDP, where nothing shows an end, until the last packet of its
//! connection. No reply came until then, so the time is a bound: the wait was longer.
//!
//! Calls that `repeat_of` joins are one wait, which the first of them has: it ends with the first
//! reply to any of them. Where the tap may have missed the reply there is no wait: it lost bytes of
//! the server after the call; it sees nothing of the server, and nothing is sent again, as where it
//! sees one direction; or a call over UDP did not come again, as clients send it that get no reply.
//! Nor is there one where the protocol has no reply.
//!
//! `docs/guide/trace.md` has the same rule in SQL ("How long a call waited"); a test compares both.

use std::path::{Path, PathBuf};

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;
use lineside_trace::read::{Column, ReadError};

use crate::read::columns::{Counts, Flags, Integers, Shorts, Texts};
use crate::read::trace::Trace;

/// Calls without a reply that are kept, of a hundred bytes each: more are only counted as
/// unanswered.
const CALLS_MAX: usize = 1 << 20;

/// Shorter waits are those of calls that were in flight when the capture, or their connection,
/// ended. A guess: servers that take a second for an operation are rare, and hangs last longer.
pub const HANG_MIN_NS: u64 = 1_000_000_000;

/// Bytes that did not get through for this long were lost again and again.
const STUCK_MIN_NS: Option<i64> = Some(1_000_000_000);

/// Calls that the protocol does not answer, or only where there is something to say: the
/// asynchronous procedures of NLM, and the indirect ones of portmap and rpcbind.
const WITHOUT_REPLY: [&str; 3] = ["CALLIT", "BCAST", "INDIRECT"];

/// A call without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    /// When the call began, and when it had come whole; the begin again where it never had.
    pub(crate) call_ns: i64,
    pub(crate) call_end_ns: i64,
    /// It came whole, and bytes of its connection did not get stuck since, as far as is known.
    pub(crate) is_whole: bool,
    /// Until then it waited.
    pub(crate) until_ns: i64,
    /// No reply came even then; else a call that repeats this one was answered.
    pub(crate) is_bound: bool,
    /// When the server's last packet on the connection passed.
    pub(crate) server_last_ns: Option<i64>,
    pub(crate) is_udp: bool,
}

impl Wait {
    /// From the first byte of the call on.
    pub(crate) fn ns(&self) -> u64 {
        self.until_ns.abs_diff(self.call_ns)
    }

    /// From the last byte of the call on.
    pub(crate) fn server_ns(&self) -> u64 {
        self.until_ns.abs_diff(self.call_end_ns.min(self.until_ns))
    }

    /// Whether it lasted longer than a call that is in flight does.
    pub(crate) fn is_hang(&self) -> bool {
        self.ns() >= HANG_MIN_NS
    }
}

/// The waits of a trace.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    of: HashMap<i64, Wait>,
    /// Calls without a reply whose wait another call has.
    joined: HashSet<i64>,
}

/// A call without a reply as the table has it.
#[derive(Debug, Clone, Copy)]
struct Call {
    call_ns: i64,
    call_end_ns: Option<i64>,
    connection_id: i64,
    input: usize,
    first: Option<i64>,
    is_sent_again: bool,
}

/// What the tables show of a connection.
#[derive(Debug, Clone, Copy, Default)]
struct Connection {
    is_udp: bool,
    /// Something of the server passed, or the client sent something again.
    is_seen: bool,
    ended_ns: Option<i64>,
    last_ns: Option<i64>,
    server_last_ns: Option<i64>,
    /// When the tap last missed bytes of the server.
    missed_ns: Option<i64>,
    /// Until when bytes of the client did not get through.
    stuck_until_ns: Option<i64>,
}

const ENDS: [&str; 10] = [
    "connection_id",
    "transport",
    "server_packets",
    "client_retransmissions",
    "client_last_packet_ns",
    "server_last_packet_ns",
    "ended_ns",
    "client_stuck_ns",
    "client_stuck_since_ns",
    "client_stuck_bytes",
];
const CALLS: [&str; 11] = [
    "rpc_id",
    "repeat_of",
    "call_time_ns",
    "call_end_ns",
    "reply_end_ns",
    "reply_missing",
    "call_missing",
    "connection_id",
    "call_input",
    "retransmissions",
    "operation",
];

impl Waits {
    /// Looks for calls without a reply; a trace without any, or of an older lineside, has no waits.
    pub(crate) fn of(trace: &mut Trace) -> Self {
        let mut waits = Self::default();
        if !trace.has(Table::Connections) || !trace.has_columns(Table::Connections, &ENDS) {
            return waits;
        }
        for run in 0..trace.run_count() {
            waits.add_run(trace, run);
        }
        waits
    }

    /// The wait of a call without a reply, by its `rpc_id`.
    pub(crate) fn get(&self, rpc_id: i64) -> Option<&Wait> {
        self.of.get(&rpc_id)
    }

    /// Whether the wait of a call without a reply is part of another's.
    pub(crate) fn is_joined(&self, rpc_id: i64) -> bool {
        self.joined.contains(&rpc_id)
    }

    /// All of them, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Wait> {
        self.of.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    fn add_run(&mut self, trace: &mut Trace, run: usize) {
        let (calls, answered) = calls_of(trace, run);
        if calls.is_empty() {
            return;
        }
        let connections = connections(trace, run, &calls);
        let ends = trace.ends_of_inputs(run);
        let until = |call: &Call| {
            let at = connections.get(&call.connection_id);
            let at = at.copied().unwrap_or_default();
            let is_missed = at.missed_ns.is_some_and(|missed| missed >= call.call_ns);
            if is_missed || !(call.is_sent_again || at.is_seen && !at.is_udp) {
                return None;
            }
            let end = ends.get(call.input).copied().flatten();
            let last = match at.is_udp {
                true => at.last_ns,
                false => at.last_ns.max(end),
            };
            at.ended_ns.or(last)
        };
        let mut repeats: HashMap<i64, Vec<&Call>> = HashMap::new();
        for (id, call) in &calls {
            if let Some(first) = call.first.filter(|first| calls.contains_key(first)) {
                self.joined.insert(*id);
                repeats.entry(first).or_default().push(call);
            }
        }
        for (id, call) in calls.iter().filter(|(id, _)| !self.joined.contains(*id)) {
            let repeats = repeats.get(id).into_iter().flatten().copied();
            let bound = repeats.chain([call]).map(until).max().flatten();
            let answer = answered.get(id).copied();
            let until_ns = answer.or(bound).filter(|&ns| ns >= call.call_ns);
            let Some(until_ns) = until_ns else { continue };
            let at = connections.get(&call.connection_id);
            let wait = Wait {
                call_ns: call.call_ns,
                call_end_ns: call.call_end_ns.unwrap_or(call.call_ns),
                // What the tap saw before bytes were lost did not reach the server whole.
                is_whole: call.call_end_ns.is_some()
                    && at.is_none_or(|at| at.stuck_until_ns < Some(call.call_ns)),
                until_ns,
                is_bound: answer.is_none(),
                server_last_ns: at.and_then(|at| at.server_last_ns),
                is_udp: at.is_some_and(|at| at.is_udp),
            };
            self.of.insert(*id, wait);
        }
    }
}

/// The calls without a reply, by `rpc_id`, and when the first call was answered that repeats one,
/// by the `rpc_id` of that one. Most traces have none, and most parts: a column shows it.
fn calls_of(trace: &mut Trace, run: usize) -> (HashMap<i64, Call>, HashMap<i64, i64>) {
    let (mut calls, mut answered) = (HashMap::new(), HashMap::new());
    let parts = trace.parts_of(run, Table::Operations);
    let has_missing = |path: &PathBuf| {
        let missing = |column: &Column| Ok(Flags::of("reply_missing", column)?.are_any());
        has_any(trace, (run, path.as_path()), "reply_missing", missing)
    };
    let missing: Vec<bool> = parts.iter().map(has_missing).collect();
    // Repeats matter for calls without a reply alone.
    if !missing.contains(&true) {
        return (calls, answered);
    }
    for (path, missing) in parts.iter().zip(missing) {
        let part = (run, path.as_path());
        let repeats = |column: &Column| {
            let repeat_of = Integers::of("repeat_of", column)?;
            Ok((0..column.len()).any(|row| repeat_of.get(row).is_some()))
        };
        if missing || has_any(trace, part, "repeat_of", repeats) {
            trace.batches_of_part(part, Table::Operations, &CALLS, |batch| {
                add_calls(batch, &mut calls, &mut answered)
            });
        }
    }
    (calls, answered)
}

/// Whether some batch of a column of a part has what is looked for.
fn has_any(
    trace: &mut Trace,
    part: (usize, &Path),
    name: &str,
    has: impl Fn(&Column) -> Result<bool, ReadError>,
) -> bool {
    let mut has_any = false;
    trace.batches_of_part(part, Table::Operations, &[name], |batch| {
        if let ([column], false) = (batch, has_any) {
            has_any = has(column)?;
        }
        Ok(())
    });
    has_any
}

fn add_calls(
    batch: &[Column],
    calls: &mut HashMap<i64, Call>,
    answered: &mut HashMap<i64, i64>,
) -> Result<(), ReadError> {
    let integers = |at: usize| Integers::of(CALLS[at], &batch[at]);
    let (rpc_id, repeat_of, reply_end) = (integers(0)?, integers(1)?, integers(4)?);
    let (call_time, call_end) = (integers(2)?, integers(3)?);
    let missing = Flags::of(CALLS[5], &batch[5])?;
    let call_missing = Flags::of(CALLS[6], &batch[6])?;
    let connection_id = integers(7)?;
    let input = Shorts::of(CALLS[8], &batch[8])?;
    let again = Counts::of(CALLS[9], &batch[9])?;
    let operation = Texts::of(CALLS[10], &batch[10])?;
    for row in 0..batch[0].len() {
        let (is_missing, first) = (missing.get(row), repeat_of.get(row));
        if !is_missing && first.is_none() {
            continue;
        }
        let Some(id) = rpc_id.get(row) else {
            continue;
        };
        if let (Some(first), Some(end)) = (first, reply_end.get(row)) {
            let at = answered.entry(first).or_insert(end);
            *at = end.min(*at);
        }
        if !is_missing || call_missing.get(row) || calls.len() >= CALLS_MAX {
            continue;
        }
        let name = operation.get(row).unwrap_or_default();
        let is_one_way = name.ends_with("_MSG") || name.ends_with("_RES");
        let Some(call_ns) = call_time.get(row) else {
            continue;
        };
        if is_one_way || WITHOUT_REPLY.contains(&name) {
            continue;
        }
        calls.entry(id).or_insert(Call {
            call_ns,
            call_end_ns: call_end.get(row),
            connection_id: connection_id.get(row).unwrap_or_default(),
            input: { input.get(row) }.map_or(usize::MAX, |at| usize::try_from(at).unwrap_or(0)),
            first,
            is_sent_again: again.get(row) > 0,
        });
    }
    Ok(())
}

/// The connections of these calls.
fn connections(
    trace: &mut Trace,
    run: usize,
    calls: &HashMap<i64, Call>,
) -> HashMap<i64, Connection> {
    let ids = calls
        .values()
        .map(|call| (call.connection_id, Connection::default()));
    let mut connections: HashMap<i64, Connection> = ids.collect();
    trace.batches_of(run, Table::Connections, &ENDS, |batch| {
        let integers = |at: usize| Integers::of(ENDS[at], &batch[at]);
        let (id, server_packets, again) = (integers(0)?, integers(2)?, integers(3)?);
        let (client_last, server_last, ended) = (integers(4)?, integers(5)?, integers(6)?);
        let transport = Texts::of(ENDS[1], &batch[1])?;
        let (stuck, stuck_since, stuck_bytes) = (integers(7)?, integers(8)?, integers(9)?);
        for row in 0..batch[0].len() {
            let Some(of) = id.get(row).and_then(|id| connections.get_mut(&id)) else {
                continue;
            };
            of.is_udp = transport.get(row) == Some("udp");
            of.is_seen |= server_packets.get(row) > Some(0) || again.get(row) > Some(0);
            of.server_last_ns = of.server_last_ns.max(server_last.get(row));
            of.last_ns = of
                .last_ns
                .max(client_last.get(row))
                .max(server_last.get(row));
            of.ended_ns = [of.ended_ns, ended.get(row)].into_iter().flatten().min();
            let is_stuck = stuck_bytes.get(row) > Some(0) && stuck.get(row) >= STUCK_MIN_NS;
            let until = { stuck_since.get(row).zip(stuck.get(row)) }
                .filter(|_| is_stuck)
                .map(|(since, lasted)| since.saturating_add(lasted));
            of.stuck_until_ns = of.stuck_until_ns.max(until);
        }
        Ok(())
    });
    let columns = ["connection_id", "direction", "time_ns", "cause"];
    trace.batches_of(run, Table::Losses, &columns, |batch| {
        let [id, direction, time, cause] = batch else {
            return Ok(());
        };
        let rows = id.len();
        let id = Integers::of(columns[0], id)?;
        let direction = Texts::of(columns[1], direction)?;
        let time = Integers::of(columns[2], time)?;
        let cause = Texts::of(columns[3], cause)?;
        for row in 0..rows {
            let of = id.get(row).and_then(|id| connections.get_mut(&id));
            // Memory ran short for a call, and its reply counts as one without a call.
            let is_its = direction.get(row) != Some("client_to_server")
                || cause.get(row) == Some("call_given_up");
            if let Some(of) = of.filter(|_| is_its) {
                of.missed_ns = of.missed_ns.max(time.get(row));
            }
        }
        Ok(())
    });
    connections
}
