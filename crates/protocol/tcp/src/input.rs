//! Segments of a connection: RFC 9293, 3.10.7.3 (SYN-SENT) and 3.10.7.4 (all others), with the
//! checks of RFC 5961 (RST, SYN and ACK that were guessed) and RFC 7323, 5 (PAWS).

use lineside_frame::Chunk;
use lineside_wire::{SeqNumber, TcpFlags};

use crate::effects::{Closed, ConnectionId, Effects, Event};
use crate::listen::{AGE_UNIT_S, age};
use crate::reassembly::add_duplicate;
use crate::receive::Segment;
use crate::record::{State, flag};
use crate::scoreboard::earlier;
use crate::stack::Stack;

/// A timestamp that is older than 24 days says nothing: RFC 7323, 5.5.
const TIMESTAMP_AGE_MAX: u16 = (24 * 86_400 / AGE_UNIT_S) as u16;
/// Challenge ACKs of a second: Linux's tcp_challenge_ack_limit of old. RFC 5961, 7.
const CHALLENGES_MAX: u32 = 1000;

impl Stack {
    pub(crate) fn on_connection_segment(
        &mut self,
        number: u32,
        segment: &Segment<'_>,
        effects: &mut impl Effects,
    ) {
        if self.tables.records[number].state == State::SynSent {
            self.on_syn_sent(number, segment, effects);
            return;
        }
        let mut trimmed;
        let mut segment = segment;
        if self.is_repeated_syn(number, segment) {
            if !segment.has(TcpFlags::ACK) {
                // Our answer was lost.
                self.counters.unacceptable += 1;
                self.send_syn_again(number, effects);
                return;
            }
            // A simultaneous open: the SYN had come, the acknowledgement is new.
            trimmed = *segment;
            trimmed.sequence += 1;
            trimmed.flags = TcpFlags(segment.flags.0 & !TcpFlags::SYN.0);
            segment = &trimmed;
        }
        if !self.passes_checks(number, segment, effects) {
            self.report_duplicate(number, effects);
            return;
        }
        let is_received = self.tables.records[number].state == State::SynReceived;
        if is_received && !self.is_established_by(number, segment, effects) {
            return;
        }
        if !self.on_acknowledgement(number, segment, effects) {
            return;
        }
        self.take_timestamp(number, segment);
        self.counters.taken += 1;
        // It may have ended the connection.
        if self.tables.records[number].state != State::Closed {
            self.on_text(number, segment, effects);
            self.settle_after(number, effects);
        }
    }

    /// What is left to be done waits for the end of the burst, but for what must leave at once.
    fn settle_after(&mut self, number: u32, effects: &mut impl Effects) {
        self.report_duplicate(number, effects);
        let record = &self.tables.records[number];
        if record.state == State::Closed {
            return;
        }
        if self.is_finished(number) {
            self.finish(number, effects);
            return;
        }
        if record.has(flag::ACK_NOW) || record.active().is_some() {
            self.touch(number);
        }
    }

    /// Whether it is the SYN that the connection began with, in SYN-RECEIVED.
    fn is_repeated_syn(&self, number: u32, segment: &Segment<'_>) -> bool {
        let record = &self.tables.records[number];
        record.state == State::SynReceived
            && segment.has(TcpFlags::SYN)
            && !segment.has(TcpFlags::RST)
            && segment.sequence + 1 == record.rcv_nxt
    }

