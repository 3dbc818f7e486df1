//! A probe and its server in virtual time, with emulated links between them: what was asked of the
//! links is what the probe finds. The two ends' clocks differ.

use std::collections::hash_map::RandomState;
use std::net::SocketAddr;

use lineside_frame::{Descriptor, Frame};
use lineside_link::{Link, PathFile, Schedule, Settings as LinkSettings, words};
use lineside_measure::Spread;
use lineside_probe::{Client, Findings, Limits, ProbeError, Sample, Server, Settings};
use proptest::prelude::*;

const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 1], 4000);
/// Headers of Ethernet, IPv4 and UDP.
const HEADERS: u32 = 42;
/// What a system call takes to send a datagram: the ends send 3 Gb/s at most.
const SEND_NS: i64 = 4_000;

/// A link's settings by its words; an empty one leaves a default.
fn link(delay: &str, loss: &str, rate: &str) -> LinkSettings {
    let mut settings = LinkSettings::default();
    if !delay.is_empty() {
        settings.delay = words::delay(delay, &mut words::no_files).expect("a delay");
    }
    if !loss.is_empty() {
        settings.loss = words::loss(loss).expect("a loss");
    }
    if !rate.is_empty() {
        settings.rate = Some(words::rate(rate).expect("a rate"));
    }
    settings
}

fn settings(count: u32) -> Settings {
    Settings {
        count,
        interval_ns: 10_000_000,
        patience_ns: 2_000_000_000,
        budget_bytes: 10_000_000,
        ip_header_bytes: 28,
        seed: 1,
    }
}

/// Two hosts and what is between them.
struct World {
    now: i64,
    links: [Link<Frame>; 2],
    client: Client,
    server: Server<SocketAddr>,
    /// When each end may send again.
    free_ns: [i64; 2],
    ahead_ns: i64,
    drift: f64,
    mtu: usize,
    /// Bytes of IP packets that each end sent.
    bytes: [u64; 2],
    /// When the server stops.
    gone_ns: i64,
    /// Calls that found nothing to do.
    idle: u64,
}

impl World {
    fn new(links: [LinkSettings; 2], settings: Settings) -> Self {
        let [out, back] = links;
        Self {
            now: 1_000,
            links: [
                Link::new(out, 11, 0, 256 << 20),
                Link::new(back, 12, 1, 256 << 20),
            ],
            client: Client::new(settings, 1_000),
            server: Server::new(Limits::default(), RandomState::new()),
            free_ns: [0; 2],
            ahead_ns: 7_777_777_777_777,
            drift: 0.0,
            mtu: 1500,
            bytes: [0; 2],
            gone_ns: i64::MAX,
            idle: 0,
        }
    }

    fn there(&self, now: i64) -> i64 {
        now + self.ahead_ns + (now as f64 * self.drift) as i64
    }

    fn here(&self, there: i64) -> i64 {
        (there - self.ahead_ns) - ((there - self.ahead_ns) as f64 * self.drift) as i64
    }

    fn push(&mut self, end: usize, datagram: &[u8]) {
        self.free_ns[end] = self.now + SEND_NS;
        self.bytes[end] += datagram.len() as u64 + 28;
        if datagram.len() + 28 > self.mtu {
            return;
        }
        let descriptor = Descriptor {
            wire_len: datagram.len() as u32 + HEADERS,
            ..Descriptor::default()
        };
        let mut departures = Vec::new();
        self.links[end].push(
            self.now,
            Frame::copied(datagram, descriptor),
            &mut departures,
        );
        assert!(departures.is_empty(), "frames leave when the link is asked");
    }

    fn send(&mut self) {
        let mut out = Vec::new();
        if self.free_ns[0] <= self.now
            && self
                .client
                .next_deadline()
                .is_some_and(|due| due <= self.now)
        {
            match self.client.transmit(self.now, &mut out) {
                true => self.push(0, &out),
                false => self.idle += 1,
            }
        }
        let there = self.there(self.now);
        if self.free_ns[1] <= self.now
            && self.server.next_deadline().is_some_and(|due| due <= there)
        {
            match self.server.transmit(there, &mut out) {
                Some(_) => self.push(1, &out),
                None => self.idle += 1,
            }
        }
    }

