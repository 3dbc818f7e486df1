//! Metrics: numbers that are read off what a node left.

use regex_lite::Regex;
use serde_json::Value;

use crate::keys::{Keys, Text};
use crate::{Ended, LabError};

/// A number of a node, once a run.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Its name, which no other one of the lab has.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// Which direction is better, if one is.
    pub better: Option<Better>,
    /// Its unit, as it is shown.
    pub unit: String,
}

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Greater ones.
    More,
    /// Smaller ones.
    Less,
}

/// Where a metric comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A number at this pointer of the JSON document on standard output (RFC 6901).
    Json(String),
    /// The group of an expression that matches standard output once, or standard error.
    Expression {
        /// The expression, with one group.
        expression: Regex,
        /// Whether standard error is searched.
        is_error: bool,
    },
    /// The exit status.
    Exit,
    /// Seconds until the command ended.
    Elapsed,
    /// Seconds of processor time of all that the node ran.
    Cpu,
}

const KNOWN: [&str; 8] = [
    "json", "regex", "exit", "elapsed", "cpu", "better", "unit", "from",
];

impl Metric {
    pub(crate) fn read(name: String, keys: Keys<'_>, text: Text<'_>) -> Result<Self, LabError> {
        let keys = keys.only(&KNOWN)?;
        let better = keys.read("better", |word| match word {
            "more" => Ok(Better::More),
            "less" => Ok(Better::Less),
            other => Err(format!("'{other}' is unknown: write more or less")),
        })?;
        let from = keys.read("from", |word| match word {
            "out" => Ok(false),
            "err" => Ok(true),
            other => Err(format!("'{other}' is unknown: write out or err")),
        })?;
        let mut sources = Vec::new();
        let json = keys.read("json", |pointer| match pointer.starts_with('/') {
            true => Ok(Source::Json(pointer.to_owned())),
            false => Err(format!(
                "'{pointer}': a pointer begins with /, as /rates/answered"
            )),
        })?;
        sources.extend(json);
        sources.extend(keys.read("regex", |words| expression(words, from == Some(true)))?);
        for (key, source) in [
            ("exit", Source::Exit),
            ("elapsed", Source::Elapsed),
            ("cpu", Source::Cpu),
        ] {
            sources.extend((keys.truth(key)? == Some(true)).then_some(source));
        }
        let unit = keys.text("unit")?.map(|(unit, _)| unit);
        let is_odd = from.is_some() && !matches!(sources[..], [Source::Expression { .. }]);
        if is_odd {
            return Err(keys.wrong("from", "it is for regex alone"));
        }
        let mut sources = sources.into_iter();
        let (Some(source), None) = (sources.next(), sources.next()) else {
            let why = "give one of json, regex, exit, elapsed and cpu";
            return Err(text.wrong(keys.place(""), format!("metric {name}: {why}")));
        };
        let of_source = match source {
            Source::Elapsed | Source::Cpu => "s",
            _ => "",
        };
        Ok(Self {
            name,
            source,
            better,
            unit: unit.unwrap_or_else(|| of_source.to_owned()),
        })
    }

    /// Its value. The error says what was found instead.
    pub(crate) fn value(&self, ended: &Ended, out: &str, err: &str) -> Result<f64, String> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        match &self.source {
            Source::Json(pointer) => of_json(pointer, out),
            Source::Expression {
                expression,
                is_error,
            } => of_expression(expression, if *is_error { err } else { out }),
            Source::Exit => { ended.status.map(f64::from) }
                .ok_or_else(|| "it has no exit status: a signal ended it".to_owned()),
            Source::Elapsed => { ended.elapsed_ns.map(seconds) }
                .ok_or_else(|| "it had not ended by itself".to_owned()),
            Source::Cpu => { ended.cpu_ns.map(seconds) }
                .ok_or_else(|| "its processor time is not known".to_owned()),
        }
    }
}

fn expression(words: &str, is_error: bool) -> Result<Source, String> {
    let expression = Regex::new(words).map_err(|error| error.to_string())?;
    match expression.captures_len() {
        2 => Ok(Source::Expression {
            expression,
            is_error,
        }),
        count => Err(format!(
            "it has {} groups: put the number alone in one, as in 'rate: ([0-9.]+)'",
            count - 1
        )),
    }
}

fn of_json(pointer: &str, out: &str) -> Result<f64, String> {
    // A program may print lines before its document.
    let begin = out.find('{').map_or(out, |at| &out[at..]);
    let mut documents = serde_json::Deserializer::from_str(begin).into_iter::<Value>();
    let Some(Ok(document)) = documents.next() else {
        return Err("its standard output has no JSON document".to_owned());
    };
    if documents.next().is_some_and(|next| next.is_ok()) {
        return Err("its standard output has several JSON documents".to_owned());
    }
    match document.pointer(pointer) {
        None => Err(format!("its JSON has nothing at {pointer}")),
        Some(Value::Number(number)) => number
            .as_f64()
            .ok_or_else(|| format!("{number} is out of range")),
        Some(Value::Bool(truth)) => Ok(f64::from(u8::from(*truth))),
        Some(other) => Err(format!("{pointer} is no number: {other}")),
    }
}

fn of_expression(expression: &Regex, text: &str) -> Result<f64, String> {
    let mut matches = expression.captures_iter(text);
    let Some(first) = matches.next() else {
        return Err(format!("'{expression}' matches nothing"));
    };
    if matches.next().is_some() {
        return Err(format!("'{expression}' matches more than once"));
    }
    let number = first.get(1).map_or("", |group| group.as_str());
    let parsed = number.replace(',', "").parse::<f64>();
    parsed.map_err(|_| format!("'{number}' is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_matches_once_or_says_what_it_found() {
        let of = |words: &str, text: &str| match expression(words, false) {
            Ok(Source::Expression { expression, .. }) => of_expression(&expression, text),
            other => panic!("{other:?}"),
        };
        assert_eq!(of("rate: ([0-9.,]+)", "rate: 1,234.5 /s"), Ok(1234.5));
        let twice = of("rate: ([0-9]+)", "rate: 1\nrate: 2").expect_err("two");
        assert!(twice.contains("more than once"), "{twice}");
        let none = of("rate: ([0-9]+)", "nothing").expect_err("none");
        assert!(none.contains("matches nothing"), "{none}");
        assert!(expression("no group", false).is_err());
        assert!(expression("(one) (two)", false).is_err());
        let json = "starting\n{\"rates\": {\"answered\": 5, \"name\": \"x\"}}\n";
        assert_eq!(of_json("/rates/answered", json), Ok(5.0));
        assert!(of_json("/rates/name", json).is_err());
        assert!(of_json("/rates/none", json).is_err());
        assert!(of_json("/a", "{\"a\":1}{\"a\":2}").is_err());
        assert!(of_json("/a", "no document").is_err());
    }
}
