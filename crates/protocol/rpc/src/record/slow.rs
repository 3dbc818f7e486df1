//! The slow mode of a direction: what may be a message is held until there is evidence, and what
//! no message covers is counted.
//!
//! Where both directions of a connection are heard, the evidence comes from outside the bytes that
//! are searched: the other direction has the other half, or the segments begin and end with the
//! records. A message whose head was lost may cover everything to the end, and what is stored in it
//! can be whole records with any xid.

use lineside_account::{Counter, Counters};
use lineside_frame::Chunk;

use super::message::MessageSink;
use super::{Mode, Records};
use crate::search::Search;

/// With less memory than this, a search holds a share of it. A guess: compounds of 90 operations
/// take a hundred times their bytes as rows.
const SMALL_BUDGET: usize = 128 << 20;
const HELD_SHARE: usize = 1 << 10;

/// Bytes of a chunk that were seen.
pub fn seen(chunk: &Chunk<'_>) -> u64 {
    match chunk.missing() {
        None => chunk.len() as u64,
        Some(_) => 0,
    }
}

impl Records {
    /// The other direction has moved: a candidate may have found its other half.
    pub fn reconsider<S: MessageSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        if let Some(search) = &mut self.search {
            search.look_again();
            self.search(sink, counters);
        }
    }

    /// The other direction has a message with this xid whose other half it misses. True if it was
    /// found here, and has now been delivered.
    pub fn on_agreement<S: MessageSink>(
        &mut self,
        xid: u32,
        is_call: bool,
        sink: &mut S,
        counters: &mut Counters,
    ) -> bool {
        let mut found = false;
        // Those before it that stand alone come first, each up to its hole.
        while let Some(search) = self.search_with(sink)
            && let Some(at) = search.find(xid, is_call)
        {
            self.accept(at, sink, counters);
            found = true;
        }
        found
    }

    /// Whether a candidate of this kind with this xid waits to be accepted.
    pub fn has_candidate(&self, xid: u32, is_call: bool) -> bool {
        self.search
            .as_ref()
            .is_some_and(|search| search.contains(xid, is_call))
    }

    /// Nothing more will come.
    pub fn finish<S: MessageSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        while let Some(search) = self.search_with(sink)
            && let Some(at) = search.at_last(|xid, is_call| sink.agrees(xid, is_call))
        {
            self.accept(at, sink, counters);
        }
        self.leave_search(counters);
        if self.mode == Mode::Fast {
            self.cut_message(sink, counters);
        }
        self.mode = Mode::NotRpc;
    }

    /// Bytes that were seen and belong to no message that was understood.
    pub fn unread_bytes(&self) -> u64 {
        self.unread
    }

    /// The place of the next mark is lost.
    #[cold]
    pub(super) fn lose<S: MessageSink>(
        &mut self,
        rest: Chunk<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        self.cut_message(sink, counters);
        self.fragment_left = 0;
        self.mark_len = 0;
        self.mode = Mode::Slow;
        self.push_search(rest, counters);
    }

    /// What was taken for a message is none: `part`, of which the rest of it is looked at again,
    /// was counted as its last bytes.
    #[cold]
    pub(super) fn forget_message(&mut self, part: &Chunk<'_>, counters: &mut Counters) {
        let Some(open) = self.message.take() else {
            return;
        };
        let taken = (open.message.len - open.message.missing) as u64;
        if !open.is_too_long() {
            counters.subtract(Counter::RpcBytes, taken);
        }
        self.unread += taken - seen(part);
    }

    pub(super) fn push_search(&mut self, chunk: Chunk<'_>, counters: &mut Counters) {
        let search = self.search.get_or_insert_with(Box::default);
        search.last_xid = self.last_xid;
        if !chunk.is_empty() {
            // Until it is accepted.
            self.unread += seen(&chunk);
            search.push(chunk, &self.config);
            counters.add(
                Counter::CandidatesRejected,
                std::mem::take(&mut search.rejected),
            );
        }
    }

    pub(super) fn search<S: MessageSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        while let Some(search) = self.search_with(sink) {
            let accepted = search
                .agreed(|xid, is_call| sink.agrees(xid, is_call))
                .or_else(|| search.chained(false));
            if let Some(at) = accepted {
                self.accept(at, sink, counters);
                continue;
            }
            let (has_candidates, held) = (search.has_candidates(), search.held_bytes);
            let hears_both = search.hears_both;
            let is_vain = search.scanned_bytes > self.config.search_max_bytes && !has_candidates;
            if held > self.held_max(hears_both) && has_candidates {
                // With more memory it would have gone on.
                let is_early = held <= self.config.search_held_max_bytes;
                counters.add(Counter::HeldLimit, u64::from(is_early));
                self.decide(sink, counters);
                continue;
            }
            if is_vain && self.may_be_other() {
                self.mode = Mode::NotRpc;
                self.leave_search(counters);
            }
            return;
        }
    }

    /// So much is held at most. Where the other direction is not heard, all of it may become rows
    /// at once: less of a small budget.
    fn held_max(&self, hears_both: bool) -> usize {
        let most = self.config.search_held_max_bytes;
        match self.lease.budget().limit_bytes() {
            limit if limit < SMALL_BUDGET && !hears_both => most.min(limit / HELD_SHARE),
            _ => most,
        }
    }

    /// Too much is held: decides on the earliest candidate by what is known.
    pub(super) fn decide<S: MessageSink>(&mut self, sink: &mut S, counters: &mut Counters) {
        let Some(search) = self.search_with(sink) else {
            return;
        };
        match search.chained(true) {
            Some(at) => self.accept(at, sink, counters),
            None => search.drop_first(),
        }
    }

    fn accept<S: MessageSink>(&mut self, at: u64, sink: &mut S, counters: &mut Counters) {
        let Some(mut search) = self.search.take() else {
            return;
        };
        let ranges = search.accept(at);
        counters.add(Counter::CandidatesRejected, search.rejected);
        counters.count(Counter::Resynchronised);
        self.mode = Mode::Fast;
        self.proven = true;
        self.unread -= ranges.iter().map(|range| seen(&range.chunk())).sum::<u64>();
        for range in &ranges {
            match self.mode {
                Mode::Fast => self.walk(range.chunk(), sink, counters),
                _ => self.push_search(range.chunk(), counters),
            }
        }
    }

    pub(super) fn leave_search(&mut self, counters: &mut Counters) {
        if let Some(search) = self.search.take() {
            counters.add(Counter::CandidatesRejected, search.rejected);
        }
    }

    /// The search, with what is known of the other direction.
    fn search_with<S: MessageSink>(&mut self, sink: &S) -> Option<&mut Search> {
        let search = self.search.as_deref_mut()?;
        search.hears_both = sink.hears_both();
        Some(search)
    }
}
