//! Which differences are news.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::appearances::LISTED_MAX;
use super::appearances::{appeared, only};
use super::questions::{Evidence, Family, Question};
use super::questions::{files, hosts, kinds, outcomes, tail, totals};
use super::sample::{Kind, SLICES, Sample};
use super::statistics::{Estimate, Ratio, ratio, since};
use super::words;
use crate::model::{Appearances, Change, Compared, Course, Subject};
use crate::read::names::Paths;

/// All intervals together miss with this probability at most.
pub(super) const ERROR_SHARE: f64 = 0.01;
/// A ratio from which on a change matters.
pub(super) const RATIO_MIN: f64 = 1.1;
/// A change of a share of all operations matters from here on.
const SHARE_MIN: f64 = 0.01;
/// A change of how many operations of a kind have an outcome matters from here on.
const OUTCOME_MIN: f64 = 0.001;
/// A change of the share of the tail matters from here on: it is 1 % of two like traces.
const TAIL_MIN: f64 = 0.003;
/// What an operation that fails weighs beside those that take longer.
const FAILURE_NS: f64 = 1e8;
/// Families of questions, besides that of servers, which most traces have one of.
const FAMILIES: f64 = 3.0;

/// An answered one.
struct Answer<'a> {
    compared: Compared,
    family: Family,
    kind: Option<&'a Kind>,
    lost_ns: f64,
}

pub(super) struct Judged {
    pub(super) changes: Vec<Change>,
    pub(super) unchanged: Vec<Compared>,
    pub(super) comparisons: u64,
    pub(super) only: [Appearances; 2],
}

pub(super) fn judge(a: &mut Sample, b: &mut Sample) -> Judged {
    let mut only = only(a, b);
    let mut questions = totals(a, b);
    questions.extend(kinds(a, b));
    questions.extend(outcomes(a, b));
    questions.extend(hosts(Family::Clients, a, b));
    questions.extend(hosts(Family::Servers, a, b));
    questions.extend(files(a, b));
    let appeared = appeared(a, b);
    let mut counts: BTreeMap<Family, f64> = BTreeMap::new();
    for family in
        { questions.iter().map(|each| each.family) }.chain(appeared.iter().map(|each| each.family))
    {
        *counts.entry(family).or_default() += 1.0;
    }
    // That of the tail, which asks for the answers to others.
    *counts.entry(Family::Operations).or_default() += 1.0;
    let mut comparisons = (questions.len() + appeared.len()) as u64;
    let families = FAMILIES + f64::from(u8::from(counts.contains_key(&Family::Servers)));
    let probability =
        |family: Family| ERROR_SHARE / families / counts.get(&family).copied().unwrap_or(1.0);
    let mut answers: Vec<Answer<'_>> = { questions.into_iter() }
        .filter_map(|question| answer(question, &probability))
        .collect();
    let of_tail = {
        let news = typically_other(&answers);
        tail(a, b, |kind| news.contains(kind))
    };
    comparisons += u64::from(of_tail.is_some());
    answers.extend(of_tail.and_then(|question| answer(question, &probability)));
    for compared in answers.iter_mut().map(|answer| &mut answer.compared) {
        compared.since_ns = compared.since_slice.map(|slice| b.begin_ns(slice));
    }
    let spread = spread(&answers);
    explain(&mut answers);
    let news = { appeared.into_iter() }.filter(|each| each.chance() <= probability(each.family));
    let mut changes: Vec<Change> = { news }.map(|each| each.change(b)).collect();
    changes.extend(grouped(&mut answers, &spread));
    changes.sort_by(|one, other| {
        (one.course.cmp(&other.course))
            .then(weight(other).total_cmp(&weight(one)))
            .then_with(|| one.subject.cmp(&other.subject))
    });
    let mut unchanged = listed(answers);
    name(a, b, &mut changes, &mut unchanged, &mut only);
    Judged {
        changes,
        unchanged,
        comparisons,
        only,
    }
}

