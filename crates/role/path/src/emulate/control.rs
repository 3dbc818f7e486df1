//! What is asked of a run while it goes on: changes of the settings, marks, what it has counted.
//!
//! ```text
//!  socket ──request──► thread: respond (words) ──Asked──► the polling loop
//!         ◄──answer───                         ◄──its answer──
//! ```

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use lineside_filter::Filter;
use lineside_host::FolderError;
use lineside_run::Answering;
use lineside_run::stats::RunStats;
use lineside_store::RunFolder;
use lineside_time::{Clock, Nanoseconds};
use lineside_trace::certificate::link::{Mark, SettingsWords};
use serde::{Deserialize, Serialize};

use super::carrier::Carriers;
use super::look::Look;
use crate::{LiveLoop, Patches, SideId, Step};

/// The settings before a change, and from then on; the same if nothing was to be changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeAnswer {
    /// When, by the run's clock; `None` if nothing was changed.
    pub at_ns: Option<Nanoseconds>,
    /// The settings before, by the name of the direction.
    pub before: BTreeMap<String, SettingsWords>,
    /// The settings from then on.
    pub after: BTreeMap<String, SettingsWords>,
}

/// What is asked of the polling loop.
enum Asked {
    /// To change the settings.
    Change {
        change: Patches,
        answer: Answer<ChangeAnswer>,
    },
    /// To tell frames of a side apart that match.
    Classify {
        side: SideId,
        filter: Box<Filter>,
        answer: Answer<()>,
    },
    /// To add a step.
    Arm { step: Box<Step>, answer: Answer<()> },
    /// To begin.
    Start { answer: Answer<Nanoseconds> },
    /// To note a text.
    Mark { text: String, answer: Answer<Mark> },
    /// What it has counted so far.
    Stats { answer: Answer<RunStats> },
}

/// Where an answer goes; the error is why nothing has changed.
pub(super) type Answer<T> = SyncSender<Result<T, String>>;

/// The end of the thread that takes requests.
pub struct ChangeSender(Sender<Asked>);

/// The end of the polling loop.
pub(super) struct Changes {
    asked: Receiver<Asked>,
    /// The look that goes on.
    look: Option<Look>,
}

/// Makes the answer to the text of a request; `None` if there is none.
type Respond = Box<dyn FnMut(&str, &ChangeSender) -> Option<String> + Send>;

/// A run that takes changes: the socket in its folder, and what responds to requests.
pub struct Controlled {
    answering: Answering,
    respond: Respond,
}

impl ChangeSender {
    /// Has the loop make a change, and waits until it has. The error is why nothing has changed.
    pub fn send(&self, change: Patches) -> Result<ChangeAnswer, String> {
        self.ask(|answer| Asked::Change { change, answer })
    }

    /// Has the loop tell frames of a side apart that match, of
    /// [`EXPRESSIONS_MAX`](crate::EXPRESSIONS_MAX) expressions at most. The error is why it does
    /// not.
    pub fn classify(&self, side: impl Into<SideId>, filter: Filter) -> Result<(), String> {
        let (side, filter) = (side.into(), Box::new(filter));
        self.ask(|answer| Asked::Classify {
            side,
            filter,
            answer,
        })
    }

    /// Has the loop add a step. The error is why it has not.
    pub fn arm(&self, step: Step) -> Result<(), String> {
        let step = Box::new(step);
        self.ask(|answer| Asked::Arm { step, answer })
    }

    /// Has a run begin that waits; returns when it did. The error is why it has not.
    pub fn start(&self) -> Result<Nanoseconds, String> {
        self.ask(|answer| Asked::Start { answer })
    }

    /// Has the loop note a text, with the time at which it does. The error is why it has not.
    pub fn mark(&self, text: String) -> Result<Mark, String> {
        self.ask(|answer| Asked::Mark { text, answer })
    }

    /// What the loop has counted so far, without monitors.
    pub fn stats(&self) -> Result<RunStats, String> {
        self.ask(|answer| Asked::Stats { answer })
    }

    /// Asks the loop, and waits for its answer.
    fn ask<T>(&self, asked: impl FnOnce(Answer<T>) -> Asked) -> Result<T, String> {
        const ENDING: &str = "the run is ending";
        let (answer, answered) = sync_channel(1);
        let sent = self.0.send(asked(answer));
        sent.map_err(|_| ENDING)?;
        answered.recv().map_err(|_| ENDING)?
    }
}

