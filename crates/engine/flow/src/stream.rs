//! One direction of a TCP connection, as a passive observer can know it: which bytes were
//! delivered, which are held, and which the other side acknowledged. It delivers nothing itself:
//! `connection` does.

use std::collections::VecDeque;

use lineside_frame::{Cause, Chunk, Range};
use lineside_wire::SeqNumber;

use crate::clock::Clock;
use crate::round_trips::Followed;

/// A sequence number further behind than this is not a retransmission. TCP's largest window is
/// 1 GiB (RFC 7323 2.3), but retransmissions reach back by what is in flight: 16 MiB is 10 Gb/s
/// over 13 ms.
pub(crate) const BEHIND_MAX: i64 = 16 << 20;
/// A sequence number further ahead than this is not a gap: a tap that slept for 200 ms at 10 Gb/s.
pub(crate) const AHEAD_MAX: i64 = 256 << 20;

/// Acknowledgements remembered while bytes are missing. Beyond, a later one stands for those before
/// it, so that the observer only waits longer. A guess: more than two late windows of segments.
const ACKS_MAX: usize = 128;

/// What the allocator takes beside each piece, and rounds it up by.
const PIECE_BYTES: usize = 24;

/// Places for held parts, and for acknowledgements, that are kept when there are none: the least
/// that a list allocates.
const PLACES_MIN: usize = 4;

/// What a held part counts as at least.
const PART_BYTES_MIN: usize = 1 << 10;

/// The fields of a TCP header that reassembly needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) sequence: SeqNumber,
    pub(crate) acknowledgement: Option<SeqNumber>,
    /// Payload bytes on the wire, and how many of them the frame has.
    pub(crate) payload_len: usize,
    pub(crate) captured_len: usize,
    /// Of a SYN, `sequence` being the number after it.
    pub(crate) is_syn: bool,
}

impl Segment {
    /// The sequence number after it.
    pub(crate) fn end(&self) -> SeqNumber {
        self.sequence + self.payload_len as u32
    }
}

/// A moment by both clocks that lateness is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moment {
    pub(crate) segments: u64,
    pub(crate) ns: i64,
}

impl Moment {
    pub(crate) fn later(self, other: Self) -> Self {
        Self {
            segments: self.segments.max(other.segments),
            ns: self.ns.max(other.ns),
        }
    }
}

/// A part of a stream that waits: for earlier bytes, or for the other direction.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) start: i64,
    pub(crate) range: Range,
    pub(crate) arrived: Moment,
    /// The other direction must be delivered up to this sequence number first.
    pub(crate) needs: Option<SeqNumber>,
    /// Where delivery stood when it came, what waited before it then, and what became a hole since:
    /// only what is acknowledged beyond came in order after it.
    pub(crate) stood: i64,
}

impl Held {
    pub(crate) fn end(&self) -> i64 {
        self.start + self.range.len() as i64
    }
}

/// Acknowledgements of a stream that stand behind what was acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// The latest, and its timestamp.
    pub(crate) at: SeqNumber,
    pub(crate) clock: Clock,
    pub(crate) count: u8,
}

