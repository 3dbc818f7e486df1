//! Acknowledgements: RFC 9293, 3.10.7.4, fifth; RFC 5961, 5; fast retransmit and fast recovery by
//! RFC 5681, 3.2, RFC 6582 and RFC 6675; the timer by RFC 6298, 5.

use lineside_wire::TcpFlags;

use crate::congestion::Acknowledged;
use crate::effects::{Closed, ConnectionId, Effects, Event};
use crate::receive::Segment;
use crate::record::{Active, NONE, Phase, Record, Retransmission, State, TimeWait, flag};
use crate::stack::Stack;
use crate::tables::wait_until;

/// Duplicate acknowledgements that show a loss: RFC 5681, 3.2.
const DUP_ACKS: u32 = 3;

impl Stack {
    /// Takes the acknowledgement and the window of a segment; false if it acknowledges what was
    /// never sent, or is too old, and was counted.
    pub(crate) fn on_acknowledgement(
        &mut self,
        number: u32,
        segment: &Segment<'_>,
        effects: &mut impl Effects,
    ) -> bool {
        let ack = segment.acknowledgement;
        let nxt = self.next_sequence(number);
        let record = &self.tables.records[number];
        let una = record.snd_una;
        let largest = match record.active() {
            None => record.send_window(),
            Some(active) => self.tables.actives[active].snd_wnd_max,
        };
        // RFC 5961, 5.2.
        if ack.is_after(nxt) || una.distance_from(ack) > largest.cast_signed().max(0) {
            self.counters.challenged += 1;
            self.challenge(number);
            return false;
        }
        if record.active().is_none() {
            // Nothing is in flight: the window is all it can say.
            if ack == una {
                self.tables.records[number].snd_wnd = segment.window;
            }
            return true;
        }
        if ack.is_before(una) {
            return true;
        }
        // It is there: RFC 9293, 3.8.6.1 and 3.8.4.
        let active = self.both(number).1;
        active.unanswered = 0;
        if matches!(active.retransmission, Retransmission::KeepAlive(_)) {
            active.retransmission = Retransmission::Off;
        }
        let has_news = self.take_blocks(number, segment);
        if ack.is_after(una) {
            self.advance(number, segment, effects);
            self.take_window(number, segment);
        } else {
            let is_window_new = self.take_window(number, segment);
            self.on_same(number, segment, is_window_new, has_news);
        }
        self.touch(number);
        true
    }

    /// The peer's window; returns whether it changed.
    fn take_window(&mut self, number: u32, segment: &Segment<'_>) -> bool {
        let (record, active) = self.both(number);
        let (sequence, ack) = (segment.sequence, segment.acknowledgement);
        let is_newer = active.snd_wl1.is_before(sequence)
            || active.snd_wl1 == sequence && !active.snd_wl2.is_after(ack);
        if !is_newer {
            return false;
        }
        let before = record.snd_wnd;
        record.snd_wnd = segment.window;
        (active.snd_wl1, active.snd_wl2) = (sequence, ack);
        active.snd_wnd_max = active.snd_wnd_max.max(record.send_window());
        if before == 0 && record.snd_wnd > 0 {
            active.reopen(record);
        }
        before != record.snd_wnd
    }

    /// What the peer has out of order; returns whether that is news. Blocks outside what is in
    /// flight are ignored: RFC 2883 reports duplicates so.
    fn take_blocks(&mut self, number: u32, segment: &Segment<'_>) -> bool {
        let record = &self.tables.records[number];
        let Some(blocks) = segment.options.sack.filter(|_| record.has(flag::SACK)) else {
            return false;
        };
        let active = &mut self.tables.actives[record.place];
        let ranges = &mut self.tables.ranges;
        let una = crate::scoreboard::later(record.snd_una, segment.acknowledgement);
        let mut has_news = false;
        for (start, end) in blocks.iter() {
            let is_within = start.is_before(end)
                && !start.is_before(una)
                && !end.is_after(active.snd_nxt)
                && end.bytes_from(start) <= active.snd_nxt.bytes_from(una);
            has_news |= is_within
                && ranges.has_room(active.scoreboard.list())
                && active.scoreboard.add(start, end);
        }
        has_news
    }

    /// Bytes are acknowledged.
    fn advance(&mut self, number: u32, segment: &Segment<'_>, effects: &mut impl Effects) {
        let ack = segment.acknowledgement;
        let (now, now_ms) = (self.now, self.timestamp());
        let congestion = self.config.congestion;
        let (record, active) = self.both(number);
        let flight = active.snd_nxt.bytes_from(record.snd_una);
        let acked = ack.bytes_from(record.snd_una);
        let is_fin_acked = record.has(flag::FIN_SENT) && ack == active.snd_nxt;
        let data = acked - u32::from(is_fin_acked);
        record.advance_una(ack);
        active.scoreboard.acknowledge(ack);
        match active.timed {
            Some((end, sent)) if !ack.is_before(end) => {
                record.measure(segment.at.saturating_sub(sent));
                active.timed = None;
            }
            // What was sent again has a round trip by its timestamp: RFC 7323, 4.1.
            None if active.phase != Phase::Open => {
                if let Some((_, echo)) = segment.options.timestamps
                    && record.has(flag::TIMESTAMPS)
                    && echo != 0
                {
                    let ms = now_ms.wrapping_sub(echo).cast_signed().max(0);
                    record.measure(i64::from(ms) * 1_000_000);
                }
            }
            _ => {}
        }
        active.timeouts = 0;
        let segments = (acked / active.window.mss).max(1);
        active.dup_acks = match active.phase {
            // One was the gap, the others had arrived: RFC 6582, 3.2, partial acknowledgements.
            Phase::Recovery => active.dup_acks.saturating_sub(segments - 1),
            _ => 0,
        };
        if active.phase != Phase::Recovery && flight >= active.window.cwnd / 2 {
            let by = Acknowledged {
                // After a timeout much may be acknowledged that had arrived before: RFC 3465, 2.3.
                bytes: match active.phase {
                    Phase::Loss => data.min(active.window.mss),
                    _ => data,
                },
                now_ns: now,
                round_trip_ns: record.round_trip_ns(),
            };
            congestion.on_acknowledged(&mut active.window, by);
        }
        if active.phase != Phase::Open && !ack.is_before(active.recover) {
            active.phase = Phase::Open;
            active.dup_acks = 0;
        }
        if !record.has(flag::SACK) && active.phase == Phase::Recovery {
            active.rxt_nxt = crate::scoreboard::later(active.rxt_nxt, ack);
        }
        active.retransmission = Retransmission::Off;
        let in_flight = active.snd_nxt != ack;
        let owner = record.owner;
        if is_fin_acked {
            record.state = match record.state {
                State::FinWait1 => State::FinWait2,
                state => state,
            };
        }
        self.limit_fin_wait(number);
        if in_flight {
            // RFC 6298, 5.3.
            let at = now.saturating_add(self.rto(number));
            self.both(number).1.retransmission = Retransmission::Timeout(at);
        }
        if data > 0 {
            let event = Event::Acknowledged(data.into());
            effects.on_event(ConnectionId(number), owner, event);
        }
    }

