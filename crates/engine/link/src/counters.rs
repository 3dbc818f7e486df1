use serde::{Deserialize, Serialize};

/// What a link counted. At any moment `entered + duplicated = released + dropped + held`, in
/// frames: [`is_whole`](Self::is_whole).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LinkCounters {
    /// Frames that entered.
    pub entered: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Frames made of others.
    pub duplicated: u64,
    /// Frames that left.
    pub released: u64,
    /// Their bytes.
    pub released_bytes: u64,
    /// Frames that were dropped, by reason.
    pub dropped: Drops,
    /// Frames of which one bit was flipped.
    pub corrupted: u64,
    /// Frames that passed the delay at once, by [`Settings::reorder`](crate::Settings::reorder).
    pub hastened: u64,
    /// Draws below 0, which counted as 0.
    pub negative_draws: u64,
    /// Frames that were due before an earlier one and, to keep the order, waited for it.
    pub held_back: u64,
    /// Frames that were due before an earlier one, and did not wait for it.
    pub overtaking: u64,
    /// The most frames that were held at once.
    pub held_max: u64,
    /// The most bytes of frames that were held at once.
    pub held_bytes_max: u64,
    /// TCP segments of connections beyond 65,536, or beyond memory, which
    /// [`Loss::Segment`](crate::Loss::Segment) does not follow.
    pub unfollowed: u64,
}

impl LinkCounters {
    /// This many frames that the link released, of this many bytes, never left: where they were due
    /// is down.
    pub fn unsent(&mut self, frames: u64, bytes: u64) {
        self.released -= frames;
        self.released_bytes -= bytes;
        self.dropped.interface += frames;
    }

    /// Whether each frame is accounted for once; `held` frames are in the link.
    pub fn is_whole(&self, held: usize) -> bool {
        self.entered + self.duplicated == self.released + self.dropped.total() + held as u64
    }
}

/// Why a link dropped a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The loss model.
    Loss,
    /// The link was down.
    Down,
    /// More than [`Settings::limit`](crate::Settings::limit).
    Limit,
    /// More than the rate, under [`Excess::Drop`](crate::Excess::Drop).
    Rate,
    /// More than fits into memory.
    Memory,
}

/// Frames that a link dropped, by [`DropReason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Drops {
    /// By the loss model.
    pub loss: u64,
    /// The link was down.
    pub down: u64,
    /// More than [`Settings::limit`](crate::Settings::limit).
    pub limit: u64,
    /// More than the rate, under [`Excess::Drop`](crate::Excess::Drop).
    pub rate: u64,
    /// More than fits into memory.
    pub memory: u64,
    /// Released, and due at an interface that was down: see [`LinkCounters::unsent`].
    pub interface: u64,
}

impl Drops {
    /// Counts one.
    pub(crate) fn count(&mut self, reason: DropReason) {
        *match reason {
            DropReason::Loss => &mut self.loss,
            DropReason::Down => &mut self.down,
            DropReason::Limit => &mut self.limit,
            DropReason::Rate => &mut self.rate,
            DropReason::Memory => &mut self.memory,
        } += 1;
    }

    /// The counts by the names of their reasons, in the order of these.
    pub fn by_name(&self) -> [(&'static str, u64); 6] {
        [
            ("down", self.down),
            ("interface", self.interface),
            ("limit", self.limit),
            ("loss", self.loss),
            ("memory", self.memory),
            ("rate", self.rate),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.loss + self.down + self.limit + self.rate + self.memory + self.interface
    }

    /// The drops since there were `earlier` ones.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            loss: self.loss - earlier.loss,
            down: self.down - earlier.down,
            limit: self.limit - earlier.limit,
            rate: self.rate - earlier.rate,
            memory: self.memory - earlier.memory,
            interface: self.interface - earlier.interface,
        }
    }
}
