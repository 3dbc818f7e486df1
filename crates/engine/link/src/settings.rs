//! The settings of a link, as `words` reads them.
//!
//! Not here: what they do to a frame, which is the link's, and files that they name, which the
//! caller reads.

use lineside_time::Nanoseconds;

use crate::deliveries::Deliveries;
use crate::path_file::PathFile;
use crate::table::{TABLE_LEN, Table};

/// The longest delay: a day. Longer ones are cut.
pub const DELAY_MAX_NS: u64 = 86_400_000_000_000;

/// All settings of one direction of a link. The default is a wire: no delay, no loss.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Whether frames enter at all.
    pub state: State,
    /// Which of those that enter are lost.
    pub loss: Loss,
    /// Which of the others are duplicated.
    pub duplicate: Chance,
    /// In which of those one bit is flipped.
    pub corrupt: Chance,
    /// Which of those skip the delay, as with netem's `reorder`.
    pub reorder: Chance,
    /// How long each is delayed.
    pub delay: Delay,
    /// How fast they leave; `None`: as soon as they are due.
    pub rate: Option<RateLimit>,
    /// How much the link holds.
    pub limit: Limit,
    /// A schedule over time; it replaces the settings above that it gives.
    pub schedule: Option<Schedule>,
}

/// Settings over time, from the beginning of the link.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// Delay, loss and rate as they were measured.
    Path(PathFile),
    /// Instants at which this many bytes leave, in place of a rate.
    Deliveries(Deliveries),
}

/// Whether a link takes frames. Those that it holds leave in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// It does.
    #[default]
    Up,
    /// It does not.
    Down {
        /// What the ends see of that.
        carrier: Carrier,
    },
    /// In turn, from the link's beginning on.
    Flapping {
        /// So long it does, at least 1 ns.
        up_ns: u64,
        /// Then this long it does not, at least 1 ns.
        down_ns: u64,
        /// What the ends see while it does not.
        carrier: Carrier,
    },
}

/// What the ends of a link see of it while it takes no frames. Between live ports alone there is
/// something to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carrier {
    /// Nothing: a switch between them has failed.
    #[default]
    Stays,
    /// Their interfaces have no carrier: the cable was pulled out.
    Goes,
}

/// A chance for each frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Chance {
    /// From 0 to 1.
    pub share: f64,
    /// Between one frame and the next.
    pub correlation: Correlation,
}

/// How a draw depends on the previous one. The distribution stays the same, unlike with netem's
/// correlation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Correlation {
    /// Independent draws.
    #[default]
    None,
    /// The correlation of the normal deviates from which draws are made: above 0, below 1.
    Share(f64),
    /// A correlation that is a half after the given time and a quarter after twice that.
    /// Nanoseconds, at least 1.
    HalfLife(u64),
}

/// Which frames are lost.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// A share of them.
    Random(Chance),
    /// Gilbert and Elliott's model as netem has it: before each frame the state may change, but the
    /// frame is lost by the state before.
    GilbertElliott {
        /// From good to bad, from 0 to 1.
        p: f64,
        /// From bad to good.
        r: f64,
        /// Lost in the bad state: 1 - h.
        bad_loss: f64,
        /// Lost in the good state: 1 - k.
        good_loss: f64,
    },
    /// All frames for `length_ns`, at the end of each `every_ns`, from the link's beginning on.
    Burst {
        /// How long.
        length_ns: u64,
        /// How often; longer than `length_ns`.
        every_ns: u64,
    },
    /// Each frame whose number, from 1, is a multiple: at least 1.
    Every(u64),
    /// The frames with these numbers, from 1, rising.
    Frames(Vec<u64>),
    /// One TCP segment of each connection's direction, and segments that carry its first byte
    /// again.
    Segment {
        /// Which one.
        place: Place,
        /// How many times, at least 1.
        times: u64,
    },
}

/// Which segment of a connection's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// By its number, from 1, among the segments with new data.
    Segment(u64),
    /// The first one that carries the byte with this offset, from 0 at the beginning of the stream,
    /// or at the first byte that was seen.
    Byte(u32),
}

/// How long frames are held.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delay {
    /// The constant part; with one-sided jitter the minimum. At most [`DELAY_MAX_NS`], as all of
    /// these.
    pub base_ns: u64,
    /// The random part.
    pub jitter: Jitter,
    /// The source of its draws.
    pub draws: Draws,
    /// Whether frames keep their order.
    pub order: Order,
}

impl Delay {
    /// Memory of what draws such delays: a value and a count for each entry.
    pub fn memory_bytes(&self) -> usize {
        let table = self.jitter.table();
        let entries = table.map_or(TABLE_LEN, |(_, table)| table.values().len());
        entries * (size_of::<i64>() + size_of::<u64>())
    }

    /// How draws depend on the previous ones.
    pub(crate) fn correlation(&self) -> Correlation {
        match self.order {
            Order::Correlated { half_life_ns } => Correlation::HalfLife(half_life_ns),
            Order::Fifo | Order::Reorder => match self.draws {
                Draws::Seeded { correlation } => correlation,
                Draws::Prbs31 { .. } => Correlation::None,
            },
        }
    }
}

