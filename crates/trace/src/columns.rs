//! The columns of an open part: values become pages while rows come.
//!
//! Most cells of a wide table are null or what the row before had, so these are the cheap cases: a
//! push of null does nothing, a repeated value makes the latest run longer, and which rows have a
//! value is a bit of a word that is put away every [`ROWS_MAX`] rows. A column ends its pages by
//! its own size: one that never changes has one page, however many rows the part has.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding as PageEncoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::cell::{Address, Blob, Cell, Label, Text, Word};
use crate::page::{Bits, put_levels};
use crate::tables::Row;

mod dictionary;
mod integers;
mod zstd;

use dictionary::{Numbers, Texts};
use integers::{Booleans, Deltas, Plains};

pub(crate) use zstd::Zstd;

/// Bytes of values that end a page: what a column keeps in memory before it is compressed.
pub(crate) const PAGE_BYTES: usize = 64 << 10;

/// A first page of fewer bytes leaves its chunk uncompressed: zstd would cost more than it saves.
const COMPRESSED_MIN: usize = 256;

/// Rows between two looks at the pages, which have a bit each in a word. At [`Text::BYTES_MAX`],
/// each escaped to four bytes, that bounds what hostile names add between them.
pub(crate) const ROWS_MAX: usize = 64;

/// The open part of one table.
pub(crate) trait Columns: Default {
    /// The row of that table.
    type Row: Row;

    /// Adds a row. After each [`ROWS_MAX`] of a part, [`end_full_pages`](Self::end_full_pages) is
    /// to follow.
    fn push(&mut self, row: &Self::Row);

    /// Counts rows whose columns were filled directly; after each [`ROWS_MAX`] as
    /// [`push`](Self::push).
    fn advance(&mut self, rows: usize);

    /// Rows in the part.
    fn rows(&self) -> usize;

    /// Bytes held: values of open pages, dictionaries, ended pages.
    fn bytes(&self) -> usize;

    /// Ends the pages that have enough values. If there were some, the bytes of all ended pages and
    /// of dictionaries.
    fn end_full_pages(&mut self, zstd: &mut Zstd) -> Result<Option<usize>, ParquetError>;

    /// Hands over the chunks of all columns in order, and is empty.
    fn end(
        &mut self,
        descriptors: &[ColumnDescPtr],
        zstd: &mut Zstd,
        each: impl FnMut(Bytes, ColumnCloseResult) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError>;
}

/// The next row of a table whose cells come one at a time.
pub(crate) struct OpenRow<'a, C> {
    pub(crate) columns: &'a mut C,
    /// Its place in the open word.
    pub(crate) bit: u64,
}

/// Rows at the end of the open word that have some cells in common: only the first of them gave
/// these.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Run {
    /// What stands for the cells; `None`: there is no run.
    number: Option<u64>,
    /// The place of the first row.
    first: u64,
    /// How many follow it.
    more: u32,
}

impl Run {
    pub(crate) fn new(number: u64, first: u64) -> Self {
        Self {
            number: Some(number),
            first,
            more: 0,
        }
    }

    /// Whether the next row belongs to it too.
    #[inline(always)]
    pub(crate) fn goes_on(&mut self, number: u64) -> bool {
        let goes_on = self.number == Some(number);
        self.more += u32::from(goes_on);
        goes_on
    }

    /// The run, if rows follow its first one; there is none from now on.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<Self> {
        let run = std::mem::take(self);
        (run.more > 0).then_some(run)
    }

    /// The places of the rows after the first.
    fn rest(self) -> u64 {
        ((1 << self.more) - 1) * (self.first << 1)
    }
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
    fn push(value: Self::Value<'_>, column: &mut Self::Column, bit: u64);
}

/// A column whose pages can be ended.
pub(crate) trait Chunked: Default {
    /// Bytes held.
    fn bytes(&self) -> usize;

    /// Bytes of ended pages and of the dictionary.
    fn ended_bytes(&self) -> usize;

    /// Puts the open word away; whether the open page is full. The part has `rows` rows.
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

    /// Bytes of a first page that show whether zstd saves enough.
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
    /// The latest rows, at most [`ROWS_MAX`], a bit each: whether there is a value or, where
    /// nothing can be null, what a boolean is.
    open: u64,
    /// The rows of the open page before those.
    presence: Bits,
    /// The first row of the open page.
    page_start: usize,
    pages: Vec<u8>,
    /// Whether pages are compressed, as the first one decided.
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
            // Codes do not show their dictionary, which comes last: it is taken to be worth the
            // while.
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

/// Values of which the latest can be added many times.
pub(crate) trait Repeated: Values {
    /// Adds the latest value so many times more.
    fn again(&mut self, times: u32);
}

impl<V: Repeated, const NULLABLE: bool> Column<V, NULLABLE> {
    /// The rows after the first one of a run have its value, or like it none.
    #[inline]
    pub(crate) fn repeat(&mut self, run: Run) {
        if !NULLABLE || self.open & run.first != 0 {
            self.place(run.rest());
            self.values.again(run.more);
        }
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
    i64, Runs, Plains<true>, false: |value, column, bit| column.place(bit).push(value);
    i64, Plain, Plains<false>, false: |value, column, bit| column.place(bit).push(value);
    Option<i64>, Plain, Plains<false>, true: |value, column, bit| if let Some(value) = value {
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
