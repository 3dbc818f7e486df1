/// Bounds and windows of the engine.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// A gap that the receiver acknowledged becomes a hole after this time ...
    pub late_window_ns: i64,
    /// ... and after this many further segments of its connection, whichever takes longer.
    pub late_segments: u64,
    /// For live captures, where time passes also while a connection is quiet: a gap that was
    /// acknowledged this long ago is a hole, however few segments came since. `None`, as for files:
    /// segments decide, and so the result depends on the input alone.
    pub quiet_window_ns: Option<i64>,
    /// Bytes that one direction may hold before its oldest gap is given up. A part counts as 1 KiB
    /// at least.
    pub flow_held_max_bytes: usize,
    /// Connections in the table.
    pub connections_max: usize,
    /// A connection over UDP, and one over TCP of which nothing but a handshake was seen, is over
    /// without packets for this long.
    pub idle_timeout_ns: i64,
    /// A fragmented packet without its last part for this long is given up (RFC 8200 4.5: 60 s;
    /// Linux: 30 s).
    pub fragment_timeout_ns: i64,
    /// Bytes of fragments held at once.
    pub fragments_held_max_bytes: usize,
    /// A packet that comes again within this time was mirrored twice and is left out. With 0, no
    /// packet is.
    pub duplicate_window_ns: i64,
    /// Length of the intervals of [`StreamSink::on_interval`](crate::StreamSink::on_interval).
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
            // 10 Gb/s over 50 ms. All of them share the budget.
            flow_held_max_bytes: 64 << 20,
            connections_max: 1 << 20,
            idle_timeout_ns: 3_600_000_000_000,
            fragment_timeout_ns: 30_000_000_000,
            fragments_held_max_bytes: 8 << 20,
            // Within a rack copies are microseconds apart, and no sender retransmits within a
            // millisecond: Linux's least timeout is 200 ms, its tail loss probe 2 ms.
            duplicate_window_ns: 1_000_000,
            interval_ns: 60_000_000_000,
        }
    }
}
