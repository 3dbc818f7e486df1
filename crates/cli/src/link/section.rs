//! The section `[emulate]`: what passes a link, and what the link does to it. `emulate` runs it, `explain` accounts for it.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use lineside_account::Budget;
use lineside_filter::Filter;
use lineside_path::{Inside, InsideError};

use super::asked::Asked;
use super::keys::LinkWords;
use crate::config::{self, ConfigError, Keys, Modes, Size, key, keys};

/// What passes the link; a key may have a meaning in some modes only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Capture,
    Between,
    Commands,
    /// Nothing does.
    Explain,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Capture, Self::Between, Self::Commands, Self::Explain];

    pub(crate) const fn bit(self) -> Modes {
        1 << self as Modes
    }

    fn words(self) -> &'static str {
        match self {
            Self::Capture => "'emulate FILE'",
            Self::Between => "'emulate --between IF1,IF2'",
            Self::Commands => "'emulate --server CMD -- CMD'",
            Self::Explain => "'explain'",
        }
    }
}

const CAPTURE: Modes = Mode::Capture.bit();
const BETWEEN: Modes = Mode::Between.bit();
const COMMANDS: Modes = Mode::Commands.bit();
const EXPLAIN: Modes = Mode::Explain.bit();

/// The default of `memory`.
const MEMORY_DEFAULT: usize = 256 << 20;

keys! {
    /// The section `[emulate]`.
    pub(crate) struct Section {
        inputs: Vec<PathBuf> = key("Capture files: pcap or pcapng, plain or compressed (gzip, zstd, xz, lz4); - is standard input. Several are merged by their stamps")
            .value("FILE")
            .positional()
            .also('r', "read", "The same as FILE")
            .only(CAPTURE | EXPLAIN);
        between: Vec<String> = key("Stand between two interfaces instead, the first one the inside, until Ctrl-C")
            .long("between").value("IF1,IF2").commas()
            .only(BETWEEN);
        server: String = key("Start this command, and at the other end of the link the one that stands after --, each in a network of its own; without root")
            .long("server").value("CMD")
            .only(COMMANDS);
        client: Vec<String> = key("The command at the inside of the link: $LINESIDE_SERVER is the server's address")
            .value("CMD").trailing()
            .only(COMMANDS);
        server_wait: String = key("How long the client waits for something to listen at the server, such as 10s [default: 5s]")
            .long("server-wait").value("TIME").hyphens()
            .only(COMMANDS)
            .default(|| "5s".to_owned());
        outside: bool = key("Let both commands reach what this host can, the client through the link: with root, or by pasta; $LINESIDE_OUTSIDE is this host")
            .long("outside")
            .only(COMMANDS);
        wait: String = key("What the loop does while nothing is due: spin (a core of its own), hybrid (sleeps, and spins before a frame is due) or sleep [default: hybrid]")
            .long("wait").value("WORD")
            .only(BETWEEN | COMMANDS)
            .default(|| "hybrid".to_owned());
        method: String = key("How frames are taken and sent between interfaces: auto, af_xdp, af_xdp_generic or af_packet [default: auto]")
            .long("method").value("WORD")
            .only(BETWEEN)
            .default(|| "auto".to_owned());
        tap: bool = key("Write what leaves as a trace into RUN, as capture would beside it: frames that it cannot keep up with are counted, and none waits for it")
            .long("tap")
            .only(BETWEEN);
        no_checksum_completion: bool = key("Leave checksums as they are that a sender left to its adapter")
            .long("no-checksum-completion")
            .only(BETWEEN);
        autostop: String = key("End a run between interfaces: duration:SECONDS")
            .short('a').long("autostop").value("COND")
            .only(BETWEEN)
            .example("duration:60");
        write_pcap: PathBuf = key("Write the frames that leave, with the instants at which they do: pcapng, or pcap if it ends in .pcap; - is standard output")
            .long("write-pcap").value("OUT")
            .only(CAPTURE);
        output: PathBuf = key("The folder that the run leaves: trace.json with the certificate")
            .short('o').long("output").value("RUN")
            .only(CAPTURE | BETWEEN | COMMANDS);
        force: bool = key("Replace OUT and RUN if they are there")
            .long("force");
        inside: String = key("Addresses on the first side, such as 10.0.0.0/8: their frames go out; without it, frames that go as the first one of a pair of addresses did")
            .long("inside").value("NET")
            .only(CAPTURE | EXPLAIN);
    }
    with link: LinkWords; {
        seed: u64 = key("The same seed draws the same again [default: 1]")
            .long("seed").value("N")
            .default(|| 1);
        filter: String = key("Look only at frames that match, as tcpdump's filters do; the others go nowhere")
            .short('f').long("filter").value("EXPR").hyphens()
            .only(CAPTURE | EXPLAIN);
        frames_max: NonZeroU64 = key("Stop after N frames (of those that match)")
            .short('c').value("N")
            .only(CAPTURE);
        memory: Size = key("The one memory budget; half of it is for frames under way [default: 256MiB]")
            .long("memory").value("SIZE")
            .default(|| Size::of_mib(MEMORY_DEFAULT));
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

impl Section {
    /// Flags, over the file of `--config`, over the defaults.
    pub(crate) fn resolved(&self, file: Option<&Path>) -> Result<Self, ConfigError> {
        let below = file.map(|path| config::from_file(path, "emulate"));
        let asked = self.clone().over(below.transpose()?.unwrap_or_default());
        let mode = asked.mode().unwrap_or(Mode::Explain);
        Ok(asked.over(Self::defaults(mode.bit())))
    }

    /// What was asked for, with its defaults, to be run again.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        config::to_json("emulate", self)
    }

    /// The path, by all words.
    pub(crate) fn prepare(&self) -> anyhow::Result<Prepared> {
        let asked = Asked::read(&self.link)?;
        let filter = self.filter.as_deref().map(Filter::parse).transpose();
        let filter = filter.map_err(|error| ConfigError::usage(&format!("filter: {error}")))?;
        let inside = self.inside.as_deref().map(str::parse).transpose();
        let inside =
            inside.map_err(|error: InsideError| ConfigError::usage(&format!("inside: {error}")))?;
        let budget = Budget::new(self.memory.as_ref().map_or(MEMORY_DEFAULT, Size::get));
        let path = asked.path(self.seed.unwrap_or_default(), &budget)?;
        Ok(Prepared {
            path,
            asked,
            budget,
            filter,
            inside,
        })
    }

    /// Capture files.
    pub(crate) fn inputs(&self) -> &[PathBuf] {
        self.inputs.as_deref().unwrap_or_default()
    }

    /// What passes the link, if anything does.
    pub(crate) fn mode(&self) -> Option<Mode> {
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
        let Some(refused) = self.refused_in(mode.bit(), &Self::default()) else {
            return Ok(());
        };
        let modes = Mode::ALL.into_iter().filter(|mode| *mode != Mode::Explain);
        let modes = modes.filter(|mode| refused.modes & mode.bit() != 0);
        let modes: Vec<_> = modes.map(Mode::words).collect();
        Err(ConfigError::new(format!(
            "{} is for {}, and this is {}: leave it out",
            refused.flag(),
            modes.join(" and "),
            mode.words()
        )))
    }
}
