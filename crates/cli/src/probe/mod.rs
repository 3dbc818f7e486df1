//! `lineside probe`: what a path between this host and another does to packets.

mod ends;
mod files;
mod flags;
mod print;
mod run;
mod trips;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
pub(crate) use trips::{Pace, duration, resolve, round_trips_of_ping, round_trips_of_tcp};
