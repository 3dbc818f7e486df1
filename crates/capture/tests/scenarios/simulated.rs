//! Simulated connections, by seed: a network that loses and reorders, and a tap that misses, sees
//! twice, or is two taps whose clocks differ. Every row is true, what the tap saw whole is all
//! there, and where anything is not, the verdict does not claim to be complete.

use std::ops::Range;

use lineside_run::{Evidence, judge};
use lineside_testkit::simulator::{Conditions, Exchange, PORT, Scene, simulate};
use lineside_testkit::wrap::mirror;
use lineside_trace::{State, Verdict};

use super::*;

/// The flags of TCP in a frame.
const FLAGS_AT: usize = 14 + 20 + 13;

/// A share of the seeds of each kind: 1,000. `LINESIDE_SEEDS=100000` for a long run,
/// `LINESIDE_SEEDS=57527..57528` for the seed of a failure.
fn seeds(one_in: u64) -> Range<u64> {
    let text = std::env::var("LINESIDE_SEEDS").unwrap_or_else(|_| "1000".to_owned());
    let number = |text: &str| text.parse::<u64>().expect("a number, or two as in 5..7");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&text) / one_in,
    }
}

/// Operations of a client, and the rows that they are: those of a capture in which every message
/// comes at once.
fn conversation(seed: u64) -> (Vec<Exchange>, CollectedRows) {
    let mut random = Random::new(seed ^ 0xc0ffee);
    let mut values = Values(Random::new(!seed));
    let (file, first) = (file(PORT), random.bits() as u32);
    let mut connection = TcpConnection::new(PORT, [1, 1]);
    let mut frames: Vec<Vec<u8>> = connection.handshake().into();
    let mut exchanges = Vec::new();
    for index in 0..4 + random.below(12) as u32 {
        let xid = first.wrapping_add(index);
        let most = if random.chance(0.2) { 60_000 } else { 3_000 };
        let records = operation(&mut random, &mut values, xid, &file, most).map(|message| {
            let fragments = if random.chance(0.1) {
                vec![60, 200]
            } else {
                vec![]
            };
            let mut record = Vec::new();
            encode_record(&fragments, &message, &mut record);
            record
        });
        for (direction, record) in records.iter().enumerate() {
            let parts = record.chunks(8_900);
            let segments = parts.map(|part| connection.segment(direction, TcpFlags::ACK, part));
            frames.extend(segments);
        }
        let [call, reply] = records;
        exchanges.push(Exchange { call, reply });
    }
    let steps = frames.into_iter().enumerate();
    let steps = steps.map(|(at, bytes)| (at as u64, bytes)).collect();
    let (rows, _) = run(&merge(&[steps]));
    assert_eq!(rows.operations.len(), exchanges.len());
    (exchanges, rows)
}

fn rows_of(frames: &[(u16, capture::Frame)], config: Config) -> (CollectedRows, Verdict) {
    let budget = Budget::new(128 << 20);
    let mut pipeline = Pipeline::new(config, &budget, CollectedRows::default());
    let mut burst = Burst::new();
    let mut numbers = [0; 2];
    for (ordinal, (input, frame)) in frames.iter().enumerate() {
        let number = &mut numbers[usize::from(*input)];
        *number += 1;
        let descriptor = Descriptor {
            stamp_ns: frame.stamp_ns,
            wire_len: frame.wire_len,
            link_type: LinkType(frame.link_type),
            input: *input,
            number: *number,
            ordinal: ordinal as u64 + 1,
            ..Descriptor::default()
        };
        burst.push(Frame::copied(&frame.bytes, descriptor));
        if ordinal % 29 == 0 {
            pipeline.on_burst(&mut burst);
        }
    }
    pipeline.on_burst(&mut burst);
    let (rows, counters) = pipeline.finish();
    assert_eq!(counters.broken_identity(), None);
    let verdict = judge(&Evidence {
        counters,
        looks_for_rpc: true,
        ..Evidence::default()
    });
    (rows, verdict)
}

/// Every row is one of the truth, once. Whether all are there, whole.
fn judge_rows(rows: &CollectedRows, truth: &CollectedRows, what: &str) -> bool {
    let (here, truth) = (by_key(&rows.operations), by_key(&truth.operations));
    for (key, rows) in &here {
        let whole = truth.get(key);
        let whole = whole.unwrap_or_else(|| panic!("{what}: {key:?} never was: {rows:#?}"))[0];
        // Where clocks differ too much, a call and its reply may be two rows.
        let calls = rows.iter().filter(|row| !row.call_missing).count();
        let replies = rows.iter().filter(|row| !row.reply_missing).count();
        assert!(calls <= 1 && replies <= 1, "{what}: {key:?}: {rows:#?}");
        for row in rows {
            let field = contradiction(row, whole);
            assert_eq!(field, None, "{what}: {row:#?}\ntruth: {whole:#?}");
        }
    }
    let is_whole = |row: &OperationRow| {
        let is_missing = row.call_missing || row.reply_missing;
        let is_cut = row.call_incomplete || row.reply_incomplete || row.data_incomplete;
        !is_missing && !is_cut && !row.repeat
    };
    rows.operations.len() == truth.len() && rows.operations.iter().all(is_whole)
}

