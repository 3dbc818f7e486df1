//! Calls that fail: with which status, how many of how many, whose.
//!
//! Few operations are enough: a share is judged by what it is at least ([`share_at_least`]), so
//! that 3 failures of 5 stand out and 2 of 100,000 do not. Counted are calls, of which an NFSv4
//! compound is one: the operation that failed ended it.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use lineside_words::{grouped, percent};
use serde_json::json;

use super::advice::{From, Service, judged, status_name};
use super::few::Few;
use crate::model::{ErrorCount, Finding, Report};
use crate::numbers::{share, share_at_least};
use crate::read::batch::Batch;
use crate::read::columns::Word;
use crate::read::lexica::Lexica;

/// Most calls of an operation fail, by what the share is at least.
const MOST_CALLS_SHARE: f64 = 0.5;

/// Who asked, and who answered.
#[derive(Debug, Default)]
struct Ends {
    clients: Few,
    servers: Few,
}

/// What the pass over `operations` collects of failures: who had them.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// By program and status.
    ends: HashMap<(Word, Word), Ends>,
}

impl Failures {
    /// Adds rows that failed, each with its status.
    pub(super) fn add(&mut self, batch: &Batch<'_>, failed: &[(usize, Word)]) {
        for &(row, status) in failed {
            let key = (batch.program.get(row), status);
            let ends = self.ends.entry(key).or_default();
            ends.clients.add(batch.client.get(row), 1);
            ends.servers.add(batch.server.get(row), 1);
        }
    }

    fn ends(&self, errors: &[&ErrorCount], lexica: &Lexica) -> Ends {
        let mut all = Ends::default();
        for error in errors {
            let program = lexica.words.find(&error.program);
            let status = lexica.words.find(&error.status);
            if let Some(ends) = program.zip(status).and_then(|key| self.ends.get(&key)) {
                all.clients.merge(&ends.clients);
                all.servers.merge(&ends.servers);
            }
        }
        all
    }

    /// A finding for each status that is never routine, or frequent.
    pub(super) fn findings(&self, report: &Report, lexica: &Lexica) -> Vec<Finding> {
        let mut by_status: BTreeMap<(Service, &str), Vec<&ErrorCount>> = BTreeMap::new();
        for error in &report.errors {
            let key = (Service::of(&error.program), status_name(&error.status));
            by_status.entry(key).or_default().push(error);
        }
        let found = by_status
            .into_iter()
            .filter_map(|((service, status), errors)| {
                let failure = Failure::of(report, service, status, errors);
                let ends = self.ends(&failure.errors, lexica);
                Some((failure.finding()?, ends, failure.failed))
            });
        found
            .map(|(mut finding, ends, failed)| {
                name_ends(&mut finding, &ends, failed, lexica);
                finding
            })
            .collect()
    }
}

/// Names the client of nearly all, and in the evidence the server.
fn name_ends(finding: &mut Finding, ends: &Ends, failed: u64, lexica: &Lexica) {
    if let Some(client) = ends.clients.only(failed) {
        finding.who = lexica.clients.text(client).to_owned();
    }
    if let Some(server) = ends.servers.only(failed) {
        let server = lexica.servers.text(server);
        if !server.is_empty() {
            finding.evidence = format!("{}; server {server}", finding.evidence);
        }
    }
}

/// All calls that failed with a status.
struct Failure<'a> {
    report: &'a Report,
    status: &'a str,
    /// By operation, most first.
    errors: Vec<&'a ErrorCount>,
    failed: u64,
    /// The calls of these operations.
    asked: u64,
    from: From,
    advice: &'static str,
}

impl<'a> Failure<'a> {
    fn of(
        report: &'a Report,
        service: Service,
        status: &'a str,
        errors: Vec<&'a ErrorCount>,
    ) -> Self {
        let is_of = |operation: &crate::model::Operation| {
            errors.iter().any(|error| {
                (&error.program, &error.operation) == (&operation.program, &operation.operation)
            })
        };
        let asked = report.operations.iter().filter(|each| is_of(each));
        let (from, advice) = judged(service, status, &report.parameters.thresholds);
        Self {
            status,
            failed: errors.iter().map(|error| error.failed).sum(),
            asked: asked.map(|each| each.operations).sum(),
            report,
            errors,
            from,
            advice,
        }
    }

    fn of_all(&self) -> f64 {
        share(self.failed, self.report.totals.calls)
    }

    fn stands_out(&self) -> bool {
        let calls = self.report.totals.calls;
        let at_least = share_at_least(self.failed, calls);
        match self.from {
            From::FirstSevere | From::First => true,
            // One alone shows a share only where there are few of its operation.
            From::Share(bound) => {
                (at_least > bound && (self.failed > 1 || 2 * self.failed >= self.asked))
                    || share_at_least(self.failed, self.asked) > MOST_CALLS_SHARE
            }
            From::Usual(bound) => {
                at_least > bound && calls >= self.report.parameters.thresholds.operations_min
            }
        }
    }

