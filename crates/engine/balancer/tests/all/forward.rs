//! Segments and datagrams both ways.

use lineside_balancer::{Decision, NodeSettings, Route, Settings, Translation};
use lineside_wire::build::TcpFields;
use lineside_wire::{Dissected, TcpFlags, arp, checksum, dissect, ipv4, tcp};
use proptest::prelude::*;

use crate::bench::*;

#[test]
fn a_handshake_passes_both_ways_with_both_ends_hidden() {
    let mut bench = Bench::new(settings());
    let client = from_client("10.9.1.7", "10.9.1.100");
    let syn = client.tcp(&segment([4000, 80], 100, TcpFlags::SYN), &[]);
    let (port, at_node) = bench.send_one(CLIENTS, &syn);
    assert_eq!(port, NODES);
    assert!(is_right(&at_node));
    let [source, node] = ends(&at_node);
    assert_eq!(source.ip(), address("10.9.2.100"), "the client is hidden");
    assert!(["10.9.2.2:8080", "10.9.2.3:8080"].contains(&node.to_string().as_str()));
    assert_eq!(at_node[..6], node_ethernet(node.ip()));
    let (port, at_client) = bench.send_one(NODES, &turned(&at_node));
    assert_eq!(port, CLIENTS);
    assert!(is_right(&at_client));
    assert_eq!(
        ends(&at_client),
        [socket("10.9.1.100:80"), socket("10.9.1.7:4000")]
    );
    assert_eq!(at_client[..6], CLIENT, "where its last frame came from");
}

/// The IP version, as what a random frame is made of.
fn addresses(is_v6: bool) -> [&'static str; 2] {
    match is_v6 {
        false => ["10.9.1.7", "10.9.1.100"],
        true => ["fd00:1::7", "fd00:1::100"],
    }
}

/// Whether a frame went through unchanged but for two hops, whose header checksum follows.
fn same_but_for_hops(there: &[u8], back: &[u8]) -> bool {
    let mut expected = turned(there);
    match expected[14] >> 4 {
        4 => {
            let len = usize::from(expected[14] & 15) * 4;
            let mut packet = ipv4::Packet::new_unchecked(&mut expected[14..14 + len]);
            let ttl = packet.ttl() - 2;
            packet.set_ttl(ttl);
            packet.fill_checksum();
        }
        _ => expected[21] -= 2,
    }
    expected[..12].copy_from_slice(&back[..12]);
    expected == back
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// What goes to a node and comes back is the same frame, byte for byte.
    #[test]
    fn there_and_back_is_the_same_frame(
        seed in any::<u64>(), is_v6 in any::<bool>(), is_udp in any::<bool>(),
        port in 1..u16::MAX, numbers in any::<[u32; 2]>(), class in any::<u8>(),
        options in 0..=10_usize, ip_options in 0..=10_usize,
        payload in proptest::collection::vec(any::<u8>(), 0..200),
        is_partial in any::<bool>(), is_unsummed in any::<bool>(), padding in 0..20_usize,
    ) {
        let mut bench = Bench::new(Settings { seed, ..settings() });
        let [source, destination] = addresses(is_v6);
        let mut builder = from_client(source, destination).with_ecn(class).with_identification(9);
        if !is_v6 {
            builder = builder.with_options(&vec![1; 4 * ip_options]);
        }
        let no_operation = [1; 40];
        let fields = TcpFields {
            acknowledgement: numbers[1],
            options: &no_operation[..4 * options],
            ..segment([port, 80], numbers[0], TcpFlags::SYN)
        };
        let mut frame = match is_udp {
            true => builder.udp(port, 53, &payload),
            false => builder.tcp(&fields, &payload),
        };
        let at = transport_at(&frame);
        if is_udp && is_unsummed && !is_v6 {
            frame[at + 6..at + 8].fill(0);
        } else if is_partial {
            leave_to_card(&mut frame);
        }
        frame.extend(vec![0; padding]);
        let (_, at_node) = bench.send_one(CLIENTS, &frame);
        let is_finished = is_right(&at_node);
        prop_assert!(is_finished || is_partial && is_partial_of(&at_node));
        let (_, back) = bench.send_one(NODES, &turned(&at_node));
        prop_assert!(same_but_for_hops(&frame, &back), "{frame:?}\n{back:?}");
        bench.check_identity();
    }
}

