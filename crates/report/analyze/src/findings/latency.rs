//! Findings about how long operations took: what [`Watch`] collected, judged.
//!
//! Each compares a trace with itself, since nobody knows what a server should take: a time with the
//! times around it, the slowest operations with those of the same kind.
//! Only `slow_server` has a bound of its own.

use lineside_words::{grouped, percent, time};
use serde_json::json;

use super::delayed_ack;
use super::scene::Scene;
use super::scene::Ways;
use super::stalls::{STALL_MIN_NS, Stall, Stalls};
use super::watch::{Cell, Watch};
use crate::model::{Finding, Place};
use crate::numbers::share;
use crate::read::columns::Word;

/// By how much a step must exceed the steps around it.
const JUMP_FACTOR: u64 = 4;
/// And by how much time.
const JUMP_MIN_NS: u64 = 2_000_000;
/// A jump is at least this long, and at most this share of the time.
const JUMP_LENGTH_MIN_NS: u64 = 500_000_000;
const JUMP_STEPS_SHARE_MAX: f64 = 0.8;
/// Operations of a kind in a step of which the median means something.
const STEP_OPERATIONS_MIN: u64 = 10;
/// A stall is also so many times as long as half of the operations take.
const STALL_MEDIANS: u64 = 10;
/// Outstanding at once, on average in a jump: a queue.
const QUEUE_MIN: f64 = 16.0;
const QUEUE_FACTOR: f64 = 4.0;
/// Operations of the tail are so many times as long as the median, and as long as this.
const TAIL_MEDIANS: u64 = 30;
const TAIL_MIN_NS: u64 = 100_000_000;
const TAIL_OPERATIONS_MIN: u64 = 5;
/// They cost at least this share of all time that was waited for the server.
const TAIL_TIME_SHARE: f64 = 0.3;
/// A server whose median is above this is slow: `slow`'s own bound.
const SLOW_MEDIAN_NS: u64 = 10_000_000;
const SLOW_OPERATIONS_MIN: u64 = 50;
/// What is slow takes at least this share of all time that was waited for the server.
const SLOW_TIME_SHARE: f64 = 0.2;

/// All findings about latency, but for what the findings about the network explain.
pub(super) fn findings(
    watch: &mut Watch,
    ways: &Ways,
    network: &[Finding],
    scene: &mut Scene<'_>,
) -> Vec<Finding> {
    let totals: Vec<Cell> = watch.cells.iter().map(|steps| sum(steps)).collect();
    let mut found = stalls(watch, &totals, scene);
    let stalled_ns: u64 = found.iter().map(|finding| finding.lost_ns).sum();
    let has = |kinds: &[&str]| network.iter().any(|finding| kinds.contains(&finding.kind));
    // Where replies wait for earlier ones to leave the server, that counts as the server's time.
    if !has(&["window", "full_link"]) && !delayed_ack::explains(network) {
        let slow = slow_server(watch, &totals, ways, scene);
        let jump = jump(watch, ways, scene);
        if slow.is_none() && jump.is_none() && !has(&["loss"]) {
            found.extend(tail(watch, &totals, ways, stalled_ns, scene));
        }
        found.extend(slow);
        found.extend(jump);
    }
    found
}

fn sum(steps: &[Cell]) -> Cell {
    let mut whole = Cell::default();
    steps.iter().for_each(|cell| whole.merge(cell));
    whole
}

fn all_of(totals: &[Cell]) -> Cell {
    sum(totals)
}

/// `READ`, `WRITE of more than 32 KiB`
fn kind_name(watch: &Watch, kind: usize, scene: &Scene<'_>) -> String {
    let (word, is_large) = watch.kinds[kind];
    let name = scene.lexica.words.text(word);
    match is_large {
        true => format!("{name} of more than 32 KiB"),
        false => name.to_owned(),
    }
}

