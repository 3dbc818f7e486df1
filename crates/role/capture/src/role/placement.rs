//! Where the actors of a capture on several cores run.

use std::collections::HashMap;
use std::path::Path;

use lineside_actor::{ActorReport, Report, Schedule, Traffic, place};
use lineside_rows::Table;
use lineside_trace::Manifest;

/// The encoders of a capture on several cores, and their tables.
pub const ENCODERS: [(&str, &[Table]); 3] = [
    (
        "encoder-operations",
        &[Table::Operations, Table::Nfs, Table::Nfs4, Table::Services],
    ),
    ("encoder-checksums", &[Table::Checksums]),
    (
        "encoder-rest",
        &[
            Table::Connections,
            Table::Files,
            Table::Losses,
            Table::Packets,
        ],
    ),
];

/// Several cores.
#[derive(Debug)]
pub struct CoreSettings {
    /// How many.
    pub count: usize,
    /// Who runs the actors.
    pub scheduler: Scheduler,
    /// A core for each actor, by name; followed by the pinned scheduler only.
    pub placement: HashMap<String, usize>,
}

/// How actors share cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// Cores without work take over actors of others.
    Stealing,
    /// Every actor keeps its core.
    Pinned,
}

impl Scheduler {
    /// The names, that of the default first.
    pub const WORDS: [&str; 2] = ["stealing", "pinned"];

    /// Its name.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The schedule on this many cores.
    pub fn schedule(self, cores: usize) -> Result<Schedule, lineside_actor::ConfigError> {
        match self {
            Self::Stealing => Ok(Schedule::stealing(cores)),
            Self::Pinned => Schedule::pinned(cores),
        }
    }
}

/// The actors of a capture on this many cores: in the order in which `spread` deals them to cores.
pub fn actors(cores: usize) -> Vec<String> {
    let pipelines = (0..cores).map(|index| format!("pipeline-{index}"));
    // On the core behind its pipeline's, so that one connection keeps two of them busy.
    let checksums = (1..=cores).map(|index| format!("checksums-{}", (index + cores - 2) % cores));
    let encoders = ENCODERS.iter().rev().map(|(name, _)| (*name).to_owned());
    pipelines.chain(checksums).chain(encoders).collect()
}

/// Cores for the actors of an earlier run, by the messages that were counted there.
pub fn placed_by_traffic(trace: &Path, cores: usize) -> Result<HashMap<String, usize>, String> {
    let path = trace.join("trace.json");
    let at = |why: String| format!("{}: {why}", path.display());
    let text = lineside_trace::manifest_text(&path).map_err(|why| {
        at(format!(
            "cannot read the run whose messages were counted: {why}"
        ))
    })?;
    let manifest = Manifest::from_json(&text).map_err(|why| at(why.to_string()))?;
    let runtime = manifest.runtime.unwrap_or_default();
    if runtime.traffic.is_empty() {
        return Err(at(
            "no messages were counted: give a run that had --cores 2 or more".to_owned(),
        ));
    }
    let place_of = |name: &str| runtime.actors.iter().position(|actor| actor.name == name);
    let traffic = runtime.traffic.iter().map(|each| {
        Some(Traffic {
            from: place_of(&each.from)?,
            to: place_of(&each.to)?,
            messages: each.messages,
        })
    });
    let report = Report {
        actors: runtime
            .actors
            .iter()
            .map(|each| ActorReport {
                name: each.name.clone(),
                messages: each.messages,
                ..ActorReport::default()
            })
            .collect(),
        traffic: traffic.flatten().collect(),
        ..Report::default()
    };
    Ok(place(&report, cores))
}
