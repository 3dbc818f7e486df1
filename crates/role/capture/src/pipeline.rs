//! The path from frames to rows on one thread: dissection, connections, operations. It has no port,
//! no clock and no output; the role gives it frames and a sink.

use lineside_account::{Budget, Counter, Counters};
use lineside_flow::{Engine, Taken, Whole};
use lineside_frame::{Burst, FrameRef, SharedBurst};
use lineside_operations::{Config, Operations, Waiting, connection_id_of};
use lineside_port::{PortError, Receive};
use lineside_rows::{PacketRow, RecordSink, RowRef, Table, Word};
use lineside_run::{Consumer, Moment, Step, receive_all};
use lineside_wire::{Dissected, Ip};

use crate::arrivals::{Arrivals, Span};

/// The path from frames to rows.
pub struct Pipeline<S> {
    arrivals: Arrivals,
    flows: Flows<S>,
}

/// The path behind that, for some connections or for all.
pub(crate) struct Flows<S> {
    pub(crate) flow: Engine,
    pub(crate) operations: Operations<S>,
    pub(crate) counters: Counters,
    packet: PacketRow,
    wants_packets: bool,
}

impl<S: RecordSink> Pipeline<S> {
    /// A pipeline that draws on `budget` and gives its rows to `sink`.
    pub fn new(config: Config, budget: &Budget, sink: S) -> Self {
        Self {
            arrivals: Arrivals::default(),
            flows: Flows::new(config, budget, sink),
        }
    }

    /// Takes a burst; it is empty afterwards.
    pub fn on_burst(&mut self, burst: &mut Burst) {
        let mut now = i64::MIN;
        for frame in SharedBurst::new(burst).iter() {
            now = self.on_frame(frame);
        }
        self.flows.on_timer(now);
    }

    /// No frame came, and all that come have arrived after `until_ns`: what waits for time goes on.
    pub fn on_idle(&mut self, until_ns: i64) {
        let now = self.arrivals.on_idle(until_ns);
        self.flows.operations.sink_mut().on_time(now);
        self.flows.on_timer(now);
    }

    #[inline]
    fn on_frame(&mut self, frame: &FrameRef) -> i64 {
        let now = self.arrivals.on_frame(frame, &mut self.flows.counters);
        self.flows.operations.sink_mut().on_time(now);
        self.flows.on_frame(now, frame);
        now
    }

    /// The stamps seen of each input, by its number.
    pub fn spans(&self) -> &[Span] {
        self.arrivals.spans()
    }

    /// Whether data that comes from now on goes without checksums, because the run is behind.
    pub fn set_relieved(&mut self, is_relieved: bool) {
        self.flows.operations.set_relieved(is_relieved);
    }

    /// Copies what is held out of its blocks, because the port has no free one left.
    pub fn spill(&mut self) {
        self.flows.spill();
    }

    /// The input has ended: everything that waits becomes rows.
    pub fn finish(self) -> (S, Counters) {
        let Flows {
            mut flow,
            mut operations,
            mut counters,
            ..
        } = self.flows;
        operations.set_ending();
        flow.finish(&mut operations, &mut counters);
        (operations.into_sink(), counters)
    }

    /// All counters so far.
    pub fn counters(&self) -> &Counters {
        &self.flows.counters
    }

    /// What waits for replies.
    pub fn waiting(&self) -> Waiting {
        self.flows.operations.waiting()
    }

    /// Where the rows go.
    pub fn sink_mut(&mut self) -> &mut S {
        self.flows.operations.sink_mut()
    }
}

impl<S: RecordSink> Flows<S> {
    pub(crate) fn new(config: Config, budget: &Budget, sink: S) -> Self {
        Self {
            flow: Engine::new(config.flow, budget),
            wants_packets: sink.wants(Table::Packets),
            operations: Operations::new(config, budget, sink),
            counters: Counters::new(),
            packet: PacketRow::default(),
        }
    }

    /// Takes a frame and counts its outcome. `now` is the running maximum of all inputs' stamps.
    #[inline]
    pub(crate) fn on_frame(&mut self, now: i64, frame: &FrameRef) {
        let (operations, counters) = (&mut self.operations, &mut self.counters);
        let taken = self.flow.on_frame(now, frame, operations, counters);
        counters.count(taken.outcome);
        if self.wants_packets {
            self.packet_row(frame, taken);
        }
    }

    /// The row of a fragment that was taken elsewhere.
    pub(crate) fn on_fragment(&mut self, frame: &FrameRef, outcome: Counter) {
        let taken = Taken {
            outcome,
            connection: None,
        };
        self.packet_row(frame, taken);
    }

