//! What is known of a connection: its ends, its two streams and its counts. How it takes segments
//! is in the modules below; the table of connections decides which packets belong to it.

mod accounting;
mod acknowledgements;
pub(crate) mod expected;
mod holes;
pub(crate) mod incarnations;
mod interval;
mod past;
mod progress;
mod refused;
mod requests;
mod rewritten;
mod room;
mod rounds;
pub(crate) mod segments;
pub(crate) mod sender;
mod stray;
mod stuck;

use std::hash::{Hash, Hasher};

use lineside_account::Lease;
use lineside_frame::{Descriptor, Range};
use lineside_wire::{Direction, Endpoint, FourTuple, Ip, Layers, SeqNumber, TcpFlags, TcpHeader};

use crate::connection::sender::Sender;
use crate::counts::FlowCounts;
use crate::damage::Checksums;
use crate::origin::{Origin, network_of};
use crate::stream::{BEHIND_MAX, Moment, Segment, State, Stream};

/// What carries the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// TCP, RFC 9293.
    Tcp,
    /// UDP, RFC 768: all datagrams between two addresses and ports.
    Udp,
}

impl Transport {
    /// Its name in the trace.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// What distinguishes a connection from others: its ends, its transport and perhaps its virtual
/// network. Packets of both directions have the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// In its canonical form.
    pub(crate) tuple: FourTuple,
    pub(crate) transport: Transport,
    /// The virtual network, if a connection of another network has the same ends.
    pub(crate) network: Option<u32>,
}

impl Key {
    /// The key of a packet's connection, and the packet's direction.
    #[inline]
    pub(crate) fn new(transport: Transport, packet: &FourTuple) -> (Self, Direction) {
        let (tuple, direction) = packet.canonical();
        let key = Self {
            tuple,
            transport,
            network: None,
        };
        (key, direction)
    }

    /// The key of a separate connection in a virtual network.
    pub(crate) fn in_network(self, network: u32) -> Self {
        let network = Some(network);
        Self { network, ..self }
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let network = self.network.map_or(0, |network| u64::from(network) + 1);
        self.tuple.hash(state);
        state.write_u64(network << 1 | self.transport as u64);
    }
}

/// A connection: both directions between two ends, from one SYN to the next (one incarnation).
#[derive(Debug)]
pub struct Connection {
    /// Its place in the table, by which sinks know it.
    pub(crate) slot: usize,
    pub(crate) key: Key,
    pub(crate) first: Descriptor,
    pub(crate) layers: Layers,
    /// The network of each direction, once a packet was seen in one.
    pub(crate) networks: [Option<u32>; 2],
    pub(crate) initiator: Option<Direction>,
    pub(crate) streams: [Stream; 2],
    pub(crate) senders: [Sender; 2],
    /// When the last SYN of the end came that opens it, until its answer is acknowledged.
    syn_ns: Option<i64>,
    /// How long that took: the round trip of both halves of the way.
    handshake_ns: Option<i64>,
    /// The end that asks for a connection, until an answer comes, and `segments` after its SYN.
    asked: Option<(Direction, u64)>,
    /// When the first packet of the present interval came.
    pub(crate) since_ns: Option<i64>,
    /// Segments of both directions so far: the clock that lateness is counted by.
    pub(crate) segments: u64,
    pub(crate) opened_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) interval_ns: i64,
    pub(crate) counts: [FlowCounts; 2],
    pub(crate) checksums: [Checksums; 2],
    /// Segments far outside the window: of a new incarnation whose SYN is late or lost, or damaged.
    pub(crate) strays: Vec<Stray>,
    /// Segments set aside because their timestamp is older than what their end has shown.
    aside: Vec<Stray>,
    /// The numbers on the other side of a firewall, if the tap sees both.
    rewritten: Option<Box<Rewritten>>,
    /// Directions that ended by FIN.
    pub(crate) ended: [bool; 2],
    /// It was reset, and no later segment contradicts that.
    pub(crate) is_reset: bool,
    /// Until then any segment, also an expected one, may be a mirror's copy.
    pub(crate) watched_until_ns: i64,
    /// Before this time, no packet belongs to another interval.
    pub(crate) calm_until_ns: i64,
    /// When the table looks whether it is over.
    pub(crate) deadline_ns: i64,
    /// Its class in the table, and its place there.
    pub(crate) class: u8,
    pub(crate) place: u32,
}

/// A segment kept because it may belong to the next incarnation of its four-tuple.
#[derive(Debug)]
pub(crate) struct Stray {
    pub(crate) direction: Direction,
    pub(crate) segment: Segment,
    /// Empty if the snap length cut all of it.
    pub(crate) range: Range,
    /// Draws it on the memory budget.
    pub(crate) _lease: Lease,
}

/// The other side of a firewall.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// Its initial sequence numbers.
    isn: [SeqNumber; 2],
    ahead: [Option<Ahead>; 2],
}

