//! What only one of the traces has: a client, a server, a kind of operation, a failure, a file.

use hashbrown::HashMap;

use super::questions::{Family, outcome_subject, sum};
use super::sample::{Sample, Slices};
use super::statistics::SLICES_MIN;
use super::words;
use crate::model::{Appearance, Appearances, Change, Compared, Course, Subject};

/// Clients and files that are listed although they are no news, and entries of what only one has.
pub(super) const LISTED_MAX: usize = 25;

/// Something that one of the traces lacks.
pub(super) struct Appeared {
    pub(super) family: Family,
    subject: Subject,
    /// Which trace has it.
    in_b: bool,
    operations: u64,
    of: u64,
    slices: i32,
    first: Option<u32>,
    /// Its share of the operations that could have it, by trace.
    exposure: f64,
}

impl Appeared {
    /// How likely it is that all slices with it lie in one trace by chance.
    pub(super) fn chance(&self) -> f64 {
        self.exposure.powi(self.slices)
    }

    pub(super) fn change(self, b: &Sample) -> Change {
        let course = match (&self.subject.outcome, self.in_b) {
            (Some(outcome), in_b) if !words::is_everyday(outcome) => {
                if in_b {
                    Course::Worse
                } else {
                    Course::Better
                }
            }
            _ => Course::Different,
        };
        let share = Some(self.operations as f64 / self.of.max(1) as f64);
        let operations = if self.in_b {
            [0, self.of]
        } else {
            [self.of, 0]
        };
        let measure = match self.subject.outcome {
            Some(_) => "outcome_share",
            None => "operations_share",
        };
        let figures = vec![Compared {
            subject: self.subject.clone(),
            measure,
            a: share.filter(|_| !self.in_b).or(Some(0.0)),
            b: share.filter(|_| self.in_b).or(Some(0.0)),
            since_slice: None,
            since_ns: None,
            operations,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            changed: true,
        }];
        Change {
            course,
            what: words::appearance(&self.subject, self.in_b, self.operations, share),
            // What appears in the first slices was there from the beginning on.
            since_ns: self
                .first
                .filter(|&slice| self.in_b && slice > 2)
                .map(|at| b.begin_ns(at)),
            lost_ns: 0,
            subject: self.subject,
            figures,
        }
    }
}

pub(super) fn appeared(a: &Sample, b: &Sample) -> Vec<Appeared> {
    let mut found = Vec::new();
    for (mine, other, in_b) in [(a, b, false), (b, a, true)] {
        let mut note = |family, subject, slices: &Slices, of: u64, others: u64| {
            let active = slices.iter().filter(|&&count| count > 0).count();
            if of == 0 || others == 0 || active < SLICES_MIN {
                return;
            }
            found.push(Appeared {
                family,
                subject,
                in_b,
                operations: sum(slices),
                of,
                slices: active as i32,
                first: (0..)
                    .zip(slices)
                    .find(|(_, count)| **count > 0)
                    .map(|(at, _)| at),
                exposure: of as f64 / (of + others) as f64,
            });
        };
        for (kind, (_, slices)) in &mine.kinds {
            if !other.kinds.contains_key(kind) {
                let subject = Subject {
                    operation: Some(words::kind(kind)),
                    ..Subject::default()
                };
                note(
                    Family::Operations,
                    subject,
                    slices,
                    mine.operations,
                    other.operations,
                );
            }
        }
        for ((kind, outcome), slices) in &mine.outcomes {
            let key = (kind.clone(), outcome.clone());
            if let (false, Some((_, others))) =
                (other.outcomes.contains_key(&key), other.kinds.get(kind))
            {
                let of = sum(&mine.kinds[kind].1);
                let subject = outcome_subject(kind, outcome);
                note(Family::Operations, subject, slices, of, sum(others));
            }
        }
        // That all servers are others is a doubt of its own.
        let has_servers = !mine.addresses.is_disjoint(&other.addresses);
        for family in [Family::Clients, Family::Servers] {
            let known = &family.hosts(other).counts;
            let hosts = { family.hosts(mine).counts.iter() }
                .filter(|(host, _)| !known.contains_key(*host))
                .filter(|_| family == Family::Clients || has_servers);
            for (host, slices) in hosts {
                let whole = [mine.operations, other.operations];
                note(family, family.host(host), slices, whole[0], whole[1]);
            }
        }
    }
    found
}

/// What only one of the traces has, news or not.
pub(super) fn only(a: &Sample, b: &Sample) -> [Appearances; 2] {
    let is_same_server = !a.addresses.is_disjoint(&b.addresses) || a.addresses.is_empty();
    [(a, b), (b, a)].map(|(mine, other)| {
        let mut only = Appearances::default();
        let hosts = |family: Family| {
            let known = &family.hosts(other).counts;
            let hosts = family.hosts(mine).counts.iter();
            most(
                hosts
                    .filter(|(host, _)| !known.contains_key(*host))
                    .map(|(host, slices)| Appearance {
                        subject: family.host(host),
                        operations: sum(slices),
                    }),
            )
        };
        only.clients = hosts(Family::Clients);
        only.servers = hosts(Family::Servers);
        let kinds = mine
            .kinds
            .iter()
            .filter(|(kind, _)| !other.kinds.contains_key(*kind));
        only.operations = most(kinds.map(|(kind, (times, _))| Appearance {
            subject: Subject {
                operation: Some(words::kind(kind)),
                ..Subject::default()
            },
            operations: times.operations,
        }));
        let outcomes = mine
            .outcomes
            .iter()
            .filter(|(key, _)| !other.outcomes.contains_key(*key));
        only.outcomes = most(outcomes.map(|((kind, outcome), slices)| Appearance {
            subject: outcome_subject(kind, outcome),
            operations: sum(slices),
        }));
        if is_same_server {
            let has = |file: i64| (0..3).any(|way| other.files.contains_key(&(file, way)));
            let mut files: HashMap<i64, u64> = HashMap::new();
            for (&(file, _), used) in mine.files.iter().filter(|((file, _), _)| !has(*file)) {
                *files.entry(file).or_default() += used.operations;
            }
            only.files = files.len() as u64;
            only.busiest_files = most(files.into_iter().map(|(file_id, operations)| Appearance {
                subject: Subject {
                    file_id: Some(file_id),
                    ..Subject::default()
                },
                operations,
            }));
        }
        only
    })
}

fn most(appearances: impl Iterator<Item = Appearance>) -> Vec<Appearance> {
    let mut all: Vec<_> = appearances.collect();
    all.sort_by(|one, other| {
        (other.operations.cmp(&one.operations)).then_with(|| one.subject.cmp(&other.subject))
    });
    all.truncate(LISTED_MAX);
    all
}
