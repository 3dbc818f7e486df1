use lineside_measure::Spread;
use lineside_time::Nanoseconds;
use serde::Serialize;

use crate::Item;
use crate::bucket::Bucket;
use crate::deliveries::DeliveryPace;
use crate::draw::{Impairment, Normal, Ranks, Sampler};
use crate::loss::LossState;
use crate::path_file::{PathFile, PathPace};
use crate::queue::{Arrival, DelayQueue};
use crate::settings::{
    Chance, Correlation, Delay, Draws, Excess, Limit, Loss, Order, Schedule, Settings,
};

/// The longest frame of an Ethernet without jumbo frames, with its [overhead](crate::ETHERNET_OVERHEAD).
const FRAME_BYTES: u64 = 1538;
/// A [derived](Limit::Derived) queue holds at least this, some 40 frames: without delay nothing else says how much.
const QUEUE_BYTES_MIN: u64 = 64 * 1024;

/// One direction of an emulated link.
///
/// ```text
///  push ─► up? ─► loss ─► duplicate ─► corrupt ─► limit ─► delay queue ─► rate ─► Departure
///           └─ down └─ loss                        └─ limit, memory          └─ rate (Excess::Drop)
/// ```
///
/// Time is what the caller says; a frame leaves at the nanosecond that
/// the settings give it, which [`Departure::at_ns`] says, however late the caller asks.
#[derive(Debug)]
pub struct Link<T> {
    /// What befalls frames, by their kind; at least the first one, whose settings are also those of the whole link.
    kinds: Vec<Kind>,
    pace: Pace,
    queue: DelayQueue<T>,
    /// When the link began: what repeats in time counts from here.
    origin_ns: Option<Nanoseconds>,
    now_ns: Nanoseconds,
    /// Nothing leaves before the latest change.
    changed_ns: Nanoseconds,
    changes: u16,
    limit: Limit,
    memory_bytes_max: usize,
    held_bytes: u64,
    held_memory_bytes: usize,
    /// What models of loss remember.
    loss_memory_bytes: usize,
    counters: LinkCounters,
}

/// Frames that the caller tells apart, and what befalls them: loss, duplication, corruption and delay with its order. State, rate and limit
/// are the whole link's, and kinds with the same loss or the same delay have it together.
#[derive(Debug)]
pub struct Kind {
    settings: Settings,
    sampler: Sampler,
    loss: LossState,
    streams: Streams,
    /// Order is kept by never being due before this.
    latest_due_ns: Nanoseconds,
    /// The first kind with the same loss: they are counted and drawn for together.
    loss_of: u8,
    /// The first kind with the same delay: theirs are drawn together, and their order is kept together.
    delay_of: u8,
    entered: u64,
    lost: u64,
}

impl Kind {
    fn new(settings: Settings, seed: u64, stream: u16) -> Self {
        let ranks = |impairment| Ranks::new(seed, stream, impairment);
        let mut kind = Self {
            sampler: Sampler::new(&Delay::default()),
            loss: LossState::default(),
            streams: Streams {
                delay: ranks(Impairment::Delay),
                loss: ranks(Impairment::Loss),
                duplicate: ranks(Impairment::Duplicate),
                corrupt: ranks(Impairment::Corrupt),
                reorder: ranks(Impairment::Reorder),
            },
            settings: Settings::default(),
            latest_due_ns: Nanoseconds::MIN,
            loss_of: 0,
            delay_of: 0,
            entered: 0,
            lost: 0,
        };
        kind.set(settings);
        kind
    }

    fn set(&mut self, settings: Settings) {
        self.sampler = Sampler::new(&settings.delay);
        if let Draws::Prbs31 { state } = settings.delay.draws
            && settings.delay.draws != self.settings.delay.draws
        {
            self.streams.delay.begin_prbs31(state);
        }
        if settings.loss != self.settings.loss {
            self.loss.begin();
        }
        let chances = [settings.duplicate, settings.corrupt, settings.reorder];
        let loss = match settings.loss {
            Loss::Random(chance) => chance.correlation,
            _ => Correlation::None,
        };
        let correlations = chances.map(|chance| chance.correlation);
        let mut correlations = correlations
            .into_iter()
            .chain([loss, settings.delay.correlation()]);
        if correlations.any(|correlation| correlation != Correlation::None) {
            Normal::get();
        }
        self.settings = settings;
    }

