//! What the report finds in made-up traffic: who is slow, since when and until when; that noise has
//! no findings, and that what comes near one is none.

use std::cell::Cell;

use lineside_analyze::{Filter, Finding, Place, report};
use lineside_rows::ConnectionRow;
use tempfile::TempDir;

use crate::traffic::{BEGIN_NS, Operation, SECOND_NS, Traffic};
use crate::wall::troubles::TROUBLES;

/// The findings about troubles in such traffic, worst first.
pub(crate) fn found(traffic: &Traffic, change: impl Fn(&mut Operation) -> bool) -> Vec<Finding> {
    let folder: TempDir = tempfile::tempdir().expect("a folder");
    traffic.write(folder.path(), change);
    let report = report(folder.path(), &Filter::default()).expect("a trace");
    let mut findings = report.findings;
    findings.retain(|finding| TROUBLES.contains(&finding.kind));
    findings
}

/// Traffic of a minute.
pub(crate) fn minute(seed: u64) -> Traffic {
    Traffic {
        seed,
        seconds: 60,
        ..Traffic::default()
    }
}

pub(crate) fn during(each: &Operation, seconds: std::ops::Range<i64>) -> bool {
    (seconds.start * SECOND_NS..seconds.end * SECOND_NS).contains(&each.at_ns)
}

/// The one finding, which must be of this kind and about this one.
pub(crate) fn only(found: Vec<Finding>, kind: &str, who: &str) -> Finding {
    let [finding] = &found[..] else {
        panic!("not one finding: {found:#?}");
    };
    assert_eq!(
        (finding.kind, finding.who.as_str()),
        (kind, who),
        "{finding:#?}"
    );
    finding.clone()
}

/// Begin and end in seconds of the trace.
pub(crate) fn times(finding: &Finding) -> [Option<f64>; 2] {
    let second = |ns: i64| (ns - BEGIN_NS) as f64 / SECOND_NS as f64;
    [finding.since_ns.map(second), finding.until_ns.map(second)]
}

pub(crate) fn near(time: Option<f64>, second: f64) -> bool {
    time.is_some_and(|time| (time - second).abs() <= 1.0)
}

pub(crate) fn number(finding: &Finding, name: &str) -> f64 {
    let value = &finding.basis[name];
    value.as_f64().unwrap_or_else(|| panic!("{name}: {value}"))
}

#[test]
fn noise_has_no_findings() {
    let seeds: u64 = { std::env::var("LINESIDE_SEEDS").ok() }
        .map_or(120, |many| many.parse().expect("a number"));
    for seed in 1..=seeds {
        let found = found(&minute(seed), |_| true);
        assert!(found.is_empty(), "seed {seed}: {found:#?}");
    }
}

#[test]
fn a_client_is_slow_from_a_time_to_a_time() {
    let finding = only(
        found(&minute(1), |each| {
            if each.client == 3 && during(each, 20..40) {
                each.latency_ns *= 40.0;
            }
            true
        }),
        "slow_client",
        "10.1.0.3",
    );
    let [since, until] = times(&finding);
    assert!(near(since, 20.0) && near(until, 40.0), "{finding:#?}");
    assert!(
        (20.0..80.0).contains(&number(&finding, "factor")),
        "{finding:#?}"
    );
    assert_eq!(finding.basis["was_quick"], true);
}

#[test]
fn a_client_that_sends_all_at_once_is_no_slow_client() {
    // Its calls of a second come together, and the server serves one after another; or they
    // come as they do, and take as long.
    let sends = |at_once: bool| {
        let turn = Cell::new((0, 0.0));
        found(&minute(1), |each| {
            if each.client == 3 {
                let second = each.at_ns / SECOND_NS;
                let (last, ahead) = turn.get();
                let ahead = if last == second { ahead + 1.0 } else { 0.0 };
                turn.set((second, ahead));
                if at_once {
                    each.at_ns = second * SECOND_NS + ahead as i64 * 1_000;
                }
                each.latency_ns = 5e5 * (ahead + 1.0);
            }
            true
        })
    };
    assert_eq!(sends(true), []);
    only(sends(false), "slow_client", "10.1.0.3");
}

