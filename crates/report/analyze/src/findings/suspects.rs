//! Clients and files that are slow while others are not: who, since when, until when, from what to
//! what.
//!
//! ```text
//!  pass over operations ─► Waits: who took much time ─► Suspects: a second pass, only if there are
//!                                                          some ─► Line of each ─► Standing
//! ```
//!
//! A suspect is compared with all others, step by step of time and kind by kind of operation: where
//! everybody is slow, nobody stands out, and a large READ is compared with READs of its size. Its
//! run is where it exceeds the others most; there it must do so by a factor, by a time, and by more
//! than operations differ anyway. Of a client the latency is compared, of a file the server's time,
//! which does not depend on who asks.

use lineside_rows::Table;
use lineside_words::{grouped, percent, time};
use serde_json::json;

use super::bursts;
use super::network::Ways;
use super::scene::Scene;
use super::waits::{EXCESS_MIN_NS, OPERATIONS_MIN, TIME_SHARE_MIN};
use super::watch::{Call, KINDS_MAX, LARGE_BYTES, Watch, log2};
use crate::model::{Finding, Place};
use crate::numbers::{file_name, share};
use crate::read::batch::Batch;
use crate::read::columns::Word;
use crate::read::names::Paths;

/// Who is slow exceeds the others by this factor,
const FACTOR_MIN: f64 = 4.0;
/// and by so many standard deviations of the others' single operations: where some files are cached
/// and others are not, either is usual.
const DEVIATIONS_MIN: f64 = 2.0;
/// Operations of others, in all and in a step, of whom the mean means something.
const OTHERS_MIN: u64 = 30;
const STEP_OTHERS_MIN: u64 = 10;
/// Who is slow all the time is one of so many: of two, either may be the odd one.
const PEERS_MIN: u64 = 4;
/// With this share of the operations of a time, a suspect is alone in it.
const ALONE_SHARE: f64 = 0.9;
/// A step counts for a run if operations take twice as long as others': a logarithm to base two.
const RUN_EXCESS: f64 = 1.0;
/// Times below this do not differ.
const SHORTEST_NS: u64 = 1 << 10;
/// Size classes of large READs and WRITEs: powers of two up to 1 MiB, and more.
const SIZES: usize = 6;

/// Logarithms of times: how many, their sum and that of their squares.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    operations: u64,
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
struct Line {
    /// By kind and size; those that occur have all steps.
    kinds: Vec<Vec<Moments>>,
    /// By step: how long they took, and how much of it at the server.
    waited_ns: Vec<u64>,
    server_ns: Vec<u64>,
}

impl Line {
    fn new(steps: usize) -> Self {
        Self {
            kinds: vec![Vec::new(); KINDS_MAX * (1 + SIZES)],
            waited_ns: vec![0; steps],
            server_ns: vec![0; steps],
        }
    }

