//! Over UDP a message has no neighbours that would show what it is, and its reply may come from
//! elsewhere.
//!
//! Four words of zeros and ones are a reply, of NTP or DHCP as well. So a reply is believed if its
//! call was seen, and alone only at a port or on a connection that is known for RPC; the call of a
//! program that has no name and no assigned number is believed there too, and elsewhere once it is
//! answered.

use std::ops::Range;

use lineside_account::{Counter, Counters};
use lineside_flow::Transport;
use lineside_frame::Chunk;
use lineside_rows::RecordSink;
use lineside_rpc::calls::{self, OnReply};
use lineside_rpc::message::program_name;
use lineside_wire::Direction;

use super::Operations;
use super::connection::RpcConnection;
use super::ids::SERVICES;
use crate::headers::Caller;
use crate::slot::Slot;

/// Other connections of a client's port that are asked about a reply: servers that one socket has
/// called. A guess.
const ASKED_MAX: usize = 64;
/// msg_type REPLY (RFC 5531 section 9).
const REPLY: u32 = 1;
/// Where the numbers lie that IANA has assigned to programs, named here or not: few of all that
/// other protocols' words can be.
const ASSIGNED: Range<u32> = 100_000..500_000;
/// Programs of a client's choice (RFC 5531 section 8.4).
const TRANSIENT: Range<u32> = 0x4000_0000..0x6000_0000;

impl RpcConnection {
    /// Whether what looks like RPC on this connection is RPC.
    pub(super) fn is_trusted(&self) -> bool {
        self.transport == Transport::Tcp
            || self.caller.is_some()
            || self.family.is_forced_rpc()
            || self.ends.iter().any(|end| SERVICES.contains(&end.port))
    }

    /// Whether a call is one without further evidence.
    pub(super) fn trusts(&self, caller: &Caller) -> bool {
        let program = caller.meant;
        let is_named = !TRANSIENT.contains(&program) && program_name(program).is_some();
        caller.is_decoded_as || is_named || ASSIGNED.contains(&program) || self.is_trusted()
    }
}

impl<S: RecordSink> Operations<S> {
    /// An end of the connection calls, which makes it RPC's.
    #[inline]
    pub(super) fn set_caller(&mut self, connection: usize, caller: Direction) {
        let rpc = self.connection(connection);
        if rpc.caller.is_none() {
            rpc.caller = Some(caller);
            if rpc.transport == Transport::Udp {
                let client = rpc.ends[caller];
                self.udp_clients.entry(client).or_default().push(connection);
            }
        }
    }

    /// A connection is closed.
    pub(super) fn forget_client(&mut self, connection: usize) {
        let rpc = self.connection(connection);
        let Some(caller) = rpc.caller.filter(|_| rpc.transport == Transport::Udp) else {
            return;
        };
        let client = rpc.ends[caller];
        if let Some(connections) = self.udp_clients.get_mut(&client) {
            connections.retain(|&other| other != connection);
            if connections.is_empty() {
                self.udp_clients.remove(&client);
            }
        }
    }

    /// The connection and direction of a reply whose call went to another address than it comes
    /// from: of a server with several, or of all in a network.
    pub(super) fn called_elsewhere(
        &mut self,
        connection: usize,
        direction: Direction,
        chunk: &Chunk<'_>,
    ) -> Option<(usize, Direction)> {
        let (&xid, rest) = chunk.bytes().split_first_chunk()?;
        let xid = u32::from_be_bytes(xid);
        if *rest.first_chunk()? != REPLY.to_be_bytes() {
            return None;
        }
        let rpc = self.connection(connection);
        let ends = rpc.ends;
        let caller = direction.opposite();
        let key = calls::key(caller.index(), xid);
        if rpc.calls.on_reply(key) != OnReply::Unknown {
            return None;
        }
        let port = ends[direction].port;
        // One that was silent for longer is over, whether or not it has been closed yet.
        let since_ns = { self.now }.saturating_sub(self.config.flow.idle_timeout_ns);
        let others = self.udp_clients.get(&ends[caller])?;
        let asked = others.iter().rev().take(ASKED_MAX);
        let found = asked.copied().find_map(|other| {
            let rpc = self.connections[other].as_ref()?;
            let caller = rpc.caller?;
            let key = calls::key(caller.index(), xid);
            let is_its = rpc.datagram_ns >= since_ns
                && rpc.ends[caller.opposite()].port == port
                && matches!(
                    rpc.calls.on_reply(key),
                    OnReply::Answers(_) | OnReply::Duplicate(_)
                );
            is_its.then_some((other, caller.opposite()))
        })?;
        (found.0 != connection).then_some(found)
    }

    /// What looked like a call got no reply, and nothing else shows that it is one.
    pub(super) fn disbelieve(&mut self, connection: usize, slot: Slot, counters: &mut Counters) {
        counters.count(Counter::DatagramsDoubted);
        let bytes = self.operations[slot].unproven_bytes.unwrap_or(0);
        counters.subtract(Counter::RpcBytes, bytes as u64);
        for open in self.connection(connection).open.iter_mut().flatten() {
            open.slot.take_if(|open| *open == slot);
        }
        self.operations.release(slot);
    }
}
