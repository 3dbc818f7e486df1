//! Whether the first packets of a file come again behind all that was looked at before the run.
//!
//! Of two taps in one file whose clocks are hours apart, all packets of one are behind those of
//! the other. The run looks for a few packets of the beginning, at the price of one look at the
//! last bytes of each frame, and the verdict reports it: what became rows cannot be undone.

use lineside_frame::{Frame, FrameRef};
use lineside_trace::{State, Verdict};

use super::flows::{MIRROR_NS, Placed, Tail, end_of, placed, tail};

/// Packets that are looked for: few, so that others rarely look like them.
const SOUGHT_MAX: usize = 12;

/// As many must come again. Fewer are retransmissions.
const AGAIN_MIN: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Sought {
    tail: Tail,
    /// The end of the packet in its connection.
    end: u64,
    stamp_ns: i64,
    came_again: bool,
}

/// The packets of the beginning that are looked for.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// A bit for each tail, of a hash of six bits.
    bits: u64,
    sought: Vec<Sought>,
}

impl Again {
    /// Adds a packet of the beginning, unless others end alike.
    pub(super) fn seek(&mut self, placed: &Placed) {
        if self.sought.len() == SOUGHT_MAX || !placed.key.is_tcp() {
            return;
        }
        let (Some(tail), Some(end)) = (placed.tail, end_of(placed)) else {
            return;
        };
        if self.bits & bit(tail) == 0 {
            self.bits |= bit(tail);
            self.sought.push(Sought {
                tail,
                end,
                stamp_ns: placed.packet.stamp_ns,
                came_again: false,
            });
        }
    }

    /// Looks at frames of the run.
    pub(super) fn look(&mut self, frames: &[Frame]) {
        if self.bits == 0 {
            return;
        }
        for frame in frames {
            if let Some(tail) = tail(frame.bytes())
                && self.bits & bit(tail) != 0
            {
                self.compare(tail, frame);
            }
        }
    }

    #[cold]
    fn compare(&mut self, tail: Tail, frame: &FrameRef) {
        let mut sought = self.sought.iter_mut();
        let Some(sought) = sought.find(|sought| sought.tail == tail && !sought.came_again) else {
            return;
        };
        let Some(placed) = placed(frame.descriptor().input, frame) else {
            return;
        };
        let later_ns = placed.packet.stamp_ns.saturating_sub(sought.stamp_ns);
        sought.came_again = later_ns > MIRROR_NS && end_of(&placed) == Some(sought.end);
    }

    /// Whether most of the packets came again.
    fn came(&self) -> bool {
        let again = { self.sought.iter() }.filter(|sought| sought.came_again);
        let again = again.count();
        again >= AGAIN_MIN
    }

    /// Reports in the verdict that packets count twice.
    pub(super) fn doubt(&self, verdict: &mut Verdict) {
        if !self.came() {
            return;
        }
        if verdict.state == State::Complete {
            verdict.state = State::Incomplete;
        }
        verdict.reasons.push(
            "packets at the beginning of the file come again much later, as of two taps whose \
             clocks differ: packets and operations count twice; give each tap as a file of its own"
                .to_owned(),
        );
    }
}

/// One of 64 bits, by the upper bits of a product (Knuth's multiplicative hash).
fn bit(tail: Tail) -> u64 {
    1 << (tail.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}
