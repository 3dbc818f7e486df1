//! What ends sent again, and what that cost.

use std::collections::BTreeMap;

use lineside_words::{grouped, percent, time};
use serde_json::{Value, json};

use super::connection::{Connection, Sent};
use crate::findings::watch::ConnectionTimes;
use crate::numbers::share;

/// Segments that were sent again although they were needed: so many, and this share.
const LOSS_MIN: u64 = 10;
const LOSS_SHARE: f64 = 0.001;
/// Of them, those that duplicate acknowledgements or a timer asked for: so many, and this share.
const ASKED_MIN: u64 = 5;
const ASKED_SHARE: f64 = 0.05;
/// Where so many as this share of them came late, or were sent again although the other end had
/// them, and a timer asked for less than that share: these were overtaken.
const OVERTAKEN_SHARE: f64 = 0.5;
/// What a timeout costs at least: Linux' shortest.
const TIMEOUT_NS: u64 = 200_000_000;
/// What all ends sent again, and what that cost.
pub(super) struct Losses {
    pub(super) needed: u64,
    pub(super) packets: u64,
    pub(super) retransmissions: u64,
    pub(super) fast: u64,
    pub(super) timeouts: u64,
    pub(super) spurious: u64,
    pub(super) out_of_order: u64,
    pub(super) recovery_ns: u64,
    /// Operations that waited.
    pub(super) waited: u64,
}

impl Losses {
    pub(super) fn of<'a>(connections: impl Iterator<Item = &'a Connection> + Clone) -> Self {
        let sum = |of: fn(&Sent) -> u64| -> u64 {
            let ends = connections.clone().flat_map(|connection| &connection.sent);
            ends.map(of).sum()
        };
        let times = |of: fn(&ConnectionTimes) -> u64| -> u64 {
            { connections.clone() }
                .map(|connection| of(&connection.times))
                .sum()
        };
        Self {
            needed: sum(Sent::needed),
            packets: sum(|sent| sent.packets),
            retransmissions: sum(|sent| sent.retransmissions),
            fast: sum(|sent| sent.fast),
            timeouts: sum(|sent| sent.timeouts),
            spurious: sum(|sent| sent.spurious),
            out_of_order: sum(|sent| sent.out_of_order),
            recovery_ns: times(|times| times.recovery_ns),
            waited: times(|times| times.waited_for_recovery),
        }
    }

    /// Whether they were overtaken rather than lost.
    pub(super) fn are_overtaken(&self) -> bool {
        share(self.spurious + self.out_of_order, self.needed) >= OVERTAKEN_SHARE
            && share(self.timeouts, self.needed) < OVERTAKEN_SHARE
    }

    /// Whether they are so many that they matter, and duplicate acknowledgements or a timer asked
    /// for them: what is sent again within microseconds, though neither did, was overtaken on
    /// hosts with several queues rather than lost.
    pub(super) fn matter(&self) -> bool {
        self.needed >= LOSS_MIN
            && share(self.needed, self.packets) >= LOSS_SHARE
            && self.asked() >= ASKED_MIN
            && share(self.asked(), self.needed) >= ASKED_SHARE
    }

    /// Those that duplicate acknowledgements or a timer asked for.
    pub(super) fn asked(&self) -> u64 {
        self.fast + self.timeouts
    }

    pub(super) fn what(&self, is_overtaken: bool) -> String {
        match is_overtaken {
            true => format!(
                "packets overtake one another: {} of {} came late, {} were sent again",
                grouped(self.out_of_order),
                grouped(self.packets),
                grouped(self.needed + self.spurious)
            ),
            false => format!(
                "the network loses packets: {} of {} were sent again ({})",
                grouped(self.needed),
                grouped(self.packets),
                percent(share(self.needed, self.packets))
            ),
        }
    }

    /// What is lost behind the tap delays the other end alone: each timeout cost it this much.
    pub(super) fn lost_ns(&self) -> u64 {
        self.recovery_ns.max(self.timeouts * TIMEOUT_NS)
    }

    /// Timeouts, and the operations that waited: where the time lost is worked out from timeouts,
    /// that is not what the tap saw of it.
    pub(super) fn waits(&self) -> String {
        let timeouts = grouped(self.timeouts);
        let (waited, seen) = (grouped(self.waited), time(self.recovery_ns));
        match self.lost_ns() == self.recovery_ns {
            true => format!("{timeouts} by timeout; {waited} operations waited {seen}"),
            false => format!(
                "{timeouts} by timeout, each {} at least at the end that sent again, of which the \
                tap saw {seen} ({waited} operations)",
                time(TIMEOUT_NS)
            ),
        }
    }

    pub(super) fn basis(&self) -> BTreeMap<&'static str, Value> {
        [
            ("retransmissions", json!(self.retransmissions)),
            ("spurious_retransmissions", json!(self.spurious)),
            ("out_of_order_packets", json!(self.out_of_order)),
            ("overtaken_share_max", json!(OVERTAKEN_SHARE)),
            ("fast_retransmissions", json!(self.fast)),
            ("timeout_retransmissions", json!(self.timeouts)),
            ("packets", json!(self.packets)),
            ("needed_share", json!(share(self.needed, self.packets))),
            ("needed_share_min", json!(LOSS_SHARE)),
            ("needed_min", json!(LOSS_MIN)),
            ("asked_for", json!(self.asked())),
            ("asked_for_min", json!(ASKED_MIN)),
            ("asked_for_share_min", json!(ASKED_SHARE)),
            ("recovery_ns", json!(self.recovery_ns)),
        ]
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time that is worked out from timeouts is not contradicted by what the tap saw of it.
    #[test]
    fn what_is_lost_behind_the_tap_is_no_contradiction() {
        let mut losses = Losses::of([].iter());
        (losses.timeouts, losses.waited) = (12, 0);
        assert_eq!(losses.lost_ns(), 2_400_000_000);
        assert_eq!(
            losses.waits(),
            "12 by timeout, each 200 ms at least at the end that sent again, of which the tap saw \
            0 ns (0 operations)"
        );
        (losses.recovery_ns, losses.waited) = (3_000_000_000, 7);
        assert_eq!(losses.lost_ns(), 3_000_000_000);
        assert_eq!(losses.waits(), "12 by timeout; 7 operations waited 3.00 s");
    }
}
