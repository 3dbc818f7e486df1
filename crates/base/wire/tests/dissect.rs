//! What is built dissects to the same fields, whole, cut and in fragments; nothing panics.

use std::net::IpAddr;

use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::{
    Dissected, HeaderChecksum, Ip, PROTOCOL_TCP, PROTOCOL_UDP, TcpFlags, addresses, checksum,
    dissect, dissect_assembled, layers,
};
use proptest::collection::vec;
use proptest::prelude::*;

const LINK_TYPES: [u16; 10] = [0, 1, 12, 14, 101, 108, 113, 228, 229, 276];

#[test]
fn addresses_are_read_of_any_ip_packet_and_of_arp() {
    let v4: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let v6: [IpAddr; 2] = [[0xfd; 16].into(), [0xfe; 16].into()];
    for [source, destination] in [v4, v6] {
        for link_type in LINK_TYPES {
            if (link_type == 228 && source.is_ipv6()) || (link_type == 229 && source.is_ipv4()) {
                continue;
            }
            // A protocol that is neither TCP nor UDP.
            let builder = FrameBuilder::new(source, destination).with_link_type(link_type);
            let frame = builder.packet(89, b"data");
            assert_eq!(
                addresses(link_type, &frame),
                Some((source, destination)),
                "{link_type}"
            );
            for len in 0..frame.len() {
                let found = addresses(link_type, &frame[..len]);
                assert!(
                    found.is_none() || found == Some((source, destination)),
                    "{link_type}, {len}"
                );
            }
        }
    }
    // Who has 10.0.0.2? Tell 10.0.0.1 (RFC 826).
    let mut arp = vec![0xff; 12];
    arp.extend([
        8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ]);
    assert_eq!(addresses(1, &arp), Some((v4[0], v4[1])));
    assert_eq!(addresses(1, &arp[..arp.len() - 1]), None);
    assert_eq!(addresses(113, &arp), None);
}

/// An ARP frame and others by hand, where no builder can share an error with the parser.
#[test]
fn frames_written_by_hand_are_read() {
    // The IPv4 header of the example in Wikipedia's "Internet checksum", checksum b861.
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00]);
    frame.extend([
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ]);
    frame.extend([0x02, 0xbc, 0x08, 0x01, 0x00, 0x5f, 0x00, 0x00]);
    frame.resize(14 + 0x73, 0xaa);
    let Dissected::Udp(ip, udp) = dissect(1, &frame, frame.len()) else {
        panic!("a datagram");
    };
    assert_eq!(ip.checksum, HeaderChecksum::Right);
    assert_eq!(ip.source, IpAddr::from([192, 168, 0, 1]));
    assert_eq!(
        (ip.payload, ip.payload_len, ip.captured_len),
        (34, 0x73 - 20, 0x73 - 20)
    );
    assert_eq!((udp.source_port, udp.destination_port), (700, 2049));
    assert_eq!(
        (udp.payload, udp.payload_len, udp.captured_len),
        (42, 87, 87)
    );
    assert!(!udp.checksum_offloaded);

    frame[24] ^= 1;
    let Dissected::Udp(ip, _) = dissect(1, &frame, frame.len()) else {
        panic!("a datagram");
    };
    assert_eq!(ip.checksum, HeaderChecksum::Wrong);
    frame[24..26].fill(0);
    let Dissected::Udp(ip, _) = dissect(1, &frame, frame.len()) else {
        panic!("a datagram");
    };
    assert_eq!(ip.checksum, HeaderChecksum::Offloaded);

    frame[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(dissect(1, &frame, frame.len()), Dissected::NotIp);
    assert_eq!(dissect(1, &frame[..13], 100), Dissected::MalformedLink);
    assert_eq!(dissect(147, &frame, frame.len()), Dissected::UnknownLink);
    assert_eq!(dissect(101, &[0x50], 1), Dissected::MalformedIp);
    assert_eq!(dissect(0, &[7, 0, 0, 0, 0x45], 5), Dissected::NotIp);
}

