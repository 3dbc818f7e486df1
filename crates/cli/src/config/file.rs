//! The sections of a configuration file, and layers of them.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ConfigError, nearest};

/// The sections of a file; each verb reads its own.
const SECTIONS: [&str; 2] = ["capture", "emulate"];

/// A verb's section: of a TOML file, or of the configuration in an earlier run's `trace.json`. `examples` are values of keys, for
/// messages.
pub(crate) fn read_section<S: Serialize + DeserializeOwned + Default>(
    path: &Path,
    name: &'static str,
    examples: &serde_json::Value,
) -> Result<S, ConfigError> {
    let at = |why: String| ConfigError(format!("{}: {why}", path.display()));
    if path.is_dir() {
        let json = path.join("trace.json");
        return Err(at(format!(
            "it is a folder: give --config {}",
            json.display()
        )));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| at(format!("cannot read the configuration: {error}")))?;
    let is_json = path
        .extension()
        .is_some_and(|extension| extension == "json");
    let value: serde_json::Value = if is_json {
        let manifest: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| at(error.to_string()))?;
        manifest.get("configuration").cloned().ok_or_else(|| {
            at("it has no \"configuration\": give a trace.json or a TOML file".to_owned())
        })?
    } else {
        toml::from_str(&text).map_err(|error| at(error.to_string().trim_end().to_owned()))?
    };
    check_keys(&value, &[], &SECTIONS).map_err(at)?;
    let Some(section) = value.get(name) else {
        return match is_json {
            true => Err(at(format!("it is of a run of another verb than {name}"))),
            false => Ok(S::default()),
        };
    };
    check_keys(section, &[name], &keys::<S>()).map_err(at)?;
    check_types::<S>(section, name, examples).map_err(at)?;
    serde_json::from_value(section.clone()).map_err(|error| at(error.to_string()))
}

/// A section, with what it leaves open taken from the one below.
pub(crate) fn layered<S: Serialize + DeserializeOwned>(above: S, below: &S) -> S {
    let (mut mine, theirs) = (to_map(&above), to_map(below));
    for (key, value) in theirs {
        if mine.get(&key).is_none_or(serde_json::Value::is_null) {
            mine.insert(key, value);
        }
    }
    serde_json::from_value(serde_json::Value::Object(mine)).expect("both are sections")
}

fn to_map(section: &impl Serialize) -> serde_json::Map<String, serde_json::Value> {
    match serde_json::to_value(section) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => unreachable!("a struct is an object"),
    }
}

fn keys<S: Serialize + Default>() -> Vec<String> {
    to_map(&S::default())
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

fn check_keys<K: AsRef<str>>(
    value: &serde_json::Value,
    within: &[&str],
    known: &[K],
) -> Result<(), String> {
    let Some(table) = value.as_object() else {
        return Err(format!(
            "{} is not a table of keys",
            if within.is_empty() {
                "the file"
            } else {
                within[0]
            }
        ));
    };
    for key in table.keys() {
        if !known.iter().any(|known| known.as_ref() == key) {
            let nearest = nearest(key, known.iter().map(AsRef::as_ref));
            let path = [within, &[key.as_str()]].concat().join(".");
            return Err(format!(
                "unknown key {path}; the nearest known one is {nearest}"
            ));
        }
    }
    Ok(())
}

/// Fails if a key has a value of another type than it takes, with an example of one that it does.
fn check_types<S: DeserializeOwned>(
    section: &serde_json::Value,
    name: &str,
    examples: &serde_json::Value,
) -> Result<(), String> {
    let fits = |key: &str, value: &serde_json::Value| {
        serde_json::from_value::<S>(serde_json::json!({ key: value })).is_ok()
    };
    let usual = ["…".into(), 1.into(), true.into(), ["…"][..].into()];
    for (key, value) in section.as_object().into_iter().flatten() {
        if fits(key, value) {
            continue;
        }
        let known = examples.get(key).filter(|value| !value.is_null());
        let example = { known.into_iter().chain(&usual) }.find(|example| fits(key, example));
        let example = example.cloned().unwrap_or_default();
        let wanted = match &example {
            serde_json::Value::String(_) => "a text in quotes, with its unit if it has one",
            serde_json::Value::Bool(_) => "true or false",
            serde_json::Value::Array(_) => "a list",
            _ if fits(key, &0.into()) => "a whole number from 0 on, without quotes",
            _ => "a whole number from 1 on, without quotes",
        };
        return Err(format!(
            "{name}.{key}: {value} is not {wanted}: write {key} = {example}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_names_its_nearest() {
        let value = serde_json::json!({ "late_windw": "2ms" });
        let error = check_keys(&value, &["capture"], &["inputs", "late_window", "memory"])
            .expect_err("unknown");
        assert_eq!(
            error,
            "unknown key capture.late_windw; the nearest known one is late_window"
        );
    }
}
