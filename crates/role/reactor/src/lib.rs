//! The polling loop of the roles that answer within microseconds.
//!
//! ```text
//!                 turn: stamps, receive, release, send, rest
//!  side 0 ─┐                                              ┌─ side 0
//!  side 1 ─┼─ queues ─► Burst ─► Engine ─► Sides ─► queues ─┼─ side 1
//!  side n ─┘             on_burst   on_timer               └─ side n
//! ```
//!
//! * A [`Reactor`] drives an [`Engine`] between live ports. It receives from and sends by every
//!   queue of each side; a side is a number, and what stands there is the engine's business.
//! * It measures itself: stalls, the time until a frame is found and until the driver has it.
//!   Releases begin earlier by a lead that a control loop around the kernel's stamps finds
//!   ([`LoopFacts`](lineside_trace::certificate::run::LoopFacts)).
//! * A port that fails ends the loop, unless enough other sides [remain](Reactor::outlive).
//! * A [`Tap`] gives copies of what leaves to a capture in another thread.
//! * Not here: what happens to frames between arrival and departure, clocks and threads. The caller
//!   gives the clock, and calls [`turn`](Reactor::turn) again and again.
#![forbid(unsafe_code)]

mod calibration;
mod facts;
mod lead;
mod reactor;
mod rest;
mod sides;
mod tap;

pub use facts::LoopCounts;
pub use reactor::{Reactor, Tapped};
pub use rest::Wait;
pub use sides::{Account, Engine, Sides};
pub use tap::{Tap, TapCounts, TapPoints, TapPort, tap, tap_input};
