//! What a connection sends: RFC 9293, 3.8.6.2.1 (silly windows) and 3.7.4 (Nagle); RFC 7323, 2.3
//! (windows). What is lost leaves before what is new: RFC 6675, 5.

use lineside_wire::build::TcpFields;
use lineside_wire::{PROTOCOL_TCP, SeqNumber, TcpFlags};
use std::net::IpAddr;

use crate::effects::{ConnectionId, Departure, Effects, Why};
use crate::leave::Packet;
use crate::lists::Lists;
use crate::options::Emitted;
use crate::record::{Active, Phase, Record, Retransmission, State, flag};
use crate::recovery::Frto;
use crate::scoreboard::{Run, earlier};
use crate::stack::Stack;
use lineside_time::Nanoseconds;

/// Payload and FIN of a segment.
#[derive(Debug, Clone, Copy)]
struct Cut {
    start: SeqNumber,
    len: u32,
    fin: bool,
    push: bool,
}

impl Stack {
    /// Sends what may be sent: what is lost, what is new, and an acknowledgement if neither carried
    /// it. `why` and `due` are those of new data.
    pub(crate) fn output(
        &mut self,
        number: u32,
        why: Why,
        due: Option<Nanoseconds>,
        effects: &mut impl Effects,
    ) {
        let record = &self.tables.records[number];
        if let Some(place) = record.active()
            && record.state.is_synchronized()
        {
            let active = &self.tables.actives[place];
            if active.may_send(record) {
                if active.frto == Frto::SendsNew {
                    self.send_new_after_timeout(number, effects);
                }
                self.send_lost(number, effects);
                self.send_new(number, why, due, effects);
            }
            self.arm(number);
        }
        if self.tables.records[number].has(flag::ACK_NOW) {
            self.send_acknowledgement(number, effects);
        }
        self.settle(number);
    }

    /// A connection's records, of one that has both.
    pub(crate) fn both(&mut self, number: u32) -> (&mut Record, &mut Active) {
        let record = &mut self.tables.records[number];
        let active = &mut self.tables.actives[record.place];
        (record, active)
    }

    /// Sends again what is lost, as far as the congestion window allows.
    fn send_lost(&mut self, number: u32, effects: &mut impl Effects) {
        loop {
            let (record, active) = self.both(number);
            let Some((start, end)) = active.scoreboard.first_lost() else {
                return;
            };
            let has_room = active.pipe(record) + active.window.mss <= active.window.cwnd;
            if active.frto == Frto::Waits || !has_room && !active.must_send {
                return;
            }
            active.must_send = false;
            let cut = active.cut_again(record, start, end);
            let (phase, is_head) = (active.phase, start == record.snd_una);
            active.count_again(cut.len + u32::from(cut.fin));
            match phase {
                Phase::Loss => self.counters.retransmitted_timeout += 1,
                _ => self.counters.retransmitted_fast += 1,
            }
            self.send_again(number, cut, effects);
            if is_head {
                // It has as long as any other segment, as Linux gives it.
                let at = self.now.saturating_add(self.rto(number));
                self.both(number).1.retransmission = Retransmission::Timeout(at);
            }
        }
    }

    /// Sends what was sent before.
    fn send_again(&mut self, number: u32, cut: Cut, effects: &mut impl Effects) {
        let now = self.now;
        let (_, active, lists) = self.parts(number);
        let len = cut.len + u32::from(cut.fin);
        let range = (cut.start, cut.start + len);
        active.scoreboard.resend(range, now, lists);
        active.count_in_recovery(len);
        active.timed = None;
        self.counters.retransmitted += 1;
        self.send_cut(number, cut, Why::Retransmission, None, effects);
    }

    /// The first segment after a timeout was acknowledged: new data show whether the others are
    /// lost. Without any they are taken for it. RFC 5682, 2.1, step 2.
    fn send_new_after_timeout(&mut self, number: u32, effects: &mut impl Effects) {
        let before = self.both(number).1.snd_nxt;
        self.send_new(number, Why::HeldBack, None, effects);
        let active = self.both(number).1;
        active.frto = match active.snd_nxt == before {
            true => Frto::Off,
            false => Frto::Waits,
        };
    }

