//! Fragments of IPv4 and IPv6 packets in any order, with any of them repeated, late or missing.

use std::net::IpAddr;

use lineside_account::{Budget, Counter, Counters};
use lineside_flow::{Config, Connection, Engine, FlowCounts, StreamSink};
use lineside_frame::{Cause, Chunk, Descriptor, Frame, LinkType};
use lineside_time::Random;
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::{Direction, PROTOCOL_TCP, PROTOCOL_UDP, TcpFlags, checksum, ipv4};
use proptest::prelude::*;

const PORTS: (u16, u16) = (700, 2049);
/// Of the header that lies in the first fragment.
const UDP_HEADER_LEN: usize = 8;
const ETHERNET_LEN: usize = 14;
/// IP protocol number of IPv4 in IP.
const IP_IN_IP: u8 = 4;

fn builder(ipv6: bool, identification: u32) -> FrameBuilder {
    let (source, destination): (IpAddr, IpAddr) = if ipv6 {
        (
            [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
            [0xfd00, 0, 0, 0, 0, 0, 0, 2].into(),
        )
    } else {
        ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    };
    FrameBuilder::new(source, destination).with_identification(identification)
}

/// A datagram of random bytes, and the frames of its fragments with what each carries of it.
struct Packet {
    payload: Vec<u8>,
    frames: Vec<(Vec<u8>, std::ops::Range<usize>)>,
}

fn packet(ipv6: bool, identification: u32, len: usize, fragment_len: usize, seed: u64) -> Packet {
    let mut payload = vec![0; len];
    Random::new(seed).fill(&mut payload);
    let builder = builder(ipv6, identification);
    let datagram = builder.udp_datagram(PORTS.0, PORTS.1, &payload);
    let step = (fragment_len & !7).max(8);
    let frames = builder.fragments(PROTOCOL_UDP, &datagram, fragment_len);
    let places = (0..).map(|index| index * step..((index + 1) * step).min(datagram.len()));
    Packet {
        payload,
        frames: frames.into_iter().zip(places).collect(),
    }
}

#[derive(Default)]
struct Recorder {
    /// Each datagram: its bytes, and which of them were delivered.
    datagrams: Vec<(Vec<u8>, Vec<bool>)>,
    stream: Vec<u8>,
}

impl StreamSink for Recorder {
    fn on_open(&mut self, _: usize, _: &Connection) {}

    fn on_stream(&mut self, _: usize, _: Direction, _: bool, chunk: Chunk<'_>, _: &mut Counters) {
        self.stream.extend_from_slice(chunk.bytes());
    }

    fn on_datagram(&mut self, _: usize, _: Direction, chunks: &[Chunk<'_>], _: &mut Counters) {
        let (mut bytes, mut present) = (Vec::new(), Vec::new());
        for chunk in chunks {
            assert_ne!(chunk.missing(), Some(Cause::GivenUp));
            bytes.extend_from_slice(chunk.bytes());
            present.resize(present.len() + chunk.len(), chunk.missing().is_none());
            bytes.resize(present.len(), 0);
        }
        self.datagrams.push((bytes, present));
    }

    fn on_loss(&mut self, _: usize, _: &Connection, _: Direction, _: i64, _: Chunk<'_>) {}
    fn on_interval(&mut self, _: usize, _: &Connection, _: i64, _: &[FlowCounts; 2]) {}
    fn on_close(&mut self, _: usize, _: &Connection, _: &mut Counters) {}
}

struct Tap {
    engine: Engine,
    counters: Counters,
    budget: Budget,
    sink: Recorder,
    frames: u64,
}

impl Tap {
    fn new(config: Config, budget: usize) -> Self {
        let budget = Budget::new(budget);
        Self {
            engine: Engine::new(config, &budget),
            counters: Counters::new(),
            budget,
            sink: Recorder::default(),
            frames: 0,
        }
    }

    fn see(&mut self, stamp_ns: i64, frame: &[u8], kept: usize) {
        self.see_by(stamp_ns, frame, kept, 0);
    }

    fn see_by(&mut self, stamp_ns: i64, frame: &[u8], kept: usize, input: u16) {
        self.frames += 1;
        let descriptor = Descriptor {
            stamp_ns: Some(stamp_ns),
            wire_len: frame.len() as u32,
            link_type: LinkType::ETHERNET,
            input,
            number: self.frames,
            ordinal: self.frames,
            ..Descriptor::default()
        };
        let kept = Frame::copied(&frame[..kept.min(frame.len())], descriptor).share();
        self.counters.count(Counter::FramesReceived);
        let (sink, counters) = (&mut self.sink, &mut self.counters);
        let taken = self.engine.on_frame(stamp_ns, &kept, sink, counters);
        counters.count(taken.outcome);
        if self.frames.is_multiple_of(3) {
            self.engine.spill(counters);
        }
    }

    fn finish(mut self) -> (Recorder, Counters) {
        self.engine.finish(&mut self.sink, &mut self.counters);
        assert_eq!(self.counters.broken_identity(), None);
        drop(self.engine);
        assert_eq!(self.budget.used_bytes(), 0);
        (self.sink, self.counters)
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at as u64 + 1) as usize);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    })]

    /// Any order, any repetition: the datagram is delivered whole, and once.
    #[test]
    fn all_fragments_make_the_datagram(
        seed: u64, ipv6: bool, len in 100..6000usize, fragment_len in 16..1400usize, repeats in 0..3usize,
    ) {
        let packet = packet(ipv6, 7, len, fragment_len, seed);
        let mut random = Random::new(seed);
        let mut order: Vec<usize> = (0..packet.frames.len()).collect();
        shuffle(&mut order, &mut random);
        // Copies of one that is not the last to come: after that the identification is free again.
        for _ in 0..repeats * usize::from(order.len() > 1) {
            let which = random.below(order.len() as u64 - 1) as usize;
            let at = which + random.below((order.len() - which - 1) as u64) as usize;
            order.insert(at, order[which]);
        }
        let mut tap = Tap::new(Config::default(), 64 << 20);
        for &index in &order {
            tap.see(0, &packet.frames[index].0, usize::MAX);
        }
        prop_assert_eq!(&tap.sink.datagrams, &[(packet.payload.clone(), vec![true; len])]);
        let (sink, counters) = tap.finish();
        prop_assert_eq!(sink.datagrams.len(), 1);
        let fragmented = packet.frames.len() > 1;
        prop_assert_eq!(counters.value(Counter::DatagramsWhole), u64::from(fragmented));
        prop_assert_eq!(counters.value(Counter::DatagramsIncomplete), 0);
    }

    /// Some fragments never come: the others are delivered with holes up to the end by the UDP
    /// header, unless that is missing too. The next packet of the same identification is not mixed
    /// up with it.
    #[test]
    fn missing_fragments_are_holes(
        seed: u64, ipv6: bool, len in 100..6000usize, fragment_len in 16..1400usize, missing in 0.0..1.0f64,
        again: bool,
    ) {
        let first = packet(ipv6, 9, len, fragment_len, seed);
        prop_assume!(first.frames.len() > 1);
        let mut random = Random::new(seed);
        let mut seen: Vec<usize> =
            (0..first.frames.len()).filter(|_| !random.chance(missing)).collect();
        prop_assume!(!seen.is_empty() && seen.len() < first.frames.len());
        let mut covered = vec![false; UDP_HEADER_LEN + len];
        for &index in &seen {
            covered[first.frames[index].1.clone()].fill(true);
        }
        let has_ports = seen[0] == 0;
        shuffle(&mut seen, &mut random);
        let mut tap = Tap::new(Config::default(), 64 << 20);
        for &index in &seen {
            tap.see(0, &first.frames[index].0, usize::MAX);
        }
        prop_assert_eq!(tap.sink.datagrams.len(), 0, "more may come");
        let second = packet(ipv6, 9, len, fragment_len, !seed);
        if again {
            // It begins with a fragment that contradicts what is held.
            let begin = seen[0];
            let rest = (0..second.frames.len()).filter(|&index| index != begin);
            for index in [begin].into_iter().chain(rest) {
                tap.see(1, &second.frames[index].0, usize::MAX);
            }
        }
        let (sink, counters) = tap.finish();
        let mut datagrams = sink.datagrams.iter();
        if has_ports {
            let (bytes, present) = datagrams.next().expect("what came of the first");
            prop_assert_eq!(&present[..], &covered[UDP_HEADER_LEN..]);
            for (at, _) in present.iter().enumerate().filter(|(_, present)| **present) {
                prop_assert_eq!(bytes[at], first.payload[at]);
            }
        }
        if again {
            prop_assert_eq!(datagrams.next(), Some(&(second.payload.clone(), vec![true; len])));
        }
        prop_assert_eq!(datagrams.next(), None);
        prop_assert_eq!(counters.value(Counter::DatagramsIncomplete), 1);
    }

    /// A snap length leaves only the beginning of each fragment.
    #[test]
    fn cut_fragments_have_holes(seed: u64, ipv6: bool, len in 200..3000usize, kept in 0..400usize) {
        let packet = packet(ipv6, 11, len, 400, seed);
        prop_assume!(packet.frames.len() > 1);
        let mut tap = Tap::new(Config::default(), 64 << 20);
        let header_len = packet.frames[0].0.len() - packet.frames[0].1.len();
        // The ports must be captured.
        let kept = kept.max(UDP_HEADER_LEN);
        for (frame, _) in &packet.frames {
            tap.see(0, frame, header_len + kept);
        }
        let (sink, _) = tap.finish();
        let mut covered = vec![false; UDP_HEADER_LEN + len];
        for (_, place) in &packet.frames {
            covered[place.start..place.end.min(place.start + kept)].fill(true);
        }
        prop_assert_eq!(sink.datagrams.len(), 1);
        prop_assert_eq!(&sink.datagrams[0].1[..], &covered[UDP_HEADER_LEN..]);
    }

    /// Bounds in bytes and memory: packets that do not fit are given up and counted.
    #[test]
    fn bounds_hold(seed: u64, held_max in 0..9000usize, spare in 0..9000usize) {
        let config = Config { fragments_held_max_bytes: held_max, ..Config::default() };
        let mut tap = Tap::new(config, 4096 + spare);
        let mut frames: Vec<Vec<u8>> = (0..40)
            .flat_map(|id| packet(false, id, 900, 300, seed ^ u64::from(id)).frames)
            .map(|(frame, _)| frame)
            .collect();
        shuffle(&mut frames, &mut Random::new(seed));
        for frame in &frames {
            tap.see(0, frame, usize::MAX);
        }
        prop_assert!(tap.budget.peak_bytes() <= 4096 + spare);
        let (sink, counters) = tap.finish();
        prop_assert!(sink.datagrams.len() <= 40);
        let ended = counters.value(Counter::DatagramsWhole) + counters.value(Counter::DatagramsIncomplete);
        prop_assert!(ended >= 40, "each has its end");
        let limited = held_max < 300 || spare < 300;
        prop_assert!(!limited || counters.value(Counter::FragmentsLimit) > 0);
    }
}

