//! One direction of a connection as a sequence of messages.
//!
//! ```text
//!        ┌───────────────────────────── end of the message ◄────────────────────────────────┐
//!        ▼                                                                                  │
//!   Between ──► Head ──► Body(left) ────────────────────────────────────────────────────────┤
//!  (messages) (held in  ─► ChunkLine ─► ChunkData(left) ─► ChunkCr ─► ChunkLf ─► ChunkLine  │
//!              pieces)         └── size 0 ──► Trailers (held in pieces) ────────────────────┤
//!                       ─► UntilClose ─────────────────────────────── finish() ─────────────┘
//!                       ─► Tunnel                        any error ──► Failed
//! ```

use memchr::memchr;

use crate::chunk::{Line, Place};
use crate::error::{ErrorKind, ParseError};
use crate::fields::Fields;
use crate::head::{Framing, Head, is_interim};
use crate::heads::Heads;
use crate::scan::{Kind, Scan};
use crate::start_line::{Method, Role};

#[cfg(test)]
mod tests;

/// Hears what a [`Parser`] reads.
///
/// Of each message, in this order: `on_interim` as often as the server likes, `on_head`, `on_body`
/// for each piece, `on_end`.
pub trait Sink {
    /// The method of the request which the final response that has just come answers: the end of a
    /// response cannot be found without it (RFC 9112 section 6.3). Called once for each, before its
    /// `on_head`.
    fn asked(&mut self) -> Method {
        Method::Get
    }

    /// The head of an interim response (RFC 9110 section 15.2): the final one follows.
    fn on_interim(&mut self, _head: &Head<'_>) {}

    /// The head of a message.
    fn on_head(&mut self, head: &Head<'_>);

    /// The next bytes of its body, which begin at the offset `at` of the stream; without the lines
    /// of the chunked coding. Of a tunnel: whatever comes.
    fn on_body(&mut self, _at: u64, _bytes: &[u8]) {}

    /// The message is complete.
    fn on_end(&mut self, end: End<'_>);
}

/// The end of a message.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Offset in the stream behind its last byte.
    pub at: u64,
    /// The trailer section of a chunked body (RFC 9112 section 7.1.2). Its fields are not merged
    /// with those of the head.
    pub trailers: Fields<'a>,
}

/// Reads one direction of a connection. Small, because there may be millions.
#[derive(Debug)]
pub struct Parser {
    /// Bytes that are missing from a body or a chunk; the size of a chunk so far. After an error:
    /// where it was.
    left: u64,
    /// The place in [`Heads`] of a head or trailer section that came in pieces.
    slot: u32,
    /// Digits or bytes of extensions in the line before a chunk.
    count: u16,
    state: State,
    /// [`IS_RESPONSE`], [`CLOSES`].
    flags: u8,
}

/// The direction carries responses.
const IS_RESPONSE: u8 = 1;
/// The message ends the connection.
const CLOSES: u8 = 2;

/// No place in [`Heads`].
const NO_SLOT: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between,
    Body,
    ChunkSize,
    ChunkSpace,
    ChunkExtension,
    ChunkEnd,
    ChunkData,
    ChunkCr,
    ChunkLf,
    Trailers,
    UntilClose,
    Tunnel,
    Failed(ErrorKind),
}

impl From<Place> for State {
    fn from(place: Place) -> Self {
        match place {
            Place::Size => Self::ChunkSize,
            Place::Space => Self::ChunkSpace,
            Place::Extension => Self::ChunkExtension,
            Place::End => Self::ChunkEnd,
        }
    }
}

/// An error at a number of bytes from the first of the push; a section that came in pieces may have
/// begun before it.
type Fault = (ErrorKind, i64);

impl Parser {
    /// For a connection of which nothing has come.
    pub fn new(role: Role) -> Self {
        Self {
            left: 0,
            slot: NO_SLOT,
            count: 0,
            state: State::Between,
            flags: match role {
                Role::Request => 0,
                Role::Response => IS_RESPONSE,
            },
        }
    }

    /// Takes the next bytes, the first of which has the offset `at` in the stream; all offsets that
    /// the sink hears follow from it. After an error the same one is returned again.
    pub fn push<S: Sink>(
        &mut self,
        at: u64,
        bytes: &[u8],
        heads: &mut Heads,
        sink: &mut S,
    ) -> Result<(), ParseError> {
        let mut done = 0;
        while done < bytes.len() {
            if let State::Failed(kind) = self.state {
                return Err(ParseError {
                    kind,
                    at: self.left,
                });
            }
            let here = at.wrapping_add(done as u64);
            match self.step(here, &bytes[done..], heads, sink) {
                Ok(len) => done += len,
                Err((kind, offset)) => {
                    let at = here.wrapping_add_signed(offset);
                    return Err(self.fail(ParseError { kind, at }, heads));
                }
            }
        }
        Ok(())
    }

