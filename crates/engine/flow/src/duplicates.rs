//! Packets that a mirror shows twice: both ports of a span, before and after a router, two taps of
//! one path. It recognises copies and nothing else: retransmissions are `connection`'s.

use std::hash::{DefaultHasher, Hash, Hasher};

use lineside_account::{Budget, Counter, Counters, Lease};
use lineside_wire::ipv6::FRAGMENT_HEADER_LEN;
use lineside_wire::{Ip, TcpHeader, ethernet, ipv4, ipv6, udp};

use crate::origin::Origin;

/// Packets remembered: in the usual millisecond, those of 16 million a second. A power of two.
const SEEN: usize = 1 << 14;
const MASK: usize = SEEN - 1;
/// Bytes that distinguish packets other than TCP: the headers of IP and UDP, and an XID or a few
/// bytes of a fragment.
const PREFIX: usize = 64;

/// Recognises a packet that came a moment ago.
///
/// Two TCP segments are the same if ports, sequence numbers, length, identification and checksum
/// are. The checksum covers the addresses and all bytes, timestamps among them, so that a sender's
/// own retransmission differs; one that is still left to an adapter fits any, since a tap of all
/// interfaces of a host sees a packet before that and after it. Other packets are the same if their
/// first 64 bytes are, except for time to live and header checksum, and those around the end of
/// long headers; if a snap length left fewer of one of them, its headers decide. The copy of a
/// packet without payload must also differ in its input, tags, link addresses, time to live or
/// tunnel, since genuine duplicate acknowledgements are alike (RFC 5681, 2); and so must the copy
/// of a datagram without an identification.
///
/// To remember each segment of a plain capture would take 2 % of its time (`docs/decisions/0017`).
/// So the engine remembers those of a connection's first moment, and all of a connection in which
/// one came again.
///
/// The last packets lie in a ring, each linked to the one before it in its bucket; nothing is ever
/// taken out.
pub(crate) struct Duplicates {
    window_ns: i64,
    budget: Budget,
    table: Option<Table>,
}

struct Table {
    /// Signature; the time until which it counts; where it was seen, above the checksum, above the
    /// slot of the one before.
    ring: Box<[[u64; 3]; SEEN]>,
    heads: Box<[u32; SEEN]>,
    next: usize,
    _lease: Lease,
}

impl Duplicates {
    /// Packets are the same within `window_ns`; 0 recognises none.
    pub(crate) fn new(window_ns: i64, budget: &Budget) -> Self {
        Self {
            window_ns,
            budget: budget.clone(),
            table: None,
        }
    }

    /// Whether a segment came before; if not, it is remembered.
    #[inline]
    pub(crate) fn has_segment(
        &mut self,
        now: i64,
        origin: &Origin<'_>,
        ip: &Ip,
        tcp: &TcpHeader,
        counters: &mut Counters,
    ) -> bool {
        if self.window_ns == 0 {
            return false;
        }
        let seen_by = match tcp.payload_len {
            0 => seen_by(origin, ip),
            _ => 0,
        };
        let marks = Marks {
            seen_by,
            checksum: match tcp.checksum_offloaded {
                true => ANY_CHECKSUM,
                false if tcp.checksum == ANY_CHECKSUM => !ANY_CHECKSUM,
                false => tcp.checksum,
            },
        };
        self.find(now, signature_of(ip, tcp), marks, counters)
    }

    /// The same for a datagram.
    pub(crate) fn has_datagram(
        &mut self,
        now: i64,
        origin: &Origin<'_>,
        ip: &Ip,
        payload_len: usize,
        counters: &mut Counters,
    ) -> bool {
        // Without an identification, as in IPv6, a packet that its sender repeats is alike too.
        let seen_by = if payload_len == 0 || ip.identification == 0 {
            seen_by(origin, ip)
        } else {
            0
        };
        self.has_bytes(now, origin, ip, (udp::HEADER_LEN, seen_by), counters)
    }

