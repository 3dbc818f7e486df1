//! Monitors against models of a few lines each, on random frames.

use std::collections::{BTreeMap, BTreeSet};

use lineside_account::Budget;
use lineside_measure::monitor::{
    Bin, FlowFacts, Head, Label, Monitors, Place, Report, TcpFacts, Window, Words,
};
use lineside_wire::TcpFlags;
use lineside_wire::build::{FrameBuilder, TcpFields};
use proptest::prelude::*;

/// A frame of one of a few flows.
#[derive(Debug, Clone)]
struct Given {
    after_ns: i64,
    flow: u8,
    /// Offset in the stream, and bytes there.
    offset: u16,
    len: u16,
    window: u16,
    flags: u8,
}

#[derive(Debug, Default, PartialEq, Clone)]
struct Found {
    /// By metric, flow, and bin.
    bins: BTreeMap<(String, Option<i64>, u64, u64), u64>,
    windows: BTreeMap<(Option<i64>, i64), (u64, u64)>,
    flows: BTreeMap<i64, FlowFacts>,
}

impl Report for Found {
    fn bin(&mut self, _: Label<'_>, bin: Bin) {
        let key = (bin.metric.to_owned(), bin.flow_id, bin.from, bin.to);
        *self.bins.entry(key).or_default() += bin.count;
    }

    fn window(&mut self, _: Label<'_>, window: Window) {
        let key = (window.flow_id, window.start_ns);
        let (packets, bytes) = self.windows.entry(key).or_default();
        *packets += window.packets;
        *bytes += window.bytes;
    }

    fn flow(&mut self, _: Label<'_>, flow: &FlowFacts) {
        assert!(
            self.flows.insert(flow.flow_id, *flow).is_none(),
            "given once"
        );
    }
}

impl Found {
    /// Whether bins of a metric hold exactly these values.
    fn holds(&self, metric: &str, flow: Option<i64>, values: &[u64]) {
        let bins = self
            .bins
            .iter()
            .filter(|((name, of, ..), _)| name == metric && *of == flow);
        let mut total = 0;
        for ((_, _, from, to), count) in bins {
            let inside = values.iter().filter(|value| (from..=to).contains(value));
            assert_eq!(inside.count() as u64, *count, "{metric} {from} to {to}");
            total += count;
        }
        assert_eq!(total, values.len() as u64, "{metric}: each value has a bin");
    }
}

fn frame(given: &Given) -> Vec<u8> {
    let builder = FrameBuilder::new([10, 0, 0, given.flow].into(), [10, 0, 1, 1].into());
    let fields = TcpFields {
        source_port: 700,
        destination_port: 2049,
        // Close to where numbers begin again.
        sequence: 0xffff_f000_u32.wrapping_add(given.offset.into()),
        window: given.window,
        flags: TcpFlags(given.flags),
        ..TcpFields::default()
    };
    builder.tcp(&fields, &vec![7; usize::from(given.len)])
}

/// What monitors with these words find of the frames.
fn measured(words: &[&str], frames: &[Given]) -> Found {
    let budget = Budget::new(64 << 20);
    let mut monitors = Monitors::new(&budget);
    for words in words {
        monitors.ask(&words.parse::<Words>().expect("words"));
    }
    let place = monitors.place(&Place::named("eth1.left")).expect("memory");
    let (mut found, mut now) = (Found::default(), 1_000_000_007);
    for given in frames {
        now += given.after_ns;
        let bytes = frame(given);
        let head = Head {
            time_ns: Some(now),
            place,
            link_type: 1,
            wire_len: bytes.len() as u32,
            bytes: &bytes[..bytes.len().min(128)],
        };
        monitors.on_head(&head, &mut found).expect("no expression");
    }
    monitors.report(&mut found);
    found
}

/// Times, from the first on, and lengths of the frames.
fn heads(frames: &[Given]) -> Vec<(i64, u64)> {
    let mut now = 1_000_000_007;
    let head = |given: &Given| {
        now += given.after_ns;
        (now, frame(given).len() as u64)
    };
    frames.iter().map(head).collect()
}

prop_compose! {
    fn given()(
        after_ns in prop_oneof![0..100i64, 0..50_000i64, 0..5_000_000i64],
        flow in 1..4u8, offset in 0..4_000u16, len in 0..1_400u16, window: u16,
        flags in prop_oneof![Just(0x10u8), Just(0x18)],
    ) -> Given {
        Given { after_ns, flow, offset, len, window, flags }
    }
}

