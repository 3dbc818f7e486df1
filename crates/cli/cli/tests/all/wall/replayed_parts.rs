//! Parts of workloads, and several copies of one, on a real server; an image under a replay.

use std::path::{Path, PathBuf};

use lineside_rows::Table;
use lineside_testkit::capture;
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::report::check;
use crate::support::{lineside, records, repository, talk};
use crate::wall::lab::{Lab, nfs_drive};
use crate::wall::replays::{command, is_faithful, recorded, replay};
use crate::wall::wire::obstacle;

/// A folder with a trace of `nfs-drive`.
pub(crate) fn drive(lab: &Lab, words: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let drive = nfs_drive();
    let drive = drive.to_str().expect("a plain path");
    let client: Vec<_> = [drive].into_iter().chain(words.split(' ')).collect();
    let trace = recorded(lab, folder.path(), "trace", &client);
    (folder, trace)
}

fn json(text: &[u8]) -> Json {
    serde_json::from_slice(text).expect("JSON")
}

/// What a replay found out, which may be incomplete.
fn replayed(trace: &Path, words: &[&str]) -> Json {
    let output = replay(trace, &[words, &["--json"]].concat());
    assert!(!output.stdout.is_empty(), "{words:?}: {}", talk(&output));
    json(&output.stdout)
}

/// The differences that a replay found.
fn differing(found: &Json) -> String {
    found["statuses"]["differing"].to_string()
}

/// A capture that begins late does not show the names of what it uses.
#[test]
fn an_image_has_what_a_late_trace_uses() {
    let Some(lab) = Lab::up(&[]) else { return };
    for version in ["", "--version 4.0 ", "--version 4.1 "] {
        let (folder, _) = drive(&lab, &format!("{version}meta --rounds 1"));
        let frames = capture::read(&folder.path().join("run.pcap")).expect("frames");
        for percent in [30, 50, 70] {
            let what = format!("{version}from {percent} %");
            let late = folder.path().join("late.pcap");
            let rest = &frames[frames.len() * percent / 100..];
            std::fs::write(&late, capture::write(rest)).expect("written");
            let trace = folder.path().join(format!("late-{percent}"));
            let mut capture = lineside();
            let capture = capture.arg("capture").arg(&late).args(["-q", "-o"]);
            let output = capture.arg(&trace).output();
            assert!(output.is_ok_and(|output| output.status.success()), "{what}");
            let name = what.replace([' ', '%'], "");
            let url = format!("nfs://192.0.2.1/vfs/late-{name}");
            let to = format!("{url}?mountport=20048");
            let output = command("image", &trace, &["--to", &to]);
            assert!(output.status.success(), "{what}: {}", talk(&output));
            let found = replayed(&trace, &["--to", &url, "--in-place"]);
            assert_eq!(
                found["repairs"]["missing_files"],
                Json::Null,
                "{what}: {found:#}"
            );
            assert_eq!(
                found["calls"]["left_out"]["handle"],
                Json::Null,
                "{what}: {found:#}"
            );
            // That the directory which is removed by its name is the one whose handle was used
            // before, the trace does not show; nor what opened the file that is closed.
            let differing = found["statuses"]["differing"].as_array().expect("a list");
            for each in differing {
                let operation = each["operation"].as_str().expect("a name");
                let may_differ = ["RMDIR", "REMOVE", "GETATTR", "PUTFH", "CLOSE"];
                assert!(may_differ.contains(&operation), "{what}: {differing:?}");
            }
        }
    }
}

