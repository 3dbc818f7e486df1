//! A stack, and the peer that a chart writes down, line by line:
//!
//! ```text
//!  < S 0:1 mss 1460        the peer's segment comes, in numbers since its initial one
//!  > SA 0:1 ack 1          the stack's leaves; every segment that leaves is written down
//!  = opened                what the owner hears, likewise: `data N`, `acked N`, `ended`, `closed W`
//!  * send 100              what the owner does: connect, listen, send, shutdown, abort, window N
//!  +0.2                    seconds pass
//!  burst .. end            the segments between come at once
//!  peer 2001               the lines that follow are about the peer's other port
//!  count challenges 1      what the stack has counted
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_tcp::{
    Closed, Config, ConnectionId, Datagram, Departure, Effects, Event, Refused, Stack,
};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::icmp::Failure;
use lineside_wire::{SeqNumber, TcpFlags, arp};

use crate::segment::{Bases, Segment};

pub(crate) const OURS: [u8; 4] = [10, 0, 0, 1];
pub(crate) const THEIRS: [u8; 4] = [10, 0, 0, 2];
pub(crate) const OUR_LINK: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const THEIR_LINK: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Where the stack listens, or connects from.
pub(crate) const PORT: u16 = 7;
/// The peer's numbers pass 2^32 soon.
const PEERS_ISS: SeqNumber = SeqNumber(0xffff_fc00);
const BEGIN_NS: i64 = 1_000_000_000_000;
const MEMORY_BYTES: usize = 64 << 20;

/// The byte with this sequence number, counted from the SYN.
pub(crate) fn content(at: i64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9) >> 11) as u8
}

/// Our address and port, and the peer's.
type Ends = [(IpAddr, u16); 2];

/// What left, and what the owner heard.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) frames: VecDeque<Vec<u8>>,
    pub(crate) events: VecDeque<(ConnectionId, String)>,
    opened: Vec<(ConnectionId, u16)>,
    received: BTreeMap<ConnectionId, u64>,
    pub(crate) silent: Vec<IpAddr>,
    /// The outcomes of segments.
    pub(crate) errors: Vec<Failure>,
    /// Datagrams: owner, ends, payload; and errors about those that were sent.
    pub(crate) datagrams: VecDeque<(u32, Ends, Vec<u8>)>,
    pub(crate) failed: VecDeque<(u32, Ends, Failure)>,
}

impl Effects for Heard {
    fn transmit(&mut self, frame: Frame, _: Departure) {
        self.frames.push_back(frame.share().bytes().to_vec());
    }

    fn fill(&mut self, _: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        for (byte, at) in bytes.iter_mut().zip(offset as i64 + 1..) {
            *byte = content(at);
        }
    }

    fn on_event(&mut self, id: ConnectionId, _: u32, event: Event<'_>) {
        let text = match event {
            Event::Opened { ends } => {
                self.opened.push((id, ends[1].1));
                self.received.insert(id, 0);
                "opened".to_owned()
            }
            Event::Stream(chunk) => {
                let received = self.received.entry(id).or_default();
                for (byte, at) in chunk.bytes().iter().zip(*received as i64 + 1..) {
                    assert_eq!(*byte, content(at), "the received byte {at}");
                }
                *received += chunk.len() as u64;
                format!("data {}", chunk.len())
            }
            Event::Acknowledged(bytes) => format!("acked {bytes}"),
            Event::Ended => "ended".to_owned(),
            Event::Closed(why) => format!("closed {}", name(why)),
        };
        self.events.push_back((id, text));
    }

    fn on_error(&mut self, _: ConnectionId, _: u32, failure: Failure) {
        self.errors.push(failure);
    }

    fn on_datagram(&mut self, owner: u32, datagram: &Datagram<'_>) {
        let payload = datagram.payload.bytes().to_vec();
        self.datagrams.push_back((owner, datagram.ends, payload));
    }

