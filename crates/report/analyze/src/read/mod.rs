//! From the files of a trace to typed columns, and which rows a filter chooses.

pub(crate) mod batch;
pub(crate) mod columns;
pub(crate) mod compound;
pub(crate) mod filter;
pub(crate) mod glob;
pub(crate) mod in_order;
pub(crate) mod lexica;
pub(crate) mod names;
pub(crate) mod parts_by_id;
pub(crate) mod places;
pub(crate) mod round_trips;
pub(crate) mod runs;
pub(crate) mod selection;
pub(crate) mod spans;
pub(crate) mod trace;
pub(crate) mod unfinished;
pub(crate) mod waits;
