//! `lineside ctl RUN stats`: what a run has counted so far, while it goes on.

use std::path::Path;
use std::process::Stdio;

use lineside_run::stats::RunStats;
use serde_json::Value;

use crate::report::{check, publish};
use crate::support::{
    came_to_its_end, held_status, lineside, manifest, talk, wait_until, wait_until_still_for,
};
use crate::wall::between::{Hosts, emulate};
use crate::wall::commands::{Ordinary, is_forbidden};
use crate::wall::control::{ctl, raw};
use crate::wall::undisturbed::undisturbed;
use crate::wall::wire::{Running, need_wire, private_folder};

fn schema() -> Value {
    schemars::schema_for!(RunStats).to_value()
}

/// A line of `stats --json`, which is as its schema says.
fn read(line: &str) -> RunStats {
    let value: Value = serde_json::from_str(line).expect("JSON");
    let (schema, mut found) = (schema(), Vec::new());
    check(&value, &schema, &schema, "stats", &mut found);
    assert!(found.is_empty(), "{found:#?}");
    serde_json::from_value(value).expect("the form that is published")
}

pub(crate) fn stats(run: &Path) -> RunStats {
    let output = ctl(run, &["stats", "--json"]);
    assert!(output.status.success(), "{}", talk(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), 1, "{text}");
    read(&text)
}

