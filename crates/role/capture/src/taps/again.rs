//! Whether the first packets of a file come again behind all that was looked at before the run.
//!
//! Of two taps in one file whose clocks are hours apart, all packets of one are behind those of
//! the other. The run looks for some packets of the beginning, at the price of one look at the last
//! bytes of two frames in nine, and the verdict reports it: what became rows cannot be undone. What
//! was found, and what ends as many other packets do, is not looked for any longer.

use lineside_frame::{Frame, FrameRef};
use lineside_trace::{State, Verdict};

use super::flows::{MIRROR_NS, Placed, Tail, end_of, placed, tail};

/// Packets that are looked for: where there are as many, a look at some frames finds enough.
const SOUGHT_MAX: usize = 60;

/// Then one frame of four or five is looked at, by turns: calls, replies and their acknowledgements
/// take turns too, and whatever theirs is, each has a look.
const STEPS: (usize, usize) = (5, 4);

/// As many must come again. Fewer are retransmissions.
const AGAIN_MIN: usize = 8;

/// A packet as whose many others end that are not it is no longer looked for.
const OTHERS_MAX: u8 = 4;

/// Bits by which a frame is suspected: of others, 3 % are.
const BITS: u32 = 2048;

#[derive(Debug, Clone, Copy)]
struct Sought {
    tail: Tail,
    /// The end of the packet in its connection.
    end: u64,
    stamp_ns: i64,
    came_again: bool,
    /// Other packets that end alike.
    others: u8,
}

/// The packets of the beginning that are looked for.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// A bit for each tail that is still looked for, by a hash.
    bits: [u64; BITS as usize / 64],
    /// How many of them.
    left: usize,
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
        let (word, bit) = place_of(tail);
        if self.bits[word] & bit == 0 {
            self.bits[word] |= bit;
            self.left += 1;
            self.sought.push(Sought {
                tail,
                end,
                stamp_ns: placed.packet.stamp_ns,
                came_again: false,
                others: 0,
            });
        }
    }

    /// Looks at frames of the run.
    pub(super) fn look(&mut self, frames: &[Frame]) {
        if self.left == 0 {
            return;
        }
        let is_some = self.sought.len() == SOUGHT_MAX;
        let (mut at, mut step) = (0, if is_some { STEPS } else { (1, 1) });
        while let Some(frame) = frames.get(at) {
            if let Some(tail) = tail(frame.bytes()) {
                let (word, bit) = place_of(tail);
                if self.bits[word] & bit != 0 {
                    self.compare(tail, frame);
                }
            }
            at += step.0;
            step = (step.1, step.0);
        }
    }

    #[cold]
    fn compare(&mut self, tail: Tail, frame: &FrameRef) {
        let mut sought = self.sought.iter_mut();
        let Some(sought) = sought.find(|sought| sought.tail == tail) else {
            return;
        };
        let Some(placed) = placed(frame.descriptor().input, frame) else {
            return;
        };
        let later_ns = placed.packet.stamp_ns.saturating_sub(sought.stamp_ns);
        let is_same = end_of(&placed) == Some(sought.end);
        sought.came_again = is_same && later_ns > MIRROR_NS;
        sought.others += u8::from(!is_same);
        if sought.came_again || sought.others == OTHERS_MAX {
            let (word, bit) = place_of(tail);
            self.bits[word] &= !bit;
            self.left -= 1;
        }
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

/// A word and one of its bits, by the upper bits of a product (Knuth's multiplicative hash).
#[inline]
fn place_of(tail: Tail) -> (usize, u64) {
    let hash = tail.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS.ilog2());
    (hash as usize / 64, 1 << (hash % 64))
}
