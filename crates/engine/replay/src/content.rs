//! What WRITEs write: a trace has no data, but the checksums of its blocks.

use std::sync::LazyLock;

use lineside_frame::xxh3;
use lineside_time::Random;

/// Bytes of a block with a checksum.
pub(crate) const BLOCK_BYTES: u64 = 512;

static OF_ZEROS: LazyLock<u64> = LazyLock::new(|| xxh3::sum(&[0; xxh3::LEN]));

/// Fills a block of 512 bytes, or a part of one, as its checksum asks for: blocks that were equal
/// are equal, and zeros stay zeros.
pub fn fill(checksum: u64, bytes: &mut [u8]) {
    match checksum == *OF_ZEROS {
        true => bytes.fill(0),
        false => Random::new(checksum).fill(bytes),
    }
}

/// Fills what a WRITE at `offset` writes: blocks with checksums as those ask for, what lies beside
/// them by its place in `file`. Another seed gives other blocks, of which as many are equal.
pub(crate) fn write(seed: u64, file: i64, offset: u64, sums: &[(u64, u64)], bytes: &mut [u8]) {
    let mut sums = sums.iter().copied().peekable();
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let block = at / BLOCK_BYTES;
        let len = (BLOCK_BYTES - at % BLOCK_BYTES).min(rest.len() as u64) as usize;
        let (part, behind) = rest.split_at_mut(len);
        while sums.next_if(|(other, _)| *other < block).is_some() {}
        match sums.peek().filter(|(other, _)| *other == block) {
            Some(&(_, checksum)) if checksum == *OF_ZEROS => fill(checksum, part),
            Some(&(_, checksum)) => fill(checksum ^ seed, part),
            None => {
                let place = file.cast_unsigned() ^ block.rotate_left(32);
                Random::new(place ^ seed).fill(part);
            }
        }
        (at, rest) = (at.wrapping_add(len as u64), behind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_blocks_are_equal_and_zeros_stay_zeros() {
        let zeros = xxh3::sum(&[0; xxh3::LEN]);
        let sums = [(2, 7), (3, zeros), (4, 7)];
        let mut bytes = vec![1; 2_000];
        write(0, 5, 1_000, &sums, &mut bytes);
        let block = |number: usize| &bytes[number * 512 - 1_000..][..512];
        assert_eq!(block(2), block(4));
        assert_eq!(block(3), [0; 512]);
        assert_ne!(block(2), block(3));
        let mut again = vec![0; 2_000];
        write(0, 5, 1_000, &sums, &mut again);
        assert_eq!(bytes, again);
        let mut other = vec![0; 2_000];
        write(9, 5, 1_000, &sums, &mut other);
        let block = |number: usize| &other[number * 512 - 1_000..][..512];
        assert_eq!((block(2), block(3)), (block(4), &[0; 512][..]));
        assert_ne!(other[24..][..512], bytes[24..][..512]);
        assert_ne!(other[..24], bytes[..24]);
    }
}
