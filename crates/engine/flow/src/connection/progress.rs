//! What keeps a stream from going on: bytes that do not get through however often they are sent,
//! and a receiver's window that stays shut.
//!
//! All of this is noted at segments that need a closer look anyway. When stuck bytes were
//! acknowledged is therefore not known to the segment: they count until they were sent or asked for
//! last, and those that never were until the last segment of the end that waits for them.

use lineside_wire::{Direction, SeqNumber};

use crate::connection::Connection;
use crate::connection::sender::Probe;
use crate::counts::FlowCounts;

/// The bytes of an end that its receiver waits for, once they were sent again or asked for.
#[derive(Debug, Default)]
pub(crate) struct Stuck {
    /// The acknowledgement that stays.
    at: Option<SeqNumber>,
    since_ns: i64,
    last_ns: i64,
    /// Of the segment that was sent there last; 0: the tap saw none.
    sent_len: u32,
    /// How often, one after the other.
    sent_times: u32,
    /// Of the one before it that was sent twice or more, and did not get through. What was sent
    /// once may be several segments that the sender's adapter cuts.
    failed_len: Option<u32>,
    /// Up to the first later bytes that the receiver has.
    gap: u32,
    /// The longest segment after them that got through.
    passed_len: u32,
}

/// A window that its end has shut.
#[derive(Debug)]
pub(crate) struct Shut {
    since_ns: i64,
    /// The other end has asked for room.
    is_asked: bool,
}

/// Where SACK blocks begin and end.
type Blocks = [(SeqNumber, SeqNumber); 4];

impl Stuck {
    /// The receiver still waits for the byte `at`, `now_ns`; `since_ns`: since when, if that is
    /// new.
    fn note(&mut self, at: SeqNumber, since_ns: i64, now_ns: i64) {
        if self.at != Some(at) {
            *self = Self {
                at: Some(at),
                since_ns,
                ..Self::default()
            };
        }
        self.last_ns = now_ns;
    }

    /// The bytes are sent again.
    fn on_sent_again(&mut self, len: u32) {
        if len != self.sent_len {
            if self.sent_times > 1 {
                self.failed_len = Some(self.sent_len);
            }
            (self.sent_len, self.sent_times) = (len, 0);
        }
        self.sent_times += 1;
    }

    /// The receiver has these bytes beyond them; `before`: it had those.
    fn on_blocks(&mut self, at: SeqNumber, before: &Blocks, blocks: &Blocks) {
        for &(start, end) in blocks.iter().filter(|block| is_beyond(block, at)) {
            let holds = |&&(from, to): &&(SeqNumber, SeqNumber)| {
                from != to && !from.is_after(start) && !start.is_after(to)
            };
            let known = before.iter().find(holds).map_or(start, |known| known.1);
            if end.is_after(known) {
                self.passed_len = self.passed_len.max(end.bytes_from(known));
            }
            let gap = start.bytes_from(at);
            self.gap = if self.gap == 0 {
                gap
            } else {
                self.gap.min(gap)
            };
        }
    }

    /// Adds it to the counts of its end; `acknowledgement` is the latest of the other end.
    fn count(&self, acknowledgement: SeqNumber, counts: &mut FlowCounts) {
        let lasted_ns = self
            .last_ns
            .saturating_sub(self.since_ns)
            .max(0)
            .unsigned_abs();
        let is_news = lasted_ns > 0 || self.gap > 0 && counts.stuck_since_ns.is_none();
        if self.at.is_none() || !is_news || lasted_ns < counts.stuck_ns {
            return;
        }
        let has_passed = self.at.is_some_and(|at| acknowledgement.is_after(at));
        let (stuck, passed) = match (has_passed, self.failed_len) {
            // What was sent in place of longer segments.
            (true, Some(failed)) if self.sent_len < failed => (failed, self.sent_len),
            // What had been lost got through in the end.
            (true, _) => (0, self.sent_len),
            (false, Some(failed)) => (failed.min(self.sent_len), 0),
            (false, None) if self.sent_len > 0 => (self.sent_len, 0),
            (false, None) => (self.gap, 0),
        };
        counts.stuck_ns = lasted_ns;
        counts.stuck_since_ns = Some(self.since_ns);
        counts.stuck_bytes = u64::from(stuck);
        counts.passed_bytes = u64::from(self.passed_len.max(passed));
    }
}

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

impl Shut {
    fn count(&self, now_ns: i64, counts: &mut FlowCounts) {
        let lasted_ns = now_ns.saturating_sub(self.since_ns).max(0).unsigned_abs();
        if self.is_asked && lasted_ns > counts.shut_ns {
            counts.shut_ns = lasted_ns;
            counts.shut_since_ns = Some(self.since_ns);
        }
    }
}

/// Whether a block is of bytes that wait for the byte `at`, and no report of duplicates.
fn is_beyond((start, end): &(SeqNumber, SeqNumber), at: SeqNumber) -> bool {
    start != end && start.is_after(at)
}
