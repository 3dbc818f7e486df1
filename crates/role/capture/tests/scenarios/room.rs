//! Whose calls are given up when memory for operations runs short.

use std::net::{IpAddr, Ipv4Addr};

use super::*;

const LOUD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 9, 9));
const CALL: usize = 0;
const REPLY: usize = 1;

fn null(xid: u32) -> [Vec<u8>; 2] {
    let (call, reply) = (v3::Call::Null(()), v3::Reply::Null(()));
    connection::nfs(xid, Auth::none(), &call, &reply, b"")
}

/// Frames of clients over UDP, one every millisecond.
#[derive(Default)]
struct Wire(Sent);

impl Wire {
    fn send(&mut self, client: IpAddr, port: u16, xid: u32, direction: usize) {
        let number = self.0.len() as u32;
        let builder = match direction {
            CALL => FrameBuilder::new(client, SERVER),
            _ => FrameBuilder::new(SERVER, client),
        };
        let ports = match direction {
            CALL => (port, SERVER_PORT),
            _ => (SERVER_PORT, port),
        };
        let builder = builder.with_identification(number);
        let frame = builder.udp(ports.0, ports.1, &null(xid)[direction]);
        self.0.push((u64::from(number) * 20, frame));
    }

    fn run(self, config: Config) -> (CollectedRows, Counters) {
        let frames = merge(&[self.0]);
        run_with(&frames, config)
    }
}

/// Bounds that a hundred calls reach.
fn narrow() -> Config {
    Config {
        outstanding_max: 64,
        ..Config::default()
    }
}

fn is_whole(row: &OperationRow) -> bool {
    !row.call_missing && !row.reply_missing
}

#[test]
fn unanswered_calls_of_one_host_cost_no_other_its_replies() {
    // From one port, and from ever other ones: then each call is a connection of its own.
    for changes_port in [false, true] {
        let mut wire = Wire::default();
        // These wait for their replies while the other host calls a thousand times.
        for xid in 0..16 {
            wire.send(CLIENT, 700, xid, CALL);
        }
        for call in 0..1000 {
            let port = 1000 + if changes_port { call as u16 } else { 0 };
            wire.send(LOUD, port, 100 + call, CALL);
        }
        for xid in 0..16 {
            wire.send(CLIENT, 700, xid, REPLY);
        }
        let (rows, counters) = wire.run(narrow());
        let quiet = rows.operations.iter();
        let quiet = quiet.filter(|row| row.client_address == Some(CLIENT));
        assert_eq!(quiet.filter(|row| is_whole(row)).count(), 16);
        assert_eq!(rows.operations.len(), 1016, "the newcomer is never refused");
        let given_up = counters.value(Counter::OutstandingLimit);
        assert!((936..=960).contains(&given_up), "{given_up}");
        let lost = rows.losses.iter();
        let lost = lost.filter(|row| row.cause == Some("call_given_up"));
        assert_eq!(lost.count() as u64, given_up);
    }
}

#[test]
fn one_connection_of_a_client_does_not_pay_for_another() {
    let mut wire = Wire::default();
    for xid in 0..16 {
        wire.send(CLIENT, 700, xid, CALL);
    }
    for xid in 0..1000 {
        wire.send(CLIENT, 701, xid, CALL);
    }
    for xid in 0..16 {
        wire.send(CLIENT, 700, xid, REPLY);
    }
    let (rows, _) = wire.run(narrow());
    let quiet = rows.operations.iter();
    let quiet = quiet.filter(|row| row.client_port == Some(700));
    assert_eq!(quiet.filter(|row| is_whole(row)).count(), 16);
}

#[test]
fn answered_calls_from_changing_ports_cost_nobody_anything() {
    let mut wire = Wire::default();
    wire.send(CLIENT, 700, 1, CALL);
    for call in 0..1000_u16 {
        wire.send(LOUD, 1000 + call, u32::from(call), CALL);
        wire.send(LOUD, 1000 + call, u32::from(call), REPLY);
    }
    wire.send(CLIENT, 700, 1, REPLY);
    let (rows, counters) = wire.run(narrow());
    assert_eq!(rows.operations.len(), 1001);
    assert!(rows.operations.iter().all(is_whole));
    assert_eq!(counters.value(Counter::OutstandingLimit), 0);
    assert!(rows.losses.is_empty());
}

#[test]
fn a_reply_after_hours_of_silence_is_paired() {
    let mut wire = Wire::default();
    for (xid, direction) in [(1, CALL), (2, CALL), (2, REPLY), (1, REPLY)] {
        wire.send(CLIENT, 700, xid, direction);
    }
    let mut frames = merge(&[wire.0]);
    let hours_ns = 5 * 3_600_000_000_000;
    for frame in &mut frames[2..] {
        frame.stamp_ns = frame.stamp_ns.map(|stamp| stamp + hours_ns);
    }
    let config = Config {
        flow: lineside_capture::FlowConfig {
            idle_timeout_ns: 2 * hours_ns,
            ..Config::default().flow
        },
        ..Config::default()
    };
    let (rows, counters) = run_with(&frames, config);
    assert_eq!(counters.value(Counter::CallsAnswered), 2);
    assert!(rows.operations.iter().all(is_whole));
}

/// What others hold leaves a reserve; calls without answers take none of it, answered ones may.
#[test]
fn calls_that_nobody_answers_leave_the_reserve() {
    const BUDGET: usize = 4 << 20;
    let mut wire = Wire::default();
    for direction in [CALL, REPLY] {
        wire.send(CLIENT, 700, 0, direction);
    }
    for call in 0..500 {
        wire.send(LOUD, 1000, call, CALL);
    }
    for direction in [CALL, REPLY] {
        for xid in 1..=16 {
            wire.send(CLIENT, 700, xid, direction);
        }
    }
    let frames = merge(&[wire.0]);
    let budget = Budget::new(BUDGET);
    let mut pipeline = Pipeline::new(Config::default(), &budget, CollectedRows::default());
    feed(&mut pipeline, &frames[..2], 2);
    let others = BUDGET / 8 * 7 - budget.used_bytes();
    assert!(budget.draw(others) && budget.has_reserve());
    feed(&mut pipeline, &frames[2..502], 37);
    let taken = budget.used_bytes() - BUDGET / 8 * 7;
    // Their connection, and what is drawn where nothing else can be given up.
    assert!(taken < 32 << 10, "{taken} bytes of the reserve");
    feed(&mut pipeline, &frames[502..], 37);
    let (rows, counters) = pipeline.finish();
    let answered = rows.operations.iter().filter(|row| is_whole(row));
    assert_eq!(answered.count(), 17);
    assert_eq!(rows.operations.len(), 517, "the newcomer is never refused");
    assert!(counters.value(Counter::OutstandingLimit) > 400);
    budget.give_back(others);
    assert_eq!(budget.used_bytes(), 0);
}
