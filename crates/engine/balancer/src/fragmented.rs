//! Fragments go where their first went: only that has port numbers. Those that come before it wait.

use lineside_time::Nanoseconds;
use lineside_wire::{Fragment, FragmentKey};

use crate::counters::Outcome;
use crate::effects::Effects;
use crate::forward::{Arrival, tuple};
use crate::fragments::{HELD_MAX, PACKETS_MAX, Pieces, Way};
use crate::nat::Nat;
use crate::packet::Packet;
use crate::table::{Direction, Ends};

impl Nat {
    /// A part of a packet.
    pub(crate) fn on_fragment(
        &mut self,
        now: Nanoseconds,
        arrival: Arrival<'_>,
        fragment: &Fragment,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let key = fragment.key([arrival.packet.source, arrival.packet.destination]);
        if fragment.offset == 0 {
            return self.on_first(now, arrival, key, out);
        }
        match self.fragments.find(&key).map(|pieces| pieces.way) {
            Some(Way::Connection(number, direction)) => {
                self.pass_later(now, arrival, number, direction, out)
            }
            Some(Way::Dropped(outcome)) => Some(outcome),
            Some(Way::Unknown) => self.hold(arrival, &key),
            None if !self.is_expected(arrival.packet) => Some(Outcome::NotOurs),
            None => {
                self.remember(now, key, Way::Unknown);
                self.hold(arrival, &key)
            }
        }
    }

    /// Whether it can be a part of a packet of a connection.
    fn is_expected(&self, packet: &Packet) -> bool {
        let is_node = |address| {
            let mut nodes = self.pool.nodes.iter();
            nodes.any(|node| node.address.ip() == address)
        };
        self.pool.is_ours(packet.destination) || is_node(packet.source)
    }

    fn on_first(
        &mut self,
        now: Nanoseconds,
        arrival: Arrival<'_>,
        key: FragmentKey,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let first = tuple(arrival.packet);
        let outcome = self.on_whole(now, arrival, out);
        // With it came a connection, if there was none.
        let way = match (self.table.find(&first, &self.pool), outcome) {
            (Some((number, direction)), _) => Way::Connection(number, direction),
            (None, Some(outcome)) => Way::Dropped(outcome),
            (None, None) => Way::Dropped(Outcome::NoConnection),
        };
        match self.fragments.find(&key) {
            Some(pieces) => pieces.way = way,
            None => self.remember(now, key, way),
        }
        self.release(now, &key, way, out);
        outcome
    }

    /// What waited goes the way of its first.
    fn release(&mut self, now: Nanoseconds, key: &FragmentKey, way: Way, out: &mut Effects) {
        let Some(pieces) = self.fragments.find(key) else {
            return;
        };
        let held = std::mem::take(&mut pieces.held);
        self.fragments.held -= held.len();
        for (port, frame) in held {
            let wire_len = frame.descriptor().wire_len as usize;
            let outcome = match (Packet::read(frame.bytes(), wire_len), way) {
                (Ok(packet), Way::Connection(number, direction)) => {
                    let arrival = Arrival {
                        port,
                        frame,
                        packet: &packet,
                    };
                    self.pass_later(now, arrival, number, direction, out)
                }
                (Ok(_), Way::Dropped(outcome)) | (Err(outcome), _) => Some(outcome),
                (Ok(_), Way::Unknown) => Some(Outcome::NoFirstFragment),
            };
            if let Some(outcome) = outcome {
                self.outcomes.count(outcome);
            }
        }
    }

    fn pass_later(
        &mut self,
        now: Nanoseconds,
        arrival: Arrival<'_>,
        number: u32,
        direction: Direction,
        out: &mut Effects,
    ) -> Option<Outcome> {
        // The connection may be gone, and its number another's.
        if !self.table.is_used(number) {
            return Some(Outcome::NoConnection);
        }
        let tuple = self.pool.tuple(self.table.get(number), direction);
        let packet = arrival.packet;
        if [tuple.source.0, tuple.destination.0] != [packet.source, packet.destination] {
            return Some(Outcome::NoConnection);
        }
        self.pass(now, arrival, number, direction, out)
    }

    fn remember(&mut self, now: Nanoseconds, key: FragmentKey, way: Way) {
        if self.fragments.packets.len() == PACKETS_MAX {
            let dropped = self.fragments.drop_oldest() as u64;
            self.outcomes.add(Outcome::FragmentsFull, dropped);
        }
        self.fragments.packets.push_back(Pieces {
            key,
            since: now,
            way,
            held: Vec::new(),
        });
    }

    fn hold(&mut self, arrival: Arrival<'_>, key: &FragmentKey) -> Option<Outcome> {
        if self.fragments.held == HELD_MAX {
            return Some(Outcome::FragmentsFull);
        }
        let pieces = self.fragments.find(key)?;
        pieces.held.push((arrival.port, arrival.frame));
        self.fragments.held += 1;
        None
    }

    /// Forgets packets whose time is over.
    pub(crate) fn on_fragment_timers(&mut self, now: Nanoseconds) {
        let timeout = self.settings.timeouts.fragments;
        while (self.fragments.next_deadline(timeout)).is_some_and(|deadline| deadline <= now) {
            let dropped = self.fragments.drop_oldest() as u64;
            self.outcomes.add(Outcome::NoFirstFragment, dropped);
        }
    }
}
