//! What passes in each window of time: utilisation and packet rate.

use lineside_time::Nanoseconds;

use super::bins::Room;
use super::{Bins, Monitor, Packet, Rows, Scale, Window};

/// Frames and bytes in windows of equal length, of which only those are kept in which something
/// passed. A window is given when the next one begins; frames of an earlier one, where stamps go
/// back, make a further row of that.
#[derive(Debug)]
pub(super) struct Windows {
    window_ns: Nanoseconds,
    packets: Bins,
    bytes: Bins,
    open: Option<Window>,
    /// The latest one that is over.
    latest: Option<Window>,
}

impl Windows {
    /// Windows of this length, at least a nanosecond.
    pub(super) fn new(window_ns: Nanoseconds, room: Option<&Room>) -> Self {
        debug_assert!(window_ns > 0, "the words were checked");
        let bins = |metric| Bins::new(metric, Scale::LogLinear).drawn_on(room);
        Self {
            window_ns,
            packets: bins("window_packets"),
            bytes: bins("window_bytes"),
            open: None,
            latest: None,
        }
    }
}

impl Monitor for Windows {
    #[inline]
    fn on_packet(&mut self, packet: &Packet<'_>, out: &mut dyn Rows) {
        let Some(time_ns) = packet.head.time_ns else {
            return;
        };
        let bytes = u64::from(packet.head.wire_len);
        if let Some(open) = &mut self.open {
            let end_ns = open.start_ns.saturating_add(self.window_ns);
            if (open.start_ns..end_ns).contains(&time_ns) {
                open.packets += 1;
                open.bytes += bytes;
                return;
            }
            self.packets.add(open.packets);
            self.bytes.add(open.bytes);
            out.window(*open);
            self.latest = Some(*open);
        }
        let start_ns = time_ns.saturating_sub(time_ns.rem_euclid(self.window_ns));
        self.open = Some(Window {
            flow_id: None,
            start_ns,
            window_ns: self.window_ns,
            packets: 1,
            bytes,
        });
    }

    fn report(&self, out: &mut dyn Rows) {
        let (mut packets, mut bytes) = (self.packets.clone(), self.bytes.clone());
        if let Some(open) = self.open {
            packets.add(open.packets);
            bytes.add(open.bytes);
            out.window(open);
        }
        packets.report(out);
        bytes.report(out);
    }

    fn summarize(&self, out: &mut dyn Rows) {
        if let Some(window) = self.latest.or(self.open) {
            out.window(window);
        }
        self.packets.report(out);
        self.bytes.report(out);
    }

    fn memory_bytes(&self) -> usize {
        self.packets.memory_bytes() + self.bytes.memory_bytes()
    }
}
