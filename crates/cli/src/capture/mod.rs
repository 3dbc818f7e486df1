//! `lineside capture`: from capture files or interfaces to a trace.

mod decode_as;
mod flags;
mod print;
mod run;
mod settings;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
