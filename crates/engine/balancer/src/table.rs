//! The table of connections: records by number, found by either direction's addresses and ports,
//! and one timer each.
//!
//! ```text
//!  client's frame: (client, service) ─┐
//!                                     ├─► hash table of (number, direction) ─► record
//!  node's frame:   (node, NAT port)  ─┘                                         │
//!                                  its node's list of such ones, oldest first ◄─┤
//!                                                       a timer in the wheel  ◄─┘
//! ```
//!
//! A record has no more of the four ends than the client's and the NAT port: the others are its
//! service's, its node's and a NAT address, which it names.

use std::net::IpAddr;

use hashbrown::HashTable;
use lineside_account::{Budget, Lease};
use lineside_tcp::keyed::hash_of_words;
use lineside_tcp::slab::{Numbered, Slab};
use lineside_time::{Nanoseconds, TimerId, Wheel};

use crate::packet::End;
use crate::settings::Transport;
pub(crate) use crate::shelves::NONE;
use crate::shelves::{Class, Counts, IDLE, Shelf};

/// In place of a NAT address: nodes see the client.
pub(crate) const KEPT: u8 = u8::MAX;
/// The most nodes' addresses that are looked at for the connection that makes room.
const SHELVES_MAX: usize = 64;
/// How often a connection that is in use becomes the latest of its list: not with each frame.
/// Mappings of UDP can be pushed out within a part of a second, so theirs is finer. In powers of
/// two of nanoseconds: 134 ms and 8.6 s.
const GRAIN_UDP: u32 = 27;
const GRAIN_TCP: u32 = 33;

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToNode,
    ToClient,
}

impl Direction {
    #[inline]
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn reversed(self) -> Self {
        match self {
            Self::ToNode => Self::ToClient,
            Self::ToClient => Self::ToNode,
        }
    }

    pub(crate) const BOTH: [Self; 2] = [Self::ToNode, Self::ToClient];
}

/// The bits of a scale; those above count frames.
const SCALE: u8 = 0x0f;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// The client's SYN was seen.
    Asked,
    /// The node's answer, too.
    Answered,
    /// Both have what they need.
    Established,
    /// At least one end has sent its FIN.
    Closing,
    /// Both have, or a reset came.
    Closed,
    /// A UDP mapping of which the client's datagrams were seen alone.
    Datagrams,
    /// One whose node has answered.
    Exchanged,
}

impl State {
    pub(crate) fn is_half_open(self) -> bool {
        matches!(self, Self::Asked | Self::Answered)
    }
}

/// Bits of a connection, twice: the first for frames to the node, the second for those to the
/// client.
pub(crate) mod flag {
    /// Frames of this direction have unfinished checksums.
    pub(crate) const PARTIAL: u8 = 1;
    /// A FIN was seen in this direction.
    pub(crate) const FIN: u8 = 1 << 2;
    /// The driver forwards this direction.
    pub(crate) const ENTERED: u8 = 1 << 4;
    /// Sequence numbers are shifted: see the side table. One bit for both.
    pub(crate) const SHIFTED: u8 = 1 << 6;
    /// A direction was forwarded by the driver once: what was seen of its numbers is old. One bit.
    pub(crate) const BYPASSED: u8 = 1 << 7;
}

/// A connection of TCP, or a mapping of UDP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection {
    /// IPv4 mapped; in halves, since a number of 128 bits would be aligned to as many.
    client: [u64; 2],
    pub(crate) client_port: u16,
    pub(crate) service: u16,
    pub(crate) node: u16,
    pub(crate) nat_port: u16,
    /// Where the client's last frame came from.
    pub(crate) ethernet: [u8; 6],
    pub(crate) port: u8,
    /// Which NAT address, or [`KEPT`].
    pub(crate) nat: u8,
    pub(crate) state: State,
    pub(crate) flags: u8,
    /// By direction: how its windows are scaled in the lower four bits, and in the upper four the
    /// frames that were counted.
    scale_and_count: [u8; 2],
    /// The last frame.
    pub(crate) seen: Nanoseconds,
    timer: TimerId,
    /// By direction: the sequence number after the last one sent.
    pub(crate) next: [u32; 2],
    /// By direction: the one after the last that the other end takes.
    pub(crate) edge: [u32; 2],
    /// Those before and after it in its list; the second is the next free one while it is
    /// nobody's.
    links: [u32; 2],
}

