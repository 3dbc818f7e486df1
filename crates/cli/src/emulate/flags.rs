//! Flags of `emulate`, and keys of the section `[emulate]`: each flag is one.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use lineside_account::{Budget, parse_size};
use lineside_filter::Filter;
use lineside_path::{Inside, InsideError};
use serde::{Deserialize, Serialize};

use crate::config::{self, ConfigError, count, path_parser};
use crate::link::asked::Asked;
use crate::link::keys::LinkWords;

/// Flags of `emulate`, and keys of the section `[emulate]`: each flag is one.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Arguments {
    /// Capture files: pcap or pcapng, plain or compressed (gzip, zstd, xz, lz4); - is standard input. Several are merged by their stamps
    #[arg(value_name = "FILE", value_parser = path_parser())]
    pub(super) inputs: Option<Vec<PathBuf>>,
    /// The same as FILE
    #[arg(short = 'r', long = "read", value_name = "FILE", value_parser = path_parser())]
    #[serde(skip)]
    pub(super) read: Vec<PathBuf>,
    /// Stand between two interfaces instead, the first one the inside, until Ctrl-C
    #[arg(long, value_name = "IF1,IF2", value_delimiter = ',')]
    pub(super) between: Option<Vec<String>>,
    /// Start this command, and behind the link the one that stands after --, each in a network of its own; without root
    #[arg(long, value_name = "CMD")]
    pub(super) server: Option<String>,
    /// The command at the inside of the link: $LINESIDE_SERVER is the server's address
    #[arg(last = true, value_name = "CMD")]
    pub(super) client: Option<Vec<String>>,
    /// How long the client waits for something to listen at the server, such as 10s [default: 5s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) server_wait: Option<String>,
    /// Let both commands reach what this host can, the client through the link: with root, or by pasta; $LINESIDE_OUTSIDE is this host
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub(super) outside: Option<bool>,
    /// What the loop does while nothing is due: spin (a core of its own), hybrid (sleeps, and spins before a frame is due) or sleep [default: hybrid]
    #[arg(long, value_name = "WORD")]
    pub(super) wait: Option<String>,
    /// How frames are taken and sent between interfaces: auto, af_xdp, af_xdp_generic or af_packet [default: auto]
    #[arg(long, value_name = "WORD")]
    pub(super) method: Option<String>,
    /// Write what leaves as a trace into RUN, as capture would beside it: what it cannot keep up with is counted, and no frame waits for it
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub(super) tap: Option<bool>,
    /// Leave checksums as they are that a sender left to its adapter
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub(super) no_checksum_completion: Option<bool>,
    /// End a run between interfaces: duration:SECONDS
    #[arg(short = 'a', long = "autostop", value_name = "COND")]
    pub(super) autostop: Option<String>,
    /// Write the frames that leave, with the instants at which they do: pcapng, or pcap if it ends in .pcap; - is standard output
    #[arg(long, value_name = "OUT", value_parser = path_parser())]
    pub(super) write_pcap: Option<PathBuf>,
    /// The folder that the run leaves: trace.json with the certificate
    #[arg(short, long, value_name = "RUN", value_parser = path_parser())]
    pub(super) output: Option<PathBuf>,
    /// Replace OUT and RUN if they are there
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub(super) force: Option<bool>,
    /// Addresses on the first side, such as 10.0.0.0/8: what they send goes out; without it, what goes as the first frame of a pair did
    #[arg(long, value_name = "NET")]
    pub(super) inside: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) link: LinkWords,
    /// The same one draws the same again [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = count::<u64>)]
    pub(super) seed: Option<u64>,
    /// Look only at frames that match, as tcpdump's filters do; the others go nowhere
    #[arg(short, long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(super) filter: Option<String>,
    /// Stop after N frames (of those that match)
    #[arg(short = 'c', value_name = "N", allow_hyphen_values = true, value_parser = count::<NonZeroU64>)]
    pub(super) frames_max: Option<NonZeroU64>,
    /// The one memory budget; half of it is for frames under way [default: 256MiB]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) memory: Option<String>,
    /// Take all this from the section emulate of a TOML file, or from an earlier run's trace.json, where no flag says otherwise
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(super) config: Option<PathBuf>,
    /// Print the certificate as JSON
    #[arg(long)]
    #[serde(skip)]
    pub(super) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    #[serde(skip)]
    pub(super) quiet: bool,
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
    pub(super) fn mode(&self) -> Option<Mode> {
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

    /// What was asked for, with its defaults, to be run again.
    pub(super) fn configuration(&self) -> serde_json::Value {
        serde_json::json!({ "emulate": self })
    }
}
