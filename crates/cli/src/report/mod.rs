//! `lineside report` and `lineside slow`: the account of the capture and of the workload in a
//! trace.

mod flags;
mod run;

pub(crate) use flags::{ReportArguments, SlowArguments};
pub(crate) use run::{run, run_slow};
