use lineside_account::{Budget, Lease};
use lineside_filter::Filter;
use lineside_frame::{Burst, Frame};
use lineside_link::{Departure, Link, LinkCounters, Settings};
use lineside_measure::{LateCounts, SignedTimes, Times};
use lineside_time::Nanoseconds;

use crate::changes::{self, Change};
use crate::kinds::Kinds;
use crate::{ChangeReport, SettingsWords};

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
    /// Its class: see [`Path::tell_apart`].
    pub class: u8,
    /// As [`Departure::changes`] has it.
    pub changes: u16,
}

impl From<&Departure<Frame>> for Leaving {
    fn from(departure: &Departure<Frame>) -> Self {
        Self {
            entered_ns: departure.entered_ns,
            at_ns: departure.at_ns,
            class: departure.class,
            changes: departure.changes,
        }
    }
}

/// Two links, and what became of the frames that left them.
#[derive(Debug)]
pub struct Path {
    links: [Link<Frame>; 2],
    kinds: [Kinds; 2],
    seed: u64,
    began_ns: Option<Nanoseconds>,
    sent: [Sent; 2],
    /// Of the frames that came before the latest change, if there was one.
    sent_before: [Option<Sent>; 2],
    changes: Vec<Change>,
    budget: Budget,
    /// For frames under way, and for the accounts of frames that are told apart.
    leases: Vec<Lease>,
}

/// There is no memory left for the account of a change, or of frames told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory is left to account for it: give more with --memory")]
pub struct NoMemory;

/// Frames that left, as the caller says.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) residence: Times,
    /// The same of kinds 1, 2, ...
    pub(crate) residence_by_kind: Vec<Times>,
    pub(crate) difference: SignedTimes,
    pub(crate) late: LateCounts,
    pub(crate) lateness_max_ns: i64,
}

impl Sent {
    fn new(kinds: usize) -> Self {
        let mut sent = Self::default();
        sent.residence_by_kind
            .resize_with(kinds - 1, Times::default);
        sent
    }

    /// What it takes.
    fn memory_bytes(kinds: usize) -> usize {
        (kinds + 1) * Times::MEMORY_BYTES
    }