/// Leaves the checksum of a frame to a card: the field has the pseudo-header's sum.
fn leave_to_card(frame: &mut [u8]) {
    let at = transport_at(frame);
    let [source, destination] = ends(frame);
    let (protocol, field) = match frame[if frame[14] >> 4 == 4 { 23 } else { 20 }] {
        6 => (6, at + 16),
        _ => (17, at + 6),
    };
    let len = frame.len() - at;
    let sum = checksum::pseudo_header_sum(source.ip(), destination.ip(), protocol, len);
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

fn is_partial_of(frame: &[u8]) -> bool {
    match dissect(1, frame, frame.len()) {
        Dissected::Tcp(_, tcp) => tcp.checksum_offloaded,
        Dissected::Udp(_, udp) => udp.checksum_offloaded,
        _ => false,
    }
}

#[test]
fn a_checksum_left_to_a_card_stays_partial() {
    let mut bench = Bench::new(settings());
    let client = from_client("10.9.1.7", "10.9.1.100");
    for (at, payload) in [&b""[..], b"some", b"more bytes"].into_iter().enumerate() {
        let mut frame = client.udp(4000, 53, payload);
        leave_to_card(&mut frame);
        let (_, mut at_node) = bench.send_one(CLIENTS, &frame);
        assert!(is_partial_of(&at_node), "datagram {at}");
        assert!(lineside_wire::complete_checksum(1, &mut at_node));
        assert!(is_right(&at_node), "finished by the card");
    }
}

/// A finished checksum that equals the pseudo-header's sum is not taken for a partial one.
#[test]
fn a_finished_checksum_that_looks_partial_is_finished() {
    let mut bench = Bench::new(settings());
    let client = from_client("10.9.1.7", "10.9.1.100");
    // The payload's word is chosen so that the finished sum is that of the pseudo-header.
    let looks = (0..=u16::MAX).map(|word| client.udp(4000, 53, &word.to_be_bytes()));
    let frame = { looks }
        .find(|frame| is_partial_of(frame))
        .expect("one of all words");
    assert!(is_right(&frame));
    let (_, at_node) = bench.send_one(CLIENTS, &frame);
    assert!(is_right(&at_node));
}

#[test]
fn a_node_sees_the_client_where_it_is_kept() {
    let mut settings = settings();
    settings.nat.clear();
    for service in &mut settings.services {
        service.keeps_client = true;
    }
    let mut bench = Bench::new(settings);
    let syn =
        from_client("10.9.1.7", "10.9.1.100").tcp(&segment([4000, 80], 1, TcpFlags::SYN), &[]);
    let (_, at_node) = bench.send_one(CLIENTS, &syn);
    assert_eq!(ends(&at_node)[0], socket("10.9.1.7:4000"));
    let (port, back) = bench.send_one(NODES, &turned(&at_node));
    assert_eq!((port, ends(&back)[0]), (CLIENTS, socket("10.9.1.100:80")));
}

#[test]
fn a_hairpin_passes_by_one_port() {
    let mut settings = settings();
    settings.ports.truncate(1);
    settings.routes = vec![Route {
        network: (address("10.9.2.0"), 24),
        via: Some(address("10.9.1.1")),
        port: 0,
    }];
    let mut bench = Bench::new(settings);
    let syn =
        from_client("10.9.1.7", "10.9.1.100").tcp(&segment([4000, 80], 1, TcpFlags::SYN), &[]);
    assert_eq!(bench.send(CLIENTS, &syn), [], "it waits for the gateway");
    assert_eq!(bench.nat.held(), 1);
    bench.nat.spill(1 << 20);
    let gateway = [2, 0, 0, 0, 9, 9];
    let mut reply = vec![0; 42];
    reply[..6].copy_from_slice(&OURS[0]);
    reply[6..12].copy_from_slice(&gateway);
    reply[12..14].copy_from_slice(&[8, 6]);
    let ours = (OURS[0], std::net::Ipv4Addr::new(10, 9, 2, 100));
    let theirs = (gateway, std::net::Ipv4Addr::new(10, 9, 1, 1));
    arp::Packet::emit(&mut reply[14..], arp::REPLY, theirs, ours);
    let (port, left) = bench.send_one(CLIENTS, &reply);
    assert_eq!((port, &left[..6]), (0, &gateway[..]));
    assert!(is_right(&left));
    bench.check_identity();
}

#[test]
fn segment_sizes_are_clamped_where_ports_differ() {
    for (is_v6, headers) in [(false, 40), (true, 60)] {
        let mut settings = settings();
        settings.ports[NODES].mtu = 1400;
        let mut bench = Bench::new(settings);
        let [source, destination] = addresses(is_v6);
        for options in [&[2, 4, 5, 180][..], &[1, 2, 4, 5, 180, 1, 1, 1]] {
            let fields = TcpFields {
                options,
                ..segment([4000 + options.len() as u16, 80], 1, TcpFlags::SYN)
            };
            let syn = from_client(source, destination).tcp(&fields, &[]);
            let (_, at_node) = bench.send_one(CLIENTS, &syn);
            assert!(is_right(&at_node));
            let segment = tcp::Segment::new_unchecked(&at_node[transport_at(&at_node)..]);
            let mss = segment.options().flatten().next();
            assert_eq!(mss, Some(tcp::TcpOption::Mss(1400 - headers)));
        }
    }
}

#[test]
fn established_flows_are_handed_to_the_driver_and_taken_back() {
    let mut bench = Bench::new(settings());
    let mut talk = Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 4000);
    let to_node = |bench: &Bench| -> u64 {
        let report = bench.nat.report(bench.now);
        let nodes = report.services[0].nodes.iter();
        nodes.map(|node| node.to_node.frames).sum()
    };
    for round in 0..12 {
        talk.say(&mut bench, b"a request");
        talk.answer(&mut bench, b"an answer");
        let is_long = !bench.decided.is_empty();
        assert!(!is_long || round >= 9, "a short connection: {round}");
    }
    let entered: Vec<Translation> = { bench.decided.drain(..) }
        .map(|decision| match decision {
            Decision::Enter(translation) => translation,
            Decision::Leave(key) => panic!("too early: {key:?}"),
        })
        .collect();
    assert_eq!(entered.len(), 2, "both directions");
    let [there, back] = entered[..] else {
        panic!("two")
    };
    assert_eq!(
        (there.source, there.destination),
        (socket("10.9.1.7:4000"), socket("10.9.1.100:80"))
    );
    assert_eq!(
        (there.new_source, there.new_destination),
        (back.destination, back.source)
    );
    assert_eq!(
        (there.port, there.out_port, back.port, back.out_port),
        (0, 1, 1, 0)
    );
    assert_eq!(back.ethernet_destination, CLIENT);
    assert_eq!(
        there.ethernet_destination,
        node_ethernet(there.new_destination.ip())
    );
    // What the driver forwards keeps the connection alive, and is counted.
    let before = to_node(&bench);
    for _ in 0..10 {
        bench.pass(7_000 * SECOND);
        let now = bench.now;
        bench.nat.passed(now, &there.key(), 100, 150_000);
    }
    let report = bench.nat.report(bench.now);
    assert_eq!(report.table.connections, 1);
    assert_eq!(to_node(&bench), before + 1_000);
    // The end comes up, and the driver is to forget both.
    talk.finish(&mut bench);
    let left: Vec<_> = bench.decided.drain(..).collect();
    let keys = [there.key(), back.key()].map(Decision::Leave);
    assert!(
        keys.iter().all(|key| left.contains(key)) && left.len() == 2,
        "{left:?}"
    );
}

