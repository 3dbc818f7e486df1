//! A run's folder, or one that it is in or that is in it, removed while the run writes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lineside_rows::Table;
use lineside_testkit::capture;
use lineside_trace::State;

use crate::support::{example, lineside, manifest, parts_with_rows, talk, wait_until};

/// What is done to the folder of runs and to the run in it.
type Act = fn(&Path, &Path);

/// As `rm -rf`, until the run makes nothing in it any more.
fn remove(path: &Path) {
    while path.exists() {
        let _ = Command::new("rm").arg("-rf").arg(path).output();
    }
}

/// Captures from a pipe into a folder of runs, and calls `act` with it and the run's folder once
/// there are rows; with the run's folder, and what it ended with.
fn disturbed(
    folder: &Path,
    options: &[&str],
    act: impl Fn(&Path, &Path),
) -> (PathBuf, i32, String) {
    let out = folder.join("runs");
    let mut command = lineside();
    { command.args(["capture", "-", "-q", "--runs", "--flush", "100ms", "-o"]) }
        .arg(&out)
        .args(options)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("lineside runs");
    let mut pipe = child.stdin.take().expect("piped");
    let frames = capture::read(&example()).expect("the example");
    let bytes = capture::write(&frames);
    let (front, back) = bytes.split_at(bytes.len() / 2);
    pipe.write_all(front).expect("it reads");
    let mut run = PathBuf::new();
    wait_until(
        "there are rows, and the empty part of a table without",
        || {
            let entries = fs::read_dir(&out).into_iter().flatten().flatten();
            run = entries.map(|entry| entry.path()).next().unwrap_or_default();
            let losses = fs::read_dir(run.join("losses"))
                .into_iter()
                .flatten()
                .flatten();
            let is_part = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("part-");
            run.join("operations").exists()
                && parts_with_rows(&run, Table::Operations) > 0
                && losses
                    .map(|entry| entry.file_name())
                    .any(|name| is_part(&name))
        },
    );
    act(&out, &run);
    // It breaks off where the run ends first.
    let _ = pipe.write_all(back);
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    (run, output.status.code().expect("no signal"), talk(&output))
}

#[test]
fn a_run_whose_folder_is_removed_says_so() {
    let acts: [(&str, Act); 6] = [
        ("the run", |_, run| remove(run)),
        ("all runs", |out, _| remove(out)),
        ("a table", |_, run| remove(&run.join("operations"))),
        ("a table without rows", |_, run| remove(&run.join("losses"))),
        ("a link in its place", |out, run| {
            remove(out);
            symlink(out.with_file_name("elsewhere"), out).expect("linked");
            let _ = run;
        }),
        ("a link to a table", |out, run| {
            remove(&run.join("operations"));
            let _ = symlink(out.with_file_name("elsewhere"), run.join("operations"));
        }),
    ];
    for (what, act) in acts {
        for options in [&[][..], &["--cores", "2"], &["--no-sandbox"]] {
            let folder = tempfile::tempdir().expect("a folder");
            let elsewhere = folder.path().join("elsewhere");
            fs::create_dir(&elsewhere).expect("made");
            let (run, code, message) = disturbed(folder.path(), options, act);
            let what = format!("{what} {options:?}: {message}");
            assert_eq!(code, 1, "{what}");
            assert_eq!(message.lines().count(), 1, "{what}");
            let way_out = "start the run again, and remove a trace only once its run has ended";
            assert!(message.contains(&*run.to_string_lossy()), "{what}");
            assert!(
                message.contains(way_out) && !message.contains("panic"),
                "{what}"
            );
            assert_eq!(
                fs::read_dir(&elsewhere).expect("there").count(),
                0,
                "{what}"
            );
            if run.join("trace.json").exists() {
                assert_eq!(manifest(&run).verdict.state, State::Incomplete, "{what}");
            }
        }
    }
}

#[test]
fn a_run_whose_folder_is_moved_goes_on_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, code, message) = disturbed(folder.path(), &[], |out, run| {
        fs::rename(run, out.join("moved")).expect("renamed");
    });
    assert_eq!((code, &*message), (0, ""));
    let moved = run.with_file_name("moved");
    assert_eq!(manifest(&moved).verdict.state, State::Complete);
}