    /// Nothing new is acknowledged: perhaps something is lost.
    fn on_same(&mut self, number: u32, segment: &Segment<'_>, is_window_new: bool, has_news: bool) {
        let congestion = self.config.congestion;
        let (record, active) = self.both(number);
        let flight = active.snd_nxt.bytes_from(record.snd_una);
        let is_duplicate = match record.has(flag::SACK) {
            true => has_news,
            // RFC 5681, 2.
            false => segment.len == 0 && !segment.has(TcpFlags::FIN) && !is_window_new,
        };
        if !is_duplicate || flight == 0 || active.phase == Phase::Loss {
            return;
        }
        // No more arrived than were sent.
        let most = flight.div_ceil(active.window.mss);
        active.dup_acks = (active.dup_acks + 1).min(most);
        let is_lost =
            active.dup_acks >= DUP_ACKS || { active.scoreboard.lost_before(active.window.mss) }
                .is_some_and(|edge| edge.is_after(record.snd_una));
        if active.phase != Phase::Open || !is_lost {
            return;
        }
        active.phase = Phase::Recovery;
        (active.recover, active.rxt_nxt) = (active.snd_nxt, record.snd_una);
        let flight = flight.max(active.flight_then.min(active.window.cwnd));
        congestion.on_loss(&mut active.window, flight);
        self.counters.recoveries += 1;
    }

    /// Whether all but our FIN is acknowledged.
    pub(crate) fn has_sent_all(&self, number: u32) -> bool {
        let record = &self.tables.records[number];
        record.has(flag::FIN_SENT) && self.next_sequence(number) == record.snd_una + 1
    }

    /// Whether both ends have said all, and it is acknowledged.
    pub(crate) fn is_finished(&self, number: u32) -> bool {
        let record = &self.tables.records[number];
        let is_fin_acked =
            record.has(flag::FIN_SENT) && self.next_sequence(number) == record.snd_una;
        is_fin_acked && record.has(flag::FIN_RECEIVED)
    }

    /// The connection is over; who closed first waits in TIME_WAIT: RFC 9293, 3.6.
    pub(crate) fn finish(&mut self, number: u32, effects: &mut impl Effects) {
        let record = self.tables.records[number];
        if record.state == State::LastAck {
            self.end(number, Closed::Finished, effects);
            return;
        }
        // It acknowledges the FIN that is answered last.
        self.send_acknowledgement(number, effects);
        let record = self.tables.records[number];
        let has_timestamps = record.has(flag::TIMESTAMPS);
        let began = self.began.unwrap_or(self.now);
        let until = self.now.saturating_add(self.config.time_wait_ns);
        let path = self.forget(number);
        let wait = TimeWait {
            path,
            local_port: record.local_port,
            remote_port: record.remote_port,
            snd_nxt: record.snd_una,
            rcv_nxt: record.rcv_nxt,
            ts_recent: record.ts_recent,
            until: wait_until(began, until, has_timestamps),
            previous: NONE,
            next: NONE,
        };
        self.counters.time_wait_overflow += u64::from(self.tables.wait(wait));
        let event = Event::Closed(Closed::Finished);
        effects.on_event(ConnectionId(number), record.owner, event);
    }
}

impl Active {
    /// The peer's window was closed: what is in flight, a probe or what was sent before it closed,
    /// was refused, and leaves again.
    fn reopen(&mut self, record: &Record) {
        self.timeouts = 0;
        match self.snd_nxt.bytes_from(record.snd_una) {
            0 => {}
            // The byte of a probe leaves with those after it.
            1 if !record.has(flag::FIN_SENT) => {
                self.phase = Phase::Open;
                self.snd_nxt = record.snd_una;
                (self.recover, self.rxt_nxt) = (record.snd_una, record.snd_una);
                self.ready += 1;
            }
            _ => self.resend_all(record),
        }
    }

    /// What is in flight is lost, but not for want of room on the path: the congestion window
    /// stays.
    pub(crate) fn resend_all(&mut self, record: &Record) {
        self.phase = Phase::Loss;
        (self.recover, self.rxt_nxt) = (self.snd_nxt, record.snd_una);
        self.dup_acks = 0;
        self.scoreboard.clear();
        self.timed = None;
    }
}
