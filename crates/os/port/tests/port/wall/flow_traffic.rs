//! Real TCP and UDP between two hosts whose flow the driver forwards and translates, there and
//! back: what it leaves to user space a few lines here translate.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use lineside_account::Budget;
use lineside_frame::Burst;
use lineside_host::{NetNamespace, Netlink, Stopwatch, may_make_network_namespaces};
use lineside_port::live::{
    FlowKey, FlowRule, FlowTable, Interface, LiveOptions, StampClock, open_each,
};
use lineside_port::{LivePort, Method};
use lineside_wire::{Dissected, PROTOCOL_TCP, PROTOCOL_UDP, dissect, ipv4, tcp, udp};

use crate::wall::wire::ip;

const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 4];
/// Ours, towards client and server.
const OURS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];
const PATIENCE: Duration = Duration::from_secs(60);
const LEN: usize = 4_000_000;
const DATAGRAMS: u32 = 500;

/// Client, service, our address towards the server, server.
#[derive(Clone, Copy)]
struct Plan {
    protocol: u8,
    ends: [SocketAddr; 4],
}

impl Plan {
    fn new(protocol: u8, is_v4: bool) -> Self {
        let ends = match is_v4 {
            true => [
                "198.51.100.7:0",
                "198.51.100.1:80",
                "10.9.2.100:5000",
                "10.9.2.2:8080",
            ],
            false => [
                "[2001:db8::7]:0",
                "[2001:db8::1]:80",
                "[fd00:9::100]:5000",
                "[fd00:9::2]:8080",
            ],
        };
        let ends = ends.map(|end| end.parse().expect("an address and port"));
        Self { protocol, ends }
    }
}

/// Two hosts and what is between them: the namespaces go with their descriptors.
struct Hosts {
    client: NetNamespace,
    server: NetNamespace,
    near: [Interface; 2],
}

fn hosts() -> Hosts {
    lineside_testkit::waiting::take_place();
    let new = || NetNamespace::new().expect("a namespace");
    let (client, server, ours) = (new(), new(), new());
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let netlink = Netlink::open().expect("netlink");
    for (name, far) in [("left", &client), ("right", &server)] {
        netlink.add_veth(name, "eth0", far.as_fd()).expect("a pair");
        ip(&format!("link set {name} up"));
    }
    let ends = [
        (
            &client,
            CLIENT,
            ["198.51.100.7/24", "2001:db8::7/64"],
            ["198.51.100.1", "2001:db8::1"],
            OURS[0],
        ),
        (
            &server,
            SERVER,
            ["10.9.2.2/24", "fd00:9::2/64"],
            ["10.9.2.100", "fd00:9::100"],
            OURS[1],
        ),
    ];
    for (namespace, own, addresses, neighbours, other) in ends {
        namespace.enter().expect("a namespace");
        let text = |address: [u8; 6]| address.map(|byte| format!("{byte:02x}")).join(":");
        ip(&format!("link set eth0 address {} up", text(own)));
        for address in addresses {
            let is_v6 = address.contains(':');
            ip(&format!(
                "addr add {address} dev eth0{}",
                if is_v6 { " nodad" } else { "" }
            ));
        }
        for neighbour in neighbours {
            ip(&format!(
                "neigh add {neighbour} lladdr {} dev eth0",
                text(other)
            ));
        }
        // The driver cannot finish checksums, and leads frames only where something polls.
        let done = Command::new("ethtool")
            .args(["-K", "eth0", "tx", "off", "gro", "on"])
            .output();
        assert!(done.expect("ethtool runs").status.success());
        let _ = std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
    }
    ours.enter().expect("a namespace");
    let near = ["left", "right"].map(|name| Interface::named(name).expect("just made"));
    Hosts {
        client,
        server,
        near,
    }
}

/// The forwarder in user space.
struct Forwarder {
    plan: Plan,
    near: [Interface; 2],
    table: FlowTable,
    ports: Vec<Box<dyn LivePort>>,
    /// Frames of the flow that came up.
    up: u64,
    has_entered: bool,
}

