//! The columns of an open part: values become pages while rows come.
//!
//! Most cells of a wide table are null or what the row before had, so these are the cheap cases: a push of null does
//! nothing, a repeated value makes the latest run longer, and which rows have a value is a bit of a word that is put
//! away every [`ROWS_MAX`] rows. A column ends its pages by its own size: one that never changes has one page, however
//! many rows the part has.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::net::IpAddr;

use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashTable};
use parquet::basic::{Compression, Encoding as PageEncoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use crate::cell::{Address, Blob, Cell, Label, Text, Word, escape};
use crate::page::{
    BLOCK_VALUES, Bits, Codes, put_delta_block, put_delta_head, put_levels, put_words,
};
use crate::tables::Row;

/// Bytes of values that end a page: what a column keeps in memory before it is compressed.
pub(crate) const PAGE_BYTES: usize = 64 << 10;

/// A first page of fewer bytes leaves its chunk uncompressed: zstd would cost more than it saves.
const COMPRESSED_MIN: usize = 256;

/// Bytes of entries that end a dictionary: later pages hold values as they are.
const DICTIONARY_BYTES_MAX: usize = 1 << 20;

/// Longer texts have no place in statistics.
const STATISTICS_BYTES_MAX: usize = 64;

/// The open part of one table.
pub(crate) trait Columns: Default {
    /// The row of that table.
    type Row: Row;

    /// Adds a row. After each [`ROWS_MAX`] of a part, [`end_full_pages`](Self::end_full_pages) is to follow.
    fn push(&mut self, row: &Self::Row);

    /// Counts rows whose columns were filled directly.
    fn advance(&mut self, rows: usize);

    /// Rows in the part.
    fn rows(&self) -> usize;

    /// Bytes held: values of open pages, dictionaries, ended pages.
    fn bytes(&self) -> usize;

    /// Ends the pages that have enough values. If there were some, the bytes of all ended pages and of dictionaries.
    fn end_full_pages(&mut self, zstd: &mut Zstd) -> Result<Option<usize>, ParquetError>;

    /// Hands over the chunks of all columns in order, and is empty.
    fn end(
        &mut self,
        descriptors: &[ColumnDescPtr],
        zstd: &mut Zstd,
        each: impl FnMut(Bytes, ColumnCloseResult) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError>;
}

/// Names of encodings, as [`crate::Encoding`], that choose a column's type.
pub(crate) struct Delta;
pub(crate) struct Dictionary;
pub(crate) struct Plain;
pub(crate) struct Runs;

/// A cell that has a column in encoding `E`.
pub(crate) trait Encode<E>: Cell {
    /// Its column.
    type Column: Chunked;

    /// Adds a value, whose row is `bit` of the open word.
    fn push(&self, column: &mut Self::Column, bit: u64);
}

/// Compresses pages.
pub(crate) struct Zstd {
    context: Compressor<'static>,
    level: i32,
    /// What was compressed last, and what became of it: a column often has the page of the one before.
    latest: Vec<u8>,
    compressed: Vec<u8>,
    /// Memory of an earlier page, for the next one.
    page: Vec<u8>,
}

impl Zstd {
    const LEVEL: i32 = 1;

    /// For values as they are: what zstd finds in them is what came before, at about the same size as with
    /// [`LEVEL`](Self::LEVEL) in half the time (`docs/decisions/0010`).
    const FAST: i32 = -3;

    pub(crate) fn new() -> Self {
        Self {
            context: Compressor::new(Self::LEVEL).expect("zstd has this level"),
            level: Self::LEVEL,
            latest: Vec::new(),
            compressed: Vec::new(),
            page: Vec::new(),
        }
    }

    /// Whether `sample` becomes shorter by an eighth.
    fn shortens(&mut self, sample: &[u8], level: i32) -> Result<bool, ParquetError> {
        self.run(sample, level)?;
        // The page is often the same.
        self.latest.clear();
        self.latest.extend_from_slice(sample);
        Ok(self.compressed.len() < sample.len() - sample.len() / 8)
    }

    /// A page, compressed.
    fn compress(&mut self, page: Vec<u8>, level: i32) -> Result<Vec<u8>, ParquetError> {
        if level != self.level || page != self.latest {
            self.run(&page, level)?;
        }
        self.page = std::mem::replace(&mut self.latest, page);
        Ok(std::mem::take(&mut self.compressed))
    }

    fn run(&mut self, bytes: &[u8], level: i32) -> Result<(), ParquetError> {
        let failed = |error: std::io::Error| ParquetError::General(error.to_string());
        if level != self.level {
            self.context.set_compression_level(level).map_err(failed)?;
            self.level = level;
        }
        self.compressed.clear();
        let bound = zstd::zstd_safe::compress_bound(bytes.len());
        self.compressed.reserve(bound);
        let written = self.context.compress_to_buffer(bytes, &mut self.compressed);
        written.map(drop).map_err(failed)
    }
}

/// A column whose pages can be ended.
pub(crate) trait Chunked: Default {
    /// Bytes held.
    fn bytes(&self) -> usize;

    /// Bytes of ended pages and of the dictionary.
    fn ended_bytes(&self) -> usize;

    /// Puts the open word away and tells whether the open page is full. The part has `rows` rows.
    fn end_word(&mut self, rows: usize) -> bool;

    /// Ends the open page.
    fn end_page(&mut self, rows: usize, zstd: &mut Zstd) -> Result<(), ParquetError>;

    /// The column of a part of `rows` rows, which is empty afterwards.
    fn end(
        &mut self,
        rows: usize,
        descriptor: &ColumnDescPtr,
        zstd: &mut Zstd,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError>;
}

/// A kind of values of an open page.
pub(crate) trait Values: Default {
    /// How hard zstd tries.
    const LEVEL: i32 = Zstd::LEVEL;

    /// Bytes of a first page that tell whether zstd saves enough.
    const SAMPLE_BYTES: usize = usize::MAX;

    /// Takes the open word of a column that cannot be null.
    fn take_word(&mut self, word: u64, rows: usize) {
        let _ = (word, rows);
    }

    /// Bytes held by the values of the open page.
    fn bytes(&self) -> usize;

    /// Whether the open page has enough values.
    #[inline]
    fn is_full(&self) -> bool {
        self.bytes() >= PAGE_BYTES
    }

    /// Appends its values and is empty.
    fn put(&mut self, out: &mut Vec<u8>) -> PageEncoding;

    /// What the pages refer to: the dictionary's page and its entries.
    fn dictionary(&self) -> Option<(Vec<u8>, usize)> {
        None
    }

    /// Bytes held by a dictionary.
    fn dictionary_bytes(&self) -> usize {
        0
    }

    /// The least and the greatest value, if known.
    fn statistics(&self, nulls: u64) -> Option<Statistics>;

    /// Forgets what belongs to the part.
    fn clear(&mut self);
}

/// A column: the values of its open page, and its ended pages.
#[derive(Default)]
pub(crate) struct Column<V, const NULLABLE: bool> {
    values: V,
    /// The latest rows, at most [`ROWS_MAX`], a bit each: whether there is a value or, where nothing can be null,
    /// what a boolean is.
    open: u64,
    /// The rows of the open page before those.
    presence: Bits,
    /// The first row of the open page.
    page_start: usize,
    pages: Vec<u8>,
    /// Whether pages are compressed, as the first one told.
    compressed: Option<bool>,
    plain_bytes: usize,
    nulls: usize,
    encodings: Vec<PageEncoding>,
}

impl<V: Values, const NULLABLE: bool> Column<V, NULLABLE> {
    /// The place for a value.
    #[inline]
    fn place(&mut self, bit: u64) -> &mut V {
        if NULLABLE {
            self.open |= bit;
        }
        &mut self.values
    }

    /// Appends a page: its header, and its bytes as compressed as those of the first one.
    fn write(
        &mut self,
        bytes: Vec<u8>,
        zstd: &mut Zstd,
        page: impl FnOnce(Bytes) -> Page,
    ) -> Result<(), ParquetError> {
        let plain = bytes.len();
        let dictionary = self.values.dictionary_bytes();
        let pays = match self.compressed {
            Some(pays) => pays,
            None if plain + dictionary < COMPRESSED_MIN => false,
            // Codes say nothing of their dictionary, which comes last: it is taken to be worth the while.
            None if dictionary > 0 => true,
            None => zstd.shortens(&bytes[..plain.min(V::SAMPLE_BYTES)], V::LEVEL)?,
        };
        self.compressed = Some(pays);
        let used = match pays {
            true => zstd.compress(bytes, V::LEVEL)?,
            false => bytes,
        };
        let used = Bytes::from(used);
        let page = page(used.clone());
        if !self.encodings.contains(&page.encoding()) {
            self.encodings.push(page.encoding());
        }
        let mut output = TrackedWrite::new(&mut self.pages);
        let mut writer = SerializedPageWriter::new(&mut output);
        let spec = writer.write_page(CompressedPage::new(page, plain))?;
        writer.close()?;
        self.plain_bytes += spec.uncompressed_size;
        match pays {
            true => zstd.compressed = used.into(),
            false => zstd.page = used.into(),
        }
        Ok(())
    }
}

impl<V: Values, const NULLABLE: bool> Chunked for Column<V, NULLABLE> {
    fn bytes(&self) -> usize {
        let dictionary = self.values.dictionary_bytes();
        self.values.bytes() + self.presence.bytes() + dictionary + self.pages.len()
    }

    fn ended_bytes(&self) -> usize {
        self.pages.len() + self.values.dictionary_bytes()
    }

    #[inline]
    fn end_word(&mut self, rows: usize) -> bool {
        let word = std::mem::take(&mut self.open);
        if NULLABLE {
            let len = rows - self.page_start - self.presence.len();
            self.presence.push(word, len);
        } else {
            self.values.take_word(word, rows - self.page_start);
        }
        self.values.is_full() || self.presence.bytes() >= PAGE_BYTES
    }

    fn end_page(&mut self, rows: usize, zstd: &mut Zstd) -> Result<(), ParquetError> {
        let count = rows - self.page_start;
        let mut page = std::mem::take(&mut zstd.page);
        page.clear();
        let mut values = count;
        if NULLABLE {
            values = put_levels(&mut self.presence, &mut page);
        }
        let encoding = match values {
            0 => PageEncoding::PLAIN,
            _ => self.values.put(&mut page),
        };
        self.nulls += count - values;
        self.page_start = rows;
        self.write(page, zstd, |buf| Page::DataPage {
            buf,
            num_values: count as u32,
            encoding,
            def_level_encoding: PageEncoding::RLE,
            rep_level_encoding: PageEncoding::RLE,
            statistics: None,
        })
    }

    fn end(
        &mut self,
        rows: usize,
        descriptor: &ColumnDescPtr,
        zstd: &mut Zstd,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        if self.page_start < rows {
            self.end_word(rows);
            self.end_page(rows, zstd)?;
        }
        let mut dictionary_len = None;
        if let Some((bytes, entries)) = self.values.dictionary() {
            let data = std::mem::take(&mut self.pages);
            self.write(bytes, zstd, |buf| Page::DictionaryPage {
                buf,
                num_values: entries as u32,
                encoding: PageEncoding::PLAIN,
                is_sorted: false,
            })?;
            dictionary_len = Some(self.pages.len() as i64);
            self.pages.extend_from_slice(&data);
        }
        let compression = match self.compressed.take() {
            Some(true) => Compression::ZSTD(ZstdLevel::try_new(Zstd::LEVEL)?),
            _ => Compression::UNCOMPRESSED,
        };
        let chunk = Bytes::from(std::mem::take(&mut self.pages));
        let mut encodings = std::mem::take(&mut self.encodings);
        if NULLABLE && !encodings.contains(&PageEncoding::RLE) {
            encodings.push(PageEncoding::RLE);
        }
        let mut metadata = ColumnChunkMetaData::builder(descriptor.clone())
            .set_encodings(encodings)
            .set_compression(compression)
            .set_num_values(rows as i64)
            .set_total_compressed_size(chunk.len() as i64)
            .set_total_uncompressed_size(std::mem::take(&mut self.plain_bytes) as i64)
            .set_data_page_offset(dictionary_len.unwrap_or(0))
            .set_dictionary_page_offset(dictionary_len.map(|_| 0));
        if let Some(statistics) = self.values.statistics(self.nulls as u64) {
            metadata = metadata.set_statistics(statistics);
        }
        self.values.clear();
        (self.page_start, self.nulls) = (0, 0);
        let result = ColumnCloseResult {
            bytes_written: chunk.len() as u64,
            rows_written: rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((chunk, result))
    }
}

/// The least and the greatest of some numbers.
#[derive(Default, Clone, Copy)]
struct Range(Option<(i64, i64)>);

impl Range {
    fn extend(&mut self, values: &[i64]) {
        let Some(&first) = values.first() else { return };
        let (mut least, mut greatest) = self.0.unwrap_or((first, first));
        for &value in values {
            least = least.min(value);
            greatest = greatest.max(value);
        }
        self.0 = Some((least, greatest));
    }

    fn statistics<const WIDTH: usize>(self, nulls: u64) -> Statistics {
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

/// Adds a value to a page. Memory for all of a page is taken at once, since growing would touch twice as much.
#[inline]
fn push_to_page<T>(values: &mut Vec<T>, value: T) {
    if values.capacity() == 0 {
        values.reserve_exact(PAGE_BYTES / size_of::<T>() + ROWS_MAX);
    }
    values.push(value);
}

/// 64-bit integers as differences. A block is packed as soon as it is full.
pub(crate) struct Deltas {
    first: i64,
    latest: i64,
    /// The open block: its differences, how many there are ([`NO_VALUE`] before the first value), and the least one.
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
    fn push(&mut self, value: i64) {
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
        // So small steps upwards that all of a block do not go round: the last value says it all.
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

/// 64-bit integers as they are. `RUNS`: the same one comes many times in a row, so that zstd's usual level is as quick as
/// the fast one and finds more, and the least and the greatest are worth knowing.
#[derive(Default)]
pub(crate) struct Plains<const RUNS: bool> {
    values: Vec<i64>,
    range: Range,
}

impl<const RUNS: bool> Plains<RUNS> {
    #[inline]
    fn push(&mut self, value: i64) {
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

/// Whether a dictionary of `entries` entries and `bytes` bytes is worth another page, and has room for it and for the
/// rows until somebody looks.
fn goes_on(entries: usize, bytes: usize, codes: &Codes) -> bool {
    let page = Codes::RUNS_MAX + ROWS_MAX;
    let has_room = entries + page <= Codes::MAX && bytes < DICTIONARY_BYTES_MAX;
    has_room && !is_vain(entries, codes)
}

/// Entries from which on a dictionary has to pay.
const PAYS_FROM: usize = 2048;

/// Whether most values are the first of their kind. Then a dictionary takes more than the values as they are, and each
/// of them a search in memory that is not near.
fn is_vain(entries: usize, codes: &Codes) -> bool {
    entries >= PAYS_FROM && entries > codes.runs_in_all() / 2
}

/// Rows between two looks at the pages, which have a bit each in a word. At [`Text::BYTES_MAX`], each escaped to four
/// bytes, that bounds what hostile names add between them.
pub(crate) const ROWS_MAX: usize = 64;

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
    fn push(&mut self, value: i64) {
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

    fn dictionary(&self) -> Option<(Vec<u8>, usize)> {
        let mut out = Vec::with_capacity(self.dictionary_bytes());
        Self::put_all(&self.entries, &mut out);
        (!out.is_empty()).then_some((out, self.entries.len()))
    }

    fn dictionary_bytes(&self) -> usize {
        self.entries.len() * WIDTH
    }

    fn statistics(&self, nulls: u64) -> Option<Statistics> {
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

/// Booleans.
#[derive(Default)]
pub(crate) struct Booleans {
    bits: Bits,
    /// Whether one of the part was false, or true.
    seen: [bool; 2],
}

impl Booleans {
    fn push(&mut self, value: bool) {
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

/// Texts or bytes as codes of a dictionary, or as they are once it is full.
#[derive(Default)]
pub(crate) struct Texts {
    codes: Codes,
    /// The entries as they stand in a page: each behind its length.
    entries: Vec<u8>,
    /// Where the bytes of each entry begin, behind its length.
    starts: Vec<usize>,
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The constant that came last, if it was one: address and length.
    latest: Option<(usize, usize)>,
    /// The address that came last.
    latest_address: Option<IpAddr>,
    /// Constants that need no look at their text: address, length and code, at the places that the addresses give.
    known: Vec<((usize, usize), u32)>,
    /// The codes of the addresses that came lately.
    addresses: VecDeque<(IpAddr, u32)>,
    /// Bytes of entries when the open page began.
    entries_before: usize,
    plain: Vec<u8>,
    is_plain: bool,
    scratch: Vec<u8>,
}

impl Texts {
    /// Addresses that are remembered: those of a handful of conversations that alternate.
    const ADDRESSES: usize = 8;

    fn push(&mut self, bytes: &[u8]) {
        if self.is_plain {
            put_bytes(bytes, &mut self.plain);
        } else {
            let code = self.code(bytes);
            self.push_code(code);
        }
    }

    fn push_code(&mut self, code: u32) {
        (self.latest, self.latest_address) = (None, None);
        self.codes.push(code);
    }

    /// Adds a constant of the program: the same address is the same text.
    #[inline(always)]
    fn push_constant(&mut self, text: &'static str) {
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
            return put_bytes(text.as_bytes(), &mut self.plain);
        }
        let constant = (text.as_ptr().addr(), text.len());
        let code = self.code(text.as_bytes());
        self.known.resize(KNOWN, ((0, 0), NONE));
        self.known[place_of(constant.0 as u64)] = (constant, code);
        self.latest = Some(constant);
        self.codes.push(code);
    }

    /// Adds an address: IPv4 dotted, IPv6 as RFC 5952 says, which is how Rust writes them.
    #[inline]
    fn push_address(&mut self, address: IpAddr) {
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
            return put_bytes(text.as_bytes(), &mut self.plain);
        }
        let code = self.code(text.as_bytes());
        self.codes.push(code);
        self.latest_address = Some(address);
        self.addresses.truncate(Self::ADDRESSES - 1);
        self.addresses.push_front((address, code));
    }

    #[cold]
    fn push_number(&mut self, number: i64) {
        self.push(number.to_string().as_bytes());
    }

    /// Adds bytes that need not be UTF-8.
    fn push_escaped(&mut self, bytes: &[u8]) {
        let is_literal = !bytes.contains(&b'\\');
        // An entry without a backslash is the text of the same bytes: they were looked at when it came.
        if is_literal
            && !self.is_plain
            && let Some(code) = self.find(self.hasher.hash_one(bytes), bytes)
        {
            return self.push_code(code);
        }
        if is_literal && std::str::from_utf8(bytes).is_ok() {
            return self.push(bytes);
        }
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        escape(bytes, &mut text);
        self.push(&text);
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

/// Appends bytes as they stand in a page, behind their length.
fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
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

    fn dictionary(&self) -> Option<(Vec<u8>, usize)> {
        (!self.entries.is_empty()).then(|| (self.entries.clone(), self.starts.len()))
    }

    fn dictionary_bytes(&self) -> usize {
        self.entries.len()
    }

    fn statistics(&self, nulls: u64) -> Option<Statistics> {
        let texts = || (0..self.starts.len()).map(|code| entry(&self.entries, &self.starts, code));
        let known = !self.is_plain && texts().all(|text| text.len() <= STATISTICS_BYTES_MAX);
        let bound = |text: Option<&[u8]>| text.filter(|_| known).map(|text| text.to_vec().into());
        let (least, greatest): (Option<ByteArray>, _) =
            (bound(texts().min()), bound(texts().max()));
        Some(Statistics::byte_array(
            least,
            greatest,
            None,
            Some(nulls),
            false,
        ))
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.starts.clear();
        self.places.clear();
        self.codes.clear();
        (self.latest, self.latest_address) = (None, None);
        self.known.clear();
        self.addresses.clear();
        self.entries_before = 0;
        self.is_plain = false;
    }
}

macro_rules! encode {
    ($($kind:ty, $encoding:ty, $values:ty, $nullable:literal: |$value:ident, $column:ident, $bit:ident| $push:expr;)*) => {$(
        impl Encode<$encoding> for $kind {
            type Column = Column<$values, $nullable>;

            #[inline(always)]
            fn push(&self, $column: &mut Self::Column, $bit: u64) {
                let $value = self;
                $push
            }
        }
    )*};
}

encode! {
    i64, Delta, Deltas, false: |value, column, bit| column.place(bit).push(*value);
    Option<i64>, Delta, Deltas, true: |value, column, bit| if let Some(value) = *value {
        column.place(bit).push(value);
    };
    i64, Runs, Plains<true>, false: |value, column, bit| column.place(bit).push(*value);
    i64, Plain, Plains<false>, false: |value, column, bit| column.place(bit).push(*value);
    Option<i64>, Plain, Plains<false>, true: |value, column, bit| if let Some(value) = *value {
        column.place(bit).push(value);
    };
    i64, Dictionary, Numbers<8>, false: |value, column, bit| column.place(bit).push(*value);
    Option<i64>, Dictionary, Numbers<8>, true: |value, column, bit| if let Some(value) = *value {
        column.place(bit).push(value);
    };
    i32, Dictionary, Numbers<4>, false: |value, column, bit| column.place(bit).push((*value).into());
    Option<i32>, Dictionary, Numbers<4>, true: |value, column, bit| if let Some(value) = *value {
        column.place(bit).push(value.into());
    };
    bool, Dictionary, Booleans, false: |value, column, bit| if *value {
        column.open |= bit;
    };
    Option<bool>, Dictionary, Booleans, true: |value, column, bit| if let Some(value) = *value {
        column.place(bit).push(value);
    };
    Label, Dictionary, Texts, true: |value, column, bit| if let Some(text) = *value {
        column.place(bit).push_constant(text);
    };
    Word, Dictionary, Texts, true: |value, column, bit| match *value {
        Word::None => {}
        Word::Known(text) => column.place(bit).push_constant(text),
        Word::Number(number) => column.place(bit).push_number(number),
    };
    Text, Dictionary, Texts, true: |value, column, bit| if let Some(bytes) = value.bytes() {
        column.place(bit).push_escaped(bytes);
    };
    Blob, Dictionary, Texts, true: |value, column, bit| if let Some(bytes) = value.bytes() {
        column.place(bit).push(bytes);
    };
    Address, Dictionary, Texts, true: |value, column, bit| if let Some(address) = *value {
        column.place(bit).push_address(address);
    };
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
