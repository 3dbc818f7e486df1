use hashbrown::HashMap;
use lineside_account::{Budget, Lease};
use lineside_time::Nanoseconds;
use lineside_wire::{Dissected, FourTuple, SeqNumber, TcpFlags, dissect};

/// Connections that are followed at once. What more come are not.
const CONNECTIONS_MAX: usize = 65_536;
/// What one takes at most: just after the table was laid out anew it is filled to 7/16, and until then the old one is there too.
const CONNECTION_BYTES: usize = 4 * size_of::<(FourTuple, Connection)>();
/// Drawn at once.
const CONNECTIONS_MORE: usize = 1024;

/// Times from a TCP segment that passes the tap to the first acknowledgement that covers it: the way from the tap to its receiver and back,
/// with the time that the receiver takes.
///
/// One segment of a direction at a time is followed, as Jacobson's estimator does (SIGCOMM '88), and none whose bytes have been seen before
/// (Karn's rule). A receiver may hold an acknowledgement back; that of a SYN it does not.
#[derive(Debug)]
pub struct RoundTrips {
    /// By the tuple from the client to the server.
    connections: HashMap<FourTuple, Connection>,
    /// For so many.
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

/// An end of a connection. The client is who sent the SYN, or else the first segment that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Towards {
    /// Who was called.
    Server,
    /// Who called.
    Client,
}

/// Both directions, that towards the server first.
#[derive(Debug, Default)]
struct Connection([Direction; 2]);

#[derive(Debug, Default)]
struct Direction {
    /// Behind the last byte seen; `None` before the first.
    next: Option<SeqNumber>,
    /// The sequence number behind the segment that is followed, and when it passed.
    followed: Option<(SeqNumber, Nanoseconds)>,
}

impl RoundTrips {
    /// Nothing has been seen. What is held is drawn on `budget`; connections that it does not bear are not followed.
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
        let connection = self.connections.entry(key).or_default();
        let [to_server, to_client] = &mut connection.0;
        let (sent, answered, towards) = if from_server {
            (to_client, to_server, Towards::Server)
        } else {
            (to_server, to_client, Towards::Client)
        };
        let len = tcp.payload_len as u32 + u32::from(is_syn);
        if len > 0 {
            let end = tcp.sequence + len;
            let first = *sent.next.get_or_insert(tcp.sequence);
            if end.is_after(first) {
                let is_all_new = !first.is_after(tcp.sequence);
                sent.next = Some(end);
                if is_all_new {
                    sent.followed.get_or_insert((end, at_ns));
                }
            } else {
                // Sent again: nobody knows which one an acknowledgement is for.
                sent.followed = None;
            }
        }
        let (end, sent_ns) = answered.followed?;
        if !is_answer || end.is_after(tcp.acknowledgement) {
            return None;
        }
        answered.followed = None;
        Some(RoundTrip {
            at_ns: sent_ns,
            took_ns: at_ns.saturating_sub(sent_ns).max(0),
            towards,
        })
    }

    /// Segments of connections beyond the 65,536, or those that the budget bears, that are followed at once.
    pub fn unfollowed(&self) -> u64 {
        self.unfollowed
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
    fn acknowledgements_end_what_they_cover_and_nothing_sent_again() {
        let mut trips = RoundTrips::new(&Budget::new(1 << 20));
        let client = u32::MAX - 50;
        let sent = [
            // Time, from the server, sequence number, acknowledged, SYN, bytes; how long what it ends took.
            (0, false, client, None, true, 0, None),
            (
                100,
                true,
                500,
                Some(client.wrapping_add(1)),
                true,
                0,
                Some((100, Towards::Server)),
            ),
            (
                130,
                false,
                client.wrapping_add(1),
                Some(501),
                false,
                0,
                Some((30, Towards::Client)),
            ),
            (
                200,
                false,
                client.wrapping_add(1),
                Some(501),
                false,
                100,
                None,
            ),
            (
                210,
                false,
                client.wrapping_add(101),
                Some(501),
                false,
                100,
                None,
            ),
            // An answer to the first of two ends what was followed, that to the second nothing.
            (
                300,
                true,
                501,
                Some(client.wrapping_add(101)),
                false,
                10,
                Some((100, Towards::Server)),
            ),
            (
                310,
                true,
                511,
                Some(client.wrapping_add(201)),
                false,
                0,
                None,
            ),
            (
                350,
                false,
                client.wrapping_add(201),
                Some(511),
                false,
                0,
                Some((50, Towards::Client)),
            ),
            // Lost, sent again: not counted.
            (
                400,
                false,
                client.wrapping_add(201),
                Some(511),
                false,
                50,
                None,
            ),
            (
                900,
                false,
                client.wrapping_add(201),
                Some(511),
                false,
                50,
                None,
            ),
            (
                990,
                true,
                511,
                Some(client.wrapping_add(251)),
                false,
                0,
                None,
            ),
            // The next one is.
            (
                1000,
                false,
                client.wrapping_add(251),
                Some(511),
                false,
                50,
                None,
            ),
            (
                1070,
                true,
                511,
                Some(client.wrapping_add(301)),
                false,
                0,
                Some((70, Towards::Server)),
            ),
        ];
        for (at_ns, from_server, sequence, ack, syn, len, expected) in sent {
            let bytes = frame(from_server, sequence, ack, syn, len);
            let found = trips.on_frame(at_ns, 1, &bytes, bytes.len());
            let found = found.map(|trip| (trip.took_ns, trip.towards));
            assert_eq!(found, expected, "at {at_ns}");
        }
    }

    #[test]
    fn a_capture_that_begins_later_still_tells_who_called() {
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
    fn connections_that_the_budget_does_not_bear_are_not_followed() {
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