/// Offsets count from the first byte after the SYN, or from the first segment seen; they may be
/// negative when earlier bytes turn up later. `i64` never wraps: sequence numbers are unwrapped
/// around the next expected one.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) state: State,
    /// The initial sequence number, if the SYN was seen.
    pub(crate) isn: Option<SeqNumber>,
    /// The offset of the first byte after the SYN, if that was seen.
    pub(crate) syn_end: Option<i64>,
    /// Bytes that the SYN itself carried (TCP Fast Open, RFC 7413).
    pub(crate) syn_len: usize,
    /// When the first segment of a stream that was joined in its middle came.
    pub(crate) begun: Moment,
    /// Sequence number of offset 0.
    base: SeqNumber,
    /// Where delivery began.
    pub(crate) first: i64,
    /// Everything before is delivered, as bytes or as holes.
    pub(crate) next: i64,
    pub(crate) held: VecDeque<Held>,
    pub(crate) held_bytes: usize,
    /// What is drawn on the memory budget of what it takes beside itself.
    pub(crate) drawn_bytes: usize,
    /// The rest: the budget had no room for it.
    pub(crate) undrawn_bytes: usize,
    /// Where the stream ends, once its FIN was seen.
    pub(crate) fin: Option<i64>,
    /// The other side's highest acknowledgement that is confirmed: by bytes that were seen, or by a
    /// second acknowledgement. A single one may be wrong.
    pub(crate) acked: Option<i64>,
    /// The latest acknowledgement of bytes that were not seen, confirmed by nothing so far.
    claimed: Option<(i64, Moment)>,
    /// No later acknowledgement names less.
    claim_stands: bool,
    /// The furthest offset that was acknowledged before its bytes were seen, and the stamp of that
    /// acknowledgement.
    pub(crate) early: i64,
    pub(crate) early_stamp_ns: Option<i64>,
    /// Of a direction that was never seen: the other side's least and last acknowledgement.
    pub(crate) unseen: Option<(SeqNumber, SeqNumber)>,
    /// Of a direction of which no byte was seen: where its first segment, an acknowledgement, says
    /// that it stands.
    pub(crate) stands_at: Option<SeqNumber>,
    /// Of a stream that was joined: bytes before this offset passed before the tap began, and none
    /// after it did.
    pub(crate) joined_at: Option<i64>,
    /// Acknowledgements that stand behind `acked`.
    pub(crate) behind: Behind,
    /// Acknowledgements since something is missing: when each offset was first covered.
    pub(crate) acks: VecDeque<(i64, Moment)>,
    /// The latest answer of [`acknowledged`](Self::acknowledged).
    covered: Option<(i64, Moment)>,
    /// The last holes, to tell bytes that came too late from retransmissions.
    lost: [(i64, i64); 4],
    lost_next: usize,
    /// Where the last damaged segments lay.
    damaged: [(i64, i64); 4],
    damaged_next: usize,
    /// The segment whose round trip is measured, by its end.
    pub(crate) round_trip: Followed<i64>,
}

/// How far the start of a stream is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// Nothing was seen of it.
    #[default]
    Unseen,
    /// The capture began in its middle: earlier segments may be late.
    Starting,
    /// Bytes are delivered.
    Open,
}

impl Stream {
    /// Sets where the stream begins, `sequence` being offset 0.
    pub(crate) fn begin(&mut self, sequence: SeqNumber, state: State) {
        self.base = sequence;
        self.state = state;
        self.next = 0;
    }

    /// Begins delivery of a stream that was joined, and whose first part is held.
    pub(crate) fn open_joined(&mut self, first_held: i64) {
        let first = self.joined_at.unwrap_or(first_held);
        self.open(first.min(first_held));
    }

    /// Begins delivery at an offset.
    pub(crate) fn open(&mut self, first: i64) {
        self.state = State::Open;
        (self.first, self.next) = (first, first);
    }

    /// The offset of a sequence number: the one nearest to the next expected byte.
    #[inline]
    pub(crate) fn offset(&self, sequence: SeqNumber) -> i64 {
        let expected = self.base + self.next as u32;
        self.next + i64::from(sequence.distance_from(expected))
    }

    /// The sequence number of an offset.
    pub(crate) fn sequence(&self, offset: i64) -> SeqNumber {
        self.base + offset as u32
    }

    /// The offset up to which an acknowledgement means bytes: a FIN takes a sequence number too.
    #[inline]
    pub(crate) fn acknowledged_offset(&self, acknowledgement: SeqNumber) -> i64 {
        self.before_fin(self.offset(acknowledgement))
    }

