//! Flags of `forward`.

use std::path::PathBuf;

use clap::Args;
use lineside_words::{Rate, parse_rate};

use crate::forwarder::Section;

/// Flags of `forward`: the keys of `[forward]`, and what concerns the command line alone.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) keys: Section,
    #[command(flatten)]
    pub(super) emulated: Emulated,
    /// Read settings from the section forward of a TOML file, or from an earlier run's trace.json;
    /// flags override them
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Continue the connections of this earlier run, which has ended
    #[arg(long, value_name = "RUN")]
    pub(super) resume: Option<PathBuf>,
    /// Check the settings and the host, and print what would be done
    #[arg(long)]
    pub(super) check: bool,
    /// Print the counts at the end as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// Flags of the emulated adapter.
#[derive(Debug, Clone, Args)]
pub(crate) struct Emulated {
    /// Emulate the adapter of the payload-caching paper, in virtual time
    #[arg(long)]
    pub(super) emulated: bool,
    /// Reproduce table 2 or figure 4, 5, 6 or 7 of the paper beside its numbers
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["pattern", "size"], requires = "emulated")]
    pub(super) figure: Option<u8>,
    /// Show the hits of a use: multicast, proxy, nfs-web
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "size",
        requires = "emulated"
    )]
    pub(super) pattern: Option<String>,
    /// Send UDP datagrams of this size through the adapter
    #[arg(long = "datagram-size", alias = "size", value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    #[arg(requires = "emulated")]
    pub(super) size: Option<u32>,
    /// Send at this rate
    #[arg(long, value_name = "RATE", default_value = "1gbit", value_parser = parse_rate)]
    pub(super) rate: Rate,
    /// Send N packets back to back
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) burst: u32,
    /// Draw exponential times between packets
    #[arg(long, conflicts_with = "burst", requires = "emulated")]
    pub(super) poisson: bool,
    /// Send a command's traffic through the adapter: the server's shell command
    #[arg(long, value_name = "CMD", requires = "client")]
    #[arg(conflicts_with_all = ["figure", "pattern", "size"])]
    pub(super) server: Option<String>,
    /// The client's command; the adapter is between it and the server
    #[arg(last = true, value_name = "CMD", requires_all = ["server", "emulated"])]
    pub(super) client: Vec<String>,
    /// Write the figure as an HTML page with drawings
    #[arg(long, value_name = "PAGE", requires = "figure")]
    pub(super) html: Option<PathBuf>,
}
