//! Configuration, as all verbs share it: errors, and values of flags and keys.
//!
//! Every flag is short for a key of its verb's section, such as `[capture]`; defaults < file < flags. The resolved configuration
//! stands in `trace.json` and can be run again with `--config TRACE/trace.json`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PathBufValueParser, TypedValueParser};
use lineside_capture::CaptureError;
use lineside_run::RunError;

mod file;

pub(crate) use file::{layered, read_section};

/// What is wrong with the configuration, and how to mend it.
#[derive(Debug)]
pub(crate) struct ConfigError(String);

impl ConfigError {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// A command line that does not say what to do.
    pub(crate) fn usage(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Fails if both a capture file and the result as JSON would go to standard output.
pub(crate) fn refuse_two_on_standard_output(
    out: Option<&Path>,
    json: bool,
) -> Result<(), ConfigError> {
    match out {
        Some(out) if json && out.as_os_str() == "-" => Err(ConfigError::usage(
            "--json and --write-pcap - both want standard output",
        )),
        _ => Ok(()),
    }
}

/// Whether an error asks the user for another command line or configuration.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    let of_run = error.downcast_ref::<RunError>();
    let of_capture = error.downcast_ref::<CaptureError>();
    error.is::<ConfigError>()
        || of_run.is_some_and(RunError::is_usage)
        || of_capture.is_some_and(CaptureError::is_usage)
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Reads the name of a file or folder that stands in the configuration: JSON, as `trace.json` is, has no other texts than UTF-8.
pub(crate) fn path_parser() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.to_str() {
        Some(_) => Ok(path),
        None => Err("the name is not UTF-8, and trace.json could not tell it: rename it"),
    })
}

/// Reads a count.
pub(crate) fn count<N: FromStr>(text: &str) -> Result<N, &'static str> {
    text.parse().map_err(|_| match text.parse() {
        Ok(0) => "it must not be 0",
        _ => "it must be a whole number, and must not be negative",
    })
}

/// What a text most likely means of what is known.
pub(crate) fn nearest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> &'a str {
    let nearer = |one: &&str, other: &&str| {
        strsim::jaro_winkler(one, text).total_cmp(&strsim::jaro_winkler(other, text))
    };
    known.max_by(nearer).unwrap_or("none")
}

/// The time in a condition of `-a`, as dumpcap writes it.
pub(crate) fn duration(condition: &str) -> Result<String, ConfigError> {
    let seconds = condition
        .strip_prefix("duration:")
        .filter(|seconds| seconds.parse::<f64>().is_ok_and(|number| number > 0.0));
    seconds.map(|seconds| format!("{seconds}s")).ok_or_else(|| {
        ConfigError::usage(&format!(
            "-a {condition}: the one condition is duration:SECONDS, such as duration:60"
        ))
    })
}
