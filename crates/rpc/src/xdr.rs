//! XDR (RFC 4506): one description of a type, from which decoding, skipping, encoding and comparing follow.
//!
//! ```
//! use lineside_frame::{Cursor, Piece};
//! use lineside_rpc::xdr::{Handle, Xdr};
//!
//! lineside_rpc::xdr! {
//!     /// READ3args, RFC 1813 section 3.3.6.
//!     pub struct ReadArgs<'a> { file: Option<Handle<'a>>, offset: Option<u64>, count: Option<u32> }
//! }
//!
//! let pieces = [Piece::bytes(b"\0\0\0\x04abcd")];
//! let mut cursor = Cursor::new(&pieces);
//! let args = ReadArgs::decode(&mut cursor);
//! assert!(args.file.is_some() && args.offset.is_none(), "the bytes end after the handle");
//! ```
//!
//! A passive observer may have missed any byte, so decoding never fails: it returns what it could
//! read. `None` and `Unread` mean that the capture did not see the field, or that the field lies
//! behind a fault of the cursor, which says why. What is read is right even if what follows is not.
//! Nothing is allocated: opaque data is a [`View`] of the bytes where they lie, and a list is walked
//! again each time that it is iterated.
//!
//! File data is not part of these types: a type whose last field is the data's length leaves the
//! cursor at the first byte of data, and an encoder appends data and [`pad`]ding itself.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

#[doc(hidden)] // The macros name it.
pub use lineside_frame::Cursor;
use lineside_frame::{Piece, View};

/// A type on the wire. Described with [`xdr!`](crate::xdr!), not implemented by hand.
pub trait Xdr<'a>: Sized {
    /// Bytes on the wire, if every value takes the same number.
    const SIZE: Option<usize>;

    /// Reads what can be read. [`Cursor::fault`] says whether that is everything.
    fn decode(cursor: &mut Cursor<'a>) -> Self;

    /// Appends the value. A part that is unread is a programmer's error and is written as zeros.
    fn encode(&self, out: &mut Vec<u8>);

    /// Whether all that is read here is the same in `whole`: what precision means when bytes are missing.
    fn agrees(&self, whole: &Self) -> bool;

    /// Passes over a value. Like [`decode`](Self::decode) it faults where bytes are missing.
    #[inline]
    fn skip(cursor: &mut Cursor<'a>) {
        match Self::SIZE {
            Some(size) => drop(cursor.view(size)),
            None => drop(Self::decode(cursor)),
        }
    }
}

/// A value that is read wholly or not at all; `Option` of it is a field.
pub trait Scalar<'a>: Copy + PartialEq {
    /// Bytes on the wire, if every value takes the same number.
    const SIZE: Option<usize>;

    /// Reads it.
    fn read(cursor: &mut Cursor<'a>) -> Option<Self>;

    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);
}

/// A type that always takes the same number of bytes, so that it can be read with one check for all of them.
pub trait Fixed: Sized {
    /// Bytes on the wire.
    const LEN: usize;

    /// The value in `bytes`, which are [`LEN`](Self::LEN).
    fn from_bytes(bytes: &[u8]) -> Self;
}

impl<T: Fixed> Fixed for Option<T> {
    const LEN: usize = T::LEN;

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Self {
        Some(T::from_bytes(bytes))
    }
}

impl Fixed for u32 {
    const LEN: usize = 4;

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_be_bytes(bytes.first_chunk().copied().unwrap_or_default())
    }
}

impl Fixed for u64 {
    const LEN: usize = 8;

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_be_bytes(bytes.first_chunk().copied().unwrap_or_default())
    }
}

impl Fixed for i64 {
    const LEN: usize = 8;

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Self {
        u64::from_bytes(bytes).cast_signed()
    }
}

impl Fixed for bool {
    const LEN: usize = 4;

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Self {
        u32::from_bytes(bytes) != 0
    }
}

impl<const N: usize> Fixed for [u8; N] {
    const LEN: usize = N;

    #[inline]
    fn from_bytes(bytes: &[u8]) -> Self {
        bytes.first_chunk().copied().unwrap_or([0; N])
    }
}

impl<'a, T: Scalar<'a>> Xdr<'a> for Option<T> {
    const SIZE: Option<usize> = T::SIZE;

    #[inline]
    fn decode(cursor: &mut Cursor<'a>) -> Self {
        T::read(cursor)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.is_some(), "encoding a field that was not set");
        match self {
            Some(value) => value.write(out),
            None => out.resize(out.len() + T::SIZE.unwrap_or(4), 0),
        }
    }

    fn agrees(&self, whole: &Self) -> bool {
        self.is_none() || self == whole
    }
}

