//! Configuration, as all verbs share it: errors, and values of flags and keys.
//!
//! Every flag is short for a key of its verb's section, such as `[capture]`; defaults < file <
//! flags. The resolved configuration stands in `trace.json` and can be run again with
//! `--config TRACE/trace.json`.

use std::path::Path;

use lineside_balancer::SettingsError;
use lineside_capture::CaptureError;
use lineside_forward::ForwardError;
use lineside_host::MachineFacts;
use lineside_lab::LabError;
use lineside_load::error::LoadError;
use lineside_load::words::UsageError;
use lineside_path::emulate::EmulationError;
use lineside_run::RunError;

mod facts;
mod file;
mod key;
mod sandbox;
mod value;

pub(crate) use facts::{ALL, Facts, Modes};
pub(crate) use file::{from_file, from_text, read_keys, to_json};
pub(crate) use key::{Key, Keys, key, keys};
pub(crate) use lineside_run::ConfigError;
pub(crate) use sandbox::Sandboxing;
pub(crate) use value::{Duration, Refusal, Size, Time, Value, count};

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

/// A memory budget: no more than the machine has, for pools are sized by it.
pub(crate) fn memory_bytes(size: &Size) -> Result<usize, ConfigError> {
    let bytes = size.get();
    let machine = MachineFacts::read().memory_bytes.unwrap_or(u64::MAX);
    if bytes as u64 > machine {
        return Err(ConfigError::new(format!(
            "memory: this machine has {}: give that or less",
            lineside_words::bytes(machine)
        )));
    }
    Ok(bytes)
}

/// Whether an error is one of the command line or the configuration.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    let of_run = error.downcast_ref::<RunError>();
    let of_capture = error.downcast_ref::<CaptureError>();
    let of_emulation = error.downcast_ref::<EmulationError>();
    // Of a load, too little of what its flags ask for.
    let of_load = error.downcast_ref::<LoadError>();
    let of_forward = error.downcast_ref::<ForwardError>();
    error.is::<ConfigError>()
        || error.is::<SettingsError>()
        || error.is::<UsageError>()
        || { error.downcast_ref::<LabError>() }.is_some_and(LabError::is_usage)
        || of_forward.is_some_and(ForwardError::is_usage)
        || of_load.is_some_and(LoadError::is_usage)
        || of_run.is_some_and(RunError::is_usage)
        || of_capture.is_some_and(CaptureError::is_usage)
        || of_emulation.is_some_and(EmulationError::is_usage)
}
