//! Packets that come in fragments: RFC 791, 3.2; RFC 8200, 4.5. Each is put together in a frame, as
//! if it had come whole; where two fragments overlap, the packet is dropped (RFC 5722, 3).
//!
//! What a passive observer makes of fragments, with holes and copies, is `lineside-flow`'s.

use lineside_frame::{Cutter, Frame};
use lineside_time::Nanoseconds;
use lineside_wire::headers::Headers;
use lineside_wire::{Fragment, FragmentKey};

use crate::ip::{CE, descriptor};

/// The longest payload: RFC 791, 3.1.
const PAYLOAD_MAX: usize = 65_535;
/// Fragments but the last are multiples of this many bytes.
const UNIT: usize = 8;
/// Packets that are put together at once. Whoever sends more at a time loses the oldest: fragments
/// are rare, and each packet takes 64 KiB of the blocks that frames are cut from.
const PACKETS_MAX: usize = 16;
/// Linux's ipfrag_time; RFC 8200, 4.5 has 60 s.
const TIMEOUT_NS: i64 = 30_000_000_000;

#[derive(Debug)]
struct Packet {
    key: FragmentKey,
    /// Headers, and room for the longest payload.
    frame: Frame,
    headers_len: usize,
    /// A bit for each unit that has come.
    has: Box<[u64; (PAYLOAD_MAX + 1) / UNIT / 64]>,
    come: usize,
    /// The length of the payload, once the last fragment has come.
    total: Option<usize>,
    ecn: u8,
    until: Nanoseconds,
}

/// The outcome of a fragment.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The packet lacks others.
    Waits,
    /// The packet is whole.
    Whole(Frame),
    /// The packet is dropped: its fragments contradict each other, or there is no room.
    Dropped,
}

/// Packets that lack fragments, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    packets: Vec<Packet>,
    /// Packets that made room for others since they were counted.
    evicted: u64,
}

impl Packet {
    fn new(
        key: FragmentKey,
        headers: &Headers,
        now: Nanoseconds,
        cutter: &mut Cutter,
    ) -> Option<Self> {
        let headers_len = headers.len_bytes();
        let len = headers_len + PAYLOAD_MAX;
        Some(Self {
            key,
            frame: cutter.cut(len, descriptor(len))?,
            headers_len,
            has: Box::new([0; _]),
            come: 0,
            total: None,
            ecn: headers.ecn,
            until: now.saturating_add(TIMEOUT_NS),
        })
    }

    /// Takes a part of the payload; false if it contradicts those before it.
    fn take(&mut self, offset: usize, more: bool, part: &[u8]) -> bool {
        let end = offset + part.len();
        let is_last_known = self.total.is_some_and(|total| end > total || !more);
        if part.is_empty() || end > PAYLOAD_MAX || is_last_known {
            return false;
        }
        let units = offset / UNIT..end.div_ceil(UNIT);
        for unit in units {
            let (word, bit) = (&mut self.has[unit / 64], 1 << (unit % 64));
            if *word & bit != 0 {
                return false;
            }
            *word |= bit;
        }
        if !more {
            let units_after = end.div_ceil(UNIT)..(PAYLOAD_MAX + 1) / UNIT;
            if { units_after }.any(|unit| self.has[unit / 64] & 1 << (unit % 64) != 0) {
                return false;
            }
            self.total = Some(end);
        }
        self.frame.bytes_mut()[self.headers_len..][offset..end].copy_from_slice(part);
        self.come += part.len();
        true
    }
}

impl Fragments {
    /// Takes a fragment's part of the payload. `headers` are those of the whole packet.
    pub(crate) fn take(
        &mut self,
        now: Nanoseconds,
        fragment: &Fragment,
        part: &[u8],
        headers: &Headers,
        cutter: &mut Cutter,
    ) -> Taken {
        let key = fragment.key(headers.ends);
        let place = match self.packets.iter().position(|packet| packet.key == key) {
            Some(place) => place,
            None => {
                if self.packets.len() == PACKETS_MAX {
                    self.packets.remove(0);
                    self.evicted += 1;
                }
                let Some(packet) = Packet::new(key, headers, now, cutter) else {
                    return Taken::Dropped;
                };
                self.packets.push(packet);
                self.packets.len() - 1
            }
        };
        let packet = &mut self.packets[place];
        // The dissector refused a part that is no multiple of 8 bytes and not the last.
        debug_assert!(!fragment.more || part.len().is_multiple_of(UNIT));
        if !packet.take(fragment.offset, fragment.more, part) {
            self.packets.remove(place);
            return Taken::Dropped;
        }
        if headers.ecn == CE {
            packet.ecn = CE;
        }
        if packet.total != Some(packet.come) {
            return Taken::Waits;
        }
        let mut packet = self.packets.remove(place);
        let len = packet.headers_len + packet.come;
        // RFC 3168, 5.3: a mark of any fragment is one of the packet.
        let headers = Headers {
            ecn: packet.ecn,
            ..*headers
        };
        packet.frame.truncate(len);
        headers.emit(fragment.protocol, packet.come, packet.frame.bytes_mut());
        packet.frame.descriptor_mut().wire_len = len as u32;
        packet.frame.descriptor_mut().stamp_ns = Some(now);
        Taken::Whole(packet.frame)
    }

