//! What each direction of a connection did in an interval: packets, bytes, what TCP had to send
//! again, windows, peaks, and round trips of both halves of the way.

const MILLISECOND_NS: i64 = 1_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// What one direction did in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets.
    pub packets: u64,
    /// Payload bytes on the wire.
    pub bytes: u64,
    /// Of them, bytes that had been seen before.
    pub retransmitted_bytes: u64,
    /// Segments that came after later ones, and were not sent again.
    pub out_of_order_packets: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Of them, those that duplicate acknowledgements asked for.
    pub fast_retransmissions: u64,
    /// Of them, those because a timer ran out.
    pub timeout_retransmissions: u64,
    /// Of them, those whose bytes the other end had.
    pub spurious_retransmissions: u64,
    /// Acknowledgements that repeat the one before.
    pub duplicate_acks: u64,
    /// Segments that give a window of 0.
    pub zero_windows: u64,
    /// Segments that fill the other end's window.
    pub full_windows: u64,
    /// Times that it stopped where less room than a segment was left in the other end's window,
    /// and went on as soon as an acknowledgement made room.
    pub window_waits: u64,
    /// SYNs, also those that answer one.
    pub syns: u64,
    /// FINs.
    pub fins: u64,
    /// RSTs.
    pub resets: u64,
    /// SYNs of this end that an RST answered.
    pub refused: u64,
    /// SYNs of this end that an acknowledgement of another connection answered (RFC 5961 4.2).
    pub challenged: u64,
    /// The longest time for which this end sent the same bytes again, or the other asked for them.
    pub stuck_ns: u64,
    /// When that began.
    pub stuck_since_ns: Option<i64>,
    /// Of these bytes, the segment that did not get through, or the gap if the tap saw no segment.
    pub stuck_bytes: u64,
    /// The longest segment that did meanwhile, or in their place; 0 if none is known.
    pub passed_bytes: u64,
    /// The longest time for which its window was shut while the other end asked for room.
    pub shut_ns: u64,
    /// When that began.
    pub shut_since_ns: Option<i64>,
    /// Payload of the longest packet.
    pub segment_max_bytes: u64,
    /// Bytes of frames in the busiest millisecond.
    pub peak_1ms_bytes: u64,
    /// Bytes of frames in the busiest second.
    pub peak_1s_bytes: u64,
    /// The present millisecond and the present second.
    rates: Rates,
    /// Bytes that never came.
    pub lost_bytes: u64,
    /// When its last packet passed.
    pub last_ns: Option<i64>,
    /// When its first FIN or RST passed.
    pub ended_ns: Option<i64>,
    /// Samples of the time from a segment to its acknowledgement, seen at the tap.
    pub rtt_samples: u64,
    /// Their sum in nanoseconds.
    pub rtt_sum_ns: u64,
    /// The least of them.
    pub rtt_min_ns: Option<u64>,
}

/// Bytes of frames in the present millisecond, and in the present second before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rates {
    millisecond_end_ns: i64,
    millisecond_bytes: u64,
    second_end_ns: i64,
    second_bytes: u64,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            millisecond_end_ns: i64::MIN,
            millisecond_bytes: 0,
            second_end_ns: i64::MIN,
            second_bytes: 0,
        }
    }
}

impl FlowCounts {
    #[inline(always)]
    pub(crate) fn add_packet(
        &mut self,
        payload_len: usize,
        wire_len: usize,
        stamp_ns: Option<i64>,
    ) {
        self.packets += 1;
        self.bytes += payload_len as u64;
        self.segment_max_bytes = self.segment_max_bytes.max(payload_len as u64);
        let Some(stamp_ns) = stamp_ns else {
            return;
        };
        self.last_ns = Some(stamp_ns);
        if stamp_ns >= self.rates.millisecond_end_ns {
            self.begin_millisecond(stamp_ns);
        }
        self.rates.millisecond_bytes += wire_len as u64;
    }

    /// The present millisecond is over, and perhaps the present second.
    #[inline(never)]
    fn begin_millisecond(&mut self, stamp_ns: i64) {
        let Rates {
            millisecond_end_ns,
            millisecond_bytes,
            second_end_ns,
            second_bytes,
        } = &mut self.rates;
        let bytes = std::mem::take(millisecond_bytes);
        *second_bytes += bytes;
        self.peak_1ms_bytes = self.peak_1ms_bytes.max(bytes);
        self.peak_1s_bytes = self.peak_1s_bytes.max(*second_bytes);
        let end_of = |unit_ns: i64| {
            let begun = stamp_ns.div_euclid(unit_ns);
            (begun + 1).saturating_mul(unit_ns)
        };
        *millisecond_end_ns = end_of(MILLISECOND_NS);
        if stamp_ns >= *second_end_ns {
            *second_end_ns = end_of(SECOND_NS);
            *second_bytes = 0;
        }
    }

    /// The interval is over: its last millisecond and second count too.
    pub(crate) fn end_rates(&mut self) {
        self.begin_millisecond(i64::MAX);
        self.rates = Rates::default();
    }

    /// The mean of the samples.
    pub fn rtt_mean_ns(&self) -> Option<u64> {
        self.rtt_sum_ns.checked_div(self.rtt_samples)
    }

    #[inline]
    pub(crate) fn add_round_trip(&mut self, took_ns: u64) {
        self.rtt_samples += 1;
        self.rtt_sum_ns = self.rtt_sum_ns.saturating_add(took_ns);
        self.rtt_min_ns = Some(self.rtt_min_ns.map_or(took_ns, |least| least.min(took_ns)));
    }
}
