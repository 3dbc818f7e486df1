//! `lineside capture`: from capture files or interfaces to a trace.

mod decode_as;
mod flags;
mod keys;
mod print;
mod rotation;
mod run;
mod settings;

pub(crate) use flags::{Arguments, mode_headings};
pub(crate) use keys::Section;
pub(crate) use run::run;
