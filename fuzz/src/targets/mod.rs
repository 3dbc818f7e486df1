//! What each fuzz target does with its bytes. They need no fuzzer: the tests of `lineside-capture`
//! run them on every input that was ever found.
#![allow(dead_code, reason = "the fuzzer and the tests each use a part")]

#[path = "../bytes.rs"]
mod bytes;

pub(crate) use bytes::{Bytes, Pieces};

pub(crate) mod dns;
pub(crate) mod drop_in;
pub(crate) mod file;
pub(crate) mod filter;
pub(crate) mod flow;
pub(crate) mod frame;
pub(crate) mod http;
pub(crate) mod link;
pub(crate) mod memcached;
pub(crate) mod message;
pub(crate) mod monitor;
pub(crate) mod nat;
pub(crate) mod nfs;
pub(crate) mod nfs_client;
pub(crate) mod part;
pub(crate) mod path;
pub(crate) mod rpc;
pub(crate) mod script;
pub(crate) mod segment;
pub(crate) mod side;
pub(crate) mod splice;
pub(crate) mod workload;

/// A target: it panics if something is wrong.
pub(crate) type Target = fn(&[u8]);

pub(crate) const TARGETS: [(&str, Target); 22] = [
    ("file", file::run),
    ("frame", frame::run),
    ("filter", filter::run),
    ("flow", flow::run),
    ("rpc", rpc::run),
    ("nfs", nfs::run),
    ("nfs_client", nfs_client::run),
    ("side", side::run),
    ("part", part::run),
    ("path", path::run),
    ("link", link::run),
    ("message", message::run),
    ("segment", segment::run),
    ("script", script::run),
    ("monitor", monitor::run),
    ("drop_in", drop_in::run),
    ("http", http::run),
    ("workload", workload::run),
    ("memcached", memcached::run),
    ("dns", dns::run),
    ("nat", nat::run),
    ("splice", splice::run),
];
