//! Lists and arrays of entries that are read where they lie, again at each iteration.

use std::fmt;
use std::marker::PhantomData;

use lineside_frame::Cursor;

use super::{Scalar, Xdr};

/// A linked list (RFC 4506 section 4.19): before each entry a boolean: whether there is one.
///
/// Decoding walks over the list and keeps only where it begins; each iteration reads it again. It
/// is no longer than the bytes there: every step takes some or ends the iteration.
pub struct List<'a, T> {
    entries: Entries<'a, T>,
}

enum Entries<'a, T> {
    Wire(Cursor<'a>),
    Slice(&'a [T]),
}

impl<'a, T: Xdr<'a> + Copy> List<'a, T> {
    /// A list of `entries`, to be encoded.
    pub fn new(entries: &'a [T]) -> Self {
        Self {
            entries: Entries::Slice(entries),
        }
    }

    /// The entries that were seen; of the last one perhaps only a part.
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter {
            entries: self.entries,
        }
    }
}

impl<'a, T: Xdr<'a> + Copy> IntoIterator for &List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

/// Iterates over a [`List`].
pub struct ListIter<'a, T> {
    entries: Entries<'a, T>,
}

impl<'a, T: Xdr<'a> + Copy> Iterator for ListIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.entries {
            Entries::Slice(entries) => entries.split_off_first().copied(),
            Entries::Wire(cursor) => {
                if !bool::read(cursor)? {
                    // Bytes after the list are not an entry.
                    cursor.reject();
                    return None;
                }
                let start = cursor.position();
                let entry = T::decode(cursor);
                (cursor.position() > start).then_some(entry)
            }
        }
    }
}

impl<'a, T: Xdr<'a> + Copy> Xdr<'a> for List<'a, T> {
    const SIZE: Option<usize> = None;

    fn decode(cursor: &mut Cursor<'a>) -> Self {
        let entries = Entries::Wire(*cursor);
        while bool::read(cursor) == Some(true) {
            T::skip(cursor);
        }
        Self { entries }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for entry in self {
            true.write(out);
            entry.encode(out);
        }
        false.write(out);
    }

    fn agrees(&self, whole: &Self) -> bool {
        let mut whole = whole.iter();
        self.iter()
            .all(|entry| whole.next().is_some_and(|whole| entry.agrees(&whole)))
    }
}

impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<'_, T> {}

impl<T> Clone for Entries<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Entries<'_, T> {}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self {
            entries: Entries::Slice(&[]),
        }
    }
}

impl<'a, T: Xdr<'a> + Copy + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Xdr<'a> + Copy + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// A counted array (RFC 4506 section 4.13) of at most `MAX` values of fixed size. More is
/// malformed.
#[derive(Clone, Copy)]
pub struct Array<'a, T, const MAX: usize> {
    count: Option<u32>,
    start: Cursor<'a>,
    slice: Option<&'a [T]>,
    item: PhantomData<T>,
}

impl<'a, T: Scalar<'a>, const MAX: usize> Array<'a, T, MAX> {
    const ITEM_SIZE: usize = T::SIZE.expect("an array's values have a fixed size");

    /// An array of `items`, to be encoded: at most `MAX`.
    pub fn new(items: &'a [T]) -> Self {
        debug_assert!(
            items.len() <= MAX,
            "{} values where {MAX} may stand",
            items.len()
        );
        Self {
            count: Some(items.len() as u32),
            start: Cursor::new(&[]),
            slice: Some(items),
            item: PhantomData,
        }
    }

    /// How many values there are, if that was seen.
    pub fn count(&self) -> Option<u32> {
        self.count
    }

    /// The values that were seen.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T, MAX> {
        let (slice, mut start) = (self.slice, self.start);
        (0..self.count.unwrap_or(0) as usize).map_while(move |at| match slice {
            Some(items) => items.get(at).copied(),
            None => T::read(&mut start),
        })
    }
}

impl<'a, T: Scalar<'a>, const MAX: usize> Xdr<'a> for Array<'a, T, MAX> {
    const SIZE: Option<usize> = None;

