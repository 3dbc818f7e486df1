//! Two ends, a network that loses and reorders, and a tap in its middle, by seed and in virtual
//! time. Each TCP end keeps what it sent until it is acknowledged, sends it again after a timeout
//! or three duplicate acknowledgements (RFC 6298, RFC 5681), perhaps cut otherwise, and puts
//! together what it receives; over UDP the client sends its calls again ([`simulate_datagrams`]).
//! What the ends did is known, and what the tap saw of it.

mod datagrams;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lineside_time::Random;
use lineside_wire::TcpFlags;
use lineside_wire::build::{FrameBuilder, TcpFields};

use crate::capture::Frame;

pub use datagrams::simulate_datagrams;

/// A call and its reply: over TCP what each end writes to its stream, record marks included.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The client's record.
    pub call: Vec<u8>,
    /// The server's.
    pub reply: Vec<u8>,
}

/// What happens on the way. The default harms nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions {
    /// Seeds every draw.
    pub seed: u64,
    /// Probability that a leg of the way, to the tap or from it, loses a frame.
    pub loss: f64,
    /// Probability that a leg delays a frame beyond those after it.
    pub reordered: f64,
    /// Probability that the tap misses a frame.
    pub missed: f64,
    /// Of two taps, one for each direction, by how much the server's clock is ahead.
    pub skew_ns: Option<i64>,
    /// Frames that had passed when the tap began.
    pub skipped: usize,
    /// Both ends have IPv6 addresses.
    pub is_ipv6: bool,
}

/// What the tap recorded, and how it was.
#[derive(Debug)]
pub struct Scene {
    /// The frames by their stamps, each with its input: 1 for the server's if there are two.
    pub frames: Vec<(u16, Frame)>,
    /// Whether the tap saw every byte that was sent, at least once; of datagrams, whether whatever
    /// came to the tap came whole, and it missed none.
    pub is_whole: bool,
    /// The tap began before the connection and saw its end: a SYN is first, and there is a FIN. Of
    /// datagrams: it saw something of each exchange.
    pub is_bounded: bool,
    /// Frames that the tap missed.
    pub missed: usize,
    /// Segments, or calls, that were sent again.
    pub repeated: usize,
}

/// The client's port.
pub const PORT: u16 = 700;
const SERVER_PORT: u16 = 2049;
const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
const WINDOW: usize = 64 << 10;
const TIMEOUT_NS: i64 = 200_000_000;
/// One leg of the way.
const LEG_NS: i64 = 100_000;
/// By how much a delayed segment is late at most: some ten others pass it.
const DELAY_MAX_NS: u64 = 300_000;

/// A part of a stream, in places: 0 is the SYN, the bytes follow, and then the FIN.
#[derive(Debug, Clone, Copy)]
struct Segment {
    from: usize,
    to: usize,
    acknowledged: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A segment, by its number, arrives at an end.
    Arrives(usize, usize),
    /// An end has waited for an acknowledgement since a moment.
    Waited(usize, i64),
    /// The server has done what a call asked for.
    Done(usize),
}

/// One end of the connection.
#[derive(Debug, Default)]
struct End {
    isn: u32,
    stream: Vec<u8>,
    /// Nothing more will be written.
    is_closing: bool,
    sent: usize,
    acknowledged: usize,
    duplicates: u32,
    received: usize,
    /// Parts beyond `received`.
    ahead: BTreeMap<usize, usize>,
    waits_since: i64,
    identification: u16,
    /// Where its records end, in order.
    record_ends: Vec<usize>,
}

impl End {
    /// Places that may be sent so far.
    fn written(&self) -> usize {
        1 + self.stream.len() + usize::from(self.is_closing)
    }

    fn write(&mut self, record: &[u8]) {
        self.stream.extend_from_slice(record);
        self.record_ends.push(1 + self.stream.len());
    }

