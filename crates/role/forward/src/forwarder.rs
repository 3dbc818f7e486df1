//! The engine of the polling loop: frames to the translation and back to the ports.

use lineside_balancer::{Effects, Nat};
use lineside_frame::{Burst, Frame};
use lineside_measure::Times;
use lineside_reactor::{Account, Engine, Sides, Tap, TapCounts, Tapped};
use lineside_time::Nanoseconds;
use slab::Slab;

use crate::course::Course;
use crate::driver::Driver;
use crate::payloads::{Departure, Payloads};

/// Bytes that may be copied out of a port's memory at once: some microseconds' work.
const SPILL_BYTES: usize = 64 << 10;

/// A translation between live ports.
pub struct Forwarder {
    nat: Nat,
    effects: Effects,
    /// Frames that leave in this turn.
    leaving: Vec<Departure>,
    /// In place of that, if payloads are to stay.
    payloads: Option<Payloads>,
    /// Where the frames came from that are translated.
    side: usize,
    tap: Option<Tap>,
    tapped: Option<TapCounts>,
    /// Copies for the tap of frames that are to leave.
    copies: Slab<Frame>,
    names: Vec<String>,
    ports: Vec<Passed>,
    residence: Times,
    driver: Option<Driver>,
    course: Course,
    /// Frames that were handed over and have not left yet.
    under_way: u64,
    /// The last instant that it was given.
    now: Nanoseconds,
}

/// Frames of a port that passed the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passed {
    /// Frames that came.
    pub came: u64,
    /// Their bytes.
    pub came_bytes: u64,
    /// Frames that left.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Frames that never left: the port was down, or they were too long for it.
    pub unsent: u64,
}

/// A frame that leaves.
#[derive(Debug)]
pub struct Leaving {
    port: usize,
    came_ns: Nanoseconds,
    at_ns: Nanoseconds,
    bytes: u32,
    /// The place of its copy for the tap.
    copy: Option<u32>,
    /// Its number among the payloads.
    payload: Option<u32>,
}

impl Account for Leaving {
    fn entered_ns(&self) -> Nanoseconds {
        self.came_ns
    }

    fn at_ns(&self) -> Nanoseconds {
        self.at_ns
    }
}

impl Forwarder {
    /// A translation between ports of these names; `driver` takes the flows that are decided.
    pub(crate) fn new(
        nat: Nat,
        names: Vec<String>,
        driver: Option<Driver>,
        payloads: Option<Payloads>,
    ) -> Self {
        Self {
            nat,
            effects: Effects::default(),
            leaving: Vec::new(),
            payloads,
            side: 0,
            tap: None,
            tapped: None,
            copies: Slab::new(),
            ports: vec![Passed::default(); names.len()],
            names,
            residence: Times::default(),
            driver,
            course: Course::default(),
            under_way: 0,
            now: Nanoseconds::MIN,
        }
    }

    /// The counts of the tap, if there was one.
    pub fn tapped(&self) -> Option<&TapCounts> {
        self.tapped.as_ref()
    }

    /// The wall clock is `ahead_ns` ahead of the loop's from now on.
    pub fn set_wall_ahead(&mut self, ahead_ns: i64) {
        if let Some(tap) = &mut self.tap {
            tap.set_wall_ahead(ahead_ns);
        }
    }

    /// The translation.
    pub fn nat(&self) -> &Nat {
        &self.nat
    }

    /// Has the translation do something between two turns; what it sends leaves in the next.
    pub fn with_nat<T>(&mut self, act: impl FnOnce(&mut Nat, &mut Effects) -> T) -> T {
        let done = act(&mut self.nat, &mut self.effects);
        self.take_effects();
        done
    }

    /// The names of the ports.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The course begins.
    pub(crate) fn begin_course(&mut self, now: Nanoseconds, step_ns: Nanoseconds) {
        self.course = Course::new(now, step_ns);
    }

    /// The course goes on: to be called as often as its first steps are long.
    pub(crate) fn on_course(&mut self, now: Nanoseconds) {
        let by_driver = { self.driver.as_ref() }.map_or(0, |driver| driver.report().frames);
        self.course.on_counts(now, &self.nat.report(now), by_driver);
    }

    /// What happened over time.
    pub(crate) fn course(&self) -> &Course {
        &self.course
    }

    /// The driver's part, if there is one.
    pub fn driver(&self) -> Option<&Driver> {
        self.driver.as_ref()
    }

    /// What passed, by port.
    pub fn passed(&self) -> &[Passed] {
        &self.ports
    }

    /// From a frame's arrival to the call that handed it over.
    pub fn residence(&self) -> &Times {
        &self.residence
    }

    /// What to do with payloads, if they are to stay.
    pub(crate) fn payloads(&self) -> Option<&Payloads> {
        self.payloads.as_ref()
    }

