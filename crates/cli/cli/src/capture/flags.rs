//! Flags of `capture`.

use std::path::PathBuf;

use clap::Args;

use super::keys::{INTERFACES, Section};
use crate::config::Keys as _;

/// Flags of `capture`: its keys, and what concerns the command line alone.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) keys: Section,
    /// List interfaces and how each would be captured
    #[arg(long)]
    pub(super) list_interfaces: bool,
    /// Read settings from a TOML file or an earlier run's trace.json; flags override them
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Report at the end what each core did
    #[arg(long)]
    pub(super) stats: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Print all counters that are not 0
    #[arg(short, long)]
    pub(super) verbose: bool,
}

/// The headings in the help of keys that have a meaning in one mode alone.
pub(crate) fn mode_headings() -> Vec<(&'static str, &'static str)> {
    let live = { Section::declared().into_iter() }.filter(|key| key.modes == INTERFACES);
    live.map(|key| (key.name, "Live")).collect()
}
