//! The short way of plain calls, beside the general one: whatever happens to a call, the rows are
//! the same.

use std::collections::HashMap;
use std::net::IpAddr;

use lineside_rows::{OperationCells, OperationRows, RowRef, Table};

use super::again::{CALL, REPLY, Wire, lookup, lookup_by};
use super::*;

/// The fate of calls after the first one, whose header the others share.
fn fates() -> Vec<(&'static str, Wire)> {
    let wire = || {
        let mut wire = Wire::new(false);
        wire.answered(&lookup(1, b"first", 70));
        wire
    };
    let of = |what, act: fn(&mut Wire)| {
        let mut wire = wire();
        act(&mut wire);
        wire.answered(&lookup(9, b"last", 79));
        (what, wire)
    };
    vec![
        of("answered", |wire| wire.answered(&lookup(7, b"a", 71))),
        of("not answered", |wire| {
            wire.send(CALL, &lookup(7, b"a", 71)[CALL])
        }),
        of("answered late", |wire| {
            let messages = lookup(7, b"a", 71);
            wire.send(CALL, &messages[CALL]);
            wire.others(300);
            wire.now_ns += 3_600_000_000_000;
            wire.send(REPLY, &messages[REPLY]);
        }),
        of("sent again before its reply", |wire| {
            let messages = lookup(7, b"a", 71);
            wire.send(CALL, &messages[CALL]);
            wire.answered(&messages);
            wire.send(REPLY, &messages[REPLY]);
        }),
        of("sent again after its reply", |wire| {
            let messages = lookup(7, b"a", 71);
            wire.answered(&messages);
            wire.answered(&messages);
        }),
        of("another with its xid", |wire| {
            wire.send(CALL, &lookup(7, b"a", 71)[CALL]);
            wire.answered(&lookup(7, b"b", 72));
        }),
        of("of other users", |wire| {
            let calls: Vec<_> = (0..20)
                .map(|n| lookup_by(n % 3, 100 + n, b"a", n))
                .collect();
            calls.iter().for_each(|call| wire.send(CALL, &call[CALL]));
            calls.iter().for_each(|call| wire.send(REPLY, &call[REPLY]));
        }),
        of("answered in two segments", |wire| {
            let messages = lookup(7, b"a", 71);
            wire.send(CALL, &messages[CALL]);
            wire.send_in_two(REPLY, &messages[REPLY]);
        }),
        of("in two segments", |wire| {
            let messages = lookup(7, b"a", 71);
            wire.send_in_two(CALL, &messages[CALL]);
            wire.send(REPLY, &messages[REPLY]);
        }),
        of("refused", |wire| {
            let [call, mut reply] = lookup(7, b"a", 71);
            reply.truncate(24);
            // PROG_UNAVAIL (RFC 5531 section 9).
            reply[23] = 1;
            wire.answered(&[call, reply]);
        }),
        of("answered with nonsense", |wire| {
            let [call, mut reply] = lookup(7, b"a", 71);
            // A handle that is longer than there can be.
            reply[28..32].fill(0xff);
            wire.answered(&[call, reply]);
        }),
        of("of the other end", |wire| {
            let [call, reply] = lookup(7, b"a", 71);
            wire.send(REPLY, &call);
            wire.send(CALL, &reply);
        }),
        of("with a reset", |wire| {
            let messages = lookup(7, b"a", 71);
            wire.send(CALL, &messages[CALL]);
            wire.end(1, TcpFlags::RST);
            wire.connect(701);
            wire.answered(&messages);
        }),
        of("after bytes that came again", |wire| {
            let before = wire.connection.sequences;
            wire.send(CALL, &lookup(7, b"a", 71)[CALL]);
            wire.connection.sequences = before;
            wire.now_ns += 200_000_000;
            wire.answered(&lookup(7, b"a", 71));
        }),
    ]
}

#[test]
fn the_short_way_gives_the_rows_of_the_general_one() {
    for (what, wire) in fates() {
        is_the_same_both_ways(&wire, Config::default(), what);
    }
}

