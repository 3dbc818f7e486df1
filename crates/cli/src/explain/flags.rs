//! Flags of `explain`: those of `emulate` about the link, and what is to be explained.

use std::path::PathBuf;

use clap::{Arg, Args};

use crate::config::Keys;
use crate::link::section::{Mode, Section};

/// Flags of `explain`: those of `emulate` about the link, and what is to be explained.
#[derive(Debug, Args)]
#[group(skip)]
#[command(mut_args(hide_others))]
pub(crate) struct Arguments {
    /// What becomes of this frame of the capture, counted from 1 (of those that match -f)
    #[arg(long, value_name = "N")]
    pub(super) frame: Option<u64>,
    /// Without a capture: bytes of the frame, without preamble and check sequence [default: 1514]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pub(super) size: Option<u32>,
    /// Without a capture: the share of the rate that other frames of this size take, such as 50% [default: 0%]
    #[arg(long, value_name = "SHARE")]
    pub(super) load: Option<String>,
    #[command(flatten)]
    pub(super) keys: Section,
    /// Take all this from the section emulate of a TOML file, or from an earlier run's trace.json, unless a flag sets it
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print the account as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print nothing but errors: as there is nothing else to print, of no use here
    #[arg(short, long)]
    quiet: bool,
}

/// Flags that are taken, so that those of an `emulate` can stand here, and do nothing.
const IDLE: [&str; 2] = ["force", "quiet"];

/// Hides what is refused here: nothing passes a link.
fn hide_others(argument: Arg) -> Arg {
    let id = argument.get_id().as_str();
    let mut refused = Section::declared().into_iter();
    let is_refused = refused.any(|key| key.name == id && key.modes & Mode::Explain.bit() == 0);
    let is_hidden = is_refused || IDLE.contains(&id);
    argument.hide(is_hidden)
}

/// What Ethernet carries at most, with its header.
pub(super) const SIZE: u32 = 1514;
