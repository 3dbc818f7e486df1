//! Times between frames, and the bursts that short ones make.

use lineside_time::Nanoseconds;

use super::bins::Room;
use super::{Bins, Monitor, Packet, Rows, Scale};

/// The distribution of times between a frame and the one before it. A frame without a time has no
/// gap; a stamp before that of the frame before it makes a gap of 0.
#[derive(Debug)]
pub(super) struct Gaps {
    bins: Bins,
    last_ns: Option<Nanoseconds>,
}

impl Gaps {
    pub(super) fn new(room: Option<&Room>) -> Self {
        Self::on(Bins::new("gap_ns", Scale::LogLinear).drawn_on(room))
    }

    /// In the bins of the original hardware.
    pub(super) fn in_decades(room: Option<&Room>) -> Self {
        Self::on(Bins::new("gap_decades_ns", Scale::Decades).drawn_on(room))
    }

    fn on(bins: Bins) -> Self {
        Self {
            bins,
            last_ns: None,
        }
    }
}

impl Monitor for Gaps {
    #[inline]
    fn on_packet(&mut self, packet: &Packet<'_>, _: &mut dyn Rows) {
        let Some(time_ns) = packet.head.time_ns else {
            return;
        };
        if let Some(last_ns) = self.last_ns.replace(time_ns) {
            self.bins.add(gap_ns(last_ns, time_ns));
        }
    }

    fn report(&self, out: &mut dyn Rows) {
        self.bins.report(out);
    }

    fn memory_bytes(&self) -> usize {
        self.bins.memory_bytes()
    }
}

#[inline]
fn gap_ns(last_ns: Nanoseconds, time_ns: Nanoseconds) -> u64 {
    time_ns.saturating_sub(last_ns).max(0) as u64
}

/// Bursts: frames that follow one another by no more than a bound. The last one counts too.
#[derive(Debug)]
pub(super) struct Bursts {
    within_ns: u64,
    packets: Bins,
    bytes: Bins,
    last_ns: Option<Nanoseconds>,
    /// Frames and bytes of the burst that goes on.
    open: (u64, u64),
}

impl Bursts {
    /// Of frames of which each comes at most this long after the one before it.
    pub(super) fn new(within_ns: u64, room: Option<&Room>) -> Self {
        let bins = |metric| Bins::new(metric, Scale::LogLinear).drawn_on(room);
        Self {
            within_ns,
            packets: bins("burst_packets"),
            bytes: bins("burst_bytes"),
            last_ns: None,
            open: (0, 0),
        }
    }
}

impl Monitor for Bursts {
    #[inline]
    fn on_packet(&mut self, packet: &Packet<'_>, _: &mut dyn Rows) {
        let Some(time_ns) = packet.head.time_ns else {
            return;
        };
        if let Some(last_ns) = self.last_ns.replace(time_ns)
            && gap_ns(last_ns, time_ns) > self.within_ns
        {
            self.packets.add(self.open.0);
            self.bytes.add(self.open.1);
            self.open = (0, 0);
        }
        self.open.0 += 1;
        self.open.1 += u64::from(packet.head.wire_len);
    }

    fn report(&self, out: &mut dyn Rows) {
        let (mut packets, mut bytes) = (self.packets.clone(), self.bytes.clone());
        if self.open.0 > 0 {
            packets.add(self.open.0);
            bytes.add(self.open.1);
        }
        packets.report(out);
        bytes.report(out);
    }

    fn memory_bytes(&self) -> usize {
        self.packets.memory_bytes() + self.bytes.memory_bytes()
    }
}
