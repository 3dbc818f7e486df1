//! A file with frames at several places of one path: each counts once.

use std::net::IpAddr;

use lineside_account::{Budget, Counter};
use lineside_capture::{At, Config, OnePlace, Pipeline, run};
use lineside_frame::{Burst, Descriptor, Frame};
use lineside_port::{
    CaptureReader, Facts, Interface, PoolConfig, Port, PortError, Receive, Received,
};
use lineside_rows::CollectedRows;
use lineside_testkit::captures;

const DELAY_NS: i64 = 5_000_000;
/// How much slower time goes than in the example, so that a request that waits for a reply leaves
/// after it at the client, too.
const SLOWER: i64 = 2_000;

/// The places, in the order of their interfaces.
const NAMES: [&str; 4] = ["eth1.came", "eth1.left", "eth2.came", "eth2.left"];

/// A file in memory.
struct Recording {
    facts: Facts,
    frames: Vec<Frame>,
}

impl Port for Recording {
    fn facts(&self) -> Vec<&Facts> {
        vec![&self.facts]
    }
}

impl Receive for Recording {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let count = self.frames.len().min(max);
        burst.extend(self.frames.drain(..count));
        Ok(match count {
            0 => Received::End,
            count => Received::Frames(count),
        })
    }

    fn leave(&mut self, ahead: &mut Burst) {
        ahead.clear();
    }
}

/// The frames of the example, whose tap is at the server.
fn example() -> Vec<Frame> {
    let path = captures::example("nfs-mix.pcapng.zst");
    let pool = PoolConfig::new(Budget::new(64 << 20), 16 << 20);
    let mut reader = CaptureReader::open(&path, &pool).expect("a capture");
    let (mut frames, mut first_ns) = (Vec::new(), None);
    let mut burst = Burst::new();
    while reader.receive(&mut burst, 256).expect("no failure") != Received::End {
        for frame in burst.drain(..) {
            let mut at = *frame.descriptor();
            let first_ns = *first_ns.get_or_insert_with(|| at.stamp_ns.expect("a stamp"));
            at.stamp_ns = at.stamp_ns.map(|ns| first_ns + (ns - first_ns) * SLOWER);
            frames.push(Frame::copied(frame.bytes(), at));
        }
    }
    // Two of them were recorded out of order.
    in_order(&mut frames);
    frames
}

fn in_order(frames: &mut [Frame]) {
    frames.sort_by_key(|frame| frame.descriptor().stamp_ns);
    for (number, frame) in (1..).zip(frames) {
        let descriptor = frame.descriptor_mut();
        (descriptor.number, descriptor.ordinal) = (number, number);
    }
}

/// The same frames at the places of a link with a delay; interfaces that are not in `places` have
/// none. The second port's are those of the example.
fn recording(names: [&str; 4], places: &[usize]) -> Recording {
    let mut clients: Vec<(IpAddr, IpAddr)> = Vec::new();
    let mut frames = Vec::new();
    for frame in example() {
        let at = *frame.descriptor();
        let is_call = lineside_wire::addresses(at.link_type.0, frame.bytes()).is_none_or(|ends| {
            if !clients.contains(&ends) && !clients.contains(&(ends.1, ends.0)) {
                clients.push(ends);
            }
            clients.contains(&ends)
        });
        let copies = match is_call {
            true => [(0, -DELAY_NS), (3, 0)],
            false => [(2, 0), (1, DELAY_NS)],
        };
        for (interface, later_ns) in copies {
            if places.contains(&interface) {
                let descriptor = Descriptor {
                    stamp_ns: at.stamp_ns.map(|stamp_ns| stamp_ns + later_ns),
                    interface: interface as u16,
                    ..at
                };
                frames.push(Frame::copied(frame.bytes(), descriptor));
            }
        }
    }
    in_order(&mut frames);
    let interface = |name: &str| Interface {
        name: Some(name.to_owned()),
        ..Interface::default()
    };
    let facts = Facts {
        interfaces: names.map(interface).into(),
        ..Facts::default()
    };
    Recording { facts, frames }
}

/// What is compared of a row: xid, operation, and the time from the call's end to the reply.
type Row = (Option<i64>, String, Option<i64>);

