//! Stacks over links that lose, reorder and duplicate: every byte arrives once and in order,
//! and passive reassembly of the same frames finds none lost.

use lineside_sim::{Scenario, run};

/// A thousand by default; `LINESIDE_SEEDS=FROM..TO` runs others.
fn seeds() -> std::ops::Range<u64> {
    let text = std::env::var("LINESIDE_SEEDS").unwrap_or_default();
    let bounds = text.split_once("..");
    let bounds = bounds.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    bounds.map_or(0..1000, |(from, to)| from..to)
}

#[test]
fn every_byte_arrives_whatever_the_links_do() {
    let outcomes: Vec<_> = seeds().map(|seed| run(&Scenario::draw(seed))).collect();
    let errors: Vec<_> = outcomes
        .iter()
        .filter_map(|each| each.as_ref().err())
        .collect();
    let shown = &errors[..errors.len().min(5)];
    assert!(errors.is_empty(), "{} seeds fail: {shown:#?}", errors.len());
    // The runs met what they are to meet.
    let several = outcomes
        .iter()
        .flatten()
        .filter(|run| run.counters.len() > 2);
    assert!(several.count() > 0, "no run of several clients");
    let sum = |count: fn(&lineside_tcp::Counters) -> u64| -> u64 {
        let runs = outcomes.iter().flatten();
        runs.map(|run| run.counters.iter().map(count).sum::<u64>())
            .sum()
    };
    for (name, count) in [
        ("timeouts", sum(|counters| counters.timeouts)),
        ("recoveries", sum(|counters| counters.recoveries)),
        ("fast", sum(|counters| counters.retransmitted_fast)),
        ("found lost", sum(|counters| counters.lost)),
        (
            "waits for what is late",
            sum(|counters| counters.reordering_timeouts),
        ),
        ("probes of the tail", sum(|counters| counters.tlp_probes)),
        ("mended by one", sum(|counters| counters.tlp_recoveries)),
        (
            "sent again by one",
            sum(|counters| counters.retransmitted_tlp),
        ),
        ("reports sent", sum(|counters| counters.dsack_sent)),
        ("reports received", sum(|counters| counters.dsack_received)),
        ("spurious", sum(|counters| counters.spurious)),
        ("undone", sum(|counters| counters.undone_dsack)),
        (
            "spurious timeouts",
            sum(|counters| counters.spurious_timeouts),
        ),
        ("probes", sum(|counters| counters.probes)),
        (
            "handshakes",
            sum(|counters| counters.retransmitted_handshake),
        ),
        ("duplicates", sum(|counters| counters.bytes_duplicate)),
        ("damage", sum(|counters| counters.checksum_wrong)),
        ("resets", sum(|counters| counters.resets)),
    ] {
        assert!(count > 0, "no {name} in any run");
        println!("{name}: {count}");
    }
}

/// Runs in which an end forgets a connection that the other end still speaks of.
#[test]
fn rare_ends_of_connections_are_no_faults() {
    for (seed, what) in [
        (
            24_248,
            "an RST in reply to a challenge, then a late SYN: a smaller window on a new connection",
        ),
        (55_912, "an RST, a late SYN, then late data of before it"),
        (58_111, "the same, with SYN and data sent again"),
        (
            61_391,
            "the last acknowledgement is lost, and data come again after TIME-WAIT",
        ),
    ] {
        let outcome = run(&Scenario::draw(seed));
        assert!(outcome.is_ok(), "{what}: {outcome:?}");
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for seed in 0..20 {
        let scenario = Scenario::draw(seed);
        assert_eq!(run(&scenario), run(&scenario));
    }
}
