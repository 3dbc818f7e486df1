//! `lineside doctor`: what this machine offers to live runs, what is precise to what because of it,
//! and what helps.

use std::path::PathBuf;

use clap::Args;
use lineside_run::doctor::examine;

use crate::exit::Exit;
use crate::print::{print, print_json};

/// Flags of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Check these interfaces too
    #[arg(
        short = 'i',
        long = "interface",
        value_name = "IF",
        value_delimiter = ','
    )]
    interfaces: Vec<String>,
    /// Check this folder for traces: how long its disk lasts
    #[arg(short = 'o', long = "output", alias = "out", value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON (docs/schema/doctor.schema.json)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let found = examine(&arguments.interfaces, arguments.out.as_deref());
    if arguments.json {
        print_json(&found)?;
    } else {
        print(&lineside_render::doctor(&found))?;
    }
    Ok(match found.can_capture {
        true => Exit::Done,
        false => Exit::Failure,
    })
}
