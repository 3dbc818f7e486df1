//! What a [`Nat`](crate::Nat) is to do, and the checks of that.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use lineside_time::Nanoseconds;
use serde::Serialize;
use thiserror::Error;

use crate::ports;
use crate::proxy;

/// The most ports; a connection names one in 8 bits.
pub const PORTS_MAX: usize = 64;
/// The most NAT addresses; a connection names one in 8 bits, one value of which is none.
pub const NAT_ADDRESSES_MAX: usize = 250;
/// The most services, and the most nodes of all services; a connection names them in 16 bits, and a
/// node that is removed keeps its number while it has connections.
pub const NODES_MAX: usize = 16_384;
/// The highest weight of a node.
pub const WEIGHT_MAX: u32 = 1_000;
const SECOND: Nanoseconds = 1_000_000_000;

/// All settings.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Ports, in the order of their numbers.
    pub ports: Vec<PortSettings>,
    /// Source addresses towards nodes. None is needed where every service keeps the client, unless
    /// nodes are checked.
    pub nat: Vec<IpAddr>,
    /// Services, each with its nodes.
    pub services: Vec<Service>,
    /// Ways to networks. Without a fitting one a node is asked for at all ports, and whichever port
    /// the answer comes by is the one.
    pub routes: Vec<Route>,
    /// When connections and fragments are forgotten.
    pub timeouts: Timeouts,
    /// The most connections at once.
    pub connections_max: u32,
    /// When handshakes have this share of the places that they may have, in the table or among the
    /// port numbers towards a node, further ones are answered here, by cookies; `None`: never.
    pub cookies_above: Option<f64>,
    /// What strangers must not guess follows from it: the keys of all tables and of cookies, NAT
    /// ports, numbers of checks. The choice of nodes does not.
    pub seed: u64,
}

/// A port.
#[derive(Debug, Clone)]
pub struct PortSettings {
    /// Its name in reports.
    pub name: String,
    /// Its Ethernet address: frames for others are dropped.
    pub ethernet: [u8; 6],
    /// Bytes of the longest packet that leaves by it.
    pub mtu: u32,
}

/// A way to a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// An address of the network, and how many of its bits count.
    pub network: (IpAddr, u8),
    /// The gateway; `None`: its hosts are neighbours.
    pub via: Option<IpAddr>,
    /// The port.
    pub port: usize,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// Its name, in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A virtual address and port, and the nodes that serve it.
#[derive(Debug, Clone)]
pub struct Service {
    /// The protocol.
    pub transport: Transport,
    /// The address that clients use.
    pub address: SocketAddr,
    /// Which hosts serve it.
    pub nodes: Vec<NodeSettings>,
    /// How a connection's node is chosen.
    pub choice: Choice,
    /// A client's next connection goes to the same node if it comes within this time of the last.
    pub affinity: Option<Nanoseconds>,
    /// How nodes are checked; `None`: all are taken to be up.
    pub health: Option<Health>,
    /// Nodes see the client's address, and send their answers through here.
    pub keeps_client: bool,
    /// What to do with the connections of a node that is lost.
    pub on_loss: OnLoss,
    /// A node that came up reaches its full share after this time.
    pub slow_start: Nanoseconds,
    /// Segments are kept within the packets of both ports, where these differ.
    pub clamps_mss: bool,
    /// Each datagram goes to all nodes; UDP only.
    pub multicast: bool,
    /// Handshakes are answered here, and the first request decides; TCP only.
    pub splice: Option<proxy::Service>,
}

impl Service {
    /// A service of these nodes, by consistent hashing, with clients hidden and no checks.
    pub fn new(transport: Transport, address: SocketAddr, nodes: Vec<NodeSettings>) -> Self {
        Self {
            transport,
            address,
            nodes,
            choice: Choice::Maglev,
            affinity: None,
            health: None,
            keeps_client: false,
            on_loss: OnLoss::Reset,
            slow_start: 0,
            clamps_mss: true,
            multicast: false,
            splice: None,
        }
    }
}

/// A node of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeSettings {
    /// Its address and port.
    pub address: SocketAddr,
    /// Its share against the others'; 0: no new connections.
    pub weight: u32,
}

/// How a connection's node is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Consistent hashing (Eisenbud and others: "Maglev", NSDI 2016, 3.4).
    Maglev,
    /// The node with the fewest connections for its weight.
    LeastConnections,
    /// In turn, as often as the weight says.
    RoundRobin,
}

/// What to do with the connections of a node that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLoss {
    /// Both ends get a reset.
    Reset,
    /// They stay: the node may come back with its connections.
    Leave,
}