impl Forwarder {
    fn new(plan: Plan, hosts: &Hosts) -> Self {
        let budget = Budget::new(256 << 20);
        let table = FlowTable::new(1_000, &budget).expect("a table");
        let options = LiveOptions {
            method: Some(Method::AfXdpNative),
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
        let ports = hosts
            .near
            .iter()
            .flat_map(|near| open_each(near, &options).expect("opens"));
        Self {
            plan,
            near: hosts.near.clone(),
            table,
            ports: ports.collect(),
            up: 0,
            has_entered: false,
        }
    }

    fn turn(&mut self) {
        for from in [0, 1] {
            let mut burst = Burst::new();
            self.ports[from].receive(&mut burst, 64).expect("receives");
            let mut left = Burst::new();
            for mut frame in burst {
                if self.translate(from, frame.bytes_mut()) {
                    self.up += 1;
                    left.push(frame);
                }
            }
            while !left.is_empty() {
                self.ports[1 - from].transmit(&mut left).expect("transmits");
            }
            self.ports[1 - from].reclaim();
            self.ports[from].reclaim();
        }
        if !self.has_entered && self.plan.ends[0].port() != 0 {
            self.has_entered = true;
            for rule in self.rules() {
                self.table.insert(&rule).expect("room");
            }
        }
    }

    fn rules(&self) -> [FlowRule; 2] {
        let [client, service, ours, server] = self.plan.ends;
        let rule = |from: usize, before: [SocketAddr; 2], after: [SocketAddr; 2]| FlowRule {
            key: FlowKey {
                interface: self.near[from].index,
                protocol: self.plan.protocol,
                source: before[0],
                destination: before[1],
            },
            new_source: after[0],
            new_destination: after[1],
            out: self.near[1 - from].index,
            ethernet_here: OURS[from],
            ethernet_source: OURS[1 - from],
            ethernet_destination: [SERVER, CLIENT][from],
        };
        [
            rule(0, [client, service], [ours, server]),
            rule(1, [server, ours], [service, client]),
        ]
    }

    /// Whether it is of the flow; the checksums are computed anew.
    fn translate(&mut self, from: usize, frame: &mut [u8]) -> bool {
        let (source, destination, ports) = match dissect(1, frame, frame.len()) {
            Dissected::Tcp(ip, tcp) => (
                ip.source,
                ip.destination,
                [tcp.source_port, tcp.destination_port],
            ),
            Dissected::Udp(ip, udp) => (
                ip.source,
                ip.destination,
                [udp.source_port, udp.destination_port],
            ),
            _ => return false,
        };
        let before = [
            SocketAddr::new(source, ports[0]),
            SocketAddr::new(destination, ports[1]),
        ];
        let [client, service, ours, server] = &mut self.plan.ends;
        if from == 0 && before[1] == *service {
            *client = before[0];
        }
        let (expected, after) = match from {
            0 => ([*client, *service], [*ours, *server]),
            _ => ([*server, *ours], [*service, *client]),
        };
        if before != expected {
            return false;
        }
        frame[..6].copy_from_slice(&[SERVER, CLIENT][from]);
        frame[6..12].copy_from_slice(&OURS[1 - from]);
        rewrite(self.plan.protocol, after, &mut frame[14..]);
        true
    }
}

fn rewrite(protocol: u8, ends: [SocketAddr; 2], packet: &mut [u8]) {
    let header_len = match (ends[0].ip(), ends[1].ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = ipv4::Packet::new_unchecked(&mut packet[..]);
            header.set_source(source);
            header.set_destination(destination);
            header.fill_checksum();
            ipv4::HEADER_LEN
        }
        (source, destination) => {
            for (at, address) in [(8, source), (24, destination)] {
                let IpAddr::V6(address) = address else {
                    panic!("of one family");
                };
                packet[at..at + 16].copy_from_slice(&address.octets());
            }
            40
        }
    };
    let segment = &mut packet[header_len..];
    segment[..2].copy_from_slice(&ends[0].port().to_be_bytes());
    segment[2..4].copy_from_slice(&ends[1].port().to_be_bytes());
    match protocol {
        PROTOCOL_TCP => {
            tcp::Segment::new_unchecked(segment).fill_checksum(ends[0].ip(), ends[1].ip())
        }
        _ => udp::Datagram::new_unchecked(segment).fill_checksum(ends[0].ip(), ends[1].ip()),
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 / 7) as u8).collect()
}

