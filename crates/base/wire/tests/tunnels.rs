//! What is wrapped, by a writer that shares nothing with the reader, dissects to the packet inside;
//! what only looks like a tunnel stays what it is.

use std::net::IpAddr;

use lineside_testkit::capture::Frame;
use lineside_testkit::wrap::{self, Wrap};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::{
    Dissected, Layers, TunnelKind, dissect, dissect_assembled, dissect_outermost, layers,
    layers_assembled,
};
use proptest::prelude::*;

const DATA: &[u8] = b"what is inside";

fn frame(bytes: Vec<u8>) -> Frame {
    Frame {
        stamp_ns: Some(5_000),
        wire_len: bytes.len() as u32,
        link_type: 1,
        bytes,
    }
}

fn inner(is_ipv6: bool, is_tcp: bool) -> Frame {
    let builder = match is_ipv6 {
        false => FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
        true => FrameBuilder::new([0xfd; 16].into(), [0xfe; 16].into()),
    };
    frame(match is_tcp {
        true => builder.tcp(&TcpFields::default(), DATA),
        false => builder.udp(700, 2049, DATA),
    })
}

fn wrap(frame: &Frame, how: Wrap) -> Frame {
    wrap::wrap(frame, how, 7)
}

/// The payload that a frame dissects to, whole.
fn payload_of(frame: &Frame) -> Option<Vec<u8>> {
    let bytes = &frame.bytes;
    let (payload, payload_len, kept) = match dissect(1, bytes, frame.wire_len as usize) {
        Dissected::Tcp(_, tcp) => (tcp.payload, tcp.payload_len, tcp.captured_len),
        Dissected::Udp(_, udp) => (udp.payload, udp.payload_len, udp.captured_len),
        _ => return None,
    };
    assert_eq!(payload_len, kept);
    Some(bytes[payload..][..kept].to_vec())
}

fn joined(layers: &Layers) -> [String; 3] {
    let names: Vec<_> = layers.tunnels().map(|tunnel| tunnel.kind.name()).collect();
    let ids = layers.tunnels().map(|tunnel| tunnel.id);
    let ids: Vec<_> = ids
        .map(|id| id.map_or(String::new(), |id| id.to_string()))
        .collect();
    let tags: Vec<_> = layers.tags().iter().map(u16::to_string).collect();
    [names.join(","), ids.join(","), tags.join(",")]
}

#[test]
fn every_tunnel_leads_to_the_packet_inside() {
    for how in Wrap::ALL {
        for (is_ipv6, is_tcp) in [(false, false), (false, true), (true, false), (true, true)] {
            let plain = inner(is_ipv6, is_tcp);
            let wrapped = wrap(&plain, how);
            assert!(wrapped.bytes.len() > plain.bytes.len());
            assert_eq!(payload_of(&wrapped).as_deref(), Some(DATA), "{how:?}");
            let found = layers(1, &wrapped.bytes, wrapped.bytes.len());
            assert_eq!(joined(&found), how.expected(), "{how:?}");
            let (Dissected::Tcp(ip, _) | Dissected::Udp(ip, _)) =
                dissect(1, &wrapped.bytes, wrapped.bytes.len())
            else {
                panic!("{how:?}");
            };
            assert_eq!(usize::from(ip.tunnels), found.tunnels().len());
            let header = &wrapped.bytes[ip.header..];
            assert_eq!(header, &plain.bytes[14..], "{how:?}");
            let has_outer = !matches!(
                how,
                Wrap::Vlans
                    | Wrap::OldVlans
                    | Wrap::Llc
                    | Wrap::LinkTags
                    | Wrap::ServiceHeader
                    | Wrap::Pppoe
                    | Wrap::Backbone
                    | Wrap::AristaStamp
                    | Wrap::Mpls
                    | Wrap::MplsControlWord
                    | Wrap::MplsEthernet
            );
            let outer = found.outer();
            assert_eq!(outer.is_some(), has_outer, "{how:?}");
            let is_outer_v6 = matches!(how, Wrap::IpInIpv6 | Wrap::GreOptions | Wrap::Geneve);
            let expected: [IpAddr; 2] = match is_outer_v6 {
                true => ["2001:db8::1", "2001:db8::2"],
                false => ["203.0.113.1", "203.0.113.2"],
            }
            .map(|address| address.parse().expect("an address"));
            assert!(outer.is_none_or(|(from, to)| [from, to] == expected));
        }
    }
}

