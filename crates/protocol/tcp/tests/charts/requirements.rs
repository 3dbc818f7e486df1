//! Requirements of RFC 9293, appendix B, that no chart elsewhere shows: docs/tcp.md has them all.

use std::net::IpAddr;

use lineside_account::Budget;
use lineside_tcp::{Config, Stack};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::{SeqNumber, TcpFlags, checksum, tcp};

use crate::chart::{Chart, Heard, OUR_LINK, OURS, PORT, THEIR_LINK, THEIRS, arp_frame};

/// A SYN between two addresses.
fn syn(source: [u8; 4], destination: [u8; 4]) -> (FrameBuilder, TcpFields<'static>) {
    let builder = FrameBuilder::new(source.into(), destination.into())
        .with_link_addresses(THEIR_LINK, OUR_LINK);
    let fields = TcpFields {
        source_port: 2000,
        destination_port: PORT,
        flags: TcpFlags::SYN,
        ..TcpFields::default()
    };
    (builder, fields)
}

#[test]
fn a_syn_is_given_up_after_three_minutes() {
    let mut chart = Chart::with(|_| {});
    chart.run("* connect\n> S 0:1");
    chart.pass(180_000_000_000);
    assert!(chart.sent().len() > 5);
    assert_eq!(chart.stack.connections(), 1);
    chart.pass(60_000_000_000);
    assert_eq!(chart.stack.connections(), 0);
}

#[test]
fn acknowledgements_of_a_burst_are_one() {
    let mut chart = Chart::established(|_| {});
    chart.run(
        "burst
         < A 1:1001 ack 1
         < A 1001:2001 ack 1
         < A 2001:3001 ack 1
         < A 3001:4001 ack 1
         end
         = data 1000
         = data 1000
         = data 1000
         = data 1000
         > A 1:1 ack 4001",
    );
}

/// The initial sequence number that a stack chooses at a time.
fn initial(secret: [u64; 2], now: i64, port: u16) -> SeqNumber {
    let (ours, theirs) = (IpAddr::from(OURS), IpAddr::from(THEIRS));
    let budget = Budget::new(64 << 20);
    let mut stack = Stack::new(Config::new(OUR_LINK, &[ours]), secret, &budget).expect("room");
    let mut heard = Heard::default();
    let mut burst = lineside_frame::Burst::new();
    let arp = arp_frame(lineside_wire::arp::REPLY, OUR_LINK, THEIRS, OURS);
    { stack.connect(now, (ours, port), (theirs, 80), 0, &mut heard) }.expect("there is room");
    burst.push(crate::chart::wrapped(&arp));
    stack.on_burst(now, &mut burst, &mut heard);
    let frame = heard.frames.back().expect("the SYN");
    tcp::Segment::new_unchecked(&frame[34..]).sequence()
}

#[test]
fn initial_numbers_follow_the_clock_and_the_secret() {
    let begin = 1_000_000_000_000;
    let first = initial([1, 2], begin, 1000);
    // One for each 4 us: RFC 9293, 3.4.1.
    assert_eq!(initial([1, 2], begin + 4_000_000, 1000), first + 1000);
    // Another four-tuple or secret, another number.
    for other in [initial([1, 2], begin, 1001), initial([1, 3], begin, 1000)] {
        assert!(
            other.distance_from(first).unsigned_abs() > 1000,
            "{other:?} {first:?}"
        );
    }
}

#[test]
fn nobodys_segments_are_dropped_in_silence() {
    let mut chart = Chart::new();
    chart.run("* listen");
    chart.answers = false;
    for (source, destination) in [
        ([224, 0, 0, 1], OURS),
        ([255; 4], OURS),
        ([0; 4], OURS),
        (THEIRS, [255; 4]),
        (THEIRS, [224, 0, 0, 1]),
        (THEIRS, [10, 0, 0, 255]),
    ] {
        let (builder, fields) = syn(source, destination);
        chart.give_frame(&builder.tcp(&fields, &[]));
    }
    assert!(chart.heard.frames.is_empty());
    chart.run("count not_ours 6");
}

#[test]
fn segments_with_ip_options_are_read() {
    let mut chart = Chart::new();
    chart.run("* listen");
    let (builder, fields) = syn(THEIRS, OURS);
    // A record of the route and a timestamp: RFC 791, 3.1.
    let options = [7, 7, 4, 0, 0, 0, 0, 68, 8, 5, 0, 0, 0, 0, 0];
    chart.give_frame(&builder.with_options(&options).tcp(&fields, &[]));
    assert_eq!(chart.sent().len(), 1, "the answer to the SYN");
}

#[test]
fn source_quench_changes_nothing() {
    let mut chart = Chart::established(|_| {});
    chart.answers = false;
    chart.call("send 3000").expect("it is open");
    let segment = chart.heard.frames.front().expect("a segment").clone();
    chart.heard.frames.clear();
    let mut message = vec![4, 0, 0, 0, 0, 0, 0, 0];
    message.extend(&segment[14..62]);
    let sum = checksum::checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let builder = FrameBuilder::new(THEIRS.into(), OURS.into());
    chart.give_frame(
        &builder
            .with_link_addresses(THEIR_LINK, OUR_LINK)
            .packet(1, &message),
    );
    assert!(chart.heard.frames.is_empty());
    assert!(chart.heard.errors.is_empty());
    chart.run("count errors_taken 0\ncount not_read 1");
}

#[test]
fn what_was_sent_again_gives_no_round_trip() {
    // Karn's algorithm: without timestamps nobody knows which of the two was acknowledged.
    let mut chart = Chart::established(|_| {});
    chart.run("* send 10\n> PA 1:11 ack 1\n+0.1\n< A 1:1 ack 11\n= acked 10");
    let timeout = |chart: &mut Chart| {
        chart.call("send 10").expect("it is open");
        chart.sent();
        let begun = chart.now;
        chart.run_until_sent();
        while chart.stack.counters().timeouts == 0 {
            chart.sent();
            chart.run_until_sent();
        }
        chart.now - begun
    };
    let before = timeout(&mut chart);
    chart.sent();
    // It came at once, or was late: were it measured, the next timeout would be another.
    chart.run("+0.001\n< A 1:1 ack 21\n= acked 10");
    let counted = chart.stack.counters();
    assert_eq!(counted.timeouts, 1);
    chart.call("send 10").expect("it is open");
    chart.sent();
    let begun = chart.now;
    while chart.stack.counters().timeouts == 1 {
        chart.run_until_sent();
        chart.sent();
    }
    assert_eq!(chart.now - begun, before);
}