proptest! {
    #[test]
    fn gaps_sizes_windows_and_bursts_equal_their_models(
        frames in prop::collection::vec(given(), 1..200)
    ) {
        let words = ["size,gap,burst,packets within 5us window 100us"];
        let (found, heads) = (measured(&words, &frames), heads(&frames));
        let sizes: Vec<_> = heads.iter().map(|head| head.1).collect();
        found.holds("packet_bytes", None, &sizes);
        let gaps = heads.windows(2).map(|pair| (pair[1].0 - pair[0].0) as u64);
        found.holds("gap_ns", None, &gaps.collect::<Vec<_>>());
        let mut windows = BTreeMap::<_, (u64, u64)>::new();
        for (time_ns, bytes) in &heads {
            let sums = windows.entry((None, time_ns / 100_000 * 100_000)).or_default();
            *sums = (sums.0 + 1, sums.1 + bytes);
        }
        prop_assert_eq!(&found.windows, &windows);
        let packets: Vec<_> = windows.values().map(|window| window.0).collect();
        found.holds("window_packets", None, &packets);
        let is_burst = |one: &(i64, u64), other: &(i64, u64)| other.0 - one.0 <= 5_000;
        let bursts: Vec<_> = heads.chunk_by(is_burst).collect();
        let count: Vec<_> = bursts.iter().map(|burst| burst.len() as u64).collect();
        found.holds("burst_packets", None, &count);
        let bytes = bursts.iter().map(|burst| burst.iter().map(|head| head.1).sum());
        found.holds("burst_bytes", None, &bytes.collect::<Vec<u64>>());
    }

    #[test]
    fn flows_equal_their_model(frames in prop::collection::vec(given(), 1..200)) {
        let words = ["flow_size,reordering,tcp_window"];
        let (found, heads) = (measured(&words, &frames), heads(&frames));
        let order: Vec<u8> = frames.iter().map(|given| given.flow).collect();
        let mut order_seen: Vec<u8> = Vec::new();
        order.iter().for_each(|flow| if !order_seen.contains(flow) { order_seen.push(*flow) });
        let mut all_extents = Vec::new();
        for (flow_id, flow) in (1..).zip(&order_seen) {
            let own = frames.iter().zip(&heads).filter(|(given, _)| given.flow == *flow);
            let own: Vec<_> = own.collect();
            let facts = &found.flows[&flow_id];
            prop_assert_eq!(facts.packets, own.len() as u64);
            prop_assert_eq!(facts.bytes, own.iter().map(|(_, head)| head.1).sum::<u64>());
            let times = (own.first().map(|(_, head)| head.0), own.last().map(|(_, head)| head.0));
            prop_assert_eq!((facts.first_ns, facts.last_ns), times);
            let tcp = facts.tcp.expect("TCP");
            let windows = own.iter().map(|(given, _)| u64::from(given.window));
            prop_assert_eq!(tcp.windows, windows.clone().min().zip(windows.max()));
            let own: Vec<_> = own.iter().map(|(given, _)| *given).collect();
            let (model, extents) = stream(&own);
            let modelled = TcpFacts { windows: tcp.windows, ..model };
            prop_assert_eq!(tcp, modelled);
            all_extents.extend(extents);
        }
        found.holds("reordering_extent_packets", None, &all_extents);
        let windows: Vec<_> = frames.iter().map(|given| u64::from(given.window)).collect();
        found.holds("tcp_window_unscaled_bytes", None, &windows);
    }

    #[test]
    fn monitors_by_flow_are_those_of_each_flow_alone(
        frames in prop::collection::vec(given(), 1..100)
    ) {
        let together = measured(&["gap,packets,size by flow"], &frames);
        let mut ids: Vec<u8> = Vec::new();
        for given in &frames {
            if !ids.contains(&given.flow) {
                ids.push(given.flow);
            }
        }
        for (flow_id, flow) in (1..).zip(&ids) {
            // The others' frames are gone, and their times are not.
            let mut own: Vec<Given> = Vec::new();
            let mut passed_ns = 0;
            for given in &frames {
                passed_ns += given.after_ns;
                if given.flow == *flow {
                    own.push(Given { after_ns: passed_ns, ..given.clone() });
                    passed_ns = 0;
                }
            }
            let alone = measured(&["gap,packets,size"], &own);
            let of_flow = |found: &Found, id: Option<i64>| {
                let bins = found.bins.iter().filter(|((_, of, ..), _)| *of == id);
                let bins = bins.map(|((metric, _, from, to), count)| {
                    (metric.clone(), *from, *to, *count)
                });
                let windows = found.windows.iter().filter(|((of, _), _)| *of == id);
                let windows = windows.map(|((_, at), sums)| (*at, *sums));
                (bins.collect::<Vec<_>>(), windows.collect::<Vec<_>>())
            };
            prop_assert_eq!(of_flow(&together, Some(flow_id)), of_flow(&alone, None));
        }
    }
}

