use std::collections::BTreeMap;

use lineside_frame::Frame;
use lineside_link::{Class, Jitter, Limit, Link, LinkCounters, Order, Schedule, Settings};
use lineside_measure::{Distance, LateCounts, Spread, Times};
use lineside_trace::{State, Verdict};
use serde::{Deserialize, Serialize};

use crate::ChangeReport;
use crate::path::{Direction, Path, Sent};

/// Frames held back above this share are worth a sentence: the realised distribution is then another than that asked for.
const HELD_BACK_SHARE: f64 = 0.01;

/// What a path was asked, what it drew and what it did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certificate {
    /// The seed of all draws: the same one gives the same again.
    pub seed: u64,
    /// `virtual`: instants are exact; else the clock that they were kept by.
    pub clock: &'static str,
    /// Whether the result holds.
    pub verdict: Verdict,
    /// By [`Direction::name`].
    pub directions: BTreeMap<&'static str, DirectionReport>,
    /// What was changed while it ran, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeReport>,
}

/// One direction: settings and delays since its latest change, all else of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DirectionReport {
    /// What was asked, in words that ask for the same again.
    pub settings: SettingsWords,
    /// What was counted: `entered + duplicated = released + dropped + held`.
    pub counters: LinkCounters,
    /// The limit as it was asked for.
    #[serde(skip)]
    limit_asked: Limit,
    /// Frames that are under way.
    pub held: u64,
    /// Of frames that came since the latest change, but for those of `matches`.
    #[serde(flatten)]
    pub delays: Delays,
    /// The largest product of rate and delay that memory bears, in bytes of frames of 1,514.
    pub rate_times_delay_bytes_max: u64,
    /// What a user should know, a sentence each.
    pub warnings: Vec<String>,
    /// Frames that are treated differently by what they match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<MatchReport>,
}

/// The delays of frames, asked, drawn and realised.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Delays {
    /// The delays by the settings.
    pub asked: Spread,
    /// Those drawn; none without jitter.
    pub drawn: Option<Spread>,
    /// Of those drawn from those asked; the p-value is for independent draws.
    pub drawn_distance: Option<Distance>,
    /// From coming to leaving: what order and rate made of them.
    pub realised: Option<Spread>,
    /// Of those realised from those asked.
    pub realised_distance: Option<Distance>,
    /// From the instant that the link in virtual time gives a frame that came when it did, to the one at which it left.
    /// `None` in virtual time, where there is none.
    pub difference: Option<Spread>,
    /// Frames that left later than they should have.
    pub late: LateCounts,
    /// The latest.
    pub lateness_max_ns: i64,
}

/// Frames of one direction that match an expression, or several.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatchReport {
    /// The expressions.
    pub expressions: String,
    /// What befalls them, in words.
    pub settings: SettingsWords,
    /// Frames that came.
    pub entered: u64,
    /// Those of them that were lost.
    pub lost: u64,
    /// The delays by the settings.
    pub asked: Spread,
    /// Those drawn, together with what has the same delay; none without jitter.
    pub drawn: Option<Spread>,
    /// Of those drawn from those asked.
    pub drawn_distance: Option<Distance>,
    /// From coming to leaving.
    pub realised: Option<Spread>,
}

/// All settings of a direction as words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// `--limit`, worked out; `memory`: no other bound.
    pub limit: String,
    /// `--path`, if there is one: in place of what of the above it gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl SettingsWords {
    pub(crate) fn of(settings: &Settings, limit: Limit) -> Self {
        let (mut rate, mut path) = (settings.rate.map(|rate| rate.to_string()), None);
        let mut loss = settings.loss.to_string();
        match &settings.schedule {
            Some(Schedule::Path(file)) => {
                path = Some(file.name().to_owned());
                if file.steps()[0].loss.is_some() {
                    loss = format!("path {}", file.name());
                }
            }
            Some(Schedule::Deliveries(trace)) => rate = Some(format!("trace {}", trace.name())),
            None => {}
        }
        Self {
            link: settings.state.to_string(),
            loss,
            duplicate: settings.duplicate.to_string(),
            corrupt: settings.corrupt.to_string(),
            reorder: settings.reorder.to_string(),
            delay: settings.delay.to_string(),
            rate,
            limit: limit.to_string(),
            path,
        }
    }

    /// Bytes of the words.
    pub(crate) fn len_bytes(&self) -> usize {
        let always = [
            &self.link,
            &self.loss,
            &self.duplicate,
            &self.corrupt,
            &self.reorder,
            &self.delay,
            &self.limit,
        ];
        let perhaps = [&self.rate, &self.path].into_iter().flatten();
        always.into_iter().chain(perhaps).map(String::len).sum()
    }
}

impl Delays {
    /// Those asked and drawn, of the frames of a link that match nothing.
    pub(crate) fn drawn(link: &Link<Frame>) -> Self {
        let (asked, drawn) = (link.asked(), link.drawn());
        Self {
            drawn_distance: drawn.as_ref().and_then(|drawn| drawn.distance(&asked)),
            asked,
            drawn,
            ..Self::default()
        }
    }

    /// What became of them is what this says.
    pub(crate) fn realise(&mut self, sent: &Sent) {
        self.realised = sent.residence.spread();
        self.realised_distance = sent.residence.distance(&self.asked);
        self.difference = sent.difference.spread();
        self.late = sent.late;
        self.lateness_max_ns = sent.lateness_max_ns;
    }
}

