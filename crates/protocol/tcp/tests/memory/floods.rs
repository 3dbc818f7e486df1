//! Whoever sends as fast as the link bears. A million segments each; `LINESIDE_FLOOD=N` sends N.

use lineside_tcp::Config;
use lineside_time::Random;
use lineside_wire::build::TcpFields;
use lineside_wire::tcp::{SackBlocks, TcpOption};
use lineside_wire::{SeqNumber, TcpFlags};

use crate::duel::{CLIENT, Duel, LIAR, PORT, content, liars};

/// Segments of a burst.
const BURST: u64 = 64;
/// A million in a second.
const STEP_NS: i64 = 1000 * BURST as i64;

fn flood_len() -> u64 {
    let text = std::env::var("LINESIDE_FLOOD").unwrap_or_default();
    text.parse().unwrap_or(1_000_000)
}

fn stranger(random: &mut Random) -> [u8; 4] {
    let bits = random.bits() as u32;
    [
        11 + (bits >> 24) as u8 % 180,
        (bits >> 16) as u8,
        (bits >> 8) as u8,
        bits as u8,
    ]
}

/// `forge` adds each segment; between bursts the honest connection talks, and others open.
fn flood(duel: &mut Duel, mut forge: impl FnMut(&mut Duel, &mut Random)) {
    let mut random = Random::new(7);
    let first = duel.open();
    let bursts = flood_len() / BURST;
    for burst in 0..bursts {
        for _ in 0..BURST {
            forge(duel, &mut random);
        }
        duel.attack();
        duel.now += STEP_NS;
        if burst % (bursts / 16).max(1) == 0 {
            duel.talk(first, 100_000);
            let another = duel.open();
            duel.talk(another, 100_000);
            duel.expect_within_budget();
        }
    }
    duel.talk(first, 1_000_000);
    assert_eq!(duel.owners[0].closed, 0, "no connection is lost");
    duel.expect_within_budget();
}

#[test]
fn spoofed_syns_take_no_more_than_their_share() {
    let mut duel = Duel::new(80 << 20, |config| {
        (config.connections_max, config.active_max) = (100_000, 20_000);
        config.half_open_max = 1000;
    });
    let mut options = [0; 20];
    let rest = TcpOption::Mss(1460).emit(&mut options);
    TcpOption::SackPermitted.emit(rest);
    flood(&mut duel, |duel, random| {
        let fields = TcpFields {
            source_port: random.bits() as u16,
            destination_port: PORT,
            sequence: random.bits() as u32,
            flags: TcpFlags::SYN,
            options: &options,
            ..TcpFields::default()
        };
        let source = stranger(random);
        duel.forge(source, &fields, &[]);
        assert!(duel.server.connections() < 1000 + 100);
    });
    let counters = duel.server.counters();
    assert!(
        counters.cookies_taken > 10,
        "honest clients come by cookies"
    );
    assert!(counters.cookies_sent > flood_len() - 2000);
    assert_eq!(counters.cookies_failed, 0);
}

#[test]
fn spoofed_acks_and_rsts_end_nothing() {
    let mut duel = Duel::new(80 << 20, |config| {
        (config.connections_max, config.active_max) = (100_000, 20_000);
        // Cookies are awaited, so that each acknowledgement is looked at.
        config.half_open_max = 0;
    });
    flood(&mut duel, |duel, random| {
        let is_blind = random.chance(0.5);
        let flags = [
            TcpFlags::ACK,
            TcpFlags::RST,
            TcpFlags::RST | TcpFlags::ACK,
            TcpFlags::FIN | TcpFlags::ACK,
            TcpFlags::SYN | TcpFlags::ACK,
            TcpFlags(random.bits() as u8),
        ][random.below(6) as usize];
        let fields = TcpFields {
            // The client's connections, if the guess is right.
            source_port: match is_blind {
                true => 49_152 + random.below(16_384) as u16,
                false => random.bits() as u16,
            },
            destination_port: PORT,
            sequence: random.bits() as u32,
            acknowledgement: random.bits() as u32,
            flags,
            ..TcpFields::default()
        };
        let source = if is_blind { CLIENT } else { stranger(random) };
        let payload = [0x5a; 16];
        let len = random.below(16) as usize;
        duel.forge(source, &fields, &payload[..len]);
    });
}

