//! Clients that ask for one thing at a time, over a way that takes longer than the server: judged
//! over all connections of a client, of which each may have one call under way.

use std::collections::BTreeMap;

use lineside_words::{grouped, rate, time};
use serde_json::json;

use super::connection::{Connection, OPERATIONS_MIN, RTT_MIN_NS};
use crate::model::{Finding, Place};
use crate::numbers::share;

/// The share of its time that a client waits for round trips.
const ROUND_TRIPS_SHARE: f64 = 0.5;
/// Of the time, what calls one after the other may take; round trips are bounds, and vary.
const ONE_AT_A_TIME_SHARE_MAX: f64 = 1.1;

/// Clients that wait for a round trip with each call.
pub(super) fn found(connections: &[Connection], operations: u64) -> Option<Finding> {
    let mut clients: BTreeMap<&str, Asking<'_>> = BTreeMap::new();
    for connection in connections {
        clients
            .entry(&connection.client)
            .or_default()
            .add(connection);
    }
    let waiting: Vec<_> = { clients.values() }
        .filter(|client| client.is_one_at_a_time())
        .collect();
    let worst = *waiting.iter().max_by_key(|client| client.waited_ns)?;
    let lost_ns = waiting.iter().map(|client| client.waited_ns).sum();
    let number: u64 = waiting.iter().map(|client| client.operations).sum();
    let connections: usize = waiting.iter().map(|client| client.connections).sum();
    let busiest = worst.busiest?;
    let rtt = worst.waited_ns / worst.operations.max(1);
    let in_all = worst.operations as f64 / (worst.lasted_ns().max(1) as f64 / 1e9);
    let together = match worst.connections {
        1 => String::new(),
        many => format!(" on {many} connections together"),
    };
    Some(Finding {
        kind: "one_at_a_time",
        place: Some(Place::Client),
        who: busiest.client.clone(),
        what: format!(
            "the client asks one at a time: each of {} operations waits for a round trip of {}",
            grouped(number),
            time(rtt)
        ),
        evidence: format!(
            "never more than one call was outstanding{together}; {} operations; the server \
            itself takes {} on average",
            rate(in_all),
            time(worst.server_ns / worst.operations.max(1))
        ),
        advice: "let the application have more requests at once (threads, asynchronous I/O, \
            read-ahead), or make each larger (rsize, wsize); nconnect alone does not help"
            .to_owned(),
        lost_ns,
        operations_share: share(number, operations),
        basis: [
            ("connections", json!(connections)),
            ("operations", json!(number)),
            ("operations_min", json!(OPERATIONS_MIN)),
            ("rtt_min_ns", json!(rtt)),
            ("rtt_bound_ns", json!(RTT_MIN_NS)),
            ("round_trips_share_min", json!(ROUND_TRIPS_SHARE)),
            ("outstanding_max", json!(worst.outstanding_max)),
        ]
        .into(),
        ..Finding::default()
    })
}

/// How a client asks, over all its connections: of several with one call each, calls are under way
/// at the same time.
#[derive(Default)]
struct Asking<'a> {
    connections: usize,
    operations: u64,
    outstanding_max: u64,
    /// What calls waited for round trips, and for the server without its part of these.
    waited_ns: u64,
    server_ns: u64,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    busiest: Option<&'a Connection>,
}

impl<'a> Asking<'a> {
    fn add(&mut self, connection: &'a Connection) {
        let times = &connection.times;
        if times.operations == 0 {
            return;
        }
        let to_server_ns = connection.sent[1].rtt_min_ns.unwrap_or(0);
        self.connections += 1;
        self.operations += times.operations;
        self.outstanding_max = self.outstanding_max.max(connection.outstanding_max);
        self.waited_ns += connection.rtt_ns().unwrap_or(0) * times.operations;
        self.server_ns += times
            .server_ns
            .saturating_sub(to_server_ns * times.operations);
        self.first_ns = self.first_ns.into_iter().chain(times.first_ns).min();
        self.last_ns = self.last_ns.max(times.last_ns);
        let most = |busiest: &Connection| busiest.times.operations >= times.operations;
        self.busiest = self
            .busiest
            .filter(|busiest| most(busiest))
            .or(Some(connection));
    }

    fn lasted_ns(&self) -> u64 {
        let lasted = self.first_ns.zip(self.last_ns);
        lasted.map_or(0, |(first, last)| last.abs_diff(first))
    }

    fn is_one_at_a_time(&self) -> bool {
        let (rtt, lasted_ns) = (self.waited_ns / self.operations.max(1), self.lasted_ns());
        self.operations >= OPERATIONS_MIN
            && self.outstanding_max <= 1
            && rtt >= RTT_MIN_NS
            && share(self.waited_ns, lasted_ns) >= ROUND_TRIPS_SHARE
            && rtt >= 2 * (self.server_ns / self.operations)
            // More than all the time: calls of several connections were under way at once.
            && share(self.waited_ns + self.server_ns, lasted_ns) <= ONE_AT_A_TIME_SHARE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sent;
    use super::*;
    use crate::findings::watch::ConnectionTimes;

    const MS: u64 = 1_000_000;

    /// A connection with a call at a time for ten seconds, over a round trip of 20 ms; of this
    /// share of the time.
    fn connection(client: &str, share: f64) -> Connection {
        let to_end = Sent {
            rtt_min_ns: Some(10 * MS),
            ..Sent::default()
        };
        let operations = (480.0 * share) as u64;
        Connection {
            client: client.to_owned(),
            sent: [to_end, to_end],
            outstanding_max: 1,
            times: ConnectionTimes {
                operations,
                server_ns: operations * 10 * MS,
                first_ns: Some(0),
                last_ns: Some(10_000 * MS as i64),
                ..ConnectionTimes::default()
            },
            ..Connection::default()
        }
    }

    #[test]
    fn a_client_is_judged_over_all_its_connections() {
        let one = found(&[connection("a", 1.0)], 480).expect("one at a time");
        assert_eq!((one.kind, one.who.as_str()), ("one_at_a_time", "a"));
        // Eight calls at once, each on a connection of its own.
        let eight: Vec<_> = (0..8).map(|_| connection("a", 1.0)).collect();
        assert!(found(&eight, 8 * 480).is_none());
        // By turns on two connections.
        let turns = [connection("a", 0.5), connection("a", 0.5)];
        let turns = found(&turns, 480).expect("one at a time");
        assert_eq!(turns.basis["connections"], 2);
        assert!(turns.evidence.contains("on 2 connections together"));
        // Another client has nothing to do with it.
        let two = [connection("a", 1.0), connection("b", 1.0)];
        let two = found(&two, 960).expect("one at a time");
        assert_eq!(two.basis["operations"], 960);
    }

    #[test]
    fn a_client_that_can_ask_for_more_does_not_ask_one_at_a_time() {
        let more = Connection {
            outstanding_max: 8,
            ..connection("a", 0.2)
        };
        assert!(found(&[connection("a", 0.8), more], 480).is_none());
    }
}
