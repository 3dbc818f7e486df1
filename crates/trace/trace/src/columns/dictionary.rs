//! Integers and texts of an open page as codes of a dictionary, or as they are once the dictionary
//! is full.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use lineside_rows::escape;

use super::integers::{Range, push_to_page};
use super::{PAGE_BYTES, ROWS_MAX, Repeated, Values};
use crate::page::Codes;
use crate::part_file::{Bounds, PageEncoding, Statistics};
use crate::read;

/// Bytes of entries that end a dictionary: later pages hold values as they are.
const DICTIONARY_BYTES_MAX: usize = 1 << 20;

/// Longer texts have no place in statistics.
const STATISTICS_BYTES_MAX: usize = 64;

/// Whether a dictionary of `entries` entries and `bytes` bytes is worth another page, and has room
/// for it and for the rows until the next check of the pages.
fn goes_on(entries: usize, bytes: usize, codes: &Codes) -> bool {
    let page = Codes::RUNS_MAX + ROWS_MAX;
    let has_room = entries + page <= Codes::MAX && bytes < DICTIONARY_BYTES_MAX;
    has_room && !is_vain(entries, codes)
}

/// Entries from which on a dictionary has to pay.
const PAYS_FROM: usize = 2048;

/// Whether most values are the first of their kind. Then a dictionary takes more than the values as
/// they are, and each of them a search in memory that is not near.
fn is_vain(entries: usize, codes: &Codes) -> bool {
    entries >= PAYS_FROM && entries > codes.runs_in_all() / 2
}

/// Entries that a dictionary finds without a search: most columns have fewer values.
const KNOWN: usize = 64;

/// No code.
const NONE: u32 = u32::MAX;

/// A place among those entries.
fn place_of(bits: u64) -> usize {
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - KNOWN.ilog2())) as usize
}

/// Integers of `WIDTH` bytes as codes of a dictionary, or as they are once it is full.
pub(crate) struct Numbers<const WIDTH: usize> {
    codes: Codes,
    latest: Option<i64>,
    entries: Vec<i64>,
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Entries that need no search: each at the place that its bits give.
    known: Vec<(i64, u32)>,
    plain: Vec<i64>,
    is_plain: bool,
    range: Range,
}

impl<const WIDTH: usize> Default for Numbers<WIDTH> {
    fn default() -> Self {
        Self {
            codes: Codes::default(),
            latest: None,
            entries: Vec::new(),
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            known: Vec::new(),
            plain: Vec::new(),
            is_plain: false,
            range: Range::default(),
        }
    }
}

impl<const WIDTH: usize> Numbers<WIDTH> {
    #[inline(always)]
    pub(super) fn push(&mut self, value: i64) {
        if self.latest == Some(value) {
            self.codes.again();
        } else {
            self.push_other(value);
        }
    }

    #[inline(never)]
    fn push_other(&mut self, value: i64) {
        if self.is_plain {
            return push_to_page(&mut self.plain, value);
        }
        match self.known.get(place_of(value.cast_unsigned())) {
            Some(&(known, code)) if known == value && code != NONE => {
                self.latest = Some(value);
                self.codes.push(code);
            }
            _ => self.push_unknown(value),
        }
    }

    #[inline(never)]
    fn push_unknown(&mut self, value: i64) {
        let code = self.code(value);
        self.known.resize(KNOWN, (0, NONE));
        self.known[place_of(value.cast_unsigned())] = (value, code);
        self.latest = Some(value);
        self.codes.push(code);
    }

    fn code(&mut self, value: i64) -> u32 {
        let (entries, hasher) = (&mut self.entries, &self.hasher);
        let hash = hasher.hash_one(value);
        let known = self
            .places
            .find(hash, |&code| entries[code as usize] == value);
        known.copied().unwrap_or_else(|| {
            let code = entries.len() as u32;
            entries.push(value);
            let rehash = |&code: &u32| hasher.hash_one(entries[code as usize]);
            self.places.insert_unique(hash, code, rehash);
            code
        })
    }

