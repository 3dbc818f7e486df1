//! A learning switch: IEEE 802.1D, 7.7 to 7.9, without spanning tree and VLANs.

use std::collections::{BTreeMap, HashMap};

use lineside_account::{Budget, Lease};
use lineside_frame::{FrameRef, LinkType};
use lineside_time::Nanoseconds;
use lineside_trace::certificate::link::{AddressReport, CorePort, CoreReport};
use lineside_wire::ethernet;

use crate::star::{Core, Ports};

/// Sends each frame to the port where its destination was last seen as a source; frames to unknown
/// addresses and to groups go to all other ports.
///
/// ```text
///  newest ─► [address, port, seen] ⇄ [..] ⇄ [..] ◄─ oldest: ages first, goes first for want of room
///               ▲ places: address ─► entry
/// ```
///
/// Addresses are known by themselves, whatever VLAN tag is beside them. Frames to the addresses
/// that IEEE 802.1D, 7.12.6 reserves for a link's two ends (spanning tree, LACP, LLDP, pause) go
/// nowhere.
pub struct Switch {
    /// Those that are not gone.
    ports: Ports,
    age_ns: Nanoseconds,
    /// The latest instant: an entry is never older than the ones behind it.
    now_ns: Nanoseconds,
    table: Table,
    counts: Counts,
    by_port: Vec<CorePort>,
    _lease: Lease,
}

#[derive(Default)]
struct Counts {
    came: u64,
    forwarded: u64,
    flooded: u64,
    copies: u64,
    learned: u64,
    moved: u64,
    aged: u64,
    displaced: u64,
    dropped: [u64; Reason::ALL.len()],
}

/// Why a frame goes nowhere.
#[derive(Clone, Copy)]
enum Reason {
    /// Its destination is at the port by which it came.
    SamePort,
    /// Its destination is reserved.
    Reserved,
    /// It is no Ethernet frame, or its source is a group.
    Malformed,
    /// No other port is left.
    NoPort,
}

impl Reason {
    const ALL: [(Self, &'static str); 4] = [
        (Self::SamePort, "same_port"),
        (Self::Reserved, "reserved"),
        (Self::Malformed, "malformed"),
        (Self::NoPort, "no_port"),
    ];
}

impl Switch {
    /// IEEE 802.1D, table 7-5: the recommended ageing time.
    pub const AGE_NS: Nanoseconds = 300_000_000_000;

    /// As many as a small switch has.
    pub const ADDRESSES_MAX: usize = 8192;

    /// A switch of this many ports that forgets an address `age_ns` after its latest frame; the
    /// table has room for `addresses_max`, at least 1, which is drawn on `budget`. `None` if it has
    /// not so much.
    pub fn new(
        ports: usize,
        age_ns: Nanoseconds,
        addresses_max: usize,
        budget: &Budget,
    ) -> Option<Self> {
        let addresses_max = addresses_max.max(1);
        let lease = budget.lease(Table::memory_bytes(addresses_max))?;
        Some(Self {
            ports: Ports::first(ports),
            age_ns,
            now_ns: Nanoseconds::MIN,
            table: Table::new(addresses_max),
            counts: Counts::default(),
            by_port: vec![CorePort::default(); ports],
            _lease: lease,
        })
    }

    /// Forgets what has aged.
    fn age(&mut self) {
        while let Some(oldest) = self.table.oldest()
            && self.now_ns.saturating_sub(oldest.seen_ns) >= self.age_ns
        {
            self.counts.aged += 1;
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(entry) = self.table.remove_oldest() {
            self.by_port[usize::from(entry.port)].addresses -= 1;
        }
    }

    /// `source` is at `port`.
    fn learn(&mut self, source: Address, port: usize) {
        if let Some(before) = self.table.see(source, port as u8, self.now_ns) {
            if usize::from(before) != port {
                self.counts.moved += 1;
                self.by_port[usize::from(before)].addresses -= 1;
                self.by_port[port].addresses += 1;
            }
            return;
        }
        if self.table.is_full() {
            self.counts.displaced += 1;
            self.forget_oldest();
        }
        self.table.insert(source, port as u8, self.now_ns);
        self.counts.learned += 1;
        self.by_port[port].addresses += 1;
    }

    fn refuse(&mut self, why: Reason) -> Ports {
        self.counts.dropped[why as usize] += 1;
        Ports::default()
    }
}

impl Core for Switch {
    fn always(&self, _: usize) -> Option<usize> {
        None
    }

