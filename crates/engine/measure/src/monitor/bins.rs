//! A distribution in bins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lineside_account::{Budget, Lease};

use super::{Bin, Rows};
use crate::log_linear;

/// Where bins begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A bin for each length of a frame below 16,384 bytes, which jumbo frames do not reach, and
    /// one for all above, which only a host joins.
    Lengths,
    /// A bin for each value below 64; each power of two above has 32 bins, so that a bin is at most
    /// 3.2 % wide.
    LogLinear,
    /// Three decades of a clock of 5 ns, as the monitors of the original hardware had them
    /// (NetFPGA, NRG): bins of 5 ns below 5.12 us, of 5.12 us below 5.24 ms, of 5.24 ms below 5.37
    /// s, and one for all above.
    Decades,
}

/// Lengths with bins of their own.
const LENGTHS: u64 = 1 << 14;

/// Bits of a value that tell bins of a power of two apart.
const BITS: u32 = 5;

/// A cycle of the original's clock.
const CYCLE_NS: u64 = 5;

/// Bins of each of the original's decades.
const DECADE: u64 = 1 << 10;

impl Scale {
    /// The bin in which a value counts.
    #[inline]
    fn place(self, value: u64) -> usize {
        match self {
            Self::Lengths => value.min(LENGTHS) as usize,
            Self::LogLinear => log_linear::place(BITS, value),
            Self::Decades => {
                let cycles = value / CYCLE_NS;
                let decade = (cycles | 1).ilog2() as usize / 10;
                match decade {
                    0..3 => (decade << 10) + (cycles >> (10 * decade)) as usize,
                    _ => 3 << 10,
                }
            }
        }
    }

    /// Bytes of memory that bins may come to take, however they grow.
    pub(super) fn memory_bytes_max(self) -> usize {
        // A vector that grows has up to twice what it needs.
        2 * size_of::<u64>() * (self.place(u64::MAX) + 1)
    }

    /// The lowest and the highest value of a bin.
    fn range(self, place: usize) -> (u64, u64) {
        let value = place as u64;
        match self {
            Self::Lengths if value >= LENGTHS => (value, u64::MAX),
            Self::Lengths => (value, value),
            Self::LogLinear => log_linear::range(BITS, place),
            Self::Decades => {
                let (decade, step) = (value / DECADE, value % DECADE);
                let width = CYCLE_NS << (10 * decade);
                match decade {
                    0..3 => (step * width, (step + 1) * width - 1),
                    _ => (CYCLE_NS << 30, u64::MAX),
                }
            }
        }
    }
}

/// What bins draw their memory on, each as it grows.
#[derive(Debug, Clone)]
pub(super) struct Room {
    budget: Budget,
    is_short: Arc<AtomicBool>,
}

impl Room {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            is_short: Arc::default(),
        }
    }

    /// Whether some bins found none: a value was not counted.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }
}

/// Counts of values, bin by bin.
#[derive(Debug)]
pub struct Bins {
    metric: &'static str,
    scale: Scale,
    counts: Vec<u64>,
    /// Of bins whose owner does not draw for them.
    drawn: Option<(Room, Option<Lease>)>,
}

impl Clone for Bins {
    /// For a moment: what it takes is not drawn.
    fn clone(&self) -> Self {
        Self {
            metric: self.metric,
            scale: self.scale,
            counts: self.counts.clone(),
            drawn: None,
        }
    }
}

impl Bins {
    /// Bins without values of a metric, whose name ends in its unit.
    pub fn new(metric: &'static str, scale: Scale) -> Self {
        Self {
            metric,
            scale,
            counts: Vec::new(),
            drawn: None,
        }
    }

    /// These, whose memory is drawn there as they grow.
    pub(super) fn drawn_on(self, room: Option<&Room>) -> Self {
        let drawn = room.map(|room| (room.clone(), room.budget.lease(0)));
        Self { drawn, ..self }
    }

    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let place = self.scale.place(value);
        if place < self.counts.len() || self.grow(place) {
            self.counts[place] += 1;
        }
    }

    /// Makes room for a bin; false if there is none.
    #[cold]
    fn grow(&mut self, place: usize) -> bool {
        // A power of two of values at a time, on the log-linear scale.
        let len = (place | ((1 << BITS) - 1)) + 1;
        if let Some((room, lease)) = &mut self.drawn
            && !{ lease.as_mut() }.is_some_and(|lease| lease.resize(len * size_of::<u64>()))
        {
            room.is_short.store(true, Ordering::Relaxed);
            return false;
        }
        self.counts.reserve_exact(len - self.counts.len());
        self.counts.resize(len, 0);
        true
    }

    /// Gives the bins that are not empty.
    pub fn report(&self, out: &mut dyn Rows) {
        for (place, &count) in self.counts.iter().enumerate() {
            if count > 0 {
                let (from, to) = self.scale.range(place);
                out.bin(Bin {
                    metric: self.metric,
                    flow_id: None,
                    from,
                    to,
                    count,
                });
            }
        }
    }

    /// Bytes of memory that they take, whose most the scale says.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.counts.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_lies_in_its_bin_and_bins_touch() {
        for scale in [Scale::Lengths, Scale::LogLinear, Scale::Decades] {
            let last = scale.place(u64::MAX);
            let mut expected = 0;
            for place in 0..=last {
                let (from, to) = scale.range(place);
                if scale == Scale::Decades && from < expected {
                    // Each decade begins with bins that the one before it has more finely.
                    assert!(place % 1024 == 0, "{place}");
                    continue;
                }
                assert_eq!(from, expected, "{scale:?} {place}");
                for value in [from, to, from + (to - from) / 2] {
                    assert_eq!(scale.place(value), place, "{scale:?} {value}");
                }
                expected = to.wrapping_add(1);
            }
            assert_eq!(expected, 0, "up to the highest value");
        }
    }

    #[test]
    fn log_linear_bins_are_a_thirtieth_wide_at_most() {
        for value in [64, 100, 1_500, 1_000_000, u64::MAX / 3] {
            let (from, to) = Scale::LogLinear.range(Scale::LogLinear.place(value));
            assert!((to - from) as f64 <= from as f64 / 31.0, "{value}");
        }
    }
}
