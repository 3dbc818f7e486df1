//! A block of data for a checksum: one whose XXH3 is that, so that a file that is made of checksums
//! reads as the one that they came from.
//!
//! XXH3 is no cryptographic hash. Each word of a round is added to the sum beside its own, and the
//! product of its keyed halves to its own sum. A word whose keyed halves have a 0 adds to the
//! neighbour alone: two such words, one with a free lower half, one with a free upper half, bring
//! any sum to any value. The end multiplies two sums: with 1 in the one, the other is the product.

use crate::xxh3::{AVALANCHE, END_KEY, LAST_KEY, LEN, PRIME32, PRIME64, ROUND, SECRET};

const WORDS: usize = LEN / 8;
/// Words of a round, and rounds.
const LANES: usize = ROUND / 8;
const ROUNDS: usize = LEN / ROUND;

/// The block of a checksum: the same for the same one, and otherwise as if drawn by chance. That of
/// 512 zeros is 512 zeros.
pub fn block_of(sum: u64) -> [u8; LEN] {
    if sum == ZEROS {
        return [0; LEN];
    }
    let mut words = [0; WORDS];
    let mut state = sum;
    for word in &mut words {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        *word = bits ^ bits >> 31;
    }
    // The last two rounds decide the first two sums.
    let (last, before) = (ROUNDS - 1, ROUNDS - 2);
    for lane in [0, 1] {
        words[before * LANES + lane] = 0;
        words[last * LANES + lane] = 0;
    }
    let sums = sums(&words);
    let others = (1..LANES / 2).fold((LEN as u64).wrapping_mul(PRIME64[0]), |all, pair| {
        let end = |lane: usize| sums[lane] ^ key(END_KEY + 8 * lane);
        all.wrapping_add(product(end(2 * pair), end(2 * pair + 1)))
    });
    let wanted = [
        unmixed(sum).wrapping_sub(others) ^ key(END_KEY),
        1 ^ key(END_KEY + 8),
    ];
    for lane in [0, 1] {
        // What it adds goes to the sum beside it.
        let missing = wanted[lane ^ 1].wrapping_sub(sums[lane ^ 1]);
        let (low_key, high_key) = (
            key(round_key(before) + 8 * lane),
            key(round_key(last) + 8 * lane),
        );
        let low = (missing as u32).wrapping_sub(high_key as u32);
        let carry = (u64::from(low) + u64::from(high_key as u32)) >> 32;
        let high = (missing >> 32)
            .wrapping_sub(low_key >> 32)
            .wrapping_sub(carry);
        words[before * LANES + lane] = (low_key >> 32 << 32) | u64::from(low);
        words[last * LANES + lane] = (high << 32) | u64::from(high_key as u32);
    }
    let mut block = [0; LEN];
    for (bytes, word) in block.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    block
}

/// The checksum of 512 zeros.
pub const ZEROS: u64 = mixed(sum_of_zeros());

/// The sums of all words but those that are 0 here and are set later: they add nothing yet.
fn sums(words: &[u64; WORDS]) -> [u64; LANES] {
    let mut sums = START;
    for (at, &word) in words.iter().enumerate() {
        let (round, lane) = (at / LANES, at % LANES);
        if round >= ROUNDS - 2 && lane < 2 {
            continue;
        }
        let keyed = word ^ key(round_key(round) + 8 * lane);
        sums[lane] = sums[lane].wrapping_add((keyed & 0xffff_ffff) * (keyed >> 32));
        sums[lane ^ 1] = sums[lane ^ 1].wrapping_add(word);
    }
    sums
}

const START: [u64; LANES] = [
    PRIME32[2], PRIME64[0], PRIME64[1], PRIME64[2], PRIME64[3], PRIME32[1], PRIME64[4], PRIME32[0],
];

const fn sum_of_zeros() -> u64 {
    let mut sums = START;
    let mut at = 0;
    while at < WORDS {
        let keyed = key(round_key(at / LANES) + 8 * (at % LANES));
        let lane = at % LANES;
        sums[lane] = sums[lane].wrapping_add((keyed & 0xffff_ffff) * (keyed >> 32));
        at += 1;
    }
    let mut all = (LEN as u64).wrapping_mul(PRIME64[0]);
    let mut lane = 0;
    while lane < LANES {
        let (one, other) = (key(END_KEY + 8 * lane), key(END_KEY + 8 * (lane + 1)));
        all = all.wrapping_add(product(sums[lane] ^ one, sums[lane + 1] ^ other));
        lane += 2;
    }
    all
}

/// Where the keys of a round begin.
const fn round_key(round: usize) -> usize {
    match round == ROUNDS - 1 {
        true => LAST_KEY,
        false => 8 * round,
    }
}

const fn key(at: usize) -> u64 {
    let mut word = 0;
    let mut byte = 8;
    while byte > 0 {
        byte -= 1;
        word = word << 8 | SECRET[at + byte] as u64;
    }
    word
}

const fn product(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    product as u64 ^ (product >> 64) as u64
}

/// The end of XXH3.
const fn mixed(sum: u64) -> u64 {
    let sum = (sum ^ sum >> 37).wrapping_mul(AVALANCHE);
    sum ^ sum >> 32
}

/// What the end of XXH3 makes a checksum of.
const fn unmixed(sum: u64) -> u64 {
    let sum = (sum ^ sum >> 32).wrapping_mul(inverse(AVALANCHE));
    sum ^ sum >> 37
}

/// The number that an odd one times is 1: each step of Newton's doubles the bits that are right.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 6 {
        let error = 2_u64.wrapping_sub(odd.wrapping_mul(inverse));
        inverse = inverse.wrapping_mul(error);
        step += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::xxh3;

    proptest! {
        #[test]
        fn a_block_has_the_checksum_that_it_was_made_of(sum: u64) {
            let block = block_of(sum);
            prop_assert_eq!(xxh3::sum(&block), sum);
            prop_assert_eq!(twox_hash::XxHash3_64::oneshot(&block), sum);
            prop_assert_eq!(block, block_of(sum));
        }
    }

    #[test]
    fn zeros_are_zeros() {
        assert_eq!(ZEROS, xxh3::sum(&[0; LEN]));
        assert_eq!(block_of(ZEROS), [0; LEN]);
        for sum in [0, 1, u64::MAX] {
            assert_eq!(xxh3::sum(&block_of(sum)), sum);
        }
    }
}