/// Where connections of a flood hold all but the reserve, datagrams come whole; a flood of first
/// fragments takes half of it.
#[test]
fn half_of_the_reserve_is_for_fragments() {
    let mut tap = Tap::new(Config::default(), 1 << 20);
    let reserve = tap.budget.reserve_bytes();
    let others = tap.budget.limit_bytes() - reserve - tap.budget.used_bytes();
    assert!(tap.budget.draw(others));
    let packets: Vec<_> = (0..16)
        .map(|id| packet(id % 2 == 1, id, 900, 300, 3))
        .collect();
    for at in 0..packets[0].frames.len() {
        for packet in &packets {
            tap.see(0, &packet.frames[at].0, usize::MAX);
        }
    }
    for id in 100..1000 {
        tap.see(0, &packet(false, id, 900, 300, 3).frames[0].0, usize::MAX);
        let taken = tap.budget.used_bytes() - (tap.budget.limit_bytes() - reserve);
        // Two connections are in it.
        assert!(taken <= reserve / 8 * 5, "{taken} of {reserve}");
    }
    tap.budget.give_back(others);
    let (sink, counters) = tap.finish();
    assert_eq!(counters.value(Counter::DatagramsWhole), 16);
    assert!(sink.datagrams.len() >= 16);
    assert!(counters.value(Counter::FragmentsLimit) > 0);
}

