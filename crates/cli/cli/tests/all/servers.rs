//! Servers as an axis, and connections of one client to one server: tables, filters, findings and
//! comparisons, in made-up traffic.

use std::net::{IpAddr, Ipv4Addr};

use lineside_analyze::{Filter, Finding, Place, Report, report};
use lineside_rows::ConnectionRow;
use serde_json::Value;
use tempfile::TempDir;

use crate::compare::{changes, json, written};
use crate::findings::{during, found, measured, minute, near, number, only, times};
use crate::python::python;
use crate::report::{agrees_with_duckdb, printed, run};
use crate::standing::{ACK, CLIENT, MILLISECOND_NS, RST, SERVER, Way, ask_for_a_minute, captured};
use crate::support::lineside;
use crate::traffic::{BEGIN_NS, Operation, SECOND_NS, Traffic};

/// Each of three servers has a third of the operations.
fn of_three(each: &mut Operation) {
    each.server = 1 + (each.at_ns / 7 % 3) as u8;
}

/// The one client spreads its operations over four connections.
fn of_four(each: &mut Operation) {
    each.client = 1;
    each.connection = 1 + each.at_ns / 7 % 4;
}

/// Four connections of one client from ports 701 to 704, 10,000 packets each way.
fn four(row: ConnectionRow, change: impl Fn(i64, &mut ConnectionRow)) -> Vec<ConnectionRow> {
    let connection = |id: i64| {
        let mut row = measured(row.clone()).remove(0);
        row.connection_id = id;
        row.client_address = Some(IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1)));
        row.client_port = Some(700 + id as i32);
        row.client_packets = 10_000;
        row.server_packets = 10_000;
        change(id, &mut row);
        row
    };
    (1..=4).map(connection).collect()
}

/// Traffic of a minute over four connections.
fn bundle(seed: u64, intervals: fn(ConnectionRow) -> Vec<ConnectionRow>) -> Traffic {
    Traffic {
        intervals,
        ..minute(seed)
    }
}

/// The server sent so many segments again that the client did not have.
fn loses(row: &mut ConnectionRow, resent: i64) {
    row.server_retransmissions = resent;
    row.server_fast_retransmissions = resent / 2;
    row.server_timeout_retransmissions = resent / 4;
}

/// A trace of three servers, of which the first fails now and then.
fn three_servers() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    minute(1).write(&folder.path().join("trace"), |each| {
        of_three(each);
        if each.server == 3 {
            each.latency_ns *= 9.0;
        }
        // What LOOKUP is about is a directory, here too.
        each.name != "LOOKUP" && (each.server != 1 || each.at_ns % 4 != 0)
    });
    folder
}

fn reported(folder: &TempDir) -> Report {
    report(&folder.path().join("trace"), &Filter::default()).expect("a trace")
}

#[test]
fn the_table_of_servers_is_duckdbs() {
    let folder = three_servers();
    let report = reported(&folder);
    assert_eq!((report.totals.servers, report.servers.count), (3, 3));
    let waited = { report.servers.by_operations.iter() }.map(|busy| busy.waited_ns.unwrap_or(0));
    assert_eq!(waited.sum::<u64>(), report.totals.waited_ns);
    let first = &report.servers.concentration[0];
    assert!(first.operations_share < 0.4, "{first:?}");
    assert!(first.waited_share > Some(0.7), "{first:?}");
    if let Some(python) = python() {
        agrees_with_duckdb(&python, &folder);
    } else {
        println!("SKIP: no Python with duckdb (LINESIDE_PYTHON): ./test makes one");
    }
}

