//! What is asked: which figures of which subjects, and what there is of each in both traces.

use super::sample::{Hosts, Kind, Outcome, SLICES, Sample, Slices, Times, way};
use super::statistics::{Distribution, Estimate, Logarithms, Ratio, SLICES_MIN, critical};
use super::words;
use crate::model::Subject;

/// What takes longer than this share of its kind, in both traces, is of the tail.
pub(super) const TAIL_QUANTILE: f64 = 0.99;

/// Questions that are corrected for each other: thousands of files shall not hide a change of READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    Operations,
    Clients,
    Servers,
    Files,
}

impl Family {
    /// What a trace has of clients, or of servers.
    pub(super) fn hosts(self, sample: &Sample) -> &Hosts {
        match self {
            Self::Servers => &sample.servers,
            _ => &sample.clients,
        }
    }

    /// A client, or a server.
    pub(super) fn host(self, host: &str) -> Subject {
        let host = Some(host.to_owned());
        match self {
            Self::Servers => Subject {
                server: host,
                ..Subject::default()
            },
            _ => Subject {
                client: host,
                ..Subject::default()
            },
        }
    }
}

/// What there is of a figure in one trace.
pub(super) enum Evidence<'a> {
    /// With the times of all clients or servers, of one of which these are.
    Quantile(&'a Distribution, f64, Option<&'a Distribution>),
    Ratio(Ratio, f64),
    /// With the mean of all of its way.
    Mean(&'a Logarithms, Option<Ratio>),
}

impl Evidence<'_> {
    pub(super) fn is_enough(&self) -> bool {
        match self {
            Self::Quantile(distribution, ..) => distribution.is_enough(),
            Self::Ratio(ratio, _) => ratio.value > 0.0 && ratio.slices >= SLICES_MIN,
            Self::Mean(logarithms, _) => logarithms.is_enough(),
        }
    }

    /// With the interval that misses with this probability.
    pub(super) fn estimate(&self, probability: f64) -> Option<Estimate> {
        let factor = |slices| critical(probability, slices);
        match self {
            Self::Quantile(distribution, share, all) => distribution.quantile(*share, *all, factor),
            Self::Ratio(ratio, unit) => {
                let scaled = Ratio {
                    value: ratio.value / unit,
                    error: ratio.error / unit,
                    ..*ratio
                };
                scaled.estimate(factor(ratio.independent))
            }
            Self::Mean(logarithms, all) => logarithms.geometric_mean(all.as_ref(), factor),
        }
    }
}

/// Slices with their number, x and n.
pub(super) type Course = Vec<(u32, f64, f64)>;

/// One figure of one subject in both traces.
pub(super) struct Question<'a> {
    pub(super) family: Family,
    pub(super) subject: Subject,
    pub(super) measure: &'static str,
    pub(super) kind: Option<&'a Kind>,
    pub(super) evidence: [Evidence<'a>; 2],
    pub(super) operations: [u64; 2],
    /// How much time was lost, if this is about time.
    pub(super) lost_ns: f64,
    /// In B: slices with their number, x and n; and x / n in A.
    pub(super) course_of_b: Option<(Course, f64)>,
}

fn counts(slices: &Slices) -> impl Iterator<Item = f64> {
    slices.iter().map(|&count| f64::from(count))
}

pub(super) fn sum(slices: &Slices) -> u64 {
    slices.iter().map(|&count| u64::from(count)).sum()
}

/// Counts of something and of that of which it is a part.
fn parts(part: &Slices, whole: &Slices) -> Vec<(f64, f64)> {
    counts(part).zip(counts(whole)).collect()
}

fn numbered(pairs: Vec<(f64, f64)>) -> Vec<(u32, f64, f64)> {
    let pairs = (0..).zip(pairs);
    pairs.map(|(slice, (x, n))| (slice, x, n)).collect()
}

/// A question about the share of `part` in `whole`, if both traces have it.
fn share_question<'a>(
    subject: Subject,
    measure: &'static str,
    [part_a, whole_a]: [&Slices; 2],
    [part_b, whole_b]: [&Slices; 2],
) -> Option<Question<'a>> {
    let [a, b] = [parts(part_a, whole_a), parts(part_b, whole_b)];
    let [of_a, of_b] = [Ratio::share(&a)?, Ratio::share(&b)?];
    Some(Question {
        family: Family::Operations,
        subject,
        measure,
        kind: None,
        operations: if measure == "outcome_share" {
            [sum(whole_a), sum(whole_b)]
        } else {
            [sum(part_a), sum(part_b)]
        },
        course_of_b: Some((numbered(b), of_a.value)),
        evidence: [Evidence::Ratio(of_a, 1.0), Evidence::Ratio(of_b, 1.0)],
        lost_ns: 0.0,
    })
}

