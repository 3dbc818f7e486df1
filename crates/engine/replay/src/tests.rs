//! Random scripts in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lineside_nfs::v4::Operation as Name4;
use lineside_plan::{Begin, CallIndex, EdgeKind, Step};
use lineside_time::Random;

use crate::figures::Repairs;
use crate::nfs3::inner_target;
use crate::replay::{Replay, Settings};
use crate::script::{Call, Facts, Operation, Procedure, Program, Script, Why};
use crate::walk::{Pace, Walk};

const PACES: [Pace; 3] = [Pace::Closed, Pace::Open, Pace::Fast];

/// Calls of a few threads, which wait for earlier ones in any way.
fn script(random: &mut Random) -> Script {
    let count = 1 + random.below(60) as u32;
    let threads = 1 + random.below(4);
    let mut script = Script::default();
    let mut now = 1_000_000_000;
    for index in 0..count {
        now += random.below(5_000_000) as i64;
        let earlier = |random: &mut Random| random.below(index.into()) as CallIndex;
        let begin = match index > 0 && random.chance(0.8) {
            true => Begin::After {
                call: earlier(random),
                think_ns: random.below(3_000_000) as i64,
            },
            false => Begin::At(now - 1_000_000_000),
        };
        script.steps.push(Step {
            thread: random.below(threads) as u32,
            begin,
        });
        for _ in 0..random.below(3) {
            let kinds = [EdgeKind::Resource, EdgeKind::Trigger, EdgeKind::Window];
            let kind = kinds[random.below(3) as usize];
            if index > 0 {
                script.edges.push((earlier(random), index, kind));
            }
        }
        script.calls.push(Call {
            call_ns: now,
            program: Some(Program::Nfs3),
            is_answered: true,
            ..Call::default()
        });
    }
    script
}

/// What a run came to: when each call was made and ended.
fn run(script: &Script, pace: Pace, speed: f64, seed: u64) -> Vec<(i64, i64)> {
    let mut random = Random::new(seed);
    let mut walk = Walk::new(script, pace, speed, 0);
    let mut times = vec![(i64::MIN, i64::MIN); script.calls.len()];
    let mut replies = BinaryHeap::new();
    let mut now = 0;
    loop {
        while let Some(call) = walk.next(now) {
            let time = &mut times[call as usize];
            assert_eq!(time.0, i64::MIN, "call {call} is made twice");
            time.0 = now;
            replies.push(Reverse((now + 1 + random.below(2_000_000) as i64, call)));
        }
        let reply = replies.peek().map(|Reverse((at, _))| *at);
        let Some(next) = reply.into_iter().chain(walk.next_deadline()).min() else {
            break;
        };
        assert!(next >= now, "time goes on");
        now = next;
        while let Some(&Reverse((at, call))) = replies.peek()
            && at <= now
        {
            replies.pop();
            times[call as usize].1 = now;
            walk.on_end(now, call);
        }
    }
    assert!(walk.is_over(), "all calls are made, and all end");
    let [all, kept] = walk.edges_kept();
    assert_eq!(all, kept);
    times
}

