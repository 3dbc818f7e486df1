//! The declaration of a key, except its type and its default.

use serde_json::Value as Json;

/// Modes of a verb, a bit each.
pub(crate) type Modes = u8;
/// All modes.
pub(crate) const ALL: Modes = Modes::MAX;

/// What a value of an older key is now.
pub(crate) type ValueNow = fn(&Json) -> Json;

/// The declaration of a key, except its type and its default.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Its name in a file, and in `trace.json`.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// Makes the help, in place of that text.
    pub(crate) help_made: Option<fn() -> String>,
    pub(crate) short: Option<char>,
    pub(crate) long: Option<&'static str>,
    /// Long words that it had before: they are read, and no help lists them.
    pub(crate) long_before: &'static [&'static str],
    /// The same of its letter.
    pub(crate) short_before: Option<char>,
    /// A name that it had in files before, and what a value of that is now.
    pub(crate) name_before: Option<(&'static str, ValueNow)>,
    /// Whether it is the positional argument.
    pub(crate) positional: bool,
    /// Whether it takes everything after `--`.
    pub(crate) trailing: bool,
    /// The placeholder of the value in the help.
    pub(crate) value_name: &'static str,
    /// Whether a flag takes several values with commas between them.
    pub(crate) commas: bool,
    /// Whether a value may begin with a hyphen.
    pub(crate) hyphens: bool,
    /// Whether a file may have one text in place of a list.
    pub(crate) takes_one: bool,
    /// Whether the flag of a `bool` switches it off.
    pub(crate) switches_off: bool,
    /// Another flag that adds to the list, and its help.
    pub(crate) also: Option<(char, &'static str, &'static str)>,
    /// A value for messages, where there is no default.
    pub(crate) example: Option<&'static str>,
    /// The modes in which it has a meaning.
    pub(crate) modes: Modes,
    /// Its possible values, the default first; `None` if any text is allowed.
    pub(crate) words: Option<fn() -> Vec<&'static str>>,
}

impl Facts {
    pub(crate) fn help(&self) -> String {
        self.help_made
            .map_or_else(|| self.help.to_owned(), |make| make())
    }

    /// The flag as it is written: `-f`, `--delay`, `FILE`.
    pub(crate) fn flag(&self) -> String {
        match (self.short, self.long) {
            (Some(short), _) => format!("-{short}"),
            (None, Some(long)) => format!("--{long}"),
            (None, None) if self.trailing => format!("-- {}", self.value_name),
            (None, None) => self.value_name.to_owned(),
        }
    }

    /// Whether it can be given on the command line.
    pub(crate) fn has_flag(&self) -> bool {
        self.short.is_some() || self.long.is_some() || self.positional || self.trailing
    }
}
