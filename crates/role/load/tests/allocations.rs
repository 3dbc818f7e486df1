//! Nothing is allocated for a datagram, or for a request of bulk data, at either end, once pools
//! and queues have grown.

use std::net::{IpAddr, Ipv4Addr};

use lineside_dns::{NameBuf, Zone, kind};
use lineside_host::{RunClock, TcpOptions};
use lineside_load::client::{CatchUp, Client, DatagramClient, Pace, Phase, Plan};
use lineside_load::protocol::{
    Client as StreamClient, DatagramClient as Protocol, DatagramServer, Dns, DnsServer,
    EchoDatagrams, Server as StreamServer, Sink, SinkDatagrams, SinkServer, Source, SourceServer,
    Stamped,
};
use lineside_load::server::Server;
use lineside_load::{Application, CloseBy, DatagramService, Load, SocketLoop};
use lineside_reactor::Wait;
use lineside_time::Clock;
use lineside_workload::{Arrivals, Schedule, Share, Sizes, Template, Unit, no_files};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn plan(connections: u32, pipeline: u32) -> Plan {
    Plan {
        connections,
        opens_on_arrival: false,
        requests_each: None,
        pipeline,
        close_by: CloseBy::Fin,
        requests: None,
        timeout_ns: 10_000_000_000,
        ahead_ns: 100_000,
        opening_max: 64,
        waiting_max: 1 << 10,
        catch_up: CatchUp::Cap(64),
        retry_ns: 10_000_000,
        share: (0, 1),
    }
}

/// Poisson arrivals at this rate; `None`: a closed loop.
fn pace(rate: Option<&str>) -> Pace {
    let Some(rate) = rate else {
        return Pace::Closed(None);
    };
    let arrivals = Arrivals::parse("poisson", &mut no_files).expect("words");
    let rate = rate.parse().expect("a rate");
    let schedule = Schedule::new(&arrivals, Some(&rate), 7, Share::ALL);
    Pace::Open(Box::new(schedule.expect("a schedule")))
}

fn sockets<A: Application>(application: A) -> SocketLoop<A> {
    SocketLoop::new(application, TcpOptions::default(), Wait::Spin).expect("epoll")
}

/// The allocations of as many requests after this many others; both ends in this thread.
fn allocations<C: Load, S: Application>(client: C, mut serving: SocketLoop<S>, count: u64) -> u64 {
    let clock = RunClock::start();
    let mut now = || clock.now();
    let mut asking = sockets(client);
    let (client, calls) = asking.application_mut(clock.now());
    client.open(calls);
    let mut turn = |until: u64| loop {
        asking.turn(&mut now).expect("epoll");
        serving.turn(&mut now).expect("epoll");
        let at = clock.now();
        let (client, calls) = asking.application_mut(at);
        if client.is_ready() && client.phase() == Phase::Opening {
            client.start(at, i64::MAX, calls);
        }
        let counts = &client.results().counts;
        if counts.answered + counts.one_way >= until {
            return;
        }
    };
    turn(count);
    let before = lineside_alloc::allocations();
    turn(2 * count);
    lineside_alloc::allocations() - before
}

/// Those of datagrams.
fn of_datagrams<P: Protocol, S: DatagramServer>(protocol: P, server: S, is_open: bool) -> u64 {
    let mut serving = sockets(DatagramService::new(server));
    let at = serving.bind((LOOPBACK, 0), None, 0).expect("a port");
    let (plan, pace) = (plan(8, 8), pace(is_open.then_some("20000")));
    let targets = vec![(LOOPBACK, at.port())];
    let client = DatagramClient::new(protocol, plan, pace, targets, None, None);
    allocations(client, serving, 4_000)
}

/// Those of byte streams.
fn of_streams<P: StreamClient, S: StreamServer>(protocol: P, server: S, is_open: bool) -> u64 {
    let mut serving = sockets(Server::new(server));
    let at = serving.listen((LOOPBACK, 0).into(), 0, 64).expect("a port");
    let plan = Plan {
        ahead_ns: 0,
        ..plan(8, 1)
    };
    let (pace, target) = (pace(is_open.then_some("2000")), (LOOPBACK, at.port()));
    let client = Client::new(protocol, plan, pace, vec![target], None, None);
    allocations(client, serving, 1_000)
}

#[test]
fn bulk_data_allocate_nothing_at_either_end() {
    let sizes = || Sizes::parse("bytes", "uniform 1..200000", Unit::Bytes, &mut no_files);
    for is_open in [false, true] {
        let sink = Sink::new(sizes().expect("words"), 1);
        let of_sink = of_streams(sink, SinkServer, is_open);
        assert!((0..40).contains(&of_sink), "sink, {is_open}: {of_sink}");
        let source = Source::new(Some(sizes().expect("words")), 1);
        let endless = SourceServer {
            bytes: u64::MAX >> 1,
        };
        let of_source = of_streams(source, endless, is_open);
        assert!(
            (0..40).contains(&of_source),
            "source, {is_open}: {of_source}"
        );
    }
}

#[test]
fn a_datagram_allocates_nothing_at_either_end() {
    let sizes = || Sizes::parse("--size", "uniform 44..1400", Unit::Bytes, &mut no_files);
    let stamped = |is_echo| Stamped::new(sizes().expect("words"), 1, 2, is_echo);
    let names = || Template::parse("h{n}.{hex:8}.load.example", None, 1).expect("a template");
    let dns = || Dns::new(names(), vec![kind::A, kind::AAAA], true, Some(1_232), 3);
    let zone = || Zone {
        origin: NameBuf::parse("load.example").expect("a name"),
        a: Some(Ipv4Addr::new(192, 0, 2, 1)),
        aaaa: None,
        ttl_s: 60,
    };
    // After a stall of the machine a queue may be longer than ever before, and doubles.
    let few = 0..40;
    for is_open in [false, true] {
        let of_echo = of_datagrams(stamped(true), EchoDatagrams, is_open);
        assert!(few.contains(&of_echo), "echo, {is_open}: {of_echo}");
        let sink = SinkDatagrams::new(8, 0, 0);
        let of_sink = of_datagrams(stamped(false), sink, is_open);
        assert!(few.contains(&of_sink), "sink, {is_open}: {of_sink}");
        let of_dns = of_datagrams(dns().expect("names"), DnsServer(zone()), is_open);
        assert!(few.contains(&of_dns), "dns, {is_open}: {of_dns}");
    }
}
