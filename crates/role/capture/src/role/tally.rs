//! Operations counted by program and name, from rows as they pass.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use lineside_measure::SharedTimes;
use lineside_rows::{
    OperationCells, OperationRow, OperationRows, RecordSink, RowRef, Table, Word, is_success,
};
use serde::Serialize;

use crate::taps::{Amend, Amended};

/// Operations, counted as they pass.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Tally {
    /// By program, version and operation.
    pub operations: BTreeMap<String, BTreeMap<String, OperationCount>>,
    /// All of them.
    pub total: u64,
    /// Those whose reply is missing.
    pub unanswered: u64,
    /// Those whose call is missing.
    pub replies_without_call: u64,
    /// Those of which a part is missing.
    pub incomplete: u64,
    /// The earliest call or reply, nanoseconds since the Unix epoch.
    pub first_ns: Option<i64>,
    /// The latest.
    pub last_ns: Option<i64>,
}

/// The count of one operation.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct OperationCount {
    /// Rows.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
    /// Bytes of file data.
    pub bytes_moved: u64,
}

impl Tally {
    /// The count of an operation; a text that was not seen is empty.
    pub fn count(
        &mut self,
        program: &str,
        version: Option<i64>,
        operation: &str,
    ) -> &mut OperationCount {
        let program = match version {
            _ if program.is_empty() => "call not seen".to_owned(),
            Some(version) => format!("{program} v{version}"),
            None => program.to_owned(),
        };
        let operation = if operation.is_empty() { "?" } else { operation };
        self.operations
            .entry(program)
            .or_default()
            .entry(operation.to_owned())
            .or_default()
    }

    /// Counts a row beside its operation.
    pub fn row(
        &mut self,
        times: [Option<i64>; 2],
        call_missing: bool,
        reply_missing: bool,
        incomplete: bool,
    ) {
        self.total += 1;
        self.replies_without_call += u64::from(call_missing);
        self.unanswered += u64::from(reply_missing);
        self.incomplete += u64::from(incomplete);
        for time in times {
            let Some(time) = time else {
                continue;
            };
            if self.first_ns.is_none_or(|first| time < first) {
                self.first_ns = Some(time);
            }
            if self.last_ns.is_none_or(|last| time > last) {
                self.last_ns = Some(time);
            }
        }
    }
}

/// A sink that tallies operations and passes every row on.
pub(super) struct Tallying<S> {
    /// The operations so far.
    pub tally: RowTally,
    /// Their latencies; only of a live run, whose line shows them.
    pub latencies: Option<Arc<SharedTimes>>,
    /// Columns that others set: what another tap saw, what a replay repeats.
    pub amend: Option<Arc<dyn Amend>>,
    /// Where the rows go.
    pub next: S,
}

/// The count of one kind, and a status of it that is no failure.
#[derive(Debug, Default)]
struct Counted {
    fine: &'static str,
    count: OperationCount,
}

/// Program, version and operation.
type Kind = (Word, Option<i32>, Word);

macro_rules! counted_cells {
    ($($name:ident: $type:ty,)*) => {
        /// The cells of a row of `operations` that are counted.
        #[derive(Debug, Default)]
        struct Counting {
            $($name: $type,)*
            is_incomplete: bool,
        }

        impl OperationCells for Counting {
            $(#[inline(always)]
            fn $name(&mut self, value: $type) {
                self.$name = value;
            })*

            #[inline(always)]
            fn call_incomplete(&mut self, value: bool) {
                self.is_incomplete |= value;
            }

            #[inline(always)]
            fn reply_incomplete(&mut self, value: bool) {
                self.is_incomplete |= value;
            }

            #[inline(always)]
            fn data_incomplete(&mut self, value: bool) {
                self.is_incomplete |= value;
            }
        }
    };
}

counted_cells! {
    operation_id: i64,
    rpc_id: i64,
    call_time_ns: Option<i64>,
    reply_time_ns: Option<i64>,
    reply_end_ns: Option<i64>,
    program: Word,
    version: Option<i32>,
    operation: Word,
    rpc_status: Word,
    status: Word,
    transferred: Option<i64>,
    call_missing: bool,
    reply_missing: bool,
}

/// A tally by the words of rows, which cost no allocation.
#[derive(Debug, Default)]
pub(super) struct RowTally {
    counts: Vec<(Kind, Counted)>,
    /// Where a kind was found last, by its operation.
    found: Vec<usize>,
    rest: Tally,
}

impl RowTally {
    /// Several times the procedures of NFSv3, so that few share a place.
    const FOUND: usize = 128;

