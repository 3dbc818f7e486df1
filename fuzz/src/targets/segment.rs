//! A TCP endpoint: any segments, datagrams, fragments, ICMP errors, calls and times in any order.
//! Every frame has one outcome, every byte is delivered once and in order, asked for only when it
//! is ready, and in the end nothing is left.

use std::collections::BTreeMap;
use std::net::IpAddr;

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType, give_back};
use lineside_tcp::{Config, ConnectionId, Datagram, Departure, Effects, Event, Stack};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::ethernet::ether_type;
use lineside_wire::headers::emit_link;
use lineside_wire::icmp::{self, Failure};
use lineside_wire::tcp::{SackBlocks, TcpOption};
use lineside_wire::{Dissected, SeqNumber, TcpFlags, arp, dissect_outermost};

use super::Bytes;

const OURS: [u8; 4] = [10, 0, 0, 1];
const THEIRS: [u8; 4] = [10, 0, 0, 2];
const LINKS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const PORT: u16 = 7;
/// Ports of the peer: few, so that they are met again.
const PORTS: u16 = 4;
const OPERATIONS_MAX: usize = 200;

/// A byte that configures the stack, then operations.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let budget = Budget::new(16 << 20);
    {
        let mut world = World::new(bytes.u8(), &budget);
        for _ in 0..OPERATIONS_MAX {
            if bytes.is_empty() {
                break;
            }
            world.operate(&mut bytes);
            if world.owner.is_asked {
                world.answer();
            }
            let broken = world.stack.counters().broken_identity();
            assert_eq!(broken, None);
        }
        world.finish();
    }
    give_back();
    assert_eq!(budget.used_bytes(), 0, "all is given back");
}

/// The byte with this sequence number, of either end.
fn content(sequence: SeqNumber) -> u8 {
    (sequence.0.wrapping_mul(0x9e37_79b9) >> 13) as u8
}

/// What is known of a connection by who owns it.
#[derive(Debug, Default)]
struct Talk {
    port: u16,
    /// The number of the first byte that comes, if that is known.
    base: Option<SeqNumber>,
    received: u64,
    announced: u64,
    acknowledged: u64,
    has_ended: bool,
}

/// What is known of a port of the peer's by what left to it.
#[derive(Debug, Clone, Copy, Default)]
struct Port {
    /// The next number of the stack, and what it expects.
    nxt: SeqNumber,
    ack: SeqNumber,
    stamp: u32,
    /// The number of the last SYN that came, and of the last segment.
    syn: SeqNumber,
    last: SeqNumber,
    /// A SYN-ACK left since the last call that connects.
    has_answered: bool,
    id: Option<ConnectionId>,
}

struct Owner {
    talks: BTreeMap<ConnectionId, Talk>,
    ports: [Port; PORTS as usize],
    has_cookies: bool,
    /// The peer's Ethernet address was asked for.
    is_asked: bool,
    /// Several segments came at once.
    is_burst: bool,
}

impl Effects for Owner {
    fn transmit(&mut self, frame: Frame, _: Departure) {
        let bytes = frame.bytes();
        self.is_asked |= bytes[12..14] == [8, 6];
        let Dissected::Tcp(_, tcp) = dissect_outermost(1, bytes, bytes.len()) else {
            return;
        };
        let Some(port) = self.ports.get_mut(usize::from(tcp.destination_port)) else {
            return;
        };
        if tcp.flags.contains(TcpFlags::RST) {
            return;
        }
        let count = |flag| u32::from(tcp.flags.contains(flag));
        let counted = count(TcpFlags::SYN) + count(TcpFlags::FIN);
        port.nxt = tcp.sequence + (tcp.payload_len as u32 + counted);
        if tcp.flags.contains(TcpFlags::ACK) {
            port.ack = tcp.acknowledgement;
            port.has_answered |= tcp.flags.contains(TcpFlags::SYN);
        }
    }

    fn fill(&mut self, id: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        let talk = self.talks.get(&id).expect("it is open");
        assert!(
            offset >= talk.acknowledged,
            "nothing acknowledged is asked for"
        );
        assert!(
            offset + bytes.len() as u64 <= talk.announced,
            "nor what is not ready"
        );
        bytes.fill(offset as u8);
    }

    fn on_datagram(&mut self, _: u32, datagram: &Datagram<'_>) {
        let payload = datagram.payload.bytes();
        let is_whole = { payload.iter().enumerate() }.all(|(at, &byte)| byte == at as u8);
        assert!(is_whole, "another datagram than was sent");
    }

