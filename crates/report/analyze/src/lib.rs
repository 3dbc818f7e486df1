//! Reports on a trace: what is missing from the capture, and what the workload was.
//!
//! ```text
//!  TRACE/ ──► Trace ──► batches of columns ──► report()    ──► Report, which is its JSON form
//!   trace.json, parts                     ├──► intervals() ──► nfsiostat's columns for each interval
//!                                         ├──► compare()   ──► Comparison, of two traces
//!                                         ├──► assert()    ──► whether figures are as asserted
//!                                         └──► slow()      ──► one line a slow operation
//! ```
//!
//! One pass over `operations`, column by column, in bounded memory: times go into histograms, files
//! and clients into maps of a stated size, and what no longer fits is counted, so that a report can
//! state by how much it may be wrong. Names are looked up afterwards, for the files that are
//! printed. [`Report`] is the one model: JSON is the model itself, and the crate `render` draws it. No
//! clock and no output here.
#![forbid(unsafe_code)]

mod aggregate;
mod assertion;
mod batch;
mod columns;
mod compare;
mod emulated_core;
mod emulation;
mod filter;
mod findings;
mod forwarding;
mod glob;
mod interval;
mod load;
mod model;
mod monitors;
mod names;
mod numbers;
mod places;
mod report;
mod runs;
mod selection;
mod slow;
mod spans;
mod trace;
mod unfinished;
mod usage;

pub use assertion::{
    Assert, AssertError, Assertion, LoadFigures, WithAssertions, assert, assert_both, assert_load,
};
pub use compare::{
    Appearance, Appearances, COMPARE_VERSION, Change, CompareParameters, Compared, Comparison,
    Course, Side, Subject, change_words, compare, who,
};
pub use emulated_core::{EmulatedAddresses, EmulatedCore, EmulatedPort};
pub use emulation::{
    EmulatedClockSteps, EmulatedCounters, EmulatedDirection, EmulatedStep, EmulatedTimes,
    Emulation, EmulationChange, EmulationFloor, EmulationLoop, LINK_SETTINGS,
};
pub use filter::{Filter, Moment, MomentError};
pub use findings::{Finding, Place};
pub use forwarding::{
    DEVIATIONS_MAX, Down, Forwarding, ForwardingChange, ForwardingCourse, ForwardingDriver,
    ForwardingNode, ForwardingNodeCourse, ForwardingPayloads, ForwardingPort, ForwardingService,
    ForwardingTable, ForwardingTimes, deviations, reason_words,
};
pub use interval::{INTERVALS_MAX, Interval, Iostat, Series, intervals};
pub use load::{
    LoadAsked, LoadConnections, LoadDepartures, LoadFit, LoadGenerator, LoadOverTime, LoadQuantile,
    LoadRates, LoadReport, LoadRequests, LoadSteps, LoadTimes,
};
pub use model::*;
pub use monitors::{
    METRICS, MonitorBin, MonitorDistribution, MonitorEvent, MonitorFlow, MonitorFlows,
    MonitorPlace, MonitorRate, MonitorWindows, MonitoredFlow, Monitors, MonitorsOverTime,
};
pub use numbers::{Zone, file_name, share, tail};
pub use report::{closing, report};
pub use runs::{OneRun, RunOfMany, gap_text, may_be_of_runs, runs_of};
pub use selection::end_name;
pub use slow::{
    Divided, Frames, GROUPS_MAX, Per, SLOW_MAX, Slow, SlowBy, SlowGroup, SlowGroups, SlowOperation,
    SlowRequest, slow, slow_groups,
};
pub use spans::{Mark, Span, input_file, spans};
pub use trace::{Trace, TraceError};
pub use unfinished::Unfinished;
