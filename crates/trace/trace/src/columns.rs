//! The columns of an open part: values become pages while rows come.
//!
//! Most cells of a wide table are null or what the row before had, so these are the cheap cases: a
//! push of null does nothing, a repeated value makes the latest run longer, and which rows have a
//! value is a bit of a word that is put away every [`ROWS_MAX`] rows. A column ends its pages by
//! its own size: one that never changes has one page, however many rows the part has.

use std::io;
use std::ops::Range;

use lineside_rows::{Cell, ColumnSpec, Row};

use crate::page::{Bits, put_levels};
use crate::part_file::{Chunk, PageEncoding, PageKind, Pages, PartFile, Statistics};
use crate::read;

mod dictionary;
pub(crate) mod encode;
mod given;
mod integers;
mod zstd;

pub use given::{GivenCell, GivenColumn, GivenKind, GivenPart, GivenTable};
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

    /// Adds rows of a batch that was read: the columns of the table in order, `None` for one of
    /// nulls alone. They are not more than the open word has room for; after each [`ROWS_MAX`] as
    /// [`push`](Self::push).
    fn refill(&mut self, batch: &[Option<&read::Column>], rows: Range<usize>);

    /// Counts rows whose columns were filled directly; after each [`ROWS_MAX`] as
    /// [`push`](Self::push).
    fn advance(&mut self, rows: usize);

    /// Rows in the part.
    fn rows(&self) -> usize;

    /// Bytes held: values of open pages, dictionaries, ended pages.
    fn bytes(&self) -> usize;

    /// Ends the pages that have enough values. If there were some, the bytes of all ended pages and
    /// of dictionaries.
    fn end_full_pages(&mut self, zstd: &mut Zstd) -> io::Result<Option<usize>>;

    /// Appends the chunks of all columns to the part's file, and is empty.
    fn end(&mut self, zstd: &mut Zstd, file: &mut PartFile) -> io::Result<()>;
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
    number: Option<u128>,
    /// The place of the first row.
    first: u64,
    /// How many follow it.
    more: u32,
}

impl Run {
    pub(crate) fn new(number: u128, first: u64) -> Self {
        Self {
            number: Some(number),
            first,
            more: 0,
        }
    }

    /// Whether the next row belongs to it too.
    #[inline(always)]
    pub(crate) fn goes_on(&mut self, number: u128) -> bool {
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

/// Names of encodings, as [`lineside_rows::Encoding`], that choose a column's type.
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
    fn end_page(&mut self, rows: usize, zstd: &mut Zstd) -> io::Result<()>;

    /// Appends the chunk of a part of `rows` rows to its file, and is empty.
    fn end(
        &mut self,
        rows: usize,
        column: &ColumnSpec,
        zstd: &mut Zstd,
        file: &mut PartFile,
    ) -> io::Result<()>;
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

    /// Appends the dictionary that the pages refer to, and returns how many entries it has.
    fn put_dictionary(&self, out: &mut Vec<u8>) -> usize {
        let _ = out;
        0
    }

    /// Bytes held by a dictionary.
    fn dictionary_bytes(&self) -> usize {
        0
    }

    /// The least and the greatest value, if known.
    fn statistics(&self, nulls: u64) -> Option<Statistics<'_>>;

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
    pages: Pages,
    /// Whether pages are compressed, as the first one decided.
    compressed: Option<bool>,
    nulls: usize,
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

    /// Whether the page in `zstd` is to be compressed, as the first one of its chunk was.
    fn pays(&mut self, zstd: &mut Zstd) -> io::Result<bool> {
        let plain = zstd.page.len();
        let dictionary = self.values.dictionary_bytes();
        let pays = match self.compressed {
            Some(pays) => pays,
            None if plain + dictionary < COMPRESSED_MIN => false,
            // Codes do not show their dictionary, which comes last: it is taken to be worth the
            // while.
            None if dictionary > 0 => true,
            None => zstd.shortens(plain.min(V::SAMPLE_BYTES), V::LEVEL)?,
        };
        self.compressed = Some(pays);
        Ok(pays)
    }
}

/// Values of which the latest can be added many times.
pub(crate) trait Repeated: Values {
    /// Adds the latest value this many times more.
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

    fn end_page(&mut self, rows: usize, zstd: &mut Zstd) -> io::Result<()> {
        let count = rows - self.page_start;
        zstd.page.clear();
        let mut values = count;
        if NULLABLE {
            values = put_levels(&mut self.presence, &mut zstd.page);
        }
        let encoding = match values {
            0 => PageEncoding::PLAIN,
            _ => self.values.put(&mut zstd.page),
        };
        self.nulls += count - values;
        self.page_start = rows;
        let plain = zstd.page.len();
        let pays = self.pays(zstd)?;
        let bytes = zstd.page(pays, V::LEVEL)?;
        self.pages
            .push(&PageKind::Data(count, encoding), plain, bytes);
        Ok(())
    }

    fn end(
        &mut self,
        rows: usize,
        column: &ColumnSpec,
        zstd: &mut Zstd,
        file: &mut PartFile,
    ) -> io::Result<()> {
        if self.page_start < rows {
            self.end_word(rows);
            self.end_page(rows, zstd)?;
        }
        let mut dictionary = Pages::default();
        zstd.page.clear();
        let entries = self.values.put_dictionary(&mut zstd.page);
        if entries > 0 {
            let plain = zstd.page.len();
            let pays = self.pays(zstd)?;
            let bytes = zstd.page(pays, V::LEVEL)?;
            dictionary.push(&PageKind::Dictionary(entries), plain, bytes);
        }
        let chunk = Chunk {
            rows,
            is_compressed: self.compressed.take() == Some(true),
            dictionary,
            pages: std::mem::take(&mut self.pages),
            statistics: self.values.statistics(self.nulls as u64),
        };
        file.push(column, chunk);
        self.values.clear();
        (self.page_start, self.nulls) = (0, 0);
        Ok(())
    }
}
