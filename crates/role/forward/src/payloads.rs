//! Where payloads lie between arrival and departure, by the policy of `lineside-payload`.
//!
//! ```text
//!  adapter's memory (UMEM, packet ring)        host's memory
//!  │ head │ payload │ ── to_host_bytes ──────► copy          baseline, pcache; spill at eviction
//!  │ head │ payload │ ◄── to_adapter_bytes ─── copy          at departure, if the entry is gone
//!  │ head │ payload │ ── sent where it lies                  a hit
//! ```
//!
//! * A frame is translated where it lies, in its port's memory, before it is here. Its payload is
//!   an entry of the cache while nothing has evicted it.
//! * A crossing of the bus is a copy by the processor, and counted: what the kernel copies between
//!   a socket and a veth is the wire.
//! * Frames leave in the order in which they came, each once: sent, or dropped and counted.

use std::collections::VecDeque;

use lineside_account::{Budget, Lease};
use lineside_frame::{Copies, Frame};
use lineside_payload::{
    Bound, Cache, CacheCounters, FrameId, LEAST_BYTES, Mode, Policy, Queue, Residence, Way,
};
use lineside_time::Nanoseconds;
use lineside_wire::{Dissected, dissect};
use serde::Serialize;
use slab::Slab;

use crate::ForwardError;

/// A frame that waits for others leaves after this time at the latest: 8,000 frames take as long
/// that come at 160,000 a second.
pub(crate) const HOLD_NS: Nanoseconds = 50_000_000;

/// Frames beside those that are held: what the ports' rings have.
const FRAMES_MORE: u32 = 8192;

/// Copies beside those of frames that are held: some bursts. A port copies what it sends, so that
/// none is in its ring.
const COPIES_MORE: u32 = 1024;

/// The smallest entry: a chunk of a UMEM for frames of 1,514 bytes.
const ENTRY_MIN: usize = 2048;

/// How payloads are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadSettings {
    /// What crosses to the host.
    pub mode: Mode,
    /// Payload memory.
    pub cache_bytes: u64,
    /// So many frames wait before the first of them leaves, but 50 ms at most.
    pub hold: u32,
}

/// The payloads of frames that are to leave.
pub struct Payloads {
    settings: PayloadSettings,
    policy: Policy,
    cache: Cache,
    entry_bytes: usize,
    copies: Copies,
    frames: Slab<Waiting>,
    /// Those that have not left, in their order.
    queue: VecDeque<u32>,
    counters: Counters,
    _lease: Lease,
}

/// A frame with where its payload is. Without either it was dropped.
struct Waiting {
    port: usize,
    /// Where it came from.
    side: usize,
    came_ns: Nanoseconds,
    payload_bytes: u32,
    /// Whether it was given an entry.
    is_kept: bool,
    /// Where it was received.
    received: Option<Frame>,
    /// The host's copy.
    copy: Option<Frame>,
}

/// A frame that leaves.
pub struct Departure {
    /// By which port.
    pub port: usize,
    /// The whole of it.
    pub frame: Frame,
    /// Its number, for [`Payloads::on_sent`].
    pub number: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    came: u64,
    left: u64,
    dropped: u64,
    misses: u64,
    spilled: u64,
    spilled_dry: u64,
    to_host_bytes: u64,
    to_adapter_bytes: u64,
    queue_max: usize,
}

/// The outcomes of the payloads.
#[derive(Debug, Clone, Serialize)]
pub struct PayloadReport {
    /// How they were kept.
    pub mode: Mode,
    /// Entries of the cache.
    pub entries: usize,
    /// Bytes of an entry.
    pub entry_bytes: usize,
    /// So many frames wait before the first leaves.
    pub hold: u32,
    /// Frames to be sent.
    pub came: u64,
    /// Frames that were handed to their port.
    pub left: u64,
    /// Frames whose payload was evicted and is lost, or for which there was no entry.
    pub dropped: u64,
    /// Frames that wait.
    pub waiting: usize,
    /// The most that waited.
    pub queue_max: usize,
    /// Hits, misses and evictions.
    #[serde(flatten)]
    pub cache: CacheCounters,
    /// Payloads that were copied to the host because they had to make place.
    pub spilled: u64,
    /// Payloads that were copied to the host because the memory of their port ran short.
    pub spilled_dry: u64,
    /// Bytes of payload that were copied to the host.
    pub to_host_bytes: u64,
    /// Bytes of payload that were copied from the host.
    pub to_adapter_bytes: u64,
    /// How often `adaptive` changed its mind.
    pub mode_changes: u64,
}