/// Cells that calls with one number have in common, as a sink gets them.
#[derive(Default)]
struct Commons {
    seen: HashMap<u128, Callers>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Callers {
    number: u128,
    connection_id: i64,
    client: (Option<IpAddr>, Option<i32>),
    user_id: Option<i64>,
}

impl OperationCells for Callers {
    fn connection_id(&mut self, value: i64) {
        self.connection_id = value;
    }

    fn client_address(&mut self, value: Option<IpAddr>) {
        self.client.0 = value;
    }

    fn client_port(&mut self, value: Option<i32>) {
        self.client.1 = value;
    }

    fn user_id(&mut self, value: Option<i64>) {
        self.user_id = value;
    }

    fn common(&mut self, number: u128, give: impl FnOnce(&mut Self)) {
        self.number = number;
        give(self);
    }
}

impl RecordSink for Commons {
    fn wants(&self, _: Table) -> bool {
        true
    }

    fn on_time(&mut self, _: i64) {}

    fn row(&mut self, _: RowRef<'_>) {}

    fn operation(&mut self, rows: &mut impl OperationRows) {
        let mut callers = Callers::default();
        rows.operation(&mut callers);
        let known = self
            .seen
            .entry(callers.number)
            .or_insert_with(|| callers.clone());
        assert_eq!(*known, callers);
    }
}

#[test]
fn what_calls_have_in_common_has_a_number() {
    let mut numbers = 0;
    for (_, wire) in fates() {
        let budget = Budget::new(64 << 20);
        let mut pipeline = Pipeline::new(Config::default(), &budget, Commons::default());
        feed(&mut pipeline, &wire.frames, 7);
        numbers += pipeline.finish().0.seen.len();
    }
    assert!(numbers > fates().len(), "some change their header");
}

/// Rows and counters, with the short ways and without.
pub(super) fn is_the_same_both_ways(wire: &Wire, config: Config, what: &str) {
    let ways = [true, false].map(|fast_path| {
        let config = Config {
            fast_path,
            ..config.clone()
        };
        let (rows, counters) = run_with(&wire.frames, config);
        let value = |&each: &Counter| (each, counters.value(each));
        let counters: Vec<_> = Counter::ALL.iter().map(value).collect();
        (rows, counters)
    });
    assert!(ways[0].0.operations.len() > 2, "{what}");
    assert_eq!(ways[0].1, ways[1].1, "{what}");
    assert_eq!(ways[0].0, ways[1].0, "{what}");
}

#[test]
fn calls_on_the_short_way_are_given_up_as_others() {
    let mut wire = Wire::new(false);
    wire.answered(&lookup(1, b"first", 70));
    for xid in 0..1000 {
        wire.send(CALL, &lookup(100 + xid, b"a", 71)[CALL]);
    }
    for xid in 0..1000 {
        wire.send(REPLY, &lookup(100 + xid, b"a", 71)[REPLY]);
    }
    let ways = [true, false].map(|fast_path| {
        let config = Config {
            outstanding_max: 64,
            fast_path,
            ..Config::default()
        };
        let (rows, counters) = run_with(&wire.frames, config);
        let given_up = counters.value(Counter::OutstandingLimit);
        assert!((936..=960).contains(&given_up), "{given_up}");
        let lost = rows.losses.iter();
        let lost = lost.filter(|row| row.cause == Some("call_given_up"));
        assert_eq!(lost.count() as u64, given_up);
        rows
    });
    assert_eq!(ways[0], ways[1]);
}

#[test]
fn an_outstanding_call_takes_256_bytes() {
    const CALLS: usize = 10_000;
    let mut wire = Wire::new(false);
    wire.answered(&lookup(1, b"first", 70));
    for xid in 0..CALLS as u32 {
        wire.send(CALL, &lookup(100 + xid, b"a file's name", 71)[CALL]);
    }
    let used = [0, CALLS].map(|calls| {
        let budget = Budget::new(128 << 20);
        let mut pipeline = Pipeline::new(Config::default(), &budget, CollectedRows::default());
        feed(
            &mut pipeline,
            &wire.frames[..wire.frames.len() - CALLS + calls],
            37,
        );
        budget.used_bytes()
    });
    let each = (used[1] - used[0]) / CALLS;
    assert!((100..=256).contains(&each), "{each} bytes");
}
