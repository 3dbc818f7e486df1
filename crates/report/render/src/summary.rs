//! The first screen: what was seen and whether to believe it, what stands out, and the workload in
//! six lines.

use lineside_analyze::{
    Direction, Finding, Operation, Place, Ranking, Report, Understood, Zone, file_name, share,
};
use lineside_trace::SandboxFacts;
use lineside_words::{grouped, percent, rate, time};

use crate::block::{
    Chart, Colour, Insight, Layer, Line, NOT_KNOWN, Scale, alarm, line, state_word,
};
use crate::section::capture::{loss_text, moved_bytes};
use crate::section::{forwarder_summary, link_summary, load_summary, monitors, replay, two_taps};

/// The first screen in words: each line has a label, and parts of which the last may be left out.
pub(crate) struct Summary {
    /// Empty where there is no folder.
    pub(crate) title: String,
    /// What was seen, and whether to believe it.
    pub(crate) seen: Vec<Line>,
    /// The certificate of an emulated link, of a forwarder, of a load or of a replay, in short.
    pub(crate) certificate: Vec<Line>,
    /// Everything that stands out, worst first.
    pub(crate) findings: Vec<Insight>,
    pub(crate) workload: Vec<Line>,
    /// The workload over time.
    pub(crate) chart: Option<Chart>,
}

/// Reasons of a run's verdict that have a line each.
const REASONS_MAX: usize = 3;

impl Summary {
    /// `is_alone`: without operations, the certificate is all that there is.
    pub(crate) fn of(report: &Report, zone: &Zone, is_alone: bool) -> Self {
        let over_time = &report.over_time;
        let layers = [&over_time.reads, &over_time.writes, &over_time.others];
        let sum = |step: usize| layers.iter().map(|layer| layer[step]).sum();
        let values: Vec<u64> = (0..over_time.reads.len()).map(sum).collect();
        let certificate = { report.emulation.as_ref() }
            .map(link_summary::summary)
            .or_else(|| Some(load_summary::summary(report.load.as_ref()?)))
            .or_else(|| Some(forwarder_summary::summary(report.forwarding.as_ref()?)))
            .or_else(|| Some(replay::summary(report.replay.as_ref()?)));
        // What a load asked for is not news: it is in the certificate.
        let has_workload = !is_alone && report.load.is_none();
        let of_workload = has_workload.then(|| workload(report));
        let monitors =
            { report.monitors.iter() }.map(|found| line("monitors", monitors::line(found)));
        Self {
            title: title(report),
            seen: seen(report, zone),
            certificate: certificate.unwrap_or_default(),
            findings: insights(report, zone),
            workload: { of_workload.into_iter().flatten() }
                .chain(monitors)
                .collect(),
            chart: (!is_alone && !values.is_empty()).then(|| Chart {
                title: "operations",
                scale: Scale::Rate,
                start_ns: over_time.start_ns,
                step_ns: over_time.step_ns,
                zone: zone.clone(),
                layers: vec![Layer {
                    name: "over time",
                    colour: Colour::Other,
                    values: values.into_iter().map(Some).collect(),
                }],
            }),
        }
    }
}

/// How many they are, and how long nothing was recorded between them.
fn runs(report: &Report) -> Option<String> {
    let runs = &report.trace.runs;
    let gaps: Vec<_> = runs.iter().filter(|run| run.has_gap).collect();
    let mut lengths = gaps.iter().map(|run| run.gap_ns);
    let known = lengths.try_fold(0_u64, |sum, ns| Some(sum.saturating_add(ns?)));
    let between = match (gaps.as_slice(), known) {
        ([], _) => String::new(),
        (_, Some(ns)) => format!("; nothing is recorded for {} between them", time(ns)),
        (_, None) => "; how long nothing was recorded between them is not known".to_owned(),
    };
    (!runs.is_empty()).then(|| format!("{}{between}", grouped(runs.len() as u64)))
}

