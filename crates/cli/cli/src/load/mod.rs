//! `lineside load`: requests to a server at instants that a model gives, and servers that answer
//! them. What makes the load is the crate `load`: here are flags, settings, and what is printed.

mod assertions;
mod flags;
mod keeping;
mod local_server;
mod progress;
mod protocol_keys;
mod run;
mod search;
mod serve;
mod settings;
mod stack;

pub(crate) use flags::Arguments;
pub(crate) use flags::Section;
pub(crate) use protocol_keys::protocol_headings;
pub(crate) use run::run;
