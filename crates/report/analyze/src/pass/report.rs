//! From a trace to its report.

use std::collections::BTreeMap;
use std::path::Path;

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;
use lineside_trace::Manifest;

use crate::findings::{Findings, Scene};
use crate::limits::{CLIENTS_MAX, FILES_MAX, KINDS_MAX, PAIRS_MAX, USERS_MAX};
use crate::load::load;
use crate::model::{
    Busy, Direction, ErrorCount, GetattrStorm, Loss, Misaligned, Missing, Operation, OverTime,
    Parameters, REPORT_VERSION, Ranking, Recorded, Report, THRESHOLDS, Totals, TraceFacts,
    Understood,
};
use crate::numbers::share;
use crate::pass::aggregate::{Aggregate, Flow, STEPS_MAX, quantiles};
use crate::pass::course::{COLUMNS, Course};
use crate::pass::monitors::monitors;
use crate::pass::rankings::{self, TOP_MAX, is_known, objects};
use crate::pass::usage::{Class, Use, Way};
use crate::read::batch::Batch;
use crate::read::columns::{Flags, Integers, Texts};
use crate::read::filter::{Asked, Chosen, Filter, span};
use crate::read::lexica::Lexica;
use crate::read::names::Paths;
use crate::read::trace::{Trace, TraceError, ends_of_inputs};
use crate::read::unfinished::Unfinished;

/// Reads a trace once and reports what is in it. What is damaged is left out, and the report names
/// it.
pub fn report(path: &Path, filter: &Filter) -> Result<Report, TraceError> {
    let mut trace = Trace::open_all(path, &filter.zone)?;
    let (mut chosen, span) = span(&mut trace, filter)?;
    chosen.reads_rpc_id = trace.has_compounds();
    let mut lexica = Lexica::new();
    let Collected {
        mut aggregate,
        findings,
        course,
    } = Collected::of(&mut trace, span, &chosen, &mut lexica);
    chosen.check(&lexica, &trace.warnings)?;

    let operations = operations(&aggregate, &lexica);
    let ([files, directories, others, pairs], storms) =
        of_files(&mut trace, &mut aggregate, &lexica);
    let clients = rankings::clients(&aggregate, &lexica);
    let servers = rankings::servers(&aggregate, &lexica);
    let users = rankings::users(&aggregate);
    let totals = Totals {
        files: files.count,
        directories: directories.count,
        objects: others.count,
        clients: clients.count,
        servers: servers.count,
        users: users.count,
        ..totals(&aggregate)
    };
    let [reads, writes] = [Way::Read, Way::Write].map(|way| direction(&aggregate, way));
    let manifest = trace.manifest.as_ref();
    let mut report = Report {
        report_version: REPORT_VERSION,
        parameters: parameters(chosen.asked(path, filter), manifest),
        trace: facts(&trace),
        emulation: manifest.and_then(crate::emulation::emulation),
        forwarding: manifest.and_then(crate::forwarding::forwarding),
        load: load(manifest, course.and_then(Course::finish)),
        replay: manifest.and_then(crate::replaying::replayed),
        understood: understood(&mut trace),
        missing: missing(&mut trace),
        totals,
        over_time: over_time(&aggregate),
        operations,
        reads,
        writes,
        files,
        directories,
        objects: others,
        clients,
        servers,
        users,
        pairs,
        misaligned_clients: misaligned_clients(&aggregate, &lexica),
        getattr_storms_not_listed: aggregate.storms.count() - storms.len() as u64,
        getattr_storms: storms,
        errors: errors(&aggregate, &lexica),
        errors_not_listed: aggregate.failures_not_listed,
        monitors: monitors(&mut trace),
        ..Report::default()
    };
    (report.findings, report.wire) = findings.find(&mut Scene {
        report: &report,
        trace: &mut trace,
        chosen: &chosen,
        lexica: &mut lexica,
    });
    // What only the findings read may be damaged too.
    report.missing.unreadable = trace.warnings.clone();
    Ok(report)
}

