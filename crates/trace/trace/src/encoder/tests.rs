//! Tests of the encoder by the reader: every table's rows come back, parts end where they should,
//! and no damaged byte makes the reader panic.

use std::convert::Infallible;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use lineside_rows::{
    ChecksumRun, CollectedRows, ColumnType, ConnectionRow, FileRow, LossRow, Nfs4Row, NfsCells,
    NfsRow, OperationCells, OperationRow, OperationRows, PacketRow, Row, ServiceRow, Text, Word,
};
use lineside_time::Random;
use parquet::basic::{ColumnOrder, Compression, Encoding as ParquetEncoding, LogicalType, Type};
use parquet::column::page::Page;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use proptest::prelude::*;

use super::*;
use crate::columns::{PAGE_BYTES, ROWS_MAX};
use crate::manifest::TableSummary;
use crate::part::Part;
use crate::read::{PartReader, ReadError, Value};
use crate::sample::SampleRow;

type Parts = Vec<Part>;

struct Collector(Parts);

impl PartSink for Collector {
    type Error = Infallible;

    fn part(&mut self, part: Part) -> Result<(), Infallible> {
        self.0.push(part);
        Ok(())
    }
}

fn push_run(encoder: &mut impl RecordSink, operation_id: i64, first_block: i64, sums: &[u64]) {
    encoder.row(RowRef::Checksums(&ChecksumRun {
        operation_id,
        first_block,
        sums,
    }));
}

fn encoder(config: &EncoderConfig) -> TraceEncoder<Collector> {
    TraceEncoder::new(config, Collector(Vec::new()))
}

fn parts(encoder: TraceEncoder<Collector>) -> Parts {
    encoder.finish().expect("nothing fails").0.0
}

fn open_part(part: &Part) -> PartReader<Vec<u8>> {
    PartReader::open(part.bytes()).expect("a part")
}

/// All rows of a table, in the order of its parts.
fn values(parts: &Parts, table: Table) -> Vec<Vec<Value>> {
    let columns: Vec<_> = table.columns().iter().map(|column| column.name).collect();
    let mut all = Vec::new();
    for part in parts.iter().filter(|part| part.table == table) {
        let rows = open_part(part).rows(&columns).expect("all columns");
        let before = all.len();
        all.extend(rows.map(|row| row.expect("a row")));
        assert_eq!((all.len() - before) as u64, part.rows);
    }
    all
}

fn small(part_rows_max: usize) -> EncoderConfig {
    EncoderConfig {
        part_rows_max,
        checksum_part_rows_max: part_rows_max,
        ..EncoderConfig::new(Table::ALL, "t-1")
    }
}

fn rows<R: SampleRow>(random: &mut Random) -> Vec<R> {
    (0..random.below(40)).map(|_| R::sample(random)).collect()
}

/// What each byte can become is read or is an error, never a panic.
#[test]
fn no_byte_of_a_damaged_part_is_a_panic() {
    let mut encoder = encoder(&small(100));
    let losses: Vec<LossRow> = rows(&mut Random::new(7));
    losses.iter().for_each(|row| row.write_to(&mut encoder));
    let parts = parts(encoder);
    let whole = parts
        .iter()
        .find(|part| part.table == Table::Losses && part.rows > 0);
    let whole = &whole.expect("a part with rows").bytes();
    let read = |bytes: Vec<u8>| -> Result<usize, ReadError> {
        let part = PartReader::open(bytes)?;
        let names: Vec<_> = part.column_names().map(str::to_owned).collect();
        let columns: Vec<_> = names.iter().map(String::as_str).collect();
        part.rows(&columns)?
            .try_fold(0, |count, row| row.map(|_| count + 1))
    };
    assert_eq!(read(whole.clone()).expect("it is whole"), losses.len());
    let mut damaged = 0;
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            damaged += usize::from(matches!(read(bytes), Err(ReadError::Damaged(_))));
        }
    }
    assert!(damaged > 1_000, "{damaged}");
}

/// Some cells of a row, one at a time, and some that rows with one number have in common.
struct Given {
    row: OperationRow,
    number: u64,
}

