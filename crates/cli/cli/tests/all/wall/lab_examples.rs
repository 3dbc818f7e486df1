//! The labs of `examples/labs`, each point once: what a busy machine cannot change is judged.

use std::process::Command;

use lineside_testkit::captures::repository;
use serde_json::Value as Json;

use crate::support::{lineside, talk};
use crate::wall::commands::is_forbidden;
use crate::wall::experiments::{Bench, medians};

/// Whether all programs are there; what is missing is a line.
fn are_there(programs: &[&str]) -> bool {
    programs.iter().all(|program| {
        let mut asked = Command::new("sh");
        asked.args([
            "-c",
            "PATH=$PATH:/usr/sbin:/sbin; command -v \"$0\"",
            program,
        ]);
        let found = asked.output().is_ok_and(|output| output.status.success());
        if !found {
            println!("SKIP: {program} is missing");
        }
        found
    })
}

/// An example with so many repeats.
fn example(name: &str, repeats: u32) -> Bench {
    let file = repository().join(format!("examples/labs/{name}.toml"));
    let text = std::fs::read_to_string(file).expect("an example");
    let text = text.replace("retries = 1", "retries = 0");
    let text = text.replace("repeats = 5", "repeats = 3");
    Bench::new(&text.replace("repeats = 3", &format!("repeats = {repeats}")))
}

/// That these assertions of a lab hold.
fn hold(lab: &Json, names: &[&str]) {
    let all = lab["assertions"].as_array().expect("assertions");
    for name in names {
        let found = all.iter().find(|each| each["name"] == *name);
        assert_eq!(found.expect(name)["state"], "holds", "{lab}");
    }
}

#[test]
fn the_examples_of_labs_run_as_they_stand() {
    // Those of their assertions that hold however busy a machine is.
    for (name, programs, sure) in [
        ("http", &["sh"][..], &["law"][..]),
        ("iperf3", &["iperf3"], &["fits"]),
        ("memcached", &["memcached"], &[]),
        ("nginx", &["nginx", "wrk"], &["law"]),
        ("apache", &["apache2", "ab"], &["fits", "none"]),
        ("unbound", &["unbound", "dnsperf"], &["law"]),
        ("flap", &["sh"], &["waits"]),
    ] {
        if !are_there(programs) {
            continue;
        }
        let bench = example(name, 1);
        let output = bench.run(&[]);
        if is_forbidden(&output) {
            return;
        }
        let is_judged = matches!(output.status.code(), Some(0 | 3));
        assert!(is_judged, "{name}: {}", talk(&output));
        let lab = bench.json("it/lab.json");
        hold(&lab, sure);
        let fits = lab["fits"].as_array().expect("fits");
        let over_link = name != "flap";
        assert_eq!(!fits.is_empty(), over_link, "{name}: what bounds it: {lab}");
    }
}

/// Runs the lab of a bench as root, if this is root and the programs are there.
fn as_root(bench: &Bench, programs: &[&str]) -> Option<Json> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: a forwarder and an NFS server in a lab need root");
        return None;
    }
    if !are_there(programs) {
        return None;
    }
    let mut command = lineside();
    let command = command.args(["lab", "it.toml"]).current_dir(bench.path(""));
    let output = command.output().expect("it runs");
    let is_judged = matches!(output.status.code(), Some(0 | 3));
    assert!(is_judged, "{}", talk(&output));
    Some(bench.json("it/lab.json"))
}

#[test]
fn a_drained_node_of_a_balancer_loses_no_request() {
    let bench = example("forward", 1);
    let Some(lab) = as_root(&bench, &["nginx"]) else {
        return;
    };
    hold(&lab, &["alive", "drained"]);
    assert!(
        medians(&lab, "succeeded").iter().all(|it| *it > 0.0),
        "{lab}"
    );
}

#[test]
fn an_nfs_server_is_a_node_of_a_lab() {
    let bench = example("nfs", 1);
    if let Some(lab) = as_root(&bench, &["ganesha.nfsd", "rpcbind"]) {
        hold(&lab, &["law"]);
    }
}

/// The least time that the server took for a GETATTR, as the tap of a run saw it.
fn server_ns(bench: &Bench, run: &str) -> u64 {
    let mut report = lineside();
    let report = report.args(["report", "--json"]).arg(bench.path(run));
    let output = report.output().expect("it runs");
    let report: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = report["operations"].as_array().expect("operations");
    let getattr = all.iter().find(|each| each["operation"] == "GETATTR");
    let least = &getattr.expect("GETATTR")["server_time"]["min_ns"];
    least.as_u64().expect("a time")
}

#[test]
fn a_slower_server_is_found_at_the_tap() {
    if !are_there(&["python3"]) {
        return;
    }
    let bench = example("slower", 2);
    let output = bench.run(&[]);
    if is_forbidden(&output) {
        return;
    }
    assert!(output.status.success(), "{}", talk(&output));
    // Of hundreds of requests one meets a machine that has nothing else to do.
    let least = |point: u32| {
        let runs = 1..=2;
        let times =
            runs.map(|repeat| server_ns(&bench, &format!("it/point={point}/repeat={repeat}")));
        times.min().expect("two runs")
    };
    // However long the link is.
    let [before, after] = [[1, 2], [3, 4]].map(|points| points.map(least).into_iter().min());
    let (before, after) = (before.expect("two"), after.expect("two"));
    assert!(
        after >= before + 15_000,
        "{before} ns, {after} ns with 30 us more"
    );
}
