//! The table by hand, and against a naive one.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

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
    assert!(calls.len() <= 18 && calls.entries.len() <= 18);
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

#[test]
fn memory_is_given_back_after_many_calls() {
    let mut calls: CallTable<u32, u32, ()> = CallTable::new();
    for key in 0..100_000 {
        calls.outstanding(key, key as u32, 0);
    }
    for key in 0..99_990 {
        calls.answered(key, key as u32, 5);
        let expected = (key >= 256).then(|| key as u32 - 256);
        assert_eq!(calls.evict_answered(256, 0, |_| false), expected);
    }
    assert_eq!(calls.len(), 266);
    assert!(calls.entries.capacity() <= 12 * 266);
    let outstanding: Vec<u64> = calls.outstanding_keys().collect();
    assert_eq!(outstanding, Vec::from_iter(99_990..100_000));
    let evicted = std::iter::from_fn(|| calls.evict_answered(0, 0, |_| false));
    assert!(evicted.eq(99_734..99_990));
    assert_eq!(calls.on_reply(99_995), OnReply::Answers(99_995));
}

/// All in one place of any ring.
#[test]
fn keys_that_collide_are_distinguished() {
    let mut calls: CallTable<u32, u32, ()> = CallTable::new();
    let key = |number: u32| u64::from(number) << 20;
    for number in 0..4096 {
        calls.outstanding(key(number), number, 0);
    }
    for number in (0..4096).rev() {
        assert_eq!(calls.on_reply(key(number)), OnReply::Answers(number));
        calls.answered(key(number), number, 5);
        calls.evict_answered(7, 0, |_| false);
        assert_eq!(calls.on_reply(key(number)), OnReply::Duplicate(number));
    }
    assert_eq!(calls.len(), 7);
}

/// What the table promises, in so many words: every list is searched.
#[derive(Default)]
struct Naive {
    states: BTreeMap<u64, Naively>,
    /// Outstanding, early and lingering ones, and since when.
    waiting: Vec<(u64, i64)>,
    early: Vec<(u64, i64)>,
    lingering: Vec<(u64, i64)>,
    ended: Vec<u64>,
    waiting_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Naively {
    Outstanding(u32),
    Early(u32),
    Answered(u32, u64),
    Expired,
}

impl Naive {
    fn remove(&mut self, key: u64) -> Option<Naively> {
        for list in [&mut self.waiting, &mut self.early, &mut self.lingering] {
            list.retain(|other| other.0 != key);
        }
        self.ended.retain(|&other| other != key);
        self.states.remove(&key)
    }

    fn on_call(&mut self, key: u64, ordinal: u64) -> OnCall<u32, u32, u32> {
        match self.states.get(&key).copied() {
            None => OnCall::New,
            Some(Naively::Outstanding(call)) => OnCall::Again(call),
            Some(Naively::Answered(call, reply)) if ordinal < reply => OnCall::Late(call),
            Some(Naively::Answered(call, _)) => OnCall::Repeat(call),
            Some(Naively::Early(reply)) => {
                self.remove(key);
                OnCall::Answers(reply)
            }
            Some(Naively::Expired) => {
                self.remove(key);
                OnCall::New
            }
        }
    }

    fn replace(&mut self, key: u64, call: u32, now: i64) -> Option<u32> {
        let replaced = self.remove(key);
        self.states.insert(key, Naively::Outstanding(call));
        self.waiting.push((key, now));
        self.waiting_max = self.waiting_max.max(self.waiting.len());
        match replaced {
            Some(Naively::Answered(call, _)) => Some(call),
            _ => None,
        }
    }

    fn early(&mut self, key: u64, reply: u32, now: i64) {
        self.remove(key);
        self.states.insert(key, Naively::Early(reply));
        self.early.push((key, now));
    }

    fn on_reply(&self, key: u64) -> OnReply<u32, u32> {
        match self.states.get(&key) {
            Some(&Naively::Outstanding(call)) => OnReply::Answers(call),
            Some(&Naively::Answered(call, _)) => OnReply::Duplicate(call),
            Some(Naively::Expired) => OnReply::TooLate,
            Some(Naively::Early(_)) | None => OnReply::Unknown,
        }
    }

    fn end(&mut self, key: u64, state: Naively) {
        if let Some(Naively::Outstanding(_)) = self.states.get(&key) {
            self.remove(key);
            self.states.insert(key, state);
            self.ended.push(key);
        }
    }

