//! IPv4 fragments (RFC 791 3.2) and IPv6 fragments (RFC 8200 4.5), bounded in bytes and time.

use std::collections::VecDeque;
use std::ops;

use hashbrown::HashMap;
use lineside_account::{Budget, Claim, Counter, Counters};
use lineside_frame::{Cause, Chunk, FrameRef, Range};
use lineside_wire::{Dissected, Fragment, FragmentKey, HeaderChecksum, Ip, Layers};

use crate::config::Config;
use crate::duplicates::Duplicates;
use crate::origin::Origin;
use crate::taken::count_checksums;
use crate::whole::{HEADERS_MAX, Whole, count_whole};

/// An IP packet's payload cannot be longer (RFC 791 3.1).
const PAYLOAD_MAX: usize = 65_535;
/// A fragment that comes again within this time is a copy, even if its packet is complete: taken
/// for the beginning of another packet it would wait in vain. A guess: paths that copy packets
/// differ by milliseconds, and no sender repeats an identification so soon. Not longer, since hosts
/// with the same addresses may send the same in another virtual network.
const COPY_WINDOW_NS: i64 = 4_000_000;
/// Memory that a fragment takes beside its bytes, in a list that doubles.
const PART_BYTES: usize = 2 * size_of::<(usize, Range)>();
/// Memory that the first one takes: a list of four, an entry, the allocator's own, and a place in a
/// table that doubles before it is full.
const ENTRY_BYTES: usize =
    2 * PART_BYTES + size_of::<Entry>() + 32 + 4 * size_of::<(Key, Box<Entry>)>();
/// Completed packets that may stay in the queue of the waiting ones before it is swept.
const ORDER_SLACK: usize = 64;

/// Draws memory for fragments, which hold so much already. They do not show whose they are: half of
/// the reserve is for any of them, so that a flood of something else costs no datagram, and one of
/// fragments not all of it.
fn draw(budget: &Budget, held_bytes: usize, more: usize) -> bool {
    let claim = match held_bytes + more <= budget.reserve_bytes() / 2 {
        true => Claim::Full,
        false => Claim::Spare,
    };
    budget.draw_as(claim, more)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    packet: FragmentKey,
    virtual_network: Option<u32>,
}

struct Entry {
    ip: Ip,
    /// Tags and tunnels around the fragment that came first.
    layers: Layers,
    parts: Vec<(usize, Range)>,
    /// Length of the whole payload, once the last fragment came.
    total: Option<usize>,
    since_ns: i64,
    serial: u64,
    bytes: usize,
    /// A snap length cut a part, of which a longer copy may come.
    is_cut: bool,
}

/// A fragment and where it lies.
struct Part<'a> {
    ip: &'a Ip,
    fragment: &'a Fragment,
    chunks: &'a [Chunk<'a>],
    origin: &'a Origin<'a>,
}

impl Part<'_> {
    /// Where it ends in the payload of its packet.
    fn end(&self) -> usize {
        self.fragment.offset + self.ip.payload_len
    }

    /// A length that is no multiple of 8 before the last one was refused by the dissector.
    fn is_malformed(&self) -> bool {
        self.end() > PAYLOAD_MAX || self.ip.payload_len == 0
    }

    fn key(&self) -> Key {
        Key {
            packet: self.fragment.key([self.ip.source, self.ip.destination]),
            virtual_network: self.ip.virtual_network,
        }
    }
}

impl Entry {
    fn new(part: &Part<'_>, now: i64, serial: u64) -> Self {
        Self {
            ip: Ip {
                protocol: part.fragment.protocol,
                ..*part.ip
            },
            layers: part.origin.layers(),
            parts: Vec::new(),
            total: None,
            since_ns: now,
            serial,
            bytes: 0,
            is_cut: false,
        }
    }

    /// Takes a fragment that overlaps none of those that it has.
    fn insert(&mut self, part: &Part<'_>) {
        if !part.fragment.more {
            self.total = Some(part.end());
        }
        let mut offset = part.fragment.offset;
        let at = self.parts.partition_point(|&(before, _)| before < offset);
        let chunks = part.chunks.iter().filter(|chunk| !chunk.is_empty());
        for (place, chunk) in chunks.enumerate() {
            self.parts.insert(at + place, (offset, chunk.hold()));
            offset += chunk.len();
        }
        // What was put together from fragments has waited.
        let is_frame = matches!(part.origin, Origin::Frame(_));
        self.is_cut |= is_frame && part.chunks.iter().any(is_hole);
    }

