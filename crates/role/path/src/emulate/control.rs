//! What is asked of a run while it goes on: changes of the settings, marks, what it has counted.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use lineside_filter::Filter;
use lineside_run::control::{Asking, Reply};
use lineside_run::request::ChangeAnswer;
use lineside_run::stats::RunStats;
use lineside_time::{Clock, Nanoseconds};
use lineside_trace::certificate::link::{Mark, SettingsWords};

use super::carrier::Carriers;
use super::look::Look;
use crate::{LiveLoop, Patches, SideId, Step};

/// What is asked of the polling loop.
pub enum Asked {
    /// To change the settings.
    Change {
        change: Patches,
        answer: Reply<ChangeAnswer>,
    },
    /// To tell frames of a side apart that match.
    Classify {
        side: SideId,
        filter: Box<Filter>,
        answer: Reply<()>,
    },
    /// To add a step.
    Arm { step: Box<Step>, answer: Reply<()> },
    /// To begin.
    Start { answer: Reply<Nanoseconds> },
    /// To note a text.
    Mark { text: String, answer: Reply<Mark> },
    /// What it has counted so far.
    Stats { answer: Reply<RunStats> },
}

/// The end of the thread that takes requests.
pub struct ChangeSender<'a>(pub(crate) &'a Asking<Asked>);

/// The end of the polling loop.
pub(super) struct Changes {
    asked: Receiver<Asked>,
    /// The look that goes on.
    look: Option<Look>,
}

/// A run that takes changes.
pub type Controlled = lineside_run::control::Controlled<Asked>;

impl ChangeSender<'_> {
    /// Has the loop make a change, and waits until it has. The error is why nothing has changed.
    pub fn send(&self, change: Patches) -> Result<ChangeAnswer, String> {
        self.0.ask(|answer| Asked::Change { change, answer })
    }

    /// Has the loop tell frames of a side apart that match, of
    /// [`EXPRESSIONS_MAX`](crate::EXPRESSIONS_MAX) expressions at most. The error is why it does
    /// not.
    pub fn classify(&self, side: impl Into<SideId>, filter: Filter) -> Result<(), String> {
        let (side, filter) = (side.into(), Box::new(filter));
        self.0.ask(|answer| Asked::Classify {
            side,
            filter,
            answer,
        })
    }

    /// Has the loop add a step. The error is why it has not.
    pub fn arm(&self, step: Step) -> Result<(), String> {
        let step = Box::new(step);
        self.0.ask(|answer| Asked::Arm { step, answer })
    }

    /// Has a run begin that waits; returns when it did. The error is why it has not.
    pub fn start(&self) -> Result<Nanoseconds, String> {
        self.0.ask(|answer| Asked::Start { answer })
    }

    /// Has the loop note a text, with the time at which it does. The error is why it has not.
    pub fn mark(&self, text: String) -> Result<Mark, String> {
        self.0.ask(|answer| Asked::Mark { text, answer })
    }

    /// What the loop has counted so far, without monitors.
    pub fn stats(&self) -> Result<RunStats, String> {
        self.0.ask(|answer| Asked::Stats { answer })
    }
}

impl Changes {
    pub(super) fn new(asked: Receiver<Asked>) -> Self {
        Self { asked, look: None }
    }

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
            // A calm link would rest after each part.
            if self.look.is_some() {
                live.stay_awake();
            }
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
                live.stay_awake();
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