/// A tap with a snap length beside one without: whichever comes first, the datagram is whole.
#[test]
fn of_cut_fragments_and_datagrams_longer_copies_are_read() {
    for (ipv6, kept, fragment_len) in (0..2).flat_map(|version| {
        {
            let headers_len = [32, 48][version];
            [headers_len, 90, 300].map(|kept| [400, 9_000].map(|len| (version == 1, kept, len)))
        }
        .into_iter()
        .flatten()
    }) {
        let mut packet = packet(ipv6, 11, 1000, fragment_len, 3);
        if packet.frames.len() == 1 {
            // Without a fragment's header.
            packet.frames[0].0 = builder(ipv6, 11).udp(PORTS.0, PORTS.1, &packet.payload);
        }
        let what = format!("IPv6 {ipv6}, {kept} bytes, fragments of {fragment_len}");
        for order in 0..4 {
            let mut tap = Tap::new(Config::default(), 1 << 20);
            let lens = [ETHERNET_LEN + kept, usize::MAX];
            let lens = if order % 2 == 0 {
                lens
            } else {
                [lens[1], lens[0]]
            };
            let both = |len| packet.frames.iter().map(move |(frame, _)| (frame, len));
            let seen: Vec<_> = match order < 2 {
                true => both(lens[0]).chain(both(lens[1])).collect(),
                false => both(lens[0])
                    .zip(both(lens[1]))
                    .flat_map(|(a, b)| [a, b])
                    .collect(),
            };
            for (at, (frame, len)) in seen.into_iter().enumerate() {
                tap.see_by(at as i64, frame, len, u16::from(len == usize::MAX));
            }
            tap.see_by(99, &packet.frames[0].0, ETHERNET_LEN + kept, 2);
            let whole = [(packet.payload.clone(), vec![true; 1000])];
            assert_eq!(tap.sink.datagrams, whole, "{what}, order {order}");
            let (sink, counters) = tap.finish();
            assert_eq!(sink.datagrams.len(), 1, "{what}, order {order}");
            let copies = packet.frames.len() as u64 + 1;
            assert_eq!(counters.value(Counter::FramesDuplicate), copies, "{what}");
        }
    }
}

