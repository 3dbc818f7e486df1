//! Frames that are ours beside a host that goes on using the interface, on a virtual wire.

use std::time::Duration;

use lineside_account::Budget;
use lineside_filter::Filter;
use lineside_frame::Burst;
use lineside_host::Stopwatch;
use lineside_port::live::{
    AddressBlock, FilterInstruction, Interface, LiveOptions, StampClock, Steering, open_each,
};
use lineside_port::{LivePort, Method, PortError};
use lineside_testkit::steered;
use lineside_time::Random;

use crate::wall::wire::{ip, near, wire};

const METHODS: [Method; 3] = [Method::AfXdpNative, Method::AfXdpGeneric, Method::AfPacket];
/// A test machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

fn options(method: Method, steering: Steering) -> LiveOptions {
    LiveOptions {
        method: Some(method),
        sockets: 1,
        promiscuous: true,
        filter: Vec::new(),
        steering: Some(steering),
        flows: None,
        transmit_max: None,
        budget: Budget::new(256 << 20),
        bytes_max: 64 << 20,
        clock: StampClock::Wall,
    }
}

/// Ports, if they are allowed here; else the reason is printed.
fn opened(options: &LiveOptions) -> Option<Vec<Box<dyn LivePort>>> {
    match open_each(&near(), options) {
        Ok(ports) => Some(ports),
        Err(error @ PortError::Privilege { .. }) => {
            println!("SKIP: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// What came by each port: this many frames in all, and what else there is then.
fn arrived(ports: &mut [Box<dyn LivePort>], count: usize) -> Vec<Vec<Vec<u8>>> {
    let mut bursts: Vec<Burst> = ports.iter().map(|_| Burst::new()).collect();
    let watch = Stopwatch::start();
    let mut looks_left = 2_000;
    while looks_left > 0 {
        for (port, burst) in ports.iter_mut().zip(&mut bursts) {
            port.receive(burst, 64).expect("receives");
        }
        // A frame that was sent may wait for the core that takes it out of the wire.
        if bursts.iter().map(Vec::len).sum::<usize>() >= count {
            looks_left -= 1;
        }
        assert!(watch.elapsed() < PATIENCE, "{count} frames in time");
    }
    let of_port = |burst: Burst| burst.iter().map(|frame| frame.bytes().to_vec()).collect();
    bursts.into_iter().map(of_port).collect()
}

fn blocks() -> Steering {
    let blocks = steered::BLOCKS.map(|text| text.parse::<AddressBlock>().expect("a block"));
    Steering::Addresses(blocks.into())
}

/// The addresses of the host, whose kernel knows the sender at the wire's other end.
fn host_ports() -> Steering {
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/near/disable_ipv6", "0");
    ip("link set near address 02:00:00:00:00:01");
    ip("addr add 198.51.100.1/24 dev near");
    ip("addr add 2001:db8:1::1/64 dev near nodad");
    ip("neigh add 198.51.100.7 lladdr 02:00:00:00:00:02 dev near");
    Steering::HostPorts {
        addresses: steered::OF_HOST
            .map(|text| text.parse().expect("an address"))
            .into(),
        ports: steered::PORTS,
    }
}

#[test]
fn what_is_ours_comes_and_nothing_else_does() {
    let cases: [(fn() -> Steering, String); 2] = [
        (blocks, steered::for_blocks()),
        (host_ports, steered::for_ports()),
    ];
    for (steering, expression) in cases {
        let filter = Filter::parse(&expression).expect("an expression");
        let expected = filter.compile(1).expect("Ethernet");
        for (method, queues) in [(0, 1), (0, 2), (1, 1), (2, 1)] {
            let method = METHODS[method];
            let Some(wire) = wire(queues, queues, 1500) else {
                return;
            };
            let steering = steering();
            if method == Method::AfPacket && matches!(steering, Steering::HostPorts { .. }) {
                continue;
            }
            let Some(mut ports) = opened(&options(method, steering)) else {
                return;
            };
            let (mut sent, mut came) = (Vec::new(), Vec::new());
            for round in 0..20 {
                let frames: Vec<_> = (0..100)
                    .map(|seed| steered::frame(&mut Random::new(100 * round + seed)))
                    .collect();
                wire.send(&frames);
                let ours = { frames.into_iter() }
                    .filter(|frame| expected.matches(frame, frame.len() as u32));
                let before = sent.len();
                sent.extend(ours);
                let of_round = arrived(&mut ports, sent.len() - before);
                came.extend(of_round.into_iter().flatten());
            }
            assert!(sent.len() > 60, "{} of 2,000", sent.len());
            sent.sort_unstable();
            came.sort_unstable();
            assert_eq!(came.len(), sent.len(), "{method} {queues}");
            assert!(came == sent, "{method} {queues}");
            for port in &mut ports {
                port.account();
            }
            let live = ports.iter().flat_map(|port| port.facts());
            let counted: u64 = live
                .map(|facts| facts.live.as_ref().expect("live").arrived)
                .sum();
            assert_eq!(counted, sent.len() as u64, "{method} {queues}");
        }
    }
}

/// A segment of TCP that no connection knows: a kernel answers with a reset.
fn stray(source_port: u16, destination_port: u16) -> Vec<u8> {
    use lineside_wire::build::{FrameBuilder, TcpFields};
    let frames = FrameBuilder::new([198, 51, 100, 7].into(), [198, 51, 100, 1].into());
    let fields = TcpFields {
        source_port,
        destination_port,
        ..TcpFields::default()
    };
    let mut frame = frames.tcp(&fields, b"");
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame
}

#[test]
fn the_kernel_answers_for_all_but_our_ports() {
    for method in &METHODS[..2] {
        let Some(wire) = wire(1, 1, 1500) else {
            return;
        };
        let steering = host_ports();
        let Some(mut ports) = opened(&options(*method, steering)) else {
            return;
        };
        while wire.receive().is_some() {}
        wire.send(&[
            stray(40_000, 7_500),
            stray(40_001, 22),
            stray(40_002, 8_000),
        ]);
        assert_eq!(arrived(&mut ports, 1), [[stray(40_000, 7_500)]]);
        let mut reset = Vec::new();
        let watch = Stopwatch::start();
        while reset.len() < 2 {
            assert!(watch.elapsed() < PATIENCE, "{method}: {reset:?}");
            let frame = wire.receive().unwrap_or_default();
            if frame.len() > 47 && frame[12..14] == [8, 0] && frame[23] == 6 && frame[47] & 4 != 0 {
                reset.push(u16::from_be_bytes([frame[36], frame[37]]));
            }
        }
        reset.sort_unstable();
        assert_eq!(reset, [40_001, 40_002], "{method}");
        let facts = ports[0].facts()[0].clone();
        assert!(facts.live.is_some_and(|live| live.method == *method));
    }
}

#[test]
fn what_cannot_be_shared_is_refused_with_a_way_out() {
    let Some(_wire) = wire(1, 1, 1500) else {
        return;
    };
    let refused = |method, steering| match open_each(&near(), &options(method, steering)) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    };
    let ports = host_ports();
    let error = refused(Method::AfPacket, ports);
    assert!(
        error.ends_with("take AF_XDP, or an address that the host does not have"),
        "{error}"
    );
    ip("link set lo up");
    let lo = Interface::named("lo").expect("every namespace has it");
    let error = open_each(&lo, &options(Method::AfPacket, blocks())).err();
    let error = error.expect("refused").to_string();
    assert!(error.contains("the host talks to itself on it"), "{error}");
    let taken = Steering::Addresses(vec!["198.51.0.0/16".parse().expect("a block")]);
    for method in METHODS {
        let error = refused(method, taken.clone());
        assert!(
            error.contains("the host has 198.51.100.1, which is in 198.51.0.0/16"),
            "{error}"
        );
    }
}

/// A datagram of IPv4 or IPv6 for a port, whole.
fn datagram(port: u16, is_v6: bool) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let protocol = if port.is_multiple_of(2) { 6 } else { 17 };
    if is_v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, protocol, 64]);
        frame.extend([0xfd; 32]);
    } else {
        // Of headers with options as well.
        let words = 5 + (port % 3) as u8;
        let len = 4 * words + 20;
        frame.extend([
            0x08,
            0x00,
            0x40 + words,
            0,
            0,
            len,
            0,
            1,
            0x40,
            0,
            64,
            protocol,
            0,
            0,
        ]);
        frame.extend([10, 9, 0, 1, 10, 9, 0, 2]);
        frame.resize(14 + 4 * usize::from(words), 1);
    }
    frame.extend(9_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0; 16]);
    frame
}