/// The random part of a delay.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// netem's, to both sides: for [`Distribution::Uniform`] at most `jitter_ns` away, for a table
    /// that is one standard deviation. A sum below 0 counts as 0.
    Around {
        /// Its size.
        jitter_ns: u64,
        /// Its shape.
        distribution: Distribution,
    },
    /// To one side: from 0 up to, not including, `jitter_ns`; a table's eight deviations fill that.
    Above {
        /// Its size.
        jitter_ns: u64,
        /// Its shape.
        distribution: Distribution,
    },
    /// The original hardware's, to one side: the table's 16 bits, or the 12 of the index, shifted
    /// to be `shift` bits of cycles.
    Shifted {
        /// At most 32.
        shift: u32,
        /// A cycle; the original's is 5 ns.
        cycle_ns: u64,
        /// Its shape.
        distribution: Distribution,
    },
    /// Times of a table in nanoseconds, multiplied.
    Measured {
        /// The name of the table.
        name: String,
        /// The times.
        table: Table,
        /// The factor.
        times: f64,
    },
}

impl Jitter {
    /// The table that it is drawn from, if there is one, and its name.
    pub fn table(&self) -> Option<(&str, &Table)> {
        match self {
            Self::Measured { name, table, .. } => Some((name, table)),
            Self::Around { distribution, .. }
            | Self::Above { distribution, .. }
            | Self::Shifted { distribution, .. } => match distribution {
                Distribution::Table { name, table } => Some((name, table)),
                Distribution::Uniform => None,
            },
            Self::None => None,
        }
    }
}

/// The shape of jitter.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Distribution {
    /// All values are equally likely.
    #[default]
    Uniform,
    /// A table's.
    Table {
        /// Its name.
        name: String,
        /// Its entries.
        table: Table,
    },
}

impl Distribution {
    /// A table and its name.
    pub fn named(name: &str, table: Table) -> Self {
        Self::Table {
            name: name.to_owned(),
            table,
        }
    }
}

/// The source of the draws of a delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Draws {
    /// The stream of the link's seed.
    Seeded {
        /// Between one draw and the next.
        correlation: Correlation,
    },
    /// The original hardware's sequence, for a table of 2^n entries.
    Prbs31 {
        /// The 31 bits that it begins with; 1 after a reset.
        state: u32,
    },
}

impl Default for Draws {
    fn default() -> Self {
        Self::Seeded {
            correlation: Correlation::None,
        }
    }
}

/// In which order frames leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// In the order in which they entered, as the original hardware: a frame with a short delay
    /// waits for earlier ones.
    #[default]
    Fifo,
    /// As they are due, as with netem.
    Reorder,
    /// In the order in which they entered, with draws that resemble those shortly before, so that
    /// few frames have to wait.
    Correlated {
        /// After this time a draw resembles the earlier one by half; at least 1 ns.
        half_life_ns: u64,
    },
}

/// A bucket that fills at a rate. A frame leaves when it holds the frame's bytes: with a burst of 0
/// thus after the time that a wire of that rate takes for the frame, with a burst of a frame and
/// more at once if nothing came before.
///
/// In any window no more leaves than rate x time + the greater of burst and longest frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Bits a second, at least 1.
    pub bits_per_second: u64,
    /// What the bucket holds while nothing leaves.
    pub burst_bytes: u64,
    /// Bytes added to each frame's, such as [`ETHERNET_OVERHEAD`].
    pub overhead_bytes: u32,
    /// Whether a frame that is due before its bytes have been earned waits in the delay queue, with
    /// all after it, or is dropped.
    pub excess: Excess,
}

/// What happens to a frame that is due before the bucket holds its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Excess {
    /// It waits.
    #[default]
    Wait,
    /// It is dropped.
    Drop,
}

/// Bytes that Ethernet adds to a frame without its check sequence: preamble and delimiter 8, check
/// sequence 4, gap 12 (IEEE 802.3).
pub const ETHERNET_OVERHEAD: u32 = 24;

/// How much a link holds at once; a frame beyond that is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// With a rate: what is under way at the largest delay, and a queue of twice that, at least 64
    /// KiB. Without a rate, memory alone.
    #[default]
    Derived,
    /// So many frames.
    Frames(u64),
    /// So many bytes of frames.
    Bytes(u64),
}

impl State {
    /// Whether the carrier goes at some time.
    pub fn takes_carrier(self) -> bool {
        match self {
            Self::Up => false,
            Self::Down { carrier } | Self::Flapping { carrier, .. } => carrier == Carrier::Goes,
        }
    }

    /// Whether the ends have a carrier at `since_ns` from the link's beginning.
    pub fn has_carrier(self, since_ns: Nanoseconds) -> bool {
        !self.takes_carrier() || self.is_up(since_ns)
    }

    /// Whether frames enter at `since_ns` from the link's beginning.
    pub(crate) fn is_up(self, since_ns: Nanoseconds) -> bool {
        match self {
            Self::Up => true,
            Self::Down { .. } => false,
            Self::Flapping { up_ns, down_ns, .. } => {
                (since_ns.max(0) as u64) % (up_ns + down_ns).max(1) < up_ns
            }
        }
    }
}
