//! The unit of `contrib/package`, and what a service says to systemd.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::packages::{file, packages};
use crate::support::{lineside, repository, talk};
use crate::wire::{Namespace, Running, need_wire, open_folder};

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

/// A real systemd: the service has its own user and no rights left, is in the sandbox, and comes
/// back after a kill, which the run of before tells.
#[test]
fn a_systemd_starts_and_restarts_the_unit() {
    need_wire!();
    if missing(&["unshare", "nsenter", "systemctl"]) || !Path::new("/lib/systemd/systemd").exists()
    {
        return println!("SKIP: systemd is missing");
    }
    let Some(made) = packages() else { return };
    let script = "set -e
        process() { systemctl show --property MainPID --value $unit; }
        first=$(process)
        grep -E '^(Uid|CapEff|NoNewPrivs)' /proc/$first/status
        kill -KILL $first
        for _ in $(seq 100); do
            if [ $(process) != $first ] && systemctl is-active --quiet $unit; then break; fi
            sleep .1
        done
        lineside info $folder
        cat $(ls -d $folder/run=* | head -1)/trace.json";
    let mut lab = Command::new(repository().join("lab/unit"));
    let said = printed(lab.arg(file(made, ".deb")).arg(script));
    let (said, manifest) = said.split_once("\n{").expect("a manifest at the end");
    let manifest: Value = serde_json::from_str(&format!("{{{manifest}")).expect("JSON");
    let sandbox = serde_json::json!({ "holds": ["landlock", "seccomp"], "missing": [] });
    assert_eq!(manifest["sandbox"]["holds"], sandbox["holds"], "{said}");
    assert_eq!(manifest["sandbox"]["missing"], sandbox["missing"], "{said}");
    assert_eq!(manifest["verdict"]["state"], "incomplete", "{said}");
    assert!(!said.contains("Uid:\t0"), "root: {said}");
    for part in [
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        "  killed: ",
        "  gap: nothing is recorded",
        "goes on, 0 operations: unfinished",
    ] {
        assert!(said.contains(part), "no '{part}': {said}");
    }
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

#[test]
fn a_service_says_that_it_is_ready_alive_and_stopping() {
    need_wire!();
    let service = "tcp 10.9.1.100:80 to 10.9.2.2:8080";
    for words in [
        &["capture", "-i", "here"][..],
        &["emulate", "--between", "here,there"],
        &[
            "forward",
            "--ports",
            "here,there",
            "--nat",
            "10.9.2.100",
            "--service",
            service,
        ],
    ] {
        says_how_it_goes(words);
    }
}

fn says_how_it_goes(words: &[&str]) {
    let namespace = Namespace::new("notify");
    for end in ["here", "there"] {
        namespace.ip(&format!("link add {end} type veth peer name {end}0"));
        namespace.ip(&format!("link set {end} up"));
        namespace.ip(&format!("link set {end}0 up"));
    }
    let folder = open_folder();
    let path = folder.path().join("notify");
    let listener = UnixDatagram::bind(&path).expect("bound");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("its owner");
    listener
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("set");
    let out = folder.path().join("trace");
    let mut command = namespace.command(lineside().get_program());
    command
        .args(words)
        .arg("-o")
        .arg(&out)
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000")
        .current_dir(folder.path());
    let running = Running::spawn(&mut command, out, folder);
    let heard = || {
        let mut room = [0; 512];
        let len = loop {
            match listener.recv(&mut room) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                received => break received.expect("it says something"),
            }
        };
        String::from_utf8_lossy(&room[..len]).into_owned()
    };
    // What comes first says that the interface is open.
    assert_eq!(heard(), "READY=1", "{words:?}");
    let (mut beats, mut has_status) = (0, false);
    // Nothing passes the interface: the signs come from the loop all the same.
    while beats < 8 || !has_status {
        match heard().as_str() {
            "WATCHDOG=1" => beats += 1,
            status if status.starts_with("STATUS=") => has_status = true,
            other => panic!("{words:?}: {other}"),
        }
        assert!(beats < 40, "{words:?}: no status");
    }
    running.signal("TERM");
    while heard() != "STOPPING=1" {}
    running.end();
}