    /// Takes a part of the other's stream; false if it brought nothing.
    fn receive(&mut self, from: usize, to: usize) -> bool {
        if to <= self.received {
            return false;
        }
        let end = self.ahead.entry(from).or_default();
        *end = to.max(*end);
        while let Some((&from, &to)) = self.ahead.first_key_value()
            && from <= self.received
        {
            self.received = self.received.max(to);
            self.ahead.pop_first();
        }
        true
    }
}

/// The addresses of the client and the server.
pub fn addresses(is_ipv6: bool) -> [IpAddr; 2] {
    [1, 2].map(|host| match is_ipv6 {
        true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host).into(),
        false => Ipv4Addr::new(10, 0, 0, host as u8).into(),
    })
}

/// Runs a connection from its SYN to its FINs.
pub fn simulate(exchanges: &[Exchange], conditions: &Conditions) -> Scene {
    let mut simulation = Simulation::new(exchanges, conditions);
    simulation.ends[0].waits_since = 1;
    simulation.send(0, 0, 1);
    while let Some(Reverse((now, _, event))) = simulation.events.pop() {
        simulation.now = now;
        simulation.handle(event);
    }
    simulation.scene()
}

struct Simulation<'a> {
    exchanges: &'a [Exchange],
    conditions: Conditions,
    random: Random,
    now: i64,
    /// By time, then in the order in which they were planned.
    events: BinaryHeap<Reverse<(i64, usize, Event)>>,
    planned: usize,
    ends: [End; 2],
    segments: Vec<Segment>,
    tap: Tap,
    /// Of each stream, the places that the tap saw.
    seen: [Vec<bool>; 2],
    /// Largest payload, calls at once, and whether every segment is acknowledged at once.
    mss: usize,
    depth: usize,
    is_prompt: bool,
    called: usize,
    /// Records that came whole, by the end that received them.
    taken: [usize; 2],
    repeated: usize,
}

impl<'a> Simulation<'a> {
    fn new(exchanges: &'a [Exchange], conditions: &Conditions) -> Self {
        let mut random = Random::new(conditions.seed);
        let end = |random: &mut Random| End {
            isn: match random.chance(0.3) {
                true => 0u32.wrapping_sub(random.below(5_000) as u32),
                false => random.bits() as u32,
            },
            ..End::default()
        };
        Self {
            exchanges,
            conditions: *conditions,
            now: BEGIN_NS,
            events: BinaryHeap::new(),
            planned: 0,
            ends: [end(&mut random), end(&mut random)],
            segments: Vec::new(),
            tap: Tap::default(),
            seen: Default::default(),
            mss: [536, 1448, 1448, 8948][random.below(4) as usize],
            depth: 1 + random.below(8) as usize,
            is_prompt: random.chance(0.5),
            called: 0,
            taken: [0; 2],
            repeated: 0,
            random,
        }
    }

