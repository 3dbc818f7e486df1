//! Rows that a drop-in writes, as Arrow IPC or CSV: what is taken of them becomes parts that read
//! back with as many rows, also where the rest is refused.

use lineside_run::{Form, GivenRows, read_rows};
use lineside_trace::read::PartReader;
use lineside_trace::{GivenCell, GivenColumn, GivenKind, GivenPart, GivenTable};

use super::{Bytes, Pieces};

/// Rows as a table of a run takes them.
#[derive(Default)]
struct Taken {
    table: Option<GivenTable>,
    /// Values of each column since the last whole row.
    pushed: Vec<usize>,
    rows: usize,
    bytes: usize,
    parts: Vec<GivenPart>,
}

impl GivenRows for Taken {
    fn begin(&mut self, columns: Vec<GivenColumn>) -> Result<(), String> {
        assert!(self.table.is_none(), "columns come once");
        self.pushed = vec![0; columns.len()];
        self.table = Some(GivenTable::new(columns, "fuzz"));
        Ok(())
    }

    fn push(&mut self, column: usize, cell: GivenCell<'_>) -> Result<(), String> {
        self.pushed[column] += 1;
        if let GivenCell::Bytes(bytes) = cell {
            self.bytes += bytes.len();
        }
        let table = self.table.as_mut().expect("columns come first");
        table.push(column, cell).map_err(|error| error.to_string())
    }

    fn advance(&mut self, rows: usize) -> Result<(), String> {
        assert!(self.pushed.iter().all(|&pushed| pushed == rows));
        self.pushed.fill(0);
        self.rows += rows;
        let table = self.table.as_mut().expect("columns come first");
        let part = table.advance(rows).map_err(|error| error.to_string())?;
        self.parts.extend(part);
        Ok(())
    }
}

/// The last byte chooses the form, and how much is read at a time.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.last();
    let form = match choice % 2 {
        0 => Form::Arrow,
        _ => Form::Csv,
    };
    let mut output = Pieces {
        bytes: bytes.0,
        read: 0,
        len_max: usize::from(choice / 2) + 1,
    };
    let mut taken = Taken::default();
    let _ = read_rows(form, &mut output, &mut taken);
    let Some(table) = taken.table else {
        return;
    };
    // No value is larger than what was written.
    assert!(
        taken.bytes <= data.len(),
        "{} of {}",
        taken.bytes,
        data.len()
    );
    assert!(
        taken.pushed.iter().all(|&pushed| pushed == 0),
        "rows are whole"
    );
    // Our own reader knows no floats: parts without another column are read no further.
    let read: Vec<_> = { table.columns() }
        .filter(|column| column.kind != GivenKind::Float)
        .map(|column| column.name.clone())
        .collect();
    let names: Vec<_> = read.iter().map(String::as_str).collect();
    let (last, summary) = table.finish().expect("encoded");
    assert_eq!(summary.rows, taken.rows as u64);
    let mut rows = 0;
    for part in taken.parts.into_iter().chain(last) {
        let part = PartReader::open(part.pieces.concat()).expect("a part");
        if names.is_empty() {
            return;
        }
        let batches = part.batches(&names, 65_536).expect("its columns");
        for batch in batches {
            let batch = batch.expect("whole");
            rows += batch.first().map_or(0, |column| column.len());
        }
    }
    assert_eq!(rows, taken.rows);
}