/// The busiest files, directories, other objects, and pairs of client and file; and storms.
fn of_files(
    trace: &mut Trace,
    aggregate: &mut Aggregate,
    lexica: &Lexica,
) -> ([Ranking; 4], Vec<GetattrStorm>) {
    classify(trace, aggregate);
    let mut files = objects(aggregate, &[Class::File], aggregate.files.files_not_tracked);
    let mut directories = objects(aggregate, &[Class::Directory], Use::default());
    let mut others = objects(aggregate, &[Class::Other, Class::Unknown], Use::default());
    let mut pairs = rankings::pairs(aggregate, lexica);
    let mut storms = storms(aggregate, lexica);
    let lists = [&mut files, &mut directories, &mut others, &mut pairs];
    name_files(trace, lists, &mut storms);
    ([files, directories, others, pairs], storms)
}

fn totals(aggregate: &Aggregate) -> Totals {
    let totals = aggregate.totals.clone();
    let ends = totals.first_ns.zip(totals.last_ns);
    Totals {
        duration_ns: ends.map_or(0, |(first, last)| last.abs_diff(first)),
        ..totals
    }
}

/// What the pass over `operations` collects.
struct Collected {
    aggregate: Aggregate,
    findings: Findings,
    /// Of a load.
    course: Option<Course>,
}

impl Collected {
    fn of(
        trace: &mut Trace,
        span: Option<(i64, i64)>,
        chosen: &Chosen,
        lexica: &mut Lexica,
    ) -> Self {
        let mut aggregate = Aggregate::new(span);
        let mut findings = Findings::new(trace, span);
        let shared = Batch::columns(chosen);
        let mut course = Course::new(trace.manifest.as_ref(), &aggregate);
        let of_load: &[&str] = if course.is_some() { &COLUMNS } else { &[] };
        let columns = [shared.as_slice(), findings.columns(), of_load].concat();
        trace.batches(Table::Operations, &columns, |columns| {
            let batch = Batch::of(columns, chosen, lexica)?;
            let rows = batch.chosen(chosen, lexica);
            aggregate.add(&batch, &rows, lexica);
            let (own, of_load) = columns[shared.len()..].split_at(findings.columns().len());
            findings.add(&batch, own, (&rows, &aggregate.failed), lexica)?;
            if let Some(course) = &mut course {
                course.add(&batch, of_load, &rows)?;
            }
            Ok(())
        });
        Self {
            aggregate,
            findings,
            course,
        }
    }
}

/// What was asked, and the bounds that hold.
fn parameters(asked: Asked, manifest: Option<&Manifest>) -> Parameters {
    Parameters {
        asked,
        configuration: manifest.map(|manifest| manifest.configuration.clone()),
        top_max: TOP_MAX as u64,
        steps_max: STEPS_MAX,
        files_max: FILES_MAX as u64,
        clients_max: CLIENTS_MAX as u64,
        users_max: USERS_MAX as u64,
        pairs_max: PAIRS_MAX as u64,
        operations_max: KINDS_MAX as u64,
        quantile_error_share: 0.001,
        quantile_over_time_error_share: 0.01,
        thresholds: THRESHOLDS,
    }
}

/// A run that ends, by its manifest alone; `name` is that of its folder, empty without one.
pub fn closing(name: &str, manifest: &Manifest) -> Report {
    let mut report = Report {
        trace: manifest_facts(manifest),
        emulation: crate::emulation::emulation(manifest),
        forwarding: crate::forwarding::forwarding(manifest),
        load: load(Some(manifest), None),
        replay: crate::replaying::replayed(manifest),
        missing: Missing {
            verdict: Some(manifest.verdict.state),
            reasons: manifest.verdict.reasons.clone(),
            shares: manifest.verdict.shares.clone(),
            ..Missing::default()
        },
        ..Report::default()
    };
    report.parameters.asked.trace = name.to_owned();
    report
}

fn facts(trace: &Trace) -> TraceFacts {
    let lacks = trace.lacks.iter().cloned().collect();
    let Some(manifest) = &trace.manifest else {
        return TraceFacts {
            lacks,
            ..TraceFacts::default()
        };
    };
    TraceFacts {
        runs: trace.runs.clone(),
        lacks,
        ..manifest_facts(manifest)
    }
}

fn manifest_facts(manifest: &Manifest) -> TraceFacts {
    TraceFacts {
        trace_id: manifest.trace_id.clone(),
        schema_version: manifest.schema_version.clone(),
        tool: format!("{} {}", manifest.tool.name, manifest.tool.version),
        inputs: manifest.inputs.clone(),
        recorded: recorded(manifest),
        two_taps: manifest.two_taps.clone(),
        sandbox: manifest.sandbox.clone(),
        passed_over: manifest.passed_over.clone(),
        ..TraceFacts::default()
    }
}

