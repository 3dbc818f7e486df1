//! What a link is asked to do.

use lineside_time::Nanoseconds;

use crate::deliveries::Deliveries;
use crate::path_file::PathFile;
use crate::table::Table;

/// No delay is longer: a day. Longer ones are cut.
pub const DELAY_MAX_NS: u64 = 86_400_000_000_000;

/// All settings of one direction of a link. The default is a wire: nothing is added and nothing lost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Whether frames enter at all.
    pub state: State,
    /// Which of those that enter are lost.
    pub loss: Loss,
    /// Which of those that are left come twice.
    pub duplicate: Chance,
    /// In which of those one bit is turned.
    pub corrupt: Chance,
    /// Which of those pass the delay at once, as netem's `reorder` does.
    pub reorder: Chance,
    /// How long each is held.
    pub delay: Delay,
    /// How fast they leave; `None`: as soon as they are due.
    pub rate: Option<RateLimit>,
    /// How much is held.
    pub limit: Limit,
    /// What changes in time, in place of what of the above it gives.
    pub schedule: Option<Schedule>,
}

/// What changes in time, from the link's beginning on.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// Delay, loss and rate as they were measured.
    Path(PathFile),
    /// Instants at which so many bytes leave, in place of a rate.
    Deliveries(Deliveries),
}

/// Whether a link takes frames. Those that it holds leave in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// It does.
    #[default]
    Up,
    /// It does not.
    Down,
    /// In turn, from the link's beginning on.
    Flapping {
        /// So long it does, at least 1 ns.
        up_ns: u64,
        /// Then so long it does not, at least 1 ns.
        down_ns: u64,
    },
}

/// Something that happens to a share of the frames.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Chance {
    /// From 0 to 1.
    pub share: f64,
    /// From one frame to the next.
    pub correlation: Correlation,
}

/// How a draw depends on the one before. The distribution is the same in any case, which netem's correlation does not manage.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Correlation {
    /// Not at all.
    #[default]
    None,
    /// The correlation of the normal deviates behind the draws: above 0, below 1.
    Share(f64),
    /// The same, after the given time a half, after twice that a quarter. Nanoseconds, at least 1.
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
    /// Gilbert and Elliott's model as netem has it: before each frame the state may change, but the frame is
    /// lost by the state before.
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
    /// One TCP segment of each connection's direction, and whatever carries its first byte again.
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
    /// That with this number, from 1, of those that carry data not seen before.
    Segment(u64),
    /// That in which the byte with this offset comes first, from 0; where the beginning was not seen, from what was seen first.
    Byte(u32),
}

/// How long frames are held.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delay {
    /// What is not random; with jitter on one side of it, the least. At most [`DELAY_MAX_NS`], as all of these.
    pub base_ns: u64,
    /// What is.
    pub jitter: Jitter,
    /// Where its draws come from.
    pub draws: Draws,
    /// What becomes of the order.
    pub order: Order,
}

impl Delay {
    /// How draws depend on those before.
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
    /// netem's, to both sides: for [`Distribution::Uniform`] at most `jitter_ns` away, for a table that is one
    /// standard deviation. A sum below 0 counts as 0.
    Around {
        /// How much.
        jitter_ns: u64,
        /// Of which shape.
        distribution: Distribution,
    },
    /// To one side: from 0 up to, not including, `jitter_ns`; a table's eight deviations fill that.
    Above {
        /// How much.
        jitter_ns: u64,
        /// Of which shape.
        distribution: Distribution,
    },
    /// The original hardware's, to one side: the table's 16 bits, or the 12 of the index, shifted to be `shift` bits of cycles.
    Shifted {
        /// At most 32.
        shift: u32,
        /// A cycle; the original's is 5 ns.
        cycle_ns: u64,
        /// Of which shape.
        distribution: Distribution,
    },
    /// Times of a table in nanoseconds, multiplied.
    Measured {
        /// What the table is called.
        name: String,
        /// The times.
        table: Table,
        /// The factor.
        times: f64,
    },
}

/// The shape of jitter.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Distribution {
    /// All values alike.
    #[default]
    Uniform,
    /// A table's.
    Table {
        /// What it is called.
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

/// Where the draws of a delay come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Draws {
    /// The stream of the link's seed.
    Seeded {
        /// From one to the next.
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
    /// In the order in which they came, as the original's: one with a short delay waits for those before it.
    #[default]
    Fifo,
    /// As they are due, as netem's.
    Reorder,
    /// As they came, with draws that resemble those shortly before, so that few have to wait for another.
    Correlated {
        /// After so long a draw resembles the earlier one by half; at least 1 ns.
        half_life_ns: u64,
    },
}

/// A bucket that fills at a rate. A frame leaves when it holds the frame's bytes: with a burst of 0 thus after the time
/// that a wire of that rate takes for the frame, with a burst of a frame and more at once if nothing came before.
///
/// In any window no more leaves than rate x time + the greater of burst and longest frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Bits a second, at least 1.
    pub bits_per_second: u64,
    /// What the bucket holds while nothing leaves.
    pub burst_bytes: u64,
    /// Counted with each frame's bytes: [`ETHERNET_OVERHEAD`] is what a wire takes besides.
    pub overhead_bytes: u32,
    /// What becomes of a frame that is due while its bytes are not there: it waits in the delay queue, and all behind
    /// it too, or it is dropped.
    pub excess: Excess,
}

/// What becomes of a frame for which the bucket does not suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Excess {
    /// It waits.
    #[default]
    Wait,
    /// It is dropped.
    Drop,
}

/// Bytes that Ethernet adds to a frame without its check sequence: preamble and delimiter 8, check sequence 4, gap 12 (IEEE 802.3).
pub const ETHERNET_OVERHEAD: u32 = 24;

/// How much a link holds at once; what comes then is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// With a rate: what is under way at the largest delay, and as a queue once more twice that, at least 64 KiB. Without: what memory bears.
    #[default]
    Derived,
    /// So many frames.
    Frames(u64),
    /// So many bytes of frames.
    Bytes(u64),
}

impl State {
    /// Whether frames enter at `since_ns` from the link's beginning.
    pub(crate) fn is_up(self, since_ns: Nanoseconds) -> bool {
        match self {
            Self::Up => true,
            Self::Down => false,
            Self::Flapping { up_ns, down_ns } => {
                (since_ns.max(0) as u64) % (up_ns + down_ns).max(1) < up_ns
            }
        }
    }
}
