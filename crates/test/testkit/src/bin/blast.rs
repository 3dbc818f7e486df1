//! `blast CAPTURE -i IF`: sends a capture's frames from within the kernel, for `bench/live`:
//! several times as fast as `lineside replay-pcap`, by an even rate, each pass as other clients.
//! Prints what left as JSON. `blast --pass IF` puts a program on the other end of a veth without
//! which that takes no such frames, until a signal ends it.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use lineside_account::Budget;
use lineside_frame::Burst;
use lineside_host::Signals;
use lineside_port::live::{Generator, Interface, pass_all};
use lineside_port::{CaptureReader, PoolConfig, Receive, Received};

#[derive(Parser)]
struct Arguments {
    /// The capture; all of it goes into the kernel's memory, 2 KiB a frame
    #[arg(required_unless_present = "pass")]
    capture: Option<PathBuf>,
    /// The interface to send to
    #[arg(short, long, required_unless_present = "pass")]
    interface: Option<String>,
    /// Frames a second; as fast as it goes if none is given
    #[arg(long)]
    rate: Option<f64>,
    /// For so long
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Only the first frames of the capture
    #[arg(long)]
    frames: Option<usize>,
    /// Lets the interface take frames, and sends none
    #[arg(long)]
    pass: Option<String>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(name) = &arguments.pass {
        let signals = Signals::register().context("cannot handle signals")?;
        let _attached = pass_all(&Interface::named(name)?)?;
        println!("passing");
        while signals.stop().is_none() {
            let step = rustix::time::Timespec::try_from(Duration::from_millis(50))?;
            let _ = rustix::event::poll(&mut [], Some(&step));
        }
        return Ok(());
    }
    let capture = arguments.capture.context("no capture")?;
    let interface = Interface::named(&arguments.interface.context("no interface")?)?;
    ensure!(arguments.seconds > 0.0, "--seconds is more than 0");
    let interval_ns = arguments.rate.map_or(0.0, |rate| 1e9 / rate);
    ensure!((0.0..1e9).contains(&interval_ns), "--rate is more than 1");

    let pool = PoolConfig::new(Budget::new(64 << 20), 16 << 20);
    let mut reader = CaptureReader::open(&capture, &pool)?;
    let mut frames = Vec::new();
    let mut burst = Burst::new();
    let wanted = arguments.frames.unwrap_or(usize::MAX);
    while frames.len() < wanted && reader.receive(&mut burst, 256)? != Received::End {
        let taken = burst.drain(..).map(|frame| frame.bytes().to_vec());
        frames.extend(taken.take(wanted - frames.len()));
    }
    let generator = Generator::new(&interface, &frames, interval_ns as u32)?;
    drop(frames);
    let sent = generator.run(Duration::from_secs_f64(arguments.seconds))?;
    let seconds = sent.span_ns.max(1) as f64 / 1e9;
    let account = serde_json::json!({
        "interface": interface.name,
        "frames": sent.frames,
        "bytes": sent.bytes,
        "achieved_ns": sent.span_ns,
        "achieved_pps": sent.frames as f64 / seconds,
        "achieved_bps": sent.bytes as f64 * 8.0 / seconds,
    });
    println!("{account:#}");
    Ok(())
}
