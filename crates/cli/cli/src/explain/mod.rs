//! `lineside explain`: where a frame's delay comes from.

mod account;
mod flags;
mod frame;
mod print;
mod run;
mod settings;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