    fn on_event(&mut self, id: ConnectionId, _: u32, event: Event<'_>) {
        if let Event::Opened { ends } = event {
            let port = ends[1].1;
            let known = &mut self.ports[usize::from(port)];
            known.id = Some(id);
            let is_ours = self.talks.contains_key(&id);
            let talk = self.talks.entry(id).or_default();
            talk.port = port;
            talk.base = match (is_ours, known.has_answered, self.has_cookies) {
                (true, true, _) | (false, _, false) => Some(known.ack),
                // Which segment it was is known if there was one.
                _ if self.is_burst => None,
                (true, false, _) => Some(known.syn + 1),
                (false, _, true) => Some(known.last),
            };
            return;
        }
        if let Event::Closed(_) = event {
            let talk = self.talks.remove(&id).expect("it was open");
            let known = &mut self.ports[usize::from(talk.port)];
            known.id = known.id.filter(|&known| known != id);
            return;
        }
        let talk = self.talks.get_mut(&id).expect("it is open");
        match event {
            Event::Stream(chunk) => {
                assert!(!talk.has_ended, "nothing comes after the end");
                for (&byte, at) in chunk.bytes().iter().zip(talk.received..) {
                    let expected = talk.base.map(|base| content(base + at as u32));
                    assert!(expected.is_none_or(|it| it == byte), "the byte at {at}");
                }
                talk.received += chunk.len() as u64;
            }
            Event::Acknowledged(bytes) => {
                talk.acknowledged += bytes;
                assert!(talk.acknowledged <= talk.announced);
            }
            Event::Ended => {
                assert!(!talk.has_ended, "it ends once");
                talk.has_ended = true;
            }
            Event::Opened { .. } | Event::Closed(_) => {}
        }
    }
}

struct World {
    stack: Stack,
    owner: Owner,
    now: i64,
    burst: Burst,
}

impl World {
    fn new(choice: u8, budget: &Budget) -> Self {
        let is = |bit: u8| choice >> bit & 1 == 1;
        let config = Config {
            timestamps: is(0),
            sack: is(1),
            nagle: is(2),
            receive_window_bytes: if is(3) { 1 << 20 } else { 3000 },
            half_open_max: if is(4) { 0 } else { 2 },
            held_bytes_max: if is(5) { 8 << 10 } else { 16 << 20 },
            keep_alive_ns: is(6).then_some(1_000_000_000_000),
            connections_max: 8,
            active_max: if is(7) { 2 } else { 8 },
            time_wait_max: 2,
            neighbours_max: 4,
            ..Config::new(LINKS[0], &[OURS.into()])
        };
        let mut stack = Stack::new(config, [3, 5], budget).expect("there is room");
        stack.listen(None, PORT, 0).expect("it is free");
        stack.bind(None, PORT, 0).expect("it is free");
        let mut world = Self {
            stack,
            owner: Owner {
                talks: BTreeMap::new(),
                ports: [Port::default(); PORTS as usize],
                has_cookies: is(4),
                is_asked: false,
                is_burst: false,
            },
            now: 1_000_000_000_000,
            burst: Burst::new(),
        };
        world.answer();
        world
    }

    /// The peer says what its Ethernet address is.
    fn answer(&mut self) {
        let mut frame = [0; 14 + arp::PACKET_LEN];
        let link = [LINKS[0], LINKS[1]];
        let packet = emit_link(link, &[None; 2], ether_type::ARP, &mut frame);
        let ends = [(LINKS[1], THEIRS.into()), (LINKS[0], OURS.into())];
        // Whoever asks for the stack's address is learned, too.
        arp::Packet::emit(packet, arp::REQUEST, ends[0], ends[1]);
        self.owner.is_asked = false;
        self.push(&frame);
        self.deliver();
    }

