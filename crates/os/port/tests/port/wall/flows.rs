//! Frames of decided flows, which the driver forwards from port to port.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use lineside_account::Budget;
use lineside_frame::Burst;
use lineside_host::Stopwatch;
use lineside_port::live::{
    FlowError, FlowKey, FlowOutcomes, FlowRule, FlowTable, Interface, LiveOptions, StampClock,
    open_each,
};
use lineside_port::{LivePort, Method, PortError};
use lineside_time::Random;
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::ethernet::ether_type;
use lineside_wire::{PROTOCOL_TCP, PROTOCOL_UDP, TcpFlags, checksum};

use crate::wall::wire::{Wire, another_wire, wire};

const PATIENCE: Duration = Duration::from_secs(30);
const METHODS: [Method; 2] = [Method::AfXdpNative, Method::AfXdpGeneric];

const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HERE: [u8; 6] = [2, 0, 0, 0, 0, 2];
const THERE: [u8; 6] = [2, 0, 0, 0, 0, 3];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 4];

/// Two wires, and ports at their near ends, which share a table.
struct Lab {
    left: Wire,
    right: Wire,
    table: FlowTable,
    ports: [Box<dyn LivePort>; 2],
    near: [Interface; 2],
}

fn set_gro(interface: &str, is_on: bool) {
    let word = if is_on { "on" } else { "off" };
    let done = Command::new("ethtool")
        .args(["-K", interface, "gro", word])
        .status();
    assert!(done.expect("ethtool runs").success());
}

/// `None`, with the reason printed, where it is not allowed.
fn lab(method: Method, mtu: [u32; 2]) -> Option<Lab> {
    let lab = lab_with(method, mtu, true)?;
    for port in &lab.ports {
        let warnings = &port.facts()[0].warnings;
        assert!(warnings.is_empty(), "{warnings:?}");
    }
    Some(lab)
}

