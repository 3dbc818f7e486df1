//! `lineside ctl`: changes of an emulated link while it runs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use lineside_path::SettingsWords;
use lineside_path::emulate::ChangeAnswer;
use lineside_trace::{Manifest, State};

use crate::config::ConfigError;
use crate::exit::Exit;
use crate::link::control::{Answer, Request};
use crate::link::keys::LinkWords;
use crate::link::spec::files;
use crate::print::{print, print_json};

/// Flags of `ctl`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of the run, as given with -o
    #[arg(value_name = "RUN")]
    run: PathBuf,
    #[command(flatten)]
    link: LinkWords,
    /// Print the settings before and after the change as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let request = Request {
        files: files(&arguments.link)?,
        emulate: arguments.link.clone(),
    };
    let run = &arguments.run;
    let answer = lineside_host::ask(run, &serde_json::to_string(&request)?);
    let answer = answer.map_err(|error| anyhow!(why_none(run, &error)))?;
    let answer = serde_json::from_str(&answer)
        .with_context(|| format!("{}: a run of another version", run.display()))?;
    let done = match answer {
        Answer::Done(done) => done,
        Answer::Refused(why) => bail!(ConfigError::usage(&why)),
    };
    if arguments.json {
        print_json(&done)?;
    } else if !arguments.quiet {
        print(&lines(&done, !arguments.link.is_empty()))?;
    }
    Ok(Exit::Done)
}

/// The reason for which a run does not answer.
fn why_none(run: &std::path::Path, error: &io::Error) -> String {
    let manifest = lineside_trace::manifest_text(&run.join("trace.json"));
    let manifest = manifest
        .ok()
        .and_then(|text| Manifest::from_json(&text).ok());
    let state = manifest.map(|manifest| manifest.verdict.state);
    let why = match (error.kind(), state) {
        (io::ErrorKind::PermissionDenied, _) => {
            "the run belongs to another user: run ctl as that user, or with sudo".to_owned()
        }
        (io::ErrorKind::NotFound, _) if lineside_host::is_running(run) => {
            "the run there accepts no changes now: only 'lineside emulate --between' or \
            '--server' with -o does, until it ends"
                .to_owned()
        }
        // It may have ended since: that it still runs is certain, that it had ended is not.
        _ if lineside_host::is_running(run) => {
            format!("the run goes on, but did not answer ({error}): try again")
        }
        (_, Some(State::Unfinished)) => {
            "the run was ended before it could finish: nothing can be changed any more".to_owned()
        }
        (_, Some(_)) => "the run has ended: nothing can be changed any more".to_owned(),
        (io::ErrorKind::NotFound, None) => {
            "there is no such run: give the folder of emulate's -o".to_owned()
        }
        (_, None) => error.to_string(),
    };
    format!("{}: {why}", run.display())
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
