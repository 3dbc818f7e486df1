//! What changes in time, which segment is lost, and kinds of frames, against models that are simple
//! enough to be seen to be right.

use std::net::IpAddr;

use lineside_frame::{Descriptor, Frame};
use lineside_link::{
    Deliveries, Departure, Item, Limit, Link, Loss, PathFile, PathStep, Place, Schedule, Segment,
    Settings, words,
};
use lineside_time::Random;
use proptest::prelude::*;

/// A frame without bytes: a number, a length, and perhaps the TCP segment that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packet {
    number: u64,
    len: u32,
    segment: Option<Segment>,
}

impl Item for Packet {
    type Copies = ();

    fn copies(_: usize) {}

    fn len_bytes(&self) -> u32 {
        self.len
    }

    fn flip_bit(&mut self, _: u32) {}

    fn duplicate(&self, _: &mut ()) -> Self {
        *self
    }

    fn spill(&mut self, _: &mut ()) {}

    fn segment(&self) -> Option<Segment> {
        self.segment
    }
}

fn packet(number: u64, len: u32) -> Packet {
    Packet {
        number,
        len,
        segment: None,
    }
}

/// When each of the frames leaves that come at these times.
fn left(settings: Settings, begin: i64, arrivals: &[(i64, u32)]) -> Vec<Departure<Packet>> {
    let settings = Settings {
        limit: Limit::Frames(u64::MAX),
        ..settings
    };
    let mut link = Link::new(settings, 3, 0, 64 << 20);
    link.begin(begin);
    let mut out = Vec::new();
    for (number, &(at, len)) in arrivals.iter().enumerate() {
        link.push(at, packet(number as u64, len), &mut out);
        assert!(link.counters().is_whole(link.held()));
    }
    while let Some(deadline) = link.next_deadline() {
        let before = link.held();
        link.on_timer(deadline - 1, &mut out);
        link.on_timer(deadline, &mut out);
        assert!(link.held() < before, "something leaves at its deadline");
    }
    out
}

fn arrivals(gap_max: i64) -> impl Strategy<Value = Vec<(i64, u32)>> {
    let gap = prop_oneof![Just(0_i64), 1..1000_i64, 1..gap_max];
    prop::collection::vec((gap, 60..3000_u32), 1..150).prop_map(|gaps| {
        let mut at = 5_000_000;
        let stamp = |(gap, len)| {
            at += gap;
            (at, len)
        };
        gaps.into_iter().map(stamp).collect()
    })
}

const BEGIN: i64 = 4_000_123;
const MS: u64 = 1_000_000;

fn path_file() -> impl Strategy<Value = PathFile> {
    let step = (
        1..40_u64,
        0..30_u64,
        prop::sample::select(vec![0_u64, 999_983, 8_000_000, 100_000_000]),
    );
    (prop::collection::vec(step, 1..8), 1..30_u64, any::<bool>()).prop_map(
        |(gaps, last, repeats)| {
            let mut at_ns = 0;
            let mut steps = Vec::new();
            for (gap, delay, rate) in gaps {
                steps.push(PathStep {
                    at_ns,
                    delay_ns: Some(delay * MS / 3),
                    loss: Some(0.0),
                    bits_per_second: Some(rate),
                });
                at_ns += gap * MS / 7;
            }
            // It must end with a rate.
            let end = steps.last_mut().expect("one or more");
            end.bits_per_second = end.bits_per_second.max(Some(64_000));
            let period = end.at_ns + last * MS / 7;
            PathFile::new("path", steps, repeats.then_some(period)).expect("right steps")
        },
    )
}

/// What holds at a time since the beginning, by looking at one line after the other; and until
/// when.
fn holds(path: &PathFile, since: u64) -> (PathStep, u64) {
    // A slow path takes its steps many thousand times for a frame.
    let at = (path.period_ns()).map_or(0, |period| since / period * period);
    let steps = path.steps();
    for (k, step) in steps.iter().enumerate() {
        let next = steps
            .get(k + 1)
            .map(|next| next.at_ns)
            .or_else(|| path.period_ns());
        let until = next.map_or(u64::MAX, |next| at + next);
        if since < until {
            return (*step, until);
        }
    }
    unreachable!("the last one holds until the end, or the period's")
}

