//! Flags of `explain`: those of `emulate` about the link, and the frame to explain.

use std::path::PathBuf;

use clap::{Arg, Args};

use crate::config::{Facts, Keys};
use crate::link::section::{Mode, Section};

/// Flags of `explain`: those of `emulate` about the link, and the frame to explain.
#[derive(Debug, Args)]
#[group(skip)]
#[command(mut_args(hiding_others()))]
pub(crate) struct Arguments {
    /// Explain this frame of the capture, counted from 1 (of those that match -f)
    #[arg(long, value_name = "N")]
    pub(super) frame: Option<u64>,
    /// Without a capture: bytes of the frame, without preamble and check sequence [default: 1514]
    #[arg(long = "frame-size", alias = "size", value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=262_144))]
    pub(super) size: Option<u32>,
    /// Without a capture: the share of the rate that other frames of this size take, e.g. 50%
    /// [default: 0%]
    #[arg(long, value_name = "SHARE")]
    pub(super) load: Option<String>,
    /// With a running forwarder's folder in place of FILE: explain to which node this connection
    /// goes
    #[arg(long, value_name = "CLIENT:PORT-SERVICE:PORT")]
    pub(super) flow: Option<String>,
    #[command(flatten)]
    pub(super) keys: Section,
    /// Read settings from the section emulate of a TOML file, or from an earlier run's trace.json;
    /// flags override them
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print the account as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Accepted for compatibility with emulate, and ignored
    #[arg(short, long)]
    quiet: bool,
}

/// Hides the flags that are refused here, as no frames pass a link, and the one that is ignored.
/// The section declares its keys once for all arguments: every start of the program does this.
fn hiding_others() -> impl FnMut(Arg) -> Arg {
    let refused = |key: &Facts| key.modes & Mode::Explain.bit() == 0;
    let declared = Section::declared().into_iter();
    let refused: Vec<_> = declared.filter(refused).map(|key| key.name).collect();
    move |argument| {
        let id = argument.get_id().as_str();
        let is_hidden = argument.is_hide_set() || refused.contains(&id) || id == "quiet";
        argument.hide(is_hidden)
    }
}

/// Ethernet's longest frame, with its header.
pub(super) const SIZE: u32 = 1514;
