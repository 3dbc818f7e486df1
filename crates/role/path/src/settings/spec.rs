//! A link as requested: the words of its settings, read, and the settings that they resolve to.

use std::collections::BTreeMap;
use std::path::Path as Folder;

use lineside_account::Budget;
use lineside_link::words::LinkWords;
use lineside_link::{Delay, Patch, PathStep, Setting, Settings, sets_of_two, words};
use lineside_run::ConfigError;

use super::files::Files;
use super::ways::Ways;
use super::words::{
    Given, NONE, Value, Words, each, filters, find, merged, of, refuse_doubles, trace_name,
};
use crate::{EXPRESSIONS_MAX, Patches, Path, Switch, Wire};

/// A link as requested: the words of its settings, read, and the settings that they resolve to.
#[derive(Debug, Clone)]
pub struct LinkSpec {
    ways: Ways,
    given: Vec<Given>,
    /// Settings without words that the latest change removed, with the number of the way.
    removed: Vec<(usize, Setting)>,
    /// The expressions that classify frames, by the number of the way.
    expressions: Vec<Vec<String>>,
    /// The settings of a way: for all frames, and for those of each expression.
    lists: Vec<Vec<Patch>>,
}

/// Settings that an expression may have; the others are the link's.
const CLASSIFYING: [Setting; 5] = [
    Setting::Delay,
    Setting::Loss,
    Setting::Duplicate,
    Setting::Corrupt,
    Setting::Reorder,
];

/// The order in which values are read.
const READ: [Setting; 9] = [
    Setting::Delay,
    Setting::Rate,
    Setting::Loss,
    Setting::Limit,
    Setting::Link,
    Setting::Path,
    Setting::Duplicate,
    Setting::Corrupt,
    Setting::Reorder,
];

/// Words with their values; `can_go`: `none` removes a setting.
pub(super) fn given(
    words: &LinkWords,
    ways: &Ways,
    can_go: bool,
    files: &mut Files,
) -> Result<Vec<Given>, ConfigError> {
    let mut all = Vec::new();
    let read = each(words, ways)?;
    for setting in READ {
        for (_, text, words) in read.iter().filter(|(each, ..)| *each == setting) {
            all.push(Given {
                way: words.way,
                matching: words.expression.map(str::to_owned),
                setting,
                value: Value::read(setting, words.words, can_go, files)?,
                text: (*text).to_owned(),
                is_new: true,
            });
        }
    }
    Ok(all)
}

/// The expressions by which frames of each way are classified, in their order on the command line.
fn expressions(ways: &Ways, all: &[&LinkWords]) -> Result<Vec<Vec<String>>, ConfigError> {
    let mut expressions = vec![Vec::<String>::new(); ways.count()];
    for words in all {
        let read = each(words, ways)?;
        for setting in CLASSIFYING {
            for (_, _, words) in read.iter().filter(|(each, ..)| *each == setting) {
                let Some(expression) = words.expression else {
                    continue;
                };
                for (way, known) in expressions.iter_mut().enumerate() {
                    let is_here =
                        { words.way }.map_or_else(|| ways.is_general(way), |given| given == way);
                    if is_here && !known.iter().any(|known| known == expression) {
                        known.push(expression.to_owned());
                    }
                }
            }
        }
        let mut others = read.iter().filter(|(each, ..)| !CLASSIFYING.contains(each));
        if let Some((_, text, _)) = others.find(|(.., words)| words.expression.is_some()) {
            return Err(ConfigError::usage(&format!(
                "'{text}': match works with delay, loss, duplicate, corrupt and reorder; the other \
                settings apply to all frames of the link"
            )));
        }
    }
    if expressions
        .iter()
        .any(|known| known.len() > EXPRESSIONS_MAX)
    {
        return Err(ConfigError::usage(&format!(
            "match: more than {EXPRESSIONS_MAX} different expressions for one direction"
        )));
    }
    Ok(expressions)
}

impl LinkSpec {
    /// Reads words for these ways, and the files that they name. The frames that `later` words tell
    /// apart can be told apart from the beginning on.
    pub fn read(words: &LinkWords, ways: Ways, later: &[&LinkWords]) -> Result<Self, ConfigError> {
        Self::with_files(words, ways, later, &mut Files::default())
    }

    /// The same; names of files begin in a folder.
    pub fn read_in(folder: &Folder, words: &LinkWords, ways: Ways) -> Result<Self, ConfigError> {
        Self::with_files(words, ways, &[], &mut Files::within(folder))
    }

    fn with_files(
        words: &LinkWords,
        ways: Ways,
        later: &[&LinkWords],
        files: &mut Files,
    ) -> Result<Self, ConfigError> {
        refuse_doubles(words, &ways)?;
        let all: Vec<_> = [words].into_iter().chain(later.iter().copied()).collect();
        let expressions = expressions(&ways, &all)?;
        let given = given(words, &ways, false, files)?;
        Self::of(ways, given, Vec::new(), expressions)
    }

