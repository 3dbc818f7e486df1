//! A frame down to its transport header.

use std::net::IpAddr;

use crate::bytes::array;
use crate::ethernet::{self, ether_type};
use crate::ip::{HeaderChecksum, ipv4_checksum};
use crate::ipv6::{
    FRAGMENT_HEADER_LEN, FragmentHeader, extension, extension_len, final_destination,
};
use crate::link::{self, Network};
use crate::transport::{tcp_header, udp_header};
use crate::tunnel::may_be_tunnel;
use crate::walk::Walk;
use crate::{
    Dissected, Fragment, Ip, Layers, PROTOCOL_TCP, PROTOCOL_UDP, PlainSegment, arp, evidence, ipv4,
    ipv6,
};

/// Dissects a frame that begins as `link_type` (a LINKTYPE_ value) defines.
///
/// `bytes` is the captured part, `wire_len` how long it was on the wire; if that is smaller than
/// what is there, what is there counts.
#[inline]
pub fn dissect(link_type: u16, bytes: &[u8], wire_len: usize) -> Dissected {
    // The fast path for nearly all frames.
    match PlainSegment::new(link_type, bytes, wire_len) {
        Some(segment) => {
            let (ip, tcp) = segment.headers();
            Dissected::Tcp(ip, tcp)
        }
        None => dissect_any(link_type, bytes, wire_len),
    }
}

/// Dissects whatever it is, layer by layer.
fn dissect_any(link_type: u16, bytes: &[u8], wire_len: usize) -> Dissected {
    Walk::new(bytes, wire_len, Layers::default()).frame(link_type)
}

/// Dissects the outermost packet of a frame: a tunnel is
/// [`OtherProtocol`](Dissected::OtherProtocol), or a datagram.
pub fn dissect_outermost(link_type: u16, bytes: &[u8], wire_len: usize) -> Dissected {
    let mut walk = Walk::new(bytes, wire_len, Layers::default());
    walk.follows = false;
    walk.frame(link_type)
}

/// The tags and tunnels around what [`dissect`] finds in the same frame.
pub fn layers(link_type: u16, bytes: &[u8], wire_len: usize) -> Layers {
    let mut walk = Walk::new(bytes, wire_len, Layers::default());
    walk.frame(link_type);
    walk.layers
}

/// Sender and receiver of a packet: of IP of any protocol, and of ARP for IPv4 in Ethernet. `None`:
/// neither, or cut before its addresses end.
pub fn addresses(link_type: u16, bytes: &[u8]) -> Option<(IpAddr, IpAddr)> {
    if link_type == 1
        && let Some(frame) = ethernet::Frame::new_checked(bytes)
        && frame.ether_type() == ether_type::ARP
    {
        let packet = arp::Packet::new_checked(frame.payload())?;
        return Some((
            packet.sender_address().into(),
            packet.target_address().into(),
        ));
    }
    let (network, offset) = link::network(link_type, bytes, &mut Layers::default()).ok()?;
    let version = bytes.get(offset)? >> 4;
    let is_ipv4 = match network {
        Network::Ipv4 => true,
        Network::Ipv6 => false,
        Network::ByVersion => version == 4,
        Network::Mpls => return None,
    };
    if is_ipv4 {
        let header = array::<{ ipv4::HEADER_LEN }>(bytes, offset)?;
        let packet = ipv4::Packet::new_unchecked(header);
        let ends = (packet.source().into(), packet.destination().into());
        return (version == 4).then_some(ends);
    }
    let packet = ipv6::Packet::new_unchecked(array::<{ ipv6::HEADER_LEN }>(bytes, offset)?);
    (version == 6).then_some((packet.source().into(), packet.destination().into()))
}

/// Dissects the payload of a packet that was put together from fragments.
///
/// `ip` comes from a fragment and gives the addresses; `protocol` is [`Fragment::protocol`].
/// `bytes` holds at least the headers (the first fragment's payload is enough), `wire_len` is the
/// length of the whole payload. Offsets and lengths of the result refer to these two.
pub fn dissect_assembled(ip: &Ip, protocol: u8, bytes: &[u8], wire_len: usize) -> Dissected {
    let mut walk = Walk::new(bytes, wire_len, Layers::default());
    walk.assembled(ip, protocol)
}

/// The tags and tunnels around what [`dissect_assembled`] finds in the same payload; `around` are
/// those of a fragment.
pub fn layers_assembled(
    around: &Layers,
    ip: &Ip,
    protocol: u8,
    bytes: &[u8],
    wire_len: usize,
) -> Layers {
    let mut walk = Walk::new(bytes, wire_len, *around);
    walk.assembled(ip, protocol);
    walk.layers
}

impl<'a> Walk<'a> {
    #[inline]
    fn new(bytes: &'a [u8], wire_len: usize, layers: Layers) -> Self {
        Self {
            bytes,
            end: wire_len.max(bytes.len()),
            layers,
            follows: true,
        }
    }

