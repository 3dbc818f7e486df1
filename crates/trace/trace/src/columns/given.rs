//! A table whose columns are known only when it begins: that of a program which measures beside a
//! run.
//!
//! Its values are laid out plainly and compressed by zstd: nothing is known of them that would
//! choose an encoding.

use std::io;

use super::Zstd;
use crate::manifest::TableSummary;
use crate::page::{Bits, put_levels};
use crate::part_file::{Chunk, ColumnHead, PageEncoding, PageKind, Pages, PartFile, Physical};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenKind {
    /// `INT64`
    Integer,
    /// `DOUBLE`
    Float,
    /// `BOOLEAN`
    Boolean,
    /// `BYTE_ARRAY` with the logical type `STRING`
    Text,
    /// `BYTE_ARRAY`
    Bytes,
}

/// A column; any may hold null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenColumn {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: GivenKind,
}

/// A value, of its column's kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GivenCell<'a> {
    /// None.
    Null,
    /// Of [`GivenKind::Integer`].
    Integer(i64),
    /// Of [`GivenKind::Float`].
    Float(f64),
    /// Of [`GivenKind::Boolean`].
    Boolean(bool),
    /// Of [`GivenKind::Text`], as UTF-8, or of [`GivenKind::Bytes`].
    Bytes(&'a [u8]),
}

/// A part of a table whose columns are given.
#[derive(Debug)]
pub struct GivenPart {
    /// Its name.
    pub file: String,
    /// Rows in it.
    pub rows: u64,
    /// The file, in pieces that follow one another.
    pub pieces: Vec<Vec<u8>>,
}

/// A table whose columns are given.
pub struct GivenTable {
    columns: Vec<Open>,
    trace_id: String,
    zstd: Zstd,
    rows: usize,
    summary: TableSummary,
}

/// A column of the open part.
struct Open {
    column: GivenColumn,
    /// Values of the open page, as `PLAIN` has them, but for booleans.
    values: Vec<u8>,
    booleans: Bits,
    /// Which rows of the open page have a value.
    presence: Bits,
    pages: Pages,
}

/// Bytes of values that end a page.
const PAGE_BYTES: usize = 256 << 10;

/// Rows that end a page.
const PAGE_ROWS: usize = 65_536;

/// The limits of a part, as those of other tables are.
const PART_ROWS_MAX: usize = 262_144;
const PART_BYTES_MAX: usize = 64 << 20;

impl GivenTable {
    /// A table with these columns, of the trace with this id.
    pub fn new(columns: Vec<GivenColumn>, trace_id: &str) -> Self {
        let open = |column| Open {
            column,
            values: Vec::new(),
            booleans: Bits::default(),
            presence: Bits::default(),
            pages: Pages::default(),
        };
        Self {
            columns: columns.into_iter().map(open).collect(),
            trace_id: trace_id.to_owned(),
            zstd: Zstd::new(),
            rows: 0,
            summary: TableSummary::default(),
        }
    }

    /// Its columns.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &GivenColumn> {
        self.columns.iter().map(|open| &open.column)
    }

    /// Adds a value to a column, by its place. Each column is to have as many before
    /// [`advance`](Self::advance).
    ///
    /// # Panics
    ///
    /// If the value is not of the column's kind.
    pub fn push(&mut self, column: usize, cell: GivenCell<'_>) -> io::Result<()> {
        let open = &mut self.columns[column];
        open.push(cell);
        if open.values.len() >= PAGE_BYTES || open.presence.len() >= PAGE_ROWS {
            open.end_page(&mut self.zstd)?;
        }
        Ok(())
    }

    /// Counts rows whose values were added. Where the part is full, it ends.
    pub fn advance(&mut self, rows: usize) -> io::Result<Option<GivenPart>> {
        self.rows += rows;
        let is_full = self.rows >= PART_ROWS_MAX || self.held_bytes() >= PART_BYTES_MAX;
        is_full.then(|| self.end_part()).transpose()
    }

    /// Bytes held.
    pub fn held_bytes(&self) -> usize {
        let columns = self.columns.iter();
        let bytes = columns.map(|open| {
            open.values.len() + open.booleans.bytes() + open.presence.bytes() + open.pages.len()
        });
        bytes.sum()
    }

    /// Ends the part, if it has rows.
    pub fn end_rows(&mut self) -> io::Result<Option<GivenPart>> {
        (self.rows > 0).then(|| self.end_part()).transpose()
    }

    /// The last part, of a table without rows an empty one, and what the table holds.
    pub fn finish(mut self) -> io::Result<(Option<GivenPart>, TableSummary)> {
        let is_needed = self.rows > 0 || self.summary.parts == 0;
        let part = is_needed.then(|| self.end_part()).transpose()?;
        Ok((part, self.summary))
    }

    fn end_part(&mut self) -> io::Result<GivenPart> {
        let rows = std::mem::take(&mut self.rows);
        let mut file = PartFile::new();
        if rows > 0 {
            for open in &mut self.columns {
                open.end_page(&mut self.zstd)?;
                let chunk = Chunk {
                    rows,
                    is_compressed: true,
                    dictionary: Pages::default(),
                    pages: std::mem::take(&mut open.pages),
                    statistics: None,
                };
                file.push(open.head(), chunk);
            }
        }
        let metadata = [
            ("lineside.schema_version", crate::SCHEMA_VERSION),
            ("lineside.trace_id", self.trace_id.as_str()),
        ];
        let pieces = file.end(self.columns.iter().map(Open::head), rows, &metadata);
        let name = format!("part-{:06}.parquet", self.summary.parts);
        self.summary.rows += rows as u64;
        self.summary.parts += 1;
        self.summary.bytes += pieces.iter().map(Vec::len).sum::<usize>() as u64;
        Ok(GivenPart {
            file: name,
            rows: rows as u64,
            pieces,
        })
    }
}

