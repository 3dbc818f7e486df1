//! The schedule of a replay: from stamps and lengths to the instants at which frames are due, and
//! to an account of when they left.
//!
//! It holds instants and lengths, 16 bytes a frame. Not here: the frames, and a clock.

use std::collections::VecDeque;
use std::str::FromStr;

use lineside_measure::{LateTimes, Lateness};
use lineside_time::Nanoseconds;
use lineside_words::Rate;

/// How the frames of a capture are spaced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Timing {
    /// As their stamps are, this many times as fast.
    Own(Speed),
    /// At a constant rate: each is due when those before it have left at that rate, counted in
    /// frames or in the bits that are handed to the port (layer 2, without preamble, checksum and
    /// gap).
    Constant(Rate),
    /// Each as soon as the one before has left.
    Fast,
}

/// How many times as fast as it was: above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed(f64);

impl Speed {
    /// As it was.
    pub const ORIGINAL: Self = Self(1.0);
}

/// Why a text is not a speed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a speed: write a factor from 0.000001 to 1000000, such as 2 or 0.5")]
pub struct SpeedError {
    text: String,
}

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(text: &str) -> Result<Self, SpeedError> {
        let speed = { text.trim().parse().ok() }.filter(|speed| (1e-6..=1e6).contains(speed));
        speed.map(Self).ok_or_else(|| SpeedError {
            text: text.to_owned(),
        })
    }
}

/// The schedule of a replay, and the account of how it went.
///
/// Frames are planned, become due and are sent in the capture's order. With their own timing the
/// first stamp is due at the start; a frame whose stamp lies before an earlier frame's, or which
/// has none, is due together with the frame before it. A frame that is late shifts no other.
#[derive(Debug)]
pub struct Replay {
    timing: Timing,
    start_ns: Nanoseconds,
    /// Instants of frames that were planned and not sent, with their bytes; they never decrease.
    planned: VecDeque<(Nanoseconds, u32)>,
    first_stamp_ns: Option<i64>,
    latest_stamp_ns: i64,
    planned_frames: u64,
    planned_bytes: u64,
    departures: Departures,
    /// Of the frames that were sent: as they were due, and as they left.
    asked: Pace,
    achieved: Pace,
    lateness: LateTimes,
}

/// What passes from the first instant of some frames to their last one. Of frames that share the
/// first instant, all but one passed before it; the last frame's own bits are under way when the
/// time ends.
#[derive(Debug, Default)]
struct Pace {
    first_ns: Option<Nanoseconds>,
    span_ns: u64,
    /// Frames after the first instant.
    frames: u64,
    /// Bytes of the frame before each of these.
    bytes: u64,
    last_len: u32,
}

impl Pace {
    /// The next frame; instants never decrease.
    fn add(&mut self, at_ns: Nanoseconds, len: u32) {
        self.span_ns = elapsed(*self.first_ns.get_or_insert(at_ns), at_ns);
        if self.span_ns > 0 {
            self.frames += 1;
            self.bytes += u64::from(self.last_len);
        }
        self.last_len = len;
    }

    /// So many in a second of the time; `None` for no time.
    fn per_second(&self, count: u64) -> Option<f64> {
        (self.span_ns > 0).then(|| count as f64 * 1e9 / self.span_ns as f64)
    }

    fn bps(&self) -> Option<f64> {
        self.per_second(self.bytes * 8)
    }
}

/// The account of a replay. Rates are those from the first instant to the last one: what left
/// together at the first one took none of that time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Departures {
    /// Frames sent.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the first to the last of the frames sent as they were due; `None` if they were not
    /// timed.
    pub asked_ns: Option<u64>,
    /// From the first to the last departure.
    pub achieved_ns: u64,
    /// Bits a second, asked; `None` for no time.
    pub asked_bps: Option<f64>,
    /// Bits a second, achieved; `None` for no time.
    pub achieved_bps: Option<f64>,
    /// Frames a second, achieved; `None` for no time.
    pub achieved_pps: Option<f64>,
    /// How late frames left; `None` if they were not timed, or none was sent.
    pub lateness: Option<Lateness>,
    /// Frames planned whose stamps lay before an earlier one.
    pub stamps_backwards: u64,
    /// Frames planned without a stamp.
    pub stamps_missing: u64,
}

