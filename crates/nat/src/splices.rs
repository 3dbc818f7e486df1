//! Connections whose ends count differently: whoever answered the handshake in a node's place chose
//! another first number than the node did afterwards.

use hashbrown::HashMap;

use crate::table::Direction;

/// What is added to the sequence numbers of each direction, of those connections that need it: few,
/// so that it has no place in each record.
#[derive(Debug, Default)]
pub(crate) struct Shifts {
    by_number: HashMap<u32, [u32; 2]>,
}

impl Shifts {
    /// `by`: to the numbers that the client sends, and to those that the node sends.
    pub(crate) fn set(&mut self, number: u32, by: [u32; 2]) {
        self.by_number.insert(number, by);
    }

    pub(crate) fn forget(&mut self, number: u32) {
        if !self.by_number.is_empty() {
            self.by_number.remove(&number);
        }
    }

    pub(crate) fn of(&self, number: u32) -> Option<[u32; 2]> {
        self.by_number.get(&number).copied()
    }

    /// What is added to the sequence number of a frame of this direction, and to the numbers that
    /// it acknowledges.
    pub(crate) fn of_frame(&self, number: u32, direction: Direction) -> [u32; 2] {
        let by = self.of(number).unwrap_or_default();
        let theirs = by[direction.reversed().index()];
        [by[direction.index()], theirs.wrapping_neg()]
    }
}
