//! Connections of which nothing was seen but one SYN: a tenth of the memory of others, so that a
//! flood of SYNs leaves room for those that carry something.
//!
//! An [`Opening`] is what is needed to take its SYN once more. The second packet of the connection,
//! its end and the end of the input make a [`Connection`] of it, in the same slot and with the same
//! state as if there had been one from the start.

use lineside_frame::Descriptor;
use lineside_wire::tcp::{TcpOption, TcpOptions};
use lineside_wire::{Direction, Ip, Layers, SeqNumber, TcpFlags, TcpHeader};

use crate::connection::incarnations::on_syn;
use crate::connection::sender::SEGMENT_DEFAULT_BYTES;
use crate::connection::{Connection, Key};
use crate::context::Context;
use crate::damage::Checksums;
use crate::deadlines::Deadline;
use crate::origin::{Origin, network_of};
use crate::sink::StreamSink;
use crate::stream::Segment;

/// RFC 7323 2.2: kind and length of the window scale.
const WINDOW_SCALE: [u8; 2] = [3, 3];
/// No slot.
const NONE: u32 = u32::MAX;
/// Stacks of tags and tunnels around SYNs that get a number; a connection in any other is a full
/// one from the start. A guess: VLANs of a trunk.
const LAYERS_MAX: usize = 64;

/// A connection of which one SYN was seen.
pub(crate) struct Opening {
    pub(crate) key: Key,
    first: Descriptor,
    at_ns: i64,
    /// Of the SYN's direction.
    network: Option<u32>,
    checksums: Checksums,
    sequence: SeqNumber,
    window: u16,
    flags: TcpFlags,
    header_len: u8,
    shift: Option<u8>,
    segment_max: u16,
    direction: Direction,
    layers: u8,
    /// The slots of the openings that came just before and after it.
    before: u32,
    after: u32,
}

impl Opening {
    /// What a SYN comes to, if it is one that can be taken once more; `checksums` and `layers` are
    /// still to be set.
    pub(crate) fn new(
        (key, direction): (Key, Direction),
        ip: &Ip,
        tcp: &TcpHeader,
        origin: &Origin<'_>,
        now: i64,
    ) -> Option<Self> {
        let first = *origin.descriptor();
        let is_plain = tcp.flags.opens()
            && !tcp.flags.contains(TcpFlags::ACK)
            && tcp.payload_len == 0
            && key.network.is_none()
            && first.stamp_ns.is_some();
        let Origin::Frame(_) = origin else {
            return None;
        };
        if !is_plain {
            return None;
        }
        let (mut shift, mut segment_max) = (None, SEGMENT_DEFAULT_BYTES);
        for option in TcpOptions::new(origin.tcp_options(ip, tcp)).flatten() {
            match option {
                TcpOption::WindowScale(by) => shift = Some(by),
                TcpOption::Mss(bytes) => segment_max = bytes,
                // No SYN has one, and it would have to be kept.
                TcpOption::Sack(_) => return None,
                _ => {}
            }
        }
        Some(Self {
            key,
            first,
            at_ns: now,
            network: network_of(ip),
            checksums: Checksums::default(),
            sequence: tcp.sequence,
            window: tcp.window,
            flags: tcp.flags,
            header_len: u8::try_from(tcp.header_len).ok()?,
            shift,
            segment_max,
            direction,
            layers: 0,
            before: NONE,
            after: NONE,
        })
    }

    /// The frame that began it.
    pub(crate) fn first(&self) -> &Descriptor {
        &self.first
    }

    /// What is known of the checksums of its direction.
    pub(crate) fn checksums(&mut self) -> &mut Checksums {
        &mut self.checksums
    }

    fn tcp(&self) -> TcpHeader {
        let tuple = match self.direction {
            Direction::Forward => self.key.tuple,
            Direction::Reverse => self.key.tuple.reversed(),
        };
        let [source, destination] = tuple.ends();
        let header_len = usize::from(self.header_len);
        TcpHeader {
            source_port: source.port,
            destination_port: destination.port,
            sequence: self.sequence,
            acknowledgement: SeqNumber(0),
            flags: self.flags,
            window: self.window,
            checksum: 0,
            header_len,
            payload: 0,
            payload_len: 0,
            captured_len: 0,
            checksum_offloaded: false,
        }
    }

