//! Load balancing and address translation as an engine.
#![forbid(unsafe_code)]

pub mod splice;
