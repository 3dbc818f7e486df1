//! Reports on a trace: what is missing from the capture, and what the workload was.
//!
//! ```text
//!  TRACE/ ──► Trace ──► batches of columns ──► report()    ──► Report, which is its JSON form
//!   trace.json, parts                     ├──► intervals() ──► nfsiostat's columns for each interval
//!                                         ├──► compare()   ──► Comparison, of two traces
//!                                         ├──► assert()    ──► whether figures are as asserted
//!                                         └──► slow()      ──► one line a slow operation
//!                                         └──► failed()    ──► one line a failed operation
//!                                         └──► plan()      ──► why each call was made when it was
//!                                         └──► image()     ──► the tree of files at the start
//! ```
//!
//! Four floors, each of which uses those below it: `read`, from files to typed columns and the rows
//! that a filter chooses; `model`, what is found, as data; `findings` and `compare`, what it means;
//! `pass`, each a reading of the tables from the first batch to the last.
//!
//! One pass over `operations`, column by column, in bounded memory: times go into histograms, files
//! and clients into maps of a stated size, and what no longer fits is counted, so that a report can
//! state by how much it may be wrong. Names are looked up afterwards, for the files that are
//! printed. [`Report`] is the one model: JSON is the model itself, and the crate `render` draws it.
//! No clock and no output here.
#![forbid(unsafe_code)]

mod compare;
mod emulation;
mod findings;
mod forwarding;
mod limits;
mod load;
mod model;
mod numbers;
mod pass;
mod read;
mod replaying;

pub use compare::{CallsError, change_words, compare, compare_calls, who};
pub use emulation::{Emulation, LINK_SETTINGS};
pub use forwarding::{DEVIATIONS_MAX, Down, Forwarding, deviations, reason_words};
pub use load::LoadReport;
pub use model::*;
pub use numbers::{Zone, file_name, share, tail};
pub use pass::assertion::{Assert, AssertError, LoadFigures, assert, assert_both, assert_load};
pub use pass::image::{Contents, ImageError, ImageLeftOut, ImageOfTrace, image};
pub use pass::interval::{INTERVALS_MAX, Interval, Iostat, Series, intervals};
pub use pass::plan::{LeftOut, Plan, PlanError, PlanOutput, plan};
pub use pass::report::{closing, report};
pub use pass::script::{SHELF_FILES, script};
pub use pass::sizes::{CallSize, sizes};
pub use pass::slow::{
    Divided, FAILED_MAX, Failed, FailedGroup, FailedGroups, FailedOperation, FailedRequest, Frames,
    GROUPS_MAX, Per, SLOW_MAX, Slow, SlowBy, SlowGroup, SlowGroups, SlowOperation, SlowRequest,
    failed, failed_groups, slow, slow_groups,
};
pub use read::filter::{Asked, Filter, Moment, MomentError};
pub use read::runs::{OneRun, RunOfMany, gap_text, may_be_of_runs, runs_of};
pub use read::selection::end_name;
pub use read::spans::{Mark, Span, input_file, spans};
pub use read::trace::{Trace, TraceError};
pub use read::unfinished::Unfinished;
pub use read::waits::HANG_MIN_NS;
pub use replaying::Replayed;
