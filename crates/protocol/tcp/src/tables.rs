//! Who is connected to whom: the pairs of addresses, connections by their four-tuple, and those in
//! TIME_WAIT.

use std::net::IpAddr;

use lineside_account::Budget;
use lineside_time::Nanoseconds;
use lineside_wire::SeqNumber;

use crate::config::Config;
use crate::index_table::IndexTable;
use crate::keyed::{hash_of_pair, hash_of_words};
use crate::lists::Lists;
use crate::record::{Active, Held, RESTS, Record, TimeWait};
use crate::scoreboard::Run;
use crate::siphash::siphash;
use crate::slab::NONE;
use crate::slab::{Numbered, Slab};

/// Of a number in the table of four-tuples: it is that of a [`TimeWait`].
const WAITS: u32 = 1 << 31;

/// A pair of addresses that connections share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// Connections of either kind.
    references: u32,
    /// The longest packet that it bears by an ICMP error, and when that came, in milliseconds since
    /// the stack began; 0: none came.
    pub(crate) mtu: u16,
    pub(crate) mtu_at: u32,
}

impl Numbered for Path {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.references
    }
}

/// Whose four-tuple it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Connection(u32),
    TimeWait(u32),
}

impl Found {
    fn number(self) -> u32 {
        match self {
            Self::Connection(number) => number,
            Self::TimeWait(number) => number | WAITS,
        }
    }

    fn of(number: u32) -> Self {
        match number & WAITS {
            0 => Self::Connection(number),
            _ => Self::TimeWait(number & !WAITS),
        }
    }
}

/// The tables of a stack.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) records: Slab<Record>,
    pub(crate) actives: Slab<Active>,
    pub(crate) time_waits: Slab<TimeWait>,
    pub(crate) paths: Slab<Path>,
    /// What larger records hold out of order, and what they have in flight.
    pub(crate) parts: Lists<Held>,
    pub(crate) ranges: Lists<Run>,
    pairs: IndexTable,
    tuples: IndexTable,
    /// The first and the last one in TIME_WAIT.
    first: u32,
    last: u32,
    key: [u64; 2],
}

fn tuple_hash(key: [u64; 2], path: u32, local_port: u16, remote_port: u16) -> u64 {
    let ports = u32::from(local_port) << 16 | u32::from(remote_port);
    hash_of_words(key, [u64::from(path) << 32 | u64::from(ports)])
}

impl Tables {
    pub(crate) fn new(config: &Config, secret: [u64; 2], budget: &Budget) -> Option<Self> {
        let connections = config.connections_max.min(WAITS - 1);
        let time_waits = config.time_wait_max.clamp(1, WAITS - 1);
        Some(Self {
            records: Slab::new(connections, budget)?,
            actives: Slab::new(config.active_max.min(RESTS - 1), budget)?,
            time_waits: Slab::new(time_waits, budget)?,
            paths: Slab::new(connections.saturating_add(time_waits), budget)?,
            parts: Lists::new(budget)?,
            ranges: Lists::new(budget)?,
            pairs: IndexTable::new(budget)?,
            tuples: IndexTable::new(budget)?,
            first: NONE,
            last: NONE,
            // Numbers as long as can be, also of a secret that is none.
            key: [&b"one"[..], b"other"].map(|word| siphash(secret, word)),
        })
    }

    /// The number of a pair of addresses.
    pub(crate) fn path(&self, local: IpAddr, remote: IpAddr) -> Option<u32> {
        let is_it = |number: u32| {
            let path = &self.paths[number];
            (path.local, path.remote) == (local, remote)
        };
        let hash = hash_of_pair(self.key, local, remote);
        self.pairs.find(hash, is_it)
    }

