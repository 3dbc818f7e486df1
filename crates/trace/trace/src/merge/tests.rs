//! Merged parts against the part that an encoder makes of the same rows: byte for byte.

use std::convert::Infallible;

use lineside_rows::Table;
use lineside_time::Random;
use proptest::prelude::*;

use super::*;
use crate::encoder::TraceEncoder;
use crate::encoders::{merge_parts, samples};
use crate::part::{EncoderConfig, Part, PartSink};

#[derive(Default)]
struct Parts(Vec<Part>);

impl PartSink for Parts {
    type Error = Infallible;

    fn part(&mut self, part: Part) -> Result<(), Infallible> {
        self.0.push(part);
        Ok(())
    }
}

/// The parts that random rows of every table become, at most this many rows in each.
fn parts(seed: u64, rows: usize, part_rows_max: usize) -> Vec<Part> {
    let config = EncoderConfig {
        part_rows_max,
        checksum_part_rows_max: part_rows_max,
        ..EncoderConfig::new(Table::ALL, "t-1")
    };
    let mut encoder = TraceEncoder::new(&config, Parts::default());
    samples::write(&mut Random::new(seed), rows, &mut encoder);
    encoder.finish().expect("nothing fails").0.0
}

fn of(parts: &[Part], table: Table) -> Vec<Vec<u8>> {
    let parts = parts.iter().filter(|part| part.table == table);
    parts.map(Part::bytes).collect()
}

fn is_whole(seed: u64, rows: usize, part_rows_max: usize) {
    let (small, large) = (
        parts(seed, rows, part_rows_max),
        parts(seed, rows, usize::MAX),
    );
    for &table in Table::ALL {
        let merged = merge_parts(table, "t-1", of(&small, table)).expect("whole parts");
        assert_eq!(merged.rows, rows as u64, "{}", table.name());
        let expected = of(&large, table).concat();
        assert!(merged.pieces.concat() == expected, "{}", table.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn merged_parts_are_the_part_of_all_rows(
        seed in any::<u64>(), rows in 0..200_usize, part_rows_max in 1..90_usize,
    ) {
        is_whole(seed, rows, part_rows_max);
    }
}

/// Pages end, dictionaries are given up, and batches end within words.
#[test]
fn merged_parts_of_many_rows_are_the_part_of_all() {
    is_whole(5, 20_000, 4_999);
}

#[test]
fn what_is_not_a_whole_part_of_the_trace_is_refused() {
    let made = parts(3, 30, 20);
    let losses = of(&made, Table::Losses);
    let other = merge_parts(Table::Losses, "t-2", losses.clone());
    assert!(matches!(other, Err(MergeError::Foreign)), "{other:?}");
    // A part of the schema before this one, among those of this one.
    let mut older = losses.clone();
    let version = crate::SCHEMA_VERSION.as_bytes();
    let place = { older[1].windows(version.len()) }.rposition(|bytes| bytes == version);
    older[1][place.expect("a version")] -= 1;
    let other = merge_parts(Table::Losses, "t-1", older);
    assert!(matches!(other, Err(MergeError::Foreign)), "{other:?}");
    // A part of another table lacks the columns.
    let other = merge_parts(Table::Packets, "t-1", losses.clone());
    assert!(other.is_err());
    for len in (0..losses[1].len()).step_by(7) {
        let cut = vec![losses[0].clone(), losses[1][..len].to_vec()];
        assert!(merge_parts(Table::Losses, "t-1", cut).is_err(), "{len}");
    }
    let none = merge_parts::<Vec<u8>>(Table::Losses, "t-1", []).expect("nothing is a part too");
    assert_eq!(none.rows, 0);
}
