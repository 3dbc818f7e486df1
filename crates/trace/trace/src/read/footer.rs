//! The structures around a part's pages: footer and page headers (`parquet.thrift` of the Parquet
//! format).

use super::compact::Damage;
use super::compact::{Compact, Kind};

type Result<T> = std::result::Result<T, Damage>;

/// `FileMetaData`.
#[derive(Default)]
pub(super) struct Footer {
    pub(super) rows: u64,
    pub(super) fields: Vec<Field>,
    pub(super) groups: Vec<RowGroup>,
    pub(super) metadata: Vec<(String, Option<String>)>,
}

/// A column of the schema's first level.
pub(super) struct Field {
    pub(super) name: String,
    /// Its place in each row group's list of column chunks.
    pub(super) leaf: usize,
    /// What it holds, or the name of a type that is not read.
    pub(super) column_type: std::result::Result<ColumnType, String>,
    /// It has definition levels: values may be null.
    pub(super) is_optional: bool,
}

/// The types that a trace has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Boolean,
    Int32,
    Int64,
    Text,
    Bytes,
}

/// `RowGroup`.
#[derive(Default)]
pub(super) struct RowGroup {
    pub(super) rows: u64,
    pub(super) chunks: Vec<Chunk>,
}

/// `ColumnMetaData`: where the pages of a column are.
#[derive(Default, Clone)]
pub(super) struct Chunk {
    physical: i64,
    pub(super) codec: i64,
    pub(super) len: u64,
    data_offset: u64,
    dictionary_offset: Option<u64>,
    least: Option<[u8; 8]>,
    greatest: Option<[u8; 8]>,
    pub(super) nulls: Option<u64>,
}

impl Chunk {
    /// Where its first page begins in the file.
    pub(super) fn offset(&self) -> u64 {
        let dictionary = self.dictionary_offset.filter(|&offset| offset > 0);
        dictionary.map_or(self.data_offset, |offset| offset.min(self.data_offset))
    }

    /// The least and the greatest value of an `INT64` column.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        let range = self.least.zip(self.greatest)?;
        (self.physical == physical::INT64)
            .then(|| (i64::from_le_bytes(range.0), i64::from_le_bytes(range.1)))
    }
}

mod physical {
    pub(super) const BOOLEAN: i64 = 0;
    pub(super) const INT32: i64 = 1;
    pub(super) const INT64: i64 = 2;
    pub(super) const BYTE_ARRAY: i64 = 6;
    /// The others as they are called.
    pub(super) const NAMES: [&str; 8] = [
        "BOOLEAN",
        "INT32",
        "INT64",
        "INT96",
        "FLOAT",
        "DOUBLE",
        "BYTE_ARRAY",
        "FIXED_LEN_BYTE_ARRAY",
    ];
}

/// `SchemaElement`.
#[derive(Default)]
struct Element {
    name: String,
    physical: Option<i64>,
    repetition: i64,
    children: u64,
    converted: Option<i64>,
    logical: Option<Logical>,
}

enum Logical {
    Text,
    Integer { bits: i64, is_signed: bool },
    Other(i16),
}

