use lineside_account::{Budget, Counter, Counters};
use lineside_flow::{Engine, Taken};
use lineside_frame::{Burst, Frame, FrameRef};
use lineside_port::{Port, PortError, Received};
use lineside_time::VirtualClock;
use lineside_trace::{PacketRow, RecordSink, Table, Word};
use lineside_wire::{Dissected, Ip};

use crate::config::Config;
use crate::operations::{Operations, connection_id};

/// The path from frames to rows.
pub struct Pipeline<S> {
    clock: VirtualClock,
    flow: Engine,
    operations: Operations<S>,
    counters: Counters,
    packet: PacketRow,
    wants_packets: bool,
    spans: Vec<Span>,
}

/// The stamps of an input's frames: the earliest and the latest. Before the first stamp, the earliest is
/// later than the latest.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// The earliest, nanoseconds since the Unix epoch.
    pub first_ns: i64,
    /// The latest.
    pub last_ns: i64,
}

impl<S: RecordSink> Pipeline<S> {
    /// A pipeline that draws on `budget` and gives its rows to `sink`.
    pub fn new(config: Config, budget: &Budget, sink: S) -> Self {
        let wants_packets = sink.wants(Table::Packets);
        Self {
            clock: VirtualClock::new(),
            flow: Engine::new(config.flow, budget),
            operations: Operations::new(config, budget, sink),
            counters: Counters::new(),
            packet: PacketRow::default(),
            wants_packets,
            spans: Vec::new(),
        }
    }

    /// Takes a burst; it is empty afterwards.
    pub fn on_burst(&mut self, burst: &mut Burst) {
        let mut now = i64::MIN;
        for frame in burst.drain(..).map(Frame::share) {
            now = self.on_frame(&frame);
        }
        self.flow
            .on_timer(now, &mut self.operations, &mut self.counters);
    }

    fn on_frame(&mut self, frame: &FrameRef) -> i64 {
        let descriptor = frame.descriptor();
        let wire_len = descriptor.wire_len as usize;
        self.counters.count(Counter::FramesReceived);
        self.counters
            .add(Counter::FrameBytes, u64::from(descriptor.wire_len));
        self.counters.add(
            Counter::FramesCut,
            u64::from(frame.bytes().len() < wire_len),
        );
        let now = match descriptor.stamp_ns {
            Some(stamp_ns) => {
                self.note_stamp(usize::from(descriptor.input), stamp_ns);
                self.clock.observe(stamp_ns)
            }
            None => {
                self.counters.count(Counter::StampsMissing);
                self.clock.observe(i64::MIN)
            }
        };
        self.operations.set_now(now);
        self.operations.sink_mut().on_time(now);
        let dissected = lineside_wire::dissect(descriptor.link_type.0, frame.bytes(), wire_len);
        let taken = self.flow.on_frame(
            now,
            frame,
            &dissected,
            &mut self.operations,
            &mut self.counters,
        );
        self.counters.count(taken.outcome);
        if self.wants_packets {
            self.packet_row(frame, &dissected, taken);
        }
        now
    }

    fn note_stamp(&mut self, input: usize, stamp_ns: i64) {
        if self.spans.len() <= input {
            self.spans.resize(
                input + 1,
                Span {
                    first_ns: i64::MAX,
                    last_ns: i64::MIN,
                },
            );
        }
        let span = &mut self.spans[input];
        span.first_ns = span.first_ns.min(stamp_ns);
        span.last_ns = span.last_ns.max(stamp_ns);
    }

    /// The stamps seen of each input, by its number.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Copies what is held out of its blocks, because the port has no free one left.
    pub fn spill(&mut self) {
        self.flow.spill(&mut self.counters);
        self.operations.spill(&mut self.counters);
    }

    /// The input has ended: everything that waits becomes rows.
    pub fn finish(mut self) -> (S, Counters) {
        self.operations.set_ending();
        self.flow.finish(&mut self.operations, &mut self.counters);
        (self.operations.into_sink(), self.counters)
    }

    /// All counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Where the rows go.
    pub fn sink_mut(&mut self) -> &mut S {
        self.operations.sink_mut()
    }

    fn packet_row(&mut self, frame: &FrameRef, dissected: &Dissected, taken: Taken) {
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
        match dissected {
            Dissected::Tcp(ip, tcp) => {
                addresses(row, ip);
                row.transport = Word::Known("tcp");
                row.source_port = Some(i32::from(tcp.source_port));
                row.destination_port = Some(i32::from(tcp.destination_port));
                row.tcp_sequence = Some(i64::from(tcp.sequence));
                row.tcp_acknowledgement = Some(i64::from(tcp.acknowledgement));
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
        let facts = taken.connection.and_then(|slot| self.flow.connection(slot));
        row.connection_id = facts.map(connection_id);
        self.operations.sink_mut().packet(&self.packet);
    }
}

/// What a driver does between bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Go on.
    Continue,
    /// End as if the input had ended here.
    Stop,
}

/// Frames a burst: enough to pay for the turn, few enough to stay in the first-level cache with their headers.
const BURST_FRAMES: usize = 256;

/// Drives a pipeline from a port until its end, until `frames_max` frames, or until `between` says so.
/// Returns the port's errors: an input that fails ends there, and the others go on.
pub fn run<P: Port, S: RecordSink>(
    port: &mut P,
    pipeline: &mut Pipeline<S>,
    frames_max: u64,
    mut between: impl FnMut(&P, &mut Pipeline<S>) -> Step,
) -> Vec<PortError> {
    let mut burst = Burst::with_capacity(BURST_FRAMES);
    let mut errors = Vec::new();
    loop {
        let left = frames_max - pipeline.counters.value(Counter::FramesReceived);
        if left == 0 {
            return errors;
        }
        let received = port.receive(
            &mut burst,
            BURST_FRAMES.min(usize::try_from(left).unwrap_or(BURST_FRAMES)),
        );
        pipeline.on_burst(&mut burst);
        match received {
            Ok(Received::End) => return errors,
            Ok(Received::PoolEmpty) => pipeline.spill(),
            Ok(Received::Frames(_) | Received::Interrupted) => {}
            Err(error) => errors.push(error),
        }
        if between(port, pipeline) == Step::Stop {
            return errors;
        }
    }
}