/// Kinds of operations whose median changed: more than their tail.
fn typically_other<'a>(answers: &[Answer<'a>]) -> HashSet<&'a Kind> {
    let is_of_kind = |answer: &&Answer<'_>| {
        answer.family == Family::Operations
            && answer.compared.changed
            && answer.compared.measure == "latency_p50_ns"
    };
    { answers.iter().filter(is_of_kind) }
        .filter_map(|answer| answer.kind)
        .collect()
}

/// How much a change matters beside others of its course.
fn weight(change: &Change) -> f64 {
    let figure = |compared: &Compared| {
        let [a, b] = [compared.a, compared.b].map(|value| value.unwrap_or(0.0));
        let operations = compared
            .operations
            .iter()
            .max()
            .map_or(0.0, |&count| count as f64);
        match compared.measure {
            "outcome_share" => (b - a).abs() * compared.operations[1].max(1) as f64 * FAILURE_NS,
            _ if change.lost_ns > 0 => 0.0,
            // What is neither good nor bad: by how far it went, for how many.
            _ => compared.ratio.map_or(8.0, |ratio| ratio.ln().abs()) * operations,
        }
    };
    change.lost_ns as f64 + change.figures.iter().map(figure).sum::<f64>()
}

/// What a question finds: of the whole of B or, where B left at some slice what it had been, of B
/// from there on.
struct Found {
    a: Estimate,
    b: Estimate,
    ratio: Estimate,
    since: Option<u32>,
    /// The share of B's operations that it is of.
    lost_ns: f64,
}

impl Question<'_> {
    fn of_all(&self, probability: f64) -> Option<Found> {
        let [a, b] = { &self.evidence }
            .each_ref()
            .map(|each| each.estimate(probability));
        let (a, b) = (a?, b?);
        let lost_ns = match self.measure {
            "latency_geometric_mean_ns" => (b.value - a.value) * self.operations[1] as f64,
            _ => self.lost_ns,
        };
        Some(Found {
            ratio: ratio(&a, &b)?,
            since: None,
            a,
            b,
            lost_ns,
        })
    }

    /// A change that came while B went on lies hidden in the mean of what was before and after. Its
    /// slice may be any: each is a question of its own.
    fn since(&self, whole: &Found, probability: f64) -> Option<Found> {
        let probability = probability / f64::from(SLICES);
        let estimates = |after: &Evidence<'_>| {
            let a = self.evidence[0].estimate(probability)?;
            let b = after.estimate(probability)?;
            Some((a, b, ratio(&a, &b)?))
        };
        let (since, (a, b, ratio), lost_ns) = match (&self.evidence[1], &self.course_of_b) {
            (Evidence::Quantile(latency, share, all), _) => {
                let since = since(&latency.above(whole.a.value), 1.0 - share)?;
                let after = latency.from(since);
                let part = after.count() as f64 / latency.count() as f64;
                let all = all.map(|all| all.from(since));
                let found = estimates(&Evidence::Quantile(&after, *share, all.as_ref()))?;
                let lost = (found.1.value - found.0.value) * part * latency.count() as f64;
                (since, found, lost.max(self.lost_ns))
            }
            (Evidence::Ratio(_, unit), Some((slices, before))) => {
                let since = since(slices, *before)?;
                let after = slices.iter().filter(|(slice, ..)| *slice >= since);
                let after: Vec<_> = after.map(|&(_, x, n)| (x, n)).collect();
                let after = match self.measure {
                    "operations_share" | "outcome_share" | "latency_tail_share" => {
                        Ratio::share(&after)?
                    }
                    _ => {
                        let counts = after.iter().map(|(x, _)| (*x, 1.0));
                        Ratio::of(&counts.collect::<Vec<_>>(), |_, _| 0.0)?
                    }
                };
                let found = estimates(&Evidence::Ratio(after, *unit))?;
                (since, found, whole.lost_ns)
            }
            _ => return None,
        };
        Some(Found {
            a,
            b,
            ratio,
            since: Some(since),
            lost_ns,
        })
    }

    fn is_news(&self, found: &Found) -> bool {
        let Found { a, b, ratio, .. } = found;
        let leaves_1_out =
            ratio.low.is_some_and(|low| low > 1.0) || ratio.high.is_some_and(|high| high < 1.0);
        let matters = match self.measure {
            "operations_share" => (b.value - a.value).abs() >= SHARE_MIN,
            "outcome_share" => (b.value - a.value).abs() >= OUTCOME_MIN,
            "latency_tail_share" => (b.value - a.value).abs() >= TAIL_MIN,
            _ => true,
        };
        leaves_1_out && matters && (ratio.value >= RATIO_MIN || ratio.value <= 1.0 / RATIO_MIN)
    }
}

