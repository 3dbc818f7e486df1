//! The certificate of a path: what was asked for, drawn and realised, and whether the result is
//! valid.

use std::collections::BTreeMap;

use lineside_frame::Frame;
use lineside_link::{Class, Jitter, Limit, Link, LinkCounters, Order, Schedule};
use lineside_measure::{Distance, LateCounts, Spread, Times};
use lineside_run::{Evidence, LinkEvidence, judge};
use lineside_time::Nanoseconds;
use lineside_trace::Verdict;
use lineside_words::time;
use serde::Serialize;

use crate::account::Account;
use crate::element::LinkReport;
use crate::star::CoreReport;
use crate::steps::{Firing, StepReport};
use crate::{ChangeReport, Mark, Path, SettingsWords};

/// A warning is given above this share of frames held back: the realised distribution then differs
/// from the one asked for.
const HELD_BACK_SHARE: f64 = 0.01;

/// The settings of a path, the delays it drew, and how frames passed it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certificate {
    /// The seed of all draws: the same one gives the same again.
    pub seed: u64,
    /// `virtual`: instants are exact; or else the clock of the run.
    pub clock: &'static str,
    /// Whether the result is valid.
    pub verdict: Verdict,
    /// When the wall clock was set while the run went on: the clock of the run was not.
    #[serde(skip_serializing_if = "ClockSteps::is_empty")]
    pub clock_steps: ClockSteps,
    /// What the verdict follows from, a direction each in the order of their numbers.
    #[serde(skip)]
    links: Vec<LinkEvidence>,
    /// By [`Path::name`].
    pub directions: BTreeMap<String, DirectionReport>,
    /// What a core counted that stands between more than two ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<CoreReport>,
    /// Changes of settings while it ran, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeReport>,
    /// Texts that a user gave while it ran, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// The steps that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepReport>,
    /// What the steps did, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub firings: Vec<Firing>,
    /// Refusals beyond those: no step fires after some 10,000 events.
    #[serde(skip_serializing_if = "is_zero")]
    pub firings_unlisted: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How the wall clock was set during a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ClockSteps {
    /// How often.
    pub count: u64,
    /// The first 16 times.
    pub first: Vec<ClockStep>,
}

/// The wall clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockStep {
    /// From the beginning of the run; noticed within about a millisecond.
    pub after_ns: Nanoseconds,
    /// By how much: forward, or, below 0, back.
    pub by_ns: i64,
}

impl ClockSteps {
    const FIRST_MAX: usize = 16;