impl Given {
    /// `users`: how many numbers there are.
    fn sample(random: &mut Random, users: u64) -> Self {
        let number = random.below(users);
        let mut of_number = Random::new(number);
        let sample = OperationRow::sample(random);
        let row = OperationRow {
            operation_id: sample.operation_id,
            call_time_ns: sample.call_time_ns,
            name: sample.name,
            repeat: sample.repeat,
            connection_id: of_number.below(9) as i64,
            client_address: Some(std::net::Ipv4Addr::from(of_number.bits() as u32).into()),
            user_id: of_number
                .chance(0.9)
                .then(|| of_number.bits().cast_signed()),
            program: Word::Known("nfs"),
            retransmissions: of_number.below(3) as i32,
            ..OperationRow::default()
        };
        Self { row, number }
    }
}

impl OperationRows for Given {
    fn operation(&self, cells: &mut impl OperationCells) {
        let row = &self.row;
        cells.operation_id(row.operation_id);
        cells.rpc_id(row.rpc_id);
        cells.common(self.number.into(), |cells| {
            cells.connection_id(row.connection_id);
            cells.client_address(row.client_address);
            cells.user_id(row.user_id);
            cells.program(row.program);
            cells.retransmissions(row.retransmissions);
            cells.duplicate_replies(row.duplicate_replies);
        });
        cells.call_time_ns(row.call_time_ns);
        cells.name(row.name.bytes());
        cells.repeat(row.repeat);
    }

    fn nfs(&mut self, cells: &mut impl NfsCells) {
        cells.operation_id(self.row.operation_id);
        cells.mode(self.row.call_time_ns);
    }
}

