//! `--drop-in`: programs in other languages that measure beside a run, against our own monitors.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lineside_rows::Table;
use lineside_trace::DropInFacts;
use lineside_trace::read::{PartReader, Value};
use lineside_wire::build::FrameBuilder;

use crate::python::python;
use crate::support::{example, lineside, manifest, records, repository, talk};
use crate::wall::between::{Hosts, emulate, round_trips};
use crate::wall::commands::{Ordinary, is_forbidden};
use crate::wall::wire::need_wire;

/// A drop-in that the repository has.
fn contributed(name: &str) -> PathBuf {
    repository().join("contrib/drop-ins").join(name)
}

/// Measures a capture, and how its drop-ins ended.
fn measure(input: &Path, out: &Path, words: &[&str]) -> (Output, Vec<DropInFacts>) {
    measure_by(lineside(), input, out, words)
}

/// The same where drop-ins may read what this user may, such as a Python of its own: what root runs
/// belongs to `nobody`, unless there is no such user.
fn measure_as_owner(input: &Path, out: &Path, words: &[&str]) -> (Output, Vec<DropInFacts>) {
    let program = lineside().get_program().to_owned();
    let mut command = Command::new(&program);
    if rustix::process::geteuid().is_root() {
        command = Command::new("unshare");
        command.arg("--map-root-user").arg(&program);
    }
    measure_by(command, input, out, words)
}

fn measure_by(
    mut command: Command,
    input: &Path,
    out: &Path,
    words: &[&str],
) -> (Output, Vec<DropInFacts>) {
    command.args(["capture", "-q", "-r"]).arg(input);
    let output = command.arg("-o").arg(out).args(words).output();
    let output = output.expect("lineside runs");
    assert!(output.status.success(), "{}", talk(&output));
    let drop_ins = manifest(out).drop_ins;
    (output, drop_ins)
}

/// The rows of a drop-in's table: these columns.
fn rows(out: &Path, table: &str, columns: &[&str]) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for number in 0.. {
        let path = out.join(table).join(format!("part-{number:06}.parquet"));
        let Ok(part) = File::open(&path) else { break };
        let part = PartReader::open(part).expect("Parquet");
        let part = part.rows(columns).expect("the columns are there");
        rows.extend(part.map(|row| row.expect("a row")));
    }
    rows
}

fn number(value: &Value) -> i64 {
    value.integer().expect("a number")
}

