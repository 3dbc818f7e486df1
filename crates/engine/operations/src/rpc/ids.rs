//! Numbers of rows and connections, and of services.

use lineside_flow::Connection;
use lineside_frame::Descriptor;

/// Ports at which RPC is served: a client's own may be smaller.
pub(super) const SERVICES: [u16; 2] = [111, 2049];
/// Rows are numbered by frame and by place within it, in this many bits.
pub(super) const PLACE_BITS: u32 = 18;

pub(crate) fn connection_id(facts: &Connection) -> i64 {
    connection_id_of(facts.first())
}

/// The id of a connection that a frame began.
pub fn connection_id_of(first: &Descriptor) -> i64 {
    (first.ordinal << PLACE_BITS).cast_signed()
}
