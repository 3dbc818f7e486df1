//! The limits of a verdict: `--verdict-limit NAME=VALUE`, or the table `limits` of `[load]` and
//! `[emulate]`.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches};
use lineside_load::words::share;
use lineside_run::LateLimits;
use lineside_trace::certificate::load::Limits;
use lineside_words::{nearest, parse_duration};
use serde_json::Value as Json;

use crate::config::{ConfigError, Facts, Refusal, Value};

/// Their names.
const NAMES: [&str; 9] = [
    "rate_missed",
    "late",
    "lateness_max",
    "lateness_p99",
    "waited",
    "busy",
    "stall",
    "steal",
    "drift",
];

/// Limits by name, as they were written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LimitWords(BTreeMap<String, String>);

impl Value for LimitWords {
    fn read(value: &Json) -> Result<Self, Refusal> {
        let refused = || Refusal::Type {
            wanted: "a table of limits",
            usual: serde_json::json!({ "lateness_p99": "1ms" }),
        };
        let table = value.as_object().ok_or_else(refused)?;
        let entry = |(name, value): (&String, &Json)| {
            let text = match value {
                Json::String(text) => text.clone(),
                Json::Number(number) => number.to_string(),
                _ => return Err(refused()),
            };
            Ok((name.clone(), text))
        };
        Ok(Self(table.iter().map(entry).collect::<Result<_, _>>()?))
    }

    fn to_json(&self) -> Json {
        serde_json::json!(self.0)
    }

    fn argument(argument: Arg) -> Arg {
        argument.action(ArgAction::Append)
    }

    fn given(matches: &ArgMatches, facts: &Facts) -> Option<Self> {
        let texts = matches.get_many::<String>(facts.name)?;
        let pair = |text: &String| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (name.trim().to_owned(), value.trim().to_owned())
        };
        Some(Self(texts.map(pair).collect()))
    }
}

impl LimitWords {
    /// The defaults, with these.
    pub(crate) fn resolved(words: Option<&Self>) -> Result<Limits, ConfigError> {
        let mut limits = Limits::default();
        Self::set_each(words, "no limit", &NAMES, |name, text| {
            Some(match name {
                "rate_missed" => share(text).map(|share| limits.rate_missed = share),
                "late" => share(text).map(|share| limits.late = share),
                "lateness_p99" => time(text).map(|time| limits.lateness_p99_ns = Some(time)),
                "lateness_max" => time(text).map(|time| limits.lateness_max_ns = Some(time)),
                "waited" => share(text).map(|share| limits.waited = share),
                "busy" => share(text).map(|share| limits.busy = share),
                "stall" => time(text).map(|time| limits.stall_ns = time),
                "steal" => share(text).map(|share| limits.steal = share),
                "drift" => factor(text).map(|factor| limits.drift = factor),
                _ => return None,
            })
        })?;
        Ok(limits)
    }

    /// Has `set` take each of the words; `None`: it knows no such name, as `unknown` reports.
    fn set_each(
        words: Option<&Self>,
        unknown: &str,
        known: &[&str],
        mut set: impl FnMut(&str, &str) -> Option<Result<(), String>>,
    ) -> Result<(), ConfigError> {
        for (name, text) in words.iter().flat_map(|words| &words.0) {
            let set = set(name, text).ok_or_else(|| {
                let nearest = nearest(name, known.iter().copied());
                ConfigError::new(format!(
                    "limits: {unknown} '{name}'; the nearest known one is {nearest}"
                ))
            })?;
            set.map_err(|why| ConfigError::new(format!("limits: {name}: {why}")))?;
        }
        Ok(())
    }
}

/// The limits of an emulated link.
const LINK_NAMES: [&str; 2] = ["late", "lateness_max"];

