//! Live ports over AF_XDP, on a virtual wire.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use lineside_account::Budget;
use lineside_frame::Burst;
use lineside_port::live::{LiveOptions, open};
use lineside_port::{LiveFacts, Method, Port, Received};

use crate::wire::{near, wire};

const METHODS: [Method; 2] = [Method::AfXdpNative, Method::AfXdpGeneric];

fn options(method: Method) -> LiveOptions {
    LiveOptions {
        method: Some(method),
        sockets: 1,
        promiscuous: true,
        filter: Vec::new(),
        budget: Budget::new(64 << 20),
        bytes_max: 64 << 20,
    }
}

fn open_near(method: Method) -> Vec<Box<dyn Port>> {
    open(&near(), &options(method)).expect("opens")
}

/// A UDP datagram in a frame of `len` bytes, of which the bytes from 34 on say its number. Numbers make flows,
/// so that the frames of an interface spread over its queues.
fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|at| (at as u32 ^ number) as u8).collect();
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..34].copy_from_slice(&[
        0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    bytes[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    bytes[34..38].copy_from_slice(&[0x10, number as u8 % 16, 8, 1]);
    bytes[42..46].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[42..46].try_into().expect("four bytes"))
}

/// Receives so many frames, a burst for each port.
fn receive(ports: &mut [Box<dyn Port>], count: usize) -> Vec<Burst> {
    let mut bursts: Vec<_> = ports.iter().map(|_| Burst::new()).collect();
    let end_ns = wall_ns() + 10_000_000_000;
    while bursts.iter().map(Vec::len).sum::<usize>() < count {
        assert!(wall_ns() < end_ns, "{count} frames within 10 s");
        for (port, burst) in ports.iter_mut().zip(&mut bursts) {
            port.receive(burst, 64).expect("receives");
        }
    }
    bursts
}

/// Receives until every frame that arrived is received or counted as lost.
fn drain(port: &mut dyn Port, burst: &mut Burst) {
    let end_ns = wall_ns() + 10_000_000_000;
    loop {
        assert!(wall_ns() < end_ns, "quiet within 10 s: {:?}", live(port));
        let received = port.receive(burst, 64).expect("receives");
        let Received::Idle { until_ns } = received else {
            continue;
        };
        port.account();
        // Only a port that misses nothing knows to be quiet up to now.
        if live(port).unread == 0 && wall_ns() - until_ns < 50_000_000 {
            return;
        }
    }
}

fn wall_ns() -> i64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "stamps are compared with the clock"
    )]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).expect("after").as_nanos() as i64
}

fn live(port: &dyn Port) -> LiveFacts {
    port.facts()[0].live.clone().expect("a live port")
}

fn assert_identity(port: &dyn Port) {
    let facts = port.facts()[0];
    let live = live(port);
    assert_eq!(
        live.arrived,
        facts.frames + live.dropped_ring + live.dropped_pool + live.unread,
        "{live:?}"
    );
}

#[test]
fn each_frame_is_received_or_counted_as_lost() {
    for method in METHODS {
        let Some(wire) = wire(1, 1, 1500) else {
            return;
        };
        let mut ports = open_near(method);
        let sent: Vec<_> = (0..12_000).map(|at| frame(at, 60)).collect();
        // Nobody reads: the ring between kernel and port is full after a while.
        wire.send(&sent);
        let port = ports[0].as_mut();
        port.account();
        let unread = live(port);
        assert!(unread.dropped_ring > 0 && unread.unread > 0, "{unread:?}");
        assert_eq!(unread.dropped_pool, 0, "{unread:?}");
        assert_identity(port);
        let mut burst = Burst::new();
        drain(port, &mut burst);
        assert_identity(port);
        assert_eq!(burst.len() as u64, port.facts()[0].frames);
        // What the wire itself loses is counted at its other end, as is usual with a veth.
        assert_eq!(live(port).dropped_interface, 0);

        // Who holds frames is asked to spill before the kernel has no chunk left, and again when it has none.
        burst.clear();
        let mut asked_at = None;
        while live(port).dropped_pool < 64 {
            wire.send(&sent[..64]);
            let received = port.receive(&mut burst, 64).expect("receives");
            if received == Received::PoolEmpty {
                asked_at.get_or_insert(burst.len());
            }
            port.account();
        }
        let asked_at = asked_at.expect("asked");
        assert!((2048..3584).contains(&asked_at), "{asked_at} were held");
        let received = port.receive(&mut Burst::new(), 64).expect("receives");
        assert_eq!(received, Received::PoolEmpty);

        // When they are dropped, everything flows again.
        burst.clear();
        assert!(port.reclaim() > 2048);
        port.account();
        let held = live(port);
        for batch in sent.chunks(64) {
            wire.send(batch);
            receive(&mut ports, batch.len());
        }
        let port = ports[0].as_mut();
        drain(port, &mut burst);
        let flowing = live(port);
        assert_eq!(flowing.dropped_pool, held.dropped_pool);
        assert_eq!(flowing.dropped_ring, held.dropped_ring);
        assert_identity(port);
    }
}

#[test]
fn frames_arrive_as_they_were_sent() {
    for (method, queues) in METHODS
        .into_iter()
        .flat_map(|method| [(method, 1), (method, 2)])
    {
        let Some(wire) = wire(queues, queues, 9000) else {
            return;
        };
        let mut ports = open_near(method);
        assert_eq!(ports.len(), queues as usize);
        let lens = (60..=1514).step_by(3).chain((1515..=9014).step_by(61));
        let sent: Vec<_> = lens.zip(1..).map(|(len, at)| frame(at, len)).collect();
        let mut received = BTreeMap::new();
        for batch in sent.chunks(48) {
            let before_ns = wall_ns();
            wire.send(batch);
            for burst in receive(&mut ports, batch.len()) {
                let numbers: Vec<_> = burst.iter().map(|frame| number(frame.bytes())).collect();
                assert!(numbers.is_sorted(), "in order: {numbers:?}");
                let now_ns = wall_ns();
                for frame in burst {
                    let stamp_ns = frame.descriptor().stamp_ns.expect("stamped");
                    assert!((before_ns - 1000..now_ns + 1000).contains(&stamp_ns));
                    received.insert(number(frame.bytes()), frame.bytes().to_vec());
                }
            }
        }
        assert!(received.values().eq(&sent), "{method} {queues}");
        for port in &mut ports {
            port.account();
            assert_identity(port.as_ref());
            let live = live(port.as_ref());
            assert_eq!(
                (live.method, live.unread, live.dropped_interface),
                (method, 0, 0)
            );
            // In generic mode a veth says that all came by queue 0.
            let is_used = method == Method::AfXdpNative || live.queue.unwrap_or(0) == 0;
            assert_eq!(live.arrived > 100, is_used, "{live:?}");
            port.shut();
        }
        wire.send(&sent[..48]);
        for port in &mut ports {
            let end = (0..1_000_000)
                .map(|_| port.receive(&mut Burst::new(), 64).expect("receives"))
                .find(|received| !matches!(received, Received::Idle { .. }));
            assert_eq!(end, Some(Received::End));
        }
    }
}
