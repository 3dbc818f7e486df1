//! The table of connections: it finds the connection of a packet, opens and closes connections.

use hashbrown::HashMap;
use lineside_account::Counter;
use lineside_wire::checksum::pseudo_header_sum;
use lineside_wire::{Direction, FourTuple, Ip, PROTOCOL_TCP, PlainEnds, PlainSegment, TcpHeader};

use crate::connection::{Connection, Key, Origin, Transport, network_of};
use crate::context::{Context, Shared};
use crate::deadlines::Deadlines;
use crate::sink::StreamSink;

/// Slots examined at once for connections that may be given up.
const SWEEP: usize = 64;
/// Connections given up for one newcomer before it is refused: others took what they gave back.
const GIVEN_UP_MAX: usize = 8;
/// Connections that are found without a look at the table, 30 KB in all, as long as no two of them
/// are at one place. A power of two.
const RECENT: usize = 256;
/// What a connection costs here and in a table of the same size above: two streams, a key, a slot.
const CONNECTION_BYTES: usize = size_of::<Connection>() + 512;

/// All connections, each in a slot.
#[derive(Default)]
pub(crate) struct Connections {
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    table: HashMap<Key, usize>,
    /// Keys of connections whose ends another connection has too, in another network: each by the
    /// key that the first one of them had.
    others: HashMap<Key, Vec<Key>>,
    /// Connections over TCP of late packets, each at the place that its ends give.
    recent: Vec<Option<Recent>>,
    /// Of connections that end by silence.
    deadlines: Deadlines,
    /// The slot that was examined last.
    hand: usize,
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
        if let Some(slot) = known.or_else(|| self.table.get(&key).copied()) {
            return Some(slot);
        }
        self.open(key, origin, context)
    }

    fn open<S: StreamSink>(
        &mut self,
        key: Key,
        origin: &Origin<'_>,
        context: &mut Context<'_, S>,
    ) -> Option<usize> {
        if !self.make_room(context) {
            context.counters.count(Counter::ConnectionsLimit);
            return None;
        }
        let shared = &mut *context.shared;
        context.counters.count(Counter::Connections);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let mut connection = Box::new(Connection::new(slot, key, origin, shared.now));
        connection.watched_until_ns = shared.now.saturating_add(shared.config.duplicate_window_ns);
        context.sink.on_open(slot, &connection);
        self.slots[slot] = Some(connection);
        self.table.insert(key, slot);
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

    /// Draws the memory of one more connection. Where there is no room, those go that will be
    /// missed least: a newcomer is never refused for the sake of those that rest.
    fn make_room<S: StreamSink>(&mut self, context: &mut Context<'_, S>) -> bool {
        for _ in 0..GIVEN_UP_MAX {
            let shared = &mut *context.shared;
            let fits = self.table.len() < shared.config.connections_max;
            if fits && shared.budget.draw(CONNECTION_BYTES) {
                return true;
            }
            let Some(least) = self.least_missed() else {
                return false;
            };
            context.counters.count(Counter::ConnectionsLimit);
            self.close(least, context);
        }
        false
    }

    /// Of the next few connections the one that is over, half-open or, if there is none, has been
    /// silent for longest.
    fn least_missed(&mut self) -> Option<usize> {
        let len = self.slots.len();
        let begin = self.hand;
        self.hand = (begin + SWEEP) % len.max(1);
        let slots = (begin..begin + SWEEP.min(len)).map(|at| at % len);
        slots
            .filter_map(|slot| Some((slot, self.slots[slot].as_deref()?)))
            .min_by_key(|(_, connection)| {
                let is_in_use = connection.is_alive() && connection.has_moved();
                (is_in_use, connection.last_ns)
            })
            .map(|(slot, _)| slot)
    }

    /// Delivers what a connection holds and frees its slot, if it is in use.
    pub(crate) fn close<S: StreamSink>(&mut self, slot: usize, context: &mut Context<'_, S>) {
        let Some(mut connection) = self.slots[slot].take() else {
            return;
        };
        if connection.key.transport == Transport::Udp {
            while let Some(cut) = context.shared.cut.pop_of(slot) {
                cut.deliver(context);
            }
        }
        connection.finish(context);
        context.sink.on_close(slot, &connection, context.counters);
        self.table.remove(&connection.key);
        self.forget_other(&connection.key);
        // Also one of another network, which is found by the ends of the first one.
        if let Some(recent) = self.recent.get_mut(connection.key.tuple.place(RECENT)) {
            *recent = None;
        }
        self.free.push(slot);
        context.shared.budget.give_back(CONNECTION_BYTES);
    }

    /// Whether a connection may be over at `now`.
    #[inline]
    pub(crate) fn may_be_over(&self, now: i64) -> bool {
        self.deadlines.has_passed(now)
    }

    /// Closes the connections that are over at `now`, in the order in which they became so, and
    /// each at that time: what they still hold depends on nothing that came later.
    #[cold]
    pub(crate) fn close_over<S: StreamSink>(&mut self, now: i64, context: &mut Context<'_, S>) {
        while let Some((deadline_ns, slot)) = self.deadlines.pop(now) {
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

    /// The key of a packet's connection. `tcp`: what tells connections between the same ends apart.
    #[inline]
    pub(crate) fn key_in(
        &mut self,
        ip: &Ip,
        direction: Direction,
        tcp: Option<&TcpHeader>,
        key: Key,
    ) -> Key {
        match network_of(ip) {
            None => key,
            Some(network) => self.key_in_network(network, direction, tcp, key),
        }
    }

    /// The directions of a connection may have networks of their own (overlays and VLANs that are
    /// routed), a mirror may show a packet in two VLANs, and a host at the end of a tunnel inside
    /// and outside of it: all these belong to one connection. Of two networks that use the same
    /// addresses, the second one's connections have keys of their own. Sequence numbers decide.
    #[cold]
    fn key_in_network(
        &mut self,
        network: u32,
        direction: Direction,
        tcp: Option<&TcpHeader>,
        key: Key,
    ) -> Key {
        let own = key.in_network(network);
        if self.table.contains_key(&own) {
            return own;
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
        let Some(&slot) = self.table.get(key) else {
            return key.network.is_none();
        };
        let connection = self.slots[slot].as_deref_mut().expect("a slot in use");
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

fn is_vlan(network: u32) -> bool {
    network >> 24 != 0
}
