//! A path between more than two ports: chains in and out, and a switch in the middle.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_link::{Departure, Settings, words};
use lineside_measure::monitor::{Bin, FlowFacts, Label, Report, Window};
use lineside_path::{Departures, Path, PathMonitors, SideId, Switch, VIRTUAL};
use lineside_run::{Measuring, PartRotation};
use lineside_store::RunFolder;
use lineside_time::Random;

const MS: i64 = 1_000_000;
const MEMORY: usize = 32 << 20;

fn settings(delay: &str, rate: Option<&str>, loss: &str) -> Settings {
    Settings {
        delay: words::delay(delay, &mut words::no_files).expect("a delay"),
        rate: rate.map(|rate| words::rate(rate).expect("a rate")),
        loss: words::loss(loss).expect("a loss"),
        ..Settings::default()
    }
}

fn path(ports: usize, settings: Vec<Settings>) -> Path {
    let budget = Budget::new(2 * MEMORY);
    let switch = Switch::new(ports, Switch::AGE_NS, 64, &budget).expect("memory");
    let names = (0..ports).map(|port| format!("p{port}")).collect();
    let path = Path::star(Box::new(switch), names, settings, 5, MEMORY, &budget);
    let mut path = path.expect("memory");
    path.begin(0);
    path
}

/// A frame of 1,000 bytes from one host to another, or to all with 0xff; a host's address is its
/// number.
fn frame(at_ns: i64, ordinal: u64, from: u8, to: u8) -> Frame {
    let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
    if to == 0xff {
        bytes[..6].fill(0xff);
    }
    bytes.resize(1000, ordinal as u8);
    let descriptor = Descriptor {
        stamp_ns: Some(at_ns),
        wire_len: 1000,
        link_type: LinkType::ETHERNET,
        ordinal,
        ..Descriptor::default()
    };
    Frame::copied(&bytes, descriptor)
}

fn give(path: &mut Path, out: &mut Departures, port: usize, frame: Frame) {
    let now = frame.descriptor().stamp_ns.expect("it has one");
    let mut burst = Burst::new();
    burst.push(frame);
    path.on_burst(now, SideId::new(port), &mut burst, out);
}

/// What has left: port, instant and number, in the order of the ports.
fn left(path: &Path, out: &mut Departures) -> Vec<(usize, i64, u64)> {
    let mut left = Vec::new();
    for side in path.sides() {
        // What waits for the core goes there with the next call.
        let Some(port) = path.exit(side) else {
            continue;
        };
        let departures = out[side.index()].drain(..);
        let seen = departures.map(|departure: Departure<Frame>| {
            let ordinal = departure.item.descriptor().ordinal;
            (port.index(), departure.at_ns, ordinal)
        });
        left.extend(seen);
    }
    left
}

fn run_until(path: &mut Path, out: &mut Departures, now: i64) {
    while let Some(deadline) = path.next_deadline().filter(|&deadline| deadline <= now) {
        path.on_timer(deadline, out);
    }
    path.on_timer(now, out);
}

#[test]
fn a_frame_meets_the_chain_of_each_of_its_two_ports() {
    let none = || settings("0", None, "none");
    // 1,000 bytes take 1 ms at 8 Mb/s.
    let all = vec![
        settings("5ms", None, "none"),
        none(),
        none(),
        none(),
        settings("2ms", Some("8mbit"), "none"),
        settings("0", Some("8mbit"), "none"),
    ];
    let mut path = path(3, all);
    let mut out = Departures::default();
    give(&mut path, &mut out, 1, frame(0, 1, 11, 10));
    run_until(&mut path, &mut out, 10 * MS);
    // Unknown: to both others.
    assert_eq!(left(&path, &mut out), [(0, 0, 1), (2, MS, 1)]);
    give(&mut path, &mut out, 0, frame(20 * MS, 2, 10, 11));
    give(&mut path, &mut out, 2, frame(25 * MS, 3, 12, 11));
    run_until(&mut path, &mut out, 60 * MS);
    // Both are at the core at 25 ms, and wait for port 1 by their numbers.
    assert_eq!(left(&path, &mut out), [(1, 28 * MS, 2), (1, 29 * MS, 3)]);
    let certificate = path.certificate(VIRTUAL);
    let names: Vec<_> = certificate.in_order().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["p0 in", "p1 in", "p2 in", "p0 out", "p1 out", "p2 out"]
    );
    let realised = |name: &str| {
        let realised = certificate.directions[name].delays.realised.as_ref();
        realised.map(|times| (times.count, times.max_ns))
    };
    assert_eq!(
        realised("p0 in"),
        Some((1, 5 * MS)),
        "each chain has its own account"
    );
    // What left is reported by who sent it, and nobody did.
    assert_eq!(realised("p1 out"), None);
    let core = certificate.core.as_ref().expect("a switch counts");
    assert_eq!(
        (core.came, core.forwarded, core.flooded, core.copies),
        (3, 2, 1, 1)
    );
    assert_eq!(core.ports[1].name, "p1");
}