    #[inline]
    fn record(&mut self, departure: &Leaving, sent_ns: Nanoseconds) {
        let residence_ns = sent_ns.saturating_sub(departure.entered_ns);
        let other = usize::from(departure.class).checked_sub(1);
        match other.and_then(|other| self.residence_by_kind.get_mut(other)) {
            Some(residence) => residence.record(residence_ns),
            None => self.residence.record(residence_ns),
        }
        let late_ns = sent_ns.saturating_sub(departure.at_ns);
        self.difference.record(late_ns);
        self.late.record(late_ns);
        self.lateness_max_ns = self.lateness_max_ns.max(late_ns);
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
            began_ns: None,
            sent: Default::default(),
            sent_before: Default::default(),
            changes: Vec::new(),
            budget: budget.clone(),
            leases: vec![lease],
        })
    }

    /// Treats frames of a direction differently by what they match: `settings` says what befalls those that match a set of the filters, a bit
    /// each, at most [`EXPRESSIONS_MAX`](crate::EXPRESSIONS_MAX). What befalls those that match none, and state, rate and limit of all, stay
    /// as they are. To be called before the first frame, once. The account of each set is drawn on the budget.
    pub fn tell_apart(
        &mut self,
        direction: Direction,
        filters: Vec<Filter>,
        settings: impl Fn(usize) -> Settings,
    ) -> Result<(), NoMemory> {
        let kinds = Kinds::new(filters);
        let bytes = Sent::memory_bytes(kinds.count() - 1);
        let lease = { kinds.count() > 1 }.then(|| self.budget.lease(bytes).ok_or(NoMemory));
        self.leases.extend(lease.transpose()?);
        let others = (1..kinds.count()).map(settings).collect();
        self.sent[direction as usize] = Sent::new(kinds.count());
        self.links[direction as usize].add_classes(others, self.seed, direction as u16);
        self.kinds[direction as usize] = kinds;
        Ok(())
    }

    /// What repeats in time counts from `now` on; without this, from each direction's first frame on.
    pub fn begin(&mut self, now: Nanoseconds) {
        self.began_ns = Some(now);
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
            link.push_class(kind, at_ns, frame, out);
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

    /// Changes settings at `now`, by [`Direction`]: for frames that match none of the expressions, and for those that match each set of them,
    /// as [`tell_apart`](Self::tell_apart) has it. Frames that are under way stay. The certificate tells the time before apart, whose
    /// account is drawn on the budget; if that does not bear it, nothing changes.
    pub fn change(
        &mut self,
        now: Nanoseconds,
        settings: [Option<&[Settings]>; 2],
        out: &mut Departures,
    ) -> Result<(), NoMemory> {
        let mut leases = [None, None];
        for direction in Direction::BOTH {
            if let Some(settings) = settings[direction as usize] {
                leases[direction as usize] = Some(self.lease(direction, settings)?);
            }
        }
        for (direction, lease) in Direction::BOTH.into_iter().zip(leases) {
            if let (Some(settings), Some(lease)) = (settings[direction as usize], lease) {
                self.change_direction(now, direction, settings, lease, out);
            }
        }
        Ok(())
    }

    fn lease(&self, direction: Direction, settings: &[Settings]) -> Result<Lease, NoMemory> {
        let index = direction as usize;
        let kinds = self.kinds[index].count();
        assert_eq!(settings.len(), kinds, "each kind has settings");
        let mut bytes = changes::memory_bytes(&self.links[index], settings);
        if self.sent_before[index].is_none() {
            bytes += Sent::memory_bytes(kinds) + changes::OPEN_BYTES;
        }
        self.budget.lease(bytes).ok_or(NoMemory)
    }

    fn change_direction(
        &mut self,
        now: Nanoseconds,
        direction: Direction,
        settings: &[Settings],
        lease: Lease,
        out: &mut Departures,
    ) {
        let index = direction as usize;
        // What is due by now leaves under the old settings.
        self.links[index].on_timer(now, &mut out[index]);
        let sent = Sent::new(settings.len());
        let sent = std::mem::replace(&mut self.sent[index], sent);
        let before = self.sent_before[index].replace(sent);
        let mut earlier = self.changes.iter_mut().rev();
        let latest = earlier.find(|change| change.direction == direction);
        let counters = match (latest, before) {
            (Some(latest), Some(before)) => {
                latest.close(&before);
                latest.counters
            }
            _ => LinkCounters::default(),
        };
        let (link, names) = (&mut self.links[index], self.kinds[index].names());
        let sent = self.sent_before[index].get_or_insert_default();
        let mut change = Change::of(now, link, sent, names, direction, &counters, lease);
        link.change(now, settings.iter().cloned(), &mut out[index]);
        change.report.after_ns = self.began_ns.map(|began_ns| now - began_ns);
        change.report.after = SettingsWords::of(link.settings(), link.limit());
        self.changes.push(change);
    }

    /// The changes so far.
    pub fn changes(&self) -> Vec<ChangeReport> {
        let report = |(at, change): (usize, &Change)| {
            let mut report = change.report.clone();
            let is_latest =
                { self.changes[at + 1..].iter() }.all(|later| later.direction != change.direction);
            if let Some(sent) = &self.sent_before[change.direction as usize]
                && is_latest
            {
                report.delays.realise(sent);
            }
            report
        };
        self.changes.iter().enumerate().map(report).collect()
    }

    /// What holds in a direction, in words.
    pub fn settings_words(&self, direction: Direction) -> SettingsWords {
        let link = self.link(direction);
        SettingsWords::of(link.settings(), link.limit())
    }

    /// A departure was sent at `sent_ns`, by the clock of `now`: its residence and lateness go into the certificate.
    #[inline]
    pub fn on_sent(&mut self, direction: Direction, departure: &Leaving, sent_ns: Nanoseconds) {
        let index = direction as usize;
        let came_before = departure.changes != self.links[index].changes();
        let sent = match &mut self.sent_before[index] {
            Some(before) if came_before => before,
            _ => &mut self.sent[index],
        };
        sent.record(departure, sent_ns);
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