impl Numbered for Connection {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.links[1]
    }
}

impl Connection {
    pub(crate) fn class(&self) -> Class {
        match self.state {
            State::Closed => Class::Closed,
            State::Exchanged => Class::Answered,
            State::Datagrams => Class::Unanswered,
            // Who has brought a cookie is there.
            State::Asked | State::Answered if self.flags & flag::SHIFTED == 0 => Class::HalfOpen,
            State::Asked | State::Answered | State::Established | State::Closing => Class::Lasting,
        }
    }

    /// Whether a frame at `now` makes it the latest of its list.
    #[inline]
    pub(crate) fn is_renewed(&self, now: Nanoseconds) -> bool {
        let grain = match self.state {
            State::Datagrams | State::Exchanged => GRAIN_UDP,
            State::Established | State::Closing => GRAIN_TCP,
            // A flood that repeats itself does not make them younger.
            State::Asked | State::Answered | State::Closed => return false,
        };
        self.seen >> grain != now >> grain
    }

    pub(crate) fn new(client: End, service: u16, node: u16) -> Self {
        Self {
            client: [(bits(client.0) >> 64) as u64, bits(client.0) as u64],
            client_port: client.1,
            service,
            node,
            nat_port: 0,
            ethernet: [0; 6],
            port: 0,
            nat: KEPT,
            state: State::Datagrams,
            flags: 0,
            scale_and_count: [0; 2],
            seen: 0,
            timer: TimerId(NONE),
            next: [0; 2],
            edge: [0; 2],
            links: [NONE; 2],
        }
    }

    #[inline]
    pub(crate) fn client(&self) -> End {
        let [high, low] = self.client.map(u128::from);
        let mapped = std::net::Ipv6Addr::from_bits(high << 64 | low);
        (mapped.to_canonical(), self.client_port)
    }

    /// By which power of two windows of this direction are scaled, at most 14.
    #[inline]
    pub(crate) fn scale(&self, direction: Direction) -> u8 {
        self.scale_and_count[direction.index()] & SCALE
    }

    pub(crate) fn set_scales(&mut self, scales: [u8; 2]) {
        for (direction, scale) in Direction::BOTH.into_iter().zip(scales) {
            self.set_scale(direction, scale);
        }
    }

    pub(crate) fn set_scale(&mut self, direction: Direction, scale: u8) {
        let both = &mut self.scale_and_count[direction.index()];
        *both = *both & !SCALE | scale & SCALE;
    }

    /// Counts a frame of a direction.
    #[inline]
    pub(crate) fn count(&mut self, direction: Direction) {
        let both = &mut self.scale_and_count[direction.index()];
        *both = both.checked_add(SCALE + 1).unwrap_or(*both);
    }

    /// The frames that were counted, at most 15.
    #[inline]
    pub(crate) fn counted(&self, direction: Direction) -> u8 {
        self.scale_and_count[direction.index()] >> SCALE.count_ones()
    }

    #[inline]
    pub(crate) fn has(&self, bit: u8, direction: Direction) -> bool {
        self.flags & bit << direction.index() != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, bit: u8, direction: Direction, is_set: bool) {
        let bit = bit << direction.index();
        self.flags = self.flags & !bit | if is_set { bit } else { 0 };
    }
}

/// Addresses and ports as a frame has them when it comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tuple {
    pub(crate) transport: Transport,
    pub(crate) source: End,
    pub(crate) destination: End,
}

