//! Live ports over AF_XDP, on a virtual wire.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_port::live::{
    Generator, Interface, LiveOptions, StampClock, open, open_each, open_to_send, pass_all,
};
use lineside_port::{LiveFacts, LivePort, Method, PortError, Received};
use rustix::event::{PollFd, PollFlags, poll};

use crate::wall::wire::{Wire, ip, near, wire};

const METHODS: [Method; 2] = [Method::AfXdpNative, Method::AfXdpGeneric];

fn options(method: Method) -> LiveOptions {
    LiveOptions {
        method: Some(method),
        sockets: 1,
        promiscuous: true,
        filter: Vec::new(),
        budget: Budget::new(64 << 20),
        bytes_max: 16 << 20,
        steering: None,
        flows: None,
        transmit_max: None,
        clock: StampClock::Wall,
    }
}

/// A wire, if AF_XDP is allowed here; else the reason is printed.
fn wire_for_xdp(near_queues: u32, far_queues: u32, mtu: u32) -> Option<Wire> {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let wire = wire(near_queues, far_queues, mtu)?;
    let refused = REFUSED.get_or_init(|| match open(&near(), &options(METHODS[1])) {
        // Without CAP_BPF, or without CAP_IPC_LOCK and with a low limit.
        Err(
            error @ (PortError::Privilege { .. }
            | PortError::Xdp {
                action: "lock memory to receive from",
                ..
            }),
        ) => Some(error.to_string()),
        _ => None,
    });
    if let Some(why) = refused {
        println!("SKIP: {why}");
        return None;
    }
    Some(wire)
}

fn open_near(method: Method) -> Vec<Box<dyn LivePort>> {
    open(&near(), &options(method)).expect("opens")
}

/// A UDP datagram in a frame of `len` bytes, of which the bytes from 34 on hold its number. Numbers
/// make flows, so that the frames of an interface spread over its queues.
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

