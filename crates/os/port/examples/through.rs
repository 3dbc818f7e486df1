//! Datagrams that the kernel sends out of one interface, for a forwarder between that and another,
//! where they are dropped and counted: for `bench/forward`.
//!
//! ```text
//!  generator ─► from ═ (forwarder) ═ to ─► counted, dropped
//! ```
//!
//! Run as root where both interfaces are: `through FROM TO GATEWAY_MAC SERVICE FRAME_LEN FLOWS
//! SECONDS BURST PAUSE_US`. One datagram of each flow makes it known; then `ready` is printed,
//! and a line on the standard input starts the bursts. The kernel's generator spins between frames,
//! which would be counted as work: at less than full speed it sends bursts of BURST frames and
//! sleeps for PAUSE_US in between, as often as pauses fit in SECONDS; 0 is one burst for all of the
//! time.

use std::net::{IpAddr, SocketAddr};
use std::thread::park_timeout;
use std::time::Duration;

use lineside_port::live::{Generator, Interface, drop_all};
use lineside_wire::build::FrameBuilder;

type Failure = Box<dyn std::error::Error>;

/// Clients have ports from here on.
const PORT_FIRST: u16 = 10_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [
        from,
        to,
        gateway,
        service,
        frame_len,
        flows,
        seconds,
        burst,
        pause,
    ] = &arguments[..]
    else {
        return Err("nine arguments are needed: see the source".into());
    };
    let (from, to_name) = (Interface::named(from)?, to);
    let to = Interface::named(to)?;
    let (frame_len, flows): (usize, u16) = (frame_len.parse()?, flows.parse()?);
    let seconds = Duration::from_secs_f64(seconds.parse()?);
    let burst: u32 = burst.parse()?;
    let pause = Duration::from_micros(pause.parse()?);
    let frames = frames(&from, gateway, service.parse()?, frame_len, flows)?;

    let _dropping = drop_all(&to)?;
    // So slow that each arrives before the next one, some times over.
    Generator::new(&from, &frames, 1_000_000)?
        .run(Duration::from_millis(100 + 3 * u64::from(flows)))?;
    park_timeout(Duration::from_millis(300));
    let generator = Generator::new(&from, &frames, 0)?;
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;

    let before = Interface::named(to_name)?.received;
    let began = cpu_ns()?;
    let sent = match burst {
        0 => generator.run(seconds)?.frames,
        _ => {
            let bursts = seconds.as_micros() / pause.as_micros().max(1);
            let mut sent = 0;
            for _ in 0..bursts {
                sent = generator.run_burst(burst)?.frames;
                park_timeout(pause);
            }
            sent
        }
    };
    park_timeout(Duration::from_millis(20));
    println!(
        "{{\"sent\": {sent}, \"arrived\": {}, \"cpu_ns\": {}}}",
        Interface::named(to_name)?.received - before,
        cpu_ns()? - began,
    );
    Ok(())
}

/// A datagram of each flow, with the addresses of the interface.
fn frames(
    from: &Interface,
    gateway: &str,
    service: SocketAddr,
    frame_len: usize,
    flows: u16,
) -> Result<Vec<Vec<u8>>, Failure> {
    let own = from.addresses.iter().find(|address| address.is_ipv4());
    let own: IpAddr = *own.ok_or("the interface has no address")?;
    let mut octets = gateway.split(':').map(|each| u8::from_str_radix(each, 16));
    let mut gateway = [0; 6];
    for octet in &mut gateway {
        *octet = octets.next().ok_or("six octets are needed")??;
    }
    let builder =
        FrameBuilder::new(own, service.ip()).with_link_addresses([2, 0, 0, 0, 0, 1], gateway);
    let payload = vec![7; frame_len.saturating_sub(builder.udp_len(0))];
    let one = |flow| builder.udp(PORT_FIRST + flow, service.port(), &payload);
    Ok((0..flows).map(one).collect())
}

/// What this process has had of the processors, by the scheduler's own clock.
fn cpu_ns() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    Ok(text
        .split(' ')
        .next()
        .ok_or("an empty schedstat")?
        .parse()?)
}
