//! The loop: what one turn does, and what it measures of itself.
//!
//! It is not an engine: what happens to a frame between its arrival and its departure is behind
//! [`Engine`], which has neither ports nor a clock.

use lineside_frame::{Burst, Frame};
use lineside_measure::Times;
use lineside_port::{LivePort, Method, PortError, Received};
use lineside_time::Nanoseconds;
use lineside_trace::certificate::run::{Calibration, Gone, LoopFacts};

use crate::calibration::{PROBES, PROBES_COLD, Sends};
use crate::facts::note_gap;
use crate::lead::{LEAD_MAX_NS, Lead};
use crate::rest::Rest;
use crate::sides::{BURST_MAX, Engine, Side};
use crate::{LoopCounts, Sides, Tap, Wait};

/// An engine that gives copies of frames away.
pub trait Tapped {
    /// Gives copies of frames to `tap`, or ends it.
    fn set_tap(&mut self, tap: Option<Tap>);
}

/// A sleep that ends later by more than this was no sleep alone: waking up takes some tens of
/// microseconds, on a busy machine a scheduler's turn.
const OVERSLEPT_NS: i64 = 5_000_000;

/// An [`Engine`] between live ports.
pub struct Reactor<E: Engine> {
    engine: E,
    sides: Sides<E::Account>,
    wait: Wait,
    rest: Rest,
    is_awake: bool,
    /// Finishes checksums that a sender left to its adapter.
    completes_checksums: bool,
    burst: Burst,
    looked_ns: Option<Nanoseconds>,
    /// When it began to sleep, and for how long at most.
    rested: Option<(Nanoseconds, i64)>,
    /// Frames that arrived before this are dropped.
    began_ns: Nanoseconds,
    lead: Lead,
    calibration: Option<Calibration>,
    pickup: Times,
    facts: LoopFacts,
    /// So many sides are enough.
    sides_min: usize,
}

impl<E: Engine> Reactor<E> {
    /// A loop between sides, each with the ports of its queues.
    pub fn new(
        engine: E,
        sides: Vec<Vec<Box<dyn LivePort>>>,
        wait: Wait,
        completes_checksums: bool,
    ) -> Self {
        Self {
            engine,
            sides_min: sides.len(),
            sides: Sides::new(sides),
            wait,
            rest: Rest::default(),
            is_awake: false,
            completes_checksums,
            burst: Burst::with_capacity(BURST_MAX),
            looked_ns: None,
            rested: None,
            began_ns: Nanoseconds::MIN,
            lead: Lead::default(),
            calibration: None,
            pickup: Times::default(),
            facts: LoopFacts::default(),
        }
    }

    /// Goes on without a side whose port fails, as long as this many are left; without this, any
    /// failure ends the loop.
    pub fn outlive(&mut self, sides_min: usize) {
        self.sides_min = sides_min;
    }

    /// The sides that are gone, in the order in which they went.
    pub fn gone(&self) -> &[Gone] {
        &self.facts.gone
    }

    /// The engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// The engine, to change it between two turns.
    pub fn engine_mut(&mut self) -> &mut E {
        &mut self.engine
    }

    /// All ports, those of side 0 first.
    pub fn ports(&self) -> impl Iterator<Item = &dyn LivePort> {
        self.sides.ports()
    }

    /// All ports, to read what the kernel counts, or to shut them.
    pub fn ports_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn LivePort>> {
        self.sides.queues_mut().map(|queue| &mut queue.port)
    }

    /// Ends the loop; its ports may have another, which finds what came meanwhile.
    pub fn into_ports(self) -> impl Iterator<Item = Box<dyn LivePort>> {
        self.sides.into_ports()
    }

    /// How many sides there are.
    pub fn sides(&self) -> usize {
        self.sides.count()
    }

    /// The number of ports of a side, one for each queue.
    pub fn queues(&self, side: usize) -> usize {
        self.sides.ports_of(side).count()
    }