#[test]
fn no_call_of_a_thousand_plans_is_before_what_it_needs() {
    for seed in 0..1_000 {
        let script = script(&mut Random::new(seed));
        for pace in PACES {
            let times = run(&script, pace, 1.0, seed);
            for &(from, to, kind) in &script.edges {
                let is_kept = times[to as usize].0 >= times[from as usize].1;
                let is_asked = pace != Pace::Open || kind == EdgeKind::Resource;
                assert!(is_kept || !is_asked, "seed {seed} {pace:?}: {from} {to}");
            }
            for (index, call) in script.calls.iter().enumerate() {
                let made = times[index].0;
                match (pace, script.steps[index].begin) {
                    (Pace::Open, _) => assert!(made >= call.call_ns - script.calls[0].call_ns),
                    (Pace::Closed, Begin::At(at)) => assert!(made >= at, "seed {seed}"),
                    (Pace::Closed, Begin::After { call, think_ns }) => {
                        let ended = times[call as usize].1;
                        assert!(made >= ended + think_ns, "seed {seed}");
                    }
                    (Pace::Fast, Begin::After { call, .. }) => {
                        assert!(made >= times[call as usize].1, "seed {seed}");
                    }
                    (Pace::Fast, Begin::At(_)) => {}
                }
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_nanosecond() {
    for seed in 0..50 {
        let script = script(&mut Random::new(seed));
        for pace in PACES {
            assert_eq!(run(&script, pace, 1.0, seed), run(&script, pace, 1.0, seed));
        }
    }
}

#[test]
fn twice_the_speed_halves_the_times_of_the_trace() {
    let calls = [0, 10_000, 30_000].map(|call_ns| Call {
        call_ns,
        program: Some(Program::Nfs3),
        is_answered: true,
        ..Call::default()
    });
    let steps = [0, 10_000, 30_000].map(|at| Step {
        thread: 0,
        begin: Begin::At(at),
    });
    let script = Script {
        calls: calls.into(),
        steps: steps.into(),
        ..Script::default()
    };
    for pace in [Pace::Closed, Pace::Open] {
        let made: Vec<_> = run(&script, pace, 2.0, 1).iter().map(|it| it.0).collect();
        assert_eq!(made, [0, 5_000, 15_000], "{pace:?}");
    }
}

#[test]
fn links_hold_no_path_that_leads_out() {
    let mut repairs = Repairs::default();
    let cases: [(&[u8], &[u8]); 5] = [
        (b"a/b", b"a/b"),
        (b"..a/b..", b"..a/b.."),
        (b"/etc/passwd", b"_etc_passwd"),
        (b"a/../../b", b"a_______b"),
        (b"..", b"__"),
    ];
    for (target, expected) in cases {
        assert_eq!(inner_target(target, &mut repairs), expected);
    }
    assert_eq!(repairs.links, 3);
}

#[test]
fn files_are_needed_that_no_earlier_reply_named() {
    let operation = |file, made| Operation {
        file: Some(file),
        made,
        ..Operation::default()
    };
    let operations = [
        operation(1, Some(2)),
        operation(2, None),
        operation(3, None),
        operation(3, Some(1)),
    ];
    let script = Script {
        calls: operations
            .map(|operation| Call {
                operations: vec![operation],
                ..Call::default()
            })
            .into(),
        roots: vec![1],
        ..Script::default()
    };
    assert_eq!(script.needed(), [3]);
}

#[test]
fn in_open_loop_a_call_waits_for_the_last_that_gave_its_state() {
    let call = |call_ns, used: Option<u8>, given: Option<u8>| {
        let bytes = |it: Option<u8>| it.map(|it| vec![it; 12].into_boxed_slice());
        let facts = Facts {
            stateid: bytes(used),
            reply_stateid: bytes(given),
            ..Facts::default()
        };
        Call {
            call_ns,
            program: Some(Program::Nfs4(0)),
            is_answered: true,
            operations: vec![Operation {
                facts: Some(Box::new(facts)),
                ..Operation::default()
            }],
            ..Call::default()
        }
    };
    // OPEN, OPEN_CONFIRM, WRITE.
    let steps = (0..3).map(|at| Step {
        thread: 0,
        begin: Begin::At(at),
    });
    let script = Script {
        calls: vec![
            call(0, None, Some(7)),
            call(1, Some(7), Some(7)),
            call(2, Some(7), None),
        ],
        steps: steps.collect(),
        ..Script::default()
    };
    let times = run(&script, Pace::Open, 1.0, 7);
    assert!(times[1].0 >= times[0].1, "{times:?}");
    assert!(times[2].0 >= times[1].1, "{times:?}");
}

#[test]
fn in_open_loop_a_call_waits_for_the_handle_that_it_uses() {
    let call = |call_ns, file, made| Call {
        call_ns,
        program: Some(Program::Nfs3),
        is_answered: true,
        operations: vec![Operation {
            file: Some(file),
            made,
            ..Operation::default()
        }],
        ..Call::default()
    };
    // The plan has a trigger alone.
    let begin = |begin| Step { thread: 0, begin };
    let script = Script {
        calls: vec![call(0, 1, Some(2)), call(1, 2, None), call(1, 1, None)],
        steps: vec![
            begin(Begin::At(0)),
            begin(Begin::After {
                call: 0,
                think_ns: 0,
            }),
            begin(Begin::At(1)),
        ],
        ..Script::default()
    };
    let times = run(&script, Pace::Open, 1.0, 7);
    assert!(times[1].0 >= times[0].1, "{times:?}");
    assert_eq!(times[2].0, 1, "{times:?}");
}

/// nfs-ganesha's client of NFSv4.1 looks at the root with its RECLAIM_COMPLETE.
#[test]
fn a_compound_that_opens_a_session_is_the_clients_own() {
    let compound = |names: &[Name4]| Call {
        program: Some(Program::Nfs4(1)),
        operations: { names.iter() }
            .map(|&name| Operation {
                procedure: Some(Procedure::Nfs4(name)),
                ..Operation::default()
            })
            .collect(),
        ..Call::default()
    };
    let look = [Name4::PutRootFh, Name4::GetAttr];
    let looks = |first: &[Name4]| compound(&[first, &look[..]].concat());
    let mut script = Script {
        calls: vec![
            looks(&[Name4::Sequence, Name4::ReclaimComplete]),
            compound(&[Name4::Sequence]),
            looks(&[Name4::Sequence]),
        ],
        ..Script::default()
    };
    script.keep_version();
    let left_out: Vec<_> = script.calls.iter().map(|call| call.left_out).collect();
    assert_eq!(left_out, [Some(Why::Session), Some(Why::Session), None]);
}

/// The time at which a call is issued is that of calls alone.
#[test]
fn what_is_left_out_is_not_made() {
    let script = Script {
        calls: vec![Call::default(); 3],
        steps: vec![
            Step {
                thread: 0,
                begin: Begin::At(0),
            };
            3
        ],
        ..Script::default()
    };
    let settings = Settings {
        pace: Pace::Fast,
        speed: 1.0,
        user: None,
        seed: 0,
        export: Vec::new(),
        top: Vec::new(),
        tops: Vec::new(),
    };
    let mut replay = Replay::new(&script, settings);
    replay.begin(Walk::new(&script, Pace::Fast, 1.0, 0));
    assert_eq!(replay.made().count(), 0);
    let opening = replay.next(0).expect("it is due");
    replay.on_done(1, opening, None);
    let lacking = replay.next(1).expect("it is due");
    replay.on_done(1, lacking, Some(Why::Arguments));
    assert_eq!(replay.made().count(), 0);
    replay.next(2).expect("it is due");
    assert_eq!(replay.made().count(), 1);
    assert!(!replay.is_over());
}
