//! An emulated link, as the certificate in `trace.json` describes it.

use std::collections::BTreeMap;

use lineside_trace::{Manifest, Role, State};
use serde::{Deserialize, Serialize};

use crate::emulated_core::EmulatedCore;

/// What an emulated link was asked, what it drew and what it did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Emulation {
    /// The seed of all draws.
    pub seed: u64,
    /// `virtual`: instants are exact; else the clock that they were kept by.
    pub clock: String,
    /// Whether the emulation holds.
    pub verdict: Option<State>,
    /// Why.
    pub reasons: Vec<String>,
    /// What was asked for, in the words of the flags: of a run that has no certificate, for it goes
    /// on or was killed.
    pub asked: BTreeMap<String, String>,
    /// How the wall clock was set meanwhile, which moved no frame.
    pub clock_steps: EmulatedClockSteps,
    /// By name.
    pub directions: BTreeMap<String, EmulatedDirection>,
    /// What the switch between more than two ports counted.
    pub core: Option<EmulatedCore>,
    /// What was changed while it ran, in order.
    pub changes: Vec<EmulationChange>,
    /// The steps that were asked for.
    pub steps: Vec<EmulatedStep>,
    /// What the polling loop saw of itself.
    #[serde(rename = "loop")]
    pub polling: Option<EmulationLoop>,
}

/// A step, and how often it fired.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedStep {
    /// As it was given.
    pub words: String,
    /// How often it fired.
    pub fired: u64,
    /// How often it was to fire, and nothing was changed.
    pub refused: u64,
    /// Instants of an `every` that passed while the machine did nothing.
    pub missed: u64,
}

/// How the wall clock was set during a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedClockSteps {
    /// How often.
    pub count: u64,
    /// The first times.
    pub first: Vec<EmulatedClockStep>,
}

/// The wall clock was set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedClockStep {
    /// From the beginning of the run.
    pub after_ns: i64,
    /// By how much: forward, or, below 0, back.
    pub by_ns: i64,
}

/// One direction of an emulated link.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedDirection {
    /// What was asked, in the words of the flags.
    pub settings: BTreeMap<String, Option<String>>,
    /// Frames and bytes.
    pub counters: EmulatedCounters,
    /// Frames that were still under way at the end.
    pub held: u64,
    /// The delays by the settings.
    pub asked: Option<EmulatedTimes>,
    /// Those drawn; none without jitter.
    pub drawn: Option<EmulatedTimes>,
    /// From coming to leaving.
    pub realised: Option<EmulatedTimes>,
    /// From the instant of the link in virtual time to the one at which the frame left.
    pub difference: Option<EmulatedTimes>,
    /// Frames that left late, by the bound.
    pub late: BTreeMap<String, u64>,
    /// The largest product of rate and delay that memory bears, in bytes.
    pub rate_times_delay_bytes_max: u64,
    /// What a user should know.
    pub warnings: Vec<String>,
}

/// A change of a direction's settings, and what became of the frames that came before it, since the
/// change before.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulationChange {
    /// When, from the beginning of the run.
    pub after_ns: Option<i64>,
    /// Which direction.
    pub direction: String,
    /// What held until then, in the words of the flags.
    pub before: BTreeMap<String, Option<String>>,
    /// What holds from then on.
    pub after: BTreeMap<String, Option<String>>,
    /// Frames that came before.
    pub entered: u64,
    /// Frames that were dropped before, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// The delays by the settings.
    pub asked: Option<EmulatedTimes>,
    /// From coming to leaving.
    pub realised: Option<EmulatedTimes>,
}

/// What was counted of a direction.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedCounters {
    /// Frames that came.
    pub entered: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Frames that left.
    pub released: u64,
    /// Their bytes.
    pub released_bytes: u64,
    /// Frames that never did, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// A distribution of times.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedTimes {
    /// Of how many values.
    pub count: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation.
    pub deviation_ns: f64,
    /// 1 % are no more.
    pub p01_ns: i64,
    /// Half are no more.
    pub p50_ns: i64,
    /// 99 % are no more.
    pub p99_ns: i64,
    /// 99.9 % are no more.
    pub p999_ns: i64,
    /// The greatest.
    pub max_ns: i64,
}

/// What the polling loop saw of itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulationLoop {
    /// What a frame takes at least, as it was found at the start.
    pub calibration: Option<EmulationFloor>,
    /// What a frame took that nothing delayed.
    pub floor_ns: Option<i64>,
    /// Releases began so much before their instant.
    pub lead_ns: i64,
    /// Stalls of the machine of more than 100 us.
    pub stalls: u64,
    /// Those of more than 1 ms.
    pub stalls_over_1ms: u64,
    /// The longest.
    pub stall_max_ns: i64,
    /// All of them together.
    pub stalled_ns: i64,
    /// Frames that came while it started, and were dropped.
    pub dropped_at_start: u64,
    /// What went to the tap, and what did not.
    pub tap: Option<BTreeMap<String, u64>>,
}

/// What a frame takes at least.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulationFloor {
    /// How it was found.
    pub method: String,
    /// The time.
    pub floor_ns: i64,
}

/// The certificate of a run, or what is known of one that has none yet.
pub(crate) fn emulation(manifest: &Manifest) -> Option<Emulation> {
    if matches!(manifest.role(), Some(Role::Load | Role::Forward)) {
        return None;
    }
    let Some(certificate) = &manifest.certificate else {
        return unfinished(manifest);
    };
    let mut emulation = Emulation {
        verdict: Some(manifest.verdict.state),
        reasons: manifest.verdict.reasons.clone(),
        ..Emulation::default()
    };
    // What is of another form is left out: the rest may be read all the same.
    let part = |name: &str| certificate.get(name).cloned().unwrap_or_default();
    emulation.seed = part("seed").as_u64().unwrap_or_default();
    emulation.clock = part("clock").as_str().unwrap_or_default().to_owned();
    emulation.clock_steps = serde_json::from_value(part("clock_steps")).unwrap_or_default();
    emulation.directions = serde_json::from_value(part("directions")).unwrap_or_default();
    emulation.core = serde_json::from_value(part("core")).unwrap_or_default();
    emulation.changes = serde_json::from_value(part("changes")).unwrap_or_default();
    emulation.steps = serde_json::from_value(part("steps")).unwrap_or_default();
    emulation.polling = serde_json::from_value(part("loop")).unwrap_or_default();
    Some(emulation)
}

/// A run of `emulate` without a certificate.
fn unfinished(manifest: &Manifest) -> Option<Emulation> {
    let configuration = manifest.section(Role::Emulate)?;
    let asked = LINK_SETTINGS.iter().filter_map(|name| {
        let words = configuration.get(*name)?.as_array()?.iter();
        let words: Vec<_> = words.filter_map(serde_json::Value::as_str).collect();
        Some(((*name).to_owned(), words.join(", ")))
    });
    Some(Emulation {
        verdict: Some(manifest.verdict.state),
        reasons: vec![
            "the run goes on, or was killed: the certificate, which accounts for the frames, is \
            written when it ends"
                .to_owned(),
        ],
        seed: configuration["seed"].as_u64().unwrap_or_default(),
        asked: asked.collect(),
        ..Emulation::default()
    })
}

/// The names of settings.
pub const LINK_SETTINGS: [&str; 9] = [
    "delay",
    "rate",
    "loss",
    "duplicate",
    "corrupt",
    "reorder",
    "limit",
    "link",
    "path",
];
