//! Commands: what a client asks, read by a server and written by a client.

use crate::lines::{ErrorKind, Lines, NO_SLOT, ParseError, number, push_number, signed, words};

#[cfg(test)]
mod tests;

/// The most bytes of a key.
pub const KEY_MAX: usize = 250;

/// The longest value that can be announced; what a store takes is less, see
/// [`Limits`](crate::Limits).
pub const VALUE_MAX: u64 = i32::MAX as u64 - 2;

/// Tokens of the longest command that is no retrieval: `cas` with `noreply`.
const WORDS_MAX: usize = 8;

/// A command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Get {
        /// One or more.
        keys: Keys<'a>,
        /// With the unique number of each item: `gets`, `gats`.
        with_cas: bool,
        /// A new expiration time in seconds: `gat`, `gats`.
        touch: Option<i64>,
    },
    /// A command with a value, whose bytes follow the line.
    Store {
        /// Which.
        verb: Verb,
        /// The key.
        key: &'a [u8],
        /// Kept with the value.
        flags: u32,
        /// Expiration time: 0 never, up to 30 days in seconds from now, else Unix time.
        exptime: i64,
        /// Bytes of the value.
        len: u32,
        /// No answer is sent.
        noreply: bool,
    },
    /// `delete`.
    Delete {
        /// The key.
        key: &'a [u8],
        /// No answer is sent.
        noreply: bool,
    },
    /// `incr`, `decr`.
    Add {
        /// The key.
        key: &'a [u8],
        /// By how much.
        delta: u64,
        /// Down to 0, instead of up and around.
        down: bool,
        /// No answer is sent.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// As that of a value.
        exptime: i64,
        /// No answer is sent.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// Seconds from now.
        delay: i64,
        /// No answer is sent.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`, which changes nothing here.
    Verbosity {
        /// No answer is sent.
        noreply: bool,
    },
    /// `quit`: the server closes the connection.
    Quit,
}

/// Which command stores a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// In any case.
    Set,
    /// If there is none.
    Add,
    /// If there is one.
    Replace,
    /// Behind the one that is there.
    Append,
    /// Before the one that is there.
    Prepend,
    /// If the one that is there has this unique number.
    Cas(u64),
}

/// The keys of a retrieval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys<'a> {
    text: &'a [u8],
}

/// Why a server refuses a line.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommandError {
    /// A name that is none, or too few or too many words.
    Unknown,
    /// A key that is too long, or a number that is none.
    BadFormat,
    /// `delete` with another word.
    BadDelete,
    /// `incr` and `decr` by what is no number.
    BadDelta,
    /// A time that is no number.
    BadExptime,
}

impl CommandError {
    /// memcached's answer, without its line end.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "ERROR",
            Self::BadFormat => "CLIENT_ERROR bad command line format",
            Self::BadDelete => {
                "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"
            }
            Self::BadDelta => "CLIENT_ERROR invalid numeric delta argument",
            Self::BadExptime => "CLIENT_ERROR invalid exptime argument",
        }
    }
}

/// Hears what a [`CommandParser`] reads.
pub trait CommandSink {
    /// A command line, with the offset of its first byte. After [`Command::Store`] come the value
    /// and its end.
    fn on_command(&mut self, at: u64, command: Command<'_>);

    /// The next bytes of a value.
    fn on_value(&mut self, bytes: &[u8]);

    /// The value is there, and with `is_right` CR LF behind it. `at`: the offset behind it.
    fn on_value_end(&mut self, at: u64, is_right: bool);

    /// A line that is refused. The next line is read all the same.
    fn on_refused(&mut self, at: u64, error: CommandError);

    /// Whether to stop before the next line, because there is no room for more answers.
    fn is_full(&self) -> bool {
        false
    }
}

/// Reads the commands of a connection.
#[derive(Debug)]
pub struct CommandParser {
    /// Bytes of a value that are missing; after an error, where it was.
    left: u64,
    slot: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Line,
    Value,
    /// Two bytes are to come, the first of them CR.
    ValueCr,
    ValueLf,
    /// The first of them was none.
    ValueBad,
    Failed(ErrorKind),
}

impl CommandParser {
    /// For a connection of which nothing has come.
    pub fn new() -> Self {
        Self {
            left: 0,
            slot: NO_SLOT,
            state: State::Line,
        }
    }