    /// An acknowledged offset without the sequence number of a FIN.
    #[inline]
    pub(crate) fn before_fin(&self, offset: i64) -> i64 {
        self.fin.map_or(offset, |fin| offset.min(fin))
    }

    /// Whether everything before a sequence number was delivered, as bytes or as holes.
    #[inline]
    pub(crate) fn has_delivered(&self, acknowledgement: SeqNumber) -> bool {
        self.state == State::Open && self.acknowledged_offset(acknowledgement) <= self.next
    }

    /// Remembers that `start..end` was given up.
    pub(crate) fn lose(&mut self, start: i64, end: i64) {
        self.lost[self.lost_next] = (start, end);
        self.lost_next = (self.lost_next + 1) % self.lost.len();
    }

    /// A damaged segment brought `start..end`. One without payload explains no hole, and would push
    /// out one that does.
    pub(crate) fn damage(&mut self, start: i64, end: i64) {
        if start < end {
            self.damaged[self.damaged_next] = (start, end);
            self.damaged_next = (self.damaged_next + 1) % self.damaged.len();
        }
    }

    /// Whether all of `start..end` came in damaged segments.
    pub(crate) fn is_damaged(&self, start: i64, end: i64) -> bool {
        let mut at = start;
        // Each covers what follows the one before, in whatever order they came.
        for _ in &self.damaged {
            let covers = |&&(from, to): &&(i64, i64)| from <= at && at < to;
            match self.damaged.iter().find(covers) {
                Some(&(_, to)) => at = to,
                None => break,
            }
        }
        at >= end
    }

    /// How many of the bytes `start..end` were given up before.
    pub(crate) fn given_up(&self, start: i64, end: i64) -> usize {
        let overlap = |&(from, to): &(i64, i64)| (to.min(end) - from.max(start)).max(0);
        self.lost.iter().map(overlap).sum::<i64>() as usize
    }

    /// Everything before `offset` was acknowledged, all of which was delivered.
    #[inline(always)]
    pub(crate) fn acknowledge_delivered(&mut self, offset: i64) {
        self.claim_stands = false;
        if self.acked.is_some_and(|acked| offset <= acked) {
            return;
        }
        self.acked = Some(offset);
        if !self.acks.is_empty() {
            self.forget_acks();
        }
    }

    /// Everything before `offset` was acknowledged, by a segment with this stamp.
    #[inline]
    pub(crate) fn acknowledge(&mut self, offset: i64, moment: Moment, stamp_ns: Option<i64>) {
        let offset = self.before_fin(offset);
        if offset <= self.seen() {
            self.claim_stands = false;
            self.confirm(offset, moment);
            return;
        }
        if self.state == State::Open && offset > self.early {
            self.early = offset;
            self.early_stamp_ns = stamp_ns;
        }
        self.claim_stands = true;
        if let Some((claimed, since)) = self.claimed.replace((offset, moment)) {
            // Two confirm what they have in common.
            self.confirm(offset.min(claimed), since);
        }
    }

    /// What the last acknowledgement alone names beyond all that was seen.
    pub(crate) fn claimed_at_last(&self) -> Option<i64> {
        let (claimed, _) = self.claimed.filter(|_| self.claim_stands)?;
        let beyond = self.before_fin(claimed) - self.seen();
        (beyond > 0).then_some(beyond)
    }

    /// The end of what was seen so far; a FIN alone counts too.
    #[inline]
    pub(crate) fn seen(&self) -> i64 {
        let latest = self.held.back().map_or(self.next, Held::end);
        self.fin.map_or(latest, |fin| fin.max(latest))
    }

    /// Whether a segment was seen after its SYN: the handshake is over.
    pub(crate) fn has_moved(&self) -> bool {
        match self.syn_end {
            Some(end) => self.seen() > end + self.syn_len as i64,
            None => self.state != State::Unseen,
        }
    }