impl Footer {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let mut footer = Self::default();
        let mut elements = Vec::new();
        Compact::new(bytes).fields(|compact, id, kind| {
            match id {
                2 => elements = compact.list(kind, Element::read)?,
                3 => footer.rows = compact.count(kind)?,
                4 => footer.groups = compact.list(kind, RowGroup::read)?,
                5 => footer.metadata = compact.list(kind, key_value)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        footer.fields = fields(&elements)?;
        Ok(footer)
    }
}

impl Footer {
    /// The metadata alone.
    pub(super) fn read_metadata(bytes: &[u8]) -> Result<Vec<(String, Option<String>)>> {
        let mut metadata = Vec::new();
        Compact::new(bytes).fields(|compact, id, kind| {
            if id == 5 {
                metadata = compact.list(kind, key_value)?;
            }
            Ok(id == 5)
        })?;
        Ok(metadata)
    }
}

fn key_value(compact: &mut Compact<'_>) -> Result<(String, Option<String>)> {
    let mut pair = (String::new(), None);
    compact.fields(|compact, id, kind| {
        match id {
            1 => pair.0 = compact.text(kind)?,
            2 => pair.1 = Some(compact.text(kind)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(pair)
}

/// The fields of the first level: the elements are a tree, each before its children.
fn fields(elements: &[Element]) -> Result<Vec<Field>> {
    const TREE: Damage = Damage("the schema is not a tree");
    let (root, mut left) = elements.split_first().ok_or(TREE)?;
    let mut fields = Vec::new();
    let mut leaf = 0;
    for _ in 0..root.children {
        let (element, rest) = left.split_first().ok_or(TREE)?;
        left = rest;
        fields.push(Field {
            name: element.name.clone(),
            leaf,
            column_type: element.column_type(),
            is_optional: element.repetition == OPTIONAL,
        });
        leaf += usize::from(element.children == 0);
        // What is below a group is passed over: no column of a trace is nested.
        let mut below = element.children;
        while below > 0 {
            let (element, rest) = left.split_first().ok_or(TREE)?;
            left = rest;
            below = (below - 1).checked_add(element.children).ok_or(TREE)?;
            leaf += usize::from(element.children == 0);
        }
    }
    Ok(fields)
}

const OPTIONAL: i64 = 1;
const REPEATED: i64 = 2;

impl Element {
    fn read(compact: &mut Compact<'_>) -> Result<Self> {
        let mut element = Self::default();
        compact.fields(|compact, id, kind| {
            match id {
                1 => element.physical = Some(compact.integer(kind)?),
                3 => element.repetition = compact.integer(kind)?,
                4 => element.name = compact.text(kind)?,
                5 => element.children = compact.count(kind)?,
                6 => element.converted = Some(compact.integer(kind)?),
                10 => element.logical = Logical::read(compact, kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(element)
    }

    fn column_type(&self) -> std::result::Result<ColumnType, String> {
        /// `ConvertedType`: what a writer gives that knows no logical types, or beside them.
        const UTF8: i64 = 0;
        const INT_32: i64 = 17;
        const INT_64: i64 = 18;
        let is_integer = |wanted| match self.logical {
            Some(Logical::Integer { bits, is_signed }) => bits == wanted && is_signed,
            Some(_) => false,
            None => match self.converted {
                None => true,
                Some(converted) => converted == if wanted == 32 { INT_32 } else { INT_64 },
            },
        };
        let is_plain = self.logical.is_none() && self.converted.is_none();
        let is_text = matches!(self.logical, Some(Logical::Text))
            || self.logical.is_none() && self.converted == Some(UTF8);
        if self.children > 0 || self.physical.is_none() || self.repetition == REPEATED {
            return Err("LIST or STRUCT".to_owned());
        }
        match self.physical {
            Some(physical::BOOLEAN) if is_plain => Ok(ColumnType::Boolean),
            Some(physical::INT32) if is_integer(32) => Ok(ColumnType::Int32),
            Some(physical::INT64) if is_integer(64) => Ok(ColumnType::Int64),
            Some(physical::BYTE_ARRAY) if is_text => Ok(ColumnType::Text),
            Some(physical::BYTE_ARRAY) if is_plain => Ok(ColumnType::Bytes),
            _ => Err(self.type_name()),
        }
    }

    fn type_name(&self) -> String {
        let physical = self
            .physical
            .and_then(|number| usize::try_from(number).ok());
        let name = physical.and_then(|number| physical::NAMES.get(number));
        let name = name.copied().unwrap_or("an unknown one");
        match (&self.logical, self.converted) {
            (Some(Logical::Integer { bits, is_signed }), _) => {
                format!("{name} ({}INT_{bits})", if *is_signed { "" } else { "U" })
            }
            (Some(Logical::Other(number)), _) => format!("{name} (logical type {number})"),
            (None, Some(number)) => format!("{name} (converted type {number})"),
            _ => name.to_owned(),
        }
    }
}

impl Logical {
    /// A union: a structure with one field.
    fn read(compact: &mut Compact<'_>, kind: Kind) -> Result<Option<Self>> {
        let mut logical = None;
        compact.structure(kind, |compact, id, kind| {
            logical = Some(match id {
                1 => Self::Text,
                10 => {
                    let (mut bits, mut is_signed) = (0, false);
                    compact.structure(kind, |compact, id, kind| {
                        match id {
                            1 => bits = compact.integer(kind)?,
                            2 => is_signed = compact.boolean(kind)?,
                            _ => return Ok(false),
                        }
                        Ok(true)
                    })?;
                    logical = Some(Self::Integer { bits, is_signed });
                    return Ok(true);
                }
                id => Self::Other(id),
            });
            Ok(false)
        })?;
        Ok(logical)
    }
}

impl RowGroup {
    fn read(compact: &mut Compact<'_>) -> Result<Self> {
        let mut group = Self::default();
        compact.fields(|compact, id, kind| {
            match id {
                1 => group.chunks = compact.list(kind, Chunk::read)?,
                3 => group.rows = compact.count(kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(group)
    }
}

impl Chunk {
    /// `ColumnChunk`, of which only its `ColumnMetaData` is needed.
    fn read(compact: &mut Compact<'_>) -> Result<Self> {
        let mut chunk = Self::default();
        compact.fields(|compact, id, kind| {
            if id != 3 {
                return Ok(false);
            }
            compact.structure(kind, |compact, id, kind| {
                match id {
                    1 => chunk.physical = compact.integer(kind)?,
                    4 => chunk.codec = compact.integer(kind)?,
                    7 => chunk.len = compact.count(kind)?,
                    9 => chunk.data_offset = compact.count(kind)?,
                    11 => chunk.dictionary_offset = Some(compact.count(kind)?),
                    12 => chunk.read_statistics(compact, kind)?,
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            Ok(true)
        })?;
        Ok(chunk)
    }

    fn read_statistics(&mut self, compact: &mut Compact<'_>, kind: Kind) -> Result<()> {
        let (mut old_least, mut old_greatest) = (None, None);
        compact.structure(kind, |compact, id, kind| {
            match id {
                1 => old_greatest = compact.binary(kind)?.try_into().ok(),
                2 => old_least = compact.binary(kind)?.try_into().ok(),
                3 => self.nulls = u64::try_from(compact.integer(kind)?).ok(),
                5 => self.greatest = compact.binary(kind)?.try_into().ok(),
                6 => self.least = compact.binary(kind)?.try_into().ok(),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        // The older fields order numbers as signed ones, which these are.
        self.least = self.least.or(old_least);
        self.greatest = self.greatest.or(old_greatest);
        Ok(())
    }
}

/// `PageHeader`.
#[derive(Default)]
pub(super) struct PageHeader {
    pub(super) kind: i64,
    /// Bytes once decompressed, and as they lie in the file.
    pub(super) uncompressed_len: u64,
    pub(super) compressed_len: u64,
    pub(super) values: u64,
    pub(super) encoding: i64,
    pub(super) levels_encoding: i64,
    /// Of the second version: bytes of levels before the compressed values.
    pub(super) definition_len: u64,
    pub(super) repetition_len: u64,
    pub(super) is_uncompressed: bool,
}

impl PageHeader {
    pub(super) const DATA: i64 = 0;
    pub(super) const DICTIONARY: i64 = 2;
    pub(super) const DATA_V2: i64 = 3;

    /// The header at the beginning of `bytes`, and how many bytes it takes.
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, usize)> {
        let mut header = Self::default();
        let mut compact = Compact::new(bytes);
        compact.fields(|compact, id, kind| {
            match id {
                1 => header.kind = compact.integer(kind)?,
                2 => header.uncompressed_len = compact.count(kind)?,
                3 => header.compressed_len = compact.count(kind)?,
                5 | 7 | 8 => header.read_body(id, compact, kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let left = compact.left();
        Ok((header, bytes.len() - left))
    }

    /// The part of a header that depends on the kind of page.
    fn read_body(&mut self, version: i16, compact: &mut Compact<'_>, kind: Kind) -> Result<()> {
        let is_v2 = version == 8;
        compact.structure(kind, |compact, id, kind| {
            match id {
                1 => self.values = compact.count(kind)?,
                2 if !is_v2 => self.encoding = compact.integer(kind)?,
                3 if version == 5 => self.levels_encoding = compact.integer(kind)?,
                4 if is_v2 => self.encoding = compact.integer(kind)?,
                5 if is_v2 => self.definition_len = compact.count(kind)?,
                6 if is_v2 => self.repetition_len = compact.count(kind)?,
                7 if is_v2 => self.is_uncompressed = !compact.boolean(kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })
    }
}
