use lineside_time::Nanoseconds;
use serde::Serialize;

use crate::Item;
use crate::bucket::Bucket;
use crate::draw::{Impairment, Ranks, Sampler};
use crate::loss::LossState;
use crate::measure::Spread;
use crate::queue::DelayQueue;
use crate::settings::{Draws, Excess, Limit, Order, RateLimit, Settings};

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
    settings: Settings,
    sampler: Sampler,
    bucket: Option<Bucket>,
    loss: LossState,
    queue: DelayQueue<T>,
    streams: Streams,
    /// When the link began: what repeats in time counts from here.
    origin_ns: Option<Nanoseconds>,
    now_ns: Nanoseconds,
    /// Order is kept by never being due before this.
    latest_due_ns: Nanoseconds,
    /// Nothing leaves before the latest change.
    changed_ns: Nanoseconds,
    limit: Limit,
    memory_bytes_max: usize,
    held_bytes: u64,
    held_memory_bytes: usize,
    counters: LinkCounters,
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
}

impl LinkCounters {
    /// Whether each frame is accounted for once, `held` being those that are in the link.
    pub fn is_whole(&self, held: usize) -> bool {
        self.entered + self.duplicated == self.released + self.dropped.total() + held as u64
    }
}

impl<T: Item> Link<T> {
    /// A link. Its draws depend on `seed` and `stream` alone, a number for each direction. What it
    /// holds takes at most `memory_bytes_max` bytes, for which the caller vouches.
    pub fn new(settings: Settings, seed: u64, stream: u16, memory_bytes_max: usize) -> Self {
        let ranks = |impairment| Ranks::new(seed, stream, impairment);
        let mut link = Self {
            sampler: Sampler::new(&settings.delay),
            bucket: None,
            loss: LossState::default(),
            queue: DelayQueue::new(),
            streams: Streams {
                delay: ranks(Impairment::Delay),
                loss: ranks(Impairment::Loss),
                duplicate: ranks(Impairment::Duplicate),
                corrupt: ranks(Impairment::Corrupt),
                reorder: ranks(Impairment::Reorder),
            },
            settings: Settings::default(),
            origin_ns: None,
            now_ns: Nanoseconds::MIN,
            latest_due_ns: Nanoseconds::MIN,
            changed_ns: Nanoseconds::MIN,
            limit: Limit::Derived,
            memory_bytes_max,
            held_bytes: 0,
            held_memory_bytes: 0,
            counters: LinkCounters::default(),
        };
        link.set(settings);
        link
    }

    /// What the link was asked to do.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The limit that holds; a derived one is worked out.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// What repeats in time, bursts of loss and flapping, counts from `at_ns` on; without this, from the first frame on.
    pub fn begin(&mut self, at_ns: Nanoseconds) {
        self.origin_ns = Some(at_ns);
    }

    /// Changes the settings at `now`. Frames that are under way keep the instants at which they are due; a new
    /// rate holds for them too. Streams of draws go on.
    pub fn change(&mut self, now: Nanoseconds, settings: Settings, out: &mut Vec<Departure<T>>) {
        self.on_timer(now, out);
        self.changed_ns = self.now_ns;
        self.set(settings);
    }

    fn set(&mut self, settings: Settings) {
        if settings.delay != self.settings.delay || self.now_ns == Nanoseconds::MIN {
            self.sampler = Sampler::new(&settings.delay);
            if let Draws::Prbs31 { state } = settings.delay.draws
                && settings.delay.draws != self.settings.delay.draws
            {
                self.streams.delay.begin_prbs31(state);
            }
        }
        let bucket = settings.rate.map(|rate| match &self.bucket {
            Some(bucket) if *bucket.limit() == rate => bucket.clone(),
            Some(bucket) => bucket.changed(rate, self.now_ns),
            None => Bucket::new(rate, self.now_ns),
        });
        self.bucket = bucket;
        self.limit = match settings.limit {
            Limit::Derived => derived_limit(settings.rate.as_ref(), self.sampler.max_ns()),
            limit => limit,
        };
        self.settings = settings;
    }

    /// A frame comes at `at_ns`, which may lie before the time of an earlier call: a stamp is older than the moment at
    /// which it is read. Before it, what is due by then leaves.
    #[inline]
    pub fn push(&mut self, at_ns: Nanoseconds, item: T, out: &mut Vec<Departure<T>>) {
        self.on_timer(at_ns, out);
        let now = at_ns;
        let since_ns = now.saturating_sub(*self.origin_ns.get_or_insert(now));
        self.counters.entered += 1;
        self.counters.entered_bytes += u64::from(item.len_bytes());
        if !self.settings.state.is_up(since_ns) {
            self.counters.dropped.down += 1;
            return;
        }
        let streams = &mut self.streams;
        let loss = &self.settings.loss;
        if self.loss.loses(loss, now, since_ns, &mut streams.loss) {
            self.counters.dropped.loss += 1;
            return;
        }
        if self.settings.duplicate.happens(now, &mut streams.duplicate) {
            self.counters.duplicated += 1;
            self.enqueue(now, item.duplicate());
        }
        self.enqueue(now, item);
    }

