//! The table of connections: it finds the connection of a packet, opens and closes connections.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use lineside_account::{Claim, Counter};
use lineside_frame::Descriptor;
use lineside_wire::checksum::pseudo_header_sum;
use lineside_wire::{Direction, FourTuple, Ip, PROTOCOL_TCP, PlainEnds, PlainSegment, TcpHeader};

use crate::connection::{Connection, Key, Transport};
use crate::context::{Context, Shared};
use crate::damage::Covered;
use crate::deadlines::Deadlines;
use crate::openings::{Opening, Openings, grow};
use crate::origin::{Origin, network_of};
use crate::sink::{StreamSink, Value};
use crate::taken::{Taken, taken};

/// Connections examined at once for one that may be given up.
const SWEEP: usize = 32;
/// Connections given up for one newcomer before it is refused: others took what they gave back. So
/// many openings have the memory of one connection, twice.
const GIVEN_UP_MAX: usize = 32;
/// Connections that are found without a look at the table, 30 KB in all, as long as no two of them
/// are at one place. A power of two.
const RECENT: usize = 256;
/// Connections that carry nothing known to be worth it take at most this part of the memory: one in
/// four. A guess: what they would take beyond that, those that carry something need for fragments,
/// calls and rows.
const MEMORY_SHARE: usize = 4;
/// What the allocator takes beside each piece, and rounds it up by.
const PIECE_BYTES: usize = 24;
/// What a slot takes in the tables of slots here and above, the hash table just after it grew
/// (5 bytes of which 7/16 are in use), the list of free slots and that of a class.
const SLOT_BYTES: usize = 64;
/// What a connection costs here, with two round trips and a deadline that may be twice in the heap.
const CONNECTION_BYTES: usize = size_of::<Connection>() + PIECE_BYTES + SLOT_BYTES + 32;
/// The same of one of which a SYN was seen.
const OPENING_BYTES: usize = size_of::<Opening>() + PIECE_BYTES + SLOT_BYTES;
const _: () = assert!(
    OPENING_BYTES <= 256,
    "a half-open connection takes at most 256 bytes"
);

/// All connections, each in a slot.
#[derive(Default)]
pub(crate) struct Connections {
    slots: Vec<Option<Box<Connection>>>,
    openings: Openings,
    free: Vec<u32>,
    /// Slots by the keys of their connections and openings.
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Keys of connections whose ends another connection has too, in another network: each by the
    /// key that the first one of them had.
    others: HashMap<Key, Vec<Key>>,
    /// Connections over TCP of late packets, each at the place that its ends give.
    recent: Vec<Option<Recent>>,
    /// Of connections that end by silence.
    deadlines: Deadlines,
    /// Slots of connections that may be given up, then of those that the sink values.
    classes: [Vec<u32>; 2],
    /// The place of the first class that is examined next.
    hand: usize,
    /// Drawn on the budget.
    drawn: usize,
}

/// The key of the connection or opening in a slot in use.
#[inline]
fn key_of<'a>(slots: &'a [Option<Box<Connection>>], openings: &'a Openings, slot: u32) -> &'a Key {
    match slots[slot as usize].as_deref() {
        Some(connection) => &connection.key,
        None => &openings.get(slot as usize).expect("a slot in use").key,
    }
}

/// A connection over TCP: its key and its slot.
struct Recent {
    key: Key,
    /// Those of plain segments in each direction, if the connection has any.
    plain: Option<[PlainEnds; 2]>,
    /// The sum of their pseudo-header without its length.
    pseudo_header_sum: u16,
    slot: usize,
}

impl Recent {
    #[cold]
    fn new(key: Key, slot: usize) -> Self {
        let tuple = key.tuple;
        let both = PlainEnds::of(&tuple).zip(PlainEnds::of(&tuple.reversed()));
        let [source, destination] = tuple.ends().map(|end| end.address);
        Self {
            key,
            plain: { both }
                .filter(|_| key.network.is_none())
                .map(<[PlainEnds; 2]>::from),
            pseudo_header_sum: pseudo_header_sum(source, destination, PROTOCOL_TCP, 0),
            slot,
        }
    }
}

