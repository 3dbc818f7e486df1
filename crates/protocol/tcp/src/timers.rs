//! What happens when nothing arrives: the retransmission timer of RFC 6298, 5.4 to 5.7, those of
//! RFC 8985 before it, probes of a closed window (RFC 9293, 3.8.6.1), delayed acknowledgements
//! (3.8.6.3), and TIME_WAIT.

use lineside_time::Nanoseconds;
use lineside_wire::TcpFlags;
use lineside_wire::build::TcpFields;

use crate::effects::{Closed, Effects, Why};
use crate::receive::Segment;
use crate::record::{Phase, Retransmission, State, flag};
use crate::recovery::{Frto, Sooner, Undo};
use crate::stack::Stack;
use crate::tables::wait_until;

/// After this many timeouts the way to the peer is doubted: RFC 9293, 3.8.3, R1.
const TIMEOUTS_DOUBTED: u8 = 3;

impl Stack {
    /// A connection's timer fired.
    pub(crate) fn on_connection_timer(&mut self, number: u32, effects: &mut impl Effects) {
        let now = self.now;
        let record = &mut self.tables.records[number];
        let active = record.active().map(|active| &self.tables.actives[active]);
        let limit = active.and_then(|active| active.limit(record, self.config.user_timeout_ns));
        if limit.is_some_and(|limit| limit <= now) {
            self.give_up(number, effects);
            return;
        }
        let is_ack_due = active.is_none_or(|active| active.ack_at <= now);
        let retransmission = match active {
            Some(active) => active.retransmission,
            // A connection at rest has a timer for nothing else.
            None if record.has(flag::ACK_DELAYED) => Retransmission::Off,
            None => match self.config.keep_alive_ns {
                Some(_) => Retransmission::KeepAlive(now),
                None => Retransmission::Off,
            },
        };
        if record.has(flag::ACK_DELAYED) && is_ack_due {
            record.set(flag::ACK_NOW);
        }
        let sooner = active.map_or(Sooner::Off, |active| active.sooner);
        let is_over = matches!(sooner.at(), Some(at) if at <= now);
        match sooner {
            Sooner::LossProbe(_) if is_over => self.on_loss_probe(number, effects),
            Sooner::Reordering(_) if is_over => self.on_reordering_timer(number),
            _ => {}
        }
        match retransmission {
            // A probe of the tail takes its place.
            Retransmission::Timeout(_) if is_over => {}
            Retransmission::Timeout(at) if at <= now => self.on_timeout(number, effects),
            Retransmission::Probe(at) if at <= now => self.on_probe(number, effects),
            Retransmission::KeepAlive(at) if at <= now => self.on_keep_alive(number, effects),
            Retransmission::Over(at) if at <= now => self.end(number, Closed::TimedOut, effects),
            _ => {}
        }
        if self.tables.records[number].state != State::Closed {
            self.output(number, Why::HeldBack, None, effects);
        }
    }

    /// Nothing was acknowledged for this long: what is in flight is taken for lost.
    fn on_timeout(&mut self, number: u32, effects: &mut impl Effects) {
        self.counters.timeouts += 1;
        let now = self.now;
        let (retries_max, congestion) = (self.config.retries_max, self.config.congestion);
        let syn_retries_max = self.config.syn_retries_max;
        let (record, active) = self.both(number);
        let is_syn = !record.state.is_synchronized();
        let most = if is_syn { syn_retries_max } else { retries_max };
        if active.timeouts >= most {
            self.give_up(number, effects);
            return;
        }
        let is_first = active.timeouts == 0;
        active.timeouts += 1;
        if is_syn {
            self.send_syn_again(number, effects);
            return;
        }
        let flight = active.snd_nxt.bytes_from(record.snd_una);
        let is_open = active.phase == Phase::Open;
        let undo = Undo::new(record.snd_una, active.window);
        let known = &mut active.rare_mut().undo;
        if is_open || known.is_none() {
            *known = Some(undo);
        }
        congestion.on_timeout(&mut active.window, flight, is_first);
        if active.timeouts == TIMEOUTS_DOUBTED {
            self.doubt_next_hop(number);
        }
        // Another connection may have met what the path bears.
        self.fit_path(number);
        let (record, active, lists) = self.parts(number);
        active.lose_by_timeout(record, now, lists);
        active.lose();
        if is_first && is_open {
            active.frto = Frto::First;
        }
        let at = now.saturating_add(self.rto(number));
        self.both(number).1.retransmission = Retransmission::Timeout(at);
    }

    /// The neighbour on the way to the peer may have another Ethernet address by now.
    fn doubt_next_hop(&mut self, number: u32) {
        let path = &self.tables.paths[self.tables.records[number].path];
        if let Some(next_hop) = self.config.next_hop(path.remote) {
            self.neighbours.doubt(self.now, next_hop);
        }
    }

