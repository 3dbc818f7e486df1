//! Lines that end in LF, whole where they lie, or held in a pool when they come in pieces.

use memchr::memchr;

/// The most bytes of a line: 64 keys of the longest kind in one command. memcached's own limit lies
/// between 1 and 16 KiB, by the command.
pub const LINE_MAX: usize = 16 * 1024;

/// A stream that cannot be read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at byte {at} of the stream)")]
pub struct ParseError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Offset in the stream: of the line at fault, or of the byte behind a value.
    pub at: u64,
}

/// Why a stream cannot be read further. A command that a server refuses is not among these: it has
/// an answer, see [`CommandError`](crate::CommandError).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum ErrorKind {
    /// More than [`LINE_MAX`] bytes without an LF.
    #[error("line too long")]
    LineTooLong,
    /// A line that is no reply.
    #[error("not a reply of memcached")]
    BadReply,
    /// No CR LF after a value.
    #[error("no line end after a value")]
    BadValueEnd,
    /// The stream ended within a line or a value.
    #[error("stream ended within a message")]
    Truncated,
    /// The pool of lines is full. Not the peer's fault.
    #[error("no room for another line that came in pieces")]
    NoRoom,
}

/// Where the parsers of many connections keep lines that are not complete yet.
///
/// A parser gives its line back when it is complete, at an error and in `finish`; a caller who
/// drops a connection without that calls `release`.
#[derive(Debug)]
pub struct Lines {
    held: Vec<Vec<u8>>,
    free: Vec<u32>,
    count_max: usize,
}

/// No place in [`Lines`].
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Memory that a place keeps for the next line: commands with one key fit.
const KEPT_BYTES: usize = 512;

/// A line is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Bytes of the push that belong to it.
    pub(crate) taken: usize,
}

impl Lines {
    /// Room for `count_max` lines of at most [`LINE_MAX`] bytes at once.
    pub fn new(count_max: usize) -> Self {
        Self {
            held: Vec::new(),
            free: Vec::new(),
            count_max: count_max.min(NO_SLOT as usize),
        }
    }

    /// How many lines are held now.
    pub fn held_count(&self) -> usize {
        self.held.len() - self.free.len()
    }

    /// Looks for the end of the line of which `slot` holds the beginning. `None`: all of `bytes`
    /// belongs to it, and is held.
    pub(crate) fn find(
        &mut self,
        slot: &mut u32,
        bytes: &[u8],
    ) -> Result<Option<Found>, ErrorKind> {
        let end = memchr(b'\n', bytes);
        let taken = end.map_or(bytes.len(), |at| at + 1);
        let before = self.held.get(*slot as usize).map_or(0, Vec::len);
        if before + taken > LINE_MAX {
            return Err(ErrorKind::LineTooLong);
        }
        if *slot == NO_SLOT && end.is_none() {
            *slot = self.take().ok_or(ErrorKind::NoRoom)?;
        }
        if *slot != NO_SLOT {
            self.held[*slot as usize].extend_from_slice(&bytes[..taken]);
        }
        Ok(end.map(|_| Found { taken }))
    }

    /// The line that was found, without its end.
    pub(crate) fn line<'a>(&'a self, slot: u32, bytes: &'a [u8], found: Found) -> &'a [u8] {
        let line = match slot {
            NO_SLOT => &bytes[..found.taken],
            slot => &self.held[slot as usize],
        };
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    pub(crate) fn release(&mut self, slot: &mut u32) {
        if *slot != NO_SLOT {
            let line = &mut self.held[*slot as usize];
            line.clear();
            line.shrink_to(KEPT_BYTES);
            self.free.push(*slot);
            *slot = NO_SLOT;
        }
    }

    /// Bytes that are held in a place.
    pub(crate) fn held_len(&self, slot: u32) -> usize {
        self.held.get(slot as usize).map_or(0, Vec::len)
    }

    fn take(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        (self.held.len() < self.count_max).then(|| {
            self.held.push(Vec::new());
            self.held.len() as u32 - 1
        })
    }
}

/// The words of a line. Only spaces divide them, as in memcached.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let words = line.split(|&byte| byte == b' ');
    words.filter(|word| !word.is_empty())
}

/// A decimal number, as strtoull reads it but for a minus sign and spaces.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// A decimal number with a sign, of at most 31 bits.
pub(crate) fn signed(word: &[u8]) -> Option<i64> {
    let (digits, sign) = match word.strip_prefix(b"-") {
        Some(digits) if digits.first() != Some(&b'+') => (digits, -1),
        Some(_) => return None,
        None => (word, 1),
    };
    let number = number(digits).filter(|&number| number <= i32::MAX as u64)?;
    Some(sign * number as i64)
}

/// Appends a number in decimal.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
