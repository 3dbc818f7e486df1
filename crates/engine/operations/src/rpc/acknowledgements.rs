//! Replies that TCP kept back at the server until an acknowledgement came: a small one while
//! another was under way (RFC 896, Nagle), or any while the client's window was full. The server
//! had answered; what it waited for is the client's, or the way's.

use lineside_wire::Direction;

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
