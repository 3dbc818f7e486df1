//! Rows of `operations` in the order of their calls, as few bytes as a comparison needs of them.

use hashbrown::HashMap;
use lineside_rows::Table;
use lineside_trace::read::{Column, ReadError};

use super::hash::{bytes_hash, mixed, mixed_all};
use crate::read::batch::Batch;
use crate::read::columns::{Integers, Lexicon, Texts, Word};
use crate::read::filter::Chosen;
use crate::read::in_order::{InOrder, Ordered, Overlap, Part};
use crate::read::lexica::Lexica;
use crate::read::parts_by_id::PartsById;
use crate::read::trace::Trace;

/// Rows in memory of each trace, of 170 bytes each: four parts of the usual size.
pub(super) const ROWS_MAX: usize = 1_100_000;

/// Stands for null.
pub(super) const NONE: i64 = i64::MIN;

/// The status of a call without a reply.
const NO_REPLY: &str = "no reply seen";

/// Columns besides those of every pass.
const OWN: [&str; 7] = [
    "connection_id",
    "xid",
    "name",
    "name2",
    "result_file_id",
    "file_size",
    "file_type",
];
/// That of a replay.
pub(super) const SOURCE: &str = "source_operation_id";
const SUMS: [&str; 3] = ["operation_id", "block", "checksum"];

/// A row. [`NONE`] stands for null.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) call_ns: i64,
    pub(super) rpc_id: i64,
    pub(super) operation_id: i64,
    pub(super) call_end_ns: i64,
    pub(super) reply_ns: i64,
    pub(super) reply_end_ns: i64,
    pub(super) connection: i64,
    pub(super) file: i64,
    pub(super) made: i64,
    pub(super) offset: i64,
    pub(super) size: i64,
    pub(super) xid: i64,
    /// The row that a replay repeats with it.
    pub(super) source: i64,
    /// Hashes; 0: none.
    pub(super) name: u64,
    pub(super) data: u64,
    pub(super) count: i64,
    pub(super) moved: i64,
    pub(super) client: Word,
    pub(super) program: Word,
    pub(super) operation: Word,
    /// The protocol's or, where there is none, that of RPC.
    pub(super) status: Word,
    pub(super) version: i32,
    pub(super) is_unanswered: bool,
    /// Some of the call, of the reply, of the data was not seen.
    pub(super) lacks: [bool; 3],
}

impl Row {
    /// What it asks for, of no file in particular.
    pub(super) fn asked(&self) -> u64 {
        let [offset, count] = [self.offset, self.count].map(i64::cast_unsigned);
        mixed_all([self.called(), offset, count, self.name])
    }

    /// Program, version and operation.
    pub(super) fn called(&self) -> u64 {
        let version = u64::from(self.version.cast_unsigned());
        mixed_all([self.program.into(), version, self.operation.into()])
    }
}

impl InOrder for Row {
    fn key(&self) -> (i64, i64, i64) {
        (self.call_ns, self.rpc_id, self.operation_id)
    }
}

/// The rows of a trace.
pub(super) struct Rows {
    ordered: Ordered<Row>,
    sums: Option<PartsById>,
    columns: Vec<&'static str>,
    has_source: bool,
    /// Replies whose call was not seen, or has no time.
    pub(super) calls_not_seen: u64,
    /// Calls that came again, which the transport did and not the program.
    pub(super) repeats: u64,
}

impl Rows {
    pub(super) fn of(trace: &mut Trace, chosen: &Chosen, has_source: bool, has_sums: bool) -> Self {
        let mut columns = Batch::columns(chosen);
        columns.extend(OWN);
        columns.extend(has_source.then_some(SOURCE));
        Self {
            ordered: Ordered::new(trace, ROWS_MAX),
            sums: has_sums.then(|| PartsById::of(trace, Table::Checksums)),
            columns,
            has_source,
            calls_not_seen: 0,
            repeats: 0,
        }
    }

    /// The next row.
    pub(super) fn next(
        &mut self,
        trace: &mut Trace,
        chosen: &Chosen,
        lexica: &mut Lexica,
    ) -> Result<Option<Row>, Overlap> {
        let Self {
            ordered,
            sums,
            columns,
            has_source,
            calls_not_seen,
            repeats,
        } = self;
        ordered.next(|part: &Part, _| {
            let mut rows = Vec::with_capacity(part.rows.min(ROWS_MAX / 4));
            let place = (part.run, part.path.as_path());
            trace.batches_of_part(place, Table::Operations, columns, |found| {
                let own = columns.len() - OWN.len() - usize::from(*has_source);
                let batch = Batch::of(found, chosen, lexica)?;
                let own = Own::of(&found[own..])?;
                for row in batch.chosen(chosen, lexica) {
                    match own.row(&batch, row, lexica) {
                        _ if batch.repeat.get(row) => {
                            *repeats += u64::from(batch.is_first(row));
                        }
                        Some(row) => rows.push(row),
                        None => *calls_not_seen += u64::from(batch.is_first(row)),
                    }
                }
                Ok(())
            });
            if let Some(sums) = sums {
                add_sums(trace, sums, &mut rows);
            }
            rows
        })
    }
}

