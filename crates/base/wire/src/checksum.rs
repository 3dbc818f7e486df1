//! The Internet checksum (RFC 1071), and its update when a part changes (RFC 1624).

use std::net::IpAddr;

/// The one's complement sum of `bytes` as 16-bit words, an odd last byte padded with zero.
///
/// A header that contains its own correct checksum sums to `0xffff`.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    // Words of 64 bits give the same sum, since 2^16 is 1 modulo 2^16 - 1 (RFC 1071, 2 (C)), and
    // their carries count at the end.
    let wide = |word: &[u8; 8]| u128::from(u64::from_ne_bytes(*word));
    let (words, rest) = bytes.as_chunks::<8>();
    let (blocks, words) = words.as_chunks::<4>();
    let mut whole = 0;
    for [one, two, three, four] in blocks {
        whole += wide(one) + wide(two) + wide(three) + wide(four);
    }
    for word in words {
        whole += wide(word);
    }
    // Most lengths are multiples of 4.
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        whole += u128::from(u32::from_ne_bytes(*word));
    }
    if let [first, rest @ ..] = rest {
        let [second, third] = [0, 1].map(|at| rest.get(at).copied().unwrap_or(0));
        whole += u128::from(u32::from_ne_bytes([*first, second, third, 0]));
    }
    let (sum, carry) = (whole as u64).overflowing_add((whole >> 64) as u64);
    // In the machine's byte order: that of the sum follows (RFC 1071, 2 (B)).
    u16::from_be(fold(sum + u64::from(carry)))
}

/// Copies `source` to `destination`, which is as long, and returns the [`sum`]: a walk over the
/// bytes for both.
pub fn copy_and_sum(source: &[u8], destination: &mut [u8]) -> u16 {
    // Small enough to stay in the nearest cache between the copy and the sum, of an even length.
    const STEP: usize = 512;
    debug_assert_eq!(source.len(), destination.len(), "a copy is as long");
    let steps = source.chunks(STEP).zip(destination.chunks_mut(STEP));
    steps.fold(0, |total, (source, destination)| {
        destination.copy_from_slice(source);
        add(total, sum(destination))
    })
}

/// Whether an IPv4 header without options contains its own right checksum: whether it sums to
/// `0xffff`, in a dozen instructions.
#[inline]
pub(crate) fn is_right(header: &[u8; 20]) -> bool {
    let ([one, two], [.., last]) = (header.as_chunks().0, header.as_chunks().0) else {
        return false;
    };
    // As `sum`; `0xffff` is the same in either byte order.
    let (one, two) = (u64::from_ne_bytes(*one), u64::from_ne_bytes(*two));
    let last = u32::from_ne_bytes(*last);
    let (sum, carry) = one.carrying_add(two, false);
    let (sum, carry) = sum.carrying_add(last.into(), carry);
    // Where there is a carry, the sum is small.
    let sum = sum + u64::from(carry);
    let (sum, carry) = (sum as u32).carrying_add((sum >> 32) as u32, false);
    let sum = sum + u32::from(carry);
    // The upper half is the sum of both and of their carry.
    sum.wrapping_add(sum.rotate_left(16)) >> 16 == 0xffff
}

/// The checksum of `bytes`: the complement of their sum.
pub fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// The one's complement sum of two sums.
#[inline]
pub fn add(left: u16, right: u16) -> u16 {
    let (sum, carry) = left.overflowing_add(right);
    // Where there is a carry, the sum is less than all ones.
    sum + u16::from(carry)
}

/// The checksum after a 16-bit word that it covers changed from `old` to `new`: RFC 1624, 3,
/// equation 3.
///
/// It is what [`checksum`] gives for the changed bytes, unless these are all zero.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !add(add(!checksum, !old), new)
}

/// The checksum of a TCP segment or UDP datagram and its pseudo-header; 0 if it contains its own
/// and that is right.
pub fn transport(source: IpAddr, destination: IpAddr, protocol: u8, segment: &[u8]) -> u16 {
    let pseudo = pseudo_header_sum(source, destination, protocol, segment.len());
    !add(pseudo, sum(segment))
}

/// The sum of the pseudo-header that TCP and UDP checksums cover beside the segment: RFC 9293, 3.1
/// for IPv4, RFC 8200, 8.1 for IPv6. `len` is that of the transport header and its payload.
#[inline]
pub fn pseudo_header_sum(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> u16 {
    let addresses = address_sum(source) + address_sum(destination);
    fold(addresses + u64::from(protocol) + len as u64)
}

/// Not folded.
#[inline]
fn address_sum(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let low = bits as u64;
            let high = (bits >> 64) as u64;
            (high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff)
        }
    }
}

#[inline]
pub(crate) fn fold(sum: u64) -> u16 {
    // 33 bits, 18 bits, 17 bits, and no carry is left.
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_equals_the_example_of_rfc_1071() {
        // RFC 1071, 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(&bytes), 0xddf2);
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn the_pseudo_header_sums_as_it_is_laid_out() {
        // RFC 9293, 3.1: addresses, zero, protocol, length in 16 bits.
        let (source, destination) = ([192, 168, 255, 1], [10, 0, 0, 254]);
        let header = [&source[..], &destination, &[0, 6], &1234_u16.to_be_bytes()].concat();
        let computed = pseudo_header_sum(source.into(), destination.into(), 6, 1234);
        assert_eq!(computed, sum(&header));
        // RFC 8200, 8.1: addresses, length in 32 bits, three zeros, protocol.
        let (source, destination) = ([0xfe; 16], [0x9d; 16]);
        let len = 100_000_u32.to_be_bytes();
        let header = [&source[..], &destination, &len, &[0, 0, 0, 17]].concat();
        let computed = pseudo_header_sum(source.into(), destination.into(), 17, 100_000);
        assert_eq!(computed, sum(&header));
    }

    #[test]
    fn a_right_header_is_one_that_sums_to_all_ones() {
        let mut header = [0_u8; 20];
        for (seed, fill) in (0..=255_u8).flat_map(|seed| [(seed, 0), (seed, 0xff), (seed, 0x5a)]) {
            header.fill(fill);
            for (at, byte) in header.iter_mut().enumerate().skip(usize::from(seed) % 20) {
                *byte = byte.wrapping_add(seed.wrapping_mul(at as u8 | 1));
            }
            assert_eq!(is_right(&header), sum(&header) == 0xffff, "{header:?}");
            header[10..12].fill(0);
            let right = checksum(&header);
            header[10..12].copy_from_slice(&right.to_be_bytes());
            assert!(is_right(&header), "{header:?}");
            header[usize::from(seed) % 20] ^= 1 + seed % 3;
            assert!(!is_right(&header), "{header:?}");
        }
    }

    #[test]
    fn odd_lengths_are_padded_and_parts_add_up() {
        let bytes: Vec<u8> = (0..=255).rev().chain((7..100).cycle().take(900)).collect();
        for len in 0..bytes.len() {
            let by_words = bytes[..len].chunks(2).fold(0, |sum, word| {
                let low = word.get(1).copied().unwrap_or(0);
                add(sum, u16::from_be_bytes([word[0], low]))
            });
            assert_eq!(sum(&bytes[..len]), by_words, "{len} bytes");
            let mut copy = vec![0; len];
            assert_eq!(
                copy_and_sum(&bytes[..len], &mut copy),
                by_words,
                "{len} bytes"
            );
            assert_eq!(copy, bytes[..len]);
            let (front, back) = bytes[..len].split_at(len / 4 * 2);
            assert_eq!(add(sum(front), sum(back)), by_words, "{len} bytes in parts");
        }
    }
}
