//! What each call waited for: the way from the first call to the last reply.
//!
//! A call waited for the latest reply of its connection or, if it is the connection's first, of its
//! client: the simplest of what may have let it go (`plan` looks closer). So each reply ends a
//! chain of calls and gaps that begins with the trace, without a hole and without an overlap, and
//! the chain that ends with the last reply is the elapsed time, divided.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;

use super::rows::{NONE, Row};
use crate::read::columns::Word;
use crate::read::round_trips::RoundTrips;

/// Connections whose last reply is kept: calls of more wait for their client's.
const CONNECTIONS_MAX: usize = 1 << 18;
/// Calls that wait for their reply: what more of them let go is not seen.
const WAITING_MAX: usize = 1 << 18;

/// Time by what took it: server, network, client.
pub(super) type Spent = [i64; 3];

/// What a call waited for, and how long it took; [`NONE`] stands for null.
pub(super) struct Waited {
    /// Since the reply that it waited for, and that one's name; 0: none.
    pub(super) think_ns: i64,
    pub(super) after: u64,
    /// To the last byte of its reply.
    pub(super) response_ns: i64,
    /// Of that, the server had it.
    pub(super) server_ns: i64,
}

/// A reply that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Reply {
    end_ns: i64,
    /// The place of its call.
    at: u64,
    connection: i64,
    who: Word,
    name: u64,
    /// From the first call on.
    spent: Spent,
}

/// Goes along the calls in the order of their times.
pub(super) struct Waits {
    ways: RoundTrips,
    start_ns: Option<i64>,
    /// Replies that are to come.
    waiting: BinaryHeap<Reverse<Reply>>,
    connections: HashMap<i64, Reply>,
    clients: HashMap<Word, Reply>,
    last: Option<Reply>,
    at: u64,
}

impl Waits {
    pub(super) fn new(ways: RoundTrips) -> Self {
        Self {
            ways,
            start_ns: None,
            waiting: BinaryHeap::new(),
            connections: HashMap::new(),
            clients: HashMap::new(),
            last: None,
            at: 0,
        }
    }

    /// From the first call to the last reply, divided.
    pub(super) fn elapsed(&self) -> Option<Spent> {
        self.last.map(|reply| reply.spent)
    }

    /// A server sent something, as far as is known.
    pub(super) fn has_servers(&self) -> bool {
        self.ways.has_servers
    }

    /// Takes the next call of a client, of which this is the first row. Others that wait for it
    /// know it by its name.
    pub(super) fn add(&mut self, who: Word, name: u64, row: &Row) -> Waited {
        self.pass(row.call_ns);
        let start_ns = *self.start_ns.get_or_insert(row.call_ns);
        let way = self.ways.get(row.connection);
        let before = self.connections.get(&row.connection);
        let before = before.or_else(|| self.clients.get(&who));
        let gap_ns = row
            .call_ns
            .saturating_sub(before.map_or(start_ns, |reply| reply.end_ns));
        let way_ns = match before {
            // The reply went on to the client, and its next call came back.
            Some(reply) if reply.connection == row.connection => {
                way.client_ns.unwrap_or_default().min(gap_ns)
            }
            _ => 0,
        };
        let mut waited = Waited {
            think_ns: before.map_or(NONE, |_| gap_ns),
            after: before.map_or(0, |reply| reply.name),
            response_ns: NONE,
            server_ns: NONE,
        };
        let spent = before.map_or([0; 3], |reply| reply.spent);
        self.at += 1;
        if row.is_unanswered || row.reply_end_ns == NONE {
            return waited;
        }
        let end_ns = row.reply_end_ns.max(row.call_ns);
        let response_ns = end_ns.saturating_sub(row.call_ns);
        let server_ns = match row.call_end_ns != NONE && row.reply_ns != NONE {
            true => row.reply_ns.saturating_sub(row.call_end_ns),
            false => response_ns,
        };
        let server_ns = server_ns.saturating_sub(way.server_ns.unwrap_or_default());
        let server_ns = server_ns.clamp(0, response_ns);
        (waited.response_ns, waited.server_ns) = (response_ns, server_ns);
        let network_ns = way_ns.saturating_add(response_ns - server_ns);
        let reply = Reply {
            end_ns,
            at: self.at,
            connection: row.connection,
            who,
            name,
            spent: [
                spent[0].saturating_add(server_ns),
                spent[1].saturating_add(network_ns),
                spent[2].saturating_add(gap_ns - way_ns),
            ],
        };
        self.last = self.last.max(Some(reply));
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push(Reverse(reply));
        }
        waited
    }

    /// Takes the replies that came until then.
    fn pass(&mut self, until_ns: i64) {
        while let Some(Reverse(reply)) = self.waiting.peek()
            && reply.end_ns <= until_ns
        {
            if let Some(Reverse(reply)) = self.waiting.pop() {
                let has_room = self.connections.len() < CONNECTIONS_MAX;
                if has_room || self.connections.contains_key(&reply.connection) {
                    self.connections.insert(reply.connection, reply);
                }
                self.clients.insert(reply.who, reply);
            }
        }
    }
}
