//! Thrift's compact protocol, in which Parquet writes its footer and page headers: as much of it as
//! reading takes.

/// What is damaged. Unlike `ReadError` it is copied, so that no value has one to drop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Damage(pub(super) &'static str);

type Result<T> = std::result::Result<T, Damage>;

/// Structures within structures. Parquet's go five deep.
const DEPTH_MAX: usize = 32;

const ENDS: Damage = Damage("a structure ends early");
const TYPE: Damage = Damage("a field has another type");

/// The type of a field, as the compact protocol numbers it.
pub(super) type Kind = u8;

pub(crate) mod kind {
    pub(crate) const TRUE: u8 = 1;
    pub(crate) const FALSE: u8 = 2;
    pub(crate) const BYTE: u8 = 3;
    pub(crate) const I16: u8 = 4;
    #[cfg(feature = "parquet")]
    pub(crate) const I32: u8 = 5;
    pub(crate) const I64: u8 = 6;
    pub(crate) const DOUBLE: u8 = 7;
    pub(crate) const BINARY: u8 = 8;
    pub(crate) const LIST: u8 = 9;
    pub(crate) const SET: u8 = 10;
    pub(crate) const MAP: u8 = 11;
    pub(crate) const STRUCT: u8 = 12;
}

/// What is left to read.
pub(super) struct Compact<'a> {
    bytes: &'a [u8],
    depth: usize,
}

impl<'a> Compact<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, depth: 0 }
    }

    /// Bytes that were not read.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Reads a structure. `each` gets the number and type of each field and reads it, or returns
    /// false for one that it does not know, which is skipped.
    pub(super) fn fields(
        &mut self,
        mut each: impl FnMut(&mut Self, i16, Kind) -> Result<bool>,
    ) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Damage("structures go too deep"));
        }
        let mut id = 0_i16;
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                self.depth -= 1;
                return Ok(());
            }
            id = match i16::from(byte >> 4) {
                0 => self.zigzag()? as i16,
                delta => id.wrapping_add(delta),
            };
            let kind = byte & 0xf;
            if !each(self, id, kind)? {
                self.skip(kind)?;
            }
        }
    }

    /// Reads a field that is a structure.
    pub(super) fn structure(
        &mut self,
        kind: Kind,
        each: impl FnMut(&mut Self, i16, Kind) -> Result<bool>,
    ) -> Result<()> {
        if kind != kind::STRUCT {
            return Err(TYPE);
        }
        self.fields(each)
    }

    /// Reads a list of structures, each with `read`.
    pub(super) fn list<T>(
        &mut self,
        kind: Kind,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        if kind != kind::LIST {
            return Err(TYPE);
        }
        let (count, kind) = self.list_head()?;
        if kind != kind::STRUCT && count > 0 {
            return Err(TYPE);
        }
        (0..count).map(|_| read(self)).collect()
    }

    /// Reads an integer of any width.
    pub(super) fn integer(&mut self, kind: Kind) -> Result<i64> {
        match kind {
            kind::BYTE => Ok(i64::from(self.byte()?.cast_signed())),
            kind::I16..=kind::I64 => self.zigzag(),
            _ => Err(TYPE),
        }
    }

    /// Reads a number that counts or measures something.
    pub(super) fn count(&mut self, kind: Kind) -> Result<u64> {
        let value = self.integer(kind)?;
        u64::try_from(value).map_err(|_| Damage("a count is negative"))
    }

    /// Reads a truth value, which is in the type.
    pub(super) fn boolean(&mut self, kind: Kind) -> Result<bool> {
        match kind {
            kind::TRUE => Ok(true),
            kind::FALSE => Ok(false),
            _ => Err(TYPE),
        }
    }

    /// Reads bytes or a text.
    pub(super) fn binary(&mut self, kind: Kind) -> Result<&'a [u8]> {
        if kind != kind::BINARY {
            return Err(TYPE);
        }
        let len = self.varint()?;
        self.take(len)
    }

    /// Reads a text.
    pub(super) fn text(&mut self, kind: Kind) -> Result<String> {
        let text = std::str::from_utf8(self.binary(kind)?);
        let text = text.map_err(|_| Damage("a name is not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn skip(&mut self, kind: Kind) -> Result<()> {
        match kind {
            kind::TRUE | kind::FALSE => {}
            kind::BYTE => _ = self.byte()?,
            kind::I16..=kind::I64 => _ = self.varint()?,
            kind::DOUBLE => _ = self.take(8)?,
            kind::BINARY => _ = self.binary(kind)?,
            kind::LIST | kind::SET => {
                let (count, kind) = self.list_head()?;
                (0..count).try_for_each(|_| self.skip_element(kind))?;
            }
            kind::MAP => {
                let count = self.varint()?;
                if count > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..self.at_most_left(count)? {
                        self.skip_element(kinds >> 4)?;
                        self.skip_element(kinds & 0xf)?;
                    }
                }
            }
            kind::STRUCT => self.fields(|_, _, _| Ok(false))?,
            _ => return Err(Damage("a field has an unknown type")),
        }
        Ok(())
    }

    /// Skips an element of a list, where truth values are bytes.
    fn skip_element(&mut self, kind: Kind) -> Result<()> {
        match kind {
            kind::TRUE | kind::FALSE => self.byte().map(|_| ()),
            kind::LIST | kind::SET | kind::MAP => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(Damage("structures go too deep"));
                }
                self.skip(kind)?;
                self.depth -= 1;
                Ok(())
            }
            _ => self.skip(kind),
        }
    }

    fn list_head(&mut self) -> Result<(usize, Kind)> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        Ok((self.at_most_left(count)?, byte & 0xf))
    }

    /// Elements that can be there: each takes at least a byte.
    fn at_most_left(&self, count: u64) -> Result<usize> {
        let count = usize::try_from(count).ok();
        count.filter(|&count| count <= self.bytes.len()).ok_or(ENDS)
    }

    fn zigzag(&mut self) -> Result<i64> {
        self.varint().map(from_zigzag)
    }

    fn varint(&mut self) -> Result<u64> {
        let (value, len) = varint(self.bytes).ok_or(ENDS)?;
        self.bytes = &self.bytes[len..];
        Ok(value)
    }

    fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.bytes.split_first().ok_or(ENDS)?;
        self.bytes = rest;
        Ok(byte)
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let len = usize::try_from(len).map_err(|_| ENDS)?;
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(ENDS)?;
        self.bytes = rest;
        Ok(taken)
    }
}

/// A number in groups of seven bits, the lowest first (ULEB128), and the bytes that it takes.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
    }
    None
}

pub(super) fn from_zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}