    /// The stream has ended at the offset `at`: that ends a body which had no other end.
    pub fn finish<S: Sink>(
        &mut self,
        at: u64,
        heads: &mut Heads,
        sink: &mut S,
    ) -> Result<(), ParseError> {
        match self.state {
            State::Failed(kind) => Err(ParseError {
                kind,
                at: self.left,
            }),
            State::UntilClose | State::Tunnel => {
                self.end(at, Fields::default(), sink);
                Ok(())
            }
            State::Between if self.slot == NO_SLOT => Ok(()),
            _ => {
                let kind = ErrorKind::Truncated;
                Err(self.fail(ParseError { kind, at }, heads))
            }
        }
    }

    /// Gives back what it holds in `heads`: before a connection is dropped in the middle.
    pub fn release(&mut self, heads: &mut Heads) {
        if self.slot != NO_SLOT {
            heads.give_back(self.slot);
            self.slot = NO_SLOT;
        }
    }

    /// Whether it stands between two messages, with nothing of the next one.
    pub fn is_idle(&self) -> bool {
        self.state == State::Between && self.slot == NO_SLOT
    }

    /// Whether the last message, or the one at hand, is the last of the connection.
    pub fn closes(&self) -> bool {
        self.flags & CLOSES != 0
    }

    /// Which messages it reads.
    pub fn role(&self) -> Role {
        match self.flags & IS_RESPONSE {
            0 => Role::Request,
            _ => Role::Response,
        }
    }

    /// What comes from here on is not HTTP: a direction of requests after the other one had a head
    /// with [`Framing::Tunnel`]. The sink gets it as a body; only between messages.
    pub fn become_tunnel(&mut self) {
        debug_assert!(self.is_idle(), "a tunnel begins after a message");
        self.state = State::Tunnel;
    }

    /// Reads from the first byte of `bytes`, and returns how many bytes it took: at least one.
    fn step<S: Sink>(
        &mut self,
        at: u64,
        bytes: &[u8],
        heads: &mut Heads,
        sink: &mut S,
    ) -> Result<usize, Fault> {
        match self.state {
            State::Between if self.closes() => self.after_close(bytes),
            State::Between | State::Trailers => match self.slot {
                NO_SLOT => self.section(at, bytes, heads, sink),
                slot => self.held_section(slot, at, bytes, heads, sink),
            },
            State::Body | State::ChunkData => {
                let len = self.left.min(bytes.len() as u64);
                sink.on_body(at, &bytes[..len as usize]);
                self.left -= len;
                if self.left == 0 {
                    match self.state {
                        State::Body => self.end(at.wrapping_add(len), Fields::default(), sink),
                        _ => self.state = State::ChunkCr,
                    }
                }
                Ok(len as usize)
            }
            State::UntilClose | State::Tunnel => {
                sink.on_body(at, bytes);
                Ok(bytes.len())
            }
            State::ChunkSize => self.chunk_line(Place::Size, bytes),
            State::ChunkSpace => self.chunk_line(Place::Space, bytes),
            State::ChunkExtension => self.chunk_line(Place::Extension, bytes),
            State::ChunkEnd => self.chunk_line(Place::End, bytes),
            State::ChunkCr => self.expect(bytes, b'\r', State::ChunkLf),
            State::ChunkLf => {
                let len = self.expect(bytes, b'\n', State::ChunkSize)?;
                self.begin_chunk();
                Ok(len)
            }
            State::Failed(_) => unreachable!("push returns before"),
        }
    }

    /// A head or trailer section of which nothing was held: read where it lies.
    fn section<S: Sink>(
        &mut self,
        at: u64,
        bytes: &[u8],
        heads: &mut Heads,
        sink: &mut S,
    ) -> Result<usize, Fault> {
        let mut scan = Scan::new(self.kind());
        match scan.lines(bytes) {
            Ok(true) => {
                self.complete(at, &bytes[..scan.next], &scan, sink)?;
                return Ok(scan.next);
            }
            Ok(false) => {}
            Err(kind) => return Err((kind, fault_at(kind, &scan))),
        }
        // Empty lines that are passed over are not held.
        let (begin, len) = (scan.begin, bytes.len());
        if begin < len {
            let slot = heads.take(Scan::new(self.kind()));
            let slot = slot.ok_or((ErrorKind::NoRoom, begin as i64))?;
            self.slot = slot;
            let held = heads.held(slot);
            held.bytes.extend_from_slice(&bytes[begin..]);
            let lines = held.scan.lines(&held.bytes);
            debug_assert_eq!(lines, Ok(false), "as before, without the empty lines");
        }
        Ok(len)
    }

