//! A link as requested: the words of its settings, and the settings that they resolve to.

use std::collections::BTreeMap;

use anyhow::Context;
use lineside_account::Budget;
use lineside_link::{Patch, Setting, Settings, words};
use lineside_path::{EXPRESSIONS_MAX, Patches, Path, Switch};

use super::files::Files;
use super::keys::LinkWords;
use super::ways::Ways;
use super::words::{NONE, Words, filters, refused, trace_name};
use crate::config::ConfigError;

/// A link as requested: the words of its settings, and the settings that they resolve to.
#[derive(Debug, Clone)]
pub(crate) struct LinkSpec {
    ways: Ways,
    words: LinkWords,
    /// The text of each file that they name: once privileges are dropped it cannot be read again.
    files: BTreeMap<String, String>,
    /// The expressions that classify frames, by the number of the way.
    expressions: Vec<Vec<String>>,
    /// By way, and by the set of its expressions that a frame matches, a bit each.
    pub(crate) settings: Vec<Vec<Settings>>,
}

impl LinkSpec {
    /// Reads words for these ways, and the files that they name. The frames that `later` words tell
    /// apart can be told apart from the beginning on.
    pub(crate) fn read(
        words: &LinkWords,
        ways: Ways,
        later: &[&LinkWords],
    ) -> Result<Self, ConfigError> {
        words.refuse_doubles(&ways)?;
        let expressions = (0..ways.count()).map(|way| words.expressions(&ways, way, later));
        let expressions = expressions.collect::<Result<_, _>>()?;
        Self::of(ways, words.clone(), Files::default(), expressions)
    }

    /// The expressions of `given` that are new, one each with the number of its way.
    pub(crate) fn new_expressions(
        &self,
        given: &LinkWords,
    ) -> Result<Vec<(usize, String)>, ConfigError> {
        let mut new = Vec::new();
        for (way, known) in self.expressions.iter().enumerate() {
            let here = given.expressions(&self.ways, way, &[])?;
            let here = here.into_iter().filter(|each| !known.contains(each));
            let before = new.len();
            new.extend(here.map(|expression| (way, expression)));
            if known.len() + new.len() - before > EXPRESSIONS_MAX {
                return Err(ConfigError::usage(&format!(
                    "match: the run has {} expressions for one direction, and can have \
                    {EXPRESSIONS_MAX}: {}",
                    known.len(),
                    known.join("; ")
                )));
            }
        }
        Ok(new)
    }

    /// This link, with another expression of a way.
    pub(crate) fn with_expression(&self, way: usize, new: &str) -> Result<Self, ConfigError> {
        let mut expressions = self.expressions.clone();
        expressions[way].push(new.to_owned());
        let files = Files::of(self.files.clone());
        Self::of(self.ways.clone(), self.words.clone(), files, expressions)
    }