impl Replay {
    /// A replay whose first frame is due at `start_ns`, by the clock of all other instants here.
    pub fn new(timing: Timing, start_ns: Nanoseconds) -> Self {
        Self {
            timing,
            start_ns,
            planned: VecDeque::new(),
            first_stamp_ns: None,
            latest_stamp_ns: i64::MIN,
            planned_frames: 0,
            planned_bytes: 0,
            departures: Departures::default(),
            asked: Pace::default(),
            achieved: Pace::default(),
            lateness: LateTimes::default(),
        }
    }

    /// Plans the capture's next frame: its stamp, and the bytes of it that will be sent.
    ///
    /// Takes 16 bytes until the frame is sent: plan as many as are held ready.
    pub fn plan(&mut self, stamp_ns: Option<i64>, len: u32) {
        let after_ns = match self.timing {
            Timing::Own(speed) => self.own_ns(stamp_ns, speed),
            Timing::Constant(Rate::Bits(bits)) => nanoseconds(self.planned_bytes, 8, bits),
            Timing::Constant(Rate::Frames(frames)) => nanoseconds(self.planned_frames, 1, frames),
            Timing::Fast => 0,
        };
        let due_ns = self.start_ns.saturating_add(after_ns);
        self.planned.push_back((due_ns, len));
        self.planned_frames += 1;
        self.planned_bytes += u64::from(len);
    }

    fn own_ns(&mut self, stamp_ns: Option<i64>, Speed(speed): Speed) -> i64 {
        match stamp_ns {
            None => self.departures.stamps_missing += 1,
            Some(stamp_ns) if stamp_ns < self.latest_stamp_ns => {
                self.departures.stamps_backwards += 1;
            }
            Some(stamp_ns) => self.latest_stamp_ns = stamp_ns,
        }
        let Some(first_ns) = self.first_stamp_ns.or(stamp_ns) else {
            return 0;
        };
        self.first_stamp_ns = Some(first_ns);
        let since_first_ns = self.latest_stamp_ns.abs_diff(first_ns);
        // Exact up to 104 days, and beyond i64 the conversion ends at its maximum.
        (since_first_ns as f64 / speed) as i64
    }

    /// How many frames may leave at `now_ns`, the longest planned first, at most `max`.
    pub fn due(&self, now_ns: Nanoseconds, max: usize) -> usize {
        let planned = self.planned.iter().take(max);
        planned.take_while(|&&(due_ns, _)| due_ns <= now_ns).count()
    }

    /// When the next frame is due; `None` if none is planned.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        self.planned.front().map(|&(due_ns, _)| due_ns)
    }

    /// The `count` longest planned frames left at `now_ns`.
    ///
    /// # Panics
    ///
    /// If fewer are planned.
    pub fn on_sent(&mut self, now_ns: Nanoseconds, count: usize) {
        for (due_ns, len) in self.planned.drain(..count) {
            self.departures.frames += 1;
            self.departures.bytes += u64::from(len);
            self.achieved.add(now_ns, len);
            if self.timing == Timing::Fast {
                continue;
            }
            self.asked.add(due_ns, len);
            self.lateness.record(due_ns, now_ns);
        }
    }

    /// The account so far.
    pub fn departures(&self) -> Departures {
        let (asked, achieved) = (&self.asked, &self.achieved);
        Departures {
            asked_ns: asked.first_ns.map(|_| asked.span_ns),
            asked_bps: asked.bps(),
            achieved_ns: achieved.span_ns,
            achieved_bps: achieved.bps(),
            achieved_pps: achieved.per_second(achieved.frames),
            lateness: self.lateness.lateness(),
            ..self.departures.clone()
        }
    }
}

/// How long `count` times `each` take at `per_second`, rounded down.
fn nanoseconds(count: u64, each: u64, per_second: u64) -> i64 {
    let ns = u128::from(count) * u128::from(each) * 1_000_000_000 / u128::from(per_second.max(1));
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Nanoseconds from one instant to a later one; 0 if it is not.
fn elapsed(from_ns: Nanoseconds, to_ns: Nanoseconds) -> u64 {
    u64::try_from(i128::from(to_ns) - i128::from(from_ns)).unwrap_or(0)
}
