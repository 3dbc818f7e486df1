//! What was drawn of delays, and how frames left.

use lineside_link::{Class, Limit};
use lineside_measure::{Spread, Times};
use lineside_trace::certificate::link::{Delays, MatchReport};

use crate::account::Account;
use crate::settings_words::settings_words;

/// The delays by the settings and those drawn.
pub(crate) fn drawn(asked: Spread, drawn: Option<Spread>) -> Delays {
    Delays {
        drawn_distance: drawn.as_ref().and_then(|drawn| drawn.distance(&asked)),
        asked,
        drawn,
        ..Delays::default()
    }
}

/// Adds how frames left.
pub(crate) fn realise(delays: &mut Delays, account: &Account) {
    delays.realised = account.residence.spread();
    delays.realised_distance = account.residence.distance(&delays.asked);
    delays.difference = account.difference.spread();
    delays.late = account.late;
    delays.lateness_max_ns = account.lateness_max_ns;
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
            settings: settings_words(class.settings(), limit),
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
