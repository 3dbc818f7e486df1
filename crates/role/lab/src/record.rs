//! What a run of a point leaves, and where.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use lineside_trace::State;
use serde::{Deserialize, Serialize};

use crate::{LabError, Planned};

/// A run of a point, as `point.json` in its folder has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointRun {
    /// From 1.
    pub point: usize,
    /// From 1.
    pub repeat: u32,
    /// The values of the axes.
    pub axes: BTreeMap<String, String>,
    /// The seed of its draws.
    pub seed: u64,
    /// How often it was run until it counted.
    pub attempts: u32,
    /// Whether its links kept their times.
    pub verdict: State,
    /// Why not.
    pub reasons: Vec<String>,
    /// When it began.
    pub began_ns: i64,
    /// How long all of it took.
    pub elapsed_ns: u64,
    /// How much of that was not the time of the nodes that it waited for.
    pub beside_ns: u64,
    /// How each node ended.
    pub nodes: BTreeMap<String, Ended>,
    /// What was measured.
    pub metrics: BTreeMap<String, f64>,
}

/// How a node ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ended {
    /// Its exit status, if it ended by itself.
    pub status: Option<i32>,
    /// The signal that ended it, before the point was over.
    pub signal: Option<i32>,
    /// How long it ran, if it ended by itself.
    pub elapsed_ns: Option<u64>,
    /// The processor time of all that it started.
    pub cpu_ns: Option<u64>,
}

impl PointRun {
    /// Whether its links were disturbed.
    pub fn is_disturbed(&self) -> bool {
        self.verdict == State::Disturbed
    }
}

/// What a run of a point leaves last.
pub(crate) const POINT: &str = "point.json";

/// The folder of a run.
pub(crate) fn folder_of(run: &Path, planned: Planned) -> PathBuf {
    let (point, repeat) = (planned.point, planned.repeat);
    run.join(format!("point={point}/repeat={repeat}"))
}

/// Writes a document into a folder, whole or not at all.
pub(crate) fn keep(folder: &Path, name: &str, what: &impl Serialize) -> Result<(), LabError> {
    let (file, open) = (folder.join(name), folder.join(format!(".{name}.tmp")));
    let text = serde_json::to_string_pretty(what).map_err(std::io::Error::other);
    let written = text.and_then(|text| {
        let mut output = File::create(&open)?;
        output.write_all((text + "\n").as_bytes())?;
        // A full disk is noticed before it counts.
        output.sync_data()?;
        std::fs::rename(&open, &file)
    });
    written.map_err(LabError::file(&file, "cannot be written"))
}

/// The run in a folder, if it was measured.
pub(crate) fn run_in(folder: &Path) -> Option<PointRun> {
    let text = std::fs::read_to_string(folder.join(POINT)).ok()?;
    serde_json::from_str(&text).ok()
}
