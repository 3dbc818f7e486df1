//! The emulated adapter of a payload-caching forwarder as elements of a path: frames of both sides
//! pass the one bus and the one processor.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use lineside_account::Budget;
use lineside_frame::{Burst, Frame};
use lineside_link::{Departure, DropReason, Dropped, Effects, Output};
use lineside_payload::{Adapter, AdapterCounters, CacheCounters, Done, Parameters};
use lineside_time::Nanoseconds;

use crate::element::{Element, arrival_ns};

/// A link's header, which the adapter does not cache.
const ETHERNET_LEN: usize = 14;

/// A frame on its way, the side by which it came, and whether it was copied out of its port.
type Passing = (usize, Departure<Frame>, bool);

#[derive(Debug)]
struct Shared {
    adapter: Adapter<Passing>,
    done: Vec<Done<Passing>>,
    /// By side: what left or was dropped, and was not yet asked for.
    ready: [VecDeque<Done<Departure<Frame>>>; 2],
}

/// The adapter of a path between two sides: it gives each its element.
#[derive(Debug, Clone)]
pub struct Forwarder {
    shared: Rc<RefCell<Shared>>,
}

/// The adapter as frames of one side see it.
#[derive(Debug)]
struct ForwarderSide {
    forwarder: Forwarder,
    side: usize,
}

impl Forwarder {
    /// An adapter at rest; `None` if the budget has no room for it.
    pub fn new(parameters: Parameters, budget: &Budget) -> Option<Self> {
        let shared = Shared {
            adapter: Adapter::new(parameters, budget)?,
            done: Vec::new(),
            ready: Default::default(),
        };
        Some(Self {
            shared: Rc::new(RefCell::new(shared)),
        })
    }

    /// The element for the frames of a side, 0 or 1: [`add_element`](crate::Path::add_element).
    pub fn element(&self, side: usize) -> Box<dyn Element> {
        assert!(side < 2, "an adapter is between two sides");
        Box::new(ForwarderSide {
            forwarder: self.clone(),
            side,
        })
    }

    /// What the adapter counted, and its cache.
    pub fn counters(&self) -> (AdapterCounters, CacheCounters) {
        let shared = self.shared.borrow();
        (shared.adapter.counters(), shared.adapter.cache_counters())
    }
}

impl Shared {
    fn push(&mut self, side: usize, departure: Departure<Frame>) {
        let bytes = departure.item.bytes().len().saturating_sub(ETHERNET_LEN) as u32;
        let at = departure.at_ns;
        { &mut self.adapter }.push(at, (side, departure, false), bytes, &mut self.done);
        self.sort_out();
    }

    fn on_timer(&mut self, now: Nanoseconds) {
        self.adapter.on_timer(now, &mut self.done);
        self.sort_out();
    }

    fn sort_out(&mut self) {
        for done in self.done.drain(..) {
            let (side, item, _) = done.item;
            self.ready[side].push_back(Done {
                at_ns: done.at_ns,
                entered_ns: done.entered_ns,
                dropped: done.dropped,
                item,
            });
        }
    }
}

impl Element for ForwarderSide {
    fn begin(&mut self, now: Nanoseconds) {
        self.forwarder.shared.borrow_mut().adapter.begin(now);
    }

    fn on_burst(&mut self, now: Nanoseconds, burst: &mut Burst, out: &mut Effects<Frame>) {
        {
            let mut shared = self.forwarder.shared.borrow_mut();
            for frame in burst.drain(..) {
                let at_ns = arrival_ns(&frame, now);
                let departure = Departure {
                    at_ns,
                    entered_ns: at_ns,
                    delay_ns: 0,
                    due_ns: at_ns,
                    class: 0,
                    changes: 0,
                    item: frame,
                };
                shared.push(self.side, departure);
            }
        }
        self.on_timer(now, out);
    }

    fn on_departures(&mut self, from: &mut Vec<Departure<Frame>>, _: &mut Effects<Frame>) {
        let mut shared = self.forwarder.shared.borrow_mut();
        for departure in from.drain(..) {
            shared.push(self.side, departure);
        }
    }

    fn on_timer(&mut self, now: Nanoseconds, out: &mut Effects<Frame>) {
        let mut shared = self.forwarder.shared.borrow_mut();
        shared.on_timer(now);
        while let Some(done) = shared.ready[self.side].pop_front() {
            let Done {
                at_ns,
                dropped,
                item,
                ..
            } = done;
            match dropped {
                None => out.departs(Departure { at_ns, ..item }),
                // A link's nearest words: the queue is full, or the payload has no memory.
                Some(reason) => out.drops(Dropped {
                    at_ns,
                    reason: match reason {
                        lineside_payload::DropReason::Missed => DropReason::Memory,
                        _ => DropReason::Limit,
                    },
                    item: item.item,
                }),
            }
        }
    }

    fn next_deadline(&self) -> Option<Nanoseconds> {
        let shared = self.forwarder.shared.borrow();
        let ready = shared.ready[self.side].front().map(|done| done.at_ns);
        ready.or_else(|| shared.adapter.next_deadline())
    }

    fn held(&self) -> usize {
        let shared = self.forwarder.shared.borrow();
        // Each frame inside is counted once, by the first side.
        let inside = if self.side == 0 {
            shared.adapter.held()
        } else {
            0
        };
        inside + shared.ready[self.side].len()
    }

    fn spill(&mut self, bytes_max: usize) {
        let mut shared = self.forwarder.shared.borrow_mut();
        let mut bytes = 0;
        for (_, departure, is_copied) in shared.adapter.items_mut() {
            if bytes >= bytes_max {
                return;
            }
            if std::mem::replace(is_copied, true) {
                continue;
            }
            bytes += departure.item.bytes().len();
            departure.item = Frame::copied(departure.item.bytes(), *departure.item.descriptor());
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::Descriptor;
    use lineside_link::Settings;
    use lineside_payload::Mode;

    use super::*;
    use crate::{Departures, Direction, Path, SideId};

    fn path(mode: Mode, budget: &Budget) -> (Path, Forwarder) {
        let settings = [Settings::default(), Settings::default()];
        let mut path = Path::new(settings, 1, 1 << 20, budget).expect("it fits");
        let forwarder = Forwarder::new(Parameters::new(mode, 1 << 20), budget);
        let forwarder = forwarder.expect("it fits");
        for (direction, side) in Direction::BOTH.into_iter().zip(0..) {
            path.add_element(direction, forwarder.element(side));
        }
        path.begin(0);
        (path, forwarder)
    }

    #[test]
    fn frames_of_both_sides_share_the_adapter() {
        let budget = Budget::new(64 << 20);
        let (mut path, forwarder) = path(Mode::Pcache, &budget);
        let mut out = Departures::default();
        for direction in Direction::BOTH {
            let frame = Frame::copied(&[7; 1514], Descriptor::default());
            path.on_burst(0, direction, &mut Burst::from_iter([frame]), &mut out);
        }
        while let Some(next) = path.next_deadline() {
            path.on_timer(next, &mut out);
        }
        let left = Direction::BOTH.map(|direction| out[SideId::from(direction).index()].len());
        assert_eq!((left, path.held()), ([1, 1], 0));
        let (counters, _) = forwarder.counters();
        assert_eq!(
            (counters.left, counters.hits, counters.bus_bytes()),
            (2, 2, 3000)
        );
    }
}
