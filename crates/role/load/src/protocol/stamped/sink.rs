//! Where stamped datagrams of one way end: what the path did to them, by their numbers and stamps.

use std::collections::HashMap;

use lineside_time::Nanoseconds;

use super::header::{StampedHeader, Verb};
use crate::application::End;
use crate::one_way::SinkFigures;
use crate::protocol::DatagramServer;

/// Numbers below a flow's highest of which it is known whether they came: 16 KiB a flow. At 100,000
/// datagrams a second they are 40 ms.
const WINDOW: u64 = 4_096;

/// A sink: it counts what comes, and answers nothing.
pub struct SinkDatagrams {
    flows: Vec<Flow>,
    /// By run and flow, the place of one.
    places: HashMap<(u64, u32), u32>,
    /// The one to which the last datagram belonged.
    last: u32,
    flows_max: usize,
    clock: u64,
    ahead_ns: i64,
    totals: SinkFigures,
}

/// What came of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowFigures {
    /// Names the run.
    pub run: u64,
    /// Names the flow within the run.
    pub flow: u32,
    /// Where its first datagram came from.
    pub from: End,
    /// Datagrams that came, each once.
    pub received: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Numbers below the highest that came which did not come. What was lost behind the last
    /// datagram that came only its sender can know.
    pub lost: u64,
    /// Datagrams that came again.
    pub duplicates: u64,
    /// Of those received, which came after one with a higher number: RFC 4737, 3.3.
    pub reordered: u64,
    /// How many came between a reordered one and the first that should have come after it, at
    /// most, the latter counted: RFC 4737, 4.2.1.
    pub extent_max: u64,
    /// Datagrams so far below the highest number that it is not known whether they had come before;
    /// they count as lost, too.
    pub beyond: u64,
    /// Interarrival jitter at the end: RFC 3550, 6.4.1 and A.8. Clocks that differ do not matter.
    pub jitter_ns: u64,
    /// When the first one came.
    pub first_ns: Nanoseconds,
    /// When the last one came.
    pub last_ns: Nanoseconds,
}

/// A flow as it is kept.
struct Flow {
    figures: FlowFigures,
    /// One more than the highest number that came.
    next: u64,
    /// By a number within the window: 0, it came; otherwise, one more than the place, in the order
    /// of arrivals, of the first datagram with a higher number.
    window: Box<[u32]>,
    /// What the last one took, by clocks that may differ.
    transit_ns: i64,
    /// 16 times the jitter: RFC 3550, A.8.
    jitter: i64,
}

/// What a number is to its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Again,
    Beyond,
}

impl Flow {
    fn new(header: &StampedHeader, from: End, at: Nanoseconds) -> Self {
        let figures = FlowFigures {
            run: header.run,
            flow: header.flow,
            from,
            received: 0,
            bytes: 0,
            lost: 0,
            duplicates: 0,
            reordered: 0,
            extent_max: 0,
            beyond: 0,
            jitter_ns: 0,
            first_ns: at,
            last_ns: at,
        };
        Self {
            figures,
            next: 0,
            window: vec![0; WINDOW as usize].into(),
            transit_ns: 0,
            jitter: 0,
        }
    }

    /// Notes the order of a number.
    fn place(&mut self, number: u64) -> Place {
        let index = self.figures.received as u32;
        if number >= self.next {
            // Those in between are missing, and this one comes before them.
            for missing in self.next.max(number.saturating_sub(WINDOW - 1))..number {
                self.window[(missing % WINDOW) as usize] = index.wrapping_add(1).max(1);
            }
            self.window[(number % WINDOW) as usize] = 0;
            self.next = number.saturating_add(1);
            return Place::First;
        }
        if self.next - number > WINDOW {
            self.figures.beyond += 1;
            return Place::Beyond;
        }
        let entry = &mut self.window[(number % WINDOW) as usize];
        match std::mem::take(entry) {
            0 => {
                self.figures.duplicates += 1;
                Place::Again
            }
            first => {
                self.figures.reordered += 1;
                let extent = index.wrapping_sub(first - 1).into();
                self.figures.extent_max = self.figures.extent_max.max(extent);
                Place::First
            }
        }
    }

