//! The rows of a load's requests on their way into the table `operations`: a thread for each
//! worker takes its batches, and all share one encoder.
//!
//! ```text
//!  worker ── rows, after 0.1 s ──► its thread ──► encoder ── a part, each 0.25 s ──► PartWriter
//! ```
//!
//! A run that is killed loses what has no part yet: the sum of both times, and that of writing.

use std::borrow::Cow;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lineside_account::{Budget, Lease};
use lineside_host::RunClock;
use lineside_rows::{OperationRow, RecordSink, RowRef, Table, Word};
use lineside_run::{PartRotation, Parts, bound_encoder, on_disk};
use lineside_store::{PartQueue, RunFolder};
use lineside_time::Clock;
use lineside_trace::{Summaries, TraceEncoder};
use lineside_words::grouped;

use crate::client::FOLLOWERS;
use crate::protocol::{Named, Request};
use crate::results::{Cause, Row};
use crate::rows::{RowSource, Rows, rows};

/// Bits below a request's number in ids: as of captures, whose frames hold several rows.
const PLACE_BITS: u32 = 18;
/// Bits below a worker's number.
const WORKER_BITS: u32 = 54;

/// When parts of the table end: four a second, so that a kill loses half a second at most. They
/// become one later, as those of captures do.
const ROTATION: PartRotation = PartRotation {
    flush_ns: NonZeroU64::new(250_000_000),
    ..PartRotation::LIVE
};
/// A thread looks so often whether a part is to end, where no rows come.
const LOOK: Duration = Duration::from_millis(50);

/// Whose requests the rows are.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// What rows call the protocol.
    pub name: &'static str,
    /// What carries it.
    pub transport: &'static str,
}

/// The table and the queues of all workers.
pub struct Recording {
    writer: Mutex<Writer>,
    /// Taken by the workers as they begin.
    queues: Mutex<Vec<Option<Rows>>>,
    /// Taken by their threads.
    sources: Mutex<Vec<RowSource>>,
    queue: PartQueue,
}

struct Writer {
    encoder: TraceEncoder<Parts>,
    /// The table is there, and its parts end.
    has_begun: bool,
    memory: Option<Lease>,
    row: OperationRow,
    /// Rows that came, whether or not they could be written.
    rows: u64,
}

/// The table of a load that is over.
#[derive(Debug, Default)]
pub struct Recorded {
    /// What is on the disk.
    pub tables: Summaries,
    /// Why rows are missing.
    pub failure: Option<String>,
    /// What the user may want to know.
    pub notes: Vec<String>,
}

