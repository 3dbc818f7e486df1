//! One thread and a seed in place of many threads: which message arrives next and which actor runs
//! next, for how many messages, is drawn; time is virtual.
//!
//! Between each pair of actors lies a lane that keeps order, and nothing else does: a message may
//! overtake one that was sent earlier to the same actor by another, as on real cores.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::cell::CellPtr;
use crate::mailbox::Node;

/// A step takes less than this of virtual time: about what an activation takes on a real core.
const STEP_NS_MAX: u64 = 1_000;

/// A message under way. Ordered only for the sake of the timers that hold one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Envelope {
    pub(crate) to: CellPtr,
    pub(crate) node: *mut Node,
}

// SAFETY: an envelope owns its node, whose message is `Send`.
unsafe impl Send for Envelope {}

pub(crate) struct World {
    random: Random,
    now_ns: u64,
    ready: Vec<CellPtr>,
    /// By sender and receiver. A BTreeMap, because a hash map's order is no function of the seed.
    lanes: BTreeMap<(u32, u32), VecDeque<Envelope>>,
    busy: Vec<(u32, u32)>,
}

pub(crate) enum Step {
    Deliver(Envelope),
    Run(CellPtr),
    Idle,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            now_ns: 0,
            ready: Vec::new(),
            lanes: BTreeMap::new(),
            busy: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns)
    }

    pub(crate) fn advance_to(&mut self, deadline: Duration) {
        let deadline_ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        self.now_ns = self.now_ns.max(deadline_ns);
    }

    pub(crate) fn send(&mut self, from: u32, to: u32, envelope: Envelope) {
        let lane = self.lanes.entry((from, to)).or_default();
        if lane.is_empty() {
            self.busy.push((from, to));
        }
        lane.push_back(envelope);
    }

    pub(crate) fn make_ready(&mut self, cell: CellPtr) {
        self.ready.push(cell);
    }

    pub(crate) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// How many messages the next activation may handle.
    pub(crate) fn limit(&mut self, max: usize) -> usize {
        1 + self.random.below(max)
    }

    pub(crate) fn step(&mut self) -> Step {
        let choices = self.ready.len() + self.busy.len();
        if choices == 0 {
            return Step::Idle;
        }
        self.now_ns += self.random.next() % STEP_NS_MAX;
        let choice = self.random.below(choices);
        if choice < self.ready.len() {
            return Step::Run(self.ready.swap_remove(choice));
        }
        let at = choice - self.ready.len();
        let lane = self.lanes.get_mut(&self.busy[at]).expect("a busy lane");
        let envelope = lane.pop_front().expect("a busy lane is not empty");
        if lane.is_empty() {
            self.busy.swap_remove(at);
        }
        Step::Deliver(envelope)
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): any seed is as good as another.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `bound` - 1. The bias of the remainder is below 2^-40 for any queue that fits in
    /// memory.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("less than a usize")
    }
}
