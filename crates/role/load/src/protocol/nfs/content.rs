//! Contents that follow from a file's number and the place in it: nothing of them is stored.

/// Writes the bytes of a file from `offset` on.
pub(super) fn fill(file: u64, offset: u64, bytes: &mut [u8]) {
    let word = |place: u64| {
        // One round of SplitMix64: cheap, and no two words of a file alike.
        let mut word = (file << 40 ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (word ^ word >> 27).to_be_bytes()
    };
    let within = (offset % 8) as usize;
    let head = match within {
        0 => 0,
        _ => bytes.len().min(8 - within),
    };
    let (head, rest) = bytes.split_at_mut(head);
    if !head.is_empty() {
        head.copy_from_slice(&word(offset / 8)[within..][..head.len()]);
    }
    let places = (offset + head.len() as u64) / 8..;
    for (place, part) in places.zip(rest.chunks_mut(8)) {
        part.copy_from_slice(&word(place)[..part.len()]);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_depend_on_their_place_alone() {
        let mut whole = [0; 1_000];
        super::fill(3, 0, &mut whole);
        for (offset, len) in [(0, 1), (5, 2), (7, 9), (8, 16), (511, 489), (999, 1)] {
            let mut part = vec![0; len];
            super::fill(3, offset as u64, &mut part);
            assert_eq!(part, whole[offset..offset + len]);
        }
    }
}
