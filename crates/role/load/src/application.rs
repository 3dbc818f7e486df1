//! The interface between a transport and what makes or answers load: callbacks that never block,
//! and calls that the transport makes when the callback has returned.

use std::net::IpAddr;

use lineside_frame::Chunk;
use lineside_time::{Nanoseconds, TimerId, Wheel};
use serde::{Deserialize, Serialize};

/// A connection of a transport: a small number, given again after the connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u32);

/// A socket of datagrams: a small number, given again after the socket is unbound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SocketId(pub u32);

/// An address and port.
pub type End = (IpAddr, u16);

/// Why a connection is over, or never was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Both ends had sent everything.
    Finished,
    /// The peer reset it.
    Reset,
    /// Nobody listens there.
    Refused,
    /// The peer did not answer.
    TimedOut,
    /// Nobody is there, as the network or the kernel says.
    Unreachable,
    /// This end ended it.
    Aborted,
    /// All local ports are in use.
    NoPort,
    /// The process may open no more descriptors.
    NoDescriptor,
    /// A bound on memory was reached.
    NoRoom,
    /// Anything else that the kernel reported.
    Other,
}

/// How this end ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseBy {
    /// By a FIN, after what is ready to be sent.
    #[default]
    Fin,
    /// By a RST, at once: neither end waits in TIME-WAIT.
    Rst,
    /// Not at all: the peer ends it.
    Peer,
}

/// What an application wants done, in order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    Connect {
        local: End,
        remote: End,
        owner: u32,
    },
    Send {
        connection: ConnectionId,
        len: u64,
        due: Option<Nanoseconds>,
    },
    Finish(ConnectionId),
    Close(ConnectionId),
    Abort(ConnectionId),
    Window {
        connection: ConnectionId,
        bytes: u32,
    },
    Bind {
        local: End,
        remote: Option<End>,
        owner: u32,
    },
    Unbind(SocketId),
    Datagram(Outgoing),
}

/// A datagram that is to leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    pub(crate) socket: SocketId,
    pub(crate) ends: [End; 2],
    pub(crate) len: u32,
    pub(crate) token: u64,
    pub(crate) due: Option<Nanoseconds>,
}

impl Call {
    fn connection(&self) -> Option<ConnectionId> {
        match *self {
            Self::Connect { .. } | Self::Bind { .. } | Self::Unbind(_) | Self::Datagram(_) => None,
            Self::Finish(connection) | Self::Close(connection) | Self::Abort(connection) => {
                Some(connection)
            }
            Self::Send { connection, .. } | Self::Window { connection, .. } => Some(connection),
        }
    }

    fn socket(&self) -> Option<SocketId> {
        match *self {
            Self::Unbind(socket) | Self::Datagram(Outgoing { socket, .. }) => Some(socket),
            _ => None,
        }
    }
}

/// What an application asks its transport for. Calls are made in order, soon after the callback has
/// returned; a connection that is over by then ignores them.
#[derive(Debug, Default)]
pub struct Calls {
    now: Nanoseconds,
    /// Each with the number of connections that had had its connection's number before.
    pub(crate) list: Vec<(Call, u8)>,
    pub(crate) wheel: Wheel,
    /// By the number of a connection, how many are over that had it, as far as 8 bits show it. A
    /// call is made soon: no number is given again so often until then.
    over: Vec<u8>,
    /// The same of sockets of datagrams.
    unbound: Vec<u8>,
}

impl Calls {
    /// The time: of the event that is reported, where the transport knows it.
    pub fn now(&self) -> Nanoseconds {
        self.now
    }

    fn push(&mut self, connection: ConnectionId, call: Call) {
        self.list.push((call, self.generation(connection)));
    }

    fn generation(&self, ConnectionId(number): ConnectionId) -> u8 {
        self.over.get(number as usize).copied().unwrap_or(0)
    }

    fn generation_of_socket(&self, SocketId(number): SocketId) -> u8 {
        self.unbound.get(number as usize).copied().unwrap_or(0)
    }

    /// Whether the connection that a call is about is not over yet.
    pub(crate) fn holds(&self, call: &Call, generation: u8) -> bool {
        let (connection, socket) = (call.connection(), call.socket());
        connection.is_none_or(|connection| self.generation(connection) == generation)
            && socket.is_none_or(|socket| self.generation_of_socket(socket) == generation)
    }