    /// Drops what waited too long; returns how many packets that were, with those that had to make
    /// room.
    pub(crate) fn expire(&mut self, now: Nanoseconds) -> u64 {
        let before = self.packets.len();
        self.packets.retain(|packet| packet.until > now);
        let expired = (before - self.packets.len()) as u64;
        expired + std::mem::take(&mut self.evicted)
    }

    /// When the oldest packet has waited long enough.
    pub(crate) fn next_deadline(&self) -> Option<Nanoseconds> {
        self.packets.first().map(|packet| packet.until)
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.packets.capacity() * size_of::<Packet>() + self.packets.len() * (PAYLOAD_MAX + 1) / 64
    }
}

#[cfg(test)]
mod tests {
    use lineside_account::Budget;
    use proptest::prelude::*;

    use super::*;

    fn headers() -> Headers {
        Headers::new([10, 0, 0, 2].into(), [10, 0, 0, 1].into())
    }

    /// Gives parts (identification, unit, length, last) in turn.
    fn give(
        fragments: &mut Fragments,
        cutter: &mut Cutter,
        parts: &[(u32, usize, usize, bool)],
    ) -> Vec<Option<usize>> {
        let each = parts.iter().map(|&(identification, unit, len, is_last)| {
            let fragment = Fragment {
                identification,
                offset: unit * UNIT,
                more: !is_last,
                protocol: 17,
            };
            let bytes: Vec<u8> = (unit * UNIT..unit * UNIT + len)
                .map(|at| at as u8)
                .collect();
            let taken = fragments.take(5, &fragment, &bytes, &headers(), cutter);
            match taken {
                Taken::Waits => None,
                Taken::Dropped => Some(0),
                Taken::Whole(frame) => {
                    let payload = &frame.bytes()[34..];
                    assert!(
                        payload
                            .iter()
                            .enumerate()
                            .all(|(at, &byte)| byte == at as u8)
                    );
                    Some(payload.len())
                }
            }
        });
        each.collect()
    }

    fn new() -> (Fragments, Cutter) {
        let cutter = Cutter::new(256 << 10, 64, &Budget::new(32 << 20)).expect("it fits");
        (Fragments::default(), cutter)
    }

    #[test]
    fn a_packet_is_whole_when_all_of_its_parts_have_come() {
        let (mut fragments, mut cutter) = new();
        let parts = [
            (1, 4, 5, true),
            (2, 0, 16, false),
            (1, 0, 16, false),
            (1, 2, 16, false),
        ];
        let taken = give(&mut fragments, &mut cutter, &parts);
        assert_eq!(taken, [None, None, None, Some(37)]);
        assert_eq!(fragments.packets.len(), 1);
        assert_eq!(fragments.next_deadline(), Some(5 + TIMEOUT_NS));
        assert_eq!(fragments.expire(4 + TIMEOUT_NS), 0);
        assert_eq!(fragments.expire(5 + TIMEOUT_NS), 1);
    }

    #[test]
    fn parts_that_contradict_each_other_end_their_packet() {
        for parts in [
            [(1, 0, 16, false), (1, 1, 16, false)],
            [(1, 0, 16, false), (1, 0, 16, false)],
            [(1, 2, 8, true), (1, 2, 9, true)],
            [(1, 2, 8, true), (1, 3, 8, false)],
            [(1, 3, 8, false), (1, 1, 8, true)],
            [(1, 3, 0, false), (1, 8190, 16, true)],
        ] {
            let (mut fragments, mut cutter) = new();
            let taken = give(&mut fragments, &mut cutter, &parts);
            assert_eq!(taken.last(), Some(&Some(0)), "{parts:?}");
            assert_eq!(fragments.packets.len(), 0, "{parts:?}");
        }
    }

    #[test]
    fn the_oldest_packet_makes_room() {
        let (mut fragments, mut cutter) = new();
        let parts: Vec<_> = (0..100).map(|number| (number, 0, 8, false)).collect();
        give(&mut fragments, &mut cutter, &parts);
        assert_eq!(fragments.packets.len(), PACKETS_MAX);
        assert_eq!(fragments.expire(6), 84);
        let taken = give(
            &mut fragments,
            &mut cutter,
            &[(99, 1, 8, true), (0, 1, 8, true)],
        );
        assert_eq!(taken, [Some(16), None]);
    }

    proptest! {
        #[test]
        fn parts_in_any_order_make_their_packet(
            sizes in proptest::collection::vec(1_usize..40, 1..20), last in 1_usize..200, seed in any::<u64>(),
        ) {
            let mut at = 0;
            let mut parts: Vec<_> = sizes.iter().map(|&units| {
                at += units;
                (7, at - units, units * UNIT, false)
            }).collect();
            parts.push((7, at, last, true));
            let mut random = lineside_time::Random::new(seed);
            for place in (1..parts.len()).rev() {
                parts.swap(place, random.below(place as u64 + 1) as usize);
            }
            let (mut fragments, mut cutter) = new();
            let mut taken = give(&mut fragments, &mut cutter, &parts);
            prop_assert_eq!(taken.pop(), Some(Some(at * UNIT + last)));
            prop_assert!(taken.iter().all(Option::is_none));
        }
    }
}
