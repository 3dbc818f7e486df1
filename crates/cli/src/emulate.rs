//! `lineside emulate`: frames of a capture, between two interfaces or between two commands, through an emulated link.

use std::fmt::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use lineside_account::{Budget, parse_size};
use lineside_analyze::{bytes, grouped, time};
use lineside_capture::Filtered;
use lineside_filter::Filter;
use lineside_frame::Burst;
use lineside_host::{RunFolder, Signals, SystemClock};
use lineside_link::Drops;
use lineside_measure::Spread;
use lineside_path::{
    Certificate, ChangeReport, Direction, DirectionReport, Inside, InsideError, MatchReport,
    SettingsWords, Sides, Virtual,
};
use lineside_port::{CaptureWriter, Port, Receive, Received, Rotation, WriterConfig};
use lineside_time::Clock;
use lineside_trace::{InputFacts, Manifest, State};
use serde::{Deserialize, Serialize};

use crate::Exit;
use crate::between::{self, Between};
use crate::commands::Commands;
use crate::config::{self, ConfigError, count, path_parser};
use crate::control::Controlled;
use crate::link_words::{Asked, LinkWords};
use crate::summary::verdict_lines;

/// Flags of `emulate`, and keys of the section `[emulate]`: each flag is one.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Arguments {
    /// Capture files: pcap or pcapng, plain or compressed (gzip, zstd, xz, lz4); - is standard input. Several are merged by their stamps
    #[arg(value_name = "FILE", value_parser = path_parser())]
    inputs: Option<Vec<PathBuf>>,
    /// The same as FILE
    #[arg(short = 'r', long = "read", value_name = "FILE", value_parser = path_parser())]
    #[serde(skip)]
    read: Vec<PathBuf>,
    /// Stand between two interfaces instead, the first one the inside, until Ctrl-C
    #[arg(long, value_name = "IF1,IF2", value_delimiter = ',')]
    between: Option<Vec<String>>,
    /// Start this command, and behind the link the one that stands after --, each in a network of its own; without root
    #[arg(long, value_name = "CMD")]
    server: Option<String>,
    /// The command at the inside of the link: $LINESIDE_SERVER is the server's address
    #[arg(last = true, value_name = "CMD")]
    client: Option<Vec<String>>,
    /// How long the client waits for something to listen at the server, such as 10s [default: 5s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    server_wait: Option<String>,
    /// Let both commands reach what this host can, the client through the link: with root, or by pasta; $LINESIDE_OUTSIDE is this host
    #[arg(long, num_args = 0, default_missing_value = "true")]
    outside: Option<bool>,
    /// What the loop does while nothing is due: spin (a core of its own), hybrid (sleeps, and spins before a frame is due) or sleep [default: hybrid]
    #[arg(long, value_name = "WORD")]
    wait: Option<String>,
    /// How frames are taken and sent between interfaces: auto, af_xdp, af_xdp_generic or af_packet [default: auto]
    #[arg(long, value_name = "WORD")]
    method: Option<String>,
    /// Write what leaves as a trace into RUN, as capture would beside it: what it cannot keep up with is counted, and no frame waits for it
    #[arg(long, num_args = 0, default_missing_value = "true")]
    tap: Option<bool>,
    /// Leave checksums as they are that a sender left to its adapter
    #[arg(long, num_args = 0, default_missing_value = "true")]
    no_checksum_completion: Option<bool>,
    /// End a run between interfaces: duration:SECONDS
    #[arg(short = 'a', long = "autostop", value_name = "COND")]
    autostop: Option<String>,
    /// Write the frames that leave, with the instants at which they do: pcapng, or pcap if it ends in .pcap; - is standard output
    #[arg(long, value_name = "OUT", value_parser = path_parser())]
    write_pcap: Option<PathBuf>,
    /// The folder that the run leaves: trace.json with the certificate
    #[arg(short, long, value_name = "RUN", value_parser = path_parser())]
    output: Option<PathBuf>,
    /// Replace OUT and RUN if they are there
    #[arg(long, num_args = 0, default_missing_value = "true")]
    force: Option<bool>,
    /// Addresses on the first side, such as 10.0.0.0/8: what they send goes out; without it, what goes as the first frame of a pair did
    #[arg(long, value_name = "NET")]
    inside: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    link: LinkWords,
    /// The same one draws the same again [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = count::<u64>)]
    seed: Option<u64>,
    /// Look only at frames that match, as tcpdump's filters do; the others go nowhere
    #[arg(short, long, value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Stop after N frames (of those that match)
    #[arg(short = 'c', value_name = "N", allow_hyphen_values = true, value_parser = count::<NonZeroU64>)]
    frames_max: Option<NonZeroU64>,
    /// The one memory budget; half of it is for frames under way [default: 256MiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<String>,
    /// Take all this from the section emulate of a TOML file, or from an earlier run's trace.json, where no flag says otherwise
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

