//! A forwarder as its verb, `ctl` and `explain` know it: the keys of `[forward]`.

mod keys;
mod service_words;
mod settings;

pub(crate) use keys::{Section, reload_of};
pub(crate) use settings::Prepared;
pub use settings::forward_words;
