//! `capture -i`: frames on a wire become the same trace as from a file, and every frame is
//! accounted for.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lineside_account::Counter;
use lineside_filter::Filter;
use lineside_host::Stopwatch;
use lineside_port::{CaptureReader, PoolConfig, Port, Receive, Received};
use lineside_rows::Table;
use lineside_testkit::capture::{self, Frame};
use lineside_testkit::disk::SmallDisk;
use lineside_time::Random;
use lineside_trace::{LiveInput, State};
use lineside_wire::build::FrameBuilder;
use lineside_words::grouped;

use crate::support::{
    Record, Trace, counters, example, lineside, manifest, parts_with_rows, records, sorted, talk,
    wait_until,
};
use crate::wall::lab::{self, Counts, Lab, expected, nfs_drive, tally};
use crate::wall::undisturbed::undisturbed;
use crate::wall::wire::{
    Namespace, Running, Tcpdump, Wire, need_wire, obstacle, private_folder, run,
};

const NOBODY: u32 = 65_534;

/// The flags of each capture method.
pub(crate) const METHODS: [&[&str]; 3] = [
    &["--method", "af_packet"],
    &["--method", "af_xdp"],
    &["--method", "af_xdp_generic"],
];

/// The frames of the example.
pub(crate) fn example_frames() -> Vec<Frame> {
    capture::read(&example()).expect("the example")
}

/// Frames that are no NFS, of 1,000 bytes each that no compression shortens.
fn noise(count: usize) -> Vec<Frame> {
    let builder = FrameBuilder::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let mut random = Random::new(1);
    let mut frame = |_| {
        let payload: Vec<u8> = (0..958).map(|_| random.below(256) as u8).collect();
        let bytes = builder.udp(9, 9, &payload);
        Frame {
            stamp_ns: None,
            wire_len: bytes.len() as u32,
            link_type: 1,
            bytes,
        }
    };
    (0..count).map(&mut frame).collect()
}

/// Columns of times and frame numbers. Only those of the table of operations: the
/// same names elsewhere are a file's times.
fn is_of_the_tap(column: &str) -> bool {
    is_stamp(column)
        || matches!(
            column,
            "call_frame" | "reply_frame" | "call_input" | "reply_input"
        )
}

fn is_stamp(column: &str) -> bool {
    STAMPS.contains(&column)
}

const STAMPS: [&str; 6] = [
    "call_time_ns",
    "call_end_ns",
    "reply_time_ns",
    "reply_end_ns",
    "call_recovery_ns",
    "reply_recovery_ns",
];

/// The operations with what belongs to them, by what they are: without ids and frames' numbers,
/// which depend on the order in which frames of different cores were seen. With their stamps apart.
fn essence(trace: &Trace) -> BTreeMap<String, Vec<Option<i64>>> {
    let mut rest: BTreeMap<i64, String> = BTreeMap::new();
    for row in trace.details().chain(&trace.checksums) {
        let id = row.integer("operation_id").expect("never null");
        let text = rest.entry(id).or_default();
        text.push_str(&row.text_without(|column| column == "operation_id"));
    }
    let is_left_out = |column: &str| {
        is_of_the_tap(column)
            || matches!(
                column,
                "operation_id" | "rpc_id" | "repeat_of" | "connection_id"
            )
    };
    let mut rows: Vec<&Record> = trace.operations.iter().collect();
    rows.sort_by_key(|row| row.integer("call_time_ns"));
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut essence = BTreeMap::new();
    for row in rows {
        let id = row.integer("operation_id").expect("never null");
        let text = row.text_without(is_left_out) + rest.get(&id).map_or("", String::as_str);
        let nth = times.entry(text.clone()).or_default();
        *nth += 1;
        let stamps = STAMPS.map(|column| row.integer(column)).to_vec();
        essence.insert(format!("{text}, time {nth}"), stamps);
    }
    essence
}

/// Fails unless both traces hold the same operations; returns how far apart their stamps are.
pub(crate) fn assert_same_operations(live: &Trace, file: &Trace, what: &str) -> Vec<i64> {
    let (live, file) = (essence(live), essence(file));
    let only = |one: &BTreeMap<String, _>, other: &BTreeMap<String, _>| -> Vec<String> {
        let only = one.keys().filter(|key| !other.contains_key(*key));
        only.take(3).cloned().collect()
    };
    assert!(
        live.keys().eq(file.keys()),
        "{what}: {} live, {} from the file\nonly live: {:#?}\nonly in the file: {:#?}",
        live.len(),
        file.len(),
        only(&live, &file),
        only(&file, &live)
    );
    let pairs = live.values().zip(file.values());
    pairs
        .flat_map(|(one, other)| one.iter().zip(other))
        .map(|(one, other)| match (one, other) {
            (Some(one), Some(other)) => (one - other).abs(),
            (None, None) => 0,
            _ => panic!("{what}: {one:?} and {other:?}"),
        })
        .collect()
}

/// Fails unless all rows are the same, ids included, but for when and as which frame of its input
/// something was seen.
pub(crate) fn assert_same_rows(live: &Trace, file: &Trace, what: &str) {
    let rows = |trace: &Trace| {
        let rows = trace.operations.iter();
        let mut rows: Vec<_> = rows.map(|row| row.text_without(is_of_the_tap)).collect();
        rows.extend(trace.details().map(|row| format!("{row:?}")));
        rows.extend(trace.checksums.iter().map(|row| format!("{row:?}")));
        rows.sort();
        rows
    };
    let (live, file) = (rows(live), rows(file));
    assert!(!file.is_empty(), "{what}");
    for (one, other) in live.iter().zip(&file) {
        assert_eq!(one, other, "{what}");
    }
    assert_eq!(live.len(), file.len(), "{what}");
}

/// The distance that 19 of 20 stamps keep; the rest may have been interrupted. Fails unless they
/// are near to each other: the kernel may take each socket's when its turn comes.
fn near(apart: &mut [i64]) -> Result<i64, String> {
    apart.sort_unstable();
    match apart[apart.len() * 19 / 20] {
        most @ 0..1_000_000 => Ok(most),
        most => Err(format!("stamps are {most} ns apart")),
    }
}

/// The manifest's entry of the only live input.
fn facts(trace: &Trace) -> &LiveInput {
    let [input] = &trace.manifest.inputs[..] else {
        panic!("one input: {:?}", trace.manifest.inputs)
    };
    input.live.as_ref().expect("it is live")
}

/// Received, by the counter of all inputs.
fn received(trace: &Trace) -> u64 {
    counters(&trace.manifest).value(Counter::FramesReceived)
}

#[test]
fn a_mirrored_server_gives_the_trace_of_tcpdumps_file() {
    let combinations: [(&[&str], &[&[&str]]); 2] = [
        (
            &["--mirror"],
            &[
                &["--method", "af_packet"],
                &["--method", "af_packet", "--sockets", "2", "--cores", "2"],
                &["--method", "af_xdp"],
                &["--method", "af_xdp_generic"],
            ],
        ),
        (
            &["--mirror", "--queues", "2", "--mtu", "9000"],
            &[
                &["--method", "af_packet", "--sockets", "2"],
                &["--method", "af_xdp", "--cores", "2"],
                &["--method", "af_xdp_generic"],
            ],
        ),
    ];
    for (up, runs) in combinations {
        let Some(lab) = Lab::up(up) else { return };
        for options in runs {
            let what = format!("crates/test/nfs-lab/up {up:?}, {options:?}");
            undisturbed(&what, || mirrored(&lab, options, &what));
        }
    }
}

