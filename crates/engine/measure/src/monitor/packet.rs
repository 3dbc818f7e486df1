//! What monitors see of a frame, and where.

use lineside_time::Nanoseconds;
use lineside_wire::Dissected;

/// What monitors need of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// When it came, left or was dropped; `None` if its recorder gave no time.
    pub time_ns: Option<Nanoseconds>,
    /// Where it was seen, by the number that [`Monitors::place`](super::Monitors::place) gave.
    pub place: u16,
    /// What the first byte is: a LINKTYPE_ value.
    pub link_type: u16,
    /// Bytes on the wire, from the Ethernet header on.
    pub wire_len: u32,
    /// The first bytes, as many as there are up to [`HEAD_LEN`].
    pub bytes: &'a [u8],
}

/// Bytes of a frame that monitors look at: Ethernet with two tags, IPv6 with an extension header,
/// and TCP with all options.
pub const HEAD_LEN: usize = 128;

/// A head, and what its headers say.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The head.
    pub head: Head<'a>,
    /// Its headers.
    pub headers: &'a Dissected,
}

/// What happened to a frame at its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// It arrived there.
    Came,
    /// It left there.
    Left,
    /// It arrived there, and the loss model dropped it.
    DroppedLoss,
    /// It arrived there while the link was down.
    DroppedDown,
    /// It arrived there, and the link held too much already.
    DroppedLimit,
    /// It arrived there, beyond the rate.
    DroppedRate,
    /// It arrived there, and there was no memory for it.
    DroppedMemory,
    /// It arrived there, and was due at an interface that was down.
    DroppedInterface,
    /// It arrived there, and the switch between the ports sent it nowhere.
    DroppedSwitch,
}

impl Point {
    /// Every point.
    pub const ALL: [Self; 9] = [
        Self::Came,
        Self::Left,
        Self::DroppedLoss,
        Self::DroppedDown,
        Self::DroppedLimit,
        Self::DroppedRate,
        Self::DroppedMemory,
        Self::DroppedInterface,
        Self::DroppedSwitch,
    ];

    /// Its name in words, tables and capture files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Came => "came",
            Self::Left => "left",
            Self::DroppedLoss => "dropped_loss",
            Self::DroppedDown => "dropped_down",
            Self::DroppedLimit => "dropped_limit",
            Self::DroppedRate => "dropped_rate",
            Self::DroppedMemory => "dropped_memory",
            Self::DroppedInterface => "dropped_interface",
            Self::DroppedSwitch => "dropped_switch",
        }
    }

    /// Whether frames are dropped there.
    pub fn is_drop(self) -> bool {
        !matches!(self, Self::Came | Self::Left)
    }

    /// The point with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }
}
