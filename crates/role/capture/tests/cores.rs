//! The path on several cores gives the rows of the path on one, ids included: whatever the number
//! of pipelines, the schedule and the harm. And it ends in order when an actor fails.
//!
//! A test that cannot run prints one line that begins with `SKIP: ` and says why; `./test` counts
//! these.

mod on_cores;

use std::io;
use std::path::{Path, PathBuf};

use lineside_account::Budget;
use lineside_actor::Schedule;
use lineside_capture::{Config, FlowConfig, Settle, Step};
use lineside_port::{CaptureReader, PoolConfig};
use lineside_rows::{RecordSink, RowRef, Table};
use lineside_testkit::mangle::{Harm, mangle};
use lineside_testkit::wrap::{self, Wrap};
use lineside_testkit::{capture, captures};
use lineside_wire::Dissected;
use lineside_wire::build::FrameBuilder;

use on_cores::{Memory, alone, cores, steady};

/// Frames of a capture that are compared: more would only take longer.
const FRAMES_MAX: usize = 6000;
/// Seeds of simulated runs for each input.
const SEEDS: u64 = 6;

fn schedules(seed: u64) -> Vec<(usize, Schedule)> {
    let mut all = Vec::new();
    for pipelines in [1, 2, 4, 8] {
        all.push((pipelines, Schedule::stealing(2)));
        all.push((pipelines, Schedule::pinned(1).expect("a CPU")));
        all.extend(Schedule::pinned(2).ok().map(|pinned| (pipelines, pinned)));
    }
    all.extend((0..SEEDS).map(|index| {
        let pipelines = [1, 2, 4, 8][index as usize % 4];
        (pipelines, Schedule::Simulated { seed: seed + index })
    }));
    all
}

fn memory(frames: &[capture::Frame]) -> Memory<'_> {
    Memory::new(frames.iter().map(|frame| (0, frame)))
}

/// Compares every schedule with the single path; returns how many operations there were.
fn compare(what: &str, frames: &[capture::Frame], config: Config, seed: u64) -> usize {
    let frames = memory(frames);
    let (rows, _) = on_cores::compare(what, &frames, config, &schedules(seed));
    rows.operations.len()
}

/// Windows that even a short capture meets: packets, connections and calls are given up in its
/// middle.
fn hasty() -> Config {
    Config {
        flow: FlowConfig {
            fragment_timeout_ns: 500_000,
            idle_timeout_ns: 20_000_000,
            interval_ns: 10_000_000,
            ..FlowConfig::default()
        },
        reply_timeout_ns: 5_000_000,
        answered_max: 4,
        ..Config::default()
    }
}

/// The same packets, those with more than 600 bytes of payload in fragments.
fn fragmented(frames: &[capture::Frame]) -> Vec<capture::Frame> {
    let mut all = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        let wire_len = frame.wire_len as usize;
        let (Dissected::Tcp(ip, _) | Dissected::Udp(ip, _)) =
            lineside_wire::dissect(frame.link_type, &frame.bytes, wire_len)
        else {
            continue;
        };
        let builder = FrameBuilder::new(ip.source, ip.destination);
        let builder = builder.with_identification(index as u32);
        let payload = &frame.bytes[ip.payload..][..ip.captured_len];
        let parts = if index % 3 == 0 {
            builder.fragments(ip.protocol, payload, 600)
        } else {
            vec![builder.packet(ip.protocol, payload)]
        };
        all.extend(parts.into_iter().map(|bytes| capture::Frame {
            stamp_ns: frame.stamp_ns,
            wire_len: bytes.len() as u32,
            link_type: 1,
            bytes,
        }));
    }
    all
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn example() -> Vec<capture::Frame> {
    let path = repository().join("examples/nfs-mix.pcapng.zst");
    capture::read(&path).expect("the example")
}

#[test]
fn rows_of_the_example_are_the_same_on_any_number_of_pipelines() {
    let operations = compare("the example", &example(), Config::default(), 0);
    assert!(operations > 400, "{operations}");
}