/// The work of the clients, each in the background.
const CLIENTS: [&str; 4] = [
    "--seed 1 meta --rounds 2",
    "--seed 2 --udp seq --file two --bytes 100000 --chunk 8192",
    "--seed 3 rand --file three --bytes 400000 --chunk 30000 --depth 8 --skew 77 --operations 100",
    "--seed 4 --server 2001:db8::1 --fragments 300,1,4000 rand --file four --bytes 200000 --chunk \
        50000 --depth 4",
];

/// Fails if a trace is wrong; an error describes how the machine disturbed the run.
fn mirrored(lab: &Lab, options: &[&str], what: &str) -> Result<(), String> {
    let tap = Namespace::of_another("lineside-tap");
    let client = Namespace::of_another("lineside-cli");
    let is_xdp = options.iter().any(|word| word.starts_with("af_xdp"));
    let folder = private_folder();
    let capture = folder.path().join("tcpdump.pcap");
    // XDP takes arriving frames, so tcpdump captures where they are sent.
    let tcpdump = if is_xdp {
        let middle = Namespace::of_another("lineside-mid");
        Tcpdump::start(middle.command("tcpdump"), "tap", &capture)
    } else {
        Tcpdump::start(tap.command("tcpdump"), "lineside-t", &capture)
    };
    let running = Running::start(&tap, &[&["-i", "lineside-t"], options].concat());
    let drive = nfs_drive();
    let mut clients: Vec<_> = CLIENTS
        .iter()
        .map(|words| {
            let mut command = client.command(&drive);
            command
                .args(words.split(' '))
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            command.spawn().expect("nfs-drive runs")
        })
        .collect();
    let mut counts = Counts::new();
    for client in clients.drain(..) {
        let output = client.wait_with_output().expect("it ends");
        if !output.status.success() {
            return Err(talk(&output));
        }
        let counted = serde_json::from_slice(&output.stdout).expect("nfs-drive prints JSON");
        for (name, count) in expected(&counted) {
            *counts.entry(name).or_default() += count;
        }
    }
    let last = b"the last frame of all";
    let say = format!(
        "printf '{}' >/dev/udp/192.0.2.1/9",
        String::from_utf8_lossy(last)
    );
    run(client.command("bash").args(["-c", &say]));
    tcpdump.end(last)?;
    let live = running.interrupt().trace(0);
    let verdict = &live.manifest.verdict;
    // XDP stamps a frame when the kernel gets to its queue: on a busy machine that of an
    // acknowledgement may be earlier, and the verdict has to say so.
    let late = counters(&live.manifest).value(Counter::SegmentsAfterAcknowledgement);
    if is_xdp && late > 0 {
        assert_eq!(verdict.reasons.len(), 1, "{what}: {verdict:?}");
        println!("{what}: {}", verdict.reasons[0]);
    } else if verdict.state != State::Complete {
        // A busy machine drops frames at the tap, or before it.
        return Err(format!("{verdict:?}"));
    }
    let file = Trace::of(&capture, &[]);
    let mut apart = assert_same_operations(&live, &file, what);
    let apart = near(&mut apart)?;
    println!(
        "{what}: {} operations, {} checksums, stamps {apart} ns apart",
        live.operations.len(),
        live.checksums.len()
    );
    assert_eq!(tally(&live), counts, "{what}");
    live.assert_identities(what);
    lab::checksums_equal_the_files(&live, &lab.files(), what);
    Ok(())
}

#[test]
fn both_directions_on_taps_of_their_own_are_one_stream() {
    need_wire!();
    let wire = Wire::new("two", 2);
    let frames = example_frames();
    // By the sender's hardware address: the server's is that of the first frame that is not the
    // first sender's.
    let first = &frames[0].bytes[6..12];
    let directed: Vec<_> = frames
        .iter()
        .map(|frame| (usize::from(&frame.bytes[6..12] != first), frame))
        .collect();
    let file = Trace::of(&example(), &[]);
    for options in METHODS.into_iter().chain([&["--cores", "2"][..]]) {
        let running = Running::start(&wire.tap, &[&["-i", "t0,t1"], options].concat());
        wire.send_into(&directed);
        let live = running.interrupt().trace(0);
        assert_same_rows(&live, &file, "two taps");
        live.assert_identities("two taps");
        let inputs = &live.manifest.inputs;
        for (input, inputs) in inputs.iter().enumerate() {
            let sent = directed.iter().filter(|(pair, _)| *pair == input).count();
            assert!(sent > 100, "{sent} frames in this direction");
            assert_eq!(inputs.name, format!("t{input}"));
            assert_eq!(inputs.frames, sent as u64);
        }
        // The merged order is that in which the frames were sent: so is that of their stamps.
        assert_eq!(received(&live), frames.len() as u64);
        assert_eq!(live.manifest.verdict.state, State::Complete);
    }
}

#[test]
fn the_hosts_own_traffic_is_undisturbed() {
    need_wire!();
    let wire = Wire::new("host", 1);
    wire.generator.ip("addr add 192.0.2.1/24 dev g0");
    wire.tap.ip("addr add 192.0.2.2/24 dev t0");
    let mut random = Random::new(7);
    let sent: Vec<u8> = (0..8 << 20).map(|_| random.below(256) as u8).collect();
    let running = Running::start(&wire.tap, &["-i", "t0"]);
    let listener = wire
        .tap
        .enter(|| TcpListener::bind("192.0.2.2:2049").expect("free"));
    let mut arrived = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("the other end");
            stream.read_to_end(&mut arrived).expect("all of it");
        });
        let mut stream = wire
            .generator
            .enter(|| TcpStream::connect("192.0.2.2:2049").expect("it listens"));
        stream.write_all(&sent).expect("it is read");
    });
    assert!(arrived == sent, "every byte arrived");
    let live = running.interrupt().trace(0);
    let facts = facts(&live);
    assert_eq!(facts.method, "AF_PACKET");
    assert!(facts.reason.contains("192.0.2.2"), "{}", facts.reason);
    assert!(
        counters(&live.manifest).value(Counter::StreamBytes) > 0
            && facts.arrived == received(&live) + facts.dropped_ring + facts.unread,
        "it was seen: {facts:?}"
    );
}

#[test]
fn frames_sent_are_frames_received_filtered_dropped_and_unread() {
    need_wire!();
    let wire = Wire::new("accounts", 1);
    for method in METHODS {
        accounts(&wire, method);
    }
}

