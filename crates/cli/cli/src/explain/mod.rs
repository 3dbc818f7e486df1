//! `lineside explain`: where a frame's delay comes from.

mod flags;
mod run;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