    /// Whether there was no row.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.total == 0
    }

    fn add(&mut self, row: &Counting) {
        self.rest.row(
            [row.call_time_ns, row.reply_time_ns],
            row.call_missing,
            row.reply_missing,
            row.is_incomplete,
        );
        let is_same = |(program, version, operation): &Kind| {
            is_same_word(operation, &row.operation)
                && *version == row.version
                && is_same_word(program, &row.program)
        };
        self.found.resize(Self::FOUND, 0);
        let found = &mut self.found[place_of(&row.operation)];
        if !self
            .counts
            .get(*found)
            .is_some_and(|(known, _)| is_same(known))
        {
            let known = self.counts.iter().position(|(known, _)| is_same(known));
            *found = known.unwrap_or_else(|| {
                let kind = (row.program, row.version, row.operation);
                self.counts.push((kind, Counted::default()));
                self.counts.len() - 1
            });
        }
        let Counted { fine, count } = &mut self.counts[*found].1;
        let status = name(&row.status);
        let is_fine = std::ptr::eq(*fine, status) && !status.is_empty();
        let failed = !is_fine && is_failure(status, name(&row.rpc_status));
        if !failed {
            *fine = status;
        }
        count.add(failed, row.transferred);
    }

    pub(super) fn finish(&self) -> Tally {
        let mut tally = self.rest.clone();
        for ((program, version, operation), Counted { count, .. }) in &self.counts {
            tally
                .count(&text(program), version.map(i64::from), &text(operation))
                .merge(count);
        }
        tally
    }
}

/// A word's place among those found last: by its address, which is spread by a factor as in
/// Fibonacci hashing.
fn place_of(word: &Word) -> usize {
    let bits = match word {
        Word::None => 0,
        Word::Known(text) => text.as_ptr().addr() as u64,
        Word::Number(number) => number.cast_unsigned(),
    };
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RowTally::FOUND.ilog2())) as usize
}

/// Whether two words are the same by where they lie: one text in two places counts as two words
/// here, and [`RowTally::finish`] puts them together.
fn is_same_word(one: &Word, other: &Word) -> bool {
    match (one, other) {
        (Word::None, Word::None) => true,
        (Word::Known(one), Word::Known(other)) => std::ptr::eq(*one, *other),
        (Word::Number(one), Word::Number(other)) => one == other,
        _ => false,
    }
}

impl OperationCount {
    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.bytes_moved += other.bytes_moved;
    }

    pub fn add(&mut self, failed: bool, transferred: Option<i64>) {
        self.calls += 1;
        self.errors += u64::from(failed);
        self.bytes_moved += transferred.map_or(0, |bytes| bytes.max(0) as u64);
    }
}

impl<S: RecordSink> RecordSink for Tallying<S> {
    fn wants(&self, table: Table) -> bool {
        self.next.wants(table)
    }

    fn on_time(&mut self, now_ns: i64) {
        self.next.on_time(now_ns);
    }

    #[inline(always)]
    fn row(&mut self, row: RowRef<'_>) {
        if let RowRef::Operations(row) = row {
            let mut counting = Counting::default();
            row.put_to(&mut counting);
            self.count(&counting);
            if let Some(amend) = &self.amend {
                let mut row = OperationRow::clone(row);
                amend.amend(&mut row);
                return self.next.row(RowRef::Operations(&row));
            }
        }
        self.next.row(row);
    }

    #[inline(always)]
    fn operation(&mut self, rows: &mut impl OperationRows) {
        let mut counting = Counting::default();
        rows.operation(&mut counting);
        self.count(&counting);
        match &self.amend {
            None => self.next.operation(rows),
            Some(amend) => {
                let amend = amend.as_ref();
                self.next.operation(&mut Amended { rows, amend });
            }
        }
    }
}

impl<S> Tallying<S> {
    fn count(&mut self, row: &Counting) {
        self.tally.add(row);
        if let Some(latencies) = &self.latencies {
            add_latency(row, latencies);
        }
    }
}

/// From the first byte of a call to the last of its reply, of a compound once.
fn add_latency(row: &Counting, latencies: &SharedTimes) {
    let ends = row.call_time_ns.zip(row.reply_end_ns);
    let latency = ends.and_then(|(call, reply)| u64::try_from(reply.checked_sub(call)?).ok());
    if let Some(latency) = latency.filter(|_| row.operation_id == row.rpc_id) {
        latencies.add(latency);
    }
}

/// Takes rows and keeps none, where the tally alone is needed.
pub(super) struct Discard;

impl RecordSink for Discard {
    fn wants(&self, _: Table) -> bool {
        false
    }

    fn on_time(&mut self, _: i64) {}

    fn row(&mut self, _: RowRef<'_>) {}

    fn operation(&mut self, _: &mut impl OperationRows) {}
}

/// Whether a status means that the operation failed.
pub fn is_failure(status: &str, rpc_status: &str) -> bool {
    if status.is_empty() {
        !rpc_status.is_empty() && !is_success(rpc_status)
    } else {
        !is_success(status)
    }
}

/// A word's name, empty for null; a number has none of those that [`is_failure`] knows.
fn name(word: &Word) -> &'static str {
    match word {
        Word::None => "",
        Word::Known(name) => name,
        Word::Number(_) => "?",
    }
}

/// A word as text, empty for null.
fn text(word: &Word) -> Cow<'static, str> {
    match word {
        Word::None => "".into(),
        Word::Known(name) => (*name).into(),
        Word::Number(number) => number.to_string().into(),
    }
}
