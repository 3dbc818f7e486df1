//! Capture files of every kind, whole and broken, read, merged and written.

mod faults;
mod formats;
mod many;
mod merge;
mod rings;
mod support;
mod wall;
mod writer;