    /// What befalls them.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Frames of this kind that came.
    pub fn entered(&self) -> u64 {
        self.entered
    }

    /// Those of them that the loss model took.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The delays as the settings have them: each entry of the table is as likely as the others; of a path file in milliseconds for which they
    /// hold.
    pub fn asked(&self) -> Spread {
        if let Some(path) = self.path()
            && path.steps().iter().all(|step| step.delay_ns.is_some())
        {
            let spans = path.spans();
            let steps = spans.filter_map(|(step, span_ns)| {
                Some((step.delay_ns? as i64, (span_ns / 1_000_000).max(1)))
            });
            return Spread::of(steps.collect());
        }
        let asked = self.sampler.asked().into_iter();
        Spread::of(asked.map(|delay_ns| (delay_ns, 1)).collect())
    }

    fn drawn(&self) -> Option<Spread> {
        let mean_ns = self.sampler.mean_ns()?;
        let mut spread = Spread::of(self.sampler.drawn());
        spread.mean_ns = mean_ns;
        Some(spread)
    }

    fn path(&self) -> Option<&PathFile> {
        match &self.settings.schedule {
            Some(Schedule::Path(path)) => Some(path),
            _ => None,
        }
    }

    fn max_ns(&self) -> i64 {
        let scheduled = self.path().map_or(0, PathFile::delay_max_ns);
        self.sampler.max_ns().max(scheduled)
    }
}

/// When what is due may leave.
#[derive(Debug, Clone)]
enum Pace {
    /// At once.
    None,
    Bucket(Bucket),
    Path(PathPace),
    Deliveries(DeliveryPace),
}

impl Pace {
    #[inline]
    fn ready_ns(&self, due: Nanoseconds, len_bytes: u32) -> Nanoseconds {
        match self {
            Self::None => due,
            Self::Bucket(bucket) => bucket.ready_ns(due, len_bytes),
            Self::Path(path) => path.ready_ns(due, len_bytes),
            Self::Deliveries(deliveries) => deliveries.ready_ns(due, len_bytes),
        }
    }

    #[inline]
    fn take(&mut self, due: Nanoseconds, len_bytes: u32) {
        match self {
            Self::None => {}
            Self::Bucket(bucket) => bucket.take(due, len_bytes),
            Self::Path(path) => path.take(due, len_bytes),
            Self::Deliveries(deliveries) => deliveries.take(due, len_bytes),
        }
    }

    /// Whether a frame for which it does not suffice is dropped.
    #[inline]
    fn drops(&self) -> bool {
        matches!(self, Self::Bucket(bucket) if bucket.limit().excess == Excess::Drop)
    }
}

/// A stream for each impairment.
#[derive(Debug)]
struct Streams {
    delay: Ranks,
    loss: Ranks,
    duplicate: Ranks,
    corrupt: Ranks,
    reorder: Ranks,
}

/// A frame that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure<T> {
    /// When it leaves.
    pub at_ns: Nanoseconds,
    /// When it came.
    pub entered_ns: Nanoseconds,
    /// The delay that it was given.
    pub delay_ns: Nanoseconds,
    /// When it had been held long enough: later than that delay if order was to be kept. From then on it waited for the rate.
    pub due_ns: Nanoseconds,
    /// Its kind.
    pub kind: u8,
    /// [`Link::changes`] when it came.
    pub changes: u16,
    /// The frame.
    pub item: T,
}

