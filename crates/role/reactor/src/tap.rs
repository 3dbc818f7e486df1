//! Copies of the frames of a loop, for another thread that captures or measures. It is no port of
//! the loop: a thread that is too slow misses frames, and the loop does not wait for it.
//!
//! ```text
//!  polling loop             one batch a turn                        another thread
//!   came ────► copy ──────────┐
//!   left: copy ► sent ► on_sent ├──► bounded queue ───────────────────► TapPort
//!   dropped ─► copy ──────────┘      └─► full: counted
//!              └─► no block free: counted
//! ```
//!
//! A frame that leaves is copied into a block of the tap's own before it is sent, since the port
//! takes it away, and queued afterwards, with the time at which it left. Whatever is counted leaves
//! all the same. The loop neither waits nor wakes the other thread: that looks again after a
//! millisecond.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use lineside_account::Budget;
use lineside_frame::{BlockWriter, Burst, Frame, FrameRef, LinkType, Pool};
use lineside_measure::monitor::Point;
use lineside_port::{BLOCK_LEN, Facts, Live, Port, PortError, Receive, Received};
use lineside_time::Nanoseconds;
use lineside_trace::certificate::run::TapFacts;
use rustix::event::poll;
use rustix::time::Timespec;

/// Batches that wait in the queue.
const BATCHES_MAX: usize = 1024;

/// Frames that wait for the end of a turn, or for room in the queue: 30 ms at half a million a
/// second.
const BATCH_FRAMES_MAX: usize = 16_384;

/// How many bytes of a frame are copied at each point; `None`: none is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TapPoints {
    /// Where frames come.
    pub came: Option<usize>,
    /// Where they leave.
    pub left: Option<usize>,
    /// Where they came that are dropped.
    pub dropped: Option<usize>,
}

/// The input of frames that a tap copies at a point of a side.
pub fn tap_input(side: usize, point: Point) -> u16 {
    (side * Point::ALL.len() + point as usize) as u16
}

/// The end in the polling loop.
pub struct Tap {
    points: TapPoints,
    queue: SyncSender<Vec<Frame>>,
    /// Batches that were taken, to be used again.
    empty: Receiver<Vec<Frame>>,
    batch: Vec<Frame>,
    pool: Pool,
    writer: Option<BlockWriter>,
    /// The number of the latest frame of each input.
    numbers: Vec<u64>,
    /// How far the wall clock, which stamps are of, is ahead of the loop's.
    wall_ahead_ns: i64,
    shared: Arc<Shared>,
}

/// What both ends see.
#[derive(Default)]
struct Shared {
    /// All frames that left before are in the queue; by the wall clock.
    now_ns: AtomicI64,
    tapped: AtomicU64,
    dropped_queue: AtomicU64,
    dropped_memory: AtomicU64,
}

/// The other end: frames as they came, left and were dropped, each stamped with the time at which
/// it did, by the wall clock. Those of a point are in the order in which they did.
pub struct TapPort {
    queue: Receiver<Vec<Frame>>,
    empty: SyncSender<Vec<Frame>>,
    /// Frames of the batch that is being taken, the next one last.
    batch: Vec<Frame>,
    facts: Facts,
    ordinal: u64,
    shared: Arc<Shared>,
    /// Holders were asked to spill for this many drops.
    asked_for: u64,
}

