//! nfsiostat's columns for each interval of a trace.

use std::path::Path;

use lineside_rows::Table;
use lineside_trace::InMemory;
use lineside_trace::read::{Column, ReadError};
use serde::Serialize;

use crate::model::REPORT_VERSION;
use crate::pass::gauges::Gauges;
use crate::read::batch::Batch;
use crate::read::columns::Integers;
use crate::read::filter::{Asked, Chosen, Filter, span};
use crate::read::lexica::Lexica;
use crate::read::trace::{Trace, TraceError};
use crate::read::waits::HANG_MIN_NS;

/// Intervals in one answer: a day of seconds.
pub const INTERVALS_MAX: u64 = 86_400;

/// The intervals of a trace.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Version of this form: a new field raises the second number, a changed one the first.
    pub report_version: &'static str,
    /// What was asked.
    pub parameters: Asked,
    /// Length of each.
    pub interval_ns: u64,
    /// In order; those without operations too.
    pub intervals: Vec<Interval>,
    /// What could not be read, in sentences.
    pub unreadable: Vec<String>,
}

/// One interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Its begin.
    pub start_ns: i64,
    /// Every operation.
    pub all: Iostat,
    /// READ.
    pub read: Iostat,
    /// WRITE.
    pub write: Iostat,
    /// Calls that waited for their replies when it ended, as far as they are known.
    pub waiting: u64,
    /// How long the oldest of them had waited by then; 0 if none did.
    pub oldest_wait_ns: u64,
}

/// What nfsiostat counts of an operation, and a tap can see. An operation belongs to the interval
/// of its call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Iostat {
    /// Operations.
    pub operations: u64,
    /// RPC messages, calls and replies. READ and WRITE of NFSv4 count all of their compound.
    pub rpc_bytes: u64,
    /// Times that a call came again.
    pub retransmissions: u64,
    /// Failed operations.
    pub failed: u64,
    /// Operations with a round-trip time.
    pub round_trips: u64,
    /// The sum of those times: from the first byte of the call to the last of the reply, as seen on
    /// the wire.
    pub round_trip_sum_ns: u64,
}

/// Counts a trace in intervals from the first chosen operation on.
pub fn intervals(path: &Path, filter: &Filter, interval_ns: u64) -> Result<Series, TraceError> {
    let mut trace = Trace::open_all(path, &filter.zone)?;
    let (chosen, span) = span(&mut trace, filter)?;
    let interval_ns = interval_ns.max(1);
    let in_memory = in_memory(&trace);
    let span = with_waits(span, &chosen, in_memory);
    let mut intervals = empty(span, interval_ns)?;
    let (start_ns, last_ns) = span.unwrap_or_default();
    let mut lexica = Lexica::new();
    let mut compound = Compound::default();
    let mut gauges = Gauges::new(start_ns, interval_ns, intervals.len());
    let shared = Batch::columns(&chosen);
    let columns = [shared.as_slice(), &RPC_BYTES].concat();
    trace.batches(Table::Operations, &columns, |columns| {
        let batch = Batch::of(columns, &chosen, &mut lexica)?;
        let bytes = RpcBytes::of(&columns[shared.len()..])?;
        let [nfs, read, write] = ["nfs", "READ", "WRITE"].map(|text| lexica.words.find(text));
        let rows = batch.chosen(&chosen, &lexica);
        let mut next = 0;
        for row in rows {
            (next..=row).for_each(|row| compound.pass(&batch, &bytes, row));
            next = row + 1;
            let Some(time) = batch.time(row) else {
                continue;
            };
            let place = time.abs_diff(start_ns) / interval_ns;
            let Some(interval) = usize::try_from(place)
                .ok()
                .and_then(|at| intervals.get_mut(at))
            else {
                continue;
            };
            let failed = lexica
                .failure(batch.status.get(row), batch.rpc_status.get(row))
                .is_some();
            let own = bytes.get(row);
            if batch.is_first(row) {
                gauges.add(&batch, row);
            }
            interval.all.add(&batch, row, own, failed);
            if nfs == Some(batch.program.get(row)) {
                let operation = Some(batch.operation.get(row));
                if operation == read {
                    interval.read.add(&batch, row, compound.bytes, failed);
                } else if operation == write {
                    interval.write.add(&batch, row, compound.bytes, failed);
                }
            }
        }
        (next..batch.rows).for_each(|row| compound.pass(&batch, &bytes, row));
        Ok(())
    });
    chosen.check(&lexica, &trace.warnings)?;
    for (interval, gauge) in intervals.iter_mut().zip(gauges.finish(in_memory, last_ns)) {
        (interval.waiting, interval.oldest_wait_ns) = (gauge.waiting, gauge.oldest_ns);
    }
    Ok(Series {
        report_version: REPORT_VERSION,
        parameters: chosen.asked(path, filter),
        interval_ns,
        intervals,
        unreadable: trace.warnings,
    })
}

