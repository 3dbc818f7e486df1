//! What a seed makes of a run.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lineside_link::{Carrier, Chance, Loss, PathFile, Schedule, Settings, State, words};
use lineside_tcp::Config;
use lineside_tcp::congestion::{CUBIC, NEW_RENO};
use lineside_time::Random;

/// What one of the ends says in a connection.
#[derive(Debug, Clone, Copy)]
pub struct Side {
    /// Bytes in all.
    pub bytes: u64,
    /// The most that it says at once.
    pub step: u64,
    /// The longest time between two steps.
    pub pause_ns: i64,
    /// After this many received bytes it takes no more for a while.
    pub stops_at: Option<u64>,
    /// It aborts the connection after sending and receiving this many bytes.
    pub aborts_at: Option<u64>,
}

/// A connection.
#[derive(Debug, Clone, Copy)]
pub struct Talk {
    /// When it begins, from the run's beginning.
    pub begins_ns: i64,
    /// The place of its client among the clients.
    pub client: usize,
    /// What the client and the server say.
    pub sides: [Side; 2],
}

/// From some time on the links have other settings.
#[derive(Debug, Clone)]
pub struct Change {
    /// When, from the run's beginning.
    pub at_ns: i64,
    /// Of the links from the clients and to them.
    pub links: [Settings; 2],
}

/// A run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Of every draw.
    pub seed: u64,
    /// The server's address and stack.
    pub server: (IpAddr, Config),
    /// The clients'; each has its own Ethernet address.
    pub clients: Vec<(IpAddr, Config)>,
    /// Of the links from the clients and to them, at first.
    pub links: [Settings; 2],
    /// The events that hit them, in the order of time.
    pub changes: Vec<Change>,
    /// The connections, each client's from its first port on.
    pub talks: Vec<Talk>,
    /// After each such time the run reads how much of each talk the server has received.
    pub sample_ns: Option<i64>,
}

impl Scenario {
    /// The scenario of a seed: loss, reordering, duplication, damage, outages, stalls, rates,
    /// options, sizes, connections that are aborted; in a fifth of all, two to four clients.
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let is_ipv4 = random.chance(0.7);
        let [client, server] = [1, 2].map(|last| address(is_ipv4, last));
        let mtu = [1500, 1500, 9000, 576, 1280][random.below(5) as usize];
        let mtu = if is_ipv4 { mtu } else { mtu.max(1280) };
        let host = |address, random: &mut Random| (address, config(address, mtu, random));
        let client = host(client, &mut random);
        let mut server = host(server, &mut random);
        let mut links = [(); 2].map(|()| link(&mut random));
        let mut of_stalls = Random::new(!seed);
        for link in &mut links {
            if of_stalls.chance(0.15) {
                link.schedule = Some(Schedule::Path(stalls(link, &mut of_stalls)));
            }
        }
        let mut clients = vec![client];
        let mut of_others = Random::new(seed.rotate_left(32) ^ 0x07e5);
        if of_others.chance(0.2) {
            let last = 3 + of_others.below(3) as u8;
            clients.extend((3..=last).map(|last| host(address(is_ipv4, last), &mut of_others)));
        }
        let count = (1 + random.below(4) as usize).max(clients.len());
        let talks = (0..count).map(|number| Talk {
            begins_ns: random.below(500_000_000) as i64,
            client: number % clients.len(),
            sides: [(); 2].map(|()| side(&mut random)),
        });
        let talks: Vec<_> = talks.collect();
        if talks.iter().any(|talk| may_break(&talk.sides)) {
            // The RST may be lost: an end that has nothing to send learns it by asking.
            for (_, config) in clients.iter_mut().chain([&mut server]) {
                config.keep_alive_ns = Some(30_000_000_000);
                config.keep_alive_interval_ns = 10_000_000_000;
            }
        }
        Self {
            seed,
            server,
            clients,
            links,
            changes: Vec::new(),
            talks,
            sample_ns: None,
        }
    }
}

/// An address of the network between the hosts.
pub(crate) fn address(is_ipv4: bool, last: u8) -> IpAddr {
    match is_ipv4 {
        true => Ipv4Addr::new(10, 0, 0, last).into(),
        false => Ipv6Addr::from_bits(0xfd << 120 | u128::from(last)).into(),
    }
}

