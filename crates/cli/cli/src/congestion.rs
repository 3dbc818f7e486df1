//! The words of `--congestion`.

use lineside_tcp::congestion::{Congestion, Cubic, NewReno};
use lineside_words::nearest;

use crate::config::ConfigError;

/// All of them, the default first.
pub(crate) const CONGESTION: [&str; 2] = ["cubic", "reno"];

/// The strategy that a word names.
pub(crate) fn congestion(word: &str) -> Result<&'static dyn Congestion, ConfigError> {
    match word {
        "cubic" => Ok(&Cubic),
        "reno" => Ok(&NewReno),
        other => Err(ConfigError::new(format!(
            "congestion: '{other}' is unknown; the nearest known one is {}",
            nearest(other, CONGESTION)
        ))),
    }
}
