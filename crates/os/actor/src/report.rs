//! What a run did, and why it failed.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// What a run did. Counted by each scheduler for itself, without atomics, always.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// From the start of the schedulers until all actors had stopped.
    pub wall: Duration,
    /// One for each scheduler.
    pub schedulers: Vec<SchedulerReport>,
    /// Messages that were sent by [`crate::Actor::on_stop`], and handled by no scheduler's thread.
    pub stop_messages: u64,
    /// In the order of creation.
    pub actors: Vec<ActorReport>,
    /// How many messages each actor sent to each other, if [`crate::Config::count_traffic`] asked
    /// for it. Ordered.
    pub traffic: Vec<Traffic>,
    /// Message nodes allocated, of all sizes: what was in flight at most, rounded up by a few
    /// hundred.
    pub nodes: usize,
}

/// What one scheduler did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SchedulerReport {
    /// Messages that actors handled here.
    pub messages: u64,
    /// Times an actor was given the scheduler.
    pub activations: u64,
    /// Times it took runnable actors from another scheduler.
    pub steals: u64,
    /// Messages to actors whose home is another scheduler.
    pub remote_sends: u64,
    /// Most actors seen in its run queue, looked at once a pass.
    pub queue_max: usize,
    /// Times it went to sleep, and times it was woken before its sleep was over.
    pub parks: u64,
    /// See `parks`.
    pub wakes: u64,
    /// Time it looked for work or slept.
    pub idle: Duration,
    /// Time it ran altogether.
    pub total: Duration,
}

/// What one actor did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActorReport {
    /// As given at its creation.
    pub name: String,
    /// The scheduler that is its home, under the pinned schedule.
    pub home: usize,
    /// Messages handled.
    pub messages: u64,
    /// Times it was given a scheduler.
    pub activations: u64,
    /// Most messages handled without the mailbox being found empty: its queue was never longer.
    pub run_max: u64,
    /// Messages thrown away because the actor had failed.
    pub discarded: u64,
}

/// Messages from one actor to another, by their places in [`Report::actors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Traffic {
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// How many.
    pub messages: u64,
}

/// Why an actor failed.
#[derive(Debug)]
pub enum Cause {
    /// A handler returned this.
    Error(Box<dyn Error + Send + Sync>),
    /// A handler panicked with this.
    Panic(String),
}

impl Cause {
    pub(crate) fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        Self::Panic(text.unwrap_or_else(|| "a panic without a message".to_owned()))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => write!(formatter, "{error}"),
            Self::Panic(text) => write!(formatter, "panicked: {text}"),
        }
    }
}

/// A run that failed. The other actors have stopped in order.
#[derive(Debug, thiserror::Error)]
#[error("actor '{actor}' failed: {cause}")]
pub struct RunError {
    /// The name of the actor that failed first, or of the scheduler that could not start.
    pub actor: String,
    /// Why.
    pub cause: Cause,
    /// What the run did.
    pub report: Box<Report>,
}