fn accounts(wire: &Wire, method: &[&str]) {
    let fixed = [&["-i", "t0"], method].concat();
    let frames = example_frames();
    let running = Running::start(&wire.tap, &fixed);
    wire.send(&frames);
    running.wait_for_frames(frames.len());
    let live = running.interrupt().trace(0);
    let input = facts(&live);
    assert_eq!(input.arrived, frames.len() as u64, "{input:?}");
    assert_eq!((dropped(input), input.unread), (0, 0), "{input:?}");
    let sums = live.manifest.seconds.iter();
    let sum: u64 = sums.map(|second| second.received).sum();
    assert_eq!(sum, frames.len() as u64);

    // The kernel filters for AF_PACKET, by a program of ours that counts; for AF_XDP we do.
    // Together they look at whole words, at headers of any length, at remainders and at lengths.
    for filter in [
        "udp",
        "tcp dst port 2049 and tcp[13] & 8 != 0",
        "ip host 192.0.2.2 and not udp and len % 3 = 1",
        "ip[2:2] >= 200 or ip6",
        "vlan",
    ] {
        let words = [&fixed[..], &["-f", filter]].concat();
        let running = Running::start(&wire.tap, &words);
        wire.send(&frames);
        let ended = running.interrupt();
        let printed = ended.printed();
        let live = ended.trace(0);
        let input = facts(&live);
        let ours = counters(&live.manifest).value(Counter::FramesFiltered);
        let wanted = Filter::parse(filter).expect("known").compile(1);
        let wanted = wanted.expect("for Ethernet");
        let passes = |frame: &&Frame| wanted.matches(&frame.bytes, frame.wire_len);
        let passed = frames.iter().filter(passes).count() as u64;
        assert!(passed > 0 || filter == "vlan", "{filter}");
        assert_eq!(received(&live) - ours, passed, "{filter}: {input:?}");
        assert_eq!(input.arrived, received(&live), "{filter}");
        let sent = frames.len() as u64;
        let rejected = match input.method.as_str() {
            "AF_PACKET" => sent - passed,
            _ => 0,
        };
        assert_eq!(input.filtered, Some(rejected), "{filter}");
        assert_eq!(input.arrived + rejected, sent, "{filter}");
        let seconds = live.manifest.seconds.iter();
        let reported: u64 = seconds.map(|second| second.filtered).sum();
        assert_eq!(reported, sent - passed, "{filter}");
        let line = format!("{} frames did not match", grouped(sent - passed));
        assert!(printed.contains(&line), "{filter}: {printed}");
    }

    // The ring is too small for the frames that come while the process is stopped.
    let frames = noise(12_000);
    let fixed = [&fixed[..], &["--memory", "16MiB"]].concat();
    let running = Running::start(&wire.tap, &fixed);
    running.signal("STOP");
    wire.send(&frames);
    running.signal("CONT");
    let ended = running.interrupt();
    let rows = records(&ended.out, Table::Losses);
    overloaded(&ended.trace(0), &rows, frames.len() as u64);

    let strict = ["--strict", "-a", "duration:4"];
    let running = Running::start(&wire.tap, &[&fixed[..], &strict].concat());
    running.signal("STOP");
    wire.send(&frames);
    running.signal("CONT");
    let ended = running.end();
    let rows = records(&ended.out, Table::Losses);
    assert!(ended.printed().contains("dropped"), "{}", ended.printed());
    overloaded(&ended.trace(4), &rows, frames.len() as u64);
}

#[test]
fn what_is_dropped_second_by_second_sums_to_the_counts() {
    need_wire!();
    let wire = Wire::new("seconds", 1);
    let frames = noise(4_000);
    for method in METHODS {
        let options = [&["-i", "t0", "--memory", "16MiB"], method].concat();
        let running = Running::start(&wire.tap, &options);
        let watch = Stopwatch::start();
        // Frames are dropped at any moment, also while counts are read, once a second.
        let sent = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut sent = 0;
                while watch.elapsed().as_secs_f64() < 3.2 {
                    wire.send(&frames);
                    sent += frames.len() as u64;
                }
                sent
            });
            while !sender.is_finished() {
                running.signal("STOP");
                running.signal("CONT");
            }
            sender.join().expect("it sends")
        });
        let ended = running.interrupt();
        let rows = records(&ended.out, Table::Losses);
        overloaded(&ended.trace(0), &rows, sent);
    }
}

#[test]
fn a_stall_of_seconds_at_a_low_rate_loses_nothing() {
    need_wire!();
    let wire = Wire::new("stall", 1);
    let folder = private_folder();
    let path = folder.path().join("frames.pcap");
    std::fs::write(&path, capture::write(&noise(100))).expect("written");
    let method = ["-i", "t0", "--method", "af_packet"];
    let running = Running::start(&wire.tap, &method);
    running.signal("STOP");
    let mut replay = wire.generator.command(lineside().get_program());
    replay.arg("replay-pcap").arg(&path);
    replay.args(["-i", "g0", "--rate", "1kpps", "--loop", "30", "-q"]);
    let output = replay.output().expect("it runs");
    running.signal("CONT");
    assert!(output.status.success(), "{}", talk(&output));
    let live = running.interrupt().trace(0);
    let input = facts(&live);
    assert_eq!((received(&live), dropped(input)), (3_000, 0), "{input:?}");
}

/// Frames that found no room at the port.
fn dropped(input: &LiveInput) -> u64 {
    input.dropped_ring + input.dropped_pool
}

fn overloaded(live: &Trace, losses: &[Record], sent: u64) {
    let input = facts(live);
    println!("{input:?}");
    let dropped = dropped(input);
    assert_eq!(input.dropped_interface, 0, "{input:?}");
    assert_eq!(input.arrived, sent, "{input:?}");
    // Frames that waited at its end have been read.
    assert_eq!((received(live) + dropped, input.unread), (sent, 0));
    assert!(dropped > 0 && received(live) > 0, "{input:?}");
    let rows = losses
        .iter()
        .filter(|row| row.text("cause") == Some("port_dropped"));
    let sum: i64 = rows.filter_map(|row| row.integer("frames")).sum();
    assert_eq!(sum as u64, dropped);
    let sum: u64 = { live.manifest.seconds.iter() }
        .map(|second| second.dropped_ring + second.dropped_pool)
        .sum();
    assert_eq!(sum, dropped);
    let verdict = &live.manifest.verdict;
    assert_eq!(verdict.state, State::Incomplete);
    let share = dropped as f64 / input.arrived as f64;
    assert!((verdict.shares["frames_dropped"] - share).abs() < 1e-9);
    live.assert_identities("overloaded");
}

#[test]
fn the_sockets_of_an_interface_account_for_it_together() {
    need_wire!();
    let wire = Wire::new("sockets", 1);
    // Of several connections, so that each socket has some.
    let mut frames = noise(12_000);
    for (number, frame) in frames.iter_mut().enumerate() {
        frame.bytes[35] = number as u8;
    }
    let options = [
        &["-i", "t0", "--memory", "16MiB"],
        METHODS[0],
        &["--sockets", "3"],
    ];
    let running = Running::start(&wire.tap, &options.concat());
    running.signal("STOP");
    wire.send(&frames);
    running.signal("CONT");
    let live = running.interrupt().trace(0);
    let mut sum = 0;
    for input in &live.manifest.inputs {
        let live = input.live.as_ref().expect("it is live");
        assert!(dropped(live) > 0 && input.frames > 0, "{input:?}");
        assert_eq!((live.unread, live.dropped_interface), (0, 0), "{input:?}");
        assert_eq!(live.arrived, input.frames + dropped(live), "{input:?}");
        sum += live.arrived;
    }
    assert_eq!(live.manifest.inputs.len(), 3);
    assert_eq!(sum, frames.len() as u64);
}

