//! ONC RPC as the flow engine's sink: from messages to operations and their rows.
//!
//! ```text
//!  flow ─► connection ─► Records ─► direction ─┬─► request ─► Protocol::on_call ──┐
//!          (StreamSink)  (rpc)    (MessageSink)├─► reply ───► Protocol::on_reply ─┴─► operation ─► rows
//!                                              └─► payload ─► checksums
//! ```
//!
//! An [`Operation`] is open from its call (or from a reply whose call never came) until both of its
//! messages have ended; then its rows go to the sink. Operations lie in slots that are used again,
//! so that no message allocates. What arguments and results mean is not here: see
//! [`protocol`](crate::protocol).

use hashbrown::HashMap;
use lineside_account::{Budget, Counter, Counters};
use lineside_flow::Transport;
use lineside_frame::Range;
use lineside_rows::{ConnectionRow, LossRow, RecordSink, Word};
use lineside_rpc::calls::Expired;
use lineside_wire::Endpoint;

use crate::config::Config;
use crate::files::Files;
use crate::operation::{
    CallRef, EarlyReply, OPERATION_BYTES, OperationTable, Signature, operations_max,
};
use crate::rows::{Rows, Scratch, Wants};
use crate::slot::Slot;

mod acknowledgements;
mod connection;
mod connection_rows;
mod datagrams;
mod direction;
mod early;
mod eviction;
mod fast_calls;
mod fast_path;
mod foreign;
mod holes;
mod ids;
mod incoming;
mod noted;
mod payload;
mod recent_calls;
mod recovery;
mod remembered;
mod reply;
mod request;
mod slots;
mod streams;
mod tls;
mod waiting;
mod waits;

pub use ids::connection_id_of;
pub use noted::{Deferred, NotedCalls};
pub use waiting::Waiting;

use connection::RpcConnection;
use fast_calls::{FAST_CALL_BYTES, FastCalls};
use holes::HoleRows;
use remembered::{RECENT_NS, Recent};

/// So long does a reply wait for a call that the tap is late with.
const EARLY_NS: i64 = 300_000_000_000;
/// A call over TCP that has waited for so long was not in flight when the capture ended, as a few
/// are. A guess: few operations take a second, and servers that hang do so for longer.
const UNANSWERED_NS: i64 = 1_000_000_000;
/// The sink of the flow engine.
pub struct Operations<S> {
    config: Config,
    budget: Budget,
    sink: S,
    wants: Wants,
    fast_path: bool,
    connections: Vec<Option<Box<RpcConnection>>>,
    operations: OperationTable,
    fast: FastCalls,
    /// Slots of operations that are drawn on the budget.
    operations_drawn: usize,
    /// So many there may be.
    operations_max: usize,
    /// Lists of ranges that no message holds any more.
    spare: Vec<Vec<Range>>,
    /// Connections that may hold ranges, each once, and whether a connection is among them.
    holders: Vec<usize>,
    listed: Vec<bool>,
    /// The reply in the datagram at hand that waits for its call.
    early_key: Option<u64>,
    /// The datagram at hand comes from another address than its call went to.
    is_elsewhere: bool,
    recent: Recent,
    /// The connections over UDP on which a client's port has called.
    udp_clients: HashMap<Endpoint, Vec<usize>>,
    holes: HoleRows,
    now: i64,
    ending: bool,
    is_relieved: bool,
    /// What other actors do.
    deferred: Option<Box<Deferred>>,
    /// Memory that is used again for each row.
    scratch: Scratch,
    interval: ConnectionRow,
    loss: LossRow,
}

impl<S: RecordSink> Operations<S> {
    pub fn new(mut config: Config, budget: &Budget, sink: S) -> Self {
        config.record.any_program |= config.decode_as.names_unregistered();
        let most = operations_max(budget.limit_bytes()).min(config.outstanding_max);
        Self {
            fast_path: config.fast_path,
            config,
            budget: budget.clone(),
            wants: Wants::of(&sink),
            sink,
            connections: Vec::new(),
            operations: OperationTable::default(),
            fast: FastCalls::default(),
            operations_drawn: 0,
            operations_max: most,
            spare: Vec::new(),
            holders: Vec::new(),
            listed: Vec::new(),
            is_relieved: false,
            early_key: None,
            is_elsewhere: false,
            recent: Recent::new(budget),
            udp_clients: HashMap::new(),
            holes: HoleRows::new(),
            now: i64::MIN,
            ending: false,
            deferred: None,
            scratch: Scratch::default(),
            interval: ConnectionRow::default(),
            loss: LossRow::default(),
        }
    }

