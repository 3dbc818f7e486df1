//! Reading parts back: rows of chosen columns, or batches of those columns as they lie in memory.
//!
//! A part may be damaged, and the parquet crate panics at some of what damage makes (found by the fuzz target `part`): such a
//! panic becomes an error here.

use std::cell::Cell;
use std::io::{self, Read};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
/// What a part can be read from: bytes (`bytes::Bytes`) or an open [`std::fs::File`].
pub use parquet::file::reader::ChunkReader;
use parquet::file::reader::Length;
use parquet::file::statistics::Statistics;

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 8_192;

/// Why a part could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is not Parquet, or damaged.
    #[error("not a readable Parquet file: {0}; capture again or take the part away")]
    Parquet(#[from] ParquetError),
    /// Its pages are damaged.
    #[error("damaged Parquet file: {0}; capture again or take the part away")]
    Damaged(#[from] ArrowError),
    /// It contradicts itself.
    #[error("damaged Parquet file: it contradicts itself; capture again or take the part away")]
    Contradicts,
    /// It has no such column.
    #[error("no column '{column}'; the part has {present}")]
    NoColumn {
        /// What was asked for.
        column: String,
        /// What there is.
        present: String,
    },
    /// A column is of a type that no trace has.
    #[error(
        "column '{column}' is of type {data_type}, which no trace has; was it written by another tool?"
    )]
    Type {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A column has another type than its table says.
    #[error("column '{column}' has another type than in a trace; was it written by another tool?")]
    Foreign {
        /// The column.
        column: String,
    },
}

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

thread_local! {
    /// What panics now becomes an error.
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the program's panic hook from what becomes an error here: otherwise each such panic is printed. For a program's start.
pub fn hide_contained_panics() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !IS_CONTAINED.get() {
            hook(info);
        }
    }));
}

/// What is read is given up if this panics, so that nobody sees it half done.
fn contained<T>(read: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
    let was_contained = IS_CONTAINED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(read));
    IS_CONTAINED.set(was_contained);
    outcome.unwrap_or(Err(ReadError::Contradicts))
}

/// The next batch, until the end or an error.
struct Decoded(Option<ParquetRecordBatchReader>);

impl Decoded {
    fn next(&mut self) -> Option<Result<RecordBatch, ReadError>> {
        let reader = self.0.as_mut()?;
        let batch = contained(|| Ok(reader.next().transpose()?)).transpose();
        if !matches!(batch, Some(Ok(_))) {
            self.0 = None;
        }
        batch
    }
}

/// A source that fails at its end, where the parquet crate would pass over 2^31 elements of a list that a damaged page header
/// claims, reading nothing 2^31 times. What is whole never reads there.
struct Bounded<R>(R);

impl<R: ChunkReader> Length for Bounded<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Bounded<R> {
    type T = Bounded<R::T>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.0.get_read(start).map(Bounded)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.0.get_bytes(start, length)
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            len => Ok(len),
        }
    }
}

/// One part of a table, opened; only its metadata was read.
pub struct PartReader<R: ChunkReader + 'static> {
    source: Bounded<R>,
    metadata: ArrowReaderMetadata,
}

