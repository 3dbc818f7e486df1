//! Chains of elements, and observers.

use std::cell::RefCell;
use std::rc::Rc;

use lineside_account::Budget;
use lineside_filter::Filter;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_link::{Departure, DropReason, Dropped, Link, Patch, Setting, Settings, words};
use lineside_path::{
    CoreDrop, Departures, Direction, DirectionFinder, Observer, Path, SideId, Virtual,
};
use lineside_wire::build::FrameBuilder;

const MS: i64 = 1_000_000;
const MEMORY: usize = 16 << 20;

fn settings(delay: &str, loss: &str) -> Settings {
    Settings {
        delay: words::delay(delay, &mut words::no_files).expect("a delay"),
        loss: words::loss(loss).expect("a loss"),
        ..Settings::default()
    }
}

/// A UDP datagram to a port.
fn frame(at_ns: i64, port: u16) -> Frame {
    let addresses = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let bytes = FrameBuilder::new(addresses[0], addresses[1]).udp(1, port, b"data");
    let descriptor = Descriptor {
        stamp_ns: Some(at_ns),
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ordinal: at_ns as u64,
        ..Descriptor::default()
    };
    Frame::copied(&bytes, descriptor)
}

/// Instants of departures, and drops with their instants and reasons.
#[derive(Debug, Default)]
struct Seen {
    departures: Vec<(usize, i64)>,
    drops: Vec<(usize, i64, DropReason)>,
    turns: usize,
}

struct Recorder(Rc<RefCell<Seen>>);

impl Observer for Recorder {
    fn on_arrivals(&mut self, _: i64, _: SideId, _: &[Frame]) {}

    fn on_departures(&mut self, now: i64, side: SideId, departures: &[Departure<Frame>]) {
        assert!(departures.iter().all(|departure| departure.at_ns <= now));
        let instants = departures.iter().map(|departure| departure.at_ns);
        let instants = instants.map(|at_ns| (side.index(), at_ns));
        self.0.borrow_mut().departures.extend(instants);
    }

    fn on_drops(&mut self, side: SideId, drops: &[Dropped<Frame>]) {
        let drops = drops.iter();
        let drops = drops.map(|dropped| (side.index(), dropped.at_ns, dropped.reason));
        self.0.borrow_mut().drops.extend(drops);
    }

    fn on_core_drops(&mut self, drops: &[CoreDrop]) {
        assert!(drops.is_empty(), "a wire drops nothing");
    }

    fn on_turn(&mut self, _: i64) {
        self.0.borrow_mut().turns += 1;
    }
}

/// A path whose outbound frames pass two links, of which the first loses each fourth frame and the
/// second each third.
fn two_links() -> (Path, Rc<RefCell<Seen>>) {
    let both = [settings("1ms", "every 4"), Settings::default()];
    let mut path = Path::new(both, 1, MEMORY, &Budget::new(MEMORY)).expect("memory");
    let second = Link::new(settings("2ms", "every 3"), 1, 9, MEMORY);
    path.add_element(Direction::Outbound, Box::new(second));
    let seen = Rc::<RefCell<Seen>>::default();
    path.add_observer(Box::new(Recorder(Rc::clone(&seen))));
    (path, seen)
}

#[test]
fn a_chain_of_links_adds_their_delays_and_drops() {
    let (mut path, seen) = two_links();
    let mut out = Departures::default();
    path.begin(0);
    let mut burst: Burst = (1..=8).map(|number| frame(number * MS, 9)).collect();
    path.on_burst(8 * MS, Direction::Outbound, &mut burst, &mut out);
    assert_eq!(path.next_deadline(), Some(9 * MS), "of the second link");
    while let Some(deadline) = path.next_deadline() {
        path.on_timer(deadline, &mut out);
    }
    let passed: Vec<_> = out[0]
        .iter()
        .map(|departure| (departure.entered_ns / MS, departure.at_ns / MS))
        .collect();
    // Frames 4 and 8 are lost in the first link, and 3 and 7 are the third and the sixth in the
    // second one.
    assert_eq!(passed, [(1, 4), (2, 5), (5, 8), (6, 9)]);
    assert!(out[1].is_empty());
    path.observe(20 * MS, &mut out);
    let seen = seen.borrow();
    let instants: Vec<_> = passed.iter().map(|&(_, at_ms)| (0, at_ms * MS)).collect();
    assert_eq!(seen.departures, instants);
    let mut drops = seen.drops.clone();
    drops.sort_unstable_by_key(|drop| drop.1);
    let loss = |at_ms: i64| (0, at_ms * MS, DropReason::Loss);
    assert_eq!(drops, [loss(4), loss(4), loss(8), loss(8)]);
    assert!(out.drops(Direction::Outbound).is_empty(), "seen once");
    assert_eq!((seen.turns, path.held()), (1, 0));
}

#[test]
fn virtual_time_shows_observers_what_the_counters_count() {
    let both = [settings("5ms", "every 4"), settings("1ms", "none")];
    let mut path = Path::new(both, 1, MEMORY, &Budget::new(2 * MEMORY)).expect("memory");
    let filters = vec![Filter::parse("udp port 7").expect("an expression")];
    let limited = Patch::new(Setting::ALL, settings("5ms", "every 2"));
    path.classify(
        Direction::Outbound,
        filters,
        vec![Patch::default(), limited],
    )
    .expect("memory");
    let seen = Rc::<RefCell<Seen>>::default();
    path.add_observer(Box::new(Recorder(Rc::clone(&seen))));
    let mut emulation = Virtual::new(path, DirectionFinder::new(None));
    let mut burst: Burst = (1..=20)
        .map(|number| frame(number * MS, if number % 2 == 0 { 7 } else { 9 }))
        .collect();
    let mut left = Burst::new();
    emulation.on_burst(&mut burst, &mut left);
    while emulation.drain(&mut left) {}
    let counters = emulation.path().link(Direction::Outbound).counters();
    let seen = seen.borrow();
    assert_eq!((counters.released, counters.dropped.loss), (13, 7));
    assert_eq!(seen.drops.len(), 7);
    let stamps: Vec<_> = left
        .iter()
        .filter_map(|frame| frame.descriptor().stamp_ns)
        .map(|stamp_ns| (0, stamp_ns))
        .collect();
    assert_eq!(seen.departures, stamps);
}
