//! Whether a text has the fields of a form: all of them, and no others.

use serde_json::Value;

/// Fields by which a value differs from the same one as this version writes it, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) unknown: Vec<String>,
    pub(crate) missing: Vec<String>,
}

impl Differences {
    pub(crate) fn between(given: &Value, own: &Value) -> Self {
        let mut differences = Self::default();
        differences.find("", given, own);
        differences
    }

    fn find(&mut self, path: &str, given: &Value, own: &Value) {
        let within = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        match (given, own) {
            (Value::Object(given), Value::Object(own)) => {
                for (name, value) in given {
                    match own.get(name) {
                        Some(own) => self.find(&within(name), value, own),
                        None => self.unknown.push(within(name)),
                    }
                }
                let missing = own.keys().filter(|name| !given.contains_key(*name));
                self.missing.extend(missing.map(|name| within(name)));
            }
            // serde reads a list as an object whose fields have no names.
            (Value::Array(_), Value::Object(own)) => {
                self.missing.extend(own.keys().map(|name| within(name)));
            }
            (Value::Array(given), Value::Array(own)) => {
                for (at, (given, own)) in given.iter().zip(own).enumerate() {
                    self.find(&format!("{path}[{at}]"), given, own);
                }
            }
            _ => {}
        }
    }
}
