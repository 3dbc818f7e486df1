//! Which payloads stay on the adapter, and which cross to the host.

use serde::Serialize;

/// How payloads are forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each payload crosses to the host and back.
    Baseline,
    /// Each payload crosses to the host; it goes back only if the cache has it no more.
    Pcache,
    /// No payload crosses: one that was evicted is lost.
    Direct,
    /// No payload crosses, but for one that has to make place: it is copied to the host first.
    Spill,
    /// As `direct` while the payloads that wait fill little of the cache, as `pcache` above that.
    Adaptive,
}

/// The modes, in the order in which they are printed.
pub const MODES: [Mode; 5] = [
    Mode::Baseline,
    Mode::Pcache,
    Mode::Direct,
    Mode::Spill,
    Mode::Adaptive,
];

impl Mode {
    /// The word of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Pcache => "pcache",
            Self::Direct => "direct",
            Self::Spill => "spill",
            Self::Adaptive => "adaptive",
        }
    }
}

/// What to do with a payload that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It crosses to the host, and is not kept.
    Host,
    /// It crosses to the host, and is kept too.
    Both,
    /// It is kept, and does not cross.
    Kept,
}

/// `adaptive` begins to copy at this share of the effective cache: a fifth is left for a burst
/// while the queue is drained.
const COPIES_FROM: [usize; 2] = [4, 5];
/// It ends to copy below this share, so that it does not change with each packet.
const COPIES_UNTIL: [usize; 2] = [3, 5];
/// Shorter payloads are not worth an entry: their copy costs less than the cache does.
pub const LEAST_BYTES: u32 = 512;

/// A mode with what it remembers.
#[derive(Debug, Clone)]
pub struct Policy {
    mode: Mode,
    least_bytes: u32,
    copies: bool,
    /// How often `adaptive` changed.
    changes: u64,
}

impl Policy {
    /// A policy that caches payloads of at least `least_bytes`.
    pub fn new(mode: Mode, least_bytes: u32) -> Self {
        Self {
            mode,
            least_bytes,
            copies: false,
            changes: 0,
        }
    }

    /// The way of a payload that arrives while `waiting` entries of `effective` hold payloads that
    /// are not yet sent.
    pub fn on_receive(&mut self, payload_bytes: u32, waiting: usize, effective: usize) -> Way {
        if payload_bytes < self.least_bytes {
            return Way::Host;
        }
        match self.mode {
            Mode::Baseline => Way::Host,
            Mode::Pcache => Way::Both,
            Mode::Direct | Mode::Spill => Way::Kept,
            Mode::Adaptive => {
                let [above, of] = if self.copies {
                    COPIES_UNTIL
                } else {
                    COPIES_FROM
                };
                let copies = waiting * of >= effective * above;
                self.changes += u64::from(copies != self.copies);
                self.copies = copies;
                if copies { Way::Both } else { Way::Kept }
            }
        }
    }

    /// Whether a payload that has no other copy crosses to the host before it is evicted.
    /// `adaptive` copies too what it kept before its change.
    pub fn spills(&self) -> bool {
        matches!(self.mode, Mode::Spill | Mode::Adaptive)
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How often `adaptive` changed between `direct` and `pcache`.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_changes_with_hysteresis() {
        let mut policy = Policy::new(Mode::Adaptive, LEAST_BYTES);
        let ways = [79, 80, 61, 60, 59, 79].map(|waiting| policy.on_receive(1000, waiting, 100));
        let (kept, both) = (Way::Kept, Way::Both);
        assert_eq!(ways, [kept, both, both, both, kept, kept]);
        assert_eq!(policy.changes(), 2);
    }

    #[test]
    fn short_payloads_take_no_entry_in_any_mode() {
        for mode in MODES {
            let mut policy = Policy::new(mode, LEAST_BYTES);
            assert_eq!(policy.on_receive(LEAST_BYTES - 1, 0, 100), Way::Host);
            let is_host = policy.on_receive(LEAST_BYTES, 0, 100) == Way::Host;
            assert_eq!(is_host, mode == Mode::Baseline);
        }
    }
}