impl Connections {
    /// Slots in use and free.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The frame that began the connection in a slot, if there is one.
    pub(crate) fn first(&self, slot: usize) -> Option<&Descriptor> {
        match self.get(slot) {
            Some(connection) => Some(&connection.first),
            None => self.openings.get(slot).map(Opening::first),
        }
    }

    /// The connection in a slot, if there is one.
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<&Connection> {
        self.slots.get(slot)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// The connection in a slot that was just found.
    #[inline]
    pub(crate) fn at(&mut self, slot: usize) -> &mut Connection {
        self.slots[slot].as_deref_mut().expect("a slot in use")
    }

    /// The connection of a plain segment if it is among the recent ones, the segment's direction,
    /// and the sum of its pseudo-header without its length.
    #[inline]
    pub(crate) fn recent_plain(
        &mut self,
        segment: &PlainSegment<'_>,
    ) -> Option<(&mut Connection, Direction, u16)> {
        let ends = segment.ends();
        let recent = self.recent.get(ends.place(RECENT))?.as_ref()?;
        let [forward, reverse] = recent.plain.as_ref()?;
        let direction = if ends == *forward {
            Direction::Forward
        } else if ends == *reverse {
            Direction::Reverse
        } else {
            return None;
        };
        let connection = self.slots[recent.slot].as_deref_mut()?;
        Some((connection, direction, recent.pseudo_header_sum))
    }

    /// The connection of a TCP packet if it is among the recent ones, and the packet's direction.
    #[inline]
    pub(crate) fn recent(
        &mut self,
        ip: &Ip,
        tcp: &TcpHeader,
    ) -> Option<(&mut Connection, Direction)> {
        let tuple = FourTuple::of(ip, tcp.source_port, tcp.destination_port);
        let (tuple, direction) = tuple.canonical();
        let recent = self.recent.get(tuple.place(RECENT))?.as_ref()?;
        if recent.key.tuple != tuple {
            return None;
        }
        let connection = self.slots[recent.slot].as_deref_mut()?;
        let is_same_network = match network_of(ip) {
            None => recent.key.network.is_none(),
            network => connection.networks[direction] == network,
        };
        is_same_network.then_some((connection, direction))
    }

    /// The slot of a TCP packet's connection, a new one if there is none. The connection is among
    /// the recent ones afterwards.
    #[inline]
    pub(crate) fn find_or_open_tcp<S: StreamSink>(
        &mut self,
        key: Key,
        origin: &Origin<'_>,
        context: &mut Context<'_, S>,
    ) -> Option<usize> {
        self.recent.resize_with(RECENT, || None);
        let place = key.tuple.place(RECENT);
        let recent = self.recent[place].as_ref();
        let known = recent.filter(|recent| recent.key == key);
        let known = known.map(|recent| recent.slot);
        let slot = self.find_or_open(key, known, origin, context)?;
        if known != Some(slot) {
            self.recent[place] = Some(Recent::new(key, slot));
        }
        Some(slot)
    }

    /// The slot of a connection, a new one if there is none.
    /// `known`: the slot that it has, from a look at the recent ones.
    pub(crate) fn find_or_open<S: StreamSink>(
        &mut self,
        key: Key,
        known: Option<usize>,
        origin: &Origin<'_>,
        context: &mut Context<'_, S>,
    ) -> Option<usize> {
        match known.or_else(|| self.slot_of(&key)) {
            Some(slot) if self.slots[slot].is_some() => Some(slot),
            Some(slot) => self.promote(slot, context),
            None => self.open(key, origin, context),
        }
    }

    /// The slot of the connection with this key.
    #[inline]
    pub(crate) fn slot_of(&self, key: &Key) -> Option<usize> {
        let (slots, openings) = (&self.slots, &self.openings);
        let hash = self.hasher.hash_one(key);
        let is_it = |&slot: &u32| key_of(slots, openings, slot) == key;
        self.table.find(hash, is_it).map(|&slot| slot as usize)
    }

    fn open<S: StreamSink>(
        &mut self,
        key: Key,
        origin: &Origin<'_>,
        context: &mut Context<'_, S>,
    ) -> Option<usize> {
        if !self.make_room(1, connection_bytes(context), context) {
            context.counters.count(Counter::ConnectionsLimit);
            return None;
        }
        let slot = self.free_slot(context);
        let shared = &mut *context.shared;
        let mut connection = Box::new(Connection::new(slot, key, origin, shared.now));
        connection.watched_until_ns = shared.now.saturating_add(shared.config.duplicate_window_ns);
        context.sink.on_open(slot, &connection);
        self.place(slot, connection);
        self.enter(key, slot);
        if key.network.is_some() {
            let first = Key {
                network: None,
                ..key
            };
            self.others.entry(first).or_default().push(key);
        }
        self.set_deadline(slot, context.shared);
        Some(slot)
    }

    /// Takes the first SYN of a connection as an opening. `None`: it is none, or a copy of one that
    /// came before, and nothing has changed.
    #[inline(never)]
    pub(crate) fn on_first_syn<S: StreamSink>(
        &mut self,
        keys: (Key, Direction),
        (ip, tcp): (&Ip, &TcpHeader),
        origin: &Origin<'_>,
        context: &mut Context<'_, S>,
    ) -> Option<Taken> {
        let now = context.shared.now;
        let mut opening = Opening::new(keys, ip, tcp, origin, now)?;
        if !self.openings.set_layers(&mut opening, &origin.layers()) {
            return None;
        }
        if !self.make_room(1, OPENING_BYTES, context) {
            context.counters.count(Counter::ConnectionsLimit);
            return Some(taken(Counter::FramesTcp, None));
        }
        let duplicates = &mut context.shared.duplicates;
        if duplicates.has_segment(now, origin, ip, tcp, context.counters) {
            self.give_back(OPENING_BYTES, context);
            return None;
        }
        if let Origin::Frame(frame) = origin
            && ip.captured_len >= ip.payload_len
        {
            let packet = Covered {
                pseudo_header_sum: ip.pseudo_header_sum(ip.payload_len),
                bytes: &frame.bytes()[ip.payload..][..ip.payload_len],
                payload_len: tcp.payload_len,
                looks_offloaded: tcp.checksum_offloaded,
            };
            // The first one of a direction is not believed to be damaged.
            opening.checksums().is_damaged(&packet, context.counters);
        }
        let slot = self.free_slot(context);
        let timeout_ns = context.shared.half_open_ns();
        self.openings.insert(slot, opening, timeout_ns);
        self.enter(keys.0, slot);
        Some(taken(Counter::FramesTcp, Some(slot)))
    }

    /// Makes a connection of the opening in a slot, as more of it came; `None`, and it is closed,
    /// if there is no room.
    #[cold]
    fn promote<S: StreamSink>(
        &mut self,
        slot: usize,
        context: &mut Context<'_, S>,
    ) -> Option<usize> {
        let timeout_ns = context.shared.half_open_ns();
        let connection = self.openings.take(slot, timeout_ns, context)?;
        // In its slot, but in no class: it does not make room for itself.
        self.slots[slot] = Some(connection);
        let more = connection_bytes(context).saturating_sub(OPENING_BYTES);
        let fits = self.make_room(0, more, context);
        let connection = self.slots[slot].take()?;
        if !fits {
            context.counters.count(Counter::ConnectionsLimit);
            self.end(connection, OPENING_BYTES, context);
            return None;
        }
        self.place(slot, connection);
        self.set_deadline(slot, context.shared);
        Some(slot)
    }

    /// A slot for one more connection.
    fn free_slot<S>(&mut self, context: &mut Context<'_, S>) -> usize {
        context.counters.count(Counter::Connections);
        self.free.pop().map_or_else(
            || {
                let slot = self.slots.len();
                grow(&mut self.slots, slot);
                slot
            },
            |slot| slot as usize,
        )
    }

    /// Puts a connection into its slot, and into the class of those that may be given up.
    fn place(&mut self, slot: usize, mut connection: Box<Connection>) {
        connection.class = 0;
        connection.place = self.classes[0].len() as u32;
        self.classes[0].push(slot as u32);
        self.slots[slot] = Some(connection);
    }

    /// Enters the slot of a connection or opening into the table.
    fn enter(&mut self, key: Key, slot: usize) {
        let Self {
            slots,
            openings,
            table,
            hasher,
            ..
        } = self;
        let hash_of = |&slot: &u32| hasher.hash_one(key_of(slots, openings, slot));
        table.insert_unique(hasher.hash_one(key), slot as u32, hash_of);
    }

    /// Takes a connection out of its class.
    fn leave_class(&mut self, class: u8, place: u32) {
        let class = &mut self.classes[usize::from(class)];
        class.swap_remove(place as usize);
        if let Some(&moved) = class.get(place as usize) {
            self.at(moved as usize).place = place;
        }
    }

    /// Draws memory for `connections` more, or for one that is there. Where there is no room, those
    /// go that will be missed least: openings, the oldest first, so that each newcomer has the same
    /// time for its handshake; then connections that the sink does not value. Those that it values
    /// go only for one another, and only when the whole budget is used up.
    fn make_room<S: StreamSink>(
        &mut self,
        connections: usize,
        bytes: usize,
        context: &mut Context<'_, S>,
    ) -> bool {
        for _ in 0..GIVEN_UP_MAX {
            let shared = &mut *context.shared;
            let fits = self.table.len() + connections <= shared.config.connections_max;
            let share = shared.budget.limit_bytes() / MEMORY_SHARE;
            let is_within = fits && self.drawn + bytes <= share;
            if is_within && shared.budget.draw_as(Claim::Spare, bytes) {
                self.drawn += bytes;
                return true;
            }
            let least = match self.openings.oldest() {
                Some(slot) => Some((slot, Counter::HalfOpenLimit)),
                None => self.least_missed(context.sink),
            };
            let is_valued = least.is_none_or(|(_, reason)| reason == Counter::ValuedLimit);
            let shared = &mut *context.shared;
            if is_valued && fits && shared.budget.draw(bytes) {
                self.drawn += bytes;
                return true;
            }
            let Some((slot, reason)) = least else {
                return false;
            };
            context.counters.count(Counter::ConnectionsLimit);
            context.counters.count(reason);
            self.close(slot, context);
        }
        false
    }

    fn give_back<S>(&mut self, bytes: usize, context: &mut Context<'_, S>) {
        self.drawn -= bytes;
        context.shared.budget.give_back(bytes);
    }

    /// Of the next few connections the one that is over, half-open or, if there is none, has been
    /// silent for longest; those that may be of value after all others. Those of proven value are
    /// put aside on the way.
    fn least_missed<S: StreamSink>(&mut self, sink: &S) -> Option<(usize, Counter)> {
        let mut looked = 0;
        let mut least = None;
        while looked < SWEEP.min(self.classes[0].len()) {
            self.hand = (self.hand + 1) % self.classes[0].len();
            let slot = self.classes[0][self.hand] as usize;
            let value = sink.value(slot);
            if value == Value::Proven {
                self.leave_class(0, self.hand as u32);
                let place = self.classes[1].len() as u32;
                self.classes[1].push(slot as u32);
                let connection = self.at(slot);
                (connection.class, connection.place) = (1, place);
                continue;
            }
            looked += 1;
            let rank = (value, rank(self.at(slot)));
            if least.is_none_or(|(_, before)| rank < before) {
                least = Some((slot, rank));
            }
        }
        if let Some((slot, _)) = least {
            return Some((slot, Counter::IdleLimit));
        }
        let len = self.classes[1].len();
        let begin = self.hand;
        self.hand = begin.wrapping_add(SWEEP) % len.max(1);
        let valued = (begin..begin + SWEEP.min(len)).map(|at| self.classes[1][at % len] as usize);
        valued
            .min_by_key(|&slot| self.get(slot).map(rank))
            .map(|slot| (slot, Counter::ValuedLimit))
    }

    /// Delivers what a connection holds and frees its slot, if it is in use.
    pub(crate) fn close<S: StreamSink>(&mut self, slot: usize, context: &mut Context<'_, S>) {
        let timeout_ns = context.shared.half_open_ns();
        let (connection, bytes) = match self.slots[slot].take() {
            Some(connection) => {
                self.leave_class(connection.class, connection.place);
                (connection, connection_bytes(context))
            }
            None => match self.openings.take(slot, timeout_ns, context) {
                Some(connection) => (connection, OPENING_BYTES),
                None => return,
            },
        };
        self.end(connection, bytes, context);
    }

    /// The end of a connection that was taken out of its slot and its class, and had drawn `bytes`.
    fn end<S: StreamSink>(
        &mut self,
        mut connection: Box<Connection>,
        bytes: usize,
        context: &mut Context<'_, S>,
    ) {
        let slot = connection.slot;
        if connection.key.transport == Transport::Udp {
            while let Some(cut) = context.shared.cut.pop_of(slot) {
                cut.deliver(context.sink, context.counters);
            }
        }
        connection.finish(context);
        context.sink.on_close(slot, &connection, context.counters);
        let hash = self.hasher.hash_one(connection.key);
        let found = self.table.find_entry(hash, |&other| other as usize == slot);
        if let Ok(entry) = found {
            entry.remove();
        }
        self.forget_other(&connection.key);
        // Also one of another network, which is found by the ends of the first one.
        if let Some(recent) = self.recent.get_mut(connection.key.tuple.place(RECENT)) {
            *recent = None;
        }
        self.free.push(slot as u32);
        self.give_back(bytes, context);
    }

    /// Whether a connection may be over at `now`.
    #[inline]
    pub(crate) fn may_be_over(&self, now: i64) -> bool {
        self.deadlines.has_passed(now) || self.openings.has_passed(now)
    }

    /// Closes the connections that are over at `now`, in the order in which they became so, and
    /// each at that time: what they still hold depends on nothing that came later.
    #[cold]
    pub(crate) fn close_over<S: StreamSink>(&mut self, now: i64, context: &mut Context<'_, S>) {
        loop {
            let first = self.deadlines.first();
            let opening = { self.openings.first_deadline() }
                .filter(|&opening| opening.0 <= now && first.is_none_or(|first| opening < first));
            if let Some((deadline_ns, slot)) = opening {
                context.shared.now = context.shared.now.max(deadline_ns);
                context.sink.on_time(context.shared.now);
                self.close(slot, context);
                continue;
            }
            let Some((deadline_ns, slot)) = self.deadlines.pop(now) else {
                return;
            };
            let connection = self.slots[slot].as_deref_mut();
            let Some(connection) = connection.filter(|it| it.deadline_ns == deadline_ns) else {
                continue;
            };
            connection.deadline_ns = i64::MAX;
            if context.shared.over_ns(connection) > deadline_ns {
                self.set_deadline(slot, context.shared);
                continue;
            }
            context.shared.now = context.shared.now.max(deadline_ns);
            context.sink.on_time(context.shared.now);
            self.close(slot, context);
        }
    }

    /// Sees to it that a connection is looked at when it is over, unless that is later than when it
    /// is looked at anyway. To be called when that may come earlier than before.
    pub(crate) fn set_deadline(&mut self, slot: usize, shared: &Shared) {
        let connection = self.at(slot);
        let over_ns = shared.over_ns(connection);
        if over_ns >= connection.deadline_ns {
            return;
        }
        connection.deadline_ns = over_ns;
        let (slots, count) = (&self.slots, self.table.len());
        self.deadlines
            .push((over_ns, slot), count, |(deadline_ns, slot)| {
                { slots[slot].as_deref() }.is_some_and(|it| it.deadline_ns == deadline_ns)
            });
    }

    fn forget_other(&mut self, key: &Key) {
        if key.network.is_none() {
            return;
        }
        let first = Key {
            network: None,
            ..*key
        };
        if let Some(others) = self.others.get_mut(&first) {
            others.retain(|other| other != key);
            if others.is_empty() {
                self.others.remove(&first);
            }
        }
    }

    /// The key of a packet's connection. `tcp` distinguishes connections between the same ends.
    #[inline]
    pub(crate) fn key_in<S: StreamSink>(
        &mut self,
        ip: &Ip,
        direction: Direction,
        tcp: Option<&TcpHeader>,
        key: Key,
        context: &mut Context<'_, S>,
    ) -> Key {
        match network_of(ip) {
            None => key,
            Some(network) => self.key_in_network(network, direction, tcp, key, context),
        }
    }

    /// The directions of a connection may have networks of their own (overlays and VLANs that are
    /// routed), a mirror may show a packet in two VLANs, and a host at the end of a tunnel inside
    /// and outside of it: all these belong to one connection. Of two networks that use the same
    /// addresses, the second one's connections have keys of their own. Sequence numbers decide.
    #[cold]
    fn key_in_network<S: StreamSink>(
        &mut self,
        network: u32,
        direction: Direction,
        tcp: Option<&TcpHeader>,
        key: Key,
        context: &mut Context<'_, S>,
    ) -> Key {
        let own = key.in_network(network);
        if self.slot_of(&own).is_some() {
            return own;
        }
        if let Some(slot) = self.slot_of(&key)
            && self.slots[slot].is_none()
        {
            self.promote(slot, context);
        }
        if self.takes(network, direction, tcp, &key) {
            return key;
        }
        let others = self.others.get(&key).cloned().unwrap_or_default();
        let takes = |other: &&Key| self.takes(network, direction, tcp, other);
        match others.iter().find(takes) {
            Some(other) => *other,
            None => own,
        }
    }

    /// Whether a packet in a network belongs to the connection with this key, or begins it.
    fn takes(
        &mut self,
        network: u32,
        direction: Direction,
        tcp: Option<&TcpHeader>,
        key: &Key,
    ) -> bool {
        let Some(slot) = self.slot_of(key) else {
            return key.network.is_none();
        };
        let connection = self.at(slot);
        let fits = tcp.and_then(|tcp| connection.fits(direction, tcp));
        let known = connection.networks;
        let is_same = match (known[direction], known[direction.opposite()]) {
            (Some(known), _) if known == network => return true,
            // Overlays with different numbers are different networks; VLANs often are not.
            (Some(known), _) => is_vlan(known) && is_vlan(network) && fits != Some(false),
            (None, Some(known)) if known != network => fits != Some(false),
            (None, _) => true,
        };
        if is_same {
            connection.networks[direction].get_or_insert(network);
        }
        is_same
    }
}

/// What a connection costs, with what the sink has for it.
fn connection_bytes<S: StreamSink>(context: &Context<'_, S>) -> usize {
    CONNECTION_BYTES + context.sink.connection_bytes()
}

/// How much a connection would be missed.
fn rank(connection: &Connection) -> (bool, i64) {
    let is_in_use = connection.is_alive() && connection.has_moved();
    (is_in_use, connection.last_ns)
}

fn is_vlan(network: u32) -> bool {
    network >> 24 != 0
}
