//! The bytes of a Parquet page: definition levels, and values as differences or as codes of a
//! dictionary.
//!
//! What stands around them is in `part_file`. The `parquet` crate's column writers look at every
//! cell several times, which costs half of a capture's time on tables with a hundred columns
//! (`docs/decisions/0010`). The layouts are those of the Parquet format's `Encodings.md`.

/// Values in a block of `DELTA_BINARY_PACKED`, and in each of its four miniblocks.
pub(crate) const BLOCK_VALUES: usize = 128;
const MINIBLOCK_VALUES: usize = 32;

/// Appends an unsigned number in groups of seven bits, the lowest first (ULEB128).
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_zigzag(value: i64, out: &mut Vec<u8>) {
    put_varint((value << 1 ^ value >> 63).cast_unsigned(), out);
}

/// Appends numbers of 64 bits as they are.
pub(crate) fn put_words(words: impl ExactSizeIterator<Item = u64>, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + words.len() * size_of::<u64>(), 0);
    for (bytes, word) in out[start..].as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
}

/// Bits that a number takes.
fn width(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Appends what a page of `DELTA_BINARY_PACKED` begins with; blocks of the differences follow.
pub(crate) fn put_delta_head(values: usize, first: i64, out: &mut Vec<u8>) {
    put_varint(BLOCK_VALUES as u64, out);
    put_varint((BLOCK_VALUES / MINIBLOCK_VALUES) as u64, out);
    put_varint(values as u64, out);
    put_zigzag(first, out);
}

/// Appends a block of `count` differences: the least one, a width for each miniblock, and what each
/// difference is above the least.
pub(crate) fn put_delta_block(
    deltas: &mut [i64; BLOCK_VALUES],
    count: usize,
    least: i64,
    out: &mut Vec<u8>,
) {
    put_zigzag(least, out);
    let widths = out.len();
    out.extend_from_slice(&[0; BLOCK_VALUES / MINIBLOCK_VALUES]);
    // A shorter last miniblock is filled up with the least difference.
    deltas[count..].fill(least);
    let used = count.div_ceil(MINIBLOCK_VALUES);
    for (place, miniblock) in deltas.as_chunks().0[..used].iter().enumerate() {
        out[widths + place] = put_miniblock(miniblock, least, out);
    }
}

/// Appends what each of `deltas` is above `least`, and returns the bits that each takes.
fn put_miniblock(deltas: &[i64; MINIBLOCK_VALUES], least: i64, out: &mut Vec<u8>) -> u8 {
    let mut values = [0; MINIBLOCK_VALUES];
    let mut bits = 0;
    for (value, delta) in values.iter_mut().zip(deltas) {
        *value = delta.wrapping_sub(least).cast_unsigned();
        bits |= *value;
    }
    let width = width(bits);
    put_packed(width, &values, out);
    width as u8
}

/// Appends values of `width` bits each, one behind the other, the lowest bit first: in a way of its
/// own for each width, in which all places are known and nothing is asked.
fn put_packed(width: u32, values: &[u64; MINIBLOCK_VALUES], out: &mut Vec<u8>) {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => put_packed_as::<$width>(values, out),)*
                _ => {}
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
    by_width!(33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);
}

fn put_packed_as<const WIDTH: usize>(values: &[u64; MINIBLOCK_VALUES], out: &mut Vec<u8>) {
    const WORD: usize = u64::BITS as usize;
    let mut bytes = [0; MINIBLOCK_VALUES * size_of::<u64>()];
    for (group, values) in values.as_chunks::<8>().0.iter().enumerate() {
        let mut words = [0_u64; 8];
        for (place, value) in values.iter().enumerate() {
            let (word, bit) = (place * WIDTH / WORD, place * WIDTH % WORD);
            words[word] |= value << bit;
            if bit + WIDTH > WORD {
                words[word + 1] = value >> (WORD - bit);
            }
        }
        // The last of these words may be longer than the group: the next one begins in it.
        for (place, word) in words[..WIDTH.div_ceil(8)].iter().enumerate() {
            let start = group * WIDTH + place * size_of::<u64>();
            if let Some(bytes) = bytes[start..].first_chunk_mut() {
                *bytes = word.to_le_bytes();
            }
        }
    }
    out.extend_from_slice(&bytes[..MINIBLOCK_VALUES * WIDTH / 8]);
}