#[test]
fn only_tunnels_are_looked_into() {
    let wrapped = wrap(&inner(false, true), Wrap::Gre);
    let outermost = dissect_outermost(1, &wrapped.bytes, wrapped.bytes.len());
    assert_eq!(outermost, Dissected::OtherProtocol);
    let wrapped = wrap(&inner(false, true), Wrap::Vxlan);
    let outermost = dissect_outermost(1, &wrapped.bytes, wrapped.bytes.len());
    assert!(matches!(outermost, Dissected::Udp(_, udp) if udp.destination_port == 4789));
}

/// A client may have any port, and a call may begin as a tunnel's header does.
#[test]
fn a_port_alone_is_no_tunnel() {
    // XID, CALL, version 2, NFS, version 3, WRITE.
    let call = |xid: u32| {
        let words = [xid, 0, 2, 100_003, 3, 7, 0, 0, 0, 0];
        words.map(u32::to_be_bytes).concat()
    };
    for port in [
        4789, 4790, 6081, 8472, 2152, 1701, 4341, 3544, 5247, 6635, 37008,
    ] {
        for xid in [
            0x30ff_0020,
            0x0100_0001,
            0x0002_0001,
            0x4002_0028,
            0x0003_0000,
            0x0800_0000,
            0x0c00_0001,
            0x0c00_0003,
            0x0000_6558,
            0x0000_0800,
            0x1234_5678,
            0,
        ] {
            for reply in [0, 1] {
                let mut message = call(xid);
                message[7] = reply;
                let datagram = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
                    .udp(2049, port, &message);
                let found = dissect(1, &datagram, datagram.len());
                assert!(
                    matches!(found, Dissected::Udp(..)),
                    "{port} {xid:x} {found:?}"
                );
            }
        }
    }
    // From the port, to another: an answer to a client on that port is no tunnel either.
    let mut wrapped = wrap(&inner(false, true), Wrap::Vxlan);
    wrapped.bytes.swap(34, 36);
    wrapped.bytes.swap(35, 37);
    let found = dissect(1, &wrapped.bytes, wrapped.bytes.len());
    assert!(matches!(found, Dissected::Udp(_, udp) if udp.source_port == 4789));
}

#[test]
fn tunnels_in_tunnels_end_somewhere() {
    let mut deep = inner(false, true);
    for depth in 1..12 {
        deep = wrap(&deep, Wrap::IpInIpv4);
        let found = dissect(1, &deep.bytes, deep.bytes.len());
        match depth <= Layers::MAX {
            true => assert!(matches!(found, Dissected::Tcp(ip, _) if ip.tunnels == depth as u8)),
            false => assert_eq!(found, Dissected::TooDeep),
        }
    }
}

#[test]
fn contradictory_headers_are_malformed_or_no_tunnel() {
    let change = |how, at: usize, byte: u8| {
        let mut wrapped = wrap(&inner(false, true), how);
        wrapped.bytes[at] = byte;
        dissect(1, &wrapped.bytes, wrapped.bytes.len())
    };
    // GRE with source routes, and of version 1 without PPP: the packet inside is not read.
    assert_eq!(change(Wrap::Gre, 34, 0x40), Dissected::IpUnread);
    assert_eq!(change(Wrap::Gre, 35, 1), Dissected::IpUnread);
    // ERSPAN of a version that its type does not have.
    assert_eq!(change(Wrap::ErspanII, 42, 0x30), Dissected::MalformedTunnel);
    assert_eq!(
        change(Wrap::ErspanIII, 42, 0x10),
        Dissected::MalformedTunnel
    );
    // ERSPAN III of neither Ethernet nor IP.
    assert_eq!(change(Wrap::ErspanIII, 52, 0x04), Dissected::IpUnread);
    // An option of GENEVE that reaches beyond the others.
    assert_eq!(change(Wrap::Geneve, 73, 0x1f), Dissected::MalformedTunnel);
    // VXLAN without the flag of its identifier; GENEVE of version 1.
    assert!(matches!(change(Wrap::Vxlan, 42, 0), Dissected::Udp(..)));
    assert!(matches!(change(Wrap::Geneve, 62, 0x45), Dissected::Udp(..)));
    // Padding behind the outer packet is none of the inner one.
    let mut padded = wrap(&frame(vec![0; 14]), Wrap::Vxlan);
    padded.bytes.extend([0; 20]);
    let found = dissect(1, &padded.bytes, padded.bytes.len());
    assert!(
        matches!(found, Dissected::Udp(..)),
        "no frame inside: {found:?}"
    );
}