/// What a link counted. At any moment `entered + duplicated = released + dropped + held`, in frames:
/// [`is_whole`](Self::is_whole).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LinkCounters {
    /// Frames that came.
    pub entered: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Frames made of others.
    pub duplicated: u64,
    /// Frames that left.
    pub released: u64,
    /// Their bytes.
    pub released_bytes: u64,
    /// Frames that were not let through, by reason.
    pub dropped: Drops,
    /// Frames of which a bit was turned.
    pub corrupted: u64,
    /// Frames that passed the delay at once, by [`Settings::reorder`].
    pub hastened: u64,
    /// Draws below 0, which counted as 0.
    pub negative_draws: u64,
    /// Frames that were due before one that came earlier and, to keep the order, waited for it.
    pub held_back: u64,
    /// Frames that were due before one that came earlier, and did not wait for it.
    pub overtaking: u64,
    /// The most frames that were held at once.
    pub held_max: u64,
    /// The most bytes of frames that were held at once.
    pub held_bytes_max: u64,
    /// TCP segments of connections beyond the 65,536, or those that memory bears, of which [`Loss::Segment`](crate::Loss::Segment) knows which
    /// one to lose.
    pub unfollowed: u64,
}

/// Frames that a link dropped, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Drops {
    /// By the loss model.
    pub loss: u64,
    /// The link was down.
    pub down: u64,
    /// More than [`Settings::limit`].
    pub limit: u64,
    /// More than the rate, under [`Excess::Drop`].
    pub rate: u64,
    /// More than memory bears.
    pub memory: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.loss + self.down + self.limit + self.rate + self.memory
    }

    /// What came to them since they were `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            loss: self.loss - earlier.loss,
            down: self.down - earlier.down,
            limit: self.limit - earlier.limit,
            rate: self.rate - earlier.rate,
            memory: self.memory - earlier.memory,
        }
    }
}

impl LinkCounters {
    /// Whether each frame is accounted for once, `held` being those that are in the link.
    pub fn is_whole(&self, held: usize) -> bool {
        self.entered + self.duplicated == self.released + self.dropped.total() + held as u64
    }
}

impl<T: Item> Link<T> {
    /// A link. Its draws depend on `seed` and `stream` alone, a number for each direction. What it holds, frames and what it remembers of
    /// connections, takes at most `memory_bytes_max` bytes, for which the caller vouches.
    pub fn new(settings: Settings, seed: u64, stream: u16, memory_bytes_max: usize) -> Self {
        let mut link = Self {
            kinds: vec![Kind::new(settings.clone(), seed, stream)],
            pace: Pace::None,
            queue: DelayQueue::new(),
            origin_ns: None,
            now_ns: Nanoseconds::MIN,
            changed_ns: Nanoseconds::MIN,
            changes: 0,
            limit: Limit::Derived,
            memory_bytes_max,
            held_bytes: 0,
            held_memory_bytes: 0,
            loss_memory_bytes: 0,
            counters: LinkCounters::default(),
        };
        link.set(settings);
        link.derive_limit();
        link
    }

    /// Adds kinds 1, 2, ... of frames, 255 at most, to kind 0, which the settings of the link are for. Their draws come from streams
    /// `stream + 2`, `stream + 4`, ...: those of kind 0 stay as they are.
    pub fn add_kinds(&mut self, kinds: Vec<Settings>, seed: u64, stream: u16) {
        for settings in kinds.into_iter().take(255) {
            let stream = stream + 2 * self.kinds.len() as u16;
            self.kinds.push(Kind::new(settings, seed, stream));
        }
        self.join_kinds();
        self.derive_limit();
    }

    /// What frames of several kinds have in common is one model of loss, and one delay.
    fn join_kinds(&mut self) {
        for at in 1..self.kinds.len() {
            let settings = &self.kinds[at].settings;
            let first = |is_same: &dyn Fn(&Settings) -> bool| {
                let before = self.kinds[..at].iter();
                let found = { before }.position(|kind| is_same(&kind.settings));
                found.unwrap_or(at) as u8
            };
            let loss_of = first(&|other| other.loss == settings.loss);
            let delay_of = first(&|other| other.delay == settings.delay);
            // After a change it may be together with others than before: what is under way is not overtaken.
            let latest_ns = self.kinds[usize::from(self.kinds[at].delay_of)].latest_due_ns;
            let order = &mut self.kinds[usize::from(delay_of)];
            order.latest_due_ns = order.latest_due_ns.max(latest_ns);
            (self.kinds[at].loss_of, self.kinds[at].delay_of) = (loss_of, delay_of);
        }
    }