/// XDR's void.
impl<'a> Xdr<'a> for () {
    const SIZE: Option<usize> = Some(0);
    fn decode(_: &mut Cursor<'a>) -> Self {}
    fn encode(&self, _: &mut Vec<u8>) {}
    fn agrees(&self, (): &Self) -> bool {
        true
    }
}

/// XDR's void too, for a program whose results or arguments have nothing that lies in the bytes, but
/// whose [`Reply`](crate::procedures!) or `Call` has a lifetime all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Void<'a>(PhantomData<&'a ()>);

impl<'a> Xdr<'a> for Void<'a> {
    const SIZE: Option<usize> = Some(0);
    fn decode(_: &mut Cursor<'a>) -> Self {
        Self::default()
    }
    fn encode(&self, _: &mut Vec<u8>) {}
    fn agrees(&self, _: &Self) -> bool {
        true
    }
}

impl<'a> Scalar<'a> for u32 {
    const SIZE: Option<usize> = Some(4);

    #[inline]
    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        cursor.array().map(Self::from_be_bytes)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl<'a> Scalar<'a> for u64 {
    const SIZE: Option<usize> = Some(8);

    #[inline]
    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        cursor.array().map(Self::from_be_bytes)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl<'a> Scalar<'a> for i64 {
    const SIZE: Option<usize> = Some(8);

    #[inline]
    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        cursor.array().map(Self::from_be_bytes)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

/// Any number but 0 is true: some senders write 0xffffffff.
impl<'a> Scalar<'a> for bool {
    const SIZE: Option<usize> = Some(4);

    #[inline]
    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        u32::read(cursor).map(|number| number != 0)
    }

    fn write(&self, out: &mut Vec<u8>) {
        u32::from(*self).write(out);
    }
}

/// Fixed opaque data that needs no padding: verifiers, session ids.
impl<'a, const N: usize> Scalar<'a> for [u8; N] {
    const SIZE: Option<usize> = {
        assert!(N.is_multiple_of(4), "its padding would not be read");
        Some(N)
    };

    #[inline]
    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        cursor.array()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

/// Variable-length opaque data or a string of at most `MAX` bytes, where it lies. More is malformed.
#[derive(Clone, Copy, PartialEq)]
pub struct Opaque<'a, const MAX: usize>(View<'a>);

/// A file handle of NFSv3 (RFC 1813 section 2.4).
pub type Handle<'a> = Opaque<'a, 64>;

/// A name or a path. NFSv3 sets no limit (RFC 1813 section 2.4); this is the longest path of the
/// systems in use, so a length above it is taken for a sign that these bytes are no name.
pub type Name<'a> = Opaque<'a, 4096>;

impl<'a, const MAX: usize> Opaque<'a, MAX> {
    /// All bytes of `pieces`, to be encoded: at most `MAX`.
    pub fn new(pieces: &'a [Piece<'a>]) -> Self {
        let mut cursor = Cursor::new(pieces);
        let len = cursor.remaining();
        debug_assert!(len <= MAX, "{len} bytes where {MAX} may stand");
        Self(cursor.view(len).unwrap_or_else(View::empty))
    }

    /// The bytes.
    pub fn view(&self) -> View<'a> {
        self.0
    }

    #[cold]
    fn read_in_pieces(cursor: &mut Cursor<'a>) -> Option<Self> {
        let len = cursor.u32()? as usize;
        if len > MAX {
            cursor.reject();
            return None;
        }
        let view = cursor.view(len)?;
        cursor.skip(padding(len));
        Some(Self(view))
    }
}

impl<'a, const MAX: usize> Deref for Opaque<'a, MAX> {
    type Target = View<'a>;

    fn deref(&self) -> &View<'a> {
        &self.0
    }
}

impl<const MAX: usize> fmt::Debug for Opaque<'_, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.to_vec().escape_ascii())
    }
}

impl<'a, const MAX: usize> Scalar<'a> for Opaque<'a, MAX> {
    const SIZE: Option<usize> = None;

    #[inline]
    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        match cursor.whole_counted(MAX) {
            Some(view) => Some(Self(view)),
            None => Self::read_in_pieces(cursor),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u32).write(out);
        self.copy_to(out);
        pad(out, self.len());
    }
}

