//! Calls that come again after their connection's table of calls has forgotten them, or on a new
//! connection after the old one has ended: the ordinary reconnect.

use std::net::IpAddr;

use lineside_account::Counter;
use lineside_flow::Transport;
use lineside_rows::RecordSink;
use lineside_rpc::calls;
use lineside_rpc::recent_calls::RecentCall;
use lineside_wire::{Direction, Endpoint};
use twox_hash::XxHash3_64;

use super::Operations;
use super::connection::RpcConnection;
use super::ids::PLACE_BITS;
use super::incoming::{IncomingMessage, operation_id};
use super::remembered::Recent;
use crate::slot::Slot;

/// Connections that were reset, of which calls may come again. A guess: beyond, all are forgotten.
const RESETS_MAX: usize = 1 << 16;

impl RpcConnection {
    /// A connection's number among past calls.
    fn number(&self) -> u32 {
        (self.id >> PLACE_BITS) as u32
    }

    /// What a call has in common with itself on another connection of the same client to the same
    /// server: the client's port is another.
    #[inline]
    fn recent_key(&mut self, caller: Direction, xid: u32) -> u64 {
        let Self {
            pairs,
            ends,
            transport,
            network,
            ..
        } = self;
        let pair = pairs[caller].get_or_insert_with(|| {
            let (client, server) = (&ends[caller], &ends[caller.opposite()]);
            let number = |end: &Endpoint| match end.address {
                IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
                IpAddr::V6(address) => address.to_bits(),
            };
            let mut bytes = [0; 40];
            bytes[..16].copy_from_slice(&number(client).to_be_bytes());
            bytes[16..32].copy_from_slice(&number(server).to_be_bytes());
            bytes[32..34].copy_from_slice(&server.port.to_be_bytes());
            bytes[34] = *transport as u8;
            bytes[35] = network.is_some().into();
            bytes[36..].copy_from_slice(&network.unwrap_or(0).to_be_bytes());
            XxHash3_64::oneshot(&bytes)
        });
        // Knuth's multiplier: the upper half depends on every bit of the xid.
        (*pair ^ u64::from(xid)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl<S: RecordSink> IncomingMessage<'_, S> {
    /// Remembers a call; returns the id of the first one that it repeats: the same on this
    /// connection, or on one that was reset, or ended before it was answered.
    #[inline]
    pub(super) fn remember(&mut self, xid: u32, numbers: u32, arguments: u32) -> Option<i64> {
        let now = self.all.now;
        let direction = self.direction;
        let rpc = self.all.connection(self.connection);
        let (key, number) = (rpc.recent_key(direction, xid), rpc.number());
        let is_tcp = rpc.transport == Transport::Tcp;
        let what = (arguments ^ numbers.rotate_left(16)).wrapping_mul(0x9e37_79b1);
        let id = operation_id(self.message);
        let Recent { calls, resets } = &mut self.all.recent;
        let known = calls.on_call(key, what, (number, id), now, |same| {
            let is_sent_again = same.is_given_up || resets.contains(&same.connection);
            same.connection == number || is_tcp && is_sent_again
        });
        self.counters
            .add(Counter::PastLimit, known.has_forgotten.into());
        known.same.map(|same| same.first_id)
    }
}

impl<S: RecordSink> Operations<S> {
    /// The call that a reply answers, if its connection's table does not know it any more.
    pub(super) fn recent_call(
        &mut self,
        connection: usize,
        caller: Direction,
        xid: u32,
    ) -> Option<RecentCall> {
        let rpc = self.connection(connection);
        rpc.pairs[caller]?;
        let (key, number) = (rpc.recent_key(caller, xid), rpc.number());
        self.recent.calls.of_reply(key, number, self.now)
    }

    /// A call got no reply.
    pub(super) fn remember_given_up(&mut self, connection: usize, slot: Slot) {
        if let Some(holder) = self.operations[slot].holder.filter(|_| !self.ending) {
            self.give_up_recent(connection, holder.key);
        }
    }

    fn give_up_recent(&mut self, connection: usize, key: u64) {
        let (caller, xid) = calls::parts(key);
        let caller = Direction::BOTH[caller];
        let rpc = self.connection(connection);
        let (key, number) = (rpc.recent_key(caller, xid), rpc.number());
        self.recent.calls.give_up(key, number, self.now);
    }

    /// A connection has ended: calls without reply may come again on another, and after a reset
    /// also those whose replies did not reach the client.
    pub(super) fn remember_end(&mut self, connection: usize, is_reset: bool) {
        let now = self.now;
        let rpc = self.connection(connection);
        rpc.ended_ns.get_or_insert(now);
        if rpc.caller.is_none() {
            return;
        }
        if is_reset {
            let number = rpc.number();
            let resets = &mut self.recent.resets;
            if resets.len() == RESETS_MAX {
                resets.clear();
            }
            resets.insert(number);
        }
        let rpc = self.connection(connection);
        let keys: Vec<u64> = rpc.calls.outstanding_keys().collect();
        for key in keys {
            self.give_up_recent(connection, key);
        }
    }
}
