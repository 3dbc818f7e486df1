//! `lineside emulate`: frames of a capture, between two interfaces or between two commands, through an emulated link.

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
use lineside_path::{Certificate, Direction, Inside, InsideError, Sides, Virtual};
use lineside_port::{CaptureWriter, Port, Received, Rotation, WriterConfig};
use lineside_time::Clock;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Exit;
use crate::between::{self, Between};
use crate::commands::Commands;
use crate::config::{self, ConfigError};
use crate::summary::verdict_lines;

/// Flags of `emulate`, and keys of the section `[emulate]`: each flag is one. Words about the link are for both directions, or for
/// one if `out:` or `in:` stands before them.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Arguments {
    /// Capture files: pcap or pcapng, plain, gzip or zstd; - is standard input. Several are merged by their stamps
    #[arg(value_name = "FILE")]
    inputs: Option<Vec<PathBuf>>,
    /// The same as FILE
    #[arg(short = 'r', long = "read", value_name = "FILE")]
    #[serde(skip)]
    read: Vec<PathBuf>,
    /// Stand between two interfaces instead, the first one the inside, until Ctrl-C: frames are taken and sent by AF_XDP
    #[arg(long, value_name = "IF1,IF2", value_delimiter = ',')]
    between: Option<Vec<String>>,
    /// Start this command, and behind the link the one that stands after --, each in a network of its own; without root
    #[arg(long, value_name = "CMD")]
    server: Option<String>,
    /// The command at the inside of the link: $LINESIDE_SERVER is the server's address
    #[arg(last = true, value_name = "CMD")]
    client: Option<Vec<String>>,
    /// How long the client waits for something to listen at the server [default: 5s]
    #[arg(long, value_name = "TIME")]
    server_wait: Option<String>,
    /// What the loop does while nothing is due: spin (a core of its own), hybrid (sleeps, and spins before a frame is due) or sleep [default: hybrid]
    #[arg(long, value_name = "WORD")]
    wait: Option<String>,
    /// How frames are taken between interfaces: af_xdp or af_xdp_generic [default: af_xdp]
    #[arg(long, value_name = "WORD")]
    method: Option<String>,
    /// Leave checksums as they are that a sender left to its adapter
    #[arg(long, num_args = 0, default_missing_value = "true")]
    no_checksum_completion: Option<bool>,
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
    #[arg(long, num_args = 0, default_missing_value = "true")]
    force: Option<bool>,
    /// Addresses on the first side, such as 10.0.0.0/8: what they send goes out; without it, what goes as the first frame of a pair did
    #[arg(long, value_name = "NET")]
    inside: Option<String>,
    /// How long frames are held: '100us', '100us 10us 25% distribution normal order reorder'
    #[arg(long, value_name = "WORDS")]
    #[serde(deserialize_with = "one_or_many")]
    delay: Option<Vec<String>>,
    /// How fast they leave: '1gbit', '10mbit burst 15k overhead ethernet drop'
    #[arg(long, value_name = "WORDS")]
    #[serde(deserialize_with = "one_or_many")]
    rate: Option<Vec<String>>,
    /// Which are lost: '0.1%', 'gemodel 1% 10%', 'burst 50ms every 10s', 'every 100', 'frames 3,17', 'segment 3 times 2'
    #[arg(long, value_name = "WORDS")]
    #[serde(deserialize_with = "one_or_many")]
    loss: Option<Vec<String>>,
    /// Which come twice: '1%'
    #[arg(long, value_name = "WORDS")]
    #[serde(deserialize_with = "one_or_many")]
    duplicate: Option<Vec<String>>,
    /// In which a bit is turned: '0.1%'
    #[arg(long, value_name = "WORDS")]
    #[serde(deserialize_with = "one_or_many")]
    corrupt: Option<Vec<String>>,
    /// Which pass the delay at once, before others: '25% 50%'
    #[arg(long, value_name = "WORDS")]
    #[serde(deserialize_with = "one_or_many")]
    reorder: Option<Vec<String>>,
    /// How much is held: frames ('1000') or bytes ('64kb'); without it, from rate and delay
    #[arg(long, value_name = "WORDS")]
    #[serde(deserialize_with = "one_or_many")]
    limit: Option<Vec<String>>,
    /// Whether the link takes frames: 'up', 'down', 'flap 10s 1s'
    #[arg(long, value_name = "WORDS")]
    #[serde(deserialize_with = "one_or_many")]
    link: Option<Vec<String>>,
    /// The same one draws the same again [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Look only at frames that match, as tcpdump's filters do; the others go nowhere
    #[arg(short, long, value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Stop after N frames (of those that match)
    #[arg(short = 'c', value_name = "N")]
    frames_max: Option<u64>,
    /// The one memory budget; half of it is for frames under way [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Take all this from the section [emulate] of a TOML file, or from an earlier run's trace.json, where no flag says otherwise
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// Print the certificate as JSON
    #[arg(long)]
    #[serde(skip)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    #[serde(skip)]
    quiet: bool,
}

