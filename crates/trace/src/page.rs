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
pub(crate) fn put_words(words: &[u64], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + size_of_val(words), 0);
    for (bytes, word) in out[start..].chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
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
    let Some((&first, rest)) = values.split_first() else {
        put_zigzag(0, out);
        return;
    };
    put_zigzag(first, out);
    let mut deltas = [0_i64; BLOCK_VALUES];
    let (mut rest, mut previous) = (rest, values);
    while !rest.is_empty() {
        let count = rest.len().min(BLOCK_VALUES);
        let deltas = &mut deltas[..count];
        for ((delta, &value), &before) in deltas.iter_mut().zip(rest).zip(previous) {
            *delta = value.wrapping_sub(before);
        }
        put_delta_block(deltas, out);
        (rest, previous) = (&rest[count..], &previous[count..]);
    }
}

/// Appends a block: the least difference, a width for each miniblock, and what each difference is above the least.
fn put_delta_block(deltas: &[i64], out: &mut Vec<u8>) {
    let least = deltas.iter().copied().min().unwrap_or(0);
    put_zigzag(least, out);
    let widths = out.len();
    out.extend_from_slice(&[0; BLOCK_VALUES / MINIBLOCK_VALUES]);
    if deltas.iter().all(|&delta| delta == least) {
        return;
    }
    for (place, miniblock) in deltas.chunks(MINIBLOCK_VALUES).enumerate() {
        // A shorter last one is filled up with the least difference.
        let mut above = [0; MINIBLOCK_VALUES];
        let mut bits = 0;
        for (above, &delta) in above.iter_mut().zip(miniblock) {
            *above = delta.wrapping_sub(least).cast_unsigned();
            bits |= *above;
        }
        let width = width(bits);
        out[widths + place] = width as u8;
        if width > 0 {
            put_packed(&above, width, out);
        }
    }
}

/// Appends `width` bits of each value, the lowest first; the values are a multiple of eight.
fn put_packed(values: &[u64; MINIBLOCK_VALUES], width: u32, out: &mut Vec<u8>) {
    // A word more than the widest values fill: the last one may begin without a value.
    let mut words = [0_u64; MINIBLOCK_VALUES + 1];
    let mut bit = 0;
    for &value in values {
        let (word, shift) = (bit / u64::BITS, bit % u64::BITS);
        words[word as usize] |= value << shift;
        // In two steps, since a shift by the whole width is not defined.
        words[word as usize + 1] = value >> 1 >> (u64::BITS - 1 - shift);
        bit += width;
    }
    let start = out.len();
    put_words(&words[..bit.div_ceil(u64::BITS) as usize], out);
    out.truncate(start + bit as usize / 8);
}

/// Codes of a dictionary in the order of their rows: each with how often it comes in a row.
#[derive(Default)]
pub(crate) struct Codes {
    runs: Vec<(u32, u32)>,
    /// The run that goes on.
    latest: (u32, u32),
}

impl Codes {
    /// The most codes: eight of them fit into 128 bits.
    pub(crate) const MAX: usize = 1 << 16;

    /// Bytes held of a code that differs from the one before.
    pub(crate) const BYTES: usize = size_of::<(u32, u32)>();

    /// Adds a code.
    pub(crate) fn push(&mut self, code: u32) {
        if self.latest.0 == code {
            self.latest.1 += 1;
        } else {
            self.end_run();
            self.latest = (code, 1);
        }
    }

    /// Adds the latest code once more: the first one, if there was none.
    #[inline]
    pub(crate) fn again(&mut self) {
        self.latest.1 += 1;
    }

    fn end_run(&mut self) {
        if self.latest.1 > 0 {
            self.runs.push(self.latest);
            self.latest.1 = 0;
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.len() * Self::BYTES
    }

    /// Forgets which code was the latest.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            runs: std::mem::take(&mut self.runs),
            latest: (0, 0),
        };
        self.runs.clear();
    }

    /// Appends the codes as `RLE_DICTIONARY` (their width, then runs and groups of eight); the latest stays known.
    /// `entries` are in the dictionary.
    pub(crate) fn put(&mut self, entries: usize, out: &mut Vec<u8>) {
        self.end_run();
        let width = width(entries.saturating_sub(1) as u64).max(1);
        out.push(width as u8);
        let mut groups = Groups {
            width,
            packed: Vec::new(),
            group: [0; 8],
            len: 0,
        };
        for (code, mut count) in self.runs.drain(..) {
            while count > 0 && (groups.len > 0 || count < 8) {
                groups.push(code);
                count -= 1;
            }
            if count > 0 {
                groups.end(out);
                put_varint(u64::from(count) << 1, out);
                out.extend_from_slice(&code.to_le_bytes()[..width.div_ceil(8) as usize]);
            }
        }
        while groups.len > 0 {
            groups.push(0);
        }
        groups.end(out);
    }
}

/// Groups of eight codes, packed one behind the other.
struct Groups {
    width: u32,
    packed: Vec<u8>,
    group: [u32; 8],
    len: usize,
}

impl Groups {
    fn push(&mut self, code: u32) {
        self.group[self.len] = code;
        self.len += 1;
        if self.len == 8 {
            self.len = 0;
            let (width, codes) = (self.width, self.group.iter().rev());
            // A word is enough for most dictionaries, and much quicker.
            let bits = if width <= 8 {
                codes
                    .fold(0_u64, |bits, &code| bits << width | u64::from(code))
                    .into()
            } else {
                codes.fold(0_u128, |bits, &code| bits << width | u128::from(code))
            };
            self.packed
                .extend_from_slice(&bits.to_le_bytes()[..width as usize]);
        }
    }

    /// Appends what was packed.
    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.packed.is_empty() {
            let groups = self.packed.len() / self.width as usize;
            put_varint((groups as u64) << 1 | 1, out);
            out.append(&mut self.packed);
        }
    }
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
        put_words(&self.words, out);
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
            put_words(&words[..packed], out);
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
