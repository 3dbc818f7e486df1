//! What a program writes: the table that its rows become.

use std::io;
use std::time::Duration;

use lineside_account::{Budget, Lease};
use lineside_host::{CompanionOutput, PartWriter, RunFolder};
use lineside_trace::{GivenCell, GivenColumn, GivenPart, GivenTable, TableSummary};

use super::{Form, read_arrow, read_csv};

/// A table of a program's rows, whose columns it names itself.
pub(super) struct Answer {
    name: String,
    trace_id: String,
    writer: PartWriter,
    memory: Option<Lease>,
    table: Option<GivenTable>,
    /// When the last part ended, since the start.
    ended: Duration,
}

/// The most columns of a table.
const COLUMNS_MAX: usize = 1_000;

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
            ended: Duration::ZERO,
        }
    }

    /// Reads all that a program writes: what the table then holds, `None` if there is none, and why
    /// its output is refused. Rows before that are kept.
    pub(super) fn read(
        mut self,
        form: Form,
        mut output: CompanionOutput,
    ) -> (Option<TableSummary>, Result<(), String>) {
        let since = output.since();
        let read = match form {
            Form::Arrow => read_arrow::read(&mut output, since, &mut self),
            Form::Csv => read_csv::read(&mut output, since, &mut self),
        };
        match self.finish() {
            Ok(summary) => (summary, read),
            Err(why) => (None, read.and(Err(why))),
        }
    }

    /// The columns come.
    pub(super) fn begin(&mut self, columns: Vec<GivenColumn>) -> Result<(), String> {
        if columns.is_empty() || columns.len() > COLUMNS_MAX {
            return Err(format!(
                "it names {} columns: a table has from 1 to {COLUMNS_MAX}",
                columns.len()
            ));
        }
        for (place, column) in columns.iter().enumerate() {
            if columns[..place]
                .iter()
                .any(|other| other.name == column.name)
            {
                return Err(format!("it names a column '{}' twice", column.name));
            }
        }
        self.table = Some(GivenTable::new(columns, &self.trace_id));
        Ok(())
    }

    /// The columns, once they are there.
    pub(super) fn columns(&self) -> Vec<GivenColumn> {
        let table = self.table.iter();
        table.flat_map(|table| table.columns().cloned()).collect()
    }

    /// Adds a value to a column.
    pub(super) fn push(&mut self, column: usize, cell: GivenCell<'_>) -> Result<(), String> {
        match &mut self.table {
            Some(table) => table.push(column, cell).map_err(cannot_encode),
            None => Ok(()),
        }
    }

    /// Counts rows whose values were added, `elapsed` after the start.
    pub(super) fn advance(&mut self, rows: usize, elapsed: Duration) -> Result<(), String> {
        let Some(table) = &mut self.table else {
            return Ok(());
        };
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

    fn submit(&mut self, (file, pieces): GivenPart) -> Result<(), String> {
        let submitted = self.writer.submit(&self.name, &file, pieces);
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

fn cannot_encode(error: io::Error) -> String {
    format!("its rows cannot be encoded: {error}")
}