/// Copies that came before what they are copies of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    /// The end of the first of them, and when it came.
    end: i64,
    since_ns: i64,
    /// The end of the furthest.
    furthest: i64,
}

impl Connection {
    pub(crate) fn new(slot: usize, key: Key, origin: &Origin<'_>, now: i64) -> Self {
        let layers = origin.layers();
        Self {
            slot,
            key,
            first: *origin.descriptor(),
            layers,
            networks: [None; 2],
            initiator: None,
            streams: Default::default(),
            senders: Default::default(),
            syn_ns: None,
            handshake_ns: None,
            asked: None,
            since_ns: None,
            segments: 0,
            opened_ns: now,
            last_ns: now,
            interval_ns: i64::MIN,
            counts: Default::default(),
            checksums: Default::default(),
            strays: Vec::new(),
            aside: Vec::new(),
            rewritten: None,
            ended: [false; 2],
            is_reset: false,
            watched_until_ns: now,
            calm_until_ns: i64::MIN,
            deadline_ns: i64::MAX,
            class: 0,
            place: 0,
        }
    }

    /// The present moment by both clocks that lateness is counted by.
    #[inline]
    pub(crate) fn moment(&self, now: i64) -> Moment {
        Moment {
            segments: self.segments,
            ns: now,
        }
    }

    /// Whether mirrors' copies of its segments come.
    pub(crate) fn has_copies(&self) -> bool {
        self.watched_until_ns == i64::MAX
    }

    /// Takes note of the network of a direction's first packet.
    #[inline]
    pub(crate) fn note_network(&mut self, direction: Direction, ip: &Ip) {
        if let Some(network) = network_of(ip) {
            self.networks[direction].get_or_insert(network);
        }
    }

    /// Whether a segment continues this connection by its numbers, rather than another one between
    /// the same ends. `None`: it cannot be known.
    pub(crate) fn fits(&self, direction: Direction, tcp: &TcpHeader) -> Option<bool> {
        let is_near = |stream: &Stream, sequence| {
            let distance = stream.offset(sequence) - stream.next;
            (-BEHIND_MAX..=BEHIND_MAX).contains(&distance)
        };
        let [own, other] = [direction, direction.opposite()].map(|which| &self.streams[which]);
        let is_known = |stream: &Stream| stream.state != State::Unseen;
        let own = is_known(own).then(|| match own.syn_end {
            Some(end) if tcp.flags.contains(TcpFlags::SYN) => own.offset(tcp.sequence + 1) == end,
            _ => is_near(own, tcp.sequence),
        });
        let answers = is_known(other) && tcp.flags.contains(TcpFlags::ACK);
        let other = answers.then(|| is_near(other, tcp.acknowledgement));
        match (own, other) {
            (None, known) | (known, None) => known,
            (Some(own), Some(other)) => Some(own && other),
        }
    }

    /// Whether it holds ranges.
    pub(crate) fn holds(&self) -> bool {
        let has_strays = !(self.strays.is_empty() && self.aside.is_empty());
        has_strays || self.streams.iter().any(|stream| !stream.held.is_empty())
    }

    /// Copies the ranges that it holds out of their blocks; returns how many there were.
    pub(crate) fn spill(&mut self) -> usize {
        let held = self.streams.iter_mut().flat_map(|stream| &mut stream.held);
        let held = held.map(|held| &mut held.range);
        let strays = self.strays.iter_mut().chain(&mut self.aside);
        let strays = strays.map(|stray| &mut stray.range);
        { held.chain(strays) }
            .map(|range| usize::from(range.spill()))
            .sum()
    }

    /// Whether its handshake is over, as far as was seen.
    pub(crate) fn has_moved(&self) -> bool {
        self.streams.iter().any(Stream::has_moved)
    }

    /// Whether nothing answered what opened it.
    pub(crate) fn is_half_open(&self) -> bool {
        self.streams
            .iter()
            .any(|stream| stream.state == State::Unseen)
    }

    /// Neither end closed it, as far as was seen.
    pub(crate) fn is_alive(&self) -> bool {
        !self.is_reset && self.ended == [false; 2]
    }

    /// The two ends: direction `Forward` goes from the first to the second.
    pub fn ends(&self) -> [Endpoint; 2] {
        self.key.tuple.ends()
    }

    /// What carries it.
    pub fn transport(&self) -> Transport {
        self.key.transport
    }

    /// The frame that began it.
    pub fn first(&self) -> &Descriptor {
        &self.first
    }

    /// The VLAN tags and the tunnels of that frame.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// When its first packet came in the interval; `None` if none with a time did.
    pub fn interval_since_ns(&self) -> Option<i64> {
        self.since_ns
    }

    /// The direction in which the end sends that opened it, if its handshake was seen.
    pub fn initiator(&self) -> Option<Direction> {
        self.initiator
    }
}
