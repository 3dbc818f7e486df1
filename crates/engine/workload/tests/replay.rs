//! Replays in virtual time, against the plainest way to say when each frame is due.

use lineside_time::Nanoseconds;
use lineside_words::Rate;
use lineside_workload::{Replay, Speed, Timing};
use proptest::collection::vec;
use proptest::prelude::*;

const SECOND_NS: i64 = 1_000_000_000;

/// Sends everything the moment it is due, but for stalls: after each of these numbers of frames, so
/// long. Gives the instants of departure.
fn run(
    replay: &mut Replay,
    frames: &[(Option<i64>, u32)],
    start_ns: Nanoseconds,
    mut stall_ns: impl FnMut(usize) -> i64,
) -> Vec<Nanoseconds> {
    let (mut now_ns, mut sent, mut planned) = (start_ns, Vec::new(), 0);
    while sent.len() < frames.len() {
        // A few at a time, as a port would read them.
        while planned < frames.len() && planned - sent.len() < 7 {
            replay.plan(frames[planned].0, frames[planned].1);
            planned += 1;
        }
        let deadline_ns = replay.next_deadline().expect("something is planned");
        if now_ns < deadline_ns {
            assert_eq!(replay.due(deadline_ns - 1, 9), 0, "nothing is early");
            now_ns = deadline_ns;
        }
        let count = replay.due(now_ns, 3);
        assert!((1..=3).contains(&count));
        replay.on_sent(now_ns, count);
        sent.extend(std::iter::repeat_n(now_ns, count));
        now_ns += stall_ns(sent.len());
    }
    assert_eq!(replay.next_deadline(), None);
    sent
}

/// When each is due, by the rules as they are written down.
fn due_ns(frames: &[(Option<i64>, u32)], timing: Timing, factor: f64) -> Vec<i64> {
    let (mut bytes, mut due) = (0_i128, Vec::new());
    let first_ns = frames.iter().find_map(|frame| frame.0).unwrap_or(0);
    for (index, &(_, len)) in frames.iter().enumerate() {
        let latest_ns = frames[..=index].iter().filter_map(|frame| frame.0).max();
        due.push(match timing {
            Timing::Own(_) => latest_ns.map_or(0, |latest_ns| {
                ((latest_ns.max(first_ns) - first_ns) as f64 / factor) as i64
            }),
            Timing::Constant(Rate::Bits(bits)) => {
                (bytes * 8 * i128::from(SECOND_NS) / i128::from(bits)) as i64
            }
            Timing::Constant(Rate::Frames(frames)) => {
                (index as i128 * i128::from(SECOND_NS) / i128::from(frames)) as i64
            }
            Timing::Fast => 0,
        });
        bytes += i128::from(len);
    }
    due
}

/// Bits and frames a second after the first instant: each frame that left later brought the bits of
/// the one before it.
fn rates(sent: &[Nanoseconds], frames: &[(Option<i64>, u32)]) -> Option<(f64, f64)> {
    let together = sent.iter().take_while(|ns| **ns == sent[0]).count();
    let seconds = (sent[sent.len() - 1] - sent[0]) as f64 / 1e9;
    let passed = &frames[together - 1..frames.len() - 1];
    let bytes: u64 = passed.iter().map(|frame| u64::from(frame.1)).sum();
    (seconds > 0.0).then(|| (bytes as f64 * 8.0 / seconds, passed.len() as f64 / seconds))
}

fn is_near(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= other * 1e-9,
        _ => one == other,
    }
}

fn timings() -> impl Strategy<Value = (Timing, f64)> {
    let speed = |text: &'static str| {
        let speed: Speed = text.parse().expect("a factor");
        (Timing::Own(speed), text.parse().expect("a number"))
    };
    prop_oneof![
        Just((Timing::Own(Speed::ORIGINAL), 1.0)),
        Just(speed("2")),
        Just(speed("0.3")),
        (1_u64..1 << 40).prop_map(|bits| (Timing::Constant(Rate::Bits(bits)), 0.0)),
        (1_u64..1 << 30).prop_map(|frames| (Timing::Constant(Rate::Frames(frames)), 0.0)),
        Just((Timing::Fast, 0.0)),
    ]
}

fn frames() -> impl Strategy<Value = Vec<(Option<i64>, u32)>> {
    let stamp_ns = prop::option::weighted(0.9, 0_i64..10 * SECOND_NS);
    let in_order = any::<bool>();
    (vec((stamp_ns, 60_u32..9000), 1..80), in_order).prop_map(|(mut frames, in_order)| {
        if in_order {
            frames.sort();
        }
        frames
    })
}

