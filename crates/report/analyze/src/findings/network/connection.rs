//! A connection, with what the intervals of all its rows say together.

use crate::findings::watch::ConnectionTimes;
use crate::numbers::share;
use crate::read::selection::end_name;

/// A round trip below this hurts nobody.
pub(super) const RTT_MIN_NS: u64 = 1_000_000;
/// Segments that fill the window, or times that the next one waited for room, and the share of the
/// time in which something is transferred then.
pub(super) const FULL_WINDOWS_MIN: u64 = 10;
pub(super) const TRANSFER_SHARE: f64 = 0.3;
/// Bytes a round trip: more, and the window was full now and then only.
pub(super) const WINDOW_BYTES_MAX: u64 = 256 << 10;
/// Operations of a connection that show how it is used.
pub(super) const OPERATIONS_MIN: u64 = 50;
/// By how much, and to what, a round trip grows where a queue is in the way.
pub(super) const QUEUE_FACTOR: u64 = 8;
pub(super) const QUEUE_MIN_NS: u64 = 10_000_000;
/// Bytes of a stream, and of its packets on average, that are bulk: below, acknowledgements are
/// late for other reasons.
const BULK_BYTES_MIN: u64 = 1_000_000;
const BULK_PACKET_BYTES_MIN: u64 = 500;
/// A link is full where the busiest millisecond has at most so many times the busiest second's
/// rate.
pub(super) const PLATEAU_FACTOR: u64 = 2;
/// And a message takes so long.
const PLATEAU_TRANSFER_MIN_NS: u64 = 5_000_000;
/// Bytes of headers around a segment.
const HEADERS_BYTES: u64 = 80;

/// What one end sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sent {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) retransmissions: u64,
    pub(super) fast: u64,
    pub(super) timeouts: u64,
    pub(super) spurious: u64,
    pub(super) out_of_order: u64,
    pub(super) zero_windows: u64,
    pub(super) full_windows: u64,
    /// Times that it stopped because the rest of the other end's window was too small.
    pub(super) window_waits: u64,
    pub(super) segment_max: u64,
    pub(super) peak_1ms: u64,
    pub(super) peak_1s: u64,
    pub(super) rtt_min_ns: Option<u64>,
    /// The longest mean of an interval.
    pub(super) rtt_ns: u64,
}

impl Sent {
    /// Segments that were sent again and that the other end did not have.
    pub(super) fn needed(&self) -> u64 {
        self.retransmissions.saturating_sub(self.spurious)
    }

    pub(super) fn is_bulk(&self) -> bool {
        self.bytes >= BULK_BYTES_MIN && self.bytes / self.packets.max(1) >= BULK_PACKET_BYTES_MIN
    }
}

/// A TCP connection that carries RPC, all its intervals together.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) id: i64,
    pub(super) client: String,
    pub(super) client_port: Option<i32>,
    pub(super) server: String,
    /// The client, the server.
    pub(super) sent: [Sent; 2],
    pub(super) outstanding_max: u64,
    pub(super) times: ConnectionTimes,
    /// Its intervals, and those in which segments were sent again that were needed: from the begin
    /// of the first to the end of the last.
    pub(super) intervals: [Option<(i64, i64)>; 2],
}

impl Connection {
    pub(super) fn add_interval(&mut self, [start, length]: [Option<i64>; 2], has_resent: bool) {
        let Some(start) = start else { return };
        let end = start.saturating_add(length.unwrap_or(0));
        let [all, resent] = &mut self.intervals;
        for span in [Some(all), has_resent.then_some(resent)]
            .into_iter()
            .flatten()
        {
            let (first, last) = span.unwrap_or((start, end));
            *span = Some((first.min(start), last.max(end)));
        }
    }

    /// Since when, and until when, segments were sent again; `None`: in its first interval, or in
    /// its last.
    pub(super) fn resent_times(&self) -> [Option<i64>; 2] {
        let [Some((begin, finish)), Some((first, last))] = self.intervals else {
            return [None; 2];
        };
        [
            (first > begin).then_some(first),
            (last < finish).then_some(last),
        ]
    }