    /// The same with some of it held: line by line, so that nothing behind it is copied.
    fn held_section<S: Sink>(
        &mut self,
        slot: u32,
        at: u64,
        bytes: &[u8],
        heads: &mut Heads,
        sink: &mut S,
    ) -> Result<usize, Fault> {
        let held = heads.held(slot);
        // From the first byte of the push to the first byte of the section.
        let back = -(held.bytes.len() as i64);
        let mut taken = 0;
        while let Some(len) = memchr(b'\n', &bytes[taken..]) {
            let line = &bytes[taken..=taken + len];
            // Checked first: a line without end is not copied.
            let end = held.bytes.len() + line.len();
            let outcome = held.scan.check_len(end).and_then(|()| {
                held.bytes.extend_from_slice(line);
                held.scan.line(&held.bytes, end - 1)
            });
            taken += line.len();
            match outcome {
                Ok(true) => {
                    let begin = at.wrapping_add_signed(back);
                    let outcome = self.complete(begin, &held.bytes, &held.scan, sink);
                    self.release(heads);
                    outcome.map_err(|(kind, offset)| (kind, back + offset))?;
                    return Ok(taken);
                }
                Ok(false) if held.scan.begin == held.bytes.len() => {
                    // An empty line that came in pieces.
                    self.release(heads);
                    return Ok(taken);
                }
                Ok(false) => {}
                Err(kind) => return Err((kind, back + fault_at(kind, &held.scan))),
            }
        }
        let rest = &bytes[taken..];
        if let Err(kind) = held.scan.check_len(held.bytes.len() + rest.len()) {
            return Err((kind, back + fault_at(kind, &held.scan)));
        }
        held.bytes.extend_from_slice(rest);
        Ok(bytes.len())
    }

    /// A section is there: `bytes` to its end, the first of which has the offset `at`.
    fn complete<S: Sink>(
        &mut self,
        at: u64,
        bytes: &[u8],
        scan: &Scan,
        sink: &mut S,
    ) -> Result<(), Fault> {
        let end = at.wrapping_add(bytes.len() as u64);
        if self.state == State::Trailers {
            let fields = Fields::new(&bytes[..scan.fields_end]);
            self.end(end, fields, sink);
            return Ok(());
        }
        let begin = at.wrapping_add(scan.begin as u64);
        let asked = match scan.status() {
            Some(status) if !is_interim(status) => sink.asked(),
            _ => Method::Get,
        };
        let head = Head::new(begin, bytes, scan, asked);
        let head = head.map_err(|kind| (kind, scan.begin as i64))?;
        if is_interim(head.status()) {
            sink.on_interim(&head);
            return Ok(());
        }
        if !head.keep_alive {
            self.flags |= CLOSES;
        }
        sink.on_head(&head);
        match head.framing {
            Framing::None => self.end(end, Fields::default(), sink),
            Framing::Length(len) => {
                self.left = len;
                self.state = State::Body;
            }
            Framing::Chunked => self.begin_chunk(),
            Framing::UntilClose => self.state = State::UntilClose,
            Framing::Tunnel => self.state = State::Tunnel,
        }
        Ok(())
    }

    fn begin_chunk(&mut self) {
        self.left = 0;
        self.count = 0;
        self.state = State::ChunkSize;
    }

    fn chunk_line(&mut self, mut place: Place, bytes: &[u8]) -> Result<usize, Fault> {
        let mut line = Line {
            size: &mut self.left,
            count: &mut self.count,
        };
        for (at, &byte) in bytes.iter().enumerate() {
            match line.take(place, byte).map_err(|kind| (kind, at as i64))? {
                Some(next) => place = next,
                None => {
                    self.state = match self.left {
                        0 => State::Trailers,
                        _ => State::ChunkData,
                    };
                    return Ok(at + 1);
                }
            }
        }
        self.state = place.into();
        Ok(bytes.len())
    }

    fn expect(&mut self, bytes: &[u8], byte: u8, next: State) -> Result<usize, Fault> {
        if bytes[0] != byte {
            return Err((ErrorKind::BadChunkEnd, 0));
        }
        self.state = next;
        Ok(1)
    }

    /// Old clients send an empty line after a body (RFC 9112 section 2.2); more is a message that
    /// must not be processed (section 9.6).
    fn after_close(&self, bytes: &[u8]) -> Result<usize, Fault> {
        let is_forgiven =
            |&byte: &u8| self.role() == Role::Request && matches!(byte, b'\r' | b'\n');
        match bytes.iter().position(|byte| !is_forgiven(byte)) {
            Some(at) => Err((ErrorKind::AfterClose, at as i64)),
            None => Ok(bytes.len()),
        }
    }

    fn end<S: Sink>(&mut self, at: u64, trailers: Fields<'_>, sink: &mut S) {
        self.state = State::Between;
        sink.on_end(End { at, trailers });
    }

    fn kind(&self) -> Kind {
        match self.state {
            State::Trailers => Kind::Trailers,
            _ => self.role().into(),
        }
    }

    #[cold]
    fn fail(&mut self, error: ParseError, heads: &mut Heads) -> ParseError {
        self.release(heads);
        self.state = State::Failed(error.kind);
        self.left = error.at;
        self.flags |= CLOSES;
        error
    }
}

/// Where in the section the error is: at the line that was read, or where the section is too long.
fn fault_at(kind: ErrorKind, scan: &Scan) -> i64 {
    let at = match kind {
        ErrorKind::HeadTooLong => scan.begin + crate::HEAD_MAX,
        _ => scan.next,
    };
    at as i64
}