#[test]
fn servers_stand_on_the_screen_and_the_page() {
    let folder = three_servers();
    let mut command = lineside();
    command
        .args(["report", "trace"])
        .current_dir(folder.path())
        .env("COLUMNS", "160");
    let screen = printed(&command.output().expect("it runs"));
    assert!(screen.contains("3 servers (10.0.0."), "{screen}");
    let full = printed(&run(&folder, &["report", "trace", "--full"]));
    for words in [
        "Busiest servers, of 3",
        "waited for",
        "Of all that clients waited",
    ] {
        assert!(full.contains(words), "no {words}: {full}");
    }
    let long: Vec<_> = full
        .lines()
        .filter(|line| line.chars().count() > 80)
        .collect();
    assert!(long.is_empty(), "{long:#?}");
    let page = printed(&run(&folder, &["report", "trace", "--html", "-"]));
    assert!(page.contains("Busiest servers, of 3") && page.contains("by waiting"));
    // Of one, the totals say what a table would.
    let one = printed(&run(
        &folder,
        &["report", "trace", "--full", "--server", "10.0.0.2"],
    ));
    assert!(!one.contains("Busiest servers"), "{one}");
}

#[test]
fn a_server_is_chosen_in_each_form() {
    let folder = three_servers();
    let count = |arguments: &[&str]| -> u64 {
        let text = printed(&run(&folder, arguments));
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let sum = |list: &Value| -> u64 {
            let list = list.as_array().expect("a list").iter();
            let all = list.map(|each| each["all"]["operations"].as_u64().expect("a number"));
            all.sum()
        };
        match value["intervals"].is_array() {
            true => sum(&value["intervals"]),
            false => value["totals"]["operations"].as_u64().expect("a number"),
        }
    };
    let report = reported(&folder);
    for busy in &report.servers.by_operations {
        let chosen = ["--json", "--server", &busy.name];
        for form in [
            &["report", "trace"][..],
            &["report", "trace", "--interval", "1"],
        ] {
            let arguments = [form, &chosen[..]].concat();
            assert_eq!(count(&arguments), busy.operations, "{arguments:?}");
        }
        let lines = ["slow", "trace", "0ms", "--server", &busy.name, "--json"];
        let lines = printed(&run(&folder, &lines));
        assert_eq!(
            lines.lines().count() as u64,
            busy.operations,
            "{}",
            busy.name
        );
        let same = [
            "compare", "trace", "trace", "--server", &busy.name, "--json",
        ];
        let text = printed(&run(&folder, &same));
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["b"]["operations"], busy.operations);
    }
}

#[test]
fn noise_of_several_servers_and_connections_has_no_findings() {
    let seeds: u64 =
        { std::env::var("LINESIDE_SEEDS").ok() }.map_or(40, |many| many.parse().expect("a number"));
    for seed in 1..=seeds {
        let servers = found(&minute(seed), |each| {
            of_three(each);
            true
        });
        assert_eq!(servers, [], "seed {seed}");
        let even = bundle(seed, |row| four(row, |_, row| loses(row, 4)));
        let connections = found(&even, |each| {
            of_four(each);
            true
        });
        assert_eq!(connections, [], "seed {seed}");
    }
}

#[test]
fn a_server_is_slow_from_a_time_to_a_time() {
    let slow = |intervals| {
        let traffic = bundle(11, intervals);
        let all = found(&traffic, |each| {
            of_three(each);
            if each.server == 2 && during(each, 20..40) {
                each.latency_ns = each.latency_ns * 30.0 + 20e6;
            }
            true
        });
        only(all, "slow_one_of_servers", "10.0.0.2")
    };
    let finding = slow(|row| vec![row]);
    let [since, until] = times(&finding);
    assert!(near(since, 20.0) && near(until, 40.0), "{finding:#?}");
    assert!(number(&finding, "factor") > 20.0, "{finding:#?}");
    // Without a round trip, the way to it may be what takes long.
    assert_eq!(finding.place, Some(Place::CannotTell));
    let of_second = |mut row: ConnectionRow| {
        row.server_address = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
        measured(row)
    };
    assert_eq!(slow(of_second).place, Some(Place::Server));
}

#[test]
fn one_of_two_servers_is_slow_all_the_time() {
    let all = found(&minute(12), |each| {
        each.server = 1 + (each.at_ns / 7 % 2) as u8;
        if each.server == 2 {
            each.latency_ns += 40e6;
        }
        true
    });
    let finding = only(all, "slow_one_of_servers", "10.0.0.2");
    assert_eq!(times(&finding), [None, None], "{finding:#?}");
}

