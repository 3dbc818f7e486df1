//! The sections of a report: each file puts one kind of what a trace holds into blocks.

pub(crate) mod capture;
pub(crate) mod forwarder;
pub(crate) mod forwarder_summary;
pub(crate) mod link;
pub(crate) mod link_summary;
pub(crate) mod load;
pub(crate) mod load_pictures;
pub(crate) mod load_summary;
pub(crate) mod monitors;
pub(crate) mod points;
pub(crate) mod replay;
mod switch;
pub(crate) mod two_taps;
pub(crate) mod usage;