    /// The same for a fragment, which has an identification in IPv6 too.
    pub(crate) fn has_fragment(
        &mut self,
        now: i64,
        origin: &Origin<'_>,
        ip: &Ip,
        counters: &mut Counters,
    ) -> bool {
        self.has_bytes(now, origin, ip, (0, 0), counters)
    }

    /// Forgets all packets, at the end.
    pub(crate) fn clear(&mut self) {
        self.table = None;
    }

    /// By the first bytes, of which the packet's headers and `more` tell it apart if need be.
    /// `seen_by` is 0 if it does not matter.
    fn has_bytes(
        &mut self,
        now: i64,
        origin: &Origin<'_>,
        ip: &Ip,
        (more, seen_by): (usize, u32),
        counters: &mut Counters,
    ) -> bool {
        if self.window_ns == 0 {
            return false;
        }
        let packet = origin.bytes().get(ip.header..ip.payload + ip.captured_len);
        let packet = packet.unwrap_or(&[]);
        let mut signature = signature(packet);
        let headers_len = ip.payload - ip.header;
        if packet.len() < PREFIX && ip.captured_len < ip.payload_len {
            let most = HEADERS_MAX[usize::from(!is_ipv4(packet))];
            if (headers_len + more..=packet.len()).contains(&most) {
                signature &= HEADERS;
            }
        }
        // After long headers, such as those of a route, the next bytes distinguish packets.
        if headers_len > PREFIX - FRAGMENT_HEADER_LEN {
            let rest = packet.get(headers_len - FRAGMENT_HEADER_LEN..);
            signature ^= mix(rest.unwrap_or(&[]), [u64::MAX; 2]).rotate_left(7);
        }
        let marks = Marks {
            seen_by,
            checksum: ANY_CHECKSUM,
        };
        self.find(now, signature, marks, counters)
    }

    #[inline]
    fn find(&mut self, now: i64, signature: u64, marks: Marks, counters: &mut Counters) -> bool {
        let Some(table) = &mut self.table else {
            return self.begin(now, signature, marks, counters);
        };
        let now_at = order(now);
        let head = &mut table.heads[(signature >> (64 - SEEN.trailing_zeros())) as usize & MASK];
        let (mut slot, mut age) = (*head, 0);
        loop {
            // A slot that was used again is younger than the one that links to it.
            let slot_age = table.next.wrapping_sub(slot as usize) & MASK;
            let [seen, until, link] = table.ring[slot as usize & MASK];
            if slot_age <= age || until < now_at {
                break;
            }
            if is_same(seen, signature) && marks.are_of_copy(link) {
                return true;
            }
            (slot, age) = (link as u32 & MASK as u32, slot_age);
        }
        let place = &mut table.ring[table.next & MASK];
        if place[1] >= now_at {
            counters.count(Counter::DuplicatesLimit);
        }
        let until = order(now.saturating_add(self.window_ns));
        *place = [signature, until, marks.above(*head)];
        *head = table.next as u32;
        table.next = (table.next + 1) & MASK;
        false
    }

    /// Memory is taken when the first packet comes; without it, nothing is recognised.
    #[cold]
    fn begin(&mut self, now: i64, signature: u64, marks: Marks, counters: &mut Counters) -> bool {
        let Some(lease) = self.budget.lease(SEEN * size_of::<([u64; 3], u32)>()) else {
            counters.count(Counter::DuplicatesLimit);
            self.window_ns = 0;
            return false;
        };
        self.table = Some(Table {
            ring: boxed(vec![[0; 3]; SEEN]),
            heads: boxed(vec![0; SEEN]),
            next: 0,
            _lease: lease,
        });
        self.find(now, signature, marks, counters)
    }
}

/// The checksum of a packet that any other fits.
const ANY_CHECKSUM: u16 = 0;

/// What else distinguishes packets of one signature.
#[derive(Clone, Copy)]
struct Marks {
    /// Where it was seen; 0 if that does not matter.
    seen_by: u32,
    checksum: u16,
}

