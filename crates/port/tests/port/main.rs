//! Capture files of every kind, whole and broken, read, merged and written.

mod faults;
mod flow_traffic;
mod flows;
mod formats;
mod many;
mod merge;
mod rings;
mod shared;
mod steering;
mod support;
mod unfinished;
mod wire;
mod writer;
mod xdp;