fn seen(report: &Report, zone: &Zone) -> Vec<Line> {
    let (totals, missing) = (&report.totals, &report.missing);
    let mut lines = Vec::new();
    let calls = totals.first_ns.zip(totals.last_ns);
    let inputs = &report.trace.inputs;
    let from = match inputs.as_slice() {
        [] => String::new(),
        [input] => format!("{} ({})", input.name, input.format),
        [input, more @ ..] => format!("{} and {} more inputs", input.name, more.len()),
    };
    lines.push(line("seen", range(report, calls, zone)));
    lines.push(line("from", [from]));
    lines.push(line("runs", runs(report)));
    lines.push(line("only", chosen(report, zone)));
    lines.push(line("two taps", two_taps::summary(&report.trace.two_taps)));

    lines.extend(verdict(report, zone));
    lines.push(alarm("lost", missing.losses.iter().map(loss_text)));
    let unreadable = match missing.unreadable.as_slice() {
        [] => Vec::new(),
        [only] => vec![only.clone()],
        [first, more @ ..] => vec![format!("{first}; and {} more", more.len())],
    };
    lines.push(alarm("unreadable", unreadable));
    let sandbox = report.trace.sandbox.as_ref();
    let sandbox = sandbox.filter(|sandbox| !sandbox.is_whole());
    lines.push(alarm("sandbox", sandbox.map(SandboxFacts::text)));
    lines.extend(report.understood.as_ref().map(understood));
    lines.retain(|line| !line.parts.is_empty());
    lines
}

/// When the capture was recorded and, where that is a second longer on a side, when the calls came
/// in it. With a choice of times, or of a load: when the calls came.
fn range(report: &Report, calls: Option<(i64, i64)>, zone: &Zone) -> Vec<String> {
    const SECOND_NS: u64 = 1_000_000_000;
    let asked = &report.parameters.asked;
    let is_all = asked.since_ns.is_none() && asked.until_ns.is_none();
    let whole = { report.trace.recorded.as_ref() }.filter(|_| is_all && report.load.is_none());
    let calls = match (whole, calls) {
        (Some(whole), Some((first, last)))
            if whole.first_ns.abs_diff(first) < SECOND_NS
                && whole.last_ns.abs_diff(last) < SECOND_NS =>
        {
            None
        }
        (_, calls) => calls,
    };
    let whole = whole.map(|whole| zone.span(whole.first_ns, whole.last_ns));
    let calls = calls.map(|(first, last)| match whole.is_some() {
        true => format!("calls from {}", zone.span(first, last)),
        false => zone.span(first, last),
    });
    [whole, calls].into_iter().flatten().collect()
}

/// Whether to believe it, and why.
fn verdict(report: &Report, zone: &Zone) -> Vec<Line> {
    let missing = &report.missing;
    let mut lines = Vec::new();
    let state = state_word(missing.verdict);
    let state = state.as_str();
    let is_complete = state == "complete" && missing.unreadable.is_empty();
    let unfinished = missing.unfinished.as_ref();
    let unfinished = unfinished.map(|unfinished| unfinished.text(zone));
    // A run that has no certificate yet says why.
    let of_run = { report.emulation.as_ref() }.map(|it| it.reasons.as_slice());
    let of_run = of_run.or_else(|| Some(report.forwarding.as_ref()?.reasons.as_slice()));
    let known = match missing.reasons.as_slice() {
        [] => of_run.unwrap_or_default(),
        reasons => reasons,
    };
    let mut reasons = unfinished.iter().chain(known);
    // Of a run of ours each of the first reasons has a line.
    let is_run = report.emulation.is_some()
        || report.load.is_some()
        || report.forwarding.is_some()
        || report.replay.is_some();
    let listed = if is_run { REASONS_MAX } else { 1 };
    let others = (reasons.clone().count()).saturating_sub(listed);
    let why = match reasons.next() {
        Some(first) => first.clone(),
        None if is_complete && report.understood.is_some() => {
            "everything that passed the tap was seen".to_owned()
        }
        None => String::new(),
    };
    let why = if why.is_empty() {
        state.to_owned()
    } else {
        format!("{state}: {why}")
    };
    let others = match others {
        0 => String::new(),
        1 => "and 1 more reason".to_owned(),
        count => format!("and {count} more reasons"),
    };
    let more = reasons.take(listed - 1).cloned();
    for (label, parts) in [("verdict", vec![why])]
        .into_iter()
        .chain(more.map(|why| ("", vec![why])))
    {
        lines.push(Line {
            alarms: !is_complete,
            lines_max: if is_run { 3 } else { 2 },
            ..line(label, parts)
        });
    }
    if let Some(last) = lines.last_mut().filter(|_| !others.is_empty()) {
        last.parts.push(others);
    }
    lines
}

