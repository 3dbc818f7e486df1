//! `lineside ctl`: what is asked of an emulated link or a forwarder while it runs.

mod stats;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use lineside_link::Setting;
use lineside_path::settings::{StepWords, files};
use lineside_run::request::{
    Change, ChangeAnswer, Done, ForwardDone, ForwardRequest, NewStep, Request, Text,
};
use lineside_trace::certificate::link::SettingsWords;
use lineside_words::{nearest, signed_time};

use crate::config::ConfigError;
use crate::confine::Confining;
use crate::exit::Exit;
use crate::forwarder::reload_of;
use crate::link::ask::Asked;
use crate::link::keys::LinkKeys;
use crate::print::{print, print_json, say};
use stats::Form;

/// Flags of `ctl`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of the run, as given with -o
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// What to ask. Any run: 'stats'. A link: nothing (print the settings), or 'mark TEXT', 'step
    /// WORDS', 'start' (with --wait-start). A forwarder: 'add NODE', 'remove NODE', 'drain NODE'
    /// ('weight NODE 1' undoes it), 'weight NODE N', each with 'at SERVICE' if there are several,
    /// and 'reload FILE'. A capture with monitors: 'stats'
    #[arg(value_name = "WORDS")]
    words: Vec<String>,
    /// With stats: print them every TIME, e.g. 10s, until the run ends
    #[arg(long = "interval", alias = "every", value_name = "TIME")]
    every: Option<String>,
    #[command(flatten)]
    link: LinkKeys,
    /// Print the answer as JSON; of stats, a line each
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    confining: Confining,
}

/// The words after the run.
pub(crate) const WORDS: [&str; 9] = [
    "stats", "mark", "step", "start", "add", "remove", "drain", "weight", "reload",
];

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let run = &arguments.run;
    let form = Form {
        json: arguments.json,
        quiet: arguments.quiet,
        every: arguments.every.as_deref().map(stats::every).transpose()?,
    };
    let request = arguments.request()?;
    let is_stats = matches!(request, Request::Stats {});
    if form.every.is_some() && !is_stats {
        bail!(ConfigError::usage(
            "--interval is for stats: write 'ctl RUN stats --interval TIME'"
        ));
    }
    let asked = Asked::new(run, arguments.confining)?;
    if is_stats {
        return stats::run(&asked, form);
    }
    match asked.done(&request)? {
        Done::Forward(ForwardDone::Changed(done)) if !form.json && !form.quiet => {
            print(&format!("{done}\n"))?;
        }
        done if form.json => print_json(&json(&done)?)?,
        _ if form.quiet => {}
        Done::Settings(done) => print(&lines(&done, arguments.link != LinkKeys::default()))?,
        Done::Step(step) => print(&format!("armed: {step}\n"))?,
        Done::Start(_) => print("the run has begun\n")?,
        Done::Mark(mark) => {
            let after_ns = mark.after_ns.unwrap_or_default();
            print(&format!(
                "mark at {}: {}\n",
                signed_time(after_ns as f64),
                mark.text
            ))?;
        }
        Done::Stats(_) | Done::Forward(_) => {
            bail!("{}: the run answers something else", run.display())
        }
    }
    Ok(Exit::Done)
}

impl Arguments {
    /// What the words ask for.
    fn request(&self) -> anyhow::Result<Request> {
        let Some((word, rest)) = self.words.split_first() else {
            let emulate = self.link.words();
            return Ok(Request::Settings(Box::new(Change {
                files: files(&emulate)?,
                emulate,
            })));
        };
        if Setting::ALL.iter().any(|setting| setting.name() == word) {
            let rest = match rest {
                [] => "WORDS".to_owned(),
                rest => rest.join(" "),
            };
            bail!(ConfigError::usage(&format!(
                "{word}: settings of a link are flags: write --{word} '{rest}'"
            )));
        }
        if !WORDS.contains(&word.as_str()) {
            let nearest = nearest(word, WORDS);
            bail!(ConfigError::usage(&format!(
                "unknown request '{word}'; the nearest known one is {nearest}"
            )));
        }
        if self.link != LinkKeys::default() {
            bail!(ConfigError::usage(&format!(
                "{word}: settings are changed by a command of their own: leave out the flags of \
                the link"
            )));
        }
        match (word.as_str(), rest) {
            (word @ ("mark" | "step"), []) => bail!(ConfigError::usage(&format!(
                "{word}: the text is missing: write {word} 'TEXT'"
            ))),
            ("step", rest) => {
                let step = rest.join(" ");
                let words = StepWords::read(&step)?;
                words.note().iter().for_each(|note| say(note));
                let files = files(&words.link)?;
                Ok(Request::Step(NewStep { step, files }))
            }
            ("start", []) => Ok(Request::Start {}),
            ("add" | "remove" | "drain" | "weight", []) => bail!(ConfigError::usage(&format!(
                "{word}: the node is missing: write {word} NODE:PORT"
            ))),
            ("add" | "remove" | "drain" | "weight", rest) => {
                Ok(Request::Forward(ForwardRequest::Node {
                    action: word.clone(),
                    words: rest.to_vec(),
                }))
            }
            ("reload", [file]) => Ok(Request::Forward(reload_of(Path::new(file))?)),
            ("reload", _) => bail!(ConfigError::usage(
                "reload: name one file: reload FILE.toml"
            )),
            ("mark", rest) => Ok(Request::Mark(Text {
                text: rest.join(" "),
            })),
            (_, []) => Ok(Request::Stats {}),
            (word, [further, ..]) => bail!(ConfigError::usage(&format!(
                "{word}: '{further}' has no meaning after it: leave it out"
            ))),
        }
    }
}

/// What was done, without its name.
fn json(done: &Done) -> serde_json::Result<serde_json::Value> {
    match done {
        Done::Settings(done) => serde_json::to_value(done),
        Done::Step(step) => Ok(serde_json::json!({ "step": step })),
        Done::Start(at_ns) => Ok(serde_json::json!({ "at_ns": at_ns })),
        Done::Mark(mark) => serde_json::to_value(mark),
        Done::Stats(stats) => serde_json::to_value(stats),
        Done::Forward(done) => serde_json::to_value(done),
    }
}

/// The changes, or the current settings.
fn lines(done: &ChangeAnswer, is_change: bool) -> String {
    let mut out = String::new();
    for (name, after) in &done.after {
        let before = done.before.get(name);
        let texts = |words: Option<&SettingsWords>| -> BTreeMap<String, Option<String>> {
            let value = words.and_then(|words| serde_json::to_value(words).ok());
            let texts = value.and_then(|value| serde_json::from_value(value).ok());
            texts.unwrap_or_default()
        };
        let (before, after) = (texts(before), texts(Some(after)));
        for key in [
            "link",
            "loss",
            "duplicate",
            "corrupt",
            "reorder",
            "delay",
            "rate",
            "path",
            "limit",
        ] {
            let word = |texts: &BTreeMap<String, Option<String>>| {
                let text = texts.get(key).cloned().flatten();
                text.unwrap_or_else(|| "none".to_owned())
            };
            let (before, after) = (word(&before), word(&after));
            if !is_change {
                let _ = writeln!(out, "{name:<12} {key:<10} {after}");
            } else if before != after {
                let _ = writeln!(out, "{name:<12} {key:<10} {after}, before: {before}");
            }
        }
    }
    if is_change && done.at_ns.is_none() {
        out += "nothing to change: these settings held already\n";
    }
    out
}
