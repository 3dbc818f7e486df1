//! Tunnels: what is wrapped in IP, UDP and MPLS.
//!
//! A number alone makes no tunnel: where it may be another's (a UDP port, the bits below a label
//! stack), the fixed fields of the header, and the beginning of what follows it, have to fit too.
//! What does not fit stays what it is without the tunnel.

use std::net::IpAddr;

use crate::bytes::{array, u16_at};
use crate::dissect::{Dissected, HeaderChecksum, Ip, Walk, ipv4_checksum};
use crate::ethernet::{self, ether_type};
use crate::layers::{Tunnel, TunnelKind};
use crate::link::{self, Network};
use crate::transport::UdpHeader;

/// RFC 7348, 5.
const VXLAN_PORT: u16 = 4789;
/// draft-ietf-nvo3-vxlan-gpe-13, 3.1.
const VXLAN_GPE_PORT: u16 = 4790;
/// RFC 8926, 3.3.
const GENEVE_PORT: u16 = 6081;

/// Whether a datagram to this port may be a tunnel's.
#[inline]
pub fn is_tunnel_port(port: u16) -> bool {
    matches!(port, VXLAN_PORT | VXLAN_GPE_PORT | GENEVE_PORT)
}

impl Walk<'_> {
    /// What IP carries that is neither TCP nor UDP nor an extension header. `start..end` is its
    /// payload on the wire.
    pub(crate) fn in_ip(&mut self, ip: &Ip, protocol: u8, start: usize, end: usize) -> Dissected {
        let ip_in_ip = |network| (TunnelKind::IpInIp, network);
        let (kind, network) = match protocol {
            4 => ip_in_ip(Network::Ipv4),
            41 => ip_in_ip(Network::Ipv6),
            47 => return self.gre(ip, start, end),
            // RFC 4023, 3.
            137 => {
                self.narrow(end);
                return self.mpls(Some((ip.source, ip.destination)), start);
            }
            _ => return Dissected::OtherProtocol,
        };
        if !self.enter(kind, None, ip, end) {
            return Dissected::TooDeep;
        }
        self.packet(network, start)
    }

    /// RFC 2784, 2 with the fields of RFC 2890, 2. Other versions, and the source routes of RFC
    /// 1701, carry nothing of ours.
    fn gre(&mut self, ip: &Ip, start: usize, end: usize) -> Dissected {
        let outside = self.bytes;
        self.narrow(end);
        let Some(header @ &[flags, version, ..]) = array::<4>(self.bytes, start) else {
            return Dissected::MalformedTunnel;
        };
        let (has_checksum, has_key, has_sequence) =
            (flags & 0x80 != 0, flags & 0x20 != 0, flags & 0x10 != 0);
        if flags & 0x4f != 0 || version != 0 {
            self.bytes = outside;
            return Dissected::OtherProtocol;
        }
        let key_at = start + 4 + 4 * usize::from(has_checksum);
        let inside = key_at + 4 * usize::from(has_key) + 4 * usize::from(has_sequence);
        if inside > self.bytes.len() {
            return Dissected::MalformedTunnel;
        }
        let key = has_key.then(|| array(self.bytes, key_at).copied());
        let key = key.flatten().map(u32::from_be_bytes);
        let carried = u16_at(header, 2);
        match (carried, has_sequence) {
            (ether_type::ERSPAN, false) => self.ethernet_in(TunnelKind::ErspanI, None, ip, inside),
            (ether_type::ERSPAN, true) => self.erspan(TunnelKind::ErspanII, ip, inside),
            (ether_type::ERSPAN_III, _) => self.erspan(TunnelKind::ErspanIII, ip, inside),
            (ether_type::BRIDGED, _) => self.ethernet_in(TunnelKind::Gre, key, ip, inside),
            _ => match network_of(carried) {
                Some(network) => self.packet_in(TunnelKind::Gre, key, ip, network, inside),
                None => Dissected::OtherProtocol,
            },
        }
    }

    /// draft-foschiano-erspan-03, 4.2 and 4.3.
    fn erspan(&mut self, kind: TunnelKind, ip: &Ip, start: usize) -> Dissected {
        let Some(&[version, vlan, flags, session, ..]) = array::<8>(self.bytes, start) else {
            return Dissected::MalformedTunnel;
        };
        let (expected, mut len) = match kind {
            TunnelKind::ErspanII => (1, 8),
            _ => (2, 12),
        };
        if version >> 4 != expected {
            return Dissected::MalformedTunnel;
        }
        let session = u32::from(u16::from_be_bytes([flags, session]) & 0x03ff);
        if kind == TunnelKind::ErspanII {
            // The tag was taken off the mirrored frame, and stands here: "En" is ISL or 802.1Q.
            let is_removed = matches!(flags >> 3 & 3, 1 | 2);
            let vlan = u16::from_be_bytes([version, vlan]) & 0x0fff;
            if is_removed && !self.layers.push_tag(vlan) {
                return Dissected::TooDeep;
            }
            return self.ethernet_in(kind, Some(session), ip, start + len);
        }
        let Some(&[.., what, optional]) = array::<12>(self.bytes, start) else {
            return Dissected::MalformedTunnel;
        };
        // The platform specific subheader.
        len += 8 * usize::from(optional & 1);
        match what >> 2 & 0x1f {
            0 => self.ethernet_in(kind, Some(session), ip, start + len),
            2 => self.packet_in(kind, Some(session), ip, Network::ByVersion, start + len),
            _ => Dissected::OtherProtocol,
        }
    }

    /// The tunnel in a datagram to a tunnel's port; `None` if it is an ordinary one.
    #[cold]
    pub(crate) fn in_udp(&mut self, ip: &Ip, udp: &UdpHeader) -> Option<Dissected> {
        let payload = &self.bytes[..udp.payload + udp.captured_len];
        let header: &[u8; 8] = array(payload, udp.payload)?;
        let end = udp.payload + udp.payload_len;
        let inside = udp.payload + 8;
        let id = Some(u32::from_be_bytes([0, header[4], header[5], header[6]]));
        if header[7] != 0 {
            return None;
        }
        match udp.destination_port {
            VXLAN_PORT => {
                // RFC 7348, 5: the flag I, the others zero. Linux and Open vSwitch add a group
                // policy with its own flags (draft-smith-vxlan-group-policy-05, 2.1).
                let has_policy = header[0] & 0x80 != 0;
                let fits = header[0] & 0x7f == 0x08
                    && if has_policy {
                        header[1] & !0x48 == 0
                    } else {
                        header[1..4] == [0; 3]
                    };
                if !fits || !is_ethernet(payload, inside) {
                    return None;
                }
                self.narrow(end);
                Some(self.ethernet_in(TunnelKind::Vxlan, id, ip, inside))
            }
            VXLAN_GPE_PORT => {
                // Version 0, the flags I and P; perhaps B.
                if header[0] & !0x02 != 0x0c || header[1..3] != [0; 2] {
                    return None;
                }
                let kind = TunnelKind::VxlanGpe;
                let network = match header[3] {
                    1 => Network::Ipv4,
                    2 => Network::Ipv6,
                    3 if is_ethernet(payload, inside) => {
                        self.narrow(end);
                        return Some(self.ethernet_in(kind, id, ip, inside));
                    }
                    5 => Network::Mpls,
                    _ => return None,
                };
                if !may_be(network, payload, inside) {
                    return None;
                }
                self.narrow(end);
                Some(self.packet_in(kind, id, ip, network, inside))
            }
            _ => {
                // RFC 8926, 3.4: version 0, reserved bits zero.
                if header[0] >> 6 != 0 || header[1] & 0x3f != 0 {
                    return None;
                }
                let options = usize::from(header[0] & 0x3f) * 4;
                let carried = u16_at(header, 2);
                let network = network_of(carried);
                if network.is_none() && carried != ether_type::BRIDGED {
                    return None;
                }
                let (kind, inside, options) = (TunnelKind::Geneve, inside + options, inside);
                let fits = match network {
                    Some(network) => may_be(network, payload, inside),
                    None => is_ethernet(payload, inside),
                };
                if !fits {
                    return None;
                }
                if !are_options(&payload[options..inside]) {
                    return Some(Dissected::MalformedTunnel);
                }
                self.narrow(end);
                Some(match network {
                    Some(network) => self.packet_in(kind, id, ip, network, inside),
                    None => self.ethernet_in(kind, id, ip, inside),
                })
            }
        }
    }

    /// A label stack (RFC 3032, 2.1) and what is below it, which no field states.
    pub(crate) fn mpls(&mut self, outer: Option<(IpAddr, IpAddr)>, mut offset: usize) -> Dissected {
        loop {
            let Some(&[high, middle, low, _]) = array(self.bytes, offset) else {
                return Dissected::MalformedTunnel;
            };
            let label = u32::from_be_bytes([0, high, middle, low]) >> 4;
            let tunnel = Tunnel {
                kind: TunnelKind::Mpls,
                id: Some(label),
            };
            if !self.layers.push_tunnel(tunnel, outer) {
                return Dissected::TooDeep;
            }
            offset += 4;
            if low & 1 != 0 {
                break;
            }
        }
        // By the first four bits (RFC 4928, 3): a version of IP, a control word (0), an associated
        // channel (1), or the address of a bridged frame without control word, which may look like
        // any of them.
        let Some(first) = self.bytes.get(offset) else {
            return Dissected::MalformedTunnel;
        };
        match first >> 4 {
            _ if is_bridged(self.bytes, offset) => self.ethernet(offset),
            4 => self.packet(Network::Ipv4, offset),
            6 => self.packet(Network::Ipv6, offset),
            // RFC 4448, 4.6.
            0 => self.ethernet(offset + 4),
            _ => Dissected::NotIp,
        }
    }

    /// What follows ends here on the wire.
    fn narrow(&mut self, end: usize) {
        self.bytes = &self.bytes[..end.min(self.bytes.len())];
        self.end = end;
    }

    /// Takes note of a tunnel whose packet, `ip`, ends at `end`; false if there are too many.
    fn enter(&mut self, kind: TunnelKind, id: Option<u32>, ip: &Ip, end: usize) -> bool {
        self.narrow(end);
        let outer = Some((ip.source, ip.destination));
        self.layers.push_tunnel(Tunnel { kind, id }, outer)
    }

    fn packet_in(
        &mut self,
        kind: TunnelKind,
        id: Option<u32>,
        ip: &Ip,
        network: Network,
        offset: usize,
    ) -> Dissected {
        match self.enter(kind, id, ip, self.end) {
            true => self.packet(network, offset),
            false => Dissected::TooDeep,
        }
    }

    fn ethernet_in(
        &mut self,
        kind: TunnelKind,
        id: Option<u32>,
        ip: &Ip,
        offset: usize,
    ) -> Dissected {
        match self.enter(kind, id, ip, self.end) {
            true => self.ethernet(offset),
            false => Dissected::TooDeep,
        }
    }

    fn ethernet(&mut self, offset: usize) -> Dissected {
        // A cut tunnel may end before it.
        if offset <= self.bytes.len() {
            self.layers.set_link(offset);
        }
        match link::in_ethernet(self.bytes, offset, &mut self.layers) {
            Ok((network, offset)) => self.packet(network, offset),
            Err(why) => why.into(),
        }
    }
}

