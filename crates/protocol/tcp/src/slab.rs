//! Records by number, in one block of memory that grows within the budget.

use std::ops::{Index, IndexMut};

use lineside_account::{Budget, Lease};
use lineside_frame::prefetch;

/// In place of a number: there is none.
pub(crate) const NONE: u32 = u32::MAX;

/// Records beyond this many are in no cache of the second level when they are needed again.
const SPARE_MAX: usize = 4096;

/// What a [`Slab`] holds.
pub trait Numbered {
    /// A place that means nothing while the record is free: it has the next free number then.
    fn next_free(&mut self) -> &mut u32;
}

/// Records by number. A number that was freed is given again; the record stays as it was left but
/// for one place, so that what it allocated is used again.
#[derive(Debug)]
pub struct Slab<T> {
    records: Vec<T>,
    /// The number that was freed last, and how many are free.
    free: u32,
    free_len: u32,
    max: u32,
    lease: Lease,
}

impl<T: Numbered> Slab<T> {
    /// At most `max` records; `None` if the budget is used up.
    pub fn new(max: u32, budget: &Budget) -> Option<Self> {
        Some(Self {
            records: Vec::new(),
            free: NONE,
            free_len: 0,
            max: max.min(NONE - 1),
            lease: budget.lease(0)?,
        })
    }

    /// A number, that of a new record from `make` or of one that was freed. `None` if there are as
    /// many as may be, or the budget is used up.
    pub fn take(&mut self, make: impl FnOnce() -> T) -> Option<u32> {
        if self.free != NONE {
            let number = self.free;
            self.free = *self.records[number as usize].next_free();
            self.free_len -= 1;
            return Some(number);
        }
        if self.records.len() == self.max as usize {
            return None;
        }
        if self.records.len() == self.records.capacity() {
            self.grow()?;
        }
        self.records.push(make());
        Some(self.records.len() as u32 - 1)
    }

    #[cold]
    fn grow(&mut self) -> Option<()> {
        let len = self.records.len();
        let capacity = (2 * len).max(64).min(self.max as usize);
        // While it is copied both are there.
        let bytes = capacity * size_of::<T>();
        if !self.lease.resize(bytes + len * size_of::<T>()) {
            return None;
        }
        self.records.reserve_exact(capacity - len);
        self.lease.resize(bytes);
        Some(())
    }

    /// A number is nobody's any more.
    pub fn free(&mut self, number: u32) {
        *self.records[number as usize].next_free() = self.free;
        self.free = number;
        self.free_len += 1;
    }

    /// A record, also one that was freed.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.records.get(number as usize)
    }

    /// Asks for the first line of a record that will be needed soon.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        if let Some(record) = self.get(number) {
            prefetch(record);
        }
    }

    /// How many are in use.
    #[expect(
        clippy::len_without_is_empty,
        reason = "whether it is empty is never asked"
    )]
    pub fn len(&self) -> usize {
        self.records.len() - self.free_len as usize
    }

    /// Whether less than half of what may be is in use, and no more than stays in a cache.
    pub fn has_spare(&self) -> bool {
        self.len() < (self.max as usize / 2).min(SPARE_MAX)
    }

    /// Bytes that all records take.
    pub fn bytes(&self) -> usize {
        self.lease.bytes()
    }

    /// All records, those that were freed too.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.records.iter_mut()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.records[number as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.records[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Numbered for [u32; 2] {
        fn next_free(&mut self) -> &mut u32 {
            &mut self[0]
        }
    }

    #[test]
    fn numbers_are_given_again_and_bounded() {
        let budget = Budget::new(10_000);
        let mut slab = Slab::new(100, &budget).expect("nothing is drawn yet");
        let numbers: Vec<_> = std::iter::from_fn(|| slab.take(|| [0_u32; 2])).collect();
        assert_eq!((numbers.len(), slab.len()), (100, 100));
        slab[7] = [70; 2];
        slab[9] = [90; 2];
        slab.free(7);
        slab.free(9);
        assert_eq!(slab.len(), 98);
        assert_eq!(
            [(); 3].map(|()| slab.take(|| [0; 2])),
            [Some(9), Some(7), None]
        );
        assert_eq!((slab[7][1], slab[9][1], slab.len()), (70, 90, 100));
        assert_eq!(budget.used_bytes(), 800);
        let mut none = Slab::new(100, &Budget::new(100)).expect("nothing is drawn yet");
        assert_eq!(none.take(|| [0_u32; 2]), None, "64 do not fit");
    }
}
