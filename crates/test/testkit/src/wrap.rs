//! Captures as a switch would have mirrored them: in tunnels, in fragments, and twice.
//!
//! Outer headers are written by hand, byte by byte after their documents, so that nothing is shared
//! with the parser under test; packets that exist are changed through the views of `lineside-wire`.

use lineside_wire::ethernet::{HEADER_LEN, ether_type};
use lineside_wire::{ethernet, ipv4, ipv6};

use crate::capture::Frame;

/// A way to wrap the frames of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// Five VLAN tags, of all kinds.
    Vlans,
    /// Two of the kinds that switches wrote before 802.1ad.
    OldVlans,
    /// LLC with SNAP instead of an EtherType: IEEE 802.2, RFC 1042.
    Llc,
    /// Headers without a number of their own, one behind the other: a VN-Tag, an E-TAG, a ring's
    /// tag, Cisco metadata, a clear MACsec tag with its sender's identifier.
    LinkTags,
    /// IP behind a network service header: RFC 8300.
    ServiceHeader,
    /// PPP over Ethernet behind a VLAN tag: RFC 2516.
    Pppoe,
    /// A customer's frame in a provider's: IEEE 802.1ah.
    Backbone,
    /// IP in IPv4: RFC 2003, RFC 4213.
    IpInIpv4,
    /// IP in IPv6: RFC 2473.
    IpInIpv6,
    /// IP in GRE without options, in IPv4: RFC 2784.
    Gre,
    /// IP in GRE with checksum, key and sequence number, in IPv6: RFC 2890.
    GreOptions,
    /// Ethernet in GRE with a key.
    GreBridged,
    /// ERSPAN type I.
    ErspanI,
    /// ERSPAN type II.
    ErspanII,
    /// ERSPAN type III with the platform's subheader.
    ErspanIII,
    /// RFC 7348.
    Vxlan,
    /// IP in VXLAN-GPE.
    VxlanGpe,
    /// Ethernet in GENEVE with two options, in IPv6: RFC 8926.
    Geneve,
    /// IP below two labels: RFC 3032.
    Mpls,
    /// Ethernet below one label, with a control word: RFC 4448.
    MplsControlWord,
    /// Ethernet below one label, without.
    MplsEthernet,
    /// IP in GTP-U with a sequence number and an extension header: 3GPP TS 29.281.
    Gtp,
    /// PPP in L2TP version 2 with length and offset: RFC 2661.
    L2tp2,
    /// Ethernet in L2TP version 3, over IP, with a cookie and a sublayer: RFC 3931, RFC 4719.
    L2tp3,
    /// Ethernet in L2TP version 3, over UDP, without them.
    L2tp3Udp,
    /// PPP in GRE, as PPTP has it: RFC 2637.
    Pptp,
    /// Ethernet in IP: RFC 3378.
    EtherIp,
    /// LISP with an instance: RFC 9300.
    Lisp,
    /// MPLS in UDP: RFC 7510.
    MplsUdp,
    /// TaZmen's sniffer protocol with tags.
    Tzsp,
    /// Arista's stamp in front of the type.
    AristaStamp,
    /// VXLAN in ERSPAN II behind a VLAN tag: an overlay, mirrored.
    Nested,
}

