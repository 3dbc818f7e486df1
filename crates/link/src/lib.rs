//! An emulated link: delay, jitter, rate, loss, duplication and corruption, exact to the nanosecond in virtual time.
//!
//! A [`Link`] is one direction. It is given frames and the time, and says which frames leave at which instant:
//!
//! ```
//! use lineside_frame::{Descriptor, Frame};
//! use lineside_link::{Link, Settings, words};
//!
//! let settings = Settings { delay: words::delay("100us", &mut words::no_files)?, ..Settings::default() };
//! let mut link = Link::new(settings, 7, 0, 1 << 20);
//! let mut out = Vec::new();
//! link.push(5_000, Frame::copied(b"a frame", Descriptor::default()), &mut out);
//! assert_eq!(link.next_deadline(), Some(105_000));
//! link.on_timer(105_000, &mut out);
//! assert_eq!(out[0].at_ns, 105_000);
//! # Ok::<(), words::WordError>(())
//! ```
//!
//! * The words are netem's, and so are its tables; what the original hardware (NRG, Networking '21) does otherwise
//!   can be had bit for bit: order kept, jitter to one side, its pseudo-random sequence.
//! * The same seed gives the same draws on each machine: each impairment has a stream of its own in each
//!   direction, and only operations that IEEE 754 fixes go into a draw.
//! * Each frame is accounted for once ([`LinkCounters::is_whole`]), also across changes of settings.
//! * What is held is bounded twice: by the user's [`Limit`], and by memory. What does not fit is
//!   dropped under that name.
//! * Frames of several [kinds](Link::add_kinds) may be treated differently; which kind a frame is of, the caller says.
//! * Not here: sockets, clocks, two directions.
#![forbid(unsafe_code)]

mod bucket;
mod deliveries;
mod draw;
pub mod format;
mod item;
mod link;
mod loss;
mod path_file;
mod queue;
mod settings;
mod table;
pub mod words;

pub use deliveries::{DELIVERY_BYTES, Deliveries};
pub use item::{Item, Segment};
pub use link::{Departure, Drops, Kind, Link, LinkCounters};
pub use path_file::{PathFile, PathStep};
pub use settings::{
    Chance, Correlation, DELAY_MAX_NS, Delay, Distribution, Draws, ETHERNET_OVERHEAD, Excess,
    Jitter, Limit, Loss, Order, Place, RateLimit, Schedule, Settings, State,
};
pub use table::{DEVIATION, TABLE_LEN, TABLE_LEN_MAX, Table, TableError, Unit};
