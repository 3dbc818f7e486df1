mod incarnations;

use std::net::IpAddr;

use hashbrown::HashMap;
use lineside_account::{Budget, Counter, Counters, Lease};
use lineside_frame::{Cause, Chunk, Descriptor, FrameRef};
use lineside_wire::{
    Direction, Dissected, Endpoint, FourTuple, Fragment, HeaderChecksum, Ip, SeqNumber, TcpFlags,
    TcpHeader, UdpHeader,
};

use crate::connection::{Connection, FlowCounts, Key, Origin, Transport};
use crate::duplicates::Duplicates;
use crate::fragments::{Fragments, Whole, count_whole};
use crate::stream::{Held, Moment, Segment, State};
use incarnations::{begins_anew, note_end, on_syn};

/// Bounds and windows of the engine.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// A hole that the receiver acknowledged is given up after this time ...
    pub late_window_ns: i64,
    /// ... and after so many further segments of its connection, whichever takes longer.
    pub late_segments: u64,
    /// Live, time passes also while a connection is quiet: what was acknowledged so long ago is a hole, however few
    /// segments came since. `None`, as for files: segments decide, and so the result depends on the input alone.
    pub quiet_window_ns: Option<i64>,
    /// Bytes that one direction may hold before its oldest gap is given up. A part counts as 1 KiB at least.
    pub flow_held_max_bytes: usize,
    /// Connections in the table.
    pub connections_max: usize,
    /// A connection without packets for so long is over.
    pub idle_timeout_ns: i64,
    /// A fragmented packet without its last part for so long is given up (RFC 8200 4.5: 60 s; Linux: 30 s).
    pub fragment_timeout_ns: i64,
    /// Bytes of fragments held at once.
    pub fragments_held_max_bytes: usize,
    /// A packet that comes again within this time was mirrored twice and is left out. 0: none is.
    pub duplicate_window_ns: i64,
    /// Length of the intervals of [`StreamSink::on_interval`].
    pub interval_ns: i64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // A switch or a tap that reorders does so within microseconds; two taps whose queues
            // are read in turn, within a millisecond or two.
            late_window_ns: 2_000_000,
            // Peers' reordering experiments delay by at most 5 frames; six times that.
            late_segments: 32,
            quiet_window_ns: None,
            // One 1 MiB record in flight and as much behind it, twice.
            flow_held_max_bytes: 4 << 20,
            connections_max: 1 << 20,
            idle_timeout_ns: 3_600_000_000_000,
            fragment_timeout_ns: 30_000_000_000,
            fragments_held_max_bytes: 8 << 20,
            // Within a rack copies are microseconds apart, and no sender retransmits within a millisecond: Linux's
            // least timeout is 200 ms, its tail loss probe 2 ms.
            duplicate_window_ns: 1_000_000,
            interval_ns: 60_000_000_000,
        }
    }
}

/// Where streams, datagrams and what is known of connections go. `connection` is the slot of a
/// connection: small numbers, reused after [`StreamSink::on_close`].
pub trait StreamSink {
    /// A connection begins in an unused slot.
    fn on_open(&mut self, connection: usize, facts: &Connection);
    /// The next bytes of a direction, or a hole. `after_syn`: they are the first of the connection.
    fn on_stream(
        &mut self,
        connection: usize,
        direction: Direction,
        after_syn: bool,
        chunk: Chunk<'_>,
        counters: &mut Counters,
    );
    /// A datagram, its payload in order, holes included.
    fn on_datagram(
        &mut self,
        connection: usize,
        direction: Direction,
        chunks: &[Chunk<'_>],
        counters: &mut Counters,
    );
    /// A hole in a stream became known: the same that `on_stream` is given.
    fn on_loss(
        &mut self,
        connection: usize,
        facts: &Connection,
        direction: Direction,
        offset: i64,
        hole: Chunk<'_>,
    );
    /// What a connection did in the interval that begins at `start_ns`.
    fn on_interval(
        &mut self,
        connection: usize,
        facts: &Connection,
        start_ns: i64,
        counts: &[FlowCounts; 2],
    );
    /// Nothing more comes of this connection.
    fn on_close(&mut self, connection: usize, facts: &Connection, counters: &mut Counters);
}

/// What became of a frame: its one outcome, and its connection if it has one.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// The outcome counter.
    pub outcome: Counter,
    /// The connection's slot.
    pub connection: Option<usize>,
}

/// A sequence number further behind than this is not a retransmission. TCP's largest window is
/// 1 GiB (RFC 7323 2.3), but retransmissions reach back by what is in flight: 16 MiB is 10 Gb/s
/// over 13 ms.
const BEHIND_MAX: i64 = 16 << 20;
/// A sequence number further ahead than this is not a gap: a tap that slept for 200 ms at 10 Gb/s.
const AHEAD_MAX: i64 = 256 << 20;
/// A connection that both ends closed is kept for late packets only: Linux's TIME-WAIT, 60 s.
const ENDED_TIMEOUT_NS: i64 = 60_000_000_000;
/// Slots examined for idle connections per burst.
const SWEEP: usize = 64;

const DUPLICATE: Taken = Taken {
    outcome: Counter::FramesDuplicate,
    connection: None,
};

/// Connections that are found without a look at the table: those of a handful of clients.
const RECENT: usize = 16;

/// A connection over TCP: its key, the key's ends as a packet has them, the lesser one first, and its slot.
struct Recent {
    key: Key,
    ends: [Endpoint; 2],
    slot: usize,
}

/// All connections, their streams and the fragments on their way to them.
pub struct Engine {
    config: Config,
    budget: Budget,
    held: HeldMemory,
    table: HashMap<Key, usize>,
    /// Connections over TCP of late packets, each at the place that its ports give.
    recent: [Option<Recent>; RECENT],
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    hand: usize,
    fragments: Fragments,
    duplicates: Duplicates,
    /// Slots of connections that may hold ranges, each once, and whether a slot is among them.
    holders: Vec<usize>,
    listed: Vec<bool>,
    /// When quiet connections were looked at last.
    looked_ns: i64,
    now: i64,
}

