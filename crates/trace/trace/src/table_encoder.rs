//! The open part of one table: its columns, and the Parquet file that they become.

use std::io;
use std::sync::Arc;

use lineside_rows::{Row, Table};

use crate::columns::{Columns, OpenRow, ROWS_MAX, Zstd};
use crate::manifest::TableSummary;
use crate::part::{EncodeError, EncoderConfig, Part, PartSink};
use crate::part_file::PartFile;

/// The part sink, the first error, and the compressor of all tables' pages.
pub(crate) struct Output<P: PartSink> {
    pub(crate) parts: P,
    pub(crate) error: Option<EncodeError<P::Error>>,
    /// The end of the window that rows come in.
    pub(crate) window_ns: Option<i64>,
    pub(crate) zstd: Zstd,
}

/// One table: the columns of its open part.
pub(crate) struct TableEncoder<C: Columns> {
    pub(crate) columns: C,
    pub(crate) part_rows_max: usize,
    part_bytes_max: usize,
    trace_id: Arc<str>,
    pub(crate) summary: TableSummary,
}

impl<C: Columns> TableEncoder<C> {
    /// `None`: the table is not written. In a box, since wide tables' columns take 25 KiB, and an
    /// encoder is moved around before it is used.
    pub(crate) fn new(config: &EncoderConfig) -> Option<Box<Self>> {
        let table = C::Row::TABLE;
        if !config.tables.contains(&table) {
            return None;
        }
        let part_rows_max = match table {
            Table::Checksums => config.checksum_part_rows_max,
            _ => config.part_rows_max,
        };
        Some(Box::new(Self {
            columns: C::default(),
            part_rows_max: part_rows_max.max(1),
            part_bytes_max: config.part_bytes_max,
            trace_id: config.trace_id.as_str().into(),
            summary: TableSummary::default(),
        }))
    }

    /// Adds a row whose cells `fill` gives.
    #[inline(always)]
    pub(crate) fn fill<P: PartSink>(
        &mut self,
        fill: impl FnOnce(&mut OpenRow<'_, C>),
        output: &mut Output<P>,
    ) {
        let bit = 1 << (self.columns.rows() % ROWS_MAX);
        fill(&mut OpenRow {
            columns: &mut self.columns,
            bit,
        });
        self.columns.advance(1);
        self.end_if_full(output);
    }

    /// To be called after each row.
    #[inline]
    fn end_if_full<P: PartSink>(&mut self, output: &mut Output<P>) {
        let rows = self.columns.rows();
        if rows.is_multiple_of(ROWS_MAX) || rows >= self.part_rows_max {
            self.end_full(output);
        }
    }

    /// Ends what is full: pages, and the part.
    pub(crate) fn end_full<P: PartSink>(&mut self, output: &mut Output<P>) {
        match self.columns.end_full_pages(&mut output.zstd) {
            Ok(bytes)
                if bytes.is_none_or(|bytes| bytes < self.part_bytes_max)
                    && self.columns.rows() < self.part_rows_max => {}
            Ok(_) => self.end_part(output),
            Err(error) => self.fail(error, output),
        }
    }

    /// Bytes held. Asked for after each burst: most tables have no rows.
    pub(crate) fn bytes(&self) -> usize {
        match self.columns.rows() {
            0 => 0,
            _ => self.columns.bytes(),
        }
    }

    /// Hands over an empty part if there is none yet: engines fail on a folder without any.
    pub(crate) fn begin<P: PartSink>(&mut self, output: &mut Output<P>) {
        if self.summary.parts == 0 {
            let file = self.end_file(PartFile::new(), 0);
            self.hand_over(0, file, output);
        }
    }

    /// Ends the part if it has rows or is the first.
    pub(crate) fn end_rows<P: PartSink>(&mut self, output: &mut Output<P>) {
        if self.columns.rows() > 0 {
            self.end_part(output);
        } else {
            self.begin(output);
        }
    }

    fn end_part<P: PartSink>(&mut self, output: &mut Output<P>) {
        let rows = self.columns.rows();
        match self.file(&mut output.zstd) {
            Ok(pieces) => self.hand_over(rows as u64, pieces, output),
            Err(error) => self.fail(error, output),
        }
    }

    fn hand_over<P: PartSink>(&mut self, rows: u64, pieces: Vec<Vec<u8>>, output: &mut Output<P>) {
        if output.error.is_some() {
            return;
        }
        let part = Part {
            table: C::Row::TABLE,
            index: self.summary.parts,
            rows,
            window_ns: output.window_ns,
            pieces,
        };
        let part_bytes = part.bytes_len() as u64;
        match output.parts.part(part) {
            Ok(()) => {
                self.summary.rows += rows;
                self.summary.parts += 1;
                self.summary.bytes += part_bytes;
            }
            Err(error) => output.error = Some(EncodeError::Sink(error)),
        }
    }

    /// The part as a file.
    fn file(&mut self, zstd: &mut Zstd) -> io::Result<Vec<Vec<u8>>> {
        let rows = self.columns.rows();
        let mut file = PartFile::new();
        self.columns.end(zstd, &mut file)?;
        Ok(self.end_file(file, rows))
    }

    fn end_file(&self, file: PartFile, rows: usize) -> Vec<Vec<u8>> {
        end_file::<C>(file, rows, &self.trace_id)
    }

    #[cold]
    fn fail<P: PartSink>(&mut self, error: io::Error, output: &mut Output<P>) {
        output.error.get_or_insert(EncodeError::Encoding {
            table: C::Row::TABLE,
            error,
        });
    }
}

/// A part as a file, whose metadata say which trace it belongs to.
pub(crate) fn end_file<C: Columns>(file: PartFile, rows: usize, trace_id: &str) -> Vec<Vec<u8>> {
    let metadata = [
        ("lineside.schema_version", crate::SCHEMA_VERSION),
        ("lineside.trace_id", trace_id),
        ("lineside.checksum", crate::CHECKSUM),
    ];
    file.end(C::Row::TABLE.columns().iter(), rows, &metadata)
}

/// A table's encoder takes what [`RowRef`](lineside_rows::RowRef) holds of the table.
pub(crate) trait PushRow<R> {
    fn push<P: PartSink>(&mut self, row: R, output: &mut Output<P>);
}

impl<C: Columns> PushRow<&C::Row> for TableEncoder<C> {
    #[inline]
    fn push<P: PartSink>(&mut self, row: &C::Row, output: &mut Output<P>) {
        self.columns.push(row);
        self.end_if_full(output);
    }
}
