//! The payload cache manager: which entry of the adapter's memory holds the payload of which host
//! frame.

use lineside_account::{Budget, Lease};

/// A frame of host memory, by its number: the paper's physical address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// An entry of the adapter's payload memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u32);

/// No entry, no frame, the end of a list.
const NONE: u32 = u32::MAX;

/// The replacement queues, in the order in which entries are taken from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Entries whose payload is worthless: free.
    Unbound,
    /// Payloads that were sent: they are likely not needed again.
    Victim,
    /// Payloads that were received and not yet sent.
    Priority,
}

const QUEUES: [Queue; 3] = [Queue::Unbound, Queue::Victim, Queue::Priority];

/// What an entry is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Bound to a frame whose receives or sends are under way: it is never evicted.
    Pending,
    /// On one of the replacement queues.
    Waiting(Queue),
}

/// Where the payload is when a receive completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residence {
    /// In the entry, and in the host's frame.
    Both,
    /// In the entry alone: when the entry is evicted, the payload is lost unless it is copied.
    Entry,
}

/// A payload that makes place for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted {
    /// The frame that was bound to the entry.
    pub frame: FrameId,
    /// Whether the host's frame has no copy of it.
    pub is_only_copy: bool,
}

/// The answer to [`receive_bind`](Cache::receive_bind) and [`send_bind`](Cache::send_bind).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The payload is in this entry already: it need not cross the bus.
    Hit(EntryId),
    /// The frame now has this entry, whose payload is not there yet.
    New(EntryId, Option<Evicted>),
    /// No entry can be had: all are pending, or the frame's own is and may not be used. The payload
    /// goes past the cache, and nothing completes.
    Past,
}

/// What the operating system knows about a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// It will not be forwarded: the entry is free.
    Demote,
    /// It will be sent again: the entry is kept as one not yet sent.
    Promote,
}

/// Events of a cache, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct CacheCounters {
    /// Sends whose payload was there.
    pub hits: u64,
    /// Sends whose payload was not.
    pub misses: u64,
    /// Bindings that made place, by the queue from which they were taken: victim.
    pub evicted_victim: u64,
    /// Bindings that made place, of payloads not yet sent.
    pub evicted_priority: u64,
    /// Bindings that ended because the payload changed or its frame was used again.
    pub invalidated: u64,
    /// Receives and sends for which there was no entry.
    pub past: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    frame: u32,
    /// Sends and receives under way.
    pending: u32,
    is_receive: bool,
    /// The payload changed while it was pending: it is worthless once nothing is under way.
    is_stale: bool,
    /// The host's frame has no copy.
    is_only_copy: bool,
    queue: Queue,
    previous: u32,
    next: u32,
}

/// A queue; the entry that was used last is its first one.
#[derive(Debug, Clone, Copy)]
struct List {
    first: u32,
    len: usize,
}

/// Which entry holds which frame's payload. Each call takes constant time and allocates nothing.
///
/// ```text
///             receive_bind, send_bind (miss)
///  unbound ─────────────────────────────────► pending ◄─────────── send_bind (hit)
///     ▲  victim, then priority: evicted ────►  │   │                      │
///     │                                        │   └─ receive_complete ─► priority ─┐
///     │                                        └───── last send_complete ─► victim ─┤
///     └──────────────── invalidate_binding, advise(Demote) ─────────────────────────┘
/// ```
///
/// * A frame has at most one entry, and an entry at most one frame.
/// * A pending entry is on no queue, and each other one is on one.
/// * A new header changes nothing: no call says it. A changed payload is `invalidate_binding`.
#[derive(Debug)]
pub struct Cache {
    entries: Vec<Entry>,
    /// The entry of each frame.
    bindings: Vec<u32>,
    lists: [List; 3],
    /// Entries that wait for a receive.
    posted: usize,
    counters: CacheCounters,
    _lease: Lease,
}

