//! What a run's monitors have found so far, for those who ask it.

use std::time::Duration;

use lineside_host::{Stopwatch, wall_ns};
use lineside_measure::monitor::Summary;

use crate::control::responded;
use crate::request::{Done, Request};
use crate::stats::{MonitorStats, RunStats, STATS_VERSION};
use crate::{Looks, Respond};

/// Answers requests to a live capture, which has monitors and no link.
pub fn answer_capture(looks: Looks) -> Respond {
    let mut monitors = MonitorsAsked::new(Some(looks));
    Box::new(move |text| {
        responded(text, |asked| match asked {
            Request::Stats {} => Ok(Done::Stats(Box::new(RunStats {
                stats_version: STATS_VERSION.to_owned(),
                at_ns: wall_ns(),
                after_ns: None,
                directions: Vec::new(),
                switch: None,
                tap: None,
                polling: None,
                monitors: monitors.stats(),
            }))),
            _ => Err("the run is a capture, which has no link: it can be asked for stats".into()),
        })
    })
}

/// The monitors of a run, which measure in a thread of their own.
pub struct MonitorsAsked {
    looks: Option<Looks>,
    /// Their last report, when it was made, and how long that took.
    latest: Option<(Vec<Summary>, Stopwatch, Duration)>,
}

impl MonitorsAsked {
    /// After this time the reply says that the monitors, which are busy, found nothing.
    const PATIENCE: Duration = Duration::from_secs(1);
    /// A look takes the monitors at most a tenth of their time, however often they are asked:
    /// frames wait meanwhile.
    const REST: u32 = 9;

    /// `looks` is where they are asked; without it there are none.
    pub fn new(looks: Option<Looks>) -> Self {
        Self {
            looks,
            latest: None,
        }
    }

    /// What each has found; nothing new is looked for while a look is fresh.
    pub fn stats(&mut self) -> Vec<MonitorStats> {
        let Some(looks) = &self.looks else {
            return Vec::new();
        };
        let is_fresh = |&(_, since, took): &(_, Stopwatch, Duration)| {
            since.elapsed() < took.saturating_mul(Self::REST)
        };
        if !self.latest.as_ref().is_some_and(is_fresh) {
            let asked = Stopwatch::start();
            let found = looks.look(Self::PATIENCE).unwrap_or_default();
            self.latest = Some((found, Stopwatch::start(), asked.elapsed()));
        }
        let found = { self.latest.iter() }.flat_map(|(found, ..)| found.iter().cloned());
        found.map(MonitorStats::from).collect()
    }
}