    fn on_datagram_error(&mut self, owner: u32, ends: Ends, failure: Failure) {
        self.failed.push_back((owner, ends, failure));
    }

    fn on_silent(&mut self, neighbour: IpAddr) {
        self.silent.push(neighbour);
    }
}

fn name(why: Closed) -> String {
    format!("{why:?}").to_lowercase()
}

/// A peer's port as the chart knows it.
#[derive(Debug, Default)]
struct Peer {
    id: Option<ConnectionId>,
    iss: Option<SeqNumber>,
    /// Segments that left and were not read yet.
    left: VecDeque<Segment>,
}

pub(crate) struct Chart {
    pub(crate) stack: Stack,
    pub(crate) heard: Heard,
    pub(crate) now: i64,
    peers: BTreeMap<u16, Peer>,
    port: u16,
    burst: Option<Burst>,
    line: String,
    ends: [IpAddr; 2],
    /// Whether the peer answers questions for its Ethernet address.
    pub(crate) answers: bool,
}

impl Chart {
    /// Without timestamps, selective acknowledgements, scales and delays, unless a test wants them.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::between([OURS.into(), THEIRS.into()], change)
    }

    pub(crate) fn between(ends: [IpAddr; 2], change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            timestamps: false,
            sack: false,
            receive_window_bytes: 20_000,
            connections_max: 100,
            active_max: 100,
            time_wait_max: 100,
            neighbours_max: 16,
            ..Config::new(OUR_LINK, &ends[..1])
        };
        change(&mut config);
        let stack =
            Stack::new(config, [0, 0x5eed], &Budget::new(MEMORY_BYTES)).expect("there is room");
        Self {
            stack,
            heard: Heard::default(),
            now: BEGIN_NS,
            peers: BTreeMap::new(),
            port: 2000,
            burst: None,
            line: String::new(),
            ends,
            answers: true,
        }
    }

    /// A connection that the peer opened, whose numbers begin at 1 both ways.
    pub(crate) fn established(change: impl FnOnce(&mut Config)) -> Self {
        let mut chart = Self::with(change);
        chart.run(
            "* listen
             < S 0:1 mss 1000
             > SA 0:1 ack 1
             < A 1:1 ack 1
             = opened",
        );
        chart
    }

    /// Runs the lines of a chart; at their end nothing may be left that they do not name.
    pub(crate) fn run(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            line.clone_into(&mut self.line);
            self.step(line);
        }
        self.line = "the end".to_owned();
        self.expect_nothing();
    }

    fn step(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let first = words.next().expect("not empty");
        match first {
            ">" => self.expect_segment(&Segment::parse(&mut words)),
            "=" => self.expect_event(line[1..].trim()),
            "<" => {
                self.expect_nothing();
                self.give(&Segment::parse(&mut words));
            }
            "*" => {
                self.expect_nothing();
                let done = self.call(line[1..].trim());
                assert_eq!(done, Ok(()), "{line}");
            }
            "burst" => self.burst = Some(Burst::new()),
            "end" => {
                let mut burst = self.burst.take().expect("a burst was begun");
                self.deliver(&mut burst);
            }
            "peer" => self.port = words.next().expect("a port").parse().expect("a port"),
            "count" => {
                let [name, value] = [(); 2].map(|()| words.next().expect("a name and a value"));
                assert_eq!(self.counted(name), value, "{name}");
            }
            _ => {
                self.expect_nothing();
                let seconds: f64 = first.parse().expect("a number of seconds");
                self.pass((seconds * 1e9).round() as i64);
            }
        }
    }

    /// A counter's value by its name.
    fn counted(&self, name: &str) -> String {
        let all = format!("{:?},", self.stack.counters()).replace(" }", "");
        let at = all.find(&format!(" {name}: ")).expect("a counter");
        let rest = &all[at + name.len() + 3..];
        rest[..rest.find(',').expect("a comma")].to_owned()
    }

    fn builder(&self) -> FrameBuilder {
        FrameBuilder::new(self.ends[1], self.ends[0]).with_link_addresses(THEIR_LINK, OUR_LINK)
    }

    fn bases(&self, from_us: bool) -> Bases {
        let peer = self.peers.get(&self.port);
        let ours = peer.and_then(|peer| peer.iss).unwrap_or_default();
        let (ours, our_time) = (ours, (BEGIN_NS / 1_000_000) as u32);
        match from_us {
            true => Bases {
                sequence: [ours, PEERS_ISS],
                timestamp: [our_time, 0],
            },
            false => Bases {
                sequence: [PEERS_ISS, ours],
                timestamp: [0, our_time],
            },
        }
    }

    /// Gives a segment whatever is left; what follows is the caller's to see.
    pub(crate) fn give_line(&mut self, line: &str) {
        self.give(&Segment::parse(&mut line.split_whitespace()));
    }

    /// All that left, as a chart writes it.
    pub(crate) fn sent(&mut self) -> Vec<String> {
        let peers = self.peers.values_mut();
        let left = peers.flat_map(|peer| peer.left.drain(..));
        left.map(|segment| format!("{segment:?}")).collect()
    }

    /// The numbers of the peer's first segment after the handshake.
    pub(crate) fn next_fields(&self) -> TcpFields<'static> {
        let [theirs, ours] = self.bases(false).sequence;
        TcpFields {
            sequence: (theirs + 1).0,
            acknowledgement: (ours + 1).0,
            ..TcpFields::default()
        }
    }

    fn give(&mut self, segment: &Segment) {
        let frame = segment.frame(&self.builder(), [self.port, PORT], self.bases(false));
        if let Some(burst) = &mut self.burst {
            burst.push(wrapped(&frame));
            return;
        }
        self.give_frame(&frame);
    }

    pub(crate) fn give_frame(&mut self, frame: &[u8]) {
        let mut burst = Burst::new();
        burst.push(wrapped(frame));
        self.deliver(&mut burst);
    }

    fn deliver(&mut self, burst: &mut Burst) {
        self.stack.on_burst(self.now, burst, &mut self.heard);
        self.collect();
    }

    /// Sorts what left by port; the peer answers questions for its address.
    fn collect(&mut self) {
        for (id, port) in self.heard.opened.drain(..) {
            self.peers.entry(port).or_default().id = Some(id);
        }
        if !self.answers {
            return;
        }
        while let Some(frame) = self.heard.frames.pop_front() {
            let peers = &mut self.peers;
            let time = (BEGIN_NS / 1_000_000) as u32;
            let read = Segment::read(&frame, |ports, sequence, flags| {
                let peer = peers.entry(ports[1]).or_default();
                if flags.contains(TcpFlags::SYN) {
                    peer.iss = Some(sequence);
                }
                Bases {
                    sequence: [peer.iss.unwrap_or_default(), PEERS_ISS],
                    timestamp: [time, 0],
                }
            });
            let Some((segment, ports)) = read else {
                self.answer(&frame);
                continue;
            };
            assert_eq!(ports[0], PORT);
            self.peers
                .entry(ports[1])
                .or_default()
                .left
                .push_back(segment);
        }
    }

    fn answer(&mut self, frame: &[u8]) {
        let asked = arp::Packet::new_checked(&frame[14..]).expect("a question");
        assert_eq!(asked.target_address().octets(), THEIRS);
        self.give_frame(&arp_frame(arp::REPLY, OUR_LINK, THEIRS, OURS));
    }

    pub(crate) fn pass(&mut self, ns: i64) {
        let until = self.now + ns;
        while let Some(at) = self.stack.next_deadline().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            self.stack.on_timer(self.now, &mut self.heard);
            self.collect();
        }
        self.now = until;
    }

    /// Time passes until a timer makes something leave.
    pub(crate) fn run_until_sent(&mut self) {
        while self.peers.values().all(|peer| peer.left.is_empty()) {
            let at = self.stack.next_deadline().expect("a timer is pending");
            self.pass(at - self.now);
        }
    }

    fn id(&self) -> ConnectionId {
        let peer = self.peers.get(&self.port);
        peer.and_then(|peer| peer.id).expect("a connection")
    }

    /// What the owner does.
    pub(crate) fn call(&mut self, words: &str) -> Result<(), Refused> {
        let (word, value) = words.split_once(' ').unwrap_or((words, "0"));
        let value: u64 = value.parse().expect("a number");
        let (now, heard) = (self.now, &mut self.heard);
        let done = match word {
            "listen" => self.stack.listen(None, PORT, 0),
            "connect" => {
                let [ours, theirs] = self.ends;
                let ends = ((ours, PORT), (theirs, self.port));
                let id = self.stack.connect(now, ends.0, ends.1, 0, heard)?;
                self.heard.received.insert(id, 0);
                let peer = self.peers.entry(self.port).or_default();
                (peer.id, peer.iss) = (Some(id), None);
                Ok(())
            }
            _ => {
                let id = self.id();
                let heard = &mut self.heard;
                match word {
                    "send" => self.stack.send(now, id, value, heard),
                    "shutdown" => self.stack.shutdown(now, id, heard),
                    "close" => self.stack.close(now, id, heard),
                    "abort" => self.stack.abort(now, id, heard),
                    "window" => self.stack.set_window(now, id, value as u32, heard),
                    _ => panic!("no call {word}"),
                }
            }
        };
        self.collect();
        done
    }

    fn expect_segment(&mut self, expected: &Segment) {
        let peer = self.peers.entry(self.port).or_default();
        let Some(left) = peer.left.pop_front() else {
            panic!("nothing left at `{}`", self.line)
        };
        let rest = &peer.left;
        assert!(
            expected.is_met_by(&left),
            "`{}`, but this left: {left:?}; then {rest:?}",
            self.line
        );
    }

    fn expect_event(&mut self, expected: &str) {
        let heard = self.heard.events.pop_front();
        let text = heard.map(|(_, text)| text).unwrap_or_default();
        let rest = &self.heard.events;
        assert_eq!(text, expected, "heard, then {rest:?}");
    }

    /// Everything that happened was written down.
    pub(crate) fn expect_nothing(&self) {
        let left: Vec<_> = { self.peers.iter() }
            .filter(|(_, peer)| !peer.left.is_empty())
            .map(|(port, peer)| (port, &peer.left))
            .collect();
        let heard = &self.heard.events;
        assert!(
            left.is_empty() && heard.is_empty(),
            "before `{}`: left {left:?}, heard {heard:?}",
            self.line
        );
        assert_eq!(
            self.stack.counters().broken_identity(),
            None,
            "{}",
            self.line
        );
    }

    /// No connection is left, nor anything that would become due.
    pub(crate) fn expect_empty(&self) {
        let stack = &self.stack;
        let left = [stack.connections(), stack.active(), stack.time_waits()];
        assert_eq!(left, [0; 3], "connections, active ones, in TIME_WAIT");
        assert_eq!(stack.next_deadline(), None);
    }
}

/// A frame as it comes from a port.
pub(crate) fn wrapped(bytes: &[u8]) -> Frame {
    let descriptor = Descriptor {
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    Frame::copied(bytes, descriptor)
}

/// An ARP packet of the peer.
pub(crate) fn arp_frame(
    operation: u16,
    receiver: [u8; 6],
    sender: [u8; 4],
    target: [u8; 4],
) -> Vec<u8> {
    let mut frame = vec![0; 14 + arp::PACKET_LEN];
    let rest =
        lineside_wire::headers::emit_link([receiver, THEIR_LINK], &[None; 2], 0x0806, &mut frame);
    arp::Packet::emit(
        rest,
        operation,
        (THEIR_LINK, sender.into()),
        ([0; 6], target.into()),
    );
    frame
}