    fn decode(cursor: &mut Cursor<'a>) -> Self {
        let mut count = cursor.u32();
        let start = *cursor;
        match count {
            Some(items) if items as usize > MAX => {
                cursor.reject();
                count = None;
            }
            Some(items) => drop(cursor.view(items as usize * Self::ITEM_SIZE)),
            None => {}
        }
        Self {
            count,
            start,
            slice: None,
            item: PhantomData,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.count.encode(out);
        for item in self.iter() {
            item.write(out);
        }
    }

    fn agrees(&self, whole: &Self) -> bool {
        let mut items = whole.iter();
        self.count.agrees(&whole.count) && self.iter().all(|item| items.next() == Some(item))
    }
}

impl<T, const MAX: usize> Default for Array<'_, T, MAX> {
    fn default() -> Self {
        Self {
            count: None,
            start: Cursor::new(&[]),
            slice: None,
            item: PhantomData,
        }
    }
}

impl<'a, T: Scalar<'a>, const MAX: usize> PartialEq for Array<'a, T, MAX> {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl<'a, T: Scalar<'a> + fmt::Debug, const MAX: usize> fmt::Debug for Array<'a, T, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A counted array (RFC 4506 section 4.13) of at most `MAX` values of any type. More is malformed.
///
/// Like a [`List`] it keeps only where the values begin, and reads them again in each iteration.
pub struct Counted<'a, T, const MAX: u32 = { u32::MAX }> {
    count: Option<u32>,
    entries: Entries<'a, T>,
}

impl<'a, T: Xdr<'a> + Copy, const MAX: u32> Counted<'a, T, MAX> {
    /// An array of `items`, to be encoded: at most `MAX`.
    pub fn new(items: &'a [T]) -> Self {
        debug_assert!(items.len() <= MAX as usize, "more than {MAX} values");
        Self {
            count: Some(items.len() as u32),
            entries: Entries::Slice(items),
        }
    }

    /// How many values there are, if that was seen.
    pub fn count(&self) -> Option<u32> {
        self.count
    }

    /// The values that were seen; of the last one perhaps only a part.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T, MAX> {
        let mut entries = self.entries;
        (0..self.count.unwrap_or(0)).map_while(move |_| match &mut entries {
            Entries::Slice(items) => items.split_off_first().copied(),
            Entries::Wire(cursor) => {
                let start = cursor.position();
                let item = T::decode(cursor);
                (cursor.position() > start).then_some(item)
            }
        })
    }

    /// The first value, if one is there and something of it was seen.
    pub fn first(&self) -> Option<T> {
        self.iter().next()
    }
}

impl<'a, T: Xdr<'a> + Copy, const MAX: u32> Xdr<'a> for Counted<'a, T, MAX> {
    const SIZE: Option<usize> = None;

    fn decode(cursor: &mut Cursor<'a>) -> Self {
        let mut count = cursor.u32();
        if count.is_some_and(|count| count > MAX) {
            cursor.reject();
            count = None;
        }
        let entries = Entries::Wire(*cursor);
        for _ in 0..count.unwrap_or(0) {
            T::skip(cursor);
            if cursor.fault().is_some() {
                break;
            }
        }
        Self { count, entries }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.count.encode(out);
        for item in self.iter() {
            item.encode(out);
        }
    }

    fn agrees(&self, whole: &Self) -> bool {
        let mut items = whole.iter();
        self.count.agrees(&whole.count)
            && self
                .iter()
                .all(|item| items.next().is_some_and(|whole| item.agrees(&whole)))
    }
}

impl<T, const MAX: u32> Clone for Counted<'_, T, MAX> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const MAX: u32> Copy for Counted<'_, T, MAX> {}

impl<T, const MAX: u32> Default for Counted<'_, T, MAX> {
    fn default() -> Self {
        Self {
            count: None,
            entries: Entries::Slice(&[]),
        }
    }
}

impl<'a, T: Xdr<'a> + Copy + PartialEq, const MAX: u32> PartialEq for Counted<'a, T, MAX> {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl<'a, T: Xdr<'a> + Copy + fmt::Debug, const MAX: u32> fmt::Debug for Counted<'a, T, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