    fn deliver(&mut self) {
        for end in 0..2 {
            let mut departures = Vec::new();
            self.links[end].on_timer(self.now, &mut departures);
            for departure in departures {
                let bytes = departure.item.bytes();
                if end == 0 && departure.at_ns > self.gone_ns {
                    continue;
                }
                if end == 0 {
                    let there = self.there(departure.at_ns);
                    self.server.on_datagram(there, CLIENT.into(), bytes);
                } else {
                    self.client.on_datagram(departure.at_ns, bytes);
                }
            }
        }
    }

    fn run(&mut self) -> Result<Findings, ProbeError> {
        for _ in 0..20_000_000 {
            if let Some(outcome) = self.client.outcome() {
                assert!(self.idle < 5_000, "{} calls for nothing", self.idle);
                return outcome;
            }
            self.deliver();
            self.send();
            let client = self
                .client
                .next_deadline()
                .map(|due| due.max(self.free_ns[0]));
            let server = self.server.next_deadline();
            let server = server.map(|due| match due {
                i64::MIN => self.free_ns[1],
                i64::MAX => i64::MAX,
                due => self.here(due).max(self.free_ns[1]),
            });
            let links = self.links.iter().filter_map(|link| link.next_deadline());
            let next = links.chain(client).chain(server).min();
            self.now = next.unwrap_or(self.now).max(self.now + 1);
        }
        panic!("no end: {:?}", self.client);
    }
}

fn probe(links: [LinkSettings; 2], settings: Settings) -> Findings {
    World::new(links, settings).run().expect("findings")
}

/// The distribution of what a link draws.
fn spread(samples: &[Sample]) -> Spread {
    let times = samples.iter().filter(|sample| sample.len == 64);
    Spread::of(
        times
            .filter_map(|sample| Some((sample.took_ns?, 1)))
            .collect(),
    )
}

