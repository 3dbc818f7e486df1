//! The paper's forwarder in virtual time: link, adapter, bus, processor.
//!
//! ```text
//!            stops its sender                                  400 packets
//!  frames ─► in-link ─► buffers ─► bus ─► interrupt ─► input queue ─► thread ─► bus ─► buffers ─► out-link
//!             125 MB/s      16      └─────── one, in turn ──┐ └─ one processor ─┘ ┌─┘      16
//!                                                            └─ steals memory cycles ─► processor
//! ```
//!
//! * Frames of all directions pass the one adapter, as the paper's payload cache wants it: both
//!   links are those of one card.
//! * It takes frames and the time, and says when each leaves or is dropped. It depends on nothing
//!   else, so that a run is a function of its input.
//! * One interrupt serves all packets that came since the last.
//! * All memory is drawn when it is made.

mod counters;
mod pages;
mod parameters;

use std::collections::VecDeque;

use lineside_account::{Budget, Lease};
use lineside_time::Nanoseconds;

pub use counters::{AdapterCounters, Drops};
pub use parameters::{PAGES_MAX, Parameters};

use crate::cache::CacheCounters;
use pages::{Held, Pages, Sending};
pub(crate) use parameters::time_ns;

/// Why a frame did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// Too many waited for the link.
    Waiting,
    /// The input queue was full.
    InputQueue,
    /// Its payload was evicted from the cache, and nobody else had it.
    Missed,
}

/// The outcome of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done<T> {
    /// When.
    pub at_ns: Nanoseconds,
    /// When it was pushed.
    pub entered_ns: Nanoseconds,
    /// Why it was dropped; `None`: it left.
    pub dropped: Option<DropReason>,
    /// The frame.
    pub item: T,
}

#[derive(Debug)]
struct Packet<T> {
    item: Option<T>,
    bytes: u32,
    entered_ns: Nanoseconds,
    held: Held,
}

/// What the bus carries.
#[derive(Debug, Clone, Copy)]
enum Transfer {
    Receive(u32),
    Send(u32),
    Spill,
}

/// The thread's work for a packet, and what of it is left, in thousandths of a nanosecond.
#[derive(Debug, Clone, Copy)]
struct Task {
    packet: u32,
    left: u64,
}

/// An emulated adapter with its host.
#[derive(Debug)]
pub struct Adapter<T> {
    parameters: Parameters,
    now: Nanoseconds,
    packets: Vec<Packet<T>>,
    unused: Vec<u32>,
    waiting: VecDeque<u32>,
    /// On the link, and when its last byte has come.
    arriving: Option<(u32, Nanoseconds)>,
    arrived: VecDeque<u32>,
    bus: Option<(Transfer, Nanoseconds)>,
    sent_last: bool,
    interrupts: VecDeque<u32>,
    /// What is left of the interrupt's work, which serves the first packets of `interrupts`.
    interrupt: Option<u64>,
    served: usize,
    input: VecDeque<u32>,
    thread: Option<Task>,
    to_send: VecDeque<(u32, u64)>,
    leaving: VecDeque<u32>,
    on_out_link: Option<(u32, Nanoseconds)>,
    pages: Pages,
    counters: AdapterCounters,
    _lease: Lease,
}

impl<T> Adapter<T> {
    /// An adapter at rest, and `None` if the budget has no room for it.
    pub fn new(parameters: Parameters, budget: &Budget) -> Option<Self> {
        // Those that wait, each buffer, the bus, and both queues of the host.
        let inside = 4 * parameters.buffers_max
            + parameters.input_queue_max
            + parameters.send_ring_max
            + parameters.posted_pages as usize
            + 8;
        let count = parameters.waiting_max + inside;
        let lease = budget.lease(count * (size_of::<Packet<T>>() + 9 * size_of::<u32>()))?;
        let pages = Pages::new(&parameters, budget)?;
        let packet = |_| Packet {
            item: None,
            bytes: 0,
            entered_ns: 0,
            held: Held::NONE,
        };
        let queue = || VecDeque::with_capacity(count);
        Some(Self {
            now: 0,
            packets: (0..count).map(packet).collect(),
            unused: (0..count as u32).rev().collect(),
            waiting: queue(),
            arriving: None,
            arrived: queue(),
            bus: None,
            sent_last: false,
            interrupts: queue(),
            interrupt: None,
            served: 0,
            input: queue(),
            thread: None,
            to_send: VecDeque::with_capacity(count),
            leaving: queue(),
            on_out_link: None,
            pages,
            counters: AdapterCounters::default(),
            parameters,
            _lease: lease,
        })
    }

