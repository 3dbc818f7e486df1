//! One of several servers that is slow while the others are not: an address of a filer, a data
//! server of pNFS, a member of a cluster.
//!
//! A server is compared with all others, kind by kind of operation, by its own time: from the end
//! of the call to the begin of the reply. Of two servers either may be the odd one, so the slow one
//! has to be slow with nearly all of its operations: three quarters of them take longer than three
//! quarters of the others'. A server that is far away is none: its round trips are known.

use lineside_words::{grouped, time};
use serde_json::json;

use super::network::Network;
use super::scene::Scene;
use super::suspects::Found;
use super::waits::{EXCESS_MIN_NS, OPERATIONS_MIN, TIME_SHARE_MIN};
use super::watch::{Cell, Servers};
use crate::model::{Finding, Place};
use crate::numbers::share;

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

/// How a server stands to the others.
struct Standing {
    operations: u64,
    /// What an operation takes, and the same ones of others, typically.
    own_ns: u64,
    usual_ns: u64,
    factor: f64,
    lost_ns: u64,
}

/// How a server stands to the others, if it is slow.
fn standing(servers: &Servers, at: usize) -> Option<Standing> {
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
    (factor >= FACTOR_MIN && lost_ns / judged >= EXCESS_MIN_NS).then(|| Standing {
        operations,
        own_ns: own_log.exp2() as u64,
        usual_ns: usual_log.exp2() as u64,
        factor,
        lost_ns,
    })
}

/// The server that stands out most, if one does.
pub(super) fn finding(servers: &Servers, network: &Network, scene: &Scene<'_>) -> Option<Found> {
    let all_ns: u64 = { servers.known.iter() }
        .flat_map(|(_, kinds)| kinds.iter().map(|cell| cell.server_ns))
        .sum();
    let slow = (0..servers.known.len()).filter_map(|at| {
        let standing = standing(servers, at)?;
        let address = scene.lexica.servers.text(servers.known[at].0);
        let way_ns = network.way_to(address).unwrap_or(0);
        let is_its =
            way_ns < standing.own_ns / 2 && share(standing.lost_ns, all_ns) >= TIME_SHARE_MIN;
        is_its.then_some((address, standing))
    });
    let mut slow: Vec<_> = slow.collect();
    slow.sort_by_key(|(_, standing)| std::cmp::Reverse(standing.lost_ns));
    let (address, worst) = slow.first()?;
    let finding = Finding {
        kind: "slow_one_of_servers",
        place: Some(Place::Server),
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
    use crate::read::columns::Word;

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
    fn of(servers: &Servers, word: Word) -> Option<Standing> {
        let at = servers.known.iter().position(|(each, _)| *each == word);
        standing(servers, at.expect("a server"))
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
