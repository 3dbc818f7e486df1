//! What datagrams cost: an echo and a sink on loopback by the kernel's sockets, both ends here.
//!
//! ```text
//! cargo run --profile dist -p lineside-load --example datagrams -- SECONDS [RATE]
//! ```
//!
//! Without a rate the loop is closed. It does not show what a network does, nor our own stack.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use lineside_account::Budget;
use lineside_host::RunClock;
use lineside_load::client::{CatchUp, DatagramClient, Pace, Plan};
use lineside_load::outcome::{Observer, Outcome};
use lineside_load::protocol::{DatagramServer, EchoDatagrams, SinkDatagrams, Stamped};
use lineside_load::run::{Part, run_each};
use lineside_load::serve::{Served, serve_datagrams};
use lineside_load::settings::{ServeSettings, Settings, Transport};
use lineside_load::{CloseBy, Timing};
use lineside_measure::Times;
use lineside_reactor::Wait;
use lineside_workload::{Arrivals, Profile, Schedule, Share, Sizes, Unit, no_files};

struct Silent;

impl Observer for Silent {}

fn main() {
    let mut words = std::env::args().skip(1);
    let seconds: i64 = words
        .next()
        .map_or(5, |word| word.parse().expect("seconds"));
    let rate: Option<f64> = words.next().map(|word| word.parse().expect("a rate"));
    between(true, || EchoDatagrams, seconds, rate);
    let clock = RunClock::start();
    let sink = || SinkDatagrams::new(100, 1, clock.ahead_ns());
    between(false, sink, seconds, rate);
}

fn settings(port: u16, seconds: i64) -> Settings {
    Settings {
        targets: vec![(Ipv4Addr::LOCALHOST.into(), port)],
        transport: Transport::Sockets { from: Vec::new() },
        workers: 1,
        among: (0, 1),
        pins: false,
        real_time: false,
        wait: Wait::Hybrid,
        plan: Plan {
            connections: 16,
            opens_on_arrival: false,
            requests_each: None,
            pipeline: 16,
            close_by: CloseBy::Fin,
            requests: None,
            timeout_ns: 1_000_000_000,
            ahead_ns: 100_000,
            opening_max: 64,
            waiting_max: 1 << 16,
            catch_up: CatchUp::Keep,
            retry_ns: 10_000_000,
            share: (0, 1),
        },
        timing: Timing {
            duration_ns: Some(seconds * 1_000_000_000),
            drain_ns: 1_000_000_000,
            linger_ns: 100_000_000,
            report_ns: 1_000_000_000,
        },
        budget: Budget::new(64 << 20),
        secret: [1, 2],
    }
}

fn between<S: DatagramServer>(
    is_echo: bool,
    server: impl Fn() -> S + Sync,
    seconds: i64,
    rate: Option<f64>,
) {
    let stop = AtomicBool::new(false);
    let (tell, heard) = channel();
    thread::scope(|scope| {
        let (stop, server) = (&stop, &server);
        let serving = scope.spawn(move || {
            let settings = ServeSettings {
                at: (Ipv4Addr::LOCALHOST, 0).into(),
                stack: None,
                workers: 1,
                wait: Wait::Hybrid,
                budget: Budget::new(64 << 20),
                secret: [3, 4],
            };
            let ready = |at| tell.send(at).expect("somebody listens");
            serve_datagrams(
                &settings,
                &|| server(),
                &|_| (),
                RunClock::start(),
                stop,
                ready,
            )
        });
        let at = heard.recv().expect("it listens");
        let clock = RunClock::start();
        let client = |part: Part| {
            let sizes = Sizes::constant(64, Unit::Bytes);
            let protocol = Stamped::new(sizes, 1, 2, is_echo).with_clock(1, clock.ahead_ns());
            let pace = rate.map_or(Pace::Closed(None), |rate| {
                let arrivals = Arrivals::parse("constant", &mut no_files).expect("words");
                let profile = Profile::constant(rate).expect("a rate");
                let schedule = Schedule::new(&arrivals, Some(&profile), 1, Share::ALL);
                Pace::Open(Box::new(schedule.expect("a schedule")))
            });
            DatagramClient::new(protocol, part.plan, pace, part.targets, part.locals, None)
        };
        let outcome = run_each(&settings(at.port(), seconds), &client, clock, &mut Silent);
        stop.store(true, Ordering::Relaxed);
        let (served, _) = serving.join().expect("no panic").expect("it served");
        let name = if is_echo { "echo" } else { "sink" };
        print(name, &outcome.expect("it ran"), &served);
    });
}

fn print(name: &str, outcome: &Outcome, served: &Served) {
    let counts = &outcome.counts;
    let each_us = |cpu_ns: i64| cpu_ns as f64 / 1_000.0 / counts.sent.max(1) as f64;
    let quantiles = |of: &Times| {
        [0.5, 0.9, 0.99].map(|share| of.quantile_ns(share).unwrap_or(0) as f64 / 1_000.0)
    };
    println!(
        "{name}: {:.0} a second, {} sent, {} answered, {} one way, {} failed; us of CPU each: \
         client {:.2}, server {:.2}; us late at 50, 90, 99 %: {:.2?}; us of service: {:.1?}",
        counts.sent as f64 * 1e9 / outcome.wall_ns.max(1) as f64,
        counts.sent,
        counts.answered,
        counts.one_way,
        counts.failed.iter().sum::<u64>(),
        each_us(outcome.cpu_ns),
        each_us(served.cpu_ns),
        quantiles(&outcome.times.lateness),
        quantiles(&outcome.times.service),
    );
}
