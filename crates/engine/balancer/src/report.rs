//! What happened so far, by port, service and node; and which node a client would get, and why.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use lineside_time::Nanoseconds;
use serde::Serialize;
use thiserror::Error;

use crate::counters::Outcomes;
use crate::health::{Change, Finding};
use crate::nat::Nat;
use crate::pool::{NodeSlot, ServiceSlot, Traffic, end};
use crate::proxy;
use crate::settings::{Choice, Transport};
use crate::shelves::Class;
use crate::table::{Direction, State, Tuple};

/// What happened so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Frames that came in: as many as all outcomes and those that wait.
    pub arrived: u64,
    /// The outcomes of frames.
    pub outcomes: Outcomes,
    /// Frames that came in and wait for a neighbour or a first fragment.
    pub held: u64,
    /// Frames of its own: answers, questions, checks, pieces.
    pub made: u64,
    /// Each port.
    pub ports: Vec<PortReport>,
    /// Each service.
    pub services: Vec<ServiceReport>,
    /// The table of connections.
    pub table: TableReport,
    /// Connections whose handshake was answered here; `None`: no service asks for it.
    pub splices: Option<proxy::Report>,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortReport {
    /// Its name.
    pub name: String,
    /// What came in.
    pub received: Traffic,
    /// What left.
    pub sent: Traffic,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReport {
    /// Its protocol.
    pub transport: Transport,
    /// Its address.
    pub address: SocketAddr,
    /// Connections that began.
    pub opened: u64,
    /// Those that are open: the table also has such that are closed, for late packets.
    pub connections: u32,
    /// The outcomes of packets that began none.
    pub refused: Outcomes,
    /// Its nodes.
    pub nodes: Vec<NodeReport>,
    /// What nodes that were removed had: to them, and from them.
    pub past_nodes: [Traffic; 2],
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// Its address.
    pub address: SocketAddr,
    /// Its weight.
    pub weight: u32,
    /// What it is taken for.
    pub state: NodeState,
    /// Connections that began.
    pub opened: u64,
    /// Those that are open: the table also has such that are closed, for late packets.
    pub connections: u32,
    /// What went to it.
    pub to_node: Traffic,
    /// What came from it.
    pub from_node: Traffic,
    /// Checks that succeeded.
    pub checks_good: u64,
    /// Checks that failed.
    pub checks_bad: u64,
    /// What the last check found.
    pub last_check: Option<Finding>,
    /// When it came up and went down, the latest last.
    pub history: Vec<Change>,
}

/// Whether a node takes connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It does.
    Up,
    /// Its checks fail.
    Down,
    /// It keeps those that it has.
    Draining,
}

/// The table of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableReport {
    /// Connections.
    pub connections: usize,
    /// Handshakes among them that are not finished.
    pub half_open: usize,
    /// The most connections.
    pub connections_max: usize,
    /// Bytes of memory that it takes with all indexes, also while it is not full.
    pub bytes: usize,
    /// Connections that made room for others before their time.
    pub evicted: u64,
    /// SYNs that were answered by a cookie, as too many handshakes were half open.
    pub cookies: u64,
    /// Clients whose last node is remembered.
    pub affinities: usize,
}

/// Which node a client's connection has or would get, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The client.
    pub client: SocketAddr,
    /// The service.
    pub service: SocketAddr,
    /// The node.
    pub node: SocketAddr,
    /// Why this one.
    pub why: Why,
}

/// Why a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// A connection is in the table.
    Connection {
        /// How far it is.
        state: &'static str,
        /// The source that the node sees.
        seen_as: SocketAddr,
        /// When its last frame came.
        last_frame_ns: Nanoseconds,
    },
    /// The client had it last.
    Affinity,
    /// The service's hash table says so.
    Hash {
        /// The place of the client's address and port.
        place: usize,
        /// Places in all.
        places: usize,
    },
    /// It has the fewest connections for its weight now.
    FewestConnections {
        /// How many.
        connections: u32,
        /// Its weight.
        weight: u32,
    },
    /// It is its turn.
    Turn,
}

/// Why there is no explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// No service has the address.
    #[error("no service has the address {0}")]
    NoService(SocketAddr),
    /// No node takes connections.
    #[error("no node of service {0} takes connections")]
    NoNode(SocketAddr),
    /// A client has an address of the service's family.
    #[error("{0} cannot be a client of {1}: it is of the other IP version")]
    Family(SocketAddr, SocketAddr),
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client,
            service,
            node,
            why,
        } = self;
        write!(f, "{client} to {service} goes to {node}: ")?;
        match why {
            Why::Connection { state, seen_as, .. } => {
                write!(f, "its connection is {state}, and the node sees {seen_as}")
            }
            Why::Affinity => write!(f, "the client had this node last"),
            Why::Hash { place, places } => {
                write!(
                    f,
                    "place {place} of {places} in the hash table is the node's"
                )
            }
            Why::FewestConnections {
                connections,
                weight,
            } => write!(
                f,
                "{connections} connections at weight {weight} are the fewest"
            ),
            Why::Turn => write!(f, "it is the node's turn"),
        }
    }
}

