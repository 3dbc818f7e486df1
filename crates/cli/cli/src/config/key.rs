//! A key of a verb, declared once.
//!
//! ```text
//!               ┌─► clap arguments (help, completions, man pages) ─► flags ─┐
//!  keys! { … } ─┤                                a file's section ──────────┼─► trace.json
//!               └─► defaults ───────────────────────────────────────────────┘
//! ```
//!
//! A verb's keys are the fields of a struct that [`keys!`] makes. Each is `None` if it was not set.
//! The values that a key allows follow from its type (`config/value.rs`), so a wrong one is refused
//! where it is read: as a flag, or as a line of a file. Combinations of keys are not checked here,
//! but by the verb's settings.

use clap::{Arg, ArgMatches};
use lineside_words::nearest;
use serde_json::{Map, Value as Json};

use super::facts::{ALL, Facts, Modes};
use super::value::{Refusal, Value};

/// The declaration of a key whose values are `T`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key<T> {
    pub(crate) facts: Facts,
    default: Option<fn() -> T>,
}

/// A key without a flag and without a default; `help` describes it.
pub(crate) const fn key<T>(help: &'static str) -> Key<T> {
    Key {
        facts: Facts {
            name: "",
            help,
            help_made: None,
            short: None,
            long: None,
            long_before: &[],
            short_before: None,
            name_before: None,
            positional: false,
            trailing: false,
            value_name: "",
            commas: false,
            hyphens: false,
            takes_one: false,
            switches_off: false,
            also: None,
            example: None,
            modes: ALL,
            words: None,
        },
        default: None,
    }
}

impl<T> Key<T> {
    pub(crate) const fn named(mut self, name: &'static str) -> Self {
        self.facts.name = name;
        self
    }

    /// The help is made of what there is.
    pub(crate) const fn help_made(mut self, help: fn() -> String) -> Self {
        self.facts.help_made = Some(help);
        self
    }

    pub(crate) const fn short(mut self, short: char) -> Self {
        self.facts.short = Some(short);
        self
    }

    pub(crate) const fn long(mut self, long: &'static str) -> Self {
        self.facts.long = Some(long);
        self
    }

    /// Long words that the flag had before.
    pub(crate) const fn long_before(mut self, words: &'static [&'static str]) -> Self {
        self.facts.long_before = words;
        self
    }

    /// The letter that the flag had before.
    pub(crate) const fn short_before(mut self, short: char) -> Self {
        self.facts.short_before = Some(short);
        self
    }

    /// The name that the key had before, with values as they are now.
    pub(crate) const fn name_before(self, name: &'static str) -> Self {
        self.name_and_value_before(name, Json::clone)
    }

    /// The same; `now` says what a value of then is now.
    pub(crate) const fn name_and_value_before(
        mut self,
        name: &'static str,
        now: fn(&Json) -> Json,
    ) -> Self {
        self.facts.name_before = Some((name, now));
        self
    }

    pub(crate) const fn value(mut self, name: &'static str) -> Self {
        self.facts.value_name = name;
        self
    }

    pub(crate) const fn positional(mut self) -> Self {
        self.facts.positional = true;
        self
    }

    pub(crate) const fn trailing(mut self) -> Self {
        self.facts.trailing = true;
        self
    }

    pub(crate) const fn commas(mut self) -> Self {
        self.facts.commas = true;
        self
    }

    pub(crate) const fn hyphens(mut self) -> Self {
        self.facts.hyphens = true;
        self
    }

    pub(crate) const fn or_one(mut self) -> Self {
        self.facts.takes_one = true;
        self
    }

    pub(crate) const fn off(mut self) -> Self {
        self.facts.switches_off = true;
        self
    }

    pub(crate) const fn also(
        mut self,
        short: char,
        long: &'static str,
        help: &'static str,
    ) -> Self {
        self.facts.also = Some((short, long, help));
        self
    }

    pub(crate) const fn example(mut self, example: &'static str) -> Self {
        self.facts.example = Some(example);
        self
    }

    pub(crate) const fn only(mut self, modes: Modes) -> Self {
        self.facts.modes = modes;
        self
    }

    pub(crate) const fn words(mut self, words: fn() -> Vec<&'static str>) -> Self {
        self.facts.words = Some(words);
        self
    }

    pub(crate) const fn default(mut self, default: fn() -> T) -> Self {
        self.default = Some(default);
        self
    }
}