    fn on_frame(&mut self, now: Nanoseconds, port: usize, frame: &FrameRef) -> Ports {
        self.now_ns = self.now_ns.max(now);
        self.counts.came += 1;
        self.by_port[port].came += 1;
        let is_ethernet = frame.descriptor().link_type == LinkType::ETHERNET;
        let header = ethernet::Frame::new_checked(frame.bytes()).filter(|_| is_ethernet);
        let Some(header) = header else {
            return self.refuse(Reason::Malformed);
        };
        let (source, destination) = (Address(header.source()), Address(header.destination()));
        if source.is_group() || source.0 == [0; 6] {
            return self.refuse(Reason::Malformed);
        }
        if destination.is_reserved() {
            return self.refuse(Reason::Reserved);
        }
        self.age();
        self.learn(source, port);
        let known = match destination.is_group() {
            true => None,
            false => self.table.port_of(destination),
        };
        let to = match known {
            Some(known) if usize::from(known) == port => return self.refuse(Reason::SamePort),
            Some(known) => {
                self.counts.forwarded += 1;
                Ports::one(usize::from(known))
            }
            None => {
                let others = self.ports.without(port);
                if others.is_empty() {
                    return self.refuse(Reason::NoPort);
                }
                self.counts.flooded += 1;
                self.counts.copies += others.count() as u64 - 1;
                others
            }
        };
        to.for_each(|port| self.by_port[port].left += 1);
        to
    }

    fn on_port_gone(&mut self, port: usize) {
        self.ports = self.ports.without(port);
        self.by_port[port].is_gone = true;
        self.by_port[port].addresses = 0;
        // Their frames are flooded, so that they are found where they come back.
        self.table.remove_port(port as u8);
    }

    fn report(&self) -> Option<CoreReport> {
        let counts = &self.counts;
        let dropped = Reason::ALL.map(|(why, name)| (name.into(), counts.dropped[why as usize]));
        Some(CoreReport {
            kind: "switch".into(),
            came: counts.came,
            forwarded: counts.forwarded,
            flooded: counts.flooded,
            copies: counts.copies,
            dropped: BTreeMap::from(dropped),
            addresses: AddressReport {
                known: self.table.places.len() as u64,
                known_max: self.table.max as u64,
                age_ns: self.age_ns,
                learned: counts.learned,
                moved: counts.moved,
                aged: counts.aged,
                displaced: counts.displaced,
            },
            ports: self.by_port.clone(),
        })
    }
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = self.table.places.len();
        write!(
            f,
            "a switch of {} ports that knows {known} addresses",
            self.by_port.len()
        )
    }
}

/// The address of an adapter, or of a group of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Address([u8; 6]);

impl Address {
    /// IEEE 802, 8.2: the first bit on the wire.
    fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// 01-80-c2-00-00-00 to 01-80-c2-00-00-0f: IEEE 802.1D, table 7-10.
    fn is_reserved(self) -> bool {
        matches!(self.0, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
    }
}

/// Addresses in the order in which they were seen last. It allocates nothing once it is made.
struct Table {
    entries: Vec<Entry>,
    places: HashMap<Address, u32>,
    max: usize,
    newest: u32,
    oldest: u32,
    /// Entries out of use, linked by `older`.
    free: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    address: Address,
    port: u8,
    seen_ns: Nanoseconds,
    newer: u32,
    older: u32,
}

/// No entry.
const NONE: u32 = u32::MAX;

impl Table {
    fn memory_bytes(max: usize) -> usize {
        // Tables of hashes have a power of two of places, at least 8 for 7 entries, and a byte each
        // beside it.
        let places = (2 * max * 8 / 7).next_power_of_two();
        max * size_of::<Entry>() + places * (size_of::<(Address, u32)>() + 1)
    }

    fn new(max: usize) -> Self {
        Self {
            entries: Vec::with_capacity(max),
            // As long as no more than half of it is used, it is cleaned where it is instead of
            // growing.
            places: HashMap::with_capacity(2 * max),
            max,
            newest: NONE,
            oldest: NONE,
            free: NONE,
        }
    }

    fn is_full(&self) -> bool {
        self.places.len() == self.max
    }

    fn port_of(&self, address: Address) -> Option<u8> {
        let place = self.places.get(&address)?;
        Some(self.entries[*place as usize].port)
    }

    fn oldest(&self) -> Option<&Entry> {
        self.entries.get(self.oldest as usize)
    }

