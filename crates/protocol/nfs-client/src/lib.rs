//! NFS clients without sockets, clocks and threads: calls become bytes, and bytes replies.
//!
//! ```text
//!  call(tag, credential, request) ─► waits ─► slot, seqids ─► xid, header, marks ─► transmit ─► bytes
//!                                                  ▲ given back                                   │
//!  Reply { tag, results } ◄───────── matched by xid ◄───────────── records ◄──────── on_bytes ◄───┘
//! ```
//!
//! A [`Client`] is what a server takes for one client, whatever connections it has: NFSv3 behind
//! portmap and MOUNT, NFSv4.0 with its client id and its owners' sequence numbers, NFSv4.1 and 4.2
//! with a session. It makes its own calls for that, and to renew its lease. A caller gives calls
//! whose arguments are those of the server at hand (handles, state ids, names), each with a
//! credential, and receives each reply with the tag that it gave.
//!
//! * The caller opens connections when [`Client::poll`] asks for them, or as many as it likes. One
//!   that broke is opened again, and its calls are sent again with the xids, slots and sequence
//!   numbers that they had: the server answers each once.
//! * More calls than the session has slots, or than one owner may have, wait for their turn.
//! * Everything is bounded: bytes of calls, calls under way, bytes of a reply, owners and states.
//! * Bytes from outside may be anything: they are refused with [`Broken`], and the connection with
//!   them.
//!
//! A caller that knows its calls by itself, as a load does, takes [`header`] and [`records`] alone.
//!
//! Not here: sockets, callbacks, Kerberos, reclaiming state after a server restarted, a cache.
#![forbid(unsafe_code)]

mod calls;
mod channel;
mod client;
mod config;
pub mod header;
mod owners;
pub mod records;
mod request;
mod results;
mod setup;
mod slots;

#[cfg(test)]
mod tests;

pub use client::Client;
pub use config::{
    CallError, ClientError, Config, Connection, Event, LostBy, Mount, MountAt, NFS_PORT,
    PORTMAP_PORT, Service, Step, Transport, Version,
};
pub use header::{Broken, Credential, CredentialError, Refusal};
pub use request::Request;
pub use results::{Answer, Compound, Reply, Results};