    /// Takes bytes, the first of which has the offset `at` in the stream, and returns how many:
    /// all, unless the sink is full.
    pub fn push<S: CommandSink>(
        &mut self,
        at: u64,
        bytes: &[u8],
        lines: &mut Lines,
        sink: &mut S,
    ) -> Result<usize, ParseError> {
        let mut done = 0;
        while done < bytes.len() {
            if self.state == State::Line && sink.is_full() {
                break;
            }
            let here = at.wrapping_add(done as u64);
            done += self.step(here, &bytes[done..], lines, sink)?;
        }
        Ok(done)
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

    /// Whether it stands between two commands, with nothing of the next one.
    pub fn is_idle(&self) -> bool {
        self.state == State::Line && self.slot == NO_SLOT
    }

    /// Gives back what it holds in `lines`: before a connection is dropped in the middle.
    pub fn release(&mut self, lines: &mut Lines) {
        lines.release(&mut self.slot);
    }

    fn step<S: CommandSink>(
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
                    Ok(command) => {
                        if let Command::Store { len, .. } = command {
                            self.begin_value(u64::from(len));
                        }
                        sink.on_command(begin, command);
                    }
                    Err(error) => sink.on_refused(begin, error),
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
            State::ValueCr => {
                self.state = match bytes[0] {
                    b'\r' => State::ValueLf,
                    _ => State::ValueBad,
                };
                Ok(1)
            }
            State::ValueLf | State::ValueBad => {
                let is_right = self.state == State::ValueLf && bytes[0] == b'\n';
                self.state = State::Line;
                sink.on_value_end(at.wrapping_add(1), is_right);
                Ok(1)
            }
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

impl Default for CommandParser {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether `key` may stand in a command: 1 to 250 bytes, none of them a space or a control.
pub fn is_key(key: &[u8]) -> bool {
    let is_plain = key.iter().all(|&byte| byte > b' ' && byte != 0x7f);
    (1..=KEY_MAX).contains(&key.len()) && is_plain
}

fn parse(line: &[u8]) -> Result<Command<'_>, CommandError> {
    let mut rest = words(line);
    let name = rest.next().ok_or(CommandError::Unknown)?;
    match name {
        b"get" => retrieval(line, name, false, false),
        b"gets" => retrieval(line, name, true, false),
        b"gat" => retrieval(line, name, false, true),
        b"gats" => retrieval(line, name, true, true),
        _ => {
            let mut words = [&[][..]; WORDS_MAX];
            let mut count = 0;
            for word in rest {
                *words.get_mut(count).ok_or(CommandError::Unknown)? = word;
                count += 1;
            }
            other(name, &words[..count])
        }
    }
}

/// `line` begins with `name`, perhaps after spaces.
fn retrieval<'a>(
    line: &'a [u8],
    name: &[u8],
    with_cas: bool,
    touches: bool,
) -> Result<Command<'a>, CommandError> {
    let begin = line.iter().position(|&byte| byte != b' ').unwrap_or(0);
    let mut text = &line[begin + name.len()..];
    let mut touch = None;
    if touches {
        let word = words(text).next().ok_or(CommandError::Unknown)?;
        touch = Some(signed(word).ok_or(CommandError::BadExptime)?);
        let at = text.iter().position(|&byte| byte != b' ').unwrap_or(0);
        text = &text[at + word.len()..];
    }
    let keys = Keys { text };
    if keys.into_iter().next().is_none() {
        return Err(CommandError::Unknown);
    }
    if keys.into_iter().any(|key| key.len() > KEY_MAX) {
        return Err(CommandError::BadFormat);
    }
    Ok(Command::Get {
        keys,
        with_cas,
        touch,
    })
}

fn other<'a>(name: &[u8], words: &[&'a [u8]]) -> Result<Command<'a>, CommandError> {
    let noreply = words.last().is_some_and(|last| *last == b"noreply");
    let verb = match name {
        b"set" => Verb::Set,
        b"add" => Verb::Add,
        b"replace" => Verb::Replace,
        b"append" => Verb::Append,
        b"prepend" => Verb::Prepend,
        b"cas" => Verb::Cas(0),
        b"incr" | b"decr" => return addition(words, name == b"decr", noreply),
        b"delete" => return deletion(words, noreply),
        b"touch" => {
            let [key, exptime] = with_optional(words)?;
            return Ok(Command::Touch {
                key: checked(key)?,
                exptime: signed(exptime).ok_or(CommandError::BadExptime)?,
                noreply,
            });
        }
        b"flush_all" => {
            let delay = match words {
                [] | [b"noreply"] => 0,
                [delay] | [delay, b"noreply"] => signed(delay).ok_or(CommandError::BadExptime)?,
                _ => return Err(CommandError::Unknown),
            };
            return Ok(Command::FlushAll { delay, noreply });
        }
        b"version" => return Ok(Command::Version),
        b"verbosity" if !words.is_empty() => return Ok(Command::Verbosity { noreply }),
        b"quit" => return Ok(Command::Quit),
        _ => return Err(CommandError::Unknown),
    };
    storage(verb, words, noreply)
}

