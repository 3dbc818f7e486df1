//! Figure 7: real TCP through the emulated adapter, in virtual time.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use lineside_account::Budget;
use lineside_frame::{Burst, Frame};
use lineside_tcp::{Config, ConnectionId, Departure, Effects, Event, Stack};
use lineside_time::Nanoseconds;

use crate::adapter::{Adapter, AdapterCounters, Done, Parameters};

/// Memory of the hosts and of the adapter.
const MEMORY_BYTES: usize = 256 << 20;
/// When a run begins, so that no clock is 0.
const BEGIN_NS: i64 = 1_000_000_000;
/// Slow start is over, and is not counted.
const SETTLE_NS: i64 = 300_000_000;
/// More than all clients' windows: links of hosts lose nothing.
const WAITING_MAX: usize = 4000;
const ETHERNET_LEN: usize = 14;
/// Of IPv4 and TCP without options.
const HEADERS_LEN: usize = 40;
const PORT: u16 = 5001;
/// The largest window without a scale: with sixteen streams a megabyte is under way, which is the
/// cache that the paper found to be enough.
const WINDOW_BYTES: u32 = 65_535;
/// FreeBSD's `net.inet.tcp.delacktime`.
const DELAYED_ACK_NS: i64 = 100_000_000;

/// Streams of TCP through the adapter, which all go to one server.
#[derive(Debug, Clone)]
pub struct Streams {
    /// The largest packet.
    pub mtu: usize,
    /// Hosts that send.
    pub clients: u8,
    /// Streams of each.
    pub streams: u16,
    /// How long they are counted.
    pub measured_ns: i64,
    /// Of the hosts' secrets.
    pub seed: u64,
}

/// What came of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamsOutcome {
    /// Megabytes a second that the server's owner received.
    pub goodput_mb_per_s: f64,
    /// What the adapter counted in this time.
    pub adapter: AdapterCounters,
}

#[derive(Debug, Default)]
struct Owner {
    frames: Vec<Frame>,
    opened: Vec<ConnectionId>,
    received: u64,
}

impl Effects for Owner {
    fn transmit(&mut self, frame: Frame, _: Departure) {
        self.frames.push(frame);
    }

    fn fill(&mut self, _: ConnectionId, _: u32, _: u64, bytes: &mut [u8]) {
        bytes.fill(0);
    }

    fn on_event(&mut self, connection: ConnectionId, _: u32, event: Event<'_>) {
        match event {
            Event::Opened { .. } => self.opened.push(connection),
            Event::Stream(chunk) => self.received += chunk.len() as u64,
            _ => {}
        }
    }
}

#[derive(Debug)]
struct Host {
    stack: Stack,
    owner: Owner,
    inbox: Burst,
    outbox: VecDeque<Frame>,
    sends: bool,
}

impl Host {
    fn new(number: u8, streams: &Streams, budget: &Budget) -> Self {
        let config = Config {
            mtu: streams.mtu,
            receive_window_bytes: window(streams.mtu),
            timestamps: false,
            sack: false,
            delayed_ack_ns: DELAYED_ACK_NS,
            connections_max: 64,
            active_max: 64,
            half_open_max: 64,
            time_wait_max: 64,
            neighbours_max: 16,
            ..Config::new(link_address(number), &[address(number)])
        };
        let secret = [streams.seed, u64::from(number)];
        let mut stack = Stack::new(config, secret, budget).expect("256 MiB are enough");
        for other in 0..=streams.clients {
            stack.keep_neighbour(address(other), link_address(other));
        }
        Self {
            stack,
            owner: Owner::default(),
            inbox: Burst::new(),
            outbox: VecDeque::new(),
            sends: number > 0,
        }
    }

    fn step(&mut self, now: Nanoseconds) {
        if !self.inbox.is_empty() {
            { &mut self.stack }.on_burst(now, &mut self.inbox, &mut self.owner);
        }
        if self.stack.next_deadline().is_some_and(|at| at <= now) {
            self.stack.on_timer(now, &mut self.owner);
        }
        while let Some(connection) = self.owner.opened.pop() {
            if self.sends {
                let sent = { &mut self.stack }.send(now, connection, 1 << 40, &mut self.owner);
                sent.expect("it was opened");
            }
        }
    }
}

/// Whole segments, as FreeBSD rounds its buffers.
fn window(mtu: usize) -> u32 {
    let segment = (mtu.saturating_sub(HEADERS_LEN) as u32).max(1);
    WINDOW_BYTES / segment * segment
}

fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, 1 + number).into()
}

fn link_address(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, 1 + number]
}

