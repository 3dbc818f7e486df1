//! Reading parts back: rows of chosen columns, or batches of those columns.
//!
//! The reader is our own, because the `parquet` crate reads columns in batches only by way of
//! arrow, which is 40 % of a build (`docs/decisions/0019-build-time.md`). It reads flat columns of
//! the five types that a trace has, in every encoding of the Parquet format for them, uncompressed
//! or compressed with zstd: parts that lineside wrote, and those that DuckDB or pyarrow wrote anew.
//! It does not read nested columns, indexes or bloom filters, and checks no page's CRC.
//!
//! ```text
//!  footer::Footer ──► column::ColumnReader, one a column ──► Column, a batch of rows
//!  (compact::Compact)   page headers, zstd, decode::{Hybrid, Delta, …}
//! ```
//!
//! A part may be damaged: the error describes it, and memory stays bound to what is in the file and
//! to the batch.

mod column;
pub(crate) mod compact;
mod decode;
mod footer;
mod source;
mod unpack;

use lineside_rows::Table;

pub use column::{Column, Texts, Values};
pub use source::{ReadError, Source};
pub(crate) use zstd::bulk::Decompressor;

use crate::SCHEMA_VERSION;
use column::{ColumnReader, Input};
use footer::{ColumnType, Footer, RowGroup};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 8_192;
/// Bytes of a footer. One of a trace has 30 KiB; it grows with columns and row groups.
const FOOTER_BYTES_MAX: u64 = 64 << 20;
/// What a file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Null.
    Null,
    /// Of an `INT64` or `INT32` column.
    Integer(i64),
    /// Of a string column.
    Text(String),
    /// Of a bytes column.
    Bytes(Vec<u8>),
    /// Of a `BOOLEAN` column.
    Boolean(bool),
}

impl Value {
    /// The number, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }
}

/// One part of a table, opened; only its footer was read.
pub struct PartReader<S> {
    source: S,
    len: u64,
    footer: Footer,
}

impl<S: Source> PartReader<S> {
    /// Reads the footer of a part.
    pub fn open(source: S) -> Result<Self, ReadError> {
        Ok(Self {
            len: source.size()?,
            footer: Footer::read(&footer_bytes(&source)?)?,
            source,
        })
    }

    /// Rows in it.
    pub fn row_count(&self) -> u64 {
        self.footer.rows
    }