    /// The connection in `slot` that its SYN began, at the time when that came.
    fn connection<S: StreamSink>(
        self,
        slot: usize,
        layers: &Layers,
        context: &mut Context<'_, S>,
    ) -> Box<Connection> {
        let (direction, tcp) = (self.direction, self.tcp());
        let origin = Origin::Known(&self.first, layers);
        let mut connection = Box::new(Connection::new(slot, self.key, &origin, self.at_ns));
        let window_ns = context.shared.config.duplicate_window_ns;
        connection.watched_until_ns = self.at_ns.saturating_add(window_ns);
        context.sink.on_open(slot, &connection);
        connection.checksums[direction] = self.checksums;
        connection.networks[direction] = self.network;
        connection.segments = 1;
        connection.roll_interval(&self.first, context);
        connection.add_packet(direction, 0, &self.first);
        connection.count_request(direction, &tcp);
        let segment = Segment {
            sequence: tcp.sequence + 1,
            acknowledgement: None,
            payload_len: 0,
            captured_len: 0,
            is_syn: true,
        };
        on_syn(&mut connection, direction, &segment, self.first.stamp_ns);
        let scale = self
            .shift
            .map(|shift| [WINDOW_SCALE[0], WINDOW_SCALE[1], shift]);
        let options = scale.as_ref().map_or(&[][..], |scale| &scale[..]);
        connection.account(direction, &tcp, options, self.first.stamp_ns, context);
        connection.senders[direction].announce(self.segment_max);
        connection.set_calm(context.shared);
        connection
    }
}

/// All openings, each in the slot that its connection will have, in the order in which they came.
pub(crate) struct Openings {
    slots: Vec<Option<Box<Opening>>>,
    oldest: u32,
    newest: u32,
    /// When the oldest is over; never, if there is none.
    deadline_ns: i64,
    layers: Vec<Layers>,
}

impl Default for Openings {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            oldest: NONE,
            newest: NONE,
            deadline_ns: i64::MAX,
            layers: Vec::new(),
        }
    }
}

impl Openings {
    /// The opening in a slot, if there is one.
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<&Opening> {
        self.slots.get(slot)?.as_deref()
    }

    /// The slot of the one that waits for longest.
    pub(crate) fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest as usize)
    }

    /// When that is over, and its slot.
    pub(crate) fn first_deadline(&self) -> Option<Deadline> {
        self.oldest().map(|slot| (self.deadline_ns, slot))
    }

    /// Whether one is over at `now`.
    #[inline]
    pub(crate) fn has_passed(&self, now: i64) -> bool {
        self.deadline_ns <= now
    }

    /// Notes the tags and tunnels around a SYN; false if too many others were seen.
    pub(crate) fn set_layers(&mut self, opening: &mut Opening, layers: &Layers) -> bool {
        let known = self.layers.iter().position(|known| known == layers);
        let place = known.or_else(|| {
            (self.layers.len() < LAYERS_MAX).then(|| {
                self.layers.push(*layers);
                self.layers.len() - 1
            })
        });
        opening.layers = place.unwrap_or(0) as u8;
        place.is_some()
    }

    /// Adds the newest one; each is over `timeout_ns` after it came.
    pub(crate) fn insert(&mut self, slot: usize, mut opening: Opening, timeout_ns: i64) {
        if self.slots.len() <= slot {
            grow(&mut self.slots, slot);
        }
        (opening.before, opening.after) = (self.newest, NONE);
        match self.newest {
            NONE => {
                self.oldest = slot as u32;
                self.deadline_ns = over_ns(&opening, timeout_ns);
            }
            newest => self.at(newest).after = slot as u32,
        }
        self.newest = slot as u32;
        self.slots[slot] = Some(Box::new(opening));
    }

    /// Takes the one in a slot, if there is one: the connection that it has begun.
    pub(crate) fn take<S: StreamSink>(
        &mut self,
        slot: usize,
        timeout_ns: i64,
        context: &mut Context<'_, S>,
    ) -> Option<Box<Connection>> {
        let opening = self.slots.get_mut(slot)?.take()?;
        let (before, after) = (opening.before, opening.after);
        match after {
            NONE => self.newest = before,
            after => self.at(after).before = before,
        }
        match before {
            NONE => {
                self.oldest = after;
                let oldest = self.get(after as usize);
                self.deadline_ns = oldest.map_or(i64::MAX, |oldest| over_ns(oldest, timeout_ns));
            }
            before => self.at(before).after = after,
        }
        let layers = self.layers[usize::from(opening.layers)];
        Some(opening.connection(slot, &layers, context))
    }

    fn at(&mut self, slot: u32) -> &mut Opening {
        self.slots[slot as usize]
            .as_deref_mut()
            .expect("neighbours in the list are there")
    }
}

fn over_ns(opening: &Opening, timeout_ns: i64) -> i64 {
    opening.at_ns.saturating_add(timeout_ns).saturating_add(1)
}

/// Makes room for `slot` in steps of an eighth: doubled, a large table would stand empty to a half.
pub(crate) fn grow<T>(slots: &mut Vec<Option<T>>, slot: usize) {
    if slots.capacity() <= slot {
        slots.reserve_exact(slot + 1 + slot / 8 + 16 - slots.len());
    }
    slots.resize_with(slot + 1, || None);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the slot, the tables and the lists beside it: see `OPENING_BYTES`.
    #[test]
    fn an_opening_is_small() {
        assert!(size_of::<Opening>() <= 168, "{}", size_of::<Opening>());
    }
}