impl Wrap {
    /// Every way.
    pub const ALL: [Self; 32] = [
        Self::Vlans,
        Self::OldVlans,
        Self::Llc,
        Self::LinkTags,
        Self::ServiceHeader,
        Self::Pppoe,
        Self::Backbone,
        Self::IpInIpv4,
        Self::IpInIpv6,
        Self::Gre,
        Self::GreOptions,
        Self::GreBridged,
        Self::ErspanI,
        Self::ErspanII,
        Self::ErspanIII,
        Self::Vxlan,
        Self::VxlanGpe,
        Self::Geneve,
        Self::Mpls,
        Self::MplsControlWord,
        Self::MplsEthernet,
        Self::Gtp,
        Self::L2tp2,
        Self::L2tp3,
        Self::L2tp3Udp,
        Self::Pptp,
        Self::EtherIp,
        Self::Lisp,
        Self::MplsUdp,
        Self::Tzsp,
        Self::AristaStamp,
        Self::Nested,
    ];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vlans => "vlans",
            Self::OldVlans => "old-vlans",
            Self::Llc => "llc",
            Self::LinkTags => "link-tags",
            Self::ServiceHeader => "service-header",
            Self::Pppoe => "pppoe",
            Self::Backbone => "pbb",
            Self::Gtp => "gtp",
            Self::L2tp2 => "l2tp2",
            Self::L2tp3 => "l2tp3",
            Self::L2tp3Udp => "l2tp3-udp",
            Self::Pptp => "pptp",
            Self::EtherIp => "etherip",
            Self::Lisp => "lisp",
            Self::MplsUdp => "mpls-udp",
            Self::Tzsp => "tzsp",
            Self::AristaStamp => "arista-stamp",
            Self::IpInIpv4 => "ip-in-ipv4",
            Self::IpInIpv6 => "ip-in-ipv6",
            Self::Gre => "gre",
            Self::GreOptions => "gre-options",
            Self::GreBridged => "gre-bridged",
            Self::ErspanI => "erspan1",
            Self::ErspanII => "erspan2",
            Self::ErspanIII => "erspan3",
            Self::Vxlan => "vxlan",
            Self::VxlanGpe => "vxlan-gpe",
            Self::Geneve => "geneve",
            Self::Mpls => "mpls",
            Self::MplsControlWord => "mpls-control-word",
            Self::MplsEthernet => "mpls-ethernet",
            Self::Nested => "nested",
        }
    }

    /// What `connections` says of it: `encapsulation`, `tunnel_ids`, and the VLAN ids added; "" is
    /// null there.
    pub fn expected(self) -> [&'static str; 3] {
        match self {
            Self::Vlans => ["", "", "1,2,3,4,5"],
            Self::OldVlans => ["", "", "6,7"],
            Self::Llc | Self::LinkTags | Self::ServiceHeader => ["", "", ""],
            Self::Pppoe => ["pppoe", "513", "8"],
            Self::Backbone => ["pbb", "70000", ""],
            Self::Gtp => ["gtp", "16909060", ""],
            Self::L2tp2 => ["l2tp", "43", ""],
            Self::L2tp3 | Self::L2tp3Udp => ["l2tp", "305419896", ""],
            Self::Pptp => ["gre", "", ""],
            Self::EtherIp => ["etherip", "", ""],
            Self::Lisp => ["lisp", "77", ""],
            Self::MplsUdp => ["mpls", "100", ""],
            Self::Tzsp => ["tzsp", "", ""],
            Self::AristaStamp => ["", "", ""],
            Self::IpInIpv4 | Self::IpInIpv6 => ["ipip", "", ""],
            Self::Gre => ["gre", "", ""],
            Self::GreOptions => ["gre", "3735928559", ""],
            Self::GreBridged => ["gre", "7", ""],
            Self::ErspanI => ["erspan1", "", ""],
            Self::ErspanII => ["erspan2", "1001", "42"],
            Self::ErspanIII => ["erspan3", "513", ""],
            Self::Vxlan => ["vxlan", "5001", ""],
            Self::VxlanGpe => ["vxlan-gpe", "5002", ""],
            Self::Geneve => ["geneve", "16777215", ""],
            Self::Mpls => ["mpls,mpls", "16,1048575", ""],
            Self::MplsControlWord | Self::MplsEthernet => ["mpls", "100", ""],
            Self::Nested => ["erspan2,vxlan", "1001,5001", "9,42"],
        }
    }
}