/// The intervals of a time.
fn empty(span: Option<(i64, i64)>, interval_ns: u64) -> Result<Vec<Interval>, TraceError> {
    let count = span.map_or(0, |(first, last)| last.abs_diff(first) / interval_ns + 1);
    if count > INTERVALS_MAX {
        return Err(TraceError::Intervals {
            count,
            max: INTERVALS_MAX,
        });
    }
    let first_ns = span.map_or(0, |(first, _)| first);
    let starts = (0..count).map(|at| first_ns.saturating_add_unsigned(at * interval_ns));
    let of = |start_ns| Interval {
        start_ns,
        ..Interval::default()
    };
    Ok(starts.map(of).collect())
}

/// What a run that goes on, or was killed, held in memory, if calls waited there for long: they
/// have no rows yet.
fn in_memory(trace: &Trace) -> Option<InMemory> {
    let memory = trace.newest()?.manifest?.in_memory?;
    (memory.oldest_wait_ns >= HANG_MIN_NS).then_some(memory)
}

/// The time up to which calls waited is part of what is looked at.
fn with_waits(
    span: Option<(i64, i64)>,
    chosen: &Chosen,
    in_memory: Option<InMemory>,
) -> Option<(i64, i64)> {
    let (first, last) = span?;
    let hangs = chosen.waits.all().filter(|wait| wait.is_hang());
    let ends = hangs.map(|wait| wait.until_ns);
    let ends = ends.chain(in_memory.map(|memory| memory.time_ns));
    let until = ends.max().unwrap_or(last);
    let until = chosen.until_ns.map_or(until, |end| until.min(end - 1));
    Some((first, last.max(until)))
}

/// The bytes of the RPC whose rows pass: they stand in its first row, and its other rows follow
/// that one.
#[derive(Default)]
struct Compound {
    rpc_id: Option<i64>,
    bytes: u64,
}

impl Compound {
    fn pass(&mut self, batch: &Batch<'_>, bytes: &RpcBytes<'_>, row: usize) {
        let rpc_id = batch.rpc_id.get(row);
        if batch.operation_id.get(row) == rpc_id || self.rpc_id != rpc_id {
            (self.rpc_id, self.bytes) = (rpc_id, bytes.get(row));
        }
    }
}

const RPC_BYTES: [&str; 2] = ["call_bytes", "reply_bytes"];

/// The bytes of calls and replies.
struct RpcBytes<'a>([Integers<'a>; 2]);

impl<'a> RpcBytes<'a> {
    fn of(columns: &'a [Column]) -> Result<Self, ReadError> {
        let integers = |at: usize| Integers::of(RPC_BYTES[at], &columns[at]);
        Ok(Self([integers(0)?, integers(1)?]))
    }

    fn get(&self, row: usize) -> u64 {
        self.0.iter().map(|column| count(column.get(row))).sum()
    }
}

fn count(number: Option<i64>) -> u64 {
    number.map_or(0, |number| u64::try_from(number).unwrap_or(0))
}

impl Iostat {
    fn add(&mut self, batch: &Batch<'_>, row: usize, rpc_bytes: u64, failed: bool) {
        self.operations += 1;
        self.rpc_bytes += rpc_bytes;
        self.retransmissions += batch.retransmissions.get(row);
        self.failed += u64::from(failed);
        if let (Some(call), Some(reply)) =
            (batch.call_time_ns.get(row), batch.reply_end_ns.get(row))
            && let Some(ns) = reply
                .checked_sub(call)
                .and_then(|ns| u64::try_from(ns).ok())
        {
            self.round_trips += 1;
            self.round_trip_sum_ns = self.round_trip_sum_ns.saturating_add(ns);
        }
    }
}
