//! What was counted, by reason.

use std::collections::BTreeMap;

use serde::Serialize;

macro_rules! counters {
    ($($(#[doc = $meaning:literal])+ $name:ident,)*) => {
        /// What the engine counted since it began.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counters { $($(#[doc = $meaning])+ pub $name: u64,)* }

        impl Counters {
            /// Each with its name.
            pub fn named(self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// SYNs that were answered by a cookie.
    cookies_sent,
    /// Acknowledgements that brought a right cookie, and made an entry.
    cookies_right,
    /// Acknowledgements of a number that may be a cookie, and is none of this client's: dropped.
    cookies_wrong,
    /// Segments of connections of which nothing is known: answered by a RST.
    unknown,
    /// Segments of clients and nodes with a wrong checksum.
    checksum_wrong,
    /// Segments of clients that do not fit their connection, and were answered by an
    /// acknowledgement or dropped.
    unfitting,
    /// Parts of requests for which there was no memory: they come again.
    no_memory,
    /// Connections refused because all entries are in use.
    entries_full,
    /// Connections reset to make room: they waited longest for their client's request.
    evicted,
    /// Connections that a rule decided.
    matched,
    /// Connections that no rule took.
    unmatched,
    /// Connections that began neither with a request of HTTP nor with a ClientHello.
    malformed,
    /// Requests that were longer than what is kept.
    too_long,
    /// Clients that ended their stream before their request was complete.
    cut_short,
    /// Clients that made no request in time.
    request_timeouts,
    /// Connections reset because no rule took them, and there is no default.
    refused,
    /// Connections reset because there was no node, or no other one.
    no_node,
    /// Connections that the client reset before they were spliced.
    resets_of_clients,
    /// Spliced connections that the client reset while the request was replayed.
    resets_while_replayed,
    /// Spliced connections that the node reset while the request was replayed.
    resets_of_nodes,
    /// SYNs sent to nodes, those sent again apart.
    nodes_asked,
    /// Nodes that answered by a RST.
    nodes_refused,
    /// Nodes that did not answer.
    nodes_silent,
    /// Nodes that did not agree to timestamps.
    nodes_options,
    /// Connections that were spliced.
    spliced,
    /// Segments of requests that were sent to a node again.
    replayed_again,
    /// Connections whose request the node did not acknowledge.
    replays_lost,
}

/// The outcomes of connections whose handshake was answered here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Connections of which the handshake was finished.
    pub opened: u64,
    /// Those that wait for their client's request, or for a node's answer.
    pub waiting: u64,
    /// Those that were joined with a node's.
    pub spliced: u64,
    /// Those that ended before, by reason.
    pub failed: BTreeMap<&'static str, u64>,
    /// All that was counted.
    pub counters: BTreeMap<&'static str, u64>,
}

impl Report {
    pub(super) fn new(counters: Counters, waiting: usize) -> Self {
        let failed = [
            ("request too late", counters.request_timeouts),
            ("made room", counters.evicted),
            ("no rule", counters.refused),
            ("no node", counters.no_node),
            ("reset by client", counters.resets_of_clients),
        ];
        Self {
            opened: counters.cookies_right,
            waiting: waiting as u64,
            spliced: counters.spliced,
            failed: failed.into_iter().collect(),
            counters: counters.named().collect(),
        }
    }

    /// Whether each connection that was opened waits, was spliced or failed.
    pub fn is_whole(&self) -> bool {
        self.opened == self.waiting + self.spliced + self.failed.values().sum::<u64>()
    }
}
