//! A link's setting in words: the direction and the frames to which it applies.

use lineside_filter::Filter;
use lineside_frame::LinkType;
use lineside_link::words;
use lineside_path::Direction;

use crate::config::ConfigError;

/// `[out:|in:] [match EXPR:] WORDS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Words<'a> {
    pub(super) direction: Option<Direction>,
    pub(super) expression: Option<&'a str>,
    pub(super) words: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, ConfigError> {
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
        Ok(Self {
            direction,
            expression: Some(expression),
            words,
        })
    }
}

/// The words for a direction and for frames that match these expressions: those of the first
/// expression that has some, or else those without one. Words for this direction alone come before
/// those for both.
pub(super) fn find<'a>(
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

/// The words of `known` that remain valid beside `new`.
pub(super) fn kept(known: &[String], new: &Words<'_>) -> Result<Vec<String>, ConfigError> {
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
pub(super) fn filters(expressions: &[String]) -> Result<Vec<Filter>, ConfigError> {
    let parse = |expression: &String| {
        let filter = Filter::parse(expression)?;
        filter.compile(LinkType::ETHERNET.0)?;
        Ok(filter)
    };
    let filters: Result<_, lineside_filter::FilterError> = expressions.iter().map(parse).collect();
    filters.map_err(|error| ConfigError::usage(&format!("match: {error}")))
}

pub(super) fn refused<T>(read: Result<T, words::WordError>) -> Result<T, ConfigError> {
    read.map_err(|error| ConfigError::usage(&error.to_string()))
}

/// Removes a setting: of rate, limit and path.
pub(super) const NONE: &str = "none";

/// The file of `--rate 'trace FILE'`.
pub(super) fn trace_name(words: &str) -> Option<&str> {
    words.trim_start().strip_prefix("trace ").map(str::trim)
}