#[test]
fn icmp_is_another_protocol() {
    for builder in [ipv4(), ipv6()] {
        let frame = builder.packet(1, &[8, 0, 0, 0]);
        assert_eq!(dissect(1, &frame, frame.len()), Dissected::OtherProtocol);
    }
}

#[test]
fn padding_is_not_payload() {
    let mut frame = ipv4().tcp(&fields(), b"");
    frame.resize(60, 0);
    let Dissected::Tcp(ip, tcp) = dissect(1, &frame, 60) else {
        panic!("a segment");
    };
    assert_eq!((ip.payload_len, ip.captured_len), (20, 20));
    assert_eq!((tcp.payload_len, tcp.captured_len), (0, 0));
}

#[test]
fn a_super_frame_has_no_length_of_its_own() {
    let data = vec![7; 100_000];
    for builder in [ipv4(), ipv6()] {
        let frame = builder.tcp(&fields(), &data);
        let Dissected::Tcp(_, tcp) = dissect(1, &frame, frame.len()) else {
            panic!("a segment");
        };
        assert_eq!((tcp.payload_len, tcp.captured_len), (100_000, 100_000));
        let frame = builder.udp(1, 2, &data);
        let Dissected::Udp(_, udp) = dissect(1, &frame[..200], frame.len()) else {
            panic!("a datagram");
        };
        assert_eq!(
            (udp.payload_len, udp.captured_len),
            (100_000, 200 - udp.payload)
        );
    }
}

#[test]
fn a_length_beyond_the_frame_is_cut_to_the_frame() {
    let frame = ipv4().tcp(&fields(), b"0123456789");
    let shorter = frame.len() - 4;
    let Dissected::Tcp(_, tcp) = dissect(1, &frame[..shorter], shorter) else {
        panic!("a segment");
    };
    assert_eq!((tcp.payload_len, tcp.captured_len), (6, 6));
}

#[test]
fn contradictions_are_malformed() {
    let good = ipv4().tcp(&fields(), b"");
    let with = |offset: usize, value: u8| {
        let mut frame = good.clone();
        frame[offset] = value;
        dissect(1, &frame, frame.len())
    };
    assert_eq!(with(14, 0x44), Dissected::MalformedIp, "header of 16 bytes");
    assert_eq!(
        with(14, 0x65),
        Dissected::MalformedIp,
        "version 6 in 0x0800"
    );
    assert_eq!(
        with(17, 19),
        Dissected::MalformedIp,
        "total below the header"
    );
    assert_eq!(with(17, 39), Dissected::MalformedTcp, "19 bytes of TCP");
    assert_eq!(
        with(46, 0x40),
        Dissected::MalformedTcp,
        "TCP header of 16 bytes"
    );
    assert_eq!(
        with(46, 0x60),
        Dissected::MalformedTcp,
        "TCP header beyond the packet"
    );
    assert_eq!(
        with(20, 0x3f),
        Dissected::MalformedIp,
        "fragment of 20 bytes, not the last"
    );
    assert_eq!(
        with(20, 0x1f),
        Dissected::Fragment(
            Ip {
                checksum: HeaderChecksum::Wrong,
                ..ip_of(&good)
            },
            lineside_wire::Fragment {
                identification: 0,
                offset: 0x1f00 * 8,
                more: false,
                protocol: 6
            },
        )
    );
    let mut beyond = good.clone();
    beyond[20..22].copy_from_slice(&0x1fff_u16.to_be_bytes());
    assert_eq!(
        dissect(1, &beyond, beyond.len()),
        Dissected::MalformedIp,
        "beyond 65,535"
    );

    let mut udp = ipv6().udp(1, 2, b"data");
    let len = udp.len();
    udp[len - 4 - 4..len - 4 - 2].copy_from_slice(&[0, 7]);
    assert_eq!(dissect(1, &udp, len), Dissected::MalformedUdp);
    let extended = ipv6()
        .with_extension(60, &[0, 9, 1, 4, 0, 0, 0, 0])
        .udp(1, 2, b"data");
    assert_eq!(
        dissect(1, &extended, extended.len()),
        Dissected::MalformedIp
    );
}

