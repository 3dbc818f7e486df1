//! What the flow engine gives to operations: the streams, datagrams and facts of each connection,
//! to the family that reads it.

use lineside_account::{Counter, Counters};
use lineside_flow::{Connection, FlowCounts, StreamSink, Transport, Value};
use lineside_frame::{Cause, Chunk};
use lineside_rows::RecordSink;
use lineside_rpc::calls::OnReply;
use lineside_rpc::record::{self, Records};
use lineside_wire::Direction;

use super::Operations;
use super::acknowledgements::LateAck;
use super::connection::{CONNECTION_BYTES, RpcConnection};
use super::direction::DirectionSink;
use super::foreign::{self, Foreign};
use super::tls::{self, Probe};
use crate::family::Family;

/// Bytes of a record mark.
const RECORD_MARK: usize = 4;

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
            Some(rpc) if rpc.answered > 0 => Value::Proven,
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
        let family = Family::of(rule);
        record.certain |= family.is_forced_rpc();
        record.any_program |= family.is_forced_rpc();
        let records = [(); 2].map(|()| Some(Box::new(Records::new(record, &self.budget))));
        let opened = RpcConnection::new(facts, family, records, self.now);
        self.connections[connection] = Some(Box::new(opened));
    }

    fn on_both_heard(&mut self, connection: usize) {
        self.connection(connection).hears_both = true;
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
        if let Family::Unread { .. } = rpc.family {
            return self.skip(connection, after_syn.then_some(chunk));
        }
        if rpc.probe.is_some()
            && self.is_foreign(connection, direction, after_syn, &chunk, counters)
        {
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
        let family = self.connection(connection).family;
        if let Family::Unread { .. } = family {
            return self.skip(connection, chunks.first().copied());
        }
        if self.connection(connection).probe.is_some()
            && self.is_foreign_datagram(connection, direction, chunks, counters)
        {
            return;
        }
        self.connection(connection).datagram_ns = self.now;
        let elsewhere = chunks
            .first()
            .and_then(|first| self.called_elsewhere(connection, direction, first));
        self.is_elsewhere = elsewhere.is_some();
        let (connection, direction) = elsewhere.unwrap_or((connection, direction));
        let any_program = self.config.record.any_program || family.is_forced_rpc();
        let mut sink = DirectionSink {
            all: self,
            connection,
            direction,
        };
        if record::on_datagram(chunks, any_program, &mut sink, counters) {
            self.hold_early(connection, chunks);
        } else {
            self.connection(connection).unread += chunks.iter().map(record::seen).sum::<u64>();
        }
        // Replies over TCP are asked the same, and come from where their calls went.
        self.is_elsewhere = false;
    }

    fn on_loss(
        &mut self,
        connection: usize,
        facts: &Connection,
        direction: Direction,
        offset: i64,
        hole: Chunk<'_>,
    ) {
        if hole.missing() == Some(Cause::SnapLength) {
            self.connection(connection).is_cut[direction.index()] = true;
        }
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

    fn on_late_acknowledgement(
        &mut self,
        connection: usize,
        direction: Direction,
        since_ns: i64,
        at_ns: i64,
        within_ns: i64,
    ) {
        self.connection(connection).late_ack = Some(Box::new(LateAck {
            direction,
            since_ns,
            at_ns,
            left_ns: at_ns,
            within_ns,
        }));
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
            self.budget.give_back(rpc.known.drawn() + rpc.slots.drawn());
            if facts.initiator().is_some() {
                counters.add(Counter::RepliesWithoutCallBegun, rpc.orphans);
            }
            rpc.count_closed(counters);
        }
    }
}

impl<S: RecordSink> Operations<S> {
    /// Counts a reply whose call was never seen; `direction` is the reply's.
    pub(super) fn note_orphan(
        &mut self,
        connection: usize,
        direction: Direction,
        counters: &mut Counters,
    ) {
        let rpc = self.connection(connection);
        rpc.unpaired += 1;
        match rpc.transport {
            Transport::Tcp if rpc.is_cut[direction.opposite().index()] => {
                counters.count(Counter::RepliesWithoutCallCut);
            }
            Transport::Tcp => rpc.orphans += 1,
            Transport::Udp => counters.count(Counter::RepliesWithoutCallUdp),
        }
    }

    /// Counts what is not RPC in the clear; false as long as nothing shows that it is not.
    #[cold]
    fn is_foreign(
        &mut self,
        connection: usize,
        direction: Direction,
        after_syn: bool,
        chunk: &Chunk<'_>,
        counters: &mut Counters,
    ) -> bool {
        let rpc = self.connection(connection);
        match &mut rpc.probe {
            Some(Probe::Foreign(foreign)) if !foreign.is_tls() => {
                counters.add(foreign.bytes(), chunk.len() as u64);
                true
            }
            Some(Probe::Looking(_)) if rpc.caller.is_some() => {
                rpc.probe = None;
                false
            }
            Some(Probe::Looking(look)) => {
                let found = look.on_stream(direction, after_syn, chunk);
                let Some(Ok(foreign)) = found else {
                    rpc.probe = found.and_then(Result::err).map(Probe::Looking);
                    return false;
                };
                // Until here it was taken for what might be RPC.
                let before = (rpc.passed[0] + rpc.passed[1]) as u64 - chunk.len() as u64;
                counters.add(foreign.bytes(), before);
                self.begin_foreign(connection, foreign, counters);
                self.is_foreign(connection, direction, after_syn, chunk, counters)
            }
            _ => self.is_tls(connection, direction, chunk, counters),
        }
    }

    /// No RPC comes in the clear any more.
    fn begin_foreign(&mut self, connection: usize, foreign: Foreign, counters: &mut Counters) {
        self.finish_records(connection, counters);
        if let Some(counter) = foreign.connections() {
            counters.count(counter);
        }
        let rpc = self.connection(connection);
        rpc.probe = Some(Probe::Foreign(foreign));
        if foreign.is_tls() {
            rpc.tls.get_or_insert_default();
        }
    }

    /// Counts the TLS records of a connection that may go over to TLS; false until its handshake
    /// begins.
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
            self.begin_foreign(connection, Foreign::TlsOfRpc, counters);
        }
        let rpc = self.connection(connection);
        if let Some(Probe::Foreign(foreign)) = rpc.probe {
            counters.add(foreign.bytes(), chunk.len() as u64);
        }
        let records = rpc.tls.get_or_insert_default();
        counters.add(Counter::TlsRecords, records[direction].on_stream(chunk));
        true
    }

    /// Counts a datagram that is not RPC.
    #[cold]
    fn is_foreign_datagram(
        &mut self,
        connection: usize,
        direction: Direction,
        chunks: &[Chunk<'_>],
        counters: &mut Counters,
    ) -> bool {
        let ends = &self.connection(connection).ends;
        let first = chunks.first().filter(|chunk| chunk.missing().is_none());
        let bytes = first.map_or(&[][..], |chunk| chunk.bytes());
        let Some(found) = foreign::of_datagram(ends, direction, bytes) else {
            return false;
        };
        let len: usize = chunks.iter().map(Chunk::len).sum();
        counters.add(found.bytes(), len as u64);
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
        if let Family::Unread { began_as_rpc } = &mut rpc.family {
            *began_as_rpc |= message.is_some_and(|chunk| record::begins_message(&chunk.from(mark)));
        }
    }
}
