//! The key of services: words, and tables of a file.

use clap::{Arg, ArgAction, ArgMatches};
use serde_json::Value as Json;

use crate::config::{Facts, Refusal, Value};

/// The words of a service; in a file, a text or a table `[[forward.service]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceWords(pub(crate) String);

impl Value for Vec<ServiceWords> {
    fn read(value: &Json) -> Result<Self, Refusal> {
        let refused = || Refusal::Type {
            wanted: "a list of services, each a text or a table",
            usual: serde_json::json!(["tcp 10.9.1.100:80 to 10.9.2.2:8080"]),
        };
        let list = value.as_array().ok_or_else(refused)?;
        let one = |value: &Json| match value {
            Json::String(text) => Ok(ServiceWords(text.clone())),
            Json::Object(table) => ServiceWords::of_table(table).map_err(Refusal::Value),
            _ => Err(refused()),
        };
        list.iter().map(one).collect()
    }

    fn to_json(&self) -> Json {
        self.iter()
            .map(|words| Json::from(words.0.as_str()))
            .collect()
    }

    fn argument(argument: Arg) -> Arg {
        argument.action(ArgAction::Append)
    }

    fn given(matches: &ArgMatches, facts: &Facts) -> Option<Self> {
        let texts = matches.get_many::<String>(facts.name)?;
        Some(texts.cloned().map(ServiceWords).collect())
    }

    fn differs(&self, default: Option<&Self>) -> bool {
        *self != default.cloned().unwrap_or_default()
    }
}

impl ServiceWords {
    /// The words of a table: its keys are `transport`, `address`, `nodes` and the options.
    fn of_table(table: &serde_json::Map<String, Json>) -> Result<Self, String> {
        let text = |key: &str| {
            let text = table.get(key).and_then(Json::as_str);
            text.ok_or_else(|| format!("a service lacks {key}: write {key} = \"...\""))
        };
        let nodes = table.get("nodes").and_then(Json::as_array);
        let nodes = nodes.ok_or("a service lacks its nodes: write nodes = [\"10.9.2.2:8080\"]")?;
        let nodes = nodes.iter().map(|node| {
            let node = node.as_str();
            node.ok_or_else(|| "a node is a text, such as \"10.9.2.2:8080 weight 3\"".to_owned())
        });
        let nodes: Vec<&str> = nodes.collect::<Result<_, _>>()?;
        let transport = table
            .get("transport")
            .and_then(Json::as_str)
            .unwrap_or("tcp");
        let mut words = format!("{transport} {} to {}", text("address")?, nodes.join(", "));
        for (key, value) in table {
            if ["transport", "address", "nodes"].contains(&key.as_str()) {
                continue;
            }
            let key = key.replace('_', "-");
            match value {
                Json::Bool(true) => words += &format!("; {key}"),
                Json::Bool(false) => {}
                Json::String(value) => words += &format!("; {key} {value}"),
                other => return Err(format!("service.{key}: {other} is not a text in quotes")),
            }
        }
        Ok(Self(words))
    }
}

#[cfg(test)]
mod tests {
    use lineside_forward::settings::service;

    use super::*;

    #[test]
    fn words_and_tables_say_the_same_service() {
        let words = "tcp 10.9.1.100:80 to 10.9.2.2:8080 weight 3, 10.9.2.3:8080; \
                     check http /ok every 2s; choose least; keep-client";
        let table = serde_json::json!({
            "address": "10.9.1.100:80",
            "nodes": ["10.9.2.2:8080 weight 3", "10.9.2.3:8080"],
            "check": "http /ok every 2s",
            "choose": "least",
            "keep_client": true,
        });
        let table = ServiceWords::of_table(table.as_object().expect("a table")).expect("whole");
        let one = service(words).expect("right");
        let other = service(&table.0).expect("right");
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
        assert_eq!(
            one.nodes.iter().map(|node| node.weight).collect::<Vec<_>>(),
            [3, 1]
        );
        assert_eq!(one.health.expect("asked for").interval, 2_000_000_000);
        assert!(one.keeps_client);
    }
}
