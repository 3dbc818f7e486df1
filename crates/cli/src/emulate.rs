//! `lineside emulate`: frames of a capture, or between two interfaces, through an emulated link.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use lineside_account::{Budget, parse_size};
use lineside_analyze::{bytes, grouped};
use lineside_capture::Filtered;
use lineside_filter::Filter;
use lineside_frame::Burst;
use lineside_host::{RunFolder, Signals, SystemClock};
use lineside_link::{Chance, Order, Settings, Spread, words};
use lineside_path::{Certificate, Direction, Inside, Sides, Virtual};
use lineside_port::{CaptureWriter, Port, Received, Rotation, WriterConfig};
use lineside_time::Clock;

use crate::Exit;
use crate::between::{self, Between};
use crate::config::ConfigError;
use crate::summary::verdict_lines;

/// Flags of `emulate`. Words about the link are for both directions, or for one if `out:` or `in:` stands before them.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Capture files: pcap or pcapng, plain, gzip or zstd; - is standard input. Several are merged by their stamps
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The same as FILE
    #[arg(short = 'r', long = "read", value_name = "FILE")]
    read: Vec<PathBuf>,
    /// Stand between two interfaces instead, the first one the inside, until Ctrl-C
    #[arg(long, value_name = "IF1,IF2", value_delimiter = ',')]
    between: Vec<String>,
    /// What the loop between interfaces does while nothing is due: spin (a core of its own), hybrid (sleeps, and spins before a frame is due) or sleep
    #[arg(long, value_name = "WORD", default_value = "hybrid")]
    wait: String,
    /// How frames are taken and sent between interfaces: auto, af_xdp, af_xdp_generic or af_packet
    #[arg(long, value_name = "WORD", default_value = "auto")]
    method: String,
    /// Write what leaves as a trace into RUN, as capture would beside it: what it cannot keep up with is counted, and no frame waits for it
    #[arg(long, requires = "output")]
    tap: bool,
    /// Leave checksums as they are that a sender left to its adapter
    #[arg(long)]
    no_checksum_completion: bool,
    /// End a run between interfaces: duration:SECONDS
    #[arg(short = 'a', long = "autostop", value_name = "COND")]
    autostop: Option<String>,
    /// Write the frames that leave, with the instants at which they do: pcapng, or pcap if it ends in .pcap; - is standard output
    #[arg(long, value_name = "OUT")]
    write_pcap: Option<PathBuf>,
    /// The folder that the run leaves: trace.json with the certificate
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Replace OUT and RUN if they are there
    #[arg(long)]
    force: bool,
    /// Addresses on the first side, such as 10.0.0.0/8: what they send goes out; without it, what goes as the first frame of a pair did
    #[arg(long, value_name = "NET")]
    inside: Option<Inside>,
    /// How long frames are held: '100us', '100us 10us 25% distribution normal order reorder'
    #[arg(long, value_name = "WORDS")]
    delay: Vec<String>,
    /// How fast they leave: '1gbit', '10mbit burst 15k overhead ethernet drop'
    #[arg(long, value_name = "WORDS")]
    rate: Vec<String>,
    /// Which are lost: '0.1%', 'gemodel 1% 10%', 'burst 50ms every 10s', 'every 100', 'frames 3,17'
    #[arg(long, value_name = "WORDS")]
    loss: Vec<String>,
    /// Which come twice: '1%'
    #[arg(long, value_name = "WORDS")]
    duplicate: Vec<String>,
    /// In which a bit is turned: '0.1%'
    #[arg(long, value_name = "WORDS")]
    corrupt: Vec<String>,
    /// Which pass the delay at once, before others: '25% 50%'
    #[arg(long, value_name = "WORDS")]
    reorder: Vec<String>,
    /// How much is held: frames ('1000') or bytes ('64kb'); without it, from rate and delay
    #[arg(long, value_name = "WORDS")]
    limit: Vec<String>,
    /// Whether the link takes frames: 'up', 'down', 'flap 10s 1s'
    #[arg(long, value_name = "WORDS")]
    link: Vec<String>,
    /// The same one draws the same again
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Look only at frames that match, as tcpdump's filters do; the others go nowhere
    #[arg(short, long, value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Stop after N frames (of those that match)
    #[arg(short = 'c', value_name = "N")]
    frames_max: Option<u64>,
    /// The one memory budget, such as 256MiB; half of it is for frames under way
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256MiB")]
    memory: usize,
    /// Print the certificate as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// Frames that are read at once.
