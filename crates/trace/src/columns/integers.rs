//! Integers and booleans of an open page, without a dictionary: as differences, as they are, as
//! bits.

use parquet::basic::Encoding as PageEncoding;
use parquet::file::statistics::Statistics;

use super::{Column, PAGE_BYTES, ROWS_MAX, Values, Zstd};
use crate::page::{BLOCK_VALUES, Bits, put_delta_block, put_delta_head, put_words};

/// The least and the greatest of some numbers.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Range(Option<(i64, i64)>);

impl Range {
    pub(super) fn extend(&mut self, values: &[i64]) {
        let Some(&first) = values.first() else { return };
        let (mut least, mut greatest) = self.0.unwrap_or((first, first));
        for &value in values {
            least = least.min(value);
            greatest = greatest.max(value);
        }
        self.0 = Some((least, greatest));
    }

    pub(super) fn statistics<const WIDTH: usize>(self, nulls: u64) -> Statistics {
        let least = self.0.map(|(least, _)| least);
        let greatest = self.0.map(|(_, greatest)| greatest);
        match WIDTH {
            4 => {
                let narrow = |value: Option<i64>| value.map(|value| value as i32);
                Statistics::int32(narrow(least), narrow(greatest), None, Some(nulls), false)
            }
            _ => Statistics::int64(least, greatest, None, Some(nulls), false),
        }
    }
}

/// Adds a value to a page. Memory for all of a page is taken at once, since growing would touch
/// twice as much.
#[inline]
pub(super) fn push_to_page<T>(values: &mut Vec<T>, value: T) {
    if values.capacity() == 0 {
        values.reserve_exact(PAGE_BYTES / size_of::<T>() + ROWS_MAX);
    }
    values.push(value);
}

/// 64-bit integers as differences. A block is packed as soon as it is full.
pub(crate) struct Deltas {
    first: i64,
    latest: i64,
    /// The open block: its differences, how many there are ([`NO_VALUE`] before the first value),
    /// and the least one.
    deltas: [i64; BLOCK_VALUES],
    open: usize,
    least: i64,
    /// The value before the open block.
    before: i64,
    packed: Vec<u8>,
    packed_deltas: usize,
    range: Range,
}

/// [`Deltas::open`] if there is no value: no place for a difference, as in a full block.
const NO_VALUE: usize = BLOCK_VALUES + 1;

impl Default for Deltas {
    fn default() -> Self {
        Self {
            first: 0,
            latest: 0,
            deltas: [0; BLOCK_VALUES],
            open: NO_VALUE,
            least: i64::MAX,
            before: 0,
            packed: Vec::new(),
            packed_deltas: 0,
            range: Range::default(),
        }
    }
}

impl Deltas {
    #[inline]
    pub(super) fn push(&mut self, value: i64) {
        if self.open < BLOCK_VALUES {
            self.push_delta(value);
        } else {
            self.push_first(value);
        }
    }

    #[inline]
    fn push_delta(&mut self, value: i64) {
        let delta = value.wrapping_sub(self.latest);
        self.deltas[self.open] = delta;
        self.open += 1;
        self.least = self.least.min(delta);
        self.latest = value;
    }

    /// Adds the first value of the page, or the first one after a full block.
    #[inline(never)]
    fn push_first(&mut self, value: i64) {
        if self.open == NO_VALUE {
            (self.first, self.latest, self.before) = (value, value, value);
            self.range.extend(&[value]);
            self.open = 0;
        } else {
            self.end_block();
            self.push_delta(value);
        }
    }

    fn end_block(&mut self) {
        if self.packed.capacity() == 0 {
            self.packed.reserve_exact(PAGE_BYTES + PAGE_BYTES / 8);
        }
        self.extend_range();
        put_delta_block(&mut self.deltas, self.open, self.least, &mut self.packed);
        self.packed_deltas += self.open;
        (self.open, self.least, self.before) = (0, i64::MAX, self.latest);
    }

    fn extend_range(&mut self) {
        let deltas = &self.deltas[..self.open];
        let bits = deltas.iter().fold(0, |bits, delta| bits | delta);
        // Steps upwards, so small that a whole block of them does not wrap: the last value is the
        // greatest.
        if (0..1 << 56).contains(&bits) && self.before <= self.latest {
            return self.range.extend(&[self.latest]);
        }
        let mut value = self.before;
        let (mut least, mut greatest) = (value, value);
        for delta in deltas {
            value = value.wrapping_add(*delta);
            (least, greatest) = (least.min(value), greatest.max(value));
        }
        self.range.extend(&[least, greatest]);
    }
}

impl Values for Deltas {
    /// Packed differences are random everywhere or nowhere, and large.
    const SAMPLE_BYTES: usize = 4 << 10;

