use lineside_account::Counters;
use lineside_frame::Chunk;
use lineside_wire::Direction;

use crate::connection::Connection;
use crate::counts::FlowCounts;

/// What a connection is worth to a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// Nothing is known of it.
    None,
    /// It may carry what the sink is there for.
    Likely,
    /// It does. That it is worth less later is not noticed.
    Proven,
}

/// Takes streams, datagrams and what is known of connections. `connection` is the slot of a
/// connection: small numbers, reused after [`StreamSink::on_close`].
pub trait StreamSink {
    /// What comes next happens at `now`, which never goes back.
    fn on_time(&mut self, _now: i64) {}
    /// Bytes that the sink takes for each connection.
    fn connection_bytes(&self) -> usize {
        0
    }
    /// What a connection is worth to the sink: the memory of those that are worth less is used
    /// first.
    fn value(&self, _connection: usize) -> Value {
        Value::None
    }
    /// A connection begins in an unused slot.
    fn on_open(&mut self, connection: usize, facts: &Connection);
    /// The first packet of a connection's second direction has come: both are heard.
    fn on_both_heard(&mut self, _connection: usize) {}
    /// The next bytes of a direction, or a hole. `after_syn`: they are the first of the connection.
    fn on_stream(
        &mut self,
        connection: usize,
        direction: Direction,
        after_syn: bool,
        chunk: Chunk<'_>,
        counters: &mut Counters,
    );
    /// A datagram, its payload in order, holes included.
    fn on_datagram(
        &mut self,
        connection: usize,
        direction: Direction,
        chunks: &[Chunk<'_>],
        counters: &mut Counters,
    );
    /// A hole in a stream became known: the same one that `on_stream` takes.
    fn on_loss(
        &mut self,
        connection: usize,
        facts: &Connection,
        direction: Direction,
        offset: i64,
        hole: Chunk<'_>,
    );
    /// A segment comes, at `until_ns`, whose bytes were sent again: they begin `from` bytes after
    /// what was delivered of the stream (before its end, if negative). `since_ns`: when later bytes
    /// came, which wait for them; `None`, if the tap had seen them, and they were lost behind it.
    fn on_sent_again(
        &mut self,
        _connection: usize,
        _direction: Direction,
        _from: i64,
        _since_ns: Option<i64>,
        _until_ns: i64,
    ) {
    }
    /// An acknowledgement of what a direction sent came at `at_ns` and late: until then, from
    /// `since_ns` on, when its last bytes left, TCP may have kept back what it had to send. What
    /// leaves within `within_ns` then, a round trip, was kept back.
    fn on_late_acknowledgement(
        &mut self,
        _connection: usize,
        _direction: Direction,
        _since_ns: i64,
        _at_ns: i64,
        _within_ns: i64,
    ) {
    }
    /// What a connection did in the interval that begins at `start_ns`.
    fn on_interval(
        &mut self,
        connection: usize,
        facts: &Connection,
        start_ns: i64,
        counts: &[FlowCounts; 2],
    );
    /// A connection was reset, or a side has ended it by FIN, the other perhaps not yet; packets of
    /// it may still come.
    fn on_end(&mut self, _connection: usize, _is_reset: bool) {}
    /// Nothing more comes of this connection.
    fn on_close(&mut self, connection: usize, facts: &Connection, counters: &mut Counters);
}
