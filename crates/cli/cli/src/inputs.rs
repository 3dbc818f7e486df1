//! Inputs of all verbs: capture files as one port, and text about interfaces.

use std::path::PathBuf;

use lineside_account::Budget;
use lineside_port::{Facts, Merge, Method};
use lineside_reactor::Wait;
use lineside_run::{Opened, RunError, of_word};

use crate::config::ConfigError;
use crate::print::warn;

/// Opens files and folders as one port, and warns of files that are left out.
pub(crate) fn open(inputs: &[PathBuf], budget: &Budget) -> Result<Merge, RunError> {
    let Opened { port, left_out } = lineside_run::open(inputs, budget)?;
    for why in left_out {
        warn(&format!("left out: {why}"));
    }
    Ok(port)
}

/// The words of `--method`.
pub(crate) const METHODS: [(&str, Option<Method>); 4] = [
    ("auto", None),
    ("af_packet", Some(Method::AfPacket)),
    ("af_xdp", Some(Method::AfXdpNative)),
    ("af_xdp_generic", Some(Method::AfXdpGeneric)),
];

/// The word of `--method`.
pub(crate) fn method(word: &str) -> Result<Option<Method>, ConfigError> {
    of_word("method", word, &METHODS)
}

/// The word of `--wait`.
pub(crate) fn wait(word: &str) -> Result<Wait, ConfigError> {
    of_word("wait", word, &Wait::WORDS)
}

/// The interfaces that are captured from, with method and reason; empty if there are none.
pub(crate) fn listening_lines(inputs: &[&Facts]) -> String {
    inputs
        .iter()
        .filter_map(|facts| {
            let live = facts.live.as_ref()?;
            let Facts { name, .. } = facts;
            Some(format!(
                "lineside: listening at {name} by {}: {}\n",
                live.method, live.reason
            ))
        })
        .collect()
}