#[test]
fn flows_with_partial_checksums_stay_up() {
    let mut bench = Bench::new(settings());
    for _ in 0..10 {
        let mut frame = from_client("10.9.1.7", "10.9.1.100").udp(4000, 53, b"question");
        leave_to_card(&mut frame);
        let (_, at_node) = bench.send_one(CLIENTS, &frame);
        let mut answer = turned(&at_node);
        assert!(lineside_wire::complete_checksum(1, &mut answer));
        bench.send_one(NODES, &answer);
    }
    let [Decision::Enter(only)] = bench.decided[..] else {
        panic!("one direction: {:?}", bench.decided)
    };
    assert_eq!(only.port, NODES, "the node's answers are finished");
}

#[test]
fn multicast_datagrams_reach_all_nodes() {
    let mut settings = settings();
    settings.services[1].multicast = true;
    let more = (4..10).map(|last| format!("10.9.2.{last}:8080"));
    let more: Vec<NodeSettings> = { more }
        .map(|text| NodeSettings {
            address: socket(&text),
            weight: 1,
        })
        .collect();
    settings.services[1].nodes.extend(more);
    let mut bench = Bench::new(settings);
    let datagram = from_client("10.9.1.7", "10.9.1.100").udp(4000, 53, b"for all");
    let left = bench.send(CLIENTS, &datagram);
    let mut receivers: Vec<_> = left.iter().map(|(_, bytes)| ends(bytes)[1]).collect();
    receivers.sort();
    receivers.dedup();
    assert_eq!(receivers.len(), 8);
    for (_, bytes) in &left {
        assert!(is_right(bytes));
        assert_eq!(bytes[..6], node_ethernet(ends(bytes)[1].ip()));
        assert!(bytes.ends_with(b"for all"));
    }
    let payload = [7; 1400];
    let datagram = from_client("10.9.1.7", "10.9.1.100").udp(4000, 53, &payload);
    let frames = bench.send_frames(CLIENTS, &datagram);
    let mut places: Vec<_> = frames.iter().map(|frame| frame.rest().as_ptr()).collect();
    assert_eq!(places.len(), 8);
    places.dedup();
    assert_eq!(places.len(), 1, "one payload, where it was received");
    for frame in &frames {
        assert!(is_right(&frame.parts().concat()));
        assert_eq!((frame.bytes().len(), frame.rest()), (42, &payload[..]));
    }
    bench.check_identity();
}