/// A pseudowire's address may begin as a header of IP does.
#[test]
fn the_payload_of_mpls_labels_is_recognised_by_content() {
    for first in [0x00, 0x02, 0x45, 0x60, 0x1c, 0xfe] {
        let mut plain = inner(false, true);
        plain.bytes[0] = first;
        for how in [Wrap::MplsEthernet, Wrap::MplsControlWord] {
            let found = payload_of(&wrap(&plain, how));
            assert_eq!(found.as_deref(), Some(DATA), "{first:x} {how:?}");
        }
    }
}

#[test]
fn a_tunnel_put_together_from_fragments_is_looked_into() {
    let wrapped = wrap(&inner(false, false), Wrap::Nested);
    let Dissected::Udp(ip, _) = dissect(1, &wrapped.bytes, wrapped.bytes.len()) else {
        panic!("a datagram");
    };
    // The payload of the outer GRE packet, as its fragments would give it: behind Ethernet, a tag
    // and IP.
    let payload = &wrapped.bytes[14 + 4 + 20..];
    let assembled = dissect_assembled(&ip, 47, payload, payload.len());
    let Dissected::Udp(_, udp) = assembled else {
        panic!("{assembled:?}");
    };
    assert_eq!(&payload[udp.payload..][..udp.captured_len], DATA);
    let around = layers(1, &wrapped.bytes[..18], 18);
    let all = layers_assembled(&around, &ip, 47, payload, payload.len());
    assert_eq!(joined(&all), Wrap::Nested.expected());
    let first = all.tunnels().next();
    assert!(first.is_some_and(|first| first.kind == TunnelKind::ErspanII));
}

/// An outer packet of this protocol around these bytes.
fn in_ip(protocol: u8, inside: &[u8]) -> Vec<u8> {
    let payload = vec![0; inside.len().saturating_sub(8)];
    let mut outer =
        FrameBuilder::new([10, 9, 0, 1].into(), [10, 9, 0, 2].into()).udp(1, 1, &payload);
    outer[23] = protocol;
    outer[34..34 + inside.len()].copy_from_slice(inside);
    outer
}

fn in_type(ether_type: u16, inside: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &ether_type.to_be_bytes(), inside].concat()
}