    /// Whether data that comes from now on is not checksummed, because the run is behind.
    pub fn set_relieved(&mut self, is_relieved: bool) {
        self.is_relieved = is_relieved;
    }

    pub fn set_ending(&mut self) {
        self.ending = true;
    }

    /// From now on blocks are collected and not checksummed, and calls on the fast path do not
    /// become rows; they lie here until they are taken.
    pub fn deferred(&mut self) -> &mut Deferred {
        self.deferred.get_or_insert_default()
    }

    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    pub fn into_sink(mut self) -> S {
        self.give_back();
        self.sink
    }

    /// Nothing more comes: writes the last rows, and gives back what is drawn for operations.
    pub fn give_back(&mut self) {
        self.write_merged_holes();
        let drawn = std::mem::take(&mut self.operations_drawn) * OPERATION_BYTES;
        self.operations = OperationTable::default();
        let fast = std::mem::take(&mut self.fast).len() * FAST_CALL_BYTES;
        self.budget.give_back(drawn + fast);
    }

    /// Copies what is held out of the port's blocks.
    pub fn spill(&mut self, counters: &mut Counters) {
        let mut spilled = 0;
        for holder in self.holders.drain(..) {
            self.listed[holder] = false;
            let Some(connection) = self.connections[holder].as_mut() else {
                continue;
            };
            let records = connection.records.iter_mut().flatten();
            spilled += records.map(|records| records.spill()).sum::<usize>();
            let early = connection.calls.early_mut();
            let early = early.flat_map(|early| &mut early.ranges);
            spilled += early.map(|range| usize::from(range.spill())).sum::<usize>();
        }
        counters.add(Counter::RangesSpilled, spilled as u64);
    }

    fn connection(&mut self, connection: usize) -> &mut RpcConnection {
        self.connections[connection]
            .as_mut()
            .expect("the flow engine opens a slot before it uses it")
    }

    /// What rows of a connection's operations are written through.
    #[inline]
    fn rows<'a>(&'a mut self, connection: usize, counters: &'a mut Counters) -> Rows<'a, S> {
        let rpc = self.connections[connection].as_mut();
        let rpc = rpc.expect("a slot in use");
        let claim = rpc.claim();
        Rows {
            operations: &mut self.operations,
            files: Files {
                known: &mut rpc.known,
                budget: &self.budget,
                claim,
                facts_max: self.config.facts_max,
            },
            sink: &mut self.sink,
            scratch: &mut self.scratch,
            counters,
            wants: self.wants,
        }
    }

    fn add_holder(&mut self, connection: usize) {
        if !std::mem::replace(&mut self.listed[connection], true) {
            self.holders.push(connection);
        }
    }

    /// A slot for an operation.
    #[inline]
    fn open_operation(&mut self, connection: usize, counters: &mut Counters) -> Option<Slot> {
        if self.has_room()
            && let Some(slot) = self.operations.take_free()
        {
            return Some(slot);
        }
        self.add_operation(connection, counters)
    }

    fn on_expired(
        &mut self,
        connection: usize,
        expired: Expired<Slot, Box<EarlyReply>>,
        counters: &mut Counters,
    ) {
        let expired = match expired {
            Expired::Call(slot) => Expired::Call(self.widen(slot, counters)),
            early => early,
        };
        match expired {
            Expired::Call(slot) if self.operations[slot].unproven_bytes.is_some() => {
                self.disbelieve(connection, slot, counters);
            }
            Expired::Call(slot) => {
                let end = if self.ending {
                    Counter::CallsOutstanding
                } else {
                    Counter::CallsExpired
                };
                counters.count(end);
                self.count_unanswered(connection, slot, counters);
                self.operations[slot].row.reply_missing = true;
                self.remember_given_up(connection, slot);
                self.emit(connection, slot, counters);
                self.forget_ended(connection, counters);
            }
            Expired::Reply(early) => self.read_early(connection, &early, None, counters),
        }
    }

