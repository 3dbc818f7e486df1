//! `lineside ctl`: an emulated link that is changed while frames are under way.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Output, Stdio};

use lineside_rows::Table;
use serde_json::Value;

use crate::support::{
    came_to_its_end, held_status, lineside, manifest, private_folder, records, talk, wait_until,
};
use crate::wall::between::{Hosts, emulate};
use crate::wall::commands::{Ordinary, is_forbidden};
use crate::wall::wire::{Running, need_wire};

pub(crate) fn ctl(run: &Path, words: &[&str]) -> Output {
    let mut command = lineside();
    command.arg("ctl").arg(run).args(words);
    command.output().expect("it runs")
}

/// The output of `ctl --json`.
fn done(run: &Path, words: &[&str]) -> Value {
    let output = ctl(run, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", talk(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_ping_shows_each_change_and_loses_nothing() {
    need_wire!("ping");
    let hosts = Hosts::new();
    let words = [
        "--between",
        "m0,m1",
        "--delay",
        "out: 10ms",
        "--wait",
        "sleep",
    ];
    let running = emulate(&hosts.between, &words, "m1");
    let run = running.out.clone();
    let times = running.folder.path().join("times");
    let mut ping = hosts
        .client
        .command("ping")
        .args(["-D", "-n", "-i", "0.01", "-c", "150", "192.0.2.2"])
        .stdout(Stdio::from(std::fs::File::create(&times).expect("new")))
        .spawn()
        .expect("it runs");
    let answers = || {
        let text = std::fs::read_to_string(&times).expect("text");
        let whole = text.lines().filter(|line| line.ends_with(" ms"));
        let time = |line: &str| {
            line.split("time=")
                .nth(1)?
                .strip_suffix(" ms")?
                .parse()
                .ok()
        };
        whole.filter_map(time).collect::<Vec<f64>>()
    };
    wait_until("it is answered", || answers().len() > 40);

    // A wrong request changes nothing, and its message names the error.
    for (words, expected) in [
        (&["--delay", "40 parsecs"][..], "is not a time"),
        (&["--delay", "20ms", "--loss", "200%"], "loss '200%'"),
        (
            &["--reorder", "5%", "--delay", "0"],
            "reorder: frames can overtake others only where there is a delay",
        ),
        (&["--rate", "0"], "rate '0'"),
        (&["--delay", "match prt 53: 1ms"], "prt"),
        (&["--loss", "match udp: 200%"], "loss '200%'"),
        (&["--path", "nowhere.path"], "nowhere.path: cannot read it"),
    ] {
        let output = ctl(&run, words);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(
            talk(&output).contains(expected),
            "{words:?}: {}",
            talk(&output)
        );
    }
    let held = done(&run, &[]);
    assert_eq!(held["before"], held["after"]);
    assert_eq!(held["after"]["outbound"]["delay"], "10ms order fifo");
    assert_eq!(held["at_ns"], Value::Null);

    let changed = done(&run, &["--delay", "out: 40ms"]);
    assert_eq!(changed["after"]["outbound"]["delay"], "40ms order fifo");
    assert_eq!(changed["after"]["inbound"], changed["before"]["inbound"]);
    assert!(ping.wait().expect("our child").success());
    let answers = answers();
    assert_eq!(answers.len(), 150, "none is lost");
    // A busy machine makes some later, and none earlier.
    for (part, delay_ms) in [(&answers[..30], 10.0), (&answers[120..], 40.0)] {
        assert!(part.iter().all(|&ms| ms >= delay_ms), "{answers:?}");
    }

    let ended = running.interrupt();
    let held = held_status(&ended.out);
    assert_eq!(ended.status.code(), Some(held), "{}", ended.messages);
    let certificate = manifest(&ended.out).certificate.expect("it is there");
    let [change] = certificate["changes"]
        .as_array()
        .expect("a list")
        .as_slice()
    else {
        panic!("one change: {certificate:#}");
    };
    assert_eq!(change["at_ns"], changed["at_ns"]);
    assert_eq!(change["direction"], "outbound");
    assert_eq!(change["before"], changed["before"]["outbound"]);
    assert_eq!(change["after"], changed["after"]["outbound"]);
    // Counted apart: frames before the change, and frames since.
    let outbound = &certificate["directions"]["outbound"];
    let number = |value: &Value| value.as_u64().expect("a number");
    let (before, since) = (&change["realised"], &outbound["realised"]);
    assert_eq!(change["asked"]["mean_ns"], 10e6);
    assert_eq!(outbound["asked"]["mean_ns"], 40e6);
    assert!(number(&before["min_ns"]) >= 9_900_000, "{change:#}");
    assert!(number(&since["min_ns"]) > 39_900_000, "{outbound:#}");
    assert_eq!(
        number(&before["count"]) + number(&since["count"]),
        number(&outbound["counters"]["released"])
    );
    assert!(certificate["directions"]["inbound"]["realised"]["count"].as_u64() > Some(140));

    assert!(!ended.out.join("control").exists(), "nothing is left");
    let output = ctl(&ended.out, &["--delay", "1ms"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).contains("the run has ended"),
        "{}",
        talk(&output)
    );
    let output = lineside().arg("report").arg(&ended.out).output();
    let report = String::from_utf8_lossy(&output.expect("it runs").stdout).into_owned();
    let words: Vec<_> = report.split_whitespace().collect();
    let report = words.join(" ");
    assert!(
        report.contains("40ms order fifo") && report.contains("10ms order fifo"),
        "{report}"
    );
}

/// Writes a text to the socket of a run, and reads the answer.
pub(crate) fn raw(run: &Path, text: &[u8]) -> String {
    let mut stream = UnixStream::connect(run.join("control")).expect("it listens");
    // A run that has read enough may have closed its end.
    let _ = stream.write_all(text);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn requests_of_other_versions_are_refused_with_both() {
    need_wire!();
    let hosts = Hosts::new();
    let words = ["--between", "m0,m1", "--wait", "sleep"];
    let running = emulate(&hosts.between, &words, "m1");
    for (text, expected) in [
        (
            "{\"version\":2,\"mark\":{\"text\":\"a\"}}",
            "of version 2, and this run takes requests of version 1",
        ),
        (
            "{\"emulate\":{},\"files\":{}}",
            "without a version, as before lineside had them, and this run takes",
        ),
        ("{\"version\":1,\"reboot\":{}}", "unknown request 'reboot'"),
        ("{\"version\":1", "this is not a request"),
        ("\u{1}\u{2}", "this is not a request"),
    ] {
        let answer = raw(&running.out, text.as_bytes());
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["version"], 1);
        let why = answer["refused"].as_str().expect("it is refused");
        assert!(why.contains(expected), "{text}: {why}");
    }
    // No text, and more than a request may have: no answer, and the run goes on.
    assert_eq!(raw(&running.out, &[0xff, 0xfe]), "");
    assert_eq!(raw(&running.out, &vec![b' '; (16 << 20) + 1]), "");
    let known = "{\"version\":1,\"settings\":{\"emulate\":{},\"files\":{}}}";
    let answer: Value = serde_json::from_str(&raw(&running.out, known.as_bytes())).expect("JSON");
    assert_eq!(answer["done"]["settings"]["at_ns"], Value::Null);
    let ended = running.interrupt();
    assert_eq!(ended.status.code(), Some(held_status(&ended.out)));

    // The other direction: what answers is of another version.
    let folder = private_folder();
    let listener = UnixListener::bind(folder.path().join("control")).expect("free");
    for (answer, expected) in [
        (
            "{\"version\":3,\"done\":{}}",
            "the run answers by a form that is of version 3, and this ctl reads version 1",
        ),
        (
            "{\"refused\":\"a request of another version\"}",
            "(it says: a request of another version)",
        ),
        ("no", "the reply is not valid JSON"),
    ] {
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("it asks");
                let mut request = String::new();
                stream.read_to_string(&mut request).expect("a text");
                let request: Value = serde_json::from_str(&request).expect("JSON");
                assert_eq!(request["version"], 1);
                stream.write_all(answer.as_bytes()).expect("written");
            });
            ctl(folder.path(), &[])
        });
        assert_eq!(output.status.code(), Some(1));
        assert!(talk(&output).contains(expected), "{}", talk(&output));
    }
}