/// When the last bit of a frame has been brought whose first may be brought from `begin` on, bit by
/// bit of each span; in nanoseconds and parts of 1/rate of one.
fn brought(path: &PathFile, begin: (u64, u128), bytes: u32) -> (u64, u128) {
    const S: u128 = 1_000_000_000;
    let mut missing = u128::from(bytes) * 8 * S;
    let (mut at, mut used) = begin;
    loop {
        let (step, until) = holds(path, at);
        let rate = u128::from(step.bits_per_second.expect("a rate"));
        let there = rate * u128::from(until - at) - used;
        if there >= missing {
            let total = used + missing;
            return (at + (total / rate) as u64, total % rate);
        }
        missing -= there;
        (at, used) = (until, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_path_file_is_replayed_to_the_nanosecond(path in path_file(), arrivals in arrivals(20_000_000)) {
        let settings = Settings { schedule: Some(Schedule::Path(path.clone())), ..Settings::default() };
        let found = left(settings, BEGIN, &arrivals);
        let (mut due, mut used) = (0, (0, 0));
        prop_assert_eq!(found.len(), arrivals.len());
        for (departure, &(at, len)) in found.iter().zip(&arrivals) {
            let since = (at - BEGIN) as u64;
            due = due.max(since + holds(&path, since).0.delay_ns.expect("a delay"));
            used = brought(&path, (due, 0).max(used), len);
            let at = used.0 + u64::from(used.1 > 0);
            prop_assert_eq!(departure.at_ns, BEGIN + at as i64);
        }
    }

    #[test]
    fn deliveries_are_those_of_a_list(
        ms in prop::collection::vec(0..9_u32, 1..12),
        arrivals in arrivals(9_000_000),
    ) {
        let mut at = 0;
        let mut text = "# a trace\n".to_owned();
        for ms in ms.iter().chain([&1]) {
            at += ms;
            text += &format!("{at}\n");
        }
        let trace = Deliveries::read("trace", &text).expect("right lines");
        let settings = Settings { schedule: Some(Schedule::Deliveries(trace.clone())), ..Settings::default() };
        let found = left(settings, BEGIN, &arrivals);
        // Each instant of a long list, one after the other, with what it has left.
        let mut list = (0..4000_u64).flat_map(|round| {
            let at_ms = trace.at_ms().to_vec();
            at_ms.into_iter().map(move |ms| ((round * u64::from(at) + u64::from(ms)) * MS, 1500_u32))
        });
        let mut here = list.next().expect("the first");
        for (departure, &(came, len)) in found.iter().zip(&arrivals) {
            let (since, mut missing) = ((came - BEGIN) as u64, len);
            loop {
                if here.0 < since || here.1 == 0 {
                    here = list.next().expect("long enough");
                    continue;
                }
                let taken = missing.min(here.1);
                here.1 -= taken;
                missing -= taken;
                if missing == 0 {
                    break;
                }
            }
            prop_assert_eq!(departure.at_ns, BEGIN + here.0 as i64);
        }
    }

    #[test]
    fn path_files_and_traces_are_read_as_they_were_written(path in path_file()) {
        prop_assert_eq!(PathFile::read("path", &path.write()), Ok(path));
    }

    #[test]
    fn a_segment_is_lost_as_often_as_asked(
        cuts in prop::collection::vec(1..2000_u32, 1..20), isn: u32, number in 1..8_u64, times in 1..4_u64, seed: u64,
    ) {
        // Two connections send the same cuts, each again and again until it has passed; now and
        // then all from a cut on is sent again.
        let flow = |port| [(IpAddr::from([10, 0, 0, 1]), port), (IpAddr::from([10, 0, 0, 2]), 80)];
        let loss = Loss::Segment { place: Place::Segment(number), times };
        let mut link = Link::new(Settings { loss, ..Settings::default() }, 1, 0, 1 << 20);
        let (mut out, mut random) = (Vec::new(), Random::new(seed));
        let mut pass = |port, sequence, len, is_syn| {
            let segment = Some(Segment { flow: flow(port), sequence, len, is_syn });
            let before = out.len();
            link.push(0, Packet { number: 0, len: 60 + len, segment }, &mut out);
            link.on_timer(0, &mut out);
            out.len() > before
        };
        let mut lost = std::collections::BTreeMap::new();
        for port in [1000, 1001] {
            prop_assert!(pass(port, isn, 0, true));
            let mut sequence = isn.wrapping_add(1);
            for (index, &len) in cuts.iter().enumerate() {
                while !pass(port, sequence, len, false) {
                    *lost.entry((port, index)).or_insert(0) += 1;
                }
                // Acknowledgements and what came already is never lost.
                prop_assert!(pass(port, sequence, 0, false));
                if random.chance(0.3) && lost.get(&(port, number as usize - 1)) == Some(&times) {
                    prop_assert!(pass(port, sequence, len, false));
                }
                sequence = sequence.wrapping_add(len);
            }
        }
        let expected = if number as usize <= cuts.len() { times } else { 0 };
        for port in [1000, 1001] {
            let found = lost.remove(&(port, number as usize - 1)).unwrap_or(0);
            prop_assert_eq!(found, expected);
        }
        prop_assert!(lost.is_empty(), "only that one: {:?}", lost);
    }
}

/// What is sent again is no segment with new data, before the one that is lost too.
#[test]
fn segments_count_once_however_often_they_are_sent() {
    let loss = words::loss("segment 3").expect("right words");
    let settings = Settings {
        loss,
        ..Settings::default()
    };
    let mut link = Link::new(settings, 1, 0, 1 << 20);
    let flow = [
        (IpAddr::from([10, 0, 0, 1]), 1000),
        (IpAddr::from([10, 0, 0, 2]), 80),
    ];
    let mut out = Vec::new();
    let mut pass = |sequence, len, is_syn| {
        let segment = Some(Segment {
            flow,
            sequence,
            len,
            is_syn,
        });
        let before = out.len();
        let packet = Packet {
            number: 0,
            len: 60 + len,
            segment,
        };
        link.push(0, packet, &mut out);
        link.on_timer(0, &mut out);
        out.len() > before
    };
    assert!(pass(99, 0, true));
    for (sequence, len, passes) in [
        (100, 10, true),
        (100, 10, true),
        (110, 10, true),
        (100, 20, true),
        (110, 10, true),
        (120, 10, false),
        (120, 10, true),
        (130, 10, true),
    ] {
        assert_eq!(pass(sequence, len, false), passes, "{sequence} {len}");
    }
}

#[test]
fn connections_are_followed_as_far_as_memory_bears_them() {
    let settings = Settings {
        loss: words::loss("segment 1").expect("right words"),
        ..Settings::default()
    };
    let mut link = Link::new(settings.clone(), 1, 0, 1 << 16);
    let mut out = Vec::new();
    let mut pass = |link: &mut Link<Packet>, port| {
        let flow = [(IpAddr::from([1; 16]), port), (IpAddr::from([2; 16]), 2)];
        let segment = Some(Segment {
            flow,
            sequence: 1,
            len: 10,
            is_syn: false,
        });
        link.push(
            0,
            Packet {
                number: 0,
                len: 60,
                segment,
            },
            &mut out,
        );
        link.on_timer(0, &mut out);
    };
    for port in 0..1000 {
        pass(&mut link, port);
    }
    let (lost, unfollowed) = (link.counters().dropped.loss, link.counters().unfollowed);
    assert!((50..150).contains(&lost), "{lost}");
    assert_eq!(lost + unfollowed, 1000);
    assert!(
        link.warnings()
            .concat()
            .contains("more connections than memory bears")
    );
    // Frames have what is left; another model of loss forgets, and there is room again.
    assert_eq!(link.counters().dropped.memory, 0);
    link.change(1, [Settings::default()], &mut Vec::new());
    link.change(2, [settings], &mut Vec::new());
    pass(&mut link, 0);
    assert_eq!(link.counters().dropped.loss, lost + 1);
}

#[test]
fn a_byte_is_lost_whatever_segment_carries_it() {
    let flow = [(IpAddr::from([1; 16]), 1), (IpAddr::from([2; 16]), 2)];
    let settings = Settings {
        loss: words::loss("byte 1500 times 2").expect("right words"),
        ..Settings::default()
    };
    let mut link = Link::new(settings, 1, 0, 1 << 20);
    let mut out = Vec::new();
    let first = u32::MAX - 1000;
    let sent = [
        (first.wrapping_sub(1), 0, true, true),
        (first, 1000, false, true),
        (first.wrapping_add(1000), 1000, false, false),
        // Sent again, cut differently.
        (first.wrapping_add(1400), 200, false, false),
        (first.wrapping_add(1000), 1000, false, true),
        (first.wrapping_add(2000), 1000, false, true),
        // The ports are used again by another connection.
        (77, 0, true, true),
        (78, 1501, false, false),
    ];
    for (at, (sequence, len, is_syn, passes)) in sent.into_iter().enumerate() {
        let segment = Some(Segment {
            flow,
            sequence,
            len,
            is_syn,
        });
        let packet = Packet {
            number: 0,
            len: 60,
            segment,
        };
        out.clear();
        link.push(0, packet, &mut out);
        link.on_timer(0, &mut out);
        assert_eq!(out.len() == 1, passes, "segment {at}");
    }
}

#[test]
fn classes_have_their_own_delay_and_loss_and_share_the_rate() {
    let delay = |text| words::delay(text, &mut words::no_files).expect("right words");
    let base = Settings {
        delay: delay("10ms 1ms distribution normal"),
        rate: Some(words::rate("8mbit").expect("right words")),
        ..Settings::default()
    };
    let other = Settings {
        delay: delay("1ms"),
        loss: words::loss("every 2").expect("right words"),
        ..Settings::default()
    };
    let mut link = Link::new(base.clone(), 7, 0, 1 << 20);
    link.add_classes(vec![other], 7, 0);
    let mut out = Vec::new();
    for number in 0..100 {
        let kind = (number % 2) as u8;
        let at_ns = 10_000_000 * number;
        link.push_class(kind, at_ns, packet(number as u64, 1000), &mut out);
    }
    link.on_timer(i64::MAX, &mut out);
    assert!(link.counters().is_whole(0));
    assert_eq!(link.counters().dropped.loss, 25);
    assert_eq!(link.classes()[1].lost(), 25);
    assert_eq!(link.classes()[0].lost(), 0);
    let of = |kind| out.iter().filter(move |departure| departure.class == kind);
    assert_eq!((of(0).count(), of(1).count()), (50, 25));
    for departure in of(1) {
        // 1 ms, and 1000 bytes at 8 Mbit/s: alone on the wire, or after one of the other class.
        assert_eq!(departure.due_ns - departure.entered_ns, 1_000_000);
        let took = departure.at_ns - departure.due_ns;
        assert!((1_000_000..2_000_000).contains(&took), "{took}");
    }
    // Those of the first kind draw what they would draw alone.
    let mut link = Link::new(base, 7, 0, 1 << 20);
    let mut alone = Vec::new();
    for number in 0..50 {
        link.push(20_000_000 * number, packet(0, 1000), &mut alone);
    }
    link.on_timer(i64::MAX, &mut alone);
    let drawn = |departures: &mut dyn Iterator<Item = &Departure<Packet>>| -> Vec<i64> {
        departures.map(|departure| departure.delay_ns).collect()
    };
    assert_eq!(drawn(&mut of(0)), drawn(&mut alone.iter()));
}

#[test]
fn loss_follows_a_path_file() {
    let text = "time loss\n0 0%\n1s 100%\n2s,50%\n3s repeat\n";
    let path = PathFile::read("path", text).expect("right lines");
    let settings = Settings {
        schedule: Some(Schedule::Path(path)),
        ..Settings::default()
    };
    let arrivals: Vec<_> = (0..6000).map(|k| (k * 1_000_000, 60)).collect();
    let found = left(settings, 0, &arrivals);
    let mut by_second = [0; 6];
    for departure in &found {
        assert_eq!(departure.at_ns, departure.entered_ns);
        by_second[(departure.entered_ns / 1_000_000_000) as usize] += 1;
    }
    assert_eq!([by_second[0], by_second[3]], [1000, 1000]);
    assert_eq!([by_second[1], by_second[4]], [0, 0]);
    for half in [by_second[2], by_second[5]] {
        assert!((430..570).contains(&half), "{half}");
    }
}

#[test]
fn malformed_path_files_are_refused_with_line_and_column() {
    for (text, message) in [
        (
            "",
            "line 1, column 1: a header such as 'time delay loss rate' is missing",
        ),
        (
            "time\n",
            "line 1, column 1: name 'delay', 'loss' or 'rate' beside 'time'",
        ),
        (
            "delay time\n",
            "line 1, column 1: 'delay' is no column here",
        ),
        (
            "time jitter\n",
            "line 1, column 6: 'jitter' is no column here",
        ),
        (
            "time delay delay\n",
            "line 1, column 12: 'delay' is no column here",
        ),
        (
            "time delay\n",
            "line 1, column 1: a line with values is missing",
        ),
        (
            "time delay\n1s 5ms\n",
            "line 2, column 1: the first line's time is not 0",
        ),
        (
            "time delay\n0 5ms\n\n0 6ms\n",
            "line 4, column 1: 0 is not later than the line before",
        ),
        ("time delay\n0 5\n", "line 2, column 3: '5' is not a time"),
        (
            "time delay\n0 5ms 1%\n",
            "line 2, column 1: 3 columns, not 2",
        ),
        (
            "time,loss\n0,101%\n",
            "line 2, column 3: '101%' is not a share",
        ),
        (
            "time rate\n0 5kpps\n",
            "line 2, column 3: '5kpps' counts frames",
        ),
        (
            "time rate\n0 5mbit\n1s 0\n",
            "line 3, column 1: the last rate is 0",
        ),
        (
            "time rate\n0 0\n1s repeat\n",
            "line 3, column 1: all rates are 0",
        ),
        (
            "time rate\n0 1mbit\n0 repeat\n",
            "line 3, column 1: the time of 'repeat' is not after",
        ),
        (
            "time rate\n0 1mbit\n1s repeat\n2s 1mbit\n",
            "line 4, column 1: nothing may follow 'repeat'",
        ),
    ] {
        let error = PathFile::read("path", text).expect_err(text).to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
    for (text, message) in [
        ("", "no line is later than 0 ms"),
        ("0\n0\n", "no line is later than 0 ms"),
        ("5\n4\n", "line 2, column 1: milliseconds rise or stay"),
        (
            "5\n6.5\n",
            "line 2, column 1: '6.5' is not a number: write one millisecond a line",
        ),
        ("-5\n", "line 1, column 1: '-5' is not a number"),
    ] {
        let error = Deliveries::read("trace", text).expect_err(text).to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
    let trace = Deliveries::read("trace", "0\n1\n1\n4\n").expect("right lines");
    assert_eq!(trace.write(), "0\n1\n1\n4\n");
    assert_eq!(trace.bits_per_second(), 12_000_000);
}

#[test]
fn traces_and_path_files_become_one_another() {
    let trace = Deliveries::read("trace", "0\n1\n1\n4\n").expect("right lines");
    let path = trace.path_file(2_000_000).expect("few lines");
    assert_eq!(
        path.write(),
        "time rate\n0ns 18000000bit\n2ms 6000000bit\n4ms repeat\n"
    );
    let long = Deliveries::read("trace", "4294967295\n").expect("a right line");
    assert!(long.path_file(1).is_err());
    let whole = long.path_file(u64::MAX).expect("one line");
    assert_eq!(whole.steps()[0].bits_per_second, Some(1));
    let text = "time rate\n0 12mbit\n3ms 0\n5ms 24mbit\n6ms repeat\n";
    let path = PathFile::read("path", text).expect("right lines");
    let trace = Deliveries::of_path(&path).expect("it has a rate");
    assert_eq!(trace.at_ms(), [1, 2, 3, 6, 6]);
    // A period that ends without a delivery: the line that says so delivers.
    let path = PathFile::read("path", "time rate\n0 12mbit\n3ms 0\n5ms repeat\n");
    let trace = Deliveries::of_path(&path.expect("right lines")).expect("it has a rate");
    assert_eq!(trace.at_ms(), [1, 2, 3, 5]);
    let path = PathFile::read("path", "time delay\n0 1ms\n").expect("right lines");
    assert!(Deliveries::of_path(&path).is_err());
}

#[test]
fn classes_share_what_they_have_in_common() {
    let settings = |delay: &str, loss: &str| Settings {
        delay: words::delay(delay, &mut words::no_files).expect("right words"),
        loss: words::loss(loss).expect("right words"),
        ..Settings::default()
    };
    let jitter = "5ms 5ms distribution normal";
    let mut link = Link::new(settings(jitter, "every 3"), 7, 0, 1 << 20);
    let kinds = vec![settings(jitter, "none"), settings("1ms", "every 3")];
    link.add_classes(kinds, 7, 0);
    let mut out = Vec::new();
    for number in 0..300_u64 {
        let kind = (number % 3) as u8;
        link.push_class(kind, 100_000 * number as i64, packet(number, 100), &mut out);
    }
    link.on_timer(i64::MAX, &mut out);
    // Kinds 0 and 2 are 200 frames for one model of loss; kinds 0 and 1 keep their order.
    let lost: Vec<_> = link.classes().iter().map(|kind| kind.lost()).collect();
    assert_eq!((lost[0] + lost[2], lost[1]), (66, 0));
    let ordered = out.iter().filter(|departure| departure.class < 2);
    assert!(ordered.map(|departure| departure.item.number).is_sorted());
    assert!(
        !out.iter()
            .map(|departure| departure.item.number)
            .is_sorted()
    );
    let drawn = link.drawn().expect("jitter");
    assert_eq!(drawn.count, 200 - lost[0]);
    assert_eq!(link.drawn_for(&link.classes()[1]), Some(drawn));
    assert_eq!(link.drawn_for(&link.classes()[2]), None);
}

#[test]
fn frames_that_a_change_brings_together_do_not_overtake() {
    let delay = |text: &str| Settings {
        delay: words::delay(text, &mut words::no_files).expect("right words"),
        ..Settings::default()
    };
    const MS: i64 = 1_000_000;
    let frame = || Frame::copied(b"x", Descriptor::default());
    let mut link = Link::new(delay("1ms"), 7, 0, 1 << 20);
    link.add_classes(vec![delay("20ms")], 7, 0);
    let mut out = Vec::new();
    link.push_class(1, 0, frame(), &mut out);
    link.change(MS, [delay("2ms"), delay("2ms")], &mut out);
    link.push_class(1, MS, frame(), &mut out);
    link.change(2 * MS, [delay("3ms"), delay("1ms")], &mut out);
    link.push_class(1, 3 * MS, frame(), &mut out);
    link.push_class(0, 30 * MS, frame(), &mut out);
    link.on_timer(40 * MS, &mut out);
    let left: Vec<_> = out
        .iter()
        .map(|left| (left.changes, left.at_ns / MS))
        .collect();
    assert_eq!(left, [(0, 20), (1, 20), (2, 20), (2, 33)]);
}