/// How nodes are checked.
#[derive(Debug, Clone)]
pub struct Health {
    /// Between the beginnings of two checks.
    pub interval: Nanoseconds,
    /// How long an answer may take.
    pub timeout: Nanoseconds,
    /// So many checks in a row succeed before a node that is down is up.
    pub rise: u32,
    /// So many checks in a row fail before a node that is up is down.
    pub fall: u32,
    /// A request by HTTP and the status that is good, not the handshake alone; TCP only.
    pub http: Option<HttpCheck>,
}

impl Default for Health {
    /// As HAProxy's: every 2 s, 3 failures, 2 successes.
    fn default() -> Self {
        Self {
            interval: 2 * SECOND,
            timeout: SECOND,
            rise: 2,
            fall: 3,
            http: None,
        }
    }
}

/// The request of a check.
#[derive(Debug, Clone)]
pub struct HttpCheck {
    /// The path that is asked for.
    pub path: String,
    /// The host that the request names.
    pub host: String,
    /// Which status is good.
    pub status: RangeInclusive<u16>,
}

/// When connections and fragments are forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// An established connection without a segment: RFC 5382, REQ-5 (2 h 4 min).
    pub established: Nanoseconds,
    /// One that begins to end, or has ended: RFC 5382, REQ-5 (4 min).
    pub transitory: Nanoseconds,
    /// A handshake that is not finished.
    pub half_open: Nanoseconds,
    /// A UDP mapping whose node has answered: RFC 4787, REQ-5 (5 min).
    pub udp: Nanoseconds,
    /// A UDP mapping whose node has not: shorter than that, so that forged senders do not stay.
    pub unanswered: Nanoseconds,
    /// Fragments that wait for their first, and the memory of the first.
    pub fragments: Nanoseconds,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            established: 7_440 * SECOND,
            transitory: 240 * SECOND,
            // A SYN and its answers are sent again for about a minute (Linux: tcp_synack_retries).
            half_open: 60 * SECOND,
            udp: 300 * SECOND,
            // Linux's nf_conntrack_udp_timeout.
            unanswered: 30 * SECOND,
            // Linux's ipfrag_time.
            fragments: 30 * SECOND,
        }
    }
}

/// What is wrong with settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// There must be a port.
    #[error("no port is given")]
    NoPort,
    /// More than a number bears.
    #[error("at most {max} {what} are possible")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The most.
        max: usize,
    },
    /// A port's frames would be taken twice.
    #[error("port {0} is given twice")]
    PortTwice(String),
    /// A port's MTU is not possible.
    #[error(
        "port {0} has an MTU of {1} bytes, which is not from 576 to 65535: 'ip link set {0} mtu 1500'"
    )]
    Mtu(String, u32),
    /// A group names a host that is no node of its service.
    #[error("service {0} has no node {1}, which one of its groups names")]
    GroupNode(SocketAddr, SocketAddr),
    /// UDP has no handshake.
    #[error("service {0} is UDP: only TCP's handshakes can be answered here")]
    SpliceOfUdp(SocketAddr),
    /// The budget has no room for connections whose handshake is answered here.
    #[error("the memory has no room for handshakes that are answered here: raise it")]
    SpliceBudget,
    /// There must be a service.
    #[error("no service is given")]
    NoService,
    /// Two services have one address and port.
    #[error("service {0} {1} is given twice")]
    ServiceTwice(&'static str, SocketAddr),
    /// A service has no node.
    #[error("service {0} has no node")]
    NoNode(SocketAddr),
    /// A service has a node twice.
    #[error("service {0} has node {1} twice: give it a higher weight instead")]
    NodeTwice(SocketAddr, SocketAddr),
    /// All of a service's weights are 0.
    #[error("every node of service {0} has weight 0: give one a weight of at least 1")]
    NoWeight(SocketAddr),
    /// A weight is not possible.
    #[error("node {0} has weight {1}: write 0 to {max}", max = WEIGHT_MAX)]
    Weight(SocketAddr, u32),
    /// A node has the other family's address.
    #[error("service {0} has node {1} of the other IP version")]
    Family(SocketAddr, SocketAddr),
    /// A NAT address is missing.
    #[error("service {0} needs a NAT address of its IP version: give one, or keep the client")]
    NoNatAddress(SocketAddr),
    /// Checks need an address of their own.
    #[error("checks of the nodes of service {0} need a NAT address of its IP version")]
    NoCheckAddress(SocketAddr),
    /// A NAT address twice, or a node that has one of our addresses.
    #[error("address {0} is given twice")]
    AddressTwice(IpAddr),
    /// Nobody can have it.
    #[error("{0} is no address of a host")]
    NotUnicast(IpAddr),
    /// Port number 0.
    #[error("{0} has port number 0")]
    PortZero(SocketAddr),
    /// Multicast is for UDP.
    #[error("service {0} is TCP, which cannot go to all nodes")]
    Multicast(SocketAddr),
    /// HTTP needs TCP.
    #[error("service {0} is UDP, whose nodes cannot be checked by HTTP")]
    HttpOfUdp(SocketAddr),
    /// Path or host of an HTTP check.
    #[error("the check of service {0} needs a path that begins with '/', without spaces")]
    HttpPath(SocketAddr),
    /// A time or a count is not possible.
    #[error("{0} must be more than 0")]
    NotPositive(&'static str),
    /// A route names a port that is not there, or too many bits.
    #[error("the route to {0}/{1} names a port or a length that is not there")]
    Route(IpAddr, u8),
    /// A route's gateway has the other family's address.
    #[error("the route to {0} has a gateway of the other IP version")]
    RouteFamily(IpAddr),
    /// The budget does not bear the tables.
    #[error(
        "{0} connections need {1} bytes, which is beyond the memory budget: \
             raise it with --memory, or lower --connections-max"
    )]
    Budget(u32, usize),
}

