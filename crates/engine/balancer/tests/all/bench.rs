//! An engine between a port of clients and a port of nodes that answer ARP and solicitations, in
//! simulated time; every frame that leaves is checked by sums of its own.

use std::net::{IpAddr, SocketAddr};

use lineside_account::Budget;
use lineside_balancer::{
    Change, ChangeError, Decision, Effects, Nat, NodeSettings, PortSettings, Service, Settings,
    Timeouts, Transport,
};
use lineside_frame::{Descriptor, Frame, LinkType};
use lineside_time::Nanoseconds;
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::neighbour::{self, Neighbour, What};
use lineside_wire::{Dissected, PROTOCOL_ICMPV6, TcpFlags, arp, dissect, ethernet, ipv4, ipv6};

pub(crate) const CLIENTS: usize = 0;
pub(crate) const NODES: usize = 1;
pub(crate) const OURS: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 0], [2, 0, 0, 0, 1, 1]];
pub(crate) const CLIENT: [u8; 6] = [2, 0, 0, 0, 2, 1];
pub(crate) const SECOND: Nanoseconds = 1_000_000_000;

/// A node's Ethernet address, by the last byte of its own.
pub(crate) fn node_ethernet(address: IpAddr) -> [u8; 6] {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    [2, 0, 0, 0, 3, last]
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) fn socket(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

pub(crate) fn nodes(texts: &[&str]) -> Vec<NodeSettings> {
    let node = |text: &&str| NodeSettings {
        address: socket(text),
        weight: 1,
    };
    texts.iter().map(node).collect()
}

/// A TCP service on 80 and a UDP service on 53 of each IP version, each with two nodes.
pub(crate) fn settings() -> Settings {
    let ports = ["clients", "nodes"].iter().zip(OURS);
    let v4 = ["10.9.2.2:8080", "10.9.2.3:8080"];
    let v6 = ["[fd00:2::2]:8080", "[fd00:2::3]:8080"];
    Settings {
        ports: ports
            .map(|(name, ethernet)| PortSettings {
                name: (*name).into(),
                ethernet,
                mtu: 1500,
            })
            .collect(),
        nat: vec![address("10.9.2.100"), address("fd00:2::100")],
        services: vec![
            Service::new(Transport::Tcp, socket("10.9.1.100:80"), nodes(&v4)),
            Service::new(Transport::Udp, socket("10.9.1.100:53"), nodes(&v4)),
            Service::new(Transport::Tcp, socket("[fd00:1::100]:80"), nodes(&v6)),
            Service::new(Transport::Udp, socket("[fd00:1::100]:53"), nodes(&v6)),
        ],
        routes: Vec::new(),
        timeouts: Timeouts::default(),
        connections_max: 1000,
        cookies_above: None,
        seed: 7,
    }
}

pub(crate) struct Bench {
    pub(crate) nat: Nat,
    pub(crate) budget: Budget,
    pub(crate) now: Nanoseconds,
    pub(crate) decided: Vec<Decision>,
    /// Nodes that answer nothing.
    pub(crate) silent: Vec<IpAddr>,
    effects: Effects,
    /// Frames that the engine got.
    pub(crate) arrived: u64,
}

impl Bench {
    pub(crate) fn new(settings: Settings) -> Self {
        let budget = Budget::new(1 << 30);
        let nat = Nat::new(settings, &budget).expect("settings that are right");
        let mut bench = Self {
            nat,
            budget,
            now: SECOND,
            decided: Vec::new(),
            silent: Vec::new(),
            effects: Effects::default(),
            arrived: 0,
        };
        let now = bench.now;
        bench.nat.begin(now, &mut bench.effects);
        bench.settle();
        bench
    }

    /// What leaves when a frame comes; questions for neighbours are answered meanwhile.
    pub(crate) fn send(&mut self, port: usize, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        self.give(port, bytes);
        self.settle()
    }

    fn give(&mut self, port: usize, bytes: &[u8]) {
        self.arrived += 1;
        let now = self.now;
        self.nat
            .on_frame(now, port, frame(bytes), &mut self.effects);
    }

    /// As [`send`](Self::send), where no neighbour is asked for: the frames as they leave.
    pub(crate) fn send_frames(&mut self, port: usize, bytes: &[u8]) -> Vec<Frame> {
        self.give(port, bytes);
        let outgoing = self.effects.frames.drain(..);
        outgoing.map(|outgoing| outgoing.frame).collect()
    }

    /// As [`send`](Self::send), without a look at what leaves.
    pub(crate) fn send_quietly(&mut self, port: usize, bytes: &[u8]) {
        self.give(port, bytes);
        self.effects.frames.clear();
    }

    /// Makes a change, and returns what it says.
    pub(crate) fn change(&mut self, change: &Change) -> String {
        self.change_with_frames(change).0
    }

    /// Makes a change, and returns what it says and which frames left.
    pub(crate) fn change_with_frames(
        &mut self,
        change: &Change,
    ) -> (String, Vec<(usize, Vec<u8>)>) {
        let reply = self.nat.apply(self.now, change, &mut self.effects);
        (reply.expect("a change that is possible"), self.settle())
    }

    /// Makes a change that may be refused.
    pub(crate) fn try_change(&mut self, change: &Change) -> Result<String, ChangeError> {
        let reply = self.nat.apply(self.now, change, &mut self.effects);
        self.settle();
        reply
    }

    /// The one frame that leaves.
    pub(crate) fn send_one(&mut self, port: usize, bytes: &[u8]) -> (usize, Vec<u8>) {
        let mut left = self.send(port, bytes);
        assert_eq!(left.len(), 1, "one frame leaves: {left:?}");
        left.remove(0)
    }

    /// Time passes, with all timers at their instants.
    pub(crate) fn pass(&mut self, time: Nanoseconds) -> Vec<(usize, Vec<u8>)> {
        let until = self.now + time;
        let mut left = Vec::new();
        while let Some(at) = self.nat.next_deadline().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            let now = self.now;
            self.nat.on_timer(now, &mut self.effects);
            left.extend(self.settle());
        }
        self.now = until;
        left
    }

    fn settle(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut left = Vec::new();
        while !self.effects.frames.is_empty() {
            for outgoing in std::mem::take(&mut self.effects.frames) {
                let bytes = outgoing.frame.parts().concat();
                assert_eq!(
                    ethernet::Frame::new_unchecked(&bytes).source(),
                    OURS[outgoing.port],
                    "it leaves from its port"
                );
                match self.answer(outgoing.port, &bytes) {
                    Some(None) => {}
                    Some(Some(answer)) => self.give(outgoing.port, &answer),
                    None => left.push((outgoing.port, bytes)),
                }
            }
        }
        self.decided.append(&mut self.effects.decided);
        left
    }

    /// The answer to a question for a neighbour, if there is one; `None`: it is no question.
    fn answer(&self, port: usize, bytes: &[u8]) -> Option<Option<Vec<u8>>> {
        let header = ethernet::Frame::new_unchecked(bytes);
        if let Some(arp) = arp::Packet::new_checked(header.payload()) {
            let target = arp.target_address();
            if arp.operation() != arp::REQUEST {
                return None;
            }
            if arp.sender_address() == target {
                return Some(None);
            }
            let is_here = self.is_here(port, target.into());
            return Some(is_here.then(|| {
                let own = node_ethernet(target.into());
                let mut reply = vec![0; 14 + arp::PACKET_LEN];
                let to = (arp.sender(), arp.sender_address());
                emit_link(to.0, own, 0x0806, &mut reply);
                arp::Packet::emit(&mut reply[14..], arp::REPLY, (own, target), to);
                reply
            }));
        }
        let packet = ipv6::Packet::new_checked(header.payload())?;
        let message = (packet.next_header() == PROTOCOL_ICMPV6).then(|| packet.payload());
        let asked = Neighbour::read(message?)?;
        if asked.what != What::Solicitation {
            return (packet.destination().is_multicast()).then_some(None);
        }
        let is_here = self.is_here(port, asked.target.into());
        Some(is_here.then(|| {
            let own = node_ethernet(asked.target.into());
            let what = What::Advertisement {
                is_solicited: true,
                overrides: true,
            };
            let ends = [asked.target, packet.source()];
            let mut payload = [0; neighbour::MESSAGE_LEN];
            Neighbour::emit(what, asked.target, own, ends, &mut payload);
            FrameBuilder::new(ends[0].into(), ends[1].into())
                .with_ttl(255)
                .with_link_addresses(own, header.source())
                .packet(PROTOCOL_ICMPV6, &payload)
        }))
    }

    /// Each frame that came has one outcome, or waits.
    pub(crate) fn check_identity(&self) {
        let report = self.nat.report(self.now);
        assert_eq!(report.arrived, self.arrived);
        assert_eq!(
            report.outcomes.sum() + report.held,
            self.arrived,
            "{report:?}"
        );
    }

    /// How many frames met an outcome.
    pub(crate) fn outcome(&self, outcome: lineside_balancer::Outcome) -> u64 {
        self.nat.report(self.now).outcomes.of(outcome)
    }

    fn is_here(&self, port: usize, target: IpAddr) -> bool {
        let is_node = match target {
            IpAddr::V4(target) => target.octets()[2] == 2 && target.octets()[3] < 100,
            IpAddr::V6(target) => target.segments()[1] == 2 && target.segments()[7] < 0x100,
        };
        port == NODES && is_node && !self.silent.contains(&target)
    }
}

