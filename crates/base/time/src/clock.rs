//! Instants, and the virtual clock.

/// Nanoseconds since the Unix epoch. Negative before 1970, as a capture file may claim.
///
/// 64 bits reach from the year 1677 to 2262; a reader counts and clears a stamp beyond that.
pub type Nanoseconds = i64;

/// A source of `now` for engines.
pub trait Clock {
    /// The current instant. Never less than an earlier answer.
    fn now(&self) -> Nanoseconds;
}

/// Time that follows the stamps of what is read: the running maximum of all stamps so far.
///
/// Each record keeps its own stamp; only deadlines compare with this clock, so that a frame with an
/// old stamp cannot turn time back, and the same input meets the same deadlines.
#[derive(Debug, Clone, Copy)]
pub struct VirtualClock {
    now_ns: Nanoseconds,
}

impl VirtualClock {
    /// A clock before every stamp.
    pub fn new() -> Self {
        Self {
            now_ns: Nanoseconds::MIN,
        }
    }

    /// Moves the clock to `stamp_ns` if that is later, and returns the time.
    pub fn observe(&mut self, stamp_ns: Nanoseconds) -> Nanoseconds {
        self.now_ns = self.now_ns.max(stamp_ns);
        self.now_ns
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Nanoseconds {
        self.now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_virtual_clock_never_runs_backwards() {
        let mut clock = VirtualClock::new();
        assert_eq!(clock.observe(5), 5);
        assert_eq!(clock.observe(3), 5);
        assert_eq!(clock.now(), 5);
    }
}
