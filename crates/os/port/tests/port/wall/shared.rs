//! Ports that share one memory: what one received another sends where it lies.

use std::time::Duration;

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_host::Stopwatch;
use lineside_port::live::{
    EndOptions, Interface, LiveOptions, StampClock, open_all, open_tap, pass_all,
};
use lineside_port::{LivePort, Method, PortError};

use crate::wall::wire::{Wire, another_wire, ip, wire};

const PATIENCE: Duration = Duration::from_secs(30);
const METHODS: [Method; 2] = [Method::AfXdpNative, Method::AfXdpGeneric];

struct Lab {
    wires: [Wire; 2],
    ports: [Box<dyn LivePort>; 2],
}

/// `None`, with the reason printed, where it is not allowed.
fn lab(method: Option<Method>, mtu: [u32; 2]) -> Option<Lab> {
    let left = wire(1, 1, mtu[0])?;
    lab_of(
        [left, another_wire(["near2", "far2"], [1, 1], mtu[1])],
        method,
    )
}

fn lab_of(wires: [Wire; 2], method: Option<Method>) -> Option<Lab> {
    let options = LiveOptions {
        method,
        sockets: 1,
        promiscuous: true,
        filter: Vec::new(),
        steering: None,
        flows: None,
        transmit_max: None,
        budget: Budget::new(256 << 20),
        bytes_max: 16 << 20,
        clock: StampClock::Wall,
    };
    let near = ["near", "near2"].map(|name| Interface::named(name).expect("just made"));
    let ports = match open_all(&[(&near[0], &options), (&near[1], &options)]) {
        Err(error @ PortError::Privilege { .. }) => {
            println!("SKIP: {error}");
            return None;
        }
        opened => opened.expect("opens"),
    };
    let mut ports = ports.into_iter().flatten();
    let mut port = || ports.next().expect("one for each");
    Some(Lab {
        wires,
        ports: [port(), port()],
    })
}

