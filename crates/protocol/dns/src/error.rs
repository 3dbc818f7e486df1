//! Why bytes are no message of DNS.

/// Why bytes are no message.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum ParseError {
    /// It ends within its header, a question or a record.
    #[error("message is cut")]
    Truncated,
    /// A label of a kind that is not in use (RFC 6891 section 5).
    #[error("label of an unknown kind")]
    BadLabel,
    /// A pointer that does not lead backwards, or one too many.
    #[error("compression pointer that does not lead backwards")]
    BadPointer,
    /// A name of more than 255 bytes.
    #[error("name too long")]
    NameTooLong,
    /// The data of a record is not of the length or form of its type.
    #[error("data of a record that is not of its type")]
    BadData,
}
