//! Bytes of an end that do not get through, and a window that its end has shut.

use lineside_wire::SeqNumber;

use crate::counts::FlowCounts;

/// The bytes of an end that its receiver waits for, once they were sent again or asked for.
#[derive(Debug, Default)]
pub(crate) struct Stuck {
    /// The acknowledgement that stays.
    pub(super) at: Option<SeqNumber>,
    since_ns: i64,
    pub(super) last_ns: i64,
    /// Of the segment that was sent there last; 0: the tap saw none.
    sent_len: u32,
    /// How often, one after the other.
    sent_times: u32,
    /// Of the one before it that was sent twice or more, and did not get through. What was sent
    /// once may be several segments that the sender's adapter cuts.
    failed_len: Option<u32>,
    /// Up to the first later bytes that the receiver has.
    pub(super) gap: u32,
    /// The longest segment after them that got through.
    passed_len: u32,
}

/// A window that its end has shut.
#[derive(Debug)]
pub(crate) struct Shut {
    pub(super) since_ns: i64,
    /// The other end has asked for room.
    pub(super) is_asked: bool,
}

/// Where SACK blocks begin and end.
pub(super) type Blocks = [(SeqNumber, SeqNumber); 4];

impl Stuck {
    /// The receiver still waits for the byte `at`, `now_ns`; `since_ns`: since when, if that is
    /// new.
    pub(super) fn note(&mut self, at: SeqNumber, since_ns: i64, now_ns: i64) {
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
    pub(super) fn on_sent_again(&mut self, len: u32) {
        if len != self.sent_len {
            if self.sent_times > 1 {
                self.failed_len = Some(self.sent_len);
            }
            (self.sent_len, self.sent_times) = (len, 0);
        }
        self.sent_times += 1;
    }

    /// The receiver has these bytes beyond them; `before`: it had those.
    pub(super) fn on_blocks(&mut self, at: SeqNumber, before: &Blocks, blocks: &Blocks) {
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
    pub(super) fn count(&self, acknowledgement: SeqNumber, counts: &mut FlowCounts) {
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

impl Shut {
    pub(super) fn count(&self, now_ns: i64, counts: &mut FlowCounts) {
        let lasted_ns = now_ns.saturating_sub(self.since_ns).max(0).unsigned_abs();
        if self.is_asked && lasted_ns > counts.shut_ns {
            counts.shut_ns = lasted_ns;
            counts.shut_since_ns = Some(self.since_ns);
        }
    }
}

/// Whether a block is of bytes that wait for the byte `at`, and no report of duplicates.
pub(super) fn is_beyond((start, end): &(SeqNumber, SeqNumber), at: SeqNumber) -> bool {
    start != end && start.is_after(at)
}
