//! A column of a batch, and the reader that fills it from the pages of a column chunk.

use std::sync::Arc;

use zstd::bulk::Decompressor;

use super::compact::Damage;
use super::decode::{
    Delta, Hybrid, next_bytes, next_plain_bytes, read_bits, read_plain, read_split,
};
use super::footer::{Chunk, ColumnType, PageHeader};
use super::source::{ReadError, Source};

type Result<T> = std::result::Result<T, ReadError>;
type Decoded<T = ()> = std::result::Result<T, Damage>;

/// Bytes of a page, in the file and decompressed. The largest known writer, DuckDB, makes pages of
/// at most 100 MB.
const PAGE_BYTES_MAX: u64 = 256 << 20;
/// Bytes of the texts in a batch.
const TEXT_BYTES_MAX: usize = 1 << 30;
/// Bytes that are read at once: page headers and small pages share a read.
const WINDOW_BYTES: u64 = 64 << 10;
/// Bytes in which a page header is looked for first; one with long statistics may take more.
const HEADER_BYTES: u64 = 256;

const SHORT: Damage = Damage("a column has fewer values than its row group has rows");
const PAGE: ReadError = ReadError::Damaged("a page of an impossible length");

/// The values of a column in a batch of rows.
#[derive(Debug, Clone)]
pub struct Column {
    /// Whether each row has a value; empty if all have.
    pub(super) present: Vec<bool>,
    pub(super) values: Values,
}

/// Values by type, one a row; a row without a value has any.
#[derive(Debug, Clone)]
pub enum Values {
    /// Of an `INT64` column.
    Int64(Vec<i64>),
    /// Of an `INT32` column.
    Int32(Vec<i32>),
    /// Of a `BOOLEAN` column.
    Boolean(Vec<bool>),
    /// Of a string column: for each row the place of its text.
    Texts(Vec<u32>, Arc<Texts>),
    /// Of a bytes column: for each row the place of its bytes.
    Bytes(Vec<u32>, Arc<Texts>),
}

impl Column {
    /// Rows.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Int64(values) => values.len(),
            Values::Int32(values) => values.len(),
            Values::Boolean(values) => values.len(),
            Values::Texts(places, _) | Values::Bytes(places, _) => places.len(),
        }
    }

    /// It has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether each row has a value; empty if all have.
    pub fn present(&self) -> &[bool] {
        &self.present
    }

    /// The values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Adds a number to each value of an `INT64` column, wrapping around.
    pub fn add(&mut self, number: i64) {
        if let Values::Int64(values) = &mut self.values {
            let sums = values.iter_mut();
            sums.for_each(|value| *value = value.wrapping_add(number));
        }
    }
}

/// Texts that rows refer to by place: those of a dictionary, so that one that repeats is there
/// once, and others.
#[derive(Debug, Clone, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Texts {
    /// How many they are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes at a place.
    pub fn bytes(&self, place: usize) -> Option<&[u8]> {
        let end = *self.ends.get(place)?;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.get(start..end)
    }

    /// The text at a place, which was found to be UTF-8 when it was read.
    pub fn text(&self, place: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(place)?).ok()
    }

    fn push(&mut self, value: &[u8], column_type: ColumnType) -> Decoded {
        if column_type == ColumnType::Text && std::str::from_utf8(value).is_err() {
            return Err(Damage("a text is not UTF-8"));
        }
        if self.bytes.len() + value.len() > TEXT_BYTES_MAX {
            return Err(Damage("texts of more than 1 GiB in a batch"));
        }
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        Ok(())
    }
}

/// The dictionary of a column chunk.
enum Dictionary {
    None,
    Int64(Vec<i64>),
    Int32(Vec<i32>),
    Texts(Arc<Texts>),
}

/// The values of a page that are not read yet, by their encoding; places are those of
/// `ColumnReader::page`.
enum Encoded {
    /// No bytes at all: every value is null.
    Nothing,
    Plain(usize),
    Split(usize),
    Codes(Hybrid),
    Delta(Delta),
    /// Lengths, and where the bytes are.
    DeltaLengths(Delta, usize),
    /// Bytes in common with the value before, lengths of the others, where those are, and the value
    /// before.
    DeltaBytes(Box<(Delta, Delta, usize, Vec<u8>)>),
}

/// Parquet's numbers of encodings.
mod encoding {
    pub(super) const PLAIN: i64 = 0;
    pub(super) const PLAIN_DICTIONARY: i64 = 2;
    pub(super) const RLE: i64 = 3;
    pub(super) const DELTA_BINARY_PACKED: i64 = 5;
    pub(super) const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
    pub(super) const DELTA_BYTE_ARRAY: i64 = 7;
    pub(super) const RLE_DICTIONARY: i64 = 8;
    pub(super) const BYTE_STREAM_SPLIT: i64 = 9;
}

