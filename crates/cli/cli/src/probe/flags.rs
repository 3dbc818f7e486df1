//! Flags of `probe`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lineside_words::parse_size;

use crate::confine::Confining;
use crate::trips::duration;

/// The UDP port of a server. It has no name at IANA, and lies below those that systems hand out.
pub(super) const PORT: u16 = 18_620;

/// Flags of `probe`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The other end: a name or an address
    #[arg(value_name = "HOST", required_unless_present = "serve")]
    pub(super) host: Option<String>,
    /// Answer probes here until Ctrl-C, at all addresses or at this one
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, conflicts_with = "host")]
    pub(super) serve: Option<Option<IpAddr>>,
    /// The UDP port of 'lineside probe --serve'
    #[arg(long, value_name = "N", default_value_t = PORT)]
    pub(super) port: u16,
    /// Require 'lineside probe --serve' at the other end, which measures each way [default: ICMP if
    /// no server answers]
    #[arg(long, conflicts_with_all = ["icmp", "tcp"])]
    pub(super) udp: bool,
    /// Measure round trips by ICMP echoes: needs no server
    #[arg(long, conflicts_with = "tcp")]
    pub(super) icmp: bool,
    /// Measure round trips to a TCP port, from SYN to answer: needs no server
    #[arg(long, value_name = "PORT")]
    pub(super) tcp: Option<u16>,
    /// Send N echoes
    #[arg(short, long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=lineside_probe::ECHOES_MAX as i64))]
    pub(super) count: u32,
    /// Time between echoes, e.g. 2ms; ICMP and TCP wait for the answer first
    #[arg(short, long, value_name = "TIME", default_value = "20ms", value_parser = interval)]
    pub(super) interval: Duration,
    /// Count an echo as lost after TIME, e.g. 10s, without an answer
    #[arg(short = 'W', long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub(super) timeout: Duration,
    /// Send at most SIZE, both ways together, e.g. 64MiB [default: 10MB; of a server 100MB to each
    /// client]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(super) budget: Option<usize>,
    /// Send a public address more than 1,000 echoes a second
    #[arg(long)]
    pub(super) public: bool,
    /// Write path files, tables of delays and the report into this new folder
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Write into a folder that exists
    #[arg(long, requires = "output")]
    pub(super) force: bool,
    /// Time of a line of a path file, e.g. 10s [default: the interval of echoes]
    #[arg(long = "path-step", alias = "step", value_name = "TIME", value_parser = interval)]
    pub(super) step: Option<Duration>,
    /// Exit with 4 if there is a remark about the findings: they are not complete
    #[arg(long)]
    pub(super) strict: bool,
    /// Print the findings as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Seed of the times at which echoes are sent
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// Clients that a server answers at a time
    #[arg(long, value_name = "N", default_value_t = 16, requires = "serve")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) sessions: u16,
    #[command(flatten)]
    pub(super) confining: Confining,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text).map_err(|error| error.to_string())?;
    if interval < Duration::from_micros(10) {
        return Err("it is too short: give 10us or more".to_owned());
    }
    Ok(interval)
}
