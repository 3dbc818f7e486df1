//! The client before a real server.

mod wall;
