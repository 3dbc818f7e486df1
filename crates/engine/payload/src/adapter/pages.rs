//! The host's pages: free, posted, or with a payload; and what the cache has of them.

use std::collections::VecDeque;

use lineside_account::Budget;

use super::parameters::{PAGES_MAX, Parameters};
use crate::cache::{Advice, Bound, Cache, FrameId, Queue, Residence};
use crate::policy::{Mode, Policy, Way};

/// The pages of one packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pages: [FrameId; PAGES_MAX],
    len: usize,
}

impl Held {
    pub(super) const NONE: Self = Self {
        pages: [FrameId(0); PAGES_MAX],
        len: 0,
    };

    fn iter(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.pages[..self.len].iter().copied()
    }
}

/// What a packet needs to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    /// So many of its bytes cross the bus.
    Crosses(u64),
    /// A payload was evicted, and nobody has it.
    Lost,
}

#[derive(Debug)]
pub(super) struct Pages {
    pub(super) cache: Cache,
    pub(super) policy: Policy,
    page_bytes: u32,
    free: Vec<FrameId>,
    posted: VecDeque<FrameId>,
    /// Whether the host's page has the payload.
    in_host: Vec<bool>,
    posted_max: usize,
    /// Bytes of evicted payloads that have yet to cross.
    pub(super) to_spill: u64,
}

impl Pages {
    pub(super) fn new(parameters: &Parameters, budget: &Budget) -> Option<Self> {
        let posted_max = parameters.posted_pages.max(PAGES_MAX as u32);
        let count = parameters.pool_pages.max(posted_max + PAGES_MAX as u32);
        let entries = match parameters.mode {
            Mode::Baseline => 0,
            _ => parameters.cache_pages() + posted_max,
        };
        let mut pages = Self {
            cache: Cache::new(entries, count, budget)?,
            policy: Policy::new(parameters.mode, parameters.least_bytes),
            page_bytes: parameters.page_bytes,
            free: (0..count).rev().map(FrameId).collect(),
            posted: VecDeque::with_capacity(posted_max as usize),
            in_host: vec![false; count as usize],
            posted_max: posted_max as usize,
            to_spill: 0,
        };
        pages.post();
        Some(pages)
    }

    /// Posts free pages to receive.
    pub(super) fn post(&mut self) {
        while self.posted.len() < self.posted_max {
            let Some(page) = self.free.pop() else {
                return;
            };
            self.in_host[page.0 as usize] = false;
            if !self.cache.is_empty()
                && let bound = self.cache.receive_bind(page)
            {
                self.note_eviction(bound);
            }
            self.posted.push_back(page);
        }
    }

    pub(super) fn has_posted(&self, count: usize) -> bool {
        self.posted.len() >= count
    }

    /// Pages for a packet of `bytes` that arrives, and how many of them cross to the host.
    pub(super) fn receive(&mut self, bytes: u32, count: usize) -> (Held, u64) {
        let waiting = self.cache.len(Queue::Priority);
        let way = { &mut self.policy }.on_receive(bytes, waiting, self.cache.effective());
        let mut held = Held::NONE;
        let mut crossing = if count == 0 { u64::from(bytes) } else { 0 };
        for number in 0..count {
            let Some(page) = self.posted.pop_front() else {
                break;
            };
            let has_entry = self.cache.state(page).is_some();
            let crosses = way != Way::Kept || !has_entry;
            self.in_host[page.0 as usize] = crosses;
            crossing += if crosses { self.part(bytes, number) } else { 0 };
            held.pages[number] = page;
            held.len += 1;
        }
        (held, crossing)
    }

    /// The bytes of a packet that lie in one of its pages.
    fn part(&self, bytes: u32, number: usize) -> u64 {
        let before = self.page_bytes * number as u32;
        u64::from(bytes.saturating_sub(before).min(self.page_bytes))
    }

    /// All of the packet has arrived.
    pub(super) fn received(&mut self, held: &Held) {
        for page in held.iter() {
            let residence = match self.in_host[page.0 as usize] {
                true => Residence::Both,
                false => Residence::Entry,
            };
            self.cache.receive_complete(page, residence);
        }
    }

    /// Binds a packet's pages to send them. Pages that a short packet or `baseline` has not in the
    /// cache cross in any case.
    pub(super) fn send(&mut self, held: &Held, bytes: u32) -> Sending {
        if held.len == 0 || self.cache.is_empty() {
            return Sending::Crosses(u64::from(bytes));
        }
        let is_here =
            |page: FrameId| self.in_host[page.0 as usize] || self.cache.state(page).is_some();
        if !held.iter().all(is_here) {
            return Sending::Lost;
        }
        // Those in the cache come first: another's binding might evict them.
        let mut missing = 0_u32;
        for (number, page) in held.iter().enumerate() {
            match self.cache.state(page) {
                Some(_) if matches!(self.cache.send_bind(page), Bound::Hit(_)) => {}
                _ => missing |= 1 << number,
            }
        }
        let mut crossing = 0;
        for (number, page) in held.iter().enumerate() {
            if missing & 1 << number != 0 {
                crossing += self.part(bytes, number);
                let bound = self.cache.send_bind(page);
                self.note_eviction(bound);
            }
        }
        Sending::Crosses(crossing)
    }

    /// The packet has left.
    pub(super) fn sent(&mut self, held: &Held) {
        for page in held.iter() {
            self.cache.send_complete(page);
            self.free.push(page);
        }
        self.post();
    }

    /// The packet is dropped: its payload will not be sent.
    pub(super) fn give_up(&mut self, held: &Held) {
        for page in held.iter() {
            self.cache.advise(page, Advice::Demote);
            self.free.push(page);
        }
        self.post();
    }

    fn note_eviction(&mut self, bound: Bound) {
        if let Bound::New(_, Some(evicted)) = bound
            && evicted.is_only_copy
            && self.policy.spills()
        {
            self.in_host[evicted.frame.0 as usize] = true;
            self.to_spill += u64::from(self.page_bytes);
        }
    }
}
