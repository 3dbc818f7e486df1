//! A path: a chain of elements for the frames of each side, the core between them, observers, and
//! the account of what left.
//!
//! It has no ports and no clock. A driver, in virtual time or between ports, gives it bursts and
//! the time, sends what leaves, and reports when that was.

use lineside_account::{Budget, Lease};
use lineside_filter::Filter;
use lineside_frame::{Burst, Frame};
use lineside_link::{Delay, Departure, Item, Limit, Link, LinkCounters, Patch, Settings};
use lineside_measure::monitor::Point;
use lineside_run::LateLimits;
use lineside_time::Nanoseconds;
use lineside_trace::certificate::link::{ChangeReport, CoreReport, Mark, SettingsWords};

use crate::account::Account;
use crate::chain::Chain;
use crate::changes::{self, Change};
use crate::classify::Classifier;
use crate::element::{Element, LinkReport};
use crate::marks::{MarkError, Marks};
use crate::middle::Middle;
use crate::observe::{Observer, Observers};
use crate::settings_words::settings_words;
use crate::star::{Core, Wire};
use crate::steps::Steps;
use crate::{Departures, Direction, Leaving, SideId};

mod stepping;

/// A path between ports: two of them, where what enters at one leaves at the other, or [as
/// many](Self::star) as a [`Core`] stands between.
#[derive(Debug)]
pub struct Path {
    /// One for each port; with a core that chooses another one for what leaves there.
    sides: Vec<Side>,
    middle: Middle,
    observers: Observers,
    /// Dropped frames are kept until [`observe`](Self::observe), also without an observer.
    keeps_drops: bool,
    seed: u64,
    began_ns: Option<Nanoseconds>,
    changes: Vec<Change>,
    /// The reports of this many changes, the first ones, have been worked out.
    settled: usize,
    /// Accounts for changes to come, which are not made in a hurry.
    spare: Vec<Account>,
    spare_lease: Option<Lease>,
    /// Whether they are worked out only when there is time.
    is_hurried: bool,
    marks: Marks,
    late_limits: LateLimits,
    steps: Steps,
    /// Frames before one that fires a step.
    ahead: Burst,
    budget: Budget,
    /// For frames under way, and for the accounts of classes.
    leases: Vec<Lease>,
}

/// The frames that enter at one side.
#[derive(Debug)]
struct Side {
    /// As certificates name them.
    name: String,
    chain: Chain,
    account: Account,
    /// Of the frames that entered before the latest change, if there was one.
    account_before: Option<Account>,
    /// [`Link::changes`] of the chain's link.
    changes: u16,
    /// Frames that left it and were due at a port that was down, and their bytes.
    unsent: (u64, u64),
}

/// The budget has no memory left for the account of a change, or of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory is left to account for it: give more with --memory")]
pub struct NoMemory;

/// So many changes wait for their reports at most, each with some 700 KiB; the next one works one
/// out.
const OPEN_MAX: usize = 16;

/// Accounts that are ready for the next changes.
const SPARE_MAX: usize = 4;

/// The streams of a link: two for each class that it has from the beginning on.
const STREAMS_MAX: u16 = 128;

impl Path {
    /// Judges how late frames leave by other limits than the usual ones.
    pub fn set_late_limits(&mut self, limits: LateLimits) {
        self.late_limits = limits;
    }

    /// What is borne of frames that leave late.
    pub(crate) fn late_limits(&self) -> LateLimits {
        self.late_limits
    }

    /// A path between two sides with a link for the frames of each, by [`Direction`].
    /// `memory_bytes` for the frames under way, half for each side, are leased from `budget`;
    /// `None` if it has not so much.
    pub fn new(
        settings: [Settings; 2],
        seed: u64,
        memory_bytes: usize,
        budget: &Budget,
    ) -> Option<Self> {
        let names = Direction::BOTH.map(|direction| direction.name().to_owned());
        let middle = Middle::new(Box::new(Wire), names.clone().into());
        let sides = names.into_iter().zip(settings).zip(0..);
        let sides = sides.map(|((name, settings), stream)| (name, settings, stream));
        Self::of(middle, sides.collect(), seed, memory_bytes, budget)
    }

