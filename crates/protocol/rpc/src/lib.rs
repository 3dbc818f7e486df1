//! ONC RPC (RFC 5531): records in a stream, headers, calls matched with replies.
//!
//! * [`mod@xdr`]: one declarative description of a type gives its decoding and its encoding (RFC
//!   4506).
//! * [`message`]: the headers of calls and replies, credentials, record marks.
//! * [`record`]: one direction of a connection as a sequence of messages, also across holes, and
//!   how the next header is found again when a record mark was lost.
//! * [`calls`]: calls and replies by connection and xid, in whatever order they arrive.
//! * [`recent_calls`]: calls by client, server, xid and arguments, for as long as one may come
//!   again.
//!
//! Not here: what the programs mean (`lineside-nfs`), sockets, threads, clocks.
#![forbid(unsafe_code)]

pub mod calls;
pub mod message;
pub mod recent_calls;
pub mod record;
mod search;
pub mod xdr;
