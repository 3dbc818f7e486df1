//! Traces of mahimahi (Netravali et al., USENIX ATC 2015): the instants at which a link delivers,
//! one a line.

use std::fmt::Write;
use std::sync::Arc;

use lineside_time::Nanoseconds;

use crate::format::FormatError;
use crate::path_file::{PathFile, PathStep};

/// What an instant delivers, in bytes of frames: mahimahi's `PACKET_SIZE`.
pub const DELIVERY_BYTES: u64 = 1500;
const MS: i64 = 1_000_000;
/// Lines of a trace: an hour at 1 Gbit/s has 300 million, more than any trace.
const LINES_MAX: usize = 20_000_000;

/// Whole milliseconds from the beginning, at each of which [`DELIVERY_BYTES`] may leave; after the
/// last one the trace begins again.
///
/// A frame takes what an instant has left, and of the following ones as much as it needs; it leaves
/// at the last of them. Deliveries for which no frame waits for is lost.
#[derive(Clone, PartialEq, Eq)]
pub struct Deliveries {
    name: String,
    /// Rising; the last one, above 0, is the period.
    at_ms: Arc<[u32]>,
}

impl Deliveries {
    /// A trace from its text.
    pub fn read(name: &str, text: &str) -> Result<Self, FormatError> {
        let mut at_ms = Vec::new();
        for (line, column, word) in crate::format::words(text, 0, &[]) {
            let hint = ": write one millisecond a line, such as 12";
            let ms: u32 = { word.parse() }
                .map_err(|_| crate::format::not_a_number(line, column, word, hint))?;
            if at_ms.last().is_some_and(|&last| ms < last) || at_ms.len() == LINES_MAX {
                return Err(FormatError::OutOfOrder { line, column });
            }
            at_ms.push(ms);
        }
        if at_ms.last().is_none_or(|&last| last == 0) {
            return Err(FormatError::NoTime);
        }
        Ok(Self {
            name: name.to_owned(),
            at_ms: at_ms.into(),
        })
    }

