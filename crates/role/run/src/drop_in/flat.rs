//! FlatBuffers, as far as Arrow's messages need them: a builder and a reader of tables.
//!
//! A buffer is built from its end to its beginning, so that what refers comes before what it refers
//! to. While it is built its bytes are kept in reverse, and a place is its distance from the end.

/// A buffer that is built.
#[derive(Debug, Default)]
pub(super) struct Builder {
    reversed: Vec<u8>,
}

/// Where something is, by its distance from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(usize);

/// A field of a table.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    /// One that is not there: its default.
    Absent,
    /// A byte, or a boolean.
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    /// A table, a vector or a text.
    At(Place),
}

impl Builder {
    fn put(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }

    /// Pads, so that after `len` bytes more the place is a multiple of `align`.
    fn pad(&mut self, len: usize, align: usize) {
        let end = (self.reversed.len() + len).next_multiple_of(align) - len;
        self.reversed.resize(end, 0);
    }

    fn put_reference(&mut self, to: Place) {
        self.pad(4, 4);
        let offset = self.reversed.len() + 4 - to.0;
        self.put(&(offset as u32).to_le_bytes());
    }

    fn here(&self) -> Place {
        Place(self.reversed.len())
    }

    pub(super) fn text(&mut self, text: &str) -> Place {
        self.pad(text.len() + 1, 4);
        self.put(&[0]);
        self.put(text.as_bytes());
        self.put(&(text.len() as u32).to_le_bytes());
        self.here()
    }

    pub(super) fn places(&mut self, places: &[Place]) -> Place {
        self.pad(4 * places.len(), 4);
        places.iter().rev().for_each(|&to| self.put_reference(to));
        self.put(&(places.len() as u32).to_le_bytes());
        self.here()
    }

    /// A vector of structures of two numbers.
    pub(super) fn pairs(&mut self, pairs: &[(i64, i64)]) -> Place {
        self.pad(16 * pairs.len(), 8);
        for (first, second) in pairs.iter().rev() {
            self.put(&second.to_le_bytes());
            self.put(&first.to_le_bytes());
        }
        self.put(&(pairs.len() as u32).to_le_bytes());
        self.here()
    }

    pub(super) fn table(&mut self, fields: &[Field]) -> Place {
        let start = self.reversed.len();
        let mut places = vec![0; fields.len()];
        for (place, field) in places.iter_mut().zip(fields) {
            match *field {
                Field::Absent => continue,
                Field::Byte(value) => self.put(&[value]),
                Field::Short(value) => {
                    self.pad(2, 2);
                    self.put(&value.to_le_bytes());
                }
                Field::Int(value) => {
                    self.pad(4, 4);
                    self.put(&value.to_le_bytes());
                }
                Field::Long(value) => {
                    self.pad(8, 8);
                    self.put(&value.to_le_bytes());
                }
                Field::At(to) => self.put_reference(to),
            }
            *place = self.reversed.len();
        }
        self.pad(4, 4);
        self.put(&[0; 4]);
        let table = self.here();
        for &place in places.iter().rev() {
            let offset = if place == 0 { 0 } else { table.0 - place };
            self.put(&(offset as u16).to_le_bytes());
        }
        self.put(&((table.0 - start) as u16).to_le_bytes());
        self.put(&((4 + 2 * fields.len()) as u16).to_le_bytes());
        let back = (self.reversed.len() - table.0) as u32;
        for (byte, value) in
            { self.reversed[table.0 - 4..table.0].iter_mut().rev() }.zip(back.to_le_bytes())
        {
            *byte = value;
        }
        table
    }

    /// The buffer, whose root is a table; its length is a multiple of 8.
    pub(super) fn finish(mut self, root: Place) -> Vec<u8> {
        self.pad(4, 8);
        self.put_reference(root);
        self.reversed.reverse();
        self.reversed
    }
}

/// A table of a buffer that somebody else built: what lies beyond its end is `None`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn follow(bytes: &[u8], at: usize) -> Option<usize> {
    let offset = u32::from_le_bytes(number(bytes, at)?);
    at.checked_add(usize::try_from(offset).ok()?)
}

