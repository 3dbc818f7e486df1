//! Flags of `predict`.

use std::path::PathBuf;

use clap::Args;
use lineside_words::parse_duration;

use crate::confine::Confining;
use crate::congestion::CONGESTION;

/// Flags of `predict`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    pub(super) trace: PathBuf,
    /// Delay each way, in emulate's words; several are points: 1ms,10ms,40ms
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub(super) delay: Option<String>,
    /// Rate each way, in emulate's words: 100mbit,1gbit
    #[arg(long, value_name = "LIST")]
    pub(super) rate: Option<String>,
    /// Share of frames that are lost each way, in emulate's words: 0.1%,1%
    #[arg(long, value_name = "LIST")]
    pub(super) loss: Option<String>,
    /// Queue limit of each way: frames, or bytes with a unit: 64kb
    #[arg(long, value_name = "LIST")]
    pub(super) limit: Option<String>,
    /// Take a longer time between a reply and a call, e.g. 10s, for time of day, not for thought
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(super) idle: u64,
    /// Give up a workload that takes longer than this, e.g. 4m
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = parse_duration)]
    pub(super) longest: u64,
    /// Congestion control of both ends: cubic or reno
    #[arg(long, value_name = "WORD", default_value = CONGESTION[0])]
    pub(super) congestion: String,
    /// Draws of losses and jitter a point: shown is the median one, with the shortest and longest
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(super) draws: u16,
    /// What the first of them is drawn from, the next from the next number, and so on
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Leave the prediction in this folder: table points, a row a figure, and predict.json
    #[arg(short, long, value_name = "FOLDER")]
    pub(super) output: Option<PathBuf>,
    /// Replace FOLDER if it exists
    #[arg(long, requires = "output")]
    pub(super) force: bool,
    /// Print JSON (docs/schema/predict.schema.json)
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV with a header: a line for each figure of each point
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
    #[command(flatten)]
    pub(super) confining: Confining,
}
