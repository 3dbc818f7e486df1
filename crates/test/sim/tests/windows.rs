//! Which senders the tap finds waiting for room in the receiver's window: those that have more to
//! send, and no others. The tap is at the server, so it sees the client's data where they arrive
//! and the server's where they leave.

use std::net::IpAddr;

use lineside_link::{Limit, Settings, words};
use lineside_sim::{Outcome, Scenario, Side, Talk, run};
use lineside_tcp::Config;
use lineside_tcp::congestion::{CUBIC, NEW_RENO};
use lineside_time::Random;

const BYTES: u64 = 600_000;
const SEEDS: u64 = 60;

/// One end sends `BYTES`.
struct Stream {
    from_server: bool,
    /// Bytes at once, and the longest time between.
    step: u64,
    pause_ns: i64,
    window: u32,
    delay_us: u64,
    rate: Option<&'static str>,
    queue: Limit,
}

impl Stream {
    /// All is sent at once.
    fn draw(random: &mut Random) -> Self {
        Self {
            from_server: random.chance(0.5),
            step: BYTES,
            pause_ns: 0,
            window: 1 << 20,
            delay_us: [500, 2_000, 10_000, 40_000][random.below(4) as usize],
            rate: None,
            queue: Limit::default(),
        }
    }

    fn run(&self, seed: u64) -> Outcome {
        let mut random = Random::new(seed);
        let mut host = |last: u8| {
            let address = IpAddr::from([10, 0, 0, last]);
            let config = Config {
                mtu: [1500, 9000, 576][random.below(3) as usize],
                receive_window_bytes: self.window,
                timestamps: random.chance(0.7),
                sack: random.chance(0.7),
                nagle: random.chance(0.3),
                congestion: match random.chance(0.5) {
                    true => &NEW_RENO,
                    false => &CUBIC,
                },
                time_wait_ns: 1_000_000,
                delayed_ack_ns: [40_000_000, 1_000_000][random.below(2) as usize],
                ..Config::new([2, 0, 0, 0, 0, last], &[address])
            };
            (address, config)
        };
        let link = || Settings {
            delay: words::delay(&format!("{}us", self.delay_us), &mut words::no_files)
                .expect("words of a delay"),
            rate: { self.rate }.map(|rate| words::rate(rate).expect("words of a rate")),
            limit: self.queue,
            ..Settings::default()
        };
        let side = |bytes| Side {
            bytes,
            step: self.step,
            pause_ns: self.pause_ns,
            stops_at: None,
            aborts_at: None,
        };
        let mut sides = [side(BYTES), side(0)];
        if self.from_server {
            sides.reverse();
        }
        let scenario = Scenario {
            seed,
            server: host(1),
            clients: vec![host(2)],
            links: [link(), link()],
            changes: Vec::new(),
            talks: vec![Talk {
                begins_ns: 0,
                client: 0,
                sides,
            }],
            sample_ns: None,
        };
        run(&scenario).expect("every byte arrives")
    }

    /// How often the end that sends waited; the other one never does.
    fn waits(&self, seed: u64) -> u64 {
        let waits = self.run(seed).window_waits;
        let sender = usize::from(self.from_server);
        assert_eq!(waits[1 - sender], 0, "seed {seed}");
        waits[sender]
    }
}

#[test]
fn senders_that_the_window_limits_wait_for_room() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let stream = Stream {
            // At the receiver's end acknowledgements leave before the sender has used up its room.
            from_server: true,
            // No multiple of a segment.
            window: 12_000 + random.below(40_000) as u32,
            ..Stream::draw(&mut random)
        };
        let (waits, rounds) = (stream.waits(seed), BYTES / u64::from(stream.window));
        assert!(
            4 * waits >= 3 * rounds,
            "seed {seed}: {waits} in {rounds} rounds"
        );
    }
}

#[test]
fn senders_that_pause_do_not_wait_for_room() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let step = 10_000 + random.below(50_000);
        let stream = Stream {
            step,
            // Some steps come within a round trip of others.
            pause_ns: 400_000_000,
            delay_us: 500 + random.below(1_500),
            // The last bytes of a step leave little room.
            window: (step + random.below(1_500)) as u32,
            ..Stream::draw(&mut random)
        };
        let waits = stream.waits(seed);
        let steps = BYTES / step;
        assert!(4 * waits <= steps, "seed {seed}: {waits} in {steps} steps");
    }
}

#[test]
fn senders_that_the_path_limits_do_not_wait_for_room() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let stream = Stream {
            rate: Some(["2mbit", "20mbit"][random.below(2) as usize]),
            queue: Limit::Bytes(20_000 + random.below(80_000)),
            ..Stream::draw(&mut random)
        };
        let waits = stream.waits(seed);
        assert_eq!(waits, 0, "seed {seed}");
    }
}