/// Until the window ends, if there is one.
#[test]
fn cut_datagrams_wait_for_longer_copies_for_a_moment() {
    const WINDOW_NS: i64 = 1_000_000;
    let [cut, other] = [11, 12].map(|id| builder(false, id).udp(PORTS.0, PORTS.1, &[7; 1000]));
    let parts = packet(false, 13, 1000, 400, 3).frames;
    for window_ns in [WINDOW_NS, 0] {
        let config = Config {
            duplicate_window_ns: window_ns,
            ..Config::default()
        };
        let mut tap = Tap::new(config, 1 << 20);
        tap.see(0, &cut, 100);
        for (part, _) in &parts {
            tap.see(0, part, 100);
        }
        let delivered = if window_ns > 0 { 0 } else { 2 };
        assert_eq!(tap.sink.datagrams.len(), delivered, "{window_ns}");
        tap.see(WINDOW_NS, b"no packet", 9);
        assert_eq!(tap.sink.datagrams.len(), delivered, "{window_ns}");
        // Of a connection without copies, nothing waits after its first moment.
        tap.see(WINDOW_NS + 1, &other, 100);
        assert_eq!(tap.sink.datagrams.len(), 3, "{window_ns}");
        tap.see(WINDOW_NS + 2, &cut, usize::MAX);
        let (sink, _) = tap.finish();
        assert!(sink.datagrams[..3].iter().all(|(_, present)| !present[999]));
    }
}

