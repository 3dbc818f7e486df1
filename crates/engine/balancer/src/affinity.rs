//! Which node a client had last: its next connection goes there.

use std::net::IpAddr;

use hashbrown::HashTable;
use lineside_account::{Budget, Lease};
use lineside_tcp::keyed::hash_of_words;
use lineside_tcp::slab::{Numbered, Slab};
use lineside_time::{Nanoseconds, TimerId, Wheel};

use crate::table::bits;

/// Clients are fewer than connections: one for this many.
const CONNECTIONS_PER_CLIENT: u32 = 4;
/// But room for this many at least.
const CLIENTS_MIN: u32 = 64;

#[derive(Debug, Clone, Copy)]
struct Client {
    address: u128,
    service: u16,
    node: u16,
    timer: TimerId,
    until: Nanoseconds,
    next_free: u32,
}

impl Numbered for Client {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.next_free
    }
}

/// All clients of services with affinity. Beyond the most a client is not remembered.
#[derive(Debug)]
pub(crate) struct Affinities {
    clients: Slab<Client>,
    index: HashTable<u32>,
    wheel: Wheel,
    key: [u64; 2],
    max: u32,
    lease: Lease,
}

impl Affinities {
    /// Bytes of a client beside its record: a place of the index, a timer and its item.
    const BYTES: usize = 5 * 8 / 7 + 32;

    fn max_for(connections_max: u32) -> u32 {
        (connections_max / CONNECTIONS_PER_CLIENT).max(CLIENTS_MIN)
    }

    pub(crate) fn bytes_for(connections_max: u32) -> usize {
        Self::max_for(connections_max) as usize * (Self::BYTES + size_of::<Client>())
    }

    pub(crate) fn new(connections_max: u32, key: [u64; 2], budget: &Budget) -> Option<Self> {
        Some(Self {
            clients: Slab::new(Self::max_for(connections_max), budget)?,
            index: HashTable::new(),
            wheel: Wheel::new(),
            key,
            max: Self::max_for(connections_max),
            lease: budget.lease(0)?,
        })
    }

    fn hash(key: [u64; 2], address: u128, service: u16) -> u64 {
        hash_of_words(
            key,
            [(address >> 64) as u64, address as u64, service.into()],
        )
    }

    fn find(&self, address: u128, service: u16) -> Option<u32> {
        let is_it = |&number: &u32| {
            let client = &self.clients[number];
            (client.address, client.service) == (address, service)
        };
        let hash = Self::hash(self.key, address, service);
        self.index.find(hash, is_it).copied()
    }

    /// The node that a client had last.
    pub(crate) fn node(&self, now: Nanoseconds, client: IpAddr, service: u16) -> Option<u16> {
        let client = &self.clients[self.find(bits(client), service)?];
        (client.until > now).then_some(client.node)
    }

    /// Whether there is room for clients that may not be there: half of it is for those that are.
    pub(crate) fn has_spare(&self) -> bool {
        self.clients.len() < self.max as usize / 2
    }

    /// A client has this node until then.
    pub(crate) fn set(&mut self, client: IpAddr, service: u16, node: u16, until: Nanoseconds) {
        let address = bits(client);
        if let Some(number) = self.find(address, service) {
            let client = &mut self.clients[number];
            (client.node, client.until) = (node, until);
            return;
        }
        let len = self.clients.len();
        // The lease grows with the clients, as their records do.
        if len == self.max as usize || !self.lease.resize((len + 1) * Self::BYTES) {
            return;
        }
        let client = Client {
            address,
            service,
            node,
            timer: TimerId(0),
            until,
            next_free: 0,
        };
        let Some(number) = self.clients.take(|| client) else {
            return;
        };
        self.clients[number] = client;
        self.clients[number].timer = self.wheel.insert(until, number);
        let (key, clients) = (self.key, &self.clients);
        let hash = Self::hash(key, address, service);
        self.index.insert_unique(hash, number, |&number| {
            let client = &clients[number];
            Self::hash(key, client.address, client.service)
        });
    }

    /// Forgets clients whose time is over.
    pub(crate) fn on_timer(&mut self, now: Nanoseconds) {
        while let Some((_, number)) = self.wheel.pop(now) {
            let client = &mut self.clients[number];
            if client.until > now {
                client.timer = self.wheel.insert(client.until, number);
                continue;
            }
            let hash = Self::hash(self.key, client.address, client.service);
            if let Ok(entry) = self.index.find_entry(hash, |&each| each == number) {
                entry.remove();
            }
            self.clients.free(number);
            self.lease.resize(self.clients.len() * Self::BYTES);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanoseconds> {
        self.wheel.next_deadline()
    }

    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }
}
