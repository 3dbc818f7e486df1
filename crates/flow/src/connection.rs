use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lineside_account::Lease;
use lineside_frame::{Descriptor, FrameRef, Range};
use lineside_wire::Layers;

use crate::fragments::Whole;
use crate::stream::Stream;

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
}

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

/// The addresses, ports and transport of a connection, both directions alike: the lesser end first.
///
/// Addresses are kept as numbers, which compare, hash and order in few instructions, and as the
/// addresses themselves do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    addresses: [u128; 2],
    ports: [u16; 2],
    is_ipv4: bool,
    pub(crate) transport: Transport,
    /// Of a connection whose ends another one of another virtual network had first.
    pub(crate) network: Option<u32>,
}

impl Key {
    /// The key, and the direction of a packet: 0 from the lesser end to the greater.
    #[inline]
    pub(crate) fn new(
        transport: Transport,
        source: Endpoint,
        destination: Endpoint,
    ) -> (Self, usize) {
        let bits = |address| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let from = (bits(source.address), source.port);
        let to = (bits(destination.address), destination.port);
        let (lesser, greater, direction) = if from <= to {
            (from, to, 0)
        } else {
            (to, from, 1)
        };
        let key = Self {
            addresses: [lesser.0, greater.0],
            ports: [lesser.1, greater.1],
            is_ipv4: source.address.is_ipv4(),
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

    /// The lesser end and the greater.
    pub(crate) fn ends(&self) -> [Endpoint; 2] {
        [0, 1].map(|end| Endpoint {
            address: if self.is_ipv4 {
                Ipv4Addr::from_bits(self.addresses[end] as u32).into()
            } else {
                Ipv6Addr::from_bits(self.addresses[end]).into()
            },
            port: self.ports[end],
        })
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [one, other] = self.ports;
        let network = self.network.map_or(0, |network| u64::from(network) + 1);
        let kind = network << 2 | u64::from(self.is_ipv4) << 1 | self.transport as u64;
        state.write_u128(self.addresses[0]);
        state.write_u128(self.addresses[1]);
        state.write_u64(u64::from(one) << 48 | u64::from(other) << 32 | kind);
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
    pub(crate) initiator: Option<usize>,
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
    pub(crate) direction: usize,
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

    /// The two ends: direction 0 goes from the first to the second.
    pub fn ends(&self) -> [Endpoint; 2] {
        self.key.ends()
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
    pub fn initiator(&self) -> Option<usize> {
        self.initiator
    }
}