const READ_MAX: usize = 256;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let inputs: Vec<_> = arguments
        .files
        .iter()
        .chain(&arguments.read)
        .cloned()
        .collect();
    let settings = [
        arguments.settings(Direction::Outbound)?,
        arguments.settings(Direction::Inbound)?,
    ];
    let filter = arguments.filter.as_deref().map(Filter::parse).transpose();
    let filter = filter.map_err(|error| ConfigError::usage(&format!("filter: {error}")))?;
    let budget = Budget::new(arguments.memory);
    let path = lineside_path::Path::new(settings, arguments.seed, arguments.memory / 2, &budget);
    let path = path.context("the budget bears its own half")?;
    if !arguments.between.is_empty() {
        return arguments.run_between(&inputs, path, &budget);
    }
    let files = crate::capture::open(&inputs, &budget)?;
    let out = arguments.write_pcap.as_deref();
    crate::capture::check_out(out, &inputs, arguments.force, arguments.json)?;
    let folder = { arguments.output.as_ref() }
        .map(|output| RunFolder::create(output, arguments.force))
        .transpose()?;
    let signals = Signals::register().context("cannot handle signals")?;
    let clock = SystemClock::default();
    let mut manifest =
        crate::capture::begin_manifest(&inputs, serde_json::Value::Null, clock.now());

    let mut run = Run {
        emulation: Virtual::new(path, Sides::new(arguments.inside)),
        out,
        budget: &budget,
        writer: None,
        left: Burst::new(),
        signal: None,
    };
    let mut port = Filtered::new(files, filter);
    let failure = run
        .pass(
            &mut port,
            arguments.frames_max.unwrap_or(u64::MAX),
            &signals,
        )
        .err();
    let written = run.writer.take().map_or(Ok(()), CaptureWriter::finish);

    let certificate = run.emulation.path().certificate(lineside_path::VIRTUAL);
    if let Some(folder) = &folder {
        manifest.inputs = crate::capture::inputs(&port);
        manifest.verdict = certificate.verdict.clone();
        manifest.configuration = arguments.configuration(&inputs, &certificate);
        manifest.certificate = Some(serde_json::to_value(&certificate)?);
        manifest.ended_ns = Some(clock.now());
        folder.replace("trace.json", manifest.to_json().as_bytes())?;
    }
    let warnings = port
        .facts()
        .into_iter()
        .flat_map(|facts| facts.warnings.clone());
    for warning in warnings.chain(side_warnings(run.emulation.sides())) {
        eprintln!("lineside: warning: {warning}");
    }
    if arguments.json {
        crate::report::print(&(serde_json::to_string_pretty(&certificate)? + "\n"))?;
    } else if arguments.writes_to_standard_output() && !arguments.quiet {
        eprint!("{}", lines(&certificate));
    } else if !arguments.quiet {
        crate::report::print(&lines(&certificate))?;
    }
    failure.map_or(Ok(()), Err)?;
    written?;
    Ok(run.signal.map_or(Exit::Done, Exit::Signal))
}