pub(crate) fn frame(bytes: &[u8]) -> Frame {
    let descriptor = Descriptor {
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    Frame::copied(bytes, descriptor)
}

pub(crate) fn emit_link(destination: [u8; 6], source: [u8; 6], kind: u16, bytes: &mut [u8]) {
    let mut header = ethernet::Frame::new_unchecked(bytes);
    header.set_destination(destination);
    header.set_source(source);
    header.set_ether_type(kind);
}

/// Frames from a client to the engine.
pub(crate) fn from_client(source: &str, destination: &str) -> FrameBuilder {
    FrameBuilder::new(address(source), address(destination))
        .with_link_addresses(CLIENT, OURS[CLIENTS])
}

/// A client's segment.
pub(crate) fn segment(ports: [u16; 2], sequence: u32, flags: TcpFlags) -> TcpFields<'static> {
    TcpFields {
        source_port: ports[0],
        destination_port: ports[1],
        sequence,
        flags,
        ..TcpFields::default()
    }
}

/// Who sends a TCP segment or a datagram to whom.
pub(crate) fn ends(bytes: &[u8]) -> [SocketAddr; 2] {
    let of = |ip: lineside_wire::Ip, ports: [u16; 2]| {
        [
            SocketAddr::new(ip.source, ports[0]),
            SocketAddr::new(ip.destination, ports[1]),
        ]
    };
    match dissect(1, bytes, bytes.len()) {
        Dissected::Tcp(ip, tcp) => of(ip, [tcp.source_port, tcp.destination_port]),
        Dissected::Udp(ip, udp) => of(ip, [udp.source_port, udp.destination_port]),
        other => panic!("neither segment nor datagram: {other:?}"),
    }
}