    /// Over TCP a call that was in flight when its connection or the input ended is none that the
    /// server owes a reply. The asynchronous calls of NLM never have one.
    fn count_unanswered(&mut self, connection: usize, slot: Slot, counters: &mut Counters) {
        let now = self.now;
        let rpc = self.connection(connection);
        let (transport, end_ns) = (rpc.transport, rpc.ended_ns.unwrap_or(now));
        let row = &self.operations[slot].row;
        let is_one_way = matches!(row.operation, Word::Known(name)
            if name.ends_with("_MSG") || name.ends_with("_RES"));
        let waited_ns = row
            .call_time_ns
            .map_or(0, |call| end_ns.saturating_sub(call));
        self.connection(connection).unpaired += u64::from(!is_one_way);
        let counter = match transport {
            Transport::Udp => Counter::CallsUdpUnanswered,
            Transport::Tcp if waited_ns >= UNANSWERED_NS && !is_one_way => {
                Counter::CallsTcpUnanswered
            }
            Transport::Tcp => return,
        };
        counters.count(counter);
    }

    /// After a call was answered or has expired: forgets the oldest of those, which are one too
    /// many at most. The rows of one that was sent twice wait for the second reply.
    #[inline]
    fn forget_ended(&mut self, connection: usize, counters: &mut Counters) {
        let (answered_max, now) = (self.config.answered_max, self.now);
        let Self {
            connections,
            operations,
            ..
        } = self;
        let calls = &mut connections[connection]
            .as_mut()
            .expect("a slot in use")
            .calls;
        let lingers =
            |call| matches!(call, CallRef::Open(slot) if operations[slot].row.retransmissions > 0);
        let mut evicted = calls.evict_answered(answered_max, now, lingers);
        while let Some(call) = evicted {
            self.emit_evicted(connection, call, counters);
            let calls = &mut self.connection(connection).calls;
            evicted = calls.evict_lingering(now.saturating_sub(RECENT_NS));
        }
    }

    /// All answered calls are forgotten.
    fn forget_all(&mut self, connection: usize, counters: &mut Counters) {
        loop {
            let calls = &mut self.connection(connection).calls;
            let answered = calls.evict_answered(0, 0, |_| false);
            match answered.or_else(|| calls.evict_lingering(i64::MAX)) {
                Some(evicted) => self.emit_evicted(connection, evicted, counters),
                None => return,
            }
        }
    }

    /// Writes the rows of an answered call that is forgotten now, if they waited until then.
    #[inline]
    fn emit_evicted(&mut self, connection: usize, evicted: CallRef, counters: &mut Counters) {
        if let CallRef::Open(slot) = evicted {
            self.emit(connection, slot, counters);
        }
    }

    /// Gives up what has waited for too long: calls for hours, since their replies may still come,
    /// and replies that came before their calls.
    #[inline]
    fn expire(&mut self, connection: usize, counters: &mut Counters) {
        let calls_ns = self.now.saturating_sub(self.config.reply_timeout_ns);
        let early_ns = self.now.saturating_sub(EARLY_NS);
        self.expire_before(connection, [calls_ns, early_ns], counters);
    }

    #[inline]
    fn expire_before(&mut self, connection: usize, before: [i64; 2], counters: &mut Counters) {
        while let Some(expired) = self.connection(connection).calls.expire(before) {
            self.on_expired(connection, expired, counters);
        }
    }

    /// The number of a call's row.
    #[inline]
    fn operation_id(&self, slot: Slot) -> i64 {
        match slot.fast() {
            Some(at) => self.fast.get(at).operation_id,
            None => self.operations[slot].row.operation_id,
        }
    }

    /// What was called by an answered call.
    fn signature(&self, answered: CallRef) -> Signature {
        match answered {
            CallRef::Open(slot) => Signature::of(&self.operations[slot]),
            CallRef::Written(signature) => signature,
        }
    }

    /// Writes the rows of an operation and frees its slot.
    fn emit(&mut self, connection: usize, slot: Slot, counters: &mut Counters) {
        let early = self.operations[slot].early.take();
        // A message of it that is still open must not reach the slot's next user.
        for open in self.connection(connection).open.iter_mut().flatten() {
            open.slot.take_if(|open| *open == slot);
        }
        let procedure = self.operations[slot].procedure;
        procedure.write_rows(&mut self.rows(connection, counters), slot);
        if let Some(early) = early {
            self.read_early(connection, &early, None, counters);
        }
    }
}
