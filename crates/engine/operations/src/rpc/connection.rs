//! A connection that may carry RPC: its state, and what the flow engine gives to it.

use hashbrown::{HashMap, HashSet};
use lineside_account::{Claim, Counter, Counters};
use lineside_flow::{Connection, FlowCounts, StreamSink, Transport, Value};
use lineside_frame::Chunk;
use lineside_rows::{RecordSink, Word};
use lineside_rpc::calls::{CallTable, OnReply};
use lineside_rpc::record::{self, Records};
use lineside_wire::{Direction, Endpoint};

use super::direction::DirectionSink;
use super::early::EarlyReply;
use super::fast_path::{CallerRef, HeldReply};
use super::files::{FACT_BYTES, NAME_BYTES};
use super::headers::LastHeader;
use super::operation::{CallRef, Slot};
use super::recovery::Recoveries;
use super::tls::{self, Probe, TlsRecords};
use super::{Operations, connection_id};
use crate::blocks::{Blocks, Summed};
use crate::decode_as::PortRule;
use crate::protocol::Progress;

/// Bytes of a record mark.
const RECORD_MARK: usize = 4;

/// What a connection costs here: its state and that of both directions' records, each with what the
/// allocator takes.
const CONNECTION_BYTES: usize = size_of::<RpcConnection>() + 2 * size_of::<Records>() + 3 * 24;

/// What is known of a connection beyond its flows.
#[derive(Debug)]
pub(crate) struct RpcConnection {
    pub(super) id: i64,
    pub(super) ends: [Endpoint; 2],
    /// Hashes of client and server, once an end has called: by the direction of the calls.
    pub(super) pairs: [Option<u64>; 2],
    pub(super) transport: Transport,
    /// The virtual network that its first packet was seen in.
    pub(super) network: Option<u32>,
    /// Taken out while they read.
    pub(super) records: [Option<Box<Records>>; 2],
    /// The message of each direction whose end has not come.
    pub(super) open: [Option<OpenMessage>; 2],
    /// For the file data in each direction, from the first data on.
    pub(super) blocks: [Option<Box<Blocks>>; 2],
    pub(super) summed: [Summed; 2],
    /// Early replies are few, so that an entry is only as large as a call that waits.
    pub(super) calls: CallTable<Slot, CallRef, Box<EarlyReply>>,
    /// The direction of calls, once one was seen.
    pub(super) caller: Option<Direction>,
    /// When the last datagram came.
    pub(super) datagram_ns: i64,
    pub(super) last_header: LastHeader,
    /// Who calls with that header, once a call on the fast path was.
    pub(super) fast_caller: Option<CallerRef>,
    /// Of the latest reply to a call on the fast path whose data follows: what comes before that.
    pub(super) fast_reply: Option<Box<HeldReply>>,
    pub(super) program: Word,
    /// RPC's part of TLS, and the records of both directions once it has begun.
    pub(super) probe: Option<Probe>,
    /// The rule of `--decode-as` for its ports.
    pub(super) rule: Option<PortRule>,
    /// It is not decoded, and yet began like RPC.
    began_as_rpc: bool,
    pub(super) tls: Option<Box<[TlsRecords; 2]>>,
    pub(super) resynchronised: i64,
    /// Bytes of each direction that came so far, holes included.
    pub(super) passed: [i64; 2],
    /// What came again in each direction, once something did.
    pub(super) recoveries: [Option<Box<Recoveries>>; 2],
    /// Replies over TCP whose call was never seen.
    orphans: u64,
    /// A call was answered.
    pub(super) is_answered: bool,
    /// Hashes of the facts already reported.
    pub(super) facts: HashSet<u64>,
    /// The file that has a name in a directory, by a hash of both.
    pub(super) names: HashMap<u64, i64>,
}

/// A message whose header was read and whose end has not come.
#[derive(Debug)]
pub(crate) struct OpenMessage {
    /// The operation that it belongs to.
    pub(crate) slot: Option<Slot>,
    pub(crate) is_call: bool,
    pub(super) xid: u32,
    /// How far its protocol has read it, if it reads in steps.
    pub(crate) progress: Option<Progress>,
    /// The operation that the file data at hand belongs to, and the number of its row.
    pub(super) data_of: Option<Slot>,
    pub(super) data_id: i64,
    /// Bytes of file data still to come.
    pub(super) data_left: u64,
    pub(super) data_missing: bool,
    /// The data is checksummed, in the connection's [`Blocks`].
    pub(super) has_sums: bool,
}

impl OpenMessage {
    pub(super) fn new(slot: Option<Slot>, is_call: bool, xid: u32) -> Self {
        Self {
            slot,
            is_call,
            xid,
            progress: None,
            data_of: None,
            data_id: 0,
            data_left: 0,
            data_missing: false,
            has_sums: false,
        }
    }
}