    fn bytes(&self) -> usize {
        self.packed.len()
    }

    fn put(&mut self, out: &mut Vec<u8>) -> PageEncoding {
        let values = 1 + self.packed_deltas + self.open;
        put_delta_head(values, self.first, out);
        if self.open > 0 {
            self.end_block();
        }
        out.extend_from_slice(&self.packed);
        self.packed.clear();
        (self.open, self.packed_deltas) = (NO_VALUE, 0);
        PageEncoding::DELTA_BINARY_PACKED
    }

    fn statistics(&self, nulls: u64) -> Option<Statistics> {
        Some(self.range.statistics::<8>(nulls))
    }

    fn clear(&mut self) {
        self.range = Range::default();
    }
}

/// 64-bit integers as they are. `RUNS`: the same one comes many times in a row, so that zstd's
/// usual level is as quick as the fast one and finds more, and the least and the greatest are worth
/// knowing.
#[derive(Default)]
pub(crate) struct Plains<const RUNS: bool> {
    values: Vec<i64>,
    range: Range,
}

impl<const RUNS: bool> Plains<RUNS> {
    #[inline]
    pub(super) fn push(&mut self, value: i64) {
        push_to_page(&mut self.values, value);
    }
}

impl<const RUNS: bool> Values for Plains<RUNS> {
    const LEVEL: i32 = if RUNS { Zstd::LEVEL } else { Zstd::FAST };

    fn bytes(&self) -> usize {
        self.values.len() * size_of::<i64>()
    }

    fn put(&mut self, out: &mut Vec<u8>) -> PageEncoding {
        put_words(self.values.iter().map(|value| value.cast_unsigned()), out);
        if RUNS {
            self.range.extend(&self.values);
        }
        self.values.clear();
        PageEncoding::PLAIN
    }

    fn statistics(&self, nulls: u64) -> Option<Statistics> {
        RUNS.then(|| self.range.statistics::<8>(nulls))
    }

    fn clear(&mut self) {
        self.range = Range::default();
    }
}

impl Column<Deltas, false> {
    /// Adds values to a column without nulls.
    pub(crate) fn extend(&mut self, values: impl Iterator<Item = i64>) {
        values.for_each(|value| self.values.push(value));
    }
}

impl<const RUNS: bool> Column<Plains<RUNS>, false> {
    /// Adds values to a column without nulls.
    pub(crate) fn extend(&mut self, values: impl Iterator<Item = i64>) {
        self.values.values.extend(values);
    }
}

/// Booleans.
#[derive(Default)]
pub(crate) struct Booleans {
    bits: Bits,
    /// Whether one of the part was false, or true.
    seen: [bool; 2],
}

impl Booleans {
    pub(super) fn push(&mut self, value: bool) {
        self.take(u64::from(value), 1);
    }

    fn take(&mut self, word: u64, len: usize) {
        let trues = word.count_ones() as usize;
        self.seen[0] |= trues < len;
        self.seen[1] |= trues > 0;
        self.bits.push(word, len);
    }
}

impl Values for Booleans {
    fn take_word(&mut self, word: u64, rows: usize) {
        self.take(word, rows - self.bits.len());
    }

    fn bytes(&self) -> usize {
        self.bits.bytes()
    }

    fn put(&mut self, out: &mut Vec<u8>) -> PageEncoding {
        self.bits.put(out);
        PageEncoding::PLAIN
    }

    fn statistics(&self, nulls: u64) -> Option<Statistics> {
        let [no, yes] = self.seen;
        let (least, greatest) = ((no || yes).then_some(!no), (no || yes).then_some(yes));
        Some(Statistics::boolean(
            least,
            greatest,
            None,
            Some(nulls),
            false,
        ))
    }

    fn clear(&mut self) {
        self.seen = [false; 2];
    }
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;

    use super::*;

    #[test]
    fn the_range_of_differences_is_that_of_the_values() {
        let mut random = Random::new(1);
        let mut anywhere = || random.bits().cast_signed();
        let round = |step: i64| (0..1000).map(move |i| i64::MAX.wrapping_add(step.wrapping_mul(i)));
        for values in [
            vec![7],
            (0..1000).collect(),
            (0..1000).rev().collect(),
            round(1).collect(),
            round(1 << 56).collect(),
            round((1 << 56) - 1).collect(),
            round(i64::MAX / 2).collect(),
            (0..1000).map(|_| anywhere()).collect::<Vec<_>>(),
        ] {
            let mut deltas = Deltas::default();
            values.iter().for_each(|&value| deltas.push(value));
            deltas.put(&mut Vec::new());
            let range = values
                .iter()
                .copied()
                .min()
                .zip(values.iter().copied().max());
            assert_eq!(deltas.range.0, range);
        }
    }
}