impl Nat {
    /// What happened so far.
    pub fn report(&self, _now: Nanoseconds) -> Report {
        let counters = self.settings.ports.iter().zip(&self.ports);
        let services = self.pool.services.iter().filter(|slot| !slot.is_removed);
        Report {
            arrived: self.ports.iter().map(|port| port.received.frames).sum(),
            outcomes: self.outcomes.clone(),
            held: self.held_of_arrivals(),
            made: self.maker.made,
            ports: counters
                .map(|(settings, port)| PortReport {
                    name: settings.name.clone(),
                    received: port.received,
                    sent: port.sent,
                })
                .collect(),
            services: services.map(|slot| self.report_service(slot)).collect(),
            table: TableReport {
                connections: self.table.len(),
                half_open: self.table.counts().of(Class::HalfOpen) as usize,
                connections_max: self.table.max(),
                bytes: self.table.bytes(),
                evicted: self.evicted,
                cookies: self.cookies,
                affinities: self.affinities.len(),
            },
            splices: self.report_splices(),
        }
    }

    /// Handshakes that were answered here, if any were or a service asks for it.
    fn report_splices(&self) -> Option<proxy::Report> {
        let splices = self.splices()?;
        let mut services = self.settings.services.iter();
        let is_asked_for = services.any(|service| service.splice.is_some());
        let has_begun = splices.counters() != proxy::Counters::default();
        (is_asked_for || has_begun).then(|| splices.report())
    }

    fn report_service(&self, slot: &ServiceSlot) -> ServiceReport {
        let nodes = slot.nodes.iter();
        ServiceReport {
            transport: slot.settings.transport,
            address: slot.settings.address,
            opened: slot.opened,
            connections: slot.connections - slot.closed,
            refused: slot.outcomes.clone(),
            nodes: nodes
                .map(|&node| report_node(&self.pool.nodes[usize::from(node)]))
                .collect(),
            past_nodes: slot.past,
        }
    }

    /// Which node a client's connection to a service has or would get, and why. Of two services
    /// with this address the TCP one is meant, unless the connection is of UDP.
    pub fn explain(
        &self,
        client: SocketAddr,
        service: SocketAddr,
    ) -> Result<Explanation, ExplainError> {
        if client.is_ipv4() != service.is_ipv4() {
            return Err(ExplainError::Family(client, service));
        }
        let numbers = [Transport::Tcp, Transport::Udp]
            .map(|transport| Some((transport, self.pool.service_of(transport, service)?)));
        let explained = |node: u16, why| Explanation {
            client,
            service,
            node: self.pool.nodes[usize::from(node)].address,
            why,
        };
        for (transport, _) in numbers.into_iter().flatten() {
            let tuple = Tuple {
                transport,
                source: end(client),
                destination: end(service),
            };
            if let Some((number, _)) = self.table.find(&tuple, &self.pool) {
                let (node, why) = self.explain_connection(number);
                return Ok(explained(node, why));
            }
        }
        let first = numbers.into_iter().flatten().next();
        let (_, number) = first.ok_or(ExplainError::NoService(service))?;
        let (node, why) =
            { self.explain_choice(client, number) }.ok_or(ExplainError::NoNode(service))?;
        Ok(explained(node, why))
    }

    fn explain_connection(&self, number: u32) -> (u16, Why) {
        use crate::table::Ends;
        let connection = self.table.get(number);
        let way_back = self.pool.tuple(connection, Direction::ToClient);
        let state = match connection.state {
            State::Asked | State::Answered => "half open",
            State::Established => "established",
            State::Closing => "closing",
            State::Closed => "closed",
            State::Datagrams => "a UDP mapping without an answer",
            State::Exchanged => "a UDP mapping",
        };
        let why = Why::Connection {
            state,
            seen_as: crate::nat::socket(way_back.destination),
            last_frame_ns: connection.seen,
        };
        (connection.node, why)
    }

    fn explain_choice(&self, client: SocketAddr, service: u16) -> Option<(u16, Why)> {
        let now = self.now;
        let slot = &self.pool.services[usize::from(service)];
        let address: IpAddr = client.ip();
        let last = self.affinities.node(now, address, service);
        if let Some(node) =
            last.filter(|&node| slot.settings.affinity.is_some() && slot.chooser.has(node))
        {
            return Some((node, Why::Affinity));
        }
        let hash = self.flow_hash(end(client), service);
        let node = slot.chooser.peek(now, hash)?;
        let chosen = &self.pool.nodes[usize::from(node)];
        let why = match slot.settings.choice {
            Choice::Maglev => Why::Hash {
                place: slot.chooser.place(hash),
                places: crate::choice::PLACES,
            },
            Choice::LeastConnections => Why::FewestConnections {
                connections: chosen.connections,
                weight: chosen.weight,
            },
            Choice::RoundRobin => Why::Turn,
        };
        Some((node, why))
    }
}

fn report_node(node: &NodeSlot) -> NodeReport {
    let state = match (node.is_draining, node.is_up) {
        (true, _) => NodeState::Draining,
        (false, true) => NodeState::Up,
        (false, false) => NodeState::Down,
    };
    NodeReport {
        address: node.address,
        weight: node.weight,
        state,
        opened: node.opened,
        connections: node.connections - node.closed,
        to_node: node.traffic[Direction::ToNode.index()],
        from_node: node.traffic[Direction::ToClient.index()],
        checks_good: node.checked.good,
        checks_bad: node.checked.bad,
        last_check: node.checked.last,
        history: node.checked.history.iter().copied().collect(),
    }
}
