//! What a head says: the start line, how the body is framed, and whether the connection stays open.

use crate::error::ErrorKind;
use crate::fields::Fields;
use crate::scan::{Scan, Transfer};
use crate::start_line::{Method, Start, Version};

/// The head of a message, in bytes that belong to the caller for the length of one call.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Offset in the stream of the first byte of the start line.
    pub at: u64,
    /// Bytes from there to the end of the empty line.
    pub len: usize,
    /// The start line.
    pub start: Start<'a>,
    /// The version of the protocol.
    pub version: Version,
    /// How the end of the body is found.
    pub framing: Framing,
    /// The Content-Length; of an answer to HEAD or a 304 that of the body which is not there.
    pub content_length: Option<u64>,
    /// The connection may be used for another message after this one (RFC 9112 section 9.3).
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body (RFC 9110 section 10.1.1).
    pub expects_continue: bool,
    /// The Host fields.
    pub host: Host<'a>,
    /// All fields.
    pub fields: Fields<'a>,
}

/// How the end of a body is found (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// There is no body.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks, then a trailer section (RFC 9112 section 7.1).
    Chunked,
    /// All that comes until the connection is closed.
    UntilClose,
    /// The connection is a tunnel or speaks another protocol from here on: after a CONNECT that
    /// succeeded, and after `101 Switching Protocols`.
    Tunnel,
}

/// The Host fields of a head. A server answers 400 to a request of HTTP/1.1 without exactly one
/// (RFC 9112 section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host<'a> {
    /// There is none.
    Missing,
    /// Exactly one.
    One(&'a [u8]),
    /// More than one.
    Several,
}

impl<'a> Head<'a> {
    /// The head that `scan` has read in `bytes`, whose end is that of the empty line. `asked`: the
    /// method that a response answers.
    pub(crate) fn new(
        at: u64,
        bytes: &'a [u8],
        scan: &Scan,
        asked: Method,
    ) -> Result<Self, ErrorKind> {
        let start = scan.start(bytes);
        let facts = &scan.facts;
        let framing = match start {
            Start::Request { .. } => request_framing(scan)?,
            Start::Response { status, .. } => response_framing(status, asked, scan)?,
        };
        let may_persist = match scan.version {
            Version::Http11 => !facts.closes,
            Version::Http10 => facts.keeps_alive && !facts.closes,
        };
        let is_doubtful = facts.transfer != Transfer::None && facts.content_length.is_some();
        Ok(Self {
            at,
            len: bytes.len() - scan.begin,
            start,
            version: scan.version,
            framing,
            content_length: facts.content_length,
            keep_alive: may_persist && !is_doubtful && framing != Framing::UntilClose,
            expects_continue: facts.expects_continue && scan.version == Version::Http11,
            host: match facts.host_count {
                0 => Host::Missing,
                1 => Host::One(&bytes[facts.host.0..facts.host.1]),
                _ => Host::Several,
            },
            fields: Fields::new(&bytes[scan.fields_at..scan.fields_end]),
        })
    }

    /// Of a response: its status; 0 of a request.
    pub fn status(&self) -> u16 {
        match self.start {
            Start::Response { status, .. } => status,
            Start::Request { .. } => 0,
        }
    }

    /// Of a request: its method and target.
    pub fn request(&self) -> Option<(Method, &'a [u8])> {
        match self.start {
            Start::Request { method, target, .. } => Some((method, target)),
            Start::Response { .. } => None,
        }
    }
}

/// Whether a response of this status is followed by another to the same request (RFC 9110 section
/// 15.2). After 101 the connection speaks another protocol.
pub(crate) fn is_interim(status: u16) -> bool {
    (100..200).contains(&status) && status != 101
}

/// RFC 9112 section 6.3, for a request.
fn request_framing(scan: &Scan) -> Result<Framing, ErrorKind> {
    match scan.facts.transfer {
        Transfer::None => Ok(match scan.facts.content_length {
            None | Some(0) => Framing::None,
            Some(len) => Framing::Length(len),
        }),
        _ if scan.version == Version::Http10 => Err(ErrorKind::BadTransferEncoding),
        _ if scan.facts.content_length.is_some() => Err(ErrorKind::BothLengths),
        Transfer::Chunked => Ok(Framing::Chunked),
        Transfer::Other => Err(ErrorKind::BadTransferEncoding),
    }
}

/// RFC 9112 section 6.3, for a response.
fn response_framing(status: u16, asked: Method, scan: &Scan) -> Result<Framing, ErrorKind> {
    let facts = &scan.facts;
    if status == 101 || asked == Method::Connect && (200..300).contains(&status) {
        return Ok(Framing::Tunnel);
    }
    if asked == Method::Head || status < 200 || matches!(status, 204 | 304) {
        return Ok(Framing::None);
    }
    match facts.transfer {
        Transfer::None => Ok(match facts.content_length {
            None => Framing::UntilClose,
            Some(0) => Framing::None,
            Some(len) => Framing::Length(len),
        }),
        _ if scan.version == Version::Http10 => Err(ErrorKind::BadTransferEncoding),
        Transfer::Chunked => Ok(Framing::Chunked),
        Transfer::Other => Ok(Framing::UntilClose),
    }
}
