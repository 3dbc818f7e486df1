//! Tunnels: what is wrapped in IP, UDP and MPLS.
//!
//! A number alone makes no tunnel: where it may be another's (a UDP port, the bits below a label
//! stack), the fixed fields of the header, and the beginning of what follows it, have to fit too.
//! What does not fit stays what it is without the tunnel.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use crate::Dissected;
use crate::bytes::{array, u16_at, u32_at};
use crate::ethernet::{self, ether_type};
use crate::evidence;
use crate::ip::{HeaderChecksum, Ip, ipv4_checksum};
use crate::layers::{Layers, Tunnel, TunnelKind};
use crate::link::{self, Network, Unread, rare};
use crate::transport::UdpHeader;
use crate::walk::Walk;

/// RFC 7348, 5.
const VXLAN_PORT: u16 = 4789;
/// draft-ietf-nvo3-vxlan-gpe-13, 3.1.
const VXLAN_GPE_PORT: u16 = 4790;
/// RFC 8926, 3.3.
const GENEVE_PORT: u16 = 6081;
/// VXLAN's before it had one of its own: Linux's still.
const OLD_VXLAN_PORT: u16 = 8472;
/// 3GPP TS 29.281, 4.4.2.
const GTP_PORT: u16 = 2152;
/// RFC 2661, 8.1.
const L2TP_PORT: u16 = 1701;
/// RFC 9300, 4.1.
const LISP_PORT: u16 = 4341;
/// RFC 7510, 3.
const MPLS_PORT: u16 = 6635;
/// TaZmen's sniffer protocol: MikroTik's routers, access points.
const TZSP_PORT: u16 = 37008;
/// Of tunnels that are read to one of their ports, or not at all: Teredo (RFC 4380, 2.7), IPsec
/// behind translated addresses (RFC 3948, 2), CAPWAP (RFC 5415, 3.1), Linux's "foo over UDP", GUE.
const UNREAD_PORTS: [u16; 8] = [
    3544, LISP_PORT, IPSEC_PORT, 5247, 5555, 6080, MPLS_PORT, TZSP_PORT,
];
const IPSEC_PORT: u16 = 4500;

/// A tunnel that the user declares to be at other ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclaredTunnel {
    /// RFC 7348.
    Vxlan,
    /// RFC 8926.
    Geneve,
}

/// What the user declared. One for the process: frames are dissected in many places, each of which
/// has to find the same packet in a frame, and it is known before the first of them.
static DECLARED: OnceLock<Vec<(RangeInclusive<u16>, DeclaredTunnel)>> = OnceLock::new();

/// Declares tunnels by their destination ports; of several that fit the last one counts. Only the
/// first call of a process has an effect.
pub fn declare_tunnels(ports: Vec<(RangeInclusive<u16>, DeclaredTunnel)>) {
    let _ = DECLARED.set(ports);
}

fn declared(port: u16) -> Option<DeclaredTunnel> {
    let mut rules = DECLARED.get()?.iter().rev();
    rules
        .find(|(ports, _)| ports.contains(&port))
        .map(|&(_, kind)| kind)
}