/// In a file, one text may stand for a list of one.
fn one_or_many<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "words, or a list of words")]
    enum Words {
        One(String),
        Many(Vec<String>),
    }
    let words = Option::<Words>::deserialize(input)?;
    Ok(words.map(|words| match words {
        Words::One(words) => vec![words],
        Words::Many(words) => words,
    }))
}

/// Frames that are read at once.
const READ_MAX: usize = 256;

pub(crate) fn run(given: &Arguments) -> anyhow::Result<Exit> {
    let arguments = given.resolved()?;
    let settings = [
        arguments.settings(Direction::Outbound)?,
        arguments.settings(Direction::Inbound)?,
    ];
    let filter = arguments.filter.as_deref().map(Filter::parse).transpose();
    let filter = filter.map_err(|error| ConfigError::usage(&format!("filter: {error}")))?;
    let inside = arguments.inside.as_deref().map(str::parse).transpose();
    let inside: Option<Inside> =
        inside.map_err(|error: InsideError| ConfigError::usage(&format!("inside: {error}")))?;
    let memory = parse_size(arguments.memory.as_deref().unwrap_or_default());
    let memory = memory.map_err(|error| ConfigError::usage(&format!("memory: {error}")))?;
    let budget = Budget::new(memory);
    let seed = arguments.seed.unwrap_or_default();
    let path = lineside_path::Path::new(settings, seed, memory / 2, &budget);
    let path = path.context("the budget bears its own half")?;
    let inputs = arguments.inputs.as_deref().unwrap_or_default();
    if arguments.server.is_some() || arguments.client.is_some() {
        return arguments.run_commands(path, &budget);
    }
    if arguments.between.is_some() {
        return arguments.run_between(path, &budget);
    }
    let files = crate::capture::open(inputs, &budget)?;
    let out = arguments.write_pcap.as_deref();
    let force = arguments.force == Some(true);
    crate::capture::check_out(out, inputs, force, arguments.json)?;
    let folder = { arguments.output.as_ref() }
        .map(|output| RunFolder::create(output, force))
        .transpose()?;
    let signals = Signals::register().context("cannot handle signals")?;
    let clock = SystemClock::default();
    let mut manifest =
        crate::capture::begin_manifest(&inputs, arguments.configuration(), clock.now());

    let mut run = Run {
        emulation: Virtual::new(path, Sides::new(inside)),
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

    let certificate = run.emulation.path().certificate("virtual");
    if let Some(folder) = &folder {
        manifest.inputs = crate::capture::inputs(&port);
        manifest.verdict = certificate.verdict.clone();
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
    /// Flags, over the file of `--config`, over the defaults.
    fn resolved(&self) -> Result<Self, ConfigError> {
        let mut flags = self.clone();
        if !self.read.is_empty() {
            flags
                .inputs
                .get_or_insert_default()
                .extend_from_slice(&self.read);
        }
        let below = match &self.config {
            Some(path) => config::read_section(path, "emulate")?,
            None => Self::default(),
        };
        let defaults = Self {
            server_wait: Some("5s".to_owned()),
            wait: Some("hybrid".to_owned()),
            method: Some("af_xdp".to_owned()),
            seed: Some(1),
            memory: Some("256MiB".to_owned()),
            ..Self::default()
        };
        Ok(Self {
            json: self.json,
            quiet: self.quiet,
            ..config::layered(config::layered(flags, &below), &defaults)
        })
    }

    /// Fails if flags were given that are for captures only.
    fn refuse_flags_of_captures(&self, flag: &str) -> Result<(), ConfigError> {
        let is_for_captures = self.inputs.is_some()
            || self.write_pcap.is_some()
            || self.inside.is_some()
            || self.filter.is_some()
            || self.frames_max.is_some();
        if is_for_captures {
            return Err(ConfigError::usage(&format!(
                "{flag}: FILE, --write-pcap, --inside, -f and -c are for captures, and here frames are real ones"
            )));
        }
        Ok(())
    }

    /// Between two commands.
    fn run_commands(&self, path: lineside_path::Path, budget: &Budget) -> anyhow::Result<Exit> {
        self.refuse_flags_of_captures("--server")?;
        if self.between.is_some() {
            return Err(ConfigError::usage(
                "either --between two interfaces, or --server and a client, not both in one run",
            )
            .into());
        }
        let commands = Commands {
            server: self.server.as_deref().unwrap_or_default(),
            client: self.client.as_deref().unwrap_or_default(),
            server_wait: self.server_wait.as_deref().unwrap_or_default(),
            wait: between::wait(self.wait.as_deref().unwrap_or_default())?,
        };
        commands.check()?;
        let signals = Signals::register().context("cannot handle signals")?;
        let folder = { self.output.as_ref() }
            .map(|output| RunFolder::create(output, self.force == Some(true)))
            .transpose()?;
        let clock = SystemClock::default();
        let mut manifest =
            crate::capture::begin_manifest(&self.client, self.configuration(), clock.now());
        let (ran, exit) = commands.run(path, budget, &signals, self.quiet)?;
        let mut json = serde_json::to_value(&ran.certificate)?;
        json["loop"] = serde_json::to_value(&ran.facts)?;
        if let Some(folder) = &folder {
            manifest.inputs = ran.inputs;
            manifest.verdict = ran.certificate.verdict.clone();
            manifest.certificate = Some(json.clone());
            manifest.ended_ns = Some(clock.now());
            folder.replace("trace.json", manifest.to_json().as_bytes())?;
        }
        // Standard output is the client's, but for what was asked for.
        if self.json {
            crate::report::print(&(serde_json::to_string_pretty(&json)? + "\n"))?;
        } else if !self.quiet {
            eprint!("{}{}", lines(&ran.certificate), between::lines(&ran.facts));
        }
        ran.failure.map_or(Ok(()), Err)?;
        Ok(exit)
    }

    /// Between two interfaces.
    fn run_between(&self, path: lineside_path::Path, budget: &Budget) -> anyhow::Result<Exit> {
        self.refuse_flags_of_captures("--between")?;
        let interfaces = self.between.as_deref().unwrap_or_default();
        let duration = self
            .autostop
            .as_deref()
            .map(crate::capture::duration)
            .transpose()?;
        let duration = duration
            .map(|text| lineside_time::parse_duration(&text))
            .transpose();
        let duration = duration.map_err(|error| ConfigError::usage(&format!("-a: {error}")))?;
        // Words first: they are wrong with or without rights.
        let between = Between {
            method: between::method(self.method.as_deref().unwrap_or_default())?,
            wait: between::wait(self.wait.as_deref().unwrap_or_default())?,
            interfaces: Between::interfaces(interfaces)?,
            completes_checksums: self.no_checksum_completion != Some(true),
            duration: duration.map(std::time::Duration::from_nanos),
        };
        let signals = Signals::register().context("cannot handle signals")?;
        let folder = { self.output.as_ref() }
            .map(|output| RunFolder::create(output, self.force == Some(true)))
            .transpose()?;
        let clock = SystemClock::default();
        let mut manifest =
            crate::capture::begin_manifest(&self.between, self.configuration(), clock.now());
        let ran = between.run(path, budget, folder.as_ref(), &signals, self.quiet)?;
        let certificate = ran.certificate;
        let mut json = serde_json::to_value(&certificate)?;
        json["loop"] = serde_json::to_value(&ran.facts)?;
        if let Some(folder) = &folder {
            manifest.inputs = ran.inputs;
            manifest.verdict = certificate.verdict.clone();
            manifest.certificate = Some(json.clone());
            manifest.ended_ns = Some(clock.now());
            folder.replace("trace.json", manifest.to_json().as_bytes())?;
        }
        if self.json {
            crate::report::print(&(serde_json::to_string_pretty(&json)? + "\n"))?;
        } else if !self.quiet {
            crate::report::print(&(lines(&certificate) + &between::lines(&ran.facts)))?;
        }
        ran.failure.map_or(Ok(()), Err)?;
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
        if let Some(words) = chosen(self.delay.as_deref(), direction) {
            settings.delay = refused(words::delay(words, &mut crate::table::load))?;
        }
        if let Some(words) = chosen(self.rate.as_deref(), direction) {
            settings.rate = Some(refused(words::rate(words))?);
        }
        if let Some(words) = chosen(self.loss.as_deref(), direction) {
            settings.loss = refused(words::loss(words))?;
        }
        if let Some(words) = chosen(self.limit.as_deref(), direction) {
            settings.limit = refused(words::limit(words))?;
        }
        if let Some(words) = chosen(self.link.as_deref(), direction) {
            settings.state = refused(words::state(words))?;
        }
        let chance =
            |setting, words: &Option<Vec<String>>| match chosen(words.as_deref(), direction) {
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

    /// What was asked for, with its defaults, to be run again.
    fn configuration(&self) -> serde_json::Value {
        serde_json::json!({ "emulate": self })
    }
}

/// The last of these words that are for the direction, without what says so.
fn chosen(words: Option<&[String]>, direction: Direction) -> Option<&str> {
    let words = words.unwrap_or_default();
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
            chosen(Some(&given), direction).map(str::to_owned)
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
