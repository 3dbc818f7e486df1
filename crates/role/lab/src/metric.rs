//! Metrics: numbers that are read off what a node left.

use regex_lite::Regex;
use serde_json::Value;

use crate::hdr::Quantile;
use crate::keys::{Keys, Text};
use crate::words::is_below;
use crate::{Ended, LabError};

/// A number of a node, once a run.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Its name, which no other one of the lab has.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// What is read for that, if something is.
    pub from: From,
    /// What is found, times this, is the value.
    pub scale: f64,
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
    /// A number at this pointer of the JSON document in a text (RFC 6901).
    Json(String),
    /// The group of an expression that matches a text once.
    Expression(Regex),
    /// A quantile of the log of histograms in a text, of the intervals with this tag.
    Histogram(Quantile, Option<String>),
    /// A figure of what the tap captured, in the words of assertions, and their place in the file.
    Tap(String, usize),
    /// The exit status.
    Exit,
    /// Seconds until the command ended.
    Elapsed,
    /// Seconds of processor time of all that the node ran.
    Cpu,
}

/// The text of a node that a metric reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
    /// A file in the node's folder.
    File(String),
}

const KNOWN: [&str; 12] = [
    "json", "regex", "hdr", "tap", "exit", "elapsed", "cpu", "better", "unit", "from", "tag",
    "scale",
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
            "out" => Ok(From::Out),
            "err" => Ok(From::Err),
            file if is_below(file) => Ok(From::File(file.to_owned())),
            other => Err(format!(
                "'{other}': write out, err, or a file in $LINESIDE_FILES"
            )),
        })?;
        let mut sources = Vec::new();
        let json = keys.read("json", |pointer| match pointer.starts_with('/') {
            true => Ok(Source::Json(pointer.to_owned())),
            false => Err(format!(
                "'{pointer}': a pointer begins with /, as /rates/answered"
            )),
        })?;
        sources.extend(json);
        sources.extend(keys.read("regex", expression)?);
        let tag = keys.text("tag")?.map(|(tag, _)| tag);
        let quantile = keys.read("hdr", Quantile::parse)?;
        sources.extend(quantile.map(|quantile| Source::Histogram(quantile, tag.clone())));
        sources.extend(keys.text("tap")?.map(|(words, at)| Source::Tap(words, at)));
        for (key, source) in [
            ("exit", Source::Exit),
            ("elapsed", Source::Elapsed),
            ("cpu", Source::Cpu),
        ] {
            sources.extend((keys.truth(key)? == Some(true)).then_some(source));
        }
        let unit = keys.text("unit")?.map(|(unit, _)| unit);
        let scale = keys.read("scale", |word| {
            let scale = word.parse().ok().filter(|scale: &f64| scale.is_normal());
            scale.ok_or_else(|| format!("'{word}' is no factor: write 1e-9, of ns to s"))
        })?;
        let mut sources = sources.into_iter();
        let (Some(source), None) = (sources.next(), sources.next()) else {
            let why = "give one of json, regex, hdr, tap, exit, elapsed and cpu";
            return Err(text.wrong(keys.place(""), format!("metric {name}: {why}")));
        };
        let is_of_text = match source {
            Source::Json(_) | Source::Expression(_) | Source::Histogram(..) => true,
            Source::Tap(..) | Source::Exit | Source::Elapsed | Source::Cpu => false,
        };
        if from.is_some() && !is_of_text {
            return Err(keys.wrong("from", "it is for json, regex and hdr"));
        }
        if tag.is_some() && !matches!(source, Source::Histogram(..)) {
            return Err(keys.wrong("tag", "it is for hdr alone"));
        }
        let of_source = match source {
            Source::Elapsed | Source::Cpu => "s",
            _ => "",
        };
        Ok(Self {
            name,
            source,
            from: from.unwrap_or(From::Out),
            scale: scale.unwrap_or(1.0),
            better,
            unit: unit.unwrap_or_else(|| of_source.to_owned()),
        })
    }

    /// Its value; `text` and `figure` are those of the run. The error says what was found instead.
    pub(crate) fn value(
        &self,
        ended: &Ended,
        text: impl FnOnce(&From) -> Result<String, String>,
        figure: impl FnOnce(&str) -> Result<f64, String>,
    ) -> Result<f64, String> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let found = match &self.source {
            Source::Json(pointer) => of_json(pointer, &text(&self.from)?, &self.from),
            Source::Expression(expression) => of_expression(expression, &text(&self.from)?),
            Source::Histogram(quantile, tag) => quantile.of(&text(&self.from)?, tag.as_deref()),
            Source::Tap(words, _) => figure(words),
            Source::Exit => { ended.status.map(f64::from) }
                .ok_or_else(|| "it has no exit status: a signal ended it".to_owned()),
            Source::Elapsed => { ended.elapsed_ns.map(seconds) }
                .ok_or_else(|| "it had not ended by itself".to_owned()),
            Source::Cpu => { ended.cpu_ns.map(seconds) }
                .ok_or_else(|| "its processor time is not known".to_owned()),
        };
        found.map(|found| found * self.scale)
    }
}

fn expression(words: &str) -> Result<Source, String> {
    let expression = Regex::new(words).map_err(|error| error.to_string())?;
    match expression.captures_len() {
        2 => Ok(Source::Expression(expression)),
        count => Err(format!(
            "it has {} groups: put the number alone in one, as in 'rate: ([0-9.]+)'",
            count - 1
        )),
    }
}

fn of_json(pointer: &str, text: &str, from: &From) -> Result<f64, String> {
    let name = match from {
        From::Out => "its standard output",
        From::Err => "its standard error",
        From::File(name) => name,
    };
    // A program may print lines before its document.
    let begin = text.find('{').map_or(text, |at| &text[at..]);
    let mut documents = serde_json::Deserializer::from_str(begin).into_iter::<Value>();
    let Some(Ok(document)) = documents.next() else {
        return Err(format!("{name} has no JSON document"));
    };
    if documents.next().is_some_and(|next| next.is_ok()) {
        return Err(format!("{name} has several JSON documents"));
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
        let of = |words: &str, text: &str| match expression(words) {
            Ok(Source::Expression(expression)) => of_expression(&expression, text),
            other => panic!("{other:?}"),
        };
        assert_eq!(of("rate: ([0-9.,]+)", "rate: 1,234.5 /s"), Ok(1234.5));
        let twice = of("rate: ([0-9]+)", "rate: 1\nrate: 2").expect_err("two");
        assert!(twice.contains("more than once"), "{twice}");
        let none = of("rate: ([0-9]+)", "nothing").expect_err("none");
        assert!(none.contains("matches nothing"), "{none}");
        assert!(expression("no group").is_err());
        assert!(expression("(one) (two)").is_err());
        let of_json = |pointer: &str, text: &str| of_json(pointer, text, &From::Out);
        let json = "starting\n{\"rates\": {\"answered\": 5, \"name\": \"x\"}}\n";
        assert_eq!(of_json("/rates/answered", json), Ok(5.0));
        assert!(of_json("/rates/name", json).is_err());
        assert!(of_json("/rates/none", json).is_err());
        assert!(of_json("/a", "{\"a\":1}{\"a\":2}").is_err());
        assert!(of_json("/a", "no document").is_err());
    }
}