#[test]
fn unread_ip_is_distinguished_from_other_frames() {
    for (is_ipv6, is_tcp) in [(false, false), (false, true), (true, false), (true, true)] {
        let plain = inner(is_ipv6, is_tcp).bytes;
        let (ethernet, packet) = (&plain[..], &plain[14..]);
        let udp = |ports: [u16; 2], header: &[u8]| {
            FrameBuilder::new([10, 9, 0, 1].into(), [10, 9, 0, 2].into()).udp(
                ports[0],
                ports[1],
                &[header, packet].concat(),
            )
        };
        let cases = [
            // Of a type that nobody knows, and of known ones that are not read: TRILL, FabricPath.
            in_type(0x9999, &[&[7; 5], packet].concat()),
            in_type(0x22f3, &[&[0, 1, 0, 2, 0, 3], ethernet].concat()),
            in_type(0x8903, &[&[0, 1], ethernet].concat()),
            // Bridged in SNAP; encrypted in MACsec.
            in_type(
                200,
                &[&[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7], ethernet].concat(),
            ),
            in_type(0x88e5, &[&[0x0c, 0, 0, 0, 0, 1][..], &[0x5a; 80]].concat()),
            // PPPoE with compressed headers; with an encrypted packet.
            in_type(0x8864, &[0x11, 0, 0, 1, 0, 20, 0, 0x2d, 0x45, 1, 2, 3]),
            in_type(0x8864, &[0x11, 0, 0, 1, 0, 20, 0, 0xfd, 0x90, 1, 2, 3]),
            // A protocol that nobody knows; PIM's register; compressed.
            in_ip(201, &[&[1, 2, 3], packet].concat()),
            in_ip(103, &[&[0x21, 0, 0, 0, 0, 0, 0, 0], packet].concat()),
            in_ip(108, &[0x5a; 60]),
            // GRE of a type that is not read; L2TP with a long sublayer.
            in_ip(47, &[&[0, 0, 0x88, 0x3e, 1, 2, 3, 4], packet].concat()),
            in_ip(115, &[&[1; 31], packet].concat()),
            // Teredo, CAPWAP from its port; LISP and TaZmen's with other headers.
            udp([700, 4341], &[0x80, 0, 0, 1]),
            udp([700, 37008], &[2, 0, 0, 1, 1]),
            udp([700, 3544], &[]),
            udp([5247, 700], &[0, 0x20, 3, 0, 0, 0, 0, 0]),
            // A user of GTP behind something.
            udp([2152, 2152], &{
                let len = u16::try_from(3 + packet.len()).expect("short");
                let [high, low] = len.to_be_bytes();
                [0x30, 255, high, low, 0, 0, 0, 1, 0xff, 3, 0x21]
            }),
        ];
        for (at, frame) in cases.iter().enumerate() {
            let found = dissect(1, frame, frame.len());
            assert_eq!(
                found,
                Dissected::IpUnread,
                "case {at}, IPv6 {is_ipv6}, TCP {is_tcp}"
            );
        }
    }
}

#[test]
fn esp_is_named_also_behind_translated_addresses() {
    let ends = FrameBuilder::new([10, 9, 0, 1].into(), [10, 9, 0, 2].into());
    let behind = ends.udp(4500, 4500, &[1; 60]);
    for frame in [in_ip(50, &[0x5a; 60]), behind] {
        assert_eq!(dissect(1, &frame, frame.len()), Dissected::Esp);
    }
    // Keys are exchanged in the clear.
    let keys = ends.udp(4500, 4500, &[0; 60]);
    assert!(matches!(dissect(1, &keys, keys.len()), Dissected::Udp(..)));
}

#[test]
fn frames_without_ip_are_no_ip_that_was_not_read() {
    let cases = [
        // ARP; spanning tree; IPX, raw and in LLC; Cisco's discovery; LLDP; PPPoE's, and PPP's own.
        in_type(
            0x0806,
            &[0, 1, 8, 0, 6, 4, 0, 1, 2, 2, 2, 2, 2, 2, 10, 0, 0, 1],
        ),
        in_type(38, &[&[0x42, 0x42, 3][..], &[0; 43]].concat()),
        in_type(60, &[0xff; 60]),
        in_type(60, &[&[0xe0, 0xe0, 3][..], &[0xff; 57]].concat()),
        in_type(
            60,
            &[&[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0][..], &[2; 52]].concat(),
        ),
        in_type(0x88cc, &[2, 7, 4, 2, 2, 2, 2, 2, 2, 4, 7, 3]),
        in_type(0x8863, &[0x11, 9, 0, 0, 0, 4, 1, 1, 0, 0]),
        in_type(
            0x8864,
            &[0x11, 0, 0, 1, 0, 10, 0xc0, 0x21, 9, 1, 0, 8, 1, 2, 3, 4],
        ),
        // An LLC frame of another access point in each of the link tags.
        in_type(0x8926, &[0, 1, 0, 2, 0, 3, 0xf0, 0xf0, 3]),
    ];
    for (at, frame) in cases.iter().enumerate() {
        assert_eq!(
            dissect(1, frame, frame.len()),
            Dissected::NotIp,
            "case {at}"
        );
    }
    // OSPF, and an error of ICMP that quotes a whole packet.
    let quoted = [
        &[3, 3, 0, 0, 0, 0, 0, 0][..],
        &inner(false, true).bytes[14..],
    ]
    .concat();
    for (protocol, inside) in [(89, vec![2; 44]), (1, quoted), (115, vec![0; 20])] {
        let frame = in_ip(protocol, &inside);
        assert_eq!(dissect(1, &frame, frame.len()), Dissected::OtherProtocol);
    }
    // Control messages of tunnels over UDP are ordinary datagrams.
    for (port, message) in [
        (2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0][..]),
        (1701, &[0xc8, 2, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (1701, &[0x40, 2, 0, 12, 0, 1, 0, 2, 0xc0, 0x21, 9, 1, 0, 8]),
        (4500, &[0, 0, 0, 0, 1, 2, 3, 4]),
    ] {
        let frame =
            FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).udp(port, port, message);
        let found = dissect(1, &frame, frame.len());
        assert!(matches!(found, Dissected::Udp(..)), "{port}: {found:?}");
    }
}