/// How much of the traffic became operations.
fn understood(understood: &Understood) -> Line {
    let part = |whole: u64, share: f64, of: &str| match whole {
        0 => String::new(),
        _ => format!("{} of {of}", percent(share)),
    };
    let tls = match understood.tls_connections {
        0 => String::new(),
        count => format!("{} connections with TLS", grouped(count)),
    };
    let parts = [
        part(
            understood.rpc_connections_bytes,
            understood.rpc_connections_share,
            "the bytes of RPC connections",
        ),
        part(understood.tcp_bytes, understood.tcp_share, "all TCP bytes"),
        tls,
    ];
    line("understood", parts)
}

/// The findings in words.
pub(crate) fn insights(report: &Report, zone: &Zone) -> Vec<Insight> {
    let totals = &report.totals;
    let range = totals.first_ns.zip(totals.last_ns);
    { report.findings.iter() }
        .map(|finding| insight(finding, zone, range))
        .collect()
}

/// A finding of a trace with such a range of times.
fn insight(finding: &Finding, zone: &Zone, range: Option<(i64, i64)>) -> Insight {
    let is_one_day = range.is_some_and(|(first, last)| zone.day(first) == zone.day(last));
    let is_throughout = |since: i64, until: i64| {
        range.is_some_and(|(first, last)| {
            until.abs_diff(since) as f64 >= 0.95 * last.abs_diff(first) as f64
        })
    };
    let clock = |ns: i64| {
        let date = zone.date(ns);
        let from = if is_one_day { 11 } else { 5 };
        date.get(from..23).unwrap_or(&date).to_owned()
    };
    let when = match (finding.since_ns, finding.until_ns) {
        (Some(since), Some(until)) if is_throughout(since, until) => "throughout: ".to_owned(),
        (Some(since), Some(until)) if until > since => {
            format!("{}, {} long: ", clock(since), time(until.abs_diff(since)))
        }
        (Some(since), Some(_)) => format!("{}: ", clock(since)),
        (Some(since), None) => format!("since {}: ", clock(since)),
        (None, Some(until)) => format!("until {}: ", clock(until)),
        (None, None) => String::new(),
    };
    let place = match finding.place {
        Some(Place::Network) => "network: ",
        Some(Place::Server) => "server: ",
        Some(Place::Client) => "client: ",
        Some(Place::CannotTell) => "place not known: ",
        None => "",
    };
    // A sentence that names them needs no name before it.
    let who = match finding.who.as_str() {
        "" => String::new(),
        who if finding.what.contains(who) => String::new(),
        who => format!("{who}: "),
    };
    Insight {
        what: format!("{when}{place}{who}{}", finding.what),
        lost: match finding.lost_ns {
            0 => String::new(),
            ns => format!("operations waited {} for it in all", time(ns)),
        },
        evidence: finding.evidence.clone(),
        advice: finding.advice.clone(),
    }
}

