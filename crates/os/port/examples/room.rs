//! What a look at held and sent frames costs at a port of AF_XDP, for this many of them:
//! nanoseconds on a veth pair in a network namespace of its own. It takes root.
//!
//! It does not show what a frame costs the kernel on other devices, nor what waits behind them.

use std::io;
use std::os::fd::AsFd;

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_host::{NetNamespace, Netlink, monotonic_ns};
use lineside_port::live::{Interface, LiveOptions, StampClock, open_each, open_to_send};
use lineside_port::{LivePort, Method};

const LEN: usize = 118;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let home = NetNamespace::new()?;
    let netlink = Netlink::open()?;
    netlink.add_veth("near", "far", home.as_fd())?;
    for name in ["near", "far"] {
        let link = netlink.link_named(name)?;
        netlink.make_no_v6_address(link.index)?;
        netlink.switch_on(link.index)?;
    }
    println!("held     reclaim");
    for held in [0, 1_024, 8_047, 16_006] {
        println!("{held:>6} {:>8} ns", median_of_reclaim(held)?);
    }
    println!("ring     in flight at once   transmit and reclaim, a frame");
    for ring in [None, Some(1_024), Some(4_096), Some(8_192), Some(16_384)] {
        let (room, ns) = sent(ring)?;
        let ring = ring.map_or_else(|| "default".to_owned(), |ring| ring.to_string());
        println!("{ring:>7} {room:>12} {ns:>16} ns");
    }
    Ok(())
}

fn open(transmit_max: Option<u32>) -> Outcome<Box<dyn LivePort>> {
    let options = LiveOptions {
        method: Some(Method::AfXdpNative),
        sockets: 1,
        promiscuous: true,
        filter: Vec::new(),
        steering: None,
        flows: None,
        transmit_max,
        clock: StampClock::Wall,
        budget: Budget::new(256 << 20),
        bytes_max: 128 << 20,
    };
    let ports = open_each(&Interface::named("near")?, &options)?;
    let first = ports.into_iter().next();
    Ok(first.ok_or_else(|| io::Error::other("no port"))?)
}

fn frames(count: usize) -> Burst {
    let descriptor = Descriptor {
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    let mut bytes = [0_u8; LEN];
    bytes[12..14].copy_from_slice(&[0x88, 0xb6]);
    (0..count)
        .map(|_| Frame::copied(&bytes, descriptor))
        .collect()
}

fn median_of_reclaim(held: usize) -> Outcome<i64> {
    let mut port = open(Some(1_024))?;
    let mut far = open_to_send(&Interface::named("far")?)?;
    let mut kept = Burst::new();
    while kept.len() < held {
        let mut burst = frames((held - kept.len()).min(32));
        far.transmit(&mut burst)?;
        port.receive(&mut kept, 64)?;
    }
    let mut took: Vec<i64> = (0..1_001)
        .map(|_| {
            let began_ns = monotonic_ns();
            port.reclaim();
            monotonic_ns() - began_ns
        })
        .collect();
    took.sort_unstable();
    Ok(took[500])
}

/// How many frames one call took, and what a frame cost until all had left.
fn sent(transmit_max: Option<u32>) -> Outcome<(usize, i64)> {
    let mut port = open(transmit_max)?;
    let (mut room, mut best) = (0, i64::MAX);
    for _ in 0..20 {
        let mut burst = frames(20_000);
        room = port.transmit(&mut burst)?;
        settle(port.as_mut());
        burst.truncate(room);
        let began_ns = monotonic_ns();
        let count = port.transmit(&mut burst)?;
        settle(port.as_mut());
        best = best.min((monotonic_ns() - began_ns) / count as i64);
    }
    Ok((room, best))
}

/// Until nothing comes back any more.
fn settle(port: &mut dyn LivePort) {
    let mut quiet = 0;
    while quiet < 3 {
        quiet = if port.reclaim() == 0 { quiet + 1 } else { 0 };
    }
}
