//! Keys that protocols of a load declare, as flags and keys of a section.

use clap::{Arg, ArgMatches};
use lineside_load::protocol::{Key as Declaration, KeyKind, keys as declarations};
use serde_json::{Map, Value as Json};

use crate::config::{Facts, Key, Keys, Modes, Value, key};

/// The keys of all protocols: those that were set, as a file has them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProtocolKeys(pub(crate) Map<String, Json>);

/// The heading of each key in help, below those that its page names.
pub(crate) fn protocol_headings() -> Vec<(&'static str, &'static str)> {
    declarations().map(|key| (key.name, "Request")).collect()
}

/// A key, whatever the type of its values.
trait Declared {
    fn facts(&self) -> Facts;
    fn arguments(&self) -> Vec<Arg>;
    fn given(&self, matches: &ArgMatches) -> Option<Json>;
    fn read(&self, value: &Json) -> Result<Option<Json>, String>;
}

impl<T: Value> Declared for Key<T> {
    fn facts(&self) -> Facts {
        self.facts
    }

    fn arguments(&self) -> Vec<Arg> {
        Self::arguments(self)
    }

    fn given(&self, matches: &ArgMatches) -> Option<Json> {
        Some(Self::given(self, matches)?.to_json())
    }

    fn read(&self, value: &Json) -> Result<Option<Json>, String> {
        Ok(Self::read(self, value)?.map(|value| value.to_json()))
    }
}

fn all() -> impl Iterator<Item = Box<dyn Declared>> {
    declarations().map(|key| -> Box<dyn Declared> {
        match key.kind {
            KeyKind::Text => Box::new(of::<String>(key)),
            KeyKind::Texts => Box::new(of::<Vec<String>>(key).or_one()),
            KeyKind::Count => Box::new(of::<u32>(key)),
            KeyKind::Switch => Box::new(of::<bool>(key)),
        }
    })
}

fn of<T>(declared: &Declaration) -> Key<T> {
    let mut key = key(declared.help)
        .named(declared.name)
        .long(declared.long)
        .value(declared.value)
        .long_before(declared.long_before);
    key.facts.short = declared.short;
    key.facts.hyphens = declared.has_hyphens;
    key.facts.example = declared.example;
    match declared.name_before {
        Some(name) => key.name_before(name),
        None => key,
    }
}

impl Keys for ProtocolKeys {
    fn declared() -> Vec<Facts> {
        all().map(|key| key.facts()).collect()
    }

    fn arguments() -> Vec<Arg> {
        all().flat_map(|key| key.arguments()).collect()
    }

    fn given(matches: &ArgMatches) -> Self {
        let value = |key: Box<dyn Declared>| Some((key.facts().name.into(), key.given(matches)?));
        Self(all().filter_map(value).collect())
    }

    fn read(&mut self, name: &str, value: &Json) -> Result<bool, String> {
        let Some(key) = all().find(|key| key.facts().name == name) else {
            return Ok(false);
        };
        if let Some(value) = key.read(value)? {
            self.0.insert(name.to_owned(), value);
        }
        Ok(true)
    }

    fn over(self, below: Self) -> Self {
        let mut all = below.0;
        all.extend(self.0);
        Self(all)
    }

    fn defaults(_: Modes) -> Self {
        Self::default()
    }

    fn write(&self, out: &mut Map<String, Json>) {
        for facts in Self::declared() {
            let value = self.0.get(facts.name).cloned().unwrap_or_default();
            out.insert(facts.name.to_owned(), value);
        }
    }

    fn refused_in(&self, _: Modes, _: &Self) -> Option<Facts> {
        None
    }

    fn check_words(&self) -> Result<(), String> {
        Ok(())
    }
}