/// Parquet's names of compression codecs, by number.
const CODECS: [&str; 8] = [
    "UNCOMPRESSED",
    "SNAPPY",
    "GZIP",
    "LZO",
    "BROTLI",
    "LZ4",
    "ZSTD",
    "LZ4_RAW",
];
const UNCOMPRESSED: i64 = 0;
const ZSTD: i64 = 6;

/// What all columns of a part read by.
pub(super) struct Input<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) decompressor: &'a mut Decompressor<'static>,
}

/// Reads the pages of one column, a column chunk after the other.
pub(super) struct ColumnReader {
    name: String,
    column_type: ColumnType,
    is_optional: bool,
    codec: i64,
    /// Where in the file the next page begins, and where the chunk ends.
    next: u64,
    end: u64,
    dictionary: Dictionary,
    /// A stretch of the file and where it begins.
    window: Vec<u8>,
    window_at: u64,
    /// The present page, decompressed; how many of its rows are not read yet, and what of them.
    page: Vec<u8>,
    rows_left: usize,
    levels: Option<Hybrid>,
    encoded: Encoded,
    /// Where in it the values begin.
    values_at: usize,
    /// A column whose memory can be used again.
    spare: Option<Column>,
}

impl ColumnReader {
    pub(super) fn new(name: String, column_type: ColumnType, is_optional: bool) -> Self {
        Self {
            name,
            column_type,
            is_optional,
            codec: UNCOMPRESSED,
            next: 0,
            end: 0,
            dictionary: Dictionary::None,
            window: Vec::new(),
            window_at: 0,
            page: Vec::new(),
            rows_left: 0,
            levels: None,
            encoded: Encoded::Nothing,
            values_at: 0,
            spare: None,
        }
    }

    /// Turns to the chunk of another row group.
    pub(super) fn start(&mut self, chunk: &Chunk, file_len: u64) -> Result<()> {
        let codec = usize::try_from(chunk.codec).ok();
        let codec = codec.and_then(|codec| CODECS.get(codec)).copied();
        if chunk.codec != UNCOMPRESSED && chunk.codec != ZSTD {
            return Err(self.unsupported("compressed", codec.unwrap_or("an unknown codec")));
        }
        self.codec = chunk.codec;
        self.next = chunk.offset();
        let end = self.next.checked_add(chunk.len);
        self.end = end.filter(|&end| end <= file_len).ok_or(PAGE)?;
        self.dictionary = Dictionary::None;
        self.window.clear();
        self.rows_left = 0;
        Ok(())
    }

    /// The next `rows` values.
    pub(super) fn read(&mut self, input: &mut Input<'_>, rows: usize) -> Result<Column> {
        let mut column = self.empty(rows);
        let mut left = rows;
        while left > 0 {
            while self.rows_left == 0 {
                self.next_page(input)?;
            }
            if left == rows {
                // Known once the chunk's first page is.
                self.share_dictionary(&mut column.values);
            }
            let taken = left.min(self.rows_left);
            self.read_rows(&mut column, taken)?;
            self.rows_left -= taken;
            left -= taken;
        }
        Ok(column)
    }

    /// `rows` nulls of its type.
    pub(super) fn nulls(&mut self, rows: usize) -> Column {
        let mut column = self.empty(rows);
        column.present.resize(rows, false);
        match &mut column.values {
            Values::Int64(values) => values.resize(rows, 0),
            Values::Int32(values) => values.resize(rows, 0),
            Values::Boolean(values) => values.resize(rows, false),
            Values::Texts(places, _) | Values::Bytes(places, _) => places.resize(rows, 0),
        }
        column
    }

    fn empty(&mut self, rows: usize) -> Column {
        self.spare.take().unwrap_or_else(|| Column {
            present: Vec::new(),
            values: match self.column_type {
                ColumnType::Boolean => Values::Boolean(Vec::with_capacity(rows)),
                ColumnType::Int32 => Values::Int32(Vec::with_capacity(rows)),
                ColumnType::Int64 => Values::Int64(Vec::with_capacity(rows)),
                ColumnType::Text => Values::Texts(Vec::with_capacity(rows), Arc::default()),
                ColumnType::Bytes => Values::Bytes(Vec::with_capacity(rows), Arc::default()),
            },
        })
    }

