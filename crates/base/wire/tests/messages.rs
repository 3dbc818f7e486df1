//! Headers written in place, ICMP with a packet inside and neighbour discovery: they read as they
//! were written, and tshark reads the same.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use lineside_testkit::{capture, tshark};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::ethernet::ether_type;
use lineside_wire::headers::{Headers, emit_link};
use lineside_wire::icmp::{self, Failure, PacketError};
use lineside_wire::neighbour::{self, Neighbour, What};
use lineside_wire::tcp::{SackBlocks, TcpOption};
use lineside_wire::{
    PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, SeqNumber, TcpFlags, arp, checksum,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn ends() -> impl Strategy<Value = [IpAddr; 2]> {
    prop_oneof![
        any::<[Ipv4Addr; 2]>().prop_map(|ends| ends.map(IpAddr::from)),
        any::<[Ipv6Addr; 2]>().prop_map(|ends| ends.map(IpAddr::from)),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    prop_oneof![
        // 4 is another failure in ICMP.
        (5_u8..16).prop_map(Failure::Unreachable),
        (0_u32..65_536).prop_map(Failure::TooBig),
        any::<u8>().prop_map(Failure::TimeExceeded),
    ]
}

fn icmp_protocol(ends: [IpAddr; 2]) -> u8 {
    match ends[0].is_ipv4() {
        true => PROTOCOL_ICMP,
        false => PROTOCOL_ICMPV6,
    }
}

proptest! {
    /// The builder, which other tests compare with tshark, writes the same frame.
    #[test]
    fn headers_in_place_are_those_of_the_builder(
        ends in ends(), link in any::<[[u8; 6]; 2]>(), ttl in any::<u8>(), ecn in 0_u8..4,
        control in any::<u16>(), tags in 0_usize..3, identification in any::<u16>(),
        options in vec(any::<u8>(), 0..=40), payload in vec(any::<u8>(), 0..100),
    ) {
        let kinds = [ether_type::SERVICE_VLAN, ether_type::VLAN];
        let tag = |index: usize| (index < tags).then_some((kinds[index], control));
        let headers = Headers {
            link,
            tags: [tag(0), tag(1)],
            hop_count: ttl,
            ecn,
            identification: Some(identification),
            ..Headers::new(ends[0], ends[1])
        };
        let fields = TcpFields { sequence: 7, options: &options, ..TcpFields::default() };
        let mut frame = [0x5a; 400];
        let segment = headers.emit(PROTOCOL_TCP, fields.header_len() + payload.len(), &mut frame);
        segment[fields.header_len()..].copy_from_slice(&payload);
        fields.emit(headers.ends, segment);
        let len = headers.len_bytes() + fields.header_len() + payload.len();
        let mut builder = FrameBuilder::new(ends[0], ends[1])
            .with_link_addresses(link[1], link[0])
            .with_ttl(ttl)
            .with_ecn(ecn)
            .with_identification(identification.into());
        for (kind, control) in headers.tags.into_iter().flatten() {
            builder = builder.with_tag(kind, control);
        }
        prop_assert_eq!(&frame[..len], builder.tcp(&fields, &payload));
        prop_assert!(frame[len..].iter().all(|&byte| byte == 0x5a));
    }

    #[test]
    fn errors_read_as_written(
        ends in ends(), inside in ends(), failure in failure(), extension in any::<bool>(),
        payload in vec(any::<u8>(), 0..50), room in 0_usize..60,
    ) {
        // The packet inside is of the family of those outside.
        let inside = if inside[0].is_ipv4() == ends[0].is_ipv4() { inside } else { ends };
        let mut builder = FrameBuilder::new(inside[0], inside[1]).with_link_type(101);
        if extension && !ends[0].is_ipv4() {
            builder = builder.with_extension(60, &[0, 0, 1, 4, 0, 0, 0, 0]);
        }
        let packet = builder.packet(17, &payload);
        let headers_len = packet.len() - payload.len();
        let mut message = vec![0x5a; icmp::HEADER_LEN + headers_len + room];
        icmp::emit_error(failure, &packet, ends, &mut message);
        prop_assert_eq!(icmp::checksum_of(&message, ends), 0);
        let (read, other) = match ends[0].is_ipv4() {
            true => (PacketError::read(&message), PacketError::read_v6(&message)),
            false => (PacketError::read_v6(&message), PacketError::read(&message)),
        };
        let read = read.expect("an error");
        prop_assert_eq!(other, None);
        prop_assert_eq!((read.failure, read.protocol), (failure, 17));
        prop_assert_eq!([read.source, read.destination], inside);
        let kept = payload.len().min(room);
        prop_assert_eq!(&read.transport[..kept], &payload[..kept]);
    }

    #[test]
    fn replies_have_what_requests_had(ends in ends(), payload in vec(any::<u8>(), 0..3000)) {
        let kind = match ends[0].is_ipv4() {
            true => icmp::kind::ECHO_REQUEST,
            false => icmp::kind::ECHO_REQUEST_V6,
        };
        let mut request = [&[0; icmp::HEADER_LEN], &payload[..]].concat();
        icmp::Echo::emit(&mut request, kind, 0x1234, 77);
        let mut reply = vec![0x5a; request.len()];
        icmp::emit_reply(&request, ends, &mut reply);
        prop_assert_eq!(icmp::checksum_of(&reply, ends), 0);
        prop_assert_eq!(&reply[4..], &request[4..]);
        let echo = icmp::Echo::new_checked(&reply).expect("a header");
        prop_assert_eq!(echo.kind(), if ends[0].is_ipv4() { 0 } else { 129 });
    }

    #[test]
    fn neighbours_read_as_written(
        ends in any::<[Ipv6Addr; 2]>(), target in any::<Ipv6Addr>(), link in any::<[u8; 6]>(),
        answer in any::<Option<[bool; 2]>>(),
    ) {
        let what = answer.map_or(What::Solicitation, |[is_solicited, overrides]| {
            What::Advertisement { is_solicited, overrides }
        });
        let mut message = [0x5a; neighbour::MESSAGE_LEN];
        Neighbour::emit(what, target, link, ends, &mut message);
        let [source, destination] = ends.map(IpAddr::from);
        prop_assert_eq!(checksum::transport(source, destination, 58, &message), 0);
        let written = Neighbour { target, link_address: Some(link), what };
        let is_valid = !target.is_multicast();
        prop_assert_eq!(Neighbour::read(&message), is_valid.then_some(written));
    }

    #[test]
    fn no_message_makes_a_reader_panic(
        kind in prop_oneof![any::<u8>(), 1_u8..12, 135_u8..137], bytes in vec(any::<u8>(), 0..120),
    ) {
        let mut bytes = bytes;
        if let [first, code, ..] = &mut bytes[..] {
            (*first, *code) = (kind, *code & 1);
        }
        let _ = (PacketError::read(&bytes), PacketError::read_v6(&bytes), Neighbour::read(&bytes));
    }
}

#[test]
fn options_of_neighbours_without_a_length_are_refused() {
    let ends = [Ipv6Addr::LOCALHOST; 2];
    let mut message = [0; neighbour::MESSAGE_LEN];
    Neighbour::emit(What::Solicitation, ends[0], [1; 6], ends, &mut message);
    assert!(Neighbour::read(&message).is_some());
    for units in [0, 2] {
        message[25] = units;
        assert_eq!(Neighbour::read(&message), None, "{units}");
    }
    let without = Neighbour::read(&message[..24]).expect("no option is needed");
    assert_eq!(without.link_address, None);
}

/// What tshark reads of frames: the given fields of each, separated by commas.
fn read_by_tshark(frames: &[Vec<u8>], fields: &[&str]) -> Vec<String> {
    let frames: Vec<_> = { frames.iter().enumerate() }
        .map(|(number, bytes)| capture::Frame {
            stamp_ns: Some(number as i64),
            wire_len: bytes.len() as u32,
            link_type: 1,
            bytes: bytes.clone(),
        })
        .collect();
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-r",
        "-",
        "-T",
        "fields",
        "-E",
        "separator=,",
        "-E",
        "occurrence=a",
    ]);
    for option in ["ip.check_checksum", "tcp.check_checksum"] {
        command.args(["-o", &format!("{option}:TRUE")]);
    }
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut running = piped.spawn().expect("tshark runs");
    let mut input = running.stdin.take().expect("piped");
    input.write_all(&capture::write(&frames)).expect("taken");
    drop(input);
    let output = running.wait_with_output().expect("tshark ends");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

/// A SYN with all options, and a segment with blocks, in frames with a tag.
fn segments() -> Vec<Vec<u8>> {
    let headers = Headers {
        link: [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]],
        tags: [Some((ether_type::VLAN, 42)), None],
        dscp: 46,
        ecn: 2,
        hop_count: 9,
        ..Headers::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    };
    let mut options = [1; 40];
    let mut rest = &mut options[..];
    let blocks = [SackBlocks::block(SeqNumber(5000), SeqNumber(6000))];
    for option in [
        TcpOption::Mss(1460),
        TcpOption::SackPermitted,
        TcpOption::Timestamps {
            value: 77,
            echo: 99,
        },
        TcpOption::WindowScale(7),
        TcpOption::Sack(SackBlocks::new(&blocks)),
    ] {
        rest = option.emit(rest);
    }
    let fields = TcpFields {
        source_port: 700,
        destination_port: 2049,
        sequence: 1000,
        flags: TcpFlags::SYN,
        window: 4321,
        options: &options,
        ..TcpFields::default()
    };
    let mut frame = vec![0; headers.len_bytes() + fields.header_len()];
    fields.emit(
        headers.ends,
        headers.emit(PROTOCOL_TCP, fields.header_len(), &mut frame),
    );
    vec![frame]
}