impl Cache {
    /// A cache of `entries` for frames with numbers below `frames`; `None` if the budget has no
    /// room for the tables.
    pub fn new(entries: u32, frames: u32, budget: &Budget) -> Option<Self> {
        let bytes = entries as usize * size_of::<Entry>() + frames as usize * size_of::<u32>();
        let lease = budget.lease(bytes)?;
        let entry = Entry {
            frame: NONE,
            pending: 0,
            is_receive: false,
            is_stale: false,
            is_only_copy: false,
            queue: Queue::Unbound,
            previous: NONE,
            next: NONE,
        };
        let mut cache = Self {
            entries: vec![entry; entries as usize],
            bindings: vec![NONE; frames as usize],
            lists: [List {
                first: NONE,
                len: 0,
            }; 3],
            posted: 0,
            counters: CacheCounters::default(),
            _lease: lease,
        };
        // The first one is then taken first.
        (0..entries)
            .rev()
            .for_each(|at| cache.put(at, Queue::Unbound));
        Some(cache)
    }

    /// Posts a receive into `frame`: an old binding of the frame ends, and it has another entry.
    pub fn receive_bind(&mut self, frame: FrameId) -> Bound {
        if let Some(at) = self.bound(frame) {
            if self.entries[at as usize].pending > 0 {
                self.counters.past += 1;
                return Bound::Past;
            }
            self.counters.invalidated += 1;
            self.unbind(at);
        }
        let Some((at, evicted)) = self.replace(frame) else {
            return Bound::Past;
        };
        self.entries[at as usize].is_receive = true;
        self.posted += 1;
        Bound::New(EntryId(at), evicted)
    }

    /// Sends `frame`: from its entry if that has the payload, or the payload crosses the bus and
    /// fills an entry on its way.
    pub fn send_bind(&mut self, frame: FrameId) -> Bound {
        let Some(at) = self.bound(frame) else {
            self.counters.misses += 1;
            return match self.replace(frame) {
                Some((at, evicted)) => Bound::New(EntryId(at), evicted),
                None => Bound::Past,
            };
        };
        let entry = &mut self.entries[at as usize];
        if entry.is_receive || entry.is_stale {
            self.counters.misses += 1;
            self.counters.past += 1;
            return Bound::Past;
        }
        self.counters.hits += 1;
        entry.pending += 1;
        if entry.pending == 1 {
            self.take_out(at);
        }
        Bound::Hit(EntryId(at))
    }

    /// The receive into `frame` is complete: its payload is worth keeping until it is sent. False
    /// if no receive of it was pending.
    pub fn receive_complete(&mut self, frame: FrameId, residence: Residence) -> bool {
        let Some(at) = self.bound(frame) else {
            return false;
        };
        let entry = &mut self.entries[at as usize];
        if !entry.is_receive {
            return false;
        }
        entry.is_receive = false;
        entry.is_only_copy = residence == Residence::Entry;
        self.posted -= 1;
        self.complete(at, Queue::Priority);
        true
    }

    /// A send of `frame` is complete; after the last one under way the payload may be replaced.
    /// False if none was pending.
    pub fn send_complete(&mut self, frame: FrameId) -> bool {
        let Some(at) = self.bound(frame) else {
            return false;
        };
        let entry = self.entries[at as usize];
        if entry.is_receive || entry.pending == 0 {
            return false;
        }
        self.complete(at, Queue::Victim);
        true
    }

    /// The payload of `frame` changed, or is not needed any more: the entry is free at once, or
    /// when nothing of it is under way any more. False if it had none.
    pub fn invalidate_binding(&mut self, frame: FrameId) -> bool {
        let Some(at) = self.bound(frame) else {
            return false;
        };
        let entry = &mut self.entries[at as usize];
        let is_first = !entry.is_stale;
        if entry.pending > 0 {
            entry.is_stale = true;
        } else {
            self.unbind(at);
        }
        self.counters.invalidated += u64::from(is_first);
        true
    }

    /// Makes an entry that waits worth more or less. False if the frame has none, or its entry is
    /// pending.
    pub fn advise(&mut self, frame: FrameId, advice: Advice) -> bool {
        let Some(at) = self.bound(frame) else {
            return false;
        };
        if self.entries[at as usize].pending > 0 {
            return false;
        }
        match advice {
            Advice::Demote => self.unbind(at),
            Advice::Promote => {
                self.take_out(at);
                self.put(at, Queue::Priority);
            }
        }
        true
    }

