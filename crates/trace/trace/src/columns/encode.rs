//! Which column each kind of cell has, and columns that take values as they were read.

use std::ops::Range;

use lineside_rows::{Address, Blob, Label, Text, Word};

use super::dictionary::{Numbers, Texts};
use super::integers::{Booleans, Deltas, Plains, Repeats};
use super::{Column, Delta, Dictionary, Encode, Plain, ROWS_MAX, Runs};
use crate::read::{self, Values as Read};

/// A column that takes values as they were read.
pub(crate) trait Refill {
    /// Adds those values of `rows` that have a bit in `present`; its lowest is that of the first
    /// row, which has number `first` in the open word.
    fn put(&mut self, values: &Read, rows: Range<usize>, present: u64, first: usize);
}

/// Adds rows of a column that was read, at most [`ROWS_MAX`]; the first of them is the one with
/// number `first` in the open word.
pub(crate) fn refill(
    column: &mut impl Refill,
    from: &read::Column,
    rows: Range<usize>,
    first: usize,
) {
    let all = u64::MAX.checked_shr((ROWS_MAX - rows.len()) as u32);
    let present = match from.present().get(rows.clone()) {
        None => all.unwrap_or(0),
        Some(flags) => word_of(flags.iter().copied()),
    };
    if present != 0 {
        column.put(from.values(), rows, present, first);
    }
}

/// Truth values as bits, the first one the lowest.
fn word_of(flags: impl Iterator<Item = bool>) -> u64 {
    { flags.enumerate() }.fold(0, |word, (place, flag)| word | u64::from(flag) << place)
}

/// What of `values` has a bit in `present`.
fn present_of<T>(values: impl Iterator<Item = T>, present: u64) -> impl Iterator<Item = T> {
    let values = values.enumerate();
    values.filter_map(move |(place, value)| (present >> place & 1 == 1).then_some(value))
}

macro_rules! refill_integers {
    ($($values:ty),*) => {$(
        impl<const NULLABLE: bool> Refill for Column<$values, NULLABLE> {
            fn put(&mut self, values: &Read, rows: Range<usize>, present: u64, first: usize) {
                let into = self.place(present << first);
                match values {
                    Read::Int64(values) => present_of(values[rows].iter(), present)
                        .for_each(|&value| into.push(value)),
                    Read::Int32(values) => present_of(values[rows].iter(), present)
                        .for_each(|&value| into.push(value.into())),
                    _ => {}
                }
            }
        }
    )*};
}

refill_integers!(Deltas, Repeats, Plains, Numbers<8>, Numbers<4>);

impl<const NULLABLE: bool> Refill for Column<Booleans, NULLABLE> {
    fn put(&mut self, values: &Read, rows: Range<usize>, present: u64, first: usize) {
        let Read::Boolean(values) = values else {
            return;
        };
        let values = values[rows].iter().copied();
        if NULLABLE {
            let into = self.place(present << first);
            present_of(values, present).for_each(|value| into.push(value));
        } else {
            self.open |= word_of(values) << first;
        }
    }
}

impl<const NULLABLE: bool> Refill for Column<Texts, NULLABLE> {
    fn put(&mut self, values: &Read, rows: Range<usize>, present: u64, first: usize) {
        if let Read::Texts(places, texts) | Read::Bytes(places, texts) = values {
            // As they are in the part: texts were escaped when they first became a cell.
            let places = present_of(places[rows].iter().copied(), present);
            self.place(present << first).refill(places, texts);
        }
    }
}

macro_rules! encode {
    ($($kind:ty, $encoding:ty, $values:ty, $nullable:literal: |$value:ident, $column:ident,
    $bit:ident| $push:expr;)*) => {$(
        impl Encode<$encoding> for $kind {
            type Column = Column<$values, $nullable>;

            #[inline(always)]
            fn push($value: Self::Value<'_>, $column: &mut Self::Column, $bit: u64) {
                $push
            }
        }
    )*};
}

encode! {
    i64, Delta, Deltas, false: |value, column, bit| column.place(bit).push(value);
    Option<i64>, Delta, Deltas, true: |value, column, bit| if let Some(value) = value {
        column.place(bit).push(value);
    };
    i64, Runs, Repeats, false: |value, column, bit| column.place(bit).push(value);
    i64, Plain, Plains, false: |value, column, bit| column.place(bit).push(value);
    Option<i64>, Plain, Plains, true: |value, column, bit| if let Some(value) = value {
        column.place(bit).push(value);
    };
    i64, Dictionary, Numbers<8>, false: |value, column, bit| column.place(bit).push(value);
    Option<i64>, Dictionary, Numbers<8>, true: |value, column, bit| if let Some(value) = value {
        column.place(bit).push(value);
    };
    i32, Dictionary, Numbers<4>, false: |value, column, bit| column.place(bit).push(value.into());
    Option<i32>, Dictionary, Numbers<4>, true: |value, column, bit| if let Some(value) = value {
        column.place(bit).push(value.into());
    };
    bool, Dictionary, Booleans, false: |value, column, bit| if value {
        column.open |= bit;
    };
    Option<bool>, Dictionary, Booleans, true: |value, column, bit| if let Some(value) = value {
        column.place(bit).push(value);
    };
    Label, Dictionary, Texts, true: |value, column, bit| if let Some(text) = value {
        column.place(bit).push_constant(text);
    };
    Word, Dictionary, Texts, true: |value, column, bit| match value {
        Word::None => {}
        Word::Known(text) => column.place(bit).push_constant(text),
        Word::Number(number) => column.place(bit).push_number(number),
    };
    Text, Dictionary, Texts, true: |value, column, bit| if let Some(bytes) = value {
        column.place(bit).push_escaped(bytes);
    };
    Blob, Dictionary, Texts, true: |value, column, bit| if let Some(bytes) = value {
        column.place(bit).push(bytes);
    };
    Address, Dictionary, Texts, true: |value, column, bit| if let Some(address) = value {
        column.place(bit).push_address(address);
    };
}
