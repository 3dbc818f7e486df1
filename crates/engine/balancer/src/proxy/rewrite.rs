//! Two halves of a connection, joined by numbers.

use lineside_wire::checksum;
use lineside_wire::tcp::{HEADER_LEN, Segment, field};

/// The direction of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the node.
    ToNode,
    /// From the node to the client.
    ToClient,
}

/// What is left of a spliced connection: how the numbers of one half become those of the other.
///
/// The node knows the client by the client's own sequence numbers, so that only the node's are
/// changed: in its segments, in acknowledgements and in SACK blocks of the client. Its timestamps
/// are too, because the client has seen others. Windows are changed where the node's shift is
/// another one than the client was offered: a smaller unit is rounded down, a window that does not
/// fit its field becomes the largest that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Splice {
    /// Added to the node's sequence numbers.
    pub sequence: u32,
    /// Added to the node's timestamps.
    pub timestamp: u32,
    /// By how many bits the node's windows are shifted to the left; to the right if negative.
    pub window_to_client: i8,
    /// The same of the client's windows.
    pub window_to_node: i8,
}

/// Kinds of options with numbers of the other half: RFC 2018, 3, and RFC 7323, 3.2.
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

impl Splice {
    /// Rewrites a TCP header, options included, with its checksum; `bytes` may go on behind it. A
    /// checksum that covers the pseudo-header only (`is_offloaded`) stays as it is: it knows
    /// nothing of the header. What is no whole header is left alone.
    pub fn rewrite(&self, way: Way, bytes: &mut [u8], is_offloaded: bool) {
        let header_len = match bytes.get(field::DATA_OFFSET) {
            Some(offset) => usize::from(offset >> 4) * 4,
            None => return,
        };
        if header_len < HEADER_LEN || bytes.len() < header_len {
            return;
        }
        let mut header = Header {
            bytes: &mut bytes[..header_len],
            sum: 0,
        };
        match way {
            Way::ToClient => header.add(field::SEQUENCE, self.sequence),
            Way::ToNode if header.bytes[field::FLAGS] & 0x10 != 0 => {
                header.add(field::ACKNOWLEDGEMENT, self.sequence.wrapping_neg());
            }
            Way::ToNode => {}
        }
        header.shift_window(match way {
            Way::ToClient => self.window_to_client,
            Way::ToNode => self.window_to_node,
        });
        self.rewrite_options(way, &mut header);
        let sum = header.sum;
        if !is_offloaded {
            let mut segment = Segment::new_unchecked(bytes);
            // RFC 1624, 3, equation 3, for all changes at once.
            segment.set_checksum(!checksum::add(!segment.checksum(), sum));
        }
    }

    fn rewrite_options(&self, way: Way, header: &mut Header<'_>) {
        let mut at = HEADER_LEN;
        while let Some(&kind) = header.bytes.get(at) {
            match kind {
                0 => return,
                1 => {
                    at += 1;
                    continue;
                }
                _ => {}
            }
            let len = header.bytes.get(at + 1).copied().map_or(0, usize::from);
            if len < 2 || at + len > header.bytes.len() {
                return;
            }
            match (kind, way) {
                (SACK, Way::ToNode) => {
                    for edge in (at + 2..at + len).step_by(4).take((len - 2) / 8 * 2) {
                        header.add(edge, self.sequence.wrapping_neg());
                    }
                }
                (TIMESTAMPS, Way::ToClient) if len == 10 => header.add(at + 2, self.timestamp),
                (TIMESTAMPS, Way::ToNode) if len == 10 => {
                    header.add(at + 6, self.timestamp.wrapping_neg());
                }
                _ => {}
            }
            at += len;
        }
    }
}

/// A header, and what its checksum's complement grows by.
struct Header<'a> {
    bytes: &'a mut [u8],
    sum: u16,
}

impl Header<'_> {
    /// Adds to a number that may lie at an odd offset.
    fn add(&mut self, at: usize, by: u32) {
        if by == 0 {
            return;
        }
        let Some(bytes) = self
            .bytes
            .get_mut(at..)
            .and_then(|rest| rest.first_chunk_mut::<4>())
        else {
            return;
        };
        let old = *bytes;
        *bytes = u32::from_be_bytes(old).wrapping_add(by).to_be_bytes();
        let change = checksum::add(!checksum::sum(&old), checksum::sum(bytes));
        // RFC 1071, 2 (B): at an odd offset the bytes of each word change places.
        let change = if at % 2 == 1 {
            change.swap_bytes()
        } else {
            change
        };
        self.sum = checksum::add(self.sum, change);
    }

    fn shift_window(&mut self, by: i8) {
        // The window of a SYN is never shifted: RFC 7323, 2.2.
        if by == 0 || self.bytes[field::FLAGS] & 0x02 != 0 {
            return;
        }
        let old = u16::from_be_bytes([self.bytes[field::WINDOW], self.bytes[field::WINDOW + 1]]);
        let new = shifted(old, by);
        self.bytes[field::WINDOW..field::WINDOW + 2].copy_from_slice(&new.to_be_bytes());
        self.sum = checksum::add(self.sum, checksum::add(!old, new));
    }
}

