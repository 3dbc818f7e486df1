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

use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table};

/// Answered calls that may stay in the queue of the waiting ones before it is swept.
const WAITING_SLACK: usize = 64;

/// The calls and replies of a connection that still matter. Its user keeps a `C` for an outstanding
/// call, an `A` for an answered one, and an `R` for a reply that came before its call.
#[derive(Debug)]
pub struct CallTable<C, A, R> {
    entries: HashTable<Entry<C, A, R>>,
    hasher: DefaultHashBuilder,
    /// Outstanding calls with their times, oldest first, and some that wait no more; an entry is
    /// the same only if its serial is.
    waiting: VecDeque<Waiting>,
    /// The same of early replies.
    early: VecDeque<Waiting>,
    answered: VecDeque<(u64, u64)>,
    /// Answered calls that are kept for longer, since when.
    lingering: VecDeque<Waiting>,
    serial: u64,
    /// Calls that wait for their replies, and the most that did since this was asked last.
    waiting_now: usize,
    waiting_max: usize,
}

/// Key, serial, and since when it waits.
type Waiting = (u64, u64, i64);

#[derive(Debug)]
struct Entry<C, A, R> {
    key: u64,
    serial: u64,
    state: State<C, A, R>,
}

#[derive(Debug)]
enum State<C, A, R> {
    Outstanding(C),
    Early(R),
    Answered {
        call: A,
        reply_ordinal: u64,
    },
    /// Outstanding for too long: remembered as an answered one is, to know its reply should that
    /// still come.
    Expired,
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
            entries: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            waiting: VecDeque::new(),
            early: VecDeque::new(),
            answered: VecDeque::new(),
            lingering: VecDeque::new(),
            serial: 0,
            waiting_now: 0,
            waiting_max: 0,
        }
    }

    /// The most calls that waited for their replies at once since this was called last.
    pub fn take_waiting_max(&mut self) -> usize {
        std::mem::replace(&mut self.waiting_max, self.waiting_now)
    }

    /// A call was seen in the frame `ordinal`. Unless it is new, nothing changes; if it is,
    /// [`CallTable::outstanding`] is to follow.
    #[inline]
    pub fn on_call(&mut self, key: u64, ordinal: u64) -> OnCall<C, A, R> {
        match self.get(key).map(|entry| &entry.state) {
            None => OnCall::New,
            Some(State::Expired) => {
                self.find(key).map(remove);
                OnCall::New
            }
            Some(&State::Outstanding(call)) => OnCall::Again(call),
            Some(&State::Answered {
                call,
                reply_ordinal,
            }) if ordinal < reply_ordinal => OnCall::Late(call),
            Some(&State::Answered { call, .. }) => OnCall::Repeat(call),
            Some(State::Early(_)) => match self.find(key).map(remove) {
                Some(State::Early(reply)) => OnCall::Answers(reply),
                _ => OnCall::New,
            },
        }
    }

    /// Adds a call that now waits for its reply, after [`CallTable::on_call`] has found it to be
    /// new.
    #[inline]
    pub fn outstanding(&mut self, key: u64, call: C, now: i64) {
        self.insert(key, State::Outstanding(call));
        self.wait(key, now);
        self.waiting_now += 1;
        self.waiting_max = self.waiting_max.max(self.waiting_now);
    }

    /// Adds a call that now waits for its reply in place of the one that [`CallTable::on_call`] has
    /// found; returns what was kept of that one if it was answered.
    pub fn replace(&mut self, key: u64, call: C, now: i64) -> Option<A> {
        let replaced = self.find(key).map(remove);
        self.waiting_now -= usize::from(matches!(replaced, Some(State::Outstanding(_))));
        self.outstanding(key, call, now);
        match replaced {
            Some(State::Answered { call, .. }) => Some(call),
            _ => None,
        }
    }

    /// Adds a reply whose call may still come.
    pub fn early(&mut self, key: u64, reply: R, now: i64) {
        self.find(key).map(remove);
        self.insert(key, State::Early(reply));
        self.early.push_back((key, self.serial, now));
        self.sweep_if_long();
    }

    /// What a reply belongs to.
    #[inline]
    pub fn on_reply(&self, key: u64) -> OnReply<C, A> {
        match self.get(key).map(|entry| &entry.state) {
            Some(&State::Outstanding(call)) => OnReply::Answers(call),
            Some(&State::Answered { call, .. }) => OnReply::Duplicate(call),
            Some(State::Expired) => OnReply::TooLate,
            Some(State::Early(_)) | None => OnReply::Unknown,
        }
    }

    /// True if a call with this key waits for its reply.
    pub fn is_outstanding(&self, key: u64) -> bool {
        matches!(
            self.get(key),
            Some(Entry {
                state: State::Outstanding(_),
                ..
            })
        )
    }

    /// True if a reply with this key waits for its call.
    pub fn is_early(&self, key: u64) -> bool {
        matches!(
            self.get(key),
            Some(Entry {
                state: State::Early(_),
                ..
            })
        )
    }

    /// The reply with this key that waits for its call.
    pub fn early_reply(&mut self, key: u64) -> Option<&mut R> {
        match &mut self.get_mut(key)?.state {
            State::Early(reply) => Some(reply),
            _ => None,
        }
    }

    /// The replies that wait for their calls, in no order.
    pub fn early_mut(&mut self) -> impl Iterator<Item = &mut R> {
        self.entries
            .iter_mut()
            .filter_map(|entry| match &mut entry.state {
                State::Early(reply) => Some(reply),
                _ => None,
            })
    }

    /// The call was answered by a reply that began in the frame `ordinal`; `call` is kept of it.
    #[inline]
    pub fn answered(&mut self, key: u64, call: A, ordinal: u64) {
        let Some(entry) = self.get_mut(key) else {
            return;
        };
        if matches!(entry.state, State::Outstanding(_)) {
            entry.state = State::Answered {
                call,
                reply_ordinal: ordinal,
            };
            let serial = entry.serial;
            self.waiting_now -= 1;
            self.answered.push_back((key, serial));
            // Most replies come in the order of their calls.
            self.waiting
                .pop_front_if(|&mut (_, front, _)| front == serial);
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
        while self.answered.len() > keep {
            let (key, serial) = self.answered.pop_front()?;
            if let Some(found) = self.find(key).filter(|found| found.get().serial == serial) {
                match found.get().state {
                    State::Answered { call, .. } if lingers(call) => {
                        self.lingering.push_back((key, serial, now));
                    }
                    State::Answered { call, .. } => {
                        found.remove();
                        return Some(call);
                    }
                    State::Expired => _ = found.remove(),
                    State::Outstanding(_) | State::Early(_) => {}
                }
            }
        }
        None
    }

    /// Forgets the oldest call that has lingered since before `deadline_ns`.
    #[inline]
    pub fn evict_lingering(&mut self, deadline_ns: i64) -> Option<A> {
        while let Some((key, serial, _)) = self
            .lingering
            .pop_front_if(|&mut (.., since_ns)| since_ns < deadline_ns)
        {
            let found = self.find(key);
            if let Some(found) = found.filter(|found| found.get().serial == serial)
                && let State::Answered { call, .. } = found.get().state
            {
                found.remove();
                return Some(call);
            }
        }
        None
    }

    /// Another value is kept of an outstanding call from now on.
    pub fn set_outstanding(&mut self, key: u64, call: C) {
        if let Some(Entry {
            state: State::Outstanding(kept),
            ..
        }) = self.get_mut(key)
        {
            *kept = call;
        }
    }

    /// The outstanding calls, in no order.
    pub fn outstanding_keys(&self) -> impl Iterator<Item = u64> {
        self.entries
            .iter()
            .filter(|entry| matches!(entry.state, State::Outstanding(_)))
            .map(|entry| entry.key)
    }

    /// Forgets an answered call.
    pub fn forget(&mut self, key: u64) {
        if let Some(found) = self.find(key)
            && matches!(found.get().state, State::Answered { .. })
        {
            found.remove();
        }
    }

    /// An outstanding call has waited for too long.
    pub fn give_up(&mut self, key: u64) {
        if let Some(mut found) = self.find(key)
            && matches!(found.get().state, State::Outstanding(_))
        {
            found.get_mut().state = State::Expired;
            let serial = found.get().serial;
            self.waiting_now -= 1;
            self.answered.push_back((key, serial));
        }
    }

    /// The oldest call that has waited since before the first of these times, or the oldest reply
    /// since before the second.
    #[inline]
    pub fn expire(&mut self, [calls_ns, early_ns]: [i64; 2]) -> Option<Expired<C, R>> {
        let is_over = |queue: &VecDeque<Waiting>, before_ns| {
            let front = queue.front();
            front.is_some_and(|&(.., since_ns)| since_ns < before_ns)
        };
        match is_over(&self.waiting, calls_ns) || is_over(&self.early, early_ns) {
            true => self.expire_first(calls_ns, early_ns),
            false => None,
        }
    }

    #[cold]
    fn expire_first(&mut self, calls_ns: i64, early_ns: i64) -> Option<Expired<C, R>> {
        let first = |queue: &mut VecDeque<Waiting>, before_ns| {
            queue.pop_front_if(|&mut (.., since_ns)| since_ns < before_ns)
        };
        while let Some((key, serial, _)) = first(&mut self.waiting, calls_ns) {
            let found = self.find(key);
            if let Some(found) = found.filter(|found| found.get().serial == serial)
                && let State::Outstanding(call) = found.get().state
            {
                self.give_up(key);
                return Some(Expired::Call(call));
            }
        }
        while let Some((key, serial, _)) = first(&mut self.early, early_ns) {
            let found = self.find(key);
            if let Some(found) = found.filter(|found| found.get().serial == serial)
                && matches!(found.get().state, State::Early(_))
                && let State::Early(reply) = remove(found)
            {
                return Some(Expired::Reply(reply));
            }
        }
        None
    }

    /// Entries kept, to bound them.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    fn wait(&mut self, key: u64, since_ns: i64) {
        self.waiting.push_back((key, self.serial, since_ns));
        self.sweep_if_long();
    }

    /// One call without reply keeps those after it in the queue, also when they are answered.
    #[inline]
    fn sweep_if_long(&mut self) {
        if self.waiting.len() + self.early.len() > 2 * self.entries.len() + WAITING_SLACK {
            self.sweep();
        }
    }

    #[cold]
    fn sweep(&mut self) {
        let mut queues = [&mut self.waiting, &mut self.early].map(std::mem::take);
        for queue in &mut queues {
            queue.retain(|&(key, serial, _)| {
                self.get(key).is_some_and(|entry| {
                    entry.serial == serial
                        && matches!(entry.state, State::Outstanding(_) | State::Early(_))
                })
            });
        }
        [self.waiting, self.early] = queues;
    }

    #[inline]
    fn get(&self, key: u64) -> Option<&Entry<C, A, R>> {
        let hash = self.hasher.hash_one(key);
        self.entries.find(hash, |entry| entry.key == key)
    }

    #[inline]
    fn get_mut(&mut self, key: u64) -> Option<&mut Entry<C, A, R>> {
        let hash = self.hasher.hash_one(key);
        self.entries.find_mut(hash, |entry| entry.key == key)
    }

    #[inline]
    fn find(&mut self, key: u64) -> Option<hash_table::OccupiedEntry<'_, Entry<C, A, R>>> {
        let hash = self.hasher.hash_one(key);
        self.entries.find_entry(hash, |entry| entry.key == key).ok()
    }

    /// Adds an entry whose key has none.
    #[inline]
    fn insert(&mut self, key: u64, state: State<C, A, R>) {
        debug_assert!(self.get(key).is_none(), "two entries of a key");
        self.serial += 1;
        let entry = Entry {
            key,
            serial: self.serial,
            state,
        };
        let hasher = &self.hasher;
        self.entries
            .insert_unique(hasher.hash_one(key), entry, |entry| {
                hasher.hash_one(entry.key)
            });
    }
}

