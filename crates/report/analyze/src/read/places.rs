//! What a pass asks for each row: the number of an id, the step of a time.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::DefaultHashBuilder;

/// Ids that are numbered in the order in which they come.
///
/// A table of its own, which [`touch`](Self::touch) can load before it is asked: where ids lie all
/// over the memory, a processor waits for many of them at once only if nothing is decided by them.
pub(crate) struct Places {
    hashes: DefaultHashBuilder,
    /// A power of two of ids and their numbers: an id lies at its hash, or behind it where others
    /// do.
    slots: Vec<(u64, u32)>,
    len: usize,
}

impl Places {
    /// An empty slot.
    const NONE: u32 = u32::MAX;

    pub(crate) fn new() -> Self {
        Self {
            hashes: DefaultHashBuilder::default(),
            slots: vec![(0, Self::NONE); 16],
            len: 0,
        }
    }

    /// Loads what [`get`](Self::get) looks at. The sum of all that it returns is to be used, as by
    /// [`std::hint::black_box`].
    #[inline]
    pub(crate) fn touch(&self, id: u64) -> u64 {
        self.slots[self.home(id)].0
    }

    /// The number of an id that was added.
    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<u32> {
        let mut at = self.home(id);
        loop {
            match self.slots[at] {
                (_, Self::NONE) => return None,
                (other, place) if other == id => return Some(place),
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Numbers an id that was not added before.
    pub(crate) fn add(&mut self, id: u64) -> u32 {
        if 4 * self.len >= 3 * self.slots.len() {
            self.grow();
        }
        let place = self.len as u32;
        self.put(id, place);
        self.len += 1;
        place
    }

    #[cold]
    fn grow(&mut self) {
        let empty = vec![(0, Self::NONE); 2 * self.slots.len()];
        let before = std::mem::replace(&mut self.slots, empty);
        let taken = before.into_iter().filter(|&(_, place)| place != Self::NONE);
        taken.for_each(|(id, place)| self.put(id, place));
    }

    fn put(&mut self, id: u64, place: u32) {
        let mut at = self.home(id);
        while self.slots[at].1 != Self::NONE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (id, place);
    }

    #[inline]
    fn home(&self, id: u64) -> usize {
        self.hashes.hash_one(id) as usize & (self.slots.len() - 1)
    }
}

/// Steps of time.
pub(crate) struct Steps {
    start_ns: i64,
    step_ns: u64,
    /// The latest step, and its times.
    latest: usize,
    times: Range<i64>,
}

impl Steps {
    pub(crate) fn new(start_ns: i64, step_ns: u64) -> Self {
        Self {
            start_ns,
            step_ns,
            latest: 0,
            times: 0..0,
        }
    }

    /// The step of a time; `None` if it is before the first one.
    #[inline]
    pub(crate) fn at(&mut self, time_ns: i64) -> Option<usize> {
        if self.times.contains(&time_ns) {
            return Some(self.latest);
        }
        let since = u64::try_from(time_ns.checked_sub(self.start_ns)?).ok()?;
        let step = since / self.step_ns;
        self.latest = usize::try_from(step).ok()?;
        let begin = self.start_ns.saturating_add_unsigned(step * self.step_ns);
        self.times = begin..begin.saturating_add_unsigned(self.step_ns);
        Some(self.latest)
    }
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_keep_their_number() {
        let mut random = Random::new(1);
        let (mut places, mut ids) = (Places::new(), Vec::new());
        for _ in 0..10_000 {
            let id = match random.below(8) {
                0 => random.bits(),
                _ => random.below(100),
            };
            let known = ids.iter().position(|&other| other == id);
            assert_eq!(places.get(id).map(|place| place as usize), known, "{id}");
            if known.is_none() {
                assert_eq!(places.add(id) as usize, ids.len());
                ids.push(id);
            }
        }
    }

    proptest! {
        #[test]
        fn steps_of_times_in_any_order_are_their_quotients(
            start: i64, step in 1..u64::MAX, near in proptest::collection::vec(-3..9i64, 1..9),
        ) {
            for step_ns in [step, step % 1_000 + 1] {
                let mut steps = Steps::new(start, step_ns);
                let half = i64::try_from(step_ns / 2).unwrap_or(i64::MAX);
                for &halves in near.iter().chain(&near) {
                    let time = start.saturating_add(half.saturating_mul(halves));
                    let since = time.checked_sub(start).and_then(|since| u64::try_from(since).ok());
                    prop_assert_eq!(steps.at(time), since.map(|since| (since / step_ns) as usize));
                }
            }
        }
    }
}
