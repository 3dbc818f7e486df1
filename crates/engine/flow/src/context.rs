//! What the connections of an engine share, and what one of them is given while it takes a packet.

use lineside_account::{Budget, Claim, Counter, Counters, Lease};
use lineside_wire::Ip;

use crate::config::Config;
use crate::connection::{Connection, Stray, Transport};
use crate::cut::CutDatagrams;
use crate::duplicates::Duplicates;
use crate::origin::Origin;
use crate::sink::{StreamSink, Value};

/// A connection that both ends closed is kept for late packets only: Linux's TIME-WAIT, 60 s.
const ENDED_TIMEOUT_NS: i64 = 60_000_000_000;

/// What a connection needs of its engine while it takes a packet.
pub(crate) struct Context<'a, S> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) sink: &'a mut S,
    pub(crate) counters: &'a mut Counters,
}

impl<S: StreamSink> Context<'_, S> {
    /// As what a connection may draw: what one sends that nobody answers gives way.
    pub(crate) fn claim_of(&self, slot: usize) -> Claim {
        match self.sink.value(slot) {
            Value::Proven => Claim::Full,
            Value::Likely | Value::None => Claim::Spare,
        }
    }
}

impl<S> Context<'_, S> {
    /// Counts the bytes of stray segments that belong to nothing.
    pub(crate) fn discard(&mut self, strays: &[Stray]) {
        let bytes: usize = strays.iter().map(|stray| stray.segment.payload_len).sum();
        self.counters.add(Counter::StreamDiscarded, bytes as u64);
    }

    /// Whether a datagram came before, as a mirror's copy.
    pub(crate) fn has_datagram(
        &mut self,
        origin: &Origin<'_>,
        ip: &Ip,
        payload_len: usize,
    ) -> bool {
        let Shared {
            duplicates, now, ..
        } = &mut *self.shared;
        duplicates.has_datagram(*now, origin, ip, payload_len, self.counters)
    }
}

/// What all connections of an engine share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// The running maximum of the stamps.
    pub(crate) now: i64,
    pub(crate) budget: Budget,
    pub(crate) held: HeldMemory,
    pub(crate) holders: Holders,
    pub(crate) duplicates: Duplicates,
    pub(crate) cut: CutDatagrams,
}

impl Shared {
    pub(crate) fn new(config: Config, budget: &Budget) -> Self {
        Self {
            config,
            now: i64::MIN,
            budget: budget.clone(),
            held: HeldMemory::new(budget),
            holders: Holders::default(),
            duplicates: Duplicates::new(config.duplicate_window_ns, budget),
            cut: CutDatagrams::new(config.duplicate_window_ns, budget),
        }
    }

    /// So long a connection is kept of which only one end was seen.
    pub(crate) fn half_open_ns(&self) -> i64 {
        self.config.idle_timeout_ns.min(ENDED_TIMEOUT_NS)
    }

    /// When a connection has been without packets for so long that the next one belongs to another.
    /// Silence alone ends none over TCP: a mount may rest for days, and goes on with the next
    /// sequence number.
    pub(crate) fn over_ns(&self, connection: &Connection) -> i64 {
        let idle_ns = self.config.idle_timeout_ns;
        let timeout_ns = match connection.transport() {
            _ if connection.is_reset || connection.ended == [true; 2] => {
                idle_ns.min(ENDED_TIMEOUT_NS)
            }
            Transport::Tcp if connection.has_moved() => return i64::MAX,
            Transport::Tcp if connection.is_half_open() => self.half_open_ns(),
            _ => idle_ns,
        };
        { connection.last_ns }
            .saturating_add(timeout_ns)
            .saturating_add(1)
    }
}

/// What all streams hold, drawn on the budget in steps: under loss nearly every segment is held for
/// a moment, and all cores share the budget.
pub(crate) struct HeldMemory {
    lease: Lease,
    used: usize,
}

impl HeldMemory {
    /// Bytes drawn ahead: some ten segments.
    const STEP: usize = 16 << 10;

    fn new(budget: &Budget) -> Self {
        Self {
            lease: budget.lease(0).expect("nothing always fits"),
            used: 0,
        }
    }

    /// Takes `bytes`, or nothing if the budget has no room for them. Nothing of the reserve is
    /// drawn ahead, and [`Claim::Spare`] takes nothing that is drawn of it.
    pub(crate) fn draw(&mut self, claim: Claim, bytes: usize) -> bool {
        let used = self.used + bytes;
        let may_take = claim == Claim::Full || self.lease.budget().has_reserve();
        let fits = used <= self.lease.bytes() && may_take
            || used > self.lease.bytes()
                && (self.lease.resize_as(Claim::Spare, used + Self::STEP)
                    || self.lease.resize_as(claim, used));
        if fits {
            self.used = used;
        }
        fits
    }

    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.used -= bytes;
        if self.lease.bytes() > self.used + 2 * Self::STEP {
            self.trim(Self::STEP);
        }
    }

    /// Keeps `ahead` bytes beside those that are used.
    pub(crate) fn trim(&mut self, ahead: usize) {
        let bytes = self.lease.bytes().min(self.used + ahead);
        let fits = self.lease.resize(bytes);
        debug_assert!(fits, "less always fits");
    }
}

/// The slots of connections that may hold ranges.
#[derive(Default)]
pub(crate) struct Holders {
    /// Each slot once.
    slots: Vec<usize>,
    /// Whether a slot is among them.
    is_listed: Vec<bool>,
}

impl Holders {
    pub(crate) fn insert(&mut self, slot: usize) {
        if self.is_listed.len() <= slot {
            self.is_listed.resize(slot + 1, false);
        }
        if !std::mem::replace(&mut self.is_listed[slot], true) {
            self.slots.push(slot);
        }
    }

    /// Keeps the slots for which `keeps` is true. It must not be used by `keeps` itself.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(usize) -> bool) {
        let Self { slots, is_listed } = self;
        slots.retain(|&slot| {
            is_listed[slot] = keeps(slot);
            is_listed[slot]
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the step ahead does not fit any more, what is needed may.
    #[test]
    fn memory_is_drawn_to_the_last_byte_of_the_budget() {
        let budget = Budget::new(HeldMemory::STEP + 100);
        let mut held = HeldMemory::new(&budget);
        let mut draw = |bytes| held.draw(Claim::Full, bytes);
        assert!(draw(HeldMemory::STEP) && draw(100));
        assert!(!draw(1));
        held.give_back(100);
        assert!(held.draw(Claim::Full, 100));
    }

    #[test]
    fn what_gives_way_takes_nothing_drawn_of_the_reserve() {
        const RESERVE: usize = 4 * HeldMemory::STEP;
        let budget = Budget::new(8 * RESERVE);
        let mut held = HeldMemory::new(&budget);
        assert!(held.draw(Claim::Spare, 7 * RESERVE));
        for _ in 0..100 {
            assert!(held.draw(Claim::Full, RESERVE));
            held.give_back(HeldMemory::STEP);
            assert!(!held.draw(Claim::Spare, 1));
            held.give_back(RESERVE - HeldMemory::STEP);
            assert!(!held.draw(Claim::Spare, 1));
        }
    }
}
