//! A path between two ports, in a polling loop (rule 10).

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use lineside_frame::Burst;
use lineside_port::{Port, PortError, Received};
use lineside_time::Nanoseconds;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::{Departures, Direction, Leaving, Path};

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

/// A path between two ports: what comes from the first leaves, delayed, by the second, and the other way round.
pub struct Bump {
    path: Path,
    /// The queues of each side, by [`Direction`] of what comes from them. What leaves goes by the first one.
    sides: [Vec<Box<dyn Port>>; 2],
    /// Bytes of a frame that the port at the end of a direction takes.
    len_max: [usize; 2],
    wait: Wait,
    /// Finishes checksums that a sender left to its adapter.
    completes_checksums: bool,
    burst: Burst,
    out: Departures,
    /// Frames that left the link and that the port has not taken, with their account.
    sending: [(Burst, VecDeque<Leaving>); 2],
    looked_ns: Option<Nanoseconds>,
    /// The time from the decision that a frame leaves to its having been sent.
    lead_ns: i64,
    facts: BumpFacts,
}

/// What the loop saw of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BumpFacts {
    /// Releases begin so much before their instant, which is what sending takes: the running median.
    pub lead_ns: i64,
    /// Times that the loop did not run for more than 100 us although it did not sleep.
    pub stalls: u64,
    /// The longest of them.
    pub stall_max_ns: i64,
    /// Times that a port took no frame that was due.
    pub refusals: u64,
    /// Frames that came and are too long for the other side.
    pub too_long: u64,
    /// Checksums finished that the sender had left to its adapter.
    pub checksums_completed: u64,
}

impl Bump {
    /// A path between two sides, each with the ports of its queues: the first one is the inside.
    pub fn new(
        path: Path,
        sides: [Vec<Box<dyn Port>>; 2],
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
            looked_ns: None,
            lead_ns: 0,
            facts: BumpFacts::default(),
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path, to change its settings.
    pub fn path_mut(&mut self) -> &mut Path {
        &mut self.path
    }

    /// All ports, those of the inside first.
    pub fn ports(&self) -> impl Iterator<Item = &dyn Port> {
        self.sides.iter().flatten().map(|port| &**port)
    }

    /// All ports, to read what the kernel counts, or to shut them.
    pub fn ports_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Port>> {
        self.sides.iter_mut().flatten()
    }

    /// What the loop saw of itself so far.
    pub fn facts(&self) -> BumpFacts {
        BumpFacts {
            lead_ns: self.lead_ns,
            ..self.facts.clone()
        }
    }

    /// Frames that are under way or wait for a port.
    pub fn held(&self) -> usize {
        let waiting: usize = self.sending.iter().map(|(burst, _)| burst.len()).sum();
        let held = Direction::BOTH.map(|direction| self.path.link(direction).held());
        waiting + held[0] + held[1]
    }

    /// One turn: what came goes into the path, what is due leaves; then waits as it was told to. `clock` tells the
    /// time of the stamps.
    pub fn turn(&mut self, clock: &mut impl FnMut() -> Nanoseconds) -> Result<(), PortError> {
        let now = clock();
        self.note_stall(now);
        let mut has_received = false;
        for direction in Direction::BOTH {
            has_received |= self.receive(now, direction)?;
        }
        self.path
            .on_timer(clock().saturating_add(self.lead_ns), &mut self.out);
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
                self.facts.stall_max_ns = self.facts.stall_max_ns.max(gap_ns);
            }
        }
    }

    /// Takes what has come from a port.
    fn receive(&mut self, now: Nanoseconds, direction: Direction) -> Result<bool, PortError> {
        for port in &mut self.sides[direction as usize] {
            if port.receive(&mut self.burst, BURST_MAX)? == Received::PoolEmpty {
                self.path.spill();
            }
        }
        let before = self.burst.len();
        let len_max = self.len_max[direction as usize];
        self.burst.retain(|frame| frame.bytes().len() <= len_max);
        self.facts.too_long += (before - self.burst.len()) as u64;
        if self.burst.is_empty() {
            return Ok(false);
        }
        if self.completes_checksums {
            for frame in &mut self.burst {
                let link_type = frame.descriptor().link_type.0;
                let is_new = lineside_wire::complete_checksum(link_type, frame.bytes_mut());
                self.facts.checksums_completed += u64::from(is_new);
            }
        }
        self.path
            .on_burst(now, direction, &mut self.burst, &mut self.out);
        Ok(true)
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
        let began_ns = clock();
        let sent = port.transmit(burst)?;
        port.reclaim();
        let sent_ns = clock();
        self.facts.refusals += u64::from(sent == 0);
        for account in leaving.drain(..sent) {
            self.path.on_sent(direction, &account, sent_ns);
        }
        if sent > 0 {
            // Towards the median: a step up or down, whichever side the new one lies on.
            let step_ns = if sent_ns - began_ns > self.lead_ns {
                50
            } else {
                -50
            };
            self.lead_ns = (self.lead_ns + step_ns).clamp(0, LEAD_MAX_NS);
        }
        Ok(sent > 0)
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
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::with_capacity(2);
        for port in self.sides.iter().flatten() {
            port.wake_on(&mut descriptors);
        }
        let mut polled: Vec<_> = descriptors
            .iter()
            .map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN))
            .collect();
        let sleep = Duration::from_nanos(sleep_ns as u64);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: sleep.subsec_nanos().into(),
        };
        // A signal ends the sleep, and that is all: who drives the loop looks after it.
        let _ = poll(&mut polled, Some(&timeout));
        self.looked_ns = None;
        Ok(())
    }
}

/// Bytes of a frame, with an Ethernet header and a tag, that the first of a side's ports takes; what is no interface takes all.
fn len_max(side: &[Box<dyn Port>]) -> usize {
    const HEADERS_LEN: usize = 18;
    let facts = side.first().map(|port| port.facts()).unwrap_or_default();
    let live = facts.first().and_then(|facts| facts.live.as_ref());
    live.map_or(usize::MAX, |live| live.mtu as usize + HEADERS_LEN)
}

#[cfg(test)]
mod tests {
    use lineside_account::Budget;
    use lineside_frame::{Descriptor, Frame};
    use lineside_link::{Settings, words};
    use lineside_port::Facts;

    use super::*;

    /// What comes in is given, with its time; what goes out is kept, `room` of it at a time.
    struct Wire {
        to_come: VecDeque<Frame>,
        sent: Vec<Frame>,
        room: usize,
    }

    struct End(std::sync::Arc<std::sync::Mutex<Wire>>);

    impl Port for End {
        fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
            let mut wire = self.0.lock().expect("one thread");
            let count = max.min(wire.to_come.len());
            burst.extend(wire.to_come.drain(..count));
            Ok(match count {
                0 => Received::Idle { until_ns: 0 },
                count => Received::Frames(count),
            })
        }

        fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
            let mut wire = self.0.lock().expect("one thread");
            let count = burst.len().min(wire.room);
            wire.sent.extend(burst.drain(..count));
            Ok(count)
        }

        fn reclaim(&mut self) -> usize {
            0
        }

        fn facts(&self) -> Vec<&Facts> {
            Vec::new()
        }
    }

    fn end() -> (Box<dyn Port>, std::sync::Arc<std::sync::Mutex<Wire>>) {
        let wire = Wire {
            to_come: VecDeque::new(),
            sent: Vec::new(),
            room: 3,
        };
        let wire = std::sync::Arc::new(std::sync::Mutex::new(wire));
        (Box::new(End(wire.clone())), wire)
    }

    #[test]
    fn frames_leave_in_order_when_they_are_due_even_if_a_port_takes_few() {
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
