//! Packets that leave: to the neighbour that is to be given them, or they wait for its address.

use std::net::IpAddr;

use lineside_wire::headers::Headers;

use crate::effects::{Departure, Effects};
use crate::ip::descriptor;
use crate::neighbours::Known;
use crate::stack::Stack;

/// What an IP header says of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    /// Our address and the receiver's.
    pub(crate) ends: [IpAddr; 2],
    pub(crate) protocol: u8,
    /// Congestion notification, 2 bits: RFC 3168, 5.
    pub(crate) ecn: u8,
    pub(crate) payload_len: usize,
}

impl Stack {
    /// Lets a packet leave, or wait for its neighbour's address. `write` is given its payload's
    /// place.
    pub(crate) fn leave<E: Effects>(
        &mut self,
        packet: Packet,
        departure: Departure,
        effects: &mut E,
        write: impl FnOnce(&mut E, &mut [u8]),
    ) {
        let Some(next_hop) = self.config.next_hop(packet.ends[1]) else {
            self.counters.frames_unresolved += 1;
            return;
        };
        let (link_address, asks, waits) = match self.neighbours.resolve(self.now, next_hop) {
            Known::Address { link_address, asks } => (link_address, asks, false),
            Known::Waits { asks } => ([0; 6], asks, true),
            Known::NoRoom => {
                self.counters.frames_unresolved += 1;
                return;
            }
        };
        if asks {
            self.ask(next_hop, effects);
        }
        let headers = Headers {
            link: [link_address, self.config.link_address],
            tags: self.config.tags,
            hop_count: self.config.hop_limit,
            dscp: self.config.dscp,
            ecn: packet.ecn,
            ..Headers::new(packet.ends[0], packet.ends[1])
        };
        let len = headers.len_bytes() + packet.payload_len;
        let Some(mut frame) = self.cutter.cut(len, descriptor(len)) else {
            self.counters.frames_unsent += 1;
            return;
        };
        let payload = headers.emit(packet.protocol, packet.payload_len, frame.bytes_mut());
        write(effects, payload);
        if waits {
            let dropped = self.neighbours.wait(next_hop, frame, departure);
            self.counters.frames_unresolved += u64::from(dropped.is_some());
            return;
        }
        effects.transmit(frame, departure);
    }
}