impl Arguments {
    /// Between two interfaces.
    fn run_between(
        &self,
        files: &[PathBuf],
        path: lineside_path::Path,
        budget: &Budget,
    ) -> anyhow::Result<Exit> {
        let is_for_captures = !files.is_empty()
            || self.write_pcap.is_some()
            || self.inside.is_some()
            || self.filter.is_some()
            || self.frames_max.is_some();
        if is_for_captures {
            return Err(ConfigError::usage(
                "--between: FILE, --write-pcap, --inside, -f and -c are for captures, not between interfaces",
            )
            .into());
        }
        let duration = self
            .autostop
            .as_deref()
            .map(crate::capture::duration)
            .transpose()?;
        let duration = duration
            .map(|text| lineside_time::parse_duration(&text))
            .transpose();
        let duration = duration.map_err(|error| ConfigError::usage(&format!("-a: {error}")))?;
        let method = between::method(&self.method)?;
        // Words first: they are wrong with or without rights.
        let between = Between {
            method,
            wait: between::wait(&self.wait)?,
            interfaces: Between::interfaces(&self.between, method)?,
            is_tapped: self.tap,
            completes_checksums: !self.no_checksum_completion,
            duration: duration.map(std::time::Duration::from_nanos),
        };
        let signals = Signals::register().context("cannot handle signals")?;
        let folder = { self.output.as_ref() }
            .map(|output| RunFolder::create(output, self.force))
            .transpose()?;
        let clock = SystemClock::default();
        let mut manifest =
            crate::capture::begin_manifest(&self.between, serde_json::Value::Null, clock.now());
        if let Some(folder) = &folder {
            folder.replace("trace.json", manifest.to_json().as_bytes())?;
        }
        let ran = between.run(
            path,
            budget,
            folder.as_ref(),
            &manifest.trace_id,
            &signals,
            self.quiet,
        )?;
        for warning in ran.inputs.iter().flat_map(|input| &input.warnings) {
            eprintln!("lineside: warning: {warning}");
        }
        let certificate = ran.certificate;
        let mut json = serde_json::to_value(&certificate)?;
        json["loop"] = serde_json::to_value(&ran.facts)?;
        json["machine"] = serde_json::to_value(&manifest.machine)?;
        let (tapped, tap_failure) = match ran.tapped {
            Some(Err(error)) => (None, Some(error)),
            tapped => (tapped.and_then(Result::ok), None),
        };
        if let Some(seen) = &tapped {
            crate::capture::note_rows(&mut manifest, seen);
        }
        if let Some(folder) = &folder {
            manifest.inputs = ran.inputs;
            manifest.verdict = certificate.verdict.clone();
            manifest.configuration = self.configuration(files, &certificate);
            manifest.certificate = Some(json.clone());
            manifest.ended_ns = Some(clock.now());
            folder.replace("trace.json", manifest.to_json().as_bytes())?;
        }
        if self.json {
            crate::report::print(&(serde_json::to_string_pretty(&json)? + "\n"))?;
        } else if !self.quiet {
            crate::report::print(&(lines(&certificate) + &between::lines(&ran.facts)))?;
        }
        ran.failure.or(tap_failure).map_or(Ok(()), Err)?;
        Ok(ran.signal.map_or(Exit::Done, Exit::Signal))
    }

    fn writes_to_standard_output(&self) -> bool {
        self.write_pcap
            .as_ref()
            .is_some_and(|out| out.as_os_str() == "-")
    }

    /// The settings of a direction.
    fn settings(&self, direction: Direction) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        if let Some(words) = chosen(&self.delay, direction) {
            settings.delay = refused(words::delay(words, &mut crate::table::load))?;
        }
        if let Some(words) = chosen(&self.rate, direction) {
            settings.rate = Some(refused(words::rate(words))?);
        }
        if let Some(words) = chosen(&self.loss, direction) {
            settings.loss = refused(words::loss(words))?;
        }
        if let Some(words) = chosen(&self.limit, direction) {
            settings.limit = refused(words::limit(words))?;
        }
        if let Some(words) = chosen(&self.link, direction) {
            settings.state = refused(words::state(words))?;
        }
        let chance = |setting, words: &[String]| match chosen(words, direction) {
            Some(words) => refused(words::chance(setting, words)),
            None => Ok(Chance::default()),
        };
        settings.duplicate = chance("duplicate", &self.duplicate)?;
        settings.corrupt = chance("corrupt", &self.corrupt)?;
        settings.reorder = chance("reorder", &self.reorder)?;
        if settings.reorder.share > 0.0 {
            if settings.delay == lineside_link::Delay::default() {
                return Err(ConfigError::usage(
                    "reorder: without a delay there is none to pass: add --delay",
                ));
            }
            settings.delay.order = Order::Reorder;
        }
        Ok(settings)
    }

    /// What was asked for, resolved.
    fn configuration(&self, inputs: &[PathBuf], certificate: &Certificate) -> serde_json::Value {
        let words = |name: &str| {
            certificate
                .directions
                .get(name)
                .map(|report| &report.settings)
        };
        serde_json::json!({ "emulate": {
            "inputs": inputs,
            "between": self.between,
            "wait": self.wait,
            "method": self.method,
            "tap": self.tap,
            "write_pcap": self.write_pcap,
            "output": self.output,
            "filter": self.filter,
            "frames_max": self.frames_max,
            "memory": self.memory,
            "seed": self.seed,
            "outbound": words("outbound"),
            "inbound": words("inbound"),
        }})
    }
}

