//! What a link did, and what a switch between several ports counted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lineside_link::{Drops, LinkCounters};
use lineside_measure::{Distance, LateCounts, Spread};
use serde::{Deserialize, Serialize};

use super::judged::Certificate;
use super::run::LoopFacts;
use crate::{Machine, Role};

/// The settings of a path, the delays it drew, and how frames passed it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Link {
    /// The seed of all draws: the same one gives the same again.
    pub seed: u64,
    /// `virtual`: instants are exact; or else the clock of the run.
    pub clock: String,
    /// When the wall clock was set while the run went on: the clock of the run was not.
    pub clock_steps: ClockSteps,
    /// By name.
    pub directions: BTreeMap<String, DirectionReport>,
    /// What a core counted that stands between more than two ports.
    pub core: Option<CoreReport>,
    /// Changes of settings while it ran, in order.
    pub changes: Vec<ChangeReport>,
    /// Texts that a user gave while it ran, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// The steps that were asked for.
    pub steps: Vec<StepReport>,
    /// What the steps did, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub firings: Vec<Firing>,
    /// Refusals beyond those: no step fires after some 10,000 events.
    #[serde(skip_serializing_if = "is_zero")]
    pub firings_unlisted: u64,
    /// What the polling loop measured of itself; null in virtual time.
    #[serde(rename = "loop")]
    pub polling: Option<LoopFacts>,
    /// The machine, of a run between interfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

impl Certificate for Link {
    const VERDICT_AT: usize = 2;
    const ABSENT_IF_EMPTY: &'static [&'static str] =
        &["clock_steps", "core", "changes", "steps", "loop"];

    fn is_of(role: Option<Role>) -> bool {
        matches!(role, Some(Role::Emulate) | None)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How the wall clock was set during a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClockSteps {
    /// How often.
    pub count: u64,
    /// The first 16 times.
    pub first: Vec<ClockStep>,
}

/// The wall clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ClockStep {
    /// From the beginning of the run; noticed within about a millisecond.
    pub after_ns: i64,
    /// By how much: forward, or, below 0, back.
    pub by_ns: i64,
}

impl ClockSteps {
    const FIRST_MAX: usize = 16;

    /// Counts one more.
    pub fn record(&mut self, after_ns: i64, by_ns: i64) {
        self.count += 1;
        if self.first.len() < Self::FIRST_MAX {
            self.first.push(ClockStep { after_ns, by_ns });
        }
    }
}

/// One direction: settings and delays since its latest change, all else of the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DirectionReport {
    /// The settings.
    pub settings: SettingsWords,
    /// The counters: `entered + duplicated = released + dropped + held`.
    pub counters: LinkCounters,
    /// Frames that are under way.
    pub held: u64,
    /// Of frames that entered since the latest change, without those of `matches`.
    #[serde(flatten)]
    pub delays: Delays,
    /// The largest product of rate and delay that memory bears, in bytes of frames of 1,514.
    pub rate_times_delay_bytes_max: u64,
    /// What a user should know, a sentence each.
    pub warnings: Vec<String>,
    /// Frames that match expressions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<MatchReport>,
}

/// The settings of a direction in words, which give the same settings again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SettingsWords {
    /// `--link`
    pub link: String,
    /// `--loss`, or `path` and the name of the file that gives it
    pub loss: String,
    /// `--duplicate`
    pub duplicate: String,
    /// `--corrupt`
    pub corrupt: String,
    /// `--reorder`
    pub reorder: String,
    /// `--delay`
    pub delay: String,
    /// `--rate`
    pub rate: Option<String>,
    /// `--limit`, a derived one worked out; `memory`: no other bound.
    pub limit: String,
    /// `--path`, if there is one: it replaces the settings above that it gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl SettingsWords {
    /// The words by the names of their flags, in the order of these; `None`: nothing is set, or a
    /// version without the flag wrote it.
    pub fn by_name(&self) -> [(&'static str, Option<&str>); 9] {
        [
            ("corrupt", &*self.corrupt),
            ("delay", &self.delay),
            ("duplicate", &self.duplicate),
            ("limit", &self.limit),
            ("link", &self.link),
            ("loss", &self.loss),
            ("path", self.path.as_deref().unwrap_or_default()),
            ("rate", self.rate.as_deref().unwrap_or_default()),
            ("reorder", &self.reorder),
        ]
        .map(|(name, words)| (name, Some(words).filter(|words| !words.is_empty())))
    }
}

