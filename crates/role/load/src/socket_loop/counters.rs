//! What a loop over the kernel's sockets counts of itself.

/// A turn that takes longer is a stall.
const STALL_NS: i64 = 1_000_000;
/// No wait takes longer: a process that was stopped meanwhile finds out by this.
const STOOD_STILL_NS: i64 = 60_000_000;

/// What a [`SocketLoop`](crate::SocketLoop) counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketLoopCounters {
    /// Messages that left at an instant that the application gave.
    pub timed: u64,
    /// Writes for which the socket had no room at first.
    pub held_back: u64,
    /// Connections that were not accepted for want of descriptors; each is tried again.
    pub not_accepted: u64,
    /// Turns that took more than 1 ms, waiting apart, and waits that ended far too late.
    pub stalls: u64,
    /// The longest of them.
    pub stall_max_ns: i64,
    /// All of them together.
    pub stalled_ns: i64,
    /// Datagrams that came and found no room in their socket, because the loop did not take them in
    /// time.
    pub overrun: u64,
}

impl SocketLoopCounters {
    pub(super) fn on_turn(&mut self, took_ns: i64) {
        if took_ns > STALL_NS {
            self.stalls += 1;
            self.stalled_ns += took_ns;
        }
        self.stall_max_ns = self.stall_max_ns.max(took_ns);
    }

    /// A wait of this long at most is over, so long after its turn began.
    pub(super) fn on_wait(&mut self, timeout_ns: i64, took_ns: i64) {
        if took_ns > STOOD_STILL_NS {
            self.on_turn(took_ns - timeout_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::Chunk;
    use lineside_host::TcpOptions;
    use lineside_reactor::Wait;
    use lineside_time::Nanoseconds;

    use crate::application::{Calls, End};
    use crate::{Application, ConnectionId, Reason, SocketLoop};

    /// Nothing to do.
    struct Idle;

    impl Application for Idle {
        fn on_open(&mut self, _: ConnectionId, _: u32, _: [End; 2], _: &mut Calls) {}
        fn on_bytes(&mut self, _: ConnectionId, _: u32, _: Chunk<'_>, _: &mut Calls) {}
        fn on_acknowledged(&mut self, _: ConnectionId, _: u32, _: u64, _: &mut Calls) {}
        fn on_end(&mut self, _: ConnectionId, _: u32, _: &mut Calls) {}
        fn on_close(&mut self, _: Option<ConnectionId>, _: u32, _: Reason, _: &mut Calls) {}
        fn on_task(&mut self, _: Nanoseconds, _: u32, _: &mut Calls) {}
        fn fill(&mut self, _: ConnectionId, _: u32, _: u64, _: &mut [u8]) {}
    }

    /// A process that is stopped counts as that long, once, whether it was at work or waited.
    #[test]
    fn a_stall_is_counted_once_wherever_it_falls() {
        const MS: i64 = 1_000_000;
        let sockets = SocketLoop::new(Idle, TcpOptions::default(), Wait::Spin);
        let mut sockets = sockets.expect("epoll");
        // Of a turn without anything to do: its begin, before its wait, after it.
        let times = [
            [0, 0, 40 * MS],
            // Two stops while it waits, and one between two turns, at work.
            [40 * MS, 40 * MS, 140 * MS],
            [140 * MS, 140 * MS, 340 * MS],
            [640 * MS, 640 * MS, 641 * MS],
        ];
        let mut times = times.into_iter().flatten();
        let mut clock = || times.next().expect("a look at the clock");
        for _ in 0..4 {
            sockets.turn(&mut clock).expect("a turn");
        }
        assert!(times.next().is_none());
        let counters = sockets.counters();
        let counted = (counters.stalls, counters.stall_max_ns, counters.stalled_ns);
        assert_eq!(counted, (3, 300 * MS, 600 * MS));
    }
}
