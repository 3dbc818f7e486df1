//! Operations of one, and of all, in the order of time: where one stands out, since when and until
//! when.

use lineside_rows::Table;
use lineside_words::{grouped, percent, time};
use serde_json::json;

use super::scene::{Scene, Ways};
use super::waits::{EXCESS_MIN_NS, OPERATIONS_MIN, TIME_SHARE_MIN};
use super::watch::{Call, KINDS_MAX, LARGE_BYTES, Watch, log2};
use crate::model::{Finding, Place};
use crate::numbers::share;
use crate::read::batch::Batch;
use crate::read::columns::Integers;

/// Who is slow exceeds the others by this factor,
pub(super) const FACTOR_MIN: f64 = 4.0;
/// and by so many standard deviations of the others' single operations: where some files are cached
/// and others are not, either is usual.
const DEVIATIONS_MIN: f64 = 2.0;
/// Operations of others, in all and in a step, of whom the mean means something.
pub(super) const OTHERS_MIN: u64 = 30;
const STEP_OTHERS_MIN: u64 = 10;
/// Who is slow all the time is one of so many: of two, either may be the odd one.
pub(super) const PEERS_MIN: u64 = 4;
/// A step counts for a run if operations take twice as long as others': a logarithm to base two.
const RUN_EXCESS: f64 = 1.0;
/// Times below this do not differ.
const SHORTEST_NS: u64 = 1 << 10;
/// Size classes of large READs and WRITEs: powers of two up to 1 MiB, and more.
const SIZES: usize = 6;

/// Reads the trace once more, and hands over each call, with its value of a column if one is asked
/// for.
pub(super) fn each_call(
    watch: &mut Watch,
    scene: &mut Scene<'_>,
    own: Option<&'static str>,
    mut on_call: impl FnMut(Option<i64>, &Call),
) {
    let mut columns = Batch::columns(scene.chosen);
    let shared = columns.len();
    columns.extend(own);
    let (chosen, lexica) = (scene.chosen, &mut *scene.lexica);
    scene.trace.batches(Table::Operations, &columns, |columns| {
        let batch = Batch::of(columns, chosen, lexica)?;
        let own = match own {
            Some(name) => Integers::of(name, &columns[shared])?,
            None => Integers::none(),
        };
        let rows = batch.chosen(chosen, lexica);
        watch.calls(&batch, &rows, lexica, |_, row, call| {
            on_call(own.get(row), call);
        });
        Ok(())
    });
}

/// Logarithms of times: how many, their sum and that of their squares.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    pub(super) operations: u64,
    sum: f64,
    squares: f64,
}

impl Moments {
    #[inline]
    fn add(&mut self, log: f64) {
        self.operations += 1;
        self.sum += log;
        self.squares += log * log;
    }

    fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// The others: `self` is all.
    fn without(&self, one: &Self) -> Self {
        Self {
            operations: self.operations - one.operations,
            sum: self.sum - one.sum,
            squares: self.squares - one.squares,
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.operations as f64
    }

    fn variance(&self) -> f64 {
        (self.squares / self.operations as f64 - self.mean().powi(2)).max(0.0)
    }
}

/// Operations of a suspect, or of all, in the order of time.
#[derive(Debug)]
pub(super) struct Line {
    /// By kind and size; those that occur have all steps.
    kinds: Vec<Vec<Moments>>,
    /// By step: how long they took, and how much of it at the server.
    pub(super) waited_ns: Vec<u64>,
    server_ns: Vec<u64>,
}

impl Line {
    pub(super) fn new(steps: usize) -> Self {
        Self {
            kinds: vec![Vec::new(); KINDS_MAX * (1 + SIZES)],
            waited_ns: vec![0; steps],
            server_ns: vec![0; steps],
        }
    }

    #[inline]
    pub(super) fn add(&mut self, call: &Call, waited_ns: u64) {
        let kind = usize::from(call.kind);
        if kind >= KINDS_MAX {
            return;
        }
        let kind = kind * (1 + SIZES) + size_of(call.large_bytes);
        let Some(waited) = self.waited_ns.get_mut(call.step) else {
            return;
        };
        *waited += waited_ns;
        self.server_ns[call.step] += call.server_ns();
        let steps = &mut self.kinds[kind];
        if steps.is_empty() {
            steps.resize(self.waited_ns.len(), Moments::default());
        }
        steps[call.step].add(f64::from(log2(waited_ns.max(SHORTEST_NS))));
    }