impl RpcConnection {
    /// As what it may draw: what one sends that nobody answers gives way.
    #[inline]
    pub(super) fn claim(&self) -> Claim {
        match self.is_answered {
            true => Claim::Full,
            false => Claim::Spare,
        }
    }

    /// The message that is open in a direction continues with `len` bytes of file data, to be
    /// checksummed if their offset in the file is given.
    pub(super) fn expect_data(
        &mut self,
        direction: Direction,
        (slot, operation_id): (Slot, i64),
        len: u32,
        sums_from: Option<u64>,
    ) {
        let len = u64::from(len);
        if let Some(open) = &mut self.open[direction] {
            (open.data_of, open.data_id) = (Some(slot), operation_id);
            (open.data_left, open.has_sums) = (len, sums_from.is_some());
        }
        debug_assert!(self.summed[direction].is_empty(), "data has an end");
        if let Some(offset) = sums_from {
            self.blocks[direction]
                .get_or_insert_default()
                .begin(offset, len);
        }
    }

    /// Whether a message like this waits in a direction to be accepted.
    pub(super) fn has_candidate(&self, direction: Direction, xid: u32, is_call: bool) -> bool {
        let records = &self.records[direction];
        records
            .as_ref()
            .is_some_and(|records| records.has_candidate(xid, is_call))
    }

    fn count_closed(&self, counters: &mut Counters) {
        let mut records = self.records.iter().flatten();
        let is_rpc = self.caller.is_some() || records.any(|records| records.is_rpc());
        counters.add(Counter::ConnectionsRpc, u64::from(is_rpc));
        match self.rule {
            Some(PortRule::Rpc) => {
                counters.count(Counter::ConnectionsForced);
                counters.add(Counter::ConnectionsForcedInVain, u64::from(!is_rpc));
            }
            Some(PortRule::None) => {
                counters.count(Counter::ConnectionsLeftAlone);
                counters.add(Counter::ConnectionsLeftAloneRpc, self.began_as_rpc.into());
            }
            None => {}
        }
    }
}

impl<S: RecordSink> StreamSink for Operations<S> {
    #[inline]
    fn on_time(&mut self, now: i64) {
        self.now = self.now.max(now);
    }

    fn connection_bytes(&self) -> usize {
        CONNECTION_BYTES
    }

    fn value(&self, connection: usize) -> Value {
        match self.connections[connection].as_deref() {
            Some(rpc) if rpc.is_answered => Value::Proven,
            Some(rpc) if rpc.caller.is_some() || !rpc.calls.is_empty() => Value::Likely,
            _ => Value::None,
        }
    }

    fn on_open(&mut self, connection: usize, facts: &Connection) {
        if self.connections.len() <= connection {
            self.connections.resize_with(connection + 1, || None);
            self.listed.resize(connection + 1, false);
        }
        let mut record = self.config.record;
        let rule = self.config.decode_as.port(facts.transport(), &facts.ends());
        let is_forced = rule == Some(PortRule::Rpc);
        record.certain |= is_forced;
        record.any_program |= is_forced;
        self.connections[connection] = Some(Box::new(RpcConnection {
            id: connection_id(facts),
            ends: facts.ends(),
            pairs: [None, None],
            transport: facts.transport(),
            network: facts.layers().virtual_network(),
            records: [(); 2].map(|()| Some(Box::new(Records::new(record, &self.budget)))),
            open: [None, None],
            blocks: [None, None],
            summed: Default::default(),
            calls: CallTable::new(),
            caller: None,
            datagram_ns: self.now,
            last_header: LastHeader::default(),
            fast_caller: None,
            fast_reply: None,
            program: Word::None,
            probe: None,
            rule,
            began_as_rpc: false,
            tls: None,
            resynchronised: 0,
            passed: [0; 2],
            recoveries: [None, None],
            orphans: 0,
            is_answered: false,
            facts: HashSet::new(),
            names: HashMap::new(),
        }));
    }

    fn on_stream(
        &mut self,
        connection: usize,
        direction: Direction,
        after_syn: bool,
        chunk: Chunk<'_>,
        counters: &mut Counters,
    ) {
        let rpc = self.connection(connection);
        rpc.passed[direction] += chunk.len() as i64;
        if rpc.rule == Some(PortRule::None) {
            return self.skip(connection, after_syn.then_some(chunk));
        }
        if rpc.probe.is_some() && self.is_tls(connection, direction, &chunk, counters) {
            return;
        }
        let before = counters.value(Counter::Resynchronised);
        self.with_records(
            connection,
            direction,
            counters,
            |records, sink, counters| {
                records.on_stream(after_syn, chunk, sink, counters);
            },
        );
        let found = counters.value(Counter::Resynchronised) - before;
        if found > 0 {
            self.connection(connection).resynchronised += found as i64;
            let other = direction.opposite();
            self.with_records(connection, other, counters, |records, sink, counters| {
                records.reconsider(sink, counters);
            });
        }
    }

