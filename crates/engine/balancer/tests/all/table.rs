//! The table of connections: timeouts, floods, a day of churn.

use lineside_balancer::{Outcome, Settings, Timeouts};
use lineside_time::Random;
use lineside_wire::TcpFlags;
use lineside_wire::build::TcpFields;

use crate::bench::*;

fn connections(bench: &Bench) -> usize {
    bench.nat.report(bench.now).table.connections
}

#[test]
fn connections_are_forgotten_by_their_state() {
    let timeouts = Timeouts::default();
    // Half open, established, one end finished, both, UDP.
    let mut bench = Bench::new(settings());
    let syn =
        from_client("10.9.1.7", "10.9.1.100").tcp(&segment([4000, 80], 1, TcpFlags::SYN), &[]);
    bench.send_one(CLIENTS, &syn);
    bench.pass(timeouts.half_open - 1);
    assert_eq!(connections(&bench), 1);
    bench.pass(1);
    assert_eq!(connections(&bench), 0);
    let mut talk = Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 4000);
    bench.pass(timeouts.established - 1);
    talk.say(&mut bench, b"still here");
    bench.pass(timeouts.established - 1);
    assert_eq!(connections(&bench), 1);
    bench.pass(1);
    assert_eq!(connections(&bench), 0);
    let mut talk = Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 4000);
    talk.finish(&mut bench);
    bench.pass(timeouts.transitory - 1);
    assert_eq!(connections(&bench), 1);
    bench.pass(1);
    assert_eq!(connections(&bench), 0);
    bench.send_one(
        CLIENTS,
        &from_client("10.9.1.7", "10.9.1.100").udp(4000, 53, b"x"),
    );
    bench.pass(timeouts.unanswered - 1);
    assert_eq!(connections(&bench), 1);
    bench.pass(1);
    assert_eq!(connections(&bench), 0);
    assert_eq!(timeouts.unanswered, 30 * SECOND);
    let (_, question) = bench.send_one(
        CLIENTS,
        &from_client("10.9.1.7", "10.9.1.100").udp(4000, 53, b"x"),
    );
    bench.send_one(NODES, &answer_to(&question));
    bench.pass(timeouts.udp - 1);
    assert_eq!(connections(&bench), 1);
    bench.pass(1);
    assert_eq!(connections(&bench), 0);
    bench.check_identity();
}

#[test]
fn a_closed_connection_gives_way_to_a_new_one() {
    let mut bench = Bench::new(settings());
    Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 4000).finish(&mut bench);
    Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 4000).say(&mut bench, b"new");
    assert_eq!(connections(&bench), 1);
    bench.check_identity();
}

/// A node has the connections before in TIME-WAIT, and drops SYNs of another clock at their ports.
#[test]
fn a_port_that_begins_anew_stays_its_clients() {
    let mut bench = Bench::new(Settings {
        connections_max: 10_000,
        ..settings()
    });
    let mut clients = std::collections::BTreeMap::new();
    for round in 0..4 {
        for client in 1024..4096 {
            let mut talk = Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", client);
            let (node, nat) = (talk.node, talk.seen_as);
            let owner = *clients.entry((node, nat)).or_insert(client);
            assert_eq!(owner, client, "{nat} towards {node}, round {round}");
            talk.finish(&mut bench);
        }
    }
    bench.check_identity();
}

#[test]
fn only_an_expected_reset_ends_a_connection() {
    let mut bench = Bench::new(settings());
    let mut talk = Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 4000);
    talk.answer(&mut bench, b"an answer");
    talk.say(&mut bench, b"");
    let with = |sequence: u32| TcpFields {
        sequence,
        ..segment([4000, 80], 0, TcpFlags::RST)
    };
    // Beyond the window: a stranger's guess.
    assert_eq!(
        talk.send_client(&mut bench, &with(talk.sent[0] + 70_000), &[]),
        []
    );
    assert_eq!(
        talk.send_client(&mut bench, &with(talk.sent[0].wrapping_sub(1 << 30)), &[]),
        []
    );
    assert_eq!(bench.outcome(Outcome::WrongReset), 2);
    // Within the window: its receiver asks back, and the connection stays.
    assert_eq!(
        talk.send_client(&mut bench, &with(talk.sent[0] + 100), &[])
            .len(),
        1
    );
    bench.pass(1_000 * SECOND);
    assert_eq!(connections(&bench), 1);
    assert_eq!(
        talk.send_client(&mut bench, &with(talk.sent[0]), &[]).len(),
        1
    );
    bench.pass(240 * SECOND);
    assert_eq!(connections(&bench), 0);
    bench.check_identity();
}

