//! One direction of an emulated link.
//!
//! ```text
//!  push ─► up? ─► loss ─► duplicate ─► corrupt ─► limit ─► delay queue ─► rate ─► Departure
//!           └─ down └─ loss                        └─ limit, memory          └─ rate (Excess::Drop)
//! ```
//!
//! Frames of different classes meet different impairments before the queue; queue, limit and rate
//! are one for all. The caller classifies.

use lineside_measure::Spread;
use lineside_time::Nanoseconds;

use crate::Item;
use crate::class::{self, Class};
use crate::counters::{DropReason, LinkCounters};
use crate::derived_limit::derived_limit;
use crate::draw::{Normal, Sampler};
use crate::effects::{Departure, Dropped, Output};
use crate::pace::Pace;
use crate::queue::{Arrival, DelayQueue, WAITING_BYTES};
use crate::settings::{Chance, Correlation, Delay, Limit, Order, Schedule, Settings};

/// One direction of an emulated link.
///
/// Time is given by the caller; a frame leaves at the nanosecond that the settings give it, which
/// [`Departure::at_ns`] gives, however late the caller asks.
#[derive(Debug)]
pub struct Link<T: Item> {
    /// At least the first one, whose settings are also those of the whole link.
    classes: Vec<Class>,
    pace: Pace,
    queue: DelayQueue<T>,
    /// When the link began: time of flapping, bursts and schedules counts from here.
    origin_ns: Option<Nanoseconds>,
    now_ns: Nanoseconds,
    /// Nothing leaves before the latest change.
    changed_ns: Nanoseconds,
    changes: u16,
    limit: Limit,
    memory_bytes_max: usize,
    held_bytes: u64,
    held_memory_bytes: usize,
    /// Memory of the loss models.
    loss_memory_bytes: usize,
    copies: T::Copies,
    counters: LinkCounters,
    /// Samplers of delays that may come.
    prepared: Vec<(Delay, Sampler)>,
}

/// The classes of a link up to a change of its settings.
#[derive(Debug)]
pub struct Past {
    classes: Vec<Class>,
    limit: Limit,
}

impl Past {
    /// The classes: their settings, and counts of frames.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The limit that was in force.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// As [`Link::asked_for`] has it.
    pub fn asked_for(&self, class: &Class) -> Spread {
        class::asked_for(&self.classes, class)
    }

    /// As [`Link::drawn_for`] has it.
    pub fn drawn_for(&self, class: &Class) -> Option<Spread> {
        class::drawn_for(&self.classes, class)
    }

    /// Bytes that it takes of these classes at most.
    pub fn memory_bytes(classes: &[Class]) -> usize {
        let delays = classes
            .iter()
            .map(|class| class.settings.delay.memory_bytes());
        size_of_val(classes) + delays.sum::<usize>()
    }
}

/// How a frame enters.
#[derive(Clone, Copy)]
struct Entry {
    class: u8,
    at_ns: Nanoseconds,
    /// From the beginning of the link.
    since_ns: Nanoseconds,
    /// When it entered the first element.
    entered_ns: Nanoseconds,
}

impl<T: Item> Link<T> {
    /// A link. Its draws depend on `seed` and `stream` alone, a number for each direction. Frames
    /// that it holds and connections that it follows take at most `memory_bytes_max` bytes, which
    /// the caller has reserved.
    pub fn new(settings: Settings, seed: u64, stream: u16, memory_bytes_max: usize) -> Self {
        let mut link = Self {
            classes: vec![Class::new(Settings::default(), seed, stream)],
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
            copies: T::copies(memory_bytes_max),
            counters: LinkCounters::default(),
            prepared: Vec::new(),
        };
        link.set(settings);
        link.join_classes(&[]);
        link
    }

    /// Adds classes 1, 2, ..., 255 at most, to class 0, which the settings of the link are for.
    /// Their draws come from streams `stream + 2`, `stream + 4`, ...: those of class 0 stay as they
    /// are.
    pub fn add_classes(&mut self, classes: Vec<Settings>, seed: u64, stream: u16) {
        for settings in classes.into_iter().take(255) {
            let stream = stream + 2 * self.classes.len() as u16;
            self.classes.push(Class::new(settings, seed, stream));
        }
        self.join_classes(&[]);
    }

