//! RACK: what was sent before something that has arrived, and has not arrived itself for a while,
//! is lost. RFC 8985, 6.

use lineside_time::Nanoseconds;
use lineside_wire::SeqNumber;

use super::{DUP_THRESH, News, Rack, Sooner};
use crate::record::{Active, Phase, Record, flag};
use crate::stack::Stack;

/// Recoveries without a duplicate after which the reordering window is small again: RFC 8985, 6.2,
/// step 4.
const PERSIST: u8 = 16;
/// Data that are sent within this share of the round trip, a power of two below, count as sent at
/// once. The reordering window is eight times as much.
const UNIT_BITS: u32 = 5;

impl Rack {
    /// How long what arrived last took; `None`: nothing has arrived.
    fn rtt(&self) -> Option<Nanoseconds> {
        (self.rtt_ns >= 0).then_some(self.rtt_ns)
    }

    /// 0 before there is one.
    pub(crate) fn min_rtt(&self) -> Nanoseconds {
        match self.min_rtt {
            Nanoseconds::MAX => 0,
            min_rtt => min_rtt,
        }
    }

    /// The highest number that has arrived, at least `una`.
    pub(crate) fn fack(&self, una: SeqNumber) -> SeqNumber {
        match self.rtt() {
            Some(_) => crate::scoreboard::later(self.fack, una),
            None => una,
        }
    }

    /// The binary logarithm of the time within which data count as sent at once.
    pub(crate) fn unit(&self) -> u32 {
        let bits = 63 - self.min_rtt().max(1).leading_zeros();
        bits.saturating_sub(UNIT_BITS)
    }

    /// RFC 8985, 6.2, steps 1 and 2.
    pub(crate) fn update(&mut self, news: &News) {
        let Some(latest) = news.latest else {
            return;
        };
        self.fack = crate::scoreboard::later(self.fack(news.una), news.highest);
        let rtt = news.at.saturating_sub(latest.sent_at).max(0);
        if !latest.is_again {
            self.min_rtt = self.min_rtt.min(rtt);
        }
        self.rtt_ns = rtt;
        let is_same = latest.sent_at == self.sent_at;
        if latest.sent_at > self.sent_at || is_same && latest.end.is_after(self.end) {
            (self.sent_at, self.end) = (latest.sent_at, latest.end);
        }
    }

    /// Something arrived twice: perhaps the window was too small. RFC 8985, 6.2, step 4.
    pub(crate) fn widen(&mut self, una: SeqNumber, nxt: SeqNumber) {
        if self.has_grown && una.is_before(self.round) {
            return;
        }
        (self.round, self.has_grown) = (nxt, true);
        self.quarters = self.quarters.saturating_add(1);
        self.persist = PERSIST;
    }

    /// A recovery is over.
    pub(crate) fn end_recovery(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }
}

impl Active {
    /// The reordering window: RFC 8985, 6.2, step 4.
    fn reordering_window(&self, record: &Record) -> Nanoseconds {
        if !record.has(flag::REORDERS) {
            let has_many = self.dup_acks >= DUP_THRESH
                || self.scoreboard.arrived() > (DUP_THRESH - 1) * self.window.mss;
            if self.phase != Phase::Open || has_many {
                return 0;
            }
        }
        let quarter = self.rack.min_rtt() / 4;
        let window = quarter.saturating_mul(self.rack.quarters.into());
        window.min(record.round_trip_ns())
    }

    /// When the timer fired: what was sent so long ago that it should have been answered, and the
    /// first segment: RFC 8985, 6.3. Without times, or if the receiver dropped what it reported, it
    /// is all of it.
    pub(crate) fn lose_by_timeout(
        &mut self,
        record: &Record,
        now: Nanoseconds,
        lists: &mut crate::lists::Lists<crate::scoreboard::Run>,
    ) {
        let has_sack = record.has(flag::SACK) && !self.scoreboard.is_head_reported();
        let Some(rtt) = self.rack.rtt().filter(|_| has_sack) else {
            self.scoreboard.lose_all();
            return;
        };
        let until = now - rtt - self.reordering_window(record);
        let all = (Nanoseconds::MAX, self.snd_nxt);
        self.scoreboard.lose_before(all, until, lists);
        self.scoreboard.lose_first(self.window.mss, lists);
    }
}

impl Stack {
    /// Finds what is lost, and begins recovery if something is: RFC 8985, 6.2, step 5. Returns how
    /// many segments that are.
    pub(crate) fn detect_losses(&mut self, number: u32) -> u32 {
        let now = self.now;
        let (record, active, lists) = self.parts(number);
        if matches!(active.sooner, Sooner::Reordering(_)) {
            active.sooner = Sooner::Off;
        }
        if active.snd_nxt == record.snd_una {
            return 0;
        }
        let is_plain = active.scoreboard.is_plain(active.rack.sent_at);
        let Some(rtt) = active.rack.rtt().filter(|_| !is_plain) else {
            return 0;
        };
        let wait = rtt + active.reordering_window(record);
        let newest = (active.rack.sent_at, active.rack.end);
        let lost = active.scoreboard.lose_before(newest, now - wait, lists);
        if let Some(latest) = lost.waits {
            active.sooner = Sooner::Reordering(latest + wait);
        }
        let segments = lost.bytes.div_ceil(active.window.mss);
        let reduced_at = { active.rare() }.map_or(0, |rare| rare.reduced_at);
        let is_again = lost.again >= Some(reduced_at);
        let phase = active.phase;
        self.counters.lost += u64::from(segments);
        match phase {
            Phase::Open if segments > 0 => self.enter_recovery(number),
            Phase::Recovery if is_again => self.reduce_again(number),
            _ => {}
        }
        segments
    }

    /// What may have been overtaken did not come: RFC 8985, 6.2, step 5.
    pub(crate) fn on_reordering_timer(&mut self, number: u32) {
        self.counters.reordering_timeouts += 1;
        self.detect_losses(number);
    }
}