/// A capture of this many small frames, a microsecond apart, of which every tenth asks for a name.
fn frames(path: &Path, count: i64) {
    use lineside_frame::{Descriptor, Frame, LinkType};
    let config = lineside_port::WriterConfig {
        budget: lineside_account::Budget::new(64 << 20),
        interfaces: Vec::new(),
        application: "test".to_owned(),
        comment: None,
        rotation: lineside_port::Rotation::default(),
        replaces: false,
    };
    let builder = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    // RFC 1035, 4.1: a query with one question, of the type A.
    let query = b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0\x03www\x07Example\x03org\0\0\x01\0\x01";
    let kinds = [builder.udp(7, 9, &[0; 20]), builder.udp(4_000, 53, query)];
    let mut writer = lineside_port::CaptureWriter::create(path, config, None).expect("made");
    let frames = (0..count).map(|number| {
        let frame = &kinds[usize::from(number % 10 == 0)];
        let descriptor = Descriptor {
            // They pass a second.
            stamp_ns: Some(1_000_000_000_000 - 10_000_000 + 1_000 * number),
            wire_len: frame.len() as u32,
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        Frame::copied(frame, descriptor)
    });
    writer.write(&frames.collect::<Vec<_>>()).expect("written");
    writer.finish().expect("written");
}

#[test]
fn the_python_drop_in_counts_what_our_monitor_counts() {
    let Some(python) = python() else {
        println!("SKIP: no Python with pyarrow (LINESIDE_PYTHON): ./test makes one");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let script = contributed("flow_bytes.py");
    let drop_in = format!("flow_bytes={} {}", python.display(), script.display());
    let words = ["--monitor", "flow_size", "--drop-in", &drop_in];
    let (output, drop_ins) = measure_as_owner(&example(), &out, &words);
    assert_eq!(talk(&output), "");
    let keys = [
        "port",
        "point",
        "source_address",
        "destination_address",
        "source_port",
        "destination_port",
        "transport",
        "packets",
        "bytes",
        "payload_bytes",
    ];
    // Frames that are of no flow have a row in either, as their own monitor's flow 0.
    let is_flow = |row: &Vec<Value>| row[2] != Value::Null && row[4] != Value::Null;
    let mut found = rows(&out, "monitor_flow_bytes", &keys);
    assert_eq!(drop_ins[0].rows, found.len() as u64);
    let frames: i64 = found.iter().map(|row| number(&row[7])).sum();
    assert_eq!(drop_ins[0].heads, frames as u64);
    assert_eq!(manifest(&out).inputs[0].frames, frames as u64);
    found.retain(is_flow);
    let mut expected: Vec<Vec<Value>> = records(&out, Table::MonitorFlows)
        .iter()
        .map(|row| keys.map(|key| row.value(key).clone()).to_vec())
        .filter(is_flow)
        .collect();
    let order = |row: &Vec<Value>| format!("{row:?}");
    found.sort_by_key(order);
    expected.sort_by_key(order);
    assert!(found.len() > 5, "{}", found.len());
    // A connection that begins anew with the same ports is a flow of its own for us.
    let mut merged = BTreeMap::<String, [i64; 3]>::new();
    for row in &expected {
        let sums = merged.entry(format!("{:?}", &row[..7])).or_default();
        (0..3).for_each(|at| sums[at] += number(&row[7 + at]));
    }
    let found: BTreeMap<_, _> = { found.iter() }
        .map(|row| {
            (
                format!("{:?}", &row[..7]),
                [7, 8, 9].map(|at| number(&row[at])),
            )
        })
        .collect();
    assert_eq!(found, merged);
    assert_eq!(
        manifest(&out).tables["monitor_flow_bytes"].rows,
        drop_ins[0].rows
    );
}

#[test]
fn the_awk_and_node_drop_ins_find_gaps_and_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, out) = (folder.path().join("x.pcapng"), folder.path().join("out"));
    frames(&input, 30_000);
    let awk = format!(
        "gap_octaves=csv:awk -f {}",
        contributed("gaps.awk").display()
    );
    let (_, drop_ins) = measure_as_owner(&input, &out, &["--monitor", "gap", "--drop-in", &awk]);
    assert_eq!((drop_ins[0].heads, &drop_ins[0].failure), (30_000, &None));
    let columns = ["port", "point", "from_ns", "to_ns", "count"];
    let octaves = rows(&out, "monitor_gap_octaves", &columns);
    let [octave] = &octaves[..] else {
        panic!("{octaves:?}");
    };
    assert_eq!(
        octave[1..].iter().skip(1).map(number).collect::<Vec<_>>(),
        [512, 1023, 29_999]
    );
    let ours = records(&out, Table::MonitorBins);
    let ours: i64 = ours.iter().filter_map(|row| row.integer("count")).sum();
    assert_eq!(ours, 29_999);

    let is_there = Command::new("node").arg("--version").output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        println!("SKIP: no node");
        return;
    }
    let out = folder.path().join("names");
    let node = format!(
        "dns_names=csv:node {}",
        contributed("dns_names.mjs").display()
    );
    let words = ["--drop-in-bytes", "256", "--drop-in", &node];
    let (_, drop_ins) = measure_as_owner(&input, &out, &words);
    assert_eq!((drop_ins[0].heads, &drop_ins[0].failure), (30_000, &None));
    let names = rows(&out, "monitor_dns_names", &["name", "type", "count"]);
    let name = Value::Text("www.example.org".to_owned());
    assert_eq!(names, [[name, Value::Integer(1), Value::Integer(3_000)]]);
}

/// Sleeps until a run has given up waiting, then reads what is left, and writes a row of each type.
const SLEEPS: &str = r#"
import sys, time
import pyarrow as pa
time.sleep(3)
heads = missed = batches = 0
with pa.ipc.open_stream(sys.stdin.buffer) as stream:
    assert stream.schema.field("bytes").type == pa.binary()
    for batch, metadata in stream.iter_batches_with_custom_metadata():
        batch.validate(full=True)
        heads += batch.num_rows
        assert batch["bytes"][0].as_py()[12:14] == b"\x08\x00", batch["bytes"][0]
        assert batch["tcp_window"].null_count == batch.num_rows
        if metadata:
            missed += int(metadata[b"dropped_heads"])
            batches += int(metadata[b"dropped_batches"])
