//! The way from the tap to each end, against what both ends measure: a client and a server, each
//! behind an emulated link of its own, and the tap on a bridge between them.

use std::net::{TcpListener, TcpStream};

use lineside_rows::Table;

use crate::support::{Record, manifest, records};
use crate::wall::between::emulate;
use crate::wall::undisturbed::undisturbed;
use crate::wall::wire::{Namespace, Running, need_wire, run};

/// Connections, each of which measures both halves.
const CONNECTIONS: usize = 60;
const CLIENT: &str = "192.0.2.1";
const SERVER: &str = "192.0.2.2";
const TAP: &str = "192.0.2.3";
const PORT: u16 = 2049;
/// By how much two medians may differ.
const DIFFERENCE_MAX_US: f64 = 50.0;

/// `client c0-m0 left m1-t0 tap t1-n0 right n1-s0 server`
struct Halves {
    client: Namespace,
    left: Namespace,
    tap: Namespace,
    right: Namespace,
    server: Namespace,
}

impl Halves {
    fn new() -> Self {
        let halves = Self {
            client: Namespace::new("hc"),
            left: Namespace::new("hl"),
            tap: Namespace::new("ht"),
            right: Namespace::new("hr"),
            server: Namespace::new("hs"),
        };
        for (here, name, there, peer) in [
            (&halves.client, "c0", &halves.left, "m0"),
            (&halves.tap, "t0", &halves.left, "m1"),
            (&halves.tap, "t1", &halves.right, "n0"),
            (&halves.server, "s0", &halves.right, "n1"),
        ] {
            here.ip(&format!(
                "link add {name} numrxqueues 1 numtxqueues 1 type veth peer name {peer} \
                numrxqueues 1 numtxqueues 1 netns {}",
                there.name()
            ));
            let off = ["-K", name, "tso", "off", "gso", "off"];
            run(here.command("ethtool").args(off));
            here.ip(&format!("link set {name} up"));
            there.ip(&format!("link set {peer} up"));
        }
        halves.tap.ip("link add bridge type bridge");
        for port in ["t0", "t1"] {
            halves.tap.ip(&format!("link set {port} master bridge"));
        }
        halves.tap.ip("link set bridge up");
        for (host, interface, address) in [
            (&halves.client, "c0", CLIENT),
            (&halves.server, "s0", SERVER),
            (&halves.tap, "bridge", TAP),
        ] {
            host.ip(&format!("addr add {address}/24 dev {interface}"));
        }
        halves
    }
}

/// In microseconds.
fn median(mut times: Vec<f64>) -> f64 {
    assert!(!times.is_empty(), "{times:?}");
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The median round trip that the kernel of an end has of its connections with an address.
fn of_sockets(end: &Namespace, peer: &str) -> f64 {
    let mut ss = end.command("ss");
    let words = ["-tinH", "state", "established", "dst", peer];
    let output = ss.args(words).output().expect("ss runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let ms = |word: &str| {
        word.strip_prefix("rtt:")?
            .split('/')
            .next()?
            .parse::<f64>()
            .ok()
    };
    median(
        text.split_whitespace()
            .filter_map(ms)
            .map(|ms| ms * 1_000.0)
            .collect(),
    )
}

/// What both ends measure: of connections that carry nothing, so that the kernels alone answer.
struct Measured {
    /// By the client and by the server: to the tap's host and back.
    halves: [f64; 2],
    /// By the same, from end to end.
    whole: [f64; 2],
}

/// In turn, so that all have the same share of what else the machine does.
fn measure(halves: &Halves, count: usize) -> Measured {
    let listen = |host: &Namespace, address| {
        let bind = || TcpListener::bind((address, PORT)).expect("free");
        (address, host.enter(bind))
    };
    let (tap, server) = (listen(&halves.tap, TAP), listen(&halves.server, SERVER));
    let mut connections = Vec::new();
    for _ in 0..count {
        for (from, (address, listener)) in [
            (&halves.client, &tap),
            (&halves.server, &tap),
            (&halves.client, &server),
        ] {
            let connect = || TcpStream::connect((*address, PORT)).expect("it listens");
            connections.push((
                from.enter(connect),
                listener.accept().expect("the other end"),
            ));
        }
    }
    Measured {
        halves: [&halves.client, &halves.server].map(|end| of_sockets(end, TAP)),
        whole: [
            of_sockets(&halves.client, SERVER),
            of_sockets(&halves.server, CLIENT),
        ],
    }
}

/// Whether the columns have what the ends measure, or by how much a busy machine let them differ.
fn measured() -> Result<(), String> {
    let halves = Halves::new();
    let link = |delay| ["--wait", "sleep", "--method", "af_packet", "--delay", delay];
    let words = |between, delay| [&["--between", between][..], &link(delay)].concat();
    let left = emulate(&halves.left, &words("m0,m1", "1ms"), "m1");
    let right = emulate(&halves.right, &words("n0,n1", "2500us"), "n1");
    // Of the first ones, the addresses are asked for too.
    let _ = measure(&halves, 2);
    let capture = Running::start(&halves.tap, &["-i", "t0", "--method", "af_packet"]);
    let ends = measure(&halves, CONNECTIONS);
    let trace = capture.interrupt();
    let links = [left.interrupt(), right.interrupt()];
    let rows: Vec<Record> = records(&trace.out, Table::Connections);
    let half = |name: &str| {
        let rows = rows
            .iter()
            .filter(|row| row.text("server_address") == Some(SERVER));
        let times = rows.filter_map(|row| row.integer(name));
        median(times.map(|ns| ns as f64 / 1_000.0).collect())
    };
    let tap = ["client_rtt_min_ns", "server_rtt_min_ns"].map(half);
    assert!(tap[0] > 1_900.0 && tap[1] > 4_900.0, "{tap:?} us");
    let differences = [
        tap[0] - ends.halves[0],
        tap[1] - ends.halves[1],
        tap[0] + tap[1] - ends.whole[0],
        tap[0] + tap[1] - ends.whole[1],
    ];
    println!("halves of the way: {tap:?} us, {differences:?} us from what the ends measure");
    let is_near = differences.iter().all(|us| us.abs() <= DIFFERENCE_MAX_US);
    match is_near && tap[0] < 4_000.0 && tap[1] < 8_000.0 {
        true => Ok(()),
        false => {
            let links = links.map(|link| manifest(&link.out).verdict.state);
            Err(format!(
                "{differences:?} us, of {tap:?}; the links are {links:?}"
            ))
        }
    }
}

#[test]
fn halves_of_the_way_are_those_that_both_ends_measure() {
    need_wire!("ss");
    undisturbed("halves of the way", measured);
}
