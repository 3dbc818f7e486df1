//! What an end of a TCP connection had to do: send again, wait for room, acknowledge twice.
//!
//! Segments are judged as they come, by the rules that Wireshark's user guide documents for
//! `tcp.analysis` (chapter 7.5), so that counts can be compared. They are those of an observer in
//! the middle: a segment that brings bytes again was sent again; one that brings earlier bytes for
//! the first time was sent again if later ones came more than a round trip ago, and is out of order
//! otherwise.

use lineside_wire::tcp::{TcpOption, TcpOptions};
use lineside_wire::{SeqNumber, TcpFlags, TcpHeader};

use crate::clock::Clock;
use crate::connection::stuck::{Shut, Stuck};
use crate::counts::FlowCounts;

/// After the last acknowledgement for this long, a segment is no answer to duplicate ones.
const FAST_NS: i64 = 20_000_000;
/// So many of them ask for a segment: RFC 5681 3.2 has three, of which the tap may miss one.
const FAST_ACKS: u32 = 2;
/// RFC 7323 2.3.
const SHIFT_MAX: u8 = 14;
/// What shows that a segment is no acknowledgement alone.
pub(super) const MARKS: u8 = TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0;
/// RFC 9293, 3.7.1: of an end that announces nothing.
pub(crate) const SEGMENT_DEFAULT_BYTES: u16 = 536;

/// What an end has sent, as far as the next segments of both ends are judged by it.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// The sequence number after its last byte; SYN and FIN take one too.
    pub(super) next: Option<SeqNumber>,
    /// When that byte came.
    pub(super) next_ns: i64,
    /// Of its last segment, and when that came.
    pub(super) acknowledgement: SeqNumber,
    window: u16,
    pub(super) last_ns: i64,
    pub(super) probe: Probe,
    /// Its window counts in units of two to this power, if that is known.
    shift: u8,
    knows_shift: bool,
    /// Where the window ends that its last segment gave, by that shift.
    pub(super) edge: SeqNumber,
    /// Acknowledgements that repeated the one before, since it last changed.
    duplicate_acks: u32,
    /// Length of its headers without SACK blocks, timestamps included; 0 before one was seen.
    plain_len: usize,
    /// Its latest timestamp.
    pub(super) clock: Clock,
    /// The last acknowledgement of a segment that came late or early, by its timestamp or place.
    pub(super) stale: Option<SeqNumber>,
    /// The blocks that it acknowledged last.
    pub(super) sacked: [(SeqNumber, SeqNumber); 4],
    /// What was sent before a timer ran out ends here.
    timer_end: Option<SeqNumber>,
    /// Segments sent again that the other end has not reported as duplicates.
    unreported: u64,
    /// Those that it had acknowledged before, and will report too.
    to_report: u64,
    /// Its bytes that do not get through.
    pub(super) stuck: Stuck,
    /// Its window is shut.
    pub(super) shut: Option<Shut>,
    /// Its last data left less room than a segment.
    pub(super) stopped: Option<Stopped>,
    /// The longest segment that it takes, as its SYN announced.
    pub(super) segment_max: u16,
    /// Data of the other end that leave no more room in its window are looked at.
    pub(super) near: Near,
}

/// Whether the last segment asked for an acknowledgement alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Probe {
    #[default]
    No,
    KeepAlive,
    ZeroWindow,
}

/// Where an end stopped because the next segment might not fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopped {
    /// Where the other end's window ended.
    pub(super) edge: SeqNumber,
    /// What the other end would send next.
    pub(super) answered: Option<SeqNumber>,
}

/// The most room after data that makes them worth a look; less than none while the shift of the
/// window is not known.
#[derive(Debug)]
pub(super) struct Near(pub(super) i64);

impl Default for Near {
    fn default() -> Self {
        Self(-1)
    }
}

impl Near {
    /// The shift is known.
    pub(super) fn look(&mut self) {
        self.0 = self.0.max(0);
    }
}

/// Why a segment with bytes (or SYN, or FIN) does not continue its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    OutOfOrder,
    Spurious,
    Fast,
    Timeout,
    /// Sent again for a reason that the tap does not see.
    Other,
}

/// What the header of a segment says of its place and of what came, as far as an expected one is
/// judged by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) sequence: SeqNumber,
    pub(crate) acknowledgement: SeqNumber,
    pub(crate) window: u16,
    pub(crate) header_len: usize,
    pub(crate) payload_len: usize,
}

impl From<&TcpHeader> for Step {
    #[inline]
    fn from(tcp: &TcpHeader) -> Self {
        Self {
            sequence: tcp.sequence,
            acknowledgement: tcp.acknowledgement,
            window: tcp.window,
            header_len: tcp.header_len,
            payload_len: tcp.payload_len,
        }
    }
}

/// What is known of a segment beside its header.
pub(super) struct Seen {
    pub(super) stamp_ns: i64,
    /// All of its bytes came before.
    pub(super) is_whole: bool,
    /// For how long a late segment is out of order.
    pub(super) out_of_order_ns: i64,
}

