//! Steps of an emulated link: at an instant, again and again, and when a frame comes.

use std::path::Path;
use std::process::Output;

use lineside_rows::Table;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{came_to_its_end, example, held_status, lineside, manifest, records, talk};
use crate::wall::between::{Hosts, emulate};
use crate::wall::commands::{Ordinary, is_forbidden};
use crate::wall::control::ctl;
use crate::wall::wire::need_wire;

const MS: i64 = 1_000_000;

/// The example through a link with these words.
fn emulated(words: &[&str]) -> (Output, TempDir) {
    let folder = crate::support::private_folder();
    let mut command = lineside();
    command.arg("emulate").arg(example()).args(words);
    let output = command.arg("-o").arg(folder.path().join("run")).output();
    (output.expect("it runs"), folder)
}

fn certificate(folder: &Path) -> Value {
    manifest(&folder.join("run"))
        .certificate
        .expect("it is there")
}

/// Event and text of each event of monitors, with its time.
fn events(run: &Path) -> Vec<(i64, String, String)> {
    let records = records(run, Table::MonitorEvents);
    let events = records.iter().map(|row| {
        let text = |name| row.text(name).unwrap_or_default().to_owned();
        let time_ns = row.integer("time_ns").unwrap_or_default();
        (time_ns, text("event"), text("text"))
    });
    events.collect()
}

#[test]
fn steps_of_a_capture_are_exact_and_reported() {
    let words = [
        "--delay",
        "1ms",
        "--monitor",
        "packets window 1ms",
        "--monitor",
        "size",
        "--step",
        "at 10ms for 50ms: link out: down; mark it goes",
        "--step",
        "every 250ms times 2: delay in: 3ms",
        "--step",
        "when tcp port 2049 and greater 1000 at inside.came: loss match udp: 100%",
        "--step",
        "at 150ms: start monitor 1",
    ];
    let (output, folder) = emulated(&words);
    assert!(output.status.success(), "{}", talk(&output));
    let first = certificate(folder.path());
    let (_, again) = emulated(&words);
    let again_certificate = certificate(again.path());
    for key in ["directions", "steps", "firings", "changes"] {
        assert_eq!(first[key], again_certificate[key], "{key}");
    }
    let firings = first["firings"].as_array().expect("a list");
    let of_step = |step: i64| {
        let firings = firings.iter().filter(move |each| each["step"] == step);
        firings.map(|each| (each["after_ns"].as_i64(), each["event"].as_str()))
    };
    let at = |ms: i64, event| (Some(ms * MS), Some(event));
    assert!(of_step(1).eq([at(10, "fired"), at(60, "undone")]));
    assert!(of_step(2).eq([at(250, "fired"), at(500, "fired")]));
    assert_eq!(of_step(3).count(), 1);
    assert_eq!(first["steps"][0]["fired"], 1);
    // The frames of those 50 ms are what the link dropped.
    let whole = emulated(&["--monitor", "packets at inside.came window 1ms"]).1;
    let windows = records(&whole.path().join("run"), Table::MonitorWindows);
    let begin_ns = firings[0]["at_ns"].as_i64().expect("a number")
        - firings[0]["after_ns"].as_i64().expect("a number");
    let down = &first["directions"]["outbound"]["counters"]["dropped"]["down"];
    let down = down.as_i64().expect("a number");
    let inside = |from_ms: i64, until_ms: i64| -> i64 {
        let within = windows.iter().filter(|row| {
            let time_ns = row.integer("time_ns").expect("a time");
            (begin_ns + from_ms * MS..begin_ns + until_ms * MS).contains(&time_ns)
        });
        within
            .map(|row| row.integer("packets").expect("a count"))
            .sum()
    };
    // Windows begin at multiples of a millisecond, and the run does not.
    assert!((inside(10, 59)..=inside(9, 61)).contains(&down), "{down}");
    assert!(down > 0);

    let run = folder.path().join("run");
    let seen = events(&run);
    let has = |event: &str, text: &str| {
        let mut all = seen.iter();
        all.any(|(_, of, with)| of == event && with.contains(text))
    };
    assert!(
        has("step", "at 10ms for 50ms") && has("undone", "at 10ms for 50ms"),
        "{seen:?}"
    );
    assert!(has("mark", "it goes"), "{seen:?}");
    // The first monitor measured only from its start on, the second one from the beginning.
    let windows = records(&run, Table::MonitorWindows);
    let first_window = { windows.iter() }
        .filter_map(|row| row.integer("time_ns"))
        .min();
    assert!(
        first_window >= Some(begin_ns + 149 * MS),
        "{first_window:?}"
    );
    let report = lineside().arg("report").arg(&run).arg("--full").output();
    let report = report.expect("it runs");
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(text.contains("it goes"), "{text}");
    // What stands in the manifest can be run again.
    let config = run.join("trace.json");
    let third = crate::support::private_folder();
    let mut command = lineside();
    command.arg("emulate").arg("--config").arg(config);
    let output = command.arg("-o").arg(third.path().join("run")).output();
    assert!(output.expect("it runs").status.success());
    assert_eq!(certificate(third.path())["firings"], first["firings"]);
}