impl Tuple {
    #[inline]
    fn hash(&self, key: [u64; 2]) -> u64 {
        let [source, destination] = [self.source.0, self.destination.0].map(bits);
        let ports = u64::from(self.source.1) << 16 | u64::from(self.destination.1);
        let low = [source, destination].map(|bits| bits as u64);
        let high = [source, destination].map(|bits| (bits >> 64) as u64);
        let ports = ports | (self.transport as u64) << 32;
        match high {
            [0, 0] => hash_of_words(key, [low[0] << 32 ^ low[1], ports]),
            _ => hash_of_words(key, [low[0], low[1], high[0], high[1], ports]),
        }
    }
}

/// IPv4 addresses are mapped, as in `::ffff:192.0.2.1`.
#[inline]
pub(crate) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// What a connection's ends are: the table asks for them, since records name them only.
pub(crate) trait Ends {
    /// The tuple that frames of this direction have when they come in.
    fn tuple(&self, connection: &Connection, direction: Direction) -> Tuple;

    /// The number of its node's address, which all connections to that address have.
    fn endpoint(&self, connection: &Connection) -> u16;
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Table {
    records: Slab<Connection>,
    index: HashTable<u32>,
    key: [u64; 2],
    wheel: Wheel,
    /// By the number of a node's address.
    shelves: Vec<Shelf>,
    counts: Counts,
    /// The shelf at which the next search for room begins.
    turn: usize,
    max: u32,
    lease: Lease,
    /// For maps of ports.
    budget: Budget,
}

impl Table {
    /// Bytes of a connection beside its record, as they are at worst: two places of the index,
    /// which is between 7/16 and 7/8 full and has a byte of its own for each; a timer, and its item
    /// in a chunk of the wheel, in vectors that double.
    const BYTES: usize = 2 * 5 * 16 / 7 + 2 * (16 + 16);
    /// The most connections: a place of the index says a direction, too.
    const MAX: u32 = 1 << 30;

    /// Bytes that the budget must bear for this many connections.
    pub(crate) fn bytes_for(max: u32) -> usize {
        (Self::BYTES + size_of::<Connection>()) * max as usize
    }

    pub(crate) fn new(max: u32, key: [u64; 2], budget: &Budget) -> Option<Self> {
        let max = max.min(Self::MAX);
        // Drawn before it is asked for.
        let mut lease = budget.lease(2 * 5 * 16 / 7 * max as usize)?;
        let index = HashTable::with_capacity(2 * max as usize);
        let wheel = Wheel::new();
        let has_room = lease.resize(index.allocation_size() + wheel.allocated_bytes());
        has_room.then_some(Self {
            records: Slab::new(max, budget)?,
            index,
            key,
            wheel,
            shelves: Vec::new(),
            counts: Counts::default(),
            turn: 0,
            max,
            lease,
            budget: budget.clone(),
        })
    }

    /// Bytes that its connections take now, each with its places in all indexes.
    pub(crate) fn bytes(&self) -> usize {
        self.lease.bytes() + self.records.bytes()
    }

    /// The wheel grows with the most timers that were ever pending.
    fn draw(&mut self) -> bool {
        let bytes = self.index.allocation_size() + self.wheel.allocated_bytes();
        bytes <= self.lease.bytes() || self.lease.resize(bytes)
    }

    #[inline]
    pub(crate) fn find(&self, tuple: &Tuple, ends: &impl Ends) -> Option<(u32, Direction)> {
        let hash = tuple.hash(self.key);
        let is_it = |&place: &u32| {
            let (number, direction) = split(place);
            ends.tuple(&self.records[number], direction) == *tuple
        };
        self.index.find(hash, is_it).map(|&place| split(place))
    }

    /// Adds a connection whose tuples are free, due at `until`; `None` if there is no room.
    pub(crate) fn add(
        &mut self,
        connection: Connection,
        until: Nanoseconds,
        ends: &impl Ends,
    ) -> Option<u32> {
        let number = self.records.take(|| connection)?;
        let record = &mut self.records[number];
        *record = connection;
        record.links = [NONE; 2];
        let timer = self.wheel.insert(until, number);
        record.timer = timer;
        if !self.draw() {
            self.wheel.cancel(timer);
            self.records[number].timer = TimerId(NONE);
            self.records.free(number);
            return None;
        }
        let endpoint = usize::from(ends.endpoint(&connection));
        let shelf = self.shelf(endpoint);
        if connection.nat != KEPT {
            shelf.ports(connection.nat).take(connection.nat_port);
        }
        self.link(number, endpoint);
        for direction in Direction::BOTH {
            let hash = ends.tuple(&connection, direction).hash(self.key);
            let (records, key) = (&self.records, self.key);
            self.index
                .insert_unique(hash, join(number, direction), |&place| {
                    let (number, direction) = split(place);
                    ends.tuple(&records[number], direction).hash(key)
                });
        }
        Some(number)
    }