/// Times in which a server answered nobody: one finding a server, with the longest of them.
fn stalls(watch: &mut Watch, totals: &[Cell], scene: &Scene<'_>) -> Vec<Finding> {
    let median_ns = all_of(totals).quantile_ns(0.5);
    let bound_ns = (STALL_MIN_NS as u64).max(STALL_MEDIANS * median_ns);
    let servers = std::mem::take(&mut watch.servers);
    let of_server = |(server, stalls): (Word, Stalls)| {
        let mut stalls = stalls.finish();
        stalls.retain(|stall| stall.until_ns.abs_diff(stall.from_ns) >= bound_ns);
        let server = scene.lexica.servers.text(server);
        let mut finding = stall(&stalls, server, watch.has_recovery)?;
        finding.evidence += &format!("; half of all operations take {}", time(median_ns));
        finding.basis.insert("median_ns", json!(median_ns));
        finding.basis.insert("stall_min_ns", json!(bound_ns));
        let calls: u64 = stalls.iter().map(|stall| stall.calls).sum();
        finding.operations_share = share(calls, scene.report.totals.operations);
        Some(finding)
    };
    servers.into_iter().filter_map(of_server).collect()
}

/// The stalls of one server.
fn stall(stalls: &[Stall], server: &str, has_recovery: bool) -> Option<Finding> {
    let (first, last) = stalls.first().zip(stalls.last())?;
    let length = |stall: &Stall| stall.until_ns.abs_diff(stall.from_ns);
    let lost_ns: u64 = stalls.iter().map(|stall| stall.waited_ns).sum();
    let recovery_ns: u64 = stalls.iter().map(|stall| stall.recovery_ns).sum();
    let calls: u64 = stalls.iter().map(|stall| stall.calls).sum();
    let longest = stalls.iter().map(length).max().unwrap_or(0);
    let clients = stalls
        .iter()
        .map(|stall| stall.clients.len())
        .max()
        .unwrap_or(0);
    let place = match has_recovery {
        false => Place::CannotTell,
        true if share(recovery_ns, lost_ns) > 0.5 => Place::Network,
        true => Place::Server,
    };
    let first_stalls: Vec<_> = { stalls.iter().take(25) }
        .map(|stall| {
            json!({
                "from_ns": stall.from_ns,
                "until_ns": stall.until_ns,
                "calls": stall.calls,
            })
        })
        .collect();
    let times = match stalls.len() {
        1 => format!("for {}", time(longest)),
        count => format!(
            "{} times, for up to {}",
            grouped(count as u64),
            time(longest)
        ),
    };
    Some(Finding {
        kind: "stall",
        place: Some(place),
        since_ns: Some(first.from_ns),
        until_ns: Some(last.until_ns),
        who: server.to_owned(),
        what: format!("the server answered nobody {times}"),
        evidence: format!(
            "{} calls of {} waited",
            grouped(calls),
            match clients {
                1 => "1 client".to_owned(),
                count => format!("up to {} clients", grouped(count as u64)),
            }
        ),
        advice: match place {
            Place::Network => "look for a link that was down or a path that changed: calls \
                were sent again until they came"
                .to_owned(),
            _ => "look at the server at these times: its log, its disks (iostat -x 1), swapping, \
                a snapshot or a failover"
                .to_owned(),
        },
        lost_ns,
        basis: [
            ("stalls", json!(stalls.len())),
            ("stall_max_ns", json!(longest)),
            ("calls", json!(calls)),
            ("recovery_ns", json!(recovery_ns)),
            ("stalls_first", json!(first_stalls)),
        ]
        .into(),
        ..Finding::default()
    })
}

