//! Our store against the real one.

mod wall;