/// Receives this many frames, a burst for each port.
fn receive(ports: &mut [Box<dyn LivePort>], count: usize) -> Vec<Burst> {
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

/// Whether a port has woken its waiting reader, within this many milliseconds.
fn has_woken(ports: &[Box<dyn LivePort>], time_ms: i64) -> bool {
    let mut descriptors = Vec::new();
    for port in ports {
        port.wake_on(&mut descriptors);
    }
    let mut polled: Vec<_> = descriptors
        .iter()
        .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
        .collect();
    let time = Duration::from_millis(time_ms as u64).try_into();
    poll(&mut polled, Some(&time.expect("short"))).expect("waits") > 0
}

/// Receives until every frame that arrived is received or counted as lost.
fn drain(port: &mut dyn LivePort, burst: &mut Burst) {
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

fn live(port: &dyn LivePort) -> LiveFacts {
    port.facts()[0].live.clone().expect("a live port")
}

fn assert_identity(port: &dyn LivePort) {
    let facts = port.facts()[0];
    let live = live(port);
    assert_eq!(
        live.arrived,
        facts.frames + live.dropped_ring + live.dropped_pool + live.unread,
        "{live:?}"
    );
}

/// A port by AF_PACKET with room for some 2,900 frames, and 64 of them to send.
fn small_ring() -> (Vec<Box<dyn LivePort>>, Vec<Vec<u8>>) {
    let options = LiveOptions {
        bytes_max: 4 << 20,
        ..options(Method::AfPacket)
    };
    let ports = open(&near(), &options).expect("opens");
    (ports, (0..64).map(|at| frame(at, 1400)).collect())
}

/// AF_PACKET's blocks are filled in turn: one that is held would stop the kernel for ever.
#[test]
fn holders_of_a_block_spill_it_before_the_kernel_needs_it() {
    let Some(wire) = wire(1, 1, 1500) else {
        return;
    };
    let (mut ports, sent) = small_ring();
    let (mut held, mut asked, mut received) = (Burst::new(), 0, 0);
    while received < 12_000 {
        wire.send(&sent);
        let mut burst = Burst::new();
        let end_ns = wall_ns() + 2_000_000_000;
        while burst.len() < sent.len() {
            assert!(
                wall_ns() < end_ns,
                "{received}: {:?}",
                live(ports[0].as_ref())
            );
            if ports[0].receive(&mut burst, 64).expect("receives") == Received::PoolEmpty {
                asked += 1;
                held.clear();
            }
        }
        received += burst.len();
        if held.is_empty() {
            held.extend(burst.drain(..1));
        }
    }
    assert!(asked >= 4, "{asked}");
    ports[0].account();
    let live = live(ports[0].as_ref());
    assert_eq!((live.dropped_ring, live.arrived), (0, received as u64));
}

/// A holder that has little to let go of when it is asked may have more later: the ring that has
/// stopped asks again.
#[test]
fn a_ring_that_has_stopped_asks_again() {
    let Some(wire) = wire(1, 1, 1500) else {
        return;
    };
    let (mut ports, sent) = small_ring();
    let mut held = Burst::new();
    // More than the ring has room for.
    for _ in 0..80 {
        wire.send(&sent);
    }
    let mut asked = 0;
    let mut receive = |held: &mut Burst| {
        let received = ports[0].receive(held, 64).expect("receives");
        asked += u32::from(received == Received::PoolEmpty);
        asked
    };
    let end_ns = wall_ns() + 5_000_000_000;
    while receive(&mut held) < 3 {
        assert!(wall_ns() < end_ns, "it does not ask");
    }
    held.clear();
    let mut burst = Burst::new();
    while burst.is_empty() {
        receive(&mut burst);
        wire.send(&sent);
        assert!(wall_ns() < end_ns, "nothing comes any more");
    }
}

#[test]
fn a_frame_that_is_too_long_fits_once_the_advice_is_taken() {
    let Some(_wire) = wire(1, 1, 1500) else {
        return;
    };
    let descriptor = Descriptor {
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    let send = || {
        let mut port = open_to_send(&near()).expect("opens");
        let mut burst: Burst = [Frame::copied(&frame(1, 2014), descriptor)]
            .into_iter()
            .collect();
        port.transmit(&mut burst)
    };
    let advice = send().expect_err("it is too long").to_string();
    let command = advice
        .split('\'')
        .find(|part| part.starts_with("ip link set"));
    let command = command.expect("a command").trim_start_matches("ip ");
    assert_eq!(command, "link set near mtu 2000");
    ip("link set far mtu 2000");
    ip(command);
    assert_eq!(send().expect("it fits"), 1);
}

#[test]
fn each_frame_is_received_or_counted_as_lost() {
    for method in METHODS {
        let Some(wire) = wire_for_xdp(1, 1, 1500) else {
            return;
        };
        let mut ports = open_near(method);
        let sent: Vec<_> = (0..12_000).map(|at| frame(at, 60)).collect();
        // Without a reader the ring between kernel and port is full after a while.
        wire.send(&sent);
        let port = ports[0].as_mut();
        port.account();
        let unread = live(port);
        assert!(unread.dropped_ring > 0 && unread.unread > 0, "{unread:?}");
        assert_eq!(port.backlog(), 1.0);
        assert_eq!(unread.dropped_pool, 0, "{unread:?}");
        assert_identity(port);
        let mut burst = Burst::new();
        drain(port, &mut burst);
        assert_identity(port);
        assert_eq!(burst.len() as u64, port.facts()[0].frames);
        // What the wire itself loses is counted at its other end, as is usual with a veth.
        assert_eq!(live(port).dropped_interface, 0);

        // The holder of frames is asked to spill before the kernel has none of its 6,144 chunks
        // left, and again then.
        burst.clear();
        let mut asked_at = None;
        let mut rounds = 0;
        while live(port).dropped_pool < 64 {
            rounds += 1;
            assert!(rounds < 1000, "{:?}", live(port));
            wire.send(&sent[..64]);
            let received = port.receive(&mut burst, 64).expect("receives");
            if received == Received::PoolEmpty {
                asked_at.get_or_insert(burst.len());
            }
            port.account();
        }
        let asked_at = asked_at.expect("asked");
        assert!((4608..5888).contains(&asked_at), "{asked_at} were held");
        let received = port.receive(&mut Burst::new(), 64).expect("receives");
        assert_eq!(received, Received::PoolEmpty);

        // When they are dropped, everything flows again.
        burst.clear();
        assert!(port.reclaim() > 4608);
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

/// The kernel has room for frames from the moment on at which they are led to the port.
#[test]
fn frames_that_arrive_while_a_port_opens_find_memory() {
    for method in METHODS {
        let Some(wire) = wire_for_xdp(2, 2, 1500) else {
            return;
        };
        let frames: Vec<_> = (0..32).map(|at| frame(at, 60)).collect();
        let done = AtomicBool::new(false);
        let (mut arrived, mut dropped) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    wire.send(&frames);
                }
            });
            for _ in 0..20 {
                for port in &mut open_near(method) {
                    port.account();
                    arrived += live(port.as_ref()).arrived;
                    dropped += live(port.as_ref()).dropped_pool;
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(arrived > 0, "{method}");
        assert_eq!(dropped, 0, "{method}: of {arrived}");
    }
}

#[test]
fn frames_arrive_as_they_were_sent() {
    for (method, queues) in METHODS
        .into_iter()
        .flat_map(|method| [(method, 1), (method, 2)])
    {
        let Some(wire) = wire_for_xdp(queues, queues, 9000) else {
            return;
        };
        let mut ports = open_near(method);
        assert_eq!(ports.len(), queues as usize);
        // Together more parts than there are chunks.
        let lens = (60..=1514).step_by(3).chain((1515..=9014).step_by(7));
        let sent: Vec<_> = lens.zip(1..).map(|(len, at)| frame(at, len)).collect();
        let mut received = BTreeMap::new();
        for batch in sent.chunks(48) {
            let before_ns = wall_ns();
            assert!(!has_woken(&ports, 0));
            wire.send(batch);
            assert!(has_woken(&ports, 10_000));
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
            // In generic mode a veth reports that all came by queue 0.
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

#[test]
fn frames_are_sent_as_they_are() {
    for method in METHODS {
        let Some(wire) = wire_for_xdp(1, 1, 9000) else {
            return;
        };
        let mut ports = open_near(method);
        let arrive = |expected: &[Vec<u8>]| {
            for expected in expected {
                assert!(
                    wire.receive().as_ref() == Some(expected),
                    "{}",
                    expected.len()
                );
            }
            assert_eq!(wire.receive(), None);
        };

        // From elsewhere: copied, in parts if they are long. No more are taken than there is room
        // for.
        let lens = (60..=1514).step_by(5).chain((1515..=9014).step_by(61));
        let sent: Vec<_> = lens.zip(1..).map(|(len, at)| frame(at, len)).collect();
        let mut burst: Burst = sent.iter().map(|bytes| copied(bytes)).collect();
        let mut calls = 0;
        while !burst.is_empty() {
            let before = burst.len();
            let count = ports[0].transmit(&mut burst).expect("transmits");
            assert!((1..=256).contains(&count) && burst.len() == before - count);
            arrive(&sent[sent.len() - before..][..count]);
            calls += 1;
        }
        assert!(calls > 1, "a call cannot take them all");

        // From where they lie: as many as the ring takes, although no chunk is free to copy them
        // into. The long ones at the end were put together, and are copied.
        let mut burst = Burst::new();
        for batch in sent.chunks(32) {
            wire.send(batch);
            burst.append(&mut receive(&mut ports, batch.len())[0]);
        }
        let changed: Vec<_> = burst
            .iter_mut()
            .map(|frame| {
                frame.bytes_mut()[50] ^= 0xff;
                frame.bytes().to_vec()
            })
            .collect();
        let in_one = changed.iter().filter(|bytes| bytes.len() <= 3840).count();
        let mut rest = burst.split_off(in_one);
        assert!(in_one > 256);
        assert_eq!(ports[0].transmit(&mut burst).expect("transmits"), in_one);
        while !rest.is_empty() {
            ports[0].transmit(&mut rest).expect("transmits");
        }
        arrive(&changed);

        // All chunks come back.
        assert!(ports[0].reclaim() >= in_one);
        wire.send(&sent);
        assert!(receive(&mut ports, 1)[0][0].bytes() == sent[0]);

        for (len, why) in [(9019, "at most 9000 bytes"), (13, "fewer than")] {
            let mut burst = vec![copied(&[0; 60]), copied(&vec![0; len])];
            let error = ports[0].transmit(&mut burst).expect_err("does not fit");
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(burst.len(), 1, "what could be sent was");
        }
    }
}

#[test]
fn the_kernel_says_when_it_handed_a_frame_over() {
    for method in METHODS {
        let Some(wire) = wire_for_xdp(1, 1, 1500) else {
            return;
        };
        let mut ports = open_near(method);
        let port = &mut ports[0];
        for number in 1..=3 {
            assert!(port.stamp_next(), "kernels since 6.8 do");
            assert_eq!(port.handed_over(), None, "not before it is sent");
            let began_ns = wall_ns();
            let mut burst = vec![copied(&frame(number, 60)), copied(&frame(number, 60))];
            assert_eq!(port.transmit(&mut burst).expect("transmits"), 2);
            port.reclaim();
            let stamp_ns = port.handed_over().expect("sent").expect("stamped");
            let ended_ns = wall_ns();
            assert!(
                (began_ns..ended_ns).contains(&stamp_ns),
                "{began_ns} {stamp_ns} {ended_ns}"
            );
            assert_eq!(port.handed_over(), None, "once");
            assert_eq!(wire.receive(), Some(frame(number, 60)), "as it was");
            assert!(wire.receive().is_some());
        }
    }
}

/// Hours ahead of the wall clock: no stamp by that one is taken for one by this.
#[test]
fn stamps_are_by_the_clock_that_was_asked_for() {
    const AHEAD_NS: i64 = 12_345_000_000_000;
    let now = || lineside_host::monotonic_ns() + AHEAD_NS;
    for method in [METHODS[0], METHODS[1], Method::AfPacket] {
        let Some(wire) = wire_for_xdp(1, 1, 1500) else {
            return;
        };
        let options = LiveOptions {
            clock: StampClock::Steady { ahead_ns: AHEAD_NS },
            ..options(method)
        };
        let mut ports = open_each(&near(), &options).expect("opens");
        let began_ns = now();
        wire.send(&[frame(1, 60), frame(2, 60)]);
        let bursts = receive(&mut ports, 2);
        let ended_ns = now();
        for frame in bursts.iter().flatten() {
            let stamp_ns = frame.descriptor().stamp_ns.expect("stamped");
            assert!((began_ns..ended_ns).contains(&stamp_ns), "{method}");
        }
        let idle = ports[0].receive(&mut Burst::new(), 9).expect("receives");
        let Received::Idle { until_ns } = idle else {
            panic!("{method}: {idle:?}");
        };
        assert!((began_ns..now()).contains(&until_ns), "{method}");
        assert!(ports[0].stamp_next());
        let began_ns = now();
        let mut burst = vec![copied(&frame(3, 60))];
        assert_eq!(ports[0].transmit(&mut burst).expect("transmits"), 1);
        assert!(wire.receive().is_some());
        ports[0].reclaim();
        let stamp_ns = ports[0].handed_over().expect("sent").expect("stamped");
        assert!((began_ns..now()).contains(&stamp_ns), "{method}");
    }
}

#[test]
fn as_many_frames_are_sent_at_once_as_the_ring_takes() {
    for (method, transmit_max, room) in METHODS.into_iter().flat_map(|method| {
        [(None, 2_048), (Some(3_000), 4_096), (Some(64), 64)]
            .map(|(transmit_max, room)| (method, transmit_max, room))
    }) {
        let Some(wire) = wire_for_xdp(1, 1, 1500) else {
            return;
        };
        let options = LiveOptions {
            transmit_max,
            ..options(method)
        };
        let mut ports = open_each(&near(), &options).expect("opens");
        for _ in 0..3 {
            let mut burst: Burst = (0..5_000)
                .map(|number| copied(&frame(number, 60)))
                .collect();
            assert_eq!(ports[0].transmit(&mut burst).expect("transmits"), room);
            while !burst.is_empty() {
                ports[0].transmit(&mut burst).expect("transmits");
            }
            ports[0].reclaim();
        }
        // And frames still come.
        wire.send(&[frame(7, 60)]);
        assert_eq!(receive(&mut ports, 1)[0][0].bytes(), frame(7, 60));
    }
}

#[test]
fn a_ring_that_memory_has_no_room_for_is_refused() {
    let Some(_wire) = wire_for_xdp(1, 1, 1500) else {
        return;
    };
    let mut options = LiveOptions {
        transmit_max: Some(8_192),
        ..options(METHODS[0])
    };
    let refused = open_each(&near(), &options)
        .err()
        .expect("too little memory");
    let PortError::Memory { needed_bytes, .. } = refused else {
        panic!("{refused}");
    };
    options.bytes_max = needed_bytes;
    open_each(&near(), &options).expect("the size that it named is enough");
}

fn copied(bytes: &[u8]) -> Frame {
    Frame::copied(
        bytes,
        Descriptor {
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        },
    )
}

#[test]
fn a_kill_leaves_nothing_at_the_interface() {
    const HOLDS: &str = "LINESIDE_TEST_HOLDS";
    if std::env::var_os(HOLDS).is_some() {
        let _ports = open_near(Method::AfXdpNative);
        println!("open");
        poll(&mut [], None).expect("waits to be killed");
    }
    let Some(_wire) = wire_for_xdp(1, 1, 1500) else {
        return;
    };
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "--nocapture",
            "wall::xdp::a_kill_leaves_nothing_at_the_interface",
        ])
        .env(HOLDS, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(
        lines
            .map_while(Result::ok)
            .any(|line| line.ends_with("open"))
    );
    assert!(near().has_xdp);
    assert!(ip("-d link show near").contains("promiscuity 1"));
    child.kill().expect("kills");
    child.wait().expect("ends");
    // The kernel may still be busy with letting go of the queue: opening waits for that.
    let ports = open_near(Method::AfXdpNative);
    drop(ports);
    assert!(!near().has_xdp);
}

#[test]
fn an_interface_that_goes_is_named() {
    let Some(wire) = wire_for_xdp(1, 1, 1500) else {
        return;
    };
    let mut ports = open_near(Method::AfXdpNative);
    let sent: Vec<_> = (0..8).map(|at| frame(at, 100)).collect();
    wire.send(&sent);
    receive(&mut ports, 8);

    // Down and up, however soon: reported, and followed.
    ip("link set near down");
    ip("link set near up");
    ports[0].account();
    // The far end notices a little later, and drops frames until then.
    while !has_woken(&ports, 10) {
        wire.send(&sent);
    }
    receive(&mut ports, 8);
    let warnings = &ports[0].facts()[0].warnings;
    assert!(
        warnings[0].starts_with("'near' went down after 8 frames"),
        "{warnings:?}"
    );

    ip("link delete near");
    let error = loop {
        match ports[0].receive(&mut Burst::new(), 64) {
            Ok(Received::Idle { .. }) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().starts_with("'near' is gone"), "{error}");
    let after = ports[0].receive(&mut Burst::new(), 64);
    assert_eq!(after.expect("no second error"), Received::End);
}

#[test]
fn refusals_name_a_remedy() {
    let Some(_wire) = wire_for_xdp(1, 2, 1500) else {
        return;
    };
    let refused = |options: &LiveOptions| match open(&near(), options) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    };
    // A refusal of native mode alone is reported, and generic mode used.
    let ports = open_near(Method::AfXdpNative);
    let facts = live(ports[0].as_ref());
    assert_eq!(facts.method, Method::AfXdpGeneric);
    assert!(
        facts.reason.contains("fewer receive queues"),
        "{}",
        facts.reason
    );
    drop(ports);

    let mut small = options(Method::AfXdpGeneric);
    small.budget = Budget::new(1 << 20);
    let error = refused(&small);
    assert!(error.contains("raise --memory"), "{error}");

    let _other = pass_program_on(near().index);
    let error = refused(&options(Method::AfXdpGeneric));
    assert!(
        error.contains("another one is there: 'ip link show near'"),
        "{error}"
    );
}

/// Puts another program on an interface, in generic mode, for as long as the
/// descriptors are open.
fn pass_program_on(interface: u32) -> [OwnedFd; 2] {
    // r0 = XDP_PASS; exit
    const PROGRAM: [u64; 2] = [0x2_0000_00b7, 0x95];
    let bpf = |command: i32, attributes: &mut [u64; 16]| {
        // SAFETY: the attributes are as long as stated; what they point to lives for good.
        unsafe {
            let result = libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), 128);
            assert!(result >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(result as i32)
        }
    };
    let mut load = [0; 16];
    load[0] = 2 << 32 | 6;
    load[1] = PROGRAM.as_ptr().expose_provenance() as u64;
    load[2] = c"MIT".as_ptr().expose_provenance() as u64;
    let program = bpf(5, &mut load);
    let mut link = [0; 16];
    link[0] = u64::from(interface) << 32 | program.as_raw_fd() as u64;
    link[1] = 2 << 32 | 37;
    let link = bpf(28, &mut link);
    [program, link]
}

/// A TCP segment over IPv4 with right checksums, from one address and port to another.
fn segment(from: ([u8; 4], u16), to: ([u8; 4], u16), payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let len = (40 + payload.len()) as u16;
    bytes.extend_from_slice(&[0x45, 0, len.to_be_bytes()[0], len.to_be_bytes()[1]]);
    bytes.extend_from_slice(&[0, 0, 0, 0, 64, 6, 0, 0]);
    bytes.extend_from_slice(&from.0);
    bytes.extend_from_slice(&to.0);
    bytes.extend_from_slice(&from.1.to_be_bytes());
    bytes.extend_from_slice(&to.1.to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(payload);
    let [ip, tcp] = checksums(&bytes);
    bytes[24..26].copy_from_slice(&ip.to_be_bytes());
    bytes[50..52].copy_from_slice(&tcp.to_be_bytes());
    bytes
}

/// Of the IP header, and of the segment with its pseudo-header: 0 each if they are right.
fn checksums(frame: &[u8]) -> [u16; 2] {
    let sum = |bytes: &[u8]| -> u32 {
        let words = bytes.chunks(2);
        words
            .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
            .sum()
    };
    let folded = |mut sum: u32| {
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    };
    let pseudo = sum(&frame[26..34]) + 6 + (frame.len() - 34) as u32;
    [
        folded(sum(&frame[14..34])),
        folded(pseudo + sum(&frame[34..])),
    ]
}

/// All frames in their order, again and again, each time as another client's.
#[test]
fn the_kernel_sends_a_capture_of_ever_other_clients() {
    for native in [true, false] {
        let Some(_wire) = wire_for_xdp(1, 1, 1500) else {
            return;
        };
        let (client, server) = (([192, 0, 2, 7], 700), ([192, 0, 2, 1], 2049));
        let payload: Vec<u8> = (0..1400).map(|at| at as u8).collect();
        let datagram = frame(3, 60);
        let frames = [
            segment(client, server, &payload[..33]),
            segment(server, client, &payload),
            datagram.clone(),
            segment(client, server, b""),
        ];
        let far = Interface::named("far").expect("just made");
        let method = match native {
            true => Method::AfXdpNative,
            false => Method::AfPacket,
        };
        let mut ports = open_near(method);
        // An end without an XDP program needs one that lets frames through.
        let passing = (!native).then(|| pass_all(&near()).expect("allowed"));
        let generator = Generator::new(&far, &frames, 30_000).expect("allowed");
        let sent = generator.run(Duration::from_millis(30)).expect("sends");
        drop(passing);
        let bursts = receive(&mut ports, sent.frames as usize);
        // As many as the machine had time for, but several passes.
        assert!(sent.frames > 4 * frames.len() as u64, "{sent:?}");
        // Every 30 us, and what a late start makes up for.
        assert!(sent.frames <= sent.span_ns / 30_000 + 40, "{sent:?}");
        let mut bytes = 0;
        for (at, got) in bursts[0].iter().enumerate() {
            bytes += got.bytes().len() as u64;
            let expected = &frames[at % frames.len()];
            if *expected == datagram {
                assert_eq!(got.bytes(), datagram);
                continue;
            }
            let pass = at / frames.len();
            // The client's address is the source of what goes to port 2049.
            let client_at = if expected[36..38] == 2049_u16.to_be_bytes() {
                26
            } else {
                30
            };
            let mut expected = expected.clone();
            expected[client_at] = expected[client_at].wrapping_add(pass as u8);
            expected[client_at + 1] += ((192 + pass) >> 8) as u8;
            let same =
                |range: std::ops::Range<usize>| got.bytes()[range.clone()] == expected[range];
            assert_eq!(got.bytes().len(), expected.len(), "frame {at}");
            assert!(
                same(0..24) && same(26..50) && same(52..expected.len()),
                "frame {at}"
            );
            assert_eq!(checksums(got.bytes()), [0, 0], "frame {at}");
        }
        assert_eq!(bytes, sent.bytes);
    }
}