/// A frame in a tunnel. A frame that the tunnel cannot carry (it carries IP, and this is none)
/// stays as it is, but for its link header, which becomes Ethernet's. `number` distinguishes
/// the outer packets of a sender.
pub fn wrap(frame: &Frame, how: Wrap, number: u16) -> Frame {
    let Some(ethernet) = ethernet(frame) else {
        return frame.clone();
    };
    let (ether_type, packet) = (ether_type(&ethernet), part(&ethernet, HEADER_LEN));
    let protocol = match ether_type {
        ether_type::IPV4 => 4,
        ether_type::IPV6 => 41,
        _ => 0,
    };
    let ip_only = matches!(
        how,
        Wrap::IpInIpv4
            | Wrap::IpInIpv6
            | Wrap::Gre
            | Wrap::GreOptions
            | Wrap::VxlanGpe
            | Wrap::Mpls
            | Wrap::ServiceHeader
            | Wrap::Pppoe
            | Wrap::Gtp
            | Wrap::L2tp2
            | Wrap::Pptp
            | Wrap::Lisp
            | Wrap::MplsUdp
    );
    if ip_only && protocol == 0 {
        return ethernet;
    }
    let [high, low] = ether_type.to_be_bytes();
    match how {
        Wrap::Vlans => tagged(
            &ethernet,
            &[
                (0x88a8, 1),
                (0x9100, 2),
                (0x8100, 3),
                (0x8100, 4),
                (0x8100, 5),
            ],
        ),
        Wrap::OldVlans => tagged(&ethernet, &[(0x9200, 6), (0x9300, 7)]),
        Wrap::Llc
        | Wrap::LinkTags
        | Wrap::ServiceHeader
        | Wrap::Pppoe
        | Wrap::Backbone
        | Wrap::AristaStamp => on_the_link(&ethernet, how),
        Wrap::Gtp
        | Wrap::L2tp2
        | Wrap::L2tp3
        | Wrap::L2tp3Udp
        | Wrap::Pptp
        | Wrap::EtherIp
        | Wrap::Lisp
        | Wrap::MplsUdp
        | Wrap::Tzsp => over_the_way(&ethernet, how, number),
        Wrap::IpInIpv4 => in_ipv4(number, protocol, packet),
        Wrap::IpInIpv6 => in_ipv6(protocol, packet),
        Wrap::Gre => in_ipv4(number, 47, behind(&[0, 0, high, low], &packet)),
        Wrap::GreOptions => {
            let options = [0, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 9];
            let header = [&[0xb0, 0, high, low][..], &options].concat();
            in_ipv6(47, behind(&header, &packet))
        }
        Wrap::GreBridged => {
            let header = [0x20, 0, 0x65, 0x58, 0, 0, 0, 7];
            in_ipv4(number, 47, behind(&header, &ethernet))
        }
        Wrap::ErspanI => in_ipv4(number, 47, behind(&[0, 0, 0x88, 0xbe], &ethernet)),
        Wrap::ErspanII => {
            // Version 1, VLAN 42, taken off an 802.1Q frame, session 1001, index 5.
            let header = [0x10, 42, 0x13, 0xe9, 0, 0, 0, 5];
            let gre = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 1];
            in_ipv4(number, 47, behind(&[gre, header].concat(), &ethernet))
        }
        Wrap::ErspanIII => {
            // Version 2, session 513, time stamp, no group, Ethernet, with a subheader.
            let header = [0x20, 0, 2, 1, 1, 2, 3, 4, 0, 0, 0, 1];
            let gre = [0x10, 0, 0x22, 0xeb, 0, 0, 0, 1];
            in_ipv4(
                number,
                47,
                behind(&[&gre[..], &header, &[0; 8]].concat(), &ethernet),
            )
        }
        Wrap::Vxlan => vxlan(&ethernet, number),
        Wrap::VxlanGpe => {
            let next = if protocol == 4 { 1 } else { 2 };
            let header = [0x0c, 0, 0, next, 0, 0x13, 0x8a, 0];
            in_ipv4(number, 17, in_udp(4790, behind(&header, &packet)))
        }
        Wrap::Geneve => {
            // 5 words of options, one of them critical; Ethernet; the greatest identifier.
            let header = [5, 0x40, 0x65, 0x58, 0xff, 0xff, 0xff, 0];
            let options = [
                1, 2, 0x80, 2, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 1, 9, 9, 9, 9,
            ];
            let inside = behind(&[&header[..], &options].concat(), &ethernet);
            in_ipv6(17, in_udp(6081, inside))
        }
        Wrap::Mpls => in_ethernet(
            ether_type::MPLS,
            behind(&[0, 1, 0, 64, 0xff, 0xff, 0xf1, 64], &packet),
        ),
        Wrap::MplsControlWord => in_ethernet(
            ether_type::MPLS,
            behind(&[0, 6, 0x41, 64, 0, 0, 0, 0], &ethernet),
        ),
        Wrap::MplsEthernet => in_ethernet(ether_type::MPLS, behind(&[0, 6, 0x41, 64], &ethernet)),
        Wrap::Nested => {
            let mirrored = wrap(&vxlan(&ethernet, number), Wrap::ErspanII, number);
            let front = [&mirrored.bytes[..12], &[0x81, 0, 0, 9]].concat();
            behind(&front, &part(&mirrored, 12))
        }
    }
}