impl Payloads {
    /// For frames of at most `frame_len_max` bytes.
    pub fn new(
        settings: PayloadSettings,
        frame_len_max: usize,
        budget: &Budget,
    ) -> Result<Self, ForwardError> {
        let entry_bytes = frame_len_max.next_power_of_two().max(ENTRY_MIN);
        let entries = u32::try_from(settings.cache_bytes / entry_bytes as u64).unwrap_or(u32::MAX);
        if entries == 0 {
            return Err(ForwardError::Host(format!(
                "a cache of {} bytes holds no payload: an entry has {entry_bytes} bytes; raise \
                 --cache",
                settings.cache_bytes
            )));
        }
        let frames = settings.hold.saturating_add(FRAMES_MORE);
        // Each frame may have a copy, a quarter longer than itself.
        let copies = settings.hold.saturating_add(COPIES_MORE) as usize;
        let copies = copies * (frame_len_max + frame_len_max / 4);
        let over = || ForwardError::PayloadMemory {
            hold: settings.hold,
            bytes: copies,
        };
        let lease = budget.lease(copies).ok_or_else(over)?;
        Ok(Self {
            settings,
            policy: Policy::new(settings.mode, LEAST_BYTES),
            cache: Cache::new(entries, frames, budget).ok_or_else(over)?,
            entry_bytes,
            copies: Copies::new(copies),
            frames: Slab::new(),
            queue: VecDeque::new(),
            counters: Counters::default(),
            _lease: lease,
        })
    }

    /// A frame that came by `side` is to leave by `port`.
    pub fn push(&mut self, now: Nanoseconds, side: usize, port: usize, frame: Frame) {
        let payload_bytes = payload_len(&frame) as u32;
        let waiting = self.cache.len(Queue::Priority);
        let effective = self.cache.effective();
        let way = self.policy.on_receive(payload_bytes, waiting, effective);
        let number = self.frames.insert(Waiting {
            port,
            side,
            came_ns: now,
            payload_bytes,
            is_kept: way != Way::Host,
            received: Some(frame),
            copy: None,
        }) as u32;
        self.counters.came += 1;
        self.queue.push_back(number);
        self.counters.queue_max = self.counters.queue_max.max(self.queue.len());
        match way {
            Way::Host => self.leave_to_host(number),
            Way::Both | Way::Kept => self.keep(number, way),
        }
    }

    /// Gives a frame's payload an entry.
    fn keep(&mut self, number: u32, way: Way) {
        let frame = FrameId(number);
        let Bound::New(_, evicted) = self.cache.receive_bind(frame) else {
            // All entries are being sent.
            match self.policy.mode() {
                Mode::Direct => self.frames[number as usize].received = None,
                _ => self.leave_to_host(number),
            }
            return;
        };
        if let Some(evicted) = evicted {
            let number = evicted.frame.0;
            match (evicted.is_only_copy, self.policy.spills()) {
                (true, true) => {
                    self.counters.spilled += 1;
                    self.leave_to_host(number);
                }
                // Another copy is left, or none: then it is dropped when its turn comes.
                _ => self.frames[number as usize].received = None,
            }
        }
        let residence = match way {
            Way::Both => Residence::Both,
            _ => Residence::Entry,
        };
        if residence == Residence::Both {
            self.copy(number);
        }
        self.cache.receive_complete(frame, residence);
    }

    /// A frame's payload is the host's alone from now on.
    fn leave_to_host(&mut self, number: u32) {
        self.copy(number);
        self.frames[number as usize].received = None;
    }

    fn copy(&mut self, number: u32) {
        let waiting = &mut self.frames[number as usize];
        if let (Some(received), None) = (&waiting.received, &waiting.copy) {
            waiting.copy = Some(self.copies.copy(received));
            self.counters.to_host_bytes += u64::from(waiting.payload_bytes);
        }
    }