/// A tap of a loop with this many sides, and its other end. It has `bytes_max` for copies of
/// frames, all touched now, so that no page is mapped while the loop runs. `None` if the budget has
/// not so much.
pub fn tap(
    sides: usize,
    points: TapPoints,
    bytes_max: usize,
    budget: &Budget,
) -> Option<(Tap, TapPort)> {
    let mut pool = Pool::new(BLOCK_LEN, (bytes_max / BLOCK_LEN).max(2), budget)?;
    let blocks: Vec<_> = std::iter::from_fn(|| {
        let mut block = pool.take()?;
        block.unfilled().fill(1);
        Some(block)
    })
    .collect();
    drop(blocks);
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    let (return_empty, empty) = sync_channel(BATCHES_MAX);
    for _ in 0..BATCHES_KEPT {
        let _ = return_empty.try_send(Vec::with_capacity(BATCH_FRAMES_USUAL));
    }
    let shared = Arc::new(Shared::default());
    let port = TapPort {
        queue: receiver,
        empty: return_empty,
        batch: Vec::new(),
        facts: Facts {
            name: "tap".to_owned(),
            format: "frames as they came and left".to_owned(),
            link_types: vec![LinkType::ETHERNET],
            resolution_ns: Some(1),
            ..Facts::default()
        },
        ordinal: 0,
        shared: Arc::clone(&shared),
        asked_for: 0,
    };
    let tap = Tap {
        points,
        queue: sender,
        empty,
        batch: Vec::with_capacity(BATCH_FRAMES_MAX),
        pool,
        writer: None,
        numbers: vec![0; sides * Point::ALL.len()],
        wall_ahead_ns: 0,
        shared,
    };
    Some((tap, port))
}

/// Batches that go round, which the loop need not allocate.
const BATCHES_KEPT: usize = 64;

/// Frames of a turn: a burst of each side, come and left.
const BATCH_FRAMES_USUAL: usize = 256;

impl Tap {
    /// How far the wall clock, by which a capture's stamps are, is ahead of the loop's from now on.
    pub fn set_wall_ahead(&mut self, ahead_ns: i64) {
        self.wall_ahead_ns = ahead_ns;
    }

    /// Whether frames that are dropped are wanted.
    pub fn wants_drops(&self) -> bool {
        self.points.dropped.is_some()
    }

    /// Frames arrived by `side`, each at its stamp, or `now` if it has none or a later one.
    #[inline]
    pub fn on_arrivals(&mut self, now: Nanoseconds, side: usize, frames: &[Frame]) {
        let Some(len_max) = self.points.came else {
            return;
        };
        for frame in frames {
            let stamp_ns = frame.descriptor().stamp_ns.unwrap_or(now).min(now);
            self.take(stamp_ns, side, Point::Came, frame, len_max);
        }
    }

    /// A frame that arrived by `side` was dropped.
    pub fn on_drop(&mut self, at_ns: Nanoseconds, side: usize, point: Point, frame: &FrameRef) {
        if let Some(len_max) = self.points.dropped {
            self.take(at_ns, side, point, frame, len_max);
        }
    }

    /// A copy of a frame that is to leave; `None` if it is not wanted or, counted, if there is no
    /// memory for it.
    #[inline]
    pub fn copy(&mut self, frame: &FrameRef) -> Option<Frame> {
        let len_max = self.points.left?;
        self.copied(frame, len_max)
    }

    /// The frame of which this is a copy left by `side` at `sent_ns`.
    pub fn on_sent(&mut self, sent_ns: Nanoseconds, side: usize, copy: Frame) {
        self.push(sent_ns, side, Point::Left, copy);
    }

    fn take(
        &mut self,
        at_ns: Nanoseconds,
        side: usize,
        point: Point,
        frame: &FrameRef,
        len_max: usize,
    ) {
        if let Some(copy) = self.copied(frame, len_max) {
            self.push(at_ns, side, point, copy);
        }
    }

