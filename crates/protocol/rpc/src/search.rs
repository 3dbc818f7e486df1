//! The slow mode: where does the next record begin?
//!
//! File data can hold anything, also a stored capture with perfect RPC headers in it. So a place
//! that looks like a header is only a *candidate*. It is accepted if
//!
//! * the other direction agrees: a reply's call is outstanding, or a call's reply was just seen;
//!   with it every candidate whose lengths lead to it and whose xid is near (what is stored at the
//!   end of a file leads to the next true header too). Where packets of both directions come, no
//!   other has its xid, and until its other half asks for it, it is seen where it leads; or
//! * nothing more will come, each record from it on begins a segment and is alone with its xid, the
//!   last one ends with a segment or in a hole, and its xid goes on from those before; or
//!
//! where packets of the other direction do not come at all:
//!
//! * its lengths lead from mark to mark without a miss over [`CHAIN_BYTES`], or to the end of all
//!   that will ever come, and its xid goes on from those before; or
//! * they lead out of sight (into a hole), nothing more can be known, its xid goes on from those
//!   before ([`XIDS_AHEAD`]: what is stored is older), and it begins a frame or leads to another
//!   header.
//!
//! It is rejected as soon as its length leads to a place that was seen and is no header.
//!
//! What it costs: a search scans each byte once and looks at each place once as the mark that
//! lengths lead to, whatever number of candidates lead there; each candidate is linked and rejected
//! once, by binary search, and asked about once, or again while it waits and when the other
//! direction has found its place. Only a decision (an acceptance, the end, or too much that is
//! held) passes over all candidates, at most [`CANDIDATES_MAX`]; a hole after an accepted record
//! begins a new search.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lineside_frame::{Cause, Chunk, Range};
use memchr::memmem;
use smallvec::SmallVec;

use crate::message::LAST_FRAGMENT;
use crate::record::{Config, PIECE_BYTES};
pub(crate) use plausible::{plausible_call, plausible_reply};

mod plausible;

/// Bytes from a record mark to the end of what every message has: mark, xid, type, and four words.
pub(crate) const HEAD: usize = 28;
/// Unbroken records over this many bytes are a stream, also without an answer: more than one READ
/// or WRITE can carry of a file that is a stream of records itself. Linux moves 1 MiB at most.
const CHAIN_BYTES: u64 = (1 << 20) + (64 << 10);
/// Clients count their xids up. So far ahead of the last message of its direction may a message be
/// that stands alone between two holes, and so far behind, since servers answer out of order. A
/// stored capture is of the past, or of another client: 2^16 of 2^32 xids match by chance.
const XIDS_AHEAD: u32 = 1 << 16;
const XIDS_BEHIND: u32 = 64;
/// Few messages of NFS are smaller.
const MESSAGE_BYTES: u64 = 100;
/// Candidates kept; beyond, the oldest goes. True headers are as far apart as records, and stored
/// ones are rejected at the end of each stored frame, so that few are ever open.
const CANDIDATES_MAX: usize = 1024;
/// A record of more fragments is not searched for, else bytes that look like fragments without end
/// would keep everything held. 1 MiB in fragments of one Ethernet frame has 719.
const FRAGMENTS_MAX: u32 = 4096;

/// What a candidate takes in the four tables, about.
const CANDIDATE_BYTES: usize = 128;
/// What these have room for from the first one on: a node of eleven each.
const TREES_BYTES: usize = 11 * (size_of::<(u64, Candidate)>() + 3 * size_of::<(u64, u64)>());
/// Places for held ranges that are kept although most of them are empty.
const PLACES_KEPT: usize = 32;

/// A place that looks like a record mark followed by an RPC header.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// Where the last fragment of its record begins that was seen so far, its mark, and its number.
    fragment: u64,
    mark: u32,
    number: u32,
    xid: u32,
    is_call: bool,
    leads: Leads,
}

impl Candidate {
    /// Bytes of its fragment.
    fn len(&self) -> usize {
        (self.mark & !LAST_FRAGMENT) as usize
    }