fn small(config: &mut Config) {
    (config.connections_max, config.active_max) = (2000, 1000);
    (config.timestamps, config.half_open_max) = (false, 100);
}

#[test]
fn acknowledgements_of_what_was_not_received_harm_nobody() {
    let mut duel = Duel::new(64 << 20, small);
    let (id, iss) = duel.open_liar(0, &[], 65_535);
    duel.send(id, u64::MAX / 2);
    flood(&mut duel, |duel, random| {
        let end = duel.owners[0].to_liar[0].end;
        let ack = match random.below(3) {
            0 => end,
            1 => end.wrapping_add(random.below(1 << 20) as u32),
            _ => iss.wrapping_add(random.bits() as u32),
        };
        duel.forge(LIAR, &liars(0, ack, 1), &[]);
    });
    assert!(duel.owners[0].acknowledged[id.0 as usize] > 0);
}

#[test]
fn selective_acknowledgements_that_lie_harm_nobody() {
    let mut duel = Duel::new(64 << 20, small);
    let mut permitted = [0; 4];
    TcpOption::SackPermitted.emit(&mut permitted);
    let (id, iss) = duel.open_liar(0, &permitted, 65_535);
    duel.send(id, u64::MAX / 2);
    flood(&mut duel, |duel, random| {
        let end = duel.owners[0].to_liar[0].end;
        let flight = u64::from(end.wrapping_sub(iss)) + 10;
        let blocks = [(); 3].map(|()| {
            let [from, to] = [(); 2].map(|()| match random.chance(0.9) {
                true => iss.wrapping_add(random.below(flight) as u32),
                false => random.bits() as u32,
            });
            SackBlocks::block(SeqNumber(from), SeqNumber(to))
        });
        let mut options = [0; 28];
        TcpOption::Sack(SackBlocks::new(&blocks)).emit(&mut options);
        let mut fields = liars(0, iss, 1);
        fields.options = &options;
        duel.forge(LIAR, &fields, &[]);
    });
    // An honest acknowledgement counts all the same.
    let end = duel.owners[0].to_liar[0].end;
    duel.forge(LIAR, &liars(0, end, 1), &[]);
    duel.attack();
    let acknowledged = duel.owners[0].acknowledged[id.0 as usize];
    assert_eq!(acknowledged, u64::from(end.wrapping_sub(iss)));
}

#[test]
fn single_bytes_in_any_order_arrive() {
    let mut duel = Duel::new(64 << 20, small);
    let (id, iss) = duel.open_liar(0, &[], 65_535);
    let at = id.0 as usize;
    flood(&mut duel, |duel, random| {
        let next = duel.owners[0].received[at];
        // Bytes beyond what is held come again, as a sender would send them.
        let ahead = [128, 3000][random.below(2) as usize];
        let offset = next + random.below(ahead);
        let byte = content(offset);
        duel.forge(LIAR, &liars(0, iss, 1 + offset as u32), &[byte]);
    });
    assert!(duel.owners[0].received[at] > flood_len() / 8);
}

#[test]
fn windows_that_stay_closed_hold_nobody_up() {
    let mut duel = Duel::new(64 << 20, small);
    let mut open = Vec::new();
    for port in 0..500 {
        let (id, iss) = duel.open_liar(port, &[], 0);
        duel.send(id, 1 << 40);
        open.push((port, iss, id));
    }
    let first = duel.open();
    for _ in 0..200 {
        for &(port, iss, _) in &open {
            let mut fields = liars(port, iss, 1);
            fields.window = 0;
            duel.forge(LIAR, &fields, &[]);
        }
        duel.attack();
        duel.now += 60_000_000_000;
        duel.pass();
        duel.introduce(LIAR);
    }
    duel.talk(first, 1_000_000);
    assert_eq!(duel.owners[0].closed, 0);
    assert!(duel.server.counters().probes > 500 * 100);
    for (_, _, id) in open {
        assert_eq!(duel.owners[0].acknowledged[id.0 as usize], 0);
    }
    duel.expect_within_budget();
}
