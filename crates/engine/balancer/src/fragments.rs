//! Packets that come in fragments, and where each goes.

use std::collections::VecDeque;

use lineside_account::{Budget, Lease};
use lineside_frame::Frame;
use lineside_time::Nanoseconds;
use lineside_wire::FragmentKey;

use crate::counters::Outcome;
use crate::table::Direction;

/// Packets whose first fragment is remembered or waited for; the oldest makes room.
pub(crate) const PACKETS_MAX: usize = 256;
/// Frames that wait for a first fragment, of all packets together.
pub(crate) const HELD_MAX: usize = 256;

/// Where the fragments of a packet go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The first has not come.
    Unknown,
    /// With this connection.
    Connection(u32, Direction),
    /// As the first: nowhere.
    Dropped(Outcome),
}

#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) key: FragmentKey,
    pub(crate) since: Nanoseconds,
    pub(crate) way: Way,
    pub(crate) held: Vec<(usize, Frame)>,
}

/// Packets in fragments, the oldest first.
#[derive(Debug)]
pub(crate) struct Fragments {
    pub(crate) packets: VecDeque<Pieces>,
    pub(crate) held: usize,
    _lease: Lease,
}

impl Fragments {
    pub(crate) fn new(budget: &Budget) -> Option<Self> {
        let bytes = PACKETS_MAX * size_of::<Pieces>() + HELD_MAX * size_of::<(usize, Frame)>();
        Some(Self {
            packets: VecDeque::with_capacity(PACKETS_MAX),
            held: 0,
            _lease: budget.lease(bytes)?,
        })
    }

    pub(crate) fn held_len(&self) -> usize {
        self.held
    }

    pub(crate) fn held_mut(&mut self) -> impl Iterator<Item = &mut Frame> {
        let all = self.packets.iter_mut();
        all.flat_map(|pieces| pieces.held.iter_mut().map(|(_, frame)| frame))
    }

    pub(crate) fn next_deadline(&self, timeout: Nanoseconds) -> Option<Nanoseconds> {
        Some(self.packets.front()?.since.saturating_add(timeout))
    }

    pub(crate) fn find(&mut self, key: &FragmentKey) -> Option<&mut Pieces> {
        // Fragments of a packet come together: the latest are looked at first.
        self.packets
            .iter_mut()
            .rev()
            .find(|pieces| pieces.key == *key)
    }

    /// Forgets the oldest packet; returns how many of its frames waited.
    pub(crate) fn drop_oldest(&mut self) -> usize {
        let held = self
            .packets
            .pop_front()
            .map_or(0, |pieces| pieces.held.len());
        self.held -= held;
        held
    }
}
