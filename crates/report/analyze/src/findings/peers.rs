//! What the table `connections` shows beside operations: who asked for a connection and what came
//! of it, what did not go on, and what acknowledgements held up.

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;
use lineside_trace::read::{Column, ReadError};

use super::scene::Scene;
use crate::read::columns::{Integers, Shorts, Texts};
use crate::read::trace::Trace;

/// Connections that are kept. A guess: 20 MiB of them.
const PEERS_MAX: usize = 65_536;
/// Hosts and ports of RPC that are kept.
const HOSTS_MAX: usize = 65_536;
/// Ports of NFS and of rpcbind.
const WELL_KNOWN: [i32; 2] = [2049, 111];

const SHARED: [&str; 13] = [
    "connection_id",
    "client_address",
    "client_port",
    "server_address",
    "server_port",
    "transport",
    "first_packet_ns",
    "client_last_packet_ns",
    "server_last_packet_ns",
    "refused",
    "challenged",
    "reply_ack_waits",
    "reply_ack_wait_ns",
];
/// The columns of an end, in the order in which [`Sent::add`] takes them.
const SENT: [&str; 13] = [
    "packets",
    "bytes",
    "syns",
    "fins",
    "resets",
    "segment_max_bytes",
    "stuck_ns",
    "stuck_bytes",
    "passed_bytes",
    "shut_ns",
    "zero_windows",
    "stuck_since_ns",
    "shut_since_ns",
];
const OF_RPC: [&str; 5] = [
    "client_address",
    "server_address",
    "server_port",
    "transport",
    "program",
];

/// What one end of a connection sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sent {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) syns: u64,
    pub(super) fins: u64,
    pub(super) resets: u64,
    pub(super) segment_max: u64,
    /// The longest time over which it sent the same bytes, or was asked for them.
    pub(super) stuck_ns: u64,
    pub(super) stuck_since_ns: Option<i64>,
    pub(super) stuck_bytes: u64,
    pub(super) passed_bytes: u64,
    /// The longest time for which its window was shut.
    pub(super) shut_ns: u64,
    pub(super) shut_since_ns: Option<i64>,
    pub(super) zero_windows: u64,
}

impl Sent {
    fn add(&mut self, value: impl Fn(usize) -> Option<i64>) {
        let number = |at| value(at).map_or(0, |number: i64| number.max(0).unsigned_abs());
        self.packets += number(0);
        self.bytes += number(1);
        self.syns += number(2);
        self.fins += number(3);
        self.resets += number(4);
        self.segment_max = self.segment_max.max(number(5));
        if number(6) > self.stuck_ns || self.stuck_since_ns.is_none() {
            (self.stuck_ns, self.stuck_bytes) = (number(6), number(7));
            (self.passed_bytes, self.stuck_since_ns) = (number(8), value(11));
        }
        if number(9) > self.shut_ns {
            (self.shut_ns, self.shut_since_ns) = (number(9), value(12));
        }
        self.zero_windows += number(10);
    }
}

/// A connection over TCP, all its intervals together.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) id: i64,
    pub(super) client: String,
    pub(super) client_port: Option<i32>,
    pub(super) server: String,
    pub(super) server_port: i32,
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
    /// The client, the server.
    pub(super) sent: [Sent; 2],
    pub(super) refused: u64,
    pub(super) challenged: u64,
    pub(super) ack_waits: u64,
    pub(super) ack_wait_ns: u64,
}

impl Peer {
    /// Bytes that were missing when the connection's last packet came are missing until the end of
    /// the capture: a receiver asks for them once, where nothing more comes.
    fn wait_until(&mut self, end_ns: i64) {
        for sent in &mut self.sent {
            if let Some(since_ns) = sent.stuck_since_ns
                && since_ns.saturating_add_unsigned(sent.stuck_ns) >= self.last_ns
            {
                let until_end_ns = end_ns.saturating_sub(since_ns).max(0).unsigned_abs();
                sent.stuck_ns = sent.stuck_ns.max(until_end_ns);
            }
        }
    }
}

/// Connections of RPC's hosts and ports.
#[derive(Debug, Default)]
pub(super) struct Peers {
    pub(super) all: Vec<Peer>,
    clients: HashSet<String>,
    servers: HashSet<String>,
    services: HashSet<(String, i32)>,
    decode_as: Vec<(i32, i32)>,
    /// When the capture's last packet came.
    pub(super) end_ns: i64,
}

impl Peers {
    /// None if the trace is older than the columns, or if some operations are chosen by what only
    /// they have.
    pub(super) fn of(scene: &mut Scene<'_>) -> Self {
        let mut peers = Self::default();
        let columns: Vec<String> = { SHARED.iter().map(|&name| name.to_owned()) }
            .chain(
                { ["client", "server"].iter() }
                    .flat_map(|end| SENT.iter().map(move |name| format!("{end}_{name}"))),
            )
            .collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let is_by_operation = !scene.chosen.are_of_connections();
        if is_by_operation || !scene.trace.has_columns(Table::Connections, &columns) {
            return peers;
        }
        peers.decode_as = decode_as(scene.trace);
        let clocks = { scene.trace.manifest.iter() }.flat_map(|manifest| &manifest.clocks);
        let end_ns = clocks.filter_map(|clock| clock.last_ns).max();
        peers.end_ns = end_ns.unwrap_or(i64::MIN);
        scene
            .trace
            .batches(Table::Connections, &OF_RPC, |batch| peers.note_hosts(batch));
        let mut found: HashMap<i64, Peer> = HashMap::new();
        scene.trace.batches(Table::Connections, &columns, |batch| {
            peers.read(batch, &columns, &mut found)
        });
        peers.all = found.into_values().collect();
        peers.all.retain(|peer| {
            let chosen = &*scene.chosen;
            chosen.has_hosts(&peer.client, &peer.server)
                && chosen.overlaps(peer.first_ns, peer.last_ns)
        });
        let end_ns = peers.end_ns;
        peers
            .all
            .iter_mut()
            .for_each(|peer| peer.wait_until(end_ns));
        peers
            .all
            .sort_unstable_by_key(|peer| (peer.first_ns, peer.id));
        peers
    }