fn recorded(manifest: &Manifest) -> Option<Recorded> {
    if manifest.removed.is_some() {
        return None;
    }
    let first_ns = { manifest.clocks.iter() }.filter_map(|clock| clock.first_ns);
    let ends = ends_of_inputs(manifest).into_iter().flatten();
    Some(Recorded {
        first_ns: first_ns.min()?,
        last_ns: ends.max()?,
    })
}

fn missing(trace: &mut Trace) -> Missing {
    let losses = losses(trace);
    let verdict = trace
        .manifest
        .as_ref()
        .map(|manifest| manifest.verdict.clone());
    let (state, reasons, shares) = verdict.map_or_else(
        || (None, Vec::new(), BTreeMap::new()),
        |verdict| (Some(verdict.state), verdict.reasons, verdict.shares),
    );
    Missing {
        verdict: state,
        unfinished: trace
            .newest()
            .and_then(|mut newest| Unfinished::of(&mut newest)),
        reasons,
        shares,
        losses,
        unreadable: trace.warnings.clone(),
        renames_unfollowed: { trace.manifest.as_ref() }
            .and_then(|manifest| manifest.counters.get("files.renames_unfollowed"))
            .map_or(0, |counter| counter.value),
    }
}

fn losses(trace: &mut Trace) -> Vec<Loss> {
    let mut sums: BTreeMap<(String, String), [u64; 3]> = BTreeMap::new();
    let columns = ["direction", "cause", "bytes", "frames"];
    trace.batches(Table::Losses, &columns, |batch| {
        let [direction, cause, bytes, frames] = batch else {
            return Ok(());
        };
        let rows = bytes.len();
        let direction = Texts::of("direction", direction)?;
        let cause = Texts::of("cause", cause)?;
        let bytes = Integers::of("bytes", bytes)?;
        let frames = Integers::of("frames", frames)?;
        for row in 0..rows {
            let text = |column: &Texts<'_>| column.get(row).unwrap_or_default().to_owned();
            let sums = sums.entry((text(&direction), text(&cause))).or_default();
            sums[0] += 1;
            sums[1] += count(bytes.get(row));
            sums[2] += count(frames.get(row));
        }
        Ok(())
    });
    let losses = sums.into_iter();
    losses
        .map(
            |((direction, cause), [holes, lost_bytes, dropped_frames])| Loss {
                direction,
                cause,
                holes,
                lost_bytes,
                dropped_frames,
            },
        )
        .collect()
}

/// How much of the traffic became operations: from the counters of the capture, and the table
/// `connections` for what they do not tell apart.
fn understood(trace: &mut Trace) -> Option<Understood> {
    // Counters of some runs are not to be held against connections of all.
    let manifest = trace.manifest.as_ref().filter(|_| trace.is_described())?;
    let counter = |name: &str| Some(manifest.counters.get(name)?.value);
    let rpc_bytes = counter("rpc.bytes")?;
    let tcp_bytes = counter("stream.bytes")?.saturating_sub(counter("stream.duplicate")?);
    let connections = counter("connections.seen")?;
    let rpc_connections = counter("connections.rpc")?;
    let (of_connections, tls_connections) = bytes_of_connections(trace);
    let bytes = |is_udp, is_rpc| -> u64 {
        let those =
            { of_connections.values() }.filter(|of| (of.is_udp, of.is_rpc) == (is_udp, is_rpc));
        those.map(|of| of.all).sum()
    };
    let udp_rpc = bytes(true, true);
    let rpc_connections_bytes = tcp_bytes.saturating_sub(bytes(false, false)) + udp_rpc;
    // Records of what turned out to be no RPC are among them.
    let rpc_bytes = rpc_bytes.min(rpc_connections_bytes);
    let tcp_rpc_bytes = rpc_bytes.saturating_sub(udp_rpc);
    Some(Understood {
        connections,
        rpc_connections,
        tls_connections,
        rpc_bytes,
        rpc_connections_bytes,
        rpc_connections_share: share(rpc_bytes, rpc_connections_bytes),
        tcp_rpc_bytes,
        tcp_bytes,
        tcp_share: share(tcp_rpc_bytes, tcp_bytes),
    })
}

