//! The slow mode: where does the next record begin? (C7)
//!
//! File data can hold anything, also a stored capture with perfect RPC headers in it. So a place
//! that looks like a header is only a *candidate*. It is accepted if
//!
//! * the other direction agrees: a reply's call is outstanding, or a call's reply was just seen; with
//!   it every candidate whose lengths lead to it and whose xid is near (what is stored at the end of a
//!   file leads to the next true header too); or
//! * its lengths lead from mark to mark without a miss over [`CHAIN_BYTES`], or to the end of all
//!   that will ever come, and its xid goes on from those before; or
//! * they lead out of sight (into a hole), nothing more can be known, its xid goes on from those before
//!   ([`XIDS_AHEAD`]: what is stored is older), and it begins a frame or leads to another header.
//!
//! It is rejected as soon as its length leads to a place that was seen and is no header.

use std::collections::VecDeque;

use lineside_frame::{Chunk, Range};
use memchr::memmem;

use crate::message::LAST_FRAGMENT;

/// Bytes from a record mark to the end of what every message has: mark, xid, type, and four words.
pub(crate) const HEAD: usize = 28;
/// Unbroken records over so many bytes are a stream, also without an answer: more than one READ or WRITE
/// can carry of a file that is a stream of records itself. Linux moves 1 MiB at most.
const CHAIN_BYTES: u64 = (1 << 20) + (64 << 10);
/// Clients count their xids up. So far ahead of the last message of its direction may a message be that
/// stands alone between two holes, and so far behind, since servers answer out of order. A stored
/// capture is of the past, or of another client: 2^16 of 2^32 xids match by chance.
const XIDS_AHEAD: u32 = 1 << 16;
const XIDS_BEHIND: u32 = 64;
/// Few messages of NFS are smaller.
const MESSAGE_BYTES: u64 = 100;
/// Candidates kept; beyond, the oldest goes. True headers are as far apart as records, and stored ones
/// are rejected at the end of each stored frame, so that few are ever open.
const CANDIDATES_MAX: usize = 1024;
/// A record of more fragments is not searched for. 1 MiB in fragments of one Ethernet frame has 719; without
/// a bound, bytes that look like fragments without end would be followed again and again.
const FRAGMENTS_MAX: u32 = 4096;

/// A place that looks like a record mark with an RPC header behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    position: u64,
    /// Where the last fragment of its record begins that was seen so far, its mark, and its number.
    fragment: u64,
    mark: u32,
    number: u32,
    xid: u32,
    is_call: bool,
}

/// What follows from a candidate's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// To another candidate, its index.
    Candidate(usize),
    /// To a place that is seen and no header.
    Nowhere,
    /// To a place that has not come yet.
    Ahead,
    /// Into a hole.
    Hole,
    /// Exactly to the end of what came.
    End,
}

/// Bytes of one direction from the earliest candidate on.
#[derive(Debug, Default)]
pub(crate) struct Search {
    held: VecDeque<(u64, Range)>,
    end: u64,
    candidates: Vec<Candidate>,
    /// Candidates before this index were looked at.
    fresh: usize,
    /// The xid of the last message of this direction.
    pub(crate) last_xid: Option<u32>,
    pub(crate) held_bytes: usize,
    pub(crate) scanned_bytes: u64,
    pub(crate) rejected: u64,
}

