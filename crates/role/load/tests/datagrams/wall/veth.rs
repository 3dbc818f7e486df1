//! Our stack at an interface beside a host's kernel, and the kernel's sockets at the other end of a
//! veth pair, each in a network namespace of its own.

use std::os::fd::AsFd;

use lineside_host::{NetNamespace, Netlink, may_make_network_namespaces};
use lineside_load::settings::{Opened, StackSettings};
use lineside_port::Method;
use lineside_tcp::Prefix;
use lineside_tcp::congestion::NEW_RENO;

use super::*;

const HOST: &str = "198.51.100.1";
const PEER: &str = "198.51.100.2";
const OURS: &str = "198.51.100.9";
const METHODS: [Method; 2] = [Method::AfXdpNative, Method::AfPacket];

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The host's and the peer's namespace, with `near` and `far`; this thread is in the first one.
fn namespaces() -> Option<(NetNamespace, NetNamespace)> {
    if !may_make_network_namespaces() {
        println!("SKIP: no network namespaces of our own: it takes root");
        return None;
    }
    lineside_testkit::waiting::take_place();
    let set_up = |name: &str, own: &str| {
        let netlink = Netlink::open().expect("netlink");
        let index = netlink.link_named(name).expect("just made").index;
        let added = netlink.add_address(index, address(own), 24);
        added.expect("a new address");
        netlink.switch_on(index).expect("switched on");
    };
    let peer = NetNamespace::new().expect("allowed");
    let host = NetNamespace::new().expect("allowed");
    let netlink = Netlink::open().expect("netlink");
    let added = netlink.add_veth("near", "far", peer.as_fd());
    added.expect("a pair");
    set_up("near", HOST);
    peer.enter().expect("just made");
    set_up("far", PEER);
    host.enter().expect("just made");
    Some((host, peer))
}

fn ours(method: Method) -> Box<StackSettings> {
    let block = Prefix::single(address(OURS));
    Box::new(StackSettings {
        interface: "near".to_owned(),
        method: Some(method),
        addresses: vec![block],
        on_link: vec![Prefix {
            address: address(HOST),
            len: 24,
        }],
        routers: Vec::new(),
        ports: (20_000, 10_000),
        mtu: None,
        window_bytes: 1 << 16,
        congestion: &NEW_RENO,
        time_wait_ns: 1_000_000_000,
        timeout_ns: None,
        connections_max: 0,
        neighbours: None,
        taps: None,
        opened: Opened::default(),
    })
}

/// A burst after a stall would not fit into the 256 places of a veth's ring.
fn capped() -> Plan {
    Plan {
        catch_up: CatchUp::Cap(20),
        ..plan()
    }
}

#[test]
fn our_stack_loses_what_the_peer_drops() {
    for method in METHODS {
        let Some((host, peer)) = namespaces() else {
            return;
        };
        let faulty = |_| Faulty {
            drops: 10,
            doubles: 0,
            dropped: 0,
        };
        let run = |at: SocketAddr| {
            host.enter().expect("just made");
            let plan = Plan {
                timeout_ns: 200_000_000,
                ..capped()
            };
            let settings = Settings {
                transport: Transport::Stack(ours(method)),
                ..settings(at, plan, 1)
            };
            let protocol = |_: &Part, clock| stamped(true, clock);
            run_by(protocol, &settings, Loop::Open(4_000.0))
        };
        peer.enter().expect("just made");
        let (outcome, served, left) =
            beside(address(PEER), 1, faulty, |faulty| faulty.dropped, run);
        let counts = &outcome.counts;
        assert_eq!(outcome.broken_identity, None);
        assert_eq!(
            (counts.sent, served.counts.requests),
            (2_000, 2_000),
            "{method}: {counts:?}"
        );
        let lost = counts.failed[Cause::Timeout as usize];
        assert!((180..=220).contains(&lost), "{method}: {counts:?}");
        assert_eq!(
            (lost, counts.answered),
            (left[0], 2_000 - left[0]),
            "{method}: {counts:?}"
        );
        assert_eq!(
            (counts.strays, counts.duplicates, counts.late_answers),
            (0, 0, 0)
        );
        // Each departure was reported.
        assert_eq!(outcome.times.lateness.count(), 2_000, "{method}");
        assert_eq!(outcome.transports[0].timed, 2_000, "{method}");
    }
}

#[test]
fn a_sink_by_our_stack_counts_what_the_kernel_sends() {
    for method in METHODS {
        let Some((host, peer)) = namespaces() else {
            return;
        };
        let run = |at| {
            peer.enter().expect("just made");
            load(at, false, capped(), 1, Loop::Open(4_000.0))
        };
        let serving = ServeSettings {
            at: (address(OURS), 7_000).into(),
            stack: Some(ours(method)),
            workers: 1,
            wait: Wait::Hybrid,
            budget: Budget::new(64 << 20),
            secret: [3, 4],
        };
        host.enter().expect("just made");
        let (outcome, served, left) = beside_by(serving, sink, SinkDatagrams::figures, run);
        let (counts, figures) = (&outcome.counts, &left[0]);
        assert_eq!(
            (counts.sent, counts.one_way),
            (2_000, 2_000),
            "{method}: {counts:?}"
        );
        assert_eq!(figures.broken_identity(), None);
        assert_eq!(
            (figures.received, figures.lost, figures.flows),
            (2_000, 0, 8),
            "{method}"
        );
        // Between two processors the kernel may change the order.
        assert_eq!((figures.duplicates, figures.foreign), (0, 0));
        assert_eq!(figures.delays.count(), 2_000);
        assert!(figures.delays.max_ns() < Some(5_000_000_000), "{method}");
        assert_eq!(served.counts.received_bytes, counts.request_bytes);
    }
}