/// The frame with tags: each its EtherType and its identifier.
fn tagged(ethernet: &Frame, tags: &[(u16, u16)]) -> Frame {
    let mut front = ethernet.bytes[..12].to_vec();
    for (kind, id) in tags {
        front.extend(kind.to_be_bytes());
        front.extend(id.to_be_bytes());
    }
    behind(&front, &part(ethernet, 12))
}

/// Behind more of a link header.
fn on_the_link(ethernet: &Frame, how: Wrap) -> Frame {
    let addresses = ethernet.bytes[..12].to_vec();
    let (typed, packet) = (part(ethernet, 12), part(ethernet, HEADER_LEN));
    let is_ipv4 = ether_type(ethernet) == ether_type::IPV4;
    let front = match how {
        Wrap::Llc => {
            // A length, or where there is too much of it the type that stands for LLC.
            let len = 8 + packet.wire_len;
            let length = if len <= 1500 { len as u16 } else { 0x8870 };
            let llc = [&length.to_be_bytes()[..], &[0xaa, 0xaa, 3, 0, 0, 0]].concat();
            return behind(&[addresses, llc].concat(), &typed);
        }
        Wrap::LinkTags => {
            let tags: [&[u8]; 5] = [
                &[0x89, 0x26, 0x80, 1, 0, 2],
                &[0x89, 0x3f, 0, 1, 0x10, 2, 0, 0],
                &[0x89, 0x2f, 0x10, 0x50, 0, 9],
                &[0x89, 0x09, 1, 1, 0, 1, 0, 10],
                &[0x88, 0xe5, 0x20, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 5, 0, 1],
            ];
            return behind(&[addresses, tags.concat()].concat(), &typed);
        }
        Wrap::AristaStamp => {
            let stamp = [0xd2, 0x8b, 0, 1, 1, 0x10, 1, 2, 3, 4, 5, 6, 7, 8];
            return behind(&[&addresses[..], &stamp].concat(), &typed);
        }
        Wrap::ServiceHeader => {
            // Six words: four of context, of type 1.
            let next = if is_ipv4 { 1 } else { 2 };
            [
                &[0x89, 0x4f, 0x0f, 0xc6, 1, next, 0, 0, 7, 255][..],
                &[5; 16],
            ]
            .concat()
        }
        Wrap::Pppoe => {
            let [high, low] = u16::try_from(2 + packet.wire_len)
                .unwrap_or(0)
                .to_be_bytes();
            let protocol = if is_ipv4 { 0x21 } else { 0x57 };
            let header = [0x88, 0x64, 0x11, 0, 2, 1, high, low, 0, protocol];
            [&[0x81, 0, 0, 8][..], &header].concat()
        }
        // The service 70000, then the customer's whole frame.
        _ => return in_ethernet(0x88e7, behind(&[0, 1, 0x11, 0x70], ethernet)),
    };
    behind(&[addresses, front].concat(), &packet)
}