#[test]
fn flooded_frames_are_copied_only_where_one_is_changed() {
    let mut all = vec![settings("1ms", None, "none"); 6];
    all[5].corrupt = words::chance("corrupt", "100%").expect("a share");
    let mut path = path(3, all);
    let mut out = Departures::default();
    let given = frame(0, 1, 10, 0xff);
    let (place, bytes) = (given.bytes().as_ptr(), given.bytes().to_vec());
    give(&mut path, &mut out, 0, given);
    run_until(&mut path, &mut out, 5 * MS);
    let [to_one, to_two] = [4, 5].map(|side: usize| &out[side][0].item);
    assert_eq!(
        (to_one.bytes().as_ptr(), to_one.bytes()),
        (place, &bytes[..])
    );
    let differing = { to_two.bytes().iter().zip(&bytes) }.map(|(one, other)| one ^ other);
    assert_eq!(differing.map(u8::count_ones).sum::<u32>(), 1);
}

/// Random frames between ports with random delays, rates and losses: each is accounted for at each
/// chain and at the core, none comes back to its own port, and the calls of the driver, few or
/// many, change nothing.
#[test]
fn frames_are_conserved_at_each_port_however_it_is_driven() {
    for seed in 0..30 {
        let run = |step_ns: i64| {
            let mut random = Random::new(seed);
            let mut below = |bound: u64| random.below(bound);
            let ports = 3 + below(6) as usize;
            let mut all = Vec::new();
            for _ in 0..2 * ports {
                let delay = format!("{}us {}us", 100 + below(3000), below(100));
                let rate = format!("{}mbit", 20 + below(200));
                let loss = ["none", "3%", "every 7"][below(3) as usize];
                all.push(settings(&delay, (below(2) == 0).then_some(&rate), loss));
            }
            let mut path = path(ports, all);
            let mut out = Departures::default();
            let (mut now, mut next_call, mut seen) = (0, step_ns, Vec::new());
            let mut came = vec![0; ports];
            for ordinal in 1..=2_000 {
                now += below(100_000) as i64;
                while next_call <= now {
                    path.on_timer(next_call, &mut out);
                    next_call += step_ns;
                }
                // A host has its home port, but for one that moves.
                let host = below(12) as u8;
                let port = match host {
                    0 => below(ports as u64) as usize,
                    _ => usize::from(host) % ports,
                };
                let to = match below(10) {
                    0 => 0xff,
                    _ => below(12) as u8,
                };
                came[port] += 1;
                give(&mut path, &mut out, port, frame(now, ordinal, host, to));
                for (exit, at_ns, number) in left(&path, &mut out) {
                    seen.push((at_ns, number, exit));
                }
            }
            run_until(&mut path, &mut out, now + 10_000 * MS);
            let last = left(&path, &mut out);
            seen.extend(
                last.into_iter()
                    .map(|(exit, at_ns, number)| (at_ns, number, exit)),
            );
            seen.sort_unstable();
            conserved(&path, &came, &seen);
            seen
        };
        let often = run(50_000);
        assert!(often.len() > 1_000, "seed {seed}: {}", often.len());
        let seldom = run(3_000_000);
        let differs = often
            .iter()
            .zip(&seldom)
            .position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!(
                "seed {seed}, {at}: {:?} {:?}",
                &often[at..at + 3],
                &seldom[at..at + 3]
            );
        }
        assert_eq!(seldom.len(), often.len(), "seed {seed}");
    }
}

fn conserved(path: &Path, came: &[u64], seen: &[(i64, u64, usize)]) {
    let certificate = path.certificate(VIRTUAL);
    let core = certificate.core.as_ref().expect("a switch counts");
    let (mut to_core, mut from_core) = (0, 0);
    for (port, count) in came.iter().enumerate() {
        let inward = &certificate.directions[&format!("p{port} in")];
        let outward = &certificate.directions[&format!("p{port} out")];
        for report in [inward, outward] {
            assert!(
                report.counters.is_whole(report.held as usize),
                "{:?}",
                report.counters
            );
            assert_eq!(report.held, 0);
        }
        assert_eq!(inward.counters.entered, *count);
        assert_eq!(inward.counters.released, core.ports[port].came);
        assert_eq!(outward.counters.entered, core.ports[port].left);
        let left = seen.iter().filter(|(_, _, exit)| *exit == port).count();
        assert_eq!(outward.counters.released, left as u64);
        to_core += core.ports[port].came;
        from_core += core.ports[port].left;
    }
    assert_eq!(core.came, to_core);
    let dropped: u64 = core.dropped.values().sum();
    assert_eq!(to_core + core.copies, from_core + dropped);
    // Nothing twice at one port.
    let mut once: Vec<_> = { seen.iter() }
        .map(|(_, number, exit)| (number, exit))
        .collect();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), seen.len());
}