/// Runs of rows with a number, rows between them, and parts that end anywhere; with many numbers
/// dictionaries are given up.
#[test]
fn cells_that_come_one_at_a_time_are_a_row() {
    for (seed, users, part_rows_max) in [(1, 3, 1000), (2, 3, 77), (3, 1, 64), (4, 5000, 100_000)] {
        let mut random = Random::new(seed);
        let mut given: Vec<_> = (0..300)
            .map(|_| Given::sample(&mut random, users))
            .collect();
        if users > 3 {
            given.extend((0..9000).map(|_| Given::sample(&mut random, users)));
            for at in (0..given.len() - 9).step_by(9) {
                let user = &given[at];
                let (number, of_number) = (user.number, user.row.clone());
                for row in &mut given[at + 1..at + 3] {
                    row.number = number;
                    let own = (row.row.operation_id, std::mem::take(&mut row.row.name));
                    row.row = of_number.clone();
                    (row.row.operation_id, row.row.name) = own;
                }
            }
        }
        let mut encoder = encoder(&small(part_rows_max));
        let mut expected = CollectedRows::default();
        for given in &mut given {
            if random.chance(0.1) {
                let row = OperationRow::sample(&mut random);
                row.write_to(&mut encoder);
                expected.operations.push(row);
            }
            encoder.operation(given);
            expected.operation(given);
        }
        let parts = parts(encoder);
        let rows: Vec<_> = expected.operations.iter().map(SampleRow::values).collect();
        assert!(values(&parts, Table::Operations) == rows, "seed {seed}");
        let rows: Vec<_> = expected.nfs.iter().map(SampleRow::values).collect();
        assert!(values(&parts, Table::Nfs) == rows, "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn rows_come_back_from_every_table(
        seed in any::<u64>(), part_rows_max in 1..50_usize,
    ) {
        let mut random = Random::new(seed);
        let mut encoder = encoder(&small(part_rows_max));
        let operations: Vec<OperationRow> = rows(&mut random);
        let nfs: Vec<NfsRow> = rows(&mut random);
        let nfs4: Vec<Nfs4Row> = rows(&mut random);
        let services: Vec<ServiceRow> = rows(&mut random);
        let connections: Vec<ConnectionRow> = rows(&mut random);
        let files: Vec<FileRow> = rows(&mut random);
        let losses: Vec<LossRow> = rows(&mut random);
        let packets: Vec<PacketRow> = rows(&mut random);
        operations.iter().for_each(|row| row.write_to(&mut encoder));
        nfs.iter().for_each(|row| row.write_to(&mut encoder));
        nfs4.iter().for_each(|row| row.write_to(&mut encoder));
        services.iter().for_each(|row| row.write_to(&mut encoder));
        connections.iter().for_each(|row| row.write_to(&mut encoder));
        files.iter().for_each(|row| row.write_to(&mut encoder));
        losses.iter().for_each(|row| row.write_to(&mut encoder));
        packets.iter().for_each(|row| row.write_to(&mut encoder));
        let mut checksums = Vec::new();
        for operation in 0..random.below(6) as i64 {
            let sums: Vec<u64> = (0..random.below(40)).map(|_| random.bits()).collect();
            push_run(&mut encoder, operation, 100, &sums);
            for (sum, block) in sums.iter().zip(100..) {
                let row = [operation, block, sum.cast_signed()];
                checksums.push(row.map(Value::Integer).to_vec());
            }
        }
        let parts = parts(encoder);
        fn expected<R: SampleRow>(rows: &[R]) -> Vec<Vec<Value>> {
            rows.iter().map(SampleRow::values).collect()
        }
        prop_assert_eq!(values(&parts, Table::Operations), expected(&operations));
        prop_assert_eq!(values(&parts, Table::Nfs), expected(&nfs));
        prop_assert_eq!(values(&parts, Table::Nfs4), expected(&nfs4));
        prop_assert_eq!(values(&parts, Table::Services), expected(&services));
        prop_assert_eq!(values(&parts, Table::Connections), expected(&connections));
        prop_assert_eq!(values(&parts, Table::Files), expected(&files));
        prop_assert_eq!(values(&parts, Table::Losses), expected(&losses));
        prop_assert_eq!(values(&parts, Table::Packets), expected(&packets));
        prop_assert_eq!(values(&parts, Table::Checksums), checksums);
        for part in &parts {
            prop_assert!(part.rows <= part_rows_max as u64);
            prop_assert!(part.rows > 0 || part.index == 0);
        }
    }
}

#[test]
fn a_trace_without_rows_has_an_empty_part_of_each_table() {
    let parts = parts(encoder(&EncoderConfig::new(Table::ALL, "t-2")));
    let tables: Vec<_> = parts.iter().map(|part| part.table).collect();
    assert_eq!(tables, Table::ALL);
    for part in &parts {
        assert_eq!(part.file_name(), "part-000000.parquet");
        let reader = open_part(part);
        assert_eq!(reader.row_count(), 0);
        assert_eq!(
            reader.metadata("lineside.schema_version"),
            Some(crate::SCHEMA_VERSION)
        );
        assert_eq!(reader.metadata("lineside.trace_id"), Some("t-2"));
        let checksum = Some("xxh3-64/seed0/512");
        assert_eq!(reader.metadata("lineside.checksum"), checksum);
        assert_eq!(reader.metadata("ARROW:schema"), None);
        let names: Vec<_> = reader.column_names().map(str::to_owned).collect();
        let columns = part.table.columns().iter();
        assert_eq!(names, columns.map(|column| column.name).collect::<Vec<_>>());
    }
}

#[test]
fn each_table_has_a_part_from_the_beginning_or_its_first_end() {
    let mut encoder = encoder(&EncoderConfig::new(&[Table::Files, Table::Losses], "t"));
    let counts = |encoder: &TraceEncoder<Collector>| {
        let of = |(_, summary): (_, TableSummary)| (summary.parts, summary.rows);
        encoder.summaries().into_iter().map(of).collect::<Vec<_>>()
    };
    FileRow::default().write_to(&mut encoder);
    assert_eq!(counts(&encoder), [(0, 0), (0, 0)]);
    encoder.begin();
    assert_eq!(counts(&encoder), [(1, 0), (1, 0)], "rows wait");
    encoder.begin();
    encoder.end_parts();
    assert_eq!(counts(&encoder), [(2, 1), (1, 0)]);
    let all = parts(encoder);
    assert_eq!(values(&all, Table::Files).len(), 1);
    assert_eq!(values(&all, Table::Losses).len(), 0);
}

#[test]
fn only_portable_types_and_one_row_group_a_part() {
    let mut encoder = encoder(&small(100));
    let mut random = Random::new(1);
    for _ in 0..10 {
        OperationRow::sample(&mut random).write_to(&mut encoder);
        FileRow::sample(&mut random).write_to(&mut encoder);
    }
    for part in parts(encoder) {
        let reader = SerializedFileReader::new(Bytes::from(part.bytes())).expect("a part");
        assert_eq!(reader.num_row_groups(), usize::from(part.rows > 0));
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        for (column, spec) in schema.columns().iter().zip(part.table.columns()) {
            let physical = match spec.column_type {
                ColumnType::Int64 => Type::INT64,
                ColumnType::Int32 => Type::INT32,
                ColumnType::Boolean => Type::BOOLEAN,
                ColumnType::String | ColumnType::Bytes => Type::BYTE_ARRAY,
            };
            // No other logical type: no unsigned numbers, no time stamps, no dictionaries.
            let text = spec.column_type == ColumnType::String;
            let logical = text.then_some(LogicalType::String);
            assert_eq!(column.physical_type(), physical, "{}", spec.name);
            assert_eq!(column.logical_type_ref(), logical.as_ref(), "{}", spec.name);
            assert_eq!(column.max_rep_level(), 0);
            assert_eq!(
                column.max_def_level() > 0,
                spec.null.is_some(),
                "{}",
                spec.name
            );
        }
    }
}

/// What the crate's reader finds in the footers and page headers that are our own.
#[test]
fn footers_are_those_of_the_parquet_crate() {
    let mut encoder = encoder(&small(3_000));
    let mut random = Random::new(2);
    for operation in 0..3_000 {
        OperationRow::sample(&mut random).write_to(&mut encoder);
        push_run(&mut encoder, operation, 7, &[random.bits()]);
        FileRow::sample(&mut random).write_to(&mut encoder);
    }
    for part in parts(encoder) {
        let len = part.bytes_len() as i64;
        let reader = SerializedFileReader::new(Bytes::from(part.bytes())).expect("a part");
        let file = reader.metadata().file_metadata();
        assert_eq!((file.version(), file.num_rows()), (1, part.rows as i64));
        let version = concat!("lineside ", env!("CARGO_PKG_VERSION"));
        assert_eq!(file.created_by(), Some(version));
        assert_eq!(file.key_value_metadata().map(Vec::len), Some(3));
        assert_eq!(file.schema().name(), "schema");
        for column in 0..file.schema_descr().num_columns() {
            // Bounds count only for a known order.
            let order = file.column_order(column);
            assert!(matches!(order, ColumnOrder::TYPE_DEFINED_ORDER(_)));
        }
        if part.rows == 0 {
            continue;
        }
        let group = reader.metadata().row_group(0);
        let (mut next, mut plain) = (4, 0);
        for (place, column) in group.columns().iter().enumerate() {
            let data = column.data_page_offset();
            assert_eq!(column.dictionary_page_offset().unwrap_or(data), next);
            assert_eq!(
                column.column_path().string(),
                part.table.columns()[place].name
            );
            assert_eq!(column.num_values(), part.rows as i64);
            let reader = reader.get_row_group(0).expect("a row group");
            let pages = reader.get_column_page_reader(place).expect("a column");
            let (mut rows, mut entries) = (0, 0);
            for page in pages {
                let page = page.expect("a page");
                let encodings: Vec<_> = column.encodings().collect();
                assert!(encodings.contains(&page.encoding()), "{encodings:?}");
                match page {
                    Page::DictionaryPage { num_values, .. } => entries += num_values,
                    page => rows += page.num_values(),
                }
            }
            assert_eq!(rows, part.rows as u32);
            assert_eq!(entries > 0, column.dictionary_page_offset().is_some());
            next += column.compressed_size();
            plain += column.uncompressed_size();
        }
        assert_eq!(group.total_byte_size(), plain);
        assert_eq!(group.compressed_size(), next - 4);
        assert_eq!(
            (group.num_rows(), group.file_offset()),
            (part.rows as i64, Some(4))
        );
        assert!(next < len);
    }
}

#[test]
fn columns_are_encoded_as_described() {
    let mut encoder = encoder(&small(100));
    push_run(&mut encoder, 1, 2, &[3, 3, 3]);
    let parts = parts(encoder);
    let part = parts.iter().find(|part| part.rows == 3).expect("the sums");
    let reader = SerializedFileReader::new(Bytes::from(part.bytes())).expect("a part");
    let group = reader.metadata().row_group(0);
    for (column, encoding, has_range) in [
        (0, ParquetEncoding::RLE_DICTIONARY, true),
        (1, ParquetEncoding::DELTA_BINARY_PACKED, true),
        (2, ParquetEncoding::PLAIN, false),
    ] {
        let column = group.column(column);
        let encodings: Vec<_> = column.encodings().collect();
        assert!(encodings.contains(&encoding), "{encodings:?}");
        let has_dictionary = column.dictionary_page_offset().is_some();
        assert_eq!(has_dictionary, encoding == ParquetEncoding::RLE_DICTIONARY);
        assert_eq!(column.statistics().is_some(), has_range);
    }
}

/// Pages of every encoding that follow one another, dictionaries that outgrow their room or are in
/// vain, runs and their ends.
#[test]
fn long_columns_come_back() {
    const ROWS: i64 = 160_000;
    let mut random = Random::new(5);
    let mut config = small(ROWS as usize);
    config.tables = vec![Table::Operations];
    let mut encoder = encoder(&config);
    let mut expected = Vec::new();
    for index in 0..ROWS {
        let mut row = OperationRow {
            operation_id: index << (index % 40),
            // Differences of every width.
            rpc_id: random.bits().cast_signed() >> (index / 1000 % 64),
            call_time_ns: (index % 7 > 0).then(|| random.bits().cast_signed()),
            call_end_ns: (index > 50_000).then_some(i64::MIN >> (index % 64)),
            file_id: Some(random.bits().cast_signed()),
            // Unique, few, one after another, all but constant.
            offset: Some(index * 4096),
            count: Some(random.below(5) as i64 - 2),
            transferred: (index / 1000 % 2 == 0).then_some(index / 9),
            user_id: (index % 30_000 == 0).then_some(7),
            // Each twice, across the looks at pages; of nine bits.
            file_size: Some((index + 1) / 2 * 8192),
            client_port: Some(random.below(500) as i32),
            server_port: Some(-1 - random.below(40_000) as i32),
            status: Word::Number(random.below(70_000) as i64),
            // One in three is new.
            reply_bytes: Some(if index % 3 == 0 { index } else { index % 3 }),
            reply_missing: index % 3 == 0 || index > 70_000,
            retransmissions: i32::from(index == 99_999),
            ..OperationRow::default()
        };
        row.name.set(format!("file {}", index % 65_000).as_bytes());
        row.write_to(&mut encoder);
        expected.push(row.values());
    }
    let parts = parts(encoder);
    assert_eq!(parts.len(), 1);
    assert!(values(&parts, Table::Operations) == expected);

    let reader = SerializedFileReader::new(Bytes::from(parts[0].bytes()));
    let reader = reader.expect("a part");
    let group = reader.metadata().row_group(0);
    for (place, column) in Table::Operations.columns().iter().enumerate() {
        let chunk = group.column(place);
        let values = expected.iter().map(|row| &row[place]);
        let nulls = values.clone().filter(|value| **value == Value::Null);
        let numbers = || values.clone().filter_map(Value::integer);
        let Some(statistics) = chunk.statistics() else {
            assert_eq!(
                column.encoding,
                lineside_rows::Encoding::Plain,
                "{}",
                column.name
            );
            continue;
        };
        let name = column.name;
        assert_eq!(
            statistics.null_count_opt(),
            Some(nulls.count() as u64),
            "{name}"
        );
        if let Statistics::Int64(range) = statistics {
            assert_eq!(range.min_opt().copied(), numbers().min(), "{name}");
            assert_eq!(range.max_opt().copied(), numbers().max(), "{name}");
        }
    }
    // What does not repeat has left its dictionary; what repeats has not.
    let encodings = |name: &str| -> Vec<ParquetEncoding> {
        let columns = Table::Operations.columns().iter();
        let place = columns.clone().position(|column| column.name == name);
        group.column(place.expect("a column")).encodings().collect()
    };
    for name in ["offset", "reply_bytes", "status", "name"] {
        assert!(encodings(name).contains(&ParquetEncoding::PLAIN), "{name}");
    }
    let dictionary_bytes = |name: &str| {
        let columns = Table::Operations.columns().iter();
        let place = columns.clone().position(|column| column.name == name);
        let chunk = group.column(place.expect("a column"));
        chunk.data_page_offset() - chunk.dictionary_page_offset().expect("it has one")
    };
    let (vain, full) = (dictionary_bytes("offset"), dictionary_bytes("reply_bytes"));
    assert!(
        vain < full / 10,
        "a useless dictionary is dropped early: {vain}, {full}"
    );
    assert!(!encodings("count").contains(&ParquetEncoding::DELTA_BINARY_PACKED));
    let plain = group.column(0).compression() == Compression::UNCOMPRESSED;
    assert!(!plain, "ids are compressed");
    assert!(group.compressed_size() < reader.metadata().row_group(0).total_byte_size());
}

/// Runs of all lengths, of operations that alternate and come back, over many pages.
#[test]
fn checksums_of_many_operations_come_back() {
    let mut config = small(300_000);
    config.tables = vec![Table::Checksums];
    let mut encoder = encoder(&config);
    let (mut random, mut expected) = (Random::new(8), Vec::new());
    for step in 0..40_000_i64 {
        let (back, run) = (random.below(600) as i64, random.below(300) as usize);
        let len = if step % 100 == 0 { run } else { 1 + run % 9 };
        let operation = if step % 3 == 0 { step - back } else { step / 2 } << 18;
        let first = match step % 50 {
            0 => i64::MAX - 100,
            1 => -1 - (random.bits() >> 1).cast_signed(),
            _ => (random.bits() >> 40).cast_signed(),
        };
        let sums: Vec<u64> = (0..len).map(|_| random.bits()).collect();
        push_run(&mut encoder, operation, first, &sums);
        for (place, sum) in (0..).zip(&sums) {
            let row = [operation, first.wrapping_add(place), sum.cast_signed()];
            expected.push(row.map(Value::Integer).to_vec());
        }
    }
    let parts = parts(encoder);
    assert!(values(&parts, Table::Checksums) == expected);
    for part in parts {
        let reader = SerializedFileReader::new(Bytes::from(part.bytes())).expect("a part");
        let rows = expected.drain(..part.rows as usize).collect::<Vec<_>>();
        for place in [0, 1] {
            let numbers = || rows.iter().filter_map(|row| row[place].integer());
            let range = open_range(&reader, place);
            assert_eq!(range, (numbers().min(), numbers().max()));
        }
    }
}

fn open_range(reader: &SerializedFileReader<Bytes>, place: usize) -> (Option<i64>, Option<i64>) {
    match reader.metadata().row_group(0).column(place).statistics() {
        Some(Statistics::Int64(range)) => (range.min_opt().copied(), range.max_opt().copied()),
        _ => (None, None),
    }
}

#[test]
fn unrequested_tables_are_not_written() {
    let mut encoder = encoder(&EncoderConfig::new(&[Table::Files], "t"));
    assert!(encoder.wants(Table::Files));
    assert!(!encoder.wants(Table::Nfs));
    NfsRow::default().write_to(&mut encoder);
    FileRow::default().write_to(&mut encoder);
    encoder.end_parts();
    encoder.end_parts();
    let parts = parts(encoder);
    let rows: Vec<_> = parts.iter().map(|part| (part.table, part.rows)).collect();
    assert_eq!(rows, [(Table::Files, 1)]);
}

#[test]
fn the_first_error_of_the_sink_is_kept_and_ends_the_output() {
    let mut calls = 0;
    let mut encoder = TraceEncoder::new(&small(1), |part: Part| {
        calls += 1;
        match part.rows {
            0 => Ok(()),
            _ => Err(format!("disk full at call {calls}")),
        }
    });
    encoder.begin();
    assert!(encoder.error().is_none());
    for _ in 0..3 {
        OperationRow::default().write_to(&mut encoder);
    }
    assert!(!encoder.wants(Table::Operations));
    let error = encoder.error().expect("kept").to_string();
    assert_eq!(error, format!("disk full at call {}", Table::ALL.len() + 1));
    assert!(encoder.finish().is_err());
}

#[test]
fn long_texts_end_pages_and_parts_early() {
    let mut config = EncoderConfig::new(&[Table::Operations], "t");
    config.part_bytes_max = 1 << 20;
    let mut encoder = encoder(&config);
    let (mut random, mut row) = (Random::new(3), OperationRow::default());
    let mut bytes = vec![0; Text::BYTES_MAX];
    for _ in 0..200 {
        random.fill(&mut bytes);
        row.name.set(&bytes);
        row.write_to(&mut encoder);
        let hostile = ROWS_MAX * 4 * Text::BYTES_MAX;
        assert!(
            encoder.held_bytes() < 3 * hostile,
            "{}",
            encoder.held_bytes()
        );
    }
    let parts = parts(encoder);
    assert!(parts.len() > 3, "{}", parts.len());
    assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), 200);
}

