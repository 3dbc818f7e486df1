//! A path between two ports, in a polling loop (rule 10).

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_link::{Delay, Settings};
use lineside_measure::{Spread, Times};
use lineside_port::{LivePort, Method, PortError, Received};
use lineside_time::Nanoseconds;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::{
    Certificate, Departures, Direction, Leaving, NoMemory, Path, Tap, TapCounts, TapFacts,
};

/// What the loop does while nothing is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Looks again at once: a core of its own, no frame waits for it to wake up.
    Spin,
    /// Sleeps until shortly before a frame is due, or one comes, and spins the rest: what comes after a pause is late by
    /// the time that waking up takes, some tens of microseconds.
    #[default]
    Hybrid,
    /// Sleeps until a frame is due, or one comes: least processor time, each release late by the kernel's timers and by waking up.
    Sleep,
}

impl Wait {
    /// The words, with the price of each.
    pub const WORDS: [(&str, Self); 3] = [
        ("spin", Self::Spin),
        ("hybrid", Self::Hybrid),
        ("sleep", Self::Sleep),
    ];
}

/// Spun before a deadline: the kernel's timer slack of 50 us and the time that waking up takes.
const SPIN_NS: i64 = 150_000;
/// The longest sleep: who drives the loop looks after signals.
const SLEEP_MAX_NS: i64 = 50_000_000;
/// Frames that are received at once: few, so that a deadline never waits for many.
const BURST_MAX: usize = 32;
/// A gap of more than this between two looks of a loop that does not sleep is a stall of the machine.
const STALL_NS: i64 = 100_000;
/// Frames that are released early are released by at most so much.
const LEAD_MAX_NS: i64 = 20_000;
/// A step of the running median: from 0 to 20 us takes 400 frames.
const LEAD_STEP_NS: i64 = 50;
/// Frames sent by each port to see how long that takes, and those before them, which find caches cold.
const PROBES: usize = 128;
const PROBES_COLD: usize = 16;
/// Between two of them.
const PROBE_GAP_NS: i64 = 100_000;

/// A path between two ports: what comes from the first leaves, delayed, by the second, and the other way round.
pub struct Bump {
    path: Path,
    /// The queues of each side, by [`Direction`] of what comes from them. What leaves goes by the first one.
    sides: [Vec<Box<dyn LivePort>>; 2],
    /// Bytes of a frame that the port at the end of a direction takes.
    len_max: [usize; 2],
    wait: Wait,
    /// Finishes checksums that a sender left to its adapter.
    completes_checksums: bool,
    burst: Burst,
    out: Departures,
    /// Frames that left the link and that the port has not taken, with their account.
    sending: [(Burst, VecDeque<Leaving>); 2],
    /// When the call began that sent a frame whose stamp the kernel still owes.
    owed_ns: [Option<Nanoseconds>; 2],
    looked_ns: Option<Nanoseconds>,
    /// Frames that came before this are dropped.
    began_ns: Nanoseconds,
    /// Releases begin so much before their instant.
    lead_ns: i64,
    /// The running median of the time from a call that sends to the stamp of its first frame.
    hand_over_ns: Option<i64>,
    tap: Option<TapCounts>,
    /// Descriptors to wait for; empty but while it waits.
    polled: Vec<PollFd<'static>>,
    woken_by: Vec<BorrowedFd<'static>>,
    calibration: Option<Calibration>,
    pickup: Times,
    hand_over: Times,
    facts: BumpFacts,
}

/// What the loop found out about itself before the first frame came.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// How it was found.
    pub method: &'static str,
    /// What a frame takes at least from its arrival to its being handed over: half of `turn` and `send`, as their medians are.
    pub floor_ns: i64,
    /// A turn of the loop in which nothing comes.
    pub turn: Spread,
    /// From the decision that a frame leaves to its being handed over.
    pub send: Spread,
}