    /// How a side takes frames; `None` if it is no interface.
    pub fn method(&self, side: usize) -> Option<Method> {
        let facts = self.sides.ports_of(side).next()?.facts();
        Some(facts.first()?.live.as_ref()?.method)
    }

    /// The time from a frame's arrival to its hand-over if nothing delays it: as measured of the
    /// first hundred frames, or before that by the calibration; `None` without one.
    pub fn floor_ns(&self) -> Option<i64> {
        const ENOUGH: u64 = 100;
        let seen = self.pickup.spread().zip(self.lead.hand_over.spread());
        let seen = seen.filter(|(pickup, _)| pickup.count >= ENOUGH);
        let seen = seen.map(|(pickup, hand_over)| pickup.p50_ns + hand_over.p50_ns);
        seen.or_else(|| Some(self.calibration.as_ref()?.floor_ns))
    }

    /// The next turn ends without a rest: there is something to do beside frames.
    pub fn stay_awake(&mut self) {
        self.is_awake = true;
    }

    /// Whether no frame is due in the next two milliseconds.
    pub fn is_calm(&self, now: Nanoseconds) -> bool {
        const CALM_NS: i64 = 2_000_000;
        let deadline = self.engine.next_deadline();
        deadline.is_none_or(|deadline| deadline - now > CALM_NS)
    }

    /// What the loop has measured of itself so far.
    pub fn facts(&self) -> LoopFacts {
        LoopFacts {
            calibration: self.calibration.clone(),
            floor_ns: self.floor_ns(),
            lead_ns: self.lead.ns(),
            pickup: self.pickup.spread(),
            hand_over: self.lead.hand_over.spread(),
            ..self.facts.clone()
        }
    }

    /// What the loop has counted of itself so far: the part of its [`facts`](Self::facts) that
    /// takes no time.
    pub fn counts(&self) -> LoopCounts {
        LoopCounts {
            stalls: self.facts.stalls,
            stalls_over_1ms: self.facts.stalls_over_1ms,
            stall_max_ns: self.facts.stall_max_ns,
            stalled_ns: self.facts.stalled_ns,
            refusals: self.facts.refusals,
            dropped_at_start: self.facts.dropped_at_start,
            too_long: self.facts.too_long,
            dropped_down: self.facts.dropped_down,
        }
    }

    /// Frames that the engine holds or that wait for a port.
    pub fn held(&self) -> usize {
        self.sides.waiting() + self.engine.held()
    }

    /// One turn: frames that have arrived go to the engine, frames that are due leave, and if there
    /// were none of either the loop rests. `clock` gives the time of the stamps.
    pub fn turn(&mut self, clock: &mut impl FnMut() -> Nanoseconds) -> Result<(), PortError> {
        let mut now = clock();
        if let Some(looked_ns) = self.looked_ns.replace(now) {
            note_gap(&mut self.facts, now - looked_ns);
        } else if let Some((rested_ns, sleep_ns)) = self.rested.take() {
            // A machine that stood still while the loop slept woke it late.
            let late_ns = now - rested_ns - sleep_ns;
            if late_ns > OVERSLEPT_NS {
                note_gap(&mut self.facts, late_ns);
            }
        }
        for queue in self.sides.queues_mut() {
            queue.collect_stamp(&mut self.lead);
        }
        let mut has_received = false;
        let mut came_ns = None;
        for side in 0..self.sides.count() {
            let (first_ns, failure) = self.receive(&mut now, side, clock);
            has_received |= first_ns.is_some();
            came_ns = came_ns.or(first_ns);
            failure.map_or(Ok(()), |failure| self.on_failure(now, side, failure))?;
        }
        let now = clock();
        if let Some(came_ns) = came_ns {
            self.pickup.record(now - came_ns);
        }
        let until = now.saturating_add(self.lead.ns());
        self.engine.on_timer(now, until, &mut self.sides);
        for (account, frame) in self.sides.take_too_long() {
            self.facts.too_long += 1;
            self.engine.on_unsent(account, &frame);
        }
        let (mut has_sent, mut failed) = (false, None);
        for (number, side) in self.sides.iter_mut().enumerate().rev() {
            for queue in &mut side.queues {
                let (engine, lead) = (&mut self.engine, &mut self.lead);
                if side.is_gone {
                    queue.discard(engine, &mut self.facts);
                    continue;
                }
                match queue.send(engine, lead, &mut self.facts, clock) {
                    Ok(sent) => has_sent |= sent,
                    // Another one that fails in this turn does so again in the next.
                    Err(failure) => failed = Some((number, failure)),
                }
            }
        }
        if let Some((side, failure)) = failed {
            self.on_failure(now, side, failure)?;
        }
        let is_awake = std::mem::take(&mut self.is_awake);
        if !has_received && !has_sent && !is_awake {
            self.rest(clock());
        }
        Ok(())
    }