#[test]
fn the_user_that_started_a_run_may_ask_it_and_no_other() {
    need_wire!();
    let hosts = Hosts::new();
    let user = 12_345;
    for (umask, sudo, owner) in [
        ("0", None, 0),
        ("022", Some(user), user),
        ("0", Some(user), user),
    ] {
        let folder = private_folder();
        let run = folder.path().join("run");
        let mut command = hosts.between.command("sh");
        command
            .args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"])
            .arg(lineside().get_program())
            .args(["emulate", "--between", "m0,m1", "--wait", "sleep", "-o"])
            .arg(&run)
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID");
        if let Some(user) = sudo {
            let user = user.to_string();
            command.env("SUDO_UID", &user).env("SUDO_GID", &user);
        }
        let running = Running::spawn(&mut command, run.clone(), folder);
        running.wait_until("it listens", || {
            running.messages().contains("listening at m1")
        });
        let facts = std::fs::symlink_metadata(run.join("control")).expect("there");
        assert_eq!(
            (facts.uid(), facts.mode() & 0o7777),
            (owner, 0o600),
            "umask {umask}"
        );
        // Whoever it is by now, the run removes what it made.
        let ended = running.interrupt();
        assert_eq!(ended.status.code(), Some(held_status(&ended.out)));
        assert!(!run.join("control").exists());
    }
}