/// Whether one of the ends aborts the connection.
pub(crate) fn may_break(sides: &[Side; 2]) -> bool {
    sides.iter().any(|side| side.aborts_at.is_some())
}

fn config(address: IpAddr, mtu: usize, random: &mut Random) -> Config {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    let window = [1 << 20, 1 << 18, 65_535, 20_000, 3_000, 100_000][random.below(6) as usize];
    Config {
        mtu,
        receive_window_bytes: window,
        timestamps: random.chance(0.7),
        sack: random.chance(0.7),
        nagle: random.chance(0.5),
        congestion: match random.chance(0.5) {
            true => &NEW_RENO,
            false => &CUBIC,
        },
        delayed_ack_ns: [40_000_000, 200_000_000, 1_000_000][random.below(3) as usize],
        ..Config::new([2, 0, 0, 0, 0, last], &[address])
    }
}

pub(crate) fn link(random: &mut Random) -> Settings {
    let share = |random: &mut Random, most: f64| match random.chance(0.6) {
        true => random.below(1000) as f64 / 1000.0 * most,
        false => 0.0,
    };
    let chance = |share: f64| Chance {
        share,
        ..Chance::default()
    };
    let delay_us = [10, 200, 2_000, 20_000, 60_000][random.below(5) as usize];
    let jitter_us = delay_us * random.below(50) / 100;
    let order = if random.chance(0.5) {
        "order reorder"
    } else {
        ""
    };
    let text = format!("{delay_us}us {jitter_us}us distribution normal {order}");
    let text = if jitter_us == 0 {
        format!("{delay_us}us")
    } else {
        text
    };
    let rate = match random.below(4) {
        0 => Some("2mbit"),
        1 => Some("20mbit"),
        2 => Some("1gbit"),
        _ => None,
    };
    Settings {
        loss: Loss::Random(chance(share(random, 0.05))),
        duplicate: chance(share(random, 0.03)),
        reorder: chance(share(random, 0.03)),
        corrupt: chance(share(random, 0.02)),
        state: match random.chance(0.1) {
            // Mostly up: at worse odds a dozen retransmissions in a row are lost, and a connection
            // ends as it should.
            true => {
                let up_ns = 500_000_000 + random.below(5_000_000_000);
                let down_ns = 1 + random.below(up_ns / 4);
                State::Flapping {
                    up_ns,
                    down_ns,
                    carrier: Carrier::Stays,
                }
            }
            false => State::Up,
        },
        delay: words::delay(&text, &mut words::no_files).expect("words of a delay"),
        rate: rate.map(|rate| words::rate(rate).expect("words of a rate")),
        ..Settings::default()
    }
}

/// Now and then a path holds what it has for longer than a timeout, as one over a radio does: the
/// data are late, and none are lost.
fn stalls(link: &Settings, random: &mut Random) -> PathFile {
    let delay_us = link.delay.base_ns / 1000;
    let up_ms = 200 + random.below(3_000);
    let stalled_us = delay_us + 300_000 + random.below(500_000);
    let end_ms = up_ms + 1 + random.below(300);
    let text =
        format!("time delay\n0s {delay_us}us\n{up_ms}ms {stalled_us}us\n{end_ms}ms repeat\n");
    PathFile::read("stalls", &text).expect("its form is that of a path file")
}

fn side(random: &mut Random) -> Side {
    let bytes = match random.below(6) {
        0 => 0,
        1 => 1 + random.below(100),
        2 | 3 => random.below(20_000),
        4 => random.below(150_000),
        _ => random.below(400_000),
    };
    let step = [bytes, 1 + bytes / 3, 1 + bytes / 20, 4096][random.below(4) as usize].max(1);
    Side {
        bytes,
        step,
        pause_ns: [0, 1_000_000, 50_000_000, 600_000_000][random.below(4) as usize],
        stops_at: random.chance(0.2).then(|| random.below(100_000)),
        aborts_at: random.chance(0.06).then(|| random.below(2 * bytes + 1)),
    }
}
