//! `lineside replay-pcap`: a capture's frames onto an interface.

use std::collections::VecDeque;
use std::fmt::Write;
use std::fs::File;
use std::io::Seek;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use lineside_account::Budget;
use lineside_analyze::{bytes, grouped};
use lineside_capture::Filtered;
use lineside_filter::Filter;
use lineside_frame::{Burst, Frame};
use lineside_host::{Capability, Privileges, Signals, Stopwatch};
use lineside_port::live::{Interface, must_carry, open_to_send};
use lineside_port::{Port, Receive, Received, Transmit};
use lineside_time::{Rate, parse_rate};
use lineside_workload::{Departures, Replay, Speed, Timing};

use crate::Exit;
use crate::config::{ConfigError, count};
use crate::summary::seconds;

/// Flags of `replay-pcap`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Capture files: pcap or pcapng, plain or compressed (gzip, zstd, xz, lz4); - is standard input. Several are merged by their stamps
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The interface to send to
    #[arg(short, long, value_name = "IF")]
    interface: String,
    /// So many times as fast as captured
    #[arg(long, value_name = "X", conflicts_with_all = ["rate", "fast"])]
    speed: Option<Speed>,
    /// At a constant rate: 1gbit, 250mbit, 100kpps
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "fast")]
    rate: Option<Rate>,
    /// As fast as it goes
    #[arg(long)]
    fast: bool,
    /// Send only frames that match
    #[arg(short, long, value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Send all of it N times, one behind the other
    #[arg(long = "loop", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    loops: u32,
    /// Stop after N frames
    #[arg(short = 'c', value_name = "N", allow_hyphen_values = true, value_parser = count::<NonZeroU64>)]
    frames_max: Option<NonZeroU64>,
    /// Print the account as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// Memory for frames that were read and not sent.
const MEMORY_BYTES: usize = 64 << 20;
/// Frames that are held ready: at 10 million a second still the time of a slow look at the disk.
const READY_MAX: usize = 8192;
/// Frames that go to the port at once.
const SEND_MAX: usize = 256;
/// Frames are read while the next one is not due for so long: reading must not make it late.
const READ_AHEAD: Duration = Duration::from_micros(300);
/// A signal is looked for so often.
const LOOK: Duration = Duration::from_millis(50);
/// The pause when the interface takes no frame.
const PAUSE: Duration = Duration::from_micros(20);
/// An interface that takes no frame for so long is looked at: an adapter that negotiates anew has no carrier for two seconds or three.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let timing = match (arguments.speed, arguments.rate) {
        _ if arguments.fast => Timing::Fast,
        (_, Some(rate)) => Timing::Constant(rate),
        (speed, None) => Timing::Own(speed.unwrap_or(Speed::ORIGINAL)),
    };
    let filter = arguments.filter.as_deref().map(Filter::parse).transpose();
    let filter = filter.map_err(|error| ConfigError::usage(&format!("filter: {error}")))?;
    Privileges::read()?.require(&[Capability::NetRaw])?;
    let interface = Interface::named(&arguments.interface)?;
    let mut port = open_to_send(&interface)?;
    let budget = Budget::new(MEMORY_BYTES);
    let files = crate::capture::open_files(&arguments.files)?;
    if arguments.loops > 1 && arguments.files.iter().any(|file| file.as_os_str() == "-") {
        return Err(ConfigError::usage("--loop: standard input can be read only once").into());
    }
    let mut loops_left = arguments.loops - 1;
    // The files and the interface are open. What decompresses a file is a thread, and is started behind this.
    lineside_host::drop_privileges(None, &[])?;
    let open = || -> anyhow::Result<_> {
        let again = |(name, file): &(String, File)| {
            let mut file = file.try_clone()?;
            if name != "-" {
                // A pipe cannot be read again, and is at its beginning the first time.
                let _ = file.rewind();
            }
            Ok((name.clone(), file))
        };
        let files = files.iter().map(again).collect::<std::io::Result<_>>()?;
        let merged = crate::capture::read(files, &budget)?;
        Ok(Filtered::new(merged, filter.clone()))
    };
    let mut source = open()?;
    let signals = Signals::register().context("cannot handle signals")?;

    let mut sender = Sender {
        replay: Replay::new(timing, 0),
        stopwatch: Stopwatch::start(),
        read: Burst::new(),
        ready: VecDeque::with_capacity(READY_MAX),
        due: Burst::new(),
        left: arguments.frames_max.map_or(u64::MAX, NonZeroU64::get),
        frames_cut: 0,
        stalls: 0,
        refused_since: None,
        shift_ns: 0,
        span: None,
        ended: false,
        is_full: false,
        error: None,
    };
    let mut signal = None;
    let mut failure = None;
    while signal.is_none() && failure.is_none() {
        signal = signals.stop();
        match sender.turn(&mut source, &mut *port, &interface.name) {
            Ok(true) if sender.ended && loops_left > 0 && sender.error.is_none() => {
                loops_left -= 1;
                source = open()?;
                sender.begin_again();
            }
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => failure = Some(error),
        }
    }
    let departures = sender.replay.departures();
    if !arguments.quiet {
        print_account(arguments, &sender, &departures)?;
    }
    for warning in source.facts().iter().flat_map(|facts| &facts.warnings) {
        eprintln!("lineside: warning: {warning}");
    }
    match (failure.or(sender.error), signal) {
        (Some(error), _) => Err(error),
        (None, Some(signal)) => Ok(Exit::Signal(signal)),
        (None, None) => Ok(Exit::Done),
    }
}

