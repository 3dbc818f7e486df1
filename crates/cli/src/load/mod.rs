//! `lineside load`: requests to a server at instants that a model gives, and servers that answer
//! them.

mod agent;
mod assertions;
mod behind;
mod confine;
mod flags;
mod hdr;
mod hosts;
mod limits;
mod making;
mod other_end;
mod pace;
mod presets;
mod print;
mod progress;
mod recording;
mod run;
mod search;
mod serve;
mod settings;
mod stack;
mod tap;
mod target;

pub(crate) use flags::Arguments;
pub(crate) use flags::Section;
pub(crate) use run::run;
