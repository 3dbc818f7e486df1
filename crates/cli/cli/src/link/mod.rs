//! An emulated link for `emulate`, `explain` and `ctl`: its keys, the words in them, and changes
//! while it runs.

pub(crate) mod ask;
pub(crate) mod control;
pub(crate) mod files;
pub(crate) mod keys;
pub(crate) mod request;
pub(crate) mod section;
pub(crate) mod spec;
pub(crate) mod steps;
pub(crate) mod ways;
mod words;