/// In IP, as operators of access networks do.
fn over_the_way(ethernet: &Frame, how: Wrap, number: u16) -> Frame {
    let packet = part(ethernet, HEADER_LEN);
    let protocol = match ether_type(ethernet) {
        ether_type::IPV4 => 0x21,
        _ => 0x57,
    };
    let counted = |more: u32| {
        u16::try_from(more + packet.wire_len)
            .unwrap_or(0)
            .to_be_bytes()
    };
    match how {
        Wrap::Gtp => {
            // Extension and sequence number; a container of a session, then none.
            let [high, low] = counted(8);
            let header = [
                0x36, 255, high, low, 1, 2, 3, 4, 0, 9, 0, 0x85, 1, 0x10, 1, 0,
            ];
            in_ipv4(number, 17, in_udp(2152, behind(&header, &packet)))
        }
        Wrap::L2tp2 => {
            let [high, low] = counted(16);
            let header = [
                0x42, 2, high, low, 0, 42, 0, 43, 0, 2, 0, 0, 0xff, 3, 0, protocol,
            ];
            in_ipv4(number, 17, in_udp(1701, behind(&header, &packet)))
        }
        Wrap::L2tp3 => {
            let header = [
                0x12, 0x34, 0x56, 0x78, 1, 2, 3, 4, 5, 6, 7, 8, 0x40, 0, 0, 1,
            ];
            in_ipv4(number, 115, behind(&header, ethernet))
        }
        Wrap::L2tp3Udp => {
            let header = [0, 3, 0, 0, 0x12, 0x34, 0x56, 0x78];
            in_ipv4(number, 17, in_udp(1701, behind(&header, ethernet)))
        }
        Wrap::Lisp => {
            let header = [0x88, 1, 2, 3, 0, 0, 77, 1];
            in_ipv4(number, 17, in_udp(4341, behind(&header, &packet)))
        }
        Wrap::MplsUdp => in_ipv4(number, 17, in_udp(6635, behind(&[0, 6, 0x41, 64], &packet))),
        Wrap::Tzsp => {
            // A strength of signal, padding, the length of the original, the end.
            let header = [1, 0, 0, 1, 10, 1, 0xc8, 0, 41, 2, 0, 99, 1];
            in_ipv4(number, 17, in_udp(37008, behind(&header, ethernet)))
        }
        Wrap::Pptp => {
            // Key (length, call), sequence and acknowledgement; PPP with a short protocol.
            let [high, low] = counted(1);
            let header = [
                0x30, 0x81, 0x88, 0x0b, high, low, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, protocol,
            ];
            in_ipv4(number, 47, behind(&header, &packet))
        }
        _ => in_ipv4(number, 97, behind(&[0x30, 0], ethernet)),
    }
}

/// All frames of a capture in tunnels.
pub fn wrap_all(frames: &[Frame], how: Wrap) -> Vec<Frame> {
    let numbered = frames.iter().zip((0..=u16::MAX).cycle());
    numbered
        .map(|(frame, number)| wrap(frame, how, number))
        .collect()
}

/// Ethernet frames in two VXLANs, or two VLANs, by their direction, as overlays that are routed.
pub fn routed(frames: &[Frame], ids: [u8; 2], in_vlans: bool) -> Vec<Frame> {
    let goes_back = |frame: &Frame| {
        let addresses = lineside_wire::addresses(1, &frame.bytes);
        addresses.is_some_and(|(from, to)| from > to)
    };
    let numbered = frames.iter().zip((0..=u16::MAX).cycle());
    let routed = numbered.map(|(frame, number)| {
        let id = ids[usize::from(goes_back(frame))];
        if in_vlans {
            return tagged(frame, &[(0x8100, id.into())]);
        }
        let mut wrapped = vxlan(frame, number);
        wrapped.bytes[48] = id;
        wrapped
    });
    routed.collect()
}

