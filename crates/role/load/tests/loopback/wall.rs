//! Clients and servers of this crate over the kernel's sockets, on loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use lineside_account::Budget;
use lineside_host::{RunClock, Stopwatch};
use lineside_http::{Body, RequestTemplate, Responder, ResponseTemplate, Url};
use lineside_load::client::{CatchUp, Pace, Plan};
use lineside_load::error::LoadError;
use lineside_load::outcome::{Observer, Outcome};
use lineside_load::protocol::{
    Client, Echo, EchoServer, Http, HttpServer, Memcached, MemcachedServer, Mix, Server, Sink,
    SinkServer, Source, SourceServer,
};
use lineside_load::results::Cause;
use lineside_load::run::{Make, run};
use lineside_load::serve::{Served, serve};
use lineside_load::settings::{ServeSettings, Settings, Transport};
use lineside_load::{CloseBy, Timing};
use lineside_reactor::Wait;
use lineside_workload::{Arrivals, Profile, Schedule, Share, Sizes, Unit, no_files};

fn plan() -> Plan {
    Plan {
        connections: 8,
        opens_on_arrival: false,
        requests_each: None,
        pipeline: 1,
        close_by: CloseBy::Fin,
        requests: Some(2_000),
        timeout_ns: 5_000_000_000,
        ahead_ns: 100_000,
        opening_max: 64,
        waiting_max: 1 << 16,
        catch_up: CatchUp::Keep,
        retry_ns: 10_000_000,
        share: (0, 1),
    }
}

fn settings(at: SocketAddr, plan: Plan, workers: u32) -> Settings {
    Settings {
        targets: vec![(at.ip(), at.port())],
        transport: Transport::Sockets { from: Vec::new() },
        workers,
        among: (0, workers),
        pins: false,
        real_time: false,
        wait: Wait::Hybrid,
        plan,
        timing: Timing {
            duration_ns: None,
            drain_ns: 5_000_000_000,
            linger_ns: 1_000_000_000,
            report_ns: 100_000_000,
        },
        budget: Budget::new(64 << 20),
        secret: [1, 2],
    }
}

struct Making<F, R> {
    protocol: F,
    /// Requests a second of all workers; `None`: a closed loop.
    rate: Option<R>,
}

impl<P, F: Fn() -> P + Sync> Make<P> for Making<F, f64> {
    fn protocol(&self, _: u32) -> P {
        (self.protocol)()
    }

    fn pace(&self, worker: u32, workers: u32) -> Pace {
        let Some(rate) = self.rate else {
            return Pace::Closed(None);
        };
        let arrivals = Arrivals::parse("poisson", &mut no_files).expect("words");
        let profile = Profile::constant(rate).expect("a rate");
        let share = Share::of(worker, workers);
        let schedule = Schedule::new(&arrivals, Some(&profile), 7, share).expect("a schedule");
        Pace::Open(Box::new(schedule))
    }
}

struct Silent;

impl Observer for Silent {}

/// Runs a client against a server of this crate.
fn against<S: Server, P: Client>(
    server: impl Fn() -> S + Sync + Send,
    client: impl Fn(SocketAddr) -> P + Sync,
    plan: Plan,
    workers: u32,
    rate: Option<f64>,
) -> (Outcome, Served) {
    let stop = AtomicBool::new(false);
    let (tell, heard) = channel();
    thread::scope(|scope| {
        let serve_settings = ServeSettings {
            at: (Ipv4Addr::LOCALHOST, 0).into(),
            stack: None,
            workers: 1,
            wait: Wait::Sleep,
            budget: Budget::new(64 << 20),
            secret: [3, 4],
        };
        let stop = &stop;
        let serving = scope.spawn(move || {
            let ready = |at| tell.send(at).expect("somebody listens");
            serve(&serve_settings, &server, RunClock::start(), stop, ready)
        });
        let at = heard.recv().expect("it listens");
        let making = Making {
            protocol: || client(at),
            rate,
        };
        let settings = settings(at, plan, workers);
        let outcome = run(&settings, &making, RunClock::start(), &mut Silent);
        stop.store(true, Ordering::Relaxed);
        let served = serving.join().expect("no panic").expect("it served");
        (outcome.expect("it ran"), served)
    })
}

