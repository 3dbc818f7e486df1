//! The cache against a model of plain lists.

use proptest::prelude::*;

use super::*;

const FRAMES: u32 = 12;

fn cache(entries: u32) -> Cache {
    Cache::new(entries, FRAMES, &Budget::new(1 << 20)).expect("fits")
}

fn receive(cache: &mut Cache, frame: u32) -> Bound {
    let bound = cache.receive_bind(FrameId(frame));
    cache.receive_complete(FrameId(frame), Residence::Entry);
    bound
}

/// The same rules on plain lists, searched from end to end.
#[derive(Debug, Default)]
struct Model {
    /// The most recently used one last: unbound, victim, priority; entry and frame.
    queues: [Vec<(u32, Option<u32>)>; 3],
    /// Entry, frame, transfers, whether a receive, whether stale.
    pending: Vec<(u32, u32, u32, bool, bool)>,
}

impl Model {
    fn waiting(&mut self, frame: u32) -> Option<(u32, Option<u32>)> {
        for queue in &mut self.queues {
            if let Some(at) = queue.iter().position(|&(_, bound)| bound == Some(frame)) {
                return Some(queue.remove(at));
            }
        }
        None
    }

    fn pending(&self, frame: u32) -> Option<usize> {
        self.pending.iter().position(|each| each.1 == frame)
    }

    fn bind(&mut self, frame: u32, is_receive: bool) -> Option<(u32, Option<u32>)> {
        if let Some(at) = self.pending(frame) {
            let each = &mut self.pending[at];
            let can = !is_receive && !each.3 && !each.4;
            each.2 += u32::from(can);
            return can.then_some((each.0, None));
        }
        if let Some((entry, _)) = self.waiting(frame) {
            if !is_receive {
                self.pending.push((entry, frame, 1, false, false));
                return Some((entry, None));
            }
            self.queues[0].push((entry, None));
        }
        let (entry, old) = self.queues.iter_mut().find_map(Vec::pop)?;
        self.pending.push((entry, frame, 1, is_receive, false));
        Some((entry, old))
    }

    fn complete(&mut self, frame: u32, is_receive: bool) -> bool {
        let at = self.pending(frame);
        let Some(at) = at.filter(|&at| self.pending[at].3 == is_receive) else {
            return false;
        };
        self.pending[at].2 -= 1;
        if self.pending[at].2 == 0 {
            let (entry, frame, .., is_stale) = self.pending.remove(at);
            let queue = if is_stale {
                0
            } else {
                1 + usize::from(is_receive)
            };
            self.queues[queue].push((entry, (!is_stale).then_some(frame)));
        }
        true
    }

    /// `to_priority`: advice to promote; else the binding ends.
    fn move_to(&mut self, frame: u32, to_priority: bool) -> bool {
        let waiting = self.waiting(frame);
        waiting.is_some_and(|(entry, frame)| {
            let queue = if to_priority { 2 } else { 0 };
            self.queues[queue].push((entry, frame.filter(|_| to_priority)));
            true
        })
    }
}

fn entry_of(bound: Bound) -> Option<(u32, Option<u32>)> {
    match bound {
        Bound::Hit(entry) => Some((entry.0, None)),
        Bound::New(entry, evicted) => Some((entry.0, evicted.map(|evicted| evicted.frame.0))),
        Bound::Past => None,
    }
}