#[test]
fn tshark_reads_segments_written_in_place() {
    if !tshark::available() {
        println!("SKIP: no tshark");
        return;
    }
    let fields = [
        "vlan.id",
        "ip.flags.df",
        "ip.ttl",
        "ip.dsfield.dscp",
        "ip.dsfield.ecn",
        "ip.checksum.status",
        "tcp.checksum.status",
        "tcp.window_size_value",
        "tcp.options.mss_val",
        "tcp.options.wscale.shift",
        "tcp.options.timestamp.tsval",
        "tcp.options.timestamp.tsecr",
        "tcp.options.sack_le",
        "tcp.options.sack_re",
        "tcp.len",
    ];
    let lines = read_by_tshark(&segments(), &fields);
    let flags =
        ["1", "True"].map(|set| format!("42,{set},9,46,2,1,1,4321,1460,7,77,99,5000,6000,0"));
    assert!(flags.contains(&lines[0]), "{lines:?}");
}

#[test]
fn tshark_reads_messages_written_in_place() {
    if !tshark::available() {
        println!("SKIP: no tshark");
        return;
    }
    let link = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
    let mut frames = Vec::new();
    let mut frame = vec![0; 14 + arp::PACKET_LEN];
    let sender = (link[1], Ipv4Addr::new(10, 0, 0, 1));
    let packet = emit_link(link, &[], ether_type::ARP, &mut frame);
    arp::Packet::emit(packet, arp::REPLY, sender, (link[0], [10, 0, 0, 2].into()));
    frames.push(frame);
    for (is_ipv4, failure) in [
        (true, Failure::TooBig(1400)),
        (false, Failure::TooBig(1300)),
        (true, Failure::Unreachable(3)),
        (false, Failure::TimeExceeded(0)),
    ] {
        let ends: [IpAddr; 2] = match is_ipv4 {
            true => [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
            false => [1, 2].map(|bits| Ipv6Addr::from_bits(0xfd << 120 | bits).into()),
        };
        let ours = FrameBuilder::new(ends[1], ends[0]).with_link_type(101);
        let packet = ours.tcp(
            &TcpFields {
                source_port: 4711,
                ..TcpFields::default()
            },
            b"",
        );
        let headers = Headers {
            link,
            ..Headers::new(ends[0], ends[1])
        };
        let len = icmp::HEADER_LEN + packet.len();
        let mut frame = vec![0; headers.len_bytes() + len];
        let message = headers.emit(icmp_protocol(ends), len, &mut frame);
        icmp::emit_error(failure, &packet, ends, message);
        frames.push(frame);
    }
    let ends = [1, 2].map(|bits| Ipv6Addr::from_bits(0xfd << 120 | bits));
    let group = neighbour::solicited_node(ends[1]);
    let headers = Headers {
        link: [neighbour::multicast_link_address(group), link[1]],
        hop_count: neighbour::HOP_LIMIT,
        ..Headers::new(ends[0].into(), group.into())
    };
    let mut frame = vec![0; headers.len_bytes() + neighbour::MESSAGE_LEN];
    let message = headers.emit(PROTOCOL_ICMPV6, neighbour::MESSAGE_LEN, &mut frame);
    Neighbour::emit(
        What::Solicitation,
        ends[1],
        link[1],
        [ends[0], group],
        message,
    );
    frames.push(frame);
    let fields = [
        "arp.opcode",
        "arp.src.hw_mac",
        "icmp.type",
        "icmp.mtu",
        "icmp.checksum.status",
        "icmpv6.type",
        "icmpv6.mtu",
        "icmpv6.checksum.status",
        "icmpv6.nd.ns.target_address",
        "icmpv6.opt.linkaddr",
        "ipv6.dst",
        "tcp.srcport",
    ];
    let expected = [
        "2,02:00:00:00:00:01,,,,,,,,,,",
        ",,3,1400,1,,,,,,,4711",
        ",,,,,2,1300,1,,,fd00::2,fd00::1,4711",
        ",,3,,1,,,,,,,4711",
        ",,,,,3,,1,,,fd00::2,fd00::1,4711",
        ",,,,,135,,1,fd00::2,02:00:00:00:00:01,ff02::1:ff00:2,",
    ];
    assert_eq!(read_by_tshark(&frames, &fields), expected);
}
