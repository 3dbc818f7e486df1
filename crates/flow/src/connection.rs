use std::hash::{Hash, Hasher};

use lineside_account::Lease;
use lineside_frame::{Descriptor, FrameRef, Range};
use lineside_wire::{Direction, Endpoint, FourTuple, Layers};

use crate::fragments::Whole;
use crate::stream::Stream;

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

/// What tells a connection from others: its ends, its transport and perhaps its virtual network.
/// Packets of both directions have the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// In its canonical form.
    pub(crate) tuple: FourTuple,
    pub(crate) transport: Transport,
    /// Of a connection whose ends another one of another virtual network had first.
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

    /// That of a connection of its own in a virtual network.
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

/// What one direction did in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets.
    pub packets: u64,
    /// Payload bytes on the wire.
    pub bytes: u64,
    /// Of them, bytes that had been seen before.
    pub retransmitted_bytes: u64,
    /// Packets with bytes that came after later ones.
    pub out_of_order_packets: u64,
    /// Bytes that never came.
    pub lost_bytes: u64,
    /// Samples of the time from a segment to its acknowledgement, seen at the tap.
    pub rtt_samples: u64,
    /// Their sum in nanoseconds.
    pub rtt_sum_ns: u64,
    /// The least of them.
    pub rtt_min_ns: Option<u64>,
}

/// A connection: both directions between two ends, in one incarnation.
#[derive(Debug)]
pub struct Connection {
    pub(crate) key: Key,
    pub(crate) first: Descriptor,
    pub(crate) layers: Layers,
    /// Its virtual network, once a packet was seen in one.
    pub(crate) network: Option<u32>,
    pub(crate) initiator: Option<Direction>,
    pub(crate) streams: [Stream; 2],
    /// Segments of both directions so far: the clock that lateness is counted by.
    pub(crate) segments: u64,
    pub(crate) last_ns: i64,
    pub(crate) interval_ns: i64,
    pub(crate) counts: [FlowCounts; 2],
    /// Segments far outside the window: of a new incarnation whose SYN is late or lost, or garbage.
    pub(crate) strays: Vec<Stray>,
    /// Directions that ended by FIN.
    pub(crate) ended: [bool; 2],
    /// It was reset, and nothing came since that denies it.
    pub(crate) is_reset: bool,
    /// Until then each segment may be a mirror's copy, also an expected one.
    pub(crate) watched_until_ns: i64,
    /// Before that, no packet is of another interval, or comes after too long a time.
    pub(crate) calm_until_ns: i64,
}

/// A segment kept because it may belong to the next incarnation of its four-tuple.
#[derive(Debug)]
pub(crate) struct Stray {
    pub(crate) direction: Direction,
    pub(crate) segment: crate::stream::Segment,
    /// Empty if a snap length left nothing of it.
    pub(crate) range: Range,
    /// Draws it on the memory budget.
    pub(crate) _lease: Lease,
}

/// Where a packet came from.
pub(crate) enum Origin<'a> {
    Frame(&'a FrameRef),
    Whole(&'a Whole),
    Known(&'a Descriptor, &'a Layers),
}

impl Origin<'_> {
    /// Of its frame, of fragments that of the first one.
    #[inline]
    pub(crate) fn descriptor(&self) -> &Descriptor {
        match self {
            Self::Frame(frame) => frame.descriptor(),
            Self::Whole(whole) => whole.descriptor(),
            Self::Known(descriptor, _) => descriptor,
        }
    }

    /// What is at hand of its packet.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Frame(frame) => frame.bytes(),
            Self::Whole(whole) => whole.first_bytes(),
            Self::Known(..) => &[],
        }
    }

    #[cold]
    pub(crate) fn layers(&self) -> Layers {
        match self {
            Self::Frame(frame) => {
                let descriptor = frame.descriptor();
                let (link_type, wire_len) = (descriptor.link_type.0, descriptor.wire_len as usize);
                lineside_wire::layers(link_type, frame.bytes(), wire_len)
            }
            Self::Whole(whole) => whole.layers(),
            Self::Known(_, layers) => **layers,
        }
    }
}

impl Connection {
    pub(crate) fn new(key: Key, origin: &Origin<'_>, now: i64) -> Self {
        let layers = origin.layers();
        Self {
            key,
            first: *origin.descriptor(),
            layers,
            network: layers.virtual_network(),
            initiator: None,
            streams: [Stream::default(), Stream::default()],
            segments: 0,
            last_ns: now,
            interval_ns: i64::MIN,
            counts: Default::default(),
            strays: Vec::new(),
            ended: [false; 2],
            is_reset: false,
            watched_until_ns: now,
            calm_until_ns: i64::MIN,
        }
    }

    /// Neither end closed it, by what was seen.
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

    /// The direction of the end that opened it, if its handshake was seen.
    pub fn initiator(&self) -> Option<Direction> {
        self.initiator
    }
}
