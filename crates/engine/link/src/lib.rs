//! An emulated link: delay, jitter, rate, loss, duplication and corruption, exact to the nanosecond
//! in virtual time.
//!
//! A [`Link`] is one direction. It takes frames and the time, and returns which frames leave at
//! which instant:
//!
//! ```
//! use lineside_frame::{Descriptor, Frame};
//! use lineside_link::{Link, Settings, words};
//!
//! let delay = words::delay("100us", &mut words::no_files)?;
//! let settings = Settings { delay, ..Settings::default() };
//! let mut link = Link::new(settings, 7, 0, 1 << 20);
//! let mut out = Vec::new();
//! link.push(5_000, Frame::copied(b"a frame", Descriptor::default()), &mut out);
//! assert_eq!(link.next_deadline(), Some(105_000));
//! link.on_timer(105_000, &mut out);
//! assert_eq!(out[0].at_ns, 105_000);
//! # Ok::<(), lineside_words::WordError>(())
//! ```
//!
//! * The words are netem's, and so are its tables; where the original hardware (NRG, Networking
//!   '21) differs, its behaviour is available bit for bit: order kept, jitter to one side, its
//!   pseudo-random sequence.
//! * The same seed gives the same draws on each machine: each impairment has a stream of its own in
//!   each direction, and draws use only operations that IEEE 754 fixes.
//! * Each frame is accounted for once ([`LinkCounters::is_whole`]), also across changes of
//!   settings.
//! * Frames under way are bounded twice: by the user's [`Limit`], and by memory. A frame beyond
//!   either is dropped, with that [`DropReason`].
//! * Frames of several [classes](Link::add_classes) may meet different impairments; the caller
//!   classifies.
//!
//! Not here: sockets, clocks, two directions.
#![forbid(unsafe_code)]

mod bounds;
mod bucket;
mod class;
mod counters;
mod deliveries;
mod derived_limit;
mod draw;
mod effects;
pub mod format;
mod item;
mod link;
mod loss;
mod pace;
mod patch;
mod path_file;
mod queue;
mod settings;
mod table;
pub mod words;

pub use class::Class;
pub use counters::{DropReason, Drops, LinkCounters};
pub use deliveries::{DELIVERY_BYTES, Deliveries};
pub use effects::{Departure, Dropped, Effects, Output};
pub use item::{Item, Segment};
pub use link::{Link, Past};
pub use patch::{Patch, Setting, sets_of_two};
pub use path_file::{PathFile, PathStep};
pub use settings::{
    Carrier, Chance, Correlation, DELAY_MAX_NS, Delay, Distribution, Draws, ETHERNET_OVERHEAD,
    Excess, Jitter, Limit, Loss, Order, Place, RateLimit, Schedule, Settings, State,
};
pub use table::{DEVIATION, TABLE_LEN, TABLE_LEN_MAX, Table, TableError, Unit};
