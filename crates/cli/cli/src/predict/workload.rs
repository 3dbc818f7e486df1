//! The workload of a plan, with what the trace shows of each call.

use hashbrown::HashMap;
use lineside_analyze::{CallSize, PlanOutput};
use lineside_plan::{Cause, Edge, Event, PlanSink, PlannedCall};
use lineside_predict::{Call, Connection, Work, Workload};
use serde::Serialize;

/// A message whose size is not known is taken for one without data.
const SMALL_BYTES: u64 = 128;
/// No message is longer, whatever a trace that anybody may have made says: a fragment of a record
/// has 31 bits for its length (RFC 5531, 11).
const MESSAGE_BYTES_MAX: u64 = 1 << 31;

/// A plan that is kept, with the texts of its numbers.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) plan: lineside_plan::Kept,
    texts: HashMap<u32, String>,
}

impl PlanSink for Kept {
    fn call(&mut self, call: &PlannedCall) {
        self.plan.call(call);
    }

    fn edge(&mut self, edge: Edge) {
        self.plan.edge(edge);
    }
}

impl PlanOutput for Kept {
    fn text(&mut self, number: u32, text: &str) {
        self.texts.insert(number, text.to_owned());
    }
}

/// What is not predicted as it was captured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Doubts {
    /// Calls without a reply: nothing waits for them.
    pub(super) unanswered: u64,
    /// Calls of which the trace lacks a size, here [`SMALL_BYTES`].
    pub(super) without_size: u64,
    /// Calls over UDP, which go over TCP here.
    pub(super) udp: u64,
    /// Calls of which it is a guess what they waited for.
    pub(super) guessed: u64,
    /// Calls of windows that may have been larger than the trace shows.
    pub(super) bounded: u64,
}

/// A workload, and what its calls are.
#[derive(Debug, Default)]
pub(super) struct Planned {
    pub(super) workload: Workload,
    /// Of each call: client, operation, and from call to reply as it was captured, at the client.
    /// `None`: it has no reply, or opens a connection.
    pub(super) kinds: Vec<Option<(u32, u32, i64)>>,
    /// What these numbers stand for.
    pub(super) texts: HashMap<u32, String>,
    /// From the first call to the last reply, as it was captured, at the client.
    pub(super) captured_ns: i64,
    pub(super) clients: u64,
    pub(super) doubts: Doubts,
}

impl Planned {
    pub(super) fn new(kept: Kept, sizes: &HashMap<i64, CallSize>) -> Self {
        let Kept { mut plan, texts } = kept;
        plan.sort();
        let size = |call: &PlannedCall| sizes.get(&call.observed.id).copied().unwrap_or_default();
        // At the client, as far as the tap shows how far away that is.
        let begins = plan.calls.iter().map(|call| {
            let of = &call.observed;
            (
                of.call_ns.saturating_sub(size(call).client_trip_ns / 2),
                of.call_ns,
            )
        });
        let ends = plan.calls.iter().filter_map(|call| {
            let reply_ns = call.observed.reply_ns?;
            Some(reply_ns.saturating_add(size(call).client_trip_ns / 2))
        });
        let (begin_ns, first_ns) = begins.min().unwrap_or_default();
        let mut planned = Self {
            captured_ns: ends
                .max()
                .map_or(0, |end_ns| end_ns.saturating_sub(begin_ns)),
            texts,
            ..Self::default()
        };
        let mut numbers = Numbers::default();
        for call in &plan.calls {
            planned.add(call, size(call), first_ns, &mut numbers);
        }
        planned.workload.edges = plan.edges.iter().map(Edge::places).collect();
        planned.workload.connections = numbers.connections;
        planned.clients = numbers.clients.len() as u64;
        planned
    }