/// Kinds of operations whose median is long although they are few at once.
fn slow_server(watch: &Watch, totals: &[Cell], ways: &Ways, scene: &Scene<'_>) -> Option<Finding> {
    let all_ns: u64 = totals.iter().map(|cell| cell.server_ns).sum();
    let way_ns = ways.server_ns.unwrap_or(0);
    let is_slow = |cell: &Cell| {
        cell.operations >= SLOW_OPERATIONS_MIN
            && cell.quantile_ns(0.5).saturating_sub(way_ns) >= SLOW_MEDIAN_NS
    };
    let mut slow: Vec<(usize, &Cell)> = totals
        .iter()
        .enumerate()
        .filter(|(_, cell)| is_slow(cell))
        .collect();
    slow.sort_by_key(|(_, cell)| std::cmp::Reverse(cell.server_ns));
    let slow_ns: u64 = slow.iter().map(|(_, cell)| cell.server_ns).sum();
    let (worst, cell) = *slow.first()?;
    if share(slow_ns, all_ns) < SLOW_TIME_SHARE {
        return None;
    }
    let operations: u64 = slow.iter().map(|(_, cell)| cell.operations).sum();
    let names: Vec<String> = { slow.iter().take(3) }
        .map(|(kind, cell)| {
            let median = time(cell.quantile_ns(0.5));
            format!("{} {median}", kind_name(watch, *kind, scene))
        })
        .collect();
    let data = |kind: usize| {
        let name = scene.lexica.words.text(watch.kinds[kind].0);
        matches!(name, "READ" | "WRITE" | "COMMIT")
    };
    let others: Cell = {
        let quick = totals.iter().enumerate().filter(|(_, cell)| !is_slow(cell));
        sum(&quick.map(|(_, cell)| cell.clone()).collect::<Vec<_>>())
    };
    let is_disk = slow.iter().all(|(kind, _)| data(*kind));
    // Behind the tap may be a long way, if nothing shows how long it is.
    let place = match ways.server_ns {
        Some(_) => Place::Server,
        None => Place::CannotTell,
    };
    Some(Finding {
        kind: "slow_server",
        place: Some(place),
        what: format!("the server takes long: {} at the median", names.join(", ")),
        evidence: slow_evidence(ways, &others),
        advice: match is_disk {
            true => {
                "look at the server's disks (iostat -x 1) and its cache: what reads and writes \
                files is slow"
                    .to_owned()
            }
            false => "look at the server: its processor, its memory, and the file system behind it"
                .to_owned(),
        },
        lost_ns: slow_ns.saturating_sub(operations * way_ns),
        operations_share: share(operations, scene.report.totals.operations),
        basis: [
            ("operation", json!(kind_name(watch, worst, scene))),
            ("server_time_p50_ns", json!(cell.quantile_ns(0.5))),
            ("server_time_p50_min_ns", json!(SLOW_MEDIAN_NS)),
            ("server_rtt_min_ns", json!(ways.server_ns)),
            ("is_disk", json!(is_disk)),
            ("time_share", json!(share(slow_ns, all_ns))),
            ("time_share_min", json!(SLOW_TIME_SHARE)),
        ]
        .into(),
        ..Finding::default()
    })
}

fn slow_evidence(ways: &Ways, others: &Cell) -> String {
    let way = match ways.server_ns {
        Some(way) => format!("takes {}", time(way)),
        None => "was not measured".to_owned(),
    };
    let others = match others.operations {
        SLOW_OPERATIONS_MIN.. => {
            let median = time(others.quantile_ns(0.5));
            format!("; all others take {median} at the median")
        }
        _ => String::new(),
    };
    format!("the way from the tap to the server and back {way}{others}")
}

/// Steps whose operations took much longer than those of the same kind at other times.
#[derive(Debug, Default)]
struct Bad {
    first: usize,
    last: usize,
    operations: u64,
    server_ns: u64,
    lost_ns: u64,
}

impl Bad {
    fn steps(&self) -> u64 {
        (self.last - self.first + 1) as u64
    }

    fn add(&mut self, next: &Self) {
        self.last = next.last;
        self.operations += next.operations;
        self.server_ns += next.server_ns;
        self.lost_ns += next.lost_ns;
    }
}

/// The worst run of steps in which operations took longer than at other times.
fn worst_run(watch: &Watch) -> Option<Bad> {
    let steps = watch.cells.first().map_or(0, Vec::len);
    let baselines: Vec<Option<(u64, u64)>> =
        watch.cells.iter().map(|kind| baseline(kind)).collect();
    let mut runs: Vec<Bad> = Vec::new();
    let (mut judged, mut bad) = (0usize, 0usize);
    let mut is_running = false;
    for step in 0..steps {
        let mut here = Bad {
            first: step,
            last: step,
            ..Bad::default()
        };
        let mut operations = 0;
        for (kind, base) in watch.cells.iter().zip(&baselines) {
            let (Some((median, mean)), cell) = (base, &kind[step]) else {
                continue;
            };
            if cell.operations < STEP_OPERATIONS_MIN {
                continue;
            }
            operations += cell.operations;
            let now = cell.quantile_ns(0.5);
            if now >= JUMP_FACTOR * median && now - median >= JUMP_MIN_NS {
                here.operations += cell.operations;
                here.server_ns += cell.server_ns;
                here.lost_ns += cell.server_ns.saturating_sub(cell.operations * mean);
            }
        }
        // A step with few operations neither ends a run nor goes on with it.
        if operations == 0 {
            continue;
        }
        judged += 1;
        let is_bad = 2 * here.operations >= operations;
        match runs.last_mut().filter(|_| is_running) {
            Some(run) if is_bad => run.add(&here),
            _ if is_bad => runs.push(here),
            _ => (),
        }
        bad += usize::from(is_bad);
        is_running = is_bad;
    }
    let is_long =
        |run: &Bad| run.last > run.first && run.steps() * watch.step_ns >= JUMP_LENGTH_MIN_NS;
    let worst = runs
        .into_iter()
        .filter(is_long)
        .max_by_key(|run| run.lost_ns)?;
    let is_rare = bad as f64 <= JUMP_STEPS_SHARE_MAX * judged as f64;
    (is_rare && worst.operations >= 3 * STEP_OPERATIONS_MIN).then_some(worst)
}

