//! The command line and the configuration file: what is refused, and how.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Output;

use crate::support::{example, lineside, talk};

fn run(folder: &Path, arguments: &[&OsStr]) -> Output {
    let mut command = lineside();
    let output = command.args(arguments).current_dir(folder).output();
    output.expect("lineside runs")
}

/// Fails unless these arguments are wrong usage, and the message has these words.
#[track_caller]
fn assert_usage(folder: &Path, arguments: &[&str], words: &[&str]) {
    let arguments: Vec<_> = arguments.iter().map(OsStr::new).collect();
    assert_usage_of(folder, &arguments, words);
}

#[track_caller]
fn assert_usage_of(folder: &Path, arguments: &[&OsStr], words: &[&str]) {
    let output = run(folder, arguments);
    let talk = talk(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {talk}");
    for word in words {
        assert!(talk.contains(word), "{arguments:?}: no {word:?} in {talk}");
    }
}

#[test]
fn a_name_that_is_not_utf8_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let [file, run] = [b"bad\xff.pcap", b"run\xff.json"].map(|name| OsStr::from_bytes(name));
    let (example, word) = (example(), OsStr::new);
    for arguments in [
        &[word("capture"), file, word("-o"), word("t")][..],
        &[word("capture"), example.as_os_str(), word("-o"), run],
        &[
            word("capture"),
            example.as_os_str(),
            word("--write-pcap"),
            run,
        ],
        &[word("emulate"), file, word("--json")],
        &[
            word("explain"),
            word("-r"),
            file,
            word("--frame"),
            word("1"),
        ],
    ] {
        let name = if arguments.contains(&file) {
            "'bad\u{fffd}.pcap'"
        } else {
            "'run\u{fffd}.json'"
        };
        assert_usage_of(folder.path(), arguments, &[name, "not UTF-8"]);
    }
}