#[test]
fn a_hole_is_reported_while_the_run_goes_on() {
    need_wire!();
    let wire = Wire::new("hole", 1);
    let mut frames = example_frames();
    let half = frames.len() / 2;
    let is_long = |frame: &Frame| frame.bytes.len() == 1514 && frame.bytes[23] == 6;
    let lost_at = half + frames[half..].iter().position(is_long).expect("there");
    let lost = frames.remove(lost_at);
    // A hole is one when its connection has gone on for a while: for 2 ms, which the last of its
    // frames come after.
    let is_of_it = |frame: &Frame| {
        let [mut one, mut other] = [frame, &lost].map(|frame| frame.bytes[26..38].to_vec());
        one.sort_unstable();
        other.sort_unstable();
        frame.bytes[12..14] == [8, 0] && frame.bytes[23] == 6 && one == other
    };
    let last = frames.iter().rposition(is_of_it).expect("it goes on");
    // Or when it goes quiet after it: once more bytes have come and the lost ones are acknowledged,
    // long before 32 segments have followed.
    let word = |frame: &Frame, at: usize| {
        let bytes = frame.bytes[at..].first_chunk().expect("headers");
        u32::from_be_bytes(*bytes)
    };
    let acknowledges = |frame: &Frame| {
        let is_back = frame.bytes[34..36] == lost.bytes[36..38];
        is_of_it(frame) && is_back && word(frame, 42).wrapping_sub(word(&lost, 38)) as i32 > 0
    };
    let follows = |frame: &Frame| {
        is_of_it(frame) && frame.bytes[34..36] == lost.bytes[34..36] && frame.bytes.len() > 100
    };
    let behind = |is: &dyn Fn(&Frame) -> bool| {
        let at = frames[lost_at..].iter().position(is);
        lost_at + at.expect("it comes") + 1
    };
    let quiet = behind(&acknowledges).max(behind(&follows));
    let file = {
        let folder = private_folder();
        let path = folder.path().join("lost.pcap");
        std::fs::write(&path, capture::write(&frames)).expect("written");
        Trace::of(&path, &[])
    };
    let lost = counters(&file.manifest).value(Counter::StreamLost);
    assert!(lost > 0);
    let runs = METHODS.into_iter().chain([&["--cores", "2"][..]]);
    for (options, until) in runs.flat_map(|options| [(options, last), (options, quiet)]) {
        let (before, after) = frames.split_at(until);
        let (told_by, rest) = match until == last {
            true => (after, &[][..]),
            false => (&[][..], after),
        };
        let running = Running::start(&wire.tap, &[&["-i", "t0"], options].concat());
        wire.send(before);
        running.wait_for_frames(before.len());
        wire.send(told_by);
        running.wait_until("it reports the hole", || {
            running.signal("USR1");
            running.messages().contains(" of streams missing")
        });
        wire.send(rest);
        running.wait_for_frames(frames.len());
        let ended = running.interrupt();
        let rows = records(&ended.out, Table::Losses);
        let causes: Vec<_> = rows.iter().filter_map(|row| row.text("cause")).collect();
        assert_eq!(causes.len(), 1, "{causes:?}");
        let live = ended.trace(0);
        let counted = counters(&live.manifest).value(Counter::StreamLost);
        assert_eq!(counted, lost, "{options:?}");
        assert_eq!(live.manifest.verdict.state, State::Incomplete);
        assert!(live.manifest.verdict.shares["stream_bytes_lost"] > 0.0);
        assert_same_operations(&live, &file, "a hole");
    }
}

#[test]
fn an_overload_may_cost_checksums_and_no_operation() {
    need_wire!();
    let wire = Wire::new("relief", 1);
    let frames = example_frames();
    let file = Trace::of(&example(), &[]);
    for options in METHODS.into_iter().chain([&["--cores", "2"][..]]) {
        // The ring holds what the file has, which comes first, and not all that follows it.
        let memory = match options[1] {
            "af_packet" => "16MiB",
            _ => "256MiB",
        };
        let fixed = ["-i", "t0", "--memory", memory];
        let fixed = [&fixed[..], &["--overload", "no-checksums"]].concat();
        let running = Running::start(&wire.tap, &[&fixed[..], options].concat());
        running.signal("STOP");
        wire.send(&frames);
        wire.send(&noise(30_000));
        running.signal("CONT");
        running.wait_for_at_least(frames.len());
        let live = running.interrupt().trace(0);
        assert!(dropped(facts(&live)) > 0);
        let reliefs = &live.manifest.reliefs;
        assert!(!reliefs.is_empty());
        assert!(
            reliefs
                .iter()
                .all(|relief| relief.until_ns.is_some_and(|until| until >= relief.from_ns)),
            "{reliefs:?}"
        );
        let operations = |trace: &Trace| {
            let rows = trace.operations.iter();
            let mut rows: Vec<_> = rows.map(|row| row.text_without(is_of_the_tap)).collect();
            rows.sort();
            rows
        };
        assert_eq!(operations(&live), operations(&file));
        assert_eq!(sorted(live.details()), sorted(file.details()));
        let all = sorted(&file.checksums);
        let left = sorted(&live.checksums);
        assert!(left.len() < all.len(), "{}", left.len());
        assert!(left.iter().all(|row| all.binary_search(row).is_ok()));
        let counters = counters(&live.manifest);
        assert_eq!(
            counters.value(Counter::BlocksLimit),
            (all.len() - left.len()) as u64
        );
        assert_eq!(live.manifest.verdict.state, State::Limited);
    }
}

#[test]
fn signals_print_rotate_and_end_with_everything_that_was_sent() {
    need_wire!();
    let wire = Wire::new("signals", 1);
    let frames = example_frames();
    let file = Trace::of(&example(), &[]);
    let (first, rest) = frames.split_at(frames.len() / 2);
    for options in METHODS.into_iter().chain([&["--cores", "2"][..]]) {
        let running = Running::start(
            &wire.tap,
            &[&["-i", "t0", "--flush", "none"], options].concat(),
        );
        wire.send(first);
        running.wait_for_frames(first.len());
        assert!(
            running.messages().contains(", none dropped; "),
            "{}",
            running.messages()
        );
        assert!(running.messages().contains(" calls/s"));
        let out = running.out.clone();
        running.wait_until("a part with rows is there", || {
            running.signal("USR2");
            out.join("operations").exists() && !records(&out, Table::Operations).is_empty()
        });
        wire.send(rest);
        let ended = running.interrupt();
        assert!(parts_with_rows(&ended.out, Table::Operations) > 1);
        let line = { ended.messages.lines() }.find(|line| line.contains(" calls in "));
        let line = line.expect("a line at the end").to_owned();
        for words in ["/s), p50 ", ", p99 ", ", none dropped; "] {
            assert!(line.contains(words), "{line}");
        }
        let live = ended.trace(0);
        assert_same_rows(&live, &file, "interrupted");
        assert_eq!(live.manifest.verdict.state, State::Complete);
    }
    let running = Running::start(&wire.tap, &["-i", "t0"]);
    wire.send(&frames);
    running.signal("TERM");
    assert_same_rows(&running.end().trace(0), &file, "terminated");
}

#[test]
fn two_signals_within_a_second_leave_a_complete_trace() {
    need_wire!();
    let wire = Wire::new("twice", 2);
    let frames = example_frames();
    let file = Trace::of(&example(), &[]);
    // `timeout` sends TERM to the program and to its group; a closed terminal HUP, then TERM.
    for signals in [
        ["TERM", "TERM"],
        ["HUP", "HUP"],
        ["HUP", "TERM"],
        ["INT", "TERM"],
    ] {
        let running = Running::start(&wire.tap, &["-i", "t0"]);
        wire.send(&frames);
        signals.iter().for_each(|name| running.signal(name));
        assert_same_rows(&running.end().trace(0), &file, &signals.join(", then "));
    }
}