/// RFC 4737 by the book, with a set of the bytes that passed.
fn stream(frames: &[&Given]) -> (TcpFacts, Vec<u64>) {
    let mut seen = BTreeSet::new();
    let mut begins: Vec<u32> = Vec::new();
    let (mut tcp, mut extents) = (TcpFacts::default(), Vec::new());
    // What lies before the first segment was never expected.
    let mut next = None;
    for given in frames.iter().filter(|given| given.len > 0) {
        let (start, len) = (u32::from(given.offset), u32::from(given.len));
        let expected = *next.get_or_insert(start);
        if len == 1 && start + 1 == expected {
            continue;
        }
        let first = begins.first().copied().unwrap_or(start);
        // Nobody knows whether bytes before the first segment had passed.
        let known = start.max(first)..(start + len).min(expected).max(start.max(first));
        let late: Vec<u32> = { known.clone() }
            .filter(|byte| !seen.contains(byte))
            .collect();
        tcp.retransmitted_bytes += known.len() as u64 - late.len() as u64;
        if let Some(&byte) = late.first() {
            let passed = begins
                .iter()
                .position(|begin| *begin > byte)
                .expect("passed over");
            let extent = (begins.len() - passed) as u64;
            let before = begins
                .iter()
                .rev()
                .take(8)
                .take_while(|begin| **begin > start);
            let n = before.count() as u64;
            extents.push(extent);
            tcp.reordered_packets += 1;
            let (extent_max, n_max) = tcp.reordering_max.unwrap_or_default();
            tcp.reordering_max = Some((extent_max.max(extent), n_max.max(n)));
        }
        seen.extend(start..start + len);
        next = Some(expected.max(start + len));
        begins.push(start);
    }
    (tcp, extents)
}

#[test]
fn windows_are_scaled_as_the_syn_says_unless_the_peer_refuses() {
    let budget = Budget::new(64 << 20);
    for (syn_shift, ack_shift, expected) in [
        (Some(7), Some(3), [Some(7), Some(3)]),
        (Some(7), None, [Some(0), Some(0)]),
        (None, None, [Some(0), Some(0)]),
    ] {
        let mut monitors = Monitors::new(&budget);
        monitors.ask(&"tcp_window".parse().expect("words"));
        let place = monitors.place(&Place::named("tap")).expect("memory");
        let mut found = Found::default();
        let syn = TcpFlags(0x02);
        for (is_client, flags, shift) in [
            (true, syn, syn_shift),
            (false, TcpFlags(0x12), ack_shift),
            (true, TcpFlags(0x10), None),
        ] {
            let (one, other) = ([10, 0, 0, 1], [10, 0, 0, 2]);
            let (from, to) = if is_client {
                (one, other)
            } else {
                (other, one)
            };
            let options = shift.map_or(vec![], |shift: u8| vec![3, 3, shift, 1]);
            let fields = TcpFields {
                source_port: if is_client { 700 } else { 80 },
                destination_port: if is_client { 80 } else { 700 },
                window: 1_000,
                flags,
                options: &options,
                ..TcpFields::default()
            };
            let bytes = FrameBuilder::new(from.into(), to.into()).tcp(&fields, b"");
            let head = Head {
                time_ns: None,
                place,
                link_type: 1,
                wire_len: bytes.len() as u32,
                bytes: &bytes,
            };
            monitors.on_head(&head, &mut found).expect("no expression");
        }
        monitors.report(&mut found);
        let scales = [1, 2].map(|flow| found.flows[&flow].tcp.expect("TCP").window_scale);
        assert_eq!(scales, expected);
        let most = found.flows[&1]
            .tcp
            .and_then(|tcp| tcp.windows)
            .expect("windows");
        assert_eq!(most.1, 1_000 << expected[0].expect("a scale"));
    }
}

