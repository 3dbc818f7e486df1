//! How long a message waited for something else than its server: bytes that TCP sent again, or an
//! acknowledgement.

use lineside_wire::Direction;

use super::connection::RpcConnection;
use super::recovery::Waiting;

/// A server answers within this even where no round trip is known: 1 ms is little beside the 20 ms
/// that make an acknowledgement late.
const WITHIN_MIN_NS: i64 = 1_000_000;

impl RpcConnection {
    /// How long a call and its reply, which has just ended in `direction`, waited for bytes that
    /// were sent again. `times` are when the tap saw the first byte and the last one of each,
    /// `call_end` where the call ended in its stream.
    #[cold]
    pub(super) fn waited_ns(
        &self,
        direction: Direction,
        [call, reply]: [(Option<i64>, Option<i64>); 2],
        call_end: i64,
    ) -> [Option<i64>; 2] {
        let waited = |which: Direction, message: Option<Waiting>| {
            let recoveries = self.recoveries[which].as_ref();
            recoveries?.waited_ns(&message?, which != direction)
        };
        let call = call
            .0
            .zip(call.1)
            .zip(reply.0)
            .map(|(seen_ns, until_ns)| Waiting {
                seen_ns,
                end: call_end,
                until_ns,
            });
        let reply = reply.0.zip(reply.1).map(|seen_ns| Waiting {
            seen_ns,
            end: self.passed[direction],
            until_ns: i64::MAX,
        });
        [waited(direction.opposite(), call), waited(direction, reply)]
    }

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
