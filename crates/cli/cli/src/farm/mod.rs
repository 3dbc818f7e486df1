//! A forwarder as its verb, `ctl` and `explain` know it: the keys of `[forward]`, the words of
//! services, what is asked of one that runs, and its counts in lines.

mod keys;
mod payloads;
mod print;
mod request;
mod settings;
mod words;

pub(crate) use keys::Section;
pub(crate) use payloads::PAYLOAD_MODES;
pub(crate) use print::{check_lines, lines};
pub(crate) use request::{ForwardDone, ForwardRequest, Known, reload_of};
pub(crate) use settings::Prepared;