    /// The expressions of `given` that are new, one each with the number of its way.
    pub fn new_expressions(&self, given: &LinkWords) -> Result<Vec<(usize, String)>, ConfigError> {
        let given = expressions(&self.ways, &[given])?;
        let mut new = Vec::new();
        for ((way, known), here) in self.expressions.iter().enumerate().zip(given) {
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
    pub fn with_expression(&self, way: usize, new: &str) -> Result<Self, ConfigError> {
        let mut spec = self.clone();
        spec.expressions[way].push(new.to_owned());
        Self::of(spec.ways, spec.given, spec.removed, spec.expressions)
    }

    /// These words, with those of `words` in place of those for the same frames; `files` are those
    /// that `words` name.
    pub fn changed(
        &self,
        words: &LinkWords,
        files: BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        refuse_doubles(words, &self.ways)?;
        let new = expressions(&self.ways, &[words])?;
        for (known, new) in self.expressions.iter().zip(&new) {
            if let Some(expression) = new.iter().find(|each| !known.contains(each)) {
                return Err(ConfigError::usage(&format!(
                    "match {expression}: the expressions are those that the run was begun with: {}",
                    if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join("; ")
                    }
                )));
            }
        }
        let new = given(words, &self.ways, true, &mut Files::of(files))?;
        let merged = merged(&self.ways, &self.given, new.clone());
        let mut removed = Vec::new();
        for way in 0..self.ways.count() {
            let all = Setting::ALL.into_iter();
            removed.extend(all.map(|setting| (way, setting)).filter(|(way, setting)| {
                let new = of(&self.ways, &new, *setting, *way, None);
                new.is_some_and(|new| matches!(new.value, Value::Removed))
                    && of(&self.ways, &merged, *setting, *way, None).is_none()
            }));
        }
        let (ways, expressions) = (self.ways.clone(), self.expressions.clone());
        Self::of(ways, merged, removed, expressions)
    }

    /// The settings that the latest change gives.
    pub fn patches(&self) -> Patches {
        let ways = 0..self.ways.count();
        let patches = ways.map(|way| {
            let list = self.list(way, |given| given.is_new);
            let is_given = list.iter().any(|patch| !patch.is_empty());
            is_given.then_some(list)
        });
        patches.collect()
    }

    /// The settings of a way, for all frames and for those of each expression. A patch gives those
    /// that are chosen, and keeps the others.
    fn list(&self, way: usize, is_chosen: impl Fn(&Given) -> bool) -> Vec<Patch> {
        let expressions = self.expressions[way].iter().map(|each| Some(each.as_str()));
        let patch = |expression: Option<&str>| {
            let mut settings = Settings::default();
            let (mut chosen, mut kept) = (Vec::new(), Vec::new());
            for setting in READ {
                match of(&self.ways, &self.given, setting, way, expression) {
                    Some(given) => {
                        given.set(&mut settings);
                        let to = if is_chosen(given) {
                            &mut chosen
                        } else {
                            &mut kept
                        };
                        to.push(setting);
                    }
                    None if expression.is_some() => {}
                    None if self.removed.contains(&(way, setting)) => chosen.push(setting),
                    None => kept.push(setting),
                }
            }
            Patch::new(chosen, settings).keeping(kept)
        };
        [None].into_iter().chain(expressions).map(patch).collect()
    }

    fn of(
        ways: Ways,
        given: Vec<Given>,
        removed: Vec<(usize, Setting)>,
        expressions: Vec<Vec<String>>,
    ) -> Result<Self, ConfigError> {
        let mut spec = Self {
            ways,
            given,
            removed,
            expressions,
            lists: Vec::new(),
        };
        for way in 0..spec.ways.count() {
            spec.refuse_twice(way)?;
            spec.refuse_reorder(way)?;
            let list = spec.list(way, |_| true);
            spec.lists.push(list);
        }
        Ok(spec)
    }

    /// Fails if a path file sets the same as another flag.
    fn refuse_twice(&self, way: usize) -> Result<(), ConfigError> {
        let found = |setting| of(&self.ways, &self.given, setting, way, None);
        let Some(Value::Path { name, path }) = found(Setting::Path).map(|found| &found.value)
        else {
            return Ok(());
        };
        let rate = found(Setting::Rate).map(|found| &found.value);
        let has_deliveries = matches!(rate, Some(Value::Deliveries(_)));
        let has = |setting| self.given.iter().any(|given| given.setting == setting);
        let first = path.steps().first();
        let gives = |column: &dyn Fn(&PathStep) -> bool| first.is_some_and(column);
        for (flag, is_twice) in [
            (
                "--rate",
                has(Setting::Rate) && path.has_rate() || has_deliveries,
            ),
            (
                "--delay",
                has(Setting::Delay) && gives(&|step| step.delay_ns.is_some()),
            ),
            (
                "--loss",
                has(Setting::Loss) && gives(&|step| step.loss.is_some()),
            ),
        ] {
            if is_twice {
                return Err(ConfigError::usage(&format!(
                    "path: '{name}' sets the same as {flag}: leave out one of them"
                )));
            }
        }
        Ok(())
    }

    /// Fails if frames are to overtake others where none is delayed.
    fn refuse_reorder(&self, way: usize) -> Result<(), ConfigError> {
        if self
            .given
            .iter()
            .any(|given| given.setting == Setting::Path)
        {
            return Ok(());
        }
        let expressions = &self.expressions[way];
        for set in sets_of_two(expressions.len()) {
            let matched = expressions.iter().enumerate();
            let matched = matched.filter(|(bit, _)| set >> bit & 1 == 1);
            let matched: Vec<_> = matched.map(|(_, each)| each.as_str()).collect();
            let found = |setting| find(&self.ways, &self.given, setting, way, &matched);
            let mut settings = Settings::default();
            let found = [found(Setting::Delay), found(Setting::Reorder)];
            found
                .iter()
                .flatten()
                .for_each(|found| found.set(&mut settings));
            if settings.reorder.share > 0.0 && settings.delay == Delay::default() {
                return Err(ConfigError::usage(
                    "reorder: frames can overtake others only where there is a delay: add --delay",
                ));
            }
        }
        Ok(())
    }

    /// The requested path, with half of the budget for frames under way; `None` if no half is
    /// left.
    pub fn path(&self, seed: u64, budget: &Budget) -> Result<Option<Path>, ConfigError> {
        let settings = { self.lists.iter() }.map(|list| Patch::of_set(list, 0).settings().clone());
        let settings: Vec<_> = settings.collect();
        let memory_bytes = budget.limit_bytes() / 2;
        let path = match self.ways.switch_ports() {
            None => {
                let [out, back] = settings.try_into().expect("a link has two ways");
                Path::new([out, back], seed, memory_bytes, budget)
            }
            Some(ports) => {
                let (age_ns, addresses_max) = (Switch::AGE_NS, Switch::ADDRESSES_MAX);
                let switch = Switch::new(ports.len(), age_ns, addresses_max, budget);
                let switch = switch.ok_or_else(|| {
                    ConfigError::usage("memory: too little for a switch: give more with --memory")
                })?;
                let (switch, ports) = (Box::new(switch), ports.to_vec());
                Path::star(switch, ports, settings, seed, memory_bytes, budget)
            }
        };
        path.map(|path| classified(path, std::slice::from_ref(self)))
            .transpose()
    }
}

/// Links beside each other, each between two of these ports, with memory as
/// [`LinkSpec::path`] has it.
pub fn wires(
    links: &[LinkSpec],
    ports: Vec<String>,
    seed: u64,
    budget: &Budget,
) -> Result<Option<Path>, ConfigError> {
    let lists = links.iter().flat_map(|link| &link.lists);
    let settings = lists.map(|list| Patch::of_set(list, 0).settings().clone());
    let (settings, memory_bytes) = (settings.collect(), budget.limit_bytes() / 2);
    let path = Path::star(Box::new(Wire), ports, settings, seed, memory_bytes, budget);
    path.map(|path| classified(path, links)).transpose()
}

/// A path whose sides classify frames as these links have it, one after the other.
fn classified(mut path: Path, links: &[LinkSpec]) -> Result<Path, ConfigError> {
    let ways = links
        .iter()
        .flat_map(|link| link.expressions.iter().zip(&link.lists));
    for (side, (expressions, list)) in path.sides().zip(ways) {
        path.classify(side, filters(expressions)?, list.clone())
            .map_err(|error| ConfigError::usage(&format!("match: {error}")))?;
    }
    Ok(path)
}

/// The text of each file that words name.
pub fn files(words: &LinkWords) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut files = Files::default();
    let mut load = |name: &str| files.table(name);
    for text in words.of(Setting::Delay) {
        let read = words::delay(Words::setting(text)?, &mut load);
        read.map_err(|error| ConfigError::usage(&error.to_string()))?;
    }
    for text in words.of(Setting::Rate) {
        if let Some(name) = trace_name(Words::setting(text)?) {
            files.deliveries(name)?;
        }
    }
    for text in words.of(Setting::Path) {
        let name = Words::setting(text)?.trim();
        if name != NONE {
            files.path(name)?;
        }
    }
    Ok(files.into_used())
}
