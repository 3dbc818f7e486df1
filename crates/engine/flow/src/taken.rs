//! The result of a frame.

use lineside_account::{Counter, Counters};
use lineside_wire::{HeaderChecksum, Ip};

/// The result of a frame: its one outcome, and its connection if it has one.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// The outcome counter.
    pub outcome: Counter,
    /// The connection's slot.
    pub connection: Option<usize>,
}

pub(crate) const DUPLICATE: Taken = Taken {
    outcome: Counter::FramesDuplicate,
    connection: None,
};

pub(crate) const DAMAGED: Taken = Taken {
    outcome: Counter::FramesDamaged,
    connection: None,
};

#[inline]
pub(crate) fn taken(outcome: Counter, slot: Option<usize>) -> Taken {
    Taken {
        outcome: match slot {
            Some(_) => outcome,
            None => Counter::DroppedConnections,
        },
        connection: slot,
    }
}

#[inline]
pub(crate) fn count_checksums(ip: &Ip, transport_offloaded: bool, counters: &mut Counters) {
    match ip.checksum {
        HeaderChecksum::Wrong => counters.count(Counter::ChecksumIpv4Wrong),
        HeaderChecksum::Offloaded => counters.count(Counter::ChecksumOffloaded),
        _ => {}
    }
    counters.add(Counter::ChecksumOffloaded, u64::from(transport_offloaded));
}
