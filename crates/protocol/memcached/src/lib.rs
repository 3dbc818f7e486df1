//! The text protocol of memcached (its `doc/protocol.txt`, version 1.6): commands and replies read
//! and written, and a store that answers them.
//!
//! ```text
//!  server   bytes ─► CommandParser ─► CommandSink ─► Store ─► bytes     (Connection is all of it)
//!  client   Command::write ─► bytes; bytes ─► ReplyParser ─► ReplySink
//!                                └─ Lines: a pool for lines that come in several pieces
//! ```
//!
//! * A parser is 16 bytes, and holds nothing between lines. Values pass by in the pieces in
//!   which they came; only the store keeps them, within its limit.
//! * What a sink hears does not depend on how the stream was cut, pieces of values apart.
//! * [`Store`] answers as memcached 1.6.18 does, byte for byte, for the commands of [`Command`]; a
//!   test sends both the same commands. Not here: the meta and binary protocols, `stats`, UDP,
//!   authentication, sockets, threads, clocks.
//!
//! The mix "ETC" of Facebook (Atikoglu et al., "Workload Analysis of a Large-Scale Key-Value
//! Store", SIGMETRICS 2012) by the fits that the load generator mutilate took up as `fb_key`,
//! `fb_value` and `fb_ia`: lengths of keys by a generalized extreme value distribution (mu 30.7984,
//! sigma 8.20449, k 0.078688), lengths of values by a generalized Pareto distribution (theta 0,
//! sigma 214.476, k 0.348238), gaps in microseconds by another (theta 0, sigma 16.0292, k
//! 0.154971), 30 GETs to a SET (a share of some 0.967). Draws are made elsewhere.
#![forbid(unsafe_code)]

mod command;
mod connection;
mod lines;
mod reply;
mod store;

pub use command::{
    Command, CommandError, CommandParser, CommandSink, KEY_MAX, Keys, VALUE_MAX, Verb, is_key,
};
pub use connection::{Connection, Progress};
pub use lines::{ErrorKind, LINE_MAX, Lines, ParseError};
pub use reply::{Reply, ReplyParser, ReplySink, Value};
pub use store::{Limits, Store};
