//! TCP endpoints and the links between them in virtual time: a run is a function of its seed.
//!
//! ```text
//!  client 0: stack, its ends ──┐
//!  client 1: stack, its ends ──┼──► link ──► tap ──► server: stack, its ends
//!             …              ◄─┴─── link ◄── tap ◄──
//! ```
//!
//! All clients share the link to the server. A frame that leaves the link back goes to the client
//! that has its Ethernet address, and to all if it is a broadcast or multicast.
//!
//! * Every byte that arrives is compared with what was to be sent there; every byte that is asked
//!   for must have been ready and not acknowledged.
//! * The tap at the server gives all it sees to `lineside-flow`, which must deliver the same bytes
//!   and find none lost.
//! * No window that a host offers ends before one that it offered earlier.
//! * In the end nothing is left: no connection, no record, no memory.
//!
//! [`Scenario::draw`] makes a scenario of a seed, [`Scenario::day`] one of 24 hours, [`run`] runs
//! them; what is wrong comes back as a
//! text that begins with the seed.
#![forbid(unsafe_code)]

mod day;
mod edges;
mod host;
mod scenario;
mod tap;
mod world;

use std::net::IpAddr;

pub use scenario::{Change, Scenario, Side, Talk};
pub use world::{Outcome, run};

/// The address and port of a client: what names a connection, as the server has one port.
pub(crate) type ClientEnd = (IpAddr, u16);

/// The bytes of one direction of a connection: no two streams have the same ones, nor has one at
/// two places that are near.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content {
    /// A number of the stream, in the upper half of 64 bits.
    stream: u64,
}

impl Content {
    pub(crate) fn new((address, port): ClientEnd, from_client: bool) -> Self {
        // Clients differ in the last bits of their addresses.
        let last = match address {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => address.to_bits() as u32,
        };
        let stream = last << 17 | u32::from(port) << 1 | u32::from(from_client);
        Self {
            stream: u64::from(stream) << 32,
        }
    }

    /// The byte at an offset.
    pub(crate) fn byte(self, offset: u64) -> u8 {
        let mixed = (offset / 8 + self.stream).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed.to_le_bytes()[(offset % 8) as usize]
    }

    /// Whether `bytes` stand at an offset; the first place where they do not.
    pub(crate) fn differs(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let expected = (offset..).map(|at| self.byte(at));
        let place = bytes
            .iter()
            .zip(expected)
            .position(|(byte, expected)| *byte != expected)?;
        Some(offset + place as u64)
    }
}
