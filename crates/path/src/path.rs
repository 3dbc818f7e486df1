use lineside_account::{Budget, Lease};
use lineside_filter::Filter;
use lineside_frame::{Burst, Frame};
use lineside_link::{Departure, Link, Settings, Spread, Times};
use lineside_time::Nanoseconds;

use crate::kinds::Kinds;

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first side, the inside, to the second.
    Outbound = 0,
    /// From the second side to the first.
    Inbound = 1,
}

impl Direction {
    /// Both, the first one first.
    pub const BOTH: [Self; 2] = [Self::Outbound, Self::Inbound];

    /// Its name in words and certificates.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
        }
    }
}

/// What leaves, by [`Direction`], each in order of its instants.
pub type Departures = [Vec<Departure<Frame>>; 2];

/// The account of a frame that leaves: when it came, and when it is to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// When it came.
    pub entered_ns: Nanoseconds,
    /// When it is to leave.
    pub at_ns: Nanoseconds,
    /// Its kind: see [`Path::tell_apart`].
    pub kind: u8,
}

impl From<&Departure<Frame>> for Leaving {
    fn from(departure: &Departure<Frame>) -> Self {
        Self {
            entered_ns: departure.entered_ns,
            at_ns: departure.at_ns,
            kind: departure.kind,
        }
    }
}

/// Bounds above which late frames are counted.
pub const LATE_NS: [i64; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// Two links, and what became of the frames that left them.
#[derive(Debug)]
pub struct Path {
    links: [Link<Frame>; 2],
    kinds: [Kinds; 2],
    seed: u64,
    sent: [Sent; 2],
    _lease: Lease,
}

/// Frames that left, as the caller says.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) residence: Times,
    /// The same of kinds 1, 2, ...
    pub(crate) residence_by_kind: Vec<Times>,
    pub(crate) difference: Signed,
    /// By [`LATE_NS`].
    pub(crate) late: [u64; 4],
    pub(crate) lateness_max_ns: i64,
}

/// Times of which some lie before 0: to 0.1 us, those of a tenth of a millisecond and more to 0.1 %.
#[derive(Debug, Default)]
pub(crate) struct Signed(Times);

impl Signed {
    /// What lies further before 0 than this counts as this: no release begins so early.
    const LEAST_NS: i64 = -100_000;

    fn record(&mut self, time_ns: i64) {
        self.0.record(time_ns - Self::LEAST_NS);
    }

    pub(crate) fn spread(&self) -> Option<Spread> {
        let mut spread = self.0.spread()?;
        spread.mean_ns += Self::LEAST_NS as f64;
        for value in [
            &mut spread.min_ns,
            &mut spread.p01_ns,
            &mut spread.p10_ns,
            &mut spread.p50_ns,
            &mut spread.p90_ns,
            &mut spread.p99_ns,
            &mut spread.p999_ns,
            &mut spread.max_ns,
        ] {
            *value += Self::LEAST_NS;
        }
        Some(spread)
    }
}

impl Path {
    /// A path with these links, by [`Direction`]. `memory_bytes` for the frames under way, half in each direction, are drawn
    /// on `budget`; `None` if it does not bear them.
    pub fn new(
        settings: [Settings; 2],
        seed: u64,
        memory_bytes: usize,
        budget: &Budget,
    ) -> Option<Self> {
        let lease = budget.lease(memory_bytes)?;
        let [outbound, inbound] = settings;
        Some(Self {
            links: [
                Link::new(outbound, seed, Direction::Outbound as u16, memory_bytes / 2),
                Link::new(inbound, seed, Direction::Inbound as u16, memory_bytes / 2),
            ],
            kinds: Default::default(),
            seed,
            sent: Default::default(),
            _lease: lease,
        })
    }