    /// RFC 9293, 3.10.7.3.
    fn on_syn_sent(&mut self, number: u32, segment: &Segment<'_>, effects: &mut impl Effects) {
        let has_ack = segment.has(TcpFlags::ACK);
        let record = &self.tables.records[number];
        let is_ours = segment.acknowledgement == record.iss + 1;
        if has_ack && !is_ours {
            if segment.has(TcpFlags::RST) {
                self.counters.resets_ignored += 1;
            } else {
                self.counters.challenged += 1;
                self.refuse(segment, effects);
            }
            return;
        }
        if segment.has(TcpFlags::RST) {
            if has_ack {
                self.counters.resets += 1;
                self.end(number, Closed::Refused, effects);
            } else {
                self.counters.resets_ignored += 1;
            }
            return;
        }
        if !segment.has(TcpFlags::SYN) {
            self.counters.without_ack += 1;
            return;
        }
        self.counters.taken += 1;
        self.take_syn(number, segment);
        if has_ack {
            self.establish(number, segment, effects);
            self.acknowledge_now(number);
            // What the answer carries is taken: RFC 9293, 3.10.7.3, fourth.
            let window = self.syn_window();
            let record = &mut self.tables.records[number];
            record.rcv_adv = record.rcv_nxt + window;
            let mut text = *segment;
            text.sequence += 1;
            self.on_text(number, &text, effects);
            self.settle_after(number, effects);
            return;
        }
        // Both opened at once: RFC 9293, 3.5, figure 7.
        self.tables.records[number].state = State::SynReceived;
        self.both(number).1.timeouts = 0;
        self.send_syn(number, effects);
    }

    /// The peer acknowledged our SYN.
    fn establish(&mut self, number: u32, segment: &Segment<'_>, effects: &mut impl Effects) {
        let (record, active) = self.both(number);
        if let Some((_, sent)) = active.timed.take() {
            record.measure(segment.at.saturating_sub(sent));
        }
        record.snd_una = record.iss + 1;
        let is_half_open = record.state == State::SynReceived && record.has(flag::PASSIVE);
        record.state = State::Established;
        active.retransmission = crate::record::Retransmission::Off;
        if active.timeouts > 0 {
            // RFC 6928, 2 and RFC 5681, 3.1: a SYN that was lost makes the first window small.
            active.window.cwnd = active.window.mss;
            record.be_patient();
        }
        active.timeouts = 0;
        active.recover = record.snd_una;
        let owner = record.owner;
        self.half_open -= u32::from(is_half_open);
        let ends = segment.ends;
        effects.on_event(ConnectionId(number), owner, Event::Opened { ends });
    }

    /// In SYN-RECEIVED: whether this segment's acknowledgement is that of our SYN.
    fn is_established_by(
        &mut self,
        number: u32,
        segment: &Segment<'_>,
        effects: &mut impl Effects,
    ) -> bool {
        let record = &self.tables.records[number];
        if segment.acknowledgement != record.iss + 1 {
            self.counters.challenged += 1;
            self.refuse(segment, effects);
            return false;
        }
        self.establish(number, segment, effects);
        let (record, active) = self.both(number);
        record.snd_wnd = segment.window;
        active.snd_wnd_max = active.snd_wnd_max.max(record.send_window());
        (active.snd_wl1, active.snd_wl2) = (segment.sequence, segment.acknowledgement);
        true
    }

    /// The checks before a segment is believed. What they drop is counted and answered.
    fn passes_checks(
        &mut self,
        number: u32,
        segment: &Segment<'_>,
        effects: &mut impl Effects,
    ) -> bool {
        if !self.passes_timestamps(number, segment) {
            return false;
        }
        let record = &self.tables.records[number];
        let (nxt, end) = (record.rcv_nxt, record.rcv_adv);
        let is_reset = segment.has(TcpFlags::RST);
        if !is_acceptable(segment.sequence, segment.sequence_len(), nxt, end) {
            self.counters.unacceptable += 1;
            let bytes = u64::from(segment.len);
            self.counters.bytes_received += bytes;
            match segment.sequence.is_before(nxt) {
                true => {
                    self.counters.bytes_duplicate += bytes;
                    self.note_duplicate(segment, nxt);
                }
                false => self.counters.bytes_refused += bytes,
            }
            if !is_reset {
                self.acknowledge_now(number);
            }
            return false;
        }
        if is_reset {
            if segment.sequence != nxt && self.config.resets_exact {
                // RFC 5961, 3.2.
                self.counters.challenged += 1;
                self.challenge(number);
                return false;
            }
            self.counters.resets += 1;
            let why = match record.state {
                State::SynReceived => Closed::Refused,
                // The peer had sent its last byte and has forgotten us: RFC 9293, 3.10.7.4, second.
                State::Closing | State::LastAck if self.has_sent_all(number) => Closed::Finished,
                _ => Closed::Reset,
            };
            self.end(number, why, effects);
            return false;
        }
        if segment.has(TcpFlags::SYN) {
            if record.state == State::SynReceived && record.has(flag::PASSIVE) {
                // RFC 9293, 3.10.7.4, fourth: back to LISTEN. RFC 5961, 4 is about synchronized
                // states. The peer began anew, and its SYN will come again.
                self.counters.half_open_ended += 1;
                self.end(number, Closed::Refused, effects);
                return false;
            }
            self.counters.challenged += 1;
            if self.config.syn_challenged {
                // RFC 5961, 4.2.
                self.challenge(number);
            } else {
                // RFC 793, 3.9.
                self.send_reset_of(number, effects);
                self.end(number, Closed::Reset, effects);
            }
            return false;
        }
        if !segment.has(TcpFlags::ACK) {
            self.counters.without_ack += 1;
            return false;
        }
        true
    }