impl Search {
    /// Takes the next bytes or the next hole.
    pub(crate) fn push(&mut self, chunk: Chunk<'_>, record_max: usize) {
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
                record_max,
            );
            self.scan(bytes, before, bytes.len(), record_max);
        }
        self.prune();
    }

    /// A candidate that the other direction agrees with, if `agrees(xid, is_call)` says so.
    pub(crate) fn agreed(&mut self, mut agrees: impl FnMut(u32, bool) -> bool) -> Option<usize> {
        let fresh = std::mem::replace(&mut self.fresh, self.candidates.len());
        let at = (fresh..self.candidates.len())
            .find(|&at| agrees(self.candidates[at].xid, self.candidates[at].is_call))?;
        Some(self.first_with(at))
    }

    /// The candidate with this xid, or the earliest that leads to it.
    pub(crate) fn find(&self, xid: u32, is_call: bool) -> Option<usize> {
        let at = self
            .candidates
            .iter()
            .position(|candidate| candidate.xid == xid && candidate.is_call == is_call)?;
        Some(self.first_with(at))
    }

    /// Whether there is a candidate with this xid.
    pub(crate) fn contains(&self, xid: u32, is_call: bool) -> bool {
        let mut candidates = self.candidates.iter();
        candidates.any(|candidate| candidate.xid == xid && candidate.is_call == is_call)
    }

    /// A candidate from which record follows record for long enough. `last`: nothing more will come,
    /// so that whatever can be accepted has to be.
    pub(crate) fn chained(&mut self, last: bool) -> Option<usize> {
        let mut at = 0;
        while at < self.candidates.len() {
            let first = self.candidates[at].position;
            let (links, lead, reached) = self.walk(at);
            let accepted = match lead {
                Lead::Nowhere => false,
                _ if !last => links >= 2 && reached - first >= CHAIN_BYTES,
                Lead::End => self.is_timely(self.candidates[at].xid).unwrap_or(true),
                Lead::Ahead | Lead::Hole => self.stands_alone(at, links),
                Lead::Candidate(_) => unreachable!("a walk ends where no candidate follows"),
            };
            if accepted {
                return Some(at);
            }
            if !last && lead != Lead::Nowhere {
                // A later candidate may be inside this one's record: it must not overtake it.
                return None;
            }
            at += 1;
        }
        None
    }

    /// Everything from candidate `at` on, in order; the search is over.
    pub(crate) fn accept(&mut self, at: usize) -> Vec<Range> {
        let position = self.candidates[at].position;
        self.rejected += at as u64;
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
        if !self.candidates.is_empty() {
            self.candidates.remove(0);
            self.fresh = self.fresh.saturating_sub(1);
            self.rejected += 1;
        }
        self.forget();
    }

    /// Asks the other direction about every candidate once more.
    pub(crate) fn look_again(&mut self) {
        self.fresh = 0;
    }

    /// What is held, and what holding it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.held_bytes + self.held.len() * size_of::<(u64, Range)>()
    }

    pub(crate) fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    pub(crate) fn spill(&mut self) -> usize {
        self.held
            .iter_mut()
            .filter_map(|(_, range)| (range.spill() > 0).then_some(()))
            .count()
    }

    /// The last bytes before `end` that were seen without a hole, at the end of the array, and how many.
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
    fn scan(&mut self, bytes: &[u8], start: u64, limit: usize, record_max: usize) {
        // msg_type CALL and rpcvers 2; msg_type REPLY and the three zero bytes of any reply_stat.
        const CALL: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 2];
        const REPLY: &[u8] = &[0, 0, 0, 1, 0, 0, 0];
        let before = self.candidates.len();
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
                if let Some(candidate) = candidate(head, start + head_at as u64, record_max) {
                    self.candidates.push(candidate);
                }
            }
        }
        self.candidates[before..].sort_by_key(|candidate| candidate.position);
        if self.candidates.len() > CANDIDATES_MAX {
            let excess = self.candidates.len() - CANDIDATES_MAX;
            self.candidates.drain(..excess);
            self.fresh = self.fresh.saturating_sub(excess);
            self.rejected += excess as u64;
        }
    }

    /// Removes the candidates that lead to a place that is no header, then the bytes nobody needs.
    fn prune(&mut self) {
        // From the back, since a candidate that leads to a rejected one leads nowhere itself.
        for at in (0..self.candidates.len()).rev() {
            let mut candidate = self.candidates[at];
            let lead = self.follow(&mut candidate);
            self.candidates[at] = candidate;
            if lead == Lead::Nowhere {
                self.candidates.remove(at);
                self.fresh -= usize::from(at < self.fresh);
                self.rejected += 1;
            }
        }
        self.forget();
    }

    fn forget(&mut self) {
        let keep = self
            .candidates
            .first()
            .map_or(self.end, |first| first.position)
            .min(self.end.saturating_sub(HEAD as u64 - 1));
        // No candidate begins in a hole, so that one at the front is needed by none.
        while let Some((start, range)) = self.held.front()
            && (start + range.len() as u64 <= keep || range.missing().is_some())
        {
            self.held_bytes -= range.len();
            self.held.pop_front();
        }
    }

    /// Where to begin if `target` is a header: nothing more can be learned of those before it.
    fn first_with(&self, target: usize) -> usize {
        let target = self.first_that_leads_to(target);
        let before = self.candidates[target].position;
        let alone = |&at: &usize| {
            let (links, lead, reached) = self.walk(at);
            lead == Lead::Hole
                && reached < before
                && self.stands_alone(at, links)
                && (self.last_xid.is_some() || self.goes_on(at, target, before - reached))
        };
        (0..target).find(alone).unwrap_or(target)
    }

    /// Whether candidate `next` can follow candidate `at` in one direction of a connection, by kind and
    /// by xid, if other messages have `between` bytes.
    fn goes_on(&self, at: usize, next: usize, between: u64) -> bool {
        let (at, next) = (self.candidates[at], self.candidates[next]);
        let messages = between / MESSAGE_BYTES + u64::from(2 * XIDS_BEHIND);
        let ahead = next.xid.wrapping_sub(at.xid).wrapping_add(XIDS_BEHIND);
        at.is_call == next.is_call && u64::from(ahead) <= messages
    }

    /// Whether a candidate from which `links` records lead out of sight is a header by itself.
    fn stands_alone(&self, at: usize, links: usize) -> bool {
        let candidate = self.candidates[at];
        match self.is_timely(candidate.xid) {
            None => self.begins_frame(candidate.position),
            Some(timely) => timely && (links >= 2 || self.begins_frame(candidate.position)),
        }
    }

    /// Whether an xid goes on from the last one of this direction, if there was one.
    fn is_timely(&self, xid: u32) -> Option<bool> {
        let ahead = xid.wrapping_sub(self.last_xid?).wrapping_add(XIDS_BEHIND);
        Some(ahead <= XIDS_AHEAD)
    }

    fn first_that_leads_to(&self, target: usize) -> usize {
        let mut leads = vec![false; target + 1];
        leads[target] = true;
        // From the back, so that each candidate is asked once where it leads.
        for at in (0..target).rev() {
            leads[at] = match self.lead(at) {
                Lead::Candidate(next) => next <= target && leads[next] && self.goes_on(at, next, 0),
                _ => false,
            };
        }
        leads.iter().position(|&leads| leads).unwrap_or(target)
    }

    /// From candidate `at` to where no candidate follows: records passed, how it ends, and where.
    fn walk(&self, mut at: usize) -> (usize, Lead, u64) {
        let mut links = 1;
        loop {
            match self.lead(at) {
                Lead::Candidate(next) => {
                    at = next;
                    links += 1;
                }
                lead => return (links, lead, self.candidates[at].position),
            }
        }
    }

    fn lead(&self, at: usize) -> Lead {
        let mut candidate = self.candidates[at];
        self.follow(&mut candidate)
    }

    /// Where a candidate leads to; notes how far its fragments could be followed.
    fn follow(&self, candidate: &mut Candidate) -> Lead {
        loop {
            let position = candidate.fragment + 4 + u64::from(candidate.mark & !LAST_FRAGMENT);
            if position == self.end {
                return Lead::End;
            }
            if position > self.end {
                return Lead::Ahead;
            }
            let next = self
                .candidates
                .binary_search_by_key(&position, |candidate| candidate.position);
            if candidate.mark & LAST_FRAGMENT != 0 {
                return match (next, self.seen(position, HEAD)) {
                    (Ok(next), _) => Lead::Candidate(next),
                    (_, Seen::Bytes(_)) => Lead::Nowhere,
                    (_, Seen::Hole) => Lead::Hole,
                    (_, Seen::Ahead) => Lead::Ahead,
                };
            }
            if let Ok(next) = next {
                // The next fragment looks like a header too, and was followed already.
                let next = self.candidates[next];
                (candidate.fragment, candidate.mark) = (next.fragment, next.mark);
                candidate.number += next.number;
            } else {
                candidate.mark = match self.seen(position, 4) {
                    Seen::Bytes(bytes) => {
                        u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
                    }
                    Seen::Hole => return Lead::Hole,
                    Seen::Ahead => return Lead::Ahead,
                };
                candidate.fragment = position;
                candidate.number += 1;
            }
            if candidate.mark == 0 || candidate.number > FRAGMENTS_MAX {
                return Lead::Nowhere;
            }
        }
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

    fn begins_frame(&self, position: u64) -> bool {
        self.held.iter().any(|&(start, _)| start == position)
    }
}

