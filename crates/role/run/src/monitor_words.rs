//! The words of `--monitor`.

use lineside_measure::monitor::Words;

use crate::ConfigError;

/// The monitors that the user asks for. They need a run folder for their tables, where their words
/// distinguish the rows.
pub fn monitors(given: Option<&[String]>, has_folder: bool) -> Result<Vec<Words>, ConfigError> {
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
    let words: Vec<Words> = words.collect::<Result<_, _>>()?;
    let texts: Vec<_> = words.iter().map(ToString::to_string).collect();
    for (at, text) in texts.iter().enumerate() {
        if texts[..at].contains(text) {
            return Err(ConfigError::usage(&format!(
                "monitor: '{text}' is given twice, and would be counted twice: leave one out"
            )));
        }
    }
    Ok(words)
}