proptest! {
    #[test]
    fn frames_leave_when_they_are_due(
        frames in frames(),
        (timing, factor) in timings(),
        start_ns in -SECOND_NS..SECOND_NS,
    ) {
        let mut replay = Replay::new(timing, start_ns);
        let sent = run(&mut replay, &frames, start_ns, |_| 0);
        let expected = due_ns(&frames, timing, factor);
        let expected: Vec<i64> = expected.into_iter().map(|due_ns| start_ns + due_ns).collect();
        prop_assert_eq!(&sent, &expected);
        let departures = replay.departures();
        prop_assert_eq!(departures.frames, frames.len() as u64);
        prop_assert_eq!(departures.bytes, frames.iter().map(|frame| u64::from(frame.1)).sum::<u64>());
        let duration_ns = (sent[sent.len() - 1] - sent[0]) as u64;
        prop_assert_eq!(departures.achieved_ns, duration_ns);
        let rates = rates(&sent, &frames);
        prop_assert!(is_near(departures.achieved_bps, rates.map(|rates| rates.0)));
        prop_assert!(is_near(departures.achieved_pps, rates.map(|rates| rates.1)));
        if timing == Timing::Fast {
            prop_assert!(departures.asked_ns.is_none() && departures.lateness.is_none());
        } else {
            prop_assert_eq!(departures.asked_ns, Some(duration_ns));
            prop_assert_eq!(departures.asked_bps, departures.achieved_bps);
            let lateness = departures.lateness.expect("they were timed");
            prop_assert_eq!((lateness.max_ns, lateness.late), (0, Default::default()));
        }
        if let Timing::Own(_) = timing {
            let missing = frames.iter().filter(|frame| frame.0.is_none()).count();
            prop_assert_eq!(departures.stamps_missing, missing as u64);
            let mut latest_ns = i64::MIN;
            let backwards = frames.iter().filter_map(|frame| frame.0).filter(|&stamp_ns| {
                let earlier = stamp_ns < latest_ns;
                latest_ns = latest_ns.max(stamp_ns);
                earlier
            });
            prop_assert_eq!(departures.stamps_backwards, backwards.count() as u64);
        }
    }

    #[test]
    fn stalls_are_reported_and_shift_no_other_frame(
        frames in frames(),
        (timing, factor) in timings(),
        stalls in vec(prop_oneof![3 => Just(0_i64), 1 => 0..SECOND_NS], 1..20),
    ) {
        let mut replay = Replay::new(timing, 0);
        let sent = run(&mut replay, &frames, 0, |count| stalls[count % stalls.len()]);
        let due = due_ns(&frames, timing, factor);
        let mut late: Vec<u64> = sent.iter().zip(&due).map(|(sent, due)| (sent - due) as u64).collect();
        let Some(lateness) = replay.departures().lateness else {
            prop_assert_eq!(timing, Timing::Fast);
            return Ok(());
        };
        late.sort_unstable();
        prop_assert_eq!(lateness.max_ns, late[late.len() - 1]);
        prop_assert_eq!(lateness.late.over_100us, late.iter().filter(|&&ns| ns > 100_000).count() as u64);
        for (share, found) in [(0.5, lateness.p50_ns), (0.99, lateness.p99_ns), (0.999, lateness.p999_ns)] {
            let rank = ((late.len() as f64 * share).ceil() as usize).max(1);
            let exact = late[rank - 1];
            prop_assert!(found >= exact && found as f64 <= exact as f64 * 1.001 + 1.0, "{found} {exact}");
        }
        prop_assert_eq!(replay.departures().asked_ns, Some((due[due.len() - 1] - due[0]) as u64));
    }
}

#[test]
fn a_constant_rate_is_achieved_as_asked() {
    let frames: Vec<_> = (0..10_000).map(|index| (None, 60 + index % 1400)).collect();
    let mut replay = Replay::new(Timing::Constant(Rate::Bits(SECOND_NS as u64)), 5);
    run(&mut replay, &frames, 5, |_| 0);
    let achieved_bps = replay.departures().achieved_bps.expect("time passed");
    assert!((achieved_bps / 1e9 - 1.0).abs() < 1e-6, "{achieved_bps}");
    let mut replay = Replay::new(Timing::Constant(Rate::Frames(100_000)), 5);
    run(&mut replay, &frames, 5, |_| 0);
    let departures = replay.departures();
    assert_eq!(departures.achieved_pps, Some(1e5));
    assert_eq!(departures.achieved_ns, 9_999 * 10_000);
}

#[test]
fn frames_that_leave_at_once_give_no_rate() {
    let mut replay = Replay::new(Timing::Constant(Rate::Frames(1000)), 0);
    (0..300).for_each(|_| replay.plan(None, 1000));
    // The port was away for 256 ms and got 256 frames in one call, then each when it was due.
    replay.on_sent(256_000_000, 256);
    let departures = replay.departures();
    assert_eq!(departures.achieved_ns, 0);
    assert_eq!(
        (departures.achieved_bps, departures.achieved_pps),
        (None, None)
    );
    for number in 257..=300 {
        replay.on_sent(number * 1_000_000, 1);
    }
    let departures = replay.departures();
    assert_eq!(departures.frames, 300);
    assert_eq!(departures.achieved_pps, Some(1000.0));
    assert_eq!(departures.achieved_bps, Some(8e6));
    assert_eq!(departures.asked_bps, Some(8e6));
}

#[test]
fn stamps_at_the_ends_of_time_overflow_nothing() {
    for start_ns in [i64::MIN, 0, i64::MAX] {
        let slow = "0.000001".parse().expect("a factor");
        let mut replay = Replay::new(Timing::Own(slow), start_ns);
        replay.plan(Some(i64::MIN), u32::MAX);
        replay.plan(Some(i64::MAX), u32::MAX);
        assert_eq!(replay.next_deadline(), Some(start_ns));
        replay.on_sent(i64::MIN, 1);
        replay.on_sent(i64::MAX, 1);
        assert_eq!(replay.departures().frames, 2);
    }
}

#[test]
fn speeds_are_factors() {
    for bad in ["", "0", "-1", "nan", "inf", "1e7", "fast"] {
        let error = bad.parse::<Speed>().expect_err(bad).to_string();
        assert!(
            error.starts_with(&format!("'{bad}' is not a speed: write")),
            "{error}"
        );
    }
}