impl Path {
    /// What became of it so far; `clock` as [`Certificate::clock`] says.
    pub fn certificate(&self, clock: &'static str) -> Certificate {
        let changes = self.changes();
        let reports = Direction::BOTH.map(|direction| {
            let (link, sent) = (self.link(direction), self.sent(direction));
            let mut report = report(link, sent, self.kind_names(direction));
            if clock == VIRTUAL {
                report.delays.difference = None;
            }
            (direction.name(), report)
        });
        Certificate {
            seed: self.seed(),
            clock,
            verdict: verdict(&reports, &changes),
            directions: reports.into(),
            changes,
        }
    }
}

/// The clock of captured frames, as [`Certificate::clock`] says.
pub const VIRTUAL: &str = "virtual";

fn report(link: &Link<Frame>, sent: &Sent, names: &[String]) -> DirectionReport {
    let mut delays = Delays::drawn(link);
    delays.realise(sent);
    let mut warnings = link.warnings();
    warnings.extend(held_back(link, &delays));
    warnings.extend(unmatched(link, names));
    DirectionReport {
        settings: SettingsWords::of(link.settings(), link.limit()),
        counters: link.counters(),
        limit_asked: link.settings().limit,
        held: link.held() as u64,
        delays,
        rate_times_delay_bytes_max: link.product_bytes_max(),
        warnings,
        matches: matches(link, sent, names),
    }
}

pub(crate) fn matches(link: &Link<Frame>, sent: &Sent, names: &[String]) -> Vec<MatchReport> {
    let kinds = link.classes().iter().skip(1);
    let parts = kinds.zip(&sent.residence_by_kind).zip(names);
    // Not every set of expressions has frames that match just these.
    let parts = parts.filter(|((kind, _), _)| kind.entered() > 0);
    let report = |((kind, residence), name): ((&Class, &Times), &String)| {
        let (asked, drawn) = (link.asked_for(kind), link.drawn_for(kind));
        MatchReport {
            expressions: name.clone(),
            settings: SettingsWords::of(kind.settings(), link.limit()),
            entered: kind.entered(),
            lost: kind.lost(),
            drawn_distance: drawn.as_ref().and_then(|drawn| drawn.distance(&asked)),
            asked,
            drawn,
            realised: residence.spread(),
        }
    };
    parts.map(report).collect()
}

/// Expressions that no frame matched: a misspelt one looks like a link that does nothing to what was meant.
fn unmatched(link: &Link<Frame>, names: &[String]) -> Vec<String> {
    let kinds = link.classes();
    let alone = (0..kinds.len().ilog2()).map(|bit| 1 << bit);
    let is_unmatched = |bit: &usize| {
        let mut sets = kinds.iter().enumerate();
        sets.all(|(set, kind)| set & bit == 0 || kind.entered() == 0)
    };
    alone
        .filter(is_unmatched)
        .map(|bit| format!("match {}: matched no frame", names[bit - 1]))
        .collect()
}

/// Keeping the order makes another distribution of the one asked for, if frames come closer than their delays differ.
/// What a rate adds to the delays cannot be told from what order does, nor which of frames told apart have waited.
fn held_back(link: &Link<Frame>, delays: &Delays) -> Option<String> {
    let counters = link.counters();
    let share = counters.held_back as f64 / (counters.released as f64).max(1.0);
    let is_jitter = |kind: &Class| {
        let delay = &kind.settings().delay;
        delay.jitter != Jitter::None && delay.order != Order::Reorder
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
            "mean {:.1} us instead of {:.1}, deviation {:.1} us instead of {:.1}",
            realised.mean_ns / 1e3,
            delays.asked.mean_ns / 1e3,
            realised.deviation_ns / 1e3,
            delays.asked.deviation_ns / 1e3
        ),
        _ => "their delays are longer than those drawn".to_owned(),
    };
    Some(format!(
        "{:.1} % of the frames waited for one before them, as order is kept: {became}",
        share * 100.0
    ))
}

fn verdict(reports: &[(&'static str, DirectionReport)], changes: &[ChangeReport]) -> Verdict {
    let mut verdict = Verdict {
        state: State::Complete,
        ..Verdict::default()
    };
    for (name, report) in reports {
        let dropped = report.counters.dropped;
        let changes = || changes.iter().filter(|change| change.direction == *name);
        let before: u64 = changes().map(|change| change.dropped.limit).sum();
        // A limit that was asked for is part of the link, and so is what it drops; one that was worked out is not, nor is memory.
        let since = (&report.settings, report.limit_asked, dropped.limit - before);
        let before =
            changes().map(|change| (&change.before, change.limit_asked, change.dropped.limit));
        for (settings, asked, dropped) in before.chain([since]) {
            if let (Limit::Derived, 1..) = (asked, dropped) {
                verdict.state = State::Limited;
                verdict.reasons.push(format!(
                    "{name}: {dropped} frames found a queue of {} full, which was worked out from rate and delay: give the link's own with --limit",
                    settings.limit
                ));
            }
        }
        if dropped.memory > 0 {
            verdict.state = State::Limited;
            verdict.reasons.push(format!(
                "{name}: {} frames were dropped because memory for frames under way was full: give more with --memory",
                dropped.memory
            ));
        }
        let delays = changes()
            .map(|change| &change.delays)
            .chain([&report.delays]);
        let over_1ms: u64 = delays.map(|delays| delays.late.over_1000us).sum();
        if over_1ms > 0 {
            verdict.state = State::Disturbed;
            verdict.reasons.push(format!(
                "{name}: {over_1ms} frames left more than 1 ms late"
            ));
        }
    }
    verdict
}