    /// Whether another connection of the same client and server asked for something at the same
    /// time, for half of this one's or longer.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let span = |of: &Self| of.times.first_ns.zip(of.times.last_ns);
        let (Some((first, last)), Some((begin, end))) = (span(self), span(other)) else {
            return false;
        };
        let common_ns = last.min(end).saturating_sub(first.max(begin));
        self.id != other.id && common_ns >= last.saturating_sub(first) / 2
    }

    /// The shortest way from end to end and back.
    pub(super) fn rtt_ns(&self) -> Option<u64> {
        let [client, server] = [&self.sent[0], &self.sent[1]].map(|sent| sent.rtt_min_ns);
        client.zip(server).map(|(client, server)| client + server)
    }

    /// The share of its time in which a message of this end is on its way. Those of one stream
    /// follow one another.
    pub(super) fn transfer_share(&self, end: usize) -> f64 {
        let lasted = self.times.first_ns.zip(self.times.last_ns);
        let lasted = lasted.map_or(0, |(first, last)| last.abs_diff(first));
        share(self.times.transfer_ns(end), lasted)
    }

    /// Bytes of this end in a round trip, while a message is on its way. `None`: round trips are
    /// too short to matter.
    pub(super) fn at_once(&self, end: usize) -> Option<u64> {
        let rtt = self.rtt_ns().filter(|&rtt| rtt >= RTT_MIN_NS)?;
        let all = u128::from(self.sent[end].bytes) * u128::from(rtt);
        u64::try_from(all.checked_div(u128::from(self.times.transfer_ns(end)))?).ok()
    }

    /// What this end sends fills the window of the other, and takes long because of it.
    pub(super) fn fills_window(&self, end: usize) -> bool {
        let sent = &self.sent[end];
        let is_full = sent.full_windows.max(sent.window_waits) >= FULL_WINDOWS_MIN
            && self
                .at_once(end)
                .is_some_and(|bytes| bytes <= WINDOW_BYTES_MAX);
        let is_shut = self.sent[1 - end].zero_windows >= FULL_WINDOWS_MIN;
        (is_full || is_shut) && self.transfer_share(end) >= TRANSFER_SHARE
    }

    /// What this end sends waits in a queue behind the tap, or comes out of one before it.
    pub(super) fn fills_link(&self, end: usize) -> bool {
        let sent = &self.sent[end];
        // Two segments are in any millisecond of a slow link.
        let two = 2 * (sent.segment_max + HEADERS_BYTES);
        let is_even = sent.peak_1ms.saturating_sub(two) <= PLATEAU_FACTOR * sent.peak_1s / 1_000;
        let mean_ns = self.times.transfer_ns(end) / self.times.operations.max(1);
        let trickles = is_even
            && mean_ns >= PLATEAU_TRANSFER_MIN_NS
            && self.transfer_share(end) >= TRANSFER_SHARE;
        sent.is_bulk() && (self.is_late(end, self.sent[1 - end].rtt_ns) || trickles)
    }

    /// Whether acknowledgements of what this end sends take that much longer than they could.
    pub(super) fn is_late(&self, end: usize, rtt_ns: u64) -> bool {
        let shortest = self.sent[1 - end].rtt_min_ns.unwrap_or(0);
        rtt_ns >= QUEUE_MIN_NS && rtt_ns >= QUEUE_FACTOR * shortest
    }

    /// Whether the link was full in an interval of these figures, if it was at all.
    pub(super) fn is_full_in(&self, end: usize, rtt_ns: u64, peak_1s: u64) -> bool {
        match self.is_late(end, self.sent[1 - end].rtt_ns) {
            true => self.is_late(end, rtt_ns),
            false => 2 * peak_1s >= self.sent[end].peak_1s,
        }
    }

    pub(super) fn name(&self) -> String {
        end_name(&self.client, self.client_port)
    }
}
