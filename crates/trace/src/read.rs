//! Reading parts back: rows of chosen columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
/// What a part can be read from: bytes (`bytes::Bytes`) or an open [`std::fs::File`].
pub use parquet::file::reader::ChunkReader;

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

/// One part of a table, opened; only its metadata was read.
pub struct PartReader<R: ChunkReader + 'static> {
    builder: ParquetRecordBatchReaderBuilder<R>,
}

impl<R: ChunkReader + 'static> PartReader<R> {
    /// Reads the metadata of a part.
    pub fn open(source: R) -> Result<Self, ReadError> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(source)?;
        Ok(Self { builder })
    }

    /// Rows in it.
    pub fn row_count(&self) -> u64 {
        let rows = self.builder.metadata().file_metadata().num_rows();
        u64::try_from(rows).unwrap_or(0)
    }

    /// What it says of its trace under `key`: `lineside.schema_version`, `lineside.trace_id`, `lineside.checksum`.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        let pairs = self
            .builder
            .metadata()
            .file_metadata()
            .key_value_metadata()?;
        let pair = pairs.iter().find(|pair| pair.key == key)?;
        pair.value.as_deref()
    }

    /// The names of its columns, in order.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        let fields = self.builder.schema().fields().iter();
        fields.map(|field| field.name().as_str())
    }

    /// Its rows, each with the values of `columns` in that order.
    pub fn rows(self, columns: &[&str]) -> Result<Rows, ReadError> {
        let names: Vec<_> = self.column_names().collect();
        let mut places = Vec::with_capacity(columns.len());
        for &column in columns {
            let place = names.iter().position(|&name| name == column);
            places.push(place.ok_or_else(|| ReadError::NoColumn {
                column: column.to_owned(),
                present: names.join(", "),
            })?);
        }
        let mask = ProjectionMask::roots(self.builder.parquet_schema(), places.iter().copied());
        // A projection keeps the order of the file: a column's place in it is its rank among those chosen.
        let mut chosen = places.clone();
        chosen.sort_unstable();
        chosen.dedup();
        let order = places
            .iter()
            .filter_map(|place| chosen.binary_search(place).ok());
        Ok(Rows {
            order: order.collect(),
            batches: self
                .builder
                .with_projection(mask)
                .with_batch_size(BATCH_ROWS)
                .build()?,
            batch: None,
            next: 0,
        })
    }
}

/// The rows of a part. After an error it ends.
pub struct Rows {
    order: Vec<usize>,
    batches: ParquetRecordBatchReader,
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
                    return Some(Err(error.into()));
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
