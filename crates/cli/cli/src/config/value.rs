//! The types of keys' values, on the command line and in a file.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use lineside_words::{format_duration, parse_duration, parse_size};
use serde_json::Value as Json;

use super::facts::Facts;

/// The reason for which a value in a file is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It has the wrong type: the type that is needed, and a usual value.
    Type {
        wanted: &'static str,
        usual: Json,
    },
    Value(String),
}

/// The type of a key.
pub(crate) trait Value: Clone + PartialEq + Send + Sync + 'static {
    /// Reads a value of a file.
    fn read(value: &Json) -> Result<Self, Refusal>;
    /// The same value, as a file contains it.
    fn to_json(&self) -> Json;
    /// A command-line argument of this type.
    fn argument(argument: Arg) -> Arg;

    /// An argument of its own that says the same as before; no help lists it.
    fn argument_before() -> Option<Arg> {
        None
    }

    /// The value of a flag.
    fn given(matches: &ArgMatches, facts: &Facts) -> Option<Self> {
        matches.get_one::<Self>(facts.name).cloned()
    }

    /// Whether it requests something other than the default.
    fn differs(&self, default: Option<&Self>) -> bool {
        default != Some(self)
    }

    /// The word, if it is one.
    fn word(&self) -> Option<&str> {
        None
    }
}

const TEXT: &str = "a text in quotes, with its unit if it has one";

fn text(value: &Json) -> Result<&str, Refusal> {
    value.as_str().ok_or_else(|| Refusal::Type {
        wanted: TEXT,
        usual: "…".into(),
    })
}

impl Value for String {
    fn read(value: &Json) -> Result<Self, Refusal> {
        text(value).map(str::to_owned)
    }

    fn to_json(&self) -> Json {
        self.as_str().into()
    }

    fn argument(argument: Arg) -> Arg {
        argument
    }

    fn word(&self) -> Option<&str> {
        Some(self)
    }
}

impl Value for PathBuf {
    fn read(value: &Json) -> Result<Self, Refusal> {
        text(value).map(Self::from)
    }

    fn to_json(&self) -> Json {
        self.to_str().into()
    }

    fn argument(argument: Arg) -> Arg {
        argument.value_parser(path_parser())
    }
}

/// Reads the name of a file or folder in the configuration.
fn path_parser() -> impl TypedValueParser<Value = PathBuf> {
    // `trace.json` is JSON, whose texts are UTF-8.
    PathBufValueParser::new().try_map(|path| match path.to_str() {
        Some(_) => Ok(path),
        None => Err("the name is not UTF-8, and trace.json could not hold it: rename it"),
    })
}

impl Value for bool {
    fn read(value: &Json) -> Result<Self, Refusal> {
        value.as_bool().ok_or_else(|| Refusal::Type {
            wanted: "true or false",
            usual: true.into(),
        })
    }

    fn to_json(&self) -> Json {
        (*self).into()
    }

    fn argument(argument: Arg) -> Arg {
        argument.action(ArgAction::SetTrue)
    }

    fn given(matches: &ArgMatches, facts: &Facts) -> Option<Self> {
        let is_given = matches.value_source(facts.name) == Some(ValueSource::CommandLine);
        is_given.then_some(!facts.switches_off)
    }

    fn differs(&self, default: Option<&Self>) -> bool {
        *self != default.copied().unwrap_or_default()
    }
}

/// Counts: whole numbers, from 0 or 1 on.
macro_rules! count {
    ($($type:ty: $wanted:literal;)*) => {
        $(impl Value for $type {
            fn read(value: &Json) -> Result<Self, Refusal> {
                let number = value.as_u64().and_then(|number| number.try_into().ok());
                number.ok_or_else(|| Refusal::Type {
                    wanted: $wanted,
                    usual: 1.into(),
                })
            }

            fn to_json(&self) -> Json {
                serde_json::json!(self)
            }

            fn argument(argument: Arg) -> Arg {
                argument.allow_hyphen_values(true).value_parser(count::<Self>)
            }
        })*
    };
}

count! {
    usize: "a whole number from 0 on, without quotes";
    u64: "a whole number from 0 on, without quotes";
    u32: "a whole number from 0 to 4294967295, without quotes";
    NonZeroU64: "a whole number from 1 on, without quotes";
}

/// Reads a count.
pub(crate) fn count<N: FromStr>(text: &str) -> Result<N, &'static str> {
    text.parse().map_err(|_| match text.parse() {
        Ok(0) => "it must not be 0",
        _ => "it must be a whole number, and must not be negative",
    })
}

