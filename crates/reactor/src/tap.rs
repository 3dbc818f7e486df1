//! Copies of frames that leave, for a capture in another thread. It is no port of the loop: a
//! capture that is too slow misses frames, and the loop does not wait for it.
//!
//! ```text
//!  polling loop: Tap::copy ──► frame is sent ──► Tap::on_sent ──► bounded queue ──► TapPort: thread
//!   before it is sent  └─► no block free: counted           └─► queue full: counted
//! ```
//!
//! A frame is copied into a block of the tap's own before it is sent, since the port takes it away,
//! and queued afterwards, with the time at which it left. Whatever is counted leaves all the same.
//! The loop neither waits nor wakes the other thread: that looks again after a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use lineside_account::Budget;
use lineside_frame::{BlockWriter, Burst, Frame, FrameRef, LinkType, Pool};
use lineside_port::{BLOCK_LEN, Facts, Port, PortError, Receive, Received};
use lineside_time::Nanoseconds;
use rustix::event::poll;
use rustix::time::Timespec;
use serde::Serialize;

/// Frames that wait in the queue: 30 ms at half a million a second.
const QUEUE_MAX: usize = 16_384;

/// The end in the polling loop.
pub struct Tap {
    queue: SyncSender<Frame>,
    pool: Pool,
    writer: Option<BlockWriter>,
    /// The input that frames of a side count to, and the number of its latest frame.
    inputs: Vec<(u16, u64)>,
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

/// The counts of a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TapFacts {
    /// Frames that went to the capture.
    pub tapped: u64,
    /// Frames that found the queue full.
    pub dropped_queue: u64,
    /// Frames for which no memory was left.
    pub dropped_memory: u64,
}

/// The other end: frames as they left, both directions in one sequence, each stamped with the time
/// at which it did, by the wall clock.
pub struct TapPort {
    queue: Receiver<Frame>,
    facts: Facts,
    ordinal: u64,
    shared: Arc<Shared>,
    /// Holders were asked to spill for so many drops.
    asked_for: u64,
}

/// A tap and its other end; `inputs` are those that frames of each side count to. It has
/// `bytes_max` for copies of frames, all touched now, so that no page is mapped while the loop
/// runs. `None` if the budget has not so much.
pub fn tap(inputs: &[u16], bytes_max: usize, budget: &Budget) -> Option<(Tap, TapPort)> {
    let mut pool = Pool::new(BLOCK_LEN, (bytes_max / BLOCK_LEN).max(2), budget)?;
    let blocks: Vec<_> = std::iter::from_fn(|| {
        let mut block = pool.take()?;
        block.unfilled().fill(1);
        Some(block)
    })
    .collect();
    drop(blocks);
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    let shared = Arc::new(Shared::default());
    let port = TapPort {
        queue: receiver,
        facts: Facts {
            name: "tap".to_owned(),
            format: "frames as they left".to_owned(),
            link_types: vec![LinkType::ETHERNET],
            resolution_ns: Some(1),
            ..Facts::default()
        },
        ordinal: 0,
        shared: Arc::clone(&shared),
        asked_for: 0,
    };
    let tap = Tap {
        queue: sender,
        pool,
        writer: None,
        inputs: inputs.iter().map(|&input| (input, 0)).collect(),
        wall_ahead_ns: 0,
        shared,
    };
    Some((tap, port))
}

impl Tap {
    /// How far the wall clock, by which a capture's stamps are, is ahead of the loop's from now on.
    pub fn set_wall_ahead(&mut self, ahead_ns: i64) {
        self.wall_ahead_ns = ahead_ns;
    }

    /// A copy of a frame that is to leave; `None`, and counted, if there is no memory for it.
    pub fn copy(&mut self, frame: &FrameRef) -> Option<Frame> {
        let copy = self.copied(frame);
        if copy.is_none() {
            self.shared.dropped_memory.fetch_add(1, Ordering::Relaxed);
        }
        copy
    }

