//! The account of a path before its settings changed.

use lineside_account::Lease;
use lineside_frame::Frame;
use lineside_link::{Drops, Limit, Link, LinkCounters, Settings, TABLE_LEN_MAX};
use lineside_measure::Spread;
use lineside_time::Nanoseconds;
use serde::Serialize;

use crate::account::Account;
use crate::certificate::{self, Delays, MatchReport};
use crate::element::LinkReport;
use crate::{SettingsWords, SideId};

/// A change of one direction's settings, and how frames passed that entered before it, since the
/// previous change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeReport {
    /// When, by the certificate's clock.
    pub at_ns: Nanoseconds,
    /// The same, from the beginning of the run.
    pub after_ns: Option<Nanoseconds>,
    /// Which direction: [`Path::name`](crate::Path::name).
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
    /// The limit of the settings, before a derived one was worked out.
    #[serde(skip)]
    pub(crate) limit_asked: Limit,
}

/// A change, and what is kept to report it.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) report: ChangeReport,
    /// The counters at the change.
    pub(crate) counters: LinkCounters,
    pub(crate) side: SideId,
    _lease: Lease,
}

/// The values of two distributions, to work out their distance while frames from before the change
/// may still leave.
pub(crate) const OPEN_BYTES: usize = 2 * TABLE_LEN_MAX * size_of::<(i64, u64)>();

/// The memory that the report of a change to these settings takes for good.
pub(crate) fn memory_bytes(link: &Link<Frame>, settings: &[Settings]) -> usize {
    let before = link.classes().iter().map(|class| class.settings());
    let words = before.chain(settings).map(|settings| {
        let words = SettingsWords::of(settings, link.limit());
        words.len_bytes() + size_of::<MatchReport>()
    });
    size_of::<Change>() + words.sum::<usize>()
}

impl Change {
    /// The change at `at_ns` of a link whose settings are still the old ones; `counters` are those
    /// at the previous change.
    pub(crate) fn new(
        at_ns: Nanoseconds,
        (side, direction): (SideId, &str),
        report: LinkReport<'_>,
        account: &Account,
        counters: &LinkCounters,
        lease: Lease,
    ) -> Self {
        let link = report.link;
        let words = SettingsWords::of(link.settings(), link.limit());
        let mut matches = certificate::matches(report, account);
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
                direction: direction.to_owned(),
                after: words.clone(),
                before: words,
                entered: now.entered - counters.entered,
                dropped: now.dropped.since(&counters.dropped),
                delays: Delays::drawn(link),
                matches,
                limit_asked: link.settings().limit,
            },
            counters: now,
            side,
            _lease: lease,
        }
    }

    /// Ends the report: `account` is that of all frames from before the change.
    pub(crate) fn close(&mut self, account: &Account) {
        let delays = &mut self.report.delays;
        delays.realise(account);
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

#[cfg(test)]
mod tests {
    use lineside_link::words;

    use super::*;

    #[test]
    fn a_change_draws_memory_for_the_words_of_its_settings() {
        let listed: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
        let listed = format!("frames {}", listed.join(","));
        let link = Link::new(Settings::default(), 7, 0, 1 << 20);
        let settings = Settings {
            loss: words::loss(&listed).expect("a loss"),
            ..Settings::default()
        };
        let plain = memory_bytes(&link, &[Settings::default()]);
        assert!(plain >= size_of::<Change>() + 2 * size_of::<MatchReport>());
        assert!(memory_bytes(&link, &[settings]) >= plain + listed.len() - "none".len());
    }
}