#[test]
fn a_client_that_is_slow_throughout_has_no_begin() {
    let slow = |factor: f64| {
        found(&minute(2), |each| {
            if each.client == 2 {
                each.latency_ns *= factor;
            }
            true
        })
    };
    let finding = only(slow(30.0), "slow_client", "10.1.0.2");
    assert_eq!(times(&finding), [None, None], "{finding:#?}");
    // Near: three times as slow, or by less than 2 ms.
    assert_eq!(slow(3.0), []);
    assert_eq!(slow(4.5), []);
}

#[test]
fn a_file_is_slow_from_a_time_on() {
    let finding = only(
        found(&minute(3), |each| {
            if each.file == 4 && each.at_ns > 30 * SECOND_NS {
                each.latency_ns += 25e6;
            }
            true
        }),
        "slow_file",
        "…/directory-0/file-4",
    );
    let [since, until] = times(&finding);
    assert!(near(since, 30.0) && until.is_none(), "{finding:#?}");
    let typical = number(&finding, "time_typical_ns");
    assert!((24e6..29e6).contains(&typical), "{finding:#?}");
    assert!(number(&finding, "time_usual_ns") < 1e6, "{finding:#?}");
}

#[test]
fn slow_files_of_one_directory_are_one_finding() {
    let finding = only(
        found(&minute(4), |each| {
            if (5..8).contains(&each.file) && during(each, 10..50) {
                each.latency_ns += 30e6;
            }
            true
        }),
        "slow_file",
        "…/directory-1",
    );
    let [since, until] = times(&finding);
    assert!(near(since, 10.0) && near(until, 50.0), "{finding:#?}");
    assert_eq!(finding.basis["files_slow"], 3, "{finding:#?}");
}

#[test]
fn a_client_of_one_slow_file_is_not_the_slow_one() {
    // Only client 9 asks for file 6, and for little else.
    let alone = |each: &mut Operation| {
        if each.client == 9 && each.at_ns % 10 != 0 {
            each.file = 6;
        } else if each.file == 6 {
            return false;
        }
        true
    };
    let all = found(&minute(5), |each| {
        let stays = alone(each);
        if each.file == 6 {
            each.latency_ns += 40e6;
        }
        stays
    });
    only(all, "slow_file", "…/directory-1/file-6");
    // The client is slow with whatever it asks for: not the file.
    let all = found(&minute(5), |each| {
        if each.client == 9 {
            each.latency_ns += 40e6;
        }
        each.file != 6 || each.client == 9
    });
    only(all, "slow_client", "10.1.0.9");
    // So it is if most of what it asks for is that file.
    let all = found(&minute(5), |each| {
        let stays = each.file != 6 || each.client == 9 || each.at_ns % 4 == 0;
        if each.client == 9 && each.at_ns % 5 != 0 {
            each.file = 6;
        }
        if each.client == 9 {
            each.latency_ns += 40e6;
        }
        stays
    });
    only(all, "slow_client", "10.1.0.9");
}

#[test]
fn a_slow_time_with_one_file_alone_names_it() {
    // Nothing else is asked for at that time, so there is nothing to compare it with.
    let all = found(&minute(10), |each| {
        if during(each, 20..30) {
            each.file = if each.at_ns % 20 == 0 { each.file } else { 7 };
            each.latency_ns += 20e6;
        }
        true
    });
    let finding = only(all, "latency_jump", "…/directory-1/file-7");
    let [since, until] = times(&finding);
    assert!(near(since, 20.0) && near(until, 30.0), "{finding:#?}");
}

#[test]
fn where_all_are_slow_nobody_stands_out() {
    let all = found(&minute(6), |each| {
        if during(each, 20..30) {
            each.latency_ns = each.latency_ns * 30.0 + 5e6;
        }
        true
    });
    let kinds: Vec<&str> = all.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, ["latency_jump"], "{all:#?}");
}

#[test]
fn a_tail_has_begin_and_end() {
    // One in a hundred, or fewer or shorter than a tail has.
    let tail = |one_in: i64, latency_ns: f64| {
        let traffic = Traffic {
            intervals: measured,
            ..minute(7)
        };
        found(&traffic, |each| {
            if during(each, 15..45) && each.at_ns / 1_000 % one_in == 0 {
                each.latency_ns = latency_ns;
            }
            true
        })
    };
    let finding = only(tail(100, 230e6), "tail", "");
    let [since, until] = times(&finding);
    assert!(near(since, 15.0) && near(until, 45.0), "{finding:#?}");
    assert_eq!(finding.place, Some(Place::Server));
    assert_eq!(tail(100, 90e6), []);
    assert_eq!(tail(2_000, 230e6), []);
}

