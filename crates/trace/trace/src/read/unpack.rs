//! Numbers of some bits each, one behind the other, the lowest bit of a byte first: how Parquet
//! packs codes, levels and differences.

/// Fills `out` with numbers of `width` bits, at most 64, that begin at bit `first`; bits behind the
/// end are zero.
#[inline]
pub(super) fn unpack<T: Copy>(
    bytes: &[u8],
    first: usize,
    width: u32,
    out: &mut [T],
    of: impl Fn(u64) -> T,
) {
    let done = unpack_groups(bytes, first, width, out, &of);
    let width = width as usize;
    let mut bit = first + done * width;
    for out in &mut out[done..] {
        *out = of(bits_at(bytes, bit, width as u32));
        bit += width;
    }
}

/// Whole groups of eight numbers, each of as many bytes as a number has bits, if they begin with a
/// byte; returns how many numbers these are. Widths are constants here: a number is a shift and a
/// mask.
#[inline]
fn unpack_groups<T: Copy>(
    bytes: &[u8],
    first: usize,
    width: u32,
    out: &mut [T],
    of: &impl Fn(u64) -> T,
) -> usize {
    let Some(bytes) = bytes.get(first / 8..).filter(|_| first.is_multiple_of(8)) else {
        return 0;
    };
    macro_rules! of_width {
        ($($width:literal)*) => {
            match width {
                $($width => groups_of::<$width, _>(bytes, out, of),)*
                _ => 0,
            }
        };
    }
    of_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
}

#[inline]
fn groups_of<const WIDTH: usize, T: Copy>(
    bytes: &[u8],
    out: &mut [T],
    of: &impl Fn(u64) -> T,
) -> usize {
    let mask = (1 << WIDTH) - 1;
    let (groups, mut done) = (bytes.as_chunks::<WIDTH>().0, 0);
    for (group, out) in groups.iter().zip(out.as_chunks_mut::<8>().0) {
        let mut padded = [0; 16];
        padded[..WIDTH].copy_from_slice(group);
        let word = u128::from_le_bytes(padded);
        let low = word as u64;
        for (place, out) in out.iter_mut().enumerate() {
            let bits = match WIDTH {
                ..=8 => low >> (place * WIDTH),
                _ => (word >> (place * WIDTH)) as u64,
            };
            *out = of(bits & mask);
        }
        done += 8;
    }
    done
}

/// A number of `width` bits that begins at a bit; bits behind the end are zero.
#[inline]
fn bits_at(bytes: &[u8], bit: usize, width: u32) -> u64 {
    let (at, shift) = (bit / 8, bit % 8);
    let mask = u64::MAX.checked_shr(u64::BITS - width).unwrap_or(0);
    if width <= 57
        && let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk)
    {
        return u64::from_le_bytes(*word) >> shift & mask;
    }
    let mut word = [0; 16];
    let rest = bytes.get(at..).unwrap_or_default();
    let len = rest.len().min(word.len());
    word[..len].copy_from_slice(&rest[..len]);
    (u128::from_le_bytes(word) >> shift) as u64 & mask
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;

    use super::*;

    #[test]
    fn numbers_of_every_width_come_back_from_any_bit_on() {
        let mut random = Random::new(3);
        for width in 0..=64u32 {
            for (first, count) in [(0, 100), (8, 64), (5, 33), (64, 7)] {
                let mut bits = vec![false; first];
                let numbers: Vec<u64> = (0..count)
                    .map(|_| random.bits() & u64::MAX.checked_shr(64 - width).unwrap_or(0))
                    .collect();
                for number in &numbers {
                    bits.extend((0..width).map(|bit| number >> bit & 1 == 1));
                }
                let byte = |bits: &[bool]| {
                    let of = |(place, &bit): (usize, &bool)| u8::from(bit) << place;
                    bits.iter().enumerate().map(of).sum::<u8>()
                };
                let bytes: Vec<u8> = bits.chunks(8).map(byte).collect();
                let mut out = vec![u64::MAX; count];
                unpack(&bytes, first, width, &mut out, |bits| bits);
                assert_eq!(out, numbers, "{width} bits from {first} on");
                // What lies behind the end is zero.
                let cut = first / 8 + (count * width as usize).div_ceil(8) / 2;
                unpack(&bytes[..cut], first, width, &mut out, |bits| bits);
                let whole = (8 * cut).saturating_sub(first).checked_div(width as usize);
                let whole = whole.unwrap_or(count).min(count);
                assert_eq!(out[..whole], numbers[..whole], "{width} bits, cut");
                let rest = out.iter().skip(whole + 1);
                assert!(rest.copied().all(|number| number == 0), "{width} bits, cut");
            }
        }
    }
}