    /// The frame of which this is a copy, and which entered at `side`, left at `sent_ns`.
    pub fn on_sent(&mut self, sent_ns: Nanoseconds, side: usize, mut copy: Frame) {
        let (input, number) = &mut self.inputs[side];
        *number += 1;
        let descriptor = copy.descriptor_mut();
        descriptor.stamp_ns = Some(sent_ns + self.wall_ahead_ns);
        descriptor.input = *input;
        descriptor.number = *number;
        let count = match self.queue.try_send(copy) {
            Ok(()) => &self.shared.tapped,
            // Disconnected: the capture has ended, and says why.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                &self.shared.dropped_queue
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn copied(&mut self, frame: &FrameRef) -> Option<Frame> {
        let bytes = frame.bytes();
        let has_room = { &mut self.writer }
            .as_mut()
            .is_some_and(|writer| writer.unfilled().len() >= bytes.len());
        if !has_room {
            // What is left of the block goes unused.
            self.writer = None;
            self.writer = Some(self.pool.take()?);
        }
        let writer = self.writer.as_mut()?;
        writer.unfilled()[..bytes.len()].copy_from_slice(bytes);
        writer.advance(bytes.len());
        Some(writer.take(bytes.len(), *frame.descriptor()))
    }

    /// All frames that left before `now` were reported: to be called once a turn.
    pub fn on_turn(&self, now: Nanoseconds) {
        // Release, with the acquire of `TapPort::receive`: frames that left before are in the
        // queue.
        let wall_ns = now + self.wall_ahead_ns;
        self.shared.now_ns.store(wall_ns, Ordering::Release);
    }

    /// Its counts, also while a loop has it.
    pub fn counts(&self) -> TapCounts {
        TapCounts(Arc::clone(&self.shared))
    }
}

/// The counts of a tap while it runs.
pub struct TapCounts(Arc<Shared>);

impl TapCounts {
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
            match self.queue.try_recv() {
                Ok(mut frame) => {
                    self.ordinal += 1;
                    frame.descriptor_mut().ordinal = self.ordinal;
                    self.facts.frames += 1;
                    self.facts.bytes += u64::from(frame.descriptor().wire_len);
                    burst.push(frame);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    has_ended = true;
                    break;
                }
            }
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

/// The queue holds thirty times what comes in this time.
const PAUSE_NS: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use lineside_frame::Descriptor;

    use super::*;

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

    #[test]
    fn the_tap_copies_departures_and_counts_those_without_room() {
        let budget = Budget::new(64 << 20);
        let (mut tap, mut port) = tap(&[0, 3], 2 * BLOCK_LEN, &budget).expect("it fits");
        leave(&mut tap, 5, 0, &frame(1));
        tap.set_wall_ahead(-4);
        leave(&mut tap, 6, 1, &frame(2));
        let mut burst = Burst::new();
        assert_eq!(take(&mut port, &mut burst, 9), Received::Frames(2));
        let seen = |frame: &Frame| {
            let descriptor = frame.descriptor();
            let (stamp_ns, input) = (descriptor.stamp_ns, descriptor.input);
            (frame.bytes()[0], stamp_ns, input, descriptor.ordinal)
        };
        let seen: Vec<_> = burst.iter().map(seen).collect();
        assert_eq!(seen, [(1, Some(5), 0, 1), (2, Some(2), 3, 2)]);
        tap.on_turn(9);
        let idle = Received::Idle { until_ns: 5 };
        assert_eq!(take(&mut port, &mut burst, 9), idle);

        // Both blocks are full of frames that nobody lets go.
        let many = 2 * BLOCK_LEN / 100 + 10;
        (0..many).for_each(|_| leave(&mut tap, 10, 0, &frame(3)));
        let facts = tap.counts().facts();
        assert!(facts.dropped_memory >= 10, "{facts:?}");
        assert_eq!(facts.tapped + facts.dropped_memory, 2 + many as u64);
        assert_eq!(take(&mut port, &mut burst, 1), Received::PoolEmpty, "once");
        assert_eq!(take(&mut port, &mut burst, 1), Received::Frames(1));
        burst.clear();
        while take(&mut port, &mut burst, 99) != idle {
            burst.clear();
        }
        (0..QUEUE_MAX + 7).for_each(|_| {
            let short = Frame::copied(b"short", Descriptor::default());
            leave(&mut tap, 11, 0, &short);
        });
        assert_eq!(tap.counts().facts().dropped_queue, 7);
        drop(tap);
        while take(&mut port, &mut burst, 999) != Received::End {}
    }
}