pub(super) fn totals<'a>(a: &Sample, b: &Sample) -> Vec<Question<'a>> {
    let seconds = [a, b].map(|sample| sample.slice_ns as f64 / 1e9);
    let series = |sample: &Sample| -> [Vec<f64>; 3] {
        let [read, written] = &sample.moved_bytes;
        [
            counts(&sample.counts).collect(),
            read.clone(),
            written.clone(),
        ]
    };
    let measures = [
        "operations_per_second",
        "read_bytes_per_second",
        "written_bytes_per_second",
    ];
    let questions = measures.into_iter().zip(series(a)).zip(series(b));
    let questions = questions.filter_map(|((measure, of_a), of_b)| {
        let ratio = |values: &Vec<f64>| match measure {
            "operations_per_second" => Ratio::rate(values.iter().copied()),
            _ => Ratio::of(
                &values.iter().map(|&x| (x, 1.0)).collect::<Vec<_>>(),
                |_, _| 0.0,
            ),
        };
        let slices: Vec<_> = of_b.iter().map(|&x| (x, seconds[1])).collect();
        let [of_a, of_b] = [ratio(&of_a)?, ratio(&of_b)?];
        Some(Question {
            family: Family::Operations,
            subject: Subject::default(),
            measure,
            kind: None,
            operations: [a.operations, b.operations],
            course_of_b: Some((numbered(slices), of_a.value / seconds[0])),
            evidence: [
                Evidence::Ratio(of_a, seconds[0]),
                Evidence::Ratio(of_b, seconds[1]),
            ],
            lost_ns: 0.0,
        })
    });
    questions.filter(is_enough).collect()
}

fn is_enough(question: &Question<'_>) -> bool {
    question.evidence.iter().all(Evidence::is_enough)
}

/// Median and 99th percentile of the latency of a subject.
fn latencies<'a>(
    family: Family,
    subject: &Subject,
    kind: &'a Kind,
    [a, b]: [&'a Times; 2],
    all: [Option<&'a Distribution>; 2],
) -> impl Iterator<Item = Question<'a>> {
    let means = [a, b].map(|times| times.latency.mean().unwrap_or(0.0));
    let questions = [("latency_p50_ns", 0.5), ("latency_p99_ns", 0.99)];
    let question = move |subject: Subject, (measure, share)| Question {
        family,
        subject,
        measure,
        kind: Some(kind),
        operations: [a.operations, b.operations],
        evidence: [
            Evidence::Quantile(&a.latency, share, all[0]),
            Evidence::Quantile(&b.latency, share, all[1]),
        ],
        lost_ns: (means[1] - means[0]) * b.latency.count() as f64,
        course_of_b: None,
    };
    let subject = subject.clone();
    { questions.into_iter() }
        .map(move |each| question(subject.clone(), each))
        .filter(is_enough)
}

pub(super) fn kinds<'a>(a: &'a Sample, b: &'a Sample) -> Vec<Question<'a>> {
    let mut questions = Vec::new();
    for (kind, (times, slices)) in &a.kinds {
        let Some((times_b, slices_b)) = b.kinds.get(kind) else {
            continue;
        };
        let subject = Subject {
            operation: Some(words::kind(kind)),
            ..Subject::default()
        };
        let whole = [[slices, &a.counts], [slices_b, &b.counts]];
        let share = share_question(subject.clone(), "operations_share", whole[0], whole[1]);
        questions.extend(share.filter(is_enough));
        questions.extend(latencies(
            Family::Operations,
            &subject,
            kind,
            [times, times_b],
            [None; 2],
        ));
    }
    questions
}

/// How many operations of all kinds took longer than nearly all of their kind: times that are too
/// few of each kind to move its 99th percentile for sure. Without the kinds that are `news`
/// already.
pub(super) fn tail<'a>(
    a: &Sample,
    b: &Sample,
    news: impl Fn(&Kind) -> bool,
) -> Option<Question<'a>> {
    let mut courses = [(); 2].map(|()| vec![(0.0, 0.0); SLICES as usize]);
    let (mut operations, mut lost_ns) = ([0, 0], 0.0);
    let mut kinds: Vec<_> = { a.kinds.iter() }
        .filter(|(kind, _)| !news(kind))
        .filter_map(|(kind, (of_a, _))| Some((kind, of_a, &b.kinds.get(kind)?.0)))
        .collect();
    // Sums of fractions depend on the order.
    kinds.sort_unstable_by_key(|(kind, ..)| *kind);
    for (_, of_a, of_b) in kinds {
        let both = [of_a, of_b].map(|times| &times.latency);
        let Some(bound_ns) = both[0].common(both[1], TAIL_QUANTILE) else {
            continue;
        };
        for (course, latency) in courses.iter_mut().zip(both) {
            for (slice, above, all) in latency.above(bound_ns) {
                course[slice as usize].0 += above;
                course[slice as usize].1 += all;
            }
        }
        operations[0] += of_a.operations;
        operations[1] += of_b.operations;
        let means = both.map(|latency| latency.mean().unwrap_or(0.0));
        lost_ns += (means[1] - means[0]) * both[1].count() as f64;
    }
    let [of_a, of_b] = [Ratio::share(&courses[0])?, Ratio::share(&courses[1])?];
    let [_, course_of_b] = courses;
    let question = Question {
        family: Family::Operations,
        subject: Subject::default(),
        measure: "latency_tail_share",
        kind: None,
        operations,
        course_of_b: Some((numbered(course_of_b), of_a.value)),
        evidence: [Evidence::Ratio(of_a, 1.0), Evidence::Ratio(of_b, 1.0)],
        lost_ns,
    };
    is_enough(&question).then_some(question)
}