/// The switch lets one frame wait for the adapter's link, of the hosts in turn: the link stops the
/// others. Says whose turn is next.
fn push_in_turn(
    hosts: &mut [Host],
    mut turn: usize,
    now: Nanoseconds,
    adapter: &mut Adapter<Frame>,
    out: &mut Vec<Done<Frame>>,
) -> usize {
    while adapter.waiting() == 0 {
        let count = hosts.len();
        let mut next = (0..count).map(|step| (turn + step) % count);
        let Some(host) = next.find(|&host| !hosts[host].outbox.is_empty()) else {
            break;
        };
        if let Some(frame) = hosts[host].outbox.pop_front() {
            let bytes = frame.bytes().len().saturating_sub(ETHERNET_LEN) as u32;
            adapter.push(now, frame, bytes, out);
        }
        turn = (host + 1) % count;
    }
    turn
}

/// Runs the streams through the adapter, data and acknowledgements.
pub fn run_streams(parameters: &Parameters, streams: &Streams) -> StreamsOutcome {
    let budget = Budget::new(MEMORY_BYTES);
    let parameters = Parameters {
        waiting_max: WAITING_MAX,
        ..parameters.clone()
    };
    let mut adapter = Adapter::new(parameters, &budget).expect("256 MiB are enough");
    let mut hosts: Vec<_> = (0..=streams.clients)
        .map(|number| Host::new(number, streams, &budget))
        .collect();
    hosts[0]
        .stack
        .listen(None, PORT, 0)
        .expect("nobody listens there");
    let mut now = BEGIN_NS;
    for number in 1..=streams.clients {
        for stream in 0..streams.streams {
            let Host { stack, owner, .. } = &mut hosts[usize::from(number)];
            let ends = [(address(number), 1000 + stream), (address(0), PORT)];
            { stack.connect(now, ends[0], ends[1], 0, owner) }.expect("there is room");
        }
    }
    let mut out: Vec<Done<Frame>> = Vec::new();
    let (mut settled, mut before, mut turn) = (false, 0, 0);
    let end = BEGIN_NS + SETTLE_NS + streams.measured_ns;
    loop {
        for host in &mut hosts {
            host.step(now);
            host.outbox.extend(host.owner.frames.drain(..));
        }
        turn = push_in_turn(&mut hosts, turn, now, &mut adapter, &mut out);
        for done in out.drain(..).filter(|done| done.dropped.is_none()) {
            let to = usize::from(done.item.bytes()[5]).wrapping_sub(1);
            if let Some(host) = hosts.get_mut(to) {
                host.inbox.push(done.item);
            }
        }
        if hosts.iter().any(|host| !host.inbox.is_empty()) {
            continue;
        }
        let deadlines = hosts.iter().filter_map(|host| host.stack.next_deadline());
        let next = deadlines.chain(adapter.next_deadline()).min();
        let Some(next) = next.filter(|&next| next < end) else {
            break;
        };
        now = now.max(next);
        if !settled && now >= BEGIN_NS + SETTLE_NS {
            settled = true;
            adapter.begin(now);
            before = hosts[0].owner.received;
        }
        adapter.on_timer(now, &mut out);
    }
    StreamsOutcome {
        goodput_mb_per_s: (hosts[0].owner.received - before) as f64 * 1e3
            / streams.measured_ns as f64,
        adapter: adapter.counters(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Mode;

    fn run(
        mode: Mode,
        mtu: usize,
        [clients, streams]: [u8; 2],
        cache_bytes: u64,
    ) -> StreamsOutcome {
        let streams = Streams {
            mtu,
            clients,
            streams: u16::from(streams),
            measured_ns: 700_000_000,
            seed: 1,
        };
        run_streams(&Parameters::new(mode, cache_bytes), &streams)
    }

    #[test]
    fn a_run_of_tcp_is_a_function_of_its_seed() {
        let ran = [(); 2].map(|()| run(Mode::Direct, 1500, [4, 4], 128 << 10));
        assert_eq!(ran[0], ran[1]);
        let counters = ran[0].adapter;
        assert!(counters.hits > 1000 && counters.misses > 0, "{counters:?}");
    }

    #[test]
    fn direct_brings_tcp_more_than_pcache_than_baseline() {
        let [baseline, pcache, direct] = [Mode::Baseline, Mode::Pcache, Mode::Direct]
            .map(|mode| run(mode, 8192, [4, 4], 1 << 20).goodput_mb_per_s);
        assert!(
            baseline * 1.1 < pcache && pcache * 1.3 < direct,
            "{baseline} {pcache} {direct}"
        );
    }
}
