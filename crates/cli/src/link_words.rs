//! What an emulated link does to frames, as flags and keys have it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use clap::Args;
use lineside_account::Budget;
use lineside_filter::Filter;
use lineside_frame::LinkType;
use lineside_link::{
    Chance, Deliveries, Order, PathFile, PathStep, Schedule, Settings, Table, words,
};
use lineside_path::{Direction, EXPRESSIONS_MAX, Path};
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::ConfigError;
use crate::table;

/// Words about a link: for both directions, or for one if `out:` or `in:` stands before them; with `match EXPR:` behind that, for the
/// frames that match.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[group(skip)]
#[serde(default)]
pub(crate) struct LinkWords {
    /// How long frames are held: '100us', '100us 10us 25% distribution normal order reorder'
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) delay: Option<Vec<String>>,
    /// How fast they leave: '1gbit', '10mbit burst 15k overhead ethernet drop', 'trace FILE' (mahimahi's)
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) rate: Option<Vec<String>>,
    /// Which are lost: '0.1%', 'gemodel 1% 10%', 'burst 50ms every 10s', 'every 100', 'frames 3,17', 'segment 3 times 2'
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) loss: Option<Vec<String>>,
    /// Which come twice: '1%'
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) duplicate: Option<Vec<String>>,
    /// In which a bit is turned: '0.1%'
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) corrupt: Option<Vec<String>>,
    /// Which pass the delay at once, before others: '25% 50%'
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) reorder: Option<Vec<String>>,
    /// Delay, loss and rate over time, from a path file, in place of those flags
    #[arg(long, value_name = "FILE")]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) path: Option<Vec<String>>,
    /// How much is held: frames ('1000') or bytes ('64kb'); without it, from rate and delay
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) limit: Option<Vec<String>>,
    /// Whether the link takes frames: 'up', 'down', 'flap 10s 1s'
    #[arg(long, value_name = "WORDS")]
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) link: Option<Vec<String>>,
}

/// In a file, one text may stand for a list of one.
fn one_or_many<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "words, or a list of words")]
    enum Words {
        One(String),
        Many(Vec<String>),
    }
    let words = Option::<Words>::deserialize(input)?;
    Ok(words.map(|words| match words {
        Words::One(words) => vec![words],
        Words::Many(words) => words,
    }))
}

/// Words, and what they come to.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    words: LinkWords,
    /// The text of each file that they name: who has given up its rights cannot read it again.
    files: BTreeMap<String, String>,
    /// What tells frames apart, by [`Direction`].
    expressions: [Vec<String>; 2],
    /// By direction, and by the set of its expressions that a frame matches, a bit each.
    pub(crate) settings: [Vec<Settings>; 2],
}

impl Asked {
    /// Reads words, and the files that they name.
    pub(crate) fn read(words: &LinkWords) -> Result<Self, ConfigError> {
        words.refuse_doubles()?;
        let [outbound, inbound] = Direction::BOTH.map(|direction| words.expressions(direction));
        Self::of(words.clone(), Files::default(), [outbound?, inbound?])
    }

    /// These words, with those of `given` in place of what they say anew; `files` are those that `given` names.
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
                        "match {expression}: the expressions are those that the run was begun with: {}",
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

