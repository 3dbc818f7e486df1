//! `lineside forward`: a NAT and load balancer between interfaces.

mod flags;
mod print;
mod request;
mod run;
mod settings;
mod words;

pub(crate) use flags::Arguments;
pub(crate) use print::lines;
pub(crate) use request::{ForwardDone, ForwardRequest, reload_of};
pub(crate) use run::run;
