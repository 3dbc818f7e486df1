//! Replies that TCP kept back at the server until an acknowledgement came: a small one while
//! another was under way (RFC 896, Nagle), or any while the client's window was full. The server
//! had answered; what it waited for is the client's, or the way's.

use lineside_wire::Direction;

use super::connection::RpcConnection;

/// A server answers within this even where no round trip is known: 1 ms is little beside the 20 ms
/// that make an acknowledgement late.
const WITHIN_MIN_NS: i64 = 1_000_000;

/// An acknowledgement that came late.
#[derive(Debug)]
pub(super) struct LateAck {
    /// Of the bytes that it acknowledges.
    pub(super) direction: Direction,
    /// When the last of those had passed.
    pub(super) since_ns: i64,
    pub(super) at_ns: i64,
    /// When the last that it freed had left; at first, `at_ns`.
    pub(super) left_ns: i64,
    /// A round trip from the tap to their sender and back.
    pub(super) within_ns: i64,
}

/// Replies that were freed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AckWaits {
    pub(super) replies: i64,
    pub(super) waited_ns: i64,
}

impl RpcConnection {
    /// A reply of `direction` has ended: whether it was kept back, itself or behind others that
    /// were. `call_end_ns`: when its call had come; `reply_ns`: its first byte and its last one.
    #[cold]
    pub(super) fn end_ack_wait(
        &mut self,
        direction: Direction,
        call_end_ns: Option<i64>,
        reply_ns: [Option<i64>; 2],
    ) {
        let (Some(late), [Some(first_ns), Some(last_ns)]) = (&mut self.late_ack, reply_ns) else {
            return;
        };
        // What began before it is the acknowledged itself.
        if late.direction != direction || first_ns < late.at_ns {
            return;
        }
        let within_ns = late.within_ns.max(WITHIN_MIN_NS);
        let waited_ns = call_end_ns.map(|end_ns| late.at_ns - end_ns.max(late.since_ns));
        // A wait of less than two round trips may end with an acknowledgement by chance.
        let is_long = waited_ns.is_none_or(|ns| ns >= 2 * within_ns);
        if !is_long || first_ns - late.left_ns > within_ns {
            self.late_ack = None;
            return;
        }
        late.left_ns = last_ns;
        if let Some(waited_ns) = waited_ns {
            self.ack_waits.replies += 1;
            self.ack_waits.waited_ns += waited_ns;
        }
    }
}