    /// A connection is over: calls about it that are still queued are of no other one that gets its
    /// number.
    pub(crate) fn on_over(&mut self, ConnectionId(number): ConnectionId) {
        count_in(&mut self.over, number);
    }

    /// The same of a socket of datagrams.
    pub(crate) fn on_unbound(&mut self, SocketId(number): SocketId) {
        count_in(&mut self.unbound, number);
    }

    pub(crate) fn set_now(&mut self, now: Nanoseconds) {
        self.now = now;
    }

    /// Opens a connection from an address (any if unspecified) and port (any if 0) to another end.
    /// The callbacks about it have `owner`; [`on_open`](Application::on_open) or
    /// [`on_close`](Application::on_close) says what came of it.
    pub fn connect(&mut self, local: End, remote: End, owner: u32) {
        let call = Call::Connect {
            local,
            remote,
            owner,
        };
        self.list.push((call, 0));
    }

    /// `len` more bytes of the stream are ready, to leave at `due` or at once. They are asked for
    /// by [`fill`](Application::fill) when they are sent.
    pub fn send(&mut self, connection: ConnectionId, len: u64, due: Option<Nanoseconds>) {
        let call = Call::Send {
            connection,
            len,
            due,
        };
        self.push(connection, call);
    }

    /// A FIN follows what is ready; the peer may go on sending.
    pub fn finish(&mut self, connection: ConnectionId) {
        self.push(connection, Call::Finish(connection));
    }

    /// A FIN follows what is ready, and nothing more is taken.
    pub fn close(&mut self, connection: ConnectionId) {
        self.push(connection, Call::Close(connection));
    }

    /// Ends a connection at once, by a RST.
    pub fn abort(&mut self, connection: ConnectionId) {
        self.push(connection, Call::Abort(connection));
    }

    /// The application takes this many more bytes of a connection, and no others until the next
    /// such call; with `u32::MAX` it takes whatever comes.
    pub fn set_window(&mut self, connection: ConnectionId, bytes: u32) {
        self.push(connection, Call::Window { connection, bytes });
    }

    /// Takes datagrams at an address (all if unspecified) and port (any if 0), from one other end
    /// alone if `remote` is given. The callbacks about the socket have `owner`;
    /// [`on_bound`](Application::on_bound) or [`on_bind_failed`](Application::on_bind_failed) says
    /// what came of it.
    pub fn bind(&mut self, local: End, remote: Option<End>, owner: u32) {
        let call = Call::Bind {
            local,
            remote,
            owner,
        };
        self.list.push((call, 0));
    }

    /// Takes no more datagrams. Those of the socket that have not left may never leave, and nothing
    /// more is reported of them.
    pub fn unbind(&mut self, socket: SocketId) {
        let generation = self.generation_of_socket(socket);
        self.list.push((Call::Unbind(socket), generation));
    }

    /// A datagram of `len` bytes is to leave a socket, from our end to the other one, at `due` or
    /// at once. Its bytes are asked for once by [`fill_datagram`](Application::fill_datagram);
    /// then, unless the socket is unbound before,
    /// [`on_datagram_departed`](Application::on_datagram_departed) or
    /// [`on_datagram_unsent`](Application::on_datagram_unsent) reports its fate, by the
    /// application's `token`.
    pub fn datagram(
        &mut self,
        socket: SocketId,
        ends: [End; 2],
        len: u32,
        token: u64,
        due: Option<Nanoseconds>,
    ) {
        let generation = self.generation_of_socket(socket);
        let outgoing = Outgoing {
            socket,
            ends,
            len,
            token,
            due,
        };
        self.list.push((Call::Datagram(outgoing), generation));
    }

    /// [`on_task`](Application::on_task) is called with `task` at `at`, or as soon after it as the
    /// loop looks.
    pub fn schedule(&mut self, at: Nanoseconds, task: u32) -> TimerId {
        self.wheel.insert(at, task)
    }

    /// Cancels a pending task.
    pub fn cancel(&mut self, timer: TimerId) {
        self.wheel.cancel(timer);
    }
}

