//! Whatever comes: nothing panics, and each frame has one outcome.

use lineside_nat::Outcome;
use lineside_wire::{TcpFlags, ipv4};
use proptest::prelude::*;

use crate::bench::*;

/// Frames of all kinds that are right, to be damaged.
fn frames() -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    for [source, ours] in [["10.9.1.7", "10.9.1.100"], ["fd00:1::7", "fd00:1::100"]] {
        let client = from_client(source, ours);
        all.push((
            CLIENTS,
            client.tcp(&segment([4000, 80], 1, TcpFlags::SYN), &[]),
        ));
        all.push((
            CLIENTS,
            client.tcp(&segment([4000, 80], 2, TcpFlags::ACK), &[7; 40]),
        ));
        all.push((CLIENTS, client.udp(4000, 53, &[9; 40])));
        let datagram = client.udp_datagram(4001, 53, &[7; 100]);
        all.extend(
            client
                .fragments(17, &datagram, 48)
                .into_iter()
                .map(|piece| (CLIENTS, piece)),
        );
        let mut message = vec![0; 8 + 48];
        let packet = client.udp(4000, 53, &[9; 40])[14..].to_vec();
        let ends = [address(source), address(ours)];
        let failure = lineside_wire::icmp::Failure::TooBig(1300);
        lineside_wire::icmp::emit_error(failure, &packet, ends, &mut message);
        let protocol = if source.contains(':') { 58 } else { 1 };
        all.push((CLIENTS, client.packet(protocol, &message)));
    }
    let mut arp = vec![0; 42];
    arp[..6].fill(0xff);
    arp[12..14].copy_from_slice(&[8, 6]);
    all.push((NODES, arp));
    all
}

/// A packet that is longer than its frame has lost its end: nobody can mend it.
#[test]
fn a_packet_longer_than_its_frame_is_dropped() {
    let mut bench = Bench::new(settings());
    let damaged = frames().into_iter().filter(|(port, _)| *port == CLIENTS);
    let mut count = 0;
    for (port, mut bytes) in damaged {
        if bytes[14] >> 4 == 4 {
            let mut packet = ipv4::Packet::new_unchecked(&mut bytes[14..34]);
            let len = packet.total_len() + 8;
            packet.set_total_len(len as u16);
            packet.fill_checksum();
        } else {
            bytes[19] += 8;
        }
        count += 1;
        assert_eq!(bench.send(port, &bytes), [], "{bytes:02x?}");
    }
    assert_eq!(bench.outcome(Outcome::Malformed), count);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn damaged_frames_have_one_outcome_each(
        steps in proptest::collection::vec(
            (
                any::<u8>(),
                proptest::collection::vec((any::<u8>(), any::<u8>()), 0..4),
                any::<u8>(),
                any::<bool>(),
            ),
            1..60,
        ),
    ) {
        let all = frames();
        let mut bench = Bench::new(settings());
        let mut last: Option<Vec<u8>> = None;
        for (which, damage, cut, turns) in steps {
            let (port, mut bytes) = match last.take().filter(|_| turns) {
                // What left comes back, as from a node.
                Some(bytes) => (NODES, turned(&bytes)),
                None => all[usize::from(which) % all.len()].clone(),
            };
            for (at, byte) in damage {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            if cut < 40 {
                bytes.truncate(usize::from(cut) * 3);
            }
            let left = bench.send(port, &bytes);
            last = left.into_iter().next().map(|(_, bytes)| bytes).filter(|bytes| {
                bytes.len() > 58 && matches!(bytes[14] >> 4, 4 | 6)
            });
            bench.pass(i64::from(cut) * SECOND / 4);
            bench.check_identity();
        }
        bench.pass(10_000 * SECOND);
        bench.check_identity();
        prop_assert_eq!(bench.nat.report(bench.now).table.connections, 0);
        prop_assert_eq!(bench.nat.held(), 0);
    }
}