    #[inline]
    fn enqueue(&mut self, now: Nanoseconds, mut item: T) {
        let settings = &self.settings;
        if settings.corrupt.happens(now, &mut self.streams.corrupt) {
            item.flip_bit(self.streams.corrupt.next(now, Default::default()));
            self.counters.corrupted += 1;
        }
        let delay_ns = self.sampler.draw(now, &mut self.streams.delay);
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
        if self.held_memory_bytes + memory_bytes > self.memory_bytes_max {
            self.counters.dropped.memory += 1;
            return;
        }
        let mut due_ns = now.saturating_add(delay_ns.max(0));
        if settings.reorder.happens(now, &mut self.streams.reorder) {
            self.counters.hastened += 1;
            due_ns = now;
        }
        if due_ns < self.latest_due_ns {
            if settings.delay.order == Order::Reorder {
                self.counters.overtaking += 1;
            } else {
                self.counters.held_back += 1;
                due_ns = self.latest_due_ns;
            }
        } else {
            self.latest_due_ns = due_ns;
        }
        self.held_memory_bytes += memory_bytes;
        self.held_bytes += u64::from(len_bytes);
        self.queue.push(due_ns, now, len_bytes, item);
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
            let mut at_ns = due_ns.max(self.changed_ns);
            let mut is_dropped = false;
            if let Some(bucket) = &self.bucket {
                let ready_ns = bucket.ready_ns(at_ns, len_bytes);
                is_dropped = bucket.limit().excess == Excess::Drop && ready_ns > at_ns;
                if !is_dropped {
                    at_ns = ready_ns;
                }
            }
            if at_ns > self.now_ns {
                return;
            }
            let due_ns = due_ns.max(self.changed_ns);
            let Some(waiting) = self.queue.pop() else {
                return;
            };
            self.held_memory_bytes -= Self::memory_bytes(len_bytes);
            self.held_bytes -= u64::from(len_bytes);
            if is_dropped {
                self.counters.dropped.rate += 1;
                continue;
            }
            if let Some(bucket) = &mut self.bucket {
                bucket.take(due_ns, len_bytes);
            }
            self.counters.released += 1;
            self.counters.released_bytes += u64::from(len_bytes);
            out.push(Departure {
                at_ns,
                entered_ns: waiting.entered_ns,
                item: waiting.item,
            });
        }
    }

    /// When the next frame leaves, or is dropped for its rate.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        let (due_ns, len_bytes) = self.queue.front()?;
        let due_ns = due_ns.max(self.changed_ns);
        Some(match &self.bucket {
            Some(bucket) if bucket.limit().excess == Excess::Wait => {
                bucket.ready_ns(due_ns, len_bytes)
            }
            _ => due_ns,
        })
    }

    /// Frames that are under way.
    pub fn held(&self) -> usize {
        self.queue.len()
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
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// The delays as the settings have them: each entry of the table is as likely as the others.
    pub fn asked(&self) -> Spread {
        Spread::of(
            self.sampler
                .asked()
                .into_iter()
                .map(|delay_ns| (delay_ns, 1))
                .collect(),
        )
    }

    /// The delays that were drawn since the delay was last changed; `None` without jitter or frames.
    /// Uniform jitter is told in 4,096 steps, its mean exactly.
    pub fn drawn(&self) -> Option<Spread> {
        let mean_ns = self.sampler.mean_ns()?;
        let mut spread = Spread::of(self.sampler.drawn());
        spread.mean_ns = mean_ns;
        Some(spread)
    }

    /// What a user should know of the settings, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let max_ns = self.sampler.max_ns().max(0) as u64;
        let negative = self.sampler.negative_share();
        if negative > 0.0 {
            warnings.push(format!(
                "{:.1} % of the draws lie below 0, as the jitter is larger than the delay: those frames leave at once",
                negative * 100.0
            ));
        }
        let frames_a_second = |frames: u64| frames as f64 * 1e9 / max_ns.max(1) as f64;
        let product = self
            .settings
            .rate
            .map(|rate| product_bytes(rate.bits_per_second, max_ns));
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

fn derived_limit(rate: Option<&RateLimit>, delay_max_ns: i64) -> Limit {
    let Some(rate) = rate else {
        return Limit::Derived;
    };
    let under_way = product_bytes(rate.bits_per_second, delay_max_ns.max(0) as u64);
    // One bandwidth-delay product of the way there and back, as routers were long built.
    let queue = under_way.saturating_mul(2).max(QUEUE_BYTES_MIN);
    Limit::Bytes(
        under_way
            .saturating_add(queue)
            .saturating_add(rate.burst_bytes),
    )
}
