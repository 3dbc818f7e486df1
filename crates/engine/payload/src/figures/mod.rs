//! The paper's experiments on the emulated adapter, in virtual time: our numbers beside its own.
//!
//! All of a paper's figures have one set of parameters, the one of [`Parameters::new`]; a figure
//! changes nothing but its own axis. Where the paper's text has no number, there is none here.

mod datagrams;
mod streams;
mod tables;

pub use datagrams::{Flow, QueueSample, lone_packet_ns, queue_samples, run_flow};
pub use streams::{Streams, StreamsOutcome, run_streams};
pub use tables::{FIGURES, figure};

use serde::Serialize;

use crate::adapter::Parameters;

/// A number of ours beside the paper's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Which one.
    pub name: String,
    /// Of both.
    pub unit: &'static str,
    /// What the emulated adapter gave.
    pub ours: f64,
    /// What the paper's text has.
    pub paper: Option<f64>,
    /// By how much they may differ.
    pub tolerance: Tolerance,
}

/// By how much a number may differ from the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// By a share of the paper's.
    Share(f64),
    /// By so much in its unit.
    Absolute(f64),
    /// It may be larger.
    AtLeast,
    /// It may be smaller.
    AtMost,
}

impl Cell {
    /// Whether it is near enough; `None` if the paper has no number.
    pub fn is_met(&self) -> Option<bool> {
        let paper = self.paper?;
        let off = self.ours - paper;
        Some(match self.tolerance {
            Tolerance::Share(share) => off.abs() <= share * paper,
            Tolerance::Absolute(most) => off.abs() <= most,
            Tolerance::AtLeast => off >= 0.0,
            Tolerance::AtMost => off <= 0.0,
        })
    }
}

/// A line of a drawing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// What it shows.
    pub name: String,
    /// Both coordinates of each point.
    pub points: Vec<(f64, f64)>,
}

/// A figure of the paper, reproduced.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its number, or that of the table.
    pub number: u8,
    /// What it shows.
    pub title: &'static str,
    /// What the curves' coordinates are.
    pub axes: [&'static str; 2],
    /// Numbers that can be compared.
    pub cells: Vec<Cell>,
    /// What is drawn.
    pub curves: Vec<Curve>,
    /// States of a cache, of figure 4.
    pub queues: Vec<QueueSample>,
    /// What the reader has to know.
    pub notes: Vec<&'static str>,
    /// The machine; its mode and cache are those of the last run.
    pub parameters: Parameters,
}