    /// Where its length leads to, as far as fragments were seen.
    fn target(&self) -> u64 {
        self.fragment + 4 + self.len() as u64
    }

    fn is_whole(&self) -> bool {
        self.mark & LAST_FRAGMENT != 0
    }
}

/// What follows from a candidate's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    /// To a place of which too little has come.
    Waits,
    /// To the candidate at this place, which begins the next record.
    Record(u64),
    /// To a fragment to which the candidate at this later place leads too, or which it is: where
    /// that one leads to, this one does.
    Joins(u64),
    /// Into a hole.
    Hole,
}

/// Where records that follow each other end, as far as is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// At a place that has not come yet.
    Ahead,
    /// In a hole.
    Hole,
    /// Exactly at the end of what came.
    Exact,
}

/// The records from the first candidate on.
#[derive(Debug, Clone, Copy)]
struct Walked {
    first: u64,
    last: u64,
    /// The candidate that goes on for the last one: itself, or one that it joined.
    node: u64,
    /// Records, the first included.
    links: usize,
}

/// The records from any candidate on.
#[derive(Debug, Clone, Copy)]
struct Walk {
    first: u64,
    next: Option<u64>,
    last: u64,
    links: usize,
    end: End,
}

/// Bytes of one direction from the earliest candidate on.
#[derive(Debug, Default)]
pub(crate) struct Search {
    held: VecDeque<(u64, Range)>,
    end: u64,
    /// By position.
    candidates: BTreeMap<u64, Candidate>,
    /// Those that wait: for which place, and where they are.
    waiting: BTreeSet<(u64, u64)>,
    /// Those that lead to another: to which, and where they are.
    led: BTreeSet<(u64, u64)>,
    by_xid: BTreeSet<(u32, bool, u64)>,
    /// Candidates before this position were asked about.
    asked: u64,
    /// How far the first candidate was followed.
    walked: Option<Walked>,
    /// The xid of the last message of this direction.
    pub(crate) last_xid: Option<u32>,
    /// The other direction is heard: what is true, it agrees with.
    pub(crate) hears_both: bool,
    pub(crate) held_bytes: usize,
    pub(crate) scanned_bytes: u64,
    pub(crate) rejected: u64,
    /// Places looked at and links passed: what a search costs beside the scan.
    #[cfg(test)]
    steps: std::cell::Cell<u64>,
}

impl Search {
    /// Takes the next bytes or the next hole.
    pub(crate) fn push(&mut self, chunk: Chunk<'_>, config: &Config) {
        let before = self.end;
        self.held.push_back((before, chunk.hold()));
        self.held_bytes += chunk.len();
        self.end += chunk.len() as u64;
        self.scanned_bytes += chunk.len() as u64;
        let bytes = chunk.bytes();
        if !bytes.is_empty() {
            let (tail, tail_len) = self.tail(before);
            // What lies across the border is looked at in a copy of a few bytes.
            let mut border = [0; 2 * (HEAD - 1)];
            border[..tail_len].copy_from_slice(&tail[HEAD - 1 - tail_len..]);
            let head = bytes.len().min(HEAD - 1);
            border[tail_len..tail_len + head].copy_from_slice(&bytes[..head]);
            self.scan(
                &border[..tail_len + head],
                before - tail_len as u64,
                tail_len,
                config,
            );
            self.scan(bytes, before, bytes.len(), config);
        }
        self.resolve();
        self.forget();
    }

    /// The position of a candidate that the other direction agrees with, by `agrees(xid, is_call)`.
    pub(crate) fn agreed(&mut self, mut agrees: impl FnMut(u32, bool) -> bool) -> Option<u64> {
        // No candidate is found later that begins before this.
        let mut asked = self.end.saturating_sub(HEAD as u64 - 1);
        let mut found = None;
        for (&at, candidate) in self.candidates.range(self.asked..) {
            if !agrees(candidate.xid, candidate.is_call) || !self.is_only(candidate) {
                continue;
            }
            // What is stored shows by where it leads.
            if !self.hears_both || candidate.leads != Leads::Waits {
                found = Some(at);
                break;
            }
            asked = asked.min(at);
        }
        self.asked = asked;
        found.map(|at| self.first_with(at))
    }