/// The time in which operations took longest, compared with the others.
fn jump(watch: &Watch, ways: &Ways, scene: &Scene<'_>) -> Option<Finding> {
    let worst = worst_run(watch)?;
    let steps = watch.cells.first().map_or(0, Vec::len);
    let length_ns = worst.steps() * watch.step_ns;
    let [since_ns, until_ns] = watch.times(worst.first, worst.last);
    let usual_ns = worst.server_ns.saturating_sub(worst.lost_ns) / worst.operations;
    let now_ns = worst.server_ns / worst.operations;
    let waiting = worst.server_ns as f64 / length_ns as f64;
    let whole_ns: u64 = watch
        .cells
        .iter()
        .flatten()
        .map(|cell| cell.server_ns)
        .sum();
    let rest_ns = (steps as u64 * watch.step_ns)
        .saturating_sub(length_ns)
        .max(1);
    let usually_waiting = whole_ns.saturating_sub(worst.server_ns) as f64 / rest_ns as f64;
    let is_queue = waiting >= QUEUE_MIN && waiting >= QUEUE_FACTOR * usually_waiting;
    let instead = format!("{} instead of {}", time(now_ns), time(usual_ns));
    Some(Finding {
        kind: if is_queue { "queue" } else { "latency_jump" },
        place: Some(match ways.server_ns {
            Some(way) if way < now_ns / 2 => Place::Server,
            _ => Place::CannotTell,
        }),
        since_ns,
        until_ns,
        what: match is_queue {
            true => format!("operations queued: {waiting:.0} waited at once, and took {instead}"),
            false => format!("operations took {instead}"),
        },
        evidence: format!(
            "{} operations in {}, compared with those of the same kind at other times; {waiting:.1} \
            waited at once, else {usually_waiting:.1}",
            grouped(worst.operations),
            time(length_ns),
        ),
        advice: match is_queue {
            true => {
                "find who asked so much at that time: lineside slow TRACE --per client --since \
                ... --until ..."
            }
            false => {
                "look at what else the server did at that time: lineside slow TRACE --per \
                client or --per file, --since ... --until ..."
            }
        }
        .to_owned(),
        lost_ns: worst.lost_ns,
        operations_share: share(worst.operations, scene.report.totals.operations),
        basis: [
            ("operations", json!(worst.operations)),
            ("server_time_mean_ns", json!(now_ns)),
            ("server_time_usual_mean_ns", json!(usual_ns)),
            ("waiting_mean", json!(waiting)),
            ("waiting_usual_mean", json!(usually_waiting)),
            ("factor_min", json!(JUMP_FACTOR)),
            ("excess_min_ns", json!(JUMP_MIN_NS)),
            ("length_min_ns", json!(JUMP_LENGTH_MIN_NS)),
            ("step_ns", json!(watch.step_ns)),
        ]
        .into(),
        ..Finding::default()
    })
}

/// What is usual for a kind: the lower quartile of the medians of its steps, and the mean of the
/// steps up to twice that. `None`: it has too few steps.
fn baseline(steps: &[Cell]) -> Option<(u64, u64)> {
    let judged = steps
        .iter()
        .filter(|cell| cell.operations >= STEP_OPERATIONS_MIN);
    let medians: Vec<(u64, &Cell)> = judged.map(|cell| (cell.quantile_ns(0.5), cell)).collect();
    let mut sorted: Vec<u64> = medians.iter().map(|(median, _)| *median).collect();
    sorted.sort_unstable();
    let usual = *sorted.get(sorted.len() / 4).filter(|_| sorted.len() >= 4)?;
    let near = medians.iter().filter(|(median, _)| *median <= 2 * usual);
    let (operations, ns) = near.fold((0, 0), |(operations, ns), (_, cell)| {
        (operations + cell.operations, ns + cell.server_ns)
    });
    Some((usual, ns / operations.max(1)))
}