/// `is_polled`: whether something takes frames out at the right far end that no kernel sent.
fn lab_with(method: Method, mtu: [u32; 2], is_polled: bool) -> Option<Lab> {
    let left = wire(1, 1, mtu[0])?;
    let right = another_wire(["near2", "far2"], [1, 1], mtu[1]);
    set_gro("far", true);
    set_gro("far2", is_polled);
    let budget = Budget::new(256 << 20);
    let table = match FlowTable::new(8, &budget) {
        Err(error @ PortError::Privilege { .. }) => {
            println!("SKIP: {error}");
            return None;
        }
        made => made.expect("a table"),
    };
    let options = LiveOptions {
        method: Some(method),
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
    let near = ["near", "near2"].map(|name| Interface::named(name).expect("just made"));
    let ports = near.each_ref().map(|near| {
        let mut ports = open_each(near, &options).expect("opens");
        assert_eq!(ports.len(), 1);
        ports.remove(0)
    });
    Some(Lab {
        left,
        right,
        table,
        ports,
        near,
    })
}

impl Lab {
    /// The next frame at a far end.
    fn arrived(&self, wire: &Wire) -> Vec<u8> {
        let watch = Stopwatch::start();
        loop {
            if let Some(frame) = wire.receive() {
                return frame;
            }
            assert!(watch.elapsed() < PATIENCE, "{:?}", self.table.outcomes());
        }
    }

    /// So many frames that came up at the left port.
    fn came_up(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        let watch = Stopwatch::start();
        while burst.len() < count {
            assert!(watch.elapsed() < PATIENCE, "{:?}", self.table.outcomes());
            self.ports[0].receive(&mut burst, 64).expect("receives");
        }
        burst.iter().map(|frame| frame.bytes().to_vec()).collect()
    }
}

/// One direction of a flow before and after.
#[derive(Debug, Clone, Copy)]
struct Case {
    protocol: u8,
    before: [SocketAddr; 2],
    after: [SocketAddr; 2],
}

impl Case {
    fn of(protocol: u8, before: [&str; 2], after: [&str; 2]) -> Self {
        let read = |ends: [&str; 2]| ends.map(|end| end.parse().expect("an address and port"));
        Self {
            protocol,
            before: read(before),
            after: read(after),
        }
    }

    fn rule(&self, lab: &Lab) -> FlowRule {
        FlowRule {
            key: FlowKey {
                interface: lab.near[0].index,
                protocol: self.protocol,
                source: self.before[0],
                destination: self.before[1],
            },
            new_source: self.after[0],
            new_destination: self.after[1],
            out: lab.near[1].index,
            ethernet_here: HERE,
            ethernet_source: THERE,
            ethernet_destination: SERVER,
        }
    }

    /// A frame as it comes, and as it leaves.
    fn frames(&self, payload: &[u8], flags: TcpFlags) -> [Vec<u8>; 2] {
        let build = |ends: [SocketAddr; 2], link: [[u8; 6]; 2], ttl| {
            let builder = FrameBuilder::new(ends[0].ip(), ends[1].ip())
                .with_link_addresses(link[0], link[1])
                .with_ttl(ttl)
                .with_identification(0x1234);
            if self.protocol == PROTOCOL_UDP {
                return builder.udp(ends[0].port(), ends[1].port(), payload);
            }
            let fields = TcpFields {
                source_port: ends[0].port(),
                destination_port: ends[1].port(),
                sequence: 0x0102_0304,
                acknowledgement: 77,
                flags,
                options: &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
                ..TcpFields::default()
            };
            builder.tcp(&fields, payload)
        };
        [
            build(self.before, [CLIENT, HERE], 64),
            build(self.after, [THERE, SERVER], 63),
        ]
    }
}

fn cases() -> [Case; 4] {
    let v4 = (
        ["198.51.100.7:40000", "203.0.113.1:80"],
        ["10.9.2.100:1025", "10.9.2.2:8080"],
    );
    let v6 = (
        ["[2001:db8::7]:40000", "[2001:db8:1::1]:80"],
        ["[fd00:9::100]:1025", "[fd00:9::2]:8080"],
    );
    [
        Case::of(PROTOCOL_TCP, v4.0, v4.1),
        Case::of(PROTOCOL_UDP, v4.0, v4.1),
        Case::of(PROTOCOL_TCP, v6.0, v6.1),
        Case::of(PROTOCOL_UDP, v6.0, v6.1),
    ]
}

/// Each frame is the one that a sender at the new addresses would have built, to the last bit.
#[test]
fn the_driver_rewrites_frames_of_flows_exactly() {
    for method in METHODS {
        let Some(lab) = lab(method, [9000, 9000]) else {
            return;
        };
        for case in cases() {
            let rule = case.rule(&lab);
            lab.table.insert(&rule).expect("room");
            let mut sent = (0, 0);
            for len in (0..1400).step_by(23).chain([4000, 8900]) {
                let payload: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
                let [before, after] = case.frames(&payload, TcpFlags::ACK);
                sent.0 += 1;
                sent.1 += before.len() as u64;
                lab.left.send(&[before]);
                assert!(lab.arrived(&lab.right) == after, "{method} {case:?} {len}");
            }
            let counts = lab.table.counts(&rule.key).expect("it is there");
            assert_eq!((counts.frames, counts.bytes), sent);
            assert!(counts.latest_ns.is_some());
            let mut all = Vec::new();
            lab.table.for_each(|key, counts| all.push((*key, counts)));
            assert_eq!(all, [(rule.key, counts)]);
            assert_eq!(lab.table.remove(&rule.key).expect("removes"), Some(counts));
            assert_eq!(lab.table.remove(&rule.key).expect("removes"), None);
        }
        let outcomes = lab.table.outcomes();
        assert_eq!(outcomes.up(), 0, "{outcomes:?}");
    }
}

/// One end, also of the addresses and ports whose sums are borderline.
fn any_end(random: &mut Random, is_v4: bool) -> SocketAddr {
    let mut word = || match random.below(4) {
        0 => 0,
        1 => u16::MAX,
        _ => random.bits() as u16,
    };
    let words = std::array::from_fn::<u16, 8, _>(|_| word());
    let [a, b, ..] = words;
    let address = match is_v4 {
        true => IpAddr::from((u32::from(a) << 16 | u32::from(b)).to_be_bytes()),
        false => IpAddr::from(words),
    };
    SocketAddr::new(address, word())
}

#[test]
fn checksums_are_right_whatever_changes() {
    let Some(lab) = lab(METHODS[0], [1500, 1500]) else {
        return;
    };
    let mut random = Random::new(26);
    for number in 0..2_000 {
        let (is_v4, is_tcp) = (number % 2 == 0, number % 4 < 2);
        let mut ends = || [(); 2].map(|()| any_end(&mut random, is_v4));
        let case = Case {
            protocol: if is_tcp { PROTOCOL_TCP } else { PROTOCOL_UDP },
            before: ends(),
            after: ends(),
        };
        let rule = case.rule(&lab);
        lab.table.insert(&rule).expect("room");
        let payload = random.bits().to_be_bytes();
        let [before, after] = case.frames(&payload, TcpFlags::ACK);
        lab.left.send(&[before]);
        assert!(lab.arrived(&lab.right) == after, "{number} {case:?}");
        lab.table.remove(&rule.key).expect("removes");
    }
}

/// Frames that come up, and the counter of why.
type Group = (Vec<Vec<u8>>, fn(&FlowOutcomes) -> u64);

fn plain(case: Case) -> Vec<u8> {
    case.frames(b"payload", TcpFlags::ACK)[0].clone()
}

fn changed(case: Case, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = plain(case);
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

fn builder(case: Case) -> FrameBuilder {
    FrameBuilder::new(case.before[0].ip(), case.before[1].ip()).with_link_addresses(CLIENT, HERE)
}

/// With a checksum as a sender leaves it to its adapter; `at`: where it is.
fn partial(case: Case, header_len: usize, at: usize) -> Vec<u8> {
    let len = plain(case).len() - 14 - header_len;
    let [source, destination] = case.before.map(|end| end.ip());
    let sum = checksum::pseudo_header_sum(source, destination, case.protocol, len);
    changed(case, 14 + header_len + at, &sum.to_be_bytes())
}

fn of_other_kinds() -> Vec<Group> {
    let [tcp, udp, tcp6, udp6] = cases();
    let [source, destination] = udp.before.map(|end| end.port());
    let datagram = |builder: FrameBuilder| builder.udp(source, destination, b"data");
    let with = |case: Case, flags| case.frames(b"", flags)[0].clone();
    let flags = vec![
        with(tcp, TcpFlags::SYN),
        with(tcp, TcpFlags::FIN | TcpFlags::ACK),
        with(tcp, TcpFlags::RST),
        with(tcp6, TcpFlags::FIN | TcpFlags::ACK),
    ];
    let hops = vec![changed(tcp, 22, &[1]), changed(udp6, 21, &[1])];
    let others = vec![
        datagram(builder(udp).with_tag(ether_type::VLAN, 7)),
        builder(udp).packet(1, &[8; 30]),
        datagram(builder(udp6).with_extension(60, &[17, 0, 1, 4, 0, 0, 0, 0])),
    ];
    let options = vec![datagram(builder(udp).with_options(&[1, 1, 1, 1]))];
    let fragments = builder(udp).fragments(PROTOCOL_UDP, &[7; 900], 400);
    let other_flows = vec![
        changed(udp, 36, &[0, 81]),
        changed(tcp6, 22 + 15, &[8]),
        changed(udp, 29, &[8]),
    ];
    let address = vec![changed(udp, 0, &[2, 0, 0, 0, 9, 9])];
    vec![
        (flags, |it| it.flag),
        (hops, |it| it.time_to_live),
        (others, |it| it.other_protocol),
        (options, |it| it.options),
        (fragments, |it| it.fragment),
        (other_flows, |it| it.no_flow),
        (address, |it| it.other_address),
    ]
}

fn of_other_bytes() -> Vec<Group> {
    let [tcp, udp, tcp6, udp6] = cases();
    let partial = vec![
        partial(tcp, 20, 16),
        partial(udp, 20, 6),
        partial(tcp6, 40, 16),
        partial(udp6, 40, 6),
    ];
    let long = cases().map(|case| case.frames(&[1; 1240], TcpFlags::ACK)[0].clone());
    let malformed = vec![
        changed(udp, 16, &[0, 20]),
        changed(udp, 16, &[0, 3]),
        changed(udp, 16, &[9, 0]),
        changed(udp6, 18, &[9, 0]),
        changed(tcp, 16, &[0, 30]),
        changed(udp6, 60, &[0, 0]),
        plain(tcp6)[..60].to_vec(),
        vec![2; 14],
    ];
    vec![
        (partial, |it| it.partial),
        (long.into(), |it| it.too_long),
        (malformed, |it| it.malformed),
    ]
}

/// By whatever reason: unchanged, counted, and not sent on.
#[test]
fn other_frames_of_a_flow_come_up_as_they_are() {
    for method in METHODS {
        let Some(mut lab) = lab(method, [1500, 1200]) else {
            return;
        };
        for case in cases() {
            lab.table.insert(&case.rule(&lab)).expect("room");
        }
        let mut up = 0;
        for (frames, counter) in of_other_kinds().into_iter().chain(of_other_bytes()) {
            let before = counter(&lab.table.outcomes());
            lab.left.send(&frames);
            assert!(lab.came_up(frames.len()) == frames, "{method}");
            let outcomes = lab.table.outcomes();
            let counted = counter(&outcomes) - before;
            assert_eq!(counted, frames.len() as u64, "{method} {outcomes:?}");
            up += counted;
            assert_eq!((outcomes.up(), outcomes.forwarded), (up, 0));
        }
        assert_eq!(lab.right.receive(), None);

        // A checksum that is not there is not made up.
        lab.left.send(&[changed(cases()[1], 40, &[0, 0])]);
        assert_eq!(lab.arrived(&lab.right)[40..42], [0, 0]);
    }
}

#[test]
fn a_flow_is_forwarded_while_it_is_in_the_table() {
    let Some(mut lab) = lab(METHODS[0], [1500, 1500]) else {
        return;
    };
    let case = cases()[0];
    let [before, after] = case.frames(b"payload", TcpFlags::ACK);
    let sends = |lab: &Lab| lab.left.send(std::slice::from_ref(&before));
    for _ in 0..3 {
        sends(&lab);
        assert!(lab.came_up(1) == [before.clone()]);
        lab.table.insert(&case.rule(&lab)).expect("room");
        sends(&lab);
        assert!(lab.arrived(&lab.right) == after);
        lab.table.pause(true);
        sends(&lab);
        assert!(lab.came_up(1) == [before.clone()]);
        lab.table.pause(false);
        sends(&lab);
        assert!(lab.arrived(&lab.right) == after);
        let removed = lab.table.remove(&case.rule(&lab).key).expect("removes");
        assert_eq!(removed.expect("it was there").frames, 2);
    }
    sends(&lab);
    assert!(lab.came_up(1) == [before.clone()]);
    assert_eq!(lab.right.receive(), None);
    let outcomes = lab.table.outcomes();
    assert_eq!(
        (outcomes.forwarded, outcomes.paused, outcomes.no_flow),
        (6, 3, 4)
    );
}

#[test]
fn a_table_of_flows_is_bounded_and_says_why_not() {
    let Some(lab) = lab(METHODS[0], [1500, 1500]) else {
        return;
    };
    let rule = cases()[1].rule(&lab);
    let numbered = |port: u16| {
        let mut rule = rule;
        rule.key.source.set_port(port);
        rule
    };
    for _ in 0..20 {
        for port in 0..8 {
            lab.table.insert(&numbered(port)).expect("room");
        }
        assert_eq!(lab.table.len(), 8);
        let full = lab.table.insert(&numbered(8)).expect_err("full");
        assert!(matches!(full, FlowError::Full { flows_max: 8 }), "{full}");
        lab.table.remove(&numbered(0).key).expect("removes");
        let exists = lab.table.insert(&numbered(1)).expect_err("is there");
        assert!(matches!(exists, FlowError::Exists), "{exists}");
        for port in 1..8 {
            lab.table.remove(&numbered(port).key).expect("removes");
        }
    }
    assert!(lab.table.is_empty());
    let mut other = rule;
    other
        .new_source
        .set_ip(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]));
    assert!(matches!(lab.table.insert(&other), Err(FlowError::Family)));
    other = rule;
    other.key.protocol = 1;
    assert!(matches!(lab.table.insert(&other), Err(FlowError::Family)));
    other = rule;
    other.out = 4_000;
    assert!(matches!(
        lab.table.insert(&other),
        Err(FlowError::NotOpen { index: 4_000 })
    ));
    let refused = FlowTable::new(1 << 20, &Budget::new(1 << 20)).expect_err("too much");
    assert!(matches!(refused, PortError::Memory { .. }), "{refused}");
}