struct Sender {
    replay: Replay,
    stopwatch: Stopwatch,
    read: Burst,
    /// Frames that were read and planned, in their order.
    ready: VecDeque<Frame>,
    /// Frames before those that were due and that the interface has not taken.
    due: Burst,
    left: u64,
    frames_cut: u64,
    /// Times that the interface took no frame although one was due.
    stalls: u64,
    /// Since when it has taken none.
    refused_since: Option<Duration>,
    /// What is added to stamps when the files are sent once more.
    shift_ns: i64,
    /// The first and the latest stamp of the files.
    span: Option<(i64, i64)>,
    ended: bool,
    /// Frames that wait hold all memory for reading.
    is_full: bool,
    /// What ended the reading; what was read before is still sent.
    error: Option<anyhow::Error>,
}

impl Sender {
    /// Reads ahead, or waits, and sends what is due. False: all is sent.
    fn turn(
        &mut self,
        source: &mut impl Receive,
        port: &mut dyn Transmit,
        interface: &str,
    ) -> anyhow::Result<bool> {
        let now = self.stopwatch.elapsed();
        let deadline = self.replay.next_deadline();
        let deadline = deadline.map(|ns| Duration::from_nanos(ns.max(0) as u64));
        let has_time = deadline.is_none_or(|deadline| deadline > now + READ_AHEAD);
        let has_room = self.ready.len() < READY_MAX && !self.is_full;
        if !self.ended && has_room && (has_time || self.ready.is_empty()) {
            self.read(source);
            return Ok(true);
        }
        let Some(deadline) = deadline else {
            return Ok(false);
        };
        self.stopwatch.wait_until(deadline.min(now + LOOK));
        let now_ns = self.stopwatch.elapsed().as_nanos() as i64;
        let due = self.replay.due(now_ns, self.due.len() + SEND_MAX);
        let more = due.saturating_sub(self.due.len()).min(self.ready.len());
        self.due.extend(self.ready.drain(..more));
        if self.due.is_empty() {
            return Ok(true);
        }
        let sent = port.transmit(&mut self.due)?;
        self.is_full &= sent == 0;
        let now = self.stopwatch.elapsed();
        self.replay.on_sent(now.as_nanos() as i64, sent);
        if sent > 0 {
            self.refused_since = None;
            return Ok(true);
        }
        self.stalls += 1;
        let since = *self.refused_since.get_or_insert(now);
        if now - since > PATIENCE {
            must_carry(&Interface::named(interface)?)?;
            self.refused_since = None;
        }
        self.stopwatch.wait_until(now + PAUSE);
        Ok(true)
    }

    /// The files are sent once more, from their beginning.
    fn begin_again(&mut self) {
        if let Some((first, latest)) = self.span {
            self.shift_ns = (self.shift_ns).saturating_add(latest - first + LOOP_GAP_NS);
        }
        self.ended = self.left == 0;
    }

