//! Steps that grow with the values: those below two powers of `1 << bits` have one each, and each
//! further power of two has `1 << bits`.

/// The step in which a value lies.
#[inline]
pub(crate) fn place(bits: u32, value: u64) -> usize {
    let power = (value | 1).ilog2().saturating_sub(bits);
    ((power as usize) << bits) + (value >> power) as usize
}

/// The least and the greatest value of a step.
pub(crate) fn range(bits: u32, place: usize) -> (u64, u64) {
    let power = (place >> bits).saturating_sub(1) as u32;
    let first = (place - ((power as usize) << bits)) as u64;
    (first << power, (first << power) | ((1 << power) - 1))
}
