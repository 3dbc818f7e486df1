//! The words of `--monitor`.

use lineside_measure::monitor::Words;

use crate::config::ConfigError;

/// What monitors are asked for. They need a run folder for their tables, and an expression that
/// Ethernet can match.
pub(crate) fn monitors(
    given: Option<&[String]>,
    has_folder: bool,
) -> Result<Vec<Words>, ConfigError> {
    let given = given.unwrap_or_default();
    if !given.is_empty() && !has_folder {
        return Err(ConfigError::usage(
            "--monitor writes tables: name the folder for them with -o",
        ));
    }
    let words = given.iter().map(|words| {
        let error = |why: &dyn std::fmt::Display| ConfigError::usage(&format!("monitor: {why}"));
        words.parse().map_err(|why| error(&why))
    });
    words.collect()
}
