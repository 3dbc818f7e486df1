//! UDP: RFC 768; RFC 1122, 4.1; RFC 8200, 8.1. Datagrams come whole, from fragments too; those that
//! are sent fit into a packet.

use std::net::IpAddr;

use lineside_frame::{Chunk, FrameRef};
use lineside_time::Nanoseconds;
use lineside_wire::icmp::{self, Failure};
use lineside_wire::{Ip, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_UDP, UdpHeader, udp};

use crate::effects::{Datagram, Departure, Effects, Why};
use crate::leave::Packet;
use crate::neighbours::Known;
use crate::ports::Refused;
use crate::receive::has_right_header;
use crate::stack::Stack;

/// Errors that a second may bring: Linux's icmp_msgs_per_sec. RFC 4443, 2.4 (f).
const ERRORS_MAX: u32 = 1000;
/// An error quotes so much of the packet that met it: a packet of 576 bytes by RFC 1812, 4.3.2.3,
/// and less than the least MTU of IPv6 (RFC 4443, 2.4 (c)).
const QUOTED_MAX: usize = 548;

impl Stack {
    /// Takes datagrams at a port of one of the addresses, or of all. `owner` is the owner's word.
    pub fn bind(&mut self, address: Option<IpAddr>, port: u16, owner: u32) -> Result<(), Refused> {
        self.check_address(address)?;
        self.sockets.add(address, port, owner)
    }

    /// Takes no further datagrams there; whether it took any.
    pub fn unbind(&mut self, address: Option<IpAddr>, port: u16) -> bool {
        self.sockets.remove(address, port)
    }

    /// Asks for the link address of the neighbour by which packets to `remote` leave, unless it is
    /// known: the first datagram need not wait for it then.
    pub fn seek(&mut self, now: Nanoseconds, remote: IpAddr, effects: &mut impl Effects) {
        self.pass_time(now);
        let Some(next_hop) = self.config.next_hop(remote) else {
            return;
        };
        let known = self.neighbours.resolve(self.now, next_hop);
        if let Known::Address { asks: true, .. } | Known::Waits { asks: true } = known {
            self.ask(next_hop, effects);
        }
    }

    /// The most payload of a datagram between addresses of this family.
    pub fn datagram_max(&self, is_ipv4: bool) -> usize {
        let headers = if is_ipv4 { 20 } else { 40 };
        self.config.mtu.saturating_sub(headers + udp::HEADER_LEN)
    }

    /// Sends a datagram of `len` bytes, which `write` fills in place, from an address and port of
    /// the stack, which need not be bound, to another end. `due` is when it was to leave.
    pub fn datagram<E: Effects>(
        &mut self,
        now: Nanoseconds,
        [(local, local_port), (remote, remote_port)]: [(IpAddr, u16); 2],
        (len, due): (usize, Option<Nanoseconds>),
        effects: &mut E,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), Refused> {
        self.pass_time(now);
        self.check_ends(local, remote)?;
        let most = self.datagram_max(local.is_ipv4());
        if len > most {
            return Err(Refused::TooLong(len, most));
        }
        self.counters.datagrams_sent += 1;
        let packet = Packet {
            ends: [local, remote],
            protocol: PROTOCOL_UDP,
            ecn: 0,
            payload_len: udp::HEADER_LEN + len,
        };
        let departure = Departure {
            connection: None,
            why: Why::Datagram,
            due,
        };
        self.leave(packet, departure, effects, |_, bytes| {
            write(&mut bytes[udp::HEADER_LEN..]);
            let mut datagram = udp::Datagram::new_unchecked(bytes);
            datagram.set_source_port(local_port);
            datagram.set_destination_port(remote_port);
            datagram.set_len((udp::HEADER_LEN + len) as u16);
            datagram.fill_checksum(local, remote);
        });
        Ok(())
    }

    pub(crate) fn on_udp(
        &mut self,
        frame: &FrameRef,
        ip: &Ip,
        udp: &UdpHeader,
        effects: &mut impl Effects,
    ) {
        if !self.is_for_us(ip) {
            self.counters.not_ours += 1;
            return;
        }
        let bytes = frame.bytes();
        let is_cut = ip.captured_len < ip.payload_len;
        let Some(datagram) = (!is_cut)
            .then(|| udp::Datagram::new_checked(&bytes[ip.payload..][..ip.payload_len]))
            .flatten()
        else {
            self.counters.malformed += 1;
            return;
        };
        let is_offloaded = udp.checksum_offloaded && self.config.takes_offloaded;
        // RFC 8200, 8.1: over IPv6 there is no datagram without a checksum.
        let lacks_one = datagram.checksum() == 0 && !ip.source.is_ipv4();
        let is_right = datagram.verify_checksum(ip.source, ip.destination);
        if !has_right_header(ip) || lacks_one || !is_right && !is_offloaded {
            self.counters.checksum_wrong += 1;
            return;
        }
        self.counters.offloaded += u64::from(!is_right);
        let Some(owner) = self.sockets.owner(ip.destination, udp.destination_port) else {
            self.counters.datagrams_without_port += 1;
            self.refuse_datagram(bytes, ip, effects);
            return;
        };
        self.counters.datagrams += 1;
        let stamp = frame.descriptor().stamp_ns.unwrap_or(self.now);
        let datagram = Datagram {
            ends: [
                (ip.destination, udp.destination_port),
                (ip.source, udp.source_port),
            ],
            at: stamp.min(self.now),
            payload: Chunk::of_frame(frame, udp.payload, udp.payload_len),
        };
        effects.on_datagram(owner, &datagram);
    }

    /// Nobody is at the port: RFC 1122, 4.1.3.1; RFC 4443, 3.1.
    fn refuse_datagram(&mut self, bytes: &[u8], ip: &Ip, effects: &mut impl Effects) {
        let second = self.now / 1_000_000_000;
        if self.errors_sent.0 != second {
            self.errors_sent = (second, 0);
        }
        if self.errors_sent.1 == ERRORS_MAX {
            return;
        }
        self.errors_sent.1 += 1;
        let is_ipv4 = ip.source.is_ipv4();
        let quoted = &bytes[ip.header..ip.payload + ip.payload_len];
        let quoted = &quoted[..quoted.len().min(QUOTED_MAX)];
        let (protocol, code) = match is_ipv4 {
            true => (PROTOCOL_ICMP, icmp::PORT_UNREACHABLE),
            false => (PROTOCOL_ICMPV6, icmp::PORT_UNREACHABLE_V6),
        };
        let ends = [ip.destination, ip.source];
        let packet = Packet {
            ends,
            protocol,
            ecn: 0,
            payload_len: icmp::HEADER_LEN + quoted.len(),
        };
        let departure = crate::control::CONTROL;
        self.leave(packet, departure, effects, |_, message| {
            icmp::emit_error(Failure::Unreachable(code), quoted, ends, message);
        });
    }
}