    /// Takes a column back, so that the next one lies in its memory.
    pub(super) fn reuse(&mut self, mut column: Column) {
        column.present.clear();
        match &mut column.values {
            Values::Int64(values) => values.clear(),
            Values::Int32(values) => values.clear(),
            Values::Boolean(values) => values.clear(),
            Values::Texts(places, texts) | Values::Bytes(places, texts) => {
                places.clear();
                *texts = Arc::default();
            }
        }
        self.spare = Some(column);
    }

    fn share_dictionary(&self, values: &mut Values) {
        if let (Values::Texts(_, texts) | Values::Bytes(_, texts), Dictionary::Texts(dictionary)) =
            (values, &self.dictionary)
        {
            *texts = Arc::clone(dictionary);
        }
    }

    /// Reads rows of the present page.
    fn read_rows(&mut self, column: &mut Column, rows: usize) -> Result<()> {
        let (before, present) = (column.len(), &mut column.present);
        let is_full = match &mut self.levels {
            Some(levels) => levels.pass_run(&self.page, 1, rows)?,
            None => true,
        };
        if !is_full && present.is_empty() {
            present.resize(before, true);
        }
        match &mut self.levels {
            Some(levels) if !is_full => {
                let of = |level| (level <= 1).then_some(level == 1);
                levels.read(&self.page, rows, present, of)?;
            }
            _ if !present.is_empty() => present.resize(before + rows, true),
            _ => {}
        }
        let present = column.present.get(before..).unwrap_or_default();
        let values = if is_full {
            rows
        } else {
            present.iter().filter(|&&present| present).count()
        };
        self.read_values(&mut column.values, values)?;
        if is_full {
            return Ok(());
        }
        match &mut column.values {
            Values::Int64(out) => spread(out, present, values),
            Values::Int32(out) => spread(out, present, values),
            Values::Boolean(out) => spread(out, present, values),
            Values::Texts(out, _) | Values::Bytes(out, _) => spread(out, present, values),
        }
        Ok(())
    }

    /// Appends the next values of the present page, which are not null.
    fn read_values(&mut self, values: &mut Values, count: usize) -> Decoded {
        let page = self.page.as_slice();
        if count == 0 {
            return Ok(());
        }
        match values {
            Values::Int64(out) => match (&mut self.encoded, &self.dictionary) {
                (Encoded::Plain(at), _) => read_plain(page, at, count, out, i64::from_le_bytes),
                (Encoded::Split(done), _) => read_split(
                    &page[self.values_at..],
                    done,
                    count,
                    out,
                    i64::from_le_bytes,
                ),
                (Encoded::Delta(delta), _) => delta.read(page, count, out, |value| value),
                (Encoded::Codes(codes), Dictionary::Int64(dictionary)) => {
                    let of = |code| dictionary.get(code as usize).copied();
                    codes.read(page, count, out, of)
                }
                _ => Err(SHORT),
            },
            Values::Int32(out) => match (&mut self.encoded, &self.dictionary) {
                (Encoded::Plain(at), _) => read_plain(page, at, count, out, i32::from_le_bytes),
                (Encoded::Split(done), _) => read_split(
                    &page[self.values_at..],
                    done,
                    count,
                    out,
                    i32::from_le_bytes,
                ),
                // Differences of 32 bits wrap as these do.
                (Encoded::Delta(delta), _) => delta.read(page, count, out, |value| value as i32),
                (Encoded::Codes(codes), Dictionary::Int32(dictionary)) => {
                    let of = |code| dictionary.get(code as usize).copied();
                    codes.read(page, count, out, of)
                }
                _ => Err(SHORT),
            },
            Values::Boolean(out) => match &mut self.encoded {
                Encoded::Plain(bit) => read_bits(page, bit, count, out),
                Encoded::Codes(codes) => codes.read(page, count, out, |code| Some(code == 1)),
                _ => Err(SHORT),
            },
            Values::Texts(out, texts) | Values::Bytes(out, texts) => {
                if let (Encoded::Codes(codes), Dictionary::Texts(dictionary)) =
                    (&mut self.encoded, &self.dictionary)
                {
                    let len = dictionary.len() as u32;
                    return codes.read(page, count, out, |code| (code < len).then_some(code));
                }
                self.read_texts(out, Arc::make_mut(texts), count)
            }
        }
    }

