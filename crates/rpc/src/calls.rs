//! Calls and replies of one connection, matched by xid in whatever order they arrive.
//!
//! ```text
//!  reply ─► Early ─────────call────────┐
//!                                      ▼
//!  call ──► Outstanding ──reply──► Answered ──(evicted)──►
//!               │
//!               └──(expired)──► Expired ──(evicted)──►
//! ```
//!
//! A call that comes again while outstanding is a retransmission; one that comes after its reply is
//! a repeat; one that the tap delivered after its reply but that was sent before it is neither. The
//! order is that of the frames' ordinals, not of processing.

mod index;
mod lists;
#[cfg(test)]
mod tests;

use index::Index;
use lists::{Chain, Link, List, NONE};

/// A table with fewer entries than this keeps its memory.
const SHRINK_MIN: usize = 256;
/// One that uses less than this part of its memory gives the rest back: one in eight.
const SHRINK_SHARE: usize = 8;

/// The calls and replies of a connection that still matter. Its user keeps a `C` for an outstanding
/// call, an `A` for an answered one, and an `R` for a reply that came before its call.
///
/// Entries lie in one array, each in the [`List`] of its state, and are found by the [`Index`]:
/// nothing is searched or swept.
#[derive(Debug)]
pub struct CallTable<C, A, R> {
    entries: Vec<Entry<C, A, R>>,
    index: Index,
    /// Of these, the answered and expired calls are counted in `ended`.
    lists: [List; LISTS],
    /// The first free entry.
    free: u32,
    /// Entries in use.
    count: u32,
    /// Answered calls, the expired ones included, but for those that linger.
    ended: u32,
    /// Calls that wait for their replies, and the most that did since this was asked last.
    waiting_now: u32,
    waiting_max: u32,
}

#[derive(Debug)]
struct Entry<C, A, R> {
    key: u64,
    /// When it came to the end of its list.
    since_ns: i64,
    link: Link,
    state: State<C, A, R>,
}

