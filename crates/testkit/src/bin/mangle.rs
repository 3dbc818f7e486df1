//! `mangle IN OUT`: what an imperfect tap would have recorded of the same traffic, by seed.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use lineside_testkit::capture;
use lineside_testkit::mangle::{Harm, mangle};

/// Harms a capture: losses, late frames, duplicates, a snap length, a late start
#[derive(Parser)]
struct Arguments {
    /// pcap or pcapng, plain or zstd
    input: PathBuf,
    /// Nanosecond pcap
    output: PathBuf,
    /// Seeds every draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Probability that a loss begins at a frame
    #[arg(long, default_value_t = 0.0)]
    drop: f64,
    /// Frames lost at a time
    #[arg(long, default_value_t = 1)]
    burst: usize,
    /// Probability that a frame is late
    #[arg(long, default_value_t = 0.0)]
    late: f64,
    /// By at most so many places
    #[arg(long, default_value_t = 5)]
    depth: usize,
    /// Probability that a frame is recorded twice
    #[arg(long, default_value_t = 0.0)]
    duplicate: f64,
    /// Bytes kept of a frame
    #[arg(long)]
    snap: Option<usize>,
    /// Frames missing at the beginning
    #[arg(long, default_value_t = 0)]
    late_start: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let harm = Harm {
        seed: arguments.seed,
        late_start: arguments.late_start,
        drop: arguments.drop,
        burst: arguments.burst,
        duplicate: arguments.duplicate,
        late: arguments.late,
        depth: arguments.depth,
        snap: arguments.snap.unwrap_or(usize::MAX),
        ..Harm::default()
    };
    let whole = capture::read(&arguments.input)?;
    let harmed = mangle(&whole, &harm);
    std::fs::write(&arguments.output, capture::write(&harmed.frames))
        .with_context(|| format!("cannot write {}", arguments.output.display()))?;
    let survived = harmed.kept.iter().filter(|&&kept| kept > 0).count();
    eprintln!(
        "{} frames in, {survived} of them left, {} written",
        whole.len(),
        harmed.frames.len()
    );
    Ok(())
}
