//! Bytes a row of every column of a trace under each candidate encoding, so that the choice in
//! `tables.rs` can be measured again: `cargo run --release -p lineside-trace --example encodings TRACE`.
//!
//! Each column is written alone, in row groups as long as a part's, with zstd 1. It does not show speed,
//! which `research/ecosystem.md` 1 does.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use lineside_trace::{ColumnType, Table};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, Encoding as ParquetEncoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

type AnyError = Box<dyn std::error::Error>;

/// What to try; `None` is the dictionary.
const CANDIDATES: [(&str, Option<ParquetEncoding>); 5] = [
    ("dictionary", None),
    ("plain", Some(ParquetEncoding::PLAIN)),
    ("delta", Some(ParquetEncoding::DELTA_BINARY_PACKED)),
    ("split", Some(ParquetEncoding::BYTE_STREAM_SPLIT)),
    ("delta_bytes", Some(ParquetEncoding::DELTA_BYTE_ARRAY)),
];

fn main() -> Result<(), AnyError> {
    let Some(trace) = std::env::args_os().nth(1) else {
        return Err("usage: encodings TRACE".into());
    };
    let names = CANDIDATES.map(|(name, _)| format!("{name:>12}")).concat();
    for &table in Table::ALL {
        let parts = parts(&Path::new(&trace).join(table.name()))?;
        if parts.is_empty() {
            continue;
        }
        println!("{:<30}{:>12}{names}   now", table.name(), "rows");
        for column in table.columns() {
            let batches = batches(&parts, column.name)?;
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            print!("{:<30}{rows:>12}", column.name);
            for (_, encoding) in CANDIDATES {
                match encoded_bytes(&batches, encoding, column.column_type)? {
                    Some(bytes) => print!("{:>12.3}", bytes as f64 / rows.max(1) as f64),
                    None => print!("{:>12}", "-"),
                }
            }
            println!("   {:?}", column.encoding);
        }
    }
    Ok(())
}

fn parts(folder: &Path) -> Result<Vec<PathBuf>, AnyError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut parts = entries.collect::<Result<Vec<_>, _>>()?;
    parts.retain(|path| path.extension().is_some_and(|end| end == "parquet"));
    parts.sort();
    Ok(parts)
}

fn batches(parts: &[PathBuf], column: &str) -> Result<Vec<RecordBatch>, AnyError> {
    let mut batches = Vec::new();
    for part in parts {
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(part)?)?;
        let mask = ProjectionMask::columns(builder.parquet_schema(), [column]);
        for batch in builder.with_projection(mask).build()? {
            batches.push(batch?);
        }
    }
    Ok(batches)
}

/// Bytes of the pages of the column; `None` if the encoding is not for its type.
fn encoded_bytes(
    batches: &[RecordBatch],
    encoding: Option<ParquetEncoding>,
    column_type: ColumnType,
) -> Result<Option<i64>, ParquetError> {
    use ParquetEncoding::{BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY};
    let fits = match encoding {
        Some(DELTA_BINARY_PACKED | BYTE_STREAM_SPLIT) => {
            matches!(column_type, ColumnType::Int64 | ColumnType::Int32)
        }
        Some(DELTA_BYTE_ARRAY) => matches!(column_type, ColumnType::String | ColumnType::Bytes),
        _ => true,
    };
    let Some(first) = batches.first().filter(|_| fits) else {
        return Ok(None);
    };
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_max_row_group_row_count(Some(262_144))
        .set_dictionary_enabled(encoding.is_none());
    let properties = match encoding {
        Some(encoding) => properties.set_encoding(encoding).build(),
        None => properties.build(),
    };
    let schema = Arc::clone(first.schema_ref());
    let mut writer = ArrowWriter::try_new(std::io::sink(), schema, Some(properties))?;
    for batch in batches {
        writer.write(batch)?;
    }
    let groups = writer.close()?;
    let sizes = groups
        .row_groups()
        .iter()
        .map(|group| group.compressed_size());
    Ok(Some(sizes.sum()))
}