    fn plan(&mut self, after_ns: i64, event: Event) {
        self.planned += 1;
        let at = self.now + after_ns;
        self.events.push(Reverse((at, self.planned, event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrives(end, segment) => self.arrives(end, segment),
            Event::Waited(end, since) => {
                let this = &self.ends[end];
                if this.waits_since == since && this.acknowledged < this.sent {
                    self.send_again(end);
                }
            }
            Event::Done(exchange) => {
                let exchanges = self.exchanges;
                self.ends[1].write(&exchanges[exchange].reply);
                self.pump(1);
            }
        }
    }

    fn arrives(&mut self, end: usize, segment: usize) {
        let Segment {
            from,
            to,
            acknowledged,
        } = self.segments[segment];
        let this = &mut self.ends[end];
        let brought = this.receive(from, to);
        if acknowledged > this.acknowledged {
            this.acknowledged = acknowledged;
            this.duplicates = 0;
            this.waits_since = self.now;
            if acknowledged < this.sent {
                self.plan(TIMEOUT_NS, Event::Waited(end, self.now));
            }
        } else if from == to && acknowledged == this.acknowledged && acknowledged < this.sent {
            this.duplicates += 1;
            if this.duplicates == 3 {
                self.send_again(end);
            }
        }
        self.application(end);
        let before = self.segments.len();
        self.pump(end);
        let is_due = self.is_prompt || !brought || self.random.chance(0.5);
        let acknowledges = to > from && (is_due || !self.ends[end].ahead.is_empty());
        if self.segments.len() == before && (acknowledges || self.is_over(end)) && to > from {
            let at = self.ends[end].sent;
            self.send(end, at, at);
        }
    }

    /// Whether the other end waits for nothing but an acknowledgement.
    fn is_over(&self, end: usize) -> bool {
        self.ends[end].received == self.ends[1 - end].written()
    }

    /// What the programs at the ends do with records that have come.
    fn application(&mut self, end: usize) {
        let other = 1 - end;
        while let Some(&record_end) = self.ends[other].record_ends.get(self.taken[end])
            && record_end <= self.ends[end].received
        {
            let record = self.taken[end];
            self.taken[end] += 1;
            if end == 1 {
                let took_ns = 1_000 + self.random.below(400_000) as i64;
                self.plan(took_ns, Event::Done(record));
            }
        }
        let exchanges = self.exchanges;
        if end == 0 && self.ends[0].received > 0 {
            while self.called < exchanges.len() && self.called - self.taken[0] < self.depth {
                self.ends[0].write(&exchanges[self.called].call);
                self.called += 1;
            }
            self.ends[0].is_closing = self.taken[0] == exchanges.len();
        }
        let client = &self.ends[0];
        let has_fin = client.is_closing && self.ends[1].received == client.written();
        self.ends[1].is_closing |= has_fin;
    }

    /// Sends what may be sent and was not.
    fn pump(&mut self, end: usize) {
        loop {
            let this = &self.ends[end];
            let is_open = this.received > 0 && (end == 1 || this.sent > 0);
            let to = this.written().min(this.acknowledged + WINDOW);
            if !is_open || to <= this.sent {
                return;
            }
            let from = this.sent;
            // A SYN goes alone.
            let most = if from == 0 { 1 } else { self.cut() };
            self.send(end, from, to.min(from + most));
        }
    }

    fn cut(&mut self) -> usize {
        match self.random.chance(0.8) {
            true => self.mss,
            false => 1 + self.random.below(self.mss as u64) as usize,
        }
    }

    /// Sends the first unacknowledged part again, perhaps cut otherwise.
    fn send_again(&mut self, end: usize) {
        let from = self.ends[end].acknowledged;
        let most = if from == 0 { 1 } else { self.cut() };
        let to = self.ends[end].sent.min(from + most);
        self.repeated += 1;
        self.send(end, from, to);
    }

    /// Sends a segment on its way past the tap.
    fn send(&mut self, end: usize, from: usize, to: usize) {
        let acknowledged = self.ends[end].received;
        let this = &mut self.ends[end];
        this.sent = this.sent.max(to);
        this.identification = this.identification.wrapping_add(1);
        if to > from {
            this.waits_since = self.now;
            self.plan(TIMEOUT_NS, Event::Waited(end, self.now));
        }
        let segment = Segment {
            from,
            to,
            acknowledged,
        };
        self.segments.push(segment);
        let number = self.segments.len() - 1;
        let (conditions, random) = (&self.conditions, &mut self.random);
        let Some(to_tap_ns) = leg(conditions, random) else {
            return;
        };
        if self.tap.sees(conditions, random) {
            let seen = &mut self.seen[end];
            seen.resize(seen.len().max(to), false);
            seen[from..to].fill(true);
            let bytes = self.frame(end, &segment);
            self.tap
                .record(&self.conditions, end, self.now + to_tap_ns, bytes);
        }
        if let Some(from_tap_ns) = leg(&self.conditions, &mut self.random) {
            self.plan(to_tap_ns + from_tap_ns, Event::Arrives(1 - end, number));
        }
    }

    fn frame(&self, end: usize, segment: &Segment) -> Vec<u8> {
        let (this, other) = (&self.ends[end], &self.ends[1 - end]);
        let len = this.stream.len();
        let carries = |place| (segment.from..segment.to).contains(&place);
        let (is_syn, is_fin) = (carries(0), carries(len + 1));
        let mut flags = TcpFlags(0);
        flags = if is_syn { flags | TcpFlags::SYN } else { flags };
        flags = if is_fin { flags | TcpFlags::FIN } else { flags };
        flags = match segment.acknowledged > 0 {
            true => flags | TcpFlags::ACK,
            false => flags,
        };
        let place = |place: usize| place.saturating_sub(1).min(len);
        let addresses = addresses(self.conditions.is_ipv6);
        let ports = [PORT, SERVER_PORT];
        let fields = TcpFields {
            source_port: ports[end],
            destination_port: ports[1 - end],
            sequence: this.isn.wrapping_add(segment.from as u32),
            acknowledgement: match segment.acknowledged {
                0 => 0,
                places => other.isn.wrapping_add(places as u32),
            },
            flags,
            ..TcpFields::default()
        };
        FrameBuilder::new(addresses[end], addresses[1 - end])
            .with_identification(this.identification.into())
            .tcp(
                &fields,
                &this.stream[place(segment.from)..place(segment.to)],
            )
    }

    fn scene(self) -> Scene {
        for end in 0..2 {
            let written = self.ends[end].written();
            assert_eq!(
                self.ends[1 - end].received,
                written,
                "the connection came to its end: {:?}",
                self.conditions
            );
        }
        let is_whole = (0..2).all(|end| {
            let bytes = 1..=self.ends[end].stream.len();
            let seen = &self.seen[end];
            bytes.into_iter().all(|at| seen.get(at) == Some(&true))
        });
        let missed = self.tap.missed;
        let frames = self.tap.frames();
        let flags_at = if self.conditions.is_ipv6 { 67 } else { 47 };
        let has = |(_, frame): &(u16, Frame), flag: TcpFlags| frame.bytes[flags_at] & flag.0 != 0;
        let begins = frames
            .first()
            .is_some_and(|first| has(first, TcpFlags::SYN));
        Scene {
            is_whole,
            is_bounded: begins && frames.iter().any(|frame| has(frame, TcpFlags::FIN)),
            missed,
            repeated: self.repeated,
            frames,
        }
    }
}

/// How long a leg takes; `None` if it loses the frame.
fn leg(conditions: &Conditions, random: &mut Random) -> Option<i64> {
    if random.chance(conditions.loss) {
        return None;
    }
    let late_ns = match random.chance(conditions.reordered) {
        true => random.below(DELAY_MAX_NS) as i64,
        false => 0,
    };
    // Without a delay, nothing overtakes what was sent before.
    Some(LEG_NS + late_ns)
}

/// The tap: what it recorded and what it missed.
#[derive(Debug, Default)]
struct Tap {
    recorded: Vec<(u16, Frame)>,
    passed: usize,
    missed: usize,
}

impl Tap {
    /// Whether it sees the next frame.
    fn sees(&mut self, conditions: &Conditions, random: &mut Random) -> bool {
        self.passed += 1;
        let is_missed = self.passed <= conditions.skipped || random.chance(conditions.missed);
        self.missed += usize::from(is_missed);
        !is_missed
    }

    fn record(&mut self, conditions: &Conditions, end: usize, now: i64, bytes: Vec<u8>) {
        let (input, skew_ns) = match conditions.skew_ns {
            Some(skew_ns) if end == 1 => (1, skew_ns),
            _ => (0, 0),
        };
        let frame = Frame {
            stamp_ns: Some(now + skew_ns),
            wire_len: bytes.len() as u32,
            link_type: 1,
            bytes,
        };
        self.recorded.push((input, frame));
    }

    fn frames(mut self) -> Vec<(u16, Frame)> {
        self.recorded.sort_by_key(|(_, frame)| frame.stamp_ns);
        self.recorded
    }
}
