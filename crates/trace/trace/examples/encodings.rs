//! Bytes a row of every column of a trace under each candidate encoding, so that the choice in
//! `tables.rs` can be measured again:
//! `cargo run --profile dist -p lineside-trace --example encodings TRACE`.
//!
//! Each column is written alone, in row groups as long as a part's, with zstd 1. It does not show
//! speed, which `research/ecosystem.md` 1 does.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lineside_rows::{ColumnType, Table};
use lineside_trace::read::{PartReader, Value};
use parquet::basic::{Compression, Encoding as ParquetEncoding, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

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
            let values = values(&parts, column.name)?;
            print!("{:<30}{:>12}", column.name, values.len());
            for (_, encoding) in CANDIDATES {
                match encoded_bytes(&values, encoding, column.column_type)? {
                    Some(bytes) => print!("{:>12.3}", bytes as f64 / values.len().max(1) as f64),
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

fn values(parts: &[PathBuf], column: &str) -> Result<Vec<Value>, AnyError> {
    let mut values = Vec::new();
    for part in parts {
        for row in PartReader::open(File::open(part)?)?.rows(&[column])? {
            values.extend(row?);
        }
    }
    Ok(values)
}

/// Bytes of the pages of the column; `None` if the encoding is not for its type.
fn encoded_bytes(
    values: &[Value],
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
    if !fits || values.is_empty() {
        return Ok(None);
    }
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_dictionary_enabled(encoding.is_none());
    let properties = match encoding {
        Some(encoding) => properties.set_encoding(encoding).build(),
        None => properties.build(),
    };
    let physical = match column_type {
        ColumnType::Int64 => "int64",
        ColumnType::Int32 => "int32",
        ColumnType::Boolean => "boolean",
        ColumnType::String | ColumnType::Bytes => "binary",
    };
    let schema = parse_message_type(&format!("message m {{ optional {physical} c; }}"))?;
    let schema = Arc::new(schema);
    let mut writer = SerializedFileWriter::new(std::io::sink(), schema, Arc::new(properties))?;
    for rows in values.chunks(262_144) {
        let mut group = writer.next_row_group()?;
        let mut column = group.next_column()?.expect("a column");
        write(column.untyped(), rows)?;
        column.close()?;
        group.close()?;
    }
    let file = writer.close()?;
    let sizes = file
        .row_groups()
        .iter()
        .map(|group| group.compressed_size());
    Ok(Some(sizes.sum()))
}

fn write(column: &mut ColumnWriter<'_>, rows: &[Value]) -> Result<usize, ParquetError> {
    let levels: Vec<_> = rows
        .iter()
        .map(|row| i16::from(*row != Value::Null))
        .collect();
    let levels = Some(levels.as_slice());
    let integers = || rows.iter().filter_map(Value::integer);
    match column {
        ColumnWriter::Int64ColumnWriter(column) => {
            column.write_batch(&integers().collect::<Vec<_>>(), levels, None)
        }
        ColumnWriter::Int32ColumnWriter(column) => column.write_batch(
            &integers().map(|value| value as i32).collect::<Vec<_>>(),
            levels,
            None,
        ),
        ColumnWriter::BoolColumnWriter(column) => {
            let flag = |row: &Value| match row {
                Value::Boolean(value) => Some(*value),
                _ => None,
            };
            column.write_batch(
                &rows.iter().filter_map(flag).collect::<Vec<_>>(),
                levels,
                None,
            )
        }
        ColumnWriter::ByteArrayColumnWriter(column) => {
            let bytes = |row: &Value| match row {
                Value::Text(text) => Some(ByteArray::from(text.as_str())),
                Value::Bytes(bytes) => Some(ByteArray::from(bytes.clone())),
                _ => None,
            };
            column.write_batch(
                &rows.iter().filter_map(bytes).collect::<Vec<_>>(),
                levels,
                None,
            )
        }
        _ => unreachable!("no column of a trace is of another type"),
    }
}