    /// RFC 7323, 5.3, R1; 3.2 for a segment without a timestamp.
    fn passes_timestamps(&mut self, number: u32, segment: &Segment<'_>) -> bool {
        let record = &self.tables.records[number];
        if !record.has(flag::TIMESTAMPS) || segment.has(TcpFlags::RST) {
            return true;
        }
        let Some((value, _)) = segment.options.timestamps else {
            self.counters.without_timestamp += 1;
            return false;
        };
        let now = age(self.now);
        let is_older = value.wrapping_sub(record.ts_recent).cast_signed() < 0;
        let is_outdated = now.wrapping_sub(record.ts_recent_at) > TIMESTAMP_AGE_MAX;
        if is_older && !is_outdated {
            self.counters.paws += 1;
            let nxt = record.rcv_nxt;
            self.note_duplicate(segment, nxt);
            self.acknowledge_now(number);
            return false;
        }
        true
    }

    /// The timestamp that is echoed from now on, of a segment that passed all checks: who guesses
    /// only ports would else have the peer's own segments taken for old ones.
    fn take_timestamp(&mut self, number: u32, segment: &Segment<'_>) {
        let record = &mut self.tables.records[number];
        let Some((value, _)) = segment.options.timestamps else {
            return;
        };
        // Of several that one acknowledgement answers, the first is echoed: RFC 7323, 4.3.
        let is_next = !segment.sequence.is_after(record.rcv_nxt);
        if record.has(flag::TIMESTAMPS) && is_next && !record.has(flag::ACK_DELAYED) {
            (record.ts_recent, record.ts_recent_at) = (value, age(self.now));
        }
    }

    /// An acknowledgement leaves when the burst is over.
    pub(crate) fn acknowledge_now(&mut self, number: u32) {
        self.tables.records[number].set(flag::ACK_NOW);
        self.touch(number);
    }

    /// The peer is to show that it means what it sent; strangers are not to learn much from how
    /// often that happens: RFC 5961, 7.
    pub(crate) fn challenge(&mut self, number: u32) {
        let second = self.now / 1_000_000_000;
        if self.challenges.0 != second {
            // A number that changes: CVE-2016-5696 counted those of a fixed one.
            let some = crate::siphash::siphash(self.secret, &second.to_le_bytes()) as u32;
            self.challenges = (second, CHALLENGES_MAX / 2 + some % CHALLENGES_MAX);
        }
        if self.challenges.1 == 0 {
            self.counters.challenges_held_back += 1;
            return;
        }
        self.challenges.1 -= 1;
        self.counters.challenges += 1;
        self.acknowledge_now(number);
    }

