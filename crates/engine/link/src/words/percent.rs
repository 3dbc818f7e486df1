//! Shares, as the words of a link have them.

use std::fmt;

/// A share in percent, as few digits as say it.
pub(crate) struct Percent(pub(crate) f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Twelve decimals hide what the division by 100 changed; the number's own form has no
        // trailing zeros.
        let percent = (self.0 * 100.0 * 1e12).round() / 1e12;
        write!(f, "{percent}%")
    }
}