    /// What befalls frames of each kind.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// What the link was asked to do.
    pub fn settings(&self) -> &Settings {
        &self.kinds[0].settings
    }

    /// How often the settings have been changed, modulo 2^16.
    pub fn changes(&self) -> u16 {
        self.changes
    }

    /// The limit that holds; a derived one is worked out.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// What repeats in time, bursts of loss and flapping, counts from `at_ns` on; without this, from the first frame on.
    pub fn begin(&mut self, at_ns: Nanoseconds) {
        self.origin_ns = Some(at_ns);
        self.pace = match (&self.pace, &self.settings().schedule) {
            (Pace::Path(_), Some(Schedule::Path(path))) => {
                Pace::Path(PathPace::new(path.clone(), at_ns))
            }
            (Pace::Deliveries(_), Some(Schedule::Deliveries(deliveries))) => {
                Pace::Deliveries(DeliveryPace::new(deliveries.clone(), at_ns))
            }
            (other, _) => other.clone(),
        };
    }

    /// Changes the settings at `now`, of kinds 0, 1, ... as far as they are given. Frames that are under way keep the instants at which
    /// they are due; a new rate holds for them too. Streams of draws go on, what was drawn counts from here on, and a new model of loss
    /// counts frames from here on.
    pub fn change(
        &mut self,
        now: Nanoseconds,
        settings: impl IntoIterator<Item = Settings>,
        out: &mut Vec<Departure<T>>,
    ) {
        self.on_timer(now, out);
        self.changed_ns = self.now_ns;
        self.changes = self.changes.wrapping_add(1);
        let mut settings = settings.into_iter();
        if let Some(whole) = settings.next() {
            self.set(whole);
        }
        for (kind, settings) in self.kinds.iter_mut().skip(1).zip(settings) {
            kind.set(settings);
        }
        let models = self.kinds.iter().map(|kind| kind.loss.memory_bytes());
        self.loss_memory_bytes = models.sum();
        self.join_kinds();
        self.derive_limit();
    }

    fn set(&mut self, settings: Settings) {
        let origin_ns = self.origin_ns.unwrap_or(0);
        self.pace = match (&settings.schedule, settings.rate) {
            (Some(Schedule::Path(path)), _) if path.has_rate() => match &self.pace {
                same @ Pace::Path(_) if settings.schedule == self.settings().schedule => {
                    same.clone()
                }
                _ => Pace::Path(PathPace::new(path.clone(), origin_ns)),
            },
            (Some(Schedule::Deliveries(deliveries)), _) => match &self.pace {
                same @ Pace::Deliveries(_) if settings.schedule == self.settings().schedule => {
                    same.clone()
                }
                _ => Pace::Deliveries(DeliveryPace::new(deliveries.clone(), origin_ns)),
            },
            (_, Some(rate)) => Pace::Bucket(match &self.pace {
                Pace::Bucket(bucket) if *bucket.limit() == rate => bucket.clone(),
                Pace::Bucket(bucket) => bucket.changed(rate, self.now_ns),
                _ => Bucket::new(rate, self.now_ns),
            }),
            (_, None) => Pace::None,
        };
        self.kinds[0].set(settings);
    }

    fn derive_limit(&mut self) {
        self.limit = match self.settings().limit {
            Limit::Derived => derived_limit(self.settings(), self.delay_max_ns()),
            limit => limit,
        };
    }

    /// The largest delay of any kind.
    fn delay_max_ns(&self) -> i64 {
        self.kinds.iter().map(Kind::max_ns).max().unwrap_or(0)
    }