/// What the rows of a connection show of it.
#[derive(Default)]
struct ConnectionBytes {
    all: u64,
    is_rpc: bool,
    is_udp: bool,
}

/// The bytes of each connection, and how many connections have TLS.
fn bytes_of_connections(trace: &mut Trace) -> (HashMap<Option<i64>, ConnectionBytes>, u64) {
    // Rows of intervals before RPC was recognised do not show that it was.
    let mut of_connections: HashMap<Option<i64>, ConnectionBytes> = HashMap::new();
    let mut tls = HashSet::new();
    let columns = [
        "connection_id",
        "transport",
        "program",
        "client_bytes",
        "server_bytes",
        "client_retransmitted_bytes",
        "server_retransmitted_bytes",
        "tls_seen",
    ];
    trace.batches(Table::Connections, &columns, |batch| {
        let [
            id,
            transport,
            program,
            client,
            server,
            client_twice,
            server_twice,
            tls_seen,
        ] = batch
        else {
            return Ok(());
        };
        let rows = id.len();
        let id = Integers::of("connection_id", id)?;
        let transport = Texts::of("transport", transport)?;
        let program = Texts::of("program", program)?;
        let client = Integers::of("client_bytes", client)?;
        let server = Integers::of("server_bytes", server)?;
        let client_twice = Integers::of("client_retransmitted_bytes", client_twice)?;
        let server_twice = Integers::of("server_retransmitted_bytes", server_twice)?;
        let tls_seen = Flags::of("tls_seen", tls_seen)?;
        for row in 0..rows {
            let bytes = count(client.get(row)) + count(server.get(row));
            let twice = count(client_twice.get(row)) + count(server_twice.get(row));
            let connection = of_connections.entry(id.get(row)).or_default();
            connection.all += bytes.saturating_sub(twice);
            connection.is_rpc |= program.get(row).is_some();
            connection.is_udp |= transport.get(row) == Some("udp");
            if tls_seen.get(row) {
                tls.extend(id.get(row));
            }
        }
        Ok(())
    });
    (of_connections, tls.len() as u64)
}

fn operations(aggregate: &Aggregate, lexica: &Lexica) -> Vec<Operation> {
    let text = |word| lexica.words.text(word).to_owned();
    let mut operations: Vec<_> = { aggregate.kinds.iter() }
        .map(|kind| Operation {
            program: text(kind.program),
            version: kind.version,
            operation: text(kind.operation),
            operations: kind.operations,
            operations_share: share(kind.operations, aggregate.totals.operations),
            failed: kind.failed,
            unanswered: kind.unanswered,
            repeated: kind.repeated,
            retransmissions: kind.retransmissions,
            moved_bytes: kind.moved_bytes,
            server_time: kind.server_time(),
            call_transfer_time: quantiles(&kind.times[1]),
            reply_transfer_time: quantiles(&kind.times[2]),
        })
        .collect();
    operations.sort_by(|one, other| {
        let names = |of: &Operation| (of.program.clone(), of.version, of.operation.clone());
        let counts = other.operations.cmp(&one.operations);
        counts.then_with(|| names(one).cmp(&names(other)))
    });
    operations
}

fn over_time(aggregate: &Aggregate) -> OverTime {
    let mut over_time = OverTime {
        start_ns: aggregate.start_ns,
        step_ns: aggregate.step_ns,
        ..OverTime::default()
    };
    for step in &aggregate.steps {
        over_time.reads.push(step.operations[0]);
        over_time.writes.push(step.operations[1]);
        over_time.others.push(step.operations[2]);
        over_time.read_bytes.push(step.bytes[0]);
        over_time.written_bytes.push(step.bytes[1]);
        over_time.failed.push(step.failed);
        over_time.unanswered.push(step.unanswered);
        let quantile = |share| step.server_time.quantile_ns(share);
        over_time.server_time_p50_ns.push(quantile(0.5));
        over_time.server_time_p99_ns.push(quantile(0.99));
    }
    over_time
}

