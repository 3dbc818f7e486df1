//! Acknowledgements: RFC 9293, 3.10.7.4, fifth; RFC 5961, 5; the timer by RFC 6298, 5. What they
//! say of losses: [`recovery`](crate::recovery).

use lineside_wire::SeqNumber;

use crate::congestion::Acknowledged;
use crate::effects::{Closed, ConnectionId, Effects, Event};
use crate::lists::Lists;
use crate::receive::Segment;
use crate::record::{Active, Phase, Record, Retransmission, State, TimeWait, flag};
use crate::recovery::News;
use crate::scoreboard::{Run, later};
use crate::slab::NONE;
use crate::stack::Stack;
use crate::tables::wait_until;

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
            // Nothing is in flight: the window is all it can say, and what came twice.
            let blocks = segment.options.sack.filter(|_| record.has(flag::SACK));
            let first = blocks.and_then(|blocks| blocks.iter().next());
            self.counters.dsack_received +=
                u64::from(first.is_some_and(|(_, end)| !end.is_after(una)));
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
        let clock_base = self.secret[0] as u32;
        let (record, active) = self.both(number);
        let mut news = News::new(record, active, segment, clock_base);
        self.take_blocks(number, segment, &mut news);
        if ack.is_after(una) {
            self.advance(number, segment, &mut news, effects);
            self.take_window(number, segment);
        } else {
            news.is_same = !self.take_window(number, segment);
        }
        self.recover(number, &mut news, segment);
        self.on_echo(number, segment);
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

    /// What the peer has out of order, and what it received twice: RFC 2883, 4. Other blocks
    /// outside what is in flight are ignored.
    fn take_blocks(&mut self, number: u32, segment: &Segment<'_>, news: &mut News) {
        let (record, active, lists) = self.parts(number);
        let Some(blocks) = segment.options.sack.filter(|_| record.has(flag::SACK)) else {
            return;
        };
        let una = later(record.snd_una, segment.acknowledgement);
        let mut blocks = blocks.iter().peekable();
        if let Some((start, end)) = blocks.next() {
            let is_within =
                |&(from, to): &(SeqNumber, SeqNumber)| !start.is_before(from) && !end.is_after(to);
            let is_duplicate = !end.is_after(una) || blocks.peek().is_some_and(is_within);
            // No further back than a window: RFC 2883, 5.
            let is_ours = start.is_before(end)
                && !end.is_after(active.snd_nxt)
                && una.bytes_from(start).cast_signed() <= active.snd_wnd_max.cast_signed();
            match is_duplicate {
                true if is_ours => news.duplicate = Some((start, end)),
                true => {}
                false => active.take_block(una, (start, end), lists, news),
            }
        }
        for block in blocks {
            active.take_block(una, block, lists, news);
        }
    }

    /// Bytes are acknowledged.
    fn advance(
        &mut self,
        number: u32,
        segment: &Segment<'_>,
        news: &mut News,
        effects: &mut impl Effects,
    ) {
        let ack = segment.acknowledgement;
        let (now, now_ms) = (self.now, self.timestamp());
        let congestion = self.config.congestion;
        let (record, active) = self.both(number);
        let flight = active.snd_nxt.bytes_from(record.snd_una);
        let acked = ack.bytes_from(record.snd_una);
        let is_fin_acked = record.has(flag::FIN_SENT) && ack == active.snd_nxt;
        let data = acked - u32::from(is_fin_acked);
        record.advance_una(ack);
        active
            .scoreboard
            .acknowledge(ack, |arrived| news.see(arrived));
        active.put_off_probe();
        active.measure_round_trip(record, segment, now_ms);
        active.timeouts = 0;
        active.waits_since = now;
        let is_used = active.window.is_used(ack, flight, active.snd_nxt);
        if active.phase != Phase::Recovery && is_used {
            // What was reported before it was acknowledged let segments leave then: RFC 3042.
            let new = match record.has(flag::SACK) {
                true => data.min(news.bytes),
                false => data.saturating_sub(active.dup_acks.saturating_mul(active.window.mss)),
            };
            let by = Acknowledged {
                // After a timeout much may be acknowledged that had arrived before: RFC 3465, 2.3.
                bytes: match active.phase {
                    Phase::Loss => data.min(active.window.mss),
                    _ => new,
                },
                now_ns: now,
                round_trip_ns: record.round_trip_ns(),
            };
            congestion.on_acknowledged(&mut active.window, by);
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
        if record.state == State::FinWait2 {
            self.limit_fin_wait(number);
        }
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

    /// Whether all but our FIN is acknowledged.
    pub(crate) fn has_sent_all(&self, number: u32) -> bool {
        let record = &self.tables.records[number];
        record.has(flag::FIN_SENT) && self.next_sequence(number) == record.snd_una + 1
    }

    /// Whether both ends have sent their last byte, and it is acknowledged.
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
        if record.has(flag::ACK_NOW) {
            // It acknowledges the FIN that is answered last.
            self.send_acknowledgement(number, effects);
        }
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
    /// The round trip that an acknowledgement shows: RFC 6298, 3.
    fn measure_round_trip(&mut self, record: &mut Record, segment: &Segment<'_>, now_ms: u32) {
        match self.timed {
            Some((end, sent)) if !segment.acknowledgement.is_before(end) => {
                record.measure(segment.at.saturating_sub(sent));
                self.timed = None;
            }
            // What was sent again has a round trip by its timestamp: RFC 7323, 4.1.
            None if self.phase != Phase::Open => {
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
    }

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
                self.recover = record.snd_una;
                self.scoreboard.begin(record.snd_una);
                self.ready += 1;
            }
            _ => self.resend_all(),
        }
    }

    /// The peer has a block: RFC 2018, 4.
    fn take_block(
        &mut self,
        una: SeqNumber,
        (start, end): (SeqNumber, SeqNumber),
        lists: &mut Lists<Run>,
        news: &mut News,
    ) {
        let is_within = start.is_before(end)
            && !start.is_before(una)
            && !end.is_after(self.snd_nxt)
            && end.bytes_from(start) <= self.snd_nxt.bytes_from(una);
        if is_within {
            let has_news = self
                .scoreboard
                .arrive((start, end), lists, |it| news.see(it));
            news.has_blocks |= has_news;
        }
    }
}