/// Fixed opaque data of `LEN` bytes, where it lies: the handles of NFSv2.
#[derive(Clone, Copy, PartialEq)]
pub struct FixedOpaque<'a, const LEN: usize>(View<'a>);

impl<'a, const LEN: usize> FixedOpaque<'a, LEN> {
    /// All bytes of `pieces`, to be encoded: `LEN`.
    pub fn new(pieces: &'a [Piece<'a>]) -> Self {
        let view = Cursor::new(pieces).view(LEN);
        debug_assert!(view.is_some(), "{LEN} bytes are needed");
        Self(view.unwrap_or_else(View::empty))
    }
}

impl<'a, const LEN: usize> Deref for FixedOpaque<'a, LEN> {
    type Target = View<'a>;

    fn deref(&self) -> &View<'a> {
        &self.0
    }
}

impl<const LEN: usize> fmt::Debug for FixedOpaque<'_, LEN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.to_vec().escape_ascii())
    }
}

impl<'a, const LEN: usize> Scalar<'a> for FixedOpaque<'a, LEN> {
    const SIZE: Option<usize> = Some(LEN + LEN.wrapping_neg() % 4);

    #[inline]
    fn read(cursor: &mut Cursor<'a>) -> Option<Self> {
        let view = cursor.view(LEN)?;
        cursor.skip(padding(LEN));
        Some(Self(view))
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.copy_to(out);
        pad(out, LEN);
    }
}

/// A value that always takes the same number of bytes, where it lies: it is read when it is asked for, since most of a
/// large one seldom is.
#[derive(Clone, Copy)]
pub enum InPlace<'a, T> {
    /// As much of it as was seen.
    Seen(View<'a>),
    /// To be encoded.
    Value(&'a T),
}

impl<'a, T: Fixed + Xdr<'a> + Copy> InPlace<'a, T> {
    /// The value, as far as it was seen.
    pub fn get(&self) -> T {
        match self {
            Self::Seen(view) => T::decode(&mut view.cursor()),
            Self::Value(value) => **value,
        }
    }

    /// The value, if all of it was seen in one piece, as nearly always: no more of it is read than is used.
    #[inline]
    pub fn whole(&self) -> Option<T> {
        match self {
            Self::Seen(view) => match view.contiguous() {
                Some(bytes) if bytes.len() == T::LEN => Some(T::from_bytes(bytes)),
                _ => None,
            },
            Self::Value(_) => None,
        }
    }

    /// What `read` takes of the value, as far as that was seen; likewise.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        match self.whole() {
            Some(value) => read(&value),
            None => read(&self.get()),
        }
    }

    /// Reads it from several pieces, or as much of it as there is.
    #[cold]
    fn seen_in_part(cursor: &mut Cursor<'a>) -> Self {
        let mut seen = *cursor;
        T::decode(cursor);
        let len = cursor.position() - seen.position();
        Self::Seen(seen.view(len).unwrap_or_else(View::empty))
    }
}

impl<'a, T: Fixed + Xdr<'a> + Copy> Xdr<'a> for InPlace<'a, T> {
    const SIZE: Option<usize> = Some(T::LEN);

    #[inline]
    fn decode(cursor: &mut Cursor<'a>) -> Self {
        match cursor.whole_view(T::LEN) {
            Some(view) => Self::Seen(view),
            None => Self::seen_in_part(cursor),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.get().encode(out);
    }

    fn agrees(&self, whole: &Self) -> bool {
        self.get().agrees(&whole.get())
    }
}

impl<'a, T: Fixed + Xdr<'a> + Copy> From<&'a T> for InPlace<'a, T> {
    fn from(value: &'a T) -> Self {
        Self::Value(value)
    }
}

impl<'a, T: Fixed + Xdr<'a> + Copy + PartialEq> PartialEq for InPlace<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<'a, T: Fixed + Xdr<'a> + Copy + fmt::Debug> fmt::Debug for InPlace<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Bytes that fill up opaque data of `len` bytes to a multiple of four.
pub fn padding(len: usize) -> usize {
    len.wrapping_neg() % 4
}

/// Appends the [`padding`] of opaque data of `len` bytes.
pub fn pad(out: &mut Vec<u8>, len: usize) {
    out.resize(out.len() + padding(len), 0);
}

/// Optional data (RFC 4506 section 4.19): a boolean, then the value if it is true.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Optional<T> {
    /// The boolean was not seen.
    #[default]
    Unread,
    /// There is no value.
    Absent,
    /// There is, with what could be read of it.
    Present(T),
}