    /// Sends a segment of new data as a probe of the tail, if there are any: RFC 8985, 7.3.
    pub(crate) fn send_new_probe(&mut self, number: u32, effects: &mut impl Effects) -> bool {
        let now = self.now;
        let (record, active, lists) = self.parts(number);
        let wanted = active.ready_len().min(active.payload_max(record));
        if wanted == 0 || wanted > active.usable(record) {
            return false;
        }
        let cut = active.new_data(wanted);
        active.count_as_sent(record, cut, now, lists);
        self.send_cut(number, cut, Why::HeldBack, None, effects);
        true
    }

    /// Sends the end of what is in flight again, as a probe of the tail.
    pub(crate) fn send_last_again(&mut self, number: u32, effects: &mut impl Effects) {
        let (record, active) = self.both(number);
        let len = active.snd_nxt.bytes_from(record.snd_una);
        let start = active.snd_nxt - len.min(active.payload_max(record));
        let cut = active.cut_again(record, start, active.snd_nxt);
        self.counters.retransmitted_tlp += 1;
        self.send_again(number, cut, effects);
    }

    fn send_new(
        &mut self,
        number: u32,
        why: Why,
        due: Option<Nanoseconds>,
        effects: &mut impl Effects,
    ) {
        let nagle = self.config.nagle;
        let now = self.now;
        let (record, active) = self.both(number);
        if active.is_cramped(record) {
            self.fit_path(number);
        }
        loop {
            let (record, active, lists) = self.parts(number);
            let nagle = nagle && !record.has(flag::NO_DELAY);
            let Some(cut) = active.cut_new(record, nagle) else {
                return;
            };
            active.count_as_sent(record, cut, now, lists);
            let why = if cut.len == 0 { Why::Fin } else { why };
            self.send_cut(number, cut, why, due, effects);
        }
    }

    /// Sends bytes into a window that is too small to be used otherwise: RFC 9293, 3.8.6.2.1, (4).
    pub(crate) fn send_small(&mut self, number: u32, effects: &mut impl Effects) {
        let now = self.now;
        let (record, active, lists) = self.parts(number);
        let len = (active.usable(record).min(active.window.mss)).min(active.ready_len());
        if len == 0 {
            return;
        }
        let cut = active.new_data(len);
        active.count_as_sent(record, cut, now, lists);
        self.send_cut(number, cut, Why::HeldBack, None, effects);
    }

    /// The retransmission timer runs while something is in flight, the other one while a window is
    /// closed: RFC 6298, 5.1 and 5.2.
    fn arm(&mut self, number: u32) {
        let (now, config) = (self.now, &self.config);
        let record = &self.tables.records[number];
        let active = &mut self.tables.actives[record.place];
        let at = |active: &Active| now.saturating_add(record.rto_ns(config, active.timeouts));
        let in_flight = active.snd_nxt != record.snd_una;
        let is_held_back = active.ready > 0;
        let is_closed = record.send_window() == 0;
        let retransmits = in_flight && !is_closed;
        let probes = !retransmits && (in_flight || is_held_back);
        active.retransmission = match active.retransmission {
            Retransmission::Timeout(at) if retransmits => Retransmission::Timeout(at),
            Retransmission::Probe(at) if probes => Retransmission::Probe(at),
            _ if retransmits => Retransmission::Timeout(at(active)),
            _ if probes => Retransmission::Probe(at(active)),
            waits @ (Retransmission::KeepAlive(_) | Retransmission::Over(_)) => waits,
            _ => Retransmission::Off,
        };
        active.arm_probe(record, now);
    }

    /// The retransmission timeout of an active connection.
    pub(crate) fn rto(&self, number: u32) -> Nanoseconds {
        let record = &self.tables.records[number];
        let timeouts = self.tables.actives[record.place].timeouts;
        record.rto_ns(&self.config, timeouts)
    }