fn workload(report: &Report) -> Vec<Line> {
    let totals = &report.totals;
    let operations = totals.operations;
    let counted = |number: u64, what: &str| match number {
        0 => String::new(),
        number => format!("{} {what}", grouped(number)),
    };
    let per_second = match totals.duration_ns {
        0 => String::new(),
        ns => format!(" ({})", rate(operations as f64 / (ns as f64 / 1e9))),
    };
    let again = match totals.retransmissions + totals.repeated {
        0 => String::new(),
        1 => "a call came again".to_owned(),
        times => format!("calls came again {} times", grouped(times)),
    };
    let failed = match totals.failed {
        0 => "none failed".to_owned(),
        failed => format!(
            "{} failed ({})",
            grouped(failed),
            percent(share(failed, operations))
        ),
    };
    let duration = match totals.duration_ns {
        0 => String::new(),
        ns => format!(" in {}", time(ns)),
    };
    if operations == 0 {
        return vec![line("operations", ["none".to_owned()])];
    }
    let [shares, times] = kinds(report);
    let moved = |direction: &Direction, what: &str| {
        let moved = moved_bytes(report, direction.moved_bytes, what);
        match (direction.moved_bytes, direction.sequential_share) {
            (0, _) if moved != NOT_KNOWN => String::new(),
            (_, Some(share)) => format!("{what} {moved}, {} sequential", percent(share)),
            (_, None) => format!("{what} {moved}"),
        }
    };
    let data = [
        moved(&report.reads, "read"),
        moved(&report.writes, "written"),
    ];
    let data: Vec<_> = data.into_iter().filter(|part| !part.is_empty()).collect();
    let who = [
        busiest(&report.clients, "client", operations),
        busiest(&report.files, "file", operations),
        busiest_server(report),
        busiest(&report.directories, "directory", operations),
        busiest(&report.users, "user", operations),
    ];
    let mut lines = vec![
        line(
            "operations",
            [
                format!("{}{duration}{per_second}", grouped(operations)),
                failed,
                counted(totals.unanswered, "without reply"),
                again,
            ],
        ),
        line("of them", shares),
        line("server time", times),
        line("data", [data.join("; ")]),
        line("by", who),
    ];
    lines.retain(|line| !line.parts.is_empty());
    lines
}

/// The share of each kind of operation, and its server times.
fn kinds(report: &Report) -> [Vec<String>; 2] {
    let name = |at: usize| {
        let each = &report.operations[at];
        let is_same = |other: &&Operation| {
            (&other.program, &other.operation) == (&each.program, &each.operation)
        };
        let has_versions = report.operations.iter().filter(is_same).count() > 1;
        let version = each.version.filter(|_| has_versions);
        let version = version.map_or_else(String::new, |version| format!("v{version} "));
        match each.operation.as_str() {
            "" => "call not seen".to_owned(),
            operation if each.program == "nfs" => format!("{version}{operation}"),
            operation => format!("{} {version}{operation}", each.program),
        }
    };
    let kinds = 0..report.operations.len();
    let shares = kinds.clone().map(|at| {
        format!(
            "{} {}",
            name(at),
            percent(report.operations[at].operations_share)
        )
    });
    let times = kinds.filter_map(|at| {
        let times = &report.operations[at].server_time;
        let text = |ns: Option<u64>| {
            let sign = if times.is_bound(ns) { ">" } else { "" };
            Some(format!("{sign}{}", time(ns?)))
        };
        Some(format!(
            "{} {} / {}",
            name(at),
            text(times.p50_ns)?,
            text(times.p99_ns)?
        ))
    });
    let mut times: Vec<String> = times.collect();
    if let Some(first) = times.first_mut() {
        *first = format!("p50 / p99: {first}");
    }
    [shares.collect(), times]
}

/// The same of servers, if there are several.
fn busiest_server(report: &Report) -> String {
    match report.servers.count {
        0 | 1 => String::new(),
        _ => busiest(&report.servers, "server", report.totals.operations),
    }
}

/// How many there are, and the busiest of several.
fn busiest(ranking: &Ranking, what: &str, operations: u64) -> String {
    let most = ranking.by_operations.first();
    match (ranking.count, most) {
        (0, _) | (_, None) => String::new(),
        (1, Some(only)) => match only.user_id {
            Some(user_id) => format!("uid {user_id} alone"),
            None => format!("1 {what}: {}", file_name(&only.name, only.file_id)),
        },
        (count, Some(most)) => {
            let name = match most.user_id {
                Some(user_id) => format!("uid {user_id}"),
                None => file_name(&most.name, most.file_id),
            };
            let many = match what.strip_suffix('y') {
                Some(stem) => format!("{stem}ies"),
                None => format!("{what}s"),
            };
            let share = percent(share(most.operations, operations));
            format!("{} {many} ({name} {share})", grouped(count))
        }
    }
}

