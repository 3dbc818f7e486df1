//! The table as bytes.

use lineside_balancer::{Nat, RestoreError, Settings};
use proptest::prelude::*;

use crate::bench::*;

fn with_connections(settings: Settings) -> (Bench, Vec<Talk>) {
    let mut bench = Bench::new(settings);
    let mut talks = Vec::new();
    for number in 0..30 {
        let pair = match number % 2 {
            0 => ["10.9.1.7", "10.9.1.100"],
            _ => ["fd00:1::7", "fd00:1::100"],
        };
        talks.push(Talk::open(&mut bench, pair[0], pair[1], 4000 + number));
        bench.send(
            CLIENTS,
            &from_client(pair[0], pair[1]).udp(4000 + number, 53, b"x"),
        );
    }
    (bench, talks)
}

#[test]
fn connections_go_on_in_the_next_process() {
    let (bench, mut talks) = with_connections(settings());
    let mut bytes = Vec::new();
    bench.nat.save(bench.now, &mut bytes);
    // Services and nodes come in another order, and one node is gone.
    let mut other = settings();
    other.services.reverse();
    other.services[0].nodes.pop();
    other.seed = 99;
    let mut next = Bench::new(other);
    next.now = bench.now + SECOND;
    let now = next.now;
    let all = bench.nat.report(bench.now);
    let lost = all.services[3].nodes[1].connections as usize;
    assert!(lost > 0);
    assert_eq!(next.nat.restore(now, &bytes), Ok(60 - lost));
    talks.iter_mut().for_each(|talk| {
        talk.say(&mut next, b"still");
        talk.answer(&mut next, b"here");
    });
    assert_eq!(next.nat.restore(now, &bytes), Ok(0), "they are there");
    next.check_identity();
    next.pass(8_000 * SECOND);
    assert_eq!(next.nat.report(next.now).table.connections, 0);
}

#[test]
fn what_is_too_old_is_left_out() {
    let (bench, _) = with_connections(settings());
    let mut bytes = Vec::new();
    bench.nat.save(bench.now + 400 * SECOND, &mut bytes);
    let mut next = Bench::new(settings());
    let now = next.now;
    assert_eq!(next.nat.restore(now, &bytes), Ok(30), "TCP only");
}

#[test]
fn other_bytes_are_named() {
    let (bench, _) = with_connections(settings());
    let mut bytes = Vec::new();
    bench.nat.save(bench.now, &mut bytes);
    let mut next = Bench::new(settings());
    assert_eq!(next.nat.restore(0, b""), Err(RestoreError::NotOurs));
    assert_eq!(next.nat.restore(0, &[7; 100]), Err(RestoreError::NotOurs));
    let mut newer = bytes.clone();
    newer[5] = 9;
    assert_eq!(next.nat.restore(0, &newer), Err(RestoreError::Version(9)));
    assert_eq!(
        next.nat.restore(0, &bytes[..bytes.len() - 1]),
        Err(RestoreError::Damaged)
    );
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert_eq!(next.nat.restore(0, &bytes), Err(RestoreError::Damaged));
    assert_eq!(next.nat.report(0).table.connections, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Bytes that only look like a table enter nothing that harms.
    #[test]
    fn foreign_bytes_never_panic(
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6),
    ) {
        let (bench, _) = with_connections(settings());
        let mut bytes = Vec::new();
        bench.nat.save(bench.now, &mut bytes);
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let budget = lineside_account::Budget::new(1 << 30);
        let mut nat = Nat::new(settings(), &budget).expect("settings that are right");
        let _ = nat.restore(1 << 40, &bytes);
        let mut out = lineside_balancer::Effects::default();
        let connections = nat.report(0).table.connections;
        prop_assert!(connections <= 60);
        nat.on_timer(i64::MAX, &mut out);
        prop_assert_eq!(nat.report(0).table.connections, 0);
    }
}