/// An IPv4 frame on Ethernet in fragments of at most `payload_max` bytes, a multiple of 8; any
/// other, or a cut one, alone.
pub fn fragment(frame: &Frame, payload_max: usize) -> Vec<Frame> {
    let whole = || vec![frame.clone()];
    let Some((header, payload)) = plain_ipv4(frame) else {
        return whole();
    };
    if payload.len() <= payload_max {
        return whole();
    }
    let parts = payload.chunks(payload_max).enumerate();
    let parts = parts.map(|(index, part)| {
        let mut bytes = header.to_vec();
        let mut packet = ipv4::Packet::new_unchecked(&mut bytes[HEADER_LEN..]);
        packet.set_total_len((ipv4::HEADER_LEN + part.len()) as u16);
        packet.set_fragment(
            index * payload_max,
            (index + 1) * payload_max < payload.len(),
        );
        packet.fill_checksum();
        bytes.extend(part);
        Frame {
            wire_len: bytes.len() as u32,
            bytes,
            ..frame.clone()
        }
    });
    parts.collect()
}

/// The headers and the payload of an Ethernet frame with a whole IPv4 packet without options.
fn plain_ipv4(frame: &Frame) -> Option<(&[u8], &[u8])> {
    let is_ipv4 = |ethernet: &ethernet::Frame<_>| ethernet.ether_type() == ether_type::IPV4;
    ethernet::Frame::new_checked(&frame.bytes[..])
        .filter(|ethernet| frame.link_type == 1 && is_ipv4(ethernet))?;
    let packet = ipv4::Packet::new_checked(&frame.bytes[HEADER_LEN..])?;
    let headers_len = HEADER_LEN + ipv4::HEADER_LEN;
    let end = HEADER_LEN + packet.total_len();
    packet
        .is_plain()
        .then(|| (&frame.bytes[..headers_len], &frame.bytes[headers_len..end]))
}

/// Every frame twice, as a tap on both sides of a router sees it: the second time `delay_ns` later,
/// between other link addresses, one hop further. In the order of their stamps.
pub fn mirror(frames: &[Frame], delay_ns: i64) -> Vec<Frame> {
    let mut both: Vec<Frame> = frames.to_vec();
    both.extend(frames.iter().map(|frame| {
        let mut copy = frame.clone();
        copy.stamp_ns = copy.stamp_ns.map(|stamp| stamp + delay_ns);
        route(&mut copy);
        copy
    }));
    both.sort_by_key(|frame| frame.stamp_ns);
    both
}

/// What a router does to a packet.
fn route(frame: &mut Frame) {
    let (address, header) = match frame.link_type {
        1 => (ethernet::field::SOURCE, HEADER_LEN),
        113 => (6, 16),
        276 => (12, 20),
        0 | 108 => (0, 4),
        12 | 14 | 101 | 228 | 229 => (0, 0),
        _ => return,
    };
    if address > 0
        && let Some(address) = frame.bytes.get_mut(address..address + 6)
    {
        address.copy_from_slice(&[2, 0, 0, 0, 0, 0x77]);
    }
    match frame.bytes.get_mut(header..) {
        Some(bytes) if bytes.len() >= ipv4::HEADER_LEN && bytes[0] == ipv4::VERSION_LEN_PLAIN => {
            let mut packet = ipv4::Packet::new_unchecked(bytes);
            packet.set_ttl(packet.ttl().wrapping_sub(1));
            packet.fill_checksum();
        }
        Some(bytes) if bytes.len() >= ipv6::HEADER_LEN && bytes[0] >> 4 == 6 => {
            let mut packet = ipv6::Packet::new_unchecked(bytes);
            packet.set_hop_limit(packet.hop_limit().wrapping_sub(1));
        }
        _ => {}
    }
}