/// Empty of a run without a folder.
pub(crate) fn title(report: &Report) -> String {
    match report.parameters.asked.trace.as_str() {
        "" => String::new(),
        trace => format!("Report on {trace}"),
    }
}

/// Which operations were asked for, unless it is all.
pub(crate) fn chosen(report: &Report, zone: &Zone) -> Option<String> {
    let asked = &report.parameters.asked;
    let chosen = [
        asked.since_ns.map(|ns| format!("since {}", zone.date(ns))),
        asked.until_ns.map(|ns| format!("until {}", zone.date(ns))),
        asked.client.as_ref().map(|name| format!("client {name}")),
        asked.user_id.map(|id| format!("user {id}")),
        asked.file.as_ref().map(|file| format!("files {file}")),
        { asked.connection.as_ref() }.map(|name| format!("connection {name}")),
        asked
            .operation
            .as_ref()
            .map(|name| format!("operation {name}")),
    ];
    let chosen: Vec<_> = chosen.into_iter().flatten().collect();
    (!chosen.is_empty()).then(|| chosen.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_when_where_and_who_once() {
        const SECOND: i64 = 1_000_000_000;
        let finding = |since_ns, until_ns, who: &str, what: &str| Finding {
            since_ns,
            until_ns,
            who: who.to_owned(),
            what: what.to_owned(),
            place: Some(Place::Server),
            lost_ns: 3_000_000_000,
            ..Finding::default()
        };
        let words = |finding: &Finding| {
            let range = Some((0, 100 * SECOND));
            insight(finding, &Zone::default(), range)
        };
        let stalled = |since, until| words(&finding(since, until, "/a", "answers nothing"));
        let found = stalled(Some(10 * SECOND), Some(12 * SECOND));
        assert_eq!(
            found.what,
            "00:00:10.000, 2.00 s long: server: /a: answers nothing"
        );
        assert_eq!(found.lost, "operations waited 3.00 s for it in all");
        let begins = |since, until| stalled(since, until).what;
        assert!(begins(Some(SECOND), Some(99 * SECOND)).starts_with("throughout: server"));
        assert!(begins(Some(SECOND), None).starts_with("since 00:00:01.000: server"));
        assert!(begins(None, None).starts_with("server: /a"));
        let named = words(&finding(None, None, "/a", "/a answers nothing"));
        assert_eq!(named.what, "server: /a answers nothing");
    }

    #[test]
    fn a_sandbox_is_a_warning_only_where_it_is_not_whole() {
        let warned = |holds: &str, missing: &[&str]| {
            let mut report = Report::default();
            report.trace.sandbox = Some(SandboxFacts {
                holds: holds.split_whitespace().map(str::to_owned).collect(),
                missing: missing.iter().map(|&note| note.to_owned()).collect(),
                allowed: vec!["TCP sockets".to_owned()],
            });
            let lines = seen(&report, &Zone::default());
            let line = lines.into_iter().find(|line| line.label == "sandbox");
            line.is_some_and(|line| line.alarms && !line.parts.is_empty())
        };
        assert!(!warned("landlock seccomp", &[]));
        assert!(warned("seccomp", &["landlock: this kernel has none"]));
        assert!(warned("", &["--no-sandbox"]));
    }

    #[test]
    fn the_busiest_of_one_and_of_many_read_well() {
        let busy = |operations, name: &str| lineside_analyze::Busy {
            operations,
            name: name.to_owned(),
            ..lineside_analyze::Busy::default()
        };
        let ranking = |count, name| Ranking {
            count,
            by_operations: vec![busy(5, name)],
            ..Ranking::default()
        };
        let text = |count| busiest(&ranking(count, "/a"), "directory", 20);
        assert_eq!(text(1), "1 directory: /a");
        assert_eq!(text(3), "3 directories (/a 25.0 %)");
        assert_eq!(busiest(&Ranking::default(), "client", 20), "");
    }
}