/// On its way the IPv6 header names the next stop; the checksum is for the last one.
#[test]
fn a_routed_packet_is_for_the_end_of_its_route() {
    let address = |last: u8| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let to = |last| FrameBuilder::new(address(1).into(), address(last).into());
    let segment = to(9).tcp_segment(&fields(), b"data");
    // Types 0 and 2 list the last stop at the end, segment routing at the beginning.
    for (kind, stops) in [(0, [5, 9]), (2, [5, 9]), (4, [9, 5]), (3, [5, 9])] {
        for left in [0, 1] {
            let mut header = vec![0, 4, kind, left, 0, 0, 0, 0];
            header.extend(stops.map(address).concat());
            let next = if left == 0 { 9 } else { 7 };
            let frame = to(next).with_extension(43, &header);
            let frame = frame.packet(PROTOCOL_TCP, &segment);
            let Dissected::Tcp(ip, _) = dissect(1, &frame, frame.len()) else {
                panic!("a segment");
            };
            let is_known = kind != 3 || left == 0;
            let end = if is_known { 9 } else { 7 };
            assert_eq!(ip.destination, IpAddr::from(address(end)), "type {kind}");
            let sum = checksum::transport(
                ip.source,
                ip.destination,
                PROTOCOL_TCP,
                &frame[ip.payload..],
            );
            assert_eq!(sum == 0, is_known, "type {kind}, {left} left");
        }
    }
}

#[test]
fn an_unfinished_checksum_is_recognised() {
    for builder in [ipv4(), ipv6()] {
        let mut frame = builder.tcp(&fields(), b"data");
        let Dissected::Tcp(ip, tcp) = dissect(1, &frame, frame.len()) else {
            panic!("a segment");
        };
        assert!(!tcp.checksum_offloaded);
        let sum = checksum::pseudo_header_sum(ip.source, ip.destination, 6, ip.payload_len);
        frame[ip.payload + 16..ip.payload + 18].copy_from_slice(&sum.to_be_bytes());
        let Dissected::Tcp(_, tcp) = dissect(1, &frame, frame.len()) else {
            panic!("a segment");
        };
        assert!(tcp.checksum_offloaded);
    }
}

#[test]
fn nine_tags_are_too_many() {
    let eight = (0..8).fold(ipv4(), |builder, id| builder.with_tag(0x8100, id));
    let frame = eight.udp(1, 2, b"");
    assert!(matches!(
        dissect(1, &frame, frame.len()),
        Dissected::Udp(..)
    ));
    let found = layers(1, &frame, frame.len());
    assert_eq!(found.tags(), [0, 1, 2, 3, 4, 5, 6, 7]);
    let frame = eight.with_tag(0x9100, 5).udp(1, 2, b"");
    assert_eq!(dissect(1, &frame, frame.len()), Dissected::TooDeep);
}

/// The last word of a header cut off leaves its length known and nothing kept.
#[test]
fn cut_options_leave_the_length_known() {
    let frame = ipv4().tcp(
        &TcpFields {
            options: &[1; 12],
            ..fields()
        },
        b"data",
    );
    let Dissected::Tcp(_, tcp) = dissect(1, &frame[..14 + 20 + 20 + 3], frame.len()) else {
        panic!("a segment");
    };
    assert_eq!(
        (tcp.header_len, tcp.payload_len, tcp.captured_len),
        (32, 4, 0)
    );
    assert_eq!(tcp.payload, 14 + 20 + 20 + 3);
}