    /// The next frame that leaves at `now`.
    pub fn pop(&mut self, now: Nanoseconds) -> Option<Departure> {
        while self.next_deadline().is_some_and(|due| due <= now) {
            let number = self.queue.pop_front()?;
            let waiting = &mut self.frames[number as usize];
            let (port, is_kept) = (waiting.port, waiting.is_kept);
            let (received, copy) = (waiting.received.take(), waiting.copy.take());
            let is_bound = self.cache.state(FrameId(number)).is_some();
            let (frame, is_hit) = match (received, copy) {
                (Some(received), _) if is_bound => (received, true),
                (_, Some(copy)) => {
                    self.counters.to_adapter_bytes += u64::from(waiting.payload_bytes);
                    (copy, false)
                }
                _ => {
                    self.counters.dropped += 1;
                    self.counters.misses += 1;
                    self.frames.remove(number as usize);
                    continue;
                }
            };
            self.counters.left += 1;
            match is_hit {
                true => {
                    let bound = self.cache.send_bind(FrameId(number));
                    debug_assert!(matches!(bound, Bound::Hit(_)), "{bound:?}");
                }
                false => {
                    self.counters.misses += u64::from(is_kept);
                    self.frames.remove(number as usize);
                }
            }
            return Some(Departure {
                port,
                frame,
                number: is_hit.then_some(number),
            });
        }
        None
    }

    /// A frame with a number was sent, or never will be: its entry is free.
    pub fn on_sent(&mut self, number: u32) {
        self.cache.send_complete(FrameId(number));
        self.cache.invalidate_binding(FrameId(number));
        self.frames.remove(number as usize);
    }

    /// When the next frame leaves: at once while more wait than are to be held.
    pub(crate) fn next_deadline(&self) -> Option<Nanoseconds> {
        let &first = self.queue.front()?;
        match self.queue.len() > self.settings.hold as usize {
            true => Some(Nanoseconds::MIN),
            false => Some(self.frames[first as usize].came_ns + HOLD_NS),
        }
    }

    /// Frames that wait.
    pub(crate) fn held(&self) -> usize {
        self.queue.len()
    }

    /// Copies payloads that came by `side`, whose memory runs short, to the host: at most this many
    /// bytes of them, and those first that leave last.
    pub(crate) fn spill(&mut self, side: usize, bytes_max: usize) {
        let mut left = bytes_max;
        for at in (0..self.queue.len()).rev() {
            let number = self.queue[at];
            let waiting = &self.frames[number as usize];
            let Some(received) = waiting.received.as_ref().filter(|_| waiting.side == side) else {
                continue;
            };
            let len = received.whole_len();
            if len > left {
                return;
            }
            left -= len;
            self.counters.spilled_dry += 1;
            self.cache.invalidate_binding(FrameId(number));
            self.leave_to_host(number);
        }
    }

    /// The outcomes of the payloads.
    pub fn report(&self) -> PayloadReport {
        let counters = self.counters;
        PayloadReport {
            mode: self.settings.mode,
            entries: self.cache.entries(),
            entry_bytes: self.entry_bytes,
            hold: self.settings.hold,
            came: counters.came,
            left: counters.left,
            dropped: counters.dropped,
            waiting: self.queue.len(),
            queue_max: counters.queue_max,
            cache: CacheCounters {
                misses: counters.misses,
                ..self.cache.counters()
            },
            spilled: counters.spilled,
            spilled_dry: counters.spilled_dry,
            to_host_bytes: counters.to_host_bytes,
            to_adapter_bytes: counters.to_adapter_bytes,
            mode_changes: self.policy.changes(),
        }
    }
}