#[test]
fn a_run_ends_after_a_time_and_after_a_number_of_frames() {
    need_wire!();
    let wire = Wire::new("ends", 2);
    let frames = noise(100);
    let watch = Stopwatch::start();
    let running = Running::start(&wire.tap, &["-i", "t0", "-a", "duration:2"]);
    wire.send(&frames);
    let live = running.end().trace(0);
    assert!(watch.elapsed().as_secs_f64() >= 2.0);
    let ran = live.manifest.ended_ns.zip(live.manifest.started_ns);
    let ran = ran.map(|(end, start)| end - start).expect("it ended");
    assert!(ran >= 2_000_000_000, "not early: {ran} ns");
    assert_eq!(received(&live), 100);
    let verdict = &live.manifest.verdict;
    assert_eq!(verdict.state, State::Incomplete);
    assert!(verdict.reasons[0].starts_with("no RPC in 100 frames"));

    let further: [&[&str]; 5] = [
        &["--method", "af_packet", "--sockets", "2"],
        &["-f", "udp port 9"],
        &["--cores", "2"],
        &["-i", "t0,t1", "--method", "af_packet"],
        &["-i", "t0,t1", "--method", "af_xdp", "--cores", "2"],
    ];
    // Each second one on the other tap, where there are two.
    let spread = frames.iter().enumerate();
    let spread: Vec<_> = spread.map(|(at, frame)| (at % 2, frame)).collect();
    for options in METHODS.into_iter().chain(further) {
        let are_two = options.contains(&"t0,t1");
        let of: &[&str] = if are_two { &[] } else { &["-i", "t0"] };
        let options = [of, &["-c", "42"], options].concat();
        let running = Running::start(&wire.tap, &options);
        match are_two {
            true => wire.send_into(&spread),
            false => wire.send(&frames),
        }
        let live = running.end().trace(0);
        assert_eq!(received(&live), 42, "{options:?}");
        let inputs = live.manifest.inputs.iter();
        let live_inputs: Vec<_> = inputs.filter_map(|input| input.live.as_ref()).collect();
        let sum: u64 = live_inputs.iter().map(|input| input.arrived).sum();
        let unread: u64 = live_inputs.iter().map(|input| input.unread).sum();
        // Frames that the merge of several ports held in addition were not read.
        let inputs = live.manifest.inputs.iter();
        let read: u64 = inputs.map(|input| input.frames).sum();
        assert_eq!(
            (read, sum),
            (42, 42 + unread),
            "{options:?}: {live_inputs:?}"
        );
    }
}

#[test]
fn an_interface_down_is_followed_and_one_removed_ends_the_run() {
    need_wire!();
    let wire = Wire::new("down", 1);
    let frames = noise(50);
    for options in METHODS.into_iter().chain([&["--cores", "2"][..]]) {
        let running = Running::start(&wire.tap, &[&["-i", "t0"], options].concat());
        wire.send(&frames);
        running.wait_for_frames(50);
        wire.tap.ip("link set t0 down");
        wire.tap.ip("link set t0 up");
        wire.send(&frames);
        running.wait_for_frames(100);
        let ended = running.interrupt();
        let messages = ended.messages.clone();
        let live = ended.trace(0);
        let warning = "'t0' went down after ";
        assert!(
            messages.contains(&format!("warning: {warning}")),
            "{messages}"
        );
        assert_eq!(received(&live), 100);
        let verdict = &live.manifest.verdict;
        assert_eq!(verdict.state, State::Incomplete);
        let is_said = verdict.reasons.iter().any(|why| why.contains(warning));
        assert!(is_said, "{verdict:?}");
    }

    let further: [&[&str]; 2] = [
        &["--cores", "2"],
        &["--method", "af_packet", "--sockets", "2"],
    ];
    for options in METHODS.into_iter().chain(further) {
        let wire = Wire::new("gone", 1);
        let frames = example_frames();
        let running = Running::start(&wire.tap, &[&["-i", "t0"], options].concat());
        wire.send(&frames);
        running.wait_for_frames(frames.len());
        wire.tap.ip("link del t0");
        let ended = running.end();
        let messages = ended.messages.clone();
        let live = ended.trace(1);
        assert!(messages.contains("'t0' is gone"), "{messages}");
        assert!(
            messages.contains("everything before is in the complete parts of"),
            "{messages}"
        );
        assert_same_operations(&live, &Trace::of(&example(), &[]), "gone");
        assert_eq!(live.manifest.verdict.state, State::Incomplete);
    }
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_earlier_parts() {
    need_wire!("mount");
    let wire = Wire::new("full", 1);
    let folder = private_folder();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).expect("created");
    let disk = SmallDisk::mount(&small, 1 << 20).expect("root may");
    let capture = |arguments: &[&str]| {
        let mut command = wire.tap.command(lineside().get_program());
        command
            .args(["capture", "-i", "t0"])
            .args(arguments)
            .current_dir(disk.folder());
        command
    };
    let frames = example_frames();

    for options in METHODS.into_iter().chain([&["--cores", "2"][..]]) {
        let out = disk.folder().join("trace");
        let mut command = capture(&["--packets", "-o", "trace"]);
        command.args(options);
        let running = Running::spawn(&mut command, out.clone(), private_folder());
        running.wait_until("it listens", || out.join("trace.json").exists());
        let mut complete = Vec::new();
        for _ in 0..1000 {
            // Until it has noticed.
            if running.messages().contains("No space left") {
                break;
            }
            wire.send(&frames);
            running.signal("USR2");
            let now = out.join("operations");
            if now.exists() {
                complete = records(&out, Table::Operations);
            }
        }
        let ended = running.end();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
        for expected in [
            "No space left",
            "everything before is in the complete parts",
        ] {
            assert!(
                ended.messages.contains(expected),
                "{expected}: {}",
                ended.messages
            );
        }
        let left = records(&out, Table::Operations);
        assert!(!complete.is_empty() && left.len() >= complete.len());
        let state = manifest(&out).verdict.state;
        assert!(matches!(state, State::Unfinished | State::Incomplete));
        std::fs::remove_dir_all(&out).expect("ours");
    }

    let frames = noise(3000);
    let path = disk.folder().join("out.pcapng");
    let running = Running::spawn(
        &mut capture(&["--write-pcap", "out.pcapng"]),
        PathBuf::new(),
        private_folder(),
    );
    running.wait_until("it listens", || path.exists());

    wire.send(&frames);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
    assert!(ended.messages.contains("out.pcapng"), "{}", ended.messages);
    assert!(
        ended.messages.contains("No space left"),
        "{}",
        ended.messages
    );
    let (read, _) = read_with_figures(&path);
    assert!(read.len() > 100, "{} frames", read.len());
    assert!(
        frames
            .iter()
            .zip(&read)
            .all(|(sent, read)| sent.bytes == read.bytes),
        "what is there is what was sent"
    );
}

/// A pcapng file's statistics: frames received, dropped by the interface, and by the
/// system.
type Figures = [Option<u64>; 3];

