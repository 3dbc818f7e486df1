//! Frames that were read, until the interface has accepted them.

use lineside_frame::{Burst, Frame};
use lineside_host::Stopwatch;
use lineside_port::live::{Interface, must_carry};
use lineside_port::{Receive, Transmit};
use lineside_run::{Consumer, Intake, Step, Turn};
use lineside_workload::{Replay, Timing};
use std::collections::VecDeque;
use std::time::Duration;

/// Frames held ready: at 10 million a second this still covers a slow disk access.
pub(super) const READY_MAX: usize = 8192;

/// Frames handed to the port at once.
const SEND_MAX: usize = 256;

/// Frames are read only if the next one is not due within this time: reading must not make it late.
const READ_AHEAD: Duration = Duration::from_micros(300);

/// Interval of checking for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// The pause when the interface accepts no frame.
const PAUSE: Duration = Duration::from_micros(20);

/// An interface that accepts no frame for this long is checked: an adapter that renegotiates has no
/// carrier for two or three seconds.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Sender {
    pub(super) ready: Ready,
    pub(super) intake: Intake,
    pub(super) stopwatch: Stopwatch,
    /// Index of the first frame that was due and that the interface has not accepted.
    pub(super) due: Burst,
    /// Times that the interface accepted no frame although one was due.
    pub(super) stalls: u64,
    /// The time since which it has accepted none.
    pub(super) refused_since: Option<Duration>,
    pub(super) ended: bool,
    /// The error that ended reading; frames read before it are still sent.
    pub(super) error: Option<anyhow::Error>,
}

impl Sender {
    /// Reads ahead, or waits, and sends due frames. Returns false once all are sent.
    pub(super) fn turn(
        &mut self,
        source: &mut impl Receive,
        port: &mut dyn Transmit,
        interface: &str,
    ) -> anyhow::Result<bool> {
        let now = self.stopwatch.elapsed();
        let deadline = self.ready.replay.next_deadline();
        let deadline = deadline.map(|ns| Duration::from_nanos(ns.max(0) as u64));
        let has_time = deadline.is_none_or(|deadline| deadline > now + READ_AHEAD);
        let has_room = self.ready.frames.len() < READY_MAX && !self.ready.is_full;
        if !self.ended && has_room && (has_time || self.ready.frames.is_empty()) {
            self.read(source);
            return Ok(true);
        }
        let Some(deadline) = deadline else {
            return Ok(false);
        };
        self.stopwatch.wait_until(deadline.min(now + LOOK));
        let now_ns = self.stopwatch.elapsed().as_nanos() as i64;
        let due = self.ready.replay.due(now_ns, self.due.len() + SEND_MAX);
        let more = due
            .saturating_sub(self.due.len())
            .min(self.ready.frames.len());
        self.due.extend(self.ready.frames.drain(..more));
        if self.due.is_empty() {
            return Ok(true);
        }
        let sent = port.transmit(&mut self.due)?;
        self.ready.is_full &= sent == 0;
        let now = self.stopwatch.elapsed();
        self.ready.replay.on_sent(now.as_nanos() as i64, sent);
        if sent > 0 {
            self.refused_since = None;
            return Ok(true);
        }
        self.stalls += 1;
        let since = *self.refused_since.get_or_insert(now);
        if now - since > PATIENCE {
            must_carry(&Interface::named(interface)?)?;
            self.refused_since = None;
        }
        self.stopwatch.wait_until(now + PAUSE);
        Ok(true)
    }

    /// Sends the files once more, from their beginning.
    pub(super) fn begin_again(&mut self) {
        if let Some((first, latest)) = self.ready.span {
            let shift_ns = &mut self.ready.shift_ns;
            *shift_ns = shift_ns.saturating_add(latest - first + LOOP_GAP_NS);
        }
        self.ended = self.intake.left() == 0;
    }

    fn read(&mut self, source: &mut impl Receive) {
        match self.intake.turn(source, &mut self.ready) {
            Turn::More | Turn::Refused => {}
            Turn::End => self.ended = true,
            Turn::Failed(error) => self.error = Some(error.into()),
        }
        self.ended |= self.intake.left() == 0;
    }
}

/// Frames that were read and planned, in their order.
pub(super) struct Ready {
    pub(super) replay: Replay,
    pub(super) frames: VecDeque<Frame>,
    pub(super) frames_cut: u64,
    /// The offset added to stamps in each repetition.
    shift_ns: i64,
    /// The first and the latest stamp of the files.
    span: Option<(i64, i64)>,
    /// Whether waiting frames hold all memory for reading: they are sent first.
    is_full: bool,
}

impl Ready {
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            replay: Replay::new(timing, 0),
            frames: VecDeque::with_capacity(READY_MAX),
            frames_cut: 0,
            shift_ns: 0,
            span: None,
            is_full: false,
        }
    }
}

impl Consumer for Ready {
    fn on_burst(&mut self, burst: &mut Burst) -> Step {
        for frame in burst.drain(..) {
            let descriptor = frame.descriptor();
            let len = frame.bytes().len() as u32;
            self.frames_cut += u64::from(len < descriptor.wire_len);
            let stamp_ns = descriptor.stamp_ns;
            if let Some(stamp_ns) = stamp_ns {
                let (first, latest) = self.span.unwrap_or((stamp_ns, stamp_ns));
                self.span = Some((first, latest.max(stamp_ns)));
            }
            let shifted_ns = stamp_ns.map(|stamp_ns| stamp_ns.saturating_add(self.shift_ns));
            self.replay.plan(shifted_ns, len);
            self.frames.push_back(frame);
        }
        Step::Continue
    }

    fn on_pool_empty(&mut self) -> Step {
        self.is_full = true;
        Step::Continue
    }
}

/// The gap between the last frame of the files and the first one of the next repetition.
const LOOP_GAP_NS: i64 = 1_000_000;