enum Seen {
    Bytes([u8; HEAD]),
    Hole,
    Ahead,
}

/// Whether 28 bytes can be a record mark and the beginning of a call or a reply (RFC 5531, 9 and 11).
fn candidate(head: &[u8], position: u64, record_max: usize) -> Option<Candidate> {
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let mark = word(0);
    let len = (mark & !LAST_FRAGMENT) as usize;
    if len > record_max {
        return None;
    }
    let is_call = word(8) == 0;
    let plausible = if is_call {
        // xid, type, version, program, version, procedure, and two authenticators of 8 bytes at least.
        len >= HEAD - 4
            && (mark & LAST_FRAGMENT == 0 || len >= 40)
            && plausible_call(word(12), word(16), word(20), word(24))
    } else {
        len >= 20 && plausible_reply(word(8), word(12), word(16), word(20), word(24), len)
    };
    plausible.then_some(Candidate {
        position,
        fragment: position,
        mark,
        number: 1,
        xid: word(4),
        is_call,
    })
}

/// RPC version 2, a program of the Internet's range or a transient one (RFC 5531 8.4), and numbers as
/// small as versions and procedures are.
pub(crate) fn plausible_call(rpc_version: u32, program: u32, version: u32, procedure: u32) -> bool {
    let known_range =
        (100_000..0x2000_0000).contains(&program) || (0x4000_0000..0x6000_0000).contains(&program);
    rpc_version == 2 && known_range && version < 64 && procedure < 1024
}

