//! `lineside forward`: payloads stay, headers move.

mod emulated;
mod emulated_print;
mod emulated_run;

use clap::Args;

use crate::exit::Exit;

/// Flags of `forward`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    emulated: emulated::Emulated,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    emulated::run(&arguments.emulated)
}
