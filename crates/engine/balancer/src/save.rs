//! The table of connections as bytes, for the process that takes over.
//!
//! ```text
//!  "LSNT" version:3 count:4 checksum of what follows:8
//!  a connection: length:1 transport:1 family:1 state:1 flags:1
//!                client, service, node, NAT address (16 or 4 bytes and a port each)
//!                Ethernet address:6 port:1 scales:2 numbers:16
//!                differences of sequence and time:8 shifts of windows:2 idle time:8
//! ```
//!
//! Services and nodes are named by their addresses: the settings of both processes may differ. The
//! reader believes no byte: a connection that fits nothing is left out, and counted by its absence.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lineside_tcp::keyed::hash_of_words;
use lineside_time::Nanoseconds;
use thiserror::Error;

use crate::nat::{Nat, socket};
use crate::proxy::Splice;
use crate::settings::Transport;
use crate::table::{Connection, Direction, Ends, KEPT, State, flag};

const MAGIC: [u8; 4] = *b"LSNT";
const VERSION: u16 = 3;
/// As this one, without answered UDP mappings as a state of their own.
const VERSION_BEFORE: u16 = 2;
const HEADER_LEN: usize = 4 + 2 + 4 + 8;
/// What no stranger sends: it finds damage, not forgers.
const CHECK_KEY: [u64; 2] = [0x4c69_6e65_7369_6465, 0x6e61_7420_7461_626c];

/// Why bytes are no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// They begin otherwise.
    #[error("this is no saved table of connections")]
    NotOurs,
    /// A version that is not known.
    #[error("the table is of version {0}, and only {VERSION} is read")]
    Version(u16),
    /// They end too early, or are damaged.
    #[error("the table is damaged or cut")]
    Damaged,
}

impl Nat {
    /// Appends the table of connections to `out`.
    pub fn save(&self, now: Nanoseconds, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(MAGIC);
        out.extend(VERSION.to_be_bytes());
        out.extend((self.table.len() as u32).to_be_bytes());
        out.extend([0; 8]);
        for number in self.table.numbers() {
            self.save_one(now, number, out);
        }
        let check = check_of(&out[start + HEADER_LEN..]).to_be_bytes();
        out[start + HEADER_LEN - 8..start + HEADER_LEN].copy_from_slice(&check);
    }

    fn save_one(&self, now: Nanoseconds, number: u32, out: &mut Vec<u8>) {
        let connection = self.table.get(number);
        let to_node = self.pool.tuple(connection, Direction::ToNode);
        let to_client = self.pool.tuple(connection, Direction::ToClient);
        let start = out.len();
        let is_ipv4 = to_node.source.0.is_ipv4();
        out.extend([0, to_node.transport as u8, u8::from(is_ipv4)]);
        // What a driver has is gone with its process.
        let flags = connection.flags & !(flag::ENTERED | flag::ENTERED << 1);
        out.extend([
            connection.state as u8,
            flags,
            u8::from(connection.nat == KEPT),
        ]);
        let ends = [
            to_node.source,
            to_node.destination,
            to_client.source,
            to_client.destination,
        ];
        for (address, port) in ends {
            match address {
                IpAddr::V4(address) => out.extend(address.octets()),
                IpAddr::V6(address) => out.extend(address.octets()),
            }
            out.extend(port.to_be_bytes());
        }
        out.extend(connection.ethernet);
        out.push(connection.port);
        out.extend(Direction::BOTH.map(|direction| connection.scale(direction)));
        let splice = self.joints.of(number).unwrap_or_default();
        let differences = [splice.sequence, splice.timestamp];
        for word in [connection.next, connection.edge, differences].as_flattened() {
            out.extend(word.to_be_bytes());
        }
        for shift in [splice.window_to_client, splice.window_to_node] {
            out.extend(shift.to_be_bytes());
        }
        out.extend(now.saturating_sub(connection.seen).to_be_bytes());
        out[start] = (out.len() - start) as u8;
    }

    /// Enters the connections of a saved table whose service and node are there, and returns how
    /// many; others are left out. Nothing is entered if the bytes are damaged.
    pub fn restore(&mut self, now: Nanoseconds, bytes: &[u8]) -> Result<usize, RestoreError> {
        let (header, records) =
            { bytes.split_at_checked(HEADER_LEN) }.ok_or(RestoreError::NotOurs)?;
        let mut header = Reader(header);
        if header.array() != Some(MAGIC) {
            return Err(RestoreError::NotOurs);
        }
        let version = header.array().map_or(0, u16::from_be_bytes);
        if ![VERSION_BEFORE, VERSION].contains(&version) {
            return Err(RestoreError::Version(version));
        }
        let count = header.array().map_or(0, u32::from_be_bytes);
        let check = header.array().map_or(0, u64::from_be_bytes);
        if check_of(records) != check {
            return Err(RestoreError::Damaged);
        }
        let mut saved = read_all(records, count).ok_or(RestoreError::Damaged)?;
        // As they were: the oldest first.
        saved.sort_by_key(|saved| std::cmp::Reverse(saved.idle));
        let entered = { saved.iter() }.filter(|saved| self.enter(now, saved).is_some());
        Ok(entered.count())
    }

