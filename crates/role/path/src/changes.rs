//! The account of a path before its settings changed.

use lineside_account::Lease;
use lineside_frame::Frame;
use lineside_link::{Class, Drops, Limit, Link, LinkCounters, Past, Settings, TABLE_LEN_MAX};
use lineside_measure::Spread;
use lineside_time::Nanoseconds;
use lineside_trace::certificate::link::{ChangeReport, MatchReport};

use crate::account::Account;
use crate::settings_words::{self, settings_words};
use crate::{SideId, delays};

/// A change, and what is kept to report it.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) at_ns: Nanoseconds,
    after_ns: Option<Nanoseconds>,
    pub(crate) side: SideId,
    /// The counters at the change, and what they had become since the previous one.
    pub(crate) counters: LinkCounters,
    entered: u64,
    dropped: Drops,
    /// The settings from then on.
    after: Settings,
    limit_after: Limit,
    /// The limit of the settings until then, before a derived one was worked out.
    pub(crate) limit_asked: Limit,
    state: Report,
    _lease: Lease,
}

/// The report of a change. Working it out takes tens of microseconds, which a polling loop has not
/// when it makes the change.
#[derive(Debug)]
enum Report {
    /// What it is worked out from; an account once no more frames go into it.
    Open {
        past: Past,
        account: Option<Box<Account>>,
        /// What is given back once it is worked out.
        _lease: Option<Lease>,
    },
    Done(Box<ChangeReport>),
}

/// The values of two distributions, to work out their distance while frames from before the change
/// may still leave.
pub(crate) const OPEN_BYTES: usize = 2 * TABLE_LEN_MAX * size_of::<(i64, u64)>();

/// The memory that the report of a change to these settings takes for good.
pub(crate) fn memory_bytes(link: &Link<Frame>, settings: &[Settings]) -> usize {
    let before = link.classes().iter().map(|class| class.settings());
    let words = before
        .chain(settings)
        .map(|settings| settings_words::len_bytes_max(settings) + size_of::<MatchReport>());
    size_of::<Change>() + size_of::<ChangeReport>() + words.sum::<usize>()
}

/// The memory of what the report of a change of a link with these classes is worked out from.
pub(crate) fn open_bytes(classes: &[Class]) -> usize {
    Account::memory_bytes(classes.len()) + Past::memory_bytes(classes)
}

impl Change {
    /// A change at `at_ns` from `past` on, when the link's counters were `now`, and `before` at the
    /// previous one; its settings are those of `link`.
    pub(crate) fn new(
        (at_ns, after_ns): (Nanoseconds, Option<Nanoseconds>),
        side: SideId,
        (before, now): (LinkCounters, LinkCounters),
        past: Past,
        link: &Link<Frame>,
        (lease, open): (Lease, Option<Lease>),
    ) -> Self {
        Self {
            at_ns,
            after_ns,
            side,
            counters: now,
            entered: now.entered - before.entered,
            dropped: now.dropped.since(&before.dropped),
            after: link.settings().clone(),
            limit_after: link.limit(),
            limit_asked: past.classes()[0].settings().limit,
            state: Report::Open {
                past,
                account: None,
                _lease: open,
            },
            _lease: lease,
        }
    }

    /// No more frames go into `account`, which is that of all frames from before the change.
    pub(crate) fn close(&mut self, of_frames: Account) {
        if let Report::Open { account, .. } = &mut self.state {
            *account = Some(Box::new(of_frames));
        }
    }

    /// Whether its report can be worked out for good, and is not yet.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(&self.state, Report::Open { account, .. } if account.is_some())
    }

    /// Whether its report has been worked out for good.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, Report::Done(_))
    }

    /// Works its report out for good.
    pub(crate) fn settle(&mut self, direction: &str, names: &[String]) {
        let mut report = self.report(direction, names, None);
        let delays = &mut report.delays;
        delays.asked.forget_values();
        let spreads = [
            &mut delays.drawn,
            &mut delays.realised,
            &mut delays.difference,
        ];
        let matches = report.matches.iter_mut();
        let matches = matches.flat_map(|matching| {
            matching.asked.forget_values();
            [&mut matching.drawn, &mut matching.realised]
        });
        for spread in spreads.into_iter().chain(matches) {
            spread.iter_mut().for_each(Spread::forget_values);
        }
        self.state = Report::Done(Box::new(report));
    }

    /// Its report; `account` is that of the frames from before it, if more may go into that.
    pub(crate) fn report(
        &self,
        direction: &str,
        names: &[String],
        account: Option<&Account>,
    ) -> ChangeReport {
        let (past, closed) = match &self.state {
            Report::Done(report) => return (**report).clone(),
            Report::Open { past, account, .. } => (past, account.as_deref()),
        };
        let (limit, class) = (past.limit(), &past.classes()[0]);
        let mut delays = delays::drawn(past.asked_for(class), past.drawn_for(class));
        let drawn = |class: &Class| (past.asked_for(class), past.drawn_for(class));
        let mut matches = Vec::new();
        if let Some(account) = closed.or(account) {
            delays::realise(&mut delays, account);
            matches = delays::matches(past.classes(), names, limit, drawn, account);
        }
        ChangeReport {
            at_ns: self.at_ns,
            after_ns: self.after_ns,
            direction: direction.to_owned(),
            before: settings_words(class.settings(), limit),
            after: settings_words(&self.after, self.limit_after),
            entered: self.entered,
            dropped: self.dropped,
            delays,
            matches,
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
