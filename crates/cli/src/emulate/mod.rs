//! `lineside emulate`: frames of a capture, between two interfaces or between two commands, through
//! an emulated link.

mod between;
mod commands;
mod flags;
mod notes;
mod outside;
mod print;
mod run;
mod tap;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