impl Settings {
    /// Whether any handshake may be answered here.
    pub(crate) fn splices(&self) -> bool {
        let mut services = self.services.iter();
        self.cookies_above.is_some() || services.any(|service| service.splice.is_some())
    }

    /// Port numbers that connections of a service have towards each of its nodes; `None`: its
    /// clients bring their own.
    pub fn ports_towards_node(&self, service: &Service) -> Option<u64> {
        let is_ipv4 = service.address.is_ipv4();
        let nat = { self.nat.iter() }.filter(|nat| nat.is_ipv4() == is_ipv4);
        (!service.keeps_client).then(|| nat.count() as u64 * u64::from(ports::COUNT))
    }

    /// The most connections that a node of a service can have at once.
    pub fn connections_of_node(&self, service: &Service) -> u64 {
        let ports = self.ports_towards_node(service).unwrap_or(u64::MAX);
        ports.min(self.connections_max.into())
    }

    /// Whether all of it is possible, and fits together.
    pub fn check(&self) -> Result<(), SettingsError> {
        let most = |what, len, max| match len > max {
            true => Err(SettingsError::TooMany { what, max }),
            false => Ok(()),
        };
        most("ports", self.ports.len(), PORTS_MAX)?;
        most("NAT addresses", self.nat.len(), NAT_ADDRESSES_MAX)?;
        let nodes = self.services.iter().map(|service| service.nodes.len());
        most("nodes", nodes.sum(), NODES_MAX)?;
        most("services", self.services.len(), NODES_MAX)?;
        if self.ports.is_empty() {
            return Err(SettingsError::NoPort);
        }
        for (at, port) in self.ports.iter().enumerate() {
            if self.ports[..at].iter().any(|other| other.name == port.name) {
                return Err(SettingsError::PortTwice(port.name.clone()));
            }
            // RFC 791, 3.1: what every host takes; and what a packet's length can say.
            if !(576..=65_535).contains(&port.mtu) {
                return Err(SettingsError::Mtu(port.name.clone(), port.mtu));
            }
        }
        if self.services.is_empty() {
            return Err(SettingsError::NoService);
        }
        let mut ours = BTreeSet::new();
        for &address in &self.nat {
            unicast(address)?;
            if !ours.insert(address) {
                return Err(SettingsError::AddressTwice(address));
            }
        }
        let mut services = BTreeSet::new();
        for service in &self.services {
            if !services.insert((service.transport, service.address)) {
                let name = service.transport.name();
                return Err(SettingsError::ServiceTwice(name, service.address));
            }
            ours.insert(service.address.ip());
        }
        { self.services.iter() }.try_for_each(|service| self.check_service(service, &ours))?;
        self.routes
            .iter()
            .try_for_each(|route| self.check_route(route))?;
        self.check_limits()
    }

