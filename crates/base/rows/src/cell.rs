//! The kinds of values that a row holds.

use std::net::IpAddr;

/// What a column is in a Parquet file. Other types are not read alike by all tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// `INT64`
    Int64,
    /// `INT32`
    Int32,
    /// `BOOLEAN`
    Boolean,
    /// `BYTE_ARRAY` with the logical type `STRING`
    String,
    /// `BYTE_ARRAY`
    Bytes,
}

impl ColumnType {
    /// The name that the documentation uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int64 => "INT64",
            Self::Int32 => "INT32",
            Self::Boolean => "BOOLEAN",
            Self::String => "string",
            Self::Bytes => "bytes",
        }
    }
}

/// A value of a row: its type in a file, and how it becomes empty again.
pub trait Cell: Default {
    /// What its column is.
    const TYPE: ColumnType;
    /// Whether its column may hold null.
    const NULLABLE: bool;
    /// What it is set to: itself, or borrowed bytes where it owns some.
    type Value<'a>: Copy;

    /// What it holds.
    fn value(&self) -> Self::Value<'_>;

    /// Sets it.
    fn put(&mut self, value: Self::Value<'_>);

    /// Back to the default; memory that was allocated is kept.
    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Text from a fixed set: a transport, a direction.
pub type Label = Option<&'static str>;

/// An IP address; a text in the file: IPv4 dotted, IPv6 by RFC 5952.
pub type Address = Option<IpAddr>;

/// A name of a protocol's constant, or the number if the protocol knows no name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Word {
    /// Null.
    #[default]
    None,
    /// The RFC's name.
    Known(&'static str),
    /// The number, as decimal text in the file.
    Number(i64),
}

/// Text as it came from the wire, any bytes. In the file, bytes that are not UTF-8 read `\xHH` and
/// a backslash reads `\\`, so that different bytes stay different texts.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Text {
    bytes: Vec<u8>,
    present: bool,
}

/// Opaque bytes from the wire: a file handle.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Blob {
    bytes: Vec<u8>,
    present: bool,
}

macro_rules! reusable_bytes {
    ($type:ident) => {
        impl $type {
            /// The most bytes that are kept: what comes after them is cut, so that a hostile length
            /// cannot take memory. Names have at most 255 bytes on real servers, paths 4,096,
            /// handles 128.
            pub const BYTES_MAX: usize = 65_536;

            /// Becomes `bytes`.
            pub fn set(&mut self, bytes: &[u8]) {
                self.bytes.clear();
                self.append(bytes);
            }

            /// Adds `bytes`; from null, it becomes `bytes`.
            pub fn append(&mut self, bytes: &[u8]) {
                self.present = true;
                let kept = bytes.len().min(Self::BYTES_MAX - self.bytes.len());
                self.bytes.extend_from_slice(&bytes[..kept]);
            }

            /// The bytes; `None` if null.
            pub fn bytes(&self) -> Option<&[u8]> {
                self.present.then_some(self.bytes.as_slice())
            }

            /// Whether it is null.
            pub fn is_null(&self) -> bool {
                !self.present
            }
        }

        impl Clone for $type {
            fn clone(&self) -> Self {
                Self {
                    bytes: self.bytes.clone(),
                    present: self.present,
                }
            }

            /// Keeps the memory that it has.
            fn clone_from(&mut self, source: &Self) {
                self.bytes.clone_from(&source.bytes);
                self.present = source.present;
            }
        }

        impl From<&[u8]> for $type {
            fn from(bytes: &[u8]) -> Self {
                let mut value = Self::default();
                value.set(bytes);
                value
            }
        }
    };
}

reusable_bytes!(Text);
reusable_bytes!(Blob);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl Text {
    /// The text as it stands in a file.
    pub fn escaped(&self) -> Option<String> {
        let mut escaped = Vec::new();
        escape(self.bytes()?, &mut escaped);
        Some(String::from_utf8(escaped).expect("escaped text is UTF-8"))
    }
}

/// Appends `bytes` to `out` as UTF-8: bytes that are not become `\xHH`, a backslash becomes `\\`.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        let mut valid = chunk.valid().as_bytes();
        while let Some(place) = valid.iter().position(|&byte| byte == b'\\') {
            out.extend_from_slice(&valid[..=place]);
            out.push(b'\\');
            valid = &valid[place + 1..];
        }
        out.extend_from_slice(valid);
        for &byte in chunk.invalid() {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(&[
                b'\\',
                b'x',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]);
        }
    }
}