/// Judges a scene: a verdict of `complete` means that all is there; and where the tap missed
/// nothing, it is `complete`.
fn judge_scene(scene: &Scene, truth: &CollectedRows, what: &str) {
    let (rows, verdict) = rows_of(&scene.frames, Config::default());
    let is_all = judge_rows(&rows, truth, what);
    // A tap that missed all of the beginning or the end cannot know that it was not late or early.
    let has = |flag: TcpFlags| move |flags: &u8| flags & flag.0 != 0;
    let flags: Vec<u8> = scene
        .frames
        .iter()
        .map(|(_, frame)| frame.bytes[FLAGS_AT])
        .collect();
    let is_known =
        flags.first().is_some_and(has(TcpFlags::SYN)) && flags.iter().any(has(TcpFlags::FIN));
    if verdict.state == State::Complete && is_known {
        assert!(
            is_all,
            "{what}: complete, and is not: {:#?}",
            rows.operations
        );
    }
    if scene.is_whole {
        assert!(is_all, "{what}: {verdict:?} {:#?}", rows.operations);
    }
    if scene.missed == 0 {
        assert_eq!(verdict.state, State::Complete, "{what}: {verdict:?}");
    }
}

#[test]
fn complete_is_true_whatever_network_and_tap_lose() {
    let (mut repeated, mut lost) = (0, 0);
    for seed in seeds(1) {
        let (exchanges, truth) = conversation(seed);
        for (loss, reordered, missed) in [
            (0.0, 0.0, 0.0),
            (0.05, 0.0, 0.0),
            (0.0, 0.1, 0.0),
            (0.03, 0.05, 0.0),
            (0.0, 0.0, 0.02),
            (0.05, 0.05, 0.02),
            (0.02, 0.02, 0.2),
        ] {
            let conditions = Conditions {
                seed,
                loss,
                reordered,
                missed,
                ..Conditions::default()
            };
            let scene = simulate(&exchanges, &conditions);
            repeated += scene.repeated;
            lost += usize::from(!scene.is_whole);
            judge_scene(&scene, &truth, &format!("{conditions:?}"));
        }
    }
    assert!(repeated > 0 && lost > 0, "the conditions do what they say");
}

/// Frames that a mirror shows twice are no retransmissions.
#[test]
fn complete_is_true_of_mirrored_connections() {
    for seed in seeds(1) {
        let (exchanges, truth) = conversation(seed);
        for (loss, missed) in [(0.0, 0.0), (0.03, 0.0), (0.03, 0.1)] {
            let conditions = Conditions {
                seed,
                loss,
                missed,
                ..Conditions::default()
            };
            let mut scene = simulate(&exchanges, &conditions);
            let frames: Vec<_> = scene.frames.into_iter().map(|(_, frame)| frame).collect();
            let mirrored = mirror(&frames, 7_000);
            scene.frames = mirrored.into_iter().map(|frame| (0, frame)).collect();
            judge_scene(&scene, &truth, &format!("mirrored, {conditions:?}"));
        }
    }
}

/// Two taps, one for each direction. While an acknowledgement takes longer than their clocks
/// differ, nothing contradicts.
#[test]
fn clocks_of_two_taps_that_differ_are_reported() {
    let mut contradicted = 0;
    for seed in seeds(1) {
        let (exchanges, truth) = conversation(seed);
        for skew_ns in [
            30_000,
            -30_000,
            1_500_000,
            -1_500_000,
            40_000_000,
            -40_000_000,
        ] {
            let conditions = Conditions {
                seed,
                skew_ns: Some(skew_ns),
                ..Conditions::default()
            };
            let scene = simulate(&exchanges, &conditions);
            let what = format!("{conditions:?}");
            let (rows, verdict) = rows_of(&scene.frames, Config::default());
            let is_all = judge_rows(&rows, &truth, &what);
            let runs_back = |row: &OperationRow| row.reply_time_ns < row.call_end_ns;
            let is_contradicted = rows.operations.iter().any(runs_back);
            contradicted += usize::from(is_contradicted);
            if is_contradicted || !is_all {
                assert_ne!(
                    verdict.state,
                    State::Complete,
                    "{what}: {:?}",
                    verdict.reasons
                );
            }
            if skew_ns.abs() < 100_000 {
                assert!(is_all, "{what}");
                assert_eq!(verdict.state, State::Complete, "{what}: {verdict:?}");
            }
        }
    }
    assert!(contradicted > 0);
}

/// Each frame with bytes in turn: without it the capture is not complete, or nothing is amiss.
#[test]
fn no_capture_without_one_of_its_frames_is_complete() {
    for seed in seeds(10) {
        let (exchanges, truth) = conversation(seed);
        let conditions = Conditions {
            seed,
            ..Conditions::default()
        };
        let scene = simulate(&exchanges, &conditions);
        for without in 0..scene.frames.len() {
            let mut frames = scene.frames.clone();
            let (_, frame) = frames.remove(without);
            let what = format!("seed {seed} without frame {}", without + 1);
            let (rows, verdict) = rows_of(&frames, Config::default());
            let is_all = judge_rows(&rows, &truth, &what);
            let has_bytes = frame.bytes.len() > 60;
            if has_bytes || !is_all {
                assert_ne!(
                    verdict.state,
                    State::Complete,
                    "{what}: {:?}",
                    rows.operations
                );
            }
        }
    }
}

/// A capture that begins later has less, and nothing that is not true.
#[test]
fn rows_are_true_wherever_a_capture_begins() {
    for seed in seeds(3) {
        let (exchanges, truth) = conversation(seed);
        for skipped in [1, 2, 3, 5, 8, 13, 21, 34] {
            let conditions = Conditions {
                seed,
                loss: 0.02,
                skipped,
                ..Conditions::default()
            };
            let scene = simulate(&exchanges, &conditions);
            let (rows, _) = rows_of(&scene.frames, Config::default());
            judge_rows(&rows, &truth, &format!("{conditions:?}"));
        }
    }
}
