use crate::tables::{ChecksumRow, NfsCells, NfsRow, OperationCells, OperationRow, RowRef, Table};

/// Where rows go: an encoder, an analysis, a test.
///
/// Rows are borrowed, so that the caller can [clear](crate::Row::clear) and use them again. A sink
/// cannot refuse a row: it keeps its first error and reports it when it is finished. A sink that
/// wraps another one passes everything on, also rows of tables that it does not know.
pub trait RecordSink {
    /// Whether rows of `table` are wanted: if not, the caller need not make them.
    fn wants(&self, table: Table) -> bool;

    /// The time of the trace, nanoseconds since the Unix epoch, never less than before: the rows
    /// that follow were complete at this time. [`i64::MIN`] as long as no frame had a stamp.
    fn on_time(&mut self, now_ns: i64);

    /// A row of any table. To be inlined where rows are many: the table is known where a row is
    /// given.
    fn row(&mut self, row: RowRef<'_>);

    /// An operation whose rows are made where they go: what [`row`](Self::row) would be given, for
    /// a sink that need not have it as a row.
    fn operation(&mut self, rows: &mut impl OperationRows) {
        if self.wants(Table::Operations) {
            let mut row = OperationRow::default();
            rows.operation(&mut row);
            self.row(RowRef::Operations(&row));
        }
        if self.wants(Table::Nfs) {
            let mut row = NfsRow::default();
            rows.nfs(&mut row);
            self.row(RowRef::Nfs(&row));
        }
    }
}

/// The rows of an operation that has one in `operations` and one in `nfs`.
pub trait OperationRows {
    /// Gives the cells of its row in `operations`; may be asked more than once.
    fn operation(&self, cells: &mut impl OperationCells);

    /// Gives the cells of its row in `nfs`; asked at most once.
    fn nfs(&mut self, cells: &mut impl NfsCells);
}

impl<S: RecordSink + ?Sized> RecordSink for &mut S {
    fn wants(&self, table: Table) -> bool {
        (**self).wants(table)
    }

    fn on_time(&mut self, now_ns: i64) {
        (**self).on_time(now_ns);
    }

    #[inline(always)]
    fn row(&mut self, row: RowRef<'_>) {
        (**self).row(row);
    }

    #[inline(always)]
    fn operation(&mut self, rows: &mut impl OperationRows) {
        (**self).operation(rows);
    }
}

/// The checksums of consecutive blocks of an operation's data: many rows of `checksums` in one.
#[derive(Debug, Clone, Copy)]
pub struct ChecksumRun<'a> {
    /// The operation that moved the blocks.
    pub operation_id: i64,
    /// File offset of the first block / 512.
    pub first_block: i64,
    /// A checksum for each block.
    pub sums: &'a [u64],
}

impl ChecksumRun<'_> {
    /// Gives a single row to a sink.
    pub(crate) fn write_row(row: &ChecksumRow, sink: &mut impl RecordSink) {
        sink.row(RowRef::Checksums(&ChecksumRun {
            operation_id: row.operation_id,
            first_block: row.block,
            sums: &[row.checksum.cast_unsigned()],
        }));
    }
}

/// The rows of type `R` that a variant of [`RowRef`] stands for.
pub(crate) trait RowsOf<R> {
    fn for_each(self, each: impl FnMut(&R));
}

impl<R> RowsOf<R> for &R {
    #[inline]
    fn for_each(self, mut each: impl FnMut(&R)) {
        each(self);
    }
}

impl RowsOf<ChecksumRow> for &ChecksumRun<'_> {
    fn for_each(self, mut each: impl FnMut(&ChecksumRow)) {
        for (&sum, block) in self.sums.iter().zip(self.first_block..) {
            each(&ChecksumRow {
                operation_id: self.operation_id,
                block,
                checksum: sum.cast_signed(),
            });
        }
    }
}