/// Codes of a dictionary in the order of their rows: each with how often it comes in a row.
#[derive(Default)]
pub(crate) struct Codes {
    /// A code in the lower half, and in the upper one how often it comes besides once.
    runs: Vec<u32>,
    /// Runs of the part's earlier pages.
    runs_before: usize,
    /// The run that goes on.
    code: u32,
    count: u32,
}

impl Codes {
    /// The most codes.
    pub(crate) const MAX: usize = 1 << 16;

    /// The most runs that a page should have.
    pub(crate) const RUNS_MAX: usize = 16_384;

    /// Runs that there is room for from the first one on; if they become more, all of a page's are
    /// moved once.
    const RUNS_MIN: usize = 512;

    /// How often a code comes in a run besides once, at most.
    const MORE_MAX: u32 = 0xffff;

    /// Adds a code.
    #[inline]
    pub(crate) fn push(&mut self, code: u32) {
        if self.code == code {
            self.count += 1;
        } else {
            self.end_run();
            (self.code, self.count) = (code, 1);
        }
    }

    /// Adds the latest code once more: the first one, if there was none.
    #[inline]
    pub(crate) fn again(&mut self) {
        self.count += 1;
    }

    /// Adds it this many times more.
    #[inline]
    pub(crate) fn again_times(&mut self, times: u32) {
        self.count += times;
    }

    #[inline]
    fn end_run(&mut self) {
        let more = self.count.wrapping_sub(1);
        if more <= Self::MORE_MAX && self.runs.len() < self.runs.capacity() {
            self.runs.push(self.code | more << 16);
            self.count = 0;
        } else {
            self.end_other_run();
        }
    }

    /// Ends a run that does not exist, is too long or has no room.
    #[cold]
    fn end_other_run(&mut self) {
        if self.runs.len() == self.runs.capacity() {
            let room = match self.runs.len() {
                0 => Self::RUNS_MIN,
                _ => Self::RUNS_MAX,
            };
            self.runs.reserve_exact(room);
        }
        while self.count > 0 {
            let more = (self.count - 1).min(Self::MORE_MAX);
            self.runs.push(self.code | more << 16);
            self.count -= more + 1;
        }
    }

    /// Runs that have ended.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Runs of the part that have ended.
    pub(crate) fn runs_in_all(&self) -> usize {
        self.runs_before + self.runs.len()
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.runs.as_slice())
    }

    /// Forgets what belongs to the part.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.runs_before = 0;
        (self.code, self.count) = (0, 0);
    }

    /// Appends the codes as `RLE_DICTIONARY` (their width, then runs and groups of eight); the
    /// latest stays known. `entries` are in the dictionary.
    pub(crate) fn put(&mut self, entries: usize, out: &mut Vec<u8>) {
        self.end_run();
        let width = width(entries.saturating_sub(1) as u64).max(1);
        out.push(width as u8);
        let mut runs = self.runs.iter();
        let mut next = runs.next().copied().map(code_and_count);
        while let Some((code, count)) = next {
            if count >= GROUP_CODES {
                put_varint((count as u64) << 1, out);
                out.extend_from_slice(&code.to_le_bytes()[..width.div_ceil(8) as usize]);
                next = runs.next().copied().map(code_and_count);
            } else {
                next = put_groups(width, (code, count), &mut runs, out);
            }
        }
        self.runs_before += self.runs.len();
        self.runs.clear();
    }
}

