//! Random scripts in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lineside_nfs::v4::Operation as Name4;
use lineside_nfs_client::Request;
use lineside_plan::{Begin, CallIndex, EdgeKind, Step};
use lineside_time::Random;

use crate::call::{Call, Facts, FileId, Operation, Procedure, Program, Why};
use crate::figures::Repairs;
use crate::nfs3::inner_target;
use crate::replay::{Replay, Settings};
use crate::script::{Edge, Head, Script, Waits};
use crate::walk::{Pace, WINDOW_CALLS, Walk};
use crate::writer::Writer;

const PACES: [Pace; 3] = [Pace::Closed, Pace::Open, Pace::Fast];

/// A script of calls, with what each waits for.
pub(crate) fn written(
    calls: impl IntoIterator<Item = (Call, Step, Vec<Edge>)>,
    roots: &[FileId],
) -> Script {
    let mut writer = Writer::new(Box::new(Vec::new()));
    writer.roots = roots.to_vec();
    for (call, step, edges) in calls {
        writer.push(&call, step, &edges).expect("memory");
    }
    writer.finish().expect("memory")
}

pub(crate) fn heads_of(script: &Script) -> Vec<Head> {
    let mut heads = script.heads();
    std::iter::from_fn(|| heads.read().expect("memory")).collect()
}

pub(crate) fn calls_of(script: &Script) -> Vec<Call> {
    let heads = heads_of(script).into_iter();
    heads
        .map(|head| script.call(head.body).expect("memory"))
        .collect()
}

fn at(ns: i64) -> Step {
    Step {
        thread: 0,
        begin: Begin::At(ns),
    }
}

/// Calls of a few threads, which wait for earlier ones in any way.
fn script(random: &mut Random) -> Script {
    let count = 1 + random.below(200) as u32;
    let threads = 1 + random.below(4);
    let mut calls = Vec::new();
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
        let step = Step {
            thread: random.below(threads) as u32,
            begin,
        };
        let mut edges = Vec::new();
        for _ in 0..random.below(3) {
            let kinds = [EdgeKind::Resource, EdgeKind::Trigger, EdgeKind::Window];
            let kind = kinds[random.below(3) as usize];
            if index > 0 {
                edges.push((earlier(random), Waits::Plan(kind)));
            }
        }
        let call = Call {
            id: index.into(),
            call_ns: now,
            program: Some(Program::Nfs3),
            is_answered: true,
            ..Call::default()
        };
        calls.push((call, step, edges));
    }
    written(calls, &[])
}