impl Sender {
    /// Whether a segment continues what was sent, and the window of the other end is open.
    #[inline]
    pub(crate) fn goes_on(&self, other: &Self, step: &Step) -> bool {
        self.next == Some(step.sequence) && step.window != 0 && other.window != 0
    }

    /// Whether its last segment acknowledged the same, and gave the same window.
    pub(super) fn repeats(&self, acknowledgement: SeqNumber, window: u16) -> bool {
        self.acknowledgement == acknowledgement && self.window == window
    }

    /// When its last byte came.
    pub(super) fn next_ns(&self) -> i64 {
        self.next_ns
    }

    /// Whether its acknowledgement may be older than others that were seen.
    pub(super) fn is_stale(&self) -> bool {
        self.stale == Some(self.acknowledgement)
    }

    /// Whether it asks for what comes next: the end has later bytes.
    pub(super) fn asks_again(&self) -> bool {
        self.duplicate_acks >= FAST_ACKS
    }

    /// Where the window ends that its last segment gave; `None`: its SYN was not seen.
    pub(super) fn known_edge(&self) -> Option<SeqNumber> {
        (self.knows_shift && self.next.is_some()).then_some(self.edge)
    }

    fn scale(&mut self, shift: u8) {
        (self.shift, self.knows_shift) = (shift, true);
    }

    /// Whether it asks for anything again.
    pub(super) fn asks(&self) -> bool {
        self.duplicate_acks > 0
    }

    /// Whether its last blocks have this number.
    pub(super) fn has_sacked(&self, number: SeqNumber) -> bool {
        let has = |&(start, after): &(SeqNumber, SeqNumber)| {
            !start.is_after(number) && after.is_after(number)
        };
        self.sacked.iter().any(has)
    }

    /// A segment for which [`goes_on`](Self::goes_on) is true, without SYN, FIN and RST. `true`:
    /// its options are to be looked at.
    #[inline(always)]
    pub(crate) fn on_expected(
        &mut self,
        other: &Self,
        step: &Step,
        stamp_ns: i64,
        counts: &mut FlowCounts,
    ) -> bool {
        let may_repeat = step.acknowledgement == self.acknowledgement;
        let has_blocks = step.header_len > self.plain_len;
        let has_bytes = step.payload_len > 0;
        if has_bytes {
            let end = step.sequence + step.payload_len as u32;
            (self.next, self.next_ns) = (Some(end), stamp_ns);
        } else if may_repeat {
            self.on_repeated(other, step.window, counts);
        }
        // An acknowledgement of something new changes what was counted.
        self.duplicate_acks *= u32::from(may_repeat);
        self.probe = Probe::No;
        self.note(step.acknowledgement, step.window, self.shift, stamp_ns);
        has_blocks || may_repeat && !has_bytes
    }

    /// Remembers what a segment says. `shift`: in what units it gives its window.
    #[inline]
    fn note(&mut self, acknowledgement: SeqNumber, window: u16, shift: u8, stamp_ns: i64) {
        self.acknowledgement = acknowledgement;
        self.window = window;
        self.last_ns = stamp_ns;
        self.edge = acknowledgement + (u32::from(window) << shift);
    }

    /// A segment without payload, SYN, FIN and RST, which continues what was sent and has the
    /// acknowledgement of the one before it: whether it repeats it.
    #[inline(never)]
    fn on_repeated(&mut self, other: &Self, window: u16, counts: &mut FlowCounts) {
        let is_answer = other.probe == Probe::KeepAlive;
        if window == self.window && window != 0 && !is_answer {
            self.duplicate_acks += 1;
            counts.duplicate_acks += 1;
        }
    }

    /// Any other segment. Returns why its bytes come late, if they do.
    pub(super) fn on_segment(
        &mut self,
        other: &mut Self,
        tcp: &TcpHeader,
        seen: &Seen,
        counts: &mut FlowCounts,
    ) -> Option<Again> {
        let (len, end) = (tcp.payload_len, tcp.sequence + tcp.payload_len as u32);
        let is_marked = tcp.flags.0 & MARKS != 0;
        let is_next = self.next == Some(tcp.sequence);
        let is_keep_alive = len <= 1 && self.next == Some(tcp.sequence + 1) && !is_marked;
        let is_probe = len == 1 && is_next && other.next.is_some() && other.window == 0;
        if !is_probe {
            counts.zero_windows += u64::from(tcp.window == 0 && !is_marked);
            let fills = len > 0 && other.known_edge() == Some(end) && !is_marked;
            counts.full_windows += u64::from(fills);
        }
        if tcp.acknowledgement != self.acknowledgement {
            self.duplicate_acks = 0;
        } else if len == 0 && is_next && !is_marked {
            self.on_repeated(other, tcp.window, counts);
        }
        let has_bytes = len > 0 || tcp.flags.0 & (MARKS & !TcpFlags::RST.0) != 0;
        let again = match has_bytes && !is_keep_alive && !is_probe {
            true => self.why_again(other, tcp, seen),
            false => None,
        };
        self.probe = match (is_probe, is_keep_alive) {
            (true, _) => Probe::ZeroWindow,
            (_, true) => Probe::KeepAlive,
            _ => Probe::No,
        };
        let end = end + u32::from(tcp.flags.0 & (MARKS & !TcpFlags::RST.0) != 0);
        if !is_probe && self.next.is_none_or(|next| end.is_after(next)) {
            (self.next, self.next_ns) = (Some(end), seen.stamp_ns);
        }
        // The window of a SYN counts in bytes (RFC 7323 2.2).
        let shift = match tcp.flags.opens() {
            true => 0,
            false => self.shift,
        };
        self.note(tcp.acknowledgement, tcp.window, shift, seen.stamp_ns);
        again
    }