/// Bytes behind the headers; all behind Ethernet's where those are not known.
fn payload_len(frame: &Frame) -> usize {
    let (bytes, whole) = (frame.bytes(), frame.whole_len());
    let head = match dissect(frame.descriptor().link_type.0, bytes, whole) {
        Dissected::Tcp(_, tcp) => tcp.payload,
        Dissected::Udp(_, udp) => udp.payload,
        Dissected::Fragment(ip, _) => ip.payload,
        _ => lineside_wire::ethernet::HEADER_LEN,
    };
    whole - head.min(whole)
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, LinkType};
    use lineside_payload::MODES;
    use lineside_time::Random;
    use lineside_wire::build::FrameBuilder;

    use super::*;

    const HEAD_LEN: usize = 42;

    fn datagram(number: u64, payload_len: usize) -> Frame {
        let [source, destination] = ["10.9.1.7", "10.9.2.2"].map(|text| text.parse().expect("it"));
        let payload = vec![number as u8; payload_len];
        let bytes = FrameBuilder::new(source, destination).udp(7, 53, &payload);
        let descriptor = Descriptor {
            number,
            link_type: LinkType::ETHERNET,
            wire_len: bytes.len() as u32,
            ..Descriptor::default()
        };
        Frame::copied(&bytes, descriptor)
    }

    fn payloads(mode: Mode, entries: u64, hold: u32) -> Payloads {
        let settings = PayloadSettings {
            mode,
            cache_bytes: entries * ENTRY_MIN as u64,
            hold,
        };
        Payloads::new(settings, 1518, &Budget::new(64 << 20)).expect("it fits")
    }

    /// Whatever comes and goes: in order, whole, each once, and the bus has what was copied.
    #[test]
    fn frames_leave_in_order_whole_and_once_in_every_mode() {
        for (mode, seed) in MODES.into_iter().flat_map(|mode| [(mode, 1), (mode, 2)]) {
            let mut random = Random::new(seed);
            let mut kept = payloads(mode, 16, 40);
            let (mut came, mut last, mut left) = (0, 0, 0);
            let mut sending = VecDeque::new();
            let mut now = 0;
            for _ in 0..5_000 {
                now += 1_000;
                for _ in 0..random.below(4) {
                    came += 1;
                    let len = [100, 600, 1400][random.below(3) as usize];
                    kept.push(now, (came % 2) as usize, 0, datagram(came, len));
                }
                if random.chance(0.01) {
                    kept.spill(1, 4_000);
                }
                while random.chance(0.8)
                    && let Some(departure) = kept.pop(now)
                {
                    let frame = &departure.frame;
                    let number = frame.descriptor().number;
                    assert!(number > last, "{mode:?}: {number} after {last}");
                    last = number;
                    let payload = &frame.bytes()[HEAD_LEN..];
                    assert!(payload.iter().all(|&byte| byte == number as u8));
                    left += 1;
                    sending.push_back(departure.number);
                }
                while sending.len() > 8 || random.chance(0.5) && !sending.is_empty() {
                    let number = sending.pop_front().flatten();
                    number.into_iter().for_each(|number| kept.on_sent(number));
                }
            }
            while let Some(departure) = kept.pop(Nanoseconds::MAX) {
                left += 1;
                sending.push_back(departure.number);
            }
            let numbers = sending.into_iter().flatten();
            numbers.for_each(|number| kept.on_sent(number));
            let report = kept.report();
            assert_eq!((report.came, report.left), (came, left), "{mode:?}");
            assert_eq!(report.came, report.left + report.dropped);
            assert_eq!(report.dropped > 0, mode == Mode::Direct, "{report:?}");
            assert_eq!(report.spilled > 0, kept.policy.spills(), "{report:?}");
            assert_eq!(report.cache.hits > 0, mode != Mode::Baseline);
            assert!(report.to_adapter_bytes <= report.to_host_bytes);
            assert!(kept.frames.is_empty() && kept.cache.pending() == 0);
            assert_eq!(kept.cache.len(Queue::Unbound), 16, "{mode:?}");
        }
    }

    #[test]
    fn what_waits_leaves_when_others_come_or_its_time_is_over() {
        let mut kept = payloads(Mode::Direct, 16, 2);
        (1..=3).for_each(|number| kept.push(10 * number as i64, 0, 0, datagram(number, 1000)));
        assert!(kept.pop(30).is_some_and(|first| first.number == Some(0)));
        assert!(kept.pop(30).is_none());
        assert_eq!(kept.next_deadline(), Some(20 + HOLD_NS));
        assert!(kept.pop(20 + HOLD_NS).is_some());
        assert_eq!((kept.held(), kept.report().queue_max), (1, 3));
    }

    #[test]
    fn a_port_that_runs_short_gets_back_what_leaves_last() {
        let mut kept = payloads(Mode::Direct, 16, 100);
        (0..10).for_each(|number| kept.push(0, number as usize % 2, 0, datagram(number, 1000)));
        kept.spill(0, 2_500);
        let spilled: Vec<_> = { kept.queue.iter() }
            .filter(|&&number| kept.frames[number as usize].received.is_none())
            .collect();
        assert_eq!(spilled, [&6, &8]);
        let left = std::iter::from_fn(|| kept.pop(HOLD_NS)).count();
        let report = kept.report();
        assert_eq!((left, report.spilled_dry, report.dropped), (10, 2, 0));
        assert_eq!(report.to_host_bytes, 2_000);
        assert_eq!(report.to_adapter_bytes, 2_000);
    }

    #[test]
    fn a_cache_or_a_queue_that_does_not_fit_is_refused() {
        let settings = |cache_bytes, hold| PayloadSettings {
            mode: Mode::Pcache,
            cache_bytes,
            hold,
        };
        let why = |settings, bytes| match Payloads::new(settings, 1518, &Budget::new(bytes)) {
            Ok(_) => panic!("it fits"),
            Err(why) => why.to_string(),
        };
        assert!(why(settings(2047, 0), 64 << 20).contains("raise --cache"));
        assert!(why(settings(2048, 100_000), 64 << 20).contains("lower --hold"));
    }
}