fn network_of(ether_type: u16) -> Option<Network> {
    match ether_type {
        ether_type::IPV4 => Some(Network::Ipv4),
        ether_type::IPV6 => Some(Network::Ipv6),
        ether_type::MPLS | ether_type::MPLS_UPSTREAM => Some(Network::Mpls),
        _ => None,
    }
}

/// Whether the bytes at `offset` may be an Ethernet frame: its type is one (IEEE 802.3, 3.2.6), or
/// the length of an LLC frame.
fn is_ethernet(bytes: &[u8], offset: usize) -> bool {
    let ether_type = ether_type_of(bytes, offset);
    ether_type.is_some_and(|ether_type| matches!(ether_type, 3..=1500 | 0x0600..))
}

/// Whether an Ethernet frame of a kind that is read begins at `offset`, rather than an IP header or
/// a control word.
fn is_bridged(bytes: &[u8], offset: usize) -> bool {
    let is_ipv4 = bytes.get(offset).is_some_and(|first| {
        let header_len = usize::from(first & 0x0f) * 4;
        let checksum = || ipv4_checksum(bytes, offset, header_len);
        first >> 4 == 4 && header_len >= 20 && checksum() == HeaderChecksum::Right
    });
    let inside = bytes.get(offset + ethernet::HEADER_LEN);
    let version = inside.map(|first| first >> 4);
    match ether_type_of(bytes, offset) {
        _ if is_ipv4 => false,
        Some(ether_type::IPV4) => version == Some(4),
        Some(ether_type::IPV6) => version == Some(6),
        Some(ether_type::VLAN | ether_type::SERVICE_VLAN | ether_type::OLD_SERVICE_VLAN) => true,
        Some(ether_type::MPLS | ether_type::MPLS_UPSTREAM) => true,
        _ => false,
    }
}

/// The type of the Ethernet frame at `offset`, if its header is whole.
fn ether_type_of(bytes: &[u8], offset: usize) -> Option<u16> {
    let frame = ethernet::Frame::new_checked(bytes.get(offset..)?)?;
    Some(frame.ether_type())
}

/// Whether the packet at `offset` begins with its version.
fn may_be(network: Network, bytes: &[u8], offset: usize) -> bool {
    let version = bytes.get(offset).map(|first| first >> 4);
    match network {
        Network::Ipv4 => version == Some(4),
        Network::Ipv6 => version == Some(6),
        Network::ByVersion | Network::Mpls => version.is_some(),
    }
}

/// Whether all of it is whole options: RFC 8926, 3.5.
fn are_options(mut options: &[u8]) -> bool {
    while let Some(&[_, _, _, words]) = options.first_chunk() {
        let Some(rest) = options.get(4 + usize::from(words & 0x1f) * 4..) else {
            return false;
        };
        options = rest;
    }
    options.is_empty()
}