impl Engine {
    /// An engine without connections, which draws what it holds on `budget`.
    pub fn new(config: Config, budget: &Budget) -> Self {
        Self {
            config,
            budget: budget.clone(),
            held: HeldMemory::new(budget),
            table: HashMap::new(),
            recent: Default::default(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            fragments: Fragments::new(&config, budget),
            duplicates: Duplicates::new(config.duplicate_window_ns, budget),
            holders: Vec::new(),
            listed: Vec::new(),
            looked_ns: i64::MIN,
            now: i64::MIN,
        }
    }

    /// What is known of the connection in a slot.
    pub fn connection(&self, slot: usize) -> Option<&Connection> {
        self.slots.get(slot)?.as_deref()
    }

    /// Takes a dissected frame. `now` is the running maximum of the stamps.
    pub fn on_frame<S: StreamSink>(
        &mut self,
        now: i64,
        frame: &FrameRef,
        dissected: &Dissected,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Taken {
        self.now = self.now.max(now);
        // At each frame and not at each burst, whose borders are no part of the input.
        self.give_up_fragments(self.now, sink, counters);
        let bytes = frame.bytes();
        let plain = |outcome| Taken {
            outcome,
            connection: None,
        };
        match dissected {
            Dissected::Tcp(ip, tcp) => {
                count_checksums(ip, tcp.checksum_offloaded, counters);
                let payload = Chunk::of_frame(frame, tcp.payload.min(bytes.len()), tcp.kept);
                if let Some(taken) = self.on_expected(ip, tcp, frame, payload, sink, counters) {
                    return taken;
                }
                self.on_tcp(ip, tcp, &Origin::Frame(frame), &[payload], sink, counters)
            }
            Dissected::Udp(ip, udp) => {
                let (origin, len) = (Origin::Frame(frame), udp.payload_len);
                if (self.duplicates).has_packet(self.now, &origin, ip, len, counters) {
                    return DUPLICATE;
                }
                count_checksums(ip, udp.checksum_offloaded, counters);
                let payload = Chunk::of_frame(frame, udp.payload.min(bytes.len()), udp.kept);
                let cut = Chunk::hole(
                    udp.payload_len - udp.kept,
                    Cause::SnapLength,
                    frame.descriptor(),
                );
                let chunks = [payload, cut];
                let chunks = if cut.is_empty() {
                    &chunks[..1]
                } else {
                    &chunks[..]
                };
                let slot = self.on_udp(ip, udp, &origin, chunks, sink, counters);
                taken(Counter::FramesUdp, slot)
            }
            Dissected::Fragment(ip, fragment) => {
                self.on_fragment(ip, fragment, frame, sink, counters)
            }
            Dissected::NotIp => plain(Counter::FramesNotIp),
            Dissected::OtherProtocol => plain(Counter::FramesOtherProtocol),
            Dissected::TooDeep => plain(Counter::FramesTooDeep),
            Dissected::UnknownLink => plain(Counter::FramesUnknownLink),
            Dissected::MalformedLink => plain(Counter::MalformedLink),
            Dissected::MalformedIp => plain(Counter::MalformedIp),
            Dissected::MalformedTunnel => plain(Counter::MalformedTunnel),
            Dissected::MalformedTcp => plain(Counter::MalformedTcp),
            Dissected::MalformedUdp => plain(Counter::MalformedUdp),
        }
    }

    /// Once a burst, and live also when none comes: gives up what is overdue. Without
    /// [`Config::quiet_window_ns`], rows do not depend on when this is called, for an overdue connection is also
    /// found when its next packet comes.
    pub fn on_timer<S: StreamSink>(&mut self, now: i64, sink: &mut S, counters: &mut Counters) {
        self.now = self.now.max(now);
        self.give_up_fragments(self.now, sink, counters);
        self.look_at_quiet(sink, counters);
        for _ in 0..SWEEP.min(self.slots.len()) {
            self.hand = (self.hand + 1) % self.slots.len();
            if self.slots[self.hand]
                .as_ref()
                .is_some_and(|connection| is_idle(&self.config, self.now, connection))
            {
                self.close(self.hand, sink, counters);
            }
        }
    }

    /// Goes on with connections that hold something and of which nothing comes.
    fn look_at_quiet<S: StreamSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        let Some(window_ns) = self.config.quiet_window_ns else {
            return;
        };
        // A look at all of them a few times in each window: late by a quarter, and cheap.
        if self.now.saturating_sub(self.looked_ns) < window_ns / 4 {
            return;
        }
        self.looked_ns = self.now;
        let mut holders = std::mem::take(&mut self.holders);
        holders.retain(|&slot| {
            if self.slots[slot].is_some() {
                self.advance(slot, false, sink, counters);
            }
            let holds = |connection: &Connection| {
                let mut streams = connection.streams.iter();
                !connection.strays.is_empty() || streams.any(|stream| !stream.held.is_empty())
            };
            self.listed[slot] = self.slots[slot].as_deref().is_some_and(holds);
            self.listed[slot]
        });
        // Nothing was held anew, so that nothing was listed meanwhile.
        self.holders = holders;
    }

    /// Copies everything held out of its blocks, so that the pool can use them again.
    pub fn spill(&mut self, counters: &mut Counters) {
        let mut spilled = self.fragments.spill();
        for &slot in &self.holders {
            self.listed[slot] = false;
            let Some(connection) = self.slots[slot].as_mut() else {
                continue;
            };
            let held = connection
                .streams
                .iter_mut()
                .flat_map(|stream| &mut stream.held)
                .map(|held| &mut held.range);
            let strays = connection.strays.iter_mut().map(|stray| &mut stray.range);
            spilled += held
                .chain(strays)
                .filter_map(|range| (range.spill() > 0).then_some(()))
                .count();
            // What is held in memory of its own waits for time all the same.
            self.listed[slot] = self.config.quiet_window_ns.is_some();
        }
        self.holders.retain(|&slot| self.listed[slot]);
        counters.add(Counter::RangesSpilled, spilled as u64);
    }

    /// The input has ended: delivers all that waits, with holes where nothing came, and closes all.
    pub fn finish<S: StreamSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        while let Some(whole) = self.fragments.overdue(self.now, true, counters) {
            self.on_whole(self.now, &whole, sink, counters);
        }
        self.close_from(0, usize::MAX, sink, counters);
    }