/// Whatever the client, until none is free.
#[test]
fn no_two_connections_share_a_port_towards_a_node() {
    let mut settings = settings();
    settings.services.truncate(1);
    settings.services[0].nodes.truncate(1);
    settings.connections_max = 70_000;
    let mut bench = Bench::new(settings);
    let mut seen = std::collections::BTreeSet::new();
    let syn_of = |number: u32| {
        let source = format!("10.8.0.{}", number % 250);
        let port = 1024 + (number / 250) as u16;
        from_client(&source, "10.9.1.100").tcp(&segment([port, 80], 1, TcpFlags::SYN), &[])
    };
    for number in 0..63_488_u32 {
        let left = bench.send(CLIENTS, &syn_of(number));
        for (_, bytes) in &left {
            assert!(seen.insert(ends(bytes)[0]), "twice");
        }
    }
    assert_eq!(seen.len(), 63_488, "all of them");
    let table = bench.nat.report(bench.now).table;
    assert_eq!((table.connections, table.evicted), (63_488, 0));
    // The next one has that of the handshake which waits longest, and its node forgets that.
    let left = bench.send(CLIENTS, &syn_of(63_488));
    assert_eq!(left.len(), 2, "a reset and the SYN");
    let table = bench.nat.report(bench.now).table;
    assert_eq!((table.connections, table.evicted), (63_488, 1));
    assert_eq!(bench.outcome(Outcome::NoPort), 0);
    bench.check_identity();
}

#[test]
fn a_flood_of_syns_takes_no_memory_and_no_connection() {
    let mut settings = settings();
    settings.connections_max = 10_000;
    let mut bench = Bench::new(settings);
    let mut talks: Vec<Talk> = (0..200)
        .map(|number| Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 4000 + number))
        .collect();
    let mut random = Random::new(5);
    let mut syn =
        from_client("10.8.0.1", "10.9.1.100").tcp(&segment([1, 80], 1, TcpFlags::SYN), &[]);
    let mut peak = 0;
    for number in 0..1_000_000_u32 {
        let source = (random.bits() as u32 | 0x0100_0000) & 0x7fff_ffff;
        set_source(&mut syn, source, random.bits() as u16 | 1);
        bench.send_quietly(CLIENTS, &syn);
        // The wheel keeps what was cancelled for a while, at most as much as is pending.
        if number == 200_000 {
            peak = bench.budget.used_bytes();
        }
        if number % 10_000 == 0 {
            bench.pass(SECOND / 10);
            let index = (number / 10_000) as usize * 2;
            talks[index].say(&mut bench, b"through");
            talks[index + 1].answer(&mut bench, b"the flood");
            // A new client gets through as well: its handshake is the latest of all.
            let mut new = Talk::open(&mut bench, "10.9.1.8", "10.9.1.100", 4000 + index as u16);
            new.say(&mut bench, b"hello");
        }
    }
    assert_eq!(bench.budget.used_bytes(), peak, "memory is flat");
    assert_eq!(bench.nat.report(bench.now).table.connections, 10_000);
    talks
        .iter_mut()
        .for_each(|talk| talk.say(&mut bench, b"still here"));
    assert_eq!(bench.outcome(Outcome::TableFull), 0);
    bench.check_identity();
}

#[test]
fn a_full_table_of_established_connections_refuses() {
    let mut settings = settings();
    settings.connections_max = 20;
    let mut bench = Bench::new(settings);
    let mut talks: Vec<Talk> = (0..20)
        .map(|number| Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 4000 + number))
        .collect();
    let syn = from_client("10.9.1.8", "10.9.1.100").tcp(&segment([1, 80], 1, TcpFlags::SYN), &[]);
    assert_eq!(bench.send(CLIENTS, &syn), []);
    assert_eq!(bench.outcome(Outcome::TableFull), 1);
    assert_eq!(
        bench.nat.report(bench.now).services[0]
            .refused
            .of(Outcome::TableFull),
        1
    );
    talks
        .iter_mut()
        .for_each(|talk| talk.say(&mut bench, b"still here"));
}