#[test]
fn marks_are_in_the_certificate_and_among_the_events() {
    need_wire!("ping");
    let hosts = Hosts::new();
    let words = ["--between", "m0,m1", "--wait", "sleep", "--monitor", "size"];
    let running = emulate(&hosts.between, &words, "m1");
    let marked = done(&running.out, &["mark", "the backup begins"]);
    assert_eq!(marked["text"], "the backup begins");
    for (words, expected) in [
        (&["mark"][..], "the text is missing: write mark 'TEXT'"),
        (&["mark", "  "], "the text of the mark is empty"),
        (&["mrak", "a"], "the nearest known one is"),
        (
            &["mark", "a", "--loss", "1%"],
            "leave out the flags of the link",
        ),
        (
            &["mark", &"x".repeat(1_001)],
            "has 1001 bytes, and may have 1000",
        ),
    ] {
        let output = ctl(&running.out, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(talk(&output).contains(expected), "{}", talk(&output));
    }
    let output = ctl(&running.out, &["mark", "it", "ends"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(": it ends\n"), "{text}");
    let ended = running.interrupt();
    let certificate = manifest(&ended.out).certificate.expect("it is there");
    let marks = certificate["marks"].as_array().expect("a list");
    assert_eq!(marks.len(), 2);
    assert_eq!(marks[0], marked);
    assert!(marks[1]["after_ns"].as_i64() > marks[0]["after_ns"].as_i64());
    let events = records(&ended.out, Table::MonitorEvents);
    let events: Vec<_> = { events.iter() }
        .filter(|row| row.text("event") == Some("mark"))
        .map(|row| {
            (
                Value::from(row.integer("time_ns")),
                Value::from(row.text("text")),
            )
        })
        .collect();
    let of_mark = |mark: &Value| (mark["at_ns"].clone(), mark["text"].clone());
    assert_eq!(events, marks.iter().map(of_mark).collect::<Vec<_>>());
}

#[test]
fn a_killed_run_is_no_run() {
    need_wire!();
    let hosts = Hosts::new();
    let words = ["--between", "m0,m1", "--wait", "sleep"];
    let running = emulate(&hosts.between, &words, "m1");
    running.signal("KILL");
    let ended = running.end();
    let output = ctl(&ended.out, &[]);
    assert_eq!(output.status.code(), Some(1));
    let messages = talk(&output);
    assert!(
        messages.contains("was killed before it could finish"),
        "{messages}"
    );
    for nothing in [ended.folder.path(), &ended.out.join("nowhere")] {
        let output = ctl(nothing, &[]);
        assert!(
            talk(&output).contains("there is no such run"),
            "{}",
            talk(&output)
        );
    }
}

#[test]
fn a_client_changes_its_own_link_by_files_too() {
    let ordinary = Ordinary::new();
    let plain = |name: &str, text: &str| {
        std::fs::write(ordinary.path().join(name), text).expect("written");
    };
    plain("old.txt", "1ms\n3ms\n");
    // The link keeps the files that it has read.
    let client = "rm old.txt; printf '4ms\\n6ms\\n' > new.txt
        ./lineside ctl run --rate 'in: 50mbit' -q || exit 3
        ./lineside ctl run --delay 'in: 0 distribution new.txt' --rate none --loss 'in: every 9' || exit 4
        ./lineside ctl run | grep -v none";
    let output = ordinary.run(&[
        "--delay",
        "0 distribution old.txt",
        "--rate",
        "100mbit",
        "-o",
        "run",
        "--server",
        "sleep 60",
        "--server-wait",
        "0",
        "--",
        "sh",
        "-c",
        client,
    ]);
    if is_forbidden(&output) {
        return;
    }
    assert!(came_to_its_end(&output), "{}", talk(&output));
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_printed = |line: &[&str]| {
        messages
            .lines()
            .any(|printed| printed.split_whitespace().eq(line.iter().copied()))
    };
    assert!(
        messages.contains("distribution new.txt") && messages.contains("before: 50mbit"),
        "{messages}"
    );
    assert!(is_printed(&["inbound", "loss", "every", "9"]), "{messages}");
    let run = manifest(&ordinary.path().join("run"));
    let certificate = run.certificate.expect("it is there");
    let changes = certificate["changes"].as_array().expect("a list");
    let directions: Vec<_> = changes.iter().map(|change| &change["direction"]).collect();
    assert_eq!(directions, ["inbound", "outbound", "inbound"]);
    let settings = &certificate["directions"]["outbound"]["settings"];
    assert_eq!(settings["rate"], Value::Null);
    assert!(
        settings["delay"]
            .as_str()
            .expect("words")
            .contains("old.txt")
    );
    let after = changes[0]["after_ns"].as_i64().expect("a number");
    assert!(after > 0 && after < 60_000_000_000, "{changes:?}");
}
