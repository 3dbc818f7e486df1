//! SYN cookies (RFC 4987, 3.6): the acknowledgement of a SYN/ACK brings back the options of the
//! SYN, and nothing is kept meanwhile. The endpoint uses them when too many connections are half
//! open, a proxy in front of servers for every connection that it answers itself.
//!
//! ```text
//!  initial number  | 5 bits: when | 3 bits: segment size | 24 bits: keyed hash of all and the ends
//!  timestamp       | 27 bits: time, not after now | selective? | 4 bits: shift, 15 for none
//! ```
//!
//! The period of 64 s in which a cookie was made is part of what the hash covers, so that a cookie
//! that somebody saw or guessed is of no use afterwards.

use std::net::IpAddr;

use lineside_time::Nanoseconds;
use lineside_wire::SeqNumber;

use crate::siphash::siphash;

/// The address and port of the end that made the cookie, then those of its peer.
pub type Ends = [(IpAddr, u16); 2];

/// The unit of a cookie's time.
const PERIOD_NS: i64 = 64_000_000_000;
/// A cookie holds in the period in which it was sent and in the next: Linux's MAX_SYNCOOKIE_AGE.
const PERIODS: i64 = 2;
/// The longest time that a cookie holds.
pub const LIFE_NS: Nanoseconds = PERIODS * PERIOD_NS;
/// Segment sizes that a cookie can name; the largest that the peer takes is named. 1,440 and 1,460
/// are those of Ethernet, 8,940 and 8,960 of jumbo frames.
const SIZES: [u16; 8] = [48, 536, 1220, 1360, 1440, 1460, 8940, 8960];
const HASH_BITS: u32 = 24;
const PERIOD_SHIFT: u32 = 27;
/// Bits of a timestamp that say what the SYN offered.
const OFFER_BITS: u32 = 5;
const NO_SCALE: u32 = 15;
const SACK: u32 = 1 << 4;

/// Makes cookies and checks them.
#[derive(Debug, Clone, Copy)]
pub struct Cookies {
    key: [u64; 2],
}

impl Cookies {
    /// `key` is what strangers must not know.
    pub fn new(key: [u64; 2]) -> Self {
        Self { key }
    }

    /// The initial sequence number that answers a SYN with the number `irs` from a peer that takes
    /// segments of `mss` bytes.
    pub fn number(&self, now: Nanoseconds, ends: Ends, irs: SeqNumber, mss: u16) -> SeqNumber {
        let size = SIZES.partition_point(|&size| size <= mss).max(1) as u32 - 1;
        self.cookie(ends, irs, now.div_euclid(PERIOD_NS), size)
    }

    /// The segment size that the cookie `iss` names, if it is one that answered a SYN with the
    /// number `irs` and still holds.
    pub fn mss(&self, now: Nanoseconds, ends: Ends, irs: SeqNumber, iss: SeqNumber) -> Option<u16> {
        let size = iss.0 >> HASH_BITS & 7;
        let is_ours = periods(now).any(|period| self.cookie(ends, irs, period, size) == iss);
        is_ours.then_some(SIZES[size as usize])
    }

    fn cookie(&self, ends: Ends, irs: SeqNumber, period: i64, size: u32) -> SeqNumber {
        let mut bytes = [0; 49];
        bytes[..36].copy_from_slice(&ends_bytes(ends));
        bytes[36..44].copy_from_slice(&period.to_be_bytes());
        bytes[44..48].copy_from_slice(&irs.0.to_be_bytes());
        bytes[48] = size as u8;
        let hash = siphash(self.key, &bytes) as u32 >> (32 - HASH_BITS);
        SeqNumber((period as u32) << PERIOD_SHIFT | size << HASH_BITS | hash)
    }
}

/// Whether a number says of itself that it is a cookie which still holds: one of sixteen that are
/// none does. It separates a peer's first segments, out of order, from those of a connection that
/// has long been forgotten.
pub fn may_hold(now: Nanoseconds, iss: SeqNumber) -> bool {
    let when = iss.0 >> PERIOD_SHIFT;
    periods(now).any(|period| (period as u32) << PERIOD_SHIFT >> PERIOD_SHIFT == when)
}