/// Lists: from a repeated flag, or from commas in one.
macro_rules! list {
    ($($type:ty, $argument:expr;)*) => {
        $(impl Value for Vec<$type> {
            fn read(value: &Json) -> Result<Self, Refusal> {
                let list = value.as_array().into_iter().flatten();
                let list: Option<_> = list.map(|each| each.as_str().map(Into::into)).collect();
                list.filter(|_| value.is_array()).ok_or_else(|| Refusal::Type {
                    wanted: "a list",
                    usual: vec!["…"].into(),
                })
            }

            fn to_json(&self) -> Json {
                self.iter().map(Value::to_json).collect()
            }

            fn argument(argument: Arg) -> Arg {
                $argument(argument).action(ArgAction::Append)
            }

            fn differs(&self, default: Option<&Self>) -> bool {
                *self != default.cloned().unwrap_or_default()
            }

            fn given(matches: &ArgMatches, facts: &Facts) -> Option<Self> {
                let also = facts.also.map(|(_, long, _)| long);
                let ids = [Some(facts.name), also].into_iter().flatten();
                let all: Vec<_> = ids
                    .filter_map(|id| matches.get_many::<$type>(id))
                    .flatten()
                    .cloned()
                    .collect();
                (!all.is_empty()).then_some(all)
            }
        })*
    };
}

list! {
    String, String::argument;
    PathBuf, PathBuf::argument;
}

/// How long a run lasts: a time, or dumpcap's `duration:SECONDS`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Duration(Time);

impl Duration {
    pub(crate) fn get(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0.value.unsigned_abs())
    }

    /// Reads `60s`, `duration:60` or `duration:60s`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let time = match text.split_once(':') {
            None => Time::parse(text),
            Some(("duration", seconds)) if seconds.parse::<f64>().is_ok() => {
                Time::parse(&format!("{seconds}s"))
            }
            Some(("duration", time)) => Time::parse(time),
            Some(_) => Err("write a time, e.g. 60s, or duration:60".to_owned()),
        };
        let time = time?;
        match time.value {
            0 => Err("nothing lasts for no time: give 1s or more".to_owned()),
            _ => Ok(Self(time)),
        }
    }
}

impl Value for Duration {
    fn read(value: &Json) -> Result<Self, Refusal> {
        Self::parse(text(value)?).map_err(Refusal::Value)
    }

    fn to_json(&self) -> Json {
        self.0.to_json()
    }

    fn argument(argument: Arg) -> Arg {
        argument.allow_hyphen_values(true).value_parser(Self::parse)
    }
}

/// A value with a unit, and its original text, which `trace.json` keeps.
macro_rules! with_unit {
    ($($(#[$meta:meta])* $name:ident($type:ty) = $parse:expr;)*) => {
        $($(#[$meta])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name {
            text: String,
            value: $type,
        }

        // 1MiB is 1024KiB.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.value == other.value
            }
        }

        impl $name {
            pub(crate) fn parse(text: &str) -> Result<Self, String> {
                let value = $parse(text)?;
                Ok(Self { text: text.to_owned(), value })
            }

            pub(crate) fn get(&self) -> $type {
                self.value
            }
        }

        impl Value for $name {
            fn read(value: &Json) -> Result<Self, Refusal> {
                Self::parse(text(value)?).map_err(Refusal::Value)
            }

            fn to_json(&self) -> Json {
                self.text.as_str().into()
            }

            fn argument(argument: Arg) -> Arg {
                argument.allow_hyphen_values(true).value_parser(Self::parse)
            }
        })*
    };
}

with_unit! {
    /// A time, in nanoseconds: `2ms`.
    Time(i64) = |text: &str| {
        let ns = parse_duration(text).map_err(|error| error.to_string())?;
        i64::try_from(ns).map_err(|_| format!("{text} is longer than 292 years"))
    };
    /// A size, in bytes: `64KiB`.
    Size(usize) = parse_size;
}

impl Time {
    pub(crate) fn of_ns(ns: i64) -> Self {
        Self {
            text: format_duration(ns.unsigned_abs()),
            value: ns,
        }
    }
}

impl Size {
    pub(crate) fn of_kib(bytes: usize) -> Self {
        Self {
            text: format!("{}KiB", bytes >> 10),
            value: bytes,
        }
    }

    pub(crate) fn of_mib(bytes: usize) -> Self {
        Self {
            text: format!("{}MiB", bytes >> 20),
            value: bytes,
        }
    }
}