#[test]
fn a_queue_has_begin_and_end() {
    // 300 operations a second wait this long in the middle.
    let queue = |wait_ns: f64| {
        let traffic = Traffic {
            intervals: measured,
            ..minute(8)
        };
        found(&traffic, |each| {
            if during(each, 20..35) {
                each.latency_ns += wait_ns;
            }
            true
        })
    };
    let finding = only(queue(120e6), "queue", "");
    let [since, until] = times(&finding);
    assert!(near(since, 20.0) && near(until, 35.0), "{finding:#?}");
    assert!(
        (25.0..60.0).contains(&number(&finding, "waiting_mean")),
        "{finding:#?}"
    );
    assert_eq!(finding.place, Some(Place::Server));
    // Eight at once are no queue.
    only(queue(25e6), "latency_jump", "");
    assert_eq!(queue(1e6), []);
}

/// A connection whose way to the server takes 0.1 ms.
pub(crate) fn measured(mut row: ConnectionRow) -> Vec<ConnectionRow> {
    row.client_rtt_min_ns = Some(100_000);
    row.server_rtt_min_ns = Some(100_000);
    vec![row]
}

/// Replies that trickle: 6 MB in each of three intervals, of which the first is not so full, and as
/// many bytes in the busiest millisecond.
fn trickling(row: ConnectionRow, peak_1ms: i64) -> Vec<ConnectionRow> {
    let mut rows = measured(row);
    let row = &mut rows[0];
    row.server_packets = 6_000;
    row.server_bytes = 6_000_000;
    row.server_segment_max_bytes = 1_448;
    row.interval_ns = Some(20 * SECOND_NS);
    let full = |second: i64, peak_1s: i64| {
        let mut row = rows[0].clone();
        row.interval_start_ns = Some(BEGIN_NS + second * SECOND_NS);
        row.server_peak_1s_bytes = peak_1s;
        row.server_peak_1ms_bytes = peak_1ms;
        row
    };
    vec![full(0, 50_000), full(20, 300_000), full(40, 300_000)]
}

#[test]
fn replies_that_trickle_show_a_full_link() {
    let link = |intervals, transfer_ns: f64| {
        let traffic = Traffic {
            intervals,
            per_second: 60.0,
            ..minute(9)
        };
        found(&traffic, |each| {
            each.transfer_ns = transfer_ns;
            each.latency_ns += transfer_ns;
            true
        })
    };
    let finding = only(link(|row| trickling(row, 3_200), 9e6), "full_link", "");
    assert_eq!(times(&finding), [Some(20.0), None], "{finding:#?}");
    assert_eq!(finding.place, Some(Place::Network));
    // Quick transfers, and bursts that a slow link would not let pass.
    assert_eq!(link(|row| trickling(row, 3_200), 4e6), []);
    assert_eq!(link(|row| trickling(row, 60_000), 9e6), []);
}

/// A server that sent 10,000 packets; of them again: all, fast ones, needless ones; and late ones.
pub(crate) fn resent(
    mut row: ConnectionRow,
    [all, fast, needless, late]: [i64; 4],
) -> Vec<ConnectionRow> {
    row.server_packets = 10_000;
    row.server_retransmissions = all;
    row.server_fast_retransmissions = fast;
    row.server_spurious_retransmissions = needless;
    row.server_out_of_order_packets = late;
    vec![row]
}

#[test]
fn what_was_overtaken_is_not_lost() {
    let network = |intervals| {
        let traffic = Traffic {
            intervals,
            ..minute(10)
        };
        found(&traffic, |_| true)
    };
    let lost = only(network(|row| resent(row, [120, 90, 20, 20])), "loss", "");
    assert_eq!(lost.place, Some(Place::Network));
    for late in [
        network(|row| resent(row, [120, 90, 20, 30])),
        network(|row| resent(row, [120, 90, 40, 0])),
    ] {
        let finding = only(late, "reordering", "");
        assert!(
            finding.what.contains(" 120 were sent again"),
            "{finding:#?}"
        );
    }
    // A timer asked for most.
    let by_timer = network(|row| {
        let mut rows = resent(row, [120, 10, 40, 30]);
        rows[0].server_timeout_retransmissions = 60;
        rows
    });
    only(by_timer, "loss", "");
    // The other end had nearly all.
    assert_eq!(network(|row| resent(row, [120, 90, 111, 0])), []);
}
