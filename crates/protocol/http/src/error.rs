//! What is wrong with a stream of messages, and where.

/// A message that cannot be read, and all that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at byte {at} of the stream)")]
pub struct ParseError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Offset in the stream: in a head or trailer section of the line with which it showed (of what
    /// several fields say together: of the start line), elsewhere of the byte.
    pub at: u64,
}

/// Why a message cannot be read.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum ErrorKind {
    /// Not `method SP target SP version` (RFC 9112 section 3).
    #[error("not a request line")]
    BadRequestLine,
    /// Not `version SP status SP reason` (RFC 9112 section 4).
    #[error("not a status line")]
    BadStatusLine,
    /// A target that does not go with the method, or that has spaces or controls (section 3.2).
    #[error("not a request target")]
    BadTarget,
    /// Neither HTTP/1.0 nor HTTP/1.1 and what is compatible with it (RFC 9110 section 2.5).
    #[error("not version 1 of HTTP")]
    BadVersion,
    /// A field line without a colon, or with a name that is no token (RFC 9112 section 5).
    #[error("not a field line")]
    BadFieldName,
    /// Whitespace between a field's name and its colon, which smuggles (RFC 9112 section 5.1).
    #[error("space before the colon of a field")]
    SpaceBeforeColon,
    /// Controls in a field's value, a CR without its LF among them (RFC 9110 section 5.5).
    #[error("control character in a line")]
    ControlInLine,
    /// A line that begins with whitespace after the start line (RFC 9112 section 2.2).
    #[error("whitespace after the start line")]
    SpaceAfterStart,
    /// A folded line in a request, to be refused (RFC 9112 section 5.2).
    #[error("folded field line in a request")]
    FoldedLine,
    /// More than [`HEAD_MAX`](crate::HEAD_MAX) bytes.
    #[error("head or trailer section too long")]
    HeadTooLong,
    /// More than [`FIELDS_MAX`](crate::FIELDS_MAX) fields.
    #[error("too many fields")]
    TooManyFields,
    /// A Content-Length that is no number below 2^63, or several that differ (RFC 9112 section
    /// 6.3).
    #[error("invalid or conflicting Content-Length")]
    BadContentLength,
    /// A request with Transfer-Encoding and Content-Length (RFC 9112 section 6.3, 3).
    #[error("request with both Transfer-Encoding and Content-Length")]
    BothLengths,
    /// A Transfer-Encoding that does not end in `chunked` in a request, that has `chunked` twice,
    /// or that stands in a message of HTTP/1.0 (RFC 9112 sections 6.1 and 6.3).
    #[error("invalid Transfer-Encoding")]
    BadTransferEncoding,
    /// Not the hexadecimal size of a chunk (RFC 9112 section 7.1).
    #[error("not a chunk size")]
    BadChunkSize,
    /// A size of more than [`CHUNK_DIGITS_MAX`](crate::CHUNK_DIGITS_MAX) digits, or beyond 2^63.
    #[error("chunk size too large")]
    ChunkTooLarge,
    /// More than [`EXTENSION_MAX`](crate::EXTENSION_MAX) bytes of extensions, or controls in them.
    #[error("invalid chunk extension")]
    BadChunkExtension,
    /// No CR LF where a line of the chunked coding ends; a bare LF is not enough, since recipients
    /// that take one and such that do not see different messages.
    #[error("no line end after a chunk")]
    BadChunkEnd,
    /// More bytes after a message that ended the connection (RFC 9112 section 9.6).
    #[error("bytes after the last message of the connection")]
    AfterClose,
    /// The stream ended within a message (RFC 9112 section 8).
    #[error("stream ended within a message")]
    Truncated,
    /// The pool of split heads is full. Not the peer's fault; see [`Heads`](crate::Heads).
    #[error("no room for another head that came in pieces")]
    NoRoom,
}