fn periods(now: Nanoseconds) -> impl Iterator<Item = i64> {
    let now = now.div_euclid(PERIOD_NS);
    (now - PERIODS + 1..=now).rev()
}

/// What a SYN offered beside its segment size: it has a place only where both ends use timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offer {
    /// By how many bits the peer's windows are shifted: RFC 7323, 2.2.
    pub scale: Option<u8>,
    /// Selective acknowledgements: RFC 2018.
    pub sack: bool,
}

impl Offer {
    /// A timestamp that says what was offered, and that is not later than `now`.
    pub fn to_timestamp(self, now: u32) -> u32 {
        let scale = self
            .scale
            .map_or(NO_SCALE, |scale| u32::from(scale.min(14)));
        let offer = scale | if self.sack { SACK } else { 0 };
        let stamp = now >> OFFER_BITS << OFFER_BITS | offer;
        match stamp.wrapping_sub(now).cast_signed() > 0 {
            true => stamp.wrapping_sub(1 << OFFER_BITS),
            false => stamp,
        }
    }

    /// What the timestamp says that a peer echoes.
    pub fn of_timestamp(echo: u32) -> Self {
        let scale = echo & NO_SCALE;
        Self {
            scale: (scale != NO_SCALE).then_some(scale as u8),
            sack: echo & SACK != 0,
        }
    }
}

/// What keyed hashes of a connection cover: addresses and ports, each at its place.
pub fn ends_bytes(ends: Ends) -> [u8; 36] {
    let mut bytes = [0; 36];
    for ((address, port), at) in ends.into_iter().zip([0, 16]) {
        match address {
            IpAddr::V4(address) => bytes[at..at + 4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes[at..at + 16].copy_from_slice(&address.octets()),
        }
        bytes[32 + at / 8..][..2].copy_from_slice(&port.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends = [
        (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 80),
        (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 4711),
    ];

    #[test]
    fn a_cookie_holds_for_two_periods_and_these_ends() {
        let (cookies, irs) = (Cookies::new([1, 2]), SeqNumber(77));
        for now in [0, 63, 64, 1_790_000_000].map(|seconds| seconds * 1_000_000_000) {
            for (mss, named) in [(0, 48), (536, 536), (1459, 1440), (9000, 8960)] {
                let iss = cookies.number(now, ENDS, irs, mss);
                for (later, holds) in [(0, true), (LIFE_NS / 2, true), (LIFE_NS, false)] {
                    let found = cookies.mss(now + later, ENDS, irs, iss);
                    assert_eq!(found, holds.then_some(named), "{mss} at {now} + {later}");
                    assert_eq!(may_hold(now + later, iss), holds, "{now} + {later}");
                }
                let [local, (address, port)] = ENDS;
                let others = [local, (address, port + 1)];
                assert_eq!(cookies.mss(now, others, irs, iss), None, "another port");
                assert_eq!(cookies.mss(now, ENDS, irs + 1, iss), None, "another SYN");
                let forged = SeqNumber(iss.0 ^ 1 << HASH_BITS);
                assert_eq!(cookies.mss(now, ENDS, irs, forged), None, "another size");
            }
        }
    }

    #[test]
    fn a_timestamp_says_what_was_offered() {
        for now in [0, 5, 31, 32, 4711, u32::MAX] {
            for scale in (0..=14).map(Some).chain([None]) {
                for sack in [false, true] {
                    let offer = Offer { scale, sack };
                    let stamp = offer.to_timestamp(now);
                    assert_eq!(Offer::of_timestamp(stamp), offer);
                    let behind = now.wrapping_sub(stamp);
                    assert!(behind < 1 << (OFFER_BITS + 1), "{stamp} of {now}");
                }
            }
        }
    }
}