/// The same packet turned round: as its receiver would send it back unchanged.
pub(crate) fn turned(bytes: &[u8]) -> Vec<u8> {
    let mut turned = bytes.to_vec();
    turned[..6].copy_from_slice(&bytes[6..12]);
    turned[6..12].copy_from_slice(&bytes[..6]);
    let (at, len) = match bytes[14] >> 4 {
        4 => (26, 4),
        _ => (22, 16),
    };
    turned[at..at + len].copy_from_slice(&bytes[at + len..at + 2 * len]);
    turned[at + len..at + 2 * len].copy_from_slice(&bytes[at..at + len]);
    let transport = transport_at(bytes);
    turned[transport..transport + 2].copy_from_slice(&bytes[transport + 2..transport + 4]);
    turned[transport + 2..transport + 4].copy_from_slice(&bytes[transport..transport + 2]);
    turned
}

/// A node's answer to a datagram that left.
pub(crate) fn answer_to(datagram: &[u8]) -> Vec<u8> {
    let [client, node] = ends(datagram);
    FrameBuilder::new(node.ip(), client.ip())
        .with_link_addresses(node_ethernet(node.ip()), OURS[NODES])
        .udp(node.port(), client.port(), b"an answer")
}

/// Where the transport header is; IPv6 without extension headers.
pub(crate) fn transport_at(bytes: &[u8]) -> usize {
    match bytes[14] >> 4 {
        4 => 14 + usize::from(bytes[14] & 15) * 4,
        _ => 54,
    }
}

/// Whether all checksums of a frame are right, by a sum that is written out here.
pub(crate) fn is_right(bytes: &[u8]) -> bool {
    let sum = |bytes: &[u8]| {
        let words = bytes.chunks(2);
        let word = |word: &[u8]| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0));
        words.map(word).sum::<u64>()
    };
    let is_whole = |sum: u64| sum > 0 && sum.is_multiple_of(0xffff);
    let at = transport_at(bytes);
    let (protocol, end, addresses) = match bytes[14] >> 4 {
        4 => {
            let packet = ipv4::Packet::new_unchecked(&bytes[14..]);
            if !is_whole(sum(&bytes[14..at])) {
                return false;
            }
            (packet.protocol(), 14 + packet.total_len(), &bytes[26..34])
        }
        _ => {
            let packet = ipv6::Packet::new_unchecked(&bytes[14..]);
            (
                packet.next_header(),
                54 + packet.payload_len(),
                &bytes[22..54],
            )
        }
    };
    let segment = &bytes[at..end];
    let pseudo = match protocol {
        1 => 0,
        _ => sum(addresses) + u64::from(protocol) + segment.len() as u64,
    };
    let is_without = protocol == 17 && segment[6..8] == [0; 2];
    is_without || is_whole(pseudo + sum(segment))
}

