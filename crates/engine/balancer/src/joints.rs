//! How the halves of connections differ whose handshake was answered here.

use hashbrown::HashMap;
use lineside_account::{Budget, Lease};

use crate::proxy::Splice;

/// How numbers of a connection's halves differ, of those connections that need it: few, so that it
/// has no place in each record.
#[derive(Debug)]
pub(crate) struct Joints {
    by_number: HashMap<u32, Splice>,
    lease: Lease,
}

impl Joints {
    pub(crate) fn new(budget: &Budget) -> Option<Self> {
        Some(Self {
            by_number: HashMap::new(),
            lease: budget.lease(0)?,
        })
    }

    /// False if the budget has no room for one more.
    pub(crate) fn set(&mut self, number: u32, splice: Splice) -> bool {
        if self.by_number.len() == self.by_number.capacity() {
            // It doubles, and both are there while it does.
            let bytes = 3 * self.by_number.allocation_size() + 1024;
            if !self.lease.resize(bytes) {
                return false;
            }
        }
        self.by_number.insert(number, splice);
        self.lease.resize(self.by_number.allocation_size());
        true
    }

    pub(crate) fn forget(&mut self, number: u32) {
        if !self.by_number.is_empty() {
            self.by_number.remove(&number);
        }
    }

    pub(crate) fn of(&self, number: u32) -> Option<Splice> {
        self.by_number.get(&number).copied()
    }
}
