//! Changes while it runs.

use std::net::SocketAddr;

use lineside_balancer::{
    Change, ChangeError, NodeSettings, OnLoss, ServiceName, SettingsError, Transport,
};
use lineside_wire::TcpFlags;

use crate::bench::*;

fn name() -> ServiceName {
    ServiceName {
        transport: Transport::Tcp,
        address: socket("10.9.1.100:80"),
    }
}

fn talks(bench: &mut Bench, count: u16) -> Vec<Talk> {
    (0..count)
        .map(|number| Talk::open(bench, "10.9.1.7", "10.9.1.100", 4000 + number))
        .collect()
}

#[test]
fn a_node_that_drains_keeps_its_connections() {
    let mut bench = Bench::new(settings());
    let mut before = talks(&mut bench, 40);
    let node = socket("10.9.2.2:8080");
    let mine = before.iter().filter(|talk| talk.node == node).count();
    assert!(mine > 5);
    let reply = bench.change(&Change::Drain {
        service: name(),
        node,
    });
    assert!(
        reply.contains(&format!("{mine} connections stay")),
        "{reply}"
    );
    before
        .iter_mut()
        .for_each(|talk| talk.say(&mut bench, b"more"));
    for number in 0..40 {
        assert_ne!(
            Talk::open(&mut bench, "10.9.1.8", "10.9.1.100", 5000 + number).node,
            node
        );
    }
    let reply = bench.change(&Change::Weight {
        service: name(),
        node,
        weight: 5,
    });
    assert!(reply.contains("takes connections again"), "{reply}");
    let again = (0..40).filter(|&number| {
        Talk::open(&mut bench, "10.9.1.9", "10.9.1.100", 6000 + number).node == node
    });
    assert!(again.count() > 20, "with 5 of 6");
    bench.check_identity();
}

/// A drain can be watched: what is closed is in the table a while, and open no more.
#[test]
fn connections_that_are_closed_are_open_no_more() {
    let mut bench = Bench::new(settings());
    let mut open = talks(&mut bench, 40);
    for talk in &mut open[..30] {
        talk.finish(&mut bench);
    }
    let report = bench.nat.report(bench.now);
    let of_nodes = |all: &lineside_balancer::Report| -> u32 {
        all.services[0]
            .nodes
            .iter()
            .map(|node| node.connections)
            .sum()
    };
    let found = [report.services[0].connections, of_nodes(&report)];
    assert_eq!(found, [10; 2]);
    assert_eq!(report.table.connections, 40);
    // Their entries are gone at last, and the count is none the less.
    bench.pass(400_000_000_000);
    let report = bench.nat.report(bench.now);
    let found = [report.services[0].connections, of_nodes(&report)];
    assert_eq!((found, report.table.connections), ([10; 2], 10));
}

#[test]
fn connections_of_a_removed_node_end_or_stay_as_asked() {
    for on_loss in [OnLoss::Reset, OnLoss::Leave] {
        let mut settings = settings();
        settings.services[0].on_loss = on_loss;
        let mut bench = Bench::new(settings);
        let mut talks = talks(&mut bench, 40);
        talks
            .iter_mut()
            .for_each(|talk| talk.answer(&mut bench, b"seven..."));
        let node = socket("10.9.2.2:8080");
        let mine = talks.iter().filter(|talk| talk.node == node).count();
        let (reply, left) = bench.change_with_frames(&Change::Remove {
            service: name(),
            node,
        });
        if on_loss == OnLoss::Leave {
            assert!(
                left.is_empty() && reply.contains(&format!("{mine} stay")),
                "{reply}"
            );
            talks
                .iter_mut()
                .for_each(|talk| talk.say(&mut bench, b"more"));
        } else {
            assert!(
                reply.contains(&format!("{mine} connections were ended")),
                "{reply}"
            );
            let mut ended = talks.iter().filter(|talk| talk.node == node);
            assert_eq!(left.len(), 2 * mine, "both ends get a reset");
            for both in left.chunks(2) {
                let talk = ended.next().expect("one of the node's");
                let client = SocketAddr::new(address(&talk.source), talk.port);
                for ((port, bytes), expected) in both.iter().zip([
                    (CLIENTS, [socket("10.9.1.100:80"), client], [9, 1]),
                    (NODES, [talk.seen_as, node], [1, 9]),
                ]) {
                    assert!(is_right(bytes));
                    let reset = lineside_wire::tcp::Segment::new_unchecked(&bytes[34..]);
                    assert_eq!(reset.flags(), TcpFlags::RST | TcpFlags::ACK);
                    let numbers = [reset.sequence().0, reset.acknowledgement().0];
                    assert_eq!((*port, ends(bytes), numbers), expected);
                }
            }
        }
        assert_ne!(
            Talk::open(&mut bench, "10.9.1.8", "10.9.1.100", 5000).node,
            node
        );
        // Its number is free when its connections are gone, and its counts stay in the sum.
        bench.pass(8_000 * SECOND);
        let report = bench.nat.report(bench.now);
        assert_eq!(report.table.connections, 0);
        assert!(report.services[0].past_nodes[0].frames > 0);
    }
}