    fn check_service(
        &self,
        service: &Service,
        ours: &BTreeSet<IpAddr>,
    ) -> Result<(), SettingsError> {
        let address = service.address;
        endpoint(address)?;
        if service.nodes.is_empty() {
            return Err(SettingsError::NoNode(address));
        }
        let mut nodes = BTreeSet::new();
        for node in &service.nodes {
            endpoint(node.address)?;
            if node.address.is_ipv4() != address.is_ipv4() {
                return Err(SettingsError::Family(address, node.address));
            }
            if node.weight > WEIGHT_MAX {
                return Err(SettingsError::Weight(node.address, node.weight));
            }
            if !nodes.insert(node.address) {
                return Err(SettingsError::NodeTwice(address, node.address));
            }
            if ours.contains(&node.address.ip()) {
                return Err(SettingsError::AddressTwice(node.address.ip()));
            }
        }
        if service.nodes.iter().all(|node| node.weight == 0) {
            return Err(SettingsError::NoWeight(address));
        }
        let has_nat = (self.nat.iter()).any(|nat| nat.is_ipv4() == address.is_ipv4());
        if !has_nat && !service.keeps_client {
            return Err(SettingsError::NoNatAddress(address));
        }
        if !has_nat && service.health.is_some() {
            return Err(SettingsError::NoCheckAddress(address));
        }
        let is_tcp = service.transport == Transport::Tcp;
        if let Some(splice) = &service.splice {
            let mut members = splice.groups.iter().flatten();
            if let Some(stranger) = members.find(|member| !nodes.contains(*member)) {
                return Err(SettingsError::GroupNode(address, *stranger));
            }
            if !is_tcp {
                return Err(SettingsError::SpliceOfUdp(address));
            }
        }
        if is_tcp && service.multicast {
            return Err(SettingsError::Multicast(address));
        }
        if let Some(health) = &service.health {
            check_health(address, health, is_tcp)?;
        }
        match service.affinity {
            Some(affinity) => positive("affinity", affinity),
            None => Ok(()),
        }
    }

    fn check_route(&self, route: &Route) -> Result<(), SettingsError> {
        let (network, bits) = route.network;
        let bits_max = if network.is_ipv4() { 32 } else { 128 };
        if route.port >= self.ports.len() || bits > bits_max {
            return Err(SettingsError::Route(network, bits));
        }
        match route.via {
            Some(via) if via.is_ipv4() != network.is_ipv4() => {
                Err(SettingsError::RouteFamily(network))
            }
            Some(via) => unicast(via),
            None => Ok(()),
        }
    }

    fn check_limits(&self) -> Result<(), SettingsError> {
        let timeouts = &self.timeouts;
        positive(
            "the timeout of established connections",
            timeouts.established,
        )?;
        positive("the transitory timeout", timeouts.transitory)?;
        positive("the timeout of half-open connections", timeouts.half_open)?;
        positive("the timeout of UDP", timeouts.udp)?;
        positive("the timeout of unanswered UDP", timeouts.unanswered)?;
        positive("the timeout of fragments", timeouts.fragments)?;
        positive("connections_max", self.connections_max.into())
    }
}

impl Route {
    /// Whether the network has this address.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let same = |differing: u128, width: u32| {
            let rest = width - u32::from(self.network.1).min(width);
            differing.checked_shr(rest).unwrap_or(0) == 0
        };
        match (self.network.0, address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                same(u128::from(one.to_bits() ^ other.to_bits()), 32)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits() ^ other.to_bits(), 128),
            _ => false,
        }
    }
}

fn most_bytes(what: &'static str, http: &HttpCheck) -> Result<(), SettingsError> {
    const MAX: usize = 400;
    match http.path.len() + http.host.len() > MAX {
        true => Err(SettingsError::TooMany { what, max: MAX }),
        false => Ok(()),
    }
}

fn check_health(address: SocketAddr, health: &Health, is_tcp: bool) -> Result<(), SettingsError> {
    positive("a check's interval", health.interval)?;
    positive("a check's timeout", health.timeout)?;
    positive("rise", health.rise.into())?;
    positive("fall", health.fall.into())?;
    if let Some(http) = &health.http {
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_tcp {
            return Err(SettingsError::HttpOfUdp(address));
        }
        if !http.path.starts_with('/') || !is_plain(&http.path) || !is_plain(&http.host) {
            return Err(SettingsError::HttpPath(address));
        }
        // With its header lines it is to fit into the smallest packet.
        most_bytes("bytes of a check's path and host", http)?;
    }
    Ok(())
}

fn positive(what: &'static str, value: i64) -> Result<(), SettingsError> {
    match value > 0 {
        true => Ok(()),
        false => Err(SettingsError::NotPositive(what)),
    }
}

fn endpoint(address: SocketAddr) -> Result<(), SettingsError> {
    match address.port() {
        0 => Err(SettingsError::PortZero(address)),
        _ => unicast(address.ip()),
    }
}

fn unicast(address: IpAddr) -> Result<(), SettingsError> {
    let is_broadcast = address == IpAddr::from([255; 4]);
    match address.is_multicast() || address.is_unspecified() || is_broadcast {
        true => Err(SettingsError::NotUnicast(address)),
        false => Ok(()),
    }
}