fn vxlan(ethernet: &Frame, number: u16) -> Frame {
    let header = [8, 0, 0, 0, 0, 0x13, 0x89, 0];
    in_ipv4(number, 17, in_udp(4789, behind(&header, ethernet)))
}

/// The frame with Ethernet's link header, if its own is known.
fn ethernet(frame: &Frame) -> Option<Frame> {
    let type_at = |at: usize| Some(frame.bytes.get(at..at + 2)?.to_vec());
    let by_version = |at: usize| match frame.bytes.get(at)? >> 4 {
        4 => Some(vec![0x08, 0x00]),
        6 => Some(vec![0x86, 0xdd]),
        _ => None,
    };
    let (ether_type, start) = match frame.link_type {
        1 => {
            type_at(12)?;
            return Some(frame.clone());
        }
        113 => (type_at(14)?, 16),
        276 => (type_at(0)?, 20),
        0 | 108 => (by_version(4)?, 4),
        12 | 14 | 101 | 228 | 229 => (by_version(0)?, 0),
        _ => return None,
    };
    let front = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &ether_type].concat();
    Some(Frame {
        link_type: 1,
        ..behind(&front, &part(frame, start))
    })
}

fn ether_type(ethernet: &Frame) -> u16 {
    ethernet::Frame::new_unchecked(&ethernet.bytes).ether_type()
}

/// The frame without its first bytes.
fn part(frame: &Frame, start: usize) -> Frame {
    Frame {
        bytes: frame.bytes[start.min(frame.bytes.len())..].to_vec(),
        wire_len: frame.wire_len.saturating_sub(start as u32),
        ..frame.clone()
    }
}

/// The frame behind some bytes more.
fn behind(front: &[u8], frame: &Frame) -> Frame {
    Frame {
        bytes: [front, &frame.bytes].concat(),
        wire_len: front.len() as u32 + frame.wire_len,
        ..frame.clone()
    }
}

fn in_ethernet(ether_type: u16, inside: Frame) -> Frame {
    let front = [
        &[0x02, 0, 0, 0, 0, 0x42, 0x02, 0, 0, 0, 0, 0x41][..],
        &ether_type.to_be_bytes(),
    ]
    .concat();
    behind(&front, &inside)
}

fn in_ipv4(number: u16, protocol: u8, inside: Frame) -> Frame {
    let total = u16::try_from(20 + inside.wire_len).unwrap_or(0);
    let [high, low] = total.to_be_bytes();
    let [id_high, id_low] = number.to_be_bytes();
    let mut header = vec![
        0x45, 0, high, low, id_high, id_low, 0, 0, 63, protocol, 0, 0,
    ];
    header.extend([203, 0, 113, 1, 203, 0, 113, 2]);
    ipv4::Packet::new_unchecked(&mut header).fill_checksum();
    in_ethernet(ether_type::IPV4, behind(&header, &inside))
}

fn in_ipv6(protocol: u8, inside: Frame) -> Frame {
    let [high, low] = u16::try_from(inside.wire_len).unwrap_or(0).to_be_bytes();
    let mut header = vec![0x60, 0, 0, 0, high, low, protocol, 63];
    for host in [1, 2] {
        header.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    in_ethernet(ether_type::IPV6, behind(&header, &inside))
}

/// Without a checksum, as tunnels send.
fn in_udp(port: u16, inside: Frame) -> Frame {
    let [high, low] = u16::try_from(8 + inside.wire_len)
        .unwrap_or(0)
        .to_be_bytes();
    let [port_high, port_low] = port.to_be_bytes();
    let header = [0xc0, 1, port_high, port_low, high, low, 0, 0];
    behind(&header, &inside)
}