    pub(crate) fn record(&mut self, after_ns: Nanoseconds, by_ns: i64) {
        self.count += 1;
        if self.first.len() < Self::FIRST_MAX {
            self.first.push(ClockStep { after_ns, by_ns });
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// One direction: settings and delays since its latest change, all else of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DirectionReport {
    /// The settings.
    pub settings: SettingsWords,
    /// The counters: `entered + duplicated = released + dropped + held`.
    pub counters: LinkCounters,
    /// The limit of the settings, before a derived one was worked out.
    #[serde(skip)]
    limit_asked: Limit,
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

/// The delays of frames: by the settings, drawn, and realised.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
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

impl Delays {
    /// Those by the settings and those drawn.
    pub(crate) fn drawn(asked: Spread, drawn: Option<Spread>) -> Self {
        Self {
            drawn_distance: drawn.as_ref().and_then(|drawn| drawn.distance(&asked)),
            asked,
            drawn,
            ..Self::default()
        }
    }

    /// Adds how frames left.
    pub(crate) fn realise(&mut self, account: &Account) {
        self.realised = account.residence.spread();
        self.realised_distance = account.residence.distance(&self.asked);
        self.difference = account.difference.spread();
        self.late = account.late;
        self.lateness_max_ns = account.lateness_max_ns;
    }
}

impl Certificate {
    /// The directions, in the order of their numbers.
    pub fn in_order(&self) -> impl Iterator<Item = (&str, &DirectionReport)> {
        let names = self.links.iter().map(|link| link.name.as_str());
        names.filter_map(move |name| Some((name, self.directions.get(name)?)))
    }

    /// Judges the run by its links and by everything else that is known of it.
    pub fn judge(&mut self, rest: Evidence<'_>) {
        self.verdict = judge(&Evidence {
            links: self.links.clone(),
            ..rest
        });
    }
}

impl Path {
    /// The certificate so far; `clock` is [`Certificate::clock`].
    pub fn certificate(&self, clock: &'static str) -> Certificate {
        let changes = self.changes();
        let report = |side| {
            let mut report = report(self.report(side), self.account(side));
            report.counters = self.counters(side);
            if clock == VIRTUAL {
                report.delays.difference = None;
            }
            (self.name(side).to_owned(), report)
        };
        let reports: Vec<_> = self.sides().map(report).collect();
        let (firings, firings_unlisted) = self.firings();
        let links = reports.iter();
        let links: Vec<_> = links
            .map(|(name, report)| evidence(name, report, &changes))
            .collect();
        Certificate {
            seed: self.seed(),
            clock,
            verdict: judge(&Evidence {
                links: links.clone(),
                ..Evidence::default()
            }),
            clock_steps: ClockSteps::default(),
            links,
            directions: reports.into_iter().collect(),
            core: self.core(),
            changes,
            marks: self.marks().to_vec(),
            steps: self.steps(),
            firings: firings.to_vec(),
            firings_unlisted,
        }
    }
}

/// The clock of captured frames, for [`Certificate::clock`].
pub const VIRTUAL: &str = "virtual";

fn report(report: LinkReport<'_>, account: &Account) -> DirectionReport {
    let link = report.link;
    let mut delays = Delays::drawn(link.asked(), link.drawn());
    delays.realise(account);
    let mut warnings = link.warnings();
    warnings.extend(held_back(link, &delays));
    warnings.extend(unmatched(report));
    if report.shared > 0 {
        warnings.push(format!(
            "match: {} frames are counted with those of other expressions that have the same \
            settings: there was no memory for more than {} sets of expressions",
            report.shared,
            report.sets.len()
        ));
    }
    DirectionReport {
        settings: SettingsWords::of(link.settings(), link.limit()),
        counters: link.counters(),
        limit_asked: link.settings().limit,
        held: link.held() as u64,
        delays,
        rate_times_delay_bytes_max: link.product_bytes_max(),
        warnings,
        matches: matches(
            link.classes(),
            report.classes,
            link.limit(),
            |class| (link.asked_for(class), link.drawn_for(class)),
            account,
        ),
    }
}

/// The reports of classes 1, 2, ... with these names; `drawn` are the delays of one by the settings
/// and those drawn.
pub(crate) fn matches(
    classes: &[Class],
    names: &[String],
    limit: Limit,
    drawn: impl Fn(&Class) -> (Spread, Option<Spread>),
    account: &Account,
) -> Vec<MatchReport> {
    let parts = classes.iter().skip(1).zip(names).enumerate();
    // Not every set of expressions has frames that match just these.
    let parts = parts.filter(|(_, (class, _))| class.entered() > 0);
    let report = |(number, (class, name)): (usize, (&Class, &String))| {
        let residence = account.residence_by_class.get(number);
        let (asked, drawn) = drawn(class);
        MatchReport {
            expressions: name.clone(),
            settings: SettingsWords::of(class.settings(), limit),
            entered: class.entered(),
            lost: class.lost(),
            drawn_distance: drawn.as_ref().and_then(|drawn| drawn.distance(&asked)),
            asked,
            drawn,
            realised: residence.and_then(Times::spread),
        }
    };
    parts.map(report).collect()
}

/// Expressions that no frame matched: with a misspelt one the link would seem to do nothing to the
/// frames that were meant.
fn unmatched(report: LinkReport<'_>) -> Vec<String> {
    let is_unmatched = |number: usize| {
        let mut classes = report.link.classes().iter().zip(report.sets);
        classes.all(|(class, set)| set >> number & 1 == 0 || class.entered() == 0)
    };
    let filters = report.filters.iter().enumerate();
    let unmatched = filters.filter(|(number, _)| is_unmatched(*number));
    let unmatched =
        unmatched.map(|(_, filter)| format!("match {}: matched no frame", filter.expression()));
    unmatched.collect()
}

/// A warning if order changed the distribution, because frames came closer than their independent
/// delays differ. With a rate, or with several classes, it has no figures: the waits for order are
/// not known separately.
fn held_back(link: &Link<Frame>, delays: &Delays) -> Option<String> {
    let counters = link.counters();
    let share = counters.held_back as f64 / (counters.released as f64).max(1.0);
    let is_jitter = |class: &Class| {
        let delay = &class.settings().delay;
        delay.jitter != Jitter::None && delay.order == Order::Fifo
    };
    if share <= HELD_BACK_SHARE || !link.classes().iter().any(is_jitter) {
        return None;
    }
    let settings = link.settings();
    let has_rate = match &settings.schedule {
        Some(Schedule::Deliveries(_)) => true,
        Some(Schedule::Path(path)) if path.has_rate() => true,
        _ => settings.rate.is_some(),
    };
    let is_alone = !has_rate && link.classes().len() == 1;
    let became = match &delays.realised {
        Some(realised) if is_alone => format!(
            "mean {} instead of {}, deviation {} instead of {}",
            time(realised.mean_ns as u64),
            time(delays.asked.mean_ns as u64),
            time(realised.deviation_ns as u64),
            time(delays.asked.deviation_ns as u64)
        ),
        _ => "their delays are longer than those drawn".to_owned(),
    };
    Some(format!(
        "{:.1} % of the frames waited for one before them, as order is kept: {became}",
        share * 100.0
    ))
}

/// The evidence of one direction, over all its settings.
fn evidence(name: &str, report: &DirectionReport, changes: &[ChangeReport]) -> LinkEvidence {
    let dropped = report.counters.dropped;
    let changes = || changes.iter().filter(|change| change.direction == name);
    let before: u64 = changes().map(|change| change.dropped.limit).sum();
    let since = (&report.settings, report.limit_asked, dropped.limit - before);
    let before = changes().map(|change| (&change.before, change.limit_asked, change.dropped.limit));
    // A limit that was asked for is part of the link, and so are its drops; a derived one is not.
    let is_derived = |asked| matches!(asked, Limit::Derived);
    let all = before.chain([since]);
    let derived = all.filter(|&(_, asked, dropped)| is_derived(asked) && dropped > 0);
    let derived = derived.map(|(settings, _, dropped)| (dropped, settings.limit.clone()));
    let delays = changes().map(|change| &change.delays);
    let delays = || delays.clone().chain([&report.delays]);
    let lateness = delays().map(|delays| delays.lateness_max_ns);
    LinkEvidence {
        name: name.to_owned(),
        dropped_by_derived_limit: derived.collect(),
        dropped_by_memory: dropped.memory,
        left: report.counters.released,
        late: delays().map(|delays| delays.late.over_1000us).sum(),
        lateness_max_ns: lateness.max().unwrap_or_default(),
    }
}
