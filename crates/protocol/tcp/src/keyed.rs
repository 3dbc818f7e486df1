//! Hashes for tables of what strangers choose: addresses, ports and, by whom they connect to,
//! numbers of paths. The key keeps them from choosing what collides.

use std::net::IpAddr;

/// The hash of some words: for each, a multiplication by a secret odd number and a fold of both
/// halves of the product.
#[inline]
pub fn hash_of_words<const N: usize>(key: [u64; 2], words: [u64; N]) -> u64 {
    let first = words.into_iter().fold(0, |hash, word| {
        // What was folded so far has no part in what is known of the next word.
        fold(hash ^ word, key[0]) ^ key[1]
    });
    fold(first, key[1].rotate_left(32))
}

#[inline]
fn fold(value: u64, by: u64) -> u64 {
    let wide = u128::from(value) * u128::from(by | 1);
    (wide >> 64) as u64 ^ wide as u64
}

/// The hash of an address.
#[inline]
pub fn hash_of_address(key: [u64; 2], address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => hash_of_words(key, [u64::from(address.to_bits())]),
        IpAddr::V6(address) => hash_of_words(key, halves(address.to_bits())),
    }
}

/// The hash of two addresses of one family.
#[inline]
pub fn hash_of_pair(key: [u64; 2], one: IpAddr, other: IpAddr) -> u64 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let both = u64::from(one.to_bits()) << 32 | u64::from(other.to_bits());
            hash_of_words(key, [both])
        }
        _ => {
            let [[high, low], others] = [one, other].map(|address| match address {
                IpAddr::V4(address) => [0, u64::from(address.to_bits())],
                IpAddr::V6(address) => halves(address.to_bits()),
            });
            hash_of_words(key, [high, low, others[0], others[1]])
        }
    }
}

#[inline]
fn halves(bits: u128) -> [u64; 2] {
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Few places are hit twice: what differs in few bits lies as if it were drawn.
    #[test]
    fn neighbouring_addresses_lie_apart() {
        let key = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
        let v4 = |number: u32| IpAddr::from((0x0a00_0000 + number).to_be_bytes());
        let v6 = |number: u32| {
            let bits = 0xfd00_u128 << 112 | u128::from(number) << 64 | u128::from(number % 3);
            IpAddr::from(bits.to_be_bytes())
        };
        let hashes: [&dyn Fn(u32) -> u64; 4] = [
            &|number| hash_of_address(key, v4(number)),
            &|number| hash_of_address(key, v6(number)),
            &|number| hash_of_pair(key, v4(7), v4(number)),
            &|number| hash_of_pair(key, v6(number), v6(7)),
        ];
        for (which, hash) in hashes.iter().enumerate() {
            // hashbrown takes the place from the low bits and a tag from the high ones.
            for shift in [0, 48] {
                let places = (0..4096).map(|number| hash(number) >> shift & 0xffff);
                let places = places.collect::<BTreeSet<_>>().len();
                // Of 4,096 drawn among 65,536, 3,970 differ on average.
                assert!((3880..4060).contains(&places), "{which} {shift}: {places}");
            }
        }
    }
}