/// The columns besides those of every pass.
struct Own<'a> {
    connection: Integers<'a>,
    xid: Integers<'a>,
    name: Texts<'a>,
    name2: Texts<'a>,
    made: Integers<'a>,
    size: Integers<'a>,
    file_type: Texts<'a>,
    source: Option<Integers<'a>>,
}

impl<'a> Own<'a> {
    fn of(columns: &'a [Column]) -> Result<Self, ReadError> {
        let integers = |at: usize| Integers::of(OWN[at], &columns[at]);
        let texts = |at: usize| Texts::of(OWN[at], &columns[at]);
        let source = columns.get(OWN.len());
        Ok(Self {
            connection: integers(0)?,
            xid: integers(1)?,
            name: texts(2)?,
            name2: texts(3)?,
            made: integers(4)?,
            size: integers(5)?,
            file_type: texts(6)?,
            source: source
                .map(|column| Integers::of(SOURCE, column))
                .transpose()?,
        })
    }

    /// `None`: its call was not seen.
    fn row(&self, batch: &Batch<'_>, row: usize, lexica: &mut Lexica) -> Option<Row> {
        let call_ns = { batch.call_time_ns.get(row) }.filter(|_| !batch.call_missing.get(row))?;
        let or_none = |value: Option<i64>| value.unwrap_or(NONE);
        let id = batch.operation_id.get(row).unwrap_or_default();
        let status = match batch.status.get(row) {
            Lexicon::NONE => batch.rpc_status.get(row),
            status => status,
        };
        let is_unanswered = batch.reply_missing.get(row);
        let name = |texts: &Texts<'_>| texts.get(row).map(|name| bytes_hash(name.as_bytes()));
        let names = [name(&self.name), name(&self.name2)];
        let is_regular = self.file_type.get(row) == Some("REG");
        Some(Row {
            call_ns,
            rpc_id: batch.rpc_of(row).unwrap_or(id),
            operation_id: id,
            call_end_ns: or_none(batch.call_end_ns.get(row)),
            reply_ns: or_none(batch.reply_time_ns.get(row)),
            reply_end_ns: or_none(batch.reply_end_ns.get(row)),
            connection: or_none(self.connection.get(row)),
            file: or_none(batch.file_id.get(row)),
            made: or_none(self.made.get(row)),
            offset: or_none(batch.offset.get(row)),
            // That of a directory is the file system's own affair.
            size: or_none(self.size.get(row).filter(|_| is_regular)),
            xid: or_none(self.xid.get(row)),
            source: or_none(self.source.as_ref().and_then(|source| source.get(row))),
            name: { names.into_iter().flatten() }.fold(0, mixed),
            data: 0,
            count: or_none(batch.count.get(row)),
            moved: or_none(batch.transferred.get(row)),
            client: batch.client.get(row),
            program: batch.program.get(row),
            operation: batch.operation.get(row),
            status: match is_unanswered {
                true => lexica.words.number(NO_REPLY),
                false => status,
            },
            version: batch.version.get(row).unwrap_or_default(),
            is_unanswered,
            lacks: { batch.incomplete.each_ref() }.map(|flags| flags.get(row)),
        })
    }
}

/// Gives rows the sum over the blocks of their data, in any order.
fn add_sums(trace: &mut Trace, parts: &PartsById, rows: &mut [Row]) {
    let moving = rows.iter().filter(|row| row.moved > 0);
    let mut sums: HashMap<i64, u64> = moving.map(|row| (row.operation_id, 0)).collect();
    let ids = sums.keys().copied();
    let Some((first, last)) = ids.clone().min().zip(ids.max()) else {
        return;
    };
    parts.near(trace, (first, last), &SUMS, |batch| {
        let integers = |at: usize| Integers::of(SUMS[at], &batch[at]);
        let (id, block, sum) = (integers(0)?, integers(1)?, integers(2)?);
        for row in 0..batch[0].len() {
            let Some(of) = id.get(row).and_then(|id| sums.get_mut(&id)) else {
                continue;
            };
            let [block, sum] = [&block, &sum].map(|column| column.get(row).unwrap_or_default());
            *of = of.wrapping_add(mixed(block.cast_unsigned(), sum.cast_unsigned()));
        }
        Ok(())
    });
    for row in rows {
        row.data = sums.get(&row.operation_id).copied().unwrap_or_default();
    }
}
