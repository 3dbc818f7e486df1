//! A segment that needs a closer look is judged before its stream takes it.

use lineside_wire::tcp::TcpOptions;
use lineside_wire::{Direction, TcpFlags, TcpHeader};

use crate::connection::Connection;
use crate::connection::sender::{Again, MARKS, Seen};
use crate::context::Context;
use crate::sink::StreamSink;
use crate::stream::{Held, State};

/// Within this time a late segment is out of order, where the round trip of the handshake is not
/// known.
const OUT_OF_ORDER_NS: i64 = 3_000_000;

impl Connection {
    /// Judges a segment that needs a closer look, before its stream takes it. `bytes`: its header
    /// from the options on.
    pub(crate) fn account<S: StreamSink>(
        &mut self,
        direction: Direction,
        tcp: &TcpHeader,
        options: &[u8],
        stamp_ns: Option<i64>,
        context: &mut Context<'_, S>,
    ) {
        let stamp_ns = stamp_ns.unwrap_or(context.shared.now);
        self.time_handshake(direction, tcp, stamp_ns);
        self.account_options(direction, tcp, options, stamp_ns);
        let stream = &self.streams[direction];
        let start = stream.offset(tcp.sequence + u32::from(tcp.flags.opens()));
        let end = start + tcp.payload_len as i64;
        let is_delivered = end <= stream.next && stream.given_up(start, end) == 0;
        let seen = Seen {
            stamp_ns,
            is_whole: stream.state != State::Unseen
                && (stream.state == State::Open && is_delivered || stream.is_held(start, end)),
            out_of_order_ns: self.handshake_ns.unwrap_or(OUT_OF_ORDER_NS),
        };
        let (sender, other) = direction.split_mut(&mut self.senders);
        let upto = tcp.sequence + tcp.payload_len as u32;
        let goes_on = tcp.payload_len > 0 && sender.next == Some(tcp.sequence);
        if goes_on && tcp.flags.0 & MARKS == 0 && other.is_near_edge(upto) {
            self.on_near_edge(direction, upto, stamp_ns);
        }
        let (sender, other) = direction.split_mut(&mut self.senders);
        let counts = &mut self.counts[direction];
        let sent_ns = sender.next_ns;
        if sender.next.is_none() && other.next.is_some() {
            context.sink.on_both_heard(self.slot);
        }
        let again = sender.on_segment(other, tcp, &seen, counts);
        if tcp.flags.0 & MARKS == 0 {
            self.note_window(direction, tcp.window, stamp_ns);
        }
        let Some(again) = again else {
            return;
        };
        let counts = &mut self.counts[direction];
        counts.retransmissions += u64::from(again != Again::OutOfOrder);
        match again {
            Again::OutOfOrder => counts.out_of_order_packets += 1,
            Again::Spurious => counts.spurious_retransmissions += 1,
            Again::Fast => counts.fast_retransmissions += 1,
            Again::Timeout => counts.timeout_retransmissions += 1,
            Again::Other => {}
        }
        let is_waited_for = !matches!(again, Again::OutOfOrder | Again::Spurious);
        let awaited = self.senders[direction.opposite()].acknowledgement;
        if is_waited_for && tcp.payload_len > 0 && tcp.sequence == awaited {
            self.on_stuck_sent(direction, sent_ns, stamp_ns, tcp.payload_len as u32);
        }
        let stream = &self.streams[direction];
        if is_waited_for && tcp.payload_len > 0 && stream.state == State::Open {
            let later = stream.held.iter().find(|held: &&Held| held.start >= end);
            let since_ns = later.map(|held| held.arrived.ns);
            let (slot, from) = (self.slot, start - stream.next);
            context
                .sink
                .on_sent_again(slot, direction, from, since_ns, stamp_ns);
        }
    }

    /// Takes the options of a segment, as far as they were captured.
    #[inline(never)]
    pub(crate) fn account_options(
        &mut self,
        direction: Direction,
        tcp: &TcpHeader,
        options: &[u8],
        stamp_ns: i64,
    ) {
        let (sender, other) = direction.split_mut(&mut self.senders);
        let counts = &mut self.counts[direction.opposite()];
        let options = TcpOptions::new(options);
        let before = sender.sacked;
        counts.spurious_retransmissions +=
            sender.on_options(other, tcp, options, counts.segment_max_bytes);
        let sacked = sender.sacked;
        // Blocks are stored from the first place on.
        if sacked[0] != Default::default() {
            self.on_stuck_asked(direction, tcp.acknowledgement, (&before, &sacked), stamp_ns);
        }
    }

    /// When an end sent its last bytes, if it had sent all that it might: `is_all`, all of that is
    /// acknowledged now; or else it filled the other end's window. The window is that of the
    /// acknowledgement already, unless that was expected.
    pub(super) fn filled_ns(&self, direction: Direction, is_all: bool) -> Option<i64> {
        let (sender, other) = (
            &self.senders[direction],
            &self.senders[direction.opposite()],
        );
        let edge = other.known_edge();
        let is_full = edge.is_some() && edge == sender.next;
        (is_all || is_full).then_some(sender.next_ns)
    }

    /// Measures the time from the last SYN to the acknowledgement of its answer.
    fn time_handshake(&mut self, direction: Direction, tcp: &TcpHeader, stamp_ns: i64) {
        let is_answer = tcp.flags.contains(TcpFlags::ACK);
        if tcp.flags.opens() {
            if !is_answer {
                self.syn_ns = Some(stamp_ns);
            }
        } else if is_answer
            && self.initiator == Some(direction)
            && self.streams[direction.opposite()].isn.is_some()
            && let Some(syn_ns) = self.syn_ns.take()
        {
            self.handshake_ns = Some(stamp_ns.saturating_sub(syn_ns));
        }
    }
}
