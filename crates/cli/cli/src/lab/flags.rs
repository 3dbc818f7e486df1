//! Flags of `lab`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{bundle, rerun};

/// Flags of `lab`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(super) other: Option<Other>,
    /// The experiment: nodes, links, sweep and assertions in TOML
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    /// Leave all runs in this folder; by default it has the name of FILE, without .toml
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Run what is missing in RUN: a lab that was interrupted goes on
    #[arg(long)]
    pub(super) resume: bool,
    /// Replace RUN if it exists
    #[arg(long, conflicts_with = "resume")]
    pub(super) force: bool,
    /// Print the points, their order and their time, and run nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Run the steps of 'install' in FILE first, as you and with this machine's network
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) install: bool,
    /// The lab that 'baseline' in assertions stands for
    #[arg(long, value_name = "RUN")]
    pub(super) baseline: Option<PathBuf>,
    /// End with status 4 if links of a point were disturbed in every attempt
    #[arg(long)]
    pub(super) strict: bool,
    /// Write what came of each assertion as JUnit's XML, for Jenkins and GitLab
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Print JSON (docs/schema/lab.schema.json)
    #[arg(long)]
    pub(super) json: bool,
    /// Command that starts a program on the other machine of a node's 'host'
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "ssh",
        allow_hyphen_values = true
    )]
    pub(super) rsh: String,
    /// Say nothing while it runs
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// What `lab` does beside running an experiment of this machine.
#[derive(Debug, Subcommand)]
pub(super) enum Other {
    /// Pack a lab into one file, for others to run again
    Bundle(bundle::Arguments),
    /// Run the lab of a bundle here, and say what is reproduced
    Rerun(rerun::Arguments),
}

impl Arguments {
    /// The experiment.
    pub(super) fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or_else(|| Path::new(""))
    }

    /// The folder of all runs.
    pub(super) fn folder(&self) -> PathBuf {
        let of_file = || {
            let name = self.file().with_extension("");
            PathBuf::from(name.file_name().unwrap_or(name.as_os_str()))
        };
        self.output.clone().unwrap_or_else(of_file)
    }

    /// Where commands begin: beside the file.
    pub(super) fn home(&self) -> &Path {
        lineside_lab::home(self.file())
    }
}