/// Linux's VXLAN has an older port by default.
#[test]
fn vxlan_is_read_on_its_older_port_too() {
    let mut wrapped = wrap(&inner(false, true), Wrap::Vxlan);
    wrapped.bytes[36..38].copy_from_slice(&8472_u16.to_be_bytes());
    assert_eq!(payload_of(&wrapped).as_deref(), Some(DATA));
}

/// Headers that name one another for ever end with the frame, and those with a number sooner.
#[test]
fn link_headers_end_somewhere() {
    let tags = [0x89, 0x26, 0, 0, 0, 0].repeat(10_000);
    let frame = [&[2; 12][..], &tags].concat();
    assert_eq!(dissect(1, &frame, frame.len()), Dissected::MalformedLink);
    let mut deep = inner(false, true);
    for _ in 0..=Layers::MAX {
        deep = wrap(&deep, Wrap::Backbone);
    }
    assert_eq!(
        dissect(1, &deep.bytes, deep.bytes.len()),
        Dissected::TooDeep
    );
}

proptest! {
    /// However a frame is cut or damaged, what is found lies within it.
    #[test]
    fn nothing_reaches_beyond_the_frame(
        how in 0..Wrap::ALL.len(), is_ipv6 in any::<bool>(), is_tcp in any::<bool>(), cut in 0..300_usize,
        damage in proptest::collection::vec((0..160_usize, any::<u8>()), 0..4),
    ) {
        let mut wrapped = wrap(&inner(is_ipv6, is_tcp), Wrap::ALL[how]);
        for (at, byte) in damage {
            if let Some(place) = wrapped.bytes.get_mut(at) {
                *place = byte;
            }
        }
        let wire_len = wrapped.bytes.len();
        let kept = &wrapped.bytes[..cut.min(wire_len)];
        let check = |dissected, bytes: &[u8]| {
            let (ip, at, len, kept) = match dissected {
                Dissected::Tcp(ip, tcp) => (ip, tcp.payload, tcp.payload_len, tcp.captured_len),
                Dissected::Udp(ip, udp) => (ip, udp.payload, udp.payload_len, udp.captured_len),
                Dissected::Fragment(ip, _) => (ip, ip.payload, ip.payload_len, ip.captured_len),
                _ => return true,
            };
            kept <= len && at + kept <= bytes.len() && len <= wire_len && ip.header < bytes.len()
        };
        let found = dissect(1, kept, wire_len);
        prop_assert!(check(found, kept), "{:?}", found);
        layers(1, kept, wire_len);
        if let Dissected::Fragment(ip, fragment) = found {
            let payload = &kept[ip.payload..][..ip.captured_len];
            let found = dissect_assembled(&ip, fragment.protocol, payload, ip.payload_len);
            prop_assert!(payload.is_empty() || check(found, payload), "{:?}", found);
        }
    }
}
