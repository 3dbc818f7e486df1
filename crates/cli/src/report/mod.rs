//! `lineside report` and `lineside slow`: what a trace says of the capture and of the workload.

mod flags;
mod run;

pub(crate) use flags::{ReportArguments, SlowArguments};
pub(crate) use run::{run, run_slow};
