//! The unit of `contrib/package` at work: under a real systemd, and what a service sends to it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::package::{missing, printed};
use crate::support::{lineside, repository};
use crate::wall::packages::{file, packages};
use crate::wall::wire::{Namespace, Running, need_wire, private_folder};

/// A real systemd: the service has its own user and no rights left, is in the sandbox, and comes
/// back after a kill, which the earlier run reports.
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
    let mut lab = Command::new(repository().join("crates/test/nfs-lab/unit"));
    let message = printed(lab.arg(file(&made, ".deb")).arg(script));
    let (message, manifest) = message.split_once("\n{").expect("a manifest at the end");
    let manifest: Value = serde_json::from_str(&format!("{{{manifest}")).expect("JSON");
    let sandbox = serde_json::json!({ "holds": ["landlock", "seccomp"], "missing": [] });
    assert_eq!(manifest["sandbox"]["holds"], sandbox["holds"], "{message}");
    assert_eq!(
        manifest["sandbox"]["missing"], sandbox["missing"],
        "{message}"
    );
    assert_eq!(manifest["verdict"]["state"], "incomplete", "{message}");
    assert!(!message.contains("Uid:\t0"), "root: {message}");
    for part in [
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        "  killed: ",
        "  gap: nothing is recorded",
        "goes on, 0 operations: unfinished",
    ] {
        assert!(message.contains(part), "no '{part}': {message}");
    }
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
    let folder = private_folder();
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