/// Few operations that take most of the time.
fn tail(
    watch: &Watch,
    totals: &[Cell],
    ways: &Ways,
    stalled_ns: u64,
    scene: &Scene<'_>,
) -> Option<Finding> {
    let all_ns: u64 = totals.iter().map(|cell| cell.server_ns).sum();
    let (mut operations, mut ns, mut worst) = (0, 0, (0, 0));
    let (mut first, mut last) = (usize::MAX, 0);
    for (kind, cell) in totals.iter().enumerate() {
        let bound = TAIL_MIN_NS.max(TAIL_MEDIANS * cell.quantile_ns(0.5));
        let (number, time) = cell.from(bound);
        operations += number;
        ns += time;
        worst = worst.max((time, kind));
        let steps = watch.cells[kind].iter().enumerate();
        for (step, _) in steps.filter(|(_, cell)| cell.from(bound).0 > 0) {
            (first, last) = (first.min(step), last.max(step));
        }
    }
    // What stalls cost is reported with these.
    let ns = ns.saturating_sub(stalled_ns);
    if operations < TAIL_OPERATIONS_MIN || share(ns, all_ns) < TAIL_TIME_SHARE {
        return None;
    }
    let [since_ns, until_ns] = watch.times(first, last);
    let of_all = share(operations, totals.iter().map(|cell| cell.operations).sum());
    let median = all_of(totals).quantile_ns(0.5);
    Some(Finding {
        kind: "tail",
        place: Some(match ways.server_ns {
            Some(way) if way < TAIL_MIN_NS / 2 => Place::Server,
            _ => Place::CannotTell,
        }),
        since_ns,
        until_ns,
        what: format!(
            "{} of the operations take {} or more, and {} of all time",
            percent(of_all),
            time(TAIL_MIN_NS),
            percent(share(ns, all_ns))
        ),
        evidence: format!(
            "{} operations, most of it {}; half of all take {} or less",
            grouped(operations),
            kind_name(watch, worst.1, scene),
            time(median)
        ),
        advice:
            "see which files and clients they belong to: lineside slow TRACE --top 25, or --per \
            file"
                .to_owned(),
        lost_ns: ns,
        operations_share: of_all,
        basis: [
            ("operations", json!(operations)),
            ("time_share", json!(share(ns, all_ns))),
            ("time_share_min", json!(TAIL_TIME_SHARE)),
            ("time_min_ns", json!(TAIL_MIN_NS)),
            ("medians_min", json!(TAIL_MEDIANS)),
        ]
        .into(),
        ..Finding::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 100 steps of 100 ms with 20 operations each, which take `server_ns` of their step.
    fn watched(server_ns: impl Fn(usize) -> u64) -> Watch {
        let mut watch = Watch::with(false, Some((0, 24_000 * MS as i64)));
        let cell = |step| Cell::of(&[server_ns(step); 20]);
        watch.kinds.push((2, false));
        watch.cells.push((0..100).map(cell).collect());
        watch
    }

    #[test]
    fn a_jump_has_its_begin_and_end() {
        let bad = 40..60;
        let run = worst_run(&watched(|step| match bad.contains(&step) {
            true => 12 * MS,
            false => MS,
        }));
        let run = run.expect("a jump");
        assert_eq!((run.first, run.last, run.operations), (40, 59, 400));
        assert!(run.lost_ns.abs_diff(400 * 11 * MS) < 400 * MS, "{run:?}");
    }

    #[test]
    fn noise_and_short_times_are_no_jump() {
        assert!(worst_run(&watched(|step| MS + (step as u64 % 3) * MS)).is_none());
        assert!(worst_run(&watched(|step| if step == 50 { 50 * MS } else { MS })).is_none());
        // What is so most of the time is how it is.
        assert!(worst_run(&watched(|step| if step > 10 { 50 * MS } else { MS })).is_none());
    }
}
