//! Damaged packets: a checksum that is wrong where its direction's others are right. Not here: what
//! a recorder marks as damaged, which the engine asks first.
//!
//! Checksums that are left to an adapter ("offload") look otherwise: they are Linux's, which are
//! recognised, or all of a direction are wrong, or those of super-frames, which an adapter will cut
//! or has put together.

use lineside_account::{Counter, Counters};
use lineside_wire::checksum;

/// Wrong checksums in a row after which a direction's are not verified any longer. A guess: damage
/// is rarer, and of offload all are wrong.
const WRONG_MAX: u8 = 8;
/// A payload that fits into Ethernet's usual frame (RFC 894) is no super-frame.
const SINGLE_MAX: u32 = 1460;

/// What is known of the checksums of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Checksums {
    trust: Trust,
    /// Wrong ones in a row.
    wrong: u8,
    /// Wrong ones of IPv4's header in a row.
    headers_wrong: u8,
    /// The longest payload with a right one.
    len_max: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Trust {
    /// None was right so far.
    #[default]
    Unknown,
    /// Some were right.
    Right,
    /// They are left to an adapter.
    Offloaded,
}

/// A TCP segment or UDP datagram of which a checksum covers all that there is.
pub(crate) struct Covered<'a> {
    /// The sum of its pseudo-header.
    pub(crate) pseudo_header_sum: u16,
    /// From its header on.
    pub(crate) bytes: &'a [u8],
    pub(crate) payload_len: usize,
    /// See [`TcpHeader::checksum_offloaded`](lineside_wire::TcpHeader).
    pub(crate) looks_offloaded: bool,
}

impl Checksums {
    /// Whether there is nothing to verify.
    #[inline]
    pub(crate) fn are_offloaded(&self) -> bool {
        self.trust == Trust::Offloaded
    }

    /// Whether a packet whose IPv4 header has a wrong checksum, or a right one, is damaged by that:
    /// no receiver takes it, unless all of a direction are wrong.
    pub(crate) fn has_damaged_header(&mut self, is_wrong: bool) -> bool {
        self.headers_wrong = match is_wrong {
            true => self.headers_wrong.saturating_add(1),
            false => 0,
        };
        is_wrong && self.trust == Trust::Right && self.headers_wrong < WRONG_MAX
    }

    /// Whether a packet is damaged, and must not be read.
    #[inline(never)]
    pub(crate) fn is_damaged(&mut self, packet: &Covered<'_>, counters: &mut Counters) -> bool {
        if self.are_offloaded() {
            return false;
        }
        let len = packet.payload_len as u32;
        // A segment that contains its own right checksum sums to all ones.
        if checksum::add(packet.pseudo_header_sum, checksum::sum(packet.bytes)) != 0xffff {
            return self.on_wrong(packet, counters);
        }
        if self.trust == Trust::Unknown {
            // Those that were wrong before were damaged, and were read.
            counters.add(Counter::ChecksumsWrongRead, self.wrong.into());
            self.trust = Trust::Right;
        }
        self.wrong = 0;
        self.len_max = self.len_max.max(len);
        false
    }

    #[cold]
    fn on_wrong(&mut self, packet: &Covered<'_>, counters: &mut Counters) -> bool {
        let is_right = self.trust == Trust::Right;
        if packet.looks_offloaded {
            // Frames that the receiver's adapter put together are among others that are right.
            if !is_right {
                self.trust = Trust::Offloaded;
            }
            return false;
        }
        if packet.payload_len as u32 > self.len_max.max(SINGLE_MAX) {
            return false;
        }
        self.wrong += 1;
        if self.wrong >= WRONG_MAX {
            self.trust = Trust::Offloaded;
            counters.add(Counter::ChecksumsWrongRead, is_right.into());
            return false;
        }
        is_right
    }
}

#[cfg(test)]
mod tests {
    use lineside_wire::build::{FrameBuilder, TcpFields};
    use lineside_wire::{Dissected, dissect};

    use super::*;

    /// Lets frames of a direction come, each with a payload of this length and wrong or not;
    /// returns which were damaged, and how many wrong ones were read before that was known.
    fn run(frames: &[(usize, bool)]) -> (Vec<bool>, u64) {
        let (mut checksums, mut counters) = (Checksums::default(), Counters::new());
        let damaged = frames.iter().map(|&(len, is_wrong)| {
            let builder = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let mut frame = builder.tcp(&TcpFields::default(), &vec![7; len]);
            let last = frame.len() - 1;
            frame[last] ^= u8::from(is_wrong);
            let Dissected::Tcp(ip, tcp) = dissect(1, &frame, frame.len()) else {
                panic!("a segment");
            };
            let packet = Covered {
                pseudo_header_sum: ip.pseudo_header_sum(ip.payload_len),
                bytes: &frame[ip.payload..],
                payload_len: tcp.payload_len,
                looks_offloaded: tcp.checksum_offloaded,
            };
            checksums.is_damaged(&packet, &mut counters)
        });
        let damaged = damaged.collect();
        (damaged, counters.value(Counter::ChecksumsWrongRead))
    }

    #[test]
    fn a_wrong_one_among_right_ones_is_damaged() {
        let (damaged, read) = run(&[(1, false), (100, true), (100, false), (9, true)]);
        assert_eq!((damaged, read), (vec![false, true, false, true], 0));
    }

    #[test]
    fn wrong_ones_before_the_first_right_one_are_counted() {
        let (damaged, read) = run(&[(1, true), (100, true), (100, false)]);
        assert_eq!((damaged, read), (vec![false; 3], 2));
    }

    #[test]
    fn a_direction_whose_checksums_are_all_wrong_is_read() {
        let (damaged, read) = run(&[(100, true); 20]);
        assert_eq!((damaged, read), (vec![false; 20], 0));
        // Of one that becomes so, the first few are taken for damaged, which is counted.
        let (damaged, read) = run(&[[(100, false)].as_slice(), &[(100, true); 20]].concat());
        let lost = damaged.iter().filter(|damaged| **damaged).count();
        assert_eq!((lost, read), (usize::from(WRONG_MAX) - 1, 1));
    }

    #[test]
    fn super_frames_have_no_checksum_of_their_own() {
        let frames = [(1000, false), (20_000, true), (1000, false), (1000, true)];
        let (damaged, read) = run(&frames);
        assert_eq!((damaged, read), (vec![false, false, false, true], 0));
    }
}