    fn put_all(values: &[i64], out: &mut Vec<u8>) {
        // The lower bytes come first: the first four of them are the number in 32 bits.
        for value in values {
            out.extend_from_slice(&value.to_le_bytes()[..WIDTH]);
        }
    }
}

impl<const WIDTH: usize> Values for Numbers<WIDTH> {
    fn bytes(&self) -> usize {
        self.codes.bytes() + self.plain.len() * WIDTH
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.codes.runs() >= Codes::RUNS_MAX
            || self.plain.len() * WIDTH >= PAGE_BYTES
            || !self.is_plain && is_vain(self.entries.len(), &self.codes)
    }

    fn put(&mut self, out: &mut Vec<u8>) -> PageEncoding {
        if self.is_plain {
            Self::put_all(&self.plain, out);
            self.range.extend(&self.plain);
            self.plain.clear();
            return PageEncoding::PLAIN;
        }
        self.is_plain = !goes_on(self.entries.len(), self.dictionary_bytes(), &self.codes);
        self.codes.put(self.entries.len(), out);
        if self.is_plain {
            self.latest = None;
        }
        PageEncoding::RLE_DICTIONARY
    }

    fn put_dictionary(&self, out: &mut Vec<u8>) -> usize {
        Self::put_all(&self.entries, out);
        self.entries.len()
    }

    fn dictionary_bytes(&self) -> usize {
        self.entries.len() * WIDTH
    }

    fn statistics(&self, nulls: u64) -> Option<Statistics<'_>> {
        let mut range = self.range;
        range.extend(&self.entries);
        Some(range.statistics::<WIDTH>(nulls))
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.places.clear();
        self.known.clear();
        self.codes.clear();
        self.latest = None;
        self.is_plain = false;
        self.range = Range::default();
    }
}

impl<const WIDTH: usize> Repeated for Numbers<WIDTH> {
    #[inline]
    fn again(&mut self, times: u32) {
        match self.plain.last().filter(|_| self.is_plain) {
            None => self.codes.again_times(times),
            Some(&last) => (0..times).for_each(|_| push_to_page(&mut self.plain, last)),
        }
    }
}

/// Texts or bytes as codes of a dictionary, or as they are once it is full.
#[derive(Default)]
pub(crate) struct Texts {
    codes: Codes,
    /// The entries as they stand in a page: each after its length.
    entries: Vec<u8>,
    /// Where the bytes of each entry begin, after its length.
    starts: Vec<usize>,
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The constant that came last, if the last one was a constant: address and length.
    latest: Option<(usize, usize)>,
    /// The address that came last.
    latest_address: Option<IpAddr>,
    /// The entry of the text or the bytes that came last and were not escaped.
    latest_text: Option<u32>,
    /// Constants that need no look at their text: address, length and code, at the places that the
    /// addresses give.
    known: Vec<((usize, usize), u32)>,
    /// The codes of the addresses that came lately.
    addresses: VecDeque<(IpAddr, u32)>,
    /// Bytes of entries when the open page began.
    entries_before: usize,
    plain: Vec<u8>,
    /// Bytes of the latest one there.
    latest_len: usize,
    is_plain: bool,
    scratch: Vec<u8>,
    refilled: Refilled,
}

/// The dictionary of a part that is read, and the codes that its entries have here.
#[derive(Default)]
struct Refilled {
    texts: Arc<read::Texts>,
    /// [`NONE`] of an entry that has not come yet.
    codes: Vec<u32>,
}

