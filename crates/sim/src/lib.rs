//! TCP endpoints and the links between them in virtual time: a run is a function of its seed.
//!
//! ```text
//!  host 0: stack, talks ──► link ──► tap ──► host 1: stack, talks
//!                       ◄── link ◄── tap ◄──
//! ```
//!
//! * Every byte that arrives is compared with what was to be sent there; every byte that is asked
//!   for must have been ready and not acknowledged.
//! * The tap at host 1 gives all it sees to `lineside-flow`, which must deliver the same bytes and
//!   find none lost.
//! * No window that a host offers ends before one that it offered earlier.
//! * In the end nothing is left: no connection, no record, no memory.
//!
//! [`Scenario::draw`] makes a scenario of a seed, [`run`] runs it; what is wrong comes back as a
//! text that begins with the seed.
#![forbid(unsafe_code)]

mod edges;
mod host;
mod scenario;
mod tap;
mod world;

pub use scenario::{Scenario, Side};
pub use world::{Outcome, run};

/// The byte at an offset of a stream, which is known by the client's port and by who sends it: no
/// two streams have the same bytes, nor has one at two places that are near.
pub fn content(client_port: u16, from_client: bool, offset: u64) -> u8 {
    let stream = u64::from(client_port) << 1 | u64::from(from_client);
    let mixed = (offset / 8 + (stream << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed.to_le_bytes()[(offset % 8) as usize]
}

/// Whether `bytes` stand at an offset of a stream; the first place where they do not.
pub(crate) fn differs(port: u16, from_client: bool, offset: u64, bytes: &[u8]) -> Option<u64> {
    let expected = (offset..).map(|at| content(port, from_client, at));
    let place = bytes
        .iter()
        .zip(expected)
        .position(|(byte, expected)| *byte != expected)?;
    Some(offset + place as u64)
}
