//! A link's settings in words: the ways and the frames to which they apply, and their values.

use std::collections::BTreeMap;

use lineside_filter::Filter;
use lineside_frame::LinkType;
use lineside_link::words::LinkWords;
use lineside_link::{
    Chance, Delay, Deliveries, Limit, Loss, PathFile, RateLimit, Schedule, Setting, Settings,
    State, words,
};
use lineside_run::ConfigError;

use super::files::Files;
use super::ways::{Way, Ways};

/// `[out:|in:|PORT out:|PORT in:] [match EXPR:] WORDS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Words<'a> {
    /// The number of the way; `None`: all that words without one are for.
    pub(super) way: Option<usize>,
    pub(super) expression: Option<&'a str>,
    pub(super) words: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn read(ways: &Ways, text: &'a str) -> Result<Self, ConfigError> {
        let (way, text) = Way::split(text);
        let way = way.map(|way| ways.index(way)).transpose()?;
        let (expression, words) = Self::matching(text)?;
        Ok(Self {
            way,
            expression,
            words,
        })
    }

    /// The words alone, whatever ways there are.
    pub(super) fn setting(text: &'a str) -> Result<&'a str, ConfigError> {
        Ok(Self::matching(Way::split(text).1)?.1)
    }

    /// The expression, and what is behind it.
    fn matching(text: &'a str) -> Result<(Option<&'a str>, &'a str), ConfigError> {
        let Some(matching) = text.strip_prefix("match ") else {
            return Ok((None, text));
        };
        // Expressions have colons too, but no blank after the last one.
        let (expression, words) = matching.rsplit_once(": ").ok_or_else(|| {
            ConfigError::usage(&format!(
                "'{text}': write 'match EXPR: WORDS', with a blank after the colon"
            ))
        })?;
        let expression = expression.trim();
        if expression.is_empty() {
            return Err(ConfigError::usage(&format!(
                "'{text}': the expression is missing: write 'match EXPR: WORDS', or the words \
                alone for all frames"
            )));
        }
        Ok((Some(expression), words))
    }
}

/// The words of each setting with the way and the frames to which they apply.
pub(super) fn each<'a>(
    words: &'a LinkWords,
    ways: &Ways,
) -> Result<Vec<(Setting, &'a str, Words<'a>)>, ConfigError> {
    let texts = Setting::ALL.into_iter().flat_map(|setting| {
        let texts = words.of(setting).iter();
        texts.map(move |text| (setting, text.as_str()))
    });
    texts
        .map(|(setting, text)| Ok((setting, text, Words::read(ways, text)?)))
        .collect()
}

/// Fails if two settings apply to the same frames: same direction, or both, and same expression.
pub(super) fn refuse_doubles(words: &LinkWords, ways: &Ways) -> Result<(), ConfigError> {
    let mut known = BTreeMap::new();
    for (setting, text, words) in each(words, ways)? {
        let of = (setting.name(), words.way, words.expression);
        if let Some(earlier) = known.insert(of, text) {
            return Err(ConfigError::usage(&format!(
                "{}: '{earlier}' and '{text}' apply to the same frames: leave out one of them",
                setting.name()
            )));
        }
    }
    Ok(())
}

/// Words of a setting that were read: once, whatever way and frames they are looked up for.
#[derive(Debug, Clone)]
pub(super) struct Given {
    /// The number of the way; `None`: all that words without one are for.
    pub(super) way: Option<usize>,
    /// The expression of the frames.
    pub(super) matching: Option<String>,
    pub(super) setting: Setting,
    pub(super) value: Value,
    /// As they were given, to be shown.
    pub(super) text: String,
    /// Whether the latest change brought them.
    pub(super) is_new: bool,
}

/// The value of a setting.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Delay(Delay),
    Rate(RateLimit),
    Deliveries(Deliveries),
    Loss(Loss),
    Chance(Chance),
    Path {
        name: String,
        path: PathFile,
    },
    Limit(Limit),
    Link(State),
    /// Of rate, limit and path: the setting is removed.
    Removed,
}

impl Value {
    /// Reads the words of a setting, and the file that they name; `can_go`: `none` may remove it.
    pub(super) fn read(
        setting: Setting,
        words: &str,
        can_go: bool,
        files: &mut Files,
    ) -> Result<Self, ConfigError> {
        let is_removable = matches!(setting, Setting::Rate | Setting::Limit | Setting::Path);
        if can_go && is_removable && words.trim() == NONE {
            return Ok(Self::Removed);
        }
        Ok(match setting {
            Setting::Delay => {
                Self::Delay(refused(words::delay(words, &mut |name| files.table(name)))?)
            }
            Setting::Rate => match trace_name(words) {
                Some(name) => Self::Deliveries(files.deliveries(name)?),
                None => Self::Rate(refused(words::rate(words))?),
            },
            Setting::Loss => Self::Loss(refused(words::loss(words))?),
            Setting::Duplicate | Setting::Corrupt | Setting::Reorder => {
                Self::Chance(refused(words::chance(setting.name(), words))?)
            }
            Setting::Path => Self::Path {
                name: words.to_owned(),
                path: files.path(words.trim())?,
            },
            Setting::Limit => Self::Limit(refused(words::limit(words))?),
            Setting::Link => Self::Link(refused(words::state(words))?),
        })
    }
}

