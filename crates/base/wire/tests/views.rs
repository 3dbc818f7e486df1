//! Headers that are written read the same through the views, whose getters never panic after
//! `new_checked`; checksums are updated as if they were computed anew.

use std::net::IpAddr;

use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::ethernet::{self, Tag, ether_type};
use lineside_wire::tcp::{MalformedOption, SackBlocks, Segment, TcpOption, TcpOptions};
use lineside_wire::udp::Datagram;
use lineside_wire::{SeqNumber, TcpFlags, addresses, arp, checksum, icmp, ipv4, ipv6};
use proptest::collection::vec;
use proptest::prelude::*;

/// What a sender chooses of a frame.
#[derive(Debug, Clone)]
struct Choices {
    is_ipv4: bool,
    addresses: [[u8; 16]; 2],
    link_addresses: [[u8; 6]; 2],
    tag: u16,
    ttl: u8,
    ecn: u8,
    identification: u16,
    ports: [u16; 2],
    numbers: [u32; 2],
    flags: u8,
    window: u16,
    options: Vec<u8>,
    payload: Vec<u8>,
}

fn choices() -> impl Strategy<Value = Choices> {
    let network = (
        any::<bool>(),
        any::<[[u8; 16]; 2]>(),
        any::<[[u8; 6]; 2]>(),
        0_u16..4096,
        any::<[u8; 2]>(),
        any::<u16>(),
    );
    let transport = (
        any::<[u16; 3]>(),
        any::<[u32; 2]>(),
        any::<u8>(),
        vec(any::<u8>(), 0..=40),
        vec(any::<u8>(), 0..300),
    );
    (network, transport).prop_map(|(network, transport)| {
        let (is_ipv4, addresses, link_addresses, tag, [ttl, ecn], identification) = network;
        let ([source_port, destination_port, window], numbers, flags, options, payload) = transport;
        Choices {
            is_ipv4,
            addresses,
            link_addresses,
            tag,
            ttl,
            ecn: ecn & 3,
            identification,
            ports: [source_port, destination_port],
            numbers,
            flags,
            window,
            options,
            payload,
        }
    })
}

impl Choices {
    fn ends(&self) -> [IpAddr; 2] {
        self.addresses
            .map(|octets| match octets.first_chunk::<4>() {
                Some(&octets) if self.is_ipv4 => octets.into(),
                _ => octets.into(),
            })
    }

    fn builder(&self) -> FrameBuilder {
        let [source, destination] = self.ends();
        FrameBuilder::new(source, destination)
            .with_link_addresses(self.link_addresses[0], self.link_addresses[1])
            .with_tag(ether_type::VLAN, self.tag)
            .with_ttl(self.ttl)
            .with_ecn(self.ecn)
            .with_identification(self.identification.into())
    }

    fn fields(&self) -> TcpFields<'_> {
        TcpFields {
            source_port: self.ports[0],
            destination_port: self.ports[1],
            sequence: self.numbers[0],
            acknowledgement: self.numbers[1],
            flags: TcpFlags(self.flags),
            window: self.window,
            options: &self.options,
        }
    }

    /// Compares everything before the transport header, and returns what is after it.
    fn check_network<'a>(&self, bytes: &'a [u8], protocol: u8) -> Result<&'a [u8], TestCaseError> {
        let frame = ethernet::Frame::new_checked(bytes).expect("an Ethernet frame");
        let link_addresses = [frame.source(), frame.destination()];
        prop_assert_eq!(link_addresses, self.link_addresses);
        prop_assert_eq!(frame.ether_type(), ether_type::VLAN);
        let ip_type = if self.is_ipv4 {
            ether_type::IPV4
        } else {
            ether_type::IPV6
        };
        let tag = Tag::new_unchecked(frame.payload());
        prop_assert_eq!((tag.id(), tag.ether_type()), (self.tag, ip_type));
        let at = ethernet::HEADER_LEN + ethernet::TAG_LEN;
        let bytes = &bytes[at..];
        let (ends, header_len) = if self.is_ipv4 {
            let packet = ipv4::Packet::new_checked(bytes).expect("an IPv4 packet");
            prop_assert!(packet.verify_checksum() && !packet.is_fragment());
            prop_assert_eq!((packet.ttl(), packet.ecn()), (self.ttl, self.ecn));
            prop_assert_eq!(packet.identification(), self.identification);
            prop_assert_eq!((packet.protocol(), packet.options().len()), (protocol, 0));
            let ends: [IpAddr; 2] = [packet.source().into(), packet.destination().into()];
            (ends, packet.header_len())
        } else {
            let packet = ipv6::Packet::new_checked(bytes).expect("an IPv6 packet");
            prop_assert_eq!((packet.hop_limit(), packet.ecn()), (self.ttl, self.ecn));
            prop_assert_eq!(packet.next_header(), protocol);
            let ends: [IpAddr; 2] = [packet.source().into(), packet.destination().into()];
            (ends, ipv6::HEADER_LEN)
        };
        prop_assert_eq!(ends, self.ends());
        Ok(&bytes[header_len..])
    }
}

