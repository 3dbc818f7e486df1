//! Why each call of a workload was made when it was.
//!
//! ```text
//!  calls in the order of their times ─► Upcoming ─► Planner ─► PlannedCall, Edge ─► PlanSink
//!                                        who comes   │ threads: which of a client's threads
//!                                        next        │ runs: READs of a file, at most D under way
//!                                                    │ resources: what a call needs, or follows
//! ```
//!
//! A capture shows calls and replies, not the program. What the program did is inferred: a *thread*
//! makes one call after another, each after a reply and some time of thought; a *run* of READs or
//! WRITEs of one file keeps at most D of them under way; a call needs what earlier ones made, and
//! does not overtake those that it conflicts with.
//!
//! What holds for every plan:
//!
//! * Each call is there once. Its number is its place in the order of call times, from 1.
//! * Each edge leads from a call whose reply had come to a call made then or later, so from a lower
//!   number to a higher one: there is no circle.
//! * Calls of one thread are made in the order of their numbers. Edges that follow from this and
//!   from others are left out.
//! * The plan depends on the calls alone, not on how they were handed over.
//!
//! Memory is bounded: what is kept of files, names and states is forgotten in the order of its last
//! use, and counted ([`Figures::forgotten`]). No clock, no files.
#![forbid(unsafe_code)]

mod figures;
mod kept;
mod order;
mod planner;
mod recent;
mod resources;
mod runs;
mod threads;
mod upcoming;

pub use figures::{DepthFigures, Figures};
pub use kept::Kept;
pub use order::{Begin, CallIndex, Order, Step};
pub use planner::Planner;

/// The number of a call in the plan: its place in the order of call times, from 1.
pub type CallNumber = u64;

/// What a call, or one operation of it, does to what others use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Action {
    /// It uses a handle.
    #[default]
    Use,
    /// READ: part of a run.
    Read,
    /// WRITE: part of a run.
    Write,
    /// COMMIT: after the WRITEs that it covers.
    Commit,
    /// CLOSE, UNLOCK: after the READs and WRITEs that it covers.
    Release,
    /// It looks at a name.
    Look,
    /// It changes a name: CREATE, REMOVE, RENAME.
    Change,
    /// It changes a file otherwise: SETATTR, ALLOCATE. It keeps its order with READs and WRITEs.
    Set,
}

/// What an operation of a call touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Touch {
    /// What it does.
    pub action: Action,
    /// The file or directory that it names by its handle.
    pub file: Option<i64>,
    /// The one whose handle its reply has.
    pub made: Option<i64>,
    /// A name in a directory, as a number that is the same for the same name.
    pub name: Option<u64>,
    /// First byte, and the byte after the last.
    pub range: Option<(u64, u64)>,
    /// The file is a directory: many threads use it, so it does not say which one called.
    pub is_directory: bool,
    /// A state id or a session that it names, as a number.
    pub state: Option<u64>,
    /// The one that its reply has.
    pub made_state: Option<u64>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Event {
    /// A call.
    #[default]
    Call,
    /// A connection was opened.
    Open,
    /// A call that a timer makes, not a program: the renewal of a lease.
    Timer,
}

/// A call as the trace shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    /// What it is.
    pub event: Event,
    /// Its `rpc_id` in the trace; of an opening the connection's id.
    pub id: i64,
    /// When it was made.
    pub call_ns: i64,
    /// When its reply was there; `None`: it got none.
    pub reply_ns: Option<i64>,
    /// The client, as a number.
    pub client: u32,
    /// The server, as a number.
    pub server: u32,
    /// The connection.
    pub connection: i64,
    /// The user.
    pub user: Option<i64>,
    /// The name of the operation, as a number; of a compound, that of the one it was made for.
    pub operation: u32,
}

/// What a call waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A reply of the same thread.
    Reply,
    /// A reply of the same run, whose window was full.
    Window,
    /// The first of its thread: the reply that has what it uses.
    Spawned,
    /// The first of its thread: the client's latest reply. This is a guess.
    Guessed,
    /// Nothing that was seen: the first of its client, a timer, or one that came after more than
    /// the idle time. It was made when it was.
    Time,
}

impl Cause {
    /// All, as the plan names them.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Reply, "reply"),
        (Self::Window, "window"),
        (Self::Spawned, "spawned"),
        (Self::Guessed, "guessed"),
        (Self::Time, "time"),
    ];

    /// Its name in the plan.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(cause, _)| *cause == self);
        named.map_or("", |(_, name)| name)
    }
}

/// A call with what triggers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedCall {
    /// Its number.
    pub number: CallNumber,
    /// As the trace shows it.
    pub observed: Observed,
    /// Its thread: one of a client, over all its connections.
    pub thread: u32,
    /// What it waited for.
    pub cause: Cause,
    /// The call whose reply it waited for; `None` with [`Cause::Time`].
    pub trigger: Option<CallNumber>,
    /// From that reply to the call.
    pub think_ns: Option<i64>,
    /// Its run, if it has two calls or more.
    pub run: Option<u64>,
    /// The most calls of the run that were under way at once.
    pub depth: Option<u32>,
    /// The run may have been allowed more: the window was seldom full when a call came, or replies
    /// took less than a millisecond.
    pub is_bound: Option<bool>,
}

/// Why one call comes after another's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EdgeKind {
    /// It needs what the other made, or must not overtake it.
    Resource,
    /// The thread went on after that reply.
    Trigger,
    /// The run's window was full until that reply.
    Window,
}

impl EdgeKind {
    /// Its name in the plan.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Trigger => "trigger",
            Self::Window => "window",
        }
    }
}

/// `to` is made after the reply to `from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    /// The earlier call.
    pub from: CallNumber,
    /// The later one.
    pub to: CallNumber,
    /// Why.
    pub kind: EdgeKind,
}

/// Takes a plan. Calls of a run come when the run has ended, so after later ones of others.
pub trait PlanSink {
    /// Takes a call.
    fn call(&mut self, call: &PlannedCall);
    /// Takes an edge.
    fn edge(&mut self, edge: Edge);
}

/// How calls are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// A longer time between a reply and a call is time of day, not thought.
    pub idle_ns: i64,
    /// Calls that are looked at ahead, to see which threads go on with their files.
    pub ahead_max: usize,
    /// Calls of a run; a longer one is continued by another.
    pub run_calls_max: usize,
    /// Calls of all open runs.
    pub open_calls_max: usize,
    /// Files, names, states and connections that are remembered, of each kind.
    pub remembered_max: usize,
    /// Threads of a client that may still go on.
    pub threads_max: usize,
}

impl Default for Config {
    /// Within 150 MiB, all together.
    fn default() -> Self {
        Self {
            idle_ns: 1_000_000_000,
            ahead_max: 16_384,
            run_calls_max: 4_096,
            open_calls_max: 131_072,
            remembered_max: 65_536,
            threads_max: 256,
        }
    }
}

/// A call that others may come after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    number: CallNumber,
    /// `i64::MAX` without a reply.
    reply_ns: i64,
    thread: u32,
}

impl Mark {
    /// Whether a call at that time may wait for it.
    fn is_before(&self, call_ns: i64) -> bool {
        self.reply_ns <= call_ns
    }
}

/// A reply that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) number: CallNumber,
    pub(crate) ns: i64,
    /// The run that the call is part of.
    pub(crate) run: Option<u64>,
}

/// What a run is of: a client's READs (`false`) or WRITEs (`true`) of a file.
pub(crate) type RunKey = (u32, i64, bool);
