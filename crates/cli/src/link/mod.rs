//! An emulated link, as `emulate`, `explain` and `ctl` have it: its keys, the words in them, and changes while it runs.

pub(crate) mod asked;
pub(crate) mod control;
pub(crate) mod files;
pub(crate) mod keys;
pub(crate) mod section;
mod words;