/// The frames of a capture file as far as it goes, and the statistics at its end.
fn read_with_figures(path: &Path) -> (Vec<Frame>, Figures) {
    let budget = lineside_account::Budget::new(64 << 20);
    let pool = PoolConfig::new(budget, 16 << 20);
    let mut port = CaptureReader::open(path, &pool).expect("a capture");
    let mut burst = lineside_frame::Burst::new();
    let mut frames = Vec::new();
    while let Ok(Received::Frames(_)) = port.receive(&mut burst, 64) {
        frames.extend(burst.drain(..).map(|frame| Frame {
            stamp_ns: frame.descriptor().stamp_ns,
            wire_len: frame.descriptor().wire_len,
            link_type: frame.descriptor().link_type.0,
            bytes: frame.bytes().to_vec(),
        }));
    }
    let interface = port.facts()[0]
        .interfaces
        .first()
        .cloned()
        .unwrap_or_default();
    let figures = [
        interface.received,
        interface.dropped,
        interface.dropped_by_system,
    ];
    (frames, figures)
}

#[test]
fn frames_are_written_as_tcpdump_writes_them() {
    need_wire!("tcpdump");
    let wire = Wire::new("pcap", 1);
    let mut frames = example_frames();
    frames.extend(noise(1));
    for (name, options) in [
        ("out.pcapng", &[][..]),
        ("out.pcap", &[]),
        ("out.pcapng", &["-b", "packets:1500"]),
    ] {
        undisturbed(name, || written(&wire, &frames, name, options));
    }

    for method in METHODS {
        written_with_drops(&wire, method);
    }
}

/// Frames are written as tcpdump writes them; an error describes how the machine disturbed the run.
fn written(wire: &Wire, frames: &[Frame], name: &str, options: &[&str]) -> Result<(), String> {
    let last = &frames[frames.len() - 1].bytes[100..];
    let folder = private_folder();
    let theirs = folder.path().join("tcpdump.pcap");
    let tcpdump = Tcpdump::start(wire.tap.command("tcpdump"), "t0", &theirs);
    let written = folder.path().join("written");
    std::fs::create_dir(&written).expect("created");
    std::fs::set_permissions(&written, Permissions::from_mode(0o777)).expect("ours");
    let path = written.join(name);
    let path = path.to_str().expect("a plain path");
    let fixed = ["-i", "t0", "--method", "af_packet", "--write-pcap", path];
    let arguments = [&fixed, options].concat();
    let running = Running::start(&wire.tap, &arguments);
    wire.send(frames);
    let live = running.interrupt().trace(0);
    tcpdump.end(last)?;
    let mut files: Vec<_> = std::fs::read_dir(&written)
        .expect("there")
        .map(|file| file.expect("an entry").path())
        .collect();
    files.sort();
    assert_eq!(
        files.len(),
        if options.is_empty() { 1 } else { 2 },
        "{files:?}"
    );
    let mut read = Vec::new();
    for file in &files {
        let facts = std::fs::metadata(file).expect("there");
        // A process of root's makes them.
        assert_eq!(facts.uid(), 0, "{}", file.display());
        let (frames, figures) = read_with_figures(file);
        read.extend(frames);
        if name.ends_with("ng") && file == &files[files.len() - 1] {
            let sent = read.len() as u64;
            assert_eq!(
                figures,
                [Some(sent), Some(0), Some(0)],
                "{}",
                file.display()
            );
        }
    }
    let theirs = capture::read(&theirs).expect("tcpdump's");
    assert_eq!(theirs.len(), frames.len());
    let mut apart = Vec::new();
    for (our, their) in read.iter_mut().zip(&theirs) {
        let stamps = our.stamp_ns.zip(their.stamp_ns).expect("both have one");
        apart.push((stamps.0 - stamps.1).abs());
        our.stamp_ns = their.stamp_ns;
    }
    near(&mut apart)?;
    assert!(read == theirs, "{name}: frame by frame");
    assert_eq!(received(&live), frames.len() as u64);
    Ok(())
}

/// Without a trace.
fn written_with_drops(wire: &Wire, method: &[&str]) {
    let frames = noise(12_000);
    let folder = private_folder();
    let path = folder.path().join("out.pcapng");
    let mut command = wire.tap.command(lineside().get_program());
    command
        .args(["capture", "-i", "t0", "--memory", "16MiB", "--write-pcap"])
        .arg(&path)
        .args(method);
    let running = Running::spawn(&mut command, PathBuf::new(), private_folder());
    running.wait_until("it listens", || running.messages().contains("listening at"));
    running.wait_for_frames(0);
    running.signal("STOP");
    wire.send(&frames);
    running.signal("CONT");
    let ended = running.interrupt();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.messages);
    let (read, [arrived, dropped, dropped_by_system]) = read_with_figures(&path);
    assert_eq!((arrived, dropped), (Some(frames.len() as u64), Some(0)));
    let dropped = dropped_by_system.expect("it is written");
    assert!(dropped > 0);
    assert_eq!(read.len() as u64 + dropped, frames.len() as u64);
    // In their order, whatever is missing.
    let mut sent = frames.iter();
    let is_sent = |read: &Frame| sent.any(|sent| sent.bytes == read.bytes);
    assert!(read.iter().all(is_sent));
    let text = ended.printed();
    assert!(text.contains("were dropped"), "{text}");
}

#[test]
fn nothing_that_root_may_do_is_left_while_it_listens() {
    need_wire!();
    let wire = Wire::new("privileges", 1);
    for options in METHODS.into_iter().chain([&["--cores", "2"][..]]) {
        let running = Running::start(&wire.tap, &[&["-i", "t0"], options].concat());
        wire.send(&noise(10));
        running.wait_for_frames(10);
        let threads = std::fs::read_dir(format!("/proc/{}/task", running.id())).expect("it runs");
        let mut count = 0;
        for thread in threads {
            let status = thread.expect("an entry").path().join("status");
            let Ok(status) = std::fs::read_to_string(status) else {
                continue;
            };
            let field = |name: &str| {
                let line = status.lines().find(|line| line.starts_with(name));
                let value = line.and_then(|line| line.split_once(":\t"));
                value.map(|(_, value)| value.trim().to_owned())
            };
            for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                assert_eq!(field(set).as_deref(), Some("0000000000000000"), "{set}");
            }
            let expected_ids = [NOBODY; 4].map(|id| id.to_string()).join("\t");
            assert_eq!(field("Uid"), Some(expected_ids.clone()));
            assert_eq!(field("Gid"), Some(expected_ids));
            assert_eq!(field("Groups").as_deref(), Some(""));
            assert_eq!(field("NoNewPrivs").as_deref(), Some("1"));
            count += 1;
        }
        assert!(count >= 2, "{count} threads");
        let owner = |path: &Path| std::fs::metadata(path).expect("there").uid();
        assert_eq!(owner(&running.out), NOBODY);
        assert_eq!(owner(&running.out.join("trace.json")), NOBODY);
        let ended = running.interrupt();
        for path in [
            "",
            "trace.json",
            "operations",
            "operations/part-000000.parquet",
        ] {
            assert_eq!(
                owner(&ended.out.join(path)),
                0,
                "{path}: root's traces are root's"
            );
        }
        assert_eq!(received(&ended.trace(0)), 10);
    }
}

