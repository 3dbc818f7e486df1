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

use hashbrown::HashMap;
use index::Index;
use lists::{EARLY, ENDED, FREE, LINGERING, LISTS, Lists, WAITING};

/// A table with fewer entries than this keeps its memory.
const SHRINK_MIN: usize = 256;
/// One that uses less than this part of its memory gives the rest back: one in eight.
const SHRINK_SHARE: usize = 8;

/// The calls and replies of a connection that still matter. Its user keeps a `C` for an outstanding
/// call, an `A` for an answered one, and an `R` for a reply that came before its call.
///
/// Entries lie in one array, each in the list of its state, and are found by the index: nothing is
/// searched or swept.
#[derive(Debug)]
pub struct CallTable<C, A, R> {
    entries: Vec<Entry<C, A>>,
    lists: Lists,
    index: Index,
    /// The early replies, which are few.
    replies: HashMap<u64, R>,
    /// Entries in use, and with fewer of them memory is given back.
    count: u32,
    shrink_below: u32,
    /// Answered and expired calls, but for those that linger.
    ended: u32,
    /// Calls that wait for their replies, and the most that did since this was asked last.
    waiting_now: u32,
    waiting_max: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry<C, A> {
    key: u64,
    /// When it came to the end of its list, unless that is the list of ended calls.
    since_ns: i64,
    state: State<C, A>,
}

#[derive(Debug, Clone, Copy)]
enum State<C, A> {
    Outstanding(C),
    Early,
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
            lists: Lists::default(),
            replies: HashMap::new(),
            count: 0,
            shrink_below: 0,
            ended: 0,
            waiting_now: 0,
            waiting_max: 0,
        }
    }

    /// How many calls wait for their replies, and since when the oldest of them has.
    pub fn waiting(&self) -> Option<(usize, i64)> {
        let oldest = self.lists.first(WAITING)?;
        Some((
            self.waiting_now as usize,
            self.entries[oldest as usize].since_ns,
        ))
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
            State::Early => {
                self.remove(at);
                { self.replies.remove(&key) }.map_or(OnCall::New, OnCall::Answers)
            }
            State::Expired | State::Free => {
                self.remove(at);
                OnCall::New
            }
        }
    }

    /// Adds a call that now waits for its reply, after [`CallTable::on_call`] has found it to be
    /// new.
    #[inline]
    pub fn outstanding(&mut self, key: u64, call: C, now: i64) {
        self.add(WAITING, key, State::Outstanding(call), now);
        self.waiting_now += 1;
        self.waiting_max = self.waiting_max.max(self.waiting_now);
    }

    /// Adds a call that now waits for its reply in place of the one that [`CallTable::on_call`] has
    /// found; returns what was kept of that one if it was answered.
    pub fn replace(&mut self, key: u64, call: C, now: i64) -> Option<A> {
        let replaced = self.remove_key(key);
        self.outstanding(key, call, now);
        match replaced {
            Some(State::Answered { call, .. } | State::Lingering { call, .. }) => Some(call),
            _ => None,
        }
    }

    /// Adds a reply whose call may still come.
    pub fn early(&mut self, key: u64, reply: R, now: i64) {
        self.remove_key(key);
        self.add(EARLY, key, State::Early, now);
        self.replies.insert(key, reply);
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
            Some(State::Early | State::Free) | None => OnReply::Unknown,
        }
    }

    /// True if a call with this key waits for its reply.
    pub fn is_outstanding(&self, key: u64) -> bool {
        matches!(self.get(key), Some(State::Outstanding(_)))
    }

    /// True if a reply with this key waits for its call.
    pub fn is_early(&self, key: u64) -> bool {
        matches!(self.get(key), Some(State::Early))
    }

    /// The reply with this key that waits for its call.
    pub fn early_reply(&mut self, key: u64) -> Option<&mut R> {
        match self.replies.is_empty() {
            true => None,
            false => self.replies.get_mut(&key),
        }
    }

    /// The replies that wait for their calls, in no order.
    pub fn early_mut(&mut self) -> impl Iterator<Item = &mut R> {
        self.replies.values_mut()
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
            let at = self.lists.first(ENDED)?;
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
                    self.lists.move_to(LINGERING, at);
                }
                State::Answered { call, .. } => {
                    self.remove(at);
                    return Some(call);
                }
                _ => self.remove(at),
            }
        }
        None
    }

    /// Forgets the oldest call that has lingered since before `deadline_ns`.
    #[inline]
    pub fn evict_lingering(&mut self, deadline_ns: i64) -> Option<A> {
        let at = self.first_before(LINGERING, deadline_ns)?;
        let state = self.entries[at as usize].state;
        self.remove(at);
        match state {
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
        let all = self.lists.iter(WAITING);
        all.map(|at| self.entries[at as usize].key)
    }

    /// Forgets an answered call.
    pub fn forget(&mut self, key: u64) {
        if let Some(State::Answered { .. } | State::Lingering { .. }) = self.get(key) {
            self.remove_key(key);
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
        let key = self.entries[at as usize].key;
        self.remove(at);
        self.replies.remove(&key).map(Expired::Reply)
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
    fn first_before(&self, list: u32, before_ns: i64) -> Option<u32> {
        let at = self.lists.first(list)?;
        (self.entries[at as usize].since_ns < before_ns).then_some(at)
    }

    #[inline(always)]
    fn find(&self, key: u64) -> Option<u32> {
        self.index
            .find(key, |at| self.entries[at as usize].key == key)
    }

    #[inline]
    fn get(&self, key: u64) -> Option<&State<C, A>> {
        let at = self.find(key)?;
        Some(&self.entries[at as usize].state)
    }

    /// An outstanding call waits no more.
    #[inline]
    fn end(&mut self, at: u32, state: State<C, A>) {
        let entry = &mut self.entries[at as usize];
        if let State::Outstanding(_) = entry.state {
            entry.state = state;
            self.waiting_now -= 1;
            self.ended += 1;
            self.lists.move_to(ENDED, at);
        }
    }

    /// Adds an entry whose key has none, at the end of a list.
    #[inline]
    fn add(&mut self, list: u32, key: u64, state: State<C, A>, since_ns: i64) {
        debug_assert!(self.find(key).is_none(), "two entries of a key");
        let entry = Entry {
            key,
            since_ns,
            state,
        };
        let at = match self.lists.last(FREE) {
            Some(at) => {
                self.entries[at as usize] = entry;
                self.lists.move_to(list, at);
                at
            }
            None => self.push(list, entry),
        };
        self.count += 1;
        if !self.index.insert(key, at, self.count) {
            self.index.rebuild(self.count, keys(&self.entries));
        }
    }

    #[cold]
    fn push(&mut self, list: u32, entry: Entry<C, A>) -> u32 {
        let len = self.entries.len();
        if len == self.entries.capacity() {
            // By half: most connections have few calls, and there may be many of those.
            let more = (len / 2).max(4);
            self.entries.reserve_exact(more);
            self.lists.reserve(len + more);
        }
        self.entries.push(entry);
        self.set_shrink();
        self.lists.add(list)
    }

    /// Removes the entry of a key, if it has one.
    fn remove_key(&mut self, key: u64) -> Option<State<C, A>> {
        let at = self.find(key)?;
        let state = self.entries[at as usize].state;
        if let State::Early = state {
            self.replies.remove(&key);
        }
        self.remove(at);
        Some(state)
    }

    /// Removes an entry, but not its early reply.
    #[inline]
    fn remove(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        match std::mem::replace(&mut entry.state, State::Free) {
            State::Answered { .. } | State::Expired => self.ended -= 1,
            State::Outstanding(_) => self.waiting_now -= 1,
            State::Lingering { .. } | State::Early | State::Free => {}
        }
        self.index.remove(entry.key, at);
        self.lists.move_to(FREE, at);
        self.count -= 1;
        if self.count < self.shrink_below {
            self.shrink();
        }
    }

    /// Moves the entries together, and gives back the memory of the others.
    #[cold]
    fn shrink(&mut self) {
        let count = self.count as usize;
        let entries = std::mem::take(&mut self.entries);
        let lists = std::mem::take(&mut self.lists);
        self.entries.reserve_exact(count + count / 2);
        self.lists.reserve(count + count / 2);
        for list in (0..LISTS).filter(|&list| list != FREE) {
            for at in lists.iter(list) {
                self.entries.push(entries[at as usize]);
                self.lists.add(list);
            }
        }
        self.set_shrink();
        self.index.rebuild(self.count, keys(&self.entries));
    }

    fn set_shrink(&mut self) {
        self.shrink_below = match self.entries.len() {
            ..SHRINK_MIN => 0,
            len => (len / SHRINK_SHARE) as u32,
        };
    }
}

/// The keys of the entries in use, each with its place.
fn keys<C, A>(entries: &[Entry<C, A>]) -> impl Iterator<Item = (u64, u32)> {
    { entries.iter().zip(0..) }
        .filter(|(entry, _)| !matches!(entry.state, State::Free))
        .map(|(entry, at)| (entry.key, at))
}

impl<C: Copy, A: Copy, R> Default for CallTable<C, A, R> {
    fn default() -> Self {
        Self::new()
    }
}
