//! Flags of `capture`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;

use crate::capture::settings::Section;
use crate::config::{ConfigError, count, duration, path_parser};

/// Flags of `capture`. Each is short for a key of `[capture]`; the keys without a flag are in `docs/guide/capture.md`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Capture files: pcap or pcapng, plain or compressed (gzip, zstd, xz, lz4); - is standard input. Several are merged by their stamps
    #[arg(value_name = "FILE", value_parser = path_parser())]
    pub(super) files: Vec<PathBuf>,
    /// The same as FILE
    #[arg(short = 'r', long = "read", value_name = "FILE", value_parser = path_parser())]
    pub(super) read: Vec<PathBuf>,
    /// Interfaces to listen at instead; several are merged by their stamps
    #[arg(short, long = "interface", value_name = "IF", value_delimiter = ',')]
    pub(super) interfaces: Vec<String>,
    /// List the interfaces and how each would be captured
    #[arg(long)]
    pub(super) list_interfaces: bool,
    /// How frames are taken from interfaces: auto, af_packet, af_xdp or af_xdp_generic
    #[arg(long, value_name = "WORD")]
    pub(super) method: Option<String>,
    /// Packet sockets that share the frames of an interface
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = count::<usize>)]
    pub(super) sockets: Option<usize>,
    /// What goes first when a live run falls behind: drop (frames, at the port) or no-checksums (keep every operation, leave checksums out)
    #[arg(long, value_name = "WORD")]
    pub(super) overload: Option<String>,
    /// Take only frames that are for this host
    #[arg(short = 'p', long)]
    pub(super) no_promiscuous: bool,
    /// End a live run: duration:SECONDS
    #[arg(short = 'a', long = "autostop", value_name = "COND")]
    pub(super) autostop: Option<String>,
    /// The folder that the trace becomes
    #[arg(short, long, value_name = "TRACE", value_parser = path_parser())]
    pub(super) output: Option<PathBuf>,
    /// Write the frames into a capture file too, or, without -o, instead: pcapng, or pcap if it ends in .pcap; - is standard output
    #[arg(long, value_name = "FILE", value_parser = path_parser())]
    pub(super) write_pcap: Option<PathBuf>,
    /// When the next capture file begins, as dumpcap's: filesize:kB, duration:SECONDS, interval:SECONDS, packets:N; files:N keeps the last N
    #[arg(short = 'b', value_name = "COND")]
    pub(super) pcap_rotation: Vec<String>,
    /// Replace a trace that is there
    #[arg(long)]
    pub(super) force: bool,
    /// A TOML file, or the trace.json of an earlier run; flags go before it
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Look only at frames that match, as tcpdump's filters do: 'tcp port 2049 and host 10.0.0.1'
    #[arg(short, long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(super) filter: Option<String>,
    /// What the frames do not say: tcp.port==20490,rpc (or none: leave it alone), rpc.program==0x20000003,nfs; can be repeated
    #[arg(short, long, value_name = "RULE")]
    pub(super) decode_as: Vec<String>,
    /// Stop after N frames (of those that match)
    #[arg(short = 'c', value_name = "N", allow_hyphen_values = true, value_parser = count::<NonZeroU64>)]
    pub(super) frames_max: Option<NonZeroU64>,
    /// Go on when a file grows, or a folder gets its next file, until a signal or -a duration:SECONDS ends the run
    #[arg(long)]
    pub(super) follow: bool,
    /// The one memory budget, such as 256MiB
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) memory: Option<String>,
    /// A hole is given up when it was acknowledged and then this time and 32 segments passed, such as 2ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) late_window: Option<String>,
    /// A packet that comes again within this time was mirrored twice, such as 2ms; 0 looks for none
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) duplicate_window: Option<String>,
    /// Where a part of a table ends at the latest: a size from 1MiB to 64MiB, a time from 1s on, or one of each (16MiB,60s)
    #[arg(
        long,
        value_name = "SIZE|TIME",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub(super) rotate: Vec<String>,
    /// Leave out the tables nfs, nfs4 and services
    #[arg(long)]
    pub(super) no_details: bool,
    /// Leave out the table checksums
    #[arg(long)]
    pub(super) no_checksums: bool,
    /// Write the table packets too: a row a frame
    #[arg(long)]
    pub(super) packets: bool,
    /// Exit with 4 if anything is missing from the capture
    #[arg(long)]
    pub(super) strict: bool,
    /// Cores that rebuild operations; of files, the thread that reads is one of them
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = count::<usize>)]
    pub(super) cores: Option<usize>,
    /// Who runs what on several cores: stealing (balances load) or pinned (a core each, for machines of their own)
    #[arg(long, value_name = "WORD")]
    pub(super) scheduler: Option<String>,
    /// Cores of actors under pinned, such as pipeline-0=1, or traffic:TRACE: who exchanged most in that run shares one; the others are spread
    #[arg(long, value_name = "ACTOR=CORE|traffic:TRACE", value_delimiter = ',')]
    pub(super) placement: Vec<String>,
    /// Say at the end what the actors did on several cores
    #[arg(long)]
    pub(super) stats: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Say what is counted besides
    #[arg(short, long)]
    pub(super) verbose: bool,
}

impl Arguments {
    pub(super) fn section(&self) -> Result<Section, ConfigError> {
        let duration = self.autostop.as_deref().map(duration).transpose()?;
        let inputs: Vec<_> = self.files.iter().chain(&self.read).cloned().collect();
        Ok(Section {
            inputs: (!inputs.is_empty()).then_some(inputs),
            interfaces: (!self.interfaces.is_empty()).then(|| self.interfaces.clone()),
            method: self.method.clone(),
            sockets: self.sockets,
            promiscuous: self.no_promiscuous.then_some(false),
            overload: self.overload.clone(),
            duration,
            output: self.output.clone(),
            write_pcap: self.write_pcap.clone(),
            pcap_rotation: (!self.pcap_rotation.is_empty()).then(|| self.pcap_rotation.clone()),
            force: self.force.then_some(true),
            filter: self.filter.clone(),
            decode_as: (!self.decode_as.is_empty()).then(|| self.decode_as.clone()),
            frames_max: self.frames_max,
            follow: self.follow.then_some(true),
            memory: self.memory.clone(),
            rotate: (!self.rotate.is_empty()).then(|| self.rotate.clone()),
            late_window: self.late_window.clone(),
            duplicate_window: self.duplicate_window.clone(),
            details: self.no_details.then_some(false),
            checksums: self.no_checksums.then_some(false),
            packets: self.packets.then_some(true),
            strict: self.strict.then_some(true),
            cores: self.cores,
            scheduler: self.scheduler.clone(),
            placement: (!self.placement.is_empty()).then(|| self.placement.clone()),
            ..Section::default()
        })
    }
}