    /// Whether a segment that comes now, with this stamp, was acknowledged before. Queues of one
    /// port are read in turn, so that it is their stamps that decide.
    pub(crate) fn comes_after_acknowledgement(
        &self,
        start: i64,
        end: i64,
        stamp_ns: Option<i64>,
    ) -> bool {
        start < self.early
            && end > self.next
            && stamp_ns >= self.early_stamp_ns
            && !self.is_held(start, end)
            && self.given_up(start, end) == 0
    }

    /// Whether all of `start..end` is held in one part.
    pub(crate) fn is_held(&self, start: i64, end: i64) -> bool {
        let at = self.held.partition_point(|held| held.start <= start);
        let before = at.checked_sub(1).and_then(|at| self.held.get(at));
        before.is_some_and(|held| held.end() >= end)
    }

    /// Puts bytes in the place of holes that a snap length made; false if there are none there.
    pub(crate) fn fill(&mut self, start: i64, chunk: &Chunk<'_>) -> bool {
        let end = start + chunk.len() as i64;
        let mut at = self.held.partition_point(|held| held.end() <= start);
        let mut is_filled = false;
        while let Some(held) = self.held.get_mut(at).filter(|held| held.start < end) {
            let is_cut = held.range.chunk().missing() == Some(Cause::SnapLength);
            if is_cut && held.start >= start {
                let (from, held_end) = ((held.start - start) as usize, held.end());
                let filled = chunk.from(from);
                let len = filled.len().min((held_end - held.start) as usize);
                let rest = held.range.part(len, held.range.len() - len);
                held.range = filled.part(0, len).hold();
                is_filled = true;
                if !rest.is_empty() {
                    let rest = Held {
                        start: held.start + len as i64,
                        range: rest,
                        arrived: held.arrived,
                        needs: held.needs,
                        stood: held.stood,
                    };
                    self.held.insert(at + 1, rest);
                    return true;
                }
            }
            at += 1;
        }
        is_filled
    }

    /// How full it is, in bytes: many small parts take more memory, and time to insert, than their
    /// bytes.
    pub(crate) fn fullness(&self) -> usize {
        self.held_bytes.max(self.held.len() * PART_BYTES_MIN)
    }

    /// What it takes beside itself: bytes of held parts, each of which may be copied, and the
    /// places of lists. One that doubled has up to twice as many as it needs.
    pub(crate) fn memory_bytes(&self) -> usize {
        let parts = self.held.len() * PIECE_BYTES + self.held.capacity() * size_of::<Held>();
        self.held_bytes + parts + self.acks.capacity() * size_of::<(i64, Moment)>()
    }

    /// Whether acknowledgements are remembered, since something is missing.
    #[inline]
    pub(crate) fn remembers_acks(&self) -> bool {
        !self.acks.is_empty()
    }

    /// Takes the first of the held parts out. A list that is empty gives back what it took.
    pub(crate) fn take_front(&mut self) -> Option<Held> {
        let held = self.held.pop_front()?;
        self.held_bytes -= held.range.len();
        if self.held.is_empty() && self.held.capacity() > PLACES_MIN {
            self.held = VecDeque::new();
        }
        Some(held)
    }

    /// Gives up what no held bytes need, since there is no memory for it: acknowledgements, without
    /// which a gap is waited for longer, and places of an empty list.
    #[cold]
    pub(crate) fn forget_what_nothing_waits_for(&mut self) {
        self.acks = VecDeque::new();
        if self.held.is_empty() {
            self.held = VecDeque::new();
        }
    }

    #[inline]
    fn confirm(&mut self, offset: i64, moment: Moment) {
        if self.acked.is_some_and(|acked| offset <= acked) {
            return;
        }
        self.acked = Some(offset);
        self.forget_acks();
        if offset > self.next {
            if self.acks.len() == ACKS_MAX {
                self.acks.pop_back();
            }
            self.acks.push_back((offset, moment));
        }
    }

