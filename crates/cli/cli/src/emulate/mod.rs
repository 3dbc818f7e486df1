//! `lineside emulate`: frames of a capture, between two interfaces or between two commands, through
//! an emulated link.

mod flags;
mod live;
mod live_print;
mod notes;
mod print;
mod run;
mod settings;
mod taking;

pub(crate) use crate::link::section::mode_headings;
pub(crate) use flags::Arguments;
pub(crate) use run::run;