proptest! {
    #[test]
    fn built_frames_are_read_back(packet in any_packet()) {
        let frame = packet.frame();
        packet.check(dissect(packet.link_type, &frame, frame.len()), frame.len())?;
        let ids: Vec<u16> = packet.tags.iter().map(|&(_, id)| id).collect();
        let found = layers(packet.link_type, &frame, frame.len());
        prop_assert_eq!((found.tags(), found.tunnels().len(), found.outer()), (&ids[..], 0, None));
    }

    #[test]
    fn a_cut_frame_says_the_same_as_far_as_it_reaches(packet in any_packet()) {
        let frame = packet.frame();
        let headers = frame.len() - packet.payload.len();
        for kept in 0..=frame.len() {
            let dissected = dissect(packet.link_type, &frame[..kept], frame.len());
            if kept >= headers {
                packet.check(dissected, kept)?;
            } else if let Dissected::Tcp(_, tcp) = dissected {
                prop_assert_eq!((tcp.captured_len, tcp.payload), (0, kept));
                prop_assert_eq!(tcp.payload_len, packet.payload.len());
            } else if !packet.is_tcp || kept + packet.tcp_options.len().next_multiple_of(4) < headers {
                prop_assert!(
                    matches!(
                        dissected,
                        Dissected::MalformedLink
                            | Dissected::MalformedIp
                            | Dissected::MalformedTcp
                            | Dissected::MalformedUdp
                    ),
                    "{:?}", dissected
                );
            } else {
                prop_assert!(false, "the first 20 bytes are there: {:?}", dissected);
            }
        }
    }

    #[test]
    fn fragments_put_together_are_the_packet(packet in any_packet(), len in 8_usize..600) {
        let (protocol, payload) = packet.transport();
        let mut assembled = vec![0xee; payload.len()];
        let mut seen = 0;
        let mut last = None;
        let frames = packet.builder().fragments(protocol, &payload, len);
        for frame in &frames {
            match dissect(packet.link_type, frame, frame.len()) {
                Dissected::Fragment(ip, fragment) => {
                    prop_assert_eq!(fragment.identification, packet.identification());
                    prop_assert_eq!(fragment.protocol, protocol);
                    prop_assert_eq!(fragment.more, fragment.offset + ip.payload_len < payload.len());
                    assembled[fragment.offset..][..ip.captured_len].copy_from_slice(&frame[ip.payload..][..ip.captured_len]);
                    seen += ip.captured_len;
                    last = Some(ip);
                }
                whole => {
                    prop_assert_eq!(frames.len(), 1);
                    // An atomic fragment: its header comes on top.
                    let (Dissected::Tcp(ip, _) | Dissected::Udp(ip, _)) = whole else {
                        return Err(TestCaseError::fail(format!("{whole:?}")));
                    };
                    prop_assert_eq!(&frame[ip.payload..], &payload[..]);
                }
            }
        }
        if let Some(ip) = last {
            prop_assert_eq!(seen, payload.len());
            prop_assert_eq!(&assembled, &payload);
            packet.check(dissect_assembled(&ip, protocol, &assembled, assembled.len()), assembled.len())?;
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), wire_len in 0_usize..300) {
        for link_type in LINK_TYPES {
            stays_inside(dissect(link_type, &bytes, wire_len), &bytes, wire_len)?;
        }
    }

    /// Bytes of a good frame changed: random ones hardly ever reach the transport header.
    #[test]
    fn changed_frames_never_panic(
        packet in any_packet(),
        changes in vec((0_usize..120, any::<u8>()), 1..4),
        cut in 0_usize..400,
    ) {
        let mut frame = packet.frame();
        for (offset, value) in changes {
            if let Some(byte) = frame.get_mut(offset) {
                *byte = value;
            }
        }
        let kept = &frame[..cut.min(frame.len())];
        let dissected = dissect(packet.link_type, kept, frame.len());
        stays_inside(dissected, kept, frame.len())?;
        if let Dissected::Fragment(ip, fragment) = dissected {
            let payload = &kept[ip.payload..][..ip.captured_len];
            let assembled = dissect_assembled(&ip, fragment.protocol, payload, ip.payload_len);
            stays_inside(assembled, payload, ip.payload_len)?;
        }
    }
}

