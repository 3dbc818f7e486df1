//! Replays of captured workloads on a real server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use lineside_rows::Table;
use serde_json::Value as Json;

use crate::support::{Guarded, Record, Trace, lineside, records, talk};
use crate::wall::lab::{CLIENT, Lab, nfs_drive};
use crate::wall::wire::obstacle;

pub(crate) fn replay(trace: &Path, words: &[&str]) -> Output {
    command("replay", trace, words)
}

/// A verb at the client's.
pub(crate) fn command(verb: &str, trace: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", CLIENT, env!("CARGO_BIN_EXE_lineside")]);
    command.arg(verb).arg(trace).args(words);
    command.output().expect("it runs")
}

/// A trace of a client's run, in `folder`.
pub(crate) fn recorded(
    lab: &Lab,
    folder: &Path,
    name: &str,
    client: &[&str],
) -> std::path::PathBuf {
    let (capture, trace) = (folder.join("run.pcap"), folder.join(name));
    lab.record(&capture, client);
    let mut command = lineside();
    command
        .arg("capture")
        .arg(&capture)
        .args(["-q", "-o"])
        .arg(&trace);
    let output = command.output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    trace
}

/// Rows by operation and status.
fn mix<'a>(rows: impl Iterator<Item = &'a Record>) -> BTreeMap<[String; 2], u64> {
    let mut mix = BTreeMap::new();
    for row in rows {
        // Others on this machine may have mounted something, too.
        let made = |text: &str| text.replace("UMNTALL", "UMNT");
        let key = ["operation", "status"].map(|it| made(row.text(it).unwrap_or_default()));
        *mix.entry(key).or_default() += 1;
    }
    mix
}

/// Every call was made once and has the source's status, every edge was kept, and each row of the
/// run that repeats one names it.
pub(crate) fn is_faithful(output: &Output, trace: &Path, run: &Path, what: &str) {
    assert!(output.status.success(), "{what}: {}", talk(output));
    let found: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    let calls = &found["calls"];
    let left_out = calls["left_out"].as_object().expect("an object");
    let left_out: u64 = left_out
        .iter()
        .filter_map(|(_, count)| count.as_u64())
        .sum();
    let of_session = calls["left_out"]["session"].as_u64().unwrap_or(0);
    assert_eq!(left_out, of_session, "{what}: {found}");
    let made = calls["made"].as_u64().expect("a count");
    assert_eq!(Some(made + left_out), calls["source"].as_u64(), "{what}");
    assert_eq!(calls["answered"], calls["made"], "{what}");
    let statuses = &found["statuses"];
    assert_eq!(statuses["same"], statuses["compared"], "{what}: {statuses}");
    assert_eq!(found["edges"]["kept"], found["edges"]["all"], "{what}");
    let source = records(trace, Table::Operations);
    let source: BTreeMap<_, _> = source
        .iter()
        .map(|row| (row.integer("operation_id"), row))
        .collect();
    let rows = records(run, Table::Operations);
    let repeated = rows
        .iter()
        .filter(|row| row.integer("source_operation_id").is_some());
    let named = repeated.clone().map(|row| {
        let named = source.get(&row.integer("source_operation_id"));
        let named = *named.expect("a row of the source");
        let is_same = row.text("operation") == named.text("operation")
            // The directory stands for the root, and mounts of others stay.
            || matches!(named.text("operation"), Some("PUTROOTFH" | "UMNTALL"));
        assert!(is_same, "{what}: {row:?} {named:?}");
        assert_eq!(row.text("status"), named.text("status"), "{what}: {row:?}");
        named
    });
    let named: Vec<_> = named.collect();
    let calls_of = |rows: &[&Record]| {
        let firsts = rows
            .iter()
            .filter(|row| row.value("operation_id") == row.value("rpc_id"));
        firsts.count() as u64
    };
    assert_eq!(calls_of(&repeated.collect::<Vec<_>>()), made, "{what}");
    // Calls that open a session may not be chosen.
    if of_session == 0 && calls["not_chosen"] == 0 {
        assert_eq!(mix(rows.iter()), mix(named.into_iter()), "{what}");
    }
}