/// What is redirected to such an interface is lost.
#[test]
fn no_flow_leaves_where_nothing_polls_the_other_end() {
    let Some(mut lab) = lab_with(METHODS[0], [1500, 1500], false) else {
        return;
    };
    let warnings = &lab.ports[1].facts()[0].warnings;
    assert!(
        warnings
            .iter()
            .any(|text| text.contains("'ethtool -K PEER gro on'")),
        "{warnings:?}"
    );
    let case = cases()[0];
    let refused = lab.table.insert(&case.rule(&lab)).expect_err("no way out");
    assert!(matches!(refused, FlowError::TakesNone { .. }), "{refused}");
    // The other way, and back out of the interface where they come, it is allowed.
    let mut rule = case.rule(&lab);
    rule.out = lab.near[0].index;
    lab.table.insert(&rule).expect("a way out");
    let [before, after] = case.frames(b"payload", TcpFlags::ACK);
    lab.left.send(std::slice::from_ref(&before));
    assert!(lab.arrived(&lab.left) == after);
    lab.table.remove(&rule.key).expect("removes");
    lab.left.send(std::slice::from_ref(&before));
    assert!(lab.came_up(1) == [before]);
}

/// Privileges are the thread's.
#[test]
fn a_table_of_flows_works_without_privileges() {
    let Some(mut lab) = lab(METHODS[0], [1500, 1500]) else {
        return;
    };
    /// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h, for this thread; no capability.
    const VERSION: [u32; 2] = [0x2008_0522, 0];
    const NONE: [u32; 6] = [0; 6];
    // SAFETY: the kernel reads both.
    let dropped = unsafe { libc::syscall(libc::SYS_capset, VERSION.as_ptr(), NONE.as_ptr()) };
    assert_eq!(dropped, 0);
    FlowTable::new(8, &Budget::new(1 << 20)).expect_err("no privileges are left");
    let case = cases()[3];
    let rule = case.rule(&lab);
    let [before, after] = case.frames(b"payload", TcpFlags::default());
    lab.table.insert(&rule).expect("room");
    lab.left.send(std::slice::from_ref(&before));
    assert!(lab.arrived(&lab.right) == after);
    assert_eq!(lab.table.counts(&rule.key).expect("it is there").frames, 1);
    let removed = lab.table.remove(&rule.key).expect("removes");
    assert_eq!(removed.expect("it was there").frames, 1);
    lab.left.send(std::slice::from_ref(&before));
    assert!(lab.came_up(1) == [before]);
}