    /// The window that may be offered now, rounded as the shift demands; what was offered stays.
    pub(crate) fn window_to_offer(&self, number: u32) -> u32 {
        let record = &self.tables.records[number];
        let wanted = match record.active().filter(|_| record.has(flag::WINDOW_SET)) {
            Some(active) => { self.tables.actives[active].rare() }.map_or(0, |rare| rare.rcv_wnd),
            None => self.config.receive_window_bytes,
        };
        let offered = record.rcv_adv.distance_from(record.rcv_nxt).max(0) as u32;
        let scale = record.receive_scale();
        // Not less than was offered: RFC 9293, 3.8.6.
        let rounded_up = (offered + (1 << scale) - 1) >> scale;
        let units = (wanted >> scale).max(rounded_up);
        units.min(65_535) << scale
    }

    /// The window that a SYN offers.
    pub(crate) fn syn_window(&self) -> u32 {
        self.config.receive_window_bytes.min(65_535)
    }

    /// The clock of timestamps, in milliseconds: RFC 7323, 5.4.
    pub(crate) fn timestamp(&self) -> u32 {
        let ms = self.now / 1_000_000;
        (ms as u32).wrapping_add(self.secret[0] as u32)
    }

    /// Flags, numbers, window and options of a segment of a synchronized connection, which has
    /// acknowledged everything by then.
    fn acknowledging(&mut self, number: u32, options: &mut Emitted) -> u16 {
        let window = self.window_to_offer(number);
        let timestamp = self.timestamp();
        let record = &mut self.tables.records[number];
        record.clear(flag::ACK_NOW | flag::ACK_DELAYED);
        record.rcv_adv = record.rcv_nxt + window;
        if record.has(flag::TIMESTAMPS) {
            options.timestamps(timestamp, record.ts_recent);
        }
        let has_blocks = record.active().is_some_and(|active| {
            let active = &self.tables.actives[active];
            !active.held().is_empty()
        });
        let window = (window >> record.receive_scale()) as u16;
        if record.has(flag::SACK) && (has_blocks || self.duplicate.is_some()) {
            self.report(number, options);
        }
        window
    }

    /// Selective acknowledgements: what came twice, and what is held.
    #[cold]
    fn report(&mut self, number: u32, options: &mut Emitted) {
        let duplicate = self.duplicate.take();
        self.counters.dsack_sent += u64::from(duplicate.is_some());
        let active = self.tables.records[number].active();
        let active = active.map(|active| &self.tables.actives[active]);
        let blocks = active.into_iter().flat_map(Active::blocks);
        options.sack(duplicate.into_iter().chain(blocks));
    }

    fn send_cut(
        &mut self,
        number: u32,
        cut: Cut,
        why: Why,
        due: Option<Nanoseconds>,
        effects: &mut impl Effects,
    ) {
        let mut options = Emitted::new();
        let window = self.acknowledging(number, &mut options);
        let (notice, ecn) = self.ecn_of(number, why, cut.len);
        let record = self.tables.records[number];
        let flags = [
            (cut.fin, TcpFlags::FIN),
            (cut.push && cut.len > 0, TcpFlags::PSH),
        ];
        let flags = { flags.into_iter() }
            .filter(|&(is_set, _)| is_set)
            .fold(TcpFlags::ACK | notice, |flags, (_, one)| flags | one);
        let offset = record.offset(cut.start);
        let fields = TcpFields {
            source_port: record.local_port,
            destination_port: record.remote_port,
            sequence: cut.start.0,
            acknowledgement: record.rcv_nxt.0,
            flags,
            window,
            options: options.bytes(),
        };
        let departure = Departure {
            connection: Some(ConnectionId(number)),
            why,
            due,
        };
        if self.tables.are_large() {
            // An answer comes soon.
            let hash = { &self.tables }.hash(record.path, record.local_port, record.remote_port);
            self.tables.prefetch_entry(hash);
        }
        let ends = self.ends_of(record.path);
        self.emit(
            ends,
            &fields,
            (number, record.owner, offset, cut.len),
            (departure, ecn),
            effects,
        );
    }

