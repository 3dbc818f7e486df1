//! How long frames are.

use super::bins::Room;
use super::{Bins, Monitor, Packet, Rows, Scale};

/// The distribution of lengths on the wire.
#[derive(Debug)]
pub(super) struct Sizes(Bins);

impl Sizes {
    pub(super) fn new(room: Option<&Room>) -> Self {
        Self(Bins::new("packet_bytes", Scale::Lengths).drawn_on(room))
    }
}

impl Monitor for Sizes {
    #[inline]
    fn on_packet(&mut self, packet: &Packet<'_>, _: &mut dyn Rows) {
        self.0.add(packet.head.wire_len.into());
    }

    fn report(&self, out: &mut dyn Rows) {
        self.0.report(out);
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}
