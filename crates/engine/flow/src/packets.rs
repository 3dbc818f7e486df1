//! A packet with its connection: datagrams, segments that header prediction takes, and all other
//! ones, which may also show that another incarnation of the connection has begun.

use lineside_account::Counter;
use lineside_frame::{Cause, Chunk, FrameRef};
use lineside_wire::{
    Direction, FourTuple, HeaderChecksum, Ip, PlainSegment, TcpFlags, TcpHeader, UdpHeader,
    checksum,
};

use crate::connection::expected::Expected;
use crate::connection::incarnations::{Syn, note_end, on_syn, role_of_syn};
use crate::connection::segments::Belongs;
use crate::connection::sender::Step;
use crate::connection::{Key, Transport};
use crate::connections::Connections;
use crate::context::Context;
use crate::cut::Datagram;
use crate::damage::Covered;
use crate::origin::Origin;
use crate::sink::StreamSink;
use crate::stream::Segment;
use crate::taken::{DAMAGED, DUPLICATE, Taken, taken};

impl Connections {
    /// Takes a datagram. `may_be_copy`: no part of it was asked whether it came before.
    pub(crate) fn on_udp<S: StreamSink>(
        &mut self,
        ip: &Ip,
        udp: &UdpHeader,
        origin: &Origin<'_>,
        chunks: &[Chunk<'_>],
        may_be_copy: bool,
        context: &mut Context<'_, S>,
    ) -> Taken {
        let tuple = FourTuple::of(ip, udp.source_port, udp.destination_port);
        let (key, direction) = Key::new(Transport::Udp, &tuple);
        let key = self.key_in(ip, direction, None, key, context);
        let Some(slot) = self.find_or_open(key, None, origin, context) else {
            return taken(Counter::FramesUdp, None);
        };
        let connection = self.at(slot);
        if let Origin::Frame(frame) = origin
            && (udp.checksum_verifiable || udp.checksum_offloaded)
            && udp.captured_len == udp.payload_len
        {
            let len = udp.payload + udp.payload_len - ip.payload;
            let packet = Covered {
                pseudo_header_sum: ip.pseudo_header_sum(len),
                bytes: &frame.bytes()[ip.payload..udp.payload + udp.payload_len],
                payload_len: udp.payload_len,
                looks_offloaded: udp.checksum_offloaded,
            };
            if connection.checksums[direction].is_damaged(&packet, context.counters) {
                context.counters.count(Counter::FramesDamagedNotTcp);
                return DAMAGED;
            }
        }
        // Fragments have been waited for.
        let captured = chunks
            .first()
            .filter(|_| matches!(origin, Origin::Frame(_)));
        let datagram = Datagram {
            slot,
            direction,
            identification: ip.identification,
            payload_len: udp.payload_len,
        };
        if may_be_copy && context.has_datagram(origin, ip, udp.payload_len) {
            connection.watched_until_ns = i64::MAX;
            let cut = &mut context.shared.cut;
            if let Some(whole) = captured.and_then(|bytes| cut.lengthen(&datagram, bytes)) {
                whole.deliver(context.sink, context.counters);
            }
            return DUPLICATE;
        }
        connection.note_network(direction, ip);
        connection.roll_interval(origin.descriptor(), context);
        connection.last_ns = context.shared.now;
        connection.segments += 1;
        connection.add_packet(direction, udp.payload_len, origin.descriptor());
        let now = context.shared.now;
        // As of segments, the rest may come as a copy of another tap.
        let waits = udp.captured_len < udp.payload_len
            && now <= connection.watched_until_ns
            && captured.is_some_and(|bytes| context.shared.cut.hold(now, datagram, bytes));
        if !waits {
            let counters = &mut *context.counters;
            context.sink.on_datagram(slot, direction, chunks, counters);
        }
        taken(Counter::FramesUdp, Some(slot))
    }

    /// Takes a plain segment if header prediction does. `None`: it needs a closer look, and nothing
    /// has changed.
    #[inline]
    pub(crate) fn on_plain<S: StreamSink>(
        &mut self,
        segment: &PlainSegment<'_>,
        frame: &FrameRef,
        context: &mut Context<'_, S>,
    ) -> Option<Taken> {
        if !may_be_expected(segment.flags()) || !segment.is_whole() {
            return None;
        }
        let (connection, direction, pseudo_header_sum) = self.recent_plain(segment)?;
        let header_len = segment.header_len();
        let pseudo_header_sum = checksum::add(pseudo_header_sum, segment.wire_len() as u16);
        let expected = Expected {
            step: Step {
                sequence: segment.sequence(),
                acknowledgement: segment.acknowledgement(),
                window: segment.window(),
                header_len,
                payload_len: segment.wire_len() - header_len,
            },
            frame,
            offset: segment.offset(),
            pseudo_header_sum,
            looks_offloaded: segment.checksum() == pseudo_header_sum,
        };
        let headers = || segment.headers();
        let taken = match direction {
            Direction::Forward => {
                connection.on_expected(Direction::Forward, expected, headers, context)?
            }
            Direction::Reverse => {
                connection.on_expected(Direction::Reverse, expected, headers, context)?
            }
        };
        let offloaded = u64::from(expected.looks_offloaded);
        context.counters.add(Counter::ChecksumOffloaded, offloaded);
        Some(taken)
    }

    /// The same for a segment of any other frame.
    pub(crate) fn on_predicted<S: StreamSink>(
        &mut self,
        ip: &Ip,
        tcp: &TcpHeader,
        frame: &FrameRef,
        context: &mut Context<'_, S>,
    ) -> Option<Taken> {
        let is_wrong = ip.checksum == HeaderChecksum::Wrong;
        if !may_be_expected(tcp.flags) || ip.captured_len < ip.payload_len || is_wrong {
            return None;
        }
        let (connection, direction) = self.recent(ip, tcp)?;
        let expected = Expected {
            step: Step::from(tcp),
            frame,
            offset: ip.payload,
            pseudo_header_sum: ip.pseudo_header_sum(ip.payload_len),
            looks_offloaded: tcp.checksum_offloaded,
        };
        connection.on_expected(direction, expected, || (*ip, *tcp), context)
    }

    /// `payload` is what was captured of the segment, in order; a packet put together from
    /// fragments has several chunks and perhaps holes.
    #[inline]
    pub(crate) fn on_tcp<S: StreamSink>(
        &mut self,
        ip: &Ip,
        tcp: &TcpHeader,
        origin: &Origin<'_>,
        payload: &[Chunk<'_>],
        context: &mut Context<'_, S>,
    ) -> Taken {
        let tuple = FourTuple::of(ip, tcp.source_port, tcp.destination_port);
        let (key, direction) = Key::new(Transport::Tcp, &tuple);
        let key = self.key_in(ip, direction, Some(tcp), key, context);
        if tcp.flags.opens()
            && self.slot_of(&key).is_none()
            && let Some(taken) = self.on_first_syn((key, direction), (ip, tcp), origin, context)
        {
            return taken;
        }
        let Some(mut slot) = self.find_or_open_tcp(key, origin, context) else {
            return taken(Counter::FramesTcp, None);
        };
        let connection = self.at(slot);
        if connection.is_damaged(direction, ip, tcp, origin, context) {
            connection.note_damaged(direction, tcp.sequence, tcp.payload_len);
            return DAMAGED;
        }
        if connection.is_copy(ip, tcp, origin, context) {
            self.at(slot).lengthen(direction, tcp, payload, context);
            return DUPLICATE;
        }
        let now = context.shared.now;
        if self.at(slot).is_rewritten(direction, tcp, now) {
            return DUPLICATE;
        }
        let opens = tcp.flags.opens();
        if !opens && self.at(slot).may_be_next() {
            let renewed = self.renew(slot, origin, context);
            match renewed.and_then(|slot| self.replay_strays(slot, context)) {
                Some(renewed) => slot = renewed,
                None => return taken(Counter::FramesTcp, None),
            }
        }
        let mut segment = Segment {
            sequence: tcp.sequence + u32::from(opens),
            acknowledgement: tcp
                .flags
                .contains(TcpFlags::ACK)
                .then_some(tcp.acknowledgement),
            payload_len: tcp.payload_len,
            captured_len: 0,
            is_syn: opens,
        };
        let role = opens.then(|| {
            let connection = self.at(slot);
            let silent_ns = context.shared.now.saturating_sub(connection.last_ns);
            role_of_syn(connection, direction, &segment, silent_ns)
        });
        if role == Some(Syn::BeginsNext) {
            match self.renew(slot, origin, context) {
                Some(renewed) => slot = renewed,
                None => return taken(Counter::FramesTcp, None),
            }
        }
        let connection = self.at(slot);
        connection.note_network(direction, ip);
        connection.roll_interval(origin.descriptor(), context);
        connection.last_ns = context.shared.now;
        connection.segments += 1;
        connection.add_packet(direction, tcp.payload_len, origin.descriptor());
        connection.count_request(direction, tcp);
        let payload_len = tcp.payload_len as u64;
        context.counters.add(Counter::StreamBytes, payload_len);
        let options = origin.tcp_options(ip, tcp);
        if connection.is_past(direction, (tcp, options), (segment, payload), context) {
            connection.set_calm(context.shared);
            return taken(Counter::FramesTcp, Some(slot));
        }
        match role {
            None => {
                let ended = note_end(connection, direction, tcp);
                if connection.count_end(direction, tcp, origin.descriptor()) {
                    context.sink.on_end(slot, ended == Some(true));
                }
                if ended.is_some() {
                    self.set_deadline(slot, context.shared);
                }
            }
            Some(Syn::Own | Syn::BeginsNext) => {
                let stamp_ns = origin.descriptor().stamp_ns;
                on_syn(connection, direction, &segment, stamp_ns);
            }
            Some(Syn::MayBeginNext) => {
                let none = Chunk::hole(0, Cause::SnapLength, origin.descriptor());
                let first = payload.first().filter(|first| first.missing().is_none());
                let first = first.unwrap_or(&none);
                let chunk = first.part(0, first.len().min(tcp.payload_len));
                segment.captured_len = chunk.len();
                connection.on_stray(direction, segment, chunk, context);
                connection.set_calm(context.shared);
                return taken(Counter::FramesTcp, Some(slot));
            }
        }
        let connection = self.at(slot);
        let stamp_ns = origin.descriptor().stamp_ns;
        connection.account(direction, tcp, options, stamp_ns, context);
        connection.set_calm(context.shared);
        let mut left = tcp.payload_len;
        for chunk in payload {
            let len = chunk.len().min(left);
            let captured_len = if chunk.missing().is_some() { 0 } else { len };
            left -= len;
            // The frame's last chunk also stands for what the snap length cut.
            let is_last = std::ptr::eq(chunk, payload.last().expect("in the loop"));
            segment.captured_len = captured_len;
            segment.payload_len = if is_last { len + left } else { len };
            let captured = chunk.part(0, captured_len.min(chunk.len()));
            let Some(same_or_next) = self.on_segment(slot, direction, segment, captured, context)
            else {
                let rest = if is_last { 0 } else { left };
                context.counters.add(Counter::StreamDiscarded, rest as u64);
                return taken(Counter::FramesTcp, None);
            };
            slot = same_or_next;
            segment.sequence += segment.payload_len as u32;
        }
        let slot = match opens {
            true => self.replay_strays(slot, context),
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
        context: &mut Context<'_, S>,
    ) -> Option<usize> {
        let connection = self.at(slot);
        connection.pass_round(direction, &segment, chunk.descriptor(), context);
        match connection.on_segment(direction, segment, chunk, context) {
            Belongs::Here => Some(slot),
            Belongs::AfterGap => self.replay_strays(slot, context),
            Belongs::ToNext => {
                // The four-tuple was used again, and the tap missed the SYN.
                context.counters.count(Counter::ConnectionsReusedUnseen);
                let layers = self.at(slot).layers;
                let origin = Origin::Known(chunk.descriptor(), &layers);
                let slot = self.renew(slot, &origin, context)?;
                self.replay_strays(slot, context)
            }
        }
    }

    /// Takes the stray segments of a connection once more. Returns the slot, which is another one
    /// if the strays themselves show yet another incarnation.
    fn replay_strays<S: StreamSink>(
        &mut self,
        mut slot: usize,
        context: &mut Context<'_, S>,
    ) -> Option<usize> {
        let mut strays = std::mem::take(&mut self.at(slot).strays).into_iter();
        while let Some(stray) = strays.next() {
            let chunk = stray.range.chunk();
            if stray.segment.is_syn {
                let connection = self.at(slot);
                match role_of_syn(connection, stray.direction, &stray.segment, 0) {
                    Syn::Own => on_syn(connection, stray.direction, &stray.segment, None),
                    _ => {
                        context.discard(std::slice::from_ref(&stray));
                        continue;
                    }
                }
            }
            match self.on_segment(slot, stray.direction, stray.segment, chunk, context) {
                Some(same_or_next) => slot = same_or_next,
                None => {
                    context.discard(strays.as_slice());
                    return None;
                }
            }
        }
        Some(slot)
    }

    /// Ends an incarnation and begins the next one with the segments that strayed.
    fn renew<S: StreamSink>(
        &mut self,
        slot: usize,
        origin: &Origin<'_>,
        context: &mut Context<'_, S>,
    ) -> Option<usize> {
        context.counters.count(Counter::ConnectionsReused);
        let connection = self.at(slot);
        let (key, strays) = (connection.key, std::mem::take(&mut connection.strays));
        // The new incarnation begins with its earliest frame, which may be a stray one.
        let first = strays
            .iter()
            .map(|stray| stray.range.descriptor)
            .min_by_key(|first| first.ordinal);
        self.close(slot, context);
        let first = first.unwrap_or_else(|| *origin.descriptor());
        let origin = Origin::Known(&first, &origin.layers());
        let Some(slot) = self.find_or_open(key, None, &origin, context) else {
            context.discard(&strays);
            return None;
        };
        self.at(slot).strays = strays;
        context.shared.holders.insert(slot);
        Some(slot)
    }
}

/// Whether header prediction may take a segment with these control bits.
#[inline]
fn may_be_expected(flags: TcpFlags) -> bool {
    flags.0 & !TcpFlags::PSH.0 == TcpFlags::ACK.0
}