    fn forget_acks(&mut self) {
        let next = self.next;
        while self
            .acks
            .pop_front_if(|&mut (covered, _)| covered <= next)
            .is_some()
        {}
        if self.acks.is_empty() && self.acks.capacity() > PLACES_MIN {
            self.acks = VecDeque::new();
        }
    }

    /// When `offset`, which is ahead of `next`, was first acknowledged. Each segment after a gap
    /// asks this for the same offset, so the answer is kept.
    pub(crate) fn acknowledged(&mut self, offset: i64) -> Option<Moment> {
        let seen = self.seen();
        if let Some((claimed, moment)) = self.claimed.take_if(|(claimed, _)| *claimed <= seen) {
            // Bytes that were seen since confirm it.
            self.confirm(claimed, moment);
        }
        match self.covered {
            Some((asked, moment)) if asked == offset => return Some(moment),
            _ if self.acked.is_none_or(|acked| acked < offset) => return None,
            _ => {}
        }
        self.forget_acks();
        let at = self.acks.partition_point(|&(covered, _)| covered < offset);
        let &(_, moment) = self.acks.get(at)?;
        self.covered = Some((offset, moment));
        Some(moment)
    }

    /// Inserts into the held segments, which stay sorted and disjoint: bytes that are held already
    /// win. Returns (bytes dropped as duplicate, of them different ones).
    pub(crate) fn hold(
        &mut self,
        start: i64,
        range: Range,
        arrived: Moment,
        needs: Option<SeqNumber>,
    ) -> (usize, usize) {
        if self.held.back().is_none_or(|last| last.end() <= start) {
            // Most come in order after a gap.
            let stood = self.next + self.held_bytes as i64;
            self.held_bytes += range.len();
            self.held.push_back(Held {
                start,
                range,
                arrived,
                needs,
                stood,
            });
            return (0, 0);
        }
        let (mut duplicate, mut conflicts) = (0, 0);
        let end = start + range.len() as i64;
        let mut at = self.held.partition_point(|held| held.end() <= start);
        let mut from = start;
        while from < end {
            let (gap_end, covered_end) = match self.held.get(at) {
                Some(held) => (held.start.min(end), held.end().min(end)),
                None => (end, end),
            };
            if from < gap_end {
                let part = range.part((from - start) as usize, (gap_end - from) as usize);
                self.held_bytes += part.len();
                // It was sent for the first time before the part after it, and waits for no more.
                let after = self.held.get(at).map(|after| after.needs);
                let needs = after.map_or(needs, |after| earlier(needs, after));
                self.held.insert(
                    at,
                    Held {
                        start: from,
                        range: part,
                        arrived,
                        needs,
                        stood: self.next,
                    },
                );
                at += 1;
                from = gap_end;
            }
            if from < covered_end {
                let held = &self.held[at];
                let len = (covered_end - from) as usize;
                duplicate += len;
                if let (Some(old), Some(new)) = (
                    held.range
                        .bytes()
                        .get((from - held.start) as usize..)
                        .and_then(|bytes| bytes.get(..len)),
                    range
                        .bytes()
                        .get((from - start) as usize..)
                        .and_then(|bytes| bytes.get(..len)),
                ) {
                    conflicts += old.iter().zip(new).filter(|(old, new)| old != new).count();
                }
                from = covered_end;
                at += 1;
            }
        }
        (duplicate, conflicts)
    }
}

/// The earlier of two acknowledgements; none is the earliest.
fn earlier(one: Option<SeqNumber>, other: Option<SeqNumber>) -> Option<SeqNumber> {
    let (one, other) = (one?, other?);
    Some(if one.distance_from(other) < 0 {
        one
    } else {
        other
    })
}

#[cfg(test)]
mod tests {
    use lineside_frame::{Descriptor, Frame};

    use super::*;

    fn range(bytes: &[u8]) -> Range {
        let frame = Frame::copied(bytes, Descriptor::default()).share();
        Range::bound(&frame, 0, bytes.len())
    }

