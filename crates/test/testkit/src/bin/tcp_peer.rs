//! tcp-peer: an end of TCP connections by our own endpoint, at an address that the host does not
//! have; compares every byte, and prints what it counted as a line of JSON.
#![forbid(unsafe_code)]

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use lineside_account::Budget;
use lineside_host::{Capability, Netlink, Privileges, RunClock, Signals, wall_ns};
use lineside_port::live::{
    self, AddressBlock, EndOptions, Interface, LiveOptions, StampClock, Steering, open_each,
};
use lineside_port::{LivePort, Method};
use lineside_reactor::{Reactor, Wait};
use lineside_tcp::congestion::{CUBIC, Congestion, NEW_RENO};
use lineside_tcp::{Config, Prefix, Stack};
use lineside_testkit::iperf::Iperf;
use lineside_testkit::peer::{Opening, Party, Peer, Plan, Work};
use lineside_time::{Clock, Nanoseconds, Random};
use serde_json::{Map, Value, json};

/// Of both the stack and the port.
const MEMORY_BYTES: usize = 512 << 20;
/// The longest packet of a TAP device that is made.
const MTU_MAX: usize = 65_521;

#[derive(Parser)]
#[command(about)]
struct Options {
    /// The interface; without --steer nobody else may take its frames. With TAP it is made
    #[arg(short, long)]
    interface: String,
    /// This end's address, which the host may not have, and its network: 192.0.2.2/24
    #[arg(long, value_name = "ADDRESS/BITS")]
    address: String,
    /// The host's own address at the TAP device that is made, of the same network
    #[arg(long, value_name = "ADDRESS", required_if_eq("method", "tap"))]
    host: Option<IpAddr>,
    /// Leads to other networks
    #[arg(long)]
    router: Option<IpAddr>,
    /// The longest packet that is sent [default: the interface's]
    #[arg(long)]
    mtu: Option<usize>,
    /// How frames are taken [default: AF_XDP, or AF_PACKET where that cannot be had]
    #[arg(long, value_enum)]
    method: Option<How>,
    /// Take frames for --address alone: the host goes on using the interface
    #[arg(long)]
    steer: bool,
    /// Take these ports of --address, which the host has, and leave all else to it: 7000-7999
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports, conflicts_with = "steer")]
    ports: Option<RangeInclusive<u16>>,
    /// What is done while nothing is due: spin, hybrid or sleep
    #[arg(long, default_value = "sleep", value_parser = wait)]
    wait: Wait,
    /// The port at which it listens
    #[arg(long, default_value_t = 7)]
    port: u16,
    /// Opens the connections, to this address and port
    #[arg(long, value_name = "ADDRESS:PORT")]
    connect: Option<SocketAddr>,
    /// Opens them from this port; any with 0
    #[arg(long, default_value_t = 0, requires = "connect")]
    local_port: u16,
    /// Ends after this many connections; with 0 a listener ends by a signal
    #[arg(long, default_value_t = 1)]
    connections: u64,
    /// Seeds what is sent; both ends need the same one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// All bytes are zeros, and none is compared; for measurements
    #[arg(long)]
    plain: bool,
    /// How the congestion window moves
    #[arg(long, value_enum, default_value = "reno")]
    congestion: Strategy,
    /// The window that is offered
    #[arg(long, default_value_t = 1 << 20)]
    window: u32,
    /// A short segment does not wait for others to be acknowledged
    #[arg(long)]
    no_nagle: bool,
    /// It fails after this many seconds
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
    /// After the last connection it answers until the other end was silent for this many seconds
    #[arg(long, default_value_t = 1.0)]
    linger: f64,
    #[command(subcommand)]
    work: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Return what comes
    Echo,
    /// Take what a source sends, and compare it
    Sink {
        /// So many bytes must come on each connection; any number if it is left out
        #[arg(long)]
        bytes: Option<u64>,
        /// Send a request for PATH first, as HTTP/0.9 has it
        #[arg(long, value_name = "PATH")]
        get: Option<String>,
    },
    /// Send bytes
    Source {
        /// On each connection
        #[arg(long)]
        bytes: u64,
    },
    /// Serve `iperf3 -c`: this many tests as --connections says, of TCP in one direction
    Iperf3,
    /// Send bytes to an echo, and compare what comes back
    Ask {
        /// On each connection
        #[arg(long)]
        bytes: u64,
        /// So many at once, the next ones when they are back; all if it is left out
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        step: Option<u64>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Strategy {
    Reno,
    Cubic,
}

impl Strategy {
    fn of_stack(self) -> &'static dyn Congestion {
        match self {
            Self::Reno => &NEW_RENO,
            Self::Cubic => &CUBIC,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    #[value(name = "af_xdp")]
    Native,
    #[value(name = "af_xdp_generic")]
    Generic,
    #[value(name = "af_packet")]
    Packet,
    #[value(name = "tap")]
    Tap,
}

impl How {
    fn method(self) -> Method {
        match self {
            Self::Native => Method::AfXdpNative,
            Self::Generic => Method::AfXdpGeneric,
            Self::Packet => Method::AfPacket,
            Self::Tap => Method::Tap,
        }
    }
}

fn wait(text: &str) -> Result<Wait, String> {
    let mut words = Wait::WORDS.into_iter();
    let found = words.find(|(word, _)| *word == text);
    { found }.map_or_else(
        || Err("write spin, hybrid or sleep".to_owned()),
        |(_, wait)| Ok(wait),
    )
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let ends = text
        .split_once('-')
        .and_then(|(first, last)| Some(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?));
    ends.ok_or_else(|| "write the first and the last port, such as 7000-7999".to_owned())
}

fn main() -> ExitCode {
    match serve(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tcp-peer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(options: &Options) -> Result<()> {
    let signals = Signals::register().context("cannot handle signals")?;
    let needed: &[Capability] = match options.method {
        Some(How::Native | How::Generic) => {
            &[Capability::NetRaw, Capability::NetAdmin, Capability::Bpf]
        }
        Some(How::Tap) => &[Capability::NetAdmin],
        _ => &[Capability::NetRaw],
    };
    Privileges::read()?.require(needed)?;
    let interface = match options.method {
        Some(How::Tap) => None,
        _ => Some(Interface::named(&options.interface)?),
    };
    let own = network(&options.address)?;
    if options.ports.is_none() {
        must_not_be_the_hosts(own.address)?;
    }
    let config = config(options, interface.as_ref(), own)?;
    let budget = Budget::new(MEMORY_BYTES);
    let mut random = Random::new(wall_ns().cast_unsigned() ^ u64::from(std::process::id()) << 40);
    let secret = [random.bits(), random.bits()];
    let clock = RunClock::start();
    let stamps = StampClock::Steady {
        ahead_ns: clock.ahead_ns(),
    };
    let ports = match &interface {
        Some(interface) => {
            let live = LiveOptions {
                method: options.method.map(How::method),
                sockets: 1,
                // Its Ethernet address is not the host's.
                promiscuous: true,
                filter: Vec::new(),
                steering: steering(options, own.address),
                flows: None,
                transmit_max: None,
                clock: stamps,
                budget: budget.clone(),
                bytes_max: MEMORY_BYTES / 4,
            };
            open_each(interface, &live)?
        }
        None => vec![open_tap(options, &config, stamps, &budget)?],
    };
    let mut stack = Stack::new(config, secret, &budget).context("no memory for the stack")?;
    if let (Some(_), Some(interface)) = (&options.ports, &interface) {
        keep_neighbours(options, interface, &mut stack)?;
    }
    match plan(options, own.address)? {
        Some(plan) => drive(options, &signals, &clock, ports, Peer::new(stack, plan)?),
        None => {
            let iperf = Iperf::new(stack, options.port, options.connections)?;
            drive(options, &signals, &clock, ports, iperf)
        }
    }
}

/// Has an end do its work, and prints what it counted.
fn drive(
    options: &Options,
    signals: &Signals,
    clock: &RunClock,
    ports: Vec<Box<dyn LivePort>>,
    party: impl Party,
) -> Result<()> {
    let mut reactor = Reactor::new(party, vec![ports], options.wait, false);
    let how = reactor
        .method(0)
        .map_or(String::new(), |method| method.to_string());
    let address = network(&options.address)?.address;
    eprintln!("{address} is at {} by {how}", options.interface);

    let began_ns = clock.now();
    let outcome = run(options, &mut reactor, clock, signals);
    // The time until the last connection was over.
    let ended_ns = { reactor.engine().ended_ns() }.unwrap_or_else(|| clock.now());
    let seconds = (ended_ns - began_ns) as f64 / 1e9;
    println!("{}", account(&mut reactor, seconds, &how));
    outcome?;
    if let Some(broken) = reactor.engine().stack().counters().broken_identity() {
        bail!("the stack's counters contradict themselves: {broken}");
    }
    let tally = reactor.engine().tally();
    let Some(first) = tally.errors.first() else {
        return Ok(());
    };
    for error in &tally.errors[1..] {
        eprintln!("tcp-peer: {error}");
    }
    bail!("{} connections failed: {first}", tally.failed)
}

/// An address and its network.
fn network(text: &str) -> Result<Prefix> {
    let parts = text.split_once('/').and_then(|(address, bits)| {
        let address: IpAddr = address.parse().ok()?;
        let len = bits.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        (len <= most).then_some(Prefix { address, len })
    });
    parts.with_context(|| {
        format!("--address {text}: write an address and its network's bits, such as 192.0.2.2/24")
    })
}

/// What of the interface's frames is taken, if not all.
fn steering(options: &Options, own: IpAddr) -> Option<Steering> {
    if let Some(ports) = &options.ports {
        return Some(Steering::HostPorts {
            addresses: vec![own],
            ports: ports.clone(),
        });
    }
    { options.steer }.then(|| Steering::Addresses(vec![AddressBlock::from(own)]))
}

/// The host's kernel keeps ARP and neighbour discovery: the stack gets its entries.
fn keep_neighbours(options: &Options, interface: &Interface, stack: &mut Stack) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let netlink = Netlink::open()?;
    let connected = || options.connect.map(|remote| remote.ip());
    if let Some(next) = options.router.or_else(connected) {
        let found = netlink.find_neighbour(interface.index, next, PATIENCE)?;
        ensure!(
            found.is_some(),
            "no neighbour at {} answers for {next} within 5 s",
            interface.name
        );
    }
    let known = netlink.neighbours()?.into_iter();
    for neighbour in known.filter(|it| it.index == interface.index) {
        stack.keep_neighbour(neighbour.address, neighbour.hardware_address);
    }
    Ok(())
}

/// The kernel would answer for an address of its own.
fn must_not_be_the_hosts(address: IpAddr) -> Result<()> {
    let addresses = Netlink::open().and_then(|netlink| netlink.addresses());
    let addresses = addresses.context("cannot list the host's addresses")?;
    let is_free = addresses.iter().all(|&(_, each)| each != address);
    ensure!(
        is_free,
        "--address {address}: the host has this address, and its kernel would reset the \
         connections: name another one of the network, or remove it ('ip addr del')"
    );
    Ok(())
}

/// Makes a TAP device, where the host's kernel is the other end.
fn open_tap(
    options: &Options,
    config: &Config,
    clock: StampClock,
    budget: &Budget,
) -> Result<Box<dyn LivePort>> {
    let own = config.addresses[0].address;
    let host = options.host.context("--method tap needs --host")?;
    ensure!(
        host != own && host.is_ipv4() == own.is_ipv4() && config.on_link[0].contains(host),
        "--host {host}: name another address of the network of --address {own}"
    );
    let ends = EndOptions {
        mtu: config.mtu as u32,
        clock,
        budget,
        bytes_max: MEMORY_BYTES / 4,
    };
    let name = &options.interface;
    let port = live::open_tap(name, &ends)?;
    let set_up = || {
        let netlink = Netlink::open()?;
        let index = netlink.link_named(name)?.index;
        netlink.set_ethernet(index, [2, b'K', 0, 0, 0, 1], ends.mtu)?;
        netlink.add_address(index, host, config.on_link[0].len)?;
        netlink.switch_on(index)
    };
    set_up().with_context(|| format!("cannot set up {name} with {host}"))?;
    Ok(port)
}

fn config(options: &Options, interface: Option<&Interface>, own: Prefix) -> Result<Config> {
    // Of its own: what comes for it does not concern the host's kernel.
    let mut link_address = [2, b'L', 0, 0, 0, 0];
    match own.address {
        IpAddr::V4(address) => link_address[2..].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => link_address[2..].copy_from_slice(&address.octets()[12..]),
    }
    if let (Some(_), Some(host)) = (&options.ports, interface) {
        let missing = "--ports: the interface has no Ethernet address";
        link_address = host.hardware_address.context(missing)?;
    }
    let name = &options.interface;
    let most = interface.map_or(MTU_MAX, |interface| interface.mtu as usize);
    let mtu = options.mtu.unwrap_or(match interface {
        Some(_) => most,
        None => 1500,
    });
    let least = if own.address.is_ipv4() { 576 } else { 1280 };
    ensure!(
        mtu <= most,
        "--mtu {mtu}: {name} carries packets of at most {most} bytes: 'ip link set {name} mtu \
         {mtu}', at the other end too"
    );
    ensure!(
        mtu >= least,
        "--mtu {mtu}: a packet may have {least} bytes at least"
    );
    Ok(Config {
        on_link: vec![own],
        routers: options.router.into_iter().collect(),
        mtu,
        receive_window_bytes: options.window,
        nagle: !options.no_nagle,
        congestion: options.congestion.of_stack(),
        // Their kernels leave checksums to an adapter that is not there.
        takes_offloaded: { interface.and_then(|interface| interface.kind.as_deref()) }
            .is_some_and(|kind| matches!(kind, "veth" | "tun")),
        ..Config::new(link_address, &[own.address])
    })
}

/// What a [`Peer`] is to do; `None` for iperf3.
fn plan(options: &Options, own: IpAddr) -> Result<Option<Plan>> {
    let opening = match options.connect {
        Some(remote) => Opening::Connect {
            local: (own, options.local_port),
            remote: (remote.ip(), remote.port()),
        },
        None => Opening::Listen(options.port),
    };
    let (work, bytes, preface) = match &options.work {
        Command::Echo => (Work::Echo, None, String::new()),
        Command::Sink { bytes, get } => {
            let request = get.as_ref().map(|path| format!("GET {path}\r\n\r\n"));
            (Work::Sink, *bytes, request.unwrap_or_default())
        }
        Command::Source { bytes } => (Work::Source, Some(*bytes), String::new()),
        Command::Ask { bytes, step } => {
            let step = step.unwrap_or(*bytes).max(1);
            (Work::Ask { step }, Some(*bytes), String::new())
        }
        Command::Iperf3 => {
            ensure!(options.connect.is_none(), "--connect: iperf3 serves");
            return Ok(None);
        }
    };
    ensure!(
        options.connections > 0 || options.connect.is_none(),
        "--connections 0: only a listener takes any number"
    );
    Ok(Some(Plan {
        work,
        opening,
        connections: options.connections,
        bytes,
        seed: options.seed,
        preface: preface.into_bytes(),
        is_plain: options.plain,
    }))
}

/// Turns the loop until the connections are over, a signal comes, or something fails.
fn run(
    options: &Options,
    reactor: &mut Reactor<impl Party>,
    clock: &RunClock,
    signals: &Signals,
) -> Result<()> {
    let name = &options.interface;
    let nanoseconds =
        |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, 1e9)).as_nanos() as i64;
    let linger_ns = nanoseconds(options.linger);
    let end: Nanoseconds = clock.now() + nanoseconds(options.timeout);
    loop {
        reactor.turn(&mut || clock.now())?;
        let (peer, now) = (reactor.engine(), clock.now());
        if let Some(refused) = peer.refused() {
            bail!("cannot connect: {refused}");
        }
        if let Some(neighbour) = peer.silent() {
            bail!(
                "no neighbour at {name} answers for {neighbour}: is the other end up, with this \
                 address? --address says which network is reached without --router"
            );
        }
        if peer.is_over(now, linger_ns) || signals.stop().is_some() {
            return Ok(());
        }
        if now > end {
            let hint = match reactor.facts().too_long {
                0 => String::new(),
                frames => format!(
                    "; {frames} frames were longer than {name} carries: switch off what joins them \
                     ('ethtool -K {name} gro off', and 'tso off gso off' at the other end)"
                ),
            };
            let tally = peer.tally();
            bail!(
                "not over after {} s: {} connections opened, {} finished, {} failed{hint}",
                options.timeout,
                tally.opened,
                tally.finished,
                tally.failed
            );
        }
    }
}

/// What was counted, as JSON.
fn account(reactor: &mut Reactor<impl Party>, seconds: f64, method: &str) -> Value {
    reactor.ports_mut().for_each(|port| port.account());
    let live = reactor.ports().flat_map(|port| port.facts());
    let dropped: u64 = { live.filter_map(|facts| facts.live.as_ref()) }
        .map(|live| live.dropped_ring + live.dropped_pool)
        .sum();
    let (facts, peer) = (reactor.facts(), reactor.engine());
    let tally = peer.tally();
    let counters: Map<String, Value> = { peer.stack().counters().named() }
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect();
    json!({
        "method": method,
        "seconds": seconds,
        "opened": tally.opened,
        "finished": tally.finished,
        "failed": tally.failed,
        "bytes_sent": tally.bytes_sent,
        "bytes_received": tally.bytes_received,
        "frames_too_long": facts.too_long,
        "frames_dropped": dropped,
        "frames_unsent": facts.dropped_down,
        "stack": counters,
    })
}