/// Frames by port, point and length.
#[derive(Default)]
struct Sizes(BTreeMap<(String, &'static str, u64), u64>);

impl Report for Sizes {
    fn bin(&mut self, label: Label<'_>, bin: Bin) {
        assert_eq!(bin.metric, "packet_bytes");
        let (port, point) = (label.place.port.clone(), label.place.point.name());
        *self.0.entry((port, point, bin.from)).or_default() += bin.count;
    }

    fn window(&mut self, _: Label<'_>, _: Window) {}

    fn flow(&mut self, _: Label<'_>, _: &FlowFacts) {}
}

impl Sizes {
    /// Frames of a length where port and point are such.
    fn count(&self, len: u32, is_there: impl Fn(&str, &str) -> bool) -> u64 {
        let bins = self.0.iter();
        bins.filter(|((port, point, from), _)| *from == u64::from(len) && is_there(port, point))
            .map(|(_, count)| count)
            .sum()
    }
}

/// Monitors of the lengths of all frames, and what shows them to these.
fn measured(path: &Path, ports: usize) -> (Rc<RefCell<Measuring>>, PathMonitors) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = RunFolder::create(folder.path(), None).expect("it is empty");
    let asked = ["size", "size at *.dropped"].map(|words| words.parse().expect("words"));
    let budget = Budget::new(64 << 20);
    let measuring = Measuring::new(&asked, &folder, "star", &PartRotation::FILES, &budget);
    let measuring = Rc::new(RefCell::new(measuring));
    let names: Vec<_> = (0..ports).map(|port| format!("p{port}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let monitors = PathMonitors::new(&measuring, path, &names).expect("memory");
    (measuring, monitors)
}

/// Frames that come by a port have this length, by which they are known anywhere.
fn len_of(port: usize) -> u32 {
    1000 + 10 * port as u32
}

/// Of the frames that came by a port, monitors find each where it left or where it was dropped,
/// those of the switch at the port by which they came.
#[test]
fn heads_are_conserved_at_each_port_by_monitors() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut below = |bound: u64| random.below(bound);
        let ports = 3 + below(6) as usize;
        let mut all = Vec::new();
        for _ in 0..2 * ports {
            let loss = ["none", "3%", "every 7"][below(3) as usize];
            all.push(settings("100us 50us", Some("50mbit"), loss));
        }
        let mut path = path(ports, all);
        let (measuring, monitors) = measured(&path, ports);
        path.add_observer(Box::new(monitors));
        let mut out = Departures::default();
        let (mut now, mut came, mut left_at) = (0, vec![0; ports], vec![0; ports]);
        let mut turn = |path: &mut Path, now: i64, out: &mut Departures| {
            path.on_timer(now, out);
            path.observe(now, out);
            let left = left(path, out);
            left.iter().for_each(|(exit, ..)| left_at[*exit] += 1);
        };
        for ordinal in 1..=3_000 {
            now += below(100_000) as i64;
            let [from, to] = [below(24) as u8, below(24) as u8];
            let port = usize::from(from) % ports;
            came[port] += 1;
            let mut frame = frame(now, ordinal, from, to);
            if below(20) == 0 {
                // Reserved for the link's two ends.
                frame.bytes_mut()[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
            }
            frame.descriptor_mut().wire_len = len_of(port);
            give(&mut path, &mut out, port, frame);
            turn(&mut path, now, &mut out);
        }
        while let Some(deadline) = path.next_deadline() {
            turn(&mut path, deadline, &mut out);
        }
        let mut sizes = Sizes::default();
        measuring.borrow().monitors().report(&mut sizes);
        heads_are_conserved(&path, &sizes, &came, &left_at);
    }
}

fn heads_are_conserved(path: &Path, sizes: &Sizes, came: &[u64], left_at: &[u64]) {
    let core = path
        .certificate(VIRTUAL)
        .core
        .clone()
        .expect("a switch counts");
    let (mut copies, mut dropped) = (0, 0);
    for (port, &came) in came.iter().enumerate() {
        let (name, len) = (format!("p{port}"), len_of(port));
        let own = |wanted: &str| sizes.count(len, |at, point| at == name && point == wanted);
        let all = |wanted: &str| sizes.count(len, |_, point| point.starts_with(wanted));
        assert_eq!((own("came"), own("left")), (came, 0), "{name}");
        copies += all("left") + all("dropped") - came;
        // Before the switch and by it, a frame is dropped at its own port.
        let by_switch = own("dropped_switch");
        assert!(by_switch > 0, "{name}: {core:?}");
        assert_eq!(by_switch, all("dropped_switch"), "{name}");
        let before = own("dropped_loss") + own("dropped_limit");
        assert_eq!(came - before, core.ports[port].came, "{name}");
        dropped += by_switch;
        let lengths = (0..left_at.len()).map(len_of);
        let left = lengths.map(|len| sizes.count(len, |at, point| at == name && point == "left"));
        assert_eq!(left.sum::<u64>(), left_at[port], "{name}");
    }
    let by_reason: u64 = core.dropped.values().sum();
    assert_eq!((copies, dropped), (core.copies, by_reason));
}
