//! What runs leave that are cut short: a load that is killed, disks that are full, interfaces that
//! go. Kills come at instants drawn at random.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use lineside_host::wall_ns;
use lineside_rows::Table;
use lineside_testkit::disk::SmallDisk;
use lineside_trace::{Manifest, State};

use crate::support::{Guarded, lineside, manifest, parts, records, talk, wait_until};
use crate::wall::between::{Hosts, emulate, round_trips};
use crate::wall::forward::{Farm, TCP};
use crate::wall::load_devices::inside;
use crate::wall::load_ends::Served;
use crate::wall::wire::{Running, Wire, need_wire, private_folder};

/// Kills, unless `LINESIDE_KILLS` says how many.
const KILLS: u64 = 4;

/// Fills what is left of a disk.
pub(super) fn fill(disk: &Path) {
    let mut file = std::fs::File::create(disk.join("filler")).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
}

/// The times at which the answers of a load's rows were over.
fn ends(run: &Path) -> Vec<i64> {
    let rows = records(run, Table::Operations);
    let ends = rows.iter().filter_map(|row| row.integer("reply_end_ns"));
    ends.collect()
}

#[test]
fn a_killed_load_loses_the_last_second_at_most() {
    let served = Served::start(&["http", "127.0.0.1:0"]);
    let url = format!("http://{}/", served.at);
    let mut random = 0x2545_F491_4F6C_DD1D_u64 ^ u64::from(std::process::id());
    println!("seed {random}");
    let kills = std::env::var("LINESIDE_KILLS").ok();
    let mut lost_max_ns = 0;
    for _ in 0..kills.map_or(KILLS, |kills| kills.parse().expect("a number")) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        let mut load = lineside();
        load.args([
            "load", &url, "-R", "1000", "-c", "16", "-d", "60s", "-q", "-o",
        ]);
        let mut load = Guarded(load.arg(&run).spawn().expect("it runs"));
        let has_certificate = || {
            let text = std::fs::read_to_string(run.join("trace.json")).unwrap_or_default();
            Manifest::from_json(&text).is_ok_and(|record| record.certificate.is_some())
        };
        wait_until("a second is over", has_certificate);
        std::thread::park_timeout(Duration::from_millis((random >> 33) % 1_500));
        let killed_ns = wall_ns();
        load.kill().expect("killed");
        load.wait().expect("it is over");
        let ends = ends(&run);
        let last_ns = *ends.iter().max().expect("rows");
        lost_max_ns = lost_max_ns.max(killed_ns - last_ns);
        let record = manifest(&run);
        assert_eq!(record.verdict.state, State::Unfinished);
        let certificate = record.certificate.expect("one");
        let answered = certificate["requests"]["answered"].as_u64();
        let answered = answered.expect("a number");
        // Rows and the certificate are at most a second apart.
        assert!(answered.abs_diff(ends.len() as u64) < 1_500, "{answered}");
        assert!(certificate["latency"]["p50_ns"].as_u64() > Some(0));
        for verb in ["info", "report"] {
            let output = lineside().arg(verb).arg(&run).output().expect("it runs");
            assert!(output.status.success(), "{}", talk(&output));
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains("the run was killed"), "{text}");
            assert!(
                text.contains("counts and times are those of the first"),
                "{text}"
            );
        }
        // The next run takes its place.
        let mut next = lineside();
        next.args(["load", &url, "-n", "10", "-q", "--force", "-o"]);
        let output = next.arg(&run).output().expect("it runs");
        assert!(
            matches!(output.status.code(), Some(0 | 4)),
            "{}",
            talk(&output)
        );
        assert_eq!(std::fs::read_dir(&run).expect("there").count(), 2);
    }
    println!("{} ms at most", lost_max_ns / 1_000_000);
    assert!(lost_max_ns < 1_000_000_000, "{lost_max_ns}");
}

#[test]
fn a_load_on_a_full_disk_keeps_its_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::mount(folder.path(), 1 << 20) else {
        println!("SKIP: mounting a small tmpfs needs root");
        return;
    };
    let served = Served::start(&["http", "127.0.0.1:0"]);
    let url = format!("http://{}/", served.at);
    let out = disk.folder().join("run");
    let messages = private_folder();
    let mut load = lineside();
    load.args(["load", &url, "-R", "500", "-c", "8", "-d", "4s", "-o"]);
    let running = Running::spawn(load.arg(&out), out, messages);
    running.wait_until("rows are written", || {
        let table = running.out.join("operations");
        table.exists() && parts(&running.out, Table::Operations).len() > 2
    });
    fill(disk.folder());
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
    for words in ["No space left", "the load goes on", "requests are missing"] {
        assert!(ended.messages.contains(words), "{}", ended.messages);
    }
    let record = manifest(&ended.out);
    let certificate = record.certificate.expect("one");
    let answered = certificate["requests"]["answered"].as_u64();
    assert!(answered > Some(1_500), "all of its time: {answered:?}");
    assert!(certificate["duration_s"].as_f64() > Some(3.9));
    assert_ne!(record.verdict.state, State::Complete);
    let reasons = record.verdict.reasons.join("; ");
    assert!(reasons.contains("No space left"), "{reasons}");
    let rows = records(&ended.out, Table::Operations).len() as u64;
    let counted = record.tables["operations"];
    let found = parts(&ended.out, Table::Operations).len() as u64;
    assert_eq!((counted.rows, counted.parts), (rows, found));
    assert!(rows > 0 && Some(rows) < answered, "{rows} of {answered:?}");
    // A disk without room at the beginning: nothing begins, and nothing is left.
    let mut load = lineside();
    load.args(["load", &url, "-n", "10", "-o"]);
    let next = disk.folder().join("next");
    let output = load.arg(&next).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    assert!(
        talk(&output).contains("free some space"),
        "{}",
        talk(&output)
    );
    assert!(!next.exists());
    served.counts();
}

