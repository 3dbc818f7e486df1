//! XDR (RFC 4506): one description of a type, from which decoding, skipping, encoding and comparing
//! follow.
//!
//! ```
//! use lineside_frame::{Cursor, Piece};
//! use lineside_rpc::xdr::{Handle, Xdr};
//!
//! lineside_rpc::xdr! {
//!     /// READ3args, RFC 1813 section 3.3.6.
//!     pub struct ReadArgs<'a> {
//!         file: Option<Handle<'a>>,
//!         offset: Option<u64>,
//!         count: Option<u32>,
//!     }
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
//! after a fault of the cursor, which gives the reason. A field that was read is right even if what
//! follows is not. Nothing is allocated: opaque data is a [`View`] of the bytes where they lie, and
//! a list is walked again each time that it is iterated.
//!
//! File data is not part of these types: a type whose last field is the data's length leaves the
//! cursor at the first byte of data, and an encoder appends data and [`pad`]ding itself.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

#[doc(hidden)] // The macros name it.
pub use lineside_frame::Cursor;
use lineside_frame::{Piece, View};

mod lists;
mod macros;

pub use lists::{Array, Counted, List, ListIter};

/// A type on the wire. Described with [`xdr!`](crate::xdr!), not implemented by hand.
pub trait Xdr<'a>: Sized {
    /// Bytes on the wire, if every value takes the same number.
    const SIZE: Option<usize>;

    /// Reads what can be read. [`Cursor::fault`] shows whether that is everything.
    fn decode(cursor: &mut Cursor<'a>) -> Self;

    /// Appends the value. A part that is unread is a programmer's error and is written as zeros.
    fn encode(&self, out: &mut Vec<u8>);

    /// Whether all that is read here is the same in `whole`: what precision means when bytes are
    /// missing.
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

/// A type that always takes the same number of bytes, so that it can be read with one check for all
/// of them.
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

/// XDR's void too, for a program whose results or arguments have nothing that lies in the bytes,
/// but whose [`Reply`](crate::procedures!) or `Call` has a lifetime all the same.
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

/// Variable-length opaque data or a string of at most `MAX` bytes, where it lies. More is
/// malformed.
#[derive(Clone, Copy, PartialEq)]
pub struct Opaque<'a, const MAX: usize>(View<'a>);

/// A file handle of NFSv3 (RFC 1813 section 2.4).
pub type Handle<'a> = Opaque<'a, 64>;

/// A name or a path. NFSv3 sets no limit (RFC 1813 section 2.4); this is the longest path of the
/// systems in use, so a length above it is taken for a sign that these bytes are no name.
pub type Name<'a> = Opaque<'a, 4096>;

impl<'a, const MAX: usize> Opaque<'a, MAX> {
    /// The most bytes that there may be.
    pub const LEN_MAX: usize = MAX;

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

/// A value that always takes the same number of bytes, where it lies: it is read when it is asked
/// for, since most of a large one seldom is.
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

    /// The value, if all of it was seen in one piece, as nearly always: no more of it is read than
    /// is used.
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

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro describes public types")]
mod tests;