    #[inline]
    fn push(&mut self, at_ns: Nanoseconds, side: usize, point: Point, mut copy: Frame) {
        if self.batch.len() == BATCH_FRAMES_MAX {
            self.shared.dropped_queue.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let input = tap_input(side, point);
        let number = &mut self.numbers[usize::from(input)];
        *number += 1;
        let descriptor = copy.descriptor_mut();
        descriptor.stamp_ns = Some(at_ns + self.wall_ahead_ns);
        descriptor.input = input;
        descriptor.number = *number;
        self.batch.push(copy);
    }

    fn copied(&mut self, frame: &FrameRef, len_max: usize) -> Option<Frame> {
        let parts = frame.parts();
        let len = frame.whole_len().min(len_max);
        let has_room = { &mut self.writer }
            .as_mut()
            .is_some_and(|writer| writer.unfilled().len() >= len);
        if !has_room {
            // What is left of the block goes unused.
            self.writer = None;
            self.writer = self.pool.take();
        }
        let Some(writer) = &mut self.writer else {
            self.shared.dropped_memory.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let mut left = len;
        for bytes in parts {
            let kept = bytes.len().min(left);
            writer.unfilled()[..kept].copy_from_slice(&bytes[..kept]);
            writer.advance(kept);
            left -= kept;
        }
        Some(writer.take(len, *frame.descriptor()))
    }

    /// All frames that left before `now` were reported: to be called once a turn.
    #[inline]
    pub fn on_turn(&mut self, now: Nanoseconds) {
        if !self.batch.is_empty() && !self.send() {
            // Those that wait are older than `now`.
            return;
        }
        // Release, with the acquire of `TapPort::receive`: frames that left before are in the
        // queue.
        let wall_ns = now + self.wall_ahead_ns;
        self.shared.now_ns.store(wall_ns, Ordering::Release);
    }

    /// Sends the batch, if the queue has room.
    fn send(&mut self) -> bool {
        let empty = { self.empty.try_recv() }.unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, empty);
        let count = batch.len() as u64;
        match self.queue.try_send(batch) {
            Ok(()) => {
                self.shared.tapped.fetch_add(count, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Full(batch)) => {
                self.batch = batch;
                false
            }
            // The other thread has ended, and says why.
            Err(TrySendError::Disconnected(mut batch)) => {
                batch.clear();
                self.batch = batch;
                self.shared
                    .dropped_queue
                    .fetch_add(count, Ordering::Relaxed);
                true
            }
        }
    }

    /// Its counts, also while a loop has it.
    pub fn counts(&self) -> TapCounts {
        TapCounts(Arc::clone(&self.shared))
    }
}

impl Drop for Tap {
    /// The loop has ended, and may wait: the last batch goes too.
    fn drop(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let count = batch.len() as u64;
        let sent = match batch.is_empty() {
            true => Ok(()),
            false => self.queue.send(batch),
        };
        let counter = match sent {
            Ok(()) => &self.shared.tapped,
            Err(_) => &self.shared.dropped_queue,
        };
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// The counts of a tap while it runs.
pub struct TapCounts(Arc<Shared>);

impl TapCounts {
    /// Frames that were not copied, for want of room.
    pub fn missed(&self) -> u64 {
        let facts = self.facts();
        facts.dropped_queue + facts.dropped_memory
    }

    /// The counts so far.
    pub fn facts(&self) -> TapFacts {
        let Self(shared) = self;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TapFacts {
            tapped: count(&shared.tapped),
            dropped_queue: count(&shared.dropped_queue),
            dropped_memory: count(&shared.dropped_memory),
        }
    }
}

impl TapPort {
    /// The counts of the tap.
    pub fn counts(&self) -> TapCounts {
        TapCounts(Arc::clone(&self.shared))
    }

    /// Looks for the next batch.
    fn next_batch(&mut self) -> Result<(), TryRecvError> {
        let mut batch = self.queue.try_recv()?;
        batch.reverse();
        let empty = std::mem::replace(&mut self.batch, batch);
        if empty.capacity() > 0 {
            // Without a loop nobody needs it.
            let _ = self.empty.try_send(empty);
        }
        Ok(())
    }
}

impl Port for TapPort {
    fn facts(&self) -> Vec<&Facts> {
        vec![&self.facts]
    }
}

impl Receive for TapPort {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let dropped = self.shared.dropped_memory.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.asked_for, dropped) != dropped {
            return Ok(Received::PoolEmpty);
        }
        let until_ns = self.shared.now_ns.load(Ordering::Acquire);
        let before = burst.len();
        let mut has_ended = false;
        while burst.len() - before < max {
            let Some(mut frame) = self.batch.pop() else {
                match self.next_batch() {
                    Ok(()) => continue,
                    Err(error) => {
                        has_ended = error == TryRecvError::Disconnected;
                        break;
                    }
                }
            };
            self.ordinal += 1;
            frame.descriptor_mut().ordinal = self.ordinal;
            self.facts.frames += 1;
            self.facts.bytes += u64::from(frame.descriptor().wire_len);
            burst.push(frame);
        }
        match burst.len() - before {
            0 if has_ended => Ok(Received::End),
            0 => {
                let pause = Timespec {
                    tv_sec: 0,
                    tv_nsec: PAUSE_NS,
                };
                // A signal ends the pause early, which does no harm.
                let _ = poll(&mut [], Some(&pause));
                Ok(Received::Idle { until_ns })
            }
            count => Ok(Received::Frames(count)),
        }
    }

    fn leave(&mut self, ahead: &mut Burst) {
        self.facts.take_back(ahead);
    }
}

impl Live for TapPort {
    /// It sleeps by itself.
    fn wake_on<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}

    fn backlog(&self) -> f32 {
        0.0
    }

    fn account(&mut self) {}

    /// It ends with the loop.
    fn shut(&mut self) {}
}

/// The queue holds thirty times what comes in this time.
const PAUSE_NS: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use lineside_frame::Descriptor;

