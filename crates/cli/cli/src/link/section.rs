//! The section `[emulate]`: the source of frames, and the link's settings. `emulate` runs it,
//! `explain` accounts for it.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use anyhow::Context;
use lineside_account::Budget;
use lineside_analyze::{Moment, MomentError, Zone};
use lineside_capture::CaptureFile;
use lineside_filter::Filter;
use lineside_host::SystemClock;
use lineside_measure::monitor::Words;
use lineside_path::settings::{
    CAPTURE_SIDES, LinkSpec, StepContext, StepWords, Ways, resolved, side_name,
};
use lineside_path::{Inside, InsideError};
use lineside_run::{DropInSettings, drop_ins, monitors};
use lineside_time::Clock;

use super::keys::LinkKeys;
use super::step_texts::StepTexts;
use crate::config::{self, ConfigError, Duration, Keys, Modes, Sandboxing, Size, key, keys};
use crate::limits::LimitWords;
use crate::outputs::capture_file;
use crate::print::say;

/// The source of frames for the link; a key may have a meaning in some modes only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Capture,
    Between,
    On,
    Commands,
    /// None: settings are explained.
    Explain,
}

impl Mode {
    const ALL: [Self; 5] = [
        Self::Capture,
        Self::Between,
        Self::On,
        Self::Commands,
        Self::Explain,
    ];

    pub(crate) const fn bit(self) -> Modes {
        1 << self as Modes
    }

    fn words(self) -> &'static str {
        match self {
            Self::Capture => "'emulate FILE'",
            Self::Between => "'emulate --between IF1,IF2'",
            Self::On => "'emulate --on IF'",
            Self::Commands => "'emulate -- CMD'",
            Self::Explain => "'explain'",
        }
    }
}

const CAPTURE: Modes = Mode::Capture.bit();
const BETWEEN: Modes = Mode::Between.bit();
const ON: Modes = Mode::On.bit();
const INTERFACES: Modes = BETWEEN | ON;
const COMMANDS: Modes = Mode::Commands.bit();
const LIVE: Modes = INTERFACES | COMMANDS;
const EXPLAIN: Modes = Mode::Explain.bit();

/// The headings in the help of `emulate` of keys that have a meaning in some modes alone.
pub(crate) fn mode_headings() -> Vec<(&'static str, &'static str)> {
    let heading = |modes: Modes| match modes & !EXPLAIN {
        CAPTURE => Some("Of a capture"),
        BETWEEN | ON | INTERFACES => Some("Between interfaces"),
        COMMANDS => Some("Between commands"),
        LIVE => Some("Between interfaces or commands"),
        _ => None,
    };
    let all = Section::declared().into_iter();
    all.filter_map(|key| Some((key.name, heading(key.modes)?)))
        .collect()
}

/// The sides of a link between commands.
pub(crate) const COMMAND_SIDES: [&str; 2] = ["client", "server"];

/// The default of `memory`.
const MEMORY_DEFAULT: usize = 256 << 20;