    /// A path between ports of these names with `core` in the middle. `settings` are those of the
    /// links for what comes in by each port, and after them, unless the core [always
    /// knows](Core::always) where frames go, for what leaves by each. Memory as for
    /// [`new`](Self::new), in equal parts, and that of the accounts.
    pub fn star(
        core: Box<dyn Core>,
        ports: Vec<String>,
        settings: Vec<Settings>,
        seed: u64,
        memory_bytes: usize,
        budget: &Budget,
    ) -> Option<Self> {
        let middle = Middle::new(core, ports);
        assert_eq!(settings.len(), middle.chains(), "each chain has settings");
        let accounts = budget.lease(settings.len() * Account::memory_bytes(1))?;
        let sides = settings.into_iter().enumerate();
        let sides = sides.map(|(chain, settings)| {
            let stream = chain as u16 * STREAMS_MAX;
            (middle.chain_name(chain), settings, stream)
        });
        let sides = sides.collect();
        let mut path = Self::of(middle, sides, seed, memory_bytes, budget)?;
        path.leases.push(accounts);
        Some(path)
    }

    fn of(
        middle: Middle,
        sides: Vec<(String, Settings, u16)>,
        seed: u64,
        memory_bytes: usize,
        budget: &Budget,
    ) -> Option<Self> {
        let lease = budget.lease(memory_bytes)?;
        let memory_bytes = memory_bytes / sides.len().max(1);
        let side = |(name, settings, stream)| Side {
            name,
            chain: {
                let link = Link::new(settings, seed, stream, memory_bytes);
                Chain::new(Classifier::of_all(link, seed, stream, budget))
            },
            account: Account::new(1),
            account_before: None,
            changes: 0,
            unsent: (0, 0),
        };
        Some(Self {
            sides: sides.into_iter().map(side).collect(),
            middle,
            observers: Observers::default(),
            keeps_drops: false,
            seed,
            began_ns: None,
            changes: Vec::new(),
            settled: 0,
            spare: Vec::new(),
            spare_lease: None,
            is_hurried: false,
            marks: Marks::default(),
            late_limits: LateLimits::default(),
            steps: Steps::default(),
            ahead: Burst::new(),
            budget: budget.clone(),
            leases: vec![lease],
        })
    }

    /// Gives frames of a side that match expressions other settings: of `patches`, the first one is
    /// for all frames, and the others are for those that match filter 0, 1, ..., of at most
    /// [`EXPRESSIONS_MAX`](crate::EXPRESSIONS_MAX). State, rate and limit of all stay. To be called
    /// before the first frame, once. The accounts of the classes are leased from the budget.
    pub fn classify(
        &mut self,
        side: impl Into<SideId>,
        filters: Vec<Filter>,
        patches: Vec<Patch>,
    ) -> Result<(), NoMemory> {
        if filters.is_empty() {
            return Ok(());
        }
        let count = Classifier::ready(filters.len());
        let delays = patches.iter().filter_map(Patch::delay);
        let delays: usize = delays.map(Delay::memory_bytes).sum();
        let bytes = match count {
            1 => delays,
            count => Account::memory_bytes(count - 1),
        };
        self.leases.push(self.budget.lease(bytes).ok_or(NoMemory)?);
        let side = &mut self.sides[side.into().index()];
        side.chain.classifier_mut().begin_with(filters, patches);
        side.account = Account::new(count);
        Ok(())
    }

    /// Adds an expression for frames of a side, from now on: frames that match keep their settings
    /// until these are [changed](Self::change) for their classes. Steps do to them what
    /// they did before. The accounts of the new classes are leased from the budget; without memory
    /// for them nothing changes.
    ///
    /// # Panics
    ///
    /// If the side has [`EXPRESSIONS_MAX`](crate::EXPRESSIONS_MAX) expressions.
    pub fn add_expression(
        &mut self,
        side: impl Into<SideId>,
        filter: Filter,
    ) -> Result<(), NoMemory> {
        let index = side.into().index();
        let side = &mut self.sides[index];
        let count = side.chain.report().link.classes().len();
        if side.chain.classifier().doubles() {
            let bytes = Account::memory_bytes(count);
            self.leases.push(self.budget.lease(bytes).ok_or(NoMemory)?);
        }
        if side.chain.classifier_mut().add(filter) {
            side.account.grow(2 * count);
            self.steps.classify(index);
        }
        Ok(())
    }