/// What comes and goes all day leaves nothing.
#[test]
fn a_day_of_churn_leaks_nothing() {
    let mut settings = settings();
    settings.connections_max = 5_000;
    settings.services[1].affinity = Some(100 * SECOND);
    let mut bench = Bench::new(settings);
    let fresh = bench.budget.used_bytes();
    let mut random = Random::new(11);
    let mut peaks = Vec::new();
    for minute in 0..24 * 60 {
        for _ in 0..40 {
            let port = 1024 + random.below(60_000) as u16;
            let source = format!("10.8.{}.{}", random.below(200), 1 + random.below(200));
            match random.below(5) {
                0 => {
                    let client = from_client(&source, "10.9.1.100");
                    bench.send(CLIENTS, &client.udp(port, 53, b"question"));
                }
                1 => {
                    let syn = segment([port, 80], 1, TcpFlags::SYN);
                    let client = from_client(&source, "10.9.1.100");
                    bench.send(CLIENTS, &client.tcp(&syn, &[]));
                }
                2 => drop(Talk::open(
                    &mut bench,
                    &format!("10.7.{}.1", minute % 250),
                    "10.9.1.100",
                    port,
                )),
                _ => {
                    let source = format!("fd00:1::{minute:x}:{port:x}");
                    Talk::open(&mut bench, &source, "fd00:1::100", port).finish(&mut bench);
                }
            }
        }
        bench.pass(60 * SECOND);
        if minute % 360 == 359 {
            peaks.push(bench.budget.used_bytes());
        }
    }
    bench.check_identity();
    bench.pass(10_000 * SECOND);
    let report = bench.nat.report(bench.now);
    assert_eq!(
        (
            report.table.connections,
            report.table.half_open,
            report.table.affinities
        ),
        (0, 0, 0)
    );
    assert_eq!(bench.nat.held(), 0);
    assert!(
        report
            .services
            .iter()
            .all(|service| service.connections == 0)
    );
    assert!(peaks[3] <= peaks[1], "memory does not grow: {peaks:?}");
    assert!(
        bench.nat.next_deadline().is_none(),
        "nothing is due any more"
    );
    let budget = bench.budget.clone();
    assert!(fresh > 0);
    drop(bench);
    assert_eq!(budget.used_bytes(), 0, "all of it is given back");
}

/// Changes who sends a TCP frame, as whoever forges them does.
fn set_source(frame: &mut [u8], address: u32, port: u16) {
    use lineside_wire::{ipv4, tcp};
    let source = std::net::Ipv4Addr::from_bits(address);
    let mut packet = ipv4::Packet::new_unchecked(&mut frame[14..34]);
    packet.set_source(source);
    packet.fill_checksum();
    let destination = packet.destination();
    let mut segment = tcp::Segment::new_unchecked(&mut frame[34..]);
    segment.set_source_port(port);
    segment.fill_checksum(source.into(), destination.into());
}

#[test]
fn silent_nodes_hold_frames_for_a_while() {
    let mut bench = Bench::new(Settings {
        connections_max: 5_000,
        ..settings()
    });
    bench.silent = vec![address("10.9.2.2"), address("10.9.2.3")];
    for number in 0..500 {
        let syn = segment([4000 + number, 80], 1, TcpFlags::SYN);
        let frame = from_client("10.9.1.7", "10.9.1.100").tcp(&syn, &[]);
        assert_eq!(bench.send(CLIENTS, &frame), []);
    }
    assert_eq!(bench.nat.held(), 200, "a hundred for each node");
    bench.check_identity();
    bench.pass(10 * SECOND);
    assert_eq!(bench.nat.held(), 0);
    assert_eq!(bench.outcome(Outcome::NoNeighbour), 200);
    assert_eq!(bench.outcome(Outcome::NeighbourFull), 300);
    bench.check_identity();
}

#[test]
fn cookies_for_want_of_room_are_counted() {
    let mut settings = settings();
    settings.cookies_above = Some(0.0);
    let mut bench = Bench::new(settings);
    let syn = segment([4000, 80], 1, TcpFlags::SYN);
    let syn = from_client("10.9.1.7", "10.9.1.100").tcp(&syn, &[]);
    bench.send(CLIENTS, &syn);
    let table = bench.nat.report(bench.now).table;
    assert_eq!((table.cookies, table.connections), (1, 0));
}
