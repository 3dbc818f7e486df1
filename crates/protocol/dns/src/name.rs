//! Domain names, in a message (with compression, RFC 1035 section 4.1.4) and on their own.

use std::fmt::{self, Write};

use crate::error::ParseError;

/// The most bytes of a name with its lengths and its end (RFC 1035 section 2.3.4).
const NAME_MAX: usize = 255;
/// The most bytes of a label.
const LABEL_MAX: usize = 63;

/// The most pointers of a name: as many as labels. Servers write one.
pub const HOPS_MAX: usize = 127;

/// A name in a message that was checked.
#[derive(Clone, Copy)]
pub struct Name<'a> {
    message: &'a [u8],
    at: usize,
}

/// A name on its own, without compression.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NameBuf {
    /// Labels, each after its length, then 0.
    wire: Box<[u8]>,
}

/// Why a text is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {what}: {way}")]
pub struct NameError {
    /// The column at fault, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: &'static str,
    /// The way out.
    pub way: &'static str,
}

/// The labels of a name.
#[derive(Debug, Clone)]
pub struct Labels<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Name<'a> {
    /// The name at `at` of a message, and where what follows it begins.
    pub(crate) fn parse(message: &'a [u8], at: usize) -> Result<(Self, usize), ParseError> {
        let (mut here, mut end) = (at, None);
        let (mut len, mut hops) = (1, 0);
        // Where the part at hand begins, and the bytes in which it has to end.
        let (mut begin, mut within) = (at, message);
        let mut cut = ParseError::Truncated;
        loop {
            let first = *within.get(here).ok_or(cut)?;
            match first >> 6 {
                0 if first == 0 => break,
                0 => {
                    len += 1 + usize::from(first);
                    here += 1 + usize::from(first);
                    if len > NAME_MAX {
                        return Err(ParseError::NameTooLong);
                    }
                }
                3 => {
                    let second = *within.get(here + 1).ok_or(cut)?;
                    end = end.or(Some(here + 2));
                    here = usize::from(u16::from_be_bytes([first & 0x3f, second]));
                    hops += 1;
                    if hops > HOPS_MAX {
                        return Err(ParseError::BadPointer);
                    }
                    // To a prior occurrence: one that lies before the part at hand, all of it, so
                    // that the name ends.
                    (within, begin, cut) = (&message[..begin], here, ParseError::BadPointer);
                }
                _ => return Err(ParseError::BadLabel),
            }
        }
        Ok((Self { message, at }, end.unwrap_or(here + 1)))
    }

    /// Its labels, the root's empty one left out.
    pub fn labels(self) -> Labels<'a> {
        Labels {
            message: self.message,
            at: self.at,
        }
    }

    /// Whether it is the same name; ASCII letters are compared without regard to case (RFC 4343).
    pub fn is(self, other: Name<'_>) -> bool {
        let mut others = other.labels();
        let mut is_same = |label: &[u8]| {
            let other = others.next();
            other.is_some_and(|other| other.eq_ignore_ascii_case(label))
        };
        self.labels().all(&mut is_same) && others.next().is_none()
    }

    /// Whether it is `origin` or a name below it.
    pub fn is_below(self, origin: &NameBuf) -> bool {
        let (count, wanted) = (self.labels().count(), origin.as_name().labels().count());
        let Some(more) = count.checked_sub(wanted) else {
            return false;
        };
        let mut pairs = self.labels().skip(more).zip(origin.as_name().labels());
        pairs.all(|(label, other)| label.eq_ignore_ascii_case(other))
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // Checked when the message was parsed; what is not there ends the name.
        loop {
            let first = *self.message.get(self.at)?;
            if first == 0 {
                return None;
            }
            if first >> 6 == 3 {
                let second = *self.message.get(self.at + 1)?;
                self.at = usize::from(u16::from_be_bytes([first & 0x3f, second]));
                continue;
            }
            let from = self.at + 1;
            self.at = from + usize::from(first);
            return self.message.get(from..self.at);
        }
    }
}

