//! The bytes of a Parquet page: definition levels, and values as differences or as codes of a dictionary.
//!
//! The `parquet` crate writes the file around them. Its own column writers look at every cell several times, which
//! costs half of a capture's time on tables with a hundred columns (`docs/decisions/0010`).
//! The layouts are those of the Parquet format's `Encodings.md`.

/// Values in a block of `DELTA_BINARY_PACKED`, and in each of its four miniblocks.
const BLOCK_VALUES: usize = 128;
const MINIBLOCK_VALUES: usize = 32;

/// Appends an unsigned number in groups of seven bits, the lowest first (ULEB128).
fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_zigzag(value: i64, out: &mut Vec<u8>) {
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

/// Appends `values` as `DELTA_BINARY_PACKED`.
pub(crate) fn put_delta(values: &[i64], out: &mut Vec<u8>) {
    put_varint(BLOCK_VALUES as u64, out);
    put_varint((BLOCK_VALUES / MINIBLOCK_VALUES) as u64, out);
    put_varint(values.len() as u64, out);
    let Some(&first) = values.first() else {
        put_zigzag(0, out);
        return;
    };
    put_zigzag(first, out);
    let mut deltas = [0_i64; BLOCK_VALUES];
    let (befores, afters) = (
        values.chunks(BLOCK_VALUES),
        values[1..].chunks(BLOCK_VALUES),
    );
    for (before, after) in befores.zip(afters) {
        for ((delta, &before), &after) in deltas.iter_mut().zip(before).zip(after) {
            *delta = after.wrapping_sub(before);
        }
        put_delta_block(&mut deltas, after.len(), out);
    }
}

/// Appends a block: the least difference, a width for each miniblock, and what each difference is above the least.
fn put_delta_block(deltas: &mut [i64; BLOCK_VALUES], count: usize, out: &mut Vec<u8>) {
    let least = deltas[..count].iter().copied().min().unwrap_or(0);
    put_zigzag(least, out);
    let widths = out.len();
    out.extend_from_slice(&[0; BLOCK_VALUES / MINIBLOCK_VALUES]);
    // A shorter last miniblock is filled up with the least difference.
    deltas[count..].fill(least);
    let (miniblocks, _) = deltas.as_chunks_mut::<MINIBLOCK_VALUES>();
    let used = count.div_ceil(MINIBLOCK_VALUES);
    for (place, miniblock) in miniblocks[..used].iter_mut().enumerate() {
        let mut bits = 0;
        for delta in &mut *miniblock {
            *delta = delta.wrapping_sub(least);
            bits |= *delta;
        }
        let width = width(bits.cast_unsigned());
        out[widths + place] = width as u8;
        put_packed(miniblock, width, out);
    }
}

/// Appends `width` bits of each value.
fn put_packed(values: &[i64; MINIBLOCK_VALUES], width: u32, out: &mut Vec<u8>) {
    let values = values.map(i64::cast_unsigned);
    if width > u64::BITS / 2 {
        let mut packed = Packed::new(width, out);
        values.iter().for_each(|&value| packed.push(value));
        packed.end();
    } else if width > 0 {
        // Two at a time: all but the widest are so narrow.
        let mut packed = Packed::new(2 * width, out);
        for [one, other] in values.as_chunks().0 {
            packed.push(one | other << width);
        }
        packed.end();
    }
}

/// Values of `width` bits each, one behind the other, the lowest bit first.
struct Packed<'a> {
    out: &'a mut Vec<u8>,
    width: u32,
    /// The bits that are not appended yet, and how many they are: fewer than 64.
    bits: u64,
    len: u32,
}

impl<'a> Packed<'a> {
    fn new(width: u32, out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            width,
            bits: 0,
            len: 0,
        }
    }

    #[inline]
    fn push(&mut self, value: u64) {
        self.bits |= value << self.len;
        self.len += self.width;
        if self.len >= u64::BITS {
            self.out.extend_from_slice(&self.bits.to_le_bytes());
            self.len -= u64::BITS;
            // What did not fit. In two steps, since a shift by the whole width is not defined.
            self.bits = value >> 1 >> (self.width - 1 - self.len);
        }
    }

    /// Appends what is left: whole bytes, if the values are a multiple of eight.
    fn end(self) {
        let bytes = self.bits.to_le_bytes();
        self.out.extend_from_slice(&bytes[..self.len as usize / 8]);
    }
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

    /// Runs that there is room for from the first one on, so that few are moved as they become more.
    const RUNS_MIN: usize = 512;

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

    fn end_run(&mut self) {
        while self.count > 0 {
            let count = self.count.min(1 << 16);
            if self.runs.capacity() == 0 {
                self.runs.reserve(Self::RUNS_MIN);
            }
            self.runs.push(self.code | (count - 1) << 16);
            self.count -= count;
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

    /// Appends the codes as `RLE_DICTIONARY` (their width, then runs and groups of eight); the latest stays known.
    /// `entries` are in the dictionary.
    pub(crate) fn put(&mut self, entries: usize, out: &mut Vec<u8>) {
        self.end_run();
        let width = width(entries.saturating_sub(1) as u64).max(1);
        out.push(width as u8);
        let mut runs = self.runs.iter().map(|run| (run & 0xffff, (run >> 16) + 1));
        let mut next = runs.next();
        while let Some((code, count)) = next {
            if count >= 8 {
                put_varint(u64::from(count) << 1, out);
                out.extend_from_slice(&code.to_le_bytes()[..width.div_ceil(8) as usize]);
                next = runs.next();
            } else {
                next = put_groups(width, (code, count), &mut runs, out);
            }
        }
        self.runs_before += self.runs.len();
        self.runs.clear();
    }
}

/// Most groups in a row: their number takes two bytes, which are there before it is known.
const GROUPS_MAX: usize = (1 << 13) - 1;

/// Appends groups of eight codes until a long run can stand alone; returns what is left of that run.
fn put_groups(
    width: u32,
    first: (u32, u32),
    runs: &mut impl Iterator<Item = (u32, u32)>,
    out: &mut Vec<u8>,
) -> Option<(u32, u32)> {
    let header = out.len();
    out.extend_from_slice(&[0; 2]);
    let mut packed = Packed::new(width, out);
    let mut codes = 0;
    let mut left = Some(first);
    while let Some((code, mut count)) = left {
        while count > 0 && (codes % 8 > 0 || count < 8 && codes < 8 * GROUPS_MAX) {
            packed.push(u64::from(code));
            codes += 1;
            count -= 1;
        }
        if count > 0 {
            left = Some((code, count));
            break;
        }
        left = runs.next();
    }
    while codes % 8 > 0 {
        packed.push(0);
        codes += 1;
    }
    packed.end();
    // As a varint of two bytes, whatever the number.
    let groups = (codes / 8) << 1 | 1;
    out[header..header + 2].copy_from_slice(&[groups as u8 | 0x80, (groups >> 7) as u8]);
    left
}

/// Bits one behind the other, the lowest of a word first. Equal ones at the beginning take no memory: most columns
/// of a wide table have no others.
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

/// Appends definition levels, 1 for a value and 0 for null (their length, then runs and groups of eight); `levels` is
/// empty afterwards. Returns how many are 1.
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
