use lineside_frame::Descriptor;

use crate::connection::Connection;
use crate::context::Context;
use crate::sink::StreamSink;

/// What one direction did in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets.
    pub packets: u64,
    /// Payload bytes on the wire.
    pub bytes: u64,
    /// Of them, bytes that had been seen before.
    pub retransmitted_bytes: u64,
    /// Packets with bytes that came after later ones.
    pub out_of_order_packets: u64,
    /// Bytes that never came.
    pub lost_bytes: u64,
    /// Samples of the time from a segment to its acknowledgement, seen at the tap.
    pub rtt_samples: u64,
    /// Their sum in nanoseconds.
    pub rtt_sum_ns: u64,
    /// The least of them.
    pub rtt_min_ns: Option<u64>,
}

impl FlowCounts {
    #[inline]
    pub(crate) fn add_packet(&mut self, payload_len: usize) {
        self.packets += 1;
        self.bytes += payload_len as u64;
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

impl Connection {
    /// Reports the counts of the interval that is over, if this packet belongs to another one.
    #[inline]
    pub(crate) fn roll_interval<S: StreamSink>(
        &mut self,
        descriptor: &Descriptor,
        context: &mut Context<'_, S>,
    ) {
        let interval_ns = context.shared.config.interval_ns;
        let Some(stamp) = descriptor.stamp_ns else {
            return;
        };
        if stamp < self.interval_ns.saturating_add(interval_ns) {
            return;
        }
        let start = stamp.div_euclid(interval_ns).saturating_mul(interval_ns);
        if start > self.interval_ns {
            self.report_interval(context);
            self.interval_ns = start;
        }
    }

    /// Reports what was counted since the last report, if anything was.
    pub(crate) fn report_interval<S: StreamSink>(&mut self, context: &mut Context<'_, S>) {
        let counts = std::mem::take(&mut self.counts);
        if counts != <[FlowCounts; 2]>::default() {
            let (slot, start_ns) = (self.slot, self.interval_ns);
            context.sink.on_interval(slot, self, start_ns, &counts);
        }
    }
}