fn stays_inside(dissected: Dissected, bytes: &[u8], wire_len: usize) -> Result<(), TestCaseError> {
    let inside = |payload: usize, payload_len: usize, kept: usize| {
        kept <= payload_len
            && payload + kept <= bytes.len()
            && payload_len <= wire_len.max(bytes.len())
    };
    let (ip, transport) = match dissected {
        Dissected::Tcp(ip, tcp) => (ip, inside(tcp.payload, tcp.payload_len, tcp.captured_len)),
        Dissected::Udp(ip, udp) => (ip, inside(udp.payload, udp.payload_len, udp.captured_len)),
        Dissected::Fragment(ip, fragment) => (ip, fragment.offset + ip.payload_len <= 65_535),
        _ => return Ok(()),
    };
    prop_assert!(
        transport && inside(ip.payload, ip.payload_len, ip.captured_len),
        "{:?}",
        dissected
    );
    Ok(())
}

/// Everything that a built frame can vary in.
#[derive(Debug, Clone)]
struct Packet {
    link_type: u16,
    is_ipv4: bool,
    addresses: [[u8; 16]; 2],
    tags: Vec<(u16, u16)>,
    ttl: u8,
    identification: u32,
    options: Vec<u8>,
    extensions: Vec<(u8, u8)>,
    is_tcp: bool,
    fields: TcpFields<'static>,
    tcp_options: Vec<u8>,
    payload: Vec<u8>,
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let network = (
        prop::sample::select(&LINK_TYPES[..]),
        any::<bool>(),
        any::<[[u8; 16]; 2]>(),
        vec(
            (
                prop::sample::select(&[0x8100, 0x88a8, 0x9100][..]),
                0_u16..4096,
            ),
            0..=4,
        ),
        any::<u8>(),
        any::<u32>(),
        vec(any::<u8>(), 0..=40),
        vec((prop::sample::select(&[0, 43, 60, 51][..]), 0_u8..3), 0..=3),
    );
    let transport = (
        any::<bool>(),
        any::<[u16; 3]>(),
        any::<[u32; 2]>(),
        any::<u8>(),
        vec(any::<u8>(), 0..=40),
        vec(any::<u8>(), 0..300),
    );
    (network, transport).prop_map(|(network, transport)| {
        let (link_type, is_ipv4, addresses, tags, ttl, identification, options, extensions) =
            network;
        let (
            is_tcp,
            [source_port, destination_port, window],
            [sequence, acknowledgement],
            flags,
            tcp_options,
            payload,
        ) = transport;
        Packet {
            link_type,
            is_ipv4: match link_type {
                228 => true,
                229 => false,
                _ => is_ipv4,
            },
            addresses,
            tags: if matches!(link_type, 1 | 113 | 276) {
                tags
            } else {
                Vec::new()
            },
            ttl,
            identification,
            options,
            extensions,
            is_tcp,
            fields: TcpFields {
                source_port,
                destination_port,
                sequence,
                acknowledgement,
                flags: TcpFlags(flags),
                window,
                options: &[],
            },
            tcp_options,
            payload,
        }
    })
}

impl Packet {
    fn address(&self, index: usize) -> IpAddr {
        let octets = self.addresses[index];
        match octets.first_chunk::<4>() {
            Some(&octets) if self.is_ipv4 => octets.into(),
            _ => octets.into(),
        }
    }

