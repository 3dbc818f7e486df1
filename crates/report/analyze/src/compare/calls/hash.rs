//! Numbers that are the same for the same thing in both traces.

/// A number for some bytes: FNV-1a, 64 bits, never 0.
pub(super) fn bytes_hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}

/// A number for two, in this order, never 0: the finaliser of SplitMix64.
pub(super) fn mixed(one: u64, other: u64) -> u64 {
    let mut all = (one.rotate_left(29) ^ other).wrapping_add(0x9e37_79b9_7f4a_7c15);
    all = (all ^ (all >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    all = (all ^ (all >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (all ^ (all >> 31)).max(1)
}

/// The same for any number of them.
pub(super) fn mixed_all<const N: usize>(all: [u64; N]) -> u64 {
    all.into_iter().fold(0, mixed)
}
