//! Header prediction, as receivers do it (Jacobson 1990): a whole segment that comes next in its
//! direction, while nothing waits in either, changes little.

use lineside_account::Counter;
use lineside_frame::{Chunk, FrameRef};
use lineside_wire::{Direction, Ip, TcpHeader, tcp};

use crate::connection::Connection;
use crate::connection::sender::Step;
use crate::context::{Context, Shared};
use crate::damage::Covered;
use crate::origin::Origin;
use crate::sink::StreamSink;
use crate::stream::State;
use crate::taken::{DAMAGED, DUPLICATE, Taken, taken};

/// A segment that may be an expected one: all of it was captured, and of SYN, ACK, FIN and RST it
/// has ACK alone.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) step: Step,
    pub(crate) frame: &'a FrameRef,
    /// Where in the frame its header begins.
    pub(crate) offset: usize,
    pub(crate) pseudo_header_sum: u16,
    /// See [`TcpHeader::checksum_offloaded`].
    pub(crate) looks_offloaded: bool,
}

impl Connection {
    /// Sets the time before which an expected segment needs no look at intervals.
    #[inline]
    pub(crate) fn set_calm(&mut self, shared: &Shared) {
        let interval_end = self.interval_ns.saturating_add(shared.config.interval_ns);
        let is_settled = self.is_alive() && self.syn_ns.is_none() && self.asked.is_none();
        let is_settled = is_settled && self.aside.is_empty();
        self.calm_until_ns = match is_settled && !self.is_shut() {
            true => interval_end,
            // The next segment may show that it has not ended, ends its handshake, answers what
            // asks for a connection, opens a window, or decides about what lies aside.
            false => i64::MIN,
        };
    }

    /// Takes a segment if it is expected. `None`: it needs a closer look, and nothing has changed.
    /// `headers` are those of its packet, of which little is asked.
    // Always, so that for a known direction all is at a known place.
    #[inline(always)]
    pub(crate) fn on_expected<S: StreamSink>(
        &mut self,
        direction: Direction,
        segment: Expected<'_>,
        headers: impl Fn() -> (Ip, TcpHeader),
        context: &mut Context<'_, S>,
    ) -> Option<Taken> {
        let Expected { step, frame, .. } = segment;
        let stamp_ns = frame.descriptor().stamp_ns?;
        let now = context.shared.now;
        let acknowledged = self.expects(direction, &step)?;
        if now >= self.calm_until_ns {
            return None;
        }
        let back = direction.opposite();
        let bytes = &frame.bytes()[segment.offset..][..step.header_len + step.payload_len];
        let options = &bytes[tcp::HEADER_LEN..step.header_len];
        let clock = self.senders[direction].clock.after(options)?;
        let checksums = &mut self.checksums[direction];
        if !checksums.are_offloaded() {
            let packet = Covered {
                pseudo_header_sum: segment.pseudo_header_sum,
                bytes,
                payload_len: step.payload_len,
                looks_offloaded: segment.looks_offloaded,
            };
            if checksums.is_damaged(&packet, context.counters) {
                self.note_damaged(direction, step.sequence, step.payload_len);
                return Some(DAMAGED);
            }
        }
        if now <= self.watched_until_ns {
            let (ip, tcp) = headers();
            if self.is_copy(&ip, &tcp, &Origin::Frame(frame), context) {
                return Some(DUPLICATE);
            }
        }
        self.last_ns = now;
        self.segments += 1;
        self.streams[back].acknowledge_delivered(acknowledged);
        if self.end_round_trip(back, acknowledged, Some(stamp_ns)) && step.payload_len == 0 {
            self.on_late_acknowledgement(back, acknowledged, stamp_ns, context);
        }
        let wire_len = frame.descriptor().wire_len as usize;
        let counts = &mut self.counts[direction];
        counts.add_packet(step.payload_len, wire_len, Some(stamp_ns));
        let (sender, other) = direction.split_mut(&mut self.senders);
        let end = step.sequence + step.payload_len as u32;
        let is_near = step.payload_len > 0 && other.is_near_edge(end);
        sender.clock = clock;
        if sender.on_expected(other, &step, stamp_ns, counts) {
            self.account_options(direction, &headers().1, options, stamp_ns);
        }
        if is_near {
            self.fill_window(direction, end, stamp_ns);
        }
        if step.payload_len > 0 {
            let payload = segment.offset + step.header_len;
            let payload = Chunk::of_frame(frame, payload, step.payload_len);
            let stream = &mut self.streams[direction];
            let after_syn = stream.syn_end == Some(stream.next);
            stream.next += step.payload_len as i64;
            stream.round_trip.on_sent(stream.next, stamp_ns);
            let (sink, counters) = (&mut *context.sink, &mut *context.counters);
            counters.add(Counter::StreamBytes, step.payload_len as u64);
            counters.add(Counter::StreamDelivered, step.payload_len as u64);
            sink.on_stream(self.slot, direction, after_syn, payload, counters);
        }
        Some(taken(Counter::FramesTcp, Some(self.slot)))
    }

    /// Whether a segment comes next, and all that it acknowledges was delivered: up to which offset
    /// of the other direction.
    #[inline(always)]
    fn expects(&self, direction: Direction, step: &Step) -> Option<i64> {
        let back = direction.opposite();
        let (stream, answered) = (&self.streams[direction], &self.streams[back]);
        let (sender, other) = (&self.senders[direction], &self.senders[back]);
        let acknowledged = answered.offset(step.acknowledgement);
        let is_next = stream.state == State::Open
            && answered.state == State::Open
            && stream.sequence(stream.next) == step.sequence
            && stream.next >= stream.early
            && stream.held.is_empty()
            && answered.held.is_empty()
            && answered.fin.is_none()
            && acknowledged <= answered.next
            && sender.goes_on(other, step);
        is_next.then_some(acknowledged)
    }
}