#[test]
fn a_part_ends_at_its_size_but_for_its_open_pages() {
    let mut config = EncoderConfig::new(&[Table::Checksums], "t");
    config.part_bytes_max = 1 << 20;
    let mut encoder = encoder(&config);
    let mut random = Random::new(4);
    for operation in 0..4_000 {
        let sums: [u64; 128] = std::array::from_fn(|_| random.bits());
        push_run(&mut encoder, operation, 0, &sums);
    }
    let parts = parts(encoder);
    let full = &parts[..parts.len() - 1];
    assert!(full.len() >= 3, "{} full parts", full.len());
    for part in full {
        let open_pages = Table::Checksums.columns().len() * PAGE_BYTES;
        let allowed = config.part_bytes_max..config.part_bytes_max + open_pages;
        assert!(allowed.contains(&part.bytes_len()), "{}", part.bytes_len());
    }
}

#[test]
fn parts_end_where_time_passes_a_window() {
    let mut config = EncoderConfig::new(&[Table::Files, Table::Losses], "t");
    config.part_time_ns = NonZeroU64::new(10);
    let mut encoder = encoder(&config);
    // Rows before the first stamp, within a window, in the next, after a long pause, at the end of
    // time.
    for now_ns in [
        i64::MIN,
        i64::MIN,
        -25,
        -21,
        -20,
        7,
        9,
        70,
        70,
        i64::MAX,
        i64::MAX,
    ] {
        encoder.on_time(now_ns);
        FileRow::default().write_to(&mut encoder);
    }
    LossRow::default().write_to(&mut encoder);
    let parts = parts(encoder);
    let rows = |table| {
        let parts = parts.iter().filter(move |part| part.table == table);
        parts.map(|part| part.rows).collect::<Vec<_>>()
    };
    assert_eq!(rows(Table::Files), [0, 2, 2, 1, 2, 2, 2]);
    assert_eq!(rows(Table::Losses), [0, 1]);
}