    /// A frame comes at `at_ns`, which may lie before the time of an earlier call: a stamp is older than the moment at
    /// which it is read. Before it, what is due by then leaves.
    #[inline]
    pub fn push(&mut self, at_ns: Nanoseconds, item: T, out: &mut Vec<Departure<T>>) {
        self.push_as(0, at_ns, item, out);
    }

    /// The same of a frame of another kind; one that was not added counts as the first.
    #[inline]
    pub fn push_as(&mut self, kind: u8, at_ns: Nanoseconds, item: T, out: &mut Vec<Departure<T>>) {
        let now = at_ns;
        if self.origin_ns.is_none() {
            self.begin(now);
        }
        self.on_timer(at_ns, out);
        let since_ns = now.saturating_sub(self.origin_ns.unwrap_or(now));
        self.counters.entered += 1;
        self.counters.entered_bytes += u64::from(item.len_bytes());
        let index = if usize::from(kind) < self.kinds.len() {
            kind
        } else {
            0
        };
        let is_up = self.settings().state.is_up(since_ns);
        let kind = &mut self.kinds[usize::from(index)];
        kind.entered += 1;
        if !is_up {
            self.counters.dropped.down += 1;
            return;
        }
        let model = usize::from(kind.loss_of);
        let model = &mut self.kinds[model];
        let ranks = &mut model.streams.loss;
        let is_lost = match &model.settings.schedule {
            Some(Schedule::Path(path)) if let Some(share) = path.at(since_ns).loss => {
                let chance = Chance {
                    share,
                    correlation: Correlation::None,
                };
                chance.happens(now, ranks)
            }
            _ => {
                // The other half is for frames in any case.
                let room_bytes = (self.memory_bytes_max / 2)
                    .min(self.memory_bytes_max - self.held_memory_bytes)
                    .saturating_sub(self.loss_memory_bytes);
                let loss = &model.settings.loss;
                let before_bytes = model.loss.memory_bytes();
                let loses =
                    { &mut model.loss }.loses(room_bytes, loss, now, since_ns, ranks, &item);
                self.loss_memory_bytes += model.loss.memory_bytes() - before_bytes;
                loses
            }
        };
        let kind = &mut self.kinds[usize::from(index)];
        if is_lost {
            kind.lost += 1;
            self.counters.dropped.loss += 1;
            return;
        }
        if kind
            .settings
            .duplicate
            .happens(now, &mut kind.streams.duplicate)
        {
            self.counters.duplicated += 1;
            self.enqueue(index, now, since_ns, item.duplicate());
        }
        self.enqueue(index, now, since_ns, item);
    }

    #[inline]
    fn enqueue(&mut self, index: u8, now: Nanoseconds, since_ns: Nanoseconds, mut item: T) {
        let kind = &mut self.kinds[usize::from(index)];
        let settings = &kind.settings;
        if settings.corrupt.happens(now, &mut kind.streams.corrupt) {
            item.flip_bit(kind.streams.corrupt.next(now, Default::default()));
            self.counters.corrupted += 1;
        }
        let delay = usize::from(kind.delay_of);
        let delay = &mut self.kinds[delay];
        let delay_ns = match &delay.settings.schedule {
            Some(Schedule::Path(path)) if let Some(delay_ns) = path.at(since_ns).delay_ns => {
                delay_ns as i64
            }
            _ => delay.sampler.draw(now, &mut delay.streams.delay),
        };
        self.counters.negative_draws += u64::from(delay_ns < 0);
        let len_bytes = item.len_bytes();
        let is_full = match self.limit {
            Limit::Derived => false,
            Limit::Frames(most) => self.queue.len() as u64 >= most,
            Limit::Bytes(most) => self.held_bytes + u64::from(len_bytes) > most,
        };
        if is_full {
            self.counters.dropped.limit += 1;
            return;
        }
        let memory_bytes = Self::memory_bytes(len_bytes);
        let taken_bytes = self.held_memory_bytes + self.loss_memory_bytes;
        if taken_bytes + memory_bytes > self.memory_bytes_max {
            self.counters.dropped.memory += 1;
            return;
        }
        let mut due_ns = now.saturating_add(delay_ns.max(0));
        let kind = &mut self.kinds[usize::from(index)];
        let reorder = kind.settings.reorder;
        if reorder.happens(now, &mut kind.streams.reorder) {
            self.counters.hastened += 1;
            due_ns = now;
        }
        let drawn_ns = due_ns.saturating_sub(now);
        let order = usize::from(kind.delay_of);
        let order = &mut self.kinds[order];
        if due_ns < order.latest_due_ns {
            if order.settings.delay.order == Order::Reorder {
                self.counters.overtaking += 1;
            } else {
                self.counters.held_back += 1;
                due_ns = order.latest_due_ns;
            }
        } else {
            order.latest_due_ns = due_ns;
        }
        self.held_memory_bytes += memory_bytes;
        self.held_bytes += u64::from(len_bytes);
        self.queue.push(Arrival {
            due_ns,
            entered_ns: now,
            delay_ns: drawn_ns,
            len_bytes,
            kind: index,
            changes: self.changes,
            item,
        });
        let counters = &mut self.counters;
        counters.held_max = counters.held_max.max(self.queue.len() as u64);
        counters.held_bytes_max = counters.held_bytes_max.max(self.held_bytes);
    }