impl Given {
    /// Sets what it gives.
    pub(super) fn set(&self, settings: &mut Settings) {
        match (&self.value, self.setting) {
            (Value::Delay(delay), _) => settings.delay = delay.clone(),
            (Value::Rate(rate), _) => settings.rate = Some(*rate),
            (Value::Deliveries(deliveries), _) => {
                settings.schedule = Some(Schedule::Deliveries(deliveries.clone()));
            }
            (Value::Loss(loss), _) => settings.loss = loss.clone(),
            (Value::Chance(chance), Setting::Duplicate) => settings.duplicate = *chance,
            (Value::Chance(chance), Setting::Corrupt) => settings.corrupt = *chance,
            (Value::Chance(chance), _) => settings.reorder = *chance,
            (Value::Path { path, .. }, _) => settings.schedule = Some(Schedule::Path(path.clone())),
            (Value::Limit(limit), _) => settings.limit = *limit,
            (Value::Link(state), _) => settings.state = *state,
            (Value::Removed, _) => {}
        }
    }
}

/// The words of a setting for a way, and for frames that match these expressions: those of the
/// first expression that has some, or else those without one. Words for this way alone come before
/// those without a way.
pub(super) fn find<'a>(
    ways: &Ways,
    given: &'a [Given],
    setting: Setting,
    way: usize,
    matched: &[&str],
) -> Option<&'a Given> {
    let expressions = matched.iter().map(|&matched| Some(matched)).chain([None]);
    let mut found = expressions.filter_map(|expression| of(ways, given, setting, way, expression));
    found.next()
}

/// The words of a setting for a way and an expression, or for all other frames.
pub(super) fn of<'a>(
    ways: &Ways,
    given: &'a [Given],
    setting: Setting,
    way: usize,
    expression: Option<&str>,
) -> Option<&'a Given> {
    let general = ways.is_general(way).then_some(None);
    let mut wanted = [Some(Some(way)), general].into_iter().flatten();
    wanted.find_map(|wanted| {
        given.iter().find(|given| {
            given.setting == setting
                && given.matching.as_deref() == expression
                && given.way == wanted
        })
    })
}

/// `known` words, with `new` ones in place of those for the same frames: one direction and
/// expression, or both directions. Of rate, limit and path, `none` removes the setting.
pub(super) fn merged(ways: &Ways, known: &[Given], mut new: Vec<Given>) -> Vec<Given> {
    let mut merged = known.to_vec();
    merged.iter_mut().for_each(|given| given.is_new = false);
    // Words for both directions replace known ones, but not words that are given together with
    // them.
    new.sort_by_key(|new| new.way.is_some());
    for new in new {
        merged = kept(ways, &merged, &new);
        if !matches!(new.value, Value::Removed) {
            merged.push(new);
        }
    }
    merged
}

/// Those of `known` that remain valid beside `new`.
fn kept(ways: &Ways, known: &[Given], new: &Given) -> Vec<Given> {
    let mut kept = Vec::new();
    for given in known {
        if (given.setting, &given.matching) != (new.setting, &new.matching) {
            kept.push(given.clone());
            continue;
        }
        match (given.way, new.way) {
            // Those without a way were never for this one.
            (Some(way), None) if !ways.is_general(way) => kept.push(given.clone()),
            (None, Some(way)) if !ways.is_general(way) => kept.push(given.clone()),
            (_, None) => {}
            (Some(one), Some(other)) if one == other => {}
            (Some(_), Some(_)) => kept.push(given.clone()),
            (None, Some(way)) => {
                let others = (0..ways.count()).filter(|other| *other != way);
                for other in others.filter(|other| ways.is_general(*other)) {
                    let has_own = known.iter().any(|known| {
                        (known.setting, known.way, &known.matching)
                            == (new.setting, Some(other), &new.matching)
                    });
                    if !has_own {
                        kept.push(Given {
                            way: Some(other),
                            text: format!("{} {}", ways.prefix(other), given.text),
                            ..given.clone()
                        });
                    }
                }
            }
        }
    }
    kept
}

/// Filters of expressions.
pub(super) fn filters(expressions: &[String]) -> Result<Vec<Filter>, ConfigError> {
    let parse = |expression: &String| {
        let filter = Filter::parse(expression)?;
        filter.compile(LinkType::ETHERNET.0)?;
        Ok(filter)
    };
    let filters: Result<_, lineside_filter::FilterError> = expressions.iter().map(parse).collect();
    filters.map_err(|error| ConfigError::usage(&format!("match: {error}")))
}

fn refused<T>(read: Result<T, lineside_words::WordError>) -> Result<T, ConfigError> {
    read.map_err(|error| ConfigError::usage(&error.to_string()))
}

/// Removes a setting: of rate, limit and path.
pub(super) const NONE: &str = "none";

/// The file of `--rate 'trace FILE'`.
pub(super) fn trace_name(words: &str) -> Option<&str> {
    words.trim_start().strip_prefix("trace ").map(str::trim)
}
