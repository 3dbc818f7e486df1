//! The course of a load: its requests over time, and how their times are spread, from the rows of
//! `operations`.

use std::collections::BTreeMap;

use lineside_measure::Times;
use lineside_trace::read::{Column, ReadError};
use lineside_trace::{Manifest, Role};

use crate::model::{LoadOverTime, LoadQuantile, LoadSteps};
use crate::pass::aggregate::Aggregate;
use crate::read::batch::Batch;
use crate::read::columns::{Integers, Texts};

/// The columns of `operations` that a course is made of.
pub(crate) const COLUMNS: [&str; 2] = ["intended_time_ns", "failure"];

/// Quantiles of a power of ten: 90 to 99 % are one, 99 to 99.9 % the next.
const POINTS: u32 = 16;

/// What is collected in the pass over `operations`.
pub(crate) struct Course {
    start_ns: i64,
    step_ns: u64,
    requests_per_row: u64,
    counts: [Vec<u64>; 3],
    failed: BTreeMap<String, Vec<u64>>,
    /// Latency and lateness of each step.
    steps: [Vec<Times>; 2],
    /// Latency, service and lateness of all.
    all: [Times; 3],
}

impl Course {
    /// For the steps of a report; `None` if it is not about a load.
    pub(crate) fn new(manifest: Option<&Manifest>, aggregate: &Aggregate) -> Option<Self> {
        let load = manifest?.section(Role::Load)?;
        // Runs before --row-sample call it rows.
        let rows = load.get("row_sample").or_else(|| load.get("rows"));
        let rows = rows.and_then(serde_json::Value::as_str);
        let count = aggregate.steps.len();
        let times = || (0..count).map(|_| Times::growing(2)).collect();
        Some(Self {
            start_ns: aggregate.start_ns,
            step_ns: aggregate.step_ns,
            requests_per_row: rows.and_then(|rows| rows.parse().ok()).unwrap_or(1),
            counts: std::array::from_fn(|_| vec![0; count]),
            failed: BTreeMap::new(),
            steps: [times(), times()],
            all: std::array::from_fn(|_| Times::growing(3)),
        })
    }

    /// Adds the chosen rows of a batch, of which `own` are [`COLUMNS`].
    pub(crate) fn add(
        &mut self,
        batch: &Batch<'_>,
        own: &[Column],
        rows: &[usize],
    ) -> Result<(), ReadError> {
        let intended = Integers::of(COLUMNS[0], &own[0])?;
        let failure = Texts::of(COLUMNS[1], &own[1])?;
        if self.counts[0].is_empty() {
            return Ok(());
        }
        for &row in rows {
            let (left, end) = (batch.call_time_ns.get(row), batch.reply_end_ns.get(row));
            let Some(intended) = intended.get(row).or(left) else {
                continue;
            };
            self.add_row(intended, left, end);
            if let Some(cause) = failure.get(row) {
                let (count, step) = (self.counts[0].len(), self.step(left.unwrap_or(intended)));
                let steps = self.failed.entry(cause.to_owned());
                steps.or_insert_with(|| vec![0; count])[step] += self.requests_per_row;
            }
        }
        Ok(())
    }

    fn add_row(&mut self, intended: i64, left: Option<i64>, end: Option<i64>) {
        let step = self.step(intended);
        for (counts, at) in [(0, Some(intended)), (1, left), (2, end)] {
            if let Some(at) = at {
                let step = self.step(at);
                self.counts[counts][step] += self.requests_per_row;
            }
        }
        if let Some(left) = left {
            self.steps[1][step].record(left - intended);
            self.all[2].record(left - intended);
        }
        if let Some(end) = end {
            self.steps[0][step].record(end - intended);
            self.all[0].record(end - intended);
            self.all[1].record(end - left.unwrap_or(intended));
        }
    }

    /// The step of a time. A request is planned a little before the first departure, and answered
    /// after the last.
    fn step(&self, ns: i64) -> usize {
        let since = ns.saturating_sub(self.start_ns).max(0).unsigned_abs();
        let step = usize::try_from(since / self.step_ns.max(1)).unwrap_or(usize::MAX);
        step.min(self.counts[0].len() - 1)
    }

