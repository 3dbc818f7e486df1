//! Parts as other writers leave them: by the `parquet` crate, in every encoding for the five types.

use std::io;
use std::sync::Arc;

use lineside_time::Random;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::*;

/// A file of zeros that ends as Parquet does, with a footer of this many bytes.
struct Claim(u32);

impl Source for Claim {
    fn size(&self) -> io::Result<u64> {
        Ok(1 << 33)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.fill(0);
        if offset + 8 == 1 << 33 {
            buffer[..4].copy_from_slice(&self.0.to_le_bytes());
            buffer[4..].copy_from_slice(MAGIC);
        }
        Ok(())
    }
}

#[test]
fn a_footer_beyond_its_bound_is_refused_before_it_is_read() {
    let refused = |len: u64| match PartReader::open(Claim(len as u32)) {
        Err(ReadError::Damaged(what)) => what == "a footer of more than 64 MiB",
        _ => false,
    };
    assert!(refused(FOOTER_BYTES_MAX + 1) && refused(u32::MAX.into()));
    assert!(!refused(FOOTER_BYTES_MAX));
}

const SCHEMA: &str = "message schema {
    optional int64 numbers; optional int32 shorts (INTEGER(32,true)); optional boolean flags;
    optional binary texts (UTF8); optional binary bytes;
    required int64 ids; required binary words (STRING);
}";
const COLUMNS: [&str; 7] = [
    "numbers", "shorts", "flags", "texts", "bytes", "ids", "words",
];

struct Sample {
    rows: Vec<Vec<Value>>,
}

impl Sample {
    /// Runs, repetitions and extremes, and nulls with a probability of their own.
    fn new(rows: usize, random: &mut Random) -> Self {
        let nulls = [0.0, 0.02, 0.6, 1.0][random.below(4) as usize];
        let distinct = [3, 40, 100_000][random.below(3) as usize];
        let row = |at: usize| {
            let mut number = || match random.below(20) {
                0 => i64::MIN,
                1 => i64::MAX,
                2..8 => at as i64 / 50,
                _ => random.below(distinct) as i64 * 1_000_003,
            };
            let [number, short, text, id, word] = [(); 5].map(|()| number());
            let values = [
                Value::Integer(number),
                Value::Integer((short as i32).into()),
                Value::Boolean((at / 20).is_multiple_of(2)),
                Value::Text(format!("texts/{text}")),
                Value::Bytes(text.to_le_bytes()[..(text & 7) as usize].to_vec()),
            ];
            let or_null = |value| {
                if random.chance(nulls) {
                    Value::Null
                } else {
                    value
                }
            };
            let optional = values.map(or_null);
            let required = [Value::Integer(id), Value::Text(word.to_string())];
            optional.into_iter().chain(required).collect()
        };
        Self {
            rows: (0..rows).map(row).collect(),
        }
    }

    fn write(&self, properties: WriterProperties, group_rows: usize) -> Vec<u8> {
        let schema = Arc::new(parse_message_type(SCHEMA).expect("a schema"));
        let mut bytes = Vec::new();
        let mut writer =
            SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).expect("a writer");
        for rows in self.rows.chunks(group_rows) {
            let mut group = writer.next_row_group().expect("a row group");
            column::<Int64Type>(&mut group, rows, 0, |value| value.integer());
            column::<Int32Type>(&mut group, rows, 1, |value| Some(value.integer()? as i32));
            column::<BoolType>(&mut group, rows, 2, |value| match value {
                Value::Boolean(value) => Some(*value),
                _ => None,
            });
            let text = |value: &Value| value.text().map(ByteArray::from);
            column::<ByteArrayType>(&mut group, rows, 3, text);
            column::<ByteArrayType>(&mut group, rows, 4, |value| match value {
                Value::Bytes(value) => Some(ByteArray::from(value.clone())),
                _ => None,
            });
            column::<Int64Type>(&mut group, rows, 5, |value| value.integer());
            column::<ByteArrayType>(&mut group, rows, 6, text);
            group.close().expect("a row group");
        }
        writer.close().expect("a file");
        bytes
    }
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    rows: &[Vec<Value>],
    place: usize,
    of: impl Fn(&Value) -> Option<T::T>,
) {
    let values: Vec<_> = rows.iter().filter_map(|row| of(&row[place])).collect();
    let levels: Vec<_> = rows
        .iter()
        .map(|row| i16::from(row[place] != Value::Null))
        .collect();
    let mut column = group.next_column().expect("no error").expect("a column");
    let typed = column.typed::<T>();
    let written = typed.write_batch(&values, Some(&levels), None);
    assert_eq!(written.expect("written"), values.len());
    column.close().expect("a column");
}

fn rows(bytes: Vec<u8>) -> Vec<Vec<Value>> {
    let part = PartReader::open(bytes).expect("a part");
    let rows = part.rows(&COLUMNS).expect("every column");
    rows.map(|row| row.expect("a row")).collect()
}

