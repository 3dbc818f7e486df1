//! `mangle IN OUT`: what an imperfect tap, or a switch that mirrors, would have recorded of the
//! same traffic.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use lineside_testkit::capture;
use lineside_testkit::mangle::{Harm, mangle};
use lineside_testkit::wrap::{self, Wrap};

/// Changes a capture: tunnels, mirrored copies, and then losses, late frames, duplicates, a snap
/// length, a late start
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
    /// By at most this many places
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
    /// A tunnel around each frame; once more for one around that: vlans, gre, erspan2, vxlan,
    /// geneve, mpls, ...
    #[arg(long, value_name = "HOW", value_parser = parse_wrap)]
    wrap: Vec<Wrap>,
    /// IPv4 packets that are longer in fragments of this many bytes, a multiple of 8
    #[arg(long, value_name = "BYTES")]
    fragment: Option<usize>,
    /// Each frame again this many microseconds later, behind a router
    #[arg(long, value_name = "US")]
    mirror: Option<i64>,
}

fn parse_wrap(name: &str) -> Result<Wrap, String> {
    let found = Wrap::ALL.into_iter().find(|wrap| wrap.name() == name);
    found.ok_or_else(|| format!("one of {}", Wrap::ALL.map(Wrap::name).join(", ")))
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
    let mut whole = capture::read(&arguments.input)?;
    if let Some(delay_us) = arguments.mirror {
        whole = wrap::mirror(&whole, delay_us * 1000);
    }
    for &how in &arguments.wrap {
        whole = wrap::wrap_all(&whole, how);
    }
    if let Some(payload_max) = arguments.fragment {
        let fragments = |frame| wrap::fragment(frame, payload_max.max(8) & !7);
        whole = whole.iter().flat_map(fragments).collect();
    }
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
