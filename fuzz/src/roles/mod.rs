//! Targets above the pipeline: what roles, reports and the command read of others. The tests of
//! `lineside-cli` run them on every input that was ever found.
#![allow(dead_code, reason = "the fuzzer and the tests each use a part")]

#[path = "../bytes.rs"]
mod bytes;

pub(crate) mod agents;
pub(crate) mod answers;
pub(crate) mod bundle;
pub(crate) mod ctl;
pub(crate) mod manifest;
pub(crate) mod probe;
pub(crate) mod runs;
pub(crate) mod words;

pub(crate) use bytes::Bytes;

/// A target: it panics if something is wrong.
pub(crate) type Target = fn(&[u8]);

pub(crate) const TARGETS: [(&str, Target); 8] = [
    ("agents", agents::run),
    ("answers", answers::run),
    ("bundle", bundle::run),
    ("ctl", ctl::run),
    ("manifest", manifest::run),
    ("probe", probe::run),
    ("runs", runs::run),
    ("words", words::run),
];
