//! Flags of `explain`: those of `emulate` about the link, and what is to be explained.

use clap::{Arg, Args};

use crate::emulate;

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
    pub(super) emulate: emulate::Arguments,
}

/// Flags of `emulate` by which frames pass a link, and by which a run is noted: here nothing passes.
const OTHERS: [&str; 15] = [
    "between",
    "server",
    "client",
    "server_wait",
    "outside",
    "wait",
    "method",
    "tap",
    "no_checksum_completion",
    "autostop",
    "write_pcap",
    "output",
    "force",
    "frames_max",
    "quiet",
];

fn hide_others(argument: Arg) -> Arg {
    let is_other = OTHERS.contains(&argument.get_id().as_str());
    argument.hide(is_other)
}

/// What Ethernet carries at most, with its header.
pub(super) const SIZE: u32 = 1514;
