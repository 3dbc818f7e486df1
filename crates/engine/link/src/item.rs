use std::net::IpAddr;

use lineside_frame::{Copies, Frame};
use lineside_wire::{Dissected, dissect};

/// A TCP segment, as far as [`Loss::Segment`](crate::Loss) needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Addresses and ports of sender and receiver.
    pub flow: [(IpAddr, u16); 2],
    /// The sequence number of its first byte, or of the SYN.
    pub sequence: u32,
    /// Bytes of its data.
    pub len: u32,
    /// It begins a connection.
    pub is_syn: bool,
}

/// What goes through a link: a [`Frame`], or in tests less.
pub trait Item: Sized {
    /// Memory for copies.
    type Copies: std::fmt::Debug;

    /// Memory for copies of this many bytes, which the caller has reserved.
    fn copies(bytes_max: usize) -> Self::Copies;
    /// Bytes on the wire.
    fn len_bytes(&self) -> u32;
    /// Turns one bit, which one by any number.
    fn flip_bit(&mut self, number: u32);
    /// Another of the same.
    fn duplicate(&self, copies: &mut Self::Copies) -> Self;
    /// Copies the bytes into memory of its own.
    fn spill(&mut self, copies: &mut Self::Copies);
    /// The TCP segment that it is.
    fn segment(&self) -> Option<Segment>;
}

impl Item for Frame {
    type Copies = Copies;

    fn copies(bytes_max: usize) -> Copies {
        Copies::new(bytes_max)
    }

    #[inline]
    fn len_bytes(&self) -> u32 {
        self.descriptor().wire_len.max(self.bytes().len() as u32)
    }

    fn flip_bit(&mut self, number: u32) {
        let bytes = self.bytes_mut();
        // Of a frame without bytes nothing can be turned.
        if let Some(bits) = (bytes.len() as u64 * 8).checked_sub(1) {
            let bit = (u64::from(number) * (bits + 1)) >> 32;
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }

    fn duplicate(&self, copies: &mut Copies) -> Self {
        copies.copy(self)
    }

    fn spill(&mut self, copies: &mut Copies) {
        *self = self.duplicate(copies);
    }

    fn segment(&self) -> Option<Segment> {
        let descriptor = self.descriptor();
        let wire_len = descriptor.wire_len as usize;
        match dissect(descriptor.link_type.0, self.bytes(), wire_len) {
            Dissected::Tcp(ip, tcp) => Some(Segment {
                flow: [
                    (ip.source, tcp.source_port),
                    (ip.destination, tcp.destination_port),
                ],
                sequence: tcp.sequence.0,
                len: tcp.payload_len as u32,
                is_syn: tcp.flags.opens(),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::Descriptor;

    use super::*;
    use crate::{Chance, Link, Settings, words};

    #[test]
    fn corruption_turns_one_bit_of_one_of_two_copies_or_of_both() {
        let descriptor = Descriptor {
            wire_len: 9000,
            number: 3,
            ..Descriptor::default()
        };
        let settings = Settings {
            duplicate: words::chance("duplicate", "100%").expect("a share"),
            corrupt: words::chance("corrupt", "50%").expect("a share"),
            ..Settings::default()
        };
        let mut link = Link::new(settings, 1, 0, 1 << 20);
        let mut out = Vec::new();
        for number in 0..1000 {
            link.push(number, Frame::copied(&[0xa5; 100], descriptor), &mut out);
        }
        link.spill(usize::MAX);
        link.on_timer(1000, &mut out);
        assert_eq!(out.len(), 2000);
        let turned = |frame: &Frame| -> u32 {
            assert_eq!(frame.descriptor(), &descriptor);
            frame
                .bytes()
                .iter()
                .map(|byte| (byte ^ 0xa5).count_ones())
                .sum()
        };
        let turned: Vec<_> = out
            .iter()
            .map(|departure| turned(&departure.item))
            .collect();
        assert!(turned.iter().all(|&bits| bits <= 1));
        let count: u32 = turned.iter().sum();
        assert!((900..1100).contains(&count), "{count}");
        assert_eq!(u64::from(count), link.counters().corrupted);
        assert_eq!(link.counters().released_bytes, 2000 * 9000);
    }

    #[test]
    fn a_frame_without_bytes_has_nothing_to_turn() {
        let settings = Settings {
            corrupt: Chance {
                share: 1.0,
                ..Chance::default()
            },
            ..Settings::default()
        };
        let mut link = Link::new(settings, 1, 0, 1 << 20);
        let mut out = Vec::new();
        link.push(0, Frame::copied(&[], Descriptor::default()), &mut out);
        link.on_timer(0, &mut out);
        assert!(out[0].item.bytes().is_empty());
    }
}
