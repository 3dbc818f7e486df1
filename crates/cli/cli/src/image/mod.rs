//! `lineside image`: the tree of files as it was when a trace began.

mod figures;
mod flags;
mod print;
mod repairs;
mod run;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