#[test]
fn an_overdue_packet_is_given_up_before_later_fragments() {
    let timeout = Config::default().fragment_timeout_ns;
    for (rest_at, datagrams) in [(timeout, 1), (timeout + 1, 2)] {
        let packet = packet(false, 3, 500, 304, 1);
        let mut tap = Tap::new(Config::default(), 1 << 20);
        tap.see(0, &packet.frames[0].0, usize::MAX);
        // The rest comes in the same burst, so that no timer runs between.
        tap.see(rest_at, &packet.frames[0].0, usize::MAX);
        tap.see(rest_at, &packet.frames[1].0, usize::MAX);
        let (sink, counters) = tap.finish();
        assert_eq!(
            sink.datagrams.len(),
            datagrams,
            "the rest {rest_at} ns later"
        );
        assert_eq!(counters.value(Counter::DatagramsWhole), 1);
    }
}

/// Where it ends, none of what came can lie behind it.
#[test]
fn a_last_fragment_before_others_is_of_another_packet() {
    let (first, second) = (
        packet(false, 3, 1000, 400, 1),
        packet(false, 3, 300, 200, 2),
    );
    let mut tap = Tap::new(Config::default(), 1 << 20);
    let [(_, _), (middle, _), ..] = &first.frames[..] else {
        panic!("three fragments");
    };
    for frame in [middle, &second.frames[1].0, &second.frames[0].0] {
        tap.see(0, frame, usize::MAX);
    }
    let (sink, counters) = tap.finish();
    assert_eq!(sink.datagrams, [(second.payload, vec![true; 300])]);
    assert_eq!(counters.value(Counter::DatagramsIncomplete), 1);
    assert_eq!(counters.value(Counter::DatagramsWhole), 1);
}

/// A segment that opens a connection, and the payload of an IP packet with a segment of `bytes`
/// after 12 bytes of options.
fn opened(ipv6: bool, bytes: &[u8]) -> (FrameBuilder, Vec<u8>, Vec<u8>) {
    let builder = builder(ipv6, 5);
    let fields = |sequence, flags| TcpFields {
        source_port: PORTS.0,
        destination_port: PORTS.1,
        sequence,
        flags,
        options: &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
        ..TcpFields::default()
    };
    let opening = builder.tcp(&fields(99, TcpFlags::SYN), b"");
    let segment = builder.tcp_segment(&fields(100, TcpFlags::ACK), bytes);
    (builder, opening, segment)
}

fn random_bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(8).fill(&mut bytes);
    bytes
}

/// Also if its header reaches over several of its fragments (RFC 791, 3.2: they may be of 8 bytes),
/// and is that of a packet in a tunnel.
#[test]
fn a_fragmented_segment_is_a_part_of_its_stream() {
    let bytes = random_bytes(2000);
    for (ipv6, fragment_len, in_tunnel) in [8, 16, 24, 32, 600]
        .into_iter()
        .flat_map(|len| [(false, len, false), (true, len, false), (false, len, true)])
    {
        let (builder, opening, segment) = opened(ipv6, &bytes);
        let mut frames = match in_tunnel {
            false => builder.fragments(PROTOCOL_TCP, &segment, fragment_len),
            true => {
                let inner = &builder.packet(PROTOCOL_TCP, &segment)[14..];
                builder.fragments(IP_IN_IP, inner, fragment_len)
            }
        };
        frames.reverse();
        let mut tap = Tap::new(Config::default(), 1 << 20);
        tap.see(0, &opening, usize::MAX);
        for frame in frames {
            tap.see(0, &frame, usize::MAX);
        }
        let (sink, counters) = tap.finish();
        assert!(
            sink.stream == bytes,
            "IPv6 {ipv6}, {fragment_len} bytes, in a tunnel {in_tunnel}"
        );
        assert_eq!(counters.value(Counter::DatagramsWhole), 1);
    }
}

