//! An emulated link for `emulate`, `explain` and `ctl`: its keys, and asking one that runs.

pub(crate) mod ask;
pub(crate) mod keys;
pub(crate) mod section;
mod step_texts;
