//! The plan of a trace: why each call was made when it was.
//!
//! ```text
//!  parts, by the first call in each ─► rows ─► merge by the time of calls ─► calls ─► Planner
//!   (their footers)                     └─ state ids of nfs4                  └─ openings
//! ```
//!
//! Rows lie in the order of replies, in any parts: a part is read when the calls have come to its
//! first. So memory is that of the parts whose times overlap, and what comes out does not depend on
//! how rows are shared among parts.

mod calls;
mod left_out;
mod merge;
mod openings;
mod rows;
mod states;

use std::path::Path;

use lineside_plan::{Config, Figures, Planner};
use lineside_rows::Table;
use lineside_trace::{Manifest, Role};
use serde::Serialize;

use super::image::ImageError;
use crate::numbers::Zone;
use crate::read::columns::Lexicon;
use crate::read::trace::{Trace, TraceError};
use calls::Calls;
pub(crate) use left_out::Aside;
pub use left_out::{LeftOut, PlanOutput};
pub(crate) use rows::{Row, Source};

/// Names of clients, servers and operations that are kept.
const WORDS_MAX: usize = 262_144;

/// A plan that was made.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The form of this and of the tables: it changes where a reader has to.
    pub plan_version: u32,
    /// The folder of the trace, as it was given.
    pub trace: String,
    /// Its id.
    pub trace_id: Option<String>,
    /// A longer time between a reply and a call is time of day, not thought.
    pub idle_ns: i64,
    /// When the first call was made, and when the last one was.
    pub first_ns: Option<i64>,
    /// The last call.
    pub last_ns: Option<i64>,
    /// What it comes to.
    #[serde(flatten)]
    pub figures: Figures,
    /// What of the trace is not in it.
    pub left_out: LeftOut,
    /// Columns that an older lineside did not write.
    pub lacks: Vec<String>,
    /// What of the trace could not be read.
    pub unreadable: Vec<String>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is nothing to plan.
    #[error(
        "{trace} has no calls of NFS{beside}: capture a client and its server, from before it mounts"
    )]
    NoCalls {
        /// The trace.
        trace: String,
        /// What it has instead.
        beside: &'static str,
    },
    /// What there was could not be read.
    #[error("{0}; what can be read is no plan: make the trace anew with 'lineside capture'")]
    Unreadable(String),
    /// Without replies there is no way to know what calls waited for.
    #[error(
        "{trace} has {seen} alone: the capture saw one direction; capture where both pass, at the \
        client or the server, or on both ports of a mirror"
    )]
    OneDirection {
        /// The trace.
        trace: String,
        /// `calls` or `replies`.
        seen: &'static str,
    },
    /// Where its files were is not known.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The rows of a load lack what replies named.
    #[error(
        "{trace} is the run of a load: its rows are requests, and lack what their replies named; \
        give the trace of a capture of it, or run the load again there"
    )]
    OfLoad {
        /// The trace.
        trace: String,
    },
    /// There is no room for the calls.
    #[error(
        "the calls of {trace} cannot be kept in a file: {why}; make room there, or name another \
        folder with -o or TMPDIR"
    )]
    Shelf {
        /// The trace.
        trace: String,
        /// Why not.
        why: String,
    },
    /// A filter leaves nothing.
    #[error("no call of {trace} is of all that the flags choose: leave one of them out")]
    NotChosen {
        /// The trace.
        trace: String,
    },
    /// More than memory is for.
    #[error(
        "{trace}: parts with more than {max} rows overlap in time, so they cannot be merged within \
        memory: make the trace anew with 'lineside capture', which writes rows in the order of time"
    )]
    Overlap {
        /// The trace.
        trace: String,
        /// The bound.
        max: usize,
    },
}

/// Makes the plan of a trace. What is damaged is left out, and named.
pub fn plan<S: PlanOutput>(path: &Path, config: Config, sink: S) -> Result<(Plan, S), PlanError> {
    plan_beside(path, config, sink, &mut ())
}

/// The same, with one who takes the rows themselves.
pub(crate) fn plan_beside<S: PlanOutput>(
    path: &Path,
    config: Config,
    sink: S,
    aside: &mut dyn Aside,
) -> Result<(Plan, S), PlanError> {
    let mut trace = Trace::open_all(path, &Zone::default())?;
    let mut words = Lexicon::new(WORDS_MAX);
    let openings = openings::of(&mut trace, &mut words);
    let mut calls = Calls::new(Planner::new(config, sink), aside, openings);
    let shown = || path.display().to_string();
    merge::run(&mut trace, &mut words, &mut calls).map_err(|_| PlanError::Overlap {
        trace: shown(),
        max: merge::ROWS_MAX,
    })?;
    let (mut done, figures, sink) = calls.finish(&words);
    if is_of_load(&mut trace) {
        done.left_out.of_load = figures.calls;
    }
    check(shown(), &done, &figures).map_err(|error| match trace.warnings.first() {
        Some(warning) => PlanError::Unreadable(warning.clone()),
        None => error,
    })?;
    let plan = Plan {
        plan_version: 1,
        trace: shown(),
        trace_id: trace
            .manifest
            .as_ref()
            .map(|manifest| manifest.trace_id.clone()),
        idle_ns: config.idle_ns,
        first_ns: done.first_ns,
        last_ns: done.last_ns,
        figures,
        left_out: done.left_out,
        lacks: trace.lacks.iter().cloned().collect(),
        unreadable: trace.warnings.clone(),
    };
    Ok((plan, sink))
}

/// Whether rows are those that a load writes of its requests.
pub(crate) fn is_of_load(trace: &mut Trace) -> bool {
    let role = trace.manifest.as_ref().and_then(Manifest::role);
    role == Some(Role::Load) && trace.parts(Table::Nfs).is_empty()
}

fn check(trace: String, done: &calls::Done, figures: &Figures) -> Result<(), PlanError> {
    let left_out = &done.left_out;
    if figures.calls == 0 && left_out.calls_not_seen > 0 {
        return Err(PlanError::OneDirection {
            trace,
            seen: "replies",
        });
    }
    if figures.calls == 0 {
        let beside = match (left_out.other_protocols, left_out.callbacks) {
            (0, 0) => "",
            (0, _) => ", only callbacks",
            _ => ", only requests of other protocols",
        };
        return Err(PlanError::NoCalls { trace, beside });
    }
    if figures.calls == figures.unanswered {
        return Err(PlanError::OneDirection {
            trace,
            seen: "calls",
        });
    }
    Ok(())
}
