//! The floor under a request and its answer: a frame each way through our ports, and nothing else.
//!
//! ```text
//! bare_pairs IF answer              # sends each frame back, until it is interrupted
//! bare_pairs IF ask MAC SECONDS     # 64 under way; prints how many came back
//! bare_pairs IF pace MAC SECONDS RATE   # one at each instant, by a loop that spins on it
//! ```
//!
//! Frames are of 118 bytes, as of a request of HTTP on an open connection. It does not show what
//! TCP or HTTP cost: that is what it is compared with (`bench/load/run`).

use std::error::Error;

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_host::{RunClock, Signals};
use lineside_port::live::{Interface, LiveOptions, StampClock, open_each};
use lineside_reactor::{Account, Engine, Reactor, Sides, Wait};
use lineside_time::{Clock, Nanoseconds};

/// For experiments (IEEE 802, 9.2.3): no kernel takes it.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
/// A frame that was lost is sent again after this time: a ring of a veth may be full at the start.
const AGAIN_NS: i64 = 100_000_000;
/// As of a request of HTTP on an open connection.
const FRAME_BYTES: usize = 118;
const UNDER_WAY: usize = 64;

struct Pairs {
    own: [u8; 6],
    /// What is sent; an answerer sends what came.
    asked: Option<Asked>,
    out: Vec<Frame>,
}

struct Asked {
    frame: Vec<u8>,
    came: u64,
    /// When the next frame leaves, or all are sent again.
    next_ns: Nanoseconds,
    /// Between two frames; `None`: each is the answer to one.
    gap_ns: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
struct Left(Nanoseconds);

impl Account for Left {
    fn entered_ns(&self) -> Nanoseconds {
        self.0
    }

    fn at_ns(&self) -> Nanoseconds {
        self.0
    }
}

fn framed(bytes: &[u8]) -> Frame {
    let descriptor = Descriptor {
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    Frame::copied(bytes, descriptor)
}

impl Engine for Pairs {
    type Account = Left;

    fn on_burst(&mut self, now: Nanoseconds, _: usize, burst: &mut Burst) {
        for frame in burst.drain(..) {
            let bytes = frame.bytes();
            if bytes.get(..6) != Some(&self.own) || bytes.get(12..14) != Some(&ETHER_TYPE) {
                continue;
            }
            match &mut self.asked {
                Some(asked) => {
                    asked.came += 1;
                    if asked.gap_ns.is_none() {
                        asked.next_ns = now + AGAIN_NS;
                        self.out.push(framed(&asked.frame));
                    }
                }
                None => {
                    let mut back = bytes.to_vec();
                    back[..6].copy_from_slice(&bytes[6..12]);
                    back[6..12].copy_from_slice(&self.own);
                    self.out.push(framed(&back));
                }
            }
        }
    }

    fn on_timer(&mut self, now: Nanoseconds, _: Nanoseconds, out: &mut Sides<Left>) {
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.next_ns <= now) {
            let (count, wait_ns) = match asked.gap_ns {
                Some(gap_ns) => (1, gap_ns),
                None => (UNDER_WAY, now - asked.next_ns + AGAIN_NS),
            };
            asked.next_ns += wait_ns;
            self.out.extend((0..count).map(|_| framed(&asked.frame)));
        }
        for frame in self.out.drain(..) {
            out.send(0, frame, Left(now));
        }
    }

    fn next_deadline(&self) -> Option<Nanoseconds> {
        self.asked.as_ref().map(|asked| asked.next_ns)
    }

    fn held(&self) -> usize {
        0
    }

    fn spill(&mut self, _: usize) {}

    fn on_sent(&mut self, _: Left, _: Nanoseconds) {}

    fn on_unsent(&mut self, _: Left, _: &Frame) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |place: usize| words.get(place).map(String::as_str);
    let number = |place: usize, default: u64| word(place).map_or(Ok(default), str::parse);
    let interface = Interface::named(word(0).ok_or("name an interface")?)?;
    let own = interface.hardware_address.ok_or("it has no address")?;
    let (clock, budget) = (RunClock::start(), Budget::new(256 << 20));
    let live = LiveOptions {
        method: None,
        sockets: 1,
        promiscuous: false,
        filter: Vec::new(),
        steering: None,
        flows: None,
        transmit_max: None,
        clock: StampClock::Steady {
            ahead_ns: clock.ahead_ns(),
        },
        budget: budget.clone(),
        bytes_max: budget.limit_bytes() / 4,
    };
    let seconds = number(3, 4)? as i64;
    let gap_ns = match word(1) {
        Some("pace") => Some(1_000_000_000 / number(4, 10_000)?.max(1) as i64),
        _ => None,
    };
    let asked = match word(1) {
        Some("answer") => None,
        _ => {
            let mut frame = vec![0; FRAME_BYTES];
            let octets = word(2).ok_or("name the answerer's MAC")?.split(':');
            for (place, octet) in frame.iter_mut().zip(octets) {
                *place = u8::from_str_radix(octet, 16)?;
            }
            frame[6..12].copy_from_slice(&own);
            frame[12..14].copy_from_slice(&ETHER_TYPE);
            Some(Asked {
                frame,
                came: 0,
                next_ns: clock.now() + AGAIN_NS,
                gap_ns,
            })
        }
    };
    let signals = Signals::register()?;
    let ports = open_each(&interface, &live)?;
    let is_asker = asked.is_some();
    let pairs = Pairs {
        own,
        asked,
        out: Vec::new(),
    };
    let wait = gap_ns.map_or(Wait::Hybrid, |_| Wait::Spin);
    let mut reactor = Reactor::new(pairs, vec![ports], wait, false);
    let end_ns = clock.now() + seconds * 1_000_000_000;
    while signals.stop().is_none() && !(is_asker && clock.now() >= end_ns) {
        reactor.turn(&mut || clock.now())?;
    }
    if let Some(asked) = &reactor.engine().asked {
        println!("{}", asked.came);
    }
    Ok(())
}