#[test]
fn a_reload_keeps_what_stays_and_is_refused_whole() {
    let mut bench = Bench::new(settings());
    let mut talks = talks(&mut bench, 20);
    let mut wrong = settings();
    wrong.services[0].nodes.push(NodeSettings {
        address: socket("10.9.2.9:80"),
        weight: 1,
    });
    wrong.services[1].nodes.clear();
    let before = bench.nat.report(bench.now);
    let refused = bench.try_change(&Change::Replace(Box::new(wrong)));
    let error = SettingsError::NoNode(socket("10.9.1.100:53"));
    assert_eq!(refused, Err(ChangeError::Settings(error)));
    assert_eq!(bench.nat.report(bench.now), before, "nothing has changed");
    let mut other = settings();
    other.seed += 1;
    assert_eq!(
        bench.try_change(&Change::Replace(Box::new(other))),
        Err(ChangeError::Fixed("the seed"))
    );
    let mut new = settings();
    new.services[0].nodes.push(NodeSettings {
        address: socket("10.9.2.4:8080"),
        weight: 1,
    });
    new.services.remove(1);
    new.services[1].address = socket("[fd00:1::101]:80");
    let (reply, left) = bench.change_with_frames(&Change::Replace(Box::new(new)));
    assert_eq!(
        reply,
        "3 services: 1 added, 2 removed, 2 kept; 3 nodes added, 4 removed"
    );
    assert!(
        left.is_empty(),
        "announcements are no frames of clients: {left:?}"
    );
    talks
        .iter_mut()
        .for_each(|talk| talk.say(&mut bench, b"more"));
    let datagram = from_client("10.9.1.7", "10.9.1.100").udp(1, 53, b"x");
    let (port, _) = bench.send_one(CLIENTS, &datagram);
    assert_eq!(port, CLIENTS, "an ICMP error: the service is gone");
    bench.check_identity();
}

#[test]
fn changes_that_are_not_possible_say_why() {
    let mut bench = Bench::new(settings());
    let node = socket("10.9.2.2:8080");
    let twice = NodeSettings {
        address: node,
        weight: 1,
    };
    let other = ServiceName {
        transport: Transport::Udp,
        address: socket("10.9.1.1:1"),
    };
    let text = |result: Result<String, ChangeError>| result.expect_err("refused").to_string();
    let cases = [
        (
            Change::Add {
                service: name(),
                node: twice,
            },
            "service 10.9.1.100:80 has node 10.9.2.2:8080 twice: give it a higher weight instead",
        ),
        (
            Change::Drain {
                service: other,
                node,
            },
            "there is no service udp 10.9.1.1:1",
        ),
        (
            Change::Remove {
                service: name(),
                node: socket("10.9.2.9:1"),
            },
            "service tcp 10.9.1.100:80 has no node 10.9.2.9:1",
        ),
        (
            Change::Weight {
                service: name(),
                node,
                weight: 5000,
            },
            "node 10.9.2.2:8080 has weight 5000: write 0 to 1000",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(text(bench.try_change(&change)), expected);
    }
}