/// The rows of a port, sorted; retransmissions; frames that did not count.
fn rows(port: impl Receive, at: Option<At>) -> (Vec<Row>, i64, u64, Option<String>) {
    let budget = Budget::new(64 << 20);
    let mut pipeline = Pipeline::new(Config::default(), &budget, CollectedRows::default());
    let mut port = OnePlace::new(port, at);
    let errors = run(&mut port, &mut pipeline, u64::MAX, |_, _, _| {
        lineside_capture::Step::Continue
    });
    assert!(errors.is_empty(), "{errors:?}");
    let (found, counters) = pipeline.finish();
    let mut counted = counters;
    counted.merge(port.counters());
    assert_eq!(counted.broken_identity(), None);
    let mut rows: Vec<Row> = { found.operations.iter() }
        .map(|row| {
            let took_ns = row.reply_time_ns.zip(row.call_end_ns);
            let operation = format!("{:?}", row.operation);
            (
                row.xid,
                operation,
                took_ns.map(|(reply, call)| reply - call),
            )
        })
        .collect();
    rows.sort();
    let sent_again = { found.connections.iter() }
        .map(|row| row.client_retransmissions + row.server_retransmissions)
        .sum();
    let elsewhere = counted.value(Counter::FramesElsewhere);
    (rows, sent_again, elsewhere, port.note())
}

/// The example's rows, with the link's delay there and back added to each.
fn expected(later_ns: i64) -> Vec<Row> {
    let whole = Recording {
        facts: Facts::default(),
        frames: example(),
    };
    let (mut rows, sent_again, elsewhere, note) = rows(whole, Some(At::Server));
    assert_eq!((sent_again, elsewhere, note), (0, 0, None));
    rows.iter_mut()
        .for_each(|row| row.2 = row.2.map(|took_ns| took_ns + later_ns));
    rows.sort();
    rows
}

fn assert_same(found: &[Row], expected: &[Row]) {
    let lacks = |one: &[Row], other: &[Row]| {
        let lacking = one.iter().filter(|row| !other.contains(row)).cloned();
        lacking.take(3).collect::<Vec<_>>()
    };
    let (more, less) = (lacks(found, expected), lacks(expected, found));
    assert!(
        found.len() == expected.len() && more.is_empty() && less.is_empty(),
        "{} rows for {}; {more:?} for {less:?}",
        found.len(),
        expected.len()
    );
}

#[test]
fn each_segment_counts_once_at_the_server() {
    let (found, sent_again, elsewhere, note) =
        rows(recording(NAMES, &[0, 1, 2, 3]), Some(At::Server));
    assert_same(&found, &expected(0));
    assert_eq!((sent_again, elsewhere), (0, example().len() as u64));
    let note = note.expect("a path");
    assert!(note.contains("server's side: eth2"), "{note}");
}

#[test]
fn the_client_or_a_port_can_be_chosen() {
    for at in [At::Client, At::Port("eth1".to_owned())] {
        let found = rows(recording(NAMES, &[0, 1, 2, 3]), Some(at)).0;
        assert_same(&found, &expected(2 * DELAY_NS));
    }
    let of_port = rows(recording(NAMES, &[0, 1, 2, 3]), Some(At::of("eth2"))).0;
    assert_same(&of_port, &expected(0));
}

#[test]
fn a_file_with_some_of_the_places_counts_each_frame_once() {
    // Of one port alone; with one direction of the other port; only what came; only what left.
    for (places, later_ns) in [
        (&[0, 1][..], 2 * DELAY_NS),
        (&[2, 3], 0),
        (&[0, 1, 2], 2 * DELAY_NS),
        (&[0, 2, 3], 0),
        (&[0, 2], DELAY_NS),
        (&[1, 3], DELAY_NS),
    ] {
        let (found, ..) = rows(recording(NAMES, places), Some(At::Server));
        println!("{places:?}");
        assert_same(&found, &expected(later_ns));
    }
}

#[test]
fn other_names_mean_nothing_and_an_unknown_port_is_an_error() {
    let names = ["eth1.100", "left", "eth2", "came.eth2"];
    let (.., elsewhere, note) = rows(recording(names, &[2, 3]), Some(At::Server));
    assert_eq!((elsewhere, note), (0, None));

    let mut port = OnePlace::new(recording(NAMES, &[0, 3]), Some(At::of("eth9")));
    let mut burst = Burst::new();
    let error = loop {
        match port.receive(&mut burst, 256) {
            Ok(Received::End) => panic!("no error"),
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        error.contains("'eth9'") && error.contains("eth1, eth2"),
        "{error}"
    );
}