    /// Adds an element that frames of a side pass after those before it. To be called before the
    /// first frame.
    pub fn add_element(&mut self, side: impl Into<SideId>, element: Box<dyn Element>) {
        self.sides[side.into().index()].chain.push(element);
    }

    /// Adds an observer of all sides.
    pub fn add_observer(&mut self, observer: Box<dyn Observer>) {
        self.observers.push(observer);
    }

    /// Keeps frames that are dropped until the end of the turn, for the caller to look at.
    pub(crate) fn keep_drops(&mut self) {
        self.keeps_drops = true;
    }

    fn keeps_drops(&self) -> bool {
        self.keeps_drops || !self.observers.is_empty() || self.watches_behind()
    }

    /// Drops all observers: what they share with others belongs to those alone from now on.
    pub fn drop_observers(&mut self) {
        self.observers = Observers::default();
    }

    /// The sides.
    pub fn sides(&self) -> impl Iterator<Item = SideId> + use<> {
        (0..self.sides.len()).map(SideId::new)
    }

    /// The port by which the frames of a side leave, with two sides the other one; `None` if they
    /// go to the core.
    #[inline]
    pub fn exit(&self, side: SideId) -> Option<SideId> {
        self.middle.exit(side)
    }

    /// The port of a side: the one by which its frames come, or after a core that chooses leave.
    #[inline]
    pub fn port(&self, side: SideId) -> usize {
        let ports = self.middle.ports();
        let index = side.index();
        index.checked_sub(ports).unwrap_or(index)
    }

    /// The name in certificates of the frames that enter at `side`.
    pub fn name(&self, side: impl Into<SideId>) -> &str {
        &self.side(side).name
    }

    /// What the core counted, if it did.
    pub fn core(&self) -> Option<CoreReport> {
        self.middle.report()
    }

    /// A port is gone for good. The core finds other ways, or drops and counts what should leave
    /// there; frames under way to it leave, and it is for the driver to report them as unsent.
    pub fn on_port_gone(&mut self, port: usize) {
        self.middle.on_port_gone(port);
    }

    /// Time of flapping, bursts of loss and schedules counts from `now` on; without this, from each
    /// side's first frame on.
    ///
    /// Steps count from then on too, unless the path [waits](Self::wait_until).
    pub fn begin(&mut self, now: Nanoseconds) {
        self.began_ns = Some(now);
        if !self.steps.waits() {
            self.steps.begin(now);
        }
        let sides = self.sides.iter_mut();
        sides.for_each(|side| side.chain.begin(now));
    }

    /// The time since the beginning, if that was given.
    pub(crate) fn since_begin(&self, now: Nanoseconds) -> Nanoseconds {
        now - self.began_ns.unwrap_or(now)
    }

    /// Frames enter at `side`: all of `burst`, each at its stamp, or now if it has none or a later
    /// one. Frames of this side that are due by then, and by `now`, leave.
    #[inline]
    pub fn on_burst(
        &mut self,
        now: Nanoseconds,
        side: impl Into<SideId>,
        burst: &mut Burst,
        out: &mut Departures,
    ) {
        let side = side.into();
        self.step_on(now, out);
        if self.is_over() {
            burst.clear();
        }
        if self.steps.watches(side.index(), Point::Came) {
            self.enter_watched(now, side, burst, out);
        }
        self.enter(now, side, burst, out);
    }

    #[inline]
    fn enter(&mut self, now: Nanoseconds, side: SideId, burst: &mut Burst, out: &mut Departures) {
        let index = side.index();
        if !self.observers.is_empty() && !burst.is_empty() {
            self.observers.on_arrivals(now, side, burst);
        }
        self.middle.advance(now);
        let out = out.side(index, self.keeps_drops());
        self.sides[index].chain.on_burst(now, burst, out);
    }

