//! The command line: a verb and its arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    bundle, capture, ctl, doctor, emulate, explain, forward, image, info, lab, load, packets, plan,
    predict, probe, replay, replay_pcap, report, table, version,
};

/// Understand, reproduce and improve how applications behave over a network.
#[derive(Debug, Parser)]
#[command(name = "lineside", version = version::VERSION)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Rebuild NFS operations from captures or interfaces into a trace
    Capture(Box<capture::Arguments>),
    /// Summarize a capture file or a trace in a few lines
    Info(info::Arguments),
    /// Report the workload in a trace, and what is missing from it
    Report(report::ReportArguments),
    /// Report what changed between two traces
    Compare(report::CompareArguments),
    /// List slow operations
    Slow(report::SlowArguments),
    /// List operations that failed or were never answered
    Failed(report::FailedArguments),
    /// Predict how long a trace's workload takes over other networks
    Predict(predict::Arguments),
    /// Make the NFS calls of a trace again on another server
    Replay(Box<replay::Arguments>),
    /// Cut the frames of operations out of a trace's captures
    Packets(packets::Arguments),
    /// Find out what each call waited for: threads, windows, thought
    Plan(plan::Arguments),
    /// Rebuild the tree of files as it was when a trace began
    Image(image::Arguments),
    /// Emulate a network link for a command, two interfaces or a capture
    Emulate(Box<emulate::Arguments>),
    /// Send requests to a server at exact times, or serve them
    Load(Box<load::Arguments>),
    /// Run an experiment: nodes, links and a sweep from one file
    Lab(lab::Arguments),
    /// Forward connections from one address to many nodes, by NAT
    Forward(Box<forward::Arguments>),
    /// Change a link or a forwarder while it runs, or print its state
    Ctl(Box<ctl::Arguments>),
    /// Explain a frame's delay on a link, or a connection's node
    Explain(Box<explain::Arguments>),
    /// Make and show tables of delay distributions; measure networks
    Table(table::Arguments),
    /// Measure what the path to another host does to packets
    Probe(Box<probe::Arguments>),
    /// Send a capture's frames to an interface, with any timing
    ReplayPcap(replay_pcap::Arguments),
    /// Check what this machine can capture, and how precisely
    Doctor(doctor::Arguments),
    /// Pack a run's facts for a bug report, without names
    Bundle(bundle::Arguments),
    /// Print shell completions
    Completions(CompletionsArguments),
    /// Print the man page, or write all man pages into a folder
    Man(ManArguments),
    /// Print the build, and the format versions that it writes
    Version,
}

/// Flags of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Flags of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Write lineside.1, lineside-capture.1 ... into this folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}