    /// The metadata of its trace under `key`: `lineside.schema_version`, `lineside.trace_id`,
    /// `lineside.checksum`.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        let pair = self.footer.metadata.iter().find(|pair| pair.0 == key)?;
        pair.1.as_deref()
    }

    /// The names of its columns, in order.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.footer.fields.iter().map(|field| field.name.as_str())
    }

    /// Whether a lineside wrote it that knew fewer columns, or another tool did: a column of our
    /// tables that it lacks reads as null.
    pub fn is_older(&self) -> bool {
        self.metadata("lineside.schema_version") != Some(SCHEMA_VERSION)
    }

    /// The least and the greatest value of an `INT64` column, from the part's statistics alone:
    /// nothing is decoded. `None`: they do not show it, or there is no value.
    pub fn range(&self, column: &str) -> Option<(i64, i64)> {
        let field = self
            .footer
            .fields
            .iter()
            .find(|field| field.name == column)?;
        let mut range = None;
        for group in &self.footer.groups {
            let chunk = group.chunks.get(field.leaf)?;
            let Some((least, greatest)) = chunk.range() else {
                if chunk.nulls == Some(group.rows) {
                    continue;
                }
                return None;
            };
            let (low, high) = range.unwrap_or((least, greatest));
            range = Some((low.min(least), high.max(greatest)));
        }
        range
    }

    /// Whether its column at a place has that name and, by the statistics, no value.
    pub(crate) fn is_null(&self, place: usize, name: &str) -> bool {
        let field = self.footer.fields.get(place);
        field.is_some_and(|field| {
            let groups = &mut self.footer.groups.iter();
            let is_null = |group: &RowGroup| {
                let chunk = group.chunks.get(field.leaf);
                chunk.is_some_and(|chunk| chunk.nulls == Some(group.rows))
            };
            field.name == name && field.is_optional && groups.all(is_null)
        })
    }

    /// Its rows, each with the values of `columns` in that order.
    pub fn rows(self, columns: &[&str]) -> Result<Rows<S>, ReadError> {
        Ok(Rows {
            batches: self.batches(columns, BATCH_ROWS)?,
            batch: Vec::new(),
            rows: 0,
            next: 0,
        })
    }

    /// Its rows in batches of at most `batch_rows`, each with `columns` in that order. No batch has
    /// rows of two row groups.
    pub fn batches(self, columns: &[&str], batch_rows: usize) -> Result<Batches<S>, ReadError> {
        self.batches_by(Decompressor::new()?, columns, batch_rows)
    }

    /// The same with the decompressor of another part, which [`Batches::end`] gives back: to make
    /// one takes as long as to read a part of a second.
    pub(crate) fn batches_by(
        self,
        decompressor: Decompressor<'static>,
        columns: &[&str],
        batch_rows: usize,
    ) -> Result<Batches<S>, ReadError> {
        let fields = &self.footer.fields;
        // They are mostly asked for in the order in which they lie.
        let mut near = 0;
        let find = |&column: &&str| {
            let places = (near..fields.len()).chain(0..near);
            let place = { places }.find(|&place| fields[place].name == column);
            near = place.map_or(near, |place| place + 1);
            let field = place.map(|place| &fields[place]);
            if let (None, Some(column_type)) = (field, self.later_column(column)) {
                let reader = ColumnReader::new(column.to_owned(), column_type, true);
                return Ok((None, reader));
            }
            let field = field.ok_or_else(|| ReadError::NoColumn {
                column: column.to_owned(),
                present: self.column_names().collect::<Vec<_>>().join(", "),
            })?;
            let name = field.name.clone();
            match &field.column_type {
                Ok(column_type) => {
                    let reader = ColumnReader::new(name, *column_type, field.is_optional);
                    Ok((Some(field.leaf), reader))
                }
                Err(data_type) => Err(ReadError::Type {
                    column: name,
                    data_type: data_type.clone(),
                }),
            }
        };
        Ok(Batches {
            columns: columns.iter().map(find).collect::<Result<_, _>>()?,
            batch_rows: batch_rows.max(1),
            part: self,
            group: 0,
            rows_left: 0,
            decompressor,
        })
    }

    /// The type of a column that came to our tables after the part was written.
    fn later_column(&self, name: &str) -> Option<ColumnType> {
        let mut known = Table::ALL.iter().flat_map(|table| table.columns());
        let column = known.find(|column| self.is_older() && column.name == name)?;
        Some(match column.column_type {
            lineside_rows::ColumnType::Int64 => ColumnType::Int64,
            lineside_rows::ColumnType::Int32 => ColumnType::Int32,
            lineside_rows::ColumnType::Boolean => ColumnType::Boolean,
            lineside_rows::ColumnType::String => ColumnType::Text,
            lineside_rows::ColumnType::Bytes => ColumnType::Bytes,
        })
    }
}

/// The metadata of a part's trace under `key`, as [`PartReader::metadata`] has it. Nothing else is
/// looked at.
pub fn part_metadata(part: &impl Source, key: &str) -> Result<Option<String>, ReadError> {
    let metadata = Footer::read_metadata(&footer_bytes(part)?)?;
    let pair = metadata.into_iter().find(|pair| pair.0 == key);
    Ok(pair.and_then(|pair| pair.1))
}

/// The bytes of a part's footer.
fn footer_bytes(source: &impl Source) -> Result<Vec<u8>, ReadError> {
    const EARLY: ReadError = ReadError::Parquet("it ends early");
    const TAIL_LEN: u64 = 8;
    let len = source.size()?;
    let body_len = len.checked_sub(TAIL_LEN).ok_or(EARLY)?;
    let mut tail = [0; TAIL_LEN as usize];
    source.read_at(body_len, &mut tail)?;
    let [a, b, c, d, magic @ ..] = tail;
    if magic != *MAGIC {
        return Err(ReadError::Parquet("it does not end as one does"));
    }
    let footer_len = u64::from(u32::from_le_bytes([a, b, c, d]));
    let offset = body_len.checked_sub(footer_len).ok_or(EARLY)?;
    if footer_len > FOOTER_BYTES_MAX {
        return Err(ReadError::Damaged("a footer of more than 64 MiB"));
    }
    let mut bytes = vec![0; footer_len as usize];
    source.read_at(offset, &mut bytes)?;
    Ok(bytes)
}