    /// The path that they ask for, with half of the budget for frames under way.
    pub(crate) fn path(&self, seed: u64, budget: &Budget) -> anyhow::Result<Path> {
        let settings = { &self.settings }
            .each_ref()
            .map(|settings| settings[0].clone());
        let path = Path::new(settings, seed, budget.limit_bytes() / 2, budget);
        let mut path = path.context("the budget bears its own half")?;
        for direction in Direction::BOTH {
            let filters = filters(&self.expressions[direction as usize])?;
            let settings = &self.settings[direction as usize];
            path.tell_apart(direction, filters, |set| settings[set].clone())
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

/// Of rate, limit and path, takes away what there is.
const NONE: &str = "none";

/// The file of `--rate 'trace FILE'`.
fn trace_name(words: &str) -> Option<&str> {
    words.trim_start().strip_prefix("trace ").map(str::trim)
}

/// Files, as far as they have been read.
#[derive(Debug, Default)]
struct Files {
    known: BTreeMap<String, String>,
    used: BTreeSet<String>,
    /// Others may not be read.
    is_closed: bool,
}

impl Files {
    /// These and no others.
    fn of(known: BTreeMap<String, String>) -> Self {
        Self {
            known,
            used: BTreeSet::new(),
            is_closed: true,
        }
    }

    /// The texts of those that were asked for, by name.
    fn into_used(mut self) -> BTreeMap<String, String> {
        self.known.retain(|name, _| self.used.contains(name));
        self.known
    }

    fn text(&mut self, name: &str) -> Result<&str, String> {
        if !self.known.contains_key(name) {
            if self.is_closed {
                return Err(format!("{name}: it was not sent"));
            }
            let text = table::read_text(name.as_ref())?;
            self.known.insert(name.to_owned(), text);
        }
        self.used.insert(name.to_owned());
        Ok(&self.known[name])
    }

    fn table(&mut self, name: &str) -> Result<Table, String> {
        table::load(name, self.text(name)?)
    }

    fn path(&mut self, name: &str) -> Result<PathFile, ConfigError> {
        let path = { self.text(name) }.and_then(|text| table::path(name, text));
        path.map_err(|why| ConfigError::usage(&format!("path: {why}")))
    }

    fn deliveries(&mut self, name: &str) -> Result<Deliveries, ConfigError> {
        let trace = { self.text(name) }.and_then(|text| table::deliveries(name, text));
        trace.map_err(|why| ConfigError::usage(&format!("rate: {why}")))
    }
}

impl LinkWords {
    /// Whether nothing was given.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Fails if something is said twice: of one direction, or of both, and of one expression.
    fn refuse_doubles(&self) -> Result<(), ConfigError> {
        for (flag, given) in [
            ("delay", &self.delay),
            ("rate", &self.rate),
            ("loss", &self.loss),
            ("duplicate", &self.duplicate),
            ("corrupt", &self.corrupt),
            ("reorder", &self.reorder),
            ("path", &self.path),
            ("limit", &self.limit),
            ("link", &self.link),
        ] {
            let mut known = BTreeMap::new();
            for text in given.iter().flatten() {
                let words = Words::read(text)?;
                let of = (words.direction.map(Direction::name), words.expression);
                if let Some(earlier) = known.insert(of, text) {
                    return Err(ConfigError::usage(&format!(
                        "{flag}: '{earlier}' and '{text}' are for the same frames: leave one of them away"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The expressions that tell frames of a direction apart, in the order in which they are given.
    fn expressions(&self, direction: Direction) -> Result<Vec<String>, ConfigError> {
        let mut expressions: Vec<String> = Vec::new();
        for words in [
            &self.delay,
            &self.loss,
            &self.duplicate,
            &self.corrupt,
            &self.reorder,
        ] {
            for words in words.iter().flatten() {
                let words = Words::read(words)?;
                let is_here = words.direction.is_none_or(|given| given == direction);
                if let Some(expression) = words.expression.filter(|_| is_here)
                    && !expressions.iter().any(|known| known == expression)
                {
                    expressions.push(expression.to_owned());
                }
            }
        }
        for words in [&self.rate, &self.limit, &self.link, &self.path] {
            for words in words.iter().flatten() {
                if Words::read(words)?.expression.is_some() {
                    return Err(ConfigError::usage(&format!(
                        "'{words}': match goes with delay, loss, duplicate, corrupt and reorder; the rest is one link's for all frames"
                    )));
                }
            }
        }
        if expressions.len() > EXPRESSIONS_MAX {
            return Err(ConfigError::usage(&format!(
                "match: more than {EXPRESSIONS_MAX} different expressions for one direction"
            )));
        }
        Ok(expressions)
    }

    /// These words, with those of `given` in place of what they say anew: for one direction and expression, or for both directions. Of rate, limit
    /// and path `none` takes away what there is.
    fn changed(&self, given: &Self) -> Result<Self, ConfigError> {
        let changed = |known: &Option<Vec<String>>, given: &Option<Vec<String>>, can_go| {
            let mut changed = known.clone().unwrap_or_default();
            let read = given.iter().flatten();
            let read: Result<Vec<_>, _> = read.map(|text| Ok((text, Words::read(text)?))).collect();
            let mut read = read?;
            // Words for both directions take the place of known ones, and not of those that are given beside them.
            read.sort_by_key(|(_, new)| new.direction.is_some());
            for (text, new) in read {
                changed = kept(&changed, &new)?;
                if !(can_go && new.words.trim() == NONE) {
                    changed.push(text.clone());
                }
            }
            Ok::<_, ConfigError>(Some(changed).filter(|words| !words.is_empty()))
        };
        Ok(Self {
            delay: changed(&self.delay, &given.delay, false)?,
            rate: changed(&self.rate, &given.rate, true)?,
            loss: changed(&self.loss, &given.loss, false)?,
            duplicate: changed(&self.duplicate, &given.duplicate, false)?,
            corrupt: changed(&self.corrupt, &given.corrupt, false)?,
            reorder: changed(&self.reorder, &given.reorder, false)?,
            path: changed(&self.path, &given.path, true)?,
            limit: changed(&self.limit, &given.limit, true)?,
            link: changed(&self.link, &given.link, false)?,
        })
    }

    /// The settings of a direction for frames that match these expressions and no others.
    fn settings(
        &self,
        direction: Direction,
        matched: &[&str],
        files: &mut Files,
    ) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        if let Some(words) = find(self.delay.as_deref(), direction, matched)? {
            settings.delay = refused(words::delay(words, &mut |name| files.table(name)))?;
        }
        if let Some(words) = find(self.rate.as_deref(), direction, matched)? {
            match trace_name(words) {
                Some(name) => {
                    settings.schedule = Some(Schedule::Deliveries(files.deliveries(name)?));
                }
                None => settings.rate = Some(refused(words::rate(words))?),
            }
        }
        if let Some(words) = find(self.loss.as_deref(), direction, matched)? {
            settings.loss = refused(words::loss(words))?;
        }
        if let Some(words) = find(self.limit.as_deref(), direction, matched)? {
            settings.limit = refused(words::limit(words))?;
        }
        if let Some(words) = find(self.link.as_deref(), direction, matched)? {
            settings.state = refused(words::state(words))?;
        }
        if let Some(name) = find(self.path.as_deref(), direction, matched)? {
            let path = files.path(name.trim())?;
            let first = path.steps().first();
            let gives = |column: &dyn Fn(&PathStep) -> bool| first.is_some_and(column);
            for (flag, is_twice) in [
                (
                    "--rate",
                    self.rate.is_some() && path.has_rate() || settings.schedule.is_some(),
                ),
                (
                    "--delay",
                    self.delay.is_some() && gives(&|step| step.delay_ns.is_some()),
                ),
                (
                    "--loss",
                    self.loss.is_some() && gives(&|step| step.loss.is_some()),
                ),
            ] {
                if is_twice {
                    return Err(ConfigError::usage(&format!(
                        "path: '{name}' gives what {flag} gives too: leave one of them away"
                    )));
                }
            }
            settings.schedule = Some(Schedule::Path(path));
        }
        let chance = |setting, words: &Option<Vec<String>>| match find(
            words.as_deref(),
            direction,
            matched,
        )? {
            Some(words) => refused(words::chance(setting, words)),
            None => Ok(Chance::default()),
        };
        settings.duplicate = chance("duplicate", &self.duplicate)?;
        settings.corrupt = chance("corrupt", &self.corrupt)?;
        settings.reorder = chance("reorder", &self.reorder)?;
        if settings.reorder.share > 0.0 {
            if settings.delay == lineside_link::Delay::default() && self.path.is_none() {
                return Err(ConfigError::usage(
                    "reorder: without a delay there is none to pass: add --delay",
                ));
            }
            settings.delay.order = Order::Reorder;
        }
        Ok(settings)
    }
}

/// What of `known` still holds beside `new`.
fn kept(known: &[String], new: &Words<'_>) -> Result<Vec<String>, ConfigError> {
    let mut kept = Vec::new();
    let read: Result<Vec<_>, _> = known.iter().map(|text| Words::read(text)).collect();
    let read = read?;
    for (text, words) in known.iter().zip(&read) {
        if words.expression != new.expression {
            kept.push(text.clone());
            continue;
        }
        match (words.direction, new.direction) {
            (_, None) => {}
            (Some(one), Some(other)) if one == other => {}
            (Some(_), Some(_)) => kept.push(text.clone()),
            (None, Some(direction)) => {
                let (other, prefix) = match direction {
                    Direction::Outbound => (Direction::Inbound, "in"),
                    Direction::Inbound => (Direction::Outbound, "out"),
                };
                let has_own = read.iter().any(|words| {
                    words.direction == Some(other) && words.expression == new.expression
                });
                if !has_own {
                    kept.push(format!("{prefix}: {text}"));
                }
            }
        }
    }
    Ok(kept)
}

/// Filters of expressions.
fn filters(expressions: &[String]) -> Result<Vec<Filter>, ConfigError> {
    let parse = |expression: &String| {
        let filter = Filter::parse(expression)?;
        filter.compile(LinkType::ETHERNET.0)?;
        Ok(filter)
    };
    let filters: Result<_, lineside_filter::FilterError> = expressions.iter().map(parse).collect();
    filters.map_err(|error| ConfigError::usage(&format!("match: {error}")))
}

/// `[out:|in:] [match EXPR:] WORDS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Words<'a> {
    direction: Option<Direction>,
    expression: Option<&'a str>,
    words: &'a str,
}

impl<'a> Words<'a> {
    fn read(text: &'a str) -> Result<Self, ConfigError> {
        let text = text.trim_start();
        let prefixes = [("out:", Direction::Outbound), ("in:", Direction::Inbound)];
        let found = { prefixes.iter() }
            .find_map(|(prefix, direction)| Some((text.strip_prefix(prefix)?, *direction)));
        let (text, direction) = match found {
            Some((text, direction)) => (text.trim_start(), Some(direction)),
            None => (text, None),
        };
        let Some(matching) = text.strip_prefix("match ") else {
            return Ok(Self {
                direction,
                expression: None,
                words: text,
            });
        };
        // Expressions have colons too, but no blanks behind the last one.
        let (expression, words) = matching.rsplit_once(": ").ok_or_else(|| {
            ConfigError::usage(&format!(
                "'{text}': write 'match EXPR: WORDS', with a blank behind the colon"
            ))
        })?;
        let expression = expression.trim();
        if expression.is_empty() {
            return Err(ConfigError::usage(&format!(
                "'{text}': match what? Write 'match EXPR: WORDS', or the words alone for all frames"
            )));
        }
        Ok(Self {
            direction,
            expression: Some(expression),
            words,
        })
    }
}

/// Of what was given, the words for a direction and for frames that match these expressions: those of the first expression that has some, or
/// else those without one. Words for this direction alone come before those for both.
fn find<'a>(
    given: Option<&'a [String]>,
    direction: Direction,
    matched: &[&str],
) -> Result<Option<&'a str>, ConfigError> {
    let read: Result<Vec<_>, _> = { given.unwrap_or_default().iter() }
        .map(|words| Words::read(words))
        .collect();
    let read = read?;
    let expressions = matched.iter().map(|&matched| Some(matched)).chain([None]);
    for expression in expressions {
        for wanted in [Some(direction), None] {
            let mut read = read.iter();
            let found =
                read.find(|words| words.expression == expression && words.direction == wanted);
            if let Some(found) = found {
                return Ok(Some(found.words));
            }
        }
    }
    Ok(None)
}

fn refused<T>(read: Result<T, words::WordError>) -> Result<T, ConfigError> {
    read.map_err(|error| ConfigError::usage(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_for_both_directions_or_for_one() {
        let words = |given: &[&str], direction, matched: &[&str]| {
            let given: Vec<_> = given.iter().map(|&words| words.to_owned()).collect();
            let found = find(Some(&given), direction, matched).expect("right words");
            found.map(str::to_owned)
        };
        use Direction::{Inbound, Outbound};
        for (given, outbound, inbound) in [
            (&[][..], None, None),
            (&["1ms"], Some("1ms"), Some("1ms")),
            (&["in:5ms", "1ms"], Some("1ms"), Some("5ms")),
            (&["out: 5ms"], Some("5ms"), None),
            (&["match udp: 5ms", "1ms"], Some("1ms"), Some("1ms")),
        ] {
            assert_eq!(words(given, Outbound, &[]).as_deref(), outbound);
            assert_eq!(words(given, Inbound, &[]).as_deref(), inbound);
        }
        let given = [
            "1ms",
            "in: match udp: 5ms",
            "match host fe80:: or net ::/0: 7ms",
            "in: 2ms",
        ];
        for (direction, matched, found) in [
            (Outbound, &["udp"][..], "1ms"),
            (Inbound, &["udp"], "5ms"),
            (Inbound, &["tcp"], "2ms"),
            (Inbound, &["host fe80:: or net ::/0", "udp"], "7ms"),
            (Outbound, &["udp", "host fe80:: or net ::/0"], "7ms"),
        ] {
            assert_eq!(words(&given, direction, matched).as_deref(), Some(found));
        }
        for wrong in ["match udp:5ms", "match : 5ms", "in: match  : 5ms"] {
            assert!(Words::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_is_said_twice_of_the_same_frames() {
        let refused = |delay: &[&str]| {
            let delay = delay.iter().map(|&words| words.to_owned()).collect();
            let words = LinkWords {
                delay: Some(delay),
                ..LinkWords::default()
            };
            let error = Asked::read(&words).err()?;
            Some(error.to_string())
        };
        for right in [
            &["1ms", "in: 2ms"][..],
            &["in: 1ms", "out: 2ms"],
            &["1ms", "match udp: 2ms", "in: match udp: 3ms"],
        ] {
            assert_eq!(refused(right), None);
        }
        for wrong in [
            ["1ms", "2ms"],
            ["in: 1ms", "in:2ms"],
            ["match udp: 1ms", "match udp : 2ms"],
        ] {
            let why = refused(&wrong).expect("it is refused");
            assert!(wrong.iter().all(|words| why.contains(words)), "{why}");
        }
    }

    #[test]
    fn a_change_takes_the_place_of_what_it_says_anew() {
        let words = |delay: &[&str], rate: &[&str]| {
            let list = |words: &[&str]| {
                let words: Vec<_> = words.iter().map(|&words| words.to_owned()).collect();
                Some(words).filter(|words| !words.is_empty())
            };
            LinkWords {
                delay: list(delay),
                rate: list(rate),
                loss: list(&["1%"]),
                ..LinkWords::default()
            }
        };
        for (known, given, after) in [
            (&["10ms"][..], &["40ms"][..], &["40ms"][..]),
            (&["10ms", "in: 5ms"], &["40ms"], &["40ms"]),
            (&["10ms"], &["in: 5ms"], &["out: 10ms", "in: 5ms"]),
            (&["10ms"], &["in: 5ms", "40ms"], &["out: 40ms", "in: 5ms"]),
            (
                &["in: 5ms", "10ms"],
                &["out: 2ms"],
                &["in: 5ms", "out: 2ms"],
            ),
            (
                &["out: 1ms", "in: 5ms"],
                &["out:2ms"],
                &["in: 5ms", "out:2ms"],
            ),
            (
                &["match udp: 1ms", "10ms"],
                &["40ms", "in: match udp: 2ms"],
                &["out: match udp: 1ms", "40ms", "in: match udp: 2ms"],
            ),
        ] {
            let changed = words(known, &["1mbit"]).changed(&words(given, &["in: none"]));
            let expected = words(after, &["out: 1mbit"]);
            assert_eq!(changed.expect("right words"), expected);
        }
        let changed = words(&["1ms"], &["1mbit"]).changed(&words(&[], &["none"]));
        assert_eq!(changed.expect("right words"), words(&["1ms"], &[]));
    }
}