impl<C, A, R> Chain for Entry<C, A, R> {
    #[inline]
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

#[derive(Debug)]
enum State<C, A, R> {
    Outstanding(C),
    Early(R),
    Answered {
        call: A,
        reply_ordinal: u64,
    },
    /// Answered, and kept for longer.
    Lingering {
        call: A,
        reply_ordinal: u64,
    },
    /// Outstanding for too long: remembered as an answered one is, to know its reply should that
    /// still come.
    Expired,
    Free,
}

/// Each from the oldest entry to the latest.
const WAITING: usize = 0;
const EARLY: usize = 1;
const ENDED: usize = 2;
const LINGERING: usize = 3;
const LISTS: usize = 4;

impl<C, A, R> State<C, A, R> {
    #[inline]
    fn list(&self) -> usize {
        match self {
            Self::Outstanding(_) => WAITING,
            Self::Early(_) => EARLY,
            Self::Answered { .. } | Self::Expired => ENDED,
            Self::Lingering { .. } => LINGERING,
            Self::Free => unreachable!("a free entry is in no list"),
        }
    }
}

/// What a call is to those before it.
#[derive(Debug, PartialEq, Eq)]
pub enum OnCall<C, A, R> {
    /// New, or its xid was used for something long ago.
    New,
    /// New, and this reply was there before it.
    Answers(R),
    /// The same call is outstanding.
    Again(C),
    /// A call with its xid was answered before this one was sent.
    Repeat(A),
    /// It was sent before the reply that has been seen: the tap was late.
    Late(A),
}

/// What a reply is to the calls before it.
#[derive(Debug, PartialEq, Eq)]
pub enum OnReply<C, A> {
    /// It answers this call.
    Answers(C),
    /// This call had been answered.
    Duplicate(A),
    /// This call had expired.
    TooLate,
    /// There is no such call.
    Unknown,
}

/// What has waited for too long.
#[derive(Debug, PartialEq, Eq)]
pub enum Expired<C, R> {
    /// A call without reply.
    Call(C),
    /// A reply without call.
    Reply(R),
}

/// The key that a call and its reply share: the xid, and which end calls (0 or 1), since NFSv4.1's
/// callbacks share a connection with what they call back to.
pub fn key(caller: usize, xid: u32) -> u64 {
    (caller as u64) << 32 | u64::from(xid)
}

/// Which end calls, and the xid, of a key.
pub fn parts(key: u64) -> (usize, u32) {
    ((key >> 32) as usize, key as u32)
}

impl<C: Copy, A: Copy, R> CallTable<C, A, R> {
    /// No calls, no replies.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            index: Index::default(),
            lists: [List::EMPTY; LISTS],
            free: NONE,
            count: 0,
            ended: 0,
            waiting_now: 0,
            waiting_max: 0,
        }
    }

    /// The most calls that waited for their replies at once since this was called last.
    pub fn take_waiting_max(&mut self) -> usize {
        std::mem::replace(&mut self.waiting_max, self.waiting_now) as usize
    }

    /// A call was seen in the frame `ordinal`. Unless it is new, nothing changes; if it is,
    /// [`CallTable::outstanding`] is to follow.
    #[inline]
    pub fn on_call(&mut self, key: u64, ordinal: u64) -> OnCall<C, A, R> {
        let Some(at) = self.find(key) else {
            return OnCall::New;
        };
        match self.entries[at as usize].state {
            State::Outstanding(call) => OnCall::Again(call),
            State::Answered {
                call,
                reply_ordinal,
            }
            | State::Lingering {
                call,
                reply_ordinal,
            } => match ordinal < reply_ordinal {
                true => OnCall::Late(call),
                false => OnCall::Repeat(call),
            },
            State::Early(_) | State::Expired | State::Free => match self.remove(at) {
                State::Early(reply) => OnCall::Answers(reply),
                _ => OnCall::New,
            },
        }
    }

    /// Adds a call that now waits for its reply, after [`CallTable::on_call`] has found it to be
    /// new.
    #[inline]
    pub fn outstanding(&mut self, key: u64, call: C, now: i64) {
        self.add(key, State::Outstanding(call), now);
        self.waiting_now += 1;
        self.waiting_max = self.waiting_max.max(self.waiting_now);
    }

    /// Adds a call that now waits for its reply in place of the one that [`CallTable::on_call`] has
    /// found; returns what was kept of that one if it was answered.
    pub fn replace(&mut self, key: u64, call: C, now: i64) -> Option<A> {
        let replaced = self.find(key).map(|at| self.remove(at));
        self.outstanding(key, call, now);
        match replaced {
            Some(State::Answered { call, .. } | State::Lingering { call, .. }) => Some(call),
            _ => None,
        }
    }

    /// Adds a reply whose call may still come.
    pub fn early(&mut self, key: u64, reply: R, now: i64) {
        if let Some(at) = self.find(key) {
            self.remove(at);
        }
        self.add(key, State::Early(reply), now);
    }

    /// What a reply belongs to.
    #[inline]
    pub fn on_reply(&self, key: u64) -> OnReply<C, A> {
        match self.get(key) {
            Some(&State::Outstanding(call)) => OnReply::Answers(call),
            Some(&(State::Answered { call, .. } | State::Lingering { call, .. })) => {
                OnReply::Duplicate(call)
            }
            Some(State::Expired) => OnReply::TooLate,
            Some(State::Early(_) | State::Free) | None => OnReply::Unknown,
        }
    }

    /// True if a call with this key waits for its reply.
    pub fn is_outstanding(&self, key: u64) -> bool {
        matches!(self.get(key), Some(State::Outstanding(_)))
    }

    /// True if a reply with this key waits for its call.
    pub fn is_early(&self, key: u64) -> bool {
        matches!(self.get(key), Some(State::Early(_)))
    }

    /// The reply with this key that waits for its call.
    pub fn early_reply(&mut self, key: u64) -> Option<&mut R> {
        let at = self.find(key)?;
        match &mut self.entries[at as usize].state {
            State::Early(reply) => Some(reply),
            _ => None,
        }
    }

    /// The replies that wait for their calls, in no order.
    pub fn early_mut(&mut self) -> impl Iterator<Item = &mut R> {
        let has_any = self.lists[EARLY].first != NONE;
        let entries = self.entries.iter_mut().filter(move |_| has_any);
        entries.filter_map(|entry| match &mut entry.state {
            State::Early(reply) => Some(reply),
            _ => None,
        })
    }

    /// The call was answered by a reply that began in the frame `ordinal`; `call` is kept of it.
    #[inline]
    pub fn answered(&mut self, key: u64, call: A, ordinal: u64) {
        if let Some(at) = self.find(key) {
            let answered = State::Answered {
                call,
                reply_ordinal: ordinal,
            };
            self.end(at, answered);
        }
    }

    /// Forgets the oldest answered call, if more than `keep` are remembered, the expired ones
    /// included. Those that linger are kept, as of `now`, until [`CallTable::evict_lingering`].
    #[inline]
    pub fn evict_answered(
        &mut self,
        keep: usize,
        now: i64,
        lingers: impl Fn(A) -> bool,
    ) -> Option<A> {
        while self.ended as usize > keep {
            let at = self.lists[ENDED].first;
            let entry = &mut self.entries[at as usize];
            match entry.state {
                State::Answered {
                    call,
                    reply_ordinal,
                } if lingers(call) => {
                    entry.since_ns = now;
                    entry.state = State::Lingering {
                        call,
                        reply_ordinal,
                    };
                    self.ended -= 1;
                    self.lists[ENDED].unlink(&mut self.entries, at);
                    self.lists[LINGERING].push(&mut self.entries, at);
                }
                State::Answered { call, .. } => {
                    self.remove(at);
                    return Some(call);
                }
                _ => _ = self.remove(at),
            }
        }
        None
    }

    /// Forgets the oldest call that has lingered since before `deadline_ns`.
    #[inline]
    pub fn evict_lingering(&mut self, deadline_ns: i64) -> Option<A> {
        let at = self.first_before(LINGERING, deadline_ns)?;
        match self.remove(at) {
            State::Lingering { call, .. } => Some(call),
            _ => None,
        }
    }

    /// Another value is kept of an outstanding call from now on.
    pub fn set_outstanding(&mut self, key: u64, call: C) {
        if let Some(at) = self.find(key)
            && let State::Outstanding(kept) = &mut self.entries[at as usize].state
        {
            *kept = call;
        }
    }

    /// The outstanding calls, the oldest first.
    pub fn outstanding_keys(&self) -> impl Iterator<Item = u64> {
        let entry = |at: u32| self.entries.get(at as usize);
        let first = entry(self.lists[WAITING].first);
        let all = std::iter::successors(first, move |before| entry(before.link.next));
        all.map(|entry| entry.key)
    }

    /// Forgets an answered call.
    pub fn forget(&mut self, key: u64) {
        if let Some(at) = self.find(key)
            && let State::Answered { .. } | State::Lingering { .. } =
                self.entries[at as usize].state
        {
            self.remove(at);
        }
    }

    /// An outstanding call has waited for too long.
    pub fn give_up(&mut self, key: u64) {
        if let Some(at) = self.find(key) {
            self.end(at, State::Expired);
        }
    }

    /// The oldest call that has waited since before the first of these times, or the oldest reply
    /// since before the second.
    #[inline]
    pub fn expire(&mut self, [calls_ns, early_ns]: [i64; 2]) -> Option<Expired<C, R>> {
        if let Some(at) = self.first_before(WAITING, calls_ns) {
            let State::Outstanding(call) = self.entries[at as usize].state else {
                unreachable!("it is in that list")
            };
            self.end(at, State::Expired);
            return Some(Expired::Call(call));
        }
        let at = self.first_before(EARLY, early_ns)?;
        match self.remove(at) {
            State::Early(reply) => Some(Expired::Reply(reply)),
            _ => unreachable!("it is in that list"),
        }
    }

    /// Entries kept, to bound them.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first entry of a list, if it has been there since before a time.
    #[inline]
    fn first_before(&self, list: usize, before_ns: i64) -> Option<u32> {
        let at = self.lists[list].first;
        let first = self.entries.get(at as usize)?;
        (first.since_ns < before_ns).then_some(at)
    }

    #[inline]
    fn find(&self, key: u64) -> Option<u32> {
        self.index
            .find(key, |at| self.entries[at as usize].key == key)
    }

    #[inline]
    fn get(&self, key: u64) -> Option<&State<C, A, R>> {
        let at = self.find(key)?;
        Some(&self.entries[at as usize].state)
    }

    /// An outstanding call waits no more.
    #[inline]
    fn end(&mut self, at: u32, state: State<C, A, R>) {
        let entry = &mut self.entries[at as usize];
        if let State::Outstanding(_) = entry.state {
            entry.state = state;
            self.waiting_now -= 1;
            self.ended += 1;
            self.lists[WAITING].unlink(&mut self.entries, at);
            self.lists[ENDED].push(&mut self.entries, at);
        }
    }

    /// Adds an entry whose key has none, at the end of the list of its state.
    #[inline]
    fn add(&mut self, key: u64, state: State<C, A, R>, since_ns: i64) {
        debug_assert!(self.find(key).is_none(), "two entries of a key");
        let list = state.list();
        let entry = Entry {
            key,
            since_ns,
            link: Link::default(),
            state,
        };
        let at = self.free;
        let at = match self.entries.get_mut(at as usize) {
            Some(free) => {
                self.free = free.link.next;
                *free = entry;
                at
            }
            None => self.push(entry),
        };
        self.count += 1;
        self.lists[list].push(&mut self.entries, at);
        if !self.index.insert(key, at, self.count) {
            self.index.rebuild(self.count, keys(&self.entries));
        }
    }

    #[cold]
    fn push(&mut self, entry: Entry<C, A, R>) -> u32 {
        let len = self.entries.len();
        if len == self.entries.capacity() {
            // By half: most connections have few calls, and there may be many of those.
            self.entries.reserve_exact((len / 2).max(4));
        }
        self.entries.push(entry);
        u32::try_from(len).expect("memory bounds calls before that")
    }

    #[inline]
    fn remove(&mut self, at: u32) -> State<C, A, R> {
        let entry = &mut self.entries[at as usize];
        let key = entry.key;
        let state = std::mem::replace(&mut entry.state, State::Free);
        let list = state.list();
        self.lists[list].unlink(&mut self.entries, at);
        self.entries[at as usize].link.next = self.free;
        self.free = at;
        self.index.remove(key, at);
        self.count -= 1;
        self.ended -= u32::from(list == ENDED);
        self.waiting_now -= u32::from(list == WAITING);
        if SHRINK_SHARE * (self.count as usize) < self.entries.len()
            && self.entries.len() >= SHRINK_MIN
        {
            self.shrink();
        }
        state
    }

    /// Moves the entries together, and gives back the memory of the others.
    #[cold]
    fn shrink(&mut self) {
        let count = self.count as usize;
        let mut entries = Vec::with_capacity(count + count / 2);
        for list in &mut self.lists {
            let mut at = std::mem::replace(list, List::EMPTY).first;
            while at != NONE {
                let entry = &mut self.entries[at as usize];
                at = entry.link.next;
                entries.push(Entry {
                    state: std::mem::replace(&mut entry.state, State::Free),
                    ..*entry
                });
                let last = (entries.len() - 1) as u32;
                list.push(&mut entries, last);
            }
        }
        (self.entries, self.free) = (entries, NONE);
        self.index.rebuild(self.count, keys(&self.entries));
    }
}

/// The keys of the entries in use, each with its place.
fn keys<C, A, R>(entries: &[Entry<C, A, R>]) -> impl Iterator<Item = (u64, u32)> {
    { entries.iter().zip(0..) }
        .filter(|(entry, _)| !matches!(entry.state, State::Free))
        .map(|(entry, at)| (entry.key, at))
}

impl<C: Copy, A: Copy, R> Default for CallTable<C, A, R> {
    fn default() -> Self {
        Self::new()
    }
}
