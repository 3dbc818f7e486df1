use std::fmt;

use lineside_words::nearest;

/// An error in the configuration, and how to mend it.
#[derive(Debug)]
pub struct ConfigError(String);

impl ConfigError {
    /// With this text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// A command line without a task, or with contradicting ones.
    pub fn usage(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// The meaning of a word of a key.
pub fn of_word<T: Copy>(key: &str, word: &str, words: &[(&str, T)]) -> Result<T, ConfigError> {
    let known = words.iter().find(|(known, _)| *known == word);
    known.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let nearest = nearest(word, words.iter().map(|(known, _)| *known));
        ConfigError::new(format!(
            "{key}: '{word}' is unknown; the nearest known one is {nearest}"
        ))
    })
}
