//! Findings about the workload: from the finished report alone.

use lineside_words::{bytes, grouped, percent};
use serde_json::{Value, json};

use crate::model::Finding;
use crate::model::{Direction, Report, Thresholds, Totals};
use crate::numbers::{file_name, share, share_at_least};

/// What the findings are found in.
struct Workload<'a> {
    report: &'a Report,
    totals: &'a Totals,
    bounds: &'a Thresholds,
    found: Vec<Finding>,
}

/// What stands out; `docs/guide/report.md` has the thresholds.
pub(super) fn findings(report: &Report) -> Vec<Finding> {
    let mut workload = Workload {
        report,
        totals: &report.totals,
        bounds: &report.parameters.thresholds,
        found: Vec::new(),
    };
    workload.measured();
    workload.storms();
    workload.repeated();
    if report.totals.operations >= workload.bounds.operations_min {
        workload.attributes();
        let is_misaligned =
            workload.sizes("READ", &report.reads) | workload.sizes("WRITE", &report.writes);
        if !is_misaligned {
            workload.misaligned_client();
        }
        workload.hot_files();
        workload.busy_client();
    }
    workload.found
}

impl Workload<'_> {
    /// The share of a number in all operations.
    fn of_all(&self, number: u64) -> f64 {
        share(number, self.totals.operations)
    }

    fn find<const N: usize>(
        &mut self,
        kind: &'static str,
        operations_share: f64,
        what: String,
        advice: &str,
        basis: [(&'static str, Value); N],
    ) -> &mut Finding {
        self.found.push(Finding {
            kind,
            what,
            advice: advice.to_owned(),
            operations_share,
            basis: basis.into(),
            ..Finding::default()
        });
        self.found.last_mut().expect("it was pushed")
    }

    /// What makes numbers of the report wrong or small.
    fn measured(&mut self) {
        let (backwards, unknown) = (self.totals.negative_times, self.totals.without_amount);
        if backwards > 0 {
            let advice = match self.report.trace.inputs.len() {
                0 | 1 => {
                    "sort the frames (reordercap), or look whether the clock was set meanwhile"
                }
                _ => {
                    "compare the clocks of the inputs (chrony, PTP), or shift one of them: \
                    editcap -t"
                }
            };
            let found = self.find(
                "clocks",
                self.of_all(backwards),
                format!(
                    "{} times run backwards: they are in no quantile, nor in what an interval or \
                    'slow' shows",
                    grouped(backwards)
                ),
                advice,
                [("negative_times", json!(backwards))],
            );
            found.severe = true;
        }
        if unknown > 0 {
            let is_cut = |cause: &str| cause == "snap_length";
            let advice = match self
                .report
                .missing
                .losses
                .iter()
                .any(|loss| is_cut(&loss.cause))
            {
                true => "capture more of each frame: tcpdump -s 0, or 512 bytes for headers",
                false => "find where the capture lost frames: 'lineside info TRACE' counts them",
            };
            self.find(
                "amounts",
                self.of_all(unknown),
                format!(
                    "of {} READs and WRITEs the bytes moved are unknown: the sums of bytes are at \
                    least what they say",
                    grouped(unknown)
                ),
                advice,
                [("without_amount", json!(unknown))],
            );
        }
    }

    /// Only of NFSv2 and v3: in a compound GETATTR comes along with everything.
    fn attributes(&mut self) {
        let bounds = self.bounds;
        let calls = { self.report.operations.iter() }
            .filter(|each| each.program == "nfs" && each.version < Some(4));
        let calls: Vec<_> = calls.collect();
        let all: u64 = calls.iter().map(|each| each.operations).sum();
        let asks = ["GETATTR", "ACCESS", "LOOKUP"].map(|name| {
            let named = calls.iter().filter(|each| each.operation == name);
            (name, named.map(|each| each.operations).sum::<u64>())
        });
        let asking: u64 = asks.iter().map(|(_, operations)| operations).sum();
        let asking_share = share(asking, all);
        if all < bounds.operations_min || asking_share <= bounds.attributes_share {
            return;
        }
        let parts = asks.map(|(name, count)| format!("{name} {}", percent(share(count, all))));
        let found = self.find(
            "attributes",
            self.of_all(asking),
            format!(
                "{} of the NFSv2 and v3 calls only ask for names, permissions and attributes",
                percent(asking_share)
            ),
            "where files change seldom, clients may keep attributes longer (actimeo), which \
            saves a part of them",
            [
                ("operations", json!(asking)),
                ("calls", json!(all)),
                ("threshold_share", json!(bounds.attributes_share)),
            ],
        );
        found.evidence = parts.join(", ");
    }

    fn storms(&mut self) {
        let Some(storm) = self.report.getattr_storms.first() else {
            return;
        };
        let on = match storm.file_id {
            Some(id) => format!("on {}", file_name(&storm.path, Some(id))),
            None => "on all files together".to_owned(),
        };
        let bounds = self.bounds;
        let found = self.find(
            "getattr_storm",
            self.of_all(storm.operations),
            format!(
                "client {} sends up to {} GETATTRs in a second {on}",
                storm.client,
                grouped(storm.peak_per_second),
            ),
            "find the program that polls there; where others change the files seldom, the client \
            may keep attributes longer (actimeo)",
            [
                ("peak_per_second", json!(storm.peak_per_second)),
                ("seconds", json!(storm.seconds)),
                ("operations", json!(storm.operations)),
                (
                    "threshold_file_per_second",
                    json!(bounds.getattr_storm_file_per_second),
                ),
                (
                    "threshold_client_per_second",
                    json!(bounds.getattr_storm_client_per_second),
                ),
            ],
        );
        found.who = storm.client.clone();
        found.evidence = format!(
            "{} such GETATTRs in {} such seconds; 'report' lists them under GETATTR storms",
            grouped(storm.operations),
            grouped(storm.seconds)
        );
    }

    /// Places and sizes of READ or WRITE; whether most are not aligned.
    ///
    /// Sequential ones do not count as misaligned, nor where one ends: logs and small files read
    /// like that, and cost the server nothing.
    fn sizes(&mut self, name: &str, direction: &Direction) -> bool {
        let bounds = self.bounds;
        let (odd, random) = (direction.random_misaligned, direction.random);
        let is_misaligned =
            share(odd, random) > bounds.misaligned_share && self.of_all(odd) > bounds.notable_share;
        if is_misaligned {
            self.find(
                "alignment",
                self.of_all(odd),
                format!(
                    "{} of the random {name}s do not begin at a multiple of 4 KiB",
                    percent(share(odd, random))
                ),
                "if they are disks of virtual machines, align their partitions; if records of a \
                database, their size: each touches a block more than it needs",
                [
                    ("operation", json!(name)),
                    ("random", json!(random)),
                    ("random_misaligned", json!(odd)),
                    ("threshold_share", json!(bounds.misaligned_share)),
                ],
            );
        }
        let small = direction.small_sequential;
        if share(small, direction.operations) > bounds.small_sequential_share
            && self.of_all(small) > bounds.notable_share
        {
            self.find(
                "small_sequential",
                self.of_all(small),
                format!(
                    "{} of the {name}s continue where the one before ended, and are of {} or less",
                    percent(share(small, direction.operations)),
                    bytes(bounds.small_size_max_bytes)
                ),
                "larger ones need fewer round trips: look at rsize and wsize of the mount, then \
                at the records of the application (O_DIRECT, O_SYNC)",
                [
                    ("operation", json!(name)),
                    ("operations", json!(direction.operations)),
                    ("small_sequential", json!(small)),
                    ("small_size_max_bytes", json!(bounds.small_size_max_bytes)),
                    ("threshold_share", json!(bounds.small_sequential_share)),
                ],
            );
        }
        is_misaligned
    }

    fn misaligned_client(&mut self) {
        let bounds = self.bounds;
        let worst = self.report.misaligned_clients.iter().find(|client| {
            client.misaligned_share > bounds.misaligned_client_share
                && client.placed >= bounds.operations_min
                && self.of_all(client.placed - client.aligned_4096) > bounds.notable_share
        });
        let Some(client) = worst else { return };
        let odd = client.placed - client.aligned_4096;
        let found = self.find(
            "misaligned_client",
            self.of_all(odd),
            format!(
                "{} of the READs and WRITEs of client {} do not begin and end at 4 KiB",
                percent(client.misaligned_share),
                client.client,
            ),
            "if it runs virtual machines or a database, align their partitions or records; small \
            files and logs read like that too, and need nothing",
            [
                ("placed", json!(client.placed)),
                ("misaligned", json!(odd)),
                ("threshold_share", json!(bounds.misaligned_client_share)),
            ],
        );
        found.who = client.client.clone();
    }

    fn hot_files(&mut self) {
        let (bounds, files) = (self.bounds, &self.report.files);
        let hot =
            { files.concentration.iter() }.rfind(|point| point.first <= bounds.hot_files_first);
        if let Some(hot) = hot
            && files.count >= bounds.hot_files_min
            && hot.operations_share > bounds.hot_files_share
        {
            self.find(
                "hot_files",
                hot.operations_share,
                format!(
                    "{} of {} files have {} of all operations",
                    hot.first,
                    grouped(files.count),
                    percent(hot.operations_share)
                ),
                "if their READs and WRITEs are slow, a cache of their size or a faster tier for \
                them helps; 'report --full' lists them",
                [
                    ("files", json!(files.count)),
                    ("first", json!(hot.first)),
                    ("operations_share", json!(hot.operations_share)),
                    ("files_min", json!(bounds.hot_files_min)),
                    ("threshold_share", json!(bounds.hot_files_share)),
                ],
            );
        }
    }

    fn busy_client(&mut self) {
        let (bounds, clients) = (self.bounds, &self.report.clients);
        if let Some(busiest) = clients.by_operations.first()
            && clients.count >= bounds.busy_client_min
            && self.of_all(busiest.operations) > bounds.busy_client_share
        {
            let found = self.find(
                "busy_client",
                self.of_all(busiest.operations),
                format!(
                    "client {} alone sends {} of the operations",
                    busiest.name,
                    percent(self.of_all(busiest.operations))
                ),
                &format!(
                    "'lineside report TRACE --client {}' shows what it does",
                    busiest.name
                ),
                [
                    ("clients", json!(clients.count)),
                    ("operations", json!(busiest.operations)),
                    ("clients_min", json!(bounds.busy_client_min)),
                    ("threshold_share", json!(bounds.busy_client_share)),
                ],
            );
            found.who = busiest.name.clone();
        }
    }

    fn repeated(&mut self) {
        let (bounds, totals) = (self.bounds, self.totals);
        let came = totals.repeated + totals.retransmissions;
        let again = share(came, totals.calls);
        if share_at_least(came, totals.calls) > bounds.repeated_share {
            let found = self.find(
                "repeated",
                again,
                format!("calls came again {:.1} times per 100 calls", again * 100.0),
                "a client sends a call again when no reply came in time (timeo) or its connection \
                was cut: look for loss, for a server that is slow, or for resets",
                [
                    ("repeated", json!(totals.repeated)),
                    ("retransmissions", json!(totals.retransmissions)),
                    ("threshold_share", json!(bounds.repeated_share)),
                ],
            );
            found.evidence = format!(
                "{} before the reply, {} after it",
                grouped(totals.retransmissions),
                grouped(totals.repeated)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Operation;

    fn found(change: impl FnOnce(&mut Report)) -> Vec<Finding> {
        let mut report = Report::default();
        report.totals.operations = 10_000;
        change(&mut report);
        findings(&report)
    }

    fn kinds(of: &[Finding]) -> Vec<&str> {
        of.iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn attributes_that_come_along_in_compounds_are_no_finding() {
        let asks = |version| {
            let getattr = Operation {
                program: "nfs".to_owned(),
                version: Some(version),
                operation: "GETATTR".to_owned(),
                operations: 9_000,
                ..Operation::default()
            };
            kinds(&found(|report| report.operations = vec![getattr])).len()
        };
        assert_eq!([asks(3), asks(4)], [1, 0]);
    }

    #[test]
    fn small_files_and_logs_are_not_misaligned() {
        let kinds = |random, random_misaligned| {
            let direction = Direction {
                operations: 9_000,
                placed: 9_000,
                random,
                random_misaligned,
                ..Direction::default()
            };
            found(|report| report.writes = direction).len()
        };
        assert_eq!(kinds(10, 10), 0, "few are random");
        assert_eq!(kinds(9_000, 4_000), 0, "most are aligned");
        assert_eq!(kinds(9_000, 5_000), 1);
    }

    #[test]
    fn small_and_sequential_are_counted_of_the_same_operations() {
        let found = |small_sequential| {
            let direction = Direction {
                operations: 9_000,
                sequential: 5_000,
                small_sequential,
                ..Direction::default()
            };
            found(|report| report.reads = direction).len()
        };
        assert_eq!([found(4_000), found(4_600)], [0, 1]);
    }
}