    /// Data and FIN: RFC 9293, 3.10.7.4, seventh and eighth.
    fn on_text(&mut self, number: u32, segment: &Segment<'_>, effects: &mut impl Effects) {
        let record = &self.tables.records[number];
        let (nxt, limit) = (record.rcv_nxt, record.rcv_adv);
        self.counters.bytes_received += u64::from(segment.len);
        let is_more = segment.len > 0 && (segment.sequence + segment.len).is_after(nxt);
        if is_more && record.has(flag::CLOSED) {
            // Nobody takes it, and the peer is to know: RFC 9293, 3.6.1.
            self.counters.bytes_refused += u64::from(segment.len);
            self.send_reset_of(number, effects);
            self.end(number, Closed::Aborted, effects);
            return;
        }
        if !record.state.receives() {
            // After its FIN a peer has nothing more: RFC 9293, 3.10.7.4.
            self.counters.bytes_refused += u64::from(segment.len);
            if segment.len > 0 || segment.has(TcpFlags::FIN) {
                self.acknowledge_now(number);
            }
            return;
        }
        self.take_mark(number, segment);
        // What came before, and what lies beyond the window.
        let front = nxt.distance_from(segment.sequence).max(0) as u32;
        let front = front.min(segment.len);
        let start = segment.sequence + front;
        let room = limit.distance_from(start).max(0) as u32;
        let len = (segment.len - front).min(room);
        let beyond = segment.len - front - len;
        self.counters.bytes_duplicate += u64::from(front);
        self.counters.bytes_refused += u64::from(beyond);
        let fin = segment.has(TcpFlags::FIN) && beyond == 0;
        let end = segment.sequence + segment.len;
        if front > 0 || beyond > 0 {
            self.acknowledge_now(number);
            self.note_duplicate(segment, nxt);
        }
        if start.is_after(nxt) {
            let text = (start, len, segment.payload + front as usize);
            self.on_disordered(number, segment, text, fin.then_some(end), effects);
            return;
        }
        if len > 0 {
            let had_gap = self.has_gap(number);
            let at = segment.payload + front as usize;
            let chunk = Chunk::of_frame(segment.frame, at, len as usize);
            self.deliver(number, chunk, effects);
            self.deliver_held(number, effects);
            self.acknowledge_text(number, had_gap);
        }
        let record = &self.tables.records[number];
        let held_fin = { record.active() }.and_then(|active| self.tables.actives[active].fin_at());
        let fin_at = fin.then_some(end).or(held_fin);
        if fin_at == Some(self.tables.records[number].rcv_nxt) {
            self.on_fin(number, effects);
        }
    }

    /// What of a segment's data lies before the next byte was received before.
    fn note_duplicate(&mut self, segment: &Segment<'_>, nxt: SeqNumber) {
        let end = earlier(segment.sequence + segment.len, nxt);
        if end.is_after(segment.sequence) {
            self.duplicate = Some((segment.sequence, end));
        }
    }

    /// What came twice is reported at once, each time: RFC 2883, 4.
    fn report_duplicate(&mut self, number: u32, effects: &mut impl Effects) {
        let record = &self.tables.records[number];
        if self.duplicate.is_some() && record.state.is_synchronized() && record.has(flag::SACK) {
            self.send_acknowledgement(number, effects);
        }
        self.duplicate = None;
    }

    /// Data or a FIN after a gap: held, and the peer hears at once (RFC 5681, 4.2).
    fn on_disordered(
        &mut self,
        number: u32,
        segment: &Segment<'_>,
        (start, len, offset): (SeqNumber, u32, usize),
        fin_at: Option<SeqNumber>,
        effects: &mut impl Effects,
    ) {
        self.activate(number);
        let Some(place) = self.tables.records[number].active() else {
            self.counters.bytes_refused += u64::from(len);
            self.acknowledge_now(number);
            return;
        };
        let (held, duplicate) = self.hold(place, segment.frame, offset, (start, len));
        self.counters.bytes_held += u64::from(held);
        self.counters.bytes_duplicate += u64::from(duplicate);
        self.counters.bytes_refused += u64::from(len - held - duplicate);
        if fin_at.is_some() {
            self.tables.actives[place].rare_mut().fin_at = fin_at;
        }
        self.send_acknowledgement(number, effects);
    }

    fn has_gap(&self, number: u32) -> bool {
        let active = self.tables.records[number].active();
        active.is_some_and(|active| !self.tables.actives[active].held().is_empty())
    }

