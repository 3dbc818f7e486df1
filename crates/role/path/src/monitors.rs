use std::cell::RefCell;
use std::rc::Rc;

use lineside_frame::Frame;
use lineside_link::{Departure, DropReason, Dropped};
use lineside_measure::monitor::{MonitorError, Place, Point};
use lineside_run::{Measuring, MonitorSwitch};
use lineside_time::Nanoseconds;

use crate::element::arrival_ns;
use crate::{CoreDrop, Observer, Path, SideId};

/// Monitors of a path in virtual time: where frames come, where they leave, and where they came
/// that were dropped.
pub struct PathMonitors {
    measuring: Rc<RefCell<Measuring>>,
    /// The places of each port, by the order of [`Point::ALL`].
    places: Vec<[u16; Point::ALL.len()]>,
    /// For each side its port, and the one by which its frames leave.
    ports: Vec<(usize, Option<usize>)>,
}

impl PathMonitors {
    /// Monitors of a path whose ports have these names.
    pub fn new(
        measuring: &Rc<RefCell<Measuring>>,
        path: &Path,
        ports: &[&str],
    ) -> Result<Self, MonitorError> {
        let places = ports.iter().map(|port| {
            let mut places = [0; Point::ALL.len()];
            for (number, point) in places.iter_mut().zip(Point::ALL) {
                let port = (*port).to_owned();
                *number = measuring.borrow_mut().place(&Place { port, point })?;
            }
            Ok(places)
        });
        Ok(Self {
            measuring: Rc::clone(measuring),
            places: places.collect::<Result<_, MonitorError>>()?,
            ports: { path.sides() }
                .map(|side| (path.port(side), path.exit(side).map(SideId::index)))
                .collect(),
        })
    }

    fn on_frame(&self, port: usize, point: Point, time_ns: Nanoseconds, frame: &Frame) {
        let place = self.places[port][point as usize];
        let mut measuring = self.measuring.borrow_mut();
        measuring.on_frame_at(place, Some(time_ns), frame);
    }
}

/// The point of frames that were dropped for a reason.
pub(crate) fn point_of(reason: DropReason) -> Point {
    match reason {
        DropReason::Loss => Point::DroppedLoss,
        DropReason::Down => Point::DroppedDown,
        DropReason::Limit => Point::DroppedLimit,
        DropReason::Rate => Point::DroppedRate,
        DropReason::Memory => Point::DroppedMemory,
    }
}

impl Observer for PathMonitors {
    fn on_arrivals(&mut self, now: Nanoseconds, side: SideId, frames: &[Frame]) {
        for frame in frames {
            self.on_frame(side.index(), Point::Came, arrival_ns(frame, now), frame);
        }
    }

    fn on_departures(&mut self, _: Nanoseconds, side: SideId, departures: &[Departure<Frame>]) {
        // What goes to a core has not left.
        let (_, Some(exit)) = self.ports[side.index()] else {
            return;
        };
        for departure in departures {
            self.on_frame(exit, Point::Left, departure.at_ns, &departure.item);
        }
    }

    fn on_drops(&mut self, side: SideId, drops: &[Dropped<Frame>]) {
        let (port, _) = self.ports[side.index()];
        for dropped in drops {
            self.on_frame(port, point_of(dropped.reason), dropped.at_ns, &dropped.item);
        }
    }

    fn on_core_drops(&mut self, drops: &[CoreDrop]) {
        for dropped in drops {
            let (port, at_ns) = (dropped.port, dropped.at_ns);
            self.on_frame(port, Point::DroppedSwitch, at_ns, &dropped.item);
        }
    }

    fn on_turn(&mut self, _: Nanoseconds) {}

    fn on_switch(&mut self, now: Nanoseconds, monitor: usize, is_on: bool) {
        self.measuring.borrow_mut().switch(MonitorSwitch {
            monitor,
            at_ns: now,
            is_on,
        });
    }
}
