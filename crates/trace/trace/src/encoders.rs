//! The encoders of all tables, made from their [description](lineside_rows::for_each_table).

use std::io;
use std::ops::Range;

use lineside_rows::{
    Address, Blob, Cell, ChecksumRun, Label, NfsCells, OperationCells, OperationRows, RowRef,
    Table, Text, Word, for_each_table,
};

use crate::columns::encode::refill;
use crate::columns::{
    Chunked, Columns, Delta, Dictionary, Encode, OpenRow, Plain, ROWS_MAX, Run, Runs, Zstd,
};
use crate::merge::{MergeError, Merged, Merging};
use crate::part::{EncoderConfig, PartSink, Summaries};
use crate::part_file::PartFile;
use crate::read::{Column, Source};
use crate::table_encoder::{Output, PushRow, TableEncoder};

/// How the columns of a table take the cells of a row, one at a time. `$common`: those that rows in
/// a row often have in common.
macro_rules! cells {
    ([] $columns:ident $($rest:tt)*) => {
        impl $columns {
            #[inline(always)]
            fn end_run(&mut self) {
                let _ = self.run;
            }
        }
    };
    ([$cells:ident {$($common:ident)*}] $columns:ident {
        $($field:ident: $kind:ty, $encoding:ident;)*
    }) => {
        impl $cells for OpenRow<'_, $columns> {
            $(#[inline(always)]
            fn $field(&mut self, value: <$kind as Cell>::Value<'_>) {
                <$kind as Encode<$encoding>>::push(value, &mut self.columns.$field, self.bit);
            })*

            #[inline(always)]
            fn common(&mut self, number: u128, give: impl FnOnce(&mut Self)) {
                if !self.columns.run.goes_on(number) {
                    self.columns.end_run();
                    self.columns.run = Run::new(number, self.bit);
                    give(self);
                }
            }
        }

        impl $columns {
            /// Gives the cells that the latest rows have in common to each of them.
            #[inline]
            #[allow(unused_variables, reason = "a table may have no such cells")]
            fn end_run(&mut self) {
                if let Some(run) = self.run.take() {
                    $(self.$common.repeat(run);)*
                }
            }
        }
    };
}

