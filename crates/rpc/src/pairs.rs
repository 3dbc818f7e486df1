//! Calls and replies of one connection, matched by xid in whatever order they arrive (C8).
//!
//! ```text
//!  reply ─► Early ─────────call────────┐
//!                                      ▼
//!  call ──► Outstanding ──reply──► Answered ──(evicted)──►
//!               │
//!               └──(expired)──► GivenUp ──(evicted)──►
//! ```
//!
//! A call that comes again while outstanding is a retransmission; one that comes after its reply is a
//! repeat; one that the tap delivered after its reply but that was sent before is neither. The order
//! is that of the frames' ordinals, not of processing.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table};

/// Answered calls that may stay in the queue of the waiting ones before it is swept.
const WAITING_SLACK: usize = 64;

/// The calls and replies of a connection that still matter. `C` is the caller's note of a call, `R`
/// of a reply that came before its call.
#[derive(Debug)]
pub struct Pairs<C, R> {
    entries: HashTable<Entry<C, R>>,
    hasher: DefaultHashBuilder,
    /// Outstanding calls and early replies with their times, oldest first, and some that wait no more; a
    /// serial tells whether an entry is the same.
    waiting: VecDeque<(u64, u64, i64)>,
    answered: VecDeque<(u64, u64)>,
    serial: u64,
}

#[derive(Debug)]
struct Entry<C, R> {
    key: u64,
    serial: u64,
    state: State<C, R>,
}

#[derive(Debug)]
enum State<C, R> {
    Outstanding(C),
    Early(R),
    Answered {
        call: C,
        reply_ordinal: u64,
    },
    /// Outstanding for too long: remembered as an answered one is, to know its reply should that still come.
    GivenUp,
}

/// What a call is to those before it.
#[derive(Debug, PartialEq, Eq)]
pub enum OnCall<C, R> {
    /// New, or its xid was used for something long ago.
    New,
    /// New, and this reply was there before it.
    Answers(R),
    /// The same call is outstanding.
    Again(C),
    /// A call with its xid was answered before this one was sent.
    Repeat(C),
    /// It was sent before the reply that has been seen: the tap was late.
    Late(C),
}

/// What a reply is to the calls before it.
#[derive(Debug, PartialEq, Eq)]
pub enum OnReply<C> {
    /// It answers this call.
    Answers(C),
    /// This call had been answered.
    Duplicate(C),
    /// This call had been given up.
    TooLate,
    /// There is no such call.
    Unknown,
}

/// What was given up.
#[derive(Debug, PartialEq, Eq)]
pub enum Expired<C, R> {
    /// A call without reply.
    Call(C),
    /// A reply without call.
    Reply(R),
}

/// What a call and its reply have in common: the xid, and which end calls (0 or 1), since NFSv4.1's callbacks
/// share a connection with what they call back to.
pub fn key(caller: usize, xid: u32) -> u64 {
    (caller as u64) << 32 | u64::from(xid)
}

impl<C: Copy, R> Pairs<C, R> {
    /// No calls, no replies.
    pub fn new() -> Self {
        Self {
            entries: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            waiting: VecDeque::new(),
            answered: VecDeque::new(),
            serial: 0,
        }
    }

