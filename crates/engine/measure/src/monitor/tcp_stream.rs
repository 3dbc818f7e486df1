//! What passes of one direction of a TCP connection: which bytes came again, which came late, and
//! which windows it announces.

use lineside_wire::{SeqNumber, TcpFlags, TcpHeader};

/// Bytes that were passed over: those from `start` to `end`.
#[derive(Debug, Clone, Copy)]
struct Hole {
    start: SeqNumber,
    end: SeqNumber,
    /// The segment with payload, by its number, that passed over them.
    passed_by: u64,
}

/// Holes that are kept of a stream, of which a hundredth of a large window may be missing. When
/// there are more, the oldest one is forgotten, and bytes that come for it count as retransmitted.
pub(super) const HOLES_MAX: usize = 256;

/// Segments that are remembered for [`Reordered::n`].
pub(super) const RECENT: usize = 8;

/// A stream, from the first segment that was seen of it on.
#[derive(Debug, Clone, Default)]
pub(super) struct TcpStream {
    /// The next expected byte, once a segment was seen.
    next: Option<SeqNumber>,
    /// That of the SYN, if it was seen.
    first: Option<SeqNumber>,
    /// Where the first segment began: whether bytes before that had passed, nobody knows. `None`
    /// once it lies far behind.
    origin: Option<SeqNumber>,
    holes: Vec<Hole>,
    /// Where the latest segments with payload began, by their numbers modulo their count.
    recent: [SeqNumber; RECENT],
    /// Segments with payload.
    segments: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) reordered: u64,
    pub(super) extent_max: u64,
    pub(super) n_max: u64,
    /// `None` while no SYN was seen.
    pub(super) scale: Option<u8>,
    /// The smallest and the largest window.
    pub(super) windows: Option<(u64, u64)>,
}

/// A segment that was overtaken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reordered {
    /// RFC 4737, 4.2: how many segments ago the first one passed that begins behind it.
    pub(super) extent: u64,
    /// RFC 4737, 5.4: how many of the segments just before it begin behind it, up to [`RECENT`].
    pub(super) n: u64,
}

impl TcpStream {
    /// Whether a segment is a SYN that begins another stream than this one.
    pub(super) fn is_begun_anew(&self, tcp: &TcpHeader) -> bool {
        tcp.flags.contains(TcpFlags::SYN)
            && self.next.is_some()
            && self.first != Some(tcp.sequence + 1)
    }

    /// A segment passed; `shift` is the window scale that it offers. At most `holes_max` holes are
    /// kept.
    pub(super) fn on_segment(
        &mut self,
        tcp: &TcpHeader,
        shift: Option<u8>,
        holes_max: usize,
    ) -> Option<Reordered> {
        let is_syn = tcp.flags.contains(TcpFlags::SYN);
        if is_syn && self.first.is_none() {
            self.first = Some(tcp.sequence + 1);
            self.next = self.first;
            // RFC 7323, 2.3: more than 14 counts as 14.
            self.scale = Some(shift.unwrap_or(0).min(14));
        }
        if !tcp.flags.contains(TcpFlags::RST) {
            let window = self.window_bytes(tcp);
            let (least, most) = self.windows.unwrap_or((window, window));
            self.windows = Some((least.min(window), most.max(window)));
        }
        let start = tcp.sequence + u32::from(is_syn);
        self.on_payload(start, tcp.payload_len as u32, holes_max)
    }

    /// The window that a segment announces; a SYN's is never scaled (RFC 7323, 2.2).
    pub(super) fn window_bytes(&self, tcp: &TcpHeader) -> u64 {
        let shift = match tcp.flags.contains(TcpFlags::SYN) {
            true => 0,
            false => self.scale.unwrap_or(0),
        };
        u64::from(tcp.window) << shift
    }

