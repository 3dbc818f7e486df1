/// A seeded random stream: the same seed gives the same numbers on every machine.
///
/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
/// Good enough for faults and test data; not for secrets.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

/// From one state to the next: the golden ratio, odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// A stream that is a function of `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Leaves out the next `count` times 64 bits.
    pub fn skip(&mut self, count: u64) {
        self.state = self.state.wrapping_add(count.wrapping_mul(STEP));
    }

    /// A number below `bound`; 0 if `bound` is 0. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `share` (0 to 1).
    pub fn chance(&mut self, share: f64) -> bool {
        ((self.bits() >> 11) as f64) < share * (1u64 << 53) as f64
    }

    /// Fills `bytes` with random bits.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.bits().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_equals_the_published_vector() {
        // The first outputs for seed 1234567 as Rosetta Code's "Pseudo-random numbers/Splitmix64"
        // lists them.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn what_is_skipped_is_left_out() {
        let (mut one, mut other) = (Random::new(9), Random::new(9));
        for _ in 0..5 {
            one.bits();
        }
        other.skip(5);
        assert_eq!(one.bits(), other.bits());
    }

    #[test]
    fn chances_and_bounds_hold() {
        let mut random = Random::new(7);
        let hits = (0..10_000).filter(|_| random.chance(0.25)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| random.below(6) < 6));
        assert_eq!(random.below(0), 0);
    }
}