/// A TCP connection through the engine: both ends count.
pub(crate) struct Talk {
    pub(crate) source: String,
    pub(crate) virtual_address: String,
    pub(crate) port: u16,
    /// The node, and the source that it sees.
    pub(crate) node: SocketAddr,
    pub(crate) seen_as: SocketAddr,
    /// What each has sent.
    pub(crate) sent: [u32; 2],
}

impl Talk {
    /// Makes a handshake with port 80.
    pub(crate) fn open(bench: &mut Bench, source: &str, virtual_address: &str, port: u16) -> Self {
        let syn =
            from_client(source, virtual_address).tcp(&segment([port, 80], 0, TcpFlags::SYN), &[]);
        // Before it may go what resets a connection that makes room.
        let (_, at_node) = { bench.send(CLIENTS, &syn).pop() }.expect("the node gets it");
        let [seen_as, node] = ends(&at_node);
        let mut talk = Self {
            source: source.into(),
            virtual_address: virtual_address.into(),
            port,
            node,
            seen_as,
            sent: [1, 1],
        };
        let answer = TcpFields {
            sequence: 0,
            ..talk.of_node(TcpFlags::SYN | TcpFlags::ACK)
        };
        talk.send_node(bench, &answer, &[]);
        talk.say(bench, &[]);
        talk
    }

    pub(crate) fn of_client(&self, flags: TcpFlags) -> TcpFields<'static> {
        TcpFields {
            acknowledgement: self.sent[1],
            ..segment([self.port, 80], self.sent[0], flags)
        }
    }

    pub(crate) fn of_node(&self, flags: TcpFlags) -> TcpFields<'static> {
        TcpFields {
            acknowledgement: self.sent[0],
            ..segment([self.node.port(), self.seen_as.port()], self.sent[1], flags)
        }
    }

    /// The client's segment; what leaves.
    pub(crate) fn send_client(
        &self,
        bench: &mut Bench,
        fields: &TcpFields<'_>,
        payload: &[u8],
    ) -> Vec<(usize, Vec<u8>)> {
        let frame = from_client(&self.source, &self.virtual_address).tcp(fields, payload);
        bench.send(CLIENTS, &frame)
    }

    /// The node's segment; what leaves.
    pub(crate) fn send_node(
        &self,
        bench: &mut Bench,
        fields: &TcpFields<'_>,
        payload: &[u8],
    ) -> Vec<(usize, Vec<u8>)> {
        let frame = FrameBuilder::new(self.node.ip(), self.seen_as.ip())
            .with_link_addresses(node_ethernet(self.node.ip()), OURS[NODES])
            .tcp(fields, payload);
        bench.send(NODES, &frame)
    }

    /// The client sends, and the node gets it.
    pub(crate) fn say(&mut self, bench: &mut Bench, payload: &[u8]) {
        let left = self.send_client(bench, &self.of_client(TcpFlags::ACK), payload);
        let [(NODES, at_node)] = &left[..] else {
            panic!("the node gets it: {left:?}")
        };
        assert!(is_right(at_node));
        assert_eq!(ends(at_node), [self.seen_as, self.node]);
        self.sent[0] += payload.len() as u32;
    }

    /// The node sends, and the client gets it.
    pub(crate) fn answer(&mut self, bench: &mut Bench, payload: &[u8]) {
        let left = self.send_node(bench, &self.of_node(TcpFlags::ACK), payload);
        let [(CLIENTS, at_client)] = &left[..] else {
            panic!("the client gets it: {left:?}")
        };
        assert!(is_right(at_client));
        let client = SocketAddr::new(address(&self.source), self.port);
        assert_eq!(ends(at_client)[1], client);
        self.sent[1] += payload.len() as u32;
    }

    /// Both end it.
    pub(crate) fn finish(&mut self, bench: &mut Bench) {
        let fin = TcpFlags::FIN | TcpFlags::ACK;
        assert_eq!(self.send_client(bench, &self.of_client(fin), &[]).len(), 1);
        self.sent[0] += 1;
        assert_eq!(self.send_node(bench, &self.of_node(fin), &[]).len(), 1);
        self.sent[1] += 1;
        self.say(bench, &[]);
    }
}
