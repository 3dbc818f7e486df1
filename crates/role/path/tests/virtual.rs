//! A path in virtual time: what leaves is what each direction's link alone lets through, in order
//! of its instants.

use std::net::IpAddr;

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType, Pool};
use lineside_link::{Link, Settings, words};
use lineside_measure::LateCounts;
use lineside_path::{Direction, DirectionFinder, Path, Virtual};
use lineside_run::Evidence;
use lineside_time::Random;
use lineside_trace::State;
use lineside_wire::build::FrameBuilder;

const MEMORY: usize = 16 << 20;

fn settings(delay: &str, rate: Option<&str>, loss: &str) -> Settings {
    Settings {
        delay: words::delay(delay, &mut words::no_files).expect("right words"),
        rate: rate.map(|rate| words::rate(rate).expect("a rate")),
        loss: words::loss(loss).expect("a loss"),
        ..Settings::default()
    }
}

/// Frames of both directions at random times, which now and then stand still.
fn capture(count: u64) -> Vec<(Direction, i64, Frame)> {
    let mut random = Random::new(4);
    let mut at_ns = 1_700_000_000_000_000_000;
    let frame = |ordinal: u64| {
        at_ns += [0, 700, 40_000][random.below(3) as usize];
        let is_outbound = ordinal == 1 || random.chance(0.5);
        let addresses: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 9, 0, 1].into()];
        let [one, other] = addresses;
        let (source, destination) = if is_outbound {
            (one, other)
        } else {
            (other, one)
        };
        let payload = vec![7; 20 + random.below(1200) as usize];
        let bytes = FrameBuilder::new(source, destination).udp(1, 2, &payload);
        let descriptor = Descriptor {
            stamp_ns: Some(at_ns),
            wire_len: bytes.len() as u32,
            link_type: LinkType::ETHERNET,
            ordinal,
            ..Descriptor::default()
        };
        let direction = if is_outbound {
            Direction::Outbound
        } else {
            Direction::Inbound
        };
        (direction, at_ns, Frame::copied(&bytes, descriptor))
    };
    (1..=count).map(frame).collect()
}

fn emulated(
    settings: [Settings; 2],
    frames: Vec<(Direction, i64, Frame)>,
    burst_len: usize,
) -> (Burst, Virtual) {
    let path = Path::new(settings, 7, MEMORY, &Budget::new(MEMORY)).expect("memory");
    let mut emulation = Virtual::new(path, DirectionFinder::default());
    let (mut left, mut burst) = (Burst::new(), Burst::new());
    for (number, (_, _, frame)) in frames.into_iter().enumerate() {
        burst.push(frame);
        if burst.len() == burst_len {
            emulation.on_burst(&mut burst, &mut left);
        }
        if number % 1000 == 500 {
            emulation.spill();
        }
    }
    emulation.on_burst(&mut burst, &mut left);
    while emulation.drain(&mut left) {}
    (left, emulation)
}