/// A hole in TCP's options does no harm; one before leaves nothing that could be believed.
#[test]
fn a_segment_with_a_hole_in_its_header_is_not_misread() {
    let bytes = random_bytes(200);
    for (missing, is_read) in [(0, false), (1, false), (2, false), (3, true)] {
        let (builder, opening, segment) = opened(false, &bytes);
        let mut frames = builder.fragments(PROTOCOL_TCP, &segment, 8);
        frames.remove(missing);
        let mut tap = Tap::new(Config::default(), 1 << 20);
        tap.see(0, &opening, usize::MAX);
        for frame in frames {
            tap.see(0, &frame, usize::MAX);
        }
        let (sink, counters) = tap.finish();
        let expected = if is_read { &bytes[..] } else { &[] };
        assert!(sink.stream == expected, "without fragment {missing}");
        assert_eq!(counters.value(Counter::DatagramsIncomplete), 1);
    }
}

/// There is no way to know where its payload begins.
#[test]
fn a_fragment_with_a_hole_in_its_header_is_not_misread() {
    let inner = packet(false, 3, 500, 304, 1);
    let mut second = inner.frames[1].0[14..].to_vec();
    second.splice(20..20, [1; 8]);
    second[0] = 0x47;
    let len = second.len() as u16;
    second[2..4].copy_from_slice(&len.to_be_bytes());
    for missing in [None, Some(3)] {
        let mut tap = Tap::new(Config::default(), 1 << 20);
        tap.see(0, &inner.frames[0].0, usize::MAX);
        let outer = builder(false, 4).fragments(IP_IN_IP, &second, 8);
        for (_, frame) in (0..)
            .zip(outer)
            .filter(|(index, _)| Some(*index) != missing)
        {
            tap.see(0, &frame, usize::MAX);
        }
        let (sink, _) = tap.finish();
        let [(bytes, present)] = &sink.datagrams[..] else {
            panic!("one datagram");
        };
        let is_right = |(at, is_there): (usize, &bool)| !is_there || bytes[at] == inner.payload[at];
        assert!(present.iter().enumerate().all(is_right));
        assert_eq!(present.iter().all(|is_there| *is_there), missing.is_none());
    }
}

/// RFC 4963: the first fragment of one is lost, and another of the same identification begins
/// within the timeout.
#[test]
fn fragments_of_two_datagrams_do_not_make_one() {
    for (ipv6, in_tunnel) in [(false, false), (true, false), (false, true)] {
        let frames = |seed| {
            let packet = packet(ipv6, 77, 1000, 400, seed);
            let outer = |(id, (frame, _)): (u32, &(Vec<u8>, _))| match in_tunnel {
                false => vec![frame.clone()],
                true => builder(false, id).fragments(IP_IN_IP, &frame[14..], 200),
            };
            let frames = (100..).zip(&packet.frames).map(outer);
            (frames.collect::<Vec<_>>(), packet.payload)
        };
        let ((first, _), (second, payload)) = (frames(1), frames(2));
        for (mixed, seen) in [(true, &first[1..]), (false, &[])] {
            let mut tap = Tap::new(Config::default(), 1 << 20);
            for frame in seen.iter().flatten() {
                tap.see(0, frame, usize::MAX);
            }
            for frame in second.iter().flatten() {
                tap.see(19_000_000_000, frame, usize::MAX);
            }
            let (sink, counters) = tap.finish();
            let datagrams = sink.datagrams.iter().map(|(bytes, _)| bytes);
            assert!(datagrams.eq((!mixed).then_some(&payload)), "mixed {mixed}");
            let wrong = counters.value(Counter::DatagramsChecksumWrong);
            assert_eq!(wrong, mixed.into(), "IPv6 {ipv6}, in a tunnel {in_tunnel}");
        }
    }
}