#[test]
fn calls_that_are_chosen_are_replayed_with_what_they_need() {
    let Some(lab) = Lab::up(&[]) else { return };
    for version in ["", "--version 4.1 "] {
        let work = format!("{version}rand --file one --bytes 300000 --chunk 30000 --operations 40");
        let (folder, trace) = drive(&lab, &work);
        let source = records(&trace, Table::Operations);
        let reads = source
            .iter()
            .filter(|row| row.text("operation") == Some("READ"));
        let reads = reads.count() as u64;
        assert!(reads > 5, "{reads}");
        let run = folder.path().join("run");
        let run_text = run.display().to_string();
        let url = format!("nfs://192.0.2.1/vfs/chosen/{}", version.replace(' ', ""));
        let output = replay(
            &trace,
            &[
                "--to",
                &url,
                "--operation",
                "read",
                "-o",
                &run_text,
                "--json",
            ],
        );
        is_faithful(&output, &trace, &run, &work);
        let found = json(&output.stdout);
        let count = |name: &str| found["calls"][name].as_u64().expect("a count");
        assert_eq!(count("source") - count("needed"), reads, "{found:#}");
        assert!(count("needed") > 0 && count("not_chosen") > 0, "{found:#}");
        let all = count("source") + count("not_chosen");
        let calls = source
            .iter()
            .filter(|row| row.value("operation_id") == row.value("rpc_id"));
        assert_eq!(all, calls.count() as u64, "{found:#}");
        // What is read was written.
        let rows = records(&run, Table::Operations);
        let sums = |of: &Path, rows: &[crate::support::Record]| {
            let reads = rows
                .iter()
                .filter(|row| row.text("operation") == Some("READ"));
            let reads: Vec<_> = reads.map(|row| row.integer("operation_id")).collect();
            let sums = records(of, Table::Checksums);
            let sums = sums
                .iter()
                .filter(|sum| reads.contains(&sum.integer("operation_id")));
            sums.count()
        };
        assert_eq!(sums(&run, &rows), sums(&trace, &source), "{version}");
        for (words, why) in [
            (&["--operation", "reed"][..], "nearest that does is READ"),
            (&["--client", "192.0.2.9"], "nearest that does is 192.0.2.2"),
            (&["--file", "nothing*"], "nearest that does is"),
            (&["--since", "9s", "--until", "2s"], "--until"),
            (&["--since", "1h"], "no call of"),
        ] {
            let output = replay(&trace, &[&["--to", &url], words].concat());
            assert!(!output.status.success(), "{words:?}");
            assert!(talk(&output).contains(why), "{words:?}: {}", talk(&output));
            assert_eq!(talk(&output).lines().count(), 1, "{}", talk(&output));
        }
    }
}