    fn add(&mut self, call: &PlannedCall, size: CallSize, first_ns: i64, numbers: &mut Numbers) {
        let of = &call.observed;
        let begin = call.begin(size.client_trip_ns, first_ns);
        let bytes = |of: Option<u64>| of.unwrap_or(SMALL_BYTES).min(MESSAGE_BYTES_MAX);
        let call_bytes = bytes(size.call_bytes);
        let work = match (of.event, of.reply_ns) {
            (Event::Open, _) => Work::Open,
            (_, Some(_)) => Work::Request {
                call_bytes,
                reply_bytes: bytes(size.reply_bytes),
                server_ns: size.server_ns,
            },
            (_, None) => Work::OneWay { call_bytes },
        };
        let has_sizes = size.call_bytes.and(size.reply_bytes).is_some();
        let is_request = matches!(work, Work::Request { .. });
        self.doubts.without_size += u64::from(is_request && !has_sizes);
        self.doubts.unanswered += u64::from(matches!(work, Work::OneWay { .. }));
        self.doubts.udp += u64::from(size.is_udp);
        self.doubts.guessed += u64::from(call.cause == Cause::Guessed);
        self.doubts.bounded += u64::from(call.is_bound == Some(true));
        self.workload.calls.push(Call {
            connection: numbers.connection(call),
            thread: numbers.thread(call),
            work,
            begin,
        });
        let reply_ns = of.reply_ns.filter(|_| is_request);
        let seen_ns = reply_ns.map(|reply_ns| reply_ns.saturating_sub(of.call_ns));
        let latency = seen_ns.map(|seen_ns| seen_ns.saturating_add(size.client_trip_ns));
        self.kinds
            .push(latency.map(|latency| (of.client, of.operation, latency)));
    }
}

/// Numbers from 0 for those of the plan.
#[derive(Debug, Default)]
struct Numbers {
    clients: HashMap<u32, u32>,
    servers: HashMap<u32, u32>,
    connections: Vec<Connection>,
    of_connections: HashMap<i64, u32>,
    threads: HashMap<(u32, u32), u32>,
}

impl Numbers {
    fn connection(&mut self, call: &PlannedCall) -> u32 {
        let next = self.clients.len() as u32;
        let client = *self.clients.entry(call.observed.client).or_insert(next);
        let next = self.servers.len() as u32;
        let server = *self.servers.entry(call.observed.server).or_insert(next);
        let next = self.connections.len() as u32;
        *{ self.of_connections.entry(call.observed.connection) }.or_insert_with(|| {
            self.connections.push(Connection { client, server });
            next
        })
    }

    fn thread(&mut self, call: &PlannedCall) -> u32 {
        let next = self.threads.len() as u32;
        *{ self.threads.entry((call.observed.client, call.thread)) }.or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_plan::Observed;

    fn call(call_ns: i64, reply_ns: i64) -> PlannedCall {
        PlannedCall {
            number: 1,
            observed: Observed {
                id: 7,
                call_ns,
                reply_ns: Some(reply_ns),
                ..Observed::default()
            },
            thread: 1,
            cause: Cause::Time,
            trigger: None,
            think_ns: None,
            run: None,
            depth: None,
            is_bound: None,
        }
    }

    fn planned(call: &PlannedCall, size: Option<CallSize>) -> Planned {
        let mut kept = Kept::default();
        kept.call(call);
        let sizes = size.map(|size| (call.observed.id, size));
        Planned::new(kept, &sizes.into_iter().collect())
    }

    /// A trace may lack sizes, as one of another program: its calls wait for their replies.
    #[test]
    fn a_call_without_a_size_waits_for_its_reply() {
        let planned = planned(&call(1_000, 5_000), None);
        assert!(matches!(
            planned.workload.calls[0].work,
            Work::Request { .. }
        ));
        assert_eq!(
            (planned.doubts.without_size, planned.doubts.unanswered),
            (1, 0)
        );
        assert_eq!(planned.captured_ns, 4_000);
    }

    #[test]
    fn no_numbers_of_a_foreign_trace_are_too_large() {
        let size = CallSize {
            call_bytes: Some(u64::MAX),
            reply_bytes: Some(u64::MAX),
            server_ns: i64::MAX,
            client_trip_ns: i64::MAX,
            is_udp: false,
        };
        let planned = planned(&call(i64::MIN, i64::MAX), Some(size));
        assert_eq!(planned.captured_ns, i64::MAX);
        let work = planned.workload.calls[0].work;
        let Work::Request {
            call_bytes,
            reply_bytes,
            ..
        } = work
        else {
            panic!("{work:?}");
        };
        assert_eq!([call_bytes, reply_bytes], [MESSAGE_BYTES_MAX; 2]);
    }
}