/// What the loop saw of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BumpFacts {
    /// What was found out at the start.
    pub calibration: Option<Calibration>,
    /// What a frame took from its arrival to its being handed over if nothing delayed it: the medians of `pickup` and `hand_over`.
    pub floor_ns: Option<i64>,
    /// Releases begin so much before their instant that half of the frames are handed over before it, as the kernel's stamps
    /// say: the running median.
    pub lead_ns: i64,
    /// From the arrival of a frame to the look that found it, the first of each burst.
    pub pickup: Option<Spread>,
    /// From a call that sends to the kernel's stamp of its first frame.
    pub hand_over: Option<Spread>,
    /// What went to the tap.
    pub tap: Option<TapFacts>,
    /// Times that the loop did not run for more than 100 us although it did not sleep.
    pub stalls: u64,
    /// Those of more than 1 and 10 ms.
    pub stalls_over_1ms: u64,
    /// As it says.
    pub stalls_over_10ms: u64,
    /// The longest of them.
    pub stall_max_ns: i64,
    /// All of them together.
    pub stalled_ns: i64,
    /// Times that a port took no frame that was due.
    pub refusals: u64,
    /// Frames that came while it started: how long they waited for it is no delay of the link.
    pub dropped_at_start: u64,
    /// Frames that came and are too long for the other side, or were cut on their way to the port.
    pub too_long: u64,
    /// Frames that were due while the interface that they were to leave by was down.
    pub dropped_down: u64,
    /// Checksums finished that the sender had left to its adapter.
    pub checksums_completed: u64,
}

impl Bump {
    /// A path between two sides, each with the ports of its queues: the first one is the inside.
    pub fn new(
        path: Path,
        sides: [Vec<Box<dyn LivePort>>; 2],
        wait: Wait,
        completes_checksums: bool,
    ) -> Self {
        let [inside, outside] = &sides;
        Self {
            path,
            len_max: [len_max(outside), len_max(inside)],
            sides,
            wait,
            completes_checksums,
            burst: Burst::with_capacity(BURST_MAX),
            out: Departures::default(),
            sending: Default::default(),
            owed_ns: [None; 2],
            looked_ns: None,
            began_ns: Nanoseconds::MIN,
            lead_ns: 0,
            hand_over_ns: None,
            tap: None,
            polled: Vec::new(),
            woken_by: Vec::new(),
            calibration: None,
            pickup: Times::default(),
            hand_over: Times::default(),
            facts: BumpFacts::default(),
        }
    }

