//! `--sandbox`: whether what others wrote is read in a sandbox.

use clap::{Arg, ArgAction, ArgMatches};
use lineside_host::Sandbox;
use lineside_words::nearest;
use serde_json::Value as Json;

use super::ConfigError;
use super::facts::Facts;
use super::value::{Refusal, Value};

/// The id of `--no-sandbox`, which says `--sandbox off`.
const BEFORE: &str = "no_sandbox";

/// Whether a run is in a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Sandboxing {
    /// As far as the kernel has one, with a warning where it lacks a part.
    #[default]
    On,
    /// A sandbox that is not whole is an error.
    Require,
    Off,
}

impl Sandboxing {
    /// The default first.
    pub(crate) const WORDS: [&str; 3] = ["on", "require", "off"];
    /// How runs without one are recorded.
    pub(crate) const NONE: &str = "--sandbox off";

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "require" => Ok(Self::Require),
            "off" => Ok(Self::Off),
            other => Err(format!(
                "it is unknown; the nearest known one is {}",
                nearest(other, Self::WORDS)
            )),
        }
    }

    /// What a key `no_sandbox` says.
    pub(crate) fn of_no_sandbox(value: &Json) -> Json {
        match value {
            Json::Bool(is_off) => Json::Bool(!is_off),
            other => other.clone(),
        }
    }

    /// Fails if a sandbox is required and drop-ins, which run outside, are wanted too.
    pub(crate) fn with_drop_ins(self, has_drop_ins: bool) -> Result<(), ConfigError> {
        match self {
            Self::Require if has_drop_ins => Err(ConfigError::usage(
                "--sandbox require: the programs of --drop-in need more than a sandbox allows: \
                leave out one of the two",
            )),
            _ => Ok(()),
        }
    }

    /// The sandbox to enter, if one is wanted.
    pub(crate) fn applied(self, sandbox: Sandbox) -> Option<Sandbox> {
        match self {
            Self::On => Some(sandbox),
            Self::Require => Some(sandbox.required()),
            Self::Off => None,
        }
    }
}

impl Value for Sandboxing {
    fn read(value: &Json) -> Result<Self, Refusal> {
        match value {
            // As `[capture]` had it.
            Json::Bool(true) => Ok(Self::On),
            Json::Bool(false) => Ok(Self::Off),
            Json::String(text) => Self::parse(text).map_err(Refusal::Value),
            _ => Err(Refusal::Type {
                wanted: "on, require or off in quotes",
                usual: "on".into(),
            }),
        }
    }

    fn to_json(&self) -> Json {
        Self::WORDS[*self as usize].into()
    }

    fn argument(argument: Arg) -> Arg {
        argument.value_parser(Self::parse)
    }

    fn argument_before() -> Option<Arg> {
        let argument = Arg::new(BEFORE).long("no-sandbox");
        let argument = argument.action(ArgAction::SetTrue).hide(true);
        Some(argument.help("The same as --sandbox off"))
    }

    fn given(matches: &ArgMatches, facts: &Facts) -> Option<Self> {
        let word = matches.get_one::<Self>(facts.name).copied();
        word.or_else(|| matches.get_flag(BEFORE).then_some(Self::Off))
    }
}
