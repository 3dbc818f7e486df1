//! `lineside report`, `lineside slow`, `lineside failed` and `lineside compare`: the account of the
//! capture and of the workload in a trace, or in two.

mod compare;
mod failed;
mod flags;
mod run;

pub(crate) use compare::run as run_compare;
pub(crate) use failed::run as run_failed;
pub(crate) use flags::{CompareArguments, FailedArguments, ReportArguments, SlowArguments};
pub(crate) use run::{run, run_slow};