#[test]
fn a_killed_run_of_root_leaves_its_trace_to_root() {
    need_wire!();
    let wire = Wire::new("owner", 1);
    let running = Running::start(&wire.tap, &["-i", "t0"]);
    let part = running.out.join("operations/part-000000.parquet");
    running.wait_until("a part is there", || part.exists());
    let owner = || std::fs::metadata(&part).expect("there").uid();
    assert_eq!(owner(), NOBODY);
    // A closed terminal and a service manager signal every process of a run.
    let id = running.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    for child in children.expect("it runs").split_whitespace() {
        run(Command::new("kill").args(["-HUP", child]));
        run(Command::new("kill").args(["-TERM", child]));
    }
    running.signal("KILL");
    let ended = running.end();
    wait_until("the trace is root's", || owner() == 0);
    drop(ended);
}

/// `lineside` with words, in a namespace; it must end by itself.
fn ended(command: &mut Command) -> (Option<i32>, String) {
    let ended = Running::spawn(command, PathBuf::new(), private_folder()).end();
    (ended.status.code(), ended.messages)
}

#[test]
fn unusable_interfaces_are_named_with_a_remedy() {
    need_wire!();
    let wire = Wire::new("bad", 2);
    wire.tap.ip("link set t1 down");
    let folder = private_folder();
    let out = folder.path().join("trace");
    let example = example();
    let example = example.to_str().expect("a plain path");
    let cases: [(&[&str], i32, &[&str]); 11] = [
        (
            &["-i", "t8"],
            1,
            &["no interface 't8'", "did you mean 't0'?"],
        ),
        (
            &["-i", "wlan0"],
            1,
            &["no interface 'wlan0'", "there are lo, t0, t1"],
        ),
        (&["-i", "t1"], 1, &["'t1' is down", "ip link set t1 up"]),
        (&["-i", "t0,t1"], 1, &["'t1' is down"]),
        (
            &["-i", "t0", "--method", "af_packt"],
            2,
            &[
                "method: 'af_packt' is unknown",
                "nearest known one is af_packet",
            ],
        ),
        (
            &["-i", "t0", "--overload", "nochecksums"],
            2,
            &["overload: 'nochecksums' is unknown", "no-checksums"],
        ),
        (
            &["-i", "t0", "-a", "packets:3"],
            2,
            &["'packets:3'", "or duration:60"],
        ),
        (&["-i", "t0", "-b", "packets:3"], 2, &["-b", "--write-pcap"]),
        (
            &["-i", "t0", "--write-pcap", "x.pcapng", "-b", "packet:3"],
            2,
            &["-b packet:3", "packets:N"],
        ),
        (&["-i", "t0", example], 2, &["either files or interfaces"]),
        (
            &["-i", "t0", "-f", "tcp and gateway x"],
            2,
            &["'gateway' is not supported", "^^^^^^^"],
        ),
    ];
    for (words, code, expected) in cases {
        let mut command = wire.tap.command(lineside().get_program());
        command
            .args(["capture", "-o"])
            .arg(&out)
            .args(words)
            .current_dir(folder.path());
        let (status, messages) = ended(&mut command);
        assert_eq!(status, Some(code), "{words:?}: {messages}");
        for expected in expected {
            assert!(
                messages.contains(expected),
                "{words:?}: {expected}: {messages}"
            );
        }
        assert!(!out.exists(), "{words:?}: nothing is left");
    }
    let mut command = wire.tap.command(lineside().get_program());
    let list = command.args(["capture", "--list-interfaces"]).output();
    let list = String::from_utf8_lossy(&list.expect("it runs").stdout).into_owned();
    for (name, state) in [("t0", "up"), ("t1", "down")] {
        let line = list.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name}: {list}"));
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[1..4], [state, "veth", "9000"], "{line}");
    }
}

#[test]
fn the_line_that_an_error_offers_gives_the_right_to_listen() {
    need_wire!("setcap", "setpriv", "prlimit");
    let wire = Wire::new("setcap", 1);
    let folder = private_folder();
    std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    let program = folder.path().join("it's lineside");
    std::fs::copy(lineside().get_program(), &program).expect("copied");
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("ours");
    let out = folder.path().join("trace");
    let as_nobody = |before: &[&str], options: &[&str]| {
        let mut command = wire.tap.command("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args(before)
            .arg(&program)
            .args(["capture", "--force", "-i", "t0", "-o"])
            .arg(&out)
            .args(options)
            .current_dir(folder.path());
        command
    };
    let cases = [
        (METHODS[0], "no CAP_NET_RAW"),
        (METHODS[1], "no CAP_NET_ADMIN, CAP_BPF"),
    ];
    for (options, missing) in cases {
        let (status, messages) = ended(&mut as_nobody(&[], options));
        assert_eq!(status, Some(1), "{messages}");
        assert!(messages.contains(missing), "{messages}");
        let line = messages.lines().find(|line| line.contains("setcap"));
        let line = line.unwrap_or_else(|| panic!("a line to paste: {messages}"));
        // There may be no sudo here, so it is left out.
        let paste = format!("PATH=$PATH:/usr/sbin:/sbin; sudo() {{ \"$@\"; }}\n{line}");
        run(Command::new("sh").args(["-c", &paste]));

        let frames = noise(20);
        // 16 MiB is below the usual limit of locked memory that AF_XDP needs for an eighth of it.
        let options = [options, &["--memory", "16MiB"]].concat();
        let command = &mut as_nobody(&[], &options);
        let running = Running::spawn(command, out.clone(), private_folder());
        running.wait_until("it listens", || running.messages().contains("listening at"));
        wire.send(&frames);
        let ended = running.interrupt();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.messages);
        assert_eq!(manifest(&out).inputs[0].frames, 20);
    }
    let (status, messages) = ended(&mut as_nobody(&["prlimit", "--memlock=65536"], METHODS[1]));
    assert_eq!(status, Some(1), "{messages}");
    for expected in [
        "above the limit for locked memory",
        "ulimit -l",
        "cap_ipc_lock",
    ] {
        assert!(messages.contains(expected), "{expected}: {messages}");
    }
}

#[test]
fn another_xdp_program_is_left_alone_and_ours_is_removed() {
    need_wire!();
    let wire = Wire::new("other", 1);
    let has_program = || {
        let mut list = wire.tap.command("ip");
        let list = list.args(["link", "show", "t0"]).output();
        String::from_utf8_lossy(&list.expect("it runs").stdout).contains("xdp")
    };
    for method in &METHODS[1..] {
        let first = Running::start(&wire.tap, &[&["-i", "t0"], *method].concat());
        assert!(has_program());
        // AF_PACKET works beside it, but does not see the frames that the first one takes.
        let second = Running::start(&wire.tap, &["-i", "t0"]);
        let reason = "by AF_PACKET: another XDP program is attached to it";
        assert!(second.messages().contains(reason), "{}", second.messages());
        drop(second);
        let folder = private_folder();
        let mut third = wire.tap.command(lineside().get_program());
        third
            .args(["capture", "-i", "t0", "-o"])
            .arg(folder.path().join("trace"))
            .args(*method);
        let (status, messages) = ended(&mut third);
        assert_eq!(status, Some(1), "{messages}");
        assert!(messages.contains("take AF_PACKET instead"), "{messages}");

        wire.send(&noise(10));
        first.wait_for_frames(10);
        first.signal("KILL");
        let _ = first.end();
        wait_until("its program is gone", || !has_program());
    }
}