#[test]
fn departures_are_what_each_link_lets_through() {
    let both = [
        settings(
            "200us 30us distribution normal order fifo",
            Some("200mbit overhead ethernet"),
            "1%",
        ),
        settings(
            "1ms 300us distribution pareto order reorder",
            None,
            "gemodel 1% 20%",
        ),
    ];
    let mut expected: Vec<(i64, u64)> = Vec::new();
    for direction in Direction::BOTH {
        let mut link = Link::new(
            both[direction as usize].clone(),
            7,
            direction as u16,
            MEMORY / 2,
        );
        let mut out = Vec::new();
        for (_, at_ns, frame) in capture(5000)
            .into_iter()
            .filter(|(way, ..)| *way == direction)
        {
            link.push(at_ns, frame, &mut out);
        }
        link.on_timer(i64::MAX, &mut out);
        assert!(link.counters().dropped.loss > 10 && out.len() > 2000);
        expected.extend(
            out.iter()
                .map(|left| (left.at_ns, left.item.descriptor().ordinal)),
        );
    }
    expected.sort_unstable();
    let originals = capture(5000);
    for burst_len in [1, 64, 5000] {
        let (left, emulation) = emulated(both.clone(), capture(5000), burst_len);
        let key = |frame: &Frame| {
            (
                frame.descriptor().stamp_ns.expect("a stamp"),
                frame.descriptor().ordinal,
            )
        };
        let found: Vec<_> = left.iter().map(key).collect();
        assert_eq!(found, expected);
        for frame in &left {
            let (_, _, original) = &originals[frame.descriptor().ordinal as usize - 1];
            assert_eq!(frame.bytes(), original.bytes());
        }
        let certificate = emulation.path().certificate("virtual");
        assert_eq!(certificate.verdict.state, State::Complete);
        for report in certificate.directions.values() {
            assert!(report.counters.is_whole(0) && report.held == 0);
            assert!(report.delays.late == LateCounts::default());
            let distance = report.delays.drawn_distance.expect("draws");
            assert!(distance.p_value > 0.01, "{distance:?}");
            assert_eq!(
                report
                    .delays
                    .realised
                    .as_ref()
                    .map(|realised| realised.count),
                Some(report.counters.released)
            );
        }
        for (side, mean_ns) in [("outbound", 200_000.0), ("inbound", 1_000_000.0)] {
            let asked = &certificate.directions[side].delays.asked;
            // The tables of distributions are of 4,096 values.
            let error = (asked.mean_ns - mean_ns).abs() / mean_ns;
            assert!(error < 0.02, "{side}: {} ns", asked.mean_ns);
        }
        // The effect of order and rate is reported apart from the drawn delays.
        let outbound = &certificate.directions["outbound"];
        let [drawn, realised] = [
            outbound.delays.drawn_distance,
            outbound.delays.realised_distance,
        ]
        .map(|distance| distance.expect("frames").ks);
        assert!(realised > 2.0 * drawn, "{drawn} {realised}");
    }
}

#[test]
fn without_settings_all_leaves_as_it_came() {
    let (left, _) = emulated(Default::default(), capture(300), 64);
    let stamps = |frames: &mut dyn Iterator<Item = &Frame>| -> Vec<_> {
        frames
            .map(|frame| (frame.descriptor().stamp_ns, frame.descriptor().ordinal))
            .collect()
    };
    let original = capture(300);
    let mut original = original.iter().map(|(_, _, frame)| frame);
    assert_eq!(stamps(&mut left.iter()), stamps(&mut original));
}

#[test]
fn stamps_that_run_backwards_or_are_missing_stand_still() {
    let mut frames = capture(4);
    let first_ns = frames[0].1;
    for (frame, stamp_ns) in
        frames
            .iter_mut()
            .zip([None, Some(first_ns), Some(first_ns - 500), None])
    {
        frame.2.descriptor_mut().stamp_ns = stamp_ns;
    }
    let (left, _) = emulated(
        [settings("1us", None, "none"), settings("1us", None, "none")],
        frames,
        2,
    );
    let stamps: Vec<_> = left
        .iter()
        .map(|frame| frame.descriptor().stamp_ns)
        .collect();
    assert_eq!(
        stamps,
        [1000, first_ns + 1000, first_ns + 1000, first_ns + 1000].map(Some)
    );
}

#[test]
fn memory_that_does_not_suffice_limits_the_verdict() {
    let path = Path::new(
        [settings("1s", None, "none"), Settings::default()],
        1,
        100_000,
        &Budget::new(100_000),
    );
    let mut emulation = Virtual::new(path.expect("memory"), DirectionFinder::default());
    let mut left = Burst::new();
    let mut burst: Burst = capture(500)
        .into_iter()
        .map(|(_, _, frame)| frame)
        .collect();
    emulation.on_burst(&mut burst, &mut left);
    while emulation.drain(&mut left) {}
    let certificate = emulation.path().certificate("virtual");
    assert_eq!(certificate.verdict.state, State::Limited);
    assert!(certificate.verdict.reasons[0].contains("give more with --memory"));
    assert!(Path::new(Default::default(), 1, 100_000, &Budget::new(99_999)).is_none());
}