    /// Removes a connection; its timer is not pending.
    fn remove_record(&mut self, number: u32, ends: &impl Ends) -> Connection {
        let connection = self.records[number];
        let endpoint = usize::from(ends.endpoint(&connection));
        self.unlink(number, endpoint);
        if connection.nat != KEPT {
            self.shelves[endpoint]
                .ports(connection.nat)
                .free(connection.nat_port);
        }
        for direction in Direction::BOTH {
            let hash = ends.tuple(&connection, direction).hash(self.key);
            let place = join(number, direction);
            if let Ok(entry) = self.index.find_entry(hash, |&each| each == place) {
                entry.remove();
            }
        }
        self.records[number].timer = TimerId(NONE);
        self.records.free(number);
        connection
    }

    pub(crate) fn remove(&mut self, number: u32, ends: &impl Ends) -> Connection {
        self.wheel.cancel(self.records[number].timer);
        self.remove_record(number, ends)
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &Connection {
        &self.records[number]
    }

    /// Its state changes by [`set_state`](Self::set_state) alone.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Connection {
        &mut self.records[number]
    }

    /// Whether the number is a connection's.
    pub(crate) fn is_used(&self, number: u32) -> bool {
        (self.records.get(number)).is_some_and(|record| record.timer != TimerId(NONE))
    }

    /// Changes the state; the connection is due at `until`.
    pub(crate) fn set_state(
        &mut self,
        number: u32,
        state: State,
        until: Nanoseconds,
        ends: &impl Ends,
    ) {
        let endpoint = usize::from(ends.endpoint(&self.records[number]));
        self.unlink(number, endpoint);
        let record = &mut self.records[number];
        record.state = state;
        let timer = record.timer;
        self.wheel.set(timer, until);
        self.link(number, endpoint);
    }

    /// A frame of the connection has come.
    #[inline]
    pub(crate) fn renew(&mut self, number: u32, now: Nanoseconds, ends: &impl Ends) {
        let record = &mut self.records[number];
        let is_renewed = record.is_renewed(now);
        record.seen = record.seen.max(now);
        if is_renewed {
            let endpoint = usize::from(ends.endpoint(&self.records[number]));
            self.unlink(number, endpoint);
            self.link(number, endpoint);
        }
    }

    /// The next connection whose time is over, as `timeout` says for its state; others whose frames
    /// came meanwhile get a later timer.
    pub(crate) fn expire(
        &mut self,
        now: Nanoseconds,
        timeout: impl Fn(State) -> Nanoseconds,
        ends: &impl Ends,
    ) -> Option<(u32, Connection)> {
        while let Some((_, number)) = self.wheel.pop(now) {
            let record = &mut self.records[number];
            let until = record.seen.saturating_add(timeout(record.state));
            if until <= now {
                return Some((number, self.remove_record(number, ends)));
            }
            record.timer = self.wheel.insert(until, number);
        }
        None
    }

    pub(crate) fn next_deadline(&self) -> Option<Nanoseconds> {
        self.wheel.next_deadline()
    }

    /// The connection to a node's address that makes room first, if any may.
    pub(crate) fn first_of(&self, endpoint: u16, now: Nanoseconds) -> Option<u32> {
        let shelf = self.shelves.get(usize::from(endpoint))?;
        let mut order = shelf.counts.order().into_iter();
        order.find_map(|class| self.oldest(shelf, class, now))
    }

