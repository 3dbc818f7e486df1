//! What keeps a stream from going on: bytes that do not get through however often they are sent,
//! and a receiver's window that stays shut.
//!
//! All of this is noted at segments that need a closer look anyway. When stuck bytes were
//! acknowledged is therefore not known to the segment: they count until they were sent or asked for
//! last, and those that never were until the last segment of the end that waits for them.

use lineside_wire::{Direction, SeqNumber};

use crate::connection::Connection;
use crate::connection::sender::Probe;
use crate::connection::stuck::{Blocks, Shut, Stuck, is_beyond};

impl Connection {
    /// A segment of `len` bytes of `direction` comes again, the first that the other end waits for.
    pub(super) fn on_stuck_sent(
        &mut self,
        direction: Direction,
        since_ns: i64,
        now_ns: i64,
        len: u32,
    ) {
        let (sender, other) = direction.split_mut(&mut self.senders);
        let at = other.acknowledgement;
        let counts = &mut self.counts[direction];
        sender.stuck.count(at, counts);
        sender.stuck.note(at, since_ns, now_ns);
        sender.stuck.on_sent_again(len);
        sender.stuck.count(at, counts);
    }

    /// The end that sends in `direction` acknowledges up to `at`, and `blocks` beyond.
    pub(super) fn on_stuck_asked(
        &mut self,
        direction: Direction,
        at: SeqNumber,
        (before, blocks): (&Blocks, &Blocks),
        now_ns: i64,
    ) {
        if !blocks.iter().any(|block| is_beyond(block, at)) {
            return;
        }
        let asked = direction.opposite();
        let counts = &mut self.counts[asked];
        let stuck = &mut self.senders[asked].stuck;
        stuck.count(at, counts);
        stuck.note(at, now_ns, now_ns);
        stuck.on_blocks(at, before, blocks);
        stuck.count(at, counts);
    }

    /// The window of the end that sends in `direction`, which has just sent a segment without SYN,
    /// FIN and RST.
    pub(super) fn note_window(&mut self, direction: Direction, window: u16, now_ns: i64) {
        let (sender, other) = direction.split_mut(&mut self.senders);
        let counts = &mut self.counts;
        if window == 0 {
            let shut = sender.shut.get_or_insert(Shut {
                since_ns: now_ns,
                is_asked: false,
            });
            shut.count(now_ns, &mut counts[direction]);
        } else if let Some(shut) = sender.shut.take() {
            shut.count(now_ns, &mut counts[direction]);
        }
        if sender.probe != Probe::No
            && let Some(shut) = &mut other.shut
        {
            shut.is_asked = true;
            shut.count(now_ns, &mut counts[direction.opposite()]);
        }
    }

    /// Whether a window is shut.
    pub(super) fn is_shut(&self) -> bool {
        self.senders.iter().any(|sender| sender.shut.is_some())
    }

    /// Whether the receiver asked for the byte at which a stream stands, and has later ones.
    pub(super) fn is_asked_for(&self, direction: Direction) -> bool {
        let (stuck, stream) = (&self.senders[direction].stuck, &self.streams[direction]);
        let is_here = { stuck.at }.is_some_and(|at| stream.offset(at) == stream.next);
        is_here && stuck.gap > 0
    }

    /// The interval is over: whether stuck bytes got through by now.
    pub(crate) fn settle_progress(&mut self) {
        for direction in Direction::BOTH {
            let other = &self.senders[direction.opposite()];
            let (acknowledgement, last_ns) = (other.acknowledgement, other.last_ns);
            let stuck = &mut self.senders[direction].stuck;
            let Some(at) = stuck.at else {
                continue;
            };
            let is_over = acknowledgement.is_after(at);
            if !is_over {
                stuck.last_ns = stuck.last_ns.max(last_ns);
            }
            stuck.count(acknowledgement, &mut self.counts[direction]);
            if is_over {
                *stuck = Stuck::default();
            }
        }
    }
}