pub(crate) fn plausible_reply(
    kind: u32,
    state: u32,
    third: u32,
    fourth: u32,
    fifth: u32,
    len: usize,
) -> bool {
    kind == 1
        && match state {
            // A verifier of a known flavor and at most 400 bytes; if it is empty, a known accept_stat.
            0 => third <= 6 && fourth <= 400 && (fourth != 0 || fifth <= 5) && len >= 24,
            // RPC_MISMATCH with two versions, or AUTH_ERROR with its reason.
            1 => third <= 1 && fourth <= 64 && len <= 24,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Cause, Descriptor, Frame};

    use super::*;

    fn call(xid: u32, body_len: usize) -> Vec<u8> {
        let mut bytes = (LAST_FRAGMENT | (40 + body_len) as u32)
            .to_be_bytes()
            .to_vec();
        for word in [xid, 0, 2, 100_003, 3, 6, 0, 0, 0, 0] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.resize(44 + body_len, 0xee);
        bytes
    }

    fn push(search: &mut Search, bytes: &[u8]) {
        let frame = Frame::copied(bytes, Descriptor::default()).share();
        search.push(Chunk::of_frame(&frame, 0, bytes.len()), 1 << 23);
    }

    fn content(ranges: &[Range]) -> Vec<u8> {
        ranges
            .iter()
            .flat_map(|range| range.bytes().to_vec())
            .collect()
    }

    #[test]
    fn a_header_is_found_wherever_frames_are_cut() {
        let mut stream = vec![0x77; 50];
        stream.extend(call(5, 8));
        stream.extend(call(6, 8));
        for step in 1..stream.len() {
            let mut search = Search::default();
            let mut found = None;
            for part in stream.chunks(step) {
                push(&mut search, part);
                let agreed = search.agreed(|xid, is_call| is_call && xid == 6);
                found = found.or(agreed);
            }
            let at = found.expect("xid 6 was answered");
            assert_eq!(
                content(&search.accept(at)),
                &stream[50..],
                "the chain from xid 5, frames of {step}"
            );
        }
    }

    #[test]
    fn a_stored_call_is_rejected_by_where_it_leads() {
        let mut stream = call(9, 8);
        stream.extend(call(10, 8));
        stream.extend([0x11; 200]);
        let mut search = Search::default();
        push(&mut search, &stream);
        assert!(
            !search.has_candidates(),
            "the second leads to no header, so the first does not either"
        );
        assert_eq!(search.rejected, 2);
        assert!(search.held_bytes <= stream.len());
    }

    #[test]
    fn fragments_without_end_are_not_followed_for_ever() {
        // A call in a fragment that is not the last one of its record, a thousand times.
        let mut fragment = call(1, 0)[..28].to_vec();
        fragment[..4].copy_from_slice(&24_u32.to_be_bytes());
        let mut stream = fragment.repeat(1000);
        for _ in 0..20_000 {
            stream.extend_from_slice(&[0, 0, 0, 4, 1, 2, 3, 4]);
        }
        let mut search = Search::default();
        stream.chunks(1448).for_each(|part| push(&mut search, part));
        assert!(!search.has_candidates() && search.rejected == 1000);
    }

    #[test]
    fn a_hole_that_no_candidate_needs_is_not_held() {
        let mut search = Search::default();
        push(&mut search, &[0x77; 90]);
        let by = Descriptor::default();
        search.push(Chunk::hole(200 << 20, Cause::NotSeen, &by), 1 << 23);
        assert_eq!(search.held_bytes, 0);
    }

    #[test]
    fn a_call_that_leads_into_a_hole_waits_for_the_end() {
        let mut search = Search::default();
        push(&mut search, &[0x77; 9]);
        push(&mut search, &call(9, 100)[..60]);
        search.push(
            Chunk::hole(500, Cause::NotSeen, &Descriptor::default()),
            1 << 23,
        );
        assert_eq!(search.chained(false), None);
        let at = search.chained(true).expect("it begins a frame");
        assert_eq!(search.accept(at).len(), 2);
    }
}
