//! More files than may be open at once.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;
use lineside_rows::Table;
use lineside_testkit::capture::{self, Frame};
use lineside_trace::State;
use tempfile::TempDir;

use crate::input::rows_of;
use crate::support::{Trace, example, lineside, talk};

/// Runs `lineside capture WORDS` in `folder` with this many descriptors.
fn run(folder: &Path, descriptors: u32, words: &str) -> Output {
    Command::new("sh")
        .arg("-c")
        .arg(format!(
            "ulimit -n {descriptors}; exec \"$0\" capture -q --force -o trace {words}"
        ))
        .arg(lineside().get_program())
        .current_dir(folder)
        .output()
        .expect("it runs")
}

/// The trace of `words`, which must be complete and list this many inputs.
fn trace_of(words: &str, descriptors: u32, files: usize, write: impl Fn(&Path)) -> Trace {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("files")).expect("a folder");
    write(&folder.path().join("files"));
    let output = run(folder.path(), descriptors, words);
    assert!(output.status.success(), "{words}: {}", talk(&output));
    let trace = Trace::read(&folder.path().join("trace"), folder);
    assert_eq!(trace.manifest.verdict.state, State::Complete, "{words}");
    assert_eq!(trace.manifest.inputs.len(), files, "{words}");
    let frames = trace.manifest.inputs.iter().map(|input| input.frames);
    assert!(frames.min() > Some(0), "{words}: each was read");
    trace
}

/// The example's frames, in the order of their stamps.
fn frames() -> Vec<Frame> {
    let mut frames = capture::read(&example()).expect("the example");
    frames.sort_by_key(|frame| frame.stamp_ns);
    frames
}

/// The rows of all frames in one file.
fn merged(frames: &[Frame]) -> Vec<String> {
    let folder: TempDir = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("merged.pcap");
    std::fs::write(&path, capture::write(frames)).expect("room");
    rows_of(&Trace::of(&path, &[]))
}

#[test]
fn thousands_of_files_take_few_descriptors() {
    let frames = frames();
    assert!(frames.len() > 2_000);
    let plain = |folder: &Path| {
        for (number, frame) in frames.iter().enumerate() {
            let path = folder.join(format!("{number:04}.pcap"));
            std::fs::write(path, capture::write(std::slice::from_ref(frame))).expect("room");
        }
    };
    let compressed = |folder: &Path| {
        for (number, frame) in frames.iter().enumerate() {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(&capture::write(std::slice::from_ref(frame)))
                .expect("room");
            let path = folder.join(format!("{number:04}.pcap.gz"));
            std::fs::write(path, gzip.finish().expect("room")).expect("room");
        }
    };
    let expected = merged(&frames);
    for words in ["files", "files/*"] {
        let trace = trace_of(words, 64, frames.len(), plain);
        assert_eq!(rows_of(&trace), expected, "{words}");
        let trace = trace_of(words, 64, frames.len(), compressed);
        assert_eq!(rows_of(&trace), expected, "{words}, compressed");
    }
}

/// Each file is a place of its own, whose bins take what they need.
#[test]
fn monitors_of_thousands_of_files_fit_into_a_small_budget() {
    let frames = frames();
    let write = |folder: &Path| {
        for (number, frame) in frames.iter().enumerate() {
            let path = folder.join(format!("{number:04}.pcap"));
            std::fs::write(path, capture::write(std::slice::from_ref(frame))).expect("room");
        }
    };
    let words = "files --monitor all --memory 64MiB";
    let trace = trace_of(words, 64, frames.len(), write);
    // One of each place.
    let windows = trace.manifest.tables[Table::MonitorWindows.name()];
    assert_eq!(windows.rows, frames.len() as u64);
}

/// Each has every 500th frame, so all of them are open at once.
#[test]
fn files_that_overlap_are_all_open() {
    const FILES: usize = 500;
    let frames = frames();
    let write = |folder: &Path| {
        for number in 0..FILES {
            let part: Vec<_> = frames.iter().skip(number).step_by(FILES).cloned().collect();
            let path = folder.join(format!("{number:03}.pcap"));
            std::fs::write(path, capture::write(&part)).expect("room");
        }
    };
    let expected = merged(&frames);
    for words in ["files", "files/*", "files/* --memory 32MiB"] {
        let trace = trace_of(words, 700, FILES, write);
        assert_eq!(rows_of(&trace), expected, "{words}");
    }
    // The others are read, and the way out is named.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("files")).expect("a folder");
    write(&folder.path().join("files"));
    let output = run(folder.path(), 400, "files/*");
    let messages = talk(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(
        messages.contains("as many as 'ulimit -n' leaves"),
        "{messages}"
    );
    assert!(
        messages.contains("and 1") && messages.len() < 1_500,
        "{messages}"
    );
}

/// What is no regular file is read as its bytes come, and a file may be named by its descriptor.
#[test]
fn standard_input_among_named_files_is_read() {
    let frames = frames();
    let write = |folder: &Path| {
        for (name, part) in [
            ("a", &frames[..9]),
            ("b", &frames[9..18]),
            ("c", &frames[18..]),
        ] {
            std::fs::write(folder.join(name), capture::write(part)).expect("room");
        }
    };
    let expected = merged(&frames);
    for words in [
        "files/c files/a - <files/b",
        "files/c files/a /dev/stdin <files/b",
        "files/c files/a /dev/fd/7 7<files/b",
    ] {
        let trace = trace_of(words, 64, 3, write);
        assert_eq!(rows_of(&trace), expected, "{words}");
        let names = trace.manifest.inputs.iter().map(|input| &input.name[..]);
        assert!(words.starts_with(&names.collect::<Vec<_>>().join(" ")));
    }
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    let output = run(folder.path(), 64, "a missing c");
    let messages = talk(&output);
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.contains("'missing'") && !folder.path().join("trace").exists());
}
