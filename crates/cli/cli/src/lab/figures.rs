//! Figures of what a tap captured, in the words of assertions: `p99(READ)`.

use std::path::Path;

use lineside_analyze::{Assert, Filter, assert};

/// Reads the words of a figure.
pub(super) fn read(words: &str) -> Result<Assert, String> {
    let asked = Assert::figure(words).map_err(|error| error.to_string())?;
    match asked.is_of_two() {
        true => Err(format!("'{words}' is of two traces, and a run has one")),
        false => Ok(asked),
    }
}

/// The figure of the trace in a folder: times in seconds.
pub(super) fn of(folder: &Path, words: &str) -> Result<f64, String> {
    let asked = read(words)?;
    let unit = if asked.is_of_time() { 1e9 } else { 1.0 };
    let judged = assert(folder, &Filter::default(), &[asked]).map_err(|error| error.to_string())?;
    let judged = judged.first();
    let value = judged.and_then(|judged| judged.value);
    let what = judged.map(|judged| judged.what.clone()).unwrap_or_default();
    value.map(|value| value / unit).ok_or(what)
}
