//! A head or a trailer section, line by line: what it says is gathered on the way, so that a head
//! which comes in pieces costs no more than one that comes whole, and fails at the same line.
//!
//! A field is settled when the line after it has come, because that line may go on with its value.

use memchr::memchr;

use crate::error::ErrorKind;
use crate::fields::{TOKEN, is_token, is_value, members, trimmed};
use crate::start_line::{Method, Role, Start, Version};
use crate::{FIELDS_MAX, HEAD_MAX};

/// How far a head has been read. Places are indices into the bytes that hold it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scan {
    kind: Kind,
    /// Where the start line begins: after empty lines that are passed over.
    pub(crate) begin: usize,
    /// Where the line begins that comes next.
    pub(crate) next: usize,
    start: Option<StartLine>,
    pub(crate) version: Version,
    pub(crate) fields_at: usize,
    pub(crate) fields_end: usize,
    field_count: usize,
    pending: Option<Pending>,
    pub(crate) facts: Facts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Request,
    Response,
    Trailers,
}

impl From<Role> for Kind {
    fn from(role: Role) -> Self {
        match role {
            Role::Request => Self::Request,
            Role::Response => Self::Response,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum StartLine {
    Request {
        method: Method,
        name: (usize, usize),
        target: (usize, usize),
    },
    Response {
        status: u16,
        reason: (usize, usize),
    },
}

/// A field that frames the message or keeps the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Connection,
    ContentLength,
    Expect,
    Host,
    TransferEncoding,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    known: Known,
    value: (usize, usize),
}

/// What the fields that matter here say together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) content_length: Option<u64>,
    pub(crate) transfer: Transfer,
    has_chunked: bool,
    pub(crate) closes: bool,
    pub(crate) keeps_alive: bool,
    pub(crate) expects_continue: bool,
    pub(crate) host: (usize, usize),
    pub(crate) host_count: usize,
}

/// The last transfer coding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Transfer {
    #[default]
    None,
    Chunked,
    Other,
}

impl Scan {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    /// Reads the lines of `bytes` that are whole. True: the last of them ends the section, and
    /// `next` is where.
    pub(crate) fn lines(&mut self, bytes: &[u8]) -> Result<bool, ErrorKind> {
        loop {
            if self.start.is_some()
                && let Some(line) = PlainLine::find(&bytes[self.next..])
            {
                self.plain_line(bytes, line)?;
                continue;
            }
            let Some(len) = memchr(b'\n', &bytes[self.next..]) else {
                break;
            };
            if self.line(bytes, self.next + len)? {
                return Ok(true);
            }
        }
        self.check_len(bytes.len())?;
        Ok(false)
    }

    /// Whether a section that goes on to `end` is still short enough.
    pub(crate) fn check_len(&self, end: usize) -> Result<(), ErrorKind> {
        match end - self.begin > HEAD_MAX {
            true => Err(ErrorKind::HeadTooLong),
            false => Ok(()),
        }
    }

    /// The same as [`line`](Self::line) for a field line that is known to be right.
    fn plain_line(&mut self, bytes: &[u8], line: PlainLine) -> Result<(), ErrorKind> {
        let at = self.next;
        self.check_len(at + line.len)?;
        self.settle(bytes)?;
        self.count_field()?;
        self.remember(&bytes[at..at + line.colon], at, at + line.value_end);
        self.next = at + line.len;
        self.fields_end = self.next;
        Ok(())
    }