    /// Counting begins anew at `now`; frames inside stay.
    pub fn begin(&mut self, now: Nanoseconds) {
        self.now = self.now.max(now);
        self.counters = AdapterCounters {
            began_ns: now,
            until_ns: now,
            inside_before: self.held() as u64,
            ..AdapterCounters::default()
        };
    }

    /// A frame comes at `at`, or now if that is past.
    pub fn push(&mut self, at: Nanoseconds, item: T, bytes: u32, out: &mut Vec<Done<T>>) {
        self.on_timer(at, out);
        self.now = self.now.max(at);
        self.counters.came += 1;
        let entered_ns = self.now;
        let place = if self.has_room() {
            self.unused.pop()
        } else {
            None
        };
        let Some(place) = place else {
            self.counters.dropped.waiting += 1;
            out.push(Done {
                at_ns: entered_ns,
                entered_ns,
                dropped: Some(DropReason::Waiting),
                item,
            });
            return;
        };
        self.packets[place as usize] = Packet {
            item: Some(item),
            bytes,
            entered_ns,
            held: Held::NONE,
        };
        self.waiting.push_back(place);
        self.start();
    }

    /// Whether another frame may wait for the link.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.parameters.waiting_max
    }

    /// Frames that wait for the link.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Frames that are due by `now` go to `out`.
    pub fn on_timer(&mut self, now: Nanoseconds, out: &mut Vec<Done<T>>) {
        while let Some(next) = self.next_deadline().filter(|&next| next <= now) {
            self.pass_time(next);
            self.finish(out);
            self.start();
        }
        if now > self.now {
            self.pass_time(now);
        }
    }

    /// When something happens next.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        let links = [self.arriving, self.on_out_link].into_iter().flatten();
        let links = links.map(|(_, at)| at).chain(self.bus.map(|(_, at)| at));
        let speed = self.speed();
        let of_thread = self.thread.map(|task| task.left);
        let left = self.interrupt.or(of_thread);
        let processor = left.map(|left| self.now + left.div_ceil(speed) as i64);
        links.chain(processor).min()
    }

    /// Frames inside.
    pub fn held(&self) -> usize {
        self.packets.len() - self.unused.len()
    }

    /// The frames inside, to copy them out of memory that is short.
    pub fn items_mut(&mut self) -> impl Iterator<Item = &mut T> {
        { self.packets.iter_mut() }.filter_map(|packet| packet.item.as_mut())
    }

    /// What was counted since [`begin`](Self::begin).
    pub fn counters(&self) -> AdapterCounters {
        self.counters
    }

    /// What the cache counted, from its beginning.
    pub fn cache_counters(&self) -> CacheCounters {
        self.pages.cache.counters()
    }

    /// How often `adaptive` changed.
    pub fn mode_changes(&self) -> u64 {
        self.pages.policy.changes()
    }

    /// The machine.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Thousandths of the processor's work that a nanosecond does.
    fn speed(&self) -> u64 {
        match self.bus {
            Some(_) => 1000 - self.parameters.stolen_permille.min(999),
            None => 1000,
        }
    }

    fn pass_time(&mut self, to: Nanoseconds) {
        let passed = (to - self.now).max(0).unsigned_abs();
        let speed = self.speed();
        let thread = self.thread.as_mut().map(|task| &mut task.left);
        let left = self.interrupt.as_mut().or(thread);
        let counters = &mut self.counters;
        if let Some(left) = left {
            *left = left.saturating_sub(passed * speed);
            counters.processor_busy_ns += passed;
        }
        counters.bus_busy_ns += if self.bus.is_some() { passed } else { 0 };
        let queued = self.input.len() as u64 + u64::from(self.thread.is_some());
        counters.queued_ns += u128::from(queued) * u128::from(passed);
        counters.queued_max = counters.queued_max.max(queued);
        self.now = self.now.max(to);
        counters.until_ns = self.now;
    }

    /// All that ends now.
    fn finish(&mut self, out: &mut Vec<Done<T>>) {
        let now = self.now;
        if let Some((packet, _)) = self.arriving.take_if(|(_, at)| *at <= now) {
            self.arrived.push_back(packet);
        }
        if let Some((packet, _)) = self.on_out_link.take_if(|(_, at)| *at <= now) {
            let held = self.packets[packet as usize].held;
            self.pages.sent(&held);
            self.counters.left += 1;
            self.counters.left_bytes += u64::from(self.packets[packet as usize].bytes);
            self.done(packet, None, out);
        }
        if let Some((transfer, _)) = self.bus.take_if(|(_, at)| *at <= now) {
            match transfer {
                Transfer::Receive(packet) => self.received(packet),
                Transfer::Send(packet) => self.leaving.push_back(packet),
                Transfer::Spill => {}
            }
        }
        if self.interrupt.take_if(|left| *left == 0).is_some() {
            for _ in 0..std::mem::take(&mut self.served) {
                if let Some(packet) = self.interrupts.pop_front() {
                    self.interrupted(packet, out);
                }
            }
        } else if self.interrupt.is_none()
            && let Some(task) = self.thread.take_if(|task| task.left == 0)
        {
            self.forward(task.packet, out);
        }
    }

    fn received(&mut self, packet: u32) {
        let held = self.packets[packet as usize].held;
        self.pages.received(&held);
        self.interrupts.push_back(packet);
    }

    /// The driver takes a packet, and posts pages for others.
    fn interrupted(&mut self, packet: u32, out: &mut Vec<Done<T>>) {
        if self.input.len() < self.parameters.input_queue_max {
            self.input.push_back(packet);
            self.pages.post();
            return;
        }
        let held = self.packets[packet as usize].held;
        self.pages.give_up(&held);
        self.counters.dropped.input_queue += 1;
        self.done(packet, Some(DropReason::InputQueue), out);
    }

    /// The thread has made the header of a packet, and sends it.
    fn forward(&mut self, packet: u32, out: &mut Vec<Done<T>>) {
        let Packet { held, bytes, .. } = self.packets[packet as usize];
        let is_cached = self.parameters.pages(bytes) > 0;
        match self.pages.send(&held, bytes) {
            Sending::Crosses(crossing) => {
                let is_hit = crossing == 0;
                self.counters.hits += u64::from(is_cached && is_hit);
                self.counters.misses += u64::from(is_cached && !is_hit);
                self.to_send.push_back((packet, crossing));
            }
            Sending::Lost => {
                self.counters.misses += 1;
                self.pages.give_up(&held);
                self.counters.dropped.missed += 1;
                self.done(packet, Some(DropReason::Missed), out);
            }
        }
    }

    fn done(&mut self, packet: u32, dropped: Option<DropReason>, out: &mut Vec<Done<T>>) {
        self.unused.push(packet);
        let packet = &mut self.packets[packet as usize];
        if let Some(item) = packet.item.take() {
            out.push(Done {
                at_ns: self.now,
                entered_ns: packet.entered_ns,
                dropped,
                item,
            });
        }
    }

    /// All that can begin now.
    fn start(&mut self) {
        self.start_bus();
        let buffers_max = self.parameters.buffers_max;
        if self.arriving.is_none()
            && self.arrived.len() < buffers_max
            && let Some(packet) = self.waiting.pop_front()
        {
            self.arriving = Some((packet, self.link_ends(packet)));
        }
        if self.on_out_link.is_none()
            && let Some(packet) = self.leaving.pop_front()
        {
            self.on_out_link = Some((packet, self.link_ends(packet)));
            // Its buffer is free.
            self.start_bus();
        }
        if self.interrupt.is_none() && !self.interrupts.is_empty() {
            // One interrupt serves all packets that came since the last.
            self.served = self.interrupts.len();
            let each_ns = self.parameters.interrupt_packet_ns;
            let packets = { self.interrupts.iter() }.map(|&packet| self.work(packet, each_ns));
            let work = self.parameters.interrupt_ns * 1000 + packets.sum::<u64>();
            self.interrupt = Some(work.max(1));
        }
        if self.thread.is_none()
            && self.to_send.len() < self.parameters.send_ring_max
            && let Some(packet) = self.input.pop_front()
        {
            let work_ns = self.parameters.thread_ns;
            let left = self.work(packet, work_ns).max(1);
            self.thread = Some(Task { packet, left });
        }
    }

    fn link_ends(&self, packet: u32) -> Nanoseconds {
        let bytes = u64::from(self.packets[packet as usize].bytes);
        self.now + time_ns(bytes, self.parameters.link_bytes_per_s)
    }

    /// The processor's work for a packet and half of its further pages.
    fn work(&self, packet: u32, work_ns: u64) -> u64 {
        let pages = self.parameters.pages(self.packets[packet as usize].bytes) as u64;
        (work_ns + self.parameters.page_ns * pages.saturating_sub(1) / 2) * 1000
    }

    /// Gives the bus its next transfer: payloads that make place, else both ways in turn. Packets
    /// of which nothing crosses do not wait for it.
    fn start_bus(&mut self) {
        loop {
            let sends = self.leaving.len() < self.parameters.buffers_max;
            let crossing = self.to_send.front().filter(|_| sends);
            let crossing = crossing.map(|&(_, crossing)| crossing);
            // None overtakes one that is crossing.
            let is_sending = matches!(self.bus, Some((Transfer::Send(_), _)));
            if crossing == Some(0) && !is_sending {
                self.start_send();
                continue;
            }
            if self.bus.is_some() {
                return;
            }
            let to_spill = std::mem::take(&mut self.pages.to_spill);
            if to_spill > 0 {
                self.counters.spilled_bytes += to_spill;
                self.occupy(Transfer::Spill, to_spill);
                continue;
            }
            let needed = { self.arrived.front() }
                .map(|&packet| self.parameters.pages(self.packets[packet as usize].bytes));
            let receives = needed.filter(|&needed| self.pages.has_posted(needed));
            match receives {
                Some(pages) if crossing.is_none() || self.sent_last => self.start_receive(pages),
                _ if crossing.is_some() => self.start_send(),
                _ => return,
            }
        }
    }

    fn start_receive(&mut self, pages: usize) {
        self.sent_last = false;
        let Some(packet) = self.arrived.pop_front() else {
            return;
        };
        let bytes = self.packets[packet as usize].bytes;
        let (held, crossing) = self.pages.receive(bytes, pages);
        self.packets[packet as usize].held = held;
        self.counters.received_bytes += crossing;
        match crossing {
            0 => self.received(packet),
            _ => self.occupy(Transfer::Receive(packet), crossing),
        }
    }

    fn start_send(&mut self) {
        let Some((packet, crossing)) = self.to_send.pop_front() else {
            return;
        };
        self.counters.sent_bytes += crossing;
        match crossing {
            0 => self.leaving.push_back(packet),
            _ => {
                self.sent_last = true;
                self.occupy(Transfer::Send(packet), crossing);
            }
        }
    }

    fn occupy(&mut self, transfer: Transfer, bytes: u64) {
        let until = self.now + time_ns(bytes, self.parameters.bus_bytes_per_s);
        self.bus = Some((transfer, until));
    }
}

#[cfg(test)]
mod tests;