    /// Adds one class while frames pass, whose draws come from these; its number. `None`: there are
    /// 256 already.
    pub fn add_class(&mut self, settings: Settings, seed: u64, stream: u16) -> Option<u8> {
        let number = u8::try_from(self.classes.len()).ok()?;
        self.classes.push(Class::new(settings, seed, stream));
        self.join_classes(&[]);
        Some(number)
    }

    /// Makes what frames of a class with these settings need, so that
    /// [adding](Self::add_class) it takes microseconds.
    pub fn prepare_class(&mut self, settings: &Settings) {
        class::prepare(settings);
        self.prepare(&settings.delay);
    }

    /// Drops a frame that enters at `at_ns`: there is no memory for its class.
    pub fn refuse(&mut self, at_ns: Nanoseconds, item: T, out: &mut impl Output<T>) {
        self.on_timer(at_ns, out);
        self.counters.entered += 1;
        self.counters.entered_bytes += u64::from(item.len_bytes());
        self.drop_frame(at_ns, DropReason::Memory, item, out);
    }

    /// The classes of frames.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The settings of class 0 and of the whole link.
    pub fn settings(&self) -> &Settings {
        self.classes[0].settings()
    }

    /// How often the settings have been changed, modulo 2^16.
    pub fn changes(&self) -> u16 {
        self.changes
    }

    /// The limit in force; a derived one is worked out.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// The memory for frames under way.
    pub(crate) fn memory_bytes_max(&self) -> usize {
        self.memory_bytes_max
    }

    /// Time of flapping, bursts of loss and schedules counts from `at_ns` on; without this, from
    /// the first frame on.
    pub fn begin(&mut self, at_ns: Nanoseconds) {
        self.origin_ns = Some(at_ns);
        self.pace.begin(&self.classes[0].settings, at_ns);
    }

    /// Changes the settings at `now`, of classes 0, 1, ... as far as they are given. Frames under
    /// way keep the instants at which they are due; a new rate holds for them too. Streams of draws
    /// go on, their counts begin again, and a new loss model counts frames from here on.
    pub fn change(
        &mut self,
        now: Nanoseconds,
        settings: impl IntoIterator<Item = Settings>,
        out: &mut impl Output<T>,
    ) -> Past {
        self.on_timer(now, out);
        let limit = self.limit;
        let past: Vec<_> = self.classes.iter_mut().map(Class::past).collect();
        self.changed_ns = self.now_ns;
        self.changes = self.changes.wrapping_add(1);
        let mut settings = settings.into_iter();
        if let Some(whole) = settings.next() {
            self.set(whole);
        }
        for (class, settings) in self.classes.iter_mut().skip(1).zip(settings) {
            class.set(settings);
        }
        let models = self.classes.iter().map(|class| class.loss.memory_bytes());
        self.loss_memory_bytes = models.sum();
        self.join_classes(&past);
        if !self.prepared.is_empty() {
            // What is undone later is as it was.
            past.iter().for_each(|class| self.keep(class));
        }
        Past {
            classes: past,
            limit,
        }
    }

    /// Makes what frames with these delays need, so that a [change](Self::change) to them takes
    /// microseconds.
    pub fn prepare(&mut self, delay: &Delay) {
        if self.prepared.iter().any(|(known, _)| known == delay) {
            return;
        }
        if delay.correlation() != Correlation::None {
            Normal::get();
        }
        self.prepared.push((delay.clone(), Sampler::new(delay)));
    }

    /// Keeps the sampler of a class before a change.
    fn keep(&mut self, class: &Class) {
        /// Of all settings that users may give, those of steps are few.
        const KEPT_MAX: usize = 256;
        let delay = &class.settings.delay;
        let is_known = self.prepared.iter().any(|(known, _)| known == delay);
        if let Some(sampler) = class.sampler.as_ref().filter(|_| !is_known)
            && self.prepared.len() < KEPT_MAX
        {
            self.prepared.push((delay.clone(), sampler.again()));
        }
    }

