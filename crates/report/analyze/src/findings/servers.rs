//! One of several servers that is slow while the others are not: an address of a filer, a data
//! server of pNFS, a member of a cluster.
//!
//! A server is compared with all others, kind by kind of operation, by its own time: from the end
//! of the call to the begin of the reply. Of two servers either may be the odd one, so the slow one
//! has to be slow with nearly all of its operations: three quarters of them take longer than three
//! quarters of the others'; or it was as quick as the others at another time (`lines`). A server
//! that is far away is none: its round trips are known.

use lineside_words::{grouped, time};
use serde_json::json;

use super::lines::{Found, Line, compare, each_call};
use super::network::Network;
use super::scene::Scene;
use super::waits::{EXCESS_MIN_NS, OPERATIONS_MIN, TIME_SHARE_MIN};
use super::watch::{Cell, Servers, Watch};
use crate::model::{Finding, Place};
use crate::numbers::share;
use crate::read::columns::Word;

/// The slow one exceeds the others by this factor, as a slow client does.
const FACTOR_MIN: f64 = 4.0;
/// Operations of a kind, of the server and of the others, of which a quantile means something.
const KIND_OPERATIONS_MIN: u64 = 30;

/// The kinds of a server, each with the same of all others.
fn compared(servers: &Servers, at: usize) -> impl Iterator<Item = (&Cell, Cell)> {
    servers.known[at]
        .1
        .iter()
        .enumerate()
        .map(move |(kind, own)| {
            let mut others = Cell::default();
            for (other, (_, kinds)) in servers.known.iter().enumerate() {
                if let Some(cell) = kinds.get(kind).filter(|_| other != at) {
                    others.merge(cell);
                }
            }
            (own, others)
        })
}

/// How a slow server stands to the others.
struct Slow {
    operations: u64,
    /// What an operation takes, and the same ones of others, typically.
    own_ns: u64,
    usual_ns: u64,
    factor: f64,
    lost_ns: u64,
    /// Since when, and until when, if it was as quick as the others before, or after.
    times: [Option<i64>; 2],
}

/// How a server stands to the others, if it is slow all the time.
fn always(servers: &Servers, at: usize) -> Option<Slow> {
    let (mut operations, mut judged, mut apart) = (0, 0, 0);
    let (mut own_log, mut usual_log) = (0.0, 0.0);
    let (mut own_sum, mut usual_sum) = (0.0, 0.0);
    for (own, others) in compared(servers, at) {
        operations += own.operations;
        if own.operations.min(others.operations) < KIND_OPERATIONS_MIN {
            continue;
        }
        let number = own.operations as f64;
        judged += own.operations;
        own_log += number * (own.quantile_ns(0.5) as f64).log2();
        usual_log += number * (others.quantile_ns(0.5) as f64).log2();
        own_sum += own.server_ns as f64;
        usual_sum += number * (others.server_ns as f64 / others.operations as f64);
        if own.quantile_ns(0.25) > others.quantile_ns(0.75) {
            apart += own.operations;
        }
    }
    if judged < OPERATIONS_MIN || 2 * judged < operations || 2 * apart < judged {
        return None;
    }
    let (own_log, usual_log) = (own_log / judged as f64, usual_log / judged as f64);
    let factor = (own_log - usual_log).exp2();
    let lost_ns = (own_sum - usual_sum).max(0.0) as u64;
    (factor >= FACTOR_MIN && lost_ns / judged >= EXCESS_MIN_NS).then(|| Slow {
        operations,
        own_ns: own_log.exp2() as u64,
        usual_ns: usual_log.exp2() as u64,
        factor,
        lost_ns,
        times: [None; 2],
    })
}

/// The servers of which the same operations took longer than of others, by enough time to matter.
fn suspects(servers: &Servers) -> Vec<usize> {
    let time = |kinds: &[Cell]| -> u64 { kinds.iter().map(|cell| cell.server_ns).sum() };
    let all_ns = { servers.known.iter() }.map(|(_, kinds)| time(kinds)).sum();
    let is_suspect = |at: &usize| {
        let (mut long, mut excess_ns) = (0, 0.0);
        for (own, others) in compared(servers, *at) {
            long += own.from(EXCESS_MIN_NS).0;
            if others.operations >= KIND_OPERATIONS_MIN {
                let usual_ns = others.server_ns as f64 / others.operations as f64;
                excess_ns += own.server_ns as f64 - own.operations as f64 * usual_ns;
            }
        }
        long >= OPERATIONS_MIN / 2 && share(excess_ns.max(0.0) as u64, all_ns) >= TIME_SHARE_MIN
    };
    (0..servers.known.len()).filter(is_suspect).collect()
}

