//! Simulated connections and datagrams, by seed: a network that loses and reorders, and a tap that
//! misses, sees twice, sees tunnels, or is two taps whose clocks differ. Every row is true, what
//! the tap saw whole is all there, and where anything is not, the verdict does not claim to be
//! complete.

use std::ops::Range;

use lineside_actor::Schedule;
use lineside_run::{Evidence, judge};
use lineside_testkit::simulator::{
    Conditions, Exchange, PORT, Scene, addresses, simulate, simulate_datagrams,
};
use lineside_testkit::wrap::{self, Wrap, mirror};
use lineside_trace::{State, Verdict};

use super::*;

/// Ways over which what passes the tap may be led: each tunnel, and overlays and VLANs whose
/// directions have numbers of their own.
const WAYS: u64 = Wrap::ALL.len() as u64 + 2;

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
/// comes at once. By odd seeds over IPv6.
fn conversation(seed: u64) -> (Vec<Exchange>, CollectedRows) {
    let mut random = Random::new(seed ^ 0xc0ffee);
    let mut values = Values(Random::new(!seed));
    let (file, first) = (file(PORT), random.bits() as u32);
    let mut connection = TcpConnection::new(PORT, [1, 1]);
    connection.addresses = addresses(is_ipv6(seed));
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
    let rows = rows_at_once(frames);
    assert_eq!(rows.operations.len(), exchanges.len());
    (exchanges, rows)
}

/// The same over UDP.
fn datagrams(seed: u64) -> (Vec<Exchange>, CollectedRows) {
    let mut random = Random::new(seed ^ 0xda7a);
    let mut values = Values(Random::new(!seed));
    let (file, first) = (file(PORT), random.bits() as u32);
    let addresses = addresses(is_ipv6(seed));
    let (mut frames, mut exchanges) = (Vec::new(), Vec::new());
    for index in 0..4 + random.below(12) as u32 {
        let xid = first.wrapping_add(index);
        let [call, reply] = operation(&mut random, &mut values, xid, &file, 9_000);
        let ports = [PORT, SERVER_PORT];
        for (from, message) in [&call, &reply].into_iter().enumerate() {
            let to = 1 - from;
            let builder = FrameBuilder::new(addresses[from], addresses[to]);
            frames.push(builder.udp(ports[from], ports[to], message));
        }
        exchanges.push(Exchange { call, reply });
    }
    let rows = rows_at_once(frames);
    assert_eq!(rows.operations.len(), exchanges.len());
    (exchanges, rows)
}

fn is_ipv6(seed: u64) -> bool {
    seed % 2 == 1
}

fn rows_at_once(frames: Vec<Vec<u8>>) -> CollectedRows {
    let steps = frames.into_iter().enumerate();
    let steps = steps.map(|(at, bytes)| (at as u64, bytes)).collect();
    run(&merge(&[steps])).0
}

/// The scene as a tap sees it that stands in one of [`WAYS`].
fn led(scene: Scene, way: u64) -> Scene {
    let frames: Vec<_> = scene.frames.into_iter().map(|(_, frame)| frame).collect();
    let frames = match Wrap::ALL.get(way as usize) {
        Some(how) => wrap::wrap_all(&frames, *how),
        None => wrap::routed(&frames, [7, 9], way + 1 == WAYS),
    };
    let frames = frames.into_iter().map(|frame| (0, frame)).collect();
    Scene { frames, ..scene }
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
    judge_first(rows, truth, false, what)
}