    #[inline]
    fn frame(&mut self, link_type: u16) -> Dissected {
        match link::network(link_type, self.bytes, &mut self.layers) {
            Ok((network, offset)) => self.packet(network, offset),
            Err(why) => self.unread(0, why.into()),
        }
    }

    /// `found` is not read from `start` on: perhaps there is IP in it all the same.
    #[cold]
    pub(crate) fn unread(&self, start: usize, found: Dissected) -> Dissected {
        let may_hold_ip = matches!(found, Dissected::NotIp | Dissected::OtherProtocol);
        match may_hold_ip && evidence::holds_ip(self.bytes, start, self.end) {
            true => Dissected::IpUnread,
            false => found,
        }
    }

    /// The payload of a packet that was put together from fragments.
    fn assembled(&mut self, ip: &Ip, protocol: u8) -> Dissected {
        let ip = Ip {
            protocol,
            header: 0,
            ..*ip
        };
        self.behind_ip(ip, 0, self.end)
    }

    #[inline]
    pub(crate) fn packet(&mut self, network: Network, offset: usize) -> Dissected {
        match network {
            Network::Ipv4 => self.ipv4(offset),
            Network::Ipv6 => self.ipv6(offset),
            Network::ByVersion => match self.bytes.get(offset) {
                Some(first) if first >> 4 == 4 => self.ipv4(offset),
                Some(first) if first >> 4 == 6 => self.ipv6(offset),
                _ => Dissected::MalformedIp,
            },
            Network::Mpls if self.follows => self.mpls(None, offset),
            Network::Mpls => Dissected::NotIp,
        }
    }

    /// RFC 791, 3.1.
    #[inline]
    fn ipv4(&mut self, offset: usize) -> Dissected {
        let Some(header) = array::<{ ipv4::HEADER_LEN }>(self.bytes, offset) else {
            return Dissected::MalformedIp;
        };
        let packet = ipv4::Packet::new_unchecked(header);
        let header_len = packet.header_len();
        let on_wire = self.end - offset;
        let total_len = match packet.total_len() {
            // A frame that waits for segmentation by the network card may be longer than 16 bits
            // say.
            0 => on_wire,
            len => len,
        };
        let lens = ipv4::HEADER_LEN..=total_len.min(on_wire);
        if packet.version() != 4 || !lens.contains(&header_len) {
            return Dissected::MalformedIp;
        }
        let ip = Ip {
            source: packet.source().into(),
            destination: packet.destination().into(),
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            identification: packet.identification(),
            header: offset,
            payload: 0,
            payload_len: 0,
            captured_len: 0,
            tunnels: self.tunnels(),
            virtual_network: self.layers.virtual_network(),
            vlan: self.layers.vlan(),
            checksum: ipv4_checksum(self.bytes, offset, header_len),
        };
        let start = offset + header_len;
        let end = offset + total_len.min(on_wire);
        if packet.is_fragment() {
            let fragment = Fragment {
                identification: packet.identification().into(),
                offset: packet.fragment_offset(),
                more: packet.more_fragments(),
                protocol: packet.protocol(),
            };
            return fragment_of(ip, fragment, self.bytes, start, end)
                .unwrap_or(Dissected::MalformedIp);
        }
        self.behind_ip(ip, start, end)
    }

    /// RFC 8200, 3.
    fn ipv6(&mut self, offset: usize) -> Dissected {
        let Some(header) = array::<{ ipv6::HEADER_LEN }>(self.bytes, offset) else {
            return Dissected::MalformedIp;
        };
        let packet = ipv6::Packet::new_unchecked(header);
        if packet.version() != 6 {
            return Dissected::MalformedIp;
        }
        let start = offset + ipv6::HEADER_LEN;
        let end = match packet.payload_len() {
            // A jumbogram (RFC 2675), or a frame that waits for segmentation.
            0 => self.end,
            len => self.end.min(start + len),
        };
        let ip = Ip {
            source: packet.source().into(),
            destination: packet.destination().into(),
            protocol: packet.next_header(),
            ttl: packet.hop_limit(),
            identification: 0,
            header: offset,
            payload: 0,
            payload_len: 0,
            captured_len: 0,
            tunnels: self.tunnels(),
            virtual_network: self.layers.virtual_network(),
            vlan: self.layers.vlan(),
            checksum: HeaderChecksum::NoneInIpv6,
        };
        self.behind_ip(ip, start, end)
    }

    fn tunnels(&self) -> u8 {
        self.layers.tunnels().len() as u8
    }