#[test]
fn delay_loss_rate_and_bucket_are_found_as_asked() {
    let asked = [
        ("10ms", "", "10mbit", 10_000_000, 0),
        ("500us", "2%", "300mbit burst 64kb", 300_000_000, 65_536),
        ("30ms", "5%", "1mbit burst 15kb", 1_000_000, 15_360),
        ("1ms", "", "100mbit burst 1514", 100_000_000, 1514),
        ("0ms", "", "50mbit burst 100kb", 50_000_000, 102_400),
    ];
    for (delay, loss, rate, bits_per_second, bucket_bytes) in asked {
        let found = probe(
            [link(delay, loss, rate), link(delay, loss, rate)],
            settings(400),
        );
        let delay_ns = lineside_words::parse_duration(delay).expect("a time") as i64;
        let share = loss.trim_end_matches('%').parse().unwrap_or(0.0) / 100.0;
        for way in [&found.out, &found.back] {
            let what = format!("{delay} {loss} {rate}: {:?} {:?}", way.lost, way.rate);
            let median_ns = way.delay.as_ref().expect("a delay").p50_ns;
            assert!((median_ns - delay_ns).abs() <= 20_000, "{what}");
            let lost = way.lost.expect("a share");
            assert!(lost.low <= share && share <= lost.high, "{what}");
            let found = way.rate.expect("a rate");
            assert!(!found.is_at_least, "{what}");
            let rate = found.bits_per_second as f64 / f64::from(bits_per_second);
            assert!((rate - 1.0).abs() < 0.02, "{what}");
            assert!(found.bucket_bytes.abs_diff(bucket_bytes) <= 1514, "{what}");
            assert_eq!(way.mtu_bytes, Some(1500), "{what}");
            assert!(share == 0.0 || way.train_packets_lost > 0, "{what}");
        }
        assert!(found.sent_bytes + found.received_bytes <= found.budget_bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_link_is_found_as_asked(
        delay_us in 0..50_000_i64,
        // Fewer are filled by the echoes themselves, which are 500 kbit/s.
        kbit in 1_000..300_000_u64,
        bucket_bytes in prop_oneof![Just(0), 1_514..200_000_u64],
        loss_percent in prop_oneof![Just(0), 1..10_u32],
    ) {
        let link = || link(
            &format!("{delay_us}us"),
            &format!("{loss_percent}%"),
            &format!("{kbit}kbit burst {bucket_bytes}b"),
        );
        let found = probe([link(), link()], settings(200));
        for way in [&found.out, &found.back] {
            let median_ns = way.delay.as_ref().expect("a delay").p50_ns;
            prop_assert!((median_ns - delay_us * 1000).abs() <= 20_000, "{median_ns}: {:?}", way.rate);
            let rate = way.rate.expect("a rate");
            prop_assert!(!rate.is_at_least, "{:?}", rate);
            let error = rate.bits_per_second as f64 / (kbit as f64 * 1000.0) - 1.0;
            prop_assert!(error.abs() < 0.02, "{:?}", rate);
            prop_assert!(rate.bucket_bytes.abs_diff(bucket_bytes) <= 1514, "{:?}", rate);
        }
    }
}

#[test]
fn each_way_has_its_own_loss_order_and_rate() {
    let mut world = World::new(
        [
            link("5ms 2ms distribution uniform order reorder", "3%", "20mbit"),
            link("5ms", "", "5mbit burst 30kb"),
        ],
        Settings {
            interval_ns: 1_000_000,
            ..settings(2000)
        },
    );
    let found = world.run().expect("findings");
    let [out, back] = [&found.out, &found.back];
    let order = |way: &lineside_probe::WayFound| way.order.expect("an order");
    assert!(order(out).reordered > 100, "{:?}", order(out));
    assert_eq!(order(back).reordered, 0);
    let lost = out.lost.expect("a share");
    assert!(
        lost.low <= 0.03 && 0.03 <= lost.high && lost.low > 0.01,
        "{lost:?}"
    );
    assert_eq!(back.lost.expect("a share").count, 0);
    let rates = [out, back].map(|way| way.rate.expect("a rate").bits_per_second as f64);
    assert!((rates[0] / 2e7 - 1.0).abs() < 0.02, "{rates:?}");
    assert!((rates[1] / 5e6 - 1.0).abs() < 0.02, "{rates:?}");
    // The variation of each way is its own, whoever's clock is ahead.
    let width = |way: &lineside_probe::WayFound| {
        let variation = way.variation.as_ref().expect("delays");
        variation.p99_ns - variation.p01_ns
    };
    assert!(
        (3_700_000..4_100_000).contains(&width(out)),
        "{}",
        width(out)
    );
    assert!(width(back) < 20_000, "{}", width(back));
    // What was sent is what was counted.
    let [sent, came] = world.bytes;
    assert_eq!(sent, found.sent_bytes);
    assert!(
        came <= found.received_bytes + 100_000,
        "{came} {}",
        found.received_bytes
    );
}

#[test]
fn clocks_that_drift_change_nothing() {
    for drift in [-90e-6, 25e-6] {
        let links = || link("8ms 100us distribution uniform", "", "");
        let mut world = World::new([links(), links()], settings(400));
        world.drift = drift;
        let found = world.run().expect("findings");
        let seen = found.clock_drift_ppm.expect("it is seen") / 1e6;
        assert!((seen / drift - 1.0).abs() < 0.25, "{drift}: {seen}");
        for way in [&found.out, &found.back] {
            let delay = way.delay.as_ref().expect("a delay");
            assert!(
                (delay.p50_ns - 8_000_000).abs() < 30_000,
                "{drift}: {delay:?}"
            );
            assert!(delay.max_ns - delay.min_ns < 240_000, "{drift}: {delay:?}");
        }
    }
}

#[test]
fn a_path_file_of_a_probe_gives_the_same_again() {
    let links = || link("20ms 3ms distribution pareto", "1%", "");
    let first = probe([links(), links()], settings(1000));
    let again = |path: PathFile| LinkSettings {
        schedule: Some(Schedule::Path(path)),
        ..LinkSettings::default()
    };
    let path = |way: &lineside_probe::WayFound| way.path_file(10_000_000).expect("a path");
    let paths = [path(&first.out), path(&first.back)].map(|path| {
        // As it is written, so it is read.
        PathFile::read("measured", &path.write()).expect("a path")
    });
    let second = probe(paths.map(again), settings(1000));
    for (one, other) in [(&first.out, &second.out), (&first.back, &second.back)] {
        let distance = spread(&other.samples).distance(&spread(&one.samples));
        let distance = distance.expect("delays");
        assert!(distance.ks < 0.05, "{distance:?}");
        let lost = other.lost.expect("a share");
        assert!(lost.low <= 0.01 && 0.01 <= lost.high, "{lost:?}");
    }
}

#[test]
fn a_queue_that_fills_shows_as_delay_under_load() {
    let mut slow = link("5ms", "", "20mbit");
    slow.limit = words::limit("50kb").expect("a limit");
    let found = probe([slow, link("5ms", "", "")], settings(100));
    let loaded = found.out.loaded.expect("it was filled");
    let median_ns = loaded.round_trips.expect("answers").p50_ns;
    // 50 kB at 20 Mb/s are 20 ms, beside 10 ms of the empty path.
    assert!((18_000_000..31_000_000).contains(&median_ns), "{median_ns}");
    assert!(found.back.rate.expect("a rate").is_at_least);
    assert_eq!(
        found.back.loaded, None,
        "without a limit no queue is known of"
    );
}

#[test]
fn packet_sizes_of_a_path_are_found() {
    for mtu in [600, 1280, 1499, 1500, 9000] {
        let links = || link("100us", "", "");
        let mut world = World::new([links(), links()], settings(16));
        world.mtu = mtu;
        let found = world.run().expect("findings");
        let mtu = Some(mtu as u32);
        assert_eq!((found.out.mtu_bytes, found.back.mtu_bytes), (mtu, mtu));
    }
}

#[test]
fn a_budget_is_kept_whatever_is_asked_for() {
    for budget_bytes in [2_000, 20_000, 200_000, 1_000_000] {
        let links = || link("1ms", "", "100mbit");
        let asked = Settings {
            budget_bytes,
            ..settings(60_000)
        };
        let mut world = World::new([links(), links()], asked);
        let outcome = world.run();
        let spent: u64 = world.bytes.iter().sum();
        assert!(spent <= budget_bytes * 11 / 10, "{budget_bytes}: {spent}");
        match outcome {
            Ok(found) => assert!(!found.remarks.is_empty()),
            Err(error) => assert!(
                budget_bytes < 100_000 && error == ProbeError::Budget,
                "{error}"
            ),
        }
    }
}

#[test]
fn a_server_that_goes_leaves_what_was_found() {
    for (gone_ns, is_found) in [(100_000_000, false), (3_200_000_000, true)] {
        let links = || link("10ms", "", "1mbit");
        let mut world = World::new([links(), links()], settings(100));
        world.gone_ns = gone_ns;
        match world.run() {
            Ok(found) => {
                let text = found.remarks.concat();
                assert!(is_found && text.contains("stopped answering"), "{text}");
                assert!(found.out.delay.is_some());
            }
            Err(error) => assert!(!is_found && error == ProbeError::Gone, "{error}"),
        }
    }
}

#[test]
fn what_answers_and_is_no_server_is_named() {
    let mut out = Vec::new();
    let begin = || Client::new(settings(10), 0);
    let error = |client: &mut Client| {
        client
            .outcome()
            .expect("it is over")
            .expect_err("no findings")
    };
    let mut client = begin();
    assert!(client.transmit(0, &mut out));
    client.on_datagram(1, &out);
    assert_eq!(error(&mut client), ProbeError::EchoService);
    let mut client = begin();
    assert!(client.transmit(0, &mut out));
    client.on_datagram(1, b"what do you want?");
    assert_eq!(error(&mut client), ProbeError::Foreign);
    let mut client = begin();
    assert!(client.transmit(0, &mut out));
    out[4] = 77;
    client.on_datagram(1, &out);
    assert_eq!(error(&mut client), ProbeError::Version(77));
    let mut client = begin();
    client.on_closed();
    assert_eq!(error(&mut client), ProbeError::Closed);
    let mut client = begin();
    while let Some(due) = client.next_deadline() {
        client.transmit(due, &mut out);
    }
    assert_eq!(error(&mut client), ProbeError::Silent);
    // A server of another version says which.
    let mut server = Server::<SocketAddr>::new(Limits::default(), RandomState::new());
    let mut client = begin();
    assert!(client.transmit(0, &mut out));
    out[4] = 3;
    server.on_datagram(0, CLIENT.into(), &out);
    assert!(server.transmit(0, &mut out).is_some());
    client.on_datagram(1, &out);
    assert_eq!(error(&mut client), ProbeError::Version(1));
}
