//! Who asks for a connection, and what answers: a SYN of the other end, an RST, an acknowledgement
//! of another connection between the same ends, or nothing.

use lineside_wire::{Direction, TcpFlags, TcpHeader};

use crate::connection::Connection;
use crate::stream::Segment;

impl Connection {
    /// Counts the marks of a segment that was just added, and what asks for a connection.
    pub(crate) fn count_request(&mut self, direction: Direction, tcp: &TcpHeader) {
        let has = |flag| tcp.flags.contains(flag);
        let (opens, is_reset) = (tcp.flags.opens(), has(TcpFlags::RST));
        let counts = &mut self.counts[direction];
        counts.syns += u64::from(opens);
        counts.fins += u64::from(has(TcpFlags::FIN));
        counts.resets += u64::from(is_reset);
        if opens && !has(TcpFlags::ACK) {
            self.asked = Some((direction, self.segments));
            return;
        }
        let Some((asker, _)) = self.asked else {
            return;
        };
        let is_bare = has(TcpFlags::ACK) && tcp.payload_len == 0 && !has(TcpFlags::FIN);
        let asked = &mut self.counts[asker];
        match asker == direction {
            // What a reset ends is the other connection.
            true if is_reset => return,
            // It goes on: the tap missed the answer.
            true => {}
            false if is_reset => asked.refused += 1,
            false if opens => {}
            false if is_bare => asked.challenged += 1,
            // Bytes that were under way.
            false => return,
        }
        self.asked = None;
    }

    /// Whether a SYN repeats the stray one before it, and nothing came between them.
    pub(super) fn asks_again(&self, direction: Direction, syn: &Segment) -> bool {
        let is_same = { self.strays.last() }.is_some_and(|stray| {
            stray.direction == direction
                && stray.segment.is_syn
                && stray.segment.sequence == syn.sequence
        });
        is_same && self.asked == Some((direction, self.segments))
    }
}
