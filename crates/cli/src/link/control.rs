//! Changes of an emulated link while it runs: the requests of `ctl`, and the run's answers.
//!
//! ```text
//!  ctl ──request──► thread of the run: words, files ──settings──► its polling loop
//!      ◄──answer───                                 ◄──instant────
//! ```

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use anyhow::{Context, anyhow};
use lineside_host::{Control, RunFolder};
use lineside_link::Settings;
use lineside_path::{Direction, LiveLoop, SettingsWords};
use lineside_time::{Clock, Nanoseconds};
use serde::{Deserialize, Serialize};

use super::keys::LinkWords;
use super::spec::LinkSpec;

/// A request of `ctl` to a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Empty for a request to report the current settings.
    pub(crate) emulate: LinkWords,
    /// The text of each file that they name, since the run may not be able to read it.
    pub(crate) files: BTreeMap<String, String>,
}

/// The answer of the run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Done(Done),
    /// The reason for which nothing has changed.
    Refused(String),
}

/// The settings before a change, and those after it; equal if no change was requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    /// The time by the run's clock; `None` if nothing was changed.
    pub(crate) at_ns: Option<Nanoseconds>,
    /// By the name of the direction.
    pub(crate) before: BTreeMap<String, SettingsWords>,
    pub(crate) after: BTreeMap<String, SettingsWords>,
}

/// A change for the polling loop to make.
pub(crate) struct Change {
    /// By [`Direction`], and by the set of expressions that match.
    settings: [Option<Vec<Settings>>; 2],
    answer: SyncSender<Result<Done, String>>,
}

/// The changes that the loop has yet to make.
pub(crate) type Changes = Receiver<Change>;

/// The part of a run that accepts changes: the socket in its folder, and the current settings.
pub(crate) struct Controlled {
    control: Control,
    spec: LinkSpec,
}

impl Controlled {
    /// Listens in the run's folder; called before privileges are dropped. If no socket can be made,
    /// the run continues without it.
    pub(crate) fn listen(folder: &RunFolder, spec: LinkSpec) -> Option<Self> {
        match Control::listen(folder) {
            Ok(control) => Some(Self { control, spec }),
            Err(error) => {
                eprintln!("lineside: warning: nothing can be changed while this runs: {error}");
                None
            }
        }
    }
}

/// Runs `run` with the changes that `ctl` requests meanwhile.
pub(crate) fn while_controlled<T>(
    controlled: Option<Controlled>,
    run: impl FnOnce(&Changes) -> T,
) -> T {
    /// However the run ends, the thread that accepts requests ends too.
    struct Closer<'a>(&'a Control);
    impl Drop for Closer<'_> {
        fn drop(&mut self) {
            self.0.close();
        }
    }
    let (sender, changes) = channel();
    let Some(Controlled { control, spec }) = controlled else {
        return run(&changes);
    };
    let control = &control;
    std::thread::scope(move |scope| {
        let _closer = Closer(control);
        scope.spawn(move || serve(control, spec, &sender));
        // Dropping these drops the requests that will not be answered.
        let changes = changes;
        run(&changes)
    })
}

/// Serves requests until the socket is closed.
fn serve(control: &Control, mut spec: LinkSpec, changes: &Sender<Change>) {
    while let Some(request) = control.next() {
        let answer = match on_request(&mut spec, &request.text, changes) {
            Ok(done) => Answer::Done(done),
            Err(why) => Answer::Refused(format!("{why:#}")),
        };
        if let Ok(text) = serde_json::to_string(&answer) {
            request.answer(&text);
        }
    }
}

fn on_request(spec: &mut LinkSpec, text: &str, changes: &Sender<Change>) -> anyhow::Result<Done> {
    const ENDING: &str = "the run is ending: nothing has changed";
    let request: Request = serde_json::from_str(text).context("a request of another version")?;
    let new = spec.changed(&request.emulate, request.files)?;
    let settings = Direction::BOTH.map(|direction| {
        let index = direction as usize;
        (new.settings[index] != spec.settings[index]).then(|| new.settings[index].clone())
    });
    let (answer, answered) = sync_channel(1);
    let sent = changes.send(Change { settings, answer });
    sent.map_err(|_| anyhow!(ENDING))?;
    let done = answered.recv().map_err(|_| anyhow!(ENDING))?;
    let done = done.map_err(|why| anyhow!(why))?;
    *spec = new;
    Ok(done)
}

/// Makes the next requested change, if there is one; called between two turns of the loop.
pub(crate) fn make_next(changes: &Changes, live: &mut LiveLoop, clock: &impl Clock) {
    let Ok(Change { settings, answer }) = changes.try_recv() else {
        return;
    };
    let words = |live: &LiveLoop| {
        let words = |direction: Direction| {
            let words = live.engine().path().settings_words(direction);
            (direction.name().to_owned(), words)
        };
        BTreeMap::from(Direction::BOTH.map(words))
    };
    let (now, before) = (clock.now(), words(live));
    let given = settings.each_ref().map(Option::as_deref);
    let is_change = given.iter().any(Option::is_some);
    let done = live.engine_mut().change(now, &given).map(|()| Done {
        at_ns: is_change.then_some(now),
        before,
        after: words(live),
    });
    let _ = answer.send(done.map_err(|error| error.to_string()));
}