#[test]
fn a_load_whose_interface_goes_leaves_what_it_measured() {
    need_wire!("ip");
    for method in ["af_xdp", "af_packet"] {
        let wire = Wire::new(&format!("cut-{method}"), 1);
        wire.tap.ip("addr add 10.9.0.1/16 dev t0");
        let _served = Served::of(inside(&wire.tap), &["http", "10.9.0.1:80"]);
        let folder = private_folder();
        let out = folder.path().join("run");
        let mut load = inside(&wire.generator);
        load.args(["load", "http://10.9.0.1/", "-i", "g0", "--method", method]);
        load.args([
            "--address",
            "10.9.1.0/28",
            "-R",
            "500",
            "-c",
            "8",
            "-d",
            "60s",
        ]);
        let running = Running::spawn(load.arg("-o").arg(&out), out, folder);
        running.wait_until("rows are written", || {
            let table = running.out.join("operations");
            table.exists() && parts(&running.out, Table::Operations).len() > 2
        });
        wire.generator.ip("link del g0");
        let ended = running.end();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
        assert!(
            ended.messages.contains("'g0' is gone"),
            "{}",
            ended.messages
        );
        let record = manifest(&ended.out);
        assert_ne!(record.verdict.state, State::Complete);
        let reasons = record.verdict.reasons.join("; ");
        assert!(reasons.contains("'g0' is gone"), "{reasons}");
        let certificate = record.certificate.expect("one");
        let requests = &certificate["requests"];
        let count = |pointer| requests[pointer].as_u64().expect("a number");
        let failed = requests["failed"].as_object().expect("by cause");
        let failed: u64 = failed.values().filter_map(serde_json::Value::as_u64).sum();
        assert_eq!(count("sent"), count("answered") + failed, "{requests}");
        assert_eq!(
            record.tables["operations"].rows,
            count("sent"),
            "a row each"
        );
        assert!(count("answered") > 100, "{requests}");
    }
}

#[test]
fn a_link_on_a_full_disk_keeps_its_certificate() {
    need_wire!("ip");
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().expect("a folder");
    let disk = SmallDisk::mount(folder.path(), 1 << 20).expect("root mounts");
    let out = disk.folder().join("run");
    let mut command = inside(&hosts.between);
    command
        .args(["emulate", "--between", "m0,m1", "-o"])
        .arg(&out);
    let running = Running::spawn(&mut command, out, private_folder());
    running.wait_until("it listens", || {
        running.messages().contains("a frame takes")
    });
    fill(disk.folder());
    let ended = running.interrupt();
    assert!(
        matches!(ended.status.code(), Some(0 | 4)),
        "{}",
        ended.messages
    );
    let record = manifest(&ended.out);
    assert!(record.certificate.is_some() && record.ended_ns.is_some());
    assert_eq!(std::fs::read_dir(&ended.out).expect("there").count(), 1);
}

#[test]
fn a_link_that_lost_a_port_is_not_complete() {
    need_wire!("ip");
    let hosts = Hosts::new();
    let running = emulate(&hosts.between, &["--between", "m0,m1"], "m1");
    hosts.between.ip("link del m1");
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
    let verdict = manifest(&ended.out).verdict;
    assert!(verdict.state != State::Complete, "{verdict:?}");
    assert!(
        verdict.reasons.join("; ").contains("'m1' is gone"),
        "{verdict:?}"
    );
}

#[test]
fn a_forwarder_whose_interface_goes_ends_and_is_resumed() {
    need_wire!("ip");
    let farm = Farm::new();
    let running = farm.forward(&["--service", TCP]);
    farm.forwarder.ip("link del f1");
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
    assert!(
        ended.messages.contains("'f1' is gone"),
        "{}",
        ended.messages
    );
    let record = manifest(&ended.out);
    assert_eq!(record.verdict.state, State::Incomplete);
    assert!(record.verdict.reasons.join("; ").contains("'f1' is gone"));
    assert!(record.certificate.is_some());
    // A service manager begins it again: in vain, until the interface is back and up.
    let again = || {
        let mut command = inside(&farm.forwarder);
        command.args(["forward", "-i", "f0,f1", "--nat", "10.9.2.100"]);
        command.args(["--service", TCP, "--force", "-o"]);
        command.arg(&ended.out).arg("--resume").arg(&ended.out);
        command
    };
    let nodes = farm.nodes.name();
    for words in [
        String::new(),
        format!("link add f1 type veth peer name s0 netns {nodes}"),
    ] {
        if !words.is_empty() {
            farm.forwarder.ip(&words);
        }
        let output = again().output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
        let left = std::fs::read_dir(&ended.out).expect("there").count();
        assert_eq!(left, 3, "the record and both tables");
    }
    farm.forwarder.ip("link set f1 up");
    farm.nodes.ip("link set s0 up");
    let next = Running::spawn(&mut again(), ended.out.clone(), private_folder());
    next.wait_until("it listens", || next.messages().contains("listening at f1"));
    assert!(next.messages().contains("connections taken over"));
    let ended = next.interrupt();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.messages);
}

