//! The sections of a configuration file.

use std::path::Path;

use serde_json::Value;

use super::{ConfigError, Keys, nearest};

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
    let value: Value = if is_json {
        let manifest: Value = serde_json::from_str(&text).map_err(|error| at(error.to_string()))?;
        manifest.get("configuration").cloned().ok_or_else(|| {
            at("it has no \"configuration\": give a trace.json or a TOML file".to_owned())
        })?
    } else {
        toml::from_str(&text).map_err(|error| at(error.to_string().trim_end().to_owned()))?
    };
    check_keys(&value, &[], &SECTIONS).map_err(at)?;
    match value.get(name) {
        Some(section) => read_keys(section, name).map_err(at),
        None if is_json => Err(at(format!(
            "it describes a run of another verb than {name}"
        ))),
        None => Ok(K::default()),
    }
}

/// The keys of a section.
pub(crate) fn read_keys<K: Keys>(section: &Value, name: &str) -> Result<K, String> {
    let known: Vec<_> = K::declared().iter().map(|facts| facts.name).collect();
    check_keys(section, &[name], &known)?;
    let mut keys = K::default();
    for (key, value) in section.as_object().into_iter().flatten() {
        keys.read(key, value)
            .map_err(|why| format!("{name}.{key}: {why}"))?;
    }
    Ok(keys)
}

/// The resolved configuration of a verb as `trace.json` contains it, for another run.
pub(crate) fn to_json(name: &str, keys: &impl Keys) -> Value {
    let mut section = serde_json::Map::new();
    keys.write(&mut section);
    serde_json::json!({ name: section })
}

fn check_keys<K: AsRef<str>>(value: &Value, within: &[&str], known: &[K]) -> Result<(), String> {
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