    /// What a frame takes while it is held.
    fn memory_bytes(len_bytes: u32) -> usize {
        len_bytes as usize + crate::queue::WAITING_BYTES + size_of::<T>()
    }

    /// Lets what is due by `now` leave, in order of its instants. To be called at [`next_deadline`](Self::next_deadline).
    #[inline]
    pub fn on_timer(&mut self, now: Nanoseconds, out: &mut Vec<Departure<T>>) {
        self.now_ns = self.now_ns.max(now);
        while let Some((due_ns, len_bytes)) = self.queue.front() {
            let due_ns = due_ns.max(self.changed_ns);
            let ready_ns = self.pace.ready_ns(due_ns, len_bytes);
            let is_dropped = self.pace.drops() && ready_ns > due_ns;
            let at_ns = if is_dropped { due_ns } else { ready_ns };
            if at_ns > self.now_ns {
                return;
            }
            let Some(waiting) = self.queue.pop() else {
                return;
            };
            self.held_memory_bytes -= Self::memory_bytes(len_bytes);
            self.held_bytes -= u64::from(len_bytes);
            if is_dropped {
                self.counters.dropped.rate += 1;
                continue;
            }
            self.pace.take(due_ns, len_bytes);
            self.counters.released += 1;
            self.counters.released_bytes += u64::from(len_bytes);
            out.push(Departure {
                at_ns,
                entered_ns: waiting.entered_ns,
                delay_ns: waiting.delay_ns,
                due_ns,
                kind: waiting.kind,
                changes: waiting.changes,
                item: waiting.item,
            });
        }
    }