table = pa.table({
    "heads": pa.array([heads], pa.uint32()), "missed": [missed], "batches": [batches],
    "share": [0.5], "text": pa.array(["é"], pa.large_string()), "flag": [None],
    "raw": pa.array([b"\xff\x00"]), "time": pa.array([5], pa.timestamp("ns")),
}).set_column(5, "flag", pa.array([True]))
with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as out:
    out.write_table(table)
"#;

#[test]
fn pyarrow_reads_the_batches_and_what_was_dropped() {
    let Some(python) = python() else {
        println!("SKIP: no Python with pyarrow (LINESIDE_PYTHON): ./test makes one");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (input, out) = (folder.path().join("x.pcapng"), folder.path().join("out"));
    frames(&input, 200_000);
    let script = folder.path().join("sleeps.py");
    std::fs::write(&script, SLEEPS).expect("written");
    let drop_in = format!("sleeps={} {}", python.display(), script.display());
    let words = [
        "--drop-in-bytes",
        "14",
        "--monitor",
        "size",
        "--drop-in",
        &drop_in,
    ];
    let (output, drop_ins) = measure_as_owner(&input, &out, &words);
    let [facts] = &drop_ins[..] else {
        panic!("{drop_ins:?}")
    };
    assert_eq!(facts.failure, None);
    // The run waited a second, once, and no frame was lost for it.
    assert!(
        facts.dropped_heads > 0 && facts.dropped_batches > 0,
        "{facts:?}"
    );
    assert_eq!(facts.heads + facts.dropped_heads, 200_000);
    assert!(
        talk(&output).contains("drop-in 'sleeps' missed"),
        "{}",
        talk(&output)
    );
    let ours = records(&out, Table::MonitorBins);
    assert_eq!(
        ours.iter()
            .filter_map(|row| row.integer("count"))
            .sum::<i64>(),
        200_000
    );
    let text = "import pyarrow.parquet as pq, sys; t = pq.read_table(sys.argv[1]); \
        print(t.schema.names, t.column('share').to_pylist(), t.column('share').type)";
    let mut read = Command::new(&python);
    read.args(["-c", text]).arg(out.join("monitor_sleeps"));
    let read = read.output().expect("Python runs");
    let names = "['heads', 'missed', 'batches', 'share', 'text', 'flag', 'raw', 'time']";
    assert_eq!(
        String::from_utf8_lossy(&read.stdout),
        format!("{names} [0.5] double\n")
    );
    let columns = ["heads", "missed", "batches", "text", "flag", "raw", "time"];
    let row = &rows(&out, "monitor_sleeps", &columns)[0];
    assert_eq!(number(&row[0]), facts.heads as i64);
    // What was dropped at the very end has no batch behind it.
    assert!(
        (0..=facts.dropped_heads as i64).contains(&number(&row[1])),
        "{row:?}"
    );
    assert_eq!(
        row[3..],
        [
            Value::Text("é".to_owned()),
            Value::Boolean(true),
            Value::Bytes(vec![0xff, 0]),
            Value::Integer(5),
        ]
    );
}

#[test]
fn one_that_dies_or_writes_nonsense_ends_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("x.pcapng");
    frames(&input, 50_000);
    for (place, (command, reason)) in [
        ("exit 3", "it ended with status 3"),
        ("cat >/dev/null; exit 4", "it ended with status 4"),
        (
            "echo nonsense; cat >/dev/null",
            "its output is no stream of Arrow IPC",
        ),
        (
            "csv:echo a,b; echo 1; cat >/dev/null",
            "line 2 has 1 fields",
        ),
        ("csv:trap '' TERM; sleep 60", "nor then: it was killed"),
    ]
    .into_iter()
    .enumerate()
    {
        let out = folder.path().join(place.to_string());
        let drop_in = format!("x={command}");
        let words = ["--monitor", "size", "--drop-in", &drop_in];
        let (output, drop_ins) = measure(&input, &out, &words);
        let failure = drop_ins[0].failure.as_deref().unwrap_or_default();
        assert!(failure.contains(reason), "{command}: {failure}");
        assert!(
            talk(&output).contains(failure),
            "{command}: {}",
            talk(&output)
        );
        let facts = &drop_ins[0];
        assert_eq!(facts.heads + facts.dropped_heads, 50_000, "{command}");
        let ours = records(&out, Table::MonitorBins);
        let counts = ours.iter().filter_map(|row| row.integer("count"));
        assert_eq!(counts.sum::<i64>(), 50_000, "{command}");
    }
}

