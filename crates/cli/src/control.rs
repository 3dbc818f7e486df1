//! `lineside ctl`: changes of an emulated link while it runs.
//!
//! ```text
//!  ctl ──request──► thread of the run: words, files ──settings──► its polling loop
//!      ◄──answer───                                 ◄──instant────
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use lineside_host::{Control, RunFolder};
use lineside_link::Settings;
use lineside_path::{Bump, Direction, SettingsWords};
use lineside_time::{Clock, Nanoseconds};
use lineside_trace::{Manifest, State};
use serde::{Deserialize, Serialize};

use crate::Exit;
use crate::config::ConfigError;
use crate::link_words::{Asked, LinkWords, files};

/// Flags of `ctl`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of the run: what it was given with -o
    #[arg(value_name = "RUN")]
    run: PathBuf,
    #[command(flatten)]
    link: LinkWords,
    /// Print what held before and what holds now as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

/// What `ctl` asks of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// Nothing: to be told what holds.
    emulate: LinkWords,
    /// The text of each file that they name, since the run may not be able to read it.
    files: BTreeMap<String, String>,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Done(Done),
    /// Why nothing has changed.
    Refused(String),
}

/// What held before a change, and what holds from then on; the same if nothing was to be changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Done {
    /// When, by the run's clock; `None` if nothing was changed.
    at_ns: Option<Nanoseconds>,
    /// By the name of the direction.
    before: BTreeMap<String, SettingsWords>,
    after: BTreeMap<String, SettingsWords>,
}

/// A change for the polling loop to make.
pub(crate) struct Change {
    /// By [`Direction`], and by the set of expressions that match.
    settings: [Option<Vec<Settings>>; 2],
    answer: SyncSender<Result<Done, String>>,
}

/// What the loop is asked to change.
pub(crate) type Changes = Receiver<Change>;

/// What a run needs to take changes: the socket in its folder, and what holds.
pub(crate) struct Controlled {
    control: Control,
    asked: Asked,
}

impl Controlled {
    /// Listens in the run's folder; to be called before rights are given up. Where there can be no socket, the run goes on without.
    pub(crate) fn listen(folder: &RunFolder, asked: Asked) -> Option<Self> {
        match Control::listen(folder) {
            Ok(control) => Some(Self { control, asked }),
            Err(error) => {
                eprintln!("lineside: warning: nothing can be changed while this runs: {error}");
                None
            }
        }
    }
}

/// Runs `run` with what `ctl` asks to be changed meanwhile.
pub(crate) fn while_controlled<T>(
    controlled: Option<Controlled>,
    run: impl FnOnce(&Changes) -> T,
) -> T {
    /// However the run ends, the thread that takes requests does too.
    struct Closer<'a>(&'a Control);
    impl Drop for Closer<'_> {
        fn drop(&mut self) {
            self.0.close();
        }
    }
    let (sender, changes) = channel();
    let Some(Controlled { control, asked }) = controlled else {
        return run(&changes);
    };
    let control = &control;
    std::thread::scope(move |scope| {
        let _closer = Closer(control);
        scope.spawn(move || serve(control, asked, &sender));
        // With these go the requests that nobody will answer.
        let changes = changes;
        run(&changes)
    })
}

/// Until the socket is closed.
fn serve(control: &Control, mut asked: Asked, changes: &Sender<Change>) {
    while let Some(request) = control.next() {
        let answer = match on_request(&mut asked, &request.text, changes) {
            Ok(done) => Answer::Done(done),
            Err(why) => Answer::Refused(format!("{why:#}")),
        };
        if let Ok(text) = serde_json::to_string(&answer) {
            request.answer(&text);
        }
    }
}

fn on_request(asked: &mut Asked, text: &str, changes: &Sender<Change>) -> anyhow::Result<Done> {
    const ENDING: &str = "the run is ending: nothing has changed";
    let request: Request = serde_json::from_str(text).context("a request of another version")?;
    let new = asked.changed(&request.emulate, request.files)?;
    let settings = Direction::BOTH.map(|direction| {
        let index = direction as usize;
        (new.settings[index] != asked.settings[index]).then(|| new.settings[index].clone())
    });
    let (answer, answered) = sync_channel(1);
    let sent = changes.send(Change { settings, answer });
    sent.map_err(|_| anyhow!(ENDING))?;
    let done = answered.recv().map_err(|_| anyhow!(ENDING))?;
    let done = done.map_err(|why| anyhow!(why))?;
    *asked = new;
    Ok(done)
}

/// Makes the next change that is asked for, if there is one: to be called between two turns of the loop.
pub(crate) fn make_next(changes: &Changes, bump: &mut Bump, clock: &impl Clock) {
    let Ok(Change { settings, answer }) = changes.try_recv() else {
        return;
    };
    let words = |bump: &Bump| {
        let words = |direction: Direction| {
            let words = bump.path().settings_words(direction);
            (direction.name().to_owned(), words)
        };
        BTreeMap::from(Direction::BOTH.map(words))
    };
    let (now, before) = (clock.now(), words(bump));
    let given = settings.each_ref().map(Option::as_deref);
    let is_change = given.iter().any(Option::is_some);
    let done = bump.change(now, given).map(|()| Done {
        at_ns: is_change.then_some(now),
        before,
        after: words(bump),
    });
    let _ = answer.send(done.map_err(|error| error.to_string()));
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
        crate::report::print_json(&done)?;
    } else if !arguments.quiet {
        crate::report::print(&lines(&done, !arguments.link.is_empty()))?;
    }
    Ok(Exit::Done)
}

/// Why a run does not answer.
fn why_none(run: &std::path::Path, error: &io::Error) -> String {
    let manifest = std::fs::read_to_string(run.join("trace.json"));
    let manifest = manifest
        .ok()
        .and_then(|text| Manifest::from_json(&text).ok());
    let why = match (error.kind(), manifest.map(|manifest| manifest.verdict.state)) {
        (io::ErrorKind::PermissionDenied, _) => {
            "the run is another user's: ask as that one, or with sudo".to_owned()
        }
        (_, Some(State::Unfinished)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            "the run was ended before it could finish: nothing can be changed any more".to_owned()
        }
        (io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused, Some(State::Unfinished)) => {
            "nobody takes changes there: that does a running 'lineside emulate --between' or '--server' with -o".to_owned()
        }
        (_, Some(_)) => "the run has ended: nothing can be changed any more".to_owned(),
        (io::ErrorKind::NotFound, None) => "no run folder: give the one of emulate's -o".to_owned(),
        (io::ErrorKind::UnexpectedEof, None) => "the run has ended".to_owned(),
        (_, None) => error.to_string(),
    };
    format!("{}: {why}", run.display())
}

/// What has changed, or what holds.
fn lines(done: &Done, is_change: bool) -> String {
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
        out += "nothing to change: that held already\n";
    }
    out
}
