//! `lineside plan`: why each call of a trace was made when it was.

mod flags;
mod output;
mod run;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
