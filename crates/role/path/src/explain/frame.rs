//! The way of one frame of a capture through the link.

use lineside_frame::{Burst, Frame};
use lineside_link::{Departure, Drops, Link};
use lineside_port::{PortError, Receive};
use lineside_run::{Consumer, Moment, Step, receive_all};
use lineside_time::{Clock, VirtualClock};
use lineside_words::{grouped, time};

use super::account::{Explained, Part};
use super::settings::is_scheduled;
use crate::{Departures, Direction, DirectionFinder, Inside, Path};

/// Why there is no account of a frame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The capture cannot be read that far.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The capture has fewer frames.
    #[error("there is no frame {number}: the capture has {}", grouped(*count))]
    NoFrame {
        /// The number of the frame, from 1 on.
        number: u64,
        /// How many there are.
        count: u64,
    },
}

/// The account of one frame of a capture, counted from 1.
pub fn of_frame(
    port: &mut impl Receive,
    path: Path,
    inside: Option<Inside>,
    number: u64,
) -> Result<Explained, ExplainError> {
    let mut search = Search {
        path,
        finder: DirectionFinder::new(inside),
        clock: VirtualClock::new(),
        next: Burst::new(),
        out: Departures::default(),
        number,
        count: 0,
        begun_ns: 0,
        wanted: None,
        explained: None,
    };
    let errors = receive_all(port, &mut search, u64::MAX, |_, _, moment| match moment {
        Moment::Failure => Step::Stop,
        Moment::Burst | Moment::Last => Step::Continue,
    });
    match (search.explained.take(), errors.into_iter().next()) {
        (Some(explained), _) => Ok(explained),
        (None, Some(error)) => Err(error.into()),
        (None, None) => search.end(),
    }
}

/// Passes frames through a path until one of them has left or been dropped.
struct Search {
    path: Path,
    finder: DirectionFinder,
    clock: VirtualClock,
    next: Burst,
    out: Departures,
    /// The frame's number, counted from 1.
    number: u64,
    count: u64,
    begun_ns: i64,
    wanted: Option<Found>,
    explained: Option<Explained>,
}

impl Consumer for Search {
    fn on_burst(&mut self, burst: &mut Burst) -> Step {
        for frame in burst.drain(..) {
            self.on_frame(frame);
            if let Some(found) = &self.wanted {
                self.explained = left(&self.path, found, &self.out);
            }
            if self.explained.is_some() {
                return Step::Stop;
            }
        }
        Step::Continue
    }

    fn on_pool_empty(&mut self) -> Step {
        self.path.spill();
        Step::Continue
    }
}

impl Search {
    fn on_frame(&mut self, mut frame: Frame) {
        self.count += 1;
        // As for the path in virtual time: until there is a stamp, time stands at the epoch.
        let unstamped_ns = if self.count == 1 { 0 } else { self.clock.now() };
        let stamp_ns = frame.descriptor().stamp_ns.unwrap_or(unstamped_ns);
        let at_ns = self.clock.observe(stamp_ns);
        let path = &mut self.path;
        if self.count == 1 {
            self.begun_ns = at_ns;
            path.begin(at_ns);
        }
        frame.descriptor_mut().stamp_ns = Some(at_ns);
        let direction = self.finder.direction(&frame);
        let ordinal = frame.descriptor().ordinal;
        let len = frame.descriptor().wire_len;
        // Departures due by then come first.
        path.on_timer(at_ns, &mut self.out);
        if self.wanted.is_none() {
            self.out = Departures::default();
        }
        let link = path.link(direction);
        let before = link.counters().dropped;
        let held = (link.held(), link.held_bytes());
        self.next.push(frame);
        path.on_burst(at_ns, direction, &mut self.next, &mut self.out);
        if self.count == self.number {
            self.wanted = Some(Found {
                direction,
                ordinal,
                since_ns: at_ns.saturating_sub(self.begun_ns),
                len,
                // Now: a later drop concerns another frame.
                dropped: dropped(before, path.link(direction).counters().dropped),
                held,
            });
        }
    }