/// Whether a datagram with these ports, of source and destination, may be a tunnel's.
#[inline]
pub fn may_be_tunnel(ports: [u16; 2]) -> bool {
    let [source, destination] = ports;
    matches!(
        destination,
        VXLAN_PORT | VXLAN_GPE_PORT | GENEVE_PORT | OLD_VXLAN_PORT | GTP_PORT
    ) || ports.contains(&L2TP_PORT)
        || UNREAD_PORTS.contains(&source)
        || UNREAD_PORTS.contains(&destination)
        || declared(destination).is_some()
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
            97 => return self.ether_ip(ip, start, end),
            115 => return self.l2tp_in_ip(ip, start, end),
            50 => return Dissected::Esp,
            // Compressed (RFC 3173), with less of a header (RFC 2004).
            55 | 108 => return Dissected::IpUnread,
            // Errors quote the packet that they are about.
            1 | 58 => return Dissected::OtherProtocol,
            _ => return self.unread(start, Dissected::OtherProtocol),
        };
        if !self.enter(kind, None, ip, end) {
            return Dissected::TooDeep;
        }
        self.packet(network, start)
    }

    /// RFC 2784, 2 with the fields of RFC 2890, 2. The source routes of RFC 1701 are not read.
    fn gre(&mut self, ip: &Ip, start: usize, end: usize) -> Dissected {
        let outside = self.bytes;
        self.narrow(end);
        let Some(header @ &[flags, version, ..]) = array::<4>(self.bytes, start) else {
            return Dissected::MalformedTunnel;
        };
        let (has_checksum, has_key, has_sequence) =
            (flags & 0x80 != 0, flags & 0x20 != 0, flags & 0x10 != 0);
        if flags & 0x4f == 0 && version & 0x7f == 1 && u16_at(header, 2) == ether_type::PPP {
            return self.gre_ppp(ip, start);
        }
        if flags & 0x4f != 0 || version != 0 {
            self.bytes = outside;
            return self.unread(start, Dissected::OtherProtocol);
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
                None => self.unread(inside, Dissected::OtherProtocol),
            },
        }
    }

    /// PPP in GRE as PPTP has it: RFC 2637, 4.1. A packet without sequence number is an
    /// acknowledgement and no more.
    fn gre_ppp(&mut self, ip: &Ip, start: usize) -> Dissected {
        let [flags, version] = [self.bytes[start], self.bytes[start + 1]];
        if flags & 0x10 == 0 {
            return Dissected::OtherProtocol;
        }
        let inside = start + 12 + 4 * usize::from(version >> 7);
        match link::ppp(self.bytes, inside) {
            Ok((network, at)) => self.packet_in(TunnelKind::Gre, None, ip, network, at),
            Err(Unread::NotIp) => Dissected::OtherProtocol,
            Err(why) => why.into(),
        }
    }

    /// RFC 3378, 3: version 3, the rest zero.
    fn ether_ip(&mut self, ip: &Ip, start: usize, end: usize) -> Dissected {
        self.narrow(end);
        match array(self.bytes, start) {
            Some([0x30, 0]) => self.ethernet_in(TunnelKind::EtherIp, None, ip, start + 2),
            Some(_) => self.unread(start, Dissected::OtherProtocol),
            None => Dissected::MalformedTunnel,
        }
    }

    /// RFC 3931, 4.1.1: session 0 is for control.
    fn l2tp_in_ip(&mut self, ip: &Ip, start: usize, end: usize) -> Dissected {
        self.narrow(end);
        match array(self.bytes, start) {
            Some([0, 0, 0, 0]) => Dissected::OtherProtocol,
            Some(session) => {
                let found = self.l2tp_session(u32::from_be_bytes(*session), ip, start + 4);
                found.unwrap_or_else(|| self.unread(start, Dissected::OtherProtocol))
            }
            None => Dissected::MalformedTunnel,
        }
    }

    /// The Ethernet frame behind the session's number: how long cookie and sublayer are (RFC 3931,
    /// 4.1) only the two ends know, so that there has to be IP, or ARP, where one of the four sums
    /// leads.
    fn l2tp_session(&mut self, session: u32, ip: &Ip, start: usize) -> Option<Dissected> {
        let mut places = (start..).step_by(4).take(4);
        let inside = places.find(|&inside| self.is_ethernet_of_ip(inside))?;
        Some(self.ethernet_in(TunnelKind::L2tp, Some(session), ip, inside))
    }

    /// Whether an Ethernet frame begins at `offset` that leads to an IP packet, or one of ARP for
    /// Ethernet.
    fn is_ethernet_of_ip(&self, offset: usize) -> bool {
        let typed = self.bytes.get(offset + ethernet::field::ETHER_TYPE..);
        if typed.is_some_and(|typed| typed.starts_with(&[0x08, 0x06, 0, 1])) {
            return true;
        }
        let found = link::in_ethernet(self.bytes, offset, &mut Layers::default());
        found.is_ok_and(|(_, at)| evidence::is_ip(self.bytes, at, self.end))
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
            _ => self.unread(start + len, Dissected::OtherProtocol),
        }
    }

    /// The tunnel in a datagram with a tunnel's port; `None` if it is an ordinary one.
    #[cold]
    pub(crate) fn in_udp(&mut self, ip: &Ip, udp: &UdpHeader) -> Option<Dissected> {
        let (start, end) = (udp.payload, udp.payload + udp.payload_len);
        let outside = (self.bytes, self.end);
        // Whatever padding the outer packet has is not the tunnel's.
        self.narrow(end);
        let declared = declared(udp.destination_port);
        let found = match udp.destination_port {
            _ if declared == Some(DeclaredTunnel::Vxlan) => self.vxlan(ip, start),
            _ if declared == Some(DeclaredTunnel::Geneve) => self.geneve(ip, start),
            VXLAN_PORT | OLD_VXLAN_PORT => self.vxlan(ip, start),
            VXLAN_GPE_PORT => self.vxlan_gpe(ip, start),
            GENEVE_PORT => self.geneve(ip, start),
            GTP_PORT => self.gtp(ip, start),
            LISP_PORT => self.lisp(ip, start).or_else(|| self.if_ip(start)),
            MPLS_PORT => self.mpls_in_udp(ip, start),
            TZSP_PORT => self.tzsp(ip, start).or_else(|| self.if_ip(start)),
            L2TP_PORT => self.l2tp_in_udp(ip, start),
            _ if udp.source_port == L2TP_PORT => self.l2tp_in_udp(ip, start),
            _ => self.unread_in_udp(udp),
        };
        if found.is_none() {
            (self.bytes, self.end) = outside;
        }
        found
    }

    /// RFC 7348, 5: the flag I, the others zero. Linux and Open vSwitch add a group policy with its
    /// own flags (draft-smith-vxlan-group-policy-05, 2.1).
    fn vxlan(&mut self, ip: &Ip, start: usize) -> Option<Dissected> {
        let header: &[u8; 8] = array(self.bytes, start)?;
        let has_policy = header[0] & 0x80 != 0;
        let fits = header[0] & 0x7f == 0x08
            && header[7] == 0
            && if has_policy {
                header[1] & !0x48 == 0
            } else {
                header[1..4] == [0; 3]
            };
        if !fits || !is_ethernet(self.bytes, start + 8) {
            return None;
        }
        Some(self.ethernet_in(TunnelKind::Vxlan, network_id(header), ip, start + 8))
    }

    /// Version 0, the flags I and P; perhaps B.
    fn vxlan_gpe(&mut self, ip: &Ip, start: usize) -> Option<Dissected> {
        let header: &[u8; 8] = array(self.bytes, start)?;
        let (kind, id, inside) = (TunnelKind::VxlanGpe, network_id(header), start + 8);
        if header[0] & !0x02 != 0x0c || header[1..3] != [0; 2] || header[7] != 0 {
            return None;
        }
        let network = match header[3] {
            1 => Network::Ipv4,
            2 => Network::Ipv6,
            3 if is_ethernet(self.bytes, inside) => {
                return Some(self.ethernet_in(kind, id, ip, inside));
            }
            5 => Network::Mpls,
            _ => return None,
        };
        may_be(network, self.bytes, inside).then(|| self.packet_in(kind, id, ip, network, inside))
    }

    /// RFC 8926, 3.4: version 0, reserved bits zero.
    fn geneve(&mut self, ip: &Ip, start: usize) -> Option<Dissected> {
        let header: &[u8; 8] = array(self.bytes, start)?;
        if header[0] >> 6 != 0 || header[1] & 0x3f != 0 || header[7] != 0 {
            return None;
        }
        let (kind, id, options) = (TunnelKind::Geneve, network_id(header), start + 8);
        let inside = options + usize::from(header[0] & 0x3f) * 4;
        let carried = u16_at(header, 2);
        let network = network_of(carried);
        let fits = match network {
            Some(network) => may_be(network, self.bytes, inside),
            None => carried == ether_type::BRIDGED && is_ethernet(self.bytes, inside),
        };
        if !fits {
            return None;
        }
        if !are_options(&self.bytes[options..inside]) {
            return Some(Dissected::MalformedTunnel);
        }
        Some(match network {
            Some(network) => self.packet_in(kind, id, ip, network, inside),
            None => self.ethernet_in(kind, id, ip, inside),
        })
    }

    /// RFC 9300, 5.1: eight bytes, then an IP packet; the flag I with the instance's number.
    fn lisp(&mut self, ip: &Ip, start: usize) -> Option<Dissected> {
        let header: &[u8; 8] = array(self.bytes, start)?;
        let inside = start + 8;
        if !evidence::is_ip(self.bytes, inside, self.end) {
            return None;
        }
        let id = (header[0] & 0x08 != 0).then(|| u32_at(header, 4) >> 8);
        Some(self.packet_in(TunnelKind::Lisp, id, ip, Network::ByVersion, inside))
    }

    /// RFC 7510, 3: a label stack, below which there is IP.
    fn mpls_in_udp(&mut self, ip: &Ip, start: usize) -> Option<Dissected> {
        let mut labels = self.bytes.get(start..)?.chunks_exact(4);
        let inside = start + 4 * (labels.position(|label| label[2] & 1 != 0)? + 1);
        if !evidence::is_ip(self.bytes, inside, self.end) {
            self.if_ip(start)?;
        }
        Some(self.mpls(Some((ip.source, ip.destination)), start))
    }

    /// Version 1, a packet that was received or sent, what it begins with, tags up to the last one.
    fn tzsp(&mut self, ip: &Ip, start: usize) -> Option<Dissected> {
        const PADDING: u8 = 0;
        const END: u8 = 1;
        let &[1, 0 | 1, high, low] = array(self.bytes, start)? else {
            return None;
        };
        let mut inside = start + 4;
        loop {
            inside += match *self.bytes.get(inside)? {
                END => break,
                PADDING => 1,
                _ => 2 + usize::from(*self.bytes.get(inside + 1)?),
            };
        }
        inside += 1;
        let link_type = match u16::from_be_bytes([high, low]) {
            1 if is_ethernet(self.bytes, inside) => {
                return Some(self.ethernet_in(TunnelKind::Tzsp, None, ip, inside));
            }
            4 => 9,
            7 => 101,
            18 => 105,
            119 => 119,
            127 => 163,
            _ => return None,
        };
        if !self.enter(TunnelKind::Tzsp, None, ip, self.end) {
            return Some(Dissected::TooDeep);
        }
        Some(
            match rare::inside(link_type, self.bytes, inside, &mut self.layers) {
                Ok((network, at)) => self.packet(network, at),
                Err(why) => self.unread(inside, why.into()),
            },
        )
    }

    /// 3GPP TS 29.281, 5: version 1, a packet of a user, all of the datagram.
    fn gtp(&mut self, ip: &Ip, start: usize) -> Option<Dissected> {
        let header: &[u8; 8] = array(self.bytes, start)?;
        let [flags, kind, ..] = *header;
        let len = usize::from(u16_at(header, 2));
        if flags & 0xf8 != 0x30 || kind != 255 || start + 8 + len != self.end {
            return None;
        }
        let mut inside = start + 8;
        if flags & 7 != 0 {
            // Number, number, and the type of the first extension, which ends with the next one's.
            inside += 4;
            while flags & 4 != 0 && *self.bytes.get(inside - 1)? != 0 {
                let words = usize::from(*self.bytes.get(inside)?);
                inside += (words * 4).max(4);
            }
        }
        let (kind, id) = (TunnelKind::Gtp, Some(u32_at(header, 4)));
        let version = self.bytes.get(inside)? >> 4;
        if matches!(version, 4 | 6) && !self.is_ethernet_of_ip(inside) {
            return Some(self.packet_in(kind, id, ip, Network::ByVersion, inside));
        }
        // A user of Ethernet (TS 29.281, 4.2.4), of PPP, or of nothing that is known.
        match self.is_ethernet_of_ip(inside) {
            true => Some(self.ethernet_in(kind, id, ip, inside)),
            false => self.if_ip(inside),
        }
    }

    /// Version 2: RFC 2661, 3.1. Version 3: RFC 3931, 4.1.2.
    fn l2tp_in_udp(&mut self, ip: &Ip, start: usize) -> Option<Dissected> {
        let header: &[u8; 8] = array(self.bytes, start)?;
        let flags = u16_at(header, 0);
        if flags == 3 {
            let found = self.l2tp_session(u32_at(header, 4), ip, start + 8);
            return found.or_else(|| self.if_ip(start + 8));
        }
        let has = |bit: u32| usize::from(flags >> (15 - bit) & 1);
        let session_at = start + 4 + 2 * has(1);
        let session = array::<2>(self.bytes, session_at).copied()?;
        let tunnel = array::<2>(self.bytes, session_at - 2)?;
        // A packet of PPP, reserved bits zero. Neither number is 0, which excludes RPC: there the
        // type of the message begins with two zeros.
        if flags & 0xb4ff != 2 || session == [0; 2] || *tunnel == [0; 2] {
            return None;
        }
        let mut inside = session_at + 2 + 4 * has(4);
        if has(6) != 0 {
            inside += 2 + usize::from(u16::from_be_bytes(*array(self.bytes, inside)?));
        }
        let id = Some(u16::from_be_bytes(session).into());
        match link::ppp(self.bytes, inside) {
            Ok((network, at)) => Some(self.packet_in(TunnelKind::L2tp, id, ip, network, at)),
            Err(Unread::NotIp) => None,
            Err(why) => Some(why.into()),
        }
    }

    /// Of tunnels that are not read.
    fn unread_in_udp(&self, udp: &UdpHeader) -> Option<Dissected> {
        let is_ipsec = [udp.source_port, udp.destination_port] == [IPSEC_PORT; 2];
        // Keys are exchanged behind four zeros: RFC 3948, 2.2.
        match array(self.bytes, udp.payload) {
            Some(spi) if is_ipsec && *spi != [0; 4] => Some(Dissected::Esp),
            _ => self.if_ip(udp.payload),
        }
    }

    /// That there is IP which is not read, if there is.
    fn if_ip(&self, start: usize) -> Option<Dissected> {
        let found = self.unread(start, Dissected::OtherProtocol);
        (found == Dissected::IpUnread).then_some(found)
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
            _ => self.unread(offset, Dissected::NotIp),
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
            Err(why) => self.unread(offset, why.into()),
        }
    }
}

/// What VXLAN and GENEVE have in the same place.
fn network_id(header: &[u8; 8]) -> Option<u32> {
    Some(u32_at(header, 4) >> 8)
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
