//! Rows that are not of an operation: of a connection in an interval, and of bytes that are
//! missing.

use std::cmp::Reverse;

use lineside_account::Counters;
use lineside_flow::{Connection, FlowCounts};
use lineside_frame::{Cause, Chunk};
use lineside_rows::{ConnectionRow, RecordSink, RowRef};
use lineside_wire::{Direction, Endpoint};

use super::Operations;
use super::ids::{SERVICES, connection_id};
use crate::layers;

/// The direction in which the client sends. The client is the end that opened the connection, or
/// else the one that calls, is at no known service, or has the greater port.
fn client_direction(facts: &Connection, caller: Option<Direction>) -> Direction {
    let [one, other] = facts.ends();
    facts.initiator().or(caller).unwrap_or_else(|| {
        let served = |end: Endpoint| (SERVICES.contains(&end.port), Reverse(end.port));
        match served(one) > served(other) {
            true => Direction::Reverse,
            false => Direction::Forward,
        }
    })
}

impl<S: RecordSink> Operations<S> {
    pub(super) fn write_loss(
        &mut self,
        connection: usize,
        facts: &Connection,
        direction: Direction,
        offset: i64,
        hole: Chunk<'_>,
    ) {
        let client = client_direction(facts, self.connection(connection).caller);
        let row = &mut self.loss;
        row.clear();
        row.connection_id = Some(connection_id(facts));
        row.direction = Some(if direction == client {
            "client_to_server"
        } else {
            "server_to_client"
        });
        row.time_ns = hole.descriptor().stamp_ns;
        row.first_byte = Some(offset);
        row.bytes = Some(hole.len() as i64);
        row.cause = Some(match hole.missing() {
            Some(Cause::SnapLength) => "snap_length",
            Some(Cause::GivenUp) => "given_up",
            Some(Cause::Lost) => "lost",
            Some(Cause::Damaged) => "damaged",
            _ => "not_seen",
        });
        row.input = Some(i32::from(hole.descriptor().input));
        if self.holes.takes(self.now, row) {
            self.sink.row(RowRef::Losses(row));
        }
    }

    /// Time has passed: holes that were merged may be due.
    #[inline]
    pub fn on_timer(&mut self, now: i64, counters: &mut Counters) {
        if self.holes.are_due(now) {
            self.holes.count(counters);
            self.write_merged_holes();
        }
    }

    /// Writes the rows of holes that were merged.
    #[cold]
    pub fn write_merged_holes(&mut self) {
        for row in self.holes.take() {
            self.sink.row(RowRef::Losses(&row));
        }
    }

    pub(super) fn write_interval(
        &mut self,
        connection: usize,
        facts: &Connection,
        start_ns: i64,
        counts: &[FlowCounts; 2],
    ) {
        let interval_ns = self.config.flow.interval_ns;
        let rpc = self.connection(connection);
        let client = client_direction(facts, rpc.caller);
        let (program, resynchronised) = (rpc.program, std::mem::take(&mut rpc.resynchronised));
        let tls_seen = rpc.tls.is_some();
        let ack_waits = std::mem::take(&mut rpc.ack_waits);
        let outstanding_max = rpc.calls.take_waiting_max() as i64;
        let row = &mut self.interval;
        row.clear();
        row.connection_id = connection_id(facts);
        if start_ns != i64::MIN {
            row.interval_start_ns = Some(start_ns);
            row.interval_ns = Some(interval_ns);
        }
        row.first_packet_ns = facts.interval_since_ns();
        let ends = facts.ends();
        let (client_end, server_end) = (ends[client], ends[client.opposite()]);
        row.client_address = Some(client_end.address);
        row.server_address = Some(server_end.address);
        row.client_port = Some(i32::from(client_end.port));
        row.server_port = Some(i32::from(server_end.port));
        row.transport = Some(facts.transport().name());
        set_counts(row, &counts[client], &counts[client.opposite()]);
        row.outstanding_max = outstanding_max;
        (row.reply_ack_waits, row.reply_ack_wait_ns) = (ack_waits.replies, ack_waits.waited_ns);
        row.resynchronised = resynchronised;
        layers::set_layers(facts.layers(), row);
        row.program = program;
        row.tls_seen = tls_seen;
        self.sink.row(RowRef::Connections(row));
    }
}