/// `is_answered_again`: replies whose calls were missed may be several.
fn judge_first(
    rows: &CollectedRows,
    truth: &CollectedRows,
    is_answered_again: bool,
    what: &str,
) -> bool {
    let (here, truth) = (by_key(&rows.operations), by_key(&truth.operations));
    for (key, rows) in &here {
        let whole = truth.get(key);
        let whole = whole.unwrap_or_else(|| panic!("{what}: {key:?} never was: {rows:#?}"))[0];
        // Where clocks differ too much, a call and its reply may be two rows.
        let calls = rows.iter().filter(|row| !row.call_missing).count();
        let replies = rows.iter().filter(|row| !row.reply_missing).count();
        let is_once = calls <= 1 && (replies <= 1 || is_answered_again);
        assert!(is_once, "{what}: {key:?}: {rows:#?}");
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
    if verdict.state == State::Complete && scene.is_bounded {
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
                is_ipv6: is_ipv6(seed),
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
                is_ipv6: is_ipv6(seed),
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
                is_ipv6: is_ipv6(seed),
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
            is_ipv6: is_ipv6(seed),
            ..Conditions::default()
        };
        let scene = simulate(&exchanges, &conditions);
        for without in 0..scene.frames.len() {
            let mut frames = scene.frames.clone();
            let (_, frame) = frames.remove(without);
            let what = format!("seed {seed} without frame {}", without + 1);
            let (rows, verdict) = rows_of(&frames, Config::default());
            let is_all = judge_rows(&rows, &truth, &what);
            // More than its headers.
            let has_bytes = frame.bytes.len() > if is_ipv6(seed) { 74 } else { 54 };
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
                is_ipv6: is_ipv6(seed),
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

/// In tunnels, with numbers by direction too, and with fragments of the outer packets.
#[test]
fn complete_is_true_of_connections_in_tunnels() {
    for seed in seeds(1) {
        let (exchanges, truth) = conversation(seed);
        let way = seed % WAYS;
        for (loss, missed) in [(0.0, 0.0), (0.03, 0.0), (0.03, 0.05)] {
            let conditions = Conditions {
                seed,
                is_ipv6: is_ipv6(seed),
                loss,
                reordered: loss,
                missed,
                ..Conditions::default()
            };
            let mut scene = led(simulate(&exchanges, &conditions), way);
            let what = format!("way {way}, {conditions:?}");
            judge_scene(&scene, &truth, &what);
            let parts = scene.frames.iter().flat_map(|(input, frame)| {
                let parts = wrap::fragment(frame, 1_000).into_iter();
                parts.map(|part| (*input, part))
            });
            scene.frames = parts.collect();
            judge_scene(&scene, &truth, &format!("in fragments, {what}"));
        }
    }
}

/// The end of a tunnel shows each packet within it and without.
#[test]
fn complete_is_true_at_the_end_of_a_tunnel() {
    for seed in seeds(2) {
        let (exchanges, truth) = conversation(seed);
        let way = seed % WAYS;
        for (loss, missed) in [(0.0, 0.0), (0.03, 0.0), (0.03, 0.1)] {
            let conditions = Conditions {
                seed,
                is_ipv6: is_ipv6(seed),
                loss,
                missed,
                ..Conditions::default()
            };
            let scene = simulate(&exchanges, &conditions);
            let plain = scene.frames.clone();
            let mut scene = led(scene, way);
            for (_, frame) in &mut scene.frames {
                frame.stamp_ns = frame.stamp_ns.map(|stamp| stamp + 3_000);
            }
            scene.frames.extend(plain);
            scene.frames.sort_by_key(|(_, frame)| frame.stamp_ns);
            let what = format!("way {way}, {conditions:?}");
            judge_scene(&scene, &truth, &what);
        }
    }
}

/// Two taps that see both directions each, one a moment after the other or, by its clock, before
/// it; each misses other frames.
#[test]
fn complete_is_true_of_two_taps_that_see_the_same() {
    for seed in seeds(2) {
        let (exchanges, truth) = conversation(seed);
        for (skew_ns, missed) in [
            (20_000, 0.0),
            (-300_000, 0.0),
            (40_000, 0.1),
            (-40_000, 0.1),
        ] {
            let conditions = Conditions {
                seed,
                is_ipv6: is_ipv6(seed),
                loss: 0.02,
                ..Conditions::default()
            };
            let mut scene = simulate(&exchanges, &conditions);
            let mut random = Random::new(seed);
            let mut frames = Vec::new();
            let mut has_lost = false;
            for (_, frame) in scene.frames {
                let mut second = frame.clone();
                second.stamp_ns = frame.stamp_ns.map(|stamp| stamp + skew_ns);
                let both = [(0, frame), (1, second)];
                let seen = both.into_iter().filter(|_| !random.chance(missed));
                let before = frames.len();
                frames.extend(seen);
                has_lost |= frames.len() == before;
            }
            frames.sort_by_key(|(_, frame)| frame.stamp_ns);
            scene.frames = frames;
            scene.missed += usize::from(has_lost);
            scene.is_whole &= !has_lost;
            scene.is_bounded &= !has_lost;
            let what = format!("two taps, {skew_ns} ns, {missed} missed, {conditions:?}");
            judge_scene(&scene, &truth, &what);
        }
    }
}

/// What the tap of a scene saw with a snap length, beside a tap without one that saw the same by
/// another clock and misses some.
fn beside_a_snap_length(scene: Scene, seed: u64, missed: f64) -> Scene {
    let mut random = Random::new(seed ^ 0x5a);
    // Headers are there, also TCP's with IPv6.
    let snap_len = [80, 96, 128, 200, 600][random.below(5) as usize];
    let skew_ns = [-400_000, -20_000, 20_000, 400_000][random.below(4) as usize];
    let mut frames = Vec::new();
    let mut lost = 0;
    for (_, whole) in scene.frames {
        let mut cut = whole.clone();
        cut.bytes.truncate(snap_len);
        let mut second = whole;
        second.stamp_ns = second.stamp_ns.map(|stamp| stamp + skew_ns);
        frames.push((0, cut));
        match random.chance(missed) {
            true => lost += 1,
            false => frames.push((1, second)),
        }
    }
    frames.sort_by_key(|(_, frame)| frame.stamp_ns);
    Scene {
        frames,
        is_whole: scene.is_whole && lost == 0,
        missed: scene.missed + lost,
        ..scene
    }
}

/// What a snap length cut from what one tap saw is taken from the other's.
#[test]
fn complete_is_true_of_a_tap_with_a_snap_length() {
    let mut complete = 0;
    for seed in seeds(1) {
        let (exchanges, truth) = conversation(seed);
        let (messages, sent) = datagrams(seed);
        for (missed, at_tap) in [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1)] {
            let conditions = Conditions {
                seed,
                is_ipv6: is_ipv6(seed),
                missed: at_tap,
                ..Conditions::default()
            };
            let what = format!("beside a snap length, {missed} missed, {conditions:?}");
            let scene = beside_a_snap_length(simulate(&exchanges, &conditions), seed, missed);
            judge_scene(&scene, &truth, &format!("tcp {what}"));
            let scene = simulate_datagrams(&messages, &conditions);
            let scene = beside_a_snap_length(scene, seed, missed);
            let state = judge_datagrams(&scene, &sent, false, &format!("udp {what}"));
            complete += usize::from(state == State::Complete);
        }
    }
    assert!(complete > 0);
}

/// Calls that go again, answers that do, and fragments that are lost.
#[test]
fn complete_is_true_over_udp() {
    let (mut repeated, mut reported, mut complete) = (0, 0, 0);
    for seed in seeds(1) {
        let (exchanges, truth) = datagrams(seed);
        for (loss, reordered, missed) in [
            (0.0, 0.0, 0.0),
            (0.01, 0.0, 0.0),
            (0.0, 0.1, 0.0),
            (0.0, 0.0, 0.02),
            (0.01, 0.05, 0.02),
            (0.0, 0.0, 0.2),
        ] {
            let conditions = Conditions {
                seed,
                is_ipv6: is_ipv6(seed),
                loss,
                reordered,
                missed,
                ..Conditions::default()
            };
            let what = format!("{conditions:?}");
            let scene = simulate_datagrams(&exchanges, &conditions);
            repeated += scene.repeated;
            match judge_datagrams(&scene, &truth, loss > 0.0, &what) {
                State::Complete => complete += 1,
                _ => reported += 1,
            }
            if seed % 4 == 0 {
                let scene = led(scene, seed / 4 % WAYS);
                judge_datagrams(&scene, &truth, loss > 0.0, &format!("led, {what}"));
            }
        }
    }
    assert!(repeated > 0 && reported > 0 && complete > 0);
}

/// Rows are true, those that are no repeats once; a call that came again is one that the client did
/// send again; and `complete` means that all is there.
fn judge_datagrams(scene: &Scene, truth: &CollectedRows, loses: bool, what: &str) -> State {
    let (rows, verdict) = rows_of(&scene.frames, Config::default());
    let (repeats, first): (Vec<_>, Vec<_>) =
        rows.operations.iter().cloned().partition(|row| row.repeat);
    let again: i64 = rows
        .operations
        .iter()
        .map(|row| i64::from(row.retransmissions))
        .sum();
    let again = again as usize + repeats.len();
    assert!(again <= scene.repeated, "{what}: {:#?}", rows.operations);
    let first = CollectedRows {
        operations: first,
        ..CollectedRows::default()
    };
    let whole = by_key(&truth.operations);
    for row in repeats {
        let whole = whole
            .get(&key(&row))
            .unwrap_or_else(|| panic!("{what}: {row:#?}"));
        assert_eq!(contradiction(&row, whole[0]), None, "{what}: {row:#?}");
    }
    let is_all = judge_first(&first, truth, !scene.is_whole, what);
    if verdict.state == State::Complete && scene.is_bounded {
        assert!(
            is_all,
            "{what}: complete, and is not: {:#?}",
            rows.operations
        );
    }
    if scene.is_whole {
        assert!(is_all, "{what}: {verdict:?} {:#?}", rows.operations);
    }
    if scene.missed == 0 && !loses {
        assert_eq!(verdict.state, State::Complete, "{what}: {verdict:?}");
        assert_eq!(again, scene.repeated, "{what}: {:#?}", rows.operations);
    }
    verdict.state
}

/// One core and two give the same rows, and the same counters, by which the verdict is decided.
#[test]
fn simulated_rows_are_the_same_on_one_core_and_two() {
    for seed in seeds(4) {
        let (exchanges, _) = conversation(seed);
        let (messages, _) = datagrams(seed);
        let conditions = Conditions {
            seed,
            is_ipv6: is_ipv6(seed),
            loss: 0.01,
            reordered: 0.05,
            missed: 0.02,
            skew_ns: (seed % 3 == 0).then_some(30_000),
            ..Conditions::default()
        };
        let scene = simulate(&exchanges, &conditions);
        let way = seed % WAYS;
        let plain = simulate_datagrams(&messages, &conditions);
        let tunnelled = led(simulate(&exchanges, &conditions), way);
        let cut = beside_a_snap_length(simulate_datagrams(&messages, &conditions), seed, 0.1);
        for (what, scene) in [
            ("tcp", scene),
            ("udp", plain),
            ("led", tunnelled),
            ("cut", cut),
        ] {
            let what = format!("{what}, way {way}, {conditions:?}");
            let frames = scene.frames.iter().map(|(input, frame)| (*input, frame));
            let schedule = Schedule::Simulated { seed };
            let memory = Memory::new(frames);
            on_cores::compare(&what, &memory, Config::default(), &[(2, schedule)]);
        }
    }
}
