//! A path: two sides, and a link in each direction between them.
//!
//! ```text
//!  inside ──on_burst(Outbound)──► Link ──► out[Outbound] ──► outside
//!         ◄── out[Inbound] ◄────── Link ◄──on_burst(Inbound)──
//! ```
//!
//! * [`Path`] is the core of a polling loop: it is given bursts and the time, and says what leaves when.
//!   It knows neither ports nor clocks.
//! * [`Virtual`] drives it by the stamps of captured frames, exact to the nanosecond; which side a frame comes from
//!   is told by [`Sides`].
//! * [`Bump`] puts it between two ports, in a polling loop that keeps its instants.
//! * A [`Tap`] gives copies of what leaves to a capture in another thread.
//! * A [`Certificate`] says what was asked, drawn and realised, and whether the result holds.
#![forbid(unsafe_code)]

mod bump;
mod certificate;
mod changes;
mod kinds;
mod path;
mod sides;
mod tap;
mod virtually;

pub use bump::{Bump, BumpFacts, Calibration, Wait};
pub use certificate::{Certificate, Delays, DirectionReport, MatchReport, SettingsWords, VIRTUAL};
pub use changes::ChangeReport;
pub use kinds::EXPRESSIONS_MAX;
pub use path::{Departures, Direction, Leaving, NoMemory, Path};
pub use sides::{Inside, InsideError, Sides};
pub use tap::{Tap, TapFacts, TapPort, tap};
pub use virtually::Virtual;
