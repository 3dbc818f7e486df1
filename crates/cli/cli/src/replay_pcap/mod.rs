//! `lineside replay-pcap`: a capture's frames onto an interface.

mod flags;
mod print;
mod run;
mod sender;

pub(crate) use flags::Arguments;
pub(crate) use run::run;
