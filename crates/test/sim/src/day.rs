//! A day of one busy connection.

use lineside_link::{Carrier, State};
use lineside_tcp::Config;
use lineside_tcp::congestion::CUBIC;
use lineside_time::Random;

use crate::scenario::{Change, Scenario, Side, Talk, address, link};

const MINUTE_NS: i64 = 60_000_000_000;
/// Both ends speak for some 24.5 hours: this many times on the average...
const STEPS: u64 = 24 * 3600 + 1800;
/// ...after a second on the average of thinking...
const PAUSE_NS: i64 = 2_000_000_000;
/// ...half of this many bytes.
const STEP_BYTES: u64 = 6_000;

impl Scenario {
    /// One connection that lasts a day and is kept busy: both ends say something of random size,
    /// think, and say more. Every one to five minutes its links change: delay, rate, loss,
    /// reordering, duplication, damage, and in one time of twelve nothing passes.
    pub fn day(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xda_0000);
        let mut changes = Vec::new();
        let mut at_ns = 0;
        while at_ns < 24 * 60 * MINUTE_NS {
            at_ns += MINUTE_NS + random.below(4 * MINUTE_NS as u64) as i64;
            let mut links = [(); 2].map(|()| link(&mut random));
            if random.chance(1.0 / 12.0) {
                // Both ways or one of them.
                let down = random.below(3) as usize;
                for (at, link) in links.iter_mut().enumerate() {
                    link.state = match at == down {
                        true => link.state,
                        false => State::Down {
                            carrier: Carrier::Stays,
                        },
                    };
                }
            }
            changes.push(Change { at_ns, links });
        }
        let [client, server] = [1, 2].map(|last| address(true, last));
        let host = |address, last| {
            let config = Config {
                congestion: &CUBIC,
                // In longer thoughts each end asks whether the other one is there.
                keep_alive_ns: Some(PAUSE_NS / 2),
                // Outages that follow each other end nothing.
                user_timeout_ns: Some(60 * MINUTE_NS),
                retries_max: u8::MAX,
                keep_alive_probes_max: u8::MAX,
                ..Config::new([2, 0, 0, 0, 0, last], &[address])
            };
            (address, config)
        };
        let side = Side {
            bytes: STEPS * STEP_BYTES / 2,
            step: STEP_BYTES,
            pause_ns: PAUSE_NS,
            stops_at: None,
            aborts_at: None,
        };
        Self {
            seed,
            server: host(server, 2),
            clients: vec![host(client, 1)],
            links: [(); 2].map(|()| link(&mut random)),
            changes,
            talks: vec![Talk {
                begins_ns: 0,
                client: 0,
                sides: [side; 2],
            }],
            sample_ns: None,
        }
    }
}
