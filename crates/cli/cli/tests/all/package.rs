//! The unit of `contrib/package`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{lineside, repository, talk};

pub(crate) fn missing(tools: &[&str]) -> bool {
    let is_missing = |tool: &&&str| {
        let found = Command::new("sh")
            .args(["-c", "command -v \"$0\"", tool])
            .output();
        !found.is_ok_and(|output| output.status.success())
    };
    match tools.iter().find(is_missing) {
        Some(tool) => println!("SKIP: {tool} is missing"),
        None => return false,
    }
    true
}

pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", talk(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn unit() -> PathBuf {
    repository().join("contrib/package/lineside-capture@.service")
}

#[test]
fn the_unit_is_sound_and_little_exposed() {
    if missing(&["systemd-analyze"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = fs::read_to_string(unit()).expect("there");
    let program = lineside().get_program().to_string_lossy().into_owned();
    let copy = folder.path().join("lineside-capture@.service");
    fs::write(&copy, text.replace("/usr/bin/lineside", &program)).expect("written");
    let verify = |path: &Path| {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(["verify", "--man=no"]).arg(path).output();
        output.expect("it runs")
    };
    let output = verify(&copy);
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(talk(&output), "");
    // The check finds errors.
    fs::write(&copy, text.replace("WatchdogSec=30s", "WatchdogSec=often")).expect("written");
    assert_ne!(talk(&verify(&copy)), "");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager", "--threshold=25"]);
    printed(security.arg(unit()));
}

#[test]
fn the_unit_calls_capture_with_flags_that_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = fs::read_to_string(unit()).expect("there");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .expect("a command");
    let help = printed(lineside().args(["capture", "--help"]));
    let configuration = repository().join("contrib/package/capture.toml");
    let words = line.split(' ').skip(1).map(|word| {
        let word = word.replace(
            "/etc/lineside/capture.toml",
            &configuration.to_string_lossy(),
        );
        word.replace("/var/lib/lineside", &folder.path().to_string_lossy())
            .replace("%i", "nowhere0")
    });
    // Until capture writes runs into partitions of a folder.
    let words: Vec<String> = words
        .filter(|word| word != "--runs" || help.contains("--runs"))
        .collect();
    let output = lineside().args(&words).output().expect("it runs");
    assert!(!output.status.success());
    assert!(
        talk(&output).contains("nowhere0"),
        "{words:?}: {}",
        talk(&output)
    );
    assert!(
        !talk(&output).contains("unexpected argument"),
        "{}",
        talk(&output)
    );
}
