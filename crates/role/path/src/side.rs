use std::ops::{Index, IndexMut};

use lineside_frame::Frame;
use lineside_link::{Departure, Dropped, Effects};
use lineside_time::Nanoseconds;

use crate::star::CoreDrop;

/// A side of a path, which has a chain of elements: the number of the port by which its frames
/// come. Behind a core that chooses there is one more for each port, for the frames that leave
/// there: their numbers follow those of the ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SideId(u8);

impl SideId {
    /// The side with this number, below 256.
    pub fn new(index: usize) -> Self {
        Self(u8::try_from(index).expect("a path has at most 256 sides"))
    }

    /// The number, as an index.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The way of a frame between two sides, as users and certificates name it. Below the command line
/// it is the number of the side by which the frame enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From side 0, the inside, to side 1.
    Outbound = 0,
    /// From side 1 to side 0.
    Inbound = 1,
}

impl Direction {
    /// Both, by the number of the side.
    pub const BOTH: [Self; 2] = [Self::Outbound, Self::Inbound];

    /// Its name in words and certificates.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
        }
    }
}

impl From<Direction> for SideId {
    #[inline]
    fn from(direction: Direction) -> Self {
        Self(direction as u8)
    }
}

/// Frames that leave a path, by the side at which they entered, each side's in order of their
/// instants.
#[derive(Debug, Default)]
pub struct Departures {
    sides: Vec<Effects<Frame>>,
    pub(crate) core_drops: Vec<CoreDrop>,
}

impl Departures {
    /// The effects of a side's chain.
    #[inline]
    pub(crate) fn side(&mut self, side: usize, keeps_drops: bool) -> &mut Effects<Frame> {
        if self.sides.len() <= side {
            self.sides.resize_with(side + 1, Effects::default);
        }
        let effects = &mut self.sides[side];
        effects.keeps_drops = keeps_drops;
        effects
    }

    /// The effects of all chains that have had any.
    pub(crate) fn sides_mut(&mut self) -> impl Iterator<Item = (SideId, &mut Effects<Frame>)> {
        let sides = self.sides.iter_mut().enumerate();
        sides.map(|(index, effects)| (SideId::new(index), effects))
    }

    /// Frames of a side that were dropped, if the path has an observer.
    pub fn drops(&self, side: impl Into<SideId>) -> &[Dropped<Frame>] {
        let effects = self.sides.get(side.into().index());
        effects.map_or(&[], |effects| &effects.drops)
    }

    /// Frames that the core dropped, if the path has an observer.
    pub fn core_drops(&self) -> &[CoreDrop] {
        &self.core_drops
    }
}

impl Index<usize> for Departures {
    type Output = Vec<Departure<Frame>>;

    fn index(&self, side: usize) -> &Self::Output {
        static NONE: Vec<Departure<Frame>> = Vec::new();
        let effects = self.sides.get(side);
        effects.map_or(&NONE, |effects| &effects.departures)
    }
}

impl IndexMut<usize> for Departures {
    fn index_mut(&mut self, side: usize) -> &mut Self::Output {
        if self.sides.len() <= side {
            self.sides.resize_with(side + 1, Effects::default);
        }
        &mut self.sides[side].departures
    }
}

/// The account of a frame that leaves, without the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// When it entered.
    pub entered_ns: Nanoseconds,
    /// When it is to leave.
    pub at_ns: Nanoseconds,
    /// Its class: see [`Path::classify`](crate::Path::classify).
    pub class: u8,
    /// As [`Departure::changes`] has it.
    pub changes: u16,
}

impl From<&Departure<Frame>> for Leaving {
    #[inline]
    fn from(departure: &Departure<Frame>) -> Self {
        Self {
            entered_ns: departure.entered_ns,
            at_ns: departure.at_ns,
            class: departure.class,
            changes: departure.changes,
        }
    }
}