/// The bytes of a text as it stands in a file: what [`escape`] made of them. What is no escape
/// stands for itself, since a file may say anything.
pub fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, behind) = match rest {
            [b'\\', b'\\', behind @ ..] => (b'\\', behind),
            [b'\\', b'x', high, low, behind_digits @ ..] => {
                let digits = [*high, *low].map(|digit| char::from(digit).to_digit(16));
                match digits {
                    [Some(high), Some(low)] => ((high << 4 | low) as u8, behind_digits),
                    _ => (first, behind),
                }
            }
            _ => (first, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    bytes
}

macro_rules! cells {
    ($($type:ty: $column:ident, $nullable:literal;)*) => {
        $(impl Cell for $type {
            const TYPE: ColumnType = ColumnType::$column;
            const NULLABLE: bool = $nullable;
            type Value<'a> = Self;

            #[inline]
            fn value(&self) -> Self {
                *self
            }

            #[inline]
            fn put(&mut self, value: Self) {
                *self = value;
            }
        })*
    };
}

cells! {
    i64: Int64, false;
    Option<i64>: Int64, true;
    i32: Int32, false;
    Option<i32>: Int32, true;
    bool: Boolean, false;
    Option<bool>: Boolean, true;
    Label: String, true;
    Address: String, true;
    Word: String, true;
}

impl Cell for Text {
    const TYPE: ColumnType = ColumnType::String;
    const NULLABLE: bool = true;
    type Value<'a> = Option<&'a [u8]>;

    #[inline]
    fn value(&self) -> Option<&[u8]> {
        self.bytes()
    }

    fn put(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => self.set(bytes),
            None => self.clear(),
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.present = false;
    }
}

impl Cell for Blob {
    const TYPE: ColumnType = ColumnType::Bytes;
    const NULLABLE: bool = true;
    type Value<'a> = Option<&'a [u8]>;

    #[inline]
    fn value(&self) -> Option<&[u8]> {
        self.bytes()
    }

    fn put(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => self.set(bytes),
            None => self.clear(),
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.present = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn foreign_bytes_are_escaped() {
        for (bytes, text) in [
            (&b"plain"[..], "plain"),
            (b"", ""),
            (b"a\\b", r"a\\b"),
            (b"\xff\x00", "\\xff\0"),
            ("größe".as_bytes(), "größe"),
            (b"caf\xe9!", r"caf\xe9!"),
            (br"\xff", r"\\xff"),
        ] {
            assert_eq!(Text::from(bytes).escaped().as_deref(), Some(text));
        }
        assert_eq!(Text::default().escaped(), None);
    }

    #[test]
    fn a_cleared_text_is_null_and_keeps_its_memory() {
        let mut text = Text::from("a long enough name");
        let capacity = text.bytes.capacity();
        text.clear();
        assert_eq!(text, Text::default());
        assert_eq!(text.bytes.capacity(), capacity);
        text.append(b"a");
        text.append(b"b");
        assert_eq!(text.bytes(), Some(&b"ab"[..]));
        text.set(&[0; Text::BYTES_MAX + 1]);
        text.append(b"more");
        assert_eq!(text.bytes().map(<[u8]>::len), Some(Text::BYTES_MAX));
    }

    #[test]
    fn texts_of_a_file_are_bytes_again() {
        assert_eq!(unescape("plain"), b"plain");
        assert_eq!(unescape(r"a\\b"), b"a\\b");
        assert_eq!(unescape(r"\xff\x00é"), b"\xff\0\xc3\xa9");
        // What no escape made stands for itself.
        assert_eq!(unescape(r"end\x"), br"end\x");
        assert_eq!(unescape(r"\xzz\"), br"\xzz\");
        assert_eq!(unescape(r"\x+f"), br"\x+f");
        assert_eq!(unescape(r"a\\b\xff\xzz\"), b"a\\b\xff\\xzz\\");
    }

    proptest! {
        #[test]
        fn escaping_loses_nothing(bytes in proptest::collection::vec(
            prop_oneof![any::<u8>(), Just(b'\\'), Just(b'x'), 0x20..0x7f_u8], 0..64)) {
            let text = Text::from(bytes.as_slice()).escaped().expect("present");
            prop_assert_eq!(unescape(&text), bytes);
        }
    }
}