fn count_in(generations: &mut Vec<u8>, number: u32) {
    let number = number as usize;
    if generations.len() <= number {
        generations.resize(number + 1, 0);
    }
    generations[number] = generations[number].wrapping_add(1);
}

/// What makes or answers load over the connections and datagrams of a transport. No callback
/// blocks, and none calls back into the transport: an application queues what it wants in
/// [`Calls`].
///
/// `owner` is the number that [`Calls::connect`] or [`Calls::bind`] gave; for connections that a
/// listener took, it is the listener's.
pub trait Application {
    /// Whether bytes are acknowledged when the peer's TCP has them, and no sooner. Otherwise a
    /// transport that keeps a copy of them may say so at once.
    const WANTS_ACKNOWLEDGEMENTS: bool = false;

    /// A connection is open: our end, and the peer's.
    fn on_open(&mut self, connection: ConnectionId, owner: u32, ends: [End; 2], calls: &mut Calls);

    /// The next bytes of the peer's stream, where they lie.
    fn on_bytes(
        &mut self,
        connection: ConnectionId,
        owner: u32,
        chunk: Chunk<'_>,
        calls: &mut Calls,
    );

    /// So many more bytes will never be asked for again.
    fn on_acknowledged(
        &mut self,
        connection: ConnectionId,
        owner: u32,
        bytes: u64,
        calls: &mut Calls,
    );

    /// The peer has no more data.
    fn on_end(&mut self, connection: ConnectionId, owner: u32, calls: &mut Calls);

    /// A connection is over; without a number it was never one.
    fn on_close(
        &mut self,
        connection: Option<ConnectionId>,
        owner: u32,
        reason: Reason,
        calls: &mut Calls,
    );

    /// A scheduled task is due; it was meant for `at`.
    fn on_task(&mut self, at: Nanoseconds, task: u32, calls: &mut Calls);

    /// Writes the bytes of a stream from `offset` on. They may be asked for more than once.
    fn fill(&mut self, connection: ConnectionId, owner: u32, offset: u64, bytes: &mut [u8]);

    /// Bytes of a stream up to the offset `until` left, for the first time or again, at `sent_ns`.
    fn on_departed(
        &mut self,
        _connection: ConnectionId,
        _owner: u32,
        _until: u64,
        _sent_ns: Nanoseconds,
    ) {
    }

    /// A socket takes datagrams; `local` is its address and port.
    fn on_bound(&mut self, _socket: SocketId, _owner: u32, _local: End, _calls: &mut Calls) {}

    /// A socket cannot be had.
    fn on_bind_failed(&mut self, _owner: u32, _reason: Reason, _calls: &mut Calls) {}

    /// A datagram came, from the other end to ours, at `at` as the port or the kernel saw it.
    fn on_datagram(
        &mut self,
        _socket: SocketId,
        _owner: u32,
        _ends: [End; 2],
        _at: Nanoseconds,
        _chunk: Chunk<'_>,
        _calls: &mut Calls,
    ) {
    }

    /// Writes a datagram, which leaves at `leaves_ns` as far as that is known now: when it is due,
    /// or at once.
    fn fill_datagram(
        &mut self,
        _owner: u32,
        _token: u64,
        _leaves_ns: Nanoseconds,
        _bytes: &mut [u8],
    ) {
    }

    /// A datagram left at `sent_ns`; `None`: it waits for its neighbour's address, or was dropped
    /// for want of it.
    fn on_datagram_departed(
        &mut self,
        _owner: u32,
        _token: u64,
        _sent_ns: Option<Nanoseconds>,
        _calls: &mut Calls,
    ) {
    }

    /// A datagram will never leave.
    fn on_datagram_unsent(
        &mut self,
        _owner: u32,
        _token: u64,
        _reason: Reason,
        _calls: &mut Calls,
    ) {
    }

    /// The network reports of a datagram between these ends that it did not arrive. Which one it
    /// was is not known, and errors are few: RFC 1812, 4.3.2.8.
    fn on_datagram_error(
        &mut self,
        _socket: SocketId,
        _owner: u32,
        _reason: Reason,
        _calls: &mut Calls,
    ) {
    }
}
