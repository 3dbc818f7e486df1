//! A tap on both sides of a firewall that draws initial sequence numbers anew: each packet comes
//! twice, with numbers that differ by what the firewall adds. The side whose SYN came first counts,
//! and packets of the other one are copies.

use lineside_wire::{Direction, SeqNumber, TcpFlags, TcpHeader};

use crate::connection::Connection;
use crate::connection::segments::BEHIND_MAX;
use crate::stream::State;

/// No client asks again with another number so soon, unless it was refused. A guess: a firewall
/// takes less, and half of RFC 6298's second is the soonest that a SYN is repeated.
const SOON_NS: i64 = 100_000_000;

/// The initial sequence numbers on the other side of a firewall.
#[derive(Debug, Default)]
pub(crate) struct Rewritten {
    isn: [Option<SeqNumber>; 2],
}

impl Connection {
    /// Whether a segment is one of this connection with the numbers of the other side of a
    /// firewall.
    #[inline]
    pub(crate) fn is_rewritten(&mut self, direction: Direction, tcp: &TcpHeader, now: i64) -> bool {
        match tcp.flags.opens() {
            true => self.is_rewritten_syn(direction, tcp, now),
            false => self.rewritten.is_some() && self.has_rewritten_numbers(direction, tcp),
        }
    }

    #[cold]
    fn is_rewritten_syn(&mut self, direction: Direction, tcp: &TcpHeader, now: i64) -> bool {
        let back = direction.opposite();
        let own = self.streams[direction].isn;
        if self.rewritten.is_none() {
            let is_soon = now.saturating_sub(self.opened_ns) <= SOON_NS && self.is_alive();
            let answered = self.streams[back]
                .isn
                .filter(|_| tcp.flags.contains(TcpFlags::ACK));
            let answers = answered.is_none_or(|isn| tcp.acknowledgement == isn + 1);
            if !(is_soon && answers && own.is_some_and(|own| own != tcp.sequence)) {
                return false;
            }
            let mut rewritten = Rewritten::default();
            rewritten.isn[direction.index()] = Some(tcp.sequence);
            self.rewritten = Some(Box::new(rewritten));
            return true;
        }
        let Some(rewritten) = &mut self.rewritten else {
            return false;
        };
        let known = rewritten.isn[back.index()];
        if let Some(isn) = known.filter(|_| tcp.flags.contains(TcpFlags::ACK)) {
            let answers = tcp.acknowledgement == isn + 1;
            if answers {
                rewritten.isn[direction.index()].get_or_insert(tcp.sequence);
            }
            return answers;
        }
        rewritten.isn[direction.index()] == Some(tcp.sequence)
    }

    #[cold]
    fn has_rewritten_numbers(&self, direction: Direction, tcp: &TcpHeader) -> bool {
        let Some(rewritten) = &self.rewritten else {
            return false;
        };
        // Whether a number of a direction is one of the other side; `None`: it cannot be known.
        let is_of_other = |of: Direction, number: SeqNumber| {
            let stream = &self.streams[of];
            let (own, other) = (stream.isn?, rewritten.isn[of.index()]?);
            let is_near = |number| {
                let distance = stream.offset(number) - stream.next;
                (-BEHIND_MAX..=BEHIND_MAX).contains(&distance)
            };
            let moved = number - other.bytes_from(own);
            let differs = own != other && stream.state == State::Open;
            (differs && is_near(number) != is_near(moved)).then(|| is_near(moved))
        };
        let by_sequence = is_of_other(direction, tcp.sequence);
        let acknowledges = tcp.flags.contains(TcpFlags::ACK);
        let by_acknowledgement = || match acknowledges {
            true => is_of_other(direction.opposite(), tcp.acknowledgement),
            false => None,
        };
        by_sequence.or_else(by_acknowledgement).unwrap_or(false)
    }
}
