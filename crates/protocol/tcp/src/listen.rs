//! Segments without a connection: RFC 9293, 3.10.7.1 (CLOSED) and 3.10.7.2 (LISTEN).

use lineside_wire::build::TcpFields;
use lineside_wire::{SeqNumber, TcpFlags};

use crate::congestion::Window;
use crate::effects::Effects;
use crate::receive::Segment;
use crate::record::{State, flag};
use crate::scoreboard::later;
use crate::stack::Stack;

impl Stack {
    /// A segment without a connection. `after`: a connection between the same ends that is over by
    /// then had used the sequence numbers before this one.
    pub(crate) fn on_stray(
        &mut self,
        segment: &Segment<'_>,
        after: Option<SeqNumber>,
        effects: &mut impl Effects,
    ) {
        let (local, port) = segment.ends[0];
        if segment.has(TcpFlags::RST) {
            self.counters.resets_ignored += 1;
            return;
        }
        let listener = self.listeners.owner(local, port);
        let is_syn = segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::ACK);
        if let Some(owner) = listener
            && segment.has(TcpFlags::ACK)
            && !segment.has(TcpFlags::SYN)
            && self.awaits_cookies()
        {
            self.on_cookie(segment, owner, effects);
            return;
        }
        let Some(owner) = listener.filter(|_| is_syn) else {
            self.counters.without_connection += 1;
            // RFC 9293, 3.10.7.2, fourth: what neither opens nor acknowledges is dropped.
            if listener.is_none() || segment.has(TcpFlags::ACK) {
                self.refuse(segment, effects);
            }
            return;
        };
        if self.half_open >= self.config.half_open_max {
            self.send_cookie(segment, effects);
            return;
        }
        match self.accept(segment, owner, after) {
            Some(number) => {
                self.counters.opened += 1;
                self.send_syn(number, effects);
            }
            None => self.counters.without_room += 1,
        }
    }

    /// A connection in SYN-RECEIVED.
    fn accept(
        &mut self,
        segment: &Segment<'_>,
        owner: u32,
        after: Option<SeqNumber>,
    ) -> Option<u32> {
        let number = self.take_half_open(segment, owner)?;
        let record = &mut self.tables.records[number];
        if let Some(after) = after
            && !record.iss.is_after(after)
        {
            // RFC 9293, 3.6.1: larger than any that the connection before had used.
            record.iss = after + (1 << 17);
            record.snd_una = record.iss;
        }
        self.take_syn(number, segment);
        Some(number)
    }

    /// The records of a listener's connection.
    pub(crate) fn take_half_open(&mut self, segment: &Segment<'_>, owner: u32) -> Option<u32> {
        let [(local, local_port), (remote, remote_port)] = segment.ends;
        // Who cannot be answered is not taken.
        self.config.next_hop(remote)?;
        let path = self.tables.hold_path(local, remote)?;
        let number = self.open(path, [local_port, remote_port], owner, State::SynReceived);
        let Some(number) = number else {
            self.tables.release_path(path);
            return None;
        };
        self.tables.records[number].set(flag::PASSIVE);
        self.half_open += 1;
        Some(number)
    }

    /// An acknowledgement that may be that of a cookie.
    fn on_cookie(&mut self, segment: &Segment<'_>, owner: u32, effects: &mut impl Effects) {
        match self.accept_cookie(segment, owner) {
            None => {
                self.counters.cookies_failed += 1;
                self.refuse(segment, effects);
            }
            Some(None) => self.counters.without_room += 1,
            Some(Some(number)) => {
                self.counters.cookies_taken += 1;
                self.on_connection_segment(number, segment, effects);
            }
        }
    }

    /// What a SYN says: sequence number, window and options. Whoever answers offers what the SYN
    /// offered: RFC 7323, 1.3 and RFC 2018, 2.
    pub(crate) fn take_syn(&mut self, number: u32, segment: &Segment<'_>) {
        let config = &self.config;
        let (options, scale) = (&segment.options, config.window_scale());
        let record = &mut self.tables.records[number];
        let active = &mut self.tables.actives[record.place];
        record.rcv_nxt = segment.sequence + 1;
        record.rcv_adv = record.rcv_nxt;
        record.mss = record.mss.min(options.mss(segment.ends[0].0.is_ipv4()));
        if config.sack && options.sack_permitted {
            record.set(flag::SACK);
        }
        if let Some((value, _)) = options.timestamps
            && config.timestamps
        {
            record.set(flag::TIMESTAMPS);
            record.ts_recent = value;
            record.ts_recent_at = age(self.now);
        }
        if let Some(peers) = options.scale {
            record.set(flag::SCALED);
            // The window of a SYN is not shifted; those after it are.
            record.scales = scale << 4 | peers;
        }
        let shift = record.scales & 15;
        record.snd_wnd = (u32::from(segment.window) >> shift) as u16;
        active.snd_nxt = later(active.snd_nxt, record.snd_una);
        active.snd_wnd_max = record.send_window();
        (active.snd_wl1, active.snd_wl2) = (segment.sequence, segment.acknowledgement);
        active.recover = record.iss;
        self.take_ecn(number, segment);
        self.begin_window(number);
    }

    /// The congestion window of a connection whose segments' size is known by now.
    pub(crate) fn begin_window(&mut self, number: u32) {
        let mss = self.mss_now(number);
        let (record, active) = self.both(number);
        active.window = Window::new(record.payload_of(mss));
    }

    /// RFC 9293, 3.10.7.1: a RST that the peer believes.
    pub(crate) fn refuse(&mut self, segment: &Segment<'_>, effects: &mut impl Effects) {
        let (sequence, acknowledgement, flags) = match segment.has(TcpFlags::ACK) {
            true => (segment.acknowledgement, SeqNumber(0), TcpFlags::RST),
            false => (
                SeqNumber(0),
                segment.sequence + segment.sequence_len(),
                TcpFlags::RST | TcpFlags::ACK,
            ),
        };
        let [(local, local_port), (remote, remote_port)] = segment.ends;
        let fields = TcpFields {
            source_port: local_port,
            destination_port: remote_port,
            sequence: sequence.0,
            acknowledgement: acknowledgement.0,
            flags,
            window: 0,
            options: &[],
        };
        self.send_bare([local, remote], &fields, effects);
    }
}

/// The unit of a record's time: 16 bits count two years.
pub(crate) const AGE_UNIT_S: i64 = 1024;

/// A time as records have it.
pub(crate) fn age(now: lineside_time::Nanoseconds) -> u16 {
    (now / (AGE_UNIT_S * 1_000_000_000)) as u16
}