fn direction(aggregate: &Aggregate, way: Way) -> Direction {
    let flow: &Flow = &aggregate.flows[way as usize];
    let totals = &aggregate.totals;
    let followed = flow.sequential + flow.random;
    Direction {
        operations: flow.operations,
        moved_bytes: match way {
            Way::Read => totals.read_bytes,
            Way::Write => totals.written_bytes,
        },
        sequential: flow.sequential,
        random: flow.random,
        first_of_file: flow.first,
        small_sequential: flow.small_sequential,
        random_misaligned: flow.random_misaligned,
        sequential_share: (followed > 0).then(|| share(flow.sequential, followed)),
        placed: flow.placed,
        aligned_512: flow.aligned_512,
        aligned_4096: flow.aligned_4096,
        sizes: flow.sizes(),
    }
}

fn misaligned_clients(aggregate: &Aggregate, lexica: &Lexica) -> Vec<Misaligned> {
    let mut clients: Vec<_> = { aggregate.clients() }
        .filter(|(word, client)| is_known(*word) && client.placed > client.aligned[1])
        .collect();
    clients.sort_by_key(|(word, client)| {
        (std::cmp::Reverse(client.placed - client.aligned[1]), *word)
    });
    { clients.into_iter().take(TOP_MAX) }
        .map(|(word, client)| Misaligned {
            client: lexica.clients.text(word).to_owned(),
            placed: client.placed,
            aligned_512: client.aligned[0],
            aligned_4096: client.aligned[1],
            misaligned_share: share(client.placed - client.aligned[1], client.placed),
        })
        .collect()
}

fn storms(aggregate: &Aggregate, lexica: &Lexica) -> Vec<GetattrStorm> {
    { aggregate.storms.storms().into_iter().take(TOP_MAX) }
        .map(|storm| GetattrStorm {
            client: lexica.clients.text(storm.client).to_owned(),
            file_id: storm.file_id,
            path: String::new(),
            seconds: storm.seconds,
            operations: storm.calls,
            peak_per_second: storm.peak.into(),
            peak_ns: i64::from(storm.peak_second) * 1_000_000_000,
        })
        .collect()
}

/// Takes note of which objects are files, and which directories, as far as attributes show it.
fn classify(trace: &mut Trace, aggregate: &mut Aggregate) {
    trace.batches(Table::Files, &["file_id", "file_type"], |batch| {
        let [file_id, file_type] = batch else {
            return Ok(());
        };
        let rows = file_id.len();
        let file_id = Integers::of("file_id", file_id)?;
        let file_type = Texts::of("file_type", file_type)?;
        for row in 0..rows {
            if let (Some(id), Some(file_type)) = (file_id.get(row), file_type.get(row)) {
                aggregate.files.classify(id, Class::of_type(file_type));
            }
        }
        Ok(())
    });
}

/// Joins the paths of the files that are listed.
fn name_files(trace: &mut Trace, rankings: [&mut Ranking; 4], storms: &mut [GetattrStorm]) {
    let mut busy: Vec<&mut Busy> = { rankings.into_iter() }
        .flat_map(|ranking| {
            ranking
                .by_operations
                .iter_mut()
                .chain(&mut ranking.by_bytes)
        })
        .collect();
    let ids =
        { busy.iter().map(|busy| busy.file_id) }.chain(storms.iter().map(|each| each.file_id));
    let paths = Paths::of(trace, ids.flatten().collect::<Vec<_>>());
    let path = |file_id: Option<i64>| file_id.and_then(|id| paths.path(id)).unwrap_or_default();
    for busy in &mut busy {
        busy.name = path(busy.file_id);
    }
    for storm in storms {
        storm.path = path(storm.file_id);
    }
}

fn errors(aggregate: &Aggregate, lexica: &Lexica) -> Vec<ErrorCount> {
    let text = |word| lexica.words.text(word).to_owned();
    let mut errors: Vec<_> = { aggregate.failures.iter() }
        .map(|failures| {
            let kind = &aggregate.kinds[failures.kind];
            ErrorCount {
                program: text(kind.program),
                operation: text(kind.operation),
                status: text(failures.status),
                failed: failures.count,
                first_ns: failures.first_ns,
                last_ns: failures.last_ns,
                over_time: failures.steps.clone(),
            }
        })
        .collect();
    errors.sort_by(|one, other| {
        let names = |of: &ErrorCount| (of.program.clone(), of.operation.clone(), of.status.clone());
        let counts = other.failed.cmp(&one.failed);
        counts.then_with(|| names(one).cmp(&names(other)))
    });
    errors
}

fn count(number: Option<i64>) -> u64 {
    number.map_or(0, |number| u64::try_from(number).unwrap_or(0))
}
