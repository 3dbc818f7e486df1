//! `lineside report`, `lineside slow` and `lineside compare`: the account of the capture and of the
//! workload in a trace, or in two.

mod compare;
mod flags;
mod run;

pub(crate) use compare::run as run_compare;
pub(crate) use flags::{CompareArguments, ReportArguments, SlowArguments};
pub(crate) use run::{run, run_slow};