impl<T> Optional<T> {
    /// The value, if it is there.
    pub fn present(self) -> Option<T> {
        match self {
            Self::Present(value) => Some(value),
            Self::Unread | Self::Absent => None,
        }
    }
}

impl<T> Optional<Option<T>> {
    /// The scalar, if it is there and was seen.
    pub fn value(self) -> Option<T> {
        self.present().flatten()
    }
}

impl<'a, T: Xdr<'a>> Xdr<'a> for Optional<T> {
    const SIZE: Option<usize> = None;

    #[inline]
    fn decode(cursor: &mut Cursor<'a>) -> Self {
        match bool::read(cursor) {
            None => Self::Unread,
            Some(false) => Self::Absent,
            Some(true) => Self::Present(T::decode(cursor)),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(!matches!(self, Self::Unread), "encoding what was not set");
        match self {
            Self::Unread | Self::Absent => false.write(out),
            Self::Present(value) => {
                true.write(out);
                value.encode(out);
            }
        }
    }

    fn agrees(&self, whole: &Self) -> bool {
        match (self, whole) {
            (Self::Unread, _) | (Self::Absent, Self::Absent) => true,
            (Self::Present(value), Self::Present(whole)) => value.agrees(whole),
            _ => false,
        }
    }

    #[inline]
    fn skip(cursor: &mut Cursor<'a>) {
        if bool::read(cursor) == Some(true) {
            T::skip(cursor);
        }
    }
}

/// A result that begins with a status: one body for 0, another for everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Outcome<O, F> {
    /// The status was not seen.
    #[default]
    Unread,
    /// Status 0.
    Ok(O),
    /// Another status, with the body that follows it.
    Fail(u32, F),
}

impl<O, F> Outcome<O, F> {
    /// The status, if it was seen.
    pub fn status(&self) -> Option<u32> {
        match self {
            Self::Unread => None,
            Self::Ok(_) => Some(0),
            Self::Fail(status, _) => Some(*status),
        }
    }

    /// The body of success.
    pub fn ok(&self) -> Option<&O> {
        match self {
            Self::Ok(body) => Some(body),
            Self::Unread | Self::Fail(..) => None,
        }
    }

    /// The body of failure.
    pub fn fail(&self) -> Option<&F> {
        match self {
            Self::Fail(_, body) => Some(body),
            Self::Unread | Self::Ok(_) => None,
        }
    }
}

impl<'a, O: Xdr<'a>, F: Xdr<'a>> Xdr<'a> for Outcome<O, F> {
    const SIZE: Option<usize> = None;

