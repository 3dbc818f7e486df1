//! What a connection remembers of what was lost, sent again and probed.

use lineside_time::Nanoseconds;
use lineside_wire::SeqNumber;

use crate::congestion::Window;

/// A timer that fires before a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sooner {
    Off,
    /// The end of what was sent is probed at this instant: RFC 8985, 7.2.
    LossProbe(Nanoseconds),
    /// What may have been overtaken is lost at this instant: RFC 8985, 6.2, step 5.
    Reordering(Nanoseconds),
}

impl Sooner {
    /// When it fires.
    pub(crate) fn at(self) -> Option<Nanoseconds> {
        match self {
            Self::Off => None,
            Self::LossProbe(at) | Self::Reordering(at) => Some(at),
        }
    }
}

/// A probe that has left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    /// The end of what was in flight with it.
    pub(super) end: SeqNumber,
    /// It was sent before.
    pub(super) is_again: bool,
}

/// What is remembered of what arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rack {
    /// When what was sent last, of all that has arrived, was sent, and where it ends.
    pub(super) sent_at: Nanoseconds,
    pub(super) end: SeqNumber,
    /// How long it took; negative before anything has arrived.
    pub(super) rtt_ns: Nanoseconds,
    /// The shortest time that any took; `MAX` before there is one.
    pub(super) min_rtt: Nanoseconds,
    /// The highest number that has arrived.
    pub(super) fack: SeqNumber,
    /// The reordering window, in quarters of `min_rtt`.
    pub(super) quarters: u8,
    /// Recoveries until it is one quarter again.
    pub(super) persist: u8,
    /// It does not grow again before this is acknowledged, if it has grown.
    pub(super) round: SeqNumber,
    pub(super) has_grown: bool,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent_at: Nanoseconds::MIN,
            end: SeqNumber(0),
            rtt_ns: -1,
            min_rtt: Nanoseconds::MAX,
            fack: SeqNumber(0),
            quarters: 1,
            persist: 0,
            round: SeqNumber(0),
            has_grown: false,
        }
    }
}

/// A recovery.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reduction {
    /// In flight when it began: RecoverFS.
    pub(super) flight: u32,
    /// The window at its end.
    pub(super) target: u32,
    /// Bytes delivered and sent since it began: prr_delivered and prr_out.
    pub(super) delivered: u32,
    pub(super) sent: u32,
}

/// What a recovery or a timeout changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Undo {
    /// Nothing before this was sent again.
    pub(super) from: SeqNumber,
    /// Bytes that were sent again and not reported as duplicates yet.
    pub(super) again: u32,
    /// The window before.
    pub(super) window: Window,
}

/// How far F-RTO is: RFC 5682, 2.1 and 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frto {
    Off,
    /// After a timeout: only the first segment was sent again.
    First,
    /// That was acknowledged: new data are to leave, instead of what may be lost.
    SendsNew,
    /// They have left.
    Waits,
}