    /// Takes a packet that was put together from fragments elsewhere.
    pub(crate) fn on_whole(&mut self, now: i64, whole: &Whole) {
        let (operations, counters) = (&mut self.operations, &mut self.counters);
        self.flow.on_whole(now, whole, operations, counters);
    }

    pub(crate) fn on_timer(&mut self, now: i64) {
        let (operations, counters) = (&mut self.operations, &mut self.counters);
        self.flow.on_timer(now, operations, counters);
        operations.on_timer(now, counters);
    }

    /// A part of the end: see [`Engine::close_from`].
    pub(crate) fn close_from(&mut self, slot: usize, slots_max: usize) -> Option<usize> {
        let (operations, counters) = (&mut self.operations, &mut self.counters);
        let next = self.flow.close_from(slot, slots_max, operations, counters);
        if next.is_none() {
            operations.write_merged_holes();
        }
        next
    }

    pub(crate) fn spill(&mut self) {
        self.flow.spill(&mut self.counters);
        self.operations.spill(&mut self.counters);
    }

    /// The row of a frame that the flow engine took.
    #[inline(never)]
    fn packet_row(&mut self, frame: &FrameRef, taken: Taken) {
        let descriptor = frame.descriptor();
        let row = &mut self.packet;
        row.clear();
        row.frame_id = descriptor.ordinal as i64;
        row.input = i32::from(descriptor.input);
        row.frame = descriptor.number as i64;
        row.time_ns = descriptor.stamp_ns;
        row.wire_bytes = i64::from(descriptor.wire_len);
        row.captured_bytes = frame.bytes().len() as i64;
        let addresses = |row: &mut PacketRow, ip: &Ip| {
            row.source_address = Some(ip.source);
            row.destination_address = Some(ip.destination);
        };
        match &dissect(frame) {
            Dissected::Tcp(ip, tcp) => {
                addresses(row, ip);
                row.transport = Word::Known("tcp");
                row.source_port = Some(i32::from(tcp.source_port));
                row.destination_port = Some(i32::from(tcp.destination_port));
                row.tcp_sequence = Some(i64::from(tcp.sequence.0));
                row.tcp_acknowledgement = Some(i64::from(tcp.acknowledgement.0));
                row.tcp_flags = Some(i32::from(tcp.flags.0));
                row.tcp_window = Some(i32::from(tcp.window));
                row.payload_bytes = Some(tcp.payload_len as i64);
            }
            Dissected::Udp(ip, udp) => {
                addresses(row, ip);
                row.transport = Word::Known("udp");
                row.source_port = Some(i32::from(udp.source_port));
                row.destination_port = Some(i32::from(udp.destination_port));
                row.payload_bytes = Some(udp.payload_len as i64);
            }
            Dissected::Fragment(ip, fragment) => {
                addresses(row, ip);
                row.transport = match fragment.protocol {
                    lineside_wire::PROTOCOL_TCP => Word::Known("tcp"),
                    lineside_wire::PROTOCOL_UDP => Word::Known("udp"),
                    other => Word::Number(i64::from(other)),
                };
            }
            _ => {}
        }
        row.duplicate = taken.outcome == Counter::FramesDuplicate;
        let connection = taken.connection;
        let first = connection.and_then(|slot| self.flow.first_frame(slot));
        row.connection_id = first.map(connection_id_of);
        let row = RowRef::Packets(&self.packet);
        self.operations.sink_mut().row(row);
    }
}

#[inline]
pub(crate) fn dissect(frame: &FrameRef) -> Dissected {
    let descriptor = frame.descriptor();
    let wire_len = descriptor.wire_len as usize;
    lineside_wire::dissect(descriptor.link_type.0, frame.bytes(), wire_len)
}

impl<S: RecordSink> Consumer for Pipeline<S> {
    #[inline]
    fn on_burst(&mut self, burst: &mut Burst) -> Step {
        Self::on_burst(self, burst);
        Step::Continue
    }

    fn on_pool_empty(&mut self) -> Step {
        self.spill();
        Step::Continue
    }

    fn on_idle(&mut self, until_ns: i64) -> Step {
        Self::on_idle(self, until_ns);
        Step::Continue
    }
}

/// Drives a pipeline from a port until its end, until `frames_max` frames, or until `between`,
/// called after each burst and, with true, after the last one, stops it. Returns the port's errors:
/// an input that fails ends there, and the others go on.
pub fn run<P: Receive, S: RecordSink>(
    port: &mut P,
    pipeline: &mut Pipeline<S>,
    frames_max: u64,
    mut between: impl FnMut(&mut P, &mut Pipeline<S>, bool) -> Step,
) -> Vec<PortError> {
    receive_all(port, pipeline, frames_max, |port, pipeline, moment| {
        between(port, pipeline, moment == Moment::Last)
    })
}