#[test]
fn generic_mode_is_used_and_reported_where_a_driver_refuses() {
    need_wire!();
    let wire = Wire::new("driver", 0);
    // Native XDP wants a receive queue for each transmit queue of the other end.
    wire.tap.ip(&format!(
        "link add t0 numrxqueues 1 numtxqueues 1 type veth peer g0 numrxqueues 2 numtxqueues 2 \
        netns {}",
        wire.generator.name()
    ));
    wire.generator.ip("link set g0 up");
    wire.tap.ip("link set t0 up");
    let frames = noise(10);
    for options in [&[][..], METHODS[1]] {
        let running = Running::start(&wire.tap, &[&["-i", "t0"], options].concat());
        wire.send(&frames);
        let ended = running.interrupt();
        for expected in [
            "by AF_XDP generic: ",
            "since there are fewer receive queues",
        ] {
            assert!(
                ended.messages.contains(expected),
                "{expected}: {}",
                ended.messages
            );
        }
        assert_eq!(received(&ended.trace(0)), 10);
    }
}

/// Setting the clock to its current time is a step like any other to the kernel, and disturbs no
/// process.
#[test]
fn a_clock_that_is_set_is_counted() {
    need_wire!();
    let wire = Wire::new("clock", 1);
    for method in METHODS {
        let running = Running::start(&wire.tap, &[&["-i", "t0"], method].concat());
        wire.send(&noise(10));
        running.wait_for_frames(10);
        let clock = rustix::time::ClockId::Realtime;
        let now = rustix::time::clock_gettime(clock);
        if let Err(why) = rustix::time::clock_settime(clock, now) {
            println!("SKIP: the clock cannot be set here: {why}");
            return;
        }
        wire.send(&noise(10));
        running.wait_for_frames(20);
        let live = running.interrupt().trace(0);
        assert!(facts(&live).clock_steps > 0, "{method:?}");
        assert_eq!(received(&live), 20);
    }
}

#[test]
fn nothing_that_root_may_do_is_left_while_frames_are_replayed() {
    need_wire!();
    let wire = Wire::new("replays", 1);
    let folder = private_folder();
    let path = folder.path().join("roots.pcap");
    std::fs::write(&path, capture::write(&noise(100))).expect("written");
    // Only root may open it, and it is read again and again.
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("its owner");
    let mut command = wire.generator.command(lineside().get_program());
    command.arg("replay-pcap").arg(&path);
    command.args(["-i", "g0", "--rate", "1kpps", "--loop", "20", "--json"]);
    command.stdout(std::process::Stdio::piped());
    let child = command.spawn().expect("it runs");
    let status = format!("/proc/{}/status", child.id());
    let filtered = "Seccomp:\t2";
    wait_until("it is in its sandbox", || {
        std::fs::read_to_string(&status).is_ok_and(|status| status.contains(filtered))
    });
    let status = std::fs::read_to_string(&status).expect("it runs");
    for left in ["CapEff", "CapPrm", "CapBnd"] {
        assert!(status.contains(&format!("{left}:\t0000000000000000")));
    }
    assert!(
        status.contains(&format!("Uid:\t{NOBODY}\t{NOBODY}")),
        "{status}"
    );
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let account: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(account["frames"], 2000);
}

/// A replay of 20,000 frames that takes 20 s, into `g0`.
fn replay(wire: &Wire) -> Running {
    let folder = private_folder();
    let path = folder.path().join("frames.pcap");
    std::fs::write(&path, capture::write(&noise(100))).expect("written");
    let mut command = wire.generator.command(lineside().get_program());
    command.arg("replay-pcap").arg(&path);
    command.args(["-i", "g0", "--rate", "1kpps", "--loop", "200", "--json"]);
    Running::spawn(&mut command, path, folder)
}

#[test]
fn a_replay_waits_a_while_for_a_lost_carrier_and_then_ends() {
    need_wire!();
    let wire = Wire::new("carrier", 1);
    let sent = || {
        let mut command = wire.generator.command("cat");
        let read = command.arg("/sys/class/net/g0/statistics/tx_packets");
        let text = String::from_utf8(read.output().expect("it runs").stdout);
        text.expect("text").trim().parse::<u64>().expect("a number")
    };
    let frames_sent = |more: u64| {
        let before = sent();
        wait_until("frames are sent", || sent() >= before + more);
    };
    let replaying = || {
        let running = replay(&wire);
        frames_sent(10);
        wire.tap.ip("link set t0 down");
        running
    };
    let account = |printed: &str| -> serde_json::Value {
        serde_json::from_str(printed).expect("the account is JSON")
    };
    let running = replaying();
    // Down for a moment, which is waited for, and for good.
    wire.tap.ip("link set t0 up");
    frames_sent(10);
    wire.tap.ip("link set t0 down");
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
    let message = "'g0' has no carrier, so nothing leaves it";
    assert!(ended.messages.contains(message), "{}", ended.messages);
    assert!(ended.messages.contains("ip link set"), "{}", ended.messages);
    let frames = account(&ended.printed())["frames"].as_u64();
    assert!((20..20_000).contains(&frames.expect("a number")));
    // It never had one.
    let ended = replay(&wire).end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
    assert!(ended.messages.contains(message), "{}", ended.messages);
    assert_eq!(ended.printed(), "", "nothing was begun");
    // Ctrl-C need not wait.
    wire.tap.ip("link set t0 up");
    let ended = replaying().interrupt();
    assert_eq!(ended.status.code(), Some(130), "{}", ended.messages);
    account(&ended.printed());
}

#[test]
fn in_a_user_namespace_packet_sockets_with_filters_work() {
    if let Some(why) = obstacle(&["unshare", "bash"]) {
        println!("SKIP: no wire: {why}");
        return;
    }
    let folder = private_folder();
    std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    let out = folder.path().join("trace");
    // As root of the namespace only.
    let mut command = Command::new("unshare");
    command
        .args(["-rn", "bash", "-c"])
        .arg(
            "ip link set lo up
            \"$0\" capture -i lo -f 'udp port 9' -c 3 -o \"$1\" & capture=$!
            until [ -e \"$1/trace.json\" ]; do kill -0 $capture || exit 1; sleep .05; done
            for count in 1 2 3; do
                echo hello >/dev/udp/127.0.0.1/10
                echo hello >/dev/udp/127.0.0.1/9
            done
            wait $capture || exit
            \"$0\" capture -i lo --method af_xdp -o \"$1-xdp\"; [ $? = 1 ]",
        )
        .arg(lineside().get_program())
        .arg(&out)
        .uid(NOBODY)
        .gid(NOBODY);
    let allowed = Command::new("unshare")
        .args(["-rn", "true"])
        .uid(NOBODY)
        .gid(NOBODY)
        .output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("SKIP: users may not make namespaces here");
        return;
    }
    let ended = Running::spawn(&mut command, PathBuf::new(), private_folder()).end();
    let messages = &ended.messages;
    assert_eq!(ended.status.code(), Some(0), "{messages}");
    let manifest = manifest(&out);
    let counted = counters(&manifest);
    assert_eq!(
        counted.value(Counter::FramesReceived) - counted.value(Counter::FramesFiltered),
        3
    );
    let live = manifest.inputs[0].live.as_ref().expect("live");
    assert_eq!(live.method, "AF_PACKET");
    assert_eq!(live.filtered, None, "without CAP_BPF there is no count");
    let printed = ended.printed();
    assert!(
        printed.contains("frames that the kernel rejected are not counted"),
        "{printed}"
    );
    assert!(
        messages.contains("no CAP_BPF: in a user namespace that does not count"),
        "{messages}"
    );
}
