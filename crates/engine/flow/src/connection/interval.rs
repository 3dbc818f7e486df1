//! What a connection did in each interval, counted and reported.

use lineside_frame::Descriptor;
use lineside_wire::{Direction, TcpFlags, TcpHeader};

use crate::connection::Connection;
use crate::context::Context;
use crate::counts::FlowCounts;
use crate::sink::StreamSink;

impl Connection {
    /// Counts a packet of a direction; `descriptor` is that of its frame.
    pub(crate) fn add_packet(
        &mut self,
        direction: Direction,
        payload_len: usize,
        descriptor: &Descriptor,
    ) {
        // Of a packet in fragments it is that of the first one.
        let wire_len = payload_len.max(descriptor.wire_len as usize);
        self.counts[direction].add_packet(payload_len, wire_len, descriptor.stamp_ns);
    }

    /// Counts a FIN or RST by which a direction ended; whether it is one.
    #[inline]
    pub(crate) fn count_end(
        &mut self,
        direction: Direction,
        tcp: &TcpHeader,
        descriptor: &Descriptor,
    ) -> bool {
        let ends = tcp.flags.contains(TcpFlags::RST) && self.is_reset
            || tcp.flags.contains(TcpFlags::FIN) && self.ended[direction];
        if let Some(stamp_ns) = descriptor.stamp_ns.filter(|_| ends) {
            self.counts[direction].ended_ns.get_or_insert(stamp_ns);
        }
        ends
    }

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
        if stamp >= self.interval_ns.saturating_add(interval_ns) {
            let start = stamp.div_euclid(interval_ns).saturating_mul(interval_ns);
            if start > self.interval_ns {
                self.report_interval(context);
                self.interval_ns = start;
            }
        }
        self.since_ns.get_or_insert(stamp);
    }

    /// Reports what was counted since the last report, if anything was.
    pub(crate) fn report_interval<S: StreamSink>(&mut self, context: &mut Context<'_, S>) {
        self.settle_progress();
        let mut counts = std::mem::take(&mut self.counts);
        if counts != <[FlowCounts; 2]>::default() {
            counts.iter_mut().for_each(FlowCounts::end_rates);
            let (slot, start_ns) = (self.slot, self.interval_ns);
            context.sink.on_interval(slot, self, start_ns, &counts);
        }
        self.since_ns = None;
    }
}
