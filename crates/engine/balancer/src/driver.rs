//! What a table in front of this one may forward by itself, such as a driver's: plain frames of
//! established connections, both ways.

use std::net::IpAddr;

use lineside_time::Nanoseconds;

use crate::effects::{Decision, Effects, FlowKey, Translation};
use crate::nat::{Nat, Place, socket};
use crate::packet::Packet;
use crate::pool::end;
use crate::rewrite::Rewriting;
use crate::shelves::Class;
use crate::table::{Connection, Direction, Ends, State, Tuple, flag};

/// A UDP flow is handed to the driver with this frame of a direction: a question and its answer are
/// not worth the three calls into the kernel.
const DATAGRAMS_TO_ENTER: u8 = 3;

/// A TCP flow is handed over with this frame of a direction: a request and its answer have less.
const SEGMENTS_TO_ENTER: u8 = 12;

impl Nat {
    /// Whether a direction may be handed to a driver now: plain frames of known translation, which
    /// fit the port by which they leave, with finished checksums.
    #[inline]
    pub(crate) fn may_enter(
        &self,
        connection: &Connection,
        direction: Direction,
        packet: &Packet,
        [from, to]: [usize; 2],
    ) -> bool {
        if connection.has(flag::ENTERED | flag::PARTIAL, direction)
            || connection.flags & flag::SHIFTED != 0
        {
            return false;
        }
        let counted = connection.counted(direction);
        let is_ready = match connection.state {
            State::Established => counted >= SEGMENTS_TO_ENTER,
            State::Exchanged => counted >= DATAGRAMS_TO_ENTER,
            // Of forged senders each would cost calls into the kernel, and again when it goes.
            State::Datagrams => {
                let unanswered = self.table.counts().of(Class::Unanswered) as usize;
                counted >= DATAGRAMS_TO_ENTER && unanswered <= self.table.max() / 2
            }
            _ => false,
        };
        let service = &self.pool.services[usize::from(connection.service)].settings;
        is_ready
            && packet.fragment.is_none()
            && !service.multicast
            && self.settings.ports[from].mtu <= self.settings.ports[to].mtu
    }

    /// A driver forwarded so much of a direction meanwhile, which keeps its connection alive.
    pub fn passed(&mut self, now: Nanoseconds, key: &FlowKey, frames: u64, bytes: u64) {
        let tuple = Tuple {
            transport: key.transport,
            source: end(key.source),
            destination: end(key.destination),
        };
        let Some((number, direction)) = self.table.find(&tuple, &self.pool) else {
            return;
        };
        if frames == 0 {
            return;
        }
        self.table.renew(number, now, &self.pool);
        let connection = self.table.get_mut(number);
        if !matches!(connection.state, State::Datagrams | State::Exchanged) {
            connection.flags |= flag::BYPASSED;
        }
        let node = &mut self.pool.nodes[usize::from(connection.node)];
        node.traffic[direction.index()].add(frames, bytes);
    }

    /// A driver forwards no direction of this connection any more.
    pub(crate) fn leave_driver(&self, connection: &Connection, out: &mut Effects) {
        for direction in Direction::BOTH {
            if connection.has(flag::ENTERED, direction) {
                let tuple = self.pool.tuple(connection, direction);
                out.decided.push(Decision::Leave(FlowKey {
                    transport: tuple.transport,
                    source: socket(tuple.source),
                    destination: socket(tuple.destination),
                }));
            }
        }
    }

    /// A driver forwards this direction no more, but may again.
    pub(crate) fn leave_driver_of(&mut self, number: u32, direction: Direction, out: &mut Effects) {
        let connection = self.table.get_mut(number);
        if !connection.has(flag::ENTERED, direction) {
            return;
        }
        let mut only = *connection;
        connection.set(flag::ENTERED, direction, false);
        only.set(flag::ENTERED, direction.reversed(), false);
        self.leave_driver(&only, out);
    }

    /// A neighbour is elsewhere now: what a driver has of connections to nodes behind it is old.
    #[cold]
    pub(crate) fn on_moved(&mut self, address: IpAddr, out: &mut Effects) {
        let numbers: Vec<u32> = self.table.numbers().collect();
        for number in numbers {
            let node = self.table.get(number).node;
            if self.pool.nodes[usize::from(node)].hop.address == address {
                self.leave_driver_of(number, Direction::ToNode, out);
            }
        }
    }

    /// Hands a direction over.
    pub(crate) fn enter_driver(
        &mut self,
        number: u32,
        direction: Direction,
        port: usize,
        place: Place,
        rewriting: &Rewriting,
        out: &mut Effects,
    ) {
        let connection = self.table.get_mut(number);
        connection.set(flag::ENTERED, direction, true);
        let is = self.pool.tuple(connection, direction);
        out.decided.push(Decision::Enter(Translation {
            transport: is.transport,
            port,
            source: socket(is.source),
            destination: socket(is.destination),
            new_source: socket(rewriting.source),
            new_destination: socket(rewriting.destination),
            out_port: place.port.into(),
            ethernet_source: self.settings.ports[usize::from(place.port)].ethernet,
            ethernet_destination: place.ethernet,
        }));
    }
}