#[test]
fn late_frames_are_counted_by_their_bounds() {
    let budget = Budget::new(MEMORY);
    let mut path = Path::new(Default::default(), 1, MEMORY, &budget).expect("memory");
    let mut out = Default::default();
    for (number, late_ns) in [0, 1_000, 1_001, 50_000, 2_000_000, 3_000_000]
        .into_iter()
        .enumerate()
    {
        let mut burst: Burst = capture(1).into_iter().map(|(_, _, frame)| frame).collect();
        // A frame is older than the moment at which it is read.
        path.on_burst(i64::MAX, Direction::Outbound, &mut burst, &mut out);
        assert_eq!(path.next_deadline(), None);
        let departure = out[0].pop().expect("a departure");
        assert_eq!(Some(departure.at_ns), departure.item.descriptor().stamp_ns);
        path.on_sent(
            Direction::Outbound,
            &(&departure).into(),
            departure.at_ns + late_ns,
        );
        let certificate = path.certificate("live");
        let late = certificate.directions["outbound"].delays.late;
        let expected = [
            (0, 0, 0, 0),
            (0, 0, 0, 0),
            (0, 0, 0, 1),
            (1, 0, 0, 2),
            (2, 1, 1, 3),
            (3, 2, 2, 4),
        ][number];
        let (over_10us, over_100us, over_1000us, over_1us) = expected;
        let expected = LateCounts {
            over_1us,
            over_10us,
            over_100us,
            over_1000us,
        };
        assert_eq!(late, expected);
        let disturbed = certificate.verdict.state == State::Disturbed;
        assert_eq!(disturbed, over_1000us > 1, "one alone disturbs nothing");
    }
}

#[test]
fn what_changed_the_result_is_reported() {
    let certificate = |settings: Settings| {
        let (_, emulation) = emulated([settings.clone(), settings], capture(5000), 64);
        emulation.path().certificate("virtual")
    };
    // Frames come closer than their delays differ.
    let jitter = certificate(settings(
        "200us 30us distribution normal order fifo",
        None,
        "none",
    ));
    assert_eq!(jitter.verdict.state, State::Complete);
    let warnings = &jitter.directions["outbound"].warnings;
    assert!(
        warnings[0].contains("as order is kept: mean 2"),
        "{warnings:?}"
    );
    // With a rate too, whose delays are not known apart from those of order.
    let both = certificate(settings(
        "200us 30us distribution normal order fifo",
        Some("10gbit"),
        "none",
    ));
    let warnings = &both.directions["outbound"].warnings;
    let is_order = |warning: &String| warning.contains("as order is kept: their delays");
    assert!(warnings.iter().any(is_order), "{warnings:?}");
    // A queue overflows: one that was worked out changes the result, one that was asked for is the
    // link.
    let slow = settings("200us", Some("10mbit"), "none");
    let derived = certificate(slow.clone());
    assert_eq!(derived.verdict.state, State::Limited);
    assert!(
        derived.verdict.reasons[0].contains("with --limit"),
        "{:?}",
        derived.verdict
    );
    let asked = certificate(Settings {
        limit: words::limit("64kb").expect("a limit"),
        ..slow
    });
    assert_eq!(asked.verdict.state, State::Complete);
    assert!(asked.directions["inbound"].counters.dropped.limit > 0);
}

#[test]
fn stamps_at_the_ends_of_time_do_no_harm() {
    let settings = Settings {
        state: words::state("flap 1h 1ms").expect("a state"),
        ..settings("1ms 1ms", Some("10mbit burst 20k"), "burst 1ms every 1h")
    };
    let mut frames = capture(6);
    let ends = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];
    for (frame, stamp_ns) in frames.iter_mut().zip(ends) {
        frame.2.descriptor_mut().stamp_ns = Some(stamp_ns);
    }
    let (left, emulation) = emulated([settings.clone(), settings], frames, 1);
    let certificate = emulation.path().certificate("virtual");
    let reports = certificate.directions.values();
    let released: u64 = reports.map(|report| report.counters.released).sum();
    assert!(released > 0 && released == left.len() as u64);
}