    /// The window is still closed, as far as is known.
    fn on_probe(&mut self, number: u32, effects: &mut impl Effects) {
        let retries_max = self.config.retries_max;
        let (record, active) = self.both(number);
        active.retransmission = Retransmission::Off;
        // It is open, only small: RFC 9293, 3.8.6.2.1.
        if active.snd_nxt == record.snd_una && active.usable(record) > 0 {
            self.send_small(number, effects);
            return;
        }
        // As long as it answers, it may stay closed for ever; without an answer it is given up.
        if active.unanswered >= retries_max {
            self.give_up(number, effects);
            return;
        }
        active.timeouts = active.timeouts.saturating_add(1);
        active.unanswered += 1;
        self.send_probe(number, effects);
    }

    /// Nothing was heard of the peer for long.
    fn on_keep_alive(&mut self, number: u32, effects: &mut impl Effects) {
        let at = self.now.saturating_add(self.config.keep_alive_interval_ns);
        let probes_max = self.config.keep_alive_probes_max;
        let Some(active) = self.activate(number) else {
            self.set_timer(number, Some(at));
            return;
        };
        if active.unanswered >= probes_max {
            self.give_up(number, effects);
            return;
        }
        active.unanswered += 1;
        active.retransmission = Retransmission::KeepAlive(at);
        self.send_keep_alive(number, effects);
    }

    /// The peer is gone.
    fn give_up(&mut self, number: u32, effects: &mut impl Effects) {
        self.counters.given_up += 1;
        if self.tables.records[number].state.is_synchronized() {
            self.send_reset_of(number, effects);
        }
        self.end(number, Closed::TimedOut, effects);
    }

    /// When the next connection leaves TIME_WAIT.
    pub(crate) fn next_wait_end(&self) -> Option<Nanoseconds> {
        let first = self.tables.first_wait()?;
        let until = self.tables.time_waits[first].until & !1;
        let began = self.began?;
        // What is stored has 32 bits; the end is less than 2^31 ms away.
        let now_ms = self.age_ms() as u32;
        let ahead = until.wrapping_sub(now_ms).cast_signed();
        let now_ms = self.age_ms();
        Some(began + (now_ms + i64::from(ahead)) * 1_000_000)
    }

    pub(crate) fn end_waits(&mut self) {
        while self.next_wait_end().is_some_and(|end| end <= self.now) {
            if let Some(first) = self.tables.first_wait() {
                self.tables.end_wait(first);
            }
        }
    }

    /// A segment for a connection in TIME_WAIT: RFC 9293, 3.10.7.4; a new connection by RFC 6191,
    /// 2; no RST ends it (RFC 1337, 3).
    pub(crate) fn on_wait_segment(
        &mut self,
        number: u32,
        segment: &Segment<'_>,
        effects: &mut impl Effects,
    ) {
        let wait = self.tables.time_waits[number];
        if segment.has(TcpFlags::RST) {
            self.counters.resets_ignored += 1;
            return;
        }
        let has_timestamps = wait.until & 1 != 0;
        let is_newer = match segment.options.timestamps.filter(|_| has_timestamps) {
            Some((value, _)) => value.wrapping_sub(wait.ts_recent).cast_signed() > 0,
            None => segment.sequence.is_after(wait.rcv_nxt),
        };
        let is_syn = segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::ACK);
        let (local, port) = segment.ends[0];
        if is_syn && is_newer && self.listeners.owner(local, port).is_some() {
            self.counters.time_wait_recycled += 1;
            self.tables.end_wait(number);
            self.on_stray(segment, Some(wait.snd_nxt), effects);
            return;
        }
        self.counters.in_time_wait += 1;
        let ahead = segment.sequence.bytes_from(wait.rcv_nxt);
        if !segment.has(TcpFlags::ACK) && !segment.has(TcpFlags::SYN) && ahead < u16::MAX.into() {
            // RFC 9293, 3.10.7.4, fifth.
            return;
        }
        if segment.has(TcpFlags::FIN) {
            let began = self.began.unwrap_or(self.now);
            let until = self.now.saturating_add(self.config.time_wait_ns);
            let until = wait_until(began, until, has_timestamps);
            self.tables.wait_again(number, until);
        }
        // What is new to nobody is not answered: two ends in TIME_WAIT would talk for ever.
        if segment.sequence_len() == 0 && segment.sequence == wait.rcv_nxt {
            return;
        }
        let mut options = crate::options::Emitted::new();
        if has_timestamps {
            options.timestamps(self.timestamp(), wait.ts_recent);
        }
        let fields = TcpFields {
            source_port: wait.local_port,
            destination_port: wait.remote_port,
            sequence: wait.snd_nxt.0,
            acknowledgement: wait.rcv_nxt.0,
            flags: TcpFlags::ACK,
            window: u16::MAX,
            options: options.bytes(),
        };
        let ends = self.ends_of(wait.path);
        self.send_bare(ends, &fields, effects);
    }
}