/// The checksum is for the end of the route (RFC 8200, 8.1), the header names the next stop.
#[test]
fn fragments_with_a_routing_header_are_read() {
    let address = |last| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last]);
    let payload = random_bytes(1000);
    let datagram = builder(true, 5).udp_datagram(PORTS.0, PORTS.1, &payload);
    let IpAddr::V6(end) = address(2) else {
        panic!("an address of IPv6");
    };
    let route = [&[0, 2, 4, 1, 0, 0, 0, 0][..], &end.octets()].concat();
    let routed = FrameBuilder::new(address(1), address(3)).with_extension(43, &route);
    let mut tap = Tap::new(Config::default(), 1 << 20);
    for frame in routed
        .with_identification(5)
        .fragments(PROTOCOL_UDP, &datagram, 400)
    {
        tap.see(0, &frame, usize::MAX);
    }
    let (sink, counters) = tap.finish();
    assert_eq!(counters.value(Counter::DatagramsChecksumWrong), 0);
    assert!(sink.datagrams == [(payload, vec![true; 1000])]);
}

/// A fragment that was damaged on its way: what it belongs to is not read, and its copy is.
#[test]
fn a_fragmented_segment_that_is_damaged_is_not_read() {
    let bytes = random_bytes(1000);
    for ipv6 in [false, true] {
        let (builder, opening, segment) = opened(ipv6, &bytes);
        let mut damaged = segment.clone();
        *damaged.last_mut().expect("bytes") ^= 1;
        let mut tap = Tap::new(Config::default(), 1 << 20);
        tap.see(0, &opening, usize::MAX);
        for (id, segment) in [(7, &damaged), (8, &segment)] {
            let builder = builder.clone().with_identification(id);
            for frame in builder.fragments(PROTOCOL_TCP, segment, 400) {
                tap.see(0, &frame, usize::MAX);
            }
        }
        let (sink, counters) = tap.finish();
        assert!(sink.stream == bytes, "IPv6 {ipv6}");
        assert_eq!(counters.value(Counter::SegmentsDamaged), 1);
        assert_eq!(counters.value(Counter::DatagramsWhole), 2);
    }
}

/// A tunnel's outer packets have numbers of their own: what is in them shows that it is a copy.
#[test]
fn copies_in_fragments_of_a_tunnel_are_recognised() {
    let inner = builder(false, 9).udp(PORTS.0, PORTS.1, &random_bytes(1000));
    for (window_ns, expected) in [(1_000_000, 1), (0, 2)] {
        let config = Config {
            duplicate_window_ns: window_ns,
            ..Config::default()
        };
        let mut tap = Tap::new(config, 4 << 20);
        for (stamp_ns, outer) in [(0, 100), (10_000, 101)] {
            for frame in builder(false, outer).fragments(IP_IN_IP, &inner[14..], 400) {
                tap.see(stamp_ns, &frame, usize::MAX);
            }
        }
        let (sink, counters) = tap.finish();
        assert_eq!(sink.datagrams.len(), expected);
        let copies = counters.value(Counter::DatagramsDuplicate);
        assert_eq!(copies, 2 - expected as u64);
    }
}