/// The delays of frames: by the settings, drawn, and realised.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Delays {
    /// The delays by the settings.
    pub asked: Spread,
    /// Those drawn; none without jitter.
    pub drawn: Option<Spread>,
    /// Of those drawn from those by the settings; the p-value is for independent draws.
    pub drawn_distance: Option<Distance>,
    /// From entering to leaving: the drawn delays with what order and rate added.
    pub realised: Option<Spread>,
    /// Of those realised from those by the settings.
    pub realised_distance: Option<Distance>,
    /// From the instant at which the same link in virtual time lets the frame leave to the one at
    /// which it left. `None` in virtual time.
    pub difference: Option<Spread>,
    /// Frames that left later than they should have.
    pub late: LateCounts,
    /// The most that a frame was late.
    pub lateness_max_ns: i64,
}

/// Frames of one direction that match an expression, or several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MatchReport {
    /// The expressions.
    pub expressions: String,
    /// Their settings.
    pub settings: SettingsWords,
    /// Frames that entered.
    pub entered: u64,
    /// Those of them that were lost.
    pub lost: u64,
    /// The delays by the settings.
    pub asked: Spread,
    /// Those drawn, also for other frames with the same delay; none without jitter.
    pub drawn: Option<Spread>,
    /// Of those drawn from those asked.
    pub drawn_distance: Option<Distance>,
    /// From entering to leaving.
    pub realised: Option<Spread>,
}

/// A change of one direction's settings, and how frames passed that entered before it, since the
/// previous change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ChangeReport {
    /// When, by the certificate's clock.
    pub at_ns: i64,
    /// The same, from the beginning of the run.
    pub after_ns: Option<i64>,
    /// Which direction: the name of one of [`Link::directions`].
    pub direction: String,
    /// The settings until then.
    pub before: SettingsWords,
    /// The settings from then on.
    pub after: SettingsWords,
    /// Frames that entered before.
    pub entered: u64,
    /// Frames that were dropped before.
    pub dropped: Drops,
    /// Of frames that entered before, also of those that left after the change; without those of
    /// `matches`.
    #[serde(flatten)]
    pub delays: Delays,
    /// Frames that match expressions, counted since the beginning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<MatchReport>,
}

/// A text that a user gave while the run went on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Mark {
    /// When, by the certificate's clock.
    pub at_ns: i64,
    /// The same, from the beginning of the run.
    pub after_ns: Option<i64>,
    /// The text.
    pub text: String,
}

/// How often a step fired.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StepReport {
    /// As it was given.
    pub words: String,
    /// How often it fired.
    pub fired: u64,
    /// How often it was to fire, and did not: see [`Firing::why`].
    pub refused: u64,
    /// Instants of an `every` that passed while the machine did nothing.
    pub missed: u64,
    /// What it marks.
    #[serde(skip)]
    pub marks: Vec<String>,
}

/// A step fired.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Firing {
    /// The number of the step, from 1.
    pub step: usize,
    /// When, by the certificate's clock.
    pub at_ns: i64,
    /// The same, from the beginning.
    pub after_ns: i64,
    /// What came of it.
    pub event: FiringEvent,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'static, str>>,
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FiringEvent {
    /// It fired.
    #[default]
    Fired,
    /// Its time was over, and what it had changed is as it was.
    Undone,
    /// It was to fire, and nothing was changed.
    Refused,
}

/// What a core counted: `came + copies = frames that left it + dropped`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CoreReport {
    /// `switch`
    pub kind: Cow<'static, str>,
    /// Frames that came.
    pub came: u64,
    /// Frames that went on to one port, where their destination is.
    pub forwarded: u64,
    /// Frames that went on to all other ports.
    pub flooded: u64,
    /// How many more frames left than came because of that.
    pub copies: u64,
    /// Frames that went nowhere, by reason: `same_port`, `reserved`, `malformed`, `no_port`.
    pub dropped: BTreeMap<Cow<'static, str>, u64>,
    /// Its table of addresses.
    pub addresses: AddressReport,
    /// By port.
    pub ports: Vec<CorePort>,
}

/// Frames of one port at the core.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CorePort {
    /// Its name, which the path knows and the core does not.
    pub name: String,
    /// Frames that came to the core from this port.
    pub came: u64,
    /// Frames that went on to this port.
    pub left: u64,
    /// Addresses that are known there.
    pub addresses: u64,
    /// It vanished while the run went on.
    pub is_gone: bool,
}

/// The account of a table of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AddressReport {
    /// Those in the table.
    pub known: u64,
    /// The room of the table.
    pub known_max: u64,
    /// For so long an address is known that sends nothing.
    pub age_ns: i64,
    /// Times that one came into the table.
    pub learned: u64,
    /// Times that one was seen at another port than before.
    pub moved: u64,
    /// Those forgotten because they had sent nothing for so long.
    pub aged: u64,
    /// Those forgotten because the table was full: the ones not seen for the longest time.
    pub displaced: u64,
}