    fn builder(&self) -> FrameBuilder {
        let mut builder = FrameBuilder::new(self.address(0), self.address(1))
            .with_link_type(self.link_type)
            .with_ttl(self.ttl)
            .with_identification(self.identification);
        for &(kind, id) in &self.tags {
            builder = builder.with_tag(kind, id);
        }
        if self.is_ipv4 {
            return builder.with_options(&self.options);
        }
        for &(kind, units) in &self.extensions {
            let len = match kind {
                51 => (usize::from(units) + 3) * 4,
                _ => (usize::from(units) + 1) * 8,
            };
            let mut header = vec![0; len];
            header[1] = if kind == 51 { units + 1 } else { units };
            builder = builder.with_extension(kind, &header);
        }
        builder
    }

    fn transport(&self) -> (u8, Vec<u8>) {
        if self.is_tcp {
            (
                PROTOCOL_TCP,
                self.builder().tcp_segment(&self.fields(), &self.payload),
            )
        } else {
            let (source, destination) = (self.fields.source_port, self.fields.destination_port);
            (
                PROTOCOL_UDP,
                self.builder()
                    .udp_datagram(source, destination, &self.payload),
            )
        }
    }

    fn fields(&self) -> TcpFields<'_> {
        TcpFields {
            options: &self.tcp_options,
            ..self.fields
        }
    }

    fn frame(&self) -> Vec<u8> {
        let (protocol, payload) = self.transport();
        self.builder().packet(protocol, &payload)
    }

    fn identification(&self) -> u32 {
        if self.is_ipv4 {
            self.identification & 0xffff
        } else {
            self.identification
        }
    }

    /// `dissected` is this packet, of which the payload's end was cut at `kept` bytes of the frame.
    fn check(&self, dissected: Dissected, kept: usize) -> Result<(), TestCaseError> {
        let (ip, payload, payload_len, payload_kept, ports) = match dissected {
            Dissected::Tcp(ip, tcp) => {
                prop_assert!(self.is_tcp);
                prop_assert_eq!(tcp.sequence.0, self.fields.sequence);
                prop_assert_eq!(tcp.acknowledgement.0, self.fields.acknowledgement);
                prop_assert_eq!(tcp.flags, self.fields.flags);
                prop_assert_eq!(tcp.window, self.fields.window);
                let options_len = self.tcp_options.len().next_multiple_of(4);
                prop_assert_eq!(tcp.header_len, 20 + options_len);
                (
                    ip,
                    tcp.payload,
                    tcp.payload_len,
                    tcp.captured_len,
                    (tcp.source_port, tcp.destination_port),
                )
            }
            Dissected::Udp(ip, udp) => {
                prop_assert!(!self.is_tcp);
                (
                    ip,
                    udp.payload,
                    udp.payload_len,
                    udp.captured_len,
                    (udp.source_port, udp.destination_port),
                )
            }
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        prop_assert_eq!(
            ports,
            (self.fields.source_port, self.fields.destination_port)
        );
        prop_assert_eq!(payload_len, self.payload.len());
        prop_assert_eq!(payload + payload_kept, kept);
        prop_assert_eq!(
            (ip.source, ip.destination),
            (self.address(0), self.address(1))
        );
        prop_assert_eq!(ip.ttl, self.ttl);
        let checksum = if self.is_ipv4 {
            HeaderChecksum::Right
        } else {
            HeaderChecksum::NoneInIpv6
        };
        prop_assert_eq!(ip.checksum, checksum);
        Ok(())
    }
}

fn ipv4() -> FrameBuilder {
    FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
}

fn ipv6() -> FrameBuilder {
    let address = |last| IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    FrameBuilder::new(address(1), address(2))
}

fn fields() -> TcpFields<'static> {
    TcpFields {
        source_port: 700,
        destination_port: 2049,
        flags: TcpFlags::ACK,
        ..TcpFields::default()
    }
}

fn ip_of(frame: &[u8]) -> Ip {
    match dissect(1, frame, frame.len()) {
        Dissected::Tcp(ip, _) => ip,
        other => panic!("{other:?}"),
    }
}