    /// Notes what one took; returns how that differs from the one before.
    fn time(&mut self, transit_ns: i64) -> Option<i64> {
        let before_ns = std::mem::replace(&mut self.transit_ns, transit_ns);
        if self.figures.received == 0 {
            return None;
        }
        /// A step of a clock counts for no more than this: it keeps what follows from overflowing.
        const STEP_MAX_NS: i64 = 1 << 50;
        let difference_ns = transit_ns.saturating_sub(before_ns).saturating_abs();
        let difference_ns = difference_ns.min(STEP_MAX_NS);
        //= RFC 3550, A.8
        //# s->jitter += d - ((s->jitter + 8) >> 4);
        self.jitter += difference_ns - ((self.jitter + 8) >> 4);
        Some(difference_ns)
    }

    fn figures(&self) -> FlowFigures {
        FlowFigures {
            lost: self.next.saturating_sub(self.figures.received),
            jitter_ns: (self.jitter >> 4) as u64,
            ..self.figures
        }
    }
}

impl SinkDatagrams {
    /// A sink that keeps up to `flows_max` flows apart, each in 16 KiB. Delays are measured of
    /// datagrams that are stamped by `clock`; the loop's time is `ahead_ns` ahead of it.
    pub fn new(flows_max: usize, clock: u64, ahead_ns: i64) -> Self {
        Self {
            flows: Vec::new(),
            places: HashMap::new(),
            last: u32::MAX,
            flows_max,
            clock,
            ahead_ns,
            totals: SinkFigures::default(),
        }
    }

    /// Each flow so far, in the order in which they began.
    pub fn flows(&self) -> impl Iterator<Item = FlowFigures> {
        self.flows.iter().map(Flow::figures)
    }

    /// What came so far.
    pub fn figures(&self) -> SinkFigures {
        let mut figures = self.totals.clone();
        for flow in self.flows() {
            figures.received += flow.received;
            figures.bytes += flow.bytes;
            figures.lost = figures.lost.saturating_add(flow.lost);
            figures.duplicates += flow.duplicates;
            figures.reordered += flow.reordered;
            figures.extent_max = figures.extent_max.max(flow.extent_max);
            figures.beyond += flow.beyond;
            let (sum, most) = figures.jitter_ns;
            let sum = sum.saturating_add(flow.jitter_ns);
            figures.jitter_ns = (sum, most.max(flow.jitter_ns));
        }
        figures.flows = self.flows.len() as u64;
        figures
    }

    /// The place of a flow, which begins if it is new.
    fn flow(&mut self, header: &StampedHeader, from: End, at: Nanoseconds) -> Option<usize> {
        let is_it =
            |flow: &Flow| (flow.figures.run, flow.figures.flow) == (header.run, header.flow);
        if { self.flows.get(self.last as usize) }.is_some_and(is_it) {
            return Some(self.last as usize);
        }
        let key = (header.run, header.flow);
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None if self.flows.len() < self.flows_max => {
                let place = self.flows.len() as u32;
                self.places.insert(key, place);
                self.flows.push(Flow::new(header, from, at));
                place
            }
            None => return None,
        };
        self.last = place;
        Some(place as usize)
    }
}

impl DatagramServer for SinkDatagrams {
    fn read(&mut self, ends: [End; 2], at: Nanoseconds, bytes: &[u8], _: &mut Vec<u8>) -> bool {
        self.totals.datagrams += 1;
        let header = StampedHeader::parse(bytes).filter(|header| header.verb == Verb::OneWay);
        let Some(header) = header else {
            self.totals.foreign += 1;
            return false;
        };
        if !header.has_padding(bytes) {
            self.totals.corrupt += 1;
            return false;
        }
        let Some(place) = self.flow(&header, ends[1], at) else {
            self.totals.unkept += 1;
            return false;
        };
        let span = self.totals.span_ns.get_or_insert((at, at));
        *span = (span.0.min(at), span.1.max(at));
        let flow = &mut self.flows[place];
        if flow.place(header.number) != Place::First {
            return true;
        }
        let transit_ns = (at - self.ahead_ns).saturating_sub(header.stamp_ns);
        if let Some(difference_ns) = flow.time(transit_ns) {
            self.totals.variations.record(difference_ns);
        }
        if self.clock != 0 && header.clock == self.clock {
            self.totals.delays.record(transit_ns);
            self.totals.early += u64::from(transit_ns < 0);
        }
        flow.figures.received += 1;
        flow.figures.bytes += bytes.len() as u64;
        flow.figures.last_ns = flow.figures.last_ns.max(at);
        true
    }
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;

    use super::*;
    use crate::protocol::{DatagramClient, EchoDatagrams, Numbered, Request, Stamped};
    use lineside_workload::{Sizes, Unit};