pub(super) fn outcome_subject(kind: &Kind, outcome: &Outcome) -> Subject {
    Subject {
        operation: Some(words::kind(kind)),
        outcome: Some(words::outcome(outcome)),
        ..Subject::default()
    }
}

pub(super) fn outcomes<'a>(a: &'a Sample, b: &'a Sample) -> Vec<Question<'a>> {
    let questions = a.outcomes.iter().filter_map(|((kind, outcome), of_a)| {
        let of_b = b.outcomes.get(&(kind.clone(), outcome.clone()))?;
        let whole = [a, b].map(|sample| &sample.kinds[kind].1);
        let subject = outcome_subject(kind, outcome);
        share_question(subject, "outcome_share", [of_a, whole[0]], [of_b, whole[1]])
    });
    questions.filter(is_enough).collect()
}

/// About clients, or about servers.
pub(super) fn hosts<'a>(family: Family, a: &'a Sample, b: &'a Sample) -> Vec<Question<'a>> {
    let mut questions = Vec::new();
    let [hosts_a, hosts_b] = [a, b].map(|sample| family.hosts(sample));
    for (host, of_a) in &hosts_a.counts {
        let Some(of_b) = hosts_b.counts.get(host) else {
            continue;
        };
        let (a, b) = ([of_a, &a.counts], [of_b, &b.counts]);
        let share = share_question(family.host(host), "operations_share", a, b);
        questions.extend(
            share
                .filter(is_enough)
                .map(|question| Question { family, ..question }),
        );
    }
    for ((host, kind), of_a) in &hosts_a.kinds {
        if let Some(of_b) = hosts_b.kinds.get(&(host.clone(), kind.clone())) {
            let subject = Subject {
                operation: Some(words::kind(kind)),
                ..family.host(host)
            };
            let all = [a, b].map(|sample| Some(&sample.kinds.get(kind)?.0.latency));
            questions.extend(latencies(family, &subject, kind, [of_a, of_b], all));
        }
    }
    questions
}

/// The mean logarithm of the latency, of READ, WRITE and other operations: a slow time is slow for
/// all files.
fn logarithms_of_ways(sample: &Sample) -> [Option<Ratio>; 3] {
    let mut slices = [[(0.0, 0.0); SLICES as usize]; 3];
    let mut kinds: Vec<_> = sample.kinds.iter().collect();
    // Sums of fractions depend on the order.
    kinds.sort_unstable_by_key(|(kind, _)| *kind);
    for ((program, _, operation), (times, _)) in kinds {
        let slices = &mut slices[usize::from(way(program, operation))];
        for (slice, sum, all) in times.latency.logarithms() {
            slices[slice as usize].0 += sum;
            slices[slice as usize].1 += all;
        }
    }
    slices.map(|slices| Ratio::of(&slices, |_, _| 0.0))
}

pub(super) fn files<'a>(a: &'a Sample, b: &'a Sample) -> Vec<Question<'a>> {
    let ways = [a, b].map(logarithms_of_ways);
    let questions = a.files.iter().filter_map(|(key, of_a)| {
        let of_b = b.files.get(key)?;
        let name = ["READ", "WRITE", "other"].get(usize::from(key.1))?;
        Some(Question {
            family: Family::Files,
            subject: Subject {
                file_id: Some(key.0),
                operation: Some((*name).to_owned()),
                ..Subject::default()
            },
            measure: "latency_geometric_mean_ns",
            kind: None,
            operations: [of_a.operations, of_b.operations],
            evidence: [
                Evidence::Mean(of_a, ways[0][usize::from(key.1)]),
                Evidence::Mean(of_b, ways[1][usize::from(key.1)]),
            ],
            lost_ns: 0.0,
            course_of_b: None,
        })
    });
    questions.filter(is_enough).collect()
}