    fn set(&mut self, settings: Settings) {
        let origin_ns = self.origin_ns.unwrap_or(0);
        let previous = self.settings();
        self.pace = self
            .pace
            .changed(&settings, previous, origin_ns, self.now_ns);
        self.classes[0].set(settings);
    }

    fn join_classes(&mut self, past: &[Class]) {
        let prepared = &self.prepared;
        Class::join(&mut self.classes, |delay| {
            let is_it = |class: &&Class| class.settings.delay == *delay;
            let before = past.iter().filter(is_it);
            let before = before.filter_map(|class| class.sampler.as_ref());
            let prepared = prepared.iter().filter(|(known, _)| known == delay);
            let mut known = before.chain(prepared.map(|(_, sampler)| sampler));
            known
                .next()
                .map_or_else(|| Sampler::new(delay), Sampler::again)
        });
        self.limit = match self.settings().limit {
            Limit::Derived => derived_limit(self.settings(), self.delay_max_ns()),
            limit => limit,
        };
    }

    /// The largest delay of any class.
    pub(crate) fn delay_max_ns(&self) -> i64 {
        let delays = self.classes.iter().map(Class::delay_max_ns);
        delays.max().unwrap_or(0)
    }

    /// A frame of class 0 enters at `at_ns`, which may lie before the time of an earlier call: a
    /// stamp is older than the moment at which it is read. Frames that are due by then leave first.
    #[inline]
    pub fn push(&mut self, at_ns: Nanoseconds, item: T, out: &mut impl Output<T>) {
        self.push_class(0, at_ns, item, out);
    }

    /// A frame of any class enters, as with [`push`](Self::push). A class that was not added counts
    /// as class 0.
    #[inline]
    pub fn push_class(&mut self, class: u8, at_ns: Nanoseconds, item: T, out: &mut impl Output<T>) {
        self.enter(class, at_ns, at_ns, item, out);
    }

    /// A frame enters that left another element, at the instant at which it left there.
    pub fn push_departure(&mut self, class: u8, from: Departure<T>, out: &mut impl Output<T>) {
        self.enter(class, from.at_ns, from.entered_ns, from.item, out);
    }

    #[inline]
    fn enter(
        &mut self,
        class: u8,
        at_ns: Nanoseconds,
        entered_ns: Nanoseconds,
        item: T,
        out: &mut impl Output<T>,
    ) {
        if self.origin_ns.is_none() {
            self.begin(at_ns);
        }
        self.on_timer(at_ns, out);
        self.counters.entered += 1;
        self.counters.entered_bytes += u64::from(item.len_bytes());
        let is_known = usize::from(class) < self.classes.len();
        let entry = Entry {
            class: if is_known { class } else { 0 },
            at_ns,
            since_ns: at_ns.saturating_sub(self.origin_ns.unwrap_or(at_ns)),
            entered_ns,
        };
        let is_up = self.settings().state.is_up(entry.since_ns);
        self.classes[usize::from(entry.class)].entered += 1;
        if !is_up {
            self.drop_frame(at_ns, DropReason::Down, item, out);
            return;
        }
        if self.is_lost(&entry, &item) {
            self.classes[usize::from(entry.class)].lost += 1;
            self.drop_frame(at_ns, DropReason::Loss, item, out);
            return;
        }
        let class = &mut self.classes[usize::from(entry.class)];
        let duplicate = class.settings.duplicate;
        if duplicate.happens(at_ns, &mut class.streams.duplicate) {
            self.counters.duplicated += 1;
            let copy = item.duplicate(&mut self.copies);
            self.enqueue(entry, copy, true, out);
        }
        self.enqueue(entry, item, false, out);
    }