#[test]
fn a_step_of_a_file_ends_a_capture() {
    let folder = crate::support::private_folder();
    let file = folder.path().join("steps.toml");
    let text = "[emulate]\ndelay = \"1ms\"\n[[emulate.step]]\nwhen = \"at 100ms\"\n\
                do = [\"mark over\", \"end\"]\n";
    std::fs::write(&file, text).expect("written");
    let words = ["--config", file.to_str().expect("a name")];
    let (output, folder) = emulated(&words);
    assert!(output.status.success(), "{}", talk(&output));
    let ended = certificate(folder.path());
    let count = |certificate: &Value| {
        let entered = &certificate["directions"]["outbound"]["counters"]["entered"];
        entered.as_u64().expect("a number")
    };
    let whole = certificate(emulated(&["--delay", "1ms"]).1.path());
    assert!(
        count(&ended) > 0 && count(&ended) < count(&whole),
        "{ended:#}"
    );
    assert_eq!(ended["directions"]["outbound"]["held"], 0);
}

#[test]
fn wrong_steps_are_refused_before_anything_begins() {
    for (words, why) in [
        (
            &["--step", "at 5s: lnk down"][..],
            "nearest known one is link",
        ),
        (
            &["--step", "when ip at eth7.came: end"],
            "the ports are inside, outside",
        ),
        (
            &[
                "--step",
                "at 1s for 5s: link down",
                "--step",
                "at 3s: link up",
            ],
            "holds link when step 'at 3s: link up'",
        ),
        (&["--step", "at 1s: start monitor 1"], "has 0 monitors"),
        (&["--step", "at 1s: delay distribution nowhere"], "nowhere"),
        (&["--armed"], "--armed is for"),
    ] {
        let (output, folder) = emulated(words);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(talk(&output).contains(why), "{words:?}: {}", talk(&output));
        assert!(!folder.path().join("run").exists(), "{words:?}");
    }
    for (words, why) in [
        (&["--armed"][..], "name RUN with -o"),
        (
            &["--armed", "--start-at", "2099-01-01T00:00:00Z"],
            "leave out one",
        ),
        (&["--start-at", "2001-01-01T00:00:00Z"], "has passed"),
        (&["--start-at", "10s"], "not a time of a clock"),
        (&["--start-at", "soon"], "is not a time"),
    ] {
        let mut command = lineside();
        command.arg("emulate").args(words).args(["--", "true"]);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(talk(&output).contains(why), "{words:?}: {}", talk(&output));
    }
}

/// The sequence numbers of the answers to a hundred pings, one each 10 ms.
fn answered(hosts: &Hosts) -> Vec<u64> {
    let mut ping = hosts.client.command("ping");
    let ping = ping.args(["-n", "-i", "0.01", "-c", "100", "-W", "1", "192.0.2.2"]);
    let output = ping.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.ends_with(" ms"));
    let sequence = |line: &str| {
        line.split("icmp_seq=")
            .nth(1)?
            .split(' ')
            .next()?
            .parse()
            .ok()
    };
    lines.filter_map(sequence).collect()
}

#[test]
fn the_frame_that_matches_is_the_first_one_changed() {
    need_wire!("ping");
    for method in ["af_xdp", "af_packet"] {
        let hosts = Hosts::new();
        let words = [
            "--between",
            "m0,m1",
            "--wait",
            "sleep",
            "--method",
            method,
            "--monitor",
            "packets at m0.came match icmp window 1ms",
            "--step",
            "when icmp[icmptype] = icmp-echo and icmp[6:2] = 30 at m0.came for 200ms: loss 100%; \
             mark the thirtieth",
            "--step",
            "when icmp[icmptype] = icmp-echo and icmp[6:2] = 60 at m0.came: start monitor 1",
            "--step",
            "when icmp[icmptype] = icmp-echoreply and icmp[6:2] = 80 at m0.left: link down",
        ];
        let running = emulate(&hosts.between, &words, "m1");
        let answers = answered(&hosts);
        let ended = running.interrupt();
        let held = held_status(&ended.out);
        assert_eq!(ended.status.code(), Some(held), "{}", ended.messages);
        let before: Vec<u64> = answers.iter().copied().filter(|seq| *seq < 40).collect();
        assert!(before.iter().copied().eq(1..30), "{answers:?}");
        assert!(
            answers.contains(&70) && answers.contains(&80),
            "{answers:?}"
        );
        // The one that leaves is not stopped any more; another may be under way with it.
        let late = answers.iter().filter(|seq| **seq > 80).count();
        assert!(late <= 1, "{answers:?}");
        let certificate = manifest(&ended.out).certificate.expect("it is there");
        let firings = certificate["firings"].as_array().expect("a list");
        let events: Vec<_> = firings
            .iter()
            .map(|each| (&each["step"], &each["event"]))
            .collect();
        assert_eq!(events.len(), 4, "{events:?}");
        let text = ended.messages + &format!("{:?}", self::events(&ended.out));
        assert!(text.contains("the thirtieth"), "{text}");
        // The monitor saw the sixtieth ping, and none before it.
        let windows = records(&ended.out, Table::MonitorWindows);
        let packets = windows
            .iter()
            .map(|row| row.integer("packets").expect("a count"));
        let expected = 100 - 60 + 1;
        assert_eq!(packets.sum::<i64>(), expected, "{windows:?}");
    }
}

