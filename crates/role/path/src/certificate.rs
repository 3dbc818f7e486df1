//! The certificate of a path: what was asked for, drawn and realised, and whether the result is
//! valid.

use std::ops::{Deref, DerefMut};

use lineside_frame::Frame;
use lineside_link::{Class, Jitter, Limit, Order, Schedule};
use lineside_run::{Evidence, LinkEvidence, judge};
use lineside_trace::certificate::Judged;
use lineside_trace::certificate::link::{ChangeReport, Delays, DirectionReport, Link};
use lineside_words::time;
use serde::ser::{Serialize, Serializer};

use crate::Path;
use crate::account::Account;
use crate::delays::{drawn, matches, realise};
use crate::element::LinkReport;
use crate::settings_words::settings_words;

/// A warning is given above this share of frames held back: the realised distribution then differs
/// from the one asked for.
const HELD_BACK_SHARE: f64 = 0.01;

/// What a path did, and whether that is valid.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificate {
    judged: Judged<Link>,
    /// What the verdict follows from, a direction each in the order of their numbers.
    links: Vec<LinkEvidence>,
}

impl Deref for Certificate {
    type Target = Judged<Link>;

    fn deref(&self) -> &Judged<Link> {
        &self.judged
    }
}

impl DerefMut for Certificate {
    fn deref_mut(&mut self) -> &mut Judged<Link> {
        &mut self.judged
    }
}

impl Serialize for Certificate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.judged.serialize(serializer)
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
    /// The certificate so far; `clock` is [`Link::clock`].
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
        let limits = self.limits_before_changes();
        let changes_before: Vec<_> = changes.iter().zip(limits).collect();
        let links = self.sides().zip(&reports).map(|(side, (name, report))| {
            let limit = self.link(side).settings().limit;
            LinkEvidence {
                limits: self.late_limits(),
                ..evidence(name, (report, limit), &changes_before)
            }
        });
        let links: Vec<_> = links.collect();
        let verdict = judge(&Evidence {
            links: links.clone(),
            ..Evidence::default()
        });
        let found = Link {
            seed: self.seed(),
            clock: clock.to_owned(),
            directions: reports.into_iter().collect(),
            core: self.core(),
            changes,
            marks: self.marks().to_vec(),
            steps: self.steps(),
            firings: firings.to_vec(),
            firings_unlisted,
            ..Link::default()
        };
        Certificate {
            judged: Judged { found, verdict },
            links,
        }
    }
}

/// The clock of captured frames, for [`Link::clock`].
pub const VIRTUAL: &str = "virtual";

fn report(report: LinkReport<'_>, account: &Account) -> DirectionReport {
    let link = report.link;
    let mut delays = drawn(link.asked(), link.drawn());
    realise(&mut delays, account);
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
        settings: settings_words(link.settings(), link.limit()),
        counters: link.counters(),
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
fn held_back(link: &lineside_link::Link<Frame>, delays: &Delays) -> Option<String> {
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

/// The evidence of one direction, over all its settings; a limit is that of the settings, before a
/// derived one was worked out.
fn evidence(
    name: &str,
    (report, limit): (&DirectionReport, Limit),
    changes: &[(&ChangeReport, Limit)],
) -> LinkEvidence {
    let dropped = report.counters.dropped;
    let changes = || {
        changes
            .iter()
            .filter(|(change, _)| change.direction == name)
    };
    let before: u64 = changes().map(|(change, _)| change.dropped.limit).sum();
    let since = (&report.settings, limit, dropped.limit - before);
    let before = changes().map(|(change, limit)| (&change.before, *limit, change.dropped.limit));
    // A limit that was asked for is part of the link, and so are its drops; a derived one is not.
    let is_derived = |asked| matches!(asked, Limit::Derived);
    let all = before.chain([since]);
    let derived = all.filter(|&(_, asked, dropped)| is_derived(asked) && dropped > 0);
    let derived = derived.map(|(settings, _, dropped)| (dropped, settings.limit.clone()));
    let delays = changes().map(|(change, _)| &change.delays);
    let delays = || delays.clone().chain([&report.delays]);
    let lateness = delays().map(|delays| delays.lateness_max_ns);
    LinkEvidence {
        name: name.to_owned(),
        dropped_by_derived_limit: derived.collect(),
        dropped_by_memory: dropped.memory,
        left: report.counters.released,
        late: delays().map(|delays| delays.late.over_1000us).sum(),
        lateness_max_ns: lateness.max().unwrap_or_default(),
        ..LinkEvidence::default()
    }
}