/// The last of these words that are for the direction, without what says so.
fn chosen(words: &[String], direction: Direction) -> Option<&str> {
    let prefix = match direction {
        Direction::Outbound => "out:",
        Direction::Inbound => "in:",
    };
    let own = words
        .iter()
        .rev()
        .find_map(|words| words.trim_start().strip_prefix(prefix));
    let both = |words: &&String| {
        let words = words.trim_start();
        !words.starts_with("out:") && !words.starts_with("in:")
    };
    own.or_else(|| words.iter().rev().find(both).map(String::as_str))
}

fn refused<T>(read: Result<T, words::WordError>) -> Result<T, ConfigError> {
    read.map_err(|error| ConfigError::usage(&error.to_string()))
}

struct Run<'a> {
    emulation: Virtual,
    out: Option<&'a Path>,
    budget: &'a Budget,
    /// Made when the first frames have been read: only then a pcapng file's link types are known.
    writer: Option<CaptureWriter>,
    left: Burst,
    signal: Option<u8>,
}

impl Run<'_> {
    /// All frames through the path. What was read before an error still leaves.
    fn pass(
        &mut self,
        port: &mut impl Port,
        mut frames_left: u64,
        signals: &Signals,
    ) -> anyhow::Result<()> {
        let mut burst = Burst::new();
        let mut failure = None;
        while frames_left > 0 && failure.is_none() {
            self.signal = signals.stop();
            if self.signal.is_some() {
                break;
            }
            let most = usize::try_from(frames_left)
                .unwrap_or(READ_MAX)
                .min(READ_MAX);
            match port.receive(&mut burst, most) {
                Ok(Received::End) => break,
                Ok(Received::PoolEmpty) => self.emulation.spill(),
                Ok(Received::Frames(_) | Received::Interrupted | Received::Idle { .. }) => {}
                Err(error) => failure = Some(error),
            }
            frames_left -= burst.len() as u64;
            self.open_writer(port)?;
            self.emulation.on_burst(&mut burst, &mut self.left);
            self.write()?;
        }
        self.open_writer(port)?;
        while self.emulation.drain(&mut self.left) {
            self.write()?;
        }
        self.write()?;
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    fn open_writer(&mut self, port: &impl Port) -> anyhow::Result<()> {
        let (None, Some(out)) = (&self.writer, self.out) else {
            return Ok(());
        };
        let inputs = port.facts().into_iter();
        let config = WriterConfig {
            budget: self.budget.clone(),
            interfaces: inputs.map(lineside_capture::interface).collect(),
            application: concat!("lineside ", env!("CARGO_PKG_VERSION")).to_owned(),
            comment: Some("emulated: stamps are the instants at which frames left".to_owned()),
            rotation: Rotation::default(),
        };
        self.writer = Some(CaptureWriter::create(out, config, 0)?);
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.write(&self.left)?;
        }
        self.left.clear();
        Ok(())
    }
}

fn side_warnings(sides: &Sides) -> Vec<String> {
    let mut warnings = Vec::new();
    if sides.unaddressed() > 0 {
        warnings.push(format!(
            "{} frames are neither IP nor ARP: they went outbound",
            grouped(sides.unaddressed())
        ));
    }
    if sides.unremembered() > 0 {
        warnings.push(format!(
            "{} frames are of more pairs of addresses than are remembered: name the first side with --inside",
            grouped(sides.unremembered())
        ));
    }
    warnings
}