    /// Of a stream of which nothing more will come: the position of a candidate that stands by
    /// itself, or that the other direction agrees with.
    pub(crate) fn at_last(&mut self, mut agrees: impl FnMut(u32, bool) -> bool) -> Option<u64> {
        if !self.hears_both {
            return self.chained(true);
        }
        let walks = self.walks();
        let accepted = walks.iter().rev().find(|walk| {
            let candidate = &self.candidates[&walk.first];
            self.is_in_segments(walk) || {
                let leads = walk.links >= 2 || self.begins_frame(walk.first);
                leads && agrees(candidate.xid, candidate.is_call) && self.is_only(candidate)
            }
        });
        accepted.map(|walk| walk.first)
    }

    /// The candidate with this xid, or the earliest that leads to it. Where both directions are
    /// heard, none if several have the xid: the true one may be lost, and all of them stored.
    pub(crate) fn find(&self, xid: u32, is_call: bool) -> Option<u64> {
        let mut same = self.with_xid(xid, is_call);
        let at = same.next()?;
        let may_be_stored = self.hears_both && same.next().is_some();
        (!may_be_stored).then(|| self.first_with(at))
    }

    /// Whether there is a candidate with this xid.
    pub(crate) fn contains(&self, xid: u32, is_call: bool) -> bool {
        self.with_xid(xid, is_call).next().is_some()
    }

    /// A candidate from which record follows record for long enough. `last`: nothing more will
    /// come, so that whatever can be accepted has to be. Only where the other direction is not
    /// heard.
    pub(crate) fn chained(&mut self, last: bool) -> Option<u64> {
        if self.hears_both {
            return None;
        }
        if !last {
            // A later candidate may be inside the first one's record: it must not overtake it.
            let walk = self.walk_first()?;
            let is_long = walk.links >= 2 && walk.last - walk.first >= CHAIN_BYTES;
            return is_long.then_some(walk.first);
        }
        let walks = self.walks();
        let accepted = walks.iter().rev().find(|walk| match walk.end {
            End::Exact => self
                .is_timely(self.candidates[&walk.first].xid)
                .unwrap_or(true),
            End::Ahead | End::Hole => self.stands_alone(walk),
        });
        accepted.map(|walk| walk.first)
    }

    /// Everything from the candidate at `position` on, in order; the search is over.
    pub(crate) fn accept(&mut self, position: u64) -> Vec<Range> {
        self.rejected += self.candidates.range(..position).count() as u64;
        let held = std::mem::take(&mut self.held);
        let keep = held
            .into_iter()
            .filter(|(start, range)| start + range.len() as u64 > position);
        let ranges = keep.map(|(start, range)| {
            let skip = position.saturating_sub(start) as usize;
            if skip == 0 {
                range
            } else {
                range.part(skip, range.len() - skip)
            }
        });
        let ranges = ranges.collect();
        *self = Self {
            rejected: self.rejected,
            ..Self::default()
        };
        ranges
    }

    /// Drops the earliest candidate and what only it needed.
    pub(crate) fn drop_first(&mut self) {
        if let Some((&first, _)) = self.candidates.first_key_value() {
            self.remove(first);
        }
        self.forget();
    }

    /// Asks the other direction about every candidate once more.
    pub(crate) fn look_again(&mut self) {
        self.asked = 0;
    }