/// The batches of a part: the columns that were asked for. After an error it ends.
pub struct Batches<S> {
    part: PartReader<S>,
    /// Each with its place in a row group; without one, it is null in every row.
    columns: Vec<(Option<usize>, ColumnReader)>,
    batch_rows: usize,
    /// The next row group, and rows of the present one that were not read yet.
    group: usize,
    rows_left: u64,
    decompressor: Decompressor<'static>,
}

impl<S: Source> Batches<S> {
    /// The next batch and its rows; `None` at the end.
    fn read(&mut self) -> Result<Option<(Vec<Column>, usize)>, ReadError> {
        while self.rows_left == 0 {
            let Some(group) = self.part.footer.groups.get(self.group) else {
                return Ok(None);
            };
            for (leaf, reader) in &mut self.columns {
                let Some(leaf) = *leaf else { continue };
                let chunk = group.chunks.get(leaf);
                let chunk = chunk.ok_or(ReadError::Damaged("a row group lacks a column"))?;
                reader.start(chunk, self.part.len)?;
            }
            self.rows_left = group.rows;
            self.group += 1;
        }
        let rows = usize::try_from(self.rows_left).unwrap_or(usize::MAX);
        let rows = rows.min(self.batch_rows);
        let mut input = Input {
            source: &self.part.source,
            decompressor: &mut self.decompressor,
        };
        let read = |(leaf, reader): &mut (Option<usize>, ColumnReader)| match leaf {
            Some(_) => reader.read(&mut input, rows),
            None => Ok(reader.nulls(rows)),
        };
        let columns = self
            .columns
            .iter_mut()
            .map(read)
            .collect::<Result<_, _>>()?;
        self.rows_left -= rows as u64;
        Ok(Some((columns, rows)))
    }

    /// Takes a batch back, so that the next one lies in its memory.
    pub fn reuse(&mut self, batch: Vec<Column>) {
        for ((_, reader), column) in self.columns.iter_mut().zip(batch) {
            reader.reuse(column);
        }
    }

    /// What decompresses.
    pub(crate) fn end(self) -> Decompressor<'static> {
        self.decompressor
    }

    fn next_batch(&mut self) -> Option<Result<(Vec<Column>, usize), ReadError>> {
        let batch = self.read();
        if batch.is_err() {
            (self.group, self.rows_left) = (usize::MAX, 0);
        }
        batch.transpose()
    }
}

impl<S: Source> Iterator for Batches<S> {
    type Item = Result<Vec<Column>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch()?;
        Some(batch.map(|(columns, _)| columns))
    }
}

/// The rows of a part. After an error it ends.
pub struct Rows<S> {
    batches: Batches<S>,
    batch: Vec<Column>,
    rows: usize,
    next: usize,
}

impl<S: Source> Iterator for Rows<S> {
    type Item = Result<Vec<Value>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.next == self.rows {
            (self.next, self.rows) = (0, 0);
            match self.batches.next_batch()? {
                Ok((batch, rows)) => {
                    let used = std::mem::replace(&mut self.batch, batch);
                    self.batches.reuse(used);
                    self.rows = rows;
                }
                Err(error) => return Some(Err(error)),
            }
        }
        let row = self.batch.iter().map(|column| value(column, self.next));
        let row = row.collect();
        self.next += 1;
        Some(Ok(row))
    }
}

fn value(column: &Column, row: usize) -> Value {
    if column.present().get(row) == Some(&false) {
        return Value::Null;
    }
    let value = match column.values() {
        Values::Int64(values) => values.get(row).map(|&value| Value::Integer(value)),
        Values::Int32(values) => values.get(row).map(|&value| Value::Integer(value.into())),
        Values::Boolean(values) => values.get(row).map(|&value| Value::Boolean(value)),
        Values::Texts(places, texts) => {
            let text = places
                .get(row)
                .and_then(|&place| texts.text(place as usize));
            text.map(|text| Value::Text(text.to_owned()))
        }
        Values::Bytes(places, texts) => {
            let bytes = places
                .get(row)
                .and_then(|&place| texts.bytes(place as usize));
            bytes.map(|bytes| Value::Bytes(bytes.to_vec()))
        }
    };
    value.unwrap_or(Value::Null)
}

#[cfg(all(test, feature = "parquet"))]
mod tests;