    /// A part of [`Engine::finish`]: closes the connections in at most `slots_max` slots from `slot` on;
    /// returns where to go on, `None` at the end.
    pub fn close_from<S: StreamSink>(
        &mut self,
        slot: usize,
        slots_max: usize,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Option<usize> {
        let end = self.slots.len().min(slot.saturating_add(slots_max));
        for slot in slot..end {
            self.close(slot, sink, counters);
        }
        self.duplicates.clear();
        self.held.trim(0);
        (end < self.slots.len()).then_some(end)
    }

    /// Delivers the packets of which some fragment is missing for too long.
    #[inline]
    fn give_up_fragments<S: StreamSink>(
        &mut self,
        now: i64,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        if self.fragments.is_empty() {
            return;
        }
        while let Some(whole) = self.fragments.overdue(now, false, counters) {
            self.on_whole(self.now, &whole, sink, counters);
        }
    }

    fn on_fragment<S: StreamSink>(
        &mut self,
        ip: &Ip,
        fragment: &Fragment,
        frame: &FrameRef,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Taken {
        let outcome = self
            .fragments
            .on_fragment(self.now, ip, fragment, frame, counters);
        while let Some(whole) = self.fragments.done(self.now, counters) {
            self.on_whole(self.now, &whole, sink, counters);
        }
        Taken {
            outcome,
            connection: None,
        }
    }

    /// Takes a packet put together from fragments, perhaps with holes. `now` is the running maximum of
    /// the stamps.
    pub fn on_whole<S: StreamSink>(
        &mut self,
        now: i64,
        whole: &Whole,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        self.now = self.now.max(now);
        let is_credible = count_whole(whole, counters);
        let Some(dissected) = whole.dissected().filter(|_| is_credible) else {
            return;
        };
        let origin = Origin::Whole(whole);
        let is_duplicate = match dissected {
            Dissected::Tcp(ip, tcp) => {
                // `tcp.payload` is not behind the options where a hole cuts them.
                let chunks = whole.chunks(ip.payload + tcp.header_len, tcp.payload_len);
                let taken = self.on_tcp(&ip, &tcp, &origin, &chunks, sink, counters);
                taken.outcome == Counter::FramesDuplicate
            }
            // Of one that is in no tunnel in the whole, the fragments themselves would have been the duplicates.
            Dissected::Udp(ip, udp)
                if ip.tunnels > whole.ip.tunnels
                    && (self.duplicates).has_packet(
                        self.now,
                        &origin,
                        &ip,
                        udp.payload_len,
                        counters,
                    ) =>
            {
                true
            }
            Dissected::Udp(ip, udp) => {
                let chunks = whole.chunks(udp.payload, udp.payload_len);
                self.on_udp(&ip, &udp, &origin, &chunks, sink, counters);
                false
            }
            _ => false,
        };
        counters.add(Counter::DatagramsDuplicate, is_duplicate.into());
    }

    fn on_udp<S: StreamSink>(
        &mut self,
        ip: &Ip,
        udp: &UdpHeader,
        origin: &Origin<'_>,
        chunks: &[Chunk<'_>],
        sink: &mut S,
        counters: &mut Counters,
    ) -> Option<usize> {
        let tuple = FourTuple::of(ip, udp.source_port, udp.destination_port);
        let (key, direction) = Key::new(Transport::Udp, &tuple);
        let key = self.key_in(ip.virtual_network, key);
        let slot = self.slot(key, None, origin, sink, counters)?;
        let connection = self.slots[slot]
            .as_mut()
            .expect("`slot` answers slots in use");
        connection.segments += 1;
        roll_interval(
            connection,
            slot,
            origin.descriptor(),
            self.config.interval_ns,
            sink,
        );
        let counts = &mut connection.counts[direction];
        counts.packets += 1;
        counts.bytes += udp.payload_len as u64;
        sink.on_datagram(slot, direction, chunks, counters);
        Some(slot)
    }

    /// Header prediction, as receivers do it (Jacobson 1990): a whole segment that comes next in its direction, while
    /// nothing waits in either, changes little. `None`: the segment wants a closer look, and nothing has changed.
    #[inline]
    fn on_expected<S: StreamSink>(
        &mut self,
        ip: &Ip,
        tcp: &TcpHeader,
        frame: &FrameRef,
        payload: Chunk<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Option<Taken> {
        let recent = self.recent[recent_place(tcp)].as_ref()?;
        let [one, other] = &recent.ends;
        let is =
            |end: &Endpoint, address: &IpAddr, port| end.port == port && end.address == *address;
        let goes = |from, to| {
            is(from, &ip.source, tcp.source_port) && is(to, &ip.destination, tcp.destination_port)
        };
        let is_forward = goes(one, other);
        let is_plain = tcp.flags.0 & !TcpFlags::PSH.0 == TcpFlags::ACK.0;
        if !is_plain || tcp.kept < tcp.payload_len || !is_forward && !goes(other, one) {
            return None;
        }
        let direction = match is_forward {
            true => Direction::Forward,
            false => Direction::Reverse,
        };
        let slot = recent.slot;
        let connection = self.slots[slot].as_deref_mut()?;
        let is_same_network = match ip.virtual_network {
            None => recent.key.network.is_none(),
            network => connection.network == network,
        };
        if !is_same_network {
            return None;
        }
        let stamp_ns = payload.descriptor().stamp_ns?;
        let (stream, back) = (
            &connection.streams[direction],
            &connection.streams[direction.opposite()],
        );
        let is_next = stream.state == State::Open
            && stream.offset(tcp.sequence) == stream.next
            && stream.held.is_empty()
            && back.held.is_empty()
            && back.has_delivered(tcp.acknowledgement);
        if !is_next || self.now >= connection.calm_until_ns {
            return None;
        }
        if self.now <= connection.watched_until_ns
            && (self.duplicates).has_segment(self.now, &Origin::Frame(frame), ip, tcp, counters)
        {
            connection.watched_until_ns = i64::MAX;
            return Some(DUPLICATE);
        }
        connection.last_ns = self.now;
        connection.segments += 1;
        let moment = Moment {
            segments: connection.segments,
            ns: self.now,
        };
        let offset = connection.streams[direction.opposite()].offset(tcp.acknowledgement);
        acknowledged(
            connection,
            direction.opposite(),
            offset,
            moment,
            Some(stamp_ns),
        );
        let len = tcp.payload_len as u64;
        let counts = &mut connection.counts[direction];
        counts.packets += 1;
        counts.bytes += len;
        if len > 0 {
            let stream = &mut connection.streams[direction];
            let after_syn = stream.syn_end == Some(stream.next);
            stream.next += len as i64;
            stream.rtt.get_or_insert((stream.next, stamp_ns));
            counters.add(Counter::StreamBytes, len);
            counters.add(Counter::StreamDelivered, len);
            sink.on_stream(slot, direction, after_syn, payload, counters);
        }
        Some(taken(Counter::FramesTcp, Some(slot)))
    }

    /// `payload` is what was kept of the segment, in order; a packet put together from fragments has
    /// several chunks and perhaps holes.
    #[inline]
    fn on_tcp<S: StreamSink>(
        &mut self,
        ip: &Ip,
        tcp: &TcpHeader,
        origin: &Origin<'_>,
        payload: &[Chunk<'_>],
        sink: &mut S,
        counters: &mut Counters,
    ) -> Taken {
        let tuple = FourTuple::of(ip, tcp.source_port, tcp.destination_port);
        let (key, direction) = Key::new(Transport::Tcp, &tuple);
        let key = self.key_in(ip.virtual_network, key);
        let place = recent_place(tcp);
        let recent = self.recent[place].as_ref();
        let known = recent.filter(|recent| recent.key == key);
        let known = known.map(|recent| recent.slot);
        let Some(mut slot) = self.slot(key, known, origin, sink, counters) else {
            return taken(Counter::FramesTcp, None);
        };
        if known != Some(slot) {
            let ends = key.tuple.ends();
            self.recent[place] = Some(Recent { key, ends, slot });
        }
        let connection = self.slots[slot]
            .as_deref_mut()
            .expect("`slot` answers slots in use");
        if self.now <= connection.watched_until_ns
            && (self.duplicates).has_segment(self.now, origin, ip, tcp, counters)
        {
            connection.watched_until_ns = i64::MAX;
            return DUPLICATE;
        }
        let syn = tcp.flags.opens();
        let ack = tcp.flags.contains(TcpFlags::ACK);
        if syn
            && self.slots[slot]
                .as_ref()
                .is_some_and(|connection| begins_anew(connection, direction, tcp))
        {
            match self.renew(slot, key, origin, sink, counters) {
                Some(renewed) => slot = renewed,
                None => return taken(Counter::FramesTcp, None),
            }
        }
        let connection = self.slots[slot]
            .as_mut()
            .expect("`slot` answers slots in use");
        connection.segments += 1;
        roll_interval(
            connection,
            slot,
            origin.descriptor(),
            self.config.interval_ns,
            sink,
        );
        let counts = &mut connection.counts[direction];
        counts.packets += 1;
        counts.bytes += tcp.payload_len as u64;
        counters.add(Counter::StreamBytes, tcp.payload_len as u64);
        if syn {
            on_syn(connection, direction, tcp);
        }
        note_end(connection, direction, tcp);
        let interval_end = connection
            .interval_ns
            .saturating_add(self.config.interval_ns);
        let idle_end = connection
            .last_ns
            .saturating_add(idle_timeout_ns(&self.config, connection));
        connection.calm_until_ns = match connection.is_alive() {
            true => interval_end.min(idle_end),
            // What comes now may deny that it ended.
            false => i64::MIN,
        };
        let mut segment = Segment {
            sequence: tcp.sequence + u32::from(syn),
            acknowledgement: ack.then_some(tcp.acknowledgement),
            payload_len: 0,
            kept: 0,
        };
        let mut left = tcp.payload_len;
        for chunk in payload {
            let len = chunk.len().min(left);
            let kept = if chunk.missing().is_some() { 0 } else { len };
            left -= len;
            // The frame's last chunk also stands for what the snap length cut.
            let is_last = std::ptr::eq(chunk, payload.last().expect("in the loop"));
            segment.kept = kept;
            segment.payload_len = if is_last { len + left } else { len };
            let kept_part = chunk.part(0, kept.min(chunk.len()));
            let went_on = self.on_segment(slot, direction, segment, kept_part, sink, counters);
            let Some(same_or_next) = went_on else {
                let rest = if is_last { 0 } else { left };
                counters.add(Counter::StreamDiscarded, rest as u64);
                return taken(Counter::FramesTcp, None);
            };
            slot = same_or_next;
            segment.sequence += segment.payload_len as u32;
        }
        let slot = match syn {
            true => self.replay_strays(slot, sink, counters),
            false => Some(slot),
        };
        taken(Counter::FramesTcp, slot)
    }

    /// Returns the slot: another one if the segment showed that a new incarnation has begun.
    #[inline]
    fn on_segment<S: StreamSink>(
        &mut self,
        slot: usize,
        direction: Direction,
        segment: Segment,
        chunk: Chunk<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Option<usize> {
        let now = self.now;
        let connection = self.slots[slot].as_mut().expect("a slot in use");
        let moment = Moment {
            segments: connection.segments,
            ns: now,
        };
        if let Some(acknowledgement) = segment.acknowledgement {
            on_acknowledgement(
                connection,
                direction.opposite(),
                acknowledgement,
                moment,
                chunk.descriptor(),
            );
        }
        let (stream, other) = direction.split_mut(&mut connection.streams);
        let counts = &mut connection.counts[direction];
        if segment.payload_len > 0 {
            if stream.state == State::Unseen {
                stream.begin(segment.sequence, State::Starting);
                stream.begun = moment;
            }
            let start = stream.offset(segment.sequence);
            let end = start + segment.payload_len as i64;
            // Behind its FIN a stream has nothing.
            let is_behind_fin = stream.fin.is_some_and(|fin| end > fin);
            let is_far = end < stream.next - BEHIND_MAX || start > stream.next + AHEAD_MAX;
            if is_far || is_behind_fin {
                return self.on_stray(slot, direction, segment, chunk, sink, counters);
            }
            // A direction that was never seen is waited for only while it may be late as a whole.
            let begun_ns = connection.first.stamp_ns.unwrap_or(now);
            let young = moment.segments <= self.config.late_segments
                || now.saturating_sub(begun_ns) < self.config.late_window_ns;
            let needs = segment
                .acknowledgement
                .filter(|_| young || other.state != State::Unseen);
            let ready = needs.is_none_or(|needs| other.has_delivered(needs));
            // What was sent twice, or waits for what was, tells no round trip (RFC 6298 3).
            if start != stream.next {
                stream.rtt = None;
            } else if stream.rtt.is_none() {
                stream.rtt = chunk.descriptor().stamp_ns.map(|stamp| (end, stamp));
            }
            if stream.state == State::Open
                && stream.held.is_empty()
                && start <= stream.next
                && ready
            {
                // The way of nearly all segments: nothing is held, nothing is copied.
                let seen = ((stream.next - start) as usize).min(segment.payload_len);
                if seen == segment.payload_len {
                    // A retransmission, or the mirror has just begun to copy: what comes next tells.
                    let until_ns = now.saturating_add(self.config.duplicate_window_ns);
                    connection.watched_until_ns = connection.watched_until_ns.max(until_ns);
                }
                duplicate(stream, counts, counters, start, start + seen as i64);
                let fresh = chunk.from(seen.min(chunk.len()));
                let cut = segment.payload_len - seen.max(segment.kept).min(segment.payload_len);
                let offset = stream.next;
                let after_syn = stream.syn_end == Some(offset);
                stream.next += (segment.payload_len - seen) as i64;
                if !fresh.is_empty() {
                    counters.add(Counter::StreamDelivered, fresh.len() as u64);
                    sink.on_stream(slot, direction, after_syn, fresh, counters);
                }
                if cut > 0 {
                    let hole = Chunk::hole(cut, Cause::SnapLength, chunk.descriptor());
                    self.deliver_hole(
                        slot,
                        direction,
                        offset + fresh.len() as i64,
                        hole,
                        sink,
                        counters,
                    );
                }
                let connection = self.slots[slot].as_ref().expect("a slot in use");
                if !connection.streams[direction.opposite()].held.is_empty() {
                    self.advance(slot, false, sink, counters);
                }
                return Some(slot);
            }
            self.hold(
                slot, direction, start, &segment, chunk, needs, moment, counters,
            );
        }
        let connection = self.slots[slot].as_ref().expect("a slot in use");
        if connection
            .streams
            .iter()
            .any(|stream| !stream.held.is_empty())
        {
            self.advance(slot, false, sink, counters);
        }
        Some(slot)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call site; a struct would only rename them"
    )]
    fn hold(
        &mut self,
        slot: usize,
        direction: Direction,
        start: i64,
        segment: &Segment,
        chunk: Chunk<'_>,
        needs: Option<SeqNumber>,
        moment: Moment,
        counters: &mut Counters,
    ) {
        let connection = self.slots[slot].as_mut().expect("a slot in use");
        let stream = &mut connection.streams[direction];
        let counts = &mut connection.counts[direction];
        let before = if stream.state == State::Open {
            ((stream.next - start).max(0) as usize).min(segment.payload_len)
        } else {
            0
        };
        duplicate(stream, counts, counters, start, start + before as i64);
        let kept = chunk.from(before.min(chunk.len()));
        let parts = [
            kept,
            Chunk::hole(
                segment.payload_len - before.max(segment.kept),
                Cause::SnapLength,
                chunk.descriptor(),
            ),
        ];
        let mut at = start + before as i64;
        let latest = stream.held.back().map(Held::end);
        let (held_before, parts_before) = (stream.held_bytes, stream.held.len());
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let (repeated, conflicts) = stream.hold(at, part.hold(), moment, needs);
            counters.add(Counter::StreamDuplicate, repeated as u64);
            counts.retransmitted_bytes += repeated as u64;
            counters.add(Counter::OverlapConflicts, conflicts as u64);
            at += part.len() as i64;
        }
        let added = stream.held_bytes - held_before;
        let first = start + before as i64;
        if added > 0 && latest.is_some_and(|latest| first < latest) {
            counters.count(Counter::SegmentsOutOfOrder);
            counts.out_of_order_packets += 1;
        }
        // Many small parts take more memory than their bytes.
        let cost = added + (stream.held.len() - parts_before) * size_of::<Held>();
        counters.add(Counter::StreamHeld, added as u64);
        // What the budget does not bear is given up by `advance`, which looks at `undrawn_bytes`.
        if !self.held.draw(cost) {
            stream.undrawn_bytes += cost;
        }
        self.note_holder(slot);
    }

    /// Delivers what can be delivered, in both directions. `flush`: nothing more will come.
    fn advance<S: StreamSink>(
        &mut self,
        slot: usize,
        flush: bool,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        loop {
            let mut advance = |direction, forced| {
                self.advance_one(slot, direction, flush, forced, sink, counters)
            };
            let steps = [
                advance(Direction::Forward, false),
                advance(Direction::Reverse, false),
            ];
            if steps.contains(&Step::Progressed) {
                continue;
            }
            // A direction that waits for the other in vain goes on only when the other cannot.
            let mut forced = |direction| {
                steps[direction] == Step::Waits && advance(direction, true) == Step::Progressed
            };
            if !forced(Direction::Forward) && !forced(Direction::Reverse) {
                return;
            }
        }
    }

    /// Delivers what can be delivered in one direction. `forced`: only the next part, although the other direction should
    /// come first, if it has waited long enough.
    fn advance_one<S: StreamSink>(
        &mut self,
        slot: usize,
        direction: Direction,
        flush: bool,
        forced: bool,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Step {
        let Config {
            late_segments,
            late_window_ns,
            quiet_window_ns,
            ..
        } = self.config;
        let mut step = Step::Blocked;
        loop {
            let now = self.now;
            let connection = self.slots[slot].as_mut().expect("a slot in use");
            let segments = connection.segments;
            let overdue = |moment: Moment| {
                let waited_ns = now.saturating_sub(moment.ns);
                segments - moment.segments >= late_segments && waited_ns >= late_window_ns
                    || quiet_window_ns.is_some_and(|window_ns| waited_ns >= window_ns)
            };
            let (stream, other) = direction.split_mut(&mut connection.streams);
            let Some(front) = stream.held.front() else {
                return step;
            };
            let (start, arrived, needs) = (front.start, front.arrived, front.needs);
            let descriptor = front.range.descriptor;
            let full =
                stream.fullness() > self.config.flow_held_max_bytes || stream.undrawn_bytes > 0;
            if stream.state == State::Starting {
                // The first segments of a stream that was joined may be out of order like any others.
                if !flush && !overdue(stream.begun) {
                    if !full {
                        return step;
                    }
                    counters.count(Counter::HeldLimit);
                }
                stream.open(start);
            }
            if start > stream.next {
                let acknowledged = stream.acknowledged(start);
                let cause = match acknowledged {
                    Some(moment) if overdue(moment.later(arrived)) => Cause::NotSeen,
                    // So much is never in flight: it strayed here.
                    None if flush && start > stream.next + BEHIND_MAX => {
                        let strayed = self.take_front(slot, direction, counters);
                        counters.add(Counter::StreamDiscarded, strayed.range.len() as u64);
                        step = Step::Progressed;
                        continue;
                    }
                    _ if flush => Cause::NotSeen,
                    _ if full => Cause::GivenUp,
                    _ => return step,
                };
                if cause == Cause::GivenUp && stream.undrawn_bytes > 0 {
                    counters.count(Counter::HeldLimit);
                }
                self.give_up(slot, direction, start, cause, &descriptor, sink, counters);
                step = Step::Progressed;
                continue;
            }
            let waits_for = needs.filter(|&needs| !other.has_delivered(needs));
            if full && waits_for.is_some() {
                counters.count(Counter::HeldLimit);
            } else if let Some(needs) = waits_for {
                if !forced || !(flush || overdue(arrived)) {
                    return step.max(Step::Waits);
                }
                // What the other direction misses is acknowledged and overdue by now.
                let needs = other.acknowledged_offset(needs);
                if self.give_up_acknowledged(
                    slot,
                    direction.opposite(),
                    needs,
                    &descriptor,
                    sink,
                    counters,
                ) {
                    return Step::Progressed;
                }
            }
            let held = self.take_front(slot, direction, counters);
            let connection = self.slots[slot].as_mut().expect("a slot in use");
            let stream = &mut connection.streams[direction];
            let len = held.range.len();
            debug_assert_eq!(
                held.start, stream.next,
                "held ranges do not overlap what is delivered"
            );
            stream.next = held.end();
            let after_syn = stream.syn_end == Some(held.start);
            let chunk = held.range.chunk();
            match chunk.missing() {
                None => {
                    counters.add(Counter::StreamDelivered, len as u64);
                    sink.on_stream(slot, direction, after_syn, chunk, counters);
                }
                Some(_) => self.deliver_hole(slot, direction, held.start, chunk, sink, counters),
            }
            step = Step::Progressed;
            if forced {
                return step;
            }
        }
    }

    /// Takes the first of the held parts, of which there is one.
    fn take_front(&mut self, slot: usize, direction: Direction, counters: &mut Counters) -> Held {
        let connection = self.slots[slot].as_mut().expect("a slot in use");
        let stream = &mut connection.streams[direction];
        let held = stream.held.pop_front().expect("the front was looked at");
        let len = held.range.len();
        stream.held_bytes -= len;
        counters.subtract(Counter::StreamHeld, len as u64);
        let cost = len + size_of::<Held>();
        let undrawn = stream.undrawn_bytes.min(cost);
        stream.undrawn_bytes -= undrawn;
        self.held.give_back(cost - undrawn);
        held
    }

    /// Delivers a hole for what never came of a stream before `offset`, which the other side
    /// acknowledged. False if there is none, or if it is not certain.
    fn give_up_acknowledged<S: StreamSink>(
        &mut self,
        slot: usize,
        direction: Direction,
        offset: i64,
        by: &Descriptor,
        sink: &mut S,
        counters: &mut Counters,
    ) -> bool {
        let connection = self.slots[slot].as_mut().expect("a slot in use");
        let stream = &mut connection.streams[direction];
        if stream.state == State::Starting
            && let Some(first) = stream.held.front()
        {
            // Nothing earlier of a stream that was joined will come now: it begins.
            let first = first.start;
            stream.open(first);
            return true;
        }
        let start = stream.next;
        let end = match stream.held.front() {
            Some(held) if held.start <= offset => held.start,
            // Nothing behind it was seen, so that a single acknowledgement might be a wrong one.
            _ => offset.min(stream.acked.unwrap_or(start)),
        };
        // A single byte with nothing behind it may be a FIN that was not seen.
        let may_be_fin = end - start == 1 && stream.held.is_empty();
        if stream.state != State::Open || end <= start || may_be_fin {
            return false;
        }
        self.give_up(slot, direction, end, Cause::NotSeen, by, sink, counters);
        true
    }

    /// Delivers a hole for what never came of a stream before `end`.
    #[expect(clippy::too_many_arguments, reason = "a struct would only rename them")]
    fn give_up<S: StreamSink>(
        &mut self,
        slot: usize,
        direction: Direction,
        end: i64,
        cause: Cause,
        by: &Descriptor,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        let connection = self.slots[slot].as_mut().expect("a slot in use");
        let stream = &mut connection.streams[direction];
        let start = stream.next;
        stream.lose(start, end);
        stream.next = end;
        let len = (end - start) as usize;
        counters.add(Counter::StreamBytes, len as u64);
        let hole = Chunk::hole(len, cause, by);
        self.deliver_hole(slot, direction, start, hole, sink, counters);
    }

    fn deliver_hole<S: StreamSink>(
        &mut self,
        slot: usize,
        direction: Direction,
        offset: i64,
        hole: Chunk<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        self.note_loss(slot, direction, offset, hole, sink, counters);
        let connection = self.slots[slot].as_ref().expect("a slot in use");
        let after_syn = connection.streams[direction].syn_end == Some(offset);
        sink.on_stream(slot, direction, after_syn, hole, counters);
    }

    fn note_loss<S: StreamSink>(
        &mut self,
        slot: usize,
        direction: Direction,
        offset: i64,
        hole: Chunk<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        let connection = self.slots[slot].as_mut().expect("a slot in use");
        connection.counts[direction].lost_bytes += hole.len() as u64;
        counters.add(Counter::StreamLost, hole.len() as u64);
        counters.count(match hole.missing() {
            Some(Cause::SnapLength) => Counter::HolesSnapLength,
            Some(Cause::GivenUp) => Counter::HolesGivenUp,
            _ => Counter::HolesNotSeen,
        });
        sink.on_loss(slot, connection, direction, offset, hole);
    }

    /// Of a connection of which nothing more comes: what the other side acknowledged and nothing was seen behind.
    fn lose_tail<S: StreamSink>(
        &mut self,
        slot: usize,
        direction: Direction,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        let connection = self.slots[slot].as_mut().expect("a slot in use");
        let stream = &connection.streams[direction];
        let (offset, len) = match (stream.state, stream.unseen, stream.acked) {
            (State::Unseen, Some((first, last)), _) => (0, i64::from(last.bytes_from(first))),
            // A FIN that came late may have been acknowledged before.
            (State::Open, _, Some(acked)) => (stream.next, stream.before_fin(acked) - stream.next),
            _ => return,
        };
        // Live, two taps do not end at one moment.
        let settled_ns = connection
            .last_ns
            .saturating_sub(self.config.late_window_ns);
        let is_young = { stream.acks.back() }.is_some_and(|(_, moment)| moment.ns > settled_ns);
        let is_live = self.config.quiet_window_ns.is_some();
        // A single byte may be a FIN.
        if len <= i64::from(stream.fin.is_none()) || is_live && is_young {
            return;
        }
        let by = Descriptor {
            stamp_ns: Some(connection.last_ns),
            ..connection.first
        };
        counters.add(Counter::StreamBytes, len as u64);
        let hole = Chunk::hole(len as usize, Cause::NotSeen, &by);
        self.note_loss(slot, direction, offset, hole, sink, counters);
    }

    fn note_holder(&mut self, slot: usize) {
        if !std::mem::replace(&mut self.listed[slot], true) {
            self.holders.push(slot);
        }
    }

    /// The slot of a connection, a new one if there is none or it has been idle for too long. `known`: the slot that
    /// it has, from a look at the recent ones.
    fn slot<S: StreamSink>(
        &mut self,
        key: Key,
        known: Option<usize>,
        origin: &Origin<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Option<usize> {
        if let Some(slot) = known.or_else(|| self.table.get(&key).copied()) {
            let (config, now) = (&self.config, self.now);
            let connection = self.slots[slot]
                .as_mut()
                .expect("the table names slots in use");
            if !is_idle(config, now, connection) {
                connection.last_ns = now;
                return Some(slot);
            }
            self.close(slot, sink, counters);
        }
        if self.table.len() >= self.config.connections_max || !self.budget.draw(CONNECTION_BYTES) {
            counters.count(Counter::ConnectionsLimit);
            return None;
        }
        counters.count(Counter::Connections);
        let mut connection = Box::new(Connection::new(key, origin, self.now));
        connection.watched_until_ns = self.now.saturating_add(self.config.duplicate_window_ns);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.listed.push(false);
            self.slots.len() - 1
        });
        sink.on_open(slot, &connection);
        self.slots[slot] = Some(connection);
        self.table.insert(key, slot);
        Some(slot)
    }

    /// The key of a packet's connection, given the network that the packet was seen in.
    #[inline]
    fn key_in(&mut self, network: Option<u32>, key: Key) -> Key {
        match network {
            None => key,
            Some(network) => self.key_in_network(network, key),
        }
    }

    /// A host at the end of a tunnel shows a packet inside it and outside: both are of one connection. Two networks that use the
    /// same addresses are told apart: the second one's connections have keys of their own.
    #[cold]
    fn key_in_network(&mut self, network: u32, key: Key) -> Key {
        let own = key.in_network(network);
        if self.table.contains_key(&own) {
            return own;
        }
        let Some(&slot) = self.table.get(&key) else {
            return key;
        };
        let connection = self.slots[slot]
            .as_mut()
            .expect("the table names slots in use");
        match *connection.network.get_or_insert(network) == network {
            true => key,
            false => own,
        }
    }

    fn close<S: StreamSink>(&mut self, slot: usize, sink: &mut S, counters: &mut Counters) {
        if self.slots[slot].is_none() {
            return;
        }
        self.advance(slot, true, sink, counters);
        for direction in Direction::BOTH {
            self.lose_tail(slot, direction, sink, counters);
        }
        let connection = self.slots[slot].take().expect("it was there");
        let strays: usize = connection
            .strays
            .iter()
            .map(|stray| stray.segment.payload_len)
            .sum();
        counters.add(Counter::StreamDiscarded, strays as u64);
        if connection.counts != <[FlowCounts; 2]>::default() {
            sink.on_interval(
                slot,
                &connection,
                connection.interval_ns,
                &connection.counts,
            );
        }
        sink.on_close(slot, &connection, counters);
        self.table.remove(&connection.key);
        self.recent = Default::default();
        self.free.push(slot);
        self.budget.give_back(CONNECTION_BYTES);
    }
}

/// What all streams hold, drawn on the budget in steps: under loss nearly every segment is held for a moment, and all
/// cores share the budget.
struct HeldMemory {
    lease: Lease,
    used: usize,
}

impl HeldMemory {
    /// Bytes drawn ahead: some ten segments.
    const STEP: usize = 16 << 10;

    fn new(budget: &Budget) -> Self {
        Self {
            lease: budget.lease(0).expect("nothing always fits"),
            used: 0,
        }
    }

    /// Takes `bytes`, or nothing if the budget does not bear them.
    fn draw(&mut self, bytes: usize) -> bool {
        let used = self.used + bytes;
        let fits = used <= self.lease.bytes()
            || self.lease.resize(used + Self::STEP)
            || self.lease.resize(used);
        if fits {
            self.used = used;
        }
        fits
    }

    fn give_back(&mut self, bytes: usize) {
        self.used -= bytes;
        if self.lease.bytes() > self.used + 2 * Self::STEP {
            self.trim(Self::STEP);
        }
    }

    /// Keeps `ahead` bytes beside those that are used.
    fn trim(&mut self, ahead: usize) {
        let bytes = self.lease.bytes().min(self.used + ahead);
        let fits = self.lease.resize(bytes);
        debug_assert!(fits, "less always fits");
    }
}

/// What came of a try to go on with a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Nothing is held, or a hole that may still be filled is in the way.
    Blocked,
    /// The other direction is to come first.
    Waits,
    /// Something was delivered.
    Progressed,
}

/// What a connection costs here and in a table of the same size above: two streams, a key, a slot.
const CONNECTION_BYTES: usize = size_of::<Connection>() + 512;

/// Where a segment's connection is among the recent ones: the same place for both directions.
#[inline]
fn recent_place(tcp: &TcpHeader) -> usize {
    usize::from(tcp.source_port ^ tcp.destination_port) % RECENT
}

fn taken(outcome: Counter, slot: Option<usize>) -> Taken {
    Taken {
        outcome: if slot.is_some() {
            outcome
        } else {
            Counter::DroppedConnections
        },
        connection: slot,
    }
}

#[inline]
pub(crate) fn count_checksums(ip: &Ip, transport_offloaded: bool, counters: &mut Counters) {
    match ip.checksum {
        HeaderChecksum::Wrong => counters.count(Counter::ChecksumIpv4Wrong),
        HeaderChecksum::Offloaded => counters.count(Counter::ChecksumOffloaded),
        _ => {}
    }
    counters.add(Counter::ChecksumOffloaded, u64::from(transport_offloaded));
}

/// Whether a connection has been without packets for too long.
#[inline]
fn is_idle(config: &Config, now: i64, connection: &Connection) -> bool {
    now.saturating_sub(connection.last_ns) > idle_timeout_ns(config, connection)
}

#[inline]
fn idle_timeout_ns(config: &Config, connection: &Connection) -> i64 {
    match connection.is_reset || connection.ended == [true; 2] {
        true => config.idle_timeout_ns.min(ENDED_TIMEOUT_NS),
        false => config.idle_timeout_ns,
    }
}

/// Counts bytes that come again: as duplicates, or as discarded if they had been given up.
#[inline]
fn duplicate(
    stream: &crate::stream::Stream,
    counts: &mut FlowCounts,
    counters: &mut Counters,
    start: i64,
    end: i64,
) {
    if end > start {
        let late = stream.given_up(start, end);
        let repeated = (end - start) as u64 - late as u64;
        counters.add(Counter::StreamDiscarded, late as u64);
        counters.add(Counter::StreamDuplicate, repeated);
        counters.count(Counter::SegmentsRetransmitted);
        counts.retransmitted_bytes += repeated;
    }
}

#[inline]
fn on_acknowledgement(
    connection: &mut Connection,
    direction: Direction,
    acknowledgement: SeqNumber,
    moment: Moment,
    by: &Descriptor,
) {
    let stream = &mut connection.streams[direction];
    if stream.state == State::Unseen {
        let (_, last) = stream
            .unseen
            .get_or_insert((acknowledgement, acknowledgement));
        if i64::from(acknowledgement.bytes_from(*last)) <= AHEAD_MAX {
            *last = acknowledgement;
        }
        return;
    }
    let offset = stream.offset(acknowledgement);
    if offset > stream.next + AHEAD_MAX {
        return;
    }
    acknowledged(connection, direction, offset, moment, by.stamp_ns);
}

/// Everything before `offset` of a stream was acknowledged, as told by a segment with this stamp.
#[inline]
fn acknowledged(
    connection: &mut Connection,
    direction: Direction,
    offset: i64,
    moment: Moment,
    stamp_ns: Option<i64>,
) {
    let stream = &mut connection.streams[direction];
    stream.acknowledge(offset, moment);
    if let Some((end, sent_ns)) = stream.rtt
        && offset >= end
    {
        stream.rtt = None;
        let counts = &mut connection.counts[direction];
        if let Some(sample) = stamp_ns
            .and_then(|now| now.checked_sub(sent_ns))
            .and_then(|ns| u64::try_from(ns).ok())
        {
            counts.rtt_samples += 1;
            counts.rtt_sum_ns = counts.rtt_sum_ns.saturating_add(sample);
            counts.rtt_min_ns = Some(counts.rtt_min_ns.map_or(sample, |least| least.min(sample)));
        }
    }
}

/// Reports the counts of the interval that is over, if this packet is of another one.
#[inline]
fn roll_interval<S: StreamSink>(
    connection: &mut Connection,
    slot: usize,
    descriptor: &Descriptor,
    interval_ns: i64,
    sink: &mut S,
) {
    let Some(stamp) = descriptor.stamp_ns else {
        return;
    };
    if stamp < connection.interval_ns.saturating_add(interval_ns) {
        return;
    }
    let start = stamp.div_euclid(interval_ns).saturating_mul(interval_ns);
    if start > connection.interval_ns {
        if connection.counts != <[FlowCounts; 2]>::default() {
            sink.on_interval(slot, connection, connection.interval_ns, &connection.counts);
            connection.counts = Default::default();
        }
        connection.interval_ns = start;
    }
}
