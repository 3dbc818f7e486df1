//! Senders that wait for room in the window of the other end.
//!
//! No sender fills a window to its last byte if less than a whole segment is left: it waits for
//! more, so that windows stay those of whole segments (RFC 9293, 3.8.6.2.1). One that has nothing
//! more to send stops there too, by chance. What tells them apart is what they do when room comes:
//!
//! ```text
//!  data ──►  less than a segment is left      has stopped
//!  ◄── ACK   the window ends later
//!  data ──►  within a round trip of the ACK   has waited for room
//! ```
//!
//! Data of the other end in between may be what is answered: then nobody knows. All of this is
//! judged when data come, so that acknowledgements cost nothing.

use lineside_wire::{Direction, SeqNumber};

use crate::connection::Connection;
use crate::connection::sender::{Near, Stopped};

/// A sender on a busy machine takes so long longer than the shortest round trip. A guess.
const TURN_NS: i64 = 1_000_000;

impl Connection {
    /// As [`Self::on_near_edge`]; a window that is filled to the byte is counted too.
    #[inline(never)]
    pub(super) fn fill_window(&mut self, direction: Direction, end: SeqNumber, now_ns: i64) {
        let is_full = self.senders[direction.opposite()].known_edge() == Some(end);
        self.counts[direction].full_windows += u64::from(is_full);
        self.on_near_edge(direction, end, now_ns);
    }

    /// New data in order, up to `end`, for which [`Sender::is_near_edge`] is true.
    #[inline(never)]
    pub(super) fn on_near_edge(&mut self, direction: Direction, end: SeqNumber, now_ns: i64) {
        let round_trip_ns = self.round_trip_to(direction);
        let (sender, other) = direction.split_mut(&mut self.senders);
        let counts = &mut self.counts[direction];
        let Some(edge) = other.known_edge() else {
            return;
        };
        if let Some(stopped) = sender.stopped.take() {
            let within_ns = round_trip_ns.saturating_mul(2).max(TURN_NS);
            let has_waited = edge.is_after(stopped.edge)
                && other.next == stopped.answered
                && now_ns.saturating_sub(other.last_ns) <= within_ns;
            counts.window_waits += u64::from(has_waited);
        }
        // Segments may be shorter than the other end would take, but not longer, whatever a host
        // that captures its own shows.
        let segment_max = u64::from(other.segment_max).min(counts.segment_max_bytes);
        // While something is missing the window ends early for that reason.
        let has_stopped = u64::from(edge.bytes_from(end)) < segment_max && !other.asks();
        sender.stopped = has_stopped.then_some(Stopped {
            edge,
            answered: other.next,
        });
        // What comes next is looked at, however much room there is then.
        other.near = Near(match has_stopped {
            true => i64::MAX,
            false => other.segment_max.into(),
        });
    }

    /// The shortest way from the tap to the end that sends in `direction` and back, or one that is
    /// longer.
    pub(super) fn round_trip_to(&self, direction: Direction) -> i64 {
        let shortest = self.counts[direction.opposite()].rtt_min_ns;
        let shortest = shortest.map_or(self.handshake_ns, |ns| i64::try_from(ns).ok());
        shortest.unwrap_or(0)
    }
}