fn storage<'a>(verb: Verb, words: &[&'a [u8]], noreply: bool) -> Result<Command<'a>, CommandError> {
    let bad = CommandError::BadFormat;
    let ([key, flags, exptime, len], cas) = match verb {
        Verb::Cas(_) => {
            let [key, flags, exptime, len, cas] = with_optional(words)?;
            ([key, flags, exptime, len], Some(cas))
        }
        _ => (with_optional(words)?, None),
    };
    let key = checked(key)?;
    let flags = number(flags).ok_or(bad)?;
    let exptime = signed(exptime).ok_or(bad)?;
    let len = number(len).filter(|&len| len <= VALUE_MAX).ok_or(bad)?;
    Ok(Command::Store {
        verb: match cas {
            Some(cas) => Verb::Cas(number(cas).ok_or(bad)?),
            None => verb,
        },
        key,
        flags: u32::try_from(flags).map_err(|_| bad)?,
        exptime,
        len: len as u32,
        noreply,
    })
}

fn addition<'a>(
    words: &[&'a [u8]],
    down: bool,
    noreply: bool,
) -> Result<Command<'a>, CommandError> {
    let [key, delta] = with_optional(words)?;
    Ok(Command::Add {
        key: checked(key)?,
        delta: number(delta).ok_or(CommandError::BadDelta)?,
        down,
        noreply,
    })
}

/// Old clients send a time of 0 (`doc/protocol.txt` of version 1.2).
fn deletion<'a>(words: &[&'a [u8]], noreply: bool) -> Result<Command<'a>, CommandError> {
    let key = match words {
        [key] | [key, b"0" | b"noreply"] | [key, b"0", b"noreply"] => key,
        [_, _] | [_, _, _] => return Err(CommandError::BadDelete),
        _ => return Err(CommandError::Unknown),
    };
    Ok(Command::Delete {
        key: checked(key)?,
        noreply,
    })
}

/// `N` words, and perhaps one more.
fn with_optional<'a, const N: usize>(words: &[&'a [u8]]) -> Result<[&'a [u8]; N], CommandError> {
    match words.len() == N || words.len() == N + 1 {
        true => words[..N].try_into().map_err(|_| CommandError::Unknown),
        false => Err(CommandError::Unknown),
    }
}

fn checked(key: &[u8]) -> Result<&[u8], CommandError> {
    match key.len() > KEY_MAX {
        true => Err(CommandError::BadFormat),
        false => Ok(key),
    }
}

impl<'a> Keys<'a> {
    /// These, divided by spaces.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text }
    }
}

