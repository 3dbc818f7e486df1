//! `lineside probe` between two network namespaces, and what answers it that is no server.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Output;

use lineside_measure::Spread;
use serde_json::Value;

use crate::support::{came_to_its_end, lineside, talk};
use crate::wall::commands::{Ordinary, is_forbidden};
use crate::wall::undisturbed::undisturbed;

/// A probe from one end of an emulated link to a server at the other; `None` where there can be no
/// link.
fn probed(ordinary: &Ordinary, link: &[&str], words: &[&str], folder: &str) -> Option<Value> {
    let mut all = link.to_vec();
    all.extend([
        "--server-wait",
        "1s",
        "--server",
        "exec ./lineside probe --serve",
    ]);
    all.extend([
        "--",
        "./lineside",
        "probe",
        "--udp",
        "10.0.0.1",
        "--force",
        "-o",
        folder,
    ]);
    all.extend(words);
    let output = ordinary.run(&all);
    if is_forbidden(&output) {
        return None;
    }
    // A few frames that a busy machine holds up are in what the probe finds.
    assert!(came_to_its_end(&output), "{}", talk(&output));
    let report = ordinary.path().join(folder).join("report.json");
    let report = std::fs::read_to_string(report).expect("a report");
    Some(serde_json::from_str(&report).expect("JSON"))
}

fn number(report: &Value, way: &str, name: &str) -> f64 {
    let value = report[way].pointer(name).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("{way}{name}: {report:#}"))
}

#[test]
fn a_probe_gives_back_what_was_asked_of_a_link() {
    let ordinary = Ordinary::new();
    undisturbed("a probe through a link", || {
        let link = [
            "--delay",
            "10ms",
            "--loss",
            "1%",
            "--rate",
            "50mbit burst 64kb",
        ];
        let words = ["-c", "400", "-i", "5ms"];
        let Some(report) = probed(&ordinary, &link, &words, "found") else {
            return Ok(());
        };
        for way in ["out", "in"] {
            let of = |name| number(&report, way, name);
            let within = |name, asked: f64, error: f64| match of(name) {
                found if (found - asked).abs() <= error => Ok(()),
                found => Err(format!("{way}{name}: {found}, not {asked}")),
            };
            // In virtual time it is 20 us (`delay_loss_rate_and_bucket_are_found_as_asked`); what a
            // slow machine takes to wake a process comes on top here, each time.
            within("/delay/p50_ns", 1e7, 100e3)?;
            within("/rate/bits_per_second", 5e7, 1e6)?;
            within("/rate/bucket_bytes", 65_536.0, 1514.0)?;
            if of("/lost/low") > 0.01 || of("/lost/high") < 0.01 {
                return Err(format!("{way}: {}", report[way]["lost"]));
            }
            assert_eq!(of("/mtu_bytes"), 1500.0);
        }
        let spent = ["sent_bytes", "received_bytes"].map(|name| report[name].as_u64());
        assert!(
            spent.iter().flatten().sum::<u64>() <= 10_000_000,
            "{report:#}"
        );
        Ok(())
    });
}

/// The delays that a probe left.
fn delays(folder: &Path, way: &str) -> Spread {
    let text = std::fs::read_to_string(folder.join(format!("{way}.times"))).expect("a table");
    let times = text.lines().map(|line| (line.parse().expect("a time"), 1));
    Spread::of(times.collect())
}

#[test]
fn the_path_file_of_a_probe_gives_its_delays_again() {
    let ordinary = Ordinary::new();
    undisturbed("a probe of a path file", || {
        let words = ["-c", "1000", "-i", "4ms", "--budget", "2MB"];
        let jitter = ["--delay", "12ms 2ms distribution normal", "--seed", "5"];
        if probed(&ordinary, &jitter, &words, "first").is_none() {
            return Ok(());
        }
        let path = [
            "--path",
            "out: first/out.path",
            "--path",
            "in: first/in.path",
        ];
        probed(&ordinary, &path, &words, "second").expect("as before");
        for way in ["out", "in"] {
            let [first, second] =
                ["first", "second"].map(|name| delays(&ordinary.path().join(name), way));
            let distance = second.distance(&first).expect("delays");
            println!("{way}: distance {:.4}", distance.ks);
            if distance.ks >= 0.05 {
                return Err(format!("{way}: {distance:?}"));
            }
        }
        Ok(())
    });
}

fn probe(words: &[&str]) -> Output {
    let mut command = lineside();
    command.arg("probe").args(words).output().expect("it runs")
}

/// Answers the next datagrams at a port of this host, as `answer` says, until it has none.
fn answering(answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((len, from)) = socket.recv_from(&mut buffer)
            && let Some(answer) = answer(&buffer[..len])
        {
            let _ = socket.send_to(&answer, from);
        }
    });
    port.to_string()
}

#[test]
fn what_answers_a_probe_and_is_no_server_is_named() {
    let closed = {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.local_addr().expect("bound").port().to_string()
    };
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let silent = silent
        .local_addr()
        .map(|at| (silent, at.port().to_string()));
    let silent = silent.expect("bound");
    for (port, expected) in [
        (answering(|bytes| Some(bytes.to_vec())), "an echo service"),
        (answering(|_| Some(b"what?".to_vec())), "is another program"),
        (
            answering(|bytes| {
                let mut bytes = bytes.to_vec();
                bytes[4] = 9;
                Some(bytes)
            }),
            "speaks version 9",
        ),
        (
            closed.clone(),
            "the port is closed there: start 'lineside probe --serve'",
        ),
        (silent.1, "nothing answers there"),
    ] {
        let output = probe(&["127.0.0.1", "--udp", "--port", &port]);
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
        assert!(talk(&output).contains(expected), "{}", talk(&output));
    }
    let output = probe(&["no-such-host.invalid"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(
        talk(&output).contains("probe takes a name or an address"),
        "{}",
        talk(&output)
    );
    // Without a server there are round trips, and the report says why there is no more.
    let output = probe(&["127.0.0.1", "--port", &closed, "-c", "3", "-i", "1ms"]);
    if talk(&output).contains("no right to send ICMP") {
        println!("SKIP: no permission to ping");
        return;
    }
    assert!(output.status.success(), "{}", talk(&output));
    assert!(
        talk(&output).contains("round trips by ICMP follow"),
        "{}",
        talk(&output)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("lost 0 of 3") && text.contains("not known"),
        "{text}"
    );
}

#[test]
fn a_folder_with_files_of_a_probe_is_not_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port().to_string();
    let out = folder.path().join("path");
    let out = out.to_str().expect("UTF-8");
    let words = [
        "127.0.0.1",
        "--tcp",
        &port,
        "-c",
        "4",
        "-i",
        "1ms",
        "-o",
        out,
    ];
    let output = probe(&words);
    assert!(output.status.success(), "{}", talk(&output));
    let path = std::fs::read_to_string(folder.path().join("path/both.path")).expect("there");
    assert_eq!(path.lines().count(), 6, "{path}");
    let output = probe(&words);
    assert_eq!(output.status.code(), Some(1));
    assert!(talk(&output).contains("--force"), "{}", talk(&output));
}