#[test]
fn both_directions_flap_together() {
    let settings = Settings {
        state: words::state("flap 10us 10us").expect("a state"),
        ..Settings::default()
    };
    let mut frames = capture(200);
    frames.retain(|(direction, ..)| *direction == Direction::Inbound);
    // The first frame of all begins the time of both; the first inbound one comes while the link is
    // down.
    let mut both = capture(1);
    let begin_ns = both[0].1;
    for (number, mut frame) in frames.into_iter().take(4).enumerate() {
        frame.2.descriptor_mut().stamp_ns =
            Some(begin_ns + [15_000, 19_999, 20_000, 35_000][number]);
        both.push(frame);
    }
    let (left, emulation) = emulated([settings.clone(), settings], both, 1);
    let stamps: Vec<_> = left
        .iter()
        .filter_map(|frame| frame.descriptor().stamp_ns)
        .collect();
    assert_eq!(stamps, [begin_ns, begin_ns + 20_000]);
    let inbound = emulation.path().link(Direction::Inbound).counters();
    assert_eq!(inbound.dropped.down, 3);
}

#[test]
fn a_stamp_later_than_now_counts_as_now() {
    let both = [settings("1us", None, "none"), Settings::default()];
    let mut path = Path::new(both, 1, MEMORY, &Budget::new(MEMORY)).expect("memory");
    let mut burst: Burst = capture(1).into_iter().map(|(_, _, frame)| frame).collect();
    path.on_burst(
        5_000,
        Direction::Outbound,
        &mut burst,
        &mut Default::default(),
    );
    assert_eq!(path.next_deadline(), Some(6_000));
}

#[test]
fn both_directions_together_hold_the_drawn_delays() {
    let path = Path::new(Default::default(), 1, 1 << 20, &Budget::new(1 << 20)).expect("memory");
    let held: u64 = Direction::BOTH
        .map(|way| path.link(way).product_bytes_max())
        .iter()
        .sum();
    assert!((900_000..1 << 20).contains(&held), "{held}");
}

#[test]
fn a_change_is_reported_apart_from_the_time_after_it() {
    const MS: i64 = 1_000_000;
    let filters = || vec![lineside_filter::Filter::parse("udp port 9").expect("an expression")];
    let budget = Budget::new(MEMORY);
    let start = [settings("10ms", None, "every 4"), Settings::default()];
    let mut path = Path::new(start, 1, MEMORY / 2, &budget).expect("memory");
    path.classify(Direction::Outbound, filters(), Vec::new())
        .expect("memory");
    path.begin(0);
    let mut out = Default::default();
    let frame_at = |path: &mut Path, at_ns, out: &mut _| {
        let frame = capture(1).pop().expect("a frame").2;
        let mut frame = Frame::copied(frame.bytes(), *frame.descriptor());
        frame.descriptor_mut().stamp_ns = Some(at_ns);
        path.on_burst(at_ns, Direction::Outbound, &mut vec![frame], out);
    };
    for number in 0..20 {
        frame_at(&mut path, number * MS, &mut out);
    }
    let after = [
        settings("40ms", None, "none"),
        settings("1ms", None, "none"),
    ];
    path.change(19 * MS, &[Some(&after), None], &mut out)
        .expect("memory");
    for number in 20..30 {
        frame_at(&mut path, number * MS, &mut out);
    }
    path.on_timer(i64::MAX, &mut out);
    for departure in &out[0] {
        path.on_sent(Direction::Outbound, &departure.into(), departure.at_ns);
    }
    // The delay of a frame is that of the moment at which it came; every fourth was lost until
    // then.
    let delays: Vec<_> = { out[0].iter() }
        .map(|departure| {
            (
                departure.entered_ns / MS,
                (departure.at_ns - departure.entered_ns) / MS,
            )
        })
        .collect();
    let before = (0..20)
        .filter(|number| number % 4 != 3)
        .map(|number| (number, 10));
    let expected: Vec<_> = before.chain((20..30).map(|number| (number, 40))).collect();
    assert_eq!(delays, expected);

    let check = |path: &Path, changes: usize| {
        let certificate = path.certificate("live");
        assert_eq!(certificate.changes.len(), changes);
        let change = &certificate.changes[0];
        assert_eq!(change.direction, "outbound");
        assert_eq!((change.at_ns, change.after_ns), (19 * MS, Some(19 * MS)));
        assert_eq!(
            (change.before.delay.as_str(), change.after.delay.as_str()),
            ("10ms order fifo", "40ms order fifo")
        );
        assert_eq!((change.entered, change.dropped.loss), (20, 5));
        let realised = change.delays.realised.as_ref().expect("frames");
        assert_eq!((realised.count, realised.max_ns), (15, 10 * MS));
        assert!(change.delays.realised_distance.expect("frames").ks < 1e-9);
        certificate
    };
    let certificate = check(&path, 1);
    let report = &certificate.directions["outbound"];
    assert!(report.counters.is_whole(0) && report.counters.entered == 30);
    let realised = report.delays.realised.as_ref().expect("frames");
    assert_eq!((realised.count, realised.min_ns), (10, 40 * MS));

    // One more closes the account of the first one. When there is no memory left for it, nothing
    // changes.
    let used = budget.used_bytes();
    path.change(80 * MS, &[Some(&after), None], &mut out)
        .expect("memory");
    assert!(budget.used_bytes() > used);
    let certificate = check(&path, 2);
    assert_eq!(
        (
            certificate.changes[1].entered,
            certificate.changes[1].dropped.loss
        ),
        (10, 0)
    );
    let rest = budget
        .lease(MEMORY - budget.used_bytes())
        .expect("it is left");
    path.change(90 * MS, &[Some(&after), None], &mut out)
        .expect_err("no memory");
    assert_eq!(path.changes().len(), 2);
    drop(rest);
}