/// The finding about a slow connection of four.
fn slow_connection(all: Vec<Finding>) -> Finding {
    let finding = only(all, "slow_one_of_connections", "10.1.0.1:703");
    let start = "one of 4 connections to 10.0.0.1 ";
    assert!(finding.what.starts_with(start), "{finding:#?}");
    assert_eq!(finding.basis["connection_id"], "3");
    finding
}

#[test]
fn one_connection_of_four_is_slow() {
    let even = |row| four(row, |_, _| ());
    let slow = |seed, intervals, seconds: std::ops::Range<i64>| {
        slow_connection(found(&bundle(seed, intervals), |each| {
            of_four(each);
            if each.connection == 3 && during(each, seconds.clone()) {
                each.latency_ns += 40e6;
            }
            true
        }))
    };
    let all_the_time = slow(13, even, 0..60);
    assert_eq!(times(&all_the_time), [None, None], "{all_the_time:#?}");
    let [since, until] = times(&slow(14, even, 20..40));
    assert!(
        near(since, 20.0) && near(until, 40.0),
        "{since:?} {until:?}"
    );
    // Its round trips are longer: it is the way.
    let farther = slow(
        15,
        |row| {
            four(row, |id, row| {
                if id == 3 {
                    row.client_rtt_min_ns = Some(30_000_000);
                }
            })
        },
        0..60,
    );
    assert_eq!(farther.place, Some(Place::Network), "{farther:#?}");
    assert!(farther.evidence.contains("round trip"), "{farther:#?}");
}

#[test]
fn one_connection_of_four_loses_packets() {
    let lossy = bundle(16, |row| {
        four(row, |id, row| loses(row, if id == 3 { 200 } else { 2 }))
    });
    let spread = |each: &mut Operation| {
        of_four(each);
        true
    };
    let finding = slow_connection(found(&lossy, spread));
    assert_eq!(finding.place, Some(Place::Network), "{finding:#?}");
    assert!(
        finding.what.contains("200 of its 20,000 packets") && finding.what.contains("6 of 60,000"),
        "{finding:#?}"
    );
    // All lose as much: nobody stands out.
    let all = bundle(16, |row| four(row, |_, row| loses(row, 200)));
    assert_eq!(
        only(found(&all, spread), "loss", "").place,
        Some(Place::Network)
    );
}

#[test]
fn a_loss_of_one_connection_has_its_begin() {
    let late = bundle(17, |row| {
        four(row, |_, _| ())
            .into_iter()
            .flat_map(|row| {
                (0..6).map(move |number| {
                    let mut row = row.clone();
                    row.interval_start_ns = Some(BEGIN_NS + number * 10 * SECOND_NS);
                    row.interval_ns = Some(10 * SECOND_NS);
                    if row.connection_id == 3 && number >= 4 {
                        loses(&mut row, 200);
                    }
                    row
                })
            })
            .collect()
    });
    let finding = slow_connection(found(&late, |each| {
        of_four(each);
        true
    }));
    assert_eq!(times(&finding), [Some(40.0), None], "{finding:#?}");
}

#[test]
fn connections_that_ask_for_other_things_do_not_stand_out() {
    let even = |row| four(row, |_, _| ());
    // A program with slow files of its own, and connections one after another.
    let own_files = found(&bundle(18, even), |each| {
        of_four(each);
        if each.connection == 3 {
            each.file += 10_000;
            each.latency_ns += 10e6;
        }
        true
    });
    let kinds: Vec<_> = own_files.iter().map(|each| each.kind).collect();
    assert!(
        !kinds.contains(&"slow_one_of_connections"),
        "{own_files:#?}"
    );
    let in_turn = found(&bundle(19, even), |each| {
        each.client = 1;
        each.connection = 1 + each.at_ns / (15 * SECOND_NS);
        if each.connection == 3 {
            each.latency_ns += 40e6;
        }
        true
    });
    let kinds: Vec<_> = in_turn.iter().map(|each| each.kind).collect();
    assert!(!kinds.contains(&"slow_one_of_connections"), "{in_turn:#?}");
}