impl<T: Value> Key<T> {
    pub(crate) fn arguments(&self) -> Vec<Arg> {
        let facts = &self.facts;
        if !facts.has_flag() {
            return Vec::new();
        }
        let of = |id: &'static str| {
            let argument = T::argument(Arg::new(id));
            match facts.value_name {
                "" => argument,
                name => argument.value_name(name),
            }
        };
        let mut first = of(facts.name).help(facts.help());
        if first.get_action().takes_values()
            && let Some(default) = self.default_text()
        {
            first = first.help(format!("{} [default: {default}]", facts.help()));
        }
        first = match facts.short {
            Some(short) => first.short(short),
            None => first,
        };
        first = match facts.long {
            Some(long) => first.long(long),
            None => first,
        };
        first = first.aliases(facts.long_before);
        first = match facts.short_before {
            Some(short) => first.short_alias(short),
            None => first,
        };
        if facts.hyphens {
            first = first.allow_hyphen_values(true);
        }
        if facts.commas {
            first = first.value_delimiter(',');
        }
        if facts.positional || facts.trailing {
            first = first.num_args(1..).last(facts.trailing);
        }
        let also = facts.also.map(|(short, long, help)| {
            let argument = of(long).help(help);
            argument.short(short).long(long)
        });
        let all = [Some(first), also, T::argument_before()];
        all.into_iter().flatten().collect()
    }

    /// The default as it would be given; `None` if it is that nothing is given.
    fn default_text(&self) -> Option<String> {
        let text = match self.default?().to_json() {
            Json::String(text) => text,
            Json::Array(list) => {
                let texts: Vec<&str> = list.iter().filter_map(Json::as_str).collect();
                texts.join(",")
            }
            Json::Null => String::new(),
            other => other.to_string(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// The value of its flags, if one was given.
    pub(crate) fn given(&self, matches: &ArgMatches) -> Option<T> {
        if !self.facts.has_flag() {
            return None;
        }
        T::given(matches, &self.facts)
    }

    /// The default, if it has a meaning in one of these modes.
    pub(crate) fn default_in(&self, modes: Modes) -> Option<T> {
        let default = self.default.filter(|_| self.facts.modes & modes != 0);
        default.map(|default| default())
    }

    /// Reads the value from a file. The error for a wrong value shows a valid one.
    pub(crate) fn read(&self, value: &Json) -> Result<Option<T>, String> {
        if value.is_null() {
            return Ok(None);
        }
        let one = Json::Array(vec![value.clone()]);
        let value = match value {
            Json::String(_) if self.facts.takes_one => &one,
            value => value,
        };
        T::read(value).map(Some).map_err(|refusal| match refusal {
            Refusal::Value(why) => why,
            Refusal::Type { wanted, usual } => {
                let default = self.default.map(|default| default().to_json());
                let example = match self.facts.example {
                    Some(text) if usual.is_array() => Json::from(vec![text]),
                    Some(text) => text.into(),
                    None => default.unwrap_or(usual),
                };
                let example = match example {
                    Json::Array(mut list) if self.facts.takes_one => list.swap_remove(0),
                    example => example,
                };
                let wanted = match self.facts.takes_one {
                    true => "a text in quotes, or a list of them",
                    false => wanted,
                };
                let name = self.facts.name;
                format!("{value} is not {wanted}: write {name} = {example}")
            }
        })
    }

    /// Whether a value requests something other than `default` does.
    pub(crate) fn is_asked(&self, value: Option<&T>, default: Option<&T>) -> bool {
        value.is_some_and(|value| value.differs(default))
    }

    /// Stores the value.
    pub(crate) fn write(&self, value: Option<&T>, out: &mut Map<String, Json>) {
        let value = value.map_or(Json::Null, T::to_json);
        out.insert(self.facts.name.to_owned(), value);
    }

    /// Fails if the value is not one of the allowed words.
    pub(crate) fn check_word(&self, value: Option<&T>) -> Result<(), String> {
        let (Some(words), Some(word)) = (self.facts.words, value.and_then(T::word)) else {
            return Ok(());
        };
        let known = words();
        if known.contains(&word) {
            return Ok(());
        }
        let nearest = nearest(word, known);
        let name = self.facts.name;
        Err(format!(
            "{name}: '{word}' is unknown; the nearest known one is {nearest}"
        ))
    }
}

/// All keys of a section, or a group of them, as [`keys!`] generates it.
pub(crate) trait Keys: Clone + Default {
    /// The declarations, in their order.
    fn declared() -> Vec<Facts>;
    fn arguments() -> Vec<Arg>;
    /// The values from the command line.
    fn given(matches: &ArgMatches) -> Self;
    /// Reads one key of a file; false if no key has this name.
    fn read(&mut self, name: &str, value: &Json) -> Result<bool, String>;
    /// These values; keys without a value take that of `below`.
    fn over(self, below: Self) -> Self;
    /// The defaults in these modes.
    fn defaults(modes: Modes) -> Self;
    /// Stores each key.
    fn write(&self, out: &mut Map<String, Json>);
    /// The first key whose value differs from `defaults` although it has no meaning in `mode`.
    fn refused_in(&self, mode: Modes, defaults: &Self) -> Option<Facts>;
    /// Fails if a key of these modes has a word that is not one of its allowed words.
    fn check_words(&self) -> Result<(), String>;
}

/// Declares keys: `name: Type = key("help").…;`, and between blocks of them, after `with`, other
/// groups of keys.
macro_rules! keys {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $($field:ident: $type:ty = $key:expr;)*
        }
        $(with $group:ident: $of:ty; {
            $($field2:ident: $type2:ty = $key2:expr;)*
        })*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        $visibility struct $name {
            $(pub(crate) $field: Option<$type>,)*
            $(pub(crate) $group: $of, $(pub(crate) $field2: Option<$type2>,)*)*
        }

        #[expect(non_upper_case_globals, reason = "a declaration has the name of its field")]
        mod declared {
            use super::*;
            $(pub(super) const $field: $crate::config::Key<$type> = $key.named(stringify!($field));)*
            $($(pub(super) const $field2: $crate::config::Key<$type2> = $key2.named(stringify!($field2));)*)*
        }

        impl $crate::config::Keys for $name {
            fn declared() -> Vec<$crate::config::Facts> {
                let own = [$(declared::$field.facts),*];
                let all = own.into_iter();
                $(let all = all.chain(<$of>::declared()).chain([$(declared::$field2.facts),*]);)*
                all.collect()
            }

            fn arguments() -> Vec<clap::Arg> {
                let mut all = Vec::new();
                $(all.extend(declared::$field.arguments());)*
                $(all.extend(<$of>::arguments()); $(all.extend(declared::$field2.arguments());)*)*
                all
            }

            fn given(matches: &clap::ArgMatches) -> Self {
                Self {
                    $($field: declared::$field.given(matches),)*
                    $($group: <$of>::given(matches), $($field2: declared::$field2.given(matches),)*)*
                }
            }

            fn read(&mut self, name: &str, value: &serde_json::Value) -> Result<bool, String> {
                match name {
                    $(stringify!($field) => self.$field = declared::$field.read(value)?,)*
                    $($(stringify!($field2) => self.$field2 = declared::$field2.read(value)?,)*)*
                    _ => {
                        let found: &[bool] = &[$(self.$group.read(name, value)?),*];
                        return Ok(found.contains(&true));
                    }
                }
                Ok(true)
            }

            fn over(self, below: Self) -> Self {
                Self {
                    $($field: self.$field.or(below.$field),)*
                    $($group: self.$group.over(below.$group), $($field2: self.$field2.or(below.$field2),)*)*
                }
            }

            fn defaults(modes: $crate::config::Modes) -> Self {
                Self {
                    $($field: declared::$field.default_in(modes),)*
                    $($group: <$of>::defaults(modes), $($field2: declared::$field2.default_in(modes),)*)*
                }
            }

            fn write(&self, out: &mut serde_json::Map<String, serde_json::Value>) {
                $(declared::$field.write(self.$field.as_ref(), out);)*
                $(self.$group.write(out); $(declared::$field2.write(self.$field2.as_ref(), out);)*)*
            }

            fn refused_in(&self, mode: $crate::config::Modes, defaults: &Self) -> Option<$crate::config::Facts> {
                let mut differing = Vec::new();
                $(if declared::$field.is_asked(self.$field.as_ref(), defaults.$field.as_ref()) {
                    differing.push(declared::$field.facts);
                })*
                $($(if declared::$field2.is_asked(self.$field2.as_ref(), defaults.$field2.as_ref()) {
                    differing.push(declared::$field2.facts);
                })*)*
                differing.into_iter().find(|facts| facts.modes & mode == 0)
            }

            fn check_words(&self) -> Result<(), String> {
                $(declared::$field.check_word(self.$field.as_ref())?;)*
                $($(declared::$field2.check_word(self.$field2.as_ref())?;)*)*
                Ok(())
            }
        }

        impl clap::Args for $name {
            fn augment_args(command: clap::Command) -> clap::Command {
                command.args(<Self as $crate::config::Keys>::arguments())
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                Self::augment_args(command)
            }
        }

        impl clap::FromArgMatches for $name {
            fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
                Ok(<Self as $crate::config::Keys>::given(matches))
            }

            fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
                let given = <Self as $crate::config::Keys>::given(matches);
                *self = $crate::config::Keys::over(given, self.clone());
                Ok(())
            }
        }
    };
}

pub(crate) use keys;