    /// Reads the line from `next` to its LF at `end`. True: it ends the section.
    pub(crate) fn line(&mut self, bytes: &[u8], end: usize) -> Result<bool, ErrorKind> {
        self.check_len(end + 1)?;
        let at = self.next;
        let has_start = self.start.is_some() || self.kind == Kind::Trailers;
        let line = &bytes[at..end];
        // A CR before the LF belongs to the line's end, any other does not (RFC 9112 section 2.2).
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.first() {
            Some(_) if !has_start => {
                self.start_line(at, line)?;
                self.fields_at = end + 1;
            }
            Some(b' ' | b'\t') => self.folded(bytes, at, line)?,
            Some(_) => {
                self.settle(bytes)?;
                self.field(at, line)?;
            }
            None if has_start => {
                self.settle(bytes)?;
                self.next = end + 1;
                return Ok(true);
            }
            // A server passes over empty lines before a request (RFC 9112 section 2.2).
            None if self.kind == Kind::Request => self.begin = end + 1,
            None => return Err(ErrorKind::BadStatusLine),
        }
        self.next = end + 1;
        self.fields_end = end + 1;
        Ok(false)
    }

    /// The start line, which has been read.
    pub(crate) fn start<'a>(&self, bytes: &'a [u8]) -> Start<'a> {
        let part = |(from, to): (usize, usize)| &bytes[from..to];
        match self.start {
            Some(StartLine::Request {
                method,
                name,
                target,
            }) => Start::Request {
                method,
                name: part(name),
                target: part(target),
            },
            Some(StartLine::Response { status, reason }) => Start::Response {
                status,
                reason: part(reason),
            },
            None => unreachable!("an empty line ends a head only after its start line"),
        }
    }

    /// The status of a response whose start line has been read.
    pub(crate) fn status(&self) -> Option<u16> {
        match self.start {
            Some(StartLine::Response { status, .. }) => Some(status),
            _ => None,
        }
    }

    fn start_line(&mut self, at: usize, line: &[u8]) -> Result<(), ErrorKind> {
        self.start = Some(match self.kind {
            Kind::Request => self.request_line(at, line)?,
            _ => self.status_line(at, line)?,
        });
        Ok(())
    }

    /// `method SP request-target SP HTTP-version`, single spaces only.
    fn request_line(&mut self, at: usize, line: &[u8]) -> Result<StartLine, ErrorKind> {
        let bad = ErrorKind::BadRequestLine;
        let first = memchr(b' ', line).ok_or(bad)?;
        let rest = &line[first + 1..];
        let second = memchr(b' ', rest).ok_or(bad)?;
        let (name, target) = (&line[..first], &rest[..second]);
        if !is_token(name) {
            return Err(bad);
        }
        self.version = version(&rest[second + 1..])?;
        let method = Method::from_name(name);
        if !is_target(method, target) {
            return Err(ErrorKind::BadTarget);
        }
        let target_at = at + first + 1;
        Ok(StartLine::Request {
            method,
            name: (at, at + first),
            target: (target_at, target_at + second),
        })
    }

    /// `HTTP-version SP status-code SP [ reason-phrase ]`; a missing second space is forgiven, as
    /// there are servers that send none without a reason.
    fn status_line(&mut self, at: usize, line: &[u8]) -> Result<StartLine, ErrorKind> {
        let bad = ErrorKind::BadStatusLine;
        let (protocol, rest) = line.split_at_checked(8).ok_or(bad)?;
        self.version = version(protocol)?;
        let [b' ', hundreds, tens, ones, rest @ ..] = rest else {
            return Err(bad);
        };
        let digits = [*hundreds, *tens, *ones];
        if !digits.iter().all(u8::is_ascii_digit) || *hundreds == b'0' {
            return Err(bad);
        }
        let status = digits
            .iter()
            .fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
        let reason = match rest {
            [] => rest,
            [b' ', reason @ ..] => reason,
            _ => return Err(bad),
        };
        if !is_value(reason) {
            return Err(ErrorKind::ControlInLine);
        }
        let end = at + line.len();
        Ok(StartLine::Response {
            status,
            reason: (end - reason.len(), end),
        })
    }

    fn field(&mut self, at: usize, line: &[u8]) -> Result<(), ErrorKind> {
        self.count_field()?;
        let len = line.iter().position(|&byte| !TOKEN[usize::from(byte)]);
        let colon = match len {
            Some(len) if len > 0 && line[len] == b':' => len,
            Some(len) if len > 0 && matches!(line[len], b' ' | b'\t') => {
                return Err(ErrorKind::SpaceBeforeColon);
            }
            _ => return Err(ErrorKind::BadFieldName),
        };
        let value = &line[colon + 1..];
        if !is_value(value) {
            return Err(ErrorKind::ControlInLine);
        }
        self.remember(&line[..colon], at, at + line.len());
        Ok(())
    }

    fn count_field(&mut self) -> Result<(), ErrorKind> {
        self.field_count += 1;
        match self.field_count > FIELDS_MAX {
            true => Err(ErrorKind::TooManyFields),
            false => Ok(()),
        }
    }

    /// Keeps a field that matters, from its name at `at` to `value_end`, until it is settled.
    fn remember(&mut self, name: &[u8], at: usize, value_end: usize) {
        if self.kind != Kind::Trailers
            && let Some(known) = known(name)
        {
            self.pending = Some(Pending {
                known,
                value: (at + name.len() + 1, value_end),
            });
        }
    }

    /// A line that goes on with the value before it.
    fn folded(&mut self, bytes: &[u8], at: usize, line: &[u8]) -> Result<(), ErrorKind> {
        if self.field_count == 0 {
            return Err(ErrorKind::SpaceAfterStart);
        }
        if self.kind == Kind::Request {
            self.settle(bytes)?;
            return Err(ErrorKind::FoldedLine);
        }
        if !is_value(line) {
            return Err(ErrorKind::ControlInLine);
        }
        if let Some(pending) = &mut self.pending {
            pending.value.1 = at + line.len();
        }
        Ok(())
    }

    /// The field before has come whole.
    fn settle(&mut self, bytes: &[u8]) -> Result<(), ErrorKind> {
        match self.pending.take() {
            Some(Pending { known, value }) => self.facts.add(known, bytes, value),
            None => Ok(()),
        }
    }
}