    /// The connection of all that makes room first. Of more addresses than [`SHELVES_MAX`] some are
    /// looked at, others the next time.
    pub(crate) fn first_of_all(&mut self, now: Nanoseconds) -> Option<u32> {
        let (all, begin) = (self.shelves.len(), self.turn);
        let turns = begin..begin + SHELVES_MAX.min(all);
        self.turn = turns.end % all.max(1);
        let mut order = self.counts.order().into_iter();
        order.find_map(|class| {
            let shelves = turns.clone().map(|turn| &self.shelves[turn % all]);
            let oldest = shelves.filter_map(|shelf| self.oldest(shelf, class, now));
            oldest.min_by_key(|&number| self.records[number].seen)
        })
    }

    /// The oldest of a class, unless that may not go.
    fn oldest(&self, shelf: &Shelf, class: Class, now: Nanoseconds) -> Option<u32> {
        let number = shelf.lists[class as usize][0];
        let may_go = number != NONE
            && (class != Class::Lasting || now.saturating_sub(self.records[number].seen) >= IDLE);
        may_go.then_some(number)
    }

    /// The connections to a node's address.
    fn shelf(&mut self, endpoint: usize) -> &mut Shelf {
        if self.shelves.len() <= endpoint {
            self.shelves.resize_with(endpoint + 1, Shelf::default);
        }
        &mut self.shelves[endpoint]
    }

    /// A free port number of a connection's NAT address towards its node: see [`Ports::find`].
    ///
    /// [`Ports::find`]: crate::ports::Ports::find
    pub(crate) fn free_port(
        &mut self,
        connection: &Connection,
        draw: impl Fn(u16) -> u16,
        ends: &impl Ends,
    ) -> Option<u16> {
        let endpoint = usize::from(ends.endpoint(connection));
        let mut shelf = std::mem::take(self.shelf(endpoint));
        let is_free = |port| {
            let with_port = Connection {
                nat_port: port,
                ..*connection
            };
            let tuple = ends.tuple(&with_port, Direction::ToClient);
            self.find(&tuple, ends).is_none()
        };
        let ports = shelf.ports(connection.nat);
        let found = ports.find(draw, is_free, &self.budget);
        self.shelves[endpoint] = shelf;
        found
    }

    /// Connections to a node's address, by class.
    pub(crate) fn counts_of(&self, endpoint: u16) -> Counts {
        let shelf = self.shelves.get(usize::from(endpoint));
        shelf.map_or_else(Counts::default, |shelf| shelf.counts)
    }

    /// All connections, by class.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn max(&self) -> usize {
        self.max as usize
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.max()
    }

    /// The numbers of all connections.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let all = 0..u32::MAX;
        all.take_while(|&number| self.records.get(number).is_some())
            .filter(|&number| self.is_used(number))
    }

    /// Puts a connection behind all others of its class.
    fn link(&mut self, number: u32, endpoint: usize) {
        let class = self.records[number].class();
        let shelf = &mut self.shelves[endpoint];
        let list = &mut shelf.lists[class as usize];
        let last = std::mem::replace(&mut list[1], number);
        if last == NONE {
            list[0] = number;
        } else {
            self.records[last].links[1] = number;
        }
        self.records[number].links = [last, NONE];
        shelf.counts.add(class);
        self.counts.add(class);
    }

    fn unlink(&mut self, number: u32, endpoint: usize) {
        let Connection {
            links: [before, after],
            ..
        } = self.records[number];
        let class = self.records[number].class();
        let shelf = &mut self.shelves[endpoint];
        let list = &mut shelf.lists[class as usize];
        match before {
            NONE => list[0] = after,
            before => self.records[before].links[1] = after,
        }
        match after {
            NONE => list[1] = before,
            after => self.records[after].links[0] = before,
        }
        shelf.counts.remove(class);
        self.counts.remove(class);
    }
}

#[inline]
fn split(place: u32) -> (u32, Direction) {
    let direction = match place & 1 {
        0 => Direction::ToNode,
        _ => Direction::ToClient,
    };
    (place >> 1, direction)
}

#[inline]
fn join(number: u32, direction: Direction) -> u32 {
    number << 1 | direction as u32
}