    /// Appends texts that no dictionary has, and their places.
    fn read_texts(&mut self, out: &mut Vec<u32>, texts: &mut Texts, count: usize) -> Decoded {
        let (page, column_type) = (self.page.as_slice(), self.column_type);
        let first = texts.len() as u32;
        match &mut self.encoded {
            Encoded::Plain(at) => {
                for _ in 0..count {
                    texts.push(next_plain_bytes(page, at)?, column_type)?;
                }
            }
            Encoded::DeltaLengths(lengths, at) => {
                for len in read_lengths(lengths, page, count)? {
                    texts.push(next_bytes(page, at, len)?, column_type)?;
                }
            }
            Encoded::DeltaBytes(state) => {
                let (prefixes, lengths, at, value) = &mut **state;
                let prefixes = read_lengths(prefixes, page, count)?;
                let lengths = read_lengths(lengths, page, count)?;
                for (prefix, len) in prefixes.into_iter().zip(lengths) {
                    if prefix > value.len() {
                        return Err(Damage("a text longer than its bytes"));
                    }
                    value.truncate(prefix);
                    value.extend_from_slice(next_bytes(page, at, len)?);
                    texts.push(value, column_type)?;
                }
            }
            _ => return Err(SHORT),
        }
        out.extend(first..texts.len() as u32);
        Ok(())
    }

    /// Reads the next page, be it the dictionary or one with rows.
    fn next_page(&mut self, input: &mut Input<'_>) -> Result<()> {
        let header = self.header(input)?;
        let is_too_long = |&len: &u64| len > PAGE_BYTES_MAX;
        if [header.compressed_len, header.uncompressed_len]
            .iter()
            .any(is_too_long)
            || header.compressed_len > self.end - self.next
        {
            return Err(PAGE);
        }
        match header.kind {
            PageHeader::DICTIONARY if matches!(self.dictionary, Dictionary::None) => {
                self.load(input, &header, 0)?;
                self.dictionary = self.read_dictionary(&header)?;
            }
            PageHeader::DATA => {
                self.load(input, &header, 0)?;
                let mut at = 0;
                self.levels = None;
                if self.is_optional {
                    if header.levels_encoding != encoding::RLE {
                        return Err(self.unsupported("encoded", "BIT_PACKED levels"));
                    }
                    let (levels, end) = Hybrid::with_length(&self.page, 0, 1)?;
                    (self.levels, at) = (Some(levels), end);
                }
                self.start_values(&header, at)?;
            }
            PageHeader::DATA_V2 => {
                let levels_len = header.definition_len.checked_add(header.repetition_len);
                let levels_len = levels_len.filter(|&len| len <= header.compressed_len);
                let at = levels_len.ok_or(PAGE)? as usize;
                self.load(input, &header, at)?;
                let start = header.repetition_len as usize;
                let levels = Hybrid::new(start, at, 1)?;
                self.levels = self.is_optional.then_some(levels);
                self.start_values(&header, at)?;
            }
            // A page of an index, which is not needed.
            _ => {}
        }
        self.next += header.compressed_len;
        Ok(())
    }

    /// The header of the next page, past which this goes.
    fn header(&mut self, input: &mut Input<'_>) -> Result<PageHeader> {
        let left = self.end - self.next;
        if left == 0 {
            return Err(SHORT.into());
        }
        let mut room = HEADER_BYTES.min(left);
        loop {
            match PageHeader::read(self.stretch(input, room)?) {
                Ok((header, len)) => {
                    self.next += len as u64;
                    return Ok(header);
                }
                Err(error) if room == left => return Err(error.into()),
                Err(_) => room = (room * 16).min(left),
            }
        }
    }

    /// The next `len` bytes of the chunk.
    fn stretch(&mut self, input: &mut Input<'_>, len: u64) -> Result<&[u8]> {
        let is_there = self.next >= self.window_at
            && self.next + len <= self.window_at + self.window.len() as u64;
        if !is_there {
            let wanted = len.max(WINDOW_BYTES).min(self.end - self.next);
            self.window.resize(wanted as usize, 0);
            self.window_at = self.next;
            input.source.read_at(self.next, &mut self.window)?;
        }
        let start = (self.next - self.window_at) as usize;
        Ok(&self.window[start..start + len as usize])
    }

    /// Reads the bytes of a page, of which those before `plain_len` are never compressed.
    fn load(&mut self, input: &mut Input<'_>, header: &PageHeader, plain_len: usize) -> Result<()> {
        const DECOMPRESS: ReadError = ReadError::Damaged("a page cannot be decompressed");
        let mut page = std::mem::take(&mut self.page);
        let is_compressed = self.codec == ZSTD && !header.is_uncompressed;
        let bytes = self.stretch(input, header.compressed_len)?;
        let (plain, rest) = bytes.split_at(plain_len);
        page.clear();
        page.extend_from_slice(plain);
        if is_compressed && !rest.is_empty() {
            let len = (header.uncompressed_len as usize)
                .checked_sub(plain_len)
                .ok_or(PAGE)?;
            let done = if plain_len == 0 {
                // Into room that is not cleared before.
                page.reserve(len);
                input.decompressor.decompress_to_buffer(rest, &mut page)
            } else {
                page.resize(plain_len + len, 0);
                input
                    .decompressor
                    .decompress_to_buffer(rest, &mut page[plain_len..])
            };
            if done.map_err(|_| DECOMPRESS)? != len {
                return Err(DECOMPRESS);
            }
        } else {
            page.extend_from_slice(rest);
        }
        self.page = page;
        Ok(())
    }

