//! `lineside capture`: from capture files or interfaces to a trace.

mod cores;
mod decode_as;
mod flags;
mod live;
mod placement;
mod print;
mod run;
mod settings;
mod verdict;
mod watch;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
