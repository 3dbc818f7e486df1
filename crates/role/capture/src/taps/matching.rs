//! One direction of a connection at two taps: which packets of one have the bytes of the other's.
//!
//! By bytes, not by packets: an adapter cuts and joins segments, so that one tap sees 64 KiB where
//! the other sees 45 packets. Of several that have the same bytes, sent again, the one with the
//! same marks is the same packet; without marks, the one whose time is nearest to the usual.

use super::flows::Packet;

/// The longest packet that an adapter is given: BIG TCP of Linux.
const PACKET_MAX: i64 = 512 << 10;

/// Copies of a byte that are looked at. More are a loop.
const COPIES_MAX: usize = 64;

/// The packets of one direction at one tap, in the order of their bytes.
pub(super) struct Index<'a> {
    packets: &'a [Packet],
    /// Where each packet begins, in a stream whose numbers do not wrap.
    starts: Vec<i64>,
    /// Those with bytes, by where they begin.
    sorted: Vec<(i64, u32)>,
}

impl<'a> Index<'a> {
    /// `origin` is the sequence number of offset 0.
    pub(super) fn new(packets: &'a [Packet], origin: u32, is_stream: bool) -> Self {
        let mut at = 0;
        let start = |packet: &Packet| {
            let number = packet.sequence.wrapping_sub(origin);
            at = match is_stream {
                // The nearest to the one before.
                true => at + i64::from(number.wrapping_sub(at as u32).cast_signed()),
                false => i64::from(number),
            };
            at
        };
        let starts: Vec<_> = packets.iter().map(start).collect();
        let with_bytes = (0u32..).zip(packets).filter(|(_, packet)| packet.len > 0);
        let mut sorted: Vec<_> = with_bytes
            .map(|(at, _)| (starts[at as usize], at))
            .collect();
        sorted.sort_unstable();
        Self {
            packets,
            starts,
            sorted,
        }
    }

    /// The last byte of each packet that has any, with the packet.
    pub(super) fn last_bytes(&self) -> impl Iterator<Item = (i64, &'a Packet)> {
        { self.packets.iter().zip(&self.starts) }
            .filter(|(packet, _)| packet.len > 0)
            .map(|(packet, start)| (start + i64::from(packet.len) - 1, packet))
    }

    /// The packets that have a byte.
    pub(super) fn with_byte(&self, byte: i64) -> impl Iterator<Item = &'a Packet> {
        let end = self.sorted.partition_point(|(start, _)| *start <= byte);
        { self.sorted[..end].iter().rev() }
            .take_while(move |(start, _)| byte - start < PACKET_MAX)
            .take(COPIES_MAX)
            .map(|(start, at)| (*start, &self.packets[*at as usize]))
            .filter(move |(start, packet)| start + i64::from(packet.len) > byte)
            .map(|(_, packet)| packet)
    }

    /// The stamp of the one packet that has a byte of `packet`, if there is no other or only it
    /// has its marks.
    pub(super) fn sure(&self, byte: i64, packet: &Packet) -> Option<i64> {
        let mut same = self.with_byte(byte).filter(|other| is_same(other, packet));
        if let (Some(one), None) = (same.next(), same.next()) {
            return Some(one.stamp_ns);
        }
        let mut all = self.with_byte(byte);
        match (all.next(), all.next()) {
            (Some(one), None) => Some(one.stamp_ns),
            _ => None,
        }
    }

    /// The stamp of the packet that most likely brought a byte of `packet`, which usually passes
    /// `usual_ns` after it.
    pub(super) fn likely(&self, byte: i64, packet: &Packet, usual_ns: i64) -> Option<i64> {
        let rank = |other: &&Packet| {
            let took_ns = packet.stamp_ns.saturating_sub(other.stamp_ns);
            (
                !is_same(other, packet),
                took_ns.saturating_sub(usual_ns).unsigned_abs(),
            )
        };
        Some(self.with_byte(byte).min_by_key(rank)?.stamp_ns)
    }

    /// When it was watched: the first and the last stamp.
    pub(super) fn span(&self) -> Option<[i64; 2]> {
        let stamps = || self.packets.iter().map(|packet| packet.stamp_ns);
        Some([stamps().min()?, stamps().max()?])
    }
}

fn is_same(one: &Packet, other: &Packet) -> bool {
    (one.sequence, one.len, one.mark) == (other.sequence, other.len, other.mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u32, len: u32, mark: u32, stamp_ns: i64) -> Packet {
        Packet {
            stamp_ns,
            frame: 1,
            sequence,
            len,
            acknowledgement: 0,
            mark,
        }
    }

    #[test]
    fn bytes_are_found_in_segments_of_other_sizes() {
        let origin = u32::MAX - 1000;
        let small: Vec<_> = (0..45)
            .map(|at| {
                packet(
                    origin.wrapping_add(at * 1448),
                    1448,
                    at,
                    100 + i64::from(at),
                )
            })
            .collect();
        let giant = [packet(origin, 45 * 1448, 7, 5)];
        let (small, giant) = (
            Index::new(&small, origin, true),
            Index::new(&giant, origin, true),
        );
        for (byte, each) in small.last_bytes() {
            assert_eq!(giant.sure(byte, each), Some(5));
        }
        let (byte, last) = giant.last_bytes().next().expect("one");
        assert_eq!(small.sure(byte, last), Some(144));
    }

    #[test]
    fn what_was_sent_again_is_found_by_its_marks_or_its_time() {
        let sent = [packet(0, 100, 1, 0), packet(0, 100, 2, 1000)];
        let sent = Index::new(&sent, 0, true);
        assert_eq!(sent.sure(99, &packet(0, 100, 2, 1030)), Some(1000));
        let joined = packet(0, 200, 9, 1030);
        assert_eq!(sent.sure(99, &joined), None);
        assert_eq!(sent.likely(99, &joined, 30), Some(1000));
    }
}
