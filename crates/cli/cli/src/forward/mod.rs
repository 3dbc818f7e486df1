//! `lineside forward`: a NAT and load balancer between interfaces, and the emulated adapter whose
//! payloads stay.

mod emulated;
mod emulated_run;
mod flags;
mod run;

use crate::exit::Exit;

pub(crate) use flags::Arguments;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match arguments.emulated.emulated {
        true => emulated::run(arguments),
        false => run::run(arguments),
    }
}
