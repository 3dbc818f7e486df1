//! Rows to parts: what is encoded, and when a part ends by time. One table's part is in
//! `table_encoder`.

use std::num::NonZeroU64;

use lineside_rows::{OperationRows, RecordSink, RowRef, Table};

use crate::columns::Zstd;
use crate::encoders::Encoders;
use crate::part::{EncodeError, EncoderConfig, PartSink, Summaries};
use crate::table_encoder::Output;

/// Encodes rows as Parquet parts.
///
/// A table without rows has an empty part, since engines fail on a folder without any: from
/// [`begin`](Self::begin) on, or from the first time that parts end. After the first error rows are
/// dropped; [`error`](Self::error) and [`finish`](Self::finish) return it.
pub struct TraceEncoder<P: PartSink> {
    tables: Encoders,
    windows: PartWindows,
    output: Output<P>,
}

impl<P: PartSink> TraceEncoder<P> {
    /// An encoder that has handed nothing over.
    pub fn new(config: &EncoderConfig, parts: P) -> Self {
        Self {
            tables: Encoders::new(config),
            windows: PartWindows::new(config.part_time_ns),
            output: Output {
                parts,
                error: None,
                window_ns: None,
                zstd: Zstd::new(),
            },
        }
    }

    /// Gives each table that has no part yet an empty one: from now on every table can be read. A
    /// short run is over before, and does without most of these files.
    pub fn begin(&mut self) {
        self.tables.begin(&mut self.output);
    }

    /// Ends the part of every table that has rows in one, or none yet: what was recorded so far can
    /// be read.
    pub fn end_parts(&mut self) {
        self.tables.end_rows(&mut self.output);
    }

    /// Where parts go.
    pub fn sink_mut(&mut self) -> &mut P {
        &mut self.output.parts
    }

    /// The first error.
    pub fn error(&self) -> Option<&EncodeError<P::Error>> {
        self.output.error.as_ref()
    }

    /// Rows, parts and bytes handed over so far, of each table that is written.
    pub fn summaries(&self) -> Summaries {
        self.tables.summaries()
    }

    /// Rows of a table that are in memory, in its open part.
    pub fn open_rows(&self, table: Table) -> u64 {
        self.tables.open_rows(table) as u64
    }

    /// Bytes held: values of open pages, dictionaries, and the ended pages of open parts.
    pub fn held_bytes(&self) -> usize {
        self.tables.bytes()
    }

    /// Ends all parts and gives the sink back, or the first error.
    pub fn finish(mut self) -> Result<(P, Summaries), EncodeError<P::Error>> {
        self.end_parts();
        let summaries = self.summaries();
        match self.output.error {
            None => Ok((self.output.parts, summaries)),
            Some(error) => Err(error),
        }
    }
}

impl<P: PartSink> RecordSink for TraceEncoder<P> {
    fn wants(&self, table: Table) -> bool {
        self.tables.has(table) && self.output.error.is_none()
    }

    fn on_time(&mut self, now_ns: i64) {
        if self.windows.is_due(now_ns) {
            self.end_parts();
            self.output.window_ns = self.windows.end_ns;
        }
    }

    #[inline(always)]
    fn row(&mut self, row: RowRef<'_>) {
        self.tables.push(row, &mut self.output);
    }

    #[inline(always)]
    fn operation(&mut self, rows: &mut impl OperationRows) {
        self.tables.operation(rows, &mut self.output);
    }
}

/// When the open parts end by time, whose time the caller decides.
///
/// Windows begin at multiples of their length since the epoch, not at a part's first row: all
/// tables, and all captures of the same hours, are cut at the same times, and a frame costs one
/// comparison.
#[derive(Debug)]
pub struct PartWindows {
    window_ns: Option<NonZeroU64>,
    /// Where the window of the latest rows ends; `None` if an `i64` cannot hold it.
    end_ns: Option<i64>,
}

impl PartWindows {
    /// Windows of this length; `None`: no window ends.
    pub fn new(window_ns: Option<NonZeroU64>) -> Self {
        Self {
            window_ns,
            end_ns: window_ns.and(Some(i64::MIN)),
        }
    }

    /// Whether a window has ended since the last call; also at the first one.
    pub fn is_due(&mut self, now_ns: i64) -> bool {
        match self.end_ns {
            Some(end_ns) if now_ns >= end_ns => {
                self.end_ns = self.window_end(now_ns);
                true
            }
            _ => false,
        }
    }

    fn window_end(&self, now_ns: i64) -> Option<i64> {
        let window_ns = i64::try_from(self.window_ns?.get()).ok()?;
        now_ns
            .div_euclid(window_ns)
            .checked_add(1)?
            .checked_mul(window_ns)
    }
}

#[cfg(test)]
mod tests;