    /// What is held, and what holding it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.held_bytes
            + self.held.len() * PIECE_BYTES
            + self.held.capacity() * size_of::<(u64, Range)>()
            + self.candidates.len() * CANDIDATE_BYTES
            + usize::from(self.has_candidates()) * TREES_BYTES
    }

    pub(crate) fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    pub(crate) fn spill(&mut self) -> usize {
        let held = self.held.iter_mut();
        held.map(|(_, range)| usize::from(range.spill())).sum()
    }

    /// The last bytes before `end` that were seen without a hole, at the end of the array, and how
    /// many.
    fn tail(&self, end: u64) -> ([u8; HEAD - 1], usize) {
        let mut tail = [0; HEAD - 1];
        let mut len = 0;
        for (start, range) in self.held.iter().rev() {
            if *start >= end {
                continue;
            }
            let bytes = range.bytes();
            let take = bytes.len().min(HEAD - 1 - len);
            let at = HEAD - 1 - len;
            tail[at - take..at].copy_from_slice(&bytes[bytes.len() - take..]);
            len += take;
            if range.missing().is_some() || len == HEAD - 1 {
                break;
            }
        }
        (tail, len)
    }

    /// Adds the candidates that begin before `limit` in `bytes`, which lie at `start`.
    fn scan(&mut self, bytes: &[u8], start: u64, limit: usize, config: &Config) {
        // msg_type CALL and rpcvers 2; msg_type REPLY and the three zero bytes of any reply_stat.
        const CALL: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 2];
        const REPLY: &[u8] = &[0, 0, 0, 1, 0, 0, 0];
        for needle in [CALL, REPLY] {
            let finder = memmem::Finder::new(needle);
            let mut at = 8;
            while let Some(found) = bytes.get(at..).and_then(|rest| finder.find(rest)) {
                let head_at = at + found - 8;
                at += found + 1;
                if head_at >= limit {
                    break;
                }
                let Some(head) = bytes.get(head_at..head_at + HEAD) else {
                    break;
                };
                let position = start + head_at as u64;
                if let Some(candidate) = candidate(head, position, config) {
                    if candidate.len() > config.record_max_bytes {
                        continue;
                    }
                    self.candidates.insert(position, candidate);
                    self.waiting.insert((candidate.target(), position));
                    let key = (candidate.xid, candidate.is_call, position);
                    self.by_xid.insert(key);
                }
            }
        }
        while self.candidates.len() > CANDIDATES_MAX
            && let Some((&first, _)) = self.candidates.first_key_value()
        {
            self.remove(first);
        }
    }

    /// Looks at each place that was waited for and has come.
    fn resolve(&mut self) {
        let mut from = 0;
        while let Some(&(place, _)) = self.waiting.range((from, 0)..).next()
            && place < self.end
        {
            // In order, so that all fragments that lead to a place are known when it is looked at.
            from = place + 1;
            self.on_place(place);
        }
    }

    /// Some bytes have come at a place that is waited for.
    fn on_place(&mut self, place: u64) {
        let is_header = self.candidates.contains_key(&place);
        let head = self.seen(place, HEAD);
        let mark = match head {
            Seen::Bytes(_) => head,
            Seen::Hole | Seen::Ahead => self.seen(place, 4),
        };
        let all = self.waiting.range((place, 0)..(place + 1, 0));
        let all: SmallVec<[u64; 8]> = all.map(|&(_, position)| position).collect();
        // The latest goes on for all whose next fragment this is: it is dropped after them.
        let mut latest = None;
        for position in all.into_iter().rev() {
            self.count(1);
            let Some(&candidate) = self.candidates.get(&position) else {
                continue;
            };
            let is_whole = candidate.is_whole();
            match (is_header, if is_whole { head } else { mark }, latest) {
                (true, ..) if is_whole => self.link(position, place, Leads::Record(place)),
                (true, ..) => self.link(position, place, Leads::Joins(place)),
                (_, Seen::Ahead, _) => {}
                (_, Seen::Hole, _) => self.link(position, place, Leads::Hole),
                (_, Seen::Bytes(_), _) if is_whole => self.reject(position),
                (_, Seen::Bytes(_), Some(latest)) => {
                    self.link(position, place, Leads::Joins(latest));
                    if let Some(latest) = self.candidates.get_mut(&latest) {
                        latest.number = latest.number.min(candidate.number + 1);
                    }
                }
                (_, Seen::Bytes(bytes), None) => {
                    let mark = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    if mark == 0 || candidate.number == FRAGMENTS_MAX {
                        self.reject(position);
                        continue;
                    }
                    let goes_on = Candidate {
                        fragment: place,
                        mark,
                        number: candidate.number + 1,
                        ..candidate
                    };
                    self.waiting.remove(&(place, position));
                    self.waiting.insert((goes_on.target(), position));
                    self.candidates.insert(position, goes_on);
                    latest = Some(position);
                }
            }
        }
    }

    /// The candidate at `position` has waited for `place`, and now `leads` somewhere.
    fn link(&mut self, position: u64, place: u64, leads: Leads) {
        self.waiting.remove(&(place, position));
        if let Leads::Record(to) | Leads::Joins(to) = leads {
            self.led.insert((to, position));
        }
        if let Some(candidate) = self.candidates.get_mut(&position) {
            candidate.leads = leads;
        }
    }

    /// Removes a candidate that leads nowhere, and all that lead to it.
    fn reject(&mut self, position: u64) {
        let mut rejected: SmallVec<[u64; 8]> = SmallVec::new();
        rejected.push(position);
        while let Some(position) = rejected.pop() {
            let led = self.led.range((position, 0)..(position + 1, 0));
            rejected.extend(led.map(|&(_, from)| from));
            self.remove(position);
        }
    }

    fn remove(&mut self, position: u64) {
        let Some(candidate) = self.candidates.remove(&position) else {
            return;
        };
        self.by_xid
            .remove(&(candidate.xid, candidate.is_call, position));
        match candidate.leads {
            Leads::Waits => self.waiting.remove(&(candidate.target(), position)),
            Leads::Record(to) | Leads::Joins(to) => self.led.remove(&(to, position)),
            Leads::Hole => true,
        };
        self.rejected += 1;
    }

    /// Forgets the bytes that no candidate needs.
    fn forget(&mut self) {
        let keep = self
            .candidates
            .first_key_value()
            .map_or(self.end, |(&first, _)| first)
            .min(self.end.saturating_sub(HEAD as u64 - 1));
        // No candidate begins in a hole, so that one at the front is needed by none.
        while let Some((start, range)) = self.held.front()
            && (start + range.len() as u64 <= keep || range.missing().is_some())
        {
            self.held_bytes -= range.len();
            self.held.pop_front();
        }
        if self.held.capacity() > PLACES_KEPT && self.held.len() < self.held.capacity() / 4 {
            self.held.shrink_to(PLACES_KEPT.max(2 * self.held.len()));
        }
    }

    /// The candidates with this xid, the last one first: copies that are stored in a message come
    /// before the next one.
    fn with_xid(&self, xid: u32, is_call: bool) -> impl Iterator<Item = u64> {
        let same = (xid, is_call, 0)..=(xid, is_call, u64::MAX);
        self.by_xid
            .range(same)
            .rev()
            .map(|&(.., position)| position)
    }

    /// Whether no other candidate has its xid: a message is sent once.
    fn is_only(&self, candidate: &Candidate) -> bool {
        let mut same = self.with_xid(candidate.xid, candidate.is_call);
        same.nth(1).is_none()
    }

    /// Whether each of the records from a candidate on begins a segment, the last one ends with a
    /// segment, and their xids go on from those before: programs write a message at a time, and
    /// segments of file data begin anywhere in what is stored there.
    fn is_in_segments(&self, walk: &Walk) -> bool {
        let is_next = match self.last_xid {
            None => walk.first == 0,
            Some(_) => self.is_next(walk.first),
        };
        let mut at = walk.first;
        while is_next && self.begins_frame(at) && self.is_only(&self.candidates[&at]) {
            match self.candidates[&at].leads {
                Leads::Record(next) => at = next,
                Leads::Waits | Leads::Hole => return self.ends_frame(at),
                Leads::Joins(_) => return false,
            }
        }
        false
    }

    /// Whether the record at `position` may end where a segment does: nobody knows how many are in
    /// a hole, nor where the fragments end of which the first is there.
    fn ends_frame(&self, position: u64) -> bool {
        let candidate = &self.candidates[&position];
        if !candidate.is_whole() {
            return true;
        }
        let target = candidate.target();
        let ends = |(start, range): &(u64, Range)| start + range.len() as u64 <= target;
        let at = self.held.partition_point(ends);
        let Some((start, range)) = self.held.get(at) else {
            return target == self.end;
        };
        let cause = range.missing();
        *start == target || cause.is_some_and(|cause| cause != Cause::SnapLength)
    }

    /// Whether the xid of a candidate is one of the next after the last of its direction.
    fn is_next(&self, position: u64) -> bool {
        let xid = self.candidates[&position].xid;
        self.last_xid
            .is_some_and(|last| ahead(xid, last) <= 2 * XIDS_BEHIND)
    }

    /// Whether records that lead into a hole begin with a header, where the other direction is
    /// heard and says nothing of them.
    fn stands_in_segments(&self, walk: &Walk) -> bool {
        self.begins_frame(walk.first)
            && self.ends_frame(walk.last)
            && self.is_only(&self.candidates[&walk.first])
            && (self.last_xid.is_none() || self.is_next(walk.first))
    }

    /// Where to begin if `target` is a header: nothing more can be learned of those before it.
    fn first_with(&self, target: u64) -> u64 {
        let walks = self.walks();
        let target = self.first_that_leads_to(target, &walks);
        let mut earlier = walks.iter().rev();
        let alone = earlier.find(|walk| {
            walk.end == End::Hole
                && walk.last < target
                && match self.hears_both {
                    true => self.stands_in_segments(walk),
                    false => self.stands_alone(walk),
                }
                && (self.last_xid.is_some() || self.goes_on(walk.first, target, target - walk.last))
        });
        alone.map_or(target, |walk| walk.first)
    }

    /// The earliest candidate from which records lead to `target`, each with an xid near the one
    /// before.
    fn first_that_leads_to(&self, target: u64, walks: &[Walk]) -> u64 {
        let mut leading = BTreeSet::from([target]);
        for walk in walks.iter().filter(|walk| walk.first < target) {
            if let Some(next) = walk.next
                && leading.contains(&next)
                && self.goes_on(walk.first, next, 0)
                && (!self.hears_both || self.is_only(&self.candidates[&walk.first]))
            {
                leading.insert(walk.first);
            }
        }
        leading.first().copied().unwrap_or(target)
    }

    /// Whether the candidate at `next` can follow that at `at` in one direction of a connection, by
    /// kind and by xid, if other messages have `between` bytes.
    fn goes_on(&self, at: u64, next: u64, between: u64) -> bool {
        let (at, next) = (&self.candidates[&at], &self.candidates[&next]);
        let messages = between / MESSAGE_BYTES + u64::from(2 * XIDS_BEHIND);
        at.is_call == next.is_call && u64::from(ahead(next.xid, at.xid)) <= messages
    }

    /// Whether records that lead out of sight begin with a header, nothing else being known.
    fn stands_alone(&self, walk: &Walk) -> bool {
        match self.is_timely(self.candidates[&walk.first].xid) {
            None => self.begins_frame(walk.first),
            Some(timely) => timely && (walk.links >= 2 || self.begins_frame(walk.first)),
        }
    }

    /// Whether an xid goes on from the last one of this direction, if there was one.
    fn is_timely(&self, xid: u32) -> Option<bool> {
        Some(ahead(xid, self.last_xid?) <= XIDS_AHEAD)
    }

    /// The records from the first candidate on. Links never change, so each is passed once.
    fn walk_first(&mut self) -> Option<Walked> {
        let (&first, _) = self.candidates.first_key_value()?;
        let walked = self.walked.filter(|walked| walked.first == first);
        let mut walk = walked.unwrap_or(Walked {
            first,
            last: first,
            node: first,
            links: 1,
        });
        loop {
            self.count(1);
            match self.candidates[&walk.node].leads {
                Leads::Record(next) => {
                    (walk.last, walk.node) = (next, next);
                    walk.links += 1;
                }
                Leads::Joins(other) => walk.node = other,
                Leads::Waits | Leads::Hole => break,
            }
        }
        self.walked = Some(walk);
        Some(walk)
    }

    /// The records from each candidate on, the last candidate first.
    fn walks(&self) -> Vec<Walk> {
        let mut walks: Vec<Walk> = Vec::with_capacity(self.candidates.len());
        for (&first, candidate) in self.candidates.iter().rev() {
            let alone = |end| Walk {
                first,
                next: None,
                last: first,
                links: 1,
                end,
            };
            // Candidates lead to later ones.
            let walk_from = |position: u64| {
                let at = walks.binary_search_by(|walk: &Walk| position.cmp(&walk.first));
                walks[at.expect("a walk is removed after those that lead to it")]
            };
            let walk = match candidate.leads {
                Leads::Waits if candidate.target() == self.end => alone(End::Exact),
                Leads::Waits => alone(End::Ahead),
                Leads::Hole => alone(End::Hole),
                Leads::Record(next) => {
                    let after = walk_from(next);
                    Walk {
                        first,
                        next: Some(next),
                        links: after.links + 1,
                        ..after
                    }
                }
                Leads::Joins(other) => {
                    let other = walk_from(other);
                    let last = if other.next.is_none() {
                        first
                    } else {
                        other.last
                    };
                    Walk {
                        first,
                        last,
                        ..other
                    }
                }
            };
            walks.push(walk);
        }
        self.count(walks.len());
        walks
    }

    fn seen(&self, position: u64, len: usize) -> Seen {
        let mut bytes = [0; HEAD];
        let mut filled = 0;
        let at = self
            .held
            .partition_point(|(start, range)| start + range.len() as u64 <= position);
        for (start, range) in self.held.range(at..) {
            if range.missing().is_some() {
                return Seen::Hole;
            }
            let skip = position.saturating_sub(*start) as usize;
            let here = &range.bytes()[skip..];
            let take = here.len().min(len - filled);
            bytes[filled..filled + take].copy_from_slice(&here[..take]);
            filled += take;
            if filled == len {
                return Seen::Bytes(bytes);
            }
        }
        Seen::Ahead
    }

    fn count(&self, _steps: usize) {
        #[cfg(test)]
        self.steps.set(self.steps.get() + _steps as u64);
    }

    fn begins_frame(&self, position: u64) -> bool {
        self.held
            .binary_search_by_key(&position, |&(start, _)| start)
            .is_ok()
    }
}