    /// When the next frame leaves, or is dropped for its rate.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        let (due_ns, len_bytes) = self.queue.front()?;
        let due_ns = due_ns.max(self.changed_ns);
        Some(if self.pace.drops() {
            due_ns
        } else {
            self.pace.ready_ns(due_ns, len_bytes)
        })
    }

    /// Frames that are under way.
    pub fn held(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of frames that are under way.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Copies what is held out of the memory of the port that it came from: that one needs it (rule 3).
    pub fn spill(&mut self) {
        for waiting in self.queue.iter_mut() {
            if !std::mem::replace(&mut waiting.is_spilled, true) {
                waiting.item.spill();
            }
        }
    }

    /// What was counted.
    pub fn counters(&self) -> LinkCounters {
        LinkCounters {
            unfollowed: self.kinds.iter().map(|kind| kind.loss.unfollowed).sum(),
            ..self.counters
        }
    }

    /// The delays as the settings have them: [`Kind::asked`] of the first kind.
    pub fn asked(&self) -> Spread {
        self.kinds[0].asked()
    }

    /// The delays that were drawn since the latest change, for kind 0 and all with the same delay; `None` without jitter or frames.
    /// Uniform jitter is told in 4,096 steps, its mean exactly.
    pub fn drawn(&self) -> Option<Spread> {
        self.kinds[0].drawn()
    }

    /// The same of the delay that a kind has, perhaps together with others.
    pub fn drawn_for(&self, kind: &Kind) -> Option<Spread> {
        self.kinds[usize::from(kind.delay_of)].drawn()
    }

    /// What a user should know of the settings, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let max_ns = self.delay_max_ns().max(0) as u64;
        let shares = self.kinds.iter().map(|kind| kind.sampler.negative_share());
        for negative in shares.filter(|&share| share > 0.0) {
            warnings.push(format!(
                "{:.1} % of the draws lie below 0, as the jitter is larger than the delay: those frames leave at once",
                negative * 100.0
            ));
        }
        let unfollowed = self.counters().unfollowed;
        if unfollowed > 0 {
            warnings.push(format!(
                "{unfollowed} TCP segments were of more connections than memory bears, or than 65,536: none of them was lost"
            ));
        }
        let frames_a_second = |frames: u64| frames as f64 * 1e9 / max_ns.max(1) as f64;
        let product = mean_rate(self.settings()).map(|(rate, _)| product_bytes(rate, max_ns));
        match (self.limit, product) {
            (Limit::Frames(most), Some(product)) if most.saturating_mul(FRAME_BYTES) < product => {
                warnings.push(format!(
                    "a limit of {most} frames is less than rate x delay, {product} bytes or {} frames of 1,514: frames will be dropped",
                    product.div_ceil(FRAME_BYTES)
                ));
            }
            (Limit::Bytes(most), Some(product)) if most < product => {
                warnings.push(format!(
                    "a limit of {most} bytes is less than rate x delay, {product} bytes: frames will be dropped"
                ));
            }
            (Limit::Frames(most), None) if max_ns > 0 => {
                warnings.push(format!(
                    "with a limit of {most} frames and delays of up to {}, more than {:.0} frames/s are dropped",
                    lineside_time::format_duration(max_ns),
                    frames_a_second(most)
                ));
            }
            _ => {}
        }
        if let Some(product) = product.filter(|&product| product > self.memory_bytes_max as u64) {
            warnings.push(format!(
                "rate x delay, {product} bytes, is more than the {} bytes of memory for frames under way: give more with --memory",
                self.memory_bytes_max
            ));
        }
        warnings
    }

    /// The largest product of delay and rate that memory bears, in bytes of frames of 1,514. Of shorter ones it is less,
    /// as each takes some memory besides its bytes.
    pub fn product_bytes_max(&self) -> u64 {
        let frames = self.memory_bytes_max / Self::memory_bytes(1514);
        frames as u64 * 1514
    }
}

/// Rate times delay.
fn product_bytes(bits_per_second: u64, delay_ns: u64) -> u64 {
    let bits = u128::from(bits_per_second) * u128::from(delay_ns) / 1_000_000_000;
    u64::try_from(bits / 8).unwrap_or(u64::MAX)
}

/// The rate in the mean of the time, and the burst.
fn mean_rate(settings: &Settings) -> Option<(u64, u64)> {
    let scheduled = match &settings.schedule {
        Some(Schedule::Path(path)) => path.bits_per_second(),
        Some(Schedule::Deliveries(deliveries)) => Some(deliveries.bits_per_second()),
        None => None,
    };
    let constant = settings
        .rate
        .map(|rate| (rate.bits_per_second, rate.burst_bytes));
    scheduled.map(|rate| (rate, 0)).or(constant)
}

fn derived_limit(settings: &Settings, delay_max_ns: i64) -> Limit {
    let Some((bits_per_second, burst_bytes)) = mean_rate(settings) else {
        return Limit::Derived;
    };
    let under_way = product_bytes(bits_per_second, delay_max_ns.max(0) as u64);
    // One bandwidth-delay product of the way there and back, as routers were long built.
    let queue = under_way.saturating_mul(2).max(QUEUE_BYTES_MIN);
    Limit::Bytes(under_way.saturating_add(queue).saturating_add(burst_bytes))
}