/// What passes the link; a flag may have a meaning in some modes only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Capture,
    Between,
    Commands,
    /// Nothing does.
    Explain,
}

impl Mode {
    fn words(self) -> &'static str {
        match self {
            Self::Capture => "'emulate FILE'",
            Self::Between => "'emulate --between IF1,IF2'",
            Self::Commands => "'emulate --server CMD -- CMD'",
            Self::Explain => "'explain'",
        }
    }
}

/// What words and expressions came to.
pub(crate) struct Prepared {
    pub(crate) path: lineside_path::Path,
    pub(crate) asked: Asked,
    pub(crate) budget: Budget,
    pub(crate) filter: Option<Filter>,
    pub(crate) inside: Option<Inside>,
}

/// Frames that are read at once.
const READ_MAX: usize = 256;

pub(crate) fn run(given: &Arguments) -> anyhow::Result<Exit> {
    let arguments = given.resolved()?;
    let Some(mode) = arguments.mode() else {
        return Err(ConfigError::usage(
            "what passes the link is missing: name a capture (FILE), two interfaces (--between IF1,IF2), or two commands (--server CMD -- CMD)",
        )
        .into());
    };
    arguments.refuse_flags_of_others(mode)?;
    let Prepared {
        path,
        asked,
        budget,
        filter,
        inside,
    } = arguments.prepare()?;
    let inputs = arguments.inputs();
    match mode {
        Mode::Commands => return arguments.run_commands(path, asked, &budget),
        Mode::Between => return arguments.run_between(path, asked, &budget),
        Mode::Capture | Mode::Explain => {}
    }
    let files = crate::capture::open(inputs, &budget)?;
    let out = arguments.write_pcap.as_deref();
    let force = arguments.force == Some(true);
    crate::capture::check_out(out, false, inputs, force, arguments.json)?;
    let notes = Notes::begin(&arguments, &inputs)?;
    let signals = Signals::register().context("cannot handle signals")?;

    let mut run = Run {
        emulation: Virtual::new(path, Sides::new(inside)),
        out,
        budget: &budget,
        has_begun: false,
        writer: None,
        left: Burst::new(),
        signal: None,
    };
    let mut port = Filtered::new(files, filter);
    let mut failure = run
        .pass(
            &mut port,
            arguments.frames_max.map_or(u64::MAX, NonZeroU64::get),
            &signals,
            &notes,
        )
        .err();
    let written = run.writer.take().map_or(Ok(()), CaptureWriter::finish);
    if let Some(error) = failure.take_if(|_| !run.has_begun) {
        // Of no frame there is nothing to certify.
        return Err(error);
    }

    let mut certificate = run.emulation.certificate();
    let cut = { port.facts().into_iter() }.flat_map(|facts| facts.warnings.clone());
    let unfinished = cut
        .chain(failure.as_ref().map(|error| format!("{error:#}")))
        .chain(written.as_ref().err().map(ToString::to_string))
        .chain(
            run.signal
                .map(|signal| format!("ended by signal {signal} before the end of the input")),
        );
    for reason in unfinished {
        certificate.verdict.state = State::Incomplete;
        certificate.verdict.reasons.push(reason);
    }
    let json = serde_json::to_value(&certificate)?;
    notes.end(crate::capture::inputs(&port), &certificate, &json)?;
    let warnings = port
        .facts()
        .into_iter()
        .flat_map(|facts| facts.warnings.clone());
    for warning in warnings.chain(side_warnings(run.emulation.sides())) {
        eprintln!("lineside: warning: {warning}");
    }
    if arguments.json {
        crate::report::print_json(&certificate)?;
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
    /// The path, by all words.
    pub(crate) fn prepare(&self) -> anyhow::Result<Prepared> {
        let asked = Asked::read(&self.link)?;
        let filter = self.filter.as_deref().map(Filter::parse).transpose();
        let filter = filter.map_err(|error| ConfigError::usage(&format!("filter: {error}")))?;
        let inside = self.inside.as_deref().map(str::parse).transpose();
        let inside =
            inside.map_err(|error: InsideError| ConfigError::usage(&format!("inside: {error}")))?;
        let memory = parse_size(self.memory.as_deref().unwrap_or_default());
        let memory = memory.map_err(|error| ConfigError::usage(&format!("memory: {error}")))?;
        let budget = Budget::new(memory);
        let path = asked.path(self.seed.unwrap_or_default(), &budget)?;
        Ok(Prepared {
            path,
            asked,
            budget,
            filter,
            inside,
        })
    }

    /// Whether flags, not yet resolved, name capture files.
    pub(crate) fn names_inputs(&self) -> bool {
        !self.read.is_empty() || !self.inputs().is_empty()
    }

    /// Capture files.
    pub(crate) fn inputs(&self) -> &[PathBuf] {
        self.inputs.as_deref().unwrap_or_default()
    }

    /// `--json`.
    pub(crate) fn wants_json(&self) -> bool {
        self.json
    }

    /// What passes the link, if it is said.
    fn mode(&self) -> Option<Mode> {
        if self.server.is_some() || self.client.is_some() {
            Some(Mode::Commands)
        } else if self.between.is_some() {
            Some(Mode::Between)
        } else if !self.inputs().is_empty() {
            Some(Mode::Capture)
        } else {
            None
        }
    }

    /// Fails if a flag, or a key, was given that has no meaning in this mode.
    pub(crate) fn refuse_flags_of_others(&self, mode: Mode) -> Result<(), ConfigError> {
        use Mode::{Between, Capture, Commands, Explain};
        for (flag, is_given, modes) in [
            (
                "FILE",
                !self.inputs().is_empty(),
                &[Capture, Explain] as &[Mode],
            ),
            ("--between", self.between.is_some(), &[Between]),
            ("--server", self.server.is_some(), &[Commands]),
            ("-- CMD", self.client.is_some(), &[Commands]),
            ("--server-wait", self.server_wait.is_some(), &[Commands]),
            ("--outside", self.outside == Some(true), &[Commands]),
            ("--wait", self.wait.is_some(), &[Between, Commands]),
            ("--method", self.method.is_some(), &[Between]),
            ("--tap", self.tap == Some(true), &[Between]),
            (
                "--no-checksum-completion",
                self.no_checksum_completion == Some(true),
                &[Between],
            ),
            ("-a", self.autostop.is_some(), &[Between]),
            ("--write-pcap", self.write_pcap.is_some(), &[Capture]),
            ("--inside", self.inside.is_some(), &[Capture, Explain]),
            ("-f", self.filter.is_some(), &[Capture, Explain]),
            ("-c", self.frames_max.is_some(), &[Capture]),
            ("-o", self.output.is_some(), &[Capture, Between, Commands]),
        ] {
            if is_given && !modes.contains(&mode) {
                let modes = modes.iter().filter(|mode| **mode != Explain);
                let modes: Vec<_> = modes.map(|mode| mode.words()).collect();
                return Err(ConfigError::usage(&format!(
                    "{flag} is for {}, and this is {}: leave it out",
                    modes.join(" and "),
                    mode.words()
                )));
            }
        }
        Ok(())
    }

    /// Flags, over the file of `--config`, over the defaults.
    pub(crate) fn resolved(&self) -> Result<Self, ConfigError> {
        let mut flags = self.clone();
        if !self.read.is_empty() {
            flags
                .inputs
                .get_or_insert_default()
                .extend_from_slice(&self.read);
        }
        let below = match &self.config {
            Some(path) => {
                let examples = serde_json::json!({
                    "delay": "10ms", "rate": "100mbit", "loss": "1%", "limit": "64kb",
                    "memory": "256MiB", "server_wait": "5s", "autostop": "duration:60",
                });
                config::read_section(path, "emulate", &examples)?
            }
            None => Self::default(),
        };
        let asked = config::layered(flags, &below);
        let default = |modes: &[Mode], word: &str| {
            let has_meaning = asked.mode().is_some_and(|mode| modes.contains(&mode));
            has_meaning.then(|| word.to_owned())
        };
        let defaults = Self {
            server_wait: default(&[Mode::Commands], "5s"),
            wait: default(&[Mode::Between, Mode::Commands], "hybrid"),
            method: default(&[Mode::Between], "auto"),
            seed: Some(1),
            memory: Some("256MiB".to_owned()),
            ..Self::default()
        };
        Ok(Self {
            json: self.json,
            quiet: self.quiet,
            ..config::layered(asked, &defaults)
        })
    }

    /// Between two commands.
    fn run_commands(
        &self,
        path: lineside_path::Path,
        asked: Asked,
        budget: &Budget,
    ) -> anyhow::Result<Exit> {
        let commands = Commands {
            server: self.server.as_deref().unwrap_or_default(),
            client: self.client.as_deref().unwrap_or_default(),
            server_wait: self.server_wait.as_deref().unwrap_or_default(),
            wait: between::wait(self.wait.as_deref().unwrap_or_default())?,
            is_outside_open: self.outside == Some(true),
        };
        commands.check()?;
        let signals = Signals::register().context("cannot handle signals")?;
        let notes = Notes::begin(self, &self.client)?;
        let controlled = notes.listen(asked)?;
        let ran = commands.run(path, budget, controlled, &signals, self.quiet);
        let (ran, exit) = ran.inspect_err(|_| notes.withdraw())?;
        let mut json = serde_json::to_value(&ran.certificate)?;
        json["loop"] = serde_json::to_value(&ran.facts)?;
        notes.end(ran.inputs, &ran.certificate, &json)?;
        // Standard output is the client's, but for what was asked for.
        if self.json {
            crate::report::print_json(&json)?;
        } else if !self.quiet {
            eprint!("{}{}", lines(&ran.certificate), between::lines(&ran.facts));
        }
        ran.failure.map_or(Ok(()), Err)?;
        Ok(exit)
    }

    /// Between two interfaces.
    fn run_between(
        &self,
        path: lineside_path::Path,
        asked: Asked,
        budget: &Budget,
    ) -> anyhow::Result<Exit> {
        if self.tap == Some(true) && self.output.is_none() {
            return Err(ConfigError::usage(
                "--tap writes a trace into the run folder: name that with --output RUN",
            )
            .into());
        }
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
        let method = between::method(self.method.as_deref().unwrap_or_default())?;
        // Words first: they are wrong with or without rights.
        let between = Between {
            method,
            wait: between::wait(self.wait.as_deref().unwrap_or_default())?,
            interfaces: Between::interfaces(interfaces, method)?,
            is_tapped: self.tap == Some(true),
            completes_checksums: self.no_checksum_completion != Some(true),
            duration: duration.map(std::time::Duration::from_nanos),
            is_quiet: self.quiet,
        };
        let signals = Signals::register().context("cannot handle signals")?;
        let mut notes = Notes::begin(self, &self.between)?;
        let controlled = notes.listen(asked)?;
        let ran = between.run(
            path,
            budget,
            controlled,
            notes.folder.as_ref(),
            &notes.manifest.trace_id,
            &signals,
        );
        let ran = ran.inspect_err(|_| notes.withdraw())?;
        for warning in ran.inputs.iter().flat_map(|input| &input.warnings) {
            eprintln!("lineside: warning: {warning}");
        }
        let certificate = ran.certificate;
        let mut json = serde_json::to_value(&certificate)?;
        json["loop"] = serde_json::to_value(&ran.facts)?;
        json["machine"] = serde_json::to_value(&notes.manifest.machine)?;
        let (tapped, tap_failure) = match ran.tapped {
            Some(Err(error)) => (None, Some(error)),
            tapped => (tapped.and_then(Result::ok), None),
        };
        if let Some(seen) = &tapped {
            crate::capture::note_rows(&mut notes.manifest, seen);
        }
        notes.end(ran.inputs, &certificate, &json)?;
        if self.json {
            crate::report::print_json(&json)?;
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

    /// What was asked for, with its defaults, to be run again.
    fn configuration(&self) -> serde_json::Value {
        serde_json::json!({ "emulate": self })
    }
}

/// What is noted of a run, in its folder if it has one.
struct Notes {
    folder: Option<RunFolder>,
    manifest: Manifest,
    clock: SystemClock,
}

impl Notes {
    /// Makes the folder. `inputs` is what the frames come from.
    fn begin(arguments: &Arguments, inputs: &impl std::fmt::Debug) -> anyhow::Result<Self> {
        let folder = { arguments.output.as_ref() }
            .map(|output| RunFolder::create(output, arguments.force == Some(true)))
            .transpose()?;
        let clock = SystemClock::default();
        let configuration = arguments.configuration();
        let manifest = crate::capture::begin_manifest(inputs, configuration, clock.now());
        Ok(Self {
            folder,
            manifest,
            clock,
        })
    }

    /// Writes what is known before the first frame, and has changes taken from then on.
    fn listen(&self, asked: Asked) -> anyhow::Result<Option<Controlled>> {
        self.write()?;
        let folder = self.folder.as_ref();
        Ok(folder.and_then(|folder| Controlled::listen(folder, asked)))
    }

    fn write(&self) -> anyhow::Result<()> {
        if let Some(folder) = &self.folder {
            folder.replace("trace.json", self.manifest.to_json().as_bytes())?;
        }
        Ok(())
    }

    /// Of a run that could not begin: the next try finds the folder as this one did.
    fn withdraw(&self) {
        self.folder.iter().for_each(RunFolder::withdraw);
    }

    /// Writes what came of it; `json` is the certificate as it is told.
    fn end(
        mut self,
        inputs: Vec<InputFacts>,
        certificate: &Certificate,
        json: &serde_json::Value,
    ) -> anyhow::Result<()> {
        self.manifest.inputs = inputs;
        self.manifest.verdict = certificate.verdict.clone();
        self.manifest.certificate = Some(json.clone());
        self.manifest.ended_ns = Some(self.clock.now());
        self.write()
    }
}

struct Run<'a> {
    emulation: Virtual,
    out: Option<&'a Path>,
    budget: &'a Budget,
    /// A frame came.
    has_begun: bool,
    /// Made when the first frames have been read: only then a pcapng file's link types are known.
    writer: Option<CaptureWriter>,
    left: Burst,
    signal: Option<u8>,
}

impl Run<'_> {
    /// All frames through the path. What was read before an error still leaves.
    fn pass(
        &mut self,
        port: &mut impl Receive,
        mut frames_left: u64,
        signals: &Signals,
        notes: &Notes,
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
            if !burst.is_empty() && !self.has_begun {
                self.open_writer(port)?;
                notes.write()?;
                self.has_begun = true;
            }
            self.emulation.on_burst(&mut burst, &mut self.left);
            self.write()?;
        }
        if failure.is_none() {
            self.open_writer(port)?;
        }
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
            replaces: false,
        };
        self.writer = Some(CaptureWriter::create(out, config, None)?);
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
        let changes: Vec<_> = { certificate.changes.iter() }
            .filter(|change| change.direction == name)
            .collect();
        let dropped = |what: &str, count: fn(&Drops) -> u64, word| {
            let words = words_of_drops(report, &changes, count, word);
            (count(&drops), format!("{what}: {words}"))
        };
        let counted = |count, what: &str, word| match changes.is_empty() {
            true => {
                let words = words_of(&report.settings, &report.matches, word);
                (count, format!("{what}: {words}"))
            }
            // Changes do not tell these counts apart, so neither do words.
            false => (count, what.to_owned()),
        };
        for (count, what) in [
            dropped("lost", |drops| drops.loss, |words| &words.loss),
            dropped(
                "came while the link was down",
                |drops| drops.down,
                |words| &words.link,
            ),
            dropped(
                "dropped by the limit",
                |drops| drops.limit,
                |words| &words.limit,
            ),
            (drops.rate, "dropped by the rate".to_owned()),
            (drops.memory, "dropped because memory was full".to_owned()),
            counted(counters.duplicated, "doubled", |words| &words.duplicate),
            counted(counters.corrupted, "with a bit turned", |words| {
                &words.corrupt
            }),
            counted(counters.hastened, "that passed the delay", |words| {
                &words.reorder
            }),
            (report.held, "were still under way at the end".to_owned()),
        ] {
            if count > 0 {
                let _ = writeln!(out, "             {} {what}", grouped(count));
            }
        }
        let _ = writeln!(out, "  delay      {}", words.delay);
        if let Some(rate) = &words.rate {
            let _ = writeln!(out, "  rate       {rate}, limit {}", words.limit);
        }
        if let Some(path) = &words.path {
            let _ = writeln!(out, "  path       {path}, limit {}", words.limit);
        }
        let delays = &report.delays;
        spread_line("asked", Some(&delays.asked), &mut out);
        spread_line("drawn", delays.drawn.as_ref(), &mut out);
        spread_line("realised", delays.realised.as_ref(), &mut out);
        let distances = [
            ("drawn", delays.drawn_distance),
            ("realised", delays.realised_distance),
        ];
        // Without jitter a distance says no more than the means do.
        for (what, distance) in distances.into_iter().filter(|_| delays.drawn.is_some()) {
            if let Some(distance) = distance {
                let _ = writeln!(
                    out,
                    "  {what:<10} {:.4} from asked by Kolmogorov and Smirnov, p-value {:.3}",
                    distance.ks, distance.p_value
                );
            }
        }
        for matching in &report.matches {
            let words = &matching.settings;
            let _ = writeln!(
                out,
                "  match {}: {} frames, {} lost: {}; delay {}",
                matching.expressions,
                grouped(matching.entered),
                grouped(matching.lost),
                words.loss,
                words.delay
            );
            spread_line("asked", Some(&matching.asked), &mut out);
            spread_line("realised", matching.realised.as_ref(), &mut out);
        }
        for warning in &report.warnings {
            let _ = writeln!(out, "             {warning}");
        }
        for change in changes {
            let _ = writeln!(
                out,
                "  until {} after the start, {} frames had come, {} were dropped; delay {}",
                time(change.after_ns.unwrap_or_default().max(0) as u64),
                grouped(change.entered),
                grouped(change.dropped.total()),
                change.before.delay
            );
            spread_line("asked", Some(&change.delays.asked), &mut out);
            spread_line("realised", change.delays.realised.as_ref(), &mut out);
        }
    }
    let _ = writeln!(out, "seed         {}", certificate.seed);
    verdict_lines(&certificate.verdict, &mut out);
    out
}

