//! What a program writes: the table that its rows become.

use std::io;
use std::time::Duration;

use lineside_account::{Budget, Lease};
use lineside_host::{ChildOutput, Stopwatch};
use lineside_store::{NewPart, PartWriter, RunFolder};
use lineside_trace::{GivenCell, GivenColumn, GivenPart, GivenTable, TableSummary};

use super::Form;
use super::read::read_rows;
use super::rows::GivenRows;

/// A table of a program's rows, whose columns it names itself.
pub(super) struct Answer {
    name: String,
    trace_id: String,
    writer: PartWriter,
    memory: Option<Lease>,
    table: Option<GivenTable>,
    /// The start of the program.
    since: Option<Stopwatch>,
    /// When the last part ended, since the start.
    ended: Duration,
}

/// How long rows wait for a part while the run goes on, as those of other tables.
const PART_TIME: Duration = Duration::from_secs(10);

impl Answer {
    pub(super) fn new(name: &str, trace_id: &str, folder: &RunFolder, budget: &Budget) -> Self {
        Self {
            name: name.to_owned(),
            trace_id: trace_id.to_owned(),
            writer: PartWriter::new(folder),
            memory: budget.lease(0),
            table: None,
            since: None,
            ended: Duration::ZERO,
        }
    }

    /// Reads all that a program writes: what the table then holds, `None` if there is none, and why
    /// its output is refused. Rows before that are kept.
    pub(super) fn read(
        mut self,
        form: Form,
        mut output: ChildOutput,
    ) -> (Option<TableSummary>, Result<(), String>) {
        self.since = Some(output.since());
        let read = read_rows(form, &mut output, &mut self);
        match self.finish() {
            Ok(summary) => (summary, read),
            Err(why) => (None, read.and(Err(why))),
        }
    }

    fn submit(&mut self, part: GivenPart) -> Result<(), String> {
        let submitted = self.writer.submit(NewPart {
            table: self.name.clone(),
            file: part.file,
            rows: part.rows,
            window_ns: None,
            bytes: part.pieces.into(),
        });
        submitted.map_err(|error| error.to_string())
    }

    pub(super) fn finish(mut self) -> Result<Option<TableSummary>, String> {
        let Some(table) = self.table.take() else {
            return Ok(None);
        };
        let (part, summary) = table.finish().map_err(cannot_encode)?;
        self.writer.expect_last();
        part.map_or(Ok(()), |part| self.submit(part))?;
        self.writer.finish().map_err(|error| error.to_string())?;
        Ok(Some(summary))
    }
}

impl GivenRows for Answer {
    fn begin(&mut self, columns: Vec<GivenColumn>) -> Result<(), String> {
        self.table = Some(GivenTable::new(columns, &self.trace_id));
        Ok(())
    }

    fn push(&mut self, column: usize, cell: GivenCell<'_>) -> Result<(), String> {
        match &mut self.table {
            Some(table) => table.push(column, cell).map_err(cannot_encode),
            None => Ok(()),
        }
    }

    fn advance(&mut self, rows: usize) -> Result<(), String> {
        let Some(table) = &mut self.table else {
            return Ok(());
        };
        let elapsed = self
            .since
            .as_ref()
            .map_or(Duration::ZERO, Stopwatch::elapsed);
        let mut part = table.advance(rows).map_err(cannot_encode)?;
        let held = table.held_bytes();
        let fits = { self.memory.as_mut() }.is_some_and(|memory| memory.resize(held));
        if part.is_none() && (!fits || elapsed - self.ended > PART_TIME) {
            part = table.end_rows().map_err(cannot_encode)?;
        }
        match part {
            Some(part) => {
                self.ended = elapsed;
                self.submit(part)
            }
            None => Ok(()),
        }
    }
}

fn cannot_encode(error: io::Error) -> String {
    format!("its rows cannot be encoded: {error}")
}