    /// Whether the loss model of the frame's class drops it.
    #[inline]
    fn is_lost(&mut self, entry: &Entry, item: &T) -> bool {
        let model = usize::from(self.classes[usize::from(entry.class)].loss_of);
        let model = &mut self.classes[model];
        let ranks = &mut model.streams.loss;
        if let Some(Schedule::Path(path)) = &model.settings.schedule
            && let Some(share) = path.at(entry.since_ns).loss
        {
            let chance = Chance {
                share,
                correlation: Correlation::None,
            };
            return chance.happens(entry.at_ns, ranks);
        }
        // At least half of the memory is for frames.
        let room_bytes = (self.memory_bytes_max / 2)
            .min(self.memory_bytes_max - self.held_memory_bytes)
            .saturating_sub(self.loss_memory_bytes);
        let (state, loss) = (&mut model.loss, &model.settings.loss);
        let before_bytes = state.memory_bytes();
        let (at_ns, since_ns) = (entry.at_ns, entry.since_ns);
        let is_lost = state.loses(room_bytes, loss, at_ns, since_ns, ranks, item);
        self.loss_memory_bytes += state.memory_bytes() - before_bytes;
        is_lost
    }

    #[inline]
    fn enqueue(&mut self, entry: Entry, mut item: T, is_spilled: bool, out: &mut impl Output<T>) {
        let now = entry.at_ns;
        let class = &mut self.classes[usize::from(entry.class)];
        let corrupt = class.settings.corrupt;
        if corrupt.happens(now, &mut class.streams.corrupt) {
            item.flip_bit(class.streams.corrupt.next(now, Correlation::None));
            self.counters.corrupted += 1;
        }
        let delay_ns = self.draw_delay(&entry);
        self.counters.negative_draws += u64::from(delay_ns < 0);
        let len_bytes = item.len_bytes();
        let memory_bytes = Self::memory_bytes(len_bytes);
        if let Some(reason) = self.refusal(len_bytes, memory_bytes) {
            self.drop_frame(now, reason, item, out);
            return;
        }
        let mut due_ns = now.saturating_add(delay_ns.max(0));
        let class = &mut self.classes[usize::from(entry.class)];
        let reorder = class.settings.reorder;
        if reorder.happens(now, &mut class.streams.reorder) {
            self.counters.hastened += 1;
            due_ns = now;
        }
        let drawn_ns = due_ns.saturating_sub(now);
        let order = usize::from(class.delay_of);
        let order = &mut self.classes[order];
        if due_ns >= order.latest_due_ns {
            order.latest_due_ns = due_ns;
        } else if order.settings.delay.order == Order::Reorder {
            self.counters.overtaking += 1;
        } else {
            self.counters.held_back += 1;
            due_ns = order.latest_due_ns;
        }
        self.held_memory_bytes += memory_bytes;
        self.held_bytes += u64::from(len_bytes);
        self.queue.push(Arrival {
            due_ns,
            entered_ns: entry.entered_ns,
            delay_ns: drawn_ns,
            len_bytes,
            class: entry.class,
            changes: self.changes,
            is_spilled,
            item,
        });
        let counters = &mut self.counters;
        counters.held_max = counters.held_max.max(self.queue.len() as u64);
        counters.held_bytes_max = counters.held_bytes_max.max(self.held_bytes);
    }

    /// The delay of a frame, from the path file or drawn; it may be negative.
    #[inline]
    fn draw_delay(&mut self, entry: &Entry) -> Nanoseconds {
        let owner = usize::from(self.classes[usize::from(entry.class)].delay_of);
        let owner = &mut self.classes[owner];
        if let Some(Schedule::Path(path)) = &owner.settings.schedule
            && let Some(delay_ns) = path.at(entry.since_ns).delay_ns
        {
            return delay_ns as i64;
        }
        let ranks = &mut owner.streams.delay;
        // A class that others share the delay of has a sampler.
        let sampler = owner.sampler.as_mut();
        sampler.map_or(0, |sampler| sampler.draw(entry.at_ns, ranks))
    }