proptest! {
    #[test]
    fn random_calls_do_what_the_model_does(
        entries in 0_u32..8,
        calls in proptest::collection::vec((0_u8..7, 0..FRAMES), 1..300),
    ) {
        let mut cache = cache(entries);
        let mut model = Model::default();
        model.queues[0] = (0..entries).rev().map(|entry| (entry, None)).collect();
        for (call, frame) in calls {
            let id = FrameId(frame);
            match call {
                0 => prop_assert_eq!(entry_of(cache.receive_bind(id)), model.bind(frame, true)),
                1 => prop_assert_eq!(entry_of(cache.send_bind(id)), model.bind(frame, false)),
                2 => {
                    let done = cache.receive_complete(id, Residence::Both);
                    prop_assert_eq!(done, model.complete(frame, true));
                }
                3 => prop_assert_eq!(cache.send_complete(id), model.complete(frame, false)),
                4 => {
                    let at = model.pending(frame);
                    at.into_iter().for_each(|at| model.pending[at].4 = true);
                    let done = at.is_some() || model.move_to(frame, false);
                    prop_assert_eq!(cache.invalidate_binding(id), done);
                }
                5 => prop_assert_eq!(cache.advise(id, Advice::Demote), model.move_to(frame, false)),
                _ => prop_assert_eq!(cache.advise(id, Advice::Promote), model.move_to(frame, true)),
            }
            let lens = QUEUES.map(|queue| cache.len(queue));
            let expected: Vec<_> = model.queues.iter().map(Vec::len).collect();
            prop_assert_eq!(&lens[..], &expected[..]);
            prop_assert_eq!(cache.pending(), model.pending.len());
            let posted = model.pending.iter().filter(|each| each.3).count();
            prop_assert_eq!(cache.effective(), entries as usize - posted);
        }
    }
}

#[test]
fn the_payload_that_was_received_last_is_evicted_first() {
    let mut cache = cache(3);
    for frame in 0..3 {
        receive(&mut cache, frame);
    }
    let only_copy = |frame| {
        Some(Evicted {
            frame: FrameId(frame),
            is_only_copy: true,
        })
    };
    assert_eq!(receive(&mut cache, 3), Bound::New(EntryId(2), only_copy(2)));
    cache.send_bind(FrameId(0));
    cache.send_complete(FrameId(0));
    // A payload that was sent goes before all that were not.
    assert_eq!(receive(&mut cache, 4), Bound::New(EntryId(0), only_copy(0)));
}

#[test]
fn a_multicast_payload_is_pending_until_its_last_send() {
    let mut cache = cache(1);
    receive(&mut cache, 0);
    for _ in 0..3 {
        assert_eq!(cache.send_bind(FrameId(0)), Bound::Hit(EntryId(0)));
    }
    for _ in 0..2 {
        assert!(cache.send_complete(FrameId(0)));
        assert_eq!(cache.receive_bind(FrameId(1)), Bound::Past);
    }
    assert!(cache.send_complete(FrameId(0)));
    assert_eq!(cache.len(Queue::Victim), 1);
}

#[test]
fn a_change_while_it_is_sent_takes_effect_afterwards() {
    let mut cache = cache(2);
    receive(&mut cache, 0);
    cache.send_bind(FrameId(0));
    assert!(cache.invalidate_binding(FrameId(0)));
    assert_eq!(cache.send_bind(FrameId(0)), Bound::Past);
    assert_eq!(cache.pending(), 1);
    assert!(cache.send_complete(FrameId(0)));
    assert_eq!(
        (cache.len(Queue::Unbound), cache.state(FrameId(0))),
        (2, None)
    );
}

#[test]
fn a_send_that_missed_lets_the_next_one_hit() {
    let mut cache = cache(2);
    assert_eq!(cache.send_bind(FrameId(5)), Bound::New(EntryId(0), None));
    assert_eq!(cache.send_bind(FrameId(5)), Bound::Hit(EntryId(0)));
    let counters = cache.counters();
    assert_eq!((counters.hits, counters.misses), (1, 1));
}

#[test]
fn a_copy_in_the_host_makes_an_eviction_harmless() {
    let mut cache = cache(1);
    receive(&mut cache, 0);
    cache.copied_to_host(FrameId(0));
    let evicted = Evicted {
        frame: FrameId(0),
        is_only_copy: false,
    };
    assert_eq!(
        receive(&mut cache, 1),
        Bound::New(EntryId(0), Some(evicted))
    );
}

#[test]
fn frames_without_a_place_in_the_table_go_past() {
    let mut cache = cache(1);
    assert_eq!(cache.receive_bind(FrameId(FRAMES)), Bound::Past);
    assert_eq!(cache.send_bind(FrameId(NONE)), Bound::Past);
    assert!(!cache.send_complete(FrameId(NONE)));
    assert!(Cache::new(1000, 1000, &Budget::new(100)).is_none());
}
