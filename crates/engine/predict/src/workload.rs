//! What is to be predicted: connections, calls, and what each call waits for.

use lineside_plan::{Begin, CallIndex, Order, Step};

/// Clients, and servers, are at most so many: each has an address of a block.
const HOSTS_MAX: u32 = 65_000;

/// A connection between a client and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The client, as a number from 0.
    pub client: u32,
    /// The server, as a number from 0.
    pub server: u32,
}

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// It opens its connection. One that no call opens is open before the first call.
    Open,
    /// It sends a message, and waits for its reply.
    Request {
        /// Bytes of the call.
        call_bytes: u64,
        /// Bytes of the reply.
        reply_bytes: u64,
        /// From the last byte of the call at the server to the first byte of the reply.
        server_ns: i64,
    },
    /// It sends a message that nobody answers.
    OneWay {
        /// Bytes of the call.
        call_bytes: u64,
    },
}

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its place in [`Workload::connections`].
    pub connection: u32,
    /// Calls of one thread are made in their order. A number from 0.
    pub thread: u32,
    /// What it does.
    pub work: Work,
    /// When.
    pub begin: Begin,
}

/// Calls and what they wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workload {
    /// Who talks to whom.
    pub connections: Vec<Connection>,
    /// In the order in which they were made.
    pub calls: Vec<Call>,
    /// An earlier call, and a later one that is made after its reply.
    pub edges: Vec<(CallIndex, CallIndex)>,
}

/// Why a workload cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// There is nothing to predict.
    #[error("it has no calls")]
    Empty,
    /// It is too large for its numbers.
    #[error("it has more than 2^32 calls or edges")]
    Large,
    /// A call names a connection that is not there.
    #[error("call {0} names a connection that is not there")]
    Connection(CallIndex),
    /// A call waits for itself, for a later one, or for one that is not there.
    #[error("call {0} waits for call {1}, which is no earlier one")]
    Order(CallIndex, CallIndex),
    /// There are more clients or servers than addresses for them.
    #[error("it has more than {HOSTS_MAX} clients or servers")]
    Hosts,
}

impl Workload {
    /// The order of its calls, from a beginning on.
    pub(crate) fn order(&self, begin_ns: i64) -> Order {
        let steps = self.calls.iter().map(|call| Step {
            thread: call.thread,
            begin: call.begin,
        });
        Order::new(steps.collect(), &self.edges, begin_ns)
    }

    /// Whether each call names what is there, and waits for earlier ones alone.
    pub fn check(&self) -> Result<(), Defect> {
        if self.calls.is_empty() {
            return Err(Defect::Empty);
        }
        if self.calls.len().max(self.edges.len()) >= u32::MAX as usize {
            return Err(Defect::Large);
        }
        let hosts = self
            .connections
            .iter()
            .flat_map(|ends| [ends.client, ends.server]);
        if hosts.max() >= Some(HOSTS_MAX) {
            return Err(Defect::Hosts);
        }
        for (index, call) in (0..).zip(&self.calls) {
            if call.connection as usize >= self.connections.len() {
                return Err(Defect::Connection(index));
            }
            match call.begin {
                Begin::After { call, .. } if call >= index => {
                    return Err(Defect::Order(index, call));
                }
                Begin::After { .. } | Begin::At(_) => {}
            }
        }
        let is_wrong = |&&(from, to): &&(u32, u32)| from >= to || to as usize >= self.calls.len();
        match self.edges.iter().find(is_wrong) {
            Some(&(from, to)) => Err(Defect::Order(to, from)),
            None => Ok(()),
        }
    }
}