fn frames(count: u32, len: usize) -> Vec<Vec<u8>> {
    let frame = |number: u32| {
        let mut bytes: Vec<u8> = (0..len).map(|at| (at as u32 + number) as u8).collect();
        bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
        bytes[14..18].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    (0..count).map(frame).collect()
}

impl Lab {
    fn receive(&mut self, at: usize, count: usize) -> Burst {
        let mut burst = Burst::new();
        let watch = Stopwatch::start();
        while burst.len() < count {
            assert!(watch.elapsed() < PATIENCE, "{} of {count}", burst.len());
            self.ports[at].receive(&mut burst, 64).expect("receives");
        }
        burst
    }

    /// Chunks that come back to a port, as many as are to.
    fn reclaim(&mut self, at: usize, count: usize) {
        let watch = Stopwatch::start();
        let mut came = 0;
        while came < count {
            assert!(watch.elapsed() < PATIENCE, "{came} of {count}");
            came += self.ports[at].reclaim();
        }
        assert_eq!(came, count);
    }

    fn arrived(&self, at: usize) -> Vec<u8> {
        let watch = Stopwatch::start();
        loop {
            if let Some(frame) = self.wires[at].receive() {
                return frame;
            }
            assert!(watch.elapsed() < PATIENCE);
        }
    }
}

#[test]
fn a_frame_is_sent_where_another_port_received_it() {
    for method in METHODS {
        let Some(mut lab) = lab(Some(method), [1500, 1500]) else {
            return;
        };
        let sent = frames(32, 1000);
        for from in [0, 1, 0] {
            lab.wires[from].send(&sent);
            let mut burst = lab.receive(from, sent.len());
            let to = 1 - from;
            assert_eq!(lab.ports[to].transmit(&mut burst).expect("transmits"), 32);
            // A copy would be free already.
            assert_eq!(lab.ports[from].reclaim(), 0, "{method}");
            for expected in &sent {
                assert!(lab.arrived(to) == *expected);
            }
            lab.reclaim(to, sent.len());
            lab.reclaim(from, sent.len());
        }
    }
}

/// To several receivers, one of them back where it came from, and twice to the same one.
#[test]
fn a_frame_goes_to_several_ports_and_comes_home_once() {
    for method in METHODS {
        let Some(mut lab) = lab(Some(method), [1500, 1500]) else {
            return;
        };
        let sent = frames(1, 1400);
        lab.wires[0].send(&sent);
        let mut burst = lab.receive(0, 1);
        let (second, third) = (burst[0].another(), burst[0].another());
        burst.extend([second, third]);
        let mut back: Burst = [burst.pop().expect("three")].into();
        assert_eq!(lab.ports[1].transmit(&mut burst).expect("transmits"), 2);
        assert_eq!(lab.ports[0].transmit(&mut back).expect("transmits"), 1);
        for at in [0, 1, 1] {
            assert!(lab.arrived(at) == sent[0]);
        }
        lab.reclaim(1, 2);
        // One that was sent, and the chunk.
        lab.reclaim(0, 2);
        assert_eq!((lab.ports[0].reclaim(), lab.ports[1].reclaim()), (0, 0));
    }
}

/// Each of 12 times the memory, while the other way stands still and then flows again.
#[test]
fn no_port_takes_the_room_of_another() {
    let Some(mut lab) = lab(Some(METHODS[0]), [1500, 9000]) else {
        return;
    };
    let sent = frames(64, 700);
    for from in [0, 1] {
        for _ in 0..600 {
            lab.wires[from].send(&sent);
            let mut burst = lab.receive(from, sent.len());
            while !burst.is_empty() {
                lab.ports[1 - from].transmit(&mut burst).expect("transmits");
            }
            for expected in &sent {
                assert!(lab.arrived(1 - from) == *expected);
            }
        }
    }
    // What is put together spans chunks, and is copied.
    let long = frames(3, 8000);
    lab.wires[1].send(&long);
    let mut burst = lab.receive(1, 3);
    assert_eq!(lab.ports[1].transmit(&mut burst).expect("transmits"), 3);
    for expected in &long {
        assert!(lab.arrived(1) == *expected);
    }
    for port in &mut lab.ports {
        port.account();
        let live = port.facts()[0].live.clone().expect("live");
        assert_eq!((live.dropped_pool, live.dropped_ring), (0, 0), "{live:?}");
    }
}

/// One of them has another's program: it is by packet sockets, and what it sends is copied.
#[test]
fn a_port_that_cannot_share_memory_is_opened_all_the_same() {
    let Some(left) = wire(1, 1, 1500) else {
        return;
    };
    let right = another_wire(["near2", "far2"], [1, 1], 1500);
    let near2 = Interface::named("near2").expect("just made");
    let Ok(_other) = pass_all(&near2) else {
        println!("SKIP: no XDP program is allowed here");
        return;
    };
    let Some(mut lab) = lab_of([left, right], None) else {
        return;
    };
    let formats = lab
        .ports
        .each_ref()
        .map(|port| port.facts()[0].format.clone());
    assert_eq!(formats, ["AF_XDP native", "AF_PACKET"]);
    let sent = frames(16, 300);
    for from in [0, 1] {
        lab.wires[from].send(&sent);
        let mut burst = lab.receive(from, sent.len());
        while !burst.is_empty() {
            lab.ports[1 - from].transmit(&mut burst).expect("transmits");
        }
        for expected in &sent {
            assert!(lab.arrived(1 - from) == *expected);
        }
    }
}

fn descriptor() -> Descriptor {
    Descriptor {
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    }
}

/// Three new heads of other lengths for the rest of a frame, and the frames as they are to arrive.
fn with_new_heads(received: &mut Frame) -> (Burst, Vec<Vec<u8>>) {
    const OLD: usize = 42;
    let payload = received.bytes()[OLD..].to_vec();
    let heads = [14, 42, 62].map(|len| (0..len).map(|at| at ^ len).collect::<Vec<u8>>());
    let expected = heads.iter().map(|head| [&head[..], &payload].concat());
    let expected = expected.collect();
    let whole = received.bytes().len();
    let frame = |head: &Vec<u8>| Frame::copied(head, descriptor()).with_rest(received, OLD..whole);
    (heads.iter().map(frame).collect(), expected)
}

#[test]
fn a_payload_goes_to_several_receivers_where_it_lies() {
    for method in METHODS {
        let Some(mut lab) = lab(Some(method), [1500, 1500]) else {
            return;
        };
        for _ in 0..200 {
            lab.wires[0].send(&frames(1, 1450));
            let mut received = lab.receive(0, 1);
            let (mut burst, expected) = with_new_heads(&mut received[0]);
            drop(received);
            let mut back: Burst = [burst.pop().expect("three")].into();
            assert_eq!(lab.ports[1].transmit(&mut burst).expect("transmits"), 2);
            assert_eq!(lab.ports[0].transmit(&mut back).expect("transmits"), 1);
            for (at, expected) in [1, 1, 0].into_iter().zip(&expected) {
                assert!(lab.arrived(at) == *expected, "{method}");
            }
            // Two heads and two payloads; a head, a payload, and the chunk of all payloads.
            lab.reclaim(1, 4);
            lab.reclaim(0, 3);
        }
        assert_eq!((lab.ports[0].reclaim(), lab.ports[1].reclaim()), (0, 0));
    }
}

/// By packet sockets, or from memory of its own, even in several chunks.
#[test]
fn a_rest_that_lies_elsewhere_is_sent_all_the_same() {
    for method in [METHODS[0], METHODS[1], Method::AfPacket] {
        let Some(mut lab) = lab(Some(method), [9000, 9000]) else {
            return;
        };
        for len in [60, 1500, 8900] {
            let mut received = Frame::copied(&frames(1, len)[0], descriptor());
            let (mut burst, expected) = with_new_heads(&mut received);
            assert_eq!(lab.ports[1].transmit(&mut burst).expect("transmits"), 3);
            for expected in &expected {
                assert!(lab.arrived(1) == *expected, "{method} {len}");
            }
        }
        let mut long = Frame::copied(&frames(1, 9000)[0], descriptor());
        let (mut burst, _) = with_new_heads(&mut long);
        let sent = lab.ports[1].transmit(&mut burst);
        let error = sent.expect_err("with its head it is too long");
        assert!(error.to_string().contains("at most 9000 bytes"), "{error}");
    }
}

#[test]
fn a_tap_device_gets_a_head_and_its_rest_as_one_frame() {
    let Some(_wire) = wire(1, 1, 1500) else {
        return;
    };
    let budget = Budget::new(64 << 20);
    let options = EndOptions {
        mtu: 1500,
        clock: StampClock::Wall,
        budget: &budget,
        bytes_max: 8 << 20,
    };
    let mut port = match open_tap("tap", &options) {
        Ok(port) => port,
        Err(error) => {
            println!("SKIP: {error}");
            return;
        }
    };
    ip("link set tap up");
    let device = Wire::at("tap");
    let mut received = Frame::copied(&frames(1, 1400)[0], descriptor());
    let (mut burst, expected) = with_new_heads(&mut received);
    assert_eq!(port.transmit(&mut burst).expect("transmits"), 3);
    for expected in expected {
        assert!(device.receive() == Some(expected));
    }
}