    /// What is left without a part of it.
    pub(super) fn without(&self, part: &Self) -> Self {
        let mut rest = Self::new(self.waited_ns.len());
        for kind in self.used() {
            let steps = 0..self.waited_ns.len();
            let left = steps.map(|step| self.at(kind, step).without(&part.at(kind, step)));
            rest.kinds[kind] = left.collect();
        }
        for (ours, theirs) in [
            (&mut rest.waited_ns, (&self.waited_ns, &part.waited_ns)),
            (&mut rest.server_ns, (&self.server_ns, &part.server_ns)),
        ] {
            let pairs = theirs.0.iter().zip(theirs.1);
            *ours = pairs.map(|(all, part)| all - part).collect();
        }
        rest
    }

    fn at(&self, kind: usize, step: usize) -> Moments {
        self.kinds[kind].get(step).copied().unwrap_or_default()
    }

    pub(super) fn sum(&self, kind: usize, steps: std::ops::RangeInclusive<usize>) -> Moments {
        let mut sum = Moments::default();
        steps.for_each(|step| sum.merge(&self.at(kind, step)));
        sum
    }

    /// The kinds that occur.
    pub(super) fn used(&self) -> impl Iterator<Item = usize> {
        (0..self.kinds.len()).filter(|&kind| !self.kinds[kind].is_empty())
    }
}

/// How a suspect stands to the others where it exceeds them most.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Standing {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) operations: u64,
    /// What its operations take, and the same ones of others, typically.
    pub(super) own_ns: u64,
    pub(super) usual_ns: u64,
    pub(super) factor: f64,
    /// By which factor single operations of others differ anyway.
    pub(super) deviation_factor: f64,
    pub(super) waited_ns: u64,
    pub(super) lost_ns: u64,
    /// Of the time, that at the server.
    pub(super) server_share: f64,
    /// It was as quick as others at other times.
    pub(super) was_quick: bool,
}

/// Compares a suspect with the others.
pub(super) fn compare(own: &Line, all: &Line) -> Option<Standing> {
    let last = own.waited_ns.len().checked_sub(1)?;
    let others = |kind: usize, steps: std::ops::RangeInclusive<usize>| {
        all.sum(kind, steps.clone()).without(&own.sum(kind, steps))
    };
    let kinds: Vec<(usize, f64)> = { own.used() }
        .map(|kind| (kind, others(kind, 0..=last)))
        .filter(|(_, others)| others.operations >= OTHERS_MIN)
        .map(|(kind, others)| (kind, others.mean()))
        .collect();
    let (first, last) = run(own, all, &kinds)?;

    // Of all its operations in the run, those of which others had the same at the same time.
    let (mut judged, mut own_log, mut usual_log, mut variance) = (0, 0.0, 0.0, 0.0);
    for &(kind, _) in &kinds {
        let (mine, others) = (own.sum(kind, first..=last), others(kind, first..=last));
        if mine.operations > 0 && others.operations >= OTHERS_MIN {
            judged += mine.operations;
            own_log += mine.sum;
            usual_log += mine.operations as f64 * others.mean();
            variance += mine.operations as f64 * others.variance();
        }
    }
    let in_run = |kind| own.sum(kind, first..=last).operations;
    let operations: u64 = own.used().map(in_run).sum();
    if judged < OPERATIONS_MIN || 2 * judged < operations {
        return None;
    }
    let (own_log, usual_log) = (own_log / judged as f64, usual_log / judged as f64);
    let (excess, deviation) = (own_log - usual_log, (variance / judged as f64).sqrt());
    let waited_ns: u64 = own.waited_ns[first..=last].iter().sum();
    let server_ns: u64 = own.server_ns[first..=last].iter().sum();
    let factor = excess.exp2();
    let lost_ns = (waited_ns as f64 * (1.0 - 1.0 / factor).max(0.0)) as u64;
    let stands_out = factor >= FACTOR_MIN
        && excess >= DEVIATIONS_MIN * deviation
        && lost_ns / operations >= EXCESS_MIN_NS;
    stands_out.then(|| Standing {
        first,
        last,
        operations,
        own_ns: own_log.exp2() as u64,
        usual_ns: usual_log.exp2() as u64,
        factor,
        deviation_factor: deviation.exp2(),
        waited_ns,
        lost_ns,
        server_share: share(server_ns, waited_ns),
        was_quick: was_quick(own, &kinds, first, last),
    })
}