#[test]
fn a_workload_is_replayed_on_a_real_server() {
    let Some(lab) = Lab::up(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    if let Some(why) = obstacle(&["nfs-cp"]) {
        println!("SKIP: no libnfs: {why}");
        return;
    }
    let data: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    std::fs::write(folder.join("data"), &data).expect("written");
    let from = folder.join("data").display().to_string();
    let to = "nfs://192.0.2.1/vfs/copy?nfsport=2049&mountport=20048";
    let trace = recorded(&lab, folder, "copied", &["nfs-cp", &from, to]);
    for (number, words) in [&[][..], &["--loop", "open"], &["--loop", "fast"]]
        .iter()
        .enumerate()
    {
        let (url, run) = (
            format!("nfs://192.0.2.1/vfs/new/{number}"),
            folder.join(format!("run-{number}")),
        );
        let run_text = run.display().to_string();
        let asked = [&["--to", &url, "-o", &run_text, "--json"], *words].concat();
        let output = replay(&trace, &asked);
        is_faithful(&output, &trace, &run, &format!("{words:?}"));
        let copy = lab.files().join(format!("new/{number}/copy"));
        assert_eq!(
            std::fs::metadata(copy).expect("it is there").len(),
            data.len() as u64
        );
        let report = lineside()
            .arg("report")
            .arg(&run)
            .output()
            .expect("it runs");
        assert!(report.status.success(), "{}", talk(&report));
        // It is full now.
        let output = replay(&trace, &["--to", &url]);
        assert_eq!(output.status.code(), Some(1));
        assert!(talk(&output).contains("--in-place"), "{}", talk(&output));
    }
    let output = replay(&trace, &["--to", "nfs://192.0.2.1/nothing/new"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).contains("exports nothing"),
        "{}",
        talk(&output)
    );
}

#[test]
fn every_version_is_replayed_on_a_real_server() {
    let Some(lab) = Lab::up(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let drive = nfs_drive();
    let drive = drive.to_str().expect("a plain path");
    let works = [
        "meta --rounds 3",
        "rand --file two --bytes 400000 --chunk 30000 --depth 8 --operations 60",
        "--version 4.0 meta --rounds 3",
        "--version 4.0 rand --file four --bytes 300000 --chunk 30000 --depth 8",
        "--version 4.1 meta --rounds 3",
        "--version 4.1 seq --file five --bytes 3000000 --chunk 1000000 --depth 3",
        "--version 4.2 meta --rounds 3",
    ];
    for (number, work) in works.iter().enumerate() {
        let client: Vec<_> = [drive].into_iter().chain(work.split(' ')).collect();
        let trace = recorded(&lab, folder, &format!("trace-{number}"), &client);
        let url = format!("nfs://192.0.2.1/vfs/versions/{number}");
        let run = folder.join(format!("run-{number}"));
        let run_text = run.display().to_string();
        let output = replay(&trace, &["--to", &url, "-o", &run_text, "--json"]);
        is_faithful(&output, &trace, &run, work);
        // They ask for what the source's asked for.
        let found: Json = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(found["repairs"]["attributes"], Json::Null, "{work}");
        Trace::read(&run, tempfile::tempdir().expect("a folder")).assert_identities(work);
    }
}

/// Without a port mapper MOUNT is looked for where NFS is, and both share a connection.
#[test]
fn a_server_with_one_port_is_replayed_to() {
    let Some(lab) = Lab::up(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let drive = nfs_drive();
    let drive = drive.to_str().expect("a plain path");
    let client = [drive, "meta", "--rounds", "1"];
    let trace = recorded(&lab, folder.path(), "trace", &client);
    // Of the client's own host, where nothing else is served.
    let mut server = Command::new("ip");
    server.args(["netns", "exec", CLIENT, env!("CARGO_BIN_EXE_lineside")]);
    server.args(["load", "serve", "nfs", "127.0.0.1"]);
    let server = server.stderr(Stdio::piped()).spawn().expect("it runs");
    let mut server = Guarded(server);
    let mut line = String::new();
    let talk_of = server.stderr.take().expect("a pipe");
    BufReader::new(talk_of)
        .read_line(&mut line)
        .expect("a line");
    assert!(line.contains("serving nfs"), "{line}");
    let output = replay(&trace, &["--to", "nfs://127.0.0.1/export/new", "--json"]);
    assert!(!output.stdout.is_empty(), "{}", talk(&output));
    let found: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    let made = found["calls"]["made"].as_u64();
    assert!(made > Some(10), "{found}");
    assert_eq!(found["calls"]["answered"].as_u64(), made, "{found}");
}

#[test]
fn a_server_that_stops_ends_a_replay_with_what_was_done() {
    let Some(lab) = Lab::up(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let drive = nfs_drive();
    let drive = drive.to_str().expect("a plain path");
    let client = [drive, "meta", "--rounds", "3"];
    let trace = recorded(&lab, folder.path(), "trace", &client);
    let signal = |name: &str| {
        let status = Command::new("kill")
            .args([name, &lab.server_process()])
            .status();
        assert!(status.is_ok_and(|status| status.success()));
    };
    signal("-STOP");
    let output = replay(
        &trace,
        &["--to", "nfs://192.0.2.1/vfs/stopped", "--timeout", "1s"],
    );
    signal("-CONT");
    assert_eq!(output.status.code(), Some(1));
    let text = talk(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("within 1 s") && text.contains("--timeout"),
        "{text}"
    );
}