/// What was there is looked up where an image has it: nothing but the chosen calls is made.
#[test]
fn what_was_there_needs_no_call() {
    let Some(lab) = Lab::up(&[]) else { return };
    if let Some(why) = obstacle(&["nfs-cat"]) {
        println!("SKIP: no libnfs: {why}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(lab.files().join("deep")).expect("made");
    std::fs::write(lab.files().join("deep/file"), vec![7; 100_000]).expect("written");
    let url = "nfs://192.0.2.1/vfs/deep/file?nfsport=2049&mountport=20048";
    let trace = recorded(&lab, folder.path(), "trace", &["nfs-cat", url]);
    let url = "nfs://192.0.2.1/vfs/image";
    let output = command(
        "image",
        &trace,
        &["--to", &format!("{url}?mountport=20048")],
    );
    assert!(output.status.success(), "{}", talk(&output));
    for words in [
        &["--operation", "READ"][..],
        &["--operation", "READ", "--file", "file"],
    ] {
        let found = replayed(&trace, &[&["--to", url, "--in-place"], words].concat());
        let count = |name: &str| found["calls"][name].as_u64().expect("a count");
        assert_eq!([count("needed"), count("lost")], [0, 0], "{found:#}");
        assert!(
            count("made") > 0 && count("made") == count("source"),
            "{found:#}"
        );
        assert_eq!(differing(&found), "[]");
    }
}

/// Several mounts stand beside each other, in the image and for the replay.
#[test]
fn each_of_two_mounts_is_a_directory() {
    let Some(lab) = Lab::up(&[]) else { return };
    if let Some(why) = obstacle(&["nfs-cat"]) {
        println!("SKIP: no libnfs: {why}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (directory, name) in [("one", "first"), ("two", "second")] {
        std::fs::create_dir(lab.files().join(directory)).expect("made");
        let path = lab.files().join(directory).join(name);
        std::fs::write(path, name.repeat(1_000)).expect("written");
    }
    let script = "set -e
        url() { echo \"nfs://192.0.2.1/vfs/$1?nfsport=2049&mountport=20048\"; }
        nfs-cat \"$(url one/first)\"; nfs-cat \"$(url two/second)\"";
    let trace = recorded(&lab, folder.path(), "trace", &["bash", "-c", script]);
    let url = "nfs://192.0.2.1/vfs/both";
    let output = command(
        "image",
        &trace,
        &["--to", &format!("{url}?mountport=20048")],
    );
    assert!(output.status.success(), "{}", talk(&output));
    let run = folder.path().join("run");
    let run_text = run.display().to_string();
    let words = ["--to", url, "--in-place", "-o", &run_text, "--json"];
    is_faithful(&replay(&trace, &words), &trace, &run, "two mounts");
    for path in ["one/first", "two/second"] {
        assert!(lab.files().join("both").join(path).exists(), "{path}");
    }
}

#[test]
fn clients_at_once_have_a_tree_and_a_seed_each() {
    let Some(lab) = Lab::up(&[]) else { return };
    for (number, version) in ["", "--version 4.0 ", "--version 4.1 "].iter().enumerate() {
        let work = format!("{version}rand --file one --bytes 200000 --chunk 20000 --depth 4");
        let (folder, trace) = drive(&lab, &work);
        let source = replayed(
            &trace,
            &["--to", "nfs://192.0.2.1/vfs/single", "--in-place"],
        );
        let calls = |found: &Json, name: &str| found["calls"][name].as_u64().expect("a count");
        for pace in ["closed", "open", "fast"] {
            let what = format!("{version}{pace}");
            let at = format!("copies-{number}-{pace}");
            let (url, run) = (
                format!("nfs://192.0.2.1/vfs/{at}"),
                folder.path().join(pace),
            );
            let run_text = run.display().to_string();
            let words = [
                "--to",
                &url,
                "--clients",
                "x3",
                "--loop",
                pace,
                "-o",
                &run_text,
            ];
            let found = replayed(&trace, &words);
            assert_eq!(found["asked"]["clients"], 3);
            for name in ["source", "made", "answered", "written_bytes"] {
                assert_eq!(
                    calls(&found, name),
                    3 * calls(&source, name),
                    "{what} {name}"
                );
            }
            assert_eq!(differing(&found), "[]", "{what}");
            assert_eq!(found["edges"]["kept"], found["edges"]["all"], "{what}");
            // On a busy machine it may be disturbed.
            assert_ne!(found["verdict"]["state"], "incomplete", "{what}: {found:#}");
            // Each call of the source is repeated by three rows.
            let rows = records(&run, Table::Operations);
            let mut repeated = std::collections::BTreeMap::new();
            for row in rows
                .iter()
                .filter_map(|row| row.integer("source_operation_id"))
            {
                *repeated.entry(row).or_insert(0) += 1;
            }
            assert!(
                repeated.values().all(|count| *count == 3),
                "{what}: {repeated:?}"
            );
            let read = |copy: u32| {
                // A client of NFSv4 comes by the way to what was exported.
                let way = if version.is_empty() { "one" } else { "vfs/one" };
                let path = lab.files().join(format!("{at}/copy-{copy}/{way}"));
                std::fs::read(path).expect("it was written")
            };
            let [one, two, three] = [1, 2, 3].map(read);
            assert_eq!((one.len(), two.len()), (three.len(), three.len()), "{what}");
            assert!(
                one != two && two != three && one != three,
                "{what}: one seed"
            );
        }
        // One of the directories is there, and has something in it.
        let url = format!("nfs://192.0.2.1/vfs/later-{number}");
        replayed(&trace, &["--to", &format!("{url}/copy-2")]);
        let output = replay(&trace, &["--to", &url, "--clients", "x2"]);
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
        let text = talk(&output);
        assert!(text.contains("/copy-2 is not empty"), "{text}");
        assert!(text.contains("--in-place"), "{text}");
    }
}

#[test]
fn the_certificate_of_a_replay_is_as_its_schema_says() {
    let Some(lab) = Lab::up(&[]) else { return };
    let (_folder, trace) = drive(&lab, "--version 4.1 meta --rounds 1");
    let schema = repository().join("docs/schema/replay.schema.json");
    let schema = json(&std::fs::read(schema).expect("it is published"));
    let mut wrong = Vec::new();
    for words in [
        &["--clients", "x2"][..],
        &["--operation", "OPEN", "--in-place"],
    ] {
        let found = replayed(
            &trace,
            &[&["--to", "nfs://192.0.2.1/vfs/schema"], words].concat(),
        );
        check(&found, &schema, &schema, "replay", &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