impl<'a> Table<'a> {
    /// The root of a buffer.
    pub(super) fn root(bytes: &'a [u8]) -> Option<Self> {
        let at = follow(bytes, 0)?;
        Some(Self { bytes, at })
    }

    /// Where a field is; `Some(None)`: it is not there.
    fn field(&self, slot: usize) -> Option<Option<usize>> {
        let back = i32::from_le_bytes(number(self.bytes, self.at)?);
        let table = i64::try_from(self.at).ok()?;
        let vtable = usize::try_from(table - i64::from(back)).ok()?;
        let len = u16::from_le_bytes(number(self.bytes, vtable)?);
        let entry = 4 + 2 * slot;
        if entry + 2 > usize::from(len) {
            return Some(None);
        }
        let offset = u16::from_le_bytes(number(self.bytes, vtable.checked_add(entry)?)?);
        Some((offset != 0).then(|| self.at + usize::from(offset)))
    }

    pub(super) fn byte(&self, slot: usize) -> Option<u8> {
        match self.field(slot)? {
            Some(at) => self.bytes.get(at).copied(),
            None => Some(0),
        }
    }

    pub(super) fn short(&self, slot: usize, default: i16) -> Option<i16> {
        match self.field(slot)? {
            Some(at) => Some(i16::from_le_bytes(number(self.bytes, at)?)),
            None => Some(default),
        }
    }

    pub(super) fn int(&self, slot: usize, default: i32) -> Option<i32> {
        match self.field(slot)? {
            Some(at) => Some(i32::from_le_bytes(number(self.bytes, at)?)),
            None => Some(default),
        }
    }

    pub(super) fn long(&self, slot: usize) -> Option<i64> {
        match self.field(slot)? {
            Some(at) => Some(i64::from_le_bytes(number(self.bytes, at)?)),
            None => Some(0),
        }
    }

    /// Whether a field is there.
    pub(super) fn has(&self, slot: usize) -> Option<bool> {
        Some(self.field(slot)?.is_some())
    }

    /// The table that a field refers to.
    pub(super) fn table(&self, slot: usize) -> Option<Self> {
        let at = follow(self.bytes, self.field(slot)??)?;
        Some(Self {
            bytes: self.bytes,
            at,
        })
    }

    /// The elements of a vector, each of `len` bytes, and where they begin.
    fn vector(&self, slot: usize, len: usize) -> Option<(usize, &'a [u8])> {
        let Some(at) = self.field(slot)? else {
            return Some((0, &[]));
        };
        let at = follow(self.bytes, at)?;
        let count = u32::from_le_bytes(number(self.bytes, at)?);
        let len = usize::try_from(count).ok()?.checked_mul(len)?;
        Some((at + 4, self.bytes.get(at + 4..)?.get(..len)?))
    }

    pub(super) fn text(&self, slot: usize) -> Option<&'a str> {
        std::str::from_utf8(self.vector(slot, 1)?.1).ok()
    }

    pub(super) fn tables(&self, slot: usize) -> Option<Vec<Self>> {
        let (start, elements) = self.vector(slot, 4)?;
        let places = (0..elements.len() / 4).map(|place| start + 4 * place);
        let tables = places.map(|place| {
            let at = follow(self.bytes, place)?;
            Some(Self {
                bytes: self.bytes,
                at,
            })
        });
        tables.collect()
    }

    /// A vector of structures of two numbers.
    pub(super) fn pairs(&self, slot: usize) -> Option<Vec<(i64, i64)>> {
        let (_, elements) = self.vector(slot, 16)?;
        let pairs = elements.as_chunks::<16>().0.iter();
        let pair = |bytes: &[u8; 16]| {
            let value = u128::from_le_bytes(*bytes);
            (
                (value as u64).cast_signed(),
                ((value >> 64) as u64).cast_signed(),
            )
        };
        Some(pairs.map(pair).collect())
    }
}