fn set_counts(row: &mut ConnectionRow, from_client: &FlowCounts, from_server: &FlowCounts) {
    row.client_packets = from_client.packets as i64;
    row.client_bytes = from_client.bytes as i64;
    row.client_retransmitted_bytes = from_client.retransmitted_bytes as i64;
    row.client_out_of_order_packets = from_client.out_of_order_packets as i64;
    row.client_lost_bytes = from_client.lost_bytes as i64;
    row.client_retransmissions = from_client.retransmissions as i64;
    row.client_fast_retransmissions = from_client.fast_retransmissions as i64;
    row.client_timeout_retransmissions = from_client.timeout_retransmissions as i64;
    row.client_spurious_retransmissions = from_client.spurious_retransmissions as i64;
    row.client_duplicate_acks = from_client.duplicate_acks as i64;
    row.client_zero_windows = from_client.zero_windows as i64;
    row.client_full_windows = from_client.full_windows as i64;
    row.client_window_waits = from_client.window_waits as i64;
    row.client_syns = from_client.syns as i64;
    row.client_fins = from_client.fins as i64;
    row.client_resets = from_client.resets as i64;
    row.client_stuck_ns = from_client.stuck_ns as i64;
    row.client_stuck_since_ns = from_client.stuck_since_ns;
    row.client_stuck_bytes = from_client.stuck_bytes as i64;
    row.client_passed_bytes = from_client.passed_bytes as i64;
    row.client_shut_ns = from_client.shut_ns as i64;
    row.client_shut_since_ns = from_client.shut_since_ns;
    row.client_segment_max_bytes = from_client.segment_max_bytes as i64;
    row.client_peak_1ms_bytes = from_client.peak_1ms_bytes as i64;
    row.client_peak_1s_bytes = from_client.peak_1s_bytes as i64;
    row.server_packets = from_server.packets as i64;
    row.server_bytes = from_server.bytes as i64;
    row.server_retransmitted_bytes = from_server.retransmitted_bytes as i64;
    row.server_out_of_order_packets = from_server.out_of_order_packets as i64;
    row.server_lost_bytes = from_server.lost_bytes as i64;
    row.server_retransmissions = from_server.retransmissions as i64;
    row.server_fast_retransmissions = from_server.fast_retransmissions as i64;
    row.server_timeout_retransmissions = from_server.timeout_retransmissions as i64;
    row.server_spurious_retransmissions = from_server.spurious_retransmissions as i64;
    row.server_duplicate_acks = from_server.duplicate_acks as i64;
    row.server_zero_windows = from_server.zero_windows as i64;
    row.server_full_windows = from_server.full_windows as i64;
    row.server_window_waits = from_server.window_waits as i64;
    row.server_syns = from_server.syns as i64;
    row.server_fins = from_server.fins as i64;
    row.server_resets = from_server.resets as i64;
    row.server_stuck_ns = from_server.stuck_ns as i64;
    row.server_stuck_since_ns = from_server.stuck_since_ns;
    row.server_stuck_bytes = from_server.stuck_bytes as i64;
    row.server_passed_bytes = from_server.passed_bytes as i64;
    row.server_shut_ns = from_server.shut_ns as i64;
    row.server_shut_since_ns = from_server.shut_since_ns;
    row.server_segment_max_bytes = from_server.segment_max_bytes as i64;
    row.server_peak_1ms_bytes = from_server.peak_1ms_bytes as i64;
    row.server_peak_1s_bytes = from_server.peak_1s_bytes as i64;
    row.refused = (from_client.refused + from_server.refused) as i64;
    row.challenged = (from_client.challenged + from_server.challenged) as i64;
    let shortest = [from_client.rtt_min_ns, from_server.rtt_min_ns];
    row.rtt_min_ns = shortest.into_iter().flatten().min().map(u64::cast_signed);
    let samples = from_client.rtt_samples + from_server.rtt_samples;
    let sum = from_client
        .rtt_sum_ns
        .saturating_add(from_server.rtt_sum_ns);
    row.rtt_ns = sum.checked_div(samples).map(u64::cast_signed);
    row.client_last_packet_ns = from_client.last_ns;
    row.server_last_packet_ns = from_server.last_ns;
    let ended = [from_client.ended_ns, from_server.ended_ns];
    row.ended_ns = ended.into_iter().flatten().min();
    // What one end sends, the other acknowledges.
    row.client_rtt_min_ns = from_server.rtt_min_ns.map(u64::cast_signed);
    row.client_rtt_ns = from_server.rtt_mean_ns().map(u64::cast_signed);
    row.server_rtt_min_ns = from_client.rtt_min_ns.map(u64::cast_signed);
    row.server_rtt_ns = from_client.rtt_mean_ns().map(u64::cast_signed);
}
