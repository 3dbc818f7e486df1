//! A part as a Parquet file: the headers of its pages, and the footer behind them.
//!
//! ```text
//!  "PAR1" │ column 0: [dictionary page] page … │ column 1: … │ footer │ its length │ "PAR1"
//! ```
//!
//! The structures are those of the Parquet format's `parquet.thrift`, in Thrift's compact protocol,
//! as far as flat columns of five types need them: no indexes, no nesting, no deprecated fields.
//! What reads them is in [`read`](crate::read); tests hold both to the `parquet` crate.

use lineside_rows::{ColumnSpec, ColumnType};

use crate::page::{put_varint, put_zigzag};
use crate::read::compact::kind;

/// What a file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";

/// How the values of a page are laid out, as the format numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageEncoding(u8);

impl PageEncoding {
    pub(crate) const PLAIN: Self = Self(0);
    pub(crate) const RLE: Self = Self(3);
    pub(crate) const DELTA_BINARY_PACKED: Self = Self(5);
    pub(crate) const RLE_DICTIONARY: Self = Self(8);
}

/// The encodings of a chunk's pages.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct PageEncodings(u16);

impl PageEncodings {
    pub(crate) fn insert(&mut self, encoding: PageEncoding) {
        self.0 |= 1 << encoding.0;
    }

    fn numbers(self) -> impl Iterator<Item = u8> {
        (0..16).filter(move |number| self.0 >> number & 1 == 1)
    }
}

/// What is in a page.
pub(crate) enum PageKind {
    /// So many rows, of which those that are not null are in this encoding.
    Data(usize, PageEncoding),
    /// So many entries.
    Dictionary(usize),
}

impl PageKind {
    fn encoding(&self) -> PageEncoding {
        match self {
            Self::Data(_, encoding) => *encoding,
            Self::Dictionary(_) => PageEncoding::PLAIN,
        }
    }
}

/// The least and the greatest value of a chunk, as `PLAIN` has them.
pub(crate) enum Bounds<'a> {
    /// Not known, or none.
    None,
    /// The first bytes, this many, of both.
    Number([[u8; 8]; 2], usize),
    Text([&'a [u8]; 2]),
}

/// What is known of a chunk's values.
pub(crate) struct Statistics<'a> {
    pub(crate) nulls: u64,
    pub(crate) bounds: Bounds<'a>,
}

/// The pages of a chunk, without its dictionary.
#[derive(Default)]
pub(crate) struct Pages {
    /// What comes before `bytes`, and its length: a buffer that grows would hold up to twice as
    /// much, and leave a hole in the heap each time that it moves. So a page has one of its size.
    pieces: Vec<Vec<u8>>,
    pieces_len: usize,
    bytes: Vec<u8>,
    encodings: PageEncodings,
    /// Bytes of all pages before they were compressed, with their headers.
    plain_bytes: usize,
}

impl Pages {
    /// Appends a page of `plain` bytes that are `bytes` in the file.
    pub(crate) fn push(&mut self, kind: &PageKind, plain: usize, bytes: &[u8]) {
        if self.bytes.len() >= PIECE_BYTES {
            self.pieces_len += self.bytes.len();
            self.pieces.push(std::mem::take(&mut self.bytes));
        }
        self.bytes.reserve(PAGE_HEAD_MAX + bytes.len());
        let start = self.bytes.len();
        put_page_head(kind, plain, bytes.len(), &mut self.bytes);
        self.plain_bytes += self.bytes.len() - start + plain;
        self.encodings.insert(kind.encoding());
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces_len + self.bytes.len()
    }
}

/// A chunk of a column.
pub(crate) struct Chunk<'a> {
    pub(crate) rows: usize,
    pub(crate) is_compressed: bool,
    pub(crate) dictionary: Pages,
    pub(crate) pages: Pages,
    pub(crate) statistics: Option<Statistics<'a>>,
}

/// Bytes of a column that become a piece of the file as they are: to copy them would take as much
/// memory again.
const PIECE_BYTES: usize = 4 << 10;
/// What a page has before its bytes, at most: a guess, beyond which its buffer grows.
const PAGE_HEAD_MAX: usize = 48;

/// A part of which not all columns are there.
pub(crate) struct PartFile {
    /// What comes before `bytes`, and its length.
    pieces: Vec<Vec<u8>>,
    pieces_len: usize,
    bytes: Vec<u8>,
    /// The chunks' structures of the footer.
    chunks: Vec<u8>,
    plain_bytes: usize,
}

impl PartFile {
    pub(crate) fn new() -> Self {
        Self {
            pieces: Vec::new(),
            pieces_len: 0,
            bytes: MAGIC.to_vec(),
            chunks: Vec::new(),
            plain_bytes: 0,
        }
    }