    /// A port of a side has failed: the loop ends, or goes on without the side.
    #[cold]
    fn on_failure(
        &mut self,
        now: Nanoseconds,
        side: usize,
        failure: PortError,
    ) -> Result<(), PortError> {
        let present = self.sides.count() - self.facts.gone.len();
        if present <= self.sides_min {
            return Err(failure);
        }
        self.sides.side_mut(side).is_gone = true;
        self.facts.gone.push(Gone {
            side,
            at_ns: now,
            why: failure.to_string(),
        });
        self.engine.on_gone(side);
        Ok(())
    }

    /// Takes what has arrived at a side; the stamp of the first frame, if there is one, and why no
    /// more can come. Time goes on where a frame came after `now`.
    fn receive(
        &mut self,
        now: &mut Nanoseconds,
        side: usize,
        clock: &mut impl FnMut() -> Nanoseconds,
    ) -> (Option<Nanoseconds>, Option<PortError>) {
        let Side {
            queues,
            len_max,
            is_gone,
            ..
        } = self.sides.side_mut(side);
        if *is_gone {
            return (None, None);
        }
        let has_queues = queues.len() > 1;
        let burst_max = self.engine.burst_max(*now).min(BURST_MAX);
        let mut failure = None;
        for (number, queue) in queues.iter_mut().enumerate() {
            let before = self.burst.len();
            match queue.port.receive(&mut self.burst, burst_max) {
                Ok(Received::PoolEmpty) => self.engine.spill(side),
                Ok(_) => {}
                Err(why) => failure = Some(why),
            }
            if has_queues {
                for frame in &mut self.burst[before..] {
                    frame.descriptor_mut().input = number as u16;
                }
            }
        }
        let (before, began_ns) = (self.burst.len(), self.began_ns);
        let stamps = self.burst.iter().map(|frame| frame.descriptor().stamp_ns);
        if stamps.max().flatten() > Some(*now) {
            *now = clock();
        }
        let now = *now;
        let came_ns = |frame: &Frame| frame.descriptor().stamp_ns.unwrap_or(now);
        self.burst.retain(|frame| came_ns(frame) >= began_ns);
        self.facts.dropped_at_start += (before - self.burst.len()) as u64;
        let before = self.burst.len();
        let len_max = match self.engine.takes_long_frames() {
            true => usize::MAX,
            false => *len_max,
        };
        self.burst.retain(|frame| {
            let len = frame.bytes().len();
            len <= len_max && len >= frame.descriptor().wire_len as usize
        });
        self.facts.too_long += (before - self.burst.len()) as u64;
        let Some(first) = self.burst.first() else {
            return (None, failure);
        };
        let came_ns = came_ns(first);
        if self.completes_checksums {
            for frame in &mut self.burst {
                let link_type = frame.descriptor().link_type.0;
                let is_new = lineside_wire::complete_checksum(link_type, frame.bytes_mut());
                self.facts.checksums_completed += u64::from(is_new);
            }
        }
        self.engine.on_burst(now, side, &mut self.burst);
        (Some(came_ns), failure)
    }

