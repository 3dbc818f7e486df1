//! `lineside table`: distributions of delay, made, converted and shown.

mod flags;
mod measured;
mod run;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
