//! A path: numbered ports, a chain of elements for the frames of each, and a core in the middle.
//!
//! ```text
//!            on_burst             elements              departures, drops
//!  side 0 ──────────► [classifier ─► link] ─► [...] ──┬──► out[0], leaves at side 1
//!  side 1 ──────────► [link] ─► [...] ────────────────┼──► out[1], leaves at side 0
//!                                                     └──► observers: a monitor
//! ```
//!
//! Between more than two ports the core says where each frame goes on, and it passes a second chain
//! on its way out:
//!
//! ```text
//!  port i ─► [chain in] ─► Core: Switch ─► [chain out] ─► out[ports + k], leaves at port k
//! ```
//!
//! * [`Path`] takes bursts and the time, and returns what leaves when. It knows neither live ports
//!   nor clocks.
//! * A [`Core`] is the middle: a [`Wire`] between two ports, a [`Switch`] between more.
//! * An [`Element`] is a part of a chain: a link, a [`Classifier`] with the links of its classes.
//!   An [`Observer`] sees each departure and each drop.
//! * A [`Step`] changes settings at an instant, or when a frame matches.
//! * [`Virtual`] drives a path by the stamps of captured frames, exact to the nanosecond; a
//!   [`DirectionFinder`] finds the side at which each frame enters.
//! * [`LivePath`] puts a path between live ports, as the engine of the polling loop of
//!   `lineside-reactor`, which keeps its instants.
//! * [`emulate`] runs such a loop to its end: between interfaces or between two commands.
//! * [`explain`] accounts for a frame's delay.
//! * [`settings`] reads the words of a link's settings and of steps.
//! * A [`Certificate`] reports what was asked for, drawn and realised, and whether the result is
//!   valid.
#![forbid(unsafe_code)]

mod account;
mod certificate;
mod chain;
mod changes;
mod classify;
mod delays;
mod direction_finder;
mod element;
pub mod emulate;
pub mod explain;
mod forwarder;
mod live;
mod marks;
mod middle;
mod monitors;
mod observe;
mod path;
pub mod settings;
mod settings_words;
mod side;
mod star;
mod steps;
mod switch;
mod virtual_time;

pub use certificate::{Certificate, VIRTUAL};
pub use classify::{Classifier, EXPRESSIONS_MAX};
pub use direction_finder::{DirectionFinder, Inside, InsideError};
pub use element::{Element, LinkReport};
pub use forwarder::Forwarder;
pub(crate) use live::tap_facts;
pub use live::{LiveDeparture, LiveLoop, LivePath, below_floor, live_certificate, loop_facts};
pub use marks::MarkError;
pub use monitors::PathMonitors;
pub use observe::Observer;
pub use path::{NoMemory, Path};
pub use side::{Departures, Direction, Leaving, SideId};
pub use star::{Core, CoreDrop, PORTS_MAX, Ports, Wire};
pub use steps::{Action, Patches, STEPS_MAX, Step, StepError, When};
pub use switch::Switch;
pub use virtual_time::Virtual;
