//! Flags of `emulate`.

use std::path::PathBuf;

use clap::Args;

use crate::link::section::Section;

/// Flags of `emulate`: the keys of `[emulate]`, and what concerns the command line alone.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) keys: Section,
    /// Read settings from the section emulate of a TOML file, or from an earlier run's trace.json;
    /// flags override them
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Give the client's interface no address: its program has a stack of its own
    #[arg(long, hide = true)]
    pub(super) bare_client: bool,
    /// Print the whole certificate at the end, not one line (with commands) or one screen
    #[arg(long)]
    pub(super) certificate: bool,
    /// Print the certificate as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
}