impl Marks {
    /// Whether a packet that lies with `link` in the ring is another copy.
    #[inline]
    fn are_of_copy(self, link: u64) -> bool {
        let checksum = (link >> 16) as u16;
        // A sender leaves all checksums to its adapter or none: one of each are two sights of one
        // packet, also of one without payload.
        let is_filled_in = (checksum == ANY_CHECKSUM) != (self.checksum == ANY_CHECKSUM);
        let is_elsewhere = self.seen_by == 0 || (link >> 32) as u32 != self.seen_by;
        is_filled_in || checksum == self.checksum && is_elsewhere
    }

    /// In one word with the slot of the one before, which has fewer than 16 bits.
    #[inline]
    fn above(self, slot: u32) -> u64 {
        const { assert!(SEEN <= 1 << 16) };
        u64::from(self.seen_by) << 32 | u64::from(self.checksum) << 16 | u64::from(slot)
    }
}

fn boxed<T>(items: Vec<T>) -> Box<[T; SEEN]> {
    let items = items.into_boxed_slice().try_into();
    items.unwrap_or_else(|_| unreachable!("there are so many"))
}

/// In this order 0 is before all times.
#[inline]
fn order(time_ns: i64) -> u64 {
    time_ns as u64 ^ 1 << 63
}

/// A number made of what distinguishes a segment from others, but for its checksum.
#[inline]
fn signature_of(ip: &Ip, tcp: &TcpHeader) -> u64 {
    let ports = u64::from(tcp.source_port) << 48 | u64::from(tcp.destination_port) << 32;
    // Without identifications, checksums of segments of other lengths are equal by chance.
    let len = (tcp.payload_len as u64) << 24;
    fold(
        u64::from(tcp.sequence.0) << 32 | u64::from(tcp.acknowledgement.0),
        (ports | u64::from(ip.identification) << 16) ^ len,
    )
}

/// The bytes that count of the second 8 of an IPv4 header, in little-endian order.
const IPV4_SECOND: u64 =
    without(ipv4::field::TTL) & without(ipv4::field::CHECKSUM) & without(ipv4::field::CHECKSUM + 1);
/// The same of the first 8 of an IPv6 header.
const IPV6_FIRST: u64 = without(ipv6::field::HOP_LIMIT);

/// All bytes of a word but the one at this offset in the packet.
const fn without(offset: usize) -> u64 {
    !(0xff << (offset % 8 * 8))
}

/// The half of a signature that is made of the packet's headers alone.
const HEADERS: u64 = !0 << 32;
/// The bytes of a packet in that half, of IPv4 and of IPv6: with UDP's header, or a fragment's.
const HEADERS_MAX: [usize; 2] = [32, 48];

#[inline]
fn is_ipv4(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 4)
}

/// Whether two signatures are of one packet; one that was cut has no second half.
#[inline]
fn is_same(one: u64, other: u64) -> bool {
    let differing = one ^ other;
    differing == 0 || differing & HEADERS == 0 && (one & !HEADERS == 0 || other & !HEADERS == 0)
}

/// A number made of a packet's first bytes, without its time to live and header checksum.
#[inline]
fn signature(packet: &[u8]) -> u64 {
    let masks = match is_ipv4(packet) {
        true => [u64::MAX, IPV4_SECOND],
        false => [IPV6_FIRST, u64::MAX],
    };
    mix(packet, masks)
}

/// A number made of the first bytes, of which the first two words count as far as `masks` say.
#[inline]
fn mix(packet: &[u8], masks: [u64; 2]) -> u64 {
    let mut short = [0; PREFIX];
    let prefix = packet.first_chunk::<PREFIX>().unwrap_or_else(|| {
        let len = packet.len().min(PREFIX);
        short[..len].copy_from_slice(&packet[..len]);
        &short
    });
    let words = prefix.as_chunks::<8>().0;
    let word = |at: usize| u64::from_le_bytes(words[at]);
    let [first, second, third] = [
        fold(word(0) & masks[0], word(1) & masks[1]) ^ fold(word(2), word(3)).rotate_left(17),
        fold(word(4), word(5)).rotate_left(31),
        fold(word(6), word(7)).rotate_left(47),
    ];
    // As `HEADERS_MAX` has it; only the first word of IPv4 counts as a whole.
    let headers = match masks[0] {
        u64::MAX => first,
        _ => first ^ second,
    };
    let all = first ^ second ^ third;
    headers & HEADERS | (all ^ all >> 32) & !HEADERS
}

