use lineside_frame::{Burst, Frame};
use lineside_link::Departure;
use lineside_time::{Nanoseconds, VirtualClock};

use crate::{Certificate, Departures, Direction, Leaving, Path, Sides, VIRTUAL};

/// A path in virtual time: frames of a capture in, in the order of their stamps, and the frames that the path lets
/// through out, in order of the instants at which they leave, which become their stamps.
///
/// A stamp that lies before an earlier one, or is missing, counts as that earlier one.
#[derive(Debug)]
pub struct Virtual {
    path: Path,
    sides: Sides,
    clock: VirtualClock,
    has_begun: bool,
    /// One frame, on its way into the path.
    next: Burst,
    out: Departures,
}

impl Virtual {
    /// Nothing has come yet.
    pub fn new(path: Path, sides: Sides) -> Self {
        Self {
            path,
            sides,
            clock: VirtualClock::new(),
            has_begun: false,
            next: Burst::new(),
            out: Departures::default(),
        }
    }

    /// Takes all of `burst`, and appends what has left by its last frame to `left`.
    pub fn on_burst(&mut self, burst: &mut Burst, left: &mut Burst) {
        let mut now = None;
        for mut frame in burst.drain(..) {
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
            let direction = self.sides.direction(&frame);
            self.next.push(frame);
            self.path
                .on_burst(at_ns, direction, &mut self.next, &mut self.out);
            now = Some(at_ns);
        }
        if let Some(now) = now {
            self.path.on_timer(now, &mut self.out);
            self.merge(left);
        }
    }

    /// No more come: what is under way leaves. Some at a time; false when all have.
    pub fn drain(&mut self, left: &mut Burst) -> bool {
        const SOME: usize = 256;
        let before = left.len();
        while let Some(deadline_ns) = self.path.next_deadline()
            && left.len() < before + SOME
        {
            self.path.on_timer(deadline_ns, &mut self.out);
            self.merge(left);
        }
        self.path.next_deadline().is_some()
    }

    /// Both directions are at the same time, so all that leaves later leaves behind these.
    fn merge(&mut self, left: &mut Burst) {
        let [outbound, inbound] = &mut self.out;
        let (mut first, mut second) = (outbound.drain(..).peekable(), inbound.drain(..).peekable());
        let key =
            |departure: &Departure<Frame>| (departure.at_ns, departure.item.descriptor().ordinal);
        loop {
            let is_first = match (first.peek(), second.peek()) {
                (None, None) => return,
                (Some(one), Some(other)) => key(one) <= key(other),
                (one, _) => one.is_some(),
            };
            let (direction, departure) = if is_first {
                (Direction::Outbound, first.next())
            } else {
                (Direction::Inbound, second.next())
            };
            let Some(mut departure) = departure else {
                return;
            };
            let leaving = Leaving::from(&departure);
            self.path.on_sent(direction, &leaving, leaving.at_ns);
            departure.item.descriptor_mut().stamp_ns = Some(departure.at_ns);
            left.push(departure.item);
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path's certificate, with what is known of the sides besides.
    pub fn certificate(&self) -> Certificate {
        let mut certificate = self.path.certificate(VIRTUAL);
        let outbound = certificate.directions.get_mut(Direction::Outbound.name());
        if let Some(outbound) = outbound
            && self.sides.is_inside_unseen()
        {
            let warning = "inside: no frame came from the network that was named";
            outbound.warnings.push(warning.to_owned());
        }
        certificate
    }

    /// Who is on which side.
    pub fn sides(&self) -> &Sides {
        &self.sides
    }

    /// Copies frames that are under way out of the memory of the port that they came from (rule 3).
    pub fn spill(&mut self) {
        self.path.spill();
    }
}