    /// A call was seen in the frame `ordinal`. Unless it is new, nothing changes; if it is,
    /// [`Pairs::outstanding`] is to follow.
    #[inline]
    pub fn on_call(&mut self, key: u64, ordinal: u64) -> OnCall<C, R> {
        match self.get(key).map(|entry| &entry.state) {
            None => OnCall::New,
            Some(State::GivenUp) => {
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

    /// Notes a call that now waits for its reply, which [`Pairs::on_call`] has said to be new.
    #[inline]
    pub fn outstanding(&mut self, key: u64, call: C, now: i64) {
        self.insert(key, State::Outstanding(call));
        self.wait(key, now);
    }

    /// Notes a call that now waits for its reply instead of one that [`Pairs::on_call`] has found; returns the note of
    /// that if it was answered.
    pub fn replace(&mut self, key: u64, call: C, now: i64) -> Option<C> {
        let replaced = self.find(key).map(remove);
        self.outstanding(key, call, now);
        match replaced {
            Some(State::Answered { call, .. }) => Some(call),
            _ => None,
        }
    }

    /// Notes a reply whose call may still come.
    pub fn early(&mut self, key: u64, reply: R, now: i64) {
        self.find(key).map(remove);
        self.insert(key, State::Early(reply));
        self.wait(key, now);
    }

    /// What a reply belongs to.
    #[inline]
    pub fn on_reply(&self, key: u64) -> OnReply<C> {
        match self.get(key).map(|entry| &entry.state) {
            Some(&State::Outstanding(call)) => OnReply::Answers(call),
            Some(&State::Answered { call, .. }) => OnReply::Duplicate(call),
            Some(State::GivenUp) => OnReply::TooLate,
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

    /// The call was answered by a reply that began in the frame `ordinal`; `call` is what to remember of it.
    #[inline]
    pub fn answered(&mut self, key: u64, call: C, ordinal: u64) {
        let Some(entry) = self.get_mut(key) else {
            return;
        };
        if matches!(entry.state, State::Outstanding(_)) {
            entry.state = State::Answered {
                call,
                reply_ordinal: ordinal,
            };
            let serial = entry.serial;
            self.answered.push_back((key, serial));
            // Most replies come in the order of their calls.
            self.waiting
                .pop_front_if(|&mut (_, front, _)| front == serial);
        }
    }

    /// The note of the oldest answered call, if more than `keep` are remembered, those given up included.
    #[inline]
    pub fn evict_answered(&mut self, keep: usize) -> Option<C> {
        while self.answered.len() > keep {
            let (key, serial) = self.answered.pop_front()?;
            if let Some(found) = self.find(key).filter(|found| found.get().serial == serial) {
                match found.get().state {
                    State::Answered { call, .. } => {
                        found.remove();
                        return Some(call);
                    }
                    State::GivenUp => _ = found.remove(),
                    State::Outstanding(_) | State::Early(_) => {}
                }
            }
        }
        None
    }

    /// The oldest call or reply that has waited since before `deadline_ns`.
    #[inline]
    pub fn expire(&mut self, deadline_ns: i64) -> Option<Expired<C, R>> {
        let &(.., since_ns) = self.waiting.front()?;
        match since_ns < deadline_ns {
            true => self.expire_first(deadline_ns),
            false => None,
        }
    }

    #[cold]
    fn expire_first(&mut self, deadline_ns: i64) -> Option<Expired<C, R>> {
        while let Some((key, serial, _)) = self
            .waiting
            .pop_front_if(|&mut (.., since_ns)| since_ns < deadline_ns)
        {
            let Some(mut found) = self.find(key).filter(|found| found.get().serial == serial)
            else {
                continue;
            };
            match found.get().state {
                State::Outstanding(call) => {
                    found.get_mut().state = State::GivenUp;
                    self.answered.push_back((key, serial));
                    return Some(Expired::Call(call));
                }
                State::Early(_) => {
                    if let State::Early(reply) = remove(found) {
                        return Some(Expired::Reply(reply));
                    }
                }
                State::Answered { .. } | State::GivenUp => {}
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
        // One call without reply keeps those behind it in the queue, also when they are answered.
        if self.waiting.len() > 2 * self.entries.len() + WAITING_SLACK {
            self.sweep();
        }
    }

    #[cold]
    fn sweep(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|&(key, serial, _)| {
            self.get(key).is_some_and(|entry| {
                entry.serial == serial
                    && matches!(entry.state, State::Outstanding(_) | State::Early(_))
            })
        });
        self.waiting = waiting;
    }

    #[inline]
    fn get(&self, key: u64) -> Option<&Entry<C, R>> {
        let hash = self.hasher.hash_one(key);
        self.entries.find(hash, |entry| entry.key == key)
    }

    #[inline]
    fn get_mut(&mut self, key: u64) -> Option<&mut Entry<C, R>> {
        let hash = self.hasher.hash_one(key);
        self.entries.find_mut(hash, |entry| entry.key == key)
    }

    #[inline]
    fn find(&mut self, key: u64) -> Option<hash_table::OccupiedEntry<'_, Entry<C, R>>> {
        let hash = self.hasher.hash_one(key);
        self.entries.find_entry(hash, |entry| entry.key == key).ok()
    }

    /// Adds an entry whose key has none.
    #[inline]
    fn insert(&mut self, key: u64, state: State<C, R>) {
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

fn remove<C, R>(found: hash_table::OccupiedEntry<'_, Entry<C, R>>) -> State<C, R> {
    found.remove().0.state
}

impl<C: Copy, R> Default for Pairs<C, R> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_once_and_repeats_are_told_apart() {
        let mut pairs: Pairs<u32, &str> = Pairs::new();
        assert_eq!(pairs.on_call(7, 1), OnCall::New);
        pairs.outstanding(7, 100, 0);
        assert_eq!(pairs.on_call(7, 2), OnCall::Again(100));
        assert_eq!(pairs.on_reply(7), OnReply::Answers(100));
        pairs.answered(7, 100, 5);
        assert_eq!(pairs.on_reply(7), OnReply::Duplicate(100));
        assert_eq!(pairs.on_call(7, 4), OnCall::Late(100));
        assert_eq!(pairs.on_call(7, 6), OnCall::Repeat(100));
        assert_eq!(pairs.replace(7, 101, 0), Some(100));
        assert_eq!(
            pairs.evict_answered(0),
            None,
            "the xid belongs to the repeat now"
        );
        assert_eq!(pairs.expire(1), Some(Expired::Call(101)));
        assert_eq!(pairs.on_reply(7), OnReply::TooLate);
        assert_eq!(pairs.evict_answered(0), None, "it has had no answer");
        assert!(pairs.is_empty());
    }

    #[test]
    fn a_call_that_was_given_up_is_remembered_until_its_xid_is_used_again() {
        let mut pairs: Pairs<u32, &str> = Pairs::new();
        pairs.outstanding(7, 100, 0);
        assert_eq!(pairs.expire(1), Some(Expired::Call(100)));
        assert_eq!(pairs.expire(1), None, "once");
        assert_eq!(pairs.on_call(7, 2), OnCall::New);
        pairs.outstanding(7, 101, 2);
        assert_eq!(pairs.on_reply(7), OnReply::Answers(101));
        assert_eq!(pairs.evict_answered(0), None, "it is outstanding");
        assert_eq!(pairs.on_reply(7), OnReply::Answers(101));
    }

    #[test]
    fn an_unanswered_call_does_not_keep_the_answered_ones_behind_it() {
        let mut pairs: Pairs<u32, ()> = Pairs::new();
        pairs.outstanding(0, 0, 0);
        for key in 1..10_000 {
            pairs.outstanding(key, 7, 1);
            pairs.answered(key, 7, 5);
            pairs.evict_answered(16);
        }
        assert!(pairs.len() <= 18 && pairs.waiting.len() <= 2 * 18 + WAITING_SLACK + 1);
        assert_eq!(pairs.expire(1), Some(Expired::Call(0)));
    }

    #[test]
    fn a_reply_that_came_first_waits_for_its_call() {
        let mut pairs: Pairs<u32, &str> = Pairs::new();
        assert_eq!(pairs.on_reply(9), OnReply::Unknown);
        pairs.early(9, "reply", 10);
        assert!(pairs.is_early(9));
        assert_eq!(pairs.expire(10), None);
        assert_eq!(pairs.on_call(9, 3), OnCall::Answers("reply"));
        pairs.early(8, "lonely", 10);
        assert_eq!(pairs.expire(11), Some(Expired::Reply("lonely")));
    }
}