    /// One operation: which one and about which port, then what it needs.
    fn operate(&mut self, bytes: &mut Bytes<'_>) {
        let choice = bytes.u8();
        let port = u16::from(choice >> 6);
        let id = self.owner.ports[usize::from(port)].id;
        let (now, stack, owner) = (self.now, &mut self.stack, &mut self.owner);
        match choice & 15 {
            0 => {
                let ends = [(IpAddr::from(OURS), PORT), (THEIRS.into(), port)];
                if let Ok(id) = stack.connect(now, ends[0], ends[1], 0, owner) {
                    let known = &mut owner.ports[usize::from(port)];
                    (known.id, known.has_answered) = (Some(id), false);
                    let talk = Talk {
                        port,
                        ..Talk::default()
                    };
                    owner.talks.insert(id, talk);
                }
            }
            1 => {
                let len = u64::from(bytes.u16());
                if let Some(id) = id {
                    let talk = owner.talks.get_mut(&id).expect("it is open");
                    talk.announced += len;
                    if stack.send(now, id, len, owner).is_err()
                        && let Some(talk) = owner.talks.get_mut(&id)
                    {
                        talk.announced -= len;
                    }
                }
            }
            2..=4 => {
                if let Some(id) = id {
                    // A call that comes too late is refused.
                    let _ = match choice & 15 {
                        2 => stack.shutdown(now, id, owner),
                        3 => stack.close(now, id, owner),
                        _ => stack.abort(now, id, owner),
                    };
                }
            }
            5 => {
                let window = u32::from(bytes.u16());
                if let Some(id) = id {
                    let _ = stack.set_window(now, id, window, owner);
                }
            }
            6 => self.pass(1 << (bytes.u8() % 42)),
            7 => {
                let len = usize::from(bytes.u8());
                let frame = bytes.take(len).to_vec();
                self.push(&frame);
                self.deliver();
            }
            12 => self.error(port, bytes),
            13 => self.datagram(port, bytes),
            // Several segments may come at once.
            kind => {
                self.segment(port, bytes);
                if kind < 12 {
                    self.deliver();
                }
            }
        }
    }

    /// A segment whose numbers lie near those that are expected.
    fn segment(&mut self, port: u16, bytes: &mut Bytes<'_>) {
        let known = self.owner.ports[usize::from(port)];
        let shape = bytes.u8();
        let flags = TcpFlags(bytes.u8());
        // Near, or far ahead or behind.
        let shift = |choice: u8| [0, 4, 11, 24][usize::from(choice & 3)];
        let step = |byte: u8, shift: u32| (i32::from(byte.cast_signed()) << shift).cast_unsigned();
        let sequence = known.ack + step(bytes.u8(), shift(shape));
        let acknowledgement = known.nxt + step(bytes.u8(), shift(shape >> 2));
        let len = usize::from(bytes.u8()) << (shape >> 4 & 3);
        let window = bytes.u16();
        let mut options = [0; 40];
        let mut len_options = 0;
        if shape & 0x40 != 0 {
            len_options = Self::options(bytes, known, &mut options);
        }
        let fields = TcpFields {
            source_port: port,
            destination_port: PORT,
            sequence: sequence.0,
            acknowledgement: acknowledgement.0,
            flags,
            window,
            options: &options[..len_options],
        };
        let syn = u32::from(flags.contains(TcpFlags::SYN));
        let payload: Vec<_> = (0..len as u32)
            .map(|at| content(sequence + (syn + at)))
            .collect();
        let frame = FrameBuilder::new(THEIRS.into(), OURS.into())
            .with_link_addresses(LINKS[1], LINKS[0])
            .tcp(&fields, &payload);
        let known = &mut self.owner.ports[usize::from(port)];
        known.last = sequence;
        if syn == 1 {
            known.syn = sequence;
        }
        known.stamp = known.stamp.wrapping_add(1);
        self.push(&frame);
    }

    /// An ICMP error about a segment that may be in flight.
    fn error(&mut self, port: u16, bytes: &mut Bytes<'_>) {
        let known = self.owner.ports[usize::from(port)];
        let (kind, value) = (bytes.u8(), bytes.u16());
        let failure = match kind & 3 {
            0 => Failure::TooBig(value.into()),
            1 => Failure::TimeExceeded(value as u8),
            _ => Failure::Unreachable(value as u8),
        };
        let fields = TcpFields {
            source_port: PORT,
            destination_port: port,
            sequence: (known.nxt - u32::from(bytes.u16())).0,
            ..TcpFields::default()
        };
        let met = FrameBuilder::new(OURS.into(), THEIRS.into()).tcp(&fields, &[]);
        let quoted = &met[14..][..20 + usize::from(bytes.u8() % 21)];
        let mut message = vec![0; icmp::HEADER_LEN + quoted.len()];
        icmp::emit_error(failure, quoted, [THEIRS.into(), OURS.into()], &mut message);
        let frame = FrameBuilder::new(THEIRS.into(), OURS.into())
            .with_link_addresses(LINKS[1], LINKS[0])
            .packet(1, &message);
        self.push(&frame);
        self.deliver();
    }

