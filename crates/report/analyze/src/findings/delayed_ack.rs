//! Replies that the server had ready and TCP kept back until the client acknowledged others: that
//! is the client's delay, or the way's, and no time of the server.

use lineside_words::{grouped, percent, time};
use serde_json::json;

use super::peers::Peers;
use super::scene::Scene;
use super::scene::Ways;
use super::watch::Watch;
use crate::model::{Finding, Place};
use crate::numbers::share;

/// So many replies, and this share of the time that is waited for the server.
const REPLIES_MIN: u64 = 5;
const TIME_SHARE_MIN: f64 = 0.1;
/// With this share of it, the server is not slow.
pub(super) const EXPLAINS_SHARE: f64 = 0.5;
/// An acknowledgement that takes so many times as long as the quickest was delayed by its sender.
const DELAYED_FACTOR: u64 = 4;

pub(super) fn findings(
    peers: &Peers,
    watch: &Watch,
    ways: &Ways,
    scene: &Scene<'_>,
) -> Option<Finding> {
    let waiting = || peers.all.iter().filter(|peer| peer.ack_waits > 0);
    let replies: u64 = waiting().map(|peer| peer.ack_waits).sum();
    let waited_ns: u64 = waiting().map(|peer| peer.ack_wait_ns).sum();
    let server_ns: u64 = { watch.cells.iter().flatten() }
        .map(|cell| cell.server_ns)
        .sum();
    let time_share = share(waited_ns, server_ns);
    if replies < REPLIES_MIN || time_share < TIME_SHARE_MIN {
        return None;
    }
    let worst = waiting().max_by_key(|peer| peer.ack_wait_ns)?;
    let mean_ns = waited_ns / replies;
    let way_ns = ways.client_ns.unwrap_or(0);
    let is_delayed = mean_ns >= DELAYED_FACTOR * way_ns;
    Some(Finding {
        kind: "delayed_ack",
        place: Some(if is_delayed {
            Place::Client
        } else {
            Place::Network
        }),
        who: match waiting().all(|peer| peer.client == worst.client) {
            true => worst.client.clone(),
            false => String::new(),
        },
        what: format!(
            "{} replies wait for an acknowledgement of the client before they may leave: {} each",
            grouped(replies),
            time(mean_ns)
        ),
        evidence: format!(
            "each leaves within a round trip of that acknowledgement; {} of what counts as the \
            server's time is this; the way to the client and back takes {}",
            percent(time_share.min(1.0)),
            time(way_ns)
        ),
        advice: match is_delayed {
            true => "the client delays acknowledgements while the server waits for them (Nagle): \
                set TCP_NODELAY at the server, or quick acknowledgements at the client (ip route \
                change ... quickack 1)"
                .to_owned(),
            false => "the client's window, or what the server may send at once, is smaller than \
                the way holds: net.ipv4.tcp_rmem of the client, tcp_wmem of the server"
                .to_owned(),
        },
        lost_ns: waited_ns,
        operations_share: share(replies, scene.report.totals.operations),
        basis: [
            ("replies", json!(replies)),
            ("replies_min", json!(REPLIES_MIN)),
            ("waited_ns", json!(waited_ns)),
            ("time_share", json!(time_share)),
            ("time_share_min", json!(TIME_SHARE_MIN)),
            ("client_rtt_min_ns", json!(ways.client_ns)),
        ]
        .into(),
        ..Finding::default()
    })
}

/// Whether it explains what looks like a slow server.
pub(super) fn explains(found: &[Finding]) -> bool {
    { found.iter().filter(|finding| finding.kind == "delayed_ack") }.any(|finding| {
        finding.basis["time_share"]
            .as_f64()
            .is_some_and(|share| share >= EXPLAINS_SHARE)
    })
}