proptest! {
    #[test]
    fn an_emitted_segment_reads_the_same(choices in choices()) {
        let (builder, fields) = (choices.builder(), choices.fields());
        // What was in the buffer before does not matter.
        let mut buffer = [0xee; 512];
        let len = builder.emit_tcp(&fields, &choices.payload, &mut buffer);
        prop_assert_eq!(len, builder.tcp_len(&fields, choices.payload.len()));
        prop_assert_eq!(&buffer[..len], &builder.tcp(&fields, &choices.payload)[..]);
        prop_assert!(buffer[len..].iter().all(|&byte| byte == 0xee));
        let bytes = choices.check_network(&buffer[..len], 6)?;
        let segment = Segment::new_checked(bytes).expect("a segment");
        prop_assert_eq!([segment.source_port(), segment.destination_port()], choices.ports);
        prop_assert_eq!([segment.sequence().0, segment.acknowledgement().0], choices.numbers);
        prop_assert_eq!((segment.flags().0, segment.window()), (choices.flags, choices.window));
        prop_assert_eq!(segment.payload(), &choices.payload[..]);
        let [source, destination] = choices.ends();
        prop_assert!(segment.verify_checksum(source, destination));
        let mut changed = bytes.to_vec();
        changed[4] ^= 1;
        prop_assert!(!Segment::new_unchecked(changed).verify_checksum(source, destination));
    }

    #[test]
    fn an_emitted_datagram_reads_the_same(choices in choices()) {
        let builder = choices.builder();
        let mut buffer = [0xee; 512];
        let len = builder.emit_udp(choices.ports, &choices.payload, &mut buffer);
        prop_assert_eq!(len, builder.udp_len(choices.payload.len()));
        let bytes = choices.check_network(&buffer[..len], 17)?;
        let datagram = Datagram::new_checked(bytes).expect("a datagram");
        prop_assert_eq!([datagram.source_port(), datagram.destination_port()], choices.ports);
        prop_assert_eq!(datagram.payload(), &choices.payload[..]);
        let [source, destination] = choices.ends();
        prop_assert!(datagram.checksum() != 0 && datagram.verify_checksum(source, destination));
        let mut changed = bytes.to_vec();
        changed[0] ^= 1;
        prop_assert!(!Datagram::new_unchecked(changed).verify_checksum(source, destination));
    }

    #[test]
    fn getters_of_checked_bytes_never_panic(mut bytes in vec(any::<u8>(), 0..80), plain in any::<bool>()) {
        // Half of them begin as an IPv4 packet does: random bytes seldom do.
        if let (true, [version, ..]) = (plain, &mut bytes[..]) {
            *version = ipv4::VERSION_LEN_PLAIN;
        }
        if let Some(packet) = ipv4::Packet::new_checked(&bytes) {
            prop_assert!(packet.options().len() + packet.payload().len() + 20 <= bytes.len());
            packet.verify_checksum();
        }
        if let Some(packet) = ipv6::Packet::new_checked(&bytes) {
            prop_assert!(packet.payload().len() + 40 <= bytes.len());
        }
        if let Some(segment) = Segment::new_checked(&bytes) {
            prop_assert!(segment.payload().len() + 20 <= bytes.len());
            prop_assert!(segment.options().count() <= 20);
        }
        if let Some(datagram) = Datagram::new_checked(&bytes) {
            prop_assert!(datagram.payload().len() + 8 <= bytes.len());
        }
        if let Some(packet) = arp::Packet::new_checked(&bytes) {
            let _ = (packet.sender_address(), packet.target_address());
        }
        if let Some(echo) = icmp::Echo::new_checked(&bytes) {
            let _ = (echo.kind(), echo.identifier(), echo.sequence());
        }
        if let Some(frame) = ethernet::Frame::new_checked(&bytes) {
            prop_assert_eq!(frame.payload().len() + 14, bytes.len());
        }
    }

    /// RFC 1624 against the whole sum, for words at the edges too.
    #[test]
    fn an_updated_checksum_is_the_computed_one(
        words in vec(prop_oneof![Just(0), Just(0xffff), any::<u16>()], 1..8), at in 0_usize..8,
        new in prop_oneof![Just(0), Just(0xffff), any::<u16>()],
    ) {
        let of = |words: &[u16]| checksum::checksum(&words.iter().flat_map(|word|
        word.to_be_bytes()).collect::<Vec<_>>());
        let (at, mut changed) = (at % words.len(), words.clone());
        changed[at] = new;
        let updated = checksum::update(of(&words), words[at], new);
        if changed.iter().any(|&word| word != 0) {
            prop_assert_eq!(updated, of(&changed));
        } else {
            prop_assert!(matches!(updated, 0 | 0xffff));
        }
    }

    #[test]
    fn a_datagrams_checksum_follows_its_ports(
        ports in any::<[u16; 2]>(), new in any::<u16>(), payload in vec(any::<u8>(), 0..9), solve in any::<bool>(),
    ) {
        let (source, destination) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let builder = FrameBuilder::new(source, destination);
        let mut new = new;
        if solve {
            // The port with which the checksum comes out as 0, which is sent as 0xffff.
            let zero = builder.udp_datagram(0, ports[1], &payload);
            new = Datagram::new_unchecked(zero).checksum();
        }
        let mut bytes = builder.udp_datagram(ports[0], ports[1], &payload);
        let mut datagram = Datagram::new_unchecked(&mut bytes);
        datagram.set_source_port(new);
        datagram.update_checksum(ports[0], new);
        prop_assert!(!solve || datagram.checksum() == 0xffff);
        prop_assert_eq!(bytes, builder.udp_datagram(new, ports[1], &payload));
    }

    #[test]
    fn options_read_as_written(options in vec(any_option(), 0..4), padding in 0_usize..3) {
        let mut buffer = [0xee; 160];
        let mut rest = &mut buffer[..];
        for (option, blocks) in &options {
            let blocks: Vec<_> = blocks.iter().map(|&(start, end)| SackBlocks::block(start, end)).collect();
            let option = match option {
                Some(option) => *option,
                None => TcpOption::Sack(SackBlocks::new(&blocks)),
            };
            rest = option.emit(rest);
            rest[..padding].fill(1);
            rest = &mut rest[padding..];
        }
        rest[0] = 0;
        let mut read = TcpOptions::new(&buffer);
        for (option, blocks) in &options {
            match (read.next(), option) {
                (Some(Ok(TcpOption::Sack(read))), None) => prop_assert!(read.iter().eq(blocks.iter().copied())),
                (read, option) => prop_assert_eq!(read, option.map(Ok)),
            }
        }
        prop_assert_eq!(read.next(), None);
    }
}