    fn deliver(&mut self, number: u32, chunk: Chunk<'_>, effects: &mut impl Effects) {
        let record = &mut self.tables.records[number];
        record.rcv_nxt += chunk.len() as u32;
        self.counters.bytes_delivered += chunk.len() as u64;
        let owner = record.owner;
        if let Some(active) = record.active().filter(|_| record.has(flag::WINDOW_SET)) {
            let rare = self.tables.actives[active].rare_mut();
            rare.rcv_wnd = rare.rcv_wnd.saturating_sub(chunk.len() as u32);
        }
        effects.on_event(ConnectionId(number), owner, Event::Stream(chunk));
    }

    /// What the gap had kept back.
    fn deliver_held(&mut self, number: u32, effects: &mut impl Effects) {
        let Some(place) = self.tables.records[number].active() else {
            return;
        };
        loop {
            let nxt = self.tables.records[number].rcv_nxt;
            let Some(part) = self.take_held(place, nxt) else {
                return;
            };
            let len = part.range.len() as u32;
            let front = (nxt.bytes_from(part.start)).min(len);
            self.counters.bytes_held -= u64::from(len);
            self.counters.bytes_duplicate += u64::from(front);
            if front > 0 {
                // What filled the gap reached into it.
                add_duplicate(&mut self.duplicate, (part.start, part.start + front));
            }
            if front < len {
                let rest = part.range.part(front as usize, (len - front) as usize);
                self.deliver(number, rest.chunk(), effects);
            }
        }
    }

    /// Every second segment is acknowledged at once, and each that fills a gap: RFC 9293, 3.8.6.3;
    /// RFC 5681, 4.2.
    fn acknowledge_text(&mut self, number: u32, had_gap: bool) {
        let at = self.now.saturating_add(self.config.delayed_ack_ns);
        let record = &mut self.tables.records[number];
        if had_gap || record.has(flag::ACK_DELAYED) {
            record.set(flag::ACK_NOW);
            return;
        }
        record.set(flag::ACK_DELAYED);
        match record.active() {
            None => self.set_timer(number, Some(at)),
            // The end of the burst sets its timer.
            Some(active) => self.tables.actives[active].ack_at = at,
        }
    }

    fn on_fin(&mut self, number: u32, effects: &mut impl Effects) {
        let record = &mut self.tables.records[number];
        record.rcv_nxt += 1;
        record.set(flag::FIN_RECEIVED);
        record.state = match record.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            state => state,
        };
        let owner = record.owner;
        if let Some(active) = record.active() {
            let active = &mut self.tables.actives[active];
            if active.fin_at().is_some() {
                active.rare_mut().fin_at = None;
            }
        }
        self.acknowledge_now(number);
        effects.on_event(ConnectionId(number), owner, Event::Ended);
    }
}

/// RFC 9293, 3.10.7.4, table 6: whether a segment has a part in the window `nxt..end`. By the table
/// one that begins before the window and ends after it has none, which nobody can have meant.
fn is_acceptable(sequence: SeqNumber, len: u32, nxt: SeqNumber, end: SeqNumber) -> bool {
    let is_within = |number: SeqNumber| !number.is_before(nxt) && number.is_before(end);
    match (len, nxt == end) {
        (0, true) => sequence == nxt,
        (0, false) => is_within(sequence),
        // Its acknowledgement counts all the same, and its text is refused: RFC 9293, 3.10.7.4.
        (_, true) => sequence == nxt,
        (len, false) => sequence.is_before(end) && (sequence + len).is_after(nxt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptable_is_what_the_table_says() {
        let n = SeqNumber;
        for (sequence, len, window, expected) in [
            (100, 0, 0, true),
            (101, 0, 0, false),
            (100, 1, 0, true),
            (101, 1, 0, false),
            (100, 0, 10, true),
            (109, 0, 10, true),
            (110, 0, 10, false),
            (99, 0, 10, false),
            (90, 10, 10, false),
            (90, 11, 10, true),
            (90, 50, 10, true),
            (109, 500, 10, true),
            (110, 1, 10, false),
        ] {
            let found = is_acceptable(n(sequence), len, n(100), n(100 + window));
            assert_eq!(found, expected, "{sequence} {len} {window}");
        }
    }
}
