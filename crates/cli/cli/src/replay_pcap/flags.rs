//! Flags of `replay-pcap`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use lineside_words::{Rate, parse_rate};
use lineside_workload::Speed;

use crate::config::count;
use crate::confine::Confining;

/// Flags of `replay-pcap`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Capture files, or folders of them: pcap or pcapng, plain or compressed (gzip, zstd, xz,
    /// lz4); - is standard input; several are merged by timestamp
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
    /// Send to this interface
    #[arg(short, long, value_name = "IF")]
    pub(super) interface: String,
    /// Send X times as fast as captured
    #[arg(long, value_name = "X", conflicts_with_all = ["rate", "fast"])]
    pub(super) speed: Option<Speed>,
    /// Send at a constant rate: 1gbit, 250mbit, 100kpps
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "fast")]
    pub(super) rate: Option<Rate>,
    /// Send as fast as possible
    #[arg(long)]
    pub(super) fast: bool,
    /// Send only frames that match this tcpdump filter
    #[arg(short, long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(super) filter: Option<String>,
    /// Send all frames N times in succession
    #[arg(long = "loop", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) loops: u32,
    /// Stop after N frames
    #[arg(short = 'c', value_name = "N", allow_hyphen_values = true, value_parser = count::<NonZeroU64>)]
    pub(super) frames_max: Option<NonZeroU64>,
    #[command(flatten)]
    pub(super) confining: Confining,
    /// Print the account as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
}
