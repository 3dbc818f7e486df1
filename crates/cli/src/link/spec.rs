//! A link as requested: the words of its settings, and the settings that they resolve to.

use std::collections::BTreeMap;

use anyhow::Context;
use lineside_account::Budget;
use lineside_link::{Settings, words};
use lineside_path::{Direction, Path};

use super::files::Files;
use super::keys::LinkWords;
use super::words::{NONE, Words, filters, refused, trace_name};
use crate::config::ConfigError;

/// A link as requested: the words of its settings, and the settings that they resolve to.
#[derive(Debug, Clone)]
pub(crate) struct LinkSpec {
    words: LinkWords,
    /// The text of each file that they name: once privileges are dropped it cannot be read again.
    files: BTreeMap<String, String>,
    /// The expressions that classify frames, by [`Direction`].
    expressions: [Vec<String>; 2],
    /// By direction, and by the set of its expressions that a frame matches, a bit each.
    pub(crate) settings: [Vec<Settings>; 2],
}

impl LinkSpec {
    /// Reads words, and the files that they name.
    pub(crate) fn read(words: &LinkWords) -> Result<Self, ConfigError> {
        words.refuse_doubles()?;
        let [outbound, inbound] = Direction::BOTH.map(|direction| words.expressions(direction));
        Self::of(words.clone(), Files::default(), [outbound?, inbound?])
    }

    /// These words, with those of `given` in place of those for the same frames; `files` are those
    /// that `given` names.
    pub(crate) fn changed(
        &self,
        given: &LinkWords,
        files: BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        given.refuse_doubles()?;
        for direction in Direction::BOTH {
            let known = &self.expressions[direction as usize];
            for expression in given.expressions(direction)? {
                if !known.contains(&expression) {
                    return Err(ConfigError::usage(&format!(
                        "match {expression}: the expressions are those that the run was begun \
                        with: {}",
                        if known.is_empty() {
                            "none".to_owned()
                        } else {
                            known.join("; ")
                        }
                    )));
                }
            }
        }
        let words = self.words.changed(given)?;
        let mut known = self.files.clone();
        known.extend(files);
        Self::of(words, Files::of(known), self.expressions.clone())
    }

    fn of(
        words: LinkWords,
        mut files: Files,
        expressions: [Vec<String>; 2],
    ) -> Result<Self, ConfigError> {
        let mut settings = [Vec::new(), Vec::new()];
        for direction in Direction::BOTH {
            let expressions = &expressions[direction as usize];
            for set in 0..1 << expressions.len() {
                let matched = expressions.iter().enumerate();
                let matched = matched.filter(|(bit, _)| set >> bit & 1 == 1);
                let matched: Vec<_> = matched.map(|(_, each)| each.as_str()).collect();
                let of_set = words.settings(direction, &matched, &mut files)?;
                settings[direction as usize].push(of_set);
            }
        }
        Ok(Self {
            words,
            files: files.into_used(),
            expressions,
            settings,
        })
    }

    /// The requested path, with half of the budget for frames under way.
    pub(crate) fn path(&self, seed: u64, budget: &Budget) -> anyhow::Result<Path> {
        let settings = { &self.settings }
            .each_ref()
            .map(|settings| settings[0].clone());
        let path = Path::new(settings, seed, budget.limit_bytes() / 2, budget);
        let mut path = path.context("half of the budget is left for the path")?;
        for direction in Direction::BOTH {
            let filters = filters(&self.expressions[direction as usize])?;
            let settings = &self.settings[direction as usize];
            path.classify(direction, filters, |set| settings[set].clone())
                .map_err(|error| ConfigError::usage(&format!("match: {error}")))?;
        }
        Ok(path)
    }
}

/// The text of each file that words name.
pub(crate) fn files(words: &LinkWords) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut files = Files::default();
    let mut load = |name: &str| files.table(name);
    for text in words.delay.iter().flatten() {
        refused(words::delay(Words::read(text)?.words, &mut load))?;
    }
    for text in words.rate.iter().flatten() {
        if let Some(name) = trace_name(Words::read(text)?.words) {
            files.deliveries(name)?;
        }
    }
    for text in words.path.iter().flatten() {
        let name = Words::read(text)?.words.trim();
        if name != NONE {
            files.path(name)?;
        }
    }
    Ok(files.into_used())
}
