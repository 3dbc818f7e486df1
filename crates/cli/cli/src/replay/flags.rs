//! Flags of `replay`.

use std::path::PathBuf;

use clap::Args;
use lineside_words::parse_duration;

use crate::confine::Confining;
use crate::filters::FilterArguments;

/// Flags of `replay`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    pub(super) trace: PathBuf,
    /// Where to: nfs://SERVER[:PORT]/EXPORT/DIR; DIR is made if it is not there
    #[arg(long, value_name = "URL")]
    pub(super) to: String,
    /// Leave the trace of the replay in this folder
    #[arg(short, long, value_name = "RUN")]
    pub(super) output: Option<PathBuf>,
    /// Replace RUN if it exists
    #[arg(long, requires = "output")]
    pub(super) force: bool,
    /// When calls leave: closed (after what they waited for), open (at the trace's times) or fast
    #[arg(long = "loop", value_name = "WORD", default_value = "closed")]
    pub(super) pace: String,
    /// Divide the times of the trace by this: 2 is twice as fast
    #[arg(
        long,
        value_name = "X",
        default_value = "1",
        allow_hyphen_values = true
    )]
    pub(super) speed: String,
    /// Make all calls as this user and group: 1000:1000; by default as those of the trace
    #[arg(long = "as", value_name = "UID:GID")]
    pub(super) credential: Option<String>,
    /// Make all calls this many times at once, e.g. x4: in DIR/copy-1, DIR/copy-2, ... each
    #[arg(long, value_name = "xN", default_value = "x1")]
    pub(super) clients: String,
    /// Replay among what is in DIR already
    #[arg(long)]
    pub(super) in_place: bool,
    /// End the run when a reply, or a connection that broke, takes longer, e.g. 4m
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(super) timeout: u64,
    /// Take a longer time between a reply and a call, e.g. 10s, for time of day, not for thought
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(super) idle: u64,
    #[command(flatten)]
    pub(super) filter: FilterArguments,
    /// Print JSON (docs/schema/replay.schema.json)
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) confining: Confining,
}