    #[inline]
    fn decode(cursor: &mut Cursor<'a>) -> Self {
        match cursor.u32() {
            None => Self::Unread,
            Some(0) => Self::Ok(O::decode(cursor)),
            Some(status) => Self::Fail(status, F::decode(cursor)),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.status().encode(out);
        match self {
            Self::Unread => {}
            Self::Ok(body) => body.encode(out),
            Self::Fail(_, body) => body.encode(out),
        }
    }

    fn agrees(&self, whole: &Self) -> bool {
        match (self, whole) {
            (Self::Unread, _) => true,
            (Self::Ok(body), Self::Ok(whole)) => body.agrees(whole),
            (Self::Fail(status, body), Self::Fail(whole_status, whole)) => {
                status == whole_status && body.agrees(whole)
            }
            _ => false,
        }
    }
}

/// A linked list (RFC 4506 section 4.19): before each entry a boolean that says whether there is one.
///
/// Decoding walks over the list and keeps only where it begins; each iteration reads it again. It is
/// no longer than the bytes there: every step takes some or ends the iteration.
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
                    // What stands behind the list is not an entry.
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

/// A counted array (RFC 4506 section 4.13) of at most `MAX` values of fixed size. More is malformed.
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

#[doc(hidden)]
pub const fn sum_of_sizes(sizes: &[Option<usize>]) -> Option<usize> {
    let (mut sum, mut at) = (0, 0);
    while at < sizes.len() {
        let Some(size) = sizes[at] else { return None };
        sum += size;
        at += 1;
    }
    Some(sum)
}

/// Describes XDR types; see the [module](mod@crate::xdr).
///
/// * `pub struct Name<'a> { field: Type, … }`: the fields in wire order. A type is `Option` of a
///   [`Scalar`](crate::xdr::Scalar), or another [`Xdr`](crate::xdr::Xdr) type. Fields become public.
/// * `pub fixed struct Name { … }`: the same, of fields that are all [`Fixed`](crate::xdr::Fixed): it is read at once.
/// * `pub scalar struct Name { … }`: the same, of plain values without `Option`; it is a [`Scalar`](crate::xdr::Scalar)
///   itself, read wholly or not at all.
/// * `pub enum Name { VALUE = 1, "value"; … }`: a number with names. Others are kept as they are.
/// * `pub union Name<'a> { 0 => Void, 1 => Arm(body: Type), _ => Other }`: a discriminated union. Without
///   the last line, another discriminant is malformed; with it, it is followed by nothing.
#[macro_export]
macro_rules! xdr {
    () => {};

    (
        $(#[$meta:meta])*
        pub fixed struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $crate::xdr::Fixed for $name {
            const LEN: usize = 0 $(+ <$type as $crate::xdr::Fixed>::LEN)*;

            #[inline]
            fn from_bytes(mut bytes: &[u8]) -> Self {
                Self {
                    $($field: {
                        let len = <$type as $crate::xdr::Fixed>::LEN;
                        $crate::xdr::Fixed::from_bytes(bytes.split_off(..len).unwrap_or_default())
                    },)*
                }
            }
        }

        impl<'a> $crate::xdr::Xdr<'a> for $name {
            const SIZE: Option<usize> = Some(<Self as $crate::xdr::Fixed>::LEN);

            #[inline]
            fn decode(cursor: &mut $crate::xdr::Cursor<'a>) -> Self {
                const LEN: usize = <$name as $crate::xdr::Fixed>::LEN;
                if let Some(bytes) = cursor.whole::<LEN>() {
                    return $crate::xdr::Fixed::from_bytes(bytes);
                }
                Self { $($field: $crate::xdr::Xdr::decode(cursor),)* }
            }

            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::xdr::Xdr::encode(&self.$field, out);)*
            }

            fn agrees(&self, whole: &Self) -> bool {
                true $(&& $crate::xdr::Xdr::agrees(&self.$field, &whole.$field))*
            }
        }

        $crate::xdr! { $($rest)* }
    };