    /// Measures, before the first frame comes, what a frame takes at least: sends frames out of
    /// each side, from the address of its interface, which no bridge passes on and no host answers.
    /// Frames that arrive meanwhile are dropped and counted.
    pub fn calibrate(
        &mut self,
        addresses: &[Option<[u8; 6]>],
        clock: &mut impl FnMut() -> Nanoseconds,
    ) -> Result<(), PortError> {
        self.began_ns = Nanoseconds::MAX;
        let (mut turn, mut sends) = (Times::default(), Sends::default());
        for (side, address) in self.sides.iter_mut().zip(addresses) {
            if let (Some(queue), Some(address)) = (side.queues.first_mut(), address) {
                sends.probe(&mut *queue.port, *address, clock)?;
            }
        }
        for number in 0..PROBES_COLD + PROBES {
            let began_ns = clock();
            let mut now = began_ns;
            for side in 0..self.sides.count() {
                let (_, failure) = self.receive(&mut now, side, clock);
                failure.map_or(Ok(()), Err)?;
            }
            let now = clock();
            self.engine.on_timer(now, now, &mut self.sides);
            if number >= PROBES_COLD {
                turn.record(clock() - began_ns);
            }
        }
        if let Some(calibration) = sends.calibration(&turn, LEAD_MAX_NS) {
            let usual_ns = calibration.send.p50_ns;
            self.lead.calibrate(usual_ns, calibration.floor_ns);
            self.calibration = Some(calibration);
        }
        self.began_ns = clock();
        Ok(())
    }