/// What a run came to: when each call was made and ended.
fn run(script: &Script, pace: Pace, speed: f64, seed: u64, window: usize) -> Vec<(i64, i64)> {
    let mut random = Random::new(seed);
    let mut walk = Walk::new(script, pace, speed, window);
    walk.begin(0);
    let mut times = vec![(i64::MIN, i64::MIN); script.len() as usize];
    let mut replies = BinaryHeap::new();
    let mut now = 0;
    loop {
        while let Some((call, body)) = walk.next(now) {
            assert_eq!(script.call(body).expect("memory").id, i64::from(call));
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
    assert!(walk.take_failure().is_none());
    times
}

#[test]
fn no_call_of_a_thousand_plans_is_before_what_it_needs() {
    for seed in 0..1_000 {
        let script = script(&mut Random::new(seed));
        let heads = heads_of(&script);
        // In a window of 64 calls, too, which are fewer than the script may have.
        for (pace, window) in PACES
            .iter()
            .flat_map(|pace| [(*pace, 64), (*pace, WINDOW_CALLS)])
        {
            let times = run(&script, pace, 1.0, seed, window);
            for head in &heads {
                let index = head.index as usize;
                let made = times[index].0;
                for &(from, waits) in &head.edges {
                    let is_kept = made >= times[from as usize].1;
                    let resource = Waits::Plan(EdgeKind::Resource);
                    let is_asked = pace != Pace::Open || waits == resource;
                    assert!(is_kept || !is_asked, "seed {seed} {pace:?}: {from} {index}");
                }
                match (pace, head.step.begin) {
                    (Pace::Open, _) => assert!(made >= head.call_ns - heads[0].call_ns),
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
            let once = || run(&script, pace, 1.0, seed, WINDOW_CALLS);
            assert_eq!(once(), once());
        }
    }
}

#[test]
fn twice_the_speed_halves_the_times_of_the_trace() {
    let call = |(id, call_ns)| Call {
        id,
        call_ns,
        program: Some(Program::Nfs3),
        is_answered: true,
        ..Call::default()
    };
    let calls = [(0, 0), (1, 10_000), (2, 30_000)];
    let script = written(calls.map(|it| (call(it), at(it.1), Vec::new())), &[]);
    for pace in [Pace::Closed, Pace::Open] {
        let times = run(&script, pace, 2.0, 1, WINDOW_CALLS);
        let made: Vec<_> = times.iter().map(|it| it.0).collect();
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
    let calls = operations.map(|operation| {
        let call = Call {
            operations: vec![operation],
            ..Call::default()
        };
        (call, at(0), Vec::new())
    });
    assert_eq!(written(calls, &[1]).survey.needed, [3]);
}

#[test]
fn in_open_loop_a_call_waits_for_the_last_that_gave_its_state() {
    let call = |id: i64, used: Option<u8>, given: Option<u8>| {
        let bytes = |it: Option<u8>| it.map(|it| vec![it; 12].into_boxed_slice());
        let facts = Facts {
            stateid: bytes(used),
            reply_stateid: bytes(given),
            ..Facts::default()
        };
        Call {
            id,
            call_ns: id,
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
    let calls = [
        call(0, None, Some(7)),
        call(1, Some(7), Some(7)),
        call(2, Some(7), None),
    ];
    let script = written(
        calls.map(|call| (call.clone(), at(call.id), Vec::new())),
        &[],
    );
    let times = run(&script, Pace::Open, 1.0, 7, WINDOW_CALLS);
    assert!(times[1].0 >= times[0].1, "{times:?}");
    assert!(times[2].0 >= times[1].1, "{times:?}");
    // Two READs, and the CLOSE after them: it would be in the way of one that is late.
    let mut close = call(3, Some(7), Some(7));
    close.operations[0].procedure = Some(Procedure::Nfs4(Name4::Close));
    let calls = [
        call(0, None, Some(7)),
        call(1, Some(7), None),
        call(2, Some(7), None),
        close,
    ];
    let script = written(
        calls.map(|call| (call.clone(), at(call.id), Vec::new())),
        &[],
    );
    let times = run(&script, Pace::Open, 1.0, 7, WINDOW_CALLS);
    assert!(times[3].0 >= times[1].1.max(times[2].1), "{times:?}");
}

#[test]
fn in_open_loop_a_call_waits_for_the_handle_that_it_uses() {
    let call = |id: i64, file, made| Call {
        id,
        call_ns: id.min(1),
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
    let after = Step {
        thread: 0,
        begin: Begin::After {
            call: 0,
            think_ns: 0,
        },
    };
    let calls = [
        (call(0, 1, Some(2)), at(0), Vec::new()),
        (call(1, 2, None), after, Vec::new()),
        (call(2, 1, None), at(1), Vec::new()),
    ];
    let script = written(calls, &[]);
    let times = run(&script, Pace::Open, 1.0, 7, WINDOW_CALLS);
    assert!(times[1].0 >= times[0].1, "{times:?}");
    assert_eq!(times[2].0, 1, "{times:?}");
    // In closed loop one at a time of day does, too.
    let calls = [call(0, 1, Some(2)), call(1, 2, None), call(2, 1, None)];
    let calls = calls.map(|call| {
        let thread = call.id as u32;
        let step = Step { thread, ..at(1) };
        (call, step, Vec::new())
    });
    let times = run(&written(calls, &[]), Pace::Closed, 1.0, 7, WINDOW_CALLS);
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
    let mut calls = [
        looks(&[Name4::Sequence, Name4::ReclaimComplete]),
        compound(&[Name4::Sequence]),
        looks(&[Name4::Sequence]),
    ];
    calls.iter_mut().for_each(|call| call.keep_version(Some(1)));
    let left_out = calls.map(|call| call.left_out);
    assert_eq!(left_out, [Some(Why::Session), Some(Why::Session), None]);
}

/// The time at which a call is issued is that of calls alone.
#[test]
fn what_is_left_out_is_not_made() {
    let script = written((0..3).map(|_| (Call::default(), at(0), Vec::new())), &[]);
    let settings = Settings {
        pace: Pace::Fast,
        speed: 1.0,
        user: None,
        patience_ns: 0,
        seed: 0,
        export: Vec::new(),
        top: Vec::new(),
        tops: Vec::new(),
    };
    let mut replay = Replay::new(&script, settings, WINDOW_CALLS);
    replay.begin(0);
    let made = |replay: &Replay<'_>| -> u64 {
        let late = replay.walk().lateness();
        late.steps().map(|(_, count)| count).sum()
    };
    let opening = replay.next(0).expect("it is due");
    replay.on_done(1, opening, None);
    let lacking = replay.next(1).expect("it is due");
    replay.on_done(1, lacking, Some(Why::Arguments));
    assert_eq!(made(&replay), 0);
    replay.next(2).expect("it is due");
    assert_eq!(made(&replay), 1);
    assert!(!replay.is_over());
}

/// What a WRITE writes is the same, drawn ahead or not, and no more than there is room for.
#[test]
fn what_is_drawn_ahead_is_what_is_written() {
    let write = |id: i64| {
        let operation = Operation {
            id,
            procedure: Some(Procedure::Nfs3(lineside_nfs::v3::Procedure::Write)),
            file: Some(7),
            offset: Some(id.cast_unsigned() << 20),
            count: Some(1 << 20),
            sums: (0..2_048).map(|block| (block, block % 5)).collect(),
            facts: Some(Box::new(Facts {
                stable_how: Some("UNSTABLE".into()),
                ..Facts::default()
            })),
            ..Operation::default()
        };
        let call = Call {
            id,
            program: Some(Program::Nfs3),
            is_answered: true,
            operations: vec![operation],
            ..Call::default()
        };
        (call, at(id), Vec::new())
    };
    let script = written((0..40).map(write), &[7]);
    let settings = Settings {
        pace: Pace::Closed,
        speed: 1.0,
        user: None,
        patience_ns: 0,
        seed: 3,
        export: Vec::new(),
        top: vec![1],
        tops: Vec::new(),
    };
    let sent = |ahead: bool| {
        let mut replay = Replay::new(&script, settings.clone(), WINDOW_CALLS);
        replay.begin(0);
        let mut sent = Vec::new();
        for now in 0..40 {
            let mut drawn = 0;
            while ahead && replay.draw_ahead() {
                drawn += 1;
            }
            assert!(drawn <= 16, "{drawn}");
            let call = replay.next(now).expect("it is due");
            let made = replay.request(call, |_, request| match request {
                Request::Nfs3(_, data) => sent.push(data.to_vec()),
                _ => unreachable!("it is a WRITE"),
            });
            assert_eq!(made, Ok(()));
            replay.on_lost(now, call);
        }
        sent
    };
    assert_eq!(sent(true), sent(false));
}

/// No row has the state of what is copied: without an OPEN of it that is the anonymous one.
#[test]
fn a_copy_is_asked_for_without_callbacks() {
    let operation = |name: Name4, file: FileId| Operation {
        procedure: Some(Procedure::Nfs4(name)),
        file: Some(file),
        ..Operation::default()
    };
    let copy = Operation {
        file2: Some(5),
        offset: Some(4_096),
        length: Some(1 << 20),
        facts: Some(Box::new(Facts {
            stateid: Some(vec![9; 12].into()),
            source_offset: Some(512),
            ..Facts::default()
        })),
        ..operation(Name4::Copy, 6)
    };
    let call = Call {
        program: Some(Program::Nfs4(2)),
        is_answered: true,
        operations: vec![
            operation(Name4::PutFh, 5),
            operation(Name4::SaveFh, 5),
            operation(Name4::PutFh, 6),
            copy,
        ],
        ..Call::default()
    };
    let script = written([(call, at(0), Vec::new())], &[]);
    let settings = Settings {
        pace: Pace::Closed,
        speed: 1.0,
        user: None,
        patience_ns: 0,
        seed: 0,
        export: Vec::new(),
        top: vec![1],
        tops: Vec::new(),
    };
    let mut replay = Replay::new(&script, settings, WINDOW_CALLS);
    replay.know(5, b"five");
    replay.know(6, b"six");
    replay.begin(0);
    let call = replay.next(0).expect("it is due");
    let asked = replay.request(call, |_, request| match request {
        Request::Compound { calls, .. } => format!("{:?}", calls[3]),
        _ => String::new(),
    });
    let asked = asked.expect("it is made");
    for words in ["Copy", "4096", "1048576", "512", "synchronous: Some(true)"] {
        assert!(asked.contains(words), "{words}: {asked}");
    }
    assert_eq!(replay.figures().repairs.states, 2);
}
