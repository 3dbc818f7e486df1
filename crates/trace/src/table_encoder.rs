//! The open part of one table: its columns, and the Parquet file that they become.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{LogicalType, Repetition, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type as SchemaType};

use crate::cell::ColumnType;
use crate::columns::{Columns, OpenRow, ROWS_MAX, Zstd};
use crate::encoder::{EncodeError, EncoderConfig, Part, PartSink};
use crate::manifest::TableSummary;
use crate::sink::ChecksumRun;
use crate::tables::{ChecksumColumns, Row, Table};

/// The part sink, the first error, and the compressor of all tables' pages.
pub(crate) struct Output<P: PartSink> {
    pub(crate) parts: P,
    pub(crate) error: Option<EncodeError<P::Error>>,
    pub(crate) zstd: Zstd,
}

/// One table: the columns of its open part.
pub(crate) struct TableEncoder<C: Columns> {
    pub(crate) columns: C,
    part_rows_max: usize,
    part_bytes_max: usize,
    schema: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    pub(crate) summary: TableSummary,
}

impl<C: Columns> TableEncoder<C> {
    /// `None`: the table is not written.
    pub(crate) fn new(config: &EncoderConfig) -> Option<Self> {
        let table = C::Row::TABLE;
        if !config.tables.contains(&table) {
            return None;
        }
        let part_rows_max = match table {
            Table::Checksums => config.checksum_part_rows_max,
            _ => config.part_rows_max,
        };
        Some(Self {
            columns: C::default(),
            part_rows_max: part_rows_max.max(1),
            part_bytes_max: config.part_bytes_max,
            schema: schema(table),
            properties: Arc::new(properties(&config.trace_id)),
            summary: TableSummary::default(),
        })
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
    fn end_full<P: PartSink>(&mut self, output: &mut Output<P>) {
        match self.columns.end_full_pages(&mut output.zstd) {
            Ok(bytes)
                if bytes.is_none_or(|bytes| bytes < self.part_bytes_max)
                    && self.columns.rows() < self.part_rows_max => {}
            Ok(_) => self.end_part(output),
            Err(error) => self.fail(error, output),
        }
    }

    /// Ends the part if it has rows.
    pub(crate) fn end_rows<P: PartSink>(&mut self, output: &mut Output<P>) {
        if self.columns.rows() > 0 {
            self.end_part(output);
        }
    }

    /// Hands over the part, empty or not.
    pub(crate) fn end_part<P: PartSink>(&mut self, output: &mut Output<P>) {
        let rows = self.columns.rows() as u64;
        let bytes = match self.file(&mut output.zstd) {
            Ok(_) if output.error.is_some() => return,
            Ok(bytes) => bytes,
            Err(error) => return self.fail(error, output),
        };
        let part_bytes = bytes.len() as u64;
        let part = Part {
            table: C::Row::TABLE,
            index: self.summary.parts,
            rows,
            bytes,
        };
        match output.parts.part(part) {
            Ok(()) => {
                self.summary.rows += rows;
                self.summary.parts += 1;
                self.summary.bytes += part_bytes;
            }
            Err(error) => output.error = Some(EncodeError::Sink(error)),
        }
    }

    /// The part as a file: of one row group, or of none if it has no rows.
    fn file(&mut self, zstd: &mut Zstd) -> Result<Vec<u8>, ParquetError> {
        let root = self.schema.root_schema_ptr();
        let mut file = SerializedFileWriter::new(
            Vec::with_capacity(self.columns.bytes()),
            root,
            Arc::clone(&self.properties),
        )?;
        if self.columns.rows() > 0 {
            let mut group = file.next_row_group()?;
            let append = |chunk: Bytes, result| group.append_column(&chunk, result);
            self.columns.end(self.schema.columns(), zstd, append)?;
            group.close()?;
        }
        file.into_inner()
    }

    #[cold]
    fn fail<P: PartSink>(&mut self, error: ParquetError, output: &mut Output<P>) {
        output.error.get_or_insert(EncodeError::Encoding {
            table: C::Row::TABLE,
            error,
        });
    }
}

/// A table's encoder takes what [`RowRef`](crate::RowRef) holds of the table.
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

impl PushRow<&ChecksumRun<'_>> for TableEncoder<ChecksumColumns> {
    /// Adds the sums of consecutive blocks without a row for each.
    fn push<P: PartSink>(&mut self, run: &ChecksumRun<'_>, output: &mut Output<P>) {
        let (mut block, mut sums) = (run.first_block, run.sums);
        while !sums.is_empty() {
            let count = sums.len().min(self.part_rows_max - self.columns.rows());
            let (fitting, rest) = sums.split_at(count);
            let ids = std::iter::repeat_n(run.operation_id, count);
            let blocks = (0..count).map(|place| block.wrapping_add(place as i64));
            let values = fitting.iter().map(|sum| sum.cast_signed());
            self.columns.operation_id.extend(ids);
            self.columns.block.extend(blocks);
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

/// The Parquet schema of a table.
fn schema(table: Table) -> SchemaDescPtr {
    let fields = table.columns().iter().map(|column| {
        let (physical, logical) = match column.column_type {
            ColumnType::Int64 => (Type::INT64, None),
            ColumnType::Int32 => (Type::INT32, None),
            ColumnType::Boolean => (Type::BOOLEAN, None),
            ColumnType::String => (Type::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnType::Bytes => (Type::BYTE_ARRAY, None),
        };
        let repetition = match column.null {
            Some(_) => Repetition::OPTIONAL,
            None => Repetition::REQUIRED,
        };
        let field = SchemaType::primitive_type_builder(column.name, physical)
            .with_logical_type(logical)
            .with_repetition(repetition);
        Arc::new(
            field
                .build()
                .expect("the types and logical types above fit"),
        )
    });
    let root = SchemaType::group_type_builder("schema").with_fields(fields.collect());
    let root = root.build().expect("a group of columns");
    Arc::new(SchemaDescriptor::new(Arc::new(root)))
}

/// The metadata of each part: which trace it belongs to.
fn properties(trace_id: &str) -> WriterProperties {
    let metadata = [
        ("lineside.schema_version", crate::SCHEMA_VERSION),
        ("lineside.trace_id", trace_id),
        ("lineside.checksum", crate::CHECKSUM),
    ];
    let metadata = metadata.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned()));
    WriterProperties::builder()
        .set_created_by(concat!("lineside ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(metadata.to_vec()))
        .build()
}
