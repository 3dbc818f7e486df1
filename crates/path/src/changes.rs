//! What a path was before its settings changed.

use lineside_account::Lease;
use lineside_frame::Frame;
use lineside_link::{Drops, Limit, Link, LinkCounters, Settings, TABLE_LEN_MAX};
use lineside_measure::Spread;
use lineside_time::Nanoseconds;
use serde::Serialize;

use crate::certificate::{self, Delays, MatchReport, SettingsWords};
use crate::path::{Direction, Sent};

/// A change of one direction's settings, and what became of the frames that came before it, since the change before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeReport {
    /// When, by the certificate's clock.
    pub at_ns: Nanoseconds,
    /// The same from the beginning of the run.
    pub after_ns: Option<Nanoseconds>,
    /// Which direction: [`Direction::name`].
    pub direction: &'static str,
    /// What held until then.
    pub before: SettingsWords,
    /// What holds from then on.
    pub after: SettingsWords,
    /// Frames that came before.
    pub entered: u64,
    /// Frames that were dropped before.
    pub dropped: Drops,
    /// Of frames that came before, also of those that left after the change; but for those of `matches`.
    #[serde(flatten)]
    pub delays: Delays,
    /// Frames that are treated differently by what they match; counted since the beginning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<MatchReport>,
    /// As it was asked for.
    #[serde(skip)]
    pub(crate) limit_asked: Limit,
}

/// A change and what it takes to tell of it.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) report: ChangeReport,
    /// What had been counted.
    pub(crate) counters: LinkCounters,
    pub(crate) direction: Direction,
    _lease: Lease,
}

/// The values of two distributions, which their distance is found from while frames from before the change may still leave.
pub(crate) const OPEN_BYTES: usize = 2 * TABLE_LEN_MAX * size_of::<(i64, u64)>();

/// What the account of a change to these settings takes for good.
pub(crate) fn memory_bytes(link: &Link<Frame>, settings: &[Settings]) -> usize {
    let before = link.classes().iter().map(|kind| kind.settings());
    let words = before.chain(settings).map(|settings| {
        let words = SettingsWords::of(settings, link.limit());
        words.len_bytes() + size_of::<MatchReport>()
    });
    size_of::<Change>() + words.sum::<usize>()
}

impl Change {
    /// The account of a link whose settings are about to change at `at_ns`; `counters` are those at the change before.
    pub(crate) fn of(
        at_ns: Nanoseconds,
        link: &Link<Frame>,
        sent: &Sent,
        names: &[String],
        direction: Direction,
        counters: &LinkCounters,
        lease: Lease,
    ) -> Self {
        let words = SettingsWords::of(link.settings(), link.limit());
        let mut matches = certificate::matches(link, sent, names);
        for matching in &mut matches {
            matching.asked.forget_values();
            matching.drawn.iter_mut().for_each(Spread::forget_values);
            matching.realised.iter_mut().for_each(Spread::forget_values);
        }
        let now = link.counters();
        Self {
            report: ChangeReport {
                at_ns,
                after_ns: None,
                direction: direction.name(),
                after: words.clone(),
                before: words,
                entered: now.entered - counters.entered,
                dropped: now.dropped.since(&counters.dropped),
                delays: Delays::drawn(link),
                matches,
                limit_asked: link.settings().limit,
            },
            counters: now,
            direction,
            _lease: lease,
        }
    }

    /// No more frames from before it are told of: `sent` are all.
    pub(crate) fn close(&mut self, sent: &Sent) {
        let delays = &mut self.report.delays;
        delays.realise(sent);
        delays.asked.forget_values();
        for spread in [
            &mut delays.drawn,
            &mut delays.realised,
            &mut delays.difference,
        ] {
            spread.iter_mut().for_each(Spread::forget_values);
        }
    }
}