    /// Why a segment comes late or again; `None` if it does neither.
    fn why_again(&mut self, other: &mut Self, tcp: &TcpHeader, seen: &Seen) -> Option<Again> {
        let (len, end) = (tcp.payload_len, tcp.sequence + tcp.payload_len as u32);
        let next = self.next?;
        let is_acknowledged = other.next.is_some() && !end.is_after(other.acknowledgement);
        if len > 0 && is_acknowledged {
            self.to_report += 1;
            return Some(Again::Spurious);
        }
        // After a probe of one byte, that byte comes again with others.
        let is_after_probe = len > 1 && tcp.sequence + 1 == next;
        if !next.is_after(tcp.sequence) || is_after_probe {
            return None;
        }
        let asked_ns = seen.stamp_ns.saturating_sub(other.last_ns);
        let is_sacked = |&(start, after): &(SeqNumber, SeqNumber)| {
            start != after && !start.is_after(tcp.sequence) && !end.is_after(after)
        };
        let has_sacked = other.sacked.iter().any(|&(start, after)| start != after);
        let is_asked = tcp.sequence == other.acknowledgement
            || has_sacked && !other.sacked.iter().any(is_sacked);
        let again = if asked_ns < FAST_NS && other.duplicate_acks >= FAST_ACKS && is_asked {
            Again::Fast
        } else if seen.stamp_ns.saturating_sub(self.next_ns) < seen.out_of_order_ns
            && end != next
            && !seen.is_whole
        {
            return Some(Again::OutOfOrder);
        } else if self.timer_end.is_some_and(|until| !end.is_after(until)) {
            Again::Timeout
        } else if asked_ns >= FAST_NS {
            self.timer_end = Some(next);
            Again::Timeout
        } else {
            Again::Other
        };
        self.unreported += 1;
        Some(again)
    }

    /// The options of a segment: returns how many segments the end reports that came to it twice
    /// (RFC 2883), of which `other` is the sender; its longest one is `segment_max`.
    pub(super) fn on_options(
        &mut self,
        other: &mut Self,
        tcp: &TcpHeader,
        options: TcpOptions<'_>,
        segment_max: u64,
    ) -> u64 {
        let (mut shift, mut announced) = (None, SEGMENT_DEFAULT_BYTES);
        self.sacked = Default::default();
        let mut has_blocks = false;
        for option in options.flatten() {
            match option {
                TcpOption::WindowScale(by) => shift = Some(by.min(SHIFT_MAX)),
                TcpOption::Mss(bytes) => announced = bytes,
                TcpOption::Sack(blocks) => {
                    has_blocks = true;
                    self.sacked
                        .iter_mut()
                        .zip(blocks.iter())
                        .for_each(|(place, block)| *place = block);
                }
                _ => {}
            }
        }
        if !has_blocks && !tcp.flags.opens() {
            self.plain_len = tcp.header_len;
        }
        if tcp.flags.opens() {
            self.announce(announced);
            self.scale(shift.unwrap_or(0));
            if shift.is_none() {
                // Both ends scale, or neither does.
                other.scale(0);
                other.near.look();
            } else if other.knows_shift && other.shift == 0 && tcp.flags.contains(TcpFlags::ACK) {
                self.shift = 0;
            }
        }
        let [(start, after), (outer_start, outer_after), ..] = self.sacked;
        let is_inner = outer_start != outer_after
            && !outer_start.is_after(start)
            && !after.is_after(outer_after);
        let is_before = !after.is_after(tcp.acknowledgement);
        if start == after || !(is_before || is_inner) {
            return 0;
        }
        let bytes = u64::from(after.bytes_from(start));
        let reported = bytes
            .checked_div(segment_max)
            .map_or(1, |_| bytes.div_ceil(segment_max));
        let noted = reported.min(other.to_report);
        let known = (reported - noted).min(other.unreported);
        other.to_report -= noted;
        other.unreported -= known;
        known
    }

    /// The longest segment that it takes is announced, and the shift of its window.
    pub(crate) fn announce(&mut self, segment_max: u16) {
        self.segment_max = segment_max;
        self.near = Near(segment_max.into());
    }

    /// Whether data of the other end up to `end` leave no more room than a segment, as it was
    /// announced, or follow data that left less.
    #[inline(always)]
    pub(super) fn is_near_edge(&self, end: SeqNumber) -> bool {
        i64::from(self.edge.bytes_from(end)) <= self.near.0
    }
}