#[test]
fn a_forwarder_on_a_full_disk_keeps_its_certificate() {
    need_wire!("ip");
    let farm = Farm::new();
    let folder = tempfile::tempdir().expect("a folder");
    let disk = SmallDisk::mount(folder.path(), 1 << 20).expect("root mounts");
    let out = disk.folder().join("run");
    let mut command = inside(&farm.forwarder);
    command.args(["forward", "-i", "f0,f1", "--nat", "10.9.2.100"]);
    command.args(["--service", TCP, "-o"]).arg(&out);
    let running = Running::spawn(&mut command, out, private_folder());
    running.wait_until("it listens", || {
        running.messages().contains("listening at f1")
    });
    fill(disk.folder());
    let ended = running.interrupt();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.messages);
    let record = manifest(&ended.out);
    assert!(record.certificate.is_some() && record.ended_ns.is_some());
}

/// The account of a killed run, which is that of its last second; `report` and `info` say so.
fn killed(running: Running) -> serde_json::Value {
    let out = running.out.clone();
    let record = || {
        let text = std::fs::read_to_string(out.join("trace.json")).unwrap_or_default();
        Manifest::from_json(&text).ok()
    };
    let reasons = |count: &str| {
        record().is_some_and(|record| record.verdict.reasons.join(" ").contains(count))
    };
    running.wait_until("two seconds are over", || reasons("the first 2 s"));
    running.signal("KILL");
    let ended = running.end();
    assert_eq!(ended.status.code(), None, "{}", ended.messages);
    wait_until("nobody writes it", || !lineside_store::is_running(&out));
    let record = record().expect("it was written whole");
    assert_eq!(
        record.verdict.state,
        State::Unfinished,
        "{:?}",
        record.verdict
    );
    for verb in ["info", "report"] {
        let output = lineside().arg(verb).arg(&out).output().expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "the run was killed: its counts are those at",
            "of the first",
        ] {
            assert!(text.contains(words), "{verb}: {text}");
        }
    }
    record.certificate.expect("one")
}

#[test]
fn a_killed_link_leaves_what_it_measured() {
    need_wire!("ip");
    let hosts = Hosts::new();
    let running = emulate(
        &hosts.between,
        &["--between", "m0,m1", "--delay", "1ms"],
        "m1",
    );
    let trips = round_trips(&hosts);
    assert_eq!(trips.len(), 20);
    let certificate = killed(running);
    for direction in ["inbound", "outbound"] {
        let counters = &certificate["directions"][direction]["counters"];
        let released = counters["released"].as_u64();
        assert!(released >= Some(20), "{certificate}");
    }
    let delays = &certificate["directions"]["outbound"]["realised"];
    assert!(delays["p50_ns"].as_i64() >= Some(1_000_000), "{delays}");
}

#[test]
fn a_killed_forwarder_leaves_what_it_measured() {
    need_wire!("ip");
    let farm = Farm::new();
    let _nodes = farm.nodes();
    let running = farm.forward(&["--service", TCP]);
    farm.load(&["http://10.9.1.100/", "-n", "40", "-c", "4"]);
    let certificate = killed(running);
    let service = &certificate["services"][0];
    assert_eq!(service["opened"].as_u64(), Some(4), "{certificate}");
    assert!(certificate["arrived"].as_u64() > Some(80), "{certificate}");
}

#[test]
fn a_capture_on_a_full_disk_says_so_in_its_account() {
    need_wire!("ip");
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().expect("a folder");
    let disk = SmallDisk::mount(folder.path(), 2 << 20).expect("root mounts");
    let out = disk.folder().join("run");
    let mut command = inside(&hosts.between);
    command.args(["capture", "-i", "m0", "-o"]).arg(&out);
    let running = Running::spawn(&mut command, out, private_folder());
    running.wait_until("it has begun", || running.out.join("trace.json").exists());
    fill(disk.folder());
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
    assert!(
        ended.messages.contains("No space left"),
        "{}",
        ended.messages
    );
    let record = manifest(&ended.out);
    assert!(record.ended_ns.is_some(), "the last record has room");
    assert_eq!(
        record.verdict.state,
        State::Incomplete,
        "{:?}",
        record.verdict
    );
    let reasons = record.verdict.reasons.join("; ");
    assert!(reasons.contains("No space left"), "{reasons}");
    assert!(!ended.out.join(".trace.json.room").exists());
}