    /// The host's frame now has a copy of the payload: its eviction loses nothing.
    pub fn copied_to_host(&mut self, frame: FrameId) {
        if let Some(at) = self.bound(frame) {
            self.entries[at as usize].is_only_copy = false;
        }
    }

    /// The entry that is bound to a frame, and its state.
    pub fn state(&self, frame: FrameId) -> Option<(EntryId, State)> {
        let at = self.bound(frame)?;
        let entry = &self.entries[at as usize];
        let state = match entry.pending {
            0 => State::Waiting(entry.queue),
            _ => State::Pending,
        };
        Some((EntryId(at), state))
    }

    /// How many entries wait on a queue.
    #[inline]
    pub fn len(&self, queue: Queue) -> usize {
        self.lists[queue as usize].len
    }

    /// Whether the cache has no entries at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries.
    #[inline]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Entries with sends or receives under way.
    pub fn pending(&self) -> usize {
        self.entries() - QUEUES.iter().map(|&queue| self.len(queue)).sum::<usize>()
    }

    /// The effective size: entries that no posted receive holds.
    #[inline]
    pub fn effective(&self) -> usize {
        self.entries.len() - self.posted
    }

    /// What was counted.
    pub fn counters(&self) -> CacheCounters {
        self.counters
    }

    #[inline]
    fn bound(&self, frame: FrameId) -> Option<u32> {
        let at = self.bindings.get(frame.0 as usize).copied();
        at.filter(|&at| at != NONE)
    }

    /// Takes the next entry to replace and gives it to `frame`, with one transfer under way.
    fn replace(&mut self, frame: FrameId) -> Option<(u32, Option<Evicted>)> {
        let queue = QUEUES.into_iter().find(|&queue| self.len(queue) > 0);
        let is_known = (frame.0 as usize) < self.bindings.len();
        let Some(queue) = queue.filter(|_| is_known) else {
            self.counters.past += 1;
            return None;
        };
        let at = self.lists[queue as usize].first;
        self.take_out(at);
        let old = self.entries[at as usize];
        let evicted = (old.frame != NONE).then(|| {
            self.bindings[old.frame as usize] = NONE;
            Evicted {
                frame: FrameId(old.frame),
                is_only_copy: old.is_only_copy,
            }
        });
        match queue {
            Queue::Unbound => {}
            Queue::Victim => self.counters.evicted_victim += 1,
            Queue::Priority => self.counters.evicted_priority += 1,
        }
        self.bindings[frame.0 as usize] = at;
        let entry = &mut self.entries[at as usize];
        entry.frame = frame.0;
        entry.pending = 1;
        entry.is_stale = false;
        entry.is_only_copy = false;
        Some((at, evicted))
    }

    /// One transfer less is under way.
    fn complete(&mut self, at: u32, queue: Queue) {
        let entry = &mut self.entries[at as usize];
        entry.pending -= 1;
        if entry.pending > 0 {
            return;
        }
        if entry.is_stale {
            self.release(at);
        } else {
            self.put(at, queue);
        }
    }

    /// Ends the binding of an entry that waits.
    fn unbind(&mut self, at: u32) {
        self.take_out(at);
        self.release(at);
    }

    fn release(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        self.bindings[entry.frame as usize] = NONE;
        entry.frame = NONE;
        entry.is_stale = false;
        entry.is_only_copy = false;
        self.put(at, Queue::Unbound);
    }

    fn put(&mut self, at: u32, queue: Queue) {
        let list = &mut self.lists[queue as usize];
        let next = std::mem::replace(&mut list.first, at);
        list.len += 1;
        let entry = &mut self.entries[at as usize];
        (entry.queue, entry.previous, entry.next) = (queue, NONE, next);
        if next != NONE {
            self.entries[next as usize].previous = at;
        }
    }

    fn take_out(&mut self, at: u32) {
        let Entry {
            queue,
            previous,
            next,
            ..
        } = self.entries[at as usize];
        let list = &mut self.lists[queue as usize];
        list.len -= 1;
        match previous {
            NONE => list.first = next,
            _ => self.entries[previous as usize].next = next,
        }
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests;
