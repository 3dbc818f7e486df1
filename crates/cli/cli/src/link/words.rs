//! A link's setting in words: the way and the frames to which it applies.

use lineside_filter::Filter;
use lineside_frame::LinkType;

use super::ways::{Way, Ways};
use crate::config::ConfigError;

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

/// The words for a way and for frames that match these expressions: those of the first expression
/// that has some, or else those without one. Words for this way alone come before those without a
/// way.
pub(super) fn find<'a>(
    ways: &Ways,
    given: Option<&'a [String]>,
    way: usize,
    matched: &[&str],
) -> Result<Option<&'a str>, ConfigError> {
    let read: Result<Vec<_>, _> = { given.unwrap_or_default().iter() }
        .map(|words| Words::read(ways, words))
        .collect();
    let read = read?;
    let expressions = matched.iter().map(|&matched| Some(matched)).chain([None]);
    for expression in expressions {
        let general = ways.is_general(way).then_some(None);
        for wanted in [Some(Some(way)), general].into_iter().flatten() {
            let mut read = read.iter();
            let found = read.find(|words| words.expression == expression && words.way == wanted);
            if let Some(found) = found {
                return Ok(Some(found.words));
            }
        }
    }
    Ok(None)
}

/// The words of `known` that remain valid beside `new`.
pub(super) fn kept(
    ways: &Ways,
    known: &[String],
    new: &Words<'_>,
) -> Result<Vec<String>, ConfigError> {
    let mut kept = Vec::new();
    let read: Result<Vec<_>, _> = { known.iter() }
        .map(|text| Words::read(ways, text))
        .collect();
    let read = read?;
    for (text, words) in known.iter().zip(&read) {
        if words.expression != new.expression {
            kept.push(text.clone());
            continue;
        }
        match (words.way, new.way) {
            // Those without a way were never for this one.
            (Some(way), None) if !ways.is_general(way) => kept.push(text.clone()),
            (None, Some(way)) if !ways.is_general(way) => kept.push(text.clone()),
            (_, None) => {}
            (Some(one), Some(other)) if one == other => {}
            (Some(_), Some(_)) => kept.push(text.clone()),
            (None, Some(way)) => {
                let others = (0..ways.count()).filter(|other| *other != way);
                for other in others.filter(|other| ways.is_general(*other)) {
                    let has_own = read.iter().any(|words| {
                        words.way == Some(other) && words.expression == new.expression
                    });
                    if !has_own {
                        kept.push(format!("{} {text}", ways.prefix(other)));
                    }
                }
            }
        }
    }
    Ok(kept)
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

pub(super) fn refused<T>(read: Result<T, lineside_words::WordError>) -> Result<T, ConfigError> {
    read.map_err(|error| ConfigError::usage(&error.to_string()))
}

/// Removes a setting: of rate, limit and path.
pub(super) const NONE: &str = "none";

/// The file of `--rate 'trace FILE'`.
pub(super) fn trace_name(words: &str) -> Option<&str> {
    words.trim_start().strip_prefix("trace ").map(str::trim)
}
