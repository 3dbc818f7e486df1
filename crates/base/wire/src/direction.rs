use std::ops::{Index, IndexMut};

/// One of the two directions between two ends. Which one is `Forward` is up to what has the ends:
/// of a connection it is the one from the lesser end to the greater, see
/// [`FourTuple::canonical`](crate::FourTuple::canonical).
///
/// What exists once for each direction is an array of two: `counts[direction]`,
/// `counts[direction.opposite()]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the first end to the second.
    Forward = 0,
    /// From the second end to the first.
    Reverse = 1,
}

impl Direction {
    /// Both, in the order of their indices.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    /// The other one.
    #[inline]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }

    /// Its place in an array of both; also that of the end that sends.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// What belongs to this direction and what belongs to the opposite one, to be changed together.
    #[inline]
    pub const fn split_mut<T>(self, both: &mut [T; 2]) -> (&mut T, &mut T) {
        let [forward, reverse] = both;
        match self {
            Self::Forward => (forward, reverse),
            Self::Reverse => (reverse, forward),
        }
    }
}

impl<T> Index<Direction> for [T; 2] {
    type Output = T;

    #[inline]
    fn index(&self, direction: Direction) -> &T {
        &self[direction.index()]
    }
}

impl<T> IndexMut<Direction> for [T; 2] {
    #[inline]
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        &mut self[direction.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_indexed_by_direction() {
        let mut both = ["forward", "reverse"];
        for direction in Direction::BOTH {
            assert_eq!(both[direction], both[direction.index()]);
            assert_eq!(direction.opposite().opposite(), direction);
            let (this, other) = direction.split_mut(&mut both);
            std::mem::swap(this, other);
            assert_eq!(*this, ["reverse", "forward"][direction]);
            both = ["forward", "reverse"];
        }
        both[Direction::Reverse] = "back";
        assert_eq!(both, ["forward", "back"]);
    }
}
