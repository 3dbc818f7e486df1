//! Round trips as the tap sees them: from a TCP segment to the first acknowledgement that covers
//! it.
//!
//! One segment of a direction at a time is followed, as Jacobson's estimator does (SIGCOMM '88),
//! and none whose bytes have been seen before (Karn's rule; RFC 6298 3). [`Followed`] is that
//! segment; the engine has one in each stream, [`RoundTrips`] one in each direction of the
//! connections in its own table, which needs no reassembly.

use hashbrown::HashMap;
use lineside_account::{Budget, Lease};
use lineside_time::Nanoseconds;
use lineside_wire::{Direction, Dissected, FourTuple, SeqNumber, TcpFlags, dissect};

/// Connections that are followed at once. Further ones are only counted.
const CONNECTIONS_MAX: usize = 65_536;
/// What a connection takes at most: just after the table was laid out anew it is filled to 7/16,
/// and until then the old one is there too.
const CONNECTION_BYTES: usize = 4 * size_of::<(FourTuple, Connection)>();
/// Connections for which memory is drawn at once.
const CONNECTIONS_MORE: usize = 1024;

/// The segment of a direction whose acknowledgement is awaited. `E` says where it ends: an offset
/// or a sequence number.
#[derive(Debug)]
pub(crate) struct Followed<E>(Option<(E, Nanoseconds)>);

impl<E> Default for Followed<E> {
    fn default() -> Self {
        Self(None)
    }
}

impl<E: Copy> Followed<E> {
    /// A segment with new bytes passes: it is followed unless an earlier one is.
    #[inline]
    pub(crate) fn on_sent(&mut self, end: E, at_ns: Nanoseconds) {
        self.0.get_or_insert((end, at_ns));
    }

    /// Bytes come again or out of order: there is no way to know which copy an acknowledgement is
    /// for.
    #[inline]
    pub(crate) fn on_repeated(&mut self) {
        self.0 = None;
    }

    /// An acknowledgement passes. If it covers the end of the segment, the round trip is over:
    /// returns when it began.
    #[inline]
    pub(crate) fn on_acknowledged(
        &mut self,
        is_covered: impl FnOnce(E) -> bool,
    ) -> Option<Nanoseconds> {
        let (_, sent_ns) = self.0.take_if(|(end, _)| is_covered(*end))?;
        Some(sent_ns)
    }
}

/// Times from a TCP segment that passes the tap to the first acknowledgement that covers it: the
/// way from the tap to its receiver and back, with the time that the receiver takes. A receiver may
/// delay an acknowledgement; it does not delay that of a SYN.
#[derive(Debug)]
pub struct RoundTrips {
    /// By the tuple from the client to the server.
    connections: HashMap<FourTuple, Connection>,
    /// Connections for which memory is drawn.
    connections_max: usize,
    lease: Lease,
    unfollowed: u64,
}

/// A round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// When the segment passed.
    pub at_ns: Nanoseconds,
    /// How long its acknowledgement took.
    pub took_ns: Nanoseconds,
    /// Where the segment went.
    pub towards: Towards,
}

/// An end of a connection. The client is the end that sent the SYN, or else the first segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    /// The end that was called.
    Server,
    /// The end that called.
    Client,
}

/// Both directions, `Forward` towards the server.
#[derive(Debug, Default)]
struct Connection([Half; 2]);

/// One direction.
#[derive(Debug, Default)]
struct Half {
    /// After the last byte seen; `None` before the first.
    next: Option<SeqNumber>,
    followed: Followed<SeqNumber>,
}

impl RoundTrips {
    /// Nothing has been seen. Memory is drawn on `budget`; connections for which it has no room are
    /// not followed.
    pub fn new(budget: &Budget) -> Self {
        Self {
            connections: HashMap::new(),
            connections_max: 0,
            lease: budget.lease(0).expect("nothing always fits"),
            unfollowed: 0,
        }
    }

