//! Findings about the workload: from the finished report alone.

use serde_json::{Value, json};

use super::Finding;
use crate::model::{Direction, Report, Thresholds, Totals};
use crate::numbers::{bytes, file_name, grouped, percent, share};

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
    if report.totals.operations >= workload.bounds.operations_min {
        workload.attributes();
        workload.storms();
        let is_misaligned =
            workload.sizes("READ", &report.reads) | workload.sizes("WRITE", &report.writes);
        if !is_misaligned {
            workload.misaligned_client();
        }
        workload.hot_files();
        workload.busy_client();
        workload.errors();
        workload.repeated();
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
            self.find(
                "clocks",
                self.of_all(backwards),
                format!(
                    "{} times run backwards: they are in no quantile, nor in what an interval or \
                    'slow' shows",
                    grouped(backwards)
                ),
                "compare the clocks of the inputs (chrony, PTP), or shift one of them: editcap -t",
                [("negative_times", json!(backwards))],
            );
        }
        if unknown > 0 {
            self.find(
                "amounts",
                self.of_all(unknown),
                format!(
                    "of {} READs and WRITEs the bytes moved are unknown: what is read and written \
                    is more",
                    grouped(unknown)
                ),
                "capture more of each frame: tcpdump -s 0, or 512 bytes for headers",
                [("without_amount", json!(unknown))],
            );
        }
    }

    fn attributes(&mut self) {
        let nfs = { self.report.operations.iter() }.filter(|each| each.program == "nfs");
        let asks =
            nfs.filter(|each| matches!(each.operation.as_str(), "GETATTR" | "ACCESS" | "LOOKUP"));
        let asking: u64 = asks.map(|each| each.operations).sum();
        let asking_share = self.of_all(asking);
        if asking_share > self.bounds.attributes_share {
            self.find(
                "attributes",
                asking_share,
                format!(
                    "{} of the operations only ask for names and attributes",
                    percent(asking_share)
                ),
                "let clients cache attributes longer (actimeo), where files change seldom",
                [
                    ("operations", json!(asking)),
                    ("threshold_share", json!(self.bounds.attributes_share)),
                ],
            );
        }
    }

    fn storms(&mut self) {
        let Some(storm) = self.report.getattr_storms.first() else {
            return;
        };
        let on = match storm.file_id {
            Some(id) => format!("on {}", file_name(&storm.path, Some(id))),
            None => "in all".to_owned(),
        };
        let found = self.find(
            "getattr_storm",
            self.of_all(storm.operations),
            format!(
                "client {} sends up to {} GETATTRs a second {on}",
                storm.client,
                grouped(storm.peak_per_second),
            ),
            "find the program that polls, or let the client cache attributes longer (actimeo)",
            [
                ("peak_per_second", json!(storm.peak_per_second)),
                ("seconds", json!(storm.seconds)),
                ("operations", json!(storm.operations)),
            ],
        );
        found.who = storm.client.clone();
    }

    /// Alignment and sizes of READ or WRITE; whether most are not aligned.
    fn sizes(&mut self, name: &str, direction: &Direction) -> bool {
        let bounds = self.bounds;
        let odd = direction.placed - direction.aligned_4096;
        let odd_share = share(odd, direction.placed);
        let is_misaligned =
            odd_share > bounds.misaligned_share && self.of_all(odd) > bounds.notable_share;
        if is_misaligned {
            self.find(
                "alignment",
                self.of_all(odd),
                format!(
                    "{} of the {name}s do not begin and end at 4 KiB",
                    percent(odd_share)
                ),
                "align partitions and record sizes; each costs the server more blocks than it \
                moves",
                [
                    ("operation", json!(name)),
                    ("placed", json!(direction.placed)),
                    ("misaligned", json!(odd)),
                    ("threshold_share", json!(bounds.misaligned_share)),
                ],
            );
        }
        let small = { direction.sizes.iter() }
            .filter(|class| class.size_max_bytes <= bounds.small_size_max_bytes);
        let small: u64 = small.map(|class| class.operations).sum();
        let sequential = direction.sequential_share.unwrap_or(0.0);
        if sequential > bounds.small_sequential_share
            && share(small, direction.operations) > bounds.small_sequential_share
            && self.of_all(small) > bounds.notable_share
        {
            self.find(
                "small_sequential",
                self.of_all(small),
                format!(
                    "most {name}s follow one another, and most are of {} or less",
                    bytes(bounds.small_size_max_bytes)
                ),
                "raise rsize and wsize, or let the application use larger records",
                [
                    ("operation", json!(name)),
                    ("small", json!(small)),
                    ("sequential", json!(direction.sequential)),
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
            "align the partitions or the records of what it runs, a virtual machine's disk for \
            instance",
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
                    "{} of {} files take {} of the operations",
                    hot.first,
                    grouped(files.count),
                    percent(hot.operations_share)
                ),
                "cache these files, or put them on the fastest tier",
                [
                    ("files", json!(files.count)),
                    ("first", json!(hot.first)),
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
                    "client {} alone makes {} of the operations",
                    busiest.name,
                    percent(self.of_all(busiest.operations))
                ),
                "look at what it runs: 'lineside report TRACE --client' shows it alone",
                [
                    ("clients", json!(clients.count)),
                    ("operations", json!(busiest.operations)),
                    ("threshold_share", json!(bounds.busy_client_share)),
                ],
            );
            found.who = busiest.name.clone();
        }
    }

    fn errors(&mut self) {
        let (bounds, totals) = (self.bounds, self.totals);
        let errors = self.report.errors.iter();
        let stale = errors.filter(|error| error.status.ends_with("ERR_STALE"));
        let stale: u64 = stale.map(|error| error.failed).sum();
        if self.of_all(stale) > bounds.stale_share {
            self.find(
                "stale",
                self.of_all(stale),
                format!(
                    "{} of the operations fail because the file is gone (STALE)",
                    percent(self.of_all(stale))
                ),
                "a client works with files that were removed: remount it or restart its \
                application",
                [
                    ("failed", json!(stale)),
                    ("threshold_share", json!(bounds.stale_share)),
                ],
            );
        } else if self.of_all(totals.failed) > bounds.failed_share {
            self.find(
                "errors",
                self.of_all(totals.failed),
                format!(
                    "{} of the operations fail",
                    percent(self.of_all(totals.failed))
                ),
                "see the errors by status; searches along a path (NOENT) can be cached by clients",
                [
                    ("failed", json!(totals.failed)),
                    ("threshold_share", json!(bounds.failed_share)),
                ],
            );
        }
    }

    fn repeated(&mut self) {
        let (bounds, totals) = (self.bounds, self.totals);
        let again = self.of_all(totals.repeated + totals.retransmissions);
        if again > bounds.repeated_share {
            self.find(
                "repeated",
                again,
                format!(
                    "calls came again {:.1} times per 100 operations",
                    again * 100.0
                ),
                "look for loss between client and server, or raise the clients' timeo",
                [
                    ("repeated", json!(totals.repeated)),
                    ("retransmissions", json!(totals.retransmissions)),
                    ("threshold_share", json!(bounds.repeated_share)),
                ],
            );
        }
    }
}