impl Texts {
    /// Addresses that are remembered: those of a handful of conversations that alternate.
    const ADDRESSES: usize = 8;

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.is_plain {
            return self.push_plain(bytes);
        }
        let code = self.repeated(bytes).unwrap_or_else(|| self.code(bytes));
        self.latest_text = Some(code);
        self.push_code(code);
    }

    /// The entry of the latest text, if that is `bytes`: most repeat it, and need no search then.
    #[inline]
    fn repeated(&self, bytes: &[u8]) -> Option<u32> {
        let is_same = |&code: &u32| entry(&self.entries, &self.starts, code as usize) == bytes;
        self.latest_text.filter(is_same)
    }

    /// Adds texts that were read, by their places.
    pub(super) fn refill(&mut self, places: impl Iterator<Item = u32>, texts: &Arc<read::Texts>) {
        if !Arc::ptr_eq(&self.refilled.texts, texts) {
            self.refilled.texts = Arc::clone(texts);
            self.refilled.codes.clear();
        }
        for place in places {
            let place = place as usize;
            match self.refilled.codes.get(place) {
                Some(&code) if code != NONE && !self.is_plain => self.push_code(code),
                _ => self.refill_new(place, texts),
            }
        }
    }

    fn refill_new(&mut self, place: usize, texts: &read::Texts) {
        let Some(bytes) = texts.bytes(place) else {
            return;
        };
        if self.is_plain {
            return self.push_plain(bytes);
        }
        let code = self.code(bytes);
        if self.refilled.codes.len() <= place {
            self.refilled.codes.resize(texts.len(), NONE);
        }
        self.refilled.codes[place] = code;
        self.push_code(code);
    }

    fn push_plain(&mut self, bytes: &[u8]) {
        self.latest_len = LENGTH_BYTES + bytes.len();
        put_bytes(bytes, &mut self.plain);
    }

    fn push_code(&mut self, code: u32) {
        (self.latest, self.latest_address) = (None, None);
        self.codes.push(code);
    }

    /// Adds a constant of the program: the same address is the same text.
    #[inline(always)]
    pub(super) fn push_constant(&mut self, text: &'static str) {
        if self.latest == Some((text.as_ptr().addr(), text.len())) {
            self.codes.again();
        } else {
            self.push_other_constant(text);
        }
    }

    #[inline(never)]
    fn push_other_constant(&mut self, text: &'static str) {
        let constant = (text.as_ptr().addr(), text.len());
        match self.known.get(place_of(constant.0 as u64)) {
            Some(&(known, code)) if known == constant && code != NONE => {
                self.latest = Some(constant);
                self.codes.push(code);
            }
            _ => self.push_unknown_constant(text),
        }
    }

    #[inline(never)]
    fn push_unknown_constant(&mut self, text: &'static str) {
        if self.is_plain {
            return self.push_plain(text.as_bytes());
        }
        let constant = (text.as_ptr().addr(), text.len());
        let code = self.code(text.as_bytes());
        self.known.resize(KNOWN, ((0, 0), NONE));
        self.known[place_of(constant.0 as u64)] = (constant, code);
        self.latest = Some(constant);
        self.codes.push(code);
    }

    /// Adds an address: IPv4 dotted, IPv6 by RFC 5952, which is how Rust writes them.
    #[inline]
    pub(super) fn push_address(&mut self, address: IpAddr) {
        if self.latest_address == Some(address) {
            self.codes.again();
        } else {
            self.push_other_address(address);
        }
    }

    #[inline(never)]
    fn push_other_address(&mut self, address: IpAddr) {
        let known = self.addresses.iter().find(|(known, _)| *known == address);
        if let Some(&(_, code)) = known {
            self.latest_address = Some(address);
            return self.codes.push(code);
        }
        let text = address.to_string();
        if self.is_plain {
            return self.push_plain(text.as_bytes());
        }
        let code = self.code(text.as_bytes());
        self.codes.push(code);
        self.latest_address = Some(address);
        self.addresses.truncate(Self::ADDRESSES - 1);
        self.addresses.push_front((address, code));
    }

    #[cold]
    pub(super) fn push_number(&mut self, number: i64) {
        self.push(number.to_string().as_bytes());
    }

    /// Adds bytes that need not be UTF-8.
    pub(super) fn push_escaped(&mut self, bytes: &[u8]) {
        if let Some(code) = self.repeated(bytes).filter(|_| !self.is_plain) {
            return self.push_code(code);
        }
        let is_literal = !bytes.contains(&b'\\');
        // An entry without a backslash is the text of the same bytes: they were looked at when it
        // came.
        if is_literal
            && !self.is_plain
            && let Some(code) = self.find(self.hasher.hash_one(bytes), bytes)
        {
            self.latest_text = Some(code);
            return self.push_code(code);
        }
        if is_literal && std::str::from_utf8(bytes).is_ok() {
            return self.push(bytes);
        }
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        escape(bytes, &mut text);
        self.push(&text);
        self.latest_text = None;
        self.scratch = text;
    }

    /// Bytes of texts that the open page brought.
    fn new_bytes(&self) -> usize {
        self.plain.len() + self.entries.len() - self.entries_before
    }

    fn find(&self, hash: u64, bytes: &[u8]) -> Option<u32> {
        let is_same = |&code: &u32| entry(&self.entries, &self.starts, code as usize) == bytes;
        self.places.find(hash, is_same).copied()
    }

    fn code(&mut self, bytes: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(bytes);
        self.find(hash, bytes).unwrap_or_else(|| {
            let (entries, starts, hasher) = (&mut self.entries, &mut self.starts, &self.hasher);
            let code = starts.len() as u32;
            put_bytes(bytes, entries);
            starts.push(entries.len() - bytes.len());
            let rehash = |&code: &u32| hasher.hash_one(entry(entries, starts, code as usize));
            self.places.insert_unique(hash, code, rehash);
            code
        })
    }
}