    /// Whether one more connection may be followed.
    fn has_room(&mut self) -> bool {
        if self.connections.len() < self.connections_max {
            return true;
        }
        let more = self.connections_max + CONNECTIONS_MORE;
        let has_room = more <= CONNECTIONS_MAX && self.lease.resize(more * CONNECTION_BYTES);
        if has_room {
            self.connections_max = more;
        }
        has_room
    }

    /// A frame that passed at `at_ns`; the round trip that ends with it, if one does.
    pub fn on_frame(
        &mut self,
        at_ns: Nanoseconds,
        link_type: u16,
        bytes: &[u8],
        wire_len: usize,
    ) -> Option<RoundTrip> {
        let Dissected::Tcp(ip, tcp) = dissect(link_type, bytes, wire_len) else {
            return None;
        };
        let tuple = FourTuple::of(&ip, tcp.source_port, tcp.destination_port);
        let is_syn = tcp.flags.opens();
        let is_answer = tcp.flags.contains(TcpFlags::ACK);
        let from_server = self.connections.contains_key(&tuple.reversed());
        let is_new = !from_server && !self.connections.contains_key(&tuple);
        if is_new && !self.has_room() {
            self.unfollowed += 1;
            return None;
        }
        // The answer to a SYN that was not seen comes from the server.
        let from_server = from_server || is_new && is_syn && is_answer;
        let key = if from_server { tuple.reversed() } else { tuple };
        if is_syn && !is_answer {
            // RFC 9293, 3.5: ports may be used again.
            let known = self.connections.get(&key);
            let next = known.and_then(|known| known.0[0].next);
            if next != Some(tcp.sequence + 1) {
                self.connections.remove(&key);
            }
        }
        let (direction, towards) = match from_server {
            false => (Direction::Forward, Towards::Client),
            true => (Direction::Reverse, Towards::Server),
        };
        let connection = self.connections.entry(key).or_default();
        let (sent, answered) = direction.split_mut(&mut connection.0);
        let len = tcp.payload_len as u32 + u32::from(is_syn);
        if len > 0 {
            sent.on_segment(tcp.sequence, len, at_ns);
        }
        let is_covered = |end: SeqNumber| is_answer && !end.is_after(tcp.acknowledgement);
        let sent_ns = answered.followed.on_acknowledged(is_covered)?;
        Some(RoundTrip {
            at_ns: sent_ns,
            took_ns: at_ns.saturating_sub(sent_ns).max(0),
            towards,
        })
    }

    /// Segments of connections beyond the 65,536 that are followed at once, or beyond those that
    /// the budget has room for.
    pub fn unfollowed(&self) -> u64 {
        self.unfollowed
    }
}