    use super::*;

    const LEFT: TapPoints = TapPoints {
        came: None,
        left: Some(usize::MAX),
        dropped: None,
    };

    fn frame(number: u8) -> Frame {
        let descriptor = Descriptor {
            wire_len: 100,
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        Frame::copied(&[number; 100], descriptor)
    }

    /// A frame leaves.
    fn leave(tap: &mut Tap, sent_ns: Nanoseconds, side: usize, frame: &Frame) {
        if let Some(copy) = tap.copy(frame) {
            tap.on_sent(sent_ns, side, copy);
        }
    }

    fn take(port: &mut TapPort, burst: &mut Burst, max: usize) -> Received {
        port.receive(burst, max).expect("a tap never fails")
    }

    /// First byte, length, stamp, input and ordinal.
    fn seen(burst: &Burst) -> Vec<(u8, usize, Option<i64>, u16, u64)> {
        let seen = |frame: &Frame| {
            let (bytes, descriptor) = (frame.bytes(), frame.descriptor());
            let (stamp_ns, input) = (descriptor.stamp_ns, descriptor.input);
            (bytes[0], bytes.len(), stamp_ns, input, descriptor.ordinal)
        };
        burst.iter().map(seen).collect()
    }

    #[test]
    fn the_tap_copies_departures_and_counts_those_without_room() {
        let budget = Budget::new(64 << 20);
        let (mut tap, mut port) = tap(2, LEFT, 2 * BLOCK_LEN, &budget).expect("it fits");
        leave(&mut tap, 5, 0, &frame(1));
        tap.set_wall_ahead(-4);
        leave(&mut tap, 6, 1, &frame(2));
        let mut burst = Burst::new();
        let idle = Received::Idle { until_ns: 0 };
        assert_eq!(
            take(&mut port, &mut burst, 9),
            idle,
            "not before the turn ends"
        );
        tap.on_turn(9);
        assert_eq!(take(&mut port, &mut burst, 9), Received::Frames(2));
        let (one, other) = (tap_input(0, Point::Left), tap_input(1, Point::Left));
        let expected = [(1, 100, Some(5), one, 1), (2, 100, Some(2), other, 2)];
        assert_eq!(seen(&burst), expected);
        let idle = Received::Idle { until_ns: 5 };
        assert_eq!(take(&mut port, &mut burst, 9), idle);

        // Both blocks are full of frames that nobody lets go.
        let many = 2 * BLOCK_LEN / 100 + 10;
        (0..many).for_each(|_| leave(&mut tap, 10, 0, &frame(3)));
        tap.on_turn(10);
        let facts = tap.counts().facts();
        assert!(facts.dropped_memory >= 10, "{facts:?}");
        let accounted = facts.tapped + facts.dropped_memory + facts.dropped_queue;
        assert_eq!(accounted, 2 + many as u64);
        assert_eq!(take(&mut port, &mut burst, 1), Received::PoolEmpty, "once");
        assert_eq!(take(&mut port, &mut burst, 1), Received::Frames(1));
        burst.clear();
        while take(&mut port, &mut burst, 99) != (Received::Idle { until_ns: 6 }) {
            burst.clear();
        }
        let before = tap.counts().facts().dropped_queue;
        let short = Frame::copied(b"short", Descriptor::default());
        (0..BATCH_FRAMES_MAX + 7).for_each(|_| leave(&mut tap, 11, 0, &short));
        assert_eq!(tap.counts().facts().dropped_queue - before, 7);
        drop(tap);
        while take(&mut port, &mut burst, 999) != Received::End {}
    }

    #[test]
    fn each_point_copies_as_many_bytes_as_it_is_asked_for() {
        let budget = Budget::new(64 << 20);
        let points = TapPoints {
            came: Some(20),
            left: None,
            dropped: Some(30),
        };
        let (mut tap, mut port) = tap(3, points, 2 * BLOCK_LEN, &budget).expect("it fits");
        let mut late = frame(2);
        late.descriptor_mut().stamp_ns = Some(70);
        tap.on_arrivals(50, 2, &[frame(1), late]);
        assert!(tap.copy(&frame(3)).is_none());
        tap.on_drop(60, 1, Point::DroppedRate, &frame(4));
        drop(tap);
        let mut burst = Burst::new();
        assert_eq!(take(&mut port, &mut burst, 9), Received::Frames(3));
        let (came, dropped) = (tap_input(2, Point::Came), tap_input(1, Point::DroppedRate));
        let expected = [
            (1, 20, Some(50), came, 1),
            (2, 20, Some(50), came, 2),
            (4, 30, Some(60), dropped, 3),
        ];
        assert_eq!(seen(&burst), expected);
    }

    #[test]
    fn a_copy_of_a_frame_with_a_rest_has_both_up_to_its_length() {
        let budget = Budget::new(64 << 20);
        for (len_max, expected) in [(250, 150), (120, 120), (60, 60)] {
            let points = TapPoints {
                left: Some(len_max),
                ..LEFT
            };
            let (mut tap, mut port) = tap(1, points, 2 * BLOCK_LEN, &budget).expect("it fits");
            let split = frame(1).with_rest(&mut frame(2), 50..100);
            leave(&mut tap, 5, 0, &split);
            drop(tap);
            let mut burst = Burst::new();
            assert_eq!(take(&mut port, &mut burst, 9), Received::Frames(1));
            let both = [&[1; 100][..], &[2; 50]].concat();
            assert_eq!(burst[0].bytes(), &both[..expected]);
        }
    }

    #[test]
    fn batches_wait_for_room_and_lose_nothing_until_they_are_full() {
        let budget = Budget::new(64 << 20);
        let (mut tap, mut port) = tap(1, LEFT, 2 * BLOCK_LEN, &budget).expect("it fits");
        let turns = BATCHES_MAX + 100;
        for turn in 0..turns {
            leave(&mut tap, turn as i64, 0, &frame(1));
            tap.on_turn(turn as i64);
        }
        let mut burst = Burst::new();
        let until_ns = BATCHES_MAX as i64 - 1;
        assert_eq!(
            take(&mut port, &mut burst, turns),
            Received::Frames(BATCHES_MAX)
        );
        let idle = Received::Idle { until_ns };
        assert_eq!(
            take(&mut port, &mut burst, turns),
            idle,
            "those that wait are later"
        );
        tap.on_turn(turns as i64);
        assert_eq!(take(&mut port, &mut burst, turns), Received::Frames(100));
        assert_eq!(tap.counts().facts().dropped_queue, 0);
    }
}
