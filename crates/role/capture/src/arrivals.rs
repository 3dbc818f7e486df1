//! What is noted of each frame before it is clear whose it is: its size, and the time.
//!
//! Deadlines compare with a clock that is the running maximum of the stamps. Where they go back and
//! stay there (the clock was set, or one stamp was far ahead of its neighbours), it goes on from
//! where it was: otherwise nothing would become overdue until the stamps have caught up.

use lineside_account::{Counter, Counters};
use lineside_frame::FrameRef;

/// Stamps that go back by less are of frames out of order.
const STEP_NS: i64 = 1_000_000_000;
/// Stamps of one input may go back by this much without a word: queues of one adapter are read in
/// turn, and dumpcap writes what its interfaces buffer, one after the other.
const BACK_NS: i64 = 100_000_000;

/// What is noted of each frame.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// Added to stamps: by how much they were set back so far.
    offset_ns: i64,
    now_ns: i64,
    /// A time that was far behind the clock, to be confirmed by the next one.
    doubtful_ns: Option<i64>,
    spans: Vec<Span>,
}

/// The stamps of an input's frames: the earliest and the latest. Before the first stamp, the
/// earliest is later than the latest.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// The earliest, nanoseconds since the Unix epoch.
    pub first_ns: i64,
    /// The latest.
    pub last_ns: i64,
    /// The one that came last; [`i64::MAX`] before the first.
    newest_ns: i64,
}

impl Span {
    #[inline]
    fn go_on(&mut self, stamp_ns: i64) {
        self.last_ns = self.last_ns.max(stamp_ns);
        self.newest_ns = stamp_ns;
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            offset_ns: 0,
            now_ns: i64::MIN,
            doubtful_ns: None,
            spans: Vec::new(),
        }
    }
}

impl Arrivals {
    /// The time as of this frame.
    // Always: it is for each frame, and where it is called from two places a heuristic says no.
    #[inline(always)]
    pub(crate) fn on_frame(&mut self, frame: &FrameRef, counters: &mut Counters) -> i64 {
        let descriptor = frame.descriptor();
        counters.count(Counter::FramesReceived);
        counters.add(Counter::FrameBytes, u64::from(descriptor.wire_len));
        if frame.bytes().len() < descriptor.wire_len as usize {
            counters.count(Counter::FramesCut);
        }
        let Some(stamp_ns) = descriptor.stamp_ns else {
            counters.count(Counter::StampsMissing);
            return self.now_ns;
        };
        match self.spans.get_mut(usize::from(descriptor.input)) {
            // Nearly always stamps go on.
            Some(span) if stamp_ns >= span.newest_ns => span.go_on(stamp_ns),
            _ => {
                let is_back = self.note_stamp(usize::from(descriptor.input), stamp_ns);
                counters.add(Counter::StampsBack, u64::from(is_back));
            }
        }
        self.observe(stamp_ns);
        self.now_ns
    }

    /// The time after a quiet while. It begins with the first frame.
    pub(crate) fn on_idle(&mut self, until_ns: i64) -> i64 {
        if !self.spans.is_empty() {
            let until_ns = until_ns.saturating_add(self.offset_ns);
            self.now_ns = self.now_ns.max(until_ns);
        }
        self.now_ns
    }

    #[inline]
    fn observe(&mut self, stamp_ns: i64) {
        let time_ns = stamp_ns.saturating_add(self.offset_ns);
        if time_ns >= self.now_ns {
            (self.now_ns, self.doubtful_ns) = (time_ns, None);
        } else {
            self.observe_back(time_ns);
        }
    }

    #[cold]
    fn observe_back(&mut self, time_ns: i64) {
        if self.now_ns.saturating_sub(time_ns) <= STEP_NS {
            self.doubtful_ns = None;
            return;
        }
        let is_confirmed = { self.doubtful_ns }
            .is_some_and(|doubtful_ns| time_ns.abs_diff(doubtful_ns) <= STEP_NS as u64);
        if is_confirmed {
            let back_ns = self.now_ns.saturating_sub(time_ns);
            self.offset_ns = self.offset_ns.saturating_add(back_ns);
            self.doubtful_ns = None;
        } else {
            self.doubtful_ns = Some(time_ns);
        }
    }

    /// A stamp that is an input's first, or before the one that came last. Returns whether it lies
    /// further back than is usual.
    #[cold]
    fn note_stamp(&mut self, input: usize, stamp_ns: i64) -> bool {
        if self.spans.len() <= input {
            let none = Span {
                first_ns: i64::MAX,
                last_ns: i64::MIN,
                newest_ns: i64::MAX,
            };
            self.spans.resize(input + 1, none);
        }
        let span = &mut self.spans[input];
        let newest_ns = { span.newest_ns }.min(span.last_ns);
        span.first_ns = span.first_ns.min(stamp_ns);
        span.go_on(stamp_ns);
        stamp_ns < newest_ns.saturating_sub(BACK_NS)
    }

    /// The time so far.
    pub(crate) fn now(&self) -> i64 {
        self.now_ns
    }

    /// The stamps seen of each input, by its number.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame};

    use super::*;

    const S: i64 = 1_000_000_000;

    /// The times as of frames with these stamps, and how many were stamped back.
    fn times(stamps: &[i64]) -> (Vec<i64>, u64) {
        let (mut arrivals, mut counters) = (Arrivals::default(), Counters::new());
        let time = |&stamp_ns: &i64| {
            let descriptor = Descriptor {
                stamp_ns: Some(stamp_ns),
                ..Descriptor::default()
            };
            arrivals.on_frame(&Frame::copied(&[], descriptor).share(), &mut counters)
        };
        let times = stamps.iter().map(time).collect();
        (times, counters.value(Counter::StampsBack))
    }

    #[test]
    fn after_a_stamp_far_ahead_time_goes_on() {
        let stamps = [10 * S, 90 * S, 10 * S + 2, 10 * S + 3, 10 * S + 5];
        let expected = vec![10 * S, 90 * S, 90 * S, 90 * S, 90 * S + 2];
        assert_eq!(times(&stamps), (expected, 1));
    }

    #[test]
    fn one_stamp_far_behind_is_nothing_but_counted() {
        let stamps = [10 * S, 2 * S, 10 * S + 2, 2 * S, 10 * S + 3];
        let expected = vec![10 * S, 10 * S, 10 * S + 2, 10 * S + 2, 10 * S + 3];
        assert_eq!(times(&stamps), (expected, 2));
    }

    #[test]
    fn a_clock_that_was_set_back_goes_on() {
        let stamps = [90 * S, 10 * S, 10 * S + 1, 10 * S + 2, 11 * S];
        let expected = vec![90 * S, 90 * S, 90 * S, 90 * S + 1, 91 * S - 1];
        assert_eq!(times(&stamps), (expected, 1));
    }

    #[test]
    fn frames_slightly_out_of_order_are_nothing() {
        let stamps = [10 * S, 10 * S - 90_000_000, 10 * S + 5, 10 * S - 9];
        assert_eq!(
            times(&stamps),
            (vec![10 * S, 10 * S, 10 * S + 5, 10 * S + 5], 0)
        );
    }
}