/// A port that is short of memory gets all of it back, whatever waits in the path.
#[test]
fn frames_under_way_are_copied_out_of_their_memory() {
    let budget = Budget::new(MEMORY);
    let settings = || settings("10ms", None, "none");
    let path = Path::new([settings(), settings()], 7, 8 << 20, &budget).expect("memory");
    let mut emulation = Virtual::new(path, DirectionFinder::default());
    let mut pool = Pool::new(4096, 1, &budget).expect("memory");
    let [one, other] = [1, 2].map(|host| [10, 0, 0, host].into());
    let bytes = FrameBuilder::new(one, other).udp(1, 2, b"x");
    let mut block = pool.take().expect("a block");
    block.unfilled()[..bytes.len()].copy_from_slice(&bytes);
    block.advance(bytes.len());
    let descriptor = Descriptor {
        stamp_ns: Some(1_000),
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    let mut burst: Burst = vec![block.take(bytes.len(), descriptor)];
    drop(block);
    let mut left = Burst::new();
    emulation.on_burst(&mut burst, &mut left);
    assert!(left.is_empty() && pool.take().is_none());
    emulation.spill();
    assert!(pool.take().is_some());
    while emulation.drain(&mut left) {}
    assert_eq!(left[0].bytes(), bytes);
}

/// Keys of what did not happen would have every reader look whether it did.
#[test]
fn a_certificate_names_clock_steps_only_if_there_were_any() {
    let (_, emulation) = emulated([Settings::default(), Settings::default()], capture(10), 1);
    let certificate = serde_json::to_value(emulation.path().certificate("virtual"));
    let certificate = certificate.expect("a certificate is JSON");
    assert!(certificate.get("directions").is_some());
    assert_eq!(certificate.get("clock_steps"), None);
}

#[test]
fn a_certificate_is_judged_by_what_else_is_known() {
    let (_, emulation) = emulated([Settings::default(), Settings::default()], capture(10), 1);
    let mut certificate = emulation.path().certificate("virtual");
    assert_eq!(certificate.verdict.state, State::Complete);
    certificate.judge(Evidence {
        failures: vec!["the disk is full".to_owned()],
        ..Evidence::default()
    });
    assert_eq!(certificate.verdict.state, State::Incomplete);
    assert_eq!(certificate.verdict.reasons, ["the disk is full"]);
}
