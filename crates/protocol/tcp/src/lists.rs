//! Lists of larger records, which grow within the budget.

use lineside_account::{Budget, Lease};

/// The shortest list: few connections have more holes.
const LEN_MIN: usize = 16;
/// Spare lists that are looked at for one that is long enough.
const LOOKS_MAX: usize = 8;

/// Memory of lists. A record that is given back keeps none, so that there is never more than was
/// needed at once, and nothing is allocated again.
#[derive(Debug)]
pub(crate) struct Lists<T> {
    lease: Lease,
    /// Empty lists.
    spare: Vec<Vec<T>>,
}

impl<T> Lists<T> {
    pub(crate) fn new(budget: &Budget) -> Option<Self> {
        Some(Self {
            lease: budget.lease(0)?,
            spare: Vec::new(),
        })
    }

    /// Makes room for one more; whether there is any.
    #[inline]
    pub(crate) fn has_room(&mut self, list: &mut Vec<T>) -> bool {
        list.len() < list.capacity() || self.grow(list)
    }

    #[cold]
    fn grow(&mut self, list: &mut Vec<T>) -> bool {
        let spares = self.spare.iter().enumerate().rev().take(LOOKS_MAX);
        let longer = spares.filter(|(_, spare)| spare.capacity() > list.capacity());
        let shortest = longer.min_by_key(|(_, spare)| spare.capacity());
        let longer = match shortest.map(|(at, _)| at) {
            Some(at) => self.spare.swap_remove(at),
            None => {
                let capacity = (2 * list.capacity()).max(LEN_MIN);
                // Of each list there is a place among the spare ones, which double.
                let bytes = capacity * size_of::<T>() + 2 * size_of::<Vec<T>>();
                if !self.lease.resize(self.lease.bytes() + bytes) {
                    return false;
                }
                Vec::with_capacity(capacity)
            }
        };
        let mut shorter = std::mem::replace(list, longer);
        list.append(&mut shorter);
        self.keep(shorter);
        true
    }

    /// Takes an empty list's memory.
    pub(crate) fn take_back(&mut self, list: &mut Vec<T>) {
        self.keep(std::mem::take(list));
    }

    fn keep(&mut self, list: Vec<T>) {
        debug_assert!(list.is_empty(), "its record has forgotten all");
        if list.capacity() > 0 {
            self.spare.push(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_used_again_and_bounded() {
        let budget = Budget::new(2200);
        let mut lists = Lists::<u64>::new(&budget).expect("nothing is drawn yet");
        let mut fill = |count: u64| {
            let mut list = Vec::new();
            let put = (0..count).take_while(|&each| {
                let has_room = lists.has_room(&mut list);
                if has_room {
                    list.push(each);
                }
                has_room
            });
            let put = put.count();
            assert!(list.iter().copied().eq(0..put as u64));
            list.clear();
            lists.take_back(&mut list);
            put
        };
        assert_eq!(fill(60), 60);
        let used = budget.used_bytes();
        for _ in 0..10 {
            assert_eq!(fill(60), 60);
        }
        assert_eq!(budget.used_bytes(), used);
        assert_eq!(fill(500), 128, "1,024 bytes and those of the shorter ones");
    }
}