#[test]
fn virtual_time_does_not_wait_for_a_drop_in_that_sleeps() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("x.pcapng");
    frames(&input, 100_000);
    let emulate = |name: &str, drop_in: Option<&str>| {
        let out = folder.path().join(name);
        let mut command = lineside();
        command.args([
            "emulate", "--json", "--delay", "2ms 1ms", "--loss", "1%", "-r",
        ]);
        command.arg(&input).arg("-o").arg(&out);
        command.args(["--monitor", "gap,size at outside.left"]);
        command.args(drop_in.iter().flat_map(|words| ["--drop-in", words]));
        let output = command.output().expect("lineside runs");
        assert!(output.status.success(), "{}", talk(&output));
        let mut bins: Vec<_> = records(&out, Table::MonitorBins)
            .iter()
            .map(|row| format!("{row:?}"))
            .collect();
        bins.sort();
        (
            bins,
            String::from_utf8(output.stdout).expect("text"),
            manifest(&out).drop_ins,
        )
    };
    let (bins, certificate, _) = emulate("without", None);
    let (same, again, drop_ins) = emulate("with", Some("x=csv:sleep 2; wc -l >&2; echo a"));
    assert_eq!(bins, same);
    assert_eq!(certificate, again);
    assert_eq!(drop_ins[0].failure, None);
    // Frames that came and those that left.
    assert!(
        drop_ins[0].heads + drop_ins[0].dropped_heads > 190_000,
        "{drop_ins:?}"
    );
    assert!(drop_ins[0].dropped_heads > 0, "{drop_ins:?}");
}

#[test]
fn a_live_run_feeds_drop_ins_without_privileges() {
    let ordinary = Ordinary::new();
    let words = [
        "--delay",
        "2ms",
        "--monitor",
        "size",
        "--drop-in",
        "seen=csv:awk -F, 'NR > 1 && !/^#/ { n[$3]++ } END { \
            print \"point,count:integer\"; for (p in n) print p \",\" n[p]; \
            while ((getline line < \"/proc/self/status\") > 0) \
                if (line ~ /^CapEff/) print \"caps\" substr(line, 9) \",\" 1 }'",
        "--drop-in",
        "sleeps=sleep 60",
        "-o",
        "run",
        "--server",
        "exec python3 server.py",
        "--",
        "python3",
        "client.py",
    ];
    let output = ordinary.run(&words);
    if is_forbidden(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(7), "{}", talk(&output));
    let out = ordinary.path().join("run");
    let manifest = manifest(&out);
    let certificate = manifest.certificate.expect("it is there");
    let rows = rows(&out, "monitor_seen", &["point", "count"]);
    let count = |point: &str| {
        let row = rows.iter().find(|row| row[0].text() == Some(point));
        row.map(|row| number(&row[1]))
    };
    let counted = |counter: &str| -> i64 {
        let directions = ["outbound", "inbound"].into_iter();
        let counters = directions.map(|each| &certificate["directions"][each]["counters"]);
        counters
            .filter_map(|counters| counters[counter].as_i64())
            .sum()
    };
    assert_eq!(count("came"), Some(counted("entered")), "{rows:?}");
    assert_eq!(count("left"), Some(counted("released")), "{rows:?}");
    assert_eq!(count("caps0000000000000000"), Some(1), "{rows:?}");
    let [seen, sleeps] = &manifest.drop_ins[..] else {
        panic!("two");
    };
    assert_eq!((seen.dropped_heads, &seen.failure), (0, &None));
    assert!(sleeps.failure.is_some(), "{sleeps:?}");
    assert_eq!(certificate["loop"]["tap"]["dropped_queue"], 0);
}