macro_rules! encoders {
    ($(
        $(#[doc = $doc:literal])*
        $table:ident $name:ident $row:ident $columns:ident $(runs $run:ident)?
        $(cells $cells:ident $common:tt)? null $default:literal {
            $($field:ident: $kind:ty, $encoding:ident, $meaning:literal $(null $null:literal)?;)*
        }
    )*) => {
        /// The tables that are written.
        pub(crate) struct Encoders {
            $($name: Option<Box<TableEncoder<$columns>>>,)*
        }

        impl Encoders {
            pub(crate) fn new(config: &EncoderConfig) -> Self {
                Self { $($name: TableEncoder::new(config),)* }
            }

            pub(crate) fn has(&self, table: Table) -> bool {
                match table { $(Table::$table => self.$name.is_some(),)* }
            }

            /// Always inlined: a row is given where its table is known, so that no dispatch is
            /// left.
            #[inline(always)]
            pub(crate) fn push<P: PartSink>(&mut self, row: RowRef<'_>, output: &mut Output<P>) {
                match row {
                    $(RowRef::$table(row) => if let Some(table) = &mut self.$name {
                        table.push(row, output);
                    })*
                }
            }

            /// Gives each table that has no part an empty one.
            pub(crate) fn begin<P: PartSink>(&mut self, output: &mut Output<P>) {
                $(if let Some(table) = &mut self.$name {
                    table.begin(output);
                })*
            }

            /// Ends each table's part that has rows or is its first.
            pub(crate) fn end_rows<P: PartSink>(&mut self, output: &mut Output<P>) {
                $(if let Some(table) = &mut self.$name {
                    table.end_rows(output);
                })*
            }

            pub(crate) fn summaries(&self) -> Summaries {
                let mut summaries = Vec::new();
                $(if let Some(table) = &self.$name {
                    summaries.push((Table::$table, table.summary));
                })*
                summaries
            }

            /// Rows of a table's open part.
            pub(crate) fn open_rows(&self, table: Table) -> usize {
                match table {
                    $(Table::$table => {
                        self.$name.as_ref().map_or(0, |table| table.columns.rows())
                    })*
                }
            }

            /// Bytes held: values of open pages, dictionaries, and the ended pages of open
            /// parts.
            pub(crate) fn bytes(&self) -> usize {
                0 $(+ self.$name.as_ref().map_or(0, |table| table.bytes()))*
            }
        }

        /// Makes one part of several of a table of the trace `trace_id`, whose rows follow one
        /// another in the parts' order.
        ///
        /// What it holds meanwhile: the encoded rows, and a batch of decoded ones.
        pub fn merge_parts<S: Source>(
            table: Table,
            trace_id: &str,
            parts: impl IntoIterator<Item = S>,
        ) -> Result<Merged, MergeError> {
            match table {
                $(Table::$table => Merging::<$columns>::new(trace_id)?.run(parts),)*
            }
        }

        $(
            /// The columns of an open part.
            #[derive(Default)]
            pub(crate) struct $columns {
                rows: usize,
                run: Run,
                $(pub(crate) $field: <$kind as Encode<$encoding>>::Column,)*
            }

            impl Columns for $columns {
                type Row = lineside_rows::$row;

                fn push(&mut self, row: &lineside_rows::$row) {
                    self.end_run();
                    let bit = 1 << (self.rows % ROWS_MAX);
                    $(<$kind as Encode<$encoding>>::push(row.$field.value(), &mut self.$field, bit);)*
                    self.rows += 1;
                }

                fn refill(&mut self, batch: &[Option<&Column>], rows: Range<usize>) {
                    self.end_run();
                    let first = self.rows % ROWS_MAX;
                    let mut columns = batch.iter();
                    $(if let Some(Some(column)) = columns.next() {
                        refill(&mut self.$field, column, rows.clone(), first);
                    })*
                    self.rows += rows.len();
                }

                fn advance(&mut self, rows: usize) {
                    self.rows += rows;
                }

                fn rows(&self) -> usize {
                    self.rows
                }

                fn bytes(&self) -> usize {
                    0 $(+ self.$field.bytes())*
                }

                fn end_full_pages(&mut self, zstd: &mut Zstd) -> io::Result<Option<usize>> {
                    self.end_run();
                    let mut any = false;
                    $(if self.$field.end_word(self.rows) {
                        self.$field.end_page(self.rows, zstd)?;
                        any = true;
                    })*
                    Ok(any.then(|| 0 $(+ self.$field.ended_bytes())*))
                }

                fn end(&mut self, zstd: &mut Zstd, file: &mut PartFile) -> io::Result<()> {
                    self.end_run();
                    let rows = std::mem::take(&mut self.rows);
                    let mut columns = Table::$table.columns().iter();
                    $(if let Some(column) = columns.next() {
                        self.$field.end(rows, column, zstd, file)?;
                    })*
                    Ok(())
                }
            }
        )*

        $(cells! { [$($cells $common)?] $columns { $($field: $kind, $encoding;)* } })*

        #[cfg(test)]
        pub(crate) mod samples {
            use lineside_time::Random;

            use crate::read::Value;
            use lineside_rows::{RecordSink, Row};
            use crate::sample::{Sample, SampleRow};

            /// Gives `count` random rows of every table to a sink.
            pub(crate) fn write(random: &mut Random, count: usize, sink: &mut impl RecordSink) {
                $(for _ in 0..count {
                    lineside_rows::$row::sample(random).write_to(sink);
                })*
            }

            $(impl SampleRow for lineside_rows::$row {
                fn sample(random: &mut Random) -> Self {
                    Self { $($field: Sample::sample(random),)* }
                }

                fn values(&self) -> Vec<Value> {
                    vec![$(self.$field.value(),)*]
                }
            })*
        }
    };
}

for_each_table!(encoders);

impl Encoders {
    /// Adds the rows of an operation.
    #[inline(always)]
    pub(crate) fn operation<P: PartSink>(
        &mut self,
        rows: &mut impl OperationRows,
        output: &mut Output<P>,
    ) {
        if let Some(table) = &mut self.operations {
            table.fill(|row| rows.operation(row), output);
        }
        if let Some(table) = &mut self.nfs {
            table.fill(|row| rows.nfs(row), output);
        }
    }
}

impl PushRow<&ChecksumRun<'_>> for TableEncoder<ChecksumColumns> {
    /// Adds the sums of consecutive blocks without a row for each.
    fn push<P: PartSink>(&mut self, run: &ChecksumRun<'_>, output: &mut Output<P>) {
        let (mut block, mut sums) = (run.first_block, run.sums);
        while !sums.is_empty() {
            let count = sums.len().min(self.part_rows_max - self.columns.rows());
            let (fitting, rest) = sums.split_at(count);
            let values = fitting.iter().map(|sum| sum.cast_signed());
            self.columns.operation_id.push_run(run.operation_id, count);
            self.columns.block.push_run(block, count);
            self.columns.checksum.extend(values);
            self.columns.advance(count);
            block = block.wrapping_add(count as i64);
            sums = rest;
            let (rows, before) = (self.columns.rows(), self.columns.rows() - count);
            if rows / ROWS_MAX > before / ROWS_MAX || rows >= self.part_rows_max {
                self.end_full(output);
            }
        }
    }
}