    /// Gives copies of frames that leave to `tap`, or ends it.
    pub fn set_tap(&mut self, tap: Option<Tap>) {
        self.path.remove_observers();
        self.tap = tap.as_ref().map(Tap::counts);
        if let Some(tap) = tap {
            self.path.add_observer(Box::new(tap));
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes settings at `now`, as [`Path::change`] has it.
    pub fn change(
        &mut self,
        now: Nanoseconds,
        settings: [Option<&[Settings]>; 2],
    ) -> Result<(), NoMemory> {
        self.path.change(now, &settings, &mut self.out)
    }

    /// How many ports the side has from which the frames of a direction come.
    pub fn side_len(&self, direction: Direction) -> usize {
        self.sides[direction as usize].len()
    }

    /// How that side takes frames; `None` if it is no interface.
    pub fn method(&self, direction: Direction) -> Option<Method> {
        let facts = self.sides[direction as usize].first()?.facts();
        Some(facts.first()?.live.as_ref()?.method)
    }

    /// What a frame takes from its arrival to its being handed over if nothing delays it: as the first hundred were seen to take, or before
    /// that as the calibration found; `None` without one.
    pub fn floor_ns(&self) -> Option<i64> {
        const ENOUGH: u64 = 100;
        let seen = self.pickup.spread().zip(self.hand_over.spread());
        let seen = seen.filter(|(pickup, _)| pickup.count >= ENOUGH);
        let seen = seen.map(|(pickup, hand_over)| pickup.p50_ns + hand_over.p50_ns);
        seen.or_else(|| Some(self.calibration.as_ref()?.floor_ns))
    }

    /// Says so if the delay that was asked for in a direction is shorter than what a frame takes anyway.
    pub fn below_floor(&self, direction: Direction) -> Option<String> {
        let floor_ns = self.floor_ns()?;
        let link = self.path.link(direction);
        let asked_ns = link.asked().min_ns;
        let is_asked = link.settings().delay != Delay::default();
        (is_asked && asked_ns < floor_ns).then(|| {
            format!(
                "delays of {:.1} us were asked for and are below the floor: without any, a frame takes {:.1} us",
                asked_ns as f64 / 1e3,
                floor_ns as f64 / 1e3,
            )
        })
    }

    /// The path's certificate, with what the loop knows besides; `clock` as [`Certificate::clock`] says.
    pub fn certificate(&self, clock: &'static str) -> Certificate {
        let mut certificate = self.path.certificate(clock);
        for direction in Direction::BOTH {
            let report = certificate.directions.get_mut(direction.name());
            if let (Some(report), Some(warning)) = (report, self.below_floor(direction)) {
                report.warnings.push(warning);
            }
        }
        certificate
    }

    /// Whether no frame is due in the next two milliseconds.
    pub fn is_calm(&self, now: Nanoseconds) -> bool {
        const CALM_NS: i64 = 2_000_000;
        let deadline = self.path.next_deadline();
        deadline.is_none_or(|deadline| deadline - now > CALM_NS)
    }

    /// All ports, those of the inside first.
    pub fn ports(&self) -> impl Iterator<Item = &dyn LivePort> {
        self.sides.iter().flatten().map(|port| &**port)
    }

    /// All ports, to read what the kernel counts, or to shut them.
    pub fn ports_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn LivePort>> {
        self.sides.iter_mut().flatten()
    }

    /// What the loop saw of itself so far.
    pub fn facts(&self) -> BumpFacts {
        BumpFacts {
            calibration: self.calibration.clone(),
            floor_ns: self.floor_ns(),
            lead_ns: self.lead_ns,
            pickup: self.pickup.spread(),
            tap: self.tap.as_ref().map(TapCounts::facts),
            hand_over: self.hand_over.spread(),
            ..self.facts.clone()
        }
    }

    /// Frames that are under way or wait for a port.
    pub fn held(&self) -> usize {
        let waiting: usize = self.sending.iter().map(|(burst, _)| burst.len()).sum();
        waiting + self.path.held()
    }

    /// One turn: what came goes into the path, what is due leaves; then waits as it was told to. `clock` tells the
    /// time of the stamps.
    pub fn turn(&mut self, clock: &mut impl FnMut() -> Nanoseconds) -> Result<(), PortError> {
        let now = clock();
        self.note_stall(now);
        self.collect_stamps();
        let mut has_received = false;
        let mut came_ns = None;
        for direction in Direction::BOTH {
            let first_ns = self.receive(now, direction)?;
            has_received |= first_ns.is_some();
            came_ns = came_ns.or(first_ns);
        }
        let now = clock();
        if let Some(came_ns) = came_ns {
            self.pickup.record(now - came_ns);
        }
        self.path
            .on_timer(now.saturating_add(self.lead_ns), &mut self.out);
        self.path.observe(now, &mut self.out);
        let mut has_sent = false;
        for direction in Direction::BOTH {
            has_sent |= self.send(direction, clock)?;
        }
        if !has_received && !has_sent {
            self.rest(clock())?;
        }
        Ok(())
    }

    fn note_stall(&mut self, now: Nanoseconds) {
        if let Some(looked_ns) = self.looked_ns.replace(now) {
            let gap_ns = now - looked_ns;
            if gap_ns > STALL_NS {
                self.facts.stalls += 1;
                self.facts.stalls_over_1ms += u64::from(gap_ns > 1_000_000);
                self.facts.stalls_over_10ms += u64::from(gap_ns > 10_000_000);
                self.facts.stalled_ns += gap_ns;
                self.facts.stall_max_ns = self.facts.stall_max_ns.max(gap_ns);
            }
        }
    }

    /// Takes what has come from a port; the stamp of the first frame, if there is one.
    fn receive(
        &mut self,
        now: Nanoseconds,
        direction: Direction,
    ) -> Result<Option<Nanoseconds>, PortError> {
        for port in &mut self.sides[direction as usize] {
            if port.receive(&mut self.burst, BURST_MAX)? == Received::PoolEmpty {
                self.path.spill();
            }
        }
        let (before, began_ns) = (self.burst.len(), self.began_ns);
        let came_ns = |frame: &Frame| frame.descriptor().stamp_ns.unwrap_or(now);
        self.burst.retain(|frame| came_ns(frame) >= began_ns);
        self.facts.dropped_at_start += (before - self.burst.len()) as u64;
        let before = self.burst.len();
        let len_max = self.len_max[direction as usize];
        self.burst.retain(|frame| {
            let len = frame.bytes().len();
            len <= len_max && len >= frame.descriptor().wire_len as usize
        });
        self.facts.too_long += (before - self.burst.len()) as u64;
        let Some(first) = self.burst.first() else {
            return Ok(None);
        };
        let came_ns = came_ns(first);
        if self.completes_checksums {
            for frame in &mut self.burst {
                let link_type = frame.descriptor().link_type.0;
                let is_new = lineside_wire::complete_checksum(link_type, frame.bytes_mut());
                self.facts.checksums_completed += u64::from(is_new);
            }
        }
        self.path
            .on_burst(now, direction, &mut self.burst, &mut self.out);
        Ok(Some(came_ns))
    }

    /// Sends what left the link of a direction by the port at its end.
    fn send(
        &mut self,
        direction: Direction,
        clock: &mut impl FnMut() -> Nanoseconds,
    ) -> Result<bool, PortError> {
        let (burst, leaving) = &mut self.sending[direction as usize];
        for departure in self.out[direction as usize].drain(..) {
            leaving.push_back(Leaving::from(&departure));
            burst.push(departure.item);
        }
        if burst.is_empty() {
            return Ok(false);
        }
        let Some(port) = self.sides[1 - direction as usize].first_mut() else {
            return Ok(false);
        };
        let is_stamped = port.stamp_next();
        let began_ns = clock();
        let sent = match port.transmit(burst) {
            Ok(sent) => sent,
            // As on a cable that was pulled out: what is due is gone, and what is due when the interface is up again passes.
            Err(PortError::InterfaceDown { .. }) => {
                self.facts.dropped_down += leaving.len() as u64;
                burst.clear();
                leaving.clear();
                // One may be in the port's ring, and its stamp comes with it.
                self.owed_ns[direction as usize] = is_stamped.then_some(began_ns);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        port.reclaim();
        let sent_ns = clock();
        self.facts.refusals += u64::from(sent == 0);
        let owed_ns = &mut self.owed_ns[direction as usize];
        if is_stamped && sent > 0 {
            *owed_ns = Some(began_ns);
        }
        // When the first one left: as the kernel says, or else after the time that it usually takes.
        let usual_ns = self.hand_over_ns.unwrap_or(sent_ns - began_ns);
        let mut first_ns = (began_ns + usual_ns).min(sent_ns);
        if let Some(stamp_ns) = owed_ns.and_then(|_| port.handed_over()) {
            let asked_ns = owed_ns.take().unwrap_or(began_ns);
            self.hand_over_ns = Some(usual_ns);
            self.note_stamp(asked_ns, stamp_ns);
            if let Some(stamp_ns) = stamp_ns.filter(|_| asked_ns == began_ns) {
                first_ns = stamp_ns.clamp(began_ns, sent_ns);
            }
        }
        let (_, leaving) = &mut self.sending[direction as usize];
        if let (1.., Some(account)) = (sent, leaving.front())
            && account.at_ns - account.entered_ns >= LEAD_MAX_NS
        {
            let late_ns = first_ns - account.at_ns;
            self.lead_ns = towards(self.lead_ns, self.lead_ns + late_ns).clamp(0, LEAD_MAX_NS);
        }
        let each_ns = (sent_ns - first_ns) / sent.max(1) as i64;
        for (at, account) in leaving.drain(..sent).enumerate() {
            self.path
                .on_sent(direction, &account, first_ns + at as i64 * each_ns);
        }
        Ok(sent > 0)
    }

    /// Takes stamps that come later than the call that sent, as an adapter gives them. Left with the port, they would keep waking the loop.
    fn collect_stamps(&mut self) {
        for direction in Direction::BOTH {
            let Some(asked_ns) = self.owed_ns[direction as usize] else {
                continue;
            };
            let Some(port) = self.sides[1 - direction as usize].first_mut() else {
                continue;
            };
            port.reclaim();
            if let Some(stamp_ns) = port.handed_over() {
                self.owed_ns[direction as usize] = None;
                self.note_stamp(asked_ns, stamp_ns);
            }
        }
    }

    /// A call that began at `asked_ns` handed its first frame over at `stamp_ns`, if the kernel says so.
    fn note_stamp(&mut self, asked_ns: Nanoseconds, stamp_ns: Option<Nanoseconds>) {
        let Some(stamp_ns) = stamp_ns else { return };
        let taken_ns = stamp_ns - asked_ns;
        self.hand_over.record(taken_ns);
        let usual_ns = self.hand_over_ns.unwrap_or(taken_ns);
        self.hand_over_ns = Some(towards(usual_ns, taken_ns));
    }

    /// Finds out, before the first frame comes, what a frame takes at least: sends some out of each side, which no bridge passes on and
    /// no host answers, from the addresses of the interfaces. What comes until the end of this is dropped and counted.
    pub fn calibrate(
        &mut self,
        addresses: [Option<[u8; 6]>; 2],
        clock: &mut impl FnMut() -> Nanoseconds,
    ) -> Result<(), PortError> {
        self.began_ns = Nanoseconds::MAX;
        let [mut turn, mut send, mut stamped] = [0; 3].map(|_| Times::default());
        for (side, address) in self.sides.iter_mut().zip(addresses) {
            let Some(port) = side.first_mut() else {
                continue;
            };
            let link_types = port.facts().first().map(|facts| facts.link_types.clone());
            let is_ethernet = link_types.is_some_and(|types| types == [LinkType::ETHERNET]);
            let Some(address) = address.filter(|_| is_ethernet) else {
                continue;
            };
            for number in 0..PROBES_COLD + PROBES {
                let mut burst = vec![probe(address)];
                // As between two frames of real traffic: not from the processor's first cache.
                let paused_ns = clock();
                while clock() - paused_ns < PROBE_GAP_NS {
                    port.receive(&mut self.burst, 0)?;
                }
                port.stamp_next();
                let began_ns = clock();
                let sent = port.transmit(&mut burst)?;
                port.reclaim();
                let sent_ns = clock();
                let stamp_ns = port.handed_over().flatten();
                if sent == 0 || number < PROBES_COLD {
                    continue;
                }
                match stamp_ns {
                    Some(stamp_ns) => stamped.record(stamp_ns - began_ns),
                    None => send.record(sent_ns - began_ns),
                }
            }
        }
        for number in 0..PROBES_COLD + PROBES {
            let began_ns = clock();
            for direction in Direction::BOTH {
                self.receive(began_ns, direction)?;
            }
            self.path.on_timer(clock(), &mut self.out);
            if number >= PROBES_COLD {
                turn.record(clock() - began_ns);
            }
        }
        let stamped = stamped.spread();
        let is_stamped = stamped.is_some();
        if let (Some(turn), Some(send)) = (turn.spread(), stamped.or_else(|| send.spread())) {
            self.hand_over_ns = Some(send.p50_ns);
            self.lead_ns = (send.p50_ns + turn.p50_ns / 2).min(LEAD_MAX_NS);
            self.calibration = Some(Calibration {
                method: if is_stamped {
                    "the kernel's stamps of frames sent at the start, as they were handed to the driver"
                } else {
                    "the time that sending frames took at the start: the kernel does not say when it hands them to the driver"
                },
                floor_ns: self.lead_ns,
                turn,
                send,
            });
        }
        self.began_ns = clock();
        Ok(())
    }

    /// Nothing is to be done now.
    fn rest(&mut self, now: Nanoseconds) -> Result<(), PortError> {
        let deadline = self.path.next_deadline();
        let left_ns = deadline.map_or(SLEEP_MAX_NS, |deadline| {
            (deadline - self.lead_ns - now).clamp(0, SLEEP_MAX_NS)
        });
        let sleep_ns = match self.wait {
            Wait::Spin => return Ok(()),
            Wait::Hybrid => left_ns - SPIN_NS,
            Wait::Sleep => left_ns,
        };
        let is_waiting_for_a_port = self.sending.iter().any(|(burst, _)| !burst.is_empty());
        if sleep_ns <= 0 || is_waiting_for_a_port {
            return Ok(());
        }
        let mut descriptors: Vec<BorrowedFd<'_>> = std::mem::take(&mut self.woken_by);
        for port in self.sides.iter().flatten() {
            port.wake_on(&mut descriptors);
        }
        let mut polled: Vec<PollFd<'_>> = std::mem::take(&mut self.polled);
        polled.extend(
            descriptors
                .drain(..)
                .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)),
        );
        let sleep = Duration::from_nanos(sleep_ns as u64);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: sleep.subsec_nanos().into(),
        };
        // A signal ends the sleep, and that is all: who drives the loop looks after it.
        let _ = poll(&mut polled, Some(&timeout));
        self.polled = emptied(polled, |_| unreachable!("it is empty"));
        self.woken_by = emptied(descriptors, |_| unreachable!("it is empty"));
        self.looked_ns = None;
        Ok(())
    }
}

/// The memory of a vector for things of another lifetime: collected in place, since nothing is left to map.
fn emptied<T, U>(mut vector: Vec<T>, never: impl Fn(T) -> U) -> Vec<U> {
    vector.clear();
    vector.into_iter().map(never).collect()
}

/// A step of a running median, towards the side on which a new value lies.
fn towards(median_ns: i64, new_ns: i64) -> i64 {
    median_ns + (new_ns - median_ns).signum() * LEAD_STEP_NS
}

/// A frame of the EtherType for local experiments (IEEE 802, 0x88B5) to the address that no bridge passes on (IEEE 802.1Q, table 8-1:
/// nearest bridge).
fn probe(source: [u8; 6]) -> Frame {
    let mut bytes = [0; 60];
    bytes[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);
    bytes[6..12].copy_from_slice(&source);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    let descriptor = Descriptor {
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    Frame::copied(&bytes, descriptor)
}

/// Bytes of a frame, with an Ethernet header and a tag, that the first of a side's ports takes; what is no interface takes all.
fn len_max(side: &[Box<dyn LivePort>]) -> usize {
    const HEADERS_LEN: usize = 18;
    let facts = side.first().map(|port| port.facts()).unwrap_or_default();
    let live = facts.first().and_then(|facts| facts.live.as_ref());
    live.map_or(usize::MAX, |live| live.mtu as usize + HEADERS_LEN)
}

#[cfg(test)]
mod tests {
    use lineside_account::Budget;
    use lineside_frame::{Descriptor, Frame};
    use lineside_link::words;
    use lineside_port::{Facts, Live, Port, Receive, Transmit};

    use super::*;

    /// What comes in is given, with its time; what goes out is kept, `room` of it at a time.
    struct Wire {
        to_come: VecDeque<Frame>,
        sent: Vec<Frame>,
        room: usize,
    }

    struct End(std::sync::Arc<std::sync::Mutex<Wire>>);

    impl Port for End {
        fn facts(&self) -> Vec<&Facts> {
            Vec::new()
        }
    }

    impl Receive for End {
        fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
            let mut wire = self.0.lock().expect("one thread");
            let count = max.min(wire.to_come.len());
            burst.extend(wire.to_come.drain(..count));
            Ok(match count {
                0 => Received::Idle { until_ns: 0 },
                count => Received::Frames(count),
            })
        }

        fn leave(&mut self, ahead: &mut Burst) {
            ahead.clear();
        }
    }

    impl Transmit for End {
        fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
            let mut wire = self.0.lock().expect("one thread");
            let count = burst.len().min(wire.room);
            wire.sent.extend(burst.drain(..count));
            Ok(count)
        }

        fn reclaim(&mut self) -> usize {
            0
        }

        fn stamp_next(&mut self) -> bool {
            false
        }

        fn handed_over(&mut self) -> Option<Option<i64>> {
            None
        }
    }

