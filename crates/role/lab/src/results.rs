//! The runs of a lab's folder, from their own files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::record::{PointRun, folder_of, run_in};
use crate::statistics::{Estimate, estimate};
use crate::{Experiment, Judged, LabError, Metric, Planned};

/// The runs of a lab.
#[derive(Debug, Clone)]
pub struct Results {
    /// The lab.
    pub lab: Experiment,
    /// The runs that are there, by point and repeat.
    pub runs: Vec<PointRun>,
}

/// The experiment in a lab's folder.
pub const EXPERIMENT: &str = "lab.toml";

/// Whether a run is not needed, since those before it, and those of the points that it is compared
/// with, are close enough to each other. `runs` are those of a point that are there.
pub(crate) fn is_spared(
    lab: &Experiment,
    planned: Planned,
    runs: &dyn Fn(usize) -> Vec<PointRun>,
) -> bool {
    planned.repeat > lab.repeats_least && is_enough(lab, planned.point, planned.repeat, runs)
}

fn is_enough(
    lab: &Experiment,
    point: usize,
    before: u32,
    runs: &dyn Fn(usize) -> Vec<PointRun>,
) -> bool {
    let Some(width) = &lab.width else {
        return false;
    };
    lab.beside(point).into_iter().all(|point| {
        let mut runs = runs(point);
        runs.retain(|run| run.repeat < before);
        let mut metrics = lab.metrics().filter(|metric| width.is_of(&metric.name));
        runs.len() >= lab.repeats_least as usize
            && metrics.all(|metric| {
                let values = { runs.iter() }.filter_map(|run| run.metrics.get(&metric.name));
                let values: Vec<f64> = values.copied().collect();
                estimate(&values).is_some_and(|it| it.is_within(width.share))
            })
    })
}

impl Results {
    /// Whether a folder is a lab's.
    pub fn is_there(folder: &Path) -> bool {
        folder.join(EXPERIMENT).is_file() && !folder.join("trace.json").exists()
    }

    /// Reads the folder of a lab.
    pub fn read(folder: &Path) -> Result<Self, LabError> {
        let file = folder.join(EXPERIMENT);
        Self::of(Experiment::described(&file)?, folder)
    }

    /// The runs of an experiment that are in a folder.
    pub(crate) fn of(lab: Experiment, folder: &Path) -> Result<Self, LabError> {
        let mut runs = Vec::new();
        for planned in lab.order() {
            runs.extend(run_in(&folder_of(folder, planned)));
        }
        runs.sort_by_key(|run: &PointRun| (run.point, run.repeat));
        Ok(Self { lab, runs })
    }

    /// The values of a metric at a point, by repeat.
    pub fn values<'a>(
        &'a self,
        point: usize,
        metric: &'a str,
    ) -> impl Iterator<Item = (u32, f64)> + 'a {
        let runs = self.at_point(point).iter();
        runs.filter_map(move |run| Some((run.repeat, *run.metrics.get(metric)?)))
    }

    /// The runs of a point.
    pub fn at_point(&self, point: usize) -> &[PointRun] {
        let begin = self.runs.partition_point(|run| run.point < point);
        let end = self.runs.partition_point(|run| run.point <= point);
        &self.runs[begin..end]
    }

    /// The point at these values of all axes, if it has runs.
    pub(crate) fn point_at(&self, values: &BTreeMap<String, String>) -> Option<usize> {
        let point = self.lab.point_at(values)?;
        (!self.at_point(point).is_empty()).then_some(point)
    }

    /// The median of a metric at a point.
    pub fn estimate(&self, point: usize, metric: &str) -> Option<Estimate> {
        let values: Vec<_> = self.values(point, metric).map(|(_, value)| value).collect();
        estimate(&values)
    }

    /// How many cores the busiest node of a point took, and its number.
    pub(crate) fn busiest(&self, point: usize) -> Option<(f64, usize)> {
        let nodes = self
            .lab
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(number, node)| {
                let cores = self.at_point(point).iter().filter_map(|run| {
                    let longest = run
                        .nodes
                        .values()
                        .filter_map(|ended| ended.elapsed_ns)
                        .max()?;
                    let cpu_ns = run.nodes.get(&node.name)?.cpu_ns?;
                    Some(cpu_ns as f64 / longest.max(1) as f64)
                });
                let cores: Vec<_> = cores.collect();
                Some((crate::statistics::median(&cores)?, number))
            });
        nodes.max_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// The median of a metric at the values of all axes.
    pub(crate) fn at(&self, metric: &str, values: &BTreeMap<String, String>) -> Option<f64> {
        Some(self.estimate(self.point_at(values)?, metric)?.value)
    }

    /// How many runs are there or still wanted.
    pub fn planned(&self) -> usize {
        let runs = |point| self.at_point(point).to_vec();
        let is_enough = |point: &usize| is_enough(&self.lab, *point, u32::MAX, &runs);
        let points = 1..=self.lab.points();
        let enough: BTreeSet<usize> = points.filter(is_enough).collect();
        let order = self.lab.order().into_iter();
        let is_there = |planned: &Planned| {
            let mut runs = self.at_point(planned.point).iter();
            runs.any(|run| run.repeat == planned.repeat)
        };
        order
            .filter(|planned| !enough.contains(&planned.point) || is_there(planned))
            .count()
    }

    /// What must hold, judged.
    pub fn judge(&self, baseline: Option<&Self>) -> Vec<Judged> {
        let value = |metric: &str, values: &BTreeMap<String, String>| self.at(metric, values);
        let before = |metric: &str, values: &BTreeMap<String, String>| baseline?.at(metric, values);
        let claims = self.lab.claims.iter();
        claims
            .map(|claim| claim.judge(self.lab.plan(), &value, &before))
            .collect()
    }

    /// Runs whose links were disturbed in every attempt.
    pub fn disturbed(&self) -> usize {
        self.runs.iter().filter(|run| run.is_disturbed()).count()
    }

    /// A metric by its name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.lab.metrics().find(|metric| metric.name == name)
    }
}