impl<'a> IntoIterator for Keys<'a> {
    type Item = &'a [u8];
    type IntoIter = KeysIter<'a>;

    fn into_iter(self) -> KeysIter<'a> {
        KeysIter { rest: self.text }
    }
}

/// The keys, one after another.
#[derive(Debug, Clone)]
pub struct KeysIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for KeysIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let begin = self.rest.iter().position(|&byte| byte != b' ')?;
        let rest = &self.rest[begin..];
        let end = rest.iter().position(|&byte| byte == b' ');
        let (key, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.rest = rest;
        Some(key)
    }
}

impl Command<'_> {
    /// Whether a server answers it: clients count what they wait for.
    pub fn is_answered(&self) -> bool {
        match *self {
            Self::Store { noreply, .. }
            | Self::Delete { noreply, .. }
            | Self::Add { noreply, .. }
            | Self::Touch { noreply, .. }
            | Self::FlushAll { noreply, .. }
            | Self::Verbosity { noreply } => !noreply,
            Self::Get { .. } | Self::Version => true,
            Self::Quit => false,
        }
    }

    /// Appends the line. The value of a [`Command::Store`] and its CR LF are the caller's to send.
    /// Keys must be such that [`is_key`] holds.
    pub fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(
            self.has_right_keys(),
            "a key that would begin another command"
        );
        self.write_words(out);
        if !self.is_answered() && *self != Self::Quit {
            out.extend_from_slice(b" noreply");
        }
        out.extend_from_slice(b"\r\n");
    }

    fn write_words(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Get {
                keys,
                with_cas,
                touch,
            } => {
                out.extend_from_slice(match (touch, with_cas) {
                    (None, false) => b"get",
                    (None, true) => b"gets",
                    (Some(_), false) => b"gat",
                    (Some(_), true) => b"gats",
                });
                if let Some(exptime) = touch {
                    push_signed(out, exptime);
                }
                keys.into_iter().for_each(|key| push_word(out, key));
            }
            Self::Store {
                verb,
                key,
                flags,
                exptime,
                len,
                ..
            } => {
                out.extend_from_slice(verb.name());
                push_word(out, key);
                out.push(b' ');
                push_number(out, u64::from(flags));
                push_signed(out, exptime);
                out.push(b' ');
                push_number(out, u64::from(len));
                if let Verb::Cas(unique) = verb {
                    out.push(b' ');
                    push_number(out, unique);
                }
            }
            Self::Delete { key, .. } => {
                out.extend_from_slice(b"delete");
                push_word(out, key);
            }
            Self::Add {
                key, delta, down, ..
            } => {
                out.extend_from_slice(if down { b"decr" } else { b"incr" });
                push_word(out, key);
                out.push(b' ');
                push_number(out, delta);
            }
            Self::Touch { key, exptime, .. } => {
                out.extend_from_slice(b"touch");
                push_word(out, key);
                push_signed(out, exptime);
            }
            Self::FlushAll { delay, .. } => {
                out.extend_from_slice(b"flush_all");
                push_signed(out, delay);
            }
            Self::Version => out.extend_from_slice(b"version"),
            Self::Verbosity { .. } => out.extend_from_slice(b"verbosity 0"),
            Self::Quit => out.extend_from_slice(b"quit"),
        }
    }

    fn has_right_keys(&self) -> bool {
        match *self {
            Self::Get { keys, .. } => keys.into_iter().all(is_key),
            Self::Store { key, .. }
            | Self::Delete { key, .. }
            | Self::Add { key, .. }
            | Self::Touch { key, .. } => is_key(key),
            _ => true,
        }
    }
}

impl Verb {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Set => b"set",
            Self::Add => b"add",
            Self::Replace => b"replace",
            Self::Append => b"append",
            Self::Prepend => b"prepend",
            Self::Cas(_) => b"cas",
        }
    }
}

fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(word);
}

fn push_signed(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(if number < 0 { b" -" } else { b" " });
    push_number(out, number.unsigned_abs());
}