    /// Treats frames of a direction differently by what they match: `settings` says what befalls those that match a set of the filters, a bit
    /// each, at most [`EXPRESSIONS_MAX`](crate::EXPRESSIONS_MAX). What befalls those that match none, and state, rate and limit of all, stay
    /// as they are. To be called before the first frame, once.
    pub fn tell_apart(
        &mut self,
        direction: Direction,
        filters: Vec<Filter>,
        settings: impl Fn(usize) -> Settings,
    ) {
        let (kinds, others) = Kinds::new(filters, settings);
        let sent = &mut self.sent[direction as usize];
        sent.residence_by_kind
            .resize_with(others.len(), Times::default);
        self.links[direction as usize].add_kinds(others, self.seed, direction as u16);
        self.kinds[direction as usize] = kinds;
    }

    /// What repeats in time counts from `now` on; without this, from each direction's first frame on.
    pub fn begin(&mut self, now: Nanoseconds) {
        self.links.iter_mut().for_each(|link| link.begin(now));
    }

    /// Frames came on their way `direction`: all of `burst`, each when its stamp says, or now if it has none or a later one.
    /// What is due by then, and by `now`, leaves in that direction.
    pub fn on_burst(
        &mut self,
        now: Nanoseconds,
        direction: Direction,
        burst: &mut Burst,
        out: &mut Departures,
    ) {
        let (link, out) = (
            &mut self.links[direction as usize],
            &mut out[direction as usize],
        );
        let kinds = &mut self.kinds[direction as usize];
        for frame in burst.drain(..) {
            let at_ns = frame.descriptor().stamp_ns.unwrap_or(now).min(now);
            let kind = kinds.kind(&frame);
            link.push_as(kind, at_ns, frame, out);
        }
        link.on_timer(now, out);
    }

    /// What is due by `now` leaves. To be called at [`next_deadline`](Self::next_deadline).
    pub fn on_timer(&mut self, now: Nanoseconds, out: &mut Departures) {
        for (link, out) in self.links.iter_mut().zip(out) {
            link.on_timer(now, out);
        }
    }

    /// When the next frame leaves.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        self.links.iter().filter_map(Link::next_deadline).min()
    }

    /// Changes a direction's settings; frames that are under way stay.
    pub fn change(
        &mut self,
        now: Nanoseconds,
        direction: Direction,
        settings: Settings,
        out: &mut Departures,
    ) {
        self.links[direction as usize].change(now, settings, &mut out[direction as usize]);
    }

    /// A departure was sent at `sent_ns`, by the clock of `now`: its residence and lateness go into the certificate.
    #[inline]
    pub fn on_sent(&mut self, direction: Direction, departure: &Leaving, sent_ns: Nanoseconds) {
        let sent = &mut self.sent[direction as usize];
        let residence_ns = sent_ns.saturating_sub(departure.entered_ns);
        let other = usize::from(departure.kind).checked_sub(1);
        match other.and_then(|other| sent.residence_by_kind.get_mut(other)) {
            Some(residence) => residence.record(residence_ns),
            None => sent.residence.record(residence_ns),
        }
        let late_ns = sent_ns.saturating_sub(departure.at_ns);
        sent.difference.record(late_ns);
        if late_ns > LATE_NS[0] {
            for (count, bound) in sent.late.iter_mut().zip(LATE_NS) {
                *count += u64::from(late_ns > bound);
            }
        }
        sent.lateness_max_ns = sent.lateness_max_ns.max(late_ns);
    }

    /// Copies frames that are under way out of the memory of the port that they came from (rule 3).
    pub fn spill(&mut self) {
        self.links.iter_mut().for_each(Link::spill);
    }

    /// The link of a direction.
    pub fn link(&self, direction: Direction) -> &Link<Frame> {
        &self.links[direction as usize]
    }

    /// What the frames of kinds 1, 2, ... of a direction match.
    pub(crate) fn kind_names(&self, direction: Direction) -> &[String] {
        self.kinds[direction as usize].names()
    }

    /// The seed of all draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn sent(&self, direction: Direction) -> &Sent {
        &self.sent[direction as usize]
    }
}
