//! Which node a connection gets.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use lineside_balancer::{Change, Choice, NodeSettings, ServiceName, Settings, Transport, Why};
use lineside_wire::TcpFlags;

use crate::bench::*;

fn with(choice: Choice, weights: &[u32]) -> Settings {
    let mut settings = settings();
    settings.services.truncate(1);
    settings.connections_max = 20_000;
    settings.services[0].choice = choice;
    settings.services[0].nodes = (2..)
        .zip(weights)
        .map(|(last, &weight)| NodeSettings {
            address: SocketAddr::new(Ipv4Addr::new(10, 9, 2, last).into(), 8080),
            weight,
        })
        .collect();
    settings
}

/// The node of a client's new connection.
fn node_of(bench: &mut Bench, client: u32, port: u16) -> SocketAddr {
    let [_, _, high, low] = client.to_be_bytes();
    let source = format!("10.8.{high}.{low}");
    let syn = from_client(&source, "10.9.1.100").tcp(&segment([port, 80], 1, TcpFlags::SYN), &[]);
    let (_, at_node) = bench.send_one(CLIENTS, &syn);
    ends(&at_node)[1]
}

fn shares(bench: &mut Bench, count: u32) -> Vec<usize> {
    let mut shares = BTreeMap::new();
    for client in 0..count {
        *shares.entry(node_of(bench, client, 4000)).or_insert(0) += 1;
    }
    shares.into_values().collect()
}

fn name() -> ServiceName {
    ServiceName {
        transport: Transport::Tcp,
        address: socket("10.9.1.100:80"),
    }
}

#[test]
fn removing_one_of_ten_nodes_moves_few_flows() {
    let mut bench = Bench::new(with(Choice::Maglev, &[1; 10]));
    let client =
        |number: u32| SocketAddr::new(Ipv4Addr::from_bits(0x0a07_0000 + number).into(), 4000);
    let flows = 10_000;
    let all = |bench: &Bench| -> Vec<SocketAddr> {
        (0..flows)
            .map(|number| {
                let explained = bench.nat.explain(client(number), name().address);
                explained.expect("a node").node
            })
            .collect()
    };
    let before = all(&bench);
    // Some are established: they stay, whatever moves.
    let mut talks: Vec<Talk> = (0..50)
        .map(|number| Talk::open(&mut bench, &format!("10.6.9.{number}"), "10.9.1.100", 4000))
        .collect();
    let node = socket("10.9.2.5:8080");
    bench.change(&Change::Drain {
        service: name(),
        node,
    });
    let after = all(&bench);
    let moved = before
        .iter()
        .zip(&after)
        .filter(|(one, other)| one != other)
        .count();
    assert!(after.iter().all(|&each| each != node));
    let share = moved as f64 / f64::from(flows);
    assert!((0.08..0.12).contains(&share), "{share} of all flows moved");
    talks.iter_mut().for_each(|talk| {
        talk.say(&mut bench, b"still");
        talk.answer(&mut bench, b"here");
    });
}

#[test]
fn weights_are_shares() {
    let mut bench = Bench::new(with(Choice::Maglev, &[3, 1]));
    let [more, less] = shares(&mut bench, 8000)[..] else {
        panic!("two nodes")
    };
    assert!((5800..6200).contains(&more), "{more} and {less}");
    let mut bench = Bench::new(with(Choice::RoundRobin, &[3, 1]));
    assert_eq!(shares(&mut bench, 400), [300, 100]);
    let mut bench = Bench::new(with(Choice::LeastConnections, &[3, 1]));
    assert_eq!(shares(&mut bench, 400), [300, 100]);
}

#[test]
fn a_client_with_affinity_gets_its_node_again() {
    let mut settings = with(Choice::RoundRobin, &[1; 5]);
    settings.services[0].affinity = Some(600 * SECOND);
    let mut bench = Bench::new(settings);
    let first: Vec<_> = (0..20)
        .map(|client| node_of(&mut bench, client, 4000))
        .collect();
    bench.pass(599 * SECOND);
    let again: Vec<_> = (0..20)
        .rev()
        .map(|client| node_of(&mut bench, client, 4001))
        .collect();
    assert_eq!(again, first.iter().rev().copied().collect::<Vec<_>>());
    let explained = bench.nat.explain(socket("10.8.0.3:999"), name().address);
    assert_eq!(explained.expect("a node").why, Why::Affinity);
    assert_eq!(bench.nat.report(bench.now).table.affinities, 20);
    bench.pass(600 * SECOND);
    assert_eq!(bench.nat.report(bench.now).table.affinities, 0);
}

#[test]
fn a_node_that_was_added_gets_its_share_slowly() {
    for choice in [Choice::Maglev, Choice::RoundRobin] {
        let mut settings = with(choice, &[1]);
        settings.services[0].slow_start = 100 * SECOND;
        let mut bench = Bench::new(settings);
        let node = NodeSettings {
            address: socket("10.9.2.9:8080"),
            weight: 1,
        };
        bench.change(&Change::Add {
            service: name(),
            node,
        });
        let share = |bench: &mut Bench, port| {
            let mine = (0..2000).filter(|&client| node_of(bench, client, port) == node.address);
            mine.count() as f64 / 2000.0
        };
        let begin = share(&mut bench, 4000);
        bench.pass(50 * SECOND);
        let middle = share(&mut bench, 4001);
        bench.pass(50 * SECOND);
        let end = share(&mut bench, 4002);
        assert!((0.03..0.12).contains(&begin), "{choice:?} {begin}");
        assert!((0.2..0.4).contains(&middle), "{choice:?} {middle}");
        assert!((0.47..0.53).contains(&end), "{choice:?} {end}");
    }
}

#[test]
fn an_explanation_says_what_happens() {
    for choice in [Choice::Maglev, Choice::LeastConnections, Choice::RoundRobin] {
        let mut bench = Bench::new(with(choice, &[1, 2, 3]));
        for number in 0..50 {
            let client = SocketAddr::new(Ipv4Addr::new(10, 8, 0, number).into(), 4000);
            let before = bench.nat.explain(client, name().address).expect("a node");
            assert_eq!(
                node_of(&mut bench, number.into(), 4000),
                before.node,
                "{before}"
            );
            let after = bench.nat.explain(client, name().address).expect("a node");
            assert_eq!(after.node, before.node);
            assert!(
                matches!(
                    after.why,
                    Why::Connection {
                        state: "half open",
                        ..
                    }
                ),
                "{after}"
            );
        }
        let stranger = bench
            .nat
            .explain(socket("10.8.0.1:1"), socket("10.9.1.100:81"));
        assert!(stranger.is_err());
    }
}
