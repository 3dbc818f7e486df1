//! `--link 'down carrier'`: both ends of an emulated link see the cable pulled out, and put back.

use std::path::Path;

use crate::support::{held_status, lineside, manifest, talk, wait_until, wait_until_still};
use crate::wall::between::{Hosts, emulate, round_trips};
use crate::wall::commands::{Ordinary, is_forbidden};
use crate::wall::wire::{Namespace, need_wire};

/// Whether an interface has a carrier.
fn has_carrier(host: &Namespace, name: &str) -> bool {
    let file = format!("/sys/class/net/{name}/carrier");
    let output = host.command("cat").arg(file).output();
    match String::from_utf8_lossy(&output.expect("it runs").stdout).trim() {
        "0" => false,
        "1" => true,
        other => panic!("{name}: '{other}'"),
    }
}

/// Both ends, the client's first.
fn carriers(hosts: &Hosts) -> [bool; 2] {
    [
        has_carrier(&hosts.client, "c0"),
        has_carrier(&hosts.server, "s0"),
    ]
}

fn ctl(run: &Path, link: &str) -> Result<(), String> {
    let mut command = lineside();
    let output = command.arg("ctl").arg(run).args(["--link", link]).output();
    let output = output.expect("it runs");
    match output.status.code() {
        Some(0) => Ok(()),
        _ => Err(talk(&output)),
    }
}

#[test]
fn hosts_see_the_carrier_go_and_come_back() {
    need_wire!();
    for method in ["af_xdp", "af_packet"] {
        let hosts = Hosts::new();
        let words = ["--between", "m0,m1", "--wait", "sleep", "--method", method];
        let running = emulate(&hosts.between, &words, "m1");
        let run = running.out.clone();
        assert_eq!(carriers(&hosts), [true, true]);
        for (link, expected) in [
            ("down carrier", [false, false]),
            ("up", [true, true]),
            // What is sent to the server finds the cable pulled out there.
            ("out: down carrier", [true, false]),
            ("in: down carrier", [false, false]),
            ("up", [true, true]),
            ("down", [true, true]),
            ("up", [true, true]),
        ] {
            ctl(&run, link).expect("it is changed");
            wait_until(link, || carriers(&hosts) == expected);
        }
        wait_until("frames pass again", || !round_trips(&hosts).is_empty());
        // A flap from the beginning of the run on: down for most of the time, and up for a while.
        ctl(&run, "flap 700ms 700ms carrier").expect("it is changed");
        for expected in [false, true, false, true] {
            wait_until("it flaps", || carriers(&hosts) == [expected; 2]);
        }
        ctl(&run, "down carrier").expect("it is changed");
        wait_until("it is down", || carriers(&hosts) == [false, false]);
        let ended = running.interrupt();
        let held = held_status(&ended.out);
        assert_eq!(ended.status.code(), Some(held), "{}", ended.messages);
        assert_eq!(
            carriers(&hosts),
            [true, true],
            "{method}: the run has ended"
        );
        let certificate = manifest(&ended.out).certificate.expect("it is there");
        let words = certificate["directions"]["outbound"]["settings"]["link"].as_str();
        assert_eq!(words, Some("down carrier"), "{certificate:#}");
    }
}

#[test]
fn kill_9_gives_the_carrier_back() {
    need_wire!();
    let hosts = Hosts::new();
    let words = [
        "--between",
        "m0,m1",
        "--wait",
        "sleep",
        "--link",
        "down carrier",
    ];
    for _ in 0..3 {
        let running = emulate(&hosts.between, &words, "m1");
        wait_until("it is down", || carriers(&hosts) == [false, false]);
        running.signal("KILL");
        assert_eq!(running.end().status.code(), None);
        wait_until("it is back", || carriers(&hosts) == [true, true]);
        let programs = || {
            let links = hosts.between.command("ip").args(["-d", "link"]).output();
            String::from_utf8_lossy(&links.expect("ip runs").stdout).contains("prog/xdp")
        };
        wait_until("no program is left", || !programs());
    }
    // What the process may do that gives it back: CAP_NET_ADMIN (bit 12), and nothing else.
    let running = emulate(&hosts.between, &words, "m1");
    let children = format!("/proc/{0}/task/{0}/children", running.id());
    let children = std::fs::read_to_string(children).expect("a list");
    let privileges = |process: &str| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        let status = status.expect("it runs");
        let line = status.lines().find(|line| line.starts_with("CapPrm:"));
        line.expect("a line")["CapPrm:".len()..].trim().to_owned()
    };
    let held: Vec<_> = children.split_whitespace().map(privileges).collect();
    assert!(held.contains(&"0000000000001000".to_owned()), "{held:?}");
    assert_eq!(privileges(&running.id().to_string()), "0000000000000000");
    running.interrupt();
    assert_eq!(carriers(&hosts), [true, true]);
}

#[test]
fn commands_see_the_carrier_of_their_devices_go() {
    let user = Ordinary::new();
    // Until it saw it gone and there, several times each.
    let look = "gone=0 there=0; while [ $gone -lt 3 ] || [ $there -lt 3 ]; do \
        found=$(ip -o link show lineside); echo \"$found\"; \
        case $found in *NO-CARRIER*) gone=$((gone + 1));; *LOWER_UP*) there=$((there + 1));; esac; \
        sleep 0.05; done";
    let server = format!("({look}) 1>&2; exec sleep 60");
    let output = user.run_with_tap(&[
        "--link",
        "flap 400ms 400ms carrier",
        "--server-wait",
        "0",
        "--server",
        &server,
        "--",
        "sh",
        "-c",
        look,
    ]);
    if is_forbidden(&output) {
        return;
    }
    let (client, server) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    for (end, text) in [("client", client), ("server", server)] {
        let looks: Vec<_> = text
            .lines()
            .filter(|line| line.contains("lineside"))
            .collect();
        let gone = looks
            .iter()
            .filter(|line| line.contains("NO-CARRIER"))
            .count();
        let there = looks
            .iter()
            .filter(|line| line.contains("LOWER_UP"))
            .count();
        assert!(gone > 0 && there > 0, "{end}: {gone} {there}: {text}");
    }
}

#[test]
fn a_carrier_that_cannot_go_is_refused() {
    need_wire!();
    let hosts = Hosts::new();
    let words = ["--on", "c0", "--wait", "sleep"];
    hosts.client.ip("addr add 198.51.100.1/24 dev c0");
    let mut command = hosts.client.command(lineside().get_program());
    command
        .arg("emulate")
        .args(words)
        .args(["--link", "down carrier"]);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    let message = talk(&output);
    assert!(message.contains("the carrier of c0 cannot go"), "{message}");

    let running = emulate(&hosts.client, &words, "c0");
    let refused = ctl(&running.out, "down carrier").expect_err("it is refused");
    assert!(refused.contains("leave 'carrier' out"), "{refused}");
    ctl(&running.out, "down").expect("frames alone may go");
    let still = wait_until_still("the carrier does not follow", || carriers(&hosts));
    assert_eq!(still, [true, true]);
    running.interrupt();
}
