//! `lineside forward`: a NAT and load balancer between interfaces, and the emulated adapter whose
//! payloads stay.

mod emulated;
mod emulated_print;
mod emulated_run;
mod flags;
mod print;
mod request;
mod run;
mod settings;
mod words;

use crate::exit::Exit;

pub(crate) use flags::Arguments;
pub(crate) use print::lines;
pub(crate) use request::{ForwardDone, ForwardRequest, reload_of};

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match arguments.emulated.emulated {
        true => emulated::run(arguments),
        false => run::run(arguments),
    }
}
