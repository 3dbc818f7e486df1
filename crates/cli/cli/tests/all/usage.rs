//! The command line and the configuration file: refused values, and their messages.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Output;

use crate::support::{example, lineside, manifest, repository, talk};

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

#[test]
fn flags_for_interfaces_are_refused_for_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let example = example().display().to_string();
    for flag in [
        &["--method", "foo"][..],
        &["--method", "af_packet"],
        &["--sockets", "0"],
        &["--sockets", "2"],
        &["--overload", "foo"],
        &["--overload", "no-checksums"],
        &["-p"],
    ] {
        let arguments = [&["capture", &example, "-o", "t"], flag].concat();
        assert_usage(
            folder.path(),
            &arguments,
            &[flag[0], "this run reads files"],
        );
    }
    let follow = ["capture", "-i", "lo", "--follow", "-o", "t"];
    assert_usage(folder.path(), &follow, &["--follow is for files"]);
    std::fs::write(folder.path().join("c.toml"), "[capture]\nsockets = 0\n").expect("written");
    let keyed = ["capture", &example, "-o", "t", "--config", "c.toml"];
    assert_usage(folder.path(), &keyed, &["--sockets is for interfaces"]);

    // A run's recorded configuration can be run again.
    let arguments = ["capture", &example, "-o", "t", "-q"].map(OsStr::new);
    assert!(run(folder.path(), &arguments).status.success());
    let again = ["capture", "--config", "t/trace.json", "-o", "u", "-q"].map(OsStr::new);
    let output = run(folder.path(), &again);
    assert!(output.status.success(), "{}", talk(&output));
}

#[test]
fn a_file_may_have_sections_of_several_verbs() {
    let folder = tempfile::tempdir().expect("a folder");
    let example = example().display().to_string();
    let write = |text: &str| std::fs::write(folder.path().join("c.toml"), text).expect("written");
    write("[capture]\nlate_window = \"5ms\"\n\n[emulate]\ndelay = \"10ms\"\nmemory = \"64MiB\"\n");
    for arguments in [
        &["capture", &example, "--config", "c.toml", "-o", "t", "-q"][..],
        &["emulate", &example, "--config", "c.toml", "-o", "e", "-q"],
        &["explain", "--config", "c.toml"],
    ] {
        let arguments: Vec<_> = arguments.iter().map(OsStr::new).collect();
        let output = run(folder.path(), &arguments);
        assert!(output.status.success(), "{}", talk(&output));
    }
    let of = |verb: &str, config: &str, words: &[&str]| {
        let arguments = [verb, example.as_str(), "--config", config, "-o", "u"];
        assert_usage(folder.path(), &arguments, words);
    };
    of("capture", "e/trace.json", &["a run of another verb"]);
    write("[emulat]\ndelay = \"10ms\"\n");
    of("capture", "c.toml", &["unknown key emulat;", "is emulate"]);
}

#[test]
fn a_value_of_the_wrong_type_is_answered_with_one_of_the_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let example = example().display().to_string();
    let write = |text: &str| std::fs::write(folder.path().join("c.toml"), text).expect("written");
    let of = |verb: &str, config: &str, words: &[&str]| {
        let arguments = [verb, example.as_str(), "--config", config, "-o", "u"];
        assert_usage(folder.path(), &arguments, words);
    };
    for (verb, line, answer) in [
        ("capture", "late_window = 5", "write late_window = \"2ms\""),
        ("capture", "cores = \"2\"", "write cores = 1"),
        ("capture", "cores = -1", "whole number from 0 on"),
        ("capture", "strict = 1", "not true or false"),
        ("capture", "inputs = \"a.pcap\"", "write inputs = [\"…\"]"),
        (
            "capture",
            "rotate = \"16MiB\"",
            "write rotate = [\"64MiB\"]",
        ),
        ("emulate", "delay = 10", "write delay = \"10ms\""),
        ("emulate", "seed = \"1\"", "write seed = 1"),
    ] {
        write(&format!("[{verb}]\n{line}\n"));
        let key = line.split(' ').next().unwrap_or_default();
        of(
            verb,
            "c.toml",
            &[&format!("c.toml: {verb}.{key}: "), answer],
        );
    }
    let arguments = ["capture", example.as_str(), "-o", "t", "-q"].map(OsStr::new);
    assert!(run(folder.path(), &arguments).status.success());
    of("capture", "t", &["give --config t/trace.json"]);
}

#[test]
fn negative_values_are_refused_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let example = example().display().to_string();
    for (verb, flag, value) in [
        ("emulate", "--delay", "-5ms"),
        ("emulate", "--rate", "-1mbit"),
        ("emulate", "--loss", "-1%"),
        ("emulate", "--memory", "-1MiB"),
        ("emulate", "--seed", "-5"),
        ("emulate", "-c", "-5"),
        ("capture", "--late-window", "-5ms"),
        ("capture", "--memory", "-1MiB"),
        ("capture", "--cores", "-2"),
    ] {
        let arguments = [verb, &example, "-o", "t", flag, value];
        let message = format!("'{value}'");
        assert_usage(
            folder.path(),
            &arguments,
            &[&message, "must not be negative"],
        );
    }
}

#[test]
fn no_frames_at_all_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let example = example().display().to_string();
    for verb in ["capture", "emulate"] {
        let arguments = [verb, &example, "-o", "t", "-c", "0"];
        assert_usage(folder.path(), &arguments, &["'0'", "must not be 0"]);
    }
    std::fs::write(folder.path().join("c.toml"), "[capture]\nframes_max = 0\n").expect("written");
    let arguments = ["capture", &example, "-o", "t", "--config", "c.toml"];
    let message = "0 is not a whole number from 1 on, without quotes: write frames_max = 1";
    assert_usage(folder.path(), &arguments, &[message]);
}

#[test]
fn the_guide_has_every_key_of_emulate() {
    let folder = tempfile::tempdir().expect("a folder");
    let example = example().display().to_string();
    let arguments = ["emulate", &example, "-o", "run", "-q"].map(OsStr::new);
    assert!(run(folder.path(), &arguments).status.success());
    let configuration = manifest(&folder.path().join("run")).configuration;
    let keys = configuration["emulate"].as_object().expect("keys");
    assert!(keys.len() > 20);
    let guide = repository().join("docs/guide/emulate.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let table = guide.split("| key | flag |").nth(1).expect("a table");
    let table = table.split("\n\n").next().expect("its end");
    for key in keys.keys() {
        assert!(table.contains(&format!("`{key}`")), "no {key} in {table}");
    }
}
