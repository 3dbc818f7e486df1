//! The entries, by their ends and by their time.

use std::collections::VecDeque;
use std::net::SocketAddr;

use hashbrown::HashTable;
use lineside_account::{Budget, Lease};
use lineside_tcp::cookie::{self, Cookies, ends_bytes};
use lineside_tcp::siphash;
use lineside_time::{Nanoseconds, Wheel};
use lineside_wire::TcpFlags;
use slab::Slab;

use super::entry::{Entry, State};
use super::{Counters, Effects, Failed, Report, Service, Settings};

/// The least memory of an entry: itself, its places in both tables, its timer and its turn.
const ENTRY_BYTES: usize = size_of::<Entry>() + 128;

/// Answers clients, reads their requests and joins them to nodes: see the module.
#[derive(Debug)]
pub struct Splices {
    pub(super) settings: Settings,
    pub(super) services: Vec<Service>,
    pub(super) cookies: Cookies,
    pub(super) counters: Counters,
    pub(super) budget: Budget,
    pub(super) entries: Slab<Entry>,
    /// Numbers of entries by client and service, and by node.
    by_client: HashTable<u32>,
    by_node: HashTable<u32>,
    key: [u64; 2],
    pub(super) wheel: Wheel,
    /// Entries in the order in which they came, some of which may be over.
    turns: VecDeque<(u32, u64)>,
    next_number: u64,
    /// When a cookie was sent last.
    pub(super) cookie_at: Option<Nanoseconds>,
    /// For all entries.
    _lease: Lease,
}

impl Splices {
    /// An engine without connections. `secret` is what strangers must not know. `None` if the
    /// budget has no room for the entries.
    pub fn new(
        settings: Settings,
        services: Vec<Service>,
        secret: [u64; 2],
        budget: &Budget,
    ) -> Option<Self> {
        let max = settings.entries_max as usize;
        let lease = budget.lease(max.saturating_mul(ENTRY_BYTES))?;
        Some(Self {
            services,
            cookies: Cookies::new([secret[1], secret[0]]),
            counters: Counters::default(),
            budget: budget.clone(),
            entries: Slab::with_capacity(max),
            by_client: HashTable::with_capacity(max),
            by_node: HashTable::with_capacity(max),
            key: secret,
            wheel: Wheel::new(),
            turns: VecDeque::with_capacity(2 * max + 1),
            next_number: 0,
            cookie_at: None,
            settings,
            _lease: lease,
        })
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The outcomes of connections so far.
    pub fn report(&self) -> Report {
        let entries = self.entries.iter();
        let waiting = entries.filter(|(_, entry)| entry.state != State::Replaying);
        Report::new(self.counters, waiting.count())
    }

    /// Connections that are not spliced, or whose request is being replayed.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Whether cookies are on their way: without one, no acknowledgement of an unknown connection
    /// can carry any.
    pub fn awaits_cookies(&self, now: Nanoseconds) -> bool {
        let since = self.cookie_at.map(|at| now.saturating_sub(at));
        since.is_some_and(|since| since <= cookie::LIFE_NS)
    }

    /// Whether a client's connection to a service is here.
    pub fn has_client(&self, ends: [SocketAddr; 2]) -> bool {
        !self.entries.is_empty() && self.find_client(ends).is_some()
    }

    /// Replaces what a service offers and how its requests decide, for connections to come.
    pub fn set_services(&mut self, services: Vec<Service>) {
        self.services = services;
    }

    /// When [`on_timer`](Self::on_timer) is to be called at the latest; `None`: nothing is pending.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        self.wheel.next_deadline()
    }

    /// What is due by `now` happens.
    pub fn on_timer(&mut self, now: Nanoseconds, effects: &mut impl Effects) {
        while let Some((_, number)) = self.wheel.pop(now) {
            let Some(entry) = self.entries.get_mut(number as usize) else {
                continue;
            };
            entry.timer = None;
            match entry.state {
                State::Request => {
                    self.counters.request_timeouts += 1;
                    self.refuse(now, number, effects);
                }
                State::Connecting => self.ask_again(now, number, effects),
                State::Replaying => self.replay_again(now, number, effects),
            }
        }
    }

    pub(super) fn shift(&self, entry: &Entry) -> u8 {
        self.service(entry.service)
            .map_or(0, |service| service.offer.window_scale.min(14))
    }

    pub(super) fn service(&self, service: u32) -> Option<&Service> {
        self.services.get(service as usize)
    }

    pub(super) fn find_client(&self, ends: [SocketAddr; 2]) -> Option<u32> {
        let is_it = |&number: &u32| self.entries[number as usize].ends == ends;
        self.by_client.find(hash(self.key, ends), is_it).copied()
    }

