//! Frames a second that the driver forwards by a table of flows, on one core that generates and
//! drops them too: what it costs at its least, not what a sender and a receiver see.
//!
//! ```text
//!  generator ─► far ═ near ─► flow table: NAT ─► near2 ═ far2 ─► dropped
//! ```
//!
//! Run as root: `unshare -n taskset -c 0 flow_rate FRAME_LEN FLOWS SECONDS [4|6]`: UDP.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use lineside_account::Budget;
use lineside_port::live::{
    FlowKey, FlowRule, FlowTable, Generator, Interface, LiveOptions, StampClock, drop_all,
    open_each,
};
use lineside_wire::PROTOCOL_UDP;
use lineside_wire::build::FrameBuilder;

type Failure = Box<dyn std::error::Error>;

const HERE: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn ip(arguments: &str) -> Result<(), Failure> {
    let done = Command::new("ip").args(arguments.split(' ')).status()?;
    match done.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments} failed").into()),
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize, default: &str| arguments.get(at).map_or(default, |it| it).to_owned();
    let frame_len: usize = text(0, "64").parse()?;
    let flows: u16 = text(1, "1").parse()?;
    let seconds: u64 = text(2, "2").parse()?;
    let addresses: [IpAddr; 4] = match text(3, "4").as_str() {
        "4" => [
            [192, 0, 2, 7],
            [192, 0, 2, 1],
            [10, 9, 2, 100],
            [10, 9, 2, 2],
        ]
        .map(IpAddr::from),
        _ => [7, 1, 100, 2].map(|last| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last])),
    };

    for (near, far) in [("near", "far"), ("near2", "far2")] {
        ip(&format!("link add {near} type veth peer name {far}"))?;
        ip(&format!("link set {near} up"))?;
        ip(&format!("link set {far} up"))?;
    }
    let _dropping = drop_all(&Interface::named("far2")?)?;
    let budget = Budget::new(1 << 30);
    let table = FlowTable::new(1 << 16, &budget)?;
    let options = LiveOptions {
        method: None,
        sockets: 1,
        promiscuous: true,
        filter: Vec::new(),
        steering: None,
        flows: Some(table.clone()),
        transmit_max: None,
        budget,
        bytes_max: 16 << 20,
        clock: StampClock::Wall,
    };
    let near = ["near", "near2"].map(Interface::named);
    let [near, near2] = near.map(|found| found.expect("just made"));
    let mut ports = open_each(&near, &options)?;
    ports.extend(open_each(&near2, &options)?);
    for port in &ports {
        println!("{}: {:?}", port.facts()[0].format, port.facts()[0].warnings);
    }

    let mut frames = Vec::new();
    for flow in 0..flows {
        let [source, destination, new_source, new_destination] = addresses;
        let key = FlowKey {
            interface: near.index,
            protocol: PROTOCOL_UDP,
            source: SocketAddr::new(source, 10_000 + flow),
            destination: SocketAddr::new(destination, 80),
        };
        table.insert(&FlowRule {
            key,
            new_source: SocketAddr::new(new_source, 20_000 + flow),
            new_destination: SocketAddr::new(new_destination, 8080),
            out: near2.index,
            ethernet_here: HERE,
            ethernet_source: HERE,
            ethernet_destination: [2, 0, 0, 0, 0, 4],
        })?;
        let builder =
            FrameBuilder::new(source, destination).with_link_addresses([2, 0, 0, 0, 0, 1], HERE);
        let payload = vec![7; frame_len.saturating_sub(builder.udp_len(0))];
        frames.push(builder.udp(key.source.port(), key.destination.port(), &payload));
    }
    let generator = Generator::new(&Interface::named("far")?, &frames, 0)?;
    let before = Interface::named("far2")?.received;
    let sent = generator.run(Duration::from_secs(seconds))?;
    let outcomes = table.outcomes();
    let arrived = Interface::named("far2")?.received - before;
    let span = sent.span_ns as f64 / 1e9;
    println!(
        "{frame_len} B, {flows} flows: generated {:.2} M/s, forwarded {:.2} M/s, arrived {:.2} \
         M/s: {:.0} ns a frame; {outcomes:?}",
        sent.frames as f64 / span / 1e6,
        outcomes.forwarded as f64 / span / 1e6,
        arrived as f64 / span / 1e6,
        span * 1e9 / arrived as f64,
    );
    Ok(())
}