    /// Why a frame cannot be held, if it cannot.
    #[inline]
    fn refusal(&self, len_bytes: u32, memory_bytes: usize) -> Option<DropReason> {
        let is_full = match self.limit {
            Limit::Derived => false,
            Limit::Frames(most) => self.queue.len() as u64 >= most,
            Limit::Bytes(most) => self.held_bytes + u64::from(len_bytes) > most,
        };
        if is_full {
            return Some(DropReason::Limit);
        }
        let taken_bytes = self.held_memory_bytes + self.loss_memory_bytes;
        (taken_bytes + memory_bytes > self.memory_bytes_max).then_some(DropReason::Memory)
    }

    fn drop_frame(
        &mut self,
        at_ns: Nanoseconds,
        reason: DropReason,
        item: T,
        out: &mut impl Output<T>,
    ) {
        self.counters.dropped.count(reason);
        out.drops(Dropped {
            at_ns,
            reason,
            item,
        });
    }

    /// The memory that a frame takes while it is held.
    pub(crate) fn memory_bytes(len_bytes: u32) -> usize {
        len_bytes as usize + WAITING_BYTES + size_of::<T>()
    }

    /// Frames that are due by `now` leave, in order of their instants. To be called at
    /// [`next_deadline`](Self::next_deadline).
    #[inline]
    pub fn on_timer(&mut self, now: Nanoseconds, out: &mut impl Output<T>) {
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
                self.drop_frame(at_ns, DropReason::Rate, waiting.item, out);
                continue;
            }
            self.pace.take(due_ns, len_bytes);
            self.counters.released += 1;
            self.counters.released_bytes += u64::from(len_bytes);
            out.departs(Departure {
                at_ns,
                entered_ns: waiting.entered_ns,
                delay_ns: waiting.delay_ns,
                due_ns,
                class: waiting.class,
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

    /// Frames under way.
    pub fn held(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of frames under way.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Copies frames under way out of the memory of the port that received them, which is short of
    /// it: those that are due last first, as far as order was kept, and about `bytes_max` bytes, so
    /// that a caller with deadlines can do it in steps. A frame counts as 1 KiB at least, for that
    /// is what looking at it costs.
    pub fn spill(&mut self, bytes_max: usize) {
        const LOOK_BYTES: usize = 1024;
        let mut left_bytes = bytes_max;
        while left_bytes > 0
            && let Some(waiting) = self.queue.next_to_spill()
        {
            let mut cost_bytes = LOOK_BYTES;
            if !std::mem::replace(&mut waiting.is_spilled, true) {
                cost_bytes = cost_bytes.max(waiting.len_bytes as usize);
                waiting.item.spill(&mut self.copies);
            }
            left_bytes = left_bytes.saturating_sub(cost_bytes);
        }
    }

    /// The counters.
    pub fn counters(&self) -> LinkCounters {
        LinkCounters {
            unfollowed: self.classes.iter().map(|class| class.loss.unfollowed).sum(),
            ..self.counters
        }
    }

    /// The delays of class 0 by the settings, as [`asked_for`](Self::asked_for) has them.
    pub fn asked(&self) -> Spread {
        self.asked_for(&self.classes[0])
    }

    /// The delays of a class by the settings: each entry of the table is as likely as the others.
    /// Of a path file, each delay weighs as many milliseconds as it holds.
    pub fn asked_for(&self, class: &Class) -> Spread {
        class::asked_for(&self.classes, class)
    }

    /// The delays that were drawn since the latest change, for class 0 and all with the same delay;
    /// `None` without jitter or frames. Uniform jitter is reported in 4,096 steps, its mean
    /// exactly.
    pub fn drawn(&self) -> Option<Spread> {
        self.classes[0].drawn()
    }

    /// The same of the delay of any class, which it may share with others.
    pub fn drawn_for(&self, class: &Class) -> Option<Spread> {
        class::drawn_for(&self.classes, class)
    }

    /// For each class, the share of draws below 0.
    pub(crate) fn negative_shares(&self) -> impl Iterator<Item = f64> {
        let owners = self.classes.iter().map(|class| usize::from(class.delay_of));
        owners.map(|owner| {
            let sampler = self.classes[owner].sampler.as_ref();
            sampler.map_or(0.0, Sampler::negative_share)
        })
    }
}
