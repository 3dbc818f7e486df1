//! Room for a new connection: a place in the table and a port number towards its node. Where there
//! is none, a connection that would be missed less makes room: see [`Class`].
//!
//! [`Class`]: crate::shelves::Class

use lineside_tcp::keyed::hash_of_words;
use lineside_time::Nanoseconds;

use crate::counters::Outcome;
use crate::effects::Effects;
use crate::nat::{Nat, Place};
use crate::ports;
use crate::shelves::{Class, Counts};
use crate::table::{Connection, Direction, Ends, State, flag};

/// Sets the hashes of port numbers apart from those of the choice of nodes.
const PORT_WORD: u64 = 0x706f_7274;
/// So many connections make room for one port number, at most.
const EVICTED_MAX: usize = 8;

impl Nat {
    /// Enters a new connection, with a NAT address and a port number of its own.
    pub(crate) fn admit(
        &mut self,
        now: Nanoseconds,
        mut connection: Connection,
        out: &mut Effects,
    ) -> Result<u32, Outcome> {
        connection.seen = now;
        // Who makes room for a port number does so in the table, too.
        self.take_port(now, &mut connection, out)?;
        if self.table.is_full() {
            let oldest = self.table.first_of_all(now).ok_or(Outcome::TableFull)?;
            self.evict(oldest, out);
        }
        let until = now.saturating_add(self.timeout(connection.state));
        let added = self.table.add(connection, until, &self.pool);
        let number = added.ok_or(Outcome::TableFull)?;
        self.pool.on_opened(&connection);
        self.pool.services[usize::from(connection.service)].opened += 1;
        self.pool.nodes[usize::from(connection.node)].opened += 1;
        Ok(number)
    }

    /// Whether so many handshakes wait that new ones are answered by cookies: a share of the places
    /// that handshakes may have, which are all but those of connections that last.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_above(self.table.counts(), self.table.max())
    }

    /// Whether so many handshakes with a node wait, as a share of its port numbers.
    pub(crate) fn is_node_crowded(&self, node: u16) -> bool {
        let node = &self.pool.nodes[usize::from(node)];
        let service = &self.pool.services[usize::from(node.service)].settings;
        if service.keeps_client {
            return false;
        }
        let nat = self.pool.nat_numbers(node.address.is_ipv4()).len();
        let counts = self.table.counts_of(node.endpoint);
        self.is_above(counts, nat * ports::COUNT as usize)
    }

    fn is_above(&self, counts: Counts, max: usize) -> bool {
        let Some(share) = self.settings.cookies_above else {
            return false;
        };
        let room = max.saturating_sub(counts.of(Class::Lasting) as usize);
        // While no handshake waits, cookies help nobody, unless they are wanted always.
        let least = if share > 0.0 { 1.0 } else { 0.0 };
        f64::from(counts.of(Class::HalfOpen)) >= (share * room as f64).max(least)
    }

    /// Gives a connection a NAT address and port number that no other has towards its node.
    ///
    /// They follow from the client's address and port by a keyed hash (RFC 6056, 3.3.3): a client
    /// that begins anew from a port has the same ones again, so that a node which has the
    /// connection before in TIME-WAIT sees sequence numbers and stamps of the same clock go on (RFC
    /// 6191). Ports drawn at random would come to clients whose clocks are behind, and their SYNs
    /// would be dropped.
    fn take_port(
        &mut self,
        now: Nanoseconds,
        connection: &mut Connection,
        out: &mut Effects,
    ) -> Result<(), Outcome> {
        let service = &self.pool.services[usize::from(connection.service)].settings;
        if service.keeps_client {
            let tuple = self.pool.tuple(connection, Direction::ToClient);
            return match self.table.find(&tuple, &self.pool) {
                None => Ok(()),
                Some(_) => Err(Outcome::TupleTaken),
            };
        }
        let is_ipv4 = service.address.is_ipv4();
        let hash = self.flow_hash(connection.client(), connection.service);
        let key = self.key;
        let draw = |attempt| nat_port(key, hash, attempt);
        let count = self.pool.nat_numbers(is_ipv4).len();
        let first = (hash >> 32) as usize % count.max(1);
        for turn in 0..count {
            connection.nat = self.pool.nat_numbers(is_ipv4)[(first + turn) % count];
            if let Some(port) = self.table.free_port(connection, draw, &self.pool) {
                connection.nat_port = port;
                return Ok(());
            }
        }
        let endpoint = self.pool.endpoint(connection);
        // Some may have an address that is ours no more, or their clients'.
        for _ in 0..EVICTED_MAX {
            let oldest = self.table.first_of(endpoint, now).ok_or(Outcome::NoPort)?;
            let Connection { nat, nat_port, .. } = *self.table.get(oldest);
            self.evict(oldest, out);
            if self.pool.nat_numbers(is_ipv4).contains(&nat) {
                (connection.nat, connection.nat_port) = (nat, nat_port);
                return Ok(());
            }
        }
        Err(Outcome::NoPort)
    }

    /// A connection makes room before its time: who may still have it gets a reset.
    fn evict(&mut self, number: u32, out: &mut Effects) {
        self.evicted += 1;
        self.end(number, out);
    }

    /// Ends a connection. Both ends get a reset, and of a handshake the node, which then does not
    /// hold it against another connection from the same port; where a driver has seen the last
    /// sequence numbers, each end gets it when it sends again.
    pub(crate) fn end(&mut self, number: u32, out: &mut Effects) {
        let connection = self.table.remove(number, &self.pool);
        let shift = { self.joints.of(number) }.map_or(0, |splice| splice.sequence);
        let (to_client, to_node) = match connection.state {
            _ if connection.flags & flag::BYPASSED != 0 => (false, false),
            State::Established | State::Closing => (true, true),
            State::Asked | State::Answered => (false, true),
            State::Closed | State::Datagrams | State::Exchanged => (false, false),
        };
        if to_client {
            let client = Place {
                port: connection.port,
                ethernet: connection.ethernet,
            };
            self.reset(&connection, Direction::ToClient, client, shift, out);
        }
        if to_node {
            // A node that cannot be reached is not asked for: its frames would push out others'
            // that wait.
            let hop = self.pool.nodes[usize::from(connection.node)].hop;
            if let Some(node) = self.neighbours.known(hop.address) {
                self.reset(&connection, Direction::ToNode, node, 0, out);
            }
        }
        self.on_gone(number, &connection, out);
    }
}

/// The port number that a flow takes at an attempt.
fn nat_port(key: [u64; 2], hash: u64, attempt: u16) -> u16 {
    let drawn = hash_of_words(key, [hash, u64::from(attempt), PORT_WORD]);
    // The upper half of the product: as even as the hash.
    ports::START + (((drawn >> 32) * u64::from(ports::COUNT)) >> 32) as u16
}