fn answer<'a>(question: Question<'a>, probability: &impl Fn(Family) -> f64) -> Option<Answer<'a>> {
    // Half for B as a whole, half for B since some slice.
    let probability = probability(question.family) / 2.0;
    let whole = question.of_all(probability)?;
    let since = question.since(&whole, probability);
    let since = since.filter(|found| question.is_news(found));
    let changed = since.is_some() || question.is_news(&whole);
    let found = since.unwrap_or(whole);
    Some(Answer {
        family: question.family,
        kind: question.kind,
        lost_ns: found.lost_ns,
        compared: Compared {
            subject: question.subject,
            measure: question.measure,
            a: Some(found.a.value),
            b: Some(found.b.value),
            since_slice: found.since,
            since_ns: None,
            operations: question.operations,
            ratio: Some(found.ratio.value),
            ratio_low: found.ratio.low,
            ratio_high: found.ratio.high,
            changed,
        },
    })
}

/// Of which clients a kind of operation changed: how many could be asked, and who they are.
type Spread = HashMap<(String, &'static str), (usize, Vec<String>)>;

fn spread(answers: &[Answer<'_>]) -> Spread {
    let mut spread = Spread::new();
    for answer in answers
        .iter()
        .filter(|answer| answer.family == Family::Clients)
    {
        let subject = &answer.compared.subject;
        if let (Some(client), Some(operation)) = (&subject.client, &subject.operation) {
            let entry = spread.entry((operation.clone(), answer.compared.measure));
            let (asked, who) = entry.or_default();
            *asked += 1;
            if answer.compared.changed {
                who.push(client.clone());
            }
        }
    }
    spread.values_mut().for_each(|(_, who)| who.sort_unstable());
    spread
}

/// Takes from the news what a kind of operation shows already for all of its clients, servers and
/// files.
fn explain(answers: &mut [Answer<'_>]) {
    let mut of_kinds: HashMap<(String, &'static str), Compared> = HashMap::new();
    for answer in answers.iter() {
        let compared = &answer.compared;
        if answer.family == Family::Operations
            && compared.changed
            && let (Some(kind), Some(operation)) = (answer.kind, &compared.subject.operation)
        {
            of_kinds.insert((operation.clone(), compared.measure), compared.clone());
            let of_files = (kind.2.clone(), "latency_geometric_mean_ns");
            if compared.measure == "latency_p50_ns" && kind.0 == "nfs" {
                of_kinds.insert(of_files, compared.clone());
            }
        }
    }
    for answer in answers.iter_mut() {
        let compared = &mut answer.compared;
        let Some(operation) = &compared.subject.operation else {
            continue;
        };
        if answer.family == Family::Operations {
            continue;
        }
        if let Some(whole) = of_kinds.get(&(operation.clone(), compared.measure)) {
            let above = |low: Option<f64>, high: Option<f64>| {
                low.zip(high).is_some_and(|(low, high)| low > high)
            };
            let apart = above(compared.ratio_low, whole.ratio_high)
                || above(whole.ratio_low, compared.ratio_high);
            compared.changed &= apart;
        }
    }
}

/// The changes: the changed figures of a subject together. They are taken from the answers.
fn grouped(answers: &mut Vec<Answer<'_>>, spread: &Spread) -> Vec<Change> {
    let (changed, rest): (Vec<_>, Vec<_>) = answers
        .drain(..)
        .partition(|answer| answer.compared.changed);
    *answers = rest;
    let mut subjects: BTreeMap<(Subject, bool), Vec<Answer<'_>>> = BTreeMap::new();
    for answer in changed {
        // How long and how many are two things.
        let is_time = answer.compared.measure.starts_with("latency");
        let key = (answer.compared.subject.clone(), is_time);
        subjects.entry(key).or_default().push(answer);
    }
    let change = |((subject, is_time), mut answers): ((Subject, bool), Vec<Answer<'_>>)| {
        // The median comes before the tail.
        answers.sort_by(|one, other| other.compared.measure.cmp(one.compared.measure).reverse());
        let worse = |answer: &Answer<'_>| answer.compared.ratio.is_some_and(|ratio| ratio > 1.0);
        let course = match (is_time, &subject.outcome) {
            (false, None) => Course::Different,
            (false, Some(outcome)) if words::is_everyday(outcome) => Course::Different,
            _ if answers.iter().any(worse) => Course::Worse,
            _ => Course::Better,
        };
        let since_ns = answers.iter().find_map(|answer| answer.compared.since_ns);
        let lost_ns = answers.first().map_or(0.0, |answer| answer.lost_ns);
        let who = answers.first().and_then(|answer| {
            let operation = subject
                .operation
                .clone()
                .filter(|_| subject.client.is_none() && subject.server.is_none())?;
            spread.get(&(operation, answer.compared.measure))
        });
        let figures: Vec<Compared> = answers.into_iter().map(|each| each.compared).collect();
        Change {
            course,
            what: words::change_words(&figures, who.filter(|_| is_time)),
            since_ns,
            lost_ns: if is_time { lost_ns.abs() as u64 } else { 0 },
            subject,
            figures,
        }
    };
    subjects.into_iter().map(change).collect()
}

/// The figures that are no news: all of operations, and the busiest clients, servers and files.
fn listed(answers: Vec<Answer<'_>>) -> Vec<Compared> {
    let mut families: BTreeMap<Family, Vec<Compared>> = BTreeMap::new();
    for answer in answers {
        families
            .entry(answer.family)
            .or_default()
            .push(answer.compared);
    }
    for (family, figures) in &mut families {
        figures.sort_by(|one, other| {
            let busiest = |of: &Compared| std::cmp::Reverse(of.operations[1]);
            let place =
                |of: &Compared| (of.subject.outcome.is_some(), of.subject.operation.is_some());
            (place(one).cmp(&place(other)))
                .then(busiest(one).cmp(&busiest(other)))
                .then_with(|| (&one.subject, one.measure).cmp(&(&other.subject, other.measure)))
        });
        if *family != Family::Operations {
            figures.truncate(LISTED_MAX);
        }
    }
    families.into_values().flatten().collect()
}

/// Joins the paths of files.
fn name(
    a: &mut Sample,
    b: &mut Sample,
    changes: &mut [Change],
    unchanged: &mut [Compared],
    only: &mut [Appearances; 2],
) {
    let [only_a, only_b] = only;
    let mut in_both: Vec<&mut Subject> = Vec::new();
    for change in changes.iter_mut() {
        in_both.push(&mut change.subject);
        in_both.extend(change.figures.iter_mut().map(|each| &mut each.subject));
    }
    in_both.extend(unchanged.iter_mut().map(|each| &mut each.subject));
    in_both.extend(
        only_b
            .busiest_files
            .iter_mut()
            .map(|each| &mut each.subject),
    );
    let of_a = only_a
        .busiest_files
        .iter_mut()
        .map(|each| &mut each.subject);
    for (sample, subjects) in [(b, in_both), (a, of_a.collect())] {
        let ids = subjects.iter().filter_map(|subject| subject.file_id);
        let paths = Paths::of(&mut sample.trace, ids.collect::<Vec<_>>());
        for subject in subjects {
            subject.path = subject.file_id.and_then(|id| paths.path(id));
        }
    }
    for change in changes {
        if change.subject.file_id.is_some() {
            change.what = words::change_words(&change.figures, None);
        }
    }
}