/// A lock whose holder panicked guards nothing that is torn.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recording {
    /// A table in `folder`, with a row for each `every`-th request; `None`: with none.
    pub fn new(
        folder: &RunFolder,
        trace_id: &str,
        every: Option<u64>,
        workers: u32,
        budget: &Budget,
    ) -> Self {
        let config = ROTATION.encoder(&[Table::Operations], trace_id);
        let output = ROTATION.writer(folder, trace_id, budget);
        let queue = output.queue();
        let encoder = TraceEncoder::new(&config, Parts(output));
        let queues = { every.into_iter() }.flat_map(|every| (0..workers).map(move |_| rows(every)));
        let (queues, sources) = queues.map(|(queue, source)| (Some(queue), source)).unzip();
        Self {
            writer: Mutex::new(Writer {
                encoder,
                has_begun: false,
                memory: budget.lease(0),
                row: OperationRow::default(),
                rows: 0,
            }),
            queues: Mutex::new(queues),
            sources: Mutex::new(sources),
            queue,
        }
    }

    /// Requests are about to leave: the table is there from now on.
    pub fn begin(&self) {
        let mut writer = lock(&self.writer);
        writer.encoder.begin();
        writer.has_begun = true;
    }

    /// What is on the disk by now, and how many rows came that are not.
    pub fn so_far(&self) -> (Summaries, u64) {
        let writer = lock(&self.writer);
        let mut tables = writer.encoder.summaries();
        on_disk(&mut tables, &self.queue.on_disk());
        let written = rows_of(&tables);
        (tables, writer.rows.saturating_sub(written))
    }

    /// Why rows are missing, once some are.
    pub fn failure(&self) -> Option<String> {
        let writer = lock(&self.writer);
        writer.encoder.error().map(ToString::to_string)
    }

    /// The queue of a worker.
    pub fn rows(&self, worker: u32) -> Option<Rows> {
        lock(&self.queues).get_mut(worker as usize)?.take()
    }

    /// Runs `load` while threads write the rows of its workers.
    pub fn beside<T>(
        &self,
        program: &Program,
        names: &(dyn Fn() -> Box<dyn Named> + Sync),
        clock: RunClock,
        load: impl FnOnce() -> T,
    ) -> T {
        std::thread::scope(|scope| {
            let sources = std::mem::take(&mut *lock(&self.sources));
            for (worker, source) in (0u64..).zip(sources) {
                scope.spawn(move || self.write_all(worker, &source, program, &*names(), clock));
            }
            let outcome = load();
            // Of workers that never began, the queues end here.
            lock(&self.queues).clear();
            outcome
        })
    }

    fn write_all(
        &self,
        worker: u64,
        source: &RowSource,
        program: &Program,
        names: &dyn Named,
        clock: RunClock,
    ) {
        loop {
            let mut writer = None;
            let came = source.next(LOOK, |row| {
                let writer = writer.get_or_insert_with(|| lock(&self.writer));
                fill(&mut writer.row, worker, row, program, names);
                let Writer {
                    encoder, row, rows, ..
                } = &mut **writer;
                encoder.row(RowRef::Operations(row));
                *rows += 1;
            });
            let mut writer = writer.unwrap_or_else(|| lock(&self.writer));
            let Writer {
                encoder,
                has_begun,
                memory,
                ..
            } = &mut *writer;
            if *has_begun {
                encoder.on_time(clock.now());
            }
            bound_encoder(encoder, memory);
            if came == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Ends the table.
    pub fn finish(self) -> Recorded {
        let writer = self.writer.into_inner();
        let Writer {
            mut encoder, rows, ..
        } = writer.unwrap_or_else(PoisonError::into_inner);
        encoder.end_parts();
        let mut tables = encoder.summaries();
        let finished = encoder.finish().map_err(|error| error.to_string());
        let written =
            finished.and_then(|(output, _)| output.0.finish().map_err(|error| error.to_string()));
        on_disk(&mut tables, &self.queue.on_disk());
        let missing = rows.saturating_sub(rows_of(&tables));
        Recorded {
            failure: written.err().map(|why| match missing {
                0 => why,
                missing => format!(
                    "{why}; the rows of {} requests are missing",
                    grouped(missing)
                ),
            }),
            notes: self.queue.take_notes(),
            tables,
        }
    }
}

fn rows_of(tables: &Summaries) -> u64 {
    tables.iter().map(|(_, summary)| summary.rows).sum()
}

/// The row of a request.
fn fill(row: &mut OperationRow, worker: u64, request: &Row, program: &Program, names: &dyn Named) {
    let known = |address: IpAddr| (!address.is_unspecified()).then_some(address);
    let port = |port: u16| (port != 0).then_some(i32::from(port));
    let [client, server] = request.ends;
    let id = id(worker, request.ordinal);
    let asked = Request {
        ordinal: request.ordinal,
        slot: request.slot,
    };
    *row = OperationRow {
        operation_id: id,
        rpc_id: id,
        connection_id: signed(worker << WORKER_BITS | u64::from(request.slot) << PLACE_BITS),
        intended_time_ns: Some(request.intended_ns),
        call_time_ns: request.departed_ns,
        call_end_ns: request.departed_ns,
        reply_time_ns: request.first_ns,
        reply_end_ns: request.end_ns,
        client_address: known(client.0),
        client_port: port(client.1),
        server_address: known(server.0),
        server_port: port(server.1),
        transport: Some(program.transport),
        program: Word::Known(program.name),
        operation: Word::Known(names.operation(asked)),
        status: status(request.status, names),
        transferred: request.status.map(|_| signed(request.content_bytes)),
        call_bytes: Some(signed(request.request_bytes)),
        reply_missing: request.cause.is_some(),
        failure: request.cause.map(Cause::name),
        ..OperationRow::default()
    };
    names.describe(asked, request.status, row);
}

/// A status as the protocol calls it, or its number.
fn status(status: Option<u32>, names: &dyn Named) -> Word {
    match status.map(|status| (status, names.status(status))) {
        None => Word::None,
        Some((_, Cow::Borrowed(name))) => Word::Known(name),
        Some((status, Cow::Owned(_))) => Word::Number(status.into()),
    }
}

/// The id of a request's row: worker, number, and in the lowest bit whether it follows another one
/// on a connection that arrived.
fn id(worker: u64, ordinal: u64) -> i64 {
    let (number, follows) = match ordinal.checked_sub(FOLLOWERS) {
        Some(number) => (number, 1),
        None => (ordinal, 0),
    };
    signed(worker << WORKER_BITS | number << PLACE_BITS | follows)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Echo;

    #[test]
    fn a_row_has_what_is_known_of_its_request() {
        let ends = [("0.0.0.0", 4_000), ("10.0.0.1", 80)];
        let ends = ends.map(|(address, port)| (address.parse().expect("an address"), port));
        let failed = Row {
            ordinal: 5,
            slot: 3,
            intended_ns: 1_000,
            departed_ns: Some(1_010),
            first_ns: None,
            end_ns: None,
            ends,
            status: None,
            request_bytes: 64,
            content_bytes: 0,
            cause: Some(Cause::Reset),
        };
        let echo = &Program {
            name: "echo",
            transport: "tcp",
        };
        let mut row = OperationRow::default();
        fill(&mut row, 2, &failed, echo, &Echo::new(64, 1));
        assert_eq!(row.operation_id, (2 << 54) + (5 << 18));
        assert_eq!(row.connection_id, (2 << 54) + (3 << 18));
        assert_eq!(
            (row.intended_time_ns, row.call_time_ns),
            (Some(1_000), Some(1_010))
        );
        assert_eq!((row.client_address, row.client_port), (None, Some(4_000)));
        assert_eq!(row.server_port, Some(80));
        assert_eq!((row.status, row.transferred), (Word::None, None));
        assert_eq!((row.failure, row.reply_missing), (Some("reset"), true));
        let answered = Row {
            status: Some(200),
            content_bytes: 9,
            cause: None,
            ..failed
        };
        fill(&mut row, 0, &answered, echo, &Echo::new(64, 1));
        assert_eq!((row.status, row.transferred), (Word::Number(200), Some(9)));
        assert_eq!((row.failure, row.reply_missing), (None, false));
    }

    #[test]
    fn ids_of_requests_that_follow_are_their_own() {
        assert_ne!(id(0, 7), id(0, FOLLOWERS + 7));
        assert_eq!(id(1, FOLLOWERS + 7), (1 << 54) + (7 << 18) + 1);
    }
}