#[test]
fn rows_of_harmed_and_fragmented_captures_are_the_same_too() {
    let whole = &example();
    let harm = |seed, drop, late, duplicate| Harm {
        seed,
        drop,
        late,
        duplicate,
        ..Harm::default()
    };
    let pieces = fragmented(whole);
    assert!(pieces.len() > whole.len(), "some are fragments");
    let harms = [
        ("loss", mangle(whole, &harm(1, 0.02, 0.0, 0.0)).frames),
        (
            "late and twice",
            mangle(whole, &harm(2, 0.0, 0.1, 0.02)).frames,
        ),
        ("fragments", pieces.clone()),
        ("mirrored twice in fragments of tunnels", {
            let mirrored = wrap::mirror(&pieces, 30_000);
            let wrapped = wrap::wrap_all(&mirrored, Wrap::Vxlan);
            let parts = wrapped.iter().flat_map(|frame| wrap::fragment(frame, 400));
            parts.collect()
        }),
        (
            "harmed fragments",
            mangle(&pieces, &harm(3, 0.02, 0.1, 0.02)).frames,
        ),
    ];
    for (at, (what, frames)) in harms.iter().enumerate() {
        let seed = 1000 * at as u64;
        assert!(
            compare(what, frames, Config::default(), seed) > 100,
            "{what}"
        );
        assert!(
            compare(what, frames, hasty(), seed + 500) > 100,
            "{what}, hasty"
        );
    }
}

#[test]
fn rows_of_captures_at_hand_are_the_same_too() {
    let (mut compared, mut operations) = (0, 0);
    for (seed, path) in captures::all().iter().enumerate() {
        // What is cut or damaged as it is, other tests read.
        let Ok(frames) = capture::read(path) else {
            continue;
        };
        let frames = &frames[..frames.len().min(FRAMES_MAX)];
        compared += 1;
        operations += compare(&path.display().to_string(), frames, hasty(), seed as u64);
    }
    let least = match captures::beside() {
        Some(_) => (20, 5000),
        None => (2, 1500),
    };
    assert!(
        compared > least.0 && operations > least.1,
        "{compared} captures, {operations}"
    );
}

#[test]
fn a_pool_of_two_blocks_is_enough() {
    let harm = Harm {
        seed: 5,
        late: 0.1,
        drop: 0.01,
        ..Harm::default()
    };
    let frames = mangle(&example(), &harm).frames;
    let expected = alone(&mut memory(&frames), Config::default());
    for schedule in [Schedule::stealing(2), Schedule::pinned(1).expect("a CPU")] {
        let pool = PoolConfig::new(Budget::new(4 << 20), 1 << 20);
        let bytes = io::Cursor::new(capture::write(&frames));
        let reader = CaptureReader::new(Box::new(bytes), "memory", &pool).expect("a capture");
        let mut port = lineside_port::Merge::new([reader]);
        let (rows, counters) = on_cores::on_cores(&mut port, Config::default(), 4, schedule);
        assert!(rows == expected.0);
        assert_eq!(steady(&counters), steady(&expected.1));
    }
}

/// Fails after some batches, or panics; remembers whether it got the end.
struct Fails {
    batches_left: usize,
    panics: bool,
    rows: usize,
    ended: bool,
}

impl RecordSink for Fails {
    fn wants(&self, _: Table) -> bool {
        true
    }

    fn on_time(&mut self, _: i64) {}

    fn row(&mut self, row: RowRef<'_>) {
        self.rows += usize::from(row.table() == Table::Operations);
    }
}

#[test]
fn a_sink_that_fails_stops_the_run_and_the_others_end_in_order() {
    let frames = example();
    for (_, schedule) in schedules(77) {
        for panics in [false, true] {
            let sink = |batches_left| Fails {
                batches_left,
                panics,
                rows: 0,
                ended: false,
            };
            let sinks = vec![
                ("good".to_owned(), sink(usize::MAX)),
                ("bad".to_owned(), sink(20)),
                ("behind".to_owned(), sink(usize::MAX)),
            ];
            let settle: Settle<Fails> = |sink, is_last| {
                sink.ended |= is_last;
                sink.batches_left -= 1;
                match (sink.batches_left, sink.panics) {
                    (0, false) => Err("no room".into()),
                    (0, true) => panic!("no reason"),
                    _ => Ok(()),
                }
            };
            let cores = cores(Config::default(), 2, schedule.clone(), sinks, settle);
            let budget = Budget::new(64 << 20);
            let done = cores.run(&mut memory(&frames), &budget, u64::MAX, |_, _, _| {
                Step::Continue
            });
            let done = done.expect("it began");
            let failure = done.failure.expect("it failed");
            let cause = if panics {
                "panicked: no reason"
            } else {
                "no room"
            };
            assert_eq!(failure, format!("actor 'bad' failed: {cause}"));
            assert_eq!(done.sinks.len(), 2, "but for the one that failed");
            assert!(done.sinks.iter().all(|sink| sink.ended), "{schedule:?}");
            assert!(done.sinks[0].rows > 0);
        }
    }
}