    /// What was collected; `None` without rows.
    pub(crate) fn finish(self) -> Option<(LoadOverTime, Vec<LoadQuantile>)> {
        if self.counts.iter().flatten().all(|&count| count == 0) {
            return None;
        }
        let quantiles = self.quantiles();
        let [latency, lateness] = self.steps.map(|steps| {
            let each = |of: fn(&Times) -> Option<u64>| steps.iter().map(of).collect();
            LoadSteps {
                p50_ns: each(|times| times.quantile_ns(0.5)),
                p99_ns: each(|times| times.quantile_ns(0.99)),
                max_ns: each(Times::max_ns),
            }
        });
        let [offered, achieved, answered] = self.counts;
        let over_time = LoadOverTime {
            start_ns: self.start_ns,
            step_ns: self.step_ns,
            requests_per_row: self.requests_per_row,
            offered,
            achieved,
            answered,
            failed: self.failed,
            latency,
            lateness,
        };
        Some((over_time, quantiles))
    }

    /// Shares of equal distance on a logarithmic scale of what is left above them, up to the
    /// longest time of all.
    fn quantiles(&self) -> Vec<LoadQuantile> {
        let most = self.all.iter().map(Times::count).max().unwrap_or(0);
        let decades = (most.max(10) as f64).log10();
        let last = (decades * f64::from(POINTS)).floor() as u32;
        let shares =
            (0..=last).map(|point| 1.0 - 10f64.powf(-f64::from(point) / f64::from(POINTS)));
        { shares.chain([1.0]) }
            .map(|share| {
                let [latency_ns, service_ns, lateness_ns] =
                    [0, 1, 2].map(|of: usize| self.all[of].quantile_ns(share));
                LoadQuantile {
                    share,
                    latency_ns,
                    service_ns,
                    lateness_ns,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn course(steps: usize, requests_per_row: u64) -> Course {
        let times = || (0..steps).map(|_| Times::growing(2)).collect();
        Course {
            start_ns: 0,
            step_ns: 10 * MS.unsigned_abs(),
            requests_per_row,
            counts: std::array::from_fn(|_| vec![0; steps]),
            failed: BTreeMap::new(),
            steps: [times(), times()],
            all: std::array::from_fn(|_| Times::growing(3)),
        }
    }

    #[test]
    fn requests_that_waited_count_at_their_instants() {
        let mut course = course(3, 100);
        // A server stands still from 5 to 25 ms: one request is under way, the next ones wait.
        for (intended, left, end) in [(1, 1, 2), (6, 6, 25), (16, 25, 26), (24, 26, 31)] {
            course.add_row(intended * MS, Some(left * MS), Some(end * MS));
        }
        course.add_row(29 * MS, None, None);
        let (over_time, quantiles) = course.finish().expect("rows");
        assert_eq!(over_time.offered, [200, 100, 200]);
        assert_eq!(over_time.achieved, [200, 0, 200]);
        // The last one came after the last step.
        assert_eq!(over_time.answered, [100, 0, 300]);
        let ms = |ns: &[Option<u64>]| -> Vec<_> {
            { ns.iter() }
                .map(|ns| ns.map(|ns| ns / MS.unsigned_abs()))
                .collect()
        };
        assert_eq!(ms(&over_time.latency.max_ns), [Some(19), Some(10), Some(7)]);
        assert_eq!(ms(&over_time.lateness.max_ns), [Some(0), Some(9), Some(2)]);
        let last = quantiles.last().expect("some");
        assert_eq!((last.share, last.latency_ns), (1.0, Some(19_000_000)));
        assert_eq!(last.lateness_ns, Some(9_000_000));
        let median = quantiles.iter().find(|each| each.share > 0.49);
        let median = median.expect("a median");
        assert!(median.latency_ns > median.service_ns, "{median:?}");
    }

    #[test]
    fn a_load_without_rows_has_no_course() {
        assert_eq!(course(0, 1).finish(), None);
    }
}