    #[test]
    fn the_first_copy_wins_and_conflicts_are_counted() {
        let mut stream = Stream::default();
        let hold = |stream: &mut Stream, start, bytes: &[u8]| {
            stream.hold(start, range(bytes), Moment::default(), None)
        };
        assert_eq!(hold(&mut stream, 10, b"kl"), (0, 0));
        assert_eq!(hold(&mut stream, 14, b"op"), (0, 0));
        assert_eq!(hold(&mut stream, 8, b"ijXlmnoYqr"), (4, 2));
        let all: Vec<u8> = stream
            .held
            .iter()
            .flat_map(|held| held.range.bytes().to_vec())
            .collect();
        assert_eq!(all, b"ijklmnopqr");
        assert_eq!(stream.held_bytes, 10);
        assert!(
            stream
                .held
                .iter()
                .zip(stream.held.iter().skip(1))
                .all(|(one, two)| one.end() <= two.start)
        );
    }

    #[test]
    fn offsets_survive_wrap_around() {
        let mut stream = Stream::default();
        stream.begin(SeqNumber(u32::MAX - 1), State::Open);
        assert_eq!(stream.offset(SeqNumber(u32::MAX - 1)), 0);
        assert_eq!(stream.offset(SeqNumber(3)), 5);
        assert_eq!(stream.offset(SeqNumber(u32::MAX - 11)), -10);
        stream.next = 5 << 32;
        assert_eq!(stream.offset(SeqNumber(u32::MAX)), (5 << 32) + 1);
    }

    #[test]
    fn damaged_segments_without_payload_push_out_no_others() {
        let mut stream = Stream::default();
        stream.damage(100, 200);
        for at in 0..8 {
            stream.damage(200 + at, 200 + at);
        }
        assert!(stream.is_damaged(100, 200) && !stream.is_damaged(100, 201));
    }

    #[test]
    fn two_acknowledgements_confirm_bytes_that_were_not_seen() {
        let mut stream = Stream::default();
        let acknowledge = |stream: &mut Stream, offset| {
            stream.acknowledge(offset, Moment::default(), None);
            stream.acked
        };
        assert_eq!(acknowledge(&mut stream, 0), Some(0));
        assert_eq!(acknowledge(&mut stream, 50_000), Some(0), "a single one");
        stream.hold(10, range(b"abcde"), Moment::default(), None);
        assert_eq!(acknowledge(&mut stream, 12), Some(12), "this was seen");
        assert_eq!(acknowledge(&mut stream, 20), Some(20), "two say so");
        assert_eq!(acknowledge(&mut stream, 20), Some(20));
        assert_eq!(acknowledge(&mut stream, 30), Some(20), "one says so");
        assert_eq!(acknowledge(&mut stream, 30), Some(30), "again");
        assert_eq!(acknowledge(&mut stream, 40), Some(30), "one says so");
        stream.hold(39, range(b"x"), Moment::default(), None);
        assert!(stream.acknowledged(39).is_some(), "it was seen since");
    }

    #[test]
    fn the_first_acknowledgement_of_an_offset_is_found() {
        let mut stream = Stream::default();
        stream.hold(50, range(b"x"), Moment::default(), None);
        for (offset, segments) in [(10, 1), (30, 2), (20, 3), (50, 4)] {
            stream.acknowledge(offset, Moment { segments, ns: 0 }, None);
        }
        assert_eq!(
            stream.acknowledged(10).map(|moment| moment.segments),
            Some(1)
        );
        assert_eq!(
            stream.acknowledged(11).map(|moment| moment.segments),
            Some(2)
        );
        assert_eq!(
            stream.acknowledged(50).map(|moment| moment.segments),
            Some(4)
        );
        assert_eq!(stream.acknowledged(51), None);
        stream.lose(3, 6);
        assert_eq!(stream.given_up(5, 100), 1);
    }
}
