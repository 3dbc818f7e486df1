//! Fragments go where their first went.

use lineside_balancer::Outcome;
use lineside_wire::build::FrameBuilder;
use lineside_wire::{Dissected, PROTOCOL_UDP, checksum, dissect};

use crate::bench::*;

const PAIRS: [[&str; 2]; 2] = [["10.9.1.7", "10.9.1.100"], ["fd00:1::7", "fd00:1::100"]];

fn pieces(source: &str, ours: &str, identification: u32) -> Vec<Vec<u8>> {
    let client = from_client(source, ours).with_identification(identification);
    let datagram = client.udp_datagram(4000, 53, &[7; 3000]);
    client.fragments(PROTOCOL_UDP, &datagram, 1000)
}

/// Puts together what left, and checks the datagram's checksum.
fn is_whole(left: &[(usize, Vec<u8>)]) -> bool {
    let mut whole = vec![0; 3008];
    let mut ends = None;
    let mut len = 0;
    for (_, bytes) in left {
        let Dissected::Fragment(ip, fragment) = dissect(1, bytes, bytes.len()) else {
            return false;
        };
        let part = &bytes[ip.payload..][..ip.payload_len];
        whole[fragment.offset..fragment.offset + part.len()].copy_from_slice(part);
        len += part.len();
        assert!(ends.is_none_or(|ends| ends == [ip.source, ip.destination]));
        ends = Some([ip.source, ip.destination]);
    }
    let Some([source, destination]) = ends else {
        return false;
    };
    len == 3008 && checksum::transport(source, destination, PROTOCOL_UDP, &whole) == 0
}

#[test]
fn fragments_pass_in_any_order_and_both_ways() {
    for [source, ours] in PAIRS {
        let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]];
        for order in orders {
            let mut bench = Bench::new(settings());
            let pieces = pieces(source, ours, 77);
            assert_eq!(pieces.len(), 4);
            let mut left = Vec::new();
            for index in order {
                left.extend(bench.send(CLIENTS, &pieces[index]));
            }
            assert_eq!(left.len(), 4);
            assert!(is_whole(&left), "{order:?}");
            assert_eq!(bench.nat.held(), 0);
            // The answer is in fragments, too.
            let Dissected::Fragment(ip, _) = dissect(1, &left[0].1, left[0].1.len()) else {
                panic!("a fragment")
            };
            let report = bench.nat.report(bench.now);
            assert_eq!(report.table.connections, 1);
            let first = { left.iter() }
                .find(|(_, bytes)| match dissect(1, bytes, bytes.len()) {
                    Dissected::Fragment(_, fragment) => fragment.offset == 0,
                    _ => false,
                })
                .expect("the first");
            let Dissected::Fragment(first_ip, _) = dissect(1, &first.1, first.1.len()) else {
                panic!("a fragment")
            };
            let at = first_ip.payload;
            let nat_port = u16::from_be_bytes([first.1[at], first.1[at + 1]]);
            let node = FrameBuilder::new(ip.destination, ip.source)
                .with_identification(78)
                .with_link_addresses(node_ethernet(ip.destination), OURS[NODES]);
            let datagram = node.udp_datagram(8080, nat_port, &[9; 3000]);
            let mut back = Vec::new();
            for piece in node.fragments(PROTOCOL_UDP, &datagram, 1000) {
                back.extend(bench.send(NODES, &piece));
            }
            assert!(is_whole(&back));
            bench.check_identity();
        }
    }
}

#[test]
fn fragments_without_a_first_are_held_and_dropped_in_time() {
    for [source, ours] in PAIRS {
        let mut bench = Bench::new(settings());
        for identification in 0..100 {
            for piece in &pieces(source, ours, identification)[1..] {
                assert_eq!(bench.send(CLIENTS, piece), []);
            }
        }
        assert_eq!(bench.nat.held(), 256, "bounded");
        assert_eq!(bench.outcome(Outcome::FragmentsFull), 44);
        bench.nat.spill(usize::MAX);
        bench.check_identity();
        bench.pass(29 * SECOND);
        assert_eq!(bench.nat.held(), 256);
        bench.pass(SECOND);
        assert_eq!(bench.nat.held(), 0);
        assert_eq!(bench.outcome(Outcome::NoFirstFragment), 256);
        bench.check_identity();
    }
}

#[test]
fn fragments_for_strangers_are_not_held() {
    let mut bench = Bench::new(settings());
    for piece in &pieces("10.9.1.7", "10.9.1.99", 1)[1..] {
        assert_eq!(bench.send(CLIENTS, piece), []);
    }
    assert_eq!((bench.nat.held(), bench.outcome(Outcome::NotOurs)), (0, 3));
}