fn remove<C, A, R>(found: hash_table::OccupiedEntry<'_, Entry<C, A, R>>) -> State<C, A, R> {
    found.remove().0.state
}

impl<C: Copy, A: Copy, R> Default for CallTable<C, A, R> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_once_and_repeats_are_distinguished() {
        let mut calls: CallTable<u32, u32, &str> = CallTable::new();
        assert_eq!(calls.on_call(7, 1), OnCall::New);
        calls.outstanding(7, 100, 0);
        assert_eq!(calls.on_call(7, 2), OnCall::Again(100));
        assert_eq!(calls.on_reply(7), OnReply::Answers(100));
        calls.answered(7, 100, 5);
        assert_eq!(calls.on_reply(7), OnReply::Duplicate(100));
        assert_eq!(calls.on_call(7, 4), OnCall::Late(100));
        assert_eq!(calls.on_call(7, 6), OnCall::Repeat(100));
        assert_eq!(calls.replace(7, 101, 0), Some(100));
        assert_eq!(
            calls.evict_answered(0, 0, |_| false),
            None,
            "the xid belongs to the repeat now"
        );
        assert_eq!(calls.expire([1; 2]), Some(Expired::Call(101)));
        assert_eq!(calls.on_reply(7), OnReply::TooLate);
        assert_eq!(
            calls.evict_answered(0, 0, |_| false),
            None,
            "it has had no answer"
        );
        assert!(calls.is_empty());
    }

    #[test]
    fn an_expired_call_is_remembered_until_its_xid_is_used_again() {
        let mut calls: CallTable<u32, u32, &str> = CallTable::new();
        calls.outstanding(7, 100, 0);
        assert_eq!(calls.expire([1; 2]), Some(Expired::Call(100)));
        assert_eq!(calls.expire([1; 2]), None, "once");
        assert_eq!(calls.on_call(7, 2), OnCall::New);
        calls.outstanding(7, 101, 2);
        assert_eq!(calls.on_reply(7), OnReply::Answers(101));
        assert_eq!(
            calls.evict_answered(0, 0, |_| false),
            None,
            "it is outstanding"
        );
        assert_eq!(calls.on_reply(7), OnReply::Answers(101));
    }

    #[test]
    fn an_unanswered_call_does_not_keep_the_answered_ones() {
        let mut calls: CallTable<u32, u32, ()> = CallTable::new();
        calls.outstanding(0, 0, 0);
        for key in 1..10_000 {
            calls.outstanding(key, 7, 1);
            calls.answered(key, 7, 5);
            calls.evict_answered(16, 0, |_| false);
        }
        assert!(calls.len() <= 18 && calls.waiting.len() <= 2 * 18 + WAITING_SLACK + 1);
        assert_eq!(calls.expire([1; 2]), Some(Expired::Call(0)));
    }

    #[test]
    fn the_most_calls_that_wait_at_once_are_counted() {
        let mut calls: CallTable<u32, u32, ()> = CallTable::new();
        for key in 0..5 {
            calls.outstanding(key, 7, key as i64);
        }
        calls.answered(1, 7, 5);
        calls.answered(1, 7, 5);
        calls.give_up(2);
        assert_eq!(calls.replace(3, 8, 9), None);
        assert_eq!(calls.take_waiting_max(), 5);
        assert_eq!(calls.take_waiting_max(), 3);
        assert_eq!(calls.expire([i64::MAX; 2]), Some(Expired::Call(7)));
        calls.take_waiting_max();
        assert_eq!(calls.take_waiting_max(), 2);
    }

    #[test]
    fn a_reply_that_came_first_waits_for_its_call() {
        let mut calls: CallTable<u32, u32, &str> = CallTable::new();
        assert_eq!(calls.on_reply(9), OnReply::Unknown);
        calls.early(9, "reply", 10);
        assert!(calls.is_early(9));
        assert_eq!(calls.expire([10; 2]), None);
        assert_eq!(calls.on_call(9, 3), OnCall::Answers("reply"));
        calls.early(8, "lonely", 10);
        assert_eq!(calls.expire([11; 2]), Some(Expired::Reply("lonely")));
    }
}