    /// Of a fragment that the snap length cut a copy has come: the places of its bytes and its hole
    /// among the parts, and by how many bytes the copy is longer, if it is.
    fn longer(&self, copy: &Part<'_>) -> Option<(ops::Range<usize>, usize)> {
        let place = |offset| self.parts.partition_point(|&(before, _)| before < offset);
        let places = place(copy.fragment.offset)..place(copy.end());
        let parts = &self.parts[places.clone()];
        let ((begin, first), (last, hole)) = (parts.first()?, parts.last()?);
        let captured = copy.chunks.first()?.bytes();
        let more = captured.len().checked_sub(first.bytes().len())?;
        let is_cut_there = parts.len() <= 2
            && *begin == copy.fragment.offset
            && last + hole.len() == copy.end()
            && hole.missing() == Some(Cause::SnapLength);
        let is_longer = more > 0 && captured.starts_with(first.bytes());
        (is_cut_there && is_longer).then_some((places, more))
    }

    /// The copy takes the place of these parts. Stamp and frame stay those of the first.
    fn replace(&mut self, places: ops::Range<usize>, copy: &Part<'_>) {
        let descriptor = self.parts[places.start].1.descriptor;
        let (mut offset, mut longer) = (copy.fragment.offset, Vec::new());
        for chunk in copy.chunks.iter().filter(|chunk| !chunk.is_empty()) {
            let mut range = chunk.hold();
            range.descriptor = descriptor;
            longer.push((offset, range));
            offset += chunk.len();
        }
        self.parts.splice(places, longer);
        self.is_cut = self.parts.iter().any(|(_, range)| is_hole(&range.chunk()));
    }

    fn is_whole(&self) -> bool {
        let present: usize = self.parts.iter().map(|(_, range)| range.len()).sum();
        self.total == Some(present)
    }
}

fn is_hole(chunk: &Chunk<'_>) -> bool {
    !chunk.is_empty() && chunk.missing().is_some()
}

/// Fragmented packets that wait for further fragments. An [`Engine`](crate::Engine) has its own;
/// where several engines share the work, one of these stands before them, so that each packet
/// reaches the engine of its connection.
pub struct Fragments {
    timeout_ns: i64,
    held_max_bytes: usize,
    held_bytes: usize,
    budget: Budget,
    duplicates: Duplicates,
    /// In a box each: the table is up to four times as large as what is in it.
    entries: HashMap<Key, Box<Entry>>,
    /// Entries in the order they began; a serial shows whether an entry is still the same.
    order: VecDeque<(Key, u64)>,
    serial: u64,
    /// Whole entries with cut parts, and until when these wait for longer copies.
    cut: VecDeque<(i64, Key, u64)>,
    cut_window_ns: i64,
    done: VecDeque<Whole>,
}

impl Fragments {
    /// Within the bounds that `config` sets for fragments, drawn on `budget`.
    pub fn new(config: &Config, budget: &Budget) -> Self {
        let window_ns = match config.duplicate_window_ns {
            0 => 0,
            window_ns => window_ns.max(COPY_WINDOW_NS),
        };
        Self {
            timeout_ns: config.fragment_timeout_ns,
            held_max_bytes: config.fragments_held_max_bytes,
            held_bytes: 0,
            budget: budget.clone(),
            duplicates: Duplicates::new(window_ns, budget),
            entries: HashMap::new(),
            order: VecDeque::new(),
            serial: 0,
            cut: VecDeque::new(),
            cut_window_ns: config.duplicate_window_ns,
            done: VecDeque::new(),
        }
    }