    /// Extension headers and the transport header; `start..end` is the payload on the wire.
    #[inline]
    fn behind_ip(&mut self, mut ip: Ip, start: usize, end: usize) -> Dissected {
        match ip.protocol {
            PROTOCOL_TCP => tcp(ip, self.bytes, start, end),
            PROTOCOL_UDP => self.udp(ip, start, end),
            _ => self
                .behind_extensions(&mut ip, start, end)
                .unwrap_or(Dissected::MalformedIp),
        }
    }

    #[inline]
    fn udp(&mut self, mut ip: Ip, start: usize, end: usize) -> Dissected {
        ip.set_payload(self.bytes, start, end);
        let Some(udp) = udp_header(&ip, &self.bytes[ip.payload..][..ip.captured_len]) else {
            return Dissected::MalformedUdp;
        };
        if self.follows
            && may_be_tunnel([udp.source_port, udp.destination_port])
            && let Some(inside) = self.in_udp(&ip, &udp)
        {
            return inside;
        }
        Dissected::Udp(ip, udp)
    }

    /// `None` if malformed.
    fn behind_extensions(
        &mut self,
        ip: &mut Ip,
        mut start: usize,
        end: usize,
    ) -> Option<Dissected> {
        let bytes = self.bytes;
        let is_ipv6 = ip.source.is_ipv6();
        loop {
            let len = match ip.protocol {
                PROTOCOL_TCP => return Some(tcp(*ip, bytes, start, end)),
                PROTOCOL_UDP => return Some(self.udp(*ip, start, end)),
                extension::FRAGMENT if is_ipv6 => {
                    let header = array::<FRAGMENT_HEADER_LEN>(bytes, start)?;
                    let header = FragmentHeader::new_unchecked(header);
                    let fragment = Fragment {
                        identification: header.identification(),
                        offset: header.offset(),
                        more: header.more_fragments(),
                        protocol: header.next_header(),
                    };
                    // One that is both first and last is a whole packet: RFC 6946.
                    if fragment.more || fragment.offset != 0 {
                        let start = start + FRAGMENT_HEADER_LEN;
                        return fragment_of(*ip, fragment, bytes, start, end);
                    }
                    FRAGMENT_HEADER_LEN
                }
                // The only one that IPv4 has too.
                extension::AUTHENTICATION => extension_len(ip.protocol, array(bytes, start)?),
                extension::ROUTING if is_ipv6 => {
                    let len = extension_len(ip.protocol, array(bytes, start)?);
                    let header = bytes.get(start..start + len);
                    if let Some(address) = header.and_then(final_destination) {
                        ip.destination = address.into();
                    }
                    len
                }
                extension::HOP_BY_HOP | extension::DESTINATION if is_ipv6 => {
                    extension_len(ip.protocol, array(bytes, start)?)
                }
                protocol if self.follows => return Some(self.in_ip(ip, protocol, start, end)),
                _ => return Some(Dissected::OtherProtocol),
            };
            ip.protocol = bytes[start];
            start += len;
            if start > end {
                return None;
            }
        }
    }
}

#[inline]
fn tcp(mut ip: Ip, bytes: &[u8], start: usize, end: usize) -> Dissected {
    ip.set_payload(bytes, start, end);
    match tcp_header(&ip, &bytes[ip.payload..][..ip.captured_len]) {
        Some(tcp) => Dissected::Tcp(ip, tcp),
        None => Dissected::MalformedTcp,
    }
}

/// `None` if malformed.
fn fragment_of(
    mut ip: Ip,
    fragment: Fragment,
    bytes: &[u8],
    start: usize,
    end: usize,
) -> Option<Dissected> {
    let len = end.checked_sub(start)?;
    // No packet is longer than 65,535 bytes, and all fragments but the last are whole words.
    if fragment.offset + len > 65_535 || (fragment.more && len % 8 != 0) {
        return None;
    }
    ip.protocol = fragment.protocol;
    ip.set_payload(bytes, start, end);
    Some(Dissected::Fragment(ip, fragment))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::build::{FrameBuilder, TcpFields};

    proptest! {
        /// One look sees the same as one at each layer, however a frame is damaged, cut or padded.
        #[test]
        fn one_look_sees_no_other_frame(
            options in 0..3_usize, payload in 0..40_usize, kept in 0..110_usize, wire_len in 0..120_usize,
            damage in proptest::collection::vec((12..60_usize, any::<u8>()), 0..3), mends in any::<bool>(),
        ) {
            let builder = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let fields = TcpFields {
                options: &[1; 8][..4 * options],
                ..TcpFields::default()
            };
            let mut frame = builder.tcp(&fields, &vec![7; payload]);
            for (at, byte) in damage {
                frame[at.min(53)] = byte;
            }
            if mends {
                frame[24..26].fill(0);
                let sum = crate::checksum::checksum(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            frame.resize(kept, 0);
            for link_type in [1, 113, 101] {
                let seen = dissect(link_type, &frame, wire_len);
                prop_assert_eq!(seen, dissect_any(link_type, &frame, wire_len));
            }
        }
    }
}
