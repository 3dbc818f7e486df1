//! Integers and booleans of an open page, without a dictionary: as differences, as they are, as
//! bits.

use super::{Column, PAGE_BYTES, ROWS_MAX, Values, Zstd};
use crate::page::{BLOCK_VALUES, Bits, put_delta_block, put_delta_head, put_runs, put_words};
use crate::part_file::{Bounds, PageEncoding, Statistics};

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

    pub(super) fn statistics<const WIDTH: usize>(self, nulls: u64) -> Statistics<'static> {
        // The lower bytes come first: the first four of them are the number in 32 bits.
        let bounds = self.0.map_or(Bounds::None, |(least, greatest)| {
            Bounds::Number([least, greatest].map(i64::to_le_bytes), WIDTH)
        });
        Statistics { nulls, bounds }
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

    /// Adds `count` values, each greater by one than the one before.
    fn push_run(&mut self, first: i64, count: usize) {
        let Some(mut left) = count.checked_sub(1) else {
            return;
        };
        self.push(first);
        while left > 0 {
            if self.open == BLOCK_VALUES {
                self.end_block();
            }
            let taken = left.min(BLOCK_VALUES - self.open);
            self.deltas[self.open..][..taken].fill(1);
            self.least = self.least.min(1);
            self.latest = self.latest.wrapping_add(taken as i64);
            (self.open, left) = (self.open + taken, left - taken);
        }
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

    fn statistics(&self, nulls: u64) -> Option<Statistics<'_>> {
        Some(self.range.statistics::<8>(nulls))
    }

    fn clear(&mut self) {
        self.range = Range::default();
    }
}

/// 64-bit integers as they are, without statistics.
#[derive(Default)]
pub(crate) struct Plains {
    values: Vec<i64>,
}

impl Plains {
    #[inline]
    pub(super) fn push(&mut self, value: i64) {
        push_to_page(&mut self.values, value);
    }
}

impl Values for Plains {
    const LEVEL: i32 = Zstd::FAST;

    fn bytes(&self) -> usize {
        self.values.len() * size_of::<i64>()
    }

    fn put(&mut self, out: &mut Vec<u8>) -> PageEncoding {
        put_words(self.values.iter().map(|value| value.cast_unsigned()), out);
        self.values.clear();
        PageEncoding::PLAIN
    }

    fn statistics(&self, _: u64) -> Option<Statistics<'_>> {
        None
    }

    fn clear(&mut self) {}
}

/// 64-bit integers of which each comes many times in a row: a dictionary of them in the order in
/// which they came, and how often each comes.
#[derive(Default)]
pub(crate) struct Repeats {
    /// One that comes again after long may be in it twice.
    entries: Vec<i64>,
    /// The entries that came lately, each at the place that its bits give, and one more than its
    /// place in `entries`.
    known: Vec<u32>,
    /// The runs of the open page: a place in `entries`, and a count.
    runs: Vec<(u32, usize)>,
}

impl Repeats {
    /// Entries that are looked up: of as many operations, pieces of data may alternate.
    const KNOWN: usize = 256;

    #[inline]
    pub(super) fn push(&mut self, value: i64) {
        self.push_run(value, 1);
    }

    #[inline]
    fn push_run(&mut self, value: i64, count: usize) {
        match self.runs.last_mut() {
            Some((code, counted)) if self.entries[*code as usize] == value => *counted += count,
            _ => self.push_other(value, count),
        }
    }

    fn push_other(&mut self, value: i64, count: usize) {
        self.known.resize(Self::KNOWN, 0);
        let hash = value.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let known = &mut self.known[(hash >> (u64::BITS - Self::KNOWN.ilog2())) as usize];
        let place = (*known as usize).wrapping_sub(1);
        if self.entries.get(place) != Some(&value) {
            self.entries.push(value);
            *known = self.entries.len() as u32;
        }
        self.runs.push((*known - 1, count));
    }
}

impl Values for Repeats {
    fn bytes(&self) -> usize {
        size_of_val(self.runs.as_slice())
    }

    fn put(&mut self, out: &mut Vec<u8>) -> PageEncoding {
        put_runs(self.entries.len(), &self.runs, out);
        self.runs.clear();
        PageEncoding::RLE_DICTIONARY
    }

    fn put_dictionary(&self, out: &mut Vec<u8>) -> usize {
        put_words(self.entries.iter().map(|value| value.cast_unsigned()), out);
        self.entries.len()
    }

    fn dictionary_bytes(&self) -> usize {
        size_of_val(self.entries.as_slice())
    }

    fn statistics(&self, nulls: u64) -> Option<Statistics<'_>> {
        let mut range = Range::default();
        range.extend(&self.entries);
        Some(range.statistics::<8>(nulls))
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.known.clear();
    }
}

impl Column<Deltas, false> {
    /// Adds numbers, each greater by one than the one before, to a column without nulls.
    pub(crate) fn push_run(&mut self, first: i64, count: usize) {
        self.values.push_run(first, count);
    }
}

impl Column<Repeats, false> {
    /// Adds a number many times to a column without nulls.
    pub(crate) fn push_run(&mut self, value: i64, count: usize) {
        self.values.push_run(value, count);
    }
}

impl Column<Plains, false> {
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

    fn statistics(&self, nulls: u64) -> Option<Statistics<'_>> {
        let [no, yes] = self.seen;
        let bounds = match no || yes {
            true => Bounds::Number([!no, yes].map(|bound| u64::from(bound).to_le_bytes()), 1),
            false => Bounds::None,
        };
        Some(Statistics { nulls, bounds })
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
