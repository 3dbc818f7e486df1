//! Calls that a stack refuses, in words that name the way out.

use std::net::IpAddr;

use lineside_tcp::{ConnectionId, Prefix};

use crate::chart::{Chart, OURS, PORT, THEIRS};

fn connect(chart: &mut Chart, ends: [IpAddr; 2], ports: [u16; 2]) -> Result<ConnectionId, String> {
    let [local, remote] = ends;
    let (now, heard) = (chart.now, &mut chart.heard);
    let id = { &mut chart.stack }.connect(now, (local, ports[0]), (remote, ports[1]), 0, heard);
    id.map_err(|refused| refused.to_string())
}

#[test]
fn a_port_is_listened_at_once_for_each_address() {
    let mut chart = Chart::with(|config| {
        config.addresses.push(Prefix {
            address: [10, 9, 0, 0].into(),
            len: 16,
        });
    });
    let mut listen = |address: Option<[u8; 4]>, port| {
        let done = chart.stack.listen(address.map(IpAddr::from), port, 0);
        done.map_err(|refused| refused.to_string())
    };
    assert_eq!(listen(None, 80), Ok(()));
    assert_eq!(listen(Some(OURS), 80), Ok(()));
    assert_eq!(listen(Some([10, 9, 255, 3]), 80), Ok(()));
    for (address, port, error) in [
        (
            None,
            80,
            "port 80 is in use there: choose another one, or 0",
        ),
        (
            Some(OURS),
            80,
            "port 80 is in use there: choose another one, or 0",
        ),
        (Some(THEIRS), 81, "10.0.0.2 is not an address of this stack"),
    ] {
        assert_eq!(listen(address, port), Err(error.to_owned()));
    }
}

#[test]
fn a_connection_needs_two_ends_that_can_meet() {
    let mut chart = Chart::with(|config| {
        config.on_link = vec![Prefix {
            address: [10, 0, 0, 0].into(),
            len: 8,
        }];
    });
    let (ours, theirs) = (IpAddr::from(OURS), IpAddr::from(THEIRS));
    let six: IpAddr = "fd00::2".parse().expect("an address");
    let far: IpAddr = [192, 0, 2, 1].into();
    for (ends, error) in [
        ([theirs, ours], "10.0.0.2 is not an address of this stack"),
        (
            [ours, six],
            "10.0.0.1 and fd00::2 are addresses of different families",
        ),
        (
            [ours, far],
            "no router leads to 192.0.2.1: name one, or say that it is on the link",
        ),
        (
            [ours, [224, 0, 0, 1].into()],
            "224.0.0.1 is not the address of one host",
        ),
        (
            [ours, [255; 4].into()],
            "255.255.255.255 is not the address of one host",
        ),
        (
            ["::".parse().expect("an address"), six],
            ":: is not an address of this stack",
        ),
    ] {
        assert_eq!(connect(&mut chart, ends, [PORT, 80]), Err(error.to_owned()));
    }
    assert_eq!(chart.stack.connections(), 0);
    connect(&mut chart, [ours, theirs], [PORT, 80]).expect("it is free");
    let error = connect(&mut chart, [ours, theirs], [PORT, 80]).expect_err("it is not");
    assert_eq!(error, "port 7 is in use there: choose another one, or 0");
    connect(&mut chart, [ours, theirs], [0, 80]).expect("another port");
    let any = [0; 4].into();
    let error = connect(&mut chart, [any, theirs], [PORT, 80]).expect_err("it is the same");
    assert_eq!(error, "port 7 is in use there: choose another one, or 0");
}

#[test]
fn a_full_stack_refuses_connections() {
    let mut chart = Chart::with(|config| config.connections_max = 2);
    let ends = [OURS, THEIRS].map(IpAddr::from);
    for _ in 0..2 {
        connect(&mut chart, ends, [0, 80]).expect("there is room");
    }
    let error = connect(&mut chart, ends, [0, 80]).expect_err("there is none");
    assert_eq!(
        error,
        "there is no room for another connection: raise its bounds or the memory"
    );
}

#[test]
fn every_dynamic_port_can_be_used_once() {
    let mut chart = Chart::with(|config| {
        config.connections_max = 20_000;
        config.active_max = 20_000;
    });
    chart.answers = false;
    let ends = [OURS, THEIRS].map(IpAddr::from);
    let mut count = 0;
    let error = loop {
        match connect(&mut chart, ends, [0, 80]) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
        chart.heard.frames.clear();
    };
    assert_eq!(count, 65_535 - 49_152 + 1, "RFC 6335, 6");
    assert_eq!(
        error,
        "all ports between the two addresses are in use: add an address"
    );
}

#[test]
fn what_is_over_takes_no_calls() {
    let mut chart = Chart::established(|_| {});
    chart.call("shutdown").expect("it is open");
    for call in ["send 5", "shutdown"] {
        let refused = chart.call(call).expect_err("it was shut");
        assert_eq!(refused.to_string(), "the connection sends no more");
    }
    chart.call("window 100").expect("it still receives");
    chart.call("abort").expect("it lives");
    for call in ["send 5", "shutdown", "abort", "window 5", "close"] {
        let refused = chart.call(call).expect_err("it is over");
        assert_eq!(refused.to_string(), "the connection sends no more");
    }
}
