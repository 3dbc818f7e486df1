//! A lab: an experiment described in one file. Nodes run commands in networks of their own, links
//! between them are emulated, axes sweep any of its words, and metrics are read off what came out.
//!
//! ```text
//!  FILE ─► Experiment ─► points x repeats, in an order ─► a process each: nodes, links, loop
//!                                                              │
//!  lab.json, table `points` ◄─ Results ◄─ metrics ◄─ RUN/point=N/repeat=R/ ◄┘
//!                                 ├─► claims: what must hold
//!                                 └─► fits: what bounds it, in sentences
//! ```
//!
//! * [`Experiment`] reads a file, and refuses what it does not know by line and column.
//! * [`Lab`] runs what is not there yet of a folder: one that was interrupted goes on.
//! * [`Results`] are the runs of a folder, from their own files alone; [`Claim`] judges them,
//!   [`answer`] finds the law that they follow, [`compare`] sets two labs beside each other.
//!
//! Not here: the command line, and printing.
#![forbid(unsafe_code)]

mod bundle;
mod claim;
mod compare;
mod elsewhere;
mod error;
mod experiment;
mod facts;
mod fit;
mod hdr;
mod keys;
mod lab;
mod link;
mod metric;
mod node;
mod point;
mod record;
mod reproduce;
mod results;
mod statistics;
mod sweep;
pub mod tar;
mod words;

pub use bundle::{ABOUT, About, BUNDLE_TOP, BUNDLE_VERSION, Bundle, TRACE, run_files, run_folder};
pub use claim::{Claim, Judged};
pub use compare::{Change, Compared, beside_first, compare};
pub use error::LabError;
pub use experiment::{Experiment, Order, Width, home};
pub use facts::{
    Differing, FACTS, Facts, RunFacts, differing, facts_in, facts_of_run, missing_programs,
    published,
};
pub use fit::{Bound, Fit, answer, reach};
pub use hdr::Quantile;
pub use lab::{Lab, Progress, empty};
pub use link::Link;
pub use metric::{Better, From, Metric, Source};
pub use node::Node;
pub use point::Figure;
pub use record::{Ended, PointRun};
pub use reproduce::{MetricAgain, PointAgain, Reproduced};
pub use results::{EXPERIMENT, Results};
pub use statistics::Estimate;
pub use sweep::{Axis, Planned};
