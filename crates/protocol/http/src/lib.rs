//! HTTP/1.1 and HTTP/1.0 messages (RFC 9110, RFC 9112): read, written and answered.
//!
//! ```text
//!  bytes of one direction ─► Parser ─► Sink: on_head, on_body, on_end, each with its offset
//!                              └─ Heads: a pool for heads that come in several pieces
//!
//!  Url, RequestTemplate, ResponseTemplate ─► bytes, written once
//!  Head of a request ─► Responder ─► Reply: which template, whether 100 comes first, whether to close
//! ```
//!
//! * A [`Parser`] is 16 bytes, and holds nothing between messages. A head that arrives whole is
//!   read where it lies; a body passes by in the pieces in which it came.
//! * What the sink hears depends on the bytes alone, not on how they were cut: pieces of a body
//!   apart, any division of a stream gives the same calls and the same error.
//! * A message whose end cannot be known for certain is an error, as RFC 9112 section 11.2 asks of
//!   code that must not be smuggled past. After the first error nothing more is read.
//! * Not here: sockets, threads, clocks, TLS, HTTP/2, content codings, the meaning of fields other
//!   than those that frame a message or keep a connection.
//!
//! ```
//! use lineside_http::{End, Head, Heads, Parser, Role, Sink};
//!
//! struct Print;
//!
//! impl Sink for Print {
//!     fn on_head(&mut self, head: &Head<'_>) {
//!         println!("{} at {}, then {:?}", head.status(), head.at, head.framing);
//!     }
//!
//!     fn on_end(&mut self, end: End<'_>) {
//!         println!("complete at {}", end.at);
//!     }
//! }
//!
//! let (mut parser, mut heads) = (Parser::new(Role::Response), Heads::new(1000));
//! parser.push(0, b"HTTP/1.1 200 OK\r\nContent-Le", &mut heads, &mut Print)?;
//! parser.push(27, b"ngth: 2\r\n\r\nabHTTP", &mut heads, &mut Print)?;
//! # Ok::<(), lineside_http::ParseError>(())
//! ```
#![forbid(unsafe_code)]

mod chunk;
mod error;
mod fields;
mod head;
mod heads;
mod parser;
mod responder;
mod scan;
mod start_line;
mod template;
mod url;

pub use error::{ErrorKind, ParseError};
pub use fields::{Field, Fields};
pub use head::{Framing, Head, Host};
pub use heads::Heads;
pub use parser::{End, Parser, Sink};
pub use responder::{Reply, Responder};
pub use start_line::{Method, Role, Start, Version};
pub use template::{Body, RequestTemplate, ResponseTemplate, TemplateError};
pub use url::{Url, UrlError};

/// The most bytes of a head, start line to empty line, and of a trailer section: eight times what
/// nginx and Apache take by default, since cookies grow.
pub const HEAD_MAX: usize = 64 * 1024;

/// The most field lines of a head or a trailer section; Apache takes 100.
pub const FIELDS_MAX: usize = 256;

/// The most bytes of a chunk's extensions (RFC 9112 section 7.1.1 asks for a limit).
pub const EXTENSION_MAX: usize = 1024;

/// The most digits of a chunk's size, leading zeros included.
pub const CHUNK_DIGITS_MAX: usize = 16;
