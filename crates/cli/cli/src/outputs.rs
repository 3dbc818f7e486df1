//! What is written besides tables.

use std::path::Path;

use lineside_capture::CaptureFile;
use lineside_host::FolderError;
use lineside_port::Rotation;

use crate::config::ConfigError;
use crate::print::warn;

/// The capture file, or the series of them, of `--write-pcap` and `-b`.
pub(crate) fn capture_file(
    path: Option<&Path>,
    rotation: Option<&[String]>,
) -> Result<Option<CaptureFile>, ConfigError> {
    let words = rotation.unwrap_or_default();
    let parsed = Rotation::parse(words).map_err(|error| ConfigError::new(error.to_string()))?;
    match path {
        Some(path) => Ok(Some(CaptureFile {
            path: path.to_owned(),
            rotation: parsed,
            is_series: rotation.is_some(),
        })),
        None if words.is_empty() => Ok(None),
        None => Err(ConfigError::usage(
            "-b limits capture files, but none is written: name one with --write-pcap",
        )),
    }
}

/// What takes requests; where there can be no socket, the run goes on without.
pub(crate) fn or_warn<T>(listening: Result<T, FolderError>) -> Option<T> {
    let failed = |error: &FolderError| {
        warn(&format!("nothing can be changed while this runs: {error}"));
    };
    listening.inspect_err(failed).ok()
}
