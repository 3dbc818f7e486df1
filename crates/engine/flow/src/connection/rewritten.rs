//! A tap on both sides of a firewall that draws initial sequence numbers anew: each packet comes
//! twice, with numbers that differ by what the firewall adds. The side whose SYN came first counts
//! (of a firewall that changes the server's numbers alone, the one whose SYN-ACK did), and packets
//! of the other one are copies.
//!
//! A client that gives up and asks again at once, with another number, looks the same until it is
//! answered. So both sides of a firewall are taken for that only when each has its SYN-ACK, before
//! the client said anything more: a server answers one of two calls of a client, not both.

use lineside_wire::{Direction, SeqNumber, TcpFlags, TcpHeader};

use crate::connection::{Ahead, Connection, Rewritten, Stray};
use crate::stream::{BEHIND_MAX, Segment, State};

/// A firewall takes less. A guess: half of RFC 6298's second is the soonest that a SYN is repeated.
const SOON_NS: i64 = 100_000_000;

impl Connection {
    /// Whether a segment is one of this connection with the numbers of the other side of a
    /// firewall.
    #[inline]
    pub(crate) fn is_rewritten(&mut self, direction: Direction, tcp: &TcpHeader, now: i64) -> bool {
        match tcp.flags.opens() {
            true => self.is_rewritten_syn(direction, tcp, now),
            false => self.rewritten.is_some() && self.has_rewritten_numbers(direction, tcp, now),
        }
    }

    #[cold]
    fn is_rewritten_syn(&mut self, direction: Direction, tcp: &TcpHeader, now: i64) -> bool {
        let (back, is_answer) = (direction.opposite(), tcp.flags.contains(TcpFlags::ACK));
        if let Some(rewritten) = &self.rewritten {
            let answers = !is_answer || tcp.acknowledgement == rewritten.isn[back.index()] + 1;
            return self.is_alive() && answers && rewritten.isn[direction.index()] == tcp.sequence;
        }
        let Some(asked) = self.streams[back].isn.filter(|_| is_answer) else {
            return false;
        };
        let is_soon = now.saturating_sub(self.opened_ns) <= SOON_NS && !self.has_moved();
        if !is_soon || !self.is_alive() || tcp.acknowledgement != asked + 1 {
            return false;
        }
        match self.streams[direction].isn {
            // Only the server's numbers differ.
            Some(own) if own != tcp.sequence && self.streams[direction].acked.is_none() => {
                self.has_other_side(back, asked, tcp.sequence);
                true
            }
            Some(_) => false,
            None => {
                if let Some((syn, answer)) = other_side_of(&self.strays, back) {
                    let [client, server] = [syn, answer].map(|first| first.sequence + u32::MAX);
                    self.strays.clear();
                    self.has_other_side(back, client, server);
                }
                false
            }
        }
    }

    /// The other side of a firewall has these initial numbers of a client, which sends in
    /// `direction`, and its server.
    fn has_other_side(&mut self, direction: Direction, client: SeqNumber, server: SeqNumber) {
        let mut isn = [server; 2];
        isn[direction.index()] = client;
        let ahead = [None; 2];
        self.rewritten = Some(Box::new(Rewritten { isn, ahead }));
    }

    #[cold]
    fn has_rewritten_numbers(&mut self, direction: Direction, tcp: &TcpHeader, now: i64) -> bool {
        let Some(rewritten) = &mut self.rewritten else {
            return false;
        };
        let isn = rewritten.isn;
        // By how much the numbers of a direction differ there, and whether one is of there;
        // `None`: it cannot be known.
        let moved = |of: Direction, number: SeqNumber| {
            let own = self.streams[of].isn?;
            Some(number - isn[of.index()].bytes_from(own))
        };
        let is_of_other = |of: Direction, number: SeqNumber| {
            let stream = &self.streams[of];
            let is_near = |number| {
                let distance = stream.offset(number) - stream.next;
                (-BEHIND_MAX..=BEHIND_MAX).contains(&distance)
            };
            let [here, there] = [is_near(number), is_near(moved(of, number)?)];
            (stream.state == State::Open && here != there).then_some(there)
        };
        let by_acknowledgement = || match tcp.flags.contains(TcpFlags::ACK) {
            true => is_of_other(direction.opposite(), tcp.acknowledgement),
            false => None,
        };
        let by_sequence = is_of_other(direction, tcp.sequence);
        if !by_sequence.or_else(by_acknowledgement).unwrap_or(false) {
            return false;
        }
        let Some(first) = moved(direction, tcp.sequence).filter(|_| tcp.payload_len > 0) else {
            return true;
        };
        let stream = &self.streams[direction];
        let end = stream.offset(first) + tcp.payload_len as i64;
        let ahead = &mut rewritten.ahead[direction.index()];
        let seen = stream.seen();
        *ahead = ahead.filter(|ahead| ahead.end > seen);
        match ahead {
            // Nothing comes that it would be a copy of.
            Some(ahead) if now.saturating_sub(ahead.since_ns) > SOON_NS => {
                self.rewritten = None;
                return false;
            }
            Some(ahead) => ahead.furthest = ahead.furthest.max(end),
            None if end > seen => {
                *ahead = Some(Ahead {
                    end,
                    since_ns: now,
                    furthest: end,
                });
            }
            None => {}
        }
        true
    }

    /// Up to where copies have come of what did not come itself.
    pub(super) fn copied_to(&self, direction: Direction) -> Option<i64> {
        let rewritten = self.rewritten.as_ref()?;
        Some(rewritten.ahead[direction.index()]?.furthest)
    }

    /// Whether both a SYN of another number and its answer came, before this connection has one.
    pub(crate) fn may_be_next(&self) -> bool {
        let waits = self.strays.len() == 2 && self.is_half_open();
        waits
            && Direction::BOTH
                .iter()
                .any(|&of| other_side_of(&self.strays, of).is_some())
    }
}

/// Whether a SYN, or the answer to such a SYN, may be of the other side of a firewall: nothing but
/// a SYN was seen of the connection, a moment ago.
pub(super) fn may_be_other_side(
    connection: &Connection,
    direction: Direction,
    syn: &Segment,
    silent_ns: i64,
) -> bool {
    let asking = match syn.acknowledgement {
        None => direction,
        Some(_) => direction.opposite(),
    };
    let (asked, other) = (
        &connection.streams[asking],
        &connection.streams[asking.opposite()],
    );
    let is_first = match syn.acknowledgement {
        None => connection.strays.is_empty(),
        Some(_) => connection.strays.len() == 1,
    };
    let is_plain = connection.is_alive() && syn.payload_len == 0 && is_first;
    let is_asked = asked.isn.is_some() && !connection.has_moved();
    let is_unanswered = other.isn.is_none() && other.state == State::Unseen;
    is_plain && is_asked && is_unanswered && silent_ns <= SOON_NS
}

/// The SYN of the other side of a firewall, which was sent in `direction`, and the answer to it.
fn other_side_of(strays: &[Stray], direction: Direction) -> Option<(&Segment, &Segment)> {
    let [syn, answer] = strays else {
        return None;
    };
    let is_pair = syn.direction == direction && answer.direction != direction;
    let (syn, answer) = (&syn.segment, &answer.segment);
    let are_plain = syn.is_syn && answer.is_syn && syn.payload_len + answer.payload_len == 0;
    let answers = syn.acknowledgement.is_none() && answer.acknowledgement == Some(syn.sequence);
    (is_pair && are_plain && answers).then_some((syn, answer))
}
