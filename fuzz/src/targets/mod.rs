//! What each fuzz target does with its bytes. They need no fuzzer: the tests of `lineside-capture`
//! run them on every input that was ever found.
#![allow(dead_code, reason = "the fuzzer and the tests each use a part")]

use std::io::{self, Read};

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
pub(crate) mod part;
pub(crate) mod path;
pub(crate) mod rpc;
pub(crate) mod script;
pub(crate) mod segment;
pub(crate) mod side;
pub(crate) mod workload;

/// A target: it panics if something is wrong.
pub(crate) type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 20] = [
    ("file", file::run),
    ("frame", frame::run),
    ("filter", filter::run),
    ("flow", flow::run),
    ("rpc", rpc::run),
    ("nfs", nfs::run),
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
];

/// The target of this name.
pub(crate) fn by_name(name: &str) -> Option<Target> {
    let found = TARGETS.iter().find(|(each, _)| *each == name);
    found.map(|&(_, target)| target)
}

/// All names.
pub(crate) fn names() -> Vec<&'static str> {
    TARGETS.iter().map(|&(name, _)| name).collect()
}

/// Bytes that become numbers and runs of bytes; 0 and empty when they are used up.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The last byte: choices stand at the end, so that a capture file as it is can be a seed.
    pub(crate) fn last(&mut self) -> u8 {
        let (&last, rest) = self.0.split_last().unwrap_or((&0, &[]));
        self.0 = rest;
        last
    }
}

/// A source that gives at most `len_max` bytes at a time.
pub(crate) struct Pieces<B> {
    pub(crate) bytes: B,
    pub(crate) read: usize,
    pub(crate) len_max: usize,
}

impl<B: AsRef<[u8]>> Read for Pieces<B> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes.as_ref()[self.read..];
        let len = rest.len().min(buffer.len()).min(self.len_max);
        buffer[..len].copy_from_slice(&rest[..len]);
        self.read += len;
        Ok(len)
    }
}
