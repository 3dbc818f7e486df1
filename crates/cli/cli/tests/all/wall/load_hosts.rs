//! Hosts of `load --hosts` that die.

use std::process::Command;

use lineside_trace::State;
use serde_json::Value;

use crate::support::{lineside, manifest, private_folder};
use crate::wall::load_ends::{Served, number};
use crate::wall::wire::{Running, Wire, need_wire, run};

/// A load of two hosts, of which one is killed: the other goes on to its end.
#[test]
fn a_host_that_dies_ends_its_own_part_alone() {
    need_wire!("ip");
    let wire = Wire::new("load-lost", 1);
    wire.tap.ip("addr add 10.9.0.1/16 dev t0");
    wire.generator.ip("addr add 10.9.0.2/16 dev g0");
    wire.tap.ip("link set lo up");
    let served = Served::of(
        wire.tap.command(lineside().get_program()),
        &["http", "10.9.0.1:80"],
    );
    let hosts = format!("{},{}", wire.generator.name(), wire.tap.name());
    let folder = private_folder();
    let out = folder.path().join("run");
    let mut load = lineside();
    load.args(["load", "http://10.9.0.1/", "-R", "400", "-c", "8", "-d"]);
    load.args(["5s", "--hosts", &hosts, "--rsh", "ip netns exec"]);
    load.args(["--row-sample", "none", "-o"]).arg(&out);
    let running = Running::spawn(&mut load, out.clone(), folder);
    let seconds = || {
        let text = std::fs::read_to_string(out.join("trace.json")).unwrap_or_default();
        let record: Value = serde_json::from_str(&text).unwrap_or_default();
        let seconds = record["certificate"]["seconds"].as_array().map(Vec::len);
        seconds.unwrap_or_default()
    };
    running.wait_until("two seconds are over", || seconds() >= 2);
    let agents = || {
        let found = std::fs::read_dir("/proc").expect("there").flatten();
        let found = found.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut found: Vec<_> = { found }
            .filter(|process| {
                let read = |file: &str| {
                    std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default()
                };
                let parent = format!("PPid:\t{}\n", running.id());
                read("cmdline").contains("--agent") && read("status").contains(&parent)
            })
            .collect();
        found.sort_unstable();
        found
    };
    let agents = agents();
    let [_, last] = agents[..] else {
        panic!("two agents: {agents:?}");
    };
    run(Command::new("kill").args(["-KILL", &last.to_string()]));
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
    let lost = wire.tap.name();
    assert!(ended.messages.contains(lost), "{}", ended.messages);
    let record = manifest(&ended.out);
    // On a busy machine it is disturbed besides.
    assert!(
        matches!(record.verdict.state, State::Incomplete | State::Disturbed),
        "{:?}",
        record.verdict
    );
    let reasons = record.verdict.reasons.join("; ");
    assert!(
        reasons.contains(lost) && reasons.contains("are known"),
        "{reasons}"
    );
    let certificate = record.certificate.expect("one");
    let answered = number(&certificate, "/requests/answered");
    // All of one host, and the first two seconds of the other at least.
    assert!((1_300..1_990).contains(&answered), "{certificate:#}");
    assert!(number(&certificate, "/latency/count") >= 1_300);
    let seconds = certificate["seconds"].as_array().map(Vec::len);
    assert!(seconds >= Some(4), "{certificate:#}");
    assert!(number(&served.counts(), "/requests") >= answered);
}
