//! How late calls were, in bounded memory.

use std::collections::BTreeMap;

/// Times with their counts, to the 128th part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lateness(BTreeMap<i64, u64>);

impl Lateness {
    /// Counts one.
    pub fn add(&mut self, ns: i64) {
        let bits = 64 - ns.unsigned_abs().leading_zeros();
        let lost = bits.saturating_sub(8);
        *self.0.entry(ns >> lost << lost).or_default() += 1;
    }

    /// Times with their counts.
    pub fn steps(&self) -> impl Iterator<Item = (i64, u64)> {
        self.0.iter().map(|(&ns, &count)| (ns, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_known_to_the_128th_part() {
        let mut late = Lateness::default();
        (0..1_000_000_i64).for_each(|ns| late.add(ns * 1_000));
        assert_eq!(late.steps().map(|(_, count)| count).sum::<u64>(), 1_000_000);
        assert!(late.steps().count() < 4_000);
        for ns in [0, 255, 256, 999, -3, 123_456_789] {
            let mut one = Lateness::default();
            one.add(ns);
            let known = one.steps().next().map_or(0, |(known, _)| known);
            assert!((known - ns).abs() * 128 <= ns.abs(), "{ns} {known}");
        }
    }
}