#[test]
fn flows_without_a_place_are_counted_as_others() {
    let frames: Vec<_> = (0..200)
        .map(|flow| Given {
            after_ns: 10,
            flow,
            offset: 0,
            len: 10,
            window: 5,
            flags: 0x10,
        })
        .collect();
    let found = measured(&["flow_size flows 64"], &frames);
    assert_eq!(found.flows.len(), 65);
    assert_eq!(found.flows[&0].packets, 200 - 64);
    assert_eq!(
        found.flows.values().map(|flow| flow.packets).sum::<u64>(),
        200
    );
    // Those that are over make room, and are in no row twice.
    let over = frames.iter().map(|given| Given {
        flags: 0x11,
        after_ns: 100_000_000,
        ..given.clone()
    });
    let found = measured(&["flow_size flows 64"], &over.collect::<Vec<_>>());
    assert_eq!(found.flows.len(), 200);
}

#[test]
fn a_hundred_thousand_flows_take_64_mib_at_most() {
    let budget = Budget::new(256 << 20);
    let mut monitors = Monitors::new(&budget);
    monitors.ask(&"all".parse().expect("words"));
    let place = monitors.place(&Place::named("eth1.came")).expect("memory");
    let mut found = Found::default();
    for flow in 0..100_000_u32 {
        let source = (0x0a00_0000 + flow / 60_000).to_be_bytes();
        let builder = FrameBuilder::new(source.into(), [10, 9, 1, 1].into());
        let fields = TcpFields {
            source_port: 1_024 + (flow % 60_000) as u16,
            destination_port: 2049,
            ..TcpFields::default()
        };
        let bytes = builder.tcp(&fields, b"a call");
        let head = Head {
            time_ns: Some(flow.into()),
            place,
            link_type: 1,
            wire_len: bytes.len() as u32,
            bytes: &bytes,
        };
        monitors.on_head(&head, &mut found).expect("no expression");
    }
    let (taken, drawn) = (monitors.memory_bytes(), budget.used_bytes());
    println!("{taken} bytes taken, {drawn} drawn on the budget");
    assert!(taken <= drawn, "{taken} of {drawn}");
    assert!(drawn <= 64 << 20, "{drawn}");
    monitors.report(&mut found);
    assert_eq!(found.flows.len(), 100_000, "each has a row");
}

/// A head of an unspecific frame of this length.
fn head(place: u16, time_ns: i64, wire_len: u32) -> Head<'static> {
    Head {
        time_ns: Some(time_ns),
        place,
        link_type: 1,
        wire_len,
        bytes: &[0; 60],
    }
}

#[test]
fn monitors_of_ten_thousand_places_draw_what_they_take() {
    let budget = Budget::new(64 << 20);
    let mut monitors = Monitors::new(&budget);
    monitors.ask(&"size,gap".parse().expect("words"));
    let mut found = Found::default();
    for number in 0..10_000 {
        let place = Place::named(&format!("files/{number}.pcap"));
        let number = monitors.place(&place).expect("memory");
        assert_eq!(monitors.place(&place).expect("known"), number);
        for (time_ns, len) in [(0, 60), (9_000, 100), (9_500, 60)] {
            let head = head(number, time_ns, len);
            monitors.on_head(&head, &mut found).expect("memory");
        }
    }
    let (taken, drawn) = (monitors.memory_bytes(), budget.used_bytes());
    println!("{taken} bytes taken, {drawn} drawn on the budget");
    assert!(taken <= drawn && drawn <= budget.limit_bytes());
    // Jumbo frames take bins up to their length: 72 KB a place, and not all have room.
    let refused = (0..10_000).find_map(|number| {
        let measured = monitors.on_head(&head(number, 10_000, 9_000), &mut found);
        measured.err().map(|error| error.to_string())
    });
    let why = refused.expect("720 MB have no room");
    assert!(
        why.contains("'gap,size'") || why.contains("'size,gap'"),
        "{why}"
    );
    assert!(why.contains("raise --memory"), "{why}");
    let (taken, drawn) = (monitors.memory_bytes(), budget.used_bytes());
    assert!(taken <= drawn && drawn <= budget.limit_bytes());
    assert!(drawn > budget.limit_bytes() - (80 << 10), "{drawn}");
    drop(monitors);
    assert_eq!(budget.used_bytes(), 0);
}