    /// The same, a new one if there is none; to be let go by [`release_path`](Self::release_path).
    pub(crate) fn hold_path(&mut self, local: IpAddr, remote: IpAddr) -> Option<u32> {
        if let Some(number) = self.path(local, remote) {
            self.paths[number].references += 1;
            return Some(number);
        }
        let (key, paths) = (self.key, &self.paths);
        self.pairs.reserve(|number| {
            let path = &paths[number];
            hash_of_pair(key, path.local, path.remote)
        })?;
        let path = Path {
            local,
            remote,
            references: 1,
            mtu: 0,
            mtu_at: 0,
        };
        let number = self.paths.take(|| path)?;
        self.paths[number] = path;
        let hash = hash_of_pair(key, local, remote);
        self.pairs.insert(hash, number);
        Some(number)
    }

    pub(crate) fn release_path(&mut self, number: u32) {
        let path = &mut self.paths[number];
        path.references -= 1;
        if path.references > 0 {
            return;
        }
        let hash = hash_of_pair(self.key, path.local, path.remote);
        self.pairs.remove(hash, number);
        self.paths.free(number);
    }

    /// Path, local and remote port of an entry.
    fn tuple_of(
        records: &Slab<Record>,
        time_waits: &Slab<TimeWait>,
        number: u32,
    ) -> (u32, u16, u16) {
        match Found::of(number) {
            Found::Connection(number) => {
                let record = &records[number];
                (record.path, record.local_port, record.remote_port)
            }
            Found::TimeWait(number) => {
                let wait = &time_waits[number];
                (wait.path, wait.local_port, wait.remote_port)
            }
        }
    }

    pub(crate) fn find(&self, path: u32, local_port: u16, remote_port: u16) -> Option<Found> {
        let wanted = (path, local_port, remote_port);
        let hash = tuple_hash(self.key, path, local_port, remote_port);
        let is_it = |number: u32| Self::tuple_of(&self.records, &self.time_waits, number) == wanted;
        self.tuples.find(hash, is_it).map(Found::of)
    }

    /// Whether looking for a connection is likely to wait for memory.
    #[inline]
    pub(crate) fn are_large(&self) -> bool {
        self.tuples.is_large()
    }

    /// The hash of a four-tuple.
    #[inline]
    pub(crate) fn hash(&self, path: u32, local_port: u16, remote_port: u16) -> u64 {
        tuple_hash(self.key, path, local_port, remote_port)
    }

