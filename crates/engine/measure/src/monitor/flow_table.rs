//! The flows of a point: a table with a bound.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use hashbrown::HashTable;
use lineside_account::{Budget, Lease};
use lineside_time::Nanoseconds;
use lineside_wire::{Dissected, PROTOCOL_TCP, PROTOCOL_UDP};

/// The flows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowCounts {
    /// Those in the table.
    pub known: u64,
    /// All that there were.
    pub seen: u64,
}

/// A flow: packets of one protocol from one end to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Who sends.
    pub source: IpAddr,
    /// Who receives.
    pub destination: IpAddr,
    /// Source and destination port; `None` of fragments, whose ports are in the first one alone.
    pub ports: Option<(u16, u16)>,
    /// The protocol of IP.
    pub protocol: u8,
}

impl FlowKey {
    /// The flow of a packet; `None` if it is of none: not IP, or neither TCP nor UDP.
    #[inline]
    pub(super) fn of(headers: &Dissected) -> Option<Self> {
        let (ip, ports, protocol) = match headers {
            Dissected::Tcp(ip, tcp) => {
                let ports = (tcp.source_port, tcp.destination_port);
                (ip, Some(ports), PROTOCOL_TCP)
            }
            Dissected::Udp(ip, udp) => {
                let ports = (udp.source_port, udp.destination_port);
                (ip, Some(ports), PROTOCOL_UDP)
            }
            Dissected::Fragment(ip, fragment) => (ip, None, fragment.protocol),
            _ => return None,
        };
        Some(Self {
            source: ip.source,
            destination: ip.destination,
            ports,
            protocol,
        })
    }

    /// The flow the other way.
    pub(super) fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ports: self
                .ports
                .map(|(source, destination)| (destination, source)),
            protocol: self.protocol,
        }
    }
}

/// What a table keeps of each flow.
pub(super) trait Tracked {
    /// Whether its end was seen.
    fn is_over(&self) -> bool;

    /// When its latest frame passed.
    fn last_ns(&self) -> Nanoseconds;
}

/// A flow of the table.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) key: FlowKey,
    /// From 1, in the order in which flows came.
    pub(super) flow_id: i64,
    pub(super) state: T,
}

/// Flows by their keys, at most `flows_max`, as far as the budget goes. When it is full, a flow
/// that is over or silent makes room for a new one.
#[derive(Debug)]
pub(super) struct FlowTable<T> {
    entries: Vec<Entry<T>>,
    index: HashTable<u32>,
    hasher: RandomState,
    flows_max: usize,
    /// What the state of a flow may take beside its record.
    state_bytes_max: usize,
    /// Flows that came so far.
    flows: i64,
    /// Where to look next for a flow that makes room.
    hand: usize,
    lease: Option<Lease>,
}

/// Entries of a table with the first flow: there may be a table for each of ten thousand files.
const FLOWS_MIN: usize = 4;

/// Entries at which a new flow looks for room.
const LOOKS: usize = 8;

/// A flow whose end was seen may still have an acknowledgement or a retransmission to come.
const OVER_NS: Nanoseconds = 1_000_000_000;

/// Keep-alives are sent less often by default, but a flow that comes back after such a time is as
/// good as a new one to its user.
const SILENT_NS: Nanoseconds = 60_000_000_000;

impl<T: Tracked> FlowTable<T> {
    /// For this many flows, of which each may take this many bytes beside its record.
    pub(super) fn new(flows_max: usize, state_bytes_max: usize, budget: &Budget) -> Self {
        Self {
            entries: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::new(),
            flows_max,
            state_bytes_max,
            flows: 0,
            hand: 0,
            lease: budget.lease(0),
        }
    }

    /// The place of a flow.
    #[inline]
    pub(super) fn find(&self, key: &FlowKey) -> Option<usize> {
        let hash = self.hasher.hash_one(key);
        let found = self
            .index
            .find(hash, |&at| self.entries[at as usize].key == *key);
        found.map(|&at| at as usize)
    }

    /// Gives a new flow a place, and `evicted` the flow that was there; `None` if there is no room.
    pub(super) fn insert(
        &mut self,
        key: FlowKey,
        now: Nanoseconds,
        state: T,
        evicted: impl FnOnce(&Entry<T>),
    ) -> Option<usize> {
        let place = match self.has_room() {
            true => None,
            false => Some(self.replaceable(now)?),
        };
        self.flows += 1;
        let entry = Entry {
            key,
            flow_id: self.flows,
            state,
        };
        let place = match place {
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
            Some(place) => {
                evicted(&self.entries[place]);
                let hash = self.hasher.hash_one(self.entries[place].key);
                let old = self.index.find_entry(hash, |&at| at as usize == place);
                old.expect("each entry is in the index").remove();
                self.entries[place] = entry;
                place
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.index
            .insert_unique(hasher.hash_one(key), place as u32, |&at| {
                hasher.hash_one(entries[at as usize].key)
            });
        Some(place)
    }

    /// A flow begins anew where it was.
    pub(super) fn restart(&mut self, place: usize, state: T) {
        self.flows += 1;
        let entry = &mut self.entries[place];
        (entry.flow_id, entry.state) = (self.flows, state);
    }

    pub(super) fn entry(&self, place: usize) -> &Entry<T> {
        &self.entries[place]
    }

    #[inline]
    pub(super) fn state_mut(&mut self, place: usize) -> &mut T {
        &mut self.entries[place].state
    }

    /// How many there are, and were.
    pub(super) fn counts(&self) -> FlowCounts {
        FlowCounts {
            known: self.entries.len() as u64,
            seen: self.flows as u64,
        }
    }

    /// All flows, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.entries.iter()
    }

    /// Whether there is memory for one more, once it has been drawn.
    fn has_room(&mut self) -> bool {
        let (len, capacity) = (self.entries.len(), self.entries.capacity());
        if len < capacity {
            return len < self.flows_max;
        }
        let wanted = (2 * capacity).clamp(FLOWS_MIN, self.flows_max.max(FLOWS_MIN));
        // While the entries move, both places are taken.
        let bytes = wanted * (Self::ENTRY_BYTES + self.state_bytes_max);
        let Some(lease) = &mut self.lease else {
            return false;
        };
        if len >= self.flows_max || !lease.resize(bytes + len * Self::ENTRY_BYTES) {
            return false;
        }
        self.entries.reserve_exact(wanted - len);
        lease.resize(bytes);
        true
    }

    /// An entry and its place in the index, which is at least half full of a byte and a number
    /// each.
    const ENTRY_BYTES: usize = size_of::<Entry<T>>() + 10;

    /// A flow that is over or silent.
    fn replaceable(&mut self, now: Nanoseconds) -> Option<usize> {
        let len = self.entries.len();
        for _ in 0..LOOKS.min(len) {
            let place = self.hand % len;
            self.hand = (place + 1) % len;
            let state = &self.entries[place].state;
            let after_ns = match state.is_over() {
                true => OVER_NS,
                false => SILENT_NS,
            };
            if now.saturating_sub(state.last_ns()) >= after_ns {
                return Some(place);
            }
        }
        None
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * Self::ENTRY_BYTES
    }
}
