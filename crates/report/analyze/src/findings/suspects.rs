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

use lineside_words::grouped;
use serde_json::json;

use super::bursts;
use super::lines::{
    FACTOR_MIN, Found, Line, PEERS_MIN, Standing, compare, each_call, stands, take,
};
use super::scene::{Scene, Ways};
use super::waits::TIME_SHARE_MIN;
use super::watch::{Call, Watch};
use crate::model::Finding;
use crate::numbers::{file_name, share};
use crate::read::columns::Word;
use crate::read::names::Paths;

/// With this share of the operations of a time, a suspect is alone in it.
const ALONE_SHARE: f64 = 0.9;
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
        each_call(watch, scene, None, |_, call| self.add(call));
    }

    fn add(&mut self, call: &Call) {
        let (latency_ns, server_ns) = (call.latency_ns(), call.server_ns());
        self.all[0].add(call, latency_ns);
        self.all[1].add(call, server_ns);
        let client = self
            .clients
            .iter()
            .position(|(word, _)| *word == call.client);
        let file = call
            .file_id
            .and_then(|id| self.files.iter().position(|(each, _)| *each == id));
        if let Some(client) = client {
            self.clients[client].1.add(call, latency_ns);
            self.calls[client].add(call.step, call.begin_ns());
        }
        if let Some(file) = file {
            self.files[file].1.add(call, server_ns);
        }
        if let (Some(client), Some(file)) = (client, file) {
            let both = &mut self.both[client][file];
            both[0].add(call, latency_ns);
            both[1].add(call, server_ns);
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

/// What it costs at the server.
fn found(finding: Finding, standings: &[&Standing]) -> Found {
    let of = |standing: &&Standing| (standing.lost_ns as f64 * standing.server_share) as u64;
    Found {
        server_lost_ns: standings.iter().map(of).sum(),
        finding,
    }
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