/// The steps in which a suspect exceeds the others most, added up. Of each kind what is usual is
/// given, for steps in which others had few.
fn run(own: &Line, all: &Line, kinds: &[(usize, f64)]) -> Option<(usize, usize)> {
    let (mut best, mut sum, mut since) = ((0.0, 0, 0), 0.0, 0);
    for step in 0..own.waited_ns.len() {
        let of_kind = |&(kind, usual): &(usize, f64)| {
            let mine = own.at(kind, step);
            let others = all.at(kind, step).without(&mine);
            let usual = match others.operations >= STEP_OTHERS_MIN {
                true => others.mean(),
                false => usual,
            };
            mine.sum - mine.operations as f64 * (usual + RUN_EXCESS)
        };
        let score: f64 = kinds.iter().map(of_kind).sum();
        if sum <= 0.0 {
            (sum, since) = (0.0, step);
        }
        sum += score;
        if sum > best.0 {
            best = (sum, since, step);
        }
    }
    (best.0 > 0.0).then_some((best.1, best.2))
}

/// Whether enough operations outside of a run took no longer than others'.
fn was_quick(own: &Line, kinds: &[(usize, f64)], first: usize, last: usize) -> bool {
    let (mut operations, mut excess) = (0, 0.0);
    for &(kind, usual) in kinds {
        let steps = own.kinds[kind].iter().enumerate();
        let outside = steps.filter(|(step, _)| *step < first || *step > last);
        for (_, mine) in outside {
            operations += mine.operations;
            excess += mine.sum - mine.operations as f64 * usual;
        }
    }
    operations >= OPERATIONS_MIN && excess <= operations as f64 * RUN_EXCESS
}

/// The class of a size, and 0 for what is not large.
#[inline]
fn size_of(large_bytes: u64) -> usize {
    let units = large_bytes.saturating_sub(1) / LARGE_BYTES.unsigned_abs();
    match units {
        0 => 0,
        units => (1 + units.ilog2() as usize).min(SIZES),
    }
}

/// What findings say of a standing.
pub(super) fn stands(
    standing: &Standing,
    watch: &Watch,
    ways: &Ways,
    scene: &Scene<'_>,
) -> Finding {
    let [since_ns, until_ns] = watch.times(standing.first, standing.last);
    let is_known = ways.server_ns.is_some_and(|way| way < standing.own_ns / 2);
    let length_ns = (standing.last - standing.first + 1) as u64 * watch.step_ns;
    let mut evidence = format!(
        "{} operations in {}, {} of their time at the server",
        grouped(standing.operations),
        time(length_ns),
        percent(standing.server_share)
    );
    if standing.was_quick {
        evidence += "; at other times no longer than others";
    }
    Finding {
        place: Some(match is_known && standing.server_share >= 0.5 {
            true => Place::Server,
            false => Place::CannotTell,
        }),
        since_ns,
        until_ns,
        evidence,
        lost_ns: standing.lost_ns,
        operations_share: share(standing.operations, scene.report.totals.operations),
        basis: [
            ("operations", json!(standing.operations)),
            ("time_typical_ns", json!(standing.own_ns)),
            ("time_usual_ns", json!(standing.usual_ns)),
            ("factor", json!(standing.factor)),
            ("factor_min", json!(FACTOR_MIN)),
            ("excess_min_ns", json!(EXCESS_MIN_NS)),
            ("deviation_factor", json!(standing.deviation_factor)),
            ("deviations_min", json!(DEVIATIONS_MIN)),
            ("server_share", json!(standing.server_share)),
            ("time_share_min", json!(TIME_SHARE_MIN)),
            ("was_quick", json!(standing.was_quick)),
            ("step_ns", json!(watch.step_ns)),
        ]
        .into(),
        ..Finding::default()
    }
}

/// `take 48 ms, and the same ones of other clients 1.0 ms`
pub(super) fn take(standing: &Standing, others: &str) -> String {
    let (own, usual) = (time(standing.own_ns), time(standing.usual_ns));
    format!("take {own}, the same ones {others} {usual}")
}

/// A finding, and what it costs at the server: other findings of that time are about the same.
pub(super) struct Found {
    pub(super) finding: Finding,
    pub(super) server_lost_ns: u64,
}