/// A setting by which frames were dropped: those that held while they were.
fn words_of_drops(
    report: &DirectionReport,
    changes: &[&ChangeReport],
    count: fn(&Drops) -> u64,
    word: fn(&SettingsWords) -> &str,
) -> String {
    let mut since = count(&report.counters.dropped);
    let mut told = Vec::new();
    for change in changes {
        let before = count(&change.dropped);
        since -= before;
        if before > 0 {
            told.push(words_of(&change.before, &change.matches, word));
        }
    }
    if since > 0 {
        told.push(words_of(&report.settings, &report.matches, word));
    }
    told.dedup();
    told.join(", then ")
}

/// A setting of the link, and where it differs that of frames told apart.
fn words_of(
    settings: &SettingsWords,
    matches: &[MatchReport],
    word: fn(&SettingsWords) -> &str,
) -> String {
    let own = word(settings);
    let others = { matches.iter() }.filter(|matching| word(&matching.settings) != own);
    others.fold(own.to_owned(), |words, matching| {
        let other = word(&matching.settings);
        format!("{words}, match {}: {other}", matching.expressions)
    })
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
    use lineside_frame::{Descriptor, Frame};
    use lineside_path::Departures;

    use super::*;

    #[test]
    fn drops_are_told_with_the_words_that_held() {
        let asked = |link: &str| {
            let words = LinkWords {
                link: Some(vec![link.to_owned()]),
                ..LinkWords::default()
            };
            Asked::read(&words).expect("right words")
        };
        let budget = Budget::new(64 << 20);
        let mut path = asked("up").path(1, &budget).expect("it fits");
        let mut out = Departures::default();
        for (now, link) in (0..).zip(["down", "flap 1s 1s", "up"]) {
            let settings = asked(link).settings;
            let settings = { &settings }.each_ref().map(|each| Some(&each[..]));
            path.change(now, settings, &mut out).expect("memory");
            let mut burst = vec![Frame::copied(&[0; 60], Descriptor::default())];
            path.on_burst(now, Direction::Outbound, &mut burst, &mut out);
        }
        let text = lines(&path.certificate(lineside_path::VIRTUAL));
        let told = "1 came while the link was down: down\n";
        assert!(text.contains(told), "{text}");
    }
}
