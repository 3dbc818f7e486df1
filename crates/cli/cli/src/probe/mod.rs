//! `lineside probe`: what a path between this host and another does to packets.

mod ends;
mod files;
mod flags;
mod run;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
