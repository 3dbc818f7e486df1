//! A wire in memory between two ports, with an emulated link each way, by a virtual clock.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_link::{Departure, Link, Settings};
use lineside_port::{LivePort, PortError, Received};
use lineside_testkit::memory::{Ends, Memory};

/// Of each direction of the wire.
struct Way {
    link: Link<Frame>,
    out: Vec<Departure<Frame>>,
    arrived: VecDeque<Frame>,
    frames: u64,
}

struct Shared {
    now: i64,
    /// To the second end, and to the first.
    ways: [Way; 2],
}

/// The wire, whose clock its owner moves.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Mutex<Shared>>);

/// One of its ends.
struct WireEnd {
    wire: Wire,
    end: usize,
}

impl Wire {
    pub(crate) fn new(settings: &Settings, seed: u64) -> Self {
        let way = |stream| Way {
            link: Link::new(settings.clone(), seed, stream, 64 << 20),
            out: Vec::new(),
            arrived: VecDeque::new(),
            frames: 0,
        };
        Self(Arc::new(Mutex::new(Shared {
            now: 0,
            ways: [way(0), way(1)],
        })))
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().expect("no test panics while it holds it")
    }

    pub(crate) fn port(&self, end: usize) -> Box<dyn LivePort> {
        let wire = self.clone();
        Box::new(Memory(WireEnd { wire, end }))
    }

    /// Frames that have entered, both ways.
    pub(crate) fn frames(&self) -> u64 {
        self.shared().ways.iter().map(|way| way.frames).sum()
    }

    /// When a frame arrives next, at the second end only if somebody takes it there.
    pub(crate) fn next_arrival(&self, at_second: bool) -> Option<i64> {
        let shared = self.shared();
        let next = |way: &Way| match way.arrived.is_empty() {
            true => way.link.next_deadline(),
            false => Some(shared.now),
        };
        let ways = shared.ways.iter().skip(usize::from(!at_second));
        ways.filter_map(next).min()
    }

    /// Time passes.
    pub(crate) fn pass(&self, now: i64) {
        let mut shared = self.shared();
        shared.now = now;
        for way in &mut shared.ways {
            way.link.on_timer(now, &mut way.out);
            way.arrive();
        }
    }
}

impl Way {
    fn arrive(&mut self) {
        for departure in self.out.drain(..) {
            let mut frame = departure.item;
            frame.descriptor_mut().stamp_ns = Some(departure.at_ns);
            self.arrived.push_back(frame);
        }
    }
}

impl Ends for WireEnd {
    fn take(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let mut shared = self.wire.shared();
        let until_ns = shared.now;
        let arrived = &mut shared.ways[1 - self.end].arrived;
        let count = arrived.len().min(max);
        arrived.drain(..count).for_each(|frame| burst.push(frame));
        Ok(match count {
            0 => Received::Idle { until_ns },
            _ => Received::Frames(count),
        })
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        let mut shared = self.wire.shared();
        let now = shared.now;
        let way = &mut shared.ways[self.end];
        let count = burst.len();
        for frame in burst.drain(..) {
            let descriptor = Descriptor {
                wire_len: frame.bytes().len() as u32,
                link_type: LinkType::ETHERNET,
                ..Descriptor::default()
            };
            way.frames += 1;
            let frame = Frame::copied(frame.bytes(), descriptor);
            way.link.push(now, frame, &mut way.out);
        }
        way.arrive();
        Ok(count)
    }
}