/// A whole field line without anything that would have to be looked at twice: the common case. Any
/// other line, right or wrong, is left to [`Scan::line`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PlainLine {
    colon: usize,
    value_end: usize,
    /// With the line's end.
    len: usize,
}

impl PlainLine {
    fn find(bytes: &[u8]) -> Option<Self> {
        let colon = bytes.iter().position(|&byte| !TOKEN[usize::from(byte)])?;
        if colon == 0 || bytes[colon] != b':' {
            return None;
        }
        let value_end = colon + 1 + plain_len(&bytes[colon + 1..]);
        let len = match bytes.get(value_end..)? {
            [b'\r', b'\n', ..] => value_end + 2,
            [b'\n', ..] => value_end + 1,
            _ => return None,
        };
        Some(Self {
            colon,
            value_end,
            len,
        })
    }
}

/// Bytes before the first that is a control (tabs included) or DEL; eight at a time.
fn plain_len(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut len = 0;
    for eight in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
        // The high bit of each byte that is below 32, or 0 after the exclusive or with DEL; those
        // above the first such byte may be wrong, and are not looked at.
        let below = word.wrapping_sub(ONES * 32) & !word;
        let delete = word ^ (ONES * 0x7f);
        let marks = (below | delete.wrapping_sub(ONES) & !delete) & HIGH;
        if marks != 0 {
            return len + (marks.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    let rest = &bytes[len..];
    let is_control = |&byte: &u8| byte < b' ' || byte == 0x7f;
    len + rest.iter().position(is_control).unwrap_or(rest.len())
}

impl Facts {
    fn add(&mut self, known: Known, bytes: &[u8], at: (usize, usize)) -> Result<(), ErrorKind> {
        let value = trimmed(&bytes[at.0..at.1]);
        match known {
            Known::Connection => {
                for option in members(value) {
                    self.closes |= option.eq_ignore_ascii_case(b"close");
                    self.keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            Known::ContentLength => self.add_length(value)?,
            Known::Expect => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            Known::Host => {
                self.host_count += 1;
                let from = at.0 + bytes[at.0..at.1].len() - trimmed_start(&bytes[at.0..at.1]).len();
                self.host = (from, from + value.len());
            }
            Known::TransferEncoding => self.add_codings(value)?,
        }
        Ok(())
    }

    /// Several that are equal are one, in one field or in several (RFC 9112 section 6.3, 5).
    fn add_length(&mut self, value: &[u8]) -> Result<(), ErrorKind> {
        for member in value.split(|&byte| byte == b',').map(trimmed) {
            let len = number(member).ok_or(ErrorKind::BadContentLength)?;
            if self.content_length.is_some_and(|before| before != len) {
                return Err(ErrorKind::BadContentLength);
            }
            self.content_length = Some(len);
        }
        Ok(())
    }

    fn add_codings(&mut self, value: &[u8]) -> Result<(), ErrorKind> {
        // A field without a coding is no reason to go by the Content-Length.
        if self.transfer == Transfer::None {
            self.transfer = Transfer::Other;
        }
        for coding in members(value) {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            if is_chunked && self.has_chunked {
                return Err(ErrorKind::BadTransferEncoding);
            }
            self.has_chunked |= is_chunked;
            self.transfer = match is_chunked {
                true => Transfer::Chunked,
                false => Transfer::Other,
            };
        }
        Ok(())
    }
}

fn trimmed_start(mut value: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = value
        && crate::fields::is_space(*first)
    {
        value = rest;
    }
    value
}

/// Decimal digits only; at most 2^63 - 1, as nothing longer can be sent.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    (number <= i64::MAX as u64).then_some(number)
}

fn version(text: &[u8]) -> Result<Version, ErrorKind> {
    match text {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Version::Http11),
        _ => Err(ErrorKind::BadVersion),
    }
}

/// The four forms of RFC 9112 section 3.2. Bytes beyond ASCII are let through: browsers and servers
/// exchange them, and they end nothing.
fn is_target(method: Method, target: &[u8]) -> bool {
    let is_visible = !target.is_empty() && is_value(target) && !target.contains(&b'\t');
    let has_form = match method {
        Method::Connect => !target.contains(&b'/'),
        _ => {
            target.starts_with(b"/")
                || target == b"*" && method == Method::Options
                || memchr(b':', target).is_some_and(|at| target[at..].starts_with(b"://"))
        }
    };
    is_visible && has_form
}

fn known(name: &[u8]) -> Option<Known> {
    let (text, known): (&[u8], _) = match name.len() {
        4 => (b"host", Known::Host),
        6 => (b"expect", Known::Expect),
        10 => (b"connection", Known::Connection),
        14 => (b"content-length", Known::ContentLength),
        17 => (b"transfer-encoding", Known::TransferEncoding),
        _ => return None,
    };
    name.eq_ignore_ascii_case(text).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_bytes_end_at_the_first_control() {
        for at in 0..20 {
            for byte in 0..=255 {
                for fill in [b' ', b'~', 0x80, 0xff] {
                    let mut bytes = [fill; 20];
                    bytes[at] = byte;
                    let is_control = byte < b' ' || byte == 0x7f;
                    let expected = if is_control { at } else { 20 };
                    assert_eq!(plain_len(&bytes), expected, "{byte} at {at} in {fill}");
                }
            }
        }
    }

    #[test]
    fn plain_lines_are_whole_and_right() {
        let find = |text: &str| PlainLine::find(text.as_bytes());
        let line = |colon, value_end, len| {
            Some(PlainLine {
                colon,
                value_end,
                len,
            })
        };
        assert_eq!(find("Ab: c\r\nD"), line(2, 5, 7));
        assert_eq!(find("Ab:\n"), line(2, 3, 4));
        for text in [
            "",
            "A",
            "A: b",
            "A: b\r",
            "A: b\rc\n",
            "A : b\n",
            ": b\n",
            " A: b\n",
            "A:\tb\n",
        ] {
            assert_eq!(find(text), None, "{text:?}");
        }
    }
}