#[test]
fn between_interfaces_a_drop_in_is_not_root() {
    need_wire!();
    let hosts = Hosts::new();
    let counts = "seen=csv:awk -F, 'NR > 1 && !/^#/ { n[$2 \".\" $3]++ } END { \
        print \"place,count:integer\"; for (p in n) print p \",\" n[p] }'";
    let who = "who=csv:cat >/dev/null; echo user:integer,caps; \
        echo $(id -u),$(awk '/CapEff/ { print $2 }' /proc/self/status)";
    let words = [
        "--between",
        "m0,m1",
        "--wait",
        "sleep",
        "--delay",
        "1ms",
        "--monitor",
        "size",
        "--drop-in",
        counts,
        "--drop-in",
        who,
        "--drop-in",
        "sleeps=exec sleep 60",
    ];
    let running = emulate(&hosts.between, &words, "m1");
    assert!(round_trips(&hosts).len() > 10);
    let ended = running.interrupt();
    assert!(
        matches!(ended.status.code(), Some(0 | 4)),
        "{}",
        ended.messages
    );
    let manifest = manifest(&ended.out);
    let user = rows(&ended.out, "monitor_who", &["user", "caps"]);
    assert_ne!(user[0][0], Value::Integer(0), "root");
    assert_eq!(user[0][1], Value::Text("0".repeat(16)));
    let certificate = manifest.certificate.expect("it is there");
    let seen = rows(&ended.out, "monitor_seen", &["place", "count"]);
    for (place, direction, counter) in [
        ("m0.came", "outbound", "entered"),
        ("m1.left", "outbound", "released"),
        ("m1.came", "inbound", "entered"),
        ("m0.left", "inbound", "released"),
    ] {
        let row = seen.iter().find(|row| row[0].text() == Some(place));
        let counted = &certificate["directions"][direction]["counters"][counter];
        assert_eq!(row.map(|row| number(&row[1])), counted.as_i64(), "{place}");
    }
    let failures = manifest.drop_ins.iter().map(|facts| &facts.failure);
    let failures: Vec<_> = failures.map(Option::is_some).collect();
    assert_eq!(failures, [false, false, true]);
}

#[test]
fn drop_ins_that_cannot_be_are_named_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let script = folder.path().join("script.sh");
    std::fs::write(&script, "#!/bin/sh\n").expect("written");
    let out = out.to_str().expect("text");
    let not_executable = format!("x={}", script.display());
    for (words, why) in [
        (
            &["-w", out, "--drop-in", "x=cat"][..],
            "name the folder for it with -o",
        ),
        (&["-o", out, "--drop-in", "x"], "'x' is not NAME=COMMAND"),
        (
            &["-o", out, "--drop-in", "X=cat"],
            "'X' is not a name: use a-z",
        ),
        (
            &["-o", out, "--drop-in", "flows=cat"],
            "monitor_flows is lineside's own",
        ),
        (
            &["-o", out, "--drop-in", "x=cat", "--drop-in", "x=csv:cat"],
            "two drop-ins are named 'x'",
        ),
        (
            &["-o", out, "--drop-in", "x=/nowhere/x 1"],
            "/nowhere/x is not there",
        ),
        (
            &["-o", out, "--drop-in", "x=nosuchprogram"],
            "is not a program in PATH",
        ),
        (
            &["-o", out, "--drop-in", &not_executable],
            "is not executable: chmod +x",
        ),
        (
            &["-o", out, "--drop-in-bytes", "9"],
            "name one with --drop-in",
        ),
        (
            &["-o", out, "--drop-in", "x=cat", "--drop-in-bytes", "70000"],
            "give up to 65536",
        ),
    ] {
        for verb in ["capture", "emulate"] {
            let mut command = lineside();
            command.arg(verb).arg("-r").arg(example()).args(words);
            let output = command.output().expect("lineside runs");
            let text = talk(&output);
            if verb == "emulate" && words[0] == "-w" {
                continue;
            }
            assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
            assert!(text.contains(why), "{words:?}: {text}");
        }
    }
    assert!(!Path::new(out).exists());
}

#[test]
fn force_replaces_a_trace_with_the_table_of_a_drop_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let drop_in = ["--drop-in", "x=csv:cat >/dev/null; echo a:integer; echo 1"];
    measure(&example(), &out, &drop_in);
    assert_eq!(rows(&out, "monitor_x", &["a"]), [[Value::Integer(1)]]);
    measure(&example(), &out, &["--force"]);
    assert!(!out.join("monitor_x").exists());
}
