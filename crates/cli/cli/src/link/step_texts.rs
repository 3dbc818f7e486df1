//! The key of steps: texts, and tables of a file.

use lineside_words::nearest;
use serde_json::Value as Json;

use crate::config::{Facts, Refusal, Value};

/// The words of all steps, as flags and keys give them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StepTexts(pub(crate) Vec<String>);

impl Value for StepTexts {
    fn read(value: &Json) -> Result<Self, Refusal> {
        let one = std::slice::from_ref(value);
        let list = value.as_array().map_or(one, Vec::as_slice);
        let texts = list.iter().map(step_text);
        Ok(Self(texts.collect::<Result<_, _>>()?))
    }

    fn to_json(&self) -> Json {
        self.0
            .iter()
            .map(|text| Json::from(text.as_str()))
            .collect()
    }

    fn argument(argument: clap::Arg) -> clap::Arg {
        argument.action(clap::ArgAction::Append)
    }

    fn differs(&self, default: Option<&Self>) -> bool {
        *self != default.cloned().unwrap_or_default()
    }

    fn given(matches: &clap::ArgMatches, facts: &Facts) -> Option<Self> {
        let texts = matches.get_many::<String>(facts.name)?;
        Some(Self(texts.cloned().collect()))
    }
}

/// A step of a file: a text as on the command line, or a table with `when` and `do`.
fn step_text(value: &Json) -> Result<String, Refusal> {
    let wrong = |why: String| Refusal::Value(format!("step: {why}"));
    let table = match value {
        Json::String(text) => return Ok(text.clone()),
        Json::Object(table) => table,
        other => {
            return Err(wrong(format!(
                "{other} is not a step: write when = \"at 5s for 2s\" and do = \"link down\" \
                below [[emulate.step]]"
            )));
        }
    };
    if let Some(key) = table
        .keys()
        .find(|key| !["when", "do"].contains(&key.as_str()))
    {
        let nearest = nearest(key, ["when", "do"]);
        return Err(wrong(format!(
            "'{key}' is not a key of a step; the nearest known one is {nearest}"
        )));
    }
    let texts = |key: &str| {
        let value = table.get(key).unwrap_or(&Json::Null);
        let one = std::slice::from_ref(value);
        let list = value.as_array().map_or(one, Vec::as_slice);
        let texts: Option<Vec<_>> = list.iter().map(Json::as_str).collect();
        texts.ok_or_else(|| wrong(format!("{key} = {value} is not a text in quotes")))
    };
    Ok(format!(
        "{}: {}",
        texts("when")?.join(" "),
        texts("do")?.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_a_file_is_a_text_or_a_table() {
        let value = serde_json::json!([
            "at 1s: end",
            {"when": "at 5s", "do": ["link down", "mark x"]},
            {"when": "every 2s", "do": "loss 3%"},
        ]);
        let StepTexts(texts) = StepTexts::read(&value).expect("steps");
        assert_eq!(
            texts,
            [
                "at 1s: end",
                "at 5s: link down; mark x",
                "every 2s: loss 3%"
            ]
        );
        for wrong in [
            serde_json::json!(3),
            serde_json::json!([{"when": 5, "do": "end"}]),
            serde_json::json!([{"when": "at 5s"}]),
            serde_json::json!([{"wen": "at 5s", "do": "end"}]),
        ] {
            assert!(
                matches!(StepTexts::read(&wrong), Err(Refusal::Value(_))),
                "{wrong}"
            );
        }
    }
}