/// Two words multiplied, both halves of the product: what wyhash mixes with (Wang Yi 2019).
#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product =
        u128::from(one ^ 0x9e37_79b9_7f4a_7c15) * u128::from(other ^ 0xd1b5_4a32_d192_ed03);
    (product >> 64) as u64 ^ product as u64
}

/// Where a packet was seen, as a number that is never 0.
fn seen_by(origin: &Origin<'_>, ip: &Ip) -> u32 {
    let descriptor = origin.descriptor();
    if ip.tunnels > 0 {
        return seen_in_tunnel(origin, ip);
    }
    let tap = u64::from(descriptor.input) << 8 | u64::from(ip.ttl);
    let link = origin.bytes().get(..ip.header).unwrap_or(&[]);
    let (words, rest) = link.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    let hash = words.fold(tap, |hash, word| fold(hash, u64::from_le_bytes(*word)));
    (hash >> 32) as u32 | 1
}

/// Outer packets have identifications of their own: only what is the same for all packets of a
/// tunnel counts.
#[cold]
fn seen_in_tunnel(origin: &Origin<'_>, ip: &Ip) -> u32 {
    let layers = origin.layers();
    let link = layers
        .link()
        .and_then(|at| origin.bytes().get(at..at + ethernet::field::ETHER_TYPE));
    let mut hasher = DefaultHasher::new();
    (origin.descriptor().input, ip.ttl, layers, link).hash(&mut hasher);
    (hasher.finish() >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lineside_frame::{Descriptor, Frame};
    use lineside_wire::build::{FrameBuilder, TcpFields};
    use lineside_wire::{Dissected, TcpFlags, dissect};

    use super::*;

    /// A sender repeats an acknowledgement within microseconds (RFC 5681, 2), and a mirror shows
    /// one by another tap.
    #[test]
    fn acknowledgements_that_a_sender_repeats_are_no_copies() {
        let builder = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let fields = TcpFields {
            flags: TcpFlags::ACK,
            ..TcpFields::default()
        };
        let budget = Budget::new(1 << 20);
        for (payload, is_repeat_a_copy) in [(&b""[..], false), (b"data", true)] {
            let bytes = builder.tcp(&fields, payload);
            let Dissected::Tcp(ip, tcp) = dissect(1, &bytes, bytes.len()) else {
                panic!("a segment");
            };
            let mut duplicates = Duplicates::new(1_000_000, &budget);
            let mut has_come = |input, now| {
                let descriptor = Descriptor {
                    input,
                    ..Descriptor::default()
                };
                let frame = Frame::copied(&bytes, descriptor).share();
                let origin = Origin::Frame(&frame);
                duplicates.has_segment(now, &origin, &ip, &tcp, &mut Counters::new())
            };
            assert!(!has_come(0, 0));
            assert_eq!(has_come(0, 10), is_repeat_a_copy);
            assert!(has_come(1, 20), "by another tap");
        }
    }

    /// A tap of all interfaces sees a packet as its sender leaves it to the adapter, and then as
    /// it leaves.
    #[test]
    fn a_checksum_left_to_an_adapter_fits_the_one_that_it_makes() {
        let builder = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let bytes = builder.tcp(&TcpFields::default(), b"data");
        let Dissected::Tcp(ip, whole) = dissect(1, &bytes, bytes.len()) else {
            panic!("a segment");
        };
        let partial = TcpHeader {
            checksum: 0x1234,
            checksum_offloaded: true,
            ..whole
        };
        let damaged = TcpHeader {
            checksum: whole.checksum ^ 1,
            ..whole
        };
        let frame = Frame::copied(&bytes, Descriptor::default()).share();
        for (order, is_copy) in [
            ([partial, whole], true),
            ([whole, partial], true),
            ([whole, damaged], false),
        ] {
            let mut duplicates = Duplicates::new(1_000_000, &Budget::new(1 << 20));
            let mut has_come = |now, tcp| {
                let origin = Origin::Frame(&frame);
                duplicates.has_segment(now, &origin, &ip, tcp, &mut Counters::new())
            };
            assert!(!has_come(0, &order[0]));
            assert_eq!(has_come(30_000, &order[1]), is_copy);
        }
    }

    /// All parts of a packet's first bytes tell it apart, but for those that a router changes.
    #[test]
    fn packets_that_differ_in_a_bit_have_other_signatures() {
        let mut packet = [0; PREFIX];
        for version in [0x45, 0x60] {
            packet[0] = version;
            let whole = signature(&packet);
            let mut signatures = BTreeSet::new();
            for one in 8..8 * PREFIX {
                for other in one..8 * PREFIX {
                    let mut changed = packet;
                    changed[one / 8] ^= 1 << (one % 8);
                    changed[other / 8] ^= u8::from(one != other) << (other % 8);
                    signatures.insert(signature(&changed));
                }
            }
            let (bits, routed) = match version {
                0x45 => (8 * (PREFIX - 1), 24),
                _ => (8 * (PREFIX - 1), 8),
            };
            let counted = bits - routed;
            // One bit, two of them, and none beside those that do not count.
            assert_eq!(signatures.len(), counted + counted * (counted - 1) / 2 + 1);
            assert!(signatures.contains(&whole));
        }
    }

    /// As far as the headers are there, whichever comes first; beyond, nothing is known.
    #[test]
    fn a_copy_that_a_snap_length_cut_is_one_by_its_headers() {
        let ends = |one: &str, other: &str| [one, other].map(|end| end.parse().expect("one"));
        let budget = Budget::new(1 << 20);
        for ([source, destination], headers_len, identification) in [
            (ends("10.0.0.1", "10.0.0.2"), 32, 7),
            (ends("10.0.0.1", "10.0.0.2"), 32, 0),
            (ends("fd00::1", "fd00::2"), 48, 0),
        ] {
            let builder = FrameBuilder::new(source, destination);
            let builder = builder.with_identification(identification);
            let datagram = |data: &[u8]| builder.udp(700, 2049, data);
            let (whole, other) = (datagram(&[7; 100]), datagram(&[8; 100]));
            let mut duplicates = Duplicates::new(1_000_000, &budget);
            let mut has_come = |bytes: &[u8], kept: usize, input, now| {
                let Dissected::Udp(ip, udp) = dissect(1, &bytes[..kept], bytes.len()) else {
                    panic!("a datagram");
                };
                let descriptor = Descriptor {
                    input,
                    ..Descriptor::default()
                };
                let frame = Frame::copied(&bytes[..kept], descriptor).share();
                let origin = Origin::Frame(&frame);
                let counters = &mut Counters::new();
                duplicates.has_datagram(now, &origin, &ip, udp.payload_len, counters)
            };
            let headers_len = ethernet::HEADER_LEN + headers_len;
            for (at, kept) in (headers_len..whole.len()).enumerate() {
                let now = at as i64 * 10_000_000;
                assert!(!has_come(&whole, whole.len(), 0, now));
                assert!(has_come(&whole, kept, 1, now), "{kept}");
                assert!(!has_come(&other, kept, 1, now), "{kept}");
                assert!(has_come(&other, other.len(), 0, now), "{kept}");
            }
            if source.is_ipv4() {
                let now = i64::MAX - 1_000_000;
                assert!(!has_come(&whole, whole.len(), 0, now));
                assert!(!has_come(&whole, headers_len - 1, 1, now), "no xid");
            }
        }
    }
}