/// The certificate for the terminal.
fn lines(certificate: &Certificate) -> String {
    let mut out = String::new();
    for direction in Direction::BOTH {
        let name = direction.name();
        let Some(report) = certificate.directions.get(name) else {
            continue;
        };
        let (words, counters) = (&report.settings, &report.counters);
        let _ = writeln!(
            out,
            "{name:<12} {} frames in, {}; {} out, {}",
            grouped(counters.entered),
            bytes(counters.entered_bytes),
            grouped(counters.released),
            bytes(counters.released_bytes)
        );
        let drops = counters.dropped;
        for (count, what) in [
            (drops.loss, format!("lost: {}", words.loss)),
            (
                drops.down,
                format!("came while the link was down: {}", words.link),
            ),
            (
                drops.limit,
                format!("dropped by the limit: {}", words.limit),
            ),
            (drops.rate, "dropped by the rate".to_owned()),
            (drops.memory, "dropped because memory was full".to_owned()),
            (counters.duplicated, format!("doubled: {}", words.duplicate)),
            (
                counters.corrupted,
                format!("with a bit turned: {}", words.corrupt),
            ),
            (
                counters.hastened,
                format!("that passed the delay: {}", words.reorder),
            ),
        ] {
            if count > 0 {
                let _ = writeln!(out, "             {} {what}", grouped(count));
            }
        }
        let _ = writeln!(out, "  delay      {}", words.delay);
        if let Some(rate) = &words.rate {
            let _ = writeln!(out, "  rate       {rate}, limit {}", words.limit);
        }
        spread_line("asked", Some(&report.asked), &mut out);
        spread_line("drawn", report.drawn.as_ref(), &mut out);
        spread_line("realised", report.realised.as_ref(), &mut out);
        let distances = [
            ("drawn", report.drawn_distance),
            ("realised", report.realised_distance),
        ];
        // Without jitter a distance says no more than the means do.
        for (what, distance) in distances.into_iter().filter(|_| report.drawn.is_some()) {
            if let Some(distance) = distance {
                let _ = writeln!(
                    out,
                    "  {what:<10} {:.4} from asked by Kolmogorov and Smirnov, p-value {:.3}",
                    distance.ks, distance.p_value
                );
            }
        }
        for warning in &report.warnings {
            let _ = writeln!(out, "             {warning}");
        }
    }
    let _ = writeln!(out, "seed         {}", certificate.seed);
    verdict_lines(&certificate.verdict, &mut out);
    out
}

fn spread_line(name: &str, spread: Option<&Spread>, out: &mut String) {
    if let Some(spread) = spread {
        let _ = writeln!(out, "  {name:<10} {}", spread_text(spread));
    }
}

/// A distribution in a line.
pub(crate) fn spread_text(spread: &Spread) -> String {
    let us = |ns: i64| ns as f64 / 1e3;
    format!(
        "mean {:.3} us, deviation {:.3}; 1 % {:.3}, 50 % {:.3}, 99 % {:.3}, 99.9 % {:.3}, most {:.3}",
        spread.mean_ns / 1e3,
        spread.deviation_ns / 1e3,
        us(spread.p01_ns),
        us(spread.p50_ns),
        us(spread.p99_ns),
        us(spread.p999_ns),
        us(spread.max_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_for_both_directions_or_for_one() {
        let words = |given: &[&str], direction| {
            let given: Vec<_> = given.iter().map(|&words| words.to_owned()).collect();
            chosen(&given, direction).map(str::to_owned)
        };
        use Direction::{Inbound, Outbound};
        for (given, outbound, inbound) in [
            (&[][..], None, None),
            (&["1ms"], Some("1ms"), Some("1ms")),
            (&["1ms", "2ms"], Some("2ms"), Some("2ms")),
            (&["in:5ms", "1ms"], Some("1ms"), Some("5ms")),
            (&["out: 5ms"], Some(" 5ms"), None),
        ] {
            assert_eq!(words(given, Outbound).as_deref(), outbound);
            assert_eq!(words(given, Inbound).as_deref(), inbound);
        }
    }
}
