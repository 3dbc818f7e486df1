//! Frames that were read, until the interface has taken them.

use lineside_frame::{Burst, Frame};
use lineside_host::Stopwatch;
use lineside_port::live::{Interface, must_carry};
use lineside_port::{Receive, Received, Transmit};
use lineside_workload::Replay;
use std::collections::VecDeque;
use std::time::Duration;

/// Frames that are held ready: at 10 million a second still the time of a slow look at the disk.
pub(super) const READY_MAX: usize = 8192;

/// Frames that go to the port at once.
const SEND_MAX: usize = 256;

/// Frames are read while the next one is not due for so long: reading must not make it late.
const READ_AHEAD: Duration = Duration::from_micros(300);

/// A signal is looked for so often.
const LOOK: Duration = Duration::from_millis(50);

/// The pause when the interface takes no frame.
const PAUSE: Duration = Duration::from_micros(20);

/// An interface that takes no frame for so long is looked at: an adapter that negotiates anew has no carrier for two seconds or three.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Sender {
    pub(super) replay: Replay,
    pub(super) stopwatch: Stopwatch,
    pub(super) read: Burst,
    /// Frames that were read and planned, in their order.
    pub(super) ready: VecDeque<Frame>,
    /// Frames before those that were due and that the interface has not taken.
    pub(super) due: Burst,
    pub(super) left: u64,
    pub(super) frames_cut: u64,
    /// Times that the interface took no frame although one was due.
    pub(super) stalls: u64,
    /// Since when it has taken none.
    pub(super) refused_since: Option<Duration>,
    /// What is added to stamps when the files are sent once more.
    pub(super) shift_ns: i64,
    /// The first and the latest stamp of the files.
    pub(super) span: Option<(i64, i64)>,
    pub(super) ended: bool,
    /// Frames that wait hold all memory for reading.
    pub(super) is_full: bool,
    /// What ended the reading; what was read before is still sent.
    pub(super) error: Option<anyhow::Error>,
}

impl Sender {
    /// Reads ahead, or waits, and sends what is due. False: all is sent.
    pub(super) fn turn(
        &mut self,
        source: &mut impl Receive,
        port: &mut dyn Transmit,
        interface: &str,
    ) -> anyhow::Result<bool> {
        let now = self.stopwatch.elapsed();
        let deadline = self.replay.next_deadline();
        let deadline = deadline.map(|ns| Duration::from_nanos(ns.max(0) as u64));
        let has_time = deadline.is_none_or(|deadline| deadline > now + READ_AHEAD);
        let has_room = self.ready.len() < READY_MAX && !self.is_full;
        if !self.ended && has_room && (has_time || self.ready.is_empty()) {
            self.read(source);
            return Ok(true);
        }
        let Some(deadline) = deadline else {
            return Ok(false);
        };
        self.stopwatch.wait_until(deadline.min(now + LOOK));
        let now_ns = self.stopwatch.elapsed().as_nanos() as i64;
        let due = self.replay.due(now_ns, self.due.len() + SEND_MAX);
        let more = due.saturating_sub(self.due.len()).min(self.ready.len());
        self.due.extend(self.ready.drain(..more));
        if self.due.is_empty() {
            return Ok(true);
        }
        let sent = port.transmit(&mut self.due)?;
        self.is_full &= sent == 0;
        let now = self.stopwatch.elapsed();
        self.replay.on_sent(now.as_nanos() as i64, sent);
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

    /// The files are sent once more, from their beginning.
    pub(super) fn begin_again(&mut self) {
        if let Some((first, latest)) = self.span {
            self.shift_ns = (self.shift_ns).saturating_add(latest - first + LOOP_GAP_NS);
        }
        self.ended = self.left == 0;
    }

    fn read(&mut self, source: &mut impl Receive) {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(256);
        match source.receive(&mut self.read, most) {
            // Frames that wait hold all memory: they are sent first.
            Ok(Received::PoolEmpty) => self.is_full = true,
            Ok(Received::Frames(_) | Received::Interrupted | Received::Idle { .. }) => {}
            Ok(Received::End) => self.ended = true,
            Err(error) => self.error = Some(error.into()),
        }
        self.left -= self.read.len() as u64;
        self.ended |= self.left == 0;
        for frame in self.read.drain(..) {
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
            self.ready.push_back(frame);
        }
    }
}

/// Between the last frame of the files and their first one sent again.
const LOOP_GAP_NS: i64 = 1_000_000;