#[track_caller]
fn is_whole(outcome: &Outcome, served: &Served, requests: u64) {
    let counts = &outcome.counts;
    assert_eq!(outcome.broken_identity, None);
    assert_eq!(
        (counts.planned, counts.sent),
        (requests, requests),
        "{counts:?}"
    );
    assert_eq!(
        (counts.answered, counts.succeeded),
        (requests, requests),
        "{counts:?}"
    );
    assert_eq!(counts.outstanding(), 0);
    assert_eq!(served.counts.requests, requests);
    assert_eq!(served.counts.received_bytes, counts.request_bytes);
    assert_eq!(served.counts.answer_bytes, counts.received_bytes);
    assert_eq!(served.counts.opened, counts.opened);
    assert_eq!(outcome.times.latency.count(), requests);
}

#[test]
fn an_echo_answers_each_request_of_a_closed_loop() {
    for workers in [1, 2] {
        let (outcome, served) =
            against(|| EchoServer, |_| Echo::new(100, 3), plan(), workers, None);
        is_whole(&outcome, &served, 2_000);
        assert_eq!(outcome.counts.opened, 8);
    }
}

fn http(at: SocketAddr) -> Http {
    let url = Url::parse(&format!("http://{at}/file")).expect("a URL");
    let template = RequestTemplate::new("GET", &url, &[] as &[&str], b"");
    Http::new(template.expect("a request"))
}

fn responder() -> HttpServer {
    let mut responder = Responder::new();
    let response = ResponseTemplate::new(200, &[] as &[&str], Body::Synthetic(64));
    let added = responder.route_others(response.expect("a response"));
    added.expect("room for a template");
    HttpServer::new(responder)
}

#[test]
fn http_answers_each_request_of_an_open_loop() {
    for (workers, requests_each, close_by) in [
        (1, None, CloseBy::Fin),
        (2, None, CloseBy::Fin),
        (1, Some(1), CloseBy::Fin),
        (1, Some(3), CloseBy::Rst),
    ] {
        let plan = Plan {
            requests_each,
            close_by,
            ..plan()
        };
        let (outcome, served) = against(responder, http, plan, workers, Some(4_000.0));
        is_whole(&outcome, &served, 2_000);
        assert_eq!(outcome.counts.statuses, [(200, 2_000)]);
        assert_eq!(outcome.counts.content_bytes, 2_000 * 64);
        let least = requests_each.map_or(8, |each| 2_000 / u64::from(each));
        assert!(outcome.counts.opened >= least, "{:?}", outcome.counts);
    }
}

#[test]
fn connections_arrive_and_carry_their_requests() {
    let plan = Plan {
        opens_on_arrival: true,
        requests_each: Some(4),
        connections: 200,
        requests: Some(300),
        ..plan()
    };
    let (outcome, served) = against(responder, http, plan, 1, Some(1_000.0));
    let counts = &outcome.counts;
    assert_eq!(outcome.broken_identity, None);
    assert!(
        counts.sent >= 300 && counts.answered == counts.sent,
        "{counts:?}"
    );
    assert_eq!(counts.opened, 300);
    assert_eq!(served.counts.requests, counts.sent);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let plan = Plan {
        pipeline: 16,
        ..plan()
    };
    for rate in [None, Some(10_000.0)] {
        let (outcome, served) = against(responder, http, plan.clone(), 1, rate);
        is_whole(&outcome, &served, 2_000);
    }
}

#[test]
fn a_store_has_what_was_stored() {
    let mix = |get_share| Mix {
        keys: "zipf 0.99 over 100".parse().expect("keys"),
        key_len: Sizes::constant(30, Unit::Bytes),
        value_bytes: Sizes::parse("size", "uniform 1..20000", Unit::Bytes, &mut no_files)
            .expect("sizes"),
        get_share,
        seed: 5,
    };
    let client = |_| Memcached::new(mix(0.5));
    let server = || MemcachedServer::new(lineside_memcached::Limits::default());
    let (outcome, served) = against(server, client, plan(), 2, None);
    is_whole(&outcome, &served, 2_000);
    let statuses = &outcome.counts.statuses;
    let count = |status| {
        let found = statuses.iter().find(|&&(each, _)| each == status);
        found.map_or(0, |&(_, count)| count)
    };
    let [hits, misses, stored] = [1, 2, 3].map(count);
    assert_eq!(hits + misses + stored, 2_000, "{statuses:?}");
    // Each key is missed until it is stored; then it is there.
    assert!(
        misses < 300 && (800..1_200).contains(&stored),
        "{statuses:?}"
    );
    assert!(outcome.counts.content_bytes > hits, "{:?}", outcome.counts);
}

