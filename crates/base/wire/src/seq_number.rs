use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A sequence number of TCP: it counts bytes modulo 2^32 (RFC 9293, 3.4).
///
/// It has no total order. Of two numbers the one that lies less than 2^31 ahead comes after the
/// other; of two that are exactly 2^31 apart neither does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// How far ahead of `other` it lies, in -2^31 to 2^31 - 1; negative if it lies behind.
    #[inline]
    pub const fn distance_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// How many bytes lie from `other` to this number if it is not the earlier one, in 0 to 2^32 -
    /// 1.
    #[inline]
    pub const fn bytes_from(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }

    /// Whether it comes after `other`.
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        self.distance_from(other) > 0
    }

    /// Whether it comes before `other`.
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        other.is_after(self)
    }
}

impl Add<u32> for SeqNumber {
    type Output = Self;

    #[inline]
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for SeqNumber {
    #[inline]
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for SeqNumber {
    type Output = Self;

    #[inline]
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl fmt::Debug for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Half of all numbers.
    const HALF: u32 = 1 << 31;

    #[test]
    fn order_holds_across_the_wrap_around() {
        let last = SeqNumber(u32::MAX);
        assert_eq!(last + 1, SeqNumber(0));
        assert_eq!(SeqNumber(0) - 1, last);
        assert!((last + 5).is_after(last) && last.is_before(last + 5));
        assert_eq!((last + 5).distance_from(last), 5);
        assert_eq!(last.distance_from(last + 5), -5);
        assert_eq!((last + 5).bytes_from(last), 5);
    }

    proptest! {
        #[test]
        fn distance_undoes_addition(from: u32, distance: i32) {
            let from = SeqNumber(from);
            let mut to = from;
            to += distance.cast_unsigned();
            prop_assert_eq!(to.distance_from(from), distance);
            prop_assert_eq!(to.bytes_from(from), distance.cast_unsigned());
            prop_assert_eq!(to - distance.cast_unsigned(), from);
        }

        #[test]
        fn half_of_the_numbers_are_ahead(from: u32, ahead: u32) {
            let from = SeqNumber(from);
            let to = from + ahead;
            prop_assert_eq!(to.is_after(from), ahead > 0 && ahead < HALF);
            prop_assert_eq!(to.is_before(from), ahead > HALF);
            prop_assert_eq!(from.is_after(to), to.is_before(from));
        }

        #[test]
        fn order_does_not_depend_on_the_start(from: u32, shift: u32, ahead: u32) {
            let [from, to] = [SeqNumber(from), SeqNumber(from) + ahead];
            prop_assert_eq!((to + shift).is_after(from + shift), to.is_after(from));
            prop_assert_eq!((to + shift).distance_from(from + shift), to.distance_from(from));
        }

        #[test]
        fn order_is_transitive_within_half(from: u32, one in 0..HALF / 2, more in 1..HALF / 2) {
            let from = SeqNumber(from);
            let [near, far] = [from + one, from + one + more];
            prop_assert!(far.is_after(near) && far.is_after(from));
            prop_assert!(!near.is_before(from));
        }
    }

    #[test]
    fn numbers_half_a_circle_apart_have_no_order() {
        let [one, other] = [SeqNumber(7), SeqNumber(7) + HALF];
        assert!(!one.is_after(other) && !other.is_after(one));
        assert!(!one.is_before(other) && !other.is_before(one));
        assert_eq!(one.distance_from(other), i32::MIN);
    }
}