    /// A datagram on its way: when it arrives, its number, and its bytes.
    type Arrival = (Nanoseconds, u64, Vec<u8>);

    const CLOCK: u64 = 5;
    const AHEAD_NS: i64 = 1_000_000_000_000;

    /// What a path makes of datagrams of one flow: some lost, doubled, or late.
    fn arrivals(random: &mut Random, flow: u32, count: u64) -> Vec<Arrival> {
        let sizes = Sizes::constant(100, Unit::Bytes);
        let mut client = Stamped::new(sizes, 1, 7, false).with_clock(CLOCK, AHEAD_NS);
        let mut arrivals = Vec::new();
        let mut copies = 0;
        for number in 0..count {
            let leaves_ns = AHEAD_NS + 10_000 * number as i64;
            let request = Request {
                ordinal: number,
                slot: flow,
            };
            let mut bytes = vec![0; 100];
            client.write(Numbered { request, number }, leaves_ns, &mut bytes);
            if random.chance(0.05) {
                continue;
            }
            copies += 1;
            for _ in 0..1 + u8::from(random.chance(0.03)) {
                let late_ns = if random.chance(0.1) {
                    random.below(900_000)
                } else {
                    0
                };
                let took_ns = 50_000 + random.below(2_000) + late_ns;
                arrivals.push((leaves_ns + took_ns as i64, number, bytes.clone()));
            }
        }
        assert!(copies > count / 2);
        arrivals.sort_by_key(|&(at, ..)| at);
        arrivals
    }

    /// The figures by their definitions, from all arrivals at once.
    fn by_definition(arrivals: &[Arrival]) -> FlowFigures {
        let mut firsts: Vec<(Nanoseconds, u64)> = Vec::new();
        for &(at, number, _) in arrivals {
            if !firsts.iter().any(|&(_, before)| before == number) {
                firsts.push((at, number));
            }
        }
        let numbers: Vec<u64> = firsts.iter().map(|&(_, number)| number).collect();
        let mut extents = Vec::new();
        for (i, &number) in numbers.iter().enumerate() {
            // RFC 4737, 4.2.1: e = i - j for the smallest j with s[j] > s[i].
            if let Some(j) = { numbers[..i].iter() }.position(|&earlier| earlier > number) {
                extents.push((i - j) as u64);
            }
        }
        // RFC 3550, 6.4.1: J(i) = J(i-1) + (|D(i-1,i)| - J(i-1))/16, here without rounding.
        let transit =
            |&(at, number): &(Nanoseconds, u64)| (at - AHEAD_NS - 10_000 * number as i64) as f64;
        let jitter = { firsts.windows(2) }.fold(0.0, |jitter: f64, pair| {
            let difference = (transit(&pair[1]) - transit(&pair[0])).abs();
            jitter + (difference - jitter) / 16.0
        });
        let highest = numbers.iter().max().map_or(0, |highest| highest + 1);
        FlowFigures {
            run: 7,
            flow: 0,
            from: ("10.0.0.9".parse().expect("an address"), 9),
            received: numbers.len() as u64,
            bytes: 100 * numbers.len() as u64,
            lost: highest - numbers.len() as u64,
            duplicates: (arrivals.len() - numbers.len()) as u64,
            reordered: extents.len() as u64,
            extent_max: extents.into_iter().max().unwrap_or(0),
            beyond: 0,
            jitter_ns: jitter as u64,
            first_ns: firsts[0].0,
            last_ns: firsts.last().map_or(0, |&(at, _)| at),
        }
    }