    fn note_hosts(&mut self, batch: &[Column]) -> Result<(), ReadError> {
        let client = Texts::of(OF_RPC[0], &batch[0])?;
        let server = Texts::of(OF_RPC[1], &batch[1])?;
        let port = Shorts::of(OF_RPC[2], &batch[2])?;
        let transport = Texts::of(OF_RPC[3], &batch[3])?;
        let program = Texts::of(OF_RPC[4], &batch[4])?;
        for row in 0..batch[0].len() {
            let (Some(_), Some(from), Some(to)) =
                (program.get(row), client.get(row), server.get(row))
            else {
                continue;
            };
            if self.services.len() >= HOSTS_MAX || self.clients.len() >= HOSTS_MAX {
                return Ok(());
            }
            if !self.clients.contains(from) {
                self.clients.insert(from.to_owned());
            }
            if !self.servers.contains(to) {
                self.servers.insert(to.to_owned());
            }
            if let Some(port) = port.get(row)
                && transport.get(row) == Some("tcp")
            {
                self.services.insert((to.to_owned(), port));
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        batch: &[Column],
        names: &[&str],
        found: &mut HashMap<i64, Peer>,
    ) -> Result<(), ReadError> {
        let texts = |at: usize| Texts::of(names[at], &batch[at]);
        let shorts = |at: usize| Shorts::of(names[at], &batch[at]);
        let integers = |at: usize| Integers::of(names[at], &batch[at]);
        let (client, server, transport) = (texts(1)?, texts(3)?, texts(5)?);
        let (client_port, server_port) = (shorts(2)?, shorts(4)?);
        let (id, first, last) = (integers(0)?, integers(6)?, [integers(7)?, integers(8)?]);
        let counts: Vec<Integers<'_>> = (9..names.len()).map(integers).collect::<Result<_, _>>()?;
        for row in 0..batch[0].len() {
            let (Some(id), Some(port)) = (id.get(row), server_port.get(row)) else {
                continue;
            };
            let last_ns = last.iter().filter_map(|last| last.get(row)).max();
            let (Some(first_ns), Some(last_ns)) = (first.get(row), last_ns) else {
                continue;
            };
            let (Some(from), Some(to), Some("tcp")) =
                (client.get(row), server.get(row), transport.get(row))
            else {
                continue;
            };
            if !self.may_be_rpc(from, to, port)
                || found.len() >= PEERS_MAX && !found.contains_key(&id)
            {
                continue;
            }
            let peer = found.entry(id).or_insert_with(|| Peer {
                id,
                client: from.to_owned(),
                client_port: client_port.get(row),
                server: to.to_owned(),
                server_port: port,
                first_ns,
                last_ns: i64::MIN,
                ..Peer::default()
            });
            peer.first_ns = peer.first_ns.min(first_ns);
            peer.last_ns = peer.last_ns.max(last_ns);
            self.end_ns = self.end_ns.max(last_ns);
            let number = |at: usize| counts[at].get(row).map_or(0, |n| n.max(0).unsigned_abs());
            peer.refused += number(0);
            peer.challenged += number(1);
            peer.ack_waits += number(2);
            peer.ack_wait_ns += number(3);
            for (end, sent) in peer.sent.iter_mut().enumerate() {
                sent.add(|at| counts[4 + end * SENT.len() + at].get(row));
            }
        }
        Ok(())
    }

    fn may_be_rpc(&self, client: &str, server: &str, port: i32) -> bool {
        self.expects(server, port)
            || self.are_hosts(client, server)
            || self.are_hosts(server, client)
    }

    /// Whether RPC is expected at a port: of NFS or rpcbind, of `--decode-as`, or one at which the
    /// capture has some.
    pub(super) fn expects(&self, server: &str, port: i32) -> bool {
        let is_named = |&(first, last): &(i32, i32)| (first..=last).contains(&port);
        WELL_KNOWN.contains(&port)
            || self.decode_as.iter().any(is_named)
            || self.services.contains(&(server.to_owned(), port))
    }

    /// Whether one calls by RPC somewhere, and the other is called.
    pub(super) fn are_hosts(&self, client: &str, server: &str) -> bool {
        self.clients.contains(client) && self.servers.contains(server)
    }

    /// Whether an end calls by RPC somewhere.
    pub(super) fn calls(&self, client: &str) -> bool {
        self.clients.contains(client)
    }

    /// Whether the server is known as one and has called nobody, so that what it asks for is a
    /// callback.
    pub(super) fn is_callback(&self, from: &str, to: &str) -> bool {
        self.servers.contains(from) && self.clients.contains(to) && !self.servers.contains(to)
    }
}

/// The ports of rules `tcp.port==1234,rpc` and `tcp.port==1234-1240,rpc`.
fn decode_as(trace: &Trace) -> Vec<(i32, i32)> {
    let configuration = trace
        .manifest
        .as_ref()
        .map(|manifest| &manifest.configuration);
    let rules = configuration.and_then(|all| all["capture"]["decode_as"].as_array());
    let range = |rule: &str| {
        let (ports, to) = rule.strip_prefix("tcp.port==")?.split_once(',')?;
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        (to == "rpc").then_some((first.parse().ok()?, last.parse().ok()?))
    };
    { rules.into_iter().flatten() }
        .filter_map(|rule| range(rule.as_str()?))
        .collect()
}
