//! The passes over a trace: each reads its tables once, batch by batch, in bounded memory.

pub(crate) mod aggregate;
pub(crate) mod assertion;
pub(crate) mod course;
mod gauges;
pub(crate) mod image;
pub(crate) mod interval;
pub(crate) mod monitors;
pub(crate) mod plan;
pub(crate) mod rankings;
pub(crate) mod report;
pub(crate) mod script;
pub(crate) mod sizes;
pub(crate) mod slow;
pub(crate) mod usage;