    /// Frames that are due by `now` leave, and those that a core sends on enter the chains behind
    /// it. To be called at [`next_deadline`](Self::next_deadline), and after
    /// [`on_burst`](Self::on_burst).
    #[inline]
    pub fn on_timer(&mut self, now: Nanoseconds, out: &mut Departures) {
        self.step_on(now, out);
        if !self.middle.is_straight() {
            self.cross(now, out);
            return;
        }
        let keeps_drops = self.keeps_drops();
        for (index, side) in self.sides.iter_mut().enumerate() {
            side.chain.on_timer(now, out.side(index, keeps_drops));
        }
    }

    /// The same with a core that chooses.
    fn cross(&mut self, now: Nanoseconds, out: &mut Departures) {
        // A chain may have let frames go up to the latest burst: so must the others, or the core
        // would see theirs too late.
        let now = self.middle.advance(now);
        let keeps_drops = self.keeps_drops();
        let ports = self.middle.ports();
        let (before, after) = self.sides.split_at_mut(ports);
        for (port, side) in before.iter_mut().enumerate() {
            let out = out.side(port, keeps_drops);
            side.chain.on_timer(now, out);
            for departure in out.departures.drain(..) {
                let leaving = Leaving::from(&departure);
                side.on_sent(&leaving, leaving.at_ns);
                self.middle.take(port, departure);
            }
        }
        self.middle
            .cross(keeps_drops.then_some(&mut out.core_drops));
        for (port, side) in after.iter_mut().enumerate() {
            let out = out.side(ports + port, keeps_drops);
            side.chain.on_departures(now, self.middle.to(port), out);
        }
    }