keys! {
    /// The section `[emulate]`.
    pub(crate) struct Section {
        inputs: Vec<PathBuf> = key("Capture files: pcap or pcapng, plain or compressed (gzip, \
        zstd, xz, lz4); - is standard input; several are merged by timestamp")
            .value("FILE")
            .positional()
            .also('r', "read", "The same as FILE")
            .only(CAPTURE | EXPLAIN);
        between: Vec<String> = key("Bridge two interfaces through the link until Ctrl-C, the first \
        one the inside; three to eight make a switch")
            .long("between").value("IF1,IF2").commas()
            .only(BETWEEN);
        on: String = key("Put the link between this host and its interface IF: what the host \
        sends is outbound, what it receives inbound; the host's settings stay as they are")
            .long("on").value("IF")
            .only(ON);
        client: Vec<String> = key("Run this command in a network namespace of its own, with the link \
        between it and everything else; needs no root")
            .value("CMD").trailing()
            .only(COMMANDS);
        loopback: bool = key("Pass what CMD sends to its own servers at 127.0.0.1 and ::1 through \
        the link too")
            .long("loopback")
            .only(COMMANDS);
        server: String = key("Start this command at the other end of the link, where CMD \
        reaches it at $LINESIDE_SERVER; nothing else is outside then")
            .long("server").value("CMD")
            .only(COMMANDS);
        server_wait: String = key("Wait up to TIME, e.g. 10s, until the server listens")
            .long("server-wait").value("TIME").hyphens()
            .only(COMMANDS)
            .default(|| "5s".to_owned());
        outside: bool = key("With --server: let both commands reach what this host can, CMD \
        through the link (needs root or pasta); $LINESIDE_OUTSIDE is this host")
            .long("outside")
            .only(COMMANDS);
        wait: String = key("How to wait until a frame is due: spin (needs a core), hybrid \
        (sleep, then spin) or sleep")
            .long("wait").value("WORD")
            .only(LIVE)
            .default(|| "hybrid".to_owned());
        method: String = key("How to receive and send frames: auto, af_xdp, af_xdp_generic or \
        af_packet")
            .long("method").value("WORD")
            .only(INTERFACES)
            .default(|| "auto".to_owned());
        tap: bool = key("Capture the frames that leave into a trace in RUN; frames that the \
        capture misses are counted, the link never waits for it")
            .long("tap")
            .only(LIVE);
        no_checksum_completion: bool = key("Do not compute the checksums that a sender left to its \
        adapter")
            .long("no-checksum-completion")
            .only(INTERFACES);
        sandbox: Sandboxing = key("Read frames in a sandbox: on, require (fail where the kernel \
        lacks a part) or off")
            .long("sandbox").value("WORD")
            .name_and_value_before("no_sandbox", Sandboxing::of_no_sandbox)
            .default(|| Sandboxing::On);
        duration: Duration = key("End a run between interfaces after TIME, e.g. 60s")
            .short('d').long("duration").value("TIME")
            .short_before('a').long_before(&["autostop"]).name_before("autostop")
            .only(INTERFACES)
            .example("60s");
        write_pcap: PathBuf = key("Write the frames that leave, with the times at which they \
        leave: pcapng, or pcap if it ends in .pcap; - is standard output; live also those that \
        come and that are dropped, with ports and points as interfaces")
            .short('w').long("write-pcap").value("OUT")
            .only(CAPTURE | LIVE);
        pcap_rotation: Vec<String> = key("Start a new capture file at filesize:kB or filesize:10MB, \
        duration:60s, interval:1h or packets:N; keep the last N with files:N; can be repeated")
            .short('b').value("COND")
            .example("files:10")
            .only(LIVE);
        monitors: Vec<String> = key("Measure frames, into the tables monitor_* in RUN: 'gap,size', \
        'packets window 10ms', 'all at inside.came match tcp port 2049', 'size at *.dropped'; can \
        be repeated")
            .long("monitor").value("WORDS").or_one()
            .example("gap,size")
            .only(CAPTURE | LIVE);
        drop_ins: Vec<String> = key("Pipe each frame's headers to a program, as Arrow IPC or \
        (NAME=csv:COMMAND) CSV; its rows become the table monitor_NAME in RUN; can be repeated")
            .long("drop-in").value("NAME=COMMAND").or_one()
            .example("ports=python3 ports.py")
            .only(CAPTURE | LIVE);
        drop_in_bytes: usize = key("Pipe the first N bytes of each frame to drop-ins too")
            .long("drop-in-bytes").value("N")
            .only(CAPTURE | LIVE);
        step: StepTexts = key("Change the link during the run: 'at 5s for 2s: link down', 'every 60s: \
        mark minute', 'when tcp port 2049 at inside.came after 20 at most 3 times: loss 5%; mark \
        nfs', 'at 60s: end'. inside.came: where a frame arrives from the inside, the first port; \
        after 20: from the 20th such frame on; can be repeated")
            .long("step").value("WHEN: ACTION")
            .only(CAPTURE | LIVE);
        wait_start: bool = key("Pass frames at once, but start the clock of steps, schedules and \
        -d at 'lineside ctl RUN start'")
            .long("wait-start").long_before(&["armed"]).name_before("armed")
            .only(LIVE);
        start_at: String = key("Start the clock at this time, together with other runs: \
        '18:00:00', or '2026-11-25T18:00:00Z'")
            .long("start-at").value("CLOCK")
            .only(LIVE)
            .example("2026-11-25T18:00:00Z");
        output: PathBuf = key("Write the run into this folder: trace.json with the certificate")
            .short('o').long("output").value("RUN")
            .only(CAPTURE | LIVE);
        strict: bool = key("Exit with 4 unless the verdict is complete")
            .long("strict")
            .only(CAPTURE | LIVE);
        limits: LimitWords = key("Change a limit of the verdict: lateness_max=1ms, or late=0.1% of \
        the frames by more than 1 ms; can be repeated")
            .long("verdict-limit").value("NAME=VALUE")
            .only(CAPTURE | LIVE);
        force: bool = key("Replace OUT and RUN if they exist")
            .long("force")
            .only(CAPTURE | LIVE);
        inside: String = key("Addresses on the inside, e.g. 10.0.0.0/8: frames from them are outbound; \
        without it the first frame between two addresses is")
            .long("inside").value("NET")
            .only(CAPTURE | EXPLAIN);
    }
    with link: LinkKeys; {
        seed: u64 = key("Seed of all random draws: equal seeds give equal runs")
            .long("seed").value("N")
            .default(|| 1);
        filter: String = key("Read only frames that match this tcpdump filter; drop the others")
            .short('f').long("filter").value("EXPR").hyphens()
            .only(CAPTURE | EXPLAIN);
        frames_max: NonZeroU64 = key("Stop after N frames (of those that match)")
            .short('c').value("N")
            .only(CAPTURE);
        memory: Size = key("Memory limit for the whole run; half of it holds frames on the link")
            .long("memory").value("SIZE")
            .default(|| Size::of_mib(MEMORY_DEFAULT));
    }
}

