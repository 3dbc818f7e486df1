//! The sections of a configuration file.

use std::path::Path;

use lineside_words::nearest;
use serde_json::{Map, Value};

use super::{ConfigError, Keys};

/// The sections of a file; each verb reads its own.
const SECTIONS: [&str; 4] = ["capture", "emulate", "forward", "load"];

/// A verb's section: of a TOML file, or of the configuration in an earlier run's `trace.json`.
pub(crate) fn from_file<K: Keys>(path: &Path, name: &'static str) -> Result<K, ConfigError> {
    let at = |why: String| ConfigError::new(format!("{}: {why}", path.display()));
    if path.is_dir() {
        let json = path.join("trace.json");
        return Err(at(format!(
            "it is a folder: give --config {}",
            json.display()
        )));
    }
    let is_json = path
        .extension()
        .is_some_and(|extension| extension == "json");
    let text = match is_json {
        true => lineside_trace::manifest_text(path),
        false => std::fs::read_to_string(path),
    };
    let text = text.map_err(|error| at(format!("cannot read the configuration: {error}")))?;
    if !is_json {
        return from_text(&text, name).map_err(at);
    }
    let manifest: Value = serde_json::from_str(&text).map_err(|error| at(error.to_string()))?;
    let value = manifest.get("configuration").ok_or_else(|| {
        at("it has no \"configuration\": give a trace.json or a TOML file".to_owned())
    })?;
    section(value, name)
        .map_err(at)?
        .ok_or_else(|| at(format!("it describes a run of another verb than {name}")))
}

/// A verb's section of the text of a TOML file.
pub(crate) fn from_text<K: Keys>(text: &str, name: &'static str) -> Result<K, String> {
    let value: Value =
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    Ok(section(&value, name)?.unwrap_or_default())
}

/// A verb's section, if it is there.
fn section<K: Keys>(value: &Value, name: &str) -> Result<Option<K>, String> {
    for key in table(value, &[])?.keys() {
        check_key(key, &[], &SECTIONS)?;
    }
    let section = value.get(name);
    section.map(|section| read_keys(section, name)).transpose()
}

/// The keys of a section.
pub(crate) fn read_keys<K: Keys>(section: &Value, name: &str) -> Result<K, String> {
    let declared = K::declared();
    let before = |key: &str| {
        let mut all = declared.iter();
        all.find_map(|facts| Some((facts.name, facts.name_before.filter(|it| it.0 == key)?.1)))
    };
    let known: Vec<_> = declared.iter().map(|facts| facts.name).collect();
    let mut keys = K::default();
    for (key, value) in table(section, &[name])? {
        let read = match before(key) {
            Some((now, _)) if section.get(now).is_some() => Err(format!(
                "it is {now} today, which is there too: leave it out"
            )),
            Some((now, value_now)) => keys.read(now, &value_now(value)),
            None => {
                check_key(key, &[name], &known)?;
                keys.read(key, value)
            }
        };
        read.map_err(|why| format!("{name}.{key}: {why}"))?;
    }
    Ok(keys)
}

/// The resolved configuration of a verb as `trace.json` contains it, for another run.
pub(crate) fn to_json(name: &str, keys: &impl Keys) -> Value {
    let mut section = Map::new();
    keys.write(&mut section);
    serde_json::json!({ name: section })
}

fn table<'a>(value: &'a Value, within: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let what = within.first().unwrap_or(&"the file");
    let table = value.as_object();
    table.ok_or_else(|| format!("{what} is not a table of keys"))
}

fn check_key(key: &str, within: &[&str], known: &[&str]) -> Result<(), String> {
    if known.contains(&key) {
        return Ok(());
    }
    let nearest = nearest(key, known.iter().copied());
    let path = [within, &[key]].concat().join(".");
    Err(format!(
        "unknown key {path}; the nearest known one is {nearest}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_names_its_nearest() {
        let known = ["inputs", "late_window", "memory"];
        let error = check_key("late_windw", &["capture"], &known).expect_err("unknown");
        assert_eq!(
            error,
            "unknown key capture.late_windw; the nearest known one is late_window"
        );
    }
}