#[test]
fn every_encoding_of_other_writers_is_read() {
    // Of numbers, of flags, and of texts; none is the dictionary.
    let encodings = [
        None,
        Some([Encoding::PLAIN; 3]),
        Some([
            Encoding::DELTA_BINARY_PACKED,
            Encoding::RLE,
            Encoding::DELTA_LENGTH_BYTE_ARRAY,
        ]),
        Some([
            Encoding::BYTE_STREAM_SPLIT,
            Encoding::RLE,
            Encoding::DELTA_BYTE_ARRAY,
        ]),
    ];
    let mut random = Random::new(3);
    for case in 0..48 {
        let rows_count = [0, 1, 7, 500, 9_000][random.below(5) as usize];
        let sample = Sample::new(rows_count, &mut random);
        let version = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][case % 2];
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let compression = [zstd, Compression::UNCOMPRESSED][case / 2 % 2];
        let mut properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_compression(compression)
            // Small enough that some columns go on without their dictionary.
            .set_dictionary_page_size_limit(2_000)
            .set_data_page_row_count_limit(1 + random.below(900) as usize)
            .set_write_batch_size(64)
            .set_dictionary_enabled(encodings[case % 4].is_none());
        if let Some([numbers, flags, texts]) = encodings[case / 4 % 4] {
            for (columns, encoding) in [
                (&["numbers", "shorts", "ids"][..], numbers),
                (&["flags"], flags),
                (&["texts", "bytes", "words"], texts),
            ] {
                for &column in columns {
                    properties = properties.set_column_encoding(column.into(), encoding);
                }
            }
        }
        let group_rows = 1 + random.below(5_000) as usize;
        let bytes = sample.write(properties.build(), group_rows);
        assert!(rows(bytes) == sample.rows, "case {case}");
    }
}

#[test]
fn ranges_come_from_the_statistics_of_all_row_groups() {
    let mut random = Random::new(8);
    let sample = Sample::new(400, &mut random);
    let bytes = sample.write(WriterProperties::new(), 90);
    let part = PartReader::open(bytes).expect("a part");
    let ids = || sample.rows.iter().filter_map(|row| row[5].integer());
    assert_eq!(part.range("ids"), ids().min().zip(ids().max()));
    assert_eq!(part.range("words"), None);
    assert_eq!(part.range("no such column"), None);
}

#[test]
fn unsupported_columns_are_named() {
    let schema = "message schema {
        required int64 stamps (TIMESTAMP(NANOS,true)); required double doubles; required int64 ids;
        optional group lists (LIST) { repeated group list { optional int64 element; } }
        required int32 shorts;
    }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let mut bytes = Vec::new();
    let writer = SerializedFileWriter::new(&mut bytes, schema, Arc::default()).expect("a writer");
    writer.close().expect("a file");
    let part = || PartReader::open(bytes.clone()).expect("a part");
    for (column, data_type) in [
        ("stamps", "INT64 (logical type 8)"),
        ("doubles", "DOUBLE"),
        ("lists", "LIST or STRUCT"),
    ] {
        let error = part().rows(&[column]).err().expect("an error").to_string();
        let expected = format!("column '{column}' is of type {data_type}, ");
        assert!(error.starts_with(&expected), "{error}");
    }
    let places = part()
        .footer
        .fields
        .iter()
        .map(|field| field.leaf)
        .collect::<Vec<_>>();
    assert_eq!(places, [0, 1, 2, 3, 4]);
    let error = part().rows(&["names"]).err().expect("an error").to_string();
    let expected = "no column 'names'; the part has stamps, doubles, ids, lists, shorts";
    assert_eq!(error, expected);
    assert!(part().rows(&["ids", "shorts"]).is_ok());
}

#[test]
fn columns_that_came_later_read_as_null() {
    let sample = Sample::new(100, &mut Random::new(3));
    let part = PartReader::open(sample.write(WriterProperties::new(), 40)).expect("a part");
    assert!(part.is_older());
    let names = ["call_recovery_ns", "ids", "operation", "repeat", "handle"];
    let rows: Vec<_> = part.rows(&names).expect("every column").collect();
    assert_eq!(rows.len(), 100);
    for (row, written) in rows.into_iter().zip(&sample.rows) {
        let mut wanted = [const { Value::Null }; 5];
        wanted[1] = written[5].clone();
        assert_eq!(row.expect("a row"), wanted);
    }
}

#[test]
fn a_codec_of_another_writer_is_named() {
    let sample = Sample::new(10, &mut Random::new(1));
    let bytes = sample.write(WriterProperties::new(), 10);
    // The codec of a column chunk is field 4, after the path: every one of them becomes SNAPPY.
    let needle = b"numbers\x15\x00";
    let at = bytes
        .windows(needle.len())
        .rposition(|window| window == needle);
    let mut damaged = bytes.clone();
    damaged[at.expect("the chunk") + needle.len() - 1] = 2;
    let part = PartReader::open(damaged).expect("a part");
    let error = part
        .rows(&["numbers"])
        .and_then(|mut rows| rows.next().transpose());
    let error = error.expect_err("an error").to_string();
    assert!(
        error.starts_with("column 'numbers' is compressed by SNAPPY"),
        "{error}"
    );
}