fn sizes(words: &str) -> Sizes {
    Sizes::parse("bytes", words, Unit::Bytes, &mut no_files).expect("sizes")
}

#[test]
fn a_sink_has_what_was_sent() {
    for (workers, words) in [
        (1, "uniform 1..3000000"),
        (2, "uniform 1..100000"),
        (1, "1"),
    ] {
        let plan = Plan {
            requests: Some(200),
            ..plan()
        };
        let client = |_| Sink::new(sizes(words), 3);
        let (outcome, served) = against(|| SinkServer, client, plan, workers, None);
        let counts = &outcome.counts;
        assert_eq!(outcome.broken_identity, None);
        assert_eq!((counts.planned, counts.succeeded), (200, 200), "{counts:?}");
        assert_eq!(served.counts.received_bytes, counts.request_bytes);
        assert_eq!(counts.content_bytes, counts.request_bytes);
        assert_eq!(outcome.times.lateness.count(), 200);
    }
}

#[test]
fn a_source_gives_what_was_asked() {
    for (bytes, of, is_open) in [
        (300_000, Some("100000"), false),
        (300_000, Some("100000"), true),
        (250_000, None, false),
        (u64::MAX >> 1, Some("uniform 1..1000000"), false),
        (u64::MAX >> 1, Some("100"), true),
    ] {
        let plan = Plan {
            requests: Some(200),
            ahead_ns: 0,
            ..plan()
        };
        let client = |_| Source::new(of.map(sizes), 3);
        let server = || SourceServer { bytes };
        let rate = is_open.then_some(1_000.0);
        let (outcome, served) = against(server, client, plan, 1, rate);
        let counts = &outcome.counts;
        assert_eq!(outcome.broken_identity, None);
        assert_eq!((counts.planned, counts.succeeded), (200, 200), "{counts:?}");
        assert!(served.counts.answer_bytes >= counts.received_bytes);
        assert!(counts.received_bytes >= counts.content_bytes, "{counts:?}");
        match of {
            Some("100000") => assert_eq!(counts.content_bytes, 20_000_000),
            None => assert_eq!(counts.content_bytes, 50_000_000),
            _ => {}
        }
    }
}

/// What lies in this end's buffers is not answered: the peer reads nothing, and has room for less.
#[test]
fn bytes_that_nobody_takes_are_not_answered() {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at = listener.local_addr().expect("an address");
    let plan = Plan {
        connections: 1,
        requests: Some(1),
        timeout_ns: 300_000_000,
        ..plan()
    };
    let making = Making {
        protocol: || Sink::new(sizes("1MiB"), 1),
        rate: None,
    };
    let outcome = run(
        &settings(at, plan, 1),
        &making,
        RunClock::start(),
        &mut Silent,
    );
    let counts = outcome.expect("it ran").counts;
    assert_eq!(counts.failed[Cause::Timeout as usize], 1, "{counts:?}");
    assert!((1..1 << 20).contains(&counts.request_bytes), "{counts:?}");
}