/// The kernel's count of wrong checksums in the namespace of this thread.
fn checksum_errors() -> Vec<String> {
    let counts = ["snmp", "snmp6"].map(|name| {
        std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
    });
    let of_v6 =
        { counts[1].lines() }.filter(|line| line.contains("Csum") && !line.ends_with("\t0"));
    let mut errors: Vec<String> = of_v6.map(str::to_owned).collect();
    let lines: Vec<&str> = counts[0].lines().collect();
    for pair in lines.chunks(2) {
        let names = pair[0].split(' ').zip(pair[1].split(' '));
        errors.extend(
            names
                .filter(|(name, value)| name.contains("Csum") && *value != "0")
                .map(|(name, value)| format!("{} {name} {value}", pair[0])),
        );
    }
    errors
}

fn serve(plan: Plan, ready: Sender<()>) {
    let at = plan.ends[3];
    if plan.protocol == PROTOCOL_UDP {
        let socket = UdpSocket::bind(at).expect("binds");
        ready.send(()).expect("it waits");
        let mut buffer = [0; 2_000];
        for _ in 0..DATAGRAMS {
            let (len, from) = socket.recv_from(&mut buffer).expect("receives");
            assert_eq!(from, plan.ends[2]);
            socket.send_to(&buffer[..len], from).expect("sends");
        }
        return;
    }
    let listener = TcpListener::bind(at).expect("binds");
    ready.send(()).expect("it waits");
    let (mut stream, from) = listener.accept().expect("accepts");
    assert_eq!(from, plan.ends[2]);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("reads");
    assert!(bytes == pattern(LEN), "as it was sent: {}", bytes.len());
    stream.write_all(&bytes).expect("writes");
}

fn ask(plan: Plan) {
    if plan.protocol == PROTOCOL_UDP {
        let mut any = plan.ends[0];
        any.set_port(0);
        let socket = UdpSocket::bind(any).expect("binds");
        socket.connect(plan.ends[1]).expect("connects");
        let mut buffer = [0; 2_000];
        for number in 0..DATAGRAMS {
            let sent = pattern(number as usize * 2);
            socket.send(&sent).expect("sends");
            let len = socket.recv(&mut buffer).expect("receives");
            assert!(buffer[..len] == sent);
        }
        return;
    }
    let mut stream = TcpStream::connect(plan.ends[1]).expect("connects");
    stream.write_all(&pattern(LEN)).expect("writes");
    stream.shutdown(Shutdown::Write).expect("shuts");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("reads");
    assert!(bytes == pattern(LEN), "as it was sent: {}", bytes.len());
}

#[test]
fn real_traffic_passes_by_the_driver_byte_for_byte() {
    if !may_make_network_namespaces() {
        println!("SKIP: flow traffic: network namespaces need root");
        return;
    }
    for (protocol, is_v4) in [
        (PROTOCOL_TCP, true),
        (PROTOCOL_TCP, false),
        (PROTOCOL_UDP, true),
        (PROTOCOL_UDP, false),
    ] {
        let hosts = hosts();
        let plan = Plan::new(protocol, is_v4);
        let mut forwarder = Forwarder::new(plan, &hosts);
        let errors = thread::scope(|scope| {
            let (ready, is_ready) = std::sync::mpsc::channel();
            let server = scope.spawn(|| {
                hosts.server.enter().expect("a namespace");
                serve(plan, ready);
                checksum_errors()
            });
            is_ready.recv().expect("it listens");
            let client = scope.spawn(|| {
                hosts.client.enter().expect("a namespace");
                ask(plan);
                checksum_errors()
            });
            let ends = [server, client];
            let watch = Stopwatch::start();
            while ends.iter().any(|end| !end.is_finished()) {
                forwarder.turn();
                assert!(
                    watch.elapsed() < PATIENCE,
                    "{:?}",
                    forwarder.table.outcomes()
                );
            }
            ends.map(|end| end.join().expect("no panic"))
        });
        assert!(errors.iter().all(Vec::is_empty), "{errors:?}");
        let outcomes = forwarder.table.outcomes();
        let counts = forwarder.rules().map(|rule| {
            let counts = forwarder.table.remove(&rule.key).expect("removes");
            counts.expect("it is there").frames
        });
        assert_eq!(counts[0] + counts[1], outcomes.forwarded, "{outcomes:?}");
        let (least, most_up) = match protocol {
            PROTOCOL_TCP => (LEN as u64 / 1460, 200),
            _ => (u64::from(DATAGRAMS) - 20, 20),
        };
        assert!(
            counts.iter().min() >= Some(&least),
            "{counts:?} {outcomes:?}"
        );
        assert!(forwarder.up <= most_up, "{} {outcomes:?}", forwarder.up);
    }
}
