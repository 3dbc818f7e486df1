//! A connection that lives for a day, whatever happens to its links.

use lineside_sim::{Scenario, run};

const HOURS_NS: i64 = 3_600_000_000_000;

/// Every byte is compared at both ends and at the tap. Another seed: `LINESIDE_DAY=N`.
#[test]
fn a_busy_connection_outlives_a_day_of_changing_links() {
    let seed = std::env::var("LINESIDE_DAY").map_or(1, |seed| seed.parse().expect("a number"));
    let scenario = Scenario::day(seed);
    let outages = { scenario.changes.iter() }.filter(|change| {
        { change.links.iter() }.any(|link| matches!(link.state, lineside_link::State::Down { .. }))
    });
    let (changes, outages) = (scenario.changes.len(), outages.count());
    let outcome = run(&scenario).expect("the connection lives, and no byte is lost");
    let [client, server] = &outcome.counters[..] else {
        panic!("a client and a server");
    };
    println!(
        "{:.1} h, {changes} changes, {outages} outages, {} frames lost; {:#?}",
        outcome.took_ns as f64 / HOURS_NS as f64,
        outcome.lost,
        outcome.counters
    );
    assert!(outcome.took_ns >= 24 * HOURS_NS, "{}", outcome.took_ns);
    assert!(
        changes >= 24 * 60 / 5 && outages >= 10,
        "{changes}, {outages}"
    );
    for counters in [client, server] {
        assert_eq!(counters.bytes_delivered, scenario.talks[0].sides[0].bytes);
        assert!(counters.timeouts > 0 && counters.keep_alives > 0);
        assert!(counters.bytes_duplicate > 0 && counters.checksum_wrong > 0);
    }
}