    /// A segment without data. `sequence` is the next one, unless it is to be refused.
    fn send_empty(
        &mut self,
        number: u32,
        sequence: SeqNumber,
        why: Why,
        effects: &mut impl Effects,
    ) {
        let mut options = Emitted::new();
        let window = self.acknowledging(number, &mut options);
        let (notice, _) = self.ecn_of(number, why, 0);
        let record = self.tables.records[number];
        let fields = TcpFields {
            source_port: record.local_port,
            destination_port: record.remote_port,
            sequence: sequence.0,
            acknowledgement: record.rcv_nxt.0,
            flags: TcpFlags::ACK | notice,
            window,
            options: options.bytes(),
        };
        let departure = Departure {
            connection: Some(ConnectionId(number)),
            why,
            due: None,
        };
        let ends = self.ends_of(record.path);
        self.emit(
            ends,
            &fields,
            (number, record.owner, 0, 0),
            (departure, 0),
            effects,
        );
    }

    pub(crate) fn send_acknowledgement(&mut self, number: u32, effects: &mut impl Effects) {
        let sequence = self.next_sequence(number);
        self.send_empty(number, sequence, Why::Acknowledgement, effects);
    }

    /// The first byte that the peer lacks, which it takes or refuses, so that it says what its
    /// window is: RFC 9293, 3.8.6.1.
    pub(crate) fn send_probe(&mut self, number: u32, effects: &mut impl Effects) {
        self.counters.probes += 1;
        let now = self.now;
        let (record, active, lists) = self.parts(number);
        let una = record.snd_una;
        let cut = match active.snd_nxt == una {
            true => {
                let cut = active.new_data(1);
                active.count_as_sent(record, cut, now, lists);
                cut
            }
            false => active.cut_again(record, una, una + 1),
        };
        active.timed = None;
        self.send_cut(number, cut, Why::Probe, None, effects);
    }

    /// A number before the window: whoever is there answers. RFC 9293, 3.8.4.
    pub(crate) fn send_keep_alive(&mut self, number: u32, effects: &mut impl Effects) {
        self.counters.keep_alives += 1;
        let sequence = self.tables.records[number].snd_una - 1;
        self.send_empty(number, sequence, Why::KeepAlive, effects);
    }

    /// The sequence number after everything that was sent.
    pub(crate) fn next_sequence(&self, number: u32) -> SeqNumber {
        let record = &self.tables.records[number];
        match record.active() {
            None => record.snd_una,
            Some(active) => self.tables.actives[active].snd_nxt,
        }
    }

    /// A SYN that was sent before.
    pub(crate) fn send_syn_again(&mut self, number: u32, effects: &mut impl Effects) {
        self.counters.retransmitted_handshake += 1;
        self.counters.retransmitted += 1;
        self.send_syn(number, effects);
    }

    /// A SYN, with an ACK if the peer's has come.
    pub(crate) fn send_syn(&mut self, number: u32, effects: &mut impl Effects) {
        let record = self.tables.records[number];
        let is_answer = record.state == State::SynReceived;
        let ends = self.ends_of(record.path);
        let mut options = Emitted::new();
        options.mss(self.config.mss(ends[0].is_ipv4()));
        if self.config.sack && (!is_answer || record.has(flag::SACK)) {
            options.sack_permitted();
        }
        if self.config.timestamps && (!is_answer || record.has(flag::TIMESTAMPS)) {
            options.timestamps(self.timestamp(), record.ts_recent);
        }
        if !is_answer || record.has(flag::SCALED) {
            options.scale(self.config.window_scale());
        }
        // The window of a SYN is not shifted: RFC 7323, 2.2.
        let window = self.syn_window();
        let (now, rto) = (self.now, self.rto(number));
        let (record, active) = self.both(number);
        if active.timeouts == 0 && active.snd_nxt == record.iss {
            active.timed = Some((record.iss + 1, now));
        } else {
            active.timed = None;
        }
        active.snd_nxt = record.iss + 1;
        active.retransmission = Retransmission::Timeout(now.saturating_add(rto));
        record.rcv_adv = record.rcv_nxt + window;
        let record = *record;
        let notice = self.ecn_of_syn(number);
        let fields = TcpFields {
            source_port: record.local_port,
            destination_port: record.remote_port,
            sequence: record.iss.0,
            acknowledgement: if is_answer { record.rcv_nxt.0 } else { 0 },
            flags: match is_answer {
                true => TcpFlags::SYN | TcpFlags::ACK | notice,
                false => TcpFlags::SYN | notice,
            },
            window: window as u16,
            options: options.bytes(),
        };
        let departure = Departure {
            connection: Some(ConnectionId(number)),
            why: Why::Handshake,
            due: None,
        };
        self.emit(
            ends,
            &fields,
            (number, record.owner, 0, 0),
            (departure, 0),
            effects,
        );
        self.settle(number);
    }