    /// True if no packet waits for its rest, or to be taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.done.is_empty()
    }

    /// Takes a fragment; returns the outcome of its frame. Packets that it completes, or that had
    /// to make room, come out of [`Fragments::done`].
    pub fn on_fragment(
        &mut self,
        now: i64,
        ip: &Ip,
        fragment: &Fragment,
        frame: &FrameRef,
        counters: &mut Counters,
    ) -> Counter {
        let origin = Origin::Frame(frame);
        let descriptor = frame.descriptor();
        let captured = frame.bytes().len().saturating_sub(ip.payload);
        let captured = ip.payload_len.min(captured);
        let chunks = [
            Chunk::of_frame(frame, ip.payload.min(frame.bytes().len()), captured),
            Chunk::hole(ip.payload_len - captured, Cause::SnapLength, descriptor),
        ];
        let part = Part {
            ip,
            fragment,
            chunks: &chunks,
            origin: &origin,
        };
        if self.duplicates.has_fragment(now, &origin, ip, counters) {
            self.lengthen(&part);
            return Counter::FramesDuplicate;
        }
        self.take(now, &part, counters)
    }

    /// Of what the snap length cut from a fragment that waits, a copy may have more.
    fn lengthen(&mut self, copy: &Part<'_>) {
        let key = copy.key();
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let Some((places, more)) = entry.longer(copy) else {
            return;
        };
        if !draw(&self.budget, self.held_bytes, more) {
            return;
        }
        entry.replace(places, copy);
        entry.bytes += more;
        self.held_bytes += more;
        if entry.is_whole() && !entry.is_cut {
            self.complete(&key);
        }
    }

    fn take(&mut self, now: i64, part: &Part<'_>, counters: &mut Counters) -> Counter {
        counters.count(Counter::FragmentsHeld);
        count_checksums(part.ip, false, counters);
        if part.is_malformed() {
            return Counter::MalformedFragment;
        }
        let key = part.key();
        if let Some(entry) = self.entries.get(&key) {
            match overlap(entry, part.fragment, part.end(), part.chunks) {
                Overlap::None => {}
                Overlap::Same => return Counter::FramesFragment,
                // The identification came round again: another packet has begun.
                Overlap::Different => self.complete(&key),
            }
        }
        self.sweep_order();
        let entry = self.entries.entry(key).or_insert_with(|| {
            self.serial += 1;
            self.order.push_back((key, self.serial));
            Box::new(Entry::new(part, now, self.serial))
        });
        let own = match entry.parts.is_empty() {
            true => ENTRY_BYTES,
            false => PART_BYTES,
        };
        let cost = own + part.chunks.iter().map(Chunk::len).sum::<usize>();
        entry.insert(part);
        let (is_whole, is_cut, serial) = (entry.is_whole(), entry.is_cut, entry.serial);
        let fits = draw(&self.budget, self.held_bytes, cost);
        if fits {
            entry.bytes += cost;
            self.held_bytes += cost;
        }
        if is_whole && !(is_cut && fits && self.cut_window_ns > 0) {
            self.complete(&key);
        } else if is_whole {
            let until_ns = now.saturating_add(self.cut_window_ns);
            self.cut.push_back((until_ns, key, serial));
        } else if !fits {
            counters.count(Counter::FragmentsLimit);
            self.complete(&key);
        }
        self.make_room(counters);
        Counter::FramesFragment
    }

    /// One packet that waits keeps those after it in the queue, also when they are complete: takes
    /// these out if they are many.
    fn sweep_order(&mut self) {
        if self.order.len() > 2 * self.entries.len() + ORDER_SLACK {
            let entries = &self.entries;
            self.order.retain(|(key, serial)| {
                entries
                    .get(key)
                    .is_some_and(|entry| entry.serial == *serial)
            });
        }
    }

    /// Completes the oldest packets while more is held than may be.
    fn make_room(&mut self, counters: &mut Counters) {
        while self.held_bytes > self.held_max_bytes
            && let Some((oldest, serial)) = self.order.pop_front()
        {
            if self.is_same(&oldest, serial) {
                counters.count(Counter::FragmentsLimit);
                self.complete(&oldest);
            }
        }
    }

    /// A packet that is ready to be delivered. One that is in a tunnel and a fragment of another
    /// itself waits for the rest of that.
    pub fn done(&mut self, now: i64, counters: &mut Counters) -> Option<Whole> {
        loop {
            let whole = self.done.pop_front()?;
            let (ip, fragment) = match whole.dissected() {
                // Where a hole cuts the header in its options, the payload's start is unknown.
                Some(Dissected::Fragment(ip, fragment))
                    if ip.checksum != HeaderChecksum::Unknown =>
                {
                    (ip, fragment)
                }
                _ => return Some(whole),
            };
            count_whole(&whole, counters);
            let chunks = whole.chunks(ip.payload, ip.payload_len);
            let part = Part {
                ip: &ip,
                fragment: &fragment,
                chunks: &chunks,
                origin: &Origin::Whole(&whole),
            };
            self.take(now, &part, counters);
        }
    }

    /// A packet that is ready, or that waited for too long; at the end, any.
    pub fn overdue(&mut self, now: i64, at_end: bool, counters: &mut Counters) -> Option<Whole> {
        if at_end {
            self.duplicates.clear();
        }
        loop {
            if let Some(whole) = self.done(now, counters) {
                return Some(whole);
            }
            if let Some((_, key, serial)) = self.cut.pop_front_if(|cut| cut.0 < now || at_end) {
                if self.is_same(&key, serial) {
                    self.complete(&key);
                }
                continue;
            }
            let &(key, serial) = self.order.front()?;
            match self.entries.get(&key) {
                Some(entry) if entry.serial == serial => {
                    if now.saturating_sub(entry.since_ns) <= self.timeout_ns && !at_end {
                        return None;
                    }
                    self.complete(&key);
                }
                _ => {}
            }
            self.order.pop_front();
        }
    }

    /// Copies everything held out of its blocks; returns how many ranges that were.
    pub fn spill(&mut self) -> usize {
        let parts = self.entries.values_mut().flat_map(|entry| &mut entry.parts);
        parts.map(|(_, range)| usize::from(range.spill())).sum()
    }

    /// Whether the entry with this key is still the one with this serial.
    fn is_same(&self, key: &Key, serial: u64) -> bool {
        let entry = self.entries.get(key);
        entry.is_some_and(|entry| entry.serial == serial)
    }

    fn complete(&mut self, key: &Key) {
        let Some(entry) = self.entries.remove(key) else {
            return;
        };
        self.held_bytes -= entry.bytes;
        self.budget.give_back(entry.bytes);
        let mut ranges = Vec::with_capacity(entry.parts.len());
        let (mut at, mut complete) = (0, entry.total.is_some());
        for (offset, range) in entry.parts {
            if offset > at {
                complete = false;
                ranges.push(Range::hole(offset - at, Cause::NotSeen, range.descriptor));
            }
            at = offset + range.len();
            ranges.push(range);
        }
        self.done.push_back(Whole {
            ip: entry.ip,
            layers: entry.layers,
            head: head(&ranges),
            ranges,
            complete,
        });
    }
}