    pub(super) fn find_node(&self, ends: [SocketAddr; 2]) -> Option<u32> {
        let is_it = |&number: &u32| self.entries[number as usize].node.ends == Some(ends);
        self.by_node.find(hash(self.key, ends), is_it).copied()
    }

    /// Makes room for another entry; the one that waits longest for a request goes if there is
    /// none.
    pub(super) fn make_room(&mut self, now: Nanoseconds, effects: &mut impl Effects) -> bool {
        let max = self.settings.entries_max as usize;
        let entries = &self.entries;
        let is_it = |&(number, id): &(u32, u64)| {
            let entry = entries.get(number as usize);
            entry.is_some_and(|entry| entry.number == id && entry.state == State::Request)
        };
        if self.turns.len() >= 2 * max {
            self.turns.retain(is_it);
        }
        if entries.len() < max {
            return true;
        }
        while let Some(turn) = self.turns.pop_front() {
            let entry = self.entries.get(turn.0 as usize);
            let waits =
                entry.is_some_and(|entry| entry.number == turn.1 && entry.state == State::Request);
            if waits {
                self.counters.evicted += 1;
                self.refuse(now, turn.0, effects);
                return true;
            }
        }
        false
    }

    pub(super) fn enter(&mut self, mut entry: Entry) -> u32 {
        entry.number = self.next_number;
        self.next_number += 1;
        let (ends, id) = (entry.ends, entry.number);
        let number = self.entries.insert(entry) as u32;
        let (entries, key) = (&self.entries, self.key);
        let hash_of = |&number: &u32| hash(key, entries[number as usize].ends);
        self.by_client
            .insert_unique(hash(key, ends), number, hash_of);
        self.turns.push_back((number, id));
        number
    }

    /// Enters the ends of the node that was chosen.
    pub(super) fn enter_node(&mut self, number: u32, ends: [SocketAddr; 2]) {
        self.entries[number as usize].node.ends = Some(ends);
        let (entries, key) = (&self.entries, self.key);
        let hash_of = |&number: &u32| {
            let ends = entries[number as usize].node.ends;
            ends.map_or(0, |ends| hash(key, ends))
        };
        self.by_node.insert_unique(hash(key, ends), number, hash_of);
    }

    /// Forgets the node that was chosen.
    pub(super) fn leave_node(&mut self, number: u32) -> Option<[SocketAddr; 2]> {
        let ends = self.entries[number as usize].node.ends?;
        let found = self
            .by_node
            .find_entry(hash(self.key, ends), |&other| other == number);
        if let Ok(found) = found {
            found.remove();
        }
        self.entries[number as usize].node.ends = None;
        Some(ends)
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.leave_node(number);
        let entry = self.entries.remove(number as usize);
        if let Some(timer) = entry.timer {
            self.wheel.cancel(timer);
        }
        let hash = hash(self.key, entry.ends);
        if let Ok(found) = self.by_client.find_entry(hash, |&other| other == number) {
            found.remove();
        }
    }

    pub(super) fn set_timer(&mut self, number: u32, at: Nanoseconds) {
        let entry = &mut self.entries[number as usize];
        match entry.timer {
            Some(timer) => self.wheel.set(timer, at),
            None => entry.timer = Some(self.wheel.insert(at, number)),
        }
    }

    /// An acknowledgement to the client, or what `flags` say.
    pub(super) fn answer(
        &self,
        now: Nanoseconds,
        number: u32,
        flags: TcpFlags,
        effects: &mut impl Effects,
    ) {
        let entry = &self.entries[number as usize];
        let max = self.settings.request_bytes_max as usize;
        entry.answer_client(now, self.shift(entry), max, flags, effects);
    }

    /// Ends a connection that is not spliced; the client gets a RST.
    pub(super) fn refuse(&mut self, now: Nanoseconds, number: u32, effects: &mut impl Effects) {
        self.answer(now, number, TcpFlags::RST | TcpFlags::ACK, effects);
        self.drop_entry(number, effects);
    }

    /// Forgets a connection that is not spliced.
    pub(super) fn drop_entry(&mut self, number: u32, effects: &mut impl Effects) {
        if let Some(ends) = self.leave_node(number) {
            effects.release(ends, Failed::Client);
        }
        self.remove(number);
    }
}

fn hash(key: [u64; 2], [one, other]: [SocketAddr; 2]) -> u64 {
    let ends = [one, other].map(|end| (end.ip(), end.port()));
    siphash(key, &ends_bytes(ends))
}