/// Runs the script of `crates/test/nfs-lab/` on traces with and without rows, and every example of
/// the guide in DuckDB.
#[test]
fn other_tools_read_a_trace() {
    let python = std::env::var("LINESIDE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let run = |folder: &Path, arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.current_dir(folder).args(arguments).output()
    };
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    let packages = run(root, &["-c", "import duckdb, pandas, pyarrow"]);
    if !packages.is_ok_and(|output| output.status.success()) {
        println!(
            "SKIP: {python} has no duckdb, pandas and pyarrow (LINESIDE_PYTHON names another)"
        );
        return;
    }
    let parent = tempfile::tempdir().expect("a folder");
    for (name, rows) in [("EMPTY", 0), ("TRACE", 1000)] {
        let folder = parent.path().join(name);
        write_trace(&folder, rows);
        let script = root.join("crates/test/nfs-lab/read_trace.py");
        let script = script.to_str().expect("UTF-8");
        let output = run(parent.path(), &[script, name]).expect("Python runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let lines = String::from_utf8_lossy(&output.stdout);
        let same = lines.matches("the same in DuckDB, pandas, pyarrow").count();
        assert_eq!(same, Table::ALL.len(), "{lines}");
    }
    let wrong = parent.path().join("TRACE/trace.json");
    let manifest = std::fs::read_to_string(&wrong).expect("there");
    std::fs::write(&wrong, manifest.replace("\"rows\": 1000", "\"rows\": 999")).expect("written");
    let script = root.join("crates/test/nfs-lab/read_trace.py");
    let output = run(parent.path(), &[script.to_str().expect("UTF-8"), "TRACE"]);
    assert!(
        !output.expect("Python runs").status.success(),
        "the script reports a difference"
    );

    let guide = std::fs::read_to_string(root.join("docs/guide/trace.md")).expect("the guide");
    let queries: Vec<_> = guide
        .split("```sql\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        // What differences of random times exceed; `waits` and `servers` of `cli` run those.
        .filter(|query| {
            let beyond = ["with calls", "waited_ns", "as rtt_ns"];
            !beyond.iter().any(|part| query.contains(part))
        })
        .collect();
    assert_eq!(queries.len(), 5);
    for query in queries {
        for trace in ["TRACE", "EMPTY"] {
            let query = query.replace("TRACE", trace);
            let code = "import duckdb, sys; print(len(duckdb.execute(sys.argv[1]).fetchall()))";
            let output = run(parent.path(), &["-c", code, &query]).expect("Python runs");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{query}: {errors}");
            let none = output.stdout.starts_with(b"0");
            assert!(!none || trace == "EMPTY", "{query}: no rows");
        }
    }
}

/// A trace of random rows on the disk, `rows` in each table.
fn write_trace(folder: &Path, rows: usize) {
    let mut encoder = TraceEncoder::new(&small(300), |part: Part| {
        let table = folder.join(part.table.name());
        std::fs::create_dir_all(&table)?;
        std::fs::write(table.join(part.file_name()), part.bytes())
    });
    let mut random = Random::new(9);
    for index in 0..rows as i64 {
        let operation = OperationRow {
            operation_id: index,
            call_time_ns: Some(index),
            call_end_ns: Some(index),
            reply_time_ns: Some(2 * index),
            program: Word::Known("nfs"),
            operation: Word::Known(["READ", "WRITE"][index as usize % 2]),
            ..OperationRow::sample(&mut random)
        };
        operation.write_to(&mut encoder);
        push_run(&mut encoder, index, 7, &[random.bits()]);
        NfsRow::sample(&mut random).write_to(&mut encoder);
        Nfs4Row::sample(&mut random).write_to(&mut encoder);
        ServiceRow::sample(&mut random).write_to(&mut encoder);
        ConnectionRow::sample(&mut random).write_to(&mut encoder);
        FileRow::sample(&mut random).write_to(&mut encoder);
        LossRow::sample(&mut random).write_to(&mut encoder);
        PacketRow::sample(&mut random).write_to(&mut encoder);
    }
    let (_, summaries) = encoder
        .finish()
        .map_err(|error| error.to_string())
        .expect("written");
    let mut manifest = crate::Manifest::default();
    manifest.verdict.state = crate::State::Complete;
    for (table, summary) in summaries {
        manifest.tables.insert(table.name().to_owned(), summary);
    }
    // What a run that still goes on has beside its complete parts.
    std::fs::write(folder.join("nfs/.part-000099.parquet.tmp"), "half").expect("written");
    std::fs::write(folder.join("trace.json"), manifest.to_json()).expect("written");
}
