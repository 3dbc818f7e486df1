use lineside_measure::{LateCounts, SignedTimes, Times};
use lineside_time::Nanoseconds;

use crate::Leaving;

/// The account of frames that left at one side since the latest change, as the caller reports them.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// From entering to leaving, of class 0.
    pub(crate) residence: Times,
    /// The same of classes 1, 2, ...
    pub(crate) residence_by_class: Vec<Times>,
    /// From the instant at which a frame was to leave to the one at which it did.
    pub(crate) difference: SignedTimes,
    pub(crate) late: LateCounts,
    pub(crate) lateness_max_ns: i64,
}

impl Account {
    pub(crate) fn new(classes: usize) -> Self {
        let mut account = Self::default();
        account.grow(classes);
        account
    }

    /// Has this many classes, of which those that are new have no frames.
    pub(crate) fn grow(&mut self, classes: usize) {
        let others = &mut self.residence_by_class;
        others.resize_with(classes - 1, Times::default);
    }

    /// How many classes it has.
    pub(crate) fn classes(&self) -> usize {
        self.residence_by_class.len() + 1
    }

    /// The memory of an account.
    pub(crate) fn memory_bytes(classes: usize) -> usize {
        (classes + 1) * Times::MEMORY_BYTES
    }

    #[inline]
    pub(crate) fn record(&mut self, departure: &Leaving, sent_ns: Nanoseconds) {
        let residence_ns = sent_ns.saturating_sub(departure.entered_ns);
        let other = usize::from(departure.class).checked_sub(1);
        match other {
            None => self.residence.record(residence_ns),
            Some(other) => {
                if other >= self.residence_by_class.len() {
                    // A class that was made since: the memory for this was leased then.
                    self.grow(other + 2);
                }
                self.residence_by_class[other].record(residence_ns);
            }
        }
        let late_ns = sent_ns.saturating_sub(departure.at_ns);
        self.difference.record(late_ns);
        self.late.record(late_ns);
        self.lateness_max_ns = self.lateness_max_ns.max(late_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_draws_memory_for_all_its_times() {
        for classes in [1, 2, 64] {
            let times = 2 + Account::new(classes).residence_by_class.len();
            assert_eq!(Account::memory_bytes(classes), times * Times::MEMORY_BYTES);
        }
    }
}
