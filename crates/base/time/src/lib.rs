//! Instants, the virtual clock, clocks that may be set, pending instants in a [`Wheel`], and seeded
//! random streams.
//!
//! Engines never read a clock: they are given `now` (rule 1 of `ARCHITECTURE.md`). Live, `now`
//! comes from a [`Clock`] of `lineside-host`; from files and in tests it is a [`VirtualClock`], the
//! running maximum of the stamps seen.
#![forbid(unsafe_code)]

mod clock;
mod offset;
mod random;
mod wheel;

pub use clock::{Clock, Nanoseconds, VirtualClock};
pub use offset::{ClockOffset, OffsetReading, SteadyClock};
pub use random::Random;
pub use wheel::{TimerId, Wheel};