    /// Appends the chunk of the next column.
    pub(crate) fn push<'a>(&mut self, column: impl Into<ColumnHead<'a>>, chunk: Chunk<'_>) {
        let column = column.into();
        let plain = chunk.dictionary.plain_bytes + chunk.pages.plain_bytes;
        self.plain_bytes += plain;
        let mut encodings = chunk.pages.encodings;
        encodings.0 |= chunk.dictionary.encodings.0;
        let start = self.len();
        self.append(chunk.dictionary);
        let data = self.len();
        self.append(chunk.pages);
        let end = self.len();
        if column.is_nullable {
            encodings.insert(PageEncoding::RLE);
        }
        let mut fields = Fields::new(&mut self.chunks);
        // `file_offset`, which has no meaning.
        fields.i64(2, 0);
        fields.structure(3, |fields| {
            fields.i32(1, column.physical as i32);
            let mut list = fields.list(2, kind::I32, encodings.numbers().count());
            encodings
                .numbers()
                .for_each(|number| list.i32(number.into()));
            fields
                .list(3, kind::BINARY, 1)
                .binary(column.name.as_bytes());
            fields.i32(
                4,
                if chunk.is_compressed {
                    codec::ZSTD
                } else {
                    codec::NONE
                },
            );
            fields.i64(5, chunk.rows);
            fields.i64(6, plain);
            fields.i64(7, end - start);
            fields.i64(9, data);
            if data > start {
                fields.i64(11, start);
            }
            if let Some(statistics) = &chunk.statistics {
                fields.structure(12, |fields| statistics.put(fields));
            }
        });
        fields.end();
    }

    fn len(&self) -> usize {
        self.pieces_len + self.bytes.len()
    }

    fn append(&mut self, pages: Pages) {
        for bytes in pages.pieces.into_iter().chain([pages.bytes]) {
            if bytes.len() < PIECE_BYTES {
                self.bytes.extend_from_slice(&bytes);
                continue;
            }
            self.pieces_len += self.bytes.len() + bytes.len();
            let before = std::mem::take(&mut self.bytes);
            self.pieces.extend(
                [before, bytes]
                    .into_iter()
                    .filter(|piece| !piece.is_empty()),
            );
        }
    }

    /// The pieces of the file: of one row group, or of none if the part has no rows. `metadata` are
    /// names and values.
    pub(crate) fn end<'a>(
        mut self,
        columns: impl ExactSizeIterator<Item = impl Into<ColumnHead<'a>>>,
        rows: usize,
        metadata: &[(&str, &str)],
    ) -> Vec<Vec<u8>> {
        let (start, footer) = (self.len(), self.bytes.len());
        let columns_len = columns.len();
        let mut fields = Fields::new(&mut self.bytes);
        fields.i32(1, 1);
        put_schema(columns, &mut fields);
        fields.i64(3, rows);
        let groups = usize::from(rows > 0);
        let mut list = fields.list(4, kind::STRUCT, groups);
        if groups > 0 {
            let mut group = list.fields();
            group.list(1, kind::STRUCT, columns_len);
            group.out.extend_from_slice(&self.chunks);
            group.i64(2, self.plain_bytes);
            group.i64(3, rows);
            group.i64(5, MAGIC.len());
            group.i64(6, start - MAGIC.len());
            group.end();
        }
        let mut list = fields.list(5, kind::STRUCT, metadata.len());
        for (name, value) in metadata {
            let mut pair = list.fields();
            pair.binary(1, name.as_bytes());
            pair.binary(2, value.as_bytes());
            pair.end();
        }
        fields.binary(
            6,
            concat!("lineside ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        // Bounds are by the order of the column's type.
        let mut list = fields.list(7, kind::STRUCT, columns_len);
        for _ in 0..columns_len {
            let mut order = list.fields();
            order.structure(1, |_| {});
            order.end();
        }
        fields.end();
        let len = (self.bytes.len() - footer) as u32;
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(MAGIC);
        self.pieces.push(self.bytes);
        self.pieces
    }
}

/// `CompressionCodec`.
mod codec {
    pub(super) const NONE: i32 = 0;
    pub(super) const ZSTD: i32 = 6;
}

/// What the footer says of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnHead<'a> {
    pub(crate) name: &'a str,
    pub(crate) physical: Physical,
    pub(crate) is_text: bool,
    pub(crate) is_nullable: bool,
}

/// `Type`, as the format numbers it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Physical {
    Boolean = 0,
    Int32 = 1,
    Int64 = 2,
    Double = 5,
    Bytes = 6,
}

impl From<&ColumnSpec> for ColumnHead<'_> {
    fn from(column: &ColumnSpec) -> Self {
        Self {
            name: column.name,
            physical: match column.column_type {
                ColumnType::Boolean => Physical::Boolean,
                ColumnType::Int32 => Physical::Int32,
                ColumnType::Int64 => Physical::Int64,
                ColumnType::String | ColumnType::Bytes => Physical::Bytes,
            },
            is_text: column.column_type == ColumnType::String,
            is_nullable: column.null.is_some(),
        }
    }
}

