//! Marks of routers: RFC 3168, 6.1.

use lineside_tcp::{Config, Ecn};

use crate::chart::Chart;

fn asks(config: &mut Config) {
    config.ecn = Ecn::Ask;
}

/// A connection that the peer opened, on which packets may be marked.
fn agreed() -> Chart {
    let mut chart = Chart::with(|_| {});
    chart.run(
        "* listen
         < SEW 0:1 mss 1000
         > SAE 0:1 ack 1 ecn 0
         < A 1:1 ack 1
         = opened",
    );
    chart
}

#[test]
fn a_peer_that_asks_is_accepted_unless_it_is_off() {
    for (ecn, answer) in [(Ecn::Accept, "SAE"), (Ecn::Ask, "SAE"), (Ecn::Off, "SA")] {
        let mut chart = Chart::with(|config| config.ecn = ecn);
        chart.run(&format!(
            "* listen
             < SEW 0:1 mss 1000
             > {answer} 0:1 ack 1 ecn 0"
        ));
    }
    // One bit alone asks nothing.
    for flags in ["SE", "SW", "S"] {
        let mut chart = Chart::with(|_| {});
        chart.run(&format!("* listen\n< {flags} 0:1\n> SA 0:1 ack 1"));
    }
}

#[test]
fn an_open_asks_once_and_takes_only_an_answer() {
    for (answer, data) in [("SAE", 2), ("SA", 0), ("SAEW", 0)] {
        let mut chart = Chart::with(asks);
        chart.run(&format!(
            "* connect
             > SEW 0:1 ecn 0
             < {answer} 0:1 ack 1 mss 1000
             = opened
             > A 1:1 ack 1 ecn 0
             * send 10
             > A 1:11 ack 1 ecn {data}"
        ));
    }
    // A SYN with these bits may be lost for them: RFC 3168, 6.1.1.1.
    let mut chart = Chart::with(asks);
    chart.run("* connect\n> SEW 0:1\n+1\n> S 0:1");
}

#[test]
fn a_mark_is_echoed_until_the_window_is_smaller() {
    let mut chart = agreed();
    chart.run(
        "< A 1:1001 ack 1 ecn 2
         = data 1000
         < A 1001:2001 ack 1 ecn 3
         = data 1000
         > AE 1:1 ack 2001 ecn 0
         < A 2001:3001 ack 1 ecn 2
         = data 1000
         < A 3001:4001 ack 1 ecn 2
         = data 1000
         > AE 1:1 ack 4001
         < AW 4001:5001 ack 1 ecn 2
         = data 1000
         < A 5001:6001 ack 1 ecn 2
         = data 1000
         > A 1:1 ack 6001
         < AW 6001:7001 ack 1 ecn 3
         = data 1000
         < A 7001:8001 ack 1 ecn 2
         = data 1000
         > AE 1:1 ack 8001
         count ce_received 2",
    );
}

#[test]
fn an_echo_makes_the_window_smaller_once_for_what_is_in_flight() {
    let mut chart = agreed();
    chart.call("send 30000").expect("it is open");
    assert_eq!(chart.sent().len(), 10, "the initial window");
    chart.run("< AE 1:1 ack 1001\n= acked 1000");
    // Ten segments become five, and a sixth by congestion avoidance: until as many are
    // acknowledged nothing leaves.
    assert_eq!(chart.sent().len(), 0);
    for ack in [2001, 3001, 4001, 5001] {
        chart.run(&format!("< AE 1:1 ack {ack}\n= acked 1000"));
    }
    chart.run(
        "count ecn_reductions 1
         < AE 1:1 ack 6001
         = acked 1000
         > AW 10001:11001 ack 1 ecn 2
         > A 11001:12001 ack 1 ecn 2
         < AE 1:1 ack 7001
         = acked 1000
         > A 12001:13001 ack 1
         < A 1:1 ack 10001
         = acked 3000
         > A 13001:14001 ack 1
         > A 14001:15001 ack 1
         > A 15001:16001 ack 1
         < AE 1:1 ack 11001
         = acked 1000
         count ecn_reductions 2
         count retransmitted 0",
    );
}

#[test]
fn what_is_sent_again_cannot_be_marked() {
    let mut chart = agreed();
    chart.run("* send 10\n> A 1:11 ack 1 ecn 2");
    chart.run_until_sent();
    let again = chart.sent();
    assert!(
        again.iter().all(|segment| !segment.contains("ecn")),
        "{again:?}"
    );
    // A probe of a closed window, neither.
    let mut chart = agreed();
    chart.run("< A 1:1 ack 1 win 0\n* send 10");
    chart.run_until_sent();
    let probe = chart.sent();
    assert!(!probe[0].contains("ecn"), "{probe:?}");
}

#[test]
fn a_mark_of_a_fragment_is_one_of_its_segment() {
    use lineside_wire::build::{FrameBuilder, TcpFields};
    use lineside_wire::{TcpFlags, ipv4};

    let mut chart = agreed();
    let data: Vec<u8> = (1..=100).map(crate::chart::content).collect();
    let fields = TcpFields {
        source_port: 2000,
        destination_port: crate::chart::PORT,
        flags: TcpFlags::ACK,
        ..chart.next_fields()
    };
    let builder = FrameBuilder::new(crate::chart::THEIRS.into(), crate::chart::OURS.into())
        .with_link_addresses(crate::chart::THEIR_LINK, crate::chart::OUR_LINK)
        .with_ecn(2);
    let segment = builder.tcp_segment(&fields, &data);
    let mut fragments = builder.fragments(6, &segment, 64);
    let mut header = ipv4::Packet::new_unchecked(&mut fragments[0][14..34]);
    header.set_traffic_class(3);
    header.fill_checksum();
    for fragment in &fragments {
        chart.give_frame(fragment);
    }
    chart.run("= data 100\ncount ce_received 1");
}