/// An option; `None` with the blocks of a selective acknowledgement.
fn any_option() -> impl Strategy<Value = (Option<TcpOption<'static>>, Vec<(SeqNumber, SeqNumber)>)>
{
    let block = any::<[u32; 2]>().prop_map(|[start, end]| (SeqNumber(start), SeqNumber(end)));
    prop_oneof![
        any::<u16>().prop_map(|mss| (Some(TcpOption::Mss(mss)), Vec::new())),
        any::<u8>().prop_map(|shift| (Some(TcpOption::WindowScale(shift)), Vec::new())),
        Just((Some(TcpOption::SackPermitted), Vec::new())),
        any::<[u32; 2]>()
            .prop_map(|[value, echo]| (Some(TcpOption::Timestamps { value, echo }), Vec::new())),
        vec(block, 1..=SackBlocks::MAX).prop_map(|blocks| (None, blocks)),
    ]
}

#[test]
fn unknown_options_are_skipped_and_malformed_ones_end() {
    fn all(bytes: &[u8]) -> Vec<Result<TcpOption<'_>, MalformedOption>> {
        TcpOptions::new(bytes).collect()
    }
    // Kind 254 of 4 bytes, no operation, window scale, end, and one after it.
    let bytes = [254, 4, 9, 9, 1, 3, 3, 7, 0, 4, 2];
    assert_eq!(all(&bytes), [Ok(TcpOption::WindowScale(7))]);
    // Lengths of 0 and 1, beyond the end, and wrong for the kind.
    for malformed in [
        &[3, 0, 7][..],
        &[3, 1],
        &[254, 5, 0],
        &[3],
        &[2, 3, 5],
        &[5, 9, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let bytes = [&[4, 2], malformed].concat();
        assert_eq!(
            all(&bytes),
            [Ok(TcpOption::SackPermitted), Err(MalformedOption)],
            "{bytes:?}"
        );
    }
}

#[test]
fn an_emitted_request_asks_for_an_address() {
    let mut bytes = [0; ethernet::HEADER_LEN + arp::PACKET_LEN];
    let mut frame = ethernet::Frame::new_unchecked(&mut bytes);
    frame.set_ether_type(ether_type::ARP);
    let sender = ([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into());
    arp::Packet::emit(
        frame.payload_mut(),
        arp::REQUEST,
        sender,
        ([0; 6], [10, 0, 0, 2].into()),
    );
    // RFC 826, byte by byte.
    let expected = [
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ];
    assert_eq!(bytes[ethernet::HEADER_LEN..], expected);
    let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    assert_eq!(addresses(1, &bytes), Some(ends));
}

#[test]
fn an_emitted_echo_sums_up() {
    let mut bytes = [0x5a; 64];
    let echo = icmp::Echo::emit(&mut bytes, icmp::kind::ECHO_REQUEST, 0x1234, 7);
    assert_eq!(
        (echo.kind(), echo.identifier(), echo.sequence()),
        (8, 0x1234, 7)
    );
    assert_eq!(checksum::sum(&bytes), 0xffff);
    assert_eq!(bytes[..2], [8, 0]);
    assert_eq!(bytes[4..8], [0x12, 0x34, 0, 7]);
}