impl LimitWords {
    /// Takes the limits of a verdict out of texts that are otherwise about something else.
    pub(crate) fn taken_from(texts: &mut Vec<String>) -> Option<Self> {
        let pair = |text: &String| {
            let (name, value) = text.split_once('=')?;
            let name = name.trim();
            let pair = (name.to_owned(), value.trim().to_owned());
            LINK_NAMES.contains(&name).then_some(pair)
        };
        let taken: BTreeMap<_, _> = texts.iter().filter_map(pair).collect();
        texts.retain(|text| pair(text).is_none());
        (!taken.is_empty()).then_some(Self(taken))
    }

    /// Adds limits, over these.
    pub(crate) fn add(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The usual limits of an emulated link, with these.
    pub(crate) fn of_link(words: Option<&Self>) -> Result<LateLimits, ConfigError> {
        let mut limits = LateLimits::default();
        let unknown = "an emulated link has no limit";
        Self::set_each(words, unknown, &LINK_NAMES, |name, text| {
            Some(match name {
                "late" => share(text).map(|share| limits.late = share),
                "lateness_max" => time(text).map(|time| limits.lateness_max_ns = Some(time)),
                _ => return None,
            })
        })?;
        Ok(limits)
    }
}

fn time(text: &str) -> Result<u64, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text
        .parse::<f64>()
        .ok()
        .filter(|factor| *factor >= 1.0 && factor.is_finite());
    factor.ok_or_else(|| format!("'{text}' is not a factor from 1 on: write 1.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: Json) -> Result<Limits, String> {
        let words = LimitWords::read(&table).map_err(|_| "no table".to_owned())?;
        LimitWords::resolved(Some(&words)).map_err(|error| error.to_string())
    }

    #[test]
    fn each_limit_has_a_name_and_a_unit() {
        let mut table = serde_json::json!({
            "rate_missed": "5%", "late": "2%", "lateness_max": "9us", "lateness_p99": "7us",
            "waited": 0.5, "busy": "50%", "stall": "3ms", "steal": "0%", "drift": 2
        });
        let expected = Limits {
            rate_missed: 0.05,
            late: 0.02,
            lateness_p99_ns: Some(7_000),
            lateness_max_ns: Some(9_000),
            waited: 0.5,
            busy: 0.5,
            stall_ns: 3_000_000,
            steal: 0.0,
            drift: 2.0,
            ..Limits::default()
        };
        assert_eq!(read(table.clone()), Ok(expected));
        assert_eq!(
            LimitWords::resolved(None).expect("the defaults"),
            Limits::default()
        );
        let names: Vec<_> = table
            .as_object()
            .expect("a table")
            .keys()
            .cloned()
            .collect();
        assert!(names.iter().all(|name| NAMES.contains(&name.as_str())));
        assert_eq!(names.len(), NAMES.len());
        for (name, value, words) in [
            ("lateness_p99", "5", "unit"),
            ("waited", "2", "write 1% or 0.01"),
            ("drift", "0.5", "write 1.5"),
            ("lateness", "1ms", "the nearest known one is lateness_p99"),
        ] {
            table = serde_json::json!({ name: value });
            let error = read(table).expect_err(words);
            assert!(error.contains(words), "{error}");
        }
        assert!(read(serde_json::json!({ "drift": [] })).is_err());
    }

    #[test]
    fn limits_of_a_verdict_are_found_among_those_of_a_queue() {
        let mut texts = ["1000", "lateness_max=1ms", "late = 5%", "up 64kb"]
            .map(str::to_owned)
            .to_vec();
        let words = LimitWords::taken_from(&mut texts);
        assert_eq!(texts, ["1000", "up 64kb"]);
        let limits = LimitWords::of_link(words.as_ref()).expect("two limits");
        let expected = LateLimits {
            late: 0.05,
            lateness_max_ns: Some(1_000_000),
        };
        assert_eq!(limits, expected);
        assert_eq!(LimitWords::taken_from(&mut texts), None);
        let other = LimitWords([("drift".to_owned(), "2".to_owned())].into());
        assert!(LimitWords::of_link(Some(&other)).is_err());
    }
}