    fn on_datagram(
        &mut self,
        connection: usize,
        direction: Direction,
        chunks: &[Chunk<'_>],
        counters: &mut Counters,
    ) {
        let rule = self.connection(connection).rule;
        if rule == Some(PortRule::None) {
            return self.skip(connection, chunks.first().copied());
        }
        self.connection(connection).datagram_ns = self.now;
        let elsewhere = chunks
            .first()
            .and_then(|first| self.called_elsewhere(connection, direction, first));
        let (connection, direction) = elsewhere.unwrap_or((connection, direction));
        let any_program = self.config.record.any_program || rule == Some(PortRule::Rpc);
        let mut sink = DirectionSink {
            all: self,
            connection,
            direction,
        };
        if record::on_datagram(chunks, any_program, &mut sink, counters) {
            self.hold_early(connection, chunks);
        }
    }

    fn on_loss(
        &mut self,
        connection: usize,
        facts: &Connection,
        direction: Direction,
        offset: i64,
        hole: Chunk<'_>,
    ) {
        self.write_loss(connection, facts, direction, offset, hole);
    }

    fn on_sent_again(
        &mut self,
        connection: usize,
        direction: Direction,
        from: i64,
        since_ns: Option<i64>,
        until_ns: i64,
    ) {
        let rpc = self.connection(connection);
        let from = rpc.passed[direction] + from;
        let recoveries = rpc.recoveries[direction].get_or_insert_default();
        recoveries.add(from, since_ns, until_ns);
    }

    fn on_interval(
        &mut self,
        connection: usize,
        facts: &Connection,
        start_ns: i64,
        counts: &[FlowCounts; 2],
    ) {
        self.write_interval(connection, facts, start_ns, counts);
    }

    fn on_end(&mut self, connection: usize, is_reset: bool) {
        self.remember_end(connection, is_reset);
    }

    fn on_close(&mut self, connection: usize, facts: &Connection, counters: &mut Counters) {
        self.holes.count(counters);
        self.finish_records(connection, counters);
        self.expire_before(connection, [i64::MAX; 2], counters);
        self.forget_all(connection, counters);
        self.forget_client(connection);
        if let Some(mut rpc) = self.connections[connection].take() {
            self.fast.forget_caller(&mut rpc);
            let drawn = rpc.facts.len() * FACT_BYTES + rpc.names.len() * NAME_BYTES;
            self.budget.give_back(drawn);
            if facts.initiator().is_some() {
                counters.add(Counter::RepliesWithoutCallBegun, rpc.orphans);
            }
            rpc.count_closed(counters);
        }
    }
}

impl<S: RecordSink> Operations<S> {
    /// Counts a reply whose call was never seen.
    pub(super) fn note_orphan(&mut self, connection: usize, counters: &mut Counters) {
        let rpc = self.connection(connection);
        match rpc.transport {
            Transport::Tcp => rpc.orphans += 1,
            Transport::Udp => counters.count(Counter::RepliesWithoutCallUdp),
        }
    }

    /// Counts the TLS records of a connection that may go over to TLS; false until its handshake
    /// begins.
    #[cold]
    fn is_tls(
        &mut self,
        connection: usize,
        direction: Direction,
        chunk: &Chunk<'_>,
        counters: &mut Counters,
    ) -> bool {
        let rpc = self.connection(connection);
        if rpc.tls.is_none() {
            // File data may look like a handshake too, but does not lie between two records.
            let begins = tls::is_handshake(chunk.bytes())
                && rpc.records[direction]
                    .as_ref()
                    .is_some_and(|records| records.is_between_records());
            // A refused client continues in the clear; an answer that was not seen may have been
            // either.
            let is_refused = matches!(rpc.probe, Some(Probe::Asked(key))
                if matches!(rpc.calls.on_reply(key), OnReply::Duplicate(_)));
            if !begins || is_refused {
                return false;
            }
            // No RPC comes in the clear any more.
            self.finish_records(connection, counters);
            counters.count(Counter::ConnectionsTls);
        }
        let records = self.connection(connection).tls.get_or_insert_default();
        counters.add(Counter::TlsRecords, records[direction].on_stream(chunk));
        true
    }

    /// Bytes that are not decoded. `begins`: the first of a connection, or of a datagram.
    #[cold]
    fn skip(&mut self, connection: usize, begins: Option<Chunk<'_>>) {
        let rpc = self.connection(connection);
        let mark = match rpc.transport {
            Transport::Tcp => RECORD_MARK,
            Transport::Udp => 0,
        };
        let message = begins.filter(|chunk| chunk.len() > mark);
        rpc.began_as_rpc |= message.is_some_and(|chunk| record::begins_message(&chunk.from(mark)));
    }
}
