//! DNS messages over UDP (RFC 1035, RFC 3596, RFC 6891): read, asked and answered.
//!
//! ```text
//!  client   Query ─► bytes            bytes ─► Message ─► rcode, records; answers(&query)?
//!  server   bytes ─► Zone::answer ─► bytes
//! ```
//!
//! * [`Message::parse`] checks a whole message once; what it lends afterwards cannot fail. It
//!   allocates nothing: names are read where they lie, through their compression pointers.
//! * Hostile messages are errors by kind. Pointers lead strictly backwards and a name has at most
//!   [`HOPS_MAX`] of them, so the work for a message is bounded by its length.
//! * [`Zone`] answers A and AAAA for any name at or below its origin.
//! * Not here: sockets, the length prefix of TCP, zone files, signatures, caches, recursion.
#![forbid(unsafe_code)]

mod error;
mod message;
mod name;
mod query;
mod zone;

pub use error::ParseError;
pub use message::{Data, Header, Message, Question, Record, Section, Sections};
pub use name::{HOPS_MAX, Labels, Name, NameBuf, NameError};
pub use query::{Query, set_id};
pub use zone::Zone;

/// Types of records (RFC 1035 section 3.2.2, RFC 3596, RFC 6891).
pub mod kind {
    /// An IPv4 address.
    pub const A: u16 = 1;
    /// A name server.
    pub const NS: u16 = 2;
    /// The canonical name of an alias.
    pub const CNAME: u16 = 5;
    /// The start of a zone of authority.
    pub const SOA: u16 = 6;
    /// A pointer to another name.
    pub const PTR: u16 = 12;
    /// A mail exchange.
    pub const MX: u16 = 15;
    /// Text.
    pub const TXT: u16 = 16;
    /// An IPv6 address.
    pub const AAAA: u16 = 28;
    /// The pseudo-record of EDNS(0).
    pub const OPT: u16 = 41;
    /// Any type.
    pub const ANY: u16 = 255;
}

/// The class of the internet.
pub const CLASS_IN: u16 = 1;
/// Any class.
pub const CLASS_ANY: u16 = 255;

/// Response codes (RFC 1035 section 4.1.1, RFC 6891 section 9).
pub mod rcode {
    /// No error.
    pub const NO_ERROR: u16 = 0;
    /// The server could not read the query.
    pub const FORMAT_ERROR: u16 = 1;
    /// The server failed.
    pub const SERVER_FAILURE: u16 = 2;
    /// The name does not exist.
    pub const NAME_ERROR: u16 = 3;
    /// The server does not know this kind of query.
    pub const NOT_IMPLEMENTED: u16 = 4;
    /// The server will not answer.
    pub const REFUSED: u16 = 5;
    /// A version of EDNS that the server does not know.
    pub const BAD_VERSION: u16 = 16;
}
