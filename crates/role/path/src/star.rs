//! The core of a path: where a frame goes on that has passed the chain of the port by which it
//! came.
//!
//! ```text
//!  port 0 ─► [chain in] ─┐          ┌─► [chain out] ─► port 0
//!  port 1 ─► [chain in] ─┼─► Core ──┼─► [chain out] ─► port 1
//!  port n ─► [chain in] ─┘          └─► [chain out] ─► port n
//! ```

use lineside_frame::{Frame, FrameRef};
use lineside_time::Nanoseconds;
use lineside_trace::certificate::link::CoreReport;

/// The most ports of a path.
pub const PORTS_MAX: usize = 8;

/// Ports of a path, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ports(u8);

impl Ports {
    /// The first `count` ports.
    pub fn first(count: usize) -> Self {
        assert!(count <= PORTS_MAX, "a path has at most {PORTS_MAX} ports");
        Self(((1_u16 << count) - 1) as u8)
    }

    /// One port.
    #[inline]
    pub fn one(port: usize) -> Self {
        Self(1 << port)
    }

    /// These without one.
    #[inline]
    #[must_use]
    pub fn without(self, port: usize) -> Self {
        Self(self.0 & !(1 << port))
    }

    /// Whether this port is one of them.
    #[inline]
    pub fn holds(self, port: usize) -> bool {
        self.0 & 1 << port != 0
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    #[inline]
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

impl Iterator for Ports {
    type Item = usize;

    /// The lowest one first.
    #[inline]
    fn next(&mut self) -> Option<usize> {
        let port = self.0.trailing_zeros() as usize;
        if self.is_empty() {
            return None;
        }
        *self = self.without(port);
        Some(port)
    }
}

/// Says where frames go on: the middle of a path. It has no clock, and holds no frame.
pub trait Core: std::fmt::Debug {
    /// The port by which all frames leave that come in by `port`, whatever they are: they are then
    /// not shown to the core, and pass no second chain. `None` if it depends on the frame.
    fn always(&self, port: usize) -> Option<usize>;

    /// The ports by which a frame is to leave that came in by `port`, and left the chain there at
    /// `now`: never `port` itself, and none if the frame is dropped, which the core counts. Frames
    /// of all ports come in the order of their instants, but for some microseconds between live
    /// ports.
    fn on_frame(&mut self, now: Nanoseconds, port: usize, frame: &FrameRef) -> Ports;

    /// A port is gone for good: nothing comes from there, and nothing is to leave by it.
    fn on_port_gone(&mut self, port: usize);

    /// What it counted; `None` if there is nothing to count.
    fn report(&self) -> Option<CoreReport>;
}

/// A frame that the core sent nowhere.
#[derive(Debug)]
pub struct CoreDrop {
    /// When it came to the core.
    pub at_ns: Nanoseconds,
    /// The port by which it came.
    pub port: usize,
    /// The frame.
    pub item: Frame,
}

/// Pairs of ports, one or several beside each other: what comes in by one of a pair leaves by the
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire;

impl Core for Wire {
    fn always(&self, port: usize) -> Option<usize> {
        Some(port ^ 1)
    }

    fn on_frame(&mut self, _: Nanoseconds, port: usize, _: &FrameRef) -> Ports {
        Ports::one(port ^ 1)
    }

    /// A wire with one end is none: its driver ends.
    fn on_port_gone(&mut self, _: usize) {}

    fn report(&self) -> Option<CoreReport> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_set() {
        let all = Ports::first(PORTS_MAX);
        assert_eq!(all.collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
        let some = Ports::first(5).without(0).without(3).without(7);
        assert_eq!((some.count(), some.collect::<Vec<_>>()), (3, vec![1, 2, 4]));
        assert!(some.holds(4) && !some.holds(3) && !some.is_empty());
        assert!(Ports::one(6).without(6).is_empty());
    }
}