/// Answers that end with their connections: end and bytes may come as one event.
#[test]
fn an_end_that_comes_with_bytes_is_not_missed() {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at = listener.local_addr().expect("an address");
    let requests = 300;
    let plan = Plan {
        connections: 1,
        requests: Some(requests),
        timeout_ns: 20_000_000_000,
        ..plan()
    };
    thread::spawn(move || {
        for stream in listener.incoming().take(requests as usize + 1) {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 1 << 12];
            if !matches!(stream.read(&mut request), Ok(1..)) {
                continue;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nall until the end");
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
    let making = Making {
        protocol: || http(at),
        rate: None,
    };
    let outcome = run(
        &settings(at, plan, 1),
        &making,
        RunClock::start(),
        &mut Silent,
    );
    let counts = outcome.expect("it ran").counts;
    assert_eq!(
        [counts.answered, counts.succeeded],
        [requests; 2],
        "{counts:?}"
    );
}

/// What a broken server sends, and by which cause its request fails, if it does.
const BROKEN: [(&[u8], Option<Cause>); 10] = [
    (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore",
        Some(Cause::Protocol),
    ),
    (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\n",
        Some(Cause::Protocol),
    ),
    (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTT",
        Some(Cause::Protocol),
    ),
    (
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nokmore",
        Some(Cause::Protocol),
    ),
    (
        b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        Some(Cause::Protocol),
    ),
    (
        b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
        Some(Cause::Protocol),
    ),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\r\n",
        Some(Cause::Protocol),
    ),
    (
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok",
        Some(Cause::Closed),
    ),
    (b"HTTP/1.1 200 OK\r\nConte", Some(Cause::Closed)),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", None),
];

/// A server of this thread, which answers each connection's one request with these bytes in turn,
/// and with the rest of them later.
fn broken_server(later: Option<usize>) -> SocketAddr {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let mut answers = BROKEN.iter().cycle();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 1 << 12];
            if !matches!(stream.read(&mut request), Ok(1..)) {
                continue;
            }
            let (answer, _) = answers.next().expect("without end");
            let (first, rest) = answer.split_at(later.unwrap_or(answer.len()).min(answer.len()));
            let _ = stream.write_all(first);
            if later.is_some() {
                let watch = Stopwatch::start();
                watch.wait_until(std::time::Duration::from_millis(30));
            }
            let _ = stream.write_all(rest);
        }
    });
    at
}

#[test]
fn bytes_that_http_does_not_allow_fail_with_their_cause() {
    let requests = BROKEN.len() as u64 * 5;
    let plan = Plan {
        connections: 1,
        requests: Some(requests),
        requests_each: Some(1),
        close_by: CloseBy::Peer,
        ..plan()
    };
    let at = broken_server(None);
    let making = Making {
        protocol: || http(at),
        rate: None,
    };
    let settings = settings(at, plan, 1);
    let outcome = run(&settings, &making, RunClock::start(), &mut Silent).expect("it ran");
    let counts = outcome.counts;
    assert_eq!(outcome.broken_identity, None);
    let by = |cause: Option<Cause>| BROKEN.iter().filter(|(_, of)| *of == cause).count() as u64 * 5;
    assert_eq!(
        (counts.succeeded, counts.answered, counts.spoiled),
        (by(None), by(None), 0),
        "{counts:?}"
    );
    for cause in [Cause::Protocol, Cause::Closed] {
        assert_eq!(counts.failed[cause as usize], by(Some(cause)), "{counts:?}");
    }
}

/// The same where the bytes come when the answer is over and counted.
#[test]
fn an_answer_that_is_followed_by_bytes_later_is_no_success() {
    let plan = Plan {
        connections: 1,
        requests: Some(1),
        requests_each: Some(1),
        close_by: CloseBy::Peer,
        ..plan()
    };
    let (answer, _) = BROKEN[0];
    let at = broken_server(Some(answer.len() - 4));
    let making = Making {
        protocol: || http(at),
        rate: None,
    };
    let settings = settings(at, plan, 1);
    let outcome = run(&settings, &making, RunClock::start(), &mut Silent).expect("it ran");
    let counts = outcome.counts;
    assert_eq!(outcome.broken_identity, None);
    assert_eq!(
        (counts.answered, counts.succeeded, counts.spoiled),
        (1, 0, 1),
        "{counts:?}"
    );
}

#[test]
fn nobody_there_is_an_error_that_names_the_server() {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at = listener.local_addr().expect("an address");
    drop(listener);
    let making = Making {
        protocol: || http(at),
        rate: None,
    };
    let outcome = run(
        &settings(at, plan(), 1),
        &making,
        RunClock::start(),
        &mut Silent,
    );
    let Err(error @ LoadError::NobodyThere { .. }) = outcome else {
        panic!("{outcome:?}");
    };
    let text = error.to_string();
    assert!(
        text.contains(&at.to_string()) && text.contains("refuses"),
        "{text}"
    );
}