fn head(ranges: &[Range]) -> Vec<u8> {
    let mut head = Vec::new();
    if ranges
        .first()
        .is_some_and(|first| first.len() < HEADERS_MAX)
    {
        for range in ranges.iter().take_while(|range| range.missing().is_none()) {
            let len = range.len().min(HEADERS_MAX - head.len());
            head.extend_from_slice(&range.bytes()[..len]);
        }
    }
    head
}

enum Overlap {
    None,
    Same,
    Different,
}

fn overlap(entry: &Entry, fragment: &Fragment, end: usize, chunks: &[Chunk<'_>]) -> Overlap {
    if entry
        .total
        .is_some_and(|total| end > total || (!fragment.more && end != total))
    {
        return Overlap::Different;
    }
    let mut touching = entry
        .parts
        .iter()
        .filter(|(offset, part)| *offset < end && offset + part.len() > fragment.offset)
        .peekable();
    if touching.peek().is_none() {
        let beyond = |(offset, part): &(usize, Range)| offset + part.len() > end;
        return match entry.parts.last() {
            Some(last) if !fragment.more && beyond(last) => Overlap::Different,
            _ => Overlap::None,
        };
    }
    let mut at = fragment.offset;
    let is_same = |((offset, part), chunk): (&(usize, Range), &Chunk<'_>)| {
        let is_there = *offset == at;
        at += chunk.len();
        is_there && part.bytes() == chunk.bytes()
    };
    match touching.zip(chunks).all(is_same) {
        true => Overlap::Same,
        false => Overlap::Different,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use lineside_frame::{Descriptor, Frame};
    use lineside_wire::build::FrameBuilder;

    use super::*;

    #[test]
    fn complete_packets_do_not_stay_queued_after_one_that_waits() {
        let config = Config {
            fragment_timeout_ns: 1_000_000,
            ..Config::default()
        };
        let mut fragments = Fragments::new(&config, &Budget::new(1 << 20));
        assert!(!see(&mut fragments, 0, 0, 1));
        assert!((1..5000).all(|identification| see(&mut fragments, 0, identification, 2)));
        assert!(fragments.order.len() <= ORDER_SLACK + 4);
    }

    /// Sees the first fragments of a packet of two; whether a packet came out.
    fn see(fragments: &mut Fragments, source: u32, identification: u32, count: usize) -> bool {
        let builder = FrameBuilder::new(IpAddr::V4(source.into()), [10, 0, 0, 2].into())
            .with_identification(identification);
        for frame in builder.fragments(17, &[0; 100], 56).iter().take(count) {
            let frame = Frame::copied(frame, Descriptor::default()).share();
            let Dissected::Fragment(ip, fragment) =
                lineside_wire::dissect(1, frame.bytes(), frame.bytes().len())
            else {
                panic!("a fragment");
            };
            fragments.on_fragment(0, &ip, &fragment, &frame, &mut Counters::new());
        }
        fragments.done(0, &mut Counters::new()).is_some()
    }

    /// A flood: the table grows beyond what is in it at any time, since what went leaves marks.
    #[test]
    fn what_waits_takes_no_more_than_was_drawn() {
        let mut fragments = Fragments::new(&Config::default(), &Budget::new(1 << 30));
        for flow in 0..300_000_u32 {
            see(&mut fragments, flow, flow, 1);
            if flow % 1000 == 0 {
                let table = fragments.entries.allocation_size();
                let list = 4 * size_of::<(usize, Range)>() + 16;
                let each = size_of::<Entry>() + 16 + list + 56;
                let taken = table + fragments.entries.len() * each;
                let slack = 4096;
                assert!(
                    taken <= fragments.held_bytes + slack,
                    "{flow}: {taken} of {}",
                    fragments.held_bytes
                );
            }
        }
        assert_eq!(
            fragments.held_bytes,
            fragments
                .entries
                .values()
                .map(|entry| entry.bytes)
                .sum::<usize>()
        );
    }
}