    /// Ends the peer's connection: RFC 9293, 3.10.5.
    pub(crate) fn send_reset_of(&mut self, number: u32, effects: &mut impl Effects) {
        let record = self.tables.records[number];
        if record.state == State::SynSent {
            return;
        }
        let mut options = Emitted::new();
        if record.has(flag::TIMESTAMPS) {
            // RFC 7323, 3.2.
            options.timestamps(self.timestamp(), record.ts_recent);
        }
        let fields = TcpFields {
            source_port: record.local_port,
            destination_port: record.remote_port,
            sequence: self.next_sequence(number).0,
            acknowledgement: record.rcv_nxt.0,
            flags: TcpFlags::RST | TcpFlags::ACK,
            window: 0,
            options: options.bytes(),
        };
        let ends = self.ends_of(record.path);
        self.send_bare(ends, &fields, effects);
    }

    /// A segment that needs no connection: RST, or the acknowledgement of one in TIME_WAIT.
    pub(crate) fn send_bare(
        &mut self,
        ends: [IpAddr; 2],
        fields: &TcpFields<'_>,
        effects: &mut impl Effects,
    ) {
        let is_reset = fields.flags.contains(TcpFlags::RST);
        self.counters.sent_resets += u64::from(is_reset);
        let departure = Departure {
            connection: None,
            why: match is_reset {
                true => Why::Reset,
                false => Why::Acknowledgement,
            },
            due: None,
        };
        self.emit(ends, fields, (0, 0, 0, 0), (departure, 0), effects);
    }

    /// Our address and the peer's.
    pub(crate) fn ends_of(&self, path: u32) -> [IpAddr; 2] {
        let path = &self.tables.paths[path];
        [path.local, path.remote]
    }

    /// Writes a segment into a frame and lets it leave, or wait for its neighbour's address.
    /// `payload`: whose bytes it carries, from where in the stream, and how many.
    fn emit(
        &mut self,
        ends: [IpAddr; 2],
        fields: &TcpFields<'_>,
        (number, owner, offset, payload_len): (u32, u32, u64, u32),
        (departure, ecn): (Departure, u8),
        effects: &mut impl Effects,
    ) {
        self.counters.sent += 1;
        let header_len = fields.header_len();
        let packet = Packet {
            ends,
            protocol: PROTOCOL_TCP,
            ecn,
            payload_len: header_len + payload_len as usize,
        };
        self.leave(packet, departure, effects, |effects, segment| {
            if payload_len > 0 {
                let bytes = &mut segment[header_len..];
                effects.fill(ConnectionId(number), owner, offset, bytes);
            }
            fields.emit(ends, segment);
        });
    }
}

impl Active {
    /// Bytes that are ready, as far as a segment cares.
    fn ready_len(&self) -> u32 {
        u32::try_from(self.ready).unwrap_or(u32::MAX)
    }

    /// Whether something may be left to be sent, new or again.
    #[inline]
    fn may_send(&self, record: &Record) -> bool {
        let fin_waits = record.flags & (flag::SHUT | flag::FIN_SENT) == flag::SHUT;
        self.ready > 0
            || fin_waits
            || self.scoreboard.has_lost()
            || self.frto == Frto::SendsNew
            || self.is_cramped(record)
    }