    #[test]
    fn figures_are_those_of_their_definitions() {
        let from = ("10.0.0.9".parse().expect("an address"), 9);
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let mut sink = SinkDatagrams::new(2, CLOCK, AHEAD_NS);
            let flows = [0, 1].map(|flow| arrivals(&mut random, flow, 1_500));
            let mut all: Vec<(u32, Arrival)> = { 0.. }
                .zip(flows.clone())
                .flat_map(|(flow, arrivals)| arrivals.into_iter().map(move |each| (flow, each)))
                .collect();
            all.sort_by_key(|&(_, (at, ..))| at);
            let mut answer = Vec::new();
            for (_, (at, _, bytes)) in &all {
                assert!(sink.read([from; 2], *at, bytes, &mut answer));
            }
            assert!(answer.is_empty());
            for figures in sink.flows() {
                let expected = FlowFigures {
                    flow: figures.flow,
                    ..by_definition(&flows[figures.flow as usize])
                };
                let rounding_ns = figures.jitter_ns.abs_diff(expected.jitter_ns);
                assert!(rounding_ns <= 2, "{figures:?} {expected:?}");
                let figures = FlowFigures {
                    jitter_ns: expected.jitter_ns,
                    ..figures
                };
                assert_eq!(figures, expected, "seed {seed}");
                assert!(figures.reordered > 0 && figures.extent_max > 1 && figures.lost > 0);
            }
            let totals = sink.figures();
            assert_eq!(totals.broken_identity(), None);
            assert_eq!(totals.delays.count(), totals.received);
            assert_eq!(totals.variations.count(), totals.received - 2);
            assert!(
                totals
                    .delays
                    .min_ns()
                    .is_some_and(|least| (50_000..50_100).contains(&least))
            );
            assert!(totals.delays.max_ns().is_some_and(|most| most > 800_000));
        }
    }

    fn datagram(flow: u32, number: u64) -> Vec<u8> {
        let request = Request {
            ordinal: 0,
            slot: flow,
        };
        let mut bytes = vec![0; 60];
        let sizes = Sizes::constant(60, Unit::Bytes);
        Stamped::new(sizes, 1, 7, false).write(Numbered { request, number }, 0, &mut bytes);
        bytes
    }

    /// Anything may come: it has one outcome, and no answer is longer than it.
    #[test]
    fn mutants_have_one_outcome_each() {
        let end = ("::1".parse().expect("an address"), 9);
        let mut sink = SinkDatagrams::new(50, 0, 0);
        let mut echo = EchoDatagrams;
        for seed in 0..20_000 {
            let mut random = Random::new(seed);
            let mut bytes = datagram(random.below(60) as u32, random.below(100));
            for _ in 0..random.below(3) {
                // Rather of the header than of the rest.
                let most = if random.chance(0.8) { 44 } else { 60 };
                let at = random.below(most) as usize;
                bytes[at] = random.bits() as u8;
            }
            if random.chance(0.3) {
                // With the padding that belongs to what it says.
                if let Some(header) = StampedHeader::parse(&bytes) {
                    header.emit(&mut bytes);
                }
            }
            if random.chance(0.1) {
                bytes.truncate(random.below(60) as usize);
            }
            let (at, mut answer) = (random.bits().cast_signed() >> random.below(60), Vec::new());
            sink.read([end; 2], at, &bytes, &mut answer);
            assert!(answer.is_empty());
            echo.read([end; 2], at, &bytes, &mut answer);
            assert!(answer.is_empty() || answer.len() == bytes.len());
        }
        let figures = sink.figures();
        assert_eq!(
            (figures.broken_identity(), figures.datagrams),
            (None, 20_000)
        );
        assert_eq!(figures.flows, 50);
        for count in [
            figures.received,
            figures.beyond,
            figures.corrupt,
            figures.foreign,
        ] {
            assert!(count > 100, "{:?}", sink.flows().next());
        }
        assert!(figures.duplicates > 0 && figures.unkept > 0 && figures.reordered > 0);
    }

    #[test]
    fn what_cannot_be_known_is_counted_apart() {
        let end = ("::1".parse().expect("an address"), 9);
        let mut sink = SinkDatagrams::new(1, CLOCK, 0);
        let mut read = |bytes: &[u8]| sink.read([end; 2], 10, bytes, &mut Vec::new());
        assert!(read(&datagram(3, WINDOW)));
        assert!(read(&datagram(3, 1)), "the window reaches so far");
        assert!(read(&datagram(3, 1)));
        assert!(read(&datagram(3, 0)));
        assert!(!read(&datagram(4, 0)), "another flow");
        assert!(!read(b"LsDg and nothing else"));
        let mut corrupt = datagram(3, 9);
        corrupt[59] ^= 1;
        assert!(!read(&corrupt));
        // A number from a stranger may be any.
        assert!(read(&datagram(3, u64::MAX)));
        let figures = sink.figures();
        assert_eq!(figures.broken_identity(), None);
        let counts = (
            figures.received,
            figures.duplicates,
            figures.beyond,
            figures.reordered,
        );
        assert_eq!(counts, (3, 1, 1, 1));
        assert_eq!(
            (figures.unkept, figures.foreign, figures.corrupt),
            (1, 1, 1)
        );
        assert_eq!(figures.delays.count(), 0, "nobody's clock");
        assert_eq!(figures.lost, u64::MAX - 3);
    }
}
