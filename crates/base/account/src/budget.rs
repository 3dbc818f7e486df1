//! One limit on memory that tables, pools and queues draw on. It is a sum of what its users
//! declare, not an allocator.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A share of the process's memory that tables, pools and queues draw on. Clones are the same
/// budget.
///
/// It counts what its users declare; the allocator is not asked. Relaxed ordering is enough: the
/// number orders nothing else.
///
/// The last eighth is a reserve: connections of a flood, and parts that can be merged later, draw
/// as [`Claim::Spare`], and leave it to others.
#[derive(Debug, Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
}

/// What a budget is drawn on for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// What must not give way to what anybody can send: it may take all that there is.
    Full,
    /// What gives way: it leaves the reserve alone.
    Spare,
}

/// The reserve is this part of a budget: one in eight. A guess: of 64 MiB 8, which is what 5,000
/// segments of established connections take that wait for earlier ones.
const RESERVE_SHARE: usize = 8;

/// Bytes drawn from a [`Budget`], given back on drop.
#[derive(Debug)]
pub struct Lease {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    /// A budget of `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        let shared = Shared {
            limit_bytes,
            used_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Draws `bytes`, or nothing if they do not fit.
    pub fn draw(&self, bytes: usize) -> bool {
        self.draw_as(Claim::Full, bytes)
    }

    /// Draws `bytes`, or nothing if they do not fit into what is there for this claim.
    pub fn draw_as(&self, claim: Claim, bytes: usize) -> bool {
        let limit_bytes = self.limit_as(claim);
        let fits = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= limit_bytes);
        match self
            .shared
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        {
            Ok(before) => {
                self.shared
                    .peak_bytes
                    .fetch_max(before + bytes, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }

    /// Gives back `bytes` that were drawn.
    pub fn give_back(&self, bytes: usize) {
        let before = self.shared.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more given back than drawn");
    }

    /// Draws `bytes` for as long as the lease lives.
    pub fn lease(&self, bytes: usize) -> Option<Lease> {
        self.lease_as(Claim::Full, bytes)
    }

    /// The same of what is there for this claim.
    pub fn lease_as(&self, claim: Claim, bytes: usize) -> Option<Lease> {
        self.draw_as(claim, bytes).then(|| Lease {
            budget: self.clone(),
            bytes,
        })
    }

    /// The most that may be drawn at once.
    pub fn limit_bytes(&self) -> usize {
        self.shared.limit_bytes
    }

    /// Whether the reserve is untouched: no more is drawn than [`Claim::Spare`] may take.
    pub fn has_reserve(&self) -> bool {
        self.used_bytes() <= self.limit_as(Claim::Spare)
    }

    /// How much [`Claim::Spare`] leaves alone.
    pub fn reserve_bytes(&self) -> usize {
        self.limit_bytes() / RESERVE_SHARE
    }

    fn limit_as(&self, claim: Claim) -> usize {
        match claim {
            Claim::Full => self.limit_bytes(),
            Claim::Spare => self.limit_bytes() - self.reserve_bytes(),
        }
    }

    /// What is drawn now.
    pub fn used_bytes(&self) -> usize {
        self.shared.used_bytes.load(Ordering::Relaxed)
    }

    /// The most that was ever drawn.
    pub fn peak_bytes(&self) -> usize {
        self.shared.peak_bytes.load(Ordering::Relaxed)
    }
}

impl Lease {
    /// What it is drawn on.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Bytes drawn.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the lease to `bytes`; false, and nothing changed, if the increase does not fit.
    pub fn resize(&mut self, bytes: usize) -> bool {
        self.resize_as(Claim::Full, bytes)
    }

    /// The same, an increase of what is there for this claim.
    pub fn resize_as(&mut self, claim: Claim, bytes: usize) -> bool {
        if bytes > self.bytes {
            if !self.budget.draw_as(claim, bytes - self.bytes) {
                return false;
            }
        } else {
            self.budget.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_bears_no_more_than_its_limit() {
        let budget = Budget::new(100);
        let mut lease = budget.lease(60).expect("fits");
        assert!(!budget.draw(41));
        assert!(lease.resize(100));
        assert!(!lease.resize(101));
        assert!(lease.resize(10));
        assert_eq!((budget.used_bytes(), budget.peak_bytes()), (10, 100));
        drop(lease);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn what_gives_way_leaves_the_reserve_alone() {
        let budget = Budget::new(800);
        let mut lease = budget.lease_as(Claim::Spare, 600).expect("fits");
        assert!(!budget.draw_as(Claim::Spare, 101) && budget.has_reserve());
        assert!(!lease.resize_as(Claim::Spare, 701));
        assert!(lease.resize_as(Claim::Spare, 700));
        assert!(budget.has_reserve());
        assert!(budget.draw(100) && !budget.draw(1) && !budget.has_reserve());
        // Less fits in any case.
        assert!(lease.resize_as(Claim::Spare, 650));
        assert!(!budget.draw_as(Claim::Spare, 1) && budget.draw(50));
    }
}