#[test]
fn traces_are_compared_by_server() {
    let folder = tempfile::tempdir().expect("a folder");
    // Each trace has the servers of its connections.
    let intervals = |row: ConnectionRow| {
        let of = |server: u8| ConnectionRow {
            connection_id: server.into(),
            server_address: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, server))),
            ..row.clone()
        };
        (1..=3).map(of).collect()
    };
    let traffic = |seed| Traffic {
        seed,
        intervals,
        ..Traffic::default()
    };
    written("a", &folder, &traffic(1), |each| {
        of_three(each);
        if each.server == 3 && each.at_ns % 2 == 0 {
            each.server = 4;
        }
        true
    });
    written("b", &folder, &traffic(2), |each| {
        of_three(each);
        if each.server == 2 && each.name == "READ" {
            each.latency_ns *= 6.0;
        }
        true
    });
    let all = json(&folder, &["a", "b"]);
    let found = changes(&all);
    let has = |start: &str| found.iter().any(|change| change.starts_with(start));
    assert!(
        has("worse: server 10.0.0.2, nfs v3 READ: p50"),
        "{found:#?}"
    );
    assert!(has("different: server 10.0.0.4: gone"), "{found:#?}");
    assert!(!has("worse: server 10.0.0.1"), "{found:#?}");
    assert_eq!(
        all["only_in_a"]["servers"][0]["subject"]["server"],
        "10.0.0.4"
    );
    // The same traffic with the same servers is no news.
    written("c", &folder, &traffic(3), |each| {
        of_three(each);
        true
    });
    written("d", &folder, &traffic(4), |each| {
        of_three(each);
        true
    });
    assert_eq!(changes(&json(&folder, &["c", "d"])), [""; 0]);
}

#[test]
fn segments_resent_on_one_of_four_connections_name_it() {
    let ways: Vec<Way> = (1..=4)
        .map(|port| {
            let mut way = Way::new("2001:db8::10", "2001:db8::20", [700 + port, 2049]);
            way.open();
            for number in 0..300 {
                let xid = way.call();
                let begin = way.next[SERVER];
                way.reply(xid);
                if port == 3 && number % 10 == 0 {
                    // The client has it when it comes again.
                    let len = way.next[SERVER].wrapping_sub(begin) as usize;
                    way.later(210 * MILLISECOND_NS);
                    way.segment(SERVER, begin, ACK, &[], &vec![7; len]);
                }
                way.acknowledge(CLIENT);
                way.later(if port == 3 { 1 } else { 20 } * MILLISECOND_NS);
            }
            way
        })
        .collect();
    let folder = captured(&ways.iter().collect::<Vec<_>>());
    let findings = reported(&folder).findings;
    let named = { findings.iter() }.find(|finding| finding.kind == "slow_one_of_connections");
    let named = named.unwrap_or_else(|| panic!("not found: {findings:#?}"));
    assert_eq!(named.who, "[2001:db8::10]:703", "{named:#?}");
    assert_eq!(named.place, Some(Place::Network));
    assert_eq!(named.basis["needed"], 30, "{named:#?}");
    assert!(!{ findings.iter() }.any(|finding| finding.kind == "loss"));
}

#[test]
fn findings_are_those_of_the_chosen_server() {
    let mut gone = Way::new("192.0.2.10", "198.51.100.20", [700, 2049]);
    gone.open().operations(20);
    gone.send(SERVER, RST | ACK, &[]);
    gone.next[CLIENT] += 1_000_000;
    ask_for_a_minute(&mut gone);
    let mut well = Way::new("192.0.2.10", "198.51.100.21", [701, 2049]);
    well.open().operations(20);
    let folder = captured(&[&gone, &well]);
    let unreachable = |server: &str| {
        let filter = Filter {
            server: Some(server.to_owned()),
            ..Filter::default()
        };
        let report = report(&folder.path().join("trace"), &filter).expect("a trace");
        let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
        kinds.contains(&"unreachable")
    };
    assert!(unreachable("198.51.100.20"));
    assert!(!unreachable("198.51.100.21"));
}