impl Changes {
    /// Does the next thing that is asked for, or a part of it, if there is one: call it between two
    /// turns of the loop.
    pub(super) fn make_next(
        &mut self,
        live: &mut LiveLoop,
        carriers: &Carriers,
        clock: &impl Clock,
    ) {
        if let Some(look) = self.look.take() {
            self.look = look.go_on(live);
            return;
        }
        let Ok(asked) = self.asked.try_recv() else {
            return;
        };
        // Whoever asked may have gone meanwhile.
        match asked {
            Asked::Change { change, answer } => {
                let _ = answer.send(make_change(&change, live, carriers, clock.now()));
            }
            Asked::Arm { step, answer } => {
                let _ = answer.send(arm(*step, live, carriers, clock.now()));
            }
            Asked::Classify {
                side,
                filter,
                answer,
            } => {
                let done = live.engine_mut().add_expression(side, *filter);
                let _ = answer.send(done.map_err(|error| error.to_string()));
            }
            Asked::Start { answer } => {
                let now = clock.now();
                let started = live.engine_mut().start(now).then_some(now);
                let why = "the run has begun already: --wait-start has it wait";
                let _ = answer.send(started.ok_or_else(|| why.to_owned()));
            }
            Asked::Mark { text, answer } => {
                let marked = live.engine_mut().mark(clock.now(), text);
                let _ = answer.send(marked.map_err(|error| error.to_string()));
            }
            Asked::Stats { answer } => {
                self.look = Some(Look::begin(live, clock.now(), answer));
            }
        }
    }
}

fn arm(
    step: Step,
    live: &mut LiveLoop,
    carriers: &Carriers,
    now: Nanoseconds,
) -> Result<(), String> {
    let patches = step.patches.as_ref();
    let path = live.engine().path();
    let obstacle = patches.and_then(|patches| carriers.obstacle_to_change(path, patches));
    obstacle.map_or(Ok(()), Err)?;
    let armed = live.engine_mut().arm(now, step);
    armed.map_err(|error| error.to_string())
}

fn make_change(
    change: &Patches,
    live: &mut LiveLoop,
    carriers: &Carriers,
    now: Nanoseconds,
) -> Result<ChangeAnswer, String> {
    let before = settings_words(live);
    let obstacle = carriers.obstacle_to_change(live.engine().path(), change);
    obstacle.map_or(Ok(()), Err)?;
    if let Some((step, setting)) = live.engine().path().holder(change) {
        let setting = setting.name();
        return Err(format!(
            "step '{step}' holds {setting} now: change it when that has ended"
        ));
    }
    let changed = live.engine_mut().apply(now, change);
    let changed = changed.map(|is_change| ChangeAnswer {
        at_ns: is_change.then_some(now),
        before,
        after: settings_words(live),
    });
    changed.map_err(|error| error.to_string())
}

fn settings_words(live: &LiveLoop) -> BTreeMap<String, SettingsWords> {
    let path = live.engine().path();
    let words = |side| (path.name(side).to_owned(), path.settings_words(side));
    path.sides().map(words).collect()
}

impl Controlled {
    /// Listens in the run's folder; to be called before privileges are dropped.
    pub fn listen(
        folder: &RunFolder,
        respond: impl FnMut(&str, &ChangeSender) -> Option<String> + Send + 'static,
    ) -> Result<Self, FolderError> {
        Ok(Self {
            answering: Answering::listen(folder)?,
            respond: Box::new(respond),
        })
    }
}

/// The two ends of what is asked of the loop.
pub(super) fn ends() -> (ChangeSender, Changes) {
    let (sender, asked) = channel();
    (ChangeSender(sender), Changes { asked, look: None })
}

/// Runs `run` with the changes that are asked for meanwhile.
pub(super) fn while_controlled<T>(
    controlled: Option<Controlled>,
    run: impl FnOnce(&mut Changes) -> T,
) -> T {
    let (sender, mut changes) = ends();
    let Some(Controlled {
        answering,
        mut respond,
    }) = controlled
    else {
        return run(&mut changes);
    };
    let respond = move |text: &str| respond(text, &sender);
    answering.during(respond, move || {
        // With these go the requests that nobody will answer.
        let mut changes = changes;
        run(&mut changes)
    })
}