    /// The instants at which a path's rate has brought another [`DELIVERY_BYTES`], over its period,
    /// or as far as its last line goes.
    pub fn of_path(path: &PathFile) -> Result<Self, &'static str> {
        if !path.has_rate() {
            return Err("it gives no rate, and a trace of deliveries is nothing else");
        }
        let duration_ns: u64 = path.spans().map(|(_, span_ns)| span_ns).sum();
        let (mut at_ms, mut brought, mut begin_ns) = (Vec::new(), 0_u128, 0_u64);
        const DELIVERY: u128 = DELIVERY_BYTES as u128 * 8 * 1_000_000_000;
        for (step, span_ns) in path.spans() {
            let rate = u128::from(step.bits_per_second.unwrap_or(0));
            let end = brought + rate * u128::from(span_ns);
            while (at_ms.len() as u128 + 1) * DELIVERY <= end {
                let missing = (at_ms.len() as u128 + 1) * DELIVERY - brought;
                let at_ns = u128::from(begin_ns) + missing.div_ceil(rate.max(1));
                let ms = u32::try_from(at_ns.div_ceil(MS as u128));
                at_ms.push(ms.map_err(|_| "it lasts longer than a trace's milliseconds count")?);
                if at_ms.len() == LINES_MAX {
                    return Err("that would be more than 20 million lines");
                }
            }
            brought = end;
            begin_ns += span_ns;
        }
        // The last line is the period: without a delivery at its end the trace would begin again
        // too early.
        let end_ms = u32::try_from(duration_ns.div_ceil(MS as u64)).unwrap_or(u32::MAX);
        if at_ms.last().is_none_or(|&last| last < end_ms) {
            at_ms.push(end_ms);
        }
        Ok(Self {
            name: path.name().to_owned(),
            at_ms: at_ms.into(),
        })
    }

    /// The rate that each `step_ns` of the trace comes to, as a path file that repeats.
    pub fn path_file(&self, step_ns: u64) -> Result<PathFile, &'static str> {
        // A step of less than a line's millisecond would say what the trace does not.
        let step_ms = (step_ns / MS as u64).max(1);
        if self.period_ms() / step_ms > 1_000_000 {
            return Err("that would be more than a million lines: give a longer --path-step");
        }
        let steps = (0..self.period_ms().div_ceil(step_ms)).map(|step| {
            let (begin_ms, end_ms) = (step * step_ms, ((step + 1) * step_ms).min(self.period_ms()));
            // What comes at the end of a step was brought in it; what comes at 0, in the first one.
            let before = |ms: u64| self.at_ms.partition_point(|&at| u64::from(at) <= ms) as u64;
            let first = if step == 0 { 0 } else { before(begin_ms) };
            let bits = (before(end_ms) - first) * DELIVERY_BYTES * 8;
            PathStep {
                at_ns: begin_ms * MS as u64,
                delay_ns: None,
                loss: None,
                bits_per_second: Some((bits * 1000 / (end_ms - begin_ms)).max(u64::from(bits > 0))),
            }
        });
        let period_ns = self.period_ms() * MS as u64;
        PathFile::new(&self.name, steps.collect(), Some(period_ns))
    }

    /// The trace as text.
    pub fn write(&self) -> String {
        self.at_ms.iter().fold(String::new(), |mut text, ms| {
            let _ = writeln!(text, "{ms}");
            text
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The instants of one period, in milliseconds.
    pub fn at_ms(&self) -> &[u32] {
        &self.at_ms
    }

    fn period_ms(&self) -> u64 {
        self.at_ms.last().copied().unwrap_or(1).into()
    }

    /// The rate that it comes to.
    pub fn bits_per_second(&self) -> u64 {
        (self.at_ms.len() as u64 * DELIVERY_BYTES * 8 * 1000 / self.period_ms()).max(1)
    }

    /// When delivery `number` of all is, from the beginning on.
    fn at_ns(&self, number: u64) -> Nanoseconds {
        let len = self.at_ms.len() as u64;
        let within = self.at_ms[(number % len) as usize];
        let ms = (number / len) * self.period_ms() + u64::from(within);
        i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(MS)
    }

    /// The first delivery at `since_ns` or later.
    fn first_at(&self, since_ns: Nanoseconds) -> u64 {
        let ms = since_ns.max(0).cast_unsigned().div_ceil(MS as u64);
        // The period's last instant is also the next one's beginning: it counts as the end.
        let periods = ms.saturating_sub(1) / self.period_ms();
        let within = ms - periods * self.period_ms();
        let before = self.at_ms.partition_point(|&at| u64::from(at) < within);
        periods * self.at_ms.len() as u64 + before as u64
    }
}

impl std::fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deliveries")
            .field("name", &self.name)
            .field("len", &self.at_ms.len())
            .finish()
    }
}

/// How far a trace is used up.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryPace {
    deliveries: Deliveries,
    origin_ns: Nanoseconds,
    /// The first delivery that has something left, and how much.
    next: (u64, u64),
}

impl DeliveryPace {
    pub(crate) fn new(deliveries: Deliveries, origin_ns: Nanoseconds) -> Self {
        Self {
            deliveries,
            origin_ns,
            next: (0, DELIVERY_BYTES),
        }
    }

    pub(crate) fn ready_ns(&self, due: Nanoseconds, len_bytes: u32) -> Nanoseconds {
        let (last, _) = self.after(due, len_bytes);
        self.origin_ns
            .saturating_add(self.deliveries.at_ns(last))
            .max(due)
    }

    pub(crate) fn take(&mut self, due: Nanoseconds, len_bytes: u32) {
        let (last, left) = self.after(due, len_bytes);
        self.next = match left {
            0 => (last + 1, DELIVERY_BYTES),
            left => (last, left),
        };
    }

    /// The delivery that a frame leaves with, and what that has left then.
    fn after(&self, due: Nanoseconds, len_bytes: u32) -> (u64, u64) {
        let first = self.deliveries.first_at(due.saturating_sub(self.origin_ns));
        let (at, left) = self
            .next
            .max((first, DELIVERY_BYTES * u64::from(first > self.next.0)));
        match u64::from(len_bytes).checked_sub(left) {
            None | Some(0) => (at, left - u64::from(len_bytes)),
            Some(missing) => {
                let more = missing.div_ceil(DELIVERY_BYTES);
                (at + more, more * DELIVERY_BYTES - missing)
            }
        }
    }
}
