use std::path::{Path, PathBuf};
use std::time::Duration;

use lineside_filter::Filter;
use lineside_host::Place;
use lineside_measure::monitor::Words;
use lineside_port::Rotation;
use lineside_rows::Table;
use lineside_run::{DropInSettings, Interfaces, Looks, PartRotation, Respond};

use super::CoreSettings;
use crate::one_place::At;
use lineside_operations::Config;

/// All that decides what a capture does.
pub struct Settings {
    /// What decides the rows besides the input.
    pub config: Config,
    /// Which frames are looked at.
    pub filter: Option<Filter>,
    /// The filter as it was written.
    pub filter_text: Option<String>,
    /// Capture files and folders, `-` for standard input; unused if `live`.
    pub inputs: Vec<PathBuf>,
    /// `None` if files are read.
    pub live: Option<LiveSettings>,
    /// `None` if files are read as they are.
    pub follow: Option<Follow>,
    /// The folder of the trace, if one is written.
    pub output: Option<PathBuf>,
    /// The folder in place of that, if it was made already.
    pub made: Option<Place>,
    /// The capture file, if one is written.
    pub capture_file: Option<CaptureFile>,
    /// Replace a trace and a capture file that exist.
    pub force: bool,
    /// The tables of the trace.
    pub tables: Vec<Table>,
    /// Where their parts end.
    pub rotation: PartRotation,
    /// What is measured of all frames, into tables of its own.
    pub monitors: Vec<Words>,
    /// Answers requests of others while a live run measures; `None`: it takes none.
    pub respond: Option<fn(Looks) -> Respond>,
    /// The programs that are given heads of all frames.
    pub drop_ins: DropInSettings,
    /// The one memory budget.
    pub memory_bytes: usize,
    /// Whether foreign bytes are read in a sandbox.
    pub sandbox: bool,
    /// Whether it has to be whole.
    pub sandbox_required: bool,
    /// Where a path is read of which a file has several places.
    pub at: At,
    /// Bytes that are kept of a frame; 0: all.
    pub snap_len: u32,
    /// Frames to receive at most.
    pub frames_max: u64,
    /// `None` on one core.
    pub cores: Option<CoreSettings>,
    /// The resolved configuration, for `trace.json`.
    pub configuration: serde_json::Value,
}

/// A live run.
#[derive(Debug)]
pub struct LiveSettings {
    /// Where frames come from.
    pub interfaces: Interfaces,
    /// Data goes without checksums while the run is behind.
    pub gives_up_checksums: bool,
    /// The run ends after this time.
    pub duration: Option<Duration>,
}

/// A run that goes on where a file ends.
#[derive(Debug, Clone, Copy)]
pub struct Follow {
    /// The run ends after this time.
    pub duration: Option<Duration>,
}

/// A capture file, or a series of them, that frames are written into.
#[derive(Debug)]
pub struct CaptureFile {
    /// Its path, `-` for standard output.
    pub path: PathBuf,
    /// When the next file of a series begins.
    pub rotation: Rotation,
    /// Whether there may be several.
    pub is_series: bool,
}

/// Whether a path is read as its bytes come: a pipe, a terminal, a socket; `-` is standard input.
pub fn is_pipe(path: &Path) -> bool {
    let path = match path.as_os_str() == "-" {
        true => Path::new("/dev/stdin"),
        false => path,
    };
    { path.metadata() }.is_ok_and(|facts| !facts.is_file() && !facts.is_dir())
}