#[test]
fn a_run_that_waits_is_begun_and_given_steps_by_ctl() {
    need_wire!("ping");
    let hosts = Hosts::new();
    let words = [
        "--between",
        "m0,m1",
        "--wait",
        "sleep",
        "--armed",
        "--step",
        "at 300ms: end",
    ];
    let running = emulate(&hosts.between, &words, "m1");
    let run = running.out.clone();
    let ctl = |words: &[&str]| ctl(&run, words);
    // It waits, and frames pass.
    assert_eq!(answered(&hosts).len(), 100);
    let wrong = ctl(&["step", "at 5ms: lnk down"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", talk(&wrong));
    let armed = ctl(&["step", "at 100ms for 50ms: delay 20ms; mark slow"]);
    assert!(armed.status.success(), "{}", talk(&armed));
    let started = ctl(&["start"]);
    assert!(started.status.success(), "{}", talk(&started));
    let again = ctl(&["start"]);
    assert!(!again.status.success(), "it has begun");
    let ended = running.end();
    let held = held_status(&ended.out);
    assert_eq!(ended.status.code(), Some(held), "{}", ended.messages);
    let certificate = manifest(&ended.out).certificate.expect("it is there");
    let firings = certificate["firings"].as_array().expect("a list");
    let after: Vec<_> = { firings.iter() }
        .map(|each| {
            (
                each["step"].as_i64(),
                each["after_ns"].as_i64().expect("a number"),
            )
        })
        .collect();
    let steps: Vec<_> = after.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [Some(2), Some(2), Some(1)], "{after:?}");
    for ((_, after_ns), ms) in after.iter().zip([100, 150, 300]) {
        // A machine may stand still for a moment: that makes some later, and none earlier.
        assert!(*after_ns >= ms * MS - MS, "{after:?}");
    }
}

#[test]
fn expressions_that_come_later_match_frames() {
    need_wire!("ping");
    let hosts = Hosts::new();
    let words = [
        "--between",
        "m0,m1",
        "--wait",
        "sleep",
        "--delay",
        "match arp: 1ms",
    ];
    let running = emulate(&hosts.between, &words, "m1");
    let run = running.out.clone();
    let ctl = |words: &[&str]| {
        let output = ctl(&run, words);
        (output.status.success(), talk(&output))
    };
    assert_eq!(answered(&hosts).len(), 100);
    let changed = ctl(&["--loss", "out: match icmp[icmptype] = icmp-echo: 100%"]);
    assert!(changed.0, "{}", changed.1);
    assert!(answered(&hosts).is_empty());
    let step = "when icmp[6:2] = 51 at m0.came: loss out: match icmp[icmptype] = icmp-echo: 0%; \
                delay in: match icmp: 2ms";
    let armed = ctl(&["step", step]);
    assert!(armed.0, "{}", armed.1);
    assert_eq!(answered(&hosts), (51..=100).collect::<Vec<u64>>());
    // A direction has two expressions so far, and may have 32.
    for number in 0..30 {
        let words = format!("out: match udp port {}: 1%", 5000 + number);
        let added = ctl(&["--loss", &words]);
        assert!(added.0, "{}", added.1);
    }
    let (is_done, why) = ctl(&["--loss", "out: match tcp: 1%"]);
    assert!(!is_done && why.contains("can have 32"), "{why}");
    let ended = running.interrupt();
    let held = held_status(&ended.out);
    assert_eq!(ended.status.code(), Some(held), "{}", ended.messages);
    let certificate = manifest(&ended.out).certificate.expect("it is there");
    let lost = &certificate["directions"]["outbound"]["counters"]["dropped"]["loss"];
    assert_eq!(lost.as_u64(), Some(150), "{certificate:#}");
}

#[test]
fn a_step_works_between_commands() {
    let ordinary = Ordinary::new();
    let words = [
        "--server",
        "sleep 9",
        "--server-wait",
        "0",
        "--step",
        "when icmp[6:2] = 2 at client.came: mark second; link down",
        "-o",
        "run",
        "--",
        "ping",
        "-n",
        "-c",
        "4",
        "-i",
        "0.2",
        "-W",
        "1",
        "10.0.0.1",
    ];
    let output = ordinary.run(&words);
    if is_forbidden(&output) {
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        text.matches("icmp_seq=").count(),
        1,
        "{text} {}",
        talk(&output)
    );
    let certificate = manifest(&ordinary.path().join("run")).certificate;
    let certificate = certificate.expect("it is there");
    assert_eq!(certificate["steps"][0]["fired"], 1, "{certificate:#}");
    // The end of the run is that of the client too.
    let words = ["--server", "sleep 99", "--server-wait", "0", "-o", "ended"];
    let end = ["--step", "at 300ms: end", "--", "sleep", "99"];
    let output = ordinary.run(&[&words[..], &end].concat());
    assert!(came_to_its_end(&output), "{}", talk(&output));
}
