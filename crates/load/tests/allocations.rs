//! Nothing is allocated for a datagram, at either end, once pools and queues have grown.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};

use lineside_dns::{NameBuf, Zone, kind};
use lineside_host::{RunClock, TcpOptions};
use lineside_load::client::{CatchUp, DatagramClient, Pace, Plan};
use lineside_load::protocol::{
    DatagramClient as Protocol, DatagramServer, Dns, DnsServer, EchoDatagrams, SinkDatagrams,
    Stamped,
};
use lineside_load::{CloseBy, DatagramService, Load, SocketLoop};
use lineside_reactor::Wait;
use lineside_time::Clock;
use lineside_workload::{Arrivals, Schedule, Share, Sizes, Template, Unit, no_files};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
// JUSTIFICATION: only a global allocator sees every allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocations of 4,000 requests after 4,000 others; both ends in this thread.
fn allocations<P: Protocol, S: DatagramServer>(protocol: P, server: S, is_open: bool) -> u64 {
    let clock = RunClock::start();
    let mut now = || clock.now();
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    let service = DatagramService::new(server);
    let mut serving = SocketLoop::new(service, TcpOptions::default(), Wait::Spin).expect("epoll");
    let at = serving.bind((loopback, 0), None, 0).expect("a port");
    let plan = Plan {
        connections: 8,
        opens_on_arrival: false,
        requests_each: None,
        pipeline: 8,
        close_by: CloseBy::Fin,
        requests: None,
        timeout_ns: 10_000_000_000,
        ahead_ns: 100_000,
        opening_max: 64,
        waiting_max: 1 << 10,
        catch_up: CatchUp::Cap(64),
        retry_ns: 10_000_000,
        share: (0, 1),
    };
    let pace = match is_open {
        false => Pace::Closed(None),
        true => {
            let arrivals = Arrivals::parse("poisson", &mut no_files).expect("words");
            let rate = "20000".parse().expect("a rate");
            let schedule = Schedule::new(&arrivals, Some(&rate), 7, Share::ALL);
            Pace::Open(Box::new(schedule.expect("a schedule")))
        }
    };
    let targets = vec![(loopback, at.port())];
    let client = DatagramClient::new(protocol, plan, pace, targets, None, None);
    let mut asking = SocketLoop::new(client, TcpOptions::default(), Wait::Spin).expect("epoll");
    let (client, calls) = asking.application_mut(clock.now());
    client.open(calls);
    let mut turn = |until: u64| loop {
        asking.turn(&mut now).expect("epoll");
        serving.turn(&mut now).expect("epoll");
        let at = clock.now();
        let (client, calls) = asking.application_mut(at);
        if client.is_ready() && client.phase() == lineside_load::client::Phase::Opening {
            client.start(at, i64::MAX, calls);
        }
        let counts = &client.results().counts;
        if counts.answered + counts.one_way >= until {
            return;
        }
    };
    turn(4_000);
    let before = ALLOCATIONS.get();
    turn(8_000);
    ALLOCATIONS.get() - before
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
        let of_echo = allocations(stamped(true), EchoDatagrams, is_open);
        assert!(few.contains(&of_echo), "echo, {is_open}: {of_echo}");
        let sink = SinkDatagrams::new(8, 0, 0);
        let of_sink = allocations(stamped(false), sink, is_open);
        assert!(few.contains(&of_sink), "sink, {is_open}: {of_sink}");
        let of_dns = allocations(dns().expect("names"), DnsServer(zone()), is_open);
        assert!(few.contains(&of_dns), "dns, {is_open}: {of_dns}");
    }
}
