//! Replies: what a server answers, read by a client.

use crate::command::{KEY_MAX, VALUE_MAX};
use crate::lines::{ErrorKind, Lines, NO_SLOT, ParseError, number, words};

#[cfg(test)]
mod tests;

/// The reply that completes a command.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `STORED`.
    Stored,
    /// `NOT_STORED`: a condition did not hold.
    NotStored,
    /// `EXISTS`: the item has changed since.
    Exists,
    /// `NOT_FOUND`.
    NotFound,
    /// `DELETED`.
    Deleted,
    /// `TOUCHED`.
    Touched,
    /// `OK`.
    Ok,
    /// `END`, after the values of a retrieval.
    End,
    /// The new number, after `incr` and `decr`.
    Number(u64),
    /// `VERSION`, with the text behind it.
    Version(&'a [u8]),
    /// `ERROR`: the server does not know the command.
    Error,
    /// `CLIENT_ERROR`, with the reason.
    ClientError(&'a [u8]),
    /// `SERVER_ERROR`, with the reason.
    ServerError(&'a [u8]),
}

/// An item of a retrieval, before its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// As they were stored.
    pub flags: u32,
    /// Bytes of its value.
    pub len: u32,
    /// Its unique number, after `gets`.
    pub cas: Option<u64>,
}

/// Hears what a [`ReplyParser`] reads.
pub trait ReplySink {
    /// An item, with the offset of its line in the stream.
    fn on_item(&mut self, _at: u64, _value: Value<'_>) {}

    /// The next bytes of its value.
    fn on_value(&mut self, _bytes: &[u8]) {}

    /// A command is complete; `at` is the offset behind its reply.
    fn on_reply(&mut self, at: u64, reply: Reply<'_>);
}

/// Reads the replies of a connection.
#[derive(Debug)]
pub struct ReplyParser {
    /// Bytes of a value that are missing; after an error, where it was.
    left: u64,
    slot: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Line,
    Value,
    ValueCr,
    ValueLf,
    Failed(ErrorKind),
}

enum Line<'a> {
    Reply(Reply<'a>),
    Item(Value<'a>),
}

impl ReplyParser {
    /// For a connection of which nothing has come.
    pub fn new() -> Self {
        Self {
            left: 0,
            slot: NO_SLOT,
            state: State::Line,
        }
    }

    /// Takes the next bytes, the first of which has the offset `at` in the stream. After an error
    /// the same one is returned again.
    pub fn push<S: ReplySink>(
        &mut self,
        at: u64,
        bytes: &[u8],
        lines: &mut Lines,
        sink: &mut S,
    ) -> Result<(), ParseError> {
        let mut done = 0;
        while done < bytes.len() {
            let here = at.wrapping_add(done as u64);
            done += self.step(here, &bytes[done..], lines, sink)?;
        }
        Ok(())
    }

    /// The stream has ended at the offset `at`.
    pub fn finish(&mut self, at: u64, lines: &mut Lines) -> Result<(), ParseError> {
        match self.state {
            State::Line if self.slot == NO_SLOT => Ok(()),
            State::Failed(kind) => Err(ParseError {
                kind,
                at: self.left,
            }),
            _ => Err(self.fail(ErrorKind::Truncated, at, lines)),
        }
    }

    /// Gives back what it holds in `lines`: before a connection is dropped in the middle.
    pub fn release(&mut self, lines: &mut Lines) {
        lines.release(&mut self.slot);
    }

    fn step<S: ReplySink>(
        &mut self,
        at: u64,
        bytes: &[u8],
        lines: &mut Lines,
        sink: &mut S,
    ) -> Result<usize, ParseError> {
        match self.state {
            State::Line => {
                let begin = at.wrapping_sub(lines.held_len(self.slot) as u64);
                let found = match lines.find(&mut self.slot, bytes) {
                    Ok(Some(found)) => found,
                    Ok(None) => return Ok(bytes.len()),
                    Err(kind) => return Err(self.fail(kind, begin, lines)),
                };
                match parse(lines.line(self.slot, bytes, found)) {
                    Some(Line::Reply(reply)) => {
                        sink.on_reply(at.wrapping_add(found.taken as u64), reply);
                    }
                    Some(Line::Item(value)) => {
                        self.begin_value(u64::from(value.len));
                        sink.on_item(begin, value);
                    }
                    None => return Err(self.fail(ErrorKind::BadReply, begin, lines)),
                }
                lines.release(&mut self.slot);
                Ok(found.taken)
            }
            State::Value => {
                let len = self.left.min(bytes.len() as u64);
                sink.on_value(&bytes[..len as usize]);
                let left = self.left - len;
                self.begin_value(left);
                Ok(len as usize)
            }
            State::ValueCr if bytes[0] == b'\r' => {
                self.state = State::ValueLf;
                Ok(1)
            }
            State::ValueLf if bytes[0] == b'\n' => {
                self.state = State::Line;
                Ok(1)
            }
            State::ValueCr | State::ValueLf => Err(self.fail(ErrorKind::BadValueEnd, at, lines)),
            State::Failed(kind) => Err(ParseError {
                kind,
                at: self.left,
            }),
        }
    }

    fn begin_value(&mut self, left: u64) {
        self.left = left;
        self.state = match left {
            0 => State::ValueCr,
            _ => State::Value,
        };
    }

    #[cold]
    fn fail(&mut self, kind: ErrorKind, at: u64, lines: &mut Lines) -> ParseError {
        self.release(lines);
        self.state = State::Failed(kind);
        self.left = at;
        ParseError { kind, at }
    }
}

impl Default for ReplyParser {
    fn default() -> Self {
        Self::new()
    }
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    Some(Line::Reply(match line {
        b"STORED" => Reply::Stored,
        b"NOT_STORED" => Reply::NotStored,
        b"EXISTS" => Reply::Exists,
        b"NOT_FOUND" => Reply::NotFound,
        b"DELETED" => Reply::Deleted,
        b"TOUCHED" => Reply::Touched,
        b"OK" => Reply::Ok,
        b"END" => Reply::End,
        _ => {
            if let Some(reason) = line.strip_prefix(b"VALUE ") {
                return item(reason).map(Line::Item);
            }
            let first = line.first()?;
            match () {
                () if first.is_ascii_digit() => Reply::Number(number(line)?),
                () if line.starts_with(b"ERROR") => Reply::Error,
                () => {
                    let (name, reason) = line.split_at(line.iter().position(|&b| b == b' ')?);
                    let reason = &reason[1..];
                    match name {
                        b"VERSION" => Reply::Version(reason),
                        b"CLIENT_ERROR" => Reply::ClientError(reason),
                        b"SERVER_ERROR" => Reply::ServerError(reason),
                        _ => return None,
                    }
                }
            }
        }
    }))
}

fn item(rest: &[u8]) -> Option<Value<'_>> {
    let mut words = words(rest);
    let key = words.next().filter(|key| key.len() <= KEY_MAX)?;
    let flags = number(words.next()?)?;
    let len = number(words.next()?).filter(|&len| len <= VALUE_MAX)?;
    let cas = match words.next() {
        Some(cas) => Some(number(cas)?),
        None => None,
    };
    words.next().is_none().then_some(Value {
        key,
        flags: u32::try_from(flags).ok()?,
        len: len as u32,
        cas,
    })
}