/// The answer to a request that is written to the socket.
fn asked(run: &Path) -> RunStats {
    let answer = raw(run, b"{\"version\":1,\"stats\":{}}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    serde_json::from_value(answer["done"]["stats"].clone()).expect("stats")
}

/// Waits until every frame that a run's link was given has left it or was dropped, and no more
/// come.
pub(crate) fn wait_until_empty(running: &Running) {
    let moved = || {
        let directions = asked(&running.out).directions;
        let held: u64 = directions.iter().map(|each| each.held).sum();
        let counts = directions.iter().map(|each| (each.entered, each.released));
        (held, counts.collect::<Vec<_>>())
    };
    // The loop that moves the frames answers.
    while wait_until_still_for(8, "no frame comes or leaves", moved).0 > 0 {}
}

#[test]
fn the_published_schema_of_stats_is_that_of_the_code() {
    publish("stats", &schema());
}

#[test]
fn stats_are_what_a_run_has_counted_so_far() {
    need_wire!("ping");
    let hosts = Hosts::new();
    let words = [
        "--between",
        "m0,m1",
        "--wait",
        "sleep",
        "--delay",
        "out: 10ms",
        "--loss",
        "in: every 4",
        "--monitor",
        "size,gap,packets,flow_size at m0.came window 10ms",
    ];
    let running = emulate(&hosts.between, &words, "m1");
    let run = running.out.clone();
    let mut ping = hosts
        .client
        .command("ping")
        .args(["-n", "-q", "-i", "0.005", "-c", "400", "192.0.2.2"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    wait_until("frames pass", || stats(&run).directions[0].released > 100);
    let first = stats(&run);
    for direction in &first.directions {
        let gone = direction.released + direction.dropped.total() + direction.held;
        assert_eq!(direction.entered + direction.duplicated, gone, "{first:?}");
        assert_eq!(direction.rates, None, "{first:?}");
    }
    let [out, back] = first.directions.as_slice() else {
        panic!("two directions: {first:?}");
    };
    assert_eq!((&*out.name, &*back.name), ("outbound", "inbound"));
    let delay = out.delay.expect("frames left");
    // Frames that left while the loop looked at them may be among them.
    assert!(delay.count >= out.released, "{first:?}");
    assert!(delay.min_ns > 9_900_000 && delay.p50_ns <= delay.p99_ns);
    assert!(back.dropped.loss >= back.entered / 4 && out.dropped.total() == 0);
    let tap = first.tap.expect("monitors take copies");
    assert!(tap.copied > 100 && tap.dropped_queue + tap.dropped_memory == 0);
    assert!(first.after_ns > Some(0) && first.switch.is_none());

    // The monitors answer from their own thread, a moment behind.
    let [monitor] = first.monitors.as_slice() else {
        panic!("one monitor: {first:?}");
    };
    assert_eq!((&*monitor.port, &*monitor.point), ("m0", "came"));
    let metrics = monitor.distributions.iter();
    let metrics: Vec<_> = metrics.map(|each| each.metric.as_str()).collect();
    for metric in ["packet_bytes", "gap_ns", "window_packets", "window_bytes"] {
        assert!(metrics.contains(&metric), "{metrics:?}");
    }
    let sizes = { monitor.distributions.iter() }.find(|each| each.metric == "packet_bytes");
    let sizes = sizes.expect("it is there");
    assert!(sizes.count > 50 && sizes.p50 == 98, "{sizes:?}");
    let window = monitor.window.expect("a window is over");
    let rate = window.packets as f64 * 100.0;
    assert!(window.packets > 0 && (window.pps - rate).abs() < 1e-6);
    assert_eq!(window.window_ns, 10_000_000);
    assert!(monitor.flows_known.is_some() && monitor.flows_seen.is_some());

    let text = ctl(&run, &["stats"]).stdout;
    let text = String::from_utf8(text).expect("text");
    for expected in [
        "outbound ",
        "dropped by loss ",
        "loop ",
        "tap ",
        "at m0.came",
        "gap_ns",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    for (words, expected) in [
        (&["stat"][..], "the nearest known one is stats"),
        (&["stats", "now"], "stats: 'now' has no meaning after it"),
        (
            &["stats", "--every", "1ms"],
            "'1ms' is too short: at least 10ms",
        ),
        (
            &["stats", "--delay", "1ms"],
            "leave out the flags of the link",
        ),
        (&["--every", "1s"], "stats --interval TIME"),
    ] {
        let output = ctl(&run, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(talk(&output).contains(expected), "{}", talk(&output));
    }
    assert!(ping.wait().expect("our child").success());
    let last = stats(&run);
    let ended = running.interrupt();
    let certificate = manifest(&ended.out).certificate.expect("it is there");
    let counters = &certificate["directions"]["outbound"]["counters"];
    // Neighbours may still be asked for after the last look.
    let released = counters["released"].as_u64().expect("a number");
    let counted = last.directions[0].released;
    assert!((counted..counted + 10).contains(&released), "{counters}");
}

#[test]
fn stats_go_on_until_the_run_ends() {
    need_wire!("ping");
    let hosts = Hosts::new();
    let running = emulate(
        &hosts.between,
        &["--between", "m0,m1", "--wait", "sleep"],
        "m1",
    );
    let mut watching = lineside();
    watching.arg("ctl").arg(&running.out);
    watching.args(["stats", "--every", "20ms", "--json"]);
    let seen = running.folder.path().join("seen");
    let watching = watching.stdout(std::fs::File::create(&seen).expect("new"));
    let mut watching = watching.stderr(Stdio::piped()).spawn().expect("it runs");
    let lines = || {
        let text = std::fs::read_to_string(&seen).expect("text");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    wait_until("some lines are there", || lines().len() > 3);
    let ping = hosts
        .client
        .command("ping")
        .args(["-n", "-q", "-c", "1", "192.0.2.2"])
        .output();
    assert!(ping.expect("it runs").status.success());
    let known = lines().len();
    wait_until("there are more", || lines().len() > known + 2);
    let ended = running.interrupt();
    assert_eq!(
        ended.status.code(),
        Some(held_status(&ended.out)),
        "{}",
        ended.messages
    );
    let status = watching.wait().expect("our child");
    let mut message = String::new();
    let stderr = watching.stderr.as_mut().expect("it is piped");
    std::io::Read::read_to_string(stderr, &mut message).expect("text");
    assert!(
        status.success() && message.is_empty(),
        "{status}: {message}"
    );
    let lines: Vec<_> = lines().iter().map(|line| read(line)).collect();
    assert!(lines[0].directions[0].rates.is_none());
    let rates = |stats: &RunStats| stats.directions[0].rates.map(|rates| rates.released_pps);
    assert!(lines[1..].iter().all(|stats| rates(stats).is_some()));
    assert!(
        lines.iter().any(|stats| rates(stats) > Some(0.0)),
        "a ping passed"
    );
    let ascends = |pair: &[RunStats]| {
        pair[0].at_ns < pair[1].at_ns
            && pair[0].directions[0].entered <= pair[1].directions[0].entered
    };
    assert!(lines.windows(2).all(ascends));

    // A reader that has seen enough ends it, and a run that has ended has no stats.
    let output = ctl(&ended.out, &["stats", "--every", "1s"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).contains("the run has ended"),
        "{}",
        talk(&output)
    );
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_stats() {
    need_wire!();
    let hosts = Hosts::new();
    let running = emulate(
        &hosts.between,
        &["--between", "m0,m1", "--wait", "sleep"],
        "m1",
    );
    let script = "\"$0\" ctl \"$1\" stats --every 10ms --json | head -1";
    let output = std::process::Command::new("timeout")
        .args(["20", "sh", "-c", script])
        .arg(lineside().get_program())
        .arg(&running.out)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
    let _ended = running.interrupt();
}

#[test]
fn a_client_sees_the_stats_of_its_own_link() {
    let ordinary = Ordinary::new();
    let client = "./lineside ctl run stats --json && ./lineside ctl run mark 'it begins'";
    let words = ["-o", "run", "--monitor", "all", "--server", "sleep 60"];
    let words = [
        &words[..],
        &["--server-wait", "0", "--", "sh", "-c", client],
    ]
    .concat();
    let output = ordinary.run(&words);
    if is_forbidden(&output) {
        return;
    }
    assert!(came_to_its_end(&output), "{}", talk(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    let stats = read(lines.next().expect("a line"));
    assert_eq!(stats.directions.len(), 2);
    let marked = lines.next().expect("another");
    assert!(
        marked.starts_with("mark at ") && marked.ends_with(": it begins"),
        "{marked}"
    );
}

#[test]
fn a_live_capture_with_monitors_has_stats_too() {
    need_wire!("ping");
    let hosts = Hosts::new();
    let folder = private_folder();
    let out = folder.path().join("run");
    let mut command = hosts.between.command(lineside().get_program());
    command
        .args(["capture", "-i", "m0", "--monitor", "size"])
        .arg("-o")
        .arg(&out);
    let running = Running::spawn(&mut command, out, folder);
    running.wait_until("it listens", || {
        running.messages().contains("listening at m0 ")
    });
    // Nobody answers, but the host asks for its neighbour.
    let mut ping = hosts
        .client
        .command("ping")
        .args(["-n", "-q", "-w", "60", "192.0.2.2"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let counted = || stats(&running.out).monitors;
    wait_until("frames are seen", || {
        let monitors = counted();
        let mut found = monitors.iter().flat_map(|monitor| &monitor.distributions);
        found.any(|each| each.metric == "packet_bytes" && each.count > 0)
    });
    let stats = stats(&running.out);
    assert!(stats.directions.is_empty() && stats.polling.is_none());
    for (words, expected) in [
        (&["--delay", "1ms"][..], "it can be asked for stats"),
        (&["mark", "a"], "it can be asked for stats"),
    ] {
        let output = ctl(&running.out, words);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(talk(&output).contains(expected), "{}", talk(&output));
    }
    let _ = ping.kill();
    let _ = ping.wait();
    let ended = running.interrupt();
    assert!(ended.status.success(), "{}", ended.messages);
    assert!(!ended.out.join("control").exists(), "nothing is left");
}

/// Frames that leave more than a millisecond late while stats are asked for a thousand times are as
/// many as while nobody asks.
#[test]
fn a_thousand_looks_make_no_frame_late() {
    need_wire!("ping");
    undisturbed("stats asked for a thousand times", || {
        let hosts = Hosts::new();
        let words = [
            "--between",
            "m0,m1",
            "--delay",
            "1ms",
            "--monitor",
            "all",
            "--wait",
            "sleep",
        ];
        let running = emulate(&hosts.between, &words, "m1");
        let run = running.out.clone();
        let mut ping = hosts
            .client
            .command("ping")
            .args(["-n", "-q", "-i", "0.002", "-w", "60", "192.0.2.2"])
            .stdout(Stdio::null())
            .spawn()
            .expect("it runs");
        let count = |stats: &RunStats| {
            let both = stats.directions.iter();
            both.fold((0, 0), |(left, late), direction| {
                (left + direction.released, late + direction.late.over_1000us)
            })
        };
        wait_until("frames pass", || count(&asked(&run)).0 > 1_000);
        let before = count(&asked(&run));
        let mut latest = before;
        for _ in 0..1_000 {
            let now = count(&asked(&run));
            assert!(now >= latest, "counters only grow");
            latest = now;
        }
        wait_until("as many pass", || count(&asked(&run)).0 > before.0 + 1_000);
        let after = count(&asked(&run));
        let _ = ping.kill();
        let _ = ping.wait();
        let ended = running.interrupt();
        let certificate = manifest(&ended.out).certificate.expect("it is there");
        let dropped = certificate["loop"]["tap"]["dropped_queue"].as_u64();
        if dropped != Some(0) {
            return Err(format!(
                "{dropped:?} frames found no room on their way to monitors"
            ));
        }
        let (left, late) = (after.0 - before.0, after.1 - before.1);
        let calm = before.1 as f64 / before.0 as f64;
        match late as f64 / left as f64 {
            share if share <= calm + 0.01 => Ok(()),
            share => Err(format!(
                "{share} of {left} frames were late, and {calm} before"
            )),
        }
    });
}