    /// A known address is seen at a port; returns the one at which it was before.
    fn see(&mut self, address: Address, port: u8, now: Nanoseconds) -> Option<u8> {
        let at = *self.places.get(&address)?;
        let entry = &mut self.entries[at as usize];
        let before = std::mem::replace(&mut entry.port, port);
        entry.seen_ns = now;
        if self.newest != at {
            self.unlink(at);
            self.link_newest(at);
        }
        Some(before)
    }

    /// An address that is not known is; there has to be room.
    fn insert(&mut self, address: Address, port: u8, now: Nanoseconds) {
        let entry = Entry {
            address,
            port,
            seen_ns: now,
            newer: NONE,
            older: NONE,
        };
        let at = match self.free {
            NONE => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
            at => {
                self.free = self.entries[at as usize].older;
                self.entries[at as usize] = entry;
                at
            }
        };
        self.places.insert(address, at);
        self.link_newest(at);
    }

    fn remove_oldest(&mut self) -> Option<Entry> {
        let entry = *self.oldest()?;
        self.remove(self.oldest);
        Some(entry)
    }

    fn remove_port(&mut self, port: u8) {
        let mut at = self.newest;
        while let Some(&entry) = self.entries.get(at as usize) {
            if entry.port == port {
                self.remove(at);
            }
            at = entry.older;
        }
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let entry = &mut self.entries[at as usize];
        self.places.remove(&entry.address);
        entry.older = std::mem::replace(&mut self.free, at);
    }

    fn link_newest(&mut self, at: u32) {
        let before = std::mem::replace(&mut self.newest, at);
        let entry = &mut self.entries[at as usize];
        (entry.newer, entry.older) = (NONE, before);
        match self.entries.get_mut(before as usize) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Entry { newer, older, .. } = self.entries[at as usize];
        match self.entries.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame};
    use lineside_time::Random;

    use super::*;

    const S: i64 = 1_000_000_000;

    fn address(number: u8) -> [u8; 6] {
        [2, 0, 0, 0, 0, number]
    }