    /// When the next frame leaves, or the next step is due.
    #[inline]
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        let deadlines = self.sides.iter().map(|side| side.chain.next_deadline());
        deadlines.flatten().chain(self.steps.next_ns()).min()
    }

    /// Shows all departures and drops to the observers, and forgets the drops: once a turn, before
    /// departures are taken out of `out`. They leave at `now`.
    #[inline]
    pub fn observe(&mut self, now: Nanoseconds, out: &mut Departures) {
        if !self.keeps_drops() && !self.watches_behind() {
            return;
        }
        let mut matching = 0;
        for (side, effects) in out.sides_mut() {
            if !effects.departures.is_empty() {
                self.observers.on_departures(now, side, &effects.departures);
                matching |= self.watch_departures(now, side, &effects.departures);
            }
            matching |= self.watch_drops(side, &effects.drops);
        }
        self.observers.end_turn(now, out);
        self.fire_all(matching, now, out);
    }

    /// Shows one departure to the observers: in virtual time each has an instant of its own.
    #[inline]
    pub(crate) fn observe_one(
        &mut self,
        side: SideId,
        departure: &Departure<Frame>,
        out: &mut Departures,
    ) {
        let (now, one) = (departure.at_ns, std::slice::from_ref(departure));
        self.observers.on_departures(now, side, one);
        let matching = self.watch_departures(now, side, one);
        self.fire_all(matching, now, out);
    }

    /// Shows drops to the observers, and forgets them, after the departures up to `now`.
    pub(crate) fn observe_drops(&mut self, now: Nanoseconds, out: &mut Departures) {
        let mut matching = 0;
        for (side, effects) in out.sides_mut() {
            matching |= self.watch_drops(side, &effects.drops);
        }
        self.observers.end_turn(now, out);
        self.fire_all(matching, now, out);
    }

    /// Changes settings at `now`, by side: those of class 0 and of each other class, as
    /// [`classify`](Self::classify) has them. Frames under way stay. The certificate reports the
    /// time before separately, in an account that is leased from the budget; without memory for it
    /// nothing changes.
    ///
    /// # Panics
    ///
    /// If a side has another number of classes.
    pub fn change(
        &mut self,
        now: Nanoseconds,
        settings: &[Option<&[Settings]>],
        out: &mut Departures,
    ) -> Result<(), NoMemory> {
        let given = settings.iter().enumerate();
        let given = given.filter_map(|(index, settings)| Some((index, (*settings)?)));
        let mut leases = Vec::new();
        for (index, settings) in given {
            let lease = self.lease(index, settings).or_else(|NoMemory| {
                // What earlier changes wait with for their reports is more than these take.
                self.settle(usize::MAX);
                self.lease(index, settings)
            });
            leases.push((index, settings, lease?));
        }
        // All or none.
        for (index, settings, lease) in leases {
            self.change_side(now, index, settings, lease, out);
        }
        Ok(())
    }

    /// The memory to account for a change of a side.
    fn lease(
        &self,
        index: usize,
        settings: &[Settings],
    ) -> Result<(Lease, Option<Lease>), NoMemory> {
        let side = &self.sides[index];
        let link = side.chain.report().link;
        let classes = link.classes().len();
        assert_eq!(settings.len(), classes, "each class has settings");
        let mut bytes = changes::memory_bytes(link, settings);
        if side.account_before.is_none() {
            bytes += Account::memory_bytes(classes) + changes::OPEN_BYTES;
        }
        let lease = self.budget.lease(bytes).ok_or(NoMemory)?;
        let open = self.is_hurried.then(|| {
            let open = self.budget.lease(changes::open_bytes(link.classes()));
            open.ok_or(NoMemory)
        });
        Ok((lease, open.transpose()?))
    }

    fn change_side(
        &mut self,
        now: Nanoseconds,
        index: usize,
        settings: &[Settings],
        leases: (Lease, Option<Lease>),
        out: &mut Departures,
    ) {
        self.middle.advance(now);
        let out = out.side(index, self.keeps_drops());
        let (id, side) = (SideId::new(index), &mut self.sides[index]);
        // Frames that are due by now leave under the old settings.
        side.chain.on_timer(now, out);
        let ready = self.spare.pop_if(|spare| spare.classes() <= settings.len());
        let account = ready.unwrap_or_else(|| Account::new(settings.len()));
        let account = std::mem::replace(&mut side.account, account);
        let before = side.account_before.replace(account);
        let mut earlier = self.changes.iter_mut().rev();
        let latest = earlier.find(|change| change.side == id);
        let mut counters = LinkCounters::default();
        if let (Some(latest), Some(before)) = (latest, before) {
            latest.close(before);
            counters = latest.counters;
        }
        let link = side.chain.link_mut();
        let counters = (counters, link.counters());
        let past = link.change(now, settings.iter().cloned(), out);
        side.changes = link.changes();
        let after_ns = self.began_ns.map(|began_ns| now - began_ns);
        let change = Change::new((now, after_ns), id, counters, past, link, leases);
        self.changes.push(change);
        match self.is_hurried {
            false => self.settle(usize::MAX),
            true if self.changes.len() - self.settled > OPEN_MAX => self.settle(1),
            true => {}
        }
    }

    /// Reports of changes are worked out when [`settle`](Self::settle) is called: the driver has
    /// deadlines.
    pub fn hurry(&mut self) {
        self.is_hurried = true;
        self.make_spares();
    }

    /// Makes accounts ready for steps, if there is memory for them.
    pub(super) fn make_spares(&mut self) {
        if !self.is_hurried || !self.has_steps() {
            return;
        }
        let classes = self.sides[0].account.classes();
        if self.spare_lease.is_none() {
            let bytes = SPARE_MAX * Account::memory_bytes(classes);
            self.spare_lease = self.budget.lease(bytes);
        }
        if self.spare_lease.is_some() {
            self.spare.resize_with(SPARE_MAX, || Account::new(classes));
        }
    }

    /// Works out reports of changes for good, this many at most, each in tens of microseconds.
    pub fn settle(&mut self, count: usize) {
        self.make_spares();
        let changes = self.changes[self.settled..].iter_mut();
        for change in changes.filter(|change| change.is_closed()).take(count) {
            let side = &self.sides[change.side.index()];
            change.settle(&side.name, side.chain.report().classes);
        }
        let changes = self.changes[self.settled..].iter();
        self.settled += changes.take_while(|change| change.is_done()).count();
    }

    /// The changes so far.
    pub fn changes(&self) -> Vec<ChangeReport> {
        let report = |change: &Change| {
            let side = self.side(change.side);
            let names = side.chain.report().classes;
            change.report(&side.name, names, side.account_before.as_ref())
        };
        self.changes.iter().map(report).collect()
    }

    /// The limit that was asked for until each change.
    pub(crate) fn limits_before_changes(&self) -> impl Iterator<Item = Limit> {
        self.changes.iter().map(|change| change.limit_asked)
    }

    /// Notes a text at `now`, for the certificate. Marks are bounded, and leased from the budget.
    pub fn mark(&mut self, now: Nanoseconds, text: String) -> Result<Mark, MarkError> {
        let mark = Mark {
            at_ns: now,
            after_ns: self.began_ns.map(|began_ns| now - began_ns),
            text,
        };
        self.marks.add(mark, &self.budget)
    }

    /// The marks so far.
    pub fn marks(&self) -> &[Mark] {
        self.marks.all()
    }

    /// The settings of a side in words.
    pub fn settings_words(&self, side: impl Into<SideId>) -> SettingsWords {
        let link = self.link(side);
        settings_words(link.settings(), link.limit())
    }

    /// A departure was sent at `sent_ns`, by the clock of `now`: its residence and lateness go into
    /// the certificate.
    #[inline]
    pub fn on_sent(&mut self, side: impl Into<SideId>, departure: &Leaving, sent_ns: Nanoseconds) {
        self.sides[side.into().index()].on_sent(departure, sent_ns);
    }

    /// A departure was due at a port that was down: it never left.
    pub fn on_unsent(&mut self, side: impl Into<SideId>, frame: &Frame) {
        let (frames, bytes) = &mut self.sides[side.into().index()].unsent;
        *frames += 1;
        *bytes += u64::from(frame.len_bytes());
    }

    /// What the link of a side counted, without the frames that could not leave.
    pub(crate) fn counters(&self, side: SideId) -> LinkCounters {
        let (frames, bytes) = self.side(side).unsent;
        let mut counters = self.report(side).link.counters();
        counters.unsent(frames, bytes);
        counters
    }

    /// Frames under way.
    pub fn held(&self) -> usize {
        self.sides.iter().map(|side| side.chain.held()).sum()
    }

    /// Copies all frames under way out of the memory of the port that received them, which is short
    /// of it.
    pub fn spill(&mut self) {
        let sides = self.sides.iter_mut();
        sides.for_each(|side| side.chain.spill(usize::MAX));
    }

    /// Copies some of those that came in by a port: about `bytes_max` bytes, as [`Link::spill`] has
    /// them, and as many of those behind a core.
    pub fn spill_step(&mut self, port: usize, bytes_max: usize) {
        self.sides[port].chain.spill(bytes_max);
        // There they may be in any chain.
        let (ports, chains) = (self.middle.ports(), self.sides.iter_mut());
        let each_max = bytes_max / ports;
        let behind = chains.skip(ports);
        behind.for_each(|side| side.chain.spill(each_max));
    }

    /// The link of a side.
    pub fn link(&self, side: impl Into<SideId>) -> &Link<Frame> {
        self.report(side).link
    }

    /// The least delay by the settings of a frame that passes a side: with a core also that of the
    /// other chains that it may pass.
    pub(crate) fn delay_min_ns(&self, side: SideId) -> i64 {
        let own_ns = self.link(side).asked().min_ns;
        if self.middle.is_straight() {
            return own_ns;
        }
        let (ports, port) = (self.middle.ports(), self.port(side));
        let first = if side.index() < ports { ports } else { 0 };
        let others = (0..ports).filter(|other| *other != port);
        let others = others.map(|other| self.link(SideId::new(first + other)).asked().min_ns);
        own_ns + others.min().unwrap_or_default()
    }

    /// The link of a side, and what its classes match.
    pub(crate) fn report(&self, side: impl Into<SideId>) -> LinkReport<'_> {
        self.side(side).chain.report()
    }

    /// The seed of all draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn account(&self, side: impl Into<SideId>) -> &Account {
        &self.side(side).account
    }

    fn side(&self, side: impl Into<SideId>) -> &Side {
        &self.sides[side.into().index()]
    }
}

impl Side {
    #[inline]
    fn on_sent(&mut self, departure: &Leaving, sent_ns: Nanoseconds) {
        let account = match &mut self.account_before {
            Some(before) if departure.changes != self.changes => before,
            _ => &mut self.account,
        };
        account.record(departure, sent_ns);
    }
}