    fn evict(&mut self, keep: usize, now: i64, lingers: impl Fn(u32) -> bool) -> Option<u32> {
        while self.ended.len() > keep {
            let key = self.ended.remove(0);
            match self.states[&key] {
                Naively::Answered(call, _) if lingers(call) => self.lingering.push((key, now)),
                Naively::Answered(call, _) => {
                    self.remove(key);
                    return Some(call);
                }
                _ => _ = self.remove(key),
            }
        }
        None
    }

    fn evict_lingering(&mut self, before_ns: i64) -> Option<u32> {
        let &(key, _) = self.lingering.first().filter(|first| first.1 < before_ns)?;
        match self.remove(key) {
            Some(Naively::Answered(call, _)) => Some(call),
            other => panic!("{other:?} lingers"),
        }
    }

    fn expire(&mut self, [calls_ns, early_ns]: [i64; 2]) -> Option<Expired<u32, u32>> {
        if let Some(&(key, _)) = self.waiting.first().filter(|first| first.1 < calls_ns) {
            let state = self.states[&key];
            self.end(key, Naively::Expired);
            return match state {
                Naively::Outstanding(call) => Some(Expired::Call(call)),
                other => panic!("{other:?} waits"),
            };
        }
        let &(key, _) = self.early.first().filter(|first| first.1 < early_ns)?;
        match self.remove(key) {
            Some(Naively::Early(reply)) => Some(Expired::Reply(reply)),
            other => panic!("{other:?} is early"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_table_does_what_a_naive_one_does(
        steps in vec((0..12_u8, 0..24_u32, 0..3_u32, 0..8_u64), 0..300),
    ) {
        let (mut calls, mut naive) = (CallTable::new(), Naive::default());
        // Some xids follow each other, some collide in every ring, and both ends call.
        let keys = |number: u32| match number {
            0..12 => key(0, u32::MAX - 6_u32.wrapping_sub(number)),
            12..20 => key(0, number << 16),
            _ => key(1, number - 20),
        };
        let lingers = |call| call % 4 == 0;
        for (step, (what, number, pass, argument)) in steps.into_iter().enumerate() {
            let (key, id, now) = (keys(number), step as u32, (step / 4) as i64);
            let (keep, before_ns) = (argument as usize, now - i64::from(pass) * 9);
            match what {
                0..4 => {
                    let found = naive.on_call(key, argument);
                    prop_assert_eq!(calls.on_call(key, argument), found);
                    if !naive.states.contains_key(&key) {
                        naive.replace(key, id, now);
                        calls.outstanding(key, id, now);
                    } else if pass == 0 {
                        let replaced = naive.replace(key, id, now);
                        prop_assert_eq!(calls.replace(key, id, now), replaced);
                    }
                }
                4..7 => {
                    calls.answered(key, id, argument);
                    naive.end(key, Naively::Answered(id, argument));
                    if pass > 0 {
                        let evicted = naive.evict(keep, now, lingers);
                        prop_assert_eq!(calls.evict_answered(keep, now, lingers), evicted);
                    }
                }
                7 => {
                    let evicted = naive.evict_lingering(before_ns);
                    prop_assert_eq!(calls.evict_lingering(before_ns), evicted);
                }
                8 => {
                    if let Some(Naively::Answered(..)) = naive.states.get(&key) {
                        naive.remove(key);
                    }
                    calls.forget(key);
                }
                9 => {
                    naive.end(key, Naively::Expired);
                    calls.give_up(key);
                }
                10 => {
                    naive.early(key, id, now);
                    calls.early(key, id, now);
                }
                _ => {
                    let before = [before_ns, now - i64::from(argument as u8)];
                    prop_assert_eq!(calls.expire(before), naive.expire(before));
                }
            }
            for number in 0..24 {
                let key = keys(number);
                let state = naive.states.get(&key).copied();
                prop_assert_eq!(calls.on_reply(key), naive.on_reply(key));
                let is_outstanding = matches!(state, Some(Naively::Outstanding(_)));
                prop_assert_eq!(calls.is_outstanding(key), is_outstanding);
                let early = match state {
                    Some(Naively::Early(reply)) => Some(reply),
                    _ => None,
                };
                prop_assert_eq!(calls.is_early(key), early.is_some());
                prop_assert_eq!(calls.early_reply(key).copied(), early);
            }
            prop_assert_eq!(calls.len(), naive.states.len());
            let waiting: Vec<u64> = naive.waiting.iter().map(|&(key, _)| key).collect();
            prop_assert_eq!(calls.outstanding_keys().collect::<Vec<_>>(), waiting);
            prop_assert_eq!(calls.early_mut().count(), naive.early.len());
            if argument == 0 {
                prop_assert_eq!(calls.take_waiting_max(), naive.waiting_max);
                naive.waiting_max = naive.waiting.len();
            }
        }
    }
}