    /// The account of the frame after the last frame of the capture.
    fn end(mut self) -> Result<Explained, ExplainError> {
        let Some(found) = self.wanted else {
            return Err(ExplainError::NoFrame {
                number: self.number,
                count: self.count,
            });
        };
        while let Some(deadline) = self.path.next_deadline() {
            self.path.on_timer(deadline, &mut self.out);
            if let Some(explained) = left(&self.path, &found, &self.out) {
                return Ok(explained);
            }
        }
        let left = left(&self.path, &found, &self.out);
        Ok(left.expect("a frame that enters leaves, or is dropped"))
    }
}

/// The frame that was searched for, on arrival.
struct Found {
    direction: Direction,
    ordinal: u64,
    /// Time since the link's start.
    since_ns: i64,
    len: u32,
    /// The reason of its drop, if it was dropped.
    dropped: Option<&'static str>,
    /// Frames and bytes that were under way.
    held: (usize, u64),
}

/// The reason of a drop between two readings of the counters.
fn dropped(before: Drops, now: Drops) -> Option<&'static str> {
    let reasons = [
        ("lost by the loss model", now.loss - before.loss),
        ("dropped: the link was down", now.down - before.down),
        ("dropped: more than the limit", now.limit - before.limit),
        ("dropped: no memory was left", now.memory - before.memory),
    ];
    let reason = reasons.iter().find(|(_, count)| *count > 0);
    reason.map(|(reason, _)| *reason)
}

/// The account of the frame, once it is known.
fn left(path: &Path, found: &Found, out: &Departures) -> Option<Explained> {
    let &Found {
        direction,
        ordinal,
        since_ns,
        len,
        dropped,
        held,
    } = found;
    let link = path.link(direction);
    let mut remarks = vec![format!(
        "it has {} bytes and came {} after the first frame; {} frames, {} bytes were under way",
        grouped(len.into()),
        time(since_ns.max(0) as u64),
        grouped(held.0 as u64),
        grouped(held.1)
    )];
    let mut departures = out[direction as usize].iter();
    let departure = departures.find(|departure| departure.item.descriptor().ordinal == ordinal);
    let Some(departure) = departure else {
        remarks.push(dropped?.to_owned());
        return Some(Explained {
            direction: direction.name(),
            parts: Vec::new(),
            remarks,
        });
    };
    remarks.push(format!(
        "it left {} later",
        time((departure.at_ns - departure.entered_ns) as u64)
    ));
    Some(Explained {
        direction: direction.name(),
        parts: parts(link, departure, len),
        remarks,
    })
}

/// The parts of a departed frame's delay.
fn parts(link: &Link<Frame>, departure: &Departure<Frame>, len: u32) -> Vec<Part> {
    let settings = link.classes()[usize::from(departure.class)].settings();
    let exact = |part, ns: i64, because| Part {
        part,
        mean_ns: ns as f64,
        least_ns: ns as f64,
        most_ns: Some(ns as f64),
        because,
    };
    let order_ns = departure.due_ns - departure.entered_ns - departure.delay_ns;
    let rate_ns = departure.at_ns - departure.due_ns;
    let mut parts = vec![
        exact(
            "delay",
            departure.delay_ns,
            format!("drawn from {}", settings.delay),
        ),
        exact(
            "order",
            order_ns,
            "after a frame that came earlier".to_owned(),
        ),
    ];
    match link
        .settings()
        .rate
        .filter(|_| !is_scheduled(link.settings()))
    {
        Some(rate) => {
            let bits = (u64::from(len) + u64::from(rate.overhead_bytes)) * 8;
            let service_ns =
                ((bits as f64 * 1e9 / rate.bits_per_second as f64).ceil() as i64).min(rate_ns);
            parts.push(exact(
                "queue",
                rate_ns - service_ns,
                "after the bytes of the frames before it".to_owned(),
            ));
            parts.push(exact(
                "rate",
                service_ns,
                format!("its own {bits} bits at {rate}"),
            ));
        }
        None => parts.push(exact(
            "rate",
            rate_ns,
            "until its bytes were delivered, after those of others".to_owned(),
        )),
    }
    parts
}
