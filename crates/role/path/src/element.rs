use lineside_filter::Filter;
use lineside_frame::{Burst, Frame, FrameRef};
use lineside_link::{Departure, Effects, Link};
use lineside_time::Nanoseconds;

/// A part of a path that frames of one direction pass: it holds, drops, changes or classifies them.
///
/// Elements have no clock: the caller gives the time, and calls again at
/// [`next_deadline`](Self::next_deadline). Calls take a burst each, so that the one dynamic call is
/// not one a frame.
pub trait Element: std::fmt::Debug {
    /// Time that counts from the beginning of the path counts from `now` on.
    fn begin(&mut self, now: Nanoseconds);

    /// Takes all frames of `burst`, which come from a port: each arrived at its stamp, or at `now`
    /// if it has none or a later one. Frames that are due by then, and by `now`, go to `out`.
    fn on_burst(&mut self, now: Nanoseconds, burst: &mut Burst, out: &mut Effects<Frame>);

    /// Takes all frames of `from`, which left the element before at the instants that they bear.
    fn on_departures(&mut self, from: &mut Vec<Departure<Frame>>, out: &mut Effects<Frame>);

    /// Frames that are due by `now` go to `out`.
    fn on_timer(&mut self, now: Nanoseconds, out: &mut Effects<Frame>);

    /// When the next frame is due.
    fn next_deadline(&self) -> Option<Nanoseconds>;

    /// Frames that it holds.
    fn held(&self) -> usize;

    /// Copies frames that it holds out of the memory of the port that received them, which is short
    /// of it: as [`Link::spill`] does.
    fn spill(&mut self, bytes_max: usize);
}

/// A link, and what its classes of frames match.
#[derive(Debug, Clone, Copy)]
pub struct LinkReport<'a> {
    /// The link.
    pub link: &'a Link<Frame>,
    /// The expressions of classes 1, 2, ...
    pub classes: &'a [String],
    /// The set of expressions of each class, a bit each.
    pub sets: &'a [u32],
    /// The expressions.
    pub filters: &'a [Filter],
    /// Frames whose set of expressions has no class of its own.
    pub shared: u64,
}

/// When a frame from a port arrived.
#[inline]
pub(crate) fn arrival_ns(frame: &FrameRef, now: Nanoseconds) -> Nanoseconds {
    frame.descriptor().stamp_ns.unwrap_or(now).min(now)
}

impl Element for Link<Frame> {
    fn begin(&mut self, now: Nanoseconds) {
        self.begin(now);
    }

    fn on_burst(&mut self, now: Nanoseconds, burst: &mut Burst, out: &mut Effects<Frame>) {
        for frame in burst.drain(..) {
            self.push(arrival_ns(&frame, now), frame, out);
        }
        self.on_timer(now, out);
    }

    fn on_departures(&mut self, from: &mut Vec<Departure<Frame>>, out: &mut Effects<Frame>) {
        for departure in from.drain(..) {
            self.push_departure(0, departure, out);
        }
    }

    fn on_timer(&mut self, now: Nanoseconds, out: &mut Effects<Frame>) {
        self.on_timer(now, out);
    }

    fn next_deadline(&self) -> Option<Nanoseconds> {
        self.next_deadline()
    }

    fn held(&self) -> usize {
        self.held()
    }

    fn spill(&mut self, bytes_max: usize) {
        self.spill(bytes_max);
    }
}
