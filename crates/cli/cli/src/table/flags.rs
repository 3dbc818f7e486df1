//! Flags of `table`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use lineside_link::TABLE_LEN_MAX;

use crate::config::Sandboxing;
use crate::confine::Confining;

/// Flags of `table`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(super) from: Option<Source>,
    /// normal, pareto, paretonormal, or a file: netem's (.dist), the original hardware's (.coe), or
    /// samples, one a line (12.5us; nanoseconds without a unit)
    #[arg(value_name = "NAME|FILE")]
    pub(super) source: Option<String>,
    /// Entries of a table made from samples: a power of two (2, 4, 8, ...) for prbs31
    #[arg(long, global = true, value_name = "N", default_value_t = 4096)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=TABLE_LEN_MAX as i64))]
    pub(super) entries: u32,
    /// Print the table in this form, instead of the figures
    #[arg(long, global = true, value_name = "FORM")]
    pub(super) export: Option<Form>,
    /// Time of a line of an exported path file, e.g. 10s
    #[arg(
        long = "path-step",
        alias = "step",
        global = true,
        value_name = "TIME",
        default_value = "1s"
    )]
    pub(super) step: String,
    /// Print the figures as JSON
    #[arg(long, global = true, conflicts_with = "export")]
    pub(super) json: bool,
    /// Read input in a sandbox: on, require (fail where the kernel lacks a part) or off
    #[arg(long, global = true, value_name = "WORD", default_value = "on")]
    #[arg(value_parser = Sandboxing::parse)]
    pub(super) sandbox: Sandboxing,
    /// The same as --sandbox off
    #[arg(long, global = true, hide = true)]
    pub(super) no_sandbox: bool,
}

impl Arguments {
    pub(super) fn confining(&self) -> Confining {
        Confining::new(match self.no_sandbox {
            true => Sandboxing::Off,
            false => self.sandbox,
        })
    }
}

/// Forms of a table.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Form {
    /// netem's: the shape, cut at four deviations
    Netem,
    /// The original hardware's: the same, unsigned
    Coe,
    /// One entry per line: nanoseconds, or 8192 for a deviation
    Plain,
    /// The measured samples, one per line, in nanoseconds and in the order of time
    Samples,
    /// A path file: measured delay and loss over time
    Path,
    /// A trace of mahimahi's
    Mahimahi,
}

/// The source of measurements.
#[derive(Debug, Subcommand)]
pub(crate) enum Source {
    /// Round trips of TCP in capture files: from each segment to its acknowledgement, at the place
    /// of the tap
    FromCapture {
        /// Capture files; - is standard input
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// The direction from the tap: server (the end that accepted the connection), client, or
        /// both
        #[arg(long, value_name = "WORD", default_value = "server")]
        towards: Way,
    },
    /// Times from call to reply in a trace: the server and the way there
    FromTrace {
        /// The run folder
        trace: PathBuf,
    },
    /// Round trips to a host by successive ICMP echoes
    FromPing {
        /// A name or an address
        host: String,
        #[command(flatten)]
        pace: Pace,
    },
    /// Round trips to a TCP port: from each SYN to its answer
    FromTcp {
        /// HOST:PORT
        host: String,
        #[command(flatten)]
        pace: Pace,
    },
    /// A path file, or a trace of mahimahi's: its figures, or converted with --export
    Path {
        /// The file
        file: PathBuf,
    },
}

/// An end of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// The end that accepted the connection
    Server,
    /// The end that opened the connection
    Client,
    /// Both
    Both,
}

/// Number and timing of probes.
#[derive(Debug, clap::Args)]
pub(crate) struct Pace {
    /// Send N probes
    #[arg(short, long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) count: u32,
    /// Time between probes; each waits until the previous one is answered or has timed out
    #[arg(short, long, value_name = "TIME", default_value = "100ms", value_parser = crate::trips::duration)]
    pub(super) interval: Duration,
    /// Count a probe as lost after TIME without an answer
    #[arg(short = 'W', long, value_name = "TIME", default_value = "2s", value_parser = crate::trips::duration)]
    pub(super) timeout: Duration,
}

impl Pace {
    pub(super) fn of_probes(&self) -> crate::trips::Pace {
        crate::trips::Pace {
            count: self.count,
            interval: self.interval,
            timeout: self.timeout,
        }
    }
}
