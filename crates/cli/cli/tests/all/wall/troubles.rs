//! Troubles that people have, made with real programs, and what the report says first; and healthy
//! runs, of which it must name no trouble.

use std::path::Path;
use std::process::Command;

use lineside_testkit::waiting::Turn;
use lineside_testkit::{captures, tshark};
use serde_json::Value;

use crate::support::{lineside, repository, talk};
use crate::tcp;
use crate::wall::lab::nfs_drive;
use crate::wall::undisturbed::undisturbed;
use crate::wall::wire::obstacle;

/// One lab at a time under the name of these tests.
const LAB: &str = "lineside-test";

/// Findings that are about how long something took.
pub(crate) const TROUBLES: [&str; 14] = [
    "stall",
    "slow_server",
    "latency_jump",
    "queue",
    "tail",
    "slow_client",
    "slow_file",
    "slow_one_of_servers",
    "slow_one_of_connections",
    "loss",
    "reordering",
    "window",
    "full_link",
    "one_at_a_time",
];

/// Makes a trouble; an error if the machine was too busy to record it.
fn made(name: &str, folder: &Path) -> Result<(), String> {
    // Before the other tests: a server that waits for them has a trouble.
    let output = Command::new("nice")
        .args(["-n", "-15"])
        .arg(repository().join("crates/test/nfs-lab/troubles"))
        .args([name, folder.to_str().expect("a plain path")])
        .env("LINESIDE", env!("CARGO_BIN_EXE_lineside"))
        .env("NFS_DRIVE", nfs_drive())
        .env("LINESIDE_LAB_NAME", LAB)
        .output()
        .expect("the lab\'s troubles runs");
    let message = talk(&output);
    if message.contains("tcpdump lost frames") || message.contains("kernel dropped") {
        return Err(message);
    }
    assert!(output.status.success(), "{name}: {message}");
    Ok(())
}

/// Findings about troubles, each as its kind and place, worst first; and the first screen.
fn found(folder: &Path) -> (Vec<(String, String)>, String) {
    let trace = folder.join("trace");
    let output = lineside()
        .arg("report")
        .arg(&trace)
        .arg("--json")
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("a list").iter();
    let troubles = findings.filter(|each| TROUBLES.iter().any(|kind| each["kind"] == *kind));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = troubles
        .map(|each| (text(&each["kind"]), text(&each["place"])))
        .collect();
    let screen = lineside()
        .arg("report")
        .arg(&trace)
        .output()
        .expect("it runs");
    (found, String::from_utf8(screen.stdout).expect("UTF-8"))
}

/// What TCP had to do is what tshark says of the same capture.
fn same_counts(name: &str, folder: &Path) -> Result<(), String> {
    if !tshark::available() {
        println!("SKIP: {name}: counts of TCP are not compared with tshark: there is none");
        return Ok(());
    }
    let (capture, trace) = (folder.join("capture.pcap"), folder.join("trace"));
    let differences = tcp::differences_but_in_order(&capture, &trace);
    match differences.is_empty() {
        true => Ok(()),
        false => Err(differences),
    }
}

fn can_run() -> bool {
    let tools = ["ss", "rpcbind", "ganesha.nfsd", "tcpdump", "ethtool", "cc"];
    let why = obstacle(&tools);
    if let Some(why) = &why {
        println!("SKIP: no lab: {why}");
    }
    why.is_none()
}

#[test]
fn the_first_finding_names_each_trouble() {
    if !can_run() {
        return;
    }
    let _only = Turn::take(LAB);
    for (name, kind, place, words) in [
        ("frozen", "stall", "server", "answered nobody 2 times"),
        (
            "slow-disk",
            "slow_server",
            "server",
            "the server takes long",
        ),
        (
            "slow-file",
            "slow_file",
            "server",
            "slow: operations on it take",
        ),
        (
            "one-at-a-time",
            "one_at_a_time",
            "client",
            "asks one at a time",
        ),
        ("full-link", "full_link", "network", "a link is full"),
        ("loss", "loss", "network", "the network loses packets"),
        (
            "small-window",
            "window",
            "client",
            "receive window is too small",
        ),
    ] {
        undisturbed(name, || {
            let folder = tempfile::tempdir().expect("a folder");
            made(name, folder.path())?;
            let (found, screen) = found(folder.path());
            same_counts(name, folder.path())?;
            let first = found
                .first()
                .map(|(kind, place)| (kind.as_str(), place.as_str()));
            let screen: String = screen.lines().take(24).collect::<Vec<_>>().join(" ");
            let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
            match first == Some((kind, place)) && screen.contains(words) {
                true => Ok(()),
                false => Err(format!("{found:?}: {screen}")),
            }
        });
    }
}

#[test]
fn healthy_runs_have_no_trouble() {
    if !can_run() {
        return;
    }
    let _only = Turn::take(LAB);
    for name in [
        "healthy-v3",
        "healthy-v40",
        "healthy-v41",
        "healthy-metadata",
        "healthy-large",
        "healthy-small",
        "healthy-udp",
        "healthy-clients",
        "healthy-jumbo",
        "healthy-tso",
        "healthy-ipv6",
        "healthy-far",
    ] {
        undisturbed(name, || {
            let folder = tempfile::tempdir().expect("a folder");
            made(name, folder.path())?;
            same_counts(name, folder.path())?;
            match found(folder.path()) {
                (found, _) if found.is_empty() => Ok(()),
                (_, screen) => Err(screen),
            }
        });
    }
}

#[test]
fn captures_of_healthy_servers_have_no_trouble() {
    if captures::beside().is_none() {
        println!("SKIP: the captures beside the repository are not there");
    }
    // Public captures are often public because something was wrong.
    let mut inputs = captures::all();
    inputs.retain(|input| {
        !input
            .parent()
            .is_some_and(|folder| folder.ends_with("public"))
    });
    assert!(!inputs.is_empty());
    let mut wrong = Vec::new();
    for input in inputs {
        let folder = tempfile::tempdir().expect("a folder");
        let output = lineside()
            .arg("capture")
            .arg(&input)
            .args(["-q", "-o"])
            .arg(folder.path().join("trace"))
            .output()
            .expect("it runs");
        assert!(
            output.status.success(),
            "{}: {}",
            input.display(),
            talk(&output)
        );
        let (found, _) = found(folder.path());
        if !found.is_empty() {
            wrong.push(format!("{}: {found:?}", input.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
