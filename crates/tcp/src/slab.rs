//! Records by number, in one block of memory that grows within the budget.

use std::ops::{Index, IndexMut};

use lineside_account::{Budget, Lease};

use crate::record::NONE;

/// Records by number. A number that was freed is given again; the record stays as it was left, so
/// that what it allocated is used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    records: Vec<T>,
    free: Vec<u32>,
    max: u32,
    lease: Lease,
}

impl<T> Slab<T> {
    /// A number and its place among the free ones.
    const BYTES: usize = size_of::<T>() + size_of::<u32>();

    pub(crate) fn new(max: u32, budget: &Budget) -> Option<Self> {
        Some(Self {
            records: Vec::new(),
            free: Vec::new(),
            max: max.min(NONE - 1),
            lease: budget.lease(0)?,
        })
    }

    /// A number, that of a new record from `make` or of one that was freed. `None` if there are as
    /// many as may be, or the budget is used up.
    pub(crate) fn take(&mut self, make: impl FnOnce() -> T) -> Option<u32> {
        if let Some(number) = self.free.pop() {
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
        let bytes = capacity * Self::BYTES;
        if !self.lease.resize(bytes + len * size_of::<T>()) {
            return None;
        }
        self.records.reserve_exact(capacity - len);
        let free = capacity - self.free.len();
        self.free.reserve_exact(free);
        self.lease.resize(bytes);
        Some(())
    }

    pub(crate) fn free(&mut self, number: u32) {
        self.free.push(number);
    }

    /// A record, also one that was freed.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.records.get(number as usize)
    }

    /// How many are in use.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Whether less than half of what may be is in use.
    pub(crate) fn has_spare(&self) -> bool {
        2 * self.len() < self.max as usize
    }

    /// All records, those that were freed too.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
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

    #[test]
    fn numbers_are_given_again_and_bounded() {
        let budget = Budget::new(10_000);
        let mut slab = Slab::new(100, &budget).expect("nothing is drawn yet");
        let numbers: Vec<_> = std::iter::from_fn(|| slab.take(|| 0_u64)).collect();
        assert_eq!((numbers.len(), slab.len()), (100, 100));
        slab.free(7);
        assert_eq!((slab.take(|| 0), slab.take(|| 0)), (Some(7), None));
        assert_eq!(budget.used_bytes(), 1200);
        let mut none = Slab::new(100, &Budget::new(100)).expect("nothing is drawn yet");
        assert_eq!(none.take(|| 0_u64), None, "64 do not fit");
    }
}