    /// Sleeps until shortly before the next frame is due, as [`Wait`] says.
    fn rest(&mut self, now: Nanoseconds) {
        let deadline = self.engine.next_deadline();
        let left_ns = deadline.map(|deadline| deadline - self.lead.ns() - now);
        let sleep_ns = self.wait.sleep_ns(left_ns);
        if sleep_ns > 0 && self.sides.waiting() == 0 {
            self.rested = Some((now, sleep_ns));
            self.rest.sleep(sleep_ns, &self.sides);
            self.looked_ns = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::Descriptor;
    use lineside_testkit::memory::{Memory, SharedWire};

    use super::*;
    use crate::Account;

    /// Frames of 60 bytes come, whose first ones are these.
    fn give(queue: &SharedWire, bytes: &[u8]) {
        let frames = { bytes.iter() }.map(|&byte| frame(&[byte; 60], 60));
        queue.lock().to_come.extend(frames);
    }

    /// The first bytes of frames that were sent.
    fn sent(queue: &SharedWire) -> Vec<u8> {
        let wire = queue.lock();
        wire.sent.iter().map(|frame| frame.bytes()[0]).collect()
    }

    fn frame(bytes: &[u8], wire_len: u32) -> Frame {
        let descriptor = Descriptor {
            wire_len,
            ..Descriptor::default()
        };
        Frame::copied(bytes, descriptor)
    }

    /// Sends each frame on to the next side, at once.
    #[derive(Default)]
    struct Ring {
        held: Vec<(usize, Frame)>,
        sent: usize,
        /// Sides whose ports were short of memory.
        spilled: Vec<usize>,
        unsent: Vec<u8>,
        gone: Vec<usize>,
        /// When bursts came.
        came: Vec<Nanoseconds>,
    }

    impl Account for Nanoseconds {
        fn entered_ns(&self) -> Nanoseconds {
            *self
        }

        fn at_ns(&self) -> Nanoseconds {
            *self
        }
    }

    impl Engine for Ring {
        type Account = Nanoseconds;

        fn on_burst(&mut self, now: Nanoseconds, side: usize, burst: &mut Burst) {
            self.came.push(now);
            let to = (side + 1) % 3;
            self.held.extend(burst.drain(..).map(|frame| (to, frame)));
        }

        fn on_timer(&mut self, now: Nanoseconds, _: Nanoseconds, out: &mut Sides<Nanoseconds>) {
            for (side, frame) in self.held.drain(..) {
                out.send(side, frame, now);
            }
        }

        fn next_deadline(&self) -> Option<Nanoseconds> {
            None
        }

        fn held(&self) -> usize {
            self.held.len()
        }

        fn spill(&mut self, side: usize) {
            self.spilled.push(side);
        }

        fn on_unsent(&mut self, _: Nanoseconds, frame: &Frame) {
            self.unsent.push(frame.bytes()[0]);
        }

        fn on_sent(&mut self, _: Nanoseconds, _: Nanoseconds) {
            self.sent += 1;
        }

        fn on_gone(&mut self, side: usize) {
            self.gone.push(side);
        }
    }

    fn reactor(queues: &[Vec<SharedWire>]) -> Reactor<Ring> {
        let ports = |queues: &Vec<SharedWire>| {
            let port = |queue: &SharedWire| Box::new(Memory(queue.clone())) as Box<dyn LivePort>;
            queues.iter().map(port).collect()
        };
        let sides = queues.iter().map(ports).collect();
        Reactor::new(Ring::default(), sides, Wait::Spin, false)
    }

    /// Three sides of a queue each, between which `give` are given at the first.
    fn turned(
        give: impl FnOnce(&SharedWire),
        turns: usize,
    ) -> (Vec<Vec<SharedWire>>, Reactor<Ring>) {
        let queues: Vec<_> = (0..3).map(|_| vec![SharedWire::default()]).collect();
        give(&queues[0][0]);
        let mut reactor = reactor(&queues);
        let mut now = 0;
        for _ in 0..turns {
            let mut clock = || {
                now += 10;
                now
            };
            reactor.turn(&mut clock).expect("ports that work");
        }
        (queues, reactor)
    }

    /// A machine that stands still wakes the loop late from its sleep.
    #[test]
    fn a_stall_while_the_loop_sleeps_is_counted() {
        let queues: Vec<_> = (0..2).map(|_| vec![SharedWire::default()]).collect();
        let mut reactor = reactor(&queues);
        reactor.wait = Wait::Sleep;
        for (now, stall_ns) in [
            (1_000_000, 0),
            // Slept as long as it was to.
            (11_000_000, 0),
            (25_000_000, 0),
            (135_000_000, 100_000_000),
        ] {
            reactor.turn(&mut || now).expect("ports that work");
            assert_eq!(reactor.facts().stall_max_ns, stall_ns, "at {now}");
        }
        assert_eq!(reactor.facts().stalls_over_10ms, 1);
    }

    /// Frames come while the loop looks for them.
    #[test]
    fn no_frame_comes_after_the_time_at_which_it_is_taken() {
        let (_, reactor) = turned(
            |port| {
                let mut late = frame(&[1; 60], 60);
                late.descriptor_mut().stamp_ns = Some(15);
                port.lock().to_come.push_back(late);
            },
            1,
        );
        assert_eq!(reactor.engine().came, [20]);
    }

    #[test]
    fn no_rest_is_taken_while_there_is_something_to_do() {
        let (_, mut reactor) = turned(|_| {}, 0);
        reactor.wait = Wait::Sleep;
        for is_awake in [true, false] {
            if is_awake {
                reactor.stay_awake();
            }
            reactor.turn(&mut || 7).expect("ports that work");
            assert_eq!(reactor.looked_ns.is_some(), is_awake);
        }
    }

    #[test]
    fn cut_frames_are_counted_and_do_not_pass() {
        let (queues, reactor) = turned(
            |port| {
                let whole = [frame(&[1; 60], 60), frame(&[2; 60], 0)];
                let cut = [frame(&[3; 60], 61), frame(&[4; 60], 1_500), frame(&[], 1)];
                port.lock().to_come.extend(cut.into_iter().chain(whole));
            },
            5,
        );
        assert_eq!(sent(&queues[1][0]), [1, 2]);
        assert_eq!(reactor.facts().too_long, 3);
        assert_eq!((reactor.held(), reactor.engine().sent), (0, 2));
    }

    #[test]
    fn frames_due_at_a_port_that_is_down_are_counted_as_lost() {
        let (queues, mut reactor) = turned(|port| give(port, &[1, 2, 3, 4, 5]), 0);
        let mut now = 0;
        let mut turn = |reactor: &mut Reactor<Ring>| {
            let mut clock = || {
                now += 10;
                now
            };
            reactor
                .turn(&mut clock)
                .expect("a port that is down fails nothing");
        };
        // Three leave, two wait for the port, and it goes down; so do two that come.
        turn(&mut reactor);
        queues[1][0].lock().is_down = true;
        give(&queues[0][0], &[6, 7]);
        for _ in 0..3 {
            turn(&mut reactor);
        }
        assert_eq!((reactor.facts().dropped_down, reactor.held()), (4, 0));
        assert_eq!(reactor.engine().unsent, [4, 5, 6, 7]);
        queues[1][0].lock().is_down = false;
        give(&queues[0][0], &[8]);
        turn(&mut reactor);
        assert_eq!(sent(&queues[1][0]), [1, 2, 3, 8]);
        assert_eq!(
            (reactor.facts().dropped_down, reactor.engine().sent),
            (4, 4)
        );
    }

    #[test]
    fn the_loop_goes_on_without_a_side_if_enough_are_left() {
        let (queues, mut reactor) = turned(|port| give(port, &[1, 2, 3, 4, 5]), 0);
        reactor.outlive(2);
        let mut turn = || reactor.turn(&mut || 7);
        // Three leave, and the port is removed while two wait for it.
        turn().expect("ports that work");
        queues[1][0].lock().is_gone = true;
        give(&queues[0][0], &[6]);
        give(&queues[2][0], &[31]);
        for _ in 0..3 {
            turn().expect("two sides are left");
        }
        assert_eq!(sent(&queues[1][0]), [1, 2, 3]);
        assert_eq!(sent(&queues[0][0]), [31]);
        queues[2][0].lock().is_gone = true;
        turn().expect_err("one side is no path");
        assert_eq!(reactor.engine().unsent, [4, 5, 6]);
        assert_eq!((reactor.facts().dropped_down, reactor.held()), (3, 0));
        assert_eq!(reactor.engine().gone, [1]);
        let [gone] = reactor.gone() else {
            panic!("{:?}", reactor.gone());
        };
        assert_eq!((gone.side, gone.at_ns), (1, 7));
        assert!(gone.why.contains("'memory' is gone"), "{}", gone.why);
    }

    #[test]
    fn the_side_whose_port_is_short_of_memory_is_spilled() {
        let (queues, mut reactor) = turned(|_| {}, 0);
        queues[1][0].lock().is_short = true;
        for turns in 1..4 {
            reactor.turn(&mut || 0).expect("ports that work");
            assert_eq!(reactor.engine().spilled, vec![1; turns], "a step each turn");
        }
    }

    #[test]
    fn frames_pass_by_every_queue_of_every_side() {
        let queues: Vec<Vec<SharedWire>> = [2, 2, 1]
            .map(|count| (0..count).map(|_| SharedWire::default()).collect())
            .into();
        give(&queues[0][0], &[1, 2, 3, 4]);
        give(&queues[0][1], &[11, 12]);
        give(&queues[1][1], &[21, 22]);
        give(&queues[2][0], &[31]);
        let mut reactor = reactor(&queues);
        let mut now = 0;
        let mut clock = || {
            now += 10;
            now
        };
        while reactor.engine().sent < 9 {
            assert!(clock() < 10_000, "all have left by then");
            reactor.turn(&mut clock).expect("ports that work");
        }
        assert_eq!(reactor.held(), 0);
        let sent = |side: usize, queue: usize| sent(&queues[side][queue]);
        assert_eq!(sent(1, 0), [1, 2, 3, 4]);
        assert_eq!(sent(1, 1), [11, 12]);
        assert_eq!(sent(2, 0), [21, 22]);
        assert_eq!([sent(0, 0), sent(0, 1)], [vec![31], vec![]]);
    }
}