impl Open {
    fn head(&self) -> ColumnHead<'_> {
        ColumnHead {
            name: &self.column.name,
            physical: match self.column.kind {
                GivenKind::Integer => Physical::Int64,
                GivenKind::Float => Physical::Double,
                GivenKind::Boolean => Physical::Boolean,
                GivenKind::Text | GivenKind::Bytes => Physical::Bytes,
            },
            is_text: self.column.kind == GivenKind::Text,
            is_nullable: true,
        }
    }

    fn push(&mut self, cell: GivenCell<'_>) {
        self.presence.push((cell != GivenCell::Null).into(), 1);
        match (self.column.kind, cell) {
            (_, GivenCell::Null) => {}
            (GivenKind::Integer, GivenCell::Integer(value)) => {
                self.values.extend_from_slice(&value.to_le_bytes());
            }
            (GivenKind::Float, GivenCell::Float(value)) => {
                self.values.extend_from_slice(&value.to_le_bytes());
            }
            (GivenKind::Boolean, GivenCell::Boolean(value)) => {
                self.booleans.push(value.into(), 1);
            }
            (GivenKind::Text | GivenKind::Bytes, GivenCell::Bytes(bytes)) => {
                let len = bytes.len() as u32;
                self.values.extend_from_slice(&len.to_le_bytes());
                self.values.extend_from_slice(bytes);
            }
            (kind, cell) => panic!("{cell:?} is not of {kind:?}"),
        }
    }

    /// Ends the page, if it has rows.
    fn end_page(&mut self, zstd: &mut Zstd) -> io::Result<()> {
        let rows = self.presence.len();
        if rows == 0 {
            return Ok(());
        }
        zstd.page.clear();
        put_levels(&mut self.presence, &mut zstd.page);
        zstd.page.append(&mut self.values);
        self.booleans.put(&mut zstd.page);
        let plain = zstd.page.len();
        let bytes = zstd.page(true, Zstd::LEVEL)?;
        let kind = PageKind::Data(rows, PageEncoding::PLAIN);
        self.pages.push(&kind, plain, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    /// The values of a row, as they are known to be.
    fn row(number: i64) -> [Field; 5] {
        let unless_null = |by: i64, field| if number % by == 0 { Field::Null } else { field };
        [
            Field::Long(number),
            unless_null(3, Field::Double(number as f64 / 4.0)),
            unless_null(5, Field::Bool(number % 7 == 0)),
            unless_null(2, Field::Str(format!("n{number}"))),
            Field::Null,
        ]
    }

    fn push(table: &mut GivenTable, number: i64) -> Option<GivenPart> {
        for (place, field) in row(number).iter().enumerate() {
            let cell = match field {
                Field::Long(value) => GivenCell::Integer(*value),
                Field::Double(value) => GivenCell::Float(*value),
                Field::Bool(value) => GivenCell::Boolean(*value),
                Field::Str(text) => GivenCell::Bytes(text.as_bytes()),
                _ => GivenCell::Null,
            };
            table.push(place, cell).expect("encoded");
        }
        table.advance(1).expect("encoded")
    }

    fn table() -> GivenTable {
        let kinds = [
            GivenKind::Integer,
            GivenKind::Float,
            GivenKind::Boolean,
            GivenKind::Text,
            GivenKind::Bytes,
        ];
        let column = |(place, kind)| GivenColumn {
            name: format!("column {place}"),
            kind,
        };
        let columns = kinds.into_iter().enumerate().map(column).collect();
        GivenTable::new(columns, "id")
    }

    #[test]
    fn the_parquet_crate_reads_what_was_given() {
        let rows = PART_ROWS_MAX as i64 + 10_000;
        let mut table = table();
        let mut parts: Vec<_> = (0..rows).filter_map(|row| push(&mut table, row)).collect();
        let (last, summary) = table.finish().expect("encoded");
        parts.extend(last);
        assert_eq!((summary.rows, summary.parts), (rows as u64, 2));
        let mut number = 0;
        for (at, part) in parts.into_iter().enumerate() {
            assert_eq!(part.file, format!("part-{at:06}.parquet"));
            let bytes = bytes::Bytes::from(part.pieces.concat());
            let reader = SerializedFileReader::new(bytes).expect("Parquet");
            for found in reader.get_row_iter(None).expect("rows") {
                let found = found.expect("a row");
                let fields = found.get_column_iter().map(|(_, field)| field);
                assert!(fields.eq(row(number).iter()), "{found:?}");
                number += 1;
            }
        }
        assert_eq!(number, rows);
    }

    #[test]
    fn a_table_without_rows_has_a_part_with_its_columns() {
        let (part, summary) = table().finish().expect("encoded");
        assert_eq!((summary.rows, summary.parts), (0, 1));
        let bytes = bytes::Bytes::from(part.expect("it is there").pieces.concat());
        let reader = SerializedFileReader::new(bytes).expect("Parquet");
        let schema = reader.metadata().file_metadata().schema_descr();
        assert_eq!(schema.num_columns(), 5);
        assert_eq!(reader.get_row_iter(None).expect("rows").count(), 0);
    }
}