impl Half {
    fn on_segment(&mut self, sequence: SeqNumber, len: u32, at_ns: Nanoseconds) {
        let end = sequence + len;
        let first = *self.next.get_or_insert(sequence);
        if !end.is_after(first) {
            self.followed.on_repeated();
            return;
        }
        self.next = Some(end);
        if !first.is_after(sequence) {
            self.followed.on_sent(end, at_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use lineside_wire::build::{FrameBuilder, TcpFields};

    use super::*;

    const CLIENT: [u8; 4] = [10, 0, 0, 2];
    const SERVER: [u8; 4] = [10, 0, 0, 1];

    fn frame(from_server: bool, sequence: u32, ack: Option<u32>, syn: bool, len: usize) -> Vec<u8> {
        let ends = [(CLIENT, 700), (SERVER, 2049)];
        let [source, destination] = if from_server {
            [ends[1], ends[0]]
        } else {
            ends
        };
        let mut flags = TcpFlags(0);
        if syn {
            flags = flags | TcpFlags::SYN;
        }
        if ack.is_some() {
            flags = flags | TcpFlags::ACK;
        }
        let fields = TcpFields {
            source_port: source.1,
            destination_port: destination.1,
            sequence,
            acknowledgement: ack.unwrap_or(0),
            flags,
            ..TcpFields::default()
        };
        FrameBuilder::new(source.0.into(), destination.0.into()).tcp(&fields, &vec![7; len])
    }

    #[test]
    fn retransmitted_segments_give_no_round_trip() {
        let mut trips = RoundTrips::new(&Budget::new(1 << 20));
        // Relative to the initial sequence numbers; the client's soon wraps around.
        let mut see = |at_ns, from_server: bool, sequence: u32, ack: u32, len| {
            let isns = [u32::MAX - 50, 500];
            let [own, other] = if from_server {
                [isns[1], isns[0]]
            } else {
                isns
            };
            let syn = sequence == 0;
            let ack = (from_server || !syn).then(|| other.wrapping_add(ack));
            let bytes = frame(from_server, own.wrapping_add(sequence), ack, syn, len);
            let trip = trips.on_frame(at_ns, 1, &bytes, bytes.len());
            trip.map(|trip| (trip.took_ns, trip.towards))
        };
        let (client, server) = (false, true);
        let to_server = |took_ns| Some((took_ns, Towards::Server));
        let to_client = |took_ns| Some((took_ns, Towards::Client));
        assert_eq!(see(0, client, 0, 0, 0), None);
        assert_eq!(see(100, server, 0, 1, 0), to_server(100));
        assert_eq!(see(130, client, 1, 1, 0), to_client(30));
        assert_eq!(see(200, client, 1, 1, 100), None);
        assert_eq!(see(210, client, 101, 1, 100), None);
        // The acknowledgement of the first of two ends a round trip, that of the second does not.
        assert_eq!(see(300, server, 1, 101, 10), to_server(100));
        assert_eq!(see(310, server, 11, 201, 0), None);
        assert_eq!(see(350, client, 201, 11, 0), to_client(50));
        // Lost, sent again: not counted.
        assert_eq!(see(400, client, 201, 11, 50), None);
        assert_eq!(see(900, client, 201, 11, 50), None);
        assert_eq!(see(990, server, 11, 251, 0), None);
        // The next one is.
        assert_eq!(see(1000, client, 251, 11, 50), None);
        assert_eq!(see(1070, server, 11, 301, 0), to_server(70));
    }

    #[test]
    fn a_syn_answer_alone_shows_which_end_is_the_client() {
        let mut trips = RoundTrips::new(&Budget::new(1 << 20));
        let bytes = frame(true, 500, Some(9), true, 0);
        assert_eq!(trips.on_frame(0, 1, &bytes, bytes.len()), None);
        let bytes = frame(false, 9, Some(501), false, 0);
        let trip = trips
            .on_frame(40, 1, &bytes, bytes.len())
            .expect("it answers");
        assert_eq!(
            (trip.at_ns, trip.took_ns, trip.towards),
            (0, 40, Towards::Client)
        );
        assert_eq!(trips.on_frame(50, 1, b"no frame", 8), None);
    }

    #[test]
    fn connections_beyond_the_budget_are_not_followed() {
        let budget = Budget::new(CONNECTIONS_MORE * CONNECTION_BYTES);
        let mut trips = RoundTrips::new(&budget);
        for number in 0..2 * CONNECTIONS_MORE as u32 {
            let fields = TcpFields {
                source_port: 1000 + number as u16,
                destination_port: 80,
                flags: TcpFlags::SYN,
                ..TcpFields::default()
            };
            let ends = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
            let bytes = FrameBuilder::new(ends[0], ends[1]).tcp(&fields, &[]);
            trips.on_frame(0, 1, &bytes, bytes.len());
        }
        assert_eq!(trips.unfollowed(), CONNECTIONS_MORE as u64);
        assert_eq!(budget.used_bytes(), budget.limit_bytes());
        assert!(trips.connections.allocation_size() <= budget.used_bytes());
    }
}