/// As in a zone file, with a final dot: special characters and bytes are escaped (RFC 1035 section
/// 5.1).
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_root = true;
        for label in self.labels() {
            is_root = false;
            for &byte in label {
                match byte {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
                        write!(f, "\\{}", char::from(byte))?;
                    }
                    b'!'..=b'~' => f.write_char(char::from(byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
            f.write_char('.')?;
        }
        if is_root {
            f.write_char('.')?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl NameBuf {
    /// Reads `www.example.org`, with or without a final dot; `.` is the root. Letters, digits, `-`
    /// and `_` only: other bytes are legal, but hardly meant.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let error = |column, what, way| Err(NameError { column, what, way });
        let mut wire = Vec::with_capacity(text.len() + 2);
        let labels = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return error(
                1,
                "no name",
                "write a name such as www.example.org, or . for the root",
            );
        }
        let mut column = 1;
        for label in labels.split('.').filter(|_| !labels.is_empty()) {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            if label.is_empty() {
                return error(column, "an empty label", "write one dot between labels");
            }
            if let Some(at) = label.bytes().position(|byte| !is_plain(byte)) {
                let way = "use letters, digits, - and _; other names in their xn-- form";
                return error(column + at, "not a character of a name", way);
            }
            if label.len() > LABEL_MAX {
                return error(column, "a label of more than 63 bytes", "shorten it");
            }
            wire.push(label.len() as u8);
            wire.extend_from_slice(label.as_bytes());
            column += label.len() + 1;
        }
        wire.push(0);
        if wire.len() > NAME_MAX {
            return error(1, "more than 253 characters", "shorten the name");
        }
        Ok(Self {
            wire: wire.into_boxed_slice(),
        })
    }

    /// As it stands in a message.
    pub fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// The same as a name in a message is.
    pub fn as_name(&self) -> Name<'_> {
        Name {
            message: &self.wire,
            at: 0,
        }
    }
}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_name().fmt(f)
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_shown() {
        let label = "x".repeat(63);
        let longest = [label.as_str(), &label, &label, &label[..61]].join(".");
        for (text, len) in [
            (".", 1),
            ("a", 3),
            ("www.Example.org.", 17),
            (&longest, 255),
        ] {
            let name = NameBuf::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(name.wire().len(), len);
            let shown = name.to_string();
            assert_eq!(shown.trim_end_matches('.'), text.trim_end_matches('.'));
            assert_eq!(NameBuf::parse(&shown), Ok(name.clone()));
            let read =
                Name::parse(name.wire(), 0).map(|(read, end)| (read.is(name.as_name()), end));
            assert_eq!(read, Ok((true, len)));
        }
        for (text, column) in [
            ("", 1),
            ("a..b", 3),
            (".a", 1),
            ("a b", 2),
            ("b.\u{fc}", 3),
            (&format!("a.{label}x"), 3),
            (&format!("{longest}x"), 1),
        ] {
            let error = NameBuf::parse(text).expect_err(text);
            assert_eq!(error.column, column, "{error}");
        }
    }

    /// The example of RFC 1035 section 4.1.4.
    #[test]
    fn compressed_names_are_followed() {
        let mut message = vec![0; 93];
        message[20..32].copy_from_slice(b"\x01F\x03ISI\x04ARPA\0");
        message[40..46].copy_from_slice(b"\x03FOO\xc0\x14");
        message[64..66].copy_from_slice(b"\xc0\x1a");
        for (at, expected, end) in [
            (20, "F.ISI.ARPA.", 32),
            (40, "FOO.F.ISI.ARPA.", 46),
            (64, "ARPA.", 66),
            (92, ".", 93),
        ] {
            let (name, after) = Name::parse(&message, at).expect("a name");
            assert_eq!((name.to_string().as_str(), after), (expected, end));
        }
        let below = |at, origin| {
            let (name, _) = Name::parse(&message, at).expect("a name");
            name.is_below(&NameBuf::parse(origin).expect("a name"))
        };
        assert!(below(40, "isi.arpa") && below(40, ".") && below(20, "f.isi.arpa"));
        assert!(!below(20, "foo.f.isi.arpa") && !below(20, "org") && !below(20, "si.arpa"));
    }

    #[test]
    fn names_that_do_not_end_are_errors() {
        let long = [b"\x3f".as_slice(), &[b'x'; 63]].concat().repeat(4);
        let cases: [(&[u8], usize, ParseError); 10] = [
            (b"", 0, ParseError::Truncated),
            (b"\x03ab", 0, ParseError::Truncated),
            (b"\x01a", 0, ParseError::Truncated),
            (b"\xc0", 0, ParseError::Truncated),
            (b"\xc0\x00", 0, ParseError::BadPointer),
            (b"\x01a\xc0\x00", 0, ParseError::BadPointer),
            (b"\xc0\x02\0", 0, ParseError::BadPointer),
            (b"\x02a\xc0\x00\0", 2, ParseError::BadPointer),
            (b"\x40a\0", 0, ParseError::BadLabel),
            (&[&long[..], b"\0"].concat(), 0, ParseError::NameTooLong),
        ];
        for (message, at, expected) in cases {
            let outcome = Name::parse(message, at).map(|_| ());
            assert_eq!(outcome, Err(expected), "{message:?}");
        }
        // Each pointer leads to the one before it; the first to the root.
        let mut message = vec![0, 0];
        for hop in 0..=HOPS_MAX as u16 {
            message.extend((0xc000 | (hop * 2)).to_be_bytes());
        }
        let hops = |count: usize| Name::parse(&message, count * 2).map(|_| ());
        assert_eq!(hops(HOPS_MAX), Ok(()));
        assert_eq!(hops(HOPS_MAX + 1), Err(ParseError::BadPointer));
    }

    #[test]
    fn bytes_that_are_special_are_escaped() {
        let (name, _) = Name::parse(b"\x05a.b\0\xff\x01\\\0", 0).expect("a name");
        assert_eq!(name.to_string(), "a\\.b\\000\\255.\\\\.");
    }
}