    fn read_dictionary(&self, header: &PageHeader) -> Result<Dictionary> {
        let count = usize::try_from(header.values).map_err(|_| PAGE)?;
        let (page, at) = (self.page.as_slice(), &mut 0);
        Ok(match self.column_type {
            ColumnType::Boolean => return Err(self.unsupported("encoded", "a dictionary")),
            ColumnType::Int64 => {
                let mut values = Vec::new();
                read_plain(page, at, count, &mut values, i64::from_le_bytes)?;
                Dictionary::Int64(values)
            }
            ColumnType::Int32 => {
                let mut values = Vec::new();
                read_plain(page, at, count, &mut values, i32::from_le_bytes)?;
                Dictionary::Int32(values)
            }
            ColumnType::Text | ColumnType::Bytes => {
                let mut texts = Texts::default();
                for _ in 0..count {
                    texts.push(next_plain_bytes(page, at)?, self.column_type)?;
                }
                Dictionary::Texts(Arc::new(texts))
            }
        })
    }

    /// Makes ready for the values of a page, which begin at `at`.
    fn start_values(&mut self, header: &PageHeader, at: usize) -> Result<()> {
        let (page, column_type) = (self.page.as_slice(), self.column_type);
        let is_text = matches!(column_type, ColumnType::Text | ColumnType::Bytes);
        let is_number = matches!(column_type, ColumnType::Int32 | ColumnType::Int64);
        self.encoded = match header.encoding {
            _ if at == page.len() => Encoded::Nothing,
            // Truth values are counted in bits.
            encoding::PLAIN if column_type == ColumnType::Boolean => Encoded::Plain(at * 8),
            encoding::PLAIN => Encoded::Plain(at),
            encoding::PLAIN_DICTIONARY | encoding::RLE_DICTIONARY => {
                let width = page.get(at).copied().unwrap_or(0);
                Encoded::Codes(Hybrid::new(at + 1, page.len(), width.into())?)
            }
            encoding::RLE if column_type == ColumnType::Boolean => {
                Encoded::Codes(Hybrid::with_length(page, at, 1)?.0)
            }
            encoding::DELTA_BINARY_PACKED if is_number => Encoded::Delta(Delta::new(page, at)?),
            encoding::BYTE_STREAM_SPLIT if is_number => Encoded::Split(0),
            encoding::DELTA_LENGTH_BYTE_ARRAY if is_text => {
                let lengths = Delta::new(page, at)?;
                let bytes = lengths.end(page)?;
                Encoded::DeltaLengths(lengths, bytes)
            }
            encoding::DELTA_BYTE_ARRAY if is_text => {
                let prefixes = Delta::new(page, at)?;
                let lengths = Delta::new(page, prefixes.end(page)?)?;
                let bytes = lengths.end(page)?;
                Encoded::DeltaBytes(Box::new((prefixes, lengths, bytes, Vec::new())))
            }
            other => return Err(self.unsupported("encoded", &format!("encoding {other}"))),
        };
        self.values_at = at;
        self.rows_left = usize::try_from(header.values).map_err(|_| PAGE)?;
        Ok(())
    }

    fn unsupported(&self, how: &'static str, by: &str) -> ReadError {
        ReadError::Unsupported {
            column: self.name.clone(),
            how,
            by: by.to_owned(),
        }
    }
}

fn read_lengths(lengths: &mut Delta, page: &[u8], count: usize) -> Decoded<Vec<usize>> {
    let mut out = Vec::new();
    // A negative length is longer than any page.
    lengths.read(page, count, &mut out, |len| {
        usize::try_from(len).unwrap_or(usize::MAX)
    })?;
    Ok(out)
}

/// Moves the last `count` values to the rows that have one.
fn spread<T: Copy + Default>(values: &mut Vec<T>, present: &[bool], count: usize) {
    let start = values.len() - count;
    values.resize(start + present.len(), T::default());
    if count == 0 {
        return;
    }
    let mut next = start + count;
    for (row, &is_present) in present.iter().enumerate().rev() {
        let value = if is_present {
            next -= 1;
            values[next]
        } else {
            T::default()
        };
        values[start + row] = value;
    }
}
