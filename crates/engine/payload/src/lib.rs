//! Payload caching (Yocum and Chase, USENIX 2001): a forwarder whose payloads stay on the adapter
//! while the host handles headers.
//!
//! [`Cache`] says which entry of the adapter's memory holds the payload of which host frame. It
//! keeps no bytes: a driver identifies frames by small numbers, and does what it answers.
//!
//! Not here: sockets, clocks, bytes.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod adapter;
mod cache;
pub mod figures;
pub mod patterns;
mod policy;

pub use adapter::{Adapter, AdapterCounters, Done, DropReason, Drops, Parameters};
pub use cache::{
    Advice, Bound, Cache, CacheCounters, EntryId, Evicted, FrameId, Queue, Residence, State,
};
pub use policy::{LEAST_BYTES, MODES, Mode, Policy, Way};