    fn finding(&self) -> Option<Finding> {
        if !self.stands_out() {
            return None;
        }
        let (failed, status) = (grouped(self.failed), self.status);
        let most = self.errors[0];
        let fail = if self.failed == 1 { "fails" } else { "fail" };
        let is_one = self
            .errors
            .iter()
            .all(|error| error.operation == most.operation);
        let what = match is_one {
            true => format!(
                "{failed} of {} {} calls {fail} with {status}, {} of all",
                grouped(self.asked),
                most.operation,
                percent(self.of_all())
            ),
            false => format!(
                "{failed} of {} calls {fail} with {status}, {} ({} most often)",
                grouped(self.report.totals.calls),
                percent(self.of_all()),
                most.operation
            ),
        };
        let parts = self.errors.iter().take(4);
        let parts = parts.map(|error| format!("{} {}", error.operation, grouped(error.failed)));
        let bound = match self.from {
            From::FirstSevere | From::First => 0.0,
            From::Share(bound) | From::Usual(bound) => bound,
        };
        Some(Finding {
            kind: if status == "STALE" { "stale" } else { "errors" },
            since_ns: { self.errors.iter() }
                .filter_map(|error| error.first_ns)
                .min(),
            until_ns: { self.errors.iter() }
                .filter_map(|error| error.last_ns)
                .max(),
            what,
            evidence: parts.collect::<Vec<_>>().join(", "),
            advice: self.advice.to_owned(),
            severe: self.from == From::FirstSevere,
            failed: !matches!(self.from, From::Usual(_)),
            operations_share: self.of_all(),
            basis: [
                ("status", json!(most.status)),
                ("failed", json!(self.failed)),
                ("calls", json!(self.report.totals.calls)),
                ("calls_of_operations", json!(self.asked)),
                (
                    "share_at_least",
                    json!(share_at_least(self.failed, self.report.totals.calls)),
                ),
                ("threshold_share", json!(bound)),
            ]
            .into(),
            ..Finding::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Operation;

    fn error(operation: &str, status: &str, failed: u64) -> ErrorCount {
        let program = match status.starts_with("MNT3") {
            true => "mount",
            false => "nfs",
        };
        ErrorCount {
            program: program.to_owned(),
            operation: operation.to_owned(),
            status: status.to_owned(),
            failed,
            first_ns: Some(5),
            last_ns: Some(9),
            ..ErrorCount::default()
        }
    }

    /// Of so many calls these fail, each of an operation of which half do.
    fn found(calls: u64, errors: Vec<ErrorCount>) -> Vec<Finding> {
        let mut report = Report::default();
        report.totals.calls = calls;
        report.totals.operations = 3 * calls;
        report.operations = { errors.iter() }
            .map(|error| Operation {
                program: error.program.clone(),
                operation: error.operation.clone(),
                operations: 2 * error.failed,
                ..Operation::default()
            })
            .collect();
        report.errors = errors;
        Failures::default().findings(&report, &Lexica::new())
    }

    fn kinds(of: &[Finding]) -> Vec<&str> {
        of.iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn a_full_file_system_is_found_by_its_first_error() {
        let full = error("WRITE", "NFS3ERR_NOSPC", 1);
        let found = found(20, vec![error("LOOKUP", "NFS3ERR_NOENT", 9), full]);
        assert_eq!(kinds(&found), ["errors"]);
        assert!(
            found[0].severe && found[0].what.contains("NOSPC"),
            "{found:?}"
        );
        assert_eq!((found[0].since_ns, found[0].until_ns), (Some(5), Some(9)));
    }

    #[test]
    fn statuses_of_all_versions_are_counted_together() {
        let stale = |failed| {
            let errors = vec![
                error("GETATTR", "NFS4ERR_STALE", failed),
                error("READ", "NFS3ERR_STALE", failed),
            ];
            found(10_000, errors)
        };
        assert!(stale(50).is_empty());
        let found = stale(65);
        assert_eq!(kinds(&found), ["stale"]);
        assert_eq!(found[0].basis["failed"], 130);
    }

    #[test]
    fn few_calls_are_enough() {
        let with = |calls, failed, status: &str| {
            kinds(&found(calls, vec![error("READ", status, failed)])).len()
        };
        for status in ["NFS3ERR_ACCES", "NFS4ERR_STALE", "NFS4ERR_BAD_STATEID"] {
            assert_eq!(with(5, 3, status), 1, "{status}: 3 of 5");
            assert_eq!(with(90, 40, status), 1, "{status}: 40 of 90");
            assert_eq!(with(100_000, 2, status), 0, "{status}: 2 of 100,000");
            assert_eq!(with(200, 1, status), 0, "{status}: 1 of 200");
        }
        assert_eq!(with(5, 3, "NFS3ERR_NOENT"), 0, "a search along a path");
        assert_eq!(with(5_000, 3_000, "NFS3ERR_NOENT"), 1);
    }

    #[test]
    fn a_refused_mount_is_found_among_many_calls() {
        let found = found(100_000, vec![error("MNT", "MNT3ERR_ACCES", 1)]);
        assert_eq!(kinds(&found), ["errors"]);
        assert!(found[0].advice.contains("export list"), "{found:?}");
        assert!(found[0].failed && !found[0].severe);
    }

    #[test]
    fn most_calls_of_a_seldom_operation_are_enough() {
        let mut report = Report::default();
        report.totals.calls = 100_000;
        let mut renames = |failed| {
            report.errors = vec![error("RENAME", "NFS4ERR_DELAY", failed)];
            report.operations = vec![Operation {
                program: "nfs".to_owned(),
                operation: "RENAME".to_owned(),
                operations: 40,
                ..Operation::default()
            }];
            Failures::default().findings(&report, &Lexica::new()).len()
        };
        assert_eq!([renames(20), renames(38)], [0, 1]);
    }
}