    #[inline]
    fn add(&mut self, call: &Call, kind: usize, waited_ns: u64) {
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
    fn without(&self, part: &Self) -> Self {
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

    fn sum(&self, kind: usize, steps: std::ops::RangeInclusive<usize>) -> Moments {
        let mut sum = Moments::default();
        steps.for_each(|step| sum.merge(&self.at(kind, step)));
        sum
    }

    /// The kinds that occur.
    fn used(&self) -> impl Iterator<Item = usize> {
        (0..self.kinds.len()).filter(|&kind| !self.kinds[kind].is_empty())
    }
}

/// How a suspect stands to the others where it exceeds them most.
#[derive(Debug, Clone, PartialEq)]
struct Standing {
    first: usize,
    last: usize,
    operations: u64,
    /// What its operations take, and the same ones of others, typically.
    own_ns: u64,
    usual_ns: u64,
    factor: f64,
    /// By which factor single operations of others differ anyway.
    deviation_factor: f64,
    waited_ns: u64,
    lost_ns: u64,
    /// Of the time, that at the server.
    server_share: f64,
    /// It was as quick as others at other times.
    was_quick: bool,
}

/// Compares a suspect with the others.
fn compare(own: &Line, all: &Line) -> Option<Standing> {
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

/// Suspects, and what the second pass collects of them.
pub(super) struct Suspects {
    clients: Vec<(Word, Line)>,
    /// Of each client, when its calls came.
    calls: Vec<bursts::Calls>,
    files: Vec<(i64, Line)>,
    /// Of all: latencies, the server's time.
    all: [Line; 2],
    /// By client and file, what they have in common: likewise.
    both: Vec<Vec<[Line; 2]>>,
}

impl Suspects {
    /// Those who took much time, if there are others with whom to compare them.
    fn of(watch: &Watch, scene: &Scene<'_>) -> Option<Self> {
        let totals = &scene.report.totals;
        let objects = totals.files + totals.directories + totals.objects;
        let line = || Line::new(watch.steps);
        let clients = if totals.clients > 1 {
            watch.waits.clients()
        } else {
            Vec::new()
        };
        let files = if objects > 1 {
            watch.waits.files()
        } else {
            Vec::new()
        };
        (!clients.is_empty() || !files.is_empty()).then(|| Self {
            both: { clients.iter() }
                .map(|_| files.iter().map(|_| [line(), line()]).collect())
                .collect(),
            calls: clients.iter().map(|_| bursts::Calls::default()).collect(),
            clients: clients.into_iter().map(|word| (word, line())).collect(),
            files: files.into_iter().map(|id| (id, line())).collect(),
            all: [line(), line()],
        })
    }

    /// Reads the trace once more.
    fn read(&mut self, watch: &mut Watch, scene: &mut Scene<'_>) {
        let columns = Batch::columns(scene.chosen);
        let (chosen, lexica) = (scene.chosen, &mut *scene.lexica);
        scene.trace.batches(Table::Operations, &columns, |columns| {
            let batch = Batch::of(columns, chosen, lexica)?;
            let rows = batch.chosen(chosen, lexica);
            watch.calls(&batch, &rows, lexica, |_, _, call| self.add(call));
            Ok(())
        });
    }

    fn add(&mut self, call: &Call) {
        let kind = usize::from(call.kind);
        if kind >= KINDS_MAX {
            return;
        }
        let kind = kind * (1 + SIZES) + size_of(call.large_bytes);
        let (latency_ns, server_ns) = (call.latency_ns(), call.server_ns());
        self.all[0].add(call, kind, latency_ns);
        self.all[1].add(call, kind, server_ns);
        let client = self
            .clients
            .iter()
            .position(|(word, _)| *word == call.client);
        let file = call
            .file_id
            .and_then(|id| self.files.iter().position(|(each, _)| *each == id));
        if let Some(client) = client {
            self.clients[client].1.add(call, kind, latency_ns);
            self.calls[client].add(call.step, call.begin_ns());
        }
        if let Some(file) = file {
            self.files[file].1.add(call, kind, server_ns);
        }
        if let (Some(client), Some(file)) = (client, file) {
            let both = &mut self.both[client][file];
            both[0].add(call, kind, latency_ns);
            both[1].add(call, kind, server_ns);
        }
    }

    /// Names the file, or the client, that nearly all operations of a time are about in which all
    /// of them took long: then there is nobody to compare it with.
    pub(super) fn name_time(&self, finding: &mut Finding, watch: &Watch, scene: &mut Scene<'_>) {
        let step = |ns: i64| (ns.abs_diff(watch.start_ns) / watch.step_ns) as usize;
        let first = finding.since_ns.map_or(0, step);
        let last = finding.until_ns.map_or(watch.steps, step).max(first + 1) - 1;
        let number = |line: &Line| -> u64 {
            let in_time = |kind| line.sum(kind, first..=last).operations;
            line.used().map(in_time).sum()
        };
        let all = number(&self.all[0]);
        let is_alone = |line: &Line| share(number(line), all) >= ALONE_SHARE;
        if let Some((file, _)) = self.files.iter().find(|(_, line)| is_alone(line)) {
            let path = Paths::of(scene.trace, [*file]).path(*file);
            finding.who = file_name(&path.unwrap_or_default(), Some(*file));
        } else if let Some((word, _)) = self.clients.iter().find(|(_, line)| is_alone(line)) {
            finding.who = scene.lexica.clients.text(*word).to_owned();
        }
    }

    /// Whether it is long because a client sends many calls at once.
    fn waits_for_its_turn(&self, client: usize, standing: &Standing) -> bool {
        let steps = standing.first..=standing.last;
        let turns = self.calls[client].turns(&steps, standing.usual_ns);
        standing.factor < FACTOR_MIN * turns
    }

    /// Whether a client stands out without a file, and that file without the client.
    fn without_each_other(&self, client: usize, file: usize) -> [bool; 2] {
        let lines = [&self.clients[client].1, &self.files[file].1];
        [0, 1].map(|which| {
            let both = &self.both[client][file][which];
            let (rest, all) = (lines[which].without(both), self.all[which].without(both));
            compare(&rest, &all).is_some()
        })
    }
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

/// A finding, and what it costs at the server: other findings of that time are about the same.
pub(super) struct Found {
    pub(super) finding: Finding,
    pub(super) server_lost_ns: u64,
}

/// The suspects of a trace, if there are some.
pub(super) fn suspects(watch: &mut Watch, scene: &mut Scene<'_>) -> Option<Suspects> {
    let mut suspects = Suspects::of(watch, scene)?;
    suspects.read(watch, scene);
    Some(suspects)
}

/// The client and the file that stand out most, if one does.
pub(super) fn findings(
    suspects: &Suspects,
    watch: &Watch,
    ways: &Ways,
    scene: &mut Scene<'_>,
) -> Vec<Found> {
    let totals = &scene.report.totals;
    let objects = totals.files + totals.directories + totals.objects;
    let whole_ns = suspects
        .all
        .each_ref()
        .map(|line| line.waited_ns.iter().sum());
    let worst = |lines: Vec<&Line>, all: usize, peers: u64| {
        let standing = |line: &Line| {
            compare(line, &suspects.all[all]).filter(|standing| {
                share(standing.lost_ns, whole_ns[all]) >= TIME_SHARE_MIN
                    && (standing.was_quick || peers >= PEERS_MIN)
            })
        };
        let mut found: Vec<(usize, Standing)> = { lines.into_iter().enumerate() }
            .filter_map(|(at, line)| Some((at, standing(line)?)))
            .collect();
        found.sort_by_key(|(_, standing)| std::cmp::Reverse(standing.lost_ns));
        found
    };
    let lines = suspects.clients.iter().map(|(_, line)| line).collect();
    let mut clients = worst(lines, 0, totals.clients);
    clients.retain(|(at, standing)| !suspects.waits_for_its_turn(*at, standing));
    let lines = suspects.files.iter().map(|(_, line)| line).collect();
    let mut files = worst(lines, 1, objects);
    // A client may be slow because of the one file that it waits for, and a file because of the one
    // client that asks for it.
    if let (Some((client, of_client)), Some((file, of_file))) = (clients.first(), files.first()) {
        let stands = suspects.without_each_other(*client, *file);
        let both_ns: u64 = suspects.both[*client][*file][1].waited_ns.iter().sum();
        let is_most = |ns| share(both_ns, ns) >= 0.8;
        match stands {
            [true, true] => {}
            [true, false] => files.clear(),
            [false, true] => clients.clear(),
            // One client and one file: it cannot be known which of them it is.
            _ if is_most(of_client.waited_ns) => clients.clear(),
            _ if is_most(of_file.waited_ns) => files.clear(),
            _ => {}
        }
    }
    let mut found = Vec::new();
    if let Some((at, worst)) = clients.first() {
        let address = scene
            .lexica
            .clients
            .text(suspects.clients[*at].0)
            .to_owned();
        found.push(slow_client(
            address,
            worst,
            clients.len(),
            watch,
            ways,
            scene,
        ));
    }
    if !files.is_empty() {
        let files = files
            .into_iter()
            .map(|(at, standing)| (suspects.files[at].0, standing));
        found.push(slow_file(&files.collect::<Vec<_>>(), watch, ways, scene));
    }
    found
}

/// What both findings say of a standing.
fn stands(standing: &Standing, watch: &Watch, ways: &Ways, scene: &Scene<'_>) -> Finding {
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

/// What it costs at the server.
fn found(finding: Finding, standings: &[&Standing]) -> Found {
    let of = |standing: &&Standing| (standing.lost_ns as f64 * standing.server_share) as u64;
    Found {
        server_lost_ns: standings.iter().map(of).sum(),
        finding,
    }
}

/// `take 48 ms, and the same ones of other clients 1.0 ms`
fn take(standing: &Standing, others: &str) -> String {
    let (own, usual) = (time(standing.own_ns), time(standing.usual_ns));
    format!("take {own}, the same ones {others} {usual}")
}

fn slow_client(
    address: String,
    standing: &Standing,
    clients: usize,
    watch: &Watch,
    ways: &Ways,
    scene: &Scene<'_>,
) -> Found {
    let mut finding = stands(standing, watch, ways, scene);
    finding.kind = "slow_client";
    finding.what = format!("its operations {}", take(standing, "of others"));
    finding.advice = format!(
        "see where its time goes: lineside slow TRACE --client {address} --top 25; its link, or the \
        files that it alone uses"
    );
    finding.who = address;
    finding.basis.insert("clients_slow", json!(clients));
    found(finding, &[standing])
}

/// Of several in one directory, that directory is named.
fn slow_file(
    files: &[(i64, Standing)],
    watch: &Watch,
    ways: &Ways,
    scene: &mut Scene<'_>,
) -> Found {
    let (worst, standing) = &files[0];
    let paths = Paths::of(scene.trace, files.iter().map(|(id, _)| *id));
    let directory = paths.directory(*worst);
    let beside: Vec<&Standing> = { files.iter() }
        .filter(|(id, _)| id == worst || directory.is_some() && paths.directory(*id) == directory)
        .map(|(_, standing)| standing)
        .collect();
    let path = file_name(&paths.path(*worst).unwrap_or_default(), Some(*worst));
    let mut finding = stands(standing, watch, ways, scene);
    finding.kind = "slow_file";
    let words = take(standing, "on others");
    let choice = match directory.and_then(|id| paths.path(id)) {
        Some(directory) if beside.len() > 1 => {
            let number = grouped(beside.len() as u64);
            finding.what = format!("operations on {number} of its files {words}");
            finding.lost_ns = beside.iter().map(|standing| standing.lost_ns).sum();
            finding.who = directory;
            "--per file".to_owned()
        }
        _ => {
            finding.what = format!("operations on it {words}");
            finding.who = path;
            format!("--file '{}' --top 25", finding.who)
        }
    };
    finding.advice = format!(
        "see who asks for it, and for what: lineside slow TRACE {choice}; a lock, a file that no \
        cache holds, or the disk that it lies on"
    );
    finding.basis.insert("file_id", json!(worst.to_string()));
    finding.basis.insert("files_slow", json!(beside.len()));
    found(finding, &beside)
}