impl<R: ChunkReader + 'static> PartReader<R> {
    /// Reads the metadata of a part.
    pub fn open(source: R) -> Result<Self, ReadError> {
        let source = Bounded(source);
        contained(|| {
            let metadata = ArrowReaderMetadata::load(&source, ArrowReaderOptions::new())?;
            Ok(Self { source, metadata })
        })
    }

    /// Rows in it.
    pub fn row_count(&self) -> u64 {
        let rows = self.metadata.metadata().file_metadata().num_rows();
        u64::try_from(rows).unwrap_or(0)
    }

    /// What it says of its trace under `key`: `lineside.schema_version`, `lineside.trace_id`, `lineside.checksum`.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        let file = self.metadata.metadata().file_metadata();
        let pair = { file.key_value_metadata()?.iter() }.find(|pair| pair.key == key)?;
        pair.value.as_deref()
    }

    /// The names of its columns, in order.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        let fields = self.metadata.schema().fields().iter();
        fields.map(|field| field.name().as_str())
    }

    /// The least and the greatest value of an `INT64` column, from the part's statistics alone: nothing is decoded.
    /// `None`: they do not tell, or there is no value.
    pub fn range(&self, column: &str) -> Option<(i64, i64)> {
        let place = self.column_names().position(|name| name == column)?;
        let mut range = None;
        for group in self.metadata.metadata().row_groups() {
            let Statistics::Int64(statistics) = group.columns().get(place)?.statistics()? else {
                return None;
            };
            let (Some(&least), Some(&greatest)) = (statistics.min_opt(), statistics.max_opt())
            else {
                if statistics.null_count_opt() == u64::try_from(group.num_rows()).ok() {
                    continue;
                }
                return None;
            };
            let (low, high) = range.unwrap_or((least, greatest));
            range = Some((low.min(least), high.max(greatest)));
        }
        range
    }

    /// Its rows, each with the values of `columns` in that order.
    pub fn rows(self, columns: &[&str]) -> Result<Rows, ReadError> {
        let places = self.places(columns)?;
        Ok(Rows {
            order: order(&places),
            batches: self.reader(&places, BATCH_ROWS, false)?,
            batch: None,
            next: 0,
        })
    }

    /// Its rows in batches of at most `batch_rows`, each with the arrays of `columns` in that order. Strings come as
    /// dictionaries (`Dictionary(Int32, Utf8)`), so that a text that repeats is looked at once a batch.
    pub fn batches(self, columns: &[&str], batch_rows: usize) -> Result<Batches, ReadError> {
        let places = self.places(columns)?;
        Ok(Batches {
            order: order(&places),
            batches: self.reader(&places, batch_rows, true)?,
        })
    }

    fn places(&self, columns: &[&str]) -> Result<Vec<usize>, ReadError> {
        let names: Vec<_> = self.column_names().collect();
        let place = |&column: &&str| {
            let place = names.iter().position(|&name| name == column);
            place.ok_or_else(|| ReadError::NoColumn {
                column: column.to_owned(),
                present: names.join(", "),
            })
        };
        columns.iter().map(place).collect()
    }

    fn reader(
        self,
        places: &[usize],
        batch_rows: usize,
        dictionaries: bool,
    ) -> Result<Decoded, ReadError> {
        contained(|| self.decoder(places, batch_rows, dictionaries))
            .map(|reader| Decoded(Some(reader)))
    }

    fn decoder(
        self,
        places: &[usize],
        batch_rows: usize,
        dictionaries: bool,
    ) -> Result<ParquetRecordBatchReader, ReadError> {
        let metadata = if dictionaries {
            let fields = self.metadata.schema().fields().iter();
            let fields = fields.map(|field| match field.data_type() {
                DataType::Utf8 => {
                    let words = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
                    Arc::new(Field::new(field.name(), words, field.is_nullable()))
                }
                _ => Arc::clone(field),
            });
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let options = ArrowReaderOptions::new().with_schema(schema);
            ArrowReaderMetadata::try_new(Arc::clone(self.metadata.metadata()), options)?
        } else {
            self.metadata
        };
        let mask = ProjectionMask::roots(metadata.parquet_schema(), places.iter().copied());
        Ok(
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.source, metadata)
                .with_projection(mask)
                .with_batch_size(batch_rows)
                .build()?,
        )
    }
}

/// Where each chosen column is in a projection, which keeps the order of the file: its rank among those chosen.
fn order(places: &[usize]) -> Vec<usize> {
    let mut chosen = places.to_vec();
    chosen.sort_unstable();
    chosen.dedup();
    let ranks = places
        .iter()
        .filter_map(|place| chosen.binary_search(place).ok());
    ranks.collect()
}

/// The batches of a part: an array for each column that was asked for. After an error it ends.
pub struct Batches {
    order: Vec<usize>,
    batches: Decoded,
}

impl Iterator for Batches {
    type Item = Result<Vec<ArrayRef>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.batches.next()? {
            Ok(batch) => {
                let arrays = self
                    .order
                    .iter()
                    .map(|&column| Arc::clone(batch.column(column)));
                Ok(arrays.collect())
            }
            Err(error) => Err(error),
        })
    }
}

/// The rows of a part. After an error it ends.
pub struct Rows {
    order: Vec<usize>,
    batches: Decoded,
    batch: Option<RecordBatch>,
    next: usize,
}

impl Iterator for Rows {
    type Item = Result<Vec<Value>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = &self.batch
                && self.next < batch.num_rows()
            {
                let row = self
                    .order
                    .iter()
                    .map(|&column| value(batch, column, self.next));
                let row = row.collect();
                self.next += 1;
                return Some(row);
            }
            self.next = 0;
            match self.batches.next()? {
                Ok(batch) => self.batch = Some(batch),
                Err(error) => {
                    self.batch = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

fn value(batch: &RecordBatch, column: usize, row: usize) -> Result<Value, ReadError> {
    let array = batch.column(column);
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        DataType::Int64 => Value::Integer(array.as_primitive::<Int64Type>().value(row)),
        DataType::Int32 => Value::Integer(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Boolean => Value::Boolean(array.as_boolean().value(row)),
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        data_type => {
            return Err(ReadError::Type {
                column: batch.schema().field(column).name().clone(),
                data_type: data_type.clone(),
            });
        }
    })
}