    /// Asks for the line in which it is looked for first.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        self.tuples.prefetch(hash);
    }

    /// Asks for the record of a connection with this hash.
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) {
        for number in self.tuples.likely(hash) {
            if let Found::Connection(number) = Found::of(number) {
                self.records.prefetch(number);
            }
        }
    }

    /// Makes room for one more entry.
    pub(crate) fn reserve(&mut self) -> Option<()> {
        let (key, records, time_waits) = (self.key, &self.records, &self.time_waits);
        self.tuples.reserve(|number| {
            let (path, local, remote) = Self::tuple_of(records, time_waits, number);
            tuple_hash(key, path, local, remote)
        })
    }

    /// Enters a record that is filled in; there is [room](Self::reserve).
    pub(crate) fn enter(&mut self, found: Found) {
        let number = found.number();
        let (path, local, remote) = Self::tuple_of(&self.records, &self.time_waits, number);
        let hash = tuple_hash(self.key, path, local, remote);
        self.tuples.insert(hash, number);
    }

    fn remove(&mut self, found: Found) {
        let number = found.number();
        let (path, local, remote) = Self::tuple_of(&self.records, &self.time_waits, number);
        let hash = tuple_hash(self.key, path, local, remote);
        self.tuples.remove(hash, number);
    }

    /// Gives a larger record back, of which nothing is held.
    pub(crate) fn free_active(&mut self, place: u32) {
        let active = &mut self.actives[place];
        if let Some(mut rare) = active.take_rare() {
            self.parts.take_back(&mut rare.held);
        }
        active.scoreboard.begin(SeqNumber(0));
        self.ranges.take_back(active.scoreboard.list());
        self.actives.free(place);
    }

    /// Lets a connection's record go; the path stays held.
    pub(crate) fn remove_connection(&mut self, number: u32) {
        self.remove(Found::Connection(number));
        self.records.free(number);
    }

    /// The one in TIME_WAIT that ends first.
    pub(crate) fn first_wait(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Enters a connection in TIME_WAIT, in place of a connection that was just
    /// [removed](Self::remove_connection), so that there is room. Returns whether the oldest one
    /// had to go.
    pub(crate) fn wait(&mut self, wait: TimeWait) -> bool {
        let mut is_full = false;
        let number = match self.time_waits.take(|| wait) {
            Some(number) => number,
            None => {
                let Some(oldest) = self.first_wait() else {
                    // Not even one fits into the budget.
                    self.release_path(wait.path);
                    return true;
                };
                is_full = true;
                self.end_wait(oldest);
                let Some(number) = self.time_waits.take(|| wait) else {
                    self.release_path(wait.path);
                    return true;
                };
                number
            }
        };
        self.time_waits[number] = wait;
        self.append(number);
        self.enter(Found::TimeWait(number));
        is_full
    }

    fn append(&mut self, number: u32) {
        let last = self.last;
        let wait = &mut self.time_waits[number];
        (wait.previous, wait.next) = (last, NONE);
        match last {
            NONE => self.first = number,
            last => self.time_waits[last].next = number,
        }
        self.last = number;
    }

    fn unlink(&mut self, number: u32) {
        let TimeWait { previous, next, .. } = self.time_waits[number];
        match previous {
            NONE => self.first = next,
            previous => self.time_waits[previous].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.time_waits[next].previous = previous,
        }
    }

    /// It waits anew, until `until`, which is not before the end of any other.
    pub(crate) fn wait_again(&mut self, number: u32, until: u32) {
        self.unlink(number);
        self.time_waits[number].until = until;
        self.append(number);
    }

    /// The four-tuple is free.
    pub(crate) fn end_wait(&mut self, number: u32) {
        self.remove(Found::TimeWait(number));
        self.unlink(number);
        let path = self.time_waits[number].path;
        self.time_waits.free(number);
        self.release_path(path);
    }
}

/// Milliseconds since the stack began, rounded up, as [`TimeWait::until`] has them.
pub(crate) fn wait_until(began: Nanoseconds, until: Nanoseconds, has_timestamps: bool) -> u32 {
    let ms = until.saturating_sub(began) / 1_000_000 + 1;
    (ms as u32) & !1 | u32::from(has_timestamps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_find_what_was_entered() {
        let budget = Budget::new(1 << 20);
        let config = Config::new([2; 6], &[]);
        let mut tables = Tables::new(&config, [1, 2], &budget).expect("fits");
        let ends = |last: u8| ([10, 0, 0, 1].into(), [10, 0, 0, last].into());
        let mut waits = Vec::new();
        for number in 0..2000_u16 {
            let (local, remote) = ends((number % 9) as u8);
            tables.reserve().expect("room");
            let path = tables.hold_path(local, remote).expect("room");
            let wait = TimeWait {
                path,
                local_port: number,
                remote_port: 7,
                snd_nxt: SeqNumber(0),
                rcv_nxt: SeqNumber(0),
                ts_recent: 0,
                until: 0,
                previous: NONE,
                next: NONE,
            };
            assert!(!tables.wait(wait));
            waits.push((path, number));
        }
        assert_eq!(tables.paths.len(), 9);
        for &(path, port) in &waits {
            let found = tables.find(path, port, 7).expect("it was entered");
            let Found::TimeWait(number) = found else {
                panic!("{found:?}")
            };
            assert_eq!(tables.time_waits[number].local_port, port);
            assert_eq!(tables.find(path, port, 8), None);
        }
        let mut ended = 0;
        while let Some(first) = tables.first_wait() {
            assert_eq!(tables.time_waits[first].local_port, ended);
            tables.end_wait(first);
            ended += 1;
        }
        assert_eq!((ended, tables.paths.len()), (2000, 0));
        assert_eq!(tables.path(ends(1).0, ends(1).1), None);
        drop(tables);
        assert_eq!(budget.used_bytes(), 0);
    }
}