/// Bytes of an entry's length in a page.
const LENGTH_BYTES: usize = size_of::<u32>();

fn entry<'a>(entries: &'a [u8], starts: &[usize], code: usize) -> &'a [u8] {
    let end = starts
        .get(code + 1)
        .map_or(entries.len(), |next| next - LENGTH_BYTES);
    &entries[starts[code]..end]
}

/// Appends bytes as they stand in a page, after their length.
fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

impl Repeated for Texts {
    #[inline]
    fn again(&mut self, times: u32) {
        if !self.is_plain {
            return self.codes.again_times(times);
        }
        for _ in 0..times {
            self.plain
                .extend_from_within(self.plain.len() - self.latest_len..);
        }
    }
}

impl Values for Texts {
    fn bytes(&self) -> usize {
        self.codes.bytes() + self.new_bytes()
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.codes.runs() >= Codes::RUNS_MAX
            || self.new_bytes() >= PAGE_BYTES
            || !self.is_plain && is_vain(self.starts.len(), &self.codes)
    }

    fn put(&mut self, out: &mut Vec<u8>) -> PageEncoding {
        if self.is_plain {
            out.append(&mut self.plain);
            return PageEncoding::PLAIN;
        }
        self.is_plain = !goes_on(self.starts.len(), self.entries.len(), &self.codes);
        self.codes.put(self.starts.len(), out);
        self.entries_before = self.entries.len();
        if self.is_plain {
            self.addresses.clear();
            self.known.clear();
            (self.latest, self.latest_address) = (None, None);
        }
        PageEncoding::RLE_DICTIONARY
    }

    fn put_dictionary(&self, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(&self.entries);
        self.starts.len()
    }

    fn dictionary_bytes(&self) -> usize {
        self.entries.len()
    }

    fn statistics(&self, nulls: u64) -> Option<Statistics<'_>> {
        let texts = || (0..self.starts.len()).map(|code| entry(&self.entries, &self.starts, code));
        let known = !self.is_plain && texts().all(|text| text.len() <= STATISTICS_BYTES_MAX);
        let bounds = texts().min().zip(texts().max()).filter(|_| known);
        let bounds = bounds.map_or(Bounds::None, |(least, greatest)| {
            Bounds::Text([least, greatest])
        });
        Some(Statistics { nulls, bounds })
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.starts.clear();
        self.places.clear();
        self.codes.clear();
        (self.latest, self.latest_address, self.latest_text) = (None, None, None);
        self.known.clear();
        self.addresses.clear();
        self.entries_before = 0;
        self.is_plain = false;
        self.refilled = Refilled::default();
    }
}