    fn read(&mut self, source: &mut impl Receive) {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(256);
        match source.receive(&mut self.read, most) {
            // Frames that wait hold all memory: they are sent first.
            Ok(Received::PoolEmpty) => self.is_full = true,
            Ok(Received::Frames(_) | Received::Interrupted | Received::Idle { .. }) => {}
            Ok(Received::End) => self.ended = true,
            Err(error) => self.error = Some(error.into()),
        }
        self.left -= self.read.len() as u64;
        self.ended |= self.left == 0;
        for frame in self.read.drain(..) {
            let descriptor = frame.descriptor();
            let len = frame.bytes().len() as u32;
            self.frames_cut += u64::from(len < descriptor.wire_len);
            let stamp_ns = descriptor.stamp_ns;
            if let Some(stamp_ns) = stamp_ns {
                let (first, latest) = self.span.unwrap_or((stamp_ns, stamp_ns));
                self.span = Some((first, latest.max(stamp_ns)));
            }
            let shifted_ns = stamp_ns.map(|stamp_ns| stamp_ns.saturating_add(self.shift_ns));
            self.replay.plan(shifted_ns, len);
            self.ready.push_back(frame);
        }
    }
}

/// Between the last frame of the files and their first one sent again.
const LOOP_GAP_NS: i64 = 1_000_000;

fn print_account(
    arguments: &Arguments,
    sender: &Sender,
    departures: &Departures,
) -> anyhow::Result<()> {
    if arguments.json {
        let lateness = departures.lateness.map(|late| {
            serde_json::json!({
                "p50_ns": late.p50_ns,
                "p99_ns": late.p99_ns,
                "p999_ns": late.p999_ns,
                "max_ns": late.max_ns,
                "late_frames": late.late.over_100us,
            })
        });
        let account = serde_json::json!({
            "interface": arguments.interface,
            "frames": departures.frames,
            "bytes": departures.bytes,
            "asked_ns": departures.asked_ns,
            "achieved_ns": departures.achieved_ns,
            "asked_bps": departures.asked_bps,
            "achieved_bps": departures.achieved_bps,
            "achieved_pps": departures.achieved_pps,
            "lateness": lateness,
            "stalls": sender.stalls,
            "frames_cut": sender.frames_cut,
            "stamps_backwards": departures.stamps_backwards,
            "stamps_missing": departures.stamps_missing,
        });
        crate::report::print_json(&account)?;
        return Ok(());
    }
    let mut out = String::new();
    let _ = writeln!(
        out,
        "sent         {} frames, {} to {}",
        grouped(departures.frames),
        bytes(departures.bytes),
        arguments.interface
    );
    let rate =
        |bps: Option<f64>| bps.map_or(String::new(), |bps| format!(", {:.3} Mbit/s", bps / 1e6));
    if let Some(asked_ns) = departures.asked_ns {
        let _ = writeln!(
            out,
            "asked        {}{}",
            seconds(asked_ns as i64),
            rate(departures.asked_bps)
        );
    }
    let _ = match departures.achieved_pps {
        Some(pps) => writeln!(
            out,
            "achieved     {}{}, {} frames/s",
            seconds(departures.achieved_ns as i64),
            rate(departures.achieved_bps),
            grouped(pps as u64)
        ),
        None => writeln!(
            out,
            "achieved     no rate: no time passed from the first frame to the last"
        ),
    };
    if let Some(late) = departures.lateness {
        let us = |ns: u64| ns as f64 / 1e3;
        let _ = writeln!(
            out,
            "late         {:.1} us half of them, {:.1} us 99 %, {:.1} us 99.9 %, {:.1} us at most; {} by more than 100 us",
            us(late.p50_ns),
            us(late.p99_ns),
            us(late.p999_ns),
            us(late.max_ns),
            grouped(late.late.over_100us)
        );
    }
    for (count, what) in [
        (
            sender.stalls,
            "times the interface took no frame that was due",
        ),
        (
            sender.frames_cut,
            "frames were cut by a snap length: only what was kept of them was sent",
        ),
        (
            departures.stamps_backwards,
            "stamps ran backwards: those frames went with the ones before them",
        ),
        (
            departures.stamps_missing,
            "frames without a stamp went with the ones before them",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(out, "             {} {what}", grouped(count));
        }
    }
    crate::report::print(&out)?;
    Ok(())
}