    (
        $(#[$meta:meta])*
        pub scalar struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $crate::xdr::Fixed for $name {
            const LEN: usize = 0 $(+ <$type as $crate::xdr::Fixed>::LEN)*;

            #[inline]
            fn from_bytes(mut bytes: &[u8]) -> Self {
                Self {
                    $($field: {
                        let len = <$type as $crate::xdr::Fixed>::LEN;
                        $crate::xdr::Fixed::from_bytes(bytes.split_off(..len).unwrap_or_default())
                    },)*
                }
            }
        }

        impl<'a> $crate::xdr::Scalar<'a> for $name {
            const SIZE: Option<usize> = Some(<Self as $crate::xdr::Fixed>::LEN);

            #[inline]
            fn read(cursor: &mut $crate::xdr::Cursor<'a>) -> Option<Self> {
                const LEN: usize = <$name as $crate::xdr::Fixed>::LEN;
                let bytes = cursor.array::<LEN>()?;
                Some($crate::xdr::Fixed::from_bytes(&bytes))
            }

            fn write(&self, out: &mut Vec<u8>) {
                $($crate::xdr::Scalar::write(&self.$field, out);)*
            }
        }

        $crate::xdr! { $($rest)* }
    };

    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$lt:lifetime>)? {
            $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name $(<$lt>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl<'a> $crate::xdr::Xdr<'a> for $name $(<$lt>)? {
            const SIZE: Option<usize> =
                $crate::xdr::sum_of_sizes(&[$(<$type as $crate::xdr::Xdr<'a>>::SIZE),*]);

            #[inline]
            fn decode(cursor: &mut $crate::xdr::Cursor<'a>) -> Self {
                Self { $($field: $crate::xdr::Xdr::decode(cursor),)* }
            }

            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::xdr::Xdr::encode(&self.$field, out);)*
            }

            fn agrees(&self, whole: &Self) -> bool {
                true $(&& $crate::xdr::Xdr::agrees(&self.$field, &whole.$field))*
            }

            #[inline]
            fn skip(cursor: &mut $crate::xdr::Cursor<'a>) {
                match Self::SIZE {
                    Some(size) => drop(cursor.view(size)),
                    None => { $(<$type as $crate::xdr::Xdr<'a>>::skip(cursor);)* }
                }
            }
        }

        $crate::xdr! { $($rest)* }
    };

    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($variant:ident = $value:literal, $text:literal;)* }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(
            /// The number on the wire.
            pub u32
        );

        impl $name {
            $(#[doc = concat!("`", $text, "`")] pub const $variant: Self = Self($value);)*

            /// Every value that has a name.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name, if it has one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }

        impl $crate::xdr::Fixed for $name {
            const LEN: usize = 4;

            #[inline]
            fn from_bytes(bytes: &[u8]) -> Self {
                Self($crate::xdr::Fixed::from_bytes(bytes))
            }
        }

        impl<'a> $crate::xdr::Scalar<'a> for $name {
            const SIZE: Option<usize> = Some(4);

            #[inline]
            fn read(cursor: &mut $crate::xdr::Cursor<'a>) -> Option<Self> {
                <u32 as $crate::xdr::Scalar<'a>>::read(cursor).map(Self)
            }

            fn write(&self, out: &mut Vec<u8>) {
                $crate::xdr::Scalar::write(&self.0, out);
            }
        }

        $crate::xdr! { $($rest)* }
    };

    (
        $(#[$meta:meta])*
        pub union $name:ident $(<$lt:lifetime>)? {
            $($(#[$arm_meta:meta])* $value:literal => $arm:ident $(($body:ident: $type:ty))?),*
            $(, _ => $other:ident)? $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub enum $name $(<$lt>)? {
            /// The discriminant was not seen, or is none of these.
            #[default]
            Unread,
            $($(#[$arm_meta])* #[doc = concat!("Discriminant ", $value, ".")] $arm $(($type))?,)*
            $(/// Another discriminant, followed by nothing.
            $other(u32),)?
        }

        impl $(<$lt>)? $name $(<$lt>)? {
            /// The number on the wire, if it was seen.
            pub fn discriminant(&self) -> Option<u32> {
                match self {
                    Self::Unread => None,
                    $($crate::xdr!(@ignore $arm $($body)?) => Some($value),)*
                    $(Self::$other(number) => Some(*number),)?
                }
            }
        }

        impl<'a> $crate::xdr::Xdr<'a> for $name $(<$lt>)? {
            const SIZE: Option<usize> = None;

            #[inline]
            fn decode(cursor: &mut $crate::xdr::Cursor<'a>) -> Self {
                let Some(number) = cursor.u32() else { return Self::Unread };
                match number {
                    $($value => Self::$arm $((<$type as $crate::xdr::Xdr<'a>>::decode(cursor)))?,)*
                    $(number => Self::$other(number),)?
                    #[allow(unreachable_patterns, reason = "a union may have a default arm")]
                    _ => {
                        cursor.reject();
                        Self::Unread
                    }
                }
            }

            fn encode(&self, out: &mut Vec<u8>) {
                $crate::xdr::Xdr::encode(&self.discriminant(), out);
                match self {
                    $(Self::$arm $(($body))? => { $($crate::xdr::Xdr::encode($body, out);)? })*
                    _ => {}
                }
            }

            fn agrees(&self, whole: &Self) -> bool {
                match self {
                    Self::Unread => true,
                    $(Self::$arm $(($body))? => {
                        $(let mine = $body;)?
                        match whole {
                            Self::$arm $(($body))? => true $(&& $crate::xdr::Xdr::agrees(mine, $body))?,
                            _ => false,
                        }
                    })*
                    #[allow(unreachable_patterns, reason = "a union may have a default arm")]
                    _ => self == whole,
                }
            }
        }

        $crate::xdr! { $($rest)* }
    };

    (@ignore $arm:ident) => { Self::$arm };
    (@ignore $arm:ident $body:ident) => { Self::$arm(_) };
}

/// Describes the procedures of a program: `number Name "NAME": Args => Results;`.
///
/// Gives `Procedure` with numbers and names, and `Call` and `Reply`, each an enum of all of them.
#[macro_export]
macro_rules! procedures {
    ($($number:literal $name:ident $text:literal: $args:ty => $results:ty;)*) => {
        /// A procedure of the program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Procedure { $(#[doc = concat!("`", $text, "`")] $name = $number,)* }

        impl Procedure {
            /// Every procedure, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The procedure of a number.
            #[inline]
            pub fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its number in a call.
            pub fn number(self) -> u32 {
                self as u32
            }

            /// Its name in the RFC, without the prefix.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }

        /// The arguments of a call.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[expect(clippy::large_enum_variant, reason = "it lives on the stack, and boxes would be allocations")]
        pub enum Call<'a> { $(#[doc = concat!("Of `", $text, "`.")] $name($args),)* }

        impl<'a> Call<'a> {
            /// Reads the arguments that follow the header of a call.
            #[inline]
            pub fn decode(procedure: Procedure, cursor: &mut $crate::xdr::Cursor<'a>) -> Self {
                match procedure {
                    $(Procedure::$name => Self::$name(<$args as $crate::xdr::Xdr<'a>>::decode(cursor)),)*
                }
            }

            /// Appends the arguments.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self { $(Self::$name(args) => $crate::xdr::Xdr::encode(args, out),)* }
            }

            /// Whether all that is read here is the same in `whole`.
            pub fn agrees(&self, whole: &Self) -> bool {
                match (self, whole) {
                    $((Self::$name(args), Self::$name(whole)) => $crate::xdr::Xdr::agrees(args, whole),)*
                    _ => false,
                }
            }

            /// Which procedure is called.
            pub fn procedure(&self) -> Procedure {
                match self { $(Self::$name(_) => Procedure::$name,)* }
            }
        }

        /// The results in a reply.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[expect(clippy::large_enum_variant, reason = "it lives on the stack, and boxes would be allocations")]
        pub enum Reply<'a> { $(#[doc = concat!("Of `", $text, "`.")] $name($results),)* }

        impl<'a> Reply<'a> {
            /// Reads the results that follow the header of an accepted reply.
            #[inline]
            pub fn decode(procedure: Procedure, cursor: &mut $crate::xdr::Cursor<'a>) -> Self {
                match procedure {
                    $(Procedure::$name => Self::$name(<$results as $crate::xdr::Xdr<'a>>::decode(cursor)),)*
                }
            }

            /// Appends the results.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self { $(Self::$name(results) => $crate::xdr::Xdr::encode(results, out),)* }
            }

            /// Whether all that is read here is the same in `whole`.
            pub fn agrees(&self, whole: &Self) -> bool {
                match (self, whole) {
                    $((Self::$name(results), Self::$name(whole)) => $crate::xdr::Xdr::agrees(results, whole),)*
                    _ => false,
                }
            }

            /// Which procedure is answered.
            pub fn procedure(&self) -> Procedure {
                match self { $(Self::$name(_) => Procedure::$name,)* }
            }
        }
    };
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro describes public types")]
mod tests {
    use super::*;
    use lineside_frame::Fault;

    crate::xdr! {
        pub struct Fixed { number: Option<u32>, wide: Option<u64>, flag: Option<bool> }

        pub scalar struct Stamp { seconds: i64, tag: [u8; 4], flag: bool }

        pub enum Colour { RED = 1, "red"; BLUE = 4, "blue"; }

        pub union Choice<'a> {
            0 => Nothing,
            1 => Text(text: Option<Opaque<'a, 8>>),
            2 => Both(both: Fixed),
            _ => Other,
        }

        pub struct All<'a> {
            fixed: Fixed,
            colour: Option<Colour>,
            choice: Choice<'a>,
            list: List<'a, Option<Opaque<'a, 8>>>,
            array: Array<'a, u32, 3>,
            maybe: Optional<Fixed>,
            stamp: Option<Stamp>,
            counted: Counted<'a, Option<Opaque<'a, 8>>, 3>,
        }
    }

    const FIXED: Fixed = Fixed {
        number: Some(1),
        wide: Some(2),
        flag: Some(true),
    };

    const STAMP: Stamp = Stamp {
        seconds: -5,
        tag: *b"abcd",
        flag: true,
    };

    #[test]
    fn every_form_is_read_skipped_and_written() {
        assert_eq!(Fixed::SIZE, Some(16));
        assert_eq!(All::SIZE, None);
        let (text, one, two) = (
            [Piece::bytes(b"abcde")],
            [Piece::bytes(b"one")],
            [Piece::bytes(b"")],
        );
        let names = [Some(Opaque::new(&one)), Some(Opaque::new(&two))];
        for choice in [
            Choice::Nothing,
            Choice::Text(Some(Opaque::new(&text))),
            Choice::Both(FIXED),
            Choice::Other(9),
        ] {
            for maybe in [Optional::Absent, Optional::Present(FIXED)] {
                let all = All {
                    fixed: FIXED,
                    colour: Some(Colour::BLUE),
                    choice,
                    list: List::new(&names),
                    array: Array::new(&[7, 8]),
                    maybe,
                    stamp: Some(STAMP),
                    counted: Counted::new(&names),
                };
                let mut bytes = Vec::new();
                all.encode(&mut bytes);
                let pieces = [Piece::bytes(&bytes[..9]), Piece::bytes(&bytes[9..])];
                let (mut read, mut skipped) = (Cursor::new(&pieces), Cursor::new(&pieces));
                assert_eq!(All::decode(&mut read), all);
                All::skip(&mut skipped);
                for cursor in [read, skipped] {
                    assert_eq!((cursor.fault(), cursor.remaining()), (None, 0));
                }
                for len in 0..bytes.len() {
                    let pieces = [Piece::bytes(&bytes[..len])];
                    let (mut read, mut skipped) = (Cursor::new(&pieces), Cursor::new(&pieces));
                    assert!(All::decode(&mut read).agrees(&all));
                    All::skip(&mut skipped);
                    for cursor in [read, skipped] {
                        assert_eq!(cursor.fault(), Some(Fault::End));
                    }
                }
            }
        }
    }

    #[test]
    fn agreement_sees_each_difference() {
        let other = Fixed {
            wide: Some(3),
            ..FIXED
        };
        let partial = Fixed {
            number: Some(1),
            ..Fixed::default()
        };
        assert!(partial.agrees(&FIXED) && !FIXED.agrees(&partial));
        assert!(!Optional::Present(other).agrees(&Optional::Present(FIXED)));
        assert!(!Optional::<Fixed>::Absent.agrees(&Optional::Present(FIXED)));
        assert!(!Choice::Both(other).agrees(&Choice::Both(FIXED)));
        assert!(!Choice::Nothing.agrees(&Choice::Other(4)));
        assert!(!Choice::Other(3).agrees(&Choice::Other(4)));
        assert!(Choice::Unread.agrees(&Choice::Nothing));
        let (one, two) = ([Some(1u32), Some(2)], [Some(1), Some(3)]);
        assert!(List::new(&one[..1]).agrees(&List::new(&two)));
        assert!(!List::new(&one).agrees(&List::new(&two)));
        assert!(!List::new(&one).agrees(&List::new(&two[..1])));
        let array = Array::<u32, 4>::new(&[1, 2]);
        let counted = Counted::<'_, Option<u32>>::new(&one);
        assert!(Counted::default().agrees(&counted) && counted == Counted::new(&one));
        assert!(!counted.agrees(&Counted::new(&two)) && !counted.agrees(&Counted::new(&one[..1])));
        assert!(!Some(STAMP).agrees(&Some(Stamp {
            seconds: 5,
            ..STAMP
        })));
        assert!(Array::default().agrees(&array));
        assert!(!array.agrees(&Array::new(&[1, 3])) && !array.agrees(&Array::new(&[1, 2, 3])));
        assert!(!Outcome::<Fixed, ()>::Fail(2, ()).agrees(&Outcome::Fail(3, ())));
    }

    #[test]
    fn entries_after_a_hole_in_a_list_are_not_invented() {
        let mut bytes = Vec::new();
        let (one, two) = ([Piece::bytes(b"one!")], [Piece::bytes(b"two!")]);
        let names: [Option<Opaque<'_, 8>>; 2] = [Some(Opaque::new(&one)), Some(Opaque::new(&two))];
        List::new(&names).encode(&mut bytes);
        let pieces = [
            Piece::bytes(&bytes[..8]),
            Piece::hole(4),
            Piece::bytes(&bytes[12..]),
        ];
        let mut cursor = Cursor::new(&pieces);
        let list: List<'_, Option<Opaque<'_, 8>>> = List::decode(&mut cursor);
        assert_eq!(cursor.fault(), Some(Fault::Hole));
        assert_eq!(list.iter().collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn lengths_beyond_the_maximum_are_malformed() {
        let pieces = [Piece::bytes(&[
            0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0,
        ])];
        let mut cursor = Cursor::new(&pieces);
        assert_eq!(Opaque::<8>::read(&mut cursor), None);
        assert_eq!(cursor.fault(), Some(Fault::Malformed));
        let mut cursor = Cursor::new(&pieces);
        assert_eq!(Array::<u32, 8>::decode(&mut cursor).count(), None);
        assert_eq!(cursor.fault(), Some(Fault::Malformed));
        let mut cursor = Cursor::new(&pieces);
        assert_eq!(Counted::<Option<u32>, 8>::decode(&mut cursor).count(), None);
        assert_eq!(cursor.fault(), Some(Fault::Malformed));
        assert_eq!(Colour(2).name(), None);
        assert_eq!(Colour::ALL.len(), 2);
    }
}
