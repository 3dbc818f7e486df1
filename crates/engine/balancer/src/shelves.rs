//! The connections of a node in lists by what they would be missed for: those that make room first,
//! the oldest first.
//!
//! ```text
//!  a node's address ─► closed │ answered │ half open │ unanswered │ lasting ─► port numbers by
//!                      oldest … latest of each                                NAT address
//! ```

use lineside_time::Nanoseconds;

use crate::ports::Ports;

/// Nobody's number.
pub(crate) const NONE: u32 = u32::MAX;

/// What a connection is missed for, in the order in which they make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Class {
    /// It is over.
    Closed,
    /// A UDP mapping whose node has answered: most have served.
    Answered,
    /// A handshake that is not finished, of a client that may not be there.
    HalfOpen,
    /// A UDP mapping whose node has not answered.
    Unanswered,
    /// Both ends are there. Only an idle one makes room.
    Lasting,
}

impl Class {
    pub(crate) const ALL: [Self; 5] = [
        Self::Closed,
        Self::Answered,
        Self::HalfOpen,
        Self::Unanswered,
        Self::Lasting,
    ];
    /// Those that a flood can fill.
    const FLOODED: [Self; 3] = [Self::Answered, Self::HalfOpen, Self::Unanswered];
}

/// A connection without a frame for this long is idle. The counts of a driver come home each
/// second, and are late by as much.
pub(crate) const IDLE: Nanoseconds = 62_000_000_000;

/// So many of one class, which are most of those that come and go, are a flood: it makes room for
/// itself, and for all others.
const FLOOD_MIN: u32 = 1_024;

/// Numbers of connections by class.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts([u32; Class::ALL.len()]);

impl Counts {
    pub(crate) fn of(&self, class: Class) -> u32 {
        self.0[class as usize]
    }

    pub(crate) fn add(&mut self, class: Class) {
        self.0[class as usize] += 1;
    }

    pub(crate) fn remove(&mut self, class: Class) {
        self.0[class as usize] -= 1;
    }

    /// The order in which classes make room. What a flood fills comes before what it would push
    /// out: handshakes stay while datagrams pour in.
    pub(crate) fn order(&self) -> [Class; Class::ALL.len()] {
        let mut order = Class::ALL;
        let all: u32 = Class::FLOODED.iter().map(|&class| self.of(class)).sum();
        let is_flood = |&class: &Class| {
            let len = self.of(class);
            len >= FLOOD_MIN && len > all / 2
        };
        if let Some(flood) = Class::FLOODED.into_iter().find(is_flood) {
            // Behind those that are closed.
            order[1..=flood as usize].rotate_right(1);
        }
        order
    }
}

/// The connections of a node's address.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// By class: the oldest and the latest.
    pub(crate) lists: [[u32; 2]; Class::ALL.len()],
    pub(crate) counts: Counts,
    /// By number of the NAT address.
    ports: Vec<Ports>,
}

impl Default for Shelf {
    fn default() -> Self {
        Self {
            lists: [[NONE; 2]; _],
            counts: Counts::default(),
            ports: Vec::new(),
        }
    }
}

impl Shelf {
    /// Bytes that a NAT address takes of it at worst: vectors double.
    pub(crate) const NAT_BYTES: usize = 2 * size_of::<Ports>();

    /// The numbers of a NAT address.
    pub(crate) fn ports(&mut self, nat: u8) -> &mut Ports {
        let at = usize::from(nat);
        if self.ports.len() <= at {
            self.ports.resize_with(at + 1, Ports::default);
        }
        &mut self.ports[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_makes_room_before_what_it_would_push_out() {
        use Class::*;
        let order = |counts: [u32; 5]| Counts(counts).order();
        let usual = [Closed, Answered, HalfOpen, Unanswered, Lasting];
        assert_eq!(order([9, 9, 9, 9, 9]), usual);
        // Few are no flood, nor are halves.
        assert_eq!(order([0, 1, 0, 1_023, 9]), usual);
        assert_eq!(order([0, 1_024, 1_024, 2_048, 9]), usual);
        let datagrams = [Closed, Unanswered, Answered, HalfOpen, Lasting];
        assert_eq!(order([9, 100, 100, 1_024, 90_000]), datagrams);
        let handshakes = [Closed, HalfOpen, Answered, Unanswered, Lasting];
        assert_eq!(order([9, 100, 1_024, 100, 90_000]), handshakes);
        assert_eq!(order([9, 5_000, 1_024, 100, 9]), usual);
    }
}