    impl Live for End {
        fn wake_on<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}

        fn backlog(&self) -> f32 {
            0.0
        }

        fn account(&mut self) {}

        fn shut(&mut self) {}
    }

    fn end() -> (Box<dyn LivePort>, std::sync::Arc<std::sync::Mutex<Wire>>) {
        let wire = Wire {
            to_come: VecDeque::new(),
            sent: Vec::new(),
            room: 3,
        };
        let wire = std::sync::Arc::new(std::sync::Mutex::new(wire));
        (Box::new(End(wire.clone())), wire)
    }

    #[test]
    fn frames_that_came_while_it_started_are_dropped_and_counted() {
        let budget = Budget::new(1 << 20);
        let settings = [Settings::default(), Settings::default()];
        let path = Path::new(settings, 7, 1 << 20, &budget).expect("it fits");
        let ((inside, near), (outside, far)) = (end(), end());
        let sides = [vec![inside], vec![outside]];
        let mut bump = Bump::new(path, sides, Wait::Spin, false);
        let come = |stamp_ns| {
            let descriptor = Descriptor {
                stamp_ns: Some(stamp_ns),
                ..Descriptor::default()
            };
            let frame = Frame::copied(&[0; 60], descriptor);
            near.lock().expect("one thread").to_come.push_back(frame);
        };
        let mut now = 1_000_000;
        // More than calibrating takes.
        (0..10_000).for_each(|_| come(now));
        bump.calibrate([None; 2], &mut || {
            now += 1;
            now
        })
        .expect("ports that work");
        come(now);
        come(now + 1);
        while !near.lock().expect("one thread").to_come.is_empty() {
            now += 10;
            bump.turn(&mut || now).expect("ports that work");
        }
        assert_eq!(bump.facts().dropped_at_start, 10_000);
        assert_eq!(far.lock().expect("one thread").sent.len(), 2);
        let counters = bump.path().link(Direction::Outbound).counters();
        assert_eq!(counters.entered, 2);
    }

    #[test]
    fn frames_leave_in_order_when_due_even_by_a_slow_port() {
        let settings = || Settings {
            delay: words::delay("100us", &mut words::no_files).expect("a delay"),
            ..Settings::default()
        };
        let budget = Budget::new(1 << 20);
        let path = Path::new([settings(), settings()], 7, 1 << 20, &budget).expect("it fits");
        let ((inside, near), (outside, far)) = (end(), end());
        let sides = [vec![inside], vec![outside]];
        let mut bump = Bump::new(path, sides, Wait::Spin, false);
        let mut now = 1_000_000;
        for number in 0..10 {
            let descriptor = Descriptor {
                number,
                stamp_ns: Some(now + number as i64),
                ..Descriptor::default()
            };
            let frame = Frame::copied(&[number as u8; 60], descriptor);
            near.lock().expect("one thread").to_come.push_back(frame);
        }
        while bump.held() > 0 || now == 1_000_000 {
            now += 1_000;
            bump.turn(&mut || now).expect("ports that work");
            if now < 1_100_000 {
                assert!(far.lock().expect("one thread").sent.is_empty(), "{now}");
            }
            assert!(now < 1_200_000, "all have left by then");
        }
        let sent: Vec<u8> = far
            .lock()
            .expect("one thread")
            .sent
            .iter()
            .map(|frame| frame.bytes()[0])
            .collect();
        assert_eq!(sent, (0..10).collect::<Vec<u8>>());
        assert!(near.lock().expect("one thread").sent.is_empty());
        let report = bump.path().certificate("test");
        assert_eq!(report.directions["outbound"].counters.released, 10);
        assert!(bump.facts().stalls == 0);
    }
}