/// The settings, resolved.
pub(crate) struct Prepared {
    pub(crate) context: StepContext,
    pub(crate) path: lineside_path::Path,
    pub(crate) spec: LinkSpec,
    pub(crate) budget: Budget,
    pub(crate) filter: Option<Filter>,
    pub(crate) inside: Option<Inside>,
}

impl Section {
    /// Flags, over the file of `--config`, over the defaults.
    pub(crate) fn resolved(&self, file: Option<&Path>) -> Result<Self, ConfigError> {
        let below = file.map(|path| config::from_file(path, "emulate"));
        let mut given = self.clone().over(below.transpose()?.unwrap_or_default());
        // '--limit lateness_max=1ms' is no queue's limit.
        if let Some(taken) = given.link.limit.as_mut().and_then(LimitWords::taken_from) {
            given.limits.get_or_insert_default().add(taken);
            given.link.limit.take_if(|left| left.is_empty());
        }
        let mode = given.mode().unwrap_or(Mode::Explain);
        Ok(given.over(Self::defaults(mode.bit())))
    }

    /// The requested settings with all defaults, for another run.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        config::to_json("emulate", self)
    }

    /// The path with all its settings.
    pub(crate) fn prepare(&self) -> anyhow::Result<Prepared> {
        let ways = self.link_ways()?;
        let steps = self.steps()?;
        let notes = steps.iter().filter_map(StepWords::note);
        notes.for_each(|note| say(&note));
        let later: Vec<_> = steps.iter().map(|words| &words.link).collect();
        let ports = self.ports(&ways);
        let spec = LinkSpec::read(&self.link.words(), ways, &later)?;
        let filter = self.filter.as_deref().map(Filter::parse).transpose();
        let filter = filter.map_err(|error| ConfigError::usage(&format!("filter: {error}")))?;
        let inside = self.inside.as_deref().map(str::parse).transpose();
        let inside =
            inside.map_err(|error: InsideError| ConfigError::usage(&format!("inside: {error}")))?;
        let memory = self.memory.as_ref();
        let budget = Budget::new(memory.map_or(Ok(MEMORY_DEFAULT), config::memory_bytes)?);
        let context = StepContext {
            ports,
            monitors: self.monitors.as_ref().map_or(0, Vec::len),
        };
        let path = spec.path(self.seed.unwrap_or_default(), &budget)?;
        let mut path = path.context("half of the budget is left for the path")?;
        for step in resolved(&steps, &spec, &context)? {
            let armed = path.arm(step, 0);
            armed.map_err(|error| ConfigError::usage(&error.to_string()))?;
        }
        path.set_late_limits(LimitWords::of_link(self.limits.as_ref())?);
        if let Some(start_ns) = self.start()? {
            path.wait_until(start_ns);
        }
        Ok(Prepared {
            context,
            path,
            spec,
            budget,
            filter,
            inside,
        })
    }

    fn link_ways(&self) -> Result<Ways, ConfigError> {
        match &self.on {
            Some(interface) => Ok(Ways::on(interface)),
            None => Ways::between(self.between.as_deref()),
        }
    }

    fn steps(&self) -> Result<Vec<StepWords>, ConfigError> {
        let texts = self.step.iter().flat_map(|StepTexts(texts)| texts);
        texts.map(|text| StepWords::read(text)).collect()
    }

    /// The numbers of monitors that a step starts: they do not measure until it does.
    pub(crate) fn stopped_monitors(&self) -> Result<Vec<usize>, ConfigError> {
        let steps = self.steps()?;
        let monitors = 0..self.monitors.as_ref().map_or(0, Vec::len);
        let is_started = |monitor: &usize| steps.iter().any(|step| step.starts(*monitor));
        Ok(monitors.filter(is_started).collect())
    }

    /// The ports, in the order of their sides.
    fn ports(&self, ways: &Ways) -> Vec<String> {
        match ways.ports() {
            [] if self.mode() == Some(Mode::Commands) => COMMAND_SIDES.map(str::to_owned).into(),
            [] => CAPTURE_SIDES.map(str::to_owned).into(),
            ports => ports.to_vec(),
        }
    }

    /// When a run begins that waits: `Some(None)` on request.
    fn start(&self) -> Result<Option<Option<i64>>, ConfigError> {
        let Some(text) = &self.start_at else {
            let is_armed = self.wait_start == Some(true);
            if is_armed && self.output.is_none() {
                return Err(ConfigError::usage(
                    "--wait-start waits for 'lineside ctl RUN start': name RUN with -o",
                ));
            }
            return Ok(is_armed.then_some(None));
        };
        if self.wait_start == Some(true) {
            return Err(ConfigError::usage(
                "--wait-start and --start-at both say when the run starts: leave out one of them",
            ));
        }
        let moment: Moment = { text.parse() }
            .map_err(|error: MomentError| ConfigError::usage(&format!("start-at: {error}")))?;
        let now_ns = SystemClock::default().now();
        let at_ns = moment.next(now_ns, &Zone::local()).ok_or_else(|| {
            ConfigError::usage(&format!(
                "start-at: '{text}' is not a time of a clock: write 18:00, or 2026-11-25T18:00:00Z"
            ))
        })?;
        if at_ns <= now_ns {
            return Err(ConfigError::usage(&format!(
                "start-at: '{text}' has passed: give a time to come"
            )));
        }
        Ok(Some(Some(at_ns)))
    }

    /// What monitors are asked for.
    pub(crate) fn monitors(&self) -> Result<Vec<Words>, ConfigError> {
        let mut monitors = monitors(self.monitors.as_deref(), self.output.is_some())?;
        let ports = self.ports(&self.link_ways()?);
        for port in &ports {
            let side = side_name(&ports, port);
            monitors
                .iter_mut()
                .for_each(|words| words.rename_port(side, port));
        }
        Ok(monitors)
    }

    pub(crate) fn has_drop_ins(&self) -> bool {
        self.drop_ins.as_ref().is_some_and(|all| !all.is_empty())
    }

    /// The programs that are given heads.
    pub(crate) fn drop_ins(&self) -> Result<DropInSettings, ConfigError> {
        { self.sandbox.unwrap_or_default() }.with_drop_ins(self.has_drop_ins())?;
        drop_ins(
            self.drop_ins.as_deref(),
            self.drop_in_bytes,
            self.output.is_some(),
        )
    }

    /// The capture file that frames of a live run are written into.
    pub(crate) fn capture_file(&self) -> Result<Option<CaptureFile>, ConfigError> {
        capture_file(self.write_pcap.as_deref(), self.pcap_rotation.as_deref())
    }

    /// Capture files.
    pub(crate) fn inputs(&self) -> &[PathBuf] {
        self.inputs.as_deref().unwrap_or_default()
    }

    /// The source of frames for the link, if there is one.
    pub(crate) fn mode(&self) -> Option<Mode> {
        if self.server.is_some() || self.client.is_some() {
            Some(Mode::Commands)
        } else if self.between.is_some() {
            Some(Mode::Between)
        } else if self.on.is_some() {
            Some(Mode::On)
        } else if !self.inputs().is_empty() {
            Some(Mode::Capture)
        } else {
            None
        }
    }

    /// Fails if a flag or a key was set that has no meaning in this mode.
    pub(crate) fn refuse_flags_of_others(&self, mode: Mode) -> Result<(), ConfigError> {
        let Some(refused) = self.refused_in(mode.bit(), &Self::default()) else {
            return Ok(());
        };
        let modes = Mode::ALL.into_iter().filter(|mode| *mode != Mode::Explain);
        let modes = modes.filter(|mode| refused.modes & mode.bit() != 0);
        let modes: Vec<_> = modes.map(Mode::words).collect();
        let modes = match &modes[..] {
            [before @ .., last] if !before.is_empty() => {
                format!("{} and {last}", before.join(", "))
            }
            modes => modes.concat(),
        };
        Err(ConfigError::new(format!(
            "{} is for {modes}, and this is {}: leave it out",
            refused.flag(),
            mode.words()
        )))
    }
}
