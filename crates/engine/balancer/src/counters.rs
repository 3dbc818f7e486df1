//! The outcomes of frames: each has one.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

macro_rules! outcomes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The outcome of a frame that came in.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Outcome {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Outcome {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

outcomes! {
    /// It left to a node.
    ToNode = "to node",
    /// It left to a client.
    ToClient = "to client",
    /// ARP, neighbour discovery or an echo: answered, or learned from.
    Control = "control",
    /// It belongs to a handshake, or to a first request, that is answered here.
    Handshake = "handshake",
    /// It answers a check of a node.
    Check = "check",
    /// It was answered with a reset, since it belongs to no connection.
    Reset = "reset",
    /// It belongs to no connection, and gets no answer: a reset, or a fragment of TCP.
    NoConnection = "no connection",
    /// It has the Ethernet address of someone else.
    NotForUs = "not for us",
    /// It has an IP address of someone else.
    NotOurs = "not our address",
    /// It has one of our addresses, and the number of a port that no service has.
    NoService = "no service",
    /// It has a VLAN tag: tagged traffic is not translated.
    Tagged = "tagged",
    /// Neither IP nor ARP.
    NotIp = "not IP",
    /// Neither TCP, UDP nor an ICMP message that is known.
    OtherProtocol = "other protocol",
    /// Its headers contradict themselves.
    Malformed = "malformed",
    /// Its capture or port cut it.
    Cut = "cut",
    /// The checksum of its IP header, or of its ICMP message, is wrong.
    WrongChecksum = "wrong checksum",
    /// Its hop count has run out; the sender is informed.
    HopsExceeded = "hop count exceeded",
    /// It is longer than the port's packets by which it would leave; the sender is informed.
    TooBig = "too big",
    /// Its sender was to be informed, and too many ICMP errors have left in the last moments.
    ErrorsLimited = "too many errors to report",
    /// No node of the service takes connections.
    NoNode = "no node",
    /// The table of connections is full, and no handshake can go.
    TableFull = "table full",
    /// Every port number of the NAT addresses is in use towards the node.
    NoPort = "no port number",
    /// Its sender's address and port are in use towards the node by another service.
    TupleTaken = "tuple taken",
    /// A reset whose sequence number its receiver does not expect: RFC 5961, 3.2.
    WrongReset = "reset outside window",
    /// The node or its gateway does not answer.
    NoNeighbour = "neighbour silent",
    /// Too many frames wait for the node or its gateway.
    NeighbourFull = "too many wait for neighbours",
    /// A later fragment whose first did not come in time.
    NoFirstFragment = "first fragment missing",
    /// Too many fragments wait for their first.
    FragmentsFull = "too many fragments",
    /// An ICMP error about a packet of no connection.
    NoSuchPacket = "error about unknown packet",
    /// There was no memory for the frames that it would have become.
    NoMemory = "no memory",
}

/// Outcomes of frames that were for a node or a client, and reached none. Of other frames, and of
/// those whose sender is informed, nothing is lost.
const LOST: [Outcome; 13] = [
    Outcome::Tagged,
    Outcome::Malformed,
    Outcome::Cut,
    Outcome::WrongChecksum,
    Outcome::NoNode,
    Outcome::TableFull,
    Outcome::NoPort,
    Outcome::TupleTaken,
    Outcome::NoNeighbour,
    Outcome::NeighbourFull,
    Outcome::NoFirstFragment,
    Outcome::FragmentsFull,
    Outcome::NoMemory,
];

/// How many frames met each outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcomes([u64; Outcome::ALL.len()]);

impl Default for Outcomes {
    fn default() -> Self {
        Self([0; _])
    }
}

impl Outcomes {
    /// One more.
    #[inline]
    pub(crate) fn count(&mut self, outcome: Outcome) {
        self.0[outcome as usize] += 1;
    }

    /// So many more at once.
    pub(crate) fn add(&mut self, outcome: Outcome, frames: u64) {
        self.0[outcome as usize] += frames;
    }

    /// How many met this one.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize]
    }

    /// Frames that were for a node or a client, and were lost.
    pub fn lost(&self) -> u64 {
        LOST.iter().map(|&outcome| self.of(outcome)).sum()
    }

    /// How many met any.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Serialize for Outcomes {
    /// Those that happened.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let happened = Outcome::ALL.iter().filter(|&&outcome| self.of(outcome) > 0);
        let mut map = serializer.serialize_map(None)?;
        for &outcome in happened {
            map.serialize_entry(outcome.name(), &self.of(outcome))?;
        }
        map.end()
    }
}
