//! Flags of `plan`.

use std::path::PathBuf;

use clap::Args;
use lineside_words::parse_duration;

use crate::confine::Confining;

/// Flags of `plan`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    pub(super) trace: PathBuf,
    /// Leave the plan in this folder: tables calls and edges, and plan.json
    #[arg(short, long, value_name = "PLAN")]
    pub(super) output: Option<PathBuf>,
    /// Replace PLAN if it exists
    #[arg(long, requires = "output")]
    pub(super) force: bool,
    /// Take a longer time between a reply and a call, e.g. 10s, for time of day, not for thought
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = idle_ns)]
    pub(super) idle: i64,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) confining: Confining,
}

fn idle_ns(text: &str) -> Result<i64, String> {
    let ns = parse_duration(text).map_err(|error| error.to_string())?;
    match i64::try_from(ns) {
        Ok(0) => Err("after an idle time of 0 no call follows from a reply: give 1s".to_owned()),
        Ok(ns) => Ok(ns),
        Err(_) => Err(format!("'{text}' is too long")),
    }
}