/// The sender left it out, left it to its adapter, or its end was cut off.
#[test]
fn a_checksum_that_cannot_be_verified_is_not_wrong() {
    let builder = builder(false, 1);
    let payload = random_bytes(1000);
    let right = builder.udp_datagram(PORTS.0, PORTS.1, &payload);
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let pseudo = checksum::pseudo_header_sum(source, destination, PROTOCOL_UDP, right.len());
    let sent = |checksum: u16| {
        let mut datagram = right.clone();
        datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
        datagram
    };
    let damaged = !u16::from_be_bytes([right[6], right[7]]);
    let cut = &builder.packet(PROTOCOL_UDP, &right)[14..600];
    for (protocol, datagram, is_wrong) in [
        (PROTOCOL_UDP, &right[..], false),
        (PROTOCOL_UDP, &sent(0), false),
        (PROTOCOL_UDP, &sent(pseudo), false),
        (IP_IN_IP, cut, false),
        (PROTOCOL_UDP, &sent(damaged), true),
    ] {
        for kept in [usize::MAX, 300] {
            let mut tap = Tap::new(Config::default(), 64 << 20);
            for frame in builder.fragments(protocol, datagram, 400) {
                tap.see(0, &frame, kept);
            }
            let (sink, counters) = tap.finish();
            let is_wrong = is_wrong && kept == usize::MAX;
            assert_eq!(
                sink.datagrams.len(),
                usize::from(!is_wrong),
                "protocol {protocol}, {kept} bytes kept"
            );
            let counted = counters.value(Counter::DatagramsChecksumWrong);
            assert_eq!(counted, is_wrong.into());
        }
    }
}

/// A copy that comes late begins no packet; other fragments of the same identification do.
#[test]
fn a_late_copy_of_a_fragment_is_a_duplicate() {
    for (ipv6, copied) in [false, true]
        .into_iter()
        .flat_map(|v6| [0, 1, 2].map(|at| (v6, at)))
    {
        let (first, second) = (packet(ipv6, 7, 1000, 400, 1), packet(ipv6, 7, 1000, 400, 2));
        let mut tap = Tap::new(Config::default(), 64 << 20);
        for (frame, _) in &first.frames {
            tap.see(0, frame, usize::MAX);
        }
        tap.see(3_000_000, &first.frames[copied].0, usize::MAX);
        for (frame, _) in &second.frames {
            tap.see(3_000_000, frame, usize::MAX);
        }
        let (sink, counters) = tap.finish();
        let datagrams = sink.datagrams.iter().map(|(bytes, _)| bytes);
        assert!(datagrams.eq([&first.payload, &second.payload]));
        assert_eq!(counters.value(Counter::FramesDuplicate), 1);
        assert_eq!(counters.value(Counter::DatagramsIncomplete), 0);
    }
}

/// What is in a tunnel that is not read is no part of the trace, in fragments or not.
#[test]
fn fragments_of_ip_that_is_not_read_are_counted() {
    let mut packet = packet(false, 7, 1000, 400, 1);
    let mut tap = Tap::new(Config::default(), 64 << 20);
    for (frame, _) in &mut packet.frames {
        // Encrypted: RFC 4303.
        frame[23] = 50;
        ipv4::Packet::new_unchecked(&mut frame[14..34]).fill_checksum();
        tap.see(0, frame, usize::MAX);
    }
    let (sink, counters) = tap.finish();
    assert!(sink.datagrams.is_empty());
    assert_eq!(counters.value(Counter::DatagramsUnread), 1);
}

/// Whatever its bytes say.
#[test]
fn a_frame_that_its_recorder_calls_damaged_is_not_read() {
    let mut tap = Tap::new(Config::default(), 64 << 20);
    for (frame, _) in packet(false, 7, 1000, 400, 1).frames {
        let descriptor = Descriptor {
            stamp_ns: Some(0),
            wire_len: frame.len() as u32,
            link_type: LinkType::ETHERNET,
            damaged: true,
            ..Descriptor::default()
        };
        let frame = Frame::copied(&frame, descriptor).share();
        let (sink, counters) = (&mut tap.sink, &mut tap.counters);
        let taken = tap.engine.on_frame(0, &frame, sink, counters);
        assert_eq!(taken.outcome, Counter::FramesDamaged);
    }
    let (sink, counters) = tap.finish();
    assert!(sink.datagrams.is_empty());
    assert_eq!(counters.value(Counter::FramesDamagedNotTcp), 3);
}
