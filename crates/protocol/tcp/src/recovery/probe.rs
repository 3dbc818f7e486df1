//! Tail loss probes: when what was sent last gets no answer, a segment leaves before the timeout,
//! so that RACK learns what was lost. RFC 8985, 7.

use lineside_time::Nanoseconds;
use lineside_wire::SeqNumber;

use super::{News, Probe, Sooner};
use crate::effects::Effects;
use crate::receive::Segment;
use crate::record::{Active, Phase, Record, Retransmission, flag};
use crate::stack::Stack;

/// How long a peer may keep its acknowledgement of a single segment: RFC 8985, 7.2; Linux's
/// TCP_RTO_MIN.
const ACK_DELAY_MAX_NS: Nanoseconds = 200_000_000;
/// Before the first measurement: RFC 8985, 7.2.
const INITIAL_NS: Nanoseconds = 1_000_000_000;

impl Probe {
    /// Whether what arrived twice and ends there is what it repeated.
    pub(super) fn repeats(&self, end: SeqNumber) -> bool {
        self.is_again && self.end == end
    }
}

impl Active {
    /// Arms the timer of the probe, or stops it: RFC 8985, 7.2.
    pub(crate) fn arm_probe(&mut self, record: &Record, now: Nanoseconds) {
        let timeout = match self.retransmission {
            Retransmission::Timeout(at) => at,
            _ => Nanoseconds::MIN,
        };
        let may_probe = record.has(flag::SACK)
            && timeout > now
            && self.phase == Phase::Open
            && self.probe().is_none()
            && self.scoreboard.arrived() == 0
            && self.snd_nxt != record.snd_una;
        self.sooner = match self.sooner {
            Sooner::Off if may_probe => {
                let after = match record.round_trip_ns() {
                    0 => INITIAL_NS,
                    round_trip => 2 * round_trip,
                };
                let is_single = self.snd_nxt.bytes_from(record.snd_una) <= self.window.mss;
                let delay = if is_single { ACK_DELAY_MAX_NS } else { 0 };
                Sooner::LossProbe(timeout.min(now + after + delay))
            }
            Sooner::LossProbe(_) if !may_probe => Sooner::Off,
            sooner => sooner,
        };
    }

    /// What the timer of the probe waited for has happened, or begins anew.
    pub(crate) fn put_off_probe(&mut self) {
        if matches!(self.sooner, Sooner::LossProbe(_)) {
            self.sooner = Sooner::Off;
        }
    }
}

impl Stack {
    /// Nothing was heard for two round trips: RFC 8985, 7.3.
    pub(crate) fn on_loss_probe(&mut self, number: u32, effects: &mut impl Effects) {
        self.counters.tlp_probes += 1;
        let is_new = self.send_new_probe(number, effects);
        if !is_new {
            self.send_last_again(number, effects);
        }
        let at = self.now.saturating_add(self.rto(number));
        let active = self.both(number).1;
        active.sooner = Sooner::Off;
        let end = active.snd_nxt;
        active.rare_mut().probe = Some(Probe {
            end,
            is_again: !is_new,
        });
        active.retransmission = Retransmission::Timeout(at);
    }

    /// Whether the probe was answered, and what was lost: RFC 8985, 7.4.2.
    pub(super) fn end_probe(&mut self, number: u32, news: &News, segment: &Segment<'_>) {
        let congestion = self.config.congestion;
        let (record, active) = self.both(number);
        let una = record.snd_una;
        let Some(probe) = active.probe().filter(|probe| !una.is_before(probe.end)) else {
            return;
        };
        let is_twice = news.duplicate.is_some_and(|(_, end)| probe.repeats(end));
        let is_same = !news.is_advance(record) && segment.options.sack.is_none();
        if !probe.is_again || is_twice || una == probe.end && is_same {
            active.rare_mut().probe = None;
            return;
        }
        if una == probe.end {
            return;
        }
        // The probe mended the loss of what it repeated.
        active.rare_mut().probe = None;
        if active.phase == Phase::Open {
            let flight = active.snd_nxt.bytes_from(news.una);
            congestion.on_loss(&mut active.window, flight);
            self.counters.tlp_recoveries += 1;
        }
    }
}