/// A window in another unit.
pub(super) fn shifted(window: u16, by: i8) -> u16 {
    let wide = u32::from(window);
    let wide = match by {
        0.. => wide << by.min(15),
        _ => wide >> by.unsigned_abs().min(16),
    };
    u16::try_from(wide).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use lineside_wire::build::TcpFields;
    use lineside_wire::tcp::{SackBlocks, TcpOption};
    use lineside_wire::{SeqNumber, TcpFlags};
    use proptest::prelude::*;

    use super::*;

    const ENDS: [IpAddr; 2] = [
        IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)),
        IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)),
    ];

    /// A segment with padding, SACK blocks and timestamps at odd or even offsets.
    fn segment(numbers: [u32; 6], window: u16, padding: usize) -> Vec<u8> {
        let blocks = [SackBlocks::block(
            SeqNumber(numbers[2]),
            SeqNumber(numbers[3]),
        )];
        let mut options = [1; 24];
        let len = padding + 20;
        let rest = TcpOption::Sack(SackBlocks::new(&blocks)).emit(&mut options[padding..]);
        let (value, echo) = (numbers[4], numbers[5]);
        TcpOption::Timestamps { value, echo }.emit(rest);
        let fields = TcpFields {
            source_port: 80,
            destination_port: 4711,
            sequence: numbers[0],
            acknowledgement: numbers[1],
            flags: TcpFlags::ACK,
            window,
            options: &options[..len],
        };
        let mut bytes = vec![0; fields.header_len() + 7];
        let at = fields.header_len();
        bytes[at..].copy_from_slice(b"payload");
        fields.emit(ENDS, &mut bytes);
        bytes
    }

    proptest! {
        /// What is rewritten equals the same segment built with the other numbers.
        #[test]
        fn a_rewritten_segment_is_one_of_the_other_half(
            numbers: [u32; 6], sequence: u32, timestamp: u32, window: u16,
            shifts in (-14_i8..15, -14_i8..15), padding in 0_usize..4,
        ) {
            let splice = Splice {
                sequence, timestamp, window_to_client: shifts.0, window_to_node: shifts.1,
            };
            let [seq, ack, from, to, value, echo] = numbers;
            for (way, numbers, window_after) in [
                (
                    Way::ToClient,
                    [seq.wrapping_add(sequence), ack, from, to, value.wrapping_add(timestamp), echo],
                    shifted(window, shifts.0),
                ),
                (
                    Way::ToNode,
                    [
                        seq, ack.wrapping_sub(sequence), from.wrapping_sub(sequence),
                        to.wrapping_sub(sequence), value, echo.wrapping_sub(timestamp),
                    ],
                    shifted(window, shifts.1),
                ),
            ] {
                let before = segment([seq, ack, from, to, value, echo], window, padding);
                let (mut bytes, expected) = (before.clone(), segment(numbers, window_after, padding));
                splice.rewrite(way, &mut bytes, false);
                prop_assert!(Segment::new_unchecked(&bytes).verify_checksum(ENDS[0], ENDS[1]));
                // The checksum may be the other zero: RFC 1624, 3.
                let at = field::CHECKSUM..field::CHECKSUM + 2;
                prop_assert_eq!(&bytes[..at.start], &expected[..at.start]);
                prop_assert_eq!(&bytes[at.end..], &expected[at.end..]);
                let mut offloaded = before.clone();
                splice.rewrite(way, &mut offloaded, true);
                prop_assert_eq!(&offloaded[at.clone()], &before[at]);
            }
        }

        #[test]
        fn foreign_bytes_are_no_trouble(bytes: Vec<u8>, offset in 5_u8..16, to_node: bool) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.get_mut(field::DATA_OFFSET) {
                *byte = offset << 4;
            }
            let splice = Splice { sequence: 5, timestamp: 9, ..Splice::default() };
            let way = if to_node { Way::ToNode } else { Way::ToClient };
            splice.rewrite(way, &mut bytes, false);
        }
    }

    #[test]
    fn windows_saturate_and_round_down() {
        for (window, by, expected) in [(1000, 0, 1000), (1000, 7, 65_535), (1001, -3, 125)] {
            assert_eq!(shifted(window, by), expected);
        }
    }
}