    fn frame(source: [u8; 6], destination: [u8; 6]) -> Frame {
        let mut bytes = [&destination[..], &source, &[0x88, 0xb5]].concat();
        bytes.resize(60, 0);
        let descriptor = Descriptor {
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        Frame::copied(&bytes, descriptor)
    }

    fn switch(ports: usize, age_ns: i64, addresses_max: usize) -> Switch {
        let switch = Switch::new(ports, age_ns, addresses_max, &Budget::new(1 << 20));
        switch.expect("it fits")
    }

    fn to(switch: &mut Switch, now: i64, port: usize, frame: &Frame) -> Vec<usize> {
        switch.on_frame(now, port, frame).collect()
    }

    #[test]
    fn a_switch_learns_ages_floods_and_filters() {
        let mut switch = switch(4, 300 * S, 100);
        let (one, two) = (address(1), address(2));
        assert_eq!(to(&mut switch, 0, 0, &frame(one, two)), [1, 2, 3]);
        assert_eq!(to(&mut switch, S, 2, &frame(two, one)), [0]);
        assert_eq!(to(&mut switch, 2 * S, 0, &frame(one, two)), [2]);
        assert_eq!(to(&mut switch, 2 * S, 2, &frame(address(3), two)), [0; 0]);
        for group in [[0xff; 6], [0x33, 0x33, 0, 0, 0, 1], [1, 0, 0x5e, 0, 0, 1]] {
            assert_eq!(
                to(&mut switch, 3 * S, 1, &frame(address(4), group)),
                [0, 2, 3]
            );
        }
        let reserved = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
        assert_eq!(
            to(&mut switch, 3 * S, 1, &frame(address(4), reserved)),
            [0; 0]
        );
        for wrong in [[0; 6], [0x33, 0x33, 0, 0, 0, 1]] {
            assert_eq!(to(&mut switch, 3 * S, 1, &frame(wrong, one)), [0; 0]);
        }
        let short = Frame::copied(&[0; 13], *frame(one, two).descriptor());
        assert_eq!(to(&mut switch, 3 * S, 1, &short), [0; 0]);
        // Another port.
        assert_eq!(to(&mut switch, 4 * S, 3, &frame(two, one)), [0]);
        assert_eq!(to(&mut switch, 5 * S, 0, &frame(one, two)), [3]);
        // Seen last at 4 s: known for 300 s, and not a nanosecond longer.
        assert_eq!(to(&mut switch, 304 * S - 1, 0, &frame(one, two)), [3]);
        assert_eq!(to(&mut switch, 304 * S, 0, &frame(one, two)), [1, 2, 3]);
        switch.on_port_gone(2);
        assert_eq!(to(&mut switch, 304 * S, 0, &frame(one, two)), [1, 3]);
        let report = switch.report().expect("it counts");
        let dropped: u64 = report.dropped.values().sum();
        assert_eq!(
            (
                report.dropped["same_port"],
                report.dropped["reserved"],
                report.dropped["malformed"]
            ),
            (1, 1, 3)
        );
        assert_eq!(report.came, report.forwarded + report.flooded + dropped);
        let left: u64 = report.ports.iter().map(|port| port.left).sum();
        assert_eq!(report.came + report.copies, left + dropped);
        assert_eq!((report.addresses.moved, report.addresses.aged), (1, 3));
        assert!(report.ports[2].is_gone);
    }

    /// The same in the plainest way: all that is known, in a list.
    struct Model {
        ports: usize,
        known: Vec<([u8; 6], usize, i64)>,
        age_ns: i64,
        max: usize,
        displaced: u64,
        aged: u64,
    }

    impl Model {
        fn on_frame(&mut self, now: i64, port: usize, [from, to]: [[u8; 6]; 2]) -> Vec<usize> {
            let before = self.known.len();
            self.known
                .retain(|(_, _, seen_ns)| now - seen_ns < self.age_ns);
            self.aged += (before - self.known.len()) as u64;
            let before = self.known.len();
            self.known.retain(|(address, ..)| *address != from);
            if before == self.known.len() && before == self.max {
                // The list is in the order in which they were seen.
                self.known.remove(0);
                self.displaced += 1;
            }
            self.known.push((from, port, now));
            let place = self.known.iter().find(|(address, ..)| *address == to);
            match place {
                Some(&(_, there, _)) if there == port => Vec::new(),
                Some(&(_, there, _)) => vec![there],
                None => (0..self.ports).filter(|other| *other != port).collect(),
            }
        }
    }

    #[test]
    fn a_switch_is_its_model_on_random_frames() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let mut below = |bound: usize| random.below(bound as u64) as usize;
            let (ports, max, hosts) = (3 + below(6), 1 + below(12), 2 + below(20));
            let age_ns = 1 + below(60) as i64;
            let mut switch = switch(ports, age_ns, max);
            let mut model = Model {
                ports,
                known: Vec::new(),
                age_ns,
                max,
                displaced: 0,
                aged: 0,
            };
            let mut now = 0;
            for step in 0..3_000 {
                now += below(4) as i64;
                let port = below(ports);
                let [from, to] = [below(hosts), below(hosts)].map(|host| address(host as u8));
                let found = switch.on_frame(now, port, &frame(from, to));
                assert!(!found.holds(port), "not back to its own port");
                let expected = model.on_frame(now, port, [from, to]);
                let found: Vec<_> = found.collect();
                assert_eq!(found, expected, "seed {seed}, step {step}");
                let report = switch.report().expect("it counts");
                let addresses = report.addresses;
                let by_port: u64 = report.ports.iter().map(|port| port.addresses).sum();
                assert_eq!(addresses.known, model.known.len() as u64, "seed {seed}");
                assert_eq!((by_port, addresses.aged), (addresses.known, model.aged));
                assert_eq!(addresses.displaced, model.displaced, "seed {seed}");
                let forgotten = addresses.aged + addresses.displaced;
                assert_eq!(addresses.learned, addresses.known + forgotten);
            }
        }
    }

    #[test]
    fn a_table_neither_grows_nor_costs_more_than_was_drawn() {
        let budget = Budget::new(1 << 20);
        let mut switch = Switch::new(3, 300 * S, 100, &budget).expect("it fits");
        let (places, entries) = (
            switch.table.places.capacity(),
            switch.table.entries.capacity(),
        );
        for number in 0..100_000_u32 {
            let [a, b, c, d] = number.to_be_bytes();
            switch.on_frame(number.into(), 0, &frame([2, 0, a, b, c, d], address(1)));
        }
        // Places of what was removed count as taken until they are cleaned.
        assert!(switch.table.places.capacity() <= places);
        assert_eq!(switch.table.entries.capacity(), entries);
        let least = entries * size_of::<Entry>() + places * (size_of::<(Address, u32)>() + 1);
        assert!(
            budget.used_bytes() >= least,
            "{} {least}",
            budget.used_bytes()
        );
        assert!(Switch::new(3, 300 * S, 1 << 20, &budget).is_none());
        drop(switch);
        assert_eq!(budget.used_bytes(), 0);
    }
}
