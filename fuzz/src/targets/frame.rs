//! Frames: dissection of any bytes, and IP fragments put together again.

use lineside_account::{Budget, Counter, Counters};
use lineside_flow::{Config, Connection, Engine, FlowCounts, StreamSink};
use lineside_frame::{Chunk, Descriptor, Frame, LinkType};
use lineside_wire::tcp::{self, Segment};
use lineside_wire::udp::{self, Datagram};
use lineside_wire::{Direction, Dissected, arp, dissect, ethernet, icmp, ipv4, ipv6, layers};

use super::Bytes;

/// The link types that are known, and one that is not.
const LINK_TYPES: [u16; 11] = [1, 113, 276, 0, 108, 12, 14, 101, 228, 229, 147];
/// Those that few captures have, behind 0x40 of the choices.
const RARE_LINK_TYPES: [u16; 20] = [
    9, 50, 51, 104, 105, 117, 119, 122, 127, 138, 163, 166, 192, 197, 204, 205, 226, 239, 242, 258,
];

/// Frames, each behind its length and a byte of choices; a byte of choices for all ends the input.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.last();
    let link_type = match choice & 0x40 {
        0 => LINK_TYPES[usize::from(choice & 15) % LINK_TYPES.len()],
        _ => {
            let at = usize::from(choice & 15 | choice >> 3 & 16);
            RARE_LINK_TYPES[at % RARE_LINK_TYPES.len()]
        }
    };
    let config = Config {
        fragments_held_max_bytes: if choice & 16 == 0 { 8 << 20 } else { 3000 },
        ..Config::default()
    };
    let budget = Budget::new(if choice & 32 == 0 { 1 << 20 } else { 30_000 });
    let mut engine = Engine::new(config, &budget);
    let mut counters = Counters::new();
    let mut sink = Datagrams::default();
    let (mut now, mut ordinal) = (0, 0);
    while !bytes.is_empty() {
        let what = bytes.u8();
        let len = usize::from(bytes.u16());
        let kept = bytes.take(len);
        now += i64::from(what & 0x0f) * 1_000_000_000;
        ordinal += 1;
        let descriptor = Descriptor {
            stamp_ns: Some(now),
            wire_len: (if what & 0x10 == 0 { kept.len() } else { len }) as u32,
            link_type: LinkType(link_type),
            number: ordinal,
            ordinal,
            ..Descriptor::default()
        };
        let frame = Frame::copied(kept, descriptor).share();
        let dissected = dissect(link_type, kept, descriptor.wire_len as usize);
        check(&dissected, kept.len(), descriptor.wire_len as usize);
        check_layers(link_type, kept, descriptor.wire_len as usize, &dissected);
        check_views(kept);
        counters.count(Counter::FramesReceived);
        let taken = engine.on_frame(now, &frame, &mut sink, &mut counters);
        counters.count(taken.outcome);
        if what & 0x20 != 0 {
            engine.on_timer(now, &mut sink, &mut counters);
        }
        if what & 0x40 != 0 {
            engine.spill(&mut counters);
        }
    }
    engine.finish(&mut sink, &mut counters);
    assert_eq!(counters.broken_identity(), None);
    assert_eq!(counters.value(Counter::StreamHeld), 0);
    assert_eq!(budget.used_bytes(), 0);
}

/// What lies around a packet is told alike by both ways to ask.
fn check_layers(link_type: u16, kept: &[u8], wire_len: usize, dissected: &Dissected) {
    let found = layers(link_type, kept, wire_len);
    // A tunnel may be cut where the frame inside it begins.
    assert!(found.link().is_none_or(|link| link <= kept.len()));
    if let Dissected::Tcp(ip, _) | Dissected::Udp(ip, _) | Dissected::Fragment(ip, _) = dissected {
        assert_eq!(usize::from(ip.tunnels), found.tunnels().len());
        assert!(ip.header < kept.len() && ip.header <= ip.payload);
        assert!(found.outer().is_none() || ip.tunnels > 0);
    }
}

/// No getter panics after `new_checked`, and no payload lies outside the packet.
fn check_views(bytes: &[u8]) {
    let inside = |payload: &[u8], header_len: usize| {
        assert!(header_len + payload.len() <= bytes.len());
    };
    if let Some(frame) = ethernet::Frame::new_checked(bytes) {
        inside(frame.payload(), ethernet::HEADER_LEN);
    }
    if let Some(packet) = ipv4::Packet::new_checked(bytes) {
        inside(packet.payload(), ipv4::HEADER_LEN + packet.options().len());
        packet.verify_checksum();
    }
    if let Some(packet) = ipv6::Packet::new_checked(bytes) {
        inside(packet.payload(), ipv6::HEADER_LEN);
    }
    if let Some(segment) = Segment::new_checked(bytes) {
        inside(segment.payload(), segment.header_len());
        assert!(segment.options().count() <= tcp::OPTIONS_LEN_MAX / 2);
    }
    if let Some(datagram) = Datagram::new_checked(bytes) {
        inside(datagram.payload(), udp::HEADER_LEN);
    }
    if let Some(packet) = arp::Packet::new_checked(bytes) {
        let _ = (packet.sender_address(), packet.target_address());
    }
    if let Some(echo) = icmp::Echo::new_checked(bytes) {
        let _ = (echo.kind(), echo.identifier(), echo.sequence());
    }
}

/// Nothing that was found lies outside the frame.
fn check(dissected: &Dissected, kept: usize, wire_len: usize) {
    let inside = |payload: usize, payload_kept: usize, payload_len: usize| {
        assert!(payload + payload_kept <= kept && payload_kept <= payload_len);
        assert!(payload_len <= wire_len.max(kept));
    };
    match dissected {
        Dissected::Tcp(ip, tcp) => {
            inside(ip.payload, ip.captured_len, ip.payload_len);
            inside(tcp.payload, tcp.captured_len, tcp.payload_len);
        }
        Dissected::Udp(ip, udp) => {
            inside(ip.payload, ip.captured_len, ip.payload_len);
            inside(udp.payload, udp.captured_len, udp.payload_len);
        }
        Dissected::Fragment(ip, fragment) => {
            inside(ip.payload, ip.captured_len, ip.payload_len);
            assert!(fragment.offset + ip.payload_len <= 65_535);
        }
        _ => {}
    }
}

/// Checks what comes of datagrams.
#[derive(Default)]
struct Datagrams {
    open: usize,
}

impl StreamSink for Datagrams {
    fn on_open(&mut self, _: usize, _: &Connection) {
        self.open += 1;
    }

    fn on_stream(&mut self, _: usize, _: Direction, _: bool, chunk: Chunk<'_>, _: &mut Counters) {
        assert!(!chunk.is_empty());
    }

    fn on_datagram(&mut self, _: usize, _: Direction, chunks: &[Chunk<'_>], _: &mut Counters) {
        let len: usize = chunks.iter().map(Chunk::len).sum();
        let is_whole =
            |chunk: &Chunk<'_>| chunk.missing().is_some() || chunk.bytes().len() == chunk.len();
        // The first may be a hole: a snap length may cut right behind the UDP header.
        assert!(chunks.iter().all(is_whole) && len <= u32::MAX as usize);
    }

    fn on_loss(&mut self, _: usize, _: &Connection, _: Direction, _: i64, hole: Chunk<'_>) {
        assert!(hole.missing().is_some() && !hole.is_empty());
    }

    fn on_interval(&mut self, _: usize, _: &Connection, _: i64, _: &[FlowCounts; 2]) {}

    fn on_close(&mut self, _: usize, _: &Connection, _: &mut Counters) {
        self.open -= 1;
    }
}