    fn end_payload(&mut self, account: &Leaving) {
        if let (Some(payloads), Some(number)) = (&mut self.payloads, account.payload) {
            payloads.on_sent(number);
        }
    }

    fn take_effects(&mut self) {
        let frames = self.effects.frames.drain(..);
        match &mut self.payloads {
            Some(payloads) => {
                frames.for_each(|out| payloads.push(self.now, self.side, out.port, out.frame));
            }
            None => self.leaving.extend(frames.map(|out| Departure {
                port: out.port,
                frame: out.frame,
                number: None,
            })),
        }
        match &mut self.driver {
            Some(driver) => driver.take(&mut self.effects.decided, &mut self.nat, self.now),
            None => self.effects.decided.clear(),
        }
    }
}

impl Tapped for Forwarder {
    fn set_tap(&mut self, tap: Option<Tap>) {
        if let Some(tap) = &tap {
            self.tapped = Some(tap.counts());
        }
        if let Some(driver) = &self.driver {
            // What it forwards, no tap sees.
            driver.pause(tap.is_some());
        }
        self.tap = tap;
    }
}

impl Engine for Forwarder {
    type Account = Leaving;

    /// A frame that is too long is answered for by the translation.
    fn takes_long_frames(&self) -> bool {
        true
    }

    fn on_burst(&mut self, now: Nanoseconds, side: usize, burst: &mut Burst) {
        if let Some(tap) = &mut self.tap {
            tap.on_arrivals(now, side, burst);
        }
        (self.now, self.side) = (now, side);
        let passed = &mut self.ports[side];
        for frame in burst.drain(..) {
            passed.came += 1;
            passed.came_bytes += frame.bytes().len() as u64;
            self.nat.on_frame(now, side, frame, &mut self.effects);
        }
        self.take_effects();
    }

    fn on_timer(&mut self, now: Nanoseconds, _until: Nanoseconds, out: &mut Sides<Leaving>) {
        self.now = now;
        if let Some(driver) = &mut self.driver {
            driver.on_turn(
                now,
                self.under_way == 0 && self.leaving.is_empty(),
                &mut self.nat,
            );
        }
        if self.nat.next_deadline().is_some_and(|due| due <= now) {
            self.nat.on_timer(now, &mut self.effects);
            self.take_effects();
        }
        if let Some(payloads) = &mut self.payloads {
            self.leaving
                .extend(std::iter::from_fn(|| payloads.pop(now)));
        }
        for departure in self.leaving.drain(..) {
            let Departure {
                port,
                frame,
                number,
            } = departure;
            let copy = self.tap.as_mut().and_then(|tap| tap.copy(&frame));
            let account = Leaving {
                port,
                came_ns: frame.descriptor().stamp_ns.unwrap_or(now).min(now),
                at_ns: now,
                bytes: frame.whole_len() as u32,
                copy: copy.map(|copy| self.copies.insert(copy) as u32),
                payload: number,
            };
            self.under_way += 1;
            out.send(port, frame, account);
        }
        if let Some(tap) = &mut self.tap {
            tap.on_turn(now);
        }
    }

    fn next_deadline(&self) -> Option<Nanoseconds> {
        match self.leaving.is_empty() {
            true => { self.nat.next_deadline().into_iter() }
                .chain(self.driver.as_ref().and_then(Driver::next_deadline))
                .chain(self.payloads.as_ref().and_then(Payloads::next_deadline))
                .min(),
            false => Some(Nanoseconds::MIN),
        }
    }

    fn held(&self) -> usize {
        let waiting = self.payloads.as_ref().map_or(0, Payloads::held);
        self.leaving.len() + waiting + self.nat.held()
    }

    fn spill(&mut self, side: usize) {
        if let Some(payloads) = &mut self.payloads {
            payloads.spill(side, SPILL_BYTES);
        }
        self.nat.spill(SPILL_BYTES);
    }

    fn on_sent(&mut self, account: Leaving, sent_ns: Nanoseconds) {
        self.under_way -= 1;
        let passed = &mut self.ports[account.port];
        passed.left += 1;
        passed.left_bytes += u64::from(account.bytes);
        self.residence.record(sent_ns - account.came_ns);
        self.end_payload(&account);
        let copy = { account.copy }.map(|copy| self.copies.remove(copy as usize));
        if let (Some(tap), Some(copy)) = (&mut self.tap, copy) {
            tap.on_sent(sent_ns, account.port, copy);
        }
    }

    fn on_unsent(&mut self, account: Leaving, _: &Frame) {
        self.under_way -= 1;
        self.ports[account.port].unsent += 1;
        self.end_payload(&account);
        if let Some(copy) = account.copy {
            self.copies.remove(copy as usize);
        }
    }
}