    /// Whether segments are shorter than the peer takes: the path bore no longer ones.
    #[inline]
    fn is_cramped(&self, record: &Record) -> bool {
        self.window.mss < record.payload_of(record.mss)
    }

    /// Bytes of the peer's window beyond what was sent.
    pub(crate) fn usable(&self, record: &Record) -> u32 {
        let end = record.snd_una + record.send_window();
        end.distance_from(self.snd_nxt).max(0) as u32
    }

    /// The next bytes, which are to be read at once.
    fn new_data(&self, len: u32) -> Cut {
        Cut {
            start: self.snd_nxt,
            len,
            fin: false,
            push: true,
        }
    }

    /// The segment that begins at `start`, of bytes that were sent before, up to `end`.
    fn cut_again(&self, record: &Record, start: SeqNumber, end: SeqNumber) -> Cut {
        let has_fin = record.has(flag::FIN_SENT);
        let data_end = self.snd_nxt - u32::from(has_fin);
        let len = earlier(end, data_end).distance_from(start).max(0) as u32;
        let len = len.min(self.payload_max(record));
        Cut {
            start,
            len,
            fin: has_fin && start + len == data_end && end.is_after(data_end),
            push: start + len == data_end,
        }
    }

    /// The most payload of a segment beside the options that it needs now.
    fn payload_max(&self, record: &Record) -> u32 {
        if self.held().is_empty() || !record.has(flag::SACK) {
            return self.window.mss.max(1);
        }
        let blocks = self.blocks().take(4).count() as u32;
        let sack_len = (4 + 8 * blocks).min(40 - record.options_len());
        self.window.mss.saturating_sub(sack_len).max(1)
    }

    /// The next segment of bytes that were never sent, if one may leave.
    fn cut_new(&self, record: &Record, nagle: bool) -> Option<Cut> {
        if record.has(flag::FIN_SENT) || self.ready == 0 && !record.has(flag::SHUT) {
            return None;
        }
        let full = self.payload_max(record);
        let flight = self.snd_nxt.bytes_from(record.snd_una);
        let usable = self.usable(record);
        let room = self.window.cwnd.saturating_sub(self.pipe(record));
        let wanted = self.ready_len().min(full);
        let len = wanted.min(usable).min(room);
        let is_last = u64::from(len) == self.ready;
        let fin = is_last && record.has(flag::SHUT);
        if len == 0 && !fin {
            return None;
        }
        let is_silly = len < wanted
            && match usable < wanted.min(room) {
                // Half of the largest window is enough.
                true => len < self.snd_wnd_max / 2,
                // An acknowledgement makes room for a whole one.
                false => flight > 0,
            };
        let is_nagled = nagle && is_last && !fin && len < full && flight > 0;
        if is_silly || is_nagled {
            return None;
        }
        Some(Cut {
            start: self.snd_nxt,
            len,
            fin,
            push: is_last,
        })
    }

    fn count_as_sent(
        &mut self,
        record: &mut Record,
        cut: Cut,
        now: Nanoseconds,
        lists: &mut Lists<Run>,
    ) {
        self.ready -= u64::from(cut.len);
        self.snd_nxt += cut.len + u32::from(cut.fin);
        let unit = match self.phase {
            Phase::Open => self.rack.unit(),
            // Between what was sent again order counts.
            _ => 0,
        };
        let range = (cut.start, self.snd_nxt);
        self.scoreboard.send(range, now, unit, lists);
        self.count_in_recovery(cut.len);
        self.put_off_probe();
        self.sent_at = now;
        self.flight_then = self.snd_nxt.bytes_from(record.snd_una);
        if self.timed.is_none() && self.phase == Phase::Open {
            self.timed = Some((self.snd_nxt, now));
        }
        if cut.fin {
            record.set(flag::FIN_SENT);
            record.state = match record.state {
                State::CloseWait => State::LastAck,
                _ => State::FinWait1,
            };
        }
    }
}
