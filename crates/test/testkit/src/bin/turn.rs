//! `turn IF METHOD FRAMES [COUNT LEN]`: the least that a round trip over live ports can cost, for
//! `bench/`. Sends this many frames to the other end, where another one runs, and returns what
//! comes until FRAMES have come; with COUNT it begins, with this many of LEN bytes. Both run the
//! loop of `tcp-peer`, and nothing besides.
#![forbid(unsafe_code)]

use anyhow::{Context, ensure};
use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_host::RunClock;
use lineside_port::Method;
use lineside_port::live::{Interface, LiveOptions, StampClock, open_each};
use lineside_reactor::{Account, Engine, Reactor, Sides, Wait};
use lineside_time::{Clock, Nanoseconds};

/// A protocol that no host reads: IEEE's for local experiments.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb6];

struct Turn {
    frames: Vec<Frame>,
    came: u64,
}

struct At(Nanoseconds);

impl Account for At {
    fn entered_ns(&self) -> Nanoseconds {
        self.0
    }

    fn at_ns(&self) -> Nanoseconds {
        self.0
    }
}

impl Engine for Turn {
    type Account = At;

    fn on_burst(&mut self, _: Nanoseconds, _: usize, burst: &mut Burst) {
        burst.retain(|frame| frame.bytes()[12..14] == ETHER_TYPE);
        self.came += burst.len() as u64;
        self.frames.append(burst);
    }

    fn on_timer(&mut self, now: Nanoseconds, _: Nanoseconds, out: &mut Sides<At>) {
        for frame in self.frames.drain(..) {
            out.send(0, frame, At(now));
        }
    }

    fn next_deadline(&self) -> Option<Nanoseconds> {
        None
    }

    fn held(&self) -> usize {
        self.frames.len()
    }

    fn spill(&mut self, _: usize) {}

    fn on_sent(&mut self, _: At, _: Nanoseconds) {}

    fn on_unsent(&mut self, _: At, _: &Frame) {}
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: turn IF af_packet|af_xdp|af_xdp_generic FRAMES [COUNT LEN]";
    let number = |at: usize| -> anyhow::Result<u64> {
        let text = arguments.get(at).map_or("0", String::as_str);
        text.parse().context(usage)
    };
    ensure!(matches!(arguments.len(), 3 | 5), usage);
    let method = match arguments[1].as_str() {
        "af_packet" => Method::AfPacket,
        "af_xdp" => Method::AfXdpNative,
        "af_xdp_generic" => Method::AfXdpGeneric,
        other => anyhow::bail!("no method '{other}': {usage}"),
    };
    let (wanted, count, len) = (number(2)?, number(3)?, number(4)?.max(60));
    let clock = RunClock::start();
    let options = LiveOptions {
        method: Some(method),
        sockets: 1,
        promiscuous: true,
        filter: Vec::new(),
        steering: None,
        flows: None,
        transmit_max: None,
        clock: StampClock::Steady {
            ahead_ns: clock.ahead_ns(),
        },
        budget: Budget::new(256 << 20),
        bytes_max: 64 << 20,
    };
    let ports = open_each(&Interface::named(&arguments[0])?, &options)?;
    let descriptor = Descriptor {
        link_type: LinkType::ETHERNET,
        wire_len: len as u32,
        ..Descriptor::default()
    };
    let mut bytes = vec![2; len as usize];
    bytes[12..14].copy_from_slice(&ETHER_TYPE);
    let frames = (0..count).map(|_| Frame::copied(&bytes, descriptor));
    let turn = Turn {
        frames: frames.collect(),
        came: 0,
    };
    let mut reactor = Reactor::new(turn, vec![ports], Wait::Sleep, false);
    let began_ns = clock.now();
    while reactor.engine().came < wanted {
        reactor.turn(&mut || clock.now())?;
        ensure!(
            clock.now() - began_ns < 60_000_000_000,
            "not over within a minute"
        );
    }
    let seconds = (clock.now() - began_ns) as f64 / 1e9;
    println!(
        "{{\"came\": {}, \"seconds\": {seconds}}}",
        reactor.engine().came
    );
    Ok(())
}