/// The suspects that are slow, all the time or from a time to a time. The second needs another
/// pass.
fn slow(watch: &mut Watch, scene: &mut Scene<'_>) -> Vec<(Word, Slow)> {
    let suspects = suspects(&watch.by_server);
    if suspects.is_empty() {
        return Vec::new();
    }
    let mut all = Line::new(watch.steps);
    let mut lines: Vec<(Word, Line)> = { suspects.iter() }
        .map(|&at| (watch.by_server.known[at].0, Line::new(watch.steps)))
        .collect();
    each_call(watch, scene, None, |_, call| {
        all.add(call, call.server_ns());
        if let Some((_, line)) = lines.iter_mut().find(|(word, _)| *word == call.server) {
            line.add(call, call.server_ns());
        }
    });
    let of_line = |at: usize, line: &Line| {
        let run = compare(line, &all);
        let times = run
            .as_ref()
            .map_or([None; 2], |run| watch.times(run.first, run.last));
        let of_run = run.filter(|run| run.was_quick).map(|run| Slow {
            operations: run.operations,
            own_ns: run.own_ns,
            usual_ns: run.usual_ns,
            factor: run.factor,
            lost_ns: run.lost_ns,
            times,
        });
        of_run.or_else(|| {
            Some(Slow {
                times,
                ..always(&watch.by_server, at)?
            })
        })
    };
    let lines = suspects.iter().zip(lines);
    lines
        .filter_map(|(&at, (word, line))| Some((word, of_line(at, &line)?)))
        .collect()
}

/// The server that stands out most, if one does.
pub(super) fn finding(
    watch: &mut Watch,
    network: &Network,
    scene: &mut Scene<'_>,
) -> Option<Found> {
    let slow = slow(watch, scene);
    let servers = &watch.by_server;
    let all_ns: u64 = { servers.known.iter() }
        .flat_map(|(_, kinds)| kinds.iter().map(|cell| cell.server_ns))
        .sum();
    let slow = slow.into_iter().filter_map(|(word, slow)| {
        let address = scene.lexica.servers.text(word);
        let way_ns = network.way_to(address);
        let is_its =
            way_ns.unwrap_or(0) < slow.own_ns / 2 && share(slow.lost_ns, all_ns) >= TIME_SHARE_MIN;
        is_its.then_some((address, way_ns, slow))
    });
    let mut slow: Vec<_> = slow.collect();
    slow.sort_by_key(|(.., slow)| std::cmp::Reverse(slow.lost_ns));
    let (address, way_ns, worst) = slow.first()?;
    let finding = Finding {
        kind: "slow_one_of_servers",
        // Where no round trip was measured, the way is in its time.
        place: Some(match way_ns {
            Some(_) => Place::Server,
            None => Place::CannotTell,
        }),
        since_ns: worst.times[0],
        until_ns: worst.times[1],
        who: (*address).to_owned(),
        what: format!(
            "one of {} servers is slow: its operations take {}, the same ones of others {}",
            servers.known.len(),
            time(worst.own_ns),
            time(worst.usual_ns)
        ),
        evidence: format!(
            "{} operations, from the end of the call to the begin of the reply",
            grouped(worst.operations)
        ),
        advice: format!(
            "look at this one: lineside report TRACE --server {address}; what it has for itself, \
            such as a disk, a volume, a node or a path; let clients use the others meanwhile"
        ),
        lost_ns: worst.lost_ns,
        operations_share: share(worst.operations, scene.report.totals.operations),
        basis: [
            ("operations", json!(worst.operations)),
            ("servers", json!(servers.known.len())),
            ("servers_slow", json!(slow.len())),
            ("time_typical_ns", json!(worst.own_ns)),
            ("time_usual_ns", json!(worst.usual_ns)),
            ("factor", json!(worst.factor)),
            ("factor_min", json!(FACTOR_MIN)),
            ("excess_min_ns", json!(EXCESS_MIN_NS)),
            ("time_share_min", json!(TIME_SHARE_MIN)),
        ]
        .into(),
        ..Finding::default()
    };
    Some(Found {
        server_lost_ns: worst.lost_ns,
        finding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// Servers, each with 100 operations of one kind that take about this long.
    fn servers(typical_us: &[u64]) -> Servers {
        let mut servers = Servers::default();
        for number in 0..101 {
            for (word, typical) in (1..).zip(typical_us) {
                servers.add(word, 0, typical * US * (80 + number % 40) / 100);
            }
        }
        servers
    }

    /// How the server with this word stands.
    fn of(servers: &Servers, word: Word) -> Option<Slow> {
        let at = servers.known.iter().position(|(each, _)| *each == word);
        always(servers, at.expect("a server"))
    }

    #[test]
    fn the_slow_one_of_two_servers_stands_out() {
        let two = servers(&[200, 40_000]);
        assert!(of(&two, 1).is_none());
        let slow = of(&two, 2).expect("slow");
        assert!(slow.factor > 100.0 && slow.operations == 101);
        let many = servers(&[900, 1_000, 1_100, 9_000]);
        assert!((1..4).all(|word| of(&many, word).is_none()));
        assert!(of(&many, 4).is_some());
    }

    #[test]
    fn one_server_alone_and_equal_ones_do_not_stand_out() {
        assert!(servers(&[40_000]).known.is_empty());
        let equal = servers(&[5_000, 6_000, 8_000]);
        assert!((1..4).all(|word| of(&equal, word).is_none()));
        // By much, but in microseconds.
        let quick = servers(&[20, 900]);
        assert!(of(&quick, 2).is_none());
    }

    #[test]
    fn a_server_with_some_slow_operations_is_not_slow_as_such() {
        let mut servers = servers(&[1_000, 1_000]);
        (0..50).for_each(|_| servers.add(2, 0, 400_000 * US));
        assert!(of(&servers, 2).is_none());
    }
}