/// How far an xid is ahead of the furthest that it may be behind the `last` one.
fn ahead(xid: u32, last: u32) -> u32 {
    xid.wrapping_sub(last).wrapping_add(XIDS_BEHIND)
}

#[derive(Clone, Copy)]
enum Seen {
    Bytes([u8; HEAD]),
    Hole,
    Ahead,
}

/// Whether 28 bytes can be a record mark and the beginning of a call or a reply (RFC 5531, 9 and
/// 11).
fn candidate(head: &[u8], position: u64, config: &Config) -> Option<Candidate> {
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let mark = word(0);
    let len = (mark & !LAST_FRAGMENT) as usize;
    let is_call = word(8) == 0;
    let plausible = if is_call {
        // xid, type, version, program, version, procedure, and two authenticators of 8 bytes at
        // least.
        len >= HEAD - 4
            && (mark & LAST_FRAGMENT == 0 || len >= 40)
            && plausible_call(word(12), word(16), word(20), word(24), config.any_program)
    } else {
        len >= 20 && plausible_reply(word(8), word(12), word(16), word(20), word(24), len)
    };
    plausible.then_some(Candidate {
        fragment: position,
        mark,
        number: 1,
        xid: word(4),
        is_call,
        leads: Leads::Waits,
    })
}

#[cfg(test)]
mod tests;
