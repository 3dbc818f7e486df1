//! A path in virtual time, by the stamps of captured frames.

use lineside_frame::{Burst, Frame};
use lineside_link::Departure;
use lineside_time::{Nanoseconds, VirtualClock};

use crate::{Certificate, Departures, Direction, DirectionFinder, Leaving, Path, VIRTUAL};

/// A path in virtual time: it takes frames of a capture in the order of their stamps, and lets
/// frames leave in the order of the instants at which they do, which become their stamps.
///
/// A stamp that lies before an earlier one, or is missing, counts as that earlier one.
#[derive(Debug)]
pub struct Virtual {
    path: Path,
    finder: DirectionFinder,
    clock: VirtualClock,
    has_begun: bool,
    /// One frame, on its way into the path.
    next: Burst,
    out: Departures,
    /// Departures of both directions while they are merged.
    merging: [Vec<Departure<Frame>>; 2],
}

impl Virtual {
    /// A path that no frame has entered; `finder` finds the direction of each.
    pub fn new(path: Path, finder: DirectionFinder) -> Self {
        Self {
            path,
            finder,
            clock: VirtualClock::new(),
            has_begun: false,
            next: Burst::new(),
            out: Departures::default(),
            merging: Default::default(),
        }
    }

    /// Takes all of `burst`, and appends the frames that have left by its last frame to `left`.
    pub fn on_burst(&mut self, burst: &mut Burst, left: &mut Burst) {
        let mut now = None;
        for mut frame in burst.drain(..) {
            if self.path.is_over() {
                continue;
            }
            let stamp_ns = frame.descriptor().stamp_ns;
            // Until there is a stamp, time stands at the epoch.
            let at_ns = self.clock.observe(stamp_ns.unwrap_or(if self.has_begun {
                Nanoseconds::MIN
            } else {
                0
            }));
            if !std::mem::replace(&mut self.has_begun, true) {
                self.path.begin(at_ns);
            }
            frame.descriptor_mut().stamp_ns = Some(at_ns);
            if self.path.has_steps() {
                self.step_to(at_ns, left);
            }
            let direction = self.finder.direction(&frame);
            self.next.push(frame);
            self.path
                .on_burst(at_ns, direction, &mut self.next, &mut self.out);
            if self.path.watches_behind() {
                // A frame that is dropped may fire a step before the next one comes.
                self.merge(at_ns, left);
            }
            now = Some(at_ns);
        }
        if let Some(now) = now {
            self.path.on_timer(now, &mut self.out);
            self.merge(now, left);
        }
    }

    /// Goes from instant to instant up to `now`: what leaves at one may fire a step then.
    fn step_to(&mut self, now: Nanoseconds, left: &mut Burst) {
        while let Some(deadline_ns) = self.path.next_deadline()
            && deadline_ns <= now
            && !self.path.is_over()
        {
            self.path.on_timer(deadline_ns, &mut self.out);
            self.merge(deadline_ns, left);
        }
    }

    /// After the last frame: those under way leave, some at a time; false when all have left.
    pub fn drain(&mut self, left: &mut Burst) -> bool {
        const SOME: usize = 256;
        let before = left.len();
        // Steps without frames change nothing any more.
        while self.path.held() > 0
            && let Some(deadline_ns) = self.path.next_deadline()
            && left.len() < before + SOME
        {
            self.path.on_timer(deadline_ns, &mut self.out);
            self.merge(deadline_ns, left);
        }
        self.path.held() > 0
    }

    /// Both directions are at the same time, so that all frames that leave later leave after these.
    fn merge(&mut self, now: Nanoseconds, left: &mut Burst) {
        for (index, departures) in self.merging.iter_mut().enumerate() {
            std::mem::swap(departures, &mut self.out[index]);
        }
        let [outbound, inbound] = &mut self.merging;
        let (mut first, mut second) = (outbound.drain(..).peekable(), inbound.drain(..).peekable());
        let key =
            |departure: &Departure<Frame>| (departure.at_ns, departure.item.descriptor().ordinal);
        loop {
            let is_first = match (first.peek(), second.peek()) {
                (None, None) => break,
                (Some(one), Some(other)) => key(one) <= key(other),
                (one, _) => one.is_some(),
            };
            let (direction, departure) = if is_first {
                (Direction::Outbound, first.next())
            } else {
                (Direction::Inbound, second.next())
            };
            let Some(mut departure) = departure else {
                break;
            };
            let leaving = Leaving::from(&departure);
            self.path.on_sent(direction, &leaving, leaving.at_ns);
            departure.item.descriptor_mut().stamp_ns = Some(departure.at_ns);
            self.path
                .observe_one(direction.into(), &departure, &mut self.out);
            left.push(departure.item);
        }
        self.path.observe_drops(now, &mut self.out);
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path, to add elements and observers.
    pub fn path_mut(&mut self) -> &mut Path {
        &mut self.path
    }

    /// The path's certificate, with a warning if no frame came from the inside that was named.
    pub fn certificate(&self) -> Certificate {
        let mut certificate = self.path.certificate(VIRTUAL);
        let outbound = certificate.directions.get_mut(Direction::Outbound.name());
        if let Some(outbound) = outbound
            && self.finder.is_inside_unseen()
        {
            let warning = "inside: no frame came from the network that was named";
            outbound.warnings.push(warning.to_owned());
        }
        certificate
    }

    /// What found the directions.
    pub fn finder(&self) -> &DirectionFinder {
        &self.finder
    }

    /// Copies frames under way out of the memory of the port that received them, which is short of
    /// it.
    pub fn spill(&mut self) {
        self.path.spill();
    }
}
