//! The engine between simulated clients and nodes.
mod bench;
mod forward;