    /// These words, with those of `given` in place of those for the same frames; `files` are those
    /// that `given` names.
    pub(crate) fn changed(
        &self,
        given: &LinkWords,
        files: BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        given.refuse_doubles(&self.ways)?;
        for (way, known) in self.expressions.iter().enumerate() {
            for expression in given.expressions(&self.ways, way, &[])? {
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
        let words = self.words.changed(&self.ways, given)?;
        let mut known = self.files.clone();
        known.extend(files);
        let (ways, expressions) = (self.ways.clone(), self.expressions.clone());
        Self::of(ways, words, Files::of(known), expressions)
    }

    /// The settings that `given` changes, by side and class; `files` are those that it names.
    pub(crate) fn patches(
        &self,
        given: &LinkWords,
        files: BTreeMap<String, String>,
    ) -> Result<Patches, ConfigError> {
        let changed = self.changed(given, files)?;
        let ways = changed.settings.iter().enumerate();
        let patches = ways.map(|(way, classes)| {
            let classes = classes.iter().enumerate();
            let classes = classes.map(|(set, settings)| {
                let matched = self.matched(way, set);
                let all = Setting::ALL.into_iter().map(|setting| {
                    let is_given = changed
                        .words
                        .is_given(&self.ways, setting, given, way, &matched);
                    Ok(is_given?.then_some(setting))
                });
                let all = all.collect::<Result<Vec<_>, ConfigError>>()?;
                Ok(Patch::new(all.into_iter().flatten(), settings.clone()))
            });
            classes.collect::<Result<Vec<_>, ConfigError>>()
        });
        let patches = patches.map(|classes| {
            let classes = classes?;
            let is_some = |patch: &Patch| !patch.is_empty();
            Ok(classes.iter().any(is_some).then_some(classes))
        });
        patches.collect()
    }

    /// The expressions of a set of them.
    fn matched(&self, way: usize, set: usize) -> Vec<&str> {
        matched(&self.expressions[way], set)
    }

    fn of(
        ways: Ways,
        words: LinkWords,
        mut files: Files,
        expressions: Vec<Vec<String>>,
    ) -> Result<Self, ConfigError> {
        let mut settings = Vec::new();
        for (way, expressions) in expressions.iter().enumerate() {
            let mut of_way = Vec::new();
            for set in 0..1 << expressions.len() {
                let matched = matched(expressions, set);
                of_way.push(words.settings(&ways, way, &matched, &mut files)?);
            }
            settings.push(of_way);
        }
        Ok(Self {
            ways,
            words,
            files: files.into_used(),
            expressions,
            settings,
        })
    }

    /// The requested path, with half of the budget for frames under way.
    pub(crate) fn path(&self, seed: u64, budget: &Budget) -> anyhow::Result<Path> {
        const NO_MEMORY: &str = "half of the budget is left for the path";
        let settings: Vec<_> = { self.settings.iter() }
            .map(|settings| settings[0].clone())
            .collect();
        let memory_bytes = budget.limit_bytes() / 2;
        let mut path = match self.ways.switch_ports() {
            None => {
                let [out, back] = settings.try_into().expect("a link has two ways");
                Path::new([out, back], seed, memory_bytes, budget).context(NO_MEMORY)?
            }
            Some(ports) => {
                let (age_ns, addresses_max) = (Switch::AGE_NS, Switch::ADDRESSES_MAX);
                let switch = Switch::new(ports.len(), age_ns, addresses_max, budget);
                let switch = switch.ok_or_else(|| {
                    ConfigError::usage("memory: too little for a switch: give more with --memory")
                })?;
                let (switch, ports) = (Box::new(switch), ports.to_vec());
                let path = Path::star(switch, ports, settings, seed, memory_bytes, budget);
                path.context(NO_MEMORY)?
            }
        };
        let sides: Vec<_> = path.sides().collect();
        for (side, (expressions, settings)) in sides
            .into_iter()
            .zip(self.expressions.iter().zip(&self.settings))
        {
            path.classify(side, filters(expressions)?, |set| settings[set].clone())
                .map_err(|error| ConfigError::usage(&format!("match: {error}")))?;
        }
        Ok(path)
    }
}

/// Those of the expressions that are in a set, a bit each.
fn matched(expressions: &[String], set: usize) -> Vec<&str> {
    let matched = expressions.iter().enumerate();
    let matched = matched.filter(|(bit, _)| set >> bit & 1 == 1);
    matched.map(|(_, each)| each.as_str()).collect()
}

/// The text of each file that words name.
pub(crate) fn files(words: &LinkWords) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut files = Files::default();
    let mut load = |name: &str| files.table(name);
    for text in words.delay.iter().flatten() {
        refused(words::delay(Words::setting(text)?, &mut load))?;
    }
    for text in words.rate.iter().flatten() {
        if let Some(name) = trace_name(Words::setting(text)?) {
            files.deliveries(name)?;
        }
    }
    for text in words.path.iter().flatten() {
        let name = Words::setting(text)?.trim();
        if name != NONE {
            files.path(name)?;
        }
    }
    Ok(files.into_used())
}