    /// Enters a saved connection; `None` if it fits nothing, or there is no room.
    fn enter(&mut self, now: Nanoseconds, saved: &Saved) -> Option<u32> {
        let [client, service_end, node_end, nat_end] = saved.ends;
        let service = self.pool.service_of(saved.transport, socket(service_end))?;
        let node = self.pool.node_of(service, socket(node_end))?;
        let keeps_client = self.pool.services[usize::from(service)]
            .settings
            .keeps_client;
        if usize::from(saved.port) >= self.settings.ports.len() || saved.is_kept != keeps_client {
            return None;
        }
        let mut connection = Connection::new(client, service, node);
        if !saved.is_kept {
            let mut all = self.pool.nat_of_family(client.0.is_ipv4());
            connection.nat = all.find(|nat| nat.1 == nat_end.0)?.0;
            connection.nat_port = nat_end.1;
            if connection.nat_port < crate::ports::CHECKS.end {
                return None;
            }
        }
        (connection.ethernet, connection.port) = (saved.ethernet, saved.port);
        (connection.state, connection.flags) = (saved.state, saved.flags);
        connection.set_scales(saved.scale);
        let [next, edge, [sequence, timestamp]] = saved.numbers;
        (connection.next, connection.edge) = (next, edge);
        connection.seen = now.saturating_sub(saved.idle);
        let mut both = Direction::BOTH.into_iter();
        let is_taken = both.any(|direction| {
            let tuple = self.pool.tuple(&connection, direction);
            self.table.find(&tuple, &self.pool).is_some()
        });
        let until = connection.seen.saturating_add(self.timeout(saved.state));
        if is_taken || until <= now || self.table.is_full() {
            return None;
        }
        let number = self.table.add(connection, until, &self.pool)?;
        if saved.flags & flag::SHIFTED != 0 {
            let splice = Splice {
                sequence,
                timestamp,
                window_to_client: saved.windows[0],
                window_to_node: saved.windows[1],
            };
            if !self.joints.set(number, splice) {
                self.table.remove(number, &self.pool);
                return None;
            }
        }
        self.pool.on_opened(&connection);
        Some(number)
    }
}

/// A connection as it was read.
struct Saved {
    transport: Transport,
    state: State,
    flags: u8,
    is_kept: bool,
    /// Client, service, node, and the source that the node sees.
    ends: [(IpAddr, u16); 4],
    ethernet: [u8; 6],
    port: u8,
    scale: [u8; 2],
    numbers: [[u32; 2]; 3],
    windows: [i8; 2],
    idle: Nanoseconds,
}

/// What is left to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn pair(&mut self) -> Option<[u32; 2]> {
        let both = [self.array()?, self.array()?];
        Some(both.map(u32::from_be_bytes))
    }

    fn end(&mut self, is_ipv4: bool) -> Option<(IpAddr, u16)> {
        let address = match is_ipv4 {
            true => Ipv4Addr::from(self.array::<4>()?).into(),
            false => Ipv6Addr::from(self.array::<16>()?).into(),
        };
        Some((address, u16::from_be_bytes(self.array()?)))
    }
}

/// Reads all connections; `None` if any is damaged, or others follow.
fn read_all(mut bytes: &[u8], count: u32) -> Option<Vec<Saved>> {
    // Before any memory is asked for: each has a byte at least.
    let mut all = Vec::with_capacity((count as usize).min(bytes.len()));
    for _ in 0..count {
        let len = usize::from(*bytes.first()?);
        let (record, rest) = bytes.split_at_checked(len)?;
        bytes = rest;
        all.push(read_one(record.get(1..)?)?);
    }
    bytes.is_empty().then_some(all)
}

fn read_one(record: &[u8]) -> Option<Saved> {
    let mut reader = Reader(record);
    let transport = match reader.bool()? {
        false => Transport::Tcp,
        true => Transport::Udp,
    };
    let is_ipv4 = reader.bool()?;
    let states = [
        State::Asked,
        State::Answered,
        State::Established,
        State::Closing,
        State::Closed,
        State::Datagrams,
        State::Exchanged,
    ];
    let state = *states.get(usize::from(reader.byte()?))?;
    let is_udp = matches!(state, State::Datagrams | State::Exchanged);
    if is_udp != (transport == Transport::Udp) {
        return None;
    }
    let flags = reader.byte()? & !(flag::ENTERED | flag::ENTERED << 1);
    let is_kept = reader.bool()?;
    let mut ends = [(IpAddr::from([0; 4]), 0); 4];
    for each in &mut ends {
        *each = reader.end(is_ipv4)?;
    }
    let saved = Saved {
        transport,
        state,
        flags,
        is_kept,
        ends,
        ethernet: reader.array()?,
        port: reader.byte()?,
        scale: reader.array::<2>()?.map(|scale| scale.min(14)),
        numbers: [reader.pair()?, reader.pair()?, reader.pair()?],
        windows: reader
            .array::<2>()?
            .map(|shift| (shift as i8).clamp(-14, 14)),
        idle: i64::from_be_bytes(reader.array()?),
    };
    // RFC 6890: neither is a source that is answered.
    let is_host = |address: IpAddr| !address.is_multicast() && !address.is_unspecified();
    let is_right = saved.idle >= 0 && is_host(ends[0].0) && is_plain(ends[0].0);
    (reader.0.is_empty() && is_right).then_some(saved)
}

/// Not an IPv4 address in IPv6's clothes: the table would take one for the other.
fn is_plain(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => address.to_ipv4_mapped().is_none(),
    }
}

fn check_of(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let chain = words.iter().chain([&last]);
    chain.fold(bytes.len() as u64, |hash, word| {
        hash_of_words(CHECK_KEY, [hash, u64::from_be_bytes(*word)])
    })
}