    /// A datagram, whole or in fragments of which some may be missing.
    fn datagram(&mut self, port: u16, bytes: &mut Bytes<'_>) {
        let (len, part, lost) = (bytes.u16() & 0x1fff, bytes.u8(), bytes.u8());
        let builder = FrameBuilder::new(THEIRS.into(), OURS.into())
            .with_link_addresses(LINKS[1], LINKS[0])
            .with_identification((lost >> 6).into());
        let payload: Vec<_> = (0..len).map(|at| at as u8).collect();
        let datagram = builder.udp_datagram(port, PORT + u16::from(part & 1), &payload);
        let frames = match part >> 1 {
            0 => vec![builder.packet(17, &datagram)],
            step => builder.fragments(17, &datagram, 64 * usize::from(step)),
        };
        for (number, frame) in frames.iter().enumerate() {
            if number >= 8 || lost >> (number % 6) & 1 == 0 {
                self.push(frame);
            }
        }
        self.deliver();
    }

    fn options(bytes: &mut Bytes<'_>, known: Port, options: &mut [u8; 40]) -> usize {
        let kinds = bytes.u8();
        if kinds & 0x80 != 0 {
            let foreign = bytes.take(usize::from(kinds & 31));
            options[..foreign.len()].copy_from_slice(foreign);
            return foreign.len();
        }
        let block = |bytes: &mut Bytes<'_>| {
            let start = known.nxt - u32::from(bytes.u16());
            (start, u32::from(bytes.u16()))
        };
        let blocks = match kinds >> 4 & 3 {
            0 => Vec::new(),
            1 => vec![block(bytes), block(bytes)],
            // A part of what has come, and that it came twice: RFC 2883, 4.
            _ => {
                let (start, len) = block(bytes);
                vec![(start, len / 2), (start, len)]
            }
        };
        let blocks: Vec<_> = { blocks.into_iter() }
            .map(|(start, len)| SackBlocks::block(start, start + len))
            .collect();
        let echo = match kinds & 8 != 0 {
            true => u32::from(bytes.u8()),
            false => 0,
        };
        let all = [
            (kinds & 1 != 0).then(|| TcpOption::Mss(bytes.u16())),
            (kinds & 2 != 0).then(|| TcpOption::WindowScale(bytes.u8())),
            (kinds & 4 != 0).then_some(TcpOption::SackPermitted),
            (kinds & 8 != 0).then_some(TcpOption::Timestamps {
                value: known.stamp.wrapping_add(echo.cast_signed() as u32) - echo / 2,
                echo,
            }),
            (!blocks.is_empty()).then(|| TcpOption::Sack(SackBlocks::new(&blocks))),
        ];
        let mut rest = &mut options[..];
        for option in all.into_iter().flatten() {
            rest = option.emit(rest);
        }
        40 - rest.len()
    }

    fn push(&mut self, frame: &[u8]) {
        let descriptor = Descriptor {
            wire_len: frame.len() as u32,
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        self.burst.push(Frame::copied(frame, descriptor));
    }

    fn deliver(&mut self) {
        let (stack, owner) = (&mut self.stack, &mut self.owner);
        owner.is_burst = self.burst.len() > 1;
        stack.on_burst(self.now, &mut self.burst, owner);
    }

    fn pass(&mut self, ns: i64) {
        let until = self.now + ns;
        while let Some(at) = self.stack.next_deadline().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.stack.on_timer(self.now, &mut self.owner);
        }
        self.now = until;
    }

    /// Everything ends.
    fn finish(mut self) {
        self.deliver();
        let open: Vec<_> = self.owner.talks.keys().copied().collect();
        for id in open {
            let (stack, owner) = (&mut self.stack, &mut self.owner);
            stack.abort(self.now, id, owner).expect("it is open");
        }
        assert!(self.owner.talks.is_empty(), "all are over");
        // Half-open ones are given up, and TIME_WAIT ends.
        self.pass(600_000_000_000);
        let stack = &self.stack;
        let left = [stack.connections(), stack.active(), stack.time_waits()];
        assert_eq!(left, [0; 3]);
        assert_eq!(stack.counters().bytes_held, 0);
        assert_eq!(stack.counters().broken_identity(), None);
    }
}