#[test]
fn each_frame_is_at_the_socket_of_its_port() {
    for steering in [None, Some(blocks())] {
        let Some(wire) = wire(1, 1, 1500) else {
            return;
        };
        let options = LiveOptions {
            sockets: 4,
            steering,
            ..options(Method::AfPacket, blocks())
        };
        let Some(mut ports) = opened(&options) else {
            return;
        };
        assert_eq!(ports.len(), 4);
        let is_steered = options.steering.is_some();
        let connections = || (0..200).map(|number| 20_000 + 37 * number);
        for _ in 0..3 {
            for port in connections() {
                wire.send(&[datagram(port, false), datagram(port, true)]);
            }
            let count = if is_steered { 200 } else { 400 };
            let came = arrived(&mut ports, count);
            for (of_socket, index) in came.into_iter().zip(0..) {
                let of_port = connections().filter(|port| port % 4 == index);
                // Not of our blocks are those of IPv6.
                let expected = of_port.flat_map(|port| {
                    let v6 = (!is_steered).then(|| datagram(port, true));
                    std::iter::once(datagram(port, false)).chain(v6)
                });
                let expected: Vec<_> = expected.collect();
                assert!(
                    expected.len() >= 40 && of_socket == expected,
                    "socket {index}"
                );
            }
        }
        // What has no port of its own comes to the first, and so does a first fragment.
        let mut first_fragment = datagram(20_001, false);
        first_fragment[20] = 0x20;
        let mut later_fragment = datagram(20_002, false);
        later_fragment[21] = 8;
        let mut icmp = datagram(20_003, false);
        icmp[23] = 1;
        let mut arp = vec![255; 6];
        arp.extend([2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        arp.extend([2, 0, 0, 0, 0, 2, 10, 9, 0, 1, 0, 0, 0, 0, 0, 0, 10, 9, 0, 2]);
        let others = [first_fragment, later_fragment, icmp, arp];
        wire.send(&others);
        let came = arrived(&mut ports, others.len());
        assert_eq!(came[0], others);
        assert!(came[1..].iter().all(Vec::is_empty));
    }
}

/// What this host sends is nobody's: neither by the ring, nor by the group.
#[test]
fn what_is_sent_does_not_come_back() {
    let Some(wire) = wire(1, 1, 1500) else {
        return;
    };
    let options = LiveOptions {
        sockets: 2,
        steering: None,
        flows: None,
        ..options(Method::AfPacket, blocks())
    };
    let Some(mut ports) = opened(&options) else {
        return;
    };
    let frame = lineside_frame::Frame::copied(
        &datagram(20_001, false),
        lineside_frame::Descriptor {
            link_type: lineside_frame::LinkType::ETHERNET,
            ..Default::default()
        },
    );
    let mut burst: Burst = [frame].into_iter().collect();
    assert_eq!(ports[1].transmit(&mut burst).expect("transmits"), 1);
    let watch = Stopwatch::start();
    let mut left = None;
    while left.is_none() && watch.elapsed() < PATIENCE {
        left = wire.receive();
    }
    assert_eq!(left, Some(datagram(20_001, false)));
    assert!(arrived(&mut ports, 0).iter().all(Vec::is_empty));
}

/// The verifier follows every way through the program.
#[test]
fn the_kernel_takes_the_most_blocks() {
    let block = |text: String| text.parse::<AddressBlock>().expect("a block");
    let v6 = (0..64).map(|at| block(format!("2001:db8:{at:x}::{at:x}:2/127")));
    let v4 = (0..64).map(|at| block(format!("10.{at}.3.4/31")));
    let both = v4.clone().take(32).chain(v6.clone().take(32));
    for blocks in [v6.collect::<Vec<_>>(), v4.collect(), both.collect()] {
        for method in METHODS {
            if wire(1, 1, 1500).is_none() {
                return;
            }
            let steering = Steering::Addresses(blocks.clone());
            if opened(&options(method, steering)).is_none() {
                return;
            }
        }
    }
}

/// A filter is run on what is ours.
#[test]
fn a_filter_is_run_behind_steering() {
    let Some(wire) = wire(1, 1, 1500) else {
        return;
    };
    let filter = Filter::parse("udp").expect("an expression");
    let program = filter.compile_live(1).expect("Ethernet");
    let filter = program.instructions().iter().map(|each| FilterInstruction {
        code: each.code,
        jump_true: each.jump_true,
        jump_false: each.jump_false,
        operand: each.k,
    });
    let options = LiveOptions {
        filter: filter.collect(),
        ..options(Method::AfPacket, blocks())
    };
    let Some(mut ports) = opened(&options) else {
        return;
    };
    let frames = [
        datagram(20_001, false),
        datagram(20_002, false),
        datagram(20_003, true),
    ];
    wire.send(&frames);
    assert_eq!(arrived(&mut ports, 1), [[frames[0].clone()]]);
}