/// Appends runs of codes, each with its length, as `RLE_DICTIONARY`. `entries` are in the
/// dictionary.
pub(crate) fn put_runs(entries: usize, runs: &[(u32, usize)], out: &mut Vec<u8>) {
    let width = width(entries.saturating_sub(1) as u64).max(1);
    out.push(width as u8);
    for (code, count) in runs {
        put_varint((*count as u64) << 1, out);
        out.extend_from_slice(&code.to_le_bytes()[..width.div_ceil(8) as usize]);
    }
}

/// Codes in a group, which takes as many bytes as a code has bits.
const GROUP_CODES: usize = 8;

/// A code and how often it comes.
fn code_and_count(run: u32) -> (u16, usize) {
    (run as u16, (run >> 16) as usize + 1)
}

/// Appends groups of eight codes until a long run can stand alone; returns what is left of that
/// run.
fn put_groups(
    width: u32,
    first: (u16, usize),
    runs: &mut std::slice::Iter<'_, u32>,
    out: &mut Vec<u8>,
) -> Option<(u16, usize)> {
    let start = out.len();
    // Bytes for the number of groups, which is not known yet: not more than the runs.
    let header = if runs.len() < (1 << 13) - 1 { 2 } else { 3 };
    out.extend_from_slice(&[0; 3][..header]);
    // The open group, and room behind it, since each run is written as a whole group.
    let (mut codes, mut used, mut groups) = ([0; 2 * GROUP_CODES], 0, 0);
    let mut left = Some(first);
    while let Some((code, count)) = left {
        codes[used..][..GROUP_CODES].copy_from_slice(&[code; GROUP_CODES]);
        if count < GROUP_CODES {
            used += count;
            left = runs.next().copied().map(code_and_count);
        } else if used > 0 {
            left = Some((code, count - (GROUP_CODES - used)));
            used = GROUP_CODES;
        } else {
            break;
        }
        if used >= GROUP_CODES {
            put_group(width, &codes, out);
            let (group, next) = codes.split_at_mut(GROUP_CODES);
            group.copy_from_slice(next);
            (used, groups) = (used - GROUP_CODES, groups + 1);
        }
    }
    if used > 0 {
        codes[used..].fill(0);
        put_group(width, &codes, out);
        groups += 1;
    }
    let (number, last) = (groups << 1 | 1, header - 1);
    for (place, byte) in out[start..][..header].iter_mut().enumerate() {
        // A varint may be longer than its number needs.
        *byte = (number >> (7 * place)) as u8 & 0x7f | u8::from(place < last) << 7;
    }
    left
}

/// Appends the first codes as a group. Four of them fit in a word.
fn put_group(width: u32, codes: &[u16; 2 * GROUP_CODES], out: &mut Vec<u8>) {
    let at = |place: usize| u64::from(codes[place]) << (place as u32 % 4 * width);
    let low = at(0) | at(1) | at(2) | at(3);
    let high = at(4) | at(5) | at(6) | at(7);
    let bits = u128::from(low) | u128::from(high) << (4 * width);
    let end = out.len() + width as usize;
    out.extend_from_slice(&bits.to_le_bytes());
    out.truncate(end);
}

/// Bits one behind the other, the lowest of a word first. Equal ones at the beginning take no
/// memory: most columns of a wide table have no others.
#[derive(Default)]
pub(crate) struct Bits {
    /// Words of only zeros or only ones, which come before `words`: how many, and what they are.
    lead: usize,
    lead_word: u64,
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// Bits in a word.
    const WORD: usize = u64::BITS as usize;

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds the lowest `len` bits of a word, whose others are 0.
    #[inline]
    pub(crate) fn push(&mut self, word: u64, len: usize) {
        let is_lead = self.len == self.lead * Self::WORD && len == Self::WORD;
        if is_lead && matches!(word, 0 | u64::MAX) && (self.lead == 0 || word == self.lead_word) {
            self.lead_word = word;
            self.lead += 1;
        } else {
            self.push_word(word, len);
        }
        self.len += len;
    }

