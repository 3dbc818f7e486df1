//! `receive IF METHOD`: the least that a live capture can cost, for `bench/`. Takes frames from an
//! interface and lets them go, until a signal ends it; then prints what arrived and what was
//! dropped, as JSON.
#![forbid(unsafe_code)]

use anyhow::Context;
use lineside_account::Budget;
use lineside_frame::Burst;
use lineside_host::Signals;
use lineside_port::live::{Interface, LiveOptions, StampClock, open};
use lineside_port::{Live, Merge, Method, Port, Receive, Received};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, method] = &arguments[..] else {
        anyhow::bail!("usage: receive IF af_packet|af_xdp|af_xdp_generic");
    };
    let method = match method.as_str() {
        "af_packet" => Method::AfPacket,
        "af_xdp" => Method::AfXdpNative,
        "af_xdp_generic" => Method::AfXdpGeneric,
        other => anyhow::bail!("no method '{other}'"),
    };
    let options = LiveOptions {
        method: Some(method),
        sockets: 1,
        promiscuous: true,
        filter: Vec::new(),
        budget: Budget::new(256 << 20),
        bytes_max: 64 << 20,
        steering: None,
        flows: None,
        transmit_max: None,
        clock: StampClock::Wall,
    };
    let mut port = Merge::new(open(&Interface::named(name)?, &options)?);
    let signals = Signals::register().context("cannot handle signals")?;
    let mut burst = Burst::new();
    while port.receive(&mut burst, 256)? != Received::End {
        burst.clear();
        if signals.stop().is_some() {
            port.shut();
        }
    }
    let live = port
        .facts()
        .into_iter()
        .filter_map(|facts| facts.live.as_ref());
    let sums = live.fold([0; 2], |[arrived, dropped], live| {
        [
            arrived + live.arrived,
            dropped + live.dropped_ring + live.dropped_pool,
        ]
    });
    println!("{{\"arrived\": {}, \"dropped\": {}}}", sums[0], sums[1]);
    Ok(())
}