    fn on_payload(&mut self, start: SeqNumber, len: u32, holes_max: usize) -> Option<Reordered> {
        if len == 0 {
            return None;
        }
        let end = start + len;
        let next = *self.next.get_or_insert_with(|| {
            self.origin = Some(start);
            start
        });
        // A keep-alive has the byte before the next one (RFC 9293, 3.8.4).
        if len == 1 && end == next {
            return None;
        }
        let mut reordered = None;
        if start.is_before(next) {
            let origin = self.origin.filter(|origin| start.is_before(*origin));
            let (from, to) = (origin.unwrap_or(start), earlier(end, next));
            let (late, passed_by) = self.fill(from, to);
            let known = if from.is_before(to) {
                to.bytes_from(from)
            } else {
                0
            };
            self.retransmitted_bytes += u64::from(known.saturating_sub(late));
            reordered = passed_by.map(|passed_by| Reordered {
                extent: self.segments - passed_by,
                n: self.just_before(start),
            });
        } else if start != next {
            if self.holes.len() >= holes_max {
                self.holes.remove(0);
            }
            self.holes.push(Hole {
                start: next,
                end: start,
                passed_by: self.segments,
            });
        }
        if next.is_before(end) {
            self.next = Some(end);
            self.forget(end);
        }
        self.recent[(self.segments % RECENT as u64) as usize] = start;
        self.segments += 1;
        if let Some(Reordered { extent, n }) = reordered {
            self.reordered += 1;
            self.extent_max = self.extent_max.max(extent);
            self.n_max = self.n_max.max(n);
        }
        reordered
    }

    /// Forgets holes that lie so far behind that their numbers may come again.
    fn forget(&mut self, next: SeqNumber) {
        const FAR: u32 = 1 << 30;
        self.origin = { self.origin }.filter(|origin| next.bytes_from(*origin) <= FAR);
        let is_far = |hole: &Hole| next.bytes_from(hole.start) > FAR;
        while self.holes.first().is_some_and(is_far) {
            self.holes.remove(0);
        }
    }

    /// Takes bytes out of the holes: how many lay in one, and the first segment that passed over
    /// any of them.
    fn fill(&mut self, start: SeqNumber, end: SeqNumber) -> (u32, Option<u64>) {
        let (mut late, mut passed_by) = (0, None);
        let mut at = 0;
        while at < self.holes.len() {
            let hole = self.holes[at];
            let from = later(hole.start, start);
            let to = earlier(hole.end, end);
            if !from.is_before(to) {
                at += 1;
                continue;
            }
            late += to.bytes_from(from);
            // Holes are in the order in which they arose.
            passed_by = passed_by.or(Some(hole.passed_by));
            let (before, behind) = (from != hole.start, to != hole.end);
            match (before, behind) {
                (false, false) => {
                    self.holes.remove(at);
                    continue;
                }
                (true, false) => self.holes[at].end = from,
                (false, true) => self.holes[at].start = to,
                (true, true) => {
                    self.holes[at].end = from;
                    let rest = Hole { start: to, ..hole };
                    self.holes.insert(at + 1, rest);
                    at += 1;
                }
            }
            at += 1;
        }
        (late, passed_by)
    }

    /// How many of the latest segments, without a gap, begin behind `start`.
    fn just_before(&self, start: SeqNumber) -> u64 {
        let known = self.segments.min(RECENT as u64);
        let latest = (1..=known).map(|back| self.segments - back);
        let begins = latest.map(|number| self.recent[(number % RECENT as u64) as usize]);
        begins.take_while(|&begin| start.is_before(begin)).count() as u64
    }

    /// Holes that are kept.
    pub(super) fn holes(&self) -> usize {
        self.holes.len()
    }

    /// Bytes of memory beside the record itself.
    pub(super) fn memory_bytes(&self) -> usize {
        self.holes.capacity() * size_of::<Hole>()
    }
}

fn earlier(one: SeqNumber, other: SeqNumber) -> SeqNumber {
    match other.is_before(one) {
        true => other,
        false => one,
    }
}

fn later(one: SeqNumber, other: SeqNumber) -> SeqNumber {
    match one.is_before(other) {
        true => other,
        false => one,
    }
}