    fn push_word(&mut self, word: u64, len: usize) {
        let used = self.len % Self::WORD;
        match self.words.last_mut() {
            Some(last) if used > 0 => {
                *last |= word << used;
                if used + len > Self::WORD {
                    self.words.push(word >> (Self::WORD - used));
                }
            }
            _ if len > 0 => self.words.push(word),
            _ => {}
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.words.as_slice())
    }

    /// Appends the bits, packed, and is empty.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>) {
        let end = out.len() + self.len.div_ceil(8);
        out.resize(
            out.len() + self.lead * size_of::<u64>(),
            self.lead_word as u8,
        );
        put_words(self.words.iter().copied(), out);
        out.truncate(end);
        self.clear();
    }

    fn clear(&mut self) {
        self.words.clear();
        (self.lead, self.len) = (0, 0);
    }
}

/// Words of equal levels from which on a run is written as one.
const RUN_WORDS_MIN: usize = 4;

/// Appends definition levels, 1 for a value and 0 for null (their length, then runs and groups of
/// eight); `levels` is empty afterwards. Returns how many are 1.
pub(crate) fn put_levels(levels: &mut Bits, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let lead_rows = levels.lead * Bits::WORD;
    if lead_rows > 0 {
        put_run(lead_rows, levels.lead_word, out);
    }
    let mut words = levels.words.as_slice();
    let mut left = levels.len - lead_rows;
    while left > 0 {
        let equal = equal_words(words);
        let taken = if equal >= RUN_WORDS_MIN {
            put_run(left.min(equal * Bits::WORD), words[0], out);
            equal
        } else {
            let ends = |at: &usize| equal_words(&words[*at..]) >= RUN_WORDS_MIN;
            let packed = (1..words.len()).find(ends).unwrap_or(words.len());
            let groups = left.min(packed * Bits::WORD).div_ceil(8);
            put_varint((groups as u64) << 1 | 1, out);
            let end = out.len() + groups;
            put_words(words[..packed].iter().copied(), out);
            out.truncate(end);
            packed
        };
        left = left.saturating_sub(taken * Bits::WORD);
        words = &words[taken..];
    }
    let ones = levels.words.iter().map(|word| word.count_ones() as usize);
    let count = ones.sum::<usize>() + lead_rows * (levels.lead_word & 1) as usize;
    levels.clear();
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    count
}

/// Appends a run of equal levels.
fn put_run(rows: usize, word: u64, out: &mut Vec<u8>) {
    put_varint((rows as u64) << 1, out);
    out.push((word & 1) as u8);
}

/// How many words at the beginning are all 0, or all 1.
fn equal_words(words: &[u64]) -> usize {
    match words.first() {
        Some(&first @ (0 | u64::MAX)) => words.iter().take_while(|&&word| word == first).count(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_added_wherever_the_last_ones_ended() {
        for lens in [
            [64, 64, 3],
            [1, 64, 64],
            [63, 2, 64],
            [40, 40, 40],
            [64, 0, 64],
        ] {
            let (mut bits, mut expected) = (Bits::default(), Vec::new());
            for (len, word) in lens.into_iter().zip([0, 0x9e37_79b9_7f4a_7c15, u64::MAX]) {
                let word = if len == 64 {
                    word
                } else {
                    word & ((1 << len) - 1)
                };
                bits.push(word, len);
                expected.extend((0..len).map(|at| word >> at & 1));
            }
            let lead = std::iter::repeat_n(bits.lead_word, bits.lead);
            let words: Vec<u64> = lead.chain(bits.words.iter().copied()).collect();
            let there = (0..bits.len()).map(|at| words[at / 64] >> (at % 64) & 1);
            assert_eq!(there.collect::<Vec<_>>(), expected, "{lens:?}");
        }
    }
}