/// The schema: a group, and the columns in it.
fn put_schema<'a>(
    columns: impl ExactSizeIterator<Item = impl Into<ColumnHead<'a>>>,
    fields: &mut Fields<'_>,
) {
    /// `ConvertedType` of a text, for readers that know no logical types.
    const UTF8: i32 = 0;
    let mut list = fields.list(2, kind::STRUCT, 1 + columns.len());
    let mut root = list.fields();
    root.binary(4, b"schema");
    root.i32(5, columns.len() as i32);
    root.end();
    for column in columns {
        let column = column.into();
        let mut element = list.fields();
        element.i32(1, column.physical as i32);
        element.i32(3, column.is_nullable.into());
        element.binary(4, column.name.as_bytes());
        if column.is_text {
            element.i32(6, UTF8);
            // `LogicalType`: the member `STRING` of the union.
            element.structure(10, |fields| fields.structure(1, |_| {}));
        }
        element.end();
    }
}

/// Appends a page's header: of `plain` bytes that are `len` in the file.
fn put_page_head(page: &PageKind, plain: usize, len: usize, out: &mut Vec<u8>) {
    let mut fields = Fields::new(out);
    let number = match page {
        PageKind::Data(..) => 0,
        PageKind::Dictionary(_) => 2,
    };
    fields.i32(1, number);
    fields.i32(2, plain as i32);
    fields.i32(3, len as i32);
    match *page {
        PageKind::Data(rows, encoding) => fields.structure(5, |fields| {
            fields.i32(1, rows as i32);
            fields.i32(2, encoding.0.into());
            // The levels: which rows have a value.
            fields.i32(3, PageEncoding::RLE.0.into());
            fields.i32(4, PageEncoding::RLE.0.into());
        }),
        PageKind::Dictionary(entries) => fields.structure(7, |fields| {
            fields.i32(1, entries as i32);
            fields.i32(2, PageEncoding::PLAIN.0.into());
        }),
    }
    fields.end();
}

impl Statistics<'_> {
    fn put(&self, fields: &mut Fields<'_>) {
        fields.i64(3, self.nulls as usize);
        let (least, greatest) = match &self.bounds {
            Bounds::None => return,
            Bounds::Number([least, greatest], len) => (&least[..*len], &greatest[..*len]),
            Bounds::Text([least, greatest]) => (*least, *greatest),
        };
        fields.binary(5, greatest);
        fields.binary(6, least);
    }
}

/// The fields of a structure, in the order of their numbers.
struct Fields<'a> {
    out: &'a mut Vec<u8>,
    latest: u8,
}

impl<'a> Fields<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, latest: 0 }
    }

    fn head(&mut self, id: u8, kind: u8) {
        // Numbers are at most 12 apart here; a field after a longer gap would be written otherwise.
        debug_assert!((1..16).contains(&(id - self.latest)));
        self.out.push((id - self.latest) << 4 | kind);
        self.latest = id;
    }

    fn i32(&mut self, id: u8, value: i32) {
        self.head(id, kind::I32);
        put_zigzag(value.into(), self.out);
    }

    fn i64(&mut self, id: u8, value: usize) {
        self.head(id, kind::I64);
        put_zigzag(value as i64, self.out);
    }

    fn binary(&mut self, id: u8, bytes: &[u8]) {
        self.head(id, kind::BINARY);
        put_binary(bytes, self.out);
    }

    fn structure(&mut self, id: u8, put: impl FnOnce(&mut Fields<'_>)) {
        self.head(id, kind::STRUCT);
        let mut fields = Fields::new(self.out);
        put(&mut fields);
        fields.end();
    }

    /// The head of a list: `len` elements of the kind are to follow.
    fn list(&mut self, id: u8, kind: u8, len: usize) -> Elements<'_> {
        self.head(id, kind::LIST);
        match u8::try_from(len) {
            Ok(len @ 0..15) => self.out.push(len << 4 | kind),
            _ => {
                self.out.push(0xf0 | kind);
                put_varint(len as u64, self.out);
            }
        }
        Elements(self.out)
    }

    fn end(self) {
        self.out.push(0);
    }
}

/// The elements of a list.
struct Elements<'a>(&'a mut Vec<u8>);

impl Elements<'_> {
    fn i32(&mut self, value: i32) {
        put_zigzag(value.into(), self.0);
    }

    fn binary(&mut self, bytes: &[u8]) {
        put_binary(bytes, self.0);
    }

    fn fields(&mut self) -> Fields<'_> {
        Fields::new(self.0)
    }
}

fn put_binary(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
